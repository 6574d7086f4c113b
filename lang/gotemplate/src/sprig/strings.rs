//! Strings: cut, joined, trimmed, wrapped, and the cases of identifiers.

use std::sync::Arc;

use crate::functions::Functions;
use crate::gofmt::display;
use crate::limits::check_text;
use crate::strconv::quote;
use crate::value::{Elem, Map, Value};

type Outcome = Result<Value, String>;

pub(crate) fn add(functions: &mut Functions) {
    functions.add("hello", "", |_, _| Ok(Value::from("Hello!")));
    functions.add("trim", "string", |_, a| Ok(Value::from(text(&a[0]).trim())));
    functions.add("upper", "string", |_, a| Ok(Value::from(text(&a[0]).to_uppercase())));
    functions.add("lower", "string", |_, a| Ok(Value::from(text(&a[0]).to_lowercase())));
    functions.add("title", "string", |_, a| Ok(Value::from(title(&text(&a[0])))));
    functions.add("untitle", "string", |_, a| Ok(Value::from(untitle(&text(&a[0])))));
    functions.add("swapcase", "string", |_, a| Ok(Value::from(swap_case(&text(&a[0])))));
    functions.add("substr", "int int string", substr);
    functions.add("trunc", "int string", trunc);
    functions.add("repeat", "int string", |_, a| {
        let count = usize::try_from(int(&a[0])).map_err(|_| "strings: negative Repeat count".to_owned())?;
        let it = text(&a[1]);
        check_text(it.len().saturating_mul(count))?;
        Ok(Value::from(it.repeat(count)))
    });
    functions.add("trimAll", "string string", |_, a| {
        let cut = text(&a[0]);
        Ok(Value::from(text(&a[1]).trim_matches(|it| cut.contains(it))))
    });
    functions.alias("trimall", "trimAll");
    functions.add("trimSuffix", "string string", |_, a| {
        let it = text(&a[1]);
        Ok(Value::from(it.strip_suffix(text(&a[0]).as_str()).unwrap_or(&it)))
    });
    functions.add("trimPrefix", "string string", |_, a| {
        let it = text(&a[1]);
        Ok(Value::from(it.strip_prefix(text(&a[0]).as_str()).unwrap_or(&it)))
    });
    functions.add("nospace", "string", |_, a| {
        Ok(Value::from(
            text(&a[0]).chars().filter(|it| !it.is_whitespace()).collect::<String>(),
        ))
    });
    functions.add("initials", "string", |_, a| {
        let it = text(&a[0]);
        Ok(Value::from(
            it.split_whitespace()
                .filter_map(|it| it.chars().next())
                .collect::<String>(),
        ))
    });
    functions.add("abbrev", "int string", |_, a| {
        let it = text(&a[1]);
        Ok(Value::from(abbreviate(&it, 0, int(&a[0]))))
    });
    functions.add("abbrevboth", "int int string", |_, a| {
        let (left, right, it) = (int(&a[0]), int(&a[1]), text(&a[2]));
        if right < 4 || left > 0 && right < 7 {
            return Ok(Value::from(it));
        }
        Ok(Value::from(abbreviate(&it, left, right)))
    });
    functions.add("contains", "string string", |_, a| {
        Ok(Value::Bool(text(&a[1]).contains(&text(&a[0]))))
    });
    functions.add("hasPrefix", "string string", |_, a| {
        Ok(Value::Bool(text(&a[1]).starts_with(&text(&a[0]))))
    });
    functions.add("hasSuffix", "string string", |_, a| {
        Ok(Value::Bool(text(&a[1]).ends_with(&text(&a[0]))))
    });
    functions.add("quote", "...any", |_, a| {
        let quoted: Vec<String> = a.iter().filter(|it| !it.is_nil()).map(quote_value).collect();
        Ok(Value::from(quoted.join(" ")))
    });
    functions.add("squote", "...any", |_, a| {
        let quoted = a
            .iter()
            .filter(|it| !it.is_nil())
            .map(|it| format!("'{}'", display(it)));
        Ok(Value::from(quoted.collect::<Vec<_>>().join(" ")))
    });
    functions.add("cat", "...any", |_, a| {
        let shown: Vec<String> = a.iter().filter(|it| !it.is_nil()).map(display).collect();
        check_text(shown.iter().map(String::len).sum())?;
        Ok(Value::from(shown.join(" ")))
    });
    functions.add("indent", "int string", |_, a| {
        Ok(Value::from(indent(int(&a[0]), &text(&a[1]))?))
    });
    functions.add("nindent", "int string", |_, a| {
        Ok(Value::from(format!("\n{}", indent(int(&a[0]), &text(&a[1]))?)))
    });
    functions.add("replace", "string string string", |_, a| {
        let (old, new, source) = (text(&a[0]), text(&a[1]), text(&a[2]));
        check_text(
            source
                .len()
                .saturating_add(source.matches(&old).count().saturating_mul(new.len())),
        )?;
        Ok(Value::from(source.replace(&old, &new)))
    });
    functions.add("plural", "string string int", |_, a| {
        Ok(a[usize::from(int(&a[2]) != 1)].clone())
    });
    functions.add("snakecase", "string", |_, a| {
        Ok(Value::from(super::cases::snake(&text(&a[0]), '_')))
    });
    functions.add("kebabcase", "string", |_, a| {
        Ok(Value::from(super::cases::snake(&text(&a[0]), '-')))
    });
    functions.add("camelcase", "string", |_, a| {
        Ok(Value::from(super::cases::pascal(&text(&a[0]))))
    });
    functions.add("wrap", "int string", |_, a| {
        Ok(Value::from(wrap(&text(&a[1]), int(&a[0]), "\n", false)?))
    });
    functions.add("wrapWith", "int string string", |_, a| {
        Ok(Value::from(wrap(&text(&a[2]), int(&a[0]), &text(&a[1]), true)?))
    });
    functions.add("join", "string any", |_, a| {
        let (separator, parts) = (text(&a[0]), super::lists::strings(&a[1]));
        check_text(parts.iter().map(|it| it.len() + separator.len()).sum())?;
        Ok(Value::from(parts.join(&separator)))
    });
    functions.add("split", "string string", |_, a| {
        Ok(numbered(go_split(&text(&a[1]), &text(&a[0]), -1)))
    });
    functions.add("splitn", "string int string", |_, a| {
        Ok(numbered(go_split(&text(&a[2]), &text(&a[0]), int(&a[1]))))
    });
    functions.add("splitList", "string string", |_, a| {
        Ok(Value::strings(go_split(&text(&a[1]), &text(&a[0]), -1)))
    });
    functions.add("toString", "any", |_, a| Ok(to_string(&a[0])));
}

/// The text of a string argument.
pub(super) fn text(value: &Value) -> String {
    display(value)
}

pub(super) fn int(value: &Value) -> i64 {
    match value {
        Value::Int(value, _) => *value,
        _ => 0,
    }
}

/// sprig's `strval`.
pub(super) fn to_string(value: &Value) -> Value {
    match value {
        Value::Str(_) | Value::Binary(_) => value.clone(),
        Value::Bytes(bytes) => Value::string_of_bytes(bytes.to_vec()),
        other => Value::from(display(other)),
    }
}

fn quote_value(value: &Value) -> String {
    match value {
        Value::Binary(bytes) => crate::strconv::quote_bytes(bytes),
        Value::Bytes(bytes) => crate::strconv::quote_bytes(bytes),
        other => quote(&display(other)),
    }
}

// Go's strings.Title: a letter that follows no letter, digit, underscore or mark.
fn title(it: &str) -> String {
    let mut out = String::with_capacity(it.len());
    let mut before = ' ';
    for it in it.chars() {
        let separated = if before.is_ascii() {
            !before.is_ascii_alphanumeric() && before != '_'
        } else {
            !before.is_alphanumeric() && before.is_whitespace()
        };
        if separated {
            out.push(title_case(it));
        } else {
            out.push(it);
        }
        before = it;
    }
    out
}

// Only the digraphs have a title case that is not their upper case; a letter whose upper case is several stays.
fn title_case(it: char) -> char {
    match it {
        'Ǆ'..='ǆ' => 'ǅ',
        'Ǉ'..='ǉ' => 'ǈ',
        'Ǌ'..='ǌ' => 'ǋ',
        'Ǳ'..='ǳ' => 'ǲ',
        it => one_of(it.to_uppercase(), it),
    }
}

fn one_of(mut changed: impl Iterator<Item = char>, it: char) -> char {
    match (changed.next(), changed.next()) {
        (Some(changed), None) => changed,
        _ => it,
    }
}

fn untitle(it: &str) -> String {
    let mut out = String::with_capacity(it.len());
    let mut at_start = true;
    for it in it.chars() {
        out.push(if at_start { one_of(it.to_lowercase(), it) } else { it });
        at_start = it.is_whitespace();
    }
    out
}

fn swap_case(it: &str) -> String {
    let mut at_start = true;
    let mut out = String::with_capacity(it.len());
    for it in it.chars() {
        out.push(if it.is_uppercase() {
            one_of(it.to_lowercase(), it)
        } else if it.is_lowercase() {
            if at_start {
                title_case(it)
            } else {
                one_of(it.to_uppercase(), it)
            }
        } else {
            it
        });
        at_start = it.is_whitespace();
    }
    out
}

fn bounds(start: i64, end: i64, length: usize) -> Result<std::ops::Range<usize>, String> {
    // These are Go's own words for a slice that does not fit.
    let panicked = |what: String| Err(format!("runtime error: slice bounds out of range [{what}"));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return panicked(if end < 0 {
            format!(":{end}]")
        } else {
            format!("{start}:]")
        });
    };
    if to > length {
        return panicked(format!(":{to}] with length {length}"));
    }
    if from > to {
        return panicked(format!("{from}:{to}]"));
    }
    Ok(from..to)
}

fn bytes_of(value: &Value) -> &[u8] {
    value.as_bytes().unwrap_or_default()
}

fn substr(_: &crate::Call<'_>, a: &[Value]) -> Outcome {
    let (start, end, it) = (int(&a[0]), int(&a[1]), bytes_of(&a[2]));
    let length = it.len() as i64;
    let range = if start < 0 {
        bounds(0, end, it.len())?
    } else if end < 0 || end > length {
        if start > length {
            return Err(format!("runtime error: slice bounds out of range [{start}:{length}]"));
        }
        bounds(start, length, it.len())?
    } else {
        bounds(start, end, it.len())?
    };
    Ok(Value::string_of_bytes(it[range].to_vec()))
}

fn trunc(_: &crate::Call<'_>, a: &[Value]) -> Outcome {
    let (count, it) = (int(&a[0]), bytes_of(&a[1]));
    let length = it.len() as i64;
    let kept = if count < 0 && length.saturating_add(count) > 0 {
        &it[(length + count) as usize..]
    } else if count >= 0 && length > count {
        &it[..count as usize]
    } else {
        return Ok(a[1].clone());
    };
    Ok(Value::string_of_bytes(kept.to_vec()))
}

/// goutils' Abbreviate: dots in place of what does not fit.
fn abbreviate(it: &str, offset: i64, width: i64) -> String {
    let bytes = it.as_bytes();
    let length = bytes.len() as i64;
    if it.is_empty() || width < 4 || offset > 0 && width < 7 || length <= width {
        return it.to_owned();
    }
    let cut = |from: i64, to: i64| String::from_utf8_lossy(&bytes[from as usize..to as usize]).into_owned();
    let mut offset = offset.min(length);
    if length - offset < width - 3 {
        offset = length - (width - 3);
    }
    if offset <= 4 {
        return format!("{}...", cut(0, width - 3));
    }
    if offset + width - 3 < length {
        let inner = abbreviate(&cut(offset, length), 0, width - 3);
        return format!("...{inner}");
    }
    format!("...{}", cut(length - (width - 3), length))
}

pub(super) fn indent(spaces: i64, it: &str) -> Result<String, String> {
    let spaces = usize::try_from(spaces).map_err(|_| "strings: negative Repeat count".to_owned())?;
    let lines = it.matches('\n').count() + 1;
    check_text(it.len().saturating_add(lines.saturating_mul(spaces)))?;
    let pad = " ".repeat(spaces);
    Ok(format!("{pad}{}", it.replace('\n', &format!("\n{pad}"))))
}

/// Go's `strings.SplitN`.
pub(super) fn go_split(it: &str, separator: &str, count: i64) -> Vec<String> {
    let limit = match count {
        0 => return Vec::new(),
        count if count < 0 => usize::MAX,
        count => count as usize,
    };
    if separator.is_empty() {
        let chars = it.chars().count();
        if chars <= limit {
            return it.chars().map(String::from).collect();
        }
        let mut parts: Vec<String> = it.chars().take(limit - 1).map(String::from).collect();
        parts.push(it.chars().skip(limit - 1).collect());
        return parts;
    }
    it.splitn(limit, separator).map(str::to_owned).collect()
}

fn numbered(parts: Vec<String>) -> Value {
    let entries = parts.into_iter().enumerate();
    let entries = entries.map(|(at, it)| (Arc::from(format!("_{at}")), Value::from(it)));
    Value::Map(Map::new(entries.collect(), Elem::Str))
}

/// goutils' WrapCustom.
fn wrap(it: &str, width: i64, line_break: &str, long_words: bool) -> Result<String, String> {
    let bytes = it.as_bytes();
    let line_break = if line_break.is_empty() { "\n" } else { line_break };
    let width = usize::try_from(width).unwrap_or(0).max(1);
    check_text(
        it.len()
            .saturating_add((it.len() / width + 1).saturating_mul(line_break.len())),
    )?;
    let mut out: Vec<u8> = Vec::with_capacity(it.len() + 32);
    let mut offset = 0;
    while bytes.len() - offset > width {
        if bytes[offset] == b' ' {
            offset += 1;
            continue;
        }
        let end = width + offset + 1;
        // A space before this line is no place to break it.
        let space = bytes[offset..end.min(bytes.len())].iter().rposition(|it| *it == b' ');
        match space {
            Some(space) => {
                let space = space + offset;
                out.extend_from_slice(&bytes[offset..space]);
                out.extend_from_slice(line_break.as_bytes());
                offset = space + 1;
            }
            _ if long_words => {
                out.extend_from_slice(&bytes[offset..width + offset]);
                out.extend_from_slice(line_break.as_bytes());
                offset += width;
            }
            _ => {
                let from = width + offset;
                match bytes[from..].iter().position(|it| *it == b' ') {
                    Some(space) => {
                        let space = space + from;
                        out.extend_from_slice(&bytes[offset..space]);
                        out.extend_from_slice(line_break.as_bytes());
                        offset = space + 1;
                    }
                    None => {
                        out.extend_from_slice(&bytes[offset..]);
                        offset = bytes.len();
                    }
                }
            }
        }
    }
    out.extend_from_slice(&bytes[offset..]);
    Ok(String::from_utf8_lossy(&out).into_owned())
}
