//! Objects of OLM as a policy wants them, by `musthave` merging: what the policy does not say stays.
//! Upstream: config-policy-controller `mergeObjects`.

use serde_json::{Map, Value};

use super::{OperatorEvaluation, OperatorKind, failed, failure};
use crate::evaluate::{
    EvaluationFailure, Remedy,
    compare::equivalent,
    keys::{KeyRules, compare_keys, without_noise},
};

/// What an object becomes.
pub struct MergedObject {
    /// The object as it would be.
    pub object: Value,
    /// Whether that is a change.
    pub differs: bool,
    /// Whether the cluster refuses the change.
    pub forbidden: bool,
}

impl OperatorEvaluation<'_> {
    /// Merges what is wanted into what there is. The fields of the spec in `whole` are taken as they are wanted, with
    /// nothing else in them. The API server has the last word, in a dry run.
    pub(super) async fn merged(
        &self,
        kind: &OperatorKind,
        wanted: &Value,
        existing: &Value,
        whole: &[&str],
    ) -> Result<MergedObject, EvaluationFailure> {
        let mut base = existing.clone();
        let mut replaced = false;
        for field in whole {
            let value = &wanted["spec"][field];
            if !is_given(value) {
                continue;
            }
            let existing = &existing["spec"][field];
            if !existing.is_null() && equivalent(value, existing, true).equal {
                continue;
            }
            if !base["spec"].is_object() {
                base["spec"] = Value::Object(Map::new());
            }
            base["spec"][field] = value.clone();
            replaced = true;
        }
        let rules = KeyRules {
            only: false,
            only_metadata: false,
        };
        let compared = compare_keys(wanted, &base, rules).map_err(|why| {
            let message = format!("error checking if the {} needs an update: {why}", kind.kind);
            failure(Remedy::Again, message)
        })?;
        let mut merged = MergedObject {
            object: compared.merged,
            differs: compared.differs || replaced,
            forbidden: false,
        };
        if merged.differs {
            let served = self.served(kind).await?;
            match self.cluster.update(&served, &merged.object, true).await {
                Ok(tried) => merged.differs = !same(&tried, existing),
                Err(error) if error.code == 403 => merged.forbidden = true,
                Err(error) => {
                    let operation = format!("checking if the {} needs an update", kind.kind);
                    return Err(failed(&operation, &error));
                }
            }
        }
        Ok(merged)
    }
}

/// Whether a field says something.
fn is_given(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(it) => !it.is_empty(),
        Value::Object(it) => !it.is_empty(),
        _ => true,
    }
}

/// Whether two objects are the same, whatever their versions.
fn same(one: &Value, other: &Value) -> bool {
    let comparable = |it: &Value| {
        let mut it = without_noise(it);
        if let Some(metadata) = it.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        it
    };
    comparable(one) == comparable(other)
}
