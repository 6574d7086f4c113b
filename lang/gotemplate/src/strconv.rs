//! Numbers and quoted strings as Go's `strconv` reads and writes them.

/// More decimals, in either notation, the most exact number does not have: behind them are zeros. `format!` takes
/// 65,535 as a width at most, where Go takes a million.
const DECIMALS_MAX: usize = 1074;

/// `strconv.FormatFloat(value, verb, precision, 64)` for the verbs `e E f g G`; a negative precision is the shortest
/// text that reads back as the same number.
pub fn format_float(value: f64, verb: char, precision: i32) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let lower = verb.to_ascii_lowercase();
    let text = match lower {
        'e' => with_go_exponent(&scientific(value, precision)),
        'g' => general(value, precision),
        _ => match usize::try_from(precision) {
            Ok(digits) => {
                let exact = digits.min(DECIMALS_MAX);
                let mut text = format!("{value:.exact$}");
                text.extend(std::iter::repeat_n('0', digits - exact));
                text
            }
            Err(_) => format!("{value}"),
        },
    };
    if verb.is_ascii_uppercase() {
        text.to_uppercase()
    } else {
        text
    }
}

fn scientific(value: f64, precision: i32) -> String {
    match usize::try_from(precision) {
        Ok(digits) => {
            let exact = digits.min(DECIMALS_MAX);
            let mut text = format!("{value:.exact$e}");
            let end = text.find('e').unwrap_or(text.len());
            text.insert_str(end, &"0".repeat(digits - exact));
            text
        }
        Err(_) => format!("{value:e}"),
    }
}

fn with_go_exponent(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

fn general(value: f64, precision: i32) -> String {
    let shortest = precision < 0;
    let wanted = if precision == 0 { 1 } else { precision };
    let text = scientific(value, if shortest { -1 } else { wanted - 1 });
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // Go drops the zeros at the end that a precision asks for: they are not digits of the number.
    let mantissa = if shortest || !mantissa.contains('.') {
        mantissa
    } else {
        mantissa.trim_end_matches('0').trim_end_matches('.')
    };
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count() as i32;
    let mut threshold = if shortest { 6 } else { wanted };
    if threshold > digits && digits > exponent {
        threshold = digits;
    }
    if shortest {
        threshold = 6;
    }
    if exponent < -4 || exponent >= threshold {
        return with_go_exponent(&format!("{mantissa}e{exponent}"));
    }
    let decimals = (digits - 1 - exponent).max(0) as usize;
    format!("{value:.decimals$}")
}

/// A float as Go's `encoding/json` writes it.
pub fn json_float(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format_float(value, 'e', -1);
        // e-09 is written as e-9.
        if let Some((mantissa, digit)) = text.split_once("e-0") {
            return format!("{mantissa}e-{digit}");
        }
        return text;
    }
    format_float(value, 'f', -1)
}

/// `strconv.Quote`.
pub fn quote(text: &str) -> String {
    quote_with(text, '"', false)
}

/// `strconv.QuoteToASCII`.
pub fn quote_to_ascii(text: &str) -> String {
    quote_with(text, '"', true)
}

/// A quoted string of bytes that need not be UTF-8.
pub fn quote_bytes(bytes: &[u8]) -> String {
    let mut out = String::from('"');
    for chunk in bytes.utf8_chunks() {
        for it in chunk.valid().chars() {
            quote_char(&mut out, it, '"', false);
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push('"');
    out
}

pub(crate) fn quote_with(text: &str, mark: char, ascii: bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(mark);
    for it in text.chars() {
        quote_char(&mut out, it, mark, ascii);
    }
    out.push(mark);
    out
}

fn quote_char(out: &mut String, it: char, mark: char, ascii: bool) {
    match it {
        it if it == mark || it == '\\' => {
            out.push('\\');
            out.push(it);
        }
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        it if it.is_ascii() && !it.is_ascii_control() => out.push(it),
        it if !ascii && is_print(it) => out.push(it),
        it if (it as u32) < 0x80 => out.push_str(&format!("\\x{:02x}", it as u32)),
        it if (it as u32) < 0x10000 => out.push_str(&format!("\\u{:04x}", it as u32)),
        it => out.push_str(&format!("\\U{:08x}", it as u32)),
    }
}

/// Go's `unicode.IsPrint`, near enough: Rust's own escaping of a debug string draws the same line.
pub fn is_print(it: char) -> bool {
    if it.is_ascii() {
        return !it.is_ascii_control();
    }
    // U+00A0, U+00AD and the other spaces are not printable in Go.
    !it.is_whitespace() && it != '\u{ad}' && (it.escape_debug().count() == 1 || is_mark(it))
}

// Rust escapes a combining mark in front of a string; Go prints it.
fn is_mark(it: char) -> bool {
    it.escape_debug().count() > 1 && format!("x{it}").escape_debug().count() == 2
}

/// `strconv.Unquote` for string and raw string literals; `None` when the text is not one.
pub fn unquote(literal: &str) -> Option<Vec<u8>> {
    let mark = literal.chars().next()?;
    let inner = literal.strip_prefix(mark)?.strip_suffix(mark)?;
    if literal.len() < 2 {
        return None;
    }
    match mark {
        '`' if inner.contains('`') => None,
        '`' => Some(inner.bytes().filter(|it| *it != b'\r').collect()),
        '"' | '\'' => unescape(inner, mark),
        _ => None,
    }
}

/// The character of a Go character literal.
pub fn unquote_char(literal: &str) -> Option<u32> {
    let inner = literal.strip_prefix('\'')?.strip_suffix('\'')?;
    let bytes = unescape(inner, '\'')?;
    if let Some(digits) = inner.strip_prefix("\\x") {
        return u32::from_str_radix(digits, 16).ok();
    }
    let text = String::from_utf8(bytes).ok()?;
    let mut chars = text.chars();
    let it = chars.next()?;
    chars.next().is_none().then_some(it as u32)
}

fn unescape(inner: &str, mark: char) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(it) = rest.next() {
        if it == mark || it == '\n' {
            return None;
        }
        if it != '\\' {
            out.extend_from_slice(it.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        match rest.next()? {
            'a' => out.push(7),
            'b' => out.push(8),
            'f' => out.push(12),
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            'v' => out.push(11),
            '\\' => out.push(b'\\'),
            quoted @ ('\'' | '"') if quoted == mark => out.push(quoted as u8),
            'x' => out.push(u8::try_from(digits(&mut rest, 2, 16)?).ok()?),
            'u' => push_char(&mut out, digits(&mut rest, 4, 16)?)?,
            'U' => push_char(&mut out, digits(&mut rest, 8, 16)?)?,
            first @ '0'..='7' => {
                let tail = digits(&mut rest, 2, 8)?;
                out.push(u8::try_from(first.to_digit(8)? * 64 + tail).ok()?);
            }
            _ => return None,
        }
    }
    Some(out)
}

fn push_char(out: &mut Vec<u8>, code: u32) -> Option<()> {
    let it = char::from_u32(code)?;
    out.extend_from_slice(it.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}

fn digits(rest: &mut std::str::Chars<'_>, count: usize, radix: u32) -> Option<u32> {
    let mut value: u32 = 0;
    for _ in 0..count {
        value = value.checked_mul(radix)?.checked_add(rest.next()?.to_digit(radix)?)?;
    }
    Some(value)
}

/// `strconv.ParseInt(text, 0, 64)`: with a sign, a base prefix, underscores between digits. `None` on any fault.
pub fn parse_int(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = parse_uint(digits)?;
    if negative {
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// `strconv.ParseUint(text, 0, 64)`.
pub fn parse_uint(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (radix, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (8, digits)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    // An underscore stands between digits, or between the prefix and a digit.
    if digits.ends_with('_') || digits.contains("__") || radix == 10 && digits.starts_with('_') {
        return None;
    }
    let digits: String = digits.chars().filter(|it| *it != '_').collect();
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(&digits, radix).ok()
}

/// `strconv.ParseFloat(text, 64)` as far as JSON, YAML and templates write floats, with hexadecimal ones.
pub fn parse_float(text: &str) -> Option<f64> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if unsigned.starts_with(['+', '-']) {
        return None;
    }
    let lower = unsigned.to_ascii_lowercase();
    if let Some(hex) = lower.strip_prefix("0x") {
        let (mantissa, exponent) = hex.split_once('p')?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut value = 0.0;
        for digit in whole.chars().chain(fraction.chars()).filter(|it| *it != '_') {
            value = value * 16.0 + f64::from(digit.to_digit(16)?);
        }
        let exponent: i32 = exponent.parse().ok()?;
        return Some(sign * value * 2f64.powi(exponent.saturating_sub(4 * fraction.len() as i32)));
    }
    match lower.as_str() {
        "inf" | "infinity" => return Some(sign * f64::INFINITY),
        "nan" => return Some(f64::NAN),
        _ => {}
    }
    if !lower.starts_with(|it: char| it.is_ascii_digit() || it == '.') {
        return None;
    }
    let value: f64 = lower.parse().ok()?;
    value.is_finite().then_some(sign * value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_has_as_many_decimals_as_requested() {
        let zeros = |count: usize| "0".repeat(count);
        let table = [
            (1.5, 'f', format!("1.5{}", zeros(69_999))),
            (1.5, 'e', format!("1.5{}e+00", zeros(69_999))),
            (-1.5, 'E', format!("-1.5{}E+00", zeros(69_999))),
            (1.5, 'g', "1.5".to_owned()),
            (1e-7, 'g', general(1e-7, 1000)),
            (
                f64::from_bits(1),
                'f',
                format!("{}{}", format_float(f64::from_bits(1), 'f', 1074), zeros(68_926)),
            ),
        ];
        for (value, verb, expected) in table {
            let text = format_float(value, verb, 70_000);
            assert!(text == expected, "{value:e} {verb}: {}", text.trim_end_matches('0'));
        }
        // The last digit of the smallest number.
        assert!(format_float(f64::from_bits(1), 'f', 1074).ends_with('5'));
    }
}
