//! How results are written: formats, lists, and errors as one sentence.

use std::io::Write;

use clap::ValueEnum;
use kube::core::DynamicObject;
use serde_json::{Value, json};

/// What `-o` takes where objects are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Json,
    Yaml,
    Wide,
    Name,
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

/// The objects as kubectl prints them: a single one by itself, any other number as a `List`.
pub fn objects(objects: &[DynamicObject]) -> anyhow::Result<Value> {
    Ok(match objects {
        [one] => serde_json::to_value(one)?,
        many => json!({
            "apiVersion": "v1",
            "kind": "List",
            "metadata": { "resourceVersion": "" },
            "items": serde_json::to_value(many)?,
        }),
    })
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
    fn one_object_is_printed_by_itself_and_several_as_a_list() {
        let one: DynamicObject =
            serde_json::from_value(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}))
                .unwrap();
        assert_eq!(objects(std::slice::from_ref(&one)).unwrap()["kind"], "Namespace");
        let list = objects(&[one.clone(), one]).unwrap();
        assert_eq!(
            (list["kind"].as_str(), list["items"].as_array().map(Vec::len)),
            (Some("List"), Some(2))
        );
    }
}
