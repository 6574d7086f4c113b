//! DELETE: answers, finalizers, preconditions, propagation, collections, and pods' subresources.

use crate::{
    check::{Check, must, should},
    client::Ask,
    cx::{Cx, config_map},
};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "71",
            "a deleted ConfigMap answers a Status with its uid, and is gone",
            status,
        ),
        must(
            "72",
            "a deleted Service, ServiceAccount, Namespace or Pod answers the object",
            object,
        ),
        must(
            "73",
            "finalizers keep an object until the last one goes; the DELETED event is newer",
            finalizer,
        ),
        must(
            "74",
            "no finalizer may be added to an object that is going",
            new_finalizer,
        ),
        must("75", "preconditions that do not hold are 409", preconditions),
        must(
            "76",
            "Foreground and Orphan add their finalizers; what makes no sense is 422",
            propagation,
        ),
        must(
            "77",
            "deletecollection removes what matches and answers the list; a dry run removes nothing",
            collection,
        ),
        should("78", "a Job that is deleted without a policy leaves its pods", job),
        should("80", "logs of a pod without a node are empty, exec is refused", logs),
    ]
}

async fn status(c: Cx) {
    let path = c.core("configmaps").await;
    let made = c.make(&path, config_map("a", json!({}))).await;
    let gone = c.delete(&format!("{path}/a")).await.is(200);
    let mut wanted = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made.uid()}});
    assert_eq!(gone.json, wanted);
    c.get(&format!("{path}/a"))
        .await
        .fails(404, "NotFound")
        .says("configmaps \"a\" not found");
    c.delete(&format!("{path}/a")).await.fails(404, "NotFound");
    let kind = c.define_simple("things", "Thing", json!({})).await;
    let made = c.make(&kind.path, kind.object("a", json!({}))).await;
    wanted["details"] = json!({"name": "a", "group": kind.group, "kind": "things", "uid": made.uid()});
    assert_eq!(c.delete(&kind.at("a")).await.is(200).json, wanted);
}

async fn object(c: Cx) {
    let namespace = c.namespace().await;
    let core = format!("/api/v1/namespaces/{namespace}");
    c.until(&format!("{core}/serviceaccounts/default"), |it| it.code == 200)
        .await;
    for (plural, kind, spec) in [
        ("services", "Service", json!({"ports": [{"port": 80}]})),
        ("serviceaccounts", "ServiceAccount", Value::Null),
        ("pods", "Pod", json!({"containers": [{"name": "c", "image": "i"}]})),
    ] {
        let mut object = json!({"metadata": {"name": "a"}});
        if !spec.is_null() {
            object["spec"] = spec;
        }
        c.make(&format!("{core}/{plural}"), object).await;
        c.delete(&format!("{core}/{plural}/a"))
            .await
            .is(200)
            .has("/kind", kind)
            .has("/metadata/name", "a");
    }
    let name = c.name("gone");
    let domain = format!("{name}.ex.io");
    let storage = "/apis/storage.k8s.io/v1";
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let volume = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}});
    let attachment = json!({"attacher": "a.ex.io", "nodeName": "none", "source": {"persistentVolumeName": "none"}});
    for (path, name, object, kind) in [
        (
            format!("{core}/persistentvolumeclaims"),
            "a",
            json!({"spec": claim}),
            "PersistentVolumeClaim",
        ),
        (
            format!("{core}/podtemplates"),
            "a",
            json!({"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}),
            "PodTemplate",
        ),
        (
            format!("{core}/resourcequotas"),
            "a",
            json!({"spec": {}}),
            "ResourceQuota",
        ),
        (
            "/api/v1/persistentvolumes".to_owned(),
            &name,
            json!({"spec": volume}),
            "PersistentVolume",
        ),
        (
            format!("{storage}/storageclasses"),
            &name,
            json!({"provisioner": "ex.io/p"}),
            "StorageClass",
        ),
        (
            format!("{storage}/csidrivers"),
            &domain,
            json!({"spec": {}}),
            "CSIDriver",
        ),
        (
            format!("{storage}/csinodes"),
            &name,
            json!({"spec": {"drivers": []}}),
            "CSINode",
        ),
        (
            format!("{storage}/volumeattachments"),
            &name,
            json!({"spec": attachment}),
            "VolumeAttachment",
        ),
        // Others answer a Status.
        (
            format!("{core}/limitranges"),
            "a",
            json!({"spec": {"limits": []}}),
            "Status",
        ),
        ("/api/v1/nodes".to_owned(), &name, json!({}), "Status"),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(),
            &name,
            json!({"value": 1}),
            "Status",
        ),
    ] {
        let mut object = object;
        object["metadata"] = json!({"name": name});
        c.make(&path, object).await;
        c.delete(&format!("{path}/{name}")).await.is(200).has("/kind", kind);
        c.until_gone(&format!("{path}/{name}")).await;
    }
    c.delete(&core)
        .await
        .is(200)
        .has("/kind", "Namespace")
        .has("/status/phase", "Terminating");
}

async fn finalizer(c: Cx) {
    let path = c.core("configmaps").await;
    let mut object = config_map("a", json!({"k": "v"}));
    object["metadata"]["finalizers"] = json!(["ex.io/one", "ex.io/two"]);
    let made = c.make(&path, object).await;
    let mut watch = c
        .watch(&format!(
            "{path}?watch=1&resourceVersion={}&fieldSelector=metadata.name%3Da",
            made.revision()
        ))
        .await;
    let path = format!("{path}/a");
    let going = c
        .delete(&path)
        .await
        .is(200)
        .has("/kind", "ConfigMap")
        .has("/metadata/deletionGracePeriodSeconds", 0);
    assert!(going["metadata"]["deletionTimestamp"].is_string(), "{}", going.came());
    assert!(going.revision() > made.revision());
    let again = c.delete(&path).await.is(200);
    assert_eq!(again.revision(), going.revision(), "a second DELETE changes nothing");
    let one = c
        .merge(&path, json!({"metadata": {"finalizers": ["ex.io/two"]}}))
        .await
        .is(200);
    let mut last = one.json.clone();
    last["metadata"].as_object_mut().unwrap().remove("finalizers");
    c.put(&path, &last).await.is(200);
    c.get(&path).await.is(404);
    let mut seen = Vec::new();
    loop {
        let (kind, object) = watch.next().await;
        let revision: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        seen.push((kind.clone(), revision));
        if kind == "DELETED" {
            assert_eq!(object["data"]["k"], "v", "the DELETED event has the last state");
            break;
        }
    }
    let kinds: Vec<&str> = seen.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(kinds, ["MODIFIED", "MODIFIED", "DELETED"]);
    assert!(seen.is_sorted_by(|one, other| one.1 < other.1), "{seen:?}");
}

async fn new_finalizer(c: Cx) {
    let path = c.core("configmaps").await;
    let mut object = config_map("a", json!({}));
    object["metadata"]["finalizers"] = json!(["ex.io/one"]);
    c.make(&path, object).await;
    let path = format!("{path}/a");
    c.delete(&path).await.is(200);
    c.merge(&path, json!({"metadata": {"finalizers": ["ex.io/one", "ex.io/x"]}})).await.fails(422, "Invalid").mentions(
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers \
         []string{\"ex.io/x\"}",
    );
    c.merge(&path, json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .is(200);
    c.merge(&path, json!({"metadata": {"finalizers": null}})).await.is(200);
    c.get(&path).await.is(404);
}

async fn preconditions(c: Cx) {
    let path = c.core("configmaps").await;
    let made = c.make(&path, config_map("a", json!({}))).await;
    let path = format!("{path}/a");
    let given = |what: Value| {
        c.send(Ask::delete(&path).json(&json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": what})))
    };
    given(json!({"uid": "bad"}))
        .await
        .fails(409, "Conflict")
        .says(&format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (bad) does not match the UID in \
             record ({}). The object might have been deleted and then recreated",
            made.uid()
        ))
        .has("/details/kind", "ConfigMap");
    given(json!({"resourceVersion": "1"})).await.fails(409, "Conflict").says(&format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition (1) does not match the \
         ResourceVersion in record ({}). The object might have been modified",
        made.revision()
    ));
    given(json!({"uid": made.uid(), "resourceVersion": made.revision().to_string()}))
        .await
        .is(200);
}

async fn propagation(c: Cx) {
    let path = c.core("configmaps").await;
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        // A finalizer of its own keeps the object in sight when the garbage collector has done its part.
        let mut object = config_map("a", json!({}));
        object["metadata"]["finalizers"] = json!(["ex.io/hold"]);
        c.make(&path, object).await;
        let reply = c.delete(&format!("{path}/a?propagationPolicy={policy}")).await.is(200);
        let finalizers = reply["metadata"]["finalizers"].as_array().unwrap().clone();
        assert!(finalizers.contains(&json!(finalizer)), "{policy}: {finalizers:?}");
        c.until(&format!("{path}/a"), |it| {
            it.at("/metadata/finalizers") == &json!(["ex.io/hold"])
        })
        .await;
        c.merge(&format!("{path}/a"), json!({"metadata": {"finalizers": null}}))
            .await
            .is(200);
        c.until_gone(&format!("{path}/a")).await;
    }
    // Whoever says another policy later replaces the first; whoever says none leaves it.
    for first in ["foregroundDeletion", "orphan"] {
        let mut object = config_map("c", json!({}));
        object["metadata"]["finalizers"] = json!(["ex.io/hold", first]);
        c.make(&path, object).await;
        let mut revision = 0;
        for (query, wanted) in [
            ("?propagationPolicy=Background", json!(["ex.io/hold"])),
            (
                "?propagationPolicy=Foreground",
                json!(["ex.io/hold", "foregroundDeletion"]),
            ),
            ("?propagationPolicy=Orphan", json!(["ex.io/hold", "orphan"])),
            ("?propagationPolicy=Background", json!(["ex.io/hold"])),
            ("", json!(["ex.io/hold"])),
        ] {
            let reply = c.delete(&format!("{path}/c{query}")).await.is(200);
            assert_eq!(reply.at("/metadata/finalizers"), &wanted, "{first} {query}");
            assert!(!query.is_empty() || reply.revision() >= revision);
            revision = reply.revision();
        }
        c.merge(&format!("{path}/c"), json!({"metadata": {"finalizers": null}}))
            .await
            .is(200);
        c.until_gone(&format!("{path}/c")).await;
    }
    let mut both = config_map("d", json!({}));
    both["metadata"]["finalizers"] = json!(["orphan", "foregroundDeletion"]);
    c.post(&path, both).await.fails(422, "Invalid").says(
        "ConfigMap \"d\" is invalid: metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and \
         foregroundDeletion cannot be both set",
    );
    c.make(&path, config_map("b", json!({}))).await;
    c.delete(&format!("{path}/b?propagationPolicy=Bad")).await.fails(422, "Invalid").says(
        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Bad\": supported values: \
         \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
    );
    let both = json!({"apiVersion": "v1", "kind": "DeleteOptions", "orphanDependents": false, "propagationPolicy": "Background"});
    c.send(Ask::delete(format!("{path}/b")).json(&both)).await.fails(422, "Invalid").mentions(
        "propagationPolicy: Invalid value: \"Background\": orphanDependents and deletionPropagation cannot be both set",
    );
    c.send(Ask::delete(format!("{path}/b")).json(&json!({"apiVersion": "v1", "kind": "Foo"})))
        .await
        .fails(400, "BadRequest");
    c.get(&format!("{path}/b")).await.is(200);
    c.delete(&format!("{path}/b?propagationPolicy=Background"))
        .await
        .is(200)
        .has("/kind", "Status");
}

async fn collection(c: Cx) {
    let path = c.core("configmaps").await;
    for (name, label) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let mut object = config_map(name, json!({}));
        object["metadata"]["labels"] = json!({"l": label});
        c.make(&path, object).await;
    }
    let dry = c
        .delete(&format!("{path}?labelSelector=l%3Dx&dryRun=All"))
        .await
        .is(200);
    assert_eq!(dry.names(), ["a", "b"]);
    assert_eq!(c.get(&format!("{path}?labelSelector=l")).await.names(), ["a", "b", "c"]);
    let gone = c
        .delete(&format!("{path}?labelSelector=l%3Dx"))
        .await
        .is(200)
        .has("/kind", "ConfigMapList");
    assert_eq!(gone.names(), ["a", "b"]);
    assert_eq!(c.get(&format!("{path}?labelSelector=l")).await.names(), ["c"]);
    for name in ["d", "e"] {
        let mut object = config_map(name, json!({}));
        object["metadata"]["labels"] = json!({"l": "y"});
        c.make(&path, object).await;
    }
    // A page at a time: the token goes on where the last one ended.
    let mut left = vec!["c", "d", "e"];
    let mut query = "labelSelector=l%3Dy&limit=1".to_owned();
    loop {
        let one = c.delete(&format!("{path}?{query}")).await.is(200);
        // A real server tells of the end a page later: it has not looked behind the last one that matches.
        let gone: Vec<&str> = left.drain(..left.len().min(1)).collect();
        assert_eq!(one.names(), gone, "{}", one.came());
        assert_eq!(c.get(&format!("{path}?labelSelector=l")).await.names(), left);
        match one.at("/metadata/continue").as_str().unwrap_or_default() {
            "" => break,
            token => query = format!("labelSelector=l%3Dy&limit=1&continue={token}"),
        }
    }
    assert!(left.is_empty(), "there is more and no token for it: {left:?}");
    c.make(&path, config_map("rest", json!({}))).await;
    assert_eq!(c.delete(&path).await.is(200)["kind"], "ConfigMapList");
    c.until_gone(&format!("{path}/rest")).await;
}

async fn job(c: Cx) {
    let namespace = c.namespace().await;
    c.until(
        &format!("/api/v1/namespaces/{namespace}/serviceaccounts/default"),
        |it| it.code == 200,
    )
    .await;
    let jobs = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    // Suspended, so that where somebody runs Jobs no further pod comes.
    let made = c
        .make(
            &jobs,
            json!({"metadata": {"name": "j"}, "spec": {"suspend": true, "template": template}}),
        )
        .await;
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": made.uid()}]);
    c.make(
        &pods,
        json!({"metadata": {"name": "p", "ownerReferences": owner}, "spec": template["spec"]}),
    )
    .await;
    let going = c.delete(&format!("{jobs}/j")).await.is(200);
    let finalizers = going["metadata"]["finalizers"].to_string();
    assert!(finalizers.contains("orphan"), "{}", going.came());
    c.until_gone(&format!("{jobs}/j")).await;
    let pod = c.get(&format!("{pods}/p")).await.is(200);
    assert!(pod["metadata"]["ownerReferences"].is_null(), "{}", pod.came());
}

/// The path of a pod that nobody schedules.
pub async fn pod(c: &Cx) -> String {
    let path = c.core("pods").await;
    c.until(&path.replace("pods", "serviceaccounts/default"), |it| it.code == 200)
        .await;
    c.make(
        &path,
        json!({"metadata": {"name": "p1"}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}}),
    )
    .await;
    format!("{path}/p1")
}

async fn logs(c: Cx) {
    let path = pod(&c).await;
    let reply = c.get(&format!("{path}/log")).await;
    assert!(
        matches!(reply.code, 200 | 204) && reply.bytes.is_empty(),
        "{}",
        reply.came()
    );
    c.get(&format!("{path}/log?container=zz"))
        .await
        .fails(400, "BadRequest")
        .says("container zz is not valid for pod p1");
    c.get(&path.replace("/p1", "/missing/log")).await.fails(404, "NotFound");
    for sub in ["exec?command=x", "attach", "portforward"] {
        let reply = c.send(Ask::new("POST", format!("{path}/{sub}"))).await;
        reply
            .fails(400, "BadRequest")
            .says("pod p1 does not have a host assigned");
    }
}
