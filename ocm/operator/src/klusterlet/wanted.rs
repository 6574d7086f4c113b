//! Everything that is to be in place for a Klusterlet, in upstream's order: definitions, what the agent may do on the
//! managed cluster and where its pods run, its Deployments, and what of former ones is to go.
//! Upstream: ocm `pkg/operator/operators/klusterlet/controllers/klusterletcontroller/klusterlet_*_reconcile.go`.
//!
//! We differ in these: what runs goes only when what comes instead of it is ready; a namespace that is left takes its
//! credential along; a pull secret is deleted with its source only where we have made it.

use k8s_openapi::api::core::v1::Secret;
use ocm_api::{
    condition,
    conditions::klusterlet as conditions,
    namespaces::{AGENT_ADDON, BOOTSTRAP_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET, PULL_SECRET},
    operator::{Klusterlet, RelatedResourceMeta},
};
use ocm_reconcile::{Site, Target};
use serde_json::{Value, json};

use super::{
    access,
    deployment::{AgentProgram, deployment},
    names, network, rbac,
    settings::{AgentSettings, NetworkPolicies, Place, Shape},
};
use crate::{
    Layout, crds,
    objects::{self, Current, Stage, WantedObject},
};

/// Reasons of the condition `Applied`.
pub mod reason {
    /// All is in place.
    pub const APPLIED: &str = "KlusterletApplied";
    /// Something is not.
    pub const FAILED: &str = "KlusterletApplyFailed";
    /// A definition is not.
    pub const CRD_FAILED: &str = "CRDApplyFailed";
    /// Something on the managed cluster is not.
    pub const MANAGED_FAILED: &str = "ManagedClusterResourceApplyFailed";
    /// Something where the pods run is not.
    pub const MANAGEMENT_FAILED: &str = "ManagementClusterResourceApplyFailed";
}

/// Of `hub-kubeconfig-secret`, what decides about the work agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HubCredential {
    /// Whether there is a kubeconfig.
    pub has_kubeconfig: bool,
    /// The name that the registration agent has made up.
    pub cluster_name: Option<String>,
}

impl HubCredential {
    /// What the Secret says.
    pub fn of(secret: Option<&Secret>) -> Self {
        let data = |key: &str| secret?.data.as_ref()?.get(key).map(|it| it.0.clone());
        let name = data("cluster-name").and_then(|it| String::from_utf8(it).ok());
        Self {
            has_kubeconfig: data("kubeconfig").is_some(),
            cluster_name: name.filter(|it| !it.is_empty()),
        }
    }
}

/// The definitions on the managed cluster.
pub fn definitions(settings: &AgentSettings) -> Vec<WantedObject> {
    let all = ocm_api::crds::managed_cluster().into_iter();
    let wanted = all.filter(|it| settings.has_properties || it["metadata"]["name"] != CLUSTER_PROPERTIES);
    wanted
        .map(|it| crds::object(Site::Cluster, it, &json!({}), None))
        .collect()
}

const CLUSTER_PROPERTIES: &str = "clusterproperties.about.k8s.io";

/// A namespace as it is to be.
fn namespace(site: Site, name: &str, labels: &Value) -> WantedObject {
    let metadata = json!({
        "name": name,
        "labels": labels,
        "annotations": {"workload.openshift.io/allowed": "management"},
    });
    WantedObject::new(
        site,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}),
    )
}

/// The namespaces on the managed cluster.
pub fn managed_namespaces(settings: &AgentSettings) -> Vec<WantedObject> {
    let mut own = settings.labels.clone();
    own[names::NAMESPACE_LABEL] = settings.name.as_str().into();
    let mut all = Vec::new();
    if settings.has_addon_namespace {
        all.push(namespace(Site::Cluster, AGENT_ADDON, &settings.labels));
    }
    all.push(namespace(Site::Cluster, &settings.klusterlet_namespace, &own));
    all
}

/// The namespace of the pods, where it is on another cluster.
pub fn hosting_namespace(settings: &AgentSettings) -> Option<WantedObject> {
    (settings.place == Place::Hosting).then(|| namespace(Site::Management, &settings.agent_namespace, &settings.labels))
}

/// Where copies of the pull secret go.
fn pull_secret_targets(settings: &AgentSettings) -> Vec<Target> {
    let target = |site, namespace: &str| objects::target(site, "Secret", Some(namespace), PULL_SECRET);
    let mut all = Vec::new();
    if settings.has_addon_namespace {
        all.push(target(Site::Cluster, AGENT_ADDON));
    }
    all.push(target(Site::Management, &settings.agent_namespace));
    let is_source = |it: &Target| {
        let is_here = settings.place == Place::Managed || it.site == Site::Management;
        is_here && it.namespace.as_ref() == Some(&settings.operator_namespace)
    };
    all.retain(|it| !is_source(it));
    all
}

/// A copy of a Secret, whole.
pub fn secret(target: &Target, labels: &Value, data: &Value, r#type: &Value) -> WantedObject {
    let metadata = json!({"name": target.name, "namespace": target.namespace, "labels": labels});
    let mut manifest = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data});
    if r#type.is_string() {
        manifest["type"] = r#type.clone();
    }
    WantedObject::new(target.site, manifest)
}

/// The Secrets that a namespace which is left has, and the next one needs.
pub fn taken_along(settings: &AgentSettings, from: &str) -> Vec<(Target, Target)> {
    let target = |namespace: &str, name: &str| objects::target(Site::Management, "Secret", Some(namespace), name);
    let pair = |name| (target(from, name), target(&settings.agent_namespace, name));
    [BOOTSTRAP_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET].map(pair).to_vec()
}

/// Everything that has to be looked at before it can be decided what to write.
pub fn targets(settings: &AgentSettings, former_namespaces: &[String]) -> Vec<Target> {
    let mut all: Vec<Target> = Vec::new();
    all.extend(definitions(settings).into_iter().map(|it| it.target));
    all.extend(managed_namespaces(settings).into_iter().map(|it| it.target));
    all.extend(hosting_namespace(settings).map(|it| it.target));
    all.extend(rbac::managed(settings, false).into_iter().map(|it| it.target));
    all.push(rbac::aggregate(settings).target);
    all.extend(rbac::management(settings, false).into_iter().map(|it| it.target));
    all.extend(network::targets(settings));
    all.extend(pull_secret_targets(settings));
    all.extend(settings.deployments().iter().map(|it| deployment_target(settings, it)));
    all.extend(settings.surplus().iter().map(|it| deployment_target(settings, it)));
    all.extend(surplus_accounts(settings));
    for (secret, _) in settings.derived_secrets() {
        all.push(derived_target(settings, secret));
    }
    for namespace in former_namespaces {
        all.extend(
            taken_along(settings, namespace)
                .into_iter()
                .flat_map(|(from, to)| [from, to]),
        );
        all.push(objects::target(Site::Cluster, "Namespace", None, namespace));
    }
    all
}

/// A Deployment of the agent.
pub fn deployment_target(settings: &AgentSettings, name: &str) -> Target {
    objects::target(Site::Management, "Deployment", Some(&settings.agent_namespace), name)
}

/// A Secret with a kubeconfig of the managed cluster, for the pods.
pub fn derived_target(settings: &AgentSettings, name: &str) -> Target {
    objects::target(Site::Management, "Secret", Some(&settings.agent_namespace), name)
}

fn surplus_accounts(settings: &AgentSettings) -> Vec<Target> {
    let all = rbac::surplus_accounts(settings).into_iter();
    all.map(|(site, namespace, name)| objects::target(site, "ServiceAccount", Some(&namespace), &name))
        .collect()
}

/// Whether Deployments of the other shape are there.
pub fn is_moving(settings: &AgentSettings, current: &Current) -> bool {
    let mut surplus = settings.surplus().into_iter();
    surplus.any(|it| current.get(&deployment_target(settings, &it)).is_some())
}

/// Whether a Deployment's pods are all as its specification says, and ready; one of no pods is.
pub fn is_ready(deployment: &Value) -> bool {
    let number = |it: &Value| it.as_i64().unwrap_or_default();
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    let replicas = spec["replicas"].as_i64().unwrap_or(1);
    number(&status["observedGeneration"]) >= number(&deployment["metadata"]["generation"])
        && number(&status["updatedReplicas"]) >= replicas
        && number(&status["availableReplicas"]) >= replicas
}

/// Whether the Deployments are there, as they are to be, and their pods are ready: what runs in their place may go.
pub fn is_in_place(settings: &AgentSettings, deployments: &[WantedObject], current: &Current) -> bool {
    deployments.len() == settings.deployments().len()
        && deployments.iter().all(|it| {
            let found = current.get(&it.target);
            found.is_some_and(|found| is_ready(found) && found["spec"]["replicas"] == it.manifest["spec"]["replicas"])
        })
}

/// The agent's Deployments, as far as they can be said: the work agent needs to be told the cluster's name.
pub fn deployments(settings: &AgentSettings, klusterlet: &Klusterlet, hub: &HubCredential) -> Vec<WantedObject> {
    let said = settings.pods.cluster_name.as_str();
    if settings.shape == Shape::One {
        return vec![deployment(settings, AgentProgram::Agent, settings.replicas, said)];
    }
    let mut all = vec![deployment(
        settings,
        AgentProgram::Registration,
        settings.replicas,
        said,
    )];
    if let Some(cluster) = Some(said).filter(|it| !it.is_empty()).or(hub.cluster_name.as_deref()) {
        all.push(deployment(
            settings,
            AgentProgram::Work,
            work_replicas(settings, klusterlet, hub),
            cluster,
        ));
    }
    all
}

/// A work agent can do nothing before there is a credential; afterwards it runs even if the hub refuses it, so that
/// what works have applied is removed when the cluster leaves.
fn work_replicas(settings: &AgentSettings, klusterlet: &Klusterlet, hub: &HubCredential) -> i32 {
    let conditions = klusterlet.status.iter().flat_map(|it| &it.conditions);
    let degraded = conditions
        .into_iter()
        .find(|it| it.type_ == conditions::HUB_CONNECTION_DEGRADED);
    let says_missing = |reason: &str| {
        let words = [access::reason::HUB_SECRET_MISSING, access::reason::HUB_MISSING];
        reason.split(',').any(|it| words.contains(&it))
    };
    let is_missing =
        degraded.is_none_or(|it| it.status == condition::Status::True.as_str() && says_missing(&it.reason));
    match is_missing && !hub.has_kubeconfig {
        true => 0,
        false => settings.replicas,
    }
}

/// What is to be in place beside the definitions and Deployments, a stage after the other.
pub fn stages(settings: &AgentSettings, pull_secret: Option<&Value>, current: &Current) -> Vec<Stage> {
    let is_moving = is_moving(settings, current);
    let mut managed_namespaces_stage = Stage::new(reason::FAILED);
    managed_namespaces_stage.keep = managed_namespaces(settings);
    let mut managed = Stage::new(reason::MANAGED_FAILED);
    managed.keep = rbac::managed(settings, is_moving);
    managed.keep.push(rbac::aggregate(settings));
    let mut management = Stage::new(reason::MANAGEMENT_FAILED);
    management.keep = rbac::management(settings, is_moving);
    match settings.network_policies {
        NetworkPolicies::Kept => management.keep.extend(network::policies(settings)),
        NetworkPolicies::Going | NetworkPolicies::None => {
            let ours = |it: &Target| current.get(it).is_some_and(|it| is_made_for(settings, it));
            management.remove = network::targets(settings).into_iter().filter(ours).collect();
        }
    }
    let mut copies = Stage::new(reason::FAILED);
    copies.keep.extend(hosting_namespace(settings));
    for target in pull_secret_targets(settings) {
        match pull_secret {
            Some(source) => {
                let copy = secret(&target, &settings.labels, &source["data"], &source["type"]);
                match current.get(&target).filter(|it| it["type"] != source["type"]) {
                    // A type cannot be changed.
                    Some(_) => copies.remove.push(target),
                    None => copies.keep.push(copy),
                }
            }
            None if current.get(&target).is_some_and(|it| is_made_for(settings, it)) => copies.remove.push(target),
            None => {}
        }
    }
    let mut all = vec![managed_namespaces_stage, copies, managed, management];
    for stage in &mut all {
        stage.keep.iter_mut().for_each(|it| leave_to_others(it, current));
    }
    all
}

/// What other controllers fill in is said once: the rules of an aggregated role, and the pull secrets of an account.
/// What several Klusterlets share is of the first of them.
fn leave_to_others(object: &mut WantedObject, current: &Current) {
    let Some(found) = current.get(&object.target) else {
        return;
    };
    let is_shared = object.target.name == AGENT_ADDON || object.target.namespace.as_deref() == Some(AGENT_ADDON);
    let of = &found["metadata"]["labels"][names::CREATED_BY];
    if is_shared && of.is_string() {
        object.manifest["metadata"]["labels"][names::CREATED_BY] = of.clone();
    }
    let fields = object.manifest.as_object_mut().expect("a manifest is an object");
    if fields.contains_key("aggregationRule") {
        fields.remove("rules");
    }
    if let Some(ours) = fields.get("imagePullSecrets").and_then(Value::as_array).cloned() {
        let mut all = found["imagePullSecrets"].as_array().cloned().unwrap_or_default();
        let missing: Vec<Value> = ours.into_iter().filter(|it| !all.contains(it)).collect();
        all.extend(missing);
        fields.insert("imagePullSecrets".to_owned(), all.into());
    }
}

/// Whether an object was made for this Klusterlet.
pub fn is_made_for(settings: &AgentSettings, found: &Value) -> bool {
    found["metadata"]["labels"][names::CREATED_BY] == settings.name.as_str()
}

/// What goes when the Deployments are in place: those of the other shape, and who they were.
pub fn surplus(settings: &AgentSettings) -> Vec<Target> {
    let deployments = settings.surplus();
    let deployments = deployments.iter().map(|it| deployment_target(settings, it));
    deployments.chain(surplus_accounts(settings)).collect()
}

/// `status.relatedResources`.
pub fn related(settings: &AgentSettings, layout: Layout) -> Vec<RelatedResourceMeta> {
    let mut targets: Vec<Target> = definitions(settings).into_iter().map(|it| it.target).collect();
    targets.extend(rbac::managed(settings, false).into_iter().map(|it| it.target));
    targets.extend(rbac::management(settings, false).into_iter().map(|it| it.target));
    if settings.network_policies == NetworkPolicies::Kept {
        targets.extend(network::targets(settings));
    }
    targets.extend(settings.deployments().iter().map(|it| deployment_target(settings, it)));
    if layout == Layout::Compact {
        // Who looks for upstream's Deployments finds their names, and that they are not there.
        targets.extend(settings.surplus().iter().map(|it| deployment_target(settings, it)));
    }
    objects::related(&targets)
}
