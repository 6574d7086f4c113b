//! ManifestWork and AppliedManifestWork, agent half: one key is the pair of a work on the hub and its trace on the cluster.
//!
//! Reads: the work, its trace, the objects of both, what the cluster serves, what the executor may.
//! Writes: the work's finalizer and status; the trace; the objects.
//! Never: an object that does not carry the trace as its owner is not deleted; a work of another cluster is not looked at.
//!
//! Every plan is one round: what can be done at once. The runner executes it, looks again and plans the next, until the page
//! is empty; then [`conclude`] writes both statuses, side by side.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use ocm_api::{
    condition::{self, wanted},
    conditions::manifest_work as types,
    finalizers,
    work::{
        AppliedManifestResourceMeta, AppliedManifestWork, AppliedManifestWorkSpec, AppliedManifestWorkStatus,
        ManifestResourceMeta, ManifestWork, UpdateStrategyType,
    },
};
use ocm_reconcile::{Plan, Propagation, Site, Step, Target};
use serde_json::Value;

use super::{
    config::{self, Config},
    executor::{ExecutorRefusal, REFUSED_FOR},
    feedback::RawJson,
    manifest::{self, Gvk, Manifest, ObjectKey, Resource, Unreadable},
    ownership::{self, LettingGo},
    report::{Applied, ObservedManifest, ObservedObject, report},
    strategy::{self, ApplyDecision, Attempt, LastWrite, Live, ManifestToApply, Release, SharedObject},
};

/// A grace period this long means that nothing is ever evicted, as upstream.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// While an object that nobody watches for us is going, look again this soon.
const PENDING_AGAIN: Duration = Duration::from_millis(500);

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

/// Everything a plan is made from.
#[derive(Clone, Debug)]
pub struct Seen {
    pub now: Timestamp,
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
    /// Why the work could not even be begun.
    pub blocked: Option<String>,
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

    /// What the status of a work that is not applied any more lists: it is looked at, and never written. The manifest stays
    /// unread, because the spec may have changed since.
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
        key_of_record(&self.record)
    }
}

/// Where a recorded object is.
pub fn key_of_record(record: &AppliedManifestResourceMeta) -> ObjectKey {
    ObjectKey {
        group: record.group.clone(),
        version: record.version.clone(),
        resource: record.resource.clone(),
        namespace: record.namespace.clone(),
        name: record.name.clone(),
    }
}

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

/// A trace that names no agent is of a cluster that does not keep the name, or of an agent from before there were names: the hub's
/// address has to do then, as it did in their days.
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

/// What the trace has on record and this work does not want any more. A manifest that cannot be resolved at present still
/// counts as wanted: an object is not removed because discovery failed.
pub fn unwanted<'a>(
    trace: &'a AppliedManifestWork,
    items: &'a [Item],
) -> impl Iterator<Item = &'a AppliedManifestResourceMeta> {
    let recorded = trace.status.iter().flat_map(|it| &it.applied_resources);
    recorded.filter(move |record| !items.iter().any(|it| wants(it, record)))
}

fn wants(item: &Item, record: &AppliedManifestResourceMeta) -> bool {
    if let Some(key) = &item.key {
        return key.same_object(&key_of_record(record));
    }
    let (gvk, namespace, name) = match &item.manifest {
        Ok(it) => (&it.gvk, &it.namespace, &it.name),
        Err(it) => (&it.gvk, &it.namespace, &it.name),
    };
    gvk.group == record.group && *name == record.name && (record.namespace.is_empty() || *namespace == record.namespace)
}

impl Seen {
    fn phase(&self) -> Phase {
        phase(self.work.as_deref(), self.trace.as_deref(), &self.identity)
    }
}

/// The next round.
pub fn plan(seen: &Seen) -> Plan {
    let mut plan = Plan::new();
    match (seen.phase(), &seen.work, &seen.trace) {
        (Phase::Applying, Some(work), _) if seen.blocked.is_none() => apply(&mut plan, seen, work),
        (Phase::Applying, _, _) => {
            plan.wait(format!(
                "the work could not be begun: {}",
                seen.blocked.as_deref().unwrap_or_default()
            ));
        }
        (Phase::Complete, _, _) => {
            plan.remark("every manifest is complete: the objects are left as they are");
        }
        (Phase::Renewing, _, Some(trace)) => {
            plan.wait("the earlier AppliedManifestWork takes its objects along; then the work is applied anew");
            finish(&mut plan, seen, trace);
        }
        (Phase::Leaving, Some(work), trace) => leave(&mut plan, seen, work, trace.as_deref()),
        (Phase::Finishing, _, Some(trace)) => finish(&mut plan, seen, trace),
        (Phase::Abandoned, _, Some(trace)) => evict(&mut plan, seen, trace),
        (Phase::Foreign, _, Some(trace)) => {
            plan.remark(match trace.spec.agent_id.as_str() {
                "" => "belongs to an agent of another hub".to_owned(),
                agent => format!("belongs to agent {agent}"),
            });
        }
        _ => {}
    }
    plan
}

fn apply(plan: &mut Plan, seen: &Seen, work: &ManifestWork) {
    if prepare(plan, seen, work) {
        return;
    }
    let Some(trace) = &seen.trace else { return };
    let mut writes: Vec<(u16, Step)> = Vec::new();
    for item in &seen.items {
        let Some(decision) = decide(seen, trace, item) else {
            continue;
        };
        if let ApplyDecision::Write { step, hash } = decision {
            // Only a repair can be undone once more; what the spec says anew nobody has objected to.
            let repairs = item.written.as_ref().is_some_and(|it| it.hash == hash);
            match item.hold.filter(|_| repairs) {
                Some(hold) => {
                    let key = item.key.as_ref().map(ToString::to_string).unwrap_or_default();
                    plan.wait(format!(
                        "another writer keeps changing {key}; it is repaired again in {}s",
                        hold.as_secs() + 1
                    ));
                    plan.look_again(hold);
                }
                None => {
                    let kind = item
                        .manifest
                        .as_ref()
                        .map(|it| it.gvk.kind.as_str())
                        .unwrap_or_default();
                    writes.push((manifest::rank(kind), *step));
                }
            }
        }
    }
    writes.sort_by_key(|(rank, _)| *rank);
    intend(plan, trace, writes.iter().map(|(_, step)| step));
    let mut last = writes.first().map(|(rank, _)| *rank);
    for (rank, step) in writes {
        if last.is_some_and(|it| it != rank) {
            plan.stage();
        }
        last = Some(rank);
        plan.push(step);
    }
    // What is new is there before what is old goes.
    if plan.is_empty() {
        remove(plan, seen, trace);
    }
}

/// Puts what is about to be made on record before it is made, so that an agent that dies in between leaves nothing behind that
/// nobody knows of. The step goes out first, in the same stage as what it announces: no round trip is lost.
fn intend<'s>(plan: &mut Plan, trace: &AppliedManifestWork, steps: impl Iterator<Item = &'s Step>) {
    let mut next = trace.clone();
    let mut status = trace.status.clone().unwrap_or_default();
    let known = status.applied_resources.len();
    for step in steps {
        let (Step::Apply { target, .. } | Step::Create { target, .. }) = step else {
            continue;
        };
        let Some(key) = key_of_target(target) else { continue };
        if !status
            .applied_resources
            .iter()
            .any(|it| key_of_record(it).same_object(&key))
        {
            status.applied_resources.push(record_of(&key, String::new()));
        }
    }
    if status.applied_resources.len() == known {
        return;
    }
    sort(&mut status.applied_resources);
    next.status = Some(status);
    plan.status(Site::Cluster, trace, &next);
}

fn record_of(key: &ObjectKey, uid: String) -> AppliedManifestResourceMeta {
    AppliedManifestResourceMeta {
        group: key.group.clone(),
        resource: key.resource.clone(),
        name: key.name.clone(),
        namespace: key.namespace.clone(),
        version: key.version.clone(),
        uid,
    }
}

/// The finalizer and the trace, without which nothing may be applied. Whether there is anything to prepare.
fn prepare(plan: &mut Plan, seen: &Seen, work: &ManifestWork) -> bool {
    plan.add_finalizer(Site::Hub, work, finalizers::MANIFEST_WORK);
    let spec = AppliedManifestWorkSpec {
        hub_hash: seen.identity.hub_hash.clone(),
        agent_id: seen.identity.agent_id.clone(),
        manifest_work_name: work.metadata.name.clone().unwrap_or_default(),
    };
    match seen.trace.as_deref() {
        None => {
            let mut trace = AppliedManifestWork::new(&seen.key, spec);
            trace.metadata.labels = work.metadata.labels.clone();
            trace.metadata.finalizers = Some(vec![finalizers::APPLIED_MANIFEST_WORK.to_owned()]);
            plan.create(Site::Cluster, &trace);
        }
        Some(trace) => {
            let mut next = trace.clone();
            next.spec = spec;
            if !seen.keeps_agent_id && trace.spec.agent_id.is_empty() {
                next.spec.agent_id.clear();
            }
            let list = next.metadata.finalizers.get_or_insert_default();
            if !list.iter().any(|it| it == finalizers::APPLIED_MANIFEST_WORK) {
                list.push(finalizers::APPLIED_MANIFEST_WORK.to_owned());
            }
            if next.metadata.finalizers == Some(vec![]) {
                next.metadata.finalizers = None;
            }
            plan.change(Site::Cluster, trace, &next);
        }
    }
    !plan.is_empty()
}

fn decide(seen: &Seen, trace: &AppliedManifestWork, item: &Item) -> Option<ApplyDecision> {
    let (Ok(manifest), Ok(resource), Some(key), Ok(()), false) = (
        &item.manifest,
        &item.resource,
        &item.key,
        &item.permitted,
        item.complete,
    ) else {
        return None;
    };
    let former = former_manager(seen);
    Some(strategy::decide(&ManifestToApply {
        manifest: &manifest.object,
        resource,
        key,
        config: &item.config,
        owned: item.owned,
        trace: (&seen.key, trace.metadata.uid.as_deref().unwrap_or_default()),
        former: &former,
        others: &item.others,
        live: &item.live,
        written: item.written.as_ref(),
        tried: &item.tried,
    }))
}

fn former_manager(seen: &Seen) -> String {
    let work = seen.identity.work_name(&seen.key).unwrap_or_default();
    strategy::former_manager(&seen.identity.hub_hash, work)
}

/// The hash of what a write to this object would write, to remember it by.
pub fn hash_of_write(seen: &Seen, key: &ObjectKey) -> Option<String> {
    let trace = seen.trace.as_deref()?;
    let item = seen
        .items
        .iter()
        .find(|it| it.key.as_ref().is_some_and(|it| it.same_object(key)))?;
    match decide(seen, trace, item)? {
        ApplyDecision::Write { hash, .. } if !hash.is_empty() => Some(hash),
        _ => None,
    }
}

/// Removes what is leaving. Whether any of it is still there.
fn remove(plan: &mut Plan, seen: &Seen, trace: &AppliedManifestWork) -> bool {
    let uid = trace.metadata.uid.as_deref().unwrap_or_default();
    let mut pending = false;
    for it in &seen.leaving {
        let key = it.key();
        if let Some(problem) = &it.problem {
            plan.wait(format!("{key} cannot be removed: {problem}"));
            pending = true;
            continue;
        }
        match ownership::let_go(&it.record.uid, it.live.object(), &seen.key, uid) {
            LettingGo::Forget => {}
            LettingGo::Disown => {
                let live = it.live.object().expect("only an object that is there has other owners");
                let former = former_manager(seen);
                let shared = SharedObject {
                    key: &key,
                    live,
                    trace: (&seen.key, uid),
                    managers: [&former, &it.manager],
                    others: &it.others,
                };
                let step = strategy::let_go_of_shared(&shared, it.release);
                if let Some(step) = step {
                    plan.push(step);
                }
            }
            LettingGo::Wait => {
                plan.wait(format!("{key} is being deleted and waits for its finalizers"));
                if !it.watched {
                    plan.look_again(PENDING_AGAIN);
                }
                pending = true;
            }
            LettingGo::Delete { uid } => {
                let kind = it.live.object().and_then(|it| it["kind"].as_str()).unwrap_or_default();
                plan.push(Step::Delete {
                    target: strategy::target(&key, kind),
                    uid: Some(uid),
                    propagation: Some(Propagation::Background),
                });
                pending = true;
            }
        }
    }
    pending
}

/// Removes what the trace has on record, then lets the trace go.
fn finish(plan: &mut Plan, seen: &Seen, trace: &AppliedManifestWork) {
    let pending = remove(plan, seen, trace);
    if !pending && plan.is_empty() {
        plan.remove_finalizer(Site::Cluster, trace, finalizers::APPLIED_MANIFEST_WORK);
    }
}

fn leave(plan: &mut Plan, seen: &Seen, work: &ManifestWork, trace: Option<&AppliedManifestWork>) {
    let Some(trace) = trace else {
        plan.remove_finalizer(Site::Hub, work, finalizers::MANIFEST_WORK);
        return;
    };
    if trace.metadata.deletion_timestamp.is_some() {
        finish(plan, seen, trace);
        return;
    }
    let mut next = work.clone();
    let deleting = wanted(
        types::DELETING,
        true,
        types::reason::DELETING,
        "ManifestWork is being deleted",
    )
    .at_generation(work.metadata.generation);
    condition::set(&mut next.status.get_or_insert_default().conditions, deleting, seen.now);
    plan.status(Site::Hub, work, &next);
    plan.delete(Site::Cluster, trace);
}

/// The work is gone from the hub: its objects stay for a grace period, in case it comes back or another hub takes them over.
fn evict(plan: &mut Plan, seen: &Seen, trace: &AppliedManifestWork) {
    let grace = seen.identity.eviction_grace;
    let started = trace
        .status
        .as_ref()
        .and_then(|it| it.eviction_start_time.as_ref())
        .map(|it| it.0);
    if grace >= NEVER {
        set_eviction(plan, trace, None);
        plan.remark("its work is gone from the hub; eviction is off, so its objects stay");
        return;
    }
    let Some(started) = started else {
        set_eviction(plan, trace, Some(seen.now));
        return;
    };
    let waited = Duration::try_from(seen.now.duration_since(started)).unwrap_or_default();
    match grace.checked_sub(waited).filter(|it| !it.is_zero()) {
        Some(remainder) => {
            plan.wait(format!(
                "its work is gone from the hub; its objects are removed in {}s",
                remainder.as_secs()
            ));
            plan.look_again(remainder);
        }
        None => {
            plan.delete(Site::Cluster, trace);
        }
    }
}

fn set_eviction(plan: &mut Plan, trace: &AppliedManifestWork, at: Option<Timestamp>) {
    let mut next = trace.clone();
    next.status.get_or_insert_default().eviction_start_time = at.map(Time);
    plan.status(Site::Cluster, trace, &next);
}

/// What to say about it when every round is over: the status of the work and of its trace, side by side.
pub fn conclude(seen: &Seen) -> Plan {
    let mut plan = Plan::new();
    let reported = match seen.phase() {
        Phase::Applying | Phase::Complete => true,
        // As long as the trace holds it, somebody may wait for what its last jobs say.
        Phase::Leaving => seen.trace.is_some() && !seen.items.is_empty(),
        _ => false,
    };
    if let (true, Some(work)) = (reported, &seen.work) {
        let mut next = (**work).clone();
        let old = next.status.take().unwrap_or_default();
        let looked: Vec<ObservedManifest> = seen.items.iter().map(|it| looked(seen, it)).collect();
        next.status = Some(report(
            &old,
            &looked,
            work.metadata.generation,
            seen.identity.raw,
            seen.now,
        ));
        plan.status(Site::Hub, &**work, &next);
        if seen
            .items
            .iter()
            .any(|it| matches!(it.permitted, Err(ExecutorRefusal::NotAllowed(_))))
        {
            plan.look_again(REFUSED_FOR);
        }
    }
    if let Some(trace) = &seen.trace {
        let mut next = (**trace).clone();
        next.status = match seen.phase() {
            Phase::Applying if seen.blocked.is_none() => Some(record(seen, trace)),
            Phase::Renewing | Phase::Leaving | Phase::Finishing => Some(still_there(seen, trace)),
            // The work is there, so nothing is evicted; what is on record stays.
            Phase::Complete => next.status.map(|it| AppliedManifestWorkStatus {
                eviction_start_time: None,
                ..it
            }),
            _ => next.status,
        };
        if next.metadata.deletion_timestamp.is_none() || !seen.leaving.is_empty() {
            plan.status(Site::Cluster, &**trace, &next);
        }
    }
    plan
}

fn looked(seen: &Seen, item: &Item) -> ObservedManifest {
    let meta = meta(item);
    let complete = meta.resource.is_empty() || meta.version.is_empty() || meta.name.is_empty();
    let found = match (&item.live, &item.unreadable) {
        _ if complete => ObservedObject::Unknowable,
        (Live::Present(object), _) => ObservedObject::Present((**object).clone()),
        (Live::Absent, _) => ObservedObject::Absent,
        (Live::Unknown, Some(why)) => ObservedObject::Unreadable(why.clone()),
        (Live::Unknown, None) => ObservedObject::Unreadable("it was not looked for yet".to_owned()),
    };
    ObservedManifest {
        meta,
        applied: applied(seen, item),
        found,
        feedback: item.config.feedback.clone(),
        conditions: item.config.conditions.clone(),
    }
}

fn applied(seen: &Seen, item: &Item) -> Applied {
    if matches!(seen.phase(), Phase::Complete | Phase::Leaving) {
        return Applied::AsBefore;
    }
    if let Some(why) = &seen.blocked {
        return Applied::No(why.clone());
    }
    if item.complete {
        return Applied::Yes;
    }
    if let Err(unreadable) = &item.manifest {
        return Applied::No(unreadable.why.clone());
    }
    if let Err(why) = &item.resource {
        return Applied::No(why.clone());
    }
    if let Err(refusal) = &item.permitted {
        return Applied::No(refusal.message().to_owned());
    }
    match seen.trace.as_deref().and_then(|trace| decide(seen, trace, item)) {
        Some(ApplyDecision::Agrees) => Applied::Yes,
        Some(ApplyDecision::Failed(why)) => Applied::No(why),
        Some(ApplyDecision::BadIgnoreFields(why)) => Applied::BadIgnoreFields(why),
        // Held back because somebody keeps undoing it, or out of rounds.
        Some(ApplyDecision::Write { .. }) | None => Applied::AsBefore,
    }
}

/// How the status names a manifest.
pub fn meta(item: &Item) -> ManifestResourceMeta {
    let (ordinal, gvk, namespace, name) = match &item.manifest {
        Ok(it) => (it.ordinal, &it.gvk, &it.namespace, &it.name),
        Err(it) => (it.ordinal, &it.gvk, &it.namespace, &it.name),
    };
    ManifestResourceMeta {
        ordinal: i32::try_from(ordinal).unwrap_or(i32::MAX),
        group: gvk.group.clone(),
        version: gvk.version.clone(),
        kind: gvk.kind.clone(),
        resource: item.key.as_ref().map(|it| it.resource.clone()).unwrap_or_default(),
        name: name.clone(),
        namespace: item.key.as_ref().map_or(namespace.clone(), |it| it.namespace.clone()),
    }
}

/// What the trace records after applying: what is there, what could not be looked at and was recorded before, and what is
/// still going.
fn record(seen: &Seen, trace: &AppliedManifestWork) -> AppliedManifestWorkStatus {
    let old = trace.status.clone().unwrap_or_default();
    let before = |key: &ObjectKey| {
        old.applied_resources
            .iter()
            .find(|it| key_of_record(it).same_object(key))
            .cloned()
    };
    let mut all: BTreeSet<AppliedManifestResourceMeta> = BTreeSet::new();
    for item in &seen.items {
        match (&item.key, &item.live) {
            (Some(key), Live::Present(object)) => {
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                all.insert(record_of(key, uid));
            }
            (Some(key), Live::Unknown) => all.extend(before(key)),
            // What could not be made stays on record as intended, or each try would write the record twice.
            (Some(key), Live::Absent) if item.tried.failure.is_some() => all.extend(before(key)),
            (Some(_), Live::Absent) => {}
            (None, _) => all.extend(old.applied_resources.iter().filter(|it| wants(item, it)).cloned()),
        }
    }
    all.extend(still_there(seen, trace).applied_resources);
    let mut applied_resources: Vec<_> = all.into_iter().collect();
    sort(&mut applied_resources);
    AppliedManifestWorkStatus {
        applied_resources,
        eviction_start_time: None,
    }
}

fn still_there(seen: &Seen, trace: &AppliedManifestWork) -> AppliedManifestWorkStatus {
    let uid = trace.metadata.uid.as_deref().unwrap_or_default();
    let stays = |it: &&Leaving| {
        it.problem.is_some() || ownership::let_go(&it.record.uid, it.live.object(), &seen.key, uid) != LettingGo::Forget
    };
    let mut applied_resources: Vec<_> = seen.leaving.iter().filter(stays).map(|it| it.record.clone()).collect();
    sort(&mut applied_resources);
    let eviction_start_time = trace.status.as_ref().and_then(|it| it.eviction_start_time.clone());
    AppliedManifestWorkStatus {
        applied_resources,
        eviction_start_time,
    }
}

fn sort(records: &mut [AppliedManifestResourceMeta]) {
    records.sort_by(|left, right| {
        let order = |it: &AppliedManifestResourceMeta| {
            [&it.group, &it.version, &it.resource, &it.namespace, &it.name].map(String::clone)
        };
        order(left).cmp(&order(right))
    });
}

/// Whether a write was refused in a way that time may heal, so that it is worth trying again soon.
pub fn is_worth_retrying(seen: &Seen) -> bool {
    let failed = seen.items.iter().any(|it| {
        let conflict = it.config.update() == UpdateStrategyType::ServerSideApply
            && it.tried.failure.as_ref().is_some_and(|it| it.code == Some(409));
        let refused = it.tried.failure.is_some() && !conflict;
        let unresolved = it.manifest.is_ok() && it.resource.is_err();
        refused || unresolved || it.unreadable.is_some() || matches!(it.permitted, Err(ExecutorRefusal::Unchecked(_)))
    });
    failed || seen.blocked.is_some() || seen.leaving.iter().any(|it| it.problem.is_some())
}

/// Where a step of ours went, if it went to an object of a work.
pub fn key_of_target(target: &Target) -> Option<ObjectKey> {
    let resource = &target.api_resource;
    if target.site != Site::Cluster
        || resource.group == ocm_api::work::GROUP && resource.plural == AppliedManifestWork::PLURAL
    {
        return None;
    }
    Some(ObjectKey {
        group: resource.group.clone(),
        version: resource.version.clone(),
        resource: resource.plural.clone(),
        namespace: target.namespace.clone().unwrap_or_default(),
        name: target.name.clone(),
    })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
