//! Starts Ansible jobs for clusters that do not comply with a Policy.
//!
//! Root: PolicyAutomation. Reads: its Policy, that one's replicas, the AnsibleJobs that it has started, the DNS of an
//! OpenShift hub. Writes: AnsibleJobs, its owner, mode and annotation `rerun`, its status. Never: the Policy.
//! Upstream: governance-policy-propagator `controllers/automation`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use ocm_addon_sdk::{
    k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference,
    kube::{
        self, Api, Client, Resource, ResourceExt,
        api::ListParams,
        core::{ApiResource, DynamicObject, GroupVersionKind},
    },
    ocm_api::policy::{
        ComplianceState, Policy, PolicyAutomation, annotations,
        automation::{ClusterEvent, PolicyAutomationStatus},
    },
    reconcile::{
        Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Step, Target, Watches, async_trait,
        cache::{key_of, split_key},
        caches::put_written,
        rbac::Right,
    },
};
use serde_json::{Value, json};

use super::{
    encryption::written,
    replica,
    world::{self, PolicyWorld},
};

const LABEL: &str = "policy.open-cluster-management.io/policyautomation-name";
const GENERATION: &str = "policy.open-cluster-management.io/policyautomation-generation";
const RESOURCE_VERSION: &str = "policy.open-cluster-management.io/policyautomation-resource-version";
/// How long a finished job is kept, in seconds, where the automation does not say.
const JOB_TTL: i64 = 86_400;
/// How many clusters' violations a job is told, where the automation does not say.
const VIOLATIONS_MAX: u64 = 1_000;

/// The reconciler.
pub struct Automations {
    automations: Cache<PolicyAutomation>,
    world: PolicyWorld,
    client: Option<Client>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The PolicyAutomation; `None` when it is gone.
    pub automation: Option<Arc<PolicyAutomation>>,
    /// Its Policy; `None` when it names none that is there.
    pub policy: Option<Arc<Policy>>,
    /// The replicas of the Policy, by their clusters.
    pub replicas: BTreeMap<String, Arc<Policy>>,
    /// The annotations of the jobs that it has started.
    pub jobs: Vec<BTreeMap<String, String>>,
    /// The base domain of an OpenShift hub; empty elsewhere.
    pub hub_cluster: String,
}

fn kind_of(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

fn ansible_job() -> ApiResource {
    kind_of("tower.ansible.com", "v1alpha1", "AnsibleJob", "ansiblejobs")
}

impl Automations {
    /// Over these caches.
    pub fn new(world: PolicyWorld, caches: &Caches) -> Self {
        Self {
            automations: caches.of(),
            world,
            client: caches.client().cloned(),
        }
    }

    async fn jobs(&self, automation: &PolicyAutomation) -> Result<Vec<BTreeMap<String, String>>, kube::Error> {
        let Some(client) = &self.client else {
            return Ok(Vec::new());
        };
        let namespace = automation.namespace().unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &ansible_job());
        let its = ListParams::default().labels(&format!("{LABEL}={}", automation.name_any()));
        Ok(api
            .list(&its)
            .await?
            .items
            .into_iter()
            .map(|it| it.annotations().clone())
            .collect())
    }

    async fn hub_cluster(&self) -> Result<String, kube::Error> {
        let Some(client) = &self.client else {
            return Ok(String::new());
        };
        let api: Api<DynamicObject> =
            Api::all_with(client.clone(), &kind_of("config.openshift.io", "v1", "DNS", "dnses"));
        let found = api.get_opt("cluster").await?;
        let domain = found.and_then(|it| it.data["spec"]["baseDomain"].as_str().map(str::to_owned));
        Ok(domain.unwrap_or_default())
    }
}

#[async_trait]
impl Reconciler for Automations {
    const NAME: &'static str = "policy-automations";
    const STATUS: &'static [StatusField] = &[StatusField::new(PolicyAutomation::KIND, "clustersWithEvent")];
    const RIGHTS: &'static [Right] = &[
        Right::new(
            PolicyAutomation::GROUP,
            "policyautomations",
            "patch",
            "Its Policy owns it; once is once.",
        ),
        Right::new(
            PolicyAutomation::GROUP,
            "policyautomations/status",
            "patch",
            "When jobs were started.",
        ),
        Right::new(
            PolicyAutomation::GROUP,
            "policyautomations/finalizers",
            "update",
            "Jobs go with their automation.",
        ),
        Right::new(
            "tower.ansible.com",
            "ansiblejobs",
            "create list",
            "Jobs for clusters that do not comply.",
        ),
        Right::new(
            "config.openshift.io",
            "dnses",
            "get",
            "Jobs are told the name of the hub.",
        ),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let automations = self.automations.clone();
        watches
            .root(&self.automations)
            .wakes(&self.world.policies, move |old, new| {
                let Some(either) = new.or(old).filter(|it| !world::is_replica(it)) else {
                    return Vec::new();
                };
                let said = |it: &Policy| it.status.as_ref().map(|it| it.status.clone()).unwrap_or_default();
                // A Policy that appears belongs to automations that wait for it.
                if old.is_some() && old.map(said) == new.map(said) {
                    return Vec::new();
                }
                let mut of = automations.list_in(&either.namespace().unwrap_or_default());
                of.retain(|it| it.spec.policy_ref == either.name_any());
                of.iter().map(|it| key_of(&**it)).collect()
            });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let mut seen = Seen {
            now: Timestamp::now(),
            automation: self.automations.get(namespace, name),
            policy: None,
            replicas: BTreeMap::new(),
            jobs: Vec::new(),
            hub_cluster: String::new(),
        };
        let Some(automation) = seen.automation.clone() else {
            return Ok(seen);
        };
        seen.policy = self.world.policies.get(namespace, &automation.spec.policy_ref);
        let Some(policy) = seen.policy.clone().filter(|_| may_start(&automation)) else {
            return Ok(seen);
        };
        seen.jobs = self
            .jobs(&automation)
            .await
            .map_err(|error| format!("could not list AnsibleJobs: {error}"))?;
        // As upstream: a job without the name of the hub is better than none.
        seen.hub_cluster = self.hub_cluster().await.unwrap_or_default();
        let replicas = self.world.replicas_of(&replica::name_of(&policy)).into_iter();
        seen.replicas = replicas.map(|it| (it.namespace().unwrap_or_default(), it)).collect();
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(automation) = seen.automation.as_deref() else {
            return plan;
        };
        let Some(policy) = seen.policy.as_deref() else {
            plan.remark("it names no Policy that is in its namespace");
            return plan;
        };
        if let Some(step) = owned(automation, policy) {
            // The next run sees the resourceVersion that this one makes.
            plan.push(step);
            return plan;
        }
        if asks_to_rerun(automation) {
            rerun(&mut plan, seen, automation, policy);
        } else if policy.spec.disabled {
            plan.remark("its Policy is disabled");
        } else {
            match automation.spec.mode.as_str() {
                "once" => once(&mut plan, seen, automation, policy),
                "everyEvent" => every_event(&mut plan, seen, automation, policy),
                _ => {
                    plan.remark("its mode is disabled");
                }
            }
        }
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        // The watch may tell of its status only after the next run, which would start the same job again.
        put_written(&self.automations, outcome);
    }
}

fn asks_to_rerun(automation: &PolicyAutomation) -> bool {
    automation
        .annotations()
        .get(annotations::RERUN)
        .is_some_and(|it| it == "true")
}

fn may_start(automation: &PolicyAutomation) -> bool {
    asks_to_rerun(automation) || matches!(automation.spec.mode.as_str(), "once" | "everyEvent")
}

/// Makes the Policy the only owner, if it is none.
fn owned(automation: &PolicyAutomation, policy: &Policy) -> Option<Step> {
    let uid = policy.uid().unwrap_or_default();
    if automation.owner_references().iter().any(|it| it.uid == uid) {
        return None;
    }
    let owner = OwnerReference {
        block_owner_deletion: Some(true),
        ..policy.controller_owner_ref(&())?
    };
    Some(patch(automation, json!({"metadata": {"ownerReferences": [owner]}})))
}

fn patch(automation: &PolicyAutomation, mut patch: Value) -> Step {
    patch["metadata"]["uid"] = json!(automation.uid());
    patch["metadata"]["resourceVersion"] = json!(automation.resource_version());
    Step::MergePatch {
        target: Target::of(Site::Hub, automation),
        subresource: None,
        patch,
    }
}

/// One job for each resourceVersion, whatever mode and state.
fn rerun(plan: &mut Plan, seen: &Seen, automation: &PolicyAutomation, policy: &Policy) {
    let version = automation.resource_version();
    let is_started = seen.jobs.iter().any(|it| it.get(RESOURCE_VERSION) == version.as_ref());
    if !is_started {
        let clusters = violating(policy);
        plan.push(job(seen, automation, policy, "manual", &clusters));
        plan.stage();
    }
    plan.push(patch(
        automation,
        json!({"metadata": {"annotations": { annotations::RERUN: null }}}),
    ));
}

/// One job for each generation, then never again.
fn once(plan: &mut Plan, seen: &Seen, automation: &PolicyAutomation, policy: &Policy) {
    let clusters = violating(policy);
    if clusters.is_empty() {
        plan.remark("all clusters comply");
        return;
    }
    let generation = automation.metadata.generation.unwrap_or_default().to_string();
    if !seen.jobs.iter().any(|it| it.get(GENERATION) == Some(&generation)) {
        plan.push(job(seen, automation, policy, "once", &clusters));
        plan.stage();
    }
    plan.push(patch(automation, json!({"spec": {"mode": "disabled"}})));
}

/// One job for the clusters that have ceased to comply since the last one.
fn every_event(plan: &mut Plan, seen: &Seen, automation: &PolicyAutomation, policy: &Policy) {
    let violating = violating(policy);
    let delay = SignedDuration::from_secs(automation.spec.delay_after_run_seconds.max(0));
    let now = written(seen.now);
    let mut said = automation.status.clone().unwrap_or_default().clusters_with_event;
    let mut targets = BTreeSet::new();
    let mut again: Option<Duration> = None;
    said.retain(|cluster, event| {
        let (Ok(started), Ok(happened)) = (
            event.automation_start_time.parse::<Timestamp>(),
            event.event_time.parse::<Timestamp>(),
        ) else {
            return false;
        };
        let end = started.checked_add(delay).unwrap_or(Timestamp::MAX);
        let is_over = delay.is_zero() || seen.now >= end;
        if !violating.contains(cluster) {
            // The cluster complies: within the delay the time tells that it did.
            if !is_over {
                event.event_time.clone_from(&now);
            }
            return !is_over;
        }
        if delay.is_zero() || happened <= started {
            return true;
        }
        // It has complied since the job, and does not any more.
        if is_over {
            targets.insert(cluster.clone());
            return false;
        }
        event.event_time.clone_from(&now);
        let rest = Duration::try_from(end.duration_since(seen.now)).unwrap_or_default();
        again = Some(again.map_or(rest, |it| it.min(rest)));
        true
    });
    targets.extend(violating.iter().filter(|it| !said.contains_key(*it)).cloned());
    if !targets.is_empty() {
        plan.push(job(seen, automation, policy, "everyevent", &targets));
        plan.stage();
        let event = ClusterEvent {
            automation_start_time: now.clone(),
            event_time: now,
        };
        said.extend(targets.into_iter().map(|it| (it, event.clone())));
    }
    let mut new = automation.clone();
    new.status = Some(PolicyAutomationStatus {
        clusters_with_event: said,
    });
    if automation.status.is_some() || new.status != Some(PolicyAutomationStatus::default()) {
        plan.status(Site::Hub, automation, &new);
    }
    if let Some(again) = again {
        plan.look_again(again + Duration::from_secs(1));
    }
}

/// The clusters that do not comply.
fn violating(policy: &Policy) -> BTreeSet<String> {
    let said = policy.status.iter().flat_map(|it| &it.status);
    let violating = said.filter(|it| it.compliant == Some(ComplianceState::NonCompliant));
    violating.map(|it| it.clustername.clone()).collect()
}

/// The creation of a job. `mode` is part of its name, in lower case.
fn job(seen: &Seen, automation: &PolicyAutomation, policy: &Policy, mode: &str, clusters: &BTreeSet<String>) -> Step {
    let def = &automation.spec.automation_def;
    let mut variables = def.extra_vars.as_object().cloned().unwrap_or_default();
    let sets = policy
        .status
        .iter()
        .flat_map(|it| &it.placement)
        .map(|it| it.policy_set.as_str());
    let sets: Vec<&str> = sets.filter(|it| !it.is_empty()).collect();
    for (name, value) in [
        ("target_clusters", json!(clusters)),
        ("policy_name", json!(policy.name_any())),
        ("policy_namespace", json!(policy.namespace())),
        ("hub_cluster", json!(seen.hub_cluster)),
        ("policy_sets", json!(sets)),
        (
            "policy_violations",
            violations(seen, def.policy_violations_limit.unwrap_or(VIOLATIONS_MAX), clusters),
        ),
    ] {
        variables.insert(name.to_owned(), value);
    }
    let clean = |it: char| {
        if it.is_ascii_alphanumeric() {
            it.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let name: String = automation.name_any().chars().map(clean).collect();
    let owner = automation.controller_owner_ref(&());
    let owner = owner.map(|it| OwnerReference {
        block_owner_deletion: Some(true),
        ..it
    });
    let namespace = automation.namespace();
    let object = json!({
        "apiVersion": "tower.ansible.com/v1alpha1",
        "kind": "AnsibleJob",
        "metadata": {
            "generateName": format!("{name}-{mode}-"),
            "namespace": namespace,
            "labels": { LABEL: automation.name_any() },
            "annotations": {
                GENERATION: automation.metadata.generation.unwrap_or_default().to_string(),
                RESOURCE_VERSION: automation.resource_version().unwrap_or_default(),
            },
            "ownerReferences": owner.into_iter().collect::<Vec<_>>(),
        },
        "spec": {
            "job_template_name": def.name,
            "tower_auth_secret": def.secret,
            "extra_vars": variables,
            "job_ttl": def.job_ttl.unwrap_or(JOB_TTL),
        },
    });
    let target = Target {
        site: Site::Hub,
        api_resource: ansible_job(),
        namespace,
        name: String::new(),
    };
    Step::Create { target, object }
}

/// What clusters say, at most `limit` of them; 0 is all.
fn violations(seen: &Seen, limit: u64, clusters: &BTreeSet<String>) -> Value {
    let limit = usize::try_from(limit).ok().filter(|it| *it > 0).unwrap_or(usize::MAX);
    let of = clusters
        .iter()
        .filter_map(|it| Some((it.clone(), seen.replicas.get(it)?)));
    let told: BTreeMap<String, Value> = of
        .take(limit)
        .map(|(cluster, replica)| (cluster, violation(replica)))
        .collect();
    if told.is_empty() { Value::Null } else { json!(told) }
}

fn violation(replica: &Policy) -> Value {
    let status = replica.status.clone().unwrap_or_default();
    let text = |it: Option<ComplianceState>| it.map(ComplianceState::as_str).unwrap_or_default();
    let newest = status.details.first().and_then(|it| it.history.first());
    let details = status.details.iter().map(|it| {
        let history = it
            .history
            .iter()
            .map(|it| json!({"lastTimestamp": it.last_timestamp, "message": it.message}));
        json!({"compliant": text(it.compliant), "history": history.collect::<Vec<_>>()})
    });
    json!({
        "compliant": text(status.compliant),
        "violation_message": newest.map(|it| it.message.as_str()).unwrap_or_default(),
        "details": details.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
#[path = "automation_tests.rs"]
mod tests;
