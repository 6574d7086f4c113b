//! A bucket. The server knows the three requests that are made of it, looks whether they are signed as S3 wants it, and
//! does not compute the signature, which the tests of `application-source` compare with the examples of AWS.

use crate::web::{ServerAnswer, ServerRequest, WebServer, answer};
use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rustls::ServerConfig;
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// Where it is on the server: behind a path, as a proxy may have it.
const PATH: &str = "/behind/b";

/// The key that it lets in.
pub const KEY_ID: &str = "id";

/// A bucket, until its test ends.
pub struct BucketServer {
    pub web: WebServer,
    objects: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl BucketServer {
    /// With these objects.
    pub async fn start(objects: BTreeMap<String, Vec<u8>>) -> Self {
        Self::start_with(None, objects, |_| None).await
    }

    /// The same, over TLS if there is some, where a function may answer before the bucket does.
    pub async fn start_with(
        tls: Option<ServerConfig>,
        objects: BTreeMap<String, Vec<u8>>,
        change: impl Fn(&ServerRequest) -> Option<ServerAnswer> + Send + Sync + 'static,
    ) -> Self {
        let objects = Arc::new(Mutex::new(objects));
        let all = objects.clone();
        let web = WebServer::start_with(tls, move |asked| {
            let answer = change(&asked).unwrap_or_else(|| bucket(&all.lock().unwrap(), &asked));
            async move { answer }
        });
        Self {
            web: web.await,
            objects,
        }
    }

    /// The URL of the bucket.
    pub fn pathname(&self) -> String {
        self.web.url(PATH)
    }

    pub fn put(&self, key: &str, data: &str) {
        self.objects.lock().unwrap().insert(key.to_owned(), data.into());
    }

    pub fn remove(&self, key: &str) {
        self.objects.lock().unwrap().remove(key);
    }

    /// The keys of the objects that were asked for since this was asked last, in order.
    pub fn read_keys(&self) -> Vec<String> {
        let mut keys: Vec<_> = self.web.take_asked().iter().filter_map(key_of).collect();
        keys.sort();
        keys
    }
}

/// The key of the object that is asked for.
fn key_of(asked: &ServerRequest) -> Option<String> {
    let key = asked.path.strip_prefix(PATH)?.strip_prefix('/')?;
    Some(percent_decode_str(key).decode_utf8().unwrap().into_owned())
}

/// Whether a request is signed with the key that is let in.
pub fn is_signed(asked: &ServerRequest) -> bool {
    let header = |name: &str| {
        asked
            .headers
            .get(name)
            .map(|it| it.to_str().unwrap().to_owned())
            .unwrap_or_default()
    };
    let time = header("x-amz-date");
    let credential = format!(
        "AWS4-HMAC-SHA256 Credential={KEY_ID}/{}/minio/s3/aws4_request,",
        &time[..8.min(time.len())]
    );
    let names = "SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature=";
    let authorization = asked.authorization().unwrap_or_default();
    time.len() == 16
        && header("x-amz-content-sha256").starts_with("e3b0c442")
        && authorization
            .strip_prefix(&credential)
            .is_some_and(|it| it.starts_with(names) && it.len() == names.len() + 64)
}

/// A refusal of S3.
pub fn refused(status: u16, code: &str) -> ServerAnswer {
    answer(
        status,
        format!("<Error><Code>{code}</Code><Message>hidden</Message></Error>"),
    )
}

fn query(asked: &ServerRequest, name: &str) -> Option<String> {
    let mut pairs = asked.query.split('&').filter_map(|it| it.split_once('='));
    let (_, value) = pairs.find(|it| it.0 == name)?;
    Some(percent_decode_str(value).decode_utf8().unwrap().into_owned())
}

fn tag(data: &[u8]) -> String {
    let hex: String = Sha256::digest(data).iter().map(|it| format!("{it:02x}")).collect();
    format!("\"{}\"", &hex[..32])
}

/// What a bucket with these objects answers; two objects make a page.
fn bucket(objects: &BTreeMap<String, Vec<u8>>, asked: &ServerRequest) -> ServerAnswer {
    if !asked.path.starts_with(PATH) {
        return refused(404, "NoSuchBucket");
    }
    if !is_signed(asked) {
        return refused(403, "AccessDenied");
    }
    if let Some(key) = key_of(asked) {
        let Some(data) = objects.get(&key) else {
            return refused(404, "NoSuchKey");
        };
        let mut answer = answer(200, data.clone());
        answer.headers_mut().insert("etag", tag(data).parse().unwrap());
        return answer;
    }
    if asked.method == Method::HEAD {
        return answer(200, "");
    }
    let prefix = query(asked, "prefix").unwrap_or_default();
    let after = query(asked, "continuation-token").unwrap_or_default();
    let mut all: Vec<_> = objects
        .iter()
        .filter(|(key, _)| key.starts_with(&prefix) && **key > after)
        .collect();
    let is_truncated = all.len() > 2;
    all.truncate(2);
    let contents: String = all
        .iter()
        .map(|(key, data)| {
            format!(
                "<Contents><Key>{}</Key><Size>{}</Size><ETag>{}</ETag></Contents>",
                utf8_percent_encode(key, NON_ALPHANUMERIC),
                data.len(),
                tag(data).replace('"', "&quot;")
            )
        })
        .collect();
    let next = match all.last() {
        Some((key, _)) if is_truncated => format!("<NextContinuationToken>{key}</NextContinuationToken>"),
        _ => String::new(),
    };
    answer(
        200,
        format!(
            "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{is_truncated}</IsTruncated>{next}{contents}\
             </ListBucketResult>"
        ),
    )
}
