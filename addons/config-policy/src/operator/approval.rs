//! Who approves an InstallPlan. OLM makes one for all operators of a namespace, so all policies over them have to
//! agree: each approves its own operator, and what that depends on.
//! Upstream: config-policy-controller `getRemainingCSVApprovals`, `getApprovedCSVs`, `getBundleDependencies`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::policy::operator_policy::{OperatorPolicy, OperatorPolicySpec},
};
use serde_json::Value;

use super::{MANAGED, OperatorEvaluation, SUBSCRIPTION, enforces, failure, namespace, of_metadata, text};
use crate::evaluate::{EvaluationFailure, Remedy};

impl OperatorEvaluation<'_> {
    /// The versions of an InstallPlan that no policy approves, in order.
    pub(super) async fn unapproved(
        &mut self,
        subscription: &Value,
        plan: &Value,
        versions: &[&str],
    ) -> Result<Vec<String>, EvaluationFailure> {
        let mut missing: BTreeSet<&str> = versions.iter().copied().collect();
        if self.approves(subscription) {
            retain_unapproved(&mut missing, plan, text(subscription, "/status/currentCSV"));
        }
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let managed = ocm_addon_sdk::ocm_api::selector_text::read(MANAGED);
        let managed = managed.map_err(|why| failure(Remedy::Spec, why))?;
        let subscriptions = self.all(&SUBSCRIPTION, namespace(subscription), Some(&managed)).await?;
        let uid = of_metadata(subscription, "uid");
        for other in subscriptions.iter().filter(|it| of_metadata(it, "uid") != uid) {
            let Some(policy) = self.policy_of(other) else {
                continue;
            };
            // One that cannot be read approves nothing; it says so itself.
            let versions = self.versions_of(&policy.spec).await.ok();
            if versions.is_some_and(|it| would_approve(&policy.spec, &it, starting_version(&policy.spec), other)) {
                retain_unapproved(&mut missing, plan, text(other, "/status/currentCSV"));
            }
        }
        Ok(missing.into_iter().map(str::to_owned).collect())
    }

    /// Whether this policy approves what its Subscription is about to install.
    fn approves(&self, subscription: &Value) -> bool {
        would_approve(&self.spec, &self.versions, &self.starting, subscription)
    }

    /// The other policy that takes care of a Subscription.
    fn policy_of(&self, subscription: &Value) -> Option<Arc<OperatorPolicy>> {
        let mark = subscription["metadata"]["annotations"][MANAGED].as_str()?;
        let (namespace, name) = mark.split_once('.')?;
        let is_it = |it: &&Arc<OperatorPolicy>| it.name_any() == name && it.namespace().as_deref() == Some(namespace);
        self.others.iter().find(is_it).cloned()
    }
}

/// Whether a policy with these versions approves what a Subscription is about to install.
fn would_approve(policy: &OperatorPolicySpec, versions: &[String], starting: &str, subscription: &Value) -> bool {
    let current = text(subscription, "/status/currentCSV");
    let first = text(subscription, "/status/installedCSV").is_empty();
    let listed = || versions.is_empty() || versions.iter().any(|it| it == current) || current == starting;
    enforces(policy) && (first || policy.upgrade_approval == "Automatic") && !current.is_empty() && listed()
}

/// The version that a policy begins with, if no template says so.
fn starting_version(policy: &OperatorPolicySpec) -> &str {
    text(&policy.subscription, "/startingCSV")
}

/// Takes away a version and all that it depends on.
fn retain_unapproved(missing: &mut BTreeSet<&str>, plan: &Value, version: &str) {
    let dependencies = dependencies(plan);
    let mut seen = BTreeSet::new();
    let mut ahead = vec![version];
    while let Some(version) = ahead.pop() {
        if seen.insert(version) {
            missing.remove(version);
            ahead.extend(dependencies.of(version));
        }
    }
}

/// Which versions of an InstallPlan need which.
#[derive(Default)]
struct Dependencies<'p> {
    version_of_package: BTreeMap<String, &'p str>,
    packages_of_version: BTreeMap<&'p str, BTreeSet<String>>,
}

impl<'p> Dependencies<'p> {
    fn of(&self, version: &str) -> impl Iterator<Item = &'p str> {
        let packages = self.packages_of_version.get(version).into_iter().flatten();
        packages.filter_map(|it| self.version_of_package.get(it).copied())
    }
}

fn dependencies(plan: &Value) -> Dependencies<'_> {
    let mut dependencies = Dependencies::default();
    let bundles = plan.pointer("/status/bundleLookups").and_then(Value::as_array);
    for bundle in bundles.into_iter().flatten() {
        let version = text(bundle, "/identifier");
        let properties = text(bundle, "/properties");
        let Ok(properties) = serde_json::from_str::<Value>(properties) else {
            continue;
        };
        for property in properties["properties"].as_array().into_iter().flatten() {
            let package = text(property, "/value/packageName");
            if package.is_empty() {
                continue;
            }
            match text(property, "/type") {
                "olm.package" => {
                    dependencies.version_of_package.insert(package.to_owned(), version);
                }
                "olm.package.required" => {
                    let packages = dependencies.packages_of_version.entry(version).or_default();
                    packages.insert(package.to_owned());
                }
                _ => {}
            }
        }
    }
    dependencies
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dependencies_are_approved_with_what_needs_them() {
        let bundle = |version: &str, package: &str, needs: &[&str]| {
            let mut properties = vec![json!({"type": "olm.package", "value": {"packageName": package}})];
            let required = needs
                .iter()
                .map(|it| json!({"type": "olm.package.required", "value": {"packageName": it}}));
            properties.extend(required);
            let properties = json!({"properties": properties}).to_string();
            json!({"identifier": version, "properties": properties})
        };
        let plan = json!({"status": {"bundleLookups": [
            bundle("a.v1", "a", &["b"]), bundle("b.v2", "b", &["c", "a"]), bundle("c.v3", "c", &[]),
            bundle("d.v4", "d", &[]), {"identifier": "e.v5", "properties": "no JSON"},
        ]}});
        let mut missing = BTreeSet::from(["a.v1", "b.v2", "c.v3", "d.v4", "e.v5"]);
        retain_unapproved(&mut missing, &plan, "a.v1");
        assert_eq!(missing, BTreeSet::from(["d.v4", "e.v5"]));
    }
}
