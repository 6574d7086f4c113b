//! A YAML file as objects, read as Kubernetes' own library reads it.

use serde_json::{Map, Value};

use crate::limits::{DOCUMENTS_MAX, MANIFEST_BYTES_MAX};

/// What a file holds.
#[derive(Debug, Default)]
pub(crate) struct ManifestFile {
    /// The objects, with lists taken apart.
    pub objects: Vec<Value>,
    /// How many documents of it are objects of Kubernetes.
    pub documents: usize,
    /// Documents that are no objects of Kubernetes, in words.
    pub skipped: Vec<String>,
    /// Documents that cannot be read.
    pub unreadable: Vec<String>,
}

/// Whether a file of this name is read.
pub(crate) fn is_manifest(name: &str) -> bool {
    name.rsplit_once('.')
        .is_some_and(|(_, end)| end.eq_ignore_ascii_case("yaml") || end.eq_ignore_ascii_case("yml"))
}

pub(crate) fn read(content: &[u8]) -> ManifestFile {
    let mut manifest = ManifestFile::default();
    if content.len() > MANIFEST_BYTES_MAX {
        manifest.unreadable.push(format!(
            "it has {} bytes; at most {MANIFEST_BYTES_MAX} are read",
            content.len()
        ));
        return manifest;
    }
    let Ok(text) = std::str::from_utf8(content) else {
        manifest.unreadable.push("it is not UTF-8".to_owned());
        return manifest;
    };
    let documents = documents(text.strip_prefix('\u{feff}').unwrap_or(text));
    if documents.len() > DOCUMENTS_MAX {
        manifest
            .unreadable
            .push(format!("it has more than {DOCUMENTS_MAX} documents"));
        return manifest;
    }
    for (number, document) in documents.iter().enumerate() {
        let place = |what: &str| {
            if documents.len() == 1 {
                what.to_owned()
            } else {
                format!("document {}: {what}", number + 1)
            }
        };
        match yaml(document) {
            Ok(Value::Null) => {}
            Ok(value) => match objects(value) {
                Ok(objects) => {
                    manifest.documents += 1;
                    manifest.objects.extend(objects);
                }
                Err(why) => manifest.skipped.push(place(why)),
            },
            Err(why) => manifest.unreadable.push(place(&why)),
        }
    }
    manifest
}

/// One document as JSON.
///
/// # Errors
/// Why it is no YAML.
pub fn yaml(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        strict_booleans: false,
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::Reject,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options::<Option<Value>>(text, options)
        .map(Option::unwrap_or_default)
        .map_err(|error| format!("it is no YAML: {}", error.without_snippet()))
}

/// A text at the lines that begin with three dashes, so that one document that is no YAML leaves the others alone.
/// Upstream cuts at every `---` with a line break behind it, in the middle of a line, too.
fn documents(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut begun = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("---")
            && (rest.trim().is_empty() || rest.starts_with([' ', '\t']))
        {
            found.push(&text[begun..at]);
            // What follows the dashes is the beginning of the document.
            begun = at + 3;
        }
        at += line.len();
    }
    found.push(&text[begun..]);
    found.retain(|it| {
        it.lines()
            .map(str::trim)
            .any(|line| !line.is_empty() && !line.starts_with('#'))
    });
    found
}

/// The objects of a document, with a list taken apart.
pub(crate) fn objects(value: Value) -> Result<Vec<Value>, &'static str> {
    let Value::Object(mut object) = value else {
        return Err("it is no object");
    };
    if !is_object(&object) {
        return Err("it has no apiVersion and kind");
    }
    if object["kind"] == "List" && object["apiVersion"] == "v1" {
        return match object.remove("items") {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) if items.iter().all(|it| it.as_object().is_some_and(is_object)) => Ok(items),
            Some(_) => Err("an item of its list is no object with apiVersion and kind"),
        };
    }
    Ok(vec![Value::Object(object)])
}

fn is_object(object: &Map<String, Value>) -> bool {
    ["apiVersion", "kind"].iter().all(|key| {
        object
            .get(*key)
            .and_then(Value::as_str)
            .is_some_and(|it| !it.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_read_each_for_itself() {
        let read = read(b"# a\n---\napiVersion: v1\nkind: A\n---\n{{ no }}: [\n--- # c\napiVersion: v1\nkind: C\n");
        let kinds: Vec<_> = read.objects.iter().map(|it| it["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "C"]);
        assert_eq!(read.unreadable.len(), 1);
        assert!(read.unreadable[0].starts_with("document 2: it is no YAML"), "{read:?}");
    }

    #[test]
    fn dashes_inside_a_text_separate_nothing() {
        let read = read(b"apiVersion: v1\nkind: A\ndata:\n  x: |\n    ---\n    y\n  z: a---\n");
        assert_eq!(read.objects[0]["data"], json!({"x": "---\ny\n", "z": "a---"}));
    }

    #[test]
    fn what_is_no_object_of_kubernetes_is_skipped() {
        let read = read(b"[1]\n---\na: 1\n---\napiVersion: v1\n---\napiVersion: v1\nkind: ''\n---\nnull\n");
        assert!(read.objects.is_empty() && read.unreadable.is_empty());
        assert_eq!(read.skipped.len(), 4);
    }

    #[test]
    fn a_list_is_taken_apart() {
        let read =
            read(b"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A}\n- {apiVersion: v1, kind: B}\n");
        assert_eq!((read.objects.len(), read.documents), (2, 1));
    }

    #[test]
    fn truths_are_those_of_yaml_1_1() {
        let read = read(b"apiVersion: v1\nkind: A\nx: yes\ny: 0644\n");
        assert_eq!(
            (&read.objects[0]["x"], &read.objects[0]["y"]),
            (&json!(true), &json!(420))
        );
    }
}
