//! An operator and what it has made run other images from now on, and all else stays as it is.
//! Upstream: clusteradm `pkg/cmd/upgrade`. It renders the chart anew from its defaults and so takes back what somebody
//! has changed (`placementConfiguration`, `mode`, of a Klusterlet even the cluster's name); here the chart is rendered
//! from what is there, and only images and what a file of values says are changed.

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, bail};
use client::connect::ApiServer;
use gotemplate::helm::merge_values;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject},
};
use ocm_api::namespaces;
use operator::charts;
use serde_json::{Value, json};

use crate::{
    Line, Mode, cluster, former, hub,
    images::Images,
    manifests::{self, InstallManifests},
    operated, values, wait,
};

/// What is to change.
#[derive(Clone, Debug)]
pub struct UpgradeOptions {
    /// The images from now on, and with them the layout.
    pub images: Images,
    /// Values for the chart that win over what is there.
    pub values_file: Option<PathBuf>,
    /// Whether to wait until everything runs the new images.
    pub wait: bool,
    /// How long to wait for anything.
    pub timeout: Duration,
    /// Whether to write.
    pub mode: Mode,
}

/// Something that an upgrade has come to.
#[derive(Debug)]
pub enum UpgradeStep {
    /// An object was written, or would be.
    Applied(Line),
    /// The CRD is served.
    CrdRegistered,
    /// The operator's pod is ready.
    OperatorAvailable,
    /// What the operator follows is up to date.
    UpToDate,
}

/// Checks that there is a hub to upgrade.
///
/// # Errors
/// When there is none.
pub async fn check_cluster_manager(hub: &ApiServer) -> Result<()> {
    if !operated::list(hub, &operated::cluster_managers()).await?.is_empty() {
        return Ok(());
    }
    if former::hub_is_there(hub).await? {
        bail!(
            "clustermanager is not installed: {} has a hub without an operator; `drover init` moves it to one",
            hub.server
        );
    }
    bail!(
        "clustermanager is not installed: {} is no hub; `drover init` makes it one",
        hub.server
    )
}

/// Checks that there is an agent to upgrade.
///
/// # Errors
/// When there is none.
pub async fn check_klusterlet(cluster: &ApiServer) -> Result<()> {
    if !operated::list(cluster, &operated::klusterlets()).await?.is_empty() {
        return Ok(());
    }
    if !former::agents(cluster).await?.is_empty() {
        bail!(
            "klusterlet is not installed: {} has an agent without an operator; `drover join` moves it to one",
            cluster.server
        );
    }
    bail!(
        "klusterlet is not installed: {} has no agent; `drover join` puts one there",
        cluster.server
    )
}

/// Upgrades a hub.
///
/// # Errors
/// When there is none, what the API server refuses, and what is not there in time.
pub async fn cluster_manager(
    hub: &ApiServer,
    options: &UpgradeOptions,
    tell: &mut dyn FnMut(UpgradeStep) -> Result<()>,
) -> Result<()> {
    let kind = operated::cluster_managers();
    let managers = operated::list(hub, &kind).await?;
    check_cluster_manager(hub).await?;
    let operator = operator(hub, hub::NAME).await?;
    for manager in &managers {
        let spec = &manager.data["spec"];
        let mut parts = json!({"create": true});
        set(&mut parts, "mode", &spec["deployOption"]["mode"]);
        for part in [
            "registrationConfiguration",
            "workConfiguration",
            "addOnManagerConfiguration",
            "placementConfiguration",
            "serverConfiguration",
            "resourceRequirement",
        ] {
            set(&mut parts, part, &spec[part]);
        }
        let mut values = base_values(options, &hub::COMPONENTS, operator.as_ref());
        values["createBootstrapToken"] = false.into();
        values["createBootstrapSA"] = false.into();
        values["clusterManager"] = parts;
        overlay(&mut values, options)?;
        let rendered = charts::cluster_manager(namespaces::OPERATOR, values)?;
        write(hub, options, &kind, manager, rendered, tell).await?;
    }
    if options.wait && options.mode == Mode::Write {
        let deadline = wait::deadline(options.timeout);
        wait::operator(hub, hub::NAME, deadline).await?;
        tell(UpgradeStep::OperatorAvailable)?;
        for manager in &managers {
            wait::cluster_manager(hub, &manager.name_any(), deadline).await?;
        }
        wait::pod(hub, namespaces::HUB, "clustermanager-registration-controller", deadline).await?;
        tell(UpgradeStep::UpToDate)?;
    }
    Ok(())
}

/// Upgrades the agents of a cluster, hosted ones as well.
///
/// # Errors
/// When there is none, what the API server refuses, and what is not there in time.
pub async fn klusterlet(
    cluster: &ApiServer,
    options: &UpgradeOptions,
    tell: &mut dyn FnMut(UpgradeStep) -> Result<()>,
) -> Result<()> {
    let kind = operated::klusterlets();
    let klusterlets = operated::list(cluster, &kind).await?;
    check_klusterlet(cluster).await?;
    let operator = operator(cluster, cluster::NAME).await?;
    for klusterlet in &klusterlets {
        let spec = &klusterlet.data["spec"];
        let mut parts = json!({"create": true, "name": klusterlet.name_any()});
        set(&mut parts, "mode", &spec["deployOption"]["mode"]);
        for part in [
            "clusterName",
            "namespace",
            "externalServerURLs",
            "nodePlacement",
            "registrationConfiguration",
            "workConfiguration",
            "resourceRequirement",
        ] {
            set(&mut parts, part, &spec[part]);
        }
        // Upstream's clusteradm writes a URL that is empty where it found none.
        if let Some(urls) = parts["externalServerURLs"].as_array_mut() {
            urls.retain(|it| it["url"] != "");
        }
        let mut values = base_values(options, &cluster::COMPONENTS, operator.as_ref());
        if let Some(class) = spec["priorityClassName"].as_str().filter(|it| !it.is_empty()) {
            values["priorityClassName"] = class.into();
        }
        values["klusterlet"] = parts;
        overlay(&mut values, options)?;
        let rendered = charts::klusterlet(namespaces::OPERATOR, values)?;
        write(cluster, options, &kind, klusterlet, rendered, tell).await?;
    }
    if options.wait && options.mode == Mode::Write {
        let deadline = wait::deadline(options.timeout);
        wait::operator(cluster, cluster::NAME, deadline).await?;
        tell(UpgradeStep::OperatorAvailable)?;
        for klusterlet in &klusterlets {
            wait::klusterlet(cluster, &klusterlet.name_any(), deadline).await?;
        }
        tell(UpgradeStep::UpToDate)?;
    }
    Ok(())
}

fn set(values: &mut Value, field: &str, value: &Value) {
    if !value.is_null() {
        values[field] = value.clone();
    }
}

fn overlay(values: &mut Value, options: &UpgradeOptions) -> Result<()> {
    if let Some(path) = &options.values_file {
        merge_values(values, &values::file(path)?);
    }
    Ok(())
}

async fn operator(cluster: &ApiServer, name: &str) -> Result<Option<Deployment>> {
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), namespaces::OPERATOR);
    let found = deployments.get_opt(name).await;
    found.map_err(|error| cluster.explain("could not look for the operator", &error))
}

/// The values of both charts: the new images, and the operator's Deployment as it is.
fn base_values(options: &UpgradeOptions, components: &[&str], operator: Option<&Deployment>) -> Value {
    let mut values = json!({
        "layout": options.images.layout_value(),
        "images": options.images.values(components),
        "createNamespace": false,
    });
    let Some(spec) = operator.map(|it| &it.spec) else {
        return values;
    };
    let pod = json!(spec.template.spec);
    let container = &pod["containers"][0];
    set(&mut values, "replicaCount", &json!(spec.replicas));
    for (value, field) in [
        ("affinity", "affinity"),
        ("nodeSelector", "nodeSelector"),
        ("tolerations", "tolerations"),
        ("podSecurityContext", "securityContext"),
    ] {
        set(&mut values, value, &pod[field]);
    }
    for (value, field) in [("securityContext", "securityContext"), ("resources", "resources")] {
        set(&mut values, value, &container[field]);
    }
    set(&mut values["images"], "imagePullPolicy", &container["imagePullPolicy"]);
    let arguments = container["args"].as_array().into_iter().flatten();
    let syncs = arguments
        .filter_map(Value::as_str)
        .any(|it| matches!(it, "--enable-sync-labels" | "--enable-sync-labels=true"));
    values["enableSyncLabels"] = syncs.into();
    values
}

/// Applies what was rendered; the object that the operator follows is patched, so that what the chart does not know
/// stays.
async fn write(
    cluster: &ApiServer,
    options: &UpgradeOptions,
    kind: &ApiResource,
    before: &DynamicObject,
    rendered: Vec<Value>,
    tell: &mut dyn FnMut(UpgradeStep) -> Result<()>,
) -> Result<()> {
    let mut made = InstallManifests::of(rendered);
    manifests::keep_newer_crd(cluster, &mut made.crds).await?;
    let is_followed = |it: &Value| it["kind"] == kind.kind.as_str();
    let followed = made.objects.iter().find(|it| is_followed(it)).cloned();
    made.objects.retain(|it| !is_followed(it));
    if options.mode == Mode::Write {
        made.apply_crds(cluster, options.timeout, &mut |line| tell(UpgradeStep::Applied(line)))
            .await?;
        tell(UpgradeStep::CrdRegistered)?;
    } else {
        for line in crate::apply(cluster, &made.crds, options.mode).await? {
            tell(UpgradeStep::Applied(line))?;
        }
    }
    for line in crate::apply(cluster, &made.objects, options.mode).await? {
        tell(UpgradeStep::Applied(line))?;
    }
    let Some(followed) = followed else {
        return Ok(());
    };
    let name = before.name_any();
    if options.mode == Mode::DryRun {
        return tell(UpgradeStep::Applied(Line::new(kind, &name, "applied (dry run)")));
    }
    let patch = Patch::Merge(json!({"spec": followed["spec"]}));
    let parameters = PatchParams {
        field_manager: Some(crate::MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let after = cluster.all(kind).patch(&name, &parameters, &patch).await;
    let after = after.map_err(|error| cluster.explain(&format!("could not upgrade {} {name}", kind.kind), &error))?;
    let is_same = after.metadata.resource_version == before.metadata.resource_version;
    let what = if is_same { "unchanged" } else { "configured" };
    tell(UpgradeStep::Applied(Line::new(kind, &name, what)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operators_deployment_says_is_kept() {
        let deployment: Deployment = serde_json::from_value(json!({"spec": {
            "replicas": 2,
            "selector": {},
            "template": {"spec": {
                "nodeSelector": {"a": "b"},
                "containers": [{
                    "name": "registration-operator",
                    "args": ["/registration-operator", "hub", "--enable-sync-labels"],
                    "resources": {"limits": {"memory": "1Gi"}},
                    "imagePullPolicy": "Always",
                }],
            }},
        }}))
        .unwrap();
        let options = UpgradeOptions {
            images: Images::Drover(Some("drover:2".into())),
            values_file: None,
            wait: false,
            timeout: Duration::ZERO,
            mode: Mode::Write,
        };
        let values = base_values(&options, &["operator"], Some(&deployment));
        assert_eq!(values["replicaCount"], 2);
        assert_eq!(values["nodeSelector"], json!({"a": "b"}));
        assert_eq!(values["resources"], json!({"limits": {"memory": "1Gi"}}));
        assert_eq!(values["enableSyncLabels"], true);
        assert_eq!(
            values["images"],
            json!({"imagePullPolicy": "Always", "overrides": {"operatorImage": "drover:2"}})
        );
    }
}
