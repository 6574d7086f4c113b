//! The TLS profile of a hub or a cluster: ConfigMap `ocm-tls-profile`. Upstream: sdk-go `pkg/tls`.

use std::{collections::BTreeMap, sync::Arc};

use rustls::{CipherSuite, SupportedProtocolVersion, crypto::CryptoProvider, version};
use sha2::{Digest, Sha256};
use tracing::warn;

/// The ConfigMap, in the namespace of the process.
pub const CONFIG_MAP: &str = "ocm-tls-profile";

/// What a server accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServingProfile {
    /// The lowest version.
    pub min_version: MinVersion,
    /// Cipher suites of TLS 1.2 by their IANA names; when there is none, the library chooses.
    pub cipher_suites: Vec<String>,
}

/// The lowest version of TLS. What is older than 1.2 is served as 1.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl MinVersion {
    /// Reads `VersionTLS12`, `TLSv1.3` and the like.
    pub fn read(text: &str) -> Option<Self> {
        match text.trim() {
            "" | "VersionTLS10" | "TLSv1.0" | "VersionTLS11" | "TLSv1.1" | "VersionTLS12" | "TLSv1.2" => {
                Some(Self::Tls12)
            }
            "VersionTLS13" | "TLSv1.3" => Some(Self::Tls13),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "VersionTLS12",
            Self::Tls13 => "VersionTLS13",
        }
    }
}

impl ServingProfile {
    /// Reads the data of the ConfigMap. What is wrong counts as if it were not there, and is said in the log.
    pub fn read(data: &BTreeMap<String, String>) -> Self {
        let text = |key: &str| data.get(key).map_or("", String::as_str);
        let min_version = MinVersion::read(text("minTLSVersion")).unwrap_or_else(|| {
            let said = text("minTLSVersion");
            warn!("ConfigMap {CONFIG_MAP}: minTLSVersion: unknown TLS version: {said}; TLS 1.2 is used");
            MinVersion::default()
        });
        Self {
            min_version,
            cipher_suites: suites(text("cipherSuites")),
        }
    }

    /// As flags say it.
    ///
    /// # Errors
    /// Which flag is wrong.
    pub fn of_flags(min_version: &str, cipher_suites: &str) -> Result<Self, String> {
        let min_version = MinVersion::read(min_version)
            .ok_or_else(|| format!("--tls-min-version: unknown TLS version: {min_version}"))?;
        Ok(Self {
            min_version,
            cipher_suites: suites(cipher_suites),
        })
    }

    /// The flags of a proxy-server that say the same.
    pub fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        if self.min_version == MinVersion::Tls12 && !self.cipher_suites.is_empty() {
            flags.push(format!("--cipher-suites={}", self.cipher_suites.join(",")));
        }
        flags.push(format!("--tls-min-version={}", self.min_version.name()));
        flags
    }

    /// Tells one profile from another: 16 hex digits.
    pub fn hash(&self) -> String {
        let text = format!("{}\0{}", self.cipher_suites.join(","), self.min_version.name());
        let digest = Sha256::digest(text.as_bytes());
        digest[..8].iter().map(|it| format!("{it:02x}")).collect()
    }

    /// The versions that are served.
    pub fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        static BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];
        match self.min_version {
            MinVersion::Tls12 => &BOTH,
            MinVersion::Tls13 => &BOTH[1..],
        }
    }

    /// The process' cryptography with these suites alone. Those of TLS 1.3 are not chosen, as in Go.
    pub fn provider(&self) -> Arc<CryptoProvider> {
        let all = rustls::crypto::aws_lc_rs::default_provider();
        if self.cipher_suites.is_empty() {
            return Arc::new(all);
        }
        let mut chosen = all.clone();
        let is_chosen = |suite: &rustls::SupportedCipherSuite| {
            suite.tls13().is_some() || self.cipher_suites.iter().any(|it| Some(suite.suite()) == named(it))
        };
        chosen.cipher_suites.retain(is_chosen);
        // A list of suites that we have not would leave nothing that a client of TLS 1.2 could choose; it asks for
        // that.
        Arc::new(chosen)
    }
}

/// The suites of a list, those that there are.
fn suites(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    let (known, unknown): (Vec<&str>, Vec<&str>) = names.partition(|it| named(it).is_some());
    if !unknown.is_empty() {
        warn!("unsupported cipher suites: {}", unknown.join(", "));
    }
    known.into_iter().map(str::to_owned).collect()
}

/// The suites of Go that are safe.
fn named(name: &str) -> Option<CipherSuite> {
    Some(match name {
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256" => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384" => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" => CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384" => CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256" | "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305" => {
            CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
        }
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256" | "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305" => {
            CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        }
        "TLS_AES_128_GCM_SHA256" => CipherSuite::TLS13_AES_128_GCM_SHA256,
        "TLS_AES_256_GCM_SHA384" => CipherSuite::TLS13_AES_256_GCM_SHA384,
        "TLS_CHACHA20_POLY1305_SHA256" => CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(version: &str, suites: &str) -> ServingProfile {
        let pairs = [("minTLSVersion", version), ("cipherSuites", suites)];
        ServingProfile::read(&pairs.map(|(key, text)| (key.to_owned(), text.to_owned())).into())
    }

    #[test]
    fn a_profile_becomes_flags_as_upstreams_does() {
        assert_eq!(profile("", "").flags(), ["--tls-min-version=VersionTLS12"]);
        // sha256 of NUL and the version.
        assert_eq!(ServingProfile::default().hash().len(), 16);
        let one = profile("VersionTLS12", " TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, nonsense");
        assert_eq!(
            one.flags(),
            [
                "--cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "--tls-min-version=VersionTLS12",
            ]
        );
        assert_ne!(one.hash(), ServingProfile::default().hash());
        // TLS 1.3 has no list to choose from.
        let high = profile("TLSv1.3", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256");
        assert_eq!(high.flags(), ["--tls-min-version=VersionTLS13"]);
        assert_eq!(high.versions().len(), 1);
        assert_eq!(profile("nonsense", ""), ServingProfile::default());
        assert!(
            ServingProfile::of_flags("x", "")
                .unwrap_err()
                .starts_with("--tls-min-version")
        );
    }

    #[test]
    fn chosen_suites_are_the_only_ones_of_tls_1_2() {
        let one = profile("", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256").provider();
        let old = one.cipher_suites.iter().filter(|it| it.tls13().is_none());
        assert_eq!(old.count(), 1);
    }
}
