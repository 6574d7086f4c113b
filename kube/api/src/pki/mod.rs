//! The keys of one API server: its certificate authority, its serving certificate and the key that signs ServiceAccount
//! tokens.
//!
//! With a directory they live in files that only the owner can read; each file is written whole or not at all, so a
//! crash never leaves a key without its certificate. Without a directory they live in memory.

pub mod certificate;
mod files;

use crate::tokens::TokenKey;
use arc_swap::ArcSwap;
use certificate::{Purpose, Request};
use p256::{
    ecdsa::SigningKey,
    pkcs8::{DecodePrivateKey, EncodePrivateKey, LineEnding},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};
use std::{
    collections::BTreeSet,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use x509_cert::{
    Certificate,
    der::{Decode, EncodePem},
};

/// Names that clients in a cluster use for its API server.
const SERVING_NAMES: &[&str] = &[
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
    "10.0.0.1",
];
const TOKEN_KEY_FILE: &str = "service-account.key";
const DAY_SECONDS: i64 = 24 * 3600;
const CA_SECONDS: i64 = 3650 * DAY_SECONDS;
const SERVING_SECONDS: i64 = 365 * DAY_SECONDS;
/// From when on the end of the authority is told of: who has its certificate needs the next one by then.
const CA_WARN_SECONDS: i64 = 365 * DAY_SECONDS;

/// Why keys could not be opened or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read or write {path}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path} is not what this server wrote there: {detail}; restore it, or remove it to start with new keys")]
    Malformed { path: PathBuf, detail: String },
    #[error(
        "{path} is valid from {from} until {until}, and this machine's clock says {now}; set the clock, or remove the \
         directory of {path} to start with new keys"
    )]
    Clock {
        path: PathBuf,
        from: jiff::Timestamp,
        until: jiff::Timestamp,
        now: jiff::Timestamp,
    },
    #[error("could not build a certificate")]
    Certificate(#[from] x509_cert::builder::Error),
    #[error("could not generate a key")]
    Generate,
}

/// A certificate and its private key, as PEM.
#[derive(Clone)]
pub struct KeyPair {
    pub certificate_pem: String,
    pub key_pem: String,
}

/// The authority that signs certificates of one cluster.
pub struct Authority {
    pub(crate) certificate: Certificate,
    pub(crate) key: SigningKey,
    der: CertificateDer<'static>,
    pem: String,
}

impl Authority {
    fn create(now: jiff::Timestamp) -> Result<Self, Error> {
        let key = new_key();
        let certificate = certificate::authority("kubernetes", &key, now, CA_SECONDS)?;
        Self::new(certificate, key)
    }

    fn new(certificate: Certificate, key: SigningKey) -> Result<Self, Error> {
        let pem = certificate
            .to_pem(LineEnding::LF)
            .map_err(x509_cert::builder::Error::from)?;
        let der = certificate::to_der(&certificate)?;
        Ok(Self {
            certificate,
            key,
            der,
            pem,
        })
    }

    /// The authority's certificate.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// The authority's certificate as PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The authority's subject, which tells clients with several certificates which one to show.
    pub fn subject_hint(&self) -> Vec<rustls::DistinguishedName> {
        use x509_cert::der::Encode;
        let subject = self.certificate.tbs_certificate().subject().to_der();
        subject.map(rustls::DistinguishedName::from).into_iter().collect()
    }
}

/// The certificate that the server shows, and its key.
pub struct Serving {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
    renew_at: jiff::Timestamp,
}

/// When a certificate that is valid from then until then is replaced: when two thirds of its life are over. The last
/// third is for whoever has to notice that it was not.
pub fn renew_at(from: jiff::Timestamp, until: jiff::Timestamp) -> jiff::Timestamp {
    until - until.duration_since(from) / 3
}

/// All keys of one server.
pub struct Pki {
    authority: Authority,
    serving: ArcSwap<Serving>,
    /// DNS names and addresses that the serving certificate holds.
    names: BTreeSet<String>,
    token_key: OnceLock<Arc<TokenKey>>,
    dir: Option<PathBuf>,
}

impl Pki {
    /// Opens the keys in `dir`, making those that are missing, or makes all of them in memory. `names` are DNS names
    /// and IP addresses that the serving certificate holds besides the usual ones.
    ///
    /// # Errors
    /// When a file cannot be read or written, or holds something else.
    pub fn open(dir: Option<&Path>, names: &[String], now: jiff::Timestamp) -> Result<Self, Error> {
        if let Some(dir) = dir {
            files::create_private_dir(dir)?;
        }
        let authority = open_authority(dir, now)?;
        let usual = SERVING_NAMES.iter().map(|it| (*it).to_owned());
        let names: BTreeSet<String> = usual.chain(names.iter().cloned()).collect();
        let serving = open_serving(dir, &authority, &names, now)?;
        Ok(Self {
            authority,
            serving: ArcSwap::from_pointee(serving),
            names,
            token_key: OnceLock::new(),
            dir: dir.map(Path::to_owned),
        })
    }

    /// The authority of client and serving certificates.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The authority's certificate as PEM: what goes into kubeconfigs and `kube-root-ca.crt`.
    pub fn ca_pem(&self) -> &str {
        &self.authority.pem
    }

    /// The certificate that the server shows.
    pub fn serving(&self) -> Arc<Serving> {
        self.serving.load_full()
    }

    /// Makes the next serving certificate when it is time to; says whether it did.
    ///
    /// # Errors
    /// When it cannot be written: the one before stays.
    pub fn renew(&self, now: jiff::Timestamp) -> Result<bool, Error> {
        if now < self.serving.load().renew_at {
            return Ok(false);
        }
        let next = make_serving(self.dir.as_deref(), &self.authority, &self.names, now)?;
        self.serving.store(Arc::new(next));
        Ok(true)
    }

    /// When the authority ends, if that is soon. Nothing renews it: everybody who was given its certificate trusts this
    /// one alone.
    pub fn authority_ends(&self, now: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let (_, until) = certificate::validity(&self.authority.certificate);
        (until.duration_since(now).as_secs() < CA_WARN_SECONDS).then_some(until)
    }

    /// The key of ServiceAccount tokens. Made or read at first use, because making an RSA key takes about as long as
    /// everything else at a first start, and most servers of a fleet on a laptop never issue a token.
    ///
    /// # Errors
    /// When its file cannot be read or written.
    pub fn token_key(&self) -> Result<&Arc<TokenKey>, Error> {
        if let Some(key) = self.existing_token_key()? {
            return Ok(key);
        }
        let key = TokenKey::generate().ok_or(Error::Generate)?;
        if let Some(dir) = &self.dir
            && !files::write_new(&dir.join(TOKEN_KEY_FILE), &key.to_pem())?
        {
            // Two first users got here; the file that came first is the key.
            return self.token_key();
        }
        Ok(self.token_key.get_or_init(|| Arc::new(key)))
    }

    /// The key of ServiceAccount tokens if there is one. Without it no token was ever issued, so that a stranger's
    /// token costs nothing.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn existing_token_key(&self) -> Result<Option<&Arc<TokenKey>>, Error> {
        if let Some(key) = self.token_key.get() {
            return Ok(Some(key));
        }
        let Some(path) = self.dir.as_ref().map(|it| it.join(TOKEN_KEY_FILE)) else {
            return Ok(None);
        };
        let Some(text) = files::read(&path)? else {
            return Ok(None);
        };
        let key = TokenKey::from_pem(&text).ok_or_else(|| Error::Malformed {
            path,
            detail: "no RSA private key in it".into(),
        })?;
        Ok(Some(self.token_key.get_or_init(|| Arc::new(key))))
    }

    /// A client certificate for user `name` in `groups`, with a new key, valid for `seconds` from now.
    ///
    /// # Errors
    /// When the certificate cannot be encoded.
    pub fn issue_client_certificate(
        &self,
        name: &str,
        groups: &[&str],
        seconds: i64,
        now: jiff::Timestamp,
    ) -> Result<KeyPair, Error> {
        let key = new_key();
        let request = Request {
            subject: certificate::subject(name, groups)?,
            public_key: certificate::public_key(&key)?,
            names: Vec::new(),
            purpose: Purpose {
                client: true,
                digital_signature: true,
                key_encipherment: true,
                ..Purpose::default()
            },
            not_before: now - BACKDATE,
            not_after: now + jiff::SignedDuration::from_secs(seconds),
        };
        let certificate = certificate::sign(&self.authority, request)?;
        Ok(KeyPair {
            certificate_pem: certificate
                .to_pem(LineEnding::LF)
                .map_err(x509_cert::builder::Error::from)?,
            key_pem: key_pem(&key),
        })
    }

    /// A kubeconfig for `user` with everything inline.
    pub fn kubeconfig(&self, server: &str, cluster: &str, user: &str, pair: &KeyPair) -> String {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        // JSON strings are YAML strings, which keeps odd names from breaking the file.
        let quote = |it: &str| serde_json::Value::from(it).to_string();
        let context = quote(&format!("{user}@{cluster}"));
        let (server, cluster, user) = (quote(server), quote(cluster), quote(user));
        let (ca, certificate, key) = (
            STANDARD.encode(self.ca_pem()),
            STANDARD.encode(&pair.certificate_pem),
            STANDARD.encode(&pair.key_pem),
        );
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: {cluster}\n  cluster:\n    server: {server}\n    \
             certificate-authority-data: {ca}\ncontexts:\n- name: {context}\n  context:\n    cluster: {cluster}\n    \
             user: {user}\ncurrent-context: {context}\nusers:\n- name: {user}\n  user:\n    \
             client-certificate-data: {certificate}\n    client-key-data: {key}\n"
        )
    }
}

/// How far certificates start in the past, for clients whose clock is slow.
pub const BACKDATE: jiff::SignedDuration = jiff::SignedDuration::from_mins(5);

fn new_key() -> SigningKey {
    p256::elliptic_curve::Generate::generate_from_rng(&mut rand::rng())
}

fn key_pem(key: &SigningKey) -> String {
    key.to_pkcs8_pem(LineEnding::LF)
        .expect("a P-256 key encodes")
        .to_string()
}

/// The certificate and the key in one PEM file.
fn read_pair(path: &Path) -> Result<Option<(Certificate, SigningKey)>, Error> {
    let Some(text) = files::read(path)? else {
        return Ok(None);
    };
    let malformed = |detail: &str| Error::Malformed {
        path: path.to_owned(),
        detail: detail.to_owned(),
    };
    let der = CertificateDer::from_pem_slice(text.as_bytes()).map_err(|_| malformed("no certificate in it"))?;
    let certificate = Certificate::from_der(&der).map_err(|_| malformed("its certificate cannot be decoded"))?;
    let key = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|_| malformed("no private key in it"))?;
    let key = SigningKey::from_pkcs8_der(key.secret_pkcs8_der()).map_err(|_| malformed("its key is not P-256"))?;
    if certificate::public_key(&key)? != *certificate.tbs_certificate().subject_public_key_info() {
        return Err(malformed("its key does not belong to its certificate"));
    }
    Ok(Some((certificate, key)))
}

fn write_pair(path: &Path, certificate: &Certificate, key: &SigningKey) -> Result<(), Error> {
    let certificate = certificate
        .to_pem(LineEnding::LF)
        .map_err(x509_cert::builder::Error::from)?;
    files::write(path, &(certificate + &key_pem(key)))
}

/// What a server shows that is no API server, and what its clients trust.
pub struct ServingPair {
    /// The authority that has signed the certificate and nothing else: its key is forgotten.
    pub authority_pem: String,
    pub pair: KeyPair,
}

/// A serving certificate for these DNS names and IP addresses, valid from now on for so many seconds.
///
/// # Errors
/// When a certificate cannot be encoded: a name that is not ASCII.
pub fn serving_pair(names: &[String], now: jiff::Timestamp, seconds: i64) -> Result<ServingPair, Error> {
    let key = new_key();
    let name = names.first().map_or("serving", String::as_str);
    let certificate = certificate::authority(&format!("{name}@{}", now.as_second()), &key, now, seconds)?;
    let authority = Authority::new(certificate, key)?;
    let names: BTreeSet<String> = names.iter().cloned().collect();
    let key = new_key();
    let not_after = now + jiff::SignedDuration::from_secs(seconds);
    let certificate = sign_serving(&authority, name, &names, &key, now, not_after)?;
    let certificate_pem = certificate
        .to_pem(LineEnding::LF)
        .map_err(x509_cert::builder::Error::from)?;
    Ok(ServingPair {
        authority_pem: authority.pem,
        pair: KeyPair {
            certificate_pem,
            key_pem: key_pem(&key),
        },
    })
}

fn open_authority(dir: Option<&Path>, now: jiff::Timestamp) -> Result<Authority, Error> {
    let Some(dir) = dir else { return Authority::create(now) };
    let path = dir.join("ca.pem");
    if let Some((certificate, key)) = read_pair(&path)? {
        let (from, until) = certificate::validity(&certificate);
        if !(from..=until).contains(&now) {
            return Err(Error::Clock { path, from, until, now });
        }
        return Authority::new(certificate, key);
    }
    let authority = Authority::create(now)?;
    write_pair(&path, &authority.certificate, &authority.key)?;
    Ok(authority)
}

const SERVING_FILE: &str = "serving.pem";

fn open_serving(
    dir: Option<&Path>,
    authority: &Authority,
    names: &BTreeSet<String>,
    now: jiff::Timestamp,
) -> Result<Serving, Error> {
    if let Some(dir) = dir
        && let Some((certificate, key)) = read_pair(&dir.join(SERVING_FILE))?
        && certificate::still_serves(&certificate, authority, names, now)
    {
        return serving(&certificate, &key);
    }
    make_serving(dir, authority, names, now)
}

fn make_serving(
    dir: Option<&Path>,
    authority: &Authority,
    names: &BTreeSet<String>,
    now: jiff::Timestamp,
) -> Result<Serving, Error> {
    let key = new_key();
    let not_after = now + jiff::SignedDuration::from_secs(SERVING_SECONDS);
    let certificate = sign_serving(authority, "kube-apiserver", names, &key, now, not_after)?;
    if let Some(dir) = dir {
        write_pair(&dir.join(SERVING_FILE), &certificate, &key)?;
    }
    serving(&certificate, &key)
}

fn sign_serving(
    authority: &Authority,
    common_name: &str,
    names: &BTreeSet<String>,
    key: &SigningKey,
    now: jiff::Timestamp,
    not_after: jiff::Timestamp,
) -> Result<Certificate, Error> {
    let general_names = names.iter().map(|it| match it.parse::<IpAddr>() {
        Ok(address) => certificate::ip_name(address),
        Err(_) => certificate::dns_name(it),
    });
    let request = Request {
        subject: certificate::subject(common_name, &[])?,
        public_key: certificate::public_key(key)?,
        names: general_names.collect::<Result<_, _>>()?,
        purpose: Purpose {
            server: true,
            digital_signature: true,
            key_encipherment: true,
            ..Purpose::default()
        },
        not_before: now - BACKDATE,
        not_after,
    };
    Ok(certificate::sign(authority, request)?)
}

fn serving(certificate: &Certificate, key: &SigningKey) -> Result<Serving, Error> {
    let key = key.to_pkcs8_der().expect("a P-256 key encodes");
    let (from, until) = certificate::validity(certificate);
    Ok(Serving {
        renew_at: renew_at(from, until),
        chain: vec![certificate::to_der(certificate)?],
        key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec())),
    })
}

#[cfg(test)]
mod tests;
