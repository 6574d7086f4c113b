//! What a client is warned of when it writes a built-in kind: what is taken, but does not do what its writer may think. The words
//! are those of kube-apiserver.

mod addresses;
mod paths;
mod pods;

use crate::builtin_validation::{at, changed, list, text};
use kube_store::schema::{
    metadata::{label_errors, label_value_errors},
    quantity,
};
use serde_json::Value;

/// Warnings of an object of a built-in kind. `new` is decoded, defaulted and right; `old` is the stored object of an update.
pub fn warnings(group: &str, kind: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    // Only what has changed is worth a second look, and each object is new once.
    let (created, changed) = (old.is_none(), || changed(new, old, "/spec"));
    match (group, kind) {
        ("", "Pod") if created => {
            name("the Pod's hostname", new, &mut warnings);
            pods::pod(new, "", &mut warnings);
        }
        ("", "PodTemplate") if created => pods::pod(&new["template"], "template.", &mut warnings),
        ("apps", "Deployment" | "ReplicaSet") | ("", "ReplicationController") if changed() => {
            if created {
                name("Pod names and hostnames", new, &mut warnings);
            }
            pods::pod(&new["spec"]["template"], "spec.template.", &mut warnings);
        }
        ("apps", "DaemonSet") if changed() => {
            pods::pod(&new["spec"]["template"], "spec.template.", &mut warnings);
        }
        ("apps", "StatefulSet") => stateful_set(new, created, changed(), &mut warnings),
        ("batch", "Job") if changed() => {
            if created {
                name("Pod names and hostnames", new, &mut warnings);
            }
            job(&new["spec"], "spec", &mut warnings);
        }
        ("batch", "CronJob") => {
            if created {
                name("Pod names and hostnames", new, &mut warnings);
            }
            if changed() {
                job(
                    &new["spec"]["jobTemplate"]["spec"],
                    "spec.jobTemplate.spec",
                    &mut warnings,
                );
            }
            if !created && text(new, "/spec/schedule").contains("TZ") {
                warnings.push(
                    "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                     https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                        .to_owned(),
                );
            }
        }
        ("", "Service") => service(new, &mut warnings),
        ("", "Node") => node(new, &mut warnings),
        ("", "PersistentVolume") => volume(new, &mut warnings),
        ("", "PersistentVolumeClaim") => {
            deprecated_annotations(new, &[BETA_CLASS], "", &mut warnings);
            claim(&new["spec"], "spec", &mut warnings);
        }
        ("", "ResourceQuota") if created => quota(new, &mut warnings),
        ("networking.k8s.io", "Ingress") if created => {
            const CLASS: &str = "kubernetes.io/ingress.class";
            if annotation(new, CLASS).is_some() && at(new, "/spec/ingressClassName").is_none() {
                warnings.push(format!(
                    "annotation {CLASS:?} is deprecated, please use 'spec.ingressClassName' instead"
                ));
            }
        }
        ("discovery.k8s.io", "EndpointSlice") => endpoint_slice(new, created, &mut warnings),
        ("node.k8s.io", "RuntimeClass") => {
            for key in keys(new, "/scheduling/nodeSelector") {
                warnings.extend(node_label(key).map(|it| format!("scheduling.nodeSelector: {it}")));
            }
        }
        ("storage.k8s.io", "StorageClass") => storage_class(new, &mut warnings),
        ("storage.k8s.io", "CSIStorageCapacity") => node_selector(&new["nodeTopology"], "nodeTopology", &mut warnings),
        ("storage.k8s.io", "CSIDriver") => driver(new, old, &mut warnings),
        ("admissionregistration.k8s.io", _) => {
            let suffix = ".static.k8s.io";
            if text(new, "/metadata/name").ends_with(suffix) {
                warnings.push(format!(
                    "metadata.name: names ending with {suffix:?} are reserved for static manifest-based configurations and cannot be \
                     managed via the API"
                ));
            }
        }
        _ => {}
    }
    warnings
}

/// The value of an annotation.
fn annotation<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    object["metadata"]["annotations"].get(key)?.as_str()
}

/// The keys of the map at a JSON pointer.
fn keys<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v String> {
    at(value, pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|it| it.keys())
}

/// A name that becomes a part of other names.
fn name(of: &str, new: &Value, warnings: &mut Vec<String>) {
    let wrong = label_errors(text(new, "/metadata/name"));
    if !wrong.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {of}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
}

/// Why a label of nodes should not be used any more.
fn node_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

/// The terms of a node affinity; those that are only preferred are not checked otherwise.
fn node_term(term: &Value, preferred: bool, place: &str, warnings: &mut Vec<String>) {
    for (index, expression) in list(term, "/matchExpressions").iter().enumerate() {
        let key = text(expression, "/key");
        let field = format!("{place}.matchExpressions[{index}]");
        warnings.extend(node_label(key).map(|it| format!("{field}.key: {key} is {it}")));
        let values = list(expression, "/values").iter().enumerate().filter(|_| preferred);
        for (index, value) in values {
            let value = value.as_str().unwrap_or_default();
            let wrong = label_value_errors(value);
            warnings.extend(
                wrong
                    .iter()
                    .map(|it| format!("{field}.values[{index}]: {value} is invalid, {it}")),
            );
        }
    }
}

fn node_selector(selector: &Value, place: &str, warnings: &mut Vec<String>) {
    node_term(selector, false, place, warnings);
    for key in keys(selector, "/matchLabels") {
        warnings.extend(node_label(key).map(|it| format!("{place}.matchLabels.{key}: {it}")));
    }
}

/// An amount of bytes that is no whole number of them.
fn fraction_of_bytes(amount: &Value, field: &str, warnings: &mut Vec<String>) {
    let text = amount.as_str().unwrap_or_default();
    if quantity::milli(text).is_some_and(|it| it % 1000 != 0) {
        warnings.push(format!(
            "{field}: fractional byte value {text:?} is invalid, must be an integer"
        ));
    }
}

fn deprecated_annotations(object: &Value, known: &[(&str, &str)], place: &str, warnings: &mut Vec<String>) {
    let found = known.iter().filter(|(key, _)| annotation(object, key).is_some());
    warnings.extend(found.map(|(key, why)| format!("{place}metadata.annotations[{key}]: {why}")));
}

const BETA_CLASS: (&str, &str) = (
    "volume.beta.kubernetes.io/storage-class",
    "deprecated since v1.8; use \"storageClassName\" attribute instead",
);

fn claim(spec: &Value, place: &str, warnings: &mut Vec<String>) {
    for which in ["requests", "limits"] {
        let field = format!("{place}.resources.{which}[storage]");
        fraction_of_bytes(&spec["resources"][which]["storage"], &field, warnings);
    }
}

/// Kinds of volumes that nothing mounts any more, with what is to be said of them.
fn removed_volumes(spec: &Value, place: &str, known: &[(&str, &str)], warnings: &mut Vec<String>) {
    let found = known.iter().filter(|(kind, _)| !spec[kind].is_null());
    warnings.extend(found.map(|(kind, why)| format!("{place}.{kind}: deprecated in {why}")));
}

fn volume(new: &Value, warnings: &mut Vec<String>) {
    const MOUNT_OPTIONS: (&str, &str) = (
        "volume.beta.kubernetes.io/mount-options",
        "deprecated since v1.31; use \"mountOptions\" attribute instead",
    );
    deprecated_annotations(new, &[BETA_CLASS, MOUNT_OPTIONS], "", warnings);
    if text(new, "/spec/persistentVolumeReclaimPolicy") == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use \
             dynamic provisioning."
                .to_owned(),
        );
    }
    let terms = "spec.nodeAffinity.required.nodeSelectorTerms";
    for (index, term) in list(new, "/spec/nodeAffinity/required/nodeSelectorTerms")
        .iter()
        .enumerate()
    {
        node_term(term, false, &format!("{terms}[{index}]"), warnings);
    }
    const REMOVED: [(&str, &str); 6] = [
        ("cephfs", "v1.28, non-functional in v1.31+"),
        ("photonPersistentDisk", "v1.11, non-functional in v1.16+"),
        ("scaleIO", "v1.16, non-functional in v1.22+"),
        ("storageos", "v1.22, non-functional in v1.25+"),
        ("glusterfs", "v1.25, non-functional in v1.26+"),
        ("rbd", "v1.28, non-functional in v1.31+"),
    ];
    removed_volumes(&new["spec"], "spec", &REMOVED, warnings);
}

fn stateful_set(new: &Value, created: bool, changed: bool, warnings: &mut Vec<String>) {
    if changed {
        pods::pod(&new["spec"]["template"], "spec.template.", warnings);
    }
    let last = if created { "" } else { ".Spec" };
    for (index, template) in list(new, "/spec/volumeClaimTemplates").iter().enumerate() {
        let place = format!("spec.volumeClaimTemplates[{index}]{last}");
        claim(&template["spec"], &place, warnings);
    }
    if new["spec"]["revisionHistoryLimit"].as_i64().is_some_and(|it| it < 0) {
        warnings.push(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                .to_owned(),
        );
    }
}

fn job(spec: &Value, place: &str, warnings: &mut Vec<String>) {
    let number = |key: &str| spec[key].as_i64().unwrap_or_default();
    if spec["completionMode"] == "Indexed" && number("completions") > 100_000 && number("parallelism") > 10_000 {
        warnings.push(format!(
            "{place}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not \
             be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    pods::pod(&spec["template"], &format!("{place}.template."), warnings);
}

fn service(new: &Value, warnings: &mut Vec<String>) {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    if annotation(new, HINTS).is_some() {
        warnings.push(format!(
            "annotation {HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    let kind = text(new, "/spec/type");
    let headless = kind == "ClusterIP" && text(new, "/spec/clusterIP") == "None";
    let given = |key: &str| !text(new, key).is_empty();
    let external = list(new, "/spec/externalIPs");
    if !headless {
        addresses::addresses(list(new, "/spec/clusterIPs"), "spec.clusterIPs", warnings);
    }
    let mut ignored = |found: bool, field: &str| {
        if headless && found {
            warnings.push(format!("spec.{field} is ignored for headless services"));
        }
    };
    ignored(given("/spec/loadBalancerIP"), "loadBalancerIP");
    ignored(!external.is_empty(), "externalIPs");
    ignored(text(new, "/spec/sessionAffinity") != "None", "SessionAffinity");
    addresses::addresses(external, "spec.externalIPs", warnings);
    if !external.is_empty() && !headless && kind != "ExternalName" {
        warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if given("/spec/loadBalancerIP") {
        addresses::address(text(new, "/spec/loadBalancerIP"), "spec.loadBalancerIP", warnings);
    }
    for (index, range) in list(new, "/spec/loadBalancerSourceRanges").iter().enumerate() {
        let range = range.as_str().unwrap_or_default();
        addresses::range(range, &format!("spec.loadBalancerSourceRanges[{index}]"), warnings);
    }
    if kind == "ExternalName" && !external.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && given("/spec/externalName") {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text(new, "/spec/trafficDistribution") == "PreferClose" {
        warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
}

fn node(new: &Value, warnings: &mut Vec<String>) {
    if at(new, "/spec/configSource").is_some() {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !text(new, "/spec/externalID").is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    for (index, range) in list(new, "/spec/podCIDRs").iter().enumerate() {
        let range = range.as_str().unwrap_or_default();
        addresses::range(range, &format!("spec.podCIDRs[{index}]"), warnings);
    }
}

fn quota(new: &Value, warnings: &mut Vec<String>) {
    let hard = &new["spec"]["hard"];
    for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let mut asked = format!("requests.{resource}");
        // These two may be named without what is meant.
        if hard.get(&asked).is_none() && matches!(resource, "cpu" | "memory") {
            resource.clone_into(&mut asked);
        }
        let most = format!("limits.{resource}");
        let amount = |key: &str| hard.get(key).and_then(Value::as_str);
        if let (Some(request), Some(limit)) = (amount(&asked), amount(&most))
            && quantity::milli(request) > quantity::milli(limit)
        {
            warnings.push(format!(
                "ResourceQuota {asked} ({request}) should be less than {most} ({limit})"
            ));
        }
    }
}

fn endpoint_slice(new: &Value, created: bool, warnings: &mut Vec<String>) {
    if created && text(new, "/addressType") == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let by = new["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"].as_str();
    // These two have put right what they were given.
    if matches!(
        by,
        Some("endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io")
    ) || text(new, "/addressType") == "FQDN"
    {
        return;
    }
    for (index, endpoint) in list(new, "/endpoints").iter().enumerate() {
        let field = format!("endpoints[{index}].addresses");
        addresses::addresses(list(endpoint, "/addresses"), &field, warnings);
    }
}

fn storage_class(new: &Value, warnings: &mut Vec<String>) {
    for (index, topology) in list(new, "/allowedTopologies").iter().enumerate() {
        for (term, expression) in list(topology, "/matchLabelExpressions").iter().enumerate() {
            let field = format!("allowedTopologies[{index}].matchLabelExpressions[{term}].key");
            warnings.extend(node_label(text(expression, "/key")).map(|it| format!("{field}: {it}")));
        }
    }
}

fn driver(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    if changed(new, old, "/spec/tokenRequests")
        && !list(new, "/spec/tokenRequests").is_empty()
        && at(new, "/spec/serviceAccountTokenInSecrets").is_none()
    {
        warnings.push(
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens \
             in volume attributes"
                .to_owned(),
        );
    }
}

#[cfg(test)]
mod tests;
