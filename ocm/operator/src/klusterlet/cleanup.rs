//! Takes an agent away whose Klusterlet is being deleted.
//!
//! Root: Klusterlet. Reads: what was made for it, here and on another managed cluster; its AppliedManifestWorks.
//! Writes: deletes Deployments, then on the managed cluster roles, bindings and namespaces, then here Secrets, roles
//! and bindings, and at last the namespace of a hosted agent; takes finalizers from AppliedManifestWorks and from the
//! Klusterlet; the annotation that says since when a managed cluster cannot be reached.
//! Never: CRDs; what works have applied; the namespace of add-ons while another agent is there.
//! Upstream: ocm `pkg/operator/operators/klusterlet/controllers/klusterletcontroller/klusterlet_cleanup_controller.go`.
//! We differ in these: finalizers of works are taken when the agent's pods are gone, which would put them back; a
//! managed cluster whose kubeconfig is missing counts as one that cannot be reached.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::operator::Klusterlet;
use ocm_reconcile::{Clients, ObserveError, Plan, Reconciler, Watches, async_trait, rbac::Right};

use super::{
    ground::AgentOperator,
    names, permissions,
    remains::{self, Leaving, Managed},
    removal,
};

/// The reconciler.
pub struct Cleanup {
    operator: Arc<AgentOperator>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The Klusterlet, if it is being deleted and waits for us.
    pub leaving: Option<Leaving>,
}

impl Cleanup {
    /// Of this operator.
    pub fn new(operator: Arc<AgentOperator>) -> Self {
        Self { operator }
    }
}

#[async_trait]
impl Reconciler for Cleanup {
    const NAME: &'static str = "klusterlet-cleanup";
    const WORKERS: usize = 16;
    const AT_ONCE: usize = 8;
    const RIGHTS: &'static [Right] = permissions::CLEANUP;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.operator.klusterlets);
        self.operator.watch_secret(watches, &self.operator.external);
        self.operator.watch_deployments(watches);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let waits = |it: &Arc<Klusterlet>| {
            let ours = |it: &String| it == names::FINALIZER || it == names::HOSTED_FINALIZER;
            it.metadata.deletion_timestamp.is_some() && it.finalizers().iter().any(ours)
        };
        let leaving = match self.operator.klusterlets.named(name).filter(waits) {
            Some(klusterlet) => Some(remains::look(&self.operator, klusterlet).await?),
            None => None,
        };
        Ok(Seen {
            now: Timestamp::now(),
            leaving,
        })
    }

    fn clients(&self, seen: &Seen) -> Option<Clients> {
        let leaving = seen.leaving.as_ref()?;
        let reached = match &leaving.managed {
            Managed::Seen(managed) => managed.reached.as_ref(),
            Managed::Untouched | Managed::Unreachable(_) => None,
        };
        Some(self.operator.apis(leaving.settings.place, reached).clients())
    }

    fn plan(seen: &Seen) -> Plan {
        match &seen.leaving {
            Some(leaving) => removal::plan(leaving, seen.now),
            None => Plan::new(),
        }
    }
}
