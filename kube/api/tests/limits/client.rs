//! A server on loopback and clients that hold back their bodies.

use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    client::conn::http2,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube_api::{Options, Server, identity::MASTERS};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use std::{convert::Infallible, net::SocketAddr, sync::Arc};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsConnector;

pub const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

pub struct World {
    pub server: Server,
    listening: Option<JoinHandle<()>>,
    address: SocketAddr,
}

impl World {
    pub async fn start(options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::open(options).await.unwrap();
        let listening = server.listen(listener).unwrap();
        Self {
            server,
            listening: Some(listening),
            address,
        }
    }

    /// One connection of an administrator.
    pub async fn client(&self, user: &str) -> Client {
        self.client_in(user, &[MASTERS]).await
    }

    /// One connection of a user with a certificate, in these groups.
    pub async fn client_in(&self, user: &str, groups: &[&str]) -> Client {
        let pki = self.server.pki();
        let pair = pki
            .issue_client_certificate(user, groups, 3600, jiff::Timestamp::now())
            .unwrap();
        let certificate = CertificateDer::from_pem_slice(pair.certificate_pem.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes()).unwrap();
        self.connect(Some((certificate, key)), None).await
    }

    /// One connection of whoever holds a token.
    pub async fn client_with(&self, token: &str) -> Client {
        self.connect(None, Some(token.into())).await
    }

    /// Lets somebody do everything with some resources in all namespaces.
    pub async fn allow(&self, name: &str, subject: Value, resources: &[&str]) {
        let local = self.server.local();
        let rules = json!([{"apiGroups": ["*"], "resources": resources, "verbs": ["*"]}]);
        let role = json!({"metadata": {"name": name}, "rules": rules});
        local
            .create("clusterroles.rbac.authorization.k8s.io", "", role)
            .await
            .unwrap();
        let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let binding = json!({"metadata": {"name": name}, "roleRef": role_ref, "subjects": [subject]});
        local
            .create("clusterrolebindings.rbac.authorization.k8s.io", "", binding)
            .await
            .unwrap();
    }

    async fn connect(
        &self,
        certificate: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
        token: Option<Arc<str>>,
    ) -> Client {
        let pki = self.server.pki();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(pki.ca_pem().as_bytes()).unwrap())
            .unwrap();
        let config = ClientConfig::builder_with_provider(kube_api::tls::provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match certificate {
            Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("kubernetes.default.svc").unwrap();
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .unwrap();
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        Client {
            sender,
            token,
            impersonated: None,
        }
    }

    /// What it takes to stop the server.
    pub fn take(&mut self) -> (Server, JoinHandle<()>) {
        (self.server.clone(), self.listening.take().unwrap())
    }

    pub async fn stop(mut self) {
        let (server, listening) = self.take();
        server.stop(Some(listening)).await;
    }

    /// Whether new connections are taken.
    pub async fn is_listening(&self) -> bool {
        TcpStream::connect(self.address).await.is_ok()
    }
}

type Body = BoxBody<Bytes, Infallible>;

#[derive(Clone)]
pub struct Client {
    sender: http2::SendRequest<Body>,
    token: Option<Arc<str>>,
    /// In whose name it asks, if not in its own.
    pub impersonated: Option<String>,
}

/// The rest of a request's body. Dropping it ends the body.
pub type Rest = UnboundedSender<Result<Frame<Bytes>, Infallible>>;

impl Client {
    /// Sends a request whose body comes later.
    pub fn begin(&self, method: Method, path: &str) -> (Rest, JoinHandle<hyper::Result<Response<Incoming>>>) {
        let (rest, body) = unbounded();
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://kubernetes.default.svc{path}"))
            .header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(user) = &self.impersonated {
            request = request.header("impersonate-user", user);
        }
        let request = request.body(BoxBody::new(StreamBody::new(body))).unwrap();
        let mut sender = self.sender.clone();
        let answered = tokio::spawn(async move {
            sender.ready().await?;
            sender.send_request(request).await
        });
        (rest, answered)
    }

    pub async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Response<Incoming> {
        let (rest, answered) = self.begin(method, path);
        if let Some(body) = body {
            send(&rest, &body.to_string());
        }
        drop(rest);
        answered.await.unwrap().unwrap()
    }

    pub async fn get(&self, path: &str) -> Response<Incoming> {
        self.ask(Method::GET, path, None).await
    }

    pub async fn create(&self, name: &str) -> u16 {
        self.ask(Method::POST, CONFIGMAPS, Some(config_map(name)))
            .await
            .status()
            .as_u16()
    }
}

pub fn send(rest: &Rest, text: &str) {
    rest.unbounded_send(Ok(Frame::data(Bytes::from(text.to_owned()))))
        .unwrap();
}

pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

pub async fn text(response: Response<Incoming>) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

/// Lines of a watch, until its end.
pub async fn lines(response: Response<Incoming>) -> Vec<Value> {
    let mut chunks = response.into_body().into_data_stream();
    let mut all = Vec::new();
    while let Some(chunk) = chunks.next().await {
        all.extend_from_slice(&chunk.expect("a watch ends cleanly"));
    }
    let lines = all.split(|it| *it == b'\n').filter(|it| !it.is_empty());
    lines.map(|it| serde_json::from_slice(it).unwrap()).collect()
}

/// A group, as a binding names it.
pub fn group(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name})
}

/// What a page of metrics says of one number.
pub async fn metric(client: &Client, name: &str) -> u64 {
    let page = text(client.get("/metrics").await).await;
    let line = page.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

/// How many of something an attack uses: few, unless it is asked for more.
pub fn size(variable: &str, few: usize) -> usize {
    let asked = std::env::var(variable).ok();
    asked.and_then(|it| it.parse().ok()).unwrap_or(few)
}
