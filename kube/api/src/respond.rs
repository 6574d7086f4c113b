//! What a response looks like: the form that the client accepts, and the bodies.

use crate::request::Query;
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::stream::{BoxStream, StreamExt};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Frame;
use kube_store::status::Status;
use serde_json::Value;
use std::{
    convert::Infallible,
    io::Write,
    pin::Pin,
    task::{Context, Poll},
};

/// Responses above this size are compressed when the client accepts it, as kube-apiserver does.
const GZIP_BYTES_MIN: usize = 128 * 1024;

/// A response body: bytes at once, or a stream of watch events.
pub enum Body {
    Full(Option<Bytes>),
    Stream(BoxStream<'static, Bytes>),
}

impl Body {
    pub fn empty() -> Self {
        Self::Full(None)
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Full(Some(bytes))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Full(bytes) => Poll::Ready(bytes.take().filter(|it| !it.is_empty()).map(|it| Ok(Frame::data(it)))),
            Self::Stream(stream) => stream
                .poll_next_unpin(context)
                .map(|it| it.map(|it| Ok(Frame::data(it)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Self::Full(bytes) => http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |it| it.len() as u64)),
            Self::Stream(_) => http_body::SizeHint::default(),
        }
    }
}

/// The media type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    Json,
    Yaml,
}

/// The shape that `as=` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    #[default]
    Object,
    /// `meta.k8s.io` version of the Table.
    Table(String),
    Partial,
    PartialList,
}

/// What the client accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    pub media: Media,
    pub shape: Shape,
    pub pretty: bool,
}

impl Default for Form {
    fn default() -> Self {
        Self {
            media: Media::Json,
            shape: Shape::Object,
            pretty: false,
        }
    }
}

const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// One element of an Accept header: media type, parameters, quality in thousandths.
struct Accepted<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: u32,
}

fn accepted(header: &str) -> Vec<Accepted<'_>> {
    let mut elements: Vec<Accepted<'_>> = header
        .split(',')
        .filter_map(|element| {
            let mut parts = element.split(';').map(str::trim);
            let media = parts.next().filter(|it| !it.is_empty())?;
            let mut parameters = Vec::new();
            let mut quality = 1000;
            for (key, value) in parts.filter_map(|it| it.split_once('=')) {
                if key == "q" {
                    quality = value.parse::<f32>().map_or(1000, |it| (it * 1000.0) as u32);
                } else {
                    parameters.push((key, value));
                }
            }
            Some(Accepted {
                media,
                parameters,
                quality,
            })
        })
        .collect();
    elements.sort_by_key(|it| std::cmp::Reverse(it.quality));
    elements
}

/// Picks the first form that the server can give. Protobuf is read but never written: every client that asks for it
/// also takes JSON.
///
/// # Errors
/// 406 when nothing in the header can be given.
pub fn negotiate(headers: &HeaderMap, query: &Query) -> Result<Form, Status> {
    let header = headers
        .get(header::ACCEPT)
        .and_then(|it| it.to_str().ok())
        .unwrap_or_default();
    let agent = headers
        .get(header::USER_AGENT)
        .and_then(|it| it.to_str().ok())
        .unwrap_or_default();
    let pretty = match query.get("pretty") {
        Some(it) => it == "true" || it == "1",
        None => ["curl", "Wget", "Mozilla/5.0"].iter().any(|it| agent.starts_with(it)),
    };
    let elements = accepted(header);
    if elements.is_empty() {
        return Ok(Form {
            pretty,
            ..Form::default()
        });
    }
    let mut known = false;
    for element in &elements {
        let media = match element.media {
            "application/json" | "*/*" | "application/*" => Media::Json,
            "application/yaml" => Media::Yaml,
            "application/vnd.kubernetes.protobuf" => {
                known = true;
                continue;
            }
            _ => continue,
        };
        known = true;
        let parameter = |key: &str| {
            element
                .parameters
                .iter()
                .find(|(it, _)| *it == key)
                .map(|(_, value)| *value)
        };
        let shape = match (parameter("as"), parameter("g"), parameter("v")) {
            (None, _, _) => Shape::Object,
            (Some("Table"), Some("meta.k8s.io"), Some(version @ ("v1" | "v1beta1"))) => Shape::Table(version.into()),
            (Some("PartialObjectMetadata"), Some("meta.k8s.io"), Some("v1")) => Shape::Partial,
            (Some("PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1")) => Shape::PartialList,
            _ => continue,
        };
        return Ok(Form { media, shape, pretty });
    }
    let message = if known {
        format!("only the following media types are accepted: {MEDIA_TYPES}")
    } else {
        format!("406: Not Acceptable\n\nAvailable representations: {MEDIA_TYPES}")
    };
    Err(Status::new(406, "NotAcceptable", message))
}

/// Whether the client accepts gzip.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let header = headers
        .get(header::ACCEPT_ENCODING)
        .and_then(|it| it.to_str().ok())
        .unwrap_or_default();
    header.split(',').any(|it| it.trim().starts_with("gzip"))
}

/// Encodes a value in the accepted form.
pub fn encode(value: &Value, form: &Form) -> Bytes {
    match form.media {
        Media::Yaml => serde_saphyr::to_string(value).unwrap_or_default().into(),
        Media::Json => {
            let mut bytes = if form.pretty {
                serde_json::to_vec_pretty(value)
            } else {
                serde_json::to_vec(value)
            }
            .expect("a JSON value serializes");
            bytes.push(b'\n');
            bytes.into()
        }
    }
}

fn content_type(form: &Form) -> HeaderValue {
    HeaderValue::from_static(match form.media {
        Media::Json => "application/json",
        Media::Yaml => "application/yaml",
    })
}

/// A response with a body that is already encoded in `form`.
pub fn bytes(code: u16, form: &Form, body: Bytes, gzip: bool) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type(form));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    let mut body = body;
    if gzip && body.len() > GZIP_BYTES_MIN {
        let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
        if let Ok(packed) = encoder.write_all(&body).and_then(|()| encoder.finish()) {
            body = packed.into();
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
    }
    *response.body_mut() = body.into();
    response
}

/// A body that is made while it is sent.
pub struct Pieces {
    /// About how long it will be.
    pub bytes: usize,
    pub pieces: Box<dyn Iterator<Item = Bytes> + Send>,
}

/// A response whose body is made, and compressed, while it is sent: a large one costs no more memory than a piece of
/// it, and others have their turn between two pieces.
pub fn pieces(form: &Form, body: Pieces, gzip: bool) -> Response<Body> {
    let Pieces { bytes: about, pieces } = body;
    if about <= GZIP_BYTES_MIN {
        let whole: Vec<Bytes> = pieces.collect();
        let whole = match <[Bytes; 1]>::try_from(whole) {
            Ok([one]) => one,
            Err(several) => several.concat().into(),
        };
        return bytes(200, form, whole, false);
    }
    let mut response = bytes(200, form, Bytes::new(), false);
    let body: BoxStream<'static, Bytes> = if gzip {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        futures::stream::iter(compressed(pieces)).boxed()
    } else {
        futures::stream::iter(pieces).boxed()
    };
    *response.body_mut() = Body::Stream(body);
    response
}

/// The pieces of one gzip file.
fn compressed(mut pieces: Box<dyn Iterator<Item = Bytes> + Send>) -> impl Iterator<Item = Bytes> + Send {
    let mut encoder = Some(GzEncoder::new(Vec::new(), Compression::fast()));
    std::iter::from_fn(move || {
        loop {
            let Some(piece) = pieces.next() else {
                // Writing into a Vec cannot fail.
                return encoder.take()?.finish().ok().map(Bytes::from);
            };
            let encoder = encoder.as_mut()?;
            encoder.write_all(&piece).ok()?;
            if !encoder.get_ref().is_empty() {
                return Some(Bytes::from(std::mem::take(encoder.get_mut())));
            }
        }
    })
}

/// 429, as kube-apiserver says it.
pub fn too_many_requests() -> Response<Body> {
    let mut response = text(429, "Too many requests, please try again later.\n");
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// A response with a value.
pub fn value(code: u16, form: &Form, value: &Value) -> Response<Body> {
    bytes(code, form, encode(value, form), false)
}

/// A plain text response.
pub fn text(code: u16, body: impl Into<String>) -> Response<Body> {
    let mut response = bytes(code, &Form::default(), Bytes::from(body.into()), false);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A Kubernetes error.
pub fn failure(status: &Status, form: &Form) -> Response<Body> {
    let form = Form {
        shape: Shape::Object,
        pretty: form.pretty || status.code == 406,
        ..form.clone()
    };
    let mut response = value(status.code, &form, &status.body());
    if let Some(seconds) = status.retry_after_seconds {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status.code == 403 {
        response
            .headers_mut()
            .insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    response
}

/// All warnings together say this much, and when they would say more, each says so much.
const WARNINGS_CHARS_MAX: usize = 4096;
const WARNING_CHARS_MAX: usize = 256;

/// Adds `Warning: 299 - "text"` headers, each text once.
pub fn warn(response: &mut Response<Body>, warnings: &[String]) {
    let all: usize = warnings.iter().map(String::len).sum();
    let each = if all > WARNINGS_CHARS_MAX {
        WARNING_CHARS_MAX
    } else {
        all
    };
    let mut left = WARNINGS_CHARS_MAX;
    for (at, warning) in warnings.iter().enumerate() {
        if warnings[..at].contains(warning) {
            continue;
        }
        let text: String = warning.chars().take(each).filter(|it| !it.is_control()).collect();
        let Some(rest) = left.checked_sub(text.len()) else {
            break;
        };
        left = rest;
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(it) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
            response.headers_mut().append(header::WARNING, it);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_sent_once_and_truncated_when_many() {
        let told = |warnings: &[String]| {
            let mut response = Response::new(Body::empty());
            warn(&mut response, warnings);
            let all = response.headers().get_all(header::WARNING);
            all.iter().map(|it| it.len()).collect::<Vec<_>>()
        };
        let long = |letter: &str| letter.repeat(3000);
        assert_eq!(told(&["a".into(), "b".into(), "a".into()]), [9, 9]);
        assert_eq!(told(&[long("a")]), [3008]);
        assert_eq!(told(&[long("a"), long("b")]), [264, 264]);
    }

    fn form(accept: &str) -> Result<Form, Status> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        negotiate(&headers, &Query::default())
    }

    #[test]
    fn the_first_form_that_can_be_given_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(form(kubectl).unwrap().shape, Shape::Table("v1".into()));
        assert_eq!(
            form("application/vnd.kubernetes.protobuf,application/json").unwrap(),
            Form::default()
        );
        assert_eq!(
            form("application/vnd.kubernetes.protobuf, */*").unwrap(),
            Form::default()
        );
        assert_eq!(
            form("application/json;q=0.5,application/yaml").unwrap().media,
            Media::Yaml
        );
        assert!(
            form("application/cbor")
                .unwrap_err()
                .message
                .starts_with("406: Not Acceptable")
        );
        assert!(
            form("application/json;as=Nope;g=x;v=v1")
                .unwrap_err()
                .message
                .starts_with("only the following")
        );
    }
}
