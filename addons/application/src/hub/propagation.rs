//! Brings Subscriptions to the clusters that they are for.
//!
//! Root: Subscription. Reads: its Channels, what chooses its clusters, its source, its works and AnsibleJobs. Writes:
//! its works, its AnsibleJobs, its labels, three of its annotations and its status; what is in the reports of clusters
//! that could not get it. Never: the copies of other hubs, which are deployed here.
//! Upstream: multicloud-operators-subscription pkg/controller/mcmhub/mcmhub_controller.go. Ours differs in these:
//!
//! 1. Works that could not be written are tried again.
//! 2. A Channel that is not there is told.
//! 3. Where no cluster is chosen no hook runs, and works go all the same.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::Time},
    kube::{self, Api, Client, ResourceExt, core::DynamicObject},
    ocm_api::{
        apps::{
            AnsibleJobs, Channel, ReportType, Subscription, SubscriptionPhase, SubscriptionReport, SubscriptionStatus,
            annotations,
        },
        work::{ManifestWork, manifests::is_same_generation},
    },
    reconcile::{
        Caches, Done, DynamicWatches, EventKind, EventStep, ObserveError, Outcome, Plan, Reconciler, Site, StatusField,
        Step, Target, Watches, async_trait,
        cache::{key_of, split_key},
        caches::put_written,
        plan::typed,
        rbac::Right,
        segment::encoded,
    },
};
use serde_json::json;

use super::{
    administrators,
    clusters::{self, SubscriptionClusters},
    failures::{tell_of_failures, unpropagated},
    hooks::{self, HookJob},
    metrics, payload,
    sources::{SourceState, SourceSummary, SubscriptionSources},
    verdict::{Goes, Verdict, channel_problem, is_for_clusters, is_git, skips_validation, verdict},
    world::{self, SubscriptionWorld},
};
use crate::window;

/// Why a status field has two authors.
const ON_CLUSTERS: &str = "of those on the hub; the copies on clusters are the clusters'";
/// How soon a ConfigMap that names path and branch is looked at again: nobody watches it.
const FILTER_AGAIN: Duration = Duration::from_secs(60);
/// How soon it is looked again whether AnsibleJobs are a kind of the hub.
const KIND_AGAIN: Duration = Duration::from_secs(30);

/// The reconciler.
pub struct SubscriptionPropagation {
    world: SubscriptionWorld,
    sources: SubscriptionSources,
    client: Option<Client>,
    jobs: Option<DynamicWatches>,
    trusted: bool,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// When it was looked.
    pub begun: Instant,
    /// The object; `None` when it is gone.
    pub subscription: Option<Arc<Subscription>>,
    /// Its Channel, if it is there.
    pub channel: Option<Arc<Channel>>,
    /// The Channel that is read when the first cannot be, if it is there.
    pub secondary: Option<Arc<Channel>>,
    /// The ConfigMap that names path and branch, if it is there.
    pub filter: Option<Arc<ConfigMap>>,
    /// Whether a subscription administrator has written it.
    pub is_administrators: bool,
    /// Its source.
    pub source: SourceState,
    /// When the source is read again.
    pub source_again: Option<Duration>,
    /// The clusters.
    pub clusters: SubscriptionClusters,
    /// What tells one choice of clusters from the next.
    pub choice_version: String,
    /// Its works.
    pub works: Vec<Arc<ManifestWork>>,
    /// What older agents tell of it in the namespaces of clusters.
    pub statuses: Vec<Arc<SubscriptionStatus>>,
    /// The reports of the clusters.
    pub cluster_reports: BTreeMap<String, Arc<SubscriptionReport>>,
    /// Its own report.
    pub report: Option<Arc<SubscriptionReport>>,
    /// The AnsibleJobs in its namespace, if it has hooks; or why they are not known.
    pub jobs: Result<Vec<Arc<DynamicObject>>, String>,
}

impl SubscriptionPropagation {
    /// Over these caches. `trusted` is for hubs that let nobody but themselves say who has written a Subscription.
    pub fn new(world: SubscriptionWorld, sources: SubscriptionSources, caches: &Caches, trusted: bool) -> Self {
        let client = caches.client().cloned();
        let watches = client
            .clone()
            .map(|it| DynamicWatches::new(it, caches.cancel_token().clone()));
        Self {
            world,
            sources,
            client,
            jobs: watches,
            trusted,
        }
    }

    async fn filter(&self, subscription: &Subscription) -> Result<Option<Arc<ConfigMap>>, kube::Error> {
        let reference = subscription
            .spec
            .package_filter
            .as_ref()
            .and_then(|it| it.filter_ref.as_ref());
        let (Some(reference), Some(client)) = (reference.filter(|it| !it.name.is_empty()), &self.client) else {
            return Ok(None);
        };
        let namespace = subscription.namespace().unwrap_or_default();
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), &encoded(&namespace));
        Ok(api.get_opt(&encoded(&reference.name)).await?.map(Arc::new))
    }

    async fn jobs(&self, key: &str, namespace: &str, source: &SourceState) -> Result<Vec<Arc<DynamicObject>>, String> {
        let Some(watches) = &self.jobs else {
            return Ok(Vec::new());
        };
        let has_hooks = |it: &SourceSummary| !(it.pre_hooks.is_empty() && it.post_hooks.is_empty());
        if !matches!(source, SourceState::Read(it) if has_hooks(it)) {
            watches.forget(key);
            return Ok(Vec::new());
        }
        let inquiry = watches.inquiry(key);
        let listed = inquiry.list(&hooks::ansible_job(), Some(namespace)).await;
        inquiry.finish();
        listed.map_err(|refused| match refused.code {
            Some(404) => "the CustomResourceDefinition ansiblejobs.tower.ansible.com is not installed".to_owned(),
            _ => refused.to_string(),
        })
    }

    fn is_administrators(&self, subscription: &Subscription) -> bool {
        if !self.trusted && !self.world.tells_identities() {
            return false;
        }
        let bindings = self.world.administrators.list();
        let mut subjects = bindings.iter().flat_map(|it| it.subjects.iter().flatten());
        subjects.any(|it| administrators::is_administrators(subscription, std::slice::from_ref(it)))
    }
}

#[async_trait]
impl Reconciler for SubscriptionPropagation {
    const NAME: &'static str = "subscription-propagation";
    const WORKERS: usize = 16;
    const AT_ONCE: usize = 8;
    const STATUS: &'static [StatusField] = &[
        StatusField::new(Subscription::KIND, "phase").shared(ON_CLUSTERS),
        StatusField::new(Subscription::KIND, "message").shared(ON_CLUSTERS),
        StatusField::new(Subscription::KIND, "reason").shared(ON_CLUSTERS),
        StatusField::new(Subscription::KIND, "lastUpdateTime").shared(ON_CLUSTERS),
        StatusField::new(Subscription::KIND, "ansiblejobs"),
        StatusField::new(Subscription::KIND, "statuses"),
    ];
    const RIGHTS: &'static [Right] = &[
        Right::new(
            Subscription::GROUP,
            "subscriptions",
            "patch",
            "Labels of the application, who its author is, and the commit that was seen.",
        ),
        Right::new(
            Subscription::GROUP,
            "subscriptions/status",
            "patch",
            "Whether a Subscription is with its clusters.",
        ),
        Right::new(
            Subscription::GROUP,
            "subscriptions/finalizers",
            "update",
            "AnsibleJobs and reports go with their Subscription.",
        ),
        Right::new(
            Subscription::GROUP,
            "subscriptionreports",
            "create patch",
            "Clusters that could not get a Subscription are told in their reports.",
        ),
        Right::new(
            Subscription::GROUP,
            "subscriptionstatuses",
            "delete",
            "What is told of clusters that a Subscription leaves goes.",
        ),
        Right::new(
            ManifestWork::GROUP,
            "manifestworks",
            "create patch delete",
            "Subscriptions go to clusters as ManifestWorks.",
        ),
        Right::new(
            "tower.ansible.com",
            "ansiblejobs",
            "get list watch create",
            "Jobs before and after a Subscription.",
        ),
        Right::new(
            "",
            "secrets configmaps",
            "get",
            "What Channels and package filters refer to.",
        ),
        Right::new("events.k8s.io", "events", "create", "That a cluster is left."),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let [by_channel, by_decision, by_rule, by_cluster, by_binding, by_webhook] =
            [(); 6].map(|()| self.world.clone());
        watches
            .wakes(&self.world.subscriptions, |old, new| {
                let is_same = old.zip(new).is_some_and(|(old, new)| is_same_subscription(old, new));
                new.or(old).filter(|_| !is_same).map(key_of)
            })
            .wakes(&self.world.channels, move |old, new| {
                let said = |it: &Channel| (it.spec.clone(), it.metadata.annotations.clone());
                match new.or(old) {
                    Some(either) if old.map(said) != new.map(said) => {
                        by_channel.subscriptions_of_channel(&key_of(either))
                    }
                    _ => Vec::new(),
                }
            })
            .wakes(&self.world.decisions, move |old, new| {
                let chosen = |it: Option<&ocm_addon_sdk::ocm_api::cluster::PlacementDecision>| {
                    let named = it
                        .into_iter()
                        .flat_map(|it| it.status.iter().flat_map(|it| &it.decisions));
                    let named: Vec<_> = named.map(|it| it.cluster_name.clone()).collect();
                    (it.and_then(world::decided_by), named)
                };
                let (before, after) = (chosen(old), chosen(new));
                if before == after {
                    return Vec::new();
                }
                let mut keys = Vec::new();
                for placement in before
                    .0
                    .iter()
                    .chain(after.0.iter().filter(|it| before.0.as_ref() != Some(*it)))
                {
                    keys.extend(by_decision.subscriptions_of_placement(placement));
                }
                keys
            })
            .wakes(&self.world.rules, move |old, new| {
                let Some(either) = new
                    .or(old)
                    .filter(|_| old.map(|it| &it.status) != new.map(|it| &it.status))
                else {
                    return Vec::new();
                };
                let namespace = either.namespace().unwrap_or_default();
                let kind = clusters::PlacementKind::PlacementRule;
                by_rule.subscriptions_of_placement(&world::placement_key(&namespace, kind, &either.name_any()))
            })
            .wakes(&self.world.clusters, move |old, new| {
                let said = |it: &ocm_addon_sdk::ocm_api::cluster::ManagedCluster| {
                    (it.metadata.labels.clone(), it.metadata.deletion_timestamp.is_some())
                };
                match new.or(old) {
                    Some(either) if old.map(said) != new.map(said) => {
                        by_cluster.subscriptions_of_cluster(&either.name_any())
                    }
                    _ => Vec::new(),
                }
            })
            .wakes(&self.world.works, |old, new| {
                // Most changes are of the status.
                let is_same = |(old, new): (&ManifestWork, &ManifestWork)| {
                    old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
                        && old.metadata.labels == new.metadata.labels
                        && (is_same_generation(old, new) || payload::agree(old, new))
                };
                if old.zip(new).is_some_and(is_same) {
                    return Vec::new();
                }
                let both = old.into_iter().chain(new);
                both.filter_map(world::subscription_of_work).collect()
            })
            .wakes(&self.world.administrators, move |_, _| by_binding.all_subscriptions())
            .wakes(&self.world.mutating_webhooks, move |old, new| {
                let is_it = new.or(old).is_some_and(world::tells_identities);
                if !is_it || old.is_some() == new.is_some() {
                    return Vec::new();
                }
                by_webhook.all_subscriptions()
            })
            .wakes(&self.world.reports, |old, new| {
                // Jobs after a Subscription wait until its report counts all clusters.
                let is_same = old.map(|it| &it.summary) == new.map(|it| &it.summary);
                let counts_all = |it: &&SubscriptionReport| {
                    it.report_type == ReportType::Application && it.summary.deployed == it.summary.clusters
                };
                new.filter(|it| !is_same && counts_all(it)).map(key_of)
            })
            .reads(&self.world.statuses)
            .signal("AnsibleJobs of Subscriptions with hooks", {
                let jobs = self.jobs.clone();
                move |queue| {
                    if let Some(jobs) = jobs {
                        jobs.wake(queue);
                    }
                }
            });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let mut seen = Seen {
            now: Timestamp::now(),
            begun: Instant::now(),
            subscription: self.world.subscriptions.get(namespace, name),
            channel: None,
            secondary: None,
            filter: None,
            is_administrators: false,
            source: SourceState::Skipped,
            source_again: None,
            clusters: Ok(BTreeMap::new()),
            choice_version: String::new(),
            works: self.world.works_of(key),
            statuses: Vec::new(),
            cluster_reports: BTreeMap::new(),
            report: self.world.reports.get(namespace, name),
            jobs: Ok(Vec::new()),
        };
        if !seen.works.is_empty() {
            seen.statuses = self.world.statuses_of(key);
        }
        let subscription = seen
            .subscription
            .clone()
            .filter(|it| it.metadata.deletion_timestamp.is_none());
        let Some(subscription) = subscription.filter(|it| is_for_clusters(it)) else {
            self.sources.forget(key);
            if seen.subscription.is_none() {
                metrics::forget(&(namespace.to_owned(), name.to_owned()));
            }
            if let Some(jobs) = &self.jobs {
                jobs.forget(key);
            }
            return Ok(seen);
        };
        seen.is_administrators = self.is_administrators(&subscription);
        seen.clusters = self.world.chosen(&subscription);
        seen.choice_version = self.world.choice_version(&subscription).unwrap_or_default();
        seen.channel = self.world.channel(&subscription.spec.channel);
        seen.secondary = self.world.channel(&subscription.spec.secondary_channel);
        seen.filter = self.filter(&subscription).await?;
        let Some(channel) = seen
            .channel
            .clone()
            .filter(|_| channel_problem(&subscription, &seen).is_none())
        else {
            return Ok(seen);
        };
        if !skips_validation(&subscription) {
            let channels = (&channel, seen.secondary.as_ref());
            let looked = self.sources.look(key, &subscription, channels, seen.filter.as_ref());
            (seen.source, seen.source_again) = looked.await;
        }
        seen.jobs = self.jobs(key, namespace, &seen.source).await;
        let named = seen.clusters.iter().flat_map(|it| it.keys());
        let reports = named.filter_map(|it| Some((it.clone(), self.world.reports.get(it, it)?)));
        seen.cluster_reports = reports.collect();
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let verdict = verdict(seen);
        let Some(subscription) = seen.subscription.as_deref() else {
            leave_all(&mut plan, seen);
            return plan;
        };
        if let Some(again) = seen.source_again {
            plan.look_again(again);
        }
        match &verdict {
            Verdict::Gone => leave_all(&mut plan, seen),
            Verdict::Local => {
                // The copy that another hub has sent has no works, and its agent speaks for it.
                if subscription.annotation(annotations::HOSTING_SUBSCRIPTION).is_none() {
                    leave_all(&mut plan, seen);
                }
            }
            Verdict::Refused(why) => {
                let mut new = subscription.clone();
                payload::mark(&mut new, seen.is_administrators);
                plan.change(Site::Hub, subscription, &new);
                plan.refuse(why.clone());
                if seen.jobs.is_err() {
                    plan.look_again(KIND_AGAIN);
                }
            }
            Verdict::Waits(jobs) => {
                complete(&mut plan, seen, subscription);
                start(&mut plan, subscription, jobs);
                plan.wait("AnsibleJobs before it have not ended");
            }
            Verdict::Goes(goes) => {
                complete(&mut plan, seen, subscription);
                propagate(&mut plan, seen, subscription, goes);
            }
        }
        if seen.filter.is_some() {
            plan.look_again(FILTER_AGAIN);
        }
        let window = window::state(subscription.spec.timewindow.as_ref(), seen.now);
        if let Some(at) = window.changes_at {
            plan.look_again(Duration::try_from(at.duration_since(seen.now)).unwrap_or_default());
        }
        plan.work_out(verdict);
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        put_written(&self.world.works, outcome);
        put_written(&self.world.subscriptions, outcome);
        if let Some(jobs) = &self.jobs {
            let resource = hooks::ansible_job();
            let written = outcome.results().filter_map(|(step, result)| {
                let is_job = step.target().is_some_and(|it| it.api_resource == resource);
                match result {
                    Ok(Done::Object(object)) if is_job => Some(object),
                    _ => None,
                }
            });
            written.for_each(|it| jobs.put(&resource, it));
        }
        if let Some(subscription) = &seen.subscription {
            let key = (subscription.namespace().unwrap_or_default(), subscription.name_any());
            match outcome.worked_out::<Verdict>() {
                Some(Verdict::Goes(_)) if outcome.succeeded() => metrics::propagated(key, seen.begun.elapsed()),
                Some(Verdict::Gone | Verdict::Local) | None => {}
                Some(_) => metrics::failed(key, seen.begun.elapsed()),
            }
        }
    }

    fn failure(seen: &Seen, outcome: &Outcome) -> Option<String> {
        let _ = seen;
        if !outcome.succeeded() {
            return Some(outcome.error_text());
        }
        unpropagated(outcome)
            .next()
            .map(|(cluster, why)| format!("cluster {cluster}: {why}"))
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(subscription) = seen.subscription.as_deref() else {
            return plan;
        };
        tell_of_failures(&mut plan, seen, subscription, outcome);
        let mut new = subscription.status.clone().unwrap_or_default();
        let namespace = subscription.namespace().unwrap_or_default();
        let message = window::state(subscription.spec.timewindow.as_ref(), seen.now).message();
        let failed = SubscriptionPhase::PropagationFailed.as_str();
        match verdict(seen) {
            Verdict::Gone => return plan,
            Verdict::Local => {
                let is_agents = [SubscriptionPhase::Failed, SubscriptionPhase::Subscribed]
                    .iter()
                    .any(|it| new.phase == it.as_str());
                if is_agents || subscription.annotation(annotations::HOSTING_SUBSCRIPTION).is_some() {
                    return plan;
                }
                (new.phase, new.message, new.reason) = Default::default();
            }
            Verdict::Refused(why) => {
                new.phase = failed.to_owned();
                new.message = message.to_owned();
                new.reason = why;
                new.statuses.clear();
            }
            Verdict::Waits(jobs) => {
                new.phase = failed.to_owned();
                new.message = message.to_owned();
                // As upstream, with the blank.
                new.reason = format!("prehook for {} is not ready ", key_of(subscription));
                new.statuses.clear();
                tell_of_jobs(&mut new.ansiblejobs, &namespace, &jobs, &[]);
            }
            Verdict::Goes(goes) => {
                new.phase = SubscriptionPhase::Propagated.as_str().to_owned();
                new.message = message.to_owned();
                new.reason = String::new();
                tell_of_jobs(&mut new.ansiblejobs, &namespace, &goes.before, &goes.after);
            }
        }
        let old = subscription.status.clone().unwrap_or_default();
        if new != old {
            new.last_update_time = Some(Time(seen.now));
            let mut changed = subscription.clone();
            changed.status = Some(new);
            // Whatever version the first writes have made: these fields are ours alone.
            let resource = kube::core::ApiResource::erase::<Subscription>(&());
            let mut before = typed(subscription, &resource);
            before["metadata"]["resourceVersion"] = serde_json::Value::Null;
            let after = typed(&changed, &resource);
            plan.status_value(Target::of(Site::Hub, subscription), &before, &after["status"]);
        }
        plan
    }

    fn concluded(&self, outcome: &Outcome) {
        put_written(&self.world.subscriptions, outcome);
        put_written(&self.world.reports, outcome);
    }
}

/// Whether two versions of a Subscription are the same for the hub.
fn is_same_subscription(old: &Subscription, new: &Subscription) -> bool {
    old.spec == new.spec
        && old.metadata.uid == new.metadata.uid
        && old.metadata.labels == new.metadata.labels
        && old.metadata.annotations == new.metadata.annotations
        && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
}

/// Writes what the hub has to say into the metadata of the Subscription.
fn complete(plan: &mut Plan, seen: &Seen, subscription: &Subscription) {
    if let Some(new) = completed(seen, subscription) {
        plan.change(Site::Hub, subscription, &new);
    }
}

fn completed(seen: &Seen, subscription: &Subscription) -> Option<Subscription> {
    let channel = seen.channel.as_deref()?;
    let commit = match &seen.source {
        SourceState::Read(summary) if is_git(seen.channel.as_ref()) => Some(summary.revision.as_str()),
        _ => None,
    };
    let commit = commit.filter(|it| !it.is_empty());
    Some(payload::completed(
        subscription,
        channel,
        seen.is_administrators,
        commit,
    ))
}

fn start(plan: &mut Plan, subscription: &Subscription, jobs: &[HookJob]) {
    for job in jobs {
        if let Some(object) = &job.create {
            let target = Target {
                site: Site::Hub,
                api_resource: hooks::ansible_job(),
                namespace: subscription.namespace(),
                name: job.name.clone(),
            };
            plan.push(Step::Create {
                target,
                object: object.clone(),
            });
        }
    }
}

fn propagate(plan: &mut Plan, seen: &Seen, subscription: &Subscription, goes: &Goes) {
    // As upstream: where there is nothing to deploy, nothing goes to clusters, and what is there stays.
    if goes.summary.as_ref().is_some_and(|it| it.objects.is_empty()) {
        plan.remark("its source holds nothing to deploy");
        return;
    }
    let Some(new) = completed(seen, subscription) else {
        return;
    };
    let filter = seen.filter.as_deref();
    // One of a kind, by which those that are there are compared.
    let made = |is_local: bool| {
        let manifests = payload::manifests(&new, filter, is_local);
        let work = payload::work(None, "", &new, &manifests);
        (manifests, work)
    };
    let of_others = made(false);
    let of_hub = goes.clusters.values().any(|it| *it).then(|| made(true));
    let present: BTreeMap<_, _> = seen
        .works
        .iter()
        .map(|it| (it.namespace().unwrap_or_default(), &**it))
        .collect();
    for (cluster, is_local) in &goes.clusters {
        let (manifests, wanted) = of_hub.as_ref().filter(|_| *is_local).unwrap_or(&of_others);
        match present.get(cluster).copied() {
            None => {
                plan.create(Site::Hub, &payload::work(None, cluster, &new, manifests));
            }
            Some(it) if it.metadata.deletion_timestamp.is_some() => {
                plan.wait(format!("ManifestWork {} is being deleted", key_of(it)));
            }
            Some(it) if payload::agree(it, wanted) => {}
            Some(it) => {
                plan.change(Site::Hub, it, &payload::work(Some(it), cluster, &new, manifests));
            }
        }
    }
    let expired: Vec<_> = seen
        .works
        .iter()
        .filter(|it| !goes.clusters.contains_key(&it.namespace().unwrap_or_default()))
        .filter(|it| it.metadata.deletion_timestamp.is_none())
        .collect();
    for work in &expired {
        plan.delete(Site::Hub, &***work);
        leave_statuses(plan, seen, work);
    }
    start(plan, subscription, &goes.after);
    if !expired.is_empty() {
        plan.stage();
    }
    for work in &expired {
        plan.push(event(
            subscription,
            format!("Delete Expired ManifestWork {}", key_of(&***work)),
            seen.now,
        ));
    }
}

fn leave_statuses(plan: &mut Plan, seen: &Seen, work: &ManifestWork) {
    for status in seen.statuses.iter().filter(|it| it.namespace() == work.namespace()) {
        plan.delete(Site::Hub, &**status);
    }
}

fn leave_all(plan: &mut Plan, seen: &Seen) {
    for work in &seen.works {
        plan.delete(Site::Hub, &**work);
        leave_statuses(plan, seen, work);
    }
}

fn event(subscription: &Subscription, note: String, at: Timestamp) -> Step {
    let namespace = subscription.namespace().unwrap_or_default();
    Step::Event(EventStep {
        site: Site::Hub,
        namespace: namespace.clone(),
        regarding: json!({
            "apiVersion": Subscription::API_VERSION, "kind": Subscription::KIND, "namespace": namespace,
            "name": subscription.name_any(), "uid": subscription.uid(),
        }),
        related: None,
        kind: EventKind::Normal,
        reason: "Delete".to_owned(),
        action: "Delete".to_owned(),
        note,
        reporting_controller: "subscription".to_owned(),
        at,
    })
}

fn tell_of_jobs(told: &mut Option<AnsibleJobs>, namespace: &str, before: &[HookJob], after: &[HookJob]) {
    let (before, after) = (hooks::told(namespace, before), hooks::told(namespace, after));
    if before.is_empty() && after.is_empty() {
        return;
    }
    let told = told.get_or_insert_default();
    for (last, new) in [(&mut told.lastprehookjob, before), (&mut told.lastposthookjob, after)] {
        if !new.is_empty() {
            *last = new;
        }
    }
}

#[cfg(test)]
#[path = "propagation_tests.rs"]
mod tests;
