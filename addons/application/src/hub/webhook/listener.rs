//! Hears events of Git servers, on `/webhook`.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::{body::Body, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::Secret,
    kube::{Api, Client, ResourceExt},
    ocm_api::apps::{Channel, annotations},
    reconcile::{Caches, cache::key_of, segment::encoded},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    super::world::SubscriptionWorld,
    event::{WebhookRefusal, event},
    pending::PendingEvents,
    tls::WebhookTls,
};

/// Where events go.
const PATH: &str = "/webhook";
/// The key of the secret in a Secret.
const SECRET_KEY: &str = "secret";
/// A larger body is refused. Servers send less, but for pushes of very many commits.
const BODY_MAX: usize = 4 * 1024 * 1024;
/// So many connections are served at a time.
const CONNECTIONS_MAX: usize = 64;
/// A TLS handshake that takes longer is given up.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// A connection that takes longer is given up.
const CONNECTION_MAX: Duration = Duration::from_secs(60);

/// Who answers events. Cloning shares it.
#[derive(Clone)]
pub struct WebhookListener {
    world: SubscriptionWorld,
    client: Option<Client>,
    events: PendingEvents,
}

impl WebhookListener {
    /// Over these caches. Events are counted by whoever was given the same `events`.
    pub fn new(caches: &Caches, events: PendingEvents) -> Self {
        Self {
            world: SubscriptionWorld::new(caches),
            client: caches.client().cloned(),
            events,
        }
    }

    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<String>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if request.uri().path() != PATH {
            return text(StatusCode::NOT_FOUND, "404 page not found\n");
        }
        if request.method() != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only POST is served\n");
        }
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, BODY_MAX).collect().await else {
            return text(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the payload cannot be read, or is too large\n",
            );
        };
        let body = body.to_bytes();
        let event = match event(&head.headers, &body) {
            Ok(Some(event)) => event,
            Ok(None) => return text(StatusCode::OK, ""),
            Err(WebhookRefusal::Unsupported) => {
                return text(StatusCode::BAD_REQUEST, "Unsupported webhook event type.");
            }
            Err(WebhookRefusal::Unreadable(why)) => return text(StatusCode::BAD_REQUEST, &why),
        };
        let channels = self.world.channels.list();
        let concerned = channels.iter().filter(|it| event.concerns(it));
        let (mut proven, mut unproven) = (0_usize, 0_usize);
        for channel in concerned {
            let is_proven = match self.secret(channel).await {
                Ok(secret) => event.is_proven(&body, secret.as_deref()),
                Err(()) => false,
            };
            if !is_proven {
                unproven += 1;
                continue;
            }
            proven += 1;
            let key = key_of(&**channel);
            info!(channel = %key, "a Git server has told of a change");
            for subscription in self.world.subscriptions_of_channel(&key) {
                self.events.add(&subscription);
            }
        }
        if proven == 0 && unproven > 0 {
            return text(
                StatusCode::UNAUTHORIZED,
                "the event is not proven with the secret of the channel\n",
            );
        }
        text(StatusCode::OK, "")
    }

    /// The secret that a Channel names, if it does.
    async fn secret(&self, channel: &Channel) -> Result<Option<Vec<u8>>, ()> {
        let name = channel.annotations().get(annotations::WEBHOOK_SECRET);
        let Some(name) = name.filter(|it| !it.is_empty()) else {
            return Ok(None);
        };
        let client = self.client.clone().ok_or(())?;
        let api: Api<Secret> = Api::namespaced(client, &encoded(&channel.namespace().unwrap_or_default()));
        let secret = match api.get(&encoded(name)).await {
            Ok(secret) => secret,
            Err(error) => {
                warn!(channel = %key_of(channel), %error, "the Secret of webhooks could not be read");
                return Err(());
            }
        };
        let value = secret.data.and_then(|mut it| it.remove(SECRET_KEY));
        Ok(Some(plain(&value.ok_or(())?.0)))
    }
}

/// Upstream reads the value as YAML, so that blanks and quotes around it do not count.
fn plain(value: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(value).ok();
    let read = text.and_then(|it| serde_saphyr::from_str::<String>(it).ok());
    read.map_or_else(|| value.trim_ascii().to_vec(), String::into_bytes)
}

fn text(status: StatusCode, body: &str) -> Response<String> {
    let mut response = Response::new(body.to_owned());
    *response.status_mut() = status;
    response
}

/// Listens until `stop`, in tasks of its own, and returns where. Without `tls` whoever is on the way can read along.
///
/// # Errors
/// When nobody can listen there.
pub async fn serve(
    address: SocketAddr,
    tls: Option<WebhookTls>,
    listener: WebhookListener,
    stop: &CancellationToken,
) -> io::Result<SocketAddr> {
    let socket = TcpListener::bind(address).await?;
    let bound = socket.local_addr()?;
    tokio::spawn(serve_on(socket, tls, listener, stop.clone()));
    Ok(bound)
}

/// Answers whoever comes to this socket, until `stop`.
pub async fn serve_on(
    socket: TcpListener,
    tls: Option<WebhookTls>,
    listener: WebhookListener,
    stop: CancellationToken,
) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = accept(socket, tls, listener) => {}
    }
}

async fn accept(socket: TcpListener, tls: Option<WebhookTls>, listener: WebhookListener) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else {
            return;
        };
        let stream = match socket.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "a connection could not be accepted");
                // Mostly there are too many open files, which takes a while to change.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (tls, listener) = (tls.as_ref().map(|it| it()), listener.clone());
        tokio::spawn(async move {
            let whole = tokio::time::timeout(CONNECTION_MAX, connection(stream, tls, listener));
            if whole.await.is_err() {
                debug!("a connection took too long");
            }
            drop(permit);
        });
    }
}

async fn connection(stream: TcpStream, tls: Option<Arc<ServerConfig>>, listener: WebhookListener) {
    let Some(tls) = tls else {
        return answers(stream, listener).await;
    };
    let accepting = tokio::time::timeout(HANDSHAKE_MAX, TlsAcceptor::from(tls).accept(stream));
    if let Ok(Ok(stream)) = accepting.await {
        answers(stream, listener).await;
    }
}

async fn answers(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, listener: WebhookListener) {
    let answer = service_fn(|request| {
        let listener = listener.clone();
        async move { Ok::<_, Infallible>(listener.answer(request).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_MAX);
    // A caller that goes away is no fault of ours.
    let _ = server.serve_connection(TokioIo::new(stream), answer).await;
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use serde_json::json;

    use super::*;

    fn listener() -> WebhookListener {
        let caches = Caches::unfed();
        let listener = WebhookListener::new(&caches, PendingEvents::default());
        let annotations = json!({annotations::WEBHOOK_ENABLED: "true"});
        let channel = json!({
            "metadata": {"name": "c", "namespace": "ch", "annotations": annotations},
            "spec": {"type": "Git", "pathname": "https://gitlab.com/org/app.git"},
        });
        listener.world.channels.fill([serde_json::from_value(channel).unwrap()]);
        listener
    }

    async fn answered(listener: &WebhookListener, method: Method, path: &str, body: Vec<u8>) -> u16 {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("X-Gitlab-Event", "Push Hook");
        let request = request.body(Full::new(hyper::body::Bytes::from(body))).unwrap();
        listener.answer(request).await.status().as_u16()
    }

    #[tokio::test]
    async fn only_events_are_answered() {
        let listener = listener();
        let body = || {
            json!({"repository": {"homepage": "https://gitlab.com/org/app"}})
                .to_string()
                .into_bytes()
        };
        assert_eq!(answered(&listener, Method::POST, PATH, body()).await, 200);
        assert_eq!(answered(&listener, Method::GET, PATH, body()).await, 405);
        assert_eq!(answered(&listener, Method::POST, "/other", body()).await, 404);
        assert_eq!(
            answered(&listener, Method::POST, PATH, vec![b' '; BODY_MAX + 1]).await,
            413
        );
        assert_eq!(answered(&listener, Method::POST, PATH, b"{".to_vec()).await, 400);
    }

    #[tokio::test]
    async fn a_secret_that_nobody_can_read_proves_nothing() {
        let listener = listener();
        let mut channel = (*listener.world.channels.list()[0]).clone();
        let all = channel.metadata.annotations.get_or_insert_default();
        all.insert(annotations::WEBHOOK_SECRET.to_owned(), "missing".to_owned());
        listener.world.channels.fill([channel]);
        let body = json!({"repository": {"homepage": "https://gitlab.com/org/app"}}).to_string();
        assert_eq!(answered(&listener, Method::POST, PATH, body.into_bytes()).await, 401);
    }

    #[test]
    fn blanks_and_quotes_around_a_secret_do_not_count() {
        assert_eq!(plain(b"abc\n"), b"abc");
        assert_eq!(plain(b"\"a b\""), b"a b");
        assert_eq!(plain(b"123\n"), b"123");
    }
}
