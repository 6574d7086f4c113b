//! The clusters that a command line names: a name that the hub does not know is a mistake in typing, and not a cluster that
//! has nothing.

use anyhow::{Result, bail};

use crate::{cluster_name, connect::Target, kinds};

/// Refuses what cannot name a cluster and what names none of the hub's.
pub async fn exist(hub: &Target, names: &[String]) -> Result<()> {
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
