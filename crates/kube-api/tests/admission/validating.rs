use super::{
    hook::Hook,
    world::{VALIDATING, World, configuration, webhook},
};
use http::Method;
use serde_json::{Value, json};

/// A world where ConfigMaps are judged by what the last part of their name says.
async fn judged() -> (World, Hook) {
    let world = World::new().await;
    let hook = Hook::new(|_, request| match request["name"].as_str().unwrap_or_default() {
        "plain" => json!({"allowed": false, "status": {"message": "no way"}}),
        "silent" => json!({"allowed": false}),
        "forbidden" => json!({"allowed": false, "status": {"code": 403, "reason": "Forbidden", "message": "not you"}}),
        "invalid" => json!({"allowed": false, "status": {"code": 422, "reason": "Invalid", "message": "bad", "details": {"name": "x"}}}),
        "success" => json!({"allowed": false, "status": {"code": 200, "status": "Success", "message": "odd"}}),
        "warned" => json!({"allowed": true, "warnings": ["mind the gap", "and \"this\""]}),
        "warned-and-denied" => json!({"allowed": false, "warnings": ["last warning"]}),
        _ => json!({"allowed": true}),
    })
    .await;
    let hooks = [webhook("test", hook.config("/validate"), json!({}))];
    world.ok(VALIDATING, &configuration("Validating", "v", &hooks)).await;
    (world, hook)
}

#[tokio::test]
async fn n155_a_denial_has_the_webhooks_text_and_code() {
    let (world, _hook) = judged().await;
    assert_eq!(world.map("fine").await.code, 201);
    for (name, code, reason, said) in [
        ("plain", 400, json!(null), ": no way"),
        ("silent", 400, json!(null), " without explanation"),
        ("forbidden", 403, json!("Forbidden"), ": not you"),
        ("invalid", 422, json!("Invalid"), ": bad"),
        ("success", 400, json!(null), ": odd"),
    ] {
        let answer = world.map(name).await;
        assert_eq!((answer.code, &answer.body["reason"]), (code, &reason), "{answer:?}");
        let wanted = format!("admission webhook \"test.ex.io\" denied the request{said}");
        assert_eq!(answer.body["message"], wanted);
        assert_eq!(answer.body["status"], "Failure");
    }
    let details = world.map("invalid").await.body["details"].clone();
    assert_eq!(details, json!({"name": "x"}));
    // What was denied is not there.
    let path = format!("{}/plain", super::world::MAPS);
    assert_eq!(world.ask(Method::GET, &path, "", &Value::Null).await.code, 404);
}

#[tokio::test]
async fn n162_warnings_reach_the_client_whatever_the_answer_is() {
    let (world, _hook) = judged().await;
    let answer = world.map("warned").await;
    assert_eq!(answer.code, 201);
    assert_eq!(
        answer.warnings,
        ["299 - \"mind the gap\"", "299 - \"and \\\"this\\\"\""]
    );
    let answer = world.map("warned-and-denied").await;
    assert_eq!(answer.code, 400);
    assert_eq!(answer.warnings, ["299 - \"last warning\""]);
}

#[tokio::test]
async fn n163_a_dry_run_is_judged_and_says_that_it_is_one() {
    let (world, hook) = judged().await;
    let path = format!("{}?dryRun=All", super::world::MAPS);
    let answer = world.post(&path, &super::world::map("fine")).await;
    assert_eq!(answer.code, 201);
    let request = hook.last();
    assert_eq!(request["dryRun"], true);
    assert_eq!(request["options"]["dryRun"], json!(["All"]));
    assert_eq!(world.post(&path, &super::world::map("plain")).await.code, 400);
}

#[tokio::test]
async fn a_configuration_that_is_gone_asks_nobody() {
    let (world, hook) = judged().await;
    world.delete(&format!("{VALIDATING}/v")).await;
    assert_eq!(world.map("plain").await.code, 201);
    assert_eq!(hook.seen().len(), 0);
}
