//! What strangers may send, without a fuzzer: `tests/fuzz/seeds`, changed by dice a thousand times, and whatever lies
//! in `tests/fuzz/findings`. `FUZZ_ROUNDS=N` changes them more often, `FUZZ_SEED=N` otherwise.

#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

fn asked(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(otherwise, |it| {
        it.parse().unwrap_or_else(|_| panic!("{name} is a number"))
    })
}

/// What parsers look for.
const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\u0000",
    "null",
    "true",
    "-1",
    "1e400",
    "18446744073709551616",
    "0.1",
    ",",
    ":",
    "%00",
    "%2F",
    "..",
    "//",
    "\n",
    "\r\n",
    "\t",
    "é",
    "\u{202e}",
    "=",
    "!=",
    " in (",
    ")",
    "&",
    "*",
    "$patch",
    "$retainKeys",
    "/-",
    "~0",
    "~1",
    "metadata",
    "name",
    "resourceVersion",
    "&watch=1",
    "limit=-1",
    "Ki",
    "-----BEGIN",
    "eyJ",
    ".",
    "x-kubernetes-",
    "default",
    "\u{ff}",
];

fn change(dice: &mut StdRng, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = dice.random_range(0..=bytes.len());
    match dice.random_range(0..8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << dice.random_range(0..8),
        1 if at < bytes.len() => bytes[at] = dice.random(),
        2 => bytes.truncate(at),
        3 => {
            let end = (at + dice.random_range(0..30)).min(bytes.len());
            bytes.drain(at..end);
        }
        4 => {
            let end = (at + dice.random_range(0..200)).min(bytes.len());
            let piece = bytes[at..end].to_vec();
            let to = dice.random_range(0..=bytes.len());
            bytes.splice(to..to, piece);
        }
        5 => {
            let from = dice.random_range(0..=other.len());
            let end = (from + dice.random_range(0..100)).min(other.len());
            bytes.splice(at..at, other[from..end].iter().copied());
        }
        6 => {
            // Deep, or long.
            let word = WORDS[dice.random_range(0..WORDS.len())].repeat(dice.random_range(1..300));
            bytes.splice(at..at, word.into_bytes());
        }
        _ => {
            let word = WORDS[dice.random_range(0..WORDS.len())];
            bytes.splice(at..at, word.bytes());
        }
    }
    bytes.truncate(1 << 16);
}

fn attack(name: &str, target: fn(&[u8])) {
    let attempt = |bytes: &[u8], which: &str| {
        if catch_unwind(AssertUnwindSafe(|| target(bytes))).is_err() {
            let path = std::env::temp_dir().join(format!("finding-{name}"));
            std::fs::write(&path, bytes).unwrap();
            panic!(
                "{name} fell for {which}: {:?}; kept in {}",
                String::from_utf8_lossy(bytes),
                path.display()
            );
        }
    };
    let mut known: Vec<Vec<u8>> = Vec::new();
    for kind in ["seeds", "findings"] {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../fuzz")
            .join(kind)
            .join(name);
        let mut paths: Vec<_> = std::fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|it| it.path())
            .collect();
        paths.sort();
        known.extend(paths.iter().map(|it| std::fs::read(it).unwrap()));
    }
    for bytes in &known {
        attempt(bytes, "what was known");
    }
    let seed = asked("FUZZ_SEED", 1);
    for round in 0..asked("FUZZ_ROUNDS", 1000) {
        let mut dice = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(round));
        let mut bytes = known[dice.random_range(0..known.len())].clone();
        let other = known[dice.random_range(0..known.len())].clone();
        for _ in 0..dice.random_range(1..6) {
            change(&mut dice, &mut bytes, &other);
        }
        attempt(&bytes, &format!("round {round} of seed {seed}"));
    }
}

fn target(name: &str) {
    attack(name, targets::target(name));
}

#[test]
fn no_add_on_template_or_configuration_makes_the_hub_panic() {
    target("add_ons");
}

#[test]
fn no_backup_that_is_accepted_makes_a_server_panic() {
    target("backups");
}

#[test]
fn no_certificate_or_request_panics_the_server_or_is_trusted() {
    target("certificates");
}

#[test]
fn no_chart_makes_its_reader_panic_or_run_away() {
    target("charts");
}

#[test]
fn no_expression_makes_its_engine_panic_or_run_away() {
    target("expressions");
}

#[test]
fn no_request_causes_a_panic_or_an_unreadable_response() {
    target("http");
}

#[test]
fn no_built_in_object_makes_the_server_panic() {
    target("kinds");
}

#[test]
fn no_managed_fields_cause_a_panic_or_lose_ownership() {
    target("ownership");
}

#[test]
fn no_patch_makes_the_server_panic() {
    target("patches");
}

#[test]
fn no_protobuf_makes_the_server_panic() {
    target("protobuf");
}

#[test]
fn no_query_causes_a_panic_or_an_unreadable_response() {
    target("queries");
}

#[test]
fn no_schema_or_object_makes_the_server_panic() {
    target("schemas");
}

#[test]
fn no_selector_makes_the_server_panic() {
    target("selectors");
}

#[test]
fn no_template_makes_its_engine_panic_or_run_away() {
    target("templates");
}

#[test]
fn no_token_makes_the_server_panic_or_is_believed() {
    target("tokens");
}

#[test]
fn no_answer_of_a_webhook_makes_the_server_panic() {
    target("webhooks");
}
