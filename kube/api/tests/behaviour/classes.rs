//! Classes that stand in where an object names none, and classes that have to be there.

use super::world::World;
use serde_json::{Value, json};

const STORAGE_CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const INGRESS_CLASSES: &str = "/apis/networking.k8s.io/v1/ingressclasses";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
const PRIORITIES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const RUNTIMES: &str = "/apis/node.k8s.io/v1/runtimeclasses";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn made(world: &World, path: &str, body: Value) -> Value {
    let (code, answer) = world.post(path, &body).await;
    assert_eq!(code, 201, "{answer}");
    answer
}

#[tokio::test]
async fn a_claim_without_class_has_the_default_one() {
    let world = World::new().await;
    let claim = |name: &str, class: Value| {
        json!({"metadata": {"name": name}, "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }})
    };
    let none = made(&world, CLAIMS, claim("before", Value::Null)).await;
    assert_eq!(none["spec"].get("storageClassName"), None, "{none}");
    for (name, annotation) in [
        ("b", "storageclass.kubernetes.io/is-default-class"),
        ("a", "storageclass.beta.kubernetes.io/is-default-class"),
        ("plain", "ex.io/other"),
    ] {
        let class = json!({"metadata": {"name": name, "annotations": {annotation: "true"}}, "provisioner": "ex.io/p"});
        made(&world, STORAGE_CLASSES, class).await;
    }
    let newest = {
        let time = async |name: &str| {
            let (_, class) = world.get(&format!("{STORAGE_CLASSES}/{name}")).await;
            class["metadata"]["creationTimestamp"].as_str().unwrap().to_owned()
        };
        if time("a").await >= time("b").await { "a" } else { "b" }
    };
    let given = made(&world, CLAIMS, claim("after", Value::Null)).await;
    assert_eq!(given["spec"]["storageClassName"], newest);
    // Nobody owns what nobody wrote.
    let owned = given["metadata"]["managedFields"].to_string();
    assert!(!owned.contains("f:storageClassName"), "{owned}");
    assert_eq!(
        made(&world, CLAIMS, claim("empty", json!(""))).await["spec"]["storageClassName"],
        ""
    );
    let mut annotated = claim("annotated", Value::Null);
    annotated["metadata"]["annotations"] = json!({"volume.beta.kubernetes.io/storage-class": "x"});
    let annotated = made(&world, CLAIMS, annotated).await;
    assert_eq!(annotated["spec"].get("storageClassName"), None);
}

#[tokio::test]
async fn an_ingress_without_class_has_the_default_one() {
    let world = World::new().await;
    let class = json!({
        "metadata": {"name": "c", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
        "spec": {"controller": "ex.io/c"},
    });
    made(&world, INGRESS_CLASSES, class).await;
    let ingress = |name: &str, annotations: Value| {
        json!({"metadata": {"name": name, "annotations": annotations}, "spec": {
            "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}},
        }})
    };
    let given = made(&world, INGRESSES, ingress("plain", Value::Null)).await;
    assert_eq!(given["spec"]["ingressClassName"], "c");
    let named = json!({"kubernetes.io/ingress.class": "nginx"});
    let named = made(&world, INGRESSES, ingress("annotated", named)).await;
    assert_eq!(named["spec"].get("ingressClassName"), None);
}

#[tokio::test]
async fn one_priority_class_is_the_default() {
    let world = World::new().await;
    let class = |name: &str, default: bool| json!({"metadata": {"name": name}, "value": 5, "globalDefault": default});
    made(&world, PRIORITIES, class("p1", true)).await;
    made(&world, PRIORITIES, class("p2", false)).await;
    let refused = |answer: &Value| {
        let why = "PriorityClass p1 is already marked as default. Only one default can exist";
        assert!(answer["message"].as_str().unwrap().ends_with(why), "{answer}");
    };
    let (code, answer) = world.post(PRIORITIES, &class("p3", true)).await;
    assert_eq!(code, 403);
    refused(&answer);
    let (code, answer) = world
        .merge(&format!("{PRIORITIES}/p2"), json!({"globalDefault": true}))
        .await;
    assert_eq!(code, 403);
    refused(&answer);
    // The default itself may change.
    let (code, answer) = world
        .merge(&format!("{PRIORITIES}/p1"), json!({"description": "x"}))
        .await;
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test]
async fn a_pod_runs_as_its_runtime_class_says() {
    let world = World::new().await;
    let pod = |name: &str, more: Value| {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        for (key, value) in more.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        pod
    };
    let class = json!({
        "metadata": {"name": "gv"}, "handler": "h", "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]},
    });
    made(&world, RUNTIMES, class).await;
    let run = made(
        &world,
        PODS,
        pod("p", json!({"runtimeClassName": "gv", "nodeSelector": {"x": "y"}})),
    )
    .await;
    assert_eq!(run["spec"]["overhead"], json!({"cpu": "250m"}));
    assert_eq!(run["spec"]["nodeSelector"], json!({"a": "b", "x": "y"}));
    assert!(
        run["spec"]["tolerations"].to_string().contains(r#""key":"a""#),
        "{}",
        run["spec"]
    );
    for (more, why) in [
        (
            json!({"runtimeClassName": "nope"}),
            "pod rejected: RuntimeClass \"nope\" not found",
        ),
        (
            json!({"overhead": {"cpu": "1"}}),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            json!({"runtimeClassName": "gv", "overhead": {"cpu": "1"}}),
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            json!({"runtimeClassName": "gv", "nodeSelector": {"a": "c"}}),
            "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c",
        ),
        (
            json!({"preemptionPolicy": "Never"}),
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed \
             PreemptLowerPriority from the given PriorityClass name",
        ),
    ] {
        let (code, answer) = world.post(PODS, &pod("wrong", more)).await;
        let want = format!("pods \"wrong\" is forbidden: {why}");
        assert_eq!((code, answer["message"].as_str()), (403, Some(want.as_str())));
    }
    let same = pod("same", json!({"runtimeClassName": "gv", "overhead": {"cpu": "0.25"}}));
    made(&world, PODS, same).await;
}
