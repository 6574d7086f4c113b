//! Placements on a hub in memory: decisions appear, move, and stay.

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use ocm_api::{
    cluster::{ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement, PlacementDecision},
    labels,
};
use ocm_reconcile::{Cache, Caches, Clients, Plan, Reconciler, Running, cache::key_of, controller::start_all, execute};
use placement::hub::{controllers, events::PendingEvents, schedule::Scheduling};
use testkit::{World, wait};
use tokio_util::sync::CancellationToken;

const PLACEMENT: &str = "
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: aws, namespace: default}
spec:
  predicates:
  - requiredClusterSelector:
      claimSelector:
        matchExpressions: [{key: platform, operator: In, values: [aws]}]
";

struct Hub {
    world: World,
    caches: Caches,
    cancel: CancellationToken,
}

impl Hub {
    async fn start() -> Self {
        let world = World::new(0).await;
        let client = world.hub.client();
        let cancel = CancellationToken::new();
        let caches = Caches::new(client, cancel.clone());
        let hub = Self { world, caches, cancel };
        hub.apply(
            "
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: global}
spec: {clusterSelector: {selectorType: LabelSelector, labelSelector: {}}}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: global, namespace: default}
spec: {clusterSet: global}
",
        )
        .await;
        hub
    }

    fn start_controllers(&self) -> Vec<Running> {
        let clients = Clients::hub(self.world.hub.client());
        start_all(controllers(&self.caches), &clients, &self.cancel)
    }

    async fn apply(&self, text: &str) {
        self.world.hub.apply(text).await;
    }

    /// Clusters with their platform as a claim.
    async fn clusters(&self, platforms: &[(&str, &str)]) {
        let api: Api<ManagedCluster> = Api::all(self.world.hub.client());
        for (name, platform) in platforms {
            self.apply(&format!(
                "{{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {{name: {name}}}, spec: {{}}}}"
            ))
            .await;
            let status = serde_json::json!({"status": {"clusterClaims": [{"name": "platform", "value": platform}]}});
            let params = kube::api::PatchParams::default();
            api.patch_status(name, &params, &kube::api::Patch::Merge(status))
                .await
                .unwrap();
        }
        let known = |cache: &Cache<ManagedCluster>| {
            let all = platforms.iter().all(|(name, platform)| {
                let cluster = cache.named(name);
                let status = cluster.as_ref().and_then(|it| it.status.as_ref());
                status.is_some_and(|it| it.cluster_claims.iter().any(|it| it.value == *platform))
            });
            all.then_some(())
        };
        self.caches.of().until(known).await;
    }

    async fn until_decided(&self, decision: &str, clusters: &[&str]) -> PlacementDecision {
        let api: Api<PlacementDecision> = Api::namespaced(self.world.hub.client(), "default");
        let names =
            |it: &PlacementDecision| -> Vec<String> { placement::hub::load::clusters(it).map(str::to_owned).collect() };
        let found = wait::until(&api, decision, "names the clusters", |it| {
            it.is_some_and(|it| names(it) == clusters)
        });
        found.await.unwrap()
    }

    async fn until_satisfied(&self, reason: &str) -> Placement {
        let api: Api<Placement> = Api::namespaced(self.world.hub.client(), "default");
        let says = |it: Option<&Placement>| {
            let conditions = it.and_then(|it| it.status.as_ref()).map(|it| &it.conditions);
            conditions.into_iter().flatten().any(|it| it.reason == reason)
        };
        wait::until(&api, "aws", reason, says).await.unwrap()
    }
}

#[tokio::test]
async fn decisions_appear_follow_the_clusters_and_survive_a_mistake() {
    let hub = Hub::start().await;
    hub.clusters(&[("c1", "aws"), ("c2", "gcp")]).await;
    let running = hub.start_controllers();
    hub.apply(PLACEMENT).await;
    let decision = hub.until_decided("aws-decision-1", &["c1"]).await;
    let shown = decision.metadata.labels.clone().unwrap();
    assert_eq!(shown[labels::PLACEMENT], "aws");
    assert_eq!(shown[labels::DECISION_GROUP_INDEX], "0");
    assert_eq!(shown[labels::DECISION_GROUP_NAME], "");
    let owner = &decision.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("Placement", Some(true)));

    hub.clusters(&[("c2", "aws"), ("c0", "aws")]).await;
    hub.until_decided("aws-decision-1", &["c0", "c1", "c2"]).await;
    let placement = hub.until_satisfied("AllDecisionsScheduled").await;
    assert_eq!(
        placement.status.unwrap().decision_groups[0].decisions,
        ["aws-decision-1"]
    );

    // A mistake in the placement empties nothing.
    hub.apply(&PLACEMENT.replace("operator: In, values: [aws]", "operator: In"))
        .await;
    let placement = hub.until_satisfied("Misconfigured").await;
    let status = placement.status.unwrap();
    assert_eq!(status.number_of_selected_clusters, 3);
    assert!(
        status
            .conditions
            .iter()
            .any(|it| it.message.ends_with("the decisions made before are kept"))
    );
    hub.until_decided("aws-decision-1", &["c0", "c1", "c2"]).await;
    hub.apply(PLACEMENT).await;
    hub.until_satisfied("Succeedconfigured").await;

    // What somebody deletes comes back.
    let api: Api<PlacementDecision> = Api::namespaced(hub.world.hub.client(), "default");
    let before = api.get("aws-decision-1").await.unwrap().metadata.uid;
    api.delete("aws-decision-1", &Default::default()).await.unwrap();
    wait::until(&api, "aws-decision-1", "is back", |it| {
        it.is_some_and(|it| it.metadata.uid != before)
    })
    .await;
    hub.until_decided("aws-decision-1", &["c0", "c1", "c2"]).await;
    hub.cancel.cancel();
    for it in running {
        it.finished.await.unwrap();
    }
}

#[tokio::test]
async fn a_settled_placement_plans_no_writes() {
    let hub = Hub::start().await;
    hub.clusters(&[("c1", "aws"), ("c2", "gcp")]).await;
    hub.apply(PLACEMENT).await;
    let (placements, decisions) = (hub.caches.of::<Placement>(), hub.caches.of::<PlacementDecision>());
    let (bindings, sets) = (
        hub.caches.of::<ManagedClusterSetBinding>(),
        hub.caches.of::<ManagedClusterSet>(),
    );
    let scheduling = Scheduling::new(&hub.caches, PendingEvents::default());
    let placement = placements.until(|it| it.get("default", "aws")).await;
    let key = key_of(&*placement);
    bindings.until(|it| it.get("default", "global")).await;
    sets.until(|it| it.named("global")).await;
    hub.caches.synced().await;
    let clients = Clients::hub(hub.world.hub.client());
    let run = async || -> Plan {
        let seen = scheduling.observe(&key).await.unwrap();
        let mut plan = Scheduling::plan(&seen);
        let outcome = execute(&clients, &plan).await;
        let last = Scheduling::conclude(&seen, &outcome);
        // A write may meet a cache that has not seen the one before it: that is looked at again.
        execute(&clients, &last).await;
        plan.then(last);
        plan
    };
    assert!(!run().await.is_empty());
    let settled = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            let (mut placements, mut decisions) = (placements.changes(), decisions.changes());
            let plan = run().await;
            if plan.is_empty() {
                return;
            }
            // The caches have not seen the last run's writes yet.
            tokio::select! {
                _ = placements.changed() => {}
                _ = decisions.changed() => {}
            }
        }
    });
    settled.await.expect("the placement settles");
    hub.cancel.cancel();
}

#[tokio::test]
async fn replacing_a_binding_removes_no_clusters_and_writes_raise_events() {
    let hub = Hub::start().await;
    hub.clusters(&[("c1", "aws")]).await;
    let running = hub.start_controllers();
    hub.apply(PLACEMENT).await;
    hub.until_decided("aws-decision-1", &["c1"]).await;
    hub.until_satisfied("AllDecisionsScheduled").await;

    let bindings: Api<ManagedClusterSetBinding> = Api::namespaced(hub.world.hub.client(), "default");
    bindings.delete("global", &Default::default()).await.unwrap();
    let placements: Api<Placement> = Api::namespaced(hub.world.hub.client(), "default");
    let says = |it: Option<&Placement>, text: &str| {
        let conditions = it.and_then(|it| it.status.as_ref()).map(|it| &it.conditions);
        conditions.into_iter().flatten().any(|it| it.message.contains(text))
    };
    wait::until(&placements, "aws", "says that it keeps the clusters", |it| {
        says(it, "have just gone missing and their clusters are kept")
    })
    .await;
    hub.until_decided("aws-decision-1", &["c1"]).await;
    // It does not come back, and the clusters go when the moment is over, without another change.
    hub.until_satisfied("NoManagedClusterSetBindings").await;
    hub.until_decided("aws-decision-1", &[]).await;

    let events: Api<Event> = Api::namespaced(hub.world.hub.client(), "default");
    let told = wait::until_all(&events, "tells of two updates", |all| {
        let updates = all.iter().filter(|it| it.reason.as_deref() == Some("DecisionUpdate"));
        updates.count() >= 2
    })
    .await;
    let created: Vec<_> = told
        .iter()
        .filter(|it| it.reason.as_deref() == Some("DecisionCreate"))
        .collect();
    assert_eq!(created.len(), 1);
    let related = created[0].related.as_ref().unwrap();
    assert_eq!(related.name.as_deref(), Some("aws-decision-1"));
    assert_eq!(created[0].action.as_deref(), Some("DecisionCreated"));
    hub.cancel.cancel();
    for it in running {
        it.finished.await.unwrap();
    }
}
