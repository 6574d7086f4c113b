//! Go's `fmt`: what `print`, `printf` and a bare action write.

use std::fmt::Write;

use crate::limits::{DEPTH_OF_DATA_MAX, TEXT_BYTES_MAX};
use crate::strconv::{format_float, quote_bytes, quote_to_ascii, quote_with};
use crate::value::{Elem, Value};

/// `fmt.Sprint`: a space between two operands when neither is a string.
pub fn sprint(args: &[Value]) -> String {
    let mut printer = Printer::default();
    let mut after_string = true;
    for (at, arg) in args.iter().enumerate() {
        let string = matches!(arg, Value::Str(_) | Value::Binary(_));
        if at > 0 && !string && !after_string {
            printer.out.push(' ');
        }
        printer.arg(arg, 'v');
        after_string = string;
    }
    printer.out
}

/// `fmt.Sprintln`.
pub fn sprintln(args: &[Value]) -> String {
    let mut printer = Printer::default();
    for (at, arg) in args.iter().enumerate() {
        if at > 0 {
            printer.out.push(' ');
        }
        printer.arg(arg, 'v');
    }
    printer.out.push('\n');
    printer.out
}

/// What a value prints as on its own, `%v`.
pub fn display(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        other => sprint(std::slice::from_ref(other)),
    }
}

/// `fmt.Sprintf`.
pub fn sprintf(format: &str, args: &[Value]) -> String {
    let mut printer = Printer::default();
    printer.format(format, args);
    printer.out
}

#[derive(Default, Clone)]
struct Flags {
    plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
    /// `%+v` and `%#v` are modes of the verb rather than flags of the number.
    plus_v: bool,
    sharp_v: bool,
}

#[derive(Default)]
struct Printer {
    out: String,
    flags: Flags,
}

// Go takes widths and precisions up to this.
const NUMBER_MAX: usize = 1_000_000;

struct Directives<'a> {
    format: &'a [u8],
    text: &'a str,
    at: usize,
    args: &'a [Value],
    arg: usize,
    reordered: bool,
    /// An argument index was given and is wrong.
    bad_index: bool,
}

impl Directives<'_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    fn number(&mut self) -> Option<usize> {
        let start = self.at;
        let mut value = 0usize;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
            self.at += 1;
        }
        (self.at > start && value <= NUMBER_MAX).then_some(value)
    }

    /// `[3]`: the next argument is the third.
    fn index(&mut self) -> bool {
        if self.peek() != Some(b'[') {
            return false;
        }
        self.reordered = true;
        let Some(end) = self.format[self.at..].iter().position(|it| *it == b']') else {
            self.bad_index = true;
            self.at += 1;
            return false;
        };
        let inner = &self.text[self.at + 1..self.at + end];
        self.at += end + 1;
        match inner.parse::<usize>() {
            Ok(wanted) if wanted >= 1 && wanted <= self.args.len() => {
                self.arg = wanted - 1;
                true
            }
            _ => {
                self.bad_index = true;
                true
            }
        }
    }

    fn star(&mut self) -> Option<i64> {
        let value = match self.args.get(self.arg) {
            Some(Value::Int(value, _)) if value.unsigned_abs() <= NUMBER_MAX as u64 => Some(*value),
            _ => None,
        };
        if self.arg < self.args.len() {
            self.arg += 1;
        }
        value
    }
}

impl Printer {
    fn format(&mut self, format: &str, args: &[Value]) {
        let mut it = Directives {
            format: format.as_bytes(),
            text: format,
            at: 0,
            args,
            arg: 0,
            reordered: false,
            bad_index: false,
        };
        while it.at < format.len() {
            if self.out.len() > TEXT_BYTES_MAX {
                return;
            }
            let text = &format[it.at..];
            let plain = text.find('%').unwrap_or(text.len());
            self.out.push_str(&text[..plain]);
            it.at += plain;
            if it.at >= format.len() {
                break;
            }
            it.at += 1;
            self.directive(&mut it);
        }
        if !it.reordered && it.arg < args.len() {
            self.flags = Flags::default();
            self.out.push_str("%!(EXTRA ");
            for (at, arg) in args[it.arg..].iter().enumerate() {
                if at > 0 {
                    self.out.push_str(", ");
                }
                if arg.is_nil() {
                    self.out.push_str("<nil>");
                } else {
                    let _ = write!(self.out, "{}=", arg.type_name());
                    self.arg(arg, 'v');
                }
            }
            self.out.push(')');
        }
    }

    fn directive(&mut self, it: &mut Directives<'_>) {
        self.flags = Flags::default();
        it.bad_index = false;
        while let Some(flag) = it.peek() {
            match flag {
                b'#' => self.flags.sharp = true,
                b'0' => self.flags.zero = true,
                b'+' => self.flags.plus = true,
                b'-' => self.flags.minus = true,
                b' ' => self.flags.space = true,
                _ => break,
            }
            it.at += 1;
        }
        let mut after_index = it.index();
        if it.peek() == Some(b'*') {
            it.at += 1;
            match it.star() {
                Some(width) => {
                    if width < 0 {
                        self.flags.minus = true;
                        self.flags.zero = false;
                    }
                    self.flags.width = Some(width.unsigned_abs() as usize);
                }
                None => self.out.push_str("%!(BADWIDTH)"),
            }
            after_index = false;
        } else {
            self.flags.width = it.number();
            if after_index && self.flags.width.is_some() {
                it.bad_index = true;
            }
        }
        if it.peek() == Some(b'.') {
            it.at += 1;
            if after_index {
                it.bad_index = true;
            }
            after_index = it.index();
            if it.peek() == Some(b'*') {
                it.at += 1;
                match it.star() {
                    Some(precision) => self.flags.precision = usize::try_from(precision).ok(),
                    None => self.out.push_str("%!(BADPREC)"),
                }
                after_index = false;
            } else {
                self.flags.precision = Some(it.number().unwrap_or(0));
            }
        }
        if !after_index {
            it.index();
        }
        let Some(verb) = it.text[it.at..].chars().next() else {
            self.out.push_str("%!(NOVERB)");
            return;
        };
        it.at += verb.len_utf8();
        if verb == '%' {
            self.out.push('%');
        } else if it.bad_index {
            let _ = write!(self.out, "%!{verb}(BADINDEX)");
        } else if it.arg >= it.args.len() {
            let _ = write!(self.out, "%!{verb}(MISSING)");
        } else {
            if verb == 'v' {
                self.flags.sharp_v = std::mem::take(&mut self.flags.sharp);
                self.flags.plus_v = std::mem::take(&mut self.flags.plus);
            }
            let arg = &it.args[it.arg];
            it.arg += 1;
            self.arg(arg, verb);
        }
    }

    fn arg(&mut self, arg: &Value, verb: char) {
        match (arg, verb) {
            (Value::Missing | Value::Nil, 'T' | 'v') => self.pad("<nil>"),
            (_, 'T') => {
                let name = arg.type_name().into_owned();
                self.text(&name);
            }
            _ => self.value(arg, verb, 0),
        }
    }

    fn bad_verb(&mut self, value: &Value, verb: char) {
        let _ = write!(self.out, "%!{verb}(");
        if value.is_nil() {
            self.out.push_str("<nil>");
        } else {
            let _ = write!(self.out, "{}=", value.type_name());
            self.value(value, 'v', 0);
        }
        self.out.push(')');
    }

    fn value(&mut self, value: &Value, verb: char, depth: usize) {
        if depth > DEPTH_OF_DATA_MAX || self.out.len() > TEXT_BYTES_MAX {
            return;
        }
        match value {
            Value::Missing | Value::Nil if depth > 0 => {
                self.out.push_str(if self.flags.sharp_v {
                    "interface {}(nil)"
                } else {
                    "<nil>"
                });
            }
            Value::Missing | Value::Nil => self.bad_verb(value, verb),
            Value::Bool(it) => match verb {
                't' | 'v' => self.pad(if *it { "true" } else { "false" }),
                _ => self.bad_verb(value, verb),
            },
            Value::Int(it, kind) => self.integer(value, *it, kind.is_signed(), verb),
            Value::Float(it) => self.float(value, *it, verb),
            Value::Str(it) => self.string(value, it.as_bytes(), verb),
            Value::Binary(it) => self.string(value, it, verb),
            Value::Bytes(it) => self.bytes(value, it, verb),
            Value::List(list) => crate::limits::with_stack(|| {
                if self.flags.sharp_v {
                    let _ = write!(self.out, "{}{{", value.type_name());
                } else {
                    self.out.push('[');
                }
                for (at, item) in list.items().iter().enumerate() {
                    if at > 0 {
                        self.out.push_str(if self.flags.sharp_v { ", " } else { " " });
                    }
                    self.value(item, verb, depth + 1);
                }
                self.out.push(if self.flags.sharp_v { '}' } else { ']' });
            }),
            Value::Map(map) => crate::limits::with_stack(|| {
                if self.flags.sharp_v {
                    let _ = write!(self.out, "{}{{", value.type_name());
                } else {
                    self.out.push_str("map[");
                }
                for (at, (key, item)) in map.entries().iter().enumerate() {
                    if at > 0 {
                        self.out.push_str(if self.flags.sharp_v { ", " } else { " " });
                    }
                    self.value(&Value::Str(key.clone()), verb, depth + 1);
                    self.out.push(':');
                    self.value(item, verb, depth + 1);
                }
                self.out.push(if self.flags.sharp_v { '}' } else { ']' });
            }),
            Value::Object(object) => match (verb, object.items()) {
                (_, Some(items)) => self.value(&items, verb, depth),
                ('v' | 's', None) => {
                    let text = object.display();
                    self.text(&text);
                }
                ('q', None) => self.string(value, object.display().as_bytes(), 'q'),
                _ => self.bad_verb(value, verb),
            },
        }
    }

    fn pad(&mut self, text: &str) {
        let width = self.flags.width.unwrap_or(0);
        let missing = width.saturating_sub(text.chars().count());
        if self.flags.minus {
            self.out.push_str(text);
            self.out.extend(std::iter::repeat_n(' ', missing));
        } else {
            let fill = if self.flags.zero { '0' } else { ' ' };
            self.out.extend(std::iter::repeat_n(fill, missing));
            self.out.push_str(text);
        }
    }

    fn text(&mut self, text: &str) {
        match self.flags.precision {
            Some(precision) => {
                let cut: String = text.chars().take(precision).collect();
                self.pad(&cut);
            }
            None => self.pad(text),
        }
    }

    fn string(&mut self, value: &Value, bytes: &[u8], verb: char) {
        match verb {
            'v' if self.flags.sharp_v => self.quoted(bytes),
            'v' | 's' => self.text(&String::from_utf8_lossy(bytes)),
            'x' | 'X' => self.hexadecimal(bytes, verb),
            'q' => self.quoted(bytes),
            _ => self.bad_verb(value, verb),
        }
    }

    fn quoted(&mut self, bytes: &[u8]) {
        let text = match (std::str::from_utf8(bytes), self.flags.precision) {
            (Ok(text), None) => text.to_owned(),
            (Ok(text), Some(precision)) => text.chars().take(precision).collect(),
            (Err(_), _) => {
                let text = quote_bytes(bytes);
                return self.pad(&text);
            }
        };
        let quoted =
            if self.flags.sharp && !text.contains('`') && !text.contains(|it: char| it.is_control() && it != '\t') {
                format!("`{text}`")
            } else if self.flags.plus {
                quote_to_ascii(&text)
            } else {
                quote_with(&text, '"', false)
            };
        self.pad(&quoted);
    }

    fn hexadecimal(&mut self, bytes: &[u8], verb: char) {
        let shown = &bytes[..bytes.len().min(self.flags.precision.unwrap_or(usize::MAX))];
        let mut text = String::with_capacity(shown.len() * 2);
        let prefix = if !self.flags.sharp {
            ""
        } else if verb == 'x' {
            "0x"
        } else {
            "0X"
        };
        if !shown.is_empty() {
            text.push_str(prefix);
        }
        for (at, byte) in shown.iter().enumerate() {
            if self.flags.space && at > 0 {
                text.push(' ');
                text.push_str(prefix);
            }
            let _ = match verb {
                'x' => write!(text, "{byte:02x}"),
                _ => write!(text, "{byte:02X}"),
            };
        }
        self.pad(&text);
    }

    fn bytes(&mut self, value: &Value, bytes: &[u8], verb: char) {
        match verb {
            'v' | 'd' => {
                let (open, separator, close) = if self.flags.sharp_v {
                    ("[]byte{", ", ", "}")
                } else {
                    ("[", " ", "]")
                };
                self.out.push_str(open);
                for (at, byte) in bytes.iter().enumerate() {
                    if at > 0 {
                        self.out.push_str(separator);
                    }
                    let _ = match self.flags.sharp_v {
                        true => write!(self.out, "0x{byte:x}"),
                        false => write!(self.out, "{byte}"),
                    };
                }
                self.out.push_str(close);
            }
            's' => self.text(&String::from_utf8_lossy(bytes)),
            'x' | 'X' => self.hexadecimal(bytes, verb),
            'q' => self.quoted(bytes),
            _ => self.bad_verb(value, verb),
        }
    }

    fn integer(&mut self, value: &Value, it: i64, signed: bool, verb: char) {
        let (negative, magnitude) = if signed {
            (it < 0, it.unsigned_abs())
        } else {
            (false, it as u64)
        };
        let digits = match verb {
            'v' if self.flags.sharp_v && !signed => return self.pad(&format!("0x{magnitude:x}")),
            'v' | 'd' => magnitude.to_string(),
            'b' => format!("{magnitude:b}"),
            'o' | 'O' => format!("{magnitude:o}"),
            'x' => format!("{magnitude:x}"),
            'X' => format!("{magnitude:X}"),
            'c' => {
                let shown = u32::try_from(magnitude).ok().and_then(char::from_u32);
                return self.pad(&shown.unwrap_or('\u{fffd}').to_string());
            }
            'q' => {
                let shown = u32::try_from(magnitude).ok().and_then(char::from_u32);
                let text = shown.unwrap_or('\u{fffd}').to_string();
                let quoted = quote_with(&text, '\'', self.flags.plus);
                return self.pad(&quoted);
            }
            'U' => {
                let mut text = format!("U+{magnitude:04X}");
                let shown = u32::try_from(magnitude).ok().and_then(char::from_u32);
                if let (true, Some(shown)) = (self.flags.sharp, shown.filter(|it| crate::strconv::is_print(*it))) {
                    let _ = write!(text, " '{shown}'");
                }
                self.flags.zero = false;
                return self.pad(&text);
            }
            _ => return self.bad_verb(value, verb),
        };
        let sign = match (negative, self.flags.plus, self.flags.space) {
            (true, ..) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            _ => "",
        };
        let mut wanted = self.flags.precision.unwrap_or(0);
        if self.flags.precision == Some(0) && it == 0 {
            let width = self.flags.width.unwrap_or(0);
            self.out.extend(std::iter::repeat_n(' ', width));
            return;
        }
        if self.flags.precision.is_none() && self.flags.zero && !self.flags.minus {
            wanted = self.flags.width.unwrap_or(0).saturating_sub(sign.len());
        }
        let mut digits = format!("{}{digits}", "0".repeat(wanted.saturating_sub(digits.len())));
        if self.flags.sharp || verb == 'O' {
            let prefix = match verb {
                'b' => "0b",
                'o' if !digits.starts_with('0') => "0",
                'x' => "0x",
                'X' => "0X",
                'O' => "0o",
                _ => "",
            };
            digits.insert_str(0, prefix);
        }
        let zero = std::mem::replace(&mut self.flags.zero, false);
        self.pad(&format!("{sign}{digits}"));
        self.flags.zero = zero;
    }

    fn float(&mut self, value: &Value, it: f64, verb: char) {
        let (format, default) = match verb {
            'v' => ('g', -1),
            'g' | 'G' => (verb, -1),
            'e' | 'E' | 'f' => (verb, 6),
            'F' => ('f', 6),
            'x' | 'X' | 'b' => (verb, -1),
            _ => return self.bad_verb(value, verb),
        };
        let precision = self.flags.precision.map_or(default, |it| it as i32);
        let mut text = match format {
            _ if !it.is_finite() => format_float(it, 'g', -1),
            'b' => binary_float(it),
            'x' => hexadecimal_float(it, self.flags.precision),
            'X' => hexadecimal_float(it, self.flags.precision).to_uppercase(),
            format => format_float(it, format, precision),
        };
        if !text.starts_with(['-', '+']) {
            text.insert(0, '+');
        }
        if self.flags.space && text.starts_with('+') && !self.flags.plus {
            text.replace_range(..1, " ");
        }
        if !it.is_finite() {
            let zero = std::mem::replace(&mut self.flags.zero, false);
            let shown =
                if it.is_nan() && !self.flags.plus && !self.flags.space || text.starts_with('+') && !self.flags.plus {
                    text[1..].to_owned()
                } else {
                    text
                };
            // Go prints the sign of an infinity only with a plus flag, but %v of one is +Inf.
            let shown = if it == f64::INFINITY { "+Inf".to_owned() } else { shown };
            self.pad(&shown);
            self.flags.zero = zero;
            return;
        }
        if self.flags.sharp && !matches!(verb, 'v') && !text.contains('.') {
            text.push('.');
        }
        if self.flags.plus || !text.starts_with('+') {
            let width = self.flags.width.unwrap_or(0);
            if self.flags.zero && !self.flags.minus && width > text.len() {
                let zeros = "0".repeat(width - text.len());
                text.insert_str(1, &zeros);
                self.out.push_str(&text);
                return;
            }
            return self.pad(&text);
        }
        self.pad(&text[1..]);
    }
}

/// The Go name of an element type, for messages.
/// The bits of a float: what is multiplied, and the power of two it is multiplied with.
fn parts(it: f64) -> (u64, i32) {
    let bits = it.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    match (bits >> 52 & 0x7ff) as i32 {
        0 => (fraction, -1074),
        exponent => (fraction | 1 << 52, exponent - 1075),
    }
}

fn binary_float(it: f64) -> String {
    let sign = if it.is_sign_negative() { "-" } else { "" };
    let (digits, exponent) = parts(it);
    format!("{sign}{digits}p{exponent:+}")
}

/// `0x1.8p+01`; without a precision as many digits as it takes.
fn hexadecimal_float(it: f64, precision: Option<usize>) -> String {
    let sign = if it.is_sign_negative() { "-" } else { "" };
    let (mut digits, mut exponent) = parts(it);
    if digits == 0 {
        exponent = 0;
    } else {
        // The first digit is a one, and four bits after it are a digit each.
        let shift = digits.leading_zeros() as i32 - 11;
        digits <<= shift;
        exponent += 52 - shift;
    }
    if let Some(precision) = precision.filter(|it| *it < 13) {
        let cut = 52 - 4 * precision as u32;
        let (kept, rest) = (digits >> cut, digits & ((1 << cut) - 1));
        let half = 1 << (cut - 1);
        let up = rest > half || rest == half && kept & 1 == 1;
        digits = (kept + u64::from(up)) << cut;
        if digits >> 53 == 1 {
            digits >>= 1;
            exponent += 1;
        }
    }
    let mut fraction = format!("{:013x}", digits & ((1 << 52) - 1));
    match precision {
        None => fraction.truncate(fraction.trim_end_matches('0').len()),
        Some(precision) => {
            fraction.truncate(precision);
            fraction.extend(std::iter::repeat_n('0', precision.saturating_sub(fraction.len())));
        }
    }
    let point = if fraction.is_empty() { "" } else { "." };
    let (direction, power) = if exponent < 0 {
        ('-', -exponent)
    } else {
        ('+', exponent)
    };
    format!("{sign}0x{}{point}{fraction}p{direction}{power:02}", digits >> 52)
}

pub(crate) fn list_name(elem: Elem) -> &'static str {
    match elem {
        Elem::Any => "[]interface {}",
        Elem::Str => "[]string",
        Elem::Int => "[]int",
        Elem::Map => "[]map[string]interface {}",
    }
}
