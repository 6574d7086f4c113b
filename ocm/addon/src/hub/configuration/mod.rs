//! Every add-on on a cluster gets its configuration, when it is its turn.
//!
//! Root: ManagedClusterAddOns of one name, by that name. Reads: its ClusterManagementAddOn, its Placements and their decisions.
//! Writes: `status.configReferences` of the add-ons (what is desired; what was applied it keeps) and their condition
//! `Configured`; condition `Progressing` and the applied configurations of the ClusterManagementAddOn's progressions.
//! Never: an add-on whose own manager looks after it; a hash, which is the configurations' watcher's; more add-ons under way
//! than the strategy of their placement allows.
//! Upstream: ocm `pkg/addon/controllers/addonconfiguration`.
//!
//! One pass decides for all clusters, over maps, and writes only what differs. Two passes never overlap, and a pass sees what
//! the one before it has written even if the watch has not told yet: so the number of clusters under way is exact.

pub mod desired;
pub mod graph;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    condition::{self, ConditionUpdate, wanted},
    conditions::{
        install_progression,
        managed_cluster_add_on::{self, configured_reason},
    },
};
use ocm_reconcile::{ObserveError, Outcome, Plan, Queue, Reconciler, Site, async_trait};
use parking_lot::Mutex;
use placement::rollout::Status;

use super::{Caches, facts, install::subscribe_to_placements, progression};
use graph::{Chosen, Counts, Graph, Inherited, Node};

/// The reconciler.
pub struct Configuration {
    caches: Caches,
    written: Mutex<HashMap<String, Written>>,
}

/// What the last pass wrote, by cluster.
type Written = BTreeMap<String, Arc<ManagedClusterAddOn>>;

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// What the hub offers; `None` when it is gone.
    pub cluster_management_addon: Option<Arc<ClusterManagementAddOn>>,
    /// What its placements chose, in the order of the spec.
    pub chosen: Vec<Chosen>,
    /// Where it is, by cluster.
    pub addons: Vec<Arc<ManagedClusterAddOn>>,
}

impl Configuration {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            caches: caches.clone(),
            written: Mutex::default(),
        }
    }
}

/// Offers; what an add-on is told and how far it is with it; placements and decisions.
pub fn subscribe(caches: &Caches, queue: &Queue) {
    caches.cluster_management_addons.subscribe_by_name(queue);
    caches.addons.subscribe(queue, |old, new| match (old, new) {
        (Some(old), Some(new)) if concerns(old) == concerns(new) => None,
        (old, new) => new.or(old).map(|it| it.name_any()),
    });
    subscribe_to_placements(caches, queue, |old, new| match (old, new) {
        (Some(old), Some(new)) => old.spec.decision_strategy != new.spec.decision_strategy,
        _ => true,
    });
}

/// All that matters here of an add-on.
fn concerns(addon: &ManagedClusterAddOn) -> impl PartialEq + '_ {
    let said = |r#type: &str| condition::find(facts::conditions(addon), r#type).map(|it| (&it.status, &it.reason));
    (
        &addon.metadata.uid,
        &addon.spec.configs,
        facts::references(addon),
        said(managed_cluster_add_on::PROGRESSING),
        said(managed_cluster_add_on::CONFIGURED),
    )
}

#[async_trait]
impl Reconciler for Configuration {
    const NAME: &'static str = "addon-configuration";
    // Few, so that the work of a cluster whose turn has come is written before too many more are told that theirs has, too.
    const AT_ONCE: usize = 4;
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let mut seen = Seen {
            now: Timestamp::now(),
            cluster_management_addon: self.caches.cluster_management_addons.named(name),
            chosen: Vec::new(),
            addons: Vec::new(),
        };
        let Some(offer) = facts::looked_after(&seen.cluster_management_addon) else {
            self.written.lock().remove(name);
            return Ok(seen);
        };
        if facts::follows_placements(offer) {
            let placements = offer.spec.install_strategy.placements.iter();
            seen.chosen = placements
                .map(|it| Chosen {
                    placement: self.caches.placements.get(&it.namespace, &it.name),
                    decisions: self.caches.decisions_of(&it.namespace, &it.name),
                })
                .collect();
        }
        seen.addons = self.caches.addons_named(name);
        if let Some(written) = self.written.lock().get_mut(name) {
            catch_up(&mut seen.addons, written);
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(offer) = facts::looked_after(&seen.cluster_management_addon) else {
            return plan;
        };
        if !progression::is_told(offer) {
            // Otherwise a cluster would be given the default for a moment, and then its placement's.
            plan.wait("the configurations of its placements are not in its status yet");
            return plan;
        }
        let inherited = Inherited::of(offer);
        let addons = seen.addons.iter().map(|it| &**it);
        let graph = Graph::of(offer, &inherited, &seen.chosen, addons, seen.now);
        let mut takes = Vec::new();
        for place in graph.places.values() {
            let say = match (graph.turn(place), place.standing.status) {
                (Some(turn), _) if turn.is_in_rollout() => {
                    takes.push(place);
                    continue;
                }
                (_, Status::ToApply) => Say::Wait,
                (_, Status::Succeeded) => Say::Keep,
                _ => continue,
            };
            inform(&mut plan, place, say, seen.now);
        }
        // Last, so that whose turn it is is not held up by what the others are told.
        for place in takes {
            inform(&mut plan, place, Say::Take, seen.now);
        }
        let mut new = offer.clone();
        if let Some(status) = &mut new.status {
            let entries = status
                .install_progressions
                .iter_mut()
                .zip(&graph.nodes)
                .zip(graph.counts());
            for ((entry, node), counts) in entries {
                let (verdict, is_done) = verdict(node, counts);
                condition::set(&mut entry.conditions, verdict, seen.now);
                for it in entry.config_references.iter_mut().filter(|_| is_done) {
                    it.last_applied_config = it.desired_config.clone();
                    it.last_known_good_config = it.desired_config.clone();
                }
            }
        }
        if offer.status != new.status {
            plan.status(Site::Hub, offer, &new);
        }
        for (node, entry) in graph.nodes.iter().zip(&offer.spec.install_strategy.placements) {
            if let Err(why) = &node.rollout {
                plan.refuse(format!("placement {}/{}: {why}", entry.namespace, entry.name));
            }
        }
        if let Some(delay) = graph.recheck_after() {
            plan.look_again(delay);
        }
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let Some(offer) = &seen.cluster_management_addon else {
            return;
        };
        let name = offer.name_any();
        let mut all = self.written.lock();
        let written = all.entry(name.clone()).or_default();
        for addon in &seen.addons {
            let cluster = facts::cluster(addon);
            if let Some(it) = outcome.latest::<ManagedClusterAddOn>(Site::Hub, Some(cluster), &name) {
                written.insert(cluster.to_owned(), Arc::new(it));
            }
        }
        if written.is_empty() {
            all.remove(&name);
        }
    }
}

/// Puts what was written in the place of what the watch has not told yet, and forgets what it has.
fn catch_up(addons: &mut [Arc<ManagedClusterAddOn>], written: &mut Written) {
    if written.is_empty() {
        return;
    }
    let mut newer = Written::new();
    for addon in addons {
        let Some(mine) = written.remove(facts::cluster(addon)) else {
            continue;
        };
        if addon.metadata.uid == mine.metadata.uid && version(addon) < version(&mine) {
            *addon = mine.clone();
            newer.insert(facts::cluster(&mine).to_owned(), mine);
        }
    }
    // What is left was deleted since.
    *written = newer;
}

fn version(addon: &ManagedClusterAddOn) -> Option<u64> {
    addon.metadata.resource_version.as_deref()?.parse().ok()
}

/// What to say to an add-on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Say {
    /// Its configuration.
    Take,
    /// That there is one, and that it has to wait.
    Wait,
    /// That it has it.
    Keep,
}

fn inform(plan: &mut Plan, place: &graph::Place<'_>, say: Say, now: Timestamp) {
    let addon = place.addon;
    let condition = configured(say != Say::Wait);
    let takes = say == Say::Take && place.standing.status == Status::ToApply;
    if !takes && is_said(addon, &condition) {
        return;
    }
    let mut new = facts::saying(addon, condition, now);
    if takes {
        let status = new.status.get_or_insert_default();
        status.config_references = desired::references(&place.desired, &status.config_references);
    }
    facts::tell(plan, addon, &new);
}

fn configured(yes: bool) -> ConditionUpdate {
    let (reason, message) = if yes {
        (configured_reason::CONFIGURED, "Configurations configured")
    } else {
        (
            configured_reason::NOT_CONFIGURED,
            "Configurations updated and not configured yet",
        )
    };
    wanted(managed_cluster_add_on::CONFIGURED, yes, reason, message)
}

fn is_said(addon: &ManagedClusterAddOn, condition: &ConditionUpdate) -> bool {
    condition::find(facts::conditions(addon), &condition.r#type).is_some_and(|it| {
        it.status == condition.status.as_str() && it.reason == condition.reason && it.message == condition.message
    })
}

/// What to say about a placement, and whether all its clusters are done.
fn verdict(node: &Node<'_>, counts: Counts) -> (ConditionUpdate, bool) {
    let Counts {
        progressing,
        done,
        failed,
        timed_out,
    } = counts;
    let (selected, effective) = (node.selected, node.effective);
    let is_done = done == effective && effective > 0 && node.rollout.is_ok();
    let (reason, message) = if is_done {
        (
            install_progression::reason::COMPLETED,
            format!(
                "selected clusters {selected}. configured addons {done}/{effective} completed with no errors, {failed} failed \
                 {timed_out} timeout."
            ),
        )
    } else {
        let refused = match &node.rollout {
            Err(why) => format!(" {why}."),
            Ok(_) => String::new(),
        };
        let under_way = progressing + done;
        (
            install_progression::reason::PROGRESSING,
            format!(
                "selected clusters {selected}. configured addons {under_way}/{effective} progressing..., {failed} failed \
                 {timed_out} timeout.{refused}"
            ),
        )
    };
    let condition = wanted(install_progression::PROGRESSING, !is_done, reason, message);
    (condition, is_done)
}

#[cfg(test)]
#[path = "../configuration_tests.rs"]
mod tests;
