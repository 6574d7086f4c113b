//! What is refused of Channels when they are written, and where the webhooks of the add-on are asked.
//! Upstream: multicloud-operators-channel pkg/webhook/channel_validator.go.

use std::sync::Arc;

use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::apps::{Channel, ChannelType},
    reconcile::{Cache, Caches},
};
use serde_json::Value;

/// The Service by which an API server comes to the webhooks.
pub const SERVICE: &str = "channels-apps-open-cluster-management-webhook-svc";
/// The webhook for Channels, which clients read in refusals, and the ValidatingWebhookConfiguration that has it.
pub const CHANNEL_WEBHOOK: &str = "channels.apps.open.cluster.management.webhook.validator";
/// Where it is asked about Channels.
pub const CHANNEL_PATH: &str = "/duplicate-validation";
/// The MutatingWebhookConfiguration that has objects say who has written them. Upstream's is another program's:
/// [`IDENTITY_WEBHOOK`](super::world::IDENTITY_WEBHOOK).
pub const IDENTITY_CONFIGURATION: &str = "identities.apps.open-cluster-management.io";
/// Where it is asked who has written an object.
pub const IDENTITY_PATH: &str = "/mutate-identity";

/// Judges a Channel that is created, or was a Git repository before: the `request` of an AdmissionReview, and the
/// Channels of its namespace. Git repositories may be many; of all others there is one in a namespace.
///
/// # Errors
/// Why it is refused, in upstream's words.
pub fn validate_channel(request: &Value, present: &[Arc<Channel>]) -> Result<(), String> {
    if !adds_a_channel(request) {
        return Ok(());
    }
    let Ok(new) = serde_json::from_value::<Channel>(request["object"].clone()) else {
        return Err("the object is no Channel".to_owned());
    };
    let is_git = |it: &Channel| it.spec.channel_type() == Some(ChannelType::Git);
    let namespace = request["namespace"]
        .as_str()
        .map(str::to_owned)
        .or_else(|| new.namespace());
    let other = present
        .iter()
        .find(|it| it.namespace() == namespace && !is_git(it) && it.metadata.name != new.metadata.name);
    match other {
        Some(other) => Err(format!(
            "the namespace {} already contains a channel: {}",
            namespace.unwrap_or_default(),
            other.name_any()
        )),
        None => Ok(()),
    }
}

/// Judges Channels by those that are there.
#[derive(Clone)]
pub struct ChannelAdmission {
    channels: Cache<Channel>,
}

impl ChannelAdmission {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self { channels: caches.of() }
    }

    /// Judges the `request` of an AdmissionReview.
    ///
    /// # Errors
    /// As [`validate_channel`], and while nobody knows which Channels are there.
    pub fn judge(&self, request: &Value) -> Result<(), String> {
        let namespace = request["namespace"].as_str().unwrap_or_default();
        if adds_a_channel(request) && !self.channels.is_synced() {
            return Err("the hub cluster state is unknown".to_owned());
        }
        validate_channel(request, &self.channels.list_in(namespace))
    }
}

/// Whether there is one Channel more that is no Git repository. Upstream does not ask about updates, which may make one
/// of a Git repository.
fn adds_a_channel(request: &Value) -> bool {
    let is_git = |object: &str| {
        let kind = request[object]["spec"]["type"].as_str().unwrap_or_default();
        ["git", "github"].iter().any(|it| kind.eq_ignore_ascii_case(it))
    };
    match request["operation"].as_str() {
        Some("CREATE") => !is_git("object"),
        Some("UPDATE") => !is_git("object") && is_git("oldObject"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn channel(name: &str, kind: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "ch"}, "spec": {"type": kind, "pathname": "x"}})
    }

    #[test]
    fn a_namespace_has_one_channel_that_is_not_git() {
        let present = [channel("a", "Git"), channel("b", "helmrepo")];
        let present: Vec<Arc<Channel>> = present
            .iter()
            .map(|it| Arc::new(serde_json::from_value(it.clone()).unwrap()))
            .collect();
        let judged = |name: &str, kind: &str| {
            let request = json!({"operation": "CREATE", "namespace": "ch", "object": channel(name, kind)});
            validate_channel(&request, &present)
        };
        let refused = Err("the namespace ch already contains a channel: b".to_owned());
        assert_eq!(judged("c", "ObjectBucket"), refused);
        assert_eq!(judged("c", "HelmRepo"), refused);
        assert_eq!(judged("b", "HelmRepo"), Ok(()));
        assert_eq!((judged("c", "github"), judged("c", "Git")), (Ok(()), Ok(())));
        let elsewhere = json!({"operation": "CREATE", "namespace": "other", "object": channel("c", "HelmRepo")});
        assert_eq!(validate_channel(&elsewhere, &present), Ok(()));
        let updated = |kind: &str, old: &str| {
            let (object, old) = (channel("c", kind), channel("c", old));
            let request = json!({"operation": "UPDATE", "namespace": "ch", "object": object, "oldObject": old});
            validate_channel(&request, &present)
        };
        assert_eq!(updated("HelmRepo", "Git"), refused);
        // What is there may be changed.
        assert_eq!(
            (updated("HelmRepo", "HelmRepo"), updated("Git", "HelmRepo")),
            (Ok(()), Ok(()))
        );
        let deleted = json!({"operation": "DELETE", "namespace": "ch", "object": null});
        assert_eq!(validate_channel(&deleted, &present), Ok(()));
    }

    #[test]
    fn nothing_is_let_in_before_channels_are_known() {
        let admission = ChannelAdmission::new(&Caches::unfed());
        let request = |kind: &str| json!({"operation": "CREATE", "namespace": "ch", "object": channel("a", kind)});
        let judged = admission.judge(&request("HelmRepo"));
        assert_eq!(judged, Err("the hub cluster state is unknown".to_owned()));
        assert_eq!(admission.judge(&request("Git")), Ok(()));
        admission
            .channels
            .fill([serde_json::from_value(channel("b", "ObjectBucket")).unwrap()]);
        let refused = Err("the namespace ch already contains a channel: b".to_owned());
        assert_eq!(admission.judge(&request("HelmRepo")), refused);
    }
}
