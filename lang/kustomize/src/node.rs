//! A document of YAML as kustomize holds it: ordered maps, lists, and scalars that remember how they were written.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value as Json;

use crate::{
    error::{KustomizeError, Result},
    limits,
    scalar::{Looks, Scalar, Shared, Style, Tag, float, float_text},
    yaml_read::{EqualKeys, first_document},
};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum YamlNode {
    Scalar(Scalar),
    List(Vec<YamlNode>),
    Map(Vec<(String, YamlNode)>),
}

impl YamlNode {
    pub(crate) fn string(text: impl Into<String>) -> YamlNode {
        YamlNode::Scalar(Scalar::string(text))
    }

    pub(crate) fn empty_map() -> YamlNode {
        YamlNode::Map(Vec::new())
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, YamlNode::Scalar(it) if it.is_null())
    }

    /// Null, or a map or list with nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            YamlNode::Scalar(it) => it.is_null(),
            YamlNode::List(items) => items.is_empty(),
            YamlNode::Map(fields) => fields.is_empty(),
        }
    }

    /// The text of a scalar; nothing for maps and lists.
    pub(crate) fn text(&self) -> &str {
        match self {
            YamlNode::Scalar(it) => &it.text,
            _ => "",
        }
    }

    /// As [`YamlNode::text`], and nothing for null.
    pub(crate) fn value_text(&self) -> &str {
        if self.is_null() { "" } else { self.text() }
    }

    /// What it is, for messages.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            YamlNode::Scalar(_) => "a single value",
            YamlNode::List(_) => "a list",
            YamlNode::Map(_) => "a map",
        }
    }

    pub(crate) fn get(&self, field: &str) -> Option<&YamlNode> {
        match self {
            YamlNode::Map(fields) => fields.iter().find(|it| it.0 == field).map(|it| &it.1),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, field: &str) -> Option<&mut YamlNode> {
        match self {
            YamlNode::Map(fields) => fields.iter_mut().find(|it| it.0 == field).map(|it| &mut it.1),
            _ => None,
        }
    }

    /// Sets a field of a map, as it is. Of anything else nothing is set.
    pub(crate) fn put(&mut self, field: &str, value: YamlNode) {
        match self.get_mut(field) {
            Some(old) => *old = value,
            None => {
                if let YamlNode::Map(fields) = self {
                    fields.push((field.to_owned(), value));
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, field: &str) -> Option<YamlNode> {
        match self {
            YamlNode::Map(fields) => {
                let at = fields.iter().position(|it| it.0 == field)?;
                Some(fields.remove(at).1)
            }
            _ => None,
        }
    }

    /// Sets a scalar where a scalar is: it is written as the one before it was.
    pub(crate) fn overwrite(&mut self, scalar: Scalar) -> Result<()> {
        match self {
            YamlNode::Scalar(old) => {
                old.become_value_of(scalar);
                Ok(())
            }
            other => Err(KustomizeError::wrong(format!(
                "a single value is expected, and there is {}",
                other.what()
            ))),
        }
    }

    /// Sets a scalar field of a map.
    pub(crate) fn set_field(&mut self, field: &str, mut scalar: Scalar) -> Result<()> {
        if self.is_null() {
            return Ok(());
        }
        let YamlNode::Map(fields) = self else {
            return Err(KustomizeError::wrong(format!(
                "a map with the field `{field}` is expected, and there is {}",
                self.what()
            )));
        };
        match fields.iter_mut().find(|it| it.0 == field) {
            Some((_, YamlNode::Scalar(old))) => old.become_value_of(scalar),
            Some((_, old)) => {
                scalar.style = Style::Plain;
                *old = YamlNode::Scalar(scalar);
            }
            None => {
                check_new_key(field)?;
                quote_if_needed(&mut scalar);
                fields.push((field.to_owned(), YamlNode::Scalar(scalar)));
            }
        }
        Ok(())
    }

    /// The texts of a map's fields.
    pub(crate) fn texts(&self) -> BTreeMap<String, String> {
        match self {
            YamlNode::Map(fields) => fields
                .iter()
                .map(|(key, value)| (key.clone(), value.text().to_owned()))
                .collect(),
            _ => BTreeMap::new(),
        }
    }

    /// A map of strings.
    pub(crate) fn of_texts(texts: &BTreeMap<String, String>) -> Result<YamlNode> {
        let mut node = YamlNode::empty_map();
        for (key, value) in texts {
            node.set_field(key, Scalar::string(value.clone()))?;
        }
        Ok(node)
    }

    /// All scalars of it.
    fn visit_scalars(&mut self, visit: &mut dyn FnMut(&mut Scalar)) {
        match self {
            YamlNode::Scalar(it) => visit(it),
            YamlNode::List(items) => items.iter_mut().for_each(|it| it.visit_scalars(visit)),
            YamlNode::Map(fields) => fields.iter_mut().for_each(|it| it.1.visit_scalars(visit)),
        }
    }

    /// A copy that shares no value.
    pub(crate) fn unshared(&self) -> YamlNode {
        let mut copy = self.clone();
        copy.visit_scalars(&mut |it| it.shared = None);
        copy
    }

    /// Gives values that are one with `scalar` its style.
    pub(crate) fn style_shared(&mut self, scalar: &Scalar) {
        self.visit_scalars(&mut |it| {
            if it.shared.map(Shared::id) == scalar.shared.map(Shared::id) {
                it.style = scalar.style;
            }
        });
    }

    /// Gives values that are one the text that was written last.
    pub(crate) fn settle_shared(&mut self) {
        let mut last: HashMap<u64, Scalar> = HashMap::new();
        self.visit_scalars(&mut |it| {
            if let Some(shared) = it.shared {
                let newest = last.entry(shared.id()).or_insert_with(|| it.clone());
                if newest.shared.is_some_and(|newest| newest.written() < shared.written()) {
                    *newest = it.clone();
                }
            }
        });
        if !last.is_empty() {
            self.visit_scalars(&mut |it| {
                if let Some(newest) = it.shared.and_then(|shared| last.get(&shared.id())) {
                    *it = newest.clone();
                }
            });
        }
    }

    pub(crate) fn to_json(&self) -> Result<Json> {
        Ok(match self {
            YamlNode::Scalar(it) => it.to_json()?,
            YamlNode::List(items) => Json::Array(items.iter().map(YamlNode::to_json).collect::<Result<_>>()?),
            YamlNode::Map(fields) => Json::Object(
                fields
                    .iter()
                    .map(|(key, value)| match value.to_json() {
                        Ok(value) => Ok((key.clone(), value)),
                        Err(error) => Err(KustomizeError {
                            message: format!("in `{key}`: {}", error.message),
                            ..error
                        }),
                    })
                    .collect::<Result<_>>()?,
            ),
        })
    }

    /// The document that a changed JSON is written as: all numbers have become floats on the way.
    pub(crate) fn of_json(json: &Json) -> YamlNode {
        match json {
            Json::Null => scalar("null", Tag::Null),
            Json::Bool(it) => scalar(if *it { "true" } else { "false" }, Tag::Bool),
            Json::Number(number) => {
                let text = float_text(number.as_f64().unwrap_or_default());
                let tag = Looks::of(&text).tag();
                scalar(&text, tag)
            }
            Json::String(text) => YamlNode::string(text.clone()),
            Json::Array(items) => YamlNode::List(items.iter().map(YamlNode::of_json).collect()),
            Json::Object(fields) => YamlNode::Map(
                fields
                    .iter()
                    .map(|(key, value)| (key.clone(), YamlNode::of_json(value)))
                    .collect(),
            ),
        }
    }

    /// An error when it is larger or deeper than what is built.
    pub(crate) fn check_size(&self) -> Result<()> {
        fn count(node: &YamlNode, depth: usize, values: &mut usize) -> Result<()> {
            *values += 1;
            if depth > limits::DEPTH_MAX {
                return Err(KustomizeError::too_large(format!(
                    "an object is nested deeper than {}",
                    limits::DEPTH_MAX
                )));
            }
            if *values > limits::VALUES_MAX {
                return Err(KustomizeError::too_large(format!(
                    "an object has more than {} values",
                    limits::VALUES_MAX
                )));
            }
            match node {
                YamlNode::Scalar(_) => Ok(()),
                YamlNode::List(items) => items.iter().try_for_each(|it| count(it, depth + 1, values)),
                YamlNode::Map(fields) => fields.iter().try_for_each(|it| count(&it.1, depth + 1, values)),
            }
        }
        count(self, 1, &mut 0)
    }
}

fn scalar(text: &str, tag: Tag) -> YamlNode {
    YamlNode::Scalar(Scalar::tagged(text, tag))
}

/// Quotes a string that would be read as something else without, as upstream does with whatever it sets.
pub(crate) fn quote_if_needed(scalar: &mut Scalar) {
    let text = &scalar.text;
    if scalar.style != Style::Plain
        || !matches!(scalar.tag, Tag::Str | Tag::Unset)
        || text.is_empty()
        || text.contains('\n')
    {
        return;
    }
    let is_suspicious = text.contains(": ")
        || text.contains(" #")
        || text.ends_with(':')
        || text.starts_with(|it: char| !it.is_alphanumeric() && it != '/' && it != '_' && it != '.');
    let is_other = match Looks::of_version_1_1(text).tag() {
        Tag::Str if !is_suspicious => false,
        Tag::Str => match first_document(text, EqualKeys::LastWins) {
            Ok(Some(YamlNode::Scalar(it))) => {
                it.style == Style::Plain && Looks::of_version_1_1(&it.text).tag() != Tag::Str
            }
            Ok(_) => true,
            Err(_) => false,
        },
        _ => true,
    };
    if is_other {
        scalar.style = Style::DoubleQuoted;
        scalar.touch();
    }
}

/// An error when a key that is added would be read as something else than a string: kustomize writes it without quotes,
/// and cannot read that again.
pub(crate) fn check_new_key(key: &str) -> Result<()> {
    match Looks::of(key).tag() {
        Tag::Str => Ok(()),
        _ => Err(KustomizeError::wrong(format!(
            "the key `{key}` looks like a number, a truth, a date or nothing, which kustomize cannot write; \
             choose another"
        ))),
    }
}

/// A JSON value with its numbers as they are after YAML was read into Go's floats.
pub(crate) fn with_floats(json: Json) -> Json {
    match json {
        Json::Number(number) => number.as_f64().and_then(float).unwrap_or(Json::Number(number)),
        Json::Array(items) => Json::Array(items.into_iter().map(with_floats).collect()),
        Json::Object(fields) => Json::Object(
            fields
                .into_iter()
                .map(|(key, value)| (key, with_floats(value)))
                .collect(),
        ),
        other => other,
    }
}
