//! Fields of a manifest that are left to others when it is applied server-side, and the hash that tells whether the
//! rest changed.
//! Upstream: ocm pkg/work/spoke/apply/server_side_apply.go.

use std::collections::HashSet;

use ocm_api::{
    annotations::CONFIG_SPEC_HASH,
    work::{IgnoreField, IgnoreFieldsCondition},
};
use serde_json::{Map, Value};

use super::{
    jq,
    jsonpath::{self, Fault},
    manifest::metadata_mut,
    md5,
};

/// What is applied when fields are ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct Ignoring {
    /// The manifest with every field, for an object that is not there yet.
    pub whole: Value,
    /// The manifest without the fields that are left alone once the object is there.
    pub reduced: Value,
    /// Of the reduced manifest; both carry it as an annotation.
    pub hash: String,
}

/// Takes the ignored fields out of a manifest.
pub fn ignoring(manifest: &Value, fields: &[IgnoreField]) -> Result<Ignoring, String> {
    let mut reduced = manifest.clone();
    for entry in fields
        .iter()
        .filter(|it| it.condition == IgnoreFieldsCondition::OnSpokePresent)
    {
        for path in &entry.json_paths {
            remove_json_path(&mut reduced, path).map_err(|cause| format!("JSON Path error in '{path}': {cause}"))?;
        }
        for pointer in &entry.json_pointers {
            remove_pointer(&mut reduced, pointer)
                .map_err(|cause| format!("JSON Pointer error in '{pointer}': {cause}"))?;
        }
        for expression in &entry.jq_path_expressions {
            jq::delete(&mut reduced, expression)
                .map_err(|cause| format!("JQ expression error in '{expression}': {cause}"))?;
        }
    }
    let hash = md5::hex(format!("&{{{}}}", go_value(&reduced)).as_bytes());
    Ok(Ignoring {
        whole: annotated(manifest.clone(), &hash)?,
        reduced: annotated(reduced, &hash)?,
        hash,
    })
}

fn annotated(mut object: Value, hash: &str) -> Result<Value, String> {
    let annotations = metadata_mut(&mut object).entry("annotations").or_insert(Value::Null);
    if annotations.is_null() {
        *annotations = Value::Object(Map::new());
    }
    let annotations = annotations.as_object_mut();
    let annotations = annotations.ok_or("metadata.annotations of the manifest is not a map")?;
    annotations.insert(CONFIG_SPEC_HASH.to_owned(), hash.into());
    Ok(object)
}

/// Whether the object carries this hash: what we would apply was applied already.
pub fn carries(live: &Value, hash: &str) -> bool {
    live["metadata"]["annotations"][CONFIG_SPEC_HASH] == hash
}

/// The text behind the last dot is the key to delete, everything before it says where. Mistakes are ignored, as
/// upstream; what goes beyond our own bounds is not, or the field would be taken for ignored.
fn remove_json_path(object: &mut Value, path: &str) -> Result<(), Fault> {
    let path = path.trim().trim_start_matches('{').trim_end_matches('}');
    let Some((parent, key)) = path.rsplit_once('.') else {
        return Ok(());
    };
    if parent.is_empty() {
        if let Some(fields) = object.as_object_mut() {
            fields.remove(key);
        }
        return Ok(());
    }
    // The path finds references; what they point at is found again by address to be changed.
    let found = jsonpath::parse(parent).and_then(|it| {
        let found = it.find(object)?;
        Ok(found.into_iter().map(std::ptr::from_ref).collect())
    });
    match found {
        Ok(found) => remove_key_of(object, &found, key),
        Err(Fault::Mistake(_)) => {}
        Err(beyond) => return Err(beyond),
    }
    Ok(())
}

fn remove_key_of(value: &mut Value, parents: &HashSet<*const Value>, key: &str) {
    let address: *const Value = value;
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(|it| remove_key_of(it, parents, key));
            if parents.contains(&address) {
                fields.remove(key);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|it| remove_key_of(it, parents, key)),
        _ => {}
    }
}

/// RFC 6902 `remove`; a path that leads nowhere is fine.
fn remove_pointer(object: &mut Value, pointer: &str) -> Result<(), String> {
    if pointer.is_empty() {
        return Err("the whole manifest cannot be ignored".to_owned());
    }
    let Some((parent, key)) = pointer.rsplit_once('/').filter(|_| pointer.starts_with('/')) else {
        return Err("a JSON pointer begins with a slash".to_owned());
    };
    let key = key.replace("~1", "/").replace("~0", "~");
    match object.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.remove(&key);
            Ok(())
        }
        Some(Value::Array(items)) => {
            let index: usize = key.parse().map_err(|_| format!("{key} is no index of a list"))?;
            if index < items.len() {
                items.remove(index);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A value as Go's `%v` prints it. The hash must be the one a Go agent left on the object: a different one would apply
/// the manifest once more and overwrite what `OnSpokeChange` protects.
fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(it) => it.to_string(),
        Value::String(it) => it.clone(),
        Value::Number(it) => match (it.as_i64(), it.as_f64()) {
            (Some(it), _) => it.to_string(),
            (None, Some(it)) => go_float(it),
            (None, None) => it.to_string(),
        },
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            // serde_json's map is sorted by bytes, as Go's printing is.
            let fields: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("{key}:{}", go_value(value)))
                .collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// The shortest text that reads back, with an exponent where Go's `%v` has one.
fn go_float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..21).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_hash_is_the_one_a_go_agent_writes() {
        let manifest = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"foo1": "bar1"},
            "metadata": {"name": "test", "namespace": "default"}
        });
        let ignoring = ignoring(&manifest, &[]).unwrap();
        assert_eq!(ignoring.hash, "4c07ba481d04e9c38e5ed3bf24139537");
        assert!(carries(&ignoring.whole, &ignoring.hash));
    }

    #[test]
    fn annotations_that_are_no_map_are_refused() {
        let with = |annotations: Value| ignoring(&json!({"metadata": {"annotations": annotations}}), &[]);
        assert!(with(Value::Null).is_ok());
        for annotations in [json!("x"), json!([1]), json!(1)] {
            assert_eq!(
                with(annotations).unwrap_err(),
                "metadata.annotations of the manifest is not a map"
            );
        }
    }

    #[test]
    fn values_print_as_go_prints_them() {
        let table = [
            (json!({"b": [1, 2.5, null], "a": true}), "map[a:true b:[1 2.5 <nil>]]"),
            (json!(1e21), "1e+21"),
            (json!(1.5e-7), "1.5e-07"),
            (json!(100000.5), "100000.5"),
            (json!({}), "map[]"),
        ];
        for (value, expected) in table {
            assert_eq!(go_value(&value), expected);
        }
    }

    #[test]
    fn ignored_fields_are_taken_out_of_what_is_applied_later() {
        let manifest = json!({
            "metadata": {"name": "a", "annotations": {"x/y": "1", "z": "2"}},
            "spec": {"replicas": 3, "list": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}
        });
        let field = |paths: &[&str], pointers: &[&str], jq: &[&str]| IgnoreField {
            condition: IgnoreFieldsCondition::OnSpokePresent,
            json_paths: paths.iter().map(|it| it.to_string()).collect(),
            json_pointers: pointers.iter().map(|it| it.to_string()).collect(),
            jq_path_expressions: jq.iter().map(|it| it.to_string()).collect(),
        };
        let reduced = |entry| ignoring(&manifest, &[entry]).unwrap().reduced;
        assert_eq!(
            reduced(field(&[".spec.replicas"], &[], &[]))["spec"].get("replicas"),
            None
        );
        assert_eq!(
            reduced(field(&[r#".spec.list[?(@.name=="c")].image"#], &[], &[]))["spec"]["list"],
            json!([{"name": "c"}, {"name": "d", "image": "j"}])
        );
        assert_eq!(
            reduced(field(&[], &["/metadata/annotations/x~1y", "/spec/absent/deep"], &[]))["metadata"]["annotations"]["x/y"],
            Value::Null
        );
        assert_eq!(
            reduced(field(&[], &[], &[r#".spec.list[] | select(.name == "d") | .image"#]))["spec"]["list"],
            json!([{"name": "c", "image": "i"}, {"name": "d"}])
        );
        assert_eq!(
            ignoring(&manifest, &[field(&[], &["/spec/list/x"], &[])]).unwrap_err(),
            "JSON Pointer error in '/spec/list/x': x is no index of a list"
        );
        for path in [format!("{}.a", "[?(@".repeat(1000)), format!("{}.a", ".x".repeat(4000))] {
            let error = ignoring(&manifest, &[field(&[&path], &[], &[])]).unwrap_err();
            assert!(error.starts_with("JSON Path error in '"), "{error}");
        }
        assert!(
            ignoring(&manifest, &[field(&[], &[], &[".spec.["])])
                .unwrap_err()
                .starts_with("JQ expression error in '.spec.['")
        );
        let untouched = IgnoreField {
            condition: IgnoreFieldsCondition::OnSpokeChange,
            ..field(&[".spec.replicas"], &[], &[])
        };
        assert_eq!(reduced(untouched)["spec"]["replicas"], json!(3));
    }
}
