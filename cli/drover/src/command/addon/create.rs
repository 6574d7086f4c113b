//! `drover addon create NAME -f FILES`
//! Upstream: clusteradm `addon create`, whose flags and lines these are.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use client::{cluster_name, connect::ApiServer, flags::Global, kinds};
use kube::{
    api::{Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject},
};
use serde_json::{Value, json};

use super::pairs;
use crate::manifests;

/// Make an add-on of manifests: a ClusterManagementAddOn and an AddOnTemplate
#[derive(Debug, Args)]
pub struct Create {
    /// The add-on's name
    pub name: String,
    /// What runs on the clusters: files, directories, or - for standard input
    #[arg(
        short,
        long = "filename",
        visible_alias = "file",
        value_delimiter = ',',
        required = true,
        value_name = "FILE"
    )]
    pub filename: Vec<PathBuf>,
    /// Read directories and the directories in them
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// The version; the template is called NAME-VERSION
    #[arg(long, default_value = "0.0.1", value_name = "VERSION")]
    pub version: String,
    /// Replace the add-on and the template if they exist
    #[arg(long)]
    pub overwrite: bool,
    /// Let the add-on's agents into the hub, with a kubeconfig in the Secret NAME-hub-kubeconfig
    #[arg(long)]
    pub hub_registration: bool,
    /// A ClusterRole that the agents have on the hub, each in its own cluster's namespace; needs --hub-registration
    #[arg(long, value_name = "CLUSTERROLE")]
    pub cluster_role_bind: Option<String>,
    /// Labels for both objects
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE")]
    pub labels: Vec<String>,
    /// Install it on the clusters of this placement [default: it is installed by hand]
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub placement_ref: Option<String>,
    /// Let the hub check everything and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl Create {
    pub async fn run(self, global: &Global) -> Result<()> {
        let manifests = manifests::read(&self.filename, self.recursive)?;
        self.objects(manifests.clone())?;
        self.create(&ApiServer::connect(global).await?, manifests).await
    }

    /// Creates or replaces it, and says so.
    pub async fn create(&self, hub: &ApiServer, manifests: Vec<Value>) -> Result<()> {
        let (add_on, template) = self.objects(manifests)?;
        // The template first: an add-on that names a template nobody has would say so to everyone who looks.
        self.put(hub, "AddonTemplate", &kinds::add_on_template(), template)
            .await?;
        self.put(
            hub,
            "ClusterManagementAddon",
            &kinds::cluster_management_add_on(),
            add_on,
        )
        .await
    }

    /// The ClusterManagementAddOn and the AddOnTemplate that the flags and the manifests make.
    fn objects(&self, manifests: Vec<Value>) -> Result<(Value, Value)> {
        cluster_name::check(&self.name).context("an add-on's name names objects and parts of users")?;
        let labels = pairs::parse("--labels", &self.labels)?;
        if self.cluster_role_bind.is_some() && !self.hub_registration {
            bail!(
                "--cluster-role-bind gives the agents a role on the hub, and needs --hub-registration to let them in"
            );
        }
        let strategy = match &self.placement_ref {
            None => json!({ "type": "Manual" }),
            Some(text) => match text.split('/').collect::<Vec<_>>()[..] {
                [namespace, name] if !namespace.is_empty() && !name.is_empty() => json!({
                    "type": "Placements",
                    "placements": [{ "namespace": namespace, "name": name, "rolloutStrategy": { "type": "All" } }],
                }),
                _ => bail!("--placement-ref {text:?}: write NAMESPACE/NAME"),
            },
        };
        let template_name = format!("{}-{}", self.name, self.version);
        let add_on = json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1",
            "kind": "ClusterManagementAddOn",
            "metadata": { "name": self.name, "labels": labels },
            "spec": {
                "addOnMeta": { "displayName": self.name, "description": format!("{} was made by drover addon create", self.name) },
                "supportedConfigs": [
                    {
                        "group": "addon.open-cluster-management.io",
                        "resource": "addontemplates",
                        "defaultConfig": { "name": template_name },
                    },
                    { "group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs" },
                ],
                "installStrategy": strategy,
            },
        });
        let mut registration = json!([]);
        if self.hub_registration {
            let mut kube_client = json!({});
            if let Some(role) = &self.cluster_role_bind {
                kube_client["hubPermissions"] = json!([{
                    "type": "CurrentCluster",
                    "currentCluster": { "clusterRoleName": role },
                }]);
            }
            registration = json!([{ "type": "KubeClient", "kubeClient": kube_client }]);
        }
        let template = json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1",
            "kind": "AddOnTemplate",
            "metadata": { "name": template_name, "labels": labels },
            "spec": {
                "addonName": self.name,
                "agentSpec": { "workload": { "manifests": manifests } },
                "registration": registration,
            },
        });
        Ok((add_on, template))
    }

    async fn put(&self, hub: &ApiServer, what: &str, kind: &ApiResource, object: Value) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(object)?;
        let name = object.metadata.name.clone().unwrap_or_default();
        let api = hub.all(kind);
        let doing = format!("could not apply {what} {name}");
        let note = output::note(self.dry_run);
        let create = PostParams {
            dry_run: self.dry_run,
            ..PostParams::default()
        };
        match api.create(&create, &object).await {
            Ok(_) => output::say(format_args!("{what} {name} is created{note}")),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                if !self.overwrite {
                    return output::say(format_args!("{what} {name} is not updated when overwrite is disabled"));
                }
                let patch = PatchParams {
                    dry_run: self.dry_run,
                    ..PatchParams::default()
                };
                let patched = api.patch(&name, &patch, &Patch::Merge(overwriting(&object)?)).await;
                patched.map_err(|error| hub.explain(&doing, &error))?;
                output::say(format_args!("{what} {name} is updated{note}"))
            }
            Err(error) => Err(hub.explain(&doing, &error)),
        }
    }
}

/// The patch that makes the object there is say what this one does. What can be there or not is in lists, which a merge
/// patch replaces whole, but for the placements of a strategy that has none. Labels
/// that somebody else has put on it stay.
fn overwriting(object: &DynamicObject) -> Result<Value> {
    let mut patch = serde_json::to_value(object)?;
    if let Some(strategy) = patch.pointer_mut("/spec/installStrategy")
        && strategy["type"] == "Manual"
    {
        strategy["placements"] = Value::Null;
    }
    Ok(patch)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        create: Create,
    }

    fn objects(flags: &[&str]) -> Result<(Value, Value)> {
        let line = ["create", "hello", "-f", "x.yaml"].iter().chain(flags);
        Line::parse_from(line).create.objects(vec![
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
        ])
    }

    #[test]
    fn an_add_on_points_at_its_template() {
        let (add_on, template) = objects(&["--version", "1.2"]).unwrap();
        assert_eq!(template["metadata"]["name"], "hello-1.2");
        assert_eq!(
            add_on["spec"]["supportedConfigs"][0]["defaultConfig"]["name"],
            "hello-1.2"
        );
        assert_eq!(add_on["spec"]["installStrategy"], json!({"type": "Manual"}));
        assert_eq!(template["spec"]["registration"], json!([]));
    }

    #[test]
    fn overwriting_an_add_on_without_a_placement_removes_its_placements() {
        let patch = |flags: &[&str]| {
            let (add_on, template) = objects(flags).unwrap();
            [add_on, template].map(|it| overwriting(&serde_json::from_value(it).unwrap()).unwrap())
        };
        let [add_on, template] = patch(&[]);
        assert_eq!(
            add_on["spec"]["installStrategy"],
            json!({"type": "Manual", "placements": null})
        );
        assert_eq!(template["spec"].get("installStrategy"), None);
        let [add_on, _] = patch(&["--placement-ref", "default/aws"]);
        assert_eq!(add_on["spec"]["installStrategy"]["placements"][0]["name"], "aws");
    }

    #[test]
    fn agents_are_registered_only_on_request() {
        let (_, template) = objects(&["--hub-registration", "--cluster-role-bind", "reader"]).unwrap();
        assert_eq!(
            template["spec"]["registration"],
            json!([{ "type": "KubeClient", "kubeClient": { "hubPermissions": [{
                "type": "CurrentCluster", "currentCluster": { "clusterRoleName": "reader" },
            }] } }])
        );
        let error = objects(&["--cluster-role-bind", "reader"]).unwrap_err().to_string();
        assert!(error.contains("needs --hub-registration"), "{error}");
    }

    #[test]
    fn a_placement_is_a_namespace_and_a_name() {
        let (add_on, _) = objects(&["--placement-ref", "default/aws"]).unwrap();
        assert_eq!(add_on["spec"]["installStrategy"]["placements"][0]["name"], "aws");
        for bad in ["aws", "/aws", "default/", "a/b/c"] {
            let error = objects(&["--placement-ref", bad]).unwrap_err().to_string();
            assert!(error.contains("write NAMESPACE/NAME"), "{error}");
        }
    }
}
