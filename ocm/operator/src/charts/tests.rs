use std::{collections::BTreeSet, path::Path};

use serde_json::{Value, json};

use super::*;
use crate::NAMESPACE;

fn hub(values: Value) -> Vec<Value> {
    cluster_manager(NAMESPACE, values).unwrap()
}

fn agent(values: Value) -> Vec<Value> {
    klusterlet(NAMESPACE, values).unwrap()
}

/// Kinds and names, in their order.
fn names(manifests: &[Value]) -> Vec<String> {
    let of = |it: &Value| {
        let name = it["metadata"]["name"].as_str().unwrap();
        format!("{} {name}", it["kind"].as_str().unwrap())
    };
    manifests.iter().map(of).collect()
}

fn one<'a>(manifests: &'a [Value], kind: &str) -> &'a Value {
    let found: Vec<&Value> = manifests.iter().filter(|it| it["kind"] == kind).collect();
    assert_eq!(found.len(), 1, "{kind}: {found:?}");
    found[0]
}

fn container(manifests: &[Value]) -> &Value {
    &one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"][0]
}

#[test]
fn no_file_of_a_chart_is_forgotten() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (folder, files) in [
        (CLUSTER_MANAGER_FOLDER, CLUSTER_MANAGER_FILES),
        (KLUSTERLET_FOLDER, KLUSTERLET_FILES),
    ] {
        let included: BTreeSet<String> = files.iter().map(|it| it.path.to_owned()).collect();
        let mut there = BTreeSet::new();
        for inner in ["", "/templates", "/crds"] {
            // The path is relative to the source file, which is one folder down.
            let at = root
                .join("charts")
                .join(format!("{folder}{inner}").replacen("../", "../../", 1));
            for entry in std::fs::read_dir(&at).unwrap() {
                let entry = entry.unwrap();
                if entry.path().is_file() {
                    there.insert(format!("{folder}{inner}/{}", entry.file_name().to_string_lossy()));
                }
            }
        }
        assert_eq!(included, there);
    }
}

#[test]
fn a_hub_is_upstreams_objects_in_an_applicable_order() {
    assert_eq!(
        names(&hub(json!({"createBootstrapToken": true, "createBootstrapSA": true}))),
        [
            "Namespace open-cluster-management",
            "CustomResourceDefinition clustermanagers.operator.open-cluster-management.io",
            "ServiceAccount agent-registration-bootstrap",
            "ServiceAccount cluster-manager",
            "Secret bootstrap-token-ocmhub",
            "ClusterRole open-cluster-management:bootstrap",
            "ClusterRole cluster-manager",
            "ClusterRoleBinding open-cluster-management:bootstrap:managedcluster",
            "ClusterRoleBinding open-cluster-management:bootstrap:agent-registration",
            "ClusterRoleBinding cluster-manager",
            "Deployment cluster-manager",
            "ClusterManager cluster-manager",
        ]
    );
}

#[test]
fn an_agent_is_upstreams_objects_in_an_applicable_order() {
    let values = json!({"bootstrapHubKubeConfig": "k", "priorityClassName": "first", "images": {"imageCredentials": {"createImageCredentials": true}}});
    let made = agent(values);
    assert_eq!(
        names(&made),
        [
            "Namespace open-cluster-management",
            "CustomResourceDefinition klusterlets.operator.open-cluster-management.io",
            "PriorityClass first",
            "Namespace open-cluster-management-agent",
            "ServiceAccount klusterlet",
            "Secret bootstrap-hub-kubeconfig",
            "Secret open-cluster-management-image-pull-credentials",
            "ClusterRole klusterlet",
            "ClusterRoleBinding klusterlet",
            "Deployment klusterlet",
            "Klusterlet klusterlet",
        ]
    );
    let spec = &one(&made, "Klusterlet")["spec"];
    assert_eq!(spec["deployOption"]["mode"], "Singleton");
    assert_eq!(spec["clusterName"], "cluster1");
    assert_eq!(spec["namespace"], "open-cluster-management-agent");
    assert_eq!(spec["priorityClassName"], "first");
}

#[test]
fn a_layout_decides_the_images_and_arguments() {
    let version = env!("CARGO_PKG_VERSION");
    let made = hub(json!({}));
    assert_eq!(container(&made)["args"], json!(["operator", "hub"]));
    let ours = format!("drover:{version}");
    assert_eq!(container(&made)["image"], ours);
    assert_eq!(
        container(&made)["env"][1],
        json!({"name": "AGENT_IMAGE", "value": ours})
    );
    let spec = &one(&made, "ClusterManager")["spec"];
    for image in ["registration", "work", "placement", "addOnManager"] {
        assert_eq!(spec[format!("{image}ImagePullSpec")], ours);
    }

    let made = hub(json!({"layout": "upstream", "enableSyncLabels": true}));
    assert_eq!(
        container(&made)["args"],
        json!(["/registration-operator", "hub", "--enable-sync-labels"])
    );
    let upstream = |name: &str| format!("quay.io/open-cluster-management/{name}:v{}", crate::OCM_VERSION);
    assert_eq!(container(&made)["image"], upstream("registration-operator"));
    let spec = &one(&made, "ClusterManager")["spec"];
    assert_eq!(spec["registrationImagePullSpec"], upstream("registration"));
    assert_eq!(spec["workImagePullSpec"], upstream("work"));
    assert_eq!(spec["placementImagePullSpec"], upstream("placement"));
    assert_eq!(spec["addOnManagerImagePullSpec"], upstream("addon-manager"));

    let made = agent(json!({"layout": "upstream"}));
    assert_eq!(
        container(&made)["args"],
        json!(["/registration-operator", "klusterlet"])
    );
    let spec = &one(&made, "Klusterlet")["spec"];
    assert_eq!(spec["imagePullSpec"], upstream("registration-operator"));
    let made =
        agent(json!({"images": {"registry": "mirror:5000/x", "tag": "t", "overrides": {"workImage": "a/b@sha256:c"}}}));
    assert_eq!(container(&made)["args"], json!(["operator", "klusterlet"]));
    let spec = &one(&made, "Klusterlet")["spec"];
    assert_eq!(spec["registrationImagePullSpec"], "mirror:5000/x/drover:t");
    assert_eq!(spec["workImagePullSpec"], "a/b@sha256:c");
}

#[test]
fn a_bootstrap_token_is_random_and_its_user_approved() {
    let token = || {
        let made = hub(json!({"createBootstrapToken": true, "createBootstrapSA": true}));
        let users = one(&made, "ClusterManager")["spec"]["registrationConfiguration"]["autoApproveUsers"].clone();
        assert_eq!(
            users,
            json!([
                "system:bootstrap:ocmhub",
                "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
            ])
        );
        let secret = one(&made, "Secret")["stringData"].clone();
        assert_eq!(secret["token-id"], "ocmhub");
        assert_eq!(secret["expiration"], Value::Null);
        secret["token-secret"].as_str().unwrap().to_owned()
    };
    let (first, second) = (token(), token());
    assert_ne!(first, second);
    let allowed = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
    assert!(first.len() == 16 && first.chars().all(allowed), "{first}");
}

#[test]
fn a_hosted_klusterlet_needs_no_second_operator() {
    let made = agent(json!({
        "bootstrapHubKubeConfig": "hub", "externalManagedKubeConfig": "cluster",
        "klusterlet": {"mode": "Hosted", "name": "edge-agent", "clusterName": "edge"},
    }));
    assert_eq!(
        names(&made),
        [
            "CustomResourceDefinition klusterlets.operator.open-cluster-management.io",
            "Namespace edge-agent",
            "Secret bootstrap-hub-kubeconfig",
            "Secret external-managed-kubeconfig",
            "Klusterlet edge-agent",
        ]
    );
    let spec = &one(&made, "Klusterlet")["spec"];
    assert_eq!(spec["namespace"], "open-cluster-management-edge");
    let made = agent(json!({"klusterlet": {"mode": "SingletonHosted", "name": "", "clusterName": "edge"}}));
    assert_eq!(one(&made, "Klusterlet")["metadata"]["name"], "klusterlet-edge");
}

#[test]
fn several_hubs_have_a_secret_each() {
    let made = agent(json!({
        "noOperator": true,
        "multiHubBootstrapHubKubeConfigs": [{"name": "hub1", "kubeConfig": "a"}, {"name": "hub2", "kubeConfig": "b"}],
    }));
    let secrets: Vec<&Value> = made.iter().filter(|it| it["kind"] == "Secret").collect();
    assert_eq!(secrets.len(), 2);
    assert_eq!(secrets[1]["metadata"]["name"], "hub2");
    assert_eq!(secrets[1]["data"]["kubeconfig"], "Yg==");
    assert!(!made.iter().any(|it| it["kind"] == "Deployment"));
}

#[test]
fn configurations_of_the_kinds_are_kept_whole() {
    let gates = json!([{"feature": "ManifestWorkReplicaSet", "mode": "Enable"}]);
    let made = hub(json!({"clusterManager": {
        "registrationConfiguration": {"importerConfiguration": {"renderers": ["render-auto"]}, "autoApproveUsers": ["me"]},
        "workConfiguration": {"featureGates": gates},
        "resourceRequirement": {"type": "BestEffort"},
    }}));
    let spec = &one(&made, "ClusterManager")["spec"];
    assert_eq!(
        spec["registrationConfiguration"],
        json!({
            "importerConfiguration": {"renderers": ["render-auto"]},
            "autoApproveUsers": ["me"],
            "featureGates": [{"feature": "DefaultClusterSet", "mode": "Enable"}],
            "registrationDrivers": [{"authType": "csr"}],
        })
    );
    assert_eq!(
        spec["workConfiguration"],
        json!({"workDriver": "kube", "featureGates": gates})
    );
    assert_eq!(
        spec["placementConfiguration"]["featureGates"][0]["feature"],
        "PlacementDebugServer"
    );
    assert_eq!(spec["resourceRequirement"]["type"], "BestEffort");

    let made = agent(json!({"klusterlet": {
        "registrationConfiguration": {"clientCertExpirationSeconds": 600, "clusterAnnotations": {"agent.open-cluster-management.io/a": "b"}},
        "workConfiguration": {"statusSyncInterval": "10s"},
        "nodePlacement": {"nodeSelector": {"a": "b"}},
        "externalServerURLs": [{"url": "https://h:6443", "caBundle": "eA=="}],
    }}));
    let spec = &one(&made, "Klusterlet")["spec"];
    assert_eq!(spec["registrationConfiguration"]["clientCertExpirationSeconds"], 600);
    assert_eq!(spec["workConfiguration"]["statusSyncInterval"], "10s");
    assert_eq!(spec["nodePlacement"]["nodeSelector"]["a"], "b");
    assert_eq!(spec["externalServerURLs"][0]["url"], "https://h:6443");
}

#[test]
fn a_pull_secret_of_ones_own_is_used_everywhere() {
    let made = hub(
        json!({"images": {"imagePullSecrets": [{"name": "mine"}], "imageCredentials": {"createImageCredentials": true, "dockerConfigJson": "{}"}}}),
    );
    assert_eq!(one(&made, "Secret")["metadata"]["name"], "mine");
    let account = made.iter().find(|it| it["kind"] == "ServiceAccount").unwrap();
    assert_eq!(account["imagePullSecrets"], json!([{"name": "mine"}]));
    assert_eq!(container(&made)["args"][2], "--image-pull-secret-name=mine");
    let rules = one(&made, "ClusterRole")["rules"].to_string();
    assert!(
        rules.contains("\"mine\"") && !rules.contains("image-pull-credentials"),
        "{rules}"
    );
}

#[test]
fn credentials_are_those_of_the_registry() {
    let of = |layout: &str, registry: &str| {
        let images = json!({"registry": registry, "imageCredentials": {"createImageCredentials": true, "userName": "u", "password": "p"}});
        klusterlet(NAMESPACE, json!({"layout": layout, "images": images}))
    };
    let made = of("compact", "r.io/x").unwrap();
    let data = one(&made, "Secret")["data"][".dockerconfigjson"].as_str().unwrap();
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let text = String::from_utf8(STANDARD.decode(data).unwrap()).unwrap();
    assert_eq!(text, r#"{"auths": {"r.io/x": {"auth": "dTpw"}}}"#);
    assert!(of("upstream", "").is_ok());
    let refused = of("compact", "").unwrap_err().to_string();
    assert!(refused.contains("images.registry is empty"), "{refused}");
}

#[test]
fn a_namespace_is_made_unless_it_is_not_wanted() {
    let of = |values: Value| names(&cluster_manager("there", values).unwrap())[0].clone();
    assert_eq!(of(json!({})), "Namespace there");
    assert!(of(json!({"createNamespace": false})).starts_with("CustomResourceDefinition"));
    let refused = cluster_manager("there", json!({"createNamespace": "no"}))
        .unwrap_err()
        .to_string();
    assert_eq!(
        refused,
        r#"the values do not fit the chart cluster-manager: createNamespace: it is "no", and can be true or false"#
    );
}

#[test]
fn wrong_values_are_refused_by_their_names() {
    for (values, said) in [
        (json!({"layout": "small"}), "layout: "),
        // As with the values of upstream's chart, which Helm's --reuse-values keeps.
        (json!({"layout": null}), "missing property 'layout'"),
        (json!({"images": {"registry": "quay.io/x/"}}), "images.registry: "),
        (
            json!({"images": {"tag": 1}}),
            "images.tag: got number, want null or string",
        ),
        (json!({"klusterlet": {"mode": "Alone"}}), "klusterlet.mode: "),
        (
            json!({"klusterlet": {"clusterName": "A_b"}}),
            "klusterlet.clusterName: ",
        ),
        (json!({"klusterlet": {"namespace": "mine"}}), "klusterlet.namespace: "),
        (json!({"klusterlet": {"clusterNmae": "a"}}), "'clusterNmae'"),
        (
            json!({"multiHubBootstrapHubKubeConfigs": [{"name": "a"}]}),
            "multiHubBootstrapHubKubeConfigs.0: missing property 'kubeConfig'",
        ),
        (json!({"replicaCount": -1}), "replicaCount: "),
    ] {
        let refused = klusterlet(NAMESPACE, values).unwrap_err().to_string();
        assert!(
            refused.starts_with("the values do not fit the chart klusterlet: ") && refused.contains(said),
            "{refused}"
        );
    }
}
