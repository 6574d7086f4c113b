//! Objects as `get` prints them: trees, tables and YAML.
//! Upstream: clusteradm `pkg/helpers/printer`. We differ in that the branches of a tree have an order, that of the
//! fields upstream names, and that a name with dots in it is one name.

pub mod addons;
pub mod clusters;
pub mod clustersets;
pub mod placements;
pub mod tree;
pub mod works;

use anyhow::{Result, bail};
use kube::core::DynamicObject;
use output::table::Table;
use serde_json::Value;

/// How objects are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Tree,
    Table,
    Yaml,
}

impl Format {
    /// Reads the value of `--output`.
    ///
    /// # Errors
    /// When there is no such format.
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "tree" => Ok(Self::Tree),
            "table" => Ok(Self::Table),
            "yaml" => Ok(Self::Yaml),
            _ => bail!("invalid output format"),
        }
    }
}

/// The objects as documents of YAML.
///
/// # Errors
/// When one of them is none.
pub fn yaml(objects: &[DynamicObject]) -> Result<String> {
    let documents: Vec<String> = objects.iter().map(output::yaml).collect::<Result<_>>()?;
    Ok(documents.join("---\n"))
}

/// What is wrong stands out on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    Plain,
    Colors,
}

impl Paint {
    fn red(self, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Colors => format!("\u{1b}[31m{text}\u{1b}[0m"),
        }
    }
}

/// As kubectl prints a table: nothing where it has no rows.
fn rows<const N: usize>(header: [&str; N], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(header);
    for row in rows {
        table.row(row);
    }
    table.render()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn name(object: &DynamicObject) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

fn namespace(object: &DynamicObject) -> String {
    object.metadata.namespace.clone().unwrap_or_default()
}

/// The label of an object, or nothing.
fn label(object: &DynamicObject, key: &str) -> String {
    let labels = object.metadata.labels.as_ref();
    labels.and_then(|it| it.get(key)).cloned().unwrap_or_default()
}

/// The status of a condition among some.
fn status<'a>(conditions: &'a Value, kind: &str) -> Option<&'a str> {
    let found = conditions.as_array()?.iter().find(|it| it["type"] == kind)?;
    found["status"].as_str()
}

/// The status of a condition of an object, or nothing.
fn condition(object: &DynamicObject, kind: &str) -> String {
    status(&object.data["status"]["conditions"], kind)
        .unwrap_or_default()
        .to_owned()
}

/// A condition as a word.
fn verdict(status: Option<&str>, paint: Paint) -> String {
    match status {
        None => "unknown".to_owned(),
        Some("True") => "true".to_owned(),
        Some(_) => paint.red("false"),
    }
}

/// A list as Go prints it.
fn list(elements: &[String]) -> String {
    format!("[{}]", elements.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_documents_of_yaml() {
        let object = |name: &str| -> DynamicObject {
            serde_json::from_value(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
                .unwrap()
        };
        assert_eq!(
            yaml(&[object("a"), object("b")]).unwrap(),
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: b\n"
        );
        assert_eq!(yaml(&[]).unwrap(), "");
    }

    #[test]
    fn an_unknown_format_is_refused() {
        assert_eq!(Format::parse("wide").unwrap_err().to_string(), "invalid output format");
        assert_eq!(Format::parse("tree").unwrap(), Format::Tree);
    }
}
