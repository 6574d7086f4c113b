//! The certificate of the listener.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use ocm_addon_sdk::hub::authority::{Authority, Leaf, LeafUsage};
use parking_lot::Mutex;
use tokio_rustls::rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tracing::warn;

/// What the listener shows, asked for each connection, so that a renewed certificate counts at once.
pub type WebhookTls = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// How long a certificate lives that the program makes itself, which it does anew with each start. Nobody trusts it but
/// who has it before.
const OWN_LIFE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A certificate and its key in files, such as `tls.crt` and `tls.key`. Whatever is there when somebody connects is
/// shown; what cannot be read then leaves the last one.
///
/// # Errors
/// When they cannot be read at first.
pub fn from_files(certificate: PathBuf, key: PathBuf) -> io::Result<WebhookTls> {
    let texts = read(&certificate, &key)?;
    let config = config(&texts.0, &texts.1)?;
    Ok(following(certificate, key, texts, config))
}

/// The same where the files may be missing: until they are there, a certificate for these names is shown that is made
/// here.
///
/// # Errors
/// When none can be made.
pub fn from_files_or_own(certificate: PathBuf, key: PathBuf, names: &[String]) -> io::Result<WebhookTls> {
    Ok(following(certificate, key, Default::default(), own(names)?))
}

/// Shows what is in the files, and before that this.
fn following(certificate: PathBuf, key: PathBuf, texts: (Vec<u8>, Vec<u8>), config: ServerConfig) -> WebhookTls {
    let shown = Mutex::new((texts, Arc::new(config)));
    Arc::new(move || {
        let mut shown = shown.lock();
        match read(&certificate, &key) {
            Ok(texts) if texts == shown.0 => {}
            Ok(texts) => match self::config(&texts.0, &texts.1) {
                Ok(config) => *shown = (texts, Arc::new(config)),
                Err(error) => warn!(%error, "the certificate of the webhook listener is none"),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound && shown.0.0.is_empty() => {}
            Err(error) => warn!(%error, "the certificate of the webhook listener could not be read"),
        }
        shown.1.clone()
    })
}

fn read(certificate: &Path, key: &Path) -> io::Result<(Vec<u8>, Vec<u8>)> {
    Ok((std::fs::read(certificate)?, std::fs::read(key)?))
}

/// TLS with a certificate of its own for these names.
fn own(names: &[String]) -> io::Result<ServerConfig> {
    let now = Timestamp::now();
    let (authority, key) =
        Authority::create("application-manager-webhooks", OWN_LIFE, now).map_err(io::Error::other)?;
    let leaf = Leaf {
        common_name: "application-manager-webhooks".to_owned(),
        names: names.to_vec(),
        usage: LeafUsage::Server,
    };
    let authority = Authority::read(authority.as_bytes(), key.as_bytes()).map_err(io::Error::other)?;
    let issued = authority.issue(&leaf, OWN_LIFE, now).map_err(io::Error::other)?;
    config(issued.certificate_pem.as_bytes(), issued.key_pem.as_bytes())
}

/// TLS with a certificate and its key, as PEM.
///
/// # Errors
/// When they are none, or do not belong together.
pub fn config(certificate: &[u8], key: &[u8]) -> io::Result<ServerConfig> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let key = PrivateKeyDer::from_pem_slice(key).map_err(io::Error::other)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let chain = chain.map_err(io::Error::other)?;
    let config = builder.with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.map_err(io::Error::other)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_comes_later_replaces_our_own() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let names = ["hub.example".to_owned()];
        assert!(from_files(certificate.clone(), key.clone()).is_err());
        let tls = from_files_or_own(certificate.clone(), key.clone(), &names).unwrap();
        let own = tls();
        assert!(Arc::ptr_eq(&own, &tls()));
        let made = kube_api::pki::serving_pair(&names, Timestamp::now(), 3600).unwrap();
        std::fs::write(&certificate, &made.pair.certificate_pem).unwrap();
        std::fs::write(&key, &made.pair.key_pem).unwrap();
        let given = tls();
        assert!(!Arc::ptr_eq(&own, &given));
        // What cannot be read leaves the last one.
        std::fs::remove_file(&key).unwrap();
        assert!(Arc::ptr_eq(&given, &tls()));
    }
}
