//! When to ask for a certificate, when to wait, when to save one. Plain functions: the caller brings time,
//! chance and key.
//!
//! Upstream: ocm `pkg/registration/register/csr/csr.go`. We differ in two things: a denied request is told as such, and
//! not waited for until it vanishes; and what a cluster or an add-on of the same name has asked for before it was
//! deleted and made anew does not count against it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ObjectMeta;
use ocm_api::{identity, labels};

use crate::{
    certificate::Chain,
    csr::CertificateSubject,
    hub_secret::{Data, PENDING_KEY, TLS_CRT, TLS_KEY},
};

/// With so many requests of one cluster, or of one add-on on it, on the hub, no more are made. Only those of its
/// [present life](is_of_life) count.
pub const REQUESTS_MAX: usize = 10;
/// The least and the most of its life that a certificate has left when it is renewed; drawn anew each time.
pub const THRESHOLD: std::ops::Range<f64> = 0.20..0.25;
/// What the condition says when there are too many requests.
pub const TOO_MANY: &str = "Stop creating csr since there are too many csr created already on hub";

/// What the condition says of a certificate with this life, in the words and with the dates of upstream.
pub fn rotated(not_before: Timestamp, not_after: Timestamp) -> String {
    let go = |it: Timestamp| it.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string();
    let (from, to) = (go(not_before), go(not_after));
    format!("client certificate rotated starting from {from} to {to}")
}

/// Everything a decision is made from.
#[derive(Clone)]
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// At what remaining fraction of its life a certificate is renewed, from [`THRESHOLD`].
    pub threshold: f64,
    /// For whom the certificate must be.
    pub subject: CertificateSubject,
    /// What the Secret must hold besides certificate and key.
    pub additional: Data,
    /// What it holds; empty when it does not exist.
    pub data: Data,
    /// The request under way.
    pub pending: Option<Pending>,
    /// How many requests of this cluster, not of its add-ons, are on the hub.
    pub requests: usize,
}

/// A request under way. Its key stands in the Secret, so that it is taken up again after a restart.
#[derive(Clone)]
pub struct Pending {
    /// The name the hub gave it.
    pub name: String,
    /// The private key it was made with.
    pub key_pem: String,
    /// The request as it is on the hub; `None` when it is gone.
    pub request: Option<CertificateSigningRequest>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateDecision {
    /// All is well; look again at this time.
    Keep {
        /// When the certificate is to be renewed.
        until: Timestamp,
    },
    /// Ask for a certificate.
    Create {
        /// Why.
        why: String,
    },
    /// A request is under way.
    Wait {
        /// What for.
        why: String,
    },
    /// Write this into the Secret; then forget the request.
    Save {
        /// The whole new data of the Secret.
        data: Data,
        /// From when the certificate is valid.
        not_before: Timestamp,
        /// Until when.
        not_after: Timestamp,
    },
    /// Forget the request and look again: it is gone or of no use.
    Reset {
        /// Why.
        why: String,
    },
    /// Do nothing until the user has changed something.
    Refuse {
        /// Why.
        why: String,
    },
}

// The name of before, for the time of the change.

/// Decides what to do next.
pub fn decide(seen: &Seen) -> CertificateDecision {
    if let Some(pending) = &seen.pending {
        return follow(seen, pending);
    }
    let Some(why) = reason_to_ask(seen) else {
        let chain = Chain::parse(seen.data.get(TLS_CRT).map_or(&[], Vec::as_slice));
        return match chain {
            Ok(chain) => CertificateDecision::Keep {
                until: chain.when_remaining(seen.threshold),
            },
            Err(error) => CertificateDecision::Create { why: error.to_string() },
        };
    };
    if seen.requests >= REQUESTS_MAX {
        return CertificateDecision::Refuse {
            why: TOO_MANY.to_owned(),
        };
    }
    CertificateDecision::Create { why }
}

fn follow(seen: &Seen, pending: &Pending) -> CertificateDecision {
    let Some(request) = &pending.request else {
        return CertificateDecision::Reset {
            why: format!("the certificate signing request {} is gone", pending.name),
        };
    };
    let status = request.status.as_ref();
    let conditions = status.and_then(|it| it.conditions.as_deref()).unwrap_or_default();
    if let Some(denied) = conditions
        .iter()
        .find(|it| it.type_ == "Denied" || it.type_ == "Failed")
    {
        let message = denied
            .message
            .as_deref()
            .or(denied.reason.as_deref())
            .unwrap_or("no reason given");
        return CertificateDecision::Refuse {
            why: format!(
                "the certificate signing request {} is {}: {message}",
                pending.name,
                denied.type_.to_lowercase()
            ),
        };
    }
    if !conditions.iter().any(|it| it.type_ == "Approved") {
        return CertificateDecision::Wait {
            why: format!("the certificate signing request {} is not approved yet", pending.name),
        };
    }
    let Some(certificate) = status
        .and_then(|it| it.certificate.as_ref())
        .filter(|it| !it.0.is_empty())
    else {
        return CertificateDecision::Wait {
            why: format!("the certificate signing request {} is not signed yet", pending.name),
        };
    };
    let chain = match Chain::parse(&certificate.0) {
        // It was issued while nobody was there to fetch it.
        Ok(chain) if chain.is_expired(seen.now) => {
            return CertificateDecision::Reset {
                why: format!("the issued certificate expired at {}", chain.not_after),
            };
        }
        Ok(chain) if chain.belongs_to(pending.key_pem.as_bytes()) => chain,
        Ok(_) => {
            return CertificateDecision::Reset {
                why: "the issued certificate is not for the key it was asked for".to_owned(),
            };
        }
        Err(error) => {
            return CertificateDecision::Reset {
                why: format!("the issued certificate cannot be read: {error}"),
            };
        }
    };
    let mut data = seen.data.clone();
    data.extend(seen.additional.clone());
    data.insert(TLS_CRT.to_owned(), certificate.0.clone());
    data.insert(TLS_KEY.to_owned(), pending.key_pem.clone().into_bytes());
    data.remove(PENDING_KEY);
    CertificateDecision::Save {
        data,
        not_before: chain.not_before,
        not_after: chain.not_after,
    }
}

/// Whether nothing can come of a request any more.
pub fn is_denied(request: &CertificateSigningRequest) -> bool {
    let conditions = request.status.as_ref().and_then(|it| it.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|it| it.type_ == "Denied" || it.type_ == "Failed")
}

/// Why a new certificate is needed, if one is.
pub fn reason_to_ask(seen: &Seen) -> Option<String> {
    let Some(certificate) = seen.data.get(TLS_CRT) else {
        return Some("there is no client certificate".to_owned());
    };
    let chain = match Chain::parse(certificate) {
        Ok(chain) => chain,
        Err(error) => return Some(format!("the client certificate cannot be read: {error}")),
    };
    let set = |it: &[String]| it.iter().cloned().collect::<BTreeSet<_>>();
    if chain.common_name != seen.subject.common_name
        || chain.organizations != set(&seen.subject.organizations)
        || chain.organizational_units != set(&seen.subject.organizational_units)
    {
        return Some("the client certificate is for another subject".to_owned());
    }
    if !seen.data.get(TLS_KEY).is_some_and(|key| chain.belongs_to(key)) {
        return Some("the private key is not that of the client certificate".to_owned());
    }
    if let Some((key, _)) = seen
        .additional
        .iter()
        .find(|(key, value)| seen.data.get(*key) != Some(value))
    {
        return Some(format!("{key} of the credential has changed"));
    }
    if chain.is_expired(seen.now) {
        return Some(format!("the client certificate expired at {}", chain.not_after));
    }
    (chain.remaining(seen.now) <= seen.threshold)
        .then(|| format!("the client certificate expires at {}", chain.not_after))
}

/// The request for a cluster's certificate, as upstream shapes it.
pub fn request(cluster: &str, request_pem: &str, expiration_seconds: Option<i32>) -> CertificateSigningRequest {
    let labels = [(labels::CLUSTER_NAME, cluster)];
    shaped(
        format!("{cluster}-"),
        &labels,
        identity::CLIENT_SIGNER,
        request_pem,
        expiration_seconds,
    )
}

/// The request for the certificate of an add-on's agent, as upstream shapes it.
pub fn addon_request(cluster: &str, addon: &str, signer: &str, request_pem: &str) -> CertificateSigningRequest {
    let labels = [(labels::CLUSTER_NAME, cluster), (labels::ADDON_NAME, addon)];
    shaped(format!("addon-{cluster}-{addon}-"), &labels, signer, request_pem, None)
}

fn shaped(
    generate_name: String,
    labels: &[(&str, &str)],
    signer: &str,
    request_pem: &str,
    expiration_seconds: Option<i32>,
) -> CertificateSigningRequest {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    CertificateSigningRequest {
        metadata: ObjectMeta {
            generate_name: Some(generate_name),
            labels: Some(labels.collect()),
            ..ObjectMeta::default()
        },
        spec: CertificateSigningRequestSpec {
            request: k8s_openapi::ByteString(request_pem.as_bytes().to_vec()),
            signer_name: signer.to_owned(),
            usages: Some(
                ["digital signature", "key encipherment", "client auth"]
                    .map(str::to_owned)
                    .to_vec(),
            ),
            expiration_seconds: expiration_seconds.filter(|it| *it != 0),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    }
}

/// Whether a request was made since this cluster or add-on was. Both times are of the hub's clock, in whole seconds.
pub fn is_of_life(request: &CertificateSigningRequest, born: Option<&Time>) -> bool {
    match (&request.metadata.creation_timestamp, born) {
        (Some(made), Some(born)) => made.0 >= born.0,
        _ => true,
    }
}

/// Whether a request on the hub is one of this cluster and not of one of its add-ons.
pub fn is_of_cluster(request: &CertificateSigningRequest, cluster: &str) -> bool {
    let labels = request.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|it| it.get(key)).map(String::as_str);
    label(labels::CLUSTER_NAME) == Some(cluster)
        && label(labels::ADDON_NAME).is_none()
        && request
            .metadata
            .name
            .as_deref()
            .is_some_and(|it| it.starts_with(&format!("{cluster}-")))
}

#[cfg(test)]
#[path = "enrol_tests.rs"]
mod tests;
