//! Says what the agent of a cluster of this process is, and whether it has a hub.
//!
//! Root: Klusterlet `klusterlet`. Reads: the agent's session with the hub, the Secret with its credential.
//! Writes: it, with its whole status. Never: another Klusterlet.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client};
use ocm_api::{
    conditions::klusterlet as conditions,
    namespaces,
    operator::{Klusterlet, ServerUrl},
};
use ocm_reconcile::{
    Cache, Caches, Clients, Controller, ObserveError, Plan, Reconciler, Site, StatusField, Watches, async_trait,
    rbac::Right,
};
use tokio_util::sync::CancellationToken;

use super::agent_facts::{self, AgentFacts, HubConnection};

/// The name that `clusteradm` gives to the only one.
pub const NAME: &str = "klusterlet";

/// The reconciler.
pub struct Klusterlets {
    objects: Cache<Klusterlet>,
    secrets: Api<Secret>,
    facts: AgentFacts,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The name of the Klusterlet.
    pub name: String,
    /// It; `None` when it is not there.
    pub object: Option<Arc<Klusterlet>>,
    /// The cluster's name on the hub.
    pub cluster_name: String,
    /// Where others reach its API server.
    pub server: ServerUrl,
    /// Whether the agent has a hub.
    pub connection: HubConnection,
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
            true => HubConnection::Established,
            false => match self.secrets.get_opt(namespaces::HUB_KUBECONFIG_SECRET).await? {
                Some(_) => HubConnection::Refused,
                None => HubConnection::NoCredential,
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
            agent_facts::specify(&mut new, seen);
            plan.create(Site::Cluster, &new);
            return plan;
        };
        if before.metadata.deletion_timestamp.is_some() {
            plan.wait("the Klusterlet is being deleted, and comes again");
            return plan;
        }
        let mut after = before.clone();
        agent_facts::specify(&mut after, seen);
        if plan.change(Site::Cluster, before, &after).is_some() {
            // The status says which generation it is about; the next run knows it.
            return plan;
        }
        agent_facts::report(&mut after, seen);
        plan.status(Site::Cluster, before, &after);
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(object: Option<Klusterlet>, connection: HubConnection) -> Seen {
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

    fn shown(connection: HubConnection) -> Klusterlet {
        let mut object: Klusterlet =
            serde_json::from_value(serde_json::json!({"metadata": {"name": NAME, "generation": 2}, "spec": {}}))
                .unwrap();
        let seen = seen(None, connection);
        agent_facts::specify(&mut object, &seen);
        agent_facts::report(&mut object, &seen);
        object
    }

    #[test]
    fn the_state_of_the_connection_is_told_when_it_changes() {
        let before = shown(HubConnection::NoCredential);
        let same = Klusterlets::plan(&seen(Some(before.clone()), HubConnection::NoCredential));
        assert!(same.is_empty(), "{same}");
        let joined = Klusterlets::plan(&seen(Some(before), HubConnection::Established));
        assert!(
            format!("{:?}", joined.stages).contains("HubConnectionFunctional"),
            "{joined}"
        );
        let denied = Klusterlets::plan(&seen(Some(shown(HubConnection::Established)), HubConnection::Refused));
        let text = format!("{:?}", denied.stages);
        assert!(
            text.contains("BootstrapSecretFunctional,HubKubeConfigUnauthorized"),
            "{text}"
        );
        assert!(text.contains("drover accept --clusters cluster1"), "{text}");
    }

    #[test]
    fn a_klusterlet_that_was_deleted_comes_again() {
        let new = Klusterlets::plan(&seen(None, HubConnection::Established));
        assert_eq!(new.len(), 1, "{new}");
        let other = Seen {
            name: "other".to_owned(),
            ..seen(None, HubConnection::Established)
        };
        assert!(Klusterlets::plan(&other).is_empty());
    }
}
