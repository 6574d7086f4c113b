//! The files of a source, as values: names and contents. No path leads out of the tree, because there is nothing.

use std::{collections::BTreeMap, sync::Arc};

use crate::limits::{FILES_MAX, FOLDERS_DEPTH_MAX, TREE_BYTES_MAX};

/// A tree of files by their paths from its root, `apps/web/deployment.yaml`.
#[derive(Clone, Debug, Default)]
pub struct SourceTree {
    root: Folder,
    files: usize,
    bytes: usize,
}

/// The entries of a folder, in the order in which they are visited.
pub(crate) type Folder = BTreeMap<String, SourceEntry>;

#[derive(Clone, Debug)]
pub(crate) enum SourceEntry {
    File(Arc<[u8]>),
    Link,
    Folder(Folder),
}

/// Why something cannot be in a tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The path is absolute, or it has dots or empty parts.
    #[error("`{0}` is no path of a tree: it is relative to the root and has no dots and no empty parts")]
    Path(String),
    /// Two entries have one path, or a file is a folder as well.
    #[error("`{0}` is in the tree twice")]
    Twice(String),
    /// A folder is too deep.
    #[error("`{0}` is deeper in the tree than {FOLDERS_DEPTH_MAX} folders")]
    Deep(String),
    /// There are too many files.
    #[error("the tree has more than {FILES_MAX} files")]
    Files,
    /// The files are too large together.
    #[error("the files of the tree have more than {TREE_BYTES_MAX} bytes")]
    Bytes,
}

impl SourceTree {
    /// An empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    ///
    /// # Errors
    /// When the path is none, something else is there already, or the tree is too large.
    pub fn insert(&mut self, path: &str, content: impl Into<Arc<[u8]>>) -> Result<(), TreeError> {
        let content = content.into();
        let bytes = self.bytes.saturating_add(content.len());
        if bytes > TREE_BYTES_MAX {
            return Err(TreeError::Bytes);
        }
        self.add(path, SourceEntry::File(content))?;
        self.bytes = bytes;
        Ok(())
    }

    /// Adds a symbolic link. It is known to be there, and never followed.
    ///
    /// # Errors
    /// As [`SourceTree::insert`].
    pub fn insert_link(&mut self, path: &str) -> Result<(), TreeError> {
        self.add(path, SourceEntry::Link)
    }

    fn add(&mut self, path: &str, entry: SourceEntry) -> Result<(), TreeError> {
        if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(TreeError::Path(path.to_owned()));
        }
        if path.matches('/').count() > FOLDERS_DEPTH_MAX {
            return Err(TreeError::Deep(path.to_owned()));
        }
        if self.files >= FILES_MAX {
            return Err(TreeError::Files);
        }
        let twice = || TreeError::Twice(path.to_owned());
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut folder = &mut self.root;
        for part in folders.split('/').filter(|it| !it.is_empty()) {
            let next = folder
                .entry(part.to_owned())
                .or_insert_with(|| SourceEntry::Folder(Folder::new()));
            let SourceEntry::Folder(next) = next else {
                return Err(twice());
            };
            folder = next;
        }
        if folder.contains_key(name) {
            return Err(twice());
        }
        folder.insert(name.to_owned(), entry);
        self.files += 1;
        Ok(())
    }

    /// What a path leads to; the empty one to the root. A link on the way is where it ends.
    pub(crate) fn find(&self, path: &str) -> Option<SourceFound<'_>> {
        let mut found = SourceFound::Folder(&self.root);
        for part in path.split('/').filter(|it| !it.is_empty()) {
            let SourceFound::Folder(folder) = found else {
                return match found {
                    SourceFound::Link => Some(SourceFound::Link),
                    _ => None,
                };
            };
            found = match folder.get(part)? {
                SourceEntry::Folder(folder) => SourceFound::Folder(folder),
                SourceEntry::File(content) => SourceFound::File(content),
                SourceEntry::Link => SourceFound::Link,
            };
        }
        Some(found)
    }

    /// The content of a file.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&Arc<[u8]>> {
        match self.find(path)? {
            SourceFound::File(content) => Some(content),
            _ => None,
        }
    }

    /// The files in a folder and below, each by its path from there. Links are left out.
    #[must_use]
    pub fn files_below(&self, folder: &str) -> Vec<(String, Arc<[u8]>)> {
        let mut files = Vec::new();
        if let Some(SourceFound::Folder(folder)) = self.find(folder) {
            every_entry(folder, "", &mut |path, entry| {
                if let SourceEntry::File(content) = entry {
                    files.push((path, content.clone()));
                }
            });
        }
        files
    }

    pub(crate) fn every_entry(&self, visit: &mut impl FnMut(String, &SourceEntry)) {
        every_entry(&self.root, "", visit);
    }
}

/// What a path leads to.
pub(crate) enum SourceFound<'a> {
    File(&'a Arc<[u8]>),
    Link,
    Folder(&'a Folder),
}

// As deep as a tree may be.
fn every_entry(folder: &Folder, prefix: &str, visit: &mut impl FnMut(String, &SourceEntry)) {
    for (name, entry) in folder {
        let path = below(prefix, name);
        match entry {
            SourceEntry::Folder(folder) => every_entry(folder, &path, visit),
            entry => visit(path, entry),
        }
    }
}

/// The path of an entry of a folder.
pub(crate) fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

/// A folder as a user writes it, `./apps/web/`, as a path of the tree.
///
/// # Errors
/// When it leads out of the tree.
pub(crate) fn folder_path(written: &str) -> Result<String, TreeError> {
    let parts: Vec<&str> = written.split('/').filter(|it| !matches!(*it, "" | ".")).collect();
    if parts.contains(&"..") {
        return Err(TreeError::Path(written.to_owned()));
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_none_is_refused() {
        let mut tree = SourceTree::new();
        for path in ["", "/a", "a/", "a//b", "../a", "a/../b", "./a"] {
            assert_eq!(tree.insert(path, *b""), Err(TreeError::Path(path.to_owned())));
        }
        let deep = "a/".repeat(FOLDERS_DEPTH_MAX + 1) + "b";
        assert_eq!(tree.insert(&deep, *b""), Err(TreeError::Deep(deep.clone())));
    }

    #[test]
    fn a_file_is_no_folder_as_well() {
        let mut tree = SourceTree::new();
        tree.insert("a", *b"1").unwrap();
        assert_eq!(tree.insert("a", *b"2"), Err(TreeError::Twice("a".to_owned())));
        assert_eq!(tree.insert("a/b", *b"2"), Err(TreeError::Twice("a/b".to_owned())));
        tree.insert("x/y", *b"1").unwrap();
        assert_eq!(tree.insert("x", *b"2"), Err(TreeError::Twice("x".to_owned())));
    }

    #[test]
    fn files_below_a_folder_have_paths_from_there() {
        let mut tree = SourceTree::new();
        tree.insert("x/y/a", *b"1").unwrap();
        tree.insert("x/b", *b"2").unwrap();
        tree.insert_link("x/c").unwrap();
        let names: Vec<_> = tree.files_below("x").into_iter().map(|it| it.0).collect();
        assert_eq!(names, ["b", "y/a"]);
        assert!(tree.files_below("nowhere").is_empty());
        assert!(tree.file("x/y").is_none());
    }
}
