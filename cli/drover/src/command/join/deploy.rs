//! `drover join --deploy`: the agent as a Deployment on the cluster, instead of in this process.
//! Upstream: clusteradm `join`, whose closing text we print; there an operator runs the agent.

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, bail};
use clap::Args;
use client::{connect::ApiServer, kinds};
use installation::{
    Mode,
    charts::{self, AgentValues},
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, api::ListParams, config::Kubeconfig};
use ocm_api::namespaces;

/// What `--deploy` takes.
#[derive(Debug, Args)]
pub struct Deploy {
    /// Run the agent as a Deployment on the cluster, and end, instead of being the agent
    #[arg(
        long,
        conflicts_with_all = ["embedded", "addon_kubeclient_registration_auth", "addon_token_expiration_seconds"],
        help_heading = "The Deployment"
    )]
    pub deploy: bool,
    #[command(flatten)]
    values: AgentValues,
    /// Wait until the agent's pod is ready and the hub knows the cluster
    #[arg(long, help_heading = "The Deployment")]
    wait: bool,
    /// How long to wait, in seconds
    #[arg(
        long,
        default_value_t = 300,
        value_name = "SECONDS",
        value_parser = client::flags::wait_seconds(),
        requires = "deploy",
        help_heading = "The Deployment"
    )]
    timeout: u64,
    /// Say what would be done and do nothing
    #[arg(long, requires = "deploy", help_heading = "The Deployment")]
    dry_run: bool,
    /// Go on although an agent of upstream's, of another name, or in another namespace runs there
    #[arg(long, requires = "deploy", help_heading = "The Deployment")]
    force: bool,
    /// Also write the manifests of the Deployment to FILE
    #[arg(long, value_name = "FILE", requires = "deploy", help_heading = "The Deployment")]
    output_file: Option<PathBuf>,
}

impl Deploy {
    /// The flags that mean nothing without `--deploy` and were given, for those that clap cannot check
    /// in a shared struct.
    pub fn stray(&self) -> Option<&'static str> {
        let common = &self.values.common;
        let given = [
            ("--image", common.image.is_some()),
            ("--values", !common.files.is_empty()),
            ("--namespace", self.values.namespace.is_some()),
            ("--administrator", self.values.administrator),
            // The one that everybody adds who knows clusteradm: clap would not say what to add.
            ("--wait", self.wait),
        ];
        given.into_iter().find(|it| it.1 && !self.deploy).map(|it| it.0)
    }

    /// Puts the agent of `name` on the cluster; `bootstrap` is the kubeconfig it asks the hub with.
    pub async fn run(&self, name: &str, bootstrap: &Kubeconfig, cluster: &ApiServer) -> Result<()> {
        let manifests = self.values.manifests(name)?;
        let namespace = AgentValues::namespace_of(&manifests);
        let version = cluster.client.apiserver_version().await;
        version.map_err(|error| cluster.explain("could not reach the cluster to join", &error))?;
        self.check_others(cluster, &namespace, name).await?;
        charts::keep(&manifests, self.output_file.as_deref())?;
        if self.dry_run {
            for line in installation::apply(cluster, &manifests, Mode::DryRun).await? {
                output::say(line)?;
            }
            return output::say(format_args!(
                "secret/{} applied (dry run)",
                namespaces::BOOTSTRAP_KUBECONFIG_SECRET
            ));
        }
        // The agent finds the Secret when it starts.
        super::keep_bootstrap(&cluster.client, &namespace, bootstrap).await?;
        for line in installation::apply(cluster, &manifests, Mode::Write).await? {
            output::say(line)?;
        }
        if self.wait {
            let timeout = Duration::from_secs(self.timeout);
            installation::available(cluster, &namespace, charts::AGENT, timeout).await?;
            known(bootstrap, name, &namespace, timeout).await?;
        }
        output::say(format_args!(
            "\nPlease log onto the hub cluster and run the following command:\n\n    drover accept --clusters {name}\n\n{}\n",
            super::AUTO_APPROVAL
        ))
    }

    /// Two agents on one cluster would undo what the other does, and a cluster that changes its name loses its works.
    async fn check_others(&self, cluster: &ApiServer, namespace: &str, name: &str) -> Result<()> {
        if self.force {
            return Ok(());
        }
        if let Some(operator) = installation::find(cluster, &installation::UPSTREAM_AGENT).await? {
            bail!(
                "Deployment {operator} runs an agent of upstream's there already: remove it first with `clusteradm unjoin`, \
                 or go on beside it with --force"
            );
        }
        for agent in agents(cluster).await? {
            let other = cluster_name_of(&agent).unwrap_or_default();
            let there = agent.metadata.namespace.unwrap_or_default();
            if there != namespace {
                bail!(
                    "the agent of {other} is in namespace {there} already: \
                     `drover unjoin --cluster-name {other} --namespace {there}` first, or go on beside it with --force"
                );
            }
            if other != name {
                bail!(
                    "the cluster is {other} already: `drover unjoin --cluster-name {other}` first, or rename it with --force"
                );
            }
        }
        Ok(())
    }
}

/// The agents that run on a cluster as Deployments, in whichever namespaces.
pub async fn agents(cluster: &ApiServer) -> Result<Vec<Deployment>> {
    let all: Api<Deployment> = Api::all(cluster.client.clone());
    let listed = all
        .list(&ListParams::default().labels(&format!("app={}", charts::AGENT)))
        .await;
    let listed = listed.map_err(|error| cluster.explain("could not look for agents that run already", &error))?;
    let is_agent = |it: &Deployment| it.metadata.name.as_deref() == Some(charts::AGENT);
    Ok(listed.items.into_iter().filter(is_agent).collect())
}

/// The cluster's name in the agent's Deployment.
pub fn cluster_name_of(agent: &Deployment) -> Option<String> {
    let pod = agent.spec.template.spec.as_ref()?;
    let mut arguments = pod.containers.iter().flat_map(|it| it.args.iter().flatten());
    arguments.find_map(|it| it.strip_prefix("--cluster-name=").map(str::to_owned))
}

/// How often the hub is asked for a cluster that is awaited.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Waits until the hub has the cluster, whether accepted or not. A bootstrap token watches no clusters:
/// it gets this one.
async fn known(bootstrap: &Kubeconfig, name: &str, namespace: &str, timeout: Duration) -> Result<()> {
    let hub = ApiServer::of(bootstrap.clone(), "the bootstrap kubeconfig").await?;
    let clusters = hub.all(&kinds::managed_cluster());
    let there = async {
        while clusters.get_opt(name).await?.is_none() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok::<_, kube::Error>(())
    };
    match tokio::time::timeout(timeout, there).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(hub.explain("could not look for the cluster on the hub", &error)),
        Err(_) => bail!(
            "the agent runs and the hub {} does not know {name} after {} s; its log tells why: \
             `kubectl logs -n {namespace} deployment/{}`",
            hub.server,
            timeout.as_secs(),
            charts::AGENT
        ),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Parser, error::ErrorKind};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn flags_for_an_in_process_agent_conflict_with_deploy() {
        for flag in [
            "--embedded",
            "--addon-kubeclient-registration-auth=token",
            "--addon-token-expiration-seconds=600",
        ] {
            let line = ["drover", "join", "--cluster-name=edge", "--bootstrap-kubeconfig=f"];
            let asked =
                |more: &[&'static str]| Cli::try_parse_from(line.iter().chain(more).copied()).map_err(|it| it.kind());
            assert!(asked(&[flag]).is_ok(), "{flag}");
            assert_eq!(
                asked(&["--deploy", flag]).err(),
                Some(ErrorKind::ArgumentConflict),
                "{flag}"
            );
        }
    }

    #[test]
    fn the_name_of_the_cluster_is_found_in_the_deployment() {
        let made = charts::AgentValues {
            common: charts::Common::default(),
            namespace: None,
            administrator: false,
        };
        let manifests = made.manifests("edge").unwrap();
        let deployment = serde_json::from_value(manifests.last().unwrap().clone()).unwrap();
        assert_eq!(cluster_name_of(&deployment).as_deref(), Some("edge"));
        assert_eq!(cluster_name_of(&Deployment::default()), None);
    }
}
