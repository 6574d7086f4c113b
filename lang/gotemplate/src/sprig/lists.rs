//! Lists: made, cut, searched, sorted.

use crate::functions::Functions;
use crate::gofmt::display;
use crate::limits::{LIST_LENGTH_MAX, pay};
use crate::sprig::strings::int;
use crate::value::{Elem, List, Value};

type Outcome = Result<Value, String>;

pub(crate) fn add(functions: &mut Functions) {
    functions.add("list", "...any", |_, a| Ok(Value::list(a.to_vec())));
    functions.alias("tuple", "list");
    two(functions, "append", "mustAppend", "any any", |a| {
        let mut items = items(&a[0], "Cannot push on type")?;
        items.push(a[1].clone());
        made(items)
    });
    functions.alias("push", "append");
    functions.alias("mustPush", "mustAppend");
    two(functions, "prepend", "mustPrepend", "any any", |a| {
        let mut all = vec![a[1].clone()];
        all.append(&mut items(&a[0], "Cannot prepend on type")?);
        made(all)
    });
    two(functions, "first", "mustFirst", "any", |a| {
        Ok(items(&a[0], "Cannot find first on type")?
            .first()
            .cloned()
            .unwrap_or(Value::Nil))
    });
    two(functions, "last", "mustLast", "any", |a| {
        Ok(items(&a[0], "Cannot find last on type")?
            .last()
            .cloned()
            .unwrap_or(Value::Nil))
    });
    two(functions, "rest", "mustRest", "any", |a| {
        Ok(Value::list(
            items(&a[0], "Cannot find rest on type")?.into_iter().skip(1).collect(),
        ))
    });
    two(functions, "initial", "mustInitial", "any", |a| {
        let mut items = items(&a[0], "Cannot find initial on type")?;
        items.pop();
        Ok(Value::list(items))
    });
    two(functions, "reverse", "mustReverse", "any", |a| {
        let mut items = items(&a[0], "Cannot find reverse on type")?;
        items.reverse();
        Ok(Value::list(items))
    });
    two(functions, "compact", "mustCompact", "any", |a| {
        let items = items(&a[0], "Cannot compact on type")?;
        Ok(Value::list(items.into_iter().filter(Value::is_true).collect()))
    });
    two(functions, "uniq", "mustUniq", "any", |a| {
        let mut kept: Vec<Value> = Vec::new();
        for item in items(&a[0], "Cannot find uniq on type")? {
            pay(kept.len() as u64 / 4)?;
            if !kept.iter().any(|it| it.deep_equal(&item)) {
                kept.push(item);
            }
        }
        Ok(Value::list(kept))
    });
    two(functions, "without", "mustWithout", "any ...any", |a| {
        let items = items(&a[0], "Cannot find without on type")?;
        pay(items.len() as u64 * a.len() as u64 / 4)?;
        let kept = items
            .into_iter()
            .filter(|item| !a[1..].iter().any(|it| it.deep_equal(item)));
        Ok(Value::list(kept.collect()))
    });
    two(functions, "has", "mustHas", "any any", |a| {
        if a[1].is_nil() {
            return Ok(Value::Bool(false));
        }
        let items = items(&a[1], "Cannot find has on type")?;
        Ok(Value::Bool(items.iter().any(|it| it.deep_equal(&a[0]))))
    });
    two(functions, "slice", "mustSlice", "any ...any", slice);
    two(functions, "chunk", "mustChunk", "int any", chunk);
    functions.add("concat", "...any", |_, a| {
        let mut all = Vec::new();
        for list in a {
            match elements(list) {
                Some(mut items) => all.append(&mut items),
                None => return Err(format!("Cannot concat type {} as list", go_kind(list)?)),
            }
            if all.len() > LIST_LENGTH_MAX {
                return Err("the list is too long".to_owned());
            }
        }
        Ok(Value::list(all))
    });
    functions.add("sortAlpha", "any", |_, a| {
        if elements(&a[0]).is_none() {
            return Ok(Value::strings([display(&a[0])]));
        }
        let mut strings = strings(&a[0]);
        strings.sort();
        Ok(Value::strings(strings))
    });
    functions.add("toStrings", "any", |_, a| Ok(Value::strings(strings(&a[0]))));
    functions.add("until", "int", |_, a| {
        let count = int(&a[0]);
        numbers(0, count, if count < 0 { -1 } else { 1 })
    });
    functions.add("untilStep", "int int int", |_, a| {
        numbers(int(&a[0]), int(&a[1]), int(&a[2]))
    });
    functions.add("seq", "...int", |_, a| Ok(Value::from(seq(a)?)));
}

fn two(
    functions: &mut Functions,
    name: &'static str,
    must: &'static str,
    parameters: &str,
    body: impl Fn(&[Value]) -> Outcome + Send + Sync + 'static,
) {
    functions.add(name, parameters, move |_, args| body(args));
    functions.alias(must, name);
}

fn made(items: Vec<Value>) -> Outcome {
    if items.len() > LIST_LENGTH_MAX {
        return Err("the list is too long".to_owned());
    }
    Ok(Value::list(items))
}

/// The kind of a value as Go's reflection names it; of a nil there is none, and asking for it is a panic there.
fn go_kind(value: &Value) -> Result<&'static str, String> {
    if value.is_nil() {
        return Err("runtime error: invalid memory address or nil pointer dereference".to_owned());
    }
    Ok(value.kind())
}

/// What is in a list of any type.
pub(super) fn elements(value: &Value) -> Option<Vec<Value>> {
    match value.underlying() {
        Value::List(list) => Some(list.items().to_vec()),
        Value::Bytes(bytes) => Some(
            bytes
                .iter()
                .map(|it| Value::Int(i64::from(*it), crate::value::IntType::Uint8))
                .collect(),
        ),
        _ => None,
    }
}

fn items(value: &Value, refusal: &str) -> Result<Vec<Value>, String> {
    match elements(value) {
        Some(items) => Ok(items),
        None => Err(format!("{refusal} {}", go_kind(value)?)),
    }
}

/// sprig's `strslice`: the strings of a list without its nils, or the one string of anything else.
pub(super) fn strings(value: &Value) -> Vec<String> {
    match elements(value) {
        Some(items) => items.iter().filter(|it| !it.is_nil()).map(plain).collect(),
        None if value.is_nil() => Vec::new(),
        None => vec![plain(value)],
    }
}

fn plain(value: &Value) -> String {
    display(&super::strings::to_string(value))
}

fn slice(a: &[Value]) -> Outcome {
    let Some(items) = elements(&a[0]) else {
        return Err(format!("list should be type of slice or array but {}", go_kind(&a[0])?));
    };
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let at = |index: usize, default: i64| a.get(index).map_or(default, super::numbers::to_int64);
    let (start, end) = (at(1, 0), at(2, items.len() as i64));
    let range = match (usize::try_from(start), usize::try_from(end)) {
        (Ok(start), Ok(end)) if start <= end && end <= items.len() => start..end,
        _ => return Err("reflect.Value.Slice: slice index out of bounds".to_owned()),
    };
    let elem = match &a[0] {
        Value::List(list) => list.elem(),
        _ => Elem::Any,
    };
    Ok(Value::List(List::new(items[range].to_vec(), elem)))
}

fn chunk(a: &[Value]) -> Outcome {
    let items = items(&a[1], "Cannot chunk type")?;
    // Go asks for as many lists as the length divided by the size, whatever sign that has.
    let size = int(&a[0]);
    let refused = || Err("runtime error: makeslice: len out of range".to_owned());
    let size = match (usize::try_from(size), items.len()) {
        (Ok(size), _) if size > 0 => size,
        (Err(_), 1) if size < -1 => 1,
        (Err(_), length) if length > 1 && length as u64 - 1 <= size.unsigned_abs() => {
            return Ok(Value::list(Vec::new()));
        }
        _ => return refused(),
    };
    let chunks = items.chunks(size).map(|it| Value::list(it.to_vec()));
    Ok(Value::list(chunks.collect()))
}

fn steps(start: i64, stop: i64, step: i64) -> Result<Vec<i64>, String> {
    let mut found = Vec::new();
    let mut at = start;
    while step > 0 && at < stop && start <= stop || step < 0 && at > stop && stop < start {
        if found.len() >= LIST_LENGTH_MAX {
            return Err("the list is too long".to_owned());
        }
        found.push(at);
        match at.checked_add(step) {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(found)
}

fn numbers(start: i64, stop: i64, step: i64) -> Outcome {
    let found = steps(start, stop, step)?.into_iter().map(Value::int).collect();
    Ok(Value::List(List::new(found, Elem::Int)))
}

fn seq(a: &[Value]) -> Result<String, String> {
    let at = |index: usize| int(&a[index]);
    let (start, end, step) = match a.len() {
        1 => (1, at(0), if at(0) < 1 { -1 } else { 1 }),
        2 => (at(0), at(1), if at(1) < at(0) { -1 } else { 1 }),
        3 => (at(0), at(2), at(1)),
        _ => return Ok(String::new()),
    };
    let towards = if end < start { -1 } else { 1 };
    if a.len() == 3 && end < start && step > 0 {
        return Ok(String::new());
    }
    let found = steps(start, end.saturating_add(towards), step)?;
    let shown: Vec<String> = found.iter().map(i64::to_string).collect();
    Ok(shown.join(" "))
}
