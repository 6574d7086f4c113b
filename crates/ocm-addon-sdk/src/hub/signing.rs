//! Signs the approved certificate requests of add-ons whose signer is an authority of their own.
//!
//! Root: CertificateSigningRequest. Reads: the cluster and the add-on that its labels name, the Secret with the authority.
//! Writes: `status.certificate`.
//! Never: signs for the hub's own signers, which the hub's API server serves; signs because somebody has approved: a request is
//! checked again, so that not even an administrator's slip gives one add-on the identity of another; keeps or logs a key.
//! Upstream: addon-framework `pkg/addonmanager/controllers/certificate/csrsign.go`.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{certificates::v1::CertificateSigningRequest, core::v1::Secret},
};
use kube::Api;
use ocm_api::identity;
use ocm_reconcile::{ObserveError, Plan, Reconciler, Site, Step, Target, async_trait, plan};

use super::{Context, Look, authority::Authority, request};
use crate::{Registration, Signing};

/// The reconciler.
pub struct Signer {
    context: Context,
}

/// What a plan is made from.
pub struct Seen {
    /// The request; `None` when it is gone.
    pub request: Option<Arc<CertificateSigningRequest>>,
    /// What there is to say about it; `None` when it is not for us to sign.
    pub verdict: Option<Verdict>,
}

/// What there is to say about a request.
pub enum Verdict {
    /// Something else must happen first.
    Waits(String),
    /// It is not a request of this add-on's agent.
    Refused(String),
    /// The certificate for it, as PEM. It is made before the plan, because a signature needs a key and chance.
    Signed(String),
}

/// Why a request is not signed yet.
#[derive(Debug, thiserror::Error)]
enum SignError {
    #[error("could not read Secret {namespace}/{name}, the authority of signer {signer}")]
    Secret {
        namespace: String,
        name: String,
        signer: String,
        source: kube::Error,
    },
    #[error("there is no Secret {namespace}/{name}, the authority of signer {signer}")]
    NoSecret {
        namespace: String,
        name: String,
        signer: String,
    },
    #[error("Secret {namespace}/{name} is no authority: {source}")]
    Authority {
        namespace: String,
        name: String,
        source: super::authority::AuthorityError,
    },
}

impl Signer {
    /// Over this context.
    pub fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
        }
    }

    async fn authority(&self, signing: &Signing, signer: &str) -> Result<Authority, SignError> {
        let namespace = signing
            .namespace
            .clone()
            .unwrap_or_else(|| self.context.hub.namespace.clone());
        let name = signing.secret.clone();
        let api = Api::<Secret>::namespaced(self.context.client.clone(), &namespace);
        let secret = match api.get_opt(&name).await {
            Ok(Some(secret)) => secret,
            Ok(None) => {
                return Err(SignError::NoSecret {
                    namespace,
                    name,
                    signer: signer.to_owned(),
                });
            }
            Err(source) => {
                return Err(SignError::Secret {
                    namespace,
                    name,
                    signer: signer.to_owned(),
                    source,
                });
            }
        };
        let data = secret.data.unwrap_or_default();
        let value = |key: &str| data.get(key).map(|it| it.0.as_slice()).unwrap_or_default();
        Authority::read(value("tls.crt"), value("tls.key")).map_err(|source| SignError::Authority {
            namespace,
            name,
            source,
        })
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
        let authority = self.authority(&signing, &signer).await?;
        let lifetime = lifetime(request, signing.lifetime);
        Ok(Some(match authority.sign(&asked, lifetime, Timestamp::now()) {
            Ok(certificate) => Verdict::Signed(certificate),
            Err(error) => Verdict::Refused(error.to_string()),
        }))
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
        Ok(Seen { request, verdict })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let (Some(request), Some(verdict)) = (&seen.request, &seen.verdict) else {
            return plan;
        };
        match verdict {
            Verdict::Waits(why) => drop(plan.wait(why)),
            Verdict::Refused(why) => drop(plan.refuse(why)),
            Verdict::Signed(certificate) => {
                let mut signed = (**request).clone();
                signed.status.get_or_insert_default().certificate = Some(ByteString(certificate.clone().into_bytes()));
                let target = Target::of(Site::Hub, &**request);
                let object = plan::typed(&signed, &target.api_resource);
                plan.push(Step::Replace {
                    target,
                    subresource: Some("status"),
                    object,
                });
            }
        }
        plan
    }
}
