//! Objects that an operator follows, ClusterManagers and Klusterlets: which there are, and how they are deleted so that
//! their operator cleans up after them.

use std::time::Duration;

use anyhow::{Result, bail};
use client::connect::ApiServer;
use k8s_openapi::{
    api::apps::v1::Deployment, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::wait::{await_condition, conditions::is_deleted},
};
use ocm_api::namespaces;

use crate::{Line, Mode, wait};

/// ClusterManagers.
pub fn cluster_managers() -> ApiResource {
    kind("ClusterManager", "clustermanagers")
}

/// Klusterlets.
pub fn klusterlets() -> ApiResource {
    kind("Klusterlet", "klusterlets")
}

fn kind(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(ocm_api::operator::GROUP, "v1", kind), plural)
}

/// Whether a CRD is there.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn has_crd(cluster: &ApiServer, name: &str) -> Result<bool> {
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let found = definitions.get_metadata_opt(name).await;
    let found = found.map_err(|error| cluster.explain(&format!("could not look for the CRD {name}"), &error))?;
    Ok(found.is_some())
}

/// The objects of a kind; none where the kind is not there.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn list(cluster: &ApiServer, kind: &ApiResource) -> Result<Vec<DynamicObject>> {
    match cluster.all(kind).list(&ListParams::default()).await {
        Ok(listed) => Ok(listed.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(vec![]),
        Err(error) => Err(cluster.explain(&format!("could not list the {}", kind.plural), &error)),
    }
}

/// The Deployments in a namespace but for these.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn other_deployments(
    cluster: &ApiServer,
    namespace: &str,
    is_ours: impl Fn(&str) -> bool,
) -> Result<Vec<String>> {
    let api: Api<Deployment> = Api::namespaced(cluster.client.clone(), namespace);
    let listed = api.list(&ListParams::default()).await;
    let doing = || format!("could not look for what else runs in namespace {namespace}");
    let listed = listed.map_err(|error| cluster.explain(&doing(), &error))?;
    let names = listed.items.into_iter().filter_map(|it| it.metadata.name);
    Ok(names.filter(|it| !is_ours(it)).collect())
}

/// Deletes an object of an operator's and waits until the operator has cleaned up after it. `operator` is the name of
/// the operator's Deployment.
///
/// # Errors
/// When nobody would clean up, what the API server refuses, and when it is still there after `timeout`.
pub async fn delete(
    cluster: &ApiServer,
    kind: &ApiResource,
    name: &str,
    operator: &str,
    mode: Mode,
    timeout: Duration,
) -> Result<Option<Line>> {
    let api = cluster.all(kind);
    let doing = || format!("could not delete {} {name}", kind.kind);
    let found = api.get_opt(name).await;
    let Some(found) = found.map_err(|error| cluster.explain(&doing(), &error))? else {
        return Ok(None);
    };
    let line = |what: &'static str| Some(Line::new(kind, name, what));
    let has_finalizers = found.metadata.finalizers.as_ref().is_some_and(|it| !it.is_empty());
    if has_finalizers
        && crate::find(cluster, &[(namespaces::OPERATOR, operator)])
            .await?
            .is_none()
    {
        bail!(
            "nobody would clean up after {} {name}: there is no Deployment {}/{operator}; `drover upgrade {}` brings it \
             back, and then this goes on",
            kind.kind,
            namespaces::OPERATOR,
            kind.kind.to_lowercase()
        );
    }
    if mode == Mode::DryRun {
        return Ok(line("deleted (dry run)"));
    }
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(line("deleted")),
        Err(error) => return Err(cluster.explain(&doing(), &error)),
    }
    let uid = found.metadata.uid.unwrap_or_default();
    let gone = await_condition(api.clone(), name, is_deleted(&uid));
    match tokio::time::timeout(timeout, gone).await {
        Ok(Ok(_)) => Ok(line("deleted")),
        Ok(Err(error)) => bail!("lost sight of {} {name} while it was being deleted: {error}", kind.kind),
        Err(_) => {
            let left = api.get_opt(name).await.ok().flatten();
            let why = left.map(|it| wait::told(&it).join("; ")).unwrap_or_default();
            let pods = crate::waiting(cluster, namespaces::OPERATOR, operator).await;
            bail!(
                "{} {name} is still being deleted after {} s; the same command goes on with it. Its conditions: {why}. Its \
                 operator: {pods}",
                kind.kind,
                timeout.as_secs()
            )
        }
    }
}
