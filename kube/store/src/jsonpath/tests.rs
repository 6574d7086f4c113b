use super::*;
use serde_json::json;

fn object() -> Value {
    json!({
        "metadata": {"name": "a", "labels": {"app.io/x": "1"}},
        "spec": {"ports": [{"name": "http", "port": 80}, {"name": "tls", "port": 443}], "weights": [1, 2, 3, 4]},
        "status": {"conditions": [{"type": "Joined", "status": "True"}, {"type": "Available", "status": "Unknown"}], "ok": true},
    })
}

#[test]
fn paths_select_what_kubectl_selects() {
    let table = [
        (".metadata.name", json!(["a"])),
        ("{.metadata.name}", json!(["a"])),
        ("$.metadata.name", json!(["a"])),
        ("metadata.name", json!(["a"])),
        (".metadata['name']", json!(["a"])),
        (".metadata.labels.app\\.io/x", json!(["1"])),
        (".metadata.labels['app.io/x']", json!(["1"])),
        (".metadata.labels[\"app\\.io/x\"]", json!(["1"])),
        (".spec.ports[0].port", json!([80])),
        (".spec.ports[-1].port", json!([443])),
        (".spec.ports[7].port", json!([])),
        (".spec.ports[*].name", json!(["http", "tls"])),
        (".spec.ports.*.name", json!(["http", "tls"])),
        (".spec.weights[1:3]", json!([2, 3])),
        (".spec.weights[-2:]", json!([3, 4])),
        (".spec.weights[::2]", json!([1, 3])),
        (".spec.weights[0,2]", json!([1, 3])),
        (".metadata['name','none']", json!(["a"])),
        (
            r#".status.conditions[?(@.type=="Available")].status"#,
            json!(["Unknown"]),
        ),
        (".status.conditions[?(@.type == 'Joined')].status", json!(["True"])),
        (".status.conditions[?(@.type=='None')].status", json!([])),
        (".status.conditions[?(@.type!='Joined')].type", json!(["Available"])),
        (".spec.ports[?(@.port>=443)].name", json!(["tls"])),
        (".spec.ports[?(@.port<443)].name", json!(["http"])),
        (".spec.ports[?(@.missing)].name", json!([])),
        (".spec.ports[?(@.name)].port", json!([80, 443])),
        ("..port", json!([80, 443])),
        (".none.at.all", json!([])),
        (".metadata.name.deeper", json!([])),
        (".status.ok", json!([true])),
    ];
    for (text, expected) in table {
        let path = JsonPath::parse(text).unwrap();
        let found: Vec<Value> = path.select(&object()).into_iter().cloned().collect();
        assert_eq!(Value::from(found.clone()), expected, "{text}");
        assert_eq!(path.first(&object()), found.first(), "{text}");
    }
    assert_eq!(JsonPath::parse(".").unwrap().first(&object()), Some(&object()));
}

#[test]
fn a_path_that_makes_no_sense_is_refused() {
    for text in [
        ".a[",
        ".a[x]",
        ".a['b",
        ".a[?(@.b",
        ".a[?(@.b=1)]",
        ".a[?(b==1)]",
        ".a[1:2:0]",
        ".a]",
        ".a[1;2]",
    ] {
        let error = JsonPath::parse(text).unwrap_err();
        assert!(error.starts_with(&format!("invalid JSONPath {text:?}: ")), "{error}");
    }
}

#[test]
fn filters_nest_as_deep_as_anybody_needs_and_no_deeper() {
    let nested = |depth: usize| format!(".a{}.b==1{}", "[?(@".repeat(depth), ")]".repeat(depth));
    assert!(JsonPath::parse(&nested(3)).is_ok());
    let error = JsonPath::parse(&format!(".a{}", "[?(@".repeat(20_000))).expect_err("too deep");
    assert!(error.ends_with("filters nest deeper than 32 levels"), "{error}");
}

#[test]
fn a_path_that_selects_values_many_times_over_selects_none() {
    let deep = (0..100).fold(json!(1), |inner, _| json!({"a": inner}));
    assert_eq!(JsonPath::parse("..a").unwrap().select(&deep).len(), 100);
    let path = JsonPath::parse(&".".repeat(20)).unwrap();
    assert_eq!(path.select(&deep), Vec::<&Value>::new());
}
