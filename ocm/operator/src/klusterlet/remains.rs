//! What is left of an agent whose Klusterlet is being deleted.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::ListParams, core::PartialObjectMeta};
use ocm_api::{operator::Klusterlet, work::AppliedManifestWork};
use ocm_reconcile::ObserveError;

use super::{
    external::Reached,
    ground::AgentOperator,
    names, removal,
    settings::{self, AgentSettings, Ground, Place},
};
use crate::objects::{self, Current, LookError};

/// A Klusterlet that is being deleted.
pub struct Leaving {
    /// The Klusterlet.
    pub klusterlet: Arc<Klusterlet>,
    /// What it asked for.
    pub settings: AgentSettings,
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

/// What is left of an agent.
///
/// # Errors
/// When it cannot be read.
pub async fn look(operator: &AgentOperator, klusterlet: Arc<Klusterlet>) -> Result<Leaving, ObserveError> {
    let options = &operator.options;
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
    let current = objects::look(&operator.apis(Place::Hosting, None), here).await?;
    let managed = managed(operator, &klusterlet, &settings).await?;
    Ok(Leaving {
        klusterlet,
        settings,
        current,
        managed,
    })
}

async fn managed(
    operator: &AgentOperator,
    klusterlet: &Klusterlet,
    settings: &AgentSettings,
) -> Result<Managed, ObserveError> {
    let reached = match settings.place {
        Place::Managed => None,
        Place::Hosting if !klusterlet.finalizers().iter().any(|it| it == names::HOSTED_FINALIZER) => {
            return Ok(Managed::Untouched);
        }
        Place::Hosting => match reach(operator, settings).await {
            Ok(reached) => Some(reached),
            Err(why) => return Ok(Managed::Unreachable(why)),
        },
    };
    match on_managed(operator, settings, reached.clone()).await {
        Ok(seen) => Ok(Managed::Seen(Box::new(seen))),
        Err(error) => match reached.and_then(|it| removal::unreachable(&error, &it.server)) {
            Some(why) => Ok(Managed::Unreachable(why)),
            None => Err(Box::new(error)),
        },
    }
}

async fn reach(operator: &AgentOperator, settings: &AgentSettings) -> Result<Reached, String> {
    let named = format!("Secret {}/{}", settings.agent_namespace, names::EXTERNAL);
    let secret = operator.external.get(&settings.agent_namespace, names::EXTERNAL);
    let secret = secret.ok_or_else(|| format!("{named} is missing"))?;
    let reached = operator.reach(&settings.name, secret).await;
    reached.map_err(|problem| format!("{named} cannot be used: {problem}"))
}

async fn on_managed(
    operator: &AgentOperator,
    settings: &AgentSettings,
    reached: Option<Reached>,
) -> Result<ManagedSeen, LookError> {
    let apis = operator.apis(settings.place, reached.as_ref());
    let client = reached.as_ref().map_or(&operator.client, |it| &it.client);
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
