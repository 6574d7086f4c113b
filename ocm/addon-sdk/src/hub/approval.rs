//! Approves the certificate requests of add-ons' agents.
//!
//! Root: CertificateSigningRequest. Reads: the cluster and the add-on that its labels name.
//! Writes: the condition Approved.
//! Never: denies, because what one process does not recognise another may; approves by prefix or by label alone.
//! Upstream: addon-framework `pkg/addonmanager/controllers/certificate/csrapprove.go`.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use ocm_api::{conditions::csr, identity};
use ocm_reconcile::{ObserveError, Plan, Reconciler, StatusField, Watches, approve::approve, async_trait, rbac::Right};

use super::{Context, Look, WORKERS, open_requests::OpenRequests, request, rights};

const MESSAGE: &str = "Auto approving addon agent certificate.";

/// The reconciler.
pub struct Approval {
    context: Context,
    open: OpenRequests,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The request; `None` when it is gone.
    pub request: Option<Arc<CertificateSigningRequest>>,
    /// The add-on that its labels name.
    pub look: Look,
    /// The user that asks on behalf of agents on the gRPC transport.
    pub grpc_user: String,
}

impl Approval {
    /// Over this context.
    pub fn new(context: &Context) -> Self {
        Self {
            open: OpenRequests::of(&context.caches),
            context: context.clone(),
        }
    }
}

#[async_trait]
impl Reconciler for Approval {
    const NAME: &'static str = "addon-csr-approval";
    const WORKERS: usize = WORKERS;
    const STATUS: &'static [StatusField] = &[StatusField::condition("CertificateSigningRequest", csr::APPROVED)
        .shared("each approves the requests of one kind of agent: here those of add-ons")];
    const RIGHTS: &'static [Right] = rights::APPROVAL;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        self.open.watches(&self.context, watches);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let request = self.open.requests.named(name);
        let key = request.as_deref().and_then(request::key);
        Ok(Seen {
            now: Timestamp::now(),
            look: key.map_or(Look::NotOurs, |key| self.context.look(&key)),
            grpc_user: self.context.options.grpc_user.clone(),
            request,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(request) = seen.request.as_deref().filter(|it| !request::is_decided(it)) else {
            return plan;
        };
        let installed = match &seen.look {
            Look::NotOurs => return plan,
            Look::Gone => {
                plan.refuse("there is no such add-on on the cluster that its labels name");
                return plan;
            }
            Look::Waits(why) => {
                plan.wait(why);
                return plan;
            }
            Look::Here(installed) => installed,
        };
        let checked = request::read(request)
            .map_err(str::to_owned)
            .and_then(|asked| request::check(request, &asked, installed, &seen.grpc_user));
        let with_tokens = installed.uses_tokens() && request.spec.signer_name == identity::CLIENT_SIGNER;
        match checked {
            Err(why) => drop(plan.refuse(why)),
            Ok(_) if with_tokens => drop(plan.refuse("the add-on's agent proves itself with tokens")),
            Ok(_) if !installed.add_on.approves(&installed.place, request) => {
                plan.wait("a person must approve it");
            }
            Ok(_) => plan
                .then(approve(request, csr::reason::AUTO_APPROVED, MESSAGE, seen.now))
                .notes
                .clear(),
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_for_a_deleted_add_on_is_not_approved() {
        let request = json!({
            "metadata": {"name": "addon-c1-greeter-1"},
            "spec": {"request": "", "signerName": identity::CLIENT_SIGNER, "usages": []},
        });
        let planned = |look| {
            let seen = Seen {
                now: "2026-01-01T12:00:00Z".parse().unwrap(),
                request: Some(Arc::new(serde_json::from_value(request.clone()).unwrap())),
                look,
                grpc_user: String::new(),
            };
            Approval::plan(&seen).to_string()
        };
        assert_eq!(
            planned(Look::Gone),
            "nothing to do\nrefuses: there is no such add-on on the cluster that its labels name\n"
        );
        // It may be another process's.
        assert_eq!(planned(Look::NotOurs), "nothing to do\n");
    }
}
