//! What tells an API server to ask the webhooks. Names, paths and rules are those of upstream's operator.

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use ocm_api::namespaces;
use ocm_reconcile::install::{DROVER, MANAGED_BY};
use serde_json::{Value, json};

use super::Reached;
use crate::reviews::{
    CONVERT, MUTATE_CLUSTER, VALIDATE_ADD_ON, VALIDATE_CLUSTER, VALIDATE_REPLICA_SET, VALIDATE_SET_BINDING,
    VALIDATE_WORK,
};

/// Whom the API server sees as the author.
const AUTHOR: &str = "drover-hub";
const CLUSTERS: &str = "cluster.open-cluster-management.io";
const ADD_ONS: &str = "addon.open-cluster-management.io";
const WORKS: &str = "work.open-cluster-management.io";
/// The kinds with two versions.
const CONVERTED: [&str; 2] = [
    "clustermanagementaddons.addon.open-cluster-management.io",
    "managedclusteraddons.addon.open-cluster-management.io",
];

/// One configuration: its kind, its name and its webhook's, the path, and group,
/// version and resources of what is judged.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    [&'static str; 2],
    &'static [&'static str],
);

/// The kind of configurations whose webhooks judge.
pub const VALIDATING: &str = "ValidatingWebhookConfiguration";
/// The kind of configurations whose webhooks fill in.
pub const MUTATING: &str = "MutatingWebhookConfiguration";

const ROWS: [Row; 6] = [
    (
        VALIDATING,
        "managedclustervalidators.admission.cluster.open-cluster-management.io",
        VALIDATE_CLUSTER,
        [CLUSTERS, "*"],
        // Upstream's names the first alone. An agent writes the other, and not all that stands there is its own.
        &["managedclusters", "managedclusters/status"],
    ),
    (
        MUTATING,
        "managedclustermutators.admission.cluster.open-cluster-management.io",
        MUTATE_CLUSTER,
        [CLUSTERS, "*"],
        &["managedclusters"],
    ),
    (
        VALIDATING,
        "managedclustersetbindingvalidators.admission.cluster.open-cluster-management.io",
        VALIDATE_SET_BINDING,
        [CLUSTERS, "v1beta2"],
        &["managedclustersetbindings"],
    ),
    // Upstream has none of this kind.
    (
        VALIDATING,
        "managedclusteraddonvalidators.admission.addon.open-cluster-management.io",
        VALIDATE_ADD_ON,
        [ADD_ONS, "*"],
        &["managedclusteraddons"],
    ),
    (
        VALIDATING,
        "manifestworkvalidators.admission.work.open-cluster-management.io",
        VALIDATE_WORK,
        [WORKS, "*"],
        &["manifestworks"],
    ),
    // Upstream's server has this one, and no configuration of upstream's names it; the name follows the other's.
    (
        VALIDATING,
        "manifestworkreplicasetvalidators.admission.work.open-cluster-management.io",
        VALIDATE_REPLICA_SET,
        [WORKS, "*"],
        &["manifestworkreplicasets"],
    ),
];

/// Tells the API server. What is told already is not told again.
///
/// # Errors
/// When it cannot be told.
pub async fn configure(hub: &Client, reached: &Reached, authorities: &str) -> Result<()> {
    for name in CONVERTED {
        convert(hub, name, &conversion(reached, authorities))
            .await
            .with_context(|| format!("could not set the conversion of {name}"))?;
    }
    for row in &ROWS {
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", row.0);
        let api: Api<DynamicObject> = Api::all_with(hub.clone(), &ApiResource::from_gvk(&kind));
        let wanted = configuration(row, reached, authorities);
        let written = api
            .patch(row.1, &PatchParams::apply(AUTHOR).force(), &Patch::Apply(wanted))
            .await;
        written.with_context(|| format!("could not write {} {}", row.0, row.1))?;
    }
    Ok(())
}

/// Tells the API server to trust these authorities where a configuration of this kind and name that somebody has
/// installed sends writes to this Service. Without the configuration nothing is asked and there is nothing to tell:
/// `false`.
///
/// # Errors
/// When it cannot be told.
pub async fn trust(hub: &Client, (kind, name): (&str, &str), service: (&str, &str), authorities: &str) -> Result<bool> {
    let of_kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
    let api: Api<DynamicObject> = Api::all_with(hub.clone(), &ApiResource::from_gvk(&of_kind));
    let failed = || format!("could not tell {kind} {name} whom to trust");
    let Some(found) = api.get_opt(name).await.with_context(failed)? else {
        return Ok(false);
    };
    let authorities = BASE64_STANDARD.encode(authorities);
    let calls = |it: &&Value| {
        let asked = &it["clientConfig"]["service"];
        asked["namespace"] == service.0 && asked["name"] == service.1
    };
    let asked = found.data["webhooks"].as_array().into_iter().flatten().filter(calls);
    let distrusting = asked
        .clone()
        .any(|it| it["clientConfig"]["caBundle"] != authorities.as_str());
    if !distrusting {
        return Ok(true);
    }
    let told = asked.map(|it| json!({"name": it["name"], "clientConfig": {"caBundle": authorities}}));
    let wanted = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "webhooks": told.collect::<Vec<_>>(),
    });
    let parameters = PatchParams::apply(service.1).force();
    api.patch(name, &parameters, &Patch::Apply(wanted))
        .await
        .with_context(failed)?;
    Ok(true)
}

/// Definitions that somebody else has made are converted by whom they say.
async fn convert(hub: &Client, name: &str, conversion: &Value) -> Result<(), kube::Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(hub.clone());
    let found = definitions.get(name).await?;
    let is_ours = found.labels().get(MANAGED_BY).is_some_and(|it| it == DROVER);
    let present = serde_json::to_value(&found.spec.conversion).unwrap_or_default();
    if !is_ours || includes(&present, conversion) {
        return Ok(());
    }
    let patch = Patch::Merge(json!({"spec": {"conversion": conversion}}));
    definitions.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Whether `whole` says everything that `part` does; the API server adds its defaults.
fn includes(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, it)| whole.get(key).is_some_and(|whole| includes(whole, it))),
        (whole, part) => whole == part,
    }
}

fn client_config(reached: &Reached, path: &str, authorities: &str) -> Value {
    let authorities = BASE64_STANDARD.encode(authorities);
    match reached {
        Reached::Service(name) => json!({
            "service": {"namespace": namespaces::HUB, "name": name, "path": path, "port": 443}, "caBundle": authorities,
        }),
        Reached::Url(url) => json!({"url": format!("{url}{path}"), "caBundle": authorities}),
    }
}

fn conversion(reached: &Reached, authorities: &str) -> Value {
    json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1", "v1beta1"], "clientConfig": client_config(reached, CONVERT, authorities),
    }})
}

fn configuration(row: &Row, reached: &Reached, authorities: &str) -> Value {
    let (kind, name, path, [group, version], resources) = row;
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name, "labels": {(MANAGED_BY): DROVER}},
        "webhooks": [{
            "name": name, "failurePolicy": "Fail", "timeoutSeconds": 10, "sideEffects": "None",
            "admissionReviewVersions": ["v1", "v1beta1"],
            "clientConfig": client_config(reached, path, authorities),
            "rules": [{
                "operations": ["CREATE", "UPDATE"], "apiGroups": [group], "apiVersions": [version], "resources": resources,
            }],
        }],
    })
}

/// Everything that [`configure`] leaves on an API server beside the kinds, as manifests without content:
/// to take it away.
pub fn names() -> Vec<Value> {
    let manifest = |row: &Row| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": row.0, "metadata": {"name": row.1}});
    ROWS.iter().map(manifest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_clients_use_a_service_name_or_a_full_url() {
        let service = client_config(&Reached::Service("a".into()), "/p", "x");
        assert_eq!(
            service,
            json!({
                "service": {"namespace": "open-cluster-management-hub", "name": "a", "path": "/p", "port": 443},
                "caBundle": "eA==",
            })
        );
        let url = client_config(&Reached::Url("https://h:1".into()), "/p", "x");
        assert_eq!(url["url"], "https://h:1/p");
    }

    #[test]
    fn what_the_api_server_has_filled_in_is_no_difference() {
        let wanted = conversion(&Reached::Url("https://h:1".into()), "x");
        let mut present = wanted.clone();
        present["webhook"]["clientConfig"]["service"] = Value::Null;
        assert!(includes(&present, &wanted));
        present["webhook"]["clientConfig"]["caBundle"] = "eQ==".into();
        assert!(!includes(&present, &wanted));
        assert!(!includes(&Value::Null, &wanted));
    }
}
