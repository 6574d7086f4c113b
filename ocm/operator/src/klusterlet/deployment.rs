//! The Deployments of an agent, argument for argument as upstream's.
//! Upstream: ocm `manifests/klusterlet/management/*-deployment.yaml`. We differ in one thing: a Deployment of the
//! compact layout is upstream's of mode Singleton, whatever the mode.

use jiff::SignedDuration;
use kube_primitives::duration;
use ocm_api::operator::{ResourceQosClass, ResourceRequirement};
use ocm_reconcile::Site;
use serde_json::{Value, json};

use super::{
    names,
    settings::{AgentSettings, Place, PodSettings},
};
use crate::{Layout, objects::WantedObject};

/// One program of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentProgram {
    /// Registration alone.
    Registration,
    /// Work alone.
    Work,
    /// Both.
    Agent,
}

impl AgentProgram {
    fn app(self) -> &'static str {
        match self {
            AgentProgram::Registration => "klusterlet-registration-agent",
            AgentProgram::Work => "klusterlet-manifestwork-agent",
            AgentProgram::Agent => "klusterlet-agent",
        }
    }

    fn container(self) -> &'static str {
        match self {
            AgentProgram::Registration => "registration-controller",
            AgentProgram::Work => "klusterlet-manifestwork-agent",
            AgentProgram::Agent => "klusterlet-agent",
        }
    }

    fn name(self, klusterlet: &str) -> String {
        match self {
            AgentProgram::Registration => names::registration_agent(klusterlet),
            AgentProgram::Work => names::work_agent(klusterlet),
            AgentProgram::Agent => names::agent(klusterlet),
        }
    }

    fn account(self, klusterlet: &str) -> String {
        match self {
            AgentProgram::Registration => names::registration_account(klusterlet),
            AgentProgram::Work | AgentProgram::Agent => names::work_account(klusterlet),
        }
    }

    fn image(self, pods: &PodSettings) -> &str {
        match self {
            AgentProgram::Registration => &pods.registration_image,
            AgentProgram::Work => &pods.work_image,
            AgentProgram::Agent => &pods.image,
        }
    }

    fn external(self) -> &'static str {
        match self {
            AgentProgram::Registration => names::EXTERNAL_REGISTRATION,
            AgentProgram::Work => names::EXTERNAL_WORK,
            AgentProgram::Agent => names::EXTERNAL_AGENT,
        }
    }
}

/// Ours is asked at once and then every second: it is ready sooner, and whoever installs waits for it.
fn readiness(layout: Layout) -> Value {
    match layout {
        Layout::Upstream => json!({"httpGet": probe(), "initialDelaySeconds": 2}),
        Layout::Compact => json!({"httpGet": probe(), "periodSeconds": 1}),
    }
}

/// The Deployment of a program with so many replicas. The cluster's name is what the Klusterlet says, or what the agent
/// has made up.
pub fn deployment(settings: &AgentSettings, program: AgentProgram, replicas: i32, cluster: &str) -> WantedObject {
    let AgentSettings { pods, labels, .. } = settings;
    let app = program.app();
    let mut labels = labels.clone();
    labels["app"] = app.into();
    let mut spec = json!({
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            apart(70, "failure-domain.beta.kubernetes.io/zone", app),
            apart(30, "kubernetes.io/hostname", app),
        ]}},
        "serviceAccountName": program.account(&settings.name),
        "containers": [{
            "name": program.container(),
            "image": program.image(pods),
            "args": arguments(settings, program, replicas, cluster),
            "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "privileged": false,
                "runAsNonRoot": true,
                "readOnlyRootFilesystem": true,
            },
            "volumeMounts": mounts(settings, program),
            "livenessProbe": {"httpGet": probe(), "initialDelaySeconds": 2, "periodSeconds": 10},
            "readinessProbe": readiness(settings.layout),
            "resources": resources(&pods.resources),
        }],
        "volumes": volumes(settings, program),
    });
    if let Some(alias) = &pods.host_alias {
        spec["hostAliases"] = json!([{"ip": alias.ip, "hostnames": [alias.hostname]}]);
    }
    if !pods.priority_class.is_empty() {
        spec["priorityClassName"] = pods.priority_class.as_str().into();
    }
    if !pods.node_placement.node_selector.is_empty() {
        spec["nodeSelector"] = json!(pods.node_placement.node_selector);
    }
    if !pods.node_placement.tolerations.is_empty() {
        spec["tolerations"] = json!(pods.node_placement.tolerations);
    }
    let manifest = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": program.name(&settings.name),
            "namespace": settings.agent_namespace,
            "labels": labels,
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": app}},
            "template": {
                "metadata": {
                    "annotations": {
                        "target.workload.openshift.io/management": "{\"effect\": \"PreferredDuringScheduling\"}",
                    },
                    "labels": labels,
                },
                "spec": spec,
            },
        },
    });
    WantedObject::new(Site::Management, manifest)
}

fn apart(weight: i32, topology: &str, app: &str) -> Value {
    json!({"weight": weight, "podAffinityTerm": {
        "topologyKey": topology,
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": [app]}]},
    }})
}

fn probe() -> Value {
    json!({"path": "/healthz", "scheme": "HTTPS", "port": 8443})
}

fn resources(requirement: &ResourceRequirement) -> Value {
    match requirement.r#type {
        ResourceQosClass::Default => json!({"requests": {"cpu": "2m", "memory": "16Mi"}}),
        ResourceQosClass::BestEffort => json!({}),
        ResourceQosClass::ResourceRequirement => match &requirement.resource_requirements {
            Some(said) => json!(said),
            None => json!({}),
        },
    }
}

fn mounts(settings: &AgentSettings, program: AgentProgram) -> Vec<Value> {
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    let read_only = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    let mut all = Vec::new();
    match program {
        AgentProgram::Work => all.push(read_only("hub-kubeconfig-secret", "/spoke/hub-kubeconfig")),
        AgentProgram::Registration | AgentProgram::Agent => {
            match &settings.pods.hubs {
                Some(hubs) => all.extend(hubs.secrets.iter().map(|it| read_only(it, &format!("/spoke/{it}")))),
                None => all.push(read_only("bootstrap-secret", "/spoke/bootstrap")),
            }
            all.push(mount("hub-kubeconfig", "/spoke/hub-kubeconfig"));
        }
    }
    all.push(mount("tmpdir", "/tmp"));
    if settings.place == Place::Hosting {
        all.push(read_only("spoke-kubeconfig-secret", "/spoke/config"));
    }
    all
}

fn volumes(settings: &AgentSettings, program: AgentProgram) -> Vec<Value> {
    let secret = |name: &str, secret: &str| json!({"name": name, "secret": {"secretName": secret}});
    let mut all = Vec::new();
    match program {
        AgentProgram::Work => all.push(secret(
            "hub-kubeconfig-secret",
            ocm_api::namespaces::HUB_KUBECONFIG_SECRET,
        )),
        AgentProgram::Registration | AgentProgram::Agent => {
            match &settings.pods.hubs {
                Some(hubs) => all.extend(hubs.secrets.iter().map(|it| secret(it, it))),
                None => all.push(secret(
                    "bootstrap-secret",
                    ocm_api::namespaces::BOOTSTRAP_KUBECONFIG_SECRET,
                )),
            }
            all.push(json!({"name": "hub-kubeconfig", "emptyDir": {"medium": "Memory"}}));
        }
    }
    all.push(json!({"name": "tmpdir", "emptyDir": {}}));
    if settings.place == Place::Hosting {
        all.push(secret("spoke-kubeconfig-secret", program.external()));
    }
    all
}

/// The command line of a program.
fn arguments(settings: &AgentSettings, program: AgentProgram, replicas: i32, cluster: &str) -> Vec<String> {
    let mut line = Line(Vec::new());
    let words: [&str; 2] = match program {
        AgentProgram::Registration => ["/registration", "agent"],
        AgentProgram::Work => ["/work", "agent"],
        AgentProgram::Agent => ["/registration-operator", "agent"],
    };
    line.0.extend(words.map(str::to_owned));
    line.flag("spoke-cluster-name", cluster);
    match program {
        AgentProgram::Registration => registration(&mut line, settings),
        AgentProgram::Work => work(&mut line, settings, replicas),
        AgentProgram::Agent => agent(&mut line, settings, replicas),
    }
    if let Some(tls) = &settings.pods.tls {
        line.some("tls-min-version", &tls.min_version);
        line.some("tls-cipher-suites", &tls.cipher_suites);
    }
    line.0
}

fn registration(line: &mut Line, settings: &AgentSettings) {
    let pods = &settings.pods;
    line.hubs(pods);
    line.0.extend(pods.registration_gates.iter().cloned());
    line.some("spoke-external-server-urls", &pods.external_server_urls);
    line.managed_cluster(settings);
    line.above_zero(
        "client-cert-expiration-seconds",
        pods.registration.client_cert_expiration_seconds,
    );
    line.some("cluster-annotations", &pods.cluster_annotations);
    line.above_zero("kube-api-qps", pods.registration.kube_api_qps);
    line.above_zero("kube-api-burst", pods.registration.kube_api_burst);
    line.claims_and_add_ons(pods);
}

fn work(line: &mut Line, settings: &AgentSettings, replicas: i32) {
    let PodSettings { work, work_gates, .. } = &settings.pods;
    line.source();
    line.flag("agent-id", &settings.agent_id);
    line.0.extend(work_gates.iter().cloned());
    line.managed_cluster(settings);
    line.flag("terminate-on-files", "/spoke/hub-kubeconfig/kubeconfig");
    line.status_sync_interval(&work.status_sync_interval, replicas);
    line.above_zero("kube-api-qps", work.kube_api_qps);
    line.above_zero("kube-api-burst", work.kube_api_burst);
    line.above_zero("hub-kube-api-qps", work.hub_kube_api_qps);
    line.above_zero("hub-kube-api-burst", work.hub_kube_api_burst);
    line.eviction(&work.applied_manifest_work_eviction_grace_period);
}

fn agent(line: &mut Line, settings: &AgentSettings, replicas: i32) {
    let pods = &settings.pods;
    let PodSettings { work, registration, .. } = pods;
    line.hubs(pods);
    line.flag("agent-id", &settings.agent_id);
    line.source();
    line.0.extend(pods.work_gates.iter().cloned());
    line.0.extend(pods.registration_gates.iter().cloned());
    line.some("spoke-external-server-urls", &pods.external_server_urls);
    line.status_sync_interval(&work.status_sync_interval, replicas);
    line.above_zero(
        "client-cert-expiration-seconds",
        registration.client_cert_expiration_seconds,
    );
    line.some("cluster-annotations", &pods.cluster_annotations);
    line.managed_cluster(settings);
    // One process has one connection to the cluster: it gets what the busier half may.
    line.above_zero("kube-api-qps", registration.kube_api_qps.max(work.kube_api_qps));
    line.above_zero("kube-api-burst", registration.kube_api_burst.max(work.kube_api_burst));
    line.above_zero("hub-kube-api-qps", work.hub_kube_api_qps);
    line.above_zero("hub-kube-api-burst", work.hub_kube_api_burst);
    line.claims_and_add_ons(pods);
    line.eviction(&work.applied_manifest_work_eviction_grace_period);
}

struct Line(Vec<String>);

impl Line {
    fn flag(&mut self, name: &str, value: &str) {
        self.0.push(format!("--{name}={value}"));
    }

    fn some(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.flag(name, value);
        }
    }

    fn above_zero(&mut self, name: &str, value: impl Into<i64>) {
        let value = value.into();
        if value > 0 {
            self.flag(name, &value.to_string());
        }
    }

    fn hubs(&mut self, pods: &PodSettings) {
        match &pods.hubs {
            None => self.flag("bootstrap-kubeconfig", "/spoke/bootstrap/kubeconfig"),
            Some(hubs) => {
                for secret in &hubs.secrets {
                    self.flag("bootstrap-kubeconfigs", &format!("/spoke/{secret}/kubeconfig"));
                }
                self.flag("hub-connection-timeout-seconds", &hubs.timeout_seconds.to_string());
            }
        }
    }

    fn source(&mut self) {
        self.flag("workload-source-driver", "kube");
        self.flag("workload-source-config", "/spoke/hub-kubeconfig/kubeconfig");
    }

    fn managed_cluster(&mut self, settings: &AgentSettings) {
        if settings.place == Place::Hosting {
            self.flag("spoke-kubeconfig", "/spoke/config/kubeconfig");
            self.flag("terminate-on-files", "/spoke/config/kubeconfig");
        }
    }

    fn status_sync_interval(&mut self, said: &str, replicas: i32) {
        match said {
            "" if replicas == 1 => self.flag("status-sync-interval", "60s"),
            said => self.some("status-sync-interval", &as_go_prints(said)),
        }
    }

    fn eviction(&mut self, said: &str) {
        self.some("appliedmanifestwork-eviction-grace-period", &as_go_prints(said));
    }

    fn claims_and_add_ons(&mut self, pods: &PodSettings) {
        if let Some(claims) = &pods.registration.cluster_claim_configuration {
            self.above_zero("max-custom-cluster-claims", claims.max_custom_cluster_claims);
            let suffixes = claims.reserved_cluster_claim_suffixes.join(",");
            self.some("reserved-cluster-claim-suffixes", &suffixes);
        }
        let Some(driver) = &pods.registration.add_on_kube_client_registration_driver else {
            return;
        };
        let auth_type = driver.auth_type.as_ref().map(|it| json!(it));
        self.some(
            "addon-kubeclient-registration-auth",
            auth_type.as_ref().and_then(Value::as_str).unwrap_or_default(),
        );
        let seconds = driver.token.as_ref().map_or(0, |it| it.expiration_seconds);
        self.above_zero("addon-token-expiration-seconds", seconds);
    }
}

/// A duration as Go prints it: `90m` is `1h30m0s`. What cannot be read is left as it is, for the agent to say so.
fn as_go_prints(text: &str) -> String {
    let Some(parsed) = duration::parse(text) else {
        return text.to_owned();
    };
    if parsed == SignedDuration::ZERO {
        return "0s".to_owned();
    }
    let seconds = parsed.as_secs();
    if parsed.subsec_nanos() != 0 || seconds < 0 {
        return text.to_owned();
    }
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}
