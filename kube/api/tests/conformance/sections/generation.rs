//! `metadata.generation`: what counts it up, kind by kind.

use crate::{
    check::{Check, must},
    cx::{Cx, config_map, deployment},
};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![must(
        "68",
        "generation grows with the spec and nothing else",
        generation,
    )]
}

/// A Deployment that no controller touches.
pub fn idle(name: &str) -> Value {
    let mut it = deployment(name);
    it["spec"]["paused"] = true.into();
    it["spec"]["replicas"] = 0.into();
    it
}

async fn generation(c: Cx) {
    let namespace = c.namespace().await;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    c.make(&path, deployment("a")).await.has("/metadata/generation", 1);
    let path = format!("{path}/a");
    c.merge(&path, json!({"spec": {"replicas": 3}}))
        .await
        .is(200)
        .has("/metadata/generation", 2);
    c.merge(&path, json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .is(200)
        .has("/metadata/generation", 2);
    c.merge(&format!("{path}/status"), json!({"status": {"replicas": 3}}))
        .await
        .is(200)
        .has("/metadata/generation", 2);
    c.merge(&path, json!({"metadata": {"generation": 1}}))
        .await
        .is(200)
        .has("/metadata/generation", 2);
    // Of Deployments alone annotations count.
    let sets = format!("/apis/apps/v1/namespaces/{namespace}/statefulsets");
    let mut set = deployment("b");
    set["kind"] = "StatefulSet".into();
    set["spec"]["serviceName"] = "s".into();
    set["spec"]["replicas"] = 0.into();
    c.make(&sets, set).await;
    let annotate = json!({"metadata": {"annotations": {"a": "b"}}});
    c.merge(&format!("{sets}/b"), annotate.clone())
        .await
        .is(200)
        .has("/metadata/generation", 1);
    c.make(&format!("/apis/apps/v1/namespaces/{namespace}/deployments"), idle("c"))
        .await;
    c.merge(&format!("/apis/apps/v1/namespaces/{namespace}/deployments/c"), annotate)
        .await
        .is(200)
        .has("/metadata/generation", 2);
    c.make(
        &format!("/api/v1/namespaces/{namespace}/configmaps"),
        config_map("a", json!({})),
    )
    .await
    .lacks("/metadata/generation");

    generations(&c, &namespace).await;

    let with = c.define_simple("withs", "With", json!({"a": {"type": "string"}})).await;
    c.make(&with.path, with.object("a", json!({})))
        .await
        .has("/metadata/generation", 1);
    c.merge(&with.at("a"), json!({"spec": {"a": "1"}}))
        .await
        .has("/metadata/generation", 2);
    c.merge(&with.at("a"), json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .has("/metadata/generation", 2);
    c.merge(&format!("{}/status", with.at("a")), json!({"status": {"x": 1}}))
        .await
        .is(200)
        .has("/metadata/generation", 2);
    c.merge(&with.at("a"), json!({"metadata": {"finalizers": ["ex.io/hold"]}}))
        .await
        .is(200);
    c.delete(&with.at("a")).await.is(200).has("/metadata/generation", 3);
    c.merge(&with.at("a"), json!({"metadata": {"finalizers": null}}))
        .await
        .is(200);

    let mut version = crate::cx::version("v1", json!({"a": {"type": "string"}}));
    version.as_object_mut().unwrap().remove("subresources");
    let without = c.define("withouts", "Without", json!({"versions": [version]})).await;
    c.make(&without.path, without.object("a", json!({})))
        .await
        .has("/metadata/generation", 1);
    c.merge(&without.at("a"), json!({"status": {"x": 1}}))
        .await
        .is(200)
        .has("/metadata/generation", 2);
    c.merge(&without.at("a"), json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .has("/metadata/generation", 2);
}

/// Which other kinds count, what does not count, and which do not count at all.
async fn generations(c: &Cx, namespace: &str) {
    let of = |group: &str, plural: &str| format!("/apis/{group}/namespaces/{namespace}/{plural}");
    let core = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let ends = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let labels = json!({"matchLabels": {"a": "b"}});
    let backend = |name: &str| json!({"service": {"name": name, "port": {"number": 80}}});
    let target = json!({"kind": "Deployment", "name": "none", "apiVersion": "apps/v1"});
    let cluster = c.name("g");
    let domain = format!("{cluster}.ex.io");
    let hook = json!({"name": "a.ex.io", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [],
        "clientConfig": {"service": {"namespace": "default", "name": "none"}}});
    let counted = json!([1, 1, 2]);
    let never = json!([null, null, null]);
    let mut wrong = Vec::new();
    for (path, name, object, change, wanted) in [
        (
            of("apps/v1", "daemonsets"),
            "g",
            json!({"spec": {"selector": labels, "template": template}}),
            json!({"spec": {"minReadySeconds": 5}}),
            &counted,
        ),
        (
            of("apps/v1", "replicasets"),
            "g",
            json!({"spec": {"replicas": 0, "selector": labels, "template": template}}),
            json!({"spec": {"minReadySeconds": 5}}),
            &counted,
        ),
        (
            core("replicationcontrollers"),
            "g",
            json!({"spec": {"replicas": 0, "selector": {"a": "b"}, "template": template}}),
            json!({"spec": {"minReadySeconds": 5}}),
            &counted,
        ),
        (
            of("batch/v1", "jobs"),
            "g",
            json!({"spec": {"suspend": true, "template": ends}}),
            json!({"spec": {"parallelism": 3}}),
            &counted,
        ),
        (
            of("batch/v1", "cronjobs"),
            "g",
            json!({"spec": {"suspend": true, "schedule": "* * * * *", "jobTemplate": {"spec": {"template": ends}}}}),
            json!({"spec": {"schedule": "1 * * * *"}}),
            &counted,
        ),
        (
            core("podtemplates"),
            "g",
            json!({"template": template}),
            json!({"template": {"spec": {"hostname": "x"}}}),
            &counted,
        ),
        (
            of("networking.k8s.io/v1", "ingresses"),
            "g",
            json!({"spec": {"defaultBackend": backend("s")}}),
            json!({"spec": {"defaultBackend": backend("t")}}),
            &counted,
        ),
        (
            "/apis/networking.k8s.io/v1/ingressclasses".to_owned(),
            &cluster,
            json!({"spec": {"controller": "ex.io/c"}}),
            json!({"spec": {"parameters": {"kind": "K", "name": "n", "scope": "Cluster"}}}),
            &counted,
        ),
        (
            of("networking.k8s.io/v1", "networkpolicies"),
            "g",
            json!({"spec": {"podSelector": {}}}),
            json!({"spec": {"podSelector": labels}}),
            &counted,
        ),
        (
            of("policy/v1", "poddisruptionbudgets"),
            "g",
            json!({"spec": {"minAvailable": 1, "selector": {}}}),
            json!({"spec": {"minAvailable": 2}}),
            &counted,
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations".to_owned(),
            &domain,
            json!({"webhooks": []}),
            json!({"webhooks": [hook]}),
            &counted,
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings".to_owned(),
            &domain,
            json!({"spec": {"policyName": "none", "validationActions": ["Deny"]}}),
            json!({"spec": {"validationActions": ["Warn"]}}),
            &counted,
        ),
        // Its labels say of which Service it is.
        (
            of("discovery.k8s.io/v1", "endpointslices"),
            "g",
            json!({"addressType": "IPv4", "endpoints": []}),
            json!({"ports": [{"name": "x", "port": 1}]}),
            &json!([1, 2, 3]),
        ),
        // What may change of it decides nothing.
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(),
            &cluster,
            json!({"value": 1}),
            json!({"description": "x"}),
            &json!([1, 1, 1]),
        ),
        (
            "/apis/storage.k8s.io/v1/csidrivers".to_owned(),
            &domain,
            json!({"spec": {}}),
            json!({"spec": {"requiresRepublish": true}}),
            &json!([null, null, 1]),
        ),
        (
            of("autoscaling/v2", "horizontalpodautoscalers"),
            "g",
            json!({"spec": {"maxReplicas": 1, "scaleTargetRef": target}}),
            json!({"spec": {"maxReplicas": 2}}),
            &never,
        ),
        (
            core("services"),
            "g",
            json!({"spec": {"ports": [{"port": 80}]}}),
            json!({"spec": {"ports": [{"port": 81}]}}),
            &never,
        ),
        // Nobody counts here, and what the client says is kept.
        (
            core("configmaps"),
            "g",
            json!({"metadata": {"generation": 7}, "data": {"a": "b"}}),
            json!({"data": {"a": "c"}}),
            &json!([7, 7, 7]),
        ),
    ] {
        let mut object = object;
        object["metadata"]["name"] = name.into();
        let mut came = vec![c.make(&path, object).await["metadata"]["generation"].clone()];
        for change in [json!({"metadata": {"labels": {"l": "1"}}}), change] {
            let reply = c.merge(&format!("{path}/{name}"), change).await.is(200);
            came.push(reply["metadata"]["generation"].clone());
        }
        if json!(came) != *wanted {
            wrong.push(format!("{path}: expected {wanted}, came {came:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Going counts where there is a number.
    let path = core("configmaps");
    let held = json!({"metadata": {"name": "going", "generation": 7, "finalizers": ["ex.io/hold"]}});
    c.make(&path, held).await;
    c.delete(&format!("{path}/going"))
        .await
        .is(200)
        .has("/metadata/generation", 8);
    c.merge(&format!("{path}/going"), json!({"metadata": {"finalizers": null}}))
        .await
        .is(200);
}
