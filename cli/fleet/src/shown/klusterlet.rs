//! Says what the agent of a cluster of this process is, and whether it has a hub.
//!
//! Root: Klusterlet `klusterlet`. Reads: the agent's session with the hub, the Secret with its credential.
//! Writes: it, with its whole status. Never: another Klusterlet.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client};
use ocm_api::{
    condition::{self, ConditionUpdate, wanted},
    conditions::klusterlet as conditions,
    namespaces,
    operator::{Klusterlet, RelatedResourceMeta, ServerUrl},
};
use ocm_reconcile::{
    Cache, Caches, Clients, Controller, ObserveError, Plan, Reconciler, Site, StatusField, Watches, async_trait,
    rbac::Right,
};
use registration::agent::HubSession;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{image, related, related_crd};

/// The name that `clusteradm` gives to the only one.
const NAME: &str = "klusterlet";

/// The Deployments that an agent is, in upstream's layouts and in ours: see the ClusterManager's.
const DEPLOYMENTS: [&str; 3] = ["agent", "registration-agent", "work-agent"];

/// What there is to say about an agent.
#[derive(Clone)]
pub struct AgentFacts {
    /// The cluster's name on the hub.
    pub cluster_name: String,
    /// Where others reach its API server.
    pub server_url: String,
    /// PEM of the certificates to trust there.
    pub server_ca: String,
    /// The session with the hub while there is one.
    pub sessions: watch::Receiver<Option<HubSession>>,
}

/// The reconciler.
pub struct Klusterlets {
    objects: Cache<Klusterlet>,
    secrets: Api<Secret>,
    facts: AgentFacts,
}

/// Whether the agent has a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    /// It speaks to the hub as a cluster that was accepted.
    Established,
    /// It has a credential, and the hub does not take it or has not accepted the cluster.
    Refused,
    /// It has no credential of its own yet.
    NoCredential,
}

/// What a plan is made from.
pub struct Seen {
    now: Timestamp,
    name: String,
    object: Option<Arc<Klusterlet>>,
    cluster_name: String,
    server: ServerUrl,
    connection: Connection,
}

impl Klusterlets {
    /// Has the cluster serve the kind, and starts to keep the object there.
    ///
    /// # Errors
    /// When the kind cannot be served.
    pub async fn start(client: Client, facts: AgentFacts, stop: CancellationToken) -> anyhow::Result<()> {
        super::serve(&client, Klusterlet::PLURAL).await?;
        let it = Self {
            objects: Caches::new(client.clone(), stop.clone()).of(),
            secrets: Api::namespaced(client.clone(), namespaces::AGENT),
            facts,
        };
        Controller::new(it).start(Clients::cluster(client), stop);
        Ok(())
    }
}

#[async_trait]
impl Reconciler for Klusterlets {
    const NAME: &'static str = "shown-klusterlet";
    const STATUS: &'static [StatusField] = &[
        StatusField::condition(Klusterlet::KIND, conditions::APPLIED),
        StatusField::condition(Klusterlet::KIND, conditions::VALID_FEATURE_GATES),
        StatusField::condition(Klusterlet::KIND, conditions::AVAILABLE),
        StatusField::condition(Klusterlet::KIND, conditions::REGISTRATION_DESIRED_DEGRADED),
        StatusField::condition(Klusterlet::KIND, conditions::WORK_DESIRED_DEGRADED),
        StatusField::condition(Klusterlet::KIND, conditions::HUB_CONNECTION_DEGRADED),
        StatusField::new(Klusterlet::KIND, "observedGeneration"),
        StatusField::new(Klusterlet::KIND, "relatedResources"),
    ];
    const RIGHTS: &'static [Right] = &[
        Right::new(Klusterlet::GROUP, "klusterlets", "create", "To show what runs,"),
        Right::new(Klusterlet::GROUP, "klusterlets", "patch", "and keep it true."),
        Right::new(Klusterlet::GROUP, "klusterlets/status", "patch", "The same."),
        Right::new("", "secrets", "get", "Whether the agent has a credential."),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let mut sessions = self.facts.sessions.clone();
        watches
            .root(&self.objects)
            .signal("the agent's session with the hub", move |queue| {
                queue.add(NAME);
                let queue = queue.clone();
                // It ends with the agent, which has the other end.
                tokio::spawn(async move {
                    while sessions.changed().await.is_ok() {
                        queue.add(NAME);
                    }
                });
            });
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let has_session = self.facts.sessions.borrow().is_some();
        let connection = match has_session {
            true => Connection::Established,
            false => match self.secrets.get_opt(namespaces::HUB_KUBECONFIG_SECRET).await? {
                Some(_) => Connection::Refused,
                None => Connection::NoCredential,
            },
        };
        Ok(Seen {
            now: Timestamp::now(),
            name: name.to_owned(),
            object: self.objects.named(name),
            cluster_name: self.facts.cluster_name.clone(),
            server: ServerUrl {
                url: self.facts.server_url.clone(),
                ca_bundle: Some(ByteString(self.facts.server_ca.clone().into_bytes())),
            },
            connection,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        if seen.name != NAME {
            plan.wait(format!(
                "no operator looks after Klusterlet {}: the agent of drover up is {NAME}",
                seen.name
            ));
            return plan;
        }
        let Some(before) = seen.object.as_deref() else {
            let mut new = Klusterlet::default();
            new.metadata.name = Some(NAME.to_owned());
            specify(&mut new, seen);
            plan.create(Site::Cluster, &new);
            return plan;
        };
        if before.metadata.deletion_timestamp.is_some() {
            plan.wait("the Klusterlet is being deleted, and comes again");
            return plan;
        }
        let mut after = before.clone();
        specify(&mut after, seen);
        if plan.change(Site::Cluster, before, &after).is_some() {
            // The status says which generation it is about; the next run knows it.
            return plan;
        }
        report(&mut after, seen);
        plan.status(Site::Cluster, before, &after);
        plan
    }
}

fn specify(object: &mut Klusterlet, seen: &Seen) {
    let spec = &mut object.spec;
    spec.namespace = namespaces::AGENT.to_owned();
    spec.cluster_name.clone_from(&seen.cluster_name);
    spec.image_pull_spec = image();
    // Registration and works in one process.
    spec.deploy_option.mode = "Singleton".to_owned();
    spec.external_server_urls = vec![seen.server.clone()];
}

fn report(object: &mut Klusterlet, seen: &Seen) {
    let generation = object.metadata.generation;
    let status = object.status.get_or_insert_default();
    let runs = "The agent runs in the process of drover up; there is no operator and no Deployment";
    for update in [
        wanted(conditions::APPLIED, true, "KlusterletApplied", runs),
        wanted(
            conditions::VALID_FEATURE_GATES,
            true,
            "FeatureGatesAllValid",
            "Feature gates are all valid",
        ),
        wanted(conditions::AVAILABLE, true, "KlusterletAvailable", runs),
        wanted(
            conditions::REGISTRATION_DESIRED_DEGRADED,
            false,
            "DeploymentsFunctional",
            runs,
        ),
        wanted(conditions::WORK_DESIRED_DEGRADED, false, "DeploymentsFunctional", runs),
        connection(seen),
    ] {
        condition::set(&mut status.conditions, update.at_generation(generation), seen.now);
    }
    status.observed_generation = generation.unwrap_or_default();
    status.related_resources = related_resources();
}

/// The reasons are upstream's: that of the bootstrap kubeconfig, which is always there, and that of the credential.
fn connection(seen: &Seen) -> ConditionUpdate {
    let cluster = &seen.cluster_name;
    let (is_degraded, reason, message) = match seen.connection {
        Connection::Established => (
            false,
            "HubConnectionFunctional",
            format!("The agent speaks to the hub of drover up as cluster {cluster}"),
        ),
        Connection::Refused => (
            true,
            "BootstrapSecretFunctional,HubKubeConfigUnauthorized",
            format!(
                "The hub of drover up does not take the agent's credential or has not accepted cluster {cluster}; accept it with \
                 `drover accept --clusters {cluster}`, and ask `drover why managedcluster/{cluster}`"
            ),
        ),
        Connection::NoCredential => (
            true,
            "BootstrapSecretFunctional,HubKubeConfigSecretMissing",
            format!("The agent has asked the hub of drover up for a credential as cluster {cluster} and has none yet"),
        ),
    };
    wanted(conditions::HUB_CONNECTION_DEGRADED, is_degraded, reason, message)
}

fn related_resources() -> Vec<RelatedResourceMeta> {
    let crds = [
        "appliedmanifestworks.work.open-cluster-management.io",
        "clusterclaims.cluster.open-cluster-management.io",
    ];
    let deployment = |part: &&str| related("apps", "deployments", namespaces::AGENT, &format!("{NAME}-{part}"));
    let spaces = [namespaces::AGENT, namespaces::AGENT_ADDON].map(|it| related("", "namespaces", "", it));
    let crds = crds.iter().map(|it| related_crd(it));
    crds.chain(spaces).chain(DEPLOYMENTS.iter().map(deployment)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(object: Option<Klusterlet>, connection: Connection) -> Seen {
        Seen {
            now: Timestamp::UNIX_EPOCH,
            name: NAME.to_owned(),
            object: object.map(Arc::new),
            cluster_name: "cluster1".to_owned(),
            server: ServerUrl {
                url: "https://127.0.0.1:6443".to_owned(),
                ca_bundle: None,
            },
            connection,
        }
    }

    fn shown(connection: Connection) -> Klusterlet {
        let mut object: Klusterlet =
            serde_json::from_value(serde_json::json!({"metadata": {"name": NAME, "generation": 2}, "spec": {}}))
                .unwrap();
        let seen = seen(None, connection);
        specify(&mut object, &seen);
        report(&mut object, &seen);
        object
    }

    #[test]
    fn the_state_of_the_connection_is_told_when_it_changes() {
        let before = shown(Connection::NoCredential);
        let same = Klusterlets::plan(&seen(Some(before.clone()), Connection::NoCredential));
        assert!(same.is_empty(), "{same}");
        let joined = Klusterlets::plan(&seen(Some(before), Connection::Established));
        assert!(
            format!("{:?}", joined.stages).contains("HubConnectionFunctional"),
            "{joined}"
        );
        let denied = Klusterlets::plan(&seen(Some(shown(Connection::Established)), Connection::Refused));
        let text = format!("{:?}", denied.stages);
        assert!(
            text.contains("BootstrapSecretFunctional,HubKubeConfigUnauthorized"),
            "{text}"
        );
        assert!(text.contains("drover accept --clusters cluster1"), "{text}");
    }

    #[test]
    fn a_klusterlet_that_was_deleted_comes_again() {
        let new = Klusterlets::plan(&seen(None, Connection::Established));
        assert_eq!(new.len(), 1, "{new}");
        let other = Seen {
            name: "other".to_owned(),
            ..seen(None, Connection::Established)
        };
        assert!(Klusterlets::plan(&other).is_empty());
    }
}
