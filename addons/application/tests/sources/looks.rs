//! What a look at a source asks its server, and what it is told.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use addon_application::source::{ChannelInputs, SourceContent, SourceFetcher, SourceInputs, SourceReader};
use ocm_addon_sdk::{
    k8s_openapi::{ByteString, api::core::v1::Secret},
    ocm_api::apps::Subscription,
};
use serde_json::{Value, json};
use source_servers::{BucketServer, ChartServer, Repository, WebServer, bucket::KEY_ID, git::is_here};
use tempfile::TempDir;

use crate::ground::map;

struct Reading {
    folder: TempDir,
    fetcher: SourceFetcher,
}

impl Reading {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fetcher = SourceFetcher::in_folder(folder.path(), &[]);
        Self { folder, fetcher }
    }

    async fn read(
        &self,
        spec: Value,
        inputs: &SourceInputs,
        known: Option<&str>,
    ) -> Result<Option<SourceContent>, String> {
        let metadata = json!({"name": "app", "namespace": "team", "uid": "0123456789"});
        let mut subscription = json!({"metadata": metadata, "spec": spec});
        subscription["spec"]["channel"] = "channels/source".into();
        let subscription: Subscription = serde_json::from_value(subscription).unwrap();
        self.fetcher.read(&subscription, inputs, known).await
    }
}

fn channel(kind: &str, pathname: &str) -> ChannelInputs {
    let channel = json!({
        "metadata": {"name": "source", "namespace": "channels"},
        "spec": {"type": kind, "pathname": pathname},
    });
    let key = [("AccessKeyID", KEY_ID), ("SecretAccessKey", "hidden")];
    let key = key.map(|(key, value)| (key.to_owned(), ByteString(value.into())));
    let secret = Secret {
        data: Some(BTreeMap::from(key)),
        ..Secret::default()
    };
    ChannelInputs {
        channel: Arc::new(serde_json::from_value(channel).unwrap()),
        secret: (kind == "ObjectBucket").then(|| Arc::new(secret)),
        config_map: None,
    }
}

fn inputs(kind: &str, pathname: &str) -> SourceInputs {
    SourceInputs {
        primary: channel(kind, pathname),
        secondary: None,
        filter: None,
    }
}

fn paths(server: &WebServer) -> Vec<String> {
    let asked = server.take_asked();
    asked.iter().map(|it| format!("{} {}", it.method, it.path)).collect()
}

#[tokio::test]
async fn a_look_at_a_chart_asks_for_the_index_once() {
    let (reading, charts) = (Reading::start(), ChartServer::start().await);
    charts.add("web", "1.0.0", &[]);
    let inputs = inputs("HelmRepo", &charts.url());
    let index = ["GET /charts/index.yaml"];
    let read = async |known: Option<&str>| {
        let read = reading.read(json!({"name": "web"}), &inputs, known).await.unwrap();
        assert_eq!(paths(&charts.web), index);
        read
    };
    let first = read(None).await.unwrap();
    assert!(read(Some(&first.revision)).await.is_none());
    charts.add("web", "1.1.0", &[]);
    let second = read(Some(&first.revision)).await.unwrap();
    assert_eq!(second.objects[0]["repo"]["version"], "1.1.0");
}

#[tokio::test]
async fn a_bucket_that_stays_the_same_is_only_listed() {
    let reading = Reading::start();
    let bucket = BucketServer::start(BTreeMap::new()).await;
    bucket.put("a.yaml", &map("a", "{}"));
    bucket.put("b.yaml", &map("b", "{}"));
    let inputs = inputs("ObjectBucket", &bucket.pathname());
    let read = async |known: Option<&str>| reading.read(json!({}), &inputs, known).await.unwrap();
    let first = read(None).await.unwrap();
    assert_eq!(first.objects.len(), 2);
    bucket.web.take_asked();
    assert!(read(Some(&first.revision)).await.is_none());
    let look = ["HEAD /behind/b", "GET /behind/b"];
    assert_eq!(paths(&bucket.web), look);
    bucket.put("b.yaml", &map("c", "{}"));
    let second = read(Some(&first.revision)).await.unwrap();
    assert_eq!(second.objects[1]["metadata"]["name"], "c");
    assert_eq!(paths(&bucket.web), [&look[..], &["GET /behind/b/b.yaml"]].concat());
    bucket.remove("a.yaml");
    let third = read(Some(&second.revision)).await.unwrap();
    assert_eq!(third.objects.len(), 1);
    assert_eq!(paths(&bucket.web), look);
}

#[tokio::test]
async fn a_bucket_stands_in_for_one_that_is_away() {
    let reading = Reading::start();
    let bucket = BucketServer::start(BTreeMap::new()).await;
    bucket.put("a.yaml", &map("a", "{}"));
    let mut inputs = inputs("ObjectBucket", &bucket.web.url("/behind/c"));
    inputs.secondary = Some(channel("ObjectBucket", &bucket.pathname()));
    let content = reading.read(json!({}), &inputs, None).await.unwrap().unwrap();
    assert_eq!(content.objects.len(), 1);
    let again = reading.read(json!({}), &inputs, Some(&content.revision)).await;
    assert!(again.unwrap().is_none());
    inputs.secondary = Some(inputs.primary.clone());
    let failed = reading.read(json!({}), &inputs, None).await.unwrap_err();
    assert!(
        failed.contains("bucket c is not there; the secondary channel: "),
        "{failed}"
    );
}

#[tokio::test]
async fn a_chart_is_chosen_by_its_keywords() {
    let (reading, charts) = (Reading::start(), ChartServer::start().await);
    charts.add_at("web", "1.0.0", &["stable", "shop"], "web-1.0.0.tgz", &[]);
    charts.add_at("web", "1.1.0", &["edge", "shop"], "web-1.1.0.tgz", &[]);
    let inputs = inputs("HelmRepo", &charts.url());
    let chosen = async |selector: Value| {
        let spec = json!({"name": "web", "packageFilter": {"labelSelector": selector}});
        let content = reading.read(spec, &inputs, None).await?;
        Ok::<_, String>(content.unwrap().objects[0]["repo"]["version"].clone())
    };
    assert_eq!(chosen(json!({})).await.unwrap(), "1.1.0");
    assert_eq!(
        chosen(json!({"matchLabels": {"stable": "true"}})).await.unwrap(),
        "1.0.0"
    );
    let without = json!({"matchExpressions": [{"key": "edge", "operator": "DoesNotExist"}]});
    assert_eq!(chosen(without).await.unwrap(), "1.0.0");
    let refused = chosen(json!({"matchLabels": {"shop": "false"}})).await.unwrap_err();
    assert_eq!(
        refused,
        "spec.packageFilter.labelSelector selects no version of chart web by its keywords; those of version 1.1.0 \
         are: edge, shop"
    );
    let wrong = json!({"matchExpressions": [{"key": "edge", "operator": "Is"}]});
    let refused = chosen(wrong).await.unwrap_err();
    assert!(refused.starts_with("spec.packageFilter.labelSelector: "), "{refused}");
}

/// The caches of repositories: each with its lock.
fn caches(folder: &Path) -> Vec<(String, bool)> {
    let mut found: Vec<_> = fs::read_dir(folder.join("application-manager-git"))
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|it| it.extension().is_some_and(|it| it == "lock"))
        .map(|it| (it.to_str().unwrap().to_owned(), it.with_extension("").exists()))
        .collect();
    found.sort();
    found
}

#[tokio::test]
async fn a_repository_that_nobody_uses_leaves_the_cache() {
    if !is_here() {
        return;
    }
    let reading = Reading::start();
    let repository = Repository::empty();
    repository.commit("a.yaml", &map("a", "{}"));
    let (before, now) = (repository.serve().await, repository.serve().await);
    let of = |server: &WebServer| inputs("Git", &server.url("/repository/.git"));
    let first = reading.read(json!({}), &of(&before), None).await.unwrap().unwrap();
    assert_eq!(first.revision, repository.head());
    before.take_asked();
    let same = reading.read(json!({}), &of(&before), Some(&first.revision)).await;
    assert!(same.unwrap().is_none());
    let bodies = before
        .asked()
        .into_iter()
        .map(|it| String::from_utf8_lossy(&it.body).into_owned());
    let bodies = bodies.collect::<String>();
    assert!(
        bodies.contains("command=ls-refs") && !bodies.contains("command=fetch"),
        "{bodies}"
    );
    let [(lock, true)] = &caches(reading.folder.path())[..] else {
        panic!("one repository is kept");
    };
    let lock = File::options().write(true).open(lock).unwrap();
    lock.set_modified(SystemTime::now() - Duration::from_secs(2 * 24 * 3600))
        .unwrap();
    // The add-on is started again, and the Subscription names another URL.
    let again = SourceFetcher::in_folder(reading.folder.path(), &[]);
    let again = Reading {
        fetcher: again,
        ..reading
    };
    again.read(json!({}), &of(&now), None).await.unwrap();
    let caches = caches(again.folder.path());
    let kept = caches.iter().filter(|(_, is_kept)| *is_kept).count();
    assert_eq!((caches.len(), kept), (2, 1));
}
