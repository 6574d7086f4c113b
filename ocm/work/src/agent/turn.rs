//! One run for one key: rounds of observe, plan, execute until the page is empty, then conclude.
//! Only here are the pure parts joined to caches and clients.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use jiff::Timestamp;
use kube::{Api, Client, api::DynamicObject};
use ocm_api::{
    finalizers,
    work::{AppliedManifestResourceMeta, AppliedManifestWork, ManifestResourceMeta, ManifestWork, UpdateStrategyType},
};
use ocm_reconcile::{
    Cache, Clients, Done, ObserveError, Outcome, Plan, Reconciler, Site, Step, StepError,
    execute::{permission_fallback, sentence, together},
    run::RunError,
};
use parking_lot::Mutex;
use rand::RngExt;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{
    agreement,
    config::{self, Config},
    discovery::Discovery,
    executor::{Executors, Refusal, Wish},
    manifest::{self, Key},
    objects::Objects,
    ownership,
    plan::{self, Identity, Item, Leaving, Phase, Seen},
    strategy::{self, Failure, Live, Release, Tried, Written},
};

/// More than any path through a run needs; a guard against two rules that undo each other.
const ROUNDS_MAX: usize = 12;

/// A write that met another writer is tried this often before it counts as failed.
const CONFLICTS_MAX: u32 = 4;

/// Doubling from the first to the last, with each run that leaves something failed.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Objects that the cluster does not let us watch are looked at this often, as upstream looks at all.
const POLL: Duration = Duration::from_secs(10);

/// The safety net under the watches.
const RESYNC: Duration = Duration::from_secs(30 * 60);

/// The reconciler of works on one cluster.
pub(crate) struct WorkAgent {
    pub identity: Arc<Identity>,
    /// Cancelled when the hub has said that it deletes the cluster.
    pub leaving: CancellationToken,
    /// The cluster's namespace on the hub.
    pub namespace: String,
    pub cluster: Client,
    pub works: Cache<ManifestWork>,
    pub traces: Cache<AppliedManifestWork>,
    pub objects: Objects,
    pub discovery: Discovery,
    pub executors: Arc<Executors>,
    pub retries: Mutex<HashMap<String, u32>>,
    /// What the last write of a trace told about the cluster's CRD.
    pub keeps_agent_id: AtomicBool,
}

/// What one run has learned by trying.
struct Tries {
    since: Instant,
    by_key: HashMap<Key, Tried>,
    /// Objects whose state must be read before the next decision.
    unsure: HashSet<Key>,
    /// Objects that were not to be patched.
    unpatchable: HashSet<Key>,
    /// Objects that the executor of the work could not write as the agent would have.
    refused: HashMap<Key, Refusal>,
    /// Shared objects on record that could not be let go of as they should be.
    releases: HashMap<Key, Release>,
    /// Objects on record that could not be removed.
    problems: HashMap<Key, String>,
    /// Work and trace that went with our last write, though a cache may still show them.
    gone: HashSet<String>,
    blocked: Option<String>,
    /// Failures that no manifest's condition tells.
    errors: Vec<String>,
}

impl Tries {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            by_key: HashMap::new(),
            unsure: HashSet::new(),
            unpatchable: HashSet::new(),
            refused: HashMap::new(),
            releases: HashMap::new(),
            problems: HashMap::new(),
            gone: HashSet::new(),
            blocked: None,
            errors: Vec::new(),
        }
    }
}

#[ocm_reconcile::async_trait]
impl Reconciler for WorkAgent {
    const NAME: &'static str = "work-agent";

    type Seen = Seen;

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        Ok(self.look(key, &mut Tries::new()).await)
    }

    fn plan(seen: &Seen) -> Plan {
        plan::plan(seen)
    }

    fn conclude(seen: &Seen, _: &Outcome) -> Plan {
        plan::conclude(seen)
    }

    async fn reconcile(&self, clients: &Clients, key: &str) -> Result<Option<Duration>, RunError> {
        let mut tries = Tries::new();
        let mut seen = self.look(key, &mut tries).await;
        let mut page = plan::plan(&seen);
        for _ in 0..ROUNDS_MAX {
            if page.is_empty() || !tries.errors.is_empty() {
                break;
            }
            let (_turn, waited) = self.objects.take_turn(key, keys_of(&page)).await;
            if waited {
                seen = self.look(key, &mut tries).await;
                page = plan::plan(&seen);
            }
            if self.refuses(&seen, &page, &mut tries).await {
                seen = self.look(key, &mut tries).await;
                page = plan::plan(&seen);
                continue;
            }
            debug!(steps = page.len(), plan = %page, "executes a plan");
            for stage in &page.stages {
                let results = together(clients, stage).await;
                for (step, result) in stage.iter().zip(results) {
                    self.absorb(&seen, step, result, &mut tries).await;
                }
            }
            seen = self.look(key, &mut tries).await;
            page = plan::plan(&seen);
        }
        let last = plan::conclude(&seen);
        for stage in &last.stages {
            let results = together(clients, stage).await;
            for (step, result) in stage.iter().zip(results) {
                self.absorb(&seen, step, result, &mut tries).await;
            }
        }
        if !tries.errors.is_empty() {
            return Err(RunError::Execute(tries.errors.join("; ")));
        }
        Ok(self.again(key, &seen, [page.again, last.again]))
    }
}

impl WorkAgent {
    /// When to look again though nothing happens.
    fn again(&self, key: &str, seen: &Seen, wanted: [Option<Duration>; 2]) -> Option<Duration> {
        let mut again = wanted.into_iter().flatten().min();
        let mut sooner = |delay: Duration| again = Some(again.map_or(delay, |it| it.min(delay)));
        let mut retries = self.retries.lock();
        if plan::is_worth_retrying(seen) {
            let count = retries.entry(key.to_owned()).or_insert(0);
            sooner(RETRY_MIN.saturating_mul(1 << (*count).min(20)).min(RETRY_MAX));
            *count += 1;
        } else {
            retries.remove(key);
        }
        let unwatched = seen.items.iter().any(|it| it.key.is_some() && !it.watched);
        if unwatched {
            sooner(POLL.mul_f64(rand::rng().random_range(1.0..1.9)));
        }
        if seen.work.is_some() || seen.trace.is_some() {
            sooner(RESYNC.mul_f64(rand::rng().random_range(0.7..1.3)));
        }
        again
    }

    /// When the hub deletes the cluster, nothing of its that is gone comes back. What earlier hubs have asked for is not its to end.
    fn identity_for(&self, key: &str) -> Arc<Identity> {
        if !self.leaving.is_cancelled() || self.identity.work_name(key).is_none() {
            return self.identity.clone();
        }
        Arc::new(Identity {
            eviction_grace: Duration::ZERO,
            ..(*self.identity).clone()
        })
    }

    async fn look(&self, key: &str, tries: &mut Tries) -> Seen {
        let is_there = |uid: Option<&String>| uid.is_none_or(|it| !tries.gone.contains(it));
        let work = self
            .identity
            .work_name(key)
            .and_then(|name| self.works.get(&self.namespace, name))
            .filter(|it| is_there(it.metadata.uid.as_ref()));
        let trace = self.traces.named(key).filter(|it| is_there(it.metadata.uid.as_ref()));
        let phase = plan::phase(work.as_deref(), trace.as_deref(), &self.identity);
        let mut items = match (&work, phase) {
            (Some(work), Phase::Applying) => self.items(work).await,
            (Some(work), Phase::Complete | Phase::Leaving) => entries(work).map(|it| Item::listed(work, it)).collect(),
            _ => vec![],
        };
        let recorded = || {
            trace
                .iter()
                .filter_map(|it| it.status.as_ref())
                .flat_map(|it| &it.applied_resources)
        };
        let leaving: Vec<_> = match (&trace, phase) {
            (Some(trace), Phase::Applying) => plan::unwanted(trace, &items).cloned().collect(),
            (Some(_), Phase::Renewing | Phase::Leaving | Phase::Finishing) => recorded().cloned().collect(),
            _ => vec![],
        };
        let mut followed: BTreeSet<Key> = items.iter().filter_map(|it| it.key.clone()).collect();
        for record in recorded().map(plan::key_of_record) {
            if !followed.iter().any(|it| it.same_object(&record)) {
                followed.insert(record);
            }
        }
        self.objects.follow(key, followed);
        let prepared = trace.is_some()
            && work.as_ref().is_some_and(|it| {
                it.metadata
                    .finalizers
                    .iter()
                    .flatten()
                    .any(|it| it == finalizers::MANIFEST_WORK)
            });
        if prepared && let Some(work) = &work {
            self.permit(work, &mut items, &tries.refused).await;
        }
        let trace_uid = trace
            .as_ref()
            .and_then(|it| it.metadata.uid.clone())
            .unwrap_or_default();
        let on_record: HashSet<Key> = recorded().map(plan::key_of_record).collect();
        // Nothing is prepared for a complete work; looking is all that is done for it.
        let looks = prepared || phase == Phase::Complete;
        self.look_at_items(key, &mut items, tries, looks, &on_record).await;
        self.look_at_others(key, &trace_uid, &mut items).await;
        let leaving = leaving.into_iter();
        let leaving =
            leaving.map(|record| self.look_at_leaving((key, trace_uid.as_str()), work.as_deref(), record, tries));
        let leaving = join_all(leaving).await;
        Seen {
            now: Timestamp::now(),
            identity: self.identity_for(key),
            keeps_agent_id: self.keeps_agent_id.load(Ordering::Relaxed),
            key: key.to_owned(),
            work,
            trace,
            items,
            leaving,
            blocked: tries.blocked.clone(),
        }
    }

    /// The manifests, read and resolved.
    async fn items(&self, work: &ManifestWork) -> Vec<Item> {
        let old = work
            .status
            .as_ref()
            .map(|it| it.resource_status.manifests.as_slice())
            .unwrap_or_default();
        let manifests = work.spec.workload.manifests.read();
        let reading = manifests.iter().enumerate().map(|(ordinal, raw)| async move {
            let manifest = manifest::parse(ordinal, &raw.0);
            let resource = match &manifest {
                Ok(it) => self.discovery.resolve(&it.gvk).await.map_err(|it| it.to_string()),
                Err(it) => Err(it.why.clone()),
            };
            let key = match (&manifest, &resource) {
                (Ok(manifest), Ok(resource)) => Some(Key {
                    group: resource.gvk.group.clone(),
                    version: resource.gvk.version.clone(),
                    resource: resource.plural.clone(),
                    namespace: if resource.namespaced {
                        manifest.namespace.clone()
                    } else {
                        String::new()
                    },
                    name: manifest.name.clone(),
                }),
                _ => None,
            };
            Item::new(work, manifest, resource, key)
        });
        let mut items = join_all(reading).await;
        for item in &mut items {
            let meta = plan::meta(item);
            let same = old.iter().find(|it| {
                let it = &it.resource_meta;
                (&it.group, &it.version, &it.kind, &it.resource, &it.namespace, &it.name)
                    == (
                        &meta.group,
                        &meta.version,
                        &meta.kind,
                        &meta.resource,
                        &meta.namespace,
                        &meta.name,
                    )
            });
            item.complete = same.is_some_and(|it| strategy::is_complete(&it.conditions));
        }
        items
    }

    /// Asks whether the executor may do what the manifests ask for, where the work names one.
    async fn permit(&self, work: &ManifestWork, items: &mut [Item], refused: &HashMap<Key, Refusal>) {
        let Some(executor) = &work.spec.executor else { return };
        let answers = {
            let wishes = items
                .iter()
                .filter_map(|it| match (&it.manifest, &it.key, it.complete) {
                    (Ok(manifest), Some(key), false) => Some(Wish {
                        gvk: &manifest.gvk,
                        key,
                        owned: it.owned,
                        object: &manifest.object,
                        generation: work.metadata.generation,
                    }),
                    _ => None,
                });
            self.executors.permit_all(executor, wishes.collect()).await
        };
        let asked = items
            .iter_mut()
            .filter(|it| it.manifest.is_ok() && it.key.is_some() && !it.complete);
        for (item, answer) in asked.zip(answers) {
            let refusal = item.key.as_ref().and_then(|it| refused.get(it));
            item.permitted = refusal.map_or(answer, |it| Err(it.clone()));
        }
    }

    /// Takes in which writes of a plan are not to be made, because the executor that the work names could not make them.
    async fn refuses(&self, seen: &Seen, page: &Plan, tries: &mut Tries) -> bool {
        let Some(executor) = seen.work.as_ref().and_then(|it| it.spec.executor.as_ref()) else {
            return false;
        };
        let writes = page.stages.iter().flatten();
        let writes = writes.filter_map(|step| Some((plan::key_of_target(step.target()?)?, step)));
        // What is let go of grants less afterwards, and a work can always be deleted, whatever became of its executor.
        let writes = writes.filter(|(key, _)| !seen.leaving.iter().any(|it| it.key().same_object(key)));
        let asking = writes.map(|(key, step)| async move {
            let answer = self.executors.permit_write(executor, &key, step).await;
            Some((key, answer.err()?))
        });
        let refused: Vec<_> = join_all(asking).await.into_iter().flatten().collect();
        let any = !refused.is_empty();
        tries.refused.extend(refused);
        any
    }

    async fn look_at_items(
        &self,
        work: &str,
        items: &mut [Item],
        tries: &mut Tries,
        looks: bool,
        on_record: &HashSet<Key>,
    ) {
        for item in items.iter_mut() {
            let Some(key) = &item.key else { continue };
            item.live = self.objects.look(key, tries.since);
            item.watched = self.objects.is_watched(key);
            item.written = self.objects.written(work, key);
            item.hold = self.objects.hold(work, key);
            item.tried = tries.by_key.get(key).cloned().unwrap_or_default();
            item.tried.plain |= self.objects.must_be_whole(key);
        }
        let unsure = std::mem::take(&mut tries.unsure);
        let reading = items.iter().enumerate().filter_map(|(at, item)| {
            let key = item.key.clone()?;
            let may_be_blind = match (&item.manifest, &item.resource) {
                (Ok(manifest), Ok(resource)) => {
                    !strategy::must_look_first(&item.config, &resource.gvk, &manifest.object)
                        && self.objects.other_followers(work, &key).is_empty()
                }
                _ => false,
            };
            let blind = may_be_blind
                && item.permitted.is_ok()
                && !item.complete
                && item.tried.failure.is_none()
                && !on_record.contains(&key);
            let must = unsure.contains(&key) || (looks && item.live == Live::Unknown && !blind);
            must.then_some(async move { (at, self.objects.fetch(work, &key).await) })
        });
        for (at, answer) in join_all(reading.collect::<Vec<_>>()).await {
            match answer {
                Ok(live) => items[at].live = live,
                Err(error) => items[at].unreadable = Some(text_of(error)),
            }
        }
    }

    /// What other works ask of the objects of this one, where an object has more than this one asks.
    async fn look_at_others(&self, work: &str, trace_uid: &str, items: &mut [Item]) {
        for item in items {
            let (Ok(manifest), Some(key), Some(live)) = (&item.manifest, &item.key, item.live.object()) else {
                continue;
            };
            if strategy::has_more(live, &item.config, trace_uid, &manifest.object) {
                let own = strategy::claim(&manifest.object, Some((work, trace_uid)));
                item.others = self.claims_of_others(work, trace_uid, live, key, Some(own)).await;
            }
        }
    }

    /// What works other than this one ask of an object, until nothing of what the agent has applied is left unclaimed: where a
    /// thousand works say the same of a namespace, the first of them is enough.
    async fn claims_of_others(
        &self,
        work: &str,
        trace_uid: &str,
        live: &Value,
        key: &Key,
        own: Option<Value>,
    ) -> Vec<Value> {
        let not_ours = ownership::not_of(live, trace_uid);
        let mut claims: Vec<Value> = Vec::new();
        for follower in self.objects.other_followers(work, key) {
            claims.extend(self.claims_of(&follower, key, live).await);
            let all: Vec<&Value> = claims.iter().chain(&own).chain([&not_ours]).collect();
            if !agreement::appliers(live).any(|it| agreement::is_unclaimed(live, it, &all)) {
                break;
            }
        }
        claims
    }

    async fn claims_of(&self, trace_name: &str, key: &Key, live: &Value) -> Vec<Value> {
        let trace = self.traces.named(trace_name);
        let work = self
            .identity
            .work_name(trace_name)
            .and_then(|name| self.works.get(&self.namespace, name));
        let Some(work) = work else {
            // What the work of another hub asks, or one whose work is gone for the time being, nobody here can tell.
            let stays = trace.is_some_and(|it| it.metadata.deletion_timestamp.is_none());
            return if stays { vec![live.clone()] } else { vec![] };
        };
        if work.metadata.deletion_timestamp.is_some() {
            return vec![];
        }
        let is_owner = ownership::owned_by_work(work.spec.delete_option.as_ref(), key);
        let uid = trace.and_then(|it| it.metadata.uid.clone());
        let owner = uid.as_deref().filter(|_| is_owner).map(|uid| (trace_name, uid));
        let mut claims = Vec::new();
        for (ordinal, raw) in work.spec.workload.manifests.read().iter().enumerate() {
            let Ok(manifest) = manifest::parse(ordinal, &raw.0) else {
                continue;
            };
            let may_be_it = manifest.gvk.group == key.group
                && manifest.name == key.name
                && (key.namespace.is_empty() || manifest.namespace == key.namespace);
            if !may_be_it {
                continue;
            }
            match self.discovery.resolve(&manifest.gvk).await {
                Ok(resource) if resource.plural != key.resource => {}
                Ok(_) => claims.push(strategy::claim(&manifest.object, owner)),
                // Nothing is taken away because discovery failed.
                Err(_) => claims.push(live.clone()),
            }
        }
        claims
    }

    async fn look_at_leaving(
        &self,
        (trace_name, trace_uid): (&str, &str),
        work: Option<&ManifestWork>,
        record: AppliedManifestResourceMeta,
        tries: &Tries,
    ) -> Leaving {
        let key = plan::key_of_record(&record);
        let mut problem = tries.problems.get(&key).cloned();
        let mut live = self.objects.look(&key, tries.since);
        if live == Live::Unknown {
            match self.objects.fetch(trace_name, &key).await {
                Ok(found) => live = found,
                // It was only announced, and writing it was refused as this look is. Had it been written all the same, it
                // would go together with its owner, the trace.
                Err(kube::Error::Api(status)) if status.code == 403 && record.uid.is_empty() => live = Live::Absent,
                // Where its kind is not served it is not there; what says so need not be a Status.
                Err(kube::Error::Api(status)) if status.code == 404 => live = Live::Absent,
                Err(error) => problem = Some(text_of(error)),
            }
        }
        let others = match live.object() {
            Some(live) => self.claims_of_others(trace_name, trace_uid, live, &key, None).await,
            None => vec![],
        };
        let config = work.map_or_else(Config::default, |it| config::find(&it.spec.manifest_configs, &key));
        Leaving {
            manager: strategy::manager(&config).to_owned(),
            release: tries.releases.get(&key).copied().unwrap_or_default(),
            watched: self.objects.is_watched(&key),
            record,
            live,
            problem,
            others,
        }
    }

    /// Takes in what became of a step, so that the next look sees it without asking.
    async fn absorb(&self, seen: &Seen, step: &Step, result: Result<Done, StepError>, tries: &mut Tries) {
        let Some(target) = step.target() else { return };
        if target.site == Site::Hub {
            match result {
                Ok(done) => self.absorb_work(done, tries),
                // A work that is gone, or not the one we saw, is seen to be so by the watch.
                Err(error) => tries.errors.push(format!("{step}: {}", sentence(&error))),
            }
            return;
        }
        match plan::key_of_target(target) {
            None => self.absorb_trace(step, result, tries).await,
            Some(key) => self.absorb_object(seen, step, key, result, tries),
        }
    }

    fn absorb_work(&self, done: Done, tries: &mut Tries) {
        let Done::Object(object) = done else { return };
        if is_gone(&object) {
            tries.gone.extend(object.metadata.uid.clone());
        } else if let Ok(work) = object.try_parse::<ManifestWork>() {
            self.works.put(work);
        }
    }

    async fn absorb_trace(&self, step: &Step, result: Result<Done, StepError>, tries: &mut Tries) {
        match result {
            Ok(Done::Object(object)) if is_gone(&object) => tries.gone.extend(object.metadata.uid.clone()),
            Ok(Done::Object(object)) => {
                if let Ok(trace) = object.try_parse::<AppliedManifestWork>() {
                    self.learn_what_is_kept(step, &trace);
                    self.traces.put(trace);
                }
            }
            Ok(Done::Gone) => {
                if let Step::Delete { uid: Some(uid), .. } = step {
                    tries.gone.insert(uid.clone());
                }
            }
            // The watch is behind: it was made by an earlier run that did not live to see it.
            Ok(Done::AlreadyExists) => {
                let name = step.target().map(|it| it.name.clone()).unwrap_or_default();
                match Api::<AppliedManifestWork>::all(self.cluster.clone()).get(&name).await {
                    Ok(trace) => self.traces.put(trace),
                    Err(error) => tries.errors.push(text_of(error)),
                }
            }
            Ok(Done::Told | ocm_reconcile::Done::Performed) => {}
            // A trace that cannot be made is told on the work: its name may be too long for the cluster.
            Err(error) if matches!(step, Step::Create { .. }) && error.code().is_some() => {
                tries.blocked = Some(sentence(&error));
            }
            Err(error) => tries.errors.push(format!("{step}: {}", sentence(&error))),
        }
    }

    fn learn_what_is_kept(&self, step: &Step, trace: &AppliedManifestWork) {
        let sent = match step {
            Step::Create { object, .. } => object,
            Step::MergePatch { patch, .. } => patch,
            _ => return,
        };
        if sent["spec"]["agentID"].as_str().is_none_or(str::is_empty) {
            return;
        }
        let kept = !trace.spec.agent_id.is_empty();
        if self.keeps_agent_id.swap(kept, Ordering::Relaxed) && !kept {
            warn!(
                "the CRD of AppliedManifestWorks is of an old release without spec.agentID: whose they are is told by the hub's \
                 address alone"
            );
        }
    }

    fn absorb_object(&self, seen: &Seen, step: &Step, key: Key, result: Result<Done, StepError>, tries: &mut Tries) {
        let is_leaving = seen.leaving.iter().any(|it| it.key().same_object(&key));
        match result {
            Ok(Done::Object(object)) => {
                let value = serde_json::to_value(&*object).unwrap_or_default();
                if matches!(step, Step::Delete { .. }) {
                    self.objects.learn(&seen.key, &key, remains(&object).then_some(value));
                    return;
                }
                let is_whole = matches!(step, Step::Create { .. } | Step::Replace { .. });
                if is_whole && tries.unpatchable.remove(&key) {
                    self.objects.set_must_be_whole(&key, true);
                }
                if let (Some(hash), Some(version)) =
                    (plan::hash_of_write(seen, &key), &object.metadata.resource_version)
                {
                    let written = Written {
                        hash,
                        resource_version: version.clone(),
                    };
                    self.objects.learn(&seen.key, &key, Some(value));
                    self.objects
                        .wrote(&seen.key, &key, written, !matches!(step, Step::MergePatch { .. }));
                } else {
                    self.objects.learn(&seen.key, &key, Some(value));
                }
            }
            Ok(Done::Gone) => self.objects.learn(&seen.key, &key, None),
            Ok(Done::AlreadyExists) => {
                tries.unsure.insert(key);
            }
            Ok(Done::Told | ocm_reconcile::Done::Performed) => {}
            Err(error) => {
                let code = error.code();
                let message = sentence(&error);
                let applies = matches!(step, Step::Apply { .. });
                self.objects.unlearn(&key);
                if is_leaving && applies && matches!(code, Some(400 | 403 | 422)) {
                    let how = tries.releases.entry(key.clone()).or_default();
                    *how = how.next();
                    warn!(%key, %message, ?how, "what only a leaving work asked for cannot be taken off a shared object");
                    return;
                }
                if is_leaving {
                    // Another incarnation, or somebody was faster: the next look tells which.
                    let tried = tries.by_key.entry(key.clone()).or_default();
                    tried.failures += 1;
                    if !matches!(code, Some(404 | 409)) || tried.failures >= CONFLICTS_MAX {
                        tries.problems.insert(key, message);
                    }
                    return;
                }
                if code == Some(404) && is_unserved(&message) {
                    self.discovery.forget(&key.group, &key.version);
                }
                if !applies && code == Some(403) {
                    // The rights have changed: the next pass begins as if nothing were known.
                    self.objects.set_must_be_whole(&key, false);
                }
                let tried = tries.by_key.entry(key.clone()).or_default();
                tried.failures += 1;
                // An apply of strategy `Update` is forced, so that a conflict is one with the state that it was made of.
                let may_race = match code {
                    Some(404) => !applies,
                    Some(409) => !applies || updates(seen, &key),
                    _ => false,
                };
                let raced = may_race && tried.failures < CONFLICTS_MAX;
                let unpatchable = permission_fallback::is_right(code, &message, "patch");
                // Who chose server-side apply is told that it cannot be.
                let may_be_plain = applies && !tried.plain && updates(seen, &key);
                if may_be_plain && (unpatchable || strategy::is_untyped(&message)) {
                    tried.plain = true;
                    if unpatchable {
                        tries.unpatchable.insert(key.clone());
                    }
                } else if !raced || matches!(step, Step::Create { .. }) {
                    tried.failure = Some(Failure { code, message });
                }
                tries.unsure.insert(key);
            }
        }
    }
}

/// Whether the manifest of this object has the strategy `Update`, whose writes may be made in more than one way.
fn updates(seen: &Seen, key: &Key) -> bool {
    let item = seen.items.iter().find(|it| it.key.as_ref() == Some(key));
    item.is_some_and(|it| it.config.update() == UpdateStrategyType::Update)
}

/// The objects of works that a plan writes.
fn keys_of(page: &Plan) -> impl Iterator<Item = Key> {
    let targets = page.stages.iter().flatten().filter_map(Step::target);
    targets.filter_map(plan::key_of_target)
}

/// What the status of the work lists.
fn entries(work: &ManifestWork) -> impl Iterator<Item = &ManifestResourceMeta> {
    let status = work.status.iter();
    status
        .flat_map(|it| &it.resource_status.manifests)
        .map(|it| &it.resource_meta)
}

fn text_of(error: kube::Error) -> String {
    sentence(&StepError::from(error))
}

/// The last answer about an object whose last finalizer was taken off.
fn is_gone(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some() && object.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
}

/// Whether an object that the API server answered a deletion with is still there: it waits for finalizers, or is given time to end.
fn remains(object: &DynamicObject) -> bool {
    let waits = object.metadata.finalizers.as_ref().is_some_and(|it| !it.is_empty());
    let ends = object.metadata.deletion_grace_period_seconds.is_some_and(|it| it > 0);
    object.metadata.deletion_timestamp.is_some() && (waits || ends)
}

fn is_unserved(message: &str) -> bool {
    message.contains("could not find the requested resource") || message.contains("404 page not found")
}
