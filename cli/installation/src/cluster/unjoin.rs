//! An agent is taken off its cluster: first the Klusterlet, whose operator takes away everything that it has made, then
//! the operator if no other Klusterlet needs it.
//! Upstream: clusteradm `pkg/cmd/unjoin/exec.go`. We differ in that works which are still there are an error and not
//! exit code 0, in that only this agent's works count, in that Klusterlets are known by what they are called and not
//! by what they are mostly called, and in that a dry run writes nothing.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use client::connect::ApiServer;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    config::Kubeconfig,
    core::DynamicObject,
};
use ocm_api::{finalizers, namespaces, work::AppliedManifestWork};
use serde_json::{Value, json};

use super::{JoinOptions, NAME, There, administrator_binding};
use crate::{
    Line, Mode, charts,
    former::{self, Others},
    operated,
};

/// Which agent is to be taken off.
#[derive(Clone, Debug)]
pub struct UnjoinOptions {
    /// The name of the cluster on the hub.
    pub cluster_name: String,
    /// Where an agent without an operator is.
    pub namespace: String,
    /// Go on although works are still there.
    pub force: bool,
    /// Whether the operator goes as well.
    pub purge_operator: bool,
    /// Whether to write.
    pub mode: Mode,
    /// How long to wait until everything is gone.
    pub timeout: Duration,
}

/// The agent of a cluster, as it was found.
pub enum InstalledAgent {
    /// An operator's, by its Klusterlet.
    Operated(Box<DynamicObject>),
    /// One of ours without an operator.
    Former,
}

/// What is to be taken away, and what speaks against it.
pub struct FoundAgent {
    agent: InstalledAgent,
    /// The works of this agent that are still applied.
    pub works: Vec<String>,
    /// The API of the cluster that is managed.
    managed: ApiServer,
    manifests: Vec<Value>,
    /// Remarks about what stays.
    pub remarks: Vec<String>,
}

impl FoundAgent {
    /// The manifests of what goes, for `--output-file`.
    pub fn manifests(&self) -> &[Value] {
        &self.manifests
    }
}

/// Looks for the agent of a cluster; nothing where there is none.
///
/// # Errors
/// When the cluster has another name, and when the API server cannot be asked.
pub async fn look(cluster: &ApiServer, options: &UnjoinOptions) -> Result<Option<FoundAgent>> {
    let name = options.cluster_name.as_str();
    let klusterlets = operated::list(cluster, &operated::klusterlets()).await?;
    let of = |it: &DynamicObject| it.data["spec"]["clusterName"].as_str().unwrap_or_default().to_owned();
    if let Some(klusterlet) = klusterlets.iter().find(|it| of(it) == name) {
        let has_others = klusterlets.len() > 1;
        return of_klusterlet(cluster, options, klusterlet, has_others).await.map(Some);
    }
    let agents = former::agents(cluster).await?;
    let here = agents
        .iter()
        .find(|it| it.metadata.namespace.as_deref() == Some(options.namespace.as_str()));
    if let Some(agent) = here {
        match former::cluster_name_of(agent) {
            Some(other) if other != name => bail!("this cluster is {other} and not {name}"),
            _ => return of_former(cluster, options).await.map(Some),
        }
    }
    if let Some(other) = klusterlets.first().map(of).filter(|it| !it.is_empty()) {
        bail!("this cluster is {other} and not {name}");
    }
    Ok(None)
}

async fn of_former(cluster: &ApiServer, options: &UnjoinOptions) -> Result<FoundAgent> {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let home = namespaces.get_opt(&options.namespace).await;
    let home = home.map_err(|error| cluster.explain("could not look for the agent's namespace", &error))?;
    // It is what the agent calls itself in what it applies.
    let id = home.and_then(|it| it.metadata.uid).unwrap_or_default();
    let others = Others::than(cluster, &options.namespace).await?;
    let mut remarks = Vec::new();
    if let (true, Some(other)) = (options.purge_operator, &others.agent) {
        let namespace = namespaces::AGENT_ADDON;
        remarks.push(format!(
            "what the agent {other} needs as well stays, and so does namespace {namespace}"
        ));
    }
    if let (true, Some(stranger)) = (options.purge_operator, &others.stranger) {
        remarks.push(format!(
            "namespace {} stays: Deployment {stranger} is in it",
            options.namespace
        ));
    }
    Ok(FoundAgent {
        agent: InstalledAgent::Former,
        works: works(cluster, &id).await?,
        managed: cluster.clone(),
        manifests: former::agent_with_all(
            &options.cluster_name,
            &options.namespace,
            options.purge_operator,
            &others,
        )?,
        remarks,
    })
}

async fn of_klusterlet(
    cluster: &ApiServer,
    options: &UnjoinOptions,
    klusterlet: &DynamicObject,
    has_others: bool,
) -> Result<FoundAgent> {
    let spec = &klusterlet.data["spec"];
    let name = klusterlet.name_any();
    let is_hosted = spec["deployOption"]["mode"]
        .as_str()
        .is_some_and(|it| it.ends_with("Hosted"));
    let managed = if is_hosted {
        managed(cluster, &name).await?
    } else {
        cluster.clone()
    };
    let home = match is_hosted {
        true => name.as_str(),
        false => spec["namespace"].as_str().unwrap_or(namespaces::AGENT),
    };
    let purge = options.purge_operator && !has_others;
    let mut remarks = Vec::new();
    if options.purge_operator && !purge {
        remarks.push("operator not purged: there are other klusterlet on cluster".to_owned());
    }
    let mut manifests = match purge {
        true => operator(cluster, &mut remarks).await?,
        false => vec![],
    };
    // What lets works contain anything is nobody's but ours, and so is what an agent without an operator has left of
    // it.
    let bindings = [
        administrator_binding(&name),
        "open-cluster-management:drover-agent:administrator".to_owned(),
    ];
    let mut first: Vec<Value> = bindings
        .iter()
        .map(|name| {
            let kind = "ClusterRoleBinding";
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}})
        })
        .collect();
    // It goes with the Klusterlet, unless somebody has made it before.
    let is_agents = |it: &str| it.starts_with(&format!("{name}-")) || it == charts::AGENT;
    if operated::other_deployments(cluster, home, is_agents).await?.is_empty() {
        first.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}}));
    } else {
        remarks.push(format!("namespace {home} stays: other Deployments are in it"));
    }
    manifests.splice(0..0, first);
    Ok(FoundAgent {
        agent: InstalledAgent::Operated(Box::new(klusterlet.clone())),
        works: works(&managed, klusterlet.metadata.uid.as_deref().unwrap_or_default()).await?,
        managed,
        manifests,
        remarks,
    })
}

/// The API of a cluster whose agent is hosted.
async fn managed(cluster: &ApiServer, klusterlet: &str) -> Result<ApiServer> {
    let name = "external-managed-kubeconfig";
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), klusterlet);
    let secret = secrets.get_opt(name).await;
    let secret =
        secret.map_err(|error| cluster.explain(&format!("could not get Secret {klusterlet}/{name}"), &error))?;
    let text = secret.and_then(|it| it.data?.remove("kubeconfig"));
    let text = text.and_then(|it| String::from_utf8(it.0).ok());
    let text = text.with_context(|| {
        format!("there is no kubeconfig in Secret {klusterlet}/{name}: the managed cluster cannot be asked for works")
    })?;
    ApiServer::of(Kubeconfig::from_yaml(&text)?, &format!("Secret {klusterlet}/{name}")).await
}

/// What belongs to the operator.
async fn operator(cluster: &ApiServer, remarks: &mut Vec<String>) -> Result<Vec<Value>> {
    let mut options = JoinOptions::new("x", Kubeconfig::default());
    options.values.set = vec!["klusterlet.create=false,bootstrapHubKubeConfig=".to_owned()];
    let mut manifests = options.manifests(&There::default())?.all(&[]);
    manifests.retain(|it| it["kind"] != "Namespace");
    let namespace = namespaces::OPERATOR;
    let others = operated::other_deployments(cluster, namespace, |it| it == NAME).await?;
    match others.first() {
        Some(stranger) => {
            remarks.push(format!(
                "namespace {namespace} stays: Deployment {namespace}/{stranger} is in it"
            ));
            // Both operators pull their images with it.
            manifests.retain(|it| it["kind"] != "Secret");
        }
        None => manifests.insert(
            0,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        ),
    }
    Ok(manifests)
}

/// The names of the works that an agent has applied and that are still there.
async fn works(cluster: &ApiServer, agent: &str) -> Result<Vec<String>> {
    let traces: Api<AppliedManifestWork> = Api::all(cluster.client.clone());
    let listed = match traces.list(&ListParams::default()).await {
        Ok(listed) => listed.items,
        // The kind is not there: the agent has never worked.
        Err(kube::Error::Api(status)) if status.code == 404 => vec![],
        Err(error) => return Err(cluster.explain("could not look for works that are still applied", &error)),
    };
    let ours = listed.into_iter().filter(|it| it.spec.agent_id == agent);
    Ok(ours.filter_map(|it| it.metadata.name).collect())
}

/// Takes the agent off that was found.
///
/// # Errors
/// When it has works still, what the API server refuses, and what is still there after the timeout.
pub async fn unjoin(cluster: &ApiServer, options: &UnjoinOptions, found: &FoundAgent) -> Result<Vec<Line>> {
    let name = &options.cluster_name;
    if !found.works.is_empty() && !options.force {
        bail!(
            "the cluster still has the works {}: delete them on the hub first (`kubectl delete -n {name} \
             managedclusteraddons,manifestworks --all`), or leave what they applied where it is with --force",
            list(&found.works)
        );
    }
    let mut lines = Vec::new();
    let manifests = found.manifests.iter().cloned();
    // The agent first: it would clean up after the works that are let go.
    let (deployments, rest): (Vec<Value>, Vec<Value>) = match &found.agent {
        InstalledAgent::Former => manifests.partition(|it| it["kind"] == "Deployment"),
        InstalledAgent::Operated(klusterlet) => {
            let kind = operated::klusterlets();
            let klusterlet = klusterlet.name_any();
            let deleted = operated::delete(cluster, &kind, &klusterlet, NAME, options.mode, options.timeout).await?;
            lines.extend(deleted);
            (vec![], manifests.collect())
        }
    };
    lines.extend(crate::remove(cluster, &deployments, options.mode, options.timeout).await?);
    if options.mode == Mode::Write {
        let_go(&found.managed, &found.works).await?;
    }
    lines.extend(crate::remove(cluster, &rest, options.mode, options.timeout).await?);
    Ok(lines)
}

/// Leaves what the works applied to the cluster: nobody cleans up after them any more.
async fn let_go(cluster: &ApiServer, works: &[String]) -> Result<()> {
    let traces: Api<AppliedManifestWork> = Api::all(cluster.client.clone());
    for name in works {
        let doing = format!("could not let go of AppliedManifestWork {name}");
        let found = traces.get_opt(name).await;
        let Some(trace) = found.map_err(|error| cluster.explain(&doing, &error))? else {
            continue;
        };
        let mut kept = trace.metadata.finalizers.unwrap_or_default();
        if !kept.iter().any(|it| it == finalizers::APPLIED_MANIFEST_WORK) {
            continue;
        }
        kept.retain(|it| it != finalizers::APPLIED_MANIFEST_WORK);
        let patch = json!({"metadata": {"resourceVersion": trace.metadata.resource_version, "finalizers": kept}});
        let done = traces.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        done.map_err(|error| cluster.explain(&doing, &error))?;
    }
    Ok(())
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
    use super::*;

    #[test]
    fn many_works_are_counted() {
        let names = |count: usize| (1..=count).map(|it| format!("w{it}")).collect::<Vec<_>>();
        assert_eq!(list(&names(2)), "w1, w2");
        assert_eq!(list(&names(5)), "w1, w2, w3, w4, w5");
        assert_eq!(list(&names(7)), "w1, w2, w3, w4, w5 and 2 more");
    }
}
