//! Regular expressions of Go for Rust's `regex`. Both descend from RE2, but Go's classes `\d`, `\w`, `\s` and `\b` know ASCII
//! only, a `{` that counts nothing is a brace, inside brackets Rust reads some characters as operators, and some escapes
//! mean something in one of them only. Where they differ the pattern is rewritten.
//! Upstream: Go's `regexp/syntax`.

use std::{iter::Peekable, str::Chars};

use regex::{Regex, RegexBuilder};

/// So many characters may the counts of a repetition have: two counts of a thousand at most.
const COUNTS_MAX: usize = 40;
/// So often may something be repeated.
const COUNT_MAX: u32 = 1000;

/// Compiles a pattern of Go's.
///
/// # Errors
/// When it is none, in the words of Rust's `regex` or in Go's.
pub fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    Regex::new(&translate(pattern)?)
}

/// As [`compile`], for a program of no more than so many bytes.
///
/// # Errors
/// When the pattern is none, or its program is larger.
pub fn compile_within(pattern: &str, bytes: usize) -> Result<Regex, regex::Error> {
    let translated = translate(pattern)?;
    RegexBuilder::new(&translated)
        .size_limit(bytes)
        .dfa_size_limit(bytes)
        .build()
}

/// A pattern of Go's as one of Rust's.
///
/// # Errors
/// When it says what Rust's knows and Go's does not.
pub fn translate(pattern: &str) -> Result<String, regex::Error> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    // Whether a repetition ended here: another one cannot follow.
    let mut repeated = false;
    while let Some(it) = chars.next() {
        let after_repetition = std::mem::take(&mut repeated);
        match it {
            '\\' => escape(&mut chars, in_class, &mut out)?,
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                if chars.next_if_eq(&']').is_some() {
                    out.push_str(r"\]");
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            // `[:alpha:]` inside brackets is the same for both.
            '[' if chars.peek() == Some(&':') => named_class(&mut chars, &mut out),
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(it);
            }
            '-' if in_class && chars.peek() == Some(&'-') => out.push_str(r"\-"),
            it if in_class => out.push(it),
            '(' => {
                out.push('(');
                if let Some(it) = chars.next_if_eq(&'?') {
                    flags(chars.clone())?;
                    out.push(it);
                }
            }
            '{' => match counts(chars.clone()) {
                None => out.push_str(r"\{"),
                Some(inner) => {
                    let is_small = |it: &str| it.is_empty() || it.parse::<u32>().is_ok_and(|it| it <= COUNT_MAX);
                    if !inner.split(',').all(is_small) {
                        return Err(wrong("invalid repeat count"));
                    }
                    out.push('{');
                    out.extend(chars.by_ref().take(inner.len() + 1));
                    repeated = true;
                }
            },
            '*' | '+' | '?' => {
                out.push(it);
                repeated = true;
            }
            it => out.push(it),
        }
        if repeated {
            if after_repetition {
                return Err(wrong("invalid nested repetition operator"));
            }
            out.extend(chars.next_if_eq(&'?'));
        }
    }
    Ok(out)
}

fn wrong(why: &str) -> regex::Error {
    regex::Error::Syntax(format!("error: {why}"))
}

/// What stands between `(?` and its end: a name, or flags that Go knows.
fn flags(rest: Peekable<Chars<'_>>) -> Result<(), regex::Error> {
    let is_name = rest.clone().next().is_some_and(|it| "P<".contains(it));
    let mut flags = rest.take_while(|it| ![':', ')'].contains(it));
    if is_name || flags.all(|it| "imsU-".contains(it)) {
        return Ok(());
    }
    Err(wrong("invalid or unsupported Perl syntax"))
}

/// What follows a backslash.
fn escape(chars: &mut Peekable<Chars<'_>>, in_class: bool, out: &mut String) -> Result<(), regex::Error> {
    let Some(it) = chars.next() else {
        return Err(wrong("trailing backslash at end of expression"));
    };
    match (it, in_class) {
        ('d', false) => out.push_str("[0-9]"),
        ('d', true) => out.push_str("0-9"),
        ('w', false) => out.push_str("[0-9A-Za-z_]"),
        ('w', true) => out.push_str("0-9A-Za-z_"),
        ('s', false) => out.push_str(r"[\t\n\f\r ]"),
        ('s', true) => out.push_str(r"\t\n\f\r "),
        ('D', _) => out.push_str("[^0-9]"),
        ('W', _) => out.push_str("[^0-9A-Za-z_]"),
        ('S', _) => out.push_str(r"[^\t\n\f\r ]"),
        ('b', false) => out.push_str(r"(?-u:\b)"),
        ('B', false) => out.push_str(r"(?-u:\B)"),
        // The beginning and the end of a word in Rust.
        ('<' | '>', _) => out.push(it),
        ('Q', false) => {
            let mut literal = String::new();
            while let Some(it) = chars.next() {
                if it == '\\' && chars.next_if_eq(&'E').is_some() {
                    break;
                }
                literal.push(it);
            }
            out.push_str(&regex::escape(&literal));
        }
        // The end of a quotation that did not begin.
        ('E', false) => {}
        ('0', _) => {
            let mut code = 0;
            for _ in 0..2 {
                code = match chars.next_if(|it| it.is_digit(8)).and_then(|it| it.to_digit(8)) {
                    Some(digit) => code * 8 + digit,
                    None => break,
                };
            }
            out.push_str(&format!(r"\x{{{code:x}}}"));
        }
        // Their braces count nothing, and are not for the eyes of the rest.
        ('p' | 'P' | 'x', _) => {
            out.push('\\');
            out.push(it);
            if let Some(brace) = chars.next_if_eq(&'{') {
                out.push(brace);
            }
        }
        (it, _) if it.is_ascii_alphanumeric() && !"aAfnrtvz".contains(it) => {
            return Err(wrong("invalid escape sequence"));
        }
        (it, _) => {
            out.push('\\');
            out.push(it);
        }
    }
    Ok(())
}

/// What begins with `[:` inside brackets, as it is; or a bracket, where no `:]` ends it.
fn named_class(chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    /// Names are `alpha`, `^word` and the like.
    const NAME_MAX: usize = 10;
    let name: String = chars
        .clone()
        .skip(1)
        .take(NAME_MAX)
        .take_while(|it| *it == '^' || it.is_ascii_alphabetic())
        .collect();
    let ends = chars.clone().skip(1 + name.len()).take(2).eq([':', ']']);
    if !ends {
        out.push_str(r"\[");
        return;
    }
    out.push('[');
    out.extend(chars.by_ref().take(name.len() + 3));
}

/// What stands between a brace and its end, if that is a repetition.
fn counts(rest: Peekable<Chars<'_>>) -> Option<String> {
    let inner: String = rest.clone().take(COUNTS_MAX).take_while(|it| *it != '}').collect();
    let closed = rest.clone().nth(inner.chars().count()) == Some('}');
    let (low, high) = inner.split_once(',').unwrap_or((&inner, ""));
    let is_one = closed && !low.is_empty() && low.bytes().chain(high.bytes()).all(|it| it.is_ascii_digit());
    is_one.then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_go_mean_the_same_here() {
        for (pattern, text, matches) in [
            ("^[a-z]+$", "abc", true),
            ("^[a-z]+$", "aBc", false),
            (r"^\d+$", "42", true),
            (r"^\d+$", "٤٢", false),
            (r"^\w$", "é", false),
            (r"^\W$", "é", true),
            (r"^[^\w]$", "é", true),
            (r"^\s$", "\u{a0}", false),
            (r"\bé", "é", false),
            (r"^[\w.-]+$", "a_b.c-d", true),
            ("^a{b$", "a{b", true),
            ("^a{2,3}$", "aaa", true),
            (r"^\b{start}", "x", false),
            (r"^\x{61}\p{Greek}$", "aλ", true),
            ("^[a&&b]+$", "&a", true),
            ("^[a~~b]+$", "a~b", true),
            ("^[[a]+$", "[a", true),
            ("^[[:alpha:]]+$", "ab", true),
            ("^[[:^alpha:]]+$", "12", true),
            ("^[[:a]+$", "[:a", true),
            ("^[]a]+$", "]a", true),
            ("^[^]a]+$", "]a", false),
            (r"^\/x$", "/x", true),
            (r"^\<x\>$", "<x>", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^\0101$", "\u{8}1", true),
            (r"^\07$", "\u{7}", true),
        ] {
            let compiled = compile(pattern).unwrap_or_else(|why| panic!("{pattern}: {why}"));
            assert_eq!(compiled.is_match(text), matches, "{pattern} on {text}");
        }
        for pattern in [
            "(", "[a", "a**", "a*?+", "a{2}{3}", r"\", "a{1001}", "(?x)a", "(?u:a)", r"\u0061", r"\1", r"\Z", r"\C",
        ] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
        for pattern in [
            "a*?b+?",
            "(?i-s:a)?",
            "(?P<n>a)(?<m>b)",
            r"(?:a*)*",
            "a{0}",
            "a{,2}+",
            r"\{+",
        ] {
            assert!(compile(pattern).is_ok(), "{pattern}");
        }
        assert!(compile_within("a{1000}", 100).is_err());
    }

    #[test]
    fn a_long_pattern_is_read_once() {
        // Each brace and each quotation is looked through to its end only, not to that of the pattern.
        for pattern in ["{".repeat(1_000_000), r"\Qa\E".repeat(200_000), "[[:".repeat(300_000)] {
            assert!(translate(&pattern).is_ok_and(|it| it.len() >= 200_000));
        }
    }
}
