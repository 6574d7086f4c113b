use ocm_addon_sdk::reconcile::async_trait;

use super::*;

/// Reads what it is told, and counts.
struct Told {
    revision: Mutex<Result<String, String>>,
    reads: Mutex<usize>,
}

impl Told {
    fn at_first() -> Self {
        Self {
            revision: Mutex::new(Ok("1".to_owned())),
            reads: Mutex::default(),
        }
    }
}

#[async_trait]
impl SourceReader for Told {
    async fn read(
        &self,
        _: &Subscription,
        _: &SourceInputs,
        known: Option<&str>,
    ) -> Result<Option<SourceContent>, String> {
        *self.reads.lock() += 1;
        let revision = self.revision.lock().clone()?;
        if known == Some(revision.as_str()) {
            return Ok(None);
        }
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "as.x.io"},
            "spec": {"group": "x.io", "scope": "Cluster", "names": {"kind": "A"}},
        });
        let defined = json!({"apiVersion": "x.io/v1", "kind": "A", "metadata": {"name": "b"}});
        Ok(Some(SourceContent {
            revision,
            objects: vec![object.clone(), object, definition, defined],
            ..SourceContent::default()
        }))
    }
}

fn subscription(annotations: Value) -> Subscription {
    let metadata = json!({"name": "s", "namespace": "ns", "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"channel": "ch/c"}})).unwrap()
}

fn channel(kind: &str, rate: Option<&str>) -> Arc<Channel> {
    let annotations = rate.map(|it| json!({annotations::RECONCILE_RATE: it}));
    let metadata = json!({"name": "c", "namespace": "ch", "annotations": annotations});
    let spec = json!({"type": kind, "pathname": "https://x"});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
}

async fn look(sources: &SubscriptionSources, subscription: &Subscription, channel: &Arc<Channel>) -> SourceState {
    sources.look("ns/s", subscription, (channel, None), None).await.0
}

#[tokio::test]
async fn a_source_is_read_once_until_something_changes() {
    let told = Arc::new(Told::at_first());
    let sources = SubscriptionSources::new(told.clone(), None);
    let channel = channel("Git", None);
    let first = look(&sources, &subscription(json!({})), &channel).await;
    let SourceState::Read(summary) = &first else {
        panic!("{first:?}")
    };
    let names: Vec<_> = summary
        .objects
        .iter()
        .map(|it| (it.reference.name.as_str(), it.is_cluster_scoped))
        .collect();
    assert_eq!(names, [("a", false), ("as.x.io", false), ("b", true)]);
    assert_eq!(
        look(&sources, &subscription(json!({"other": "1"})), &channel).await,
        first
    );
    assert_eq!(*told.reads.lock(), 1);
    let told_of = subscription(json!({annotations::WEBHOOK_EVENT_COUNT: "1"}));
    look(&sources, &told_of, &channel).await;
    assert_eq!(*told.reads.lock(), 2);
}

#[tokio::test]
async fn a_failure_is_told_and_tried_again_later() {
    let told = Arc::new(Told::at_first());
    let sources = SubscriptionSources::new(told.clone(), None);
    let channel = channel("Git", None);
    look(&sources, &subscription(json!({})), &channel).await;
    *told.revision.lock() = Err("no route".to_owned());
    let elsewhere = subscription(json!({annotations::GIT_BRANCH: "b"}));
    let (state, again) = sources.look("ns/s", &elsewhere, (&channel, None), None).await;
    assert_eq!(state, SourceState::Unreadable("no route".to_owned()));
    assert!(again.is_some_and(|it| it <= RETRY_MIN));
    let (state, _) = sources.look("ns/s", &elsewhere, (&channel, None), None).await;
    assert_eq!(state, SourceState::Unreadable("no route".to_owned()));
    assert_eq!(*told.reads.lock(), 2);
}

#[test]
fn the_channel_says_how_often_a_source_is_read() {
    let rate_of = |kind: &str, of_channel: Option<&str>, off: Value| {
        let rate = rate(&subscription(off), &channel(kind, of_channel));
        (rate.interval.map(|it| it.as_secs()), rate.retry_max.as_secs())
    };
    assert_eq!(rate_of("Git", None, json!({})), (Some(180), 90));
    assert_eq!(rate_of("HelmRepo", Some("medium"), json!({})), (Some(900), 90));
    assert_eq!(rate_of("Git", Some("Low"), json!({})), (Some(3600), 180));
    assert_eq!(rate_of("ObjectBucket", Some("high"), json!({})), (Some(120), 60));
    assert_eq!(rate_of("Git", Some("off"), json!({})).0, None);
    assert_eq!(
        rate_of("Git", Some("high"), json!({annotations::RECONCILE_RATE: "off"})).0,
        None
    );
    assert_eq!(
        rate_of("Git", Some("low"), json!({annotations::RECONCILE_RATE: "high"})).0,
        Some(3600)
    );
}
