//! Looks at one add-on on one cluster for [`plan`] and [`conclude`], and renders its manifests when something that matters has
//! changed. The header with what is read, written and never touched is in `plan.rs`.
//!
//! Health is judged in the same turn: it follows from the same works, and a status that is written once wakes half as many
//! readers as one that is written twice.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use kube::{Api, ResourceExt};
use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, annotations, work::ManifestWork};
use ocm_reconcile::{Done, ObserveError, Outcome, Plan, Queue, Reconciler, async_trait, cache};
use parking_lot::RwLock;

use super::{
    conclude,
    index::WorkIndex,
    manifest::{self, Side},
    memory::{self, Fingerprints, Memory},
    names,
    plan::{self, Here, Host, Life, Rendered, Root, Seen},
    works::{self, Ingredients},
};
use crate::{
    AddOnContext, Config,
    hub::{Context, Look, Standing},
};

/// How soon to look again for a work that is there and that the watch has not shown.
const UNSEEN_AGAIN: Duration = Duration::from_millis(100);

/// The reconciler.
pub struct Deploy {
    ctx: Context,
    works: WorkIndex,
    memory: Arc<Memory>,
}

/// Adds to `queue` the key of every add-on whose plan may be another than before.
pub fn subscribe(ctx: &Context, queue: &Queue) {
    ctx.subscribe(queue);
    let registry = ctx.registry.clone();
    ctx.caches.works.subscribe(queue, move |old, new| {
        let key = |work: &ManifestWork| {
            let names = names::belongs_to(work)?;
            names.part(work.metadata.name.as_deref()?)?;
            registry
                .contains(names.addon)
                .then(|| format!("{}/{}", names.cluster, names.addon))
        };
        // A work that was given to another add-on concerns both.
        let (before, after) = (old.and_then(key), new.and_then(key));
        let other = before.filter(|it| after.as_ref() != Some(it));
        [other, after].into_iter().flatten().collect::<Vec<_>>()
    });
    let hosted = Hosted::over(ctx);
    ctx.caches.clusters.subscribe(queue, move |old, new| {
        let is_there =
            |it: Option<&_>| it.map(|it: &ocm_api::cluster::ManagedCluster| it.metadata.deletion_timestamp.is_some());
        // Only coming and going of a hosting cluster matters to what it hosts.
        if is_there(old) == is_there(new) {
            return Vec::new();
        }
        hosted.on(new
            .or(old)
            .and_then(|it| it.metadata.name.as_deref())
            .unwrap_or_default())
    });
}

impl Deploy {
    /// Over the caches of this context. Who makes `memory` forget a key has its manifests rendered anew in its next run. Call
    /// [`subscribe`] afterwards.
    pub fn new(ctx: &Context, memory: &Arc<Memory>) -> Self {
        Self {
            works: WorkIndex::over(&ctx.caches.works),
            ctx: ctx.clone(),
            memory: memory.clone(),
        }
    }

    /// The works that are wanted and that the watch, which goes by their label, does not show: mostly it has not caught up, or
    /// else somebody has taken their label away.
    async fn unseen(&self, here: &Here, shown: &[Arc<ManifestWork>]) -> Result<Vec<Arc<ManifestWork>>, kube::Error> {
        let Rendered::Works(wanted) = &here.rendered else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for (namespace, name) in wanted.iter().map(|it| it.name()) {
            if shown.iter().any(|it| works::name_of(it) == (namespace, name)) {
                continue;
            }
            let api: Api<ManifestWork> = Api::namespaced(self.ctx.client.clone(), namespace);
            found.extend(api.get_opt(name).await?.map(Arc::new));
        }
        Ok(found)
    }

    fn here(&self, key: &str, standing: Standing, works: &[Arc<ManifestWork>]) -> Here {
        let Standing { add_on, place } = standing;
        let mut here = Here {
            health: add_on.health(&place),
            epoch: self.memory.epoch(),
            inputs: memory::inputs(&place),
            add_on,
            place,
            rendered: Rendered::NotAsked,
        };
        here.rendered = match here.life() {
            Life::Waits(_) | Life::Leaving => Rendered::NotAsked,
            Life::LastThings(_) => render(&here, works),
            Life::Serving => {
                let now = Fingerprints {
                    inputs: here.inputs,
                    works: memory::shared_works(works),
                };
                match ahead(&here.place) {
                    _ if self.memory.of(key) == Some(now) => Rendered::Settled,
                    Some(why) => Rendered::Held(why),
                    None => render(&here, works),
                }
            }
        };
        here
    }
}

/// Whether a work was to be made and is there, although the watch has not shown it.
fn was_there_already(outcome: &Outcome) -> bool {
    let results = outcome.stages.iter().flatten();
    results.into_iter().any(|it| matches!(it, Ok(Done::AlreadyExists)))
}

/// Why nothing may be rendered although it could be: a configuration whose state is not the one meant for this cluster.
/// Upstream renders whatever it finds, so that a change reaches a cluster before its turn when anything else happens there.
fn ahead(place: &AddOnContext) -> Option<String> {
    place.held().and_then(Config::hindrance)
}

/// Asks the author what is wanted, and makes works of the answer. Pure.
pub(super) fn render(here: &Here, present: &[Arc<ManifestWork>]) -> Rendered {
    let place = &here.place;
    let manifests = match here.add_on.manifests(place) {
        Ok(manifests) => manifests,
        Err(why) => return Rendered::Refused(format!("failed to get manifest from agent interface: {why}")),
    };
    let host = Host::at(place);
    match manifest::share(manifests, host != Host::None) {
        Ok(shares) => Rendered::Works(works::wanted(
            &Ingredients {
                addon: &place.addon,
                hosting: host.usable(),
                health: &here.health,
                manifest_configs: &here.add_on.manifest_configs(place),
                present,
            },
            shares,
        )),
        Err(why) => Rendered::Refused(format!("failed to build manifestwork: {why}")),
    }
}

#[async_trait]
impl Reconciler for Deploy {
    const NAME: &'static str = "addon-deploy";
    type Seen = Seen;

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (cluster, name) = cache::split_key(key);
        // An add-on that has not arrived must not look like one that is gone.
        if !self.ctx.caches.addons.is_synced() || !self.ctx.caches.works.is_synced() {
            return Err("the add-ons and works of the hub have not been listed yet".into());
        }
        let mut works = self.works.of(cluster, name);
        let root = match self.ctx.look(key) {
            Look::NotOurs => Root::NotOurs,
            Look::Gone => Root::Gone,
            Look::Waits(why) => match self.ctx.caches.addons.get(cluster, name) {
                Some(addon) if self.ctx.caches.clusters.named(cluster).is_none() => Root::ClusterGone(addon),
                _ => Root::Waits(why),
            },
            Look::Here(standing) => Root::Here(Box::new(self.here(key, standing, &works))),
        };
        match &root {
            Root::Here(here) if self.memory.take_missed(key) => works.extend(self.unseen(here, &works).await?),
            Root::NotOurs | Root::Gone | Root::ClusterGone(_) => self.memory.forget(key),
            Root::Here(_) | Root::Waits(_) => {}
        }
        Ok(Seen {
            now: Timestamp::now(),
            key: key.to_owned(),
            root,
            works,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        plan::plan(seen)
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let Root::Here(here) = &seen.root else { return };
        if was_there_already(outcome) {
            self.memory.miss(&seen.key);
        }
        if here.life() != Life::Serving || !matches!(here.rendered, Rendered::Works(_)) || !outcome.succeeded() {
            return;
        }
        let both = [Side::Managed, Side::Hosting];
        let after: Option<Vec<_>> = both
            .iter()
            .flat_map(|side| conclude::deployed(seen, here, outcome, *side))
            .collect();
        // One that was there already when we made it is known when the watch has brought it.
        if let Some(after) = after {
            let fingerprints = Fingerprints {
                inputs: here.inputs,
                works: memory::works(&after),
            };
            self.memory.keep(&seen.key, fingerprints, here.epoch);
        }
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut page = conclude::conclude(seen, outcome);
        if was_there_already(outcome) {
            page.look_again(UNSEEN_AGAIN);
        }
        page
    }
}

/// Which add-ons each cluster hosts.
#[derive(Clone, Default)]
struct Hosted {
    by_cluster: Arc<RwLock<HashMap<String, BTreeSet<String>>>>,
}

impl Hosted {
    fn over(ctx: &Context) -> Self {
        let this = Self::default();
        let by_cluster = this.by_cluster.clone();
        ctx.caches.addons.listen(move |old, new| {
            let host = |it: Option<&Arc<ManagedClusterAddOn>>| {
                let addon = it?;
                let host = addon.annotations().get(annotations::ADDON_HOSTING_CLUSTER)?;
                Some((host.clone(), cache::key_of(&**addon)))
            };
            let (before, after) = (host(old), host(new));
            if before == after {
                return;
            }
            let mut by_cluster = by_cluster.write();
            if let Some((host, key)) = before
                && let Some(keys) = by_cluster.get_mut(&host)
            {
                keys.remove(&key);
                if keys.is_empty() {
                    by_cluster.remove(&host);
                }
            }
            if let Some((host, key)) = after {
                by_cluster.entry(host).or_default().insert(key);
            }
        });
        this
    }

    fn on(&self, cluster: &str) -> Vec<String> {
        let by_cluster = self.by_cluster.read();
        by_cluster.get(cluster).into_iter().flatten().cloned().collect()
    }
}
