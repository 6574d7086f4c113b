//! AnsibleJobs before and after Subscriptions.

use ocm_addon_sdk::{
    kube::{Api, ResourceExt, core::DynamicObject},
    reconcile::install::install_crds,
};
use serde_json::{Value, json};
use testkit::wait;

use crate::ground::{NAMESPACE, SubscriptionHub, content, merge, patch_status, phase};

fn definition() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {"name": "ansiblejobs.tower.ansible.com"},
        "spec": {
            "group": "tower.ansible.com", "scope": "Namespaced",
            "names": {"kind": "AnsibleJob", "plural": "ansiblejobs", "singular": "ansiblejob"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    })
}

fn template(name: &str) -> Value {
    json!({
        "apiVersion": "tower.ansible.com/v1alpha1", "kind": "AnsibleJob", "metadata": {"name": name},
        "spec": {"job_template_name": "t"},
    })
}

async fn with_hooks(before: &[&str], after: &[&str]) -> SubscriptionHub {
    let hub = SubscriptionHub::start(&["c1", "c2"]).await;
    let mut all = content("0123456789");
    all.pre_hooks = before.iter().map(|it| template(it)).collect();
    all.post_hooks = after.iter().map(|it| template(it)).collect();
    *hub.source.content.lock().await = Ok(all);
    hub
}

async fn jobs(hub: &SubscriptionHub) -> Api<DynamicObject> {
    hub.site
        .api("tower.ansible.com/v1alpha1", "AnsibleJob", NAMESPACE)
        .await
}

async fn succeed(jobs: &Api<DynamicObject>, name: &str) -> DynamicObject {
    let job = wait::until_with(jobs, name, "comes", |it| it.is_some()).await.unwrap();
    patch_status(jobs, name, json!({"ansibleJobResult": {"status": "successful"}})).await;
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_before_and_after_a_subscription() {
    let hub = with_hooks(&["before"], &["after"]).await;
    install_crds(&hub.site.client(), vec![definition()]).await.unwrap();
    hub.subscribe("s", json!({})).await;
    let waits = ("PropagationFailed", "prehook for ns/s is not ready ");
    hub.subscription("s", "waits", |it| phase(it) == waits).await;
    assert!(hub.works("c1").get_opt("ns-s").await.unwrap().is_none());
    let jobs = jobs(&hub).await;
    let job = succeed(&jobs, "before-1-012345").await;
    assert_eq!(job.data["spec"]["extra_vars"], json!({"target_clusters": ["c1", "c2"]}));
    assert_eq!(job.owner_references()[0].kind, "Subscription");
    hub.copy("c1", "s", "comes", |_| true).await;
    hub.report("c1", json!({"ns/s": "deployed"})).await;
    hub.report("c2", json!({"ns/s": "deployed"})).await;
    succeed(&jobs, "after-1-012345").await;
    let told = |it: &ocm_addon_sdk::ocm_api::apps::Subscription| {
        let jobs = it.status.as_ref().and_then(|it| it.ansiblejobs.as_ref());
        jobs.is_some_and(|it| it.lastprehookjob == "ns/before-1-012345" && it.lastposthookjob == "ns/after-1-012345")
    };
    hub.subscription("s", "names its jobs", told).await;
    // Other clusters make another job, named after the decision.
    hub.place("all", &["c1"]).await;
    let moved = |all: &[DynamicObject]| {
        all.iter()
            .any(|it| it.data["spec"]["extra_vars"]["target_clusters"] == json!(["c1"]))
    };
    wait::until_all(&jobs, "another job", moved).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_by_hand_runs_a_job_again() {
    let hub = with_hooks(&["before"], &[]).await;
    install_crds(&hub.site.client(), vec![definition()]).await.unwrap();
    hub.subscribe("s", json!({})).await;
    let jobs = jobs(&hub).await;
    succeed(&jobs, "before-1-012345").await;
    hub.copy("c1", "s", "comes", |_| true).await;
    let refresh = json!({"metadata": {"annotations": {"apps.open-cluster-management.io/manual-refresh-time": "abc"}}});
    merge(&hub.subscriptions(), "s", refresh).await;
    // The beginning of the SHA-1 of the text.
    succeed(&jobs, "before-1-a9993e").await;
    hub.subscription("s", "is propagated", |it| phase(it) == ("Propagated", ""))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_without_ansible_say_what_is_missing() {
    let hub = with_hooks(&[], &["after"]).await;
    hub.subscribe("s", json!({})).await;
    let why =
        "failed to register hooks, err: the CustomResourceDefinition ansiblejobs.tower.ansible.com is not installed";
    hub.subscription("s", "tells", |it| phase(it) == ("PropagationFailed", why))
        .await;
}
