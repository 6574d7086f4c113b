//! What a certificate request may look like, so that everybody reads the same one out of it: who approves it, which
//! knows nothing of the API server, and the API server, which knows nothing of who approves.

mod asked;
mod signature;

pub use asked::{Asked, CLIENT_USAGES, check_usages, read};
pub use signature::is_signed_by_its_key;

const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----";
const END: &str = "-----END CERTIFICATE REQUEST-----";

/// Whether a PEM text (RFC 7468) holds one certificate request and nothing else that a reader could take for one.
///
/// Who approves a request and who signs it read the text with different parsers, which differ in the blocks that they
/// skip: by a label they do not know, by an end of another label, by what they take for the end of a line. With two
/// blocks one could be approved and the other signed. Text before and after the block is no harm,
/// as long as it has none of PEM's marks.
pub fn is_only_one(pem: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(pem) else {
        return false;
    };
    // Two marks in the line that begins the block, and two in the one that ends it.
    if text.matches("-----").count() != 4 || text.replace("\r\n", "\n").contains('\r') {
        return false;
    }
    let is_base64 = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'/' | b'=');
    let mut lines = text.lines().skip_while(|it| *it != BEGIN).skip(1);
    lines.by_ref().find(|it| !it.bytes().all(is_base64)) == Some(END)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_may_have_text_around_it() {
        for text in [
            format!("{BEGIN}\nAAAA\nAA==\n{END}\n"),
            format!("{BEGIN}\r\nAAAA\r\n{END}\r\n"),
            format!("{BEGIN}\nAAAA\n{END}"),
            format!("Certificate Request:\n    Data: a - b\n{BEGIN}\nAAAA\n{END}\n\n"),
        ] {
            assert!(is_only_one(text.as_bytes()), "{text:?}");
        }
    }

    #[test]
    fn what_two_readers_could_read_differently_is_no_request() {
        let other = "-----BEGIN CERTIFICATE REQUEST-X-----\nAAAA\n-----END CERTIFICATE REQUEST-X-----\n";
        let block = format!("{BEGIN}\nBBBB\n{END}\n");
        for text in [
            String::new(),
            format!("{block}{block}"),
            format!("{other}{block}"),
            format!("{block}{other}"),
            format!("{BEGIN}\nAAAA\n-----END X-----\n{block}"),
            format!("c\r{BEGIN}\rAAAA\r{END}\n{block}"),
            format!("c\r{BEGIN}\rAAAA\r{END}\n"),
            format!("{BEGIN}\nProc-Type: 4,ENCRYPTED\n\nAAAA\n{END}\n"),
            format!("{BEGIN}\nAAAA\n-----END X-----\n"),
            format!("{BEGIN} \nAAAA\n{END}\n"),
            format!(" {BEGIN}\nAAAA\n{END}\n"),
            format!("-{BEGIN}\nAAAA\n{END}\n"),
            format!("{BEGIN}\nAAAA\n"),
            format!("{END}\nAAAA\n{BEGIN}\n"),
            other.to_owned(),
        ] {
            assert!(!is_only_one(text.as_bytes()), "{text:?}");
        }
        assert!(!is_only_one(&[0xff]));
    }
}
