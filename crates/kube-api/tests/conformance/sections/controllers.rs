//! What Kubernetes does by itself: namespaces, garbage, events, leases, addresses, defaults, and coming back.

use crate::{
    check::{Check, must, should},
    client::{Ask, Client},
    cluster::Credential,
    cx::{CRDS, Cx, RBAC, config_map, definition, deployment},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "189",
            "a new namespace has its label, ServiceAccount and root CA within a second, and keeps them",
            namespace,
        ),
        must(
            "190",
            "a namespace that is deleted takes all it holds, waits for finalizers and says so",
            namespace_deletion,
        ),
        must(
            "191",
            "garbage goes in the background, in the foreground, or is left; by uid, of any kind",
            garbage,
        ),
        should(
            "192",
            "an owner in another namespace counts as absent; a cluster's object is never collected for a namespace's",
            strange_owners,
        ),
        should(
            "193",
            "events are seen in both groups and selected by their fields; they end",
            events,
        ),
        must(
            "194",
            "a Lease takes times of six digits only, and one of two takes it",
            leases,
        ),
        must(
            "195",
            "a Service has an address of its own, frees it, and keeps it over a restart",
            services,
        ),
        must(
            "196",
            "defaults of Deployments, DaemonSets, Jobs, Services, Secrets, Pods and claims",
            defaults,
        ),
        must("197", "Secrets: stringData, types, and what is immutable", secrets),
        must(
            "198",
            "after a restart everything is there: objects, uids, revisions, tokens",
            restart,
        )
        .embedded("a server is restarted"),
    ]
}

async fn namespace(c: Cx) {
    let name = c.name("ns");
    let made = c.make("/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], name.as_str());
    assert_eq!(
        (&made["spec"]["finalizers"], &made["status"]["phase"]),
        (&json!(["kubernetes"]), &json!("Active"))
    );
    let path = format!("/api/v1/namespaces/{name}");
    let (_, account) = c
        .until(&format!("{path}/serviceaccounts/default"), |it| it.code == 200)
        .await;
    let (root, ca) = c
        .until(&format!("{path}/configmaps/kube-root-ca.crt"), |it| it.code == 200)
        .await;
    assert!(account.as_secs() < 5 && ca.as_secs() < 5, "{account:?} {ca:?}");
    assert!(root["data"]["ca.crt"].as_str().unwrap().contains("BEGIN CERTIFICATE"));
    c.merge(
        &path,
        json!({"metadata": {"labels": {"kubernetes.io/metadata.name": null}}}),
    )
    .await
    .is(200)
    .has("/metadata/labels/kubernetes.io~1metadata.name", name.clone());
    c.delete(&format!("{path}/serviceaccounts/default")).await.is(200);
    c.until(&format!("{path}/serviceaccounts/default"), |it| it.code == 200)
        .await;
    c.merge(
        &format!("{path}/configmaps/kube-root-ca.crt"),
        json!({"data": {"ca.crt": "x"}}),
    )
    .await
    .is(200);
    c.until(&format!("{path}/configmaps/kube-root-ca.crt"), |it| {
        it["data"] == root["data"]
    })
    .await;
    c.delete(&format!("{path}/configmaps/kube-root-ca.crt")).await.is(200);
    c.until(&format!("{path}/configmaps/kube-root-ca.crt"), |it| it.code == 200)
        .await;
}

fn condition(object: &Value, kind: &str) -> Value {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|it| it["type"] == kind).unwrap_or_default()
}

async fn namespace_deletion(c: Cx) {
    let kind = c.define_simple("things", "Thing", json!({})).await;
    let name = kind.path.split('/').nth(5).unwrap().to_owned();
    let path = format!("/api/v1/namespaces/{name}");
    c.make(&format!("{path}/configmaps"), config_map("a", json!({}))).await;
    c.make(&format!("/apis/apps/v1/namespaces/{name}/deployments"), deployment("d"))
        .await;
    let mut object = kind.object("held", json!({}));
    object["metadata"]["finalizers"] = json!(["a.b/c"]);
    c.make(&kind.path, object).await;
    c.delete(&path)
        .await
        .is(200)
        .has("/status/phase", "Terminating")
        .lacks("/metadata/deletionGracePeriodSeconds");
    // `kubectl delete -f` goes on with what is in the namespace, and has to find it.
    c.delete(&format!("{path}/configmaps/a")).await.is(200);
    c.until_gone(&format!("/apis/apps/v1/namespaces/{name}/deployments/d"))
        .await;
    let (going, _) = c
        .until(&path, |it| {
            condition(&it.json, "NamespaceFinalizersRemaining")["status"] == "True"
        })
        .await;
    let it = condition(&going.json, "NamespaceFinalizersRemaining");
    assert_eq!(
        (&it["reason"], &it["message"]),
        (
            &json!("SomeFinalizersRemain"),
            &json!("Some content in the namespace has finalizers remaining: a.b/c in 1 resource instances")
        )
    );
    let it = condition(&going.json, "NamespaceContentRemaining");
    assert_eq!(
        (&it["reason"], &it["message"]),
        (
            &json!("SomeResourcesRemain"),
            &json!(format!(
                "Some resources are remaining: things.{} has 1 resource instances",
                kind.group
            ))
        )
    );
    c.merge(&kind.at("held"), json!({"metadata": {"finalizers": null}}))
        .await
        .is(200);
    c.until_gone(&path).await;
    let other = c.namespace_called("finalize").await;
    let path = format!("/api/v1/namespaces/{other}");
    let mut object = c.get(&path).await.json;
    object["spec"]["finalizers"] = json!(["kubernetes", "ex.io/more"]);
    c.put(&format!("{path}/finalize"), &object)
        .await
        .is(200)
        .has("/spec/finalizers", json!(["kubernetes", "ex.io/more"]));
    c.delete(&path).await.is(200);
    c.until(&path, |it| it.at("/spec/finalizers") == &json!(["ex.io/more"]))
        .await;
    let mut object = c.get(&path).await.json;
    object["spec"]["finalizers"] = json!([]);
    c.put(&format!("{path}/finalize"), &object).await.is(200);
    c.until_gone(&path).await;
}

fn owned(name: &str, owners: &[(&str, &str, &str, &str, bool)]) -> Value {
    let mut object = config_map(name, json!({}));
    let references: Vec<Value> = owners
        .iter()
        .map(|(version, kind, name, uid, block)| {
            json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": block})
        })
        .collect();
    object["metadata"]["ownerReferences"] = references.into();
    object
}

async fn garbage(c: Cx) {
    let kind = c.define_simple("things", "Thing", json!({})).await;
    let namespace = kind.path.split('/').nth(5).unwrap().to_owned();
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let at = |name: &str| format!("{path}/{name}");
    // In the background, through two levels, with a custom resource as owner.
    let uid = c.make(&kind.path, kind.object("o", json!({}))).await.uid();
    let child = c
        .make(&path, owned("child", &[(&kind.api_version, "Thing", "o", &uid, false)]))
        .await
        .uid();
    c.make(
        &path,
        owned("grandchild", &[("v1", "ConfigMap", "child", &child, false)]),
    )
    .await;
    c.delete(&kind.at("o")).await.is(200);
    c.until_gone(&at("child")).await;
    c.until_gone(&at("grandchild")).await;
    // In the foreground: the owner waits.
    let uid = c.make(&path, config_map("front", json!({}))).await.uid();
    let mut blocker = owned("blocker", &[("v1", "ConfigMap", "front", &uid, true)]);
    blocker["metadata"]["finalizers"] = json!(["ex.io/hold"]);
    c.make(&path, blocker).await;
    c.delete(&format!("{}?propagationPolicy=Foreground", at("front")))
        .await
        .is(200);
    c.until(&at("blocker"), |it| it["metadata"]["deletionTimestamp"].is_string())
        .await;
    c.get(&at("front"))
        .await
        .is(200)
        .has("/metadata/finalizers", json!(["foregroundDeletion"]));
    c.merge(&at("blocker"), json!({"metadata": {"finalizers": null}}))
        .await
        .is(200);
    c.until_gone(&at("front")).await;
    // Left behind.
    let uid = c.make(&path, config_map("left", json!({}))).await.uid();
    c.make(&path, owned("orphan", &[("v1", "ConfigMap", "left", &uid, false)]))
        .await;
    c.delete(&format!("{}?propagationPolicy=Orphan", at("left")))
        .await
        .is(200);
    c.until_gone(&at("left")).await;
    c.until(&at("orphan"), |it| {
        it.code == 200 && it["metadata"]["ownerReferences"].is_null()
    })
    .await;
    // Two owners: it lives until both are gone.
    let one = c.make(&path, config_map("one", json!({}))).await.uid();
    let two = c.make(&path, config_map("two", json!({}))).await.uid();
    c.make(
        &path,
        owned(
            "shared",
            &[
                ("v1", "ConfigMap", "one", &one, false),
                ("v1", "ConfigMap", "two", &two, false),
            ],
        ),
    )
    .await;
    c.delete(&at("one")).await.is(200);
    c.until(&at("shared"), |it| {
        it["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|it| it.len() == 1)
    })
    .await;
    c.delete(&at("two")).await.is(200);
    c.until_gone(&at("shared")).await;
    // The name is right and the uid is not.
    c.make(&path, config_map("same", json!({}))).await;
    c.post(
        &path,
        owned(
            "stray",
            &[("v1", "ConfigMap", "same", "11111111-1111-4111-8111-111111111111", false)],
        ),
    )
    .await
    .is(201);
    c.until_gone(&at("stray")).await;
    // An owner of the whole cluster.
    let role = c.name("owner");
    let uid = c
        .make(
            &format!("{RBAC}/clusterroles"),
            json!({"metadata": {"name": role}, "rules": []}),
        )
        .await
        .uid();
    c.make(
        &path,
        owned(
            "of-cluster",
            &[("rbac.authorization.k8s.io/v1", "ClusterRole", &role, &uid, false)],
        ),
    )
    .await;
    c.delete(&format!("{RBAC}/clusterroles/{role}")).await.is(200);
    c.until_gone(&at("of-cluster")).await;
}

async fn strange_owners(c: Cx) {
    let namespace = c.namespace().await;
    let elsewhere = c.namespace_called("other").await;
    let uid = c
        .make(
            &format!("/api/v1/namespaces/{elsewhere}/configmaps"),
            config_map("oc", json!({})),
        )
        .await
        .uid();
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let role = c.name("role");
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "oc", "uid": uid}]);
    c.make(
        &format!("{RBAC}/clusterroles"),
        json!({"metadata": {"name": role, "ownerReferences": reference}, "rules": []}),
    )
    .await;
    let stray = c
        .post(&path, owned("stray", &[("v1", "ConfigMap", "oc", &uid, false)]))
        .await
        .is(201);
    c.until_gone(&format!("{path}/stray")).await;
    let events = format!("/api/v1/namespaces/{namespace}/events?fieldSelector=reason%3DOwnerRefInvalidNamespace");
    let (found, _) = c
        .until(&events, |it| it["items"].as_array().is_some_and(|it| !it.is_empty()))
        .await;
    let message = found.at("/items/0/message").as_str().unwrap_or_default();
    assert!(
        message.contains(&format!("does not exist in namespace \"{namespace}\"")),
        "{message}"
    );
    assert!(!stray.uid().is_empty());
    c.get(&format!("{RBAC}/clusterroles/{role}")).await.is(200);
}

async fn events(c: Cx) {
    let namespace = c.namespace().await;
    let core = format!("/api/v1/namespaces/{namespace}/events");
    let other = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let reference = json!({"kind": "ConfigMap", "namespace": namespace, "name": "x"});
    c.make(
        &core,
        json!({"metadata": {"name": "a", "namespace": namespace}, "involvedObject": reference, "reason": "Because",
        "message": "text", "type": "Normal", "source": {"component": "me"}, "count": 2}),
    )
    .await;
    c.get(&format!("{other}/a"))
        .await
        .is(200)
        .has("/apiVersion", "events.k8s.io/v1")
        .has("/note", "text")
        .has("/regarding", reference.clone())
        .has("/deprecatedCount", 2)
        .has("/deprecatedSource/component", "me");
    c.make(&other, json!({"metadata": {"name": "b", "namespace": namespace}, "regarding": reference, "reason": "Because", "note": "more",
        "type": "Warning", "action": "Act", "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "ex.io/c", "reportingInstance": "i"}))
        .await;
    c.get(&format!("{core}/b"))
        .await
        .is(200)
        .has("/apiVersion", "v1")
        .has("/message", "more")
        .has("/reportingComponent", "ex.io/c");
    assert_eq!(
        c.get(&format!("{core}?fieldSelector=type%3DWarning"))
            .await
            .is(200)
            .names(),
        ["b"]
    );
    assert_eq!(
        c.get(&format!(
            "{core}?fieldSelector=involvedObject.name%3Dx,reason%3DBecause"
        ))
        .await
        .is(200)
        .names(),
        ["a", "b"]
    );
    assert_eq!(c.get(&other).await.is(200).names(), ["a", "b"]);
    let mut wrong = json!({"metadata": {"name": "c", "namespace": namespace}, "involvedObject": reference, "reason": "R", "type": "Normal"});
    wrong["involvedObject"]["namespace"] = "default".into();
    c.post(&core, wrong)
        .await
        .fails(422, "Invalid")
        .mentions("involvedObject.namespace: Invalid value: \"default\": does not match event.namespace");
    c.post(&other, json!({"metadata": {"name": "d", "namespace": namespace}, "regarding": reference, "type": "Normal", "note": "n"}))
        .await
        .fails(422, "Invalid")
        .mentions("eventTime: Required value");
    c.post(
        &other,
        json!({"metadata": {"name": "d", "namespace": namespace}, "regarding": reference, "type": "Normal", "note": "n",
        "eventTime": "2026-01-01T00:00:00.000000Z"}),
    )
    .await
    .fails(422, "Invalid")
    .mentions("reportingController: Required value");
    if std::env::var_os("DROVER_TEST_CLUSTER").is_some() {
        return;
    }
    // Of yesterday, written past the API: a start finds it.
    let (own, c) = c.own_server().await;
    let reference = json!({"kind": "ConfigMap", "namespace": "default", "name": "x"});
    c.post("/api/v1/namespaces/default/events", json!({"metadata": {"name": "old", "namespace": "default"}, "involvedObject": reference, "reason": "R", "type": "Normal"}))
        .await
        .is(201);
    let resource = std::sync::Arc::<str>::from("events");
    let store = own.server.store();
    let old = store.get(&resource, "default", "old").unwrap();
    let mut value = old.value();
    value["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z".into();
    value["metadata"].as_object_mut().unwrap().remove("managedFields");
    let expect = kube_store::store::Expect::Revision(old.revision);
    assert!(
        store
            .commit(&resource, "default", "old", expect, |it| Some(
                kube_store::Object::encode(&resource, value, it)
            ))
            .is_ok()
    );
    let own = own.restart().await;
    Cx::new(&own.target, "193", "again")
        .until_gone("/api/v1/namespaces/default/events/old")
        .await;
    own.stop().await;
}

async fn leases(c: Cx) {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", c.namespace().await);
    let lease = |name: &str, time: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": time}})
    };
    for bad in ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789Z"] {
        c.post(&path, lease("a", bad))
            .await
            .fails(400, "BadRequest")
            .mentions("parsing time")
            .mentions("as \"2006-01-02T15:04:05.000000Z07:00\"");
    }
    c.make(&path, lease("a", "2026-01-01T01:00:00.000001+01:00"))
        .await
        .has("/spec/renewTime", "2026-01-01T00:00:00.000001Z");
    let mut zero = lease("z", "2026-01-01T00:00:00.000000Z");
    zero["spec"]["leaseDurationSeconds"] = 0.into();
    c.post(&path, zero)
        .await
        .fails(422, "Invalid")
        .mentions("must be greater than 0");
    // Two that would lead.
    let held = c.get(&format!("{path}/a")).await.json;
    let tries: Vec<_> = ["one", "two", "three"]
        .into_iter()
        .map(|who| {
            let (c, path, mut lease) = (c.clone(), path.clone(), held.clone());
            lease["spec"]["holderIdentity"] = who.into();
            tokio::spawn(async move { (who, c.put(&format!("{path}/a"), &lease).await.code) })
        })
        .collect();
    let mut won = Vec::new();
    for attempt in tries {
        match attempt.await.unwrap() {
            (who, 200) => won.push(who),
            (_, 409) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(won.len(), 1, "{won:?} lead");
    c.get(&format!("{path}/a")).await.has("/spec/holderIdentity", won[0]);
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
    if std::env::var_os("DROVER_TEST_CLUSTER").is_some() {
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
    let wanted = json!({"spec": {"minReplicas": 1, "metrics": cpu(80)}, "status": {"currentMetrics": null, "desiredReplicas": 0}});
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
    let noted = json!([{"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}}]);
    let older = c
        .get(&format!("{}/b", path("v1")))
        .await
        .is(200)
        .lacks("/spec/targetCPUUtilizationPercentage");
    let note = older["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"].as_str();
    let note: Value = serde_json::from_str(note.unwrap_or_default()).unwrap_or_default();
    assert_eq!(note, noted, "{}", older.came());
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
}

async fn restart(c: Cx) {
    let (own, c) = c.own_server().await;
    let path = "/api/v1/namespaces/default/configmaps";
    c.post(path, config_map("a", json!({"k": "v"}))).await.is(201);
    c.post(CRDS, definition("ex.io", "things", "Thing", json!({})))
        .await
        .is(201);
    let thing = json!({"apiVersion": "ex.io/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"a": "b"}});
    c.until_asked(
        &c.admin,
        &Ask::post("/apis/ex.io/v1/namespaces/default/things", &thing),
        |it| it.code == 201,
    )
    .await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts/default";
    c.until(accounts, |it| it.code == 200).await;
    let token = c.post(&format!("{accounts}/token"), json!({"spec": {}})).await.is(201)["status"]["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let everything = async |c: &Cx| {
        let mut all = Vec::new();
        for list in [
            "/api/v1/configmaps",
            "/api/v1/namespaces",
            "/api/v1/services",
            "/api/v1/serviceaccounts",
            "/apis/ex.io/v1/things",
        ] {
            all.push(c.get(list).await.is(200)["items"].clone());
        }
        for list in ["clusterroles", "clusterrolebindings"] {
            all.push(c.get(&format!("{RBAC}/{list}")).await.is(200)["items"].clone());
        }
        all
    };
    let settled = async |c: &Cx| {
        // The controllers have done what they do at a start.
        c.until("/api/v1/namespaces/kube-public/configmaps/kube-root-ca.crt", |it| {
            it.code == 200
        })
        .await;
        c.until("/api/v1/namespaces/kube-node-lease/serviceaccounts/default", |it| {
            it.code == 200
        })
        .await;
        c.until("/api/v1/namespaces/default/configmaps/kube-root-ca.crt", |it| {
            it.code == 200
        })
        .await;
        c.until("/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt", |it| {
            it.code == 200
        })
        .await;
        c.until("/api/v1/namespaces/kube-node-lease/configmaps/kube-root-ca.crt", |it| {
            it.code == 200
        })
        .await;
        c.until(&format!("{RBAC}/clusterroles/admin"), |it| {
            it["rules"].as_array().is_some_and(|it| !it.is_empty())
        })
        .await;
    };
    settled(&c).await;
    let before = everything(&c).await;
    let revision = c.get(path).await.revision();
    let own = own.restart().await;
    let c = Cx::new(&own.target, "198", "again");
    let after = everything(&c).await;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
    assert!(c.get(path).await.revision() >= revision);
    assert!(
        c.post(path, config_map("b", json!({}))).await.is(201).revision() > revision,
        "revisions are never used twice"
    );
    let client = Client::new(&own.target, &Credential::token(&token), "h2");
    client.send(Ask::get("/version")).await.is(200);
    let again = client.send(Ask::post(crate::cx::WHO, &json!({}))).await.is(201);
    assert_eq!(
        again.at("/status/userInfo/username"),
        "system:serviceaccount:default:default"
    );
    own.stop().await;
}
