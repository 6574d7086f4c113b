//! `drover addon webhook-server`: converts add-on objects between their versions, for a Kubernetes that is not ours.
//! Upstream: `/addon webhook-server`, whose flags and path these are. The embedded API converts in process and asks nobody.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use arc_swap::ArcSwap;
use bytes::Bytes;
use clap::Args;
use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use ocm_api::addon::conversion;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::process;

/// Serve the conversion of add-on objects to a Kubernetes API server
#[derive(Debug, Args)]
pub struct WebhookServer {
    /// The port to serve the conversion on, over TLS
    #[arg(long, default_value_t = 9443, value_name = "PORT")]
    port: u16,
    /// The address to serve on
    #[arg(long, default_value = "0.0.0.0", value_name = "ADDRESS")]
    bind_address: IpAddr,
    /// The directory with tls.crt and tls.key; they are read again when they change
    #[arg(long, default_value = "/tmp/k8s-webhook-server/serving-certs", value_name = "DIR")]
    certdir: PathBuf,
    /// The port to answer /healthz and /readyz on, without TLS; 0 for none
    #[arg(long, default_value_t = 8000, value_name = "PORT")]
    health_probe_port: u16,
}

/// The API server sends a list of objects in one review, and itself takes requests of up to 3 MiB.
const BODY_BYTES_MAX: usize = 16 << 20;
/// A prober that takes longer to ask is none.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);
/// How often the certificate is looked at. It is renewed days before it expires.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

impl WebhookServer {
    pub async fn run(self) -> Result<()> {
        let stop = CancellationToken::new();
        process::stop_on_signals(stop.clone())?;
        let tls = Arc::new(ArcSwap::from(read(&self.certdir)?));
        let listener = listen(self.bind_address, self.port).await?;
        let address = listener.local_addr()?;
        if self.health_probe_port != 0 {
            let probes = listen(self.bind_address, self.health_probe_port).await?;
            tokio::spawn(answer_probes(probes));
        }
        tokio::spawn(follow(self.certdir, tls.clone(), stop.clone()));
        info!(%address, "converting add-on objects");
        kube_api::listen::serve(listener, tls, |request, _| answer(request), stop).await;
        Ok(())
    }
}

async fn listen(address: IpAddr, port: u16) -> Result<TcpListener> {
    let address = SocketAddr::new(address, port);
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("could not listen on {address}"))
}

/// The server's side of TLS with the certificate in this directory.
fn read(directory: &Path) -> Result<Arc<ServerConfig>> {
    let (certificate, key) = (directory.join("tls.crt"), directory.join("tls.key"));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&certificate)
        .and_then(Iterator::collect)
        .map_err(|error| anyhow!("{} cannot be read: {error}", certificate.display()))?;
    let key =
        PrivateKeyDer::from_pem_file(&key).map_err(|error| anyhow!("{} cannot be read: {error}", key.display()))?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .with_context(|| format!("the certificate and the key in {} do not fit", directory.display()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Takes up a renewed certificate. One that cannot be used leaves the old one in place.
async fn follow(directory: PathBuf, tls: Arc<ArcSwap<ServerConfig>>, stop: CancellationToken) {
    let certificate = directory.join("tls.crt");
    let mut seen = std::fs::read(&certificate).unwrap_or_default();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_AGAIN) => {}
        }
        let now = std::fs::read(&certificate).unwrap_or_default();
        if now == seen {
            continue;
        }
        match read(&directory) {
            Ok(config) => {
                tls.store(config);
                seen = now;
                info!("took up the renewed certificate");
            }
            Err(error) => warn!(%error, "the renewed certificate cannot be used, the old one stays"),
        }
    }
}

/// Answers every request on the probe port with `ok`: a process that answers is healthy, and is ready when it listens.
async fn answer_probes(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let answered = async {
                let mut request = [0; 1024];
                // Whatever it asks, in however many pieces: it is told the same.
                if stream.read(&mut request).await? == 0 {
                    return Ok(());
                }
                let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
                stream.write_all(ok).await
            };
            // Whoever asks and does not listen to the answer is not worth a word.
            let _ = tokio::time::timeout(PROBE_DEADLINE, answered).await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
    match body {
        Ok(body) => convert(&parts.method, parts.uri.path(), &body.to_bytes()),
        Err(error) => says(StatusCode::BAD_REQUEST, &format!("the body could not be read: {error}")),
    }
}

fn convert(method: &Method, path: &str, body: &[u8]) -> Response<Full<Bytes>> {
    if path != "/convert" {
        return says(StatusCode::NOT_FOUND, "the only path here is /convert");
    }
    if method != Method::POST {
        return says(StatusCode::METHOD_NOT_ALLOWED, "a ConversionReview is sent with POST");
    }
    match serde_json::from_slice::<Value>(body) {
        Ok(review) => json_response(StatusCode::OK, &conversion::review(&review)),
        Err(error) => says(
            StatusCode::BAD_REQUEST,
            &format!("the body is no ConversionReview: {error}"),
        ),
    }
}

fn says(status: StatusCode, message: &str) -> Response<Full<Bytes>> {
    let body = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": message, "code": status.as_u16(),
    });
    json_response(status, &body)
}

fn json_response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_review_is_answered_with_the_objects_in_the_version_asked_for() {
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "1", "desiredAPIVersion": "addon.open-cluster-management.io/v1beta1", "objects": [{
                "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
                "metadata": {"name": "a", "namespace": "cluster1"}, "spec": {"installNamespace": "here"},
            }]},
        });
        let answer = convert(&Method::POST, "/convert", review.to_string().as_bytes());
        assert_eq!(answer.status(), StatusCode::OK);
        let body = answer.into_body().collect().await.expect("a body in memory").to_bytes();
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["response"]["result"]["status"], "Success");
        let converted = &body["response"]["convertedObjects"][0];
        assert_eq!(converted["apiVersion"], "addon.open-cluster-management.io/v1beta1");
        assert_eq!(
            converted["metadata"]["annotations"]["addon.open-cluster-management.io/v1alpha1-install-namespace"],
            "here"
        );
    }

    #[test]
    fn what_is_no_review_is_refused_with_a_status() {
        for (method, path, body, status) in [
            (Method::GET, "/convert", "", StatusCode::METHOD_NOT_ALLOWED),
            (Method::POST, "/other", "{}", StatusCode::NOT_FOUND),
            (Method::POST, "/convert", "{", StatusCode::BAD_REQUEST),
        ] {
            assert_eq!(
                convert(&method, path, body.as_bytes()).status(),
                status,
                "{method} {path} {body}"
            );
        }
    }

    #[test]
    fn a_directory_without_a_certificate_is_named() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let error = read(directory.path()).expect_err("there is nothing").to_string();
        assert!(error.contains("tls.crt cannot be read"), "{error}");
    }
}
