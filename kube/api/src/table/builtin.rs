//! Columns and cells of the built-in kinds. Facts from Kubernetes `pkg/printers/internalversion/printers.go`.

use super::{
    Column, name_column,
    cells::{
        NONE, UNSET, age, at, at_most_three, containers, count, int_or_string, labels, list, name, number, or,
        selector, text,
    },
    duration::{human_duration, since},
    nodes, pods, workloads,
};
use crate::default_class;
use jiff::Timestamp;
use serde_json::Value;

/// Columns and cells of one built-in kind.
#[derive(Debug)]
pub struct Kind {
    /// Group and resources that print this way.
    resources: &'static [(&'static str, &'static str)],
    /// Names separated by `|`; `:type` follows a name that is no string, `*` marks what only `-o wide` shows.
    columns: &'static str,
    pub(super) cells: fn(&Value, Timestamp) -> Vec<Value>,
}

impl Kind {
    pub(super) fn columns(&self) -> Vec<Column> {
        self.columns.split('|').map(parse_column).collect()
    }
}

fn parse_column(text: &'static str) -> Column {
    let (text, priority) = text.strip_suffix('*').map_or((text, 0), |it| (it, 1));
    let (name, ty) = text.split_once(':').unwrap_or((text, "string"));
    match name {
        "Name" if priority == 0 => name_column(),
        "Created At" => Column {
            description: CREATED.into(),
            ..plain(name, ty, priority)
        },
        "Age" => Column {
            description: CREATED.into(),
            ..plain(name, ty, priority)
        },
        _ => plain(name, ty, priority),
    }
}

const CREATED: &str = "When the object was created; the server sets it.";

fn plain(name: &'static str, ty: &'static str, priority: i64) -> Column {
    Column {
        name: name.into(),
        ty: ty.into(),
        format: "".into(),
        description: "".into(),
        priority,
    }
}

/// How a resource prints; those without columns of their own have name and creation time.
pub fn kind(group: &str, resource: &str) -> &'static Kind {
    KINDS
        .iter()
        .find(|it| it.resources.contains(&(group, resource)))
        .unwrap_or(&PLAIN)
}

#[cfg(test)]
pub(super) fn resources() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.iter().flat_map(|it| it.resources).copied()
}

static PLAIN: Kind = Kind {
    resources: &[],
    columns: "Name|Created At:date",
    cells: |it, _| vec![name(it), text(it, &["metadata", "creationTimestamp"]).into()],
};

const APPS: &str = "apps";
const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

static KINDS: &[Kind] = &[
    Kind {
        resources: &[("", "configmaps")],
        columns: "Name|Data|Age",
        cells: |it, now| {
            vec![
                name(it),
                (count(it, &["data"]) + count(it, &["binaryData"])).into(),
                age(it, now),
            ]
        },
    },
    Kind {
        resources: &[("", "secrets")],
        columns: "Name|Type|Data|Age",
        cells: |it, now| {
            vec![
                name(it),
                text(it, &["type"]).into(),
                count(it, &["data"]).into(),
                age(it, now),
            ]
        },
    },
    Kind {
        resources: &[("", "serviceaccounts")],
        columns: "Name|Age",
        cells: |it, now| vec![name(it), age(it, now)],
    },
    Kind {
        resources: &[("", "namespaces")],
        columns: "Name|Status|Age",
        cells: |it, now| vec![name(it), text(it, &["status", "phase"]).into(), age(it, now)],
    },
    Kind {
        resources: &[("", "nodes")],
        columns: "Name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*",
        cells: nodes::node,
    },
    Kind {
        resources: &[("", "pods")],
        columns: "Name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*",
        cells: pods::pod,
    },
    Kind {
        resources: &[("", "services")],
        columns: "Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*",
        cells: service,
    },
    Kind {
        resources: &[("", "endpoints")],
        columns: "Name|Endpoints|Age",
        cells: endpoints,
    },
    Kind {
        resources: &[("discovery.k8s.io", "endpointslices")],
        columns: "Name|AddressType|Ports|Endpoints|Age",
        cells: endpoint_slice,
    },
    Kind {
        resources: &[("", "events"), ("events.k8s.io", "events")],
        columns: "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*",
        cells: event,
    },
    Kind {
        resources: &[("", "persistentvolumeclaims")],
        columns: "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*",
        cells: nodes::volume_claim,
    },
    Kind {
        resources: &[("", "persistentvolumes")],
        columns: "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|VolumeMode*",
        cells: nodes::volume,
    },
    Kind {
        resources: &[(APPS, "replicasets"), ("", "replicationcontrollers")],
        columns: "Name|Desired:integer|Current:integer|Ready:integer|Age|Containers*|Images*|Selector*",
        cells: workloads::replica_set,
    },
    Kind {
        resources: &[("", "podtemplates")],
        columns: "Name|Containers|Images|Pod Labels",
        cells: |it, _| {
            let (names, images) = containers(it, &["template", "spec", "containers"]);
            vec![
                name(it),
                names,
                images,
                labels(at(it, &["template", "metadata", "labels"])).into(),
            ]
        },
    },
    Kind {
        resources: &[(APPS, "deployments")],
        columns: "Name|Ready|Up-to-date|Available|Age|Containers*|Images*|Selector*",
        cells: workloads::deployment,
    },
    Kind {
        resources: &[(APPS, "daemonsets")],
        columns: "Name|Desired:integer|Current:integer|Ready:integer|Up-to-date:integer|Available:integer|Node Selector|Age|Containers*|Images*|Selector*",
        cells: workloads::daemon_set,
    },
    Kind {
        resources: &[(APPS, "statefulsets")],
        columns: "Name|Ready|Age|Containers*|Images*",
        cells: workloads::stateful_set,
    },
    Kind {
        resources: &[(APPS, "controllerrevisions")],
        columns: "Name|Controller|Revision|Age",
        cells: workloads::controller_revision,
    },
    Kind {
        resources: &[("batch", "jobs")],
        columns: "Name|Status|Completions|Duration|Age|Containers*|Images*|Selector*",
        cells: workloads::job,
    },
    Kind {
        resources: &[("batch", "cronjobs")],
        columns: "Name|Schedule|Timezone|Suspend:boolean|Active:integer|Last Schedule|Age|Containers*|Images*|Selector*",
        cells: workloads::cron_job,
    },
    Kind {
        resources: &[("autoscaling", "horizontalpodautoscalers")],
        columns: "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age",
        cells: workloads::autoscaler,
    },
    Kind {
        resources: &[("certificates.k8s.io", "certificatesigningrequests")],
        columns: "Name|Age|SignerName|Requestor|RequestedDuration|Condition",
        cells: signing_request,
    },
    Kind {
        resources: &[("coordination.k8s.io", "leases")],
        columns: "Name|Holder|Age",
        cells: |it, now| vec![name(it), text(it, &["spec", "holderIdentity"]).into(), age(it, now)],
    },
    Kind {
        resources: &[(RBAC, "rolebindings"), (RBAC, "clusterrolebindings")],
        columns: "Name|Role|Age|Users*|Groups*|ServiceAccounts*",
        cells: role_binding,
    },
    Kind {
        resources: &[
            (ADMISSION, "mutatingwebhookconfigurations"),
            (ADMISSION, "validatingwebhookconfigurations"),
        ],
        columns: "Name|Webhooks:integer|Age",
        cells: |it, now| vec![name(it), count(it, &["webhooks"]).into(), age(it, now)],
    },
    Kind {
        resources: &[(ADMISSION, "validatingadmissionpolicies")],
        columns: "Name|Validations:integer|ParamKind|Age",
        cells: |it, now| {
            vec![
                name(it),
                count(it, &["spec", "validations"]).into(),
                param_kind(it),
                age(it, now),
            ]
        },
    },
    Kind {
        resources: &[(ADMISSION, "mutatingadmissionpolicies")],
        columns: "Name|Mutations:integer|ParamKind|Age",
        cells: |it, now| {
            vec![
                name(it),
                count(it, &["spec", "mutations"]).into(),
                param_kind(it),
                age(it, now),
            ]
        },
    },
    Kind {
        resources: &[
            (ADMISSION, "validatingadmissionpolicybindings"),
            (ADMISSION, "mutatingadmissionpolicybindings"),
        ],
        columns: "Name|PolicyName|ParamRef|Age",
        cells: |it, now| {
            vec![
                name(it),
                text(it, &["spec", "policyName"]).into(),
                param_ref(it),
                age(it, now),
            ]
        },
    },
    Kind {
        resources: &[("apiregistration.k8s.io", "apiservices")],
        columns: "Name|Service|Available|Age",
        cells: api_service,
    },
    Kind {
        resources: &[("networking.k8s.io", "ingresses")],
        columns: "Name|Class|Hosts|Address|Ports|Age",
        cells: ingress,
    },
    Kind {
        resources: &[("networking.k8s.io", "ingressclasses")],
        columns: "Name|Controller|Parameters|Age",
        cells: ingress_class,
    },
    Kind {
        resources: &[("networking.k8s.io", "networkpolicies")],
        columns: "Name|Pod-Selector|Age",
        cells: |it, now| {
            vec![
                name(it),
                selector(at(it, &["spec", "podSelector"])).into(),
                age(it, now),
            ]
        },
    },
    Kind {
        resources: &[("policy", "poddisruptionbudgets")],
        columns: "Name|Min Available|Max Unavailable|Allowed Disruptions:integer|Age",
        cells: |it, now| {
            let bound = |field: &str| Value::from(int_or_string(at(it, &["spec", field]), "N/A"));
            let allowed = number(it, &["status", "disruptionsAllowed"]).into();
            vec![
                name(it),
                bound("minAvailable"),
                bound("maxUnavailable"),
                allowed,
                age(it, now),
            ]
        },
    },
    Kind {
        resources: &[("", "resourcequotas")],
        columns: "Name|Request|Limit|Age",
        cells: resource_quota,
    },
    Kind {
        resources: &[("scheduling.k8s.io", "priorityclasses")],
        columns: "Name|Value:integer|Global-Default:boolean|Age|PreemptionPolicy",
        cells: |it, now| {
            let default = at(it, &["globalDefault"]).as_bool().unwrap_or_default().into();
            let policy = or(text(it, &["preemptionPolicy"]), "PreemptLowerPriority").into();
            vec![name(it), number(it, &["value"]).into(), default, age(it, now), policy]
        },
    },
    Kind {
        // What the scale subresource of any kind answers; no resource has this name.
        resources: &[("autoscaling", "scales")],
        columns: "Name|Desired:integer|Available:integer|Age",
        cells: |it, now| {
            let count = |part: &str| number(it, &[part, "replicas"]).into();
            vec![name(it), count("spec"), count("status"), age(it, now)]
        },
    },
    Kind {
        resources: &[("node.k8s.io", "runtimeclasses")],
        columns: "Name|Handler|Age",
        cells: |it, now| vec![name(it), text(it, &["handler"]).into(), age(it, now)],
    },
    Kind {
        resources: &[("storage.k8s.io", "csidrivers")],
        columns: "Name|AttachRequired:boolean|PodInfoOnMount:boolean|StorageCapacity:boolean|TokenRequests|RequiresRepublish:boolean|Modes|Age",
        cells: nodes::csi_driver,
    },
    Kind {
        resources: &[("storage.k8s.io", "csinodes")],
        columns: "Name|Drivers:integer|Age",
        cells: |it, now| vec![name(it), count(it, &["spec", "drivers"]).into(), age(it, now)],
    },
    Kind {
        resources: &[("storage.k8s.io", "volumeattachments")],
        columns: "Name|Attacher|PV|Node|Attached:boolean|Age",
        cells: |it, now| {
            let spec = |path: &[&str]| text(it, &[&["spec"], path].concat()).to_owned().into();
            let attached = at(it, &["status", "attached"]).as_bool().unwrap_or_default();
            let volume = spec(&["source", "persistentVolumeName"]);
            vec![
                name(it),
                spec(&["attacher"]),
                volume,
                spec(&["nodeName"]),
                attached.into(),
                age(it, now),
            ]
        },
    },
    Kind {
        resources: &[("storage.k8s.io", "storageclasses")],
        columns: "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
        cells: nodes::storage_class,
    },
];

fn service(it: &Value, now: Timestamp) -> Vec<Value> {
    let ty = text(it, &["spec", "type"]);
    let internal = list(it, &["spec", "clusterIPs"]).first().and_then(Value::as_str);
    let internal = internal.or(at(it, &["spec", "clusterIP"]).as_str()).unwrap_or_default();
    let mut external: Vec<&str> = list(it, &["spec", "externalIPs"])
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let external = match ty {
        "ExternalName" => text(it, &["spec", "externalName"]).to_owned(),
        "LoadBalancer" => {
            let points = list(it, &["status", "loadBalancer", "ingress"]).iter();
            let mut addresses: Vec<&str> = points
                .map(|it| or(text(it, &["ip"]), text(it, &["hostname"])))
                .collect();
            addresses.append(&mut external);
            or(&addresses.join(","), "<pending>").to_owned()
        }
        _ => or(&external.join(","), NONE).to_owned(),
    };
    let port = |it: &Value| {
        let (port, node_port, protocol) = (
            number(it, &["port"]),
            number(it, &["nodePort"]),
            or(text(it, &["protocol"]), "TCP"),
        );
        if node_port > 0 {
            format!("{port}:{node_port}/{protocol}")
        } else {
            format!("{port}/{protocol}")
        }
    };
    let ports: Vec<String> = list(it, &["spec", "ports"]).iter().map(port).collect();
    vec![
        name(it),
        ty.into(),
        or(internal, NONE).into(),
        external.into(),
        or(&ports.join(","), NONE).into(),
        age(it, now),
        labels(at(it, &["spec", "selector"])).into(),
    ]
}

fn endpoints(it: &Value, now: Timestamp) -> Vec<Value> {
    let mut found = Vec::new();
    for subset in list(it, &["subsets"]) {
        let addresses = list(subset, &["addresses"]);
        let ports = list(subset, &["ports"]);
        if ports.is_empty() {
            found.extend(addresses.iter().map(|it| text(it, &["ip"]).to_owned()));
        }
        for port in ports {
            found.extend(
                addresses
                    .iter()
                    .map(|it| format!("{}:{}", text(it, &["ip"]), number(port, &["port"]))),
            );
        }
    }
    vec![name(it), at_most_three(found, NONE).into(), age(it, now)]
}

fn endpoint_slice(it: &Value, now: Timestamp) -> Vec<Value> {
    let port = |it: &Value| {
        at(it, &["port"])
            .as_i64()
            .map_or_else(|| "*".to_owned(), |it| it.to_string())
    };
    let ports = list(it, &["ports"]).iter().map(port).collect();
    let addresses = list(it, &["endpoints"]).iter().flat_map(|it| list(it, &["addresses"]));
    let addresses = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
    let (ports, addresses) = (at_most_three(ports, UNSET), at_most_three(addresses, UNSET));
    vec![
        name(it),
        text(it, &["addressType"]).into(),
        ports.into(),
        addresses.into(),
        age(it, now),
    ]
}

/// Both groups of events, which name the same things differently.
fn event(it: &Value, now: Timestamp) -> Vec<Value> {
    let either = |one: &[&str], other: &[&str]| or(text(it, one), text(it, other)).to_owned();
    let subject = if it.get("regarding").is_some() {
        "regarding"
    } else {
        "involvedObject"
    };
    let first_time = either(&["firstTimestamp"], &["deprecatedFirstTimestamp"]);
    let first = since(Some(or(&first_time, text(it, &["eventTime"]))), now);
    let last_time = either(&["lastTimestamp"], &["deprecatedLastTimestamp"]);
    let series = at(it, &["series"]);
    let count = number(it, &["count"]).max(number(it, &["deprecatedCount"]));
    let (last, count) = match series {
        Value::Object(_) => (
            since(at(series, &["lastObservedTime"]).as_str(), now),
            number(series, &["count"]),
        ),
        _ => (
            if last_time.is_empty() {
                first.clone()
            } else {
                since(Some(&last_time), now)
            },
            count.max(1),
        ),
    };
    let component = either(&["source", "component"], &["deprecatedSource", "component"]);
    let component = or(
        &component,
        or(text(it, &["reportingComponent"]), text(it, &["reportingController"])),
    )
    .to_owned();
    let host = either(&["source", "host"], &["deprecatedSource", "host"]);
    let host = or(&host, text(it, &["reportingInstance"])).to_owned();
    let source = if host.is_empty() {
        component
    } else {
        format!("{component}, {host}")
    };
    let object = match text(it, &[subject, "kind"]) {
        "" => text(it, &[subject, "name"]).to_owned(),
        kind => format!("{}/{}", kind.to_lowercase(), text(it, &[subject, "name"])),
    };
    vec![
        last.into(),
        text(it, &["type"]).into(),
        text(it, &["reason"]).into(),
        object.into(),
        text(it, &[subject, "fieldPath"]).into(),
        source.into(),
        either(&["message"], &["note"]).trim().into(),
        first.into(),
        count.into(),
        name(it),
    ]
}

fn signing_request(it: &Value, now: Timestamp) -> Vec<Value> {
    let conditions = list(it, &["status", "conditions"]);
    let has = |ty: &str| conditions.iter().any(|it| text(it, &["type"]) == ty);
    let decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (_, true) => "Approved",
        _ => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if text(it, &["status", "certificate"]).is_empty() {
        ""
    } else {
        ",Issued"
    };
    let duration = at(it, &["spec", "expirationSeconds"])
        .as_i64()
        .map_or_else(|| NONE.to_owned(), human_duration);
    vec![
        name(it),
        age(it, now),
        or(text(it, &["spec", "signerName"]), NONE).into(),
        text(it, &["spec", "username"]).into(),
        duration.into(),
        format!("{decision}{failed}{issued}").into(),
    ]
}

fn role_binding(it: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| {
        let found = list(it, &["subjects"]).iter().filter(|it| text(it, &["kind"]) == kind);
        let title = |it: &Value| match kind {
            "ServiceAccount" => format!("{}/{}", text(it, &["namespace"]), text(it, &["name"])),
            _ => text(it, &["name"]).to_owned(),
        };
        Value::from(found.map(title).collect::<Vec<_>>().join(", "))
    };
    let role = format!("{}/{}", text(it, &["roleRef", "kind"]), text(it, &["roleRef", "name"]));
    vec![
        name(it),
        role.into(),
        age(it, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

fn param_kind(it: &Value) -> Value {
    match at(it, &["spec", "paramKind"]) {
        Value::Null => UNSET.into(),
        kind => format!("{}/{}", text(kind, &["apiVersion"]), text(kind, &["kind"])).into(),
    }
}

fn param_ref(it: &Value) -> Value {
    match at(it, &["spec", "paramRef"]) {
        Value::Null => UNSET.into(),
        to => {
            let namespace = or(text(to, &["namespace"]), "*").to_owned();
            match text(to, &["name"]) {
                "" => format!("{namespace}/{}", selector(at(to, &["selector"]))).into(),
                name => format!("{namespace}/{name}").into(),
            }
        }
    }
}

fn api_service(it: &Value, now: Timestamp) -> Vec<Value> {
    let service = match at(it, &["spec", "service"]) {
        Value::Null => "Local".to_owned(),
        service => format!("{}/{}", text(service, &["namespace"]), text(service, &["name"])),
    };
    let available = list(it, &["status", "conditions"])
        .iter()
        .find(|it| text(it, &["type"]) == "Available");
    let available = match available {
        None => "Unknown".to_owned(),
        Some(it) if text(it, &["status"]) == "True" => "True".to_owned(),
        Some(it) => format!("{} ({})", text(it, &["status"]), text(it, &["reason"])),
    };
    vec![name(it), service.into(), available.into(), age(it, now)]
}

fn ingress(it: &Value, now: Timestamp) -> Vec<Value> {
    let annotation = at(it, &["metadata", "annotations", "kubernetes.io/ingress.class"])
        .as_str()
        .unwrap_or_default();
    let class = or(or(text(it, &["spec", "ingressClassName"]), annotation), NONE).to_owned();
    let hosts = list(it, &["spec", "rules"])
        .iter()
        .map(|it| text(it, &["host"]))
        .filter(|it| !it.is_empty())
        .map(str::to_owned);
    let points = list(it, &["status", "loadBalancer", "ingress"]).iter();
    let addresses: Vec<&str> = points
        .map(|it| or(text(it, &["ip"]), text(it, &["hostname"])))
        .collect();
    let ports = if count(it, &["spec", "tls"]) > 0 {
        "80, 443"
    } else {
        "80"
    };
    vec![
        name(it),
        class.into(),
        at_most_three(hosts.collect(), "*").into(),
        addresses.join(",").into(),
        ports.into(),
        age(it, now),
    ]
}

fn ingress_class(it: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = match at(it, &["spec", "parameters"]) {
        Value::Null => NONE.to_owned(),
        to => {
            let group = text(to, &["apiGroup"]);
            let dot = if group.is_empty() { "" } else { "." };
            format!("{}{dot}{group}/{}", text(to, &["kind"]), text(to, &["name"]))
        }
    };
    vec![
        nodes::class_title(it, default_class::OF_INGRESSES),
        text(it, &["spec", "controller"]).into(),
        parameters.into(),
        age(it, now),
    ]
}

fn resource_quota(it: &Value, now: Timestamp) -> Vec<Value> {
    let used = |resource: &str| int_or_string(at(it, &["status", "used", resource]), "0");
    let hard = at(it, &["status", "hard"]).as_object();
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in hard.into_iter().flatten() {
        let target = if resource.starts_with("limits.") {
            &mut limits
        } else {
            &mut requests
        };
        target.push(format!("{resource}: {}/{}", used(resource), int_or_string(hard, "0")));
    }
    vec![
        name(it),
        requests.join(", ").into(),
        limits.join(", ").into(),
        age(it, now),
    ]
}
