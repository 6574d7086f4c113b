//! A hub that is led and a cluster with an agent, both with the rights of their deployments and no others,
//! and both listened to.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agent::Agent;
use credential::{
    KubeconfigSource,
    csr::{self, CertificateSubject},
    enrol,
};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::ServiceAccount, rbac::v1::PolicyRule};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    client::Body,
};
use ocm_api::{cluster::ManagedCluster, condition::is_true, conditions::managed_cluster, namespaces};
use ocm_reconcile::{
    install::{DROVER, MANAGED_BY},
    lead::{Election, Work},
    rbac::Right,
};
use registration::{agent::AgentOptions, hub::HubOptions};
use serde_json::{Value, json};
use testkit::{Ask, Asked, Site, site, wait};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::{BoxError, ServiceExt};

use crate::{
    rich::{Plain, Rich},
    writers::Writers,
};

pub const JOINER: &str = "joiner";
pub const BOOTSTRAPPERS: &str = "system:bootstrappers:managedcluster";
/// Where add-ons live on a cluster.
pub const HOME: &str = "open-cluster-management-agent-addon";
/// The work whose trace somebody else is faster to make.
pub const OVERTAKEN: &str = "overtaken";

/// A table, one right each.
pub fn all(rights: &[Right]) -> Vec<Ask> {
    let words = |it: &'static str| it.split_whitespace();
    let each = |it: &Right| {
        let (group, verbs) = (it.group, it.verbs);
        words(it.resources)
            .flat_map(move |resource| words(verbs).map(move |verb| Ask::new(group, resource, verb)))
            .collect::<Vec<_>>()
    };
    rights.iter().flat_map(each).collect()
}

/// The rules of a table without one right.
pub fn without(rights: &[Right], one: Option<&Ask>) -> Vec<PolicyRule> {
    let Some(one) = one else { return site::rules(rights) };
    let all = all(rights);
    assert!(all.contains(one), "the table does not have {one}");
    let others = all.iter().filter(|it| *it != one);
    others.map(|it| rule(&it.group, &it.resource, &it.verb)).collect()
}

fn rule(group: &str, resource: &str, verb: &str) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: vec![verb.to_owned()],
        ..PolicyRule::default()
    }
}

/// Both sides.
pub struct World {
    pub hub: Site,
    pub cluster: Site,
    pub of_hub: Asked,
    pub of_agent: Asked,
    /// Whether the rules for who writes clusters hold.
    pub webhooks: Arc<AtomicBool>,
    as_hub: Client,
    as_agent: Client,
    _stopped: DropGuard,
    stop: CancellationToken,
}

impl World {
    /// Both sides, where nothing runs yet; one right is missing on the one that has it.
    pub async fn new(hub_lacks: Option<&Ask>, agent_lacks: Option<&Ask>) -> Self {
        let (of_hub, of_agent) = (Asked::default(), Asked::default());
        let webhooks = Arc::new(AtomicBool::new(true));
        let writers = Writers {
            on: webhooks.clone(),
            of_hub: of_hub.clone(),
        };
        let hub = Site::start_with(vec![Arc::new(writers)]).await.unwrap();
        let cluster = Site::start().await.unwrap();
        let account = (namespaces::HUB, hub::rbac::SERVICE_ACCOUNT);
        let rules = without(hub::rbac::RIGHTS, hub_lacks);
        let user = hub.user_with(account, hub::rbac::ROLE, &rules).await;
        let as_hub = of_hub.over(slow(Client::new(hub.server.service(user), "default")));
        let account = (namespaces::AGENT, agent::rbac::SERVICE_ACCOUNT);
        let rules = without(agent::rbac::RIGHTS, agent_lacks);
        let user = cluster.user_with(account, agent::rbac::ROLE, &rules).await;
        let as_agent = slow(Client::new(cluster.server.service(user), "default"));
        let as_agent = of_agent.over(overtaken(as_agent, cluster.client()));
        // What works may contain, which is given beside: nothing of it is what the agent needs for itself.
        let anything = |group: &str, resource: &str| rule(group, resource, "*");
        let of_works = [
            anything("", "configmaps"),
            anything("batch", "jobs"),
            anything("apps", "deployments"),
            anything("rbac.authorization.k8s.io", "roles"),
        ];
        cluster.user_with(account, "works", &of_works).await;
        let stop = CancellationToken::new();
        Self {
            hub,
            cluster,
            of_hub,
            of_agent,
            webhooks,
            as_hub,
            as_agent,
            _stopped: stop.clone().drop_guard(),
            stop,
        }
    }

    /// What an earlier version left, which both sides repair when they start.
    pub async fn age(&self) {
        for (site, crds) in [
            (&self.hub, ocm_api::crds::hub()),
            (&self.cluster, ocm_api::crds::managed_cluster()),
        ] {
            let mut crd: Value = crds.into_iter().next().unwrap();
            crd["metadata"]["labels"][MANAGED_BY] = json!(DROVER);
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = json!("An older one.");
            crd["apiVersion"] = json!("apiextensions.k8s.io/v1");
            crd["kind"] = json!("CustomResourceDefinition");
            site.apply(&crd.to_string()).await;
        }
        self.hub
            .apply("{apiVersion: v1, kind: Namespace, metadata: {name: cluster1}}")
            .await;
        let home = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {HOME}}}}}");
        self.cluster.apply(&home).await;
    }

    /// Runs the hub whenever it leads, as its deployment does.
    pub async fn lead(&self) -> Leading {
        let stop = self.stop.child_token();
        let (client, options) = (self.as_hub.clone(), options());
        let end = stop.clone();
        let finished = tokio::spawn(async move {
            if hub::prepare(&client).await.is_err() {
                return;
            }
            let election = Election {
                client: client.clone(),
                namespace: namespaces::HUB.to_owned(),
                name: "drover-hub-lock".to_owned(),
                identity: "test".to_owned(),
                lease_duration: Duration::from_secs(15),
                renew_deadline: Duration::from_secs(10),
                retry_period: Duration::from_secs(2),
            };
            let work: Work = Arc::new(move |guard, end| {
                let (client, options) = (guard.over(client.clone()), options.clone());
                Box::pin(async move {
                    if let Ok(hub) = hub::start(client, options, end).await {
                        hub.finished().await;
                    }
                })
            });
            election.run(work, |_| (), end).await;
        });
        Leading { stop, finished }
    }

    /// Starts the agent, which joins as `cluster1`.
    pub async fn join(&self) -> Joined {
        let bootstrap = self.hub.kubeconfig(JOINER, &[BOOTSTRAPPERS]).unwrap();
        let options = AgentOptions {
            cluster_name: Some("cluster1".to_owned()),
            ..AgentOptions::new(KubeconfigSource::Inline(bootstrap), self.as_agent.clone())
        };
        let stop = self.stop.child_token();
        let agent = agent::start(options, stop.clone()).await.unwrap();
        Joined { stop, agent }
    }

    /// Waits until a condition of cluster1 is true.
    pub async fn cluster_is(&self, condition: &str) {
        let clusters: Api<ManagedCluster> = Api::all(self.hub.client());
        let says = |it: Option<&ManagedCluster>| {
            let status = it.and_then(|it| it.status.as_ref());
            status.is_some_and(|it| is_true(&it.conditions, condition))
        };
        wait::until(&clusters, "cluster1", condition, says).await;
    }

    /// Asks for a certificate for the agent of cluster1, as this user.
    pub async fn request(&self, user: &str, groups: &[&str]) {
        let made = csr::new_key_and_request(&CertificateSubject::agent("cluster1", "abcde")).unwrap();
        let requests: Api<CertificateSigningRequest> = Api::all(self.hub.client_as(user, groups));
        let request = enrol::request("cluster1", &made.request_pem, None);
        requests.create(&PostParams::default(), &request).await.unwrap();
    }

    /// A merge patch of an object on the hub, as its administrator.
    pub async fn patch(&self, api_version: &str, kind: &str, namespace: &str, name: &str, patch: Value) {
        let api = self.hub.api(api_version, kind, namespace).await;
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }

    /// Lets the rules for who writes clusters hold, or not.
    pub fn set_webhooks(&self, on: bool) {
        self.webhooks.store(on, Ordering::SeqCst);
    }
}

/// Waits until this was asked for, or refused.
pub async fn heard(asked: &Asked, what: &Ask, refused: bool) {
    let mut changes = asked.changes();
    let found = changes.wait_for(|it| match refused {
        true => it.refused.contains_key(what),
        false => it.asked.contains(what),
    });
    let found = tokio::time::timeout(wait::PATIENCE, found).await.is_ok();
    let word = if refused { "refused" } else { "asked for" };
    assert!(found, "{what} was not {word}; refused: {:#?}", asked.heard().refused);
}

fn options() -> hub::Options {
    hub::Options {
        registration: HubOptions {
            auto_accept: true,
            auto_approved_csr_users: vec![JOINER.to_owned()],
            cluster_profiles: true,
            ..HubOptions::default()
        },
        addons: vec![Arc::new(Rich), Arc::new(Plain)],
        importer: Some(operator::importer::Options {
            hub_apiserver_url: Some("https://hub.example:6443".to_owned()),
            ..operator::importer::Options::compact()
        }),
        ..hub::Options::default()
    }
}

/// A client before which somebody makes the trace of one work.
fn overtaken(client: Client, admin: Client) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, admin) = (client.clone(), admin.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let again = || Request::from_parts(head.clone(), Body::from(body.clone()));
            let of_trace = head.method == Method::POST && head.uri.path().ends_with("/appliedmanifestworks");
            if of_trace && String::from_utf8_lossy(&body).contains(OVERTAKEN) {
                admin.send(again()).await?;
            }
            Ok::<_, BoxError>(client.send(again()).await?)
        }
    });
    Client::new(service.boxed_clone(), "default")
}

/// A client to an API server that takes its time to serve the first kind that was defined: the list does not show it
/// served, what comes after the list does.
fn slow(client: Client) -> Client {
    let first = Arc::new(AtomicBool::new(true));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, first) = (client.clone(), first.clone());
        async move {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            let lists = path.ends_with("/customresourcedefinitions") && !query.contains("watch=true");
            let lists = lists && request.method() == Method::GET && first.swap(false, Ordering::SeqCst);
            let response = client.send(request).await?;
            if !lists {
                return Ok::<_, BoxError>(response);
            }
            let (head, body) = response.into_parts();
            let mut list: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
            list["items"][0]["status"] = Value::Null;
            let version = list["items"][0]["metadata"]["resourceVersion"].as_str();
            let version: u64 = version.unwrap_or_default().parse()?;
            list["metadata"]["resourceVersion"] = json!((version - 1).to_string());
            Ok(Response::from_parts(head, Body::from(serde_json::to_vec(&list)?)))
        }
    });
    Client::new(service.boxed_clone(), "default")
}

/// A hub that stands for election.
pub struct Leading {
    stop: CancellationToken,
    finished: tokio::task::JoinHandle<()>,
}

impl Leading {
    /// Lets go of the Lease.
    pub async fn stop(self) {
        self.stop.cancel();
        self.finished.await.unwrap();
    }
}

/// An agent that runs.
pub struct Joined {
    stop: CancellationToken,
    agent: Agent,
}

impl Joined {
    /// Stops it.
    pub async fn stop(self) {
        self.stop.cancel();
        self.agent.finished().await;
    }
}

/// The cluster was accepted.
pub const ACCEPTED: &str = managed_cluster::HUB_ACCEPTED;
/// Its agent is there.
pub const AVAILABLE: &str = managed_cluster::AVAILABLE;

/// The ServiceAccount of an add-on's agent with a token.
pub fn service_accounts(world: &World) -> Api<ServiceAccount> {
    Api::namespaced(world.hub.client(), "cluster1")
}
