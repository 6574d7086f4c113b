use std::{collections::BTreeMap, sync::Arc};

use ocm_addon_sdk::{Hosting, Mode, ocm_api::addon::v1alpha1::ManagedClusterAddOn};
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

fn labelled(labels: Value) -> AddOnContext {
    let mut place = place();
    let cluster = json!({"metadata": {"name": "c1", "labels": labels}, "spec": {}});
    place.cluster = Arc::new(serde_json::from_value(cluster).unwrap());
    place
}

fn hosted() -> AddOnContext {
    let mut place = place();
    place.mode = Mode::Hosted(Hosting {
        name: "host".to_owned(),
        cluster: None,
    });
    place.install_namespace = ConfigPolicy::default().install_namespace(&place).unwrap().unwrap();
    place
}

fn made(place: &AddOnContext) -> Vec<Value> {
    ConfigPolicy::default().manifests(place).unwrap()
}

/// The Secrets that the controller finds files of, by the paths where they are.
fn mounted(all: &[Value]) -> BTreeMap<String, String> {
    let pod = pod(all);
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    let volumes = pod["volumes"].as_array().unwrap().iter();
    let secrets: BTreeMap<_, _> = volumes
        .map(|it| (text(&it["name"]), text(&it["secret"]["secretName"])))
        .collect();
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap().iter();
    mounts
        .map(|it| (text(&it["mountPath"]), secrets[it["name"].as_str().unwrap()].clone()))
        .collect()
}

#[test]
fn the_controller_runs_as_upstreams_does() {
    let all = made(&place());
    assert_eq!(
        kinds(&all),
        [
            "CustomResourceDefinition configurationpolicies.policy.open-cluster-management.io",
            "CustomResourceDefinition operatorpolicies.policy.open-cluster-management.io",
            "Namespace open-cluster-management-agent-addon",
            "NetworkPolicy config-policy-controller-network-policy",
            "ServiceAccount config-policy-controller-sa",
            "ClusterRole open-cluster-management:config-policy-controller",
            "ClusterRoleBinding open-cluster-management:config-policy-controller",
            "Role config-policy-controller-leader",
            "RoleBinding config-policy-controller-leader",
            "Pod config-policy-controller-uninstall",
            "Deployment config-policy-controller",
        ]
    );
    for definition in &all[..2] {
        let labels = &definition["metadata"]["labels"];
        assert_eq!(labels["policy.open-cluster-management.io/policy-type"], "template");
    }
    assert_eq!(
        arguments(&all),
        [
            "controller",
            "--enable-lease=true",
            "--cluster-name=c1",
            "--leader-elect=false",
            "--log-encoder=console",
            "--log-level=0",
            "--v=0",
            "--evaluation-concurrency=2",
            "--client-max-qps=30",
            "--client-burst=45",
            "--health-probe-bind-address=:8081",
            "--enable-operator-policy=true",
        ]
    );
    assert_eq!(
        of_kind(&all, "Pod")["spec"]["containers"][0]["args"],
        json!([
            "trigger-uninstall",
            "--deployment-name=config-policy-controller",
            "--deployment-namespace=open-cluster-management-agent-addon",
            "--policy-namespace=c1",
            "--additional-namespace=open-cluster-management-policies",
            "--v=0",
        ])
    );
    let annotation = "policy.open-cluster-management.io/uninstalling";
    assert_eq!(
        of_kind(&all, "Deployment")["metadata"]["annotations"][annotation],
        "false"
    );
    let container = &pod(&all)["containers"][0];
    assert_eq!(container["command"], json!(["config-policy-controller"]));
    assert_eq!(container["image"], IMAGE);
    assert_eq!(container["resources"]["limits"]["memory"], "512Mi");
    assert_eq!(environment(&all, "WATCH_NAMESPACE"), "c1");
    let secret = "config-policy-controller-hub-kubeconfig".to_owned();
    assert_eq!(mounted(&all), [("/var/run/klusterlet".to_owned(), secret)].into());
}

#[test]
fn a_hosted_controller_reaches_its_cluster_with_a_kubeconfig() {
    let place = hosted();
    assert_eq!(place.install_namespace, "klusterlet-c1");
    let all = made(&place);
    let label = "addon.open-cluster-management.io/hosted-manifest-location";
    for manifest in &all {
        assert_eq!(manifest["metadata"]["labels"][label], "hosting", "{manifest}");
    }
    let all_kinds = kinds(&all);
    for wanted in [
        "Role open-cluster-management:config-policy-controller",
        "ClusterRole ocm:config-policy-controller",
        "ClusterRoleBinding ocm:klusterlet-c1:config-policy-controller",
    ] {
        assert!(all_kinds.iter().any(|it| it == wanted), "{wanted}: {all_kinds:?}");
    }
    // Nothing gives it everything where it is.
    for role in all.iter().filter(|it| it["rules"].is_array()) {
        assert!(!role["rules"].to_string().contains("\"*\""), "{role}");
    }
    let target = "--target-kubeconfig-path=/var/run/managed-kubeconfig/kubeconfig".to_owned();
    assert!(arguments(&all).contains(&target));
    assert_eq!(environment(&all, "WATCH_NAMESPACE"), "klusterlet-c1");
    assert_eq!(
        mounted(&all)["/var/run/managed-kubeconfig"],
        "config-policy-controller-managed-kubeconfig"
    );
    let trigger = &of_kind(&all, "Pod")["spec"]["containers"][0]["args"];
    assert_eq!(trigger[3], "--policy-namespace=klusterlet-c1");
    assert_eq!(trigger.as_array().unwrap().len(), 5);
}

#[test]
fn the_templating_add_on_lends_its_kubeconfig() {
    let mut place = place();
    assert_eq!(ConfigPolicy::default().companions(), [standalone_templating::NAME]);
    place.companions = vec![standalone_templating::NAME.to_owned()];
    let all = made(&place);
    let flag = "--standalone-hub-templates-kubeconfig-path=/var/run/standalone-hub-templating/kubeconfig";
    assert!(arguments(&all).iter().any(|it| it == flag));
    assert_eq!(
        mounted(&all)["/var/run/standalone-hub-templating"],
        "governance-standalone-hub-templating-hub-kubeconfig"
    );
    let lent = StandaloneTemplating;
    assert_eq!(
        AddOnContext::new("c1", lent.name()).hub_kubeconfig_secret(),
        standalone_templating::SECRET
    );
}

#[test]
fn annotations_set_how_the_controller_runs() {
    let all = made(&annotated(json!({
        "log-level": "error", "policy-evaluation-concurrency": "12", "client-qps": "x",
        "operator-policy-disabled": "true", "prometheus-metrics-enabled": "true",
    })));
    let arguments = arguments(&all);
    for wanted in [
        "--log-level=error",
        "--v=-3",
        "--evaluation-concurrency=12",
        "--client-max-qps=30",
        "--client-burst=265",
        "--metrics-bind-address=0.0.0.0:8383",
    ] {
        assert!(arguments.iter().any(|it| it == wanted), "{wanted}: {arguments:?}");
    }
    assert!(
        !arguments.iter().any(|it| it.contains("operator-policy")),
        "{arguments:?}"
    );
    let endpoint = &of_kind(&all, "ServiceMonitor")["spec"]["endpoints"][0];
    assert_eq!(endpoint["scheme"], "http");
    assert_eq!(of_kind(&all, "Service")["spec"]["ports"][0]["targetPort"], 8383);
}

#[test]
fn a_configuration_counts_over_annotations() {
    let config = json!({
        "metadata": {"name": "c", "namespace": "c1"},
        "spec": {
            "customizedVariables": [
                {"name": "logLevel", "value": "2"}, {"name": "operatorPolicyDisabled", "value": "false"},
                {"name": "managedKubeConfigSecret", "value": "own"}, {"name": "tlsMinVersion", "value": "VersionTLS12"},
                {"name": "tlsCipherSuites", "value": "nonsense"}, {"name": "unknown", "value": "x"},
            ],
            "nodePlacement": {"nodeSelector": {"a": "b"}, "tolerations": []},
            "registries": [{"source": "quay.io/open-cluster-management", "mirror": "m.example"}],
            "proxyConfig": {"httpsProxy": "http://proxy"},
            "agentInstallNamespace": "elsewhere",
        },
    });
    let config: AddOnDeploymentConfig = serde_json::from_value(config).unwrap();
    let said = json!({"log-level": "1", "operator-policy-disabled": "true"});
    let place = annotated(said).with_config(&config);
    let namespace = ConfigPolicy::default().install_namespace(&place).unwrap();
    assert_eq!(namespace.as_deref(), Some("elsewhere"));
    let all = made(&place);
    let arguments = arguments(&all);
    for wanted in [
        "--log-level=2",
        "--v=0",
        "--tls-min-version=VersionTLS12",
        "--enable-operator-policy=true",
    ] {
        assert!(arguments.iter().any(|it| it == wanted), "{wanted}: {arguments:?}");
    }
    assert!(!arguments.iter().any(|it| it.starts_with("--tls-cipher-suites")));
    assert_eq!(pod(&all)["nodeSelector"], json!({"a": "b"}));
    assert_eq!(environment(&all, "HTTPS_PROXY"), "http://proxy");
    assert_eq!(
        pod(&all)["containers"][0]["image"],
        "m.example/config-policy-controller:latest"
    );
    let all = made(&hosted().with_config(&config));
    assert_eq!(mounted(&all)["/var/run/managed-kubeconfig"], "own");
}

#[test]
fn openshift_sets_where_operators_and_metrics_are() {
    let labels = json!({"vendor": "OpenShift", "openshiftVersion-major": "4"});
    let place = labelled(labels);
    let all = made(&place);
    let arguments = arguments(&all);
    for wanted in [
        "--operator-policy-default-namespace=openshift-operators",
        "--secure-metrics=true",
    ] {
        assert!(arguments.iter().any(|it| it == wanted), "{wanted}: {arguments:?}");
    }
    let namespace = of_kind(&all, "Namespace");
    assert_eq!(
        namespace["metadata"]["labels"]["openshift.io/cluster-monitoring"],
        "true"
    );
    let cluster = ManagedCluster::clone(&place.cluster);
    let older = ManagedCluster::clone(&labelled(json!({"vendor": "OpenShift"})).cluster);
    assert!(ConfigPolicy::default().redeploys_on(&older, &cluster));
    assert!(!ConfigPolicy::default().redeploys_on(&cluster, &cluster));
}

#[test]
fn a_paused_add_on_stays_as_it_is() {
    let error = ConfigPolicy::default().manifests(&annotated(json!({"policy-addon-pause": "true"})));
    assert_eq!(
        error.unwrap_err().message(),
        "the Policy Addon controller is paused due to the policy-addon-pause annotation"
    );
}

#[test]
fn an_add_on_that_goes_tells_its_controller() {
    let mut place = place();
    let add_on = json!({"metadata": {
        "name": NAME, "namespace": "c1", "deletionTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"addon.open-cluster-management.io/values": "{\"uninstallationAnnotation\": \"false\"}"},
    }, "spec": {}});
    let add_on: ManagedClusterAddOn = serde_json::from_value(add_on).unwrap();
    place.addon = Arc::new(add_on);
    let annotation = "policy.open-cluster-management.io/uninstalling";
    let all = made(&place);
    assert_eq!(
        of_kind(&all, "Deployment")["metadata"]["annotations"][annotation],
        "true"
    );
}

#[test]
fn the_controller_may_only_keep_its_lease_on_the_hub() {
    let permissions = ConfigPolicy::default().hub_permissions(&place()).unwrap();
    let text = format!("{permissions:?}");
    assert!(
        text.contains("open-cluster-management:config-policy-controller-hub"),
        "{text}"
    );
    assert!(text.contains("leases") && !text.contains("secrets"), "{text}");
}
