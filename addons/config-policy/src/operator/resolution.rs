//! A Subscription that OLM cannot resolve: what is said of it, and the one case in which the policy helps, a
//! ClusterServiceVersion that is there and belongs to no Subscription.
//! Upstream: config-policy-controller `considerResolutionFailed`.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ocm_addon_sdk::{
    k8s_openapi::apimachinery::pkg::apis::meta::v1::Time, ocm_api::policy::operator_policy::OperatorPolicy,
};
use serde_json::Value;

use super::{
    CSV, OperatorEvaluation, SUBSCRIPTION as KIND, conditions, failed, name, namespace, related,
    status::{condition, status},
    text,
};
use crate::evaluate::EvaluationFailure;

/// So long OLM is left alone with it.
const GRACE: SignedDuration = SignedDuration::from_secs(30);
/// So long after that the policy may still help; later it waits anew.
const HELP_WITHIN: SignedDuration = SignedDuration::from_secs(10);

/// How long the policy has to wait before it helps, if it does.
pub fn wait(policy: &OperatorPolicy, now: Timestamp) -> Option<Duration> {
    let at = intervention(policy)?;
    let wait = Duration::try_from(at.duration_since(now)).ok()?;
    // Times in a status have no fractions of a second.
    (at > now).then_some(wait + Duration::from_secs(1))
}

fn intervention(policy: &OperatorPolicy) -> Option<Timestamp> {
    Some(policy.status.as_ref()?.subscription_intervention_time.as_ref()?.0)
}

impl OperatorEvaluation<'_> {
    /// Looks at what OLM says of a Subscription that is as it is wanted.
    pub(super) async fn resolved(&mut self, subscription: &Value) -> Result<(), EvaluationFailure> {
        let conditions = subscription.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        let failed = conditions.find(|it| it["type"] == "ResolutionFailed" && it["status"] == "True");
        let Some(failed) = failed else {
            self.forget_expired();
            self.say(conditions::matches(&KIND), vec![related::matched(&KIND, subscription)]);
            return Ok(());
        };
        let message = text(failed, "/message");
        let reason = match text(failed, "/reason") {
            "" => "ResolutionFailed",
            reason => reason,
        };
        if !reason.eq_ignore_ascii_case("ConstraintsNotSatisfiable") {
            let wrong = related::wrong(&KIND, subscription, reason);
            self.say(conditions::not_resolved(reason, message), vec![wrong]);
            self.forget_expired();
            return Ok(());
        }
        if !is_about(subscription, message) {
            // OLM says it of all Subscriptions in the namespace. What was known of this one stays.
            if condition(self.policy, KIND.condition).is_none() {
                let wrong = related::wrong(&KIND, subscription, reason);
                self.say(conditions::not_resolved(reason, message), vec![wrong]);
            }
            self.forget_expired();
            return Ok(());
        }
        // The message of OLM is another one each time.
        let wrong = related::wrong(&KIND, subscription, "ConstraintsNotSatisfiable");
        self.say(conditions::not_satisfiable(), vec![wrong]);
        let Some(version) = unreferenced_version(message) else {
            self.forget_expired();
            return Ok(());
        };
        match intervention(self.policy) {
            Some(at) if at > self.now => Ok(()),
            Some(at) if at >= self.now - HELP_WITHIN => self.adopt(subscription, version).await,
            _ => {
                let at = self.now + GRACE;
                status(self.policy).subscription_intervention_time = Some(Time(at));
                Ok(())
            }
        }
    }

    fn forget_expired(&mut self) {
        if intervention(self.policy).is_some_and(|at| at < self.now - HELP_WITHIN) {
            status(self.policy).subscription_intervention_time = None;
        }
    }

    /// Makes a Subscription point to a version that is there.
    async fn adopt(&mut self, subscription: &Value, version: &str) -> Result<(), EvaluationFailure> {
        let points = |field: &str| !text(subscription, field).is_empty();
        if points("/status/installedCSV") || points("/status/currentCSV") {
            return Ok(());
        }
        let Some(existing) = self.find(&CSV, namespace(subscription), version).await? else {
            return Ok(());
        };
        if is_copied(&existing) {
            return Ok(());
        }
        let mut subscription = subscription.clone();
        subscription["status"]["currentCSV"] = name(&existing).into();
        if text(&subscription, "/status/lastUpdated").is_empty() {
            let now = self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            subscription["status"]["lastUpdated"] = now.into();
        }
        let kind = self.served(&KIND).await?;
        let updated = self.cluster.update_status(&kind, &subscription).await;
        let updated = updated.map_err(|error| {
            failed(
                "updating the Subscription status to point to the ClusterServiceVersion",
                &error,
            )
        })?;
        self.say(conditions::updated(&KIND), vec![related::updated(&KIND, &updated)]);
        Ok(())
    }
}

/// Whether OLM has copied a version from another namespace.
fn is_copied(version: &Value) -> bool {
    let operator_namespace = version["metadata"]["annotations"]["olm.operatorNamespace"].as_str();
    text(version, "/status/reason") == "Copied"
        || operator_namespace.is_some_and(|it| it != namespace(version))
        || version["metadata"]["labels"].get(super::elsewhere::COPIED).is_some()
}

/// Whether a message about constraints names this Subscription or its package, and not one whose name only begins
/// alike.
fn is_about(subscription: &Value, message: &str) -> bool {
    let namespace = namespace(subscription);
    let names = [
        ("subscription", name(subscription)),
        ("package", text(subscription, "/spec/name")),
    ];
    names.iter().any(|(what, name)| {
        [format!("{what} {name}"), format!("{what} {namespace}/{name}")]
            .iter()
            .any(|named| {
                let ends = message
                    .match_indices(named.as_str())
                    .map(|(at, it)| &message[at + it.len()..]);
                let mut ends = ends.map(|it| it.chars().next());
                ends.any(|it| it.is_none_or(|it| it.is_whitespace() || it == ',' || it == ':'))
            })
    })
}

/// The version that OLM says is there and belongs to nobody.
fn unreferenced_version(message: &str) -> Option<&str> {
    let mut after = message.split("clusterserviceversion ").skip(1);
    after.find_map(|it| {
        let (version, rest) = it.split_once(' ')?;
        rest.starts_with("exists and is not referenced").then_some(version)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_is_about_one_subscription_alone() {
        let subscription = json!({"metadata": {"name": "gate", "namespace": "ops"}, "spec": {"name": "gate"}});
        for (message, about) in [
            (
                "no operators found from catalog c in namespace n referenced by subscription gate",
                true,
            ),
            (
                "multiple name matches for status.installedCSV of subscription ops/gate: a",
                true,
            ),
            ("no operators found in package gate, in the catalog", true),
            ("no operators found in package gate-product in the catalog", false),
            ("referenced by subscription gatekeeper", false),
        ] {
            assert_eq!(is_about(&subscription, message), about, "{message}");
        }
    }

    #[test]
    fn a_version_without_subscription_is_found_in_the_message() {
        let message = "constraints not satisfiable: subscription gate exists, clusterserviceversion gate.v1 exists and is \
                       not referenced by a subscription";
        assert_eq!(unreferenced_version(message), Some("gate.v1"));
        assert_eq!(unreferenced_version("clusterserviceversion gate.v1 is fine"), None);
    }
}
