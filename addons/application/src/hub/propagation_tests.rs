use ocm_addon_sdk::ocm_api::{apps::labels, object::ObjectReference};
use serde_json::Value;

use super::{super::sources::SourceObject, *};

const NOW: &str = "2026-01-01T00:00:00Z";

fn of<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn summary(objects: usize) -> SourceSummary {
    let object = SourceObject {
        reference: ObjectReference::default(),
        is_cluster_scoped: false,
    };
    SourceSummary {
        revision: "0123456789".to_owned(),
        objects: vec![object; objects],
        ..SourceSummary::default()
    }
}

fn seen(placement: Value, clusters: &[(&str, bool)]) -> Seen {
    let labels = json!({"app": "s", "app.kubernetes.io/part-of": "s"});
    let annotations = json!({annotations::GIT_CURRENT_COMMIT: "0123456789"});
    let metadata = json!({
        "name": "s", "namespace": "ns", "uid": "u", "generation": 1, "labels": labels, "annotations": annotations,
    });
    let spec = json!({"channel": "ch/c", "placement": placement});
    Seen {
        now: NOW.parse().unwrap(),
        begun: Instant::now(),
        subscription: Some(of(json!({"metadata": metadata, "spec": spec}))),
        channel: Some(of(json!({
            "metadata": {"name": "c", "namespace": "ch"}, "spec": {"type": "Git", "pathname": "https://x"},
        }))),
        secondary: None,
        filter: None,
        is_administrators: false,
        source: SourceState::Read(Arc::new(summary(1))),
        source_again: None,
        clusters: Ok(clusters
            .iter()
            .map(|(name, local)| ((*name).to_owned(), *local))
            .collect()),
        choice_version: "7".to_owned(),
        works: Vec::new(),
        statuses: Vec::new(),
        cluster_reports: BTreeMap::new(),
        report: None,
        jobs: Ok(Vec::new()),
    }
}

fn chosen() -> Value {
    json!({"placementRef": {"kind": "Placement", "name": "p"}})
}

fn change(seen: &mut Seen, change: impl FnOnce(&mut Subscription)) {
    let mut new = seen.subscription.as_deref().unwrap().clone();
    change(&mut new);
    seen.subscription = Some(Arc::new(new));
}

/// As if the works had been written.
fn written(seen: &mut Seen) {
    let subscription = seen.subscription.as_deref().unwrap();
    for (cluster, is_local) in seen.clusters.as_ref().unwrap() {
        let all = payload::manifests(subscription, None, *is_local);
        let work = payload::work(None, cluster, subscription, &all);
        seen.works.push(Arc::new(work));
    }
}

fn printed(seen: &Seen) -> String {
    format!("{}", SubscriptionPropagation::plan(seen)).trim().to_owned()
}

/// The status as the conclusion writes it.
fn status(seen: &Seen) -> String {
    let plan = SubscriptionPropagation::conclude(seen, &Outcome::default());
    format!("{plan:#}").trim().to_owned()
}

fn told(phase: &str, reason: &str) -> String {
    let reason = match reason {
        "" => String::new(),
        reason => format!(r#","reason":{}"#, json!(reason)),
    };
    let status = format!(r#"{{"lastUpdateTime":"{NOW}","message":"Active","phase":"{phase}"{reason}}}"#);
    format!(r#"hub: patch Subscription ns/s status {{"status":{status}}}"#)
}

#[test]
fn each_chosen_cluster_gets_a_work() {
    let mut all = seen(chosen(), &[("c1", false), ("hub", true)]);
    assert_eq!(
        printed(&all),
        "hub: create ManifestWork c1/ns-s\nhub: create ManifestWork hub/ns-s"
    );
    let text = format!("{:#}", SubscriptionPropagation::plan(&all));
    assert!(text.contains(r#""name":"s-local""#), "{text}");
    assert_eq!(status(&all), told("Propagated", ""));
    written(&mut all);
    assert_eq!(printed(&all), "nothing to do");
}

#[test]
fn a_cluster_that_is_not_chosen_any_more_is_left() {
    let mut all = seen(chosen(), &[("c1", false), ("c2", false)]);
    written(&mut all);
    all.clusters = Ok([("c1".to_owned(), false)].into());
    let labels = json!({labels::HOSTING_SUBSCRIPTION: "ns.s"});
    for cluster in ["c1", "c2"] {
        all.statuses.push(of(
            json!({"metadata": {"name": "s", "namespace": cluster, "labels": labels}}),
        ));
    }
    let expected = "stage 1\nhub: delete ManifestWork c2/ns-s\nhub: delete SubscriptionStatus c2/s\nstage 2\n\
                    hub: event Normal Delete in ns \"Delete Expired ManifestWork c2/ns-s\"";
    let text = format!("{:#}", SubscriptionPropagation::plan(&all));
    assert_eq!(text.trim(), expected);
}

#[test]
fn what_the_hub_says_of_a_subscription_is_corrected() {
    let mut all = seen(chosen(), &[]);
    change(&mut all, |it| {
        it.metadata.annotations = Some([(annotations::CLUSTER_ADMIN.to_owned(), "true".to_owned())].into());
        it.metadata.labels = None;
    });
    let text = format!("{:#}", SubscriptionPropagation::plan(&all));
    let expected = r#"hub: patch Subscription ns/s {"metadata":{"annotations":{"apps.open-cluster-management.io/cluster-admin":null,"apps.open-cluster-management.io/git-current-commit":"0123456789"},"labels":{"app":"s","app.kubernetes.io/part-of":"s"}}}"#;
    assert_eq!(text.trim(), expected);
}

#[test]
fn a_placement_is_said_in_one_way() {
    let mut none = seen(json!(null), &[]);
    written(&mut none);
    assert_eq!(status(&none), told("PropagationFailed", "Placement must be specified"));
    let both = seen(json!({"local": true, "clusters": [{"name": "c1"}]}), &[]);
    let why = "local placement and remote placement cannot be used together";
    assert_eq!(status(&both), told("PropagationFailed", why));
}

#[test]
fn a_local_subscription_leaves_its_clusters() {
    let mut all = seen(json!({"local": true}), &[("c1", false)]);
    written(&mut all);
    change(&mut all, |it| {
        it.status.get_or_insert_default().phase = "Propagated".to_owned()
    });
    assert_eq!(printed(&all), "hub: delete ManifestWork c1/ns-s");
    let cleared =
        r#"hub: patch Subscription ns/s status {"status":{"lastUpdateTime":"2026-01-01T00:00:00Z","phase":null}}"#;
    assert_eq!(status(&all), cleared);
    change(&mut all, |it| {
        it.status.get_or_insert_default().phase = "Subscribed".to_owned()
    });
    assert_eq!(status(&all), "nothing to do");
}

#[test]
fn the_copy_of_another_hub_is_left_alone() {
    let mut all = seen(json!({"local": true}), &[("c1", false)]);
    written(&mut all);
    change(&mut all, |it| {
        let hosting = (annotations::HOSTING_SUBSCRIPTION.to_owned(), "ns/s".to_owned());
        it.metadata.annotations.get_or_insert_default().extend([hosting]);
        it.status.get_or_insert_default().phase = "Propagated".to_owned();
    });
    assert_eq!(
        (printed(&all), status(&all)),
        ("nothing to do".into(), "nothing to do".into())
    );
}

#[test]
fn a_source_that_cannot_be_read_changes_nothing_on_clusters() {
    let mut all = seen(chosen(), &[("c1", false)]);
    written(&mut all);
    all.clusters = Ok(BTreeMap::new());
    all.source = SourceState::Unreadable("no route".to_owned());
    all.source_again = Some(Duration::from_secs(5));
    let why = "failed to initialize Git connection, err: no route";
    assert_eq!(printed(&all), format!("nothing to do\nrefuses: {why}\nagain in 5s"));
    assert_eq!(status(&all), told("PropagationFailed", why));
}

#[test]
fn channels_are_there_and_of_one_type() {
    let mut all = seen(chosen(), &[]);
    change(&mut all, |it| it.spec.secondary_channel = "ch/d".to_owned());
    let missing = |name: &str| format!("channels.apps.open-cluster-management.io \"{name}\" not found");
    assert_eq!(status(&all), told("PropagationFailed", &missing("d")));
    all.secondary = Some(of(
        json!({"metadata": {}, "spec": {"type": "HelmRepo", "pathname": "https://x"}}),
    ));
    let why = "the type of primary and secondary channels is different. primary channel type: Git, secondary channel \
               type: HelmRepo";
    assert_eq!(status(&all), told("PropagationFailed", why));
    all.channel = None;
    assert_eq!(status(&all), told("PropagationFailed", &missing("c")));
}

#[test]
fn an_empty_source_goes_nowhere() {
    let mut all = seen(chosen(), &[("c1", false)]);
    all.source = SourceState::Read(Arc::new(summary(0)));
    assert_eq!(printed(&all), "nothing to do\nnote: its source holds nothing to deploy");
    assert_eq!(status(&all), told("Propagated", ""));
    all.source = SourceState::Skipped;
    assert_eq!(printed(&all), "hub: create ManifestWork c1/ns-s");
}

#[test]
fn jobs_before_a_subscription_end_first() {
    let mut all = seen(chosen(), &[("c1", false)]);
    let job = |name: &str| json!({"apiVersion": "tower.ansible.com/v1alpha1", "kind": "AnsibleJob", "metadata": {"name": name}});
    all.source = SourceState::Read(Arc::new(SourceSummary {
        pre_hooks: vec![job("before")],
        post_hooks: vec![job("after")],
        ..summary(1)
    }));
    let waits = "hub: create AnsibleJob ns/before-1-012345\nwaits: AnsibleJobs before it have not ended";
    assert_eq!(printed(&all), waits);
    let text = status(&all);
    let reason = r#""ansiblejobs":{"lastprehookjob":"ns/before-1-012345"}"#;
    assert!(
        text.contains(reason) && text.contains("prehook for ns/s is not ready "),
        "{text}"
    );
    let annotations = json!({
        annotations::HOSTING_SUBSCRIPTION: "ns/s", annotations::HOOK_TYPE: "prehook",
        annotations::HOOK_TEMPLATE: "ns/before",
    });
    all.jobs = Ok(vec![of(json!({
        "metadata": {"name": "before-1-012345", "namespace": "ns", "annotations": annotations},
        "spec": {"extra_vars": {"target_clusters": ["c1"]}}, "status": {"ansibleJobResult": {"status": "successful"}},
    }))]);
    assert_eq!(printed(&all), "hub: create ManifestWork c1/ns-s");
    written(&mut all);
    assert_eq!(printed(&all), "nothing to do");
    change(&mut all, |it| {
        it.status.get_or_insert_default().phase = "Propagated".to_owned()
    });
    let summary = json!({"clusters": "1", "deployed": "1"});
    all.report = Some(of(
        json!({"metadata": {}, "reportType": "Application", "summary": summary}),
    ));
    assert_eq!(printed(&all), "hub: create AnsibleJob ns/after-1-012345");
    all.jobs = Err("the CustomResourceDefinition ansiblejobs.tower.ansible.com is not installed".to_owned());
    let text = status(&all);
    assert!(
        text.contains("failed to register hooks, err: the CustomResourceDefinition"),
        "{text}"
    );
}

#[test]
fn a_deleted_subscription_takes_its_works_along() {
    let mut all = seen(chosen(), &[("c1", false)]);
    written(&mut all);
    all.subscription = None;
    assert_eq!(printed(&all), "hub: delete ManifestWork c1/ns-s");
}

#[test]
fn a_time_window_is_told_and_looked_at_again() {
    let mut all = seen(chosen(), &[]);
    change(&mut all, |it| {
        it.spec.timewindow = Some(
            serde_json::from_value(json!({
                "windowtype": "active", "hours": [{"start": "01:00AM", "end": "02:00AM"}],
            }))
            .unwrap(),
        );
    });
    assert_eq!(printed(&all), "nothing to do\nagain in 3600s");
    assert!(status(&all).contains(r#""message":"Blocked""#));
}

#[test]
fn thousands_of_clusters_are_planned_and_then_left_alone() {
    let names: Vec<_> = (0..5000).map(|it| format!("c{it}")).collect();
    let clusters: Vec<_> = names.iter().map(|it| (it.as_str(), false)).collect();
    let mut all = seen(chosen(), &clusters);
    assert_eq!(SubscriptionPropagation::plan(&all).len(), 5000);
    written(&mut all);
    assert!(SubscriptionPropagation::plan(&all).is_empty());
}
