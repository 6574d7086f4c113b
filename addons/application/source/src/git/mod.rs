//! Git: which commit a branch or a tag names, and the files of a commit.
//!
//! Objects are kept in a folder of the cache, one per URL, so that the next commit costs what has changed. Files are
//! read from the objects and handed back as values: no file of a repository ever becomes a file of ours.
//!
//! HTTP, SSH and, where they are allowed, folders of this machine. We speak Git's protocol over our own HTTP client and
//! over the `ssh` of the machine, and take nothing from Git's configuration.

mod address;
mod cache;
mod http;
mod run;
mod ssh;
#[cfg(test)]
mod ssh_tests;
mod tree;
mod wire;

use crate::{SourceAccess, SourceBounds, SourceError};
use address::Address;
use cache::GitCache;
use gix::{ObjectId, Repository};
use run::Run;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
pub use tree::TreeFile;

/// A repository, and what of it is wanted.
#[derive(Clone, Debug)]
pub struct GitSource {
    /// `https://`, `http://`, `ssh://`, or `user@host:path`; a folder or `file://` where they are allowed.
    pub url: String,
    pub reference: GitReference,
    /// How many commits of the history are fetched; 0 is all of them. Files come from one commit, so 1 suffices.
    pub clone_depth: u32,
    pub access: SourceAccess,
    /// Whether the URL may name a folder of this machine.
    pub local_folders_allowed: bool,
}

/// What names a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GitReference {
    /// The branch that the repository shows by itself.
    #[default]
    Head,
    Branch(String),
    Tag(String),
    /// All 40 digits of a commit's id.
    Commit(String),
}

/// The files of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitTree {
    /// All 40 digits of the commit's id.
    pub commit: String,
    /// By path, with `/` between folders; no path leaves the tree. Submodules are left out.
    pub files: BTreeMap<String, TreeFile>,
}

/// Which commit the reference names now, without fetching it: what is cheap enough to ask often. A tag that has a
/// message names the commit that it stands for. A commit names itself, whether or not it is there.
///
/// `cache` is a folder for the host keys of SSH servers; it is made when it is missing.
pub async fn current_commit(source: &GitSource, cache: &Path, bounds: &SourceBounds) -> Result<String, SourceError> {
    let work = Work::new(source, cache)?;
    Run::with(work.address.shown(), bounds, move |run| {
        let commit = match &work.address {
            Address::Folder(path) => tree::commit_of_folder(&open(path, &run)?, &work.source.reference, &run)?,
            _ => {
                cache::note_use(&work.cache, &work.source.url);
                match &work.source.reference {
                    GitReference::Commit(id) => wire::commit_id(id)?,
                    reference => work.ask(reference, &run)?.commit,
                }
            }
        };
        Ok(commit.to_string())
    })
    .await
}

/// The files of the commit that the reference names now.
///
/// `cache` is a folder that belongs to this module: it is made when it is missing, and what is broken in it is fetched
/// again. Several may use it at once; those that fetch from the same URL wait for each other.
pub async fn fetch(source: &GitSource, cache: &Path, bounds: &SourceBounds) -> Result<GitTree, SourceError> {
    fetch_folder(source, "", cache, bounds).await
}

/// The files of one folder of the commit that the reference names now, by their path from the root of the tree. The
/// bounds count what is in the folder.
pub async fn fetch_folder(
    source: &GitSource,
    folder: &str,
    cache: &Path,
    bounds: &SourceBounds,
) -> Result<GitTree, SourceError> {
    let work = Work::new(source, cache)?;
    let folder = folder.to_owned();
    Run::with(work.address.shown(), bounds, move |run| work.fetch(&folder, &run)).await
}

/// Removes from the cache what was fetched from URLs that nobody has asked about for this time.
///
/// # Errors
/// [`SourceError::Invalid`] where the cache cannot be read or changed.
pub async fn forget_unused(cache: &Path, unused: Duration) -> Result<(), SourceError> {
    let cache = cache.to_owned();
    let forgetting = tokio::task::spawn_blocking(move || cache::forget_unused(&cache, unused));
    let forgotten = forgetting.await.map_err(SourceError::invalid)?;
    forgotten.map_err(|it| SourceError::invalid(format!("the cache of Git repositories cannot be cleaned: {it}")))
}

/// What the thread that blocks has to know.
struct Work {
    source: GitSource,
    address: Address,
    cache: PathBuf,
    /// The program that makes connections by SSH.
    ssh: OsString,
}

impl Work {
    fn new(source: &GitSource, cache: &Path) -> Result<Self, SourceError> {
        Ok(Self {
            source: source.clone(),
            address: Address::parse(&source.url, source.local_folders_allowed)?,
            cache: cache.to_owned(),
            ssh: "ssh".into(),
        })
    }

    fn fetch(&self, folder: &str, run: &Arc<Run>) -> Result<GitTree, SourceError> {
        if let Address::Folder(path) = &self.address {
            let repository = open(path, run)?;
            let commit = tree::commit_of_folder(&repository, &self.source.reference, run)?;
            return tree::read(&repository, commit, folder, run);
        }
        // What is wrong with a reference is not the cache's fault, so it is found out before.
        let wanted = match &self.source.reference {
            GitReference::Commit(id) => {
                let id = wire::commit_id(id)?;
                // Somebody else may have fetched it. Who reads it from the cache has to be let in by the server, too.
                self.connect(run)?;
                wire::Named { object: id, commit: id }
            }
            reference => self.ask(reference, run)?,
        };
        let cache = GitCache::lock(&self.cache, &self.source.url, run)?;
        match self.fetch_into(&cache, wanted, folder, run) {
            Err(SourceError::Corrupt { reason, .. }) if run.failure().is_none() && !cache.is_fresh() => {
                tracing::warn!(
                    url = run.url,
                    reason,
                    "the cache of a Git repository is broken and made anew"
                );
                self.fetch_into(&cache.made_anew(run)?, wanted, folder, run)
            }
            fetched => fetched,
        }
    }

    fn fetch_into(
        &self,
        cache: &GitCache,
        wanted: wire::Named,
        folder: &str,
        run: &Arc<Run>,
    ) -> Result<GitTree, SourceError> {
        let repository = cache.open(run)?;
        if !repository.has_object(wanted.commit) {
            self.receive(cache, &repository, wanted, run)?;
        }
        let repository = cache.open(run)?;
        let commit = tree::commit_at(&repository, wanted.commit, run)?;
        tree::read(&repository, commit, folder, run)
    }

    fn receive(
        &self,
        cache: &GitCache,
        repository: &Repository,
        wanted: wire::Named,
        run: &Arc<Run>,
    ) -> Result<(), SourceError> {
        let depth = self.source.clone_depth;
        let refused = match self.ask_for(cache, repository, &[wanted.object], depth, run) {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        let GitReference::Commit(id) = &self.source.reference else {
            return Err(refused);
        };
        if run.failure().is_some() || !matches!(refused, SourceError::Corrupt { .. }) {
            return Err(refused);
        }
        // Servers may give away only what a branch or a tag names. Then the commit comes with the history of one.
        let all = self.connect(run)?.all_tips(run)?;
        self.ask_for(cache, repository, &all, 0, run)?;
        if cache.open(run)?.has_object(wanted.object) {
            return Ok(());
        }
        Err(SourceError::not_found(&run.url, format!("commit {id}")))
    }

    fn ask_for(
        &self,
        cache: &GitCache,
        repository: &Repository,
        objects: &[ObjectId],
        depth: u32,
        run: &Arc<Run>,
    ) -> Result<(), SourceError> {
        let haves = cache.fetched(repository);
        self.connect(run)?.receive(repository, objects, &haves, depth, run)?;
        cache.remember(objects, run)
    }

    fn ask(&self, reference: &GitReference, run: &Arc<Run>) -> Result<wire::Named, SourceError> {
        self.connect(run)?.named(reference, run)
    }

    fn connect(&self, run: &Arc<Run>) -> Result<wire::GitServer, SourceError> {
        match &self.address {
            Address::Http(url) => wire::GitServer::http(http::connect(url, &self.source.access, run)?, run),
            Address::Ssh(address) => {
                let known_hosts = cache::known_hosts(&self.cache, run)?;
                wire::GitServer::ssh(
                    ssh::connect(address, &self.source.access, &known_hosts, &self.ssh, run)?,
                    run,
                )
            }
            Address::Folder(path) => Err(SourceError::invalid(format!("{} is a folder", path.display()))),
        }
    }
}

/// Opens a repository without anybody's configuration.
fn open(path: &Path, run: &Run) -> Result<Repository, SourceError> {
    let options = gix::open::Options::isolated().with(gix::sec::Trust::Full);
    gix::open_opts(path, options).map_err(|it| {
        let reason = crate::error::chain(&it);
        tracing::debug!(reason, "no Git repository");
        SourceError::not_found(&run.url, "a Git repository")
    })
}
