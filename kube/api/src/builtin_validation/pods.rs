//! What a pod is made of, whether it stands alone or in a template.

use super::{
    addresses::address,
    containers::{Setting, container},
    label, list, pod_annotations, qualified_name, resources, scheduling, security, subdomain, supported, text,
    volumes::volumes,
    windows,
};
use kube_store::{
    schema::metadata::{validate_annotations, validate_labels},
    status::FieldError,
};
use serde_json::{Value, json};
use std::collections::HashSet;

const RESTARTS: [&str; 3] = ["Always", "OnFailure", "Never"];

/// Whether a spec is that of a pod, or of pods to come, which is still to be completed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Pod,
    Template,
}

/// Errors of a template of pods.
pub(super) fn template(template: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let metadata = &template["metadata"];
    errors.extend(validate_labels(&metadata["labels"], &format!("{field}.labels")));
    errors.extend(validate_annotations(
        &metadata["annotations"],
        &format!("{field}.annotations"),
    ));
    let annotations = &metadata["annotations"];
    pod_annotations::annotations(
        annotations,
        None,
        &template["spec"],
        &format!("{field}.annotations"),
        errors,
    );
    let place = format!("{field}.spec");
    pod_spec(&template["spec"], Of::Template, &place, errors);
    pod_annotations::as_fields(annotations, &template["spec"], &place, errors);
    if !list(template, "/spec/ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(
            format!("{field}.spec.ephemeralContainers"),
            detail,
        ));
    }
}

pub(super) fn pod_spec(spec: &Value, of: Of, field: &str, errors: &mut Vec<FieldError>) {
    let volumes = volumes(spec, field, errors);
    let claims = resources::claims_of_pod(spec, field, errors);
    if list(spec, "/containers").is_empty() {
        errors.push(FieldError::required(format!("{field}.containers"), ""));
    }
    let mut names = HashSet::new();
    let setting = Setting {
        volumes,
        claims,
        grace: spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64),
        host_users: spec["hostUsers"] != false,
    };
    for kind in ["containers", "initContainers"] {
        let mut host_ports = HashSet::new();
        for (at, container) in list(spec, &format!("/{kind}")).iter().enumerate() {
            let place = format!("{field}.{kind}[{at}]");
            let name = text(container, "/name");
            if name.is_empty() {
                errors.push(FieldError::required(format!("{place}.name"), ""));
            } else {
                label(name, &format!("{place}.name"), errors);
                if !names.insert(name) {
                    errors.push(FieldError::duplicate(format!("{place}.name"), &json!(name)));
                }
            }
            if kind == "initContainers" {
                host_ports.clear();
            }
            host_port_errors(container, &place, &mut host_ports, errors);
            self::container(container, &place, kind == "initContainers", &setting, errors);
        }
    }
    resources::of_pod(spec, &setting.claims, field, errors);
    if spec["hostNetwork"] == true {
        ports_of_the_node(spec, of, field, errors);
    }
    supported(
        &json!(text(spec, "/restartPolicy")),
        format!("{field}.restartPolicy"),
        &RESTARTS,
        errors,
    );
    const DNS: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    let dns = text(spec, "/dnsPolicy");
    supported(&json!(dns), format!("{field}.dnsPolicy"), &DNS, errors);
    errors.extend(validate_labels(&spec["nodeSelector"], &format!("{field}.nodeSelector")));
    security::of_pod(spec, field, errors);
    scheduling::affinity(&spec["affinity"], &format!("{field}.affinity"), errors);
    dns_config(&spec["dnsConfig"], dns, &format!("{field}.dnsConfig"), errors);
    gates(spec, field, errors);
    let constraints = list(spec, "/topologySpreadConstraints");
    scheduling::spread(constraints, &format!("{field}.topologySpreadConstraints"), errors);
    windows::host_processes(spec, field, errors);
    security::own_users(spec, field, errors);
    host_name(spec, field, errors);
    for key in ["serviceAccountName", "nodeName"] {
        name_of_other(spec, key, field, errors);
    }
    let seconds = spec["activeDeadlineSeconds"].as_i64();
    if seconds.is_some_and(|it| !(1..=i64::from(i32::MAX)).contains(&it)) {
        let detail = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid(
            format!("{field}.activeDeadlineSeconds"),
            &json!(seconds),
            detail,
        ));
    }
    for key in ["hostname", "subdomain"] {
        let name = text(spec, &format!("/{key}"));
        if !name.is_empty() {
            label(name, &format!("{field}.{key}"), errors);
        }
    }
    scheduling::tolerations(list(spec, "/tolerations"), &format!("{field}.tolerations"), errors);
    for (at, alias) in list(spec, "/hostAliases").iter().enumerate() {
        let field = format!("{field}.hostAliases[{at}]");
        address(text(alias, "/ip"), &format!("{field}.ip"), errors);
        for (at, name) in list(alias, "/hostnames").iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            subdomain(name, &format!("{field}.hostnames[{at}]"), errors);
        }
    }
    for key in ["priorityClassName", "runtimeClassName"] {
        name_of_other(spec, key, field, errors);
    }
    let preemption = &spec["preemptionPolicy"];
    if !preemption.is_null() {
        let known = ["PreemptLowerPriority", "Never"];
        supported(preemption, format!("{field}.preemptionPolicy"), &known, errors);
    }
    if spec["overhead"].is_object() {
        // It is checked as the limits of a container, and told so.
        let limits = json!({"limits": spec["overhead"]});
        resources::of_container(&limits, &resources::Claims::new(), &format!("{field}.overhead"), errors);
    }
    let os = &spec["os"];
    if os.is_object() {
        match text(os, "/name") {
            "" => errors.push(FieldError::required(format!("{field}.os.name"), "")),
            name => supported(&json!(name), format!("{field}.os"), &["linux", "windows"], errors),
        }
        windows::system(spec, field, errors);
    }
    files(spec, field, errors);
}

/// Errors of the name that the containers of a pod see as that of their host.
fn host_name(spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    const LENGTH_MAX: usize = 64;
    let Some(name) = spec["hostnameOverride"].as_str() else {
        return;
    };
    let field = format!("{place}.hostnameOverride");
    for key in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec[key] == true {
            let detail = format!("may not be specified when {key} is true");
            errors.push(FieldError::forbidden(&field, detail));
        }
    }
    if name.len() > LENGTH_MAX {
        errors.push(FieldError::too_long(&field, LENGTH_MAX));
    }
    subdomain(name, &field, errors);
}

/// Variables come from files in a volume that lives with the pod.
fn files(spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for (container, place) in pod_annotations::containers(spec, place) {
        for (at, variable) in list(container, "/env").iter().enumerate() {
            let Some(name) = variable.pointer("/valueFrom/fileKeyRef/volumeName") else {
                continue;
            };
            let field = format!("{place}.env[{at}].valueFrom.fileKeyRef.volumeName");
            let volume = list(spec, "/volumes").iter().rfind(|it| it["name"] == *name);
            match volume {
                None => errors.push(FieldError::not_found(field, name)),
                Some(it) if !it["emptyDir"].is_object() => {
                    let detail = "referenced volume must be of type emptyDir";
                    errors.push(FieldError::invalid(field, name, detail));
                }
                Some(_) => {}
            }
        }
    }
}

/// A port of the node is given once.
fn host_port_errors(container: &Value, place: &str, taken: &mut HashSet<String>, errors: &mut Vec<FieldError>) {
    for (at, port) in list(container, "/ports").iter().enumerate() {
        let number = port["hostPort"].as_i64().unwrap_or_default();
        let whole = format!("{}/{}/{number}", text(port, "/protocol"), text(port, "/hostIP"));
        if number != 0 && !taken.insert(whole.clone()) {
            let field = format!("{place}.ports[{at}].hostPort");
            errors.push(FieldError::duplicate(field, &json!(whole)));
        }
    }
}

/// A pod in the network of its node has no other ports than the node.
fn ports_of_the_node(spec: &Value, of: Of, place: &str, errors: &mut Vec<FieldError>) {
    for (at, container) in list(spec, "/containers").iter().enumerate() {
        for (number, port) in list(container, "/ports").iter().enumerate() {
            let host = port["hostPort"].as_i64().unwrap_or_default();
            // One that is absent is given to a pod by the defaults, to which a template has not come yet.
            if host == 0 && (of == Of::Template || port["hostPort"].is_null()) {
                continue;
            }
            if host != port["containerPort"].as_i64().unwrap_or_default() {
                let field = format!("{place}.containers[{at}].ports[{number}].hostPort");
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(field, &json!(host), detail));
            }
        }
    }
}

fn dns_config(config: &Value, policy: &str, place: &str, errors: &mut Vec<FieldError>) {
    const SERVERS_MAX: usize = 3;
    const SEARCHES_MAX: usize = 32;
    const SEARCH_BYTES_MAX: usize = 2048;
    let servers = list(config, "/nameservers");
    if policy == "None" && config.is_null() {
        errors.push(FieldError::required(
            place,
            "must provide `dnsConfig` when `dnsPolicy` is None",
        ));
        return;
    }
    let field = format!("{place}.nameservers");
    if policy == "None" && servers.is_empty() {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.push(FieldError::required(field, detail));
        return;
    }
    if servers.len() > SERVERS_MAX {
        let detail = format!("must not have more than {SERVERS_MAX} nameservers");
        errors.push(FieldError::invalid(&field, &json!(servers), detail));
    }
    for (at, server) in servers.iter().enumerate() {
        address(server.as_str().unwrap_or_default(), &format!("{field}[{at}]"), errors);
    }
    let searches = list(config, "/searches");
    let bytes = searches
        .iter()
        .filter_map(Value::as_str)
        .map(|it| it.len() + 1)
        .sum::<usize>();
    let too_many = format!("must not have more than {SEARCHES_MAX} search paths");
    let too_long =
        format!("must not have more than {SEARCH_BYTES_MAX} characters (including spaces) in the search list");
    let field = format!("{place}.searches");
    for (broken, detail) in [
        (searches.len() > SEARCHES_MAX, too_many),
        (bytes > SEARCH_BYTES_MAX + 1, too_long),
    ] {
        if broken {
            errors.push(FieldError::invalid(&field, &json!(searches), detail));
        }
    }
    for (at, search) in searches.iter().filter_map(Value::as_str).enumerate() {
        if search == "." {
            continue;
        }
        let search = search.strip_suffix('.').unwrap_or(search);
        let wrong = underscored_subdomain_errors(search);
        errors.extend(
            wrong
                .iter()
                .map(|it| FieldError::invalid(format!("{field}[{at}]"), &json!(search), it)),
        );
    }
    for (at, option) in list(config, "/options").iter().enumerate() {
        if text(option, "/name").is_empty() {
            errors.push(FieldError::required(
                format!("{place}.options[{at}]"),
                "must not be empty",
            ));
        }
    }
}

/// What is wrong with a subdomain that may have underscores.
fn underscored_subdomain_errors(name: &str) -> Vec<String> {
    const LENGTH_MAX: usize = 253;
    let is_edge = |it: Option<&u8>| it.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
    let is_part = |part: &str| {
        let bytes = part.strip_prefix('_').unwrap_or(part).as_bytes();
        let inner = |it: &u8| is_edge(Some(it)) || b"-_".contains(it);
        is_edge(bytes.first()) && is_edge(bytes.last()) && bytes.iter().all(inner)
    };
    let mut errors = Vec::new();
    if name.len() > LENGTH_MAX {
        errors.push(format!("must be no more than {LENGTH_MAX} characters"));
    }
    if !name.split('.').all(is_part) {
        errors.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with \
             an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    errors
}

/// Errors of what a pod waits for.
fn gates(spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for (at, gate) in list(spec, "/readinessGates").iter().enumerate() {
        let field = format!("{place}.readinessGates[{at}].conditionType");
        qualified_name(text(gate, "/conditionType"), &field, errors);
    }
    let mut names = HashSet::new();
    for (at, gate) in list(spec, "/schedulingGates").iter().enumerate() {
        let (name, field) = (text(gate, "/name"), format!("{place}.schedulingGates[{at}]"));
        qualified_name(name, &field, errors);
        if !names.insert(name) {
            errors.push(FieldError::duplicate(field, &json!(name)));
        }
    }
}

/// Errors of the name of what a pod runs on, or as.
fn name_of_other(spec: &Value, key: &str, place: &str, errors: &mut Vec<FieldError>) {
    let name = text(spec, &format!("/{key}"));
    if !name.is_empty() {
        subdomain(name, &format!("{place}.{key}"), errors);
    }
}
