//! A template of somebody else costs no more than it may, whatever it says.

use gotemplate::{Engine, Functions, Numbers, Value};
use proptest::prelude::*;
use serde_json::json;

fn refusal(template: &str) -> String {
    let engine = Engine::new(Functions::helm());
    let outcome = engine
        .parse("t", template)
        .and_then(|it| it.render(&json!({"l": [1, 2]})));
    outcome.expect_err("the template is refused").to_string()
}

#[test]
fn a_template_that_calls_itself_ends_with_an_error() {
    assert!(
        refusal(r#"{{ define "r" }}{{ template "r" . }}{{ end }}{{ template "r" . }}"#).contains("exceeded maximum")
    );
    assert!(refusal(r#"{{ define "r" }}{{ include "r" . }}{{ end }}{{ include "r" . }}"#).contains("nested reference"));
    assert!(
        refusal(r#"{{ define "r" }}{{ tpl "{{ include \"r\" . }}" . }}{{ end }}{{ include "r" . }}"#)
            .contains("nested")
    );
}

#[test]
fn a_text_that_grows_without_end_is_refused() {
    assert!(refusal("{{ repeat 999999999 \"x\" }}").contains("larger than"));
    assert!(
        refusal("{{ $s := \"xxxxxxxx\" }}{{ range until 40 }}{{ $s = print $s $s }}{{ end }}{{ $s }}")
            .contains("larger")
    );
    assert!(refusal("{{ until 2000000000 }}").contains("too long"));
    assert!(refusal("{{ range 9223372036854775807 }}{{ end }}").contains("too long"));
    assert!(
        refusal("{{ $l := list 1 }}{{ range until 60 }}{{ $l = list $l $l }}{{ end }}{{ toJson $l | fail }}")
            .contains("ERR")
    );
}

#[test]
fn a_template_that_works_too_long_is_stopped() {
    for template in [
        "{{ range until 1000000 }}{{ range until 1000000 }}{{ end }}{{ end }}",
        // Few steps, and much to do in each.
        "{{ range until 1000000 }}{{ $x := repeat 60000000 \"a\" }}{{ end }}",
        "{{ $x := repeat 60000000 \"a\" }}{{ range until 1000000 }}{{ $y := $x | len }}{{ end }}",
        "{{ $l := until 400000 }}{{ range until 1000000 }}{{ $y := reverse $l }}{{ end }}",
        "{{ $y := until 400000 | uniq }}",
        "{{ $l := until 400000 }}{{ range until 1000000 }}{{ $y := has 0.5 $l }}{{ end }}",
        "{{ range until 1000000 }}{{ $y := genPrivateKey \"ecdsa\" }}{{ end }}",
    ] {
        let engine = Engine::new(Functions::helm()).work_max(3_000_000);
        let outcome = engine.parse("t", template).and_then(|it| it.render(&json!({})));
        let error = outcome.expect_err("the template is stopped").to_string();
        assert!(error.contains("takes too long"), "{template}: {error}");
    }
}

#[test]
fn what_costs_no_more_than_its_text_is_made() {
    let table = [
        (r#"{{ repeat 2000000 "x" | wrapWith 1 "," }}"#, 3_999_999),
        // Go writes a million decimals.
        (r#"{{ printf "%.1000000f" 1.5 }}"#, 1_000_002),
        (r#"{{ printf "%.1000000e" 1.5 }}"#, 1_000_006),
        (r#"{{ printf "%.1000000x" 1.5 }}"#, 1_000_008),
        (r#"{{ printf "%1000000.1000g" 1.5 }}"#, 1_000_000),
    ];
    for (template, length) in table {
        let engine = Engine::new(Functions::helm());
        let text = engine.parse("t", template).and_then(|it| it.render(&json!({})));
        assert_eq!(text.unwrap().len(), length, "{template}");
    }
}

#[test]
fn a_map_cannot_be_put_into_itself() {
    assert!(refusal("{{ $d := dict }}{{ $_ := set $d \"x\" (list $d) }}").contains("contains the map"));
}

#[test]
fn deep_nesting_is_refused_rather_than_followed() {
    let parentheses = format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(refusal(&parentheses).contains("depth"));
    let blocks = format!("{}x{}", "{{if 1}}".repeat(100_000), "{{end}}".repeat(100_000));
    assert!(refusal(&blocks).contains("too deeply"));
    let data = "{{ $l := list }}{{ range until 200000 }}{{ $l = list $l }}{{ end }}{{ mustToJson $l }}";
    assert!(refusal(data).contains("too deeply"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_parsed_or_refused(text in ".{0,60}") {
        let engine = Engine::new(Functions::helm());
        let _ = engine.parse("t", &format!("{{{{{text}}}}}")).and_then(|it| it.render(&json!({"a": 1})));
        let _ = engine.parse("t", &text);
    }

    #[test]
    fn any_sequence_of_tokens_is_rendered_or_refused(words in prop::collection::vec(
        prop::sample::select(vec![
            "{{", "}}", "{{-", "-}}", "if", "else", "end", "range", "with", "define", "\"x\"", "$x", ":=", "=", "|", "(",
            ")", ".", ".a", ".l", ".m.k", "1", "-1", "1.5", "nil", "true", "break", "continue", "template", "include",
            "tpl", "index", "slice", "printf", "\"%d %s %v %q %5.2f\"", "trunc", "substr", "until", "list", "dict", "set",
            "toYaml", "fromYaml", "regexSplit", "splitn", "abbrev", "wrap", "round", "date", "dig", "chunk", "seq",
            "semver", "b32dec", "b64dec", "add", "div", "mod", "$", "and", "or", "eq", "lt", "len", ",", " ", "\n",
        ]),
        0..24,
    )) {
        let engine = Engine::new(Functions::helm());
        let data = json!({"a": -7, "l": [1, "é", null, {"k": []}], "m": {"k": "v"}});
        if let Ok(template) = engine.parse("t", &words.join(" ")) {
            let _ = template.render_value(Value::from_json(&data, Numbers::Float));
        }
        // The same words in one action each are more often a template.
        for function in Functions::helm().names() {
            if function.starts_with("gen") || matches!(function, "bcrypt" | "htpasswd") {
                continue;
            }
            let args = words.iter().filter(|it| it.starts_with(['.', '"', '1', '-', '$'])).take(3);
            let text = args.fold(format!("{{{{ {function}"), |text, it| format!("{text} {it}")) + " }}";
            if words.len() % 8 == 0 && let Ok(template) = engine.parse("t", &text) {
                let _ = template.render_value(Value::from_json(&data, Numbers::Float));
            }
        }
    }
}
