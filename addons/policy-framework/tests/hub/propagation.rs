//! Policies on their clusters, and what becomes of them.

use ocm_addon_sdk::{
    kube::{ResourceExt, api::DeleteParams},
    ocm_api::policy::Policy,
};
use serde_json::{Value, json};
use testkit::wait;

use crate::ground::{GROUP, Hub, NAMESPACE, merge, policy, state, template};

const REASON: &str = "PolicyPropagation";

fn action(policy: &Policy) -> &str {
    &policy.spec.remediation_action
}

/// What a Policy says of each of its clusters.
fn said(policy: &Policy) -> Vec<String> {
    let status = policy.status.iter().flat_map(|it| &it.status);
    status
        .map(|it| format!("{} {}", it.clustername, it.compliant.map_or("", |it| it.as_str())))
        .collect()
}

/// Policy `p` on these clusters.
async fn propagated(clusters: &[&str]) -> Hub {
    let hub = Hub::start(clusters).await;
    hub.apply(policy("p")).await;
    hub.bind("all", ("Policy", "p"), json!({})).await;
    for cluster in clusters {
        hub.replica(cluster, "p", "comes", |_| true).await;
    }
    hub
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_on_the_clusters_of_its_placement() {
    let hub = propagated(&["c1", "c2"]).await;
    let replica = hub.replica("c1", "p", "is there", |_| true).await;
    assert_eq!(
        json!(replica.labels()),
        json!({
            format!("{GROUP}/cluster-name"): "c1", format!("{GROUP}/cluster-namespace"): "c1",
            format!("{GROUP}/root-policy"): "ns.p",
        })
    );
    merge(&hub.roots(), "p", json!({"spec": {"remediationAction": "enforce"}})).await;
    hub.replica("c2", "p", "enforces", |it| action(it) == "enforce").await;
    hub.replica("c1", "p", "enforces", |it| action(it) == "enforce").await;
    // A cluster that the Placement gives up has it no longer.
    hub.place("all", &["c1"]).await;
    wait::gone(&hub.replicas("c2"), "ns.p").await;
    assert_eq!(
        hub.notes(REASON, 4).await,
        [
            "Normal: Policy ns/p was propagated to cluster c1",
            "Normal: Policy ns/p was propagated to cluster c2",
            "Normal: Policy ns/p was updated for cluster c1",
            "Normal: Policy ns/p was updated for cluster c2",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_was_propagated_is_in_namespaces_of_clusters() {
    let hub = propagated(&["c1"]).await;
    let replicas = hub.replicas("c1");
    merge(
        &replicas,
        "ns.p",
        json!({"spec": {"remediationAction": "enforce"}, "metadata": {"labels": {"a": "b"}}}),
    )
    .await;
    let is_back = |it: &Policy| action(it) == "inform" && !it.labels().contains_key("a");
    let before = hub.replica("c1", "p", "is put back", is_back).await;
    replicas.delete("ns.p", &DeleteParams::default()).await.unwrap();
    hub.replica("c1", "p", "comes again", |it| it.uid() != before.uid())
        .await;
    let put = async |namespace: &str, name: &str, labels: Value| {
        let mut one = policy(name);
        one["metadata"]["namespace"] = namespace.into();
        one["metadata"]["labels"] = labels;
        hub.apply(one).await;
    };
    let label = |name: &str| json!({format!("{GROUP}/root-policy"): name});
    put("c1", "own", json!({})).await;
    put("c1", "ns.missing", label("ns.missing")).await;
    put("c1", "dotless", label("dotless")).await;
    for name in ["own", "ns.missing", "dotless"] {
        wait::gone(&replicas, name).await;
    }
    // A namespace that is no cluster's: another hub has put it there.
    hub.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}))
        .await;
    put("other", "ns.missing", label("ns.missing")).await;
    put("c1", "last", json!({})).await;
    wait::gone(&replicas, "last").await;
    assert!(hub.replicas("other").get_opt("ns.missing").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_policy_leaves_its_clusters_and_says_so_once() {
    let hub = propagated(&["c1"]).await;
    let its =
        |keys: Value| json!({"metadata": {"labels": keys, "annotations": keys}, "spec": {"copyPolicyMetadata": false}});
    let own = format!("{GROUP}/own");
    merge(&hub.roots(), "p", its(json!({&own: "a", "other": "b"}))).await;
    let replica = hub
        .replica("c1", "p", "has the framework's keys", |it| {
            it.labels().contains_key(&own)
        })
        .await;
    assert!(!replica.labels().contains_key("other") && !replica.annotations().contains_key("other"));
    hub.say("c1", "p", "Compliant; notification - x").await;
    hub.root("p", "complies", |it| state(it) == Some("Compliant")).await;
    merge(&hub.roots(), "p", json!({"spec": {"disabled": true}})).await;
    wait::gone(&hub.replicas("c1"), "ns.p").await;
    let empty = |it: &Policy| state(it).is_none() && said(it).is_empty();
    let root = hub.root("p", "says nothing", empty).await;
    assert_eq!(root.status.unwrap().placement.len(), 1);
    merge(&hub.roots(), "p", json!({"metadata": {"labels": {"again": "c"}}})).await;
    merge(&hub.roots(), "p", json!({"spec": {"disabled": false}})).await;
    hub.replica("c1", "p", "comes back", |_| true).await;
    let notes = hub.notes(REASON, 4).await;
    let disabled = notes.iter().filter(|it| it.ends_with("Policy ns/p was disabled"));
    assert_eq!(disabled.count(), 1, "{notes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_as_the_worst_of_its_clusters() {
    let hub = propagated(&["c1", "c2", "c3"]).await;
    let is = async |what: Option<&str>, clusters: [&str; 3]| {
        let agrees = |it: &Policy| state(it) == what && said(it) == clusters;
        hub.root("p", what.unwrap_or("says nothing"), agrees).await
    };
    is(None, ["c1 ", "c2 ", "c3 "]).await;
    hub.say("c1", "p", "Compliant; a").await;
    is(None, ["c1 Compliant", "c2 ", "c3 "]).await;
    hub.say("c2", "p", "Pending; b").await;
    is(Some("Pending"), ["c1 Compliant", "c2 Pending", "c3 "]).await;
    hub.say("c3", "p", "NonCompliant; c").await;
    let root = is(Some("NonCompliant"), ["c1 Compliant", "c2 Pending", "c3 NonCompliant"]).await;
    assert_eq!(
        json!(root.status.unwrap().placement),
        json!([{"placementBinding": "all-policy-p", "placement": "all"}])
    );
    hub.say("c2", "p", "Compliant; b").await;
    hub.say("c3", "p", "Compliant; c").await;
    is(Some("Compliant"), ["c1 Compliant", "c2 Compliant", "c3 Compliant"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_binding_enforces_on_a_canary_alone() {
    let hub = propagated(&["c1", "c2"]).await;
    hub.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c3"}}))
        .await;
    hub.place("canary", &["c2", "c3"]).await;
    let overriding = json!({"bindingOverrides": {"remediationAction": "enforce"}, "subFilter": "restricted"});
    hub.bind("canary", ("Policy", "p"), overriding).await;
    hub.replica("c2", "p", "enforces", |it| action(it) == "enforce").await;
    assert_eq!(action(&hub.replica("c1", "p", "stays", |_| true).await), "inform");
    let placements = |it: &Policy| it.status.as_ref().is_some_and(|it| it.placement.len() == 2);
    let root = hub.root("p", "has both bindings", placements).await;
    // As upstream: it is listed although nobody brings it the Policy.
    assert_eq!(said(&root), ["c1 ", "c2 ", "c3 "]);
    assert!(hub.replicas("c3").get_opt("ns.p").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_says_what_its_policies_say_without_exclusions() {
    let hub = Hub::start(&["c1", "c2"]).await;
    hub.apply(policy("p")).await;
    hub.apply(json!({
        "apiVersion": format!("{GROUP}/v1beta1"), "kind": "PolicySet", "metadata": {"name": "s", "namespace": NAMESPACE},
        "spec": {"policies": ["p"], "exclusions": [{"policyName": "p", "clusterNames": ["c2"]}]},
    }))
    .await;
    hub.bind("all", ("PolicySet", "s"), json!({})).await;
    hub.say("c1", "p", "Compliant; a").await;
    let sets = hub.site.api(&format!("{GROUP}/v1beta1"), "PolicySet", NAMESPACE).await;
    let says = |it: &ocm_addon_sdk::kube::core::DynamicObject| it.data["status"]["compliant"] == "Compliant";
    let set = wait::until_with(&sets, "s", "complies", |it| it.is_some_and(says))
        .await
        .unwrap();
    assert_eq!(
        set.data["status"],
        json!({
            "compliant": "Compliant",
            "statusMessage":
                "All policies are reporting status; One or more policies were excluded. For details, see status.exclusions.",
            "placement": [{"placementBinding": "all-policyset-s", "placement": "all"}],
            "exclusions": [{"policyName": "p", "clusters": ["c2"]}],
        })
    );
    assert!(hub.replicas("c2").get_opt("ns.p").await.unwrap().is_none());
    merge(
        &sets,
        "s",
        json!({"spec": {"policies": ["p", "missing"], "exclusions": null}}),
    )
    .await;
    hub.replica("c2", "p", "comes", |_| true).await;
    assert_eq!(
        hub.notes("PolicyNotFound", 1).await[0],
        "Warning: Policy missing is in PolicySet s but could not be found in namespace ns"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn dependencies_follow_their_set() {
    let hub = Hub::start(&["c1"]).await;
    let of_set = json!({
        "apiVersion": format!("{GROUP}/v1beta1"), "kind": "PolicySet", "name": "s", "compliance": "Compliant",
    });
    let mut waiting = policy("p");
    waiting["spec"]["dependencies"] = json!([of_set]);
    let mut first = template("template");
    first["extraDependencies"] = json!([{
        "apiVersion": format!("{GROUP}/v1"), "kind": "Policy", "name": "q", "compliance": "Pending",
    }]);
    waiting["spec"]["policy-templates"] = json!([first]);
    hub.apply(waiting).await;
    hub.bind("all", ("Policy", "p"), json!({})).await;
    let names = |it: &Policy| -> Vec<String> {
        let all = it
            .spec
            .dependencies
            .iter()
            .chain(&it.spec.policy_templates[0].extra_dependencies);
        all.map(|it| format!("{} {}", it.kind, it.name)).collect()
    };
    // The set is not there yet, and the cluster can say so.
    hub.replica("c1", "p", "waits for the set", |it| {
        names(it) == ["PolicySet s", "Policy ns.q"]
    })
    .await;
    let set = |policies: &[&str]| {
        json!({
            "apiVersion": format!("{GROUP}/v1beta1"), "kind": "PolicySet",
            "metadata": {"name": "s", "namespace": NAMESPACE}, "spec": {"policies": policies},
        })
    };
    hub.apply(set(&["a"])).await;
    hub.replica("c1", "p", "waits for a", |it| {
        names(it) == ["Policy ns.a", "Policy ns.q"]
    })
    .await;
    hub.apply(set(&["b"])).await;
    hub.replica("c1", "p", "waits for b", |it| {
        names(it) == ["Policy ns.b", "Policy ns.q"]
    })
    .await;
}
