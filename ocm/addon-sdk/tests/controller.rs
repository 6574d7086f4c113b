//! An add-on whose manifests depend on something of the hub that is no configuration: its controller watches that.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use ocm_addon_sdk::{
    AddOn, AddOnContext, AddOnProgram, Health, UserError,
    agent::{self, Controller},
};
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    work::ManifestWork,
};
use parking_lot::RwLock;
use serde_json::{Value, json};
use testkit::{World, wait};
use tokio_util::sync::CancellationToken;

type Address = Arc<RwLock<Option<String>>>;

struct Gateway {
    address: Address,
}

impl AddOn for Gateway {
    fn name(&self) -> &str {
        "gateway"
    }

    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        let address = self.address.read().clone();
        let address = address.ok_or_else(|| UserError::new("nobody says where the gateway is"))?;
        Ok(vec![json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gateway", "namespace": "default"},
            "data": {"address": address},
        })])
    }

    fn health(&self, _: &AddOnContext) -> Health {
        Health::None
    }
}

async fn follow(controller: Controller, address: Address) -> agent::Result<()> {
    let maps = controller.watch(Api::<ConfigMap>::namespaced(controller.client.clone(), "default"));
    let look = async || {
        let map = maps.get("default", "gateway");
        let now = map.and_then(|it| it.data.as_ref()?.get("address").cloned());
        let before = std::mem::replace(&mut *address.write(), now.clone());
        if before != now {
            controller.trigger_all();
        }
        Ok(())
    };
    controller.whenever(&[&maps], look).await
}

fn address_in(work: &ManifestWork) -> Option<String> {
    let manifests = work.spec.workload.manifests.read();
    Some(manifests.first()?.0["data"]["address"].as_str()?.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_controller_finds_on_the_hub_reaches_the_clusters() {
    let hub = World::new(0).await.hub;
    let (client, stop) = (hub.client(), CancellationToken::new());
    hub.apply(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: c1}\n---\n\
         apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\n\
         metadata: {name: c1}\nspec: {hubAcceptsClient: true}\n",
    )
    .await;
    let address = Address::default();
    let add_on = Gateway {
        address: address.clone(),
    };
    let program = AddOnProgram::new(add_on).controller(move |it| follow(it, address.clone()));
    let running = tokio::spawn(program.control(client.clone(), stop.clone()));

    let offers: Api<ClusterManagementAddOn> = Api::all(client.clone());
    let offer = ClusterManagementAddOn::new("gateway", Default::default());
    let offer = offers.create(&PostParams::default(), &offer).await.unwrap();
    let mut addon = ManagedClusterAddOn::new("gateway", Default::default());
    addon.metadata.owner_references = serde_json::from_value(json!([{
        "apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "ClusterManagementAddOn",
        "name": "gateway", "uid": offer.uid(), "controller": true, "blockOwnerDeletion": true,
    }]))
    .unwrap();
    let addons: Api<ManagedClusterAddOn> = Api::namespaced(client.clone(), "c1");
    addons.create(&PostParams::default(), &addon).await.unwrap();
    wait::until(&addons, "gateway", "is refused for want of an address", |it| {
        let said = it
            .and_then(|it| it.status.as_ref())
            .into_iter()
            .flat_map(|it| &it.conditions);
        said.into_iter()
            .any(|it| it.message.contains("nobody says where the gateway is"))
    })
    .await;

    let works: Api<ManifestWork> = Api::namespaced(client.clone(), "c1");
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    for wanted in ["10.0.0.1", "10.0.0.2"] {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gateway"}, "data": {"address": wanted},
        });
        maps.patch("gateway", &PatchParams::apply("test"), &Patch::Apply(&map))
            .await
            .unwrap();
        wait::until(&works, "addon-gateway-deploy-0", "has the address", |it| {
            it.and_then(address_in).as_deref() == Some(wanted)
        })
        .await;
    }

    stop.cancel();
    running.await.unwrap().unwrap();
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_ends_with_what_its_controller_could_not_do() {
    let hub = World::new(0).await.hub;
    let add_on = Gateway {
        address: Address::default(),
    };
    let program =
        AddOnProgram::new(add_on).controller(async |_| Err(std::io::Error::other("there is no gateway").into()));
    let ended = program.control(hub.client(), CancellationToken::new()).await;
    assert_eq!(ended.unwrap_err().to_string(), "there is no gateway");
    hub.stop().await;
}
