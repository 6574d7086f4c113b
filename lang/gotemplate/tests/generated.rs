//! Templates, charts and schemas that nobody thought of, made of dice: Go and Helm make the same of them as we do.
//!
//! Without `GOTEMPLATE_ORACLE` there is nobody to compare with; then it is only seen that none of them takes us down.
//! `GOTEMPLATE_SEED` chooses other dice, and `GOTEMPLATE_CASES` how often they are cast. Some in ten thousand still
//! differ: nulls in values that are imported twice, empty lists that Go knows as nil.

#[path = "generated/charts.rs"]
mod charts;
#[path = "generated/dice.rs"]
mod dice;
mod oracle;
#[path = "generated/schemas.rs"]
mod schemas;
#[path = "generated/templates.rs"]
mod templates;

use dice::Dice;
use serde_json::Value as Json;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |it| it.parse().expect("a number"))
}

fn compare(cases: u64, make: fn(&mut Dice) -> Json) {
    let seed = number("GOTEMPLATE_SEED", 1);
    let cases = number("GOTEMPLATE_CASES", cases);
    let made = (0..cases).map(|it| make(&mut Dice::new(seed.wrapping_mul(1_000_003).wrapping_add(it))));
    // Go puts a map into itself, and ends when its stack is full.
    let endless = |it: &Json| oracle::ours(it).is_err_and(|it| it.contains("contains the map"));
    let made: Vec<Json> = made.filter(|it| !endless(it)).collect();
    assert!(made.len() as u64 > cases / 2);
    if let Some(answers) = oracle::ask(&made) {
        oracle::agree(&answers);
    }
}

#[test]
fn generated_templates_are_rendered_as_go_and_helm_render_them() {
    compare(1_500, templates::case);
}

#[test]
fn generated_charts_get_the_values_that_helm_gives_them() {
    compare(500, charts::case);
}

#[test]
fn schemas_refuse_generated_values_as_helm_does() {
    compare(1_000, schemas::case);
}
