//! What an add-on on a cluster waits for: looks at the hub; the sentences are `addon::why`'s.

use addon::why::{Seen, explain};
use anyhow::Result;
use client::connect::ApiServer;
use jiff::Timestamp;
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, events::v1::Event};
use kube::{Api, api::ListParams};
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    cluster::{ManagedCluster, Placement, PlacementDecision},
    labels,
    work::ManifestWork,
};

/// One sentence for each thing it waits for.
pub async fn waits_for(hub: &ApiServer, cluster_name: &str, name: &str) -> Result<Vec<String>> {
    let failed = |what: &'static str| move |error| hub.explain(&format!("could not look at {what}"), &error);
    let client = || hub.client.clone();
    let of_add_on = ListParams::default().labels(&format!("{}={name}", labels::ADDON_NAME));
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let offer = Api::<ClusterManagementAddOn>::all(client()).get_opt(name).await;
    let offer = offer.map_err(failed("the ClusterManagementAddOn"))?;
    let cluster = Api::<ManagedCluster>::all(client()).get_opt(cluster_name).await;
    let everywhere = Api::<ManagedClusterAddOn>::all(client()).list(&named).await;
    let everywhere = everywhere.map_err(failed("the ManagedClusterAddOns"))?.items;
    let works = Api::<ManifestWork>::all(client()).list(&of_add_on).await;
    let requests = Api::<CertificateSigningRequest>::all(client()).list(&of_add_on).await;
    let events = Api::<Event>::namespaced(client(), cluster_name)
        .list(&ListParams::default())
        .await;
    // They say more of some things; without them less is told, and nothing wrong.
    let mut events = events.map(|it| it.items).unwrap_or_default();
    events.retain(|it| it.regarding.as_ref().and_then(|it| it.name.as_deref()) == Some(name));
    let (mut placements, mut decisions) = (Vec::new(), Vec::new());
    for it in offer.iter().flat_map(|it| &it.spec.install_strategy.placements) {
        let found = Api::<Placement>::namespaced(client(), &it.namespace)
            .get_opt(&it.name)
            .await;
        placements.extend(found.map_err(failed("the placements"))?);
        let of_it = ListParams::default().labels(&format!("{}={}", labels::PLACEMENT, it.name));
        let listed = Api::<PlacementDecision>::namespaced(client(), &it.namespace)
            .list(&of_it)
            .await;
        decisions.extend(listed.map_err(failed("the placements' decisions"))?.items);
    }
    Ok(explain(&Seen {
        now: Timestamp::now(),
        cluster_name: cluster_name.to_owned(),
        name: name.to_owned(),
        cluster: cluster.map_err(failed("the cluster"))?,
        addon: everywhere
            .iter()
            .find(|it| it.metadata.namespace.as_deref() == Some(cluster_name))
            .cloned(),
        cluster_management_addon: offer,
        works: works.map_err(failed("the works"))?.items,
        requests: requests.map_err(failed("the certificate requests"))?.items,
        events,
        placements,
        decisions,
        everywhere,
    }))
}
