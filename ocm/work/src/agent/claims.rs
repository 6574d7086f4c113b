//! What works ask of objects that more than one of them has.

use ocm_reconcile::agreement;
use serde_json::Value;

use super::{
    manifest::{self, ObjectKey},
    manifest_works::ManifestWorks,
    ownership,
    seen::Item,
    strategy,
};

impl ManifestWorks {
    /// What other works ask of the objects of this one, where an object has more than this one asks.
    pub(super) async fn look_at_others(&self, work: &str, trace_uid: &str, items: &mut [Item]) {
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

    /// What works other than this one ask of an object, until nothing of what the agent has applied is left unclaimed:
    /// where a thousand works say the same of a namespace, the first of them is enough.
    pub(super) async fn claims_of_others(
        &self,
        work: &str,
        trace_uid: &str,
        live: &Value,
        key: &ObjectKey,
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

    async fn claims_of(&self, trace_name: &str, key: &ObjectKey, live: &Value) -> Vec<Value> {
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
}
