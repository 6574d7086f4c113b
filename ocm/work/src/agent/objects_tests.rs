use serde_json::json;

use super::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey {
        version: "v1".into(),
        resource: "configmaps".into(),
        namespace: "default".into(),
        name: name.into(),
        ..Default::default()
    }
}

fn served() -> Served {
    (String::new(), "v1".into(), "configmaps".into())
}

fn object(name: &str, uid: &str, version: &str) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": version}
    }))
    .unwrap()
}

/// An API that answers nothing, so that only what a test says happens.
fn objects() -> WatchedObjects {
    let never = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
    });
    WatchedObjects::new(Client::new(never, "default"), Queue::new(), CancellationToken::new())
}

fn follow(objects: &WatchedObjects, work: &str, names: &[&str]) {
    objects.follow(work, names.iter().map(|it| key(it)).collect());
}

#[tokio::test]
async fn an_unlisted_object_is_absent_and_a_later_one_unknown() {
    let objects = objects();
    let start = Instant::now();
    follow(&objects, "w", &["a", "b"]);
    objects.list_begins(&served());
    objects.seen(&served(), &object("a", "1", "5"));
    follow(&objects, "v", &["c"]);
    objects.list_ends(&served());
    assert!(objects.look(&key("a"), start).object().is_some());
    assert_eq!(objects.look(&key("b"), start), Live::Absent);
    assert_eq!(objects.look(&key("c"), start), Live::Unknown);
    assert_eq!(objects.queue.len(), 1);
}

#[tokio::test]
async fn own_writes_cause_no_event_and_older_lists_are_ignored() {
    let objects = objects();
    let start = Instant::now();
    follow(&objects, "w", &["a"]);
    objects.list_begins(&served());
    objects.learn(
        "w",
        &key("a"),
        Some(serde_json::to_value(object("a", "1", "9")).unwrap()),
    );
    objects.list_ends(&served());
    assert!(objects.look(&key("a"), start).object().is_some());
    objects.seen(&served(), &object("a", "1", "9"));
    objects.seen(&served(), &object("a", "1", "8"));
    assert!(objects.queue.is_empty());
    objects.seen(&served(), &object("a", "1", "10"));
    assert_eq!(objects.queue.len(), 1);
}

#[tokio::test]
async fn the_deletion_of_an_earlier_object_keeps_its_successor() {
    let objects = objects();
    let start = Instant::now();
    follow(&objects, "w", &["a"]);
    objects.list_begins(&served());
    objects.seen(&served(), &object("a", "2", "9"));
    objects.list_ends(&served());
    objects.gone(&served(), &object("a", "1", "8"));
    assert!(objects.look(&key("a"), start).object().is_some());
    objects.gone(&served(), &object("a", "2", "10"));
    assert_eq!(objects.look(&key("a"), start), Live::Absent);
}

#[tokio::test]
async fn a_response_after_an_objects_deletion_does_not_restore_it() {
    let objects = objects();
    let start = Instant::now();
    follow(&objects, "w", &["a"]);
    objects.list_begins(&served());
    objects.seen(&served(), &object("a", "1", "5"));
    objects.list_ends(&served());
    // It was deleted, which it answered with a state of its own; that was long over when the answer had come.
    objects.gone(&served(), &object("a", "1", "7"));
    objects.learn(
        "w",
        &key("a"),
        Some(serde_json::to_value(object("a", "1", "6")).unwrap()),
    );
    assert_eq!(objects.look(&key("a"), start), Live::Absent);
    // Another of the name is another.
    objects.learn(
        "w",
        &key("a"),
        Some(serde_json::to_value(object("a", "2", "8")).unwrap()),
    );
    assert!(objects.look(&key("a"), start).object().is_some());
}

#[tokio::test]
async fn what_is_not_served_any_more_is_not_there() {
    let objects = objects();
    let start = Instant::now();
    follow(&objects, "w", &["a"]);
    objects.list_begins(&served());
    objects.seen(&served(), &object("a", "1", "5"));
    objects.list_ends(&served());
    let heard = objects.queue.len();
    let status = json!({"status": "Failure", "message": "404 page not found", "reason": "NotFound", "code": 404});
    let status: Box<kube::core::Status> = serde_json::from_value(status).unwrap();
    let error = watcher::Error::WatchStartFailed(kube::Error::Api(status));
    for _ in 0..2 {
        objects.lost(&served(), &error);
        assert_eq!(objects.look(&key("a"), start), Live::Absent);
        assert_eq!(objects.queue.len(), heard.max(1));
    }
    // Served again, the watch goes on where it stopped.
    objects.seen(&served(), &object("a", "1", "9"));
    assert!(objects.look(&key("a"), start).object().is_some());
}

#[tokio::test]
async fn an_object_is_kept_while_a_work_follows_it() {
    let objects = objects();
    follow(&objects, "w", &["a"]);
    follow(&objects, "v", &["a"]);
    follow(&objects, "w", &[]);
    assert_eq!(objects.state.lock().entries.len(), 1);
    follow(&objects, "v", &[]);
    assert_eq!(objects.state.lock().entries.len(), 0);
    objects.rest(Duration::ZERO);
    assert!(objects.state.lock().watches.is_empty());
}

#[tokio::test]
async fn a_writer_that_keeps_reverting_us_is_answered_more_slowly() {
    let objects = objects();
    follow(&objects, "w", &["a"]);
    let write_as = |hash: &str, version: u32| {
        objects.wrote(
            "w",
            &key("a"),
            LastWrite {
                hash: hash.into(),
                resource_version: version.to_string(),
            },
            true,
        );
    };
    let write = |version: u32| write_as("h", version);
    (0..20).for_each(write);
    assert_eq!(objects.hold("w", &key("a")), None);
    (20..23).for_each(write);
    let held = objects.hold("w", &key("a")).unwrap();
    assert!(
        held > Duration::from_secs(3) && held <= Duration::from_secs(4),
        "{held:?}"
    );
    // Nobody has objected to other content yet.
    write_as("edited", 23);
    assert_eq!(objects.hold("w", &key("a")), None);
}

#[tokio::test]
async fn a_work_is_reconciled_when_another_writes_a_shared_object() {
    let objects = objects();
    follow(&objects, "w", &["a"]);
    follow(&objects, "v", &["a"]);
    let now = || Some(serde_json::to_value(object("a", "1", "9")).unwrap());
    objects.learn("w", &key("a"), now());
    assert_eq!(objects.queue.len(), 1);
    // The event of it comes later and is no news.
    objects.learn("w", &key("a"), now());
    objects.seen(&served(), &object("a", "1", "9"));
    assert_eq!(objects.queue.len(), 1);
}
