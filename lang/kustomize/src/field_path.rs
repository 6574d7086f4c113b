//! Paths with dots, as replacements write them: `spec.containers.[name=app].image`, `spec.list.0`, `spec.list.*.field`.
//! Upstream: kyaml's yaml/match.go and `PathGetter`.

use crate::{
    error::{KustomizeError, Result},
    field_spec::split_path,
    node::YamlNode,
    scalar::{Scalar, Style},
    selector::expression,
    yaml_read::{EqualKeys, first_document},
};

/// A step to a value in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldStep {
    Field(String),
    Item(usize),
}

/// A path at its dots, except inside of brackets and behind a backslash.
pub(crate) fn split(path: &str) -> Vec<String> {
    let parts = split_path(path, '.');
    let mut found = Vec::new();
    let mut parts = parts.into_iter();
    while let Some(part) = parts.next() {
        if !part.starts_with('[') || part.ends_with(']') {
            found.push(part);
            continue;
        }
        let mut whole = part;
        for next in parts.by_ref() {
            whole.push('.');
            whole.push_str(&next);
            if next.ends_with(']') {
                break;
            }
        }
        found.push(if whole.contains('=') {
            whole
        } else {
            whole.trim_matches(['[', ']']).to_owned()
        });
    }
    found
}

fn is_condition(part: &str) -> bool {
    part.starts_with('[') && part.ends_with(']') && part.len() > 1
}

fn index(part: &str) -> Option<usize> {
    part.parse::<i64>().ok().and_then(|it| usize::try_from(it).ok())
}

fn condition(part: &str) -> Result<(&str, &str)> {
    let inner = part.strip_suffix(']').unwrap_or(part);
    let inner = inner.strip_prefix('[').unwrap_or(inner);
    inner
        .split_once('=')
        .ok_or_else(|| KustomizeError::wrong(format!("`{part}` selects no item of a list; write [field=value]")))
}

fn items<'a>(node: &'a YamlNode, part: &str) -> Result<&'a [YamlNode]> {
    match node {
        YamlNode::List(items) => Ok(items),
        it if it.is_null() => Ok(&[]),
        it => Err(KustomizeError::wrong(format!(
            "`{part}` stands for items of a list, and there is {}",
            it.what()
        ))),
    }
}

/// The one value at a path, if there is one. Conditions are compared as they are.
pub(crate) fn lookup(node: &YamlNode, parts: &[String]) -> Result<Option<Vec<FieldStep>>> {
    let mut steps = Vec::new();
    let mut node = node;
    for part in parts.iter().map(|it| it.trim()).filter(|it| !it.is_empty()) {
        if part.parse::<i64>().is_ok() || part == "-" || is_condition(part) {
            let list = items(node, part)?;
            let at = if part == "-" {
                match list.len() {
                    0 => return Err(KustomizeError::wrong("`-` is the last item of a list, which is empty")),
                    length => Some(length - 1),
                }
            } else if is_condition(part) {
                let (field, value) = condition(part)?;
                list.iter().position(|item| match field {
                    "" => item.text() == value,
                    field => item.get(field).is_some_and(|it| it.text() == value),
                })
            } else {
                let at = index(part).ok_or_else(|| KustomizeError::wrong(format!("the index {part} is negative")))?;
                (at < list.len()).then_some(at)
            };
            let Some(at) = at else { return Ok(None) };
            steps.push(FieldStep::Item(at));
            node = &list[at];
            continue;
        }
        if part == "*" {
            return Err(KustomizeError::wrong("`*` stands for many values, and a source is one"));
        }
        match node {
            it if it.is_null() => return Ok(None),
            YamlNode::Map(_) => {}
            it => {
                return Err(KustomizeError::wrong(format!(
                    "a map with `{part}` is expected, and there is {}",
                    it.what()
                )));
            }
        }
        let Some(next) = node.get(part) else { return Ok(None) };
        steps.push(FieldStep::Field(part.to_owned()));
        node = next;
    }
    Ok(Some(steps))
}

pub(crate) fn at<'a>(mut node: &'a YamlNode, steps: &[FieldStep]) -> Option<&'a YamlNode> {
    for step in steps {
        node = match (step, node) {
            (FieldStep::Field(name), node) => node.get(name)?,
            (FieldStep::Item(at), YamlNode::List(items)) => items.get(*at)?,
            _ => return None,
        };
    }
    Some(node)
}

pub(crate) fn at_mut<'a>(mut node: &'a mut YamlNode, steps: &[FieldStep]) -> Option<&'a mut YamlNode> {
    for step in steps {
        node = match (step, node) {
            (FieldStep::Field(name), node) => node.get_mut(name)?,
            (FieldStep::Item(at), YamlNode::List(items)) => items.get_mut(*at)?,
            _ => return None,
        };
    }
    Some(node)
}

/// What a path leads to.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    pub places: Vec<Vec<FieldStep>>,
    /// Whether it leads into a text that is a document itself. Nothing that is set there is kept.
    pub inside_text: bool,
}

/// All values at a path. With `created`, what is missing is created, as the value says.
pub(crate) fn matches(node: &mut YamlNode, parts: &[String], created: Option<&YamlNode>) -> Result<Matches> {
    let mut found = Matches::default();
    find(node, parts, created, &mut Vec::new(), &mut found)?;
    Ok(found)
}

/// What is created for a part, by the part that follows.
fn blank(next: Option<&String>, value: &YamlNode) -> YamlNode {
    match (next.map(String::as_str).filter(|it| !it.is_empty()), value) {
        (Some(next), _) if is_condition(next) || index(next).is_some() => YamlNode::List(Vec::new()),
        (Some(_), _) | (None, YamlNode::Map(_)) => YamlNode::empty_map(),
        (None, YamlNode::List(_)) => YamlNode::List(Vec::new()),
        (None, YamlNode::Scalar(_)) => YamlNode::Scalar(Scalar::untagged("", Style::Plain)),
    }
}

fn find(
    node: &mut YamlNode,
    parts: &[String],
    created: Option<&YamlNode>,
    steps: &mut Vec<FieldStep>,
    found: &mut Matches,
) -> Result<()> {
    let Some(part) = parts.first() else {
        found.places.push(steps.clone());
        return Ok(());
    };
    let rest = &parts[1..];
    if let Some(at) = index(part) {
        let length = items(node, part)?.len();
        if let (Some(value), YamlNode::List(items)) = (created.filter(|_| at == length), &mut *node) {
            items.push(blank(rest.first(), value));
        }
        return match node {
            YamlNode::List(items) if at < items.len() => {
                inner(&mut items[at], FieldStep::Item(at), rest, created, steps, found)
            }
            _ => Err(KustomizeError::wrong(format!(
                "the list has {length} items, and none at {at}"
            ))),
        };
    }
    if is_condition(part) {
        return find_items(node, parts, created, steps, found);
    }
    if part == "*" {
        items(node, part)?;
        let YamlNode::List(items) = node else { return Ok(()) };
        for (at, item) in items.iter_mut().enumerate() {
            inner(item, FieldStep::Item(at), rest, created, steps, found)?;
        }
        return Ok(());
    }
    match node {
        it if it.is_null() => return Ok(()),
        YamlNode::Map(_) => {}
        it => {
            return Err(KustomizeError::wrong(format!(
                "a map with `{part}` is expected, and there is {}",
                it.what()
            )));
        }
    }
    if node.get(part).is_none() {
        let Some(value) = created else { return Ok(()) };
        node.put(part, blank(rest.first(), value));
    }
    let Some(field) = node.get_mut(part) else { return Ok(()) };
    if let YamlNode::Scalar(scalar) = field
        && !rest.is_empty()
    {
        let mut inside = first_document(&scalar.text, EqualKeys::Refused)?
            .ok_or_else(|| KustomizeError::wrong(format!("`{part}` is empty")))?;
        let deeper = matches(&mut inside, rest, created)?;
        found.inside_text |= deeper.inside_text || !deeper.places.is_empty();
        return Ok(());
    }
    inner(field, FieldStep::Field(part.clone()), rest, created, steps, found)
}

fn inner(
    node: &mut YamlNode,
    step: FieldStep,
    rest: &[String],
    created: Option<&YamlNode>,
    steps: &mut Vec<FieldStep>,
    found: &mut Matches,
) -> Result<()> {
    steps.push(step);
    let result = find(node, rest, created, steps, found);
    steps.pop();
    result
}

/// Items by a condition, whose value is a regular expression that may fit a part.
fn find_items(
    node: &mut YamlNode,
    parts: &[String],
    created: Option<&YamlNode>,
    steps: &mut Vec<FieldStep>,
    found: &mut Matches,
) -> Result<()> {
    let part = &parts[0];
    let (field, pattern) = condition(part)?;
    items(node, part)?;
    let YamlNode::List(list) = node else {
        return match created {
            Some(_) => Err(KustomizeError::wrong(format!(
                "`{part}` is an item of a list, which is null"
            ))),
            None => Ok(()),
        };
    };
    let fits = expression(pattern)?;
    let written = |it: &YamlNode| match it {
        YamlNode::Scalar(it) => it.written(),
        _ => String::new(),
    };
    for again in [false, true] {
        let before = found.places.len();
        for (at, item) in list.iter_mut().enumerate() {
            match field {
                "" if fits.is_match(&written(item)) => {
                    // Whatever follows in the path is not looked at, as upstream does.
                    inner(item, FieldStep::Item(at), &[], created, steps, found)?;
                }
                "" => {}
                field if item.get(field).is_some_and(|it| fits.is_match(&written(it))) => {
                    inner(item, FieldStep::Item(at), &parts[1..], created, steps, found)?;
                }
                _ => {}
            }
        }
        if found.places.len() > before || created.is_none() || found.inside_text {
            return Ok(());
        }
        if again {
            break;
        }
        let value = YamlNode::Scalar(Scalar::untagged(pattern, Style::Plain));
        list.push(match field {
            "" => value,
            field => YamlNode::Map(vec![(field.to_owned(), value)]),
        });
    }
    Err(KustomizeError::wrong(format!(
        "`{part}` fits no item, and the item that it would create does not fit it either; write a plain value"
    )))
}
