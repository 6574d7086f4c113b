//! Dictionaries. They are changed in place where sprig does so.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::functions::Functions;
use crate::gofmt::display;
use crate::limits::{DEPTH_OF_DATA_MAX, with_stack};
use crate::value::{Elem, Map, Value};

type Outcome = Result<Value, String>;

pub(crate) fn add(functions: &mut Functions) {
    functions.add("dict", "...any", |_, a| {
        let map = Map::default();
        for pair in a.chunks(2) {
            let value = pair.get(1).cloned().unwrap_or_else(|| Value::from(""));
            map.set(&display(&super::strings::to_string(&pair[0])), value)?;
        }
        Ok(Value::Map(map))
    });
    functions.add("get", "dict string", |_, a| {
        let found = dict(&a[0])?.and_then(|it| it.get(&display(&a[1])));
        Ok(found.unwrap_or_else(|| Value::from("")))
    });
    functions.add("set", "dict string any", |_, a| {
        let Some(map) = dict(&a[0])? else {
            return Err("assignment to entry in nil map".to_owned());
        };
        map.set(&display(&a[1]), a[2].clone())?;
        Ok(a[0].clone())
    });
    functions.add("unset", "dict string", |_, a| {
        if let Some(map) = dict(&a[0])? {
            map.remove(&display(&a[1]));
        }
        Ok(a[0].clone())
    });
    functions.add("hasKey", "dict string", |_, a| {
        Ok(Value::Bool(dict(&a[0])?.is_some_and(|it| it.contains(&display(&a[1])))))
    });
    functions.add("pluck", "string ...dict", |_, a| {
        let key = display(&a[0]);
        let mut found = Vec::new();
        for it in &a[1..] {
            found.extend(dict(it)?.and_then(|it| it.get(&key)));
        }
        Ok(Value::list(found))
    });
    functions.add("keys", "...dict", |_, a| {
        let mut found: Vec<Arc<str>> = Vec::new();
        for it in a {
            found.extend(dict(it)?.map(|it| it.keys()).unwrap_or_default());
        }
        Ok(Value::strings(found))
    });
    functions.add("values", "dict", |_, a| {
        let entries = dict(&a[0])?.map(|it| it.entries()).unwrap_or_default();
        Ok(Value::list(entries.into_iter().map(|(_, value)| value).collect()))
    });
    functions.add("pick", "dict ...string", |_, a| {
        chosen(&a[0], |key| a[1..].iter().any(|it| display(it) == key))
    });
    functions.add("omit", "dict ...string", |_, a| {
        chosen(&a[0], |key| !a[1..].iter().any(|it| display(it) == key))
    });
    for (name, over) in [
        ("merge", false),
        ("mustMerge", false),
        ("mergeOverwrite", true),
        ("mustMergeOverwrite", true),
    ] {
        functions.add(name, "dict ...dict", move |_, a| {
            let base = dict(&a[0])?.unwrap_or_default();
            for it in &a[1..] {
                if let Some(it) = dict(it)? {
                    merge(&base, &it, over, 0)?;
                }
            }
            Ok(Value::Map(base))
        });
    }
    functions.add("deepCopy", "any", |_, a| match &a[0] {
        nothing if nothing.is_nil() => Err(super::NO_TYPE.to_owned()),
        value => value.deep_copy(),
    });
    functions.alias("mustDeepCopy", "deepCopy");
    functions.add("dig", "...any", |_, a| dig(a));
}

/// The map of an argument; none where a nil was given.
fn dict(value: &Value) -> Result<Option<Map>, String> {
    match value {
        Value::Map(map) => Ok(Some(map.clone())),
        _ => Ok(None),
    }
}

fn chosen(from: &Value, keep: impl Fn(&str) -> bool) -> Outcome {
    let entries = dict(from)?.map(|it| it.entries()).unwrap_or_default();
    let kept: BTreeMap<Arc<str>, Value> = entries.into_iter().filter(|(key, _)| keep(key)).collect();
    Ok(Value::Map(Map::new(kept, Elem::Any)))
}

/// mergo's Merge: what the base says stays unless `over`, but an empty value (`0`, `""`, `false`) says nothing.
fn merge(base: &Map, from: &Map, over: bool, depth: usize) -> Result<(), String> {
    if depth > DEPTH_OF_DATA_MAX {
        return Err("the value is nested too deeply".to_owned());
    }
    if base.same_as(from) {
        return Ok(());
    }
    for (key, value) in from.entries() {
        let there = base.get(&key);
        match (&there, &value) {
            (_, Value::Nil) => {
                if over {
                    base.set(&key, value)?;
                }
            }
            (Some(Value::Map(base)), Value::Map(from)) if !base.is_empty() => {
                with_stack(|| merge(base, from, over, depth + 1))?;
            }
            (Some(there), _) if there.is_true() && !over => {}
            _ => base.set(&key, value)?,
        }
    }
    Ok(())
}

fn dig(a: &[Value]) -> Outcome {
    if a.len() < 3 {
        return Err("dig needs at least three arguments".to_owned());
    }
    let (path, tail) = a.split_at(a.len() - 2);
    let converted = |value: &Value, wanted: &str| {
        let got = if value.is_nil() {
            "nil".into()
        } else {
            value.type_name()
        };
        format!("interface conversion: interface {{}} is {got}, not {wanted}")
    };
    let mut at = tail[1].clone();
    for key in path {
        let Some(key) = key.as_str() else {
            return Err(converted(key, "string"));
        };
        let map = match &at {
            // Go refuses `.Values` itself, which is a map of another name there. That is nobody's wish.
            Value::Map(map) if map.elem() == Elem::Any => map.clone(),
            other => return Err(converted(other, "map[string]interface {}")),
        };
        match map.get(key) {
            Some(next) => at = next,
            None => return Ok(tail[0].clone()),
        }
    }
    Ok(at)
}
