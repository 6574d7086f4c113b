//! Every template and chart of the corpus makes what Go and Helm made of it.
//!
//! `tests/fixtures/answers.jsonl` holds the corpus with the answers that conformance/gotemplate recorded, one case a line.

use std::io::Write;
use std::process::{Command, Stdio};

use gotemplate::helm::{Capabilities, Chart, KubeVersion, Release, RenderOptions};
use gotemplate::{Engine, Functions, MissingKey, Numbers, Value};
use serde_json::{Value as Json, json};

const ANSWERS: &str = include_str!("fixtures/answers.jsonl");

fn cases() -> Vec<Json> {
    ANSWERS
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn ours(case: &Json) -> Result<Json, String> {
    let template = case["template"].as_str().unwrap_or_default();
    let data = &case["data"];
    match case["mode"].as_str().unwrap() {
        "chart" => {
            let files = case["files"].as_object().unwrap();
            let files = files
                .iter()
                .map(|(name, text)| (name.clone(), text.as_str().unwrap().to_owned()));
            render(files.collect(), data.clone(), case["strict"] == true).map(|it| json!(it))
        }
        "helm" => {
            let values = if data.is_null() {
                "{}".to_owned()
            } else {
                data.to_string()
            };
            let files = [
                (
                    "Chart.yaml",
                    "apiVersion: v2\nname: c\nversion: 0.1.0\nappVersion: v9\n",
                ),
                ("values.yaml", &values),
                ("files/a.txt", "one\ntwo\n"),
                ("files/b.conf", "k=v"),
                ("templates/t.yaml", template),
            ];
            let files = files
                .iter()
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
                .collect();
            let made = render(files, json!({}), case["strict"] == true)?;
            Ok(json!(made["c/templates/t.yaml"]))
        }
        mode => {
            let functions = if mode == "sprig" {
                Functions::sprig()
            } else {
                Functions::builtin()
            };
            let missing = match case["missing"].as_str() {
                Some("error") => MissingKey::Error,
                Some("zero") => MissingKey::Zero,
                _ => MissingKey::Default,
            };
            let engine = Engine::new(functions).missing_key(missing);
            let parsed = engine.parse("t", template).map_err(|it| it.to_string())?;
            let data = if data.is_null() {
                Value::Missing
            } else {
                Value::from_json(data, Numbers::Float)
            };
            parsed.render_value(data).map(Json::from).map_err(|it| it.to_string())
        }
    }
}

fn render(
    files: Vec<(String, String)>,
    values: Json,
    strict: bool,
) -> Result<std::collections::BTreeMap<String, String>, String> {
    let chart = Chart::from_files(files).map_err(|it| it.to_string())?;
    let capabilities = Capabilities {
        kube_version: KubeVersion::parse("v1.31.2"),
        api_versions: ["v1", "apps/v1", "batch/v1"].map(str::to_owned).to_vec(),
        helm_version: "v3.21.4".to_owned(),
    };
    let options = RenderOptions {
        strict,
        ..RenderOptions::default()
    };
    chart
        .render_files(&Release::install("rel", "ns"), &capabilities, values, &options)
        .map_err(|it| it.to_string())
}

fn recorded(case: &Json) -> Result<Json, String> {
    match case["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None if case["mode"] == "chart" => Ok(case["made"].clone()),
        None => Ok(case["output"].clone()),
    }
}

#[test]
fn every_case_of_the_corpus_is_rendered_as_go_renders_it() {
    let mut wrong = Vec::new();
    let cases = cases();
    for case in &cases {
        let (ours, theirs) = (ours(case), recorded(case));
        let agreed = match (&ours, &theirs) {
            (Err(_), Err(_)) if case["loose"] == true => true,
            (ours, theirs) => ours == theirs,
        };
        if !agreed {
            let what = if case["mode"] == "chart" {
                &case["files"]
            } else {
                &case["template"]
            };
            wrong.push(format!("{} {what}\n  Go:   {theirs:?}\n  ours: {ours:?}", case["mode"]));
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
fn the_recorded_answers_are_those_of_the_oracle() {
    let oracle = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/gotemplate");
    // Running it takes Go and its modules; asking for it is left to whoever has both.
    if std::env::var_os("GOTEMPLATE_ORACLE").is_none() {
        println!("skipped: set GOTEMPLATE_ORACLE=1 to ask Go and Helm themselves (conformance/gotemplate)");
        return;
    }
    let started = Command::new("go")
        .args(["run", "."])
        .current_dir(oracle)
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        println!("skipped: there is no go command");
        return;
    };
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(ANSWERS.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join();
    if !output.status.success() {
        println!("skipped: the oracle could not be built or run");
        return;
    }
    let live: Vec<Json> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(live, cases());
}
