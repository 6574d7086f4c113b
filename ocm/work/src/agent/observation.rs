//! Looks at works, their AppliedManifestWorks and their objects: at caches, and at the API where nobody watches.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::future::join_all;
use jiff::Timestamp;
use ocm_api::{
    finalizers,
    work::{AppliedManifestResourceMeta, ManifestResourceMeta, ManifestWork},
};
use ocm_reconcile::{StepError, execute::sentence};
use rand::RngExt;

use super::{
    attempts::Attempts,
    config::{self, Config},
    executor::{ExecutorRefusal, PermissionRequest},
    manifest::{self, ObjectKey},
    manifest_works::ManifestWorks,
    phase::{self, Phase},
    records,
    round::Round,
    seen::{AgentIdentity, Item, Leaving, Seen},
    statuses,
    strategy::{self, Live},
};

impl ManifestWorks {
    /// Looks at a work, its trace and their objects, knowing what the run has learned so far.
    pub(super) async fn look(&self, key: &str, mut attempts: Attempts, round: Round) -> Seen {
        let is_there = |uid: Option<&String>| uid.is_none_or(|it| !attempts.gone.contains(it));
        let work = self
            .identity
            .work_name(key)
            .and_then(|name| self.works.get(&self.namespace, name))
            .filter(|it| is_there(it.metadata.uid.as_ref()));
        let trace = self.traces.named(key).filter(|it| is_there(it.metadata.uid.as_ref()));
        let phase = phase::phase(work.as_deref(), trace.as_deref(), &self.identity);
        let mut items = match (&work, phase) {
            (Some(work), Phase::Applying) => self.items(work).await,
            (Some(work), Phase::Complete | Phase::Leaving) => entries(work).map(|it| Item::listed(work, it)).collect(),
            _ => vec![],
        };
        let recorded = || records::of(trace.as_deref());
        let leaving: Vec<_> = match (&trace, phase) {
            (Some(trace), Phase::Applying) => records::unwanted(trace, &items).cloned().collect(),
            (Some(_), Phase::Renewing | Phase::Leaving | Phase::Finishing) => recorded().cloned().collect(),
            _ => vec![],
        };
        let mut followed: BTreeSet<ObjectKey> = items.iter().filter_map(|it| it.key.clone()).collect();
        for record in recorded().map(records::key_of) {
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
            self.permit(work, &mut items, &attempts.refused).await;
        }
        let trace_uid = trace
            .as_ref()
            .and_then(|it| it.metadata.uid.clone())
            .unwrap_or_default();
        let on_record: HashSet<ObjectKey> = recorded().map(records::key_of).collect();
        // Nothing is prepared for a complete work; looking is all that is done for it.
        let looks = prepared || phase == Phase::Complete;
        self.look_at_items(key, &mut items, &mut attempts, looks, &on_record)
            .await;
        self.look_at_others(key, &trace_uid, &mut items).await;
        let leaving = leaving.into_iter();
        let leaving =
            leaving.map(|record| self.look_at_leaving((key, trace_uid.as_str()), work.as_deref(), record, &attempts));
        let leaving = join_all(leaving).await;
        Seen {
            now: Timestamp::now(),
            chance: rand::rng().random_range(0.0..1.0),
            identity: self.identity_for(key),
            keeps_agent_id: self.keeps_agent_id.load(Ordering::Relaxed),
            key: key.to_owned(),
            work,
            trace,
            items,
            leaving,
            retries: self.retries.lock().get(key).copied().unwrap_or_default(),
            attempts,
            round: Arc::new(round),
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
                (Ok(manifest), Ok(resource)) => Some(ObjectKey {
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
            let meta = statuses::meta(item);
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
    async fn permit(&self, work: &ManifestWork, items: &mut [Item], refused: &HashMap<ObjectKey, ExecutorRefusal>) {
        let Some(executor) = &work.spec.executor else { return };
        let answers = {
            let wishes = items
                .iter()
                .filter_map(|it| match (&it.manifest, &it.key, it.complete) {
                    (Ok(manifest), Some(key), false) => Some(PermissionRequest {
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

    async fn look_at_items(
        &self,
        work: &str,
        items: &mut [Item],
        attempts: &mut Attempts,
        looks: bool,
        on_record: &HashSet<ObjectKey>,
    ) {
        for item in items.iter_mut() {
            let Some(key) = &item.key else { continue };
            item.live = self.objects.look(key, attempts.since);
            item.watched = self.objects.is_watched(key);
            item.written = self.objects.written(work, key);
            item.hold = self.objects.hold(work, key);
            item.tried = attempts.by_key.get(key).cloned().unwrap_or_default();
            item.tried.plain |= self.objects.must_be_whole(key);
        }
        let unsure = std::mem::take(&mut attempts.unsure);
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

    async fn look_at_leaving(
        &self,
        (trace_name, trace_uid): (&str, &str),
        work: Option<&ManifestWork>,
        record: AppliedManifestResourceMeta,
        attempts: &Attempts,
    ) -> Leaving {
        let key = records::key_of(&record);
        let mut problem = attempts.problems.get(&key).cloned();
        let mut live = self.objects.look(&key, attempts.since);
        if live == Live::Unknown {
            match self.objects.fetch(trace_name, &key).await {
                Ok(found) => live = found,
                // It was only announced, and writing it was refused as this look is. Had it been written all the same,
                // it would go together with its owner, the trace.
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
            release: attempts.releases.get(&key).copied().unwrap_or_default(),
            watched: self.objects.is_watched(&key),
            record,
            live,
            problem,
            others,
        }
    }

    /// When the hub deletes the cluster, nothing of its that is gone comes back. What earlier hubs have asked for is
    /// not its to end.
    fn identity_for(&self, key: &str) -> Arc<AgentIdentity> {
        if !self.leaving.is_cancelled() || self.identity.work_name(key).is_none() {
            return self.identity.clone();
        }
        Arc::new(AgentIdentity {
            eviction_grace: Duration::ZERO,
            ..(*self.identity).clone()
        })
    }
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
