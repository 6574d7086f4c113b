//! Reads YAML: the files of resources and patches as go-yaml 3 does, kustomization files as go-yaml 2 does.

use std::collections::HashMap;

use serde_json::Value as Json;
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, ScanError, StructureStyle, Tag as YamlTag};

use crate::{
    error::{KustomizeError, Result},
    limits,
    node::YamlNode,
    scalar::{Looks, Scalar, Style, Tag},
};

/// What two equal keys of a map mean.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EqualKeys {
    Refused,
    LastWins,
}

/// The documents of a file with resources or patches. Empty ones are left out.
pub(crate) fn documents(content: &[u8]) -> Result<Vec<YamlNode>> {
    let text = text(content)?.replace("\r\n", "\n");
    let mut found = Vec::new();
    let pieces = pieces(&text)?;
    let alone = pieces.len() == 1;
    for piece in pieces {
        let Some(document) = first_document(piece, EqualKeys::Refused)? else {
            continue;
        };
        let kind = document.get("kind").map_or("", YamlNode::value_text);
        let is_list = matches!(kind, "List" | "ResourceList");
        match document.get("items") {
            Some(YamlNode::List(items)) if alone && is_list => found.extend(items.iter().cloned()),
            Some(other) if alone && is_list && !other.is_null() => {
                return Err(KustomizeError::wrong(format!(
                    "`items` of a {kind} is a list, and there is {}",
                    other.what()
                )));
            }
            Some(_) if alone && is_list => {}
            _ => found.push(document),
        }
    }
    Ok(found)
}

/// The first document of a kustomization file or of a JSON patch, as JSON.
pub(crate) fn as_json(content: &[u8]) -> Result<Json> {
    match first_document(text(content)?, EqualKeys::LastWins)? {
        Some(document) => json_1_1(&document),
        None => Ok(Json::Null),
    }
}

fn text(content: &[u8]) -> Result<&str> {
    std::str::from_utf8(content)
        .map(|it| it.strip_prefix('\u{feff}').unwrap_or(it))
        .map_err(|_| KustomizeError::wrong("the file is not UTF-8; save it as such"))
}

/// A file at the lines that begin with three dashes.
fn pieces(text: &str) -> Result<Vec<&str>> {
    let mut pieces = Vec::new();
    let mut begun = 0;
    let mut from = 0;
    while let Some(at) = text[from..].find("\n---") {
        let at = from + at;
        let Some(length) = text[at + 1..].find('\n') else {
            break;
        };
        let end = at + 1 + length + 1;
        let rest = text[at + 4..end].trim();
        if !rest.is_empty() && !rest.starts_with('#') {
            return Err(KustomizeError::wrong(format!(
                "`{}` does not separate documents; write `---` alone on its line",
                text[at + 1..end].trim()
            )));
        }
        // The line break in front belongs to the document.
        pieces.push(&text[begun..=at]);
        begun = end;
        from = end;
    }
    pieces.push(&text[begun..]);
    Ok(pieces)
}

enum Frame {
    List(Vec<YamlNode>),
    Map {
        fields: Vec<(String, YamlNode)>,
        key: Option<Key>,
        merged: Vec<YamlNode>,
    },
}

enum Key {
    Field(String),
    Merge,
}

/// The first document, with its aliases and merged maps in place.
pub(crate) fn first_document(text: &str, equal_keys: EqualKeys) -> Result<Option<YamlNode>> {
    let mut parser = Parser::new_from_str(text);
    let mut stack: Vec<(Frame, usize)> = Vec::new();
    let mut anchors: HashMap<usize, (YamlNode, usize)> = HashMap::new();
    let mut values = 0usize;
    // How many of the collections around are written with braces or brackets: inside of one, all are.
    let mut flow = 0usize;
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| malformed(&error))?;
        let line = span.start.line();
        let (node, anchor) = match event {
            Event::DocumentEnd | Event::StreamEnd => break,
            Event::Scalar(text, style, anchor, tag) => {
                values += 1;
                // Where nothing is written, the parser says `~`.
                let nothing = style == ScalarStyle::Plain && span.start.index() == span.end.index();
                let mut node = scalar(if nothing { "" } else { &text }, style, tag.as_deref(), line)?;
                if let (true, true, YamlNode::Scalar(it)) = (nothing && tag.is_none(), flow > 0, &mut node) {
                    it.style = Style::EmptyInFlow;
                }
                if let (YamlNode::Scalar(it), Some((Frame::Map { key: key @ None, .. }, _))) = (&node, stack.last_mut())
                {
                    if anchor > 0 {
                        anchors.insert(anchor, (node.clone(), 1));
                    }
                    *key = Some(named(it, equal_keys, line)?);
                    continue;
                }
                (node, anchor)
            }
            Event::Alias(id) => {
                let Some((node, size)) = anchors.get(&id) else {
                    return Err(at_line(line, "an alias stands inside of what it repeats"));
                };
                values += size;
                let node = node.clone();
                if let (YamlNode::Scalar(it), Some((Frame::Map { key: key @ None, .. }, _))) = (&node, stack.last_mut())
                {
                    *key = Some(named(it, equal_keys, line)?);
                    continue;
                }
                (node, 0)
            }
            Event::SequenceStart(_, anchor, _) | Event::MappingStart(_, anchor, _)
                if matches!(stack.last(), Some((Frame::Map { key: None, .. }, _))) =>
            {
                let _ = anchor;
                return Err(at_line(
                    line,
                    "a key of a map is a list or a map itself, which JSON does not know",
                ));
            }
            Event::SequenceStart(style, anchor, _) => {
                flow += usize::from(flow > 0 || style == StructureStyle::Flow);
                deeper(&stack, line)?;
                values += 1;
                stack.push((Frame::List(Vec::new()), anchor));
                continue;
            }
            Event::MappingStart(style, anchor, _) => {
                flow += usize::from(flow > 0 || style == StructureStyle::Flow);
                deeper(&stack, line)?;
                values += 1;
                stack.push((
                    Frame::Map {
                        fields: Vec::new(),
                        key: None,
                        merged: Vec::new(),
                    },
                    anchor,
                ));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                flow = flow.saturating_sub(1);
                match stack.pop() {
                    Some((Frame::List(items), anchor)) => (YamlNode::List(items), anchor),
                    Some((Frame::Map { fields, merged, .. }, anchor)) => {
                        (YamlNode::Map(with_merged(fields, merged)), anchor)
                    }
                    None => continue,
                }
            }
            _ => continue,
        };
        if values > limits::VALUES_MAX {
            return Err(KustomizeError::too_large(format!(
                "a document has more than {} values, aliases included",
                limits::VALUES_MAX
            )));
        }
        if anchor > 0 {
            let size = size(&node);
            anchors.insert(anchor, (node.clone(), size));
        }
        match stack.last_mut() {
            None => return Ok((!node.is_null()).then_some(node)),
            Some((Frame::List(items), _)) => items.push(node),
            Some((Frame::Map { fields, key, merged }, _)) => match key.take() {
                None => {}
                Some(Key::Merge) => match node {
                    YamlNode::List(items) if items.iter().all(|it| matches!(it, YamlNode::Map(_))) => {
                        merged.extend(items)
                    }
                    node @ YamlNode::Map(_) => merged.push(node),
                    _ => return Err(at_line(line, "`<<` takes a map, or a list of maps")),
                },
                Some(Key::Field(name)) => match fields.iter_mut().find(|it| it.0 == name) {
                    None => fields.push((name, node)),
                    Some(old) if equal_keys == EqualKeys::LastWins => old.1 = node,
                    Some(_) => return Err(at_line(line, &format!("the key `{name}` is there twice"))),
                },
            },
        }
    }
    Ok(None)
}

fn size(node: &YamlNode) -> usize {
    match node {
        YamlNode::Scalar(_) => 1,
        YamlNode::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        YamlNode::Map(fields) => 1 + fields.iter().map(|it| size(&it.1)).sum::<usize>(),
    }
}

// A map's own fields win over merged ones, and of those the first.
fn with_merged(mut fields: Vec<(String, YamlNode)>, merged: Vec<YamlNode>) -> Vec<(String, YamlNode)> {
    for node in merged {
        let YamlNode::Map(more) = node else { continue };
        for (key, value) in more {
            if !fields.iter().any(|it| it.0 == key) {
                fields.push((key, value));
            }
        }
    }
    fields
}

fn deeper(stack: &[(Frame, usize)], line: usize) -> Result<()> {
    if stack.len() >= limits::DEPTH_MAX {
        return Err(KustomizeError::too_large(format!(
            "line {line}: nested deeper than {}",
            limits::DEPTH_MAX
        )));
    }
    Ok(())
}

fn malformed(error: &ScanError) -> KustomizeError {
    KustomizeError::wrong(format!("it is no YAML: {error}"))
}

fn at_line(line: usize, what: &str) -> KustomizeError {
    KustomizeError::wrong(format!("line {line}: {what}"))
}

fn named(scalar: &Scalar, equal_keys: EqualKeys, line: usize) -> Result<Key> {
    let plain = scalar.style == Style::Plain;
    if plain && scalar.text == "<<" {
        return Ok(Key::Merge);
    }
    match equal_keys {
        EqualKeys::Refused if scalar.tag == Tag::Str => Ok(Key::Field(scalar.text.clone())),
        EqualKeys::Refused => Err(at_line(
            line,
            &format!("the key `{}` is no string; quote it", scalar.text),
        )),
        EqualKeys::LastWins if plain => match Looks::of_version_1_1(&scalar.text).to_json(&scalar.text)? {
            Json::String(text) => Ok(Key::Field(text)),
            other => Ok(Key::Field(other.to_string())),
        },
        EqualKeys::LastWins => Ok(Key::Field(scalar.text.clone())),
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&YamlTag>, line: usize) -> Result<YamlNode> {
    let style = match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::SingleQuoted => Style::SingleQuoted,
        ScalarStyle::DoubleQuoted => Style::DoubleQuoted,
        _ => Style::Block,
    };
    let known = tag.and_then(YamlTag::core_suffix);
    let (tag, style) = match known {
        // A tag that is written counts whatever the quotes.
        Some("str") => (
            Tag::Str,
            if style == Style::Plain {
                Style::DoubleQuoted
            } else {
                style
            },
        ),
        Some("int") => (Tag::Int, Style::Plain),
        Some("float") => (Tag::Float, Style::Plain),
        Some("bool") => (Tag::Bool, Style::Plain),
        Some("null") => (Tag::Null, Style::Plain),
        Some("timestamp") => (Tag::Timestamp, Style::Plain),
        Some("binary") => {
            return Err(KustomizeError::refused(format!(
                "line {line}: values with the tag !!binary are not read; write the text itself"
            )));
        }
        _ if style != Style::Plain || tag.is_some() => (Tag::Str, style),
        _ => (Looks::of(text).tag(), style),
    };
    Ok(YamlNode::Scalar(Scalar {
        style,
        ..Scalar::tagged(text, tag)
    }))
}

fn json_1_1(node: &YamlNode) -> Result<Json> {
    Ok(match node {
        YamlNode::Scalar(it) if it.style == Style::Plain => Looks::of_version_1_1(&it.text).to_json(&it.text)?,
        YamlNode::Scalar(it) if it.style == Style::EmptyInFlow => Json::Null,
        YamlNode::Scalar(it) => Json::String(it.text.clone()),
        YamlNode::List(items) => Json::Array(items.iter().map(json_1_1).collect::<Result<_>>()?),
        YamlNode::Map(fields) => Json::Object(
            fields
                .iter()
                .map(|(key, value)| Ok((key.clone(), json_1_1(value)?)))
                .collect::<Result<_>>()?,
        ),
    })
}
