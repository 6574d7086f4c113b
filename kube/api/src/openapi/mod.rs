//! What kubectl reads before it applies: OpenAPI v3, one document per group version, and v2 for older clients.
//!
//! Documents are made of the registry when they are first asked for. A document's hash is found without making it and
//! names its content, so that the servers of one process share what was made.

mod gnostic;
mod made;
mod paths;
mod schemas;
mod v2;
mod v3;

use crate::registry::Registry;
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use sha2::{Digest, Sha512};
use std::io::Write;

/// Media type of the v2 document in protobuf, as clients ask for it (with `@` in older ones) and as it is answered.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V2_PROTOBUF_ASKED: [&str; 2] = [
    V2_PROTOBUF,
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
];
const JSON: &str = "application/json";
/// Smaller documents are sent as they are: packing them costs more than it saves.
const GZIP_BYTES_MIN: usize = 16 << 10;

/// A document and its name for caches.
#[derive(Clone, Debug)]
struct Document {
    body: Bytes,
    content_type: &'static str,
    /// 128 hexadecimal digits; changes when the document does.
    hash: String,
}

/// Forms of the v2 document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Protobuf,
}

/// The form of the v2 document that an `Accept` header asks for; `None` is 406.
fn v2_form(accept: Option<&str>) -> Option<Form> {
    let accept = accept.map(str::trim).filter(|it| !it.is_empty()).unwrap_or("*/*");
    accept
        .split(',')
        .find_map(|it| match it.split(';').next().unwrap_or_default().trim() {
            "*/*" | "application/*" | JSON => Some(Form::Json),
            other if V2_PROTOBUF_ASKED.contains(&other) => Some(Form::Protobuf),
            _ => None,
        })
}

fn accept(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::ACCEPT).and_then(|it| it.to_str().ok())
}

/// Answers GET `/openapi/v3`: the group versions and where their documents are.
pub fn v3_index<B: From<Bytes>>(registry: &Registry, headers: &HeaderMap) -> Response<B> {
    let body: Bytes = v3::index(registry).to_string().into();
    let hash = digest(&[&body]);
    answer(
        &Document {
            body,
            content_type: JSON,
            hash,
        },
        headers,
        false,
    )
}

/// Answers GET `/openapi/v3/{key}`, such as `api/v1` or `apis/apps/v1`; `asked` is the query's `hash`.
pub fn v3_document<B: From<Bytes>>(
    registry: &Registry,
    key: &str,
    asked: Option<&str>,
    headers: &HeaderMap,
) -> Response<B> {
    if v2_form(accept(headers)) != Some(Form::Json) {
        return empty(StatusCode::NOT_ACCEPTABLE);
    }
    let key = key.trim_matches('/');
    let Some((group, version)) = v3::parse_key(registry, key) else {
        return empty(StatusCode::NOT_FOUND);
    };
    let hash = v3::hash(registry, &group, &version);
    let asked = asked.filter(|it| !it.is_empty());
    if asked.is_some_and(|it| it != hash) {
        return moved(&v3::url(key, &hash));
    }
    let body = made::once(&hash, || v3::document(registry, &group, &version).to_string().into());
    answer(
        &Document {
            body,
            content_type: JSON,
            hash,
        },
        headers,
        asked.is_some(),
    )
}

/// Answers GET `/openapi/v2`.
pub fn v2<B: From<Bytes>>(registry: &Registry, headers: &HeaderMap) -> Response<B> {
    let Some(form) = v2_form(accept(headers)) else {
        return empty(StatusCode::NOT_ACCEPTABLE);
    };
    let content_type = if form == Form::Json { JSON } else { V2_PROTOBUF };
    let hash = digest(&[content_type.as_bytes(), v3::index(registry).to_string().as_bytes()]);
    let body = made::once(&hash, || {
        let document = v2::document(registry);
        match form {
            Form::Json => document.to_string().into(),
            Form::Protobuf => gnostic::encode(&document).into(),
        }
    });
    answer(
        &Document {
            body,
            content_type,
            hash,
        },
        headers,
        false,
    )
}

/// 128 upper-case hexadecimal digits over the parts.
fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha512::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|it| format!("{it:02X}")).collect()
}

fn empty<B: From<Bytes>>(code: StatusCode) -> Response<B> {
    let mut response = Response::new(Bytes::new().into());
    *response.status_mut() = code;
    response
}

fn moved<B: From<Bytes>>(url: &str) -> Response<B> {
    let mut response = empty(StatusCode::MOVED_PERMANENTLY);
    if let Ok(url) = HeaderValue::from_str(url) {
        response.headers_mut().insert(header::LOCATION, url);
    }
    response
}

fn packed(body: &Bytes, asked: &HeaderMap) -> Option<Bytes> {
    let accepted = asked
        .get(header::ACCEPT_ENCODING)
        .and_then(|it| it.to_str().ok())
        .unwrap_or_default();
    if body.len() < GZIP_BYTES_MIN || !accepted.split(',').any(|it| it.trim().starts_with("gzip")) {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
    encoder
        .write_all(body)
        .and_then(|()| encoder.finish())
        .ok()
        .map(Bytes::from)
}

fn answer<B: From<Bytes>>(document: &Document, asked: &HeaderMap, immutable: bool) -> Response<B> {
    let tag = format!("\"{}\"", document.hash);
    let known = asked.get(header::IF_NONE_MATCH).and_then(|it| it.to_str().ok());
    let known = known.is_some_and(|it| it.split(',').any(|it| it.trim().trim_start_matches("W/") == tag));
    let packed = if known { None } else { packed(&document.body, asked) };
    let is_packed = packed.is_some();
    let body = if known {
        Bytes::new()
    } else {
        packed.unwrap_or_else(|| document.body.clone())
    };
    let mut response = Response::new(body.into());
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(document.content_type));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
    if is_packed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    // A year: the hash is part of the address, so the document at that address never changes.
    let control = if immutable {
        "public, immutable, max-age=31536000"
    } else {
        "no-cache, private"
    };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(control));
    response
}

#[cfg(test)]
mod tests;
