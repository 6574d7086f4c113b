//! What earlier releases of ours installed: a hub or an agent as one Deployment of its own, without an operator. It can
//! be taken off still. Where an operator is put beside it, the operator takes it off when its own pods are ready.

use std::collections::BTreeMap;

use anyhow::Result;
use client::{connect::ApiServer, kinds};
use hub::feature_gates;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::Deployment,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Resource, ResourceExt,
    api::ListParams,
    core::{ApiResource, PartialObjectMeta},
};
use ocm_api::namespaces;
use ocm_reconcile::install::{DROVER, Installed, MANAGED_BY};
use serde_json::{Value, json};

use crate::charts::{self, AgentValues, Common, HubValues};

/// Whether the hub is there.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn hub_is_there(cluster: &ApiServer) -> Result<bool> {
    Ok(crate::find(cluster, &[(namespaces::HUB, charts::HUB)]).await?.is_some())
}

/// The manifests of a hub, with what a gate brings: it may have been on once.
fn hub_manifests() -> Result<Vec<Value>> {
    let gate = feature_gates::parse("NilExecutorValidating=true").map_err(anyhow::Error::msg)?;
    let values = HubValues {
        feature_gates: vec![gate],
        ..HubValues::default()
    };
    values.manifests()
}

/// The manifests of an agent; whether it was bound to cluster-admin or not, it is so no longer.
fn agent_manifests(name: &str, namespace: &str) -> Result<Vec<Value>> {
    let values = AgentValues {
        common: Common::default(),
        namespace: Some(namespace.to_owned()),
        administrator: true,
    };
    values.manifests(name)
}

/// The agents that run on a cluster as Deployments of their own, in whichever namespaces.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn agents(cluster: &ApiServer) -> Result<Vec<Deployment>> {
    let all: Api<Deployment> = Api::all(cluster.client.clone());
    let selected = ListParams::default().labels(&format!("app={}", charts::AGENT));
    let listed = all.list(&selected).await;
    let listed = listed.map_err(|error| cluster.explain("could not look for agents that run already", &error))?;
    let is_agent = |it: &Deployment| it.metadata.name.as_deref() == Some(charts::AGENT);
    Ok(listed.items.into_iter().filter(is_agent).collect())
}

/// The cluster's name in an agent's Deployment.
pub fn cluster_name_of(agent: &Deployment) -> Option<String> {
    let pod = agent.spec.template.spec.as_ref()?;
    let mut arguments = pod.containers.iter().flat_map(|it| it.args.iter().flatten());
    arguments.find_map(|it| it.strip_prefix("--cluster-name=").map(str::to_owned))
}

/// Webhook configurations that we have made.
async fn webhooks(cluster: &ApiServer) -> Result<Vec<Value>> {
    let mut found = labelled::<ValidatingWebhookConfiguration>(cluster).await?;
    found.extend(labelled::<MutatingWebhookConfiguration>(cluster).await?);
    Ok(found)
}

/// The objects of a kind that say that they are ours, as manifests of their names.
async fn labelled<K>(cluster: &ApiServer) -> Result<Vec<Value>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let all: Api<K> = Api::all(cluster.client.clone());
    let resource = ApiResource::erase::<K>(&());
    let selected = ListParams::default().labels(&format!("{MANAGED_BY}={DROVER}"));
    let listed = all.list_metadata(&selected).await;
    let listed = listed.map_err(|error| cluster.explain(&format!("could not list the {}", resource.plural), &error))?;
    let manifest = |it: PartialObjectMeta<K>| json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": it.name_any()}});
    Ok(listed.items.into_iter().map(manifest).collect())
}

/// What is to be taken away of a hub that has no operator, first to last in the order in which it was made, and
/// the namespaces that stay because somebody else is in them.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn hub_with_all(hub: &ApiServer, purge: bool) -> Result<(Vec<Value>, BTreeMap<&'static str, String>)> {
    let mut strangers = BTreeMap::new();
    for namespace in [namespaces::OPERATOR, namespaces::HUB] {
        if let Some(stranger) = crate::stranger(hub, namespace).await? {
            strangers.insert(namespace, stranger);
        }
    }
    let mut manifests = hub_manifests()?;
    for object in hub::bootstrap::objects() {
        let object = object.into_manifest();
        if object["metadata"]["name"] != namespaces::HUB {
            manifests.insert(1, object);
        }
    }
    manifests.retain(|it| {
        let name = it["metadata"]["name"].as_str().unwrap_or_default();
        it["kind"] != "Namespace" || !strangers.contains_key(name)
    });
    // Asked in vain they would refuse every write; so they go before the hub does.
    manifests.extend(webhooks(hub).await?);
    let public = hub::bootstrap::cluster_info("")
        .into_iter()
        .map(Installed::into_manifest);
    manifests.extend(crate::ours(hub, public.collect()).await?);
    manifests.extend(held(hub).await?);
    if purge {
        // Those of an upstream installation stay.
        manifests.splice(0..0, labelled::<CustomResourceDefinition>(hub).await?);
    }
    Ok((manifests, strangers))
}

/// Objects that only a hub lets go of; so they go while it is still there.
async fn held(hub: &ApiServer) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    for kind in [kinds::cluster_management_add_on(), kinds::manifest_work_replica_set()] {
        let listed = hub.all(&kind).list(&ListParams::default()).await;
        let listed = match listed {
            Ok(listed) => listed.items,
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            Err(error) => return Err(hub.explain(&format!("could not list the {}", kind.plural), &error)),
        };
        found.extend(listed.into_iter().map(|it| {
            json!({
                "apiVersion": kind.api_version, "kind": kind.kind,
                "metadata": {"name": it.metadata.name, "namespace": it.metadata.namespace},
            })
        }));
    }
    Ok(found)
}

/// Who shares a cluster with an agent, by the names of Deployments.
#[derive(Debug, Default)]
pub struct Others {
    /// Another agent, ours or an operator's. The add-ons of both have one namespace.
    pub agent: Option<String>,
    /// Whether it is one of ours.
    pub is_ours: bool,
    /// One in the agent's namespace, which is that of an operator's agent, too.
    pub stranger: Option<String>,
}

impl Others {
    /// Who is on the cluster beside the agent of that namespace.
    ///
    /// # Errors
    /// When the API server cannot be asked.
    pub async fn than(cluster: &ApiServer, namespace: &str) -> Result<Self> {
        let elsewhere = agents(cluster)
            .await?
            .into_iter()
            .filter_map(|it| it.metadata.namespace);
        let ours = elsewhere
            .filter(|it| it != namespace)
            .map(|it| format!("{it}/{}", charts::AGENT))
            .next();
        let theirs = crate::find(cluster, &crate::UPSTREAM_AGENT).await?;
        Ok(Self {
            is_ours: ours.is_some(),
            agent: ours.or(theirs),
            stranger: crate::stranger(cluster, namespace).await?,
        })
    }
}

/// What is to be removed of everything that belongs to the agent of a namespace.
///
/// # Errors
/// When the name is none of a cluster.
pub fn agent_with_all(name: &str, namespace: &str, purge: bool, others: &Others) -> Result<Vec<Value>> {
    let mut manifests = agent_manifests(name, namespace)?;
    if !purge {
        manifests.retain(|it| it["kind"] == "Deployment");
        return Ok(manifests);
    }
    if others.agent.is_none() {
        let add_ons = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespaces::AGENT_ADDON}});
        manifests.insert(1, add_ons);
    }
    manifests.retain(|it| match it["kind"].as_str() {
        // All agents of ours have the same; the bindings are each one's own.
        Some("ClusterRole") => !others.is_ours,
        Some("Namespace") => others.stranger.is_none() || it["metadata"]["name"] != namespace,
        _ => true,
    });
    Ok(manifests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_cluster_is_found_in_the_deployment() {
        let manifests = agent_manifests("edge", namespaces::AGENT).unwrap();
        let deployment = serde_json::from_value(manifests.last().unwrap().clone()).unwrap();
        assert_eq!(cluster_name_of(&deployment).as_deref(), Some("edge"));
        assert_eq!(cluster_name_of(&Deployment::default()), None);
    }

    #[test]
    fn what_another_agent_needs_stays() {
        let kinds = |others: &Others| -> Vec<String> {
            let left = agent_with_all("c", namespaces::AGENT, true, others).unwrap();
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
}
