//! Looks at the text of an expression before the parser does: parser and engine go as deep as it nests.
//!
//! The bound is an upper one. Brackets nest, and so does every operator but `&&` and `||`, which the parser balances;
//! what stands beside each other between commas does not. A text that the lexer would take apart in another way
//! than it is read here is refused.

use crate::{CompileError, DEPTH_MAX, located};

/// How deep something nests, as far as it was read.
#[derive(Default)]
struct Level {
    /// `?` and `:` since the last comma.
    choices: usize,
    /// Operators since the last comma, `&&` or `||`.
    chain: usize,
    /// The deepest brackets among them.
    inner: usize,
    /// The deepest such part.
    part: usize,
    /// The deepest between two commas.
    deepest: usize,
}

impl Level {
    fn end_part(&mut self) {
        self.part = self.part.max(self.chain + self.inner);
        (self.chain, self.inner) = (0, 0);
    }

    fn end_item(&mut self) {
        self.end_part();
        self.deepest = self.deepest.max(self.choices + self.part);
        (self.choices, self.part) = (0, 0);
    }
}

/// Refuses what nests too deeply, and strings that do not end.
pub fn check(text: &str) -> Result<(), CompileError> {
    let bytes = text.as_bytes();
    let mut levels = vec![Level::default()];
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let level = levels.last_mut().expect("the outermost level stays");
        match byte {
            b'\'' | b'"' => {
                at = string_end(bytes, at).ok_or_else(|| unreadable(text, at))?;
                continue;
            }
            b'`' => {
                let rest = &bytes[at + 1..];
                let length = rest.iter().position(|it| !is_quoted_name(*it)).unwrap_or(rest.len());
                if length == 0 || rest.get(length) != Some(&b'`') {
                    return Err(unreadable(text, at));
                }
                at += length + 2;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at += bytes[at..]
                    .iter()
                    .position(|it| *it == b'\n')
                    .unwrap_or(bytes.len() - at);
                continue;
            }
            b'(' | b'[' | b'{' => {
                level.chain += 1;
                levels.push(Level::default());
            }
            b')' | b']' | b'}' => {
                level.end_item();
                let depth = level.deepest + 1;
                if levels.len() > 1 {
                    levels.pop();
                }
                let outer = levels.last_mut().expect("the outermost level stays");
                outer.inner = outer.inner.max(depth);
            }
            b',' => level.end_item(),
            b'&' | b'|' if bytes.get(at + 1) == Some(&byte) => {
                level.end_part();
                at += 1;
            }
            b'?' | b':' => {
                level.end_part();
                level.choices += 1;
            }
            b'.' | b'+' | b'-' | b'*' | b'/' | b'%' | b'!' | b'=' | b'<' | b'>' => {
                level.chain += 1;
                let twice = matches!(bytes.get(at + 1), Some(b'=')) && matches!(byte, b'!' | b'=' | b'<' | b'>');
                at += usize::from(twice);
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let rest = &bytes[at..];
                let length = rest.iter().position(|it| !is_name(*it)).unwrap_or(rest.len());
                if &rest[..length] == b"in" {
                    level.chain += 1;
                }
                at += length;
                continue;
            }
            _ => {}
        }
        if levels.len() > DEPTH_MAX {
            return Err(too_deep());
        }
        at += 1;
    }
    while let Some(mut level) = levels.pop() {
        level.end_item();
        if level.deepest > DEPTH_MAX {
            return Err(too_deep());
        }
        // Brackets that do not close: the parser says so, after it went as deep.
        if let Some(outer) = levels.last_mut() {
            outer.inner = outer.inner.max(level.deepest + 1);
        }
    }
    Ok(())
}

pub fn too_deep() -> CompileError {
    CompileError(format!("the expression nests deeper than {DEPTH_MAX} levels"))
}

fn unreadable(text: &str, at: usize) -> CompileError {
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    let rest: String = text[at..].chars().take(20).take_while(|it| *it != '\n').collect();
    CompileError(located(
        text,
        line,
        column,
        &format!("Syntax error: token recognition error at: '{rest}'"),
    ))
}

pub fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_quoted_name(byte: u8) -> bool {
    is_name(byte) || b".-/ ".contains(&byte)
}

/// Whether the quote at `at` belongs to a raw string: an `r` is before it that begins a word,
/// or follows a `b` that does.
pub fn is_raw(bytes: &[u8], at: usize) -> bool {
    let word = bytes[..at].iter().rev().take_while(|it| is_name(**it)).count();
    let word = &bytes[at - word..at];
    // A longer word is a name, and the lexer takes the longest token: the string after it is not raw.
    word.eq_ignore_ascii_case(b"r") || word.eq_ignore_ascii_case(b"br")
}

/// Where the string that begins at `at` ends; `None` when it does not, or has an escape that the lexer does not know.
pub fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let quote = bytes[at];
    let raw = is_raw(bytes, at);
    let long = bytes[at..].starts_with(&[quote; 3]);
    let mut it = at + if long { 3 } else { 1 };
    loop {
        let byte = *bytes.get(it)?;
        if byte == quote && !long {
            return Some(it + 1);
        }
        if long && bytes[it..].starts_with(&[quote; 3]) {
            return Some(it + 3);
        }
        match byte {
            b'\n' | b'\r' if !long => return None,
            b'\\' if !raw => it += escape_length(&bytes[it..])?,
            _ => it += 1,
        }
    }
}

fn escape_length(bytes: &[u8]) -> Option<usize> {
    let digits = |count: usize, is_digit: fn(&u8) -> bool| {
        let found = bytes.get(2..2 + count)?;
        found.iter().all(is_digit).then_some(2 + count)
    };
    match bytes.get(1)? {
        b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`' => Some(2),
        b'x' | b'X' => digits(2, u8::is_ascii_hexdigit),
        b'u' => digits(4, u8::is_ascii_hexdigit),
        b'U' => digits(8, u8::is_ascii_hexdigit),
        b'0'..=b'3' => digits(2, |it| (b'0'..=b'7').contains(it)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_side_by_side_does_not_nest() {
        let many = vec!["self.a.b == 'x(((((' && self.list.all(x, x > 1)"; 200].join(" && ");
        assert_eq!(check(&many), Ok(()));
        let choices = format!("{}1", "a == 1 && b == 2 ? 1 : ".repeat(90));
        assert_eq!(check(&choices), Ok(()));
        assert_eq!(check(&format!("x in [{}]", vec!["'a.b/c'"; 1000].join(", "))), Ok(()));
    }

    #[test]
    fn what_nests_too_deeply_is_refused_however_it_is_written() {
        for (open, close) in [
            ("(", ")"),
            ("[", "]"),
            ("{1:", "}"),
            ("!", ""),
            ("- ", ""),
            ("1+", ""),
            ("true ? 1 : ", ""),
            ("f(", ")"),
            ("(", ""),
            ("1 in ", ""),
            ("'a' + ", ""),
            ("r'\\' + ", ""),
            ("'''a'b''' + ", ""),
            ("// it's\n1 +", ""),
        ] {
            let text = format!("{}1{}", open.repeat(DEPTH_MAX + 1), close.repeat(DEPTH_MAX + 1));
            assert_eq!(check(&text), Err(too_deep()), "{open}");
        }
        assert_eq!(check(&format!("a{}", ".b".repeat(DEPTH_MAX + 1))), Err(too_deep()));
    }

    #[test]
    fn a_string_that_hides_something_is_refused() {
        for text in ["'((((", "'\\q(((('", "\"a\nb\"", "'''a''", "`a", "'\\x1'"] {
            let said = check(text).unwrap_err().to_string();
            assert!(said.contains("token recognition error"), "{said}");
        }
        for text in [r"'\'\\'", r"r'\'", r"br'\'", r"b'\377'", "'''a\n'b'''", "self.`a-b`"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }
}
