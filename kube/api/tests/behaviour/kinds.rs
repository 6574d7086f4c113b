//! Rules of built-in kinds that show over several requests.

use super::world::{APPLY, PATIENCE, World};
use futures::future::join_all;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::{spawn, task::JoinError};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn changing_a_service_type_drops_fields_of_the_old_type() {
    let world = World::new().await;
    let service = json!({"metadata": {"name": "s"}, "spec": {
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}],
    }});
    let (code, made) = world.post(SERVICES, &service).await;
    assert_eq!(code, 201, "{made}");
    let address = &made["spec"]["clusterIP"];
    let path = format!("{SERVICES}/s");
    let (code, plain) = world.merge(&path, json!({"spec": {"type": "ClusterIP"}})).await;
    assert_eq!((code, &plain["spec"]["clusterIP"]), (200, address));
    for gone in [
        "externalTrafficPolicy",
        "allocateLoadBalancerNodePorts",
        "healthCheckNodePort",
    ] {
        assert_eq!(plain["spec"].get(gone), None, "{plain}");
    }
    assert_eq!(plain["spec"]["ports"][0].get("nodePort"), None);
    let (code, named) = world
        .merge(
            &path,
            json!({"spec": {"type": "ExternalName", "externalName": "ex.io"}}),
        )
        .await;
    assert_eq!(code, 200, "{named}");
    for gone in [
        "clusterIP",
        "clusterIPs",
        "ipFamilies",
        "ipFamilyPolicy",
        "internalTrafficPolicy",
    ] {
        assert_eq!(named["spec"].get(gone), None, "{named}");
    }
    // What the client says itself is still refused.
    let said = json!({"spec": {"clusterIP": "10.0.0.77"}});
    assert_eq!(world.merge(&path, said).await.0, 422);
}

#[tokio::test]
async fn numbers_on_the_nodes_are_shared_by_protocols_and_kept() {
    let world = World::new().await;
    let service = |name: &str, more: Value| {
        let ports = json!([{"name": "tcp", "port": 53}, {"name": "udp", "port": 53, "protocol": "UDP"}, {"name": "web", "port": 80}]);
        let mut service = json!({"metadata": {"name": name}, "spec": {"type": "LoadBalancer", "ports": ports}});
        for (key, value) in more.as_object().expect("members") {
            service["spec"][key] = value.clone();
        }
        service
    };
    let local = json!({"externalTrafficPolicy": "Local"});
    let (code, made) = world.post(SERVICES, &service("dns", local.clone())).await;
    assert_eq!(code, 201, "{made}");
    let number = |of: &Value, at: usize| of["spec"]["ports"][at]["nodePort"].as_i64().expect("a number");
    assert_eq!(number(&made, 0), number(&made, 1));
    assert_ne!(number(&made, 0), number(&made, 2));
    let health = made["spec"]["healthCheckNodePort"].as_i64().expect("a number");
    assert!(![number(&made, 0), number(&made, 2)].contains(&health));
    // Who does not say them keeps them.
    let path = format!("{SERVICES}/dns");
    let mut again = service("dns", local);
    again["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    let (code, put) = world.ask(Method::PUT, &path, "application/json", &again).await;
    assert_eq!((code, &put["spec"]), (200, &made["spec"]), "{put}");
    // Another Service does not get them, and no number is shared by two ports of one protocol.
    for taken in [health, number(&made, 0)] {
        let ports = json!({"ports": [{"port": 1, "nodePort": taken}]});
        let (code, refused) = world.post(SERVICES, &service("other", ports)).await;
        let text = refused["message"].as_str().unwrap_or_default();
        assert!(
            code == 422 && text.contains("provided port is already allocated"),
            "{refused}"
        );
    }
    let said = json!({"spec": {"healthCheckNodePort": health + 1}});
    assert_eq!(world.merge(&path, said).await.0, 422);
    let cluster = json!({"spec": {"externalTrafficPolicy": "Cluster"}});
    let (code, plain) = world.merge(&path, cluster).await;
    assert_eq!((code, plain["spec"].get("healthCheckNodePort")), (200, None), "{plain}");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_services_never_share_an_address_or_node_port() {
    let data = tempfile::tempdir().unwrap();
    let world = Arc::new(World::kept_in(data.path()).await);
    let counts = |codes: Vec<Result<(u16, Value), JoinError>>| {
        let codes: Vec<(u16, Value)> = codes.into_iter().map(Result::unwrap).collect();
        let of = |wanted: u16| codes.iter().filter(|(code, _)| *code == wanted).count();
        (of(200) + of(201), of(422))
    };
    for turn in 0..10 {
        let service = |at: usize, more: Value| {
            let mut service = json!({"metadata": {"name": format!("s-{turn}-{at}")}, "spec": more});
            service["spec"]["ports"] = json!([{"port": 80}]);
            service
        };
        let address = json!({"clusterIP": format!("10.0.200.{turn}")});
        let make = |service: Value| {
            let world = world.clone();
            spawn(async move { world.post(SERVICES, &service).await })
        };
        let made = join_all((0..8).map(|at| make(service(at, address.clone())))).await;
        assert_eq!(counts(made), (1, 7), "an address");

        let made = join_all((8..16).map(|at| make(service(at, json!({}))))).await;
        assert_eq!(counts(made), (8, 0));
        let number = json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 31000 + turn}]}});
        let change = |at: usize| {
            let (world, number) = (world.clone(), number.clone());
            spawn(async move { world.merge(&format!("{SERVICES}/s-{turn}-{at}"), number).await })
        };
        let changed = join_all((8..16).map(change)).await;
        assert_eq!(counts(changed), (1, 7), "a number on the nodes");
    }
}

#[tokio::test]
async fn addresses_of_services_stay_and_are_of_the_range() {
    let world = World::new().await;
    let service =
        |name: &str, ip: &str| json!({"metadata": {"name": name}, "spec": {"clusterIP": ip, "ports": [{"port": 80}]}});
    let (code, refused) = world.post(SERVICES, &service("out", "8.8.8.8")).await;
    let text = refused["message"].as_str().unwrap_or_default();
    assert!(
        code == 422 && text.contains("The range of valid IPs is 10.0.0.0/16"),
        "{refused}"
    );
    let (code, made) = world.post(SERVICES, &service("in", "10.0.200.1")).await;
    assert_eq!(code, 201, "{made}");
    let path = format!("{SERVICES}/in");
    for other in [
        json!({"clusterIP": "10.0.200.2"}),
        json!({"clusterIPs": ["10.0.200.2"]}),
        json!({"clusterIP": "None"}),
    ] {
        let (code, refused) = world.merge(&path, json!({"spec": other})).await;
        assert_eq!(code, 422, "{other}: {refused}");
    }
    let (code, kept) = world
        .merge(&path, json!({"spec": {"clusterIP": null, "clusterIPs": null}}))
        .await;
    assert_eq!((code, &kept["spec"]), (200, &made["spec"]), "{kept}");
}

#[tokio::test]
async fn decode_errors_take_precedence_over_missing_and_conflicting_objects() {
    let world = World::new().await;
    let map = |data: Value| json!({"metadata": {"name": "m", "resourceVersion": "1"}, "data": data});
    let path = "/api/v1/namespaces/default/configmaps/m";
    let put = async |data: Value| world.ask(Method::PUT, path, "application/json", &map(data)).await.0;
    assert_eq!((put(json!({"a": 1})).await, put(json!({"a": "1"})).await), (400, 404));
    let plain = json!({"metadata": {"name": "m"}});
    assert_eq!(world.post("/api/v1/namespaces/default/configmaps", &plain).await.0, 201);
    assert_eq!((put(json!({"a": 1})).await, put(json!({"a": "1"})).await), (400, 409));
}

#[tokio::test]
async fn a_service_no_longer_load_balanced_loses_its_ingress_status() {
    let world = World::new().await;
    let ports = json!([{"name": "x", "port": 80}]);
    let service = json!({"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer", "ports": ports}});
    let (code, made) = world.post(SERVICES, &service).await;
    assert_eq!(code, 201, "{made}");
    let path = format!("{SERVICES}/s");
    let at = json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}});
    assert_eq!(world.merge(&format!("{path}/status"), at).await.0, 200);
    // Numbers that are used stay; only no more are given.
    let none = json!({"spec": {"allocateLoadBalancerNodePorts": false}});
    let (code, kept) = world.merge(&path, none).await;
    assert_eq!((code, &kept["spec"]["ports"]), (200, &made["spec"]["ports"]), "{kept}");
    assert_eq!(kept["status"]["loadBalancer"]["ingress"][0]["ip"], "1.1.1.1");
    let (code, plain) = world.merge(&path, json!({"spec": {"type": "ClusterIP"}})).await;
    assert_eq!((code, &plain["status"]["loadBalancer"]), (200, &json!({})), "{plain}");
}

#[tokio::test]
async fn a_pod_behind_gates_may_still_be_narrowed() {
    let world = World::new().await;
    let pod = |name: &str, gates: Value| {
        let containers = json!([{"name": "c", "image": "i"}]);
        json!({"metadata": {"name": name}, "spec": {"containers": containers, "schedulingGates": gates}})
    };
    let narrower = json!({"spec": {"nodeSelector": {"a": "1"}}});
    for (name, gates, want) in [("gated", json!([{"name": "x"}]), 200), ("free", json!([]), 422)] {
        assert_eq!(world.post(PODS, &pod(name, gates)).await.0, 201);
        let (code, answer) = world.merge(&format!("{PODS}/{name}"), narrower.clone()).await;
        assert_eq!(code, want, "{answer}");
    }
}

#[tokio::test]
async fn a_list_item_may_omit_a_key_that_go_defaults() {
    let world = World::new().await;
    let config = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i"}], "imagePullSecrets": [{}],
    }});
    let path = format!("{PODS}/p?fieldManager=m");
    let (code, answer) = world.ask(Method::PATCH, &path, APPLY, &config).await;
    assert_eq!(code, 201, "{answer}");
}

#[tokio::test]
async fn an_event_is_named_after_what_it_is_of() {
    let world = World::new().await;
    let event = json!({"metadata": {"name": "system:x.18a"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}});
    let path = "/api/v1/namespaces/default/events";
    let (code, answer) = world.post(path, &event).await;
    assert_eq!(code, 201, "{answer}");
    // Nothing belongs to it, so that nothing has to go first.
    let options = json!({"propagationPolicy": "Foreground"});
    let one = format!("{path}/system:x.18a");
    let (code, answer) = world.ask(Method::DELETE, &one, "application/json", &options).await;
    assert_eq!((code, &answer["status"]), (200, &json!("Success")), "{answer}");
    assert_eq!(world.get(&one).await.0, 404);
}

#[tokio::test]
async fn events_are_found_by_who_reported_them_under_both_names() {
    let world = World::new().await;
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "ex.io/c", "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
    });
    let (code, made) = world.post(EVENTS, &event).await;
    assert_eq!(code, 201, "{made}");
    let core = "/api/v1/namespaces/default/events";
    for (path, selector) in [
        (EVENTS, "reportingController=ex.io/c"),
        (core, "reportingComponent=ex.io/c"),
        (core, "source=ex.io/c"),
        (EVENTS, "regarding.name=p"),
    ] {
        let (code, list) = world.get(&format!("{path}?fieldSelector={selector}")).await;
        let count = list["items"].as_array().map(Vec::len);
        assert_eq!((code, count), (200, Some(1)), "{selector}: {list}");
    }
}

#[tokio::test]
async fn cron_jobs_are_deleted_with_jobs_but_jobs_without_pods() {
    let world = World::new().await;
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let of_job = json!({"spec": {"template": {"spec": pod}}});
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let crons = "/apis/batch/v1/namespaces/default/cronjobs";
    let cron = json!({"metadata": {"name": "c"}, "spec": {"schedule": "0 0 1 1 *", "jobTemplate": of_job}});
    let owned = |kind: &str, owner: &Value| {
        let metadata = &owner["metadata"];
        json!({"name": "owned", "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"]},
        ]})
    };
    let (code, cron) = world.post(crons, &cron).await;
    assert_eq!(code, 201, "{cron}");
    let mut job = of_job.clone();
    job["metadata"] = owned("CronJob", &cron);
    let (code, job) = world.post(jobs, &job).await;
    assert_eq!(code, 201, "{job}");
    let (code, made) = world
        .post(PODS, &json!({"metadata": owned("Job", &job), "spec": pod}))
        .await;
    assert_eq!(code, 201, "{made}");
    let pod = format!("{PODS}/owned");
    assert_eq!(world.delete(&format!("{jobs}/owned")).await.0, 200);
    world
        .until(PODS, &pod, |_, it| it["metadata"].get("ownerReferences").is_none())
        .await;
    let mut job = of_job;
    job["metadata"] = owned("CronJob", &cron);
    assert_eq!(world.post(jobs, &job).await.0, 201);
    assert_eq!(world.delete(&format!("{crons}/c")).await.0, 200);
    world.until(jobs, &format!("{jobs}/owned"), |code, _| code == 404).await;
}

#[tokio::test]
async fn a_pod_with_a_missing_service_account_is_refused() {
    let world = World::new().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "serviceAccountName": "nope", "containers": [{"name": "c", "image": "i"}],
    }});
    let (code, answer) = world.post(PODS, &pod).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "pods \"p\" is forbidden: error looking up service account default/nope: serviceaccount \"nope\" not found"
    );
    let account = json!({"metadata": {"name": "nope"}});
    assert_eq!(
        world
            .post("/api/v1/namespaces/default/serviceaccounts", &account)
            .await
            .0,
        201
    );
    assert_eq!(world.post(PODS, &pod).await.0, 201);
}

#[tokio::test]
async fn a_watch_that_wants_nothing_of_before_begins_now() {
    let world = World::new().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    assert_eq!(world.post(maps, &map("before")).await.0, 201);
    let options = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = world
        .open(Method::GET, &format!("{maps}?{options}"), "", &Value::Null)
        .await
        .into_body();
    let applied = format!("{maps}/after?fieldManager=m");
    assert_eq!(world.ask(Method::PATCH, &applied, APPLY, &map("after")).await.0, 201);
    let first = tokio::time::timeout(PATIENCE, watch.frame()).await.expect("an event");
    let frame = first.unwrap().unwrap();
    let event: Value = serde_json::from_slice(frame.data_ref().unwrap()).unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!("after"))
    );
}
