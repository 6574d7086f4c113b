//! From Rust types to CustomResourceDefinitions.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::structural::structural;
use crate::{
    Kind, about, addon, apps, authentication, cluster, gitops, multicluster, operator, policy, proxy, rbac, work,
};

/// Where a kind is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedOn {
    /// On a hub.
    Hub,
    /// On a managed cluster.
    ManagedCluster,
    /// Where an operator installs a hub or an agent.
    Operator,
    /// On a hub that has the add-on whose API group it is.
    AddOn,
}

/// Every CustomResourceDefinition with the place it belongs to, in the order of their names.
pub fn build() -> Vec<(ServedOn, Value)> {
    use ServedOn::{AddOn, Hub, ManagedCluster, Operator};
    let mut all = vec![
        (
            Hub,
            definition::<cluster::ManagedCluster>(vec![version::<cluster::ManagedCluster>()]),
        ),
        (
            Hub,
            definition::<cluster::ManagedClusterSet>(vec![version::<cluster::ManagedClusterSet>()]),
        ),
        (
            Hub,
            definition::<cluster::ManagedClusterSetBinding>(vec![version::<cluster::ManagedClusterSetBinding>()]),
        ),
        (
            Hub,
            definition::<cluster::Placement>(vec![version::<cluster::Placement>()]),
        ),
        (
            Hub,
            definition::<cluster::PlacementDecision>(vec![version::<cluster::PlacementDecision>()]),
        ),
        (
            Hub,
            definition::<cluster::AddOnPlacementScore>(vec![version::<cluster::AddOnPlacementScore>()]),
        ),
        (
            Hub,
            definition::<work::ManifestWork>(vec![version::<work::ManifestWork>()]),
        ),
        (
            Hub,
            definition::<work::ManifestWorkReplicaSet>(vec![version::<work::ManifestWorkReplicaSet>()]),
        ),
        (
            Hub,
            both::<addon::v1alpha1::ClusterManagementAddOn, addon::v1beta1::ClusterManagementAddOn>(),
        ),
        (
            Hub,
            both::<addon::v1alpha1::ManagedClusterAddOn, addon::v1beta1::ManagedClusterAddOn>(),
        ),
        (
            Hub,
            both::<addon::v1alpha1::AddOnDeploymentConfig, addon::v1beta1::AddOnDeploymentConfig>(),
        ),
        (
            Hub,
            both::<addon::v1alpha1::AddOnTemplate, addon::v1beta1::AddOnTemplate>(),
        ),
        (
            Hub,
            definition::<multicluster::ClusterProfile>(vec![version::<multicluster::ClusterProfile>()]),
        ),
        (
            ManagedCluster,
            definition::<cluster::ClusterClaim>(vec![version::<cluster::ClusterClaim>()]),
        ),
        (
            ManagedCluster,
            definition::<work::AppliedManifestWork>(vec![version::<work::AppliedManifestWork>()]),
        ),
        (
            ManagedCluster,
            definition::<about::ClusterProperty>(vec![version::<about::ClusterProperty>()]),
        ),
        (
            Operator,
            definition::<operator::ClusterManager>(vec![version::<operator::ClusterManager>()]),
        ),
        (
            Operator,
            definition::<operator::Klusterlet>(vec![version::<operator::Klusterlet>()]),
        ),
        (AddOn, managed_service_accounts()),
        (
            AddOn,
            definition::<rbac::ClusterPermission>(vec![version::<rbac::ClusterPermission>()]),
        ),
        (AddOn, definition::<apps::Channel>(vec![version::<apps::Channel>()])),
        (
            AddOn,
            definition::<apps::HelmRelease>(vec![version::<apps::HelmRelease>()]),
        ),
        (
            AddOn,
            definition::<apps::PlacementRule>(vec![version::<apps::PlacementRule>()]),
        ),
        (
            AddOn,
            definition::<apps::Subscription>(vec![version::<apps::Subscription>()]),
        ),
        (
            AddOn,
            definition::<apps::SubscriptionReport>(vec![version::<apps::SubscriptionReport>()]),
        ),
        (
            AddOn,
            definition::<apps::SubscriptionStatus>(vec![version::<apps::SubscriptionStatus>()]),
        ),
        (
            AddOn,
            definition::<gitops::GitOpsCluster>(vec![version::<gitops::GitOpsCluster>()]),
        ),
        (AddOn, certificate_policies()),
        (AddOn, configuration_policies()),
        (AddOn, operator_policies()),
        (
            AddOn,
            definition::<proxy::ManagedProxyConfiguration>(vec![version::<proxy::ManagedProxyConfiguration>()]),
        ),
        (AddOn, definition::<policy::Policy>(vec![version::<policy::Policy>()])),
        (
            AddOn,
            definition::<policy::PlacementBinding>(vec![version::<policy::PlacementBinding>()]),
        ),
        (
            AddOn,
            definition::<policy::PolicySet>(vec![version::<policy::PolicySet>()]),
        ),
        (
            AddOn,
            definition::<policy::PolicyAutomation>(vec![version::<policy::PolicyAutomation>()]),
        ),
    ];
    all.sort_by_key(|(_, it)| it["metadata"]["name"].to_string());
    all
}

/// The same schema in both versions, so that nothing has to convert.
fn managed_service_accounts() -> Value {
    let stored = version::<authentication::ManagedServiceAccount>();
    let mut deprecated = stored.clone();
    deprecated["name"] = authentication::DEPRECATED_VERSION.into();
    deprecated["storage"] = false.into();
    deprecated["deprecated"] = true.into();
    deprecated["deprecationWarning"] = authentication::DEPRECATION_WARNING.into();
    definition::<authentication::ManagedServiceAccount>(vec![deprecated, stored])
}

/// Exactly one of the two ways to say which objects.
fn configuration_policies() -> Value {
    let mut version = version::<policy::configuration_policy::ConfigurationPolicy>();
    let either = json!([{"required": ["object-templates"]}, {"required": ["object-templates-raw"]}]);
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["oneOf"] = either;
    let mut definition = definition::<policy::configuration_policy::ConfigurationPolicy>(vec![version]);
    definition["metadata"]["labels"] = json!({ policy::labels::POLICY_TYPE: "template" });
    definition
}

/// A kind that Policies carry.
fn certificate_policies() -> Value {
    let version = version::<policy::certificate_policy::CertificatePolicy>();
    let mut definition = definition::<policy::certificate_policy::CertificatePolicy>(vec![version]);
    definition["metadata"]["labels"] = json!({ policy::labels::POLICY_TYPE: "template" });
    definition
}

/// A kind that Policies carry.
fn operator_policies() -> Value {
    let version = version::<policy::operator_policy::OperatorPolicy>();
    let mut definition = definition::<policy::operator_policy::OperatorPolicy>(vec![version]);
    definition["metadata"]["labels"] = json!({ policy::labels::POLICY_TYPE: "template" });
    definition
}

/// A kind with two versions, the first of which is stored.
/// No conversion is named: who serves the definition knows whether it converts in process or through a webhook.
fn both<Stored: Kind, Served: Kind>() -> Value {
    let mut served = version::<Served>();
    served["storage"] = false.into();
    definition::<Stored>(vec![version::<Stored>(), served])
}

fn definition<K: Kind>(versions: Vec<Value>) -> Value {
    let kind = K::kind(&());
    let mut names = json!({
        "kind": kind,
        "listKind": format!("{kind}List"),
        "plural": K::PLURAL,
        "singular": kind.to_lowercase(),
    });
    if !K::SHORT_NAMES.is_empty() {
        names["shortNames"] = json!(K::SHORT_NAMES);
    }
    let mut metadata = json!({ "name": format!("{}.{}", K::PLURAL, K::group(&())) });
    if K::group(&()).ends_with(".k8s.io") && K::group(&()) == about::GROUP {
        // Groups under k8s.io are protected: the API server wants to see where the definition was agreed upon.
        metadata["annotations"] =
            json!({ "api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/3084" });
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": K::group(&()),
            "names": names,
            "scope": if K::NAMESPACED { "Namespaced" } else { "Cluster" },
            "versions": versions,
        }
    })
}

fn version<K: Kind>() -> Value {
    let mut version = json!({
        "name": K::version(&()),
        "served": true,
        "storage": true,
        "schema": { "openAPIV3Schema": root::<K>() },
    });
    if !K::COLUMNS.is_empty() {
        version["additionalPrinterColumns"] = K::COLUMNS
            .iter()
            .map(|it| json!({ "name": it.name, "type": it.r#type, "jsonPath": it.json_path }))
            .collect();
    }
    if K::STATUS_SUBRESOURCE {
        version["subresources"] = json!({ "status": {} });
    }
    version
}

fn root<K: Kind>() -> Value {
    // What we write tells what is required (Go's rule: whatever is not omitted when empty), hence the serializing side.
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|it| {
        it.inline_subschemas = true;
        it.meta_schema = None;
    });
    let mut properties = Map::from_iter([
        (
            "apiVersion".to_owned(),
            json!({ "type": "string", "description": "Group and version of the object's form." }),
        ),
        (
            "kind".to_owned(),
            json!({ "type": "string", "description": "What the object is." }),
        ),
        ("metadata".to_owned(), json!({ "type": "object" })),
    ]);
    for (name, schema) in K::sections(&mut SchemaGenerator::new(settings)) {
        properties.insert(name.to_owned(), structural(schema.to_value()));
    }
    let mut root = json!({ "type": "object", "description": K::ABOUT.trim(), "properties": properties });
    if !K::REQUIRED.is_empty() {
        root["required"] = json!(K::REQUIRED);
    }
    root
}
