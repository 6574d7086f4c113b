//! An add-on that is switched from one configuration to another does not move for a moment in between.

mod world;

use std::{collections::BTreeSet, sync::Arc};

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use ocm_addon_sdk::{AddOn, AddOnContext, ConfigKind, Health, UserError, values::config};
use ocm_api::addon::v1alpha1::{AddOnDeploymentConfig, ClusterManagementAddOn, ManagedClusterAddOn};
use parking_lot::Mutex;
use serde_json::{Value, json};
use world::{World, read};

const GROUP: &str = "addon.open-cluster-management.io";

struct Placed;

impl AddOn for Placed {
    fn name(&self) -> &str {
        "placed"
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        let map = json!({"name": "placed", "namespace": place.install_namespace});
        Ok(vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": map})])
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<AddOnDeploymentConfig>()]
    }

    fn install_namespace(&self, place: &AddOnContext) -> Result<Option<String>, UserError> {
        config::install_namespace(place)
    }

    fn health(&self, _: &AddOnContext) -> Health {
        Health::None
    }
}

/// Whether the configuration of this name has arrived.
fn has(addon: &ManagedClusterAddOn, name: &str) -> bool {
    let references = addon.status.iter().flat_map(|it| &it.config_references);
    let mut of_name = references.filter(|it| it.desired_config.as_ref().is_some_and(|it| it.name == name));
    of_name.any(|it| {
        let is_settled = it.desired_config.as_ref().is_some_and(|it| !it.spec_hash.is_empty());
        is_settled && it.desired_config == it.last_applied_config
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_keeps_its_namespace_while_its_configuration_changes() {
    let world = World::start(vec![Arc::new(Placed)]).await;
    let clusters: Vec<String> = (0..5).map(|it| format!("c{it}")).collect();
    for it in &clusters {
        world.cluster(it).await;
    }
    world.agents();
    let configs: Api<AddOnDeploymentConfig> = Api::namespaced(world.site.client(), "default");
    for name in ["a", "b"] {
        let variables = json!([{"name": "NAME", "value": name}]);
        let config = json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"agentInstallNamespace": "hello", "customizedVariables": variables},
        });
        configs.create(&PostParams::default(), &read(config)).await.unwrap();
    }
    let supported = |default: &str| json!([{"group": GROUP, "resource": "addondeploymentconfigs", "defaultConfig": {"namespace": "default", "name": default}}]);
    world
        .offer(json!({"metadata": {"name": "placed"}, "spec": {"supportedConfigs": supported("a")}}))
        .await;
    for it in &clusters {
        let addon = read(json!({"metadata": {"name": "placed"}, "spec": {}}));
        world.addons(it).create(&PostParams::default(), &addon).await.unwrap();
    }
    let arrived = async |name: &str| {
        let what = format!("configuration {name} has arrived everywhere");
        world
            .until(&what, |watched| {
                let all = watched.addons.list();
                (all.len() == clusters.len() && all.iter().all(|it| has(it, name))).then_some(())
            })
            .await;
    };
    arrived("a").await;
    // Who writes where the add-on is need not be the first to see its configuration.
    let is_home = |it: &Arc<ManagedClusterAddOn>| it.status.as_ref().is_some_and(|it| it.namespace == "hello");
    world
        .until("all are where the configuration says", |watched| {
            watched.addons.list().iter().all(is_home).then_some(())
        })
        .await;

    let namespaces = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = namespaces.clone();
    world.watched.addons.listen(move |_, new| {
        let status = new.and_then(|it| it.status.clone()).unwrap_or_default();
        seen.lock().insert(status.namespace);
    });
    // One that all have by default, and then one of each cluster's own, to and fro.
    let offers: Api<ClusterManagementAddOn> = Api::all(world.site.client());
    for round in 0..4 {
        let name = ["b", "a"][round % 2];
        let default = json!({"spec": {"supportedConfigs": supported(name)}});
        offers
            .patch("placed", &PatchParams::default(), &Patch::Merge(&default))
            .await
            .unwrap();
        arrived(name).await;
    }
    for round in 0..4 {
        let name = ["b", "a"][round % 2];
        let own = json!([{"group": GROUP, "resource": "addondeploymentconfigs", "namespace": "default", "name": name}]);
        for addon in world.watched.addons.list() {
            world
                .addons(&addon.namespace().unwrap())
                .patch(
                    "placed",
                    &PatchParams::default(),
                    &Patch::Merge(&json!({"spec": {"configs": own}})),
                )
                .await
                .unwrap();
        }
        arrived(name).await;
    }
    assert_eq!(*namespaces.lock(), BTreeSet::from(["hello".to_owned()]));
    world.stop().await;
}
