//! Directories of files that change as one, as a kubelet makes them: `..data` is a link to the present content, and
//! moving the link moves everything.

use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink},
    path::{Component, Path},
};

/// The content of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub bytes: Bytes,
    pub mode: u32,
}

/// Files by their path in the directory.
pub type Files = BTreeMap<String, File>;

/// Makes a directory that only its owner may enter, and those above it.
///
/// # Errors
/// What the system says.
pub fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Whether a path stays where it is put.
pub fn stays_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components().peekable();
    parts.peek().is_some() && parts.all(|it| matches!(it, Component::Normal(_)))
}

/// Replaces the content of a directory at once.
///
/// # Errors
/// What the system says; the old content stays then.
pub fn replace(dir: &Path, files: &Files) -> io::Result<()> {
    private_dir(dir)?;
    let data = dir.join("..data");
    let before = fs::read_link(&data).ok();
    let version = format!("..{:016x}", rand::random::<u64>());
    let root = dir.join(&version);
    private_dir(&root)?;
    for (path, file) in files {
        if !stays_inside(path) {
            return Err(io::Error::other(format!("the path {path:?} leaves its volume")));
        }
        let path = root.join(path);
        if let Some(parent) = path.parent() {
            private_dir(parent)?;
        }
        // Nobody else may read it while it is written; the mode comes last, as it may forbid writing.
        let mut made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        made.write_all(&file.bytes)?;
        made.set_permissions(Permissions::from_mode(file.mode & 0o777))?;
    }
    let link = dir.join("..data_tmp");
    let _ = fs::remove_file(&link);
    symlink(&version, &link)?;
    fs::rename(&link, &data)?;
    link_names(dir, files)?;
    if let Some(before) = before {
        // What is left over costs a little space, no more.
        let _ = fs::remove_dir_all(dir.join(before));
    }
    Ok(())
}

/// The names that users see are links through `..data`.
fn link_names(dir: &Path, files: &Files) -> io::Result<()> {
    let names: BTreeSet<&str> = files.keys().map(|it| it.split('/').next().unwrap_or(it)).collect();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !names.contains(&*name) {
            fs::remove_file(entry.path())?;
        }
    }
    for name in names {
        let link = dir.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new("..data").join(name), &link)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        let file = |text: &str| File {
            bytes: Bytes::copy_from_slice(text.as_bytes()),
            mode: 0o644,
        };
        list.iter()
            .map(|(path, text)| ((*path).to_owned(), file(text)))
            .collect()
    }

    #[test]
    fn the_content_changes_as_one_and_old_content_goes() {
        let dir = tempfile::tempdir().unwrap();
        let read = |path: &str| fs::read_to_string(dir.path().join(path)).ok();
        replace(dir.path(), &files(&[("a", "1"), ("deep/b", "2")])).unwrap();
        assert_eq!((read("a"), read("deep/b")), (Some("1".into()), Some("2".into())));
        replace(dir.path(), &files(&[("a", "3"), ("c", "4")])).unwrap();
        assert_eq!(
            (read("a"), read("deep/b"), read("c")),
            (Some("3".into()), None, Some("4".into()))
        );
        let names = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(names, 4, "a, c, ..data and one version");
        replace(dir.path(), &Files::new()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_path_that_leaves_the_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["../a", "/a", "b/../../a", ""] {
            assert!(replace(dir.path(), &files(&[(path, "")])).is_err(), "{path}");
        }
    }
}
