//! Regular expressions, as Go reads them.

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
    go_regex::compile(pattern).map_err(|error| {
        let told = error.to_string();
        let told = told.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let from = |it: char| &pattern[pattern.find(it).unwrap_or(0)..];
        let (told, shown) = match told {
            "missing closing ]" => ("missing closing ]", from('[')),
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
