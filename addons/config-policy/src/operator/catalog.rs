//! The CatalogSource of an operator: where OLM has it from.
//! Upstream: config-policy-controller `handleCatalogSource`.

use serde_json::Value;

use super::{
    CATALOG_SOURCE as KIND, OperatorEvaluation, conditions,
    related::{self, CatalogState},
    status::drop_condition,
    text,
};
use crate::evaluate::{EvaluationFailure, NON_COMPLIANT};

impl OperatorEvaluation<'_> {
    /// Looks at the catalog of a Subscription.
    pub(super) async fn catalog(&mut self, subscription: Option<&Value>) -> Result<(), EvaluationFailure> {
        let unwanted = self.must_not_have();
        let Some(subscription) = subscription else {
            self.say(
                match unwanted {
                    true => conditions::not_applicable(&KIND),
                    false => conditions::unknown(&KIND),
                },
                Vec::new(),
            );
            return Ok(());
        };
        let (name, namespace) = (
            text(subscription, "/spec/source"),
            text(subscription, "/spec/sourceNamespace"),
        );
        let catalog = match name.is_empty() || namespace.is_empty() {
            true => None,
            false => self.find(&KIND, namespace, name).await?,
        };
        if unwanted {
            let object = match catalog {
                Some(catalog) => related::not_applicable(&KIND, &catalog),
                None => related::absent(&KIND, namespace, name),
            };
            self.say(conditions::not_applicable(&KIND), vec![object]);
            return Ok(());
        }
        let state = catalog.as_deref().map_or(CatalogState::Missing, state);
        let tolerated = self.spec.compliance_config.catalog_source_unhealthy != NON_COMPLIANT;
        let (condition, compliant) = match state {
            CatalogState::Healthy => (conditions::catalog_found(), true),
            CatalogState::Unhealthy => (conditions::catalog_unhealthy(tolerated), tolerated),
            CatalogState::Missing => (conditions::catalog_missing(tolerated, name), tolerated),
            CatalogState::Unknown => (conditions::catalog_unknown(), false),
        };
        if state != CatalogState::Unknown {
            drop_condition(self.policy, conditions::CATALOG_UNKNOWN);
        }
        let object = related::catalog(&KIND, (namespace, name), state, compliant);
        self.say(condition, vec![object]);
        Ok(())
    }
}

fn state(catalog: &Value) -> CatalogState {
    match catalog.pointer("/status/connectionState") {
        None | Some(Value::Null) => CatalogState::Unknown,
        Some(connection) if connection["lastObservedState"] == "READY" => CatalogState::Healthy,
        Some(_) => CatalogState::Unhealthy,
    }
}
