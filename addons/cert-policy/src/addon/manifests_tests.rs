use std::{collections::BTreeMap, sync::Arc};

use ocm_addon_sdk::{Hosting, Mode};
use serde_json::json;
use testkit::manifests::{arguments, environment, kinds, of_kind, pod};

use super::*;

fn place() -> AddOnContext {
    AddOnContext::new("c1", NAME)
}

fn annotated(annotations: Value) -> AddOnContext {
    let mut place = place();
    let annotations: BTreeMap<String, String> = serde_json::from_value(annotations).unwrap();
    Arc::make_mut(&mut place.addon).metadata.annotations = Some(annotations);
    place
}

fn hosted() -> AddOnContext {
    let mut place = place();
    place.mode = Mode::Hosted(Hosting {
        name: "host".to_owned(),
        cluster: None,
    });
    place.install_namespace = CertPolicy::default().install_namespace(&place).unwrap().unwrap();
    place
}

fn made(place: &AddOnContext) -> Vec<Value> {
    CertPolicy::default().manifests(place).unwrap()
}

#[test]
fn the_controller_runs_as_upstreams_does() {
    let all = made(&place());
    assert_eq!(
        kinds(&all),
        [
            "CustomResourceDefinition certificatepolicies.policy.open-cluster-management.io",
            "Namespace open-cluster-management-agent-addon",
            "NetworkPolicy cert-policy-controller-network-policy",
            "ServiceAccount cert-policy-controller-sa",
            "ClusterRole open-cluster-management:cert-policy-controller",
            "ClusterRoleBinding open-cluster-management:cert-policy-controller",
            "Role cert-policy-controller-leader",
            "RoleBinding cert-policy-controller-leader",
            "Deployment cert-policy-controller",
        ]
    );
    let labels = &all[0]["metadata"]["labels"];
    assert_eq!(labels["policy.open-cluster-management.io/policy-type"], "template");
    assert_eq!(
        arguments(&all),
        [
            "--enable-lease=true",
            "--cluster-name=c1",
            "--update-frequency=30",
            "--leader-elect=false",
            "--log-encoder=console",
            "--log-level=0",
            "--v=0",
        ]
    );
    let container = &pod(&all)["containers"][0];
    assert_eq!(container["command"], json!(["cert-policy-controller"]));
    assert_eq!(container["image"], IMAGE);
    assert_eq!(container["resources"]["limits"]["memory"], "300Mi");
    assert_eq!(environment(&all, "WATCH_NAMESPACE"), "c1");
    let volumes = &pod(&all)["volumes"];
    assert_eq!(
        volumes[0]["secret"]["secretName"],
        "cert-policy-controller-hub-kubeconfig"
    );
}

#[test]
fn a_hosted_controller_sees_no_certificates_where_it_is() {
    let place = hosted();
    assert_eq!(place.install_namespace, "klusterlet-c1");
    let all = made(&place);
    let label = "addon.open-cluster-management.io/hosted-manifest-location";
    for manifest in &all {
        assert_eq!(manifest["metadata"]["labels"][label], "hosting", "{manifest}");
        assert!(!manifest["rules"].to_string().contains("secrets"), "{manifest}");
    }
    assert!(all.iter().all(|it| it["kind"] != "ClusterRole"));
    let target = "--target-kubeconfig-path=/var/run/managed-kubeconfig/kubeconfig".to_owned();
    assert!(arguments(&all).contains(&target));
    assert_eq!(environment(&all, "WATCH_NAMESPACE"), "klusterlet-c1");
    let volumes = &pod(&all)["volumes"];
    assert_eq!(
        volumes[1]["secret"]["secretName"],
        "cert-policy-controller-managed-kubeconfig"
    );
}

#[test]
fn annotations_and_configurations_set_how_it_runs() {
    let all = made(&annotated(json!({
        "log-level": "error", "prometheus-metrics-enabled": "true",
        "addon.open-cluster-management.io/values": "{\"defaultDuration\": \"100h\", \"updateFrequency\": 5}",
    })));
    for wanted in [
        "--log-level=error",
        "--v=-3",
        "--default-duration=100h",
        "--update-frequency=5",
        "--metrics-bind-address=0.0.0.0:8383",
    ] {
        assert!(arguments(&all).iter().any(|it| it == wanted), "{wanted}");
    }
    assert_eq!(of_kind(&all, "Service")["spec"]["ports"][0]["targetPort"], 8383);
    let config = json!({
        "metadata": {"name": "c", "namespace": "c1"},
        "spec": {
            "customizedVariables": [
                {"name": "logLevel", "value": "2"}, {"name": "managedKubeConfigSecret", "value": "own"},
            ],
            "nodePlacement": {"nodeSelector": {"a": "b"}, "tolerations": []},
            "registries": [{"source": "quay.io/stolostron", "mirror": "m.example"}],
        },
    });
    let config: AddOnDeploymentConfig = serde_json::from_value(config).unwrap();
    let all = made(&hosted().with_config(&config));
    assert!(arguments(&all).contains(&"--log-level=2".to_owned()));
    assert_eq!(pod(&all)["nodeSelector"], json!({"a": "b"}));
    assert_eq!(
        pod(&all)["containers"][0]["image"],
        "m.example/cert-policy-controller:latest"
    );
    assert_eq!(pod(&all)["volumes"][1]["secret"]["secretName"], "own");
}

#[test]
fn on_openshift_metrics_are_secure() {
    let mut place = place();
    let cluster = json!({"metadata": {"name": "c1", "labels": {"vendor": "OpenShift"}}, "spec": {}});
    let labelled: ManagedCluster = serde_json::from_value(cluster).unwrap();
    assert!(CertPolicy::default().redeploys_on(&place.cluster, &labelled));
    place.cluster = Arc::new(labelled);
    let all = made(&place);
    assert!(arguments(&all).contains(&"--secure-metrics=true".to_owned()));
    let wanted = "ClusterRoleBinding open-cluster-management:cert-policy-controller-auth".to_owned();
    assert!(kinds(&all).contains(&wanted), "{:?}", kinds(&all));
}

#[test]
fn a_paused_add_on_stays_as_it_is() {
    let error = CertPolicy::default().manifests(&annotated(json!({"policy-addon-pause": "true"})));
    assert_eq!(
        error.unwrap_err().message(),
        "the Policy Addon controller is paused due to the policy-addon-pause annotation"
    );
}

#[test]
fn the_controller_may_only_keep_its_lease_on_the_hub() {
    let permissions = CertPolicy::default().hub_permissions(&place()).unwrap();
    let text = format!("{permissions:?}");
    assert!(
        text.contains("open-cluster-management:cert-policy-controller-hub"),
        "{text}"
    );
    assert!(text.contains("leases") && !text.contains("secrets"), "{text}");
}
