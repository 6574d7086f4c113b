//! What an add-on's agent writes, on its cluster and on the hub.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use ocm_addon_sdk::AddOnAgent;
use testkit::Site;
use tokio_util::sync::CancellationToken;

fn map(namespace: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("told".to_owned());
    map.metadata.namespace = Some(namespace.to_owned());
    map.data = Some(BTreeMap::from([("value".to_owned(), value.to_owned())]));
    map
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_can_write_on_the_hub_and_its_cluster() {
    let (hub, cluster) = (Site::start().await.unwrap(), Site::start().await.unwrap());
    hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: cluster1}}")
        .await;
    let mut agent = AddOnAgent {
        add_on: "greeter".to_owned(),
        cluster: "cluster1".to_owned(),
        namespace: "default".to_owned(),
        hub: Some(hub.client()),
        managed: cluster.client(),
        home: cluster.client(),
        stop: CancellationToken::new(),
    };
    let on_hub: Api<ConfigMap> = agent.hub_objects().unwrap();
    let here: Api<ConfigMap> = agent.objects();

    agent.save_on_hub(None, &map("cluster1", "1")).await.unwrap();
    let first = on_hub.get("told").await.unwrap();
    agent.save_on_hub(Some(&first), &map("cluster1", "2")).await.unwrap();
    let second = on_hub.get("told").await.unwrap();
    assert_eq!(second.data, map("cluster1", "2").data);
    // What is there already costs no write.
    agent.save_on_hub(Some(&second), &second.clone()).await.unwrap();
    let third = on_hub.get("told").await.unwrap();
    assert_eq!(third.metadata.resource_version, second.metadata.resource_version);
    assert!(here.get_opt("told").await.unwrap().is_none());

    agent.save(None, &map("default", "3")).await.unwrap();
    agent.delete_on_hub(&third).await.unwrap();
    agent.delete_on_hub(&third).await.unwrap();
    assert!(on_hub.get_opt("told").await.unwrap().is_none());
    assert_eq!(here.get("told").await.unwrap().data, map("default", "3").data);

    agent.hub = None;
    let refused = agent.save_on_hub(None, &map("cluster1", "4")).await.unwrap_err();
    assert_eq!(refused.to_string(), "this agent was started without --hub-kubeconfig");
    hub.stop().await;
    cluster.stop().await;
}
