//! The agent half against two embedded APIs: what a user does on the hub, and what is then found on the cluster.

#[expect(dead_code, reason = "more can be done in the world than is done here")]
mod world;

use serde_json::{Value, json};
use world::{World, config_map};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_work_of_the_founding_documents_is_applied_and_reported() {
    let world = World::new().await;
    world
        .create_work(
            "example-manifestwork",
            json!({"workload": {"manifests": [
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "default", "name": "my-sa"}},
                {
                    "apiVersion": "apps/v1", "kind": "Deployment",
                    "metadata": {"namespace": "default", "name": "nginx-deployment", "labels": {"app": "nginx"}},
                    "spec": {
                        "replicas": 3,
                        "selector": {"matchLabels": {"app": "nginx"}},
                        "template": {
                            "metadata": {"labels": {"app": "nginx"}},
                            "spec": {
                                "serviceAccountName": "my-sa",
                                "containers": [{"name": "nginx", "image": "nginx:1.14.2", "ports": [{"containerPort": 80}]}]
                            }
                        }
                    }
                }
            ]}}),
        )
        .await;
    let work = world
        .work_until("example-manifestwork", |it| {
            is(it, "Applied", "True") && is(it, "Available", "True")
        })
        .await;
    let deployment = &work["status"]["resourceStatus"]["manifests"][1];
    assert_eq!(
        deployment["resourceMeta"],
        json!({
            "ordinal": 1, "group": "apps", "version": "v1", "kind": "Deployment", "resource": "deployments",
            "name": "nginx-deployment", "namespace": "default"
        })
    );
    assert_eq!(condition(deployment, "Applied")["reason"], "AppliedManifestComplete");
    assert_eq!(condition(deployment, "Available")["reason"], "ResourceAvailable");
    let account = world.object("v1", "serviceaccounts", "my-sa").await.unwrap();
    let trace = world.trace("example-manifestwork").await.unwrap();
    assert_eq!(
        account["metadata"]["ownerReferences"][0]["uid"],
        trace["metadata"]["uid"]
    );
    assert_eq!(trace["status"]["appliedResources"].as_array().map(Vec::len), Some(2));
    assert_eq!(trace["spec"]["agentID"], "agent");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_prune_objects_and_deletion_removes_only_own_objects() {
    let world = World::new().await;
    world
        .create_object("v1", "configmaps", config_map("bystander", "mine"))
        .await;
    world
        .create_work("web", works(&[config_map("a", "1"), config_map("b", "1")]))
        .await;
    world.work_until("web", |it| is(it, "Applied", "True")).await;
    world
        .patch_work("web", json!({"spec": works(&[config_map("a", "2")])}))
        .await;
    world
        .object_until("configmaps", "a", |it| it.is_some_and(|it| it["data"]["k"] == "2"))
        .await;
    world.object_until("configmaps", "b", |it| it.is_none()).await;
    let work = world.work_until("web", |it| at_generation(it, "Applied", 2)).await;
    assert_eq!(
        work["status"]["resourceStatus"]["manifests"].as_array().map(Vec::len),
        Some(1)
    );
    world.delete_work("web").await;
    world.work_until_gone("web").await;
    assert!(world.object("v1", "configmaps", "a").await.is_none());
    assert!(world.trace("web").await.is_none());
    assert!(world.object("v1", "configmaps", "bystander").await.is_some());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_is_repaired_and_a_foreign_field_is_left_alone() {
    let world = World::new().await;
    world.create_work("web", works(&[config_map("a", "1")])).await;
    world.work_until("web", |it| is(it, "Available", "True")).await;
    let foreign = json!({"metadata": {"labels": {"by": "hand"}}, "data": {"foreign": "x"}});
    world.patch_object("configmaps", "a", foreign).await;
    world
        .patch_object("configmaps", "a", json!({"data": {"k": "changed"}}))
        .await;
    let repaired = world
        .object_until("configmaps", "a", |it| it.is_some_and(|it| it["data"]["k"] == "1"))
        .await
        .unwrap();
    assert_eq!(
        (&repaired["metadata"]["labels"]["by"], &repaired["data"]["foreign"]),
        (&json!("hand"), &json!("x"))
    );
    let uid = repaired["metadata"]["uid"].clone();
    world.delete_object("configmaps", "a").await;
    world
        .object_until("configmaps", "a", |it| {
            it.is_some_and(|it| it["metadata"]["uid"] != uid)
        })
        .await;
    world.work_until("web", |it| is(it, "Available", "True")).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_manifest_is_reported_and_stops_no_other() {
    let world = World::new().await;
    world
        .create_work("web", works(&[config_map("a", "1"), config_map("old", "1")]))
        .await;
    world.work_until("web", |it| is(it, "Applied", "True")).await;
    let unknown =
        json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g", "namespace": "default"}});
    let wrong = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "wrong", "namespace": "default"},
        "spec": {"replicas": "one", "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}}}
    });
    world
        .patch_work("web", json!({"spec": works(&[unknown, wrong, config_map("a", "2")])}))
        .await;
    world
        .object_until("configmaps", "a", |it| it.is_some_and(|it| it["data"]["k"] == "2"))
        .await;
    world.object_until("configmaps", "old", |it| it.is_none()).await;
    let work = world.work_until("web", |it| at_generation(it, "Applied", 2)).await;
    let manifests = &work["status"]["resourceStatus"]["manifests"];
    assert_eq!(
        condition(&manifests[0], "Applied")["message"],
        "Failed to apply manifest: the server doesn't have a resource type \"Gadget\""
    );
    let message = condition(&manifests[1], "Applied")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.starts_with("Failed to apply manifest: ") && message.contains("replicas"),
        "{message}"
    );
    assert_eq!(condition(&manifests[2], "Applied")["status"], "True");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_and_its_object_in_one_work_converge() {
    let world = World::new().await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}
            }}}]
        }
    });
    let gadget = json!({
        "apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g", "namespace": "default"}, "spec": {"size": 1}
    });
    world.create_work("gadgets", works(&[gadget, definition])).await;
    world
        .work_until("gadgets", |it| is(it, "Applied", "True") && is(it, "Available", "True"))
        .await;
    world.delete_work("gadgets").await;
    world.work_until_gone("gadgets").await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn feedback_follows_the_object_without_polling() {
    let world = World::new().await;
    let mut spec = works(&[config_map("a", "1")]);
    spec["manifestConfigs"] = json!([{
        "resourceIdentifier": {"group": "", "resource": "configmaps", "name": "a", "namespace": "default"},
        "updateStrategy": {"type": "CreateOnly"},
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "k", "path": ".data.k"}]}],
        "conditionRules": [{"type": "CEL", "condition": "Two", "celExpressions": ["object.data.k == '2'"]}]
    }]);
    world.create_work("web", spec).await;
    world.work_until("web", |it| is(it, "Two", "False")).await;
    world.patch_object("configmaps", "a", json!({"data": {"k": "2"}})).await;
    let work = world.work_until("web", |it| is(it, "Two", "True")).await;
    let feedback = &work["status"]["resourceStatus"]["manifests"][0]["statusFeedback"]["values"];
    assert_eq!(
        *feedback,
        json!([{"name": "k", "fieldValue": {"type": "String", "string": "2"}}])
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completed_work_is_frozen_whatever_is_edited() {
    let world = World::new().await;
    let mut spec = works(&[config_map("job", "1")]);
    spec["manifestConfigs"] = json!([{
        "resourceIdentifier": {"group": "", "resource": "configmaps", "name": "*", "namespace": "default"},
        "conditionRules": [{"type": "CEL", "condition": "Complete", "celExpressions": ["object.data.k == '1'"]}]
    }]);
    world.create_work("web", spec).await;
    world.work_until("web", |it| is(it, "Complete", "True")).await;
    // As Kubernetes removes a finished Job after its time to live.
    world.delete_object("configmaps", "job").await;
    world.work_until("web", |it| is(it, "Available", "False")).await;
    world
        .patch_work(
            "web",
            json!({"spec": works(&[config_map("renamed", "1"), config_map("job", "2")])}),
        )
        .await;
    let work = world.work_until("web", |it| at_generation(it, "Complete", 2)).await;
    assert!(
        is(&work, "Complete", "True") && at_generation(&work, "Applied", 1),
        "{work:#}"
    );
    let manifests = &work["status"]["resourceStatus"]["manifests"];
    assert_eq!(manifests.as_array().map(Vec::len), Some(1));
    assert_eq!(manifests[0]["resourceMeta"]["name"], "job");
    for name in ["job", "renamed"] {
        assert!(world.object("v1", "configmaps", name).await.is_none());
    }
    world.delete_work("web").await;
    world.work_until_gone("web").await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_work_that_is_being_deleted_goes_on_telling() {
    let world = World::new().await;
    let mut spec = works(&[config_map("a", "1")]);
    spec["manifestConfigs"] = json!([{
        "resourceIdentifier": {"group": "", "resource": "configmaps", "name": "a", "namespace": "default"},
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "k", "path": ".data.k"}]}]
    }]);
    world.create_work("web", spec).await;
    world.work_until("web", |it| is(it, "Available", "True")).await;
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    world.patch_object("configmaps", "a", held).await;
    world.delete_work("web").await;
    world
        .object_until("configmaps", "a", |it| {
            it.is_some_and(|it| it["metadata"]["deletionTimestamp"].is_string())
        })
        .await;
    world
        .patch_object("configmaps", "a", json!({"data": {"k": "last words"}}))
        .await;
    world
        .work_until("web", |it| {
            let values = &it["status"]["resourceStatus"]["manifests"][0]["statusFeedback"]["values"];
            values[0]["fieldValue"]["string"] == "last words"
        })
        .await;
    let let_go = json!({"metadata": {"finalizers": null}});
    world.patch_object("configmaps", "a", let_go).await;
    world.work_until_gone("web").await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_stay_and_lose_their_owner() {
    let world = World::new().await;
    world.create_work("web", works(&[config_map("a", "1")])).await;
    world.work_until("web", |it| is(it, "Applied", "True")).await;
    world
        .patch_work(
            "web",
            json!({"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}),
        )
        .await;
    world
        .object_until("configmaps", "a", |it| {
            it.is_some_and(|it| it["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty))
        })
        .await;
    world.delete_work("web").await;
    world.work_until_gone("web").await;
    assert!(world.object("v1", "configmaps", "a").await.is_some());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_of_two_works_removes_their_shared_object() {
    let world = World::new().await;
    world.create_work("one", works(&[config_map("shared", "1")])).await;
    world.create_work("two", works(&[config_map("shared", "1")])).await;
    world.work_until("one", |it| is(it, "Applied", "True")).await;
    world.work_until("two", |it| is(it, "Applied", "True")).await;
    world.delete_work("one").await;
    world.work_until_gone("one").await;
    let shared = world.object("v1", "configmaps", "shared").await.unwrap();
    assert_eq!(shared["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
    assert_eq!(shared["data"]["k"], "1");
    world.delete_work("two").await;
    world.work_until_gone("two").await;
    assert!(world.object("v1", "configmaps", "shared").await.is_none());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happened_while_the_agent_was_away_is_caught_up() {
    let mut world = World::new().await;
    world.create_work("gone", works(&[config_map("a", "1")])).await;
    world
        .create_work("kept", works(&[config_map("b", "1"), config_map("c", "1")]))
        .await;
    world.work_until("gone", |it| is(it, "Applied", "True")).await;
    world.work_until("kept", |it| is(it, "Applied", "True")).await;
    let before = world.object("v1", "configmaps", "b").await.unwrap();
    world.stop_agent().await;
    world.delete_work("gone").await;
    world
        .patch_work("kept", json!({"spec": works(&[config_map("b", "1")])}))
        .await;
    world.start_agent();
    world.work_until_gone("gone").await;
    world.object_until("configmaps", "c", |it| it.is_none()).await;
    assert!(world.object("v1", "configmaps", "a").await.is_none());
    world.work_until("kept", |it| at_generation(it, "Applied", 2)).await;
    let after = world.object("v1", "configmaps", "b").await.unwrap();
    assert_eq!(
        before["metadata"]["resourceVersion"],
        after["metadata"]["resourceVersion"]
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn works_apply_and_delete_with_an_old_trace_definition() {
    let mut definitions = ocm_api::crds::managed_cluster();
    for definition in &mut definitions {
        let fields = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        if let Some(fields) = definition.pointer_mut(fields).and_then(Value::as_object_mut) {
            fields.remove("agentID");
        }
    }
    let mut world = World::with(definitions).await;
    for name in ["kept", "gone"] {
        world.create_work(name, works(&[config_map(name, "1")])).await;
        world.work_until(name, |it| is(it, "Applied", "True")).await;
    }
    let before = world.trace("kept").await.unwrap();
    assert_eq!(before["spec"]["agentID"], Value::Null);
    // Deleted while nobody looks: its trace goes, although it says of no agent that it is its.
    world.stop_agent().await;
    world.delete_work("gone").await;
    world.start_agent();
    world.work_until_gone("gone").await;
    assert_eq!(world.trace("gone").await, None);
    assert!(world.object("v1", "configmaps", "gone").await.is_none());
    world
        .patch_work("kept", json!({"spec": works(&[config_map("kept", "2")])}))
        .await;
    world.work_until("kept", |it| at_generation(it, "Applied", 2)).await;
    let after = world.object("v1", "configmaps", "kept").await.unwrap();
    assert_eq!(after["data"]["k"], "2");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_executor_permission_stops_only_its_manifest() {
    let world = World::new().await;
    let role = json!({
        "metadata": {"name": "maps", "namespace": "default"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "update", "patch", "get", "delete"]}]
    });
    let binding = json!({
        "metadata": {"name": "maps", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maps"},
        "subjects": [{"kind": "ServiceAccount", "name": "doer", "namespace": "default"}]
    });
    world.create_object("rbac.authorization.k8s.io/v1", "roles", role).await;
    world
        .create_object("rbac.authorization.k8s.io/v1", "rolebindings", binding)
        .await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}});
    let mut spec = works(&[config_map("a", "1"), secret]);
    spec["executor"] =
        json!({"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "default", "name": "doer"}}});
    world.create_work("web", spec).await;
    let work = world.work_until("web", |it| is(it, "Applied", "False")).await;
    let manifests = &work["status"]["resourceStatus"]["manifests"];
    assert_eq!(condition(&manifests[0], "Applied")["status"], "True");
    assert_eq!(
        condition(&manifests[1], "Applied")["message"],
        "Failed to apply manifest: not allowed to apply the resource  secrets, default s, will try again in 1m0s"
    );
    assert!(world.object("v1", "secrets", "s").await.is_none());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executor_permission_changes_take_effect_immediately() {
    let world = World::new().await;
    let rbac = "rbac.authorization.k8s.io/v1";
    let writes = json!(["create", "update", "patch", "get", "delete"]);
    let role = json!({
        "metadata": {"name": "maps", "namespace": "default"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": writes}]
    });
    let binding = json!({
        "metadata": {"name": "maps", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maps"},
        "subjects": [{"kind": "ServiceAccount", "name": "doer", "namespace": "default"}]
    });
    world.create_object(rbac, "roles", role).await;
    world.create_object(rbac, "rolebindings", binding.clone()).await;
    let mut spec = works(&[config_map("a", "1")]);
    spec["executor"] =
        json!({"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "default", "name": "doer"}}});
    world.create_work("web", spec).await;
    world.work_until("web", |it| is(it, "Applied", "True")).await;
    world.delete_of(rbac, "rolebindings", "maps").await;
    world.work_until("web", |it| is(it, "Applied", "False")).await;
    world
        .patch_object("configmaps", "a", json!({"data": {"k": "changed"}}))
        .await;
    world.create_object(rbac, "rolebindings", binding).await;
    world.work_until("web", |it| is(it, "Applied", "True")).await;
    world
        .object_until("configmaps", "a", |it| it.is_some_and(|it| it["data"]["k"] == "1"))
        .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_new_content_rechecks_what_the_executor_may_grant() {
    let world = World::new().await;
    let rbac = "rbac.authorization.k8s.io/v1";
    let allow = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let held = [
        allow("", "configmaps", &["get"]),
        allow(
            "rbac.authorization.k8s.io",
            "roles",
            &["create", "update", "patch", "get", "delete"],
        ),
    ];
    let role = json!({"metadata": {"name": "doer", "namespace": "default"}, "rules": held});
    let binding = json!({
        "metadata": {"name": "doer", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "doer"},
        "subjects": [{"kind": "ServiceAccount", "name": "doer", "namespace": "default"}]
    });
    world.create_object(rbac, "roles", role).await;
    world.create_object(rbac, "rolebindings", binding).await;
    let work = |rule: Value| {
        let role = json!({"apiVersion": rbac, "kind": "Role", "metadata": {"name": "made", "namespace": "default"}, "rules": [rule]});
        let mut spec = works(&[role]);
        spec["executor"] =
            json!({"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "default", "name": "doer"}}});
        spec
    };
    world.create_work("one", work(allow("", "configmaps", &["get"]))).await;
    world.work_until("one", |it| is(it, "Applied", "True")).await;
    // The same executor, the same Role, the same generation.
    world.create_work("two", work(allow("", "secrets", &["*"]))).await;
    let two = world.work_until("two", |it| is(it, "Applied", "False")).await;
    let message = condition(&two["status"]["resourceStatus"]["manifests"][0], "Applied")["message"].to_string();
    assert!(message.contains("permission escalation"), "{message}");
    let role = world.object(rbac, "roles", "made").await.unwrap();
    assert_eq!(role["rules"][0]["resources"], json!(["configmaps"]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_cannot_aggregate_a_role_it_could_not_grant() {
    let world = World::new().await;
    let rbac = "rbac.authorization.k8s.io/v1";
    let allow = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let writes = ["create", "update", "patch", "get", "delete"];
    let held = [
        allow("", "configmaps", &["get"]),
        allow("rbac.authorization.k8s.io", "clusterroles", &writes),
    ];
    let roles = [
        ("doer", json!(held)),
        ("maps", json!([allow("", "configmaps", &["get"])])),
        ("secrets", json!([allow("", "secrets", &["*"])])),
    ];
    for (name, rules) in roles {
        let role = json!({"metadata": {"name": name}, "rules": rules});
        world.create_cluster_object(rbac, "clusterroles", role).await;
    }
    let binding = json!({
        "metadata": {"name": "doer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "doer"},
        "subjects": [{"kind": "ServiceAccount", "name": "doer", "namespace": "default"}]
    });
    world.create_cluster_object(rbac, "clusterrolebindings", binding).await;
    let aggregated = |name: &str| {
        let labels = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": name, "labels": labels}})
    };
    let work = |manifest: Value, strategy: Value| {
        let name = manifest["metadata"]["name"].clone();
        let mut spec = works(&[manifest]);
        spec["executor"] =
            json!({"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "default", "name": "doer"}}});
        spec["manifestConfigs"] = json!([{
            "resourceIdentifier": {"group": "rbac.authorization.k8s.io", "resource": "clusterroles", "name": name, "namespace": ""},
            "updateStrategy": strategy
        }]);
        spec
    };
    // Nothing of them is an escalation by itself: one has no rules, and the rules of the other are not what is written.
    let mut ignored = aggregated("secrets");
    ignored["rules"] = json!([allow("", "configmaps", &["get"])]);
    let ignoring = json!({"type": "ServerSideApply", "serverSideApply": {
        "force": true, "ignoreFields": [{"condition": "OnSpokePresent", "jsonPointers": ["/rules"]}]
    }});
    let cases = [
        ("update", work(aggregated("secrets"), json!({"type": "Update"}))),
        ("apply", work(aggregated("secrets"), json!({"type": "ServerSideApply"}))),
        ("ignore", work(ignored, ignoring)),
    ];
    for (name, spec) in cases {
        world.create_work(name, spec).await;
        let work = world.work_until(name, |it| is(it, "Applied", "False")).await;
        let message = condition(&work["status"]["resourceStatus"]["manifests"][0], "Applied")["message"].to_string();
        assert!(message.contains("permission escalation"), "{name}: {message}");
    }
    let role = world.cluster_object(rbac, "clusterroles", "secrets").await.unwrap();
    assert_eq!(role["metadata"]["labels"], Value::Null);
    // What it could grant it may label.
    world
        .create_work("maps", work(aggregated("maps"), json!({"type": "Update"})))
        .await;
    world.work_until("maps", |it| is(it, "Applied", "True")).await;
    let role = world.cluster_object(rbac, "clusterroles", "maps").await.unwrap();
    assert_eq!(
        role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"],
        "true"
    );
    assert_eq!(role["rules"][0]["resources"], json!(["configmaps"]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_works_at_once_all_become_available() {
    let world = World::new().await;
    let names: Vec<String> = (0..50).map(|it| format!("work-{it}")).collect();
    futures::future::join_all(
        names
            .iter()
            .map(|it| world.create_work(it, works(&[config_map(it, "1")]))),
    )
    .await;
    for name in &names {
        world.work_until(name, |it| is(it, "Available", "True")).await;
    }
    world.stop().await;
}

fn works(manifests: &[Value]) -> Value {
    json!({"workload": {"manifests": manifests}})
}

fn condition(of: &Value, r#type: &str) -> Value {
    of["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|it| it["type"] == r#type)
        .cloned()
        .unwrap_or_default()
}

fn is(work: &Value, r#type: &str, status: &str) -> bool {
    condition(&work["status"], r#type)["status"] == status
}

fn at_generation(work: &Value, r#type: &str, generation: i64) -> bool {
    condition(&work["status"], r#type)["observedGeneration"] == generation
}
