//! Reads a schema and refuses what is wrong in it, or what cannot be checked here, before any value is looked at.

use std::collections::{HashMap, HashSet};

use regex::Regex;
use serde_json::{Map, Value as Json};

use super::below;
use super::formats::NOT_CHECKED;
use crate::limits::with_stack;

/// How deep schemas may be nested, references followed.
const DEPTH_MAX: usize = 1_000;

pub(super) struct Schema {
    pub root: Json,
    /// 4, 6, 7, 2019 or 2020.
    pub draft: u16,
    pub patterns: HashMap<String, Regex>,
    /// Where the schemas with an anchor are, as JSON pointers.
    anchors: HashMap<String, String>,
}

/// Where a reference leads.
pub(super) enum ReferenceTarget<'a> {
    Schema(&'a Json),
    /// An `urn:` that nobody resolves. Helm takes it for a schema that allows everything.
    Anything,
}

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

impl Schema {
    pub fn read(text: &[u8]) -> Result<Schema, String> {
        let root: Json =
            serde_json::from_slice(text).map_err(|error| format!("values.schema.json is no JSON: {error}\n"))?;
        let draft = match root.get("$schema").and_then(Json::as_str) {
            None => 2020,
            Some(named) => draft_of(named).ok_or_else(|| {
                format!("values.schema.json is written for {named}, which is not known here; known are the drafts 4, 6, 7, 2019-09 and 2020-12\n")
            })?,
        };
        let mut schema = Schema {
            root: Json::Null,
            draft,
            patterns: HashMap::new(),
            anchors: HashMap::new(),
        };
        let mut reader = Reader {
            root: &root,
            draft,
            patterns: &mut schema.patterns,
            anchors: &mut schema.anchors,
            references: Vec::new(),
            seen: HashSet::new(),
        };
        reader
            .whole()
            .map_err(|message| format!("values.schema.json cannot be used: {message}\n"))?;
        schema.root = root;
        Ok(schema)
    }

    /// What a reference names; reading the schema has made sure that it names something.
    pub fn target(&self, reference: &str) -> Option<ReferenceTarget<'_>> {
        target(&self.root, &self.anchors, reference)
    }
}

fn draft_of(named: &str) -> Option<u16> {
    let named = named.trim_end_matches('#');
    let (_, path) = named.split_once("://")?;
    match path {
        "json-schema.org/draft-04/schema" => Some(4),
        "json-schema.org/draft-06/schema" => Some(6),
        "json-schema.org/draft-07/schema" => Some(7),
        "json-schema.org/draft/2019-09/schema" => Some(2019),
        "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => Some(2020),
        _ => None,
    }
}

fn target<'a>(root: &'a Json, anchors: &HashMap<String, String>, reference: &str) -> Option<ReferenceTarget<'a>> {
    if reference.starts_with("urn:") {
        return Some(ReferenceTarget::Anything);
    }
    let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let own = ["$id", "id"].map(|it| root.get(it).and_then(Json::as_str).unwrap_or_default());
    let is_here = document.is_empty()
        || document == "values.schema.json"
        || own.iter().any(|it| it.trim_end_matches('#') == document);
    if !is_here {
        return None;
    }
    let fragment = percent_decoded(fragment)?;
    let pointer = match fragment.starts_with('/') || fragment.is_empty() {
        true => &fragment,
        false => anchors.get(&fragment)?,
    };
    root.pointer(pointer).map(ReferenceTarget::Schema)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(it) = bytes.next() {
        if it == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            out.push(it);
        }
    }
    String::from_utf8(out).ok()
}

struct Reader<'a> {
    root: &'a Json,
    draft: u16,
    patterns: &'a mut HashMap<String, Regex>,
    anchors: &'a mut HashMap<String, String>,
    /// Where it stands, and what it says.
    references: Vec<(String, &'a str)>,
    seen: HashSet<*const Json>,
}

impl<'a> Reader<'a> {
    fn whole(&mut self) -> Result<(), String> {
        self.schema(self.root, "", 0)?;
        // A reference may lead to a place where no keyword puts a schema, and there may be references there again.
        while let Some((at, reference)) = self.references.pop() {
            match target(self.root, self.anchors, reference) {
                Some(ReferenceTarget::Schema(schema)) => self.schema(schema, &at, 0)?,
                Some(ReferenceTarget::Anything) => {}
                None if reference.starts_with('#') => {
                    return Err(format!("{at} refers to {reference}, which is not there"));
                }
                None => {
                    return Err(format!(
                        "{at} refers to {reference}, and nothing is read from other documents; copy it below $defs"
                    ));
                }
            }
        }
        Ok(())
    }

    fn schema(&mut self, schema: &'a Json, at: &str, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("{at} is nested too deeply"));
        }
        if !self.seen.insert(schema) {
            return Ok(());
        }
        let fields = match schema {
            Json::Bool(_) => return Ok(()),
            Json::Object(fields) => fields,
            _ => return Err(format!("{} is neither an object nor true or false", place(at))),
        };
        self.names(fields, at)?;
        if let Some(reference) = fields.get("$ref") {
            let Some(reference) = reference.as_str() else {
                return Err(format!("{} is no text", below(at, "$ref")));
            };
            self.references.push((below(at, "$ref"), reference));
            if self.draft < 2019 {
                return Ok(());
            }
        }
        for (keyword, value) in fields {
            self.keyword(keyword, value, &below(at, keyword), depth)?;
        }
        Ok(())
    }

    fn names(&mut self, fields: &'a Map<String, Json>, at: &str) -> Result<(), String> {
        let text = |keyword: &str| fields.get(keyword).and_then(Json::as_str);
        let id = text(if self.draft == 4 { "id" } else { "$id" }).unwrap_or_default();
        let anchor = match id.split_once('#') {
            Some(("", anchor)) => Some(anchor).filter(|it| self.draft < 2019 && !it.is_empty()),
            None if id.is_empty() => None,
            _ if at.is_empty() => None,
            _ => {
                return Err(format!(
                    "{} has an address of its own ({id}), which is not followed here",
                    place(at)
                ));
            }
        };
        let anchors = [anchor, text("$anchor"), text("$dynamicAnchor")];
        for anchor in anchors.into_iter().flatten() {
            self.anchors.insert(anchor.to_owned(), at.to_owned());
        }
        Ok(())
    }

    fn keyword(&mut self, keyword: &str, value: &'a Json, at: &str, depth: usize) -> Result<(), String> {
        let wrong = |wanted: &str| Err(format!("{at} is no {wanted}"));
        let recent = self.draft >= 2019;
        match keyword {
            "$recursiveRef" | "$dynamicRef" | "unevaluatedItems" | "unevaluatedProperties" if recent => {
                return Err(format!(
                    "{at} asks for a check that is not made here; leave {keyword} out"
                ));
            }
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                let Json::Object(schemas) = value else {
                    return wrong("object");
                };
                for (name, schema) in schemas {
                    if keyword == "patternProperties" {
                        self.pattern(name, at)?;
                    }
                    self.inner(schema, &below(at, name), depth)?;
                }
            }
            "dependencies" => {
                let Json::Object(entries) = value else {
                    return wrong("object");
                };
                for (name, entry) in entries {
                    match entry {
                        Json::Array(names) if names.iter().all(Json::is_string) => {}
                        schema => self.inner(schema, &below(at, name), depth)?,
                    }
                }
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                let Json::Array(schemas) = value else {
                    return wrong("list");
                };
                self.list(schemas, at, depth)?;
            }
            "items" if value.is_array() && self.draft < 2020 => {
                self.list(value.as_array().map_or(&[], Vec::as_slice), at, depth)?;
            }
            "not"
            | "if"
            | "then"
            | "else"
            | "items"
            | "additionalItems"
            | "additionalProperties"
            | "contains"
            | "propertyNames" => self.inner(value, at, depth)?,
            "type" => {
                let known = |it: &Json| it.as_str().is_some_and(|it| TYPES.contains(&it));
                let fits = match value {
                    Json::Array(types) => !types.is_empty() && types.iter().all(known),
                    one => known(one),
                };
                if !fits {
                    return wrong("type");
                }
            }
            "required" => match value {
                Json::Array(names) if names.iter().all(Json::is_string) => {}
                _ => return wrong("list of texts"),
            },
            "dependentRequired" if recent => {
                let list = |it: &Json| it.as_array().is_some_and(|it| it.iter().all(Json::is_string));
                if !value.as_object().is_some_and(|it| it.values().all(list)) {
                    return wrong("object of lists of texts");
                }
            }
            "enum" if !value.is_array() => return wrong("list"),
            "pattern" => match value.as_str() {
                Some(pattern) => self.pattern(pattern, at)?,
                None => return wrong("text"),
            },
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minContains"
            | "maxContains" => {
                let whole = value.as_f64().is_some_and(|it| it >= 0.0 && it.fract() == 0.0);
                if !whole {
                    return wrong("whole number of zero or more");
                }
            }
            "minimum" | "maximum" if !value.is_number() => return wrong("number"),
            "exclusiveMinimum" | "exclusiveMaximum" => {
                let fits = if self.draft == 4 {
                    value.is_boolean()
                } else {
                    value.is_number()
                };
                if !fits {
                    return wrong(if self.draft == 4 { "truth" } else { "number" });
                }
            }
            "multipleOf" if !value.as_f64().is_some_and(|it| it > 0.0) => return wrong("number above zero"),
            "uniqueItems" if !value.is_boolean() => return wrong("truth"),
            "format" => match value.as_str() {
                Some(format) if self.draft < 2019 && NOT_CHECKED.contains(&format) => {
                    return Err(format!(
                        "{at} asks for {format}, which is not checked here; leave it out"
                    ));
                }
                Some(_) => {}
                None => return wrong("text"),
            },
            _ => {}
        }
        Ok(())
    }

    fn inner(&mut self, schema: &'a Json, at: &str, depth: usize) -> Result<(), String> {
        with_stack(|| self.schema(schema, at, depth + 1))
    }

    fn list(&mut self, schemas: &'a [Json], at: &str, depth: usize) -> Result<(), String> {
        if schemas.is_empty() {
            return Err(format!("{at} is empty"));
        }
        for (number, schema) in schemas.iter().enumerate() {
            self.inner(schema, &below(at, &number.to_string()), depth)?;
        }
        Ok(())
    }

    fn pattern(&mut self, pattern: &str, at: &str) -> Result<(), String> {
        if !self.patterns.contains_key(pattern) {
            let compiled = crate::sprig::go_regex(pattern).map_err(|message| format!("{at}: {message}"))?;
            self.patterns.insert(pattern.to_owned(), compiled);
        }
        Ok(())
    }
}

fn place(at: &str) -> &str {
    if at.is_empty() { "the schema" } else { at }
}
