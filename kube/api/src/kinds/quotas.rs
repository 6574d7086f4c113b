//! LimitRanges and ResourceQuotas, on which nothing here acts.

use super::{
    defaults::entry,
    strategy::{Columns, Strategy},
    validation::published,
};
use crate::table::cells;
use jiff::Timestamp;
use kube_store::status::FieldError;
use serde_json::{Map, Value};

/// LimitRange.
pub struct LimitRanges;

impl Strategy for LimitRanges {
    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }
}

/// ResourceQuota.
pub struct ResourceQuotas;

impl Strategy for ResourceQuotas {
    fn columns(&self) -> Columns {
        Columns::new("Name|Request|Limit|Age", row)
    }

    fn default(&self, object: &mut Map<String, Value>) {
        entry(object, "spec");
        entry(object, "status");
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }
}

fn row(it: &Value, now: Timestamp) -> Vec<Value> {
    let used = |resource: &str| cells::int_or_string(cells::at(it, &["status", "used", resource]), "0");
    let hard = cells::at(it, &["status", "hard"]).as_object();
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in hard.into_iter().flatten() {
        let target = if resource.starts_with("limits.") {
            &mut limits
        } else {
            &mut requests
        };
        target.push(format!(
            "{resource}: {}/{}",
            used(resource),
            cells::int_or_string(hard, "0")
        ));
    }
    vec![
        cells::name(it),
        requests.join(", ").into(),
        limits.join(", ").into(),
        cells::age(it, now),
    ]
}
