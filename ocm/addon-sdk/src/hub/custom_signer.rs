//! Whether an approved certificate request of an add-on is to be signed here, and with the authority in which Secret.
//!
//! That somebody has approved it does not count: a request is checked again, so that not even an administrator's slip
//! gives one add-on the identity of another.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use kube::ResourceExt;
use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, conditions::managed_cluster_add_on::signing_reason as reason};
use ocm_reconcile::{Done, Plan, Site, Step, StepError, Target, plan};
use serde_json::{Value, json};

use super::{
    Look,
    request::{self, Asked},
};
use crate::{Registration, warning::warning};

/// How soon to look again for an authority that nobody told of: who may read a Secret need not be allowed to watch it.
const UNTOLD_AGAIN: Duration = Duration::from_secs(30);

/// How soon the same is told again. An event lives for an hour.
const TOLD_AGAIN: SignedDuration = SignedDuration::from_mins(30);

/// What has to be done about a request.
pub enum SigningDecision {
    /// It is not for us to sign.
    NotOurs,
    /// Something else must happen first.
    Waits(String),
    /// It is not a request of this add-on's agent.
    Refused(String),
    /// It gets a certificate.
    Due(Box<DueCertificate>),
}

/// The certificate that a request gets.
#[derive(Clone)]
pub struct DueCertificate {
    /// The add-on that it is for.
    pub addon: Arc<ManagedClusterAddOn>,
    /// What it says.
    pub asked: Asked,
    /// How long it is valid.
    pub lifetime: Duration,
    /// Who signs it.
    pub signer: String,
    /// The namespace of the Secret with the signer's authority.
    pub namespace: String,
    /// The name of that Secret.
    pub secret: String,
}

/// What has to be done about a request. Authorities are in `namespace` where a registration does not say otherwise.
pub fn signature(
    request: Option<&CertificateSigningRequest>,
    look: &Look,
    grpc_user: &str,
    namespace: &str,
) -> SigningDecision {
    let Some(request) = request.filter(|it| request::awaits_custom_signer(it)) else {
        return SigningDecision::NotOurs;
    };
    let installed = match look {
        Look::NotOurs => return SigningDecision::NotOurs,
        Look::Gone => {
            let why = "there is no such add-on on the cluster that its labels name";
            return SigningDecision::Refused(why.to_owned());
        }
        Look::Waits(why) => return SigningDecision::Waits(why.clone()),
        Look::Here(installed) => installed,
    };
    let asked = match request::read(request) {
        Ok(asked) => asked,
        Err(why) => return SigningDecision::Refused(why.to_owned()),
    };
    match request::check(request, &asked, installed, grpc_user) {
        Err(why) => SigningDecision::Refused(why),
        Ok(Registration::CustomSigner {
            signer,
            signing: Some(signing),
            ..
        }) => SigningDecision::Due(Box::new(DueCertificate {
            addon: installed.place.addon.clone(),
            asked,
            lifetime: lifetime(request, signing.lifetime),
            signer,
            namespace: signing.namespace.unwrap_or_else(|| namespace.to_owned()),
            secret: signing.secret,
        })),
        // Somebody else signs.
        Ok(_) => SigningDecision::NotOurs,
    }
}

fn lifetime(request: &CertificateSigningRequest, max: Duration) -> Duration {
    let asked = request.spec.expiration_seconds.and_then(|it| u64::try_from(it).ok());
    asked.map_or(max, |seconds| max.min(Duration::from_secs(seconds)))
}

/// The request with its certificate, which is PEM.
pub(super) fn with_certificate(request: &CertificateSigningRequest, certificate: &str) -> Value {
    let mut signed = request.clone();
    signed.status.get_or_insert_default().certificate = Some(ByteString(certificate.as_bytes().to_vec()));
    plan::typed(&signed, &Target::of(Site::Hub, request).api_resource)
}

/// Hands over the certificate for a request, as PEM.
pub(crate) fn certified(request: &CertificateSigningRequest, certificate: &str) -> Step {
    hand_over(request, with_certificate(request, certificate))
}

fn hand_over(request: &CertificateSigningRequest, object: Value) -> Step {
    Step::Replace {
        target: Target::of(Site::Hub, request),
        subresource: Some("status"),
        object,
    }
}

/// What is done when it was tried to sign: the request with its certificate is put back, or there is no authority.
pub(super) fn concluded(
    request: &CertificateSigningRequest,
    due: &DueCertificate,
    signed: &Result<Done, StepError>,
    told: Option<&LastWarning>,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::new();
    match signed {
        Ok(Done::Object(object)) => drop(plan.push(hand_over(request, json!(object)))),
        Err(StepError::Own(why)) => plan = without_authority(request, due, why, told, now),
        Ok(_) | Err(_) => {}
    }
    plan
}

/// What was told of a request that waits for an authority, and when.
pub type LastWarning = (String, Timestamp);

/// There is no authority to sign with, and somebody has to make it.
pub(super) struct NoAuthority {
    /// The name of the request.
    pub request: String,
    /// The Secret that it waits for, by namespace and name.
    pub secret: (String, String),
    /// What was told last of it.
    pub told: LastWarning,
}

/// What to do where there is no authority for a certificate: the user is told, but not all the time.
fn without_authority(
    request: &CertificateSigningRequest,
    due: &DueCertificate,
    why: &str,
    told: Option<&LastWarning>,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::new();
    plan.refuse(why).look_again(UNTOLD_AGAIN);
    let name = request.name_any();
    let last = told.filter(|(text, at)| text == why && now.duration_since(*at) < TOLD_AGAIN);
    if last.is_none() {
        let note = format!("CSR {name} cannot be signed: {why}");
        plan.push(warning(&due.addon, reason::NO_AUTHORITY, "Sign", note, now));
    }
    plan.work_out(NoAuthority {
        request: name,
        secret: (due.namespace.clone(), due.secret.clone()),
        told: last.cloned().unwrap_or_else(|| (why.to_owned(), now)),
    });
    plan
}
