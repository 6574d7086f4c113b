//! The agent's half: joining a hub, keeping the right to speak to it, and telling it how the cluster is.
//!
//! [`run`] drives one cluster through its [`Phase`]s, again and again, in one process: a lost credential is a phase,
//! not an exit. Whoever else speaks to the hub for this cluster (the work agent) takes its client from [`HubSession`],
//! so that all of it is one HTTP/2 connection.

mod availability;
mod capacity;
mod claims;
mod client_configs;
mod drive;
mod enrolment;
mod joining;
mod lease;
mod namespaces;
mod node;
mod own_cluster;
mod permissions;
mod phase;
mod session;
mod state;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use credential::{KubeconfigProblem, KubeconfigSource, Loaded};
use kube::Client;
use ocm_api::{addon::KubeClientDriver, cluster::ManagedCluster, namespaces as names};
use ocm_reconcile::{Cache, Guard};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use drive::run;
pub use phase::{Phase, Seen as PhaseSeen, phase};

/// How an agent is told what it is and where.
#[derive(Clone)]
pub struct AgentOptions {
    /// The kubeconfig to join with.
    pub bootstrap: KubeconfigSource,
    /// The cluster the agent's own objects live on; mostly the managed cluster.
    pub management: Client,
    /// Whether that is another cluster than the managed one (hosted mode).
    pub is_hosted: bool,
    /// The managed cluster.
    pub cluster: Client,
    /// Its name; `None` takes the one of an earlier run, or a random one.
    pub cluster_name: Option<String>,
    /// Which agent this is; `None` takes the one of an earlier run, or a random one.
    pub agent_id: Option<String>,
    /// Where the agent's own objects live; created when absent.
    pub component_namespace: String,
    /// The Secret that holds the credential.
    pub hub_kubeconfig_secret: String,
    /// How the hub's users could reach the cluster's API server.
    pub external_server_urls: Vec<String>,
    /// The certificates to trust there, PEM.
    pub external_ca_bundle: Option<Vec<u8>>,
    /// Annotations for the ManagedCluster; only those beginning with `agent.open-cluster-management.io` are used.
    pub cluster_annotations: BTreeMap<String, String>,
    /// The lease duration a new ManagedCluster is created with; `None` leaves the hub's default of 60 s.
    pub lease_duration_seconds: Option<i32>,
    /// The certificate lifetime to ask for; `None` leaves it to the signer.
    pub client_cert_expiration_seconds: Option<i32>,
    /// How often the cluster's health is looked at.
    pub healthcheck_period: Duration,
    /// How many claims that are not reserved are told to the hub.
    pub custom_claims_max: usize,
    /// Claims whose names end so are reserved as well.
    pub reserved_claim_suffixes: Vec<String>,
    /// How the agents of add-ons prove to the hub who they are; `None` leaves it to each add-on.
    pub addon_driver: Option<KubeClientDriver>,
    /// How many seconds a token of theirs lives; `None` leaves it to each add-on.
    pub addon_token_seconds: Option<i64>,
    /// How long after its last word the agent of an add-on counts as alive; `None` for upstream's five minutes.
    pub addon_lease_grace: Option<Duration>,
    /// Whether [`run`] gives up when the bootstrap kubeconfig does not work at the first try. A command line wants
    /// that; a Deployment wants to go on trying.
    pub fail_fast: bool,
    /// Whether the hub is told the cluster's claims (gate ClusterClaim).
    pub tells_claims: bool,
    /// Whether the cluster's properties (`about.k8s.io`) are told as claims, too (gate ClusterProperty,
    /// off by default).
    pub tells_properties: bool,
    /// How often to look again though nothing has happened.
    pub intervals: Intervals,
    /// What stands before every write to the hub. `cluster` and `management` come with theirs.
    pub guard: Guard,
    /// Told of each phase as it begins.
    pub on_phase: Arc<dyn Fn(&Phase) + Send + Sync>,
    /// Where the session with the hub is published; `None` while there is none.
    pub sessions: watch::Sender<Option<HubSession>>,
}

/// How often to look again though nothing has happened: upstream's timers. Ours are nets below the watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// At the end of the certificate in use: clocks are set and machines sleep.
    pub certificate: Duration,
    /// At whether the certificate has to be renewed.
    pub renewal: Duration,
    /// At whether the hub knows the cluster, while there is no credential; up to twice as long.
    pub creation: Duration,
}

impl Default for Intervals {
    fn default() -> Self {
        Self {
            certificate: Duration::from_secs(5 * 60),
            renewal: Duration::from_secs(5 * 60),
            creation: Duration::from_secs(60 * 60),
        }
    }
}

impl AgentOptions {
    /// Upstream's defaults, one client for both clusters.
    pub fn new(bootstrap: KubeconfigSource, cluster: Client) -> Self {
        Self {
            bootstrap,
            management: cluster.clone(),
            is_hosted: false,
            cluster,
            cluster_name: None,
            agent_id: None,
            component_namespace: names::AGENT.to_owned(),
            hub_kubeconfig_secret: names::HUB_KUBECONFIG_SECRET.to_owned(),
            external_server_urls: Vec::new(),
            external_ca_bundle: None,
            cluster_annotations: BTreeMap::new(),
            lease_duration_seconds: None,
            client_cert_expiration_seconds: None,
            healthcheck_period: Duration::from_secs(60),
            custom_claims_max: 20,
            reserved_claim_suffixes: Vec::new(),
            addon_driver: None,
            addon_token_seconds: None,
            addon_lease_grace: None,
            fail_fast: false,
            tells_claims: true,
            tells_properties: false,
            intervals: Intervals::default(),
            guard: Guard::default(),
            on_phase: Arc::new(|_| ()),
            sessions: watch::Sender::new(None),
        }
    }
}

/// The right to speak to the hub as an accepted cluster, for as long as it lasts.
#[derive(Clone)]
pub struct HubSession {
    /// The one connection to the hub. It follows a renewed certificate.
    pub client: Client,
    /// The cluster's name, which is its namespace on the hub.
    pub cluster: String,
    /// This agent's id.
    pub agent: String,
    /// The hub's address, as written in the kubeconfig.
    pub server: String,
    /// The kubeconfig of the session, to tell others how the hub is reached.
    pub kubeconfig: Arc<Loaded>,
    /// The cluster's ManagedCluster as the hub has it.
    pub clusters: Cache<ManagedCluster>,
    /// Cancelled when the hub has said that it deletes the cluster. The session goes on: it is over for good when the
    /// hub refuses what it granted, and then what it asked for is to be removed without it.
    pub leaving: CancellationToken,
    /// Cancelled when the session is over.
    pub ended: CancellationToken,
}

/// Why an agent could not begin.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The bootstrap kubeconfig does not work.
    #[error(transparent)]
    Bootstrap(#[from] KubeconfigProblem),
    /// The cluster's name is none.
    #[error(
        "{0:?} cannot be a cluster's name: use at most 63 lower case letters, digits and '-', and begin and end with a letter or digit"
    )]
    ClusterName(String),
    /// The agent's id is none.
    #[error("{0:?} cannot be an agent's id: it must not be empty nor contain ':'")]
    AgentId(String),
    /// The cluster the agent's own objects live on does not work.
    #[error("the managed cluster does not let the agent keep its own objects: {0}")]
    Management(#[source] kube::Error),
}
