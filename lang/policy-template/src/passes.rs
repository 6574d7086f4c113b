//! What is done to the text of a template before it is read as one, and what can be seen of a text without reading it.

use std::borrow::Cow;
use std::sync::OnceLock;

use regex::{Captures, Regex};

use crate::encryption::{PREFIX, TemplateKeys};
use crate::settings::Delimiters;

// Go's `\s`.
const SPACE: &str = r"[\t\n\f\r ]";

struct Patterns {
    typed: Regex,
    autoindent: Regex,
    encrypts: Regex,
}

fn patterns(delimiters: Delimiters) -> Option<&'static Patterns> {
    static MANAGED: OnceLock<Option<Patterns>> = OnceLock::new();
    static HUB: OnceLock<Option<Patterns>> = OnceLock::new();
    let place = match delimiters {
        Delimiters::Managed => &MANAGED,
        Delimiters::Hub => &HUB,
    };
    let make = || {
        let (start, stop) = (regex::escape(delimiters.start()), regex::escape(delimiters.stop()));
        let typed = format!(
            r":{SPACE}+(?:[\|>]-?{SPACE}+)?(?:'?{SPACE}*)({start}-?(?:.*\|{SPACE}*(?:toInt|toBool|toLiteral)|(?:.*(?:copyConfigMapData|copySecretData))).*{stop})(?:{SPACE}*'?)"
        );
        let autoindent = format!(r#"( *)(?:'|")?({start}.*\| *autoindent *-?{stop})"#);
        let encrypts = format!(
            r"{start}-?({SPACE}*fromSecret{SPACE}+.*|{SPACE}*copySecretData{SPACE}+.*|.*\|{SPACE}*protect{SPACE}*)-?{stop}"
        );
        Some(Patterns {
            typed: Regex::new(&typed).ok()?,
            autoindent: Regex::new(&autoindent).ok()?,
            encrypts: Regex::new(&encrypts).ok()?,
        })
    };
    place.get_or_init(make).as_ref()
}

/// Whether a text has templates, by what they begin with; with `encrypted`, whether it has encrypted values.
/// The text is JSON or YAML (upstream: `HasTemplate`).
pub fn has_template(text: &str, delimiters: Delimiters, encrypted: bool) -> bool {
    text.contains(delimiters.start()) || encrypted && text.contains(PREFIX)
}

/// Whether templates of a text make encrypted values: `fromSecret`, `copySecretData` or `protect`. The text is JSON
/// (upstream: `UsesEncryption`).
pub fn uses_encryption(text: &str, delimiters: Delimiters) -> bool {
    patterns(delimiters).is_some_and(|it| it.encrypts.is_match(text))
}

/// Takes the quotes from around what ends in `toInt`, `toBool` or `toLiteral` or copies data: YAML then sees a number,
/// a truth or a map (upstream: `processForDataTypes`).
pub(crate) fn unquote_typed(text: &str, delimiters: Delimiters) -> Cow<'_, str> {
    match patterns(delimiters) {
        Some(patterns) => patterns.typed.replace_all(text, ": $1"),
        None => text.into(),
    }
}

/// Makes `indent` of every `autoindent`, by the spaces in front of it (upstream: `processForAutoIndent`). Upstream
/// replaces the first text that looks like the match; here it is the match itself.
pub(crate) fn indent_automatically(text: &str, delimiters: Delimiters, extra: usize) -> Cow<'_, str> {
    if !text.contains("autoindent") {
        return text.into();
    }
    let Some(patterns) = patterns(delimiters) else {
        return text.into();
    };
    patterns.autoindent.replace_all(text, |it: &Captures<'_>| {
        let (whole, action) = (&it[0], &it[2]);
        let spaces = it[1].len() as i64 - extra as i64;
        let action = action.replacen("autoindent", &format!("indent {spaces}"), 1);
        format!("{}{action}", &whole[..whole.len() - it[2].len()])
    })
}

/// Decrypts all encrypted values of a text. Line breaks become `\n`, so that they stay inside of their YAML scalar
/// (upstream: `processEncryptedStrs`).
///
/// # Errors
/// What is wrong with the first value that cannot be decrypted.
pub(crate) fn decrypt_all(text: &str, keys: &TemplateKeys) -> Result<Option<String>, String> {
    let mut out = String::new();
    let mut rest = text;
    let mut found = false;
    while let Some(at) = rest.find(PREFIX) {
        let (before, after) = rest.split_at(at);
        let coded = &after[PREFIX.len()..];
        let end = coded
            .find(|it: char| !it.is_ascii_alphanumeric() && !matches!(it, '+' | '/' | '='))
            .unwrap_or(coded.len());
        out.push_str(before);
        let (coded, after) = coded.split_at(end);
        rest = after;
        if coded.is_empty() {
            out.push_str(PREFIX);
            continue;
        }
        found = true;
        let plain = keys
            .decrypt(coded)
            .map_err(|why| format!("decryption of {PREFIX}{coded} failed: {why}"))?;
        out.push_str(&String::from_utf8_lossy(&plain).replace('\n', "\\n"));
    }
    out.push_str(rest);
    Ok(found.then_some(out))
}
