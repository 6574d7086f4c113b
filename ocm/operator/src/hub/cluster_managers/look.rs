//! What is seen of a ClusterManager, and of the hub that it has.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
};
use ocm_api::operator::{ClusterManager, ClusterManagerInstallMode};
use ocm_reconcile::{
    ObserveError, Site,
    access::{self, Attributes},
};
use parking_lot::Mutex;

use super::{
    super::{
        Options, caches,
        certificates::{BUNDLE, BUNDLE_KEY},
        hosted::{self, Way},
        install::{self, HubSources},
        owner, removal,
        wanted::{self, EXTERNAL_KUBECONFIG, Facts, HubObjects, TLS_PROFILE, TlsProfile, WORK_DRIVER_CONFIG},
    },
    Seen,
};
use crate::{
    crds,
    objects::{Apis, Current, LookError, is_going, look, target},
    replicas,
};

/// The reconciler.
pub struct ClusterManagers {
    client: Client,
    pub(super) sources: caches::HubCaches,
    options: Arc<Options>,
    /// Clients of hubs on other clusters, by ClusterManager, with the version of the Secret that they were made of.
    hubs: Mutex<BTreeMap<String, (Option<String>, Client)>>,
}

impl ClusterManagers {
    /// Over these caches, and the API of the cluster that the operator runs on.
    pub fn new(client: Client, sources: &caches::HubCaches, options: Arc<Options>) -> Self {
        Self {
            client,
            sources: sources.clone(),
            options,
            hubs: Mutex::default(),
        }
    }

    pub(super) async fn look(&self, name: &str) -> Result<Seen, ObserveError> {
        let managers = self.sources.managers.list();
        let manager = managers.iter().find(|it| it.name_any() == name).cloned();
        let elder = manager.as_ref().and_then(|it| owner::elder(it, &managers));
        let mut seen = Seen {
            now: Timestamp::now(),
            options: self.options.clone(),
            manager: manager.clone(),
            elder,
            facts: Facts::default(),
            obstacle: None,
            way: None,
            sources: HubSources::default(),
            pods: Vec::new(),
            current: Current::default(),
            tokens: BTreeMap::new(),
            holders: Vec::new(),
            apis: Apis {
                management: Some(self.client.clone()),
                ..Apis::default()
            },
        };
        let Some(manager) = manager else {
            self.hubs.lock().remove(name);
            return Ok(seen);
        };
        if seen.elder.is_some() {
            return Ok(seen);
        }
        self.facts(&manager, &mut seen).await;
        self.way(&manager, &mut seen).await;
        let (options, facts) = (self.options.clone(), seen.facts.clone());
        let hub = HubObjects::of(&manager, &options, &facts);
        seen.pods = self.sources.pods.list_in(&hub.namespace);
        let is_settled = manager.status.as_ref().is_some_and(|it| {
            ocm_api::condition::is_false(&it.conditions, ocm_api::conditions::cluster_manager::PROGRESSING)
        });
        let mut targets = match manager.metadata.deletion_timestamp {
            Some(_) => removal::targets(&hub),
            None => install::targets(&hub, &seen.sources, is_settled),
        };
        if seen.way.is_some() {
            targets.extend(hosted::targets(&hub));
        }
        if seen.apis.hub.is_none() {
            targets.retain(|it| it.site == Site::Management);
        }
        match look(&seen.apis, targets).await {
            Ok(current) => seen.current = current,
            // Who is to be told that the hub does not answer is the user.
            Err(LookError::Read { target: of, source }) if of.site == Site::Hub && hub.is_hosted => {
                let message = format!(
                    "the hub of Secret {}/{EXTERNAL_KUBECONFIG} cannot be reached, or does not let the operator look: {source}",
                    hub.namespace
                );
                seen.obstacle = Some(("HubUnreachable", message));
                seen.way = None;
                seen.apis.hub = None;
                let here = removal::targets(&hub)
                    .into_iter()
                    .filter(|it| it.site == Site::Management);
                seen.current = look(&seen.apis, here).await?;
            }
            Err(error) => return Err(error.into()),
        }
        if manager.metadata.deletion_timestamp.is_some() {
            seen.holders = holders(&seen).await;
        } else if let Some(namespace) = going_namespace(&seen, &hub) {
            let message = format!("namespace {namespace} is being deleted; the hub is made when it is gone");
            seen.obstacle = Some((NAMESPACE_TERMINATING, message));
        }
        Ok(seen)
    }

    /// What is known beside the ClusterManager.
    async fn facts(&self, manager: &ClusterManager, seen: &mut Seen) {
        let (home, options) = (self.options.namespace.as_str(), &self.options);
        let is_hosted = manager.spec.deploy_option.mode == ClusterManagerInstallMode::Hosted;
        let nodes = match options.deployment_replicas > 0 || is_hosted {
            true => None,
            false => {
                let selector = &options.control_plane_node_label_selector;
                replicas::control_plane_nodes(&self.client, selector, options.layout).await
            }
        };
        let secret = |it: Option<Arc<Secret>>| it.map(|it| (*it).clone());
        seen.sources = HubSources {
            pull_secret: secret(self.sources.pull_secret.get(home, &options.image_pull_secret_name)),
            work_driver: secret(self.sources.work_driver.get(home, WORK_DRIVER_CONFIG)),
        };
        let bundle = self.sources.bundles.get(&wanted::namespace(manager), BUNDLE);
        let authorities = bundle.and_then(|it| it.data.as_ref()?.get(BUNDLE_KEY).cloned());
        let profile = self.sources.tls_profile.get(home, TLS_PROFILE);
        let data = profile.as_ref().and_then(|it| it.data.as_ref());
        let said = |key: &str| data.and_then(|it| it.get(key));
        let tls = TlsProfile::read(said("minTLSVersion"), said("cipherSuites"));
        seen.facts = Facts {
            replicas: replicas::decide(options.deployment_replicas, is_hosted, nodes),
            has_pull_secret: seen.sources.pull_secret.is_some(),
            tls: tls.clone().unwrap_or_default(),
            authorities: authorities.unwrap_or_default(),
            may_keep_revisions: false,
        };
        let hub = HubObjects::of(manager, &self.options, &seen.facts);
        if !hub.is_compact() && !is_hosted && hub.has_work_controller() {
            seen.facts.may_keep_revisions = self.may_grant_revisions().await;
        }
        if let Err(message) = tls {
            seen.obstacle = Some(("TLSProfileInvalid", message));
        }
    }

    /// Whether the API server lets the operator grant what a role of upstream's does not hold.
    async fn may_grant_revisions(&self) -> bool {
        let escalates = Attributes {
            verb: "escalate".to_owned(),
            group: "rbac.authorization.k8s.io".to_owned(),
            resource: "clusterroles".to_owned(),
            ..Attributes::default()
        };
        let holds = Attributes {
            verb: "delete".to_owned(),
            group: "apps".to_owned(),
            resource: "controllerrevisions".to_owned(),
            ..Attributes::default()
        };
        let may = async |it: &Attributes| access::may_i(&self.client, it).await.unwrap_or_default();
        may(&escalates).await || may(&holds).await
    }

    /// How the hub is reached: it is here, or where the Secret says.
    async fn way(&self, manager: &ClusterManager, seen: &mut Seen) {
        if manager.spec.deploy_option.mode == ClusterManagerInstallMode::Default {
            seen.apis.hub = Some(self.client.clone());
            return;
        }
        let namespace = wanted::namespace(manager);
        let Some(secret) = self.sources.external.get(&namespace, EXTERNAL_KUBECONFIG) else {
            let message = format!(
                "Secret {namespace}/{EXTERNAL_KUBECONFIG} is missing: create it with the kubeconfig of the hub as its key \
                 kubeconfig"
            );
            seen.obstacle = Some(("ExternalKubeconfigMissing", message));
            return;
        };
        match self.hub(&manager.name_any(), &secret).await {
            Ok((client, way)) => {
                seen.apis.hub = Some(client);
                seen.way = Some(way);
            }
            Err(message) => seen.obstacle = Some(("ExternalKubeconfigInvalid", message)),
        }
    }

    async fn hub(&self, name: &str, secret: &Secret) -> Result<(Client, Way), String> {
        let (kubeconfig, way) = hosted::read(secret)?;
        let version = secret.metadata.resource_version.clone();
        let known = self.hubs.lock().get(name).cloned();
        if let Some((_, client)) = known.filter(|it| it.0 == version) {
            return Ok((client, way));
        }
        let client = hosted::client(kubeconfig).await?;
        self.hubs.lock().insert(name.to_owned(), (version, client.clone()));
        Ok((client, way))
    }
}

/// The reason of a hub that waits for the namespace of the one before it.
pub(super) const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

fn going_namespace(seen: &Seen, hub: &HubObjects<'_>) -> Option<String> {
    let sites = [Site::Hub, Site::Management].into_iter();
    let mut found = sites.filter_map(|it| seen.current.get(&target(it, "Namespace", None, &hub.namespace)));
    found.any(is_going).then(|| hub.namespace.clone())
}

/// So many objects are named that hold a CRD.
const HOLDERS_MAX: u32 = 3;

/// The objects that keep the next CRD from going, in words.
async fn holders(seen: &Seen) -> Vec<String> {
    let first = install::CRDS_THAT_GO_FIRST.iter();
    let mut crds = first.filter_map(|it| seen.current.get(&crds::target(Site::Hub, it)));
    let (Some(crd), Some(client)) = (crds.find(|it| is_going(it)), &seen.apis.hub) else {
        return Vec::new();
    };
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &crd["spec"];
    let mut versions = spec["versions"].as_array().into_iter().flatten();
    let version = versions.find(|it| it["storage"] == true).map(|it| text(&it["name"]));
    let (group, version, kind) = (
        text(&spec["group"]),
        version.unwrap_or_default(),
        text(&spec["names"]["kind"]),
    );
    let resource = ApiResource {
        api_version: format!("{group}/{version}"),
        plural: text(&spec["names"]["plural"]),
        group,
        version,
        kind: kind.clone(),
    };
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    // That they cannot be named is no obstacle.
    let Ok(list) = all.list_metadata(&ListParams::default().limit(HOLDERS_MAX)).await else {
        return Vec::new();
    };
    let words = list.items.iter().map(|it| {
        let namespace = it.namespace().map(|it| it + "/").unwrap_or_default();
        let finalizers = it.finalizers().join(", ");
        format!("{kind} {namespace}{} (finalizers: {finalizers})", it.name_any())
    });
    words.collect()
}
