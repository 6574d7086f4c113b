//! What containers, and pods as a whole, ask for and at most get, and the devices that are claimed for them.

use super::{invalid_shown, label, list, quotas, subdomain, text};
use crate::pod_resources::{Amounts, amounts, is_huge_page, is_of_pods, of_containers};
use kube_store::{schema::quantity, status::FieldError};
use serde_json::{Map, Value, json};
use std::{cmp::Ordering, collections::BTreeSet};

/// The names under which a pod has claims to devices.
pub(super) type Claims<'p> = BTreeSet<&'p str>;

/// Whether Kubernetes itself knows a resource: it has no prefix, or one of its own.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Nobody is given more of a native resource than there is, except of those that can be shared.
fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Errors of what one container asks for. `place` is that of its resources.
pub(super) fn of_container(resources: &Value, claims: &Claims<'_>, place: &str, errors: &mut Vec<FieldError>) {
    requirements(resources, quotas::container_resource_name, claims, place, errors);
}

/// Errors of what is said of a pod as a whole, besides its containers.
pub(super) fn of_pod(spec: &Value, claims: &Claims<'_>, place: &str, errors: &mut Vec<FieldError>) {
    let (resources, place) = (&spec["resources"], format!("{place}.resources"));
    let Some(spec) = spec.as_object().filter(|_| resources.is_object()) else {
        return;
    };
    if spec.get("os").is_some_and(|it| it["name"] == "windows") {
        errors.push(FieldError::forbidden(place, "may not be set for a windows pod"));
        return;
    }
    if !resources["claims"].is_null() {
        let detail = "claims may not be set for Resources at pod-level";
        errors.push(FieldError::forbidden(format!("{place}.claims"), detail));
    }
    requirements(resources, pod_resource_name, claims, &place, errors);
    consistency(spec, resources, &place, errors);
}

fn pod_resource_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    let before = errors.len();
    quotas::resource_name(name, field, errors);
    if errors.len() == before && !is_of_pods(name) {
        let known = ["cpu", "hugepages-", "memory"];
        errors.push(FieldError::not_supported(field, &json!(name), &known));
    }
}

/// A pod as a whole has what its containers ask for together, and none of them has more than it.
fn consistency(spec: &Map<String, Value>, resources: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let mut holds = |kind: &str, of: &dyn Fn(&str) -> bool| {
        let own = amounts(resources, kind);
        for (name, together) in of_containers(spec, kind).iter().filter(|it| of(it.0)) {
            if let Some(given) = own.get(name)
                && exceeds(together, given)
            {
                let detail = format!("must be greater than or equal to aggregate container {kind} of {together}");
                errors.push(FieldError::invalid(
                    format!("{place}.{kind}[{name}]"),
                    &json!(given),
                    detail,
                ));
            }
        }
    };
    holds("requests", &|_| true);
    holds("limits", &is_huge_page);
    let limits = amounts(resources, "limits");
    let containers = spec.get("containers").and_then(Value::as_array).into_iter().flatten();
    for (at, container) in containers.enumerate() {
        for (name, own) in amounts(&container["resources"], "limits") {
            if let Some(most) = limits.get(&name)
                && exceeds(&own, most)
            {
                let detail = format!("must be less than or equal to pod limits of {most}");
                // Upstream looks for it below the pod's own resources.
                let field = format!("{place}.containers[{at}][{name}].limits");
                errors.push(FieldError::invalid(field, &json!(own), detail));
            }
        }
    }
}

fn compare(left: &str, right: &str) -> Option<Ordering> {
    Some(quantity::milli(left)?.cmp(&quantity::milli(right)?))
}

fn exceeds(left: &str, right: &str) -> bool {
    compare(left, right).is_some_and(Ordering::is_gt)
}

fn requirements(
    resources: &Value,
    name_errors: fn(&str, &str, &mut Vec<FieldError>),
    claims: &Claims<'_>,
    place: &str,
    errors: &mut Vec<FieldError>,
) {
    let (limits, requests) = (amounts(resources, "limits"), amounts(resources, "requests"));
    for (name, amount) in &limits {
        let field = format!("{place}.limits[{name}]");
        name_errors(name, &field, errors);
        quotas::amount(name, &json!(amount), &field, errors);
        page_errors(name, amount, &field, errors);
    }
    for (name, amount) in &requests {
        let field = format!("{place}.requests[{name}]");
        name_errors(name, &field, errors);
        quotas::amount(name, &json!(amount), &field, errors);
        within_limit(name, amount, &limits, place, errors);
        page_errors(name, amount, &field, errors);
    }
    let has = |is_it: &dyn Fn(&str) -> bool| limits.keys().chain(requests.keys()).any(|it| is_it(it));
    if has(&is_huge_page) && !has(&|it| ["cpu", "memory"].contains(&it)) {
        errors.push(FieldError::forbidden(place, "HugePages require cpu or memory"));
    }
    claimed(list(resources, "/claims"), claims, &format!("{place}.claims"), errors);
}

fn within_limit(name: &str, amount: &str, limits: &Amounts, place: &str, errors: &mut Vec<FieldError>) {
    let Some(limit) = limits.get(name) else {
        if !may_be_overcommitted(name) {
            let detail = "Limit must be set for non overcommitable resources";
            errors.push(FieldError::required(format!("{place}.limits"), detail));
        }
        return;
    };
    let order = compare(amount, limit);
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

fn page_errors(name: &str, amount: &str, field: &str, errors: &mut Vec<FieldError>) {
    let Some(page) = name.strip_prefix("hugepages-") else {
        return;
    };
    let bytes = quantity::milli(page).filter(|it| *it > 0 && it % 1000 == 0);
    if bytes.is_none_or(|page| quantity::milli(amount).is_none_or(|it| it % page != 0)) {
        let detail = format!("{amount} is not positive integer multiple of {name}");
        errors.push(FieldError::invalid(field, &json!(amount), detail));
    }
}

/// Errors of what a container uses of the claims of its pod: each once, as a whole or request by request.
fn claimed(given: &[Value], claims: &Claims<'_>, place: &str, errors: &mut Vec<FieldError>) {
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (at, claim) in given.iter().enumerate() {
        let field = format!("{place}[{at}]");
        let (name, request) = (text(claim, "/name"), text(claim, "/request"));
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        if seen.contains(&(name, "")) {
            errors.push(FieldError::duplicate(&field, &json!(name)));
        } else {
            if !request.is_empty() {
                label(request, &format!("{field}.request"), errors);
                if seen.contains(&(name, request)) {
                    errors.push(FieldError::duplicate(&field, &json!(format!("{name}/{request}"))));
                }
            }
            for _ in seen.iter().filter(|it| request.is_empty() && it.0 == name) {
                errors.push(FieldError::duplicate(&field, &json!(name)));
            }
            seen.insert((name, request));
        }
        if !claims.contains(name) {
            let known: Vec<_> = claims.iter().copied().collect();
            let known = match known.as_slice() {
                [] => " which is empty".to_owned(),
                known => format!(": {}", known.join(", ")),
            };
            let mut error = FieldError::not_found(field, &json!(name));
            error.detail += &format!(": must be one of the names in pod.spec.resourceClaims{known}");
            errors.push(error);
        }
    }
}

/// Errors of the claims of a pod, and their names.
pub(super) fn claims_of_pod<'p>(spec: &'p Value, place: &str, errors: &mut Vec<FieldError>) -> Claims<'p> {
    let mut names = Claims::new();
    for (at, claim) in list(spec, "/resourceClaims").iter().enumerate() {
        let field = format!("{place}.resourceClaims[{at}]");
        let name = text(claim, "/name");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{field}.name"), ""));
        } else if names.insert(name) {
            label(name, &format!("{field}.name"), errors);
        } else {
            errors.push(FieldError::duplicate(format!("{field}.name"), &json!(name)));
        }
        let (own, template) = (&claim["resourceClaimName"], &claim["resourceClaimTemplateName"]);
        let detail = match (own.is_null(), template.is_null()) {
            (false, false) => {
                Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
            }
            (true, true) => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            _ => None,
        };
        if let Some(detail) = detail {
            let shown =
                format!(r#"{{"Name":{name:?},"ResourceClaimName":{own},"ResourceClaimTemplateName":{template}}}"#);
            errors.push(invalid_shown(&field, &shown, detail));
        }
        for (key, value) in [("resourceClaimName", own), ("resourceClaimTemplateName", template)] {
            if let Some(name) = value.as_str() {
                subdomain(name, &format!("{field}.{key}"), errors);
            }
        }
    }
    names
}
