//! What strangers may send, as functions of bytes: none of them panics, runs away or says something
//! that no client expects.
//!
//! `cargo fuzz` calls them (`tests/fuzz/fuzz_targets`), and so does a test that needs no fuzzer
//! (`tests/testkit/tests/strangers`), which is why nothing here says `crate`.

mod add_ons;
mod backups;
mod certificates;
mod charts;
mod expressions;
mod http;
mod kinds;
mod ownership;
mod patches;
mod protobuf;
mod queries;
mod schemas;
mod selectors;
mod templates;
mod tokens;
mod webhooks;

/// A target: its name, which is also that of the folders with bytes for it, and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: &[Target] = &[
    ("add_ons", add_ons::add_ons),
    ("backups", backups::backups),
    ("certificates", certificates::certificates),
    ("charts", charts::charts),
    ("expressions", expressions::expressions),
    ("http", http::http),
    ("kinds", kinds::kinds),
    ("ownership", ownership::ownership),
    ("patches", patches::patches),
    ("protobuf", protobuf::protobuf),
    ("queries", queries::queries),
    ("schemas", schemas::schemas),
    ("selectors", selectors::selectors),
    ("templates", templates::templates),
    ("tokens", tokens::tokens),
    ("webhooks", webhooks::webhooks),
];

/// The target of this name.
///
/// # Panics
/// When there is none.
pub fn target(name: &str) -> fn(&[u8]) {
    let found = TARGETS.iter().find(|it| it.0 == name);
    found.expect("a target of this name").1
}

/// The first piece and the rest, parted at a newline.
fn part(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|it| *it == b'\n') {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}

fn text(data: &[u8]) -> &str {
    std::str::from_utf8(data).unwrap_or_default()
}
