//! Reading Kubernetes manifests: YAML and JSON, several documents in a file, directories, lists, standard input.
//! Errors name the file, the document and the field, because that is where the user has to go.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

#[cfg(test)]
mod tests;

/// Reads every manifest that `paths` name, in the order given; `-` is standard input.
pub fn read(paths: &[PathBuf], recursive: bool) -> Result<Vec<Value>> {
    let mut manifests = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("could not read standard input")?;
            manifests.extend(parse("standard input", &text, Syntax::Yaml)?);
            continue;
        }
        for file in files(path, recursive)? {
            let name = file.display().to_string();
            let text = std::fs::read_to_string(&file).with_context(|| format!("could not read {name}"))?;
            manifests.extend(parse(&name, &text, Syntax::of(&file))?);
        }
    }
    Ok(manifests)
}

/// The files that one argument means: itself, or the manifest files of a directory in the order of their names.
fn files(path: &Path, recursive: bool) -> Result<Vec<PathBuf>> {
    let name = path.display();
    let about = std::fs::metadata(path).with_context(|| format!("could not read {name}"))?;
    if !about.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    collect(path, recursive, &mut found)?;
    if found.is_empty() {
        bail!("the directory {name} has no file ending in .yaml, .yml or .json");
    }
    Ok(found)
}

fn collect(directory: &Path, recursive: bool, found: &mut Vec<PathBuf>) -> Result<()> {
    let unreadable = || format!("could not read the directory {}", directory.display());
    let mut entries = std::fs::read_dir(directory)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(unreadable)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            if recursive {
                collect(&path, recursive, found)?;
            }
        } else if path
            .extension()
            .is_some_and(|it| it == "yaml" || it == "yml" || it == "json")
        {
            found.push(path);
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Yaml,
    Json,
}

impl Syntax {
    fn of(path: &Path) -> Self {
        if path.extension().is_some_and(|it| it == "json") {
            Self::Json
        } else {
            Self::Yaml
        }
    }
}

/// The manifests in one text; `source` names it in errors.
fn parse(source: &str, text: &str, syntax: Syntax) -> Result<Vec<Value>> {
    let documents = match syntax {
        Syntax::Yaml => yaml(source, text)?,
        Syntax::Json => json(source, text)?,
    };
    let mut manifests = Vec::new();
    let several = documents.len() > 1;
    for (index, document) in documents.into_iter().enumerate() {
        // An empty document, as left by a trailing `---`, is no manifest and no mistake.
        if document.is_null() {
            continue;
        }
        let place = if several {
            format!("{source}, document {}", index + 1)
        } else {
            source.to_owned()
        };
        unfold(&place, document, &mut manifests)?;
    }
    if manifests.is_empty() {
        bail!("{source} contains no manifest");
    }
    Ok(manifests)
}

fn yaml(source: &str, text: &str) -> Result<Vec<Value>> {
    // The booleans and octal numbers of kubectl (YAML 1.1 as its Go library reads it), said explicitly because the
    // parser's defaults have changed between versions. A duplicate key is refused where kubectl keeps the last one:
    // in a manifest it is a mistake each time.
    let options = serde_saphyr::options! {
        strict_booleans: false,
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::Reject,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let place = error
            .location()
            .map(|at| format!(", line {}, column {}", at.line(), at.column()));
        let told = error.without_snippet().to_string();
        // The place is said once, by us.
        let told = told.split(" at line ").next().unwrap_or(&told).trim().to_owned();
        anyhow::anyhow!("{source}{}: {told}", place.unwrap_or_default())
    })
}

fn json(source: &str, text: &str) -> Result<Vec<Value>> {
    serde_json::Deserializer::from_str(text)
        .into_iter::<Value>()
        .collect::<Result<_, _>>()
        .map_err(|error| {
            let told = error.to_string();
            let told = told.split(" at line ").next().unwrap_or(&told);
            anyhow::anyhow!("{source}, line {}, column {}: {told}", error.line(), error.column())
        })
}

/// Checks one document and takes lists apart.
fn unfold(place: &str, document: Value, manifests: &mut Vec<Value>) -> Result<()> {
    let Value::Object(object) = document else {
        bail!(
            "{place} is {}, not an object: a manifest starts with apiVersion and kind",
            name_of(&document)
        );
    };
    let kind = required(place, &object, "kind")?;
    if let Some(item_kind) = kind.strip_suffix("List")
        && let Some(items) = object.get("items")
    {
        let Value::Array(items) = items.clone() else {
            bail!("{place}: items is {}, not a list", name_of(items));
        };
        let list_version = required(place, &object, "apiVersion")?;
        for (index, item) in items.into_iter().enumerate() {
            let place = format!("{place}, items[{index}]");
            unfold(&place, with_type(item, item_kind, &list_version), manifests)?;
        }
        return Ok(());
    }
    required(place, &object, "apiVersion")?;
    let Some(metadata) = object.get("metadata") else {
        bail!("{place} ({kind}): metadata is missing; it needs at least a name");
    };
    let Value::Object(metadata) = metadata else {
        bail!("{place} ({kind}): metadata is {}, not an object", name_of(metadata));
    };
    match metadata.get("name") {
        Some(Value::String(name)) if !name.is_empty() => {}
        Some(Value::String(_)) | None => bail!("{place} ({kind}): metadata.name is missing"),
        Some(other) => bail!(
            "{place} ({kind}): metadata.name is {}, not a text; put it in quotes",
            name_of(other)
        ),
    }
    manifests.push(Value::Object(object));
    Ok(())
}

/// The items of a typed list (`ConfigMapList`) may leave out what the list already says.
fn with_type(mut item: Value, item_kind: &str, list_version: &str) -> Value {
    if let (Some(object), false) = (item.as_object_mut(), item_kind.is_empty()) {
        object.entry("kind").or_insert_with(|| item_kind.into());
        object.entry("apiVersion").or_insert_with(|| list_version.into());
    }
    item
}

fn required(place: &str, object: &Map<String, Value>, field: &str) -> Result<String> {
    match object.get(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(Value::String(_)) | None => bail!("{place}: {field} is missing"),
        Some(other) => bail!("{place}: {field} is {}, not a text; put it in quotes", name_of(other)),
    }
}

/// What a value is, in a user's words.
fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
