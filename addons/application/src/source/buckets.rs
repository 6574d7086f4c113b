//! What buckets hold. A bucket is listed at each look, and of its objects only those are read that have changed: what
//! the others hold is kept in memory, per Subscription.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use application_source::{
    SourceAccess, SourceBounds, SourceCredentials,
    bucket::{self, BucketObject, BucketSource},
};
use aws_lc_rs::digest::{Context, SHA256};
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::apps::{Subscription, annotations},
    reconcile::cache::key_of,
};
use parking_lot::Mutex;
use serde_json::Value;

use super::{ChannelInputs, SourceContent, reader::said};

/// How much of all buckets is kept. What does not fit is read again when something of its bucket has changed.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// What nobody has asked for this long is forgotten: its Subscription is gone, or never looks.
const UNUSED_MAX: Duration = Duration::from_secs(24 * 3600);

/// The buckets that were read, by the Subscription that they were read for.
#[derive(Debug, Default)]
pub(super) struct KeptBuckets {
    kept: Mutex<HashMap<String, KeptBucket>>,
}

#[derive(Debug)]
struct KeptBucket {
    pathname: String,
    /// Who has read it: another key may not be allowed to.
    key_id: Option<String>,
    objects: Arc<Vec<BucketObject>>,
    used: Instant,
}

impl KeptBuckets {
    /// What a Subscription takes from a bucket; `None` when that is what was there at the revision `known`.
    pub async fn read(
        &self,
        subscription: &Subscription,
        channel: &ChannelInputs,
        access: SourceAccess,
        known: Option<&str>,
        bounds: &SourceBounds,
    ) -> Result<Option<SourceContent>, String> {
        let pathname = &channel.channel.spec.pathname;
        if pathname.trim().is_empty() {
            return Err(format!("Empty Pathname in channel {}", channel.channel.name_any()));
        }
        let source = BucketSource {
            pathname: pathname.clone(),
            prefix: subscription
                .annotation(annotations::BUCKET_PATH)
                .unwrap_or_default()
                .to_owned(),
            access,
        };
        let listing = said(bucket::list(&source, bounds).await)?;
        // Tags may mean something else at another server.
        let revision = |tags: &str| digest(&[pathname.as_bytes(), tags.as_bytes()]);
        let listed = listing.digest().map(|it| revision(&it));
        if listed.is_some() && listed.as_deref() == known {
            return Ok(None);
        }
        let key = key_of(subscription);
        let before = self.kept(&key, &source);
        let found = said(bucket::read(&source, &listing, &before, bounds).await)?;
        let found = Arc::new(found);
        self.keep(key, &source, found.clone());
        let revision = match BucketObject::digest(&found) {
            Some(tags) => revision(&tags),
            None => contents(&found),
        };
        if Some(revision.as_str()) == known {
            return Ok(None);
        }
        Ok(Some(SourceContent {
            revision,
            objects: found.iter().map(manifest).collect::<Result<_, String>>()?,
            ..SourceContent::default()
        }))
    }

    fn kept(&self, key: &str, source: &BucketSource) -> Arc<Vec<BucketObject>> {
        let kept = self.kept.lock();
        let kept = kept.get(key).filter(|it| it.is_of(source));
        kept.map(|it| it.objects.clone()).unwrap_or_default()
    }

    fn keep(&self, key: String, source: &BucketSource, objects: Arc<Vec<BucketObject>>) {
        let now = Instant::now();
        let mut kept = self.kept.lock();
        kept.remove(&key);
        kept.retain(|_, it| now.duration_since(it.used) < UNUSED_MAX);
        let bytes = |objects: &[BucketObject]| objects.iter().map(|it| it.data.len()).sum::<usize>();
        let others: usize = kept.values().map(|it| bytes(&it.objects)).sum();
        if others + bytes(&objects) > KEPT_BYTES_MAX {
            return;
        }
        let bucket = KeptBucket {
            pathname: source.pathname.clone(),
            key_id: key_id(source),
            objects,
            used: now,
        };
        kept.insert(key, bucket);
    }
}

impl KeptBucket {
    fn is_of(&self, source: &BucketSource) -> bool {
        self.pathname == source.pathname && self.key_id == key_id(source)
    }
}

fn key_id(source: &BucketSource) -> Option<String> {
    match &source.access.credentials {
        SourceCredentials::S3 { access_key_id, .. } => Some(access_key_id.clone()),
        _ => None,
    }
}

fn manifest(object: &BucketObject) -> Result<Value, String> {
    let key = &object.key;
    let text = std::str::from_utf8(&object.data).map_err(|_| format!("{key}: it is no text"))?;
    let manifest = application_render::yaml(text).map_err(|error| format!("{key}: {error}"))?;
    if !manifest["kind"].is_string() || !manifest["apiVersion"].is_string() {
        return Err(format!(
            "{key}: it is no object of Kubernetes: it has no apiVersion or no kind"
        ));
    }
    Ok(manifest)
}

/// The revision of a bucket whose server does not tell the states of objects apart.
fn contents(objects: &[BucketObject]) -> String {
    let parts: Vec<&[u8]> = objects.iter().flat_map(|it| [it.key.as_bytes(), &*it.data]).collect();
    digest(&parts)
}

fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Context::new(&SHA256);
    for part in parts {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let hash = hash.finish();
    hash.as_ref().iter().take(20).map(|it| format!("{it:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(pathname: &str, id: &str) -> BucketSource {
        BucketSource {
            pathname: pathname.to_owned(),
            prefix: String::new(),
            access: SourceAccess {
                credentials: SourceCredentials::S3 {
                    access_key_id: id.to_owned(),
                    secret_access_key: "hidden".into(),
                    region: None,
                },
                ..SourceAccess::default()
            },
        }
    }

    fn objects(bytes: usize) -> Arc<Vec<BucketObject>> {
        Arc::new(vec![BucketObject {
            key: "a".to_owned(),
            tag: Some("1".to_owned()),
            data: vec![b'#'; bytes].into(),
        }])
    }

    #[test]
    fn what_one_key_has_read_is_for_it_alone() {
        let kept = KeptBuckets::default();
        let mine = source("http://x/b", "me");
        kept.keep("n/a".to_owned(), &mine, objects(1));
        assert_eq!(kept.kept("n/a", &mine).len(), 1);
        for (key, source) in [
            ("n/a", source("http://x/b", "other")),
            ("n/a", source("http://y/b", "me")),
            ("n/b", mine),
        ] {
            assert!(kept.kept(key, &source).is_empty());
        }
    }

    #[test]
    fn what_does_not_fit_is_not_kept() {
        let kept = KeptBuckets::default();
        let source = source("http://x/b", "me");
        kept.keep("n/a".to_owned(), &source, objects(KEPT_BYTES_MAX));
        kept.keep("n/b".to_owned(), &source, objects(1));
        assert!(kept.kept("n/b", &source).is_empty());
        kept.keep("n/a".to_owned(), &source, objects(1));
        kept.keep("n/b".to_owned(), &source, objects(1));
        assert_eq!(kept.kept("n/b", &source).len(), 1);
    }

    #[test]
    fn manifests_are_read_as_kubernetes_reads_them() {
        let read = |text: &str| {
            manifest(&BucketObject {
                key: "a.yaml".to_owned(),
                tag: None,
                data: text.as_bytes().into(),
            })
        };
        let text = "{apiVersion: v1, kind: Pod, spec: {volumes: [{secret: {defaultMode: 0400}}]}}";
        assert_eq!(read(text).unwrap()["spec"]["volumes"][0]["secret"]["defaultMode"], 256);
        let refused = read("{kind: Pod}").unwrap_err();
        assert_eq!(
            refused,
            "a.yaml: it is no object of Kubernetes: it has no apiVersion or no kind"
        );
        assert!(read("a: [").unwrap_err().starts_with("a.yaml: it is no YAML: "));
    }
}
