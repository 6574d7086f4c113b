//! What decides about an agent: what was found, as plain data.

use jiff::Timestamp;
use kube::config::Cluster;
use serde_json::Value;

use super::{settings::AgentSettings, tokens::Issued, wanted::HubCredential};
use crate::objects::Current;

/// What was found.
pub enum Finding {
    /// There is nothing to do.
    Nothing,
    /// The Klusterlet asks for what cannot be done.
    Refused(Vec<String>),
    /// What is in place could not be read.
    Unreadable(String),
    /// The managed cluster is another one and cannot be written to.
    NotReady {
        /// What the Klusterlet asks for.
        settings: Box<AgentSettings>,
        /// What is in place here.
        current: Current,
        /// Why it cannot.
        why: String,
        /// Whether a watch tells when that changes.
        is_watched: bool,
    },
    /// Everything is known.
    Scene(Box<Scene>),
}

/// Everything that decides what to write.
pub struct Scene {
    /// What the Klusterlet asks for.
    pub settings: AgentSettings,
    /// What is in place.
    pub current: Current,
    /// The pull secret to copy.
    pub pull_secret: Option<Value>,
    /// Of the agent's credential.
    pub hub: HubCredential,
    /// Namespaces that the agent was in before.
    pub former_namespaces: Vec<String>,
    /// Whether agents of an earlier release of ours are in other namespaces.
    pub has_other_former_agents: bool,
    /// How the managed cluster is reached, where it is another one.
    pub external: Option<ExternalCluster>,
    /// Tokens that were given in this run.
    pub issued: Vec<Issued>,
}

/// How another managed cluster is reached.
pub struct ExternalCluster {
    /// As the kubeconfig says.
    pub cluster: Cluster,
    /// Since when that is here.
    pub since: Option<Timestamp>,
}
