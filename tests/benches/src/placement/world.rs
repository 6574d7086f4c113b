//! A fleet as there are some: regions and environments, three clouds, a few clusters out of order; and placements of
//! which most pick the clusters of one region and environment.

use std::collections::BTreeSet;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
};
use ocm_api::cluster::{AddOnPlacementScore, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

const REGIONS: usize = 20;
const ENVIRONMENTS: [&str; 4] = ["prod", "stage", "test", "dev"];
const CLOUDS: [&str; 3] = ["aws", "azure", "gcp"];
const TEAMS: usize = 10;
/// Every how many clusters one has scores.
const SCORED: usize = 10;

/// The fleet and its placements, by number.
pub struct World {
    clusters: usize,
    placements: usize,
}

/// A cluster that goes from one slice of the fleet to another.
pub struct Move {
    pub cluster: String,
    pub region: String,
    pub environment: String,
    /// Which label it is.
    pub label: &'static str,
}

/// Some of them.
pub struct Moves {
    pub all: Vec<Move>,
}

fn region(number: usize) -> String {
    format!("region{:02}", number % REGIONS)
}

fn environment(number: usize) -> &'static str {
    ENVIRONMENTS[number / REGIONS % ENVIRONMENTS.len()]
}

fn cloud(number: usize) -> &'static str {
    CLOUDS[number % CLOUDS.len()]
}

fn cluster_name(number: usize) -> String {
    format!("cluster{number:05}")
}

/// What a placement wants. The last part of its name says whether it takes all that match.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Slice,
    Claim,
    Expression,
    Tolerant,
    Grouped,
    Few(&'static str),
}

fn kind(number: usize) -> Kind {
    match number % 20 {
        0..=9 => Kind::Slice,
        10..=12 => Kind::Claim,
        13 => Kind::Expression,
        14 | 15 => Kind::Tolerant,
        16 => Kind::Grouped,
        17 => Kind::Few("memory"),
        18 => Kind::Few("score"),
        _ => Kind::Few("default"),
    }
}

/// Whether a placement of this name takes all that match.
pub fn takes_all(name: &str) -> bool {
    name.ends_with("-all")
}

impl World {
    pub fn new(clusters: usize, placements: usize) -> Self {
        Self { clusters, placements }
    }

    fn cluster(&self, number: usize) -> (Value, Value) {
        let mut spec = json!({"hubAcceptsClient": true});
        if number % 100 == 99 {
            spec["taints"] = json!([{"key": "cluster.open-cluster-management.io/unreachable", "effect": "NoSelect",
                "timeAdded": "2026-01-01T00:00:00Z"}]);
        }
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": kind, "message": "as it should be",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let cluster = json!({
            "metadata": {"name": cluster_name(number), "labels": {
                "region": region(number), "env": environment(number), "vendor": "OpenShift", "name": cluster_name(number),
                "cluster.open-cluster-management.io/clusterset": "default",
                "feature.open-cluster-management.io/addon-metrics": "available"}},
            "spec": spec,
        });
        let status = json!({"status": {
            "conditions": [condition("HubAcceptedManagedCluster"), condition("ManagedClusterJoined"),
                condition("ManagedClusterConditionAvailable")],
            "version": {"kubernetes": if number.is_multiple_of(4) { "v1.33.4" } else { "v1.34.1" }},
            "clusterClaims": [
                {"name": "platform.open-cluster-management.io", "value": cloud(number)},
                {"name": "id.k8s.io", "value": format!("id-{number}")},
                {"name": "product.open-cluster-management.io", "value": "OpenShift"}],
            "allocatable": {"cpu": format!("{}", 4 + number % 61), "memory": format!("{}Gi", 16 + number % 113)},
            "capacity": {"cpu": format!("{}", 5 + number % 61), "memory": format!("{}Gi", 18 + number % 113)},
        }});
        (cluster, status)
    }

    fn placement_name(number: usize) -> String {
        let how = if matches!(kind(number), Kind::Few(_)) {
            "few"
        } else {
            "all"
        };
        format!("placement{number:04}-{how}")
    }

    fn placement(number: usize) -> Value {
        // Not the order of the clusters, so that every kind of placement meets every slice.
        let slice = number / 20 + number % 20 * 7;
        let (region, environment) = (region(slice), environment(slice));
        let mut selector = json!({"labelSelector": {"matchLabels": {"region": region, "env": environment}}});
        let mut spec = json!({});
        let built_in = |name: &str, weight: i32| json!({"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight});
        match kind(number) {
            Kind::Slice => {}
            Kind::Claim => {
                selector["claimSelector"] = json!({"matchExpressions": [
                    {"key": "platform.open-cluster-management.io", "operator": "In", "values": ["aws", "gcp"]}]});
            }
            Kind::Expression => {
                selector["celSelector"] = json!({"celExpressions": [
                    "managedCluster.status.version.kubernetes.startsWith('v1.34')"]});
            }
            Kind::Tolerant => {
                spec["tolerations"] = json!([{"key": "cluster.open-cluster-management.io/unreachable",
                    "operator": "Exists", "tolerationSeconds": if number.is_multiple_of(2) { 300 } else { 4_000_000_000i64 }}]);
            }
            Kind::Grouped => {
                spec["decisionStrategy"] = json!({"groupStrategy": {"clustersPerDecisionGroup": "25%",
                    "decisionGroups": [{"groupName": "first", "groupClusterSelector": {"claimSelector": {"matchExpressions": [
                        {"key": "platform.open-cluster-management.io", "operator": "In", "values": ["azure"]}]}}}]}});
            }
            Kind::Few(by) => {
                spec["numberOfClusters"] = json!(5);
                // The few best of a whole environment.
                selector = json!({"labelSelector": {"matchLabels": {"env": environment}}});
                match by {
                    "memory" => {
                        let configurations = [built_in("ResourceAllocatableMemory", 2), built_in("Steady", 3)];
                        spec["prioritizerPolicy"] = json!({"mode": "Exact", "configurations": configurations});
                    }
                    "score" => {
                        let load = json!({"scoreCoordinate": {"type": "AddOn",
                            "addOn": {"resourceName": "load", "scoreName": "cpu"}}, "weight": 1});
                        spec["prioritizerPolicy"] =
                            json!({"configurations": [load, built_in("ResourceAllocatableCPU", 1)]});
                    }
                    _ => {}
                }
            }
        }
        spec["predicates"] = json!([{"requiredClusterSelector": selector}]);
        json!({"metadata": {"name": Self::placement_name(number), "namespace": team(number)}, "spec": spec})
    }

    /// Puts all of it on a hub.
    pub async fn load(&self, hub: &Client) -> Result<()> {
        let everybody = json!({"metadata": {"name": "global"}, "spec": {"clusterSelector":
            {"selectorType": "LabelSelector", "labelSelector": {}}}});
        create::<ManagedClusterSet>(&Api::all(hub.clone()), everybody).await?;
        for it in 0..TEAMS {
            create::<Namespace>(&Api::all(hub.clone()), json!({"metadata": {"name": team(it)}})).await?;
            let binding =
                json!({"metadata": {"name": "global", "namespace": team(it)}, "spec": {"clusterSet": "global"}});
            create::<ManagedClusterSetBinding>(&Api::namespaced(hub.clone(), &team(it)), binding).await?;
        }
        let clusters: Api<ManagedCluster> = Api::all(hub.clone());
        let load_one = async |number: usize| {
            let (cluster, status) = self.cluster(number);
            let name = cluster_name(number);
            create::<ManagedCluster>(&clusters, cluster).await?;
            clusters
                .patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
                .await?;
            if number.is_multiple_of(SCORED) {
                create::<Namespace>(&Api::all(hub.clone()), json!({"metadata": {"name": name}})).await?;
                let scores: Api<AddOnPlacementScore> = Api::namespaced(hub.clone(), &name);
                create(&scores, json!({"metadata": {"name": "load", "namespace": name}})).await?;
                let value = number as i64 * 37 % 201 - 100;
                let status = json!({"status": {"scores": [{"name": "cpu", "value": value}]}});
                scores
                    .patch_status("load", &PatchParams::default(), &Patch::Merge(&status))
                    .await?;
            }
            anyhow::Ok(())
        };
        stream::iter((0..self.clusters).map(load_one))
            .buffer_unordered(16)
            .try_collect::<()>()
            .await?;
        for number in 0..self.placements {
            create::<Placement>(&Api::namespaced(hub.clone(), &team(number)), Self::placement(number)).await?;
        }
        Ok(())
    }

    /// Clusters that go to another region, and clusters that go to another environment, in turn.
    pub fn moves(&self, count: usize) -> Moves {
        let all = (0..count).map(|it| {
            // One of the clusters that nothing is wrong with, none twice.
            let number = (it * 37 + 1) % self.clusters;
            let number = if number % 100 == 99 { number - 1 } else { number };
            let changes_region = it % 2 == 0;
            Move {
                cluster: cluster_name(number),
                region: region(if changes_region { number + 3 } else { number }),
                environment: environment(if changes_region { number } else { number + REGIONS }).to_owned(),
                label: if changes_region { "region" } else { "env" },
            }
        });
        Moves { all: all.collect() }
    }

    /// The placements that take all that match, and match such a cluster.
    pub fn choosing(&self, cluster: &str, region: &str, environment: &str) -> BTreeSet<String> {
        let number: usize = cluster.trim_start_matches("cluster").parse().unwrap_or_default();
        let matching =
            (0..self.placements).filter(|it| {
                let labels = &Self::placement(*it)["spec"]["predicates"][0]["requiredClusterSelector"]["labelSelector"]
                    ["matchLabels"];
                let slice = labels["region"] == region && labels["env"] == environment;
                slice
                    && match kind(*it) {
                        Kind::Claim => cloud(number) != "azure",
                        Kind::Expression => !number.is_multiple_of(4),
                        Kind::Few(_) => false,
                        Kind::Slice | Kind::Tolerant | Kind::Grouped => true,
                    }
            });
        matching.map(Self::placement_name).collect()
    }
}

fn team(number: usize) -> String {
    format!("team{}", number % TEAMS)
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Resource + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object)?)
        .await?;
    Ok(())
}
