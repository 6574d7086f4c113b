//! An API server, and requests to it.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use kube_api::{
    Options, Server,
    identity::{AUTHENTICATED, MASTERS, User},
};
use serde_json::{Value, json};

pub struct World {
    pub server: Server,
}

/// What a request was answered.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
}

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

impl World {
    pub async fn new() -> Self {
        Self {
            server: Server::open(Options::default()).await.unwrap(),
        }
    }

    pub async fn ask(&self, method: Method, path: &str, media: &str, body: &Value) -> Answer {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, media)
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let user = User::new("admin", &[MASTERS, AUTHENTICATED]);
        let response = self.server.answer(request, user).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Answer { code, body }
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::POST, path, JSON, body).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path, JSON, &Value::Null).await
    }

    /// Posts what has to be accepted.
    pub async fn ok(&self, path: &str, body: &Value) -> Value {
        let answer = self.post(path, body).await;
        assert!(answer.code < 300, "{answer:?}");
        answer.body
    }

    /// A ConfigMap with one entry.
    pub async fn map(&self, name: &str) -> Answer {
        self.post(MAPS, &map(name)).await
    }
}

pub fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

/// Rules for every write to these resources of the core group.
pub fn rules(resources: &[&str]) -> Value {
    json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}])
}

/// A webhook `<name>.ex.io` of every write to ConfigMaps; `more` says what differs.
pub fn webhook(name: &str, config: Value, more: Value) -> Value {
    let mut it = json!({
        "name": format!("{name}.ex.io"), "clientConfig": config, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": rules(&["configmaps"]),
    });
    for (key, value) in more.as_object().unwrap() {
        it[key] = value.clone();
    }
    it
}

/// A configuration of webhooks.
pub fn configuration(kind: &str, name: &str, webhooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"), "metadata": {"name": name},
        "webhooks": webhooks,
    })
}
