//! The JSONPath dialect of Kubernetes, as far as it names values: `.a.b[0]`, `['a']`, `[*]`, slices, unions, `..`,
//! filters.
//! Upstream: client-go util/jsonpath with missing keys allowed. We differ in one thing: `{range}` and text belong to
//! printing, not to naming, and are refused when the path is read.
//!
//! Who writes a path may be a stranger: its length, the depth of its filters and what it looks at have bounds.

use serde_json::Value;

/// The longest path, in bytes. What people write has some hundred.
pub const PATH_BYTES_MAX: usize = 4096;

/// How deep filters may be in filters. Reading and walking need stack for each.
const FILTER_DEPTH_MAX: usize = 32;

/// How many values a path may look at. The largest object has fewer; `..` after `..` and filters in filters look at
/// each again and again, and find it as often.
const VALUES_MAX: usize = 1_000_000;

/// Why a path names nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is no path, or does not fit to the object. Upstream says so, too.
    #[error("{0}")]
    Mistake(String),
    /// It goes beyond our bounds, which upstream does not have.
    #[error("{0}")]
    Beyond(String),
}

impl From<String> for Fault {
    fn from(text: String) -> Self {
        Self::Mistake(text)
    }
}

impl From<&str> for Fault {
    fn from(text: &str) -> Self {
        Self::Mistake(text.to_owned())
    }
}

/// A path that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Root,
    Current,
    Field(String),
    Wildcard,
    Recursive,
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    },
    Index(i64),
    Union(Vec<Vec<Step>>),
    Filter(Box<Filter>),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Operand,
    test: Option<(Comparison, Operand)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(Vec<Step>),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Reads a path; the braces around it may be left out.
pub fn parse(text: &str) -> Result<Path, Fault> {
    if text.len() > PATH_BYTES_MAX {
        let length = text.len();
        let text = format!("the path has {length} bytes, more than {PATH_BYTES_MAX}");
        return Err(Fault::Beyond(text));
    }
    let mut inner = text.trim();
    if let Some(rest) = inner.strip_prefix('{') {
        inner = rest.strip_suffix('}').ok_or("unclosed action")?.trim();
    }
    let mut parser = Parser {
        text: inner.as_bytes(),
        at: 0,
        source: inner,
        filters: 0,
    };
    let steps = parser.steps(false)?;
    if parser.at < parser.text.len() {
        return Err(format!("unrecognized character in action: {:?}", parser.rest()).into());
    }
    Ok(Path { steps })
}

impl Path {
    /// The values the path names, in order.
    pub fn find<'a>(&self, root: &'a Value) -> Result<Vec<&'a Value>, Fault> {
        let mut left = VALUES_MAX;
        walk(&self.steps, root, vec![root], &mut left)
    }
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    source: &'t str,
    /// How many filters we are in.
    filters: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn rest(&self) -> &str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let hit = self.peek() == Some(byte);
        self.at += usize::from(hit);
        hit
    }

    fn spaces(&mut self) {
        while self.peek().is_some_and(|it| it == b' ' || it == b'\t') {
            self.at += 1;
        }
    }

    /// Reads steps until the end, or inside a filter until something that cannot continue a path.
    fn steps(&mut self, in_filter: bool) -> Result<Vec<Step>, Fault> {
        let mut steps = Vec::new();
        loop {
            match self.peek() {
                None => return Ok(steps),
                Some(b'$') => {
                    self.at += 1;
                    steps.push(Step::Root);
                }
                Some(b'@') => {
                    self.at += 1;
                    steps.push(Step::Current);
                }
                Some(b'.') => {
                    self.at += 1;
                    if self.eat(b'.') {
                        steps.push(Step::Recursive);
                        if self.peek() == Some(b'[') {
                            continue;
                        }
                    }
                    if let Some(step) = self.field()? {
                        steps.push(step);
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    let step = self.bracket()?;
                    steps.push(step);
                }
                Some(_) if in_filter => return Ok(steps),
                Some(byte) if steps.is_empty() && (byte.is_ascii_alphanumeric() || byte == b'_') => {
                    if self.rest().starts_with("range") || self.rest() == "end" {
                        return Err("range is for printing and names no value".into());
                    }
                    if let Some(step) = self.field()? {
                        steps.push(step);
                    }
                }
                Some(_) => return Ok(steps),
            }
        }
    }

    /// What follows a dot. A dot at the very end names the object itself.
    fn field(&mut self) -> Result<Option<Step>, Fault> {
        if self.eat(b'*') {
            return Ok(Some(Step::Wildcard));
        }
        let mut name = Vec::new();
        while let Some(byte) = self.peek() {
            match byte {
                b'\\' => {
                    self.at += 1;
                    name.push(self.peek().ok_or("unexpected end after a backslash")?);
                    self.at += 1;
                }
                b'.' | b'[' | b']' | b'$' | b'@' | b'{' | b'}' | b'(' | b')' | b'=' | b'!' | b'<' | b'>' | b' '
                | b'\t' | b',' | b'\'' | b'"' | b'?' | b'+' => break,
                _ => {
                    name.push(byte);
                    self.at += 1;
                }
            }
        }
        if name.is_empty() {
            return Ok(None);
        }
        String::from_utf8(name)
            .map(|it| Some(Step::Field(it)))
            .map_err(|it| it.to_string().into())
    }

    fn bracket(&mut self) -> Result<Step, Fault> {
        if self.eat(b'?') {
            return self.filter();
        }
        let mut parts = Vec::new();
        loop {
            self.spaces();
            parts.push(self.bracket_part()?);
            self.spaces();
            if self.eat(b',') {
                continue;
            }
            if self.eat(b']') {
                break;
            }
            return Err(match self.peek() {
                None => "unterminated array".into(),
                Some(_) => format!("invalid array index {:?}", self.rest()).into(),
            });
        }
        Ok(if parts.len() == 1 {
            parts.pop().expect("one part was counted")
        } else {
            Step::Union(parts.into_iter().map(|it| vec![it]).collect())
        })
    }

    fn bracket_part(&mut self) -> Result<Step, Fault> {
        match self.peek() {
            Some(b'*') => {
                self.at += 1;
                Ok(Step::Wildcard)
            }
            Some(quote @ (b'\'' | b'"')) => self.quoted(quote).map(Step::Field),
            _ => {
                let start = self.integer()?;
                if !self.eat(b':') {
                    return start
                        .map(Step::Index)
                        .ok_or_else(|| format!("invalid array index {:?}", self.rest()).into());
                }
                let end = self.integer()?;
                let step = if self.eat(b':') {
                    self.integer()?.unwrap_or(1)
                } else {
                    1
                };
                if step <= 0 {
                    return Err("step must be > 0".into());
                }
                Ok(Step::Slice { start, end, step })
            }
        }
    }

    fn integer(&mut self) -> Result<Option<i64>, Fault> {
        let from = self.at;
        self.eat(b'-');
        while self.peek().is_some_and(|it| it.is_ascii_digit()) {
            self.at += 1;
        }
        let text = &self.source[from..self.at];
        if text.is_empty() {
            return Ok(None);
        }
        text.parse()
            .map(Some)
            .map_err(|_| format!("invalid array index {text}").into())
    }

    fn quoted(&mut self, quote: u8) -> Result<String, Fault> {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.peek().ok_or("unterminated quoted string")? {
                b'\\' => {
                    self.at += 1;
                    text.push(self.peek().ok_or("unterminated quoted string")?);
                }
                byte if byte == quote => {
                    self.at += 1;
                    return String::from_utf8(text).map_err(|it| it.to_string().into());
                }
                byte => text.push(byte),
            }
            self.at += 1;
        }
    }

    fn filter(&mut self) -> Result<Step, Fault> {
        if !self.eat(b'(') {
            return Err("unterminated filter".into());
        }
        self.filters += 1;
        if self.filters > FILTER_DEPTH_MAX {
            let text = format!("the path has filters in filters deeper than {FILTER_DEPTH_MAX} levels");
            return Err(Fault::Beyond(text));
        }
        self.spaces();
        let left = self.operand()?;
        self.spaces();
        let test = match self.comparison() {
            None => None,
            Some(comparison) => {
                self.spaces();
                let right = self.operand()?;
                self.spaces();
                Some((comparison, right))
            }
        };
        if !(self.eat(b')') && self.eat(b']')) {
            return Err("unterminated filter".into());
        }
        self.filters -= 1;
        Ok(Step::Filter(Box::new(Filter { left, test })))
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let (comparison, length) = match (self.peek()?, self.text.get(self.at + 1).copied()) {
            (b'=', Some(b'=')) => (Comparison::Equal, 2),
            (b'!', Some(b'=')) => (Comparison::NotEqual, 2),
            (b'<', Some(b'=')) => (Comparison::LessOrEqual, 2),
            (b'>', Some(b'=')) => (Comparison::GreaterOrEqual, 2),
            (b'<', _) => (Comparison::Less, 1),
            (b'>', _) => (Comparison::Greater, 1),
            _ => return None,
        };
        self.at += length;
        Some(comparison)
    }

    fn operand(&mut self) -> Result<Operand, Fault> {
        match self.peek().ok_or("unterminated filter")? {
            b'@' | b'$' | b'.' | b'[' => self.steps(true).map(Operand::Path),
            quote @ (b'\'' | b'"') => self.quoted(quote).map(|it| Operand::Literal(Value::String(it))),
            _ => {
                let from = self.at;
                while self
                    .peek()
                    .is_some_and(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'+' | b'.' | b'_'))
                {
                    self.at += 1;
                }
                let text = &self.source[from..self.at];
                match text {
                    "true" => return Ok(Operand::Literal(Value::Bool(true))),
                    "false" => return Ok(Operand::Literal(Value::Bool(false))),
                    _ => {}
                }
                if let Ok(number) = text.parse::<i64>() {
                    return Ok(Operand::Literal(number.into()));
                }
                text.parse::<f64>()
                    .ok()
                    .and_then(serde_json::Number::from_f64)
                    .map(|it| Operand::Literal(Value::Number(it)))
                    .ok_or_else(|| format!("unrecognized identifier {text}").into())
            }
        }
    }
}

/// Notes that so many values are looked at, of those that still may be.
fn look(left: &mut usize, count: usize) -> Result<(), Fault> {
    let beyond = || Fault::Beyond(format!("the path looks at more than {VALUES_MAX} values"));
    *left = left.checked_sub(count).ok_or_else(beyond)?;
    Ok(())
}

fn walk<'a>(
    steps: &[Step],
    root: &'a Value,
    mut current: Vec<&'a Value>,
    left: &mut usize,
) -> Result<Vec<&'a Value>, Fault> {
    for step in steps {
        let mut next = Vec::new();
        for value in current {
            if value.is_null() && !matches!(step, Step::Root) {
                continue;
            }
            let before = next.len();
            one(step, root, value, &mut next, left)?;
            look(left, 1 + next.len() - before)?;
        }
        current = next;
    }
    Ok(current)
}

fn one<'a>(
    step: &Step,
    root: &'a Value,
    value: &'a Value,
    out: &mut Vec<&'a Value>,
    left: &mut usize,
) -> Result<(), Fault> {
    match step {
        Step::Root => out.push(root),
        Step::Current => out.push(value),
        Step::Field(name) => out.extend(value.as_object().and_then(|it| it.get(name))),
        Step::Wildcard => match value {
            Value::Array(items) => out.extend(items),
            Value::Object(fields) => out.extend(fields.values()),
            _ => {}
        },
        Step::Recursive => descend(value, out, left)?,
        Step::Index(index) => {
            let items = array(value)?;
            let length = items.len() as i64;
            let place = if *index < 0 { index + length } else { *index };
            if place < 0 || place >= length {
                return Err(format!("array index out of bounds: index {place}, length {length}").into());
            }
            out.push(&items[place as usize]);
        }
        Step::Slice { start, end, step } => {
            let items = array(value)?;
            let length = items.len() as i64;
            let clamp = |it: i64| (if it < 0 { it + length } else { it }).clamp(0, length) as usize;
            let (from, to) = (clamp(start.unwrap_or(0)), clamp(end.unwrap_or(length)));
            // A step past every end takes the first one alone.
            let step = usize::try_from(*step).unwrap_or(usize::MAX);
            out.extend(items.get(from..to).unwrap_or_default().iter().step_by(step));
        }
        Step::Union(parts) => {
            for part in parts {
                out.extend(walk(part, root, vec![value], left)?);
            }
        }
        Step::Filter(filter) => {
            let items = array(value).map_err(|it| format!("{it} and cannot be filtered"))?;
            for item in items {
                look(left, 1)?;
                if holds(filter, root, item, left)? {
                    out.push(item);
                }
            }
        }
    }
    Ok(())
}

fn array(value: &Value) -> Result<&Vec<Value>, Fault> {
    let items = value.as_array();
    items.ok_or_else(|| format!("{value} is not array or slice").into())
}

fn descend<'a>(value: &'a Value, out: &mut Vec<&'a Value>, left: &mut usize) -> Result<(), Fault> {
    look(left, 1)?;
    match value {
        Value::Array(items) => {
            out.push(value);
            items.iter().try_for_each(|it| descend(it, out, left))
        }
        Value::Object(fields) => {
            out.push(value);
            fields.values().try_for_each(|it| descend(it, out, left))
        }
        _ => Ok(()),
    }
}

fn holds(filter: &Filter, root: &Value, item: &Value, left: &mut usize) -> Result<bool, Fault> {
    let found = operand(&filter.left, root, item, left)?;
    let Some((comparison, right)) = &filter.test else {
        return Ok(!found.is_empty());
    };
    let right = operand(right, root, item, left)?;
    match (found.as_slice(), right.as_slice()) {
        ([], _) | (_, []) => Ok(false),
        ([found], [right]) => compare(found, *comparison, right),
        _ => Err("can only compare one element at a time".into()),
    }
}

fn operand<'a>(
    operand: &'a Operand,
    root: &'a Value,
    item: &'a Value,
    left: &mut usize,
) -> Result<Vec<&'a Value>, Fault> {
    match operand {
        Operand::Literal(value) => Ok(vec![value]),
        Operand::Path(steps) => walk(steps, root, vec![item], left),
    }
}

fn compare(left: &Value, comparison: Comparison, right: &Value) -> Result<bool, Fault> {
    use std::cmp::Ordering;
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => left.as_f64().partial_cmp(&right.as_f64()),
        },
        _ => return Err("incompatible types for comparison".into()),
    };
    Ok(match comparison {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({
            "metadata": {"name": "web", "annotations": {"example.com/a": "x"}},
            "status": {
                "replicas": 3, "ratio": 0.5, "ready": true,
                "conditions": [
                    {"type": "Available", "status": "True", "n": 1},
                    {"type": "Progressing", "status": "False", "n": 2},
                    {"type": "Other", "status": "True", "n": 3}
                ]
            }
        })
    }

    #[test]
    fn paths_name_the_values_that_kubectl_names() {
        let table = [
            (".status.replicas", json!([3])),
            ("{.status.replicas}", json!([3])),
            ("status.replicas", json!([3])),
            ("$.status.ready", json!([true])),
            (".status.missing.deeper", json!([])),
            (r#".status.conditions[?(@.type=="Available")].status"#, json!(["True"])),
            (
                r#".status.conditions[?(@.type == 'Progressing')].status"#,
                json!(["False"]),
            ),
            (".status.conditions[?(@.n>=2)].type", json!(["Progressing", "Other"])),
            (".status.conditions[?(@.n!=2)].n", json!([1, 3])),
            (".status.conditions[?(@.absent)].n", json!([])),
            (".status.conditions[0].type", json!(["Available"])),
            (".status.conditions[-1].type", json!(["Other"])),
            (".status.conditions[0:2].n", json!([1, 2])),
            (".status.conditions[::2].n", json!([1, 3])),
            (".status.conditions[1::9223372036854775807].n", json!([2])),
            (".status.conditions[2:1].n", json!([])),
            (".status.conditions[0,2].n", json!([1, 3])),
            (".status.conditions[*].n", json!([1, 2, 3])),
            (".status['replicas','ready']", json!([3, true])),
            ("..n", json!([1, 2, 3])),
            (r".metadata.annotations.example\.com/a", json!(["x"])),
            (".metadata.annotations['example.com/a']", json!(["x"])),
            (".status.replicas.deeper", json!([])),
        ];
        for (path, expected) in table {
            let object = object();
            let found: Vec<Value> = parse(path)
                .and_then(|it| it.find(&object).map(|it| it.into_iter().cloned().collect()))
                .unwrap();
            assert_eq!(Value::Array(found), expected, "{path}");
        }
    }

    #[test]
    fn wrong_paths_say_what_is_wrong() {
        let table = [
            (".a[", "unterminated array"),
            (".a[?(@.b==\"x\"]", "unterminated filter"),
            ("{.a", "unclosed action"),
            (".a['b", "unterminated quoted string"),
            ("{range .items[*]}", "range is for printing and names no value"),
        ];
        for (path, message) in table {
            let error = parse(path).unwrap_err().to_string();
            assert!(
                error.contains(message) || error.starts_with("invalid array index"),
                "{path}: {error}"
            );
        }
        let object = object();
        assert_eq!(
            parse(".status.conditions[9]")
                .unwrap()
                .find(&object)
                .unwrap_err()
                .to_string(),
            "array index out of bounds: index 9, length 3"
        );
        assert!(
            parse(".status[0]")
                .unwrap()
                .find(&object)
                .unwrap_err()
                .to_string()
                .ends_with("is not array or slice")
        );
    }

    #[test]
    fn a_path_without_end_is_refused() {
        let table = [
            ("[?(@".repeat(FILTER_DEPTH_MAX + 1), "deeper than 32 levels"),
            ("[?(@".repeat(PATH_BYTES_MAX / 4), "deeper than 32 levels"),
            (
                ".a".repeat(PATH_BYTES_MAX / 2 + 1),
                "the path has 4098 bytes, more than 4096",
            ),
        ];
        for (path, message) in table {
            match parse(&path) {
                Err(Fault::Beyond(error)) => assert!(error.contains(message), "{error}"),
                other => panic!("{other:?}"),
            }
        }
        let deep = format!("{}{}", "[?(@".repeat(FILTER_DEPTH_MAX), ")]".repeat(FILTER_DEPTH_MAX));
        let (side_by_side, item) = ("[?(@.a)]".repeat(FILTER_DEPTH_MAX + 1), json!([]));
        for path in [&deep, &side_by_side] {
            assert_eq!(parse(path).unwrap().find(&item), Ok(vec![]), "{path}");
        }
    }

    #[test]
    fn a_path_that_visits_too_many_values_is_abandoned() {
        let nested = (0..100).fold(json!([]), |inner, _| json!([inner, 1]));
        let list = json!({"l": vec![json!({"n": 1}); 100]});
        let everywhere = (0..5).fold("$.l[?(@.n)]".to_owned(), |inner, _| format!("$.l[?({inner})]"));
        for (path, object) in [("..".repeat(20), &nested), (everywhere, &list)] {
            let text = "the path looks at more than 1000000 values".to_owned();
            assert_eq!(parse(&path).unwrap().find(object), Err(Fault::Beyond(text)), "{path}");
        }
    }
}
