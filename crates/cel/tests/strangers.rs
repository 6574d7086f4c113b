//! Whatever strangers write, reading and evaluating it comes back: with a value or with a sentence, in bounded time, and
//! never because a panic was caught.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use safe_cel::{Budget, Error, Library, from_json};
use serde_json::json;

/// Answers, and holds that it did so in the way it should.
fn ask(text: &str) {
    let library = Library::kubernetes();
    let began = Instant::now();
    let expression = match library.compile(text, &["object", "oldObject"]) {
        Ok(it) => it,
        Err(error) => {
            assert!(error.to_string().starts_with("compilation failed: "), "{text}");
            assert!(!error.to_string().contains("cannot be read"), "{text}: {error}");
            return;
        }
    };
    let object = json!({
        "kind": "Thing", "metadata": {"name": "a", "labels": {"x": "ü", "a.b/c": ""}}, "spec": {"n": 3, "f": 1.5, "big": -9223372036854775808_i64,
        "list": [1, 2, 3], "mixed": [null, true, "s", 1, {"k": []}], "text": "héllo wörld 2026-02-30T25:61:61é"}, "status": null,
    });
    let mut context = library.scope();
    context.add_variable_from_value("object", from_json(&object));
    context.add_variable_from_value("oldObject", from_json(&json!(null)));
    let answer = expression.evaluate(&context, &mut Budget::of_object());
    assert_ne!(answer, Err(Error::Engine), "{text}");
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{text} took {:?}",
        began.elapsed()
    );
}

fn literal() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|it| it.to_string()),
        any::<u64>().prop_map(|it| format!("{it}u")),
        any::<f64>().prop_map(|it| format!("{it:e}")),
        "[a-zé0-9%. ]{0,8}".prop_map(|it| format!("'{it}'")),
        prop::sample::select(vec![
            "null",
            "true",
            "false",
            "b'\\xff'",
            "r'\\d'",
            "[]",
            "{}",
            "object",
            "oldObject",
            "object.spec",
            "object.spec.text",
            "object.spec.list",
            "object.spec.big",
            "object.spec.mixed",
            "object.metadata.labels",
            "'(a|b)*'",
            "'1e-9999'",
            "'10Gi'",
            "'-1.5e3m'",
            "'2026-02-30T00:00:00Z'",
            "'9999999999999999h'",
            "'1.2.3-a+b'",
            "'::1/129'",
            "'%.5f%d%s'",
            "'http://[::1'",
            "optional.none()",
            "timestamp('9999-12-31T23:59:59Z')",
            "duration('290y')",
            "duration('2562047h')",
        ])
        .prop_map(str::to_owned),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    literal().prop_recursive(5, 40, 4, |inner| {
        let operators = vec![
            "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||", ". ?",
        ];
        let methods = vec![
            "size",
            "startsWith",
            "endsWith",
            "contains",
            "matches",
            "find",
            "findAll",
            "split",
            "join",
            "replace",
            "substring",
            "trim",
            "lowerAscii",
            "upperAscii",
            "charAt",
            "indexOf",
            "lastIndexOf",
            "reverse",
            "format",
            "isSorted",
            "sum",
            "min",
            "max",
            "slice",
            "sort",
            "flatten",
            "distinct",
            "first",
            "last",
            "getFullYear",
            "getMonth",
            "getDayOfYear",
            "getHours",
            "getMinutes",
            "getSeconds",
            "getMilliseconds",
            "getDate",
            "getDayOfWeek",
            "isGreaterThan",
            "isLessThan",
            "compareTo",
            "add",
            "sub",
            "asInteger",
            "asApproximateFloat",
            "isInteger",
            "sign",
            "major",
            "minor",
            "patch",
            "family",
            "containsIP",
            "containsCIDR",
            "masked",
            "prefixLength",
            "isUnspecified",
            "isLoopback",
            "ip",
            "getScheme",
            "getHost",
            "getPort",
            "getQuery",
            "getEscapedPath",
            "getHostname",
            "hasValue",
            "value",
            "orValue",
            "or",
            "validate",
            "string",
        ];
        let functions = vec![
            "size",
            "int",
            "uint",
            "double",
            "string",
            "bool",
            "bytes",
            "timestamp",
            "duration",
            "type",
            "dyn",
            "quantity",
            "isQuantity",
            "semver",
            "isSemver",
            "ip",
            "isIP",
            "cidr",
            "isCIDR",
            "url",
            "isURL",
            "max",
            "min",
            "math.greatest",
            "math.least",
            "math.abs",
            "math.ceil",
            "math.floor",
            "math.round",
            "math.trunc",
            "math.sign",
            "math.isNaN",
            "math.bitShiftLeft",
            "math.bitShiftRight",
            "math.bitAnd",
            "math.bitNot",
            "math.sqrt",
            "sets.contains",
            "sets.intersects",
            "sets.equivalent",
            "base64.decode",
            "base64.encode",
            "optional.of",
            "optional.ofNonZeroValue",
            "format.named",
            "ip.isCanonical",
            "strings.quote",
            "jsonpatch.escapeKey",
        ];
        let formats = vec![
            "dns1123Label",
            "dns1123Subdomain",
            "qualifiedName",
            "labelValue",
            "uri",
            "uuid",
            "byte",
            "date",
            "datetime",
            "dns1035LabelPrefix",
        ];
        let macros = vec!["all", "exists", "exists_one", "map", "filter"];
        prop_oneof![
            (inner.clone(), prop::sample::select(operators), inner.clone())
                .prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (
                inner.clone(),
                prop::sample::select(methods),
                prop::collection::vec(inner.clone(), 0..3)
            )
                .prop_map(|(it, method, args)| format!("{it}.{method}({})", args.join(", "))),
            (
                prop::sample::select(functions),
                prop::collection::vec(inner.clone(), 0..3)
            )
                .prop_map(|(function, args)| format!("{function}({})", args.join(", "))),
            (prop::sample::select(formats), inner.clone())
                .prop_map(|(it, arg)| format!("format.{it}().validate({arg})")),
            (inner.clone(), prop::sample::select(macros), inner.clone())
                .prop_map(|(it, name, body)| format!("{it}.{name}(x, x == {body})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            prop::collection::vec(inner.clone(), 0..4).prop_map(|it| format!("[{}]", it.join(", "))),
            (inner.clone(), inner.clone()).prop_map(|(k, v)| format!("{{{k}: {v}}}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[{b}]")),
            inner.clone().prop_map(|it| format!("{it}.?spec[?'n']")),
            inner.clone().prop_map(|it| format!("has({it}.spec)")),
            inner.clone().prop_map(|it| format!("-{it}")),
            inner.prop_map(|it| format!("!{it}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_grammatical_is_answered(text in expression()) {
        ask(&text);
    }

    #[test]
    fn what_is_nearly_grammatical_is_answered(text in expression(), cuts in prop::collection::vec((any::<prop::sample::Index>(), "[-+*/%!?:.,(){}'\"`\\\\\\[\\]a-zé0-9 \n]{0,3}"), 1..4)) {
        let mut letters: Vec<char> = text.chars().collect();
        for (at, put) in cuts {
            let at = at.index(letters.len());
            letters.splice(at..=at, put.chars());
            if letters.is_empty() {
                break;
            }
        }
        ask(&letters.into_iter().collect::<String>());
    }

    #[test]
    fn what_is_no_grammar_at_all_is_answered(text in "\\PC{0,60}", tokens in prop::collection::vec(prop::sample::select(vec![
        "(", ")", "[", "]", "{", "}", "?", ":", "'", "\"", "`", "\\", "in", ".", "has(", "x", "1", "b'", "r'", "'''", "//", "\n", "&&", "|", "é",
    ]), 0..60)) {
        ask(&text);
        ask(&tokens.concat());
    }
}
