//! Removal of objects that a policy has left behind.
//! Upstream: config-policy-controller `cleanUpChildObjects`, `handleDeletion`.

use ocm_addon_sdk::ocm_api::policy::configuration_policy::{ConfigurationPolicySpec, RelatedObject};
use serde_json::Value;

use super::Evaluation;

/// Whether a policy removes what it leaves behind.
pub fn prunes(spec: &ConfigurationPolicySpec) -> bool {
    matches!(spec.prune_object_behavior.as_str(), "DeleteAll" | "DeleteIfCreated")
}

impl Evaluation<'_> {
    /// Removes those of the objects before that are not among the objects now. Those that could not be removed, or are
    /// still there, in the words of upstream.
    pub async fn prune(&self, now: &[RelatedObject]) -> Vec<String> {
        if !self.enforces() || !prunes(self.policy_spec) {
            return Vec::new();
        }
        let mut left = Vec::new();
        for entry in &self.related_before {
            let is_kept = now.iter().any(|it| it.object == entry.object);
            if !is_kept && !self.is_removed(entry).await {
                let reference = &entry.object;
                let (group, version) = reference
                    .api_version
                    .split_once('/')
                    .unwrap_or(("", &reference.api_version));
                left.push(format!(
                    "{group}/{version}, Kind={} \"{}\" in namespace {}",
                    reference.kind, reference.metadata.name, reference.metadata.namespace
                ));
            }
        }
        left
    }

    async fn is_removed(&self, entry: &RelatedObject) -> bool {
        let reference = &entry.object;
        let (namespace, name) = (&reference.metadata.namespace, &reference.metadata.name);
        let kind = match self.cluster.served(&reference.api_version, &reference.kind).await {
            Ok(Some(kind)) => kind,
            // A kind that is gone has taken its objects along.
            Ok(None) => return true,
            Err(_) => return false,
        };
        let existing = match self.cluster.get_now(&kind, namespace, name).await {
            Ok(Some(existing)) => existing,
            Ok(None) => return true,
            Err(_) => return false,
        };
        let metadata = &existing["metadata"];
        if self.policy_spec.prune_object_behavior == "DeleteIfCreated" {
            let created = entry
                .properties
                .as_ref()
                .is_some_and(|it| it.created_by_policy == Some(true) && metadata["uid"] == it.uid.as_str());
            if !created {
                return true;
            }
        }
        if metadata["deletionTimestamp"].is_string() {
            return false;
        }
        if let Err(error) = self.cluster.delete(&kind, namespace, name).await
            && error.code != 404
        {
            return false;
        }
        // What has finalizers is still there.
        let after = self.cluster.get_now(&kind, namespace, name).await;
        after.is_ok_and(|it| it.is_none_or(|it| is_another(&it, &existing)))
    }
}

fn is_another(now: &Value, before: &Value) -> bool {
    now["metadata"]["uid"] != before["metadata"]["uid"]
}
