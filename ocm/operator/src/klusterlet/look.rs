//! Looks at everything that decides what is written for a Klusterlet.

use std::sync::Arc;

use credential::kubeconfig::{self, explain};
use http::Uri;
use jiff::Timestamp;
use k8s_openapi::api::{core::v1::Secret, rbac::v1::ClusterRoleBinding};
use kube::{Api, ResourceExt, api::ListParams, core::ApiResource};
use ocm_api::{
    namespaces::{self, BOOTSTRAP_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET},
    operator::Klusterlet,
};
use ocm_reconcile::{Site, Target, plan::typed};

use super::{
    external::{self, Reached},
    former,
    ground::AgentOperator,
    klusterlets::Seen,
    names,
    scene::{ExternalCluster, Finding, Scene},
    settings::{self, AgentSettings, Ground, NetworkPolicies, Place, TlsProfile},
    tokens::Issued,
    wanted::{self, HubCredential},
};
use crate::{
    objects::{self, Current, LookError},
    replicas,
};

/// What is there, with the tokens that were given in this run.
pub async fn observe(operator: &AgentOperator, name: &str, issued: Vec<Issued>) -> Seen {
    let klusterlet = operator.klusterlets.named(name);
    if klusterlet.is_none() {
        operator.forget(name).await;
    }
    let klusterlet = klusterlet.filter(|it| it.metadata.deletion_timestamp.is_none());
    let (found, reached) = match &klusterlet {
        None => (Finding::Nothing, None),
        Some(klusterlet) => find(operator, klusterlet, issued).await,
    };
    Seen {
        now: Timestamp::now(),
        layout: operator.options.layout,
        klusterlet,
        found,
        reached,
    }
}

async fn find(operator: &AgentOperator, klusterlet: &Klusterlet, issued: Vec<Issued>) -> (Finding, Option<Reached>) {
    let refusals = settings::refusals(klusterlet);
    if !refusals.is_empty() {
        return (Finding::Refused(refusals), None);
    }
    let mut settings = settings::settings(klusterlet, &ground(operator, klusterlet).await);
    let missing = settings.missing_images();
    if !missing.is_empty() {
        return (Finding::Refused(missing), None);
    }
    let managed = match settings.place {
        Place::Managed => None,
        Place::Hosting => match managed(operator, &settings).await {
            Ok(managed) => Some(managed),
            Err(why) => return (not_ready(operator, settings, why, true).await, None),
        },
    };
    let (external, reached) = managed.unzip();
    let credential = operator
        .credentials
        .get(&settings.agent_namespace, HUB_KUBECONFIG_SECRET);
    if settings.network_policies == NetworkPolicies::Kept {
        let bootstrap = operator
            .bootstrap
            .get(&settings.agent_namespace, BOOTSTRAP_KUBECONFIG_SECRET);
        settings.api_ports = [&credential, &bootstrap]
            .into_iter()
            .flatten()
            .filter_map(port)
            .collect();
    }
    let former_namespaces = former_namespaces(operator, &settings);
    let found = match current(operator, &settings, &former_namespaces, reached.as_ref()).await {
        Ok((current, has_other_former_agents)) => Finding::Scene(Box::new(Scene {
            current,
            pull_secret: pull_secret(operator),
            hub: HubCredential::of(credential.as_deref()),
            former_namespaces,
            has_other_former_agents,
            external,
            issued,
            settings,
        })),
        Err(error) => match unreachable(&error, reached.as_ref()) {
            Some(why) => not_ready(operator, settings, why, false).await,
            None => Finding::Unreadable(told(&error)),
        },
    };
    (found, reached)
}

/// What is the same for all Klusterlets.
async fn ground(operator: &AgentOperator, klusterlet: &Klusterlet) -> Ground {
    let options = &operator.options;
    let is_counted = options.deployment_replicas == 0 && !settings::is_hosted(klusterlet);
    let selector = &options.control_plane_node_label_selector;
    Ground {
        layout: options.layout,
        operator_namespace: options.namespace.clone(),
        told_replicas: options.deployment_replicas,
        control_plane_nodes: match is_counted {
            true => replicas::control_plane_nodes(&operator.client, selector, options.layout).await,
            false => None,
        },
        has_addon_namespace: !options.disable_default_addon_namespace,
        syncs_labels: options.enable_sync_labels,
        tls: tls_profile(operator),
    }
}

fn tls_profile(operator: &AgentOperator) -> Option<TlsProfile> {
    let profile = operator.tls_profile.list().into_iter().next()?;
    let data = |key: &str| profile.data.as_ref()?.get(key).cloned();
    let profile = TlsProfile {
        min_version: data("minTLSVersion").unwrap_or_default(),
        cipher_suites: data("cipherSuites").unwrap_or_default(),
    };
    (profile != TlsProfile::default()).then_some(profile)
}

fn pull_secret(operator: &AgentOperator) -> Option<serde_json::Value> {
    let secret = operator.pull_secret.list().into_iter().next()?;
    Some(typed(&*secret, &ApiResource::erase::<Secret>(&())))
}

/// Ports of the API servers that a kubeconfig leads to.
fn port(secret: &Arc<Secret>) -> Option<u16> {
    let kubeconfig = external::read(secret).ok()?;
    let (_, cluster, _) = kubeconfig::current(&kubeconfig).ok()?;
    let server: Uri = cluster.server?.parse().ok()?;
    server.port_u16()
}

async fn managed(operator: &AgentOperator, settings: &AgentSettings) -> Result<(ExternalCluster, Reached), String> {
    let named = format!("Secret {}/{}", settings.agent_namespace, names::EXTERNAL);
    let Some(secret) = operator.external.get(&settings.agent_namespace, names::EXTERNAL) else {
        return Err(format!(
            "{named} is missing: create it with the key kubeconfig, a kubeconfig of the managed cluster"
        ));
    };
    let since = secret.metadata.creation_timestamp.as_ref().map(|it| it.0);
    let reached = operator.reach(&settings.name, secret).await;
    let reached = reached.map_err(|problem| format!("{named} cannot be used: {problem}"))?;
    let external = ExternalCluster {
        cluster: reached.cluster.clone(),
        since,
    };
    Ok((external, reached))
}

async fn not_ready(operator: &AgentOperator, settings: AgentSettings, why: String, is_watched: bool) -> Finding {
    let targets = wanted::hosting_namespace(&settings).map(|it| it.target);
    match objects::look(&operator.apis(Place::Hosting, None), targets).await {
        Ok(current) => Finding::NotReady {
            settings: Box::new(settings),
            current,
            why,
            is_watched,
        },
        Err(error) => Finding::Unreadable(told(&error)),
    }
}

/// The namespaces of the agent before it was told another. They are of this Klusterlet by their label.
fn former_namespaces(operator: &AgentOperator, settings: &AgentSettings) -> Vec<String> {
    if settings.place == Place::Hosting {
        return Vec::new();
    }
    let all = operator.namespaces.list().into_iter();
    all.filter(|it| it.labels().get(names::NAMESPACE_LABEL) == Some(&settings.name))
        .map(|it| it.name_any())
        .filter(|it| *it != settings.klusterlet_namespace && it != namespaces::AGENT_ADDON)
        .collect()
}

async fn current(
    operator: &AgentOperator,
    settings: &AgentSettings,
    former_namespaces: &[String],
    reached: Option<&Reached>,
) -> Result<(Current, bool), LookError> {
    let apis = operator.apis(settings.place, reached);
    let mut targets = wanted::targets(settings, former_namespaces);
    targets.extend(former::signs(settings));
    let mut current = objects::look(&apis, targets).await?;
    if !former::is_there(settings, &current) {
        return Ok((current, false));
    }
    let rest = former::rest(settings);
    let bindings: Api<ClusterRoleBinding> = Api::all(operator.client.clone());
    let others = match bindings.list_metadata(&ListParams::default()).await {
        Ok(all) => {
            let names: Vec<String> = all.items.iter().map(ResourceExt::name_any).collect();
            names.iter().any(|it| former::is_of_another(settings, it))
        }
        // Who cannot tell leaves the roles.
        Err(_) => true,
    };
    current.extend(objects::look(&apis, rest).await?);
    Ok((current, others))
}

/// Why another managed cluster could not be read, if it was that.
fn unreachable(error: &LookError, reached: Option<&Reached>) -> Option<String> {
    match (error, reached) {
        (LookError::Read { target, source }, Some(reached)) if target.site == Site::Cluster => Some(format!(
            "the managed cluster could not be read: {}",
            explain(&reached.server, source)
        )),
        _ => None,
    }
}

/// The error with what it comes of.
fn told(error: &LookError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// The namespace that nothing can be made in, because it is being deleted.
pub fn leaving_namespace(settings: &AgentSettings, current: &Current) -> Option<Target> {
    let namespaces = wanted::managed_namespaces(settings).into_iter();
    let mut all = namespaces
        .chain(wanted::hosting_namespace(settings))
        .map(|it| it.target);
    all.find(|it| current.get(it).is_some_and(objects::is_going))
}
