//! Brings the certificate that the hub has given the add-on to the agent of Argo CD, which reads it when it starts.
//!
//! Root: none; there is one agent. Reads: the add-on's Secret, the namespace of Argo CD, the ConfigMap that pauses it.
//! Writes: the agent's Secret, and two annotations on the pods of its Deployment. Never: that Deployment otherwise.
//! Upstream: argocd-pull-integration `internal/addon/addon_install.go`, `copyClientCertificate`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::{
        ByteString,
        api::{
            apps::v1::Deployment,
            core::v1::{Namespace, Secret},
        },
    },
    kube::{Client, core::ObjectMeta, runtime::watcher},
    reconcile::{
        Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, Step, Target, Watches, async_trait,
        cache::Watching, caches::put_written, rbac::Right,
    },
};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{
    ADD_ON_NAMESPACE, ArgoOperatorSettings, KEY, MANAGED_BY,
    pause::{self, PauseMarker},
};

/// The Secret of the add-on, as the registration of add-ons names it.
pub const SOURCE: &str = "argocd-agent-addon-open-cluster-management.io-argocd-agent-addon-client-cert";
/// The Secret of the agent, as its ArgoCD names it.
pub const COPY: &str = "argocd-agent-open-cluster-management.io-argocd-agent-addon-client-cert";
/// The Deployment of the agent, which the operator makes.
pub const AGENT: &str = "argocd-agent-agent";
/// Annotation on the agent's pods: with which certificate they have started.
pub const DIGEST: &str = "argocd-pull-integration/agent-cert-digest";
/// Annotation on the same: when that was said.
pub const RESTARTED_AT: &str = "argocd-pull-integration/agent-cert-restartedAt";

const PARTS: [&str; 2] = ["tls.crt", "tls.key"];

/// The reconciler.
pub struct AgentCertificate {
    pause: PauseMarker,
    namespaces: Cache<Namespace>,
    sources: Cache<Secret>,
    copies: Cache<Secret>,
    agents: Cache<Deployment>,
    namespace: String,
    interval: Duration,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// Whether nothing is to be done.
    pub is_paused: bool,
    /// The namespace of Argo CD.
    pub namespace: String,
    /// Whether it is there.
    pub has_namespace: bool,
    /// The add-on's Secret.
    pub source: Option<Arc<Secret>>,
    /// The agent's Secret.
    pub copy: Option<Arc<Secret>>,
    /// The agent.
    pub agent: Option<Arc<Deployment>>,
    /// When to look again.
    pub interval: Duration,
}

impl AgentCertificate {
    /// On the cluster of this client and these caches.
    pub fn new(client: &Client, caches: &Caches, settings: &ArgoOperatorSettings) -> Self {
        let named = |name: &str| Watching {
            selection: watcher::Config::default().fields(&format!("metadata.name={name}")),
            ..Watching::default()
        };
        let namespace = settings.namespaces.argo_cd.clone();
        Self {
            pause: PauseMarker::new(client, caches, &settings.namespaces.operator),
            namespaces: caches.watching(named(&namespace)),
            sources: caches.in_namespace(ADD_ON_NAMESPACE, named(SOURCE)),
            copies: caches.in_namespace(&namespace, named(COPY)),
            agents: caches.in_namespace(&namespace, named(AGENT)),
            namespace,
            interval: settings.sync_interval,
        }
    }
}

#[async_trait]
impl Reconciler for AgentCertificate {
    const NAME: &'static str = "argocd-agent-certificate";
    const RIGHTS: &'static [Right] = &[
        Right::new("", "configmaps", "get", "Whether it is paused."),
        Right::new("", "secrets", "create patch", "The agent's copy of the certificate."),
        Right::new("apps", "deployments", "patch", "The agent starts anew with it."),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        self.pause.wake(watches);
        watches
            .wakes(&self.namespaces, |old, new| old.xor(new).map(|_| KEY.to_owned()))
            .wakes(&self.sources, |_, _| [KEY.to_owned()])
            .wakes(&self.copies, |_, _| [KEY.to_owned()])
            .wakes(&self.agents, |_, _| [KEY.to_owned()]);
    }

    async fn observe(&self, _: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            now: Timestamp::now(),
            has_namespace: self.namespaces.named(&self.namespace).is_some(),
            source: self.sources.get(ADD_ON_NAMESPACE, SOURCE),
            copy: self.copies.get(&self.namespace, COPY),
            agent: self.agents.get(&self.namespace, AGENT),
            namespace: self.namespace.clone(),
            interval: self.interval,
            is_paused: self.pause.is_on().await?,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        plan.look_again(seen.interval);
        if seen.is_paused {
            pause::remark(&mut plan);
            return plan;
        }
        let Some(source) = seen.source.as_deref() else {
            plan.wait(format!(
                "there is no Secret {ADD_ON_NAMESPACE}/{SOURCE} yet: the hub has to sign it"
            ));
            return plan;
        };
        let Some(pair) = pair(source) else {
            plan.refuse(format!(
                "Secret {ADD_ON_NAMESPACE}/{SOURCE} has no tls.crt or no tls.key"
            ));
            return plan;
        };
        if !seen.has_namespace {
            plan.wait(format!("there is no namespace {} yet", seen.namespace));
            return plan;
        }
        match seen.copy.as_deref() {
            None => drop(plan.create(Site::Cluster, &created(&seen.namespace, &pair))),
            Some(present) => drop(plan.change(Site::Cluster, present, &changed(present, &pair))),
        }
        // What starts before the certificate is there would start with the old one.
        plan.stage();
        if let Some(agent) = seen.agent.as_deref() {
            let digest = digest(&pair);
            if annotation(agent) != Some(&digest) {
                plan.push(restart(agent, &digest, seen.now));
            }
        }
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        put_written(&self.copies, outcome);
        put_written(&self.agents, outcome);
    }
}

/// Certificate and key; `None` unless both are there.
fn pair(secret: &Secret) -> Option<[&[u8]; 2]> {
    let data = secret.data.as_ref()?;
    let [certificate, key] = PARTS.map(|part| data.get(part).map(|it| it.0.as_slice()));
    Some([certificate?, key?])
}

fn data(pair: &[&[u8]; 2]) -> BTreeMap<String, ByteString> {
    let parts = PARTS.iter().zip(pair);
    parts
        .map(|(part, it)| ((*part).to_owned(), ByteString(it.to_vec())))
        .collect()
}

fn created(namespace: &str, pair: &[&[u8]; 2]) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(COPY.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())])),
            ..ObjectMeta::default()
        },
        data: Some(data(pair)),
        type_: Some("kubernetes.io/tls".to_owned()),
        ..Secret::default()
    }
}

/// The type of a Secret never changes; the agent reads one of any type.
fn changed(present: &Secret, pair: &[&[u8]; 2]) -> Secret {
    let mut new = present.clone();
    new.data = Some(data(pair));
    let labels = new.metadata.labels.get_or_insert_default();
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    new
}

/// Upstream's digest, so that an agent that upstream's add-on has started need not start anew. The lengths are in it
/// because otherwise the same bytes, divided elsewhere, would have the same one.
fn digest(pair: &[&[u8]; 2]) -> String {
    let mut hash = Sha256::new();
    for part in pair {
        hash.update(format!("{}:", part.len()));
        hash.update(part);
    }
    hash.finalize().iter().map(|it| format!("{it:02x}")).collect()
}

fn annotation(agent: &Deployment) -> Option<&String> {
    let metadata = agent.spec.template.metadata.as_ref()?;
    metadata.annotations.as_ref()?.get(DIGEST)
}

fn restart(agent: &Deployment, digest: &str, now: Timestamp) -> Step {
    let annotations = json!({DIGEST: digest, RESTARTED_AT: format!("{now:.0}")});
    Step::MergePatch {
        target: Target::of(Site::Cluster, agent),
        subresource: None,
        patch: json!({"spec": {"template": {"metadata": {"annotations": annotations}}}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_has_upstreams_digest() {
        // printf '1:a2:bc' | sha256sum
        let expected = "5310a58788781ab25d5ad7c3f85035824b4eb7bdfa394e0ac2186271472b5492";
        assert_eq!(digest(&[b"a", b"bc"]), expected);
        assert_ne!(digest(&[b"ab", b"c"]), expected);
    }
}
