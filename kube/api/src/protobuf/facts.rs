//! What Go's structs know and protobuf does not say: which messages are embedded, which scalars are pointers, and names
//! in JSON that no rule gives.

use std::{collections::HashSet, sync::LazyLock};

/// Fields whose message is an embedded struct in Go, so that JSON has its content in the parent.
pub fn inline(message: &str, field: &str) -> bool {
    let short = message.rsplit('.').next().unwrap_or_default();
    match field {
        "type_meta" | "local_object_reference" | "handler" | "probe_handler" | "rule" | "rule_with_operations" => true,
        "volume_source" => short == "Volume",
        "persistent_volume_source" => short == "PersistentVolumeSpec",
        "ingress_rule_value" => short == "IngressRule",
        "device_configuration" => true,
        _ => false,
    }
}

/// Scalars that are pointers in Go, by JSON name: zero is a value of its own there and must be kept.
const POINTERS: &str = include_str!("pointers.txt");

/// Whether a scalar keeps its zero.
pub fn is_pointer(message: &str, name: &str) -> bool {
    let short = message.rsplit('.').next().unwrap_or_default();
    match (short, name) {
        // Plain fields in these messages, pointers elsewhere.
        ("Probe", "timeoutSeconds") | ("PriorityClass", "value") => false,
        // The number of wanted replicas is a pointer, the numbers of a status are not.
        (
            "DeploymentSpec" | "ReplicaSetSpec" | "StatefulSetSpec" | "ReplicationControllerSpec" | "ScaleSpec",
            "replicas",
        ) => true,
        ("EndpointPort", "port") | ("CustomResourceSubresourceScale", _) => true,
        // Pointers here, plain fields elsewhere. Without its zero some of these would get a default
        // that says the opposite.
        (
            "CSIDriverSpec",
            "attachRequired" | "podInfoOnMount" | "requiresRepublish" | "seLinuxMount" | "storageCapacity",
        )
        | ("CSIVolumeSource", "readOnly")
        | ("VolumeNodeResources", "count")
        | ("HpaScalingRules", "stabilizationWindowSeconds")
        | ("MetricTarget" | "MetricValueStatus", "averageUtilization")
        | ("HorizontalPodAutoscalerSpec", "targetCPUUtilizationPercentage")
        | ("HorizontalPodAutoscalerStatus", "currentCPUUtilizationPercentage" | "observedGeneration")
        | ("ContainerStatus", "started")
        | ("DeploymentStatus" | "ReplicaSetStatus", "terminatingReplicas")
        | ("WindowsSecurityContextOptions", "hostProcess") => true,
        // Served, stored and the verdicts of reviews are written even when false.
        ("CustomResourceDefinitionVersion", "served" | "storage") => true,
        _ => {
            static ALL: LazyLock<HashSet<&str>> = LazyLock::new(|| POINTERS.lines().collect());
            ALL.contains(name)
        }
    }
}

/// The JSON name of a field that no schema names: lower camel case, but for what JSON schemas write.
pub fn json_name(field: &str) -> String {
    match field {
        "ref" => return "$ref".into(),
        "schema" => return "$schema".into(),
        "x_kubernetes_preserve_unknown_fields"
        | "x_kubernetes_embedded_resource"
        | "x_kubernetes_int_or_string"
        | "x_kubernetes_list_map_keys"
        | "x_kubernetes_list_type"
        | "x_kubernetes_map_type"
        | "x_kubernetes_validations" => return field.replace('_', "-"),
        "json_schemas" | "j_son_schemas" => return "jSONSchemas".into(),
        _ => {}
    }
    let mut name = String::with_capacity(field.len());
    let mut upper = false;
    for character in field.chars() {
        match (character, upper) {
            ('_', _) => upper = true,
            (it, true) => {
                name.extend(it.to_uppercase());
                upper = false;
            }
            (it, false) => name.push(it),
        }
    }
    name
}
