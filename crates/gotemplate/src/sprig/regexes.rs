//! Regular expressions. Go's and Rust's are both RE2's, but Go's classes `\d`, `\w`, `\s` and `\b` know ASCII only, and
//! inside brackets Rust reads some characters as operators; patterns are rewritten for that.

use regex::{NoExpand, Regex};

use crate::functions::Functions;
use crate::gofmt::display;
use crate::limits::check_text;
use crate::sprig::strings::int;
use crate::value::{Elem, List, Value};

type Outcome = Result<Value, String>;

pub(crate) fn add(functions: &mut Functions) {
    functions.add("regexMatch", "string string", |_, a| {
        Ok(Value::Bool(compile(&a[0]).is_ok_and(|it| it.is_match(&display(&a[1])))))
    });
    functions.add("mustRegexMatch", "string string", |_, a| {
        Ok(Value::Bool(compile(&a[0])?.is_match(&display(&a[1]))))
    });
    let mut both = |name: &'static str, must: &'static str, parameters: &str, body: fn(&Regex, &[Value]) -> Outcome| {
        functions.add(name, parameters, move |_, a| {
            let pattern = compile(&a[0]).map_err(|message| {
                let shown = display(&a[0]);
                let quoted = if shown.contains('`') {
                    crate::strconv::quote(&shown)
                } else {
                    format!("`{shown}`")
                };
                format!("regexp: Compile({quoted}): {message}")
            })?;
            body(&pattern, a)
        });
        functions.add(must, parameters, move |_, a| body(&compile(&a[0])?, a));
    };
    both("regexFind", "mustRegexFind", "string string", |it, a| {
        let text = display(&a[1]);
        Ok(Value::from(it.find(&text).map_or("", |it| it.as_str())))
    });
    both("regexFindAll", "mustRegexFindAll", "string string int", |it, a| {
        let text = display(&a[1]);
        let count = usize::try_from(int(&a[2])).unwrap_or(usize::MAX);
        let found = it.find_iter(&text).take(count).map(|it| Value::from(it.as_str()));
        Ok(Value::List(List::new(found.collect(), Elem::Str)))
    });
    both(
        "regexReplaceAll",
        "mustRegexReplaceAll",
        "string string string",
        |it, a| {
            let (text, new) = (display(&a[1]), display(&a[2]));
            check_growth(
                it,
                &text,
                new.len().saturating_add(text.len() * new.matches('$').count()),
            )?;
            Ok(Value::from(it.replace_all(&text, new.as_str()).into_owned()))
        },
    );
    both(
        "regexReplaceAllLiteral",
        "mustRegexReplaceAllLiteral",
        "string string string",
        |it, a| {
            let (text, new) = (display(&a[1]), display(&a[2]));
            check_growth(it, &text, new.len())?;
            Ok(Value::from(it.replace_all(&text, NoExpand(&new)).into_owned()))
        },
    );
    both("regexSplit", "mustRegexSplit", "string string int", |it, a| {
        Ok(Value::strings(split(it, &display(&a[1]), int(&a[2]))))
    });
    functions.add("regexQuoteMeta", "string", |_, a| {
        let mut out = String::new();
        for it in display(&a[0]).chars() {
            if r"\.+*?()|[]{}^$".contains(it) {
                out.push('\\');
            }
            out.push(it);
        }
        Ok(Value::from(out))
    });
}

fn check_growth(pattern: &Regex, text: &str, each: usize) -> Result<(), String> {
    // Counting is only worth it where the product could be large.
    if text.len().saturating_add(1).saturating_mul(each) <= 1 << 20 {
        return Ok(());
    }
    check_text(
        text.len()
            .saturating_add(pattern.find_iter(text).count().saturating_mul(each)),
    )
}

fn compile(pattern: &Value) -> Result<Regex, String> {
    go_regex(&display(pattern))
}

/// A pattern as Go reads it.
pub(crate) fn go_regex(pattern: &str) -> Result<Regex, String> {
    Regex::new(&translate(pattern)).map_err(|error| {
        let told = error.to_string();
        let told = told.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let from = |it: char| &pattern[pattern.find(it).unwrap_or(0)..];
        let (told, shown) = match told {
            "unclosed character class" => ("missing closing ]", from('[')),
            "unclosed group" => ("missing closing )", pattern),
            "unopened group" => ("unexpected )", pattern),
            told => (told, pattern),
        };
        format!("error parsing regexp: {told}: `{shown}`")
    })
}

fn split(pattern: &Regex, text: &str, count: i64) -> Vec<String> {
    if count == 0 {
        return Vec::new();
    }
    if !pattern.as_str().is_empty() && text.is_empty() {
        return vec![String::new()];
    }
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let (mut start, mut end) = (0, 0);
    for found in pattern.find_iter(text).take(limit) {
        if parts.len() == limit - 1 {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            parts.push(text[start..end].to_owned());
        }
        start = found.end();
    }
    if end != text.len() {
        parts.push(text[start..].to_owned());
    }
    parts
}

/// A pattern of Go's as one of Rust's.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    let mut class_start = false;
    while let Some(it) = chars.next() {
        let starts = std::mem::take(&mut class_start);
        match it {
            '\\' => match chars.next() {
                Some('d') => out.push_str(if in_class { "0-9" } else { "[0-9]" }),
                Some('w') => out.push_str(if in_class { "0-9A-Za-z_" } else { "[0-9A-Za-z_]" }),
                Some('s') => out.push_str(if in_class { r"\t\n\f\r " } else { r"[\t\n\f\r ]" }),
                Some('D') => out.push_str("[^0-9]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('S') => out.push_str(r"[^\t\n\f\r ]"),
                Some('b') if !in_class => out.push_str(r"(?-u:\b)"),
                Some('Q') if !in_class => {
                    let mut literal = String::new();
                    while let Some(it) = chars.next() {
                        if it == '\\' && chars.peek() == Some(&'E') {
                            chars.next();
                            break;
                        }
                        literal.push(it);
                    }
                    out.push_str(&regex::escape(&literal));
                }
                Some(other) => {
                    out.push('\\');
                    out.push(other);
                }
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                class_start = true;
                out.push('[');
                if chars.peek() == Some(&'^') {
                    chars.next();
                    out.push('^');
                }
            }
            ']' if in_class && starts => out.push_str(r"\]"),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '[' if chars.peek() == Some(&':') => {
                // [:alpha:] inside a class stays as it is.
                out.push('[');
                for it in chars.by_ref() {
                    out.push(it);
                    if it == ']' {
                        break;
                    }
                }
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(it);
            }
            '{' if !in_class => {
                let rest: String = chars.clone().take_while(|it| *it != '}').collect();
                let closed = chars.clone().any(|it| it == '}');
                let (low, high) = rest.split_once(',').unwrap_or((&rest, ""));
                let counts = closed && !low.is_empty() && low.bytes().chain(high.bytes()).all(|it| it.is_ascii_digit());
                // In Go a brace that counts nothing is a brace, except behind \p and the like, which was passed above.
                let after_property = out.ends_with("\\p") || out.ends_with("\\P") || out.ends_with("\\x");
                if !counts && !after_property {
                    out.push('\\');
                }
                out.push('{');
            }
            it => out.push(it),
        }
    }
    out
}
