//! The OperatorGroup of an operator: which namespaces it is for.
//! Upstream: config-policy-controller `handleOpGroup`.

use std::sync::Arc;

use serde_json::Value;

use super::{
    OPERATOR_GROUP as KIND, OperatorEvaluation, SUBSCRIPTION, conditions, failed, is_going, name, of_metadata, related,
    spec::WantedGroup, wanted::WantedOperator,
};
use crate::evaluate::EvaluationFailure;

impl OperatorEvaluation<'_> {
    /// Looks at the OperatorGroup; whether a Subscription may rely on it.
    pub(super) async fn group(&mut self, wanted: &WantedOperator) -> Result<bool, EvaluationFailure> {
        let Some(group) = &wanted.group else {
            self.say(conditions::unknown(&KIND), Vec::new());
            return Ok(false);
        };
        let found = self.all(&KIND, &group.namespace, None).await?;
        if self.must_not_have() {
            let subscription = wanted.subscription.as_ref().map(|it| it.name()).unwrap_or_default();
            self.unwanted_group(group, &found, subscription).await?;
            return Ok(false);
        }
        match found.as_slice() {
            [] => self.make_group(group).await,
            [one] => self.match_group(group, one).await,
            several => {
                self.too_many_groups(several);
                Ok(false)
            }
        }
    }

    fn too_many_groups(&mut self, groups: &[Arc<Value>]) {
        let reason = "There is more than one OperatorGroup in this namespace";
        let objects = groups.iter().map(|it| related::wrong(&KIND, it, reason)).collect();
        self.say(conditions::too_many_groups(), objects);
    }

    async fn make_group(&mut self, wanted: &WantedGroup) -> Result<bool, EvaluationFailure> {
        let name = wanted.name.as_deref().unwrap_or_default();
        let missing = related::missing(&KIND, &wanted.namespace, name);
        let news = self.say(conditions::missing(&KIND), vec![missing]);
        if !self.enforces() {
            return Ok(false);
        }
        self.say_early(news);
        let created = self.create(&KIND, &wanted.object()).await?;
        self.say(conditions::created(&KIND), vec![related::created(&KIND, &created)]);
        Ok(true)
    }

    async fn match_group(&mut self, wanted: &WantedGroup, existing: &Value) -> Result<bool, EvaluationFailure> {
        if !is_meant(wanted, existing) {
            if !wanted.is_described() {
                self.group_of_somebody(existing);
                return Ok(true);
            }
            // A second one would only stop OLM.
            let missing = related::missing(&KIND, &wanted.namespace, wanted.name.as_deref().unwrap_or_default());
            let objects = vec![missing, related::mismatched(&KIND, existing)];
            self.say(conditions::mismatch(&KIND), objects);
            return Ok(false);
        }
        let whole = ["targetNamespaces", "selector"];
        let merged = self.merged(&KIND, &wanted.object(), existing, &whole).await?;
        if !merged.differs {
            self.say(conditions::matches(&KIND), vec![related::matched(&KIND, existing)]);
            return Ok(true);
        }
        if !wanted.is_described() {
            self.group_of_somebody(existing);
            return Ok(true);
        }
        if self.enforces() && merged.forbidden {
            let mismatched = related::mismatched(&KIND, existing);
            self.say(conditions::unfixable(&KIND), vec![mismatched]);
            return Ok(false);
        }
        let news = self.say(conditions::mismatch(&KIND), vec![related::mismatched(&KIND, existing)]);
        if !self.enforces() {
            return Ok(false);
        }
        self.say_early(news);
        let kind = self.served(&KIND).await?;
        let updated = self.cluster.update(&kind, &merged.object, false).await;
        let updated = updated.map_err(|error| failed("updating the OperatorGroup", &error))?;
        self.say(conditions::updated(&KIND), vec![related::updated(&KIND, &updated)]);
        Ok(true)
    }

    fn group_of_somebody(&mut self, existing: &Value) {
        let matched = related::matched(&KIND, existing);
        self.say(conditions::group_of_somebody(), vec![matched]);
    }

    async fn unwanted_group(
        &mut self,
        unwanted: &WantedGroup,
        found: &[Arc<Value>],
        subscription: &str,
    ) -> Result<(), EvaluationFailure> {
        let absent = related::absent(&KIND, &unwanted.namespace, unwanted.name.as_deref().unwrap_or_default());
        let existing = match found {
            [] => {
                self.say(conditions::absent(&KIND), vec![absent]);
                return Ok(());
            }
            [one] => one,
            several => {
                self.too_many_groups(several);
                return Ok(());
            }
        };
        if self.keeps_group(unwanted, subscription).await? {
            self.say(conditions::kept(&KIND), vec![related::leftover(&KIND, existing)]);
            return Ok(());
        }
        if !is_meant(unwanted, existing) {
            self.say(conditions::absent(&KIND), vec![absent]);
            return Ok(());
        }
        let owners = existing["metadata"]["ownerReferences"].as_array();
        if owners.is_some_and(|it| !it.is_empty()) {
            // Something else takes care of it.
            self.say(conditions::kept(&KIND), vec![related::leftover(&KIND, existing)]);
            return Ok(());
        }
        if self.enforces() && is_going(existing) {
            self.say(
                conditions::deleting(&KIND, &[]),
                vec![related::deleting(&KIND, existing)],
            );
            return Ok(());
        }
        let news = self.say(conditions::present(&KIND, &[]), vec![related::present(&KIND, existing)]);
        if !self.enforces() {
            return Ok(());
        }
        self.say_early(news);
        self.delete(&KIND, existing).await?;
        self.say(conditions::deleted(&KIND, &[]), vec![related::deleted(&KIND, existing)]);
        Ok(())
    }

    /// Whether an OperatorGroup stays that is not wanted: other Subscriptions may need it.
    async fn keeps_group(&self, unwanted: &WantedGroup, subscription: &str) -> Result<bool, EvaluationFailure> {
        let behavior = &self.spec.removal_behavior.operator_groups;
        if behavior.eq_ignore_ascii_case("Keep") {
            return Ok(true);
        }
        if !behavior.is_empty() && !behavior.eq_ignore_ascii_case("DeleteIfUnused") {
            return Ok(false);
        }
        let subscriptions = self.all(&SUBSCRIPTION, &unwanted.namespace, None).await?;
        Ok(subscriptions.iter().any(|it| name(it) != subscription))
    }
}

/// Whether an OperatorGroup is the one that a policy is about.
fn is_meant(wanted: &WantedGroup, existing: &Value) -> bool {
    match &wanted.name {
        Some(wanted) => name(existing) == wanted,
        None => of_metadata(existing, "generateName") == wanted.generate_name(),
    }
}
