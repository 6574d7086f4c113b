//! Rules of single fields, a line each, and what is said of one that is broken, in the words of kube-apiserver.

use super::{PROTOCOLS, at, label, qualified_name, subdomain};
use FieldRule::{AtLeast, Between, Immutable, Label, OneOf, Qualified, Subdomain};
use kube_store::status::FieldError;
use serde_json::Value;

/// What a field has to be where it is there.
pub enum FieldRule {
    AtLeast(i64),
    Between(i64, i64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// What it was made as.
    Immutable,
    Label,
    Subdomain,
    Qualified,
}

/// Fields with their rules. `a|b` are several fields, `a[]` is each item of a list.
pub type FieldRules = &'static [(&'static str, FieldRule)];

pub const CLUSTER_OR_LOCAL: FieldRule = OneOf(&["Cluster", "Local"]);
pub const FAIL_OR_IGNORE: FieldRule = OneOf(&["Fail", "Ignore"]);
pub const MATCHES: FieldRule = OneOf(&["Equivalent", "Exact"]);
pub const SCOPES: FieldRule = OneOf(&["*", "Cluster", "Namespaced"]);
const SCHEMES: FieldRule = OneOf(&["HTTP", "HTTPS"]);

/// Rules of the specification of a pod, whether it stands alone or in a template.
#[rustfmt::skip]
pub const POD: FieldRules = &[
    ("restartPolicy", OneOf(&["Always", "OnFailure", "Never"])),
    ("dnsPolicy", OneOf(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"])),
    ("preemptionPolicy", OneOf(&["PreemptLowerPriority", "Never"])),
    ("serviceAccountName|nodeName|priorityClassName|runtimeClassName", Subdomain),
    ("hostname|subdomain", Label),
    ("activeDeadlineSeconds", Between(1, i32::MAX as i64)),
    ("readinessGates[].conditionType", Qualified),
    ("schedulingGates[].name", Qualified),
    ("containers[]|initContainers[].imagePullPolicy", OneOf(&["Always", "IfNotPresent", "Never"])),
    ("containers[]|initContainers[].restartPolicy", OneOf(&["Always", "Never", "OnFailure"])),
    ("containers[]|initContainers[].terminationMessagePolicy", OneOf(&["File", "FallbackToLogsOnError"])),
    ("containers[]|initContainers[].ports[].protocol", OneOf(&PROTOCOLS)),
    ("containers[]|initContainers[].livenessProbe|readinessProbe|startupProbe.initialDelaySeconds|timeoutSeconds", AtLeast(0)),
    ("containers[]|initContainers[].livenessProbe|readinessProbe|startupProbe.periodSeconds", AtLeast(0)),
    ("containers[]|initContainers[].livenessProbe|readinessProbe|startupProbe.successThreshold|failureThreshold", AtLeast(0)),
    ("containers[]|initContainers[].livenessProbe|readinessProbe|startupProbe.httpGet.scheme", SCHEMES),
    ("containers[]|initContainers[].lifecycle.postStart|preStop.httpGet.scheme", SCHEMES),
];

/// Where a value is. Its text is only made for what is wrong with it: hardly anything is.
struct Place<'p> {
    parent: Option<&'p Place<'p>>,
    name: &'p str,
    at: Option<usize>,
}

impl Place<'_> {
    fn field(&self) -> String {
        let mut text = self.parent.map(Place::field).unwrap_or_default();
        if !text.is_empty() {
            text.push('.');
        }
        text += self.name;
        match self.at {
            None => text,
            Some(at) => format!("{text}[{at}]"),
        }
    }
}

/// Errors of the single fields of an object. What was stored once may stay.
pub fn of_object(rules: FieldRules, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let (mut part, mut is_changed) = ("", false);
    for (path, rule) in rules {
        let this = path.split(['.', '[', '|']).next().unwrap_or_default();
        if this != part {
            (part, is_changed) = (this, old.is_none_or(|it| it.get(this) != new.get(this)));
        }
        if !is_changed {
            continue;
        }
        each(new, path, None, &mut |value, place| match (rule, old) {
            (Immutable, Some(old)) => {
                let field = place.field();
                let pointer = format!("/{}", field.replace('.', "/"));
                if at(old, &pointer).unwrap_or(&Value::Null) != value {
                    errors.push(FieldError::invalid(field, value, "field is immutable"));
                }
            }
            (rule, _) => check(rule, value, place, errors),
        });
    }
}

/// Errors of the single fields of a part of an object.
pub fn of_part(rules: FieldRules, part: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let root = Place {
        parent: None,
        name: place,
        at: None,
    };
    for (path, rule) in rules {
        each(part, path, Some(&root), &mut |value, place| {
            check(rule, value, place, errors);
        });
    }
}

/// Calls with each value at a path, and where it is.
fn each(value: &Value, path: &str, parent: Option<&Place<'_>>, found: &mut dyn FnMut(&Value, &Place<'_>)) {
    let (head, rest) = path
        .split_once('.')
        .map_or((path, None), |(head, rest)| (head, Some(rest)));
    for key in head.split('|') {
        let (name, of_list) = key.strip_suffix("[]").map_or((key, false), |it| (it, true));
        let inner = value.get(name).unwrap_or(&Value::Null);
        let items = if of_list {
            inner.as_array().map(Vec::as_slice).unwrap_or_default()
        } else {
            std::slice::from_ref(inner)
        };
        for (at, item) in items.iter().enumerate() {
            let at = of_list.then_some(at);
            let place = Place { parent, name, at };
            match rest {
                Some(rest) if item.is_object() => each(item, rest, Some(&place), found),
                Some(_) => {}
                None => found(item, &place),
            }
        }
    }
}

fn check(rule: &FieldRule, value: &Value, place: &Place<'_>, errors: &mut Vec<FieldError>) {
    let outside = |detail: String| FieldError::invalid(place.field(), value, detail);
    let (number, text) = (value.as_i64(), value.as_str().unwrap_or_default());
    match rule {
        AtLeast(least) if number.is_some_and(|it| it < *least) => errors.push(outside(match least {
            1 => "must be greater than 0".to_owned(),
            least => format!("must be greater than or equal to {least}"),
        })),
        Between(least, most) if number.is_some_and(|it| !(*least..=*most).contains(&it)) => {
            errors.push(outside(format!("must be between {least} and {most}, inclusive")));
        }
        OneOf(known) if !value.is_null() && !value.as_str().is_some_and(|it| known.contains(&it)) => {
            errors.push(FieldError::not_supported(place.field(), value, known));
        }
        Label if !text.is_empty() => label(text, &place.field(), errors),
        Subdomain if !text.is_empty() => subdomain(text, &place.field(), errors),
        Qualified if !value.is_null() => qualified_name(text, &place.field(), errors),
        AtLeast(_) | Between(..) | OneOf(_) | Immutable | Label | Subdomain | Qualified => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{jobs::Jobs, strategy::Strategy, validation::said};
    use serde_json::json;

    #[test]
    fn a_rule_finds_every_field_that_it_names() {
        let pod = json!({"hostname": "A", "containers": [{}, {"livenessProbe": {"timeoutSeconds": -1, "initialDelaySeconds": -2}}]});
        let told = said(|it| of_part(POD, &pod, "spec", it));
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].starts_with("spec.hostname: Invalid value: \"A\": a lowercase RFC 1123 label"));
        let place = "spec.containers[1].livenessProbe";
        let detail = "must be greater than or equal to 0";
        assert_eq!(
            told[1],
            format!("{place}.initialDelaySeconds: Invalid value: -2: {detail}")
        );
        assert_eq!(told[2], format!("{place}.timeoutSeconds: Invalid value: -1: {detail}"));
    }

    #[test]
    fn what_may_not_change_may_neither_come_nor_go() {
        let told = |new: Value, old: Value| said(|it| of_object(Jobs.fields(), &new, Some(&old), it));
        let (with, without) = (json!({"spec": {"managedBy": "a"}}), json!({"spec": {"parallelism": 1}}));
        assert_eq!(told(with.clone(), with.clone()), Vec::<String>::new());
        assert_eq!(
            told(with.clone(), without.clone()),
            ["spec.managedBy: Invalid value: \"a\": field is immutable"]
        );
        assert_eq!(
            told(without, with),
            ["spec.managedBy: Invalid value: null: field is immutable"]
        );
    }
}
