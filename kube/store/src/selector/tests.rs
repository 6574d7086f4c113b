use super::*;
use serde_json::json;

fn labels() -> Value {
    json!({"app": "web", "tier": "2", "empty": "", "example.com/zone": "b"})
}

#[test]
fn the_label_grammar_matches_what_kubernetes_matches() {
    let table = [
        ("", true),
        ("app=web", true),
        ("app==web", true),
        ("app=db", false),
        ("app!=db", true),
        ("absent!=db", true),
        ("app in (web, db)", true),
        ("app in (db)", false),
        ("app notin (db,web)", false),
        ("absent notin (a)", true),
        ("app", true),
        ("!app", false),
        ("! absent", true),
        ("tier>1", true),
        ("tier > 2", false),
        ("tier<3", true),
        ("app>1", false),
        ("absent<5", false),
        ("empty=", true),
        ("empty", true),
        ("app=", false),
        ("empty in ()", true),
        ("empty in (,x)", true),
        ("app in (x,,y)", false),
        ("app=web,tier=2,!absent", true),
        ("app=web , tier=3", false),
        ("example.com/zone in (a,b)", true),
        ("in=x", false),
        ("notin notin (in, notin)", true),
    ];
    for (text, expected) in table {
        let selector = LabelSelector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(selector.matches(&labels()), expected, "{text}");
    }
}

#[test]
fn label_selectors_that_do_not_parse_say_what_was_found() {
    let table = [
        (
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("a,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        (
            "a in (b c)",
            "unable to parse requirement: found 'c', expected: ',' or ')'",
        ),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("!=a", "found '!=', expected: !, identifier, or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a=>", "unable to parse requirement: found '>', expected: identifier"),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "a=b@",
            "unable to parse requirement: values[0][a]: Invalid value: \"b@\": a valid label must be an empty string or consist of \
             alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
             'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
        (
            "-a",
            "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of alphanumeric characters, '-', '_' or '.', \
             and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
             is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(LabelSelector::parse(text).unwrap_err(), expected, "{text}");
    }
}

#[test]
fn a_label_selector_object_selects_like_its_text_form() {
    let object = json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["3", "2"]},
            {"key": "absent", "operator": "DoesNotExist"},
        ],
    });
    let selector = LabelSelector::from_json(&object).unwrap();
    assert!(selector.matches(&labels()));
    assert_eq!(selector, LabelSelector::parse("app=web,!absent,tier in (2,3)").unwrap());
    assert_eq!(selector.to_string(), "!absent,app=web,tier in (2,3)");
    assert!(LabelSelector::from_json(&json!({})).unwrap().is_everything());
    assert!(!LabelSelector::from_json(&Value::Null).unwrap().matches(&labels()));
    let bad = json!({"matchExpressions": [{"key": "a", "operator": "Like", "values": ["x"]}]});
    assert_eq!(
        LabelSelector::from_json(&bad).unwrap_err(),
        "\"Like\" is not a valid label selector operator"
    );
    let empty = json!({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]});
    let error = "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty";
    assert_eq!(LabelSelector::from_json(&empty).unwrap_err(), error);
}

#[test]
fn field_selectors_know_their_escapes() {
    let table = [
        ("", vec![]),
        ("metadata.name=a", vec![("metadata.name", true, "a")]),
        (
            "metadata.name==a,status.phase!=Failed",
            vec![("metadata.name", true, "a"), ("status.phase", false, "Failed")],
        ),
        (r"a=x\,y\=z\\", vec![("a", true, r"x,y=z\")]),
        ("a=", vec![("a", true, "")]),
        (",a=b,", vec![("a", true, "b")]),
    ];
    for (text, expected) in table {
        let selector = FieldSelector::parse(text).unwrap();
        let terms: Vec<_> = selector
            .terms()
            .iter()
            .map(|it| (it.field.as_str(), it.equal, it.value.as_str()))
            .collect();
        assert_eq!(terms, expected, "{text}");
        assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector, "{text}");
    }
}

#[test]
fn invalid_field_selectors_are_refused_with_the_offending_part() {
    let table = [
        (
            "metadata.name",
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
        ),
        ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
        (r"a=\n", r"invalid field selector: invalid escape sequence: \n"),
        ("a=b=c", "invalid field selector: unescaped character in value: ="),
    ];
    for (text, expected) in table {
        assert_eq!(FieldSelector::parse(text).unwrap_err(), expected, "{text}");
    }
}

#[test]
fn a_field_selector_counts_a_missing_field_as_empty() {
    let selector = FieldSelector::parse("metadata.name=a,spec.nodeName=").unwrap();
    assert_eq!(selector.metadata_name(), Some("a"));
    assert!(selector.matches(|field| (field == "metadata.name").then(|| "a".into())));
    assert!(!selector.matches(|_| Some("b".into())));
    assert!(FieldSelector::parse("status.phase!=x").unwrap().matches(|_| None));
}
