use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T12:00:10Z";

fn condition(r#type: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": r#type, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T12:00:00Z",
        "observedGeneration": 1,
    })
}

/// A world in which nothing is wrong; each test breaks one thing.
fn fine() -> Value {
    let reference = json!({
        "group": "g", "resource": "rs", "name": "x", "namespace": "n",
        "desiredConfig": {"namespace": "n", "name": "x", "specHash": "h"}, "lastAppliedConfig": {"namespace": "n", "name": "x", "specHash": "h"},
    });
    json!({
        "cluster": {
            "metadata": {"name": "cluster1"}, "spec": {"hubAcceptsClient": true},
            "status": {"conditions": [condition("ManagedClusterConditionAvailable", "True", "R", "")]},
        },
        "offer": {
            "metadata": {"name": "a", "uid": "u1"},
            "spec": {
                "supportedConfigs": [{"group": "g", "resource": "rs", "defaultConfig": {"namespace": "n", "name": "x"}}],
                "installStrategy": {"type": "Placements", "placements": [{"namespace": "default", "name": "p"}]},
            },
            "status": {
                "defaultconfigReferences": [{"group": "g", "resource": "rs", "desiredConfig": {"namespace": "n", "name": "x", "specHash": "h"}}],
                "installProgressions": [{"namespace": "default", "name": "p", "configReferences": [
                    {"group": "g", "resource": "rs", "desiredConfig": {"namespace": "n", "name": "x", "specHash": "h"}}
                ]}],
            },
        },
        "addon": {
            "metadata": {"name": "a", "namespace": "cluster1", "ownerReferences": [{
                "apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "ClusterManagementAddOn", "name": "a", "uid": "u1",
            }]},
            "spec": {},
            "status": {
                "configReferences": [reference],
                "registrations": [{"signerName": "kubernetes.io/kube-apiserver-client"}],
                "kubeClientDriver": "csr",
                "conditions": [
                    condition("RegistrationApplied", "True", "SetPermissionApplied", ""),
                    condition("ClusterCertificateRotated", "True", "ClientCertificateUpdated", ""),
                    condition("ManifestApplied", "True", "AddonManifestApplied", ""),
                    condition("Available", "True", "ManagedClusterAddOnLeaseUpdated", ""),
                ],
            },
        },
        "placements": [{"metadata": {"name": "p", "namespace": "default"}, "spec": {}}],
        "decisions": [{
            "metadata": {"name": "p-1", "namespace": "default", "labels": {
                "cluster.open-cluster-management.io/placement": "p", "cluster.open-cluster-management.io/decision-group-index": "0",
            }},
            "status": {"decisions": [{"clusterName": "cluster1"}]},
        }],
        "works": [{
            "metadata": {
                "name": "addon-a-deploy-0", "namespace": "cluster1", "generation": 1,
                "labels": {"open-cluster-management.io/addon-name": "a"},
            },
            "spec": {}, "status": {"conditions": [condition("Applied", "True", "R", "")]},
        }],
        "requests": [],
        "events": [],
        "everywhere": [],
    })
}

fn seen(world: &Value) -> Seen {
    fn read<T: serde::de::DeserializeOwned>(it: &Value) -> T {
        serde_json::from_value(it.clone()).unwrap()
    }
    Seen {
        now: NOW.parse().unwrap(),
        cluster_name: "cluster1".to_owned(),
        name: "a".to_owned(),
        cluster: read(&world["cluster"]),
        addon: read(&world["addon"]),
        cluster_management_addon: read(&world["offer"]),
        works: read(&world["works"]),
        requests: read(&world["requests"]),
        events: read(&world["events"]),
        placements: read(&world["placements"]),
        decisions: read(&world["decisions"]),
        everywhere: read(&world["everywhere"]),
    }
}

fn check(breaks: impl FnOnce(&mut Value), sentences: &str) {
    let mut world = fine();
    breaks(&mut world);
    assert_eq!(explain(&seen(&world)).join("\n"), sentences);
}

/// Sets or removes a condition of the add-on.
fn say(world: &mut Value, r#type: &str, condition: Option<Value>) {
    let all = world["addon"]["status"]["conditions"].as_array_mut().unwrap();
    all.retain(|it| it["type"] != r#type);
    all.extend(condition);
}

#[test]
fn a_healthy_add_on_needs_no_explanation() {
    check(|_| {}, "");
}

#[test]
fn an_absent_add_on_was_not_enabled_or_not_selected() {
    let by_hand = |it: &mut Value| {
        it["addon"] = Value::Null;
        it["offer"]["spec"]["installStrategy"] = json!({"type": "Manual"});
    };
    check(
        by_hand,
        "Nobody has enabled the add-on on cluster1: run `drover addon enable --names a --clusters cluster1`.",
    );
    let unknown = |it: &mut Value| {
        it["addon"] = Value::Null;
        it["offer"] = Value::Null;
    };
    check(
        unknown,
        "The hub knows no add-on a: there is no ClusterManagementAddOn of this name.",
    );
    let not_chosen = |it: &mut Value| {
        it["addon"] = Value::Null;
        it["decisions"] = json!([]);
    };
    check(
        not_chosen,
        "It is installed through placements: placement default/p has not chosen cluster1.",
    );
    let no_placement = |it: &mut Value| {
        it["addon"] = Value::Null;
        it["placements"] = json!([]);
    };
    check(
        no_placement,
        "It is installed through placements: there is no placement default/p.",
    );
    let soon = |it: &mut Value| it["addon"] = Value::Null;
    check(
        soon,
        "A placement has chosen cluster1, and the hub has not installed it yet; is the hub process running?",
    );
}

#[test]
fn a_missing_or_unavailable_cluster_is_explained_first() {
    check(
        |it| it["cluster"] = Value::Null,
        "There is no managed cluster cluster1, so no agent runs the add-on there.",
    );
    check(
        |it| it["cluster"]["spec"]["hubAcceptsClient"] = json!(false),
        "Cluster cluster1 is not accepted yet: `drover why managedcluster/cluster1` says more.",
    );
    let silent = |it: &mut Value| {
        it["cluster"]["status"]["conditions"][0]["status"] = json!("Unknown");
        say(
            it,
            "Available",
            Some(condition(
                "Available",
                "Unknown",
                "ManagedClusterLeaseUpdateStopped",
                "",
            )),
        );
    };
    check(
        silent,
        "Cluster cluster1 is not available, so that its agent does nothing at present: `drover why managedcluster/cluster1` says more.",
    );
}

#[test]
fn an_add_on_without_a_manager_names_what_is_missing() {
    check(
        |it| it["offer"] = Value::Null,
        "There is no ClusterManagementAddOn a: the hub does not offer this add-on, so nobody looks after it.",
    );
    check(
        |it| say(it, "RegistrationApplied", None),
        "No manager on this hub has taken it up: the program that looks after add-on a does not run, or is not connected to this hub.",
    );
    let unowned = |it: &mut Value| {
        say(it, "RegistrationApplied", None);
        it["addon"]["metadata"]["ownerReferences"] = json!([]);
    };
    check(
        unowned,
        "The hub has not connected it to ClusterManagementAddOn a yet; is the hub process running?",
    );
    let missing_template = |it: &mut Value| {
        say(it, "RegistrationApplied", None);
        let kind = json!({"group": "addon.open-cluster-management.io", "resource": "addontemplates", "defaultConfig": {"name": "t"}});
        let reference = json!({
            "group": "addon.open-cluster-management.io", "resource": "addontemplates", "name": "t",
            "desiredConfig": {"name": "t", "specHash": ""},
        });
        it["offer"]["spec"]["supportedConfigs"] = json!([kind]);
        it["offer"]["status"]["defaultconfigReferences"] = json!([reference]);
        it["offer"]["status"]["installProgressions"][0]["configReferences"] = json!([reference]);
        it["addon"]["status"]["configReferences"] = json!([reference]);
    };
    check(missing_template, "There is no AddOnTemplate t.");
}

#[test]
fn an_unregistered_agent_names_what_its_request_waits_for() {
    let request = |user: &str, conditions: Value| {
        json!([{
            "metadata": {"name": "addon-cluster1-a-x", "labels": {
                "open-cluster-management.io/cluster-name": "cluster1", "open-cluster-management.io/addon-name": "a",
            }},
            "spec": {"request": "", "signerName": "kubernetes.io/kube-apiserver-client", "username": user},
            "status": {"conditions": conditions},
        }])
    };
    let with = |requests: Value| {
        move |it: &mut Value| {
            say(it, "ClusterCertificateRotated", None);
            it["requests"] = requests;
        }
    };
    check(
        with(json!([])),
        "The agent of cluster1 has not asked the signer kubernetes.io/kube-apiserver-client for a certificate for the add-on yet; see its log.",
    );
    check(
        with(request("system:open-cluster-management:cluster1:agent", json!([]))),
        "CSR addon-cluster1-a-x waits to be approved: the add-on's manager approves it, or a person with `kubectl certificate approve addon-cluster1-a-x`.",
    );
    check(
        with(request("system:open-cluster-management:cluster10:agent", json!([]))),
        "CSR addon-cluster1-a-x is not approved, because its requester system:open-cluster-management:cluster10:agent is no agent of cluster1.",
    );
    let approved = json!([{"type": "Approved", "status": "True"}]);
    check(
        with(request("x", approved)),
        "CSR addon-cluster1-a-x is approved and waits for the signer kubernetes.io/kube-apiserver-client to issue the certificate.",
    );
    let denied = json!([{"type": "Denied", "status": "True", "message": "No."}]);
    check(
        with(request("x", denied)),
        "CSR addon-cluster1-a-x was denied or failed: No; delete it, and the agent of cluster1 asks again.",
    );
    let by_token = |it: &mut Value| {
        it["addon"]["status"]["kubeClientDriver"] = json!("token");
        say(it, "ClusterCertificateRotated", None);
    };
    check(
        by_token,
        "The hub has not made the add-on's account yet; is the hub process running?",
    );
    let pending = condition(
        "RegistrationApplied",
        "False",
        "PermissionConfigPending",
        "registration subject not ready",
    );
    check(
        |it| say(it, "RegistrationApplied", Some(pending)),
        "The hub waits for the agent of cluster1 to say who the add-on's agent is, before it gives it any rights.",
    );
}

#[test]
fn a_missing_signing_authority_is_reported_beside_valid_certificates() {
    let signer = "example.com/a";
    let told = |csr: &str, at: &str, why: &str| json!({"metadata": {}, "reason": "SigningAuthorityMissing", "eventTime": at, "note": format!("CSR {csr} cannot be signed: {why}")});
    let waits = |it: &mut Value| {
        it["addon"]["status"]["registrations"] =
            json!([{"signerName": "kubernetes.io/kube-apiserver-client"}, {"signerName": signer}]);
        it["requests"] = json!([{
            "metadata": {"name": "addon-cluster1-a-x", "labels": {
                "open-cluster-management.io/cluster-name": "cluster1", "open-cluster-management.io/addon-name": "a",
            }},
            "spec": {"request": "", "signerName": signer, "username": "x"},
            "status": {"conditions": [{"type": "Approved", "status": "True"}]},
        }]);
        it["events"] = json!([
            told(
                "addon-cluster1-a-x",
                "2026-01-01T12:00:01.000000Z",
                "there is no Secret vault/ca"
            ),
            told(
                "addon-cluster1-a-x",
                "2026-01-01T12:00:02.000000Z",
                "Secret vault/ca, is none"
            ),
            told(
                "addon-cluster1-a-y",
                "2026-01-01T12:00:03.000000Z",
                "of another request"
            ),
        ]);
    };
    let sentence = "CSR addon-cluster1-a-x is approved and cannot be signed: Secret vault/ca, is none.";
    check(waits, sentence);
    let first = |it: &mut Value| {
        waits(it);
        it["addon"]["status"]["registrations"] = json!([{"signerName": signer}]);
        say(it, "ClusterCertificateRotated", None);
    };
    check(first, sentence);
    let signed = |it: &mut Value| {
        waits(it);
        it["requests"][0]["status"]["certificate"] = json!("UEVN");
    };
    check(signed, "");
}

#[test]
fn an_annotated_add_on_that_cannot_be_hosted_is_reported() {
    let annotated = |it: &mut Value| {
        it["addon"]["metadata"]["annotations"] =
            json!({"addon.open-cluster-management.io/hosting-cluster-name": "host"});
        say(
            it,
            "HostingManifestApplied",
            Some(condition("HostingManifestApplied", "True", "AddonManifestApplied", "")),
        );
    };
    check(
        annotated,
        "It is annotated to be hosted by host, and it is an add-on that does not run hosted: all of it is on cluster1.",
    );
    let hosted = |it: &mut Value| {
        annotated(it);
        say(
            it,
            "HostingClusterValidity",
            Some(condition("HostingClusterValidity", "True", "HostingClusterValid", "")),
        );
    };
    check(hosted, "");
}

#[test]
fn a_missing_or_waiting_configuration_is_reported() {
    let missing = |it: &mut Value| {
        for path in [
            "/addon/status/configReferences/0",
            "/offer/status/defaultconfigReferences/0",
        ] {
            it.pointer_mut(path).unwrap()["desiredConfig"]["specHash"] = json!("");
        }
        it["offer"]["status"]["installProgressions"][0]["configReferences"][0]["desiredConfig"]["specHash"] = json!("");
    };
    check(missing, "Its configuration rs.g n/x is not found on the hub.");
    let waits = |it: &mut Value| {
        let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": 1}});
        it["offer"]["spec"]["installStrategy"]["placements"][0]["rolloutStrategy"] = strategy;
        it["offer"]["status"]["installProgressions"][0]["configReferences"][0]["desiredConfig"]["specHash"] =
            json!("new");
        it["decisions"][0]["status"]["decisions"] =
            json!(["c0", "c00", "cluster1"].map(|it| json!({"clusterName": it})));
        let mut other = it["addon"].clone();
        other["metadata"]["namespace"] = json!("c0");
        let mut second = it["addon"].clone();
        second["metadata"]["namespace"] = json!("c00");
        it["everywhere"] = json!([other, second]);
    };
    check(
        waits,
        "Its new configuration waits for its turn in the rollout of placement default/p: 1 clusters may be under way at once, and are. It is number 2 of those that wait.",
    );
    let unsupported = condition(
        "Progressing",
        "False",
        "ConfigurationUnsupported",
        "Configuration with gvr g/rs is not supported for this addon",
    );
    check(
        |it| say(it, "Progressing", Some(unsupported)),
        "Configuration with gvr g/rs is not supported for this addon.",
    );
}

#[test]
fn failing_manifests_are_named_with_the_clusters_message() {
    let failing = |it: &mut Value| {
        it["works"][0]["status"]["resourceStatus"] = json!({"manifests": [{
            "resourceMeta": {"ordinal": 0, "kind": "ConfigMap", "namespace": "default", "name": "m"},
            "conditions": [
                condition("Applied", "False", "R", "Failed to apply manifest: boom"), condition("Available", "False", "R", ""),
            ],
        }]});
        let failed = condition(
            "ManifestApplied",
            "False",
            "AddonManifestAppliedFailed",
            "failed to apply the manifests of addon",
        );
        say(it, "ManifestApplied", Some(failed));
    };
    check(
        failing,
        "ConfigMap default/m of work cluster1/addon-a-deploy-0 is not applied: boom.",
    );
    let refused = condition(
        "ManifestApplied",
        "False",
        "ManifestWorkApplyFailed",
        "failed to get manifest from agent interface: no image",
    );
    check(
        |it| say(it, "ManifestApplied", Some(refused)),
        "Its manifests are not delivered: failed to get manifest from agent interface: no image.",
    );
    check(
        |it| it["works"][0]["status"] = json!({}),
        "The agent of cluster1 has not reported on work cluster1/addon-a-deploy-0 yet.",
    );
}

#[test]
fn a_silent_agent_is_reported_with_its_lease() {
    let lost = condition("Available", "Unknown", "ManagedClusterAddOnLeaseNotFound", "");
    check(
        |it| say(it, "Available", Some(lost)),
        "The add-on's agent has not written its lease open-cluster-management-agent-addon/a on cluster1: see whether its pod runs there.",
    );
    let ill = condition(
        "Available",
        "False",
        "ProbeUnavailable",
        "Probe addon unavailable with err x",
    );
    check(
        |it| say(it, "Available", Some(ill)),
        "The add-on is not available: Probe addon unavailable with err x.",
    );
}

#[test]
fn a_terminating_add_on_names_what_blocks_it() {
    let held = |finalizer: &'static str| {
        move |it: &mut Value| {
            it["addon"]["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
            it["addon"]["metadata"]["finalizers"] = json!([finalizer]);
            let hook = "hook manifestWork addon-a-pre-delete is not completed.";
            say(
                it,
                "HookManifestCompleted",
                Some(condition(
                    "HookManifestCompleted",
                    "False",
                    "HookManifestIsNotCompleted",
                    hook,
                )),
            );
        }
    };
    check(
        held("addon.open-cluster-management.io/addon-pre-delete"),
        "It is being deleted for 10s and waits until its hook has run: hook manifestWork addon-a-pre-delete is not completed.",
    );
    check(
        held("example.com/mine"),
        "It is being deleted for 10s and waits for the finalizer example.com/mine, which somebody else has to remove.",
    );
}
