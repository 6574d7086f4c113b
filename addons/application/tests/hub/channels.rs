//! Who may read Channels, and what serves them.

use ocm_addon_sdk::{
    k8s_openapi::api::{
        core::v1::Secret,
        rbac::v1::{Role, RoleBinding},
    },
    kube::{Api, ResourceExt, api::DeleteParams},
    ocm_api::apps::Channel,
};
use serde_json::json;
use testkit::wait;

use crate::ground::{CHANNELS, SubscriptionHub, merge};

const SERVING: &str = "apps.open-cluster-management.io/serving-channel";

#[tokio::test(flavor = "multi_thread")]
async fn agents_may_read_a_channel_and_its_secret() {
    let hub = SubscriptionHub::start(&["c1"]).await;
    let client = hub.site.client();
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), CHANNELS);
    let count = |it: &RoleBinding| it.subjects.as_ref().map_or(0, Vec::len);
    let bound = wait::until(&bindings, "c", "names a cluster", |it| {
        it.is_some_and(|it| count(it) == 2)
    })
    .await;
    assert_eq!(bound.unwrap().owner_references()[0].kind, "Channel");
    hub.cluster("c2", json!({})).await;
    wait::until(&bindings, "c", "names both", |it| it.is_some_and(|it| count(it) == 4)).await;
    let roles: Api<Role> = Api::namespaced(client, CHANNELS);
    wait::until(&roles, "c", "comes", |it| it.is_some()).await;
    merge(&roles, "c", json!({"rules": []})).await;
    let whole = |it: &Role| it.rules.as_ref().is_some_and(|it| it.len() == 2);
    wait::until(&roles, "c", "is put back", |it| it.is_some_and(whole)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_says_which_channels_it_serves() {
    let hub = SubscriptionHub::start(&[]).await;
    hub.channel("d", "Git", json!({})).await;
    hub.apply(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": CHANNELS}, "data": {},
    }))
    .await;
    let channels: Api<Channel> = Api::namespaced(hub.site.client(), CHANNELS);
    let secrets: Api<Secret> = Api::namespaced(hub.site.client(), CHANNELS);
    let serves = |it: &Secret| it.annotations().get(SERVING).cloned().unwrap_or_default();
    let until = async |what: &str, list: &str| {
        wait::until(&secrets, "s", what, |it| it.is_some_and(|it| serves(it) == list))
            .await
            .unwrap()
    };
    merge(&channels, "c", json!({"spec": {"secretRef": {"name": "s"}}})).await;
    until("serves one", "ch/c").await;
    merge(
        &channels,
        "d",
        json!({"spec": {"secretRef": {"name": "s", "namespace": CHANNELS}}}),
    )
    .await;
    let secret = until("serves both", "ch/c,ch/d").await;
    assert_eq!(secret.labels()[SERVING], "true");
    assert_eq!(secret.labels()["cluster.open-cluster-management.io/backup"], "app");
    channels.delete("c", &DeleteParams::default()).await.unwrap();
    until("serves the other", "ch/d").await;
    merge(&channels, "d", json!({"spec": {"secretRef": null}})).await;
    let secret = until("serves none", "").await;
    assert_eq!(secret.labels()[SERVING], "true");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_of_type_namespace_leads_to_its_namespace() {
    let hub = SubscriptionHub::start(&[]).await;
    hub.channel("n", "Namespace", json!({})).await;
    let channels: Api<Channel> = Api::namespaced(hub.site.client(), CHANNELS);
    let leads = |it: &Channel| it.spec.pathname == CHANNELS;
    wait::until(&channels, "n", "leads there", |it| it.is_some_and(leads)).await;
}
