//! Everything that a ClusterManager's hub is made of, in the order in which it is made.
//!
//! ```text
//! namespaces -> CRDs -> Secrets -> RBAC, Services -> kubeconfigs -> Deployments -> (pods run) -> webhooks -> surplus
//! ```
//!
//! Upstream: ocm `pkg/operator/operators/clustermanager/controllers/clustermanagercontroller`. It deletes what a layout
//! or a gate no longer has at once; ours waits for the pods that take over, where there are such.

use k8s_openapi::api::core::v1::Secret;
use ocm_api::crds as our_crds;
use ocm_reconcile::{Site, Target};
use serde_json::{Value, json};

use super::{
    deployments, former, network_policies, roles,
    wanted::{HubObjects, WORK_DRIVER_CONFIG},
    webhooks,
};
use crate::{
    crds,
    objects::{Current, Stage, WantedObject, target},
};

/// Reasons of the condition `Applied`.
pub const CRDS_FAILED: &str = "CRDApplyFailed";
/// Of what is on the hub.
pub const HUB_FAILED: &str = "HubResourceApplyFailed";
/// Of the kubeconfigs of a hub on another cluster.
pub const ACCOUNTS_FAILED: &str = "ServiceAccountSyncFailed";
/// Of Deployments.
pub const RUNTIME_FAILED: &str = "RuntimeResourceApplyFailed";
/// Of webhook configurations.
pub const WEBHOOKS_FAILED: &str = "WebhookApplyFailed";

/// CRDs that go first, one after the other, when a hub is taken away: whoever cleans up after the objects of one needs
/// the others.
pub const CRDS_THAT_GO_FIRST: [&str; 4] = [
    "managedclusteraddons.addon.open-cluster-management.io",
    "manifestworks.work.open-cluster-management.io",
    "managedclusters.cluster.open-cluster-management.io",
    "manifestworkreplicasets.work.open-cluster-management.io",
];

/// The CRD of another project, which is made when somebody asks for it and never deleted.
const CLUSTER_PROFILES: &str = "clusterprofiles.multicluster.x-k8s.io";

/// The kinds that serve two versions.
const CONVERTED: [&str; 2] = [
    "clustermanagementaddons.addon.open-cluster-management.io",
    "managedclusteraddons.addon.open-cluster-management.io",
];

/// What is copied from the operator's namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HubSources {
    /// The Secret that images are pulled with.
    pub pull_secret: Option<Secret>,
    /// The Secret that says how to reach a broker.
    pub work_driver: Option<Secret>,
}

/// What a hub is made of.
pub struct Install {
    /// The namespaces.
    pub namespaces: Stage,
    /// The CRDs.
    pub crds: Vec<WantedObject>,
    /// Everything else up to the Deployments.
    pub stages: Vec<Stage>,
    /// What waits until the pods run.
    pub last: Vec<Stage>,
    /// The names of the Deployments whose pods do not all run as they are to be.
    pub rolling: Vec<String>,
    /// What is not done yet, and why.
    pub waits: Vec<String>,
}

/// What a hub is made of, seen what is there; `kubeconfigs` are those of its ServiceAccounts, where the hub is on
/// another cluster.
pub fn install(
    hub: &HubObjects<'_>,
    sources: &HubSources,
    kubeconfigs: Vec<WantedObject>,
    current: &Current,
) -> Install {
    let all: Vec<WantedObject> = deployments::wanted(hub).into_iter().map(management).collect();
    let rolling: Vec<String> = all
        .iter()
        .filter(|it| !is_ready(it, current))
        .map(|it| it.target.name.clone())
        .collect();
    let is_settled = rolling.is_empty();
    let mut waits = Vec::new();

    let roles = roles::wanted(hub);
    // A binding to a role that is not there yet is refused to who may not bind any.
    let is_binding = |it: &Value| it["kind"] == "ClusterRoleBinding";
    let (bindings, accounts): (Vec<Value>, Vec<Value>) = roles.keep.into_iter().partition(is_binding);
    let mut identities = Stage::new(HUB_FAILED);
    identities.keep.extend(accounts.into_iter().map(of_hub));
    let mut on_hub = Stage::new(HUB_FAILED);
    on_hub.keep.extend(bindings.into_iter().map(of_hub));
    for way in webhooks::services(hub) {
        let service = of_hub(way.service);
        let runs = way
            .deployment
            .is_none_or(|it| !rolling.contains(&format!("{}-{it}", hub.name)));
        if runs || leads_there(&service, current) {
            on_hub.keep.push(service);
        } else {
            waits.push(format!("{} leads to the new pods when they run", service.target));
        }
    }
    on_hub.keep.extend(webhooks::endpoints(hub).into_iter().map(of_hub));
    // They concern pods, which are not on the hub when that is on another cluster.
    let policies = network_policies::wanted(hub);
    on_hub.keep.extend(policies.into_iter().map(management));

    let mut runtime = Stage::new(RUNTIME_FAILED);
    let debug_service = target(
        Site::Management,
        "Service",
        Some(&hub.namespace),
        &webhooks::debug_service_name(hub),
    );
    if hub.has_debug_server() {
        runtime.keep.push(management(webhooks::debug_service(hub)));
    }
    for deployment in &all {
        match holds_webhooks(hub, deployment, current) {
            true => waits.push(format!(
                "{} goes on answering webhooks until others do",
                deployment.target
            )),
            false => runtime.keep.push(deployment.clone()),
        }
    }

    let mut last_webhooks = Stage::new(WEBHOOKS_FAILED);
    for manifest in webhooks::configurations(hub) {
        let object = of_hub(manifest);
        match (is_settled, current.get(&object.target)) {
            (true, _) => last_webhooks.keep.push(object),
            (false, Some(found)) => last_webhooks.keep.push(WantedObject {
                manifest: webhooks::with_authorities(found, &hub.facts.authorities),
                ..object
            }),
            (false, None) => {}
        }
    }
    let mut surplus = Stage::new(RUNTIME_FAILED);
    let mut gone: Vec<Target> = Vec::new();
    gone.extend(roles.remove.iter().map(|(kind, name)| of_hub_named(hub, kind, name)));
    let names: Vec<&str> = all.iter().map(|it| it.target.name.as_str()).collect();
    for name in deployments::ALL.map(|it| format!("{}-{it}", hub.name)) {
        if !names.contains(&name.as_str()) {
            gone.push(target(Site::Management, "Deployment", Some(&hub.namespace), &name));
        }
    }
    if !hub.has_debug_server() {
        gone.push(debug_service);
    }
    if !hub.has_network_policies() {
        let policies = network_policies::NAMES.iter();
        gone.extend(policies.map(|it| target(Site::Management, "NetworkPolicy", Some(&hub.namespace), it)));
    }
    // In upstream's layout something is surplus because a gate is off: nothing takes over from it.
    match hub.is_compact() {
        true => surplus.remove.extend(gone),
        false => runtime.remove.extend(gone),
    }
    surplus.remove.extend(
        webhooks::surplus(hub)
            .iter()
            .map(|(kind, name)| target(Site::Hub, kind, None, name)),
    );
    if hub.is_compact() {
        let certificates = [deployments::WORK_CERTIFICATE, deployments::ADD_ON_CERTIFICATE];
        surplus
            .remove
            .extend(certificates.map(|it| target(Site::Management, "Secret", Some(&hub.namespace), it)));
    }
    if !hub.is_hosted {
        surplus.remove.extend(former::targets(hub.is_compact()));
    }
    let mut last = vec![last_webhooks];
    if is_settled {
        last.push(surplus);
    } else {
        waits.push(format!("Deployments {} are still rolling", rolling.join(", ")));
    }

    let kubeconfigs = Stage {
        keep: kubeconfigs,
        ..Stage::new(ACCOUNTS_FAILED)
    };
    Install {
        namespaces: namespaces(hub),
        crds: definitions(hub, current, is_settled),
        stages: vec![secrets(hub, sources), identities, on_hub, kubeconfigs, runtime],
        last,
        rolling,
        waits,
    }
}

impl Install {
    /// Everything that is made, in the order in which it is.
    pub fn kept(&self) -> impl Iterator<Item = &Target> {
        let crds = self.crds.iter().map(|it| &it.target);
        let objects = self
            .namespaces
            .keep
            .iter()
            .chain(self.stages.iter().flat_map(|it| &it.keep));
        let last = self.last.iter().flat_map(|it| &it.keep);
        crds.chain(objects.chain(last).map(|it| &it.target))
    }
}

/// Everything that has to be seen before it can be said what is to be done.
pub fn targets(hub: &HubObjects<'_>, sources: &HubSources, is_settled: bool) -> Vec<Target> {
    let all = install(hub, sources, Vec::new(), &Current::default());
    let mut targets: Vec<Target> = all.crds.iter().map(|it| it.target.clone()).collect();
    targets.extend(all.namespaces.targets().cloned());
    targets.extend(all.stages.iter().flat_map(Stage::targets).cloned());
    for (kind, name) in webhooks::all() {
        targets.push(target(Site::Hub, kind, None, name));
    }
    targets.extend(deployments::ALL.iter().map(|it| {
        let name = format!("{}-{it}", hub.name);
        target(Site::Management, "Deployment", Some(&hub.namespace), &name)
    }));
    targets.extend(webhooks::services(hub).into_iter().map(|it| of_hub(it.service).target));
    targets.extend(
        roles::wanted(hub)
            .remove
            .iter()
            .map(|(kind, name)| of_hub_named(hub, kind, name)),
    );
    if hub.is_compact() {
        let certificates = [deployments::WORK_CERTIFICATE, deployments::ADD_ON_CERTIFICATE];
        targets.extend(certificates.map(|it| target(Site::Management, "Secret", Some(&hub.namespace), it)));
        targets.push(target(
            Site::Management,
            "Service",
            Some(&hub.namespace),
            &webhooks::debug_service_name(hub),
        ));
        let policies = network_policies::NAMES.iter();
        targets.extend(policies.map(|it| target(Site::Management, "NetworkPolicy", Some(&hub.namespace), it)));
    }
    // What was installed in another way is looked for until it is gone.
    if !is_settled && !hub.is_hosted {
        targets.extend(former::targets(hub.is_compact()));
    }
    targets
}

/// The CRDs of a hub.
pub fn crd_targets() -> Vec<Target> {
    let names = our_crds::hub()
        .into_iter()
        .filter_map(|it| it["metadata"]["name"].as_str().map(str::to_owned));
    let ours = names.filter(|it| it != CLUSTER_PROFILES);
    ours.map(|it| crds::target(Site::Hub, &it)).collect()
}

fn definitions(hub: &HubObjects<'_>, current: &Current, is_settled: bool) -> Vec<WantedObject> {
    let conversion = webhooks::conversion(hub);
    let wanted = our_crds::hub().into_iter().filter(|it| {
        let is_of_others = it["metadata"]["name"] == CLUSTER_PROFILES;
        !is_of_others || hub.has_cluster_profiles()
    });
    let object = |crd: Value| {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default();
        let is_converted = CONVERTED.contains(&name);
        let mut object = crds::object(Site::Hub, crd, &hub.own_labels, is_converted.then_some(&conversion));
        // Whoever converts today goes on until there is somebody else.
        let found = current.get(&object.target).map(|it| &it["spec"]["conversion"]);
        let service = |it: &Value| it["webhook"]["clientConfig"]["service"]["name"].clone();
        if let Some(found) = found.filter(|it| is_converted && !is_settled && it["strategy"] == "Webhook")
            && service(found) != service(&object.manifest["spec"]["conversion"])
        {
            object.manifest["spec"]["conversion"] = found.clone();
        }
        object
    };
    wanted.map(object).collect()
}

fn namespaces(hub: &HubObjects<'_>) -> Stage {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": hub.namespace, "labels": hub.labels}});
    let mut stage = Stage::new(HUB_FAILED);
    stage.keep.push(of_hub(namespace.clone()));
    if hub.is_hosted {
        stage.keep.push(management(namespace));
    }
    stage
}

/// Copies of Secrets, where the pods are.
fn secrets(hub: &HubObjects<'_>, sources: &HubSources) -> Stage {
    let mut stage = Stage::new(HUB_FAILED);
    let pull_secret = hub.options.image_pull_secret_name.as_str();
    let mut all = vec![(pull_secret, &sources.pull_secret)];
    if hub.work_driver().is_some() {
        all.push((WORK_DRIVER_CONFIG, &sources.work_driver));
    }
    for (name, source) in all.into_iter().filter(|it| !it.0.is_empty()) {
        match source {
            Some(source) => stage.keep.push(management(json!({
                "apiVersion": "v1", "kind": "Secret", "type": source.type_,
                "metadata": {"name": name, "namespace": hub.namespace, "labels": hub.labels}, "data": source.data,
            }))),
            None => stage
                .remove
                .push(target(Site::Management, "Secret", Some(&hub.namespace), name)),
        }
    }
    stage
}

fn of_hub(manifest: Value) -> WantedObject {
    WantedObject::new(Site::Hub, manifest)
}

fn management(manifest: Value) -> WantedObject {
    WantedObject::new(Site::Management, manifest)
}

fn of_hub_named(hub: &HubObjects<'_>, kind: &str, name: &str) -> Target {
    let namespace = (!kind.starts_with("Cluster")).then_some(hub.namespace.as_str());
    target(Site::Hub, kind, namespace, name)
}

/// Whether a Service is not there yet, or leads to these pods already.
fn leads_there(service: &WantedObject, current: &Current) -> bool {
    current
        .get(&service.target)
        .is_none_or(|it| it["spec"]["selector"] == service.manifest["spec"]["selector"])
}

/// Whether a Deployment of all of a hub is still the one that answers webhooks, and is to become one that does not.
fn holds_webhooks(hub: &HubObjects<'_>, deployment: &WantedObject, current: &Current) -> bool {
    let program = |it: &Value| it["spec"]["template"]["spec"]["containers"][0]["args"][0].clone();
    let becomes = current.get(&deployment.target).is_some_and(|it| program(it) == "hub");
    if hub.is_compact() || !becomes || program(&deployment.manifest) == "hub" {
        return false;
    }
    let services = webhooks::services(hub);
    let mut services = services.into_iter().map(|it| of_hub(it.service));
    services.any(|it| !leads_there(&it, current))
}

/// Whether a Deployment is as it is to be, and all its pods are, and run.
pub fn is_ready(deployment: &WantedObject, current: &Current) -> bool {
    let Some(found) = current.get(&deployment.target) else {
        return false;
    };
    crate::objects::is_as_wanted(found, &deployment.manifest) && runs(found)
}

/// Whether all pods of a Deployment are of its present generation, and are ready.
pub fn runs(found: &Value) -> bool {
    let replicas = found["spec"]["replicas"].as_i64().unwrap_or(1);
    let status = &found["status"];
    let count = |field: &str| status[field].as_i64().unwrap_or_default();
    status["observedGeneration"].as_i64() == found["metadata"]["generation"].as_i64()
        && count("readyReplicas") == replicas
        && count("updatedReplicas") == replicas
        && count("replicas") == replicas
}
