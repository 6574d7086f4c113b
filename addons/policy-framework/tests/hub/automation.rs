//! PolicyAutomations, where AnsibleJobs are a kind of the hub.

use ocm_addon_sdk::{
    kube::{Api, ResourceExt, core::DynamicObject},
    reconcile::install::install_crds,
};
use serde_json::{Value, json};
use testkit::wait;

use crate::ground::{GROUP, Hub, NAMESPACE, merge, policy, state};

const RERUN: &str = "policy.open-cluster-management.io/rerun";

fn kind(group: &str, version: &str, name: &str, plural: &str, scope: &str) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": scope,
            "names": {"kind": name, "plural": plural, "singular": name.to_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    })
}

/// Policy `p` on two clusters, one of which says that it does not comply.
async fn violated() -> Hub {
    let hub = Hub::start(&["c1", "c2"]).await;
    let kinds = vec![kind(
        "tower.ansible.com",
        "v1alpha1",
        "AnsibleJob",
        "ansiblejobs",
        "Namespaced",
    )];
    install_crds(&hub.client(), kinds).await.unwrap();
    hub.apply(policy("p")).await;
    hub.bind("all", ("Policy", "p"), json!({})).await;
    hub.say("c1", "p", "NonCompliant; violation - x").await;
    hub.say("c2", "p", "Compliant; notification - y").await;
    hub.root("p", "does not comply", |it| state(it) == Some("NonCompliant"))
        .await;
    hub
}

async fn automate(hub: &Hub, mode: &str, variables: Value) -> Api<DynamicObject> {
    hub.apply(json!({
        "apiVersion": format!("{GROUP}/v1beta1"), "kind": "PolicyAutomation",
        "metadata": {"name": "my.auto", "namespace": NAMESPACE},
        "spec": {
            "policyRef": "p", "mode": mode,
            "automationDef": {"type": "AnsibleJob", "name": "template", "secret": "tower", "extra_vars": variables},
        },
    }))
    .await;
    hub.site
        .api(&format!("{GROUP}/v1beta1"), "PolicyAutomation", NAMESPACE)
        .await
}

/// The jobs, once there are so many.
async fn jobs(hub: &Hub, count: usize) -> Vec<DynamicObject> {
    let api = hub
        .site
        .api("tower.ansible.com/v1alpha1", "AnsibleJob", NAMESPACE)
        .await;
    let mut all = wait::until_all(&api, "the jobs", |all| all.len() >= count).await;
    all.sort_by_key(|it| it.data["spec"]["extra_vars"]["target_clusters"].to_string());
    all
}

fn targets(jobs: &[DynamicObject]) -> Vec<Value> {
    jobs.iter()
        .map(|it| it.data["spec"]["extra_vars"]["target_clusters"].clone())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn once_makes_one_job_and_turns_off() {
    let hub = violated().await;
    install_crds(
        &hub.client(),
        vec![kind("config.openshift.io", "v1", "DNS", "dnses", "Cluster")],
    )
    .await
    .unwrap();
    hub.apply(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "DNS", "metadata": {"name": "cluster"},
        "spec": {"baseDomain": "hub.example.org"},
    }))
    .await;
    let automations = automate(&hub, "once", json!({"own": 1, "policy_name": "mine"})).await;
    let job = jobs(&hub, 1).await.remove(0);
    assert!(job.name_any().starts_with("my-auto-once-"), "{}", job.name_any());
    assert_eq!(job.labels()[&format!("{GROUP}/policyautomation-name")], "my.auto");
    assert_eq!(job.annotations()[&format!("{GROUP}/policyautomation-generation")], "1");
    assert_eq!(job.owner_references()[0].kind, "PolicyAutomation");
    assert_eq!(
        job.data["spec"],
        json!({
            "job_template_name": "template", "tower_auth_secret": "tower", "job_ttl": 86400,
            "extra_vars": {
                "own": 1, "target_clusters": ["c1"], "policy_name": "p", "policy_namespace": NAMESPACE,
                "hub_cluster": "hub.example.org", "policy_sets": [],
                "policy_violations": {"c1": {
                    "compliant": "NonCompliant", "violation_message": "NonCompliant; violation - x",
                    "details": [{"compliant": "NonCompliant", "history": [
                        {"lastTimestamp": "2026-01-01T00:00:00Z", "message": "NonCompliant; violation - x"},
                    ]}],
                }},
            },
        })
    );
    let off = |it: &DynamicObject| it.data["spec"]["mode"] == "disabled";
    let off = wait::until_with(&automations, "my.auto", "is off", |it| it.is_some_and(off))
        .await
        .unwrap();
    assert_eq!(off.owner_references()[0].kind, "Policy");
    // What it is off for: it starts when it is told to, and not before.
    hub.say("c2", "p", "NonCompliant; violation - y").await;
    let both = |it: &_| violating(it) == 2;
    hub.root("p", "no cluster complies", both).await;
    merge(
        &automations,
        "my.auto",
        json!({"metadata": {"annotations": {RERUN: "true"}}}),
    )
    .await;
    let all = jobs(&hub, 2).await;
    assert_eq!(targets(&all), [json!(["c1", "c2"]), json!(["c1"])]);
    assert!(
        all[0].name_any().starts_with("my-auto-manual-"),
        "{}",
        all[0].name_any()
    );
    let done = |it: &DynamicObject| !it.annotations().contains_key(RERUN);
    wait::until_with(&automations, "my.auto", "is done", |it| it.is_some_and(done)).await;
    assert_eq!(jobs(&hub, 2).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_cluster_that_ceases_to_comply_makes_a_job() {
    let hub = violated().await;
    let automations = automate(&hub, "everyEvent", json!({})).await;
    assert_eq!(targets(&jobs(&hub, 1).await), [json!(["c1"])]);
    hub.say("c2", "p", "NonCompliant; violation - y").await;
    assert_eq!(targets(&jobs(&hub, 2).await), [json!(["c1"]), json!(["c2"])]);
    let knows = |it: &DynamicObject, count: usize| {
        let known = it.data["status"]["clustersWithEvent"].as_object();
        known.is_some_and(|it| it.len() == count)
    };
    let until = async |what: &str, count: usize| {
        wait::until_with(&automations, "my.auto", what, |it| {
            it.is_some_and(|it| knows(it, count))
        })
        .await
    };
    until("knows both", 2).await;
    hub.say("c1", "p", "Compliant; notification - x").await;
    let left = until("has forgotten one", 1).await.unwrap();
    assert!(left.data["status"]["clustersWithEvent"]["c2"].is_object());
    hub.say("c1", "p", "NonCompliant; violation - x").await;
    let all = jobs(&hub, 3).await;
    assert_eq!(targets(&all), [json!(["c1"]), json!(["c1"]), json!(["c2"])]);
    assert!(all.iter().all(|it| it.name_any().starts_with("my-auto-everyevent-")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rerun_makes_a_job_while_all_comply() {
    let hub = violated().await;
    hub.say("c1", "p", "Compliant; notification - x").await;
    hub.root("p", "complies", |it| state(it) == Some("Compliant")).await;
    let automations = automate(&hub, "disabled", json!({})).await;
    merge(
        &automations,
        "my.auto",
        json!({"metadata": {"annotations": {RERUN: "true"}}}),
    )
    .await;
    let job = jobs(&hub, 1).await.remove(0);
    let variables = &job.data["spec"]["extra_vars"];
    assert_eq!(variables["target_clusters"], json!([]));
    assert_eq!(variables["policy_violations"], Value::Null);
    assert_eq!(variables["hub_cluster"], "");
}

fn violating(policy: &ocm_addon_sdk::ocm_api::policy::Policy) -> usize {
    let said = policy.status.iter().flat_map(|it| &it.status);
    said.filter(|it| it.compliant.is_some_and(|it| it.as_str() == "NonCompliant"))
        .count()
}
