//! `drover manifests`: what runs a hub or an agent on a Kubernetes, for `kubectl apply -f -`. It is what `deploy/` has.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use crate::{cluster_name, output};

const HUB: &str = include_str!("../../../../deploy/hub.yaml");
const AGENT: &str = include_str!("../../../../deploy/agent.yaml");
/// What the files have where the flags have something to say.
const IMAGE: &str = concat!("drover:", env!("CARGO_PKG_VERSION"));
const CLUSTER: &str = "--cluster-name=cluster1";

/// Print the manifests that run a hub or an agent on a Kubernetes, for `kubectl apply -f -`
#[derive(Debug, Subcommand)]
pub enum Manifests {
    /// Those of a hub
    Hub(Hub),
    /// Those of the agent of a cluster
    Agent(Agent),
}

#[derive(Debug, Args)]
pub struct Hub {
    /// The image of this binary
    #[arg(long, default_value = IMAGE)]
    image: String,
}

#[derive(Debug, Args)]
pub struct Agent {
    /// The image of this binary
    #[arg(long, default_value = IMAGE)]
    image: String,
    /// The name of the cluster on the hub
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    /// Where the agent is, with its Secrets
    #[arg(long, value_name = "NAMESPACE", default_value = ocm_api::namespaces::AGENT)]
    namespace: String,
}

impl Manifests {
    pub fn run(self) -> Result<()> {
        output::print(&self.text()?)
    }

    fn text(&self) -> Result<String> {
        match self {
            Self::Hub(it) => Ok(HUB.replace(IMAGE, image(&it.image)?)),
            Self::Agent(it) => {
                cluster_name::check(&it.cluster_name)?;
                cluster_name::check(&it.namespace)?;
                Ok(AGENT
                    .replace(IMAGE, image(&it.image)?)
                    .replace(CLUSTER, &format!("--cluster-name={}", it.cluster_name))
                    .replace(ocm_api::namespaces::AGENT, &it.namespace))
            }
        }
    }
}

/// An image's name is put into YAML as it is, so it must not be more than a name.
fn image(name: &str) -> Result<&str> {
    let odd = |it: char| !it.is_ascii_alphanumeric() && !"./:@_-".contains(it);
    if name.is_empty() || name.contains(odd) || name.ends_with(':') {
        bail!("{name:?} is not the name of an image");
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_flags_say_is_in_the_manifests_and_nothing_else_changes() {
        let hub = |image: &str| Manifests::Hub(Hub { image: image.into() }).text();
        assert_eq!(hub(IMAGE).unwrap(), HUB);
        assert!(
            hub("a.b:5000/drover@sha256:00")
                .unwrap()
                .contains("a.b:5000/drover@sha256:00")
        );
        assert!(hub("a\nb").is_err());
        let agent = Manifests::Agent(Agent {
            image: "x/y:z".into(),
            cluster_name: "edge".into(),
            namespace: "there".into(),
        });
        let text = agent.text().unwrap();
        assert!(text.contains("x/y:z") && text.contains("--cluster-name=edge") && text.contains("--namespace=there"));
        assert!(
            !text.contains("cluster1") && !text.contains("open-cluster-management-agent"),
            "{text}"
        );
    }
}
