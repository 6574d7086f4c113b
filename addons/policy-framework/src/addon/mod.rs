//! The add-on as the hub delivers it: what runs on a cluster, and what its agent may do on the hub.
//! Upstream: governance-policy-addon-controller `pkg/addon/policyframework/`.
//!
//! Names of the chart's values, annotations and variables are upstream's. Ours differs:
//!
//! 1. Image registries and the proxy of an AddOnDeploymentConfig count.
//! 2. The network policy of a hosted agent is where the agent is.

pub mod settings;

use std::sync::LazyLock;

use ocm_addon_sdk::{
    AddOn, AddOnContext, ConfigKind, Permission, Registration, UserError, include_files,
    k8s_openapi::api::rbac::v1::PolicyRule,
    manifests::{self, Chart, IncludedFile},
    ocm_api::{
        addon::v1alpha1::AddOnDeploymentConfig, annotations::ADDON_DELETION_ORPHAN, cluster::ManagedCluster, policy,
    },
    values::{
        self, config, images,
        settings::{parse_bool, unless_paused},
    },
};
use serde_json::Value;

use crate::cluster::ADD_ON;

/// The image of the agent where nobody names another.
pub const IMAGE: &str = "quay.io/open-cluster-management/governance-policy-framework-addon:latest";

const FILES: &[IncludedFile] = include_files![
    "../../chart/Chart.yaml",
    "../../chart/values.yaml",
    "../../chart/templates/_helpers.tpl",
    "../../chart/templates/namespaces.yaml",
    "../../chart/templates/rbac.yaml",
    "../../chart/templates/deployment.yaml",
    "../../chart/templates/uninstall.yaml",
    "../../chart/templates/metrics.yaml",
    "../../chart/templates/network_policy.yaml",
];

/// Read when it is needed for the first time, which on many hubs is never.
static CHART: LazyLock<Chart> = LazyLock::new(|| {
    manifests::read_chart("../../chart", FILES).expect("the chart of this crate is one: its tests render it")
});

/// What it is on the hub: answers about one cluster at a time.
#[derive(Clone, Debug)]
pub struct PolicyFramework {
    /// The image of the agent.
    pub image: String,
    /// Whether clusters get network policies, unless a value of a cluster says otherwise.
    pub network_policies: bool,
}

impl Default for PolicyFramework {
    fn default() -> Self {
        Self {
            image: IMAGE.to_owned(),
            network_policies: true,
        }
    }
}

impl PolicyFramework {
    /// As the environment says it: `$GOVERNANCE_POLICY_FRAMEWORK_ADDON_IMAGE`, `$NETWORK_POLICIES_ENABLED`.
    pub fn from_environment() -> Self {
        let said = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
        Self {
            image: said("GOVERNANCE_POLICY_FRAMEWORK_ADDON_IMAGE").unwrap_or_else(|| IMAGE.to_owned()),
            network_policies: said("NETWORK_POLICIES_ENABLED").is_none_or(|it| parse_bool(&it) != Some(false)),
        }
    }
}

impl AddOn for PolicyFramework {
    fn name(&self) -> &str {
        ADD_ON
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        unless_paused(place)?;
        let converters = [
            config::node_placement,
            config::proxy,
            config::resource_requirements,
            settings::of_variables,
        ];
        let values = values::merge([
            settings::network_policies(self.network_policies),
            settings::of_place(place),
            values::from_annotation(place)?,
            config::values(place, &converters)?,
            settings::mandatory(place),
            images::value(
                place,
                "global.imageOverrides.governance_policy_framework_addon",
                &self.image,
            )?,
        ]);
        let on_hub = values.get("onMulticlusterHub") == Some(&true.into());
        let mut all = vec![definition(on_hub)?];
        all.extend(manifests::chart(&CHART, place, values)?);
        Ok(all)
    }

    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![Registration::kube_client()])
    }

    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        let all = ["create", "delete", "get", "list", "patch", "update", "watch"];
        let named = |rule: PolicyRule, name: &str| PolicyRule {
            resource_names: Some(vec![name.to_owned()]),
            ..rule
        };
        let mut rules = Permission::lease(ADD_ON);
        rules.extend([
            Permission::rule(policy::GROUP, &["policies"], &all),
            Permission::rule(policy::GROUP, &["policies/finalizers"], &["update"]),
            Permission::rule(policy::GROUP, &["policies/status"], &["get", "patch", "update"]),
            named(
                Permission::rule("", &["secrets"], &["get", "list", "watch"]),
                policy::ENCRYPTION_KEY_SECRET,
            ),
            Permission::rule("", &["events"], &["create", "get", "list", "patch", "update", "watch"]),
            Permission::rule(
                "events.k8s.io",
                &["events"],
                &["create", "get", "list", "patch", "update", "watch"],
            ),
        ]);
        Ok(vec![Permission::role(
            "open-cluster-management:policy-framework-hub",
            rules,
        )])
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<AddOnDeploymentConfig>()]
    }

    fn install_namespace(&self, place: &AddOnContext) -> Result<Option<String>, UserError> {
        config::install_namespace_beside_klusterlet(place)
    }

    fn hosted(&self, _: &AddOnContext) -> bool {
        true
    }

    fn redeploys_on(&self, before: &ManagedCluster, after: &ManagedCluster) -> bool {
        values::differ(before, after) || settings::differ(before, after)
    }
}

/// The definition of Policies, where the agent keeps them.
fn definition(on_hub: bool) -> Result<Value, UserError> {
    let mut all = manifests::definitions(policy::GROUP, &["policies"]).into_iter();
    let mut definition = all
        .next()
        .ok_or_else(|| UserError::new("this program has no definition of Policies"))?;
    let metadata = &mut definition["metadata"];
    if on_hub {
        // They are the hub's.
        metadata["annotations"][ADDON_DELETION_ORPHAN] = "".into();
    }
    Ok(definition)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use ocm_addon_sdk::{Hosting, Mode, ocm_api::addon::v1alpha1::ManagedClusterAddOn};
    use serde_json::json;
    use testkit::manifests::{arguments, kinds, of_kind};

    use super::*;

    fn place() -> AddOnContext {
        AddOnContext::new("c1", ADD_ON)
    }

    fn annotated(annotations: Value) -> AddOnContext {
        let mut place = place();
        let annotations: BTreeMap<String, String> = serde_json::from_value(annotations).unwrap();
        Arc::make_mut(&mut place.addon).metadata.annotations = Some(annotations);
        place
    }

    fn made(place: &AddOnContext) -> Vec<Value> {
        PolicyFramework::default().manifests(place).unwrap()
    }

    #[test]
    fn the_agent_runs_as_upstreams_does() {
        let all = made(&place());
        assert_eq!(
            kinds(&all),
            [
                "CustomResourceDefinition policies.policy.open-cluster-management.io",
                "Namespace open-cluster-management-agent-addon",
                "Namespace c1",
                "Namespace open-cluster-management-policies",
                "NetworkPolicy governance-policy-framework-addon",
                "ServiceAccount governance-policy-framework-sa",
                "ClusterRole open-cluster-management:governance-policy-framework",
                "ClusterRoleBinding ocm:open-cluster-management-agent-addon:governance-policy-framework-0",
                "Role open-cluster-management:governance-policy-framework",
                "Role governance-policy-framework-leader",
                "RoleBinding open-cluster-management:governance-policy-framework",
                "RoleBinding governance-policy-framework-leader",
                "Pod governance-policy-framework-uninstall",
                "Deployment governance-policy-framework",
            ]
        );
        assert_eq!(
            arguments(&all),
            [
                "--enable-lease=true",
                "--hub-cluster-configfile=/var/run/klusterlet/kubeconfig",
                "--leader-elect=false",
                "--log-encoder=console",
                "--log-level=0",
                "--v=0",
                "--evaluation-concurrency=2",
                "--client-max-qps=30",
                "--client-burst=45",
                "--cluster-namespace=c1",
            ]
        );
        let pod = of_kind(&all, "Pod");
        assert_eq!(
            pod["spec"]["containers"][0]["args"],
            json!([
                "trigger-uninstall",
                "--deployment-name=governance-policy-framework",
                "--deployment-namespace=open-cluster-management-agent-addon",
                "--policy-namespace=c1",
            ])
        );
        let deployment = of_kind(&all, "Deployment");
        let annotation = "policy.open-cluster-management.io/uninstalling";
        assert_eq!(deployment["metadata"]["annotations"][annotation], "false");
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["command"], json!(["governance-policy-framework-addon"]));
        assert_eq!(container["image"], IMAGE);
        assert_eq!(container["resources"]["limits"]["memory"], "512Mi");
        let volumes = &deployment["spec"]["template"]["spec"]["volumes"];
        assert_eq!(
            volumes[0]["secret"]["secretName"],
            "governance-policy-framework-hub-kubeconfig"
        );
    }

    #[test]
    fn a_hosted_agent_keeps_policies_where_it_is() {
        let mut place = place();
        place.mode = Mode::Hosted(Hosting {
            name: "host".to_owned(),
            cluster: None,
        });
        let namespace = PolicyFramework::default().install_namespace(&place).unwrap().unwrap();
        assert_eq!(namespace, "klusterlet-c1");
        place.install_namespace = namespace;
        let all = made(&place);
        let arguments = arguments(&all);
        for wanted in [
            "--cluster-namespace=klusterlet-c1",
            "--cluster-namespace-on-hub=c1",
            "--disable-gatekeeper-sync=true",
        ] {
            assert!(arguments.iter().any(|it| it == wanted), "{arguments:?}");
        }
        let label = "addon.open-cluster-management.io/hosted-manifest-location";
        for manifest in &all {
            assert_eq!(manifest["metadata"]["labels"][label], "hosting", "{manifest}");
        }
        let namespaces = all.iter().filter(|it| it["kind"] == "Namespace");
        assert_eq!(namespaces.count(), 1);
    }

    #[test]
    fn on_the_hub_itself_nothing_is_brought_and_nothing_deleted() {
        let is_hub = |all: &[Value]| {
            let flag = arguments(all).iter().any(|it| it == "--on-multicluster-hub=true");
            assert_eq!(flag, all.iter().all(|it| it["kind"] != "Pod"));
            flag
        };
        let local = AddOnContext::new("local-cluster", ADD_ON);
        let all = made(&local);
        assert!(is_hub(&all));
        assert!(!kinds(&all).contains(&"Namespace local-cluster".to_owned()));
        assert!(all[0]["metadata"]["annotations"][ADDON_DELETION_ORPHAN].is_string());
        let on = settings::annotations::ON_HUB;
        assert!(is_hub(&made(&annotated(json!({on: "True"})))));
        let mut contradicted = annotated(json!({on: "false"}));
        let cluster = Arc::make_mut(&mut contradicted.cluster);
        cluster.metadata.annotations = Some([(on.to_owned(), "true".to_owned())].into());
        assert!(!is_hub(&made(&contradicted)));
        let both = made(&annotated(
            json!({on: "true", settings::annotations::SYNC_ON_HUB: "true"}),
        ));
        assert!(!is_hub(&both) && kinds(&both).contains(&"Namespace c1".to_owned()));
    }

    #[test]
    fn annotations_set_how_the_agent_runs() {
        let all = made(&annotated(json!({
            "log-level": "error", "policy-evaluation-concurrency": "12", "client-qps": "x",
            "prometheus-metrics-enabled": "true",
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
        assert_eq!(
            of_kind(&all, "ServiceMonitor")["spec"]["endpoints"][0]["scheme"],
            "http"
        );
        assert_eq!(of_kind(&all, "Service")["spec"]["ports"][0]["targetPort"], 8383);
    }

    #[test]
    fn a_configuration_counts_over_annotations() {
        let config = json!({
            "metadata": {"name": "c", "namespace": "c1"},
            "spec": {
                "customizedVariables": [
                    {"name": "logLevel", "value": "2"}, {"name": "orphanClusterNamespace", "value": "true"},
                    {"name": "tlsMinVersion", "value": "VersionTLS12"}, {"name": "tlsCipherSuites", "value": "nonsense"},
                    {"name": "unknown", "value": "x"},
                ],
                "nodePlacement": {"nodeSelector": {"a": "b"}, "tolerations": []},
                "registries": [{"source": "quay.io/open-cluster-management", "mirror": "m.example"}],
                "agentInstallNamespace": "elsewhere",
            },
        });
        let config: AddOnDeploymentConfig = serde_json::from_value(config).unwrap();
        let place = annotated(json!({"log-level": "1"})).with_config(&config);
        let namespace = PolicyFramework::default().install_namespace(&place).unwrap();
        assert_eq!(namespace.as_deref(), Some("elsewhere"));
        let all = made(&place);
        let arguments = arguments(&all);
        assert!(arguments.contains(&"--log-level=2".to_owned()) && arguments.contains(&"--v=0".to_owned()));
        assert!(arguments.contains(&"--tls-min-version=VersionTLS12".to_owned()));
        assert!(!arguments.iter().any(|it| it.starts_with("--tls-cipher-suites")));
        let pod = &of_kind(&all, "Deployment")["spec"]["template"]["spec"];
        assert_eq!(pod["nodeSelector"], json!({"a": "b"}));
        assert_eq!(
            pod["containers"][0]["image"],
            "m.example/governance-policy-framework-addon:latest"
        );
        let own = all
            .iter()
            .find(|it| it["kind"] == "Namespace" && it["metadata"]["name"] == "c1")
            .unwrap();
        assert_eq!(own["metadata"]["annotations"][ADDON_DELETION_ORPHAN], "");
    }

    #[test]
    fn a_paused_add_on_stays_as_it_is() {
        let error = PolicyFramework::default().manifests(&annotated(json!({"policy-addon-pause": "true"})));
        assert_eq!(
            error.unwrap_err().message(),
            "the Policy Addon controller is paused due to the policy-addon-pause annotation"
        );
    }

    #[test]
    fn an_add_on_that_goes_tells_its_agent() {
        let mut place = place();
        let add_on = json!({"metadata": {
            "name": ADD_ON, "namespace": "c1", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"addon.open-cluster-management.io/values": "{\"uninstallationAnnotation\": \"false\"}"},
        }, "spec": {}});
        let add_on: ManagedClusterAddOn = serde_json::from_value(add_on).unwrap();
        place.addon = Arc::new(add_on);
        let all = made(&place);
        let annotation = "policy.open-cluster-management.io/uninstalling";
        assert_eq!(
            of_kind(&all, "Deployment")["metadata"]["annotations"][annotation],
            "true"
        );
    }

    #[test]
    fn openshift_is_known_by_its_claim_or_its_label() {
        let cluster = |labels: Value, claims: Value| -> ManagedCluster {
            serde_json::from_value(json!({
                "metadata": {"name": "c1", "labels": labels}, "spec": {}, "status": {"clusterClaims": claims},
            }))
            .unwrap()
        };
        let mut place = place();
        let labelled = cluster(json!({"vendor": "OpenShift"}), json!([]));
        place.cluster = Arc::new(labelled.clone());
        let all = made(&place);
        assert_eq!(
            of_kind(&all, "ServiceMonitor")["spec"]["endpoints"][0]["scheme"],
            "https"
        );
        assert!(arguments(&all).contains(&"--secure-metrics=true".to_owned()));
        let claim = json!([{"name": "product.open-cluster-management.io", "value": "EKS"}]);
        let claimed = cluster(json!({"vendor": "OpenShift"}), claim);
        assert!(PolicyFramework::default().redeploys_on(&labelled, &claimed));
        place.cluster = Arc::new(claimed);
        assert!(made(&place).iter().all(|it| it["kind"] != "ServiceMonitor"));
    }

    #[test]
    fn the_agent_may_write_policies_and_read_one_secret() {
        let permissions = PolicyFramework::default().hub_permissions(&place()).unwrap();
        let text = format!("{permissions:?}");
        assert!(text.contains("open-cluster-management:policy-framework-hub"), "{text}");
        assert!(
            text.contains("policy-encryption-key") && !text.contains("\"*\""),
            "{text}"
        );
    }
}
