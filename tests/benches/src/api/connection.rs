//! A client that costs little: HTTP/2 over TLS, bytes in and bytes out.

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use std::{path::Path, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// More than a list's bytes on the way, so that the windows are not what is measured.
const WINDOW_BYTES: u32 = 4 << 20;

/// Where a server is, and what opens it.
#[derive(Clone)]
pub struct Door {
    address: String,
    connector: TlsConnector,
}

/// A value of a kubeconfig that `drover` has written: one line each.
fn line<'a>(text: &'a str, key: &str) -> Result<&'a str> {
    let found = text
        .lines()
        .find_map(|it| it.trim().trim_start_matches("- ").strip_prefix(key));
    Ok(found
        .with_context(|| format!("the kubeconfig has no {key}"))?
        .trim()
        .trim_matches('"'))
}

fn pem(text: &str, key: &str) -> Result<Vec<u8>> {
    use base64::{Engine, prelude::BASE64_STANDARD};
    Ok(BASE64_STANDARD.decode(line(text, key)?)?)
}

impl Door {
    /// The door that a kubeconfig opens.
    pub fn read(kubeconfig: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(kubeconfig)?;
        let address = line(&text, "server:")?.trim_start_matches("https://").to_owned();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&pem(
            &text,
            "certificate-authority-data:",
        )?)?)?;
        let certificate = CertificateDer::from_pem_slice(&pem(&text, "client-certificate-data:")?)?;
        let key = PrivateKeyDer::from_pem_slice(&pem(&text, "client-key-data:")?)?;
        let mut config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            address,
            connector: TlsConnector::from(Arc::new(config)),
        })
    }

    /// A new connection.
    pub async fn open(&self) -> Result<Connection> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("kubernetes.default.svc")?;
        let stream = self.connector.connect(name, stream).await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(4 * WINDOW_BYTES)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(connection);
        Ok(Connection { sender })
    }
}

/// One connection; clones share it.
#[derive(Clone)]
pub struct Connection {
    sender: http2::SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Sends a request and returns as soon as the answer begins.
    pub async fn begin(
        &mut self,
        method: Method,
        path: &str,
        media: Option<&str>,
        body: impl Into<Bytes>,
    ) -> Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://kubernetes.default.svc{path}"));
        if let Some(media) = media {
            request = request.header("content-type", media);
        }
        let request = request.body(Full::new(body.into()))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request and reads the whole answer: its code and itself.
    pub async fn read(
        &mut self,
        method: Method,
        path: &str,
        media: Option<&str>,
        body: impl Into<Bytes>,
    ) -> Result<(u16, Bytes)> {
        let response = self.begin(method, path, media, body).await?;
        let code = response.status().as_u16();
        Ok((code, response.into_body().collect().await?.to_bytes()))
    }

    /// Sends a request and reads the whole answer: its code and how long it is.
    pub async fn ask(
        &mut self,
        method: Method,
        path: &str,
        media: Option<&str>,
        body: impl Into<Bytes>,
    ) -> Result<(u16, usize)> {
        let response = self.begin(method, path, media, body).await?;
        let code = response.status().as_u16();
        let mut body = response.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok((code, bytes))
    }
}
