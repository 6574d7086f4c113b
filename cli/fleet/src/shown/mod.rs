//! The ClusterManager and the Klusterlets of `drover up`, for whoever looks there for what a hub or an agent is:
//! add-ons, guides, `clusteradm`. No operator has made what they are about: hub and agents run in this process, and the
//! objects say so. Where an operator runs instead, it is the author of what these objects say.
//!
//! ```text
//! FleetOptions ----------ClusterManagers--> ClusterManager cluster-manager   (API of the hub)
//! HubSession of an agent -----Klusterlets--> Klusterlet klusterlet           (API of each cluster)
//! ```

mod agent_facts;
mod cluster_manager;
mod hub_facts;
mod klusterlet;

use anyhow::{Context, Result};
use kube::Client;
use ocm_api::{
    crds,
    operator::{FeatureGate, FeatureGateMode, RelatedResourceMeta},
};
use ocm_reconcile::install;

pub use agent_facts::AgentFacts;
pub use cluster_manager::ClusterManagers;
pub use hub_facts::HubFacts;
pub use klusterlet::Klusterlets;

/// The image that is this program.
fn image() -> String {
    format!("drover:{}", env!("CARGO_PKG_VERSION"))
}

/// Has an API serve one of the operator's kinds.
async fn serve(client: &Client, plural: &str) -> Result<()> {
    let mut wanted = crds::operator();
    wanted.retain(|it| it["spec"]["names"]["plural"] == plural);
    let installed = install::install_crds(client, wanted).await;
    installed.with_context(|| format!("could not have {plural} served"))
}

fn gate((feature, is_on): (&str, bool)) -> FeatureGate {
    FeatureGate {
        feature: feature.to_owned(),
        mode: if is_on {
            FeatureGateMode::Enable
        } else {
            FeatureGateMode::Disable
        },
    }
}

fn related(group: &str, resource: &str, namespace: &str, name: &str) -> RelatedResourceMeta {
    RelatedResourceMeta {
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn related_crd(name: &str) -> RelatedResourceMeta {
    related("apiextensions.k8s.io", "customresourcedefinitions", "", name)
}
