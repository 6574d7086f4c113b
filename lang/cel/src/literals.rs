//! What the engine's parser reads otherwise than CEL has it is rewritten before it reads: strings with escapes or three
//! quotes, two signs or two negations in a row, and hexadecimal numbers with a sign.
//! Upstream: the lexical part of the CEL specification; cel-go's `parser/unescape.go`.

use std::{borrow::Cow, ops::Range};

use crate::guard::{is_name, is_raw, string_end};

/// The text with what the parser reads wrongly written in another way. `None` where a string says what no string can.
/// Strings have to end: `guard::check` comes first.
pub fn prepare(text: &str) -> Option<Cow<'_, str>> {
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let bytes = text.as_bytes();
    let mut signs = Signs::default();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let end = match byte {
            b'\'' | b'"' => {
                let end = string_end(bytes, at)?;
                let start = at - prefix(bytes, at);
                if let Some(written) = rewritten(text, start, at, end)? {
                    // Letters before the quote belong to the string.
                    edits.push((start..end, written));
                }
                end
            }
            b'`' => at + 2 + bytes[at + 1..].iter().position(|it| *it == b'`')?,
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                // What stands between two signs is nothing for them, and neither is a comment.
                at += bytes[at..]
                    .iter()
                    .position(|it| *it == b'\n')
                    .unwrap_or(bytes.len() - at);
                continue;
            }
            b'0'..=b'9' => {
                let end = at
                    + bytes[at..]
                        .iter()
                        .position(|it| !is_name(*it))
                        .unwrap_or(bytes.len() - at);
                let digits = text[at..end]
                    .strip_prefix("0x")
                    .or_else(|| text[at..end].strip_prefix("0X"));
                if signs.of_what_follows()
                    && let Some(number) = digits.and_then(|it| u64::from_str_radix(it, 16).ok())
                {
                    edits.push((at..end, format!("{number:<width$}", width = end - at)));
                }
                end
            }
            it if is_name(it) => {
                at + bytes[at..]
                    .iter()
                    .position(|it| !is_name(*it))
                    .unwrap_or(bytes.len() - at)
            }
            _ => at + 1,
        };
        let is_negation = byte == b'!' && bytes.get(at + 1) != Some(&b'=');
        match byte {
            b'-' => signs.minus(at),
            b'!' if is_negation => signs.negation(at),
            it if it.is_ascii_whitespace() => {}
            _ => {
                signs.end(&mut edits);
                let ends_a_value = is_name(byte) && &bytes[at..end] != b"in" || b")]}'\"`".contains(&byte);
                // `1.` is a number.
                let ends_a_number = byte == b'.' && at > 0 && bytes[at - 1].is_ascii_digit();
                signs.after_value = ends_a_value || ends_a_number;
            }
        }
        at = end;
    }
    signs.end(&mut edits);
    if edits.is_empty() {
        return Some(Cow::Borrowed(text));
    }
    edits.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(text.len() + 16);
    let mut from = 0;
    for (range, written) in edits {
        out.push_str(text.get(from..range.start)?);
        out.push_str(&written);
        from = range.end;
    }
    out.push_str(text.get(from..)?);
    Some(Cow::Owned(out))
}

/// Signs and negations that follow each other.
#[derive(Default)]
struct Signs {
    minus: Vec<usize>,
    negations: Vec<usize>,
    /// Whether a value ended before them: then the first minus subtracts.
    after_value: bool,
}

impl Signs {
    fn minus(&mut self, at: usize) {
        self.minus.push(at);
    }

    fn negation(&mut self, at: usize) {
        self.negations.push(at);
    }

    /// Whether a minus before a number is its sign.
    fn of_what_follows(&self) -> bool {
        self.minus.len() > usize::from(self.after_value)
    }

    /// They end: each two of them are none.
    fn end(&mut self, edits: &mut Vec<(Range<usize>, String)>) {
        let signs = self.minus.get(usize::from(self.after_value)..).unwrap_or_default();
        let none = [&signs[signs.len() % 2..], &self.negations[self.negations.len() % 2..]];
        edits.extend(none.into_iter().flatten().map(|at| (*at..*at + 1, " ".to_owned())));
        self.minus.clear();
        self.negations.clear();
    }
}

/// How many letters before a quote are the string's: `r`, `b` or `br`.
fn prefix(bytes: &[u8], quote: usize) -> usize {
    let word = bytes[..quote].iter().rev().take_while(|it| is_name(**it)).count();
    let letters = bytes[quote - word..quote].to_ascii_lowercase();
    if [&b"r"[..], b"b", b"br"].contains(&letters.as_slice()) {
        word
    } else {
        0
    }
}

/// A string in a way that the parser reads rightly; the inner `None` where it does so already,
/// the outer where it is none.
#[allow(
    clippy::option_option,
    reason = "one says that there is nothing to do, the other that nothing can be done"
)]
fn rewritten(text: &str, start: usize, quote: usize, end: usize) -> Option<Option<String>> {
    let bytes = text.as_bytes();
    let raw = is_raw(bytes, quote);
    let is_bytes = text[start..quote].starts_with(['b', 'B']);
    let quotes = if bytes[quote..end].starts_with(&[bytes[quote]; 3]) {
        3
    } else {
        1
    };
    let content = text.get(quote + quotes..end - quotes)?;
    let plain = quotes == 1 && !raw && !content.contains('\\');
    if plain {
        return Some(None);
    }
    let mut out = String::from(if is_bytes { "b\"" } else { "\"" });
    let mut chars = content.chars();
    while let Some(it) = chars.next() {
        let code = if it == '\\' && !raw {
            unescaped(&mut chars, is_bytes)?
        } else {
            Code::Letter(it)
        };
        match code {
            Code::Letter(it) if is_bytes => {
                let mut buffer = [0; 4];
                let encoded = it.encode_utf8(&mut buffer).bytes();
                out.extend(encoded.map(|it| format!("\\x{it:02x}")));
            }
            Code::Letter(it) if it.is_control() || it == '"' || it == '\\' => {
                out.push_str(&format!("\\U{:08x}", u32::from(it)));
            }
            Code::Letter(it) => out.push(it),
            Code::Byte(it) => out.push_str(&format!("\\x{it:02x}")),
        }
    }
    out.push('"');
    Some(Some(out))
}

enum Code {
    Letter(char),
    Byte(u8),
}

/// What stands behind a backslash; `None` where it stands for nothing.
fn unescaped(chars: &mut std::str::Chars<'_>, is_bytes: bool) -> Option<Code> {
    let it = chars.next()?;
    let mut number = |first: u32, digits: usize, radix: u32| {
        (0..digits).try_fold(first, |sum, _| Some(sum * radix + chars.next()?.to_digit(radix)?))
    };
    let code = match it {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        'x' | 'X' => number(0, 2, 16)?,
        '0'..='3' => number(it.to_digit(8)?, 2, 8)?,
        'u' if !is_bytes => number(0, 4, 16)?,
        'U' if !is_bytes => number(0, 8, 16)?,
        '\\' | '\'' | '"' | '`' | '?' => it.into(),
        _ => return None,
    };
    if is_bytes {
        return u8::try_from(code).ok().map(Code::Byte);
    }
    char::from_u32(code).map(Code::Letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_and_negations_go_in_pairs() {
        for (text, read) in [
            ("!!a", "  a"),
            ("! !a", "   a"),
            ("!!!a", "!  a"),
            ("a != !b", "a != !b"),
            ("--1", "  1"),
            ("---1", "-  1"),
            ("2--1", "2--1"),
            ("2---1", "2-  1"),
            ("a - - -b", "a -    b"),
            ("1. - -1", "1. - -1"),
            ("1.5e-3--1", "1.5e-3--1"),
            ("x in --y", "x in   y"),
            ("f(--a)--b", "f(  a)--b"),
            ("'--' + \"!!\"", "'--' + \"!!\""),
            ("a // !!\n!!b", "a // !!\n  b"),
            ("-0x1F - 0x1F", "-31   - 0x1F"),
            ("-0xFFFFFFFFFFFFFFFFF", "-0xFFFFFFFFFFFFFFFFF"),
        ] {
            assert_eq!(prepare(text).as_deref(), Some(read), "{text}");
        }
    }

    #[test]
    fn strings_are_written_in_one_way() {
        for (text, read) in [
            ("'a' + b'c' + r", Some("'a' + b'c' + r")),
            (r#"'\"\''"#, Some(r#""\U00000022'""#)),
            (r"r'\d'", Some(r#""\U0000005cd""#)),
            ("'''it's'''", Some("\"it's\"")),
            (r"b'\n\377é'", Some(r#"b"\x0a\xff\xc3\xa9""#)),
            (r"'\x41\101\u00e9\U0001F600'", Some("\"AAé😀\"")),
            (r"'\uD800'", None),
            (r"b'\u00e9'", None),
        ] {
            assert_eq!(prepare(text).as_deref(), read, "{text}");
        }
    }
}
