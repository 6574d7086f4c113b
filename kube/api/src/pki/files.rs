//! Files with secrets: readable by their owner only, written whole or not at all.

use super::Error;
use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

/// Makes `dir` and its parents, readable by the owner only. A directory that exists keeps its mode.
pub fn create_private_dir(dir: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(io(dir))
}

/// The text of a file, if there is one.
pub fn read(path: &Path) -> Result<Option<String>, Error> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io(path)(error)),
    }
}

/// Writes a file so that a crash leaves either the old or the new text.
pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    let next = write_beside(path, text)?;
    std::fs::rename(&next, path).map_err(io(path))?;
    sync_dir(path)
}

/// Writes a file unless there is one; says whether it did.
pub fn write_new(path: &Path, text: &str) -> Result<bool, Error> {
    let next = write_beside(path, text)?;
    // A link fails when the name is taken, and never shows a half-written file.
    let linked = std::fs::hard_link(&next, path);
    std::fs::remove_file(&next).map_err(io(&next))?;
    match linked {
        Ok(()) => sync_dir(path).map(|()| true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(io(path)(error)),
    }
}

fn write_beside(path: &Path, text: &str) -> Result<PathBuf, Error> {
    let next = path.with_extension(format!("{}.new", rand::random::<u32>()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&next)
        .map_err(io(&next))?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(io(&next))?;
    Ok(next)
}

fn sync_dir(path: &Path) -> Result<(), Error> {
    let dir = path
        .parent()
        .filter(|it| !it.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    File::open(dir).and_then(|it| it.sync_all()).map_err(io(dir))
}
