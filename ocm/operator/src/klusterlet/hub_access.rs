//! Whether the hub lets an agent do what it does.
//!
//! Root: Klusterlet. Reads: the Secret to join with and the agent's credential; the hub, with either of them.
//! Writes: condition HubConnectionDegraded.
//! Never: more to the hub than SelfSubjectAccessReviews; a credential.
//! Upstream: ocm `pkg/operator/operators/klusterlet/controllers/ssarcontroller/klusterlet_ssar_controller.go`.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{condition, conditions::klusterlet as conditions, operator::Klusterlet};
use ocm_reconcile::{ObserveError, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right};

use super::{
    access::{self, Answer, BootstrapFinding, CredentialFinding, Findings},
    asking::Asking,
    ground::AgentOperator,
    permissions, said, settings,
};

/// Who was let in is asked after so much more rarely.
const RARELY: u32 = 10;

/// The reconciler.
pub struct HubAccess {
    operator: Arc<AgentOperator>,
    asking: Asking,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The Klusterlet, unless it is gone or is going.
    pub klusterlet: Option<Arc<Klusterlet>>,
    /// What was found; nothing of a Klusterlet that asks for what cannot be done.
    pub findings: Option<Findings>,
    /// After how long a hub that refuses is asked again.
    pub interval: Duration,
}

impl HubAccess {
    /// Of this operator.
    pub fn new(operator: Arc<AgentOperator>) -> Self {
        Self {
            asking: Asking::new(operator.clone()),
            operator,
        }
    }
}

#[async_trait]
impl Reconciler for HubAccess {
    const NAME: &'static str = "klusterlet-hub-access";
    /// A hub that does not answer keeps nobody else waiting.
    const WORKERS: usize = 16;
    const STATUS: &'static [StatusField] = &[StatusField::condition(
        Klusterlet::KIND,
        conditions::HUB_CONNECTION_DEGRADED,
    )];
    const RIGHTS: &'static [Right] = permissions::STATUS;
    type Seen = Seen;

    /// Of a Klusterlet, what is asked for; its status is written often, and by us.
    fn watches(&self, watches: &mut Watches) {
        watches.wakes(&self.operator.klusterlets, |old: Option<&Klusterlet>, new| {
            let new = new?;
            let is_same = old.is_some_and(|it| it.metadata.generation == new.metadata.generation);
            (!is_same).then(|| new.name_any())
        });
        self.operator.watch_secret(watches, &self.operator.bootstrap);
        self.operator.watch_secret(watches, &self.operator.credentials);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let klusterlet = self.operator.klusterlets.named(name);
        let klusterlet = klusterlet.filter(|it| it.metadata.deletion_timestamp.is_none());
        let asked = klusterlet.as_deref().filter(|it| settings::refusals(it).is_empty());
        let findings = match asked {
            Some(klusterlet) => Some(self.asking.find(klusterlet).await),
            None => None,
        };
        if klusterlet.is_none() {
            self.asking.forget(name);
        }
        Ok(Seen {
            now: Timestamp::now(),
            // It may have been written while the hub was asked.
            klusterlet: klusterlet.and_then(|_| self.operator.klusterlets.named(name)),
            findings,
            interval: self.operator.options.hub_access_check_interval,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let (Some(before), Some(findings)) = (seen.klusterlet.as_deref(), &seen.findings) else {
            return plan;
        };
        let namespace = settings::agent_namespace(before);
        let Findings { bootstrap, hub } = findings;
        let update = access::condition(&namespace, bootstrap.as_ref(), hub).at_generation(before.metadata.generation);
        let mut after = before.clone();
        let conditions = &mut after.status.get_or_insert_default().conditions;
        let is_new = condition::set(conditions, update.clone(), seen.now);
        plan.status(Site::Management, before, &after);
        if is_new && access::is_alarming(findings) {
            plan.push(said::warning(before, &update.reason, update.message, seen.now));
        }
        // A Secret that is missing or useless is heard of; a hub that changes its mind is not.
        match (bootstrap, hub) {
            (
                _,
                CredentialFinding::Asked {
                    answer: Answer::Allowed,
                    ..
                },
            ) => {
                plan.look_again(seen.interval * RARELY);
            }
            (Some(BootstrapFinding::Asked { .. }), _) | (_, CredentialFinding::Asked { .. }) => {
                plan.look_again(seen.interval);
            }
            _ => {}
        }
        plan
    }
}
