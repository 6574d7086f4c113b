//! Charts leave the namespace of their objects out, because Helm's client fills it in. Nobody does that for manifests
//! in a ManifestWork, so it is done here, for the kinds whose scope is known.

use serde_json::Value;

/// The groups that every Kubernetes serves.
const GROUPS: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Their kinds that are in no namespace.
const OF_THE_CLUSTER: &[&str] = &[
    "APIService",
    "CSIDriver",
    "CSINode",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "ComponentStatus",
    "CustomResourceDefinition",
    "DeviceClass",
    "DeviceTaintRule",
    "FlowSchema",
    "IPAddress",
    "IngressClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PodSecurityPolicy",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "ResourceSlice",
    "RuntimeClass",
    "SelfSubjectAccessReview",
    "SelfSubjectReview",
    "SelfSubjectRulesReview",
    "ServiceCIDR",
    "StorageClass",
    "StorageVersion",
    "StorageVersionMigration",
    "SubjectAccessReview",
    "TokenReview",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
    "VolumeAttributesClass",
];

/// Puts the objects without a namespace into this one, unless they belong to the cluster. Of a kind that Kubernetes
/// does not bring, the objects with its definition among them say the scope; without it, the object stays as it is.
pub fn fill(objects: &mut [Value], namespace: &str) {
    let definitions = objects.iter().filter(|it| it["kind"] == "CustomResourceDefinition");
    let of_namespaces: Vec<(String, String)> = definitions
        .filter(|it| it["spec"]["scope"] == "Namespaced")
        .map(|it| (text(&it["spec"]["group"]), text(&it["spec"]["names"]["kind"])))
        .collect();
    for object in objects {
        let group = match object["apiVersion"].as_str().unwrap_or_default().split_once('/') {
            Some((group, _)) => group.to_owned(),
            None => String::new(),
        };
        let kind = text(&object["kind"]);
        let has_namespace = object["metadata"]["namespace"]
            .as_str()
            .is_some_and(|it| !it.is_empty());
        let belongs_to_one = match GROUPS.contains(&group.as_str()) {
            true => !OF_THE_CLUSTER.contains(&kind.as_str()),
            false => of_namespaces.contains(&(group, kind)),
        };
        if belongs_to_one && !has_namespace && object["metadata"].is_object() {
            object["metadata"]["namespace"] = namespace.into();
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(api_version: &str, kind: &str) -> Value {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "w.ex.io"},
            "spec": {"group": "ex.io", "scope": "Namespaced", "names": {"kind": "Widget"}}
        });
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
        let mut objects = [definition, object];
        fill(&mut objects, "here");
        assert_eq!(objects[0]["metadata"].get("namespace"), None);
        objects[1]["metadata"]["namespace"].clone()
    }

    #[test]
    fn what_belongs_to_a_namespace_gets_one() {
        assert_eq!(filled("v1", "Service"), "here");
        assert_eq!(filled("apps/v1", "Deployment"), "here");
        assert_eq!(filled("ex.io/v1", "Widget"), "here");
    }

    #[test]
    fn cluster_scoped_and_unknown_kinds_get_no_namespace() {
        assert_eq!(filled("v1", "Namespace"), Value::Null);
        assert_eq!(filled("rbac.authorization.k8s.io/v1", "ClusterRole"), Value::Null);
        assert_eq!(filled("cert-manager.io/v1", "ClusterIssuer"), Value::Null);
        assert_eq!(filled("ex.io/v1", "Other"), Value::Null);
    }

    #[test]
    fn a_namespace_that_is_there_stays() {
        let mut objects = [json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "kube-system"}})];
        fill(&mut objects, "here");
        assert_eq!(objects[0]["metadata"]["namespace"], "kube-system");
    }
}
