//! A serving certificate in two files, taken up again when they change.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{pod, serving::Tls};

/// How often the files are looked at. They are two, and small.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Where programs with controllers look when nobody says: OpenShift puts a certificate there, and upstream's takes it.
const USUAL: &str = "/var/run/secrets/serving-cert";

/// Where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
}

impl CertificateFiles {
    /// These two.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            certificate: certificate.into(),
            key: key.into(),
        }
    }

    /// `tls.crt` and `tls.key` of a directory.
    pub fn in_directory(directory: &Path) -> Self {
        Self::new(directory.join("tls.crt"), directory.join("tls.key"))
    }

    /// The ones in the usual place, if there are both.
    pub fn usual() -> Option<Self> {
        Self::in_directory(&pod::path(USUAL)).if_there()
    }

    /// Whether there are both.
    pub fn are_there(&self) -> bool {
        self.certificate.is_file() && self.key.is_file()
    }

    fn if_there(self) -> Option<Self> {
        self.are_there().then_some(self)
    }

    /// What to serve with.
    pub fn read(&self, rules: &Tls) -> Result<Arc<ServerConfig>> {
        rules.with_files(&self.certificate, &self.key)
    }

    /// Waits until there are both and they can be served with.
    pub async fn arrive(&self, rules: &Tls) -> Arc<ServerConfig> {
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            if let Some(config) = self.are_there().then(|| self.read(rules).ok()).flatten() {
                return config;
            }
        }
    }

    /// Takes up a renewed certificate. One that cannot be used, or whose key has not come yet,
    /// leaves the old one in place.
    pub async fn follow(self, rules: Tls, tls: Arc<ArcSwap<ServerConfig>>, stop: CancellationToken) {
        let contents = || [&self.certificate, &self.key].map(|it| std::fs::read(it).unwrap_or_default());
        let (mut used, mut tried) = (contents(), None);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
            let now = contents();
            if now == used || tried.as_ref() == Some(&now) {
                continue;
            }
            match self.read(&rules) {
                Ok(config) => {
                    tls.store(config);
                    used = now;
                    info!("took up the renewed certificate");
                }
                Err(error) => {
                    warn!(
                        error = format!("{error:#}"),
                        "the renewed certificate cannot be used, the old one stays"
                    );
                    tried = Some(now);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_without_its_key_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let files = CertificateFiles::in_directory(folder.path());
        std::fs::write(folder.path().join("tls.crt"), "a").unwrap();
        assert_eq!(files.clone().if_there(), None);
        std::fs::write(folder.path().join("tls.key"), "b").unwrap();
        assert_eq!(files.clone().if_there(), Some(files));
    }
}
