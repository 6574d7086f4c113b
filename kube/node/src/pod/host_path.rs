//! What a pod names on the host. It may use what is there; what is not there is made in the node's own folder alone:
//! whoever may make pods would otherwise make files wherever the user of this process may.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Component, Path, PathBuf},
};

/// Looks whether `path` is what a volume of type `kind` wants, and makes it if that is asked for
/// and `path` is in `folder`.
///
/// # Errors
/// When it is something else, or may not be made.
pub fn provide(path: &Path, kind: &str, folder: &Path) -> io::Result<()> {
    let wrong = |what: &str| {
        let text = format!("hostPath type check failed: {} is not {what}", path.display());
        Err(io::Error::other(text))
    };
    match kind {
        "Directory" | "DirectoryOrCreate" if path.is_dir() => Ok(()),
        "File" | "FileOrCreate" if path.is_file() => Ok(()),
        "DirectoryOrCreate" if !path.exists() => {
            may_make(path, folder)?;
            DirBuilder::new().recursive(true).mode(0o700).create(path)
        }
        // As a kubelet, which makes no directory for it.
        "FileOrCreate" if !path.exists() => {
            may_make(path, folder)?;
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            file.map(drop)
        }
        "Directory" | "DirectoryOrCreate" => wrong("a directory"),
        "File" | "FileOrCreate" => wrong("a file"),
        _ => Ok(()),
    }
}

fn may_make(path: &Path, folder: &Path) -> io::Result<()> {
    if is_inside(path, folder) {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "hostPath {} is not there, and this node makes nothing outside of {}: make it on the host, or name a path in that folder",
        path.display(),
        folder.display()
    )))
}

/// Whether what is made under this path comes to lie in the folder, whatever links lead to.
fn is_inside(path: &Path, folder: &Path) -> bool {
    if path.components().any(|it| it == Component::ParentDir) {
        return false;
    }
    let real = |it: &Path| -> Option<PathBuf> { it.ancestors().find_map(|it| fs::canonicalize(it).ok()) };
    // A link that leads nowhere is no ancestor that exists, and something would be made where it leads.
    let dangles = path.ancestors().any(|it| it.is_symlink() && !it.exists());
    match (real(path), fs::canonicalize(folder)) {
        (Some(real), Ok(folder)) => !dangles && path.is_absolute() && real.starts_with(folder),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_created_on_the_host_outside_the_node_directory() {
        let host = tempfile::tempdir().unwrap();
        let folder = host.path().join("node");
        fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(host.path(), folder.join("out")).unwrap();
        std::os::unix::fs::symlink(host.path().join("nowhere"), folder.join("dangling")).unwrap();
        for kind in ["FileOrCreate", "DirectoryOrCreate"] {
            for path in ["a", "node/../a", "node/out/a", "node/dangling"] {
                let path = host.path().join(path);
                let error = provide(&path, kind, &folder).unwrap_err().to_string();
                assert!(error.contains("this node makes nothing outside of"), "{error}");
                assert!(!host.path().join("a").exists() && !host.path().join("nowhere").exists());
            }
        }
        let directory = folder.join("deep/down");
        provide(&directory, "DirectoryOrCreate", &folder).unwrap();
        assert!(directory.is_dir());
        provide(&folder.join("deep/file"), "FileOrCreate", &folder).unwrap();
        assert!(folder.join("deep/file").is_file());
    }

    #[test]
    fn existing_host_paths_are_used_if_their_type_matches() {
        let host = tempfile::tempdir().unwrap();
        let (folder, file) = (host.path().join("node"), host.path().join("file"));
        fs::write(&file, "kept").unwrap();
        for kind in ["", "File", "FileOrCreate"] {
            provide(&file, kind, &folder).unwrap();
        }
        for kind in ["Directory", "DirectoryOrCreate"] {
            provide(host.path(), kind, &folder).unwrap();
            assert!(provide(&file, kind, &folder).is_err());
        }
        assert!(provide(host.path(), "FileOrCreate", &folder).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    }
}
