//! Key, authority and certificates: what is due for another, and the new one. Nothing is written here.

use std::{collections::BTreeSet, time::Duration};

use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der},
    rsa::{KeyPair, KeySize},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use ocm_addon_sdk::{
    hub::{
        authority::{Authority, AuthorityError, Leaf, LeafUsage},
        renewal,
    },
    k8s_openapi::api::core::v1::{ConfigMap, Secret, Service},
    kube::{ResourceExt, core::ObjectMeta},
};
use x509_parser::{certificate::X509Certificate, pem::Pem};

use super::{AUTHORITY, data, labels, value};

/// The Secret with the key that the principal signs tokens with.
pub const JWT: &str = "argocd-agent-jwt";
/// The Secret with the certificate of the principal.
pub const PRINCIPAL: &str = "argocd-agent-principal-tls";
/// The Secret with the certificate of the resource proxy.
pub const RESOURCE_PROXY: &str = "argocd-agent-resource-proxy-tls";
/// The ConfigMap with the authority and its predecessors.
pub const BUNDLE: &str = "argocd-agent-ca-bundle";
/// Its key.
const BUNDLE_KEY: &str = "ca-bundle.crt";

const DAY: Duration = Duration::from_secs(24 * 3600);
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);
/// An authority is replaced when this part of its life is left, as certificates are.
const LAST_PART: i32 = 5;
const LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
const TLS: &str = "kubernetes.io/tls";

/// A Secret that is to be written.
#[derive(Clone, Debug)]
pub struct DueCredential {
    /// What is there.
    pub present: Option<Secret>,
    /// What is to be there.
    pub wanted: Secret,
}

/// An authority as it is to be, whether it is there or has just been made.
pub struct KnownAuthority {
    /// What is to be written, if it is not there.
    pub due: Option<DueCredential>,
    /// The certificate, PEM.
    pub pem: Vec<u8>,
    /// What signs.
    pub authority: Authority,
    /// When another is due.
    pub next: Timestamp,
}

/// The key for tokens: RSA of 4096 bits, PKCS#8 in PEM. It takes a moment.
///
/// # Errors
/// When no key can be made.
pub fn jwt_key() -> Result<String, String> {
    let failed = |_| "no key can be made".to_owned();
    let key = KeyPair::generate(KeySize::Rsa4096).map_err(failed)?;
    let der: Pkcs8V1Der<'_> = key.as_der().map_err(failed)?;
    let text = STANDARD.encode(der.as_ref());
    let mut pem = String::from("-----BEGIN PRIVATE KEY-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str("-----END PRIVATE KEY-----\n");
    Ok(pem)
}

/// The Secret for it.
pub fn jwt_secret(namespace: &str, key: String) -> Secret {
    secret(namespace, JWT, "Opaque", data([("jwt.key", key.into_bytes())]))
}

/// Reads the authority, or makes one where there is none or it ends soon.
///
/// # Errors
/// When what is there is none.
pub fn authority(present: Option<Secret>, namespace: &str, now: Timestamp) -> Result<KnownAuthority, String> {
    let broken = |error: AuthorityError| format!("Secret {namespace}/{AUTHORITY} is no authority: {error}");
    if let Some(present) = &present {
        let (certificate, key) = (value(present, "tls.crt"), value(present, "tls.key"));
        let authority = Authority::read(certificate, key).map_err(broken)?;
        let end = renewal::expiry(certificate).unwrap_or(now);
        let last = SignedDuration::try_from(AUTHORITY_LIFETIME / LAST_PART as u32).unwrap_or_default();
        let next = end.checked_sub(last).unwrap_or(now);
        if next > now {
            return Ok(KnownAuthority {
                due: None,
                pem: certificate.to_vec(),
                authority,
                next,
            });
        }
    }
    let (certificate, key) = Authority::create(AUTHORITY, AUTHORITY_LIFETIME, now).map_err(|it| it.to_string())?;
    let authority = Authority::read(certificate.as_bytes(), key.as_bytes()).map_err(broken)?;
    let pem = certificate.into_bytes();
    let wanted = secret(
        namespace,
        AUTHORITY,
        TLS,
        data([("tls.crt", pem.clone()), ("tls.key", key.into_bytes())]),
    );
    Ok(KnownAuthority {
        due: Some(DueCredential { present, wanted }),
        pem,
        authority,
        next: now + SignedDuration::from_hours(24 * 365 * 4 / 5),
    })
}

/// The authority and those of its predecessors that have not ended, if that is not what the ConfigMap says.
pub fn bundle(present: Option<&ConfigMap>, namespace: &str, authority_pem: &[u8], now: Timestamp) -> Option<ConfigMap> {
    let said = present
        .and_then(|it| it.data.as_ref())
        .and_then(|it| it.get(BUNDLE_KEY));
    let mut text = String::from_utf8_lossy(authority_pem).into_owned();
    for block in Pem::iter_from_buffer(said.map(String::as_bytes).unwrap_or_default()).flatten() {
        let pem = pem_of(&block.contents);
        let is_known = text.contains(pem.trim());
        if !is_known && renewal::expiry(pem.as_bytes()).is_some_and(|it| it > now) {
            text.push_str(&pem);
        }
    }
    if said == Some(&text) {
        return None;
    }
    Some(ConfigMap {
        metadata: ObjectMeta {
            name: Some(BUNDLE.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels("certificates")),
            ..ObjectMeta::default()
        },
        data: Some([(BUNDLE_KEY.to_owned(), text)].into()),
        ..ConfigMap::default()
    })
}

fn pem_of(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

/// What the principal's certificate is for: how agents reach it, inside of the hub and from elsewhere.
pub fn principal_leaf(service: Option<&Service>, nodes: &[String], namespace: &str, address: &str) -> Leaf {
    let mut names = service.map(super::discovery::balanced).unwrap_or_default();
    names.extend(nodes.iter().cloned());
    let name = service.map_or_else(|| super::discovery::PRINCIPALS[0].to_owned(), |it| it.name_any());
    names.extend(of_service(&name, namespace));
    names.push(address.to_owned());
    server(&name, names)
}

/// What the certificate of the resource proxy is for.
pub fn resource_proxy_leaf(namespace: &str) -> Leaf {
    const NAME: &str = "argocd-agent-resource-proxy";
    server(NAME, of_service(NAME, namespace).into())
}

/// What a cluster's certificate is for.
pub fn client_leaf(cluster: &str) -> Leaf {
    Leaf {
        common_name: cluster.to_owned(),
        names: Vec::new(),
        usage: LeafUsage::Client,
    }
}

fn of_service(name: &str, namespace: &str) -> [String; 5] {
    [
        format!("{name}.{namespace}.svc.cluster.local"),
        format!("{name}.{namespace}.svc"),
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ]
}

fn server(name: &str, mut names: Vec<String>) -> Leaf {
    let mut seen = BTreeSet::new();
    names.retain(|it| !it.is_empty() && seen.insert(it.clone()));
    Leaf {
        common_name: name.to_owned(),
        names,
        usage: LeafUsage::Server,
    }
}

/// A certificate that is due, or when it will be.
///
/// # Errors
/// When the authority does not sign.
pub fn certificate(
    present: Option<Secret>,
    (namespace, name): (&str, &str),
    leaf: &Leaf,
    authority: &KnownAuthority,
    now: Timestamp,
) -> Result<Result<DueCredential, Timestamp>, String> {
    if let Some(present) = &present {
        let (certificate, key) = (value(present, "tls.crt"), value(present, "tls.key"));
        let fits =
            Authority::read(certificate, key).is_ok() && common_name(certificate) == Some(leaf.common_name.clone());
        if let Ok(next) = renewal::renewal(certificate, &authority.pem, leaf, now)
            && fits
        {
            return Ok(Err(next));
        }
    }
    let issued = authority
        .authority
        .issue(leaf, LIFETIME, now)
        .map_err(|it| it.to_string())?;
    let all = data([
        ("tls.crt", issued.certificate_pem.into_bytes()),
        ("tls.key", issued.key_pem.into_bytes()),
    ]);
    let wanted = secret(namespace, name, TLS, all);
    Ok(Ok(DueCredential { present, wanted }))
}

/// How long until the next one is due, at most a day: a wait for months is one until somebody looks at the clock.
pub fn wait(next: Timestamp, now: Timestamp) -> Duration {
    renewal::until(next, now).min(DAY)
}

fn common_name(pem: &[u8]) -> Option<String> {
    let block = Pem::iter_from_buffer(pem).next()?.ok()?;
    let certificate: X509Certificate<'_> = block.parse_x509().ok()?;
    let name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
    Some(name.to_owned())
}

fn secret(
    namespace: &str,
    name: &str,
    kind: &str,
    data: std::collections::BTreeMap<String, ocm_addon_sdk::k8s_openapi::ByteString>,
) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels("certificates")),
            ..ObjectMeta::default()
        },
        type_: Some(kind.to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: &str = "2026-06-01T12:00:00Z";

    #[test]
    fn certificates_are_kept_until_they_are_due() {
        let now: Timestamp = SOME.parse().unwrap();
        let made = authority(None, "argocd", now).unwrap();
        let wanted = made.due.as_ref().unwrap().wanted.clone();
        assert_eq!(wanted.name_any(), "argocd-agent-ca");
        let known = authority(Some(wanted.clone()), "argocd", now).unwrap();
        assert!(known.due.is_none());
        let later = now + SignedDuration::from_hours(24 * 300);
        assert!(authority(Some(wanted), "argocd", later).unwrap().due.is_some());
        let place = ("argocd", "argocd-cluster-client-c1");
        let leaf = client_leaf("c1");
        let first = certificate(None, place, &leaf, &known, now).unwrap().unwrap().wanted;
        let again =
            |secret: &Secret, leaf: &Leaf, now| certificate(Some(secret.clone()), place, leaf, &known, now).unwrap();
        assert!(again(&first, &leaf, now).is_err());
        assert!(again(&first, &client_leaf("c2"), now).is_ok());
        assert!(again(&first, &leaf, now + SignedDuration::from_hours(24 * 25)).is_ok());
        let mut mixed = again(&first, &client_leaf("c2"), now).unwrap().wanted;
        mixed
            .data
            .as_mut()
            .unwrap()
            .insert("tls.crt".to_owned(), first.data.as_ref().unwrap()["tls.crt"].clone());
        assert!(again(&mixed, &leaf, now).is_ok(), "key and certificate do not match");
        let broken = Secret::default();
        let error = authority(Some(broken), "argocd", now).err().unwrap();
        assert!(
            error.starts_with("Secret argocd/argocd-agent-ca is no authority: "),
            "{error}"
        );
    }

    #[test]
    fn a_bundle_keeps_predecessors_until_their_end() {
        let now: Timestamp = SOME.parse().unwrap();
        let pem = |now| authority(None, "n", now).unwrap().pem;
        let (old, new) = (pem(now), pem(now));
        let text = |it: &ConfigMap| it.data.as_ref().unwrap()[BUNDLE_KEY].clone();
        let first = bundle(None, "n", &old, now).unwrap();
        assert!(bundle(Some(&first), "n", &old, now).is_none());
        let second = bundle(Some(&first), "n", &new, now).unwrap();
        assert_eq!(text(&second).matches("BEGIN CERTIFICATE").count(), 2);
        assert!(bundle(Some(&second), "n", &new, now).is_none());
        let end = now + SignedDuration::from_hours(24 * 366);
        let third = bundle(Some(&second), "n", &new, end).unwrap();
        assert_eq!(text(&third).matches("BEGIN CERTIFICATE").count(), 1);
    }

    #[test]
    fn names_of_the_principal_are_in_order() {
        let service = serde_json::json!({
            "metadata": {"name": "argocd-agent-principal"},
            "status": {"loadBalancer": {"ingress": [{"hostname": "p.example"}, {"ip": "192.0.2.1"}]}},
        });
        let service: Service = serde_json::from_value(service).unwrap();
        let leaf = principal_leaf(Some(&service), &[], "argocd", "p.example");
        assert_eq!(
            leaf.names,
            [
                "p.example",
                "192.0.2.1",
                "argocd-agent-principal.argocd.svc.cluster.local",
                "argocd-agent-principal.argocd.svc",
                "localhost",
                "127.0.0.1",
                "::1",
            ]
        );
    }
}
