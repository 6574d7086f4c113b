//! The certificate that webhooks show, in a Secret that all processes share that answer them.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{Context, Result, anyhow, bail};
use client::bootstrap;
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, api::PostParams, core::ObjectMeta};
use ocm_api::namespaces;
use ocm_reconcile::install::{DROVER, MANAGED_BY};
use process::serving::Tls;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use x509_parser::{extensions::GeneralName, prelude::FromDer};

/// The Secret of a hub's own webhooks, in its namespace.
const OF_HUB: &str = "drover-hub-webhook";
/// The keys of a Secret are those of `kubernetes.io/tls`, and `ca.crt` with all authorities to trust.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";

/// Upstream renews when four fifths of its life are over.
const LIFE_USED: f64 = 0.8;
/// How many authorities are trusted at once: that of the certificate, and the one before,
/// whose certificate another process may still show.
const AUTHORITIES_MAX: usize = 2;
/// Processes that begin together are in each other's way a few times at most.
const TRIES: usize = 5;

/// A certificate to serve with.
pub struct Held {
    pub config: Arc<ServerConfig>,
    /// In PEM.
    pub authorities: String,
}

/// Keeps the certificate.
pub struct Keeper {
    secrets: Api<Secret>,
    place: SecretPlace,
    names: Vec<String>,
    /// How long a certificate lives.
    life: Duration,
    /// What it is served with.
    rules: Tls,
}

/// Where the Secret is.
#[derive(Clone, Debug)]
pub struct SecretPlace {
    pub namespace: String,
    pub name: String,
}

impl SecretPlace {
    /// That of a hub's own webhooks.
    pub fn of_hub() -> Self {
        Self {
            namespace: namespaces::HUB.to_owned(),
            name: OF_HUB.to_owned(),
        }
    }
}

impl Keeper {
    pub fn new(hub: Client, place: SecretPlace, names: Vec<String>, life: Duration, rules: Tls) -> Self {
        Self {
            secrets: Api::namespaced(hub, &place.namespace),
            place,
            names,
            life,
            rules,
        }
    }

    /// The certificate that is there, or a new one if that is missing, for other names, or about to end.
    ///
    /// # Errors
    /// When the Secret cannot be read or written.
    pub async fn hold(&self, now: Timestamp) -> Result<Held> {
        let SecretPlace { namespace, name } = &self.place;
        let failed = || format!("could not keep Secret {namespace}/{name}");
        for _ in 0..TRIES {
            let found = self.secrets.get_opt(name).await.with_context(failed)?;
            if let Some(held) = found.as_ref().and_then(|it| usable(it, &self.names, now, &self.rules)) {
                return Ok(held);
            }
            let wanted = renewed(found.as_ref(), &self.place, &self.names, now, self.life)?;
            let written = match found {
                None => self.secrets.create(&PostParams::default(), &wanted).await,
                Some(_) => self.secrets.replace(name, &PostParams::default(), &wanted).await,
            };
            match written {
                Ok(written) => {
                    let held = usable(&written, &self.names, now, &self.rules);
                    return held.ok_or_else(|| anyhow!("the certificate that was just made cannot be used"));
                }
                // Another process was faster: what it has written serves as well.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(error).with_context(failed),
            }
        }
        bail!("{}: others write it again and again", failed())
    }
}

fn text<'s>(secret: &'s Secret, key: &str) -> Option<&'s str> {
    std::str::from_utf8(&secret.data.as_ref()?.get(key)?.0).ok()
}

/// What is in the Secret, unless it has to be made anew.
fn usable(secret: &Secret, names: &[String], now: Timestamp, rules: &Tls) -> Option<Held> {
    let authorities = text(secret, AUTHORITIES)?.to_owned();
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(text(secret, CERTIFICATE)?.as_bytes())
        .collect::<Result<_, _>>()
        .ok()?;
    let key = PrivateKeyDer::from_pem_slice(text(secret, KEY)?.as_bytes()).ok()?;
    let (_, certificate) = x509_parser::certificate::X509Certificate::from_der(chain.first()?).ok()?;
    let validity = certificate.validity();
    let (from, until) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let renew = from + ((until - from) as f64 * LIFE_USED) as i64;
    if now.as_second() < from || now.as_second() >= renew {
        return None;
    }
    let held: BTreeSet<String> = certificate
        .subject_alternative_name()
        .ok()??
        .value
        .general_names
        .iter()
        .filter_map(name_text)
        .collect();
    if !names.iter().all(|it| held.contains(it)) {
        return None;
    }
    let config = rules.with(chain, key).ok()?;
    Some(Held { config, authorities })
}

fn name_text(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(it) => Some((*it).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes)
                .ok()
                .map(|it| std::net::IpAddr::from(it).to_string()),
            16 => <[u8; 16]>::try_from(*bytes)
                .ok()
                .map(|it| std::net::IpAddr::from(it).to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// The Secret with a new certificate, and with the authority of the one before if that still counts.
fn renewed(
    before: Option<&Secret>,
    place: &SecretPlace,
    names: &[String],
    now: Timestamp,
    life: Duration,
) -> Result<Secret> {
    let seconds = i64::try_from(life.as_secs()).unwrap_or(i64::MAX);
    let made = kube_api::pki::serving_pair(names, now, seconds).context("could not make a certificate")?;
    let mut authorities = made.authority_pem;
    for der in CertificateDer::pem_slice_iter(
        before
            .and_then(|it| text(it, AUTHORITIES))
            .unwrap_or_default()
            .as_bytes(),
    )
    .flatten()
    .filter(|it| is_valid(it, now))
    .take(AUTHORITIES_MAX - 1)
    {
        authorities += &bootstrap::pem(&der);
    }
    let entries = [
        (CERTIFICATE, made.pair.certificate_pem),
        (KEY, made.pair.key_pem),
        (AUTHORITIES, authorities),
    ];
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(place.name.clone()),
            namespace: Some(place.namespace.clone()),
            labels: Some([(MANAGED_BY.to_owned(), DROVER.to_owned())].into()),
            resource_version: before.and_then(|it| it.metadata.resource_version.clone()),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(
            entries
                .into_iter()
                .map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())))
                .collect(),
        ),
        ..Secret::default()
    })
}

fn is_valid(der: &CertificateDer<'_>, now: Timestamp) -> bool {
    let parsed = x509_parser::certificate::X509Certificate::from_der(der);
    parsed.is_ok_and(|(_, it)| now.as_second() < it.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    const LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

    fn names() -> Vec<String> {
        vec!["a.svc".to_owned(), "127.0.0.1".to_owned()]
    }

    fn usable(secret: &Secret, names: &[String], now: Timestamp) -> Option<Held> {
        super::usable(secret, names, now, &Tls::read("", "").unwrap())
    }

    fn renewed(before: Option<&Secret>, names: &[String], now: Timestamp, life: Duration) -> Result<Secret> {
        super::renewed(before, &SecretPlace::of_hub(), names, now, life)
    }

    fn count(authorities: &str) -> usize {
        authorities.matches("BEGIN CERTIFICATE").count()
    }

    #[test]
    fn certificates_are_reissued_after_four_fifths_or_for_other_names() {
        let now = Timestamp::from_second(2_000_000_000).unwrap();
        let secret = renewed(None, &names(), now, LIFE).unwrap();
        let day = SignedDuration::from_hours(24);
        assert!(usable(&secret, &names(), now).is_some());
        assert!(usable(&secret, &names(), now + day * 23).is_some());
        assert!(usable(&secret, &names(), now + day * 24 + SignedDuration::from_hours(1)).is_none());
        assert!(usable(&secret, &["b.svc".to_owned()], now).is_none());
        let brief = renewed(None, &names(), now, LIFE / 30).unwrap();
        assert!(usable(&brief, &names(), now + day).is_none());
        let mut torn = secret.clone();
        torn.data.as_mut().unwrap().remove(KEY);
        assert!(usable(&torn, &names(), now).is_none());
    }

    #[test]
    fn only_the_previous_authority_stays_trusted_until_it_expires() {
        let now = Timestamp::from_second(2_000_000_000).unwrap();
        let day = SignedDuration::from_hours(24);
        let authorities = |it: &Secret| text(it, AUTHORITIES).unwrap().to_owned();
        let first = renewed(None, &names(), now, LIFE).unwrap();
        assert_eq!(count(&authorities(&first)), 1);
        let second = renewed(Some(&first), &names(), now + day * 25, LIFE).unwrap();
        assert_eq!(count(&authorities(&second)), 2);
        assert!(authorities(&second).ends_with(&authorities(&first)));
        let third = renewed(Some(&second), &names(), now + day * 26, LIFE).unwrap();
        assert_eq!(count(&authorities(&third)), 2);
        let late = renewed(Some(&third), &names(), now + day * 100, LIFE).unwrap();
        assert_eq!(count(&authorities(&late)), 1);
    }
}
