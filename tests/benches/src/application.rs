//! Applications: from a commit to its objects on clusters, many manifests and many Subscriptions on one cluster, and
//! the status of an Application of Argo CD back on the hub.

mod cluster;
mod commits;
mod pulled;

use std::path::Path;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use kube::{
    Api,
    api::{DynamicObject, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use source_servers::{git::Repository, web::WebServer};

use crate::Size;

/// The namespace of everything here.
const NAMESPACE: &str = "default";

/// How much is measured.
#[derive(Clone, Copy)]
pub struct ApplicationSize {
    /// Commits, and changes of an Application's status.
    pub changes: usize,
    /// Manifests in one repository.
    pub manifests: usize,
    /// Subscriptions on one cluster.
    pub subscriptions: usize,
    /// Looks of one Subscription at a source that has not changed; three minutes pass before each.
    pub unchanged_looks: u32,
}

/// All of it.
pub async fn measure(binary: &Path, size: Size) -> Result<Value> {
    let size = size.application;
    let mut of_cluster = cluster::manifests(binary, size).await?;
    of_cluster["manySubscriptions"] = cluster::subscriptions(binary, size).await?;
    Ok(json!({
        "commitToApplied": commits::measure(binary, size).await?,
        "cluster": of_cluster,
        "argoStatus": pulled::measure(binary, size).await?,
    }))
}

/// Returns when so many objects have passed a test, each counted once; `version` is where their events begin.
async fn appear(
    api: &Api<DynamicObject>,
    version: &str,
    count: usize,
    is_it: impl Fn(&DynamicObject) -> bool,
) -> Result<()> {
    let mut there = std::collections::HashSet::new();
    let mut events = api.watch(&WatchParams::default(), version).await?.boxed();
    while there.len() < count {
        match events.try_next().await? {
            Some(WatchEvent::Added(it) | WatchEvent::Modified(it)) if is_it(&it) => {
                there.insert(it.metadata.name.unwrap_or_default());
            }
            Some(_) => {}
            None => anyhow::bail!("the watch ended after {} of {count} objects", there.len()),
        }
    }
    Ok(())
}

/// Where events of a kind begin that have not happened yet.
async fn version_now(api: &Api<DynamicObject>) -> Result<String> {
    let list = api.list_metadata(&kube::api::ListParams::default().limit(1)).await?;
    Ok(list.metadata.resource_version.unwrap_or_default())
}

/// A repository without a commit, and Git's own server for it.
struct Served {
    repository: Repository,
    server: WebServer,
}

impl Served {
    async fn start() -> Self {
        let repository = Repository::empty();
        let server = repository.serve().await;
        Self { repository, server }
    }

    fn url(&self) -> String {
        self.server.url("/repository/.git")
    }

    /// Writes files, each a path and what it holds, and commits them.
    fn commit(&self, files: &[(String, String)]) {
        files.iter().for_each(|(path, text)| self.repository.write(path, text));
        self.repository.git(&["add", "--all"]);
        self.repository.git(&["commit", "--quiet", "-m", "a change"]);
    }
}
