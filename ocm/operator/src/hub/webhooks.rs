//! The Services of the webhooks, and what tells the hub's API server to ask them.
//! Upstream: ocm `manifests/cluster-manager/hub/{registration,work,addon-manager}/webhook-*.yaml`.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{
    deployments,
    wanted::{ADD_ON_WEBHOOK, HubObjects, REGISTRATION_WEBHOOK, WORK_WEBHOOK, Webhook},
};
use crate::crds::Conversion;

const CLUSTERS: &str = "cluster.open-cluster-management.io";
const WORKS: &str = "work.open-cluster-management.io";
const ADD_ONS: &str = "addon.open-cluster-management.io";

const VALIDATING: &str = "ValidatingWebhookConfiguration";
const MUTATING: &str = "MutatingWebhookConfiguration";

/// One configuration.
struct Row {
    kind: &'static str,
    /// Its own name, and its webhook's.
    name: &'static str,
    service: &'static str,
    path: &'static str,
    group: &'static str,
    version: &'static str,
    resources: &'static [&'static str],
    /// What of it a hub in one process answers beside.
    more: &'static [&'static str],
    /// Whether upstream's servers answer it.
    is_upstreams: bool,
}

const ROWS: [Row; 6] = [
    Row {
        kind: VALIDATING,
        name: "managedclustervalidators.admission.cluster.open-cluster-management.io",
        service: REGISTRATION_WEBHOOK,
        path: "/validate-cluster-open-cluster-management-io-v1-managedcluster",
        group: CLUSTERS,
        version: "*",
        resources: &["managedclusters"],
        // An agent writes it, and not all that stands there is its own.
        more: &["managedclusters/status"],
        is_upstreams: true,
    },
    Row {
        kind: MUTATING,
        name: "managedclustermutators.admission.cluster.open-cluster-management.io",
        service: REGISTRATION_WEBHOOK,
        path: "/mutate-cluster-open-cluster-management-io-v1-managedcluster",
        group: CLUSTERS,
        version: "*",
        resources: &["managedclusters"],
        more: &[],
        is_upstreams: true,
    },
    Row {
        kind: VALIDATING,
        name: "managedclustersetbindingvalidators.admission.cluster.open-cluster-management.io",
        service: REGISTRATION_WEBHOOK,
        path: "/validate-cluster-open-cluster-management-io-v1beta2-managedclustersetbinding",
        group: CLUSTERS,
        version: "v1beta2",
        resources: &["managedclustersetbindings"],
        more: &[],
        is_upstreams: true,
    },
    Row {
        kind: VALIDATING,
        name: "manifestworkvalidators.admission.work.open-cluster-management.io",
        service: WORK_WEBHOOK,
        path: "/validate-work-open-cluster-management-io-v1-manifestwork",
        group: WORKS,
        version: "*",
        resources: &["manifestworks"],
        more: &[],
        is_upstreams: true,
    },
    Row {
        kind: VALIDATING,
        name: "managedclusteraddonvalidators.admission.addon.open-cluster-management.io",
        service: REGISTRATION_WEBHOOK,
        path: "/validate-addon-open-cluster-management-io-v1beta1-managedclusteraddon",
        group: ADD_ONS,
        version: "*",
        resources: &["managedclusteraddons"],
        more: &[],
        is_upstreams: false,
    },
    Row {
        kind: VALIDATING,
        name: "manifestworkreplicasetvalidators.admission.work.open-cluster-management.io",
        service: WORK_WEBHOOK,
        path: "/validate-work-open-cluster-management-io-v1alpha1-manifestworkreplicaset",
        group: WORKS,
        version: "*",
        resources: &["manifestworkreplicasets"],
        more: &[],
        is_upstreams: false,
    },
];

/// The configurations that a hub is to have, in the order in which they are made.
pub fn configurations(hub: &HubObjects<'_>) -> Vec<Value> {
    let wanted = ROWS.iter().filter(|it| is_wanted(hub, it));
    wanted.map(|it| configuration(hub, it)).collect()
}

/// Kind and name of those that it is not to have.
pub fn surplus(hub: &HubObjects<'_>) -> Vec<(&'static str, &'static str)> {
    let surplus = ROWS.iter().filter(|it| !is_wanted(hub, it));
    surplus.map(|it| (it.kind, it.name)).collect()
}

/// Kind and name of all that any hub may have.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROWS.iter().map(|it| (it.kind, it.name))
}

fn is_wanted(hub: &HubObjects<'_>, row: &Row) -> bool {
    hub.is_compact() || row.is_upstreams
}

fn configuration(hub: &HubObjects<'_>, row: &Row) -> Value {
    let mut resources = row.resources.to_vec();
    if hub.is_compact() {
        resources.extend(row.more);
    }
    let webhook = if row.service == WORK_WEBHOOK {
        &hub.work_webhook
    } else {
        &hub.registration_webhook
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": row.kind,
        "metadata": {"name": row.name, "labels": hub.labels},
        "webhooks": [{
            "name": row.name, "failurePolicy": "Fail", "timeoutSeconds": 10, "sideEffects": "None",
            "admissionReviewVersions": ["v1beta1", "v1"],
            "clientConfig": {
                "caBundle": BASE64_STANDARD.encode(&hub.facts.authorities),
                "service": {"namespace": hub.namespace, "name": row.service, "path": row.path, "port": service_port(hub, webhook)},
            },
            "rules": [{
                "operations": ["CREATE", "UPDATE"], "apiGroups": [row.group], "apiVersions": [row.version],
                "resources": resources,
            }],
        }],
    })
}

/// A configuration as it is, but that the API server trusts the certificates of today: as long as the pods that are to
/// answer it do not yet.
pub fn with_authorities(found: &Value, authorities: &str) -> Value {
    let bundle = BASE64_STANDARD.encode(authorities);
    let mut wanted = json!({"metadata": {}, "webhooks": found["webhooks"]});
    for webhook in wanted["webhooks"].as_array_mut().into_iter().flatten() {
        webhook["clientConfig"]["caBundle"] = bundle.clone().into();
    }
    wanted
}

fn service_port(hub: &HubObjects<'_>, webhook: &Webhook) -> i32 {
    match &webhook.hosted {
        // Upstream names the port at which the webhook listens on the other cluster, which a Service with an address
        // does not have.
        Some((_, port)) if hub.is_hosted => *port,
        _ => webhook.port,
    }
}

/// Who converts the add-on kinds. Upstream's hosted hub has nobody who does.
pub fn conversion(hub: &HubObjects<'_>) -> Conversion {
    // A hub on another cluster has the way to the webhooks of registration; in one process they are the same.
    let (service, webhook) = match hub.is_hosted && hub.is_compact() {
        true => (REGISTRATION_WEBHOOK, &hub.registration_webhook),
        false => (ADD_ON_WEBHOOK, &hub.add_on_webhook),
    };
    Conversion {
        namespace: hub.namespace.clone(),
        service: service.to_owned(),
        port: service_port(hub, webhook),
        authorities: hub.facts.authorities.clone(),
    }
}

/// The names of the Services of webhooks for which each certificate is, by the Secret of the certificate.
pub fn certificates(namespace: &str, is_compact: bool) -> Vec<(&'static str, Vec<String>)> {
    let name = |service: &str| format!("{service}.{namespace}.svc");
    let of = [
        (deployments::REGISTRATION_CERTIFICATE, REGISTRATION_WEBHOOK),
        (deployments::WORK_CERTIFICATE, WORK_WEBHOOK),
        (deployments::ADD_ON_CERTIFICATE, ADD_ON_WEBHOOK),
    ];
    match is_compact {
        true => vec![(of[0].0, of.iter().map(|it| name(it.1)).collect())],
        false => of.iter().map(|it| (it.0, vec![name(it.1)])).collect(),
    }
}

/// One Service on the hub, and the Deployment whose pods answer there (without the ClusterManager's name in front);
/// none where they are on another cluster.
pub struct Way {
    /// The manifest.
    pub service: Value,
    /// The Deployment.
    pub deployment: Option<&'static str>,
}

/// The Services that a hub is to have.
pub fn services(hub: &HubObjects<'_>) -> Vec<Way> {
    let all = [
        (
            REGISTRATION_WEBHOOK,
            &hub.registration_webhook,
            deployments::REGISTRATION_WEBHOOK,
        ),
        (WORK_WEBHOOK, &hub.work_webhook, deployments::WORK_WEBHOOK),
        (ADD_ON_WEBHOOK, &hub.add_on_webhook, deployments::ADD_ON_WEBHOOK),
    ];
    let all = all.into_iter().filter(|it| !hub.is_hosted || it.1.hosted.is_some());
    let ways = all.map(|(name, webhook, deployment)| match &webhook.hosted {
        Some((address, port)) => Way {
            service: hosted_service(hub, name, webhook.is_by_address(), address, *port),
            deployment: None,
        },
        None => {
            let (app, target, deployment) = match hub.is_compact() {
                true => (
                    deployments::REGISTRATION_APP.to_owned(),
                    hub.registration_webhook.port,
                    deployments::REGISTRATION,
                ),
                false => (format!("{}-{deployment}", hub.name), webhook.port, deployment),
            };
            let spec = json!({
                "selector": {"app": app},
                "ports": [{"name": "webhook", "port": webhook.port, "targetPort": target}],
            });
            Way {
                service: service(hub, name, spec),
                deployment: Some(deployment),
            }
        }
    });
    ways.collect()
}

/// The Endpoints of Services whose webhooks are on another cluster and have an address.
pub fn endpoints(hub: &HubObjects<'_>) -> Vec<Value> {
    let all = [
        (REGISTRATION_WEBHOOK, &hub.registration_webhook),
        (WORK_WEBHOOK, &hub.work_webhook),
    ];
    let by_address = all.into_iter().filter(|it| it.1.is_by_address());
    let endpoints = by_address.filter_map(|(name, webhook)| {
        let (address, port) = webhook.hosted.as_ref()?;
        Some(json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": name, "namespace": hub.namespace, "labels": hub.labels},
            "subsets": [{"addresses": [{"ip": address}], "ports": [{"name": "tls", "port": port}]}],
        }))
    });
    endpoints.collect()
}

fn hosted_service(hub: &HubObjects<'_>, name: &str, is_by_address: bool, address: &str, port: i32) -> Value {
    match is_by_address {
        true => service(
            hub,
            name,
            json!({"type": "ClusterIP", "ports": [{"name": "tls", "protocol": "TCP", "port": port, "targetPort": port}]}),
        ),
        false => service(hub, name, json!({"type": "ExternalName", "externalName": address})),
    }
}

fn service(hub: &HubObjects<'_>, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": hub.namespace, "labels": hub.labels}, "spec": spec,
    })
}

/// The Service at which placements can be tried out, beside their pods.
pub fn debug_service(hub: &HubObjects<'_>) -> Value {
    let app = match hub.is_compact() {
        true => deployments::REGISTRATION_APP,
        false => deployments::PLACEMENT_APP,
    };
    service(
        hub,
        &debug_service_name(hub),
        json!({
            "type": "ClusterIP", "selector": {"app": app},
            "ports": [{"name": "https", "port": 9443, "protocol": "TCP", "targetPort": deployments::debug_port(hub)}],
        }),
    )
}

/// Its name.
pub fn debug_service_name(hub: &HubObjects<'_>) -> String {
    format!("{}-placement", hub.name)
}
