use super::*;
use crate::registry::Resource;
use serde_json::{Value, json};
use std::sync::Arc;

fn registry() -> Registry {
    let mut registry = crate::kinds::registry();
    let crd = json!({
        "metadata": {"name": "widgets.ex.io"},
        "spec": {
            "group": "ex.io", "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "size": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                }}}}},
            }],
        },
        "status": {
            "acceptedNames": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "conditions": [{"type": "Established", "status": "True"}],
        },
    });
    registry.insert(Arc::new(Resource::from_crd(&crd).unwrap()));
    registry
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn index(registry: &Registry) -> Value {
    json(v3_index::<Bytes>(registry, &HeaderMap::new()).body())
}

fn document(registry: &Registry, key: &str) -> Value {
    json(v3_document::<Bytes>(registry, key, None, &HeaderMap::new()).body())
}

fn everything(registry: &Registry) -> Value {
    json(v2::<Bytes>(registry, &HeaderMap::new()).body())
}

/// What kubectl does to learn whether the server validates: search every path's PATCH for the kind.
fn validates(document: &Value, group: &str, kind: &str) -> bool {
    document["paths"].as_object().unwrap().values().any(|path| {
        let patch = &path["patch"];
        let it = &patch["x-kubernetes-group-version-kind"];
        it["group"] == group
            && it["kind"] == kind
            && patch["parameters"]
                .as_array()
                .is_some_and(|all| all.iter().any(|it| it["name"] == "fieldValidation"))
    })
}

#[test]
fn the_index_names_every_group_version_and_its_documents_exist() {
    let registry = registry();
    let index = index(&registry);
    let paths = index["paths"].as_object().unwrap();
    for key in ["api/v1", "apis/apps/v1", "apis/ex.io/v1"] {
        let url = paths[key]["serverRelativeURL"].as_str().unwrap();
        let (_, hash) = url.split_once("?hash=").unwrap();
        let response: Response<Bytes> = v3_document(&registry, key, Some(hash), &HeaderMap::new());
        assert_eq!(
            (response.status().as_u16(), url.starts_with("/openapi/v3/")),
            (200, true),
            "{key}"
        );
    }
    for key in ["apis/ex.io/v2", "version"] {
        let response: Response<Bytes> = v3_document(&registry, key, None, &HeaderMap::new());
        assert_eq!(response.status(), 404);
    }
}

#[test]
fn kubectl_finds_the_patch_of_every_kind() {
    let registry = registry();
    for (key, group, kind) in [
        ("api/v1", "", "ConfigMap"),
        ("apis/apps/v1", "apps", "Deployment"),
        ("apis/ex.io/v1", "ex.io", "Widget"),
    ] {
        let document = document(&registry, key);
        assert!(validates(&document, group, kind), "{kind}");
    }
    let all = everything(&registry);
    assert!(validates(&all, "apps", "Deployment") && validates(&all, "ex.io", "Widget"));
}

#[test]
fn every_reference_leads_to_a_definition() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|it| references(it, found));
            }
            Value::Array(all) => all.iter().for_each(|it| references(it, found)),
            _ => {}
        }
    }
    let registry = registry();
    let index = index(&registry);
    for key in index["paths"].as_object().unwrap().keys() {
        let document = document(&registry, key);
        let mut found = Vec::new();
        references(&document, &mut found);
        for reference in found {
            let name = reference.strip_prefix("#/components/schemas/").unwrap();
            assert!(
                document["components"]["schemas"].get(name).is_some(),
                "{key}: {reference}"
            );
        }
    }
    let document = everything(&registry);
    let mut found = Vec::new();
    references(&document, &mut found);
    for reference in found {
        assert!(
            document["definitions"]
                .get(reference.strip_prefix("#/definitions/").unwrap())
                .is_some(),
            "{reference}"
        );
    }
}

#[test]
fn a_custom_kind_is_described_by_its_definition() {
    let document = document(&registry(), "apis/ex.io/v1");
    let widget = &document["components"]["schemas"]["io.ex.v1.Widget"];
    assert_eq!(
        widget["x-kubernetes-group-version-kind"][0],
        json!({"group": "ex.io", "version": "v1", "kind": "Widget"})
    );
    assert_eq!(
        widget["properties"]["spec"]["properties"]["size"]["x-kubernetes-int-or-string"],
        true
    );
    assert!(document["components"]["schemas"].get("io.ex.v1.WidgetList").is_some());
}

#[test]
fn an_openapi_document_with_a_matching_etag_is_not_resent() {
    let (registry, key) = (registry(), "apis/apps/v1");
    let get =
        |hash: Option<&str>, headers: &HeaderMap| -> Response<Bytes> { v3_document(&registry, key, hash, headers) };
    let mut headers = HeaderMap::new();
    let first = get(None, &headers);
    assert_eq!(first.status(), 200);
    let tag = first.headers()[header::ETAG].clone();
    let hash = tag.to_str().unwrap().trim_matches('"').to_owned();
    headers.insert(header::IF_NONE_MATCH, tag);
    assert_eq!(get(None, &headers).status(), 304);
    let known = get(Some(&hash), &HeaderMap::new());
    assert!(
        known.headers()[header::CACHE_CONTROL]
            .to_str()
            .unwrap()
            .contains("immutable")
    );
    let old = get(Some("OLD"), &HeaderMap::new());
    assert_eq!(old.status(), 301);
    assert_eq!(
        old.headers()[header::LOCATION].to_str().unwrap(),
        format!("/openapi/v3/{key}?hash={hash}")
    );
    let none: Response<Bytes> = v3_document(&registry, "apis/nope/v1", None, &HeaderMap::new());
    assert_eq!(none.status(), 404);
}

#[test]
fn v2_is_served_in_the_requested_format() {
    assert_eq!(v2_form(None), Some(Form::Json));
    assert_eq!(v2_form(Some("application/json, */*")), Some(Form::Json));
    assert_eq!(v2_form(Some("text/html")), None);
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static(V2_PROTOBUF_ASKED[1]));
    let response: Response<Bytes> = v2(&registry(), &headers);
    assert_eq!(response.headers()[header::CONTENT_TYPE], V2_PROTOBUF);
    assert!(response.body().starts_with(b"\x0a\x032.0"));
}
