//! The charts of `deploy/`, which are part of the binary: what runs a hub or an agent as a Deployment of a Kubernetes.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use client::cluster_name;
use gotemplate::helm::{Capabilities, Release, RenderOptions, merge_values};
use hub::feature_gates;
use ocm_addon_sdk::{
    include_files,
    manifests::{IncludedFile, read_chart},
};
use serde_json::{Map, Value, json};

use crate::{images, values};

const HUB_FOLDER: &str = "../../../deploy/charts/drover-hub";
const HUB_FILES: &[IncludedFile] = include_files![
    "../../../deploy/charts/drover-hub/Chart.yaml",
    "../../../deploy/charts/drover-hub/values.yaml",
    "../../../deploy/charts/drover-hub/templates/cluster_role.yaml",
    "../../../deploy/charts/drover-hub/templates/deployment.yaml",
    "../../../deploy/charts/drover-hub/templates/namespace.yaml",
    "../../../deploy/charts/drover-hub/templates/service_account.yaml",
    "../../../deploy/charts/drover-hub/templates/webhooks.yaml",
    "../../../deploy/charts/drover-hub/templates/webhooks_roles.yaml",
    "../../../deploy/charts/drover-hub/templates/work_executor.yaml",
];
const AGENT_FOLDER: &str = "../../../deploy/charts/drover-agent";
const AGENT_FILES: &[IncludedFile] = include_files![
    "../../../deploy/charts/drover-agent/Chart.yaml",
    "../../../deploy/charts/drover-agent/values.yaml",
    "../../../deploy/charts/drover-agent/templates/bootstrap.yaml",
    "../../../deploy/charts/drover-agent/templates/cluster_role.yaml",
    "../../../deploy/charts/drover-agent/templates/deployment.yaml",
    "../../../deploy/charts/drover-agent/templates/execution.yaml",
    "../../../deploy/charts/drover-agent/templates/namespace.yaml",
    "../../../deploy/charts/drover-agent/templates/service_account.yaml",
];

/// The name of the hub's Deployment and ServiceAccount, and of its pods' label `app`.
pub const HUB: &str = "drover-hub";
/// The same of an agent's.
pub const AGENT: &str = "drover-agent";

/// What both charts take.
#[derive(Debug, Clone, Default, Args)]
pub struct Common {
    /// The image of this binary [default: drover and the version of this binary]
    #[arg(long, value_name = "IMAGE", help_heading = "The Deployment")]
    pub image: Option<String>,
    /// A file of further values for the chart, as with `helm install --values`; later ones win
    #[arg(short = 'f', long = "values", value_name = "FILE", help_heading = "The Deployment")]
    pub files: Vec<PathBuf>,
}

/// What a hub's Deployment is told.
#[derive(Debug, Clone, Default, Args)]
pub struct HubValues {
    #[command(flatten)]
    pub common: Common,
    /// How many pods; one works at a time, and the others take its place
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..), help_heading = "The Deployment")]
    pub replicas: Option<u8>,
    /// Upstream's switches to turn on or off, as with `drover hub`
    #[arg(long, value_delimiter = ',', value_name = "NAME=BOOL", value_parser = feature_gates::parse, help_heading = "The Deployment")]
    pub feature_gates: Vec<feature_gates::Gate>,
    /// Accept clusters and approve their first certificate request without a human, if these users ask for it; this
    /// alone turns ManagedClusterAutoApproval on
    #[arg(
        long,
        visible_alias = "auto-approved-csr-users",
        value_delimiter = ',',
        value_name = "USERS",
        help_heading = "The Deployment"
    )]
    pub auto_approved_csr_identities: Vec<String>,
}

/// What an agent's Deployment is told.
#[derive(Debug, Clone, Args)]
pub struct AgentValues {
    #[command(flatten)]
    pub common: Common,
    /// Where the agent is, with its Secrets [default: open-cluster-management-agent]
    #[arg(long, value_name = "NAMESPACE", help_heading = "The Deployment")]
    pub namespace: Option<String>,
    /// Let works contain anything that an administrator of the cluster may write: the agent is bound to cluster-admin
    #[arg(long, help_heading = "The Deployment")]
    pub administrator: bool,
}

impl HubValues {
    /// The manifests, in the order in which they need each other.
    pub fn manifests(&self) -> Result<Vec<Value>> {
        let mut values = self.common.values()?;
        if let Some(number) = self.replicas {
            values["replicas"] = number.into();
        }
        for gate in &self.feature_gates {
            values["featureGates"][gate.name()] = gate.is_on().into();
        }
        if !self.auto_approved_csr_identities.is_empty() {
            values["autoApprovedCSRUsers"] = json!(self.auto_approved_csr_identities);
        }
        render(HUB, HUB_FOLDER, HUB_FILES, values)
    }
}

impl AgentValues {
    /// The manifests, in the order in which they need each other.
    pub fn manifests(&self, cluster: &str) -> Result<Vec<Value>> {
        cluster_name::check(cluster)?;
        let mut values = self.common.values()?;
        values["clusterName"] = cluster.into();
        if let Some(namespace) = &self.namespace {
            values["namespace"] = namespace.as_str().into();
        }
        if self.administrator {
            values["administrator"] = true.into();
        }
        let namespace = values["namespace"].as_str().unwrap_or(ocm_api::namespaces::AGENT);
        cluster_name::check(namespace).with_context(|| format!("namespace {namespace}"))?;
        render(AGENT, AGENT_FOLDER, AGENT_FILES, values)
    }

    /// The namespace of the agent's manifests.
    pub fn namespace_of(manifests: &[Value]) -> String {
        let found = manifests.iter().find(|it| it["kind"] == "Namespace");
        let name = found.and_then(|it| it["metadata"]["name"].as_str());
        name.unwrap_or(ocm_api::namespaces::AGENT).to_owned()
    }
}

impl Common {
    fn values(&self) -> Result<Value> {
        let mut values = Value::Object(Map::new());
        for path in &self.files {
            merge_values(&mut values, &values::file(path)?);
        }
        if let Some(name) = &self.image {
            values["image"] = images::checked(name)?.into();
        }
        Ok(values)
    }
}

fn render(name: &str, folder: &str, files: &[IncludedFile], values: Value) -> Result<Vec<Value>> {
    let chart = read_chart(folder, files).map_err(|error| anyhow!("the chart {name} cannot be read: {error}"))?;
    let release = Release::install(name, "default");
    let made = chart
        .render(&release, &Capabilities::default(), values, &RenderOptions::default())
        .with_context(|| format!("the values do not fit the chart {name}"))?;
    let mut manifests: Vec<Value> = made.manifests.into_iter().map(|it| it.json).collect();
    // What says a namespace comes after it, and what may run after what it may.
    manifests.sort_by_key(|it| match it["kind"].as_str() {
        Some("Namespace") => 0,
        Some("Deployment") => 2,
        _ => 1,
    });
    Ok(manifests)
}

/// Writes the manifests to the file of `--output-file`, if there is one.
pub fn keep(manifests: &[Value], path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    if manifests.iter().any(|it| it["kind"] == "Secret") {
        return output::private_file::write(path, &text(manifests)?);
    }
    std::fs::write(path, text(manifests)?).with_context(|| format!("could not write {}", path.display()))
}

/// The manifests as one YAML text.
pub fn text(manifests: &[Value]) -> Result<String> {
    let mut text = String::new();
    for manifest in manifests {
        text += "---\n";
        text += output::yaml(manifest)?.trim_end();
        text += "\n";
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const DEPLOYED: [(&str, &str); 2] = [
        (HUB, include_str!("../../../deploy/hub.yaml")),
        (AGENT, include_str!("../../../deploy/agent.yaml")),
    ];

    fn agent(namespace: Option<&str>) -> AgentValues {
        AgentValues {
            common: Common::default(),
            namespace: namespace.map(str::to_owned),
            administrator: false,
        }
    }

    #[test]
    fn without_flags_they_are_what_deploy_has() {
        let made = [
            (HUB, HubValues::default().manifests().unwrap()),
            (AGENT, agent(None).manifests("cluster1").unwrap()),
        ];
        for ((name, manifests), (_, file)) in made.into_iter().zip(DEPLOYED) {
            let wanted: Vec<Value> = serde_saphyr::from_multiple(file).unwrap();
            assert_eq!(manifests, wanted, "{name}");
        }
    }

    #[test]
    fn flags_win_over_files_and_later_files_over_earlier_ones() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let values = HubValues {
            common: Common {
                image: Some("a.b:5000/drover@sha256:00".into()),
                files: vec![
                    file("a.yaml", "image: x\nlog: debug\nreplicas: 2\n"),
                    file("b.yaml", "log: warn\n"),
                    file("c.yaml", "# nothing\n"),
                ],
            },
            replicas: Some(3),
            feature_gates: vec![feature_gates::parse("ClusterProfile=true").unwrap()],
            auto_approved_csr_identities: vec!["x".into(), "y".into()],
        };
        let made = values.manifests().unwrap();
        let deployment = made.last().unwrap();
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(deployment["spec"]["replicas"], 3);
        assert_eq!(container["image"], "a.b:5000/drover@sha256:00");
        assert_eq!(container["env"][0]["value"], "warn");
        assert_eq!(
            container["args"],
            json!([
                "hub",
                "--leader-elect",
                "--auto-approved-csr-users=x,y",
                "--feature-gates=ClusterProfile=true",
                "--webhook-listen=:9443",
                "--webhook-service=drover-hub-webhook",
                "--health-listen=:8443"
            ])
        );
    }

    #[test]
    fn the_nil_executor_gate_grants_the_hub_execute_as() {
        let of = |gate: &str| {
            let values = HubValues {
                feature_gates: vec![feature_gates::parse(gate).unwrap()],
                ..HubValues::default()
            };
            let made = values.manifests().unwrap();
            let name = "open-cluster-management:drover-hub:work-executor";
            made.into_iter()
                .filter(|it| it["metadata"]["name"] == name)
                .collect::<Vec<_>>()
        };
        assert_eq!(of("NilExecutorValidating=false"), Vec::<Value>::new());
        let made = of("NilExecutorValidating=true");
        assert_eq!(made.len(), 2);
        assert_eq!(made[0]["rules"][0]["verbs"], json!(["execute-as"]));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.yaml");
        std::fs::write(&path, "- a\n").unwrap();
        let mut values = HubValues::default();
        values.common.files = vec![path];
        assert!(
            values
                .manifests()
                .unwrap_err()
                .to_string()
                .ends_with("list.yaml has no values: it is no table")
        );
        let mut values = HubValues::default();
        values.common.image = Some("a\nb".into());
        assert_eq!(
            values.manifests().unwrap_err().to_string(),
            r#""a\nb" is not the name of an image"#
        );
        assert!(agent(Some("No")).manifests("a").is_err());
        assert!(agent(None).manifests("No").is_err());
    }

    #[test]
    fn a_flag_binds_the_agent_to_cluster_admin() {
        let of = |administrator| {
            let values = AgentValues {
                administrator,
                ..agent(None)
            };
            text(&values.manifests("edge").unwrap()).unwrap()
        };
        assert!(!of(false).contains("cluster-admin"));
        assert!(of(true).contains("name: cluster-admin"));
    }

    #[test]
    fn an_agent_is_all_in_its_namespace() {
        let made = agent(Some("there")).manifests("edge").unwrap();
        let text = text(&made).unwrap();
        assert!(
            text.contains("--cluster-name=edge") && text.contains("--namespace=there"),
            "{text}"
        );
        assert!(
            !text.contains("cluster1") && !text.contains("open-cluster-management-agent"),
            "{text}"
        );
        assert_eq!(AgentValues::namespace_of(&made), "there");
        // The bindings of an agent in another namespace would otherwise lose their subject to this one.
        let bindings = |made: &[Value]| -> BTreeSet<String> {
            let bindings = made.iter().filter(|it| it["kind"] == "ClusterRoleBinding");
            bindings.map(|it| it["metadata"]["name"].to_string()).collect()
        };
        let (here, there) = (bindings(&agent(None).manifests("edge").unwrap()), bindings(&made));
        assert_eq!((here.len(), there.len()), (4, 4));
        assert!(here.is_disjoint(&there), "{here:?} {there:?}");
    }
}
