//! The folder that is built, as a value: names and contents. Nothing here knows a file system, so that a tree of
//! somebody else cannot lead out of itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::error::{KustomizeError, Result};

/// A tree of files by their paths from its root, `overlays/prod/kustomization.yaml`.
#[derive(Clone, Debug, Default)]
pub struct KustomizeFiles {
    files: BTreeMap<String, TreeEntry>,
    folders: BTreeSet<String>,
}

#[derive(Clone, Debug)]
enum TreeEntry {
    File(Arc<[u8]>),
    Link,
}

/// What a path leads to.
pub(crate) enum TreeFound<'a> {
    File(&'a [u8]),
    Folder,
    Nothing,
}

impl KustomizeFiles {
    /// An empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    ///
    /// # Errors
    /// When the path is absolute, has empty parts or dots, or something else is there already.
    pub fn insert(&mut self, path: &str, content: impl Into<Vec<u8>>) -> Result<()> {
        self.add(path, TreeEntry::File(content.into().into()))
    }

    /// Adds a file whose content somebody else has, too.
    ///
    /// # Errors
    /// As [`KustomizeFiles::insert`].
    pub fn insert_shared(&mut self, path: &str, content: Arc<[u8]>) -> Result<()> {
        self.add(path, TreeEntry::File(content))
    }

    /// Adds a symbolic link. It may be in the tree, but not in the way of what is built.
    ///
    /// # Errors
    /// As [`KustomizeFiles::insert`].
    pub fn insert_link(&mut self, path: &str) -> Result<()> {
        self.add(path, TreeEntry::Link)
    }

    fn add(&mut self, path: &str, entry: TreeEntry) -> Result<()> {
        let refused = |why: &str| Err(KustomizeError::refused(why).in_file(path));
        if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return refused("a path in the tree is relative to its root and has no dots and no empty parts");
        }
        if self.files.contains_key(path) || self.folders.contains(path) {
            return refused("it is in the tree twice");
        }
        for (at, _) in path.match_indices('/') {
            if self.files.contains_key(&path[..at]) {
                return refused("a file of the tree is a folder as well");
            }
            self.folders.insert(path[..at].to_owned());
        }
        self.files.insert(path.to_owned(), entry);
        Ok(())
    }

    /// What is there. The root is the empty path.
    pub(crate) fn find(&self, path: &str) -> Result<TreeFound<'_>> {
        for at in path.match_indices('/').map(|it| it.0).chain([path.len()]) {
            if let Some(TreeEntry::Link) = self.files.get(&path[..at]) {
                return Err(KustomizeError::refused(
                    "it is a symbolic link, which is not followed; put the file itself there",
                )
                .in_file(&path[..at]));
            }
        }
        Ok(match self.files.get(path) {
            Some(TreeEntry::File(content)) => TreeFound::File(content),
            _ if path.is_empty() || self.folders.contains(path) => TreeFound::Folder,
            _ => TreeFound::Nothing,
        })
    }
}

/// The path from the root of the tree that an entry of a kustomization file in `folder` means.
pub(crate) fn joined(folder: &str, entry: &str) -> Result<String> {
    if entry.starts_with('/') {
        return Err(KustomizeError::refused(format!(
            "`{entry}` is an absolute path; write it relative to the kustomization file"
        )));
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|it| !it.is_empty()).collect();
    for part in entry.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return Err(KustomizeError::refused(format!(
                        "`{entry}` leads out of the tree that is built; move what it needs into the tree"
                    )));
                }
            }
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// Whether a path is at or below a folder.
pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path
            .strip_prefix(folder)
            .is_some_and(|it| it.is_empty() || it.starts_with('/'))
}

/// Whether an entry looks like something that is elsewhere: an URL, or a Git repository.
pub(crate) fn is_remote(entry: &str) -> bool {
    let lower = entry.to_ascii_lowercase();
    lower.contains("://")
        || ["git::", "git@", "github.com/", "github.com:"]
            .iter()
            .any(|it| lower.starts_with(it))
        || lower.contains("?ref=")
        || lower.split('/').any(|it| it.ends_with(".git"))
}
