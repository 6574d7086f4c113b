//! Texts as Go's libraries word or cut them.

use std::io;

use serde_json::Value;

/// What the system says of an error: `no such file or directory`.
pub fn of_system(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// A document as Go's `json.Marshal` writes it.
pub fn json(document: &Value) -> String {
    document
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// The first of the documents in a YAML text.
pub fn first_document(text: &str) -> &str {
    let mut begun = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let is_mark = line.trim_end() == "---" || line.starts_with("--- ");
        if begun && (is_mark || line.trim_end() == "...") {
            return &text[..at];
        }
        let content = line.trim();
        begun |= is_mark || !(content.is_empty() || content.starts_with(['#', '%']));
        at += line.len();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_quoted_without_numbers() {
        let error = std::fs::File::open("/no/such/file").unwrap_err();
        assert_eq!(of_system(&error), "no such file or directory");
    }

    #[test]
    fn only_the_first_document_counts() {
        assert_eq!(first_document("# x\n---\na: b\n---\nc: d\n"), "# x\n---\na: b\n");
        assert_eq!(first_document("a: b\n...\nc"), "a: b\n");
        assert_eq!(first_document("a: b\n"), "a: b\n");
    }
}
