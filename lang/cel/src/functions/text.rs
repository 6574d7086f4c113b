//! Functions of strings: cel-go's library of version 2, and the standard ones. All count characters (Unicode code
//! points). Upstream: cel-go ext/strings.go. What it answers for odd arguments is answered here too: an empty text is
//! found wherever one looks for it, and an index behind the end is an error in some functions and `-1` in others.

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, Value,
    extractors::{Arguments, This},
};

use super::conversions::type_name;
use crate::charge::{failed, pay};

type Answer = Result<Value, ExecutionError>;

/// Takes the place of the engine's own.
pub fn replace(root: &mut Context<'static>) {
    add_test(root, "contains", |text, part| text.contains(part));
    add_test(root, "startsWith", |text, part| text.starts_with(part));
    add_test(root, "endsWith", |text, part| text.ends_with(part));
    add(root, "charAt", |_, text, args| match args {
        [Value::Int(index)] => char_at(text, *index),
        _ => Err(no_such_overload("charAt", "string", args)),
    });
    add(root, "substring", |_, text, args| match args {
        [Value::Int(start)] => Ok(text.get(offset(text, *start)?..).unwrap_or_default().into()),
        [Value::Int(start), Value::Int(end)] => substring(text, *start, *end),
        _ => Err(no_such_overload("substring", "string", args)),
    });
    add(root, "lowerAscii", |_, text, args| match args {
        [] => Ok(text.to_ascii_lowercase().into()),
        _ => Err(no_such_overload("lowerAscii", "string", args)),
    });
    add(root, "upperAscii", |_, text, args| match args {
        [] => Ok(text.to_ascii_uppercase().into()),
        _ => Err(no_such_overload("upperAscii", "string", args)),
    });
    add(root, "trim", |_, text, args| match args {
        [] => Ok(text.trim().into()),
        _ => Err(no_such_overload("trim", "string", args)),
    });
    add(root, "replace", |ftx, text, args| match args {
        [Value::String(old), Value::String(new)] => replaced(ftx, text, old, new, usize::MAX),
        [Value::String(old), Value::String(new), Value::Int(times)] => replaced(ftx, text, old, new, limit(*times)),
        _ => Err(no_such_overload("replace", "string", args)),
    });
    add(root, "split", |_, text, args| match args {
        [Value::String(separator)] => Ok(split(text, separator, usize::MAX)),
        [Value::String(separator), Value::Int(parts)] => Ok(split(text, separator, limit(*parts))),
        _ => Err(no_such_overload("split", "string", args)),
    });
    root.add_function(
        "join",
        |ftx: &FunctionContext, This(this): This<Value>, Arguments(args): Arguments| match (&this, args.as_slice()) {
            _ if ftx.this.is_none() => Err(ExecutionError::NoSuchOverload),
            // The first item tells what a list is of; what else is in it is looked at when it is joined.
            (Value::List(items), _) if !matches!(items.first(), None | Some(Value::String(_))) => {
                Err(no_such_overload("join", "list", &args))
            }
            (Value::List(items), []) => joined(ftx, items, ""),
            (Value::List(items), [Value::String(separator)]) => joined(ftx, items, separator),
            _ => Err(no_such_overload("join", type_name(&this), &args)),
        },
    );
    root.add_function("strings.quote", |Arguments(args): Arguments| match args.as_slice() {
        [Value::String(text)] => Ok::<Value, _>(quoted(text).into()),
        [first, rest @ ..] => Err(no_such_overload("strings.quote", type_name(first), rest)),
        [] => Err(ExecutionError::NoSuchOverload),
    });
}

/// Adds a standard function that tests whether a text has a part.
fn add_test(root: &mut Context<'static>, name: &'static str, test: fn(&str, &str) -> bool) {
    root.add_function(
        name,
        move |ftx: &FunctionContext, This(this): This<Value>, Arguments(args): Arguments| match (&this, args.as_slice())
        {
            (Value::String(text), [Value::String(part)]) if ftx.this.is_some() => Ok(test(text, part)),
            _ => Err(ExecutionError::NoSuchOverload),
        },
    );
}

/// Adds a function that a text has.
fn add(root: &mut Context<'static>, name: &'static str, function: fn(&FunctionContext, &str, &[Value]) -> Answer) {
    root.add_function(
        name,
        move |ftx: &FunctionContext, This(this): This<Value>, Arguments(args): Arguments| match &this {
            Value::String(text) if ftx.this.is_some() => function(ftx, text, &args),
            _ => Err(no_such_overload(name, type_name(&this), &args)),
        },
    );
}

/// The error for arguments that a function does not take.
pub fn no_such_overload(name: &str, this: &str, args: &[Value]) -> ExecutionError {
    let args: String = args.iter().map(|it| format!(", {}", type_name(it))).collect();
    failed("no such overload", &format!("{name}({this}{args})"))
}

fn out_of_range(index: i64) -> ExecutionError {
    failed("index out of range", &index.to_string())
}

/// How often, in Go's way: as often as there is, if negative.
fn limit(times: i64) -> usize {
    usize::try_from(times).unwrap_or(usize::MAX)
}

/// The byte at which a character begins; the text's end is one too.
fn byte_of(text: &str, index: usize) -> Option<usize> {
    let starts = text.char_indices().map(|(at, _)| at);
    starts.chain([text.len()]).nth(index)
}

fn offset(text: &str, index: i64) -> Result<usize, ExecutionError> {
    let index_found = usize::try_from(index).ok().and_then(|it| byte_of(text, it));
    index_found.ok_or_else(|| out_of_range(index))
}

fn char_at(text: &str, index: i64) -> Answer {
    let rest = text.get(offset(text, index)?..).unwrap_or_default();
    Ok(rest.chars().next().map_or_else(String::new, String::from).into())
}

fn substring(text: &str, start: i64, end: i64) -> Answer {
    if start > end {
        return Err(failed(
            "invalid substring range. start",
            &format!("{start}, end: {end}"),
        ));
    }
    let bytes = offset(text, start)?..offset(text, end)?;
    Ok(text.get(bytes).unwrap_or_default().into())
}

fn int(number: usize) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

/// What `indexOf` says of a text.
pub fn index_of(text: &str, args: &[Value]) -> Answer {
    let (part, from) = match args {
        [Value::String(part)] => (part.as_str(), 0),
        [Value::String(part), Value::Int(from)] => (part.as_str(), *from),
        _ => return Err(no_such_overload("indexOf", "string", args)),
    };
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let Ok(skipped) = usize::try_from(from) else {
        return Err(out_of_range(from));
    };
    let rest = byte_of(text, skipped).and_then(|it| text.get(it..)).unwrap_or_default();
    let before = rest.find(part).and_then(|it| rest.get(..it));
    Ok(before.map_or(Value::Int(-1), |it| int(skipped + it.chars().count())))
}

/// What `lastIndexOf` says of a text.
pub fn last_index_of(text: &str, args: &[Value]) -> Answer {
    let (part, latest) = match args {
        [Value::String(part)] if part.is_empty() => return Ok(int(text.chars().count())),
        [Value::String(part)] => (part.as_str(), None),
        [Value::String(part), Value::Int(latest)] if part.is_empty() => return Ok(Value::Int(*latest)),
        [Value::String(part), Value::Int(latest)] => (part.as_str(), Some(*latest)),
        _ => return Err(no_such_overload("lastIndexOf", "string", args)),
    };
    let within = match latest {
        None => text,
        Some(latest) => {
            let Ok(index) = usize::try_from(latest) else {
                return Err(out_of_range(latest));
            };
            // An index behind the last character finds nothing, not even what begins before it.
            let start = byte_of(text, index).filter(|it| *it < text.len());
            start.map_or("", |it| until(text, it.saturating_add(part.len())))
        }
    };
    let before = within.rfind(part).and_then(|it| within.get(..it));
    Ok(before.map_or(Value::Int(-1), |it| int(it.chars().count())))
}

/// A text's beginning, up to a byte or the character before it.
fn until(text: &str, end: usize) -> &str {
    let end = (0..=end.min(text.len())).rev().find(|it| text.is_char_boundary(*it));
    end.and_then(|it| text.get(..it)).unwrap_or_default()
}

/// Pays before it makes what may be much longer than what it is made of.
fn replaced(ftx: &FunctionContext, text: &str, old: &str, new: &str, times: usize) -> Answer {
    let found = if old.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(old).count()
    };
    let added = found.min(times).saturating_mul(new.len());
    pay(ftx, added as u64 / 10)?;
    Ok(text.replacen(old, new, times).into())
}

/// An empty separator is between any two characters, and nowhere else: an empty text has no parts then.
fn split(text: &str, separator: &str, parts: usize) -> Value {
    let made: Vec<&str> = if !separator.is_empty() {
        text.splitn(parts, separator).collect()
    } else {
        let mut made = Vec::new();
        let mut rest = text;
        while made.len() < parts
            && let Some(first) = rest.chars().next()
        {
            let is_last = made.len() + 1 == parts;
            let (part, left) = rest.split_at(if is_last { rest.len() } else { first.len_utf8() });
            made.push(part);
            rest = left;
        }
        made
    };
    made.into()
}

fn joined(ftx: &FunctionContext, items: &[Value], separator: &str) -> Answer {
    pay(ftx, items.len().saturating_mul(separator.len()) as u64 / 10)?;
    let texts: Result<Vec<&str>, _> = items
        .iter()
        .map(|it| match it {
            Value::String(text) => Ok(text.as_str()),
            // Upstream says the value, but it may be secret.
            other => Err(failed("join", &format!("invalid input: {}", type_name(other)))),
        })
        .collect();
    Ok(texts?.join(separator).into())
}

fn quoted(text: &str) -> String {
    let mut made = String::with_capacity(text.len() + 2);
    made.push('"');
    for it in text.chars() {
        let escaped = match it {
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\u{b}' => 'v',
            '\\' | '"' => it,
            _ => {
                made.push(it);
                continue;
            }
        };
        made.extend(['\\', escaped]);
    }
    made.push('"');
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, Library};

    fn ask(text: &str) -> Result<Value, String> {
        let library = Library::kubernetes();
        let expression = library.compile(text, &[]).map_err(|it| it.to_string())?;
        expression
            .evaluate(&library.scope(), &mut Budget::of_object())
            .map_err(|it| it.to_string())
    }

    #[test]
    fn characters_are_counted_rather_than_bytes() {
        for text in [
            "'hé😀y'.charAt(2) == '😀' && 'hé😀y'.charAt(4) == ''",
            "'hé😀y'.substring(1, 3) == 'é😀' && 'hé😀y'.substring(4) == ''",
            "'hé😀'.split('') == ['h', 'é', '😀'] && 'hé😀'.split('', 2) == ['h', 'é😀'] && ''.split('') == []",
            "'hé'.replace('', '-') == '-h-é-' && 'hé'.replace('', '-', 2) == '-h-é'",
        ] {
            assert_eq!(ask(text), Ok(true.into()), "{text}");
        }
    }

    #[test]
    fn a_text_is_found_at_characters() {
        let text = |it: &str| Value::from(it);
        let of = |args: &[Value]| {
            let said = |it: Answer| it.map_err(|_| ());
            (said(index_of("hé😀é", args)), said(last_index_of("hé😀é", args)))
        };
        let at = |index| Ok(Value::Int(index));
        assert_eq!(of(&[text("é")]), (at(1), at(3)));
        assert_eq!(of(&[text("é"), Value::Int(2)]), (at(3), at(1)));
        assert_eq!(of(&[text("é😀é"), Value::Int(3)]), (at(-1), at(1)));
        assert_eq!(of(&[text(""), Value::Int(-7)]), (at(-7), at(-7)));
        assert_eq!(of(&[text("h"), Value::Int(4)]), (at(-1), at(-1)));
        assert_eq!(of(&[text("h"), Value::Int(i64::MAX)]), (at(-1), at(-1)));
        assert_eq!(of(&[text("h"), Value::Int(-1)]), (Err(()), Err(())));
    }

    #[test]
    fn errors_read_as_upstreams() {
        for (text, error) in [
            ("'a'.charAt(2)", "index out of range: 2"),
            (
                "'a'.substring(-9223372036854775807)",
                "index out of range: -9223372036854775807",
            ),
            ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
            ("'a'.charAt(1u)", "no such overload: charAt(string, uint)"),
            ("b'a'.contains(b'')", "no such overload"),
            ("['a', 1].join()", "join: invalid input: int"),
        ] {
            assert_eq!(ask(text), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_would_grow_too_long_is_not_made() {
        let long = "a".repeat(80);
        let longest = format!("['{long}'.replace('a', '{long}')].map(it, it.replace('', it))");
        assert_eq!(ask(&longest), Err(crate::Error::Cost.to_string()));
    }
}
