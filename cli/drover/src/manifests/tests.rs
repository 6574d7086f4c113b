use serde_json::json;

use super::*;

fn yaml_of(text: &str) -> Result<Vec<Value>> {
    parse("a.yaml", text, Syntax::Yaml)
}

fn refusal(text: &str) -> String {
    yaml_of(text).unwrap_err().to_string()
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[test]
fn every_document_is_read_and_empty_documents_are_skipped() {
    let text = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n\n---\n# only a comment\n---\n\
                apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n";
    assert_eq!(yaml_of(text).unwrap(), [config_map("a"), config_map("b")]);
}

#[test]
fn lists_are_taken_apart_and_typed_ones_lend_their_kind() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n";
    assert_eq!(yaml_of(text).unwrap(), [config_map("a")]);
    let text = "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: b}\n";
    assert_eq!(yaml_of(text).unwrap(), [config_map("b")]);
}

#[test]
fn json_is_read_with_several_objects_in_a_row() {
    let text = format!("{}\n{}", config_map("a"), config_map("b"));
    assert_eq!(
        parse("a.json", &text, Syntax::Json).unwrap(),
        [config_map("a"), config_map("b")]
    );
    let error = parse("a.json", "{\"kind\":\n oops}", Syntax::Json)
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("a.json, line 2, column 2: "), "{error}");
}

#[test]
fn scalars_mean_what_they_mean_to_kubectl() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n\
                spec: {a: yes, b: 'yes', c: 0644, d: 1.5, e: ~, f: 12, g: 2024-01-01, h: off}\n";
    assert_eq!(
        yaml_of(text).unwrap()[0]["spec"],
        json!({"a": true, "b": "yes", "c": 420, "d": 1.5, "e": null, "f": 12, "g": "2024-01-01", "h": false})
    );
}

#[test]
fn a_number_as_a_key_becomes_text() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {1: one, true: two}\n";
    assert_eq!(yaml_of(text).unwrap()[0]["data"], json!({"1": "one", "true": "two"}));
}

#[test]
fn an_invalid_manifest_is_reported_with_file_document_and_field() {
    let good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let cases = [
        (
            "- a\n",
            "a.yaml is a list, not an object: a manifest starts with apiVersion and kind",
        ),
        ("kind: A\nmetadata: {name: a}\n", "a.yaml: apiVersion is missing"),
        ("apiVersion: v1\nmetadata: {name: a}\n", "a.yaml: kind is missing"),
        (
            "apiVersion: 1\nkind: A\n",
            "a.yaml: apiVersion is a number, not a text; put it in quotes",
        ),
        (
            "apiVersion: v1\nkind: A\n",
            "a.yaml (A): metadata is missing; it needs at least a name",
        ),
        (
            "apiVersion: v1\nkind: A\nmetadata: {}\n",
            "a.yaml (A): metadata.name is missing",
        ),
        (
            "apiVersion: v1\nkind: A\nmetadata: {name: 5}\n",
            "a.yaml (A): metadata.name is a number, not a text; put it in quotes",
        ),
        ("", "a.yaml contains no manifest"),
        (
            "apiVersion: v1\nkind: List\nitems: {}\n",
            "a.yaml: items is an object, not a list",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: [a]\n",
            "a.yaml, items[0] is a text, not an object: a manifest starts with apiVersion and kind",
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(refusal(text), wanted);
    }
    assert_eq!(
        refusal(&format!("{good}---\nkind: B\n")),
        "a.yaml, document 2: apiVersion is missing"
    );
}

#[test]
fn a_syntax_error_is_reported_with_its_line() {
    let error = refusal("apiVersion: v1\nkind: [A\nmetadata: {name: a}\n");
    assert!(error.starts_with("a.yaml, line "), "{error}");
    assert!(!error.contains('\n'), "{error}");
    let error = refusal("apiVersion: v1\nkind: A\nkind: B\nmetadata: {name: a}\n");
    assert!(error.starts_with("a.yaml, line 3, column 1: duplicate"), "{error}");
}

#[test]
fn manifests_of_a_directory_are_read_in_name_order() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let manifest = |name: &str| config_map(name).to_string();
    write("b.yaml", manifest("b"));
    write("a.json", manifest("a"));
    write("c.yml", manifest("c"));
    write("notes.txt", "no manifest".into());
    write("deeper/d.yaml", manifest("d"));
    let here = [directory.path().to_owned()];
    assert_eq!(read(&here, false).unwrap(), ["a", "b", "c"].map(config_map));
    assert_eq!(read(&here, true).unwrap(), ["a", "b", "c", "d"].map(config_map));
    let empty = directory.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let error = read(&[empty], false).unwrap_err().to_string();
    assert!(error.ends_with("has no file ending in .yaml, .yml or .json"), "{error}");
}
