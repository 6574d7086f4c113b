//! Subscriptions on their clusters.

use base64::{Engine, prelude::BASE64_STANDARD};
use ocm_addon_sdk::{
    kube::{Api, ResourceExt, api::DeleteParams, core::DynamicObject},
    ocm_api::apps::SubscriptionReport,
};
use serde_json::{Value, json};
use testkit::wait;

use crate::ground::{CHANNELS, NAMESPACE, SubscriptionHub, by_placement, content, merge, phase};

const PREFIX: &str = "apps.open-cluster-management.io";
const ADMIN: &str = "apps.open-cluster-management.io/cluster-admin";

fn is_propagated(subscription: &ocm_addon_sdk::ocm_api::apps::Subscription) -> bool {
    phase(subscription) == ("Propagated", "")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_is_on_the_clusters_of_its_placement() {
    let hub = SubscriptionHub::start(&["c1", "c2"]).await;
    hub.cluster("c2", json!({"local-cluster": "true"})).await;
    hub.subscribe("s", json!({format!("{PREFIX}/git-path"): "app"})).await;
    let copy = hub
        .copy("c1", "s", "is complete", |it| it["metadata"]["labels"]["app"] == "s")
        .await;
    assert_eq!(
        copy["metadata"]["annotations"],
        json!({
            format!("{PREFIX}/git-path"): "app", format!("{PREFIX}/hosting-subscription"): "ns/s",
            "open-cluster-management.io/user-identity": "", "open-cluster-management.io/user-group": "",
        })
    );
    assert_eq!(
        copy["spec"],
        json!({"channel": format!("{CHANNELS}/c"), "placement": {"local": true}})
    );
    let name = "has its name on the hub";
    hub.copy("c2", "s", name, |it| it["metadata"]["name"] == "s-local")
        .await;
    let own = hub.subscription("s", "is propagated", is_propagated).await;
    assert_eq!(own.status.as_ref().unwrap().message, "Active");
    assert_eq!(own.annotations()[&format!("{PREFIX}/git-current-commit")], "0123456789");
    assert_eq!(own.labels()["app.kubernetes.io/part-of"], "s");
    merge(&hub.subscriptions(), "s", json!({"spec": {"name": "chart"}})).await;
    hub.copy("c1", "s", "follows", |it| it["spec"]["name"] == "chart").await;
    hub.place("all", &["c1"]).await;
    wait::gone(&hub.works("c2"), "ns-s").await;
    let events: Api<DynamicObject> = hub.site.api("events.k8s.io/v1", "Event", NAMESPACE).await;
    let said = "Delete Expired ManifestWork c2/ns-s";
    wait::until_all(&events, "the event", |all| all.iter().any(|it| it.data["note"] == said)).await;
    hub.subscriptions().delete("s", &DeleteParams::default()).await.unwrap();
    wait::gone(&hub.works("c1"), "ns-s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_work_that_somebody_changed_is_put_back() {
    let hub = SubscriptionHub::start(&["c1"]).await;
    hub.subscribe("s", json!({})).await;
    hub.copy("c1", "s", "comes", |_| true).await;
    merge(
        &hub.works("c1"),
        "ns-s",
        json!({"spec": {"workload": {"manifests": []}}}),
    )
    .await;
    hub.copy("c1", "s", "comes back", |_| true).await;
    hub.works("c1").delete("ns-s", &DeleteParams::default()).await.unwrap();
    hub.copy("c1", "s", "comes again", |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_are_chosen_by_names_and_by_labels() {
    let hub = SubscriptionHub::start(&["c1", "c2"]).await;
    hub.subscribe_for("named", json!({}), json!({"clusters": [{"name": "c2"}]}))
        .await;
    hub.copy("c2", "named", "comes", |_| true).await;
    let selector = json!({"clusterSelector": {"matchLabels": {"env": "dev"}}});
    hub.subscribe_for("selected", json!({}), selector).await;
    hub.subscription("selected", "is propagated", is_propagated).await;
    hub.cluster("c1", json!({"env": "dev"})).await;
    hub.copy("c1", "selected", "comes", |_| true).await;
    hub.cluster("c1", json!({"env": "prod"})).await;
    wait::gone(&hub.works("c1"), "ns-selected").await;
    assert!(hub.works("c1").get_opt("ns-named").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_administrators_have_the_rights_of_administrators() {
    let hub = SubscriptionHub::start(&["c1"]).await;
    let by = |user: &str, groups: &str| {
        json!({
            ADMIN: "true", "open-cluster-management.io/user-identity": BASE64_STANDARD.encode(user),
            "open-cluster-management.io/user-group": BASE64_STANDARD.encode(groups),
        })
    };
    hub.subscribe("mallory", by("mallory", "dev")).await;
    hub.subscribe("alice", by("alice", "dev,ops")).await;
    let has = |it: &Value| it["metadata"]["annotations"][ADMIN] == "true";
    for name in ["mallory", "alice"] {
        hub.copy("c1", name, "comes without", |it| !has(it)).await;
        let taken = |it: &ocm_addon_sdk::ocm_api::apps::Subscription| !it.annotations().contains_key(ADMIN);
        hub.subscription(name, "has none", taken).await;
    }
    let name = "open-cluster-management:subscription-admin";
    let group = "rbac.authorization.k8s.io";
    hub.apply(json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "ops"}],
    }))
    .await;
    hub.copy("c1", "alice", "has them", has).await;
    merge(
        &hub.subscriptions(),
        "mallory",
        json!({"metadata": {"annotations": {ADMIN: "true", "x": "y"}}}),
    )
    .await;
    let taken = |it: &ocm_addon_sdk::ocm_api::apps::Subscription| {
        it.annotations().contains_key("x") && !it.annotations().contains_key(ADMIN)
    };
    hub.subscription("mallory", "loses them", taken).await;
    hub.copy("c1", "mallory", "never has them", |it| !has(it)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_placement_that_says_nothing_clear_is_refused() {
    let hub = SubscriptionHub::start(&["c1"]).await;
    hub.subscribe_for("none", json!({}), Value::Null).await;
    let why = ("PropagationFailed", "Placement must be specified");
    hub.subscription("none", "is refused", |it| phase(it) == why).await;
    let mut both = by_placement();
    both["local"] = true.into();
    hub.subscribe_for("both", json!({}), both).await;
    let why = (
        "PropagationFailed",
        "local placement and remote placement cannot be used together",
    );
    hub.subscription("both", "is refused", |it| phase(it) == why).await;
    hub.subscribe_for(
        "odd",
        json!({}),
        json!({"placementRef": {"kind": "Secret", "name": "x"}}),
    )
    .await;
    let is_odd = |it: &ocm_addon_sdk::ocm_api::apps::Subscription| {
        phase(it)
            .1
            .starts_with("unsupported placement reference: &ObjectReference{Kind:Secret,")
    };
    hub.subscription("odd", "is refused", is_odd).await;
    let reports: Api<SubscriptionReport> = Api::namespaced(hub.site.client(), NAMESPACE);
    let told = |it: &SubscriptionReport| it.summary.propagation_failed == "1" && it.summary.clusters == "1";
    wait::until(&reports, "odd", "counts as a failure", |it| it.is_some_and(told)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_becomes_local_leaves_its_clusters() {
    let hub = SubscriptionHub::start(&["c1"]).await;
    hub.subscribe("s", json!({})).await;
    hub.subscription("s", "is propagated", is_propagated).await;
    let local = json!({"spec": {"placement": {"placementRef": null, "local": true}}});
    merge(&hub.subscriptions(), "s", local).await;
    wait::gone(&hub.works("c1"), "ns-s").await;
    hub.subscription("s", "says nothing", |it| phase(it) == ("", "")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_cannot_be_read_leaves_clusters_alone() {
    let hub = SubscriptionHub::start(&["c1"]).await;
    hub.subscribe("s", json!({})).await;
    hub.subscription("s", "is propagated", is_propagated).await;
    *hub.source.content.lock().await = Err("no route to host".to_owned());
    let refresh = |it: &str| json!({"metadata": {"annotations": {format!("{PREFIX}/manual-refresh-time"): it}}});
    merge(&hub.subscriptions(), "s", refresh("1")).await;
    let why = (
        "PropagationFailed",
        "failed to initialize Git connection, err: no route to host",
    );
    hub.subscription("s", "tells why", |it| phase(it) == why).await;
    assert!(hub.works("c1").get_opt("ns-s").await.unwrap().is_some());
    *hub.source.content.lock().await = Ok(content("abcdef0123"));
    merge(&hub.subscriptions(), "s", refresh("2")).await;
    hub.subscription("s", "is propagated again", is_propagated).await;
    let commit = |it: &ocm_addon_sdk::ocm_api::apps::Subscription| {
        it.annotation(&format!("{PREFIX}/git-current-commit")) == Some("abcdef0123")
    };
    hub.subscription("s", "has the commit", commit).await;
    hub.copy("c1", "s", "is told", |it| {
        it["metadata"]["annotations"][format!("{PREFIX}/manual-refresh-time")] == "2"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_that_comes_late_is_read_with_its_secret() {
    let hub = SubscriptionHub::start(&["c1"]).await;
    hub.subscribe("s", json!({})).await;
    hub.subscription("s", "is propagated", is_propagated).await;
    merge(&hub.subscriptions(), "s", json!({"spec": {"channel": "ch/late"}})).await;
    let why = (
        "PropagationFailed",
        "channels.apps.open-cluster-management.io \"late\" not found",
    );
    hub.subscription("s", "waits", |it| phase(it) == why).await;
    let secret = json!({"accessToken": BASE64_STANDARD.encode("pass")});
    hub.apply(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "namespace": CHANNELS}, "data": secret,
    }))
    .await;
    hub.apply(json!({
        "apiVersion": format!("{PREFIX}/v1"), "kind": "Channel",
        "metadata": {"name": "late", "namespace": CHANNELS, "annotations": {format!("{PREFIX}/reconcile-rate"): "high"}},
        "spec": {"type": "Git", "pathname": "https://x", "secretRef": {"name": "token"}},
    }))
    .await;
    hub.subscription("s", "is propagated", is_propagated).await;
    assert_eq!(hub.source.password.lock().await.as_deref(), Some("pass"));
    let rate = |it: &Value| it["metadata"]["labels"][format!("{PREFIX}/reconcile-rate")] == "high";
    hub.copy("c1", "s", "knows the rate", rate).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_is_shut_is_told() {
    let hub = SubscriptionHub::start(&["c1"]).await;
    hub.subscribe("s", json!({})).await;
    hub.subscription("s", "is propagated", is_propagated).await;
    let days = [
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
    ];
    let shut = json!({"spec": {"timewindow": {"windowtype": "blocked", "daysofweek": days}}});
    merge(&hub.subscriptions(), "s", shut).await;
    let blocked = |it: &ocm_addon_sdk::ocm_api::apps::Subscription| {
        it.status.as_ref().is_some_and(|it| it.message == "Blocked") && is_propagated(it)
    };
    hub.subscription("s", "is blocked", blocked).await;
    // Clusters decide for themselves, by the same window.
    hub.copy("c1", "s", "has the window", |it| {
        it["spec"]["timewindow"]["windowtype"] == "blocked"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_and_a_pause_go_to_clusters() {
    let hub = SubscriptionHub::start(&["c1"]).await;
    hub.apply(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "filter", "namespace": NAMESPACE},
        "data": {"path": "folder", "branch": "release"},
    }))
    .await;
    hub.subscribe("s", json!({format!("{PREFIX}/git-path"): "app"})).await;
    let filter = json!({"spec": {"packageFilter": {"filterRef": {"name": "filter"}}}});
    merge(&hub.subscriptions(), "s", filter).await;
    let copied = |it: &Value, name: &str| it["metadata"]["annotations"][format!("{PREFIX}/{name}")].clone();
    let filtered = |it: &Value| copied(it, "git-path") == "folder" && copied(it, "git-branch") == "release";
    hub.copy("c1", "s", "is filtered", filtered).await;
    merge(
        &hub.subscriptions(),
        "s",
        json!({"metadata": {"labels": {"subscription-pause": "true"}}}),
    )
    .await;
    hub.copy("c1", "s", "is paused", |it| {
        it["metadata"]["labels"]["subscription-pause"] == "true"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn works_of_a_subscription_that_is_gone_go() {
    let hub = SubscriptionHub::start(&["c1"]).await;
    // As one leaves them that is deleted while the hub's half does not run.
    hub.apply(json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {
            "name": "ns-gone", "namespace": "c1", "labels": {format!("{PREFIX}/hosting-subscription"): "ns.gone"},
        },
        "spec": {},
    }))
    .await;
    wait::gone(&hub.works("c1"), "ns-gone").await;
}
