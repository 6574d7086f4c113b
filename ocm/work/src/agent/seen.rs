//! Everything that is known of a work, its AppliedManifestWork and their objects when it is decided about them.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use ocm_api::work::{AppliedManifestResourceMeta, AppliedManifestWork, ManifestResourceMeta, ManifestWork};
use serde_json::Value;

use super::{
    attempts::Attempts,
    config::{self, Config},
    executor::ExecutorRefusal,
    feedback::RawJson,
    manifest::{Gvk, Manifest, ObjectKey, Resource, Unreadable},
    ownership, records,
    round::Round,
    strategy::{Attempt, LastWrite, Live, Release},
};

/// Everything a plan is made from.
#[derive(Clone, Debug)]
pub struct Seen {
    pub now: Timestamp,
    /// Between 0 and 1, so that not all agents look again in the same instant.
    pub chance: f64,
    pub identity: Arc<AgentIdentity>,
    /// Whether the cluster keeps who the agent of a trace is. CRDs of releases from years ago do not have the field.
    pub keeps_agent_id: bool,
    /// The trace's name, which is the key.
    pub key: String,
    pub work: Option<Arc<ManifestWork>>,
    pub trace: Option<Arc<AppliedManifestWork>>,
    /// The manifests; of a work that is complete or going, what its status lists.
    pub items: Vec<Item>,
    /// What the trace has on record and the work no longer wants, or all of it when the work goes.
    pub leaving: Vec<Leaving>,
    /// What this run has learned by trying.
    pub attempts: Attempts,
    /// How many runs before this one have left something that is worth another try.
    pub retries: u32,
    pub round: Arc<Round>,
}

/// What this agent is, the same for every run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentIdentity {
    /// Lower-case hex SHA-256 of the hub's address.
    pub hub_hash: String,
    /// Survives a change of the hub's address.
    pub agent_id: String,
    /// How long the traces of works that are gone from the hub are kept.
    pub eviction_grace: Duration,
    pub raw: RawJson,
}

impl AgentIdentity {
    /// The name of a work's trace.
    pub fn trace_name(&self, work: &str) -> String {
        format!("{}-{work}", self.hub_hash)
    }

    /// The work that a trace of this name belongs to, if it is one of the present hub.
    pub fn work_name<'n>(&self, trace: &'n str) -> Option<&'n str> {
        trace
            .strip_prefix(&self.hub_hash)?
            .strip_prefix('-')
            .filter(|it| !it.is_empty())
    }
}

/// One manifest, looked at.
#[derive(Clone, Debug)]
pub struct Item {
    pub manifest: Result<Manifest, Unreadable>,
    /// The resource that serves its kind, or why there is none.
    pub resource: Result<Resource, String>,
    pub key: Option<ObjectKey>,
    pub config: Config,
    pub owned: bool,
    /// The manifest is complete and is left as it is.
    pub complete: bool,
    pub permitted: Result<(), ExecutorRefusal>,
    pub live: Live,
    /// Why the object could not be read.
    pub unreadable: Option<String>,
    pub watched: bool,
    pub written: Option<LastWrite>,
    pub tried: Attempt,
    /// Another writer keeps undoing us; wait this long before the next repair.
    pub hold: Option<Duration>,
    /// What other works ask of the same object, where that is more than this manifest asks.
    pub others: Vec<Value>,
}

impl Item {
    /// A manifest that nothing else is known of yet.
    pub fn new(
        work: &ManifestWork,
        manifest: Result<Manifest, Unreadable>,
        resource: Result<Resource, String>,
        key: Option<ObjectKey>,
    ) -> Self {
        let config = key
            .as_ref()
            .map_or_else(Config::default, |it| config::find(&work.spec.manifest_configs, it));
        let owned = key
            .as_ref()
            .is_some_and(|it| ownership::owned_by_work(work.spec.delete_option.as_ref(), it));
        Self {
            manifest,
            resource,
            key,
            config,
            owned,
            complete: false,
            permitted: Ok(()),
            live: Live::Unknown,
            unreadable: None,
            watched: false,
            written: None,
            tried: Attempt::default(),
            hold: None,
            others: vec![],
        }
    }

    /// What the status of a work that is not applied any more lists: it is looked at, and never written. The manifest
    /// stays unread, because the spec may have changed since.
    pub fn listed(work: &ManifestWork, meta: &ManifestResourceMeta) -> Self {
        let why = "the work is not applied any more";
        let gvk = Gvk {
            group: meta.group.clone(),
            version: meta.version.clone(),
            kind: meta.kind.clone(),
        };
        let key = ObjectKey {
            group: meta.group.clone(),
            version: meta.version.clone(),
            resource: meta.resource.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
        };
        let key = [&key.version, &key.resource, &key.name]
            .iter()
            .all(|it| !it.is_empty())
            .then_some(key);
        let unreadable = Unreadable {
            ordinal: usize::try_from(meta.ordinal).unwrap_or_default(),
            gvk,
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            why: why.to_owned(),
        };
        Self {
            owned: false,
            ..Self::new(work, Err(unreadable), Err(why.to_owned()), key)
        }
    }
}

/// An object on record that is to go.
#[derive(Clone, Debug)]
pub struct Leaving {
    pub record: AppliedManifestResourceMeta,
    pub live: Live,
    /// Why it could not be read or removed.
    pub problem: Option<String>,
    pub watched: bool,
    /// Under which name the work applied it.
    pub manager: String,
    /// What other works ask of it.
    pub others: Vec<Value>,
    /// How it is let go of where others have it, too.
    pub release: Release,
}

impl Leaving {
    /// Where it is.
    pub fn key(&self) -> ObjectKey {
        records::key_of(&self.record)
    }
}
