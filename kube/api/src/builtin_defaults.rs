//! Defaults of the kinds that Kubernetes itself brings. Clients compare what they sent with what they read, so the
//! same members must appear. Pure: what needs the rest of the store (addresses, ports) is allocated elsewhere.

mod nodes;
mod pods;
mod volumes;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

/// Fills in the defaults of a built-in kind in place. `value` is decoded; running it again changes nothing.
pub fn default(group: &str, kind: &str, value: &mut Value) {
    let Some(object) = value.as_object_mut() else { return };
    match (group, kind) {
        ("", "Pod") => pods::pod(object),
        ("", "PodTemplate") => pods::template(entry(object, "template")),
        ("", "Secret") => secret(object),
        ("", "Service") => service(object),
        ("", "Namespace") => namespace(object),
        ("", "Event") => event(object),
        ("events.k8s.io", "Event") => {
            for key in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"] {
                set(object, key, Value::Null);
            }
            entry(object, "deprecatedSource");
            entry(object, "regarding");
        }
        ("", "PersistentVolumeClaim") => volumes::claim(object),
        ("", "PersistentVolume") => set(entry(object, "status"), "phase", "Pending"),
        ("", "Endpoints") => {
            for subset in items(object, "subsets") {
                protocols(subset);
            }
        }
        ("", "ReplicationController") => replication_controller(object),
        ("", "Node") => nodes::node(object),
        ("", "ResourceQuota") => {
            entry(object, "spec");
            entry(object, "status");
        }
        ("apps", "Deployment") => deployment(object),
        ("apps", "ReplicaSet") => {
            let spec = entry(object, "spec");
            set(spec, "replicas", 1);
            pods::template(entry(spec, "template"));
            set(entry(object, "status"), "replicas", 0);
        }
        ("apps", "ControllerRevision") => set(object, "revision", 0),
        ("apps", "DaemonSet") => daemon_set(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("batch", "Job") => job(object),
        ("batch", "CronJob") => cron_job(object),
        // Members that Go does not leave out.
        ("autoscaling", "HorizontalPodAutoscaler") => {
            let is_older = text(object, "apiVersion") == "autoscaling/v1";
            let status = entry(object, "status");
            set(status, "desiredReplicas", 0);
            match is_older {
                true => set(status, "currentReplicas", 0),
                false => set(status, "currentMetrics", Value::Null),
            }
            entry(object, "spec");
        }
        // A list that Go does not leave out.
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => set(object, "rules", Value::Null),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => binding(object),
        ("coordination.k8s.io", "Lease") => {
            entry(object, "spec");
        }
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => webhooks(object, false),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => webhooks(object, true),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy") => {
            let spec = entry(object, "spec");
            set(spec, "failurePolicy", "Fail");
            if let Some(constraints) = member(spec, "matchConstraints") {
                match_resources(constraints);
            }
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding") => {
            if let Some(resources) = member(entry(object, "spec"), "matchResources") {
                match_resources(resources);
            }
        }
        ("apiregistration.k8s.io", "APIService") => {
            if let Some(service) = member(entry(object, "spec"), "service") {
                set(service, "port", 443);
            }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => kube_store::schema::structural::default_crd(value),
        ("authentication.k8s.io", "TokenRequest") => set(entry(object, "spec"), "expirationSeconds", 3600),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            entry(object, "status");
        }
        ("discovery.k8s.io", "EndpointSlice") => {
            for endpoint in items(object, "endpoints") {
                entry(endpoint, "conditions");
            }
            for port in items(object, "ports") {
                set(port, "name", "");
                set(port, "protocol", "TCP");
            }
        }
        ("networking.k8s.io", "Ingress") => {
            entry(entry(object, "status"), "loadBalancer");
        }
        ("policy", "PodDisruptionBudget") => {
            let status = entry(object, "status");
            for counter in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
                set(status, counter, 0);
            }
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            set(object, "preemptionPolicy", "PreemptLowerPriority");
            // Go does not leave it out.
            set(object, "value", 0);
        }
        // As `rules` above, and as `revision` of a ControllerRevision: there without being said.
        ("storage.k8s.io", "CSINode") => set(entry(object, "spec"), "drivers", Value::Null),
        ("storage.k8s.io", "VolumeAttachment") => set(entry(object, "status"), "attached", false),
        _ => {}
    }
}

/// Sets a member that is absent.
fn set(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if !map.contains_key(key) {
        map.insert(key.to_owned(), value.into());
    }
}

/// The object at a key, made when absent. Decoding has checked that nothing else is there.
fn entry<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let slot = map.entry(key).or_insert_with(|| json!({}));
    if !slot.is_object() {
        *slot = json!({});
    }
    slot.as_object_mut().expect("made an object above")
}

/// The object at a key, when there is one.
fn member<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    map.get_mut(key).and_then(Value::as_object_mut)
}

/// The objects of the list at a key.
fn items<'a>(map: &'a mut Map<String, Value>, key: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    map.get_mut(key)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or("")
}

fn protocols(map: &mut Map<String, Value>) {
    items(map, "ports").for_each(|port| set(port, "protocol", "TCP"));
}

fn secret(object: &mut Map<String, Value>) {
    if let Some(Value::Object(strings)) = object.remove("stringData") {
        let data = entry(object, "data");
        for (key, value) in strings {
            data.insert(key, STANDARD.encode(value.as_str().unwrap_or("")).into());
        }
    }
    set(object, "type", "Opaque");
}

fn namespace(object: &mut Map<String, Value>) {
    let meta = entry(object, "metadata");
    let name = text(meta, "name").to_owned();
    if !name.is_empty() {
        entry(meta, "labels").insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
    let terminating = meta.contains_key("deletionTimestamp");
    let spec = entry(object, "spec");
    if !terminating {
        set(spec, "finalizers", json!(["kubernetes"]));
    }
    set(entry(object, "status"), "phase", "Active");
}

/// Go prints these members of an event even when they are empty.
fn event(object: &mut Map<String, Value>) {
    for key in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        set(object, key, Value::Null);
    }
    entry(object, "involvedObject");
    entry(object, "source");
    set(object, "reportingComponent", "");
    set(object, "reportingInstance", "");
}

fn service(object: &mut Map<String, Value>) {
    let spec = entry(object, "spec");
    set(spec, "type", "ClusterIP");
    set(spec, "sessionAffinity", "None");
    if text(spec, "sessionAffinity") == "ClientIP" {
        set(
            entry(entry(spec, "sessionAffinityConfig"), "clientIP"),
            "timeoutSeconds",
            10800,
        );
    } else if text(spec, "sessionAffinity") == "None" {
        spec.remove("sessionAffinityConfig");
    }
    for port in items(spec, "ports") {
        set(port, "protocol", "TCP");
        let number = port.get("port").cloned();
        let target = port.get("targetPort");
        if target.is_none_or(|it| *it == json!(0) || *it == json!(""))
            && let Some(number) = number
        {
            port.insert("targetPort".to_owned(), number);
        }
    }
    let kind = text(spec, "type").to_owned();
    let cluster_ip = text(spec, "clusterIP").to_owned();
    if !cluster_ip.is_empty() {
        set(spec, "clusterIPs", json!([cluster_ip]));
    }
    if kind == "ExternalName" {
        set(entry(object, "status"), "loadBalancer", json!({}));
        return;
    }
    set(spec, "internalTrafficPolicy", "Cluster");
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
    }
    let selects = spec
        .get("selector")
        .and_then(Value::as_object)
        .is_some_and(|it| !it.is_empty());
    if cluster_ip == "None" && !selects {
        set(spec, "ipFamilyPolicy", "RequireDualStack");
        set(spec, "ipFamilies", json!(["IPv4"]));
        let single = text(spec, "ipFamilyPolicy") == "SingleStack";
        if let Some(Value::Array(families)) = spec.get_mut("ipFamilies").filter(|_| !single)
            && let [one] = families.as_slice()
        {
            let other = if one == "IPv4" { "IPv6" } else { "IPv4" };
            families.push(other.into());
        }
    } else {
        set(spec, "ipFamilyPolicy", "SingleStack");
        // An address of the other family is told of; it is none that was asked for with a wrong family.
        if cluster_ip.parse::<std::net::Ipv6Addr>().is_err() {
            set(spec, "ipFamilies", json!(["IPv4"]));
        }
    }
    let balancer = entry(entry(object, "status"), "loadBalancer");
    if kind == "LoadBalancer" {
        for ingress in items(balancer, "ingress").filter(|it| it.contains_key("ip")) {
            set(ingress, "ipMode", "VIP");
        }
    }
}

fn replication_controller(object: &mut Map<String, Value>) {
    let spec = entry(object, "spec");
    set(spec, "replicas", 1);
    // Of the workloads it is the only one whose template may be absent, which is then said.
    if let Some(template) = member(spec, "template") {
        pods::template(template);
    }
    let labels = spec.get("template").and_then(|it| it.pointer("/metadata/labels"));
    let labels = labels.filter(|it| it.is_object()).cloned();
    if let Some(labels) = labels {
        set(spec, "selector", labels.clone());
        set(entry(object, "metadata"), "labels", labels);
    }
    set(entry(object, "status"), "replicas", 0);
}

fn deployment(object: &mut Map<String, Value>) {
    let spec = entry(object, "spec");
    set(spec, "replicas", 1);
    set(spec, "revisionHistoryLimit", 10);
    set(spec, "progressDeadlineSeconds", 600);
    let strategy = entry(spec, "strategy");
    set(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = entry(strategy, "rollingUpdate");
        set(rolling, "maxUnavailable", "25%");
        set(rolling, "maxSurge", "25%");
    }
    pods::template(entry(spec, "template"));
    entry(object, "status");
}

fn daemon_set(object: &mut Map<String, Value>) {
    let spec = entry(object, "spec");
    set(spec, "revisionHistoryLimit", 10);
    let strategy = entry(spec, "updateStrategy");
    set(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = entry(strategy, "rollingUpdate");
        set(rolling, "maxUnavailable", 1);
        set(rolling, "maxSurge", 0);
    }
    pods::template(entry(spec, "template"));
    set(
        entry(entry(object, "metadata"), "annotations"),
        "deprecated.daemonset.template.generation",
        "1",
    );
    let status = entry(object, "status");
    for counter in [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
    ] {
        set(status, counter, 0);
    }
}

fn stateful_set(object: &mut Map<String, Value>) {
    let spec = entry(object, "spec");
    set(spec, "replicas", 1);
    set(spec, "podManagementPolicy", "OrderedReady");
    // Go does not leave it out.
    set(spec, "serviceName", "");
    set(spec, "revisionHistoryLimit", 10);
    let strategy = entry(spec, "updateStrategy");
    set(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        set(entry(strategy, "rollingUpdate"), "partition", 0);
    }
    // Kubernetes knows the field, and has it switched off: what it says is lost there, too.
    if let Some(update) = member(strategy, "rollingUpdate") {
        update.remove("maxUnavailable");
    }
    let policy = entry(spec, "persistentVolumeClaimRetentionPolicy");
    set(policy, "whenDeleted", "Retain");
    set(policy, "whenScaled", "Retain");
    for claim in items(spec, "volumeClaimTemplates") {
        set(claim, "kind", "PersistentVolumeClaim");
        set(claim, "apiVersion", "v1");
        volumes::claim(claim);
    }
    pods::template(entry(spec, "template"));
    let status = entry(object, "status");
    set(status, "replicas", 0);
    set(status, "availableReplicas", 0);
}

fn job(object: &mut Map<String, Value>) {
    let spec = entry(object, "spec");
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    let per_index = spec.contains_key("backoffLimitPerIndex");
    set(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    let has_policy = spec.contains_key("podFailurePolicy");
    set(
        spec,
        "podReplacementPolicy",
        if has_policy { "Failed" } else { "TerminatingOrFailed" },
    );
    set(spec, "manualSelector", false);
    failure_policy(spec);
    pods::template(entry(spec, "template"));
    job_selector(object);
    entry(object, "status");
}

/// What a failed pod means: a condition that only names its type is one that is true.
fn failure_policy(spec: &mut Map<String, Value>) {
    let Some(policy) = member(spec, "podFailurePolicy") else {
        return;
    };
    // A list that Go does not leave out.
    set(policy, "rules", Value::Null);
    for rule in items(policy, "rules") {
        items(rule, "onPodConditions").for_each(|it| set(it, "status", "True"));
    }
}

/// A job owns its pods by its own uid; known once the object has one. What a client says of it stays, and is checked later.
fn job_selector(object: &mut Map<String, Value>) {
    let meta = entry(object, "metadata");
    let (uid, name) = (text(meta, "uid").to_owned(), text(meta, "name").to_owned());
    if uid.is_empty() {
        return;
    }
    let spec = entry(object, "spec");
    if spec.get("manualSelector") != Some(&json!(true)) {
        let selected = entry(entry(spec, "selector"), "matchLabels");
        set(selected, "batch.kubernetes.io/controller-uid", uid.as_str());
        let labels = entry(entry(entry(spec, "template"), "metadata"), "labels");
        for (key, value) in [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("controller-uid", &uid),
            ("job-name", &name),
        ] {
            set(labels, key, value.as_str());
        }
    }
    let labels = spec.get("template").and_then(|it| it.pointer("/metadata/labels"));
    let labels = labels.filter(|it| it.is_object()).cloned();
    if let Some(labels) = labels {
        set(entry(object, "metadata"), "labels", labels);
    }
}

fn cron_job(object: &mut Map<String, Value>) {
    let spec = entry(object, "spec");
    set(spec, "concurrencyPolicy", "Allow");
    set(spec, "suspend", false);
    set(spec, "successfulJobsHistoryLimit", 3);
    set(spec, "failedJobsHistoryLimit", 1);
    let job = entry(spec, "jobTemplate");
    entry(job, "metadata");
    let job = entry(job, "spec");
    failure_policy(job);
    let template = entry(job, "template");
    entry(template, "metadata");
    pods::template(template);
    entry(object, "status");
}

fn binding(object: &mut Map<String, Value>) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    for subject in items(object, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") && text(subject, "apiGroup").is_empty() {
            subject.insert("apiGroup".to_owned(), GROUP.into());
        } else if text(subject, "kind") == "ServiceAccount" && text(subject, "apiGroup").is_empty() {
            subject.remove("apiGroup");
        }
    }
    let role = entry(object, "roleRef");
    if text(role, "apiGroup").is_empty() {
        role.insert("apiGroup".to_owned(), GROUP.into());
    }
}

fn webhooks(object: &mut Map<String, Value>, mutating: bool) {
    for webhook in items(object, "webhooks") {
        set(webhook, "failurePolicy", "Fail");
        set(webhook, "timeoutSeconds", 10);
        match_resources(webhook);
        if mutating {
            set(webhook, "reinvocationPolicy", "Never");
        }
        items(webhook, "rules").for_each(|rule| set(rule, "scope", "*"));
        if let Some(service) = member(webhook, "clientConfig").and_then(|it| member(it, "service")) {
            set(service, "port", 443);
        }
    }
}

fn match_resources(map: &mut Map<String, Value>) {
    set(map, "matchPolicy", "Equivalent");
    set(map, "namespaceSelector", json!({}));
    set(map, "objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        items(map, list).for_each(|rule| set(rule, "scope", "*"));
    }
}

#[cfg(test)]
mod tests;
