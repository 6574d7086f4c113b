//! An add-on is tested by calling it: no cluster, no server.

use addon_helloworld::HelloWorld;
use ocm_addon_sdk::{AddOn, AddOnContext, ocm_api::addon::v1alpha1::AddOnDeploymentConfig};
use serde_json::json;

#[test]
fn the_agent_gets_its_identity_as_arguments() {
    let add_on = HelloWorld {
        image: "example.com/agent:1".to_owned(),
    };
    let made = add_on.manifests(&AddOnContext::new("cluster1", "helloworld")).unwrap();
    let kinds: Vec<_> = made.iter().map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "Namespace",
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Deployment"
        ]
    );
    let container = &made[4]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "example.com/agent:1");
    assert_eq!(container["args"][3], "--cluster-name=cluster1");
    assert!(
        container.get("env").is_none() && container.get("resources").is_none(),
        "{container}"
    );
}

#[test]
fn a_configuration_says_where_and_from_where_it_runs() {
    let config = json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnDeploymentConfig",
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {
            "agentInstallNamespace": "elsewhere",
            "nodePlacement": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]},
            "registries": [{"source": "quay.io", "mirror": "mirror.example.com"}],
            "proxyConfig": {"httpsProxy": "https://proxy:3128", "noProxy": "10.0.0.0/8,.svc"},
            "resourceRequirements": [
                {"containerID": "deployments:helloworld-agent:*", "resources": {"limits": {"memory": "64Mi"}}},
                {"containerID": "*:other:*", "resources": {"limits": {"memory": "1Gi"}}},
            ],
        },
    });
    let config: AddOnDeploymentConfig = serde_json::from_value(config).unwrap();
    let place = AddOnContext::new("cluster1", "helloworld").with_config(&config);
    let add_on = HelloWorld {
        image: "quay.io/agent:1".to_owned(),
    };
    assert_eq!(add_on.install_namespace(&place).unwrap().as_deref(), Some("elsewhere"));
    let made = add_on.manifests(&place).unwrap();
    let pod = &made[4]["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "mirror.example.com/agent:1");
    assert_eq!(pod["nodeSelector"], json!({"disk": "ssd"}));
    assert_eq!(pod["tolerations"], json!([{"key": "gpu", "operator": "Exists"}]));
    assert_eq!(
        pod["containers"][0]["env"],
        json!([
            {"name": "HTTPS_PROXY", "value": "https://proxy:3128"},
            {"name": "NO_PROXY", "value": "10.0.0.0/8,.svc"},
        ])
    );
    assert_eq!(pod["containers"][0]["resources"], json!({"limits": {"memory": "64Mi"}}));
}
