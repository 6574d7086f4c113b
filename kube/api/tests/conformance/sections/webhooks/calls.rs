//! How webhooks are reached, and what happens when they are not.

use super::{Judged, VALIDATING, allowing, configure, only, webhook};
use crate::{
    cx::Cx,
    webhook::{Webhook, reviewed},
};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is said of the webhook when a ConfigMap is created under it.
async fn refusal(c: &Cx, config: Value, more: Value) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let what = format!("fails-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let it = under(c, &what, config, more).await;
    let reply = it.map("a").await.fails(500, "InternalError");
    let message = reply["message"].as_str().unwrap();
    let rest = message.strip_prefix("Internal error occurred: failed calling webhook \"test.example.com\": ");
    let rest = rest.unwrap_or_else(|| panic!("{message}")).to_owned();
    let cause = reply.at("/details/causes/0/message").as_str().unwrap();
    assert!(message.ends_with(cause), "{message}: {cause}");
    rest
}

/// A namespace under a webhook that is somewhere.
async fn under(c: &Cx, what: &str, config: Value, more: Value) -> Judged {
    let it = Judged::unjudged(c, what, allowing().await).await;
    let mut whole = json!({"namespaceSelector": only(&it.namespace)});
    whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    configure(c, VALIDATING, what, &[webhook("test", config, whole)]).await;
    it
}

pub async fn failures(c: Cx) {
    tokio::join!(unreachable(&c), late(&c), untrusted(&c), senseless(&c), errors(&c));
}

async fn unreachable(c: &Cx) {
    // Nobody listens there, and nobody else can meanwhile.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = held.local_addr().unwrap();
    let config = json!({"url": format!("https://{address}/x")});
    assert_eq!(
        refusal(c, config.clone(), json!({})).await,
        format!(
            "failed to call webhook: Post \"https://{address}/x?timeout=10s\": dial tcp {address}: connect: connection refused"
        )
    );
    let it = under(c, "ignored", config, json!({"failurePolicy": "Ignore"})).await;
    it.map("a").await.is(201);
    drop(held);
}

async fn late(c: &Cx) {
    let hook = Webhook::raw("localhost", |_, _| None).await;
    let said = refusal(c, hook.config("/slow"), json!({"timeoutSeconds": 1})).await;
    let wanted = format!("Post \"{}?timeout=1s\": context deadline exceeded", hook.url("/slow"));
    assert_eq!(said, format!("failed to call webhook: {wanted}"));
}

async fn untrusted(c: &Cx) {
    let (hook, other) = (allowing().await, allowing().await);
    let mut config = hook.config("/");
    config["caBundle"] = other.bundle().into();
    let said = refusal(c, config.clone(), json!({})).await;
    let wanted = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    assert!(said.contains(wanted), "{said}");
    config.as_object_mut().unwrap().remove("caBundle");
    let said = refusal(c, config, json!({})).await;
    assert!(said.contains("certificate signed by unknown authority"), "{said}");
    assert!(hook.take().is_empty());
}

async fn senseless(c: &Cx) {
    let answer = |response: Value| {
        move |_: &str, review: &Value| {
            let mut all = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            if all["response"]["uid"] == "same" {
                all["response"]["uid"] = review["request"]["uid"].clone();
            }
            if all["response"]["other"] == "version" {
                all["apiVersion"] = "admission.k8s.io/v1beta1".into();
            }
            Some((200, all.to_string()))
        }
    };
    for (response, said) in [
        (
            json!({"uid": "x", "allowed": true}),
            "received invalid webhook response: expected response.uid=",
        ),
        (
            json!({"uid": "same", "allowed": true, "patch": "e30="}),
            "validating webhook may not return response.patch",
        ),
        (
            json!({"uid": "same", "allowed": true, "other": "version"}),
            "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
        ),
        (json!(null), "webhook response was absent"),
    ] {
        let hook = Webhook::raw("localhost", answer(response.clone())).await;
        let refused = refusal(c, hook.config("/"), json!({})).await;
        assert!(refused.contains(said), "{response}: {refused}");
    }
}

async fn errors(c: &Cx) {
    for (code, text, said) in [
        (
            500,
            "",
            "an error on the server (\"\") has prevented the request from succeeding",
        ),
        (
            502,
            "not now",
            "an error on the server (\"not now\") has prevented the request from succeeding",
        ),
        (503, "not now", "the server is currently unable to handle the request"),
        (403, "not you", "not you"),
        (
            500,
            r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"its own words","code":500}"#,
            "failed to call webhook: its own words",
        ),
        (
            500,
            "{}",
            "an error on the server (\"unknown\") has prevented the request from succeeding",
        ),
        (409, "", "the server reported a conflict"),
        (
            418,
            "",
            "the server responded with the status code 418 but did not return more information",
        ),
        (404, "", "the server could not find the requested resource"),
        (200, "no json", "json parse error"),
    ] {
        let hook = Webhook::raw("localhost", move |_, _| Some((code, text.to_owned()))).await;
        let refused = refusal(c, hook.config("/"), json!({})).await;
        assert!(refused.contains(said), "{code}: {refused}");
    }
}

/// By the Service's name: what it is called must be in the certificate, wherever it is.
pub async fn service(c: Cx) {
    let namespace = c.namespace_called("of-hooks").await;
    let hook = Webhook::raw(
        &format!("hook.{namespace}.svc"),
        reviewed(|_, _| json!({"allowed": false, "status": {"message": "found"}})),
    )
    .await;
    let named = |name: &str| {
        json!({
            "service": {"namespace": namespace, "name": name, "port": hook.port, "path": "/judge"},
            "caBundle": hook.bundle(),
        })
    };
    let services = format!("/api/v1/namespaces/{namespace}/services");
    let it = under(&c, "served", named("hook"), json!({})).await;
    it.map("a")
        .await
        .fails(500, "InternalError")
        .mentions("failed calling webhook \"test.example.com\": failed to call webhook: ")
        .mentions("service \"hook\" not found");
    for name in ["hook", "other"] {
        let spec = json!({"type": "ExternalName", "externalName": "localhost"});
        c.make(
            &services,
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}),
        )
        .await;
    }
    let ask = crate::client::Ask::post(it.maps.as_str(), &crate::cx::config_map("a", json!({})));
    let (reply, _) = c.until_asked(&c.admin, &ask, |it| it.code != 500).await;
    reply.is(400).mentions(": found");
    let asked = hook.take().pop().expect("the webhook was asked");
    assert_eq!(
        (asked.path.as_str(), asked.agent.as_str()),
        ("/judge?timeout=10s", "kube-apiserver-admission")
    );
    let other = under(&c, "other", named("other"), json!({})).await;
    other
        .map("a")
        .await
        .fails(500, "InternalError")
        .mentions("x509: certificate is valid for ")
        .mentions(&format!("not other.{namespace}.svc"));
}
