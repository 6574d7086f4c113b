//! How a chart's values, its parents' and the user's become one: Helm's coalescing, where a null takes a default away.

use std::collections::BTreeSet;

use serde_json::{Map as JsonMap, Value as Json};

use super::chart::Chart;

pub(crate) type Values = JsonMap<String, Json>;

const GLOBAL: &str = "global";

/// Lays one document over another: maps are merged, anything else (a list, a null) replaces what was there.
pub fn merge_values(base: &mut Json, over: &Json) {
    match (base, over) {
        (Json::Object(base), Json::Object(over)) => {
            for (key, value) in over {
                match base.get_mut(key) {
                    Some(there) => crate::limits::with_stack(|| merge_values(there, value)),
                    None => {
                        base.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (base, over) => *base = over.clone(),
    }
}

/// The values of a chart and of all below it. `keep_nulls` is Helm's merging, for values
/// that are coalesced again later.
pub(crate) fn coalesce(chart: &Chart, values: &Values, keep_nulls: bool) -> Result<Values, String> {
    let mut values = values.clone();
    coalesce_into(chart, &mut values, keep_nulls)?;
    Ok(values)
}

fn coalesce_into(chart: &Chart, values: &mut Values, keep_nulls: bool) -> Result<(), String> {
    own(chart, values, keep_nulls);
    for subchart in &chart.dependencies {
        let name = subchart.name();
        let globals = values.get(GLOBAL).cloned();
        let below = values.entry(name).or_insert_with(|| Json::Object(Values::new()));
        let Json::Object(below) = below else {
            return Err(format!("type mismatch on {name}: {}", as_truth(below)));
        };
        hand_down(below, globals.as_ref());
        coalesce_into(subchart, below, keep_nulls)?;
    }
    Ok(())
}

// Helm prints the value with a verb for truths; this is what comes out of that.
fn as_truth(value: &Json) -> String {
    crate::gofmt::sprintf("%t", &[crate::Value::from_json(value, crate::Numbers::Float)])
}

/// The parent's globals win over those of the subchart.
fn hand_down(below: &mut Values, globals: Option<&Json>) {
    let empty = Values::new();
    let globals = match globals {
        Some(Json::Object(globals)) => globals,
        Some(_) => return,
        None => &empty,
    };
    let mine = below.entry(GLOBAL).or_insert_with(|| Json::Object(Values::new()));
    let Json::Object(mine) = mine else {
        return;
    };
    for (key, value) in globals {
        match (value, mine.get(key)) {
            (Json::Object(table), None) => {
                mine.insert(key.clone(), Json::Object(table.clone()));
            }
            (Json::Object(table), Some(Json::Object(there))) => {
                let mut merged = table.clone();
                lay_under(&mut merged, there, true);
                mine.insert(key.clone(), Json::Object(merged));
            }
            (Json::Object(_), Some(_)) | (_, Some(Json::Object(_))) => {}
            (value, _) => {
                mine.insert(key.clone(), value.clone());
            }
        }
    }
}

fn own(chart: &Chart, values: &mut Values, keep_nulls: bool) {
    for (key, default) in &chart.values {
        match values.get_mut(key) {
            None => {
                values.insert(key.clone(), default.clone());
            }
            Some(Json::Null) if !keep_nulls => {
                values.remove(key);
            }
            Some(Json::Object(over)) => {
                if let Json::Object(default) = default {
                    let of_subchart = chart.dependencies.iter().any(|it| it.name() == key);
                    lay_under(over, default, keep_nulls || of_subchart);
                }
            }
            Some(_) => {}
        }
    }
}

/// Fills in from `under` what `over` does not say.
pub(crate) fn lay_under(over: &mut Values, under: &Values, keep_nulls: bool) {
    let known: BTreeSet<&String> = under
        .iter()
        .filter(|(_, it)| !it.is_null())
        .map(|(key, _)| key)
        .collect();
    // A null above hides the default from everything that follows, too.
    let nulls: BTreeSet<String> = over
        .iter()
        .filter(|(_, it)| it.is_null())
        .map(|(key, _)| key.clone())
        .collect();
    for (key, default) in under {
        let default = if nulls.contains(key) { &Json::Null } else { default };
        match over.get_mut(key) {
            Some(Json::Null) if !keep_nulls && known.contains(key) => {
                over.remove(key);
            }
            None => {
                over.insert(key.clone(), default.clone());
            }
            Some(Json::Object(over)) => {
                if let Json::Object(default) = default {
                    crate::limits::with_stack(|| lay_under(over, default, keep_nulls));
                }
            }
            Some(_) => {}
        }
    }
}

/// The table at a dotted path.
pub(crate) fn table<'a>(values: &'a Values, path: &str) -> Option<&'a Values> {
    let mut at = values;
    for part in path.split('.') {
        match at.get(part) {
            Some(Json::Object(next)) => at = next,
            _ => return None,
        }
    }
    Some(at)
}

/// What stands at a dotted path, unless it is a table.
pub(crate) fn leaf<'a>(values: &'a Values, path: &str) -> Option<&'a Json> {
    let (above, name) = match path.rsplit_once('.') {
        Some((above, name)) => (table(values, above)?, name),
        None => (values, path),
    };
    above.get(name).filter(|it| !it.is_object())
}
