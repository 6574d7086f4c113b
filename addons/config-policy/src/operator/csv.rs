//! The ClusterServiceVersion of an operator: what OLM has installed.
//! Upstream: config-policy-controller `handleCSV`.

use std::sync::Arc;

use serde_json::Value;

use super::{CSV as KIND, OperatorEvaluation, conditions, is_going, name, namespace, of_operator, related, text};
use crate::evaluate::EvaluationFailure;

impl OperatorEvaluation<'_> {
    /// Looks at the ClusterServiceVersions of a Subscription; the installed one.
    pub(super) async fn service_version(
        &mut self,
        subscription: Option<&Value>,
    ) -> Result<Option<Arc<Value>>, EvaluationFailure> {
        let Some(subscription) = subscription else {
            let none = related::inapplicable(&KIND, "No relevant ClusterServiceVersion found");
            self.say(conditions::no_version(), vec![none]);
            return Ok(None);
        };
        let namespace = namespace(subscription);
        let versions = self.all(&KIND, namespace, Some(&of_operator(subscription)?)).await?;
        let installed = text(subscription, "/status/installedCSV");
        let found = versions.iter().find(|it| name(it) == installed).cloned();
        if self.must_not_have() {
            self.unwanted_versions(&versions, namespace).await?;
            return Ok(found);
        }
        match &found {
            Some(version) => self.judge_version(version),
            None => {
                // As long as OLM does not say which one it is, it may be any.
                let any = versions.iter().filter(|_| installed.is_empty());
                let mut objects: Vec<_> = any.map(|it| related_version(it)).collect();
                if objects.is_empty() {
                    objects.push(related::missing(&KIND, namespace, name(subscription)));
                }
                self.say(conditions::missing(&KIND), objects);
            }
        }
        Ok(found)
    }

    /// What is said of the installed version.
    pub(super) fn judge_version(&mut self, version: &Value) {
        let found = name(version);
        let approved = self.versions.is_empty() || self.versions.iter().any(|it| it == found) || found == self.starting;
        if !approved {
            let condition = conditions::unapproved_version(found);
            let wrong = related::wrong(&KIND, version, &condition.message);
            self.say(condition, vec![wrong]);
            return;
        }
        let reason = reason(version);
        let condition = conditions::installed(found, succeeded(version), reason, text(version, "/status/message"));
        self.say(condition, vec![related_version(version)]);
    }

    async fn unwanted_versions(&mut self, versions: &[Arc<Value>], namespace: &str) -> Result<(), EvaluationFailure> {
        if versions.is_empty() {
            let absent = related::absent(&KIND, namespace, "");
            self.say(conditions::absent(&KIND), vec![absent]);
            return Ok(());
        }
        if self
            .spec
            .removal_behavior
            .cluster_service_versions
            .eq_ignore_ascii_case("Keep")
        {
            let left = versions.iter().map(|it| related::leftover(&KIND, it)).collect();
            self.say(conditions::kept(&KIND), left);
            return Ok(());
        }
        let names: Vec<&str> = versions.iter().map(|it| name(it)).collect();
        self.remove(&KIND, versions, &names).await
    }

    /// Deletes objects that are not wanted, if the policy enforces that. `names`: which ones, where conditions name
    /// them.
    pub(super) async fn remove(
        &mut self,
        kind: &super::OperatorKind,
        objects: &[Arc<Value>],
        names: &[&str],
    ) -> Result<(), EvaluationFailure> {
        let mut listed: Vec<_> = objects.iter().map(|it| related::present(kind, it)).collect();
        let any_going = objects.iter().any(|it| is_going(it));
        if self.enforces() && any_going {
            // What was said of them stays: the state would change back and forth otherwise.
            for (entry, object) in listed.iter_mut().zip(objects) {
                if !is_going(object) {
                    self.delete(kind, object).await?;
                }
                *entry = match is_going(object) {
                    true => related::deleting(kind, object),
                    false => related::deleted(kind, object),
                };
            }
            self.say(conditions::deleting(kind, names), listed);
            return Ok(());
        }
        let news = self.say(conditions::present(kind, names), listed.clone());
        if !self.enforces() {
            return Ok(());
        }
        self.say_early(news);
        for at in 0..objects.len() {
            if let Err(failure) = self.delete(kind, &objects[at]).await {
                self.say(conditions::present(kind, names), listed);
                return Err(failure);
            }
            listed[at] = related::deleted(kind, &objects[at]);
        }
        self.say(conditions::deleted(kind, names), listed);
        Ok(())
    }
}

fn succeeded(version: &Value) -> bool {
    text(version, "/status/phase") == "Succeeded"
}

/// A condition needs a reason, and OLM may not have one yet.
fn reason(version: &Value) -> &str {
    match (text(version, "/status/reason"), text(version, "/status/phase")) {
        ("", "") => "Unknown",
        ("", phase) => phase,
        (reason, _) => reason,
    }
}

fn related_version(version: &Value) -> ocm_addon_sdk::ocm_api::policy::operator_policy::OperatorObject {
    related::installed(&KIND, version, succeeded(version), text(version, "/status/reason"))
}
