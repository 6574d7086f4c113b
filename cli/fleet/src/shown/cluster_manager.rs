//! Says what the hub of this process is.
//!
//! Root: ClusterManager `cluster-manager`. Reads: nothing else; what the process was started with it is told.
//! Writes: it, with its whole status. Never: another ClusterManager.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use ocm_api::{conditions::cluster_manager as conditions, operator::ClusterManager};
use ocm_reconcile::{
    Cache, Caches, Controller, ObserveError, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right,
};
use tokio_util::sync::CancellationToken;

use super::hub_facts::{self, HubFacts};

/// The name that `clusteradm` gives to the only one.
pub const NAME: &str = "cluster-manager";

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
            hub_facts::specify(&mut new, &seen.facts);
            plan.create(Site::Hub, &new);
            return plan;
        };
        if before.metadata.deletion_timestamp.is_some() {
            plan.wait("the ClusterManager is being deleted, and comes again");
            return plan;
        }
        let mut after = before.clone();
        hub_facts::specify(&mut after, &seen.facts);
        if plan.change(Site::Hub, before, &after).is_some() {
            // The status says which generation it is about; the next run knows it.
            return plan;
        }
        hub_facts::report(&mut after, &seen.facts, seen.now);
        plan.status(Site::Hub, before, &after);
        plan
    }
}

#[cfg(test)]
mod tests {
    use ocm_api::operator::FeatureGate;

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
        hub_facts::specify(&mut object, &facts);
        hub_facts::report(&mut object, &facts, Timestamp::UNIX_EPOCH);
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
