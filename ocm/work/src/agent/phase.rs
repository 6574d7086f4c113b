//! What a run over a work and its AppliedManifestWork is about.

use ocm_api::work::{AppliedManifestWork, ManifestWork};

use super::{
    seen::{AgentIdentity, Seen},
    strategy,
};

/// What a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Neither work nor trace: forget the key.
    Nothing,
    /// The work is wanted.
    Applying,
    /// All its manifests are complete; whatever its spec says now, only the status of what was applied is kept current.
    Complete,
    /// The trace is going while the work stays: somebody deleted it, and it takes its objects along.
    Renewing,
    /// The work is being deleted.
    Leaving,
    /// The work is gone and its trace stays for a grace period.
    Abandoned,
    /// The trace is going and there is no work.
    Finishing,
    /// The trace of another agent.
    Foreign,
}

/// What a run is about; a pure function of what was seen.
pub fn phase(work: Option<&ManifestWork>, trace: Option<&AppliedManifestWork>, identity: &AgentIdentity) -> Phase {
    let trace_is_going = trace.is_some_and(|it| it.metadata.deletion_timestamp.is_some());
    match (work, trace) {
        (None, None) => Phase::Nothing,
        (Some(work), _) if work.metadata.deletion_timestamp.is_some() => Phase::Leaving,
        (Some(_), Some(_)) if trace_is_going => Phase::Renewing,
        (Some(work), _) if strategy::is_complete(conditions_of(work)) => Phase::Complete,
        (Some(_), _) => Phase::Applying,
        (None, Some(trace)) if !is_ours(trace, identity) => Phase::Foreign,
        (None, Some(_)) if trace_is_going => Phase::Finishing,
        (None, Some(_)) => Phase::Abandoned,
    }
}

/// A trace that names no agent is of a cluster that does not keep the name, or of an agent from before there were
/// names: the hub's address has to do then, as it did in their days.
fn is_ours(trace: &AppliedManifestWork, identity: &AgentIdentity) -> bool {
    let spec = &trace.spec;
    spec.agent_id == identity.agent_id || spec.agent_id.is_empty() && spec.hub_hash == identity.hub_hash
}

fn conditions_of(work: &ManifestWork) -> &[ocm_api::Condition] {
    work.status
        .as_ref()
        .map(|it| it.conditions.as_slice())
        .unwrap_or_default()
}

impl Seen {
    /// What the run is about.
    pub fn phase(&self) -> Phase {
        phase(self.work.as_deref(), self.trace.as_deref(), &self.identity)
    }
}
