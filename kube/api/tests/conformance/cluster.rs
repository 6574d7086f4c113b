//! The API server that is asked: the embedded one of this process, or that of a kubeconfig.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube_api::{Options, Server, tls};
use rustls::{
    ClientConfig, RootCertStore,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use serde_json::Value;
use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::{net::TcpListener, task::JoinHandle};

/// Where a server is and who its administrator is.
#[derive(Clone)]
pub struct Target {
    pub host: String,
    pub port: u16,
    /// PEM of the authorities that its certificate may come from; `None` trusts any.
    pub authorities: Option<String>,
    pub admin: Credential,
}

/// How a client shows who it is on its connection and in its requests.
#[derive(Clone, Debug, Default)]
pub struct Credential {
    /// Certificates and key, as PEM.
    pub pair: Option<(String, String)>,
    pub token: Option<String>,
}

impl Credential {
    pub fn token(token: &str) -> Self {
        Self {
            token: Some(token.to_owned()),
            pair: None,
        }
    }

    pub fn pair(certificate: &str, key: &str) -> Self {
        Self {
            pair: Some((certificate.to_owned(), key.to_owned())),
            token: None,
        }
    }
}

/// An embedded server with data on disk, and what it takes to stop and start it again.
pub struct Embedded {
    pub server: Server,
    pub target: Target,
    listening: JoinHandle<()>,
    pub dir: Arc<TempDir>,
}

impl Embedded {
    /// Starts one on an empty directory.
    pub async fn start() -> Self {
        Self::open(Arc::new(TempDir::new().unwrap()), None).await
    }

    /// Starts one on what another left, at its address.
    pub async fn open(dir: Arc<TempDir>, address: Option<SocketAddr>) -> Self {
        let address = address.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let options = Options {
            data_dir: Some(dir.path().join("data")),
            address: Some(address),
            // Long enough to be seen.
            shutdown_delay: Duration::from_millis(300),
            ..Options::default()
        };
        let server = Server::open(options).await.unwrap();
        let listening = server.listen(listener).unwrap();
        let pki = server.pki();
        let now = jiff::Timestamp::now();
        let admin = pki
            .issue_client_certificate("admin", &["system:masters"], 86400, now)
            .unwrap();
        let target = Target {
            host: "127.0.0.1".into(),
            port: address.port(),
            authorities: Some(pki.ca_pem().to_owned()),
            admin: Credential::pair(&admin.certificate_pem, &admin.key_pem),
        };
        Self {
            server,
            target,
            listening,
            dir,
        }
    }

    pub async fn stop(self) -> Arc<TempDir> {
        self.server.stop(Some(self.listening)).await;
        self.dir
    }

    pub async fn restart(self) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], self.target.port));
        let dir = self.stop().await;
        Self::open(dir, Some(address)).await
    }
}

/// The kubeconfig's current context.
pub fn read_kubeconfig(path: &Path) -> Target {
    let text = std::fs::read_to_string(path).unwrap_or_else(|it| panic!("{}: {it}", path.display()));
    let config: Value = serde_saphyr::from_str(&text).expect("a kubeconfig");
    let named = |list: &str, name: &Value, what: &str| -> Value {
        let items = config[list].as_array().cloned().unwrap_or_default();
        let found = items.into_iter().find(|it| it["name"] == *name);
        found.unwrap_or_else(|| panic!("the kubeconfig has no {what} {name}"))[what].clone()
    };
    let context = named("contexts", &config["current-context"], "context");
    let cluster = named("clusters", &context["cluster"], "cluster");
    let user = named("users", &context["user"], "user");
    let server = url::Url::parse(cluster["server"].as_str().expect("a server")).expect("an address");
    let pem = |value: &Value, key: &str| -> Option<String> {
        if let Some(data) = value[format!("{key}-data")].as_str() {
            return Some(String::from_utf8(STANDARD.decode(data).expect("base64")).expect("PEM"));
        }
        let file = path.parent().unwrap().join(value[key].as_str()?);
        Some(std::fs::read_to_string(&file).unwrap_or_else(|it| panic!("{}: {it}", file.display())))
    };
    Target {
        host: server.host_str().expect("a host").to_owned(),
        port: server.port_or_known_default().expect("a port"),
        authorities: pem(&cluster, "certificate-authority"),
        admin: Credential {
            pair: pem(&user, "client-certificate").zip(pem(&user, "client-key")),
            token: user["token"].as_str().map(str::to_owned),
        },
    }
}

impl Target {
    /// What a client needs for its handshake.
    pub fn tls(&self, pair: Option<&(String, String)>, alpn: &[&str]) -> ClientConfig {
        let builder = ClientConfig::builder_with_provider(tls::provider())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match &self.authorities {
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                for it in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                    roots.add(it.unwrap()).unwrap();
                }
                builder.with_root_certificates(roots)
            }
            None => builder.dangerous().with_custom_certificate_verifier(Arc::new(Trusting)),
        };
        let mut config = match pair {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
                    .collect::<Result<Vec<_>, _>>()
                    .unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = alpn.iter().map(|it| it.as_bytes().to_vec()).collect();
        config
    }

    /// A kubeconfig for programs that the checks run.
    pub fn kubeconfig(&self) -> String {
        let encode = |it: &str| STANDARD.encode(it);
        let mut cluster = serde_json::json!({"server": format!("https://{}:{}", self.host, self.port)});
        match &self.authorities {
            Some(pem) => cluster["certificate-authority-data"] = encode(pem).into(),
            None => cluster["insecure-skip-tls-verify"] = true.into(),
        }
        let mut user = serde_json::json!({});
        if let Some((certificate, key)) = &self.admin.pair {
            user["client-certificate-data"] = encode(certificate).into();
            user["client-key-data"] = encode(key).into();
        }
        if let Some(token) = &self.admin.token {
            user["token"] = token.clone().into();
        }
        serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "c", "user": user}],
        })
        .to_string()
    }
}

/// For kubeconfigs that say `insecure-skip-tls-verify`.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        tls::provider().signature_verification_algorithms.supported_schemes()
    }
}
