//! The CustomResourceDefinitions of an operator.
//! Upstream: config-policy-controller `handleCRDs`.

use serde_json::Value;

use super::{DEFINITION as KIND, OperatorEvaluation, conditions, of_operator, related};
use crate::evaluate::EvaluationFailure;

impl OperatorEvaluation<'_> {
    /// Looks at the definitions of the operator. With one that is deleted all objects of its kind go, so they stay if
    /// the policy does not say otherwise.
    pub(super) async fn definitions(&mut self, subscription: Option<&Value>) -> Result<(), EvaluationFailure> {
        let definitions = match subscription {
            Some(subscription) => self.all(&KIND, "", Some(&of_operator(subscription)?)).await?,
            None => Vec::new(),
        };
        if definitions.is_empty() {
            let none = related::inapplicable(&KIND, "No relevant CustomResourceDefinitions found");
            self.say(conditions::no_definitions(), vec![none]);
            return Ok(());
        }
        if !self.must_not_have() {
            let found = definitions.iter().map(|it| related::matched(&KIND, it)).collect();
            self.say(conditions::definitions_found(), found);
            return Ok(());
        }
        let behavior = &self.spec.removal_behavior.custom_resource_definitions;
        if behavior.is_empty() || behavior.eq_ignore_ascii_case("Keep") {
            let left = definitions.iter().map(|it| related::leftover(&KIND, it)).collect();
            self.say(conditions::kept(&KIND), left);
            return Ok(());
        }
        self.remove(&KIND, &definitions, &[]).await
    }
}
