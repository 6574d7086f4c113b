//! Query strings of lists, watches and deletes: continue tokens, selectors, revisions.

use super::{http, part, text};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use std::fmt::Write;

/// `METHOD PATH` on the first line, and a parameter on each of the others, not yet escaped.
pub fn queries(data: &[u8]) {
    let (line, rest) = part(data);
    let Some((method, path)) = text(line).split_once(' ') else {
        return;
    };
    let mut uri = format!("{path}?");
    for parameter in rest.split(|it| *it == b'\n') {
        let end = parameter.iter().position(|it| *it == b'=').unwrap_or(parameter.len());
        let (name, value) = parameter.split_at(end);
        escape(&mut uri, name);
        uri.push('=');
        let value = value.strip_prefix(b"=").unwrap_or_default();
        // A token as the server would have written it.
        if name == b"continue" && value.starts_with(b"{") {
            uri.push_str(&BASE64_URL_SAFE_NO_PAD.encode(value));
        } else {
            escape(&mut uri, value);
        }
        uri.push('&');
    }
    for media in ["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"] {
        http::ask(method, &uri, media.as_bytes(), Bytes::new());
    }
}

fn escape(uri: &mut String, bytes: &[u8]) {
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~%".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
}
