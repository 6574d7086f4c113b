//! Names as parts of a URL's path: kube puts them there as they are, so that `?` would begin a query and `/` another
//! object. Upstream: apimachinery `pkg/api/validation/path`, and `url.PathEscape` of Go for how the rest is written.

use std::{borrow::Cow, fmt::Write};

/// Why a text cannot be one segment of a path, in the words of client-go. An API server has no object of such a name.
pub fn refusal(text: &str) -> Option<String> {
    if matches!(text, "." | "..") {
        return Some(format!("may not be '{text}'"));
    }
    let odd = ['/', '%'].into_iter().find(|it| text.contains(*it));
    odd.map(|it| format!("may not contain '{it}'"))
}

/// The text as one segment of a path, which decodes to exactly it.
///
/// What [`refusal`] refuses becomes a segment that names nothing: servers divide a path after they have decoded it, so
/// that there is no way to write it, and what it must not do is to reach something else.
pub fn encoded(text: &str) -> Cow<'_, str> {
    if refusal(text).is_some() {
        // Decoded once, a percent sign is left, which is in no name.
        let twice = bytes_encoded(text, |_| false).replace('%', "%25");
        return Cow::Owned(twice);
    }
    if text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(bytes_encoded(text, is_plain))
}

/// `group/version` as the two segments that it is.
pub fn encoded_api_version(text: &str) -> Cow<'_, str> {
    match text.split_once('/') {
        Some((group, version)) => match (encoded(group), encoded(version)) {
            (Cow::Borrowed(_), Cow::Borrowed(_)) => Cow::Borrowed(text),
            (group, version) => Cow::Owned(format!("{group}/{version}")),
        },
        None => encoded(text),
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~$&+=:@".contains(&byte)
}

fn bytes_encoded(text: &str, plain: impl Fn(u8) -> bool) -> String {
    let mut written = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        if plain(byte) {
            written.push(char::from(byte));
        } else {
            write!(written, "%{byte:02X}").expect("a String takes every text");
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_as_go_writes_it() {
        for (name, path) in [
            ("web", "web"),
            ("system:node", "system:node"),
            ("a b\r\nX: y", "a%20b%0D%0AX:%20y"),
            ("?q", "%3Fq"),
            ("a?dryRun=All", "a%3FdryRun=All"),
            ("ä#", "%C3%A4%23"),
        ] {
            assert_eq!(encoded(name), path);
            assert_eq!(refusal(name), None);
        }
        assert_eq!(encoded_api_version("apps/v1"), "apps/v1");
        assert_eq!(encoded_api_version("v1?x"), "v1%3Fx");
    }

    #[test]
    fn what_is_no_segment_reaches_nothing() {
        assert_eq!(refusal("..").unwrap(), "may not be '..'");
        assert_eq!(refusal("a/b").unwrap(), "may not contain '/'");
        assert_eq!(refusal("a%2Fb").unwrap(), "may not contain '%'");
        for name in [".", "..", "a/../b", "%2e%2e"] {
            let path = encoded(name);
            assert!(path.starts_with("%25") && !path.contains('/'), "{path}");
        }
    }
}
