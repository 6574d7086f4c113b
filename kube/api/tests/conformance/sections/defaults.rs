//! What Kubernetes fills in and holds fast by itself: addresses of Services, defaults, and Secrets.

use crate::{
    check::{Check, must},
    client::Ask,
    cx::{Cx, deployment},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "195",
            "a Service has an address of its own, frees it, and keeps it over a restart",
            services,
        )
        .embedded_too("addresses after a restart"),
        must(
            "196",
            "a new object of each kind is as a real kube-apiserver made it, but for the places that recorded.rs lists; of pods, those without a token",
            defaults,
        ),
        must(
            "197",
            "Secrets and ConfigMaps: stringData, types, keys, sizes, and what is immutable",
            secrets,
        ),
    ]
}

async fn services(c: Cx) {
    let path = c.core("services").await;
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let one = c.make(&path, service("a")).await;
    let two = c.make(&path, service("b")).await;
    let address = one["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert!(address.parse::<std::net::IpAddr>().is_ok(), "{address}");
    assert_ne!(one["spec"]["clusterIP"], two["spec"]["clusterIP"]);
    let mut taken = service("c");
    taken["spec"]["clusterIP"] = address.clone().into();
    c.post(&path, taken.clone())
        .await
        .fails(422, "Invalid")
        .mentions(&format!(
            "failed to allocate IP {address}: provided IP is already allocated"
        ));
    c.delete(&format!("{path}/a")).await.is(200);
    // A real server frees it in a moment.
    c.until_asked(&c.admin, &Ask::post(&path, &taken), |it| it.code == 201)
        .await;
    let endpoints =
        json!({"metadata": {"name": "eps"}, "subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}]});
    c.make(&path.replace("services", "endpoints"), endpoints)
        .await
        .warns("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice");
    let external =
        json!({"metadata": {"name": "ext"}, "spec": {"type": "ExternalName", "externalName": "x.example.com"}});
    c.make(&path, external).await.lacks("/spec/ports");
    let balanced = json!({"metadata": {"name": "lb"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    c.make(&path, balanced).await;
    c.merge(
        &format!("{path}/lb/status"),
        json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}),
    )
    .await
    .is(200)
    .has("/status/loadBalancer/ingress/0/ipMode", "VIP");
    let ports = json!([{"port": 80}, {"port": 81}]);
    c.post(&path, json!({"metadata": {"name": "d"}, "spec": {"ports": ports}}))
        .await
        .fails(422, "Invalid")
        .mentions("spec.ports[0].name: Required value");
    let node_port = c
        .make(
            &path,
            json!({"metadata": {"name": "np"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}),
        )
        .await;
    let port = node_port.at("/spec/ports/0/nodePort").as_i64().unwrap_or_default();
    assert!((30000..=32767).contains(&port), "{}", node_port.came());
    c.get("/api/v1/namespaces/default/services/kubernetes")
        .await
        .is(200)
        .has("/spec/ports/0/port", 443);
    if !c.is_embedded() {
        return;
    }
    let (own, c) = c.own_server().await;
    let path = "/api/v1/namespaces/default/services";
    let made = c.post(path, service("a")).await.is(201);
    let own = own.restart().await;
    let c = Cx::new(&own.target, "195", "again");
    c.get(&format!("{path}/a"))
        .await
        .is(200)
        .has("/spec/clusterIP", made["spec"]["clusterIP"].clone());
    taken["spec"]["clusterIP"] = made["spec"]["clusterIP"].clone();
    c.post(path, taken)
        .await
        .fails(422, "Invalid")
        .mentions("provided IP is already allocated");
    own.stop().await;
}

/// What has to be in an object, whatever else is.
#[track_caller]
fn holds(object: &Value, wanted: &Value, path: &str, wrong: &mut Vec<String>) {
    match wanted {
        Value::Object(map) if object.is_object() => {
            for (key, value) in map {
                holds(&object[key], value, &format!("{path}.{key}"), wrong);
            }
        }
        Value::Array(list) if object.as_array().is_some_and(|it| it.len() == list.len()) => {
            for (at, value) in list.iter().enumerate() {
                holds(&object[at], value, &format!("{path}[{at}]"), wrong);
            }
        }
        _ if object == wanted => {}
        _ => wrong.push(format!("{path}: expected {wanted}, came {object}")),
    }
}

async fn defaults(c: Cx) {
    let namespace = c.namespace().await;
    let core = format!("/api/v1/namespaces/{namespace}");
    c.until(&format!("{core}/serviceaccounts/default"), |it| it.code == 200)
        .await;
    let mut wrong = Vec::new();
    let container = json!({"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent", "resources": {}});
    let pod = json!({"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {},
        "schedulerName": "default-scheduler", "containers": [container]});
    let mut object = deployment("d");
    object["spec"]["template"]["spec"] = json!({"containers": [{"name": "c1", "image": "img:1", "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}, "livenessProbe": {"httpGet": {"port": 80}},
        "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}, {"name": "c2", "image": "img"}],
        "volumes": [{"name": "e"}, {"name": "s", "secret": {"secretName": "x"}}]});
    let made = c
        .make(&format!("/apis/apps/v1/namespaces/{namespace}/deployments"), object)
        .await;
    holds(
        &made.json,
        &json!({"spec": {"replicas": 1, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
        "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "template": {"spec": {"containers": [
            {"ports": [{"protocol": "TCP"}], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                "livenessProbe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3, "httpGet": {"scheme": "HTTP", "path": "/"}},
                "env": [{"valueFrom": {"fieldRef": {"apiVersion": "v1"}}}]},
            {"imagePullPolicy": "Always"}],
            "volumes": [{"emptyDir": {}}, {"secret": {"defaultMode": 420}}]}}}, "status": {}}),
        "Deployment",
        &mut wrong,
    );
    let template = |policy: &str| json!({"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "i:1"}]}});
    let selector = json!({"matchLabels": {"a": "b"}});
    let made = c
        .make(
            &format!("/apis/apps/v1/namespaces/{namespace}/daemonsets"),
            json!({"metadata": {"name": "a"}, "spec": {"selector": selector, "template": template("Always")}}),
        )
        .await;
    holds(
        &made.json,
        &json!({"metadata": {"annotations": {"deprecated.daemonset.template.generation": "1"}},
        "spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}, "revisionHistoryLimit": 10,
            "template": {"spec": pod}}, "status": {"currentNumberScheduled": 0}}),
        "DaemonSet",
        &mut wrong,
    );
    let made = c
        .make(&format!("/apis/apps/v1/namespaces/{namespace}/statefulsets"), json!({"metadata": {"name": "a"}, "spec": {"serviceName": "s", "selector": selector, "template": template("Always")}}))
        .await;
    holds(
        &made.json,
        &json!({"spec": {"replicas": 1, "podManagementPolicy": "OrderedReady", "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "revisionHistoryLimit": 10, "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}}}),
        "StatefulSet",
        &mut wrong,
    );
    let mut job = template("Never");
    job.as_object_mut().unwrap().remove("metadata");
    let made = c
        .make(
            &format!("/apis/batch/v1/namespaces/{namespace}/jobs"),
            json!({"metadata": {"name": "j"}, "spec": {"suspend": true, "template": job}}),
        )
        .await;
    let uid = made.uid();
    holds(
        &made.json,
        &json!({"spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "podReplacementPolicy": "TerminatingOrFailed",
        "manualSelector": false, "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
        "template": {"metadata": {"labels": {"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid, "batch.kubernetes.io/job-name": "j", "job-name": "j"}}}}}),
        "Job",
        &mut wrong,
    );
    let made = c
        .make(&format!("/apis/batch/v1/namespaces/{namespace}/cronjobs"), json!({"metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "suspend": true, "jobTemplate": {"spec": {"template": template("Never")}}}}))
        .await;
    holds(
        &made.json,
        &json!({"spec": {"concurrencyPolicy": "Allow", "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}}),
        "CronJob",
        &mut wrong,
    );
    let made = c
        .make(
            &format!("{core}/services"),
            json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
        )
        .await;
    holds(
        &made.json,
        &json!({"spec": {"type": "ClusterIP", "sessionAffinity": "None", "ports": [{"protocol": "TCP", "targetPort": 80}], "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "clusterIPs": [made["spec"]["clusterIP"]]}, "status": {"loadBalancer": {}}}),
        "Service",
        &mut wrong,
    );
    let made = c
        .make(&format!("{core}/secrets"), json!({"metadata": {"name": "s"}}))
        .await;
    holds(&made.json, &json!({"type": "Opaque"}), "Secret", &mut wrong);
    let made = c
        .make(&format!("{core}/pods"), json!({"metadata": {"name": "p"}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "1"}}}]}}))
        .await;
    holds(
        &made.json,
        &json!({"metadata": {"generation": 1}, "spec": {"enableServiceLinks": true, "serviceAccountName": "default", "serviceAccount": "default",
        "containers": [{"resources": {"requests": {"cpu": "1"}}}], "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]},
        "status": {"phase": "Pending", "qosClass": "Burstable"}}),
        "Pod",
        &mut wrong,
    );
    let made = c
        .make(&format!("{core}/persistentvolumeclaims"), json!({"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}}))
        .await;
    holds(
        &made.json,
        &json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}, "spec": {"volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"}}),
        "PersistentVolumeClaim",
        &mut wrong,
    );
    autoscalers(&c, &namespace, &mut wrong).await;
    super::recorded::compare(&c, &mut wrong).await;
    priorities(&c, &namespace).await;
    c.merge(
        &format!("{core}/persistentvolumeclaims/v"),
        json!({"metadata": {"finalizers": null}}),
    )
    .await
    .is(200);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The built-in kind of two versions.
async fn autoscalers(c: &Cx, namespace: &str, wrong: &mut Vec<String>) {
    let path = |version: &str| format!("/apis/autoscaling/{version}/namespaces/{namespace}/horizontalpodautoscalers");
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"});
    let made = c
        .make(
            &path("v2"),
            json!({"metadata": {"name": "a"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}}),
        )
        .await;
    let cpu = |percent: i64| json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}}]);
    let wanted = json!({"status": {"currentMetrics": null, "desiredReplicas": 0}});
    holds(&made.json, &wanted, "HorizontalPodAutoscaler", wrong);
    let spec = json!({"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50});
    c.make(&path("v1"), json!({"metadata": {"name": "b"}, "spec": spec}))
        .await
        .has("/apiVersion", "autoscaling/v1")
        .has("/status", json!({"currentReplicas": 0, "desiredReplicas": 0}));
    c.get(&format!("{}/b", path("v2")))
        .await
        .is(200)
        .has("/spec/metrics", cpu(50));
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
    c.merge(&format!("{}/b", path("v2")), json!({"spec": {"metrics": [memory]}}))
        .await
        .is(200);
    c.get(&format!("{}/b", path("v1")))
        .await
        .is(200)
        .lacks("/spec/targetCPUUtilizationPercentage");
    // What is written back in the older version has lost nothing.
    c.merge(&format!("{}/b", path("v1")), json!({"spec": {"maxReplicas": 4}}))
        .await
        .is(200);
    c.get(&format!("{}/b", path("v2")))
        .await
        .is(200)
        .has("/spec/metrics", json!([memory]))
        .has("/spec/maxReplicas", 4);
}

/// A pod has the priority of its class.
async fn priorities(c: &Cx, namespace: &str) {
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let pod = |name: &str, spec: Value| {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}});
        pod["spec"]
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        pod
    };
    let class = c.name("class");
    c.make(
        classes,
        json!({"metadata": {"name": class}, "value": 7, "preemptionPolicy": "Never"}),
    )
    .await;
    // A real server learns of it in a moment.
    c.until_asked(
        &c.admin,
        &Ask::post(&pods, &pod("classed", json!({"priorityClassName": class}))),
        |it| it.code == 201 && it["spec"]["priority"] == 7 && it["spec"]["preemptionPolicy"] == "Never",
    )
    .await;
    c.make(
        &pods,
        pod("critical", json!({"priorityClassName": "system-cluster-critical"})),
    )
    .await
    .has("/spec/priority", 2_000_000_000);
    c.post(&pods, pod("x", json!({"priorityClassName": "unheard-of"})))
        .await
        .fails(403, "Forbidden")
        .mentions("no PriorityClass with name unheard-of was found");
    c.post(&pods, pod("x", json!({"priority": 5})))
        .await
        .fails(403, "Forbidden")
        .mentions("the integer value of priority (5) must not be provided in pod spec");
    c.delete(&format!("{classes}/system-node-critical"))
        .await
        .fails(403, "Forbidden")
        .mentions("this is a system priority class and cannot be deleted");
    c.post(
        classes,
        json!({"metadata": {"name": c.name("high")}, "value": 1_000_000_001}),
    )
    .await
    .fails(422, "Invalid")
    .mentions("maximum allowed value of a user defined priority is 1000000000");
}

async fn secrets(c: Cx) {
    let path = c.core("secrets").await;
    c.make(&path, json!({"metadata": {"name": "a"}, "data": {"k": STANDARD.encode("old"), "l": STANDARD.encode("kept")}, "stringData": {"k": "new"}}))
        .await
        .has("/data/k", STANDARD.encode("new"))
        .has("/data/l", STANDARD.encode("kept"))
        .lacks("/stringData");
    c.post(&path, json!({"metadata": {"name": "b"}, "data": {"k": "not base64!"}}))
        .await
        .fails(400, "BadRequest")
        .mentions("illegal base64 data at input byte");
    c.post(
        &path,
        json!({"metadata": {"name": "b"}, "type": "kubernetes.io/tls", "stringData": {"tls.key": "x"}}),
    )
    .await
    .fails(422, "Invalid")
    .mentions("data[tls.crt]: Required value");
    c.post(&path, json!({"metadata": {"name": "b"}, "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "no json"}}))
        .await
        .fails(422, "Invalid")
        .mentions("data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\"");
    c.post(
        &path,
        json!({"metadata": {"name": "b"}, "stringData": {"bad key!": "x"}}),
    )
    .await
    .fails(422, "Invalid")
    .mentions("data[bad key!]: Invalid value");
    c.merge(&format!("{path}/a"), json!({"immutable": true})).await.is(200);
    for (change, message) in [
        (
            json!({"stringData": {"k": "other"}}),
            "data: Forbidden: field is immutable when `immutable` is set",
        ),
        (
            json!({"immutable": false}),
            "immutable: Forbidden: field is immutable when `immutable` is set",
        ),
    ] {
        c.merge(&format!("{path}/a"), change)
            .await
            .fails(422, "Invalid")
            .mentions(message);
    }
    c.merge(&format!("{path}/a"), json!({"metadata": {"labels": {"l": "1"}}}))
        .await
        .is(200);
    secret_types(&c, &path).await;
    config_maps(&c, &path.replace("secrets", "configmaps")).await;
}

async fn secret_types(c: &Cx, path: &str) {
    for (kind, data, message) in [
        (
            "kubernetes.io/basic-auth",
            json!({"other": "x"}),
            "[data[username]: Required value, data[password]: Required value]",
        ),
        (
            "kubernetes.io/ssh-auth",
            json!({"ssh-privatekey": ""}),
            "data[ssh-privatekey]: Required value",
        ),
        ("kubernetes.io/dockercfg", json!({}), "data[.dockercfg]: Required value"),
        (
            "kubernetes.io/dockercfg",
            json!({".dockercfg": "no json"}),
            "data[.dockercfg]: Invalid value: \"<secret contents redacted>\"",
        ),
        (
            "kubernetes.io/tls",
            json!({"tls.crt": "x"}),
            "data[tls.key]: Required value",
        ),
    ] {
        c.post(
            path,
            json!({"metadata": {"name": "typed"}, "type": kind, "stringData": data}),
        )
        .await
        .fails(422, "Invalid")
        .mentions(message);
    }
    for (name, kind, data) in [
        ("basic", "kubernetes.io/basic-auth", json!({"username": ""})),
        ("ssh", "kubernetes.io/ssh-auth", json!({"ssh-privatekey": "x"})),
        ("cfg", "kubernetes.io/dockercfg", json!({".dockercfg": "{}"})),
        ("tls", "kubernetes.io/tls", json!({"tls.crt": "", "tls.key": ""})),
    ] {
        c.make(
            path,
            json!({"metadata": {"name": name}, "type": kind, "stringData": data}),
        )
        .await
        .has("/type", kind);
        c.merge(&format!("{path}/{name}"), json!({"type": "Opaque"}))
            .await
            .fails(422, "Invalid")
            .mentions("type: Invalid value: \"Opaque\": field is immutable");
    }
    let half = "x".repeat(600_000);
    c.post(
        path,
        json!({"metadata": {"name": "large"}, "stringData": {"a": half, "b": half}}),
    )
    .await
    .fails(422, "Invalid")
    .mentions("data: Too long: may not be more than 1048576 bytes");
}

async fn config_maps(c: &Cx, path: &str) {
    let with = |name: &str, more: Value| {
        let mut it = json!({"metadata": {"name": name}});
        it.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        it
    };
    let half = "x".repeat(600_000);
    for (more, message) in [
        (
            json!({"data": {"bad key!": "x"}}),
            "data[bad key!]: Invalid value: \"bad key!\": a valid config key must consist of alphanumeric characters",
        ),
        (
            json!({"binaryData": {"bad key!": "eA=="}}),
            "binaryData[bad key!]: Invalid value: \"bad key!\"",
        ),
        (
            json!({"data": {"k": "x"}, "binaryData": {"k": "eA=="}}),
            "data[k]: Invalid value: \"k\": duplicate of key present in binaryData",
        ),
        (
            json!({"data": {"a": half, "b": half}}),
            "[]: Too long: may not be more than 1048576 bytes",
        ),
    ] {
        c.post(path, with("bad", more))
            .await
            .fails(422, "Invalid")
            .mentions(message);
    }
    c.post(path, with("bad", json!({"binaryData": {"k": "no base64!"}})))
        .await
        .fails(400, "BadRequest")
        .mentions("illegal base64 data at input byte");
    c.make(
        path,
        with(
            "fast",
            json!({"data": {"a": "b"}, "binaryData": {"k": "eA=="}, "immutable": true}),
        ),
    )
    .await
    .has("/binaryData/k", "eA==");
    for (change, field) in [
        (json!({"data": {"a": "c"}}), "data"),
        (json!({"binaryData": {"k": null}}), "binaryData"),
        (json!({"immutable": null}), "immutable"),
    ] {
        c.merge(&format!("{path}/fast"), change)
            .await
            .fails(422, "Invalid")
            .mentions(&format!(
                "{field}: Forbidden: field is immutable when `immutable` is set"
            ));
    }
    c.merge(&format!("{path}/fast"), json!({"metadata": {"labels": {"l": "1"}}}))
        .await
        .is(200);
}
