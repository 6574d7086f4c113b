//! Every template of the corpus makes what go-template-utils made of it.
//!
//! `tests/fixtures/answers.jsonl` holds the corpus with the answers that `tests/conformance/upstream/policy-template`
//! recorded, one case a line; `objects.json` is the cluster that they look things up in. `POLICY_TEMPLATE_ORACLE` names
//! the program that was built of it.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use policy_template::{
    Input, KindReply, Query, Reply, Resolution, Source, TemplateContext, TemplateEncryption, TemplateKeys,
    TemplateSettings, render,
};
use serde_json::{Value, json};

const ANSWERS: &str = include_str!("fixtures/answers.jsonl");
const OBJECTS: &str = include_str!("fixtures/objects.json");
/// What a YAML library says about a text is its own.
const YAML: &str = "failed to convert the resolved template to JSON: ";

struct Recorded(Vec<Value>);

impl Source for Recorded {
    fn kind(&self, _: &str, kind: &str) -> KindReply {
        let (plural, namespaced) = match kind {
            "ConfigMap" => ("configmaps", true),
            "Secret" => ("secrets", true),
            "Node" => ("nodes", false),
            "ManagedCluster" => ("managedclusters", false),
            "ClusterClaim" => ("clusterclaims", false),
            _ => return KindReply::Missing,
        };
        KindReply::Known {
            plural: plural.to_owned(),
            namespaced,
        }
    }

    fn answer(&self, query: &Query) -> Reply {
        let is = |it: &Value, text: &str| it.as_str().unwrap_or_default() == text;
        let fits = |it: &&Value| {
            let labels = &it["metadata"]["labels"];
            let selected = |one: &str| match one.split_once('=') {
                Some((key, value)) => labels.get(key).is_some_and(|it| it == value),
                None => one.is_empty() || labels.get(one).is_some(),
            };
            is(&it["apiVersion"], &query.api_version)
                && is(&it["kind"], &query.kind)
                && (is(&it["metadata"]["namespace"], &query.namespace)
                    || query.namespace.is_empty() && query.name.is_empty())
                && (query.name.is_empty() || is(&it["metadata"]["name"], &query.name))
                && query.selector.split(',').all(selected)
        };
        let mut found = self.0.iter().filter(fits).cloned().map(Arc::new);
        if query.name.is_empty() {
            Reply::List(found.collect())
        } else {
            Reply::Object(found.next())
        }
    }
}

/// A case with our answer in place of the recorded one.
fn ours(objects: &Recorded, case: &Value) -> Value {
    let text = |field: &str| case[field].as_str().unwrap_or_default();
    let hub = case["hub"] == true;
    let mut settings = match (hub, case["everywhere"] == true) {
        (true, false) => TemplateSettings::hub("ns", "c1"),
        (true, true) => TemplateSettings::hub_with_service_account(),
        _ => TemplateSettings::managed(),
    };
    settings.skip_object = case["skip"] == true;
    let denied = case["denied"].as_array().into_iter().flatten();
    settings.denied = denied.map(|it| it.as_str().unwrap().to_owned()).collect();
    let keys = TemplateKeys {
        key: text("key").into(),
        previous: text("previous").into(),
        iv: text("iv").into(),
    };
    settings.encryption = match (case["encrypt"] == true, case["decrypt"] == true) {
        (true, _) => TemplateEncryption::Encrypt(keys),
        (_, true) => TemplateEncryption::Decrypt(keys),
        _ => TemplateEncryption::Off,
    };
    let context = if hub {
        let labels = BTreeMap::from([("env".to_owned(), "prod".to_owned())]);
        let root = json!({"metadata": {"name": "p", "namespace": "ns", "annotations": {"a": "b"}}});
        TemplateContext::hub("c1", labels, &root)
    } else {
        TemplateContext::object(&Arc::new(case["object"].clone()), text("namespace"), text("name"))
    };
    let input = match case["yaml"].as_str() {
        Some(text) => Input::Yaml(text),
        None => Input::Json(&case["input"]),
    };
    let mut made = case.as_object().unwrap().clone();
    for answer in ["output", "error", "sensitive", "skipped"] {
        made.remove(answer);
    }
    let mut skipped = false;
    match render(&settings, objects, input, &context) {
        Ok(Resolution::Done(done)) => {
            skipped = done.skip_object;
            made.insert("output".to_owned(), done.value);
            if done.sensitive {
                made.insert("sensitive".to_owned(), json!(true));
            }
        }
        Ok(Resolution::Needs(queries)) => panic!("{queries:?}"),
        Err(failed) => {
            skipped |= failed.skip_object;
            made.insert("error".to_owned(), json!(failed.to_string()));
        }
    }
    if skipped {
        made.insert("skipped".to_owned(), json!(true));
    }
    Value::Object(made)
}

fn agrees(ours: &Value, theirs: &Value) -> bool {
    match (ours["error"].as_str(), theirs["error"].as_str()) {
        (Some(_), Some(_)) if theirs["loose"] == true => true,
        (Some(ours), Some(theirs)) if theirs.starts_with(YAML) => ours.starts_with(YAML),
        _ => ours == theirs,
    }
}

fn cases() -> Vec<Value> {
    ANSWERS
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_case_renders_as_in_go_template_utils() {
    let objects = Recorded(serde_json::from_str(OBJECTS).unwrap());
    let cases = cases();
    let mut wrong = Vec::new();
    for theirs in &cases {
        let ours = ours(&objects, theirs);
        if !agrees(&ours, theirs) {
            let tell = |it: &Value| match it.get("error") {
                Some(error) => error.to_string(),
                None => format!("{} {} {}", it["output"], it["sensitive"], it["skipped"]),
            };
            let what = theirs.get("yaml").unwrap_or(&theirs["input"]);
            wrong.push(format!("{what}\n  Go:   {}\n  ours: {}", tell(theirs), tell(&ours)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_recorded_answers_are_those_of_go_template_utils() {
    let Some(program) = std::env::var_os("POLICY_TEMPLATE_ORACLE") else {
        println!("skipped: POLICY_TEMPLATE_ORACLE names no program to ask");
        return;
    };
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // The library logs what it cannot resolve.
        .stderr(Stdio::null())
        .spawn()
        .expect("POLICY_TEMPLATE_ORACLE names the program built of tests/conformance/upstream/policy-template");
    let mut input = child.stdin.take().unwrap();
    let text = format!("{}\n{ANSWERS}", OBJECTS.replace('\n', " "));
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "the oracle failed");
    let lines = String::from_utf8(output.stdout).unwrap();
    let live: Vec<Value> = lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(live, cases());
}

#[test]
fn yaml_that_explodes_or_is_deep_is_refused_soon() {
    let objects = Recorded(Vec::new());
    let bomb: String = (1..30)
        .map(|at| format!("a{at}: &a{at} [*a{0}, *a{0}, *a{0}, *a{0}]\n", at - 1))
        .collect();
    let deep = |open: &str, close: &str| format!("a: {}{}\n", open.repeat(20_000), close.repeat(20_000));
    let lines: String = (0..20_000)
        .map(|at| format!("{}a: \n", " ".repeat(at.min(3_000))))
        .collect();
    let made = "{{ repeat 20000 \"[\" }}{{ repeat 20000 \"]\" }}".to_owned();
    for text in [
        format!("a0: &a0 x\n{bomb}"),
        deep("[", "]"),
        deep("{a: ", "}"),
        lines,
        made,
    ] {
        let began = std::time::Instant::now();
        let settings = TemplateSettings::managed();
        let outcome = render(&settings, &objects, Input::Yaml(&text), &TemplateContext::none());
        assert!(outcome.is_err(), "{:.60}", text);
        assert!(began.elapsed().as_secs() < 20, "{:.60}", text);
    }
}
