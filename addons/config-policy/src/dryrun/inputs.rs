//! The objects of a dry run, out of files, directories and the standard input.
//! Upstream: config-policy-controller `readInputResources`.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    os::{fd::AsFd, unix::fs::FileTypeExt},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::go;

/// The standard input, and whether it is read without being asked for.
pub struct StandardInput {
    /// Whether somebody writes to it: it is no device, such as a terminal.
    pub is_piped: bool,
    /// What is written to it.
    pub reader: Box<dyn Read>,
}

impl StandardInput {
    /// That of this process.
    pub fn of_process() -> Self {
        let is_device = |file: File| file.metadata().map(|it| it.file_type().is_char_device());
        let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        Self {
            // One that is closed has nothing.
            is_piped: file.and_then(is_device).is_ok_and(|it| !it),
            reader: Box::new(io::stdin()),
        }
    }
}

/// Reads the objects of these paths: a directory stands for the files in it, `-` for the standard input, which is read
/// before all others where somebody writes to it.
///
/// # Errors
/// When something cannot be read, or holds no objects, in the words of upstream.
pub fn read(paths: &[OsString], mut input: StandardInput) -> Result<Vec<Value>, String> {
    let mut sources = Vec::new();
    if input.is_piped {
        sources.push(InputSource::Standard);
    }
    for path in paths {
        add(&mut sources, path)?;
    }
    let mut objects = Vec::new();
    for source in sources {
        objects.extend(source.objects(&mut input)?);
    }
    Ok(objects)
}

enum InputSource {
    Standard,
    File(PathBuf),
}

fn add(sources: &mut Vec<InputSource>, path: &OsString) -> Result<(), String> {
    if path == "-" {
        sources.push(InputSource::Standard);
        return Ok(());
    }
    let path = Path::new(path);
    let at = path.display();
    let metadata = fs::metadata(path)
        .map_err(|error| format!("could not open file {at}: stat {at}: {}", go::of_system(&error)))?;
    if !metadata.is_dir() {
        sources.push(InputSource::File(path.to_owned()));
        return Ok(());
    }
    let unreadable = |error: io::Error| format!("could not open directory {at}: open {at}: {}", go::of_system(&error));
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if !entry.file_type().map_err(unreadable)?.is_dir() {
            files.push(entry.path());
        }
    }
    files.sort();
    sources.extend(files.into_iter().map(InputSource::File));
    Ok(())
}

impl InputSource {
    fn objects(&self, input: &mut StandardInput) -> Result<Vec<Value>, String> {
        let name = match self {
            Self::Standard => "stdin".to_owned(),
            Self::File(path) => format!("file {}", path.display()),
        };
        let mut text = Vec::new();
        match self {
            Self::Standard => {
                let read = input.reader.read_to_end(&mut text);
                read.map_err(|error| undecodable(&name, &format!("input error: {}", go::of_system(&error))))?;
            }
            Self::File(path) => {
                let at = path.display();
                let file = File::open(path);
                let mut file =
                    file.map_err(|error| format!("could not open {name}: open {at}: {}", go::of_system(&error)))?;
                let read = file.read_to_end(&mut text);
                read.map_err(|error| {
                    undecodable(&name, &format!("input error: read {at}: {}", go::of_system(&error)))
                })?;
            }
        }
        let text = String::from_utf8(text).map_err(|_| undecodable(&name, "invalid leading UTF-8 octet"))?;
        parse(&text, &name)
    }
}

fn undecodable(name: &str, why: &str) -> String {
    format!("could not decode {name} to YAML: yaml: {why}")
}

fn parse(text: &str, name: &str) -> Result<Vec<Value>, String> {
    let documents = documents(text).map_err(|why| undecodable(name, &why))?;
    let mut objects = Vec::new();
    for document in documents {
        let object = match document {
            Value::Null => continue,
            Value::Object(_) => whole(document),
            other => {
                let tag = match other {
                    Value::Array(_) => "!!seq".to_owned(),
                    scalar => format!("!!str `{}`", policy_template::printed(&scalar)),
                };
                let why = format!("unmarshal errors:\n  line 1: cannot unmarshal {tag} into map[string]interface {{}}");
                return Err(undecodable(name, &why));
            }
        };
        let is_named = |field: &str| object[field].as_str().is_some_and(|it| !it.is_empty());
        if !is_named("kind") {
            return Err(format!(
                "could not re-un-marshal {name} to kubernetes YAML: error unmarshaling JSON: while decoding JSON: Object \
                 'Kind' is missing in '{}'",
                go::json(&object)
            ));
        }
        objects.push(object);
    }
    Ok(objects)
}

/// The documents of a YAML text as go-yaml 3 reads them: `yes` and `on` are strings.
///
/// # Errors
/// When the text is no YAML; the words are not Go's.
pub fn documents(text: &str) -> Result<Vec<Value>, String> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options::<Value>(text, options)
        .map_err(|error| error.without_snippet().to_string())
}

/// Go's JSON has no point in whole numbers, and whoever reads them then has integers.
fn whole(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e18 => {
                // It has no fraction and is far from the ends of its type.
                #[allow(clippy::cast_possible_truncation)]
                let integer = float as i64;
                integer.into()
            }
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(whole).collect(),
        Value::Object(entries) => Value::Object(entries.into_iter().map(|(key, it)| (key, whole(it))).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_may_have_several_objects() {
        let text = "kind: A\nx: yes\n---\n---\n# nothing\n---\nkind: B\nn: 1.0\n";
        assert_eq!(
            parse(text, "file a"),
            Ok(vec![json!({"kind": "A", "x": "yes"}), json!({"kind": "B", "n": 1})])
        );
        assert_eq!(parse("", "file a"), Ok(Vec::new()));
    }

    #[test]
    fn what_holds_no_objects_is_refused() {
        assert_eq!(
            parse("a: '<'\n", "file x").unwrap_err(),
            "could not re-un-marshal file x to kubernetes YAML: error unmarshaling JSON: while decoding JSON: Object \
             'Kind' is missing in '{\"a\":\"\\u003c\"}'"
        );
        assert!(
            parse("- a", "stdin")
                .unwrap_err()
                .contains("cannot unmarshal !!seq into map[string]")
        );
        assert!(
            parse("a: b: c", "stdin")
                .unwrap_err()
                .starts_with("could not decode stdin to YAML: yaml: ")
        );
    }

    #[test]
    fn a_directory_stands_for_its_files() {
        let dir = std::env::temp_dir().join(format!("dryrun-inputs-{}", std::process::id()));
        fs::create_dir_all(dir.join("deeper")).unwrap();
        for name in ["b.yaml", "a.yaml", "deeper/c.yaml"] {
            fs::write(dir.join(name), "kind: A").unwrap();
        }
        let mut sources = Vec::new();
        add(&mut sources, &dir.clone().into()).unwrap();
        let files: Vec<_> = sources
            .iter()
            .map(|it| match it {
                InputSource::File(path) => path.strip_prefix(&dir).unwrap().to_str().unwrap(),
                InputSource::Standard => "-",
            })
            .collect();
        assert_eq!(files, ["a.yaml", "b.yaml"]);
        fs::remove_dir_all(&dir).unwrap();
        let gone = add(&mut Vec::new(), &"nofile".into()).unwrap_err();
        assert_eq!(
            gone,
            "could not open file nofile: stat nofile: no such file or directory"
        );
    }
}
