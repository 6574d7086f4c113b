//! Charts as people write them, in `tests/charts`, make what Helm makes of them with the values of
//! `tests/fixtures/charts.jsonl`.
//!
//! To add a case, append `{"chart": …, "data": …}` and run this test with `GOTEMPLATE_ORACLE` and
//! `GOTEMPLATE_RECORD=1`.

mod oracle;

use std::path::Path;

use serde_json::{Map, Value as Json, json};

const ANSWERS: &str = include_str!("fixtures/charts.jsonl");

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").leak()
}

fn files(folder: &Path, prefix: &str, found: &mut Map<String, Json>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            files(&entry.path(), &format!("{name}/"), found);
        } else {
            found.insert(name, json!(std::fs::read_to_string(entry.path()).unwrap()));
        }
    }
}

fn cases() -> Vec<Json> {
    let case = |line: &str| {
        let mut case: Json = serde_json::from_str(line).unwrap();
        let chart = folder().join("charts").join(case["chart"].as_str().unwrap());
        let mut found = Map::new();
        files(&chart, "", &mut found);
        // Files in memory are not filtered by Helm; `.helmignore` counts where it reads a folder.
        found.retain(|name, _| !name.ends_with(".bak"));
        case["mode"] = json!("chart");
        case["files"] = Json::Object(found);
        case
    };
    ANSWERS.lines().map(case).collect()
}

#[test]
fn charts_on_disk_are_rendered_as_helm_renders_them() {
    let cases = cases();
    let Some(live) = oracle::ask(&cases) else {
        return oracle::agree(&cases);
    };
    oracle::agree(&live);
    let recorded = cases.iter().zip(&live).map(|(case, live)| {
        let mut line = json!({"chart": case["chart"], "data": case["data"]});
        for field in ["made", "error"] {
            if !live[field].is_null() {
                line[field] = live[field].clone();
            }
        }
        format!("{line}\n")
    });
    let recorded: String = recorded.collect();
    if std::env::var_os("GOTEMPLATE_RECORD").is_some() {
        std::fs::write(folder().join("fixtures/charts.jsonl"), recorded).unwrap();
    } else {
        assert_eq!(recorded, ANSWERS);
    }
}
