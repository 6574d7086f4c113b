//! Pages for probes and for Prometheus, over plain HTTP as add-ons serve them: `/healthz`, `/readyz`, `/metrics`.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use http::{Method, Request, Response, StatusCode};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Whether something is as it should be; otherwise why it is not.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// A request that has not come whole by then is given up.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// More connections wait until one of these has ended.
const CONNECTIONS_MAX: usize = 64;

/// What is served on one address.
#[derive(Clone, Default)]
pub struct Pages {
    healthy: Option<Check>,
    ready: Option<Check>,
    metrics: bool,
}

/// Where metrics and probes are served, as flags of upstream's programs say it: `HOST:PORT`, or `0` for nowhere.
#[derive(Clone, Copy, Debug)]
pub struct PageAddresses<'a> {
    /// `--metrics-bind-address`.
    pub metrics: &'a str,
    /// `--secure-metrics`: metrics are to be served with TLS only, so none are.
    pub secure_metrics: bool,
    /// `--health-probe-bind-address`.
    pub probes: &'a str,
}

impl PageAddresses<'_> {
    /// Serves metrics, and these pages for probes, until `stop`.
    ///
    /// # Errors
    /// When an address cannot be read, or is taken; the flag is named.
    pub async fn serve(self, probes: Pages, stop: &CancellationToken) -> Result<()> {
        let address = |text: &str| super::address(text).map_err(anyhow::Error::msg);
        if self.secure_metrics {
            // Not without, either: who asked for it would not want everybody to read them.
            warn!("--secure-metrics: metrics are served without TLS alone, so none are");
        } else if self.metrics != "0" {
            let metrics = address(self.metrics).context("--metrics-bind-address")?;
            Pages::new().metrics().serve(metrics, stop).await?;
        }
        if self.probes != "0" {
            let address = address(self.probes).context("--health-probe-bind-address")?;
            probes.serve(address, stop).await?;
        }
        Ok(())
    }
}

impl Pages {
    /// Without any page.
    pub fn new() -> Self {
        Self::default()
    }

    /// With `/healthz` and `/livez`.
    pub fn healthy(mut self, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.healthy = Some(Arc::new(check));
        self
    }

    /// With `/readyz`.
    pub fn ready(mut self, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.ready = Some(Arc::new(check));
        self
    }

    /// With `/metrics`, which tells how often the reconcilers of the process have run.
    pub fn metrics(mut self) -> Self {
        self.metrics = true;
        self
    }

    /// Serves them in a task of its own until `stop`; returns the address.
    ///
    /// # Errors
    /// When the address is taken.
    pub async fn serve(self, address: SocketAddr, stop: &CancellationToken) -> Result<SocketAddr> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("could not listen on {address}"))?;
        let address = listener.local_addr()?;
        info!(%address, "pages for probes");
        let stop = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = self.accept(listener) => {}
                () = stop.cancelled() => {}
            }
        });
        Ok(address)
    }

    async fn accept(self, listener: TcpListener) {
        let pages = Arc::new(self);
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(permit) = room.clone().acquire_owned().await else {
                return;
            };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    // Mostly there are too many open files, which takes a while to change.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let pages = pages.clone();
            tokio::spawn(async move {
                let answer = service_fn(|request| {
                    let answer = pages.answer(&request);
                    async { Ok::<_, Infallible>(answer) }
                });
                let mut server = http1::Builder::new();
                server.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
                // A caller that goes away is no fault of ours.
                let _ = server.serve_connection(TokioIo::new(stream), answer).await;
                drop(permit);
            });
        }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<String> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served\n".to_owned());
        }
        let (check, otherwise) = match request.uri().path() {
            "/healthz" | "/healthz/" | "/livez" => (&self.healthy, StatusCode::INTERNAL_SERVER_ERROR),
            "/readyz" | "/readyz/" | "/ready" => (&self.ready, StatusCode::SERVICE_UNAVAILABLE),
            "/metrics" if self.metrics => return text(StatusCode::OK, ocm_reconcile::metrics::text()),
            _ => (&None, StatusCode::NOT_FOUND),
        };
        match check.as_ref().map(|it| it()) {
            Some(Ok(())) => text(StatusCode::OK, "ok".to_owned()),
            Some(Err(why)) => text(otherwise, format!("{why}\n")),
            None => text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        }
    }
}

fn text(status: StatusCode, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        format!("{} {}", head.split(' ').nth(1).unwrap(), body.trim())
    }

    #[tokio::test]
    async fn a_page_says_why_a_program_is_not_ready() {
        let ready = Arc::new(AtomicBool::new(false));
        let of_page = ready.clone();
        let pages = Pages::new().healthy(|| Ok(())).ready(move || {
            let is_ready = of_page.load(Ordering::Relaxed);
            is_ready.then_some(()).ok_or_else(|| "no tunnel".to_owned())
        });
        let stop = CancellationToken::new();
        let address = pages.serve("127.0.0.1:0".parse().unwrap(), &stop).await.unwrap();
        assert_eq!(get(address, "/healthz").await, "200 ok");
        assert_eq!(get(address, "/readyz").await, "503 no tunnel");
        ready.store(true, Ordering::Relaxed);
        assert_eq!(get(address, "/readyz").await, "200 ok");
        assert_eq!(get(address, "/metrics").await, "404 404 page not found");
        stop.cancel();
    }
}
