//! Cases for templates and charts: what we make of one, and what Go and Helm make of it when they are asked.
//!
//! The oracle is tests/conformance/gotemplate. `GOTEMPLATE_ORACLE` names the program that was built of it.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use gotemplate::helm::{Capabilities, Chart, KubeVersion, Release, RenderOptions};
use gotemplate::{Engine, Functions, MissingKey, Numbers, Value};
use serde_json::{Value as Json, json};

/// What we make of a case.
pub fn ours(case: &Json) -> Result<Json, String> {
    let template = case["template"].as_str().unwrap_or_default();
    let data = &case["data"];
    match case["mode"].as_str().unwrap() {
        "functions" => {
            let builtin = Functions::builtin();
            // sprig has a `slice` of its own in place of Go's.
            let added = |it: &&str| !builtin.contains(it) || *it == "slice";
            let names = Functions::helm().names().into_iter().filter(added);
            Ok(json!({"helm": names.collect::<Vec<_>>().join(" ")}))
        }
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

fn render(files: Vec<(String, String)>, values: Json, strict: bool) -> Result<BTreeMap<String, String>, String> {
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

/// What Go and Helm made of an answered case.
pub fn answered(case: &Json) -> Result<Json, String> {
    match case["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None if matches!(case["mode"].as_str(), Some("chart" | "functions")) => Ok(case["made"].clone()),
        None => Ok(case["output"].clone()),
    }
}

/// Whether we agree with an answer, and both answers where we do not.
pub fn difference(case: &Json) -> Option<String> {
    let (ours, theirs) = (ours(case), answered(case));
    let agreed = match (&ours, &theirs) {
        (Err(_), Err(_)) if case["loose"] == true => true,
        // Go walks its maps in any order, and so do the lines of what is wrong with a chart's values.
        (Err(ours), Err(theirs)) => ours == theirs || is_schema(theirs) && sorted(ours) == sorted(theirs),
        (ours, theirs) => ours == theirs,
    };
    if agreed {
        return None;
    }
    let (what, ours, theirs) = match (&ours, &theirs) {
        (Ok(Json::Object(ours)), Ok(Json::Object(theirs))) => {
            let name = theirs.keys().find(|it| ours.get(*it) != theirs.get(*it));
            let name = name
                .or_else(|| ours.keys().find(|it| !theirs.contains_key(*it)))
                .unwrap();
            (
                format!("{name} of {case}"),
                format!("{:?}", ours.get(name)),
                format!("{:?}", theirs.get(name)),
            )
        }
        (ours, theirs) => {
            let what = if case["mode"] == "chart" {
                case
            } else {
                &case["template"]
            };
            (what.to_string(), format!("{ours:?}"), format!("{theirs:?}"))
        }
    };
    Some(format!("{} {what}\n  Go:   {theirs}\n  ours: {ours}", case["mode"]))
}

fn is_schema(message: &str) -> bool {
    message.starts_with("values don't meet the specifications")
}

fn sorted(message: &str) -> Vec<&str> {
    let mut words: Vec<&str> = message.split(['\n', ',', ' ']).collect();
    words.sort_unstable();
    words
}

/// The cases with the answers of Go and Helm, or nothing when there is nobody to ask.
pub fn ask(cases: &[Json]) -> Option<Vec<Json>> {
    let program = std::env::var_os("GOTEMPLATE_ORACLE")?;
    let mut child = Command::new(&program)
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Helm warns about every table that meets something else.
        .stderr(Stdio::null())
        .spawn()
        .expect("GOTEMPLATE_ORACLE names the program built of tests/conformance/gotemplate");
    let mut input = child.stdin.take().unwrap();
    let lines: String = cases.iter().map(|it| format!("{it}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "the oracle failed");
    let lines = String::from_utf8(output.stdout).unwrap();
    Some(lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect())
}

/// Says which cases differ, when some do.
pub fn agree(cases: &[Json]) {
    let wrong: Vec<String> = cases.iter().filter_map(difference).collect();
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}
