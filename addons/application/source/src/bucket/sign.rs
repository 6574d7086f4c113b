//! Signatures of AWS, version 4, of requests without a body.
//! The protocol: docs.aws.amazon.com, "Authenticating Requests: Using the Authorization Header".

use crate::{
    SourceError,
    digest::{hex, hmac_sha256, sha256_hex},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{AUTHORIZATION, HOST},
};
use jiff::{Timestamp, tz::TimeZone};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

/// SHA-256 of nothing.
const NO_BODY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// All that is encoded: everything but letters, digits, `-`, `.`, `_` and `~`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What requests are signed with.
pub(super) struct BucketKey {
    pub id: String,
    pub secret: SecretString,
    pub region: String,
}

/// A text as it stands in a query, or as one segment of a path.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// A key of an object as it stands in a path.
pub(super) fn encoded_path(key: &str) -> String {
    key.split('/').map(encoded).collect::<Vec<_>>().join("/")
}

impl BucketKey {
    /// The headers that sign a request. `path` and `query` are those of the URL, encoded, and the query is in order.
    pub fn sign(
        &self,
        method: &Method,
        url: &Url,
        path: &str,
        query: &str,
        now: Timestamp,
    ) -> Result<HeaderMap, SourceError> {
        let host = match (url.host_str().unwrap_or_default(), url.port()) {
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        };
        let time = now.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ").to_string();
        let signed = [
            (HOST, host),
            (HeaderName::from_static("x-amz-content-sha256"), NO_BODY.to_owned()),
            (HeaderName::from_static("x-amz-date"), time.clone()),
        ];
        let authorization = self.authorization(method, path, query, &signed, &time);
        let mut headers = HeaderMap::new();
        for (name, value) in signed.into_iter().chain([(AUTHORIZATION, authorization)]) {
            let mut value = HeaderValue::try_from(value)
                .map_err(|_| SourceError::invalid("the key of S3 has characters that no key has"))?;
            value.set_sensitive(name == AUTHORIZATION);
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// The value of the header that signs these headers, which are in order.
    fn authorization(
        &self,
        method: &Method,
        path: &str,
        query: &str,
        signed: &[(HeaderName, String)],
        time: &str,
    ) -> String {
        let date = &time[..8];
        let lines: String = signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let names = signed
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>()
            .join(";");
        let request = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{NO_BODY}");
        let scope = format!("{date}/{}/s3/aws4_request", self.region);
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", sha256_hex(request.as_bytes()));
        let secret = format!("AWS4{}", self.secret.expose_secret());
        let of_day = hmac_sha256(secret.as_bytes(), date);
        let of_region = hmac_sha256(&of_day, &self.region);
        let of_service = hmac_sha256(&of_region, "s3");
        let signing = hmac_sha256(&of_service, "aws4_request");
        let signature = hex(&hmac_sha256(&signing, &text));
        let id = &self.id;
        format!("AWS4-HMAC-SHA256 Credential={id}/{scope},SignedHeaders={names},Signature={signature}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The key, the time and the signatures are those of the examples on the page named above.
    fn key() -> BucketKey {
        BucketKey {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            region: "us-east-1".to_owned(),
        }
    }

    fn signed(path: &str, query: &str) -> String {
        let url = Url::parse(&format!("https://examplebucket.s3.amazonaws.com{path}?{query}")).unwrap();
        let now = "2013-05-24T00:00:00Z".parse().unwrap();
        let headers = key().sign(&Method::GET, &url, path, query, now).unwrap();
        headers[AUTHORIZATION].to_str().unwrap().to_owned()
    }

    #[test]
    fn requests_are_signed_as_the_documentation_shows() {
        let scope = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request";
        let names = "SignedHeaders=host;x-amz-content-sha256;x-amz-date";
        let signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
        let listing = signed("/", "max-keys=2&prefix=J");
        assert_eq!(listing, format!("{scope},{names},Signature={signature}"));
        let signature = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543";
        assert_eq!(
            signed("/", "lifecycle="),
            format!("{scope},{names},Signature={signature}")
        );
    }

    #[test]
    fn keys_are_encoded_segment_by_segment() {
        assert_eq!(encoded_path("a b/ü+c&d.yaml"), "a%20b/%C3%BC%2Bc%26d.yaml");
        assert_eq!(encoded("a/b=~"), "a%2Fb%3D~");
    }
}
