//! The clusters that a command line names, and the namespaces that a set of clusters is bound to.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use kube::api::ListParams;

use crate::{cluster_name, connect::ApiServer, kinds};

/// Refuses what cannot name a cluster and what names none of the hub's.
pub async fn exist(hub: &ApiServer, names: &[String]) -> Result<()> {
    for name in names {
        cluster_name::check(name)?;
    }
    for name in names {
        match hub.all(&kinds::managed_cluster()).get_opt(name).await {
            Ok(Some(_)) => {}
            Ok(None) => bail!("there is no cluster {name} on this hub; `drover get clusters` lists those there are"),
            // Who may see what is in a cluster's namespace need not see the cluster.
            Err(kube::Error::Api(status)) if status.code == 403 => {}
            Err(error) => return Err(hub.explain(&format!("could not get cluster {name}"), &error)),
        }
    }
    Ok(())
}

/// Namespaces by the set that is bound there.
pub async fn bindings(hub: &ApiServer) -> Result<BTreeMap<String, Vec<String>>> {
    let page = hub
        .all(&kinds::managed_cluster_set_binding())
        .list(&ListParams::default())
        .await;
    let page = page.map_err(|error| hub.explain("could not list the bindings of cluster sets", &error))?;
    let mut bound: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for it in page.items {
        let (set, namespace) = (it.data["spec"]["clusterSet"].as_str(), it.metadata.namespace);
        if let (Some(set), Some(namespace)) = (set, namespace) {
            bound.entry(set.to_owned()).or_default().push(namespace);
        }
    }
    bound.values_mut().for_each(|it| it.sort());
    Ok(bound)
}
