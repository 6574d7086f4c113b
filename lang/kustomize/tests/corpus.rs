//! Every folder of the corpus makes what kustomize made of it.
//!
//! `tests/corpus/NAME/input` is a tree, and `expected.json` beside it is what tests/conformance/kustomize recorded of
//! it, by `kustomize-oracle record lang/kustomize/tests/corpus/*`. A tree with a folder `overlay` is about that one.
//! `KUSTOMIZE_ORACLE` names the program that was built of it. Of errors, only that there is one counts.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use kustomize::{KustomizeFiles, build};
use serde_json::{Value, json};

fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut cases: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    cases.sort();
    cases
}

fn read(files: &mut KustomizeFiles, root: &Path, folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if path.is_symlink() {
            files.insert_link(&name).unwrap();
        } else if path.is_dir() {
            read(files, root, &path);
        } else {
            files.insert(&name, fs::read(&path).unwrap()).unwrap();
        }
    }
}

fn target(case: &Path) -> (PathBuf, &'static str) {
    let input = case.join("input");
    let overlay = input.join("overlay");
    if overlay.is_dir() {
        (overlay, "overlay")
    } else {
        (input, "")
    }
}

fn ours(case: &Path) -> Value {
    let mut files = KustomizeFiles::new();
    read(&mut files, &case.join("input"), &case.join("input"));
    match build(&files, target(case).1) {
        Ok(objects) if objects.is_empty() => json!({}),
        Ok(objects) => json!({"objects": objects}),
        Err(error) => json!({"error": error.to_string()}),
    }
}

/// The answers without their words.
fn fact(answer: &Value) -> Value {
    if answer["error"].is_null() {
        json!({"objects": answer["objects"]})
    } else {
        json!("an error")
    }
}

#[test]
fn every_folder_is_built_as_kustomize_builds_it() {
    let mut failed = 0;
    for case in corpus() {
        let expected: Value = serde_json::from_slice(&fs::read(case.join("expected.json")).unwrap()).unwrap();
        let ours = ours(&case);
        if fact(&ours) != fact(&expected) {
            failed += 1;
            println!("{}\n  ours: {ours:#}\n  kustomize's: {expected:#}", case.display());
        }
    }
    assert_eq!(failed, 0, "of {} cases", corpus().len());
}

#[test]
fn the_recorded_answers_are_those_of_the_oracle() {
    let Ok(oracle) = std::env::var("KUSTOMIZE_ORACLE") else {
        println!("skipped: KUSTOMIZE_ORACLE names no program to ask");
        return;
    };
    let cases = corpus();
    let answered = Command::new(oracle)
        .args(cases.iter().map(|it| target(it).0))
        .output()
        .unwrap();
    let answers: Vec<Value> = String::from_utf8(answered.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), cases.len());
    for (case, live) in cases.iter().zip(&answers) {
        let recorded: Value = serde_json::from_slice(&fs::read(case.join("expected.json")).unwrap()).unwrap();
        assert_eq!(fact(&recorded), fact(live), "{}", case.display());
    }
}
