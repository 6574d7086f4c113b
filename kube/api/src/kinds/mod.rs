//! The built-in kinds: a row each, and the strategy of each.
//!
//! A new kind is a line of the table and, where Kubernetes does something for it, a strategy in a file of this folder.

mod access;
mod admission;
mod autoscalers;
mod budgets;
mod config;
mod defaults;
mod definitions;
mod endpoints;
mod events;
mod jobs;
mod namespaces;
mod networking;
mod nodes;
mod plain;
mod pod_admission;
mod pods;
mod priorities;
mod quotas;
mod service_addresses;
mod services;
mod signing_requests;
mod storage;
mod strategy;
mod validation;
mod volumes;
mod warnings;
mod workloads;

#[cfg(test)]
mod tests;

pub use pod_admission::SYSTEM_PRIORITIES;
pub use strategy::Strategy;
pub use volumes::{CLAIM_PROTECTION, VOLUME_PROTECTION};

use crate::{
    builtin::{GENERATION, PLAIN, RBAC, REVIEW, Row, SCALED, STATUS, STRICT, STRICT_STATUS, Traits, UPSERT, WORKLOAD},
    call::Call,
    object_meta::ResetFields,
    registry::{Registry, Resource},
    table::Printer,
};
use kube_store::{schema::metadata::NameRule, status::FieldError};
use serde_json::Value;
use std::{collections::HashMap, sync::LazyLock};
use validation::fields;

/// One built-in kind.
struct BuiltInKind {
    row: Row,
    strategy: &'static dyn Strategy,
}

impl BuiltInKind {
    const fn with(self, strategy: &'static dyn Strategy) -> Self {
        Self { strategy, ..self }
    }
}

const fn row(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    names: (&'static str, &'static str),
    traits: Traits,
) -> BuiltInKind {
    let row = Row {
        group,
        version,
        plural,
        kind,
        namespaced,
        short_names: names.0,
        categories: names.1,
        traits,
    };
    BuiltInKind {
        row,
        strategy: &plain::Plain,
    }
}

const N: bool = true;
const C: bool = false;
const NONE: (&str, &str) = ("", "");
const AUTHN: &str = "authentication.k8s.io";
const AUTHZ: &str = "authorization.k8s.io";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const EXTENSIONS: (&str, &str) = ("", "api-extensions");

/// In order of preference: core first, then as a real API server orders its groups.
#[rustfmt::skip]
const KINDS: &[BuiltInKind] = &[
    row("", "v1", "configmaps", "ConfigMap", N, ("cm", ""), PLAIN).with(&config::ConfigMaps),
    row("", "v1", "endpoints", "Endpoints", N, ("ep", ""), UPSERT).with(&endpoints::AllEndpoints),
    // Named after what they are of, whatever its name is; the newer face is stricter.
    row("", "v1", "events", "Event", N, ("ev", ""), Traits { name_rule: NameRule::PathSegment, ..UPSERT }).with(&events::CoreEvents),
    row("", "v1", "limitranges", "LimitRange", N, ("limits", ""), UPSERT).with(&quotas::LimitRanges),
    row("", "v1", "namespaces", "Namespace", C, ("ns", ""),
        Traits { name_rule: NameRule::Label, status: true, returns_deleted: true, no_delete_collection: true, ..PLAIN }).with(&namespaces::Namespaces),
    row("", "v1", "nodes", "Node", C, ("no", ""), STATUS).with(&nodes::Nodes),
    row("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", N, ("pvc", ""), Traits { returns_deleted: true, ..STATUS }).with(&volumes::PersistentVolumeClaims),
    row("", "v1", "persistentvolumes", "PersistentVolume", C, ("pv", ""), Traits { returns_deleted: true, ..STATUS }).with(&volumes::PersistentVolumes),
    row("", "v1", "pods", "Pod", N, ("po", "all"), Traits { returns_deleted: true, ..WORKLOAD }).with(&pods::Pods),
    row("", "v1", "podtemplates", "PodTemplate", N, NONE, Traits { returns_deleted: true, ..GENERATION }).with(&pods::PodTemplates),
    row("", "v1", "replicationcontrollers", "ReplicationController", N, ("rc", "all"), SCALED).with(&workloads::ReplicationControllers),
    row("", "v1", "resourcequotas", "ResourceQuota", N, ("quota", ""), Traits { returns_deleted: true, ..STATUS }).with(&quotas::ResourceQuotas),
    row("", "v1", "secrets", "Secret", N, NONE, PLAIN).with(&config::Secrets),
    row("", "v1", "serviceaccounts", "ServiceAccount", N, ("sa", ""), Traits { returns_deleted: true, ..PLAIN }).with(&plain::ServiceAccounts),
    row("", "v1", "services", "Service", N, ("svc", "all"),
        Traits { name_rule: NameRule::Label, returns_deleted: true, create_on_update: true, ..STATUS }).with(&services::Services),
    row("apiregistration.k8s.io", "v1", "apiservices", "APIService", C, EXTENSIONS,
        Traits { version_required: true, ..STATUS }).with(&definitions::ApiServices),
    row("apps", "v1", "controllerrevisions", "ControllerRevision", N, NONE, PLAIN).with(&workloads::ControllerRevisions),
    row("apps", "v1", "daemonsets", "DaemonSet", N, ("ds", "all"), WORKLOAD).with(&workloads::DaemonSets),
    row("apps", "v1", "deployments", "Deployment", N, ("deploy", "all"), SCALED).with(&workloads::Deployments),
    row("apps", "v1", "replicasets", "ReplicaSet", N, ("rs", "all"), SCALED).with(&workloads::ReplicaSets),
    row("apps", "v1", "statefulsets", "StatefulSet", N, ("sts", "all"), SCALED).with(&workloads::StatefulSets),
    row("events.k8s.io", "v1", "events", "Event", N, ("ev", ""), UPSERT).with(&events::Events),
    row(AUTHN, "v1", "selfsubjectreviews", "SelfSubjectReview", C, NONE, REVIEW),
    row(AUTHN, "v1", "tokenreviews", "TokenReview", C, NONE, REVIEW),
    row(AUTHZ, "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", N, NONE, REVIEW),
    row(AUTHZ, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", C, NONE, REVIEW),
    row(AUTHZ, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", C, NONE, REVIEW),
    row(AUTHZ, "v1", "subjectaccessreviews", "SubjectAccessReview", C, NONE, REVIEW),
    row("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", N, ("hpa", "all"), STATUS).with(&autoscalers::HorizontalPodAutoscalers),
    row("batch", "v1", "cronjobs", "CronJob", N, ("cj", "all"), WORKLOAD).with(&jobs::CronJobs),
    row("batch", "v1", "jobs", "Job", N, ("", "all"), WORKLOAD).with(&jobs::Jobs),
    row("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", C, ("csr", ""),
        Traits { name_rule: NameRule::PathSegment, ..STATUS }).with(&signing_requests::SigningRequests),
    row("networking.k8s.io", "v1", "ingressclasses", "IngressClass", C, NONE, GENERATION).with(&networking::IngressClasses),
    row("networking.k8s.io", "v1", "ingresses", "Ingress", N, ("ing", ""), WORKLOAD).with(&networking::Ingresses),
    row("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", N, ("netpol", ""), GENERATION).with(&networking::NetworkPolicies),
    row("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", N, ("pdb", ""), STRICT_STATUS).with(&budgets::DisruptionBudgets),
    row(RBAC_GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", C, NONE, RBAC).with(&access::RoleBindings { kind: "ClusterRoleBinding" }),
    row(RBAC_GROUP, "v1", "clusterroles", "ClusterRole", C, NONE, RBAC).with(&access::Roles { kind: "ClusterRole" }),
    row(RBAC_GROUP, "v1", "rolebindings", "RoleBinding", N, NONE, RBAC).with(&access::RoleBindings { kind: "RoleBinding" }),
    row(RBAC_GROUP, "v1", "roles", "Role", N, NONE, RBAC).with(&access::Roles { kind: "Role" }),
    row("storage.k8s.io", "v1", "csidrivers", "CSIDriver", C, NONE, Traits { returns_deleted: true, ..STRICT }).with(&storage::CsiDrivers),
    row("storage.k8s.io", "v1", "csinodes", "CSINode", C, NONE, Traits { version_required: true, returns_deleted: true, ..PLAIN }).with(&storage::CsiNodes),
    row("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", N, NONE, Traits { version_required: true, ..PLAIN }).with(&storage::StorageCapacities),
    row("storage.k8s.io", "v1", "storageclasses", "StorageClass", C, ("sc", ""), Traits { returns_deleted: true, ..PLAIN }).with(&storage::StorageClasses),
    row("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", C, NONE,
        Traits { status: true, version_required: true, returns_deleted: true, ..PLAIN }).with(&storage::VolumeAttachments),
    row(ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", C, EXTENSIONS, STRICT).with(&admission::WebhookConfigurations { mutating: true }),
    row(ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", C, EXTENSIONS, STRICT_STATUS).with(&admission::AdmissionPolicies),
    row(ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", C, EXTENSIONS, STRICT).with(&admission::AdmissionPolicyBindings),
    row(ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", C, EXTENSIONS, STRICT).with(&admission::WebhookConfigurations { mutating: false }),
    row("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", C, ("crd crds", "api-extensions"), STRICT_STATUS).with(&definitions::Definitions),
    row("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", C, ("pc", ""), GENERATION).with(&priorities::PriorityClasses),
    row("coordination.k8s.io", "v1", "leases", "Lease", N, NONE, Traits { version_required: true, create_on_update: true, ..PLAIN }).with(&plain::Leases),
    row("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", C, NONE,
        Traits { version_required: true, create_on_update: true, ..PLAIN }).with(&plain::RuntimeClasses),
    row("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", N, NONE, GENERATION).with(&endpoints::EndpointSlices),
];

/// The built-in resources.
pub fn registry() -> Registry {
    let resource = |it: &BuiltInKind| {
        let strategy = it.strategy;
        Resource::built_in(
            &it.row,
            printer(it.row.group, it.row.kind),
            strategy.subresources(),
            strategy.other_versions(),
            strategy.deprecation(),
        )
    };
    Registry::new(KINDS.iter().map(resource))
}

/// The strategy of a kind; that of a custom resource is the plain one.
pub fn strategy(group: &str, kind: &str) -> &'static dyn Strategy {
    static BY_KIND: LazyLock<HashMap<(&str, &str), &dyn Strategy>> = LazyLock::new(|| {
        let pair = |it: &'static BuiltInKind| ((it.row.group, it.row.kind), it.strategy);
        KINDS.iter().map(pair).collect()
    });
    BY_KIND.get(&(group, kind)).copied().unwrap_or(&plain::Plain)
}

/// How objects of a built-in kind become rows of a table.
pub fn printer(group: &str, kind: &str) -> Printer {
    Printer::BuiltIn(strategy(group, kind).columns())
}

/// The strategy of what a call is about.
pub fn of(call: &Call<'_>) -> &'static dyn Strategy {
    match call.resource.is_builtin() {
        true => strategy(&call.resource.group, &call.resource.kind),
        false => &plain::Plain,
    }
}

/// Fills in the defaults of a built-in kind in place. `value` is decoded; running it again changes nothing.
pub fn default(group: &str, kind: &str, value: &mut Value) {
    if let Some(object) = value.as_object_mut() {
        strategy(group, kind).default(object);
    }
}

/// Errors of an object of a built-in kind besides its metadata. `new` is decoded and defaulted;
/// `old` is the stored object of an update.
pub fn validate(group: &str, kind: &str, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let (strategy, mut errors) = (strategy(group, kind), Vec::new());
    strategy.validate(new, old, &mut errors);
    fields::of_object(strategy.fields(), new, old, &mut errors);
    errors
}

/// Warnings of an object of a built-in kind. `new` is decoded, defaulted and right;
/// `old` is the stored object of an update.
pub fn warnings(group: &str, kind: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    strategy(group, kind).warnings(new, old, &mut warnings);
    warnings
}

/// Fields that a write to this path neither changes nor owns.
pub fn reset_fields(call: &Call<'_>) -> ResetFields {
    if let Some(fields) = of(call).reset_fields(&call.subresource) {
        return fields;
    }
    match call.subresource.as_str() {
        "" if call.served().status => &[&["status"]],
        "status" if call.resource.is_builtin() => &[&["spec"]],
        "status" => &[&["spec"], &["metadata"]],
        _ => &[],
    }
}
