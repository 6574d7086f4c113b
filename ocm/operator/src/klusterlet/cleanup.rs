//! Takes an agent away whose Klusterlet is being deleted.
//!
//! Root: Klusterlet. Reads: what was made for it, here and on another managed cluster; its AppliedManifestWorks.
//! Writes: deletes Deployments, then on the managed cluster roles, bindings and namespaces, then here Secrets, roles and
//! bindings, and at last the namespace of a hosted agent; takes finalizers from AppliedManifestWorks and from the
//! Klusterlet; the annotation that says since when a managed cluster cannot be reached.
//! Never: CRDs; what works have applied; the namespace of add-ons while another agent is there.
//! Upstream: ocm `pkg/operator/operators/klusterlet/controllers/klusterletcontroller/klusterlet_cleanup_controller.go`. We
//! differ in these: finalizers of works are taken when the agent's pods are gone, which would put them back; a managed
//! cluster whose kubeconfig is missing counts as one that cannot be reached.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::ListParams, core::PartialObjectMeta};
use ocm_api::{operator::Klusterlet, work::AppliedManifestWork};
use ocm_reconcile::{Clients, ObserveError, Plan, Reconciler, Watches, async_trait, rbac::Right};

use super::{
    external::Reached,
    ground::Operator,
    names, permissions, removal,
    settings::{self, Ground, Place, Settings},
};
use crate::objects::{self, Current, LookError};

/// The reconciler.
pub struct Cleanup {
    operator: Arc<Operator>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The Klusterlet, if it is being deleted and waits for us.
    pub leaving: Option<Leaving>,
}

/// A Klusterlet that is being deleted.
pub struct Leaving {
    /// The Klusterlet.
    pub klusterlet: Arc<Klusterlet>,
    /// What it asked for.
    pub settings: Settings,
    /// What is here of what was made for it.
    pub current: Current,
    /// What is on the managed cluster.
    pub managed: Managed,
}

/// What is on the managed cluster.
pub enum Managed {
    /// Nothing was ever made there.
    Untouched,
    /// It cannot be reached, for this reason.
    Unreachable(String),
    /// This.
    Seen(Box<ManagedSeen>),
}

/// What is on a managed cluster.
pub struct ManagedSeen {
    /// What was made for the Klusterlet.
    pub current: Current,
    /// Its agent's records of what works have applied.
    pub works: Vec<AppliedManifestWork>,
    /// The namespaces of agents, by whose they are.
    pub namespaces: Vec<(String, String)>,
    /// The way there, if it is another cluster.
    pub reached: Option<Reached>,
}

impl Cleanup {
    /// Of this operator.
    pub fn new(operator: Arc<Operator>) -> Self {
        Self { operator }
    }

    async fn look(&self, klusterlet: Arc<Klusterlet>) -> Result<Leaving, ObserveError> {
        let options = &self.operator.options;
        let ground = Ground {
            layout: options.layout,
            operator_namespace: options.namespace.clone(),
            told_replicas: options.deployment_replicas,
            control_plane_nodes: None,
            has_addon_namespace: !options.disable_default_addon_namespace,
            syncs_labels: options.enable_sync_labels,
            tls: None,
        };
        let mut settings = settings::settings(&klusterlet, &ground);
        // Whatever the mode says now: it goes from where it is.
        if let Some(place) = settings::installed_at(&klusterlet) {
            settings.place = place;
            settings.agent_namespace = match place {
                Place::Managed => settings.klusterlet_namespace.clone(),
                Place::Hosting => settings.name.clone(),
            };
        }
        let here = removal::targets_here(&settings);
        let current = objects::look(&self.operator.apis(Place::Hosting, None), here).await?;
        let managed = self.managed(&klusterlet, &settings).await?;
        Ok(Leaving {
            klusterlet,
            settings,
            current,
            managed,
        })
    }

    async fn managed(&self, klusterlet: &Klusterlet, settings: &Settings) -> Result<Managed, ObserveError> {
        let reached = match settings.place {
            Place::Managed => None,
            Place::Hosting if !klusterlet.finalizers().iter().any(|it| it == names::HOSTED_FINALIZER) => {
                return Ok(Managed::Untouched);
            }
            Place::Hosting => match self.reach(settings).await {
                Ok(reached) => Some(reached),
                Err(why) => return Ok(Managed::Unreachable(why)),
            },
        };
        match self.on_managed(settings, reached.clone()).await {
            Ok(seen) => Ok(Managed::Seen(Box::new(seen))),
            Err(error) => match reached.and_then(|it| removal::unreachable(&error, &it.server)) {
                Some(why) => Ok(Managed::Unreachable(why)),
                None => Err(Box::new(error)),
            },
        }
    }

    async fn reach(&self, settings: &Settings) -> Result<Reached, String> {
        let named = format!("Secret {}/{}", settings.agent_namespace, names::EXTERNAL);
        let secret = self.operator.external.get(&settings.agent_namespace, names::EXTERNAL);
        let secret = secret.ok_or_else(|| format!("{named} is missing"))?;
        let reached = self.operator.reach(&settings.name, secret).await;
        reached.map_err(|problem| format!("{named} cannot be used: {problem}"))
    }

    async fn on_managed(&self, settings: &Settings, reached: Option<Reached>) -> Result<ManagedSeen, LookError> {
        let apis = self.operator.apis(settings.place, reached.as_ref());
        let client = reached.as_ref().map_or(&self.operator.client, |it| &it.client);
        // First what tells soonest whether the cluster is there at all.
        let works = removal::works(client, &settings.agent_id).await?;
        let asked = ListParams::default().labels(names::NAMESPACE_LABEL);
        let namespaces = Api::<Namespace>::all(client.clone());
        let namespaces = namespaces
            .list_metadata(&asked)
            .await
            .map_err(removal::namespaces_error)?;
        let whose = |it: &PartialObjectMeta<Namespace>| it.labels().get(names::NAMESPACE_LABEL).cloned();
        let namespaces = namespaces
            .items
            .iter()
            .map(|it| (it.name_any(), whose(it).unwrap_or_default()));
        let namespaces: Vec<(String, String)> = namespaces.collect();
        let targets = removal::targets_managed(settings, &namespaces);
        Ok(ManagedSeen {
            current: objects::look(&apis, targets).await?,
            works,
            namespaces,
            reached,
        })
    }
}

#[async_trait]
impl Reconciler for Cleanup {
    const NAME: &'static str = "klusterlet-cleanup";
    const WORKERS: usize = 16;
    const AT_ONCE: usize = 8;
    const RIGHTS: &'static [Right] = permissions::CLEANUP;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.operator.klusterlets);
        self.operator.watch_secret(watches, &self.operator.external);
        self.operator.watch_deployments(watches);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let waits = |it: &Arc<Klusterlet>| {
            let ours = |it: &String| it == names::FINALIZER || it == names::HOSTED_FINALIZER;
            it.metadata.deletion_timestamp.is_some() && it.finalizers().iter().any(ours)
        };
        let leaving = match self.operator.klusterlets.named(name).filter(waits) {
            Some(klusterlet) => Some(self.look(klusterlet).await?),
            None => None,
        };
        Ok(Seen {
            now: Timestamp::now(),
            leaving,
        })
    }

    fn clients(&self, seen: &Seen) -> Option<Clients> {
        let leaving = seen.leaving.as_ref()?;
        let reached = match &leaving.managed {
            Managed::Seen(managed) => managed.reached.as_ref(),
            Managed::Untouched | Managed::Unreachable(_) => None,
        };
        Some(self.operator.apis(leaving.settings.place, reached).clients())
    }

    fn plan(seen: &Seen) -> Plan {
        match &seen.leaving {
            Some(leaving) => removal::plan(leaving, seen.now),
            None => Plan::new(),
        }
    }
}
