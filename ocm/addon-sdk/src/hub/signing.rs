//! Signs the approved certificate requests of add-ons whose signer is an authority of their own.
//!
//! Root: CertificateSigningRequest. Reads: the cluster and the add-on that its labels name, the Secret with the authority.
//! Writes: `status.certificate`; an event at the add-on while there is no authority.
//! Never: signs for the hub's own signers, which the hub's API server serves; signs because somebody has approved: a request is
//! checked again, so that not even an administrator's slip gives one add-on the identity of another; keeps or logs a key.
//! Upstream: addon-framework `pkg/addonmanager/controllers/certificate/csrsign.go`.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{certificates::v1::CertificateSigningRequest, core::v1::Secret},
};
use kube::{Api, ResourceExt};
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn, conditions::managed_cluster_add_on::signing_reason as reason, identity,
};
use ocm_reconcile::{
    ObserveError, Outcome, Plan, Queue, Reconciler, Site, Step, Target, async_trait, plan, segment::encoded,
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{Context, Look, authorities::Authorities, authority::Authority, request};
use crate::{Registration, warning::warning};

/// How soon to look again for an authority that nobody told of: who may read a Secret need not be allowed to watch it.
const UNTOLD_AGAIN: Duration = Duration::from_secs(30);

/// How soon the same is told again. An event lives for an hour.
const TOLD_AGAIN: jiff::SignedDuration = jiff::SignedDuration::from_mins(30);

/// The reconciler.
pub struct Signer {
    context: Context,
    authorities: Authorities,
    // What was told of which request, and when.
    told: Mutex<HashMap<String, (String, Timestamp)>>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The request; `None` when it is gone.
    pub request: Option<Arc<CertificateSigningRequest>>,
    /// What there is to say about it; `None` when it is not for us to sign.
    pub verdict: Option<Verdict>,
    /// Whether that was told already.
    pub is_told: bool,
}

/// What there is to say about a request.
pub enum Verdict {
    /// Something else must happen first.
    Waits(String),
    /// There is no authority to sign it with, and somebody has to make it.
    NoAuthority {
        /// The add-on that is for.
        addon: Arc<ManagedClusterAddOn>,
        /// What is wrong with it.
        why: String,
    },
    /// It is not a request of this add-on's agent.
    Refused(String),
    /// The certificate for it, as PEM. It is made before the plan, because a signature needs a key and chance.
    Signed(String),
}

/// Why a request cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[error("could not read {what}")]
struct SignError {
    what: String,
    source: kube::Error,
}

impl Signer {
    /// Over this context. It adds to `queue` what waits for an authority that has changed, until cancelled.
    pub fn new(context: &Context, queue: &Queue, cancel: &CancellationToken) -> Self {
        Self {
            authorities: Authorities::new(context.client.clone(), queue.clone(), cancel.clone()),
            context: context.clone(),
            told: Mutex::default(),
        }
    }

    /// The authority in the Secret of this namespace and name, or what is wrong with that.
    async fn authority(
        &self,
        namespace: &str,
        name: &str,
        signer: &str,
    ) -> Result<Result<Authority, String>, SignError> {
        let what = format!("Secret {namespace}/{name}, the authority of signer {signer}");
        let api = Api::<Secret>::namespaced(self.context.client.clone(), &encoded(namespace));
        let secret = match api.get_opt(&encoded(name)).await {
            Ok(Some(secret)) => secret,
            Ok(None) => return Ok(Err(format!("there is no {what}"))),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                return Ok(Err(format!("the manager of add-ons may not read {what}")));
            }
            Err(source) => return Err(SignError { what, source }),
        };
        let data = secret.data.unwrap_or_default();
        let value = |key: &str| data.get(key).map(|it| it.0.as_slice()).unwrap_or_default();
        let read = Authority::read(value("tls.crt"), value("tls.key"));
        Ok(read.map_err(|error| format!("{what}, is none: {error}")))
    }

    async fn verdict(&self, request: &CertificateSigningRequest) -> Result<Option<Verdict>, SignError> {
        let signable = request::is_approved(request)
            && !request::is_signed(request)
            && request.spec.signer_name != identity::CLIENT_SIGNER;
        let Some(key) = request::key(request).filter(|_| signable) else {
            return Ok(None);
        };
        let standing = match self.context.look(&key) {
            Look::NotOurs => return Ok(None),
            Look::Gone => {
                let why = "there is no such add-on on the cluster that its labels name";
                return Ok(Some(Verdict::Refused(why.to_owned())));
            }
            Look::Waits(why) => return Ok(Some(Verdict::Waits(why))),
            Look::Here(standing) => standing,
        };
        let asked = match request::read(request) {
            Ok(asked) => asked,
            Err(why) => return Ok(Some(Verdict::Refused(why.to_owned()))),
        };
        let registration = match request::check(request, &asked, &standing, &self.context.options.grpc_user) {
            Ok(registration) => registration,
            Err(why) => return Ok(Some(Verdict::Refused(why))),
        };
        let Registration::CustomSigner {
            signer,
            signing: Some(signing),
            ..
        } = registration
        else {
            // Somebody else signs.
            return Ok(None);
        };
        let namespace = signing.namespace.as_deref().unwrap_or(&self.context.hub.namespace);
        let authority = match self.authority(namespace, &signing.secret, &signer).await? {
            Ok(authority) => authority,
            Err(why) => {
                self.authorities.wait(&request.name_any(), namespace, &signing.secret);
                let addon = standing.place.addon;
                return Ok(Some(Verdict::NoAuthority { addon, why }));
            }
        };
        let lifetime = lifetime(request, signing.lifetime);
        Ok(Some(match authority.sign(&asked, lifetime, Timestamp::now()) {
            Ok(certificate) => Verdict::Signed(certificate),
            // Such as that it has expired: another one may come.
            Err(error) => {
                self.authorities.wait(&request.name_any(), namespace, &signing.secret);
                let addon = standing.place.addon;
                let why = format!(
                    "Secret {namespace}/{} cannot sign for {signer}: {error}",
                    signing.secret
                );
                Verdict::NoAuthority { addon, why }
            }
        }))
    }
}

/// Hands over the certificate for a request, as PEM.
pub(crate) fn certified(request: &CertificateSigningRequest, certificate: &str) -> Step {
    let mut signed = request.clone();
    signed.status.get_or_insert_default().certificate = Some(ByteString(certificate.as_bytes().to_vec()));
    let target = Target::of(Site::Hub, request);
    let object = plan::typed(&signed, &target.api_resource);
    Step::Replace {
        target,
        subresource: Some("status"),
        object,
    }
}

fn lifetime(request: &CertificateSigningRequest, max: Duration) -> Duration {
    let asked = request.spec.expiration_seconds.and_then(|it| u64::try_from(it).ok());
    asked.map_or(max, |seconds| max.min(Duration::from_secs(seconds)))
}

#[async_trait]
impl Reconciler for Signer {
    const NAME: &'static str = "addon-csr-signing";
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let request = self.context.caches.requests.named(name);
        let verdict = match request.as_deref() {
            Some(request) => self.verdict(request).await?,
            None => None,
        };
        let now = Timestamp::now();
        let is_told = match &verdict {
            Some(Verdict::NoAuthority { why, .. }) => {
                let told = self.told.lock();
                let last = told.get(name).filter(|(text, _)| text == why);
                last.is_some_and(|(_, at)| now.duration_since(*at) < TOLD_AGAIN)
            }
            _ => {
                self.authorities.done(name);
                self.told.lock().remove(name);
                false
            }
        };
        Ok(Seen {
            now,
            request,
            verdict,
            is_told,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let (Some(request), Some(verdict)) = (&seen.request, &seen.verdict) else {
            return plan;
        };
        match verdict {
            Verdict::Waits(why) => drop(plan.wait(why)),
            Verdict::NoAuthority { addon, why } => {
                plan.refuse(why).look_again(UNTOLD_AGAIN);
                if !seen.is_told {
                    let note = format!("CSR {} cannot be signed: {why}", request.name_any());
                    plan.push(warning(addon, reason::NO_AUTHORITY, "Sign", note, seen.now));
                }
            }
            Verdict::Refused(why) => drop(plan.refuse(why)),
            Verdict::Signed(certificate) => {
                plan.push(certified(request, certificate));
            }
        }
        plan
    }

    fn remember(&self, seen: &Seen, _: &Outcome) {
        if let (Some(request), Some(Verdict::NoAuthority { why, .. }), false) =
            (&seen.request, &seen.verdict, seen.is_told)
        {
            let what = (why.clone(), seen.now);
            self.told.lock().insert(request.name_any(), what);
        }
    }
}

#[cfg(test)]
#[path = "signing_tests.rs"]
mod tests;
