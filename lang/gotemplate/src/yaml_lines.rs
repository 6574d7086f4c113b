//! Quoted YAML scalars of more than one line, as templates make them: the text that a template puts between two quotes
//! brings its own line breaks, and what follows them begins at the left edge. go-yaml takes that; the parser here wants
//! such lines deeper than their key, so they are moved there. Their blanks in front mean nothing.

use std::borrow::Cow;

/// The text with the further lines of quoted scalars moved to the right.
pub(crate) fn deepened(text: &str) -> Cow<'_, str> {
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    // The indentation of the key or list item whose block scalar this is.
    let mut block: Option<usize> = None;
    while !rest.is_empty() {
        let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let line = &rest[..end];
        let indent = line.len() - line.trim_start_matches(' ').len();
        if let Some(parent) = block {
            if line.trim().is_empty() || indent > parent {
                out.push_str(line);
                rest = &rest[end..];
                continue;
            }
            block = None;
        }
        let (column, parent) = value_of(line);
        let value = &line[column..];
        if value.starts_with(['|', '>']) {
            block = Some(parent);
        }
        let quote = value.chars().next().filter(|it| matches!(it, '\'' | '"'));
        let length = quote.and_then(|quote| quoted(&rest[column..], quote)).unwrap_or(0);
        if column + length <= end {
            out.push_str(line);
            rest = &rest[end..];
            continue;
        }
        let whole = &rest[..column + length];
        let mut lines = whole.split('\n');
        out.push_str(lines.next().unwrap_or_default());
        for line in lines {
            out.push('\n');
            if !line.trim().is_empty() {
                out.extend(std::iter::repeat_n(' ', column + 1));
            }
            out.push_str(line);
        }
        rest = &rest[column + length..];
        // What follows the quote on its last line.
        let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        out.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    out.into()
}

/// Where the value of a line begins, behind dashes and a key, and how deep its key is.
fn value_of(line: &str) -> (usize, usize) {
    let mut at = line.len() - line.trim_start_matches(' ').len();
    let mut parent = at;
    while line[at..].starts_with("- ") {
        parent = at;
        at += 1 + line[at + 1..].len() - line[at + 1..].trim_start_matches(' ').len();
    }
    let inner = &line[at..];
    let key = match inner.chars().next() {
        Some(quote @ ('\'' | '"')) => match quoted(inner, quote) {
            Some(length) if inner[length.min(inner.len())..].starts_with(": ") => Some(length),
            _ => None,
        },
        _ => inner.find(": "),
    };
    match key {
        Some(length) => {
            let value = at + length + 1;
            let blanks = line[value..].len() - line[value..].trim_start_matches(' ').len();
            (value + blanks, at)
        }
        None => (at, parent),
    }
}

/// How long the quoted text is, with its quotes; nothing when it has no end.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote == '"' => at += 1,
            b'\'' if quote == '\'' && bytes.get(at + 1) == Some(&b'\'') => at += 1,
            it if it == quote as u8 => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::deepened;

    #[test]
    fn further_lines_of_quoted_texts_are_moved() {
        let made = deepened("a:\n  - b: 'x\ny: z\n\n' # c\n  c: \"p\\\"\n q\"\nd: e\n");
        let wanted = "a:\n  - b: 'x\n        y: z\n\n        ' # c\n  c: \"p\\\"\n       q\"\nd: e\n";
        assert_eq!(made, wanted);
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for text in [
            "a: |\n  it's\n  'x\nb: 'c'\n",
            "a: 'it''s'\n- \"x\": 'y'\n",
            "a: 'no end\n",
            "",
            "- - 'x'\n",
            "it's: b\nc: d\n",
            "-\n- a: >-\n    \"x\n  b: c\n",
        ] {
            assert_eq!(deepened(text), text);
        }
    }
}
