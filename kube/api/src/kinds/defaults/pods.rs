//! Defaults of pods and of every pod template.

use super::{entry, items, member, set, text_of};
use crate::pod_resources::{Amounts, add, amounts};
use kube_store::schema::quantity;
use serde_json::{Map, Value, json};

/// Defaults of a pod template.
pub fn template(template: &mut Map<String, Value>) {
    spec(entry(template, "spec"));
}

/// Defaults of a pod itself, which has more than a template: tolerations, priority, requests and a status.
pub fn pod(object: &mut Map<String, Value>) {
    let pod_spec = entry(object, "spec");
    spec(pod_spec);
    set(pod_spec, "enableServiceLinks", true);
    // A template keeps a negative one.
    if pod_spec
        .get("terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|it| it < 0)
    {
        pod_spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
    set(pod_spec, "priority", 0);
    set(pod_spec, "preemptionPolicy", "PreemptLowerPriority");
    let host_network = pod_spec.get("hostNetwork") == Some(&json!(true));
    for list in ["initContainers", "containers"] {
        for container in items(pod_spec, list) {
            requests(container);
            if host_network {
                for port in items(container, "ports") {
                    let number = port.get("containerPort").cloned().unwrap_or(json!(0));
                    set(port, "hostPort", number);
                }
            }
        }
    }
    tolerations(pod_spec);
    let class = quality(pod_spec);
    let status = entry(object, "status");
    set(status, "phase", "Pending");
    set(status, "qosClass", class);
    addresses(status);
}

/// A pod's address and the first of its addresses are the same; of two the one that stands alone counts.
fn addresses(status: &mut Map<String, Value>) {
    let first = status.get("podIPs").and_then(|it| it[0]["ip"].as_str()).unwrap_or("");
    match text_of(status, "podIP").to_owned() {
        own if own == first => {}
        own if own.is_empty() => {
            let first = first.to_owned();
            status.insert("podIP".to_owned(), first.into());
        }
        own => {
            status.insert("podIPs".to_owned(), json!([{"ip": own}]));
        }
    }
}

/// Limits stand in for missing requests.
fn requests(container: &mut Map<String, Value>) {
    let resources = entry(container, "resources");
    let limits = member(resources, "limits").map(|it| it.clone()).unwrap_or_default();
    for (key, value) in limits {
        set(entry(resources, "requests"), &key, value);
    }
}

fn tolerations(spec: &mut Map<String, Value>) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let list = spec.entry("tolerations").or_insert_with(|| json!([]));
        let Some(list) = list.as_array_mut() else { return };
        let has = |it: &Value| {
            let (its_key, effect) = (it["key"].as_str().unwrap_or(""), it["effect"].as_str().unwrap_or(""));
            (its_key == key || its_key.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        };
        if !list.iter().any(has) {
            list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
}

/// Which pods go first when there is not enough: who asked for nothing, and who is never given more than they asked
/// for. Nothing of a resource is the same as not naming it.
fn quality(spec: &Map<String, Value>) -> &'static str {
    let asked = |resources: &Value, kind: &str| -> Amounts {
        let mut asked = amounts(resources, kind);
        asked.retain(|name, it| ["cpu", "memory"].contains(&name.as_str()) && quantity::milli(it) > Some(0));
        asked
    };
    let (mut requests, mut limits, mut bounded) = (Amounts::new(), Amounts::new(), true);
    let containers = ["containers", "initContainers"]
        .into_iter()
        .filter_map(|it| spec.get(it));
    for container in containers.filter_map(Value::as_array).flatten() {
        let own = asked(&container["resources"], "limits");
        bounded &= own.len() == 2;
        add(&mut limits, &own);
        add(&mut requests, &asked(&container["resources"], "requests"));
    }
    let same = |(name, it): (&String, &String)| {
        let limit = limits.get(name).map(|it| quantity::milli(it));
        limit == Some(quantity::milli(it))
    };
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if bounded && requests.len() == limits.len() && requests.iter().all(same) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

fn spec(spec: &mut Map<String, Value>) {
    set(spec, "restartPolicy", "Always");
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "terminationGracePeriodSeconds", 30);
    set(spec, "schedulerName", "default-scheduler");
    entry(spec, "securityContext");
    // The old name of the field is kept equal to the new one.
    let account = [text_of(spec, "serviceAccountName"), text_of(spec, "serviceAccount")]
        .into_iter()
        .find(|it| !it.is_empty());
    if let Some(account) = account.map(str::to_owned) {
        spec.insert("serviceAccountName".to_owned(), account.clone().into());
        spec.insert("serviceAccount".to_owned(), account.into());
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        items(spec, list).for_each(container);
    }
    items(spec, "volumes").for_each(volume);
}

/// Whether an image names the moving tag, by itself or by naming none.
fn is_latest(image: &str) -> bool {
    let (name, digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => !digest,
    }
}

fn container(container: &mut Map<String, Value>) {
    let policy = if is_latest(text_of(container, "image")) {
        "Always"
    } else {
        "IfNotPresent"
    };
    set(container, "imagePullPolicy", policy);
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    entry(container, "resources");
    super::protocols(container);
    for variable in items(container, "env") {
        if let Some(source) = member(variable, "valueFrom") {
            field_ref(source);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = member(container, probe) {
            for (key, value) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                set(probe, key, value);
            }
            http_get(probe);
            if let Some(grpc) = member(probe, "grpc") {
                set(grpc, "service", "");
            }
        }
    }
    if let Some(lifecycle) = member(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = member(lifecycle, hook) {
                http_get(hook);
            }
        }
    }
}

fn http_get(handler: &mut Map<String, Value>) {
    if let Some(get) = member(handler, "httpGet") {
        if text_of(get, "path").is_empty() {
            get.insert("path".to_owned(), "/".into());
        }
        set(get, "scheme", "HTTP");
    }
}

fn field_ref(source: &mut Map<String, Value>) {
    if let Some(field) = member(source, "fieldRef") {
        set(field, "apiVersion", "v1");
    }
    if let Some(field) = member(source, "resourceFieldRef") {
        set(field, "divisor", "0");
    }
}

fn volume(volume: &mut Map<String, Value>) {
    if volume.keys().all(|it| it == "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for source in ["secret", "configMap", "projected", "downwardAPI"] {
        if let Some(source) = member(volume, source) {
            set(source, "defaultMode", 420);
        }
    }
    if let Some(source) = member(volume, "downwardAPI") {
        items(source, "items").for_each(field_ref);
    }
    if let Some(projected) = member(volume, "projected") {
        for source in items(projected, "sources") {
            if let Some(token) = member(source, "serviceAccountToken") {
                set(token, "expirationSeconds", 3600);
            }
            if let Some(fields) = member(source, "downwardAPI") {
                items(fields, "items").for_each(field_ref);
            }
        }
    }
    super::volumes::source(volume);
    if let Some(claim) = member(volume, "ephemeral").and_then(|it| member(it, "volumeClaimTemplate")) {
        entry(claim, "metadata");
        super::volumes::claim_spec(entry(claim, "spec"));
    }
}

#[cfg(test)]
mod tests {
    use super::is_latest;

    #[test]
    fn an_image_without_a_tag_is_the_latest() {
        let table = [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.25", false),
            ("registry:5000/nginx", true),
            ("registry:5000/nginx:1", false),
            ("nginx@sha256:0123", false),
        ];
        for (image, want) in table {
            assert_eq!(is_latest(image), want, "{image}");
        }
    }
}
