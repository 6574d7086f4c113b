//! `drover unjoin`: take the agent that `drover join --deploy` has put on a cluster off again.
//! Upstream: clusteradm `unjoin`, whose lines we print. We differ in that works which are still there are an error and
//! not exit code 0, and in that `--dry-run` writes nothing.

use anyhow::{Result, bail};
use clap::{ArgAction, Args};
use client::{cluster_name, connect::ApiServer, flags::Global};
use installation::{
    Mode, Removal,
    charts::{self, AgentValues, Common},
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Namespace};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use ocm_api::{finalizers, namespaces, work::AppliedManifestWork};
use serde_json::{Value, json};

use crate::command::join::deploy::{agents, cluster_name_of};

/// Take the agent off the cluster of the kubeconfig; the hub's side goes with `kubectl delete managedcluster`
#[derive(Debug, Args)]
pub struct Unjoin {
    /// The name of the cluster on the hub, to be sure that it is this one
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    /// Where the agent is
    #[arg(long, value_name = "NAMESPACE", default_value = namespaces::AGENT)]
    namespace: String,
    /// Go on although works are still there; what they applied then stays on the cluster
    #[arg(long)]
    force: bool,
    /// Also remove the agent's namespaces and rights, and not only its Deployment
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    purge_operator: bool,
    #[command(flatten)]
    removal: Removal,
}

impl Unjoin {
    pub async fn run(self, global: &Global) -> Result<()> {
        cluster_name::check(&self.cluster_name)?;
        let name = &self.cluster_name;
        let cluster = ApiServer::connect(global).await?;
        let agents: Api<Deployment> = Api::namespaced(cluster.client.clone(), &self.namespace);
        let agent = agents.get_opt(charts::AGENT).await;
        let agent = agent.map_err(|error| cluster.explain("could not look for the agent", &error))?;
        let Some(agent) = agent else {
            bail!(
                "there is no agent to remove: {} has no Deployment {}/{}; `clusteradm unjoin` removes upstream's",
                cluster.server,
                self.namespace,
                charts::AGENT
            );
        };
        match cluster_name_of(&agent) {
            Some(other) if other != *name => bail!("this cluster is {other} and not {name}"),
            _ => {}
        }
        output::say(format_args!(
            "Remove applied resources in the managed cluster {name} ... "
        ))?;
        let mode = self.removal.mode();
        let works = self.works(&cluster).await?;
        if !works.is_empty() && !self.force {
            bail!(
                "the cluster still has the works {}: delete them on the hub first (`kubectl delete -n {name} \
                 managedclusteraddons,manifestworks --all`), or leave what they applied where it is with --force",
                list(&works)
            );
        }
        let values = AgentValues {
            common: Common::default(),
            namespace: Some(self.namespace.clone()),
            // Whether it was bound to cluster-admin or not, it is so no longer.
            administrator: true,
        };
        let others = self.others(&cluster).await?;
        let manifests = self.manifests(values.manifests(name)?, &others);
        charts::keep(&manifests, self.removal.output_file.as_deref())?;
        let timeout = self.removal.timeout();
        // The agent first: it would clean up after the works that are let go.
        let (deployments, rights): (Vec<Value>, Vec<Value>) =
            manifests.into_iter().partition(|it| it["kind"] == "Deployment");
        let mut lines = installation::remove(&cluster, &deployments, mode, timeout).await?;
        if mode == Mode::Write {
            self.let_go(&cluster, &works).await?;
        }
        lines.extend(installation::remove(&cluster, &rights, mode, timeout).await?);
        for line in lines {
            output::say(line)?;
        }
        if let (true, Some(other)) = (self.purge_operator, &others.agent) {
            eprintln!(
                "what the agent {other} needs as well stays, and so does namespace {}",
                namespaces::AGENT_ADDON
            );
        }
        if let (true, Some(stranger)) = (self.purge_operator, &others.stranger) {
            eprintln!("namespace {} stays: Deployment {stranger} is in it", self.namespace);
        }
        if mode == Mode::DryRun {
            return Ok(());
        }
        output::say(format_args!(
            "Applied resources have been deleted during the {name} joined stage. The status of mcl {name} will be unknown in \
             the hub cluster."
        ))
    }

    /// What is to be removed, of everything that `join --deploy` has put there and what came of it.
    fn manifests(&self, mut manifests: Vec<Value>, others: &Others) -> Vec<Value> {
        if !self.purge_operator {
            manifests.retain(|it| it["kind"] == "Deployment");
            return manifests;
        }
        if others.agent.is_none() {
            let add_ons =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespaces::AGENT_ADDON}});
            manifests.insert(1, add_ons);
        }
        manifests.retain(|it| match it["kind"].as_str() {
            // All agents of ours have the same; the bindings are each one's own.
            Some("ClusterRole") => !others.is_ours,
            Some("Namespace") => others.stranger.is_none() || it["metadata"]["name"] != self.namespace.as_str(),
            _ => true,
        });
        manifests
    }

    /// Who else is on the cluster.
    async fn others(&self, cluster: &ApiServer) -> Result<Others> {
        let agents = agents(cluster).await?;
        let elsewhere = agents.into_iter().filter_map(|it| it.metadata.namespace);
        let mut elsewhere = elsewhere.filter(|it| *it != self.namespace);
        let ours = elsewhere.next().map(|it| format!("{it}/{}", charts::AGENT));
        let theirs = installation::find(cluster, &installation::UPSTREAM_AGENT).await?;
        Ok(Others {
            is_ours: ours.is_some(),
            agent: ours.or(theirs),
            stranger: installation::stranger(cluster, &self.namespace).await?,
        })
    }

    /// The names of the works that this agent has applied and that are still there.
    async fn works(&self, cluster: &ApiServer) -> Result<Vec<String>> {
        let doing = "could not look for works that are still applied";
        let home: Api<Namespace> = Api::all(cluster.client.clone());
        let home = home.get_opt(&self.namespace).await;
        let home = home.map_err(|error| cluster.explain(doing, &error))?;
        // It is what the agent calls itself in what it applies.
        let id = home.and_then(|it| it.metadata.uid).unwrap_or_default();
        let traces: Api<AppliedManifestWork> = Api::all(cluster.client.clone());
        let listed = match traces.list(&ListParams::default()).await {
            Ok(listed) => listed.items,
            // The kind is not there: the agent has never worked.
            Err(kube::Error::Api(status)) if status.code == 404 => vec![],
            Err(error) => return Err(cluster.explain(doing, &error)),
        };
        let ours = listed.into_iter().filter(|it| it.spec.agent_id == id);
        Ok(ours.filter_map(|it| it.metadata.name).collect())
    }

    /// Leaves what the works applied to the cluster: nobody cleans up after them any more.
    async fn let_go(&self, cluster: &ApiServer, works: &[String]) -> Result<()> {
        let traces: Api<AppliedManifestWork> = Api::all(cluster.client.clone());
        for name in works {
            let doing = format!("could not let go of AppliedManifestWork {name}");
            let Some(trace) = traces
                .get_opt(name)
                .await
                .map_err(|error| cluster.explain(&doing, &error))?
            else {
                continue;
            };
            let mut kept = trace.metadata.finalizers.unwrap_or_default();
            kept.retain(|it| it != finalizers::APPLIED_MANIFEST_WORK);
            let patch = json!({"metadata": {"resourceVersion": trace.metadata.resource_version, "finalizers": kept}});
            let done = traces.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
            done.map_err(|error| cluster.explain(&doing, &error))?;
        }
        Ok(())
    }
}

/// Who shares the cluster with the agent, by the names of Deployments.
#[derive(Default)]
struct Others {
    /// Another agent, ours or upstream's. The add-ons of both have one namespace.
    agent: Option<String>,
    /// Whether it is one of ours.
    is_ours: bool,
    /// One in the agent's namespace, which is that of upstream's agent, too.
    stranger: Option<String>,
}

/// The first few, and how many more there are.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names
        .iter()
        .take(SHOWN)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{shown} and {more} more"),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{cli::Cli, cli::DroverCommand};

    #[test]
    fn what_another_agent_needs_stays() {
        let DroverCommand::Unjoin(unjoin) = Cli::parse_from(["drover", "unjoin", "--cluster-name", "c"]).command else {
            panic!("it is unjoin");
        };
        let values = AgentValues {
            common: Common::default(),
            namespace: None,
            administrator: true,
        };
        let kinds = |others: &Others| -> Vec<String> {
            let left = unjoin.manifests(values.manifests("c").unwrap(), others);
            let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
            let name = |it: &Value| match it["kind"].as_str() {
                Some("Namespace") => text(&it["metadata"]["name"]),
                _ => text(&it["kind"]),
            };
            let mut kinds: Vec<String> = left.iter().map(name).collect();
            kinds.sort();
            kinds.dedup();
            kinds
        };
        let rights = ["ClusterRoleBinding", "Deployment", "ServiceAccount"];
        let all = ["open-cluster-management-agent", "open-cluster-management-agent-addon"];
        assert_eq!(
            kinds(&Others::default()),
            [&["ClusterRole"][..], &rights, &all].concat()
        );
        let ours = Others {
            agent: Some("b/drover-agent".to_owned()),
            is_ours: true,
            stranger: None,
        };
        assert_eq!(kinds(&ours), [&rights[..], &all[..1]].concat());
        let theirs = Others {
            agent: Some("open-cluster-management/klusterlet".to_owned()),
            is_ours: false,
            stranger: Some("open-cluster-management-agent/klusterlet-agent".to_owned()),
        };
        assert_eq!(kinds(&theirs), [&["ClusterRole"][..], &rights].concat());
    }

    #[test]
    fn many_works_are_counted() {
        let names = |count: usize| (1..=count).map(|it| format!("w{it}")).collect::<Vec<_>>();
        assert_eq!(list(&names(2)), "w1, w2");
        assert_eq!(list(&names(5)), "w1, w2, w3, w4, w5");
        assert_eq!(list(&names(7)), "w1, w2, w3, w4, w5 and 2 more");
    }
}
