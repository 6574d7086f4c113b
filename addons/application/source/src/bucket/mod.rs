//! Buckets of S3, or of what speaks its protocol: the objects below a prefix.
//!
//! Three requests suffice (is the bucket there, what is in it, give me this), and we sign them ourselves. Nothing looks
//! for credentials in the environment or in a cloud's metadata: a request is signed with the key that it is given, or
//! it is not signed.

mod listing;
mod sign;

use crate::{
    SourceAccess, SourceBounds, SourceCredentials, SourceError,
    bounds::Deadline,
    digest::sha256_hex,
    error::{shown, shown_text},
    web::{WebAnswer, WebClient},
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::{HeaderMap, Method, StatusCode, header::ETAG};
pub use listing::ListedObject;
use listing::ListingPage;
use secrecy::ExposeSecret;
use sign::{BucketKey, encoded, encoded_path};
use std::{collections::BTreeMap, sync::Arc};
use url::Url;

/// How many objects are fetched at once. More would only wait for each other.
const AT_ONCE: usize = 8;

/// A page of a listing names at most a thousand objects.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// A message of a server about what is wrong is short.
const MESSAGE_BYTES_MAX: u64 = 64 << 10;

/// The region that servers other than AWS are told, as OCM always has.
const OTHER_REGION: &str = "minio";

/// A bucket, and what of it is wanted.
#[derive(Clone, Debug)]
pub struct BucketSource {
    /// The URL of the server, a slash, and the name of the bucket.
    pub pathname: String,
    /// What the keys of the objects begin with; empty for all of them.
    pub prefix: String,
    pub access: SourceAccess,
}

/// What a bucket says that it holds below the prefix, in the order of the keys. What is empty is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketListing {
    pub objects: Vec<ListedObject>,
}

/// An object of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketObject {
    pub key: String,
    /// What the server called the state that was read.
    pub tag: Option<String>,
    pub data: Arc<[u8]>,
}

impl BucketListing {
    /// While it stays the same, so do the objects; `None` when the server does not tell their states apart.
    pub fn digest(&self) -> Option<String> {
        digest_of(self.objects.iter().map(|it| (&it.key, &it.tag)))
    }
}

impl BucketObject {
    /// That of the listing of these objects.
    pub fn digest(objects: &[Self]) -> Option<String> {
        digest_of(objects.iter().map(|it| (&it.key, &it.tag)))
    }
}

fn digest_of<'a>(objects: impl Iterator<Item = (&'a String, &'a Option<String>)>) -> Option<String> {
    let mut lines = String::new();
    for (key, tag) in objects {
        // Neither has a NUL in it: it is no character of XML.
        lines += &format!("{key}\0{}\0", tag.as_deref()?);
    }
    Some(sha256_hex(lines.as_bytes()))
}

/// Lists the objects below the prefix, which is much less than to read them.
pub async fn list(source: &BucketSource, bounds: &SourceBounds) -> Result<BucketListing, SourceError> {
    let bucket = Bucket::new(source)?;
    let deadline = bounds.deadline();
    let listing = bucket.list(source.prefix.trim_start_matches('/'), bounds, deadline);
    deadline.holds(&bucket.shown, listing).await
}

/// Reads what is listed. Of `before`, which was read earlier with the same credentials, what the listing has in the
/// same state is taken over. Objects that are empty are left out; one that cannot be read fails all.
pub async fn read(
    source: &BucketSource,
    listing: &BucketListing,
    before: &[BucketObject],
    bounds: &SourceBounds,
) -> Result<Vec<BucketObject>, SourceError> {
    let bucket = Bucket::new(source)?;
    let deadline = bounds.deadline();
    let reading = bucket.read(listing, before, bounds, deadline);
    deadline.holds(&bucket.shown, reading).await
}

struct Bucket {
    client: WebClient,
    /// The server, without a path.
    server: Url,
    /// The path of the bucket, encoded.
    path: String,
    name: String,
    key: Option<BucketKey>,
    shown: String,
}

impl Bucket {
    fn new(source: &BucketSource) -> Result<Self, SourceError> {
        let text = source.pathname.trim();
        if text.is_empty() {
            return Err(SourceError::invalid(
                "the bucket has an empty pathname: give the URL of the server, a slash, and the bucket",
            ));
        }
        let invalid = |why: &str| SourceError::invalid(format!("the bucket {:?} {why}", shown_text(text)));
        let mut server = Url::parse(text).map_err(|it| invalid(&format!("has no URL that can be read: {it}")))?;
        if !matches!(server.scheme(), "http" | "https") {
            return Err(invalid("is reached by http or https only"));
        }
        let whole = server.path().trim_matches('/').to_owned();
        let (folder, name) = whole.rsplit_once('/').unwrap_or(("", &whole));
        let name = percent_encoding::percent_decode_str(name)
            .decode_utf8_lossy()
            .into_owned();
        if name.is_empty() {
            return Err(invalid(
                "has no name of a bucket: it is what stands after the last slash",
            ));
        }
        let folder = if folder.is_empty() {
            String::new()
        } else {
            format!("/{folder}")
        };
        let path = format!("{folder}/{}", encoded(&name));
        server.set_query(None);
        server.set_fragment(None);
        server.set_path("");
        let key = match &source.access.credentials {
            SourceCredentials::S3 {
                access_key_id,
                secret_access_key,
                region,
            } => {
                let region = region_at(&mut server, region.as_deref().filter(|it| !it.is_empty()));
                Some(BucketKey {
                    id: access_key_id.clone(),
                    secret: secret_access_key.expose_secret().to_owned().into(),
                    region,
                })
            }
            SourceCredentials::None => None,
            _ => return Err(invalid("takes a key of S3 as its credentials, and nothing else")),
        };
        Ok(Self {
            client: WebClient::new(&server, &source.access)?,
            shown: format!("{}{}", shown(&server).trim_end_matches('/'), path),
            server,
            path,
            name,
            key,
        })
    }

    async fn read(
        &self,
        listing: &BucketListing,
        before: &[BucketObject],
        bounds: &SourceBounds,
        deadline: Deadline,
    ) -> Result<Vec<BucketObject>, SourceError> {
        let before: BTreeMap<_, _> = before.iter().map(|it| (it.key.as_str(), it)).collect();
        let wanted = listing.objects.iter().map(|listed| {
            let known = before.get(listed.key.as_str());
            let known = known.filter(|it| it.tag.is_some() && it.tag == listed.tag);
            (listed.clone(), known.map(|it| (*it).clone()))
        });
        let wanted: Vec<_> = wanted.collect();
        let objects = futures::stream::iter(wanted)
            .map(|(listed, known)| self.object(listed, known, bounds, deadline))
            .buffered(AT_ONCE);
        let mut bytes = 0;
        let counted = objects.and_then(|object| {
            bytes += object.data.len() as u64;
            let what = format!("its objects have more than {} bytes", bounds.total_bytes_max);
            let fits = bytes <= bounds.total_bytes_max;
            std::future::ready(if fits {
                Ok(object)
            } else {
                Err(SourceError::too_large(&self.shown, what))
            })
        });
        let full = counted.try_filter(|object| std::future::ready(!object.data.is_empty()));
        full.try_collect().await
    }

    async fn list(
        &self,
        prefix: &str,
        bounds: &SourceBounds,
        deadline: Deadline,
    ) -> Result<BucketListing, SourceError> {
        let answer = self.ask(Method::HEAD, &self.path, &[], deadline).await?;
        if !answer.status.is_success() {
            return Err(self.client.refusal(&answer, &format!("bucket {}", self.name)));
        }
        let mut objects = Vec::new();
        let mut bytes = 0;
        let mut token: Option<String> = None;
        loop {
            let mut query = vec![("encoding-type", "url"), ("list-type", "2")];
            if !prefix.is_empty() {
                query.push(("prefix", prefix));
            }
            if let Some(token) = &token {
                query.insert(0, ("continuation-token", token));
            }
            let answer = self.ask(Method::GET, &self.path, &query, deadline).await?;
            let answer = self
                .accepted(answer, &format!("bucket {}", self.name), deadline)
                .await?;
            let page = answer.bytes(PAGE_BYTES_MAX, deadline).await?;
            let page = ListingPage::read(&page).map_err(|it| SourceError::corrupt(&self.shown, it))?;
            // Servers have been seen that take no notice of a prefix.
            for object in page.objects.into_iter().filter(|it| it.key.starts_with(prefix)) {
                if object.size == 0 {
                    continue;
                }
                if object.size > bounds.file_bytes_max {
                    let what = format!("object {} has more than {} bytes", object.key, bounds.file_bytes_max);
                    return Err(SourceError::too_large(&self.shown, what));
                }
                bytes += object.size;
                objects.push(object);
            }
            if objects.len() > bounds.files_max || bytes > bounds.total_bytes_max {
                let what = format!(
                    "it has more than {} objects or {} bytes",
                    bounds.files_max, bounds.total_bytes_max
                );
                return Err(SourceError::too_large(&self.shown, what));
            }
            match page.next {
                None => break,
                Some(next) if token.as_ref() == Some(&next) => {
                    return Err(SourceError::corrupt(&self.shown, "its listing has no end"));
                }
                next => token = next,
            }
        }
        objects.sort_by(|one, other| one.key.cmp(&other.key));
        objects.dedup_by(|one, other| one.key == other.key);
        Ok(BucketListing { objects })
    }

    async fn object(
        &self,
        listed: ListedObject,
        known: Option<BucketObject>,
        bounds: &SourceBounds,
        deadline: Deadline,
    ) -> Result<BucketObject, SourceError> {
        if let Some(known) = known {
            return Ok(known);
        }
        let key = listed.key;
        let path = format!("{}/{}", self.path, encoded_path(&key));
        let answer = self.ask(Method::GET, &path, &[], deadline).await?;
        let answer = self.accepted(answer, &format!("object {key}"), deadline).await?;
        // It may have changed since it was listed.
        let tag = answer.headers.get(ETAG).and_then(|it| it.to_str().ok());
        let tag = tag.and_then(listing::bare_tag).or(listed.tag);
        let data = answer.bytes(bounds.file_bytes_max, deadline).await?;
        Ok(BucketObject {
            key,
            tag,
            data: data.into(),
        })
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        deadline: Deadline,
    ) -> Result<WebAnswer, SourceError> {
        let mut url = self.server.clone();
        url.set_path(path);
        if url.path() != path {
            // Names as `..` mean something in a URL, and what is signed would not be what is asked.
            let reason = format!(
                "{:?} has a name that no URL can have",
                path.trim_start_matches(&self.path)
            );
            return Err(SourceError::corrupt(&self.shown, reason));
        }
        let query: Vec<String> = query
            .iter()
            .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
            .collect();
        let query = query.join("&");
        url.set_query(Some(&query).filter(|it| !it.is_empty()).map(String::as_str));
        let headers = match &self.key {
            Some(key) => key.sign(&method, &url, path, &query, jiff::Timestamp::now())?,
            None => HeaderMap::new(),
        };
        self.client.send(method, &url, headers, Bytes::new(), deadline).await
    }

    /// An answer that is no refusal; one that is says why in its body.
    async fn accepted(&self, answer: WebAnswer, what: &str, deadline: Deadline) -> Result<WebAnswer, SourceError> {
        if answer.status.is_success() {
            return Ok(answer);
        }
        let mut refusal = self.client.refusal(&answer, what);
        let moved = answer.status == StatusCode::MOVED_PERMANENTLY;
        let body = answer.bytes(MESSAGE_BYTES_MAX, deadline).await.unwrap_or_default();
        if let Some(code) = listing::error_code(&body) {
            match &mut refusal {
                SourceError::LoginNeeded { reason, .. } | SourceError::Unreachable { reason, .. } => {
                    *reason = format!("{reason} ({code}) for {what}");
                }
                SourceError::NotFound { what, .. } => *what = format!("{what} ({code})"),
                _ => {}
            }
        } else if moved && let SourceError::Unreachable { reason, .. } = &mut refusal {
            *reason = format!("{reason}: the bucket may be in another region");
        }
        Err(refusal)
    }
}

/// The region that signatures name. AWS refuses those of another region, and its common address is one of them.
fn region_at(server: &mut Url, configured: Option<&str>) -> String {
    let host = server.host_str().unwrap_or_default().to_ascii_lowercase();
    let Some(front) = host
        .strip_suffix(".amazonaws.com")
        .or_else(|| host.strip_suffix(".amazonaws.com.cn"))
    else {
        return OTHER_REGION.to_owned();
    };
    let of_host = front.rsplit(['.']).next().filter(|it| *it != "s3" && it.contains('-'));
    let of_host = of_host.map(|it| it.trim_start_matches("s3-"));
    let region = configured.or(of_host).unwrap_or("us-east-1").to_owned();
    let is_name = region.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-');
    if front == "s3" && region != "us-east-1" && is_name {
        // It fails for no name that is made of these letters.
        let _ = server.set_host(Some(&format!("s3.{region}.amazonaws.com")));
    }
    region
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(pathname: &str, region: Option<&str>) -> Result<Bucket, SourceError> {
        Bucket::new(&BucketSource {
            pathname: pathname.to_owned(),
            prefix: String::new(),
            access: SourceAccess {
                credentials: SourceCredentials::S3 {
                    access_key_id: "id".to_owned(),
                    secret_access_key: "secret".into(),
                    region: region.map(ToOwned::to_owned),
                },
                ..SourceAccess::default()
            },
        })
    }

    #[test]
    fn the_last_segment_of_a_pathname_is_the_bucket() {
        let bucket = bucket("http://minio:9000/behind/a-proxy/my-bucket/", None).unwrap();
        assert_eq!(bucket.name, "my-bucket");
        assert_eq!(bucket.path, "/behind/a-proxy/my-bucket");
        assert_eq!(bucket.server.as_str(), "http://minio:9000/");
    }

    #[test]
    fn a_region_counts_only_at_aws() {
        let of = |pathname: &str, region| {
            let bucket = bucket(pathname, region).unwrap();
            let host = bucket.server.host_str().unwrap().to_owned();
            (bucket.key.unwrap().region, host)
        };
        let pair = |region: &str, host: &str| (region.to_owned(), host.to_owned());
        assert_eq!(of("http://minio/b", Some("eu-west-1")), pair("minio", "minio"));
        let global = "s3.amazonaws.com";
        assert_eq!(of("https://s3.amazonaws.com/b", None), pair("us-east-1", global));
        let there = pair("eu-west-1", "s3.eu-west-1.amazonaws.com");
        assert_eq!(of("https://s3.amazonaws.com/b", Some("eu-west-1")), there);
        assert_eq!(of("https://s3.eu-west-1.amazonaws.com/b", None), there);
        assert_eq!(of("https://s3-eu-west-1.amazonaws.com/b", None).0, "eu-west-1");
    }

    #[test]
    fn a_pathname_without_a_bucket_is_refused() {
        for pathname in [
            "",
            "http://minio:9000",
            "http://minio:9000/",
            "minio/b",
            "ftp://minio/b",
        ] {
            let refused = bucket(pathname, None).err();
            assert!(
                matches!(refused, Some(SourceError::Invalid { .. })),
                "{pathname}: {refused:?}"
            );
        }
    }
}
