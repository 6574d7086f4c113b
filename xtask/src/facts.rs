//! What upstream's CustomResourceDefinitions say, without their texts: what the tests of `ocm-api` hold ours against.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context;
use serde_json::{Map, Value};

/// Where they are kept: one definition a line.
const FILE: &str = "ocm/api/tests/fixtures/upstream_crds.jsonl";

/// Reads the definitions in `folder` and keeps what they say.
///
/// # Errors
/// When a file cannot be read or written, or is no definition.
pub fn write(root: &Path, folder: &Path) -> anyhow::Result<()> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|it| it != "yaml") {
            continue;
        }
        let definition: Value = serde_saphyr::from_str(&fs::read_to_string(&path)?)
            .with_context(|| format!("{} is no YAML", path.display()))?;
        let name = definition["metadata"]["name"]
            .as_str()
            .with_context(|| format!("{} has no metadata.name", path.display()))?
            .to_owned();
        all.insert(name, facts(&definition).to_string());
    }
    anyhow::ensure!(!all.is_empty(), "{} holds no definitions (*.yaml)", folder.display());
    let text: String = all.values().map(|it| format!("{it}\n")).collect();
    let file = root.join(FILE);
    fs::write(&file, text).with_context(|| format!("could not write {}", file.display()))?;
    println!("{FILE}: {} definitions", all.len());
    Ok(())
}

/// A definition without what only people read.
fn facts(definition: &Value) -> Value {
    let mut kept = definition.clone();
    kept["metadata"] = serde_json::json!({"name": definition["metadata"]["name"]});
    if let Some(all) = kept.as_object_mut() {
        all.remove("status");
    }
    for version in kept["spec"]["versions"].as_array_mut().into_iter().flatten() {
        for column in version["additionalPrinterColumns"].as_array_mut().into_iter().flatten() {
            column.as_object_mut().and_then(|it| it.remove("description"));
        }
        let schema = schema(&version["schema"]["openAPIV3Schema"]);
        version["schema"]["openAPIV3Schema"] = schema;
    }
    kept
}

/// A schema without descriptions; a field of that name stays.
fn schema(it: &Value) -> Value {
    let Value::Object(it) = it else { return it.clone() };
    let kept = it.iter().filter(|(key, _)| *key != "description").map(|(key, value)| {
        let value = match (key.as_str(), value) {
            ("properties", Value::Object(fields)) => {
                let fields = fields.iter().map(|(name, it)| (name.clone(), schema(it)));
                Value::Object(fields.collect())
            }
            ("items" | "additionalProperties", it) => schema(it),
            _ => value.clone(),
        };
        (key.clone(), value)
    });
    Value::Object(kept.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn descriptions_go_and_a_field_of_that_name_stays() {
        let said = json!({
            "description": "a", "type": "object",
            "properties": {"description": {"description": "b", "type": "string"}},
            "additionalProperties": {"description": "c", "items": {"description": "d"}},
        });
        let kept = json!({
            "type": "object", "properties": {"description": {"type": "string"}}, "additionalProperties": {"items": {}},
        });
        assert_eq!(schema(&said), kept);
    }
}
