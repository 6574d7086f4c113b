//! `del(EXPR)` for the path expressions of jq: `.a.b`, `."a"`, `.["a"]`, `.[0]`, `.[]`, `?`, `..`, `|`, `,` and
//! `select(PATH OP VALUE)`. That is what jq can delete by in practice; anything else is refused by name.
//! Who writes an expression may be a stranger: its length, its depth and what it names have bounds.

use serde_json::Value;

use super::jsonpath::PATH_BYTES_MAX;

/// How deep parentheses and `select` may be in each other. Reading and walking need stack for each.
const DEPTH_MAX: usize = 32;

/// How many bytes the addresses may take that an expression makes on its way. `..` makes one for each value of an
/// object, which needs some megabytes for the largest; `..` after `..` makes each again and again.
const ADDRESS_BYTES_MAX: usize = 64 << 20;

type Address = Vec<Place>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Index(usize),
    Key(String),
}

#[derive(Debug)]
enum Step {
    Key(String),
    Index(i64),
    Each,
    Descend,
    Select {
        path: Vec<Step>,
        test: Option<(String, Value)>,
    },
}

/// Removes from the object everything that the expression names.
pub fn delete(object: &mut Value, expression: &str) -> Result<(), String> {
    if expression.len() > PATH_BYTES_MAX {
        let length = expression.len();
        return Err(format!("the expression has {length} bytes, more than {PATH_BYTES_MAX}"));
    }
    let mut addresses = Vec::new();
    let mut left = ADDRESS_BYTES_MAX;
    for branch in split(expression, ',') {
        let mut steps = Vec::new();
        for part in split(&branch, '|') {
            steps.extend(read(part.trim(), 0)?);
        }
        addresses.extend(find(&steps, object, &mut left)?);
    }
    // From the back, so that removing an item does not move those that are still to go.
    addresses.sort();
    addresses.dedup();
    if addresses.iter().any(Vec::is_empty) {
        return Err("the whole manifest cannot be ignored".to_owned());
    }
    addresses.iter().rev().for_each(|it| remove(object, it));
    Ok(())
}

/// Splits at a character that stands outside of brackets and quotes.
fn split(text: &str, at: char) -> Vec<String> {
    let (mut parts, mut depth, mut quoted, mut escaped) = (vec![String::new()], 0, false, false);
    for it in text.chars() {
        match it {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            _ => {}
        }
        if it == at && depth == 0 && !quoted {
            parts.push(String::new());
        } else {
            parts.last_mut().expect("there is always a part").push(it);
        }
    }
    parts
}

fn read(text: &str, depth: usize) -> Result<Vec<Step>, String> {
    if depth > DEPTH_MAX {
        return Err(format!("the expression nests deeper than {DEPTH_MAX} levels"));
    }
    if let Some(inner) = text.strip_prefix("select(").and_then(|it| it.strip_suffix(')')) {
        return select(inner.trim(), depth + 1);
    }
    if let Some(inner) = text.strip_prefix('(').and_then(|it| it.strip_suffix(')')) {
        return split(inner, '|')
            .iter()
            .map(|it| read(it.trim(), depth + 1))
            .collect::<Result<Vec<_>, _>>()
            .map(|it| it.into_iter().flatten().collect());
    }
    if text == ".." {
        return Ok(vec![Step::Descend]);
    }
    if text == "." {
        return Ok(vec![]);
    }
    if !text.starts_with('.') {
        return Err(format!("{text:?} is no path"));
    }
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('?') {
            rest = after;
        } else if let Some(after) = rest.strip_prefix(".[").or_else(|| rest.strip_prefix('[')) {
            let end = closing(after).ok_or("a bracket is not closed")?;
            steps.push(bracket(after[..end].trim())?);
            rest = &after[end + 1..];
        } else if let Some(after) = rest.strip_prefix(".\"") {
            let end = after.find('"').ok_or("a quote is not closed")?;
            steps.push(Step::Key(after[..end].to_owned()));
            rest = &after[end + 1..];
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after
                .find(|it: char| !(it.is_ascii_alphanumeric() || it == '_'))
                .unwrap_or(after.len());
            if end == 0 {
                return Err(format!("unexpected {after:?}"));
            }
            steps.push(Step::Key(after[..end].to_owned()));
            rest = &after[end..];
        } else {
            return Err(format!("unexpected {rest:?}"));
        }
    }
    Ok(steps)
}

fn closing(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, it) in text.char_indices() {
        match it {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ']' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Result<Step, String> {
    if text.is_empty() {
        return Ok(Step::Each);
    }
    match serde_json::from_str(text) {
        Ok(Value::String(key)) => Ok(Step::Key(key)),
        Ok(Value::Number(index)) if index.is_i64() => Ok(Step::Index(index.as_i64().unwrap_or_default())),
        _ => Err(format!("{text:?} is neither a key nor an index")),
    }
}

fn select(text: &str, depth: usize) -> Result<Vec<Step>, String> {
    for operator in ["==", "!=", "<=", ">=", "<", ">"] {
        let parts: Vec<&str> = text.splitn(2, operator).collect();
        if let [path, value] = parts.as_slice() {
            let value = serde_json::from_str(value.trim()).map_err(|_| format!("{:?} is no value", value.trim()))?;
            return Ok(vec![Step::Select {
                path: read(path.trim(), depth)?,
                test: Some((operator.to_owned(), value)),
            }]);
        }
    }
    Ok(vec![Step::Select {
        path: read(text, depth)?,
        test: None,
    }])
}

/// The address with one more place, paid from the bytes that are left.
fn extended(address: &[Place], place: Place, left: &mut usize) -> Result<Address, String> {
    pay(address, left)?;
    pay(std::slice::from_ref(&place), left)?;
    Ok([address, &[place]].concat())
}

fn pay(address: &[Place], left: &mut usize) -> Result<(), String> {
    let bytes = |place: &Place| match place {
        Place::Index(_) => size_of::<Place>(),
        Place::Key(key) => size_of::<Place>() + key.len(),
    };
    let bytes = size_of::<Address>() + address.iter().map(bytes).sum::<usize>();
    let rest = left.checked_sub(bytes);
    *left = rest.ok_or_else(|| format!("the expression names more than fits into {ADDRESS_BYTES_MAX} bytes"))?;
    Ok(())
}

fn find(steps: &[Step], root: &Value, left: &mut usize) -> Result<Vec<Address>, String> {
    pay(&[], left)?;
    let mut current: Vec<Address> = vec![vec![]];
    for step in steps {
        let mut next = Vec::new();
        for address in current {
            let Some(value) = at(root, &address) else { continue };
            match step {
                Step::Key(key) => match value {
                    Value::Object(_) | Value::Null => next.push(extended(&address, Place::Key(key.clone()), left)?),
                    other => return Err(format!("expected an object but got: {other}")),
                },
                Step::Index(index) => match value {
                    Value::Array(items) => {
                        let place = if *index < 0 {
                            *index + items.len() as i64
                        } else {
                            *index
                        };
                        if let Ok(place) = usize::try_from(place) {
                            next.push(extended(&address, Place::Index(place), left)?);
                        }
                    }
                    Value::Null => {}
                    other => return Err(format!("expected an array but got: {other}")),
                },
                Step::Each => match value {
                    Value::Array(_) | Value::Object(_) => next.extend(children(&address, value, left)?),
                    Value::Null => {}
                    other => return Err(format!("cannot iterate over: {other}")),
                },
                Step::Descend => descend(address, value, &mut next, left)?,
                Step::Select { path, test } => {
                    let found = find(path, value, left)?;
                    let holds = found.iter().any(|it| {
                        let item = at(value, it).unwrap_or(&Value::Null);
                        match test {
                            None => !matches!(item, Value::Null | Value::Bool(false)),
                            Some((operator, wanted)) => compare(item, operator, wanted),
                        }
                    });
                    if holds {
                        next.push(address);
                    }
                }
            }
        }
        current = next;
    }
    Ok(current)
}

fn children(address: &Address, value: &Value, left: &mut usize) -> Result<Vec<Address>, String> {
    let mut child = |place: Place| extended(address, place, left);
    match value {
        Value::Array(items) => (0..items.len()).map(|it| child(Place::Index(it))).collect(),
        Value::Object(fields) => fields.keys().map(|it| child(Place::Key(it.clone()))).collect(),
        _ => Ok(vec![]),
    }
}

fn descend(address: Address, value: &Value, out: &mut Vec<Address>, left: &mut usize) -> Result<(), String> {
    for child in children(&address, value, left)? {
        if let Some(below) = child.last().and_then(|it| step_in(value, it)) {
            descend(child, below, out, left)?;
        }
    }
    out.push(address);
    Ok(())
}

fn compare(item: &Value, operator: &str, wanted: &Value) -> bool {
    let order = match (item, wanted) {
        (Value::Number(item), Value::Number(wanted)) => item.as_f64().partial_cmp(&wanted.as_f64()),
        (Value::String(item), Value::String(wanted)) => Some(item.cmp(wanted)),
        _ => None,
    };
    match operator {
        "==" => item == wanted,
        "!=" => item != wanted,
        "<" => order.is_some_and(|it| it.is_lt()),
        "<=" => order.is_some_and(|it| it.is_le()),
        ">" => order.is_some_and(|it| it.is_gt()),
        _ => order.is_some_and(|it| it.is_ge()),
    }
}

fn step_in<'a>(value: &'a Value, place: &Place) -> Option<&'a Value> {
    match place {
        Place::Index(index) => value.get(index),
        Place::Key(key) => value.get(key),
    }
}

fn at<'a>(root: &'a Value, address: &Address) -> Option<&'a Value> {
    address.iter().try_fold(root, step_in)
}

fn remove(root: &mut Value, address: &Address) {
    let Some((last, parents)) = address.split_last() else {
        return;
    };
    let parent = parents.iter().try_fold(root, |value, place| match place {
        Place::Index(index) => value.get_mut(index),
        Place::Key(key) => value.get_mut(key),
    });
    match (parent, last) {
        (Some(Value::Object(fields)), Place::Key(key)) => {
            fields.remove(key);
        }
        (Some(Value::Array(items)), Place::Index(index)) if *index < items.len() => {
            items.remove(*index);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_delete_what_jq_deletes() {
        let object = json!({"a": {"b": [1, 2, 3], "x-y": 4}, "l": [{"n": "p", "v": 1}, {"n": "q", "v": 2}]});
        let table = [
            (".a.b", json!({"a": {"x-y": 4}, "l": object["l"]})),
            (r#".a["x-y"]"#, json!({"a": {"b": [1, 2, 3]}, "l": object["l"]})),
            (r#".a."x-y""#, json!({"a": {"b": [1, 2, 3]}, "l": object["l"]})),
            (
                ".a.b[0], .a.b[-1]",
                json!({"a": {"b": [2], "x-y": 4}, "l": object["l"]}),
            ),
            (".a.b[]", json!({"a": {"b": [], "x-y": 4}, "l": object["l"]})),
            (
                ".l[] | select(.n == \"q\")",
                json!({"a": object["a"], "l": [{"n": "p", "v": 1}]}),
            ),
            (".l[].v", json!({"a": object["a"], "l": [{"n": "p"}, {"n": "q"}]})),
            (".absent.deeper", object.clone()),
        ];
        for (expression, expected) in table {
            let mut changed = object.clone();
            delete(&mut changed, expression).unwrap();
            assert_eq!(changed, expected, "{expression}");
        }
        assert!(delete(&mut object.clone(), "map(.a)").is_err());
        assert!(
            delete(&mut object.clone(), ".a.b.c")
                .unwrap_err()
                .starts_with("expected an object")
        );
        assert!(delete(&mut object.clone(), ".").is_err());
    }

    #[test]
    fn an_expression_without_end_is_refused() {
        let nested = |open: &str, depth: usize| format!("{}.a{}", open.repeat(depth), ")".repeat(depth));
        let object = json!({"a": (0..100).fold(json!([]), |inner, _| json!([inner, 1]))});
        let too_deep = "the expression nests deeper than 32 levels";
        let table = [
            (nested("(", DEPTH_MAX + 1), too_deep),
            (nested("select(", DEPTH_MAX + 1), too_deep),
            (nested("(", PATH_BYTES_MAX / 2 - 1), too_deep),
            (
                "(".repeat(PATH_BYTES_MAX + 1),
                "the expression has 4097 bytes, more than 4096",
            ),
            (
                [".."; 20].join("|"),
                "the expression names more than fits into 67108864 bytes",
            ),
        ];
        for (expression, message) in table {
            assert_eq!(
                delete(&mut object.clone(), &expression),
                Err(message.to_owned()),
                "{expression}"
            );
        }
        let mut changed = object.clone();
        delete(&mut changed, &nested("(", DEPTH_MAX)).unwrap();
        assert_eq!(changed, json!({}));
    }
}
