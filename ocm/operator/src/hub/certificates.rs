//! The certificates that webhooks show, and the authority that signs them: when they are made anew, and of what.
//! Upstream: sdk-go `pkg/certrotation`. Ours reads what cannot be parsed as missing, where upstream gives up, and takes
//! a certificate that is for more names than are wanted.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube_primitives::certificate_request::Asked;
use ocm_addon_sdk::hub::authority::{Authority, AuthorityError};
use p256::{
    ecdsa::SigningKey,
    pkcs8::{EncodePrivateKey, EncodePublicKey, LineEnding},
};
use x509_cert::{der::Encode, name::Name};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, pem::Pem, prelude::FromDer};

/// The Secret with the authority.
pub const SIGNER: &str = "signer-secret";
/// The ConfigMap with all authorities that are trusted.
pub const BUNDLE: &str = "ca-bundle-configmap";
/// Its key.
pub const BUNDLE_KEY: &str = "ca-bundle.crt";
/// The key of a certificate in a Secret.
pub const CERTIFICATE: &str = "tls.crt";
/// The key of its private key.
pub const KEY: &str = "tls.key";

/// How the authority is called, with the second in which it was made.
const SIGNER_NAME: &str = "cluster-manager-webhook";

/// A certificate is made anew when this part of its life is left.
const LIFE_LEFT: i32 = 5;

/// How long certificates live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateTimes {
    /// The authority.
    pub signer: Duration,
    /// What it signs.
    pub target: Duration,
    /// How often they are looked at.
    pub look_again: Duration,
}

impl Default for CertificateTimes {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            signer: 365 * DAY,
            target: 30 * DAY,
            look_again: Duration::from_secs(10 * 60),
        }
    }
}

/// A certificate and its key, PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl Pair {
    /// What a Secret holds; empty texts where it holds none.
    pub fn of(secret: &Secret) -> Self {
        let text = |key: &str| {
            let found = secret.data.as_ref().and_then(|it| it.get(key));
            String::from_utf8_lossy(found.map(|it| it.0.as_slice()).unwrap_or_default()).into_owned()
        };
        Self {
            certificate: text(CERTIFICATE),
            key: text(KEY),
        }
    }

    /// As a Secret holds it.
    pub fn data(&self) -> serde_json::Value {
        let bytes = |it: &str| serde_json::json!(ByteString(it.as_bytes().to_vec()));
        serde_json::json!({(CERTIFICATE): bytes(&self.certificate), (KEY): bytes(&self.key)})
    }

    /// Why it has to be made anew as an authority, in a few words; `None` when it is well.
    pub fn signer_is_due(&self, life: Duration, now: Timestamp) -> Option<String> {
        if let Err(error) = Authority::read(self.certificate.as_bytes(), self.key.as_bytes()) {
            return Some(error.to_string());
        }
        with_first(&self.certificate, |it| is_old(it, life, now))
            .unwrap_or_else(|| Some("it is no certificate".to_owned()))
    }

    /// Why it has to be made anew as a certificate of these names that one of the authorities has signed.
    pub fn target_is_due(&self, names: &[String], authorities: &str, life: Duration, now: Timestamp) -> Option<String> {
        // Reads any certificate with its key.
        if let Err(error) = Authority::read(self.certificate.as_bytes(), self.key.as_bytes()) {
            return Some(error.to_string());
        }
        let look = |certificate: &X509Certificate<'_>| {
            if let Some(why) = is_old(certificate, life, now) {
                return Some(why);
            }
            let all = blocks(authorities);
            let mut signers = all.iter().filter_map(|it| X509Certificate::from_der(&it.contents).ok());
            if !signers.any(|(_, it)| Authority::has_signed(&it, certificate)) {
                return Some("none of the authorities has signed it".to_owned());
            }
            let held = held_names(certificate);
            let missing: Vec<&str> = names
                .iter()
                .map(String::as_str)
                .filter(|it| !held.contains(*it))
                .collect();
            (!missing.is_empty()).then(|| format!("it is not for {}", missing.join(", ")))
        };
        with_first(&self.certificate, look).unwrap_or_else(|| Some("it is no certificate".to_owned()))
    }
}

/// Whether four fifths of its life are over, or all of it.
fn is_old(certificate: &X509Certificate<'_>, life: Duration, now: Timestamp) -> Option<String> {
    let validity = certificate.validity();
    let (from, until) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    // It may have been made with another life in mind, and counts from a little before it was made.
    let life = SignedDuration::try_from(life).unwrap_or(SignedDuration::MAX);
    let life = life.min(SignedDuration::from_secs(until.saturating_sub(from).max(0)));
    let last = Timestamp::from_second(until).unwrap_or(Timestamp::MAX) - life / LIFE_LEFT;
    (now > last).then(|| format!("it ends at {}", Timestamp::from_second(until).unwrap_or(Timestamp::MAX)))
}

fn held_names(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let found = certificate.subject_alternative_name().ok().flatten();
    let names = found.iter().flat_map(|it| &it.value.general_names);
    let names = names.filter_map(|it| match it {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    names.collect()
}

fn blocks(pem: &str) -> Vec<Pem> {
    let all = Pem::iter_from_buffer(pem.as_bytes()).filter_map(Result::ok);
    all.filter(|it| it.label == "CERTIFICATE").collect()
}

fn with_first<T>(pem: &str, read: impl FnOnce(&X509Certificate<'_>) -> T) -> Option<T> {
    let first = blocks(pem).into_iter().next()?;
    let (_, certificate) = X509Certificate::from_der(&first.contents).ok()?;
    Some(read(&certificate))
}

/// All authorities that are trusted: that of today first, and those before it whose time is not over.
pub fn bundle(before: &str, signer: &str, now: Timestamp) -> String {
    let all = blocks(signer).into_iter().take(1).chain(blocks(before));
    let mut kept: Vec<Pem> = Vec::new();
    for block in all {
        let is_over = |it: &X509Certificate<'_>| it.validity().not_after.timestamp() <= now.as_second();
        let is_valid = X509Certificate::from_der(&block.contents).is_ok_and(|(_, it)| !is_over(&it));
        if is_valid && kept.iter().all(|it| it.contents != block.contents) {
            kept.push(block);
        }
    }
    let pem = |it: &Pem| x509_cert::der::pem::encode_string("CERTIFICATE", LineEnding::LF, &it.contents);
    kept.iter().filter_map(|it| pem(it).ok()).collect()
}

/// A new authority.
///
/// # Errors
/// When no key can be made.
pub fn new_signer(life: Duration, now: Timestamp) -> Result<Pair, AuthorityError> {
    let name = format!("{SIGNER_NAME}@{}", now.as_second());
    let (certificate, key) = Authority::create(&name, life, now)?;
    Ok(Pair { certificate, key })
}

/// A new certificate for these names.
///
/// # Errors
/// When the authority does not sign.
pub fn new_target(signer: &Pair, names: &[String], life: Duration, now: Timestamp) -> Result<Pair, AuthorityError> {
    let failed = |error: &dyn std::fmt::Display| AuthorityError::Build(error.to_string());
    let authority = Authority::read(signer.certificate.as_bytes(), signer.key.as_bytes())?;
    let random: [u8; 32] = rand::random();
    let key = SigningKey::from_bytes(&random.into()).map_err(|it| failed(&it))?;
    let common_name = names.first().map(String::as_str).unwrap_or_default();
    let subject: Name = format!("CN={common_name}").parse()?;
    let public_key = key.verifying_key().to_public_key_der().map_err(|it| failed(&it))?;
    let asked = Asked {
        user: common_name.to_owned(),
        groups: BTreeSet::new(),
        organizational_units: BTreeSet::new(),
        names: names.iter().cloned().map(Some).collect(),
        subject_der: subject.to_der()?,
        public_key_der: public_key.as_bytes().to_vec(),
    };
    Ok(Pair {
        // The authority comes with it, as with upstream's.
        certificate: authority.sign(&asked, life, now)? + &signer.certificate,
        key: key.to_pkcs8_pem(LineEnding::LF).map_err(|it| failed(&it))?.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn now() -> Timestamp {
        Timestamp::from_second(1_900_000_000).unwrap()
    }

    fn days(count: i64) -> Timestamp {
        now() + SignedDuration::from_hours(24 * count)
    }

    fn names() -> Vec<String> {
        vec!["cluster-manager-registration-webhook.open-cluster-management-hub.svc".to_owned()]
    }

    #[test]
    fn a_signer_is_renewed_after_four_fifths_of_its_life() {
        let signer = new_signer(365 * DAY, now()).unwrap();
        assert_eq!(signer.signer_is_due(365 * DAY, days(291)), None);
        assert!(
            signer
                .signer_is_due(365 * DAY, days(293))
                .unwrap()
                .starts_with("it ends at")
        );
        let torn = Pair {
            key: "x".to_owned(),
            ..signer.clone()
        };
        assert_eq!(
            torn.signer_is_due(365 * DAY, now()).unwrap(),
            "tls.key holds no PEM private key"
        );
        let other = Pair {
            key: new_signer(DAY, now()).unwrap().key,
            ..signer
        };
        assert!(
            other
                .signer_is_due(365 * DAY, now())
                .unwrap()
                .contains("not the key of the certificate")
        );
    }

    #[test]
    fn a_target_is_renewed_for_age_names_and_signer() {
        let signer = new_signer(365 * DAY, now()).unwrap();
        let target = new_target(&signer, &names(), 30 * DAY, now()).unwrap();
        let due = |names: &[String], authorities: &str, at| target.target_is_due(names, authorities, 30 * DAY, at);
        assert_eq!(due(&names(), &signer.certificate, days(23)), None);
        assert!(due(&names(), &signer.certificate, days(25)).is_some());
        assert_eq!(
            due(&["a.svc".to_owned()], &signer.certificate, now()).unwrap(),
            "it is not for a.svc"
        );
        let next = new_signer(365 * DAY, days(1)).unwrap();
        assert_eq!(
            due(&names(), &next.certificate, now()).unwrap(),
            "none of the authorities has signed it"
        );
        let both = bundle(&signer.certificate, &next.certificate, days(1));
        assert_eq!(due(&names(), &both, days(1)), None);
        let empty = Pair {
            certificate: "nonsense".to_owned(),
            key: String::new(),
        };
        assert!(empty.target_is_due(&names(), &both, 30 * DAY, now()).is_some());
    }

    #[test]
    fn a_short_life_is_no_reason_to_renew_at_once() {
        let minute = Duration::from_secs(60);
        let signer = new_signer(DAY, now() - SignedDuration::from_hours(1)).unwrap();
        let target = new_target(&signer, &names(), minute, now()).unwrap();
        let at = |seconds| now() + SignedDuration::from_secs(seconds);
        let due = |seconds| {
            target
                .target_is_due(&names(), &signer.certificate, minute, at(seconds))
                .is_some()
        };
        assert_eq!([due(1), due(47), due(49), due(61)], [false, false, true, true]);
    }

    #[test]
    fn a_bundle_has_each_valid_authority_once_the_newest_first() {
        let (old, next) = (
            new_signer(10 * DAY, now()).unwrap(),
            new_signer(20 * DAY, days(8)).unwrap(),
        );
        let first = bundle("garbage", &old.certificate, now());
        assert_eq!(first, old.certificate);
        assert_eq!(bundle(&first, &old.certificate, now()), first);
        let both = bundle(&first, &next.certificate, days(8));
        assert_eq!(both, next.certificate.clone() + &old.certificate);
        assert_eq!(bundle(&both, &next.certificate, days(11)), next.certificate);
    }
}
