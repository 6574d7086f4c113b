//! Which objects a patch or a replacement is for: regular expressions for identities, and Kubernetes' label selectors.
//! Upstream: api/types/selector.go, and apimachinery's labels.Parse.

use regex::Regex;

use crate::{
    error::{KustomizeError, Result},
    identity::Gvk,
    limits,
    resource::{BuildObject, Texts},
};

/// A selector as it is written. An empty part fits all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectSelector {
    pub gvk: Gvk,
    pub name: String,
    pub namespace: String,
    pub labels: String,
    pub annotations: String,
}

impl ObjectSelector {
    /// Whether it says nothing about identities.
    pub(crate) fn names_nothing(&self) -> bool {
        self.gvk == Gvk::default() && self.name.is_empty() && self.namespace.is_empty()
    }

    pub(crate) fn compile(&self) -> Result<CompiledSelector> {
        Ok(CompiledSelector {
            group: anchored(&self.gvk.group)?,
            version: anchored(&self.gvk.version)?,
            kind: anchored(&self.gvk.kind)?,
            name: anchored(&self.name)?,
            namespace: anchored(&self.namespace)?,
            labels: LabelSelector::parse(&self.labels)?,
            annotations: LabelSelector::parse(&self.annotations)?,
        })
    }
}

pub(crate) struct CompiledSelector {
    group: Option<Regex>,
    version: Option<Regex>,
    kind: Option<Regex>,
    name: Option<Regex>,
    namespace: Option<Regex>,
    labels: LabelSelector,
    annotations: LabelSelector,
}

fn anchored(pattern: &str) -> Result<Option<Regex>> {
    if pattern.is_empty() {
        return Ok(None);
    }
    expression(&format!("^(?:{pattern})$")).map(Some)
}

/// A regular expression of Go's.
pub(crate) fn expression(pattern: &str) -> Result<Regex> {
    go_regex::compile_within(pattern, limits::REGEX_BYTES_MAX)
        .map_err(|error| KustomizeError::wrong(format!("`{pattern}` is no regular expression of Go's: {error}")))
}

fn fits(pattern: &Option<Regex>, text: &str) -> bool {
    pattern.as_ref().is_none_or(|it| it.is_match(text))
}

impl CompiledSelector {
    pub(crate) fn fits_gvk(&self, gvk: &Gvk) -> bool {
        fits(&self.group, &gvk.group) && fits(&self.version, &gvk.version) && fits(&self.kind, &gvk.kind)
    }

    pub(crate) fn fits_name(&self, name: &str) -> bool {
        fits(&self.name, name)
    }

    pub(crate) fn fits_namespace(&self, namespace: &str) -> bool {
        fits(&self.namespace, namespace)
    }

    pub(crate) fn fits_labels(&self, resource: &BuildObject) -> bool {
        (self.labels.0.is_empty() || self.labels.fits(&resource.labels()))
            && (self.annotations.0.is_empty() || self.annotations.fits(&resource.annotations()))
    }

    /// As patches select: by the first name and the present one.
    pub(crate) fn fits(&self, resource: &BuildObject) -> Result<bool> {
        let (now, first) = (resource.id(), resource.original_id()?);
        let any = |fits: &dyn Fn(&crate::identity::ObjectId) -> bool| fits(&first) || fits(&now);
        Ok(any(&|it| self.fits_namespace(it.effective_namespace()))
            && any(&|it| self.fits_name(&it.name))
            && self.fits_gvk(&now.gvk)
            && self.fits_labels(resource))
    }
}

/// A label selector: all requirements have to hold.
#[derive(Debug, Default)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Debug)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Debug)]
enum Operator {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    pub(crate) fn fits(&self, labels: &Texts) -> bool {
        let number = |key: &str| labels.get(key).and_then(|it| it.parse::<i64>().ok());
        self.0.iter().all(|it| match &it.operator {
            Operator::Exists => labels.contains_key(&it.key),
            Operator::Missing => !labels.contains_key(&it.key),
            Operator::In(values) => labels.get(&it.key).is_some_and(|it| values.contains(it)),
            Operator::NotIn(values) => labels.get(&it.key).is_none_or(|it| !values.contains(it)),
            Operator::Greater(than) => number(&it.key).is_some_and(|it| it > *than),
            Operator::Less(than) => number(&it.key).is_some_and(|it| it < *than),
        })
    }

    pub(crate) fn parse(text: &str) -> Result<LabelSelector> {
        let mut parser = SelectorParser {
            tokens: tokens(text),
            at: 0,
        };
        let mut requirements = Vec::new();
        let wrong = |why: String| KustomizeError::wrong(format!("`{text}` is no label selector: {why}"));
        if parser.peek().is_none() {
            return Ok(LabelSelector(requirements));
        }
        loop {
            requirements.push(parser.requirement().map_err(wrong)?);
            match parser.next() {
                None => return Ok(LabelSelector(requirements)),
                Some(Token::Comma) => {}
                Some(other) => return Err(wrong(format!("`{}` is not expected there", other.text()))),
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Comma,
    Open,
    Close,
    Not,
    Equal,
    NotEqual,
    Greater,
    Less,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Word(it) => it,
            Token::Comma => ",",
            Token::Open => "(",
            Token::Close => ")",
            Token::Not => "!",
            Token::Equal => "=",
            Token::NotEqual => "!=",
            Token::Greater => ">",
            Token::Less => "<",
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let special = |it: char| "=!(),<>".contains(it);
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = if rest.starts_with("!=") {
            (Token::NotEqual, 2)
        } else if rest.starts_with("==") {
            (Token::Equal, 2)
        } else {
            match first {
                ',' => (Token::Comma, 1),
                '(' => (Token::Open, 1),
                ')' => (Token::Close, 1),
                '!' => (Token::Not, 1),
                '=' => (Token::Equal, 1),
                '>' => (Token::Greater, 1),
                '<' => (Token::Less, 1),
                _ => {
                    let length = rest
                        .find(|it: char| special(it) || it.is_whitespace())
                        .unwrap_or(rest.len());
                    (Token::Word(rest[..length].to_owned()), length)
                }
            }
        };
        found.push(token);
        rest = rest[length..].trim_start();
    }
    found
}

struct SelectorParser {
    tokens: Vec<Token>,
    at: usize,
}

impl SelectorParser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let missing = self.peek() == Some(&Token::Not);
        if missing {
            self.next();
        }
        let key = match self.next() {
            Some(Token::Word(key)) => key,
            Some(other) => return Err(format!("a key is expected, and there is `{}`", other.text())),
            None => return Err("a key is expected at its end".to_owned()),
        };
        check_key(&key)?;
        let operator = match self.peek() {
            _ if missing => Operator::Missing,
            None | Some(Token::Comma) => Operator::Exists,
            Some(Token::Word(word)) if word == "in" || word == "notin" => {
                let is_in = word == "in";
                self.next();
                let values = self.values()?;
                if is_in {
                    Operator::In(values)
                } else {
                    Operator::NotIn(values)
                }
            }
            Some(Token::Equal) => Operator::In(vec![self.value()?]),
            Some(Token::NotEqual) => Operator::NotIn(vec![self.value()?]),
            Some(Token::Greater) => Operator::Greater(self.number()?),
            Some(Token::Less) => Operator::Less(self.number()?),
            Some(other) => {
                return Err(format!(
                    "an operator is expected behind `{key}`, and there is `{}`",
                    other.text()
                ));
            }
        };
        Ok(Requirement { key, operator })
    }

    // Behind an operator; none is the empty value.
    fn value(&mut self) -> Result<String, String> {
        self.next();
        match self.peek() {
            None | Some(Token::Comma) => Ok(String::new()),
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.next();
                check_value(&word)?;
                Ok(word)
            }
            Some(other) => Err(format!("a value is expected, and there is `{}`", other.text())),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        value.parse().map_err(|_| format!("`{value}` is no whole number"))
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        if self.next() != Some(Token::Open) {
            return Err("`(` is expected behind `in` and `notin`".to_owned());
        }
        let mut values = Vec::new();
        let mut last = String::new();
        loop {
            match self.next() {
                Some(Token::Word(word)) if last.is_empty() => {
                    check_value(&word)?;
                    last = word;
                }
                Some(Token::Comma) => values.push(std::mem::take(&mut last)),
                Some(Token::Close) => {
                    values.push(last);
                    return Ok(values);
                }
                _ => return Err("a list of values ends with `)`".to_owned()),
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    let inside = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    let at_end = |it: char| it.is_ascii_alphanumeric();
    text.len() <= 63 && text.chars().all(inside) && text.starts_with(at_end) && text.ends_with(at_end)
}

fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = match key.rsplit_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_label = |it: &str| {
        let inside = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
        !it.is_empty() && it.chars().all(inside) && !it.starts_with('-') && !it.ends_with('-')
    };
    let prefix_fits = prefix.is_none_or(|it| it.len() <= 253 && it.split('.').all(is_label));
    if prefix_fits && is_name(name) {
        return Ok(());
    }
    Err(format!("`{key}` is no key of a label"))
}

fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() || is_name(value) {
        return Ok(());
    }
    Err(format!("`{value}` is no value of a label"))
}
