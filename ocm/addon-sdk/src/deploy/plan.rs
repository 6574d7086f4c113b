//! What to do for one add-on on one cluster: its works, and the finalizers that hold it until what it needs is cleaned
//! up.
//!
//! Root: ManagedClusterAddOn. Reads: its ManagedCluster, the hosting one, its configurations, its works. Writes: its
//! works `addon-<add-on>-deploy-<i>` and `addon-<add-on>-pre-delete`, here and on the hosting cluster; three finalizers
//! of the add-on; its conditions `ManifestApplied`, `HostingManifestApplied`, `HostingClusterValidity`,
//! `HookManifestCompleted` and, unless the agent judges, `Available`.
//! Never: a work that is not named like one of the add-on's; an add-on that no registered one answers for. Upstream:
//! addon-framework `pkg/addonmanager/controllers/agentdeploy`. We differ where its five syncers stop half-way: the
//! works of an add-on without manifests and of a hosting cluster that was left are removed; finalizers and the
//! condition that goes with them are both written; a finalizer is never added to what is being deleted.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{
    Condition,
    addon::v1alpha1::ManagedClusterAddOn,
    condition::{self, ConditionUpdate, Status, wanted},
    conditions::managed_cluster_add_on::{self, deploy_reason as reason},
    finalizers,
    work::ManifestWork,
};
use ocm_reconcile::{Note, Plan, Site, cache};
use serde_json::Value;

use super::{
    hooks::{self, HookProgress},
    manifest::Side,
    memory::{self, Epoch, Fingerprints, is_ours},
    names::{Names, Part},
    rendering::{self, Rendered},
    works::{WantedWork, changed, name_of, names},
};
use crate::{AddOn, AddOnContext, Health, Mode, warning::warning};

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// `cluster/add-on`.
    pub key: String,
    /// What there is.
    pub root: Root,
    /// All works of the add-on for the cluster, wherever they are.
    pub works: Vec<Arc<ManifestWork>>,
    /// Whether works that the watch does not show were looked for.
    pub is_second_look: bool,
}

/// What there is of an add-on on a cluster.
pub enum Root {
    /// No registered add-on answers for it.
    NotOurs,
    /// There is none, or none any more.
    Gone,
    /// There is one, and its cluster is gone.
    ClusterGone(Arc<ManagedClusterAddOn>),
    /// Something is not known yet.
    Waits(String),
    /// There is one, and its cluster is there.
    Here(Box<Here>),
}

/// An add-on on a cluster that is there.
pub struct Here {
    /// Its author's answers.
    pub add_on: Arc<dyn AddOn>,
    /// What there is to know.
    pub place: AddOnContext,
    /// How its health is known.
    pub health: Health,
    /// The fingerprint of what its manifests are made from.
    pub inputs: u64,
    /// The fingerprints with which its works agreed last.
    pub settled: Option<Fingerprints>,
    /// When all this was looked at.
    pub epoch: Epoch,
    rendered: OnceLock<Rendered>,
}

/// How far an add-on is between being enabled and being gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddOnPhase {
    /// Something else must happen first.
    Waits(&'static str),
    /// Its works are kept as they should be.
    Serving,
    /// It is being deleted, and hooks run first, on these sides.
    PreDelete(Vec<Side>),
    /// It is being deleted, and nothing holds it but cleaning up.
    Deleting,
}

/// The cluster that hosts an add-on's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host<'p> {
    /// None: the agent runs where it manages.
    None,
    /// This one.
    Is(&'p str),
    /// This one, which is on its way out.
    Leaving(&'p str),
    /// This one, which the hub does not know.
    Unknown(&'p str),
}

impl<'p> Host<'p> {
    /// The cluster that hosts the agent at this place.
    pub fn at(place: &'p AddOnContext) -> Self {
        match &place.mode {
            Mode::Default => Host::None,
            Mode::Hosted(hosting) => match &hosting.cluster {
                None => Host::Unknown(&hosting.name),
                Some(it) if it.metadata.deletion_timestamp.is_some() => Host::Leaving(&hosting.name),
                Some(_) => Host::Is(&hosting.name),
            },
        }
    }

    /// Its name, when manifests may go there.
    pub fn usable(self) -> Option<&'p str> {
        match self {
            Host::Is(name) => Some(name),
            Host::None | Host::Leaving(_) | Host::Unknown(_) => None,
        }
    }
}

/// How far an add-on is between being enabled and being gone.
pub fn phase(place: &AddOnContext, waits_for_configuration: bool) -> AddOnPhase {
    let addon = &place.addon;
    if addon.metadata.deletion_timestamp.is_some() {
        let mut sides = Vec::new();
        if holds(addon, finalizers::ADDON_PRE_DELETE) {
            sides.push(Side::Managed);
        }
        if holds(addon, finalizers::ADDON_HOSTING_PRE_DELETE) && Host::at(place).usable().is_some() {
            sides.push(Side::Hosting);
        }
        return if sides.is_empty() {
            AddOnPhase::Deleting
        } else {
            AddOnPhase::PreDelete(sides)
        };
    }
    if place.cluster.metadata.deletion_timestamp.is_some() {
        return AddOnPhase::Waits("its cluster is being deleted");
    }
    let said = conditions(addon);
    if condition::find(said, managed_cluster_add_on::REGISTRATION_APPLIED).is_none() {
        return AddOnPhase::Waits("its registration is not settled yet (condition RegistrationApplied)");
    }
    if waits_for_configuration && !condition::is_true(said, managed_cluster_add_on::CONFIGURED) {
        return AddOnPhase::Waits("its configuration is not settled yet (condition Configured)");
    }
    AddOnPhase::Serving
}

/// What was said about an add-on.
pub fn conditions(addon: &ManagedClusterAddOn) -> &[Condition] {
    addon.status.as_ref().map_or(&[], |it| &it.conditions)
}

fn holds(addon: &ManagedClusterAddOn, finalizer: &str) -> bool {
    addon.finalizers().iter().any(|it| it == finalizer)
}

/// The plan.
pub fn plan(seen: &Seen) -> Plan {
    let mut plan = Plan::new();
    match &seen.root {
        Root::NotOurs => {}
        // Works in the cluster's own namespace go with their owner; those elsewhere have none.
        Root::Gone => delete_hosting(&mut plan, seen, |_| true),
        Root::ClusterGone(addon) if addon.metadata.deletion_timestamp.is_some() => release(&mut plan, seen, addon),
        Root::ClusterGone(_) => {
            plan.wait("there is no such cluster");
        }
        Root::Waits(why) => {
            plan.wait(why.as_str());
        }
        Root::Here(here) => match here.phase() {
            AddOnPhase::Waits(why) => {
                plan.wait(why);
            }
            AddOnPhase::Serving => serve(&mut plan, seen, here),
            AddOnPhase::PreDelete(sides) => run_hooks(&mut plan, seen, here, &sides),
            AddOnPhase::Deleting => release(&mut plan, seen, &here.place.addon),
        },
    }
    plan
}

impl Here {
    /// What there is of an add-on at a place, whose works agreed last with what has the fingerprints `settled`.
    pub fn of(add_on: Arc<dyn AddOn>, place: AddOnContext, settled: Option<Fingerprints>, epoch: Epoch) -> Self {
        Self {
            health: add_on.health(&place),
            inputs: memory::inputs(&place),
            add_on,
            place,
            settled,
            epoch,
            rendered: OnceLock::new(),
        }
    }

    /// What its author wants on the cluster, where these works are present: worked out when it is first asked for.
    pub fn rendered(&self, present: &[Arc<ManifestWork>]) -> &Rendered {
        self.rendered.get_or_init(|| rendering::rendered(self, present))
    }

    /// How far the add-on is between being enabled and being gone.
    pub fn phase(&self) -> AddOnPhase {
        phase(&self.place, self.add_on.waits_for_configuration())
    }
}

fn serve(plan: &mut Plan, seen: &Seen, here: &Here) {
    let addon = &here.place.addon;
    let usable = Host::at(&here.place).usable();
    let (mut keep, mut add) = (Vec::new(), Vec::new());
    match here.rendered(&seen.works) {
        Rendered::Works(works) => {
            if works.iter().any(|it| it.part == Part::Hooks(Side::Managed)) {
                add.push(finalizers::ADDON_PRE_DELETE);
            }
            if works.iter().any(|it| it.part == Part::Hooks(Side::Hosting)) {
                add.push(finalizers::ADDON_HOSTING_PRE_DELETE);
            }
            if works.iter().any(|it| it.part.side() == Side::Hosting) {
                add.push(finalizers::ADDON_HOSTING_MANIFESTS);
            }
        }
        // What hooks there are is not known anew; what held the add-on holds it.
        _ => {
            keep.push(finalizers::ADDON_PRE_DELETE);
            if usable.is_some() {
                keep.push(finalizers::ADDON_HOSTING_PRE_DELETE);
                keep.push(finalizers::ADDON_HOSTING_MANIFESTS);
            }
        }
    }
    // This one goes when what it stands for is gone.
    let hosting_ends = holds(addon, finalizers::ADDON_HOSTING_MANIFESTS)
        && !add.contains(&finalizers::ADDON_HOSTING_MANIFESTS)
        && !keep.contains(&finalizers::ADDON_HOSTING_MANIFESTS);
    keep.push(finalizers::ADDON_HOSTING_MANIFESTS);
    let first = with_finalizers(addon, &keep, &add);
    if let Some(next) = &first {
        plan.change(Site::Hub, &**addon, next);
    }
    write_works(plan, seen, here, &[]);
    plan.stage();
    delete_hosting(plan, seen, |work| work.metadata.namespace.as_deref() != usable);
    if hosting_ends {
        // Two patches of one object in one plan would be in each other's way.
        match first {
            Some(_) => {
                plan.wait("the hosting cluster was left; its finalizer goes in the next run");
            }
            None => {
                keep.retain(|it| *it != finalizers::ADDON_HOSTING_MANIFESTS);
                plan.stage();
                if let Some(next) = with_finalizers(addon, &keep, &add) {
                    plan.change(Site::Hub, &**addon, &next);
                }
            }
        }
    }
}

/// Creates what is missing, changes what differs, deletes what is wanted no longer.
/// Hooks are written on these sides only.
fn write_works(plan: &mut Plan, seen: &Seen, here: &Here, hooks_on: &[Side]) {
    match here.rendered(&seen.works) {
        Rendered::NotAsked | Rendered::Settled => {}
        Rendered::Held(why) => {
            plan.wait(why.as_str());
        }
        Rendered::Refused(why) => {
            plan.refuse(why.as_str());
        }
        Rendered::Works(works) => {
            let written = |it: &&WantedWork| match it.part {
                Part::Deployed(..) => true,
                Part::Hooks(side) => hooks_on.contains(&side),
            };
            let wanted: Vec<_> = works.iter().filter(written).collect();
            plan.stage();
            for it in wanted.iter().filter(|it| present(seen, it.name()).is_none()) {
                plan.create(Site::Hub, &it.work);
            }
            plan.stage();
            for it in &wanted {
                let Some(present) = present(seen, it.name()) else {
                    continue;
                };
                match changed(present, &it.work) {
                    Some(_) if present.metadata.deletion_timestamp.is_some() => {
                        let name = it.name().1;
                        plan.wait(format!(
                            "work {name} is being deleted, and is made anew when it is gone"
                        ));
                    }
                    Some(next) => {
                        plan.change(Site::Hub, present, &next);
                    }
                    None => {}
                }
            }
            plan.stage();
            let names = names(&here.place.addon);
            let unwanted = |it: &&Arc<ManifestWork>| wanted.iter().all(|wanted| wanted.name() != name_of(it));
            for work in seen.works.iter().filter(unwanted) {
                // What hangs on the hosting cluster is looked at by itself, because it goes even
                // when nothing is rendered.
                match names.part(&work.name_any()).map(Part::side) {
                    Some(Side::Hosting) if work.metadata.namespace.as_deref() != Host::at(&here.place).usable() => {}
                    _ => {
                        plan.delete(Site::Hub, &**work);
                    }
                }
            }
        }
    }
}

/// The work of this namespace and name as it is.
pub fn present<'s>(seen: &'s Seen, name: (&str, &str)) -> Option<&'s ManifestWork> {
    seen.works.iter().map(|it| &**it).find(|it| name_of(it) == name)
}

fn run_hooks(plan: &mut Plan, seen: &Seen, here: &Here, sides: &[Side]) {
    match pre_delete_hooks(seen, here, sides) {
        PreDeleteHooks::Over { cut_short } => {
            let addon = &here.place.addon;
            if let Some(note) = cut_short {
                plan.push(warning(addon, reason::HOOK_DEADLINE_PASSED, "Delete", note, seen.now));
            }
            release(plan, seen, addon);
        }
        PreDeleteHooks::Pending(status) => {
            write_works(plan, seen, here, sides);
            plan.notes.extend(status.notes.into_iter().map(Note::Wait));
            if let Some(again) = status.again {
                plan.look_again(again);
            }
        }
    }
}

/// Whether hooks still hold an add-on that is being deleted.
pub enum PreDeleteHooks {
    /// They do: what there is to say about them.
    Pending(HookStatus),
    /// They do not.
    Over {
        /// What to tell when they had no time to complete.
        cut_short: Option<String>,
    },
}

/// Whether hooks on these sides still hold an add-on that is being deleted.
pub fn pre_delete_hooks(seen: &Seen, here: &Here, sides: &[Side]) -> PreDeleteHooks {
    // Said first, and let go in the run that saying it causes, so that who watches the add-on can see it. What was said
    // last stands: letting go removes the hooks' works before the finalizers, and who looks again in between, because
    // somebody else changed the add-on meanwhile, must not take the missing works for hooks that have yet to run.
    let said = condition::find(
        conditions(&here.place.addon),
        managed_cluster_add_on::HOOK_MANIFEST_COMPLETED,
    );
    match said {
        Some(it) if it.reason == reason::HOOK_COMPLETED && it.status == Status::True.as_str() => {
            return PreDeleteHooks::Over { cut_short: None };
        }
        Some(it) if it.reason == reason::HOOK_DEADLINE_PASSED => {
            return PreDeleteHooks::Over {
                cut_short: Some(it.message.clone()),
            };
        }
        Some(_) | None => {}
    }
    match hook_status(seen, here, sides) {
        Some(status) => PreDeleteHooks::Pending(status),
        None => PreDeleteHooks::Over { cut_short: None },
    }
}

/// What there is to say about the hooks of an add-on that is being deleted.
pub struct HookStatus {
    /// The condition.
    pub said: ConditionUpdate,
    /// What is waited for.
    pub notes: Vec<String>,
    /// When the next deadline passes.
    pub again: Option<Duration>,
}

/// What there is to say about the hooks on these sides; nothing when there are none any more.
pub fn hook_status(seen: &Seen, here: &Here, sides: &[Side]) -> Option<HookStatus> {
    let addon = &here.place.addon;
    let since = addon.metadata.deletion_timestamp.as_ref().map_or(seen.now, |it| it.0);
    let names = names(addon);
    let (mut pending, mut expired, mut done, mut unknown) = (None, None, None, None);
    let (mut notes, mut again) = (Vec::new(), None::<Duration>);
    for side in sides {
        let part = Part::Hooks(*side);
        let name = names.of(part);
        let namespace = match side {
            Side::Managed => names.cluster,
            Side::Hosting => Host::at(&here.place).usable().unwrap_or_default(),
        };
        let present = present(seen, (namespace, &name));
        let wanted = match here.rendered(&seen.works) {
            Rendered::Works(works) => match works.iter().find(|it| it.part == part) {
                Some(wanted) => Some(&wanted.work),
                // The author has taken the hooks back.
                None => continue,
            },
            _ => None,
        };
        let Some(hooks) = wanted.or(present) else {
            notes.push(format!("the hooks of {name} are not known"));
            if let Rendered::Refused(why) = here.rendered(&seen.works) {
                unknown = Some(why);
            }
            pending = pending.or(Some(name));
            continue;
        };
        // A report on other hooks than the present ones is worth nothing.
        let current = present.filter(|it| wanted.is_none_or(|wanted| changed(it, wanted).is_none()));
        let hooks = hooks.spec.workload.manifests.read();
        let hooks: Vec<&Value> = hooks.iter().map(|it| &it.0).collect();
        match hooks::progress(&hooks, current, since, seen.now) {
            HookProgress::Done => done = Some(name),
            HookProgress::Expired(deadline) => expired = Some((name, deadline)),
            HookProgress::Pending {
                names: hooks,
                again: soonest,
            } => {
                notes.push(format!("hooks of work {name} are not complete: {}", hooks.join(", ")));
                again = [again, soonest].into_iter().flatten().min();
                pending = pending.or(Some(name));
            }
        }
    }
    let (completed, reason, message) = match (&pending, &expired, &done) {
        (Some(name), _, _) => {
            let why = unknown
                .map(|it| format!(" What is to run is not known: {it}."))
                .unwrap_or_default();
            let message = format!("hook manifestWork {name} is not completed.{why}");
            (false, reason::HOOK_NOT_COMPLETED, message)
        }
        (None, Some((name, deadline)), _) => {
            let message = format!("hook manifestWork {name} is not completed within its deadline of {deadline:?}.");
            (false, reason::HOOK_DEADLINE_PASSED, message)
        }
        (None, None, Some(name)) => {
            let message = format!("hook manifestWork {name} is completed.");
            (true, reason::HOOK_COMPLETED, message)
        }
        (None, None, None) => return None,
    };
    let said = wanted(
        managed_cluster_add_on::HOOK_MANIFEST_COMPLETED,
        completed,
        reason,
        message,
    );
    Some(HookStatus { said, notes, again })
}

/// Whether the plan for this ends the add-on, so that there is nothing left to say about it.
pub fn lets_go(seen: &Seen, here: &Here) -> bool {
    match here.phase() {
        AddOnPhase::Deleting => true,
        AddOnPhase::PreDelete(sides) => matches!(pre_delete_hooks(seen, here, &sides), PreDeleteHooks::Over { .. }),
        AddOnPhase::Serving | AddOnPhase::Waits(_) => false,
    }
}

/// Removes what has no owner to go with, then what holds the add-on.
fn release(plan: &mut Plan, seen: &Seen, addon: &ManagedClusterAddOn) {
    delete_hosting(plan, seen, |_| true);
    plan.stage();
    if let Some(next) = with_finalizers(addon, &[], &[]) {
        plan.change(Site::Hub, addon, &next);
    }
}

fn delete_hosting(plan: &mut Plan, seen: &Seen, goes: impl Fn(&ManifestWork) -> bool) {
    let (cluster, addon) = cache::split_key(&seen.key);
    let names = Names { addon, cluster };
    for work in &seen.works {
        let hosting = names.part(&work.name_any()).map(Part::side) == Some(Side::Hosting);
        if hosting && goes(work) {
            plan.delete(Site::Hub, &**work);
        }
    }
}

/// The add-on with these finalizers of ours, or nothing when it has them. Those that older managers left are dropped,
/// and an add-on that is being deleted gets none.
fn with_finalizers(addon: &ManagedClusterAddOn, keep: &[&str], add: &[&str]) -> Option<ManagedClusterAddOn> {
    let mut next: Vec<String> = addon
        .finalizers()
        .iter()
        .filter(|it| !finalizers::ADDON_DEPRECATED.contains(&it.as_str()))
        .filter(|it| !is_ours(it) || keep.contains(&it.as_str()) || add.contains(&it.as_str()))
        .cloned()
        .collect();
    if addon.metadata.deletion_timestamp.is_none() {
        for finalizer in add.iter().filter(|it| !holds(addon, it)) {
            next.push((*finalizer).to_owned());
        }
    }
    if next == addon.finalizers() {
        return None;
    }
    let mut addon = addon.clone();
    addon.metadata.finalizers = (!next.is_empty()).then_some(next);
    Some(addon)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
