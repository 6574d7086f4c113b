//! JSON patches, RFC 6902, with the leniences of the library that kustomize uses: `replace` adds to a map what is not
//! there yet, and indices may count from the end.
//! Upstream: evanphx/json-patch 4.

use serde_json::{Map, Value as Json};

use crate::{
    error::{KustomizeError, Result},
    limits, yaml_read,
};

/// A patch as it was read: its operations.
#[derive(Clone, Debug)]
pub(crate) struct JsonPatch(Vec<Map<String, Json>>);

impl JsonPatch {
    /// Reads a patch of JSON or YAML.
    pub(crate) fn parse(text: &str) -> Result<JsonPatch> {
        if text.is_empty() {
            return Err(KustomizeError::wrong("the patch is empty"));
        }
        let json = if text.starts_with('[') {
            serde_json::from_str(text).map_err(|error| KustomizeError::wrong(format!("it is no JSON: {error}")))?
        } else {
            yaml_read::as_json(text.as_bytes())?
        };
        let operations = match json {
            Json::Array(operations) => operations,
            Json::Null => Vec::new(),
            _ => return Err(KustomizeError::wrong("a JSON patch is a list of operations")),
        };
        let operation = |it| match it {
            Json::Object(fields) => Ok(fields),
            Json::Null => Ok(Map::new()),
            _ => Err(KustomizeError::wrong(
                "an operation of a JSON patch is a map with `op` and `path`",
            )),
        };
        Ok(JsonPatch(operations.into_iter().map(operation).collect::<Result<_>>()?))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn apply(&self, mut document: Json) -> Result<Json> {
        for operation in &self.0 {
            apply(&mut document, operation).map_err(KustomizeError::wrong)?;
            if size(&document, 1) > limits::VALUES_MAX {
                return Err(KustomizeError::too_large(format!(
                    "a JSON patch makes an object with more than {} values, or nested deeper than {}",
                    limits::VALUES_MAX,
                    limits::DEPTH_MAX
                )));
            }
        }
        Ok(document)
    }
}

fn size(json: &Json, depth: usize) -> usize {
    if depth > limits::DEPTH_MAX {
        return limits::VALUES_MAX + 1;
    }
    let sum = |sizes: &mut dyn Iterator<Item = usize>| sizes.fold(1usize, usize::saturating_add);
    match json {
        Json::Array(items) => sum(&mut items.iter().map(|it| size(it, depth + 1))),
        Json::Object(fields) => sum(&mut fields.values().map(|it| size(it, depth + 1))),
        _ => 1,
    }
}

fn apply(document: &mut Json, operation: &Map<String, Json>) -> Result<(), String> {
    let text = |field: &str| match operation.get(field) {
        Some(Json::String(text)) => Ok(text.as_str()),
        _ => Err(format!(
            "an operation of the JSON patch has no `{field}`, or one that is no string"
        )),
    };
    let op = text("op")?;
    let value = || operation.get("value").cloned().unwrap_or(Json::Null);
    let explain = |path: &str, why: String| format!("`{op}` of `{path}` in the JSON patch: {why}");
    match op {
        "add" => {
            let path = text("path")?;
            add(document, path, value()).map_err(|why| explain(path, why))
        }
        "remove" => {
            let path = text("path")?;
            remove(document, path).map(|_| ()).map_err(|why| explain(path, why))
        }
        "replace" => {
            let path = text("path")?;
            replace(document, path, value()).map_err(|why| explain(path, why))
        }
        "move" => {
            let from = text("from")?;
            let taken = remove(document, from).map_err(|why| explain(from, why))?;
            let path = text("path")?;
            add(document, path, taken).map_err(|why| explain(path, why))
        }
        "copy" => {
            let from = text("from")?;
            let copied = get(document, from)
                .map_err(|why| explain(from, why))?
                .cloned()
                .unwrap_or(Json::Null);
            let path = text("path")?;
            add(document, path, copied).map_err(|why| explain(path, why))
        }
        "test" => {
            let path = text("path")?;
            let found = match path {
                "" => Some(&*document),
                path => get(document, path).map_err(|why| explain(path, why))?,
            };
            if *found.unwrap_or(&Json::Null) == value() {
                return Ok(());
            }
            Err(explain(
                path,
                format!("it is {}, and not {}", found.unwrap_or(&Json::Null), value()),
            ))
        }
        other => Err(format!(
            "the operation `{other}` of the JSON patch is none of add, remove, replace, move, copy and test"
        )),
    }
}

const NOT_THERE: &str = "what it is in is not there, or is no map or list";

/// The map or list in which a path ends, and its key there.
fn container<'a>(document: &'a mut Json, path: &str) -> Result<(&'a mut Json, String), String> {
    let mut parts = path
        .split('/')
        .skip(1)
        .map(|it| it.replace("~1", "/").replace("~0", "~"));
    let mut key = parts.next().ok_or("a path begins with a slash")?;
    let mut at = document;
    for next in parts {
        at = match at {
            Json::Object(fields) => fields.get_mut(&key),
            Json::Array(items) => index(&key, items.len()).ok().and_then(|it| items.get_mut(it)),
            _ => None,
        }
        .ok_or(NOT_THERE)?;
        key = next;
    }
    match at {
        Json::Object(_) | Json::Array(_) => Ok((at, key)),
        _ => Err(NOT_THERE.to_owned()),
    }
}

/// An index below `length`, which may count from the end.
fn index(key: &str, length: usize) -> Result<usize, String> {
    let number: i64 = key.parse().map_err(|_| format!("`{key}` is no index of a list"))?;
    let number = if number < 0 { number + length as i64 } else { number };
    usize::try_from(number)
        .ok()
        .filter(|it| *it < length)
        .ok_or_else(|| format!("the list has no item {key}"))
}

fn get<'a>(document: &'a mut Json, path: &str) -> Result<Option<&'a Json>, String> {
    let (container, key) = container(document, path)?;
    match container {
        Json::Array(items) => index(&key, items.len()).map(|at| items.get(at)),
        other => Ok(other.get(&key)),
    }
}

fn add(document: &mut Json, path: &str, value: Json) -> Result<(), String> {
    let (container, key) = container(document, path)?;
    match container {
        Json::Array(items) if key == "-" => items.push(value),
        Json::Array(items) => {
            let at = index(&key, items.len() + 1)?;
            items.insert(at, value);
        }
        Json::Object(fields) => {
            fields.insert(key, value);
        }
        _ => return Err(NOT_THERE.to_owned()),
    }
    Ok(())
}

fn remove(document: &mut Json, path: &str) -> Result<Json, String> {
    let (container, key) = container(document, path)?;
    match container {
        Json::Array(items) => {
            let at = index(&key, items.len())?;
            Ok(items.remove(at))
        }
        Json::Object(fields) => fields.remove(&key).ok_or_else(|| "it is not there".to_owned()),
        _ => Err(NOT_THERE.to_owned()),
    }
}

fn replace(document: &mut Json, path: &str, value: Json) -> Result<(), String> {
    if path.is_empty() {
        if !matches!(value, Json::Array(_) | Json::Object(_)) {
            return Err("a whole document is a map or a list".to_owned());
        }
        *document = value;
        return Ok(());
    }
    let (container, key) = container(document, path)?;
    match container {
        Json::Array(items) => {
            let at = index(&key, items.len())?;
            items[at] = value;
        }
        Json::Object(fields) => {
            fields.insert(key, value);
        }
        _ => return Err(NOT_THERE.to_owned()),
    }
    Ok(())
}
