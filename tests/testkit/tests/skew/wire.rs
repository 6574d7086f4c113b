//! Writes down what is asked of an API server: over TLS by whoever connects to a tap, and in the process by a spy.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use jiff::Timestamp;
use kube::Client;
use kube_api::{Server, authn::Authenticator, identity::User, listen, tls};
use serde_json::{Value, json};
use testkit::Site;
use tokio::net::TcpListener;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// One request, and how it was answered.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub user: String,
    pub method: String,
    pub path: String,
    pub query: String,
    pub content_type: String,
    pub body: Value,
    /// 0 until there is an answer.
    pub code: u16,
    /// The name that the server gave to what was created.
    pub name: String,
}

/// All requests, in the order in which they came: what follows from a write comes after it.
#[derive(Clone, Default)]
pub struct Wire(Arc<Mutex<Vec<Exchange>>>);

impl Wire {
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.0.lock().unwrap().clone()
    }

    async fn answer<B>(&self, server: &Server, user: User, request: Request<B>) -> Answer
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: std::fmt::Debug,
    {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(|it| it.to_bytes()).unwrap_or_default();
        let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let place = {
            let mut all = self.0.lock().unwrap();
            all.push(Exchange {
                user: user.username.clone(),
                method: parts.method.to_string(),
                path: parts.uri.path().to_owned(),
                query: parts.uri.query().unwrap_or_default().to_owned(),
                content_type: content_type.unwrap_or_default().to_owned(),
                body: serde_json::from_slice(&body).unwrap_or_default(),
                code: 0,
                name: String::new(),
            });
            all.len() - 1
        };
        let reads = parts.method == http::Method::GET;
        let answer = server.answer(Request::from_parts(parts, Full::new(body)), user).await;
        let (head, body) = answer.into_parts();
        let mut name = String::new();
        let body = if reads {
            UnsyncBoxBody::new(body)
        } else {
            let bytes = body.collect().await.map(|it| it.to_bytes()).unwrap_or_default();
            let object: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            UnsyncBoxBody::new(Full::new(bytes))
        };
        let mut all = self.0.lock().unwrap();
        all[place].code = head.status.as_u16();
        all[place].name = name;
        Response::from_parts(head, body)
    }

    /// A client in the process whose requests are written down.
    pub fn spy(&self, site: &Site, user: User) -> Client {
        let spy = Spy {
            wire: self.clone(),
            server: site.server.clone(),
            user,
        };
        Client::new(spy, "default")
    }

    /// A second address of the site, whose requests are written down.
    pub async fn tap(&self, site: &Site) -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (server, wire) = (site.server.clone(), self.clone());
        let config = Arc::new(ArcSwap::new(tls::server_config(server.pki(), &[]).unwrap()));
        let authenticator = Authenticator::new(server.store().clone(), server.pki().clone()).unwrap();
        let authenticator = Arc::new(authenticator);
        let stop = server.stopping().clone();
        let serving = listen::serve(
            listener,
            config,
            move |request, peer| {
                let user = authenticator.authenticate(request.headers(), peer.as_deref(), Timestamp::now());
                let (server, wire) = (server.clone(), wire.clone());
                async move {
                    match user {
                        Ok(user) => wire.answer(&server, user, request).await,
                        Err(_) => unauthorized(),
                    }
                }
            },
            stop,
        );
        tokio::spawn(serving);
        address
    }
}

fn unauthorized() -> Answer {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Unauthorized", "code": 401,
        "message": "Unauthorized",
    });
    let body = UnsyncBoxBody::new(Full::new(Bytes::from(status.to_string())));
    let answer = Response::builder()
        .status(401)
        .header(header::CONTENT_TYPE, "application/json");
    answer.body(body).unwrap()
}

#[derive(Clone)]
struct Spy {
    wire: Wire,
    server: Server,
    user: User,
}

impl tower::Service<Request<kube::client::Body>> for Spy {
    type Response = Answer;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Answer, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let it = self.clone();
        Box::pin(async move { Ok(it.wire.answer(&it.server, it.user, request).await) })
    }
}
