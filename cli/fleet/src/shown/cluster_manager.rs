//! Says what the hub of this process is.
//!
//! Root: ClusterManager `cluster-manager`. Reads: nothing else; what the process was started with it is told.
//! Writes: it, with its whole status. Never: another ClusterManager.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use ocm_api::{
    condition::{self, wanted},
    conditions::cluster_manager as conditions,
    namespaces,
    operator::{ClusterManager, FeatureGate, RelatedResourceMeta},
};
use ocm_reconcile::{
    Cache, Caches, Controller, ObserveError, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right,
};
use operator::feature_gates;
use tokio_util::sync::CancellationToken;

use super::{gate, image, related, related_crd};

/// The name that `clusteradm` gives to the only one.
const NAME: &str = "cluster-manager";

/// The Deployments that the hub would be. They stay among the related resources, where programs look up what a hub
/// consists of: these take one that is missing for one that is not installed, and stumble over one that is not named.
const DEPLOYMENTS: [&str; 6] = [
    "registration-controller",
    "registration-webhook",
    "work-webhook",
    "placement-controller",
    "addon-manager-controller",
    "work-controller",
];

/// What there is to say about the hub.
#[derive(Clone, Debug, Default)]
pub struct HubFacts {
    /// Its switches that were turned by hand, each with its position.
    pub gates: Vec<(String, bool)>,
    /// Users whose certificate requests are approved without a human.
    pub auto_approved_users: Vec<String>,
    /// The names of the CRDs that it serves.
    pub crds: Vec<String>,
}

/// The reconciler.
pub struct ClusterManagers {
    objects: Cache<ClusterManager>,
    facts: Arc<HubFacts>,
}

/// What a plan is made from.
pub struct Seen {
    now: Timestamp,
    name: String,
    object: Option<Arc<ClusterManager>>,
    facts: Arc<HubFacts>,
}

impl ClusterManagers {
    /// Has the hub serve the kind, and starts to keep the object there.
    ///
    /// # Errors
    /// When the kind cannot be served.
    pub async fn start(
        caches: &Caches,
        client: Client,
        facts: HubFacts,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        super::serve(&client, ClusterManager::PLURAL).await?;
        let it = Self {
            objects: caches.of(),
            facts: Arc::new(facts),
        };
        Controller::new(it).start_on_hub(client, stop);
        Ok(())
    }
}

#[async_trait]
impl Reconciler for ClusterManagers {
    const NAME: &'static str = "shown-cluster-manager";
    const STATUS: &'static [StatusField] = &[
        StatusField::condition(ClusterManager::KIND, conditions::APPLIED),
        StatusField::condition(ClusterManager::KIND, conditions::PROGRESSING),
        StatusField::condition(ClusterManager::KIND, conditions::VALID_FEATURE_GATES),
        StatusField::condition(ClusterManager::KIND, conditions::HUB_REGISTRATION_DEGRADED),
        StatusField::condition(ClusterManager::KIND, conditions::HUB_PLACEMENT_DEGRADED),
        StatusField::new(ClusterManager::KIND, "observedGeneration"),
        StatusField::new(ClusterManager::KIND, "relatedResources"),
    ];
    const RIGHTS: &'static [Right] = &[
        Right::new(ClusterManager::GROUP, "clustermanagers", "create", "To show what runs,"),
        Right::new(ClusterManager::GROUP, "clustermanagers", "patch", "and keep it true."),
        Right::new(ClusterManager::GROUP, "clustermanagers/status", "patch", "The same."),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.objects).signal("the start", |queue| queue.add(NAME));
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            now: Timestamp::now(),
            name: name.to_owned(),
            object: self.objects.named(name),
            facts: self.facts.clone(),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        if seen.name != NAME {
            plan.wait(format!(
                "no operator looks after ClusterManager {}: the hub of drover up is {NAME}",
                seen.name
            ));
            return plan;
        }
        let Some(before) = seen.object.as_deref() else {
            let mut new = ClusterManager::default();
            new.metadata.name = Some(NAME.to_owned());
            specify(&mut new, &seen.facts);
            plan.create(Site::Hub, &new);
            return plan;
        };
        if before.metadata.deletion_timestamp.is_some() {
            plan.wait("the ClusterManager is being deleted, and comes again");
            return plan;
        }
        let mut after = before.clone();
        specify(&mut after, &seen.facts);
        if plan.change(Site::Hub, before, &after).is_some() {
            // The status says which generation it is about; the next run knows it.
            return plan;
        }
        report(&mut after, &seen.facts, seen.now);
        plan.status(Site::Hub, before, &after);
        plan
    }
}

/// Writes down what the hub is; what it has no word on stays as it is.
fn specify(object: &mut ClusterManager, facts: &HubFacts) {
    let spec = &mut object.spec;
    for field in [
        &mut spec.registration_image_pull_spec,
        &mut spec.work_image_pull_spec,
        &mut spec.placement_image_pull_spec,
        &mut spec.add_on_manager_image_pull_spec,
    ] {
        *field = image();
    }
    let gates_of = |component: &feature_gates::Component| -> Vec<FeatureGate> {
        let known = |name: &str| component.gates.iter().any(|it| it.0 == name);
        let ours = facts.gates.iter().filter(|it| known(&it.0));
        ours.map(|(name, is_on)| gate((name, *is_on))).collect()
    };
    let registration = gates_of(&feature_gates::HUB_REGISTRATION);
    if !registration.is_empty() || !facts.auto_approved_users.is_empty() || spec.registration_configuration.is_some() {
        let of = spec.registration_configuration.get_or_insert_default();
        of.feature_gates = registration;
        of.auto_approve_users.clone_from(&facts.auto_approved_users);
    }
    let work = gates_of(&feature_gates::HUB_WORK);
    if !work.is_empty() || spec.work_configuration.is_some() {
        spec.work_configuration.get_or_insert_default().feature_gates = work;
    }
    let add_ons = gates_of(&feature_gates::HUB_ADD_ONS);
    if !add_ons.is_empty() || spec.add_on_manager_configuration.is_some() {
        spec.add_on_manager_configuration.get_or_insert_default().feature_gates = add_ons;
    }
    let placement = gates_of(&feature_gates::HUB_PLACEMENT);
    if !placement.is_empty() || spec.placement_configuration.is_some() {
        spec.placement_configuration.get_or_insert_default().feature_gates = placement;
    }
}

fn report(object: &mut ClusterManager, facts: &HubFacts, now: Timestamp) {
    let generation = object.metadata.generation;
    let status = object.status.get_or_insert_default();
    for update in [
        wanted(
            conditions::APPLIED,
            true,
            "ClusterManagerApplied",
            "The hub runs in the process of drover up; there is no operator and no Deployment",
        ),
        wanted(
            conditions::PROGRESSING,
            false,
            "ClusterManagerUpToDate",
            "Components of cluster manager are those of the process",
        ),
        wanted(
            conditions::VALID_FEATURE_GATES,
            true,
            "FeatureGatesAllValid",
            "Feature gates are those that drover up was started with",
        ),
        wanted(
            conditions::HUB_REGISTRATION_DEGRADED,
            false,
            "RegistrationFunctional",
            "Registration is managing credentials in the process of drover up",
        ),
        wanted(
            conditions::HUB_PLACEMENT_DEGRADED,
            false,
            "PlacementFunctional",
            "Placement is scheduling placement decisions in the process of drover up",
        ),
    ] {
        condition::set(&mut status.conditions, update.at_generation(generation), now);
    }
    status.observed_generation = generation.unwrap_or_default();
    status.related_resources = related_resources(facts);
}

fn related_resources(facts: &HubFacts) -> Vec<RelatedResourceMeta> {
    let deployment = |part: &&str| related("apps", "deployments", namespaces::HUB, &format!("{NAME}-{part}"));
    let crds = facts.crds.iter().map(|it| related_crd(it));
    let namespace = related("", "namespaces", "", namespaces::HUB);
    crds.chain([namespace])
        .chain(DEPLOYMENTS.iter().map(deployment))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(object: Option<ClusterManager>, gates: &[(&str, bool)]) -> Seen {
        Seen {
            now: Timestamp::UNIX_EPOCH,
            name: NAME.to_owned(),
            object: object.map(Arc::new),
            facts: Arc::new(HubFacts {
                gates: gates.iter().map(|(name, is_on)| ((*name).to_owned(), *is_on)).collect(),
                auto_approved_users: Vec::new(),
                crds: vec!["managedclusters.cluster.open-cluster-management.io".to_owned()],
            }),
        }
    }

    fn shown(gates: &[(&str, bool)]) -> ClusterManager {
        let mut object: ClusterManager =
            serde_json::from_value(serde_json::json!({"metadata": {"name": NAME, "generation": 3}, "spec": {}}))
                .unwrap();
        let facts = seen(None, gates).facts;
        specify(&mut object, &facts);
        report(&mut object, &facts, Timestamp::UNIX_EPOCH);
        object
    }

    #[test]
    fn what_says_the_truth_already_is_not_written() {
        let gates = [("ClusterProfile", true), ("ManifestWorkReplicaSet", false)];
        let object = shown(&gates);
        assert!(ClusterManagers::plan(&seen(Some(object), &gates)).is_empty());
    }

    #[test]
    fn gates_are_shown_with_the_component_they_are_of() {
        let spec = shown(&[("ClusterProfile", true), ("ManifestWorkReplicaSet", false)]).spec;
        let names = |gates: &[FeatureGate]| {
            gates
                .iter()
                .map(|it| format!("{}={:?}", it.feature, it.mode))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names(&spec.registration_configuration.unwrap().feature_gates),
            ["ClusterProfile=Enable"]
        );
        assert_eq!(
            names(&spec.work_configuration.unwrap().feature_gates),
            ["ManifestWorkReplicaSet=Disable"]
        );
        assert_eq!(spec.placement_configuration, None);
    }

    #[test]
    fn gates_of_an_earlier_run_and_edits_do_not_stay() {
        let mut object = shown(&[("ClusterProfile", true)]);
        object.spec.registration_image_pull_spec = "nginx".to_owned();
        let plan = ClusterManagers::plan(&seen(Some(object), &[]));
        let text = format!("{:?}", plan.stages);
        assert!(
            text.contains("registrationImagePullSpec") && text.contains("featureGates"),
            "{text}"
        );
        assert!(!text.contains("conditions"), "{text}");
    }

    #[test]
    fn other_cluster_managers_are_left_alone() {
        let other = Seen {
            name: "other".to_owned(),
            ..seen(Some(shown(&[])), &[])
        };
        assert!(ClusterManagers::plan(&other).is_empty());
        let new = ClusterManagers::plan(&seen(None, &[]));
        assert_eq!(new.len(), 1, "{new}");
    }
}
