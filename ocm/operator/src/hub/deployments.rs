//! The Deployments of a hub.
//! Upstream: ocm `manifests/cluster-manager/management`.

use ocm_api::operator::ResourceQosClass;
use serde_json::{Value, json};

use super::wanted::{HubObjects, Image, Webhook};
use crate::feature_gates;

/// Where a hub on another cluster is said to be, in the pods of its components.
const KUBECONFIG: &str = "/var/run/secrets/hub/kubeconfig";
/// Where webhooks find their certificate.
const CERTIFICATES: &str = "/tmp/k8s-webhook-server/serving-certs";
/// The port of health and metrics of what is no webhook.
const HEALTH: i32 = 8443;
/// The port at which placements can be tried out.
const DEBUG: i32 = 9443;
/// The same in one pod with webhooks, which have the other.
const DEBUG_BESIDE_WEBHOOKS: i32 = 9444;

/// The Secrets with the certificates of the webhooks.
pub const REGISTRATION_CERTIFICATE: &str = "registration-webhook-serving-cert";
/// Of work.
pub const WORK_CERTIFICATE: &str = "work-webhook-serving-cert";
/// Of add-ons.
pub const ADD_ON_CERTIFICATE: &str = "addon-webhook-serving-cert";

/// The pods of registration, and of a hub in one Deployment.
pub const REGISTRATION_APP: &str = "clustermanager-registration-controller";
/// The pods of placement.
pub const PLACEMENT_APP: &str = "clustermanager-placement-controller";
/// The pods of the add-on manager.
pub const ADD_ON_MANAGER_APP: &str = "clustermanager-addon-manager-controller";

/// The ServiceAccount of registration, and of a hub in one Deployment.
pub const REGISTRATION_ACCOUNT: &str = "registration-controller-sa";

/// The Deployments of components, without the ClusterManager's name in front.
pub const REGISTRATION: &str = "registration-controller";
/// The webhooks of registration.
pub const REGISTRATION_WEBHOOK: &str = "registration-webhook";
/// The webhooks of work.
pub const WORK_WEBHOOK: &str = "work-webhook";
/// Placement.
pub const PLACEMENT: &str = "placement-controller";
/// The conversion of add-on kinds.
pub const ADD_ON_WEBHOOK: &str = "addon-webhook";
/// Add-ons.
pub const ADD_ON_MANAGER: &str = "addon-manager-controller";
/// Works.
pub const WORK: &str = "work-controller";
/// Upstream's server for agents that do not speak to the API server.
pub const GRPC: &str = "grpc-server";

/// All of them.
pub const ALL: [&str; 8] = [
    REGISTRATION,
    REGISTRATION_WEBHOOK,
    WORK_WEBHOOK,
    PLACEMENT,
    ADD_ON_WEBHOOK,
    ADD_ON_MANAGER,
    WORK,
    GRPC,
];

/// One component, as far as it is not as all are.
struct Component<'a> {
    name: &'a str,
    app: String,
    account: &'a str,
    containers: Vec<Value>,
    volumes: Vec<Value>,
    host_network: bool,
}

/// One container of it, as far as it is not as all are.
struct Container<'a> {
    name: String,
    image: String,
    arguments: Vec<String>,
    environment: &'a [(&'a str, &'a str)],
    /// Scheme, path of liveness, path of readiness, port; none where the port is 0.
    probes: (&'a str, &'a str, &'a str, i32),
    ports: &'a [i32],
    mounts: Vec<Value>,
}

const POD_NAME: (&str, &str) = ("POD_NAME", "metadata.name");
const POD_NAMESPACE: (&str, &str) = ("POD_NAMESPACE", "metadata.namespace");

/// The Deployments that a hub is to have, in the order in which they are made.
pub fn wanted(hub: &HubObjects<'_>) -> Vec<Value> {
    if hub.is_compact() {
        return vec![compact(hub)];
    }
    let mut all = vec![
        registration(hub),
        webhook(
            hub,
            REGISTRATION_WEBHOOK,
            ("registration-webhook-sa", "webhook", REGISTRATION_CERTIFICATE),
            &hub.registration_webhook,
            (Image::Registration, "/registration", registration_webhook_gates(hub)),
        ),
        webhook(
            hub,
            WORK_WEBHOOK,
            ("work-webhook-sa", "webhook", WORK_CERTIFICATE),
            &hub.work_webhook,
            (
                Image::Work,
                "/work",
                feature_gates::HUB_WORK.arguments(hub.work_gates()),
            ),
        ),
        placement(hub),
        webhook(
            hub,
            ADD_ON_WEBHOOK,
            ("addon-webhook-sa", "addon-webhook", ADD_ON_CERTIFICATE),
            &hub.add_on_webhook,
            (Image::AddOnManager, "/addon", Vec::new()),
        ),
    ];
    all.extend(hub.has_add_on_manager().then(|| add_on_manager(hub)));
    all.extend(hub.has_work_controller().then(|| work(hub)));
    all
}

fn registration_webhook_gates(hub: &HubObjects<'_>) -> Vec<String> {
    let gates = feature_gates::HUB_REGISTRATION.arguments(hub.registration_gates());
    match gates.is_empty() {
        true => vec!["--feature-gates=DefaultClusterSet=true".to_owned()],
        false => gates,
    }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|it| (*it).to_owned()).collect()
}

fn list(flag: &str, values: &[&str]) -> Option<String> {
    (!values.is_empty()).then(|| format!("--{flag}={}", values.join(",")))
}

fn registration(hub: &HubObjects<'_>) -> Value {
    let mut arguments = words(&["/registration", "controller"]);
    arguments.extend(feature_gates::HUB_REGISTRATION.arguments(hub.registration_gates()));
    arguments.extend(list("cluster-auto-approval-users", &hub.formerly_auto_approved_users()));
    arguments.extend(importer(hub));
    arguments.extend(kubeconfig(hub));
    arguments.extend(list("enabled-registration-drivers", &hub.registration_drivers()));
    arguments.extend(list("auto-approved-csr-users", &hub.auto_approved_users()));
    arguments.extend(own_labels(hub).map(|it| format!("--labels={it}")));
    arguments.extend(hub.facts.tls.arguments());
    let container = Container {
        name: "hub-registration-controller".to_owned(),
        image: hub.image(Image::Registration),
        arguments,
        environment: &[POD_NAME],
        probes: ("HTTPS", "/healthz", "/healthz", HEALTH),
        ports: &[],
        mounts: mounts(hub),
    };
    let component = Component {
        name: REGISTRATION,
        app: REGISTRATION_APP.to_owned(),
        account: REGISTRATION_ACCOUNT,
        containers: vec![container_of(hub, container)],
        volumes: volumes(hub, REGISTRATION_ACCOUNT),
        host_network: false,
    };
    deployment(hub, component)
}

/// What the cluster importer is told.
fn importer(hub: &HubObjects<'_>) -> Vec<String> {
    if !hub.has_importer() {
        return Vec::new();
    }
    let mut arguments = Vec::new();
    match &hub.options.agent_image {
        Some(image) => arguments.push(format!("--agent-image={image}")),
        None if hub.is_compact() => {}
        None => arguments.push("--agent-image=".to_owned()),
    }
    let account = format!("{}/agent-registration-bootstrap", hub.options.namespace);
    arguments.push(format!("--bootstrap-serviceaccount={account}"));
    // Upstream's of the release that is installed does not know the flag; its default is the usual name.
    if !hub.is_compact() && hub.options.image_pull_secret_name != ocm_api::namespaces::PULL_SECRET {
        arguments.push(format!(
            "--image-pull-secret-name={}",
            hub.options.image_pull_secret_name
        ));
    }
    let of = hub.spec.registration_configuration.as_ref();
    let renderers = of.and_then(|it| it.importer_configuration.as_ref());
    let renderers: Vec<&str> = renderers
        .iter()
        .flat_map(|it| &it.renderers)
        .map(String::as_str)
        .collect();
    arguments.extend(list("import-renderers", &renderers));
    arguments
}

/// The labels that the hub's own objects get: those that are synced.
fn own_labels(hub: &HubObjects<'_>) -> Option<String> {
    let all = hub.labels.as_object().into_iter().flatten();
    let free = all.filter(|it| crate::objects::is_free(it.0));
    let pairs: Vec<String> = free
        .map(|(key, it)| format!("{key}={}", it.as_str().unwrap_or_default()))
        .collect();
    (!pairs.is_empty()).then(|| pairs.join(","))
}

fn kubeconfig(hub: &HubObjects<'_>) -> Option<String> {
    hub.is_hosted.then(|| format!("--kubeconfig={KUBECONFIG}"))
}

fn webhook(
    hub: &HubObjects<'_>,
    name: &str,
    (account, container, certificate): (&str, &str, &str),
    webhook: &Webhook,
    (image, program, gates): (Image, &str, Vec<String>),
) -> Value {
    // The conversion asks the hub nothing.
    let asks_hub = name != ADD_ON_WEBHOOK;
    let mut arguments = words(&[program, "webhook-server"]);
    arguments.push(format!("--port={}", webhook.port));
    arguments.push(format!("--health-probe-port={}", webhook.health_probe_port));
    arguments.push(format!("--metrics-port={}", webhook.metrics_port));
    arguments.extend(gates);
    arguments.extend(kubeconfig(hub).filter(|_| asks_hub));
    arguments.extend(hub.facts.tls.arguments());
    let ready = if name == WORK_WEBHOOK { "/healthz" } else { "/readyz" };
    let mut mounts = vec![json!({"mountPath": CERTIFICATES, "name": "webhook-secret", "readOnly": true})];
    let mut volumes = vec![json!({"name": "webhook-secret", "secret": {"secretName": certificate}})];
    if hub.is_hosted && asks_hub {
        mounts.push(kubeconfig_mount());
        volumes.push(kubeconfig_volume(account));
    }
    let container = Container {
        name: format!("{}-{container}", hub.name),
        image: hub.image(image),
        arguments,
        environment: &[],
        probes: ("HTTP", "/healthz", ready, webhook.health_probe_port),
        ports: &[webhook.port],
        mounts,
    };
    let component = Component {
        name,
        app: format!("{}-{name}", hub.name),
        account,
        containers: vec![container_of(hub, container)],
        volumes,
        host_network: webhook.host_network,
    };
    deployment(hub, component)
}

fn placement(hub: &HubObjects<'_>) -> Value {
    let account = "placement-controller-sa";
    let mut arguments = words(&["/placement", "controller"]);
    arguments.extend(kubeconfig(hub));
    arguments.extend(hub.facts.tls.arguments());
    let container = Container {
        name: PLACEMENT.to_owned(),
        image: hub.image(Image::Placement),
        arguments,
        environment: &[POD_NAME],
        probes: ("HTTPS", "/healthz", "/healthz", HEALTH),
        ports: &[],
        mounts: mounts(hub),
    };
    let mut containers = vec![container_of(hub, container)];
    containers.extend(
        hub.has_debug_server()
            .then(|| debug_server(hub, Image::Placement, "/placement", DEBUG)),
    );
    let component = Component {
        name: PLACEMENT,
        app: PLACEMENT_APP.to_owned(),
        account,
        containers,
        volumes: volumes(hub, account),
        host_network: false,
    };
    deployment(hub, component)
}

fn debug_server(hub: &HubObjects<'_>, image: Image, program: &str, port: i32) -> Value {
    let mut arguments = words(&[program, "debug"]);
    arguments.push(format!("--listen=0.0.0.0:{port}"));
    arguments.push("--disable-leader-election".to_owned());
    // Upstream's has none, and so asks the cluster that it runs on.
    arguments.extend(kubeconfig(hub));
    arguments.extend(hub.facts.tls.arguments());
    let container = Container {
        name: "debug-server".to_owned(),
        image: hub.image(image),
        arguments,
        environment: &[POD_NAME],
        probes: ("HTTPS", "/healthz", "/healthz", port),
        ports: &[],
        mounts: mounts(hub),
    };
    container_of(hub, container)
}

/// The port of the pods at which placements can be tried out.
pub fn debug_port(hub: &HubObjects<'_>) -> i32 {
    if hub.is_compact() { DEBUG_BESIDE_WEBHOOKS } else { DEBUG }
}

fn add_on_manager(hub: &HubObjects<'_>) -> Value {
    let account = "addon-manager-controller-sa";
    let mut arguments = words(&["/addon", "manager"]);
    arguments.extend(kubeconfig(hub));
    arguments.extend(hub.facts.tls.arguments());
    let container = Container {
        name: ADD_ON_MANAGER.to_owned(),
        image: hub.image(Image::AddOnManager),
        arguments,
        environment: &[POD_NAMESPACE, POD_NAME],
        probes: ("HTTPS", "/healthz", "/healthz", HEALTH),
        ports: &[],
        mounts: mounts(hub),
    };
    let component = Component {
        name: ADD_ON_MANAGER,
        app: ADD_ON_MANAGER_APP.to_owned(),
        account,
        containers: vec![container_of(hub, container)],
        volumes: volumes(hub, account),
        host_network: false,
    };
    deployment(hub, component)
}

fn work(hub: &HubObjects<'_>) -> Value {
    let account = "work-controller-sa";
    let name = format!("{}-{WORK}", hub.name);
    let mut arguments = words(&["/work", "manager"]);
    arguments.extend(feature_gates::HUB_WORK.arguments(hub.work_gates()));
    let (mut mounts, mut volumes) = (mounts(hub), volumes(hub, account));
    if hub.has_cloud_events() {
        arguments.push(format!("--work-driver={}", hub.work_driver().unwrap_or("kube")));
    }
    if hub.work_driver().is_some() {
        arguments.push("--cloudevents-client-id=work-controller-$(POD_NAME)".to_owned());
        arguments.push("--work-driver-config=/var/run/secrets/work/config.yaml".to_owned());
        mounts.push(json!({"mountPath": "/var/run/secrets/work", "name": "workdriverconfig", "readOnly": true}));
        volumes.push(json!({"name": "workdriverconfig", "secret": {"secretName": super::wanted::WORK_DRIVER_CONFIG}}));
    }
    arguments.extend(kubeconfig(hub));
    arguments.extend(hub.facts.tls.arguments());
    let container = Container {
        name: name.clone(),
        image: hub.image(Image::Work),
        arguments,
        environment: &[POD_NAME],
        probes: ("HTTPS", "/healthz", "/healthz", HEALTH),
        ports: &[],
        mounts,
    };
    let mut container = container_of(hub, container);
    container["imagePullPolicy"] = "IfNotPresent".into();
    let component = Component {
        name: WORK,
        app: name,
        account,
        containers: vec![container],
        volumes,
        host_network: false,
    };
    deployment(hub, component)
}

/// A hub in one Deployment: all controllers and all webhooks in one process.
fn compact(hub: &HubObjects<'_>) -> Value {
    let port = hub.registration_webhook.port;
    let mut arguments = words(&["hub", "--leader-elect", "--installed-by-operator"]);
    arguments.extend(kubeconfig(hub));
    arguments.extend(compact_gates(hub));
    // The gate alone would let in everybody who has a token of the hub's; the ClusterManager names users.
    if hub.is_on(&feature_gates::HUB_REGISTRATION, "ManagedClusterAutoApproval") {
        let mut users = hub.auto_approved_users();
        if users.is_empty() {
            users = hub.formerly_auto_approved_users();
        }
        arguments.extend(list("auto-approved-csr-users", &users));
    }
    arguments.extend(importer(hub));
    arguments.extend(own_labels(hub).map(|it| format!("--labels={it}")));
    arguments.push(format!("--webhook-listen=0.0.0.0:{port}"));
    arguments.push(format!("--webhook-certificates={CERTIFICATES}"));
    arguments.push(format!("--health-listen=0.0.0.0:{HEALTH}"));
    arguments.extend(hub.facts.tls.arguments());
    let mut mounts = mounts(hub);
    mounts.push(json!({"mountPath": CERTIFICATES, "name": "webhook-secret", "readOnly": true}));
    let mut volumes = volumes(hub, REGISTRATION_ACCOUNT);
    volumes.push(json!({"name": "webhook-secret", "secret": {"secretName": REGISTRATION_CERTIFICATE}}));
    let container = Container {
        name: "hub-registration-controller".to_owned(),
        image: hub.image(Image::Registration),
        arguments,
        environment: &[POD_NAMESPACE, POD_NAME],
        probes: ("HTTPS", "/livez", "/readyz", HEALTH),
        ports: &[port],
        mounts,
    };
    let mut container = container_of(hub, container);
    // It says itself when it is ready, and whoever installs waits for it.
    container["readinessProbe"] = json!({
        "httpGet": {"path": "/readyz", "scheme": "HTTPS", "port": HEALTH}, "periodSeconds": 1,
    });
    let mut containers = vec![container];
    let debug = || debug_server(hub, Image::Registration, "placement", DEBUG_BESIDE_WEBHOOKS);
    containers.extend(hub.has_debug_server().then(debug));
    let component = Component {
        name: REGISTRATION,
        app: REGISTRATION_APP.to_owned(),
        account: REGISTRATION_ACCOUNT,
        containers,
        volumes,
        host_network: hub.registration_webhook.host_network,
    };
    deployment(hub, component)
}

/// The gates of one process that is all of a hub, where they are not as it has them by default.
fn compact_gates(hub: &HubObjects<'_>) -> Vec<String> {
    const BY_DEFAULT: [(&feature_gates::GatedComponent, &str, bool); 8] = [
        (&feature_gates::HUB_REGISTRATION, "DefaultClusterSet", true),
        (&feature_gates::HUB_REGISTRATION, "ResourceCleanup", true),
        (&feature_gates::HUB_REGISTRATION, "ClusterProfile", false),
        (&feature_gates::HUB_REGISTRATION, "ClusterImporter", false),
        (&feature_gates::HUB_WORK, "NilExecutorValidating", false),
        // One process more would cost something, and this costs nothing.
        (&feature_gates::HUB_WORK, "ManifestWorkReplicaSet", true),
        (&feature_gates::HUB_WORK, "CleanUpCompletedManifestWork", false),
        (&feature_gates::HUB_ADD_ONS, "AddonManagement", true),
    ];
    let differ = BY_DEFAULT
        .iter()
        .map(|(of, gate, usual)| (gate, hub.is_on(of, gate), *usual));
    let differ = differ.filter(|(_, is_on, usual)| is_on != usual);
    differ
        .map(|(gate, is_on, _)| format!("--feature-gates={gate}={is_on}"))
        .collect()
}

fn mounts(hub: &HubObjects<'_>) -> Vec<Value> {
    let mut mounts = vec![json!({"name": "tmpdir", "mountPath": "/tmp"})];
    mounts.extend(hub.is_hosted.then(kubeconfig_mount));
    mounts
}

fn volumes(hub: &HubObjects<'_>, account: &str) -> Vec<Value> {
    let mut volumes = vec![json!({"name": "tmpdir", "emptyDir": {}})];
    volumes.extend(hub.is_hosted.then(|| kubeconfig_volume(account)));
    volumes
}

fn kubeconfig_mount() -> Value {
    json!({"mountPath": "/var/run/secrets/hub", "name": "kubeconfig", "readOnly": true})
}

fn kubeconfig_volume(account: &str) -> Value {
    json!({"name": "kubeconfig", "secret": {"secretName": format!("{account}-kubeconfig")}})
}

fn container_of(hub: &HubObjects<'_>, it: Container<'_>) -> Value {
    let environment = it.environment.iter();
    let environment: Vec<Value> = environment
        .map(|(name, path)| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}))
        .collect();
    let mut container = json!({
        "name": it.name,
        "image": it.image,
        "args": it.arguments,
        "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "privileged": false,
            "runAsNonRoot": true, "readOnlyRootFilesystem": true,
        },
        "resources": resources(hub),
        "volumeMounts": it.mounts,
    });
    if !environment.is_empty() {
        container["env"] = environment.into();
    }
    if !it.ports.is_empty() {
        let ports = it
            .ports
            .iter()
            .map(|port| json!({"containerPort": port, "protocol": "TCP"}));
        container["ports"] = ports.collect();
    }
    let (scheme, live, ready, port) = it.probes;
    if port > 0 {
        let get = |path: &str| json!({"path": path, "scheme": scheme, "port": port});
        container["livenessProbe"] = json!({"httpGet": get(live), "initialDelaySeconds": 2, "periodSeconds": 10});
        container["readinessProbe"] = json!({"httpGet": get(ready), "initialDelaySeconds": 2});
    }
    container
}

fn resources(hub: &HubObjects<'_>) -> Value {
    let Some(asked) = &hub.spec.resource_requirement else {
        return json!({"requests": {"cpu": "2m", "memory": "16Mi"}});
    };
    match asked.r#type {
        ResourceQosClass::Default => json!({"requests": {"cpu": "2m", "memory": "16Mi"}}),
        ResourceQosClass::BestEffort => json!({}),
        ResourceQosClass::ResourceRequirement => {
            let said = asked.resource_requirements.as_ref();
            said.and_then(|it| serde_json::to_value(it).ok())
                .unwrap_or_else(|| json!({}))
        }
    }
}

fn deployment(hub: &HubObjects<'_>, it: Component<'_>) -> Value {
    let name = format!("{}-{}", hub.name, it.name);
    let labelled = |app: &str| {
        let mut labels = hub.labels.clone();
        labels["app"] = app.into();
        labels
    };
    let away_from = |weight: i32, topology: &str| {
        json!({"weight": weight, "podAffinityTerm": {
            "topologyKey": topology,
            "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": [it.app]}]},
        }})
    };
    let mut pod = json!({
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            away_from(70, "failure-domain.beta.kubernetes.io/zone"),
            away_from(30, "kubernetes.io/hostname"),
        ]}},
        "containers": it.containers,
        "volumes": it.volumes,
    });
    if hub.facts.has_pull_secret {
        pod["imagePullSecrets"] = json!([{"name": hub.options.image_pull_secret_name}]);
    }
    if !hub.is_hosted {
        pod["serviceAccountName"] = it.account.into();
    }
    if it.host_network {
        pod["dnsPolicy"] = "ClusterFirstWithHostNet".into();
        pod["hostNetwork"] = true.into();
    }
    let placement = &hub.spec.node_placement;
    if !placement.node_selector.is_empty() {
        pod["nodeSelector"] = json!(placement.node_selector);
    }
    if !placement.tolerations.is_empty() {
        pod["tolerations"] = json!(placement.tolerations);
    }
    let replicas = hub.facts.replicas;
    let mut deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": hub.namespace, "labels": labelled(&name)},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": it.app}},
            "template": {"metadata": {"labels": labelled(&it.app)}, "spec": pod},
        },
    });
    if it.host_network {
        // Two pods cannot have one port of a node.
        let unavailable = if replicas < 4 { json!(1) } else { json!("25%") };
        deployment["spec"]["strategy"] =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": 0}});
    }
    deployment
}
