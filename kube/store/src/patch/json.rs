//! JSON patch (RFC 6902), with the leniency that clients of the Kubernetes API server rely on.
//!
//! The `json-patch` crate is not used: Kubernetes lets `replace` create a missing key, lets `test` find `null` at a
//! missing key, counts negative indices from the end, and answers 422 (not 400) to an unknown operation.

use super::{decode, go_kind};
use crate::{
    object::{DEPTH_MAX, is_deeper},
    status::Status,
};
use serde_json::{Map, Value, json};

/// More operations than this are refused with 413.
pub const OPERATIONS_MAX: usize = 10_000;

/// Copies may not let a patch grow an object beyond this; the request body itself is bounded elsewhere.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How many values all operations together may move aside or look at, those of the patch itself not counted: about a
/// second's work. Ten thousand operations at the beginning of a list of as many items need a third of it.
const WORK_MAX: usize = 300_000_000;

/// What the operations have cost until now.
#[derive(Default)]
struct Spent {
    copied_bytes: usize,
    work: usize,
}

/// The operation cannot be carried out on this object. Clients see one generic text for every such reason.
struct Refused;

/// Applies a JSON patch to `live` and gives the patched object.
pub fn apply(live: &Value, body: &[u8]) -> Result<Value, Status> {
    let operations = match decode(body)? {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other => {
            let message = format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                go_kind(&other)
            );
            return Err(Status::bad_request(message));
        }
    };
    if operations.len() > OPERATIONS_MAX {
        let message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        );
        return Err(Status::new(413, "RequestEntityTooLarge", message));
    }
    let mut document = live.clone();
    let mut spent = Spent::default();
    for operation in operations {
        let Value::Object(operation) = operation else {
            let kind = go_kind(&operation);
            let message = format!(
                "error decoding patch: json: cannot unmarshal {kind} into Go value of type jsonpatch.Operation"
            );
            return Err(Status::bad_request(message));
        };
        step(&mut document, operation, &mut spent).map_err(|Refused| refused())?;
    }
    Ok(document)
}

/// The first operation of a patch that cannot be carried out, and what the object was before it.
pub fn first_refused(live: &Value, body: &[u8]) -> Option<(Value, Value)> {
    let Ok(Value::Array(operations)) = decode(body) else {
        return None;
    };
    let mut document = live.clone();
    let mut spent = Spent::default();
    for operation in operations.into_iter().take(OPERATIONS_MAX) {
        let shown = operation.clone();
        let Value::Object(operation) = operation else {
            return Some((document, shown));
        };
        if step(&mut document, operation, &mut spent).is_err() {
            return Some((document, shown));
        }
    }
    None
}

fn refused() -> Status {
    Status {
        details: Some(Box::new(json!({}))),
        ..Status::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
    }
}

fn step(document: &mut Value, mut operation: Map<String, Value>, spent: &mut Spent) -> Result<(), Refused> {
    let value = operation.remove("value").unwrap_or(Value::Null);
    let pointer = |name: &str| match operation.get(name) {
        Some(Value::String(text)) => tokens(text),
        _ => Err(Refused),
    };
    let path = pointer("path")?;
    match operation.get("op").and_then(Value::as_str).unwrap_or_default() {
        "add" => add(document, &path, value, spent),
        "remove" => remove(document, &path, spent).map(drop),
        "replace" => replace(document, &path, value, spent),
        "move" => {
            let from = pointer("from")?;
            if path.len() > from.len() && path.starts_with(&from) {
                return Err(Refused);
            }
            let value = remove(document, &from, spent)?;
            add(document, &path, value, spent)
        }
        "copy" => {
            let value = find(document, &pointer("from")?).ok_or(Refused)?.clone();
            spent.copied_bytes += value.to_string().len();
            if spent.copied_bytes > COPIED_BYTES_MAX {
                return Err(Refused);
            }
            add(document, &path, value, spent)
        }
        // It ends at the first difference, so it looks at no more than the patch says.
        "test" => match find(document, &path) {
            Some(found) if same(found, &value) => Ok(()),
            None if value.is_null()
                && find(document, &path[..path.len().saturating_sub(1)]).is_some_and(Value::is_object) =>
            {
                Ok(())
            }
            _ => Err(Refused),
        },
        _ => Err(Refused),
    }
}

/// Splits an RFC 6901 pointer into unescaped tokens; the empty pointer is the whole document.
fn tokens(pointer: &str) -> Result<Vec<String>, Refused> {
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let rest = pointer.strip_prefix('/').ok_or(Refused)?;
    Ok(rest
        .split('/')
        .map(|token| token.replace("~1", "/").replace("~0", "~"))
        .collect())
}

/// Position in an array of `len` items; negative ones count from the end. `-0` and leading signs other
/// than `-` are no index.
fn index(token: &str, len: usize) -> Option<usize> {
    if let Some(back) = token.strip_prefix('-') {
        let back: usize = back.parse().ok()?;
        return len.checked_sub(back).filter(|_| back > 0);
    }
    if token.starts_with('+') {
        return None;
    }
    token.parse().ok()
}

fn find<'a>(document: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(document, |it, token| match it {
        Value::Object(map) => map.get(token),
        Value::Array(items) => items.get(index(token, items.len())?),
        _ => None,
    })
}

fn parent<'a, 'b>(document: &'a mut Value, path: &'b [String]) -> Result<(&'a mut Value, &'b str), Refused> {
    let (last, parents) = path.split_last().ok_or(Refused)?;
    let parent = parents.iter().try_fold(document, |it, token| match it {
        Value::Object(map) => map.get_mut(token),
        Value::Array(items) => {
            let index = index(token, items.len())?;
            items.get_mut(index)
        }
        _ => None,
    });
    Ok((parent.ok_or(Refused)?, last))
}

impl Spent {
    fn work(&mut self, values: usize) -> Result<(), Refused> {
        self.work += values;
        if self.work > WORK_MAX { Err(Refused) } else { Ok(()) }
    }

    /// Whether a value may stand at a path. Operation by operation an object could be made that nests so deep that
    /// nobody could read it, or even let go of it.
    fn fits(&mut self, path: &[String], value: &Value) -> Result<(), Refused> {
        let left = DEPTH_MAX.checked_sub(path.len()).ok_or(Refused)?;
        let mut seen = 0;
        let deep = is_deeper(value, left, &mut seen);
        self.work(seen)?;
        if deep { Err(Refused) } else { Ok(()) }
    }
}

fn add(document: &mut Value, path: &[String], value: Value, spent: &mut Spent) -> Result<(), Refused> {
    spent.fits(path, &value)?;
    if path.is_empty() {
        *document = value;
        return Ok(());
    }
    match parent(document, path)? {
        (Value::Object(map), key) => {
            map.insert(key.to_owned(), value);
        }
        (Value::Array(items), "-") => items.push(value),
        (Value::Array(items), token) => {
            // A negative index names the gap after the item it counts to, so `-1` appends.
            let at = index(token, items.len() + 1)
                .filter(|at| *at <= items.len())
                .ok_or(Refused)?;
            spent.work(items.len() - at)?;
            items.insert(at, value);
        }
        _ => return Err(Refused),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &[String], spent: &mut Spent) -> Result<Value, Refused> {
    match parent(document, path)? {
        (Value::Object(map), key) => map.remove(key).ok_or(Refused),
        (Value::Array(items), token) => {
            let at = index(token, items.len())
                .filter(|at| *at < items.len())
                .ok_or(Refused)?;
            spent.work(items.len() - at)?;
            Ok(items.remove(at))
        }
        _ => Err(Refused),
    }
}

fn replace(document: &mut Value, path: &[String], value: Value, spent: &mut Spent) -> Result<(), Refused> {
    spent.fits(path, &value)?;
    if path.is_empty() {
        *document = value;
        return Ok(());
    }
    match parent(document, path)? {
        (Value::Object(map), key) => {
            map.insert(key.to_owned(), value);
        }
        (Value::Array(items), token) => {
            let at = index(token, items.len()).ok_or(Refused)?;
            *items.get_mut(at).ok_or(Refused)? = value;
        }
        _ => return Err(Refused),
    }
    Ok(())
}

/// Equality of `test`: numbers compare by value, so `1` is `1.0`.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, value)| right.get(key).is_some_and(|other| same(value, other)))
        }
        _ => left == right,
    }
}
