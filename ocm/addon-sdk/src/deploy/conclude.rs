//! What to say about an add-on when everything was tried: one patch of its status.

use kube::ResourceExt;
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn,
    annotations,
    condition::{self, ConditionUpdate, Status, wanted},
    conditions::{
        managed_cluster,
        managed_cluster_add_on::{self, deploy_reason as reason},
        manifest_work,
    },
    work::ManifestWork,
};
use ocm_reconcile::{Outcome, Plan, Site, execute::sentence};

use super::{
    availability::{self, Case},
    manifest::Side,
    names::Part,
    options,
    plan::{AddOnPhase, Here, Host, PreDeleteHooks, Root, Seen, conditions, lets_go, pre_delete_hooks, present},
    rendering::Rendered,
    works::{name_of, names},
};
use crate::Mode;

/// The patch.
pub fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
    let mut page = Plan::new();
    let Root::Here(here) = &seen.root else { return page };
    let phase = here.phase();
    // A conflict means that what was seen is old; the next look is due in a moment.
    let is_old = outcome.errors().any(|(_, error)| error.is_conflict());
    if is_old || matches!(phase, AddOnPhase::Waits(_)) || lets_go(seen, here) {
        return page;
    }
    let addon = &here.place.addon;
    let latest = outcome.latest::<ManagedClusterAddOn>(Site::Hub, addon.namespace().as_deref(), &addon.name_any());
    let before = latest.as_ref().unwrap_or(addon);
    let mut after = before.clone();
    let failures = failures(seen, outcome);
    for (r#type, said) in manifests(seen, here, outcome, &failures) {
        say(&mut after, r#type, said, seen);
    }
    if let AddOnPhase::PreDelete(sides) = &phase
        && let PreDeleteHooks::Pending(status) = pre_delete_hooks(seen, here, sides)
    {
        let r#type = managed_cluster_add_on::HOOK_MANIFEST_COMPLETED;
        say(&mut after, r#type, Word::Say(status.said), seen);
    }
    match health(seen, here, outcome, &after) {
        Ok(said) => say(&mut after, managed_cluster_add_on::AVAILABLE, Word::Say(said), seen),
        Err(why) => {
            page.remark(why);
        }
    }
    page.status(Site::Hub, before, &after);
    page
}

/// What becomes of a condition.
enum Word {
    /// It is set.
    Say(ConditionUpdate),
    /// What it said is no longer so if it said False; else it stays.
    TakeBackFalse,
    /// It is removed.
    TakeBack,
}

fn say(addon: &mut ManagedClusterAddOn, r#type: &str, word: Word, seen: &Seen) {
    let all = &mut addon.status.get_or_insert_default().conditions;
    match word {
        Word::Say(wanted) => {
            condition::set(all, wanted, seen.now);
        }
        Word::TakeBackFalse if condition::is_false(all, r#type) => {
            condition::remove(all, r#type);
        }
        Word::TakeBackFalse => {}
        Word::TakeBack => {
            condition::remove(all, r#type);
        }
    }
}

/// The sides on which a work could not be written, and why not.
fn failures(seen: &Seen, outcome: &Outcome) -> Vec<(Side, String)> {
    if outcome.succeeded() {
        return Vec::new();
    }
    let Root::Here(here) = &seen.root else {
        return Vec::new();
    };
    let names = names(&here.place.addon);
    let failed = outcome.results().filter_map(|(step, result)| {
        let (error, target) = (result.as_ref().err()?, step.target()?);
        let is_work = target.api_resource.kind == ManifestWork::KIND;
        let part = names.part(&target.name).filter(|_| is_work)?;
        Some((part.side(), sentence(error)))
    });
    failed.collect()
}

/// What to say about the manifests on both sides.
fn manifests(seen: &Seen, here: &Here, outcome: &Outcome, failures: &[(Side, String)]) -> Vec<(&'static str, Word)> {
    let mut said = Vec::new();
    let managed = applied(seen, here, outcome, failures, Side::Managed);
    said.extend(managed.map(|it| {
        let word = it.map_or(Word::TakeBackFalse, |(is, reason, message)| {
            Word::Say(wanted(managed_cluster_add_on::MANIFEST_APPLIED, is, reason, message))
        });
        (managed_cluster_add_on::MANIFEST_APPLIED, word)
    }));
    let hosting = match Host::at(&here.place) {
        Host::Is(_) => applied(seen, here, outcome, failures, Side::Hosting),
        // Who waits for this condition reads the annotation only, and does not know that this add-on is never hosted.
        Host::None if asks_for_hosting(&here.place.addon) => Some(Some(not_hosted())),
        Host::None | Host::Leaving(_) | Host::Unknown(_) => {
            said.push((managed_cluster_add_on::HOSTING_MANIFEST_APPLIED, Word::TakeBack));
            None
        }
    };
    said.extend(hosting.map(|it| {
        let word = it.map_or(Word::TakeBackFalse, |(is, reason, message)| {
            Word::Say(wanted(
                managed_cluster_add_on::HOSTING_MANIFEST_APPLIED,
                is,
                reason,
                message,
            ))
        });
        (managed_cluster_add_on::HOSTING_MANIFEST_APPLIED, word)
    }));
    let validity = match Host::at(&here.place) {
        Host::None => None,
        Host::Is(name) | Host::Leaving(name) => Some((
            true,
            reason::HOSTING_CLUSTER_VALID,
            format!("hosting cluster {name} is a managed cluster of the hub"),
        )),
        Host::Unknown(name) => Some((
            false,
            reason::HOSTING_CLUSTER_INVALID,
            format!("hosting cluster {name} is not a managed cluster of the hub"),
        )),
    };
    let word = validity.map_or(Word::TakeBack, |(is, reason, message)| {
        Word::Say(wanted(
            managed_cluster_add_on::HOSTING_CLUSTER_VALIDITY,
            is,
            reason,
            message,
        ))
    });
    said.push((managed_cluster_add_on::HOSTING_CLUSTER_VALIDITY, word));
    said
}

fn asks_for_hosting(addon: &ManagedClusterAddOn) -> bool {
    addon.annotations().contains_key(annotations::ADDON_HOSTING_CLUSTER)
}

type Said = (bool, &'static str, String);

fn nothing_to_apply() -> Said {
    (true, reason::APPLIED, "no manifest need to apply".to_owned())
}

fn not_hosted() -> Said {
    let message =
        "no manifest need to apply: the add-on does not run hosted, and all of it goes to the managed cluster";
    (true, reason::APPLIED, message.to_owned())
}

/// What to say about the manifests on one side: `None` leaves what was said, `Some(None)` takes back that they failed.
fn applied(
    seen: &Seen,
    here: &Here,
    outcome: &Outcome,
    failures: &[(Side, String)],
    side: Side,
) -> Option<Option<Said>> {
    let failed = |message: String| Some(Some((false, reason::WORK_APPLY_FAILED, message)));
    if let Rendered::Refused(why) = here.rendered(&seen.works) {
        return failed(why.clone());
    }
    if let Some((_, why)) = failures.iter().find(|(at, _)| *at == side) {
        return failed(format!("failed to apply manifestWork: {why}"));
    }
    let works = deployed(seen, here, outcome, side);
    if works.is_empty() {
        return match here.rendered(&seen.works) {
            Rendered::Works(_) | Rendered::Settled => Some(Some(nothing_to_apply())),
            Rendered::NotAsked | Rendered::Held(_) | Rendered::Refused(_) => None,
        };
    }
    let reports: Vec<_> = works.iter().map(|it| it.as_ref().and_then(said_of_now)).collect();
    if reports.contains(&Some(Status::False)) {
        let message = "failed to apply the manifests of addon".to_owned();
        return Some(Some((false, reason::APPLIED_FAILED, message)));
    }
    if reports.iter().all(|it| *it == Some(Status::True)) {
        let message = "manifests of addon are applied successfully".to_owned();
        return Some(Some((true, reason::APPLIED, message)));
    }
    Some(None)
}

// What the agent said about this generation of a work; about an older one it means nothing any more.
fn said_of_now(work: &ManifestWork) -> Option<Status> {
    let all = &work.status.as_ref()?.conditions;
    let said = condition::find(all, manifest_work::APPLIED)?;
    let is_of_now = said.observed_generation.is_none() || said.observed_generation == work.metadata.generation;
    condition::status(all, manifest_work::APPLIED).filter(|_| is_of_now)
}

/// The works of one side as they are after the plan; one that could not be written is missing.
pub fn deployed(seen: &Seen, here: &Here, outcome: &Outcome, side: Side) -> Vec<Option<ManifestWork>> {
    if let Rendered::Works(works) = here.rendered(&seen.works) {
        let of_side = works
            .iter()
            .filter(|it| matches!(it.part, Part::Deployed(at, _) if at == side));
        return of_side
            .map(|it| {
                let (namespace, name) = it.name();
                let written = outcome.latest::<ManifestWork>(Site::Hub, Some(namespace), name);
                written.or_else(|| present(seen, it.name()).cloned())
            })
            .collect();
    }
    let names = names(&here.place.addon);
    let namespace = match side {
        Side::Managed => Some(names.cluster),
        Side::Hosting => Host::at(&here.place).usable(),
    };
    let of_side = seen.works.iter().filter(|it| {
        let (at, name) = name_of(it);
        Some(at) == namespace && matches!(names.part(name), Some(Part::Deployed(of, _)) if of == side)
    });
    of_side.map(|it| Some((**it).clone())).collect()
}

/// The works of both sides as they are after the plan, if all of them are known.
pub fn all_deployed(seen: &Seen, here: &Here, outcome: &Outcome) -> Option<Vec<ManifestWork>> {
    let both = [Side::Managed, Side::Hosting];
    let works = both.iter().flat_map(|side| deployed(seen, here, outcome, *side));
    works.collect()
}

fn health(
    seen: &Seen,
    here: &Here,
    outcome: &Outcome,
    after: &ManagedClusterAddOn,
) -> Result<ConditionUpdate, &'static str> {
    let place = &here.place;
    let side = match place.mode {
        Mode::Default => Side::Managed,
        Mode::Hosted(_) => Side::Hosting,
    };
    let works: Vec<_> = deployed(seen, here, outcome, side).into_iter().flatten().collect();
    let manifests: Vec<_> = works.iter().map(|it| it.spec.workload.manifests.read()).collect();
    let probes = options::probes(&here.health, manifests.iter().flat_map(|it| it.iter()).map(|it| &it.0));
    let of_cluster = place.cluster.status.as_ref().map_or(&[][..], |it| &it.conditions);
    availability::judge(&Case {
        addon: place.addon_name(),
        health: &here.health,
        probes: &probes,
        works: &works.iter().collect::<Vec<_>>(),
        manifests_reported: condition::find(conditions(after), managed_cluster_add_on::MANIFEST_APPLIED).is_some(),
        cluster: condition::status(of_cluster, managed_cluster::AVAILABLE),
        judge: &|results| here.add_on.judge(place, results),
    })
}
