//! Our tables against what the program clusteradm tells of itself.

use std::collections::BTreeSet;

use clusteradm::PROGRAM;
use cobra::{CobraCommand, Flag, ValueKind};

/// Recorded from `clusteradm COMMAND --help` of v1.3.1.
const FACTS: &str = include_str!("flags.txt");

fn fact(of: &str, flag: &Flag) -> String {
    let short = flag.short.map(|it| format!("-{it}, ")).unwrap_or_default();
    let default = match flag.kind {
        ValueKind::List | ValueKind::Array | ValueKind::Pairs => format!("[{}]", flag.default),
        _ => flag.default.to_owned(),
    };
    format!("{of}: {short}--{}={default}", flag.name)
}

fn collect(path: &str, command: &CobraCommand, facts: &mut BTreeSet<String>) {
    for flag in command.flags.iter().flat_map(|it| it.iter()).filter(|it| !it.hidden) {
        facts.insert(fact(path, flag));
    }
    for below in command.commands {
        let path = format!("{path} {}", below.name);
        collect(path.trim_start(), below, facts);
    }
}

#[test]
fn flags_have_upstreams_names_letters_and_defaults() {
    let mut ours: BTreeSet<String> = PROGRAM.global.iter().map(|it| fact("(global)", it)).collect();
    collect("", PROGRAM.root, &mut ours);
    let lines = FACTS.lines().filter(|it| !it.starts_with('#'));
    let theirs: BTreeSet<String> = lines.map(str::to_owned).collect();
    let missing: Vec<_> = theirs.difference(&ours).collect();
    let surplus: Vec<_> = ours.difference(&theirs).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "missing: {missing:#?}, surplus: {surplus:#?}"
    );
}

#[test]
fn every_default_fits_its_flag() {
    fn check(command: &CobraCommand) {
        for flag in command.flags.iter().flat_map(|it| it.iter()) {
            let read = cobra::values::check(flag, command.gates, flag.default);
            let is_empty = flag.default.is_empty();
            assert!(read.is_ok() || is_empty, "{} {}: {read:?}", command.name, flag.name);
        }
        command.commands.iter().for_each(check);
    }
    check(PROGRAM.root);
}
