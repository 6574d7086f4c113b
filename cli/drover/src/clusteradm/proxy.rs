//! `clusteradm proxy …`

use anyhow::{Result, bail};

use super::line::Line;
use crate::command::proxy::{Health, kubeconfig::Reach, kubectl::Kubectl};

/// Does one of them.
pub async fn run(what: &str, line: &Line<'_>) -> Result<()> {
    match what {
        "health" => {
            if !line.flags.is_on("in-cluster-proxy-cert-lookup") {
                for flag in ["proxy-ca-cert", "proxy-cert", "proxy-key"] {
                    if line.flags.some(flag).is_none() {
                        bail!("--{flag} must be set when in-cluster lookup is disabled");
                    }
                }
            }
            let health = Health {
                clusters: line.clusters()?,
                user_server: None,
            };
            health.show(&line.hub().await?).await
        }
        _ => {
            let clusters = line.some_clusters()?;
            let Some(sa) = line.flags.some("sa") else {
                bail!("managedServiceAccount is required");
            };
            let [cluster] = clusters.as_slice() else {
                bail!("kubectl goes to one cluster, not to {}", clusters.join(" and "));
            };
            let kubectl = Kubectl {
                reach: Reach {
                    cluster: cluster.clone(),
                    sa: sa.to_owned(),
                    user_server: None,
                },
                args: Some(line.flags.some("args").unwrap_or_default().to_owned()),
                interactive: line.flags.is_on("interactive-mode"),
                command: Vec::new(),
            };
            kubectl.run(&line.hub().await?).await
        }
    }
}
