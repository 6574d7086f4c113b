//! What the fields of objects select, in lists and in watches.

use crate::{
    check::{Check, must},
    cx::{CSRS, Cx, config_map, csr, signing_request},
    sections::list::encode,
};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![must(
        "109",
        "fields can be selected per kind, in lists and watches: each finds what has it and leaves the rest; others are 400",
        fields,
    )]
}

async fn fields(c: Cx) {
    names(&c).await;
    pods(&c).await;
    workloads(&c).await;
    cluster(&c).await;
    events(&c).await;
}

async fn names(c: &Cx) {
    let namespace = c.namespace().await;
    let core = format!("/api/v1/namespaces/{namespace}");
    let select = |path: String, selector: &'static str| {
        let c = c.clone();
        async move { c.get(&format!("{path}?fieldSelector={}", encode(selector))).await }
    };
    for name in ["a", "b"] {
        c.make(&format!("{core}/configmaps"), config_map(name, json!({}))).await;
    }
    let maps = format!("{core}/configmaps");
    assert_eq!(select(maps.clone(), "metadata.name=a").await.is(200).names(), ["a"]);
    assert_eq!(select(maps.clone(), "metadata.name==a").await.is(200).names(), ["a"]);
    let others = select(maps.clone(), "metadata.name!=a").await.is(200).names();
    assert!(
        others.contains(&"b".to_owned()) && !others.contains(&"a".to_owned()),
        "{others:?}"
    );
    let all = c
        .get(&format!(
            "/api/v1/configmaps?fieldSelector=metadata.namespace%3D{namespace},metadata.name%3Da"
        ))
        .await;
    assert_eq!(all.is(200).names(), ["a"]);
    select(maps.clone(), "data.x=1")
        .await
        .fails(400, "BadRequest")
        .mentions("\"data.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
    select(maps.clone(), "metadata.name")
        .await
        .fails(400, "BadRequest")
        .mentions("invalid selector: 'metadata.name'; can't understand 'metadata.name'");
    let kind = c
        .define_simple("things", "Thing", json!({"a": {"type": "string"}}))
        .await;
    c.make(&kind.path, kind.object("a", json!({"a": "b"}))).await;
    assert_eq!(
        select(kind.path.clone(), "metadata.name=a").await.is(200).names(),
        ["a"]
    );
    select(kind.path.clone(), "spec.a=b")
        .await
        .fails(400, "BadRequest")
        .mentions("field label not supported: spec.a");
}

/// Of two objects the selector finds the one, and its opposite the other.
async fn finds(c: &Cx, path: &str, one: &str, other: &str, selectors: &[&str]) {
    let mut wrong = Vec::new();
    for selector in selectors {
        let (field, value) = selector.split_once('=').unwrap();
        for (sign, wanted) in [("=", one), ("==", one), ("!=", other)] {
            let query = encode(&format!("{field}{sign}{value}"));
            let reply = c.get(&format!("{path}?fieldSelector={query}")).await.is(200);
            let mut came = reply.names();
            came.retain(|it| it == one || it == other);
            if came != [wanted] {
                wrong.push(format!(
                    "{path}: {field}{sign}{value} should find {wanted}, it finds {came:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What comes to have the field is ADDED to a watch that selects by it, and DELETED when it has it no more.
async fn comes_and_goes(c: &Cx, path: &str, selector: &str, name: &str, statuses: [Value; 2]) {
    let start = c.get(path).await.is(200).revision();
    let mut watch = c
        .watch(&format!(
            "{path}?watch=1&resourceVersion={start}&fieldSelector={}",
            encode(&format!("{selector},metadata.name={name}"))
        ))
        .await;
    for (status, event) in statuses.into_iter().zip(["ADDED", "DELETED"]) {
        c.merge(&format!("{path}/{name}/status"), json!({"status": status}))
            .await
            .is(200);
        loop {
            let (kind, came) = watch.brief().await;
            // Somebody may write to it in between.
            if kind != "MODIFIED" {
                assert_eq!((kind.as_str(), came.as_str()), (event, name), "{selector}");
                break;
            }
        }
    }
}

async fn refuses(c: &Cx, path: &str, fields: &[&str]) {
    for field in fields {
        c.get(&format!("{path}?fieldSelector={field}%3D1"))
            .await
            .fails(400, "BadRequest")
            .mentions(&format!("field label not supported: {field}"));
    }
}

async fn pods(c: &Cx) {
    let namespace = c.namespace_called("pods").await;
    let core = format!("/api/v1/namespaces/{namespace}");
    c.until(&format!("{core}/serviceaccounts/default"), |it| it.code == 200)
        .await;
    c.make(
        &format!("{core}/serviceaccounts"),
        json!({"metadata": {"name": "robot"}}),
    )
    .await;
    let path = format!("{core}/pods");
    let container = json!([{"name": "c", "image": "i"}]);
    for (name, spec) in [
        (
            "one",
            json!({"containers": container, "schedulerName": "nobody", "restartPolicy": "Never", "nodeName": c.name("node"),
                "serviceAccountName": "robot", "hostNetwork": true}),
        ),
        ("other", json!({"containers": container, "schedulerName": "somebody"})),
    ] {
        c.make(&path, json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    let running = json!({"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]});
    c.merge(&format!("{path}/one/status"), json!({"status": running}))
        .await
        .is(200);
    c.merge(
        &format!("{path}/other/status"),
        json!({"status": {"nominatedNodeName": "n1"}}),
    )
    .await
    .is(200);
    let node = format!("spec.nodeName={}", c.name("node"));
    finds(
        c,
        &path,
        "one",
        "other",
        &[
            &node,
            "spec.schedulerName=nobody",
            "spec.restartPolicy=Never",
            "spec.serviceAccountName=robot",
            "spec.hostNetwork=true",
            "status.phase=Running",
            "status.podIP=10.1.2.3",
            "status.nominatedNodeName=",
        ],
    )
    .await;
    finds(
        c,
        &path,
        "other",
        "one",
        &[
            "spec.nodeName=",
            "spec.restartPolicy=Always",
            "spec.serviceAccountName=default",
            "spec.hostNetwork=false",
            "status.phase=Pending",
            "status.podIP=",
            "status.nominatedNodeName=n1",
        ],
    )
    .await;
    // Its name of old.
    finds(c, &path, "one", "other", &[&node.replace("spec.nodeName", "spec.host")]).await;
    let both = encode("status.phase=Running,spec.schedulerName=somebody");
    let none = c.get(&format!("{path}?fieldSelector={both}")).await.is(200);
    assert!(none.names().is_empty(), "{}", none.came());
    let phases = ["Succeeded", "Failed"].map(|it| json!({"phase": it}));
    comes_and_goes(c, &path, "status.phase=Succeeded", "other", phases).await;
    refuses(c, &path, &["spec.foo", "status.hostIP"]).await;
}

async fn workloads(c: &Cx) {
    let namespace = c.namespace_called("workloads").await;
    let core = format!("/api/v1/namespaces/{namespace}");
    for (name, kind) in [("one", "x.io/y"), ("other", "Opaque")] {
        c.make(
            &format!("{core}/secrets"),
            json!({"metadata": {"name": name}, "type": kind}),
        )
        .await;
    }
    finds(c, &format!("{core}/secrets"), "one", "other", &["type=x.io/y"]).await;
    finds(c, &format!("{core}/secrets"), "other", "one", &["type=Opaque"]).await;
    refuses(c, &format!("{core}/secrets"), &["data.x"]).await;

    let path = format!("{core}/services");
    let ports = json!([{"port": 80}]);
    let one = c
        .make(&path, json!({"metadata": {"name": "one"}, "spec": {"ports": ports}}))
        .await;
    let external = json!({"type": "ExternalName", "externalName": "x.example.com"});
    c.make(&path, json!({"metadata": {"name": "other"}, "spec": external}))
        .await;
    let address = format!("spec.clusterIP={}", one["spec"]["clusterIP"].as_str().unwrap());
    finds(c, &path, "one", "other", &[&address, "spec.type=ClusterIP"]).await;
    finds(c, &path, "other", "one", &["spec.clusterIP=", "spec.type=ExternalName"]).await;

    // With as many as are wanted, nobody who runs these changes the number.
    let path = format!("{core}/replicationcontrollers");
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}});
    for (name, replicas) in [("one", 2), ("other", 0)] {
        let spec = json!({"replicas": replicas, "selector": {"a": "b"}, "template": template});
        c.make(&path, json!({"metadata": {"name": name}, "spec": spec})).await;
        if c.is_embedded() {
            let status = json!({"status": {"replicas": replicas}});
            c.merge(&format!("{path}/{name}/status"), status).await.is(200);
        }
        c.until(&format!("{path}/{name}"), |it| {
            it.at("/status/replicas") == &json!(replicas)
        })
        .await;
    }
    finds(c, &path, "one", "other", &["status.replicas=2"]).await;
    finds(c, &path, "other", "one", &["status.replicas=0"]).await;

    let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    for name in ["one", "other"] {
        // Of somebody who is not there.
        let spec = json!({"suspend": true, "managedBy": "ex.io/nobody", "template": template});
        c.make(&path, json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    c.merge(&format!("{path}/one/status"), json!({"status": {"succeeded": 1}}))
        .await
        .is(200);
    finds(c, &path, "one", "other", &["status.successful=1"]).await;
    finds(c, &path, "other", "one", &["status.successful=0"]).await;
    let counts = [1, 2].map(|it| json!({"succeeded": it}));
    comes_and_goes(c, &path, "status.successful=1", "other", counts).await;
    for field in ["status.succeeded", "status.active"] {
        c.get(&format!("{path}?fieldSelector={field}%3D1"))
            .await
            .fails(400, "BadRequest")
            .says(&format!("field label \"{field}\" not supported for Job"));
    }
}

async fn cluster(c: &Cx) {
    let (one, other) = (c.name("one"), c.name("other"));
    for (name, spec) in [(&one, json!({"unschedulable": true})), (&other, json!({}))] {
        c.make("/api/v1/nodes", json!({"metadata": {"name": name}, "spec": spec}))
            .await;
    }
    finds(c, "/api/v1/nodes", &one, &other, &["spec.unschedulable=true"]).await;
    finds(c, "/api/v1/nodes", &other, &one, &["spec.unschedulable=false"]).await;
    refuses(c, "/api/v1/nodes", &["spec.podCIDR", "metadata.namespace"]).await;

    c.make("/api/v1/namespaces", json!({"metadata": {"name": one}})).await;
    let going = json!({"metadata": {"name": other, "finalizers": ["ex.io/hold"]}});
    c.make("/api/v1/namespaces", going).await;
    c.delete(&format!("/api/v1/namespaces/{other}")).await.is(200);
    finds(c, "/api/v1/namespaces", &one, &other, &["status.phase=Active"]).await;
    finds(c, "/api/v1/namespaces", &other, &one, &["status.phase=Terminating"]).await;
    c.merge(
        &format!("/api/v1/namespaces/{other}"),
        json!({"metadata": {"finalizers": null}}),
    )
    .await
    .is(200);

    let (request, _) = signing_request("bob", &[]);
    for (name, signer) in [(&one, "ex.io/one"), (&other, "ex.io/other")] {
        c.make(CSRS, csr(name, &request, signer, &["client auth"])).await;
    }
    finds(c, CSRS, &one, &other, &["spec.signerName=ex.io/one"]).await;
    refuses(c, CSRS, &["spec.username"]).await;
}

async fn events(c: &Cx) {
    let namespace = c.namespace_called("events").await;
    let core = format!("/api/v1/namespaces/{namespace}/events");
    let event = |name: &str, more: Value| {
        let mut it = json!({"metadata": {"name": name, "namespace": namespace}});
        it.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        it
    };
    let object = |name: &str, uid: &str| {
        json!({"kind": "ConfigMap", "apiVersion": "v1", "namespace": namespace, "name": name, "uid": uid,
            "resourceVersion": uid, "fieldPath": format!("data.{name}")})
    };
    c.make(
        &core,
        event(
            "one",
            json!({"reason": "Because", "type": "Warning", "source": {"component": "me"}, "reportingComponent": "ex.io/c",
                "reportingInstance": "i", "involvedObject": object("a", "11")}),
        ),
    )
    .await;
    let mut pod = object("b", "22");
    pod["kind"] = "Pod".into();
    pod["apiVersion"] = "v2".into();
    c.make(
        &core,
        event(
            "other",
            json!({"reason": "Why", "type": "Normal", "reportingComponent": "ex.io/d", "reportingInstance": "i", "involvedObject": pod}),
        ),
    )
    .await;
    finds(
        c,
        &core,
        "one",
        "other",
        &[
            "involvedObject.kind=ConfigMap",
            "involvedObject.apiVersion=v1",
            "involvedObject.name=a",
            "involvedObject.uid=11",
            "involvedObject.resourceVersion=11",
            "involvedObject.fieldPath=data.a",
            "reason=Because",
            "type=Warning",
            "reportingComponent=ex.io/c",
            "source=me",
        ],
    )
    .await;
    // Who names no component as its source is that which reports.
    finds(c, &core, "other", "one", &["source=ex.io/d", "type=Normal"]).await;
    let inside = format!("{core}?fieldSelector=involvedObject.namespace%3D{namespace},involvedObject.kind%3DPod");
    assert_eq!(c.get(&inside).await.is(200).names(), ["other"]);
    let elsewhere = format!("{core}?fieldSelector=involvedObject.namespace%3Delsewhere");
    assert!(c.get(&elsewhere).await.is(200).names().is_empty());
    let newer = core.replace("/api/v1/", "/apis/events.k8s.io/v1/");
    finds(
        c,
        &newer,
        "one",
        "other",
        &[
            "regarding.kind=ConfigMap",
            "regarding.name=a",
            "regarding.uid=11",
            "reason=Because",
            "type=Warning",
            "reportingController=ex.io/c",
        ],
    )
    .await;
    finds(
        c,
        &newer,
        "one",
        "other",
        &[
            "regarding.apiVersion=v1",
            "regarding.resourceVersion=11",
            "regarding.fieldPath=data.a",
        ],
    )
    .await;
    for path in [&core, &newer] {
        refuses(c, path, &["message", "note", "count"]).await;
    }
    // Each group has its own words only.
    refuses(c, &core, &["regarding.name", "reportingController"]).await;
    refuses(c, &newer, &["involvedObject.name", "source", "reportingComponent"]).await;
    let mut watch = c
        .watch(&format!("{core}?watch=1&fieldSelector=involvedObject.uid%3D22"))
        .await;
    assert_eq!(watch.brief().await, ("ADDED".into(), "other".into()));
}
