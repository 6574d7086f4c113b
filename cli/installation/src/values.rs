//! The values of a chart as they are typed: `--values`, `--set` and their relatives.
//! Upstream: helm `pkg/strvals`, whose grammar this is.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use gotemplate::helm::merge_values;
use serde_json::{Map, Value};

/// The longest list that `--set list[N]=...` makes, as with Helm.
const INDEX_MAX: usize = 65536;

/// Values for a chart, as with `helm install`. Later ones win, and these win over all other flags.
#[derive(Clone, Debug, Default, Args)]
pub struct ValueFlags {
    /// A file of values for the chart; later ones win
    #[arg(
        short = 'f',
        long = "values",
        value_name = "FILE",
        help_heading = "Values of the chart"
    )]
    pub files: Vec<PathBuf>,
    /// Values for the chart, for example replicaCount=1,images.tag=v1.3.1
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Values of the chart")]
    pub set: Vec<String>,
    /// The same, and every value is a text
    #[arg(long, value_name = "KEY=TEXT", help_heading = "Values of the chart")]
    pub set_string: Vec<String>,
    /// The same, and every value is the text of a file
    #[arg(long, value_name = "KEY=FILE", help_heading = "Values of the chart")]
    pub set_file: Vec<String>,
    /// The same, and every value is JSON
    #[arg(long, value_name = "KEY=JSON", help_heading = "Values of the chart")]
    pub set_json: Vec<String>,
    /// One value for the chart, with commas and all
    #[arg(long, value_name = "KEY=TEXT", help_heading = "Values of the chart")]
    pub set_literal: Vec<String>,
}

impl ValueFlags {
    /// Whether one of them was given.
    pub fn is_given(&self) -> bool {
        let texts = [
            &self.set,
            &self.set_string,
            &self.set_file,
            &self.set_json,
            &self.set_literal,
        ];
        !self.files.is_empty() || texts.iter().any(|it| !it.is_empty())
    }

    /// Lays them over values, in the order that Helm does.
    ///
    /// # Errors
    /// When a file cannot be read, or a text is none of values.
    pub fn merge_into(&self, values: &mut Value) -> Result<()> {
        for path in &self.files {
            merge_values(values, &file(path)?);
        }
        let all = [
            ("--set-json", &self.set_json, As::Json),
            ("--set", &self.set, As::Typed),
            ("--set-string", &self.set_string, As::Text),
            ("--set-file", &self.set_file, As::File),
            ("--set-literal", &self.set_literal, As::Literal),
        ];
        for (flag, texts, how) in all {
            for text in texts {
                set(values, text, how).with_context(|| format!("{flag} {text}"))?;
            }
        }
        Ok(())
    }
}

/// Reads a file of values; an empty one has none.
///
/// # Errors
/// When it cannot be read, or is no table in YAML.
pub fn file(path: &Path) -> Result<Value> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("could not read the values file {name}"))?;
    let read: Value = serde_saphyr::from_str(&text).with_context(|| format!("{name} is no YAML"))?;
    match read {
        Value::Null => Ok(Value::Object(Map::new())),
        table @ Value::Object(_) => Ok(table),
        _ => bail!("{name} has no values: it is no table"),
    }
}

/// What the texts behind the equal signs are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum As {
    Typed,
    Text,
    File,
    Json,
    Literal,
}

/// One step of the way to a value.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Key(String),
    Index(usize),
}

fn set(values: &mut Value, text: &str, how: As) -> Result<()> {
    let mut rest = text;
    while !rest.is_empty() {
        let (path, after) = path(rest)?;
        let (value, left) = match how {
            As::Literal => (Value::from(after), ""),
            As::Json => json(after)?,
            As::File => {
                let (name, left) = plain(after);
                let text = std::fs::read_to_string(&name).with_context(|| format!("could not read {name}"))?;
                (Value::from(text), left)
            }
            As::Typed | As::Text => value(after, how)?,
        };
        put(values, &path, value)?;
        rest = left;
    }
    Ok(())
}

/// The way to a value, up to its equal sign, and what comes behind that.
fn path(text: &str) -> Result<(Vec<Part>, &str)> {
    let mut parts = Vec::new();
    let mut key = String::new();
    let mut characters = text.char_indices();
    while let Some((at, it)) = characters.next() {
        match it {
            '\\' => key.extend(characters.next().map(|it| it.1)),
            '.' | '=' | '[' => {
                // Behind an index comes no key.
                if !key.is_empty() {
                    parts.push(Part::Key(std::mem::take(&mut key)));
                } else if !matches!(parts.last(), Some(Part::Index(_))) {
                    bail!("a key is empty: write KEY=VALUE");
                }
                if it == '=' {
                    return Ok((parts, &text[at + 1..]));
                }
                if it == '[' {
                    let index: String = characters.by_ref().map(|it| it.1).take_while(|it| *it != ']').collect();
                    let index: usize = index
                        .trim()
                        .parse()
                        .map_err(|_| anyhow!("[{index}] is no index of a list"))?;
                    if index > INDEX_MAX {
                        bail!("index of {index} is greater than maximum supported index of {INDEX_MAX}");
                    }
                    parts.push(Part::Index(index));
                }
            }
            ',' => bail!("key {:?} has no value: write KEY=VALUE", &text[..at]),
            it => key.push(it),
        }
    }
    bail!("key {text:?} has no value: write KEY=VALUE")
}

/// A text up to the next comma, without its backslashes, and what comes behind that.
fn plain(text: &str) -> (String, &str) {
    let mut made = String::new();
    let mut characters = text.char_indices();
    while let Some((at, it)) = characters.next() {
        match it {
            '\\' => made.extend(characters.next().map(|it| it.1)),
            ',' => return (made, &text[at + 1..]),
            it => made.push(it),
        }
    }
    (made, "")
}

fn value(text: &str, how: As) -> Result<(Value, &str)> {
    let Some(inside) = text.strip_prefix('{') else {
        let (text, left) = plain(text);
        return Ok((typed(text, how), left));
    };
    let mut list = Vec::new();
    let mut item = String::new();
    let mut characters = inside.char_indices();
    while let Some((at, it)) = characters.next() {
        match it {
            '\\' => item.extend(characters.next().map(|it| it.1)),
            ',' => list.push(typed(std::mem::take(&mut item), how)),
            '}' => {
                if !item.is_empty() || !list.is_empty() {
                    list.push(typed(item, how));
                }
                let left = &inside[at + 1..];
                return Ok((Value::Array(list), left.strip_prefix(',').unwrap_or(left)));
            }
            it => item.push(it),
        }
    }
    bail!("list must terminate with '}}'")
}

fn json(text: &str) -> Result<(Value, &str)> {
    if text.is_empty() {
        return Ok((Value::Null, ""));
    }
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = stream.next().unwrap_or(Ok(Value::Null)).context("it is no JSON")?;
    let left = text[stream.byte_offset()..].trim_start();
    match left.strip_prefix(',') {
        Some(left) => Ok((value, left)),
        None if left.is_empty() => Ok((value, "")),
        None => bail!("behind the JSON comes {left:?}"),
    }
}

fn typed(text: String, how: As) -> Value {
    if how == As::Text {
        return text.into();
    }
    match text.as_str() {
        "true" => true.into(),
        "false" => false.into(),
        "null" => Value::Null,
        "0" => 0.into(),
        // What begins with a zero is mostly no number: a commit, a port of old.
        it if it.starts_with('0') => text.into(),
        it => it.parse::<i64>().map_or_else(|_| text.clone().into(), Value::from),
    }
}

fn put(values: &mut Value, path: &[Part], value: Value) -> Result<()> {
    let Some((first, rest)) = path.split_first() else {
        *values = value;
        return Ok(());
    };
    let below = match first {
        Part::Key(key) => {
            if !values.is_object() {
                *values = Value::Object(Map::new());
            }
            &mut values[key.as_str()]
        }
        Part::Index(index) => {
            if values.is_null() {
                *values = Value::Array(vec![]);
            }
            let list = values.as_array_mut();
            let list = list.ok_or_else(|| anyhow!("[{index}]: what is there is no list"))?;
            while list.len() <= *index {
                list.push(Value::Null);
            }
            &mut list[*index]
        }
    };
    put(below, rest, value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(text: &str, how: As) -> Value {
        let mut values = json!({});
        set(&mut values, text, how).unwrap();
        values
    }

    #[test]
    fn values_are_typed_as_helm_types_them() {
        assert_eq!(
            made(
                r"a.b=1,c=true,d=null,e=0x1,f=a\,b,g={x,2},h[1].i=j,k={},l\.m=,n=-5",
                As::Typed
            ),
            json!({
                "a": {"b": 1}, "c": true, "d": null, "e": "0x1", "f": "a,b", "g": ["x", 2],
                "h": [null, {"i": "j"}], "k": [], "l.m": "", "n": -5,
            })
        );
        assert_eq!(made("a=1,b={true}", As::Text), json!({"a": "1", "b": ["true"]}));
        assert_eq!(made("a=1,{x", As::Literal), json!({"a": "1,{x"}));
        assert_eq!(
            made(r#"a={"b": [1]},c=[2]"#, As::Json),
            json!({"a": {"b": [1]}, "c": [2]})
        );
    }

    #[test]
    fn a_text_that_sets_nothing_is_refused() {
        for text in ["a", "a,b=1", "=1", "a[x]=1", "a[99999999]=1", "a={b", "a.=1"] {
            assert!(set(&mut json!({}), text, As::Typed).is_err(), "{text}");
        }
        assert!(set(&mut json!({}), "a={", As::Json).is_err());
        assert!(set(&mut json!({"a": "b"}), "a[0]=1", As::Typed).is_err());
    }

    #[test]
    fn flags_are_merged_in_helms_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.yaml");
        std::fs::write(&path, "a: {b: 1, c: 2}\nd: file\n").unwrap();
        let flags = ValueFlags {
            files: vec![path.clone()],
            set: vec!["d=set,a.c=3".into()],
            set_string: vec!["d=5".into()],
            set_file: vec![format!("e={}", path.display())],
            ..ValueFlags::default()
        };
        let mut values = json!({"a": {"z": 0}});
        flags.merge_into(&mut values).unwrap();
        assert_eq!(values["a"], json!({"b": 1, "c": 3, "z": 0}));
        assert_eq!(values["d"], "5");
        assert!(values["e"].as_str().unwrap().starts_with("a: {b"));
        std::fs::write(&path, "- a\n").unwrap();
        let error = flags.merge_into(&mut values).unwrap_err().to_string();
        assert!(error.ends_with("v.yaml has no values: it is no table"), "{error}");
    }
}
