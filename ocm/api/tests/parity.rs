//! Our CustomResourceDefinitions against upstream's, as released. Descriptions are ours and do not count.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

/// Upstream's definitions by name, as `cargo xtask facts` keeps them.
fn kept() -> BTreeMap<String, Value> {
    let lines = include_str!("fixtures/upstream_crds.jsonl").lines();
    by_name(lines.map(|it| serde_json::from_str(it).unwrap()))
}

/// Upstream's definitions by name, or nothing where the shared folder is not there.
fn shared() -> Option<BTreeMap<String, Value>> {
    let shared = match std::env::var_os("DROVER_SHARED") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let files = std::fs::read_dir(shared.join("upstream-crds")).ok()?;
    let yaml = files
        .map(|it| it.unwrap().path())
        .filter(|it| it.extension().is_some_and(|end| end == "yaml"));
    Some(by_name(yaml.map(|path| {
        serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap()
    })))
}

fn by_name(crds: impl Iterator<Item = Value>) -> BTreeMap<String, Value> {
    crds.map(|it| (it["metadata"]["name"].as_str().unwrap().to_owned(), it))
        .collect()
}

/// What has to agree, in an order that does not depend on how it was written.
fn comparable(crd: &Value) -> Value {
    let spec = &crd["spec"];
    let versions: Map<String, Value> = spec["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let columns = it["additionalPrinterColumns"].as_array().cloned().unwrap_or_default();
            let subresources = it.get("subresources").cloned().unwrap_or_else(|| json!({}));
            let rest = json!({
                "served": it["served"],
                "storage": it["storage"],
                "columns": columns.iter().map(without_description).collect::<Vec<_>>(),
                "subresources": subresources,
                "selectable": it.get("selectableFields"),
                "schema": schema(&it["schema"]["openAPIV3Schema"]),
            });
            (it["name"].as_str().unwrap().to_owned(), rest)
        })
        .collect();
    let mut names = spec["names"].clone();
    if names["shortNames"].is_null() {
        names["shortNames"] = json!([]);
    }
    json!({ "group": spec["group"], "scope": spec["scope"], "names": names, "versions": versions })
}

fn without_description(value: &Value) -> Value {
    let mut value = value.clone();
    value.as_object_mut().unwrap().remove("description");
    value
}

fn schema(it: &Value) -> Value {
    let Value::Object(it) = it else { return it.clone() };
    let kept = it.iter().filter(|(key, _)| *key != "description").map(|(key, value)| {
        let value = match key.as_str() {
            "properties" => fields(value),
            "items" | "additionalProperties" => schema(value),
            "required" | "enum" | "x-kubernetes-list-map-keys" => sorted(value),
            _ => value.clone(),
        };
        (key.clone(), value)
    });
    Value::Object(kept.collect())
}

fn fields(properties: &Value) -> Value {
    properties
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, it)| (name.clone(), schema(it)))
        .collect::<Map<_, _>>()
        .into()
}

fn sorted(value: &Value) -> Value {
    let mut values = value.as_array().unwrap().clone();
    values.sort_by_key(|it| it.to_string());
    values.into()
}

/// Every place where the two disagree, as `path: ours / theirs`.
fn differences(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    if let (Value::Object(our), Value::Object(their)) = (ours, theirs) {
        let keys: std::collections::BTreeSet<_> = our.keys().chain(their.keys()).collect();
        for key in keys {
            let null = Value::Null;
            let (one, other) = (our.get(key).unwrap_or(&null), their.get(key).unwrap_or(&null));
            differences(&format!("{path}.{key}"), one, other, found);
        }
    } else if ours != theirs {
        found.push(format!("{path}: ours {ours} / theirs {theirs}"));
    }
}

fn compare(ours: &BTreeMap<String, Value>, theirs: &BTreeMap<String, Value>) {
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    let mut found = vec![];
    for (name, theirs) in theirs {
        let kind = name.split('.').next().unwrap();
        differences(kind, &comparable(&ours[name]), &comparable(theirs), &mut found);
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn our_definitions_say_what_upstreams_say() {
    compare(&by_name(ocm_api::crds::build().into_iter().map(|it| it.1)), &kept());
}

#[test]
fn what_is_kept_is_what_upstream_has_released() {
    let Some(shared) = shared() else {
        // Written past the test harness, which would swallow it: nobody should take a skip for a pass.
        let line = "skipped: no shared/upstream-crds beside the repository, and DROVER_SHARED is not set\n";
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    };
    let mut kept = kept();
    // Those of add-ons are of repositories of their own.
    kept.retain(|name, _| shared.contains_key(name));
    compare(&kept, &shared);
}

#[test]
fn the_comparison_sees_a_difference() {
    let mut crd = ocm_api::crds::build().remove(0).1;
    let before = comparable(&crd);
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["x"] = json!({});
    let mut found = vec![];
    differences("crd", &before, &comparable(&crd), &mut found);
    assert_eq!(found.len(), 1, "{found:?}");
}
