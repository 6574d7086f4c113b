//! The dialect of JSONPath that printer columns and `kubectl` use.
//!
//! `.a.b`, `['k']`, `[0]`, `[-1]`, `[1:3]`, `[*]`, `..name`, unions `['a','b']`, filters `[?(@.type=="Ready")].status`,
//! and `\.` for a dot inside a name. Braces around the whole and a leading `$` are allowed. Facts from Kubernetes
//! `client-go/util/jsonpath`; missing keys select nothing.

#[cfg(test)]
mod tests;

use serde_json::Value;
use std::{cmp::Ordering, iter::Peekable, str::Chars};

/// How deep filters may nest in filters.
const DEPTH_MAX: usize = 32;
/// A path that selects more values than this selects none: several `..` in a row select each value many times over.
const SELECTED_MAX: usize = 100_000;

/// A compiled path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(Box<str>),
    Index(i64),
    Slice {
        from: Option<i64>,
        to: Option<i64>,
        by: usize,
    },
    Wildcard,
    Descend,
    Union(Vec<JsonPath>),
    Filter {
        left: Operand,
        test: Option<(Comparator, Operand)>,
    },
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(JsonPath),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Compiles a path; the error says what was not understood.
    pub fn parse(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let inner = trimmed
            .strip_prefix('{')
            .and_then(|it| it.strip_suffix('}'))
            .unwrap_or(trimmed);
        let mut reader = Reader {
            rest: inner.chars().peekable(),
            depth: 0,
        };
        let path = reader
            .path(|_| false)
            .map_err(|error| format!("invalid JSONPath {text:?}: {error}"))?;
        Ok(path)
    }

    /// The values the path selects, in document order.
    pub fn select<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        select(&self.steps, value)
    }

    /// The first value the path selects.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        // Almost every path is plain fields, and those need no list.
        let mut found = value;
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Field(name) => found = found.get(&**name)?,
                _ => {
                    return Self {
                        steps: self.steps[at..].to_vec(),
                    }
                    .select(found)
                    .first()
                    .copied();
                }
            }
        }
        Some(found)
    }
}

fn select<'a>(steps: &[Step], value: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![value];
    for step in steps {
        let mut next = Vec::with_capacity(found.len());
        for value in found {
            step.select(value, &mut next);
            if next.len() > SELECTED_MAX {
                return Vec::new();
            }
        }
        found = next;
    }
    found
}

fn position(index: i64, len: usize) -> Option<usize> {
    let len = i64::try_from(len).ok()?;
    let at = if index < 0 { len + index } else { index };
    usize::try_from(at).ok().filter(|_| at < len)
}

impl Step {
    fn select<'a>(&self, value: &'a Value, out: &mut Vec<&'a Value>) {
        match (self, value) {
            (Step::Field(name), Value::Object(map)) => out.extend(map.get(&**name)),
            (Step::Index(index), Value::Array(items)) => out.extend(position(*index, items.len()).map(|at| &items[at])),
            (Step::Slice { from, to, by }, Value::Array(items)) => {
                let bound = |it: i64| {
                    if it < 0 {
                        items.len().saturating_sub(it.unsigned_abs() as usize)
                    } else {
                        (it as usize).min(items.len())
                    }
                };
                let (from, to) = (from.map_or(0, bound), to.map_or(items.len(), bound));
                out.extend(items.get(from..to.max(from)).unwrap_or_default().iter().step_by(*by));
            }
            (Step::Wildcard, Value::Array(items)) => out.extend(items),
            (Step::Wildcard, Value::Object(map)) => out.extend(map.values()),
            (Step::Descend, _) => descend(value, out),
            (Step::Union(paths), _) => paths.iter().for_each(|path| out.extend(path.select(value))),
            (Step::Filter { left, test }, Value::Array(items)) => {
                out.extend(items.iter().filter(|item| passes(item, left, test.as_ref())))
            }
            (Step::Filter { left, test }, Value::Object(map)) => {
                out.extend(map.values().filter(|item| passes(item, left, test.as_ref())))
            }
            _ => {}
        }
    }
}

fn descend<'a>(value: &'a Value, out: &mut Vec<&'a Value>) {
    out.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|it| descend(it, out)),
        Value::Object(map) => map.values().for_each(|it| descend(it, out)),
        _ => {}
    }
}

impl Operand {
    fn value<'a>(&'a self, item: &'a Value) -> Option<&'a Value> {
        match self {
            Operand::Path(path) => path.first(item),
            Operand::Literal(value) => Some(value),
        }
    }
}

fn passes(item: &Value, left: &Operand, test: Option<&(Comparator, Operand)>) -> bool {
    let Some(left) = left.value(item) else { return false };
    let Some((comparator, right)) = test else { return true };
    let Some(right) = right.value(item) else { return false };
    let order = match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ if left == right => Some(Ordering::Equal),
        _ => None,
    };
    match (comparator, order) {
        (Comparator::Equal, order) => order == Some(Ordering::Equal),
        (Comparator::NotEqual, order) => order != Some(Ordering::Equal),
        (_, None) => false,
        (Comparator::Less, Some(order)) => order.is_lt(),
        (Comparator::LessOrEqual, Some(order)) => order.is_le(),
        (Comparator::Greater, Some(order)) => order.is_gt(),
        (Comparator::GreaterOrEqual, Some(order)) => order.is_ge(),
    }
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    /// How many filters are around what is read.
    depth: usize,
}

impl Reader<'_> {
    fn spaces(&mut self) {
        while self.rest.next_if(|it| it.is_whitespace()).is_some() {}
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        match self.rest.next() {
            Some(found) if found == wanted => Ok(()),
            Some(found) => Err(format!("expected {wanted:?}, found {found:?}")),
            None => Err(format!("expected {wanted:?} before the end")),
        }
    }

    /// Reads steps until the end or a character that `ends` the path (an operator or parenthesis inside a filter).
    fn path(&mut self, ends: fn(char) -> bool) -> Result<JsonPath, String> {
        let mut steps = Vec::new();
        let mut at_start = true;
        while let Some(&next) = self.rest.peek() {
            match next {
                _ if ends(next) => break,
                '$' | '@' if at_start => {
                    self.rest.next();
                }
                '.' => {
                    self.rest.next();
                    if self.rest.next_if_eq(&'.').is_some() {
                        steps.push(Step::Descend);
                    }
                    match self.rest.peek() {
                        None | Some('[') => {}
                        Some('*') => {
                            self.rest.next();
                            steps.push(Step::Wildcard);
                        }
                        Some(_) => {
                            let name = self.name(ends)?;
                            if !name.is_empty() {
                                steps.push(Step::Field(name.into()));
                            }
                        }
                    }
                }
                '[' => {
                    self.rest.next();
                    steps.push(self.brackets()?);
                }
                // kubectl lets the first dot be left out.
                _ if at_start => {
                    let name = self.name(ends)?;
                    if name.is_empty() {
                        return Err(format!("unexpected {next:?}"));
                    }
                    steps.push(Step::Field(name.into()));
                }
                _ => return Err(format!("unexpected {next:?}")),
            }
            at_start = false;
        }
        Ok(JsonPath { steps })
    }

    fn name(&mut self, ends: fn(char) -> bool) -> Result<String, String> {
        let mut name = String::new();
        while let Some(&next) = self.rest.peek() {
            match next {
                '.' | '[' => break,
                _ if ends(next) || "]{}()'\"".contains(next) || next.is_whitespace() => break,
                '\\' => {
                    self.rest.next();
                    name.push(self.rest.next().ok_or("a backslash at the end")?);
                }
                other => {
                    self.rest.next();
                    name.push(other);
                }
            }
        }
        Ok(name)
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        loop {
            match self.rest.next().ok_or("unterminated quoted string")? {
                '\\' => text.push(self.rest.next().ok_or("unterminated quoted string")?),
                it if it == quote => return Ok(text),
                other => text.push(other),
            }
        }
    }

    fn brackets(&mut self) -> Result<Step, String> {
        self.spaces();
        if self.rest.next_if_eq(&'?').is_some() {
            return self.filter();
        }
        let mut members = vec![self.member()?];
        loop {
            self.spaces();
            match self.rest.next() {
                Some(']') => break,
                Some(',') => {
                    self.spaces();
                    members.push(self.member()?);
                }
                Some(other) => return Err(format!("unexpected {other:?} in brackets")),
                None => return Err("unterminated brackets".to_owned()),
            }
        }
        Ok(match members.len() {
            1 => members.remove(0),
            _ => Step::Union(members.into_iter().map(|it| JsonPath { steps: vec![it] }).collect()),
        })
    }

    fn member(&mut self) -> Result<Step, String> {
        if let Some(quote) = self.rest.next_if(|it| matches!(it, '\'' | '"')) {
            return Ok(Step::Field(self.quoted(quote)?.into()));
        }
        if self.rest.next_if_eq(&'*').is_some() {
            return Ok(Step::Wildcard);
        }
        let mut text = String::new();
        while let Some(next) = self.rest.next_if(|it| !matches!(it, ']' | ',') && !it.is_whitespace()) {
            text.push(next);
        }
        let number = |it: &str| it.parse::<i64>().map_err(|_| format!("{it:?} is no array index"));
        if !text.contains(':') {
            return number(&text).map(Step::Index);
        }
        let parts: Vec<Option<i64>> = text
            .split(':')
            .map(|it| if it.is_empty() { Ok(None) } else { number(it).map(Some) })
            .collect::<Result<_, _>>()?;
        let by = match parts.get(2).copied().flatten() {
            None => 1,
            Some(by) => usize::try_from(by)
                .ok()
                .filter(|by| *by > 0)
                .ok_or("the step of a slice must be positive")?,
        };
        if parts.len() > 3 {
            return Err(format!("{text:?} is no slice"));
        }
        Ok(Step::Slice {
            from: parts[0],
            to: parts[1],
            by,
        })
    }

    fn filter(&mut self) -> Result<Step, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("filters nest deeper than {DEPTH_MAX} levels"));
        }
        self.expect('(')?;
        let left = self.operand()?;
        self.spaces();
        let comparator = match self.rest.peek() {
            Some(')') => None,
            _ => Some(self.comparator()?),
        };
        let test = match comparator {
            None => None,
            Some(comparator) => {
                self.spaces();
                Some((comparator, self.operand()?))
            }
        };
        self.spaces();
        self.expect(')')?;
        self.spaces();
        self.expect(']')?;
        self.depth -= 1;
        Ok(Step::Filter { left, test })
    }

    fn comparator(&mut self) -> Result<Comparator, String> {
        let first = self.rest.next();
        let equal = self.rest.next_if_eq(&'=').is_some();
        match (first, equal) {
            (Some('='), true) => Ok(Comparator::Equal),
            (Some('!'), true) => Ok(Comparator::NotEqual),
            (Some('<'), true) => Ok(Comparator::LessOrEqual),
            (Some('<'), false) => Ok(Comparator::Less),
            (Some('>'), true) => Ok(Comparator::GreaterOrEqual),
            (Some('>'), false) => Ok(Comparator::Greater),
            (Some(other), _) => Err(format!("{other:?} is no comparison")),
            (None, _) => Err("unterminated filter".to_owned()),
        }
    }

    fn operand(&mut self) -> Result<Operand, String> {
        self.spaces();
        if let Some(quote) = self.rest.next_if(|it| matches!(it, '\'' | '"')) {
            return self.quoted(quote).map(|it| Operand::Literal(it.into()));
        }
        let ends_operand: fn(char) -> bool = |it| it.is_whitespace() || "=!<>)".contains(it);
        if self.rest.peek().is_some_and(|it| matches!(it, '@' | '$' | '.')) {
            return self.path(ends_operand).map(Operand::Path);
        }
        let mut text = String::new();
        while let Some(next) = self.rest.next_if(|it| !ends_operand(*it)) {
            text.push(next);
        }
        serde_json::from_str(&text)
            .map(Operand::Literal)
            .map_err(|_| format!("{text:?} is neither a path nor a value"))
    }
}
