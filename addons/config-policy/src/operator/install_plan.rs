//! The InstallPlan of an operator: what OLM is going to install, once somebody approves.
//! Upstream: config-policy-controller `handleInstallPlan`.

use std::sync::Arc;

use serde_json::Value;

use super::{INSTALL_PLAN as KIND, OperatorEvaluation, conditions, failed, namespace, related, text};
use crate::evaluate::{EvaluationFailure, NON_COMPLIANT};

impl OperatorEvaluation<'_> {
    /// Looks at the InstallPlan of a Subscription, and approves it if the policy does.
    pub(super) async fn install_plan(&mut self, subscription: Option<&Value>) -> Result<(), EvaluationFailure> {
        let Some(subscription) = subscription else {
            self.say(conditions::unknown(&KIND), Vec::new());
            return Ok(());
        };
        let (current, installed) = (
            text(subscription, "/status/currentCSV"),
            text(subscription, "/status/installedCSV"),
        );
        let namespace = namespace(subscription);
        let mut plan = None;
        if !current.is_empty() || !installed.is_empty() {
            let plans = self.all(&KIND, namespace, None).await?;
            plan = latest(&plans, current, installed).cloned();
        }
        // OLM keeps old ones as a history that anybody may delete: that there is none is no violation.
        let Some(plan) = plan else {
            let none = related::no_install_plans(namespace);
            self.say(conditions::no_install_plans(), vec![none]);
            return Ok(());
        };
        if self.must_not_have() {
            let found = related::not_applicable(&KIND, &plan);
            self.say(conditions::not_applicable(&KIND), vec![found]);
            return Ok(());
        }
        self.judge_plan(subscription, &plan).await
    }

    async fn judge_plan(&mut self, subscription: &Value, plan: &Value) -> Result<(), EvaluationFailure> {
        let tolerated = self.spec.compliance_config.upgrades_available != NON_COMPLIANT;
        let current = text(subscription, "/status/currentCSV");
        let installed = text(subscription, "/status/installedCSV");
        let versions: Vec<&str> = versions(plan).collect();
        let condition = match text(plan, "/status/phase") {
            "RequiresApproval" if !installed.is_empty() && installed == current => {
                // It offers what there is already.
                self.say(conditions::nothing_to_approve(), Vec::new());
                return Ok(());
            }
            "RequiresApproval" => self.approve(subscription, plan, &versions, tolerated).await?,
            "Installing" => conditions::installing(),
            "Failed" if versions.len() == 1 || has_failed(plan, current) => conditions::install_plan_failed(),
            // Another operator's part of it has failed.
            "Failed" => {
                self.say(conditions::nothing_to_approve(), Vec::new());
                return Ok(());
            }
            _ => conditions::nothing_to_approve(),
        };
        self.say(condition, vec![related::install_plan(plan, tolerated)]);
        Ok(())
    }

    /// Approves an InstallPlan, if the policies do; what is to be said of it.
    async fn approve(
        &mut self,
        subscription: &Value,
        plan: &Value,
        versions: &[&str],
        tolerated: bool,
    ) -> Result<conditions::OperatorCondition, EvaluationFailure> {
        let current = text(subscription, "/status/currentCSV");
        // It may be that OLM has not begun yet.
        if plan["spec"]["approved"] == true {
            return Ok(conditions::approved(current));
        }
        let first = text(subscription, "/status/installedCSV").is_empty();
        if !self.enforces() || !first && self.spec.upgrade_approval != "Automatic" {
            return Ok(conditions::upgrade_available(tolerated, versions, &[]));
        }
        let unapproved = self.unapproved(subscription, plan, versions).await?;
        if !unapproved.is_empty() {
            return Ok(conditions::upgrade_available(tolerated, versions, &unapproved));
        }
        let mut approved = plan.clone();
        approved["spec"]["approved"] = true.into();
        let kind = self.served(&KIND).await?;
        let updated = self.cluster.update(&kind, &approved, false).await;
        updated.map_err(|error| failed("updating approved InstallPlan", &error))?;
        Ok(conditions::approved(current))
    }
}

/// The versions that an InstallPlan installs.
fn versions(plan: &Value) -> impl Iterator<Item = &str> {
    let names = plan["spec"]["clusterServiceVersionNames"].as_array();
    names.into_iter().flatten().filter_map(Value::as_str)
}

/// The latest InstallPlan with the installed version, or the one that is available. One that is installing the latter,
/// or has, comes first: OLM may make a later one by mistake.
fn latest<'p>(plans: &'p [Arc<Value>], current: &str, installed: &str) -> Option<&'p Arc<Value>> {
    let has = |plan: &Value, version: &str| !version.is_empty() && versions(plan).any(|it| it == version);
    let begun = |it: &&Arc<Value>| matches!(text(it, "/status/phase"), "Installing" | "Complete") && has(it, current);
    if let Some(plan) = plans.iter().find(begun) {
        return Some(plan);
    }
    let relevant = plans.iter().filter(|it| has(it, current) || has(it, installed));
    let numbered = relevant.filter_map(|it| Some((it["spec"]["generation"].as_i64()?, it)));
    // The first of several with one number.
    let latest = numbered.reduce(|one, other| if other.0 > one.0 { other } else { one });
    latest.map(|(_, plan)| plan)
}

/// Whether the part of an InstallPlan has failed that installs this version.
fn has_failed(plan: &Value, version: &str) -> bool {
    let steps = plan.pointer("/status/plan").and_then(Value::as_array);
    let mut steps = steps.into_iter().flatten().filter(|it| it["resolving"] == version);
    steps.any(|it| !matches!(text(it, "/status"), "Created" | "Present"))
}
