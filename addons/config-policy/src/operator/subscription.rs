//! The Subscription of an operator: what makes OLM install it.
//! Upstream: config-policy-controller `handleSubscription`.

use serde_json::{Map, Value};

use super::{
    MANAGED, OperatorEvaluation, SUBSCRIPTION as KIND, conditions, failed, is_going, related, spec::WantedSubscription,
    status::status, wanted::WantedOperator,
};
use crate::evaluate::EvaluationFailure;

impl OperatorEvaluation<'_> {
    /// Looks at the Subscription; returns it as it is afterwards, or as it is wanted while it is not there. `None`
    /// where the policy is invalid.
    pub(super) async fn subscription(
        &mut self,
        wanted: &WantedOperator,
        group_is_right: bool,
    ) -> Result<Option<Value>, EvaluationFailure> {
        let Some(wanted) = &wanted.subscription else {
            self.say(conditions::unknown(&KIND), Vec::new());
            return Ok(None);
        };
        let found = self.find(&KIND, &wanted.namespace, wanted.name()).await?;
        let found = found.as_deref();
        let subscription = match (self.must_not_have(), found) {
            (false, None) => self.make_subscription(wanted, group_is_right).await,
            (false, Some(existing)) => self.match_subscription(wanted, existing).await,
            (true, found) => self.unwanted_subscription(wanted, found).await,
        };
        subscription.map(Some)
    }

    async fn make_subscription(
        &mut self,
        wanted: &WantedSubscription,
        group_is_right: bool,
    ) -> Result<Value, EvaluationFailure> {
        status(self.policy).subscription_intervention_time = None;
        let missing = related::missing(&KIND, &wanted.namespace, wanted.name());
        let news = self.say(conditions::missing(&KIND), vec![missing]);
        let mut object = wanted.object();
        if !self.enforces() || !group_is_right {
            return Ok(object);
        }
        self.say_early(news);
        mark(&mut object, &self.mark());
        let created = self.create(&KIND, &object).await?;
        self.say(conditions::created(&KIND), vec![related::created(&KIND, &created)]);
        Ok(created)
    }

    async fn match_subscription(
        &mut self,
        wanted: &WantedSubscription,
        existing: &Value,
    ) -> Result<Value, EvaluationFailure> {
        let mut object = wanted.object();
        if !self.enforces()
            && let Some(spec) = object["spec"].as_object_mut()
        {
            // Nobody can say it in a policy, so it is no violation when somebody has said it on the cluster.
            spec.remove("installPlanApproval");
        }
        let mut merged = self.merged(&KIND, &object, existing, &["config"]).await?;
        if self.enforces() {
            merged.differs |= mark(&mut merged.object, &self.mark());
        }
        if !merged.differs {
            return self.resolved(existing).await.map(|()| existing.clone());
        }
        status(self.policy).subscription_intervention_time = None;
        let mismatched = related::mismatched(&KIND, existing);
        if self.enforces() && merged.forbidden {
            self.say(conditions::unfixable(&KIND), vec![mismatched]);
            return Ok(merged.object);
        }
        let news = self.say(conditions::mismatch(&KIND), vec![mismatched]);
        if !self.enforces() {
            return Ok(merged.object);
        }
        self.say_early(news);
        let kind = self.served(&KIND).await?;
        let updated = self.cluster.update(&kind, &merged.object, false).await;
        let updated = updated.map_err(|error| failed("updating the Subscription", &error))?;
        self.say(conditions::updated(&KIND), vec![related::updated(&KIND, &updated)]);
        Ok(updated)
    }

    async fn unwanted_subscription(
        &mut self,
        unwanted: &WantedSubscription,
        found: Option<&Value>,
    ) -> Result<Value, EvaluationFailure> {
        status(self.policy).subscription_intervention_time = None;
        let Some(existing) = found else {
            let absent = related::absent(&KIND, &unwanted.namespace, unwanted.name());
            self.say(conditions::absent(&KIND), vec![absent]);
            return Ok(unwanted.object());
        };
        let subscription = existing.clone();
        if self.spec.removal_behavior.subscriptions.eq_ignore_ascii_case("Keep") {
            self.say(conditions::kept(&KIND), vec![related::leftover(&KIND, existing)]);
            return Ok(subscription);
        }
        if self.enforces() && is_going(existing) {
            self.say(
                conditions::deleting(&KIND, &[]),
                vec![related::deleting(&KIND, existing)],
            );
            return Ok(subscription);
        }
        let news = self.say(conditions::present(&KIND, &[]), vec![related::present(&KIND, existing)]);
        if !self.enforces() {
            return Ok(subscription);
        }
        self.say_early(news);
        self.delete(&KIND, existing).await?;
        self.say(conditions::deleted(&KIND, &[]), vec![related::deleted(&KIND, existing)]);
        Ok(subscription)
    }
}

/// Marks a Subscription as one that a policy takes care of; whether it was not.
fn mark(subscription: &mut Value, policy: &str) -> bool {
    let mut marked = false;
    let metadata = &mut subscription["metadata"];
    for field in ["labels", "annotations"] {
        if !metadata[field].is_object() {
            metadata[field] = Value::Object(Map::new());
        }
    }
    if metadata["labels"].get(MANAGED).is_none() {
        metadata["labels"][MANAGED] = "".into();
        marked = true;
    }
    if metadata["annotations"][MANAGED] != policy {
        metadata["annotations"][MANAGED] = policy.into();
        marked = true;
    }
    marked
}
