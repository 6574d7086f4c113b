//! What Kubernetes does by itself: namespaces, garbage, events, leases, and coming back.

use crate::{
    check::{Check, must, should},
    client::{Ask, Client},
    cluster::Credential,
    cx::{CRDS, Cx, RBAC, config_map, definition, deployment},
};
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
        )
        .embedded_too("that events end"),
        must(
            "194",
            "a Lease takes times of six digits only, and one of two takes it",
            leases,
        ),
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
    let mut other = config_map("held", json!({}));
    other["metadata"]["finalizers"] = json!(["a.b/c", "a.b/d"]);
    c.make(&format!("{path}/configmaps"), other).await;
    c.delete(&path)
        .await
        .is(200)
        .has("/status/phase", "Terminating")
        .lacks("/metadata/deletionGracePeriodSeconds");
    // `kubectl delete -f` goes on with what is in the namespace, and has to find it.
    c.delete(&format!("{path}/configmaps/a")).await.is(200);
    c.until_gone(&format!("/apis/apps/v1/namespaces/{name}/deployments/d"))
        .await;
    // Everything that goes by itself may be counted for a moment.
    let remaining = format!(
        "Some resources are remaining: configmaps. has 1 resource instances, things.{} has 1 resource instances",
        kind.group
    );
    let (going, _) = c
        .until(&path, |it| {
            condition(&it.json, "NamespaceContentRemaining")["message"] == remaining.as_str()
        })
        .await;
    for (kind, status, reason, message) in [
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        ("NamespaceContentRemaining", "True", "SomeResourcesRemain", &remaining),
        (
            "NamespaceFinalizersRemaining",
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: a.b/c in 2 resource instances, a.b/d in 1 resource instances",
        ),
    ] {
        let it = condition(&going.json, kind);
        assert_eq!(
            (&it["status"], &it["reason"], &it["message"]),
            (&json!(status), &json!(reason), &json!(message)),
            "{kind}"
        );
        assert!(it["lastTransitionTime"].is_string(), "{it}");
    }
    c.merge(
        &format!("{path}/configmaps/held"),
        json!({"metadata": {"finalizers": null}}),
    )
    .await
    .is(200);
    c.merge(&kind.at("held"), json!({"metadata": {"finalizers": null}}))
        .await
        .is(200);
    c.until_gone(&path).await;
    let other = c.namespace_called("finalize").await;
    let path = format!("/api/v1/namespaces/{other}");
    let mut object = c.get(&path).await.json;
    // The main resource cannot change them, and by that path nothing of the status is.
    object["spec"]["finalizers"] = json!(["kubernetes", "ex.io/more"]);
    let kept = c.put(&path, &object).await.is(200);
    let kept = kept.has("/spec/finalizers", json!(["kubernetes"]));
    object["metadata"] = kept["metadata"].clone();
    object["status"]["phase"] = "Terminating".into();
    object["metadata"]["labels"]["by-finalize"] = "1".into();
    c.put(&format!("{path}/finalize"), &object)
        .await
        .is(200)
        .has("/metadata/labels/by-finalize", "1")
        .has("/spec/finalizers", json!(["kubernetes", "ex.io/more"]))
        .has("/status/phase", "Active");
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
    // Who does not block is deleted too, and not waited for.
    let uid = c.make(&path, config_map("quick", json!({}))).await.uid();
    let mut lazy = owned("lazy", &[("v1", "ConfigMap", "quick", &uid, false)]);
    lazy["metadata"]["finalizers"] = json!(["ex.io/hold"]);
    c.make(&path, lazy).await;
    c.delete(&format!("{}?propagationPolicy=Foreground", at("quick")))
        .await
        .is(200);
    c.until_gone(&at("quick")).await;
    c.until(&at("lazy"), |it| it["metadata"]["deletionTimestamp"].is_string())
        .await;
    c.merge(&at("lazy"), json!({"metadata": {"finalizers": null}}))
        .await
        .is(200);
    c.until_gone(&at("lazy")).await;
    // Two that own each other go together.
    let one = c.make(&path, config_map("hen", json!({}))).await.uid();
    let two = c
        .make(&path, owned("egg", &[("v1", "ConfigMap", "hen", &one, true)]))
        .await
        .uid();
    let back =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "egg", "uid": two, "blockOwnerDeletion": true}]);
    c.merge(&at("hen"), json!({"metadata": {"ownerReferences": back}}))
        .await
        .is(200);
    c.delete(&format!("{}?propagationPolicy=Foreground", at("hen")))
        .await
        .is(200);
    c.until_gone(&at("hen")).await;
    c.until_gone(&at("egg")).await;
    // Whose owner is of a kind that nobody serves is left alone; the stray that is made after it, is collected.
    let nobody = "33333333-3333-4333-8333-333333333333";
    for owner in [("nowhere.ex.io/v1", "Nothing"), ("v1", "Nothing")] {
        let name = format!("kept-{}", owner.0.split('.').next().unwrap().replace('/', "-"));
        let child = owned(&name, &[(owner.0, owner.1, "x", nobody, false)]);
        c.make(&path, child).await;
    }
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
    for kept in ["kept-nowhere", "kept-v1"] {
        c.get(&at(kept)).await.is(200).lacks("/metadata/deletionTimestamp");
    }
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
    // Each field has its place in the other group.
    let times = json!({"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-02T00:00:00Z", "count": 4,
        "source": {"component": "me", "host": "h"}});
    let mut old = json!({"metadata": {"name": "old", "namespace": namespace}, "involvedObject": reference, "reason": "Then",
        "type": "Normal"});
    old.as_object_mut().unwrap().extend(times.as_object().unwrap().clone());
    c.make(&core, old).await;
    c.get(&format!("{other}/old"))
        .await
        .is(200)
        .has("/deprecatedFirstTimestamp", "2026-01-01T00:00:00Z")
        .has("/deprecatedLastTimestamp", "2026-01-02T00:00:00Z")
        .has("/deprecatedCount", 4)
        .has("/deprecatedSource", json!({"component": "me", "host": "h"}))
        .has("/eventTime", Value::Null);
    let series = |count: u64| json!({"count": count, "lastObservedTime": "2026-01-01T00:00:01.000000Z"});
    let often = |name: &str, count: u64| {
        json!({"metadata": {"name": name, "namespace": namespace}, "regarding": reference,
        "reason": "Often", "note": "n", "type": "Normal", "action": "A", "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "ex.io/c", "reportingInstance": "i", "series": series(count)})
    };
    c.make(&other, often("often", 2)).await;
    c.get(&format!("{core}/often"))
        .await
        .is(200)
        .has("/series", series(2))
        .has("/reportingInstance", "i")
        .has("/action", "A")
        .has("/firstTimestamp", Value::Null)
        .has("/source", json!({}));
    c.strategic(&format!("{other}/often"), json!({"series": series(3)}))
        .await
        .is(200)
        .has("/series", series(3));
    c.get(&format!("{core}/often")).await.has("/series/count", 3);
    c.post(&other, often("once", 1))
        .await
        .fails(422, "Invalid")
        .mentions("series.count: Invalid value: \"\": should be at least 2");
    for name in ["old", "often"] {
        c.delete(&format!("{core}/{name}")).await.is(200);
    }
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
    if !c.is_embedded() {
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
    // A leader that goes leaves it to nobody.
    c.merge(&format!("{path}/a"), json!({"spec": {"holderIdentity": ""}}))
        .await
        .is(200)
        .has("/spec/holderIdentity", "");
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
