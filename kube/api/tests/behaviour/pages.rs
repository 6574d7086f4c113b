//! Collections that are walked page by page.

use super::world::World;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn a_continue_token_from_the_future_expires_with_a_replacement() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        let (code, made) = world.post(CONFIGMAPS, &json!({"metadata": {"name": name}})).await;
        assert_eq!(code, 201, "{made}");
    }
    let (_, page) = world.get(&format!("{CONFIGMAPS}?limit=1")).await;
    let token = page["metadata"]["continue"].as_str().unwrap();
    let mut read: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap();
    read["rv"] = json!(1_000_000);
    let token = URL_SAFE_NO_PAD.encode(read.to_string());
    let (code, status) = world.get(&format!("{CONFIGMAPS}?limit=1&continue={token}")).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")), "{status}");
    let token = status["metadata"]["continue"].as_str().unwrap();
    let (code, rest) = world.get(&format!("{CONFIGMAPS}?continue={token}")).await;
    assert_eq!(code, 200);
    let names: Vec<_> = rest["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["metadata"]["name"])
        .collect();
    assert_eq!(names, ["b", "c"]);
}
