//! The functions of text/template itself.

use std::cmp::Ordering;

use crate::functions::Functions;
use crate::gofmt;
use crate::value::{IntType, Value};

type Outcome = Result<Value, String>;

pub(crate) fn add(functions: &mut Functions) {
    // These three are carried out by the engine; here they only have a name and parameters.
    functions.add("and", "raw ...raw", |_, args| Ok(args[0].clone()));
    functions.add("or", "raw ...raw", |_, args| Ok(args[0].clone()));
    functions.add("call", "raw ...raw", |_, args| Ok(args[0].clone()));
    functions.add("not", "raw", |_, args| Ok(Value::Bool(!args[0].is_true())));
    functions.add("index", "raw ...raw", |_, args| index(&args[0], &args[1..]));
    functions.add("slice", "raw ...raw", |_, args| slice(&args[0], &args[1..]));
    functions.add("len", "raw", |_, args| length(&args[0]));
    functions.add("print", "...any", |_, args| Ok(gofmt::sprint(args).into()));
    functions.add("println", "...any", |_, args| Ok(gofmt::sprintln(args).into()));
    functions.add("printf", "string ...any", |_, args| {
        Ok(gofmt::sprintf(&gofmt::display(&args[0]), &args[1..]).into())
    });
    functions.add("html", "...any", |_, args| Ok(html(&joined(args)).into()));
    functions.add("js", "...any", |_, args| Ok(js(&joined(args)).into()));
    functions.add("urlquery", "...any", |_, args| {
        Ok(crate::query_escape(&joined(args)).into())
    });
    functions.add("eq", "raw ...raw", |_, args| Ok(Value::Bool(eq(&args[0], &args[1..])?)));
    functions.add("ne", "raw raw", |_, args| Ok(Value::Bool(!eq(&args[0], &args[1..])?)));
    functions.add("lt", "raw raw", |_, args| Ok(Value::Bool(lt(&args[0], &args[1])?)));
    functions.add("le", "raw raw", |_, args| Ok(Value::Bool(le(&args[0], &args[1])?)));
    functions.add("gt", "raw raw", |_, args| Ok(Value::Bool(!le(&args[0], &args[1])?)));
    functions.add("ge", "raw raw", |_, args| Ok(Value::Bool(!lt(&args[0], &args[1])?)));
}

/// What `html`, `js` and `urlquery` make one string of.
fn joined(args: &[Value]) -> String {
    if let [Value::Str(text)] = args {
        return text.to_string();
    }
    let shown: Vec<Value> = args
        .iter()
        .map(|it| {
            if it.is_nil() {
                Value::from("<no value>")
            } else {
                it.clone()
            }
        })
        .collect();
    gofmt::sprint(&shown)
}

fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '\0' => out.push('\u{fffd}'),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            it => out.push(it),
        }
    }
    out
}

fn js(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            '"' => out.push_str("\\\""),
            '<' => out.push_str("\\u003C"),
            '>' => out.push_str("\\u003E"),
            '&' => out.push_str("\\u0026"),
            '=' => out.push_str("\\u003D"),
            it if it < ' ' => out.push_str(&format!("\\u{:04X}", it as u32)),
            it if it.is_ascii() || crate::strconv::is_print(it) => out.push(it),
            it => out.push_str(&format!("\\u{:04X}", it as u32)),
        }
    }
    out
}

fn position(at: &Value, length: usize) -> Result<usize, String> {
    let value = match at {
        Value::Int(value, _) => *value,
        Value::Missing | Value::Nil => return Err("cannot index slice/array with nil".to_owned()),
        other => return Err(format!("cannot index slice/array with type {}", other.type_name())),
    };
    match usize::try_from(value) {
        Ok(at) if at <= length => Ok(at),
        _ => Err(format!("index out of range: {value}")),
    }
}

fn index(item: &Value, indexes: &[Value]) -> Outcome {
    if item.is_nil() {
        return Err("index of untyped nil".to_owned());
    }
    let mut item = item.clone();
    for at in indexes {
        if item.is_nil() {
            return Err("index of nil pointer".to_owned());
        }
        item = one_index(&item.underlying(), at)?;
    }
    Ok(item)
}

fn one_index(item: &Value, at: &Value) -> Outcome {
    // Go's reflection panics one past the end, in these words.
    let past = |kind: &str| format!("reflect: {kind} index out of range");
    match item {
        Value::List(list) => {
            let at = position(at, list.items().len())?;
            list.items().get(at).cloned().ok_or_else(|| past("slice"))
        }
        Value::Str(_) | Value::Binary(_) | Value::Bytes(_) => {
            let bytes = item.as_bytes().expect("each of these has bytes");
            let at = position(at, bytes.len())?;
            let kind = if matches!(item, Value::Bytes(_)) {
                "slice"
            } else {
                "string"
            };
            let byte = bytes.get(at).ok_or_else(|| past(kind))?;
            Ok(Value::Int(i64::from(*byte), IntType::Uint8))
        }
        Value::Map(map) => match at {
            Value::Str(key) => Ok(map.get(key).unwrap_or_else(|| crate::exec::zero_of(map.elem()))),
            Value::Missing | Value::Nil => Err("value is nil; should be of type string".to_owned()),
            other => Err(format!("value has type {}; should be string", other.type_name())),
        },
        other => Err(format!("can't index item of type {}", other.type_name())),
    }
}

fn slice(item: &Value, indexes: &[Value]) -> Outcome {
    if item.is_nil() {
        return Err("slice of untyped nil".to_owned());
    }
    if indexes.len() > 3 {
        return Err(format!("too many slice indexes: {}", indexes.len()));
    }
    let length = match item {
        Value::Str(_) | Value::Binary(_) if indexes.len() == 3 => {
            return Err("cannot 3-index slice a string".to_owned());
        }
        Value::Str(_) | Value::Binary(_) | Value::Bytes(_) => item.as_bytes().map_or(0, <[u8]>::len),
        Value::List(list) => list.items().len(),
        other => return Err(format!("can't slice item of type {}", other.type_name())),
    };
    let mut bounds = [0, length, length];
    for (bound, at) in bounds.iter_mut().zip(indexes) {
        *bound = position(at, length)?;
    }
    if bounds[0] > bounds[1] {
        return Err(format!("invalid slice index: {} > {}", bounds[0], bounds[1]));
    }
    if bounds[1] > bounds[2] {
        return Err(format!("invalid slice index: {} > {}", bounds[1], bounds[2]));
    }
    let range = bounds[0]..bounds[1];
    Ok(match item {
        Value::List(list) => Value::List(crate::value::List::new(list.items()[range].to_vec(), list.elem())),
        Value::Bytes(bytes) => Value::Bytes(bytes[range].into()),
        other => Value::string_of_bytes(other.as_bytes().unwrap_or_default()[range].to_vec()),
    })
}

pub(crate) fn length(item: &Value) -> Outcome {
    Ok(Value::len_of(match &item.underlying() {
        Value::Missing => return Err("reflect: call of reflect.Value.Type on zero Value".to_owned()),
        Value::Nil => return Err("len of nil pointer".to_owned()),
        Value::List(list) => list.items().len(),
        Value::Map(map) => map.len(),
        value => match value.as_bytes() {
            Some(bytes) => bytes.len(),
            None => return Err(format!("len of type {}", value.type_name())),
        },
    }))
}

#[derive(PartialEq)]
enum Basic {
    None,
    Bool,
    Int,
    Float,
    Str,
    Uint,
}

fn basic(value: &Value) -> Basic {
    match value {
        Value::Bool(_) => Basic::Bool,
        Value::Int(_, kind) if kind.is_signed() => Basic::Int,
        Value::Int(..) => Basic::Uint,
        Value::Float(_) => Basic::Float,
        Value::Str(_) | Value::Binary(_) => Basic::Str,
        _ => Basic::None,
    }
}

fn incompatible(a: &Value, b: &Value) -> String {
    format!(
        "incompatible types for comparison: {} and {}",
        a.type_name(),
        b.type_name()
    )
}

/// Whether the first equals any of the others.
fn eq(first: &Value, others: &[Value]) -> Result<bool, String> {
    if others.is_empty() {
        return Err("missing argument for comparison".to_owned());
    }
    for other in others {
        let same = match (first, other) {
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a == b,
            (Value::Int(a, a_kind), Value::Int(b, b_kind)) => {
                a == b && (a_kind.is_signed() == b_kind.is_signed() || *a >= 0)
            }
            (a, b) if a.is_nil() || b.is_nil() => a.is_nil() == b.is_nil(),
            (a, b) if basic(a) != basic(b) => return Err(incompatible(a, b)),
            (a, b) if basic(a) == Basic::Str => a.as_bytes() == b.as_bytes(),
            (a, b) => {
                let (a_kind, b_kind) = (a.kind(), b.kind());
                if a_kind != b_kind {
                    return Err(format!(
                        "non-comparable types {}: {}, {}: {}",
                        gofmt::sprintf("%s", std::slice::from_ref(a)),
                        a.type_name(),
                        b.type_name(),
                        gofmt::display(b)
                    ));
                }
                if a_kind == "slice" || a_kind == "map" {
                    let shown = gofmt::sprintf("%s", std::slice::from_ref(b));
                    return Err(format!("non-comparable type {shown}: {}", b.type_name()));
                }
                a.deep_equal(b)
            }
        };
        if same {
            return Ok(true);
        }
    }
    Ok(false)
}

fn lt(a: &Value, b: &Value) -> Result<bool, String> {
    let bad = || "invalid type for comparison".to_owned();
    let (a_kind, b_kind) = (basic(a), basic(b));
    if a_kind == Basic::None || b_kind == Basic::None {
        return Err(bad());
    }
    match (a, b) {
        (Value::Int(a, a_kind), Value::Int(b, b_kind)) => Ok(match (a_kind.is_signed(), b_kind.is_signed()) {
            (true, false) => *a < 0 || (*a as u64) < *b as u64,
            (false, true) => *b >= 0 && (*a as u64) < *b as u64,
            (false, false) => (*a as u64) < *b as u64,
            (true, true) => a < b,
        }),
        (Value::Float(a), Value::Float(b)) => Ok(a.partial_cmp(b) == Some(Ordering::Less)),
        _ if a_kind != b_kind => Err(incompatible(a, b)),
        _ if a_kind == Basic::Str => Ok(a.as_bytes() < b.as_bytes()),
        _ => Err(bad()),
    }
}

fn le(a: &Value, b: &Value) -> Result<bool, String> {
    Ok(lt(a, b)? || eq(a, std::slice::from_ref(b))?)
}
