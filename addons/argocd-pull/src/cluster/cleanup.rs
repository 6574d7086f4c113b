//! Takes the operator of Argo CD away: mode cleanup, which the hub runs before it takes the add-on away.
//!
//! Mode addon is paused first. Then the ArgoCD goes, while there is an operator that takes its parts away, and then the
//! operator. Namespaces and definitions stay: others may live in them. What goes wrong is said at the end and keeps
//! nothing from being tried, with one exception: the operator stays where the ArgoCD cannot be deleted.
//! Upstream: argocd-pull-integration `internal/addon/addon_cleanup.go`, which passes over what it cannot delete.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Error, Result, anyhow, bail};
use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::{
        api::{
            apps::v1::Deployment,
            core::v1::{ConfigMap, Service, ServiceAccount},
            rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
        },
        apimachinery::pkg::apis::meta::v1::OwnerReference,
    },
    kube::{
        self, Api, Client, Resource, ResourceExt,
        api::ListParams,
        core::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta},
        runtime::wait::{await_condition, conditions::is_deleted},
    },
    reconcile::{Clients, Plan, Site, Step, StepError, Target, execute, execute::sentence, segment::encoded},
};
use serde_json::json;
use tracing::{info, warn};

use super::{
    ArgoNamespaces,
    pause::{MARKER, is_pausing},
    selector,
};
use crate::gitops::ADD_ON;

/// The name of the ArgoCD.
const ARGO_CD: &str = "argocd";
/// Between two attempts to watch an ArgoCD that is being deleted.
const BETWEEN: Duration = Duration::from_secs(5);

/// What mode cleanup is told.
#[derive(Clone, Debug)]
pub struct OperatorCleanup {
    /// Where things are.
    pub namespaces: ArgoNamespaces,
    /// After this time the ArgoCD is waited for no longer.
    pub argo_cd_max: Duration,
    /// How long is looked whether something comes back; zero for not at all.
    pub verified_for: Duration,
    /// How often in that time.
    pub verified_every: Duration,
}

impl OperatorCleanup {
    /// With upstream's times.
    pub fn new(namespaces: ArgoNamespaces, verified_for: Duration) -> Self {
        Self {
            namespaces,
            argo_cd_max: Duration::from_secs(120),
            verified_for,
            verified_every: Duration::from_secs(20),
        }
    }
}

/// How long `$CLEANUP_VERIFICATION_WAIT_SECONDS` says that is looked whether something comes back.
///
/// # Errors
/// When it is no number.
pub fn verified_for(said: Option<&str>) -> Result<Duration> {
    let Some(said) = said.filter(|it| !it.is_empty()) else {
        return Ok(Duration::ZERO);
    };
    let seconds = said.parse().with_context(|| {
        format!("CLEANUP_VERIFICATION_WAIT_SECONDS: {said:?} is no number of seconds; write 60, or 0 for no look")
    })?;
    Ok(Duration::from_secs(seconds))
}

/// Does it.
///
/// # Errors
/// All that went wrong, and what came back.
pub async fn clean_up(client: &Client, it: &OperatorCleanup) -> Result<()> {
    let OperatorCleanup { namespaces, .. } = it;
    info!(operator = %namespaces.operator, argo_cd = %namespaces.argo_cd, "takes the operator of Argo CD away");
    let mut failures = Vec::new();
    failures.extend(pause(client, &namespaces.operator).await.err());
    match delete_argo_cd(client, it).await {
        Ok(()) => {
            failures.extend(delete_operator(client, &namespaces.operator).await.err());
            failures.extend(verify(client, it).await.err());
        }
        Err(error) => failures.push(error.context("the operator stays")),
    }
    if failures.is_empty() {
        info!("the operator of Argo CD is gone");
        return Ok(());
    }
    let texts: Vec<_> = failures.iter().map(|it| format!("{it:#}")).collect();
    Err(anyhow!(texts.join("; ")))
}

/// What an error says to a person.
fn told(error: kube::Error) -> Error {
    Error::msg(sentence(&StepError::Kube(error)))
}

/// Pauses mode addon.
async fn pause(client: &Client, namespace: &str) -> Result<()> {
    let context = || format!("could not write ConfigMap {namespace}/{MARKER}, which pauses the add-on");
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &encoded(namespace));
    let present = api.get_opt(MARKER).await.map_err(told).with_context(context)?;
    let mut plan = Plan::new();
    match present {
        Some(present) if is_pausing(&present) => return Ok(()),
        Some(present) => {
            plan.push(Step::MergePatch {
                target: Target::of(Site::Cluster, &present),
                subresource: None,
                patch: json!({"data": marked(Timestamp::now())}),
            });
        }
        None => {
            plan.create(Site::Cluster, &marker(namespace, owner(client).await));
        }
    }
    let outcome = execute(&Clients::cluster(client.clone()), &plan).await;
    match outcome.errors().next() {
        None => Ok(()),
        // Without its namespace there is no operator, and nobody to pause: mode addon makes the namespace first.
        Some((_, error)) if error.code() == Some(404) => {
            info!(%namespace, "there is no such namespace, and no operator");
            Ok(())
        }
        Some(_) => Err(Error::msg(outcome.error_text())).with_context(context),
    }
}

/// What goes when the add-on has gone. The marker goes with it, so that the add-on can come again; that it cannot be
/// found is no reason not to pause.
async fn owner(client: &Client) -> Option<OwnerReference> {
    let api: Api<ClusterRoleBinding> = Api::all(client.clone());
    match api.get_opt(ADD_ON).await {
        Ok(found) => found.and_then(|it| it.owner_ref(&())),
        Err(error) => {
            warn!(%error, "could not look for the add-on's ClusterRoleBinding: ConfigMap {MARKER} stays when it has gone");
            None
        }
    }
}

fn marked(now: Timestamp) -> BTreeMap<String, String> {
    let timestamp = format!("{now:.0}");
    [("paused", "true"), ("reason", "cleanup"), ("timestamp", &timestamp)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

fn marker(namespace: &str, owner: Option<OwnerReference>) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(MARKER.to_owned()),
            namespace: Some(namespace.to_owned()),
            // Not the label of what is deleted.
            labels: Some(BTreeMap::from([("app".to_owned(), ADD_ON.to_owned())])),
            owner_references: owner.map(|it| vec![it]),
            ..ObjectMeta::default()
        },
        data: Some(marked(Timestamp::now())),
        ..ConfigMap::default()
    }
}

/// An object that is there, and which incarnation.
struct Found {
    target: Target,
    uid: Option<String>,
}

impl Found {
    fn deletion(self) -> Step {
        Step::Delete {
            target: self.target,
            uid: self.uid,
            propagation: None,
        }
    }
}

async fn delete(client: &Client, found: impl IntoIterator<Item = Found>) -> Result<()> {
    let mut plan = Plan::new();
    for it in found {
        plan.push(it.deletion());
    }
    let outcome = execute(&Clients::cluster(client.clone()), &plan).await;
    match outcome.succeeded() {
        true => Ok(()),
        false => bail!(outcome.error_text()),
    }
}

/// The API of ArgoCDs in a namespace, and the one there; `None` when it, or even its kind, is not there.
async fn argo_cd(client: &Client, namespace: &str) -> Result<(Api<DynamicObject>, Option<Found>)> {
    let kind = GroupVersionKind::gvk("argoproj.io", "v1beta1", "ArgoCD");
    let api_resource = ApiResource::from_gvk_with_plural(&kind, "argocds");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &encoded(namespace), &api_resource);
    let found = match api.get(ARGO_CD).await {
        Ok(found) => Some(Found {
            target: Target {
                site: Site::Cluster,
                api_resource,
                namespace: Some(namespace.to_owned()),
                name: ARGO_CD.to_owned(),
            },
            uid: found.uid(),
        }),
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(error) => return Err(told(error)).context("could not look for the ArgoCD"),
    };
    Ok((api, found))
}

/// Deletes the ArgoCD, and waits until it is gone, or has not gone for long.
async fn delete_argo_cd(client: &Client, it: &OperatorCleanup) -> Result<()> {
    let namespace = &it.namespaces.argo_cd;
    let (api, Some(found)) = argo_cd(client, namespace).await? else {
        return Ok(());
    };
    let uid = found.uid.clone().unwrap_or_default();
    let deleted = delete(client, [found]).await;
    deleted.with_context(|| format!("could not delete ArgoCD {namespace}/{ARGO_CD}"))?;
    info!(%namespace, seconds = it.argo_cd_max.as_secs(), "waits for the operator to take the ArgoCD away");
    let gone = async {
        while let Err(error) = await_condition(api.clone(), ARGO_CD, is_deleted(&uid)).await {
            warn!(%error, "could not watch the ArgoCD, will retry");
            tokio::time::sleep(BETWEEN).await;
        }
    };
    if tokio::time::timeout(it.argo_cd_max, gone).await.is_err() {
        warn!(%namespace, "the ArgoCD is still there; goes on without it");
    }
    Ok(())
}

/// The kinds of what the operator consists of: in its namespace, and everywhere.
fn kinds() -> [Vec<ApiResource>; 2] {
    [
        vec![
            ApiResource::erase::<Deployment>(&()),
            ApiResource::erase::<Service>(&()),
            ApiResource::erase::<ServiceAccount>(&()),
            ApiResource::erase::<ConfigMap>(&()),
            ApiResource::erase::<RoleBinding>(&()),
            ApiResource::erase::<Role>(&()),
        ],
        vec![
            ApiResource::erase::<ClusterRoleBinding>(&()),
            ApiResource::erase::<ClusterRole>(&()),
        ],
    ]
}

/// Deletes the objects of the operator: what is in its namespace, and then what is everywhere.
async fn delete_operator(client: &Client, namespace: &str) -> Result<()> {
    let mut failures = Vec::new();
    for (kinds, namespace) in kinds().iter().zip([Some(namespace), None]) {
        let mut found = Vec::new();
        for kind in kinds {
            match listed(client, kind, namespace).await {
                Ok(listed) => found.extend(listed),
                Err(error) => failures.push(format!("{error:#}")),
            }
        }
        failures.extend(delete(client, found).await.err().map(|it| it.to_string()));
    }
    match failures.is_empty() {
        true => Ok(()),
        false => bail!("could not delete all of the operator: {}", failures.join("; ")),
    }
}

/// The objects of the operator of one kind.
async fn listed(client: &Client, kind: &ApiResource, namespace: Option<&str>) -> Result<Vec<Found>> {
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), &encoded(namespace), kind),
        None => Api::all_with(client.clone(), kind),
    };
    let listed = api.list_metadata(&ListParams::default().labels(&selector())).await;
    let listed = listed
        .map_err(told)
        .with_context(|| format!("could not list {}", kind.plural))?;
    let found = listed.items.into_iter().map(|it| Found {
        uid: it.uid(),
        target: Target {
            site: Site::Cluster,
            api_resource: kind.clone(),
            namespace: namespace.map(str::to_owned),
            name: it.name_any(),
        },
    });
    Ok(found.collect())
}

/// The ArgoCD and the objects of the operator, as far as they are there.
async fn remaining(client: &Client, namespaces: &ArgoNamespaces) -> Result<Vec<Found>> {
    let (_, argo_cd) = argo_cd(client, &namespaces.argo_cd).await?;
    let mut found: Vec<Found> = argo_cd.into_iter().collect();
    for (kinds, namespace) in kinds().iter().zip([Some(namespaces.operator.as_str()), None]) {
        for kind in kinds {
            found.extend(listed(client, kind, namespace).await?);
        }
    }
    Ok(found)
}

/// Looks again and again whether something came back, and deletes it again.
async fn verify(client: &Client, it: &OperatorCleanup) -> Result<()> {
    if it.verified_for.is_zero() {
        return Ok(());
    }
    let mut left = it.verified_for;
    while !left.is_zero() {
        let pause = left.min(it.verified_every);
        tokio::time::sleep(pause).await;
        left -= pause;
        match remaining(client, &it.namespaces).await {
            Ok(found) if found.is_empty() => {}
            Ok(found) => {
                warn!(objects = %names(&found), "are there, are deleted again");
                if let Err(error) = delete(client, found).await {
                    warn!(%error, "could not delete them");
                }
            }
            Err(error) => warn!(error = %format!("{error:#}"), "could not look whether something came back"),
        }
    }
    let found = remaining(client, &it.namespaces).await?;
    match found.is_empty() {
        true => Ok(()),
        false => bail!("still there: {}; see who creates it", names(&found)),
    }
}

fn names(found: &[Found]) -> String {
    let names: Vec<_> = found.iter().map(|it| it.target.to_string()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_verification_is_a_number_of_seconds() {
        assert_eq!(verified_for(None).unwrap(), Duration::ZERO);
        assert_eq!(verified_for(Some("")).unwrap(), Duration::ZERO);
        assert_eq!(verified_for(Some("180")).unwrap(), Duration::from_secs(180));
        let error = verified_for(Some("3m")).unwrap_err().to_string();
        assert!(
            error.starts_with("CLEANUP_VERIFICATION_WAIT_SECONDS: \"3m\" is no number"),
            "{error}"
        );
    }
}
