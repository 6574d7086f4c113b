//! What a client asks an API server for, in the words of RBAC: how a test knows
//! which rights a program makes use of, and which it lacks.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::Value;
use tokio::sync::watch;
use tower::{BoxError, Service};

/// A verb on a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ask {
    /// Empty for the core group.
    pub group: String,
    /// Plural, with a sub-resource as `resource/sub`.
    pub resource: String,
    /// The verb.
    pub verb: String,
}

impl Ask {
    /// From words.
    pub fn new(group: &str, resource: &str, verb: &str) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            verb: verb.to_owned(),
        }
    }

    /// What Kubernetes makes of a request; `None` when it is for no resource, as discovery is.
    pub fn of(method: &Method, path: &str, query: &str) -> Option<Self> {
        let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let group = match parts.first().copied() {
            Some("api") => {
                parts.drain(..parts.len().min(2));
                ""
            }
            Some("apis") => {
                let group = parts.get(1).copied().unwrap_or_default();
                parts.drain(..parts.len().min(3));
                group
            }
            _ => return None,
        };
        // A namespace itself, and its two sub-resources, are not in a namespace.
        if let ["namespaces", _, rest @ ..] = parts.as_slice()
            && !matches!(rest, [] | ["status" | "finalize"])
        {
            parts.drain(..2);
        }
        let (resource, name) = (parts.first()?, parts.get(1));
        let watches = query
            .split('&')
            .any(|it| matches!(it.split_once('='), Some(("watch", value)) if value != "false" && value != "0"));
        let verb = match (method.as_str(), name) {
            ("GET" | "HEAD", Some(_)) => "get",
            ("GET" | "HEAD", None) if watches => "watch",
            ("GET" | "HEAD", None) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", Some(_)) => "delete",
            ("DELETE", None) => "deletecollection",
            _ => return None,
        };
        let resource = match parts.get(2..).unwrap_or_default() {
            [] => (*resource).to_owned(),
            sub => format!("{resource}/{}", sub.join("/")),
        };
        Some(Self::new(group, &resource, verb))
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, resource, verb } = self;
        match group.as_str() {
            "" => write!(f, "{verb} {resource}"),
            group => write!(f, "{verb} {resource} of {group}"),
        }
    }
}

/// All that was asked so far, and what of it was refused, with the server's words.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// Whether allowed or not.
    pub asked: BTreeSet<Ask>,
    /// Answered with 403.
    pub refused: BTreeMap<Ask, BTreeSet<String>>,
}

/// Listens to clients. Cloning shares it.
#[derive(Clone, Default)]
pub struct Asked {
    heard: Arc<watch::Sender<Heard>>,
}

impl Asked {
    /// The client, listened to.
    pub fn over(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let asked = self.clone();
        Client::new(Listening { asked, client }, namespace)
    }

    /// What was heard so far.
    pub fn heard(&self) -> Heard {
        self.heard.borrow().clone()
    }

    /// To wait for something to be heard.
    pub fn changes(&self) -> watch::Receiver<Heard> {
        self.heard.subscribe()
    }

    /// Hears of something that is asked behind a request, such as by a webhook.
    pub fn hear(&self, ask: Ask) {
        self.heard.send_if_modified(|it| it.asked.insert(ask));
    }

    fn refuse(&self, ask: Ask, words: String) {
        self.heard
            .send_if_modified(|it| it.refused.entry(ask).or_default().insert(words));
    }
}

/// A client that tells what it is asked.
#[derive(Clone)]
struct Listening {
    asked: Asked,
    client: Client,
}

impl Service<Request<Body>> for Listening {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { asked, client } = self.clone();
        Box::pin(async move {
            let uri = request.uri();
            let Some(ask) = Ask::of(request.method(), uri.path(), uri.query().unwrap_or_default()) else {
                return Ok(client.send(request).await?);
            };
            asked.hear(ask.clone());
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            blocked_owners(&body).into_iter().for_each(|it| asked.hear(it));
            let response = client.send(Request::from_parts(head, Body::from(body))).await?;
            if response.status() != StatusCode::FORBIDDEN {
                return Ok(response);
            }
            let (head, body) = response.into_parts();
            let body = body.collect().await?.to_bytes();
            let status: Value = serde_json::from_slice(&body).unwrap_or_default();
            asked.refuse(ask, status["message"].as_str().unwrap_or_default().to_owned());
            Ok(Response::from_parts(head, Body::from(body)))
        })
    }
}

/// The right that OwnerReferencesPermissionEnforcement asks for beside: who says that an owner waits for what it owns
/// may change the owner's finalizers.
fn blocked_owners(body: &Bytes) -> Vec<Ask> {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners
        .into_iter()
        .flatten()
        .filter(|it| it["blockOwnerDeletion"] == true)
        .map(|it| {
            let text = |field: &str| it[field].as_str().unwrap_or_default().to_lowercase();
            let api_version = text("apiVersion");
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            Ask::new(group, &format!("{}s/finalizers", text("kind")), "update")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(method: Method, path: &str, query: &str) -> String {
        Ask::of(&method, path, query).map_or_else(|| "nothing".to_owned(), |it| it.to_string())
    }

    #[test]
    fn a_request_is_what_kubernetes_makes_of_it() {
        let all = "/api/v1/namespaces/a/secrets";
        assert_eq!(said(Method::GET, all, ""), "list secrets");
        assert_eq!(said(Method::GET, all, "limit=500&watch=true"), "watch secrets");
        assert_eq!(said(Method::GET, all, "watch=false"), "list secrets");
        assert_eq!(said(Method::DELETE, all, ""), "deletecollection secrets");
        assert_eq!(said(Method::POST, all, ""), "create secrets");
        let one = "/apis/apps/v1/namespaces/a/deployments/b";
        assert_eq!(said(Method::GET, one, "watch=1"), "get deployments of apps");
        assert_eq!(said(Method::PUT, one, ""), "update deployments of apps");
        assert_eq!(said(Method::DELETE, one, ""), "delete deployments of apps");
        let status = format!("{one}/status");
        assert_eq!(said(Method::PATCH, &status, ""), "patch deployments/status of apps");
        assert_eq!(said(Method::GET, "/api/v1/namespaces/a", ""), "get namespaces");
        assert_eq!(said(Method::GET, "/api/v1/namespaces", ""), "list namespaces");
        assert_eq!(
            said(Method::PUT, "/api/v1/namespaces/a/finalize", ""),
            "update namespaces/finalize"
        );
        for path in ["/version", "/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/livez"] {
            assert_eq!(said(Method::GET, path, ""), "nothing", "{path}");
        }
    }

    #[test]
    fn blocking_an_owner_requires_permission_on_its_finalizers() {
        let body = Bytes::from_static(
            br#"{"metadata": {"ownerReferences": [
                {"apiVersion": "a.b/v1", "kind": "Thing", "blockOwnerDeletion": true}, {"apiVersion": "v1", "kind": "Pod"}
            ]}}"#,
        );
        let asks: Vec<_> = blocked_owners(&body).iter().map(ToString::to_string).collect();
        assert_eq!(asks, ["update things/finalizers of a.b"]);
    }
}
