//! Chooses the clusters of PlacementRules.
//!
//! Root: PlacementRule. Reads: ManagedClusters, the PlacementDecisions of the rule, what the rule's author may look at
//! where the rule names one. Writes: the rule's decisions, and the same as PlacementDecisions. Never: the
//! PlacementDecisions of Placements.
//! Upstream: multicloud-operators-subscription pkg/placementrule/controller/placementrule.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ocm_addon_sdk::{
    k8s_openapi::{
        api::rbac::v1::{ClusterRole, ClusterRoleBinding},
        apimachinery::pkg::apis::meta::v1::OwnerReference,
    },
    kube::{
        self, Api, Client, Resource, ResourceExt,
        api::{ListParams, ObjectMeta},
        runtime::watcher,
    },
    ocm_api::{
        apps::{PlacementRule, PlacementRuleDecision, PlacementRuleStatus},
        cluster::{ClusterDecision, ManagedCluster, PlacementDecision, PlacementDecisionStatus},
    },
    quantity,
    reconcile::{
        Cache, Caches, Index, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Watches, async_trait,
        cache::{Watching, key_of, split_key},
        caches::put_written,
        rbac::Right,
        segment::encoded,
    },
};

use super::{
    authors::{self, RuleAuthor, VisibleClusters},
    clusters,
};

/// On the decisions of a PlacementRule: its name.
pub const PLACEMENT_RULE_LABEL: &str = "cluster.open-cluster-management.io/placementrule";
/// As many clusters are in one PlacementDecision, as upstream.
const DECISIONS_MAX: usize = 100;
/// How soon it is looked again what an author may look at: nobody watches all roles for it.
const AUTHOR_AGAIN: Duration = Duration::from_secs(60);
/// Names of the scheduler that this is.
const SCHEDULERS: [&str; 3] = ["", "default", "mcm"];

/// The reconciler.
pub struct PlacementRuleDecisions {
    rules: Cache<PlacementRule>,
    clusters: Cache<ManagedCluster>,
    decisions: Cache<PlacementDecision>,
    decided: Index<PlacementDecision>,
    client: Option<Client>,
}

/// What a plan is made from.
pub struct Seen {
    /// The object; `None` when it is gone.
    pub rule: Option<Arc<PlacementRule>>,
    /// All clusters.
    pub clusters: Vec<Arc<ManagedCluster>>,
    /// Its PlacementDecisions.
    pub decisions: Vec<Arc<PlacementDecision>>,
    /// Which clusters the author of the rule may look at.
    pub visible: VisibleClusters,
}

impl PlacementRuleDecisions {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        let decisions = caches.watching(Watching {
            selection: watcher::Config::default().labels(PLACEMENT_RULE_LABEL),
            ..Watching::default()
        });
        Self {
            rules: caches.of(),
            clusters: caches.of(),
            decided: Index::over(&decisions, decided_by),
            decisions,
            client: caches.client().cloned(),
        }
    }

    async fn visible(&self, rule: &PlacementRule) -> Result<VisibleClusters, kube::Error> {
        let (Some(author), Some(client)) = (RuleAuthor::of(rule.annotations()), &self.client) else {
            return Ok(VisibleClusters::All);
        };
        if author.is_administrators() {
            return Ok(VisibleClusters::All);
        }
        let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
        let bindings = bindings.list(&ListParams::default()).await?.items;
        let roles: Api<ClusterRole> = Api::all(client.clone());
        let mut found = Vec::new();
        for name in author.roles(&bindings) {
            found.extend(roles.get_opt(&encoded(name)).await?);
        }
        Ok(authors::visible(&found))
    }
}

#[async_trait]
impl Reconciler for PlacementRuleDecisions {
    const NAME: &'static str = "placement-rule-decisions";
    const STATUS: &'static [StatusField] = &[
        StatusField::new(PlacementRule::KIND, "decisions"),
        StatusField::new(PlacementDecision::KIND, "decisions").shared("of PlacementRules; others are of Placements"),
    ];
    const RIGHTS: &'static [Right] = &[
        Right::new(
            PlacementRule::GROUP,
            "placementrules/status",
            "patch",
            "The clusters of PlacementRules.",
        ),
        Right::new(
            PlacementRule::GROUP,
            "placementrules/finalizers",
            "update",
            "Decisions go with their rule.",
        ),
        Right::new(
            PlacementDecision::GROUP,
            "placementdecisions",
            "create delete",
            "The clusters of PlacementRules, as those of Placements are said.",
        ),
        Right::new(
            PlacementDecision::GROUP,
            "placementdecisions/status",
            "patch",
            "The clusters of PlacementRules, as those of Placements are said.",
        ),
        Right::new(
            "rbac.authorization.k8s.io",
            "clusterroles clusterrolebindings",
            "get list",
            "Which clusters the author of a rule may look at.",
        ),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let rules = self.rules.clone();
        watches
            .root(&self.rules)
            .wakes(&self.clusters, move |old, new| {
                let is_same = old.zip(new).is_some_and(|(old, new)| is_same_cluster(old, new));
                let all = if is_same { Vec::new() } else { rules.list() };
                all.iter().map(|it| key_of(&**it)).collect::<Vec<_>>()
            })
            .wakes(&self.decisions, |old, new| new.or(old).and_then(decided_by));
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let rule = self.rules.get(namespace, name);
        Ok(Seen {
            clusters: rule.as_ref().map_or(Vec::new(), |_| self.clusters.list()),
            decisions: self.decided.objects(key),
            visible: match rule.as_deref() {
                Some(rule) => self.visible(rule).await?,
                None => VisibleClusters::All,
            },
            rule,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let rule = seen
            .rule
            .as_deref()
            .filter(|it| it.metadata.deletion_timestamp.is_none());
        let Some(rule) = rule else { return plan };
        if !SCHEDULERS.contains(&rule.spec.scheduler_name.as_str()) {
            plan.remark("another scheduler decides");
            return plan;
        }
        let mut clusters = seen.clusters.clone();
        if let VisibleClusters::Named(names) = &seen.visible {
            clusters.retain(|it| names.contains(&it.name_any()));
        }
        if RuleAuthor::of(rule.annotations()).is_some() {
            plan.look_again(AUTHOR_AGAIN);
        }
        let chosen = match choose(rule, &clusters) {
            Ok(chosen) => chosen,
            Err(why) => {
                plan.refuse(why);
                return plan;
            }
        };
        let mut new = rule.clone();
        let decisions = chosen.iter().map(|it| PlacementRuleDecision {
            cluster_name: it.clone(),
            cluster_namespace: it.clone(),
        });
        new.status = Some(PlacementRuleStatus {
            decisions: decisions.collect(),
        });
        if rule.status.is_some() || !chosen.is_empty() {
            plan.status(Site::Hub, rule, &new);
        }
        publish(&mut plan, rule, &chosen, &seen.decisions);
        plan
    }

    fn goes_on(seen: &Seen, outcome: &Outcome) -> bool {
        // A decision is created without its status, which follows.
        let created = outcome
            .results()
            .any(|(step, _)| matches!(step, ocm_addon_sdk::reconcile::Step::Create { .. }));
        seen.rule.is_some() && created && outcome.succeeded()
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        put_written(&self.rules, outcome);
        put_written(&self.decisions, outcome);
    }
}

/// The key of the PlacementRule of a decision.
fn decided_by(decision: &PlacementDecision) -> Option<String> {
    let name = decision.labels().get(PLACEMENT_RULE_LABEL)?;
    Some(format!("{}/{name}", decision.namespace()?))
}

fn is_same_cluster(old: &ManagedCluster, new: &ManagedCluster) -> bool {
    let said = |it: &ManagedCluster| {
        let status = it.status.clone().unwrap_or_default();
        let conditions = status.conditions.into_iter();
        let conditions: Vec<_> = conditions.map(|it| (it.type_, it.status)).collect();
        (
            it.metadata.labels.clone(),
            it.metadata.deletion_timestamp.is_some(),
            conditions,
            status.allocatable,
        )
    };
    said(old) == said(new)
}

/// The clusters of a rule, in their order.
///
/// # Errors
/// When its selector cannot be read.
pub fn choose(rule: &PlacementRule, all: &[Arc<ManagedCluster>]) -> Result<Vec<String>, String> {
    let spec = &rule.spec;
    let selected = if spec.clusters.is_empty() {
        clusters::selected(all, spec.cluster_selector.as_ref())?
    } else {
        let named: BTreeSet<&str> = spec.clusters.iter().map(|it| it.name.as_str()).collect();
        clusters::with_locality(all.iter().filter(|it| named.contains(it.name_any().as_str())).cloned())
    };
    let eligible: BTreeMap<String, &ManagedCluster> = all
        .iter()
        .map(|it| (it.name_any(), &**it))
        .filter(|(name, it)| selected.contains_key(name) && has_conditions(rule, it))
        .collect();
    let count = match spec.cluster_replicas {
        Some(count) => usize::try_from(count).unwrap_or_default(),
        None => eligible.len(),
    };
    let Some(hint) = &spec.resource_hint else {
        let before = rule
            .status
            .iter()
            .flat_map(|it| &it.decisions)
            .map(|it| &it.cluster_name);
        let (mut chosen, mut seen) = (Vec::new(), BTreeSet::new());
        for name in before.chain(eligible.keys()) {
            if chosen.len() < count && eligible.contains_key(name) && seen.insert(name) {
                chosen.push(name.clone());
            }
        }
        chosen.sort();
        return Ok(chosen);
    };
    let amount = |it: &ManagedCluster| {
        let resource = match hint.r#type.as_str() {
            known @ ("cpu" | "memory") => known,
            _ => return 0,
        };
        let allocatable = it.status.as_ref().and_then(|it| it.allocatable.get(resource));
        allocatable.and_then(|it| quantity::milli(&it.0)).unwrap_or_default()
    };
    let mut ordered: Vec<(i128, String)> = eligible.iter().map(|(name, it)| (amount(it), name.clone())).collect();
    // Clusters with as much of it are in the order of their names.
    if hint.order == "asc" {
        ordered.sort();
    } else {
        ordered.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    }
    Ok(ordered.into_iter().take(count).map(|(_, name)| name).collect())
}

/// Whether no condition of a cluster has another status than the rule wants. Conditions that it lacks do not matter.
fn has_conditions(rule: &PlacementRule, cluster: &ManagedCluster) -> bool {
    let wanted: BTreeMap<&str, &str> = rule
        .spec
        .cluster_conditions
        .iter()
        .map(|it| (it.r#type.as_str(), it.status.as_str()))
        .collect();
    let mut conditions = cluster.status.iter().flat_map(|it| &it.conditions);
    conditions.all(|it| wanted.get(it.type_.as_str()).is_none_or(|status| *status == it.status))
}

/// Says the same in PlacementDecisions, of which each holds a hundred clusters.
fn publish(plan: &mut Plan, rule: &PlacementRule, chosen: &[String], present: &[Arc<PlacementDecision>]) {
    let name_of = |number: usize| format!("{}-decision-{}", rule.name_any(), number + 1);
    let mut wanted = BTreeSet::new();
    for (number, clusters) in chosen.chunks(DECISIONS_MAX).enumerate() {
        let name = name_of(number);
        let decisions = clusters.iter().map(|it| ClusterDecision {
            cluster_name: it.clone(),
            ..ClusterDecision::default()
        });
        let status = PlacementDecisionStatus {
            decisions: decisions.collect(),
        };
        match present.iter().find(|it| it.name_any() == name) {
            Some(present) => {
                let mut new = (**present).clone();
                new.status = Some(status);
                plan.status(Site::Hub, &**present, &new);
            }
            None => {
                plan.create(Site::Hub, &decision(rule, &name));
            }
        }
        wanted.insert(name);
    }
    for decision in present.iter().filter(|it| !wanted.contains(&it.name_any())) {
        plan.delete(Site::Hub, &**decision);
    }
}

fn decision(rule: &PlacementRule, name: &str) -> PlacementDecision {
    let owner = rule.controller_owner_ref(&()).map(|it| OwnerReference {
        block_owner_deletion: Some(true),
        ..it
    });
    PlacementDecision {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: rule.namespace(),
            labels: Some([(PLACEMENT_RULE_LABEL.to_owned(), rule.name_any())].into()),
            owner_references: owner.map(|it| vec![it]),
            ..ObjectMeta::default()
        },
        status: None,
    }
}

#[cfg(test)]
#[path = "placement_rules_tests.rs"]
mod tests;
