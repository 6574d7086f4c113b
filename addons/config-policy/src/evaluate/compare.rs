//! Whether an object is as a definition wants it, and what it would be if it were.
//!
//! `musthave` merges what the object has into what is wanted and compares the outcome with the object: fields that
//! nobody wants, order of lists and spelling of quantities do not matter. `mustonlyhave` compares with what is wanted
//! alone. Upstream: config-policy-controller `mergeSpecs`, `mergeArrays`, `deeplyEquivalent`.

use std::{collections::HashMap, mem};

use ocm_addon_sdk::quantity::Quantity;
use policy_template::printed;
use serde_json::{Map, Value};

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparing {
    /// `mustonlyhave`: nothing may be there that is not wanted.
    pub only: bool,
    /// A wanted zero value (`""`, `0`, `false`, `{}`) is there where nothing is: objects that are looked for by what
    /// they have, and never updated.
    pub zero_is_missing: bool,
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Likeness {
    /// Whether both are the same in all that matters.
    pub equal: bool,
    /// Whether something is wanted that is not there, but is nothing (a zero value): the API server alone can tell.
    pub missing: bool,
}

impl Likeness {
    const DIFFERENT: Self = Self {
        equal: false,
        missing: false,
    };

    fn only_if(equal: bool) -> Self {
        Self { equal, missing: false }
    }
}

/// What is wanted with what is there merged in, and whether a key is wanted that is not there.
pub fn merge_maps(
    wanted: Map<String, Value>,
    existing: &Map<String, Value>,
    how: Comparing,
) -> (Map<String, Value>, bool) {
    if how.only {
        return (wanted, false);
    }
    merge_fields(wanted, existing, how)
}

fn merge_fields(
    mut wanted: Map<String, Value>,
    existing: &Map<String, Value>,
    how: Comparing,
) -> (Map<String, Value>, bool) {
    let mut missing = false;
    for (key, has) in existing {
        match wanted.get_mut(key) {
            Some(value) => {
                let (merged, lacks) = merge(mem::take(value), has, how);
                *value = merged;
                missing |= lacks;
            }
            None => {
                wanted.insert(key.clone(), has.clone());
            }
        }
    }
    missing |= wanted.len() > existing.len();
    (wanted, missing)
}

fn merge(wanted: Value, existing: &Value, how: Comparing) -> (Value, bool) {
    match (wanted, existing) {
        (Value::Object(wanted), Value::Object(existing)) => {
            let (merged, missing) = merge_fields(wanted, existing, how);
            (Value::Object(merged), missing)
        }
        (Value::Array(wanted), Value::Array(existing)) if !existing.is_empty() => {
            let (merged, missing) = merge_lists(wanted, existing, how);
            (Value::Array(merged), missing)
        }
        // Nothing is wanted there.
        (Value::Null, Value::Object(_)) => (existing.clone(), false),
        (wanted, _) => (wanted, false),
    }
}

/// The same for lists. Items of maps with one `name` are one item; whatever is there and is not wanted stays, as often
/// as it is there.
pub fn merge_lists(wanted: Vec<Value>, existing: &[Value], how: Comparing) -> (Vec<Value>, bool) {
    if how.only {
        return (wanted, false);
    }
    let texts: Vec<String> = existing.iter().map(printed).collect();
    let mut times: HashMap<&str, usize> = HashMap::new();
    for text in &texts {
        *times.entry(text).or_default() += 1;
    }
    let originals = wanted.clone();
    let mut used = vec![false; originals.len()];
    let mut merged = wanted;
    let mut missing = false;
    for (has, text) in existing.iter().zip(&texts) {
        // Each is looked at once, the first time.
        let Some(times) = times.remove(text.as_str()) else {
            continue;
        };
        let mut found = 0;
        for (at, value) in originals.iter().enumerate() {
            if used[at] {
                continue;
            }
            let mut item = value.clone();
            let mut same_name = false;
            if let (Value::Object(has), Value::Object(value)) = (has, value) {
                let name = |it: &Map<String, Value>| it.get("name").and_then(Value::as_str).map(str::to_owned);
                same_name = name(has).is_some_and(|it| !it.is_empty() && name(value).as_ref() == Some(&it));
                let (of_both, lacks) = merge_maps(value.clone(), has, how);
                item = Value::Object(of_both);
                missing = lacks;
            }
            let likeness = equivalent(&item, has, how.zero_is_missing);
            missing |= likeness.missing;
            if same_name || likeness.equal {
                found += 1;
                merged[at] = item;
                used[at] = true;
            }
            if found == times {
                break;
            }
        }
        let more = times.saturating_sub(found);
        merged.extend(std::iter::repeat_n(has.clone(), more));
    }
    (merged, missing)
}

/// Whether a merged value and the one that is there are the same in all that matters.
pub fn equivalent(merged: &Value, existing: &Value, zero_is_missing: bool) -> Likeness {
    match merged {
        Value::Object(merged) => match existing {
            Value::Object(existing) => equivalent_maps(merged, existing, zero_is_missing),
            _ => Likeness::DIFFERENT,
        },
        Value::Array(merged) => match existing {
            // As upstream, which has it the other way round here, and not in lists of maps: an item may have zero
            // values that are not wanted.
            Value::Array(existing) => equivalent_lists(existing, merged),
            Value::Null => Likeness::only_if(merged.is_empty()),
            _ => Likeness::DIFFERENT,
        },
        scalar => {
            if zero_is_missing && existing.is_null() && !scalar.is_null() {
                return Likeness {
                    equal: zero(scalar) == printed(scalar),
                    missing: true,
                };
            }
            if zero_is_missing && scalar.is_null() && !existing.is_null() {
                return Likeness::only_if(zero(existing) == printed(existing));
            }
            Likeness::only_if(printed(scalar) == printed(existing))
        }
    }
}

fn equivalent_maps(merged: &Map<String, Value>, existing: &Map<String, Value>, zero_is_missing: bool) -> Likeness {
    if merged.len() < existing.len() {
        return Likeness::DIFFERENT;
    }
    let mut missing = false;
    for (key, value) in merged {
        let likeness = equivalent_fields(value, existing.get(key), zero_is_missing);
        missing |= likeness.missing;
        if !likeness.equal {
            return Likeness { equal: false, missing };
        }
    }
    Likeness { equal: true, missing }
}

fn equivalent_fields(value: &Value, existing: Option<&Value>, zero_is_missing: bool) -> Likeness {
    match (value, existing) {
        (Value::Object(value), Some(Value::Object(existing))) => equivalent_maps(value, existing, zero_is_missing),
        (Value::Object(value), _) => Likeness::only_if(zero_is_missing && value.is_empty()),
        (Value::Array(value), Some(Value::Array(existing))) => equivalent_lists(value, existing),
        (Value::Array(value), _) => Likeness::only_if(value.is_empty()),
        (Value::String(text), existing) => Likeness::only_if(match (text.parse::<Quantity>(), existing) {
            (Ok(quantity), Some(Value::String(existing))) => existing.parse().is_ok_and(|it: Quantity| it == quantity),
            (Ok(_), _) | (Err(_), None) => false,
            (Err(_), Some(existing)) => printed(existing) == *text,
        }),
        (value, None | Some(Value::Null)) if !value.is_null() => Likeness {
            equal: zero(value) == printed(value),
            missing: true,
        },
        (value, existing) => Likeness::only_if(printed(value) == existing.map_or("<nil>".to_owned(), printed)),
    }
}

fn equivalent_lists(merged: &[Value], existing: &[Value]) -> Likeness {
    if merged.len() != existing.len() {
        return Likeness::DIFFERENT;
    }
    let mut missing = false;
    for (existing, merged) in in_order(existing).into_iter().zip(in_order(merged)) {
        let likeness = match (existing, merged) {
            (Value::Object(existing), Value::Object(merged)) => equivalent_maps(merged, existing, true),
            (Value::Object(_), _) => Likeness::DIFFERENT,
            (existing, merged) => Likeness::only_if(printed(existing) == printed(merged)),
        };
        missing |= likeness.missing;
        if !likeness.equal {
            return Likeness { equal: false, missing };
        }
    }
    Likeness { equal: true, missing }
}

fn in_order(items: &[Value]) -> Vec<&Value> {
    let mut items: Vec<(String, &Value)> = items.iter().map(|it| (printed_in_order(it), it)).collect();
    items.sort_by(|one, other| one.0.cmp(&other.0));
    items.into_iter().map(|(_, it)| it).collect()
}

/// As [`printed`], with all lists in order.
fn printed_in_order(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let mut texts: Vec<String> = items.iter().map(printed_in_order).collect();
            texts.sort();
            format!("[{}]", texts.join(" "))
        }
        Value::Object(entries) => {
            let texts: Vec<String> = entries
                .iter()
                .map(|(key, it)| format!("{key}:{}", printed_in_order(it)))
                .collect();
            format!("map[{}]", texts.join(" "))
        }
        scalar => printed(scalar),
    }
}

/// The zero value of the type of a value, printed.
fn zero(of: &Value) -> &'static str {
    match of {
        Value::Null => "<nil>",
        Value::Bool(_) => "false",
        Value::Number(_) => "0",
        Value::String(_) => "",
        Value::Array(_) => "[]",
        Value::Object(_) => "map[]",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HAVE: Comparing = Comparing {
        only: false,
        zero_is_missing: false,
    };
    const ONLY: Comparing = Comparing {
        only: true,
        zero_is_missing: false,
    };

    /// Whether the object has what is wanted, and what it would become.
    fn compare(wanted: Value, existing: &Value, how: Comparing) -> (bool, Value) {
        let merged = match (wanted, existing) {
            (Value::Object(wanted), Value::Object(existing)) => Value::Object(merge_maps(wanted, existing, how).0),
            (Value::Array(wanted), Value::Array(existing)) => Value::Array(merge_lists(wanted, existing, how).0),
            (wanted, _) => wanted,
        };
        (equivalent(&merged, existing, how.zero_is_missing).equal, merged)
    }

    #[test]
    fn fields_that_nobody_wants_do_not_matter() {
        let existing = json!({"a": 1, "b": {"c": "x", "d": [1, 2]}});
        assert!(compare(json!({"b": {"c": "x"}}), &existing, HAVE).0);
        assert!(!compare(json!({"b": {"c": "y"}}), &existing, HAVE).0);
        assert!(!compare(json!({"b": {"c": "x"}}), &existing, ONLY).0);
    }

    #[test]
    fn quantities_and_numbers_are_compared_by_value() {
        let existing = json!({"cpu": "1000m", "memory": "1Gi", "port": 80});
        assert!(compare(json!({"cpu": "1", "memory": "1024Mi"}), &existing, HAVE).0);
        assert!(!compare(json!({"cpu": "2"}), &existing, HAVE).0);
        assert!(
            !compare(json!({"port": "80"}), &existing, HAVE).0,
            "a quantity is no number"
        );
        assert!(compare(json!({"port": 80}), &existing, HAVE).0);
    }

    #[test]
    fn lists_have_items_in_any_order_and_as_often() {
        let existing = json!(["a", "b", "b"]);
        assert!(compare(json!(["b", "a"]), &existing, HAVE).0);
        assert!(compare(json!(["b", "b"]), &existing, HAVE).0);
        let (equal, merged) = compare(json!(["a", "a"]), &existing, HAVE);
        assert!(!equal);
        assert_eq!(merged, json!(["a", "a", "b", "b"]));
        assert!(!compare(json!(["a", "b"]), &existing, ONLY).0);
        assert!(compare(json!(["b", "a", "b"]), &existing, ONLY).0);
    }

    #[test]
    fn items_with_one_name_are_one_item() {
        let existing = json!([{"name": "x", "image": "one", "ports": [1]}, {"name": "y", "image": "two"}]);
        let (equal, merged) = compare(json!([{"name": "x", "image": "three"}]), &existing, HAVE);
        assert!(!equal);
        assert_eq!(
            merged,
            json!([{"name": "x", "image": "three", "ports": [1]}, {"name": "y", "image": "two"}])
        );
        assert!(compare(json!([{"name": "y"}]), &existing, HAVE).0);
    }

    #[test]
    fn nothing_in_items_of_lists_is_a_zero_value() {
        let existing = json!({"list": [{"name": "x"}]});
        let wanted = json!({"list": [{"name": "x", "privileged": false, "weight": 0, "more": {}}]});
        let (Value::Object(wanted), Value::Object(fields)) = (wanted, &existing) else {
            unreachable!("both are maps");
        };
        let (merged, missing) = merge_maps(wanted, fields, HAVE);
        let likeness = equivalent(&Value::Object(merged), &existing, false);
        assert!(
            likeness.equal && (likeness.missing || missing),
            "the API server has the last word"
        );
        // In a list that is no field of a map it is what is there that may have zero values.
        let (little, more) = (json!([{"name": "x"}]), json!([{"name": "x", "weight": 0}]));
        assert!(equivalent(&little, &more, false).equal);
        assert!(!equivalent(&more, &little, false).equal);
    }

    #[test]
    fn an_empty_list_is_nothing_an_empty_map_is_something() {
        assert!(!compare(json!({"a": {}}), &json!({}), HAVE).0);
        assert!(compare(json!({"a": []}), &json!({}), HAVE).0);
        let unnamed = Comparing {
            zero_is_missing: true,
            ..HAVE
        };
        assert!(compare(json!({"a": {}}), &json!({}), unnamed).0);
    }

    #[test]
    fn a_null_takes_the_map_that_is_there() {
        let existing = json!({"a": {"b": 1}});
        let (equal, merged) = compare(json!({"a": null}), &existing, HAVE);
        assert!(equal);
        assert_eq!(merged, existing);
    }
}
