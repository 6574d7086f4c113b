use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use ocm_api::{
    apps::{GROUP, annotations},
    crds,
};
use ocm_reconcile::{Caches, install::install_crds};
use serde_json::json;
use testkit::{Site, wait};

use super::*;

const NAMESPACE: &str = "open-cluster-management";
const RIGHTS: &str = include_str!("../../../addons/application/deploy/rights.yaml");
const CONFIGURATIONS: &str = include_str!("../../../addons/application/deploy/webhooks.yaml");

/// An API server that asks a program with the rights of its manifests and no others.
async fn asking(site: &Site, stop: &CancellationToken) {
    install_crds(&site.client(), crds::add_on(GROUP)).await.unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    site.apply(&namespace.to_string()).await;
    site.apply(RIGHTS).await;
    site.apply(CONFIGURATIONS).await;
    let account = format!("system:serviceaccount:{NAMESPACE}:multicluster-operators-subscription");
    let program = site.client_as(&account, &[]);
    let folder = tempfile::tempdir().unwrap();
    let asked = ApplicationWebhooks {
        address: ([127, 0, 0, 1], 0).into(),
        certificates: folder.path().to_owned(),
        namespace: Some(NAMESPACE.to_owned()),
        channels: ChannelAdmission::new(&Caches::new(program.clone(), stop.clone())),
    };
    let address = webhooks(&program, asked).start(&program, stop).await.unwrap().unwrap();
    let port = format!("targetPort: {}", address.port());
    site.apply(&CONFIGURATIONS.replace("targetPort: 9443", &port)).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "program", "namespace": NAMESPACE, "labels": {"app": "multicluster-operators-hub-subscription"},
        },
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    });
    site.apply(&pod.to_string()).await;
    let pods = site.api("v1", "Pod", NAMESPACE).await;
    let ready = json!({"status": {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status("program", &PatchParams::default(), &Patch::Merge(ready))
        .await
        .unwrap();
}

async fn create(api: &Api<DynamicObject>, object: Value) -> Result<DynamicObject, kube::Error> {
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap())
        .await
}

fn channel(name: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Channel", "metadata": {"name": name},
        "spec": {"type": "HelmRepo", "pathname": "https://charts.example"},
    })
}

fn subscription(name: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Subscription",
        "metadata": {"name": name, "annotations": annotations}, "spec": {"channel": "default/a"},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_asks_about_channels_and_authors() {
    let (site, stop) = (Site::start().await.unwrap(), CancellationToken::new());
    asking(&site, &stop).await;
    let channels = site.api(&format!("{GROUP}/v1"), "Channel", "default").await;
    create(&channels, channel("a")).await.unwrap();
    let refusal = async {
        loop {
            if let Err(error) = create(&channels, channel("b")).await {
                return error.to_string();
            }
            // It was let in before the program knew the first, or while it could not be asked.
            channels.delete("b", &Default::default()).await.unwrap();
        }
    };
    let refusal = tokio::time::timeout(wait::PATIENCE, refusal).await.unwrap();
    let denial = "denied the request: the namespace default already contains a channel: a";
    assert!(refusal.contains(denial), "{refusal}");

    let rule = json!({"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]});
    let rules = [serde_json::from_value(rule).unwrap()];
    let user = site.user_with(("default", "eve"), "eve", &rules).await;
    let eve = Client::new(site.server.service(user), "default");
    let kind = kube::core::ApiResource::erase::<ocm_api::apps::Subscription>(&());
    let eves: Api<DynamicObject> = Api::namespaced_with(eve, "default", &kind);
    let admins: Api<DynamicObject> = Api::namespaced_with(site.client(), "default", &kind);
    let forged = json!({annotations::USER_IDENTITY: "YWRtaW4="});
    let author = |it: DynamicObject| it.metadata.annotations.unwrap()[annotations::USER_IDENTITY].clone();
    let made = create(&eves, subscription("s", forged.clone())).await.unwrap();
    assert_eq!(author(made), "c3lzdGVtOnNlcnZpY2VhY2NvdW50OmRlZmF1bHQ6ZXZl");
    let restored = create(&admins, subscription("t", forged)).await.unwrap();
    assert_eq!(author(restored), "YWRtaW4=");
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_subscribes_while_nobody_knows_the_author() {
    let site = Site::start().await.unwrap();
    install_crds(&site.client(), crds::add_on(GROUP)).await.unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    site.apply(&namespace.to_string()).await;
    site.apply(CONFIGURATIONS).await;
    let channels = site.api(&format!("{GROUP}/v1"), "Channel", "default").await;
    create(&channels, channel("a")).await.unwrap();
    let subscriptions = site.api(&format!("{GROUP}/v1"), "Subscription", "default").await;
    let error = create(&subscriptions, subscription("s", json!({}))).await.unwrap_err();
    assert!(
        error.to_string().contains("identities.apps.open-cluster-management.io"),
        "{error}"
    );
}
