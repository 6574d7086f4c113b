//! YAML as `sigs.k8s.io/yaml` reads and writes it: keys sorted, lists at the indentation of their key, strings quoted
//! where YAML 1.1 would take them for something else, long lines folded at 80 columns.

use std::cmp::Ordering;

use serde_json::Value as Json;

use crate::strconv::{format_float, json_float};

/// Which of the two Go libraries to write like.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `toYaml`: go-yaml 2 behind `sigs.k8s.io/yaml`.
    Sigs,
    /// `toYamlPretty`: go-yaml 3 with an indent of two.
    Pretty,
}

/// Reads one document. An empty text is null.
pub(crate) fn read(text: &str) -> Result<Json, String> {
    read_as(text, Dialect::Sigs)
}

/// Reads one document as one of the libraries does: go-yaml 3 knows two truths only.
pub(crate) fn read_as(text: &str, dialect: Dialect) -> Result<Json, String> {
    let options = serde_saphyr::options! {
        strict_booleans: dialect == Dialect::Pretty,
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        with_snippet: false,
    };
    if dialect == Dialect::Pretty && text.contains("\n---") {
        // go-yaml reads the first of several documents.
        return serde_saphyr::from_multiple_with_options::<Json>(text, options)
            .map(|all| all.into_iter().next().unwrap_or_default())
            .map_err(|error| error.without_snippet().to_string());
    }
    serde_saphyr::from_str_with_options::<Option<Json>>(text, options)
        .map(Option::unwrap_or_default)
        .map_err(|error| error.without_snippet().to_string())
}

/// Writes a document, with a line break at its end.
pub(crate) fn write(json: &Json, dialect: Dialect) -> String {
    let mut writer = Writer {
        out: String::new(),
        dialect,
    };
    match json {
        Json::Object(entries) if !entries.is_empty() => writer.map(entries, 0, true),
        Json::Array(items) if !items.is_empty() => writer.list(items, 0, true),
        scalar => writer.scalar(scalar, 2, false),
    }
    if !writer.out.ends_with('\n') {
        writer.out.push('\n');
    }
    writer.out
}

struct Writer {
    out: String,
    dialect: Dialect,
}

impl Writer {
    fn line(&mut self, indent: usize) {
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    fn column(&self) -> usize {
        let start = self.out.rfind('\n').map_or(0, |at| at + 1);
        self.out[start..].chars().count()
    }

    fn map(&mut self, entries: &serde_json::Map<String, Json>, indent: usize, inline: bool) {
        let entries: Vec<_> = entries.iter().collect();
        let entries = sorted(entries);
        for (at, (key, value)) in entries.into_iter().enumerate() {
            if at > 0 || !inline {
                self.line(indent);
            }
            let simple = key.len() <= 128 && !key.contains('\n');
            if !simple {
                self.out.push_str("? ");
            }
            self.string(key, indent + 2, simple);
            if !simple {
                self.line(indent);
            }
            self.out.push(':');
            crate::limits::with_stack(|| match value {
                Json::Object(entries) if !entries.is_empty() => self.map(entries, indent + 2, false),
                Json::Array(items) if !items.is_empty() => {
                    let deeper = if self.dialect == Dialect::Pretty { 2 } else { 0 };
                    self.list(items, indent + deeper, false);
                }
                scalar => {
                    self.out.push(' ');
                    self.scalar(scalar, indent + 2, false);
                }
            });
        }
    }

    fn list(&mut self, items: &[Json], indent: usize, inline: bool) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 || !inline {
                self.line(indent);
            }
            self.out.push_str("- ");
            crate::limits::with_stack(|| match item {
                Json::Object(entries) if !entries.is_empty() => self.map(entries, indent + 2, true),
                Json::Array(items) if !items.is_empty() => self.list(items, indent + 2, true),
                scalar => self.scalar(scalar, indent + 2, false),
            });
        }
    }

    fn scalar(&mut self, json: &Json, indent: usize, simple_key: bool) {
        match json {
            Json::Null => self.out.push_str("null"),
            Json::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Json::Number(number) => {
                let text = number_text(number, self.dialect);
                self.out.push_str(&text);
            }
            Json::Array(_) => self.out.push_str("[]"),
            Json::Object(_) => self.out.push_str("{}"),
            Json::String(text) => self.string(text, indent, simple_key),
        }
    }

    fn string(&mut self, text: &str, indent: usize, simple_key: bool) {
        let shape = Shape::of(text, self.dialect);
        let plain = is_plain_string(text);
        if text.contains('\n') && shape.block_allowed && !simple_key {
            self.literal(text, indent);
        } else if text.contains('\n') || !plain {
            self.double_quoted(text, indent, !simple_key);
        } else if shape.plain_allowed && !(text.is_empty() && simple_key) {
            self.folded(text, indent, !simple_key);
        } else if shape.single_allowed {
            self.out.push('\'');
            let quoted = text.replace('\'', "''");
            self.folded_quoted(text, &quoted, indent, !simple_key);
            self.out.push('\'');
        } else {
            self.double_quoted(text, indent, !simple_key);
        }
    }

    fn width(&self) -> usize {
        if self.dialect == Dialect::Sigs { 80 } else { usize::MAX }
    }

    fn folded(&mut self, text: &str, indent: usize, breaks: bool) {
        let mut column = self.column();
        let mut chars = text.chars().peekable();
        let mut after_space = false;
        while let Some(it) = chars.next() {
            let fold = it == ' ' && breaks && !after_space && column > self.width() && chars.peek() != Some(&' ');
            if fold {
                self.line(indent);
                column = indent;
            } else {
                self.out.push(it);
                column += 1;
            }
            after_space = it == ' ';
        }
    }

    // The first and the last character are never where a quoted line is folded.
    fn folded_quoted(&mut self, text: &str, quoted: &str, indent: usize, breaks: bool) {
        let mut column = self.column();
        let last = quoted.len() - 1;
        let mut after_space = false;
        debug_assert!(quoted.len() >= text.len());
        for (at, it) in quoted.char_indices() {
            let next = quoted[at + it.len_utf8()..].chars().next();
            let fold = it == ' '
                && breaks
                && !after_space
                && column > self.width()
                && at > 0
                && at < last
                && next != Some(' ');
            if fold {
                self.line(indent);
                column = indent;
            } else {
                self.out.push(it);
                column += 1;
            }
            after_space = it == ' ';
        }
    }

    fn double_quoted(&mut self, text: &str, indent: usize, breaks: bool) {
        self.out.push('"');
        let mut column = self.column();
        let mut after_space = false;
        for (at, it) in text.char_indices() {
            let before = self.out.len();
            let mut folded = false;
            match it {
                ' ' if breaks && !after_space && column > self.width() && at > 0 && at + 1 < text.len() => {
                    self.line(indent);
                    column = indent;
                    if text[at + 1..].starts_with(' ') {
                        self.out.push('\\');
                        column += 1;
                    }
                    folded = true;
                }
                '\0' => self.out.push_str("\\0"),
                '\u{7}' => self.out.push_str("\\a"),
                '\u{8}' => self.out.push_str("\\b"),
                '\t' => self.out.push_str("\\t"),
                '\n' => self.out.push_str("\\n"),
                '\u{b}' => self.out.push_str("\\v"),
                '\u{c}' => self.out.push_str("\\f"),
                '\r' => self.out.push_str("\\r"),
                '\u{1b}' => self.out.push_str("\\e"),
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\u{85}' => self.out.push_str("\\N"),
                '\u{2028}' => self.out.push_str("\\L"),
                '\u{2029}' => self.out.push_str("\\P"),
                it if is_printable(it) => self.out.push(it),
                it if (it as u32) <= 0xff => self.out.push_str(&format!("\\x{:02X}", it as u32)),
                it if (it as u32) <= 0xffff => self.out.push_str(&format!("\\u{:04X}", it as u32)),
                it => self.out.push_str(&format!("\\U{:08X}", it as u32)),
            }
            if !folded {
                column += self.out[before..].chars().count();
            }
            after_space = it == ' ';
        }
        self.out.push('"');
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.out.push('|');
        if text.starts_with([' ', '\n', '\u{85}', '\u{2028}', '\u{2029}']) {
            self.out.push('2');
        }
        if !text.ends_with('\n') {
            self.out.push('-');
        } else if text == "\n" || text.ends_with("\n\n") {
            self.out.push('+');
        }
        self.out.push('\n');
        let body = text.strip_suffix('\n').unwrap_or(text);
        for line in body.split('\n') {
            if !line.is_empty() {
                self.out.extend(std::iter::repeat_n(' ', indent));
                self.out.push_str(line);
            }
            self.out.push('\n');
        }
        if !text.ends_with('\n') {
            self.out.pop();
        }
    }
}

fn number_text(number: &serde_json::Number, dialect: Dialect) -> String {
    if number.is_i64() || number.is_u64() {
        return number.to_string();
    }
    let value = number.as_f64().unwrap_or(f64::NAN);
    if dialect == Dialect::Sigs {
        // It goes through JSON, where a float without decimals is a whole number.
        let text = json_float(value);
        if text == "-0" {
            return "0".to_owned();
        }
        if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() {
            return text;
        }
    }
    format_float(value, 'g', -1)
}

/// What may be done with a scalar: libyaml's analysis.
struct Shape {
    plain_allowed: bool,
    single_allowed: bool,
    block_allowed: bool,
}

fn is_break(it: char) -> bool {
    matches!(it, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(it: char) -> bool {
    matches!(it, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && it != '\u{feff}'
}

impl Shape {
    fn of(text: &str, dialect: Dialect) -> Shape {
        let Some(first) = text.chars().next() else {
            return Shape {
                plain_allowed: true,
                single_allowed: true,
                block_allowed: false,
            };
        };
        let mut indicator = text.starts_with("---") || text.starts_with("...");
        let mut special = false;
        let mut tab = false;
        let (mut break_space, mut space_break) = (false, false);
        let (mut previous_space, mut previous_break) = (false, false);
        let mut after_blank = true;
        let mut chars = text.chars().peekable();
        let mut at_start = true;
        while let Some(it) = chars.next() {
            let before_blank = chars.peek().is_none_or(|it| matches!(it, ' ' | '\t'));
            indicator |= match it {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`'
                    if at_start =>
                {
                    true
                }
                '?' | '-' if at_start => before_blank,
                ':' => before_blank,
                '#' => after_blank,
                _ => false,
            };
            at_start = false;
            if it == '\t' && dialect == Dialect::Pretty {
                tab = true;
            } else {
                special |= !is_printable(it) && !is_break(it) || it == '\r' || it == '\u{85}';
            }
            if it == ' ' {
                break_space |= previous_break;
                (previous_space, previous_break) = (true, false);
            } else if is_break(it) {
                space_break |= previous_space;
                (previous_space, previous_break) = (false, true);
            } else {
                (previous_space, previous_break) = (false, false);
            }
            after_blank = matches!(it, ' ' | '\t') || is_break(it);
        }
        let last = text.chars().next_back().unwrap_or(first);
        let edges = first == ' ' || is_break(first) || last == ' ' || is_break(last);
        let lines = text.chars().any(is_break);
        Shape {
            plain_allowed: !indicator && !edges && !lines && !break_space && !space_break && !special && !tab,
            single_allowed: !break_space && !space_break && !special && !tab,
            block_allowed: last != ' ' && !space_break && !special,
        }
    }
}

/// Whether a reader takes the unquoted text for a string.
fn is_plain_string(text: &str) -> bool {
    const TRUTHS: &[&str] = &["true", "True", "TRUE", "false", "False", "FALSE"];
    const OLD_TRUTHS: &[&str] = &[
        "y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF",
    ];
    const OTHERS: &[&str] = &[
        "", "~", "null", "Null", "NULL", ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF",
        "-.inf", "-.Inf", "-.INF",
    ];
    if TRUTHS.contains(&text) || OLD_TRUTHS.contains(&text) || OTHERS.contains(&text) {
        return false;
    }
    let plain = text.replace('_', "");
    let number = match text.as_bytes()[0] {
        b'.' => crate::strconv::parse_float(text).is_some_and(f64::is_finite),
        b'0'..=b'9' | b'+' | b'-' => {
            is_timestamp(text)
                || crate::strconv::parse_int(&plain).is_some()
                || crate::strconv::parse_uint(&plain).is_some()
                || is_float(&plain)
                || is_base_60(text)
        }
        _ => false,
    };
    !number
}

// ^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|it| it.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_fits = digits(whole) && digits(fraction) && if whole.is_empty() { !fraction.is_empty() } else { true };
    let exponent_fits = exponent.is_none_or(|it| {
        let it = it.strip_prefix(['-', '+']).unwrap_or(it);
        !it.is_empty() && digits(it)
    });
    mantissa_fits && exponent_fits && crate::strconv::parse_float(text).is_some()
}

// ^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (sixties, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut parts = sixties.split(':');
    let first = parts.next().unwrap_or_default();
    let rest: Vec<_> = parts.collect();
    first.starts_with(|it: char| it.is_ascii_digit())
        && first.bytes().all(|it| it.is_ascii_digit() || it == b'_')
        && !rest.is_empty()
        && rest.iter().all(|it| match it.as_bytes() {
            [digit] => digit.is_ascii_digit(),
            [ten, digit] => (b'0'..=b'5').contains(ten) && digit.is_ascii_digit(),
            _ => false,
        })
        && fraction.bytes().all(|it| it.is_ascii_digit() || it == b'_')
}

/// `2006-1-2`, with or without a time of day.
fn is_timestamp(text: &str) -> bool {
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some(&text[at..])),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let (Some(year), Some(month), Some(day), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let number = |text: &str, digits: std::ops::RangeInclusive<usize>| -> Option<i16> {
        let fits = digits.contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit());
        fits.then(|| text.parse().ok()).flatten()
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4..=4), number(month, 1..=2), number(day, 1..=2)) else {
        return false;
    };
    if jiff::civil::Date::new(year, month as i8, day as i8).is_err() {
        return false;
    }
    let Some(time) = time else {
        return true;
    };
    let with_zone = !time.starts_with(' ');
    let time = &time[1..];
    let (clock, zone) = match time.find(['Z', '+', '-']) {
        Some(at) => (&time[..at], &time[at..]),
        None => (time, ""),
    };
    let zone_fits = match zone {
        "" => !with_zone,
        "Z" => with_zone,
        offset => with_zone && offset.len() == 6 && offset.as_bytes()[3] == b':',
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let parts: Vec<_> = clock.split(':').map(|it| number(it, 1..=2)).collect();
    let clock_fits = matches!(parts.as_slice(), [Some(0..24), Some(0..60), Some(0..60)]);
    zone_fits && clock_fits && !fraction.is_empty() && fraction.bytes().all(|it| it.is_ascii_digit())
}

/// go-yaml's order of keys: letters after everything else, numbers by their value.
fn natural(a: &str, b: &str) -> Ordering {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let shorter = a.len().min(b.len());
    let Some(at) = (0..shorter).find(|at| a[*at] != b[*at]) else {
        return a.len().cmp(&b.len());
    };
    match (a[at].is_alphabetic(), b[at].is_alphabetic()) {
        (true, true) => return a[at].cmp(&b[at]),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero in front counts only where it is not inside a number.
    let mut lead = 0u64;
    if a[at] == '0' || b[at] == '0' {
        for it in a[..at].iter().rev() {
            if !it.is_ascii_digit() {
                break;
            }
            if *it != '0' {
                lead = 1;
                break;
            }
        }
    }
    let number = |text: &[char]| {
        let digits = text.iter().take_while(|it| it.is_ascii_digit());
        let mut value = lead;
        let mut count = 0;
        for digit in digits {
            value = value
                .wrapping_mul(10)
                .wrapping_add(u64::from(*digit as u32 - '0' as u32));
            count += 1;
        }
        (value, count)
    };
    let (a_number, a_count) = number(&a[at..]);
    let (b_number, b_count) = number(&b[at..]);
    (a_number.cmp(&b_number))
        .then(a_count.cmp(&b_count))
        .then(a[at].cmp(&b[at]))
}

/// Sorts by go-yaml's order, which has circles (`a01`, `a10`, `a1b`): the standard sort may refuse such an order.
fn sorted<'a>(mut entries: Vec<(&'a String, &'a Json)>) -> Vec<(&'a String, &'a Json)> {
    if entries.len() < 2 {
        return entries;
    }
    let right = sorted(entries.split_off(entries.len() / 2));
    let left = sorted(entries);
    let mut all = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some((a, _)), Some((b, _))) = (left.peek(), right.peek()) {
        let first = if natural(a, b) == Ordering::Greater {
            &mut right
        } else {
            &mut left
        };
        all.extend(first.next());
    }
    all.extend(left);
    all.extend(right);
    all
}
