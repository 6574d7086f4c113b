//! Blocks of PEM in the data of a Secret, as Go reads them: whatever stands around a block is passed over, and so is a
//! block that is none.
//! Upstream: Go's `encoding/pem`, `Decode`.

use base64::{Engine, alphabet, engine};

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

/// So many blocks may be none. Each of them can be searched to the end of the text, which may be a megabyte.
const BROKEN_MAX: usize = 64;

/// As Go reads base64: what is left over in the last character is not looked at.
const BASE64: engine::GeneralPurpose = engine::GeneralPurpose::new(
    &alphabet::STANDARD,
    engine::GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The contents of the blocks of a text, in order; nothing when too much of it only looks like blocks.
pub fn blocks(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut blocks = Vec::new();
    let (mut rest, mut at_start, mut broken) = (text, true, 0);
    while let Some(begun) = after_beginning(rest, at_start) {
        match block(begun) {
            Some((content, after)) => {
                blocks.push(content);
                // Behind a block its line has ended.
                (rest, at_start) = (after, true);
            }
            None => {
                broken += 1;
                (rest, at_start) = (begun, false);
            }
        }
        if broken > BROKEN_MAX {
            return None;
        }
    }
    Some(blocks)
}

/// What follows the next beginning, which starts a line.
fn after_beginning(text: &[u8], at_start: bool) -> Option<&[u8]> {
    if at_start && let Some(after) = text.strip_prefix(BEGIN) {
        return Some(after);
    }
    let mut from = 0;
    while let Some(found) = find(&text[from..], BEGIN) {
        let at = from + found;
        if at > 0 && text[at - 1] == b'\n' {
            return Some(&text[at + BEGIN.len()..]);
        }
        from = at + 1;
    }
    None
}

/// The content of a block whose beginning is over, and what follows it.
fn block(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (line, mut rest) = line(text);
    let label = line.strip_suffix(DASHES)?;
    let mut has_headers = false;
    loop {
        if rest.is_empty() {
            return None;
        }
        let (header, after) = self::line(rest);
        if !header.contains(&b':') {
            break;
        }
        (rest, has_headers) = (after, true);
    }
    let (body, ended) = match rest.strip_prefix(END).filter(|_| !has_headers) {
        Some(ended) => (&rest[..0], ended),
        None => {
            let end = find(rest, b"\n-----END ")?;
            (&rest[..end], &rest[end + 1 + END.len()..])
        }
    };
    let closed = ended.strip_prefix(label)?.strip_prefix(DASHES)?;
    let (remainder, after) = self::line(closed);
    if !remainder.is_empty() {
        return None;
    }
    let letters: Vec<u8> = body.iter().copied().filter(|it| !b" \t\r\n".contains(it)).collect();
    Some((BASE64.decode(letters).ok()?, after))
}

/// The first line without the white space at its end, and what follows it.
fn line(text: &[u8]) -> (&[u8], &[u8]) {
    let (line, rest) = match text.iter().position(|it| *it == b'\n') {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, &text[text.len()..]),
    };
    (line.trim_ascii_end(), rest)
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|it| it == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let blocks = blocks(text.as_bytes()).unwrap();
        blocks.into_iter().map(|it| String::from_utf8(it).unwrap()).collect()
    }

    #[test]
    fn blocks_are_read_with_whatever_stands_around_them() {
        let text = "Subject: a\n-----BEGIN A-----\nYWJj\r\nZGVm\n-----END A-----  \nbetween\n-----BEGIN B-----\n\
                    Key: value\nOther: value\n\nZ2hp\n-----END B-----";
        assert_eq!(read(text), ["abcdef", "ghi"]);
        assert_eq!(read("-----BEGIN A-----\n-----END A-----\n"), [""]);
        assert!(read("").is_empty() && read("text").is_empty());
    }

    #[test]
    fn what_is_no_block_is_passed_over() {
        for broken in [
            "-----BEGIN A\nYWJj\n-----END A-----\n",
            "-----BEGIN A-----\nYWJj\n-----END C-----\n",
            "-----BEGIN A-----\nYW*j\n-----END A-----\n",
            "-----BEGIN A-----\nYWJj\n-----END A----- more\n",
            "x-----BEGIN A-----\nYWJj\n-----END A-----\n",
        ] {
            let text = format!("{broken}-----BEGIN B-----\nZ2hp\n-----END B-----\n");
            assert_eq!(read(&text), ["ghi"], "{broken}");
            assert!(read(broken).is_empty(), "{broken}");
        }
    }

    #[test]
    fn a_text_of_nothing_but_beginnings_is_given_up() {
        assert!(blocks("\n-----BEGIN A-----\n".repeat(BROKEN_MAX + 1).as_bytes()).is_none());
    }
}
