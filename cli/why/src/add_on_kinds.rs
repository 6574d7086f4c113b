//! What the kinds of the bundled add-ons wait for: what their conditions say, and what is missing so that nobody says
//! anything.

use anyhow::{Result, anyhow};
use client::connect::ApiServer;
use jiff::Timestamp;
use kube::{Api, core::NamespaceResourceScope};
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn,
    authentication::ManagedServiceAccount,
    cluster::ManagedCluster,
    condition::{self, Condition},
    conditions::managed_cluster_add_on::AVAILABLE,
    proxy::ManagedProxyConfiguration,
    rbac::ClusterPermission,
};
use serde::de::DeserializeOwned;

/// Whose agent keeps tokens.
const ACCOUNTS: &str = "managed-serviceaccount";

/// Of a ManagedServiceAccount.
pub async fn of_account(hub: &ApiServer, cluster: &str, name: &str) -> Result<Vec<String>> {
    let account: ManagedServiceAccount = get(hub, cluster, name, "ManagedServiceAccount").await?;
    let status = account.status.unwrap_or_default();
    let mut said = of_conditions(&status.conditions);
    let end = status.expiration_timestamp.as_ref().map(|it| it.0);
    let is_over = end.is_some_and(|it| it < Timestamp::now());
    if let Some(end) = end.filter(|_| is_over) {
        said.push(format!("Its token ended at {end}, and there is no other one."));
    }
    if said.is_empty() && status.token_secret_ref.is_none() {
        said.push("Nothing has been said of it: it waits for the agent of the add-on.".to_owned());
    }
    if !said.is_empty() {
        said.extend(of_agent(hub, cluster).await?);
    }
    Ok(said)
}

/// Whether the agent is there.
async fn of_agent(hub: &ApiServer, cluster: &str) -> Result<Option<String>> {
    let add_ons: Api<ManagedClusterAddOn> = Api::namespaced(hub.client.clone(), cluster);
    let add_on = add_ons.get_opt(ACCOUNTS).await;
    let add_on = add_on.map_err(|error| hub.explain("could not look for the add-on", &error))?;
    let Some(add_on) = add_on else {
        return Ok(Some(format!(
            "Cluster {cluster} has no add-on {ACCOUNTS}: `drover addon enable --names {ACCOUNTS} --clusters {cluster}`."
        )));
    };
    let conditions = add_on.status.unwrap_or_default().conditions;
    let is_available = condition::is_true(&conditions, AVAILABLE);
    Ok((!is_available).then(|| {
        format!(
            "Add-on {ACCOUNTS} is not available on cluster {cluster}: `drover why addon/{cluster}/{ACCOUNTS}` says why."
        )
    }))
}

/// Of a ClusterPermission.
pub async fn of_permission(hub: &ApiServer, cluster: &str, name: &str) -> Result<Vec<String>> {
    let permission: ClusterPermission = get(hub, cluster, name, "ClusterPermission").await?;
    let clusters: Api<ManagedCluster> = Api::all(hub.client.clone());
    let known = clusters.get_opt(cluster).await;
    let known = known.map_err(|error| hub.explain("could not look for the cluster", &error))?;
    if known.is_none() {
        return Ok(vec![format!(
            "Namespace {cluster} is none of a cluster: a ClusterPermission lives in the namespace of the cluster that it is for."
        )]);
    }
    let status = permission.status.unwrap_or_default();
    let mut said = of_conditions(&status.conditions);
    if status.conditions.is_empty() {
        said.push(
            "Nothing has been said of it: it waits for the controller of the add-on cluster-permission on the hub."
                .to_owned(),
        );
    }
    Ok(said)
}

/// Of a ManagedProxyConfiguration.
pub async fn of_configuration(hub: &ApiServer, name: &str) -> Result<Vec<String>> {
    let api: Api<ManagedProxyConfiguration> = Api::all(hub.client.clone());
    let found = api.get_opt(name).await;
    let found =
        found.map_err(|error| hub.explain(&format!("could not get ManagedProxyConfiguration {name}"), &error))?;
    let found = found.ok_or_else(|| anyhow!("there is no ManagedProxyConfiguration {name}"))?;
    let status = found.status.unwrap_or_default();
    let mut said = of_conditions(&status.conditions);
    if status.conditions.is_empty() {
        said.push(
            "Nothing has been said of it: it waits for the manager of the add-on cluster-proxy on the hub.".to_owned(),
        );
    } else if status.last_observed_generation < found.metadata.generation {
        said.push("Its last change has not been looked at yet by the manager of the add-on cluster-proxy.".to_owned());
    }
    if name != "cluster-proxy" {
        said.push("Agents are made from the one named cluster-proxy, unless their add-on names this one.".to_owned());
    }
    Ok(said)
}

async fn get<K>(hub: &ApiServer, namespace: &str, name: &str, kind: &str) -> Result<K>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(hub.client.clone(), namespace);
    let found = api.get_opt(name).await;
    let found = found.map_err(|error| hub.explain(&format!("could not get {kind} {name}"), &error))?;
    found.ok_or_else(|| anyhow!("there is no {kind} {name} in namespace {namespace}"))
}

/// Those that are not true.
fn of_conditions(conditions: &[Condition]) -> Vec<String> {
    let untrue = conditions.iter().filter(|it| it.status != "True");
    let sentences = untrue.map(|it| match it.message.is_empty() {
        true => format!("{} is {}: {}.", it.type_, it.status, it.reason),
        false => format!("{} is {}: {}.", it.type_, it.status, it.message.trim_end_matches('.')),
    });
    sentences.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_true_is_told() {
        let condition = |kind: &str, status: bool, message: &str| {
            condition::wanted(kind, status, "Reason", message).since(Timestamp::UNIX_EPOCH)
        };
        let all = [
            condition("SecretCreated", true, ""),
            condition("TokenReported", false, "it is too short."),
            condition("Other", false, ""),
        ];
        assert_eq!(
            of_conditions(&all),
            ["TokenReported is False: it is too short.", "Other is False: Reason."]
        );
    }
}
