//! Every template and chart of the corpus makes what Go and Helm made of it.
//!
//! `tests/fixtures/answers.jsonl` holds the corpus with the answers that tests/conformance/gotemplate recorded,
//! one case a line.

mod oracle;

use serde_json::Value as Json;

const ANSWERS: &str = include_str!("fixtures/answers.jsonl");

fn cases() -> Vec<Json> {
    ANSWERS
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_case_of_the_corpus_renders_as_in_go() {
    oracle::agree(&cases());
}

#[test]
fn the_recorded_answers_are_those_of_the_oracle() {
    match oracle::ask(&cases()) {
        Some(live) => assert_eq!(live, cases()),
        None => println!("skipped: GOTEMPLATE_ORACLE names no program to ask"),
    }
}
