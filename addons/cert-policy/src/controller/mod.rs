//! The controller of a cluster: looks at certificates whenever a policy, a Secret or a namespace changes and when a
//! certificate is about to expire, and tells the Policies that own its policies.
//!
//! Upstream lists all Secrets of the selected namespaces every ten seconds. Ours watches them, keeps the facts of
//! certificates alone, and looks after `--update-frequency` at the latest.

pub mod counters;
mod following;
mod program;
mod reconciler;
mod telling;

use std::{sync::Arc, time::Duration};

use jiff::SignedDuration;
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::Namespace,
    kube::{Api, Client, runtime::watcher},
    ocm_api::policy::certificate_policy::CertificatePolicy,
    reconcile::{Cache, Caches, Clients, Controller, cache::Watching, cache::key_of, metrics::also},
};
use tokio_util::sync::CancellationToken;

pub use program::{PROGRAMS, run};
pub use reconciler::CertificatePolicies;

use crate::{certificate::CertificateSecret, namespaces::NamespaceSelection};

/// So many Secrets are read at a time: a Secret may have a megabyte, and most of it is dropped at once.
const PAGE: u32 = 50;

/// Where a controller works, and how.
#[derive(Clone, Debug)]
pub struct CertificateSite {
    /// The namespaces of policies; empty for all.
    pub namespaces: Vec<String>,
    /// The host that events are said to come from.
    pub instance: String,
    /// How long a certificate must be valid still, if its policy does not say it.
    pub default_minimum: SignedDuration,
    /// A policy is looked at again after this time at the latest.
    pub frequency: Duration,
}

/// The API servers; one cluster, but in Hosted mode.
#[derive(Clone)]
pub struct CertificateClients {
    /// Where policies live.
    pub home: Client,
    /// Where the certificates are.
    pub target: Client,
}

/// What the controller has seen. Cloning shares it.
#[derive(Clone)]
pub struct Certificates {
    /// The policies, by namespace; all under one where all are watched.
    pub policies: Arc<Vec<Cache<CertificatePolicy>>>,
    /// The Secrets of the target.
    pub secrets: Cache<CertificateSecret>,
    /// The namespaces of the target.
    pub namespaces: Cache<Namespace>,
    /// Where it is.
    pub site: Arc<CertificateSite>,
}

impl Certificates {
    /// Watches the API servers until `stop`.
    pub fn new(clients: &CertificateClients, site: CertificateSite, stop: &CancellationToken) -> Self {
        let home = Caches::new(clients.home.clone(), stop.clone());
        let policies = match site.namespaces.as_slice() {
            [] => vec![home.watching(rights_may_come_later())],
            named => named
                .iter()
                .map(|it| home.in_namespace(it, rights_may_come_later()))
                .collect(),
        };
        let (secrets, namespaces) = (Cache::empty(), Cache::empty());
        let in_pages = Watching {
            selection: watcher::Config::default().page_size(PAGE),
            ..rights_may_come_later()
        };
        let (target, every) = (&clients.target, site.frequency);
        following::follow(&secrets, Api::all(target.clone()), in_pages, every, stop);
        following::follow(
            &namespaces,
            Api::all(target.clone()),
            rights_may_come_later(),
            every,
            stop,
        );
        Self {
            policies: Arc::new(policies),
            secrets,
            namespaces,
            site: Arc::new(site),
        }
    }

    /// The policy of this name.
    pub fn policy(&self, namespace: &str, name: &str) -> Option<Arc<CertificatePolicy>> {
        self.policies.iter().find_map(|it| it.get(namespace, name))
    }

    /// The keys of the policies that select this namespace.
    fn selecting(&self, namespace: &Namespace) -> Vec<String> {
        let all = self.policies.iter().flat_map(Cache::list);
        let selecting = all.filter(|it| {
            NamespaceSelection::of(&it.spec.namespace_selector).is_ok_and(|selection| selection.has(namespace))
        });
        selecting.map(|it| key_of(&*it)).collect()
    }
}

/// The rights of a controller may come after it, and so may the definition of its kind.
fn rights_may_come_later() -> Watching {
    Watching {
        forbidden_at_first: true,
        ..Watching::default()
    }
}

/// The reconcilers of a controller, with the clients that they write with.
pub fn controllers(on: &Certificates, home: &Client) -> Vec<(Controller, Clients)> {
    vec![(
        Controller::new(CertificatePolicies::new(on)),
        Clients::cluster(home.clone()),
    )]
}

/// Looks after the policies of a cluster; ends with `stop`.
pub async fn control(clients: &CertificateClients, site: CertificateSite, stop: &CancellationToken) {
    let on = Certificates::new(clients, site, stop);
    also("certificate-policy-controller", counters::text);
    let running: Vec<_> = controllers(&on, &clients.home)
        .into_iter()
        .map(|(it, clients)| it.start(clients, stop.clone()))
        .collect();
    for one in running {
        let _ = one.finished.await;
    }
}
