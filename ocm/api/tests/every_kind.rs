//! Every kind reads and writes every field of its schema.

use ocm_api::crds;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// An object with every field that the schema has, each with some value that the schema allows.
fn full(schema: &Value) -> Value {
    if let Some(default) = schema.get("default") {
        // Fields that hold their default may be left out when written, so a full object holds something else.
        if let Some(other) = schema["enum"]
            .as_array()
            .and_then(|all| all.iter().find(|it| *it != default))
        {
            return other.clone();
        }
    }
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return json!("10");
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return json!({ "apiVersion": "v1", "kind": "Anything", "metadata": { "name": "x" }, "odd": [null, 1.5] });
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("string"), Some("date-time")) => json!("2026-01-01T12:00:00Z"),
        (Some("string"), Some("byte")) => json!("AAEC"),
        (Some("string"), _) => json!("text"),
        (Some("integer"), _) => json!(7),
        (Some("boolean"), _) => json!(true),
        (Some("array"), _) => json!([full(&schema["items"])]),
        (Some("object"), _) if schema["additionalProperties"].is_object() => {
            json!({ "key": full(&schema["additionalProperties"]) })
        }
        (Some("object"), _) => fields(schema, full),
        other => panic!("no value for {other:?} in {schema}"),
    }
}

/// The same object with null wherever the schema does not require a value.
fn sparse(schema: &Value) -> Value {
    if schema["type"] != "object" || !schema["properties"].is_object() {
        return full(schema);
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let properties = schema["properties"].as_object().unwrap();
    let value = |name: &String, it| {
        if required.contains(&json!(name)) {
            sparse(it)
        } else {
            Value::Null
        }
    };
    properties
        .iter()
        .map(|(name, it)| (name.clone(), value(name, it)))
        .collect::<Map<_, _>>()
        .into()
}

fn fields(schema: &Value, value: impl Fn(&Value) -> Value) -> Value {
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    properties
        .iter()
        .map(|(name, it)| (name.clone(), value(it)))
        .collect::<Map<_, _>>()
        .into()
}

fn schema_of(kind: &str, version: &str) -> Value {
    let all = crds::build();
    let crd = all
        .iter()
        .map(|(_, it)| it)
        .find(|it| it["spec"]["names"]["kind"] == kind)
        .unwrap();
    let versions = crd["spec"]["versions"].as_array().unwrap();
    versions.iter().find(|it| it["name"] == version).unwrap()["schema"]["openAPIV3Schema"].clone()
}

fn keeps_every_field<K: ocm_api::Kind + Serialize + DeserializeOwned>() {
    let (kind, version) = (K::kind(&()), K::version(&()));
    let schema = schema_of(&kind, &version);
    let mut object = full(&schema);
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = kind.clone().into();
    object["metadata"] = json!({ "name": "x" });
    let typed: K = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{kind} {version}: {error}"));
    assert_eq!(serde_json::to_value(&typed).unwrap(), object, "{kind} {version}");

    let mut object = sparse(&schema);
    object["metadata"] = json!({ "name": "x" });
    let typed: Result<K, _> = serde_json::from_value(object.clone());
    assert!(
        typed.is_ok(),
        "{kind} {version} does not read nulls: {:?} in {object}",
        typed.err()
    );
}

macro_rules! kinds {
    ($($name:ident: $kind:ty),* $(,)?) => {$(
        #[test]
        fn $name() {
            keeps_every_field::<$kind>();
        }
    )*};
}

kinds! {
    managed_cluster_keeps_every_field: ocm_api::cluster::ManagedCluster,
    managed_cluster_set_keeps_every_field: ocm_api::cluster::ManagedClusterSet,
    managed_cluster_set_binding_keeps_every_field: ocm_api::cluster::ManagedClusterSetBinding,
    cluster_claim_keeps_every_field: ocm_api::cluster::ClusterClaim,
    placement_keeps_every_field: ocm_api::cluster::Placement,
    placement_decision_keeps_every_field: ocm_api::cluster::PlacementDecision,
    add_on_placement_score_keeps_every_field: ocm_api::cluster::AddOnPlacementScore,
    manifest_work_keeps_every_field: ocm_api::work::ManifestWork,
    manifest_work_replica_set_keeps_every_field: ocm_api::work::ManifestWorkReplicaSet,
    applied_manifest_work_keeps_every_field: ocm_api::work::AppliedManifestWork,
    cluster_management_add_on_v1alpha1_keeps_every_field: ocm_api::addon::v1alpha1::ClusterManagementAddOn,
    cluster_management_add_on_v1beta1_keeps_every_field: ocm_api::addon::v1beta1::ClusterManagementAddOn,
    managed_cluster_add_on_v1alpha1_keeps_every_field: ocm_api::addon::v1alpha1::ManagedClusterAddOn,
    managed_cluster_add_on_v1beta1_keeps_every_field: ocm_api::addon::v1beta1::ManagedClusterAddOn,
    add_on_deployment_config_v1alpha1_keeps_every_field: ocm_api::addon::v1alpha1::AddOnDeploymentConfig,
    add_on_deployment_config_v1beta1_keeps_every_field: ocm_api::addon::v1beta1::AddOnDeploymentConfig,
    add_on_template_v1alpha1_keeps_every_field: ocm_api::addon::v1alpha1::AddOnTemplate,
    add_on_template_v1beta1_keeps_every_field: ocm_api::addon::v1beta1::AddOnTemplate,
    cluster_profile_keeps_every_field: ocm_api::multicluster::ClusterProfile,
    cluster_property_keeps_every_field: ocm_api::about::ClusterProperty,
    cluster_manager_keeps_every_field: ocm_api::operator::ClusterManager,
    certificate_policy_keeps_every_field: ocm_api::policy::certificate_policy::CertificatePolicy,
    configuration_policy_keeps_every_field: ocm_api::policy::configuration_policy::ConfigurationPolicy,
    operator_policy_keeps_every_field: ocm_api::policy::operator_policy::OperatorPolicy,
    klusterlet_keeps_every_field: ocm_api::operator::Klusterlet,
    channel_keeps_every_field: ocm_api::apps::Channel,
    subscription_keeps_every_field: ocm_api::apps::Subscription,
    subscription_status_keeps_every_field: ocm_api::apps::SubscriptionStatus,
    subscription_report_keeps_every_field: ocm_api::apps::SubscriptionReport,
    helm_release_keeps_every_field: ocm_api::apps::HelmRelease,
    placement_rule_keeps_every_field: ocm_api::apps::PlacementRule,
    gitops_cluster_keeps_every_field: ocm_api::gitops::GitOpsCluster,
}
