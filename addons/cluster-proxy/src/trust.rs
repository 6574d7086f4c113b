//! TLS from files: whom a client trusts, what a server shows. Files are read again when somebody connects, so that
//! renewed certificates count without a restart.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustls::{ClientConfig, RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tracing::warn;

use crate::{forward::roots, tls_profile::ServingProfile};

/// Files are looked at again no sooner.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The certificates of the system; what cannot be read of them is left out.
pub fn of_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for certificate in rustls_native_certs::load_native_certs().certs {
        // Systems have old ones that nothing can read any more.
        let _ = roots.add(certificate);
    }
    roots
}

/// A client that trusts these and shows nothing.
pub fn client(roots: RootCertStore) -> Arc<ClientConfig> {
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map(|it| it.with_root_certificates(roots).with_no_client_auth());
    Arc::new(config.unwrap_or_else(|error| unreachable!("the provider has the default versions: {error}")))
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairFiles {
    /// The certificate, PEM, and those behind it.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
}

impl PairFiles {
    fn read(&self) -> io::Result<Pair> {
        let read = pair(&bytes(&self.certificate)?, &bytes(&self.key)?);
        read.map_err(|error| io::Error::other(format!("{}: {error}", self.certificate.display())))
    }
}

/// A certificate, those behind it, and its key.
pub type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Reads a pair from PEM.
///
/// # Errors
/// When one of the two is none.
pub fn pair(certificate: &[u8], key: &[u8]) -> io::Result<Pair> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(io::Error::other)?;
    if chain.is_empty() {
        return Err(io::Error::other("there is no certificate"));
    }
    Ok((chain, PrivateKeyDer::from_pem_slice(key).map_err(io::Error::other)?))
}

/// A server that shows this and lets in whom the authorities of `clients`, PEM, vouch for; without them everybody.
///
/// # Errors
/// When the pair cannot be shown, or there is no authority.
pub fn server(pair: Pair, clients: Option<&[u8]>, profile: &ServingProfile, http2: bool) -> io::Result<ServerConfig> {
    let provider = profile.provider();
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(profile.versions())
        .map_err(io::Error::other)?;
    let builder = match clients {
        Some(pem) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pem)?), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(io::Error::other)?)
        }
        None => builder.with_no_client_auth(),
    };
    let (chain, key) = pair;
    let mut config = builder.with_single_cert(chain, key).map_err(io::Error::other)?;
    config.alpn_protocols = vec![if http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    Ok(config)
}

/// What a server shows, and whom it lets in.
#[derive(Clone, Debug)]
pub struct ServerFiles {
    /// What it shows.
    pub pair: PairFiles,
    /// By whom clients have to be vouched for; without it they need not show anything.
    pub clients: Option<PathBuf>,
    /// What it accepts.
    pub profile: ServingProfile,
    /// Whether it speaks HTTP/2.
    pub http2: bool,
}

impl ServerFiles {
    fn files(&self) -> Vec<&PathBuf> {
        let mut all = vec![&self.pair.certificate, &self.pair.key];
        all.extend(&self.clients);
        all
    }

    fn config(&self) -> io::Result<ServerConfig> {
        let clients = self.clients.as_deref().map(bytes).transpose()?;
        server(self.pair.read()?, clients.as_deref(), &self.profile, self.http2)
    }

    /// What is to be shown to who connects now.
    ///
    /// # Errors
    /// When a file cannot be read at first. Later the last good one counts.
    pub fn serving(self) -> io::Result<Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>> {
        let config = Arc::new(self.config()?);
        let known = Mutex::new(Reloaded::new(&self.files(), config)?);
        Ok(Arc::new(move || known.lock().get(&self.files(), || self.config())))
    }
}

/// What a client shows, and whom it trusts.
#[derive(Clone, Debug)]
pub struct ClientFiles {
    /// What it shows.
    pub pair: Option<PairFiles>,
    /// Whom it trusts.
    pub trusted: PathBuf,
    /// Protocols that it offers.
    pub alpn: Vec<Vec<u8>>,
}

impl ClientFiles {
    fn files(&self) -> Vec<&PathBuf> {
        let pair = self.pair.iter().flat_map(|it| [&it.certificate, &it.key]);
        std::iter::once(&self.trusted).chain(pair).collect()
    }

    fn config(&self) -> io::Result<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots(&bytes(&self.trusted)?)?);
        let mut config = match &self.pair {
            Some(pair) => {
                let (chain, key) = pair.read()?;
                builder.with_client_auth_cert(chain, key).map_err(io::Error::other)?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols.clone_from(&self.alpn);
        Ok(config)
    }

    /// What is to be used for a connection now.
    ///
    /// # Errors
    /// When a file cannot be read at first. Later the last good one counts.
    pub fn following(self) -> io::Result<Arc<dyn Fn() -> Arc<ClientConfig> + Send + Sync>> {
        let config = Arc::new(self.config()?);
        let known = Mutex::new(Reloaded::new(&self.files(), config)?);
        Ok(Arc::new(move || known.lock().get(&self.files(), || self.config())))
    }
}

struct Reloaded<T> {
    looked: Instant,
    contents: Vec<Vec<u8>>,
    made: Arc<T>,
}

impl<T> Reloaded<T> {
    fn new(files: &[&PathBuf], made: Arc<T>) -> io::Result<Self> {
        Ok(Self {
            looked: Instant::now(),
            contents: contents(files)?,
            made,
        })
    }

    fn get(&mut self, files: &[&PathBuf], make: impl FnOnce() -> io::Result<T>) -> Arc<T> {
        if self.looked.elapsed() < LOOK_AGAIN {
            return self.made.clone();
        }
        self.looked = Instant::now();
        // Half written files are looked at again.
        let Ok(now) = contents(files) else {
            return self.made.clone();
        };
        if now != self.contents {
            match make() {
                Ok(made) => {
                    self.made = Arc::new(made);
                    self.contents = now;
                }
                Err(error) => warn!(%error, "a renewed certificate cannot be used"),
            }
        }
        self.made.clone()
    }
}

fn contents(files: &[&PathBuf]) -> io::Result<Vec<Vec<u8>>> {
    files.iter().map(|it| bytes(it)).collect()
}

fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
