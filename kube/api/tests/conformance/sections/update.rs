//! PUT: revisions, what may change, and what a change counts.

use crate::{
    check::{Check, must, should},
    cx::{Cx, RBAC, config_map, deployment},
    sections::generation,
};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "62",
            "the current resourceVersion is accepted and grows, a stale one is 409",
            revisions,
        ),
        must(
            "63",
            "without resourceVersion most kinds are overwritten; custom resources, Leases, CRDs and webhooks are 422",
            unconditional,
        ),
        must(
            "64",
            "a PUT that changes nothing keeps the resourceVersion and tells no watch",
            unchanged,
        ),
        must(
            "65",
            "a PUT of a missing object creates it for the kinds that Kubernetes creates, and is 404 for others",
            missing,
        ),
        must(
            "66",
            "another uid is 409, another name 400, a deletionTimestamp 422",
            identity,
        ),
        must(
            "67",
            "the main resource cannot change status, /status cannot change spec or a custom resource's labels",
            status,
        ),
        must("69", "what is immutable is 422", immutable),
        should("70", "of a pod's spec the image may change and little else", pod),
    ]
}

async fn revisions(c: Cx) {
    let path = c.core("configmaps").await;
    let first = c.make(&path, config_map("a", json!({"k": "1"}))).await;
    let path = format!("{path}/a");
    let mut object = first.json.clone();
    object["data"]["k"] = "2".into();
    let second = c.put(&path, &object).await.is(200);
    assert!(second.revision() > first.revision());
    c.put(&path, &object)
        .await
        .fails(409, "Conflict")
        .says(
            "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to \
             the latest version and try again",
        )
        .has("/details/kind", "configmaps")
        .has("/details/name", "a");
    object["metadata"]["resourceVersion"] = (second.revision() + 1_000_000).to_string().into();
    c.put(&path, &object).await.fails(409, "Conflict");
    object["metadata"]["resourceVersion"] = "abc".into();
    c.put(&path, &object)
        .await
        .fails(500, "")
        .says("strconv.ParseUint: parsing \"abc\": invalid syntax");
    c.get(&format!("{path}?resourceVersion=abc"))
        .await
        .fails(500, "")
        .says("resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax");
}

async fn unconditional(c: Cx) {
    let namespace = c.namespace().await;
    let core = format!("/api/v1/namespaces/{namespace}");
    for (path, mut object, change) in [
        (
            format!("{core}/configmaps"),
            config_map("a", json!({"k": "1"})),
            "/data/k",
        ),
        (
            format!("{core}/secrets"),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"k": "1"}}),
            "/stringData/k",
        ),
        (
            format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
            deployment("a"),
            "/spec/template/spec/containers/0/image",
        ),
    ] {
        c.make(&path, object.clone()).await;
        *object.pointer_mut(change).unwrap() = "changed".into();
        c.put(&format!("{path}/a"), &object).await.is(200);
        object["metadata"]["resourceVersion"] = "0".into();
        c.put(&format!("{path}/a"), &object).await.is(200);
    }
    let kind = c
        .define_simple("things", "Thing", json!({"a": {"type": "string"}}))
        .await;
    c.make(&kind.path, kind.object("a", json!({}))).await;
    let must = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    c.put(&kind.at("a"), &kind.object("a", json!({"a": "b"})))
        .await
        .fails(422, "Invalid")
        .says(&format!("things.{} \"a\" is invalid: {must}", kind.group))
        .has("/details/kind", "things");
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l1"}, "spec": {"holderIdentity": "me"}});
    c.make(&leases, lease.clone()).await;
    c.put(&format!("{leases}/l1"), &lease)
        .await
        .fails(422, "Invalid")
        .says(&format!("leases.coordination.k8s.io \"l1\" is invalid: {must}"));
    let mut crd = c.get(&kind.crd).await.is(200).json;
    crd["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    c.put(&kind.crd, &crd).await.fails(422, "Invalid").mentions(must);
    let webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": c.name("hook")}, "webhooks": []});
    c.make(webhooks, configuration.clone()).await;
    c.put(&format!("{webhooks}/{}", c.name("hook")), &configuration)
        .await
        .fails(422, "Invalid")
        .mentions(must);
    unconditional_kinds(&c, &namespace).await;
}

/// Of the other kinds: those that want a revision, and those that do not.
async fn unconditional_kinds(c: &Cx, namespace: &str) {
    let (name, domain) = (c.name("any"), format!("{}.ex.io", c.name("any")));
    let in_namespace = |group: &str, plural: &str| format!("/apis/{group}/namespaces/{namespace}/{plural}");
    let rules = json!([{"apiGroups": ["none.ex.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}]);
    let target = json!({"kind": "Deployment", "name": "none", "apiVersion": "apps/v1"});
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let storage = "/apis/storage.k8s.io/v1";
    for (path, name, more) in [
        (
            in_namespace("policy/v1", "poddisruptionbudgets"),
            "a",
            json!({"spec": {"minAvailable": 1, "selector": {}}}),
        ),
        (format!("{storage}/csidrivers"), &domain, json!({"spec": {}})),
        (format!("{storage}/csinodes"), &name, json!({"spec": {"drivers": []}})),
        (
            in_namespace("storage.k8s.io/v1", "csistoragecapacities"),
            "a",
            json!({"storageClassName": "x"}),
        ),
        (
            format!("{storage}/volumeattachments"),
            &name,
            json!({"spec": {"attacher": "a.ex.io", "nodeName": "none", "source": {"persistentVolumeName": "none"}}}),
        ),
        (
            "/apis/node.k8s.io/v1/runtimeclasses".to_owned(),
            &name,
            json!({"handler": "h"}),
        ),
        (
            format!("{admission}/mutatingwebhookconfigurations"),
            &domain,
            json!({"webhooks": []}),
        ),
        (
            format!("{admission}/validatingadmissionpolicies"),
            &domain,
            json!({"spec": {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "true"}]}}),
        ),
        (
            format!("{admission}/validatingadmissionpolicybindings"),
            &domain,
            json!({"spec": {"policyName": "none", "validationActions": ["Deny"]}}),
        ),
    ] {
        let mut object = more;
        object["metadata"] = json!({"name": name});
        c.make(&path, object.clone()).await;
        c.put(&format!("{path}/{name}"), &object)
            .await
            .fails(422, "Invalid")
            .mentions("metadata.resourceVersion: Invalid value: 0: must be specified for an update");
    }
    for (path, name, more) in [
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(),
            name.as_str(),
            json!({"value": 1}),
        ),
        (
            format!("{storage}/storageclasses"),
            &name,
            json!({"provisioner": "ex.io/p"}),
        ),
        (
            in_namespace("autoscaling/v2", "horizontalpodautoscalers"),
            "a",
            json!({"spec": {"maxReplicas": 1, "scaleTargetRef": target}}),
        ),
        (
            in_namespace("discovery.k8s.io/v1", "endpointslices"),
            "a",
            json!({"addressType": "IPv4", "endpoints": []}),
        ),
        (
            in_namespace("networking.k8s.io/v1", "ingresses"),
            "a",
            json!({"spec": {"defaultBackend": backend}}),
        ),
    ] {
        let mut object = more;
        object["metadata"] = json!({"name": name});
        c.make(&path, object.clone()).await;
        object["metadata"]["labels"] = json!({"over": "written"});
        c.put(&format!("{path}/{name}"), &object)
            .await
            .is(200)
            .has("/metadata/labels/over", "written");
    }
}

async fn unchanged(c: Cx) {
    let path = c.core("configmaps").await;
    let made = c.make(&path, config_map("a", json!({"k": "1"}))).await;
    let mut watch = c
        .watch(&format!("{path}?watch=1&resourceVersion={}", made.revision()))
        .await;
    let again = c.put(&format!("{path}/a"), &made.json).await.is(200);
    assert_eq!(again.revision(), made.revision());
    let mut without = made.json.clone();
    without["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(
        c.put(&format!("{path}/a"), &without).await.is(200).revision(),
        made.revision()
    );
    c.make(&path, config_map("b", json!({}))).await;
    let mut next = watch.brief().await;
    if next.1 == "kube-root-ca.crt" {
        next = watch.brief().await;
    }
    assert_eq!(
        next,
        ("ADDED".into(), "b".into()),
        "nothing changed, so nothing should be told"
    );
}

async fn missing(c: Cx) {
    let namespace = c.namespace().await;
    let core = format!("/api/v1/namespaces/{namespace}");
    c.put(&format!("{core}/configmaps/a"), &config_map("a", json!({})))
        .await
        .fails(404, "NotFound")
        .says("configmaps \"a\" not found");
    c.put(
        &format!("/apis/apps/v1/namespaces/{namespace}/deployments/a"),
        &deployment("a"),
    )
    .await
    .fails(404, "NotFound");
    let pod = json!({"containers": [{"name": "c", "image": "i"}]});
    for (path, more) in [
        (format!("{core}/secrets"), json!({})),
        (format!("{core}/serviceaccounts"), json!({})),
        (format!("{core}/resourcequotas"), json!({"spec": {}})),
        (format!("{core}/pods"), json!({"spec": pod})),
        (format!("{core}/podtemplates"), json!({"template": {"spec": pod}})),
        ("/api/v1/namespaces".to_owned(), json!({})),
        ("/api/v1/nodes".to_owned(), json!({})),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(),
            json!({"value": 1}),
        ),
    ] {
        let name = c.name("missing");
        let mut object = more;
        object["metadata"] = json!({"name": name});
        c.put(&format!("{path}/{name}"), &object).await.fails(404, "NotFound");
    }
    let rbac = "rbac.authorization.k8s.io/v1";
    let role = c.name("role");
    for (path, object) in [
        (
            format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/a"),
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a", "resourceVersion": "5"}, "spec": {}}),
        ),
        (
            format!("{RBAC}/clusterroles/{role}"),
            json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": role}, "rules": []}),
        ),
        (
            format!("{RBAC}/namespaces/{namespace}/rolebindings/a"),
            json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "a"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"}}),
        ),
        (
            format!("{RBAC}/namespaces/{namespace}/roles/a"),
            json!({"apiVersion": rbac, "kind": "Role", "metadata": {"name": "a"}, "rules": []}),
        ),
        (
            format!("{RBAC}/clusterrolebindings/{role}"),
            json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": role},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}}),
        ),
        (
            format!("{core}/endpoints/a"),
            json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "a"}}),
        ),
        (
            format!("{core}/limitranges/a"),
            json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a"}, "spec": {"limits": []}}),
        ),
        (
            format!("/apis/node.k8s.io/v1/runtimeclasses/{role}"),
            json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": role}, "handler": "h"}),
        ),
        (
            format!("{core}/services/a"),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}),
        ),
        (
            format!("{core}/events/a"),
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a", "namespace": namespace},
                "involvedObject": {"kind": "ConfigMap", "namespace": namespace, "name": "x"}, "reason": "R", "type": "Normal"}),
        ),
    ] {
        c.put(&path, &object).await.is(201);
        c.removes(&path);
    }
}

async fn identity(c: Cx) {
    let path = c.core("configmaps").await;
    let made = c.make(&path, config_map("a", json!({}))).await;
    let path = format!("{path}/a");
    let with = |key: &str, value: Value| {
        let mut object = made.json.clone();
        object["metadata"][key] = value;
        object
    };
    c.put(&path, &with("uid", "other".into()))
        .await
        .fails(409, "Conflict")
        .mentions("Precondition failed: UID in precondition: other, UID in object meta: ")
        .mentions(&made.uid());
    c.put(&path, &with("name", "other".into()))
        .await
        .fails(400, "BadRequest")
        .says("the name of the object (other) does not match the name on the URL (a)");
    c.put(&path, &with("name", "".into()))
        .await
        .fails(400, "BadRequest")
        .says("the name of the object (a based on URL) was undeterminable: name must be provided");
    c.put(&path, &with("namespace", "default".into()))
        .await
        .fails(400, "BadRequest");
    c.put(&path, &with("deletionTimestamp", "2030-01-01T00:00:00Z".into()))
        .await
        .fails(422, "Invalid")
        .mentions("metadata.deletionTimestamp: Invalid value: ")
        .mentions("field is immutable");
    c.put(&path, &with("creationTimestamp", "2001-01-01T00:00:00Z".into()))
        .await
        .is(200)
        .has(
            "/metadata/creationTimestamp",
            made["metadata"]["creationTimestamp"].clone(),
        );
    c.merge(&path, json!({"metadata": {"uid": "other"}}))
        .await
        .fails(422, "Invalid")
        .mentions("metadata.uid: Invalid value: \"other\": field is immutable");
}

async fn status(c: Cx) {
    let namespace = c.namespace().await;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let mut object = deployment("a");
    // Without pods a controller has no number to write, and without a version it is in nobody's way
    // when it writes others.
    object["spec"]["replicas"] = 0.into();
    object["status"] = json!({"replicas": 9});
    let made = c.make(&path, object).await.lacks("/status/replicas");
    let path = format!("{path}/a");
    let mut object = made.json.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    object["status"] = json!({"replicas": 7});
    c.put(&path, &object).await.is(200).lacks("/status/replicas");
    object["spec"]["replicas"] = 5.into();
    object["metadata"]["annotations"] = json!({"a": "b"});
    c.put(&format!("{path}/status"), &object)
        .await
        .is(200)
        .has("/status/replicas", 7)
        .has("/spec/replicas", 0)
        .has("/metadata/annotations/a", "b");
    let kind = c
        .define_simple("things", "Thing", json!({"a": {"type": "string"}}))
        .await;
    let mut object = kind.object("a", json!({"a": "1"}));
    object["status"] = json!({"x": 1});
    let made = c.make(&kind.path, object).await.lacks("/status");
    let mut object = made.json.clone();
    object["status"] = json!({"x": 1});
    assert_eq!(
        c.put(&kind.at("a"), &object).await.is(200).lacks("/status").revision(),
        made.revision()
    );
    object["spec"]["a"] = "2".into();
    object["metadata"]["labels"] = json!({"l": "1"});
    c.put(&format!("{}/status", kind.at("a")), &object)
        .await
        .is(200)
        .has("/status/x", 1)
        .has("/spec/a", "1")
        .lacks("/metadata/labels");
    status_metadata(&c).await;
    status_of_cluster(&c).await;
}

/// What of the metadata a write of `/status` brings: all of it, but for some kinds.
async fn status_metadata(c: &Cx) {
    let namespace = c.namespace_called("notes").await;
    let core = format!("/api/v1/namespaces/{namespace}");
    c.until(&format!("{core}/serviceaccounts/default"), |it| it.code == 200)
        .await;
    let of = |group: &str, plural: &str| format!("/apis/{group}/namespaces/{namespace}/{plural}");
    let owner = json!([{"apiVersion": "v1", "kind": "Namespace", "name": namespace,
        "uid": c.get(&format!("/api/v1/namespaces/{namespace}")).await.uid()}]);
    let pod = json!({"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]});
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let admission = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies".to_owned();
    let rules = json!([{"apiGroups": ["none.ex.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}]);
    let policy = json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "true"}]});
    let attachment = json!({"attacher": "a.ex.io", "nodeName": "none", "source": {"persistentVolumeName": "none"}});
    for (path, spec, kept) in [
        (format!("{core}/services"), json!({"ports": [{"port": 80}]}), &[][..]),
        (format!("{core}/resourcequotas"), json!({}), &[]),
        (
            of("networking.k8s.io/v1", "ingresses"),
            json!({"defaultBackend": backend}),
            &[],
        ),
        (
            of("policy/v1", "poddisruptionbudgets"),
            json!({"minAvailable": 1, "selector": {}}),
            &[],
        ),
        (
            of("apps/v1", "deployments"),
            generation::idle("a")["spec"].clone(),
            &["labels"],
        ),
        (format!("{core}/pods"), pod, &["ownerReferences"]),
        (
            admission,
            policy,
            &["labels", "annotations", "finalizers", "ownerReferences"],
        ),
        (
            "/apis/storage.k8s.io/v1/volumeattachments".to_owned(),
            attachment,
            &["labels", "annotations", "finalizers", "ownerReferences"],
        ),
    ] {
        let name = format!("{}.ex.io", c.name("notes"));
        let name = if path.ends_with("policies") {
            name
        } else {
            c.name("notes")
        };
        c.make(&path, json!({"metadata": {"name": name}, "spec": spec})).await;
        let metadata = json!({"labels": {"l": "1"}, "annotations": {"ex.io/a": "1"}, "finalizers": ["ex.io/hold"],
            "ownerReferences": owner});
        let path = format!("{path}/{name}");
        let reply = c
            .merge(&format!("{path}/status"), json!({"metadata": metadata}))
            .await
            .is(200);
        for (key, pointer) in [
            ("labels", "/metadata/labels/l"),
            ("annotations", "/metadata/annotations/ex.io~1a"),
            ("finalizers", "/metadata/finalizers/0"),
            ("ownerReferences", "/metadata/ownerReferences/0"),
        ] {
            let is_kept = kept.contains(&key);
            assert_eq!(reply.at(pointer).is_null(), is_kept, "{key} of {}", reply.came());
        }
        c.merge(&path, json!({"metadata": {"finalizers": null}})).await.is(200);
    }
}

/// Namespaces, nodes and signing requests: what each of their paths writes.
async fn status_of_cluster(c: &Cx) {
    let namespace = format!("/api/v1/namespaces/{}", c.namespace_called("phase").await);
    c.merge(&namespace, json!({"status": {"phase": "Terminating"}}))
        .await
        .is(200)
        .has("/status/phase", "Active");
    let condition = json!([{"type": "ex.io/Seen", "status": "True"}]);
    c.merge(
        &format!("{namespace}/status"),
        json!({"spec": {"finalizers": []}, "status": {"conditions": condition}}),
    )
    .await
    .is(200)
    .has("/spec/finalizers", json!(["kubernetes"]))
    .has("/status/conditions/0/type", "ex.io/Seen");
    let name = c.name("node");
    let node = json!({"metadata": {"name": name}, "status": {"capacity": {"cpu": "1"}}});
    c.make("/api/v1/nodes", node).await.has("/status/capacity/cpu", "1");
    let node = format!("/api/v1/nodes/{name}");
    c.merge(&node, json!({"status": {"capacity": {"cpu": "2"}}}))
        .await
        .is(200)
        .has("/status/capacity/cpu", "1");
    c.merge(
        &format!("{node}/status"),
        json!({"spec": {"unschedulable": true}, "status": {"capacity": {"cpu": "2"}}}),
    )
    .await
    .is(200)
    .has("/status/capacity/cpu", "2")
    .lacks("/spec/unschedulable");
}

async fn immutable(c: Cx) {
    super::rules::immutable(&c).await;
    let namespace = c.namespace().await;
    let core = format!("/api/v1/namespaces/{namespace}");
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    c.make(&path, deployment("a")).await;
    let change = json!({"spec": {"selector": {"matchLabels": {"app": "b"}}, "template": {"metadata": {"labels": {"app": "b"}}}}});
    c.merge(&format!("{path}/a"), change)
        .await
        .fails(422, "Invalid")
        .mentions("spec.selector: Invalid value: ")
        .mentions("field is immutable");

    c.make(
        &format!("{core}/secrets"),
        json!({"metadata": {"name": "a"}, "type": "Opaque"}),
    )
    .await;
    c.merge(&format!("{core}/secrets/a"), json!({"type": "other/type"}))
        .await
        .fails(422, "Invalid")
        .mentions("type: Invalid value: \"other/type\": field is immutable");

    let role = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
    let bindings = format!("{RBAC}/namespaces/{namespace}/rolebindings");
    c.make(&bindings, json!({"metadata": {"name": "a"}, "roleRef": role("one")}))
        .await;
    c.merge(&format!("{bindings}/a"), json!({"roleRef": role("two")}))
        .await
        .fails(422, "Invalid")
        .mentions("cannot change roleRef");

    let kind = c.define_simple("things", "Thing", json!({})).await;
    c.merge(&kind.crd, json!({"spec": {"scope": "Cluster"}}))
        .await
        .fails(422, "Invalid")
        .mentions("spec.scope: Invalid value: \"Cluster\": field is immutable");
    for (change, said) in [
        (
            json!({"group": "other.example.com"}),
            "spec.group: Invalid value: \"other.example.com\"",
        ),
        (
            json!({"names": {"kind": "Other"}}),
            "spec.names.kind: Invalid value: \"Other\"",
        ),
        (
            json!({"names": {"plural": "others"}}),
            "spec.names.plural: Invalid value: \"others\"",
        ),
    ] {
        c.merge(&kind.crd, json!({"spec": change}))
            .await
            .fails(422, "Invalid")
            .mentions(&format!("{said}: field is immutable"));
    }
    c.merge(
        &kind.crd,
        json!({"spec": {"names": {"singular": "one", "shortNames": ["o"]}}}),
    )
    .await
    .is(200);

    let selected = json!({"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}});
    for (plural, said) in [
        (
            "daemonsets",
            "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable",
        ),
        (
            "replicasets",
            "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable",
        ),
        (
            "statefulsets",
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
             'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are \
             forbidden",
        ),
    ] {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/{plural}");
        let mut spec = selected.clone();
        if plural != "daemonsets" {
            spec["replicas"] = 0.into();
        }
        c.make(&path, json!({"metadata": {"name": "a"}, "spec": spec})).await;
        let other = json!({"selector": {"matchLabels": {"a": "c"}}, "template": {"metadata": {"labels": {"a": "c"}}}});
        c.merge(&format!("{path}/a"), json!({"spec": other}))
            .await
            .fails(422, "Invalid")
            .mentions(said);
    }
    let jobs = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    c.make(
        &jobs,
        json!({"metadata": {"name": "a"}, "spec": {"template": template}}),
    )
    .await;
    for (change, said) in [
        (
            json!({"selector": {"matchLabels": {"a": "c"}}}),
            "spec.selector: Invalid value: ",
        ),
        (
            json!({"template": {"spec": {"restartPolicy": "OnFailure"}}}),
            "spec.template: Invalid value: ",
        ),
        (
            json!({"completions": 3}),
            "spec.completions: Invalid value: 3: field is immutable",
        ),
        (
            json!({"completionMode": "Indexed"}),
            "spec.completionMode: Invalid value: \"Indexed\": field is immutable",
        ),
    ] {
        c.merge(&format!("{jobs}/a"), json!({"spec": change}))
            .await
            .fails(422, "Invalid")
            .mentions(said);
    }

    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    let made = c.make(&format!("{core}/services"), service).await;
    let mut object = made.json.clone();
    object["spec"]["clusterIP"] = "10.0.0.250".into();
    object["spec"]["clusterIPs"] = json!(["10.0.0.250"]);
    c.put(&format!("{core}/services/a"), &object)
        .await
        .fails(422, "Invalid")
        .mentions("may not change once set");
    let mut object = made.json.clone();
    for key in ["clusterIP", "clusterIPs"] {
        object["spec"].as_object_mut().unwrap().remove(key);
    }
    c.put(&format!("{core}/services/a"), &object)
        .await
        .is(200)
        .has("/spec/clusterIP", made["spec"]["clusterIP"].clone());
}

async fn pod(c: Cx) {
    let path = c.core("pods").await;
    // A real server makes it in a moment.
    c.until(&path.replace("pods", "serviceaccounts/default"), |it| it.code == 200)
        .await;
    c.make(
        &path,
        json!({"metadata": {"name": "a"}, "spec": {
            "containers": [{"name": "c", "image": "img:1"}], "tolerations": [{"key": "mine", "operator": "Exists"}],
        }}),
    )
    .await;
    let path = format!("{path}/a");
    c.merge(&path, json!({"spec": {"tolerations": []}}))
        .await
        .fails(422, "Invalid")
        .mentions("spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds");
    let image = |image: &str| json!({"spec": {"containers": [{"name": "c", "image": image}]}});
    c.strategic(&path, image("img:2"))
        .await
        .is(200)
        .has("/spec/containers/0/image", "img:2");
    c.strategic(
        &path,
        json!({"spec": {"containers": [{"name": "c", "command": ["x"]}]}}),
    )
    .await
    .fails(422, "Invalid")
    .mentions("spec: Forbidden: pod updates may not change fields other than ");
    for change in [json!({"hostNetwork": true}), json!({"nodeName": "elsewhere"})] {
        c.merge(&path, json!({"spec": change})).await.fails(422, "Invalid");
    }
    for seconds in [1, 31, -1] {
        c.merge(&path, json!({"spec": {"terminationGracePeriodSeconds": seconds}}))
            .await
            .fails(422, "Invalid")
            .mentions("spec: Forbidden: pod updates may not change fields other than ");
    }
    c.merge(&path, json!({"spec": {"schedulingGates": [{"name": "ex.io/late"}]}}))
        .await
        .fails(422, "Invalid")
        .mentions(
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'ex.io/late'",
        );
    // Less than nothing is one second; in a template it stays as it is.
    let at = path.rsplit_once('/').unwrap().0;
    let hasty = json!({"metadata": {"name": "hasty"}, "spec": {"terminationGracePeriodSeconds": -5,
        "schedulingGates": [{"name": "ex.io/one"}, {"name": "ex.io/two"}], "containers": [{"name": "c", "image": "i"}]}});
    c.make(at, hasty).await.has("/spec/terminationGracePeriodSeconds", 1);
    let hasty = format!("{at}/hasty");
    c.merge(&hasty, json!({"spec": {"terminationGracePeriodSeconds": -3}}))
        .await
        .is(200)
        .has("/spec/terminationGracePeriodSeconds", 1);
    c.merge(&hasty, json!({"spec": {"schedulingGates": [{"name": "ex.io/two"}]}}))
        .await
        .is(200)
        .has("/spec/schedulingGates", json!([{"name": "ex.io/two"}]));
    // What may change beside the image.
    c.merge(
        &path,
        json!({"metadata": {"labels": {"l": "1"}, "annotations": {"a": "b"}}}),
    )
    .await
    .is(200)
    .has("/metadata/labels/l", "1")
    .has("/metadata/annotations/a", "b");
    c.merge(&path, json!({"spec": {"activeDeadlineSeconds": 500}}))
        .await
        .is(200)
        .has("/spec/activeDeadlineSeconds", 500);
    c.merge(&path, json!({"spec": {"activeDeadlineSeconds": 400}}))
        .await
        .is(200)
        .has("/spec/activeDeadlineSeconds", 400);
    c.merge(&path, json!({"spec": {"activeDeadlineSeconds": 600}}))
        .await
        .fails(422, "Invalid")
        .mentions("spec.activeDeadlineSeconds: Invalid value: 600: must be less than or equal to previous value");
    c.merge(&path, json!({"spec": {"activeDeadlineSeconds": null}}))
        .await
        .fails(422, "Invalid")
        .mentions("must not update from a positive integer to nil value");
    let more = json!({"key": "more", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10});
    c.json_patch(
        &path,
        json!([{"op": "add", "path": "/spec/tolerations/-", "value": more}]),
    )
    .await
    .is(200)
    .has("/spec/tolerations/0/key", "mine");
    let read = c.get(&path).await.is(200);
    let tolerations = read["spec"]["tolerations"].as_array().unwrap().clone();
    assert!(tolerations.contains(&more), "{}", read.came());
    let longer: Vec<Value> = tolerations
        .iter()
        .cloned()
        .map(|mut it| {
            if it["key"] == "more" {
                it["tolerationSeconds"] = 20.into();
            }
            it
        })
        .collect();
    c.merge(&path, json!({"spec": {"tolerations": longer}})).await.is(200);
}
