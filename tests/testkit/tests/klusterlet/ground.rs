//! An operator on an embedded API, and a hub.

use std::{
    fmt::Debug,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{Method, Request, Response};
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Secret},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
    client::Body,
};
use ocm_api::operator::Klusterlet;
use ocm_reconcile::install;
use operator::{Layout, klusterlet};
use serde_json::{Value, json};
use testkit::{Ask, Asked, Site, site, wait};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};

/// The namespace of agents.
pub const AGENT: &str = "open-cluster-management-agent";

/// A cluster with an operator, and a hub.
pub struct Ground {
    /// The cluster.
    pub site: Site,
    /// The hub.
    pub hub: Site,
    layout: Layout,
    asked: Asked,
    left: Arc<watch::Sender<isize>>,
    stop: CancellationToken,
}

impl Ground {
    /// An operator that may write as much as it likes.
    pub async fn start(layout: Layout) -> Self {
        Self::start_with(layout, None).await
    }

    /// An operator that is stopped after so many writes.
    pub async fn start_with(layout: Layout, writes: Option<isize>) -> Self {
        let (site, hub) = (Site::start().await.unwrap(), Site::start().await.unwrap());
        install::install_crds(&site.client(), ocm_api::crds::operator())
            .await
            .unwrap();
        install::install_crds(&hub.client(), ocm_api::crds::hub())
            .await
            .unwrap();
        for namespace in ["open-cluster-management", AGENT] {
            let namespace = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}");
            site.apply(&namespace).await;
        }
        let ground = Self {
            site,
            hub,
            layout,
            asked: Asked::default(),
            left: Arc::new(watch::Sender::new(0)),
            stop: CancellationToken::new(),
        };
        ground.restart(writes).await
    }

    /// Another operator in its place.
    pub async fn restart(mut self, writes: Option<isize>) -> Self {
        self.stop.cancel();
        self.stop = CancellationToken::new();
        self.left = Arc::new(watch::Sender::new(writes.unwrap_or(isize::MAX)));
        let account = ("open-cluster-management", "klusterlet");
        let rules = site::rules(klusterlet::RIGHTS);
        let user = self.site.user_with(account, "klusterlet", &rules).await;
        let client = Client::new(self.site.server.service(user), "default");
        let limited = Limited {
            left: self.left.clone(),
            client: self.asked.over(client),
        };
        let options = klusterlet::Options {
            layout: self.layout,
            namespace: "open-cluster-management".to_owned(),
            control_plane_node_label_selector: "node-role.kubernetes.io/master=".to_owned(),
            deployment_replicas: 0,
            disable_default_addon_namespace: false,
            enable_sync_labels: false,
            hub_access_check_interval: Duration::from_millis(200),
        };
        klusterlet::start(Client::new(limited, "default"), options, self.stop.clone()).await;
        self
    }

    /// Says what the Klusterlet `k` is to be.
    pub async fn klusterlet(&self, mut spec: Value) {
        spec["registrationImagePullSpec"] = "registration:1".into();
        spec["workImagePullSpec"] = "work:1".into();
        spec["imagePullSpec"] = "operator:1".into();
        let object = json!({
            "apiVersion": "operator.open-cluster-management.io/v1", "kind": "Klusterlet", "metadata": {"name": "k"}, "spec": spec,
        });
        self.site.apply(&object.to_string()).await;
    }

    /// The Klusterlet as it is.
    pub async fn now(&self) -> Klusterlet {
        Api::all(self.site.client()).get("k").await.unwrap()
    }

    /// Waits until it says so.
    pub async fn says(&self, condition_type: &str, status: &str, reason: &str) {
        let api: Api<Klusterlet> = Api::all(self.site.client());
        let what = format!("{condition_type}={status}({reason})");
        wait::until(&api, "k", &what, |it| {
            let found = it.and_then(|it| condition(it, condition_type));
            found.is_some_and(|it| it.status == status && it.reason == reason)
        })
        .await;
    }

    /// Deletes it, and waits until it is gone.
    pub async fn delete(&self) {
        let api: Api<Klusterlet> = Api::all(self.site.client());
        api.delete("k", &DeleteParams::default()).await.unwrap();
        wait::gone(&api, "k").await;
    }

    /// A kubeconfig of the hub.
    pub fn hub_kubeconfig(&self, user: &str, may_everything: bool) -> String {
        let groups: &[&str] = if may_everything { &["system:masters"] } else { &[] };
        self.hub.kubeconfig(user, groups).unwrap()
    }

    async fn secret(&self, namespace: &str, name: &str, data: Value) {
        let metadata = json!({"name": name, "namespace": namespace});
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data});
        let api: Api<Secret> = Api::namespaced(self.site.client(), namespace);
        let params = PatchParams::apply("test").force();
        api.patch(name, &params, &Patch::Apply(object)).await.unwrap();
    }

    /// Puts the Secret to join with there.
    pub async fn bootstrap(&self, kubeconfig: &str) {
        self.secret(AGENT, "bootstrap-hub-kubeconfig", json!({"kubeconfig": kubeconfig}))
            .await;
    }

    /// Puts the agent's credential there.
    pub async fn credential(&self, kubeconfig: &str) {
        let data = json!({"kubeconfig": kubeconfig, "cluster-name": "cluster1", "agent-name": "a"});
        self.secret(AGENT, "hub-kubeconfig-secret", data).await;
    }

    /// Puts the kubeconfig of another managed cluster there.
    pub async fn external(&self, kubeconfig: &str) {
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.site.client());
        wait::until(&namespaces, "k", "is made", |it| it.is_some()).await;
        self.secret("k", "external-managed-kubeconfig", json!({"kubeconfig": kubeconfig}))
            .await;
    }

    /// A record of what an agent has applied.
    pub async fn work(&self, agent: &str) {
        let object = json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork",
            "metadata": {"name": "w", "finalizers": ["cluster.open-cluster-management.io/applied-manifest-work-cleanup"]},
            "spec": {"hubHash": "h", "agentID": agent, "manifestWorkName": "w"},
        });
        self.site.apply(&object.to_string()).await;
    }

    /// All pods of the namespace run.
    pub async fn make_ready(&self, namespace: &str) {
        let api: Api<Deployment> = Api::namespaced(self.site.client(), namespace);
        for it in api.list(&Default::default()).await.unwrap() {
            let replicas = it.spec.replicas.unwrap();
            let status = json!({"status": {
                "observedGeneration": it.metadata.generation, "replicas": replicas, "updatedReplicas": replicas,
                "readyReplicas": replicas, "availableReplicas": replicas,
            }});
            let params = PatchParams::default();
            api.patch_status(&it.name_any(), &params, &Patch::Merge(status))
                .await
                .unwrap();
        }
    }

    /// Waits until the operator may write no more, or the Klusterlet is as it should be in the end.
    pub async fn stopped(&self, in_the_end: impl Fn(Option<&Klusterlet>) -> bool) {
        let api: Api<Klusterlet> = Api::all(self.site.client());
        let mut left = self.left.subscribe();
        tokio::select! {
            stopped = left.wait_for(|it| *it <= 0) => drop(stopped.unwrap()),
            _ = wait::until(&api, "k", "the end", in_the_end) => {}
        }
    }

    /// The rights that it made no use of, but for these verbs and for leader election, which the program does.
    pub fn unused(&self, silent: &[&str]) -> Vec<String> {
        let asked = self.asked.heard().asked;
        let words = |it: &'static str| it.split_whitespace();
        let rights = klusterlet::RIGHTS.iter().filter(|it| it.resources != "leases");
        let all = rights.flat_map(|it| {
            let pairs = words(it.resources).flat_map(|resource| words(it.verbs).map(move |verb| (resource, verb)));
            pairs.map(|(resource, verb)| Ask::new(it.group, resource, verb))
        });
        all.filter(|it| !silent.contains(&it.verb.as_str()) && !asked.contains(it))
            .map(|it| it.to_string())
            .collect()
    }

    /// It had all rights that it asked for.
    pub fn refused_nothing(&self) {
        let refused = self.asked.heard().refused;
        let refused: Vec<String> = refused.keys().map(ToString::to_string).collect();
        assert!(refused.is_empty(), "the operator lacks the rights: {refused:?}");
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Another managed cluster.
pub async fn managed() -> Site {
    Site::start().await.unwrap()
}

/// A condition of a Klusterlet.
pub fn condition(klusterlet: &Klusterlet, name: &str) -> Option<Condition> {
    let status = klusterlet.status.as_ref()?;
    status.conditions.iter().find(|it| it.type_ == name).cloned()
}

/// A merge patch.
pub async fn patch<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

/// A client whose writes fail when it has written enough.
#[derive(Clone)]
struct Limited {
    left: Arc<watch::Sender<isize>>,
    client: Client,
}

impl Service<Request<Body>> for Limited {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let writes = ![Method::GET, Method::HEAD].contains(request.method());
        let mut left = isize::MAX;
        if writes {
            self.left.send_modify(|it| {
                left = *it;
                *it -= 1;
            });
        }
        if left <= 0 {
            return Box::pin(async { Err("the operator was stopped".into()) });
        }
        let client = self.client.clone();
        Box::pin(async move { Ok(client.send(request).await?) })
    }
}
