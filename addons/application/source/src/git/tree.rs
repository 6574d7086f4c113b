//! Reading the files of a commit from the objects of a repository.

use super::{GitReference, GitTree, run::Run, wire};
use crate::{SourceError, error::chain};
use gix::{ObjectId, Repository, bstr::BStr, objs::tree::EntryKind};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// What a path of a tree is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeFile {
    /// What it holds, whether or not it may be executed.
    File(Arc<[u8]>),
    /// A file that is larger than the bounds allow, which was not read. The number is its size in bytes.
    TooLarge(u64),
    /// A symbolic link. It is not followed, wherever it leads.
    Link,
}

/// Which commit a reference of a repository of this machine names.
pub(super) fn commit_of_folder(
    repository: &Repository,
    reference: &GitReference,
    run: &Run,
) -> Result<ObjectId, SourceError> {
    let missing = || SourceError::not_found(&run.url, wire::described(reference));
    match reference {
        GitReference::Head => repository.head_id().map(|it| it.detach()).map_err(|_| missing()),
        GitReference::Commit(id) => {
            let id = wire::commit_id(id)?;
            if repository.has_object(id) {
                return commit_at(repository, id, run);
            }
            Err(missing())
        }
        GitReference::Branch(_) | GitReference::Tag(_) => {
            let name = wire::full_name(reference)?;
            let found = repository.try_find_reference(name.as_str());
            let mut found = found.map_err(|it| corrupt(run, &it))?.ok_or_else(missing)?;
            let commit = found.peel_to_commit().map_err(|it| corrupt(run, &it))?;
            Ok(commit.id)
        }
    }
}

/// The commit that an object is or stands for.
pub(super) fn commit_at(repository: &Repository, object: ObjectId, run: &Run) -> Result<ObjectId, SourceError> {
    let found = repository.find_object(object).map_err(|it| corrupt(run, &it))?;
    let commit = found.peel_to_commit().map_err(|it| corrupt(run, &it))?;
    Ok(commit.id)
}

fn corrupt(run: &Run, error: &gix::Error) -> SourceError {
    SourceError::corrupt(&run.url, chain(error))
}

/// Reads all files of a commit that are in a folder; an empty name is the root.
pub(super) fn read(repository: &Repository, commit: ObjectId, folder: &str, run: &Run) -> Result<GitTree, SourceError> {
    let root = repository
        .find_object(commit)
        .and_then(|it| it.peel_to_commit())
        .and_then(|it| Ok(it.tree_id()?.detach()))
        .map_err(|it| corrupt(run, &it))?;
    let mut reader = Reader {
        repository,
        run,
        files: BTreeMap::new(),
        contents: HashMap::new(),
        entries: 0,
        bytes: 0,
    };
    let parts: Vec<&str> = folder.split('/').filter(|it| !it.is_empty() && *it != ".").collect();
    let start = reader.descend(root, &parts, folder)?;
    reader.read_all(parts.join("/"), start)?;
    Ok(GitTree {
        commit: commit.to_string(),
        files: reader.files,
    })
}

struct Reader<'a> {
    repository: &'a Repository,
    run: &'a Run,
    files: BTreeMap<String, TreeFile>,
    /// What was read already: trees may name one object often.
    contents: HashMap<ObjectId, Arc<[u8]>>,
    entries: usize,
    bytes: u64,
}

impl Reader<'_> {
    fn descend(&self, root: ObjectId, parts: &[&str], folder: &str) -> Result<ObjectId, SourceError> {
        let mut tree = root;
        for part in parts {
            let entries = self.entries_of(tree)?;
            let found = entries.iter().find(|(name, ..)| name == part);
            tree = match found {
                Some((_, EntryKind::Tree, id)) => *id,
                _ => return Err(SourceError::not_found(&self.run.url, format!("folder {folder}"))),
            };
        }
        Ok(tree)
    }

    fn read_all(&mut self, folder: String, tree: ObjectId) -> Result<(), SourceError> {
        let bounds = &self.run.bounds;
        let mut waiting = vec![(folder, tree, 0)];
        while let Some((folder, tree, depth)) = waiting.pop() {
            self.run.check_time()?;
            for (name, kind, id) in self.entries_of(tree)? {
                self.entries += 1;
                // Folders count, too: a tree of empty ones would have no end.
                if self.entries > bounds.files_max {
                    let what = format!("the commit has more than {} files", bounds.files_max);
                    return Err(SourceError::too_large(&self.run.url, what));
                }
                let path = if folder.is_empty() {
                    name
                } else {
                    format!("{folder}/{name}")
                };
                match kind {
                    EntryKind::Tree if depth >= bounds.depth_max => {
                        let what = format!("its folders are more than {} deep", bounds.depth_max);
                        return Err(SourceError::too_large(&self.run.url, what));
                    }
                    EntryKind::Tree => waiting.push((path, id, depth + 1)),
                    EntryKind::Blob | EntryKind::BlobExecutable => {
                        let file = self.file(id)?;
                        self.files.insert(path, file);
                    }
                    EntryKind::Link => {
                        self.files.insert(path, TreeFile::Link);
                    }
                    // The files of a submodule are in another repository.
                    EntryKind::Commit => {}
                }
            }
        }
        Ok(())
    }

    fn entries_of(&self, tree: ObjectId) -> Result<Vec<(String, EntryKind, ObjectId)>, SourceError> {
        let tree = self.repository.find_tree(tree).map_err(|it| corrupt(self.run, &it))?;
        let mut entries = Vec::new();
        for entry in tree.iter() {
            let entry = entry.map_err(|it| corrupt(self.run, &it))?;
            entries.push((self.name(entry.filename())?, entry.kind(), entry.object_id()));
        }
        Ok(entries)
    }

    /// The name of a file in its folder. Git writes none that would lead out of it; others may.
    fn name(&self, name: &BStr) -> Result<String, SourceError> {
        let leads_away = name.is_empty()
            || name == "."
            || name == ".."
            || name.eq_ignore_ascii_case(b".git")
            || name.iter().any(|it| matches!(it, b'/' | b'\\' | 0));
        if leads_away {
            let reason = format!("a tree has an entry named {name:?}");
            return Err(SourceError::corrupt(&self.run.url, reason));
        }
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    fn file(&mut self, id: ObjectId) -> Result<TreeFile, SourceError> {
        let bounds = &self.run.bounds;
        let content = match self.contents.get(&id) {
            Some(content) => content.clone(),
            None => {
                let header = self.repository.find_header(id).map_err(|it| corrupt(self.run, &it))?;
                if header.size() > bounds.file_bytes_max {
                    return Ok(TreeFile::TooLarge(header.size()));
                }
                let blob = self.repository.find_object(id).map_err(|it| corrupt(self.run, &it))?;
                let content: Arc<[u8]> = blob.data.as_slice().into();
                self.contents.insert(id, content.clone());
                content
            }
        };
        self.bytes += content.len() as u64;
        if self.bytes > bounds.total_bytes_max {
            let what = format!("its files have more than {} bytes", bounds.total_bytes_max);
            return Err(SourceError::too_large(&self.run.url, what));
        }
        Ok(TreeFile::File(content))
    }
}
