//! The Channel of a Subscription with its Secret and ConfigMap, read from the hub.

use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::ConfigMap,
    kube::{Client, ResourceExt},
    ocm_api::apps::{Channel, Subscription},
};

use crate::source::{ChannelInputs, SourceInputs, get};

/// Reads what a source is read with. `channels` is the API server with the Channels, `home` the one with the
/// Subscription.
///
/// # Errors
/// In the words of the Subscription's status, when something is not there or cannot be read.
pub async fn read(channels: &Client, home: &Client, subscription: &Subscription) -> Result<SourceInputs, String> {
    let primary = channel(channels, "channel", &subscription.spec.channel).await?;
    let secondary = match subscription.spec.secondary_channel.as_str() {
        "" => None,
        name => Some(channel(channels, "the secondary channel", name).await?),
    };
    let filter = subscription
        .spec
        .package_filter
        .as_ref()
        .and_then(|it| it.filter_ref.as_ref());
    let filter = match filter {
        None => None,
        Some(named) => {
            let namespace = subscription.namespace().unwrap_or_default();
            let found = get::<ConfigMap>(home, &namespace, &named.name).await;
            Some(found.map_err(|why| format!("failed to get spec.packageFilter.filterRef: {why}"))?)
        }
    };
    Ok(SourceInputs {
        primary,
        secondary,
        filter,
    })
}

async fn channel(hub: &Client, what: &str, name: &str) -> Result<ChannelInputs, String> {
    let Some((namespace, name)) = name.split_once('/').filter(|(a, b)| !a.is_empty() && !b.is_empty()) else {
        return Err(format!(
            "failed to get {what}: spec.channel: {name:?} is no NAMESPACE/NAME"
        ));
    };
    let channel = get::<Channel>(hub, namespace, name).await;
    ChannelInputs::read(hub, channel.map_err(|why| format!("failed to get {what}: {why}"))?).await
}
