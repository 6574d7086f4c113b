//! `values.schema.json`: whether a chart's values are what its author allows. Refusals are in Helm's words.
//!
//! Upstream: helm pkg/chartutil/jsonschema.go, over santhosh-tekuri/jsonschema. Drafts 4 to 2020-12 without what needs
//! the network and without `unevaluated…` and `$dynamicRef`: a schema that asks for those is refused rather
//! than half checked.

mod failure;
mod formats;
mod numbers;
mod read;
mod validate;

use serde_json::Value as Json;

use super::chart::Chart;
use super::values::Values;

/// Checks the values of a chart and those of its subcharts below them.
pub(crate) fn check(chart: &Chart, values: &Values) -> Result<(), String> {
    let mut refused = String::new();
    check_into(chart, values, &mut refused);
    if refused.is_empty() {
        return Ok(());
    }
    Err(format!(
        "values don't meet the specifications of the schema(s) in the following chart(s):\n{refused}"
    ))
}

fn check_into(chart: &Chart, values: &Values, refused: &mut String) {
    if let Some(schema) = &chart.schema {
        let checked = read::Schema::read(schema).and_then(|it| it.check(values));
        if let Err(message) = checked {
            refused.push_str(&format!("{}:\n{message}", chart.name()));
        }
    }
    for subchart in &chart.dependencies {
        match values.get(subchart.name()) {
            None | Some(Json::Null) => {}
            Some(Json::Object(below)) => check_into(subchart, below, refused),
            Some(other) => {
                let got = crate::Value::from_json(other, crate::Numbers::Float);
                refused.push_str(&format!(
                    "{}:\ninvalid type for values: expected object (map), got {}\n",
                    subchart.name(),
                    got.type_name()
                ));
            }
        }
    }
}

/// A step down in a JSON pointer.
fn below(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}
