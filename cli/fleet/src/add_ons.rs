//! Puts add-ons of ours on the clusters of `drover up`, for who does not want to type it: what `kubectl apply` of the
//! ClusterManagementAddOn and `drover addon enable` do.

use anyhow::{Result, bail};
use kube::{Api, Client};
use ocm_api::{
    addon::ConfigReferent,
    addon::v1alpha1::{ClusterManagementAddOn, ConfigMeta, ManagedClusterAddOn},
    condition,
    conditions::managed_cluster_add_on as conditions,
};
use ocm_reconcile::{Cache, Clients, Plan, Site, execute};
use output::progress::StepProgress;
use tokio_util::sync::CancellationToken;

use crate::{
    bundled::{self, HubHalves},
    examples,
};

/// Offers the add-ons, puts them on the clusters and waits until each is available, telling so.
/// What is there already is left as it is.
pub async fn put(hub: &Client, add_ons: &[String], clusters: &[String], progress: &StepProgress) -> Result<()> {
    if add_ons.is_empty() {
        return Ok(());
    }
    // The others are on the hub alone.
    let is_on_clusters = |it: &&String| bundled::find(it).is_none_or(bundled::Bundled::is_on_clusters);
    let add_ons: Vec<&String> = add_ons.iter().filter(is_on_clusters).collect();
    let mut offer = Plan::new();
    for name in &add_ons {
        offer.create(Site::Hub, &offered(name)?);
    }
    offer.stage();
    for name in &add_ons {
        for cluster in clusters {
            let mut add_on = ManagedClusterAddOn::new(name, Default::default());
            add_on.metadata.namespace = Some(cluster.clone());
            offer.create(Site::Hub, &add_on);
        }
    }
    let outcome = execute(&Clients::hub(hub.clone()), &offer).await;
    if !outcome.succeeded() {
        bail!("could not put the add-ons on the clusters: {}", outcome.error_text());
    }
    let watching = CancellationToken::new();
    let _stop = watching.clone().drop_guard();
    let installed: Cache<ManagedClusterAddOn> = Cache::start(Api::all(hub.clone()), watching);
    let steps = add_ons
        .iter()
        .flat_map(|name| clusters.iter().map(move |cluster| (name, cluster)));
    let arrivals = steps.map(|(name, cluster)| {
        let step = progress.start(format!("{name} on {cluster} becoming available"));
        let installed = &installed;
        async move {
            let is_available = |it: &Cache<ManagedClusterAddOn>| {
                let conditions = it.get(cluster, name)?.status.clone()?.conditions;
                condition::is_true(&conditions, conditions::AVAILABLE).then_some(())
            };
            installed.until(is_available).await;
            step.done(&format!("{name} on {cluster}"), "available")
        }
    });
    futures::future::try_join_all(arrivals).await?;
    Ok(())
}

/// The ClusterManagementAddOn of an add-on of ours: installed by hand, without defaults.
fn offered(name: &str) -> Result<ClusterManagementAddOn> {
    let halves = HubHalves::default();
    let ours: Vec<_> = examples::add_ons()
        .into_iter()
        .chain(bundled::add_ons(&halves))
        .collect();
    let Some(add_on) = ours.iter().find(|it| it.name() == name) else {
        let examples = examples::programs();
        let known = examples
            .iter()
            .map(|it| it.name())
            .chain(bundled::ALL.iter().map(|it| it.name));
        let known: Vec<&str> = known.collect();
        bail!(
            "--addons {name}: not an add-on that comes with drover; those are {}",
            known.join(", ")
        );
    };
    let mut offered = ClusterManagementAddOn::new(name, Default::default());
    offered.spec.add_on_meta.display_name = name.to_owned();
    offered.spec.supported_configs = add_on
        .supported_configs()
        .into_iter()
        .map(|it| ConfigMeta {
            default_config: default_config(name, &it.resource),
            group: it.group,
            resource: it.resource,
        })
        .collect();
    Ok(offered)
}

/// What all clusters are configured with where nobody says another.
fn default_config(add_on: &str, resource: &str) -> Option<ConfigReferent> {
    let (of, name) = bundled::find(add_on)?.default_config?;
    (of == resource).then(|| ConfigReferent {
        name: name.to_owned(),
        ..ConfigReferent::default()
    })
}

/// Checks that these are add-ons of ours, with those that they need.
pub fn check(names: &[String]) -> Result<()> {
    let is_named = |name: &str| names.iter().any(|it| it == name);
    for (one, needed) in names
        .iter()
        .filter_map(|it| bundled::find(it)?.needs.map(|needed| (it, needed)))
    {
        if !is_named(needed) {
            bail!("--addons {one}: it runs inside {needed}, so name both: --addons {needed},{one}");
        }
    }
    let only_on_hub = |it: &String| bundled::find(it).is_some_and(|it| !it.is_on_clusters());
    let mut names = names.iter().filter(|it| !only_on_hub(it));
    names.try_for_each(|it| offered(it).map(|_| ()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundled_add_on_declares_its_supported_configurations() {
        let offered = offered("helloworld").expect("it is ours");
        assert_eq!(offered.spec.add_on_meta.display_name, "helloworld");
        assert_eq!(offered.spec.supported_configs[0].resource, "addondeploymentconfigs");
        let error = check(&["nope".into()]).expect_err("it is not ours").to_string();
        assert!(
            error.starts_with("--addons nope: not an add-on that comes with drover; those are helloworld"),
            "{error}"
        );
        let alone = check(&["governance-standalone-hub-templating".into()]).unwrap_err();
        assert!(
            alone.to_string().contains("runs inside config-policy-controller"),
            "{alone}"
        );
    }
}
