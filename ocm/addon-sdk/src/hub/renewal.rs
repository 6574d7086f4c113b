//! When a certificate that an [`Authority`] has issued is due for another.

use std::{collections::BTreeSet, net::IpAddr};

use jiff::{SignedDuration, Timestamp};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, pem::Pem, prelude::FromDer};

use super::authority::{Authority, Leaf, LeafUsage};

/// A certificate is renewed when this part of its life is left, as upstream's are.
const LAST_PART: i64 = 5;

/// When a certificate, PEM, is to be renewed; the error says why that is now.
///
/// # Errors
/// When it cannot be read, is not of this authority, is not for this leaf, or a fifth of its life or less is left.
pub fn renewal(
    certificate_pem: &[u8],
    authority_pem: &[u8],
    leaf: &Leaf,
    now: Timestamp,
) -> Result<Timestamp, &'static str> {
    let (der, of_authority) = (first(certificate_pem), first(authority_pem));
    let (Some(der), Some(of_authority)) = (der, of_authority) else {
        return Err("there is no certificate");
    };
    let read = X509Certificate::from_der(&der).and_then(|it| Ok((it.1, X509Certificate::from_der(&of_authority)?.1)));
    let Ok((certificate, authority)) = read else {
        return Err("the certificate cannot be read");
    };
    if !Authority::has_signed(&authority, &certificate) {
        return Err("it is of another authority");
    }
    if names(&certificate) != leaf.names.iter().map(|it| canonical(it)).collect() {
        return Err("its names have changed");
    }
    let usage = certificate.extended_key_usage().ok().flatten().map(|it| it.value);
    let is_for = usage.is_some_and(|it| match leaf.usage {
        LeafUsage::Server => it.server_auth,
        LeafUsage::Client => it.client_auth,
    });
    if !is_for {
        return Err("it is for another use");
    }
    let validity = certificate.validity();
    let (from, until) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let seconds = until - (until - from) / LAST_PART;
    let at = Timestamp::from_second(seconds).map_err(|_| "its end cannot be read")?;
    if at <= now { Err("it ends soon") } else { Ok(at) }
}

/// When a certificate, PEM, ends.
pub fn expiry(certificate_pem: &[u8]) -> Option<Timestamp> {
    let der = first(certificate_pem)?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

/// How long until then; nothing when that is past.
pub fn until(at: Timestamp, now: Timestamp) -> std::time::Duration {
    let left: SignedDuration = at.duration_since(now);
    left.try_into().unwrap_or_default()
}

fn first(pem: &[u8]) -> Option<Vec<u8>> {
    let mut blocks = Pem::iter_from_buffer(pem).map_while(Result::ok);
    blocks.find(|it| it.label == "CERTIFICATE").map(|it| it.contents)
}

/// An address in one way of writing.
fn canonical(name: &str) -> String {
    name.parse::<IpAddr>()
        .map_or_else(|_| name.to_owned(), |it| it.to_string())
}

fn names(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let names = extension.into_iter().flat_map(|it| &it.value.general_names);
    names
        .filter_map(|it| match it {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => {
                let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                let v6 = <[u8; 16]>::try_from(*bytes).map(IpAddr::from);
                v4.or(v6).ok().map(|it| it.to_string())
            }
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn a_certificate_is_renewed_before_its_end() {
        let now: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
        let made = |name| Authority::create(name, DAY * 1000, now).unwrap();
        let ((authority_pem, key), other) = (made("a"), made("b"));
        let authority = Authority::read(authority_pem.as_bytes(), key.as_bytes()).unwrap();
        let leaf = Leaf {
            common_name: "x".to_owned(),
            names: vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
            usage: LeafUsage::Server,
        };
        let pem = authority.issue(&leaf, DAY * 10, now).unwrap().certificate_pem;
        let due = |leaf: &Leaf, authority: &str, now| renewal(pem.as_bytes(), authority.as_bytes(), leaf, now);
        let at = due(&leaf, &authority_pem, now).unwrap();
        assert_eq!(until(at, now).as_secs() / 3600, 10 * 24 * 4 / 5);
        assert_eq!(due(&leaf, &authority_pem, at), Err("it ends soon"));
        assert_eq!(due(&leaf, &other.0, now), Err("it is of another authority"));
        let mut more = leaf.clone();
        more.names.push("::1".to_owned());
        assert_eq!(due(&more, &authority_pem, now), Err("its names have changed"));
        let client = Leaf {
            usage: LeafUsage::Client,
            ..leaf.clone()
        };
        assert_eq!(due(&client, &authority_pem, now), Err("it is for another use"));
        assert_eq!(renewal(b"x", b"y", &leaf, now), Err("there is no certificate"));
        let end = expiry(pem.as_bytes()).unwrap();
        assert_eq!(end, now + SignedDuration::from_hours(240));
    }
}
