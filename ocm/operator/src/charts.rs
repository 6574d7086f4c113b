//! The charts of the two operators, `deploy/charts/cluster-manager` and `deploy/charts/klusterlet`, which are part of
//! the binary: their values are upstream's, and `layout` (`compact` or `upstream`) is ours.
//! Upstream: ocm `deploy/{cluster-manager,klusterlet}/chart`, rendered by `pkg/operator/helpers/chart`.

use gotemplate::helm::{Capabilities, Release, RenderError, RenderOptions, Rendered};
use ocm_addon_sdk::{
    include_files,
    manifests::{IncludedFile, read_chart},
};
use serde_json::{Value, json};

const CLUSTER_MANAGER_FOLDER: &str = "../../../deploy/charts/cluster-manager";
const CLUSTER_MANAGER_FILES: &[IncludedFile] = include_files![
    "../../../deploy/charts/cluster-manager/Chart.yaml",
    "../../../deploy/charts/cluster-manager/values.yaml",
    "../../../deploy/charts/cluster-manager/values.schema.json",
    "../../../deploy/charts/cluster-manager/crds/0000_01_operator.open-cluster-management.io_clustermanagers.crd.yaml",
    "../../../deploy/charts/cluster-manager/templates/_helpers.tpl",
    "../../../deploy/charts/cluster-manager/templates/bootstrap_cluster_role.yaml",
    "../../../deploy/charts/cluster-manager/templates/bootstrap_cluster_role_binding.yaml",
    "../../../deploy/charts/cluster-manager/templates/bootstrap_sa.yaml",
    "../../../deploy/charts/cluster-manager/templates/bootstrap_sa_cluster_role_binding.yaml",
    "../../../deploy/charts/cluster-manager/templates/bootstrap_token_secret.yaml",
    "../../../deploy/charts/cluster-manager/templates/cluster_manager.yaml",
    "../../../deploy/charts/cluster-manager/templates/cluster_role.yaml",
    "../../../deploy/charts/cluster-manager/templates/cluster_role_binding.yaml",
    "../../../deploy/charts/cluster-manager/templates/image_pull_secret.yaml",
    "../../../deploy/charts/cluster-manager/templates/operator.yaml",
    "../../../deploy/charts/cluster-manager/templates/service_account.yaml",
];
const KLUSTERLET_FOLDER: &str = "../../../deploy/charts/klusterlet";
const KLUSTERLET_FILES: &[IncludedFile] = include_files![
    "../../../deploy/charts/klusterlet/Chart.yaml",
    "../../../deploy/charts/klusterlet/values.yaml",
    "../../../deploy/charts/klusterlet/values.schema.json",
    "../../../deploy/charts/klusterlet/crds/0000_00_operator.open-cluster-management.io_klusterlets.crd.yaml",
    "../../../deploy/charts/klusterlet/templates/_helpers.tpl",
    "../../../deploy/charts/klusterlet/templates/agent_namespace.yaml",
    "../../../deploy/charts/klusterlet/templates/bootstrap_kubeconfig_secret.yaml",
    "../../../deploy/charts/klusterlet/templates/cluster_role.yaml",
    "../../../deploy/charts/klusterlet/templates/cluster_role_binding.yaml",
    "../../../deploy/charts/klusterlet/templates/external_managed_kubeconfig_secret.yaml",
    "../../../deploy/charts/klusterlet/templates/image_pull_secret.yaml",
    "../../../deploy/charts/klusterlet/templates/klusterlet.yaml",
    "../../../deploy/charts/klusterlet/templates/operator.yaml",
    "../../../deploy/charts/klusterlet/templates/priority_class.yaml",
    "../../../deploy/charts/klusterlet/templates/service_account.yaml",
];

/// Whether the namespace of the release is among the manifests. It is upstream's name, and no value of the chart
/// itself: Helm makes the namespace of a release by `--create-namespace`.
const CREATE_NAMESPACE: &str = "createNamespace";

/// Why there are no manifests.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// The user must change a value; the reason names it as `images.registry`.
    #[error("the values do not fit the chart {chart}: {reason}")]
    Values {
        /// The chart's name.
        chart: &'static str,
        /// Each wrong value and what is wrong with it.
        reason: String,
    },
    /// The chart itself is wrong.
    #[error("could not render the chart {chart}: {reason}")]
    Broken {
        /// The chart's name.
        chart: &'static str,
        /// In Helm's words.
        reason: String,
    },
}

/// The manifests of the hub's operator and of its ClusterManager, in the order in which they can be applied: the
/// namespace (unless `createNamespace` is false), the definition, then everything in Helm's order, the ClusterManager
/// last.
///
/// # Errors
/// When a value is not what the chart allows.
pub fn cluster_manager(namespace: &str, values: Value) -> Result<Vec<Value>, ChartError> {
    let chart = Embedded {
        name: "cluster-manager",
        folder: CLUSTER_MANAGER_FOLDER,
        files: CLUSTER_MANAGER_FILES,
    };
    chart.manifests(namespace, values)
}

/// The same of a cluster's operator and its Klusterlet. Without the operator (`noOperator`, or a hosted mode) the
/// namespace is only there if something is in it.
///
/// # Errors
/// When a value is not what the chart allows.
pub fn klusterlet(namespace: &str, values: Value) -> Result<Vec<Value>, ChartError> {
    let chart = Embedded {
        name: "klusterlet",
        folder: KLUSTERLET_FOLDER,
        files: KLUSTERLET_FILES,
    };
    chart.manifests(namespace, values)
}

struct Embedded {
    name: &'static str,
    folder: &'static str,
    files: &'static [IncludedFile],
}

impl Embedded {
    fn manifests(&self, namespace: &str, mut values: Value) -> Result<Vec<Value>, ChartError> {
        let create_namespace = match values.as_object_mut().and_then(|it| it.remove(CREATE_NAMESPACE)) {
            None | Some(Value::Null) => true,
            Some(Value::Bool(it)) => it,
            Some(other) => {
                return Err(ChartError::Values {
                    chart: self.name,
                    reason: format!("{CREATE_NAMESPACE}: it is {other}, and can be true or false"),
                });
            }
        };
        let Rendered { crds, manifests, .. } = self.render(namespace, values)?;
        let of_charts: Vec<Value> = crds.into_iter().chain(manifests).map(|it| it.json).collect();
        let is_used = of_charts.iter().any(|it| it["metadata"]["namespace"] == namespace);
        let own = (create_namespace && is_used)
            .then(|| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
        Ok(own.into_iter().chain(of_charts).collect())
    }

    fn render(&self, namespace: &str, values: Value) -> Result<Rendered, ChartError> {
        let chart = read_chart(self.folder, self.files).map_err(|error| ChartError::Broken {
            chart: self.name,
            reason: error.to_string(),
        })?;
        let release = Release::install(self.name, namespace);
        let rendered = chart.render(&release, &Capabilities::default(), values, &RenderOptions::default());
        rendered.map_err(|error| match error {
            RenderError::Schema(said) => ChartError::Values {
                chart: self.name,
                reason: named(&said),
            },
            RenderError::Values(reason) | RenderError::Template(reason) => ChartError::Values {
                chart: self.name,
                reason,
            },
            other => ChartError::Broken {
                chart: self.name,
                reason: other.to_string(),
            },
        })
    }
}

/// What Helm says of a schema, as a sentence: `- at '/images/tag': got number, want string` is `images.tag: got number,
/// …`.
fn named(said: &str) -> String {
    let of_value = |line: &str| -> Option<String> {
        let (at, why) = line.trim_start().strip_prefix("- at '")?.split_once("': ")?;
        match at.trim_start_matches('/') {
            "" => Some(why.to_owned()),
            path => Some(format!("{}: {why}", path.replace('/', "."))),
        }
    };
    let found: Vec<String> = said.lines().filter_map(of_value).collect();
    if found.is_empty() {
        said.trim().to_owned()
    } else {
        found.join("; ")
    }
}

#[cfg(test)]
mod tests;
