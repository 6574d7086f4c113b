//! What one run has learned by trying: plain functions of what became of each round.

use std::{
    collections::{HashMap, HashSet},
    time::Instant,
};

use kube::api::DynamicObject;
use ocm_api::work::UpdateStrategyType;
use ocm_reconcile::{
    Done, Outcome, Site, Step, StepError,
    execute::{permission_fallback, sentence},
};

use super::{
    executor::ExecutorRefusal,
    manifest::ObjectKey,
    records,
    seen::Seen,
    strategy::{self, Attempt, Release, WriteFailure},
};

/// More than any path through a run needs; a guard against two rules that undo each other.
const ROUNDS_MAX: usize = 12;

/// A write that met another writer is tried this often before it counts as failed.
const CONFLICTS_MAX: u32 = 4;

/// What one run has learned by trying.
#[derive(Clone, Debug)]
pub struct Attempts {
    /// When the run began.
    pub since: Instant,
    pub by_key: HashMap<ObjectKey, Attempt>,
    /// Objects whose state must be read before the next decision.
    pub unsure: HashSet<ObjectKey>,
    /// Objects that were not to be patched.
    pub unpatchable: HashSet<ObjectKey>,
    /// Objects that the executor of the work could not write as the agent would have.
    pub refused: HashMap<ObjectKey, ExecutorRefusal>,
    /// Shared objects on record that could not be let go of as they should be.
    pub releases: HashMap<ObjectKey, Release>,
    /// Objects on record that could not be removed.
    pub problems: HashMap<ObjectKey, String>,
    /// Work and trace that went with our last write, though a cache may still show them.
    pub gone: HashSet<String>,
    /// Why the work could not even be begun.
    pub blocked: Option<String>,
    /// Why a trace that was to be made and is there could not be read.
    pub unread_trace: Option<String>,
    /// Whether something has failed that no manifest's condition tells.
    pub has_failed: bool,
    rounds: usize,
}

impl Attempts {
    /// Of a run that begins.
    pub fn since(now: Instant) -> Self {
        Self {
            since: now,
            by_key: HashMap::new(),
            unsure: HashSet::new(),
            unpatchable: HashSet::new(),
            refused: HashMap::new(),
            releases: HashMap::new(),
            problems: HashMap::new(),
            gone: HashSet::new(),
            blocked: None,
            unread_trace: None,
            has_failed: false,
            rounds: 0,
        }
    }

    /// Whether nothing more is tried in this run.
    pub fn are_over(&self) -> bool {
        self.has_failed || self.rounds >= ROUNDS_MAX
    }

    /// Nothing more can be tried before this trace can be read.
    pub fn could_not_read_trace(&mut self, why: String) {
        self.unread_trace = Some(why);
        self.has_failed = true;
    }

    /// Those of a run so far, with what became of one more round.
    pub fn after(seen: &mut Seen, outcome: &Outcome) -> Self {
        let begun = Self::since(seen.attempts.since);
        std::mem::replace(&mut seen.attempts, begun).and(seen, outcome)
    }

    fn and(mut self, seen: &Seen, outcome: &Outcome) -> Self {
        // Who had to wait for its turn has not tried anything yet.
        self.rounds += usize::from(!seen.round.has_waited());
        self.refused.extend(seen.round.refused());
        for (step, result) in outcome.results() {
            self.has_failed |= failure(step, result).is_some();
            let Some(target) = step.target() else { continue };
            match records::key_of_target(target) {
                Some(key) => self.learn_of_object(seen, step, key, result),
                None => self.learn_of_work_or_trace(step, result),
            }
        }
        self
    }

    fn learn_of_work_or_trace(&mut self, step: &Step, result: &Result<Done, StepError>) {
        match (step, result) {
            (_, Ok(Done::Object(object))) if is_gone(object) => self.gone.extend(object.metadata.uid.clone()),
            (Step::Delete { uid, .. }, Ok(Done::Gone)) => self.gone.extend(uid.clone()),
            (_, Err(error)) if is_told_on_the_work(step, error) => self.blocked = Some(sentence(error)),
            _ => {}
        }
    }

    fn learn_of_object(&mut self, seen: &Seen, step: &Step, key: ObjectKey, result: &Result<Done, StepError>) {
        let error = match result {
            Err(error) => error,
            Ok(done) => {
                let is_whole = matches!(step, Step::Create { .. } | Step::Replace { .. });
                match done {
                    Done::Object(_) if is_whole => {
                        self.unpatchable.remove(&key);
                    }
                    Done::AlreadyExists => {
                        self.unsure.insert(key);
                    }
                    _ => {}
                }
                return;
            }
        };
        let code = error.code();
        let message = sentence(error);
        let applies = matches!(step, Step::Apply { .. });
        if is_leaving(seen, &key) && applies && matches!(code, Some(400 | 403 | 422)) {
            let how = self.releases.entry(key.clone()).or_default();
            *how = how.next();
            return;
        }
        if is_leaving(seen, &key) {
            // Another incarnation, or somebody was faster: the next look tells which.
            let tried = self.by_key.entry(key.clone()).or_default();
            tried.failures += 1;
            if !matches!(code, Some(404 | 409)) || tried.failures >= CONFLICTS_MAX {
                self.problems.insert(key, message);
            }
            return;
        }
        let tried = self.by_key.entry(key.clone()).or_default();
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
                self.unpatchable.insert(key.clone());
            }
        } else if !raced || matches!(step, Step::Create { .. }) {
            tried.failure = Some(WriteFailure { code, message });
        }
        self.unsure.insert(key);
    }
}

/// Whether an object is one that the work no longer wants.
pub(super) fn is_leaving(seen: &Seen, key: &ObjectKey) -> bool {
    seen.leaving.iter().any(|it| it.key().same_object(key))
}

/// What of a step makes the run count as failed: what no manifest's condition tells.
pub(super) fn failure(step: &Step, result: &Result<Done, StepError>) -> Option<String> {
    let (target, error) = (step.target()?, result.as_ref().err()?);
    let is_told = records::is_object(target) || is_told_on_the_work(step, error);
    (!is_told).then(|| format!("{step}: {}", sentence(error)))
}

/// A trace that cannot be made is told on the work: its name may be too long for the cluster.
fn is_told_on_the_work(step: &Step, error: &StepError) -> bool {
    matches!(step, Step::Create { target, .. } if target.site == Site::Cluster) && error.code().is_some()
}

/// Whether the manifest of this object has the strategy `Update`, whose writes may be made in more than one way.
fn updates(seen: &Seen, key: &ObjectKey) -> bool {
    let item = seen.items.iter().find(|it| it.key.as_ref() == Some(key));
    item.is_some_and(|it| it.config.update() == UpdateStrategyType::Update)
}

/// The last answer about an object whose last finalizer was taken off.
pub(super) fn is_gone(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some() && object.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
}
