//! What the propagator tells Prometheus. A process has one text of metrics, so this is a program of its own.

#[allow(dead_code)] // The other tests of the hub use the rest.
#[path = "hub/ground.rs"]
mod ground;

use ocm_addon_sdk::{kube::api::DeleteParams, reconcile::metrics};
use serde_json::json;
use testkit::wait;

use ground::{Hub, merge, policy, state};

/// Waits until `holds` of what is told.
async fn told(what: &str, holds: impl Fn(&str) -> bool) -> String {
    let told = async {
        loop {
            let text = metrics::text();
            if holds(&text) {
                return text;
            }
            tokio::task::yield_now().await;
        }
    };
    let told = tokio::time::timeout(wait::PATIENCE, told).await;
    told.unwrap_or_else(|_| panic!("{what}:\n{}", metrics::text()))
}

#[tokio::test(flavor = "multi_thread")]
async fn states_are_metrics_until_their_policy_goes() {
    let hub = Hub::start(&["c1"]).await;
    for name in ["p", "off"] {
        hub.apply(policy(name)).await;
        hub.bind("all", ("Policy", name), json!({})).await;
        hub.say("c1", name, "NonCompliant; a").await;
        hub.root(name, "does not comply", |it| state(it) == Some("NonCompliant"))
            .await;
    }
    let series = |kind: &str, cluster: &str| {
        let policy = "policy=\"p\",policy_namespace=\"ns\"";
        format!("policy_governance_info{{cluster_namespace=\"{cluster}\",{policy},type=\"{kind}\"}}")
    };
    let (root, replica) = (series("root", "<null>"), series("propagated", "c1"));
    let both = |value: &str, text: &str| {
        [&root, &replica]
            .iter()
            .all(|it| text.contains(&format!("\n{it} {value}\n")))
    };
    let text = told("it does not comply", |it| both("1", it)).await;
    assert!(
        text.contains("\nocm_handle_root_policy_duration_seconds_bucket_bucket{le=\"10\"} "),
        "{text}"
    );
    assert!(text.contains("\nhub_templates_active_watches 0\n"), "{text}");
    hub.say("c1", "p", "Compliant; a").await;
    told("it complies", |it| both("0", it)).await;
    merge(&hub.roots(), "off", json!({"spec": {"disabled": true}})).await;
    told("what is disabled has no state", |it| !it.contains("policy=\"off\"")).await;
    hub.roots().delete("p", &DeleteParams::default()).await.unwrap();
    told("what is gone has no state", |it| !it.contains("policy=\"p\"")).await;
}
