//! Regular expressions of Go for Rust's `regex`. Both descend from RE2, but Go's classes `\d`, `\w`, `\s` and `\b` know
//! ASCII only, a `{` that counts nothing is a brace, inside brackets Rust reads some characters as operators, and some
//! escapes mean something in one of them only. Where they differ the pattern is rewritten.
//! Upstream: Go's `regexp/syntax`.

use std::{iter::Peekable, str::Chars};

use regex::{Regex, RegexBuilder};

/// So many characters may the counts of a repetition have: two counts of a thousand at most.
const COUNTS_MAX: usize = 40;
/// So often may something be repeated.
const COUNT_MAX: u32 = 1000;

/// What building a pattern may need: it goes as deep as groups are nested, which may be 250.
const STACK_BYTES: usize = 4 << 20;

/// Compiles a pattern of Go's.
///
/// # Errors
/// When it is none, in the words of Rust's `regex` or in Go's.
pub fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    built(&RegexBuilder::new(&translate(pattern)?))
}

/// As [`compile`], for a program of no more than so many bytes.
///
/// # Errors
/// When the pattern is none, or its program is larger.
pub fn compile_within(pattern: &str, bytes: usize) -> Result<Regex, regex::Error> {
    built(
        RegexBuilder::new(&translate(pattern)?)
            .size_limit(bytes)
            .dfa_size_limit(bytes),
    )
}

fn built(builder: &RegexBuilder) -> Result<Regex, regex::Error> {
    stacker::maybe_grow(STACK_BYTES, 2 * STACK_BYTES, || builder.build())
}

/// A pattern of Go's as one of Rust's.
///
/// # Errors
/// When it says what Rust's knows and Go's does not.
pub fn translate(pattern: &str) -> Result<String, regex::Error> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    // Whether a repetition ended here: another one cannot follow.
    let mut repeated = false;
    while let Some(it) = chars.next() {
        let after_repetition = std::mem::take(&mut repeated);
        match it {
            '\\' => escape(&mut chars, &mut out)?,
            '[' => class(&mut chars, &mut out)?,
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

/// What follows a backslash, outside of brackets.
fn escape(chars: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), regex::Error> {
    let it = *chars
        .peek()
        .ok_or_else(|| wrong("trailing backslash at end of expression"))?;
    if let Some(class) = perl_class(it) {
        chars.next();
        out.push_str(&format!("[{class}]"));
        return Ok(());
    }
    match it {
        'p' | 'P' => return property(chars, out),
        'b' => out.push_str(r"(?-u:\b)"),
        'B' => out.push_str(r"(?-u:\B)"),
        'A' => out.push_str(r"\A"),
        'z' => out.push_str(r"\z"),
        // The end of a quotation that did not begin.
        'E' => {}
        'Q' => {
            chars.next();
            let mut literal = String::new();
            while let Some(it) = chars.next() {
                if it == '\\' && chars.next_if_eq(&'E').is_some() {
                    break;
                }
                literal.push(it);
            }
            out.push_str(&regex::escape(&literal));
            return Ok(());
        }
        _ => {
            let code = escaped(chars)?;
            out.push_str(&regex::escape(code.encode_utf8(&mut [0; 4])));
            return Ok(());
        }
    }
    chars.next();
    Ok(())
}

/// What a class of Perl's has in it, between brackets; ASCII only.
fn perl_class(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        's' => r"\t\n\f\r ",
        'D' => "[^0-9]",
        'W' => "[^0-9A-Za-z_]",
        'S' => r"[^\t\n\f\r ]",
        _ => return None,
    })
}

/// A class of Unicode's: a letter, or a name between braces. It is the same for both.
fn property(chars: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), regex::Error> {
    out.push('\\');
    out.extend(chars.next());
    let first = chars.next().ok_or_else(|| wrong("invalid character class range"))?;
    out.push(first);
    let mut last = first;
    while first == '{' && last != '}' {
        last = chars.next().ok_or_else(|| wrong("invalid character class range"))?;
        out.push(last);
    }
    Ok(())
}

/// The character that an escape means; what follows the backslash is next.
fn escaped(chars: &mut Peekable<Chars<'_>>) -> Result<char, regex::Error> {
    let invalid = || wrong("invalid escape sequence");
    let it = chars
        .next()
        .ok_or_else(|| wrong("trailing backslash at end of expression"))?;
    let code = match it {
        'a' => 7,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        '0' => octal(chars, 0, 2),
        // One digit refers to a group, which Go cannot do.
        '1'..='7' if chars.peek().is_some_and(|it| it.is_digit(8)) => {
            octal(chars, it.to_digit(8).unwrap_or_default(), 2)
        }
        'x' => {
            let braced = chars.next_if_eq(&'{').is_some();
            let digits: String = if braced {
                chars.by_ref().take_while(|it| *it != '}').take(9).collect()
            } else {
                chars.by_ref().take(2).collect()
            };
            let is_number = (braced || digits.len() == 2) && digits.bytes().all(|it| it.is_ascii_hexdigit());
            let code = is_number.then(|| u32::from_str_radix(&digits, 16).ok()).flatten();
            code.ok_or_else(invalid)?
        }
        it if it.is_ascii() && !it.is_ascii_alphanumeric() => it.into(),
        _ => return Err(invalid()),
    };
    char::from_u32(code).ok_or_else(invalid)
}

/// A number of so many octal digits more.
fn octal(chars: &mut Peekable<Chars<'_>>, first: u32, more: usize) -> u32 {
    let mut code = first;
    for _ in 0..more {
        match chars.next_if(|it| it.is_digit(8)).and_then(|it| it.to_digit(8)) {
            Some(digit) => code = code * 8 + digit,
            None => break,
        }
    }
    code
}

/// What stands between brackets, each character as its number: some of them are operators there in Rust.
fn class(chars: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), regex::Error> {
    out.push('[');
    out.extend(chars.next_if_eq(&'^'));
    let mut first = true;
    loop {
        let it = *chars.peek().ok_or_else(|| wrong("missing closing ]"))?;
        if it == ']' && !first {
            chars.next();
            out.push(']');
            return Ok(());
        }
        first = false;
        if it == '[' && named_class(chars, out)? {
            continue;
        }
        if it == '\\' {
            let mut after = chars.clone();
            after.next();
            match after.peek().map(|it| (*it, perl_class(*it))) {
                Some((_, Some(class))) => {
                    chars.next();
                    chars.next();
                    out.push_str(class);
                    continue;
                }
                Some(('p' | 'P', _)) => {
                    chars.next();
                    property(chars, out)?;
                    continue;
                }
                _ => {}
            }
        }
        let low = class_char(chars)?;
        let mut after = chars.clone();
        let is_range = after.next() == Some('-') && after.next().is_some_and(|it| it != ']');
        if !is_range {
            out.push_str(&format!(r"\x{{{:x}}}", u32::from(low)));
            continue;
        }
        chars.next();
        let high = class_char(chars)?;
        if high < low {
            return Err(wrong("invalid character class range"));
        }
        out.push_str(&format!(r"\x{{{:x}}}-\x{{{:x}}}", u32::from(low), u32::from(high)));
    }
}

fn class_char(chars: &mut Peekable<Chars<'_>>) -> Result<char, regex::Error> {
    match chars.next() {
        Some('\\') => escaped(chars),
        Some(it) => Ok(it),
        None => Err(wrong("missing closing ]")),
    }
}

/// Whether a class with a name (`[:alpha:]`) comes next, which is the same for both. One that nobody knows is an error,
/// and a bracket that no `:]` follows is a bracket.
fn named_class(chars: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<bool, regex::Error> {
    const NAMES: [&str; 14] = [
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
        "word", "xdigit",
    ];
    /// The longest of them, with a `^` before it.
    const NAME_MAX: usize = 7;
    let mut after = chars.clone().skip(1);
    if after.next() != Some(':') {
        return Ok(false);
    }
    let name: String = after.by_ref().take(NAME_MAX + 2).take_while(|it| *it != ':').collect();
    let length = name.chars().count();
    if chars.clone().skip(2 + length).take(2).ne([':', ']']) {
        // Go looks for the end of a name through the whole pattern; no name is as long.
        return Ok(false);
    }
    if !NAMES.contains(&name.strip_prefix('^').unwrap_or(&name)) {
        return Err(wrong("invalid character class range"));
    }
    out.extend(chars.by_ref().take(length + 4));
    Ok(true)
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
    fn a_deep_pattern_does_not_overflow_a_small_stack() {
        let deep = format!("{}a{}", "(".repeat(120), ")+".repeat(120));
        let small = std::thread::Builder::new().stack_size(256 << 10);
        let built = small.spawn(move || compile(&deep).is_ok()).unwrap();
        assert!(built.join().unwrap());
    }

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
            (r"^[\w-.]+$", "a-b.c", true),
            (r"^[\w-.]+$", "a,b", false),
            ("^[+--]+$", "+,-", true),
            (r"^[\--/]+$", "-./", true),
            (r"^[^\W_]+$", "a1", true),
            (r"^[\p{Lu}\pN]+$", "Ä1", true),
            (r"^[a\x{e9}\n-]+$", "aé-", true),
            ("^[a-z&&[^b]]+$", "a", false),
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
            "[z-a]", "[a--]", r"[a-\d]", "[[:a:]]",
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
        for pattern in [
            "{".repeat(1_000_000),
            r"\Qa\E".repeat(200_000),
            format!("[{}]", "[:a".repeat(100_000)),
        ] {
            assert!(translate(&pattern).is_ok_and(|it| it.len() >= 200_000));
        }
    }
}
