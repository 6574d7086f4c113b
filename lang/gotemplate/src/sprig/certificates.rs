//! X.509 certificates, written in DER by hand: sprig knows one shape of them.

use std::net::IpAddr;

use aws_lc_rs::digest;
use jiff::Timestamp;
use x509_parser::certificate::X509Certificate;

use super::keys::PrivateKey;
use crate::exec::Call;

/// What a certificate is for, beside its common name.
#[derive(Default)]
pub(super) struct Names {
    pub addresses: Vec<IpAddr>,
    pub hosts: Vec<String>,
}

/// Who signs, when it is not the certificate's own key.
pub(super) struct Issuer<'a> {
    pub subject: &'a [u8],
    pub key_id: Option<Vec<u8>>,
    pub key: &'a PrivateKey,
}

pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let mut out = format!("-----BEGIN {label}-----\n");
    let text = crate::base64_of(der);
    for line in text.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

fn tagged(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|it| it.len()).sum();
    let mut out = vec![tag];
    if length < 128 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let used = &bytes[bytes.iter().take_while(|it| **it == 0).count()..];
        out.push(0x80 | used.len() as u8);
        out.extend_from_slice(used);
    }
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tagged(0x30, parts)
}

fn bits(bytes: &[u8]) -> Vec<u8> {
    tagged(0x03, &[&[0], bytes])
}

// Object identifiers with their tag and length.
const COMMON_NAME: &[u8] = &[0x06, 3, 0x55, 0x04, 0x03];
const RSA: &[u8] = &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const SHA256_RSA: &[u8] = &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
const EC: &[u8] = &[0x06, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const SHA256_ECDSA: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const ED25519: &[u8] = &[0x06, 3, 0x2b, 0x65, 0x70];
const KEY_USAGE: &[u8] = &[0x06, 3, 0x55, 0x1d, 0x0f];
const EXTENDED_KEY_USAGE: &[u8] = &[0x06, 3, 0x55, 0x1d, 0x25];
const BASIC_CONSTRAINTS: &[u8] = &[0x06, 3, 0x55, 0x1d, 0x13];
const SUBJECT_KEY_ID: &[u8] = &[0x06, 3, 0x55, 0x1d, 0x0e];
const AUTHORITY_KEY_ID: &[u8] = &[0x06, 3, 0x55, 0x1d, 0x23];
const ALTERNATIVE_NAMES: &[u8] = &[0x06, 3, 0x55, 0x1d, 0x11];
const SERVER_AUTH: &[u8] = &[0x06, 8, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const CLIENT_AUTH: &[u8] = &[0x06, 8, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];
const NULL: &[u8] = &[0x05, 0];
const TRUE: &[u8] = &[0x01, 1, 0xff];

fn public_key(key: &PrivateKey) -> Vec<u8> {
    let algorithm = match key {
        PrivateKey::Rsa(_) => sequence(&[RSA, NULL]),
        PrivateKey::Ecdsa(_) => sequence(&[EC, P256]),
        PrivateKey::Ed25519(_) => sequence(&[ED25519]),
    };
    sequence(&[&algorithm, &bits(key.public())])
}

fn signature_algorithm(key: &PrivateKey) -> Vec<u8> {
    match key {
        PrivateKey::Rsa(_) => sequence(&[SHA256_RSA, NULL]),
        PrivateKey::Ecdsa(_) => sequence(&[SHA256_ECDSA]),
        PrivateKey::Ed25519(_) => sequence(&[ED25519]),
    }
}

fn time(at: Timestamp) -> Vec<u8> {
    let at = at.to_zoned(jiff::tz::TimeZone::UTC);
    // Until 2049 a year has two digits.
    if (1950..2050).contains(&at.year()) {
        tagged(0x17, &[at.strftime("%y%m%d%H%M%SZ").to_string().as_bytes()])
    } else {
        tagged(0x18, &[at.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes()])
    }
}

fn common_name(name: &str) -> Vec<u8> {
    let printable = |it: u8| it.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&it);
    let tag = if name.bytes().all(printable) { 0x13 } else { 0x0c };
    let value = tagged(tag, &[name.as_bytes()]);
    if name.is_empty() {
        return sequence(&[]);
    }
    sequence(&[&tagged(0x31, &[&sequence(&[COMMON_NAME, &value])])])
}

fn extension(id: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let value = tagged(0x04, &[value]);
    if critical {
        sequence(&[id, TRUE, &value])
    } else {
        sequence(&[id, &value])
    }
}

/// The subject key identifier of a certificate.
pub(super) fn key_id(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate
        .extensions()
        .iter()
        .find_map(|it| match it.parsed_extension() {
            x509_parser::extensions::ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
            _ => None,
        })
}

fn extensions(names: &Names, authority: bool, key: &PrivateKey, issuer: Option<&Issuer<'_>>) -> Vec<u8> {
    // Digital signature and key encipherment; an authority signs certificates, too.
    let usage: &[u8] = if authority {
        &[0x03, 2, 2, 0xa4]
    } else {
        &[0x03, 2, 5, 0xa0]
    };
    let constraints = if authority { sequence(&[TRUE]) } else { sequence(&[]) };
    let mut all = vec![
        extension(KEY_USAGE, true, usage),
        extension(EXTENDED_KEY_USAGE, false, &sequence(&[SERVER_AUTH, CLIENT_AUTH])),
        extension(BASIC_CONSTRAINTS, true, &constraints),
    ];
    if authority {
        let id = digest::digest(&digest::SHA256, key.public());
        all.push(extension(SUBJECT_KEY_ID, false, &tagged(0x04, &[&id.as_ref()[..20]])));
    }
    if let Some(id) = issuer.and_then(|it| it.key_id.as_deref()) {
        all.push(extension(AUTHORITY_KEY_ID, false, &sequence(&[&tagged(0x80, &[id])])));
    }
    let hosts = names.hosts.iter().map(|it| tagged(0x82, &[it.as_bytes()]));
    let addresses = names.addresses.iter().map(|it| match it {
        IpAddr::V4(it) => tagged(0x87, &[&it.octets()]),
        IpAddr::V6(it) => tagged(0x87, &[&it.octets()]),
    });
    let alternatives: Vec<u8> = hosts.chain(addresses).flatten().collect();
    if !alternatives.is_empty() {
        all.push(extension(ALTERNATIVE_NAMES, false, &sequence(&[&alternatives])));
    }
    tagged(0xa3, &[&sequence(&[&all.concat()])])
}

/// Makes a certificate for a key, signed by the issuer or by the key itself.
pub(super) fn make(
    call: &Call<'_>,
    name: &str,
    days: i64,
    names: &Names,
    authority: bool,
    key: &PrivateKey,
    issuer: Option<Issuer<'_>>,
) -> Result<String, String> {
    let now = call.now();
    let until = now
        .checked_add(jiff::SignedDuration::from_hours(
            days.saturating_mul(24).clamp(-1_000_000, 10_000_000),
        ))
        .map_err(|error| format!("error creating certificate: {error}"))?;
    let mut serial = [0; 16];
    call.fill_random(&mut serial);
    // A positive number that keeps its length.
    serial[0] = serial[0] & 0x7f | 0x40;
    let signer = issuer.as_ref().map_or(key, |it| it.key);
    let subject = common_name(name);
    let algorithm = signature_algorithm(signer);
    let body = sequence(&[
        &[0xa0, 3, 0x02, 1, 2],
        &tagged(0x02, &[&serial]),
        &algorithm,
        issuer.as_ref().map_or(&subject[..], |it| it.subject),
        &sequence(&[&time(now), &time(until)]),
        &subject,
        &public_key(key),
        &extensions(names, authority, key, issuer.as_ref()),
    ]);
    let signature = signer.sign(&body)?;
    Ok(pem("CERTIFICATE", &sequence(&[&body, &algorithm, &bits(&signature)])))
}

/// The private key inside a PKCS#8 document.
pub(super) fn private_key_of(pkcs8: &[u8]) -> Option<&[u8]> {
    let (_, inside, _) = element(pkcs8)?;
    let (_, _, rest) = element(inside)?;
    let (_, _, rest) = element(rest)?;
    let (tag, key, _) = element(rest)?;
    (tag == 0x04).then_some(key)
}

/// Tag, content and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        (digits.iter().fold(0usize, |sum, it| sum << 8 | usize::from(*it)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}
