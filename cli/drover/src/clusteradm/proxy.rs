//! `clusteradm proxy …`

use anyhow::{Result, bail};

use super::line::Line;
use crate::command::proxy::{self, Health};

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
            };
            health.show(&line.hub().await?).await
        }
        _ => {
            let clusters = line.some_clusters()?;
            if line.flags.some("sa").is_none() {
                bail!("managedServiceAccount is required");
            }
            proxy::kubectl(&line.hub().await?, &clusters).await
        }
    }
}
