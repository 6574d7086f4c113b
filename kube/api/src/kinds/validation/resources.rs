//! What containers ask for and at most get.

use super::qualified_name;
use crate::pod_resources::{Amounts, amounts};
use kube_store::{
    schema::{metadata::qualified_name_errors, quantity},
    status::FieldError,
};
use serde_json::{Value, json};
use std::cmp::Ordering;

/// Whether Kubernetes itself knows a resource: it has no prefix, or one of its own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a resource is memory in pages of another size.
fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Nobody is given more of a native resource than there is, except of those that can be shared.
fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && qualified_name_errors(&format!("requests.{name}")).is_empty()
}

/// Errors of what one container asks for. `place` is that of its resources.
pub fn of_container(resources: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let (limits, requests) = (amounts(resources, "limits"), amounts(resources, "requests"));
    for (name, given) in &limits {
        let field = format!("{place}.limits[{name}]");
        name_errors(name, &field, errors);
        amount(name, &json!(given), &field, errors);
    }
    for (name, given) in &requests {
        let field = format!("{place}.requests[{name}]");
        name_errors(name, &field, errors);
        amount(name, &json!(given), &field, errors);
        within_limit(name, given, &limits, place, errors);
    }
}

fn name_errors(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    qualified_name(name, field, errors);
    let known = ["cpu", "ephemeral-storage", "memory"].contains(&name) || is_huge_page(name);
    if !name.contains('/') && !known {
        let detail = "must be a standard resource for containers";
        errors.push(FieldError::invalid(field, &json!(name), detail));
    } else if !is_native(name) && !is_extended(name) {
        let detail = "doesn't follow extended resource name standard";
        errors.push(FieldError::invalid(field, &json!(name), detail));
    }
}

/// Errors of an amount: not below nothing, and whole where things are counted.
pub fn amount(name: &str, amount: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let Some(milli) = amount.as_str().and_then(quantity::milli) else {
        return;
    };
    if milli < 0 {
        errors.push(FieldError::invalid(field, amount, "must be greater than or equal to 0"));
    }
    if milli % 1000 != 0 && (name == "pods" || is_extended(name)) {
        errors.push(FieldError::invalid(field, amount, "must be an integer"));
    }
}

fn within_limit(name: &str, amount: &str, limits: &Amounts, place: &str, errors: &mut Vec<FieldError>) {
    let Some(limit) = limits.get(name) else {
        if !may_be_overcommitted(name) {
            let detail = "Limit must be set for non overcommitable resources";
            errors.push(FieldError::required(format!("{place}.limits"), detail));
        }
        return;
    };
    let order = quantity::milli(amount)
        .zip(quantity::milli(limit))
        .map(|(asked, most)| asked.cmp(&most));
    let relation = if order.is_some_and(Ordering::is_ne) && !may_be_overcommitted(name) {
        "equal to"
    } else if order.is_some_and(Ordering::is_gt) {
        "less than or equal to"
    } else {
        return;
    };
    let detail = format!("must be {relation} {name} limit of {limit}");
    errors.push(FieldError::invalid(format!("{place}.requests"), &json!(amount), detail));
}
