//! What the controllers of the hub read, and which Subscriptions a change concerns.

use std::sync::Arc;

use ocm_addon_sdk::{
    k8s_openapi::api::{admissionregistration::v1::MutatingWebhookConfiguration, rbac::v1::ClusterRoleBinding},
    kube::{ResourceExt, runtime::watcher},
    ocm_api::{
        apps::{
            Channel, PlacementRule, SUBSCRIPTION_ADMIN_BINDING, Subscription, SubscriptionReport, SubscriptionStatus,
            labels,
        },
        cluster::{ManagedCluster, PlacementDecision},
        labels::PLACEMENT,
        work::ManifestWork,
    },
    reconcile::{
        Cache, Caches, Index,
        cache::{Watching, split_key},
    },
};

use super::{
    admission::IDENTITY_CONFIGURATION,
    clusters::{self, Choice, PlacementKind, SubscriptionClusters},
    results::ClusterResults,
};
use crate::report::hosting_label;

/// Upstream's, of another program.
pub const IDENTITY_WEBHOOK: &str = "ocm-mutating-webhook";
/// What writes into a Subscription who has written it. Where none is, anybody can write that.
const IDENTITY_WEBHOOKS: [&str; 2] = [IDENTITY_CONFIGURATION, IDENTITY_WEBHOOK];

/// The caches. Cloning shares them.
#[derive(Clone)]
pub struct SubscriptionWorld {
    /// Subscriptions, those of other hubs' included.
    pub subscriptions: Cache<Subscription>,
    /// Channels.
    pub channels: Cache<Channel>,
    /// The works of Subscriptions.
    pub works: Cache<ManifestWork>,
    /// What older agents tell in the namespaces of clusters.
    pub statuses: Cache<SubscriptionStatus>,
    /// Reports of Subscriptions and of clusters.
    pub reports: Cache<SubscriptionReport>,
    /// What the reports of clusters say.
    pub results: ClusterResults,
    /// Decisions of Placements.
    pub decisions: Cache<PlacementDecision>,
    /// PlacementRules.
    pub rules: Cache<PlacementRule>,
    /// ManagedClusters.
    pub clusters: Cache<ManagedCluster>,
    /// The binding whose subjects are subscription administrators.
    pub administrators: Cache<ClusterRoleBinding>,
    /// Webhooks, some of which tell who has written a Subscription.
    pub mutating_webhooks: Cache<MutatingWebhookConfiguration>,
    by_channel: Index<Subscription>,
    by_secondary: Index<Subscription>,
    by_placement: Index<Subscription>,
    works_of: Index<ManifestWork>,
    statuses_of: Index<SubscriptionStatus>,
    chosen: Index<PlacementDecision>,
}

/// Subscriptions that choose clusters without an object that does.
const GENERIC: &str = "";

impl SubscriptionWorld {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        caches.beside(|caches| {
            let named = |name: &str| Watching {
                selection: watcher::Config::default().fields(&format!("metadata.name={name}")),
                ..Watching::default()
            };
            let of_subscriptions = || Watching {
                selection: watcher::Config::default().labels(labels::HOSTING_SUBSCRIPTION),
                ..Watching::default()
            };
            let (subscriptions, decisions, reports) = (caches.of(), caches.of(), caches.of());
            let (works, statuses) = (caches.watching(of_subscriptions()), caches.watching(of_subscriptions()));
            Self {
                by_channel: Index::over(&subscriptions, |it: &Subscription| Some(it.spec.channel.clone())),
                by_secondary: Index::over(&subscriptions, |it: &Subscription| {
                    Some(it.spec.secondary_channel.clone())
                }),
                by_placement: Index::over(&subscriptions, |it: &Subscription| placement_of(it)),
                works_of: Index::over(&works, |it: &ManifestWork| subscription_of_work(it)),
                statuses_of: Index::over(&statuses, |it: &SubscriptionStatus| {
                    it.labels().get(labels::HOSTING_SUBSCRIPTION).cloned()
                }),
                chosen: Index::over(&decisions, decided_by),
                results: ClusterResults::over(&reports),
                subscriptions,
                channels: caches.of(),
                works,
                statuses,
                reports,
                decisions,
                rules: caches.of(),
                clusters: caches.of(),
                administrators: caches.watching(named(SUBSCRIPTION_ADMIN_BINDING)),
                mutating_webhooks: caches.of(),
            }
        })
    }

    /// Whether there is a webhook that tells who has written a Subscription.
    pub fn tells_identities(&self) -> bool {
        let mut names = IDENTITY_WEBHOOKS.iter();
        names.any(|it| self.mutating_webhooks.named(it).is_some())
    }

    /// The Channel of this name, `NAMESPACE/NAME`.
    pub fn channel(&self, key: &str) -> Option<Arc<Channel>> {
        let (namespace, name) = key.split_once('/')?;
        self.channels.get(namespace, name)
    }

    /// The keys of the Subscriptions that read a Channel, `NAMESPACE/NAME`.
    pub fn subscriptions_of_channel(&self, channel: &str) -> Vec<String> {
        let both = self.by_channel.names(channel).into_iter();
        keys(both.chain(self.by_secondary.names(channel)))
    }

    /// The keys of the Subscriptions that a Placement or PlacementRule places.
    pub fn subscriptions_of_placement(&self, key: &str) -> Vec<String> {
        keys(self.by_placement.names(key))
    }

    /// The keys of the Subscriptions whose clusters a change of a ManagedCluster may change.
    pub fn subscriptions_of_cluster(&self, cluster: &str) -> Vec<String> {
        let mut all = keys(self.by_placement.names(GENERIC));
        let works = self.works.list_in(cluster);
        all.extend(works.iter().filter_map(|it| subscription_of_work(it)));
        all
    }

    /// The keys of all Subscriptions.
    pub fn all_subscriptions(&self) -> Vec<String> {
        let all = self.subscriptions.list();
        all.iter()
            .map(|it| ocm_addon_sdk::reconcile::cache::key_of(&**it))
            .collect()
    }

    /// The works of a Subscription, `NAMESPACE/NAME`.
    pub fn works_of(&self, key: &str) -> Vec<Arc<ManifestWork>> {
        self.works_of.objects(key)
    }

    /// What older agents tell of a Subscription, in the namespaces of clusters.
    pub fn statuses_of(&self, key: &str) -> Vec<Arc<SubscriptionStatus>> {
        let (namespace, name) = split_key(key);
        self.statuses_of.objects(&hosting_label(namespace, name))
    }

    /// The clusters that a Subscription is for.
    pub fn chosen(&self, subscription: &Subscription) -> SubscriptionClusters {
        let namespace = subscription.namespace().unwrap_or_default();
        let names = match clusters::choice(subscription) {
            Choice::Referenced(reference) => {
                let (kind, name) = clusters::referenced(reference)?;
                let key = placement_key(&namespace, kind, name);
                let decided = match kind {
                    PlacementKind::Placement => {
                        let all = self.chosen.objects(&key);
                        let decisions = all.iter().flat_map(|it| it.status.iter().flat_map(|it| &it.decisions));
                        decisions.map(|it| it.cluster_name.clone()).collect()
                    }
                    PlacementKind::PlacementRule => self.rules.get(&namespace, name).map_or(Vec::new(), |rule| {
                        let decisions = rule.status.iter().flat_map(|it| &it.decisions);
                        decisions.map(|it| it.cluster_name.clone()).collect()
                    }),
                };
                let is_local = |it: &String| self.clusters.named(it).is_some_and(|it| clusters::is_local(&it));
                return Ok(decided.into_iter().map(|it| (it.clone(), is_local(&it))).collect());
            }
            Choice::Named(names) => names,
            Choice::Selected(selector) => {
                return clusters::selected(&self.clusters.list(), Some(selector));
            }
            Choice::Nothing => return Ok(Default::default()),
        };
        let found = names.iter().filter_map(|it| self.clusters.named(&it.name));
        Ok(clusters::with_locality(found))
    }

    /// What tells one choice of clusters from the next, where an object chooses them.
    pub fn choice_version(&self, subscription: &Subscription) -> Option<String> {
        let Choice::Referenced(reference) = clusters::choice(subscription) else {
            return None;
        };
        let (kind, name) = clusters::referenced(reference).ok()?;
        let namespace = subscription.namespace().unwrap_or_default();
        match kind {
            PlacementKind::PlacementRule => self.rules.get(&namespace, name)?.resource_version(),
            PlacementKind::Placement => {
                let all = self.chosen.objects(&placement_key(&namespace, kind, name));
                let versions = all.iter().filter_map(|it| it.resource_version());
                // The newest: numbers that have grown longer are greater.
                versions.max_by_key(|it| (it.len(), it.clone()))
            }
        }
    }
}

/// Whether it is a webhook that tells who has written a Subscription.
pub fn tells_identities(configuration: &MutatingWebhookConfiguration) -> bool {
    IDENTITY_WEBHOOKS.contains(&configuration.name_any().as_str())
}

fn keys(names: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
    let keys = names.into_iter().map(|(namespace, name)| format!("{namespace}/{name}"));
    keys.collect()
}

/// The key of what chooses clusters.
pub fn placement_key(namespace: &str, kind: PlacementKind, name: &str) -> String {
    let kind = match kind {
        PlacementKind::Placement => "Placement",
        PlacementKind::PlacementRule => "PlacementRule",
    };
    format!("{namespace}/{kind}/{name}")
}

fn placement_of(subscription: &Subscription) -> Option<String> {
    match clusters::choice(subscription) {
        Choice::Referenced(reference) => {
            let (kind, name) = clusters::referenced(reference).ok()?;
            Some(placement_key(&subscription.namespace()?, kind, name))
        }
        Choice::Named(_) | Choice::Selected(_) => Some(GENERIC.to_owned()),
        Choice::Nothing => None,
    }
}

/// The key of the Placement of a decision.
pub fn decided_by(decision: &PlacementDecision) -> Option<String> {
    let name = decision.labels().get(PLACEMENT)?;
    Some(placement_key(&decision.namespace()?, PlacementKind::Placement, name))
}

/// The Subscription that a work carries, `NAMESPACE/NAME`.
pub fn subscription_of_work(work: &ManifestWork) -> Option<String> {
    let label = work.labels().get(labels::HOSTING_SUBSCRIPTION)?;
    // The label may be cut, and then the work's name has the rest. Namespaces have no dots.
    let namespace = label.split_once('.').map_or(label.as_str(), |(namespace, _)| namespace);
    let work_name = work.name_any();
    let name = work_name.strip_prefix(namespace)?.strip_prefix('-')?;
    (hosting_label(namespace, name) == *label).then(|| format!("{namespace}/{name}"))
}

#[cfg(test)]
mod tests {
    use ocm_addon_sdk::kube::api::ObjectMeta;

    use super::*;

    fn work(label: &str, name: &str) -> ManifestWork {
        ManifestWork {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some([(labels::HOSTING_SUBSCRIPTION.to_owned(), label.to_owned())].into()),
                ..ObjectMeta::default()
            },
            ..ManifestWork::default()
        }
    }

    #[test]
    fn a_work_is_of_the_subscription_that_its_label_names() {
        let of = |label: &str, name: &str| subscription_of_work(&work(label, name));
        assert_eq!(of("a.b-c", "a-b-c").as_deref(), Some("a/b-c"));
        assert_eq!(of("a-b.c", "a-b-c").as_deref(), Some("a-b/c"));
        assert_eq!(of("a.b", "a-b-c"), None);
        let long = "n".repeat(70);
        let label = hosting_label("ns", &long);
        assert_eq!(label.len(), 63);
        assert_eq!(of(&label, &format!("ns-{long}")), Some(format!("ns/{long}")));
    }
}
