//! ConfigMaps and Secrets that are made of files, literals and files of variables.
//! Upstream: api/internal/generators, api/kv, and `AbsorbAll` of api/resmap.

use std::collections::BTreeMap;

use base64::Engine;

use crate::{
    build::Loader,
    error::{KustomizeError, Result},
    kustomization::GeneratorRule,
    node::YamlNode,
    resource::{BuildObject, ENABLED, GENERATOR_BEHAVIOR, NEEDS_HASH_SUFFIX, Resources},
    scalar::{Scalar, Tag},
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generated {
    ConfigMap,
    Secret,
}

/// Makes the object of a generator.
pub(crate) fn generate(kind: Generated, rule: &GeneratorRule, loader: &Loader) -> Result<BuildObject> {
    if rule.name.is_empty() {
        return Err(KustomizeError::wrong("it has no `name`"));
    }
    let pairs = pairs(rule, loader)?;
    let name = if kind == Generated::Secret {
        "Secret"
    } else {
        "ConfigMap"
    };
    let mut metadata = YamlNode::empty_map();
    metadata.put("name", YamlNode::string(rule.name.clone()));
    if !rule.namespace.is_empty() {
        metadata.put("namespace", YamlNode::string(rule.namespace.clone()));
    }
    let mut node = YamlNode::empty_map();
    node.put("apiVersion", YamlNode::string("v1"));
    node.put("kind", YamlNode::string(name));
    node.put("metadata", metadata);
    match kind {
        Generated::Secret => {
            let secret_type = if rule.secret_type.is_empty() {
                "Opaque"
            } else {
                &rule.secret_type
            };
            node.put("type", YamlNode::string(secret_type));
            node.put("data", YamlNode::empty_map());
            for (key, value) in &pairs {
                put_data(&mut node, "data", key, encoded(value))?;
            }
        }
        Generated::ConfigMap => {
            for (key, value) in pairs {
                match String::from_utf8(value) {
                    Ok(text) => put_data(&mut node, "data", &key, text)?,
                    Err(binary) => put_data(&mut node, "binaryData", &key, encoded(binary.as_bytes()))?,
                }
            }
        }
    }
    let mut resource = BuildObject { node };
    resource.set_labels(&rule.options.labels)?;
    let mut annotations = rule.options.annotations.clone();
    if !rule.options.disable_name_suffix_hash {
        annotations.insert(NEEDS_HASH_SUFFIX.to_owned(), ENABLED.to_owned());
    }
    let behavior = match rule.behavior.as_str() {
        it @ ("create" | "merge" | "replace") => it,
        _ => "unspecified",
    };
    annotations.insert(GENERATOR_BEHAVIOR.to_owned(), behavior.to_owned());
    resource.set_annotations(&annotations)?;
    if rule.options.immutable {
        resource
            .node
            .put("immutable", YamlNode::Scalar(Scalar::tagged("true", Tag::Bool)));
    }
    Ok(resource)
}

fn put_data(node: &mut YamlNode, field: &str, key: &str, value: String) -> Result<()> {
    if node.get(field).is_none() {
        node.put(field, YamlNode::empty_map());
    }
    match node.get_mut(field) {
        Some(data) => data.set_field(key, Scalar::string(value)),
        None => Ok(()),
    }
}

/// Base64 in lines of seventy characters, when it is longer than one.
fn encoded(content: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(content);
    if text.len() < 70 {
        return text;
    }
    let mut out = String::with_capacity(text.len() + text.len() / 70 + 1);
    for (at, it) in text.char_indices() {
        if at > 0 && at.is_multiple_of(70) {
            out.push('\n');
        }
        out.push(it);
    }
    out.push('\n');
    out
}

fn pairs(rule: &GeneratorRule, loader: &Loader) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut pairs = BTreeMap::new();
    let mut add = |key: String, value: Vec<u8>| match pairs.insert(key.clone(), value) {
        None => Ok(()),
        Some(_) => Err(KustomizeError::wrong(format!(
            "the key `{key}` is there twice; give each its own"
        ))),
    };
    for path in &rule.envs {
        for (key, value) in variables(loader.load(path)?).map_err(|it| it.in_file(path))? {
            add(key, value.into_bytes())?;
        }
    }
    for literal in &rule.literals {
        match literal.split_once('=') {
            Some((key, value)) if !key.is_empty() => add(key.to_owned(), unquoted(value).as_bytes().to_vec())?,
            _ => {
                return Err(KustomizeError::wrong(format!(
                    "the literal `{literal}` is not of the form key=value"
                )));
            }
        }
    }
    for source in &rule.files {
        let (key, path) = match source.split_once('=') {
            None => (base_name(source), source.as_str()),
            Some((key, path)) if !key.is_empty() && !path.is_empty() && !path.contains('=') => (key, path),
            Some(_) => {
                return Err(KustomizeError::wrong(format!(
                    "the file `{source}` is neither a path nor of the form key=path, and neither may have a `=`"
                )));
            }
        };
        add(key.to_owned(), loader.load(path)?.to_vec())?;
    }
    Ok(pairs)
}

fn base_name(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    trimmed.rsplit('/').next().unwrap_or(trimmed)
}

fn unquoted(text: &str) -> &str {
    let quoted = |quote: char| text.strip_prefix(quote).and_then(|it| it.strip_suffix(quote));
    quoted('"').or_else(|| quoted('\'')).unwrap_or(text)
}

/// The variables of a file, one a line.
fn variables(content: &[u8]) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for (at, line) in content.split(|it| *it == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = std::str::from_utf8(line)
            .map_err(|_| KustomizeError::wrong(format!("line {} is not UTF-8; list the file under `files`", at + 1)))?;
        let line = if at == 0 {
            line.strip_prefix('\u{feff}').unwrap_or(line)
        } else {
            line
        };
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        if !key.is_empty() {
            found.push((key.to_owned(), value.to_owned()));
        }
    }
    Ok(found)
}

/// Adds a generated object, or puts it into the place of the one that it replaces or is merged with.
pub(crate) fn absorb(resources: &mut Resources, mut resource: BuildObject) -> Result<()> {
    let id = resource.id();
    let behavior = resource
        .annotations()
        .get(GENERATOR_BEHAVIOR)
        .cloned()
        .unwrap_or_default();
    let changes = matches!(behavior.as_str(), "merge" | "replace");
    let found = resources.by_any_id(|it| it.same(&id))?;
    let at = match found.as_slice() {
        [] if changes => {
            return Err(KustomizeError::wrong(format!(
                "there is no {id} for the behavior {behavior}; list it under `resources`, or leave the behavior out"
            )));
        }
        [] => return resources.append(vec![resource]),
        [_] if !changes => {
            return Err(KustomizeError::wrong(format!(
                "{id} is there already; set the behavior merge or replace"
            )));
        }
        [at] => *at,
        _ => return Err(KustomizeError::wrong(format!("more than one object is or was {id}"))),
    };
    let old = &resources.list[at];
    resource.copy_metadata_of(old)?;
    if behavior == "merge" {
        for field in ["data", "binaryData"] {
            let mut data = old.node.get(field).map(value_texts).unwrap_or_default();
            data.extend(resource.node.get(field).map(value_texts).unwrap_or_default());
            resource.node.remove(field);
            if !data.is_empty() {
                resource.node.put(field, YamlNode::of_texts(&data)?);
            }
        }
    }
    let now = resource.id();
    if resources.list.iter().filter(|it| it.id().same(&now)).count() != 1 {
        return Err(KustomizeError::wrong(format!(
            "there is not exactly one {now} to change"
        )));
    }
    resources.list[at] = resource;
    Ok(())
}

fn value_texts(node: &YamlNode) -> BTreeMap<String, String> {
    match node {
        YamlNode::Map(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), value.value_text().to_owned()))
            .collect(),
        _ => BTreeMap::new(),
    }
}
