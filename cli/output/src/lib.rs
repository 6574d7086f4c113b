//! How a command shows what it has to say: formats, lists, tables, ages, steps under way, errors as one sentence, and
//! files that only their owner may read. It knows no object of Open Cluster Management.

pub mod age;
pub mod private_file;
pub mod progress;
pub mod table;

use std::io::Write;

use clap::ValueEnum;
use kube::core::DynamicObject;
use serde_json::{Value, json};

/// What `-o` takes where objects are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    // A tree is clusteradm's default, and its branches come in any order: who asks for one gets the table.
    #[default]
    #[value(alias = "tree")]
    Table,
    Json,
    Yaml,
    Wide,
    Name,
}

impl Format {
    /// Whether it is for programs, which get the objects whole, and an empty list where there are none.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }
}

/// What `-o` takes where there is one thing to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Data {
    Json,
    Yaml,
}

/// Writes `text` to standard output as it is.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes one line to standard output.
pub fn say(line: impl std::fmt::Display) -> anyhow::Result<()> {
    print(&format!("{line}\n"))
}

/// `value` as text, ending in one newline.
pub fn encode(value: &Value, data: Data) -> anyhow::Result<String> {
    let mut text = match data {
        Data::Json => serde_json::to_string_pretty(value)?,
        Data::Yaml => yaml(value)?,
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// `value` as YAML. A long string stays on one line, as kubectl writes it: scripts cut tokens and certificates out.
pub fn yaml(value: &impl serde::Serialize) -> anyhow::Result<String> {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    Ok(serde_saphyr::to_string_with_options(value, options)?)
}

/// What was asked for, which decides how objects are written to programs. It may not depend on how many there are, or a
/// script that reads `.items` of a fleet fails on a fleet of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedObjects {
    /// One object, by its name.
    One,
    /// Whatever there is.
    Any,
}

impl RequestedObjects {
    /// What names on a command line ask for, where a name means one object.
    pub fn by(names: &[String]) -> Self {
        if names.len() == 1 { Self::One } else { Self::Any }
    }
}

/// The objects as kubectl prints them: one that was asked for by its name by itself, all else as a `List`.
pub fn objects(objects: &[DynamicObject], asked: RequestedObjects) -> anyhow::Result<Value> {
    Ok(match (asked, objects) {
        (RequestedObjects::One, [one]) => serde_json::to_value(one)?,
        (_, many) => json!({
            "apiVersion": "v1",
            "kind": "List",
            "metadata": { "resourceVersion": "" },
            "items": serde_json::to_value(many)?,
        }),
    })
}

/// What a line ends with when what it says was only tried.
pub fn note(dry_run: bool) -> &'static str {
    if dry_run { " (dry run)" } else { "" }
}

/// The error and its sources on one line, without saying the same thing twice.
pub fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        let cause = cause.trim().replace('\n', " ");
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn a_long_text_stays_on_one_line_of_yaml() {
        let token = "a".repeat(5000);
        assert_eq!(yaml(&json!({ "token": token })).unwrap(), format!("token: {token}\n"));
    }

    #[test]
    fn an_error_is_one_line_and_repeats_nothing() {
        let error = Err::<(), _>(anyhow!("no such file"))
            .context("could not read a.yaml: no such file")
            .unwrap_err();
        assert_eq!(sentence(&error), "could not read a.yaml: no such file");
        let error = Err::<(), _>(anyhow!("line one\nline two"))
            .context("could not read a.yaml")
            .unwrap_err();
        assert_eq!(sentence(&error), "could not read a.yaml: line one line two");
    }

    #[test]
    fn only_an_object_that_was_named_is_printed_by_itself() {
        let one: DynamicObject =
            serde_json::from_value(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}))
                .unwrap();
        let named = objects(std::slice::from_ref(&one), RequestedObjects::by(&["a".into()])).unwrap();
        assert_eq!(named["kind"], "Namespace");
        for count in 0..3 {
            let list = objects(&vec![one.clone(); count], RequestedObjects::by(&[])).unwrap();
            assert_eq!(
                (list["kind"].as_str(), list["items"].as_array().map(Vec::len)),
                (Some("List"), Some(count))
            );
        }
        assert_eq!(RequestedObjects::by(&["a".into(), "b".into()]), RequestedObjects::Any);
    }
}
