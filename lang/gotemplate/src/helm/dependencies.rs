//! Which subcharts take part, under which name, and what a parent takes over from their values.

use serde_json::{Map as JsonMap, Value as Json};

use super::chart::Chart;
use super::values::{Values, coalesce, lay_under, leaf, table};
use crate::sprig::semver::VersionConstraints;

/// Resolves a chart for these values: aliases applied, disabled subcharts gone, imported values in place.
pub(crate) fn process(chart: &Chart, values: &Values) -> Result<Chart, String> {
    let mut chart = chart.clone();
    enable(&mut chart, values, "")?;
    import(&mut chart)?;
    Ok(chart)
}

fn in_range(range: &str, version: &str) -> bool {
    let (Ok(constraints), Ok(version)) = (
        VersionConstraints::parse(range),
        crate::sprig::semver::SemanticVersion::parse(version),
    ) else {
        return false;
    };
    constraints.allow(&version)
}

fn enable(chart: &mut Chart, values: &Values, path: &str) -> Result<(), String> {
    if chart.metadata.dependencies.is_empty() {
        return Ok(());
    }
    let mut taken = Vec::new();
    let wanted = &mut chart.metadata.dependencies;
    for there in &chart.dependencies {
        let named =
            (wanted.iter()).any(|it| it.name == there.metadata.name && in_range(&it.version, &there.metadata.version));
        if !named {
            taken.push(there.clone());
        }
    }
    for dependency in wanted.iter_mut() {
        let found = (chart.dependencies.iter())
            .find(|it| it.metadata.name == dependency.name && in_range(&dependency.version, &it.metadata.version));
        if let Some(found) = found {
            let mut found = found.clone();
            if !dependency.alias.is_empty() {
                found.metadata.name.clone_from(&dependency.alias);
            }
            taken.push(found);
        }
        if !dependency.alias.is_empty() {
            dependency.name.clone_from(&dependency.alias);
        }
        dependency.enabled = true;
    }
    chart.dependencies = taken;
    let coalesced = coalesce(chart, values, false)?;
    by_tags(chart, &coalesced);
    by_conditions(chart, &coalesced, path);
    let disabled: Vec<String> = (chart.metadata.dependencies.iter())
        .filter(|it| !it.enabled)
        .map(|it| it.name.clone())
        .collect();
    chart.dependencies.retain(|it| !disabled.contains(&it.metadata.name));
    chart.metadata.dependencies.retain(|it| !disabled.contains(&it.name));
    for subchart in &mut chart.dependencies {
        let below = format!("{path}{}.", subchart.metadata.name);
        enable(subchart, &coalesced, &below)?;
    }
    Ok(())
}

fn by_tags(chart: &mut Chart, values: &Values) {
    let Some(tags) = table(values, "tags") else {
        return;
    };
    for dependency in &mut chart.metadata.dependencies {
        let said: Vec<bool> = (dependency.tags.iter())
            .filter_map(|tag| tags.get(tag).and_then(Json::as_bool))
            .collect();
        dependency.enabled = said.is_empty() || said.contains(&true);
    }
}

fn by_conditions(chart: &mut Chart, values: &Values, path: &str) {
    for dependency in &mut chart.metadata.dependencies {
        let condition = dependency.condition.trim().to_owned();
        let decided = (condition.split(','))
            .filter(|it| !it.is_empty())
            .find_map(|it| leaf(values, &format!("{path}{it}")).and_then(Json::as_bool));
        if let Some(enabled) = decided {
            dependency.enabled = enabled;
        }
    }
}

fn import(chart: &mut Chart) -> Result<(), String> {
    for subchart in &mut chart.dependencies {
        import(subchart)?;
    }
    if chart.metadata.dependencies.is_empty() {
        return Ok(());
    }
    let mut values = coalesce(chart, &Values::new(), true)?;
    let mut imported = Values::new();
    for dependency in &chart.metadata.dependencies {
        for import in &dependency.import_values {
            let (child, parent) = match import {
                Json::String(name) => (format!("exports.{name}"), ".".to_owned()),
                Json::Object(import) => {
                    let text = |key: &str| match import.get(key) {
                        Some(Json::String(text)) => text.clone(),
                        _ => "<nil>".to_owned(),
                    };
                    (text("child"), text("parent"))
                }
                _ => continue,
            };
            if let Some(found) = table(&values, &format!("{}.{child}", dependency.name)) {
                lay_under(&mut imported, &under_path(&parent, found.clone()), true);
            }
        }
    }
    lay_under(&mut values, &imported, true);
    chart.values = values;
    Ok(())
}

fn under_path(path: &str, values: Values) -> Values {
    if path == "." {
        return values;
    }
    (path.split('.').rev()).fold(values, |inner, part| {
        let mut outer = JsonMap::new();
        outer.insert(part.to_owned(), Json::Object(inner));
        outer
    })
}
