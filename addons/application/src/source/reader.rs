//! Reads sources: Git, Helm repositories and buckets.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use application_render::{KustomizeOverride, SourceTree, TreeRequest};
use application_source::{
    SourceAccess, SourceBounds, SourceError,
    git::{self, GitReference, GitSource, GitTree, TreeFile},
    helm::{self, ChartEntry, HelmRepository},
};
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::apps::{ChannelType, ChartSource, GitChartSource, Subscription, annotations},
    reconcile::async_trait,
};
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    ChannelInputs, SourceContent, SourceInputs, SourceReader, access,
    buckets::KeptBuckets,
    charts,
    releases::{ChartToRelease, release},
};
use crate::cluster::helm::{ChartContent, ChartPlace, ChartReader};

/// Who reads sources. What of Git is known is kept in a folder.
#[derive(Debug)]
pub struct SourceFetcher {
    cache: PathBuf,
    opened: Vec<PathBuf>,
    bounds: SourceBounds,
    buckets: KeptBuckets,
    /// When the cache was last looked through for what nobody uses.
    looked_for_unused: Mutex<Option<Instant>>,
}

/// How often the cache is looked through for what nobody uses.
const LOOK_FOR_UNUSED: Duration = Duration::from_secs(3600);
/// How long a repository may go without a look. It has to be longer than the slowest of the rates; a repository that
/// was forgotten too early is fetched once more.
const UNUSED_MAX: Duration = Duration::from_secs(24 * 3600);

impl SourceFetcher {
    /// With a cache in this folder. A Git repository may be a folder of this machine if it is in one of `opened`.
    pub fn in_folder(folder: impl Into<PathBuf>, opened: &[PathBuf]) -> Self {
        // A link to elsewhere does not open what it leads to.
        let opened = opened.iter().filter_map(|it| it.canonicalize().ok());
        Self {
            cache: folder.into().join("application-manager-git"),
            opened: opened.collect(),
            bounds: SourceBounds::default(),
            buckets: KeptBuckets::default(),
            looked_for_unused: Mutex::default(),
        }
    }

    /// Whether this is a folder that somebody has opened.
    fn is_opened(&self, url: &str) -> bool {
        let path = Path::new(url.strip_prefix("file://").unwrap_or(url));
        path.is_absolute()
            && path
                .canonicalize()
                .is_ok_and(|it| self.opened.iter().any(|opened| it.starts_with(opened)))
    }

    fn git(&self, url: &str, reference: GitReference, clone_depth: u32, access: SourceAccess) -> GitSource {
        GitSource {
            url: url.to_owned(),
            reference,
            clone_depth,
            access,
            local_folders_allowed: self.is_opened(url),
        }
    }

    async fn content_of(
        &self,
        subscription: &Subscription,
        inputs: &SourceInputs,
        channel: &ChannelInputs,
        known: Option<&str>,
    ) -> Result<Option<SourceContent>, String> {
        let access = access_of(channel)?;
        match channel_type(channel)? {
            ChannelType::Git => {
                let place = GitPlace::of(subscription, inputs);
                let url = &channel.channel.spec.pathname;
                let source = self.git(url, place.reference.clone(), place.depth, access);
                if known.is_some() {
                    let current = said(git::current_commit(&source, &self.cache, &self.bounds).await)?;
                    if known == Some(current.as_str()) {
                        return Ok(None);
                    }
                }
                let tree = self.fetch(&source).await?;
                tree_content(subscription, channel, &place, tree).map(Some)
            }
            ChannelType::HelmRepo => charts::read(subscription, channel, access, known, &self.bounds).await,
            ChannelType::ObjectBucket => {
                let buckets = &self.buckets;
                buckets.read(subscription, channel, access, known, &self.bounds).await
            }
            ChannelType::Namespace => Err(no_namespaces(channel)),
        }
    }

    async fn fetch(&self, source: &GitSource) -> Result<GitTree, String> {
        let fetched = git::fetch(source, &self.cache, &self.bounds).await;
        self.forget_unused().await;
        said(fetched)
    }

    /// Now and then, what is known of repositories goes that no Subscription and no HelmRelease has looked at for long.
    async fn forget_unused(&self) {
        {
            let mut looked = self.looked_for_unused.lock();
            if looked.is_some_and(|it| it.elapsed() < LOOK_FOR_UNUSED) {
                return;
            }
            *looked = Some(Instant::now());
        }
        if let Err(error) = git::forget_unused(&self.cache, UNUSED_MAX).await {
            tracing::warn!(%error, "repositories that are not used any more stay in the cache");
        }
    }
}

#[async_trait]
impl SourceReader for SourceFetcher {
    async fn read(
        &self,
        subscription: &Subscription,
        inputs: &SourceInputs,
        known: Option<&str>,
    ) -> Result<Option<SourceContent>, String> {
        let first = self.content_of(subscription, inputs, &inputs.primary, known).await;
        match (first, &inputs.secondary) {
            (Err(first), Some(second)) => {
                let second = self.content_of(subscription, inputs, second, known).await;
                let mut second = second.map_err(|second| format!("{first}; the secondary channel: {second}"))?;
                if let Some(content) = &mut second {
                    content.is_secondary = true;
                }
                Ok(second)
            }
            (first, _) => first,
        }
    }
}

#[async_trait]
impl ChartReader for SourceFetcher {
    async fn read(&self, place: &ChartPlace) -> Result<ChartContent, String> {
        let access = access::of(
            place.secret.as_deref(),
            place.config_map.as_deref(),
            place.insecure_skip_verify,
        )?;
        if let Some(repository) = &place.source.helm_repo {
            let Some(first) = repository.urls.first() else {
                return Err("repo.source.helmRepo.urls is empty".to_owned());
            };
            let chart = ChartEntry {
                name: place.chart_name.clone(),
                version: place.version.clone(),
                urls: repository.urls.clone(),
                digest: Some(place.digest.clone()).filter(|it| !it.is_empty()),
                ..ChartEntry::default()
            };
            // The credentials are for the server of the chart.
            let repository = HelmRepository {
                url: first.rsplit_once('/').map_or(first.as_str(), |it| it.0).to_owned(),
                access,
            };
            return said(helm::download(&repository, &chart, &self.bounds).await).map(ChartContent::Archive);
        }
        let Some(repository) = place.source.git.as_ref().or(place.source.github.as_ref()) else {
            return Err("repo.source has neither helmRepo nor git".to_owned());
        };
        let Some(url) = repository.urls.first() else {
            return Err("repo.source.git.urls is empty".to_owned());
        };
        let source = self.git(url, named(&repository.branch), 1, access);
        let tree = source_tree(self.fetch(&source).await?)?;
        let files = tree.files_below(&repository.chart_path);
        match files.is_empty() {
            true => Err(format!(
                "{}: there is no chart in the repository",
                repository.chart_path
            )),
            false => Ok(ChartContent::Files(files)),
        }
    }
}

/// What of a repository a Subscription takes.
struct GitPlace {
    reference: GitReference,
    depth: u32,
    folder: String,
    /// As a HelmRelease names the reference.
    branch: String,
}

impl GitPlace {
    /// A commit before a tag before a branch.
    fn of(subscription: &Subscription, inputs: &SourceInputs) -> Self {
        let said = |name: &str| subscription.annotation(name).map(str::to_owned);
        let filter = |key: &str| {
            inputs
                .filter
                .as_ref()
                .and_then(|it| it.data.as_ref()?.get(key).cloned())
        };
        let folder = filter("path")
            .or_else(|| said(annotations::GIT_PATH))
            .or_else(|| said(annotations::GITHUB_PATH))
            .unwrap_or_default();
        let branch = filter("branch")
            .or_else(|| said(annotations::GIT_BRANCH))
            .or_else(|| said(annotations::GITHUB_BRANCH))
            .unwrap_or_default();
        let branch = branch.trim_start_matches("refs/heads/").to_owned();
        let (reference, named) = match (said(annotations::GIT_DESIRED_COMMIT), said(annotations::GIT_TAG)) {
            (Some(commit), _) => (GitReference::Commit(commit.clone()), commit),
            (None, Some(tag)) => (GitReference::Tag(tag.clone()), tag),
            (None, None) if branch.is_empty() => (GitReference::Head, String::new()),
            (None, None) => (GitReference::Branch(branch.clone()), branch),
        };
        let depth = said(annotations::GIT_CLONE_DEPTH).and_then(|it| it.parse().ok());
        Self {
            reference,
            depth: depth.unwrap_or(1),
            folder: folder.trim().trim_start_matches("./").trim_matches('/').to_owned(),
            branch: named,
        }
    }
}

/// The reference that a HelmRelease names as its branch.
fn named(branch: &str) -> GitReference {
    match branch {
        "" => GitReference::Head,
        commit if commit.len() == 40 && commit.bytes().all(|it| it.is_ascii_hexdigit()) => {
            GitReference::Commit(commit.to_owned())
        }
        branch => GitReference::Branch(branch.to_owned()),
    }
}

fn tree_content(
    subscription: &Subscription,
    channel: &ChannelInputs,
    place: &GitPlace,
    tree: GitTree,
) -> Result<SourceContent, String> {
    let commit = tree.commit.clone();
    let is_below = |path: &str| place.folder.is_empty() || path.starts_with(&format!("{}/", place.folder));
    let too_large = tree
        .files
        .iter()
        .filter(|(path, file)| matches!(file, TreeFile::TooLarge(_)) && is_below(path));
    let mut problems: Vec<_> = too_large
        .map(|(path, _)| format!("{path}: it is too large to be read"))
        .collect();
    let tree = source_tree(tree)?;
    let overrides: Vec<_> = subscription
        .spec
        .package_overrides
        .iter()
        .flat_map(|package| {
            package.package_overrides.iter().map(|it| KustomizeOverride {
                package: package.package_name.clone(),
                value: it.0["value"].clone(),
            })
        })
        .filter(|it| it.package.contains("kustomization"))
        .collect();
    let request = TreeRequest {
        folder: &place.folder,
        overrides: &overrides,
    };
    let rendering = application_render::render(&tree, request).map_err(|error| error.to_string())?;
    let hooks = application_render::hooks(&tree, &place.folder).map_err(|error| error.to_string())?;
    let mut objects: Vec<Value> = rendering.objects.into_iter().map(|it| it.object).collect();
    let url = &channel.channel.spec.pathname;
    for chart in rendering.charts {
        let source = ChartSource {
            r#type: "git".to_owned(),
            git: Some(GitChartSource {
                urls: vec![url.clone()],
                chart_path: chart.path,
                // A tag is not a branch; the commit is what both are.
                branch: match &place.reference {
                    GitReference::Tag(_) => commit.clone(),
                    _ => place.branch.clone(),
                },
            }),
            ..ChartSource::default()
        };
        let chart = ChartToRelease {
            source,
            takes_secret: true,
            name: chart.name,
            version: chart.version,
            digest: String::new(),
            commit: Some(commit.clone()),
        };
        match release(subscription, channel, chart) {
            Ok(release) => objects.push(release),
            Err(why) => problems.push(why),
        }
    }
    problems.extend(
        rendering
            .problems
            .iter()
            .chain(&hooks.problems)
            .map(ToString::to_string),
    );
    Ok(SourceContent {
        revision: commit,
        objects,
        pre_hooks: hooks.pre.into_iter().map(|it| it.object).collect(),
        post_hooks: hooks.post.into_iter().map(|it| it.object).collect(),
        problems,
        is_secondary: false,
    })
}

fn source_tree(tree: GitTree) -> Result<SourceTree, String> {
    let mut all = SourceTree::new();
    for (path, file) in tree.files {
        let added = match file {
            TreeFile::File(content) => all.insert(&path, content),
            TreeFile::Link => all.insert_link(&path),
            // Whoever needs it is told.
            TreeFile::TooLarge(_) => continue,
        };
        added.map_err(|error| error.to_string())?;
    }
    Ok(all)
}

fn access_of(channel: &ChannelInputs) -> Result<SourceAccess, String> {
    let insecure = channel.channel.spec.insecure_skip_verify;
    access::of(channel.secret.as_deref(), channel.config_map.as_deref(), insecure)
}

fn channel_type(channel: &ChannelInputs) -> Result<ChannelType, String> {
    let spec = &channel.channel.spec;
    spec.channel_type().ok_or_else(|| {
        format!(
            "channel {}: spec.type {:?} is not known",
            channel.channel.name_any(),
            spec.r#type
        )
    })
}

fn no_namespaces(channel: &ChannelInputs) -> String {
    let name = channel.channel.name_any();
    format!("channel {name}: spec.type Namespace is not deployed; use Git, HelmRepo or ObjectBucket")
}

/// An error in the words of a status. It holds no credentials.
pub(super) fn said<T>(result: Result<T, SourceError>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}
