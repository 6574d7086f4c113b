//! What the containers of a pod ask for and at most get.

use kube_store::schema::quantity;
use serde_json::Value;
use std::collections::BTreeMap;

/// Amounts by the names of resources.
pub type Amounts = BTreeMap<String, String>;

/// The amounts of one kind, `requests` or `limits`, in what says both.
pub fn amounts(resources: &Value, kind: &str) -> Amounts {
    let given = resources[kind].as_object().into_iter().flatten();
    given
        .filter_map(|(name, it)| Some((name.clone(), it.as_str()?.to_owned())))
        .collect()
}

/// Adds amounts to others.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = match total.get(name) {
            None => Some(amount.clone()),
            Some(before) => quantity::sum(before, amount),
        };
        if let Some(sum) = sum {
            total.insert(name.clone(), sum);
        }
    }
}
