//! An embedded API on which an operator runs as the ServiceAccount of its chart, with the given rights alone. Its
//! Deployments run as soon as they are written.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, future::join_all};
use k8s_openapi::api::{apps::v1::Deployment, rbac::v1::PolicyRule};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PropagationPolicy},
    runtime::watcher,
};
use ocm_reconcile::{
    Running, access, install,
    lead::{Election, Work},
    rbac::Right,
};
use operator::NAMESPACE;
use serde_json::{Value, json};
use testkit::{Ask, Asked, Site, site, wait};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The API, and what the operator asks it for.
pub struct Ground {
    pub site: Site,
    /// Another cluster, on which everything is allowed.
    pub other: Site,
    pub asked: Asked,
    client: Client,
    _stopped: DropGuard,
    stop: CancellationToken,
}

impl Ground {
    /// With these rights, for the ServiceAccount of this name.
    pub async fn start(account: &str, rights: &[Right]) -> Self {
        Self::start_without(account, rights, None).await
    }

    /// The same without one of them.
    pub async fn start_without(account: &str, rights: &[Right], lacks: Option<&Ask>) -> Self {
        let (site, other) = (Site::start().await.unwrap(), Site::start().await.unwrap());
        install::install_crds(&site.client(), ocm_api::crds::operator())
            .await
            .unwrap();
        site.apply(&format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {NAMESPACE}}}}}"
        ))
        .await;
        let user = site
            .user_with((NAMESPACE, account), account, &rules(rights, lacks))
            .await;
        let (asked, stop) = (Asked::default(), CancellationToken::new());
        let ground = Self {
            client: asked.over(Client::new(site.server.service(user), "default")),
            site,
            other,
            asked,
            _stopped: stop.clone().drop_guard(),
            stop,
        };
        for site in [&ground.site, &ground.other] {
            tokio::spawn(run_pods(site.client(), ground.stop.clone()));
        }
        ground
    }

    /// Runs what is started whenever it leads, and answers who asks for metrics.
    pub async fn lead<F>(
        &self,
        start: impl Fn(Client, CancellationToken) -> F + Clone + Send + Sync + 'static,
    ) -> Leading
    where
        F: Future<Output = Vec<Running>> + Send + 'static,
    {
        let client = self.client.clone();
        let election = Election {
            client: client.clone(),
            namespace: NAMESPACE.to_owned(),
            name: "operator-lock".to_owned(),
            identity: "test".to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_millis(200),
        };
        if let Ok(Some(who)) = access::who(&client, "nobody's").await {
            panic!("{who:?} is known");
        }
        let anybody = access::UserInfo::default();
        let _ = access::may_visit(&client, &anybody, "get", "/metrics").await;
        let work: Work = Arc::new(move |guard, end| {
            let (client, start) = (guard.over(client.clone()), start.clone());
            Box::pin(async move {
                let running = start(client, end).await;
                join_all(running.into_iter().map(|it| it.finished)).await;
            })
        });
        let stop = self.stop.child_token();
        let end = stop.clone();
        let finished = tokio::spawn(async move { election.run(work, |_| (), end).await });
        Leading {
            stop,
            finished: tokio::spawn(async move { drop(finished.await) }),
        }
    }

    /// Applies an object, as the administrator.
    pub async fn apply(&self, object: Value) {
        self.site.apply(&object.to_string()).await;
    }

    /// A merge patch, as the administrator.
    pub async fn patch(&self, api_version: &str, kind: &str, namespace: &str, name: &str, patch: Value) {
        let api = self.site.api(api_version, kind, namespace).await;
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }

    /// Deletes an object, as the administrator.
    pub async fn delete(&self, api_version: &str, kind: &str, namespace: &str, name: &str) {
        let api = self.site.api(api_version, kind, namespace).await;
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        api.delete(name, &params)
            .await
            .unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }

    /// Waits until something holds of an object.
    pub async fn until(
        &self,
        (api_version, kind, namespace, name): (&str, &str, &str, &str),
        what: &str,
        holds: impl Fn(Option<&DynamicObject>) -> bool,
    ) {
        let api = self.site.api(api_version, kind, namespace).await;
        wait::until_with(&api, name, what, holds).await;
    }

    /// Waits until this was asked for.
    pub async fn hears(&self, ask: &Ask) {
        let mut changes = self.asked.changes();
        let found = changes.wait_for(|it| it.asked.contains(ask));
        let found = tokio::time::timeout(wait::PATIENCE, found).await.is_ok();
        assert!(found, "{ask} was not asked for: {:#?}", self.asked.heard().refused);
    }

    /// Waits until this was refused.
    pub async fn hears_refusal(&self, ask: &Ask) {
        let mut changes = self.asked.changes();
        let found = changes.wait_for(|it| it.refused.contains_key(ask));
        let found = tokio::time::timeout(wait::PATIENCE, found).await.is_ok();
        assert!(found, "{ask} was not refused: {:#?}", self.asked.heard().refused);
    }
}

/// An operator that stands for election.
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

/// The status of a condition of the present generation.
pub fn says(object: Option<&DynamicObject>, condition: &str, status: &str) -> bool {
    let Some(object) = object else { return false };
    let data = &object.data["status"];
    let conditions = data["conditions"].as_array().into_iter().flatten();
    let found = conditions
        .filter(|it| it["type"] == condition)
        .any(|it| it["status"] == status);
    found && data["observedGeneration"].as_i64() == object.metadata.generation
}

fn rules(rights: &[Right], lacks: Option<&Ask>) -> Vec<PolicyRule> {
    let Some(lacks) = lacks else {
        return site::rules(rights);
    };
    let list = |it: &[String], word: &str| it.iter().any(|it| it == word);
    let mut rules = Vec::new();
    for rule in site::rules(rights) {
        let (groups, resources) = (
            rule.api_groups.clone().unwrap_or_default(),
            rule.resources.clone().unwrap_or_default(),
        );
        if !(list(&groups, &lacks.group) && list(&resources, &lacks.resource) && list(&rule.verbs, &lacks.verb)) {
            rules.push(rule);
            continue;
        }
        // The other resources keep the verb, and this one keeps the others.
        let others: Vec<String> = resources.into_iter().filter(|it| *it != lacks.resource).collect();
        let verbs: Vec<String> = rule.verbs.iter().filter(|it| **it != lacks.verb).cloned().collect();
        if !others.is_empty() {
            rules.push(PolicyRule {
                resources: Some(others),
                ..rule.clone()
            });
        }
        if !verbs.is_empty() {
            rules.push(PolicyRule {
                resources: Some(vec![lacks.resource.clone()]),
                verbs,
                ..rule
            });
        }
    }
    rules
}

async fn run_pods(client: Client, stop: CancellationToken) {
    let all: Api<Deployment> = Api::all(client.clone());
    let mut events = std::pin::pin!(watcher::watcher(all, watcher::Config::default()));
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return,
            event = events.next() => event,
        };
        if let Some(Ok(watcher::Event::InitApply(it) | watcher::Event::Apply(it))) = event {
            run(&client, &it).await;
        }
    }
}

async fn run(client: &Client, deployment: &Deployment) {
    let replicas = deployment.spec.replicas.unwrap_or(1);
    let status = json!({
        "observedGeneration": deployment.metadata.generation, "replicas": replicas, "readyReplicas": replicas,
        "availableReplicas": replicas, "updatedReplicas": replicas,
    });
    let now = json!(deployment.status);
    if status
        .as_object()
        .unwrap()
        .iter()
        .all(|(key, value)| now[key] == *value)
    {
        return;
    }
    let api: Api<Deployment> = Api::namespaced(client.clone(), &deployment.namespace().unwrap_or_default());
    // One that is gone meanwhile needs no pods.
    let patch = Patch::Merge(json!({ "status": status }));
    let _ = api
        .patch_status(&deployment.name_any(), &PatchParams::default(), &patch)
        .await;
}
