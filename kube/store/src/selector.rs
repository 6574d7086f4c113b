//! Label and field selectors: their grammar, their errors, and what they match.
//!
//! A parsed selector is in canonical order and hashable, so that watchers with the same selector can share one
//! evaluation. Facts from Kubernetes `apimachinery/pkg/labels/selector.go` and `pkg/fields/selector.go`.

#[cfg(test)]
mod tests;

use serde_json::Value;
use std::{collections::BTreeMap, fmt};

/// Where a selector looks up the value of a label.
pub trait Labels {
    /// The value of `key`, if the object has that label.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl Labels for serde_json::Map<String, Value> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }
}

/// The JSON map of labels itself (`metadata.labels`); anything else has no labels.
impl Labels for Value {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }
}

impl<L: Labels + ?Sized> Labels for &L {
    fn label(&self, key: &str) -> Option<&str> {
        (**self).label(key)
    }
}

impl<L: Labels> Labels for Option<L> {
    fn label(&self, key: &str) -> Option<&str> {
        self.as_ref().and_then(|it| it.label(key))
    }
}

/// What one requirement asks of a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// The value is one of these (sorted, at least one).
    In(Vec<String>),
    /// The label is absent or its value is none of these.
    NotIn(Vec<String>),
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
    /// The value is an integer above this one.
    GreaterThan(i64),
    /// The value is an integer below this one.
    LessThan(i64),
}

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// What is asked of it.
    pub operator: Operator,
}

impl Requirement {
    fn matches(&self, labels: &impl Labels) -> bool {
        let value = labels.label(&self.key);
        let number = || value.and_then(|it| it.parse::<i64>().ok());
        match &self.operator {
            Operator::In(values) => value.is_some_and(|it| values.iter().any(|wanted| wanted == it)),
            Operator::NotIn(values) => !value.is_some_and(|it| values.iter().any(|unwanted| unwanted == it)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan(bound) => number().is_some_and(|it| it > *bound),
            Operator::LessThan(bound) => number().is_some_and(|it| it < *bound),
        }
    }
}

/// Requirements that must all hold; none at all match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    /// A nil `metav1.LabelSelector` selects nothing.
    nothing: bool,
}

impl LabelSelector {
    /// A selector that matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// A selector that matches no object.
    pub fn nothing() -> Self {
        Self {
            requirements: Vec::new(),
            nothing: true,
        }
    }

    /// Whether every object matches.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// The requirements, sorted.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Parses the `labelSelector` query parameter. The error is the message of the 400.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser {
            tokens: scan(text),
            at: 0,
        };
        parser.selector().map(Self::of)
    }

    /// Builds a selector from a `metav1.LabelSelector`: `null` or absent selects nothing, `{}` everything.
    pub fn from_json(selector: &Value) -> Result<Self, String> {
        let Some(selector) = selector.as_object() else {
            return Ok(Self::nothing());
        };
        let mut requirements = Vec::new();
        if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
            for (key, value) in labels {
                let values = vec![value.as_str().unwrap_or_default().to_owned()];
                requirements.push(requirement(key, Word::In, values)?);
            }
        }
        for expression in selector
            .get("matchExpressions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            let word = match text("operator") {
                "In" => Word::In,
                "NotIn" => Word::NotIn,
                "Exists" => Word::Exists,
                "DoesNotExist" => Word::DoesNotExist,
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            };
            requirements.push(requirement(text("key"), word, values)?);
        }
        Ok(Self::of(requirements))
    }

    fn of(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort();
        requirements.dedup();
        Self {
            requirements,
            nothing: false,
        }
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &impl Labels) -> bool {
        !self.nothing && self.requirements.iter().all(|it| it.matches(labels))
    }
}

/// The text form, as `status.selector` of a scale and messages print it.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Requirement { key, operator }) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match operator {
                Operator::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0])?,
                Operator::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", values[0])?,
                Operator::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Operator::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Operator::Exists => f.write_str(key)?,
                Operator::DoesNotExist => write!(f, "!{key}")?,
                Operator::GreaterThan(bound) => write!(f, "{key}>{bound}")?,
                Operator::LessThan(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

/// The words of the grammar that stand between a key and its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    In,
    NotIn,
    Equal,
    NotEqual,
    Greater,
    Less,
    Exists,
    DoesNotExist,
}

/// Checks a requirement the way both forms of a selector need it.
fn requirement(key: &str, word: Word, mut values: Vec<String>) -> Result<Requirement, String> {
    let invalid = |field: String, value: &str, detail: &str| {
        Err(format!("{field}: Invalid value: {}: {detail}", Value::from(value)))
    };
    if let Some(detail) = label_key_error(key) {
        return invalid("key".to_owned(), key, &detail);
    }
    values.sort();
    values.dedup();
    let list = || Value::from(values.clone()).to_string();
    match word {
        Word::In | Word::NotIn if values.is_empty() => {
            return Err(format!(
                "values: Invalid value: {}: for 'in', 'notin' operators, values set can't be empty",
                list()
            ));
        }
        Word::Exists | Word::DoesNotExist if !values.is_empty() => {
            return Err(format!(
                "values: Invalid value: {}: values set must be empty for exists and does not exist",
                list()
            ));
        }
        _ => {}
    }
    for (index, value) in values.iter().enumerate() {
        if matches!(word, Word::Greater | Word::Less) && value.parse::<i64>().is_err() {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            return invalid(format!("values[{index}]"), value, detail);
        }
        if let Some(detail) = label_value_error(value) {
            return invalid(format!("values[{index}][{key}]"), value, &detail);
        }
    }
    let bound = || values.first().and_then(|it| it.parse().ok()).unwrap_or_default();
    let operator = match word {
        Word::In | Word::Equal => Operator::In(values),
        Word::NotIn | Word::NotEqual => Operator::NotIn(values),
        Word::Greater => Operator::GreaterThan(bound()),
        Word::Less => Operator::LessThan(bound()),
        Word::Exists => Operator::Exists,
        Word::DoesNotExist => Operator::DoesNotExist,
    };
    Ok(Requirement {
        key: key.to_owned(),
        operator,
    })
}

const NAME_RULE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.'))
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(|label| {
        let bytes = label.as_bytes();
        let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        bytes.first().is_some_and(alphanumeric)
            && bytes.last().is_some_and(alphanumeric)
            && bytes.iter().all(|it| alphanumeric(it) || *it == b'-')
    })
}

/// Why `key` is no label or annotation key, in Kubernetes' words.
pub fn label_key_error(key: &str) -> Option<String> {
    let example = "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let mut errors = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => {
            return Some(format!(
                "a valid label key {NAME_RULE} {example} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else if prefix.len() > 253 {
                errors.push("prefix part must be no more than 253 bytes".to_owned());
            } else if !is_subdomain(prefix) {
                errors.push(
                    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                     start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                        .to_owned(),
                );
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name(name) {
        errors.push(format!("name part {NAME_RULE} {example}"));
    }
    (!errors.is_empty()).then(|| errors.join("; "))
}

/// Why `value` is no label value, in Kubernetes' words.
pub fn label_value_error(value: &str) -> Option<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    (!errors.is_empty()).then(|| errors.join("; "))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Word(Word),
    Identifier,
    Not,
    Comma,
    Open,
    Close,
    End,
}

type Token = (Kind, String);

const SYMBOLS: &str = "=!(),><";

fn symbol(text: &str) -> Option<Kind> {
    Some(match text {
        "=" | "==" => Kind::Word(Word::Equal),
        "!=" => Kind::Word(Word::NotEqual),
        ">" => Kind::Word(Word::Greater),
        "<" => Kind::Word(Word::Less),
        "!" => Kind::Not,
        "," => Kind::Comma,
        "(" => Kind::Open,
        ")" => Kind::Close,
        _ => return None,
    })
}

fn scan(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = rest.chars().next() else { break };
        let (token, len) = if SYMBOLS.contains(first) {
            // The longest symbol wins: `==` before `=`, `!=` before `!`.
            let two = rest.get(..2).and_then(|it| symbol(it).map(|kind| (kind, it)));
            let one = || {
                (
                    symbol(&rest[..1]).expect("each symbol is a token by itself"),
                    &rest[..1],
                )
            };
            let (kind, text) = two.unwrap_or_else(one);
            ((kind, text.to_owned()), text.len())
        } else {
            let end = rest
                .find(|it: char| SYMBOLS.contains(it) || " \t\r\n".contains(it))
                .unwrap_or(rest.len());
            let word = &rest[..end];
            let kind = match word {
                "in" => Kind::Word(Word::In),
                "notin" => Kind::Word(Word::NotIn),
                _ => Kind::Identifier,
            };
            ((kind, word.to_owned()), end)
        };
        tokens.push(token);
        rest = &rest[len..];
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek_any(&self) -> (Kind, &str) {
        self.tokens
            .get(self.at)
            .map_or((Kind::End, ""), |(kind, text)| (*kind, text.as_str()))
    }

    /// The next token where a key or a value is wanted: `in` and `notin` are then ordinary words.
    fn peek(&self) -> (Kind, &str) {
        match self.peek_any() {
            (Kind::Word(Word::In | Word::NotIn), text) => (Kind::Identifier, text),
            other => other,
        }
    }

    fn next(&mut self) -> Token {
        let (kind, text) = self.peek();
        let token = (kind, text.to_owned());
        self.at += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (Kind::Identifier | Kind::Not, _) => {
                    requirements.push(
                        self.requirement()
                            .map_err(|error| format!("unable to parse requirement: {error}"))?,
                    );
                    match self.next() {
                        (Kind::End, _) => return Ok(requirements),
                        (Kind::Comma, _) => {
                            if let (kind, text) = self.peek()
                                && !matches!(kind, Kind::Identifier | Kind::Not)
                            {
                                return Err(format!("found '{text}', expected: identifier after ','"));
                            }
                        }
                        (_, text) => return Err(format!("found '{text}', expected: ',' or 'end of string'")),
                    }
                }
                (Kind::End, _) => return Ok(requirements),
                (_, text) => return Err(format!("found '{text}', expected: !, identifier, or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let negated = token.0 == Kind::Not;
        if negated {
            token = self.next();
        }
        let (Kind::Identifier, key) = token else {
            return Err(format!("found '{}', expected: identifier", token.1));
        };
        if let Some(detail) = label_key_error(&key) {
            return Err(format!("<nil>: Invalid value: {}: {detail}", Value::from(key)));
        }
        if negated {
            return requirement(&key, Word::DoesNotExist, Vec::new());
        }
        if matches!(self.peek().0, Kind::End | Kind::Comma) {
            return requirement(&key, Word::Exists, Vec::new());
        }
        let (kind, text) = self.peek_any();
        let Kind::Word(word) = kind else {
            return Err(format!("found '{text}', expected: in, notin, =, ==, !=, gt, lt"));
        };
        self.at += 1;
        let values = match word {
            Word::In | Word::NotIn => self.values()?,
            _ => vec![self.value()?],
        };
        requirement(&key, word, values)
    }

    fn value(&mut self) -> Result<String, String> {
        if matches!(self.peek().0, Kind::End | Kind::Comma) {
            return Ok(String::new());
        }
        match self.next() {
            (Kind::Identifier, text) => Ok(text),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        let (kind, text) = self.next();
        if kind != Kind::Open {
            return Err(format!("found '{text}' expected: '('"));
        }
        let mut values = Vec::new();
        // A value may be empty on either side of a comma: `(,a)` is "" and "a"; `()` is "".
        let mut expects_value = true;
        loop {
            match self.next() {
                (Kind::Identifier, text) if expects_value => {
                    values.push(text);
                    expects_value = false;
                }
                (Kind::Identifier, text) => return Err(format!("found '{text}', expected: ',' or ')'")),
                (Kind::Comma, _) => {
                    if expects_value {
                        values.push(String::new());
                    }
                    expects_value = true;
                }
                (Kind::Close, _) => {
                    if expects_value {
                        values.push(String::new());
                    }
                    return Ok(values);
                }
                (_, text) if values.is_empty() => {
                    return Err(format!("found '{text}', expected: ',', ')' or identifier"));
                }
                (_, text) if expects_value => return Err(format!("found '{text}', expected: ',', or identifier")),
                (_, text) => return Err(format!("found '{text}', expected: ',' or ')'")),
            }
        }
    }
}

/// One term of a field selector: `field`, whether it must be equal, and `value`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldTerm {
    /// Field path such as `metadata.name`.
    pub field: String,
    /// `true` for `=` and `==`, `false` for `!=`.
    pub equal: bool,
    /// Value compared with.
    pub value: String,
}

/// Terms that must all hold; none at all match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

impl FieldSelector {
    /// A selector that matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Whether every object matches.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The terms, sorted. Which fields a kind knows is the caller's to check.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// Parses the `fieldSelector` query parameter. The error is the message of the 400.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for term in split_terms(text) {
            if term.is_empty() {
                continue;
            }
            let operator = |at: &usize| term[*at..].starts_with('=') || term[*at..].starts_with("!=");
            let Some(at) = term.char_indices().map(|(at, _)| at).find(operator) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{term}'"));
            };
            let (field, rest) = term.split_at(at);
            let (equal, value) = match rest.strip_prefix("!=") {
                Some(value) => (false, value),
                None => (true, rest.strip_prefix("==").unwrap_or_else(|| &rest[1..])),
            };
            terms.push(FieldTerm {
                field: field.to_owned(),
                equal,
                value: unescape(value)?,
            });
        }
        terms.sort();
        terms.dedup();
        Ok(Self { terms })
    }

    /// Adds the term `field=value`.
    pub fn and_equal(mut self, field: &str, value: &str) -> Self {
        self.terms.push(FieldTerm {
            field: field.to_owned(),
            equal: true,
            value: value.to_owned(),
        });
        self.terms.sort();
        self.terms.dedup();
        self
    }

    /// The value that `field` must equal, if a term says so.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|it| it.equal && it.field == field)
            .map(|it| it.value.as_str())
    }

    /// The one name that can match, if the selector says `metadata.name=...`.
    pub fn metadata_name(&self) -> Option<&str> {
        self.required("metadata.name")
    }

    /// Whether an object is selected whose fields are what `lookup` says; a missing field counts as empty.
    pub fn matches<'v>(&self, lookup: impl Fn(&str) -> Option<std::borrow::Cow<'v, str>>) -> bool {
        self.terms
            .iter()
            .all(|term| (lookup(&term.field).as_deref().unwrap_or_default() == term.value) == term.equal)
    }
}

/// The text form with escapes, as RBAC attributes and messages print it.
impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let value = term.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            let (comma, operator) = (if index > 0 { "," } else { "" }, if term.equal { "=" } else { "!=" });
            write!(f, "{comma}{}{operator}{value}", term.field)?;
        }
        Ok(())
    }
}

/// Splits at commas that no backslash protects; escapes stay in the parts.
fn split_terms(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                Some(other) => return Err(format!("invalid field selector: invalid escape sequence: \\{other}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            '=' | ',' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {character}"
                ));
            }
            other => plain.push(other),
        }
    }
    Ok(plain)
}
