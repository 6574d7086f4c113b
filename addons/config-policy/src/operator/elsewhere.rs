//! An operator that is installed for all namespaces already, from another one. OLM copies its ClusterServiceVersion; a
//! Subscription besides would only be in its way.
//! Upstream: config-policy-controller `findCopiedCSV`, `handleExistingInstallation`, `cleanupStaleInstallation`.

use std::sync::Arc;

use serde_json::Value;

use super::{
    CATALOG_SOURCE, CSV, DEFINITION, DEPLOYMENT, INSTALL_PLAN, MANAGED, OPERATOR_GROUP, OperatorEvaluation,
    SUBSCRIPTION, conditions, failure, text, wanted::WantedOperator,
};
use crate::evaluate::{EvaluationFailure, Remedy};

/// The label of copies: the namespace of the original.
pub const COPIED: &str = "olm.copiedFrom";

impl OperatorEvaluation<'_> {
    /// The copy of the wanted operator in its namespace, if it is installed elsewhere.
    pub(super) async fn copied_version(
        &self,
        wanted: &WantedOperator,
    ) -> Result<Option<Arc<Value>>, EvaluationFailure> {
        let (Some(subscription), Some(group)) = (&wanted.subscription, &wanted.group) else {
            return Ok(None);
        };
        if self.must_not_have() || !group.target_namespaces().is_empty() {
            return Ok(None);
        }
        let copied = ocm_addon_sdk::ocm_api::selector_text::read(COPIED);
        let copied = copied.map_err(|why| failure(Remedy::Spec, why))?;
        let versions = self.all(&CSV, &subscription.namespace, Some(&copied)).await?;
        Ok(versions
            .into_iter()
            .find(|it| package_of(it) == Some(subscription.name().to_owned())))
    }

    /// Says that the operator is there, and takes back what the policy has made before it was.
    pub(super) async fn installed_elsewhere(
        &mut self,
        wanted: &WantedOperator,
        copied: &Value,
    ) -> Result<(), EvaluationFailure> {
        let Some(subscription) = &wanted.subscription else {
            return Ok(());
        };
        let from = copied["metadata"]["labels"][COPIED].as_str().unwrap_or_default();
        for kind in [
            &OPERATOR_GROUP,
            &SUBSCRIPTION,
            &INSTALL_PLAN,
            &DEFINITION,
            &DEPLOYMENT,
            &CATALOG_SOURCE,
        ] {
            self.say(conditions::elsewhere(kind, from), Vec::new());
        }
        self.judge_version(copied);
        let object = subscription.object();
        self.package(Some(&object), Some(copied), wanted.package.as_ref());
        if !self.enforces() {
            return Ok(());
        }
        let existing = self
            .find(&SUBSCRIPTION, &subscription.namespace, subscription.name())
            .await?;
        let mine = self.mark();
        match existing {
            Some(existing) if existing["metadata"]["annotations"][MANAGED] == mine.as_str() => {
                self.delete(&SUBSCRIPTION, &existing).await
            }
            _ => Ok(()),
        }
    }
}

/// The package that a version is of.
fn package_of(version: &Value) -> Option<String> {
    let properties = version["metadata"]["annotations"]["operatorframework.io/properties"].as_str()?;
    let properties: Value = serde_json::from_str(properties).ok()?;
    let mut properties = properties["properties"].as_array()?.iter();
    let package = properties.find(|it| it["type"] == "olm.package" && it["value"]["packageName"].is_string())?;
    Some(text(package, "/value/packageName").to_owned())
}
