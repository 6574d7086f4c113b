//! What all controllers of Klusterlets share: the operator's own API, what is watched there, and the ways to other
//! managed clusters.

use std::{collections::HashMap, fmt::Debug, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Secret, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Client, Resource, ResourceExt, core::PartialObjectMeta, runtime::watcher};
use ocm_api::{
    namespaces::{BOOTSTRAP_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET, PULL_SECRET},
    operator::Klusterlet,
};
use ocm_reconcile::{Cache, Caches, Watches, cache::Watching};
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use super::{
    Options,
    external::{self, Reached, SecretProblem},
    names,
    settings::{self, Place},
};
use crate::objects::Apis;

/// What all controllers share.
pub struct AgentOperator {
    /// The API of the cluster that the operator runs on.
    pub client: Client,
    /// What the operator was told.
    pub options: Options,
    /// All Klusterlets.
    pub klusterlets: Cache<Klusterlet>,
    /// The Deployments that were made for them.
    pub deployments: Cache<Deployment>,
    /// The Secrets to join with.
    pub bootstrap: Cache<Secret>,
    /// The credentials of agents.
    pub credentials: Cache<Secret>,
    /// The kubeconfigs of other managed clusters.
    pub external: Cache<Secret>,
    /// The Secret that images are pulled with, in the operator's namespace.
    pub pull_secret: Cache<Secret>,
    /// What TLS is spoken with, in the same namespace.
    pub tls_profile: Cache<ConfigMap>,
    /// The namespaces of agents.
    pub namespaces: Cache<PartialObjectMeta<Namespace>>,
    marks: Marks,
    /// The ways to other managed clusters, with the Secrets that they are of.
    reached: Mutex<HashMap<String, (Arc<Secret>, Reached)>>,
}

/// What was made for Klusterlets, as far as its names and labels: who changes or deletes it wakes its Klusterlet.
struct Marks {
    accounts: Cache<PartialObjectMeta<ServiceAccount>>,
    cluster_roles: Cache<PartialObjectMeta<ClusterRole>>,
    cluster_bindings: Cache<PartialObjectMeta<ClusterRoleBinding>>,
    roles: Cache<PartialObjectMeta<Role>>,
    bindings: Cache<PartialObjectMeta<RoleBinding>>,
}

/// Watches objects of one name, in all namespaces: the operator's role names them.
fn named(name: &str) -> Watching {
    Watching {
        selection: watcher::Config::default().fields(&format!("metadata.name={name}")),
        ..Watching::default()
    }
}

impl AgentOperator {
    /// Over these caches.
    pub fn new(client: Client, caches: &Caches, options: Options) -> Self {
        let namespace = options.namespace.clone();
        let made = names::CREATED_BY;
        Self {
            klusterlets: caches.of(),
            deployments: caches.labelled(made),
            bootstrap: caches.watching(named(BOOTSTRAP_KUBECONFIG_SECRET)),
            credentials: caches.watching(named(HUB_KUBECONFIG_SECRET)),
            external: caches.watching(named(names::EXTERNAL)),
            pull_secret: caches.in_namespace(&namespace, named(PULL_SECRET)),
            tls_profile: caches.in_namespace(&namespace, named(names::TLS_PROFILE)),
            namespaces: caches.labelled(made),
            marks: Marks {
                accounts: caches.labelled(made),
                cluster_roles: caches.labelled(made),
                cluster_bindings: caches.labelled(made),
                roles: caches.labelled(made),
                bindings: caches.labelled(made),
            },
            reached: Mutex::default(),
            client,
            options,
        }
    }

    /// The Secrets of an agent wake its Klusterlet.
    pub fn watch_secret(&self, watches: &mut Watches, cache: &Cache<Secret>) {
        let klusterlets = self.klusterlets.clone();
        watches.wakes(cache, move |old, new| {
            let namespace = new.or(old).and_then(ResourceExt::namespace);
            let all = klusterlets.list().into_iter();
            all.filter(move |it| Some(settings::agent_namespace(it)) == namespace)
                .map(|it| it.name_any())
        });
    }

    /// The Deployments of an agent wake its Klusterlet.
    pub fn watch_deployments(&self, watches: &mut Watches) {
        watches.wakes(&self.deployments, made_for);
    }

    /// What was made for a Klusterlet wakes it.
    pub fn watch_made(&self, watches: &mut Watches) {
        self.watch_deployments(watches);
        watches.wakes(&self.namespaces, made_for);
        watches
            .wakes(&self.marks.accounts, made_for)
            .if_allowed(&self.marks.accounts);
        watches
            .wakes(&self.marks.cluster_roles, made_for)
            .if_allowed(&self.marks.cluster_roles);
        watches
            .wakes(&self.marks.cluster_bindings, made_for)
            .if_allowed(&self.marks.cluster_bindings);
        watches.wakes(&self.marks.roles, made_for).if_allowed(&self.marks.roles);
        watches
            .wakes(&self.marks.bindings, made_for)
            .if_allowed(&self.marks.bindings);
    }

    /// What is the same for all Klusterlets wakes them all.
    pub fn watch_shared(&self, watches: &mut Watches) {
        let (pull, tls) = (self.klusterlets.clone(), self.klusterlets.clone());
        watches
            .wakes(&self.pull_secret, move |_, _| all(&pull))
            .wakes(&self.tls_profile, move |_, _| all(&tls));
    }

    /// The managed cluster of a Klusterlet whose pods run here for another.
    ///
    /// # Errors
    /// When the Secret that leads there cannot be used.
    pub async fn reach(&self, klusterlet: &str, secret: Arc<Secret>) -> Result<Reached, SecretProblem> {
        let mut reached = self.reached.lock().await;
        if let Some((of, reached)) = reached.get(klusterlet)
            && of.data == secret.data
        {
            return Ok(reached.clone());
        }
        let new = external::reach(&secret).await?;
        reached.insert(klusterlet.to_owned(), (secret, new.clone()));
        Ok(new)
    }

    /// Forgets the way to the managed cluster of a Klusterlet that is gone.
    pub async fn forget(&self, klusterlet: &str) {
        self.reached.lock().await.remove(klusterlet);
    }

    /// The APIs of an agent: this one, and the managed cluster's, as far as that is reached.
    pub fn apis(&self, place: Place, reached: Option<&Reached>) -> Apis {
        Apis {
            hub: None,
            cluster: match place {
                Place::Managed => Some(self.client.clone()),
                Place::Hosting => reached.map(|it| it.client.clone()),
            },
            management: Some(self.client.clone()),
        }
    }
}

/// The Klusterlet that an object was made for.
fn made_for<K>(old: Option<&K>, new: Option<&K>) -> Option<String>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let label = |it: &K| -> Option<String> {
        let ObjectMeta { labels, .. } = it.meta();
        labels.as_ref()?.get(names::CREATED_BY).cloned()
    };
    new.or(old).and_then(label)
}

fn all(klusterlets: &Cache<Klusterlet>) -> Vec<String> {
    klusterlets.list().into_iter().map(|it| it.name_any()).collect()
}
