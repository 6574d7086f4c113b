//! The agent with the rights that it has where the hub delivers it, and no others.

use addon_policy_framework::{
    addon::PolicyFramework,
    cluster::{ADD_ON, SyncClients},
};
use ocm_addon_sdk::{
    AddOn, AddOnContext, Grant,
    k8s_openapi::api::{core::v1::Secret, rbac::v1::PolicyRule},
    kube::{Api, Client, api::PostParams},
};
use serde_json::json;
use testkit::{site::Site, wait};

use crate::ground::{AGENT, CLUSTER, GROUP, MANAGED, World, configuration, deploy, of, template_kind, uninstall};

fn rights_on_hub() -> Vec<PolicyRule> {
    let permissions = PolicyFramework::default().hub_permissions(&AddOnContext::new(CLUSTER, ADD_ON));
    let rules = permissions.unwrap().into_iter().map(|it| match it.grant {
        Grant::Rules { rules, .. } => rules,
        other => panic!("{other:?}"),
    });
    rules.flatten().collect()
}

fn rights_on_cluster() -> Vec<PolicyRule> {
    let manifests = PolicyFramework::default()
        .manifests(&AddOnContext::new(CLUSTER, "addon"))
        .unwrap();
    let roles = manifests
        .iter()
        .filter(|it| it["kind"] == "ClusterRole" || it["kind"] == "Role");
    let rules = roles.map(|it| serde_json::from_value::<Vec<PolicyRule>>(it["rules"].clone()).unwrap());
    rules.flatten().collect()
}

async fn agent_at(site: &Site, rules: &[PolicyRule]) -> Client {
    let user = site.user_with((AGENT, "agent"), "agent", rules).await;
    Client::new(site.server.service(user), "default")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_of_the_manifests_are_enough() {
    let world = World::prepare().await;
    world.define(template_kind("WidePolicy", "Namespaced")).await;
    let clients = SyncClients {
        hub: agent_at(&world.hub, &rights_on_hub()).await,
        cluster: agent_at(&world.cluster, &rights_on_cluster()).await,
    };
    world.run_as(clients.clone(), false);
    let deployments = deploy(&world).await;
    let mut broken = configuration("broken");
    broken["objectDefinition"]["spec"]["foo"] = 1.into();
    world.replicate("ns.p", of(json!([configuration("a"), broken]))).await;
    world.object("a", "is made", |_| true).await;
    world.say("ns.p", "a", "Compliant; all is well").await;
    world.reported("ns.p", "Compliant; all is well").await;
    world.change("ns.p", of(json!([configuration("b")]))).await;
    wait::gone(&world.objects("ConfigurationPolicy").await, "a").await;
    let name = "policy-encryption-key";
    let key: Secret = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": CLUSTER}, "data": {"key": "YQ=="},
    }))
    .unwrap();
    let on_hub: Api<Secret> = Api::namespaced(world.hub.client(), CLUSTER);
    on_hub.create(&PostParams::default(), &key).await.unwrap();
    let on_cluster: Api<Secret> = Api::namespaced(world.cluster.client(), MANAGED);
    wait::until(&on_cluster, name, "comes", |it| {
        it.is_some_and(|it| it.data == key.data)
    })
    .await;
    // What runs before the add-on goes.
    uninstall(&clients.cluster).await;
    assert!(world.on_cluster().get_opt("ns.p").await.unwrap().is_none());
    let annotation = format!("{GROUP}/uninstalling");
    let deployment = deployments.get("addon").await.unwrap();
    assert_eq!(deployment.metadata.annotations.unwrap()[&annotation], "true");
}
