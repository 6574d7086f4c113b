//! The class that stands in where a pod names none, and what only a class may say.

use super::world::World;
use serde_json::{Value, json};

const PRIORITIES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn made(world: &World, path: &str, body: Value) -> Value {
    let (code, answer) = world.post(path, &body).await;
    assert_eq!(code, 201, "{answer}");
    answer
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
async fn the_priority_class_decides_whether_a_pod_preempts() {
    let world = World::new().await;
    let containers = json!([{"name": "c", "image": "i"}]);
    let pod = json!({"metadata": {"name": "wrong"}, "spec": {"containers": containers, "preemptionPolicy": "Never"}});
    let (code, answer) = world.post(PODS, &pod).await;
    let want = "pods \"wrong\" is forbidden: the string value of PreemptionPolicy (Never) must not be provided in pod spec; \
                priority admission controller computed PreemptLowerPriority from the given PriorityClass name";
    assert_eq!((code, answer["message"].as_str()), (403, Some(want)));
}
