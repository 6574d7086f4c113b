//! CRDs that somebody else put on a hub and a cluster: they stay as they are, whether they are newer or older than
//! ours, and the programs work with them. Those of another release of ours: an older one's are brought up to date, a
//! newer one's stay. `DROVER_TEST_HUB` and `DROVER_TEST_CLUSTER` name other API servers for hub and cluster.

use std::collections::BTreeMap;

use agent::Agent;
use credential::KubeconfigSource;
use k8s_openapi::{
    api::core::v1::ConfigMap, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use ocm_api::{crds, work::ManifestWork};
use ocm_reconcile::install::{DROVER, MANAGED_BY, RELEASE, install_crds};
use registration::{agent::AgentOptions, hub::HubOptions};
use serde_json::{Value, json};
use testkit::{Ground, objects, wait};
use tokio_util::sync::CancellationToken;

const JOINER: &str = "joiner";
const MANAGED_CLUSTERS: &str = "managedclusters.cluster.open-cluster-management.io";
const WORKS: &str = "manifestworks.work.open-cluster-management.io";
const APPLIED_WORKS: &str = "appliedmanifestworks.work.open-cluster-management.io";
const FUTURE: &str = "fromTheFuture";

/// A hub and a cluster whose kinds are there before our programs are.
struct World {
    hub: Ground,
    cluster: Ground,
}

impl World {
    /// The kinds are ours, changed by `change`, and those of its answer `false` are missing.
    async fn with(change: impl Fn(&mut Value) -> bool) -> Self {
        let world = Self {
            hub: Ground::hub().await,
            cluster: Ground::cluster().await,
        };
        for (site, definitions) in [(&world.hub, crds::hub()), (&world.cluster, crds::managed_cluster())] {
            let api = definitions_of(site);
            for mut definition in definitions {
                if !change(&mut definition) {
                    continue;
                }
                let definition: CustomResourceDefinition = serde_json::from_value(definition).unwrap();
                api.create(&PostParams::default(), &definition).await.unwrap();
                let served = |it: Option<&CustomResourceDefinition>| objects::is_true(&it, "Established");
                wait::until(&api, &definition.name_any(), "is served", served).await;
            }
        }
        world
    }

    /// Everything about the kinds, their resourceVersion included, which tells of every write. Of those on a real
    /// Kubernetes, everything that is not the API server's.
    async fn definitions(&self) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        for site in [&self.hub, &self.cluster] {
            for definition in definitions_of(site).list(&ListParams::default()).await.unwrap() {
                let name = definition.name_any();
                let mut definition = serde_json::to_value(definition).unwrap();
                if site.is_real() {
                    leave_away_what_kubernetes_says(&mut definition);
                }
                all.insert(name, definition);
            }
        }
        all
    }

    /// Starts hub and agent, has `work` applied, and stops them.
    async fn session(&self, work: &str) {
        let cancel = CancellationToken::new();
        let options = hub::Options {
            registration: HubOptions {
                auto_accept: true,
                auto_approved_csr_users: vec![JOINER.to_owned()],
                ..HubOptions::default()
            },
            ..hub::Options::default()
        };
        let hub = hub::start(self.hub.client_of_hub().await, options, cancel.clone())
            .await
            .unwrap();
        let agent = self.join(&cancel).await;
        let clusters = self
            .hub
            .api("cluster.open-cluster-management.io/v1", "ManagedCluster", "")
            .await;
        let available = |it: Option<&DynamicObject>| objects::is_true(&it, "ManagedClusterConditionAvailable");
        wait::until_with(&clusters, "cluster1", "is available", available).await;

        self.hub.apply(&manifest_work(work)).await;
        let works: Api<ManifestWork> = Api::namespaced(self.hub.client(), "cluster1");
        let applied =
            |it: Option<&ManifestWork>| ["Applied", "Available"].iter().all(|word| objects::is_true(&it, word));
        wait::until(&works, work, "is applied and available", applied).await;
        let maps: Api<ConfigMap> = Api::default_namespaced(self.cluster.client());
        maps.get(work).await.expect("what the work says is on the cluster");

        works.delete(work, &DeleteParams::default()).await.unwrap();
        wait::gone(&works, work).await;
        wait::gone(&maps, work).await;
        cancel.cancel();
        agent.finished().await;
        hub.finished().await;
    }

    async fn join(&self, cancel: &CancellationToken) -> Agent {
        let bootstrap = self
            .hub
            .kubeconfig(JOINER, &["system:bootstrappers:managedcluster"])
            .await;
        let options = AgentOptions {
            cluster_name: Some("cluster1".to_owned()),
            ..AgentOptions::new(KubeconfigSource::Inline(bootstrap), self.cluster.client())
        };
        agent::start(options, cancel.clone()).await.unwrap()
    }

    /// Puts our kinds in place as the programs do when they start.
    async fn install(&self) {
        hub::prepare(&self.hub.client()).await.unwrap();
        install_crds(&self.cluster.client(), crds::managed_cluster())
            .await
            .unwrap();
    }
}

fn definitions_of(site: &Ground) -> Api<CustomResourceDefinition> {
    Api::all(site.client())
}

/// It says of a kind how it is going long after it serves it. Who has written the rest, and when,
/// is in `managedFields`.
fn leave_away_what_kubernetes_says(definition: &mut Value) {
    definition["status"] = Value::Null;
    definition["metadata"]["resourceVersion"] = Value::Null;
    let writers = definition["metadata"]["managedFields"].as_array_mut().unwrap();
    writers.retain(|it| it["subresource"] != "status");
}

fn manifest_work(name: &str) -> String {
    format!(
        "{{apiVersion: work.open-cluster-management.io/v1, kind: ManifestWork, metadata: {{name: {name}, \
         namespace: cluster1}}, spec: {{workload: {{manifests: [{{apiVersion: v1, kind: ConfigMap, metadata: \
         {{name: {name}, namespace: default}}}}]}}}}}}"
    )
}

fn name(definition: &Value) -> &str {
    definition["metadata"]["name"].as_str().unwrap()
}

/// A field that our programs do not know, and a version that they do not know where nobody has to convert it.
fn make_newer(definition: &mut Value) {
    let versions = definition["spec"]["versions"].as_array_mut().unwrap();
    let text = json!({"type": "string"});
    for version in versions.iter_mut() {
        let fields = &mut version["schema"]["openAPIV3Schema"]["properties"];
        for part in ["spec", "status"] {
            if let Some(fields) = fields.get_mut(part).and_then(|it| it["properties"].as_object_mut()) {
                fields.insert(FUTURE.to_owned(), text.clone());
            }
        }
    }
    if versions.len() == 1 {
        let mut version = versions[0].clone();
        version["name"] = "v9".into();
        version["storage"] = false.into();
        versions.push(version);
    }
}

/// Takes away what releases of some years ago did not have.
fn make_older(definition: &mut Value) {
    let late: &[&str] = match name(definition) {
        MANAGED_CLUSTERS => &["/status/properties/managedNamespaces", "/spec/properties/taints"],
        WORKS => &[
            "/spec/properties/executor",
            "/spec/properties/manifestConfigs/items/properties/conditionRules",
        ],
        APPLIED_WORKS => &["/status/properties/evictionStartTime"],
        _ => &[],
    };
    for path in late {
        let (parent, field) = path.rsplit_once('/').unwrap();
        let parent = format!("/spec/versions/0/schema/openAPIV3Schema/properties{parent}");
        let fields = definition.pointer_mut(&parent).and_then(Value::as_object_mut);
        let removed = fields.expect(path).remove(field);
        assert!(removed.is_some(), "{path} is no field");
        let parent = parent.strip_suffix("/properties").unwrap();
        if let Some(list) = definition
            .pointer_mut(&format!("{parent}/required"))
            .and_then(Value::as_array_mut)
        {
            list.retain(|it| it != field);
        }
    }
}

fn of_release(definition: &mut Value, release: Option<&str>) {
    definition["metadata"]["labels"][MANAGED_BY] = DROVER.into();
    if let Some(release) = release {
        definition["metadata"]["labels"][RELEASE] = release.into();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_of_a_newer_upstream_are_kept_and_remain_usable() {
    let world = World::with(|it| {
        make_newer(it);
        true
    })
    .await;
    let before = world.definitions().await;
    world.session("first").await;
    assert_eq!(world.definitions().await, before);

    // What only the newer kind has outlives our programs' writes.
    let clusters = world
        .hub
        .api("cluster.open-cluster-management.io/v9", "ManagedCluster", "")
        .await;
    let patch = Patch::Merge(json!({"spec": {FUTURE: "kept"}, "metadata": {"labels": {"seen": "false"}}}));
    clusters
        .patch("cluster1", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let patch = Patch::Merge(json!({"status": {FUTURE: "kept"}}));
    clusters
        .patch_status("cluster1", &PatchParams::default(), &patch)
        .await
        .unwrap();
    world.session("second").await;
    let cluster = clusters.get("cluster1").await.unwrap();
    assert_eq!(
        (&cluster.data["spec"][FUTURE], &cluster.data["status"][FUTURE]),
        (&json!("kept"), &json!("kept"))
    );
    assert_eq!(world.definitions().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_of_an_older_upstream_are_kept_and_completed() {
    const NEW: &str = "clusterprofiles.multicluster.x-k8s.io";
    let world = World::with(|it| {
        make_older(it);
        name(it) != NEW
    })
    .await;
    let before = world.definitions().await;
    for work in ["first", "second"] {
        world.session(work).await;
        let mut after = world.definitions().await;
        let added = after.remove(NEW).expect("a kind that was missing is added");
        assert_eq!(added["metadata"]["labels"][MANAGED_BY], DROVER);
        assert_eq!(after, before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_of_our_older_releases_are_upgraded_exactly_once() {
    let fresh = {
        let world = World::with(|_| false).await;
        world.install().await;
        world.definitions().await
    };
    for release in [None, Some("0.0.1")] {
        let world = World::with(|it| {
            make_older(it);
            if name(it) == MANAGED_CLUSTERS {
                // A limit that turned out to be too narrow.
                let field = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/version/properties/kubernetes";
                it.pointer_mut(field).unwrap()["maxLength"] = 5.into();
            }
            of_release(it, release);
            true
        })
        .await;
        world.install().await;
        let after = world.definitions().await;
        assert_eq!(after.len(), fresh.len());
        for (name, definition) in &after {
            assert_eq!(definition["spec"], fresh[name]["spec"], "{name}");
            assert_eq!(
                definition["metadata"]["labels"], fresh[name]["metadata"]["labels"],
                "{name}"
            );
        }
        world.install().await;
        let twice = world.definitions().await;
        let writes = |all: &BTreeMap<String, Value>| -> Vec<Value> {
            let of = |it: &Value| json!([it["metadata"]["resourceVersion"], it["metadata"]["managedFields"]]);
            all.values().map(of).collect()
        };
        assert_eq!(writes(&twice), writes(&after), "a restart writes nothing");
        world.session("work").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_of_our_newer_release_are_not_downgraded() {
    let world = World::with(|it| {
        make_newer(it);
        of_release(it, Some("99.0.0"));
        true
    })
    .await;
    let before = world.definitions().await;
    for work in ["first", "second"] {
        world.session(work).await;
        assert_eq!(world.definitions().await, before);
    }
}
