//! A hub on a cluster: our operator and a ClusterManager, as clusteradm's `init` puts them there.
//! Upstream: clusteradm `pkg/cmd/init/exec.go`, whose values for the chart these are, and whose waits. We differ in
//! that a dry run writes nothing, in that waiting ends when the hub is really up to date, and in that a bootstrap token
//! that is there stays as it is.

pub mod clean;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use client::{
    bootstrap::{Invitation, public_kubeconfig},
    connect::ApiServer,
};
use gotemplate::helm::merge_values;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use ocm_api::namespaces;
use ocm_reconcile::install::{DROVER, Installed, MANAGED_BY};
use operator::charts;
use serde_json::{Value, json};

use crate::{
    Line, Mode,
    gates::{self, Gate},
    images::Images,
    manifests::{self, InstallManifests},
    resources::ResourceFlags,
    token,
    values::{self, ValueFlags},
    wait,
};

/// The name of the ClusterManager that is made, of the operator's Deployment, and of its pods' label `app`.
pub const NAME: &str = "cluster-manager";

/// The CRD of ClusterManagers.
pub const CRD: &str = "clustermanagers.operator.open-cluster-management.io";

/// The components whose images the chart names.
pub const COMPONENTS: [&str; 5] = ["registration", "work", "placement", "addOnManager", "operator"];

/// What a hub is to be like.
#[derive(Clone, Debug)]
pub struct InitOptions {
    /// The images, and with them the layout.
    pub images: Images,
    /// A docker config in JSON, for the Secret that images are pulled with.
    pub image_pull_credential_file: Option<PathBuf>,
    /// Gates that were turned on or off.
    pub feature_gates: Vec<Gate>,
    /// How clusters may prove who they are; none is what the chart says, `csr`.
    pub registration_drivers: Vec<String>,
    /// Users whose clusters are let in without a human.
    pub auto_approved_csr_identities: Vec<String>,
    /// What containers ask for.
    pub resources: ResourceFlags,
    /// How many pods the operator has; none is three in upstream's layout, as with clusteradm, and one in ours.
    pub replicas: Option<u8>,
    /// Whether clusters join with a bootstrap token, which does not expire, and not with one of a ServiceAccount.
    pub use_bootstrap_token: bool,
    /// Whether the operator's namespace is made, or there already.
    pub create_namespace: bool,
    /// Whether labels of the ClusterManager are put on everything that is made of it.
    pub enable_sync_labels: bool,
    /// Values for the chart that win over all of the above.
    pub values_file: Option<PathBuf>,
    /// The same, and they win over the file's.
    pub values: ValueFlags,
    /// Where clusters reach the hub, if that is not where the kubeconfig does.
    pub hub_apiserver: Option<String>,
    /// Whether to wait until the hub works.
    pub wait: bool,
    /// How long to wait for anything.
    pub timeout: Duration,
    /// Whether to write.
    pub mode: Mode,
}

impl Default for InitOptions {
    fn default() -> Self {
        Self {
            images: Images::default(),
            image_pull_credential_file: None,
            feature_gates: vec![],
            registration_drivers: vec![],
            auto_approved_csr_identities: vec![],
            resources: ResourceFlags::default(),
            replicas: None,
            use_bootstrap_token: false,
            create_namespace: true,
            enable_sync_labels: false,
            values_file: None,
            values: ValueFlags::default(),
            hub_apiserver: None,
            wait: false,
            timeout: Duration::from_secs(300),
            mode: Mode::Write,
        }
    }
}

/// Something that `init` has come to, in the order in which it does.
#[derive(Debug)]
pub enum InitStep {
    /// An object was written, or would be.
    Applied(Line),
    /// The CRD of ClusterManagers is served.
    CrdRegistered,
    /// The operator's pod is ready.
    OperatorAvailable,
    /// The hub is up to date, and the pod that lets clusters in is ready.
    RegistrationAvailable,
}

impl InitOptions {
    /// Checks what clusteradm checks before it writes anything.
    ///
    /// # Errors
    /// When options contradict each other.
    pub fn check(&self) -> Result<()> {
        for driver in &self.registration_drivers {
            match driver.as_str() {
                "csr" => {}
                "awsirsa" | "grpc" => bail!(
                    "--registration-drivers {driver}: drover registers clusters by certificate requests only; leave it out, \
                     or write csr"
                ),
                _ => bail!("only csr,awsirsa and grpc are valid drivers: {driver:?} is none"),
            }
        }
        let approves = self
            .feature_gates
            .iter()
            .rev()
            .find(|it| it.name == "ManagedClusterAutoApproval");
        if !self.auto_approved_csr_identities.is_empty() && !approves.is_some_and(|it| it.on) {
            bail!(
                "should enable feature gate ManagedClusterAutoApproval before passing list of identities: add \
                 --feature-gates ManagedClusterAutoApproval=true"
            );
        }
        Ok(())
    }

    /// The values of the chart.
    ///
    /// # Errors
    /// When a file cannot be read, or what was typed is no value.
    pub fn chart_values(&self) -> Result<Value> {
        let mut images = self.images.values(&COMPONENTS);
        images["imageCredentials"] = manifests::image_credentials(self.image_pull_credential_file.as_deref())?;
        let mut hub = json!({"create": true, "resourceRequirement": self.resources.requirement()?});
        for (component, gates) in gates::values(&gates::HUB, &self.feature_gates) {
            // The chart turns the server for debugging placements on, which is a pod beside placement's:
            // our layout has none.
            let is_charts = component == "placementConfiguration" && matches!(self.images, Images::Upstream { .. });
            if !(is_charts && gates.is_empty()) {
                hub[component] = json!({"featureGates": gates});
            }
        }
        let users = &self.auto_approved_csr_identities;
        let mut drivers: Vec<Value> = self
            .registration_drivers
            .iter()
            .map(|it| json!({"authType": it}))
            .collect();
        if !users.is_empty() && drivers.is_empty() {
            drivers.push(json!({"authType": "csr"}));
        }
        for driver in drivers.iter_mut().filter(|_| !users.is_empty()) {
            driver["csr"] = json!({"autoApprovedIdentities": users});
        }
        if !drivers.is_empty() {
            hub["registrationConfiguration"]["registrationDrivers"] = json!(drivers);
        }
        let mut made = json!({
            "layout": self.images.layout_value(),
            "replicaCount": self.replicas.unwrap_or(manifests::replicas(&self.images)),
            "images": images,
            "createNamespace": self.create_namespace,
            "enableSyncLabels": self.enable_sync_labels,
            "createBootstrapToken": self.use_bootstrap_token,
            "createBootstrapSA": !self.use_bootstrap_token,
            "clusterManager": hub,
        });
        if let Some(path) = &self.values_file {
            merge_values(&mut made, &values::file(path)?);
        }
        self.values.merge_into(&mut made)?;
        // Without either there would be nothing to join with, whatever a file of values says.
        if made["createBootstrapSA"] != true && made["createBootstrapToken"] != true {
            let which = if self.use_bootstrap_token {
                "createBootstrapToken"
            } else {
                "createBootstrapSA"
            };
            made[which] = true.into();
        }
        Ok(made)
    }

    /// Everything that is put on the cluster, but for what depends on what is there.
    ///
    /// # Errors
    /// When the values do not fit the chart.
    pub fn manifests(&self) -> Result<InstallManifests> {
        let rendered = charts::cluster_manager(namespaces::OPERATOR, self.chart_values()?)?;
        Ok(InstallManifests::of(rendered))
    }
}

/// Makes the cluster a hub, and says what clusters join with; nothing after a dry run.
///
/// # Errors
/// What the API server refuses, and what is not there in time.
pub async fn init(
    hub: &ApiServer,
    options: &InitOptions,
    tell: &mut dyn FnMut(InitStep) -> Result<()>,
) -> Result<Option<Invitation>> {
    let mut made = options.manifests()?;
    let public = public(hub, options.hub_apiserver.as_deref()).await?;
    token::keep_what_is_there(hub, &mut made.objects).await?;
    manifests::keep_newer_crd(hub, &mut made.crds).await?;
    if options.mode == Mode::DryRun {
        for line in crate::apply(hub, &made.all(&public), Mode::DryRun).await? {
            tell(InitStep::Applied(line))?;
        }
        return Ok(None);
    }
    made.apply_crds(hub, options.timeout, &mut |line| tell(InitStep::Applied(line)))
        .await?;
    tell(InitStep::CrdRegistered)?;
    for object in public.iter().chain(&made.objects) {
        for line in crate::apply(hub, std::slice::from_ref(object), Mode::Write).await? {
            tell(InitStep::Applied(line))?;
        }
    }
    if options.wait {
        let deadline = wait::deadline(options.timeout);
        wait::operator(hub, NAME, deadline).await?;
        tell(InitStep::OperatorAvailable)?;
        if let Some(name) = made.name_of("ClusterManager") {
            wait::cluster_manager(hub, name, deadline).await?;
            wait::pod(hub, namespaces::HUB, "clustermanager-registration-controller", deadline).await?;
        }
        tell(InitStep::RegistrationAvailable)?;
    }
    let server = options.hub_apiserver.as_deref();
    let invitation = if options.use_bootstrap_token {
        token::of_bootstrap_secret(hub, server).await?
    } else {
        Invitation::make(hub, server).await?
    };
    Ok(Some(invitation))
}

/// What lets joining clusters ask for the hub's CA; nothing where the cluster tells it already, as kubeadm's do, or
/// where it has none of its own. What an earlier `init` has told is told anew: the address
/// or the CA may be another now.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn public(hub: &ApiServer, server: Option<&str>) -> Result<Vec<Value>> {
    let maps: Api<ConfigMap> = Api::namespaced(hub.client.clone(), "kube-public");
    let found = maps.get_opt("cluster-info").await;
    let found = found.map_err(|error| hub.explain("could not look for kube-public/cluster-info", &error))?;
    let is_theirs = |it: &ConfigMap| it.labels().get(MANAGED_BY).is_none_or(|it| it != DROVER);
    match hub.ca.as_deref() {
        Some(ca) if !found.as_ref().is_some_and(is_theirs) => {
            let kubeconfig =
                public_kubeconfig(server.unwrap_or(&hub.server), ca).context("kube-public/cluster-info")?;
            let objects = hub::bootstrap::cluster_info(&kubeconfig);
            Ok(objects.into_iter().map(Installed::into_manifest).collect())
        }
        _ => Ok(vec![]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_need_the_gate_that_lets_them_in() {
        let mut options = InitOptions {
            auto_approved_csr_identities: vec!["a".into()],
            ..InitOptions::default()
        };
        assert!(
            options
                .check()
                .unwrap_err()
                .to_string()
                .contains("ManagedClusterAutoApproval=true")
        );
        options.feature_gates = vec![gates::parse_hub("ManagedClusterAutoApproval=true").unwrap()];
        options.check().unwrap();
        let values = options.chart_values().unwrap();
        assert_eq!(
            values["clusterManager"]["registrationConfiguration"]["registrationDrivers"],
            json!([{"authType": "csr", "csr": {"autoApprovedIdentities": ["a"]}}])
        );
    }

    #[test]
    fn other_drivers_are_refused_with_a_sentence() {
        for (driver, says) in [
            ("grpc", "certificate requests only"),
            ("x", "only csr,awsirsa and grpc are valid drivers"),
        ] {
            let options = InitOptions {
                registration_drivers: vec![driver.into()],
                ..InitOptions::default()
            };
            assert!(options.check().unwrap_err().to_string().contains(says), "{driver}");
        }
    }

    #[test]
    fn values_win_over_flags_and_keep_something_to_join_with() {
        let options = InitOptions {
            values: ValueFlags {
                set: vec!["replicaCount=2,createBootstrapSA=false".into()],
                ..ValueFlags::default()
            },
            ..InitOptions::default()
        };
        let values = options.chart_values().unwrap();
        assert_eq!(values["replicaCount"], 2);
        assert_eq!(values["createBootstrapSA"], true);
    }

    #[test]
    fn a_hub_of_upstreams_images_is_what_clusteradm_makes() {
        let options = InitOptions {
            images: Images::Upstream {
                registry: "r.io/ocm".into(),
                tag: "v1.3.1".into(),
            },
            ..InitOptions::default()
        };
        let made = options.manifests().unwrap();
        let operator = made.objects.iter().find(|it| it["kind"] == "Deployment").unwrap();
        assert_eq!(operator["spec"]["replicas"], 3);
        let container = &operator["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "r.io/ocm/registration-operator:v1.3.1");
        assert_eq!(container["args"], json!(["/registration-operator", "hub"]));
        let manager = made.objects.last().unwrap();
        assert_eq!(manager["kind"], "ClusterManager");
        assert_eq!(
            manager["spec"]["placementConfiguration"]["featureGates"][0]["mode"],
            "Enable"
        );
        assert_eq!(made.objects[0]["kind"], "Namespace");
    }

    #[test]
    fn a_hub_of_ours_is_one_image_and_one_pod() {
        let made = InitOptions::default().manifests().unwrap();
        let operator = made.objects.iter().find(|it| it["kind"] == "Deployment").unwrap();
        assert_eq!(operator["spec"]["replicas"], 1);
        let container = &operator["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], format!("drover:{}", env!("CARGO_PKG_VERSION")));
        assert_eq!(container["args"], json!(["operator", "hub"]));
        let manager = made.objects.last().unwrap();
        assert_eq!(manager["spec"]["registrationImagePullSpec"], container["image"]);
        assert_eq!(manager["spec"]["placementConfiguration"]["featureGates"], json!([]));
    }
}
