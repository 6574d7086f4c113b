use super::*;

fn application(value: Value) -> PulledApplication {
    serde_json::from_value(value).unwrap()
}

fn redirected(annotations: Value, destination: Value) -> Value {
    let metadata = json!({"name": "a", "namespace": "n", "annotations": annotations});
    let object = on_cluster(&application(
        json!({"metadata": metadata, "spec": {"destination": destination}}),
    ));
    object["spec"]["destination"].clone()
}

#[test]
fn an_application_is_wrapped_whole() {
    let application = application(json!({
        "metadata": {
            "name": "guestbook", "namespace": "argocd", "uid": "0a1b2c3d", "resourceVersion": "7",
            "labels": {words::PULL: "true", "team": "x"},
            "annotations": {
                words::CLUSTER: "c1", words::SKIP_RECONCILE: "true", words::CLUSTER_NAMESPACE: "apps",
                words::DESTINATION_NAME: "", "kept": "yes",
            },
            "finalizers": [words::RESOURCES_FINALIZER],
            "ownerReferences": [{
                "apiVersion": "ARGOPROJ.io/v1alpha1", "kind": "applicationset", "name": "set", "uid": "u",
            }],
        },
        "operation": {"sync": {"revision": "HEAD"}},
        "spec": {"project": "default", "destination": {"name": "c1", "namespace": "guests"}, "odd": [null, 1.5]},
        "status": {"health": {"status": "Healthy"}},
    }));
    let work = serde_json::to_value(work(&application, "c1", None)).unwrap();
    let rule = |name: &str, path: &str| json!({"type": "JSONPaths", "jsonPaths": [{"name": name, "path": path}]});
    let expected = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {
            "name": "guestbook-0a1b2", "namespace": "c1",
            "labels": {words::PULL: "true", "apps.open-cluster-management.io/application-set": "true"},
            "annotations": {
                "apps.open-cluster-management.io/hub-application-namespace": "argocd",
                "apps.open-cluster-management.io/hub-application-name": "guestbook",
                "apps.open-cluster-management.io/hosting-applicationset": "argocd/set",
            },
        },
        "spec": {
            "workload": {"manifests": [{
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
                "metadata": {
                    "name": "guestbook", "namespace": "apps",
                    "labels": {"team": "x", "apps.open-cluster-management.io/application-set": "true"},
                    "annotations": {
                        "kept": "yes", "apps.open-cluster-management.io/hosting-applicationset": "argocd/set",
                    },
                    "finalizers": ["resources-finalizer.argocd.argoproj.io"],
                },
                "operation": {"sync": {"revision": "HEAD"}},
                "spec": {
                    "project": "default", "odd": [null, 1.5],
                    "destination": {"name": "", "server": "", "namespace": "guests"},
                },
            }]},
            "manifestConfigs": [{
                "resourceIdentifier": {
                    "group": "argoproj.io", "resource": "applications", "name": "guestbook", "namespace": "apps",
                },
                "feedbackRules": [
                    rule("healthStatus", ".status.health.status"),
                    rule("syncStatus", ".status.sync.status"),
                    rule("operationStateStartedAt", ".status.operationState.startedAt"),
                    rule("operationStatePhase", ".status.operationState.phase"),
                    rule("syncRevision", ".status.sync.revision"),
                ],
                "updateStrategy": {"type": "ServerSideApply", "serverSideApply": {
                    "force": true,
                    "ignoreFields": [{"condition": "OnSpokeChange", "jsonPaths": [".operation"]}],
                }},
            }],
        },
    });
    assert_eq!(work, expected, "{work:#}");
}

#[test]
fn a_destination_is_the_cluster_or_what_is_said() {
    let hub = json!({"name": "c1", "server": "https://hub", "namespace": "n"});
    let at = |name: &str, server: &str| json!({"name": name, "server": server, "namespace": "n"});
    let own = at("", "https://kubernetes.default.svc");
    assert_eq!(redirected(json!({}), hub.clone()), own);
    let name = json!({words::DESTINATION_NAME: "other"});
    assert_eq!(redirected(name, hub.clone()), at("other", ""));
    let server = json!({words::DESTINATION_SERVER: "https://x"});
    assert_eq!(redirected(server, hub.clone()), at("", "https://x"));
    let both = json!({words::DESTINATION_NAME: "other", words::DESTINATION_SERVER: "https://x"});
    assert_eq!(redirected(both, hub), at("other", "https://x"));
    assert_eq!(redirected(json!({}), json!("text")), json!("text"));
}

#[test]
fn an_operation_that_is_no_object_stays() {
    let metadata = json!({"name": "a"});
    let object = on_cluster(&application(json!({"metadata": metadata, "operation": "now"})));
    let expected = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "a", "namespace": "argocd"},
    });
    assert_eq!(object, expected);
}

#[test]
fn what_is_there_is_replaced() {
    let present = json!({
        "metadata": {"name": "a-u", "namespace": "c1", "uid": "w", "labels": {"x": "y"}, "annotations": {"x": "y"}},
        "spec": {"deleteOption": {"propagationPolicy": "Orphan"}},
    });
    let present: ManifestWork = serde_json::from_value(present).unwrap();
    let metadata = json!({"name": "a", "namespace": "n", "uid": "u"});
    let new = work(&application(json!({"metadata": metadata})), "c1", Some(&present));
    assert_eq!(new.metadata.uid.as_deref(), Some("w"));
    assert_eq!(new.labels().keys().collect::<Vec<_>>(), [words::PULL]);
    assert_eq!(new.annotations().len(), 2);
    assert_eq!(new.spec.delete_option, None);
}

#[test]
fn an_operation_stays_until_the_cluster_has_heard_it() {
    let with = |operation: Value, project: &str| {
        let metadata = json!({"name": "a", "namespace": "n", "uid": "12345"});
        let mut object = json!({"metadata": metadata, "spec": {"project": project}});
        if !operation.is_null() {
            object["operation"] = operation;
        }
        application(object)
    };
    let told = |it: &ManifestWork| it.spec.workload.manifests.read()[0].0.get("operation").cloned();
    let sync = json!({"sync": {}});
    let mut present = work(&with(sync.clone(), "x"), "c1", None);
    present.metadata.generation = Some(2);
    // Taken off the Application, which even changes: nobody has heard of it yet.
    assert_eq!(
        told(&work(&with(Value::Null, "x"), "c1", Some(&present))),
        Some(sync.clone())
    );
    assert_eq!(
        told(&work(&with(Value::Null, "y"), "c1", Some(&present))),
        Some(sync.clone())
    );
    let applied = |generation: i64| {
        let condition = condition::wanted(conditions::manifest_work::APPLIED, true, "Applied", "");
        let since = condition.at_generation(Some(generation)).since(Default::default());
        serde_json::from_value(json!({"conditions": [since]})).unwrap()
    };
    present.status = Some(applied(1));
    assert_eq!(
        told(&work(&with(Value::Null, "y"), "c1", Some(&present))),
        Some(sync.clone())
    );
    present.status = Some(applied(2));
    assert_eq!(
        work(&with(Value::Null, "x"), "c1", Some(&present)),
        present,
        "nothing is written"
    );
    assert_eq!(told(&work(&with(Value::Null, "y"), "c1", Some(&present))), None);
    let other = json!({"sync": {"revision": "1"}});
    assert_eq!(
        told(&work(&with(other.clone(), "x"), "c1", Some(&present))),
        Some(other)
    );
}
