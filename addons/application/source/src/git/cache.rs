//! The folder where the objects of a repository are kept between two fetches.
//!
//! It is laid out as a bare repository, so that the library opens it; Git itself may look at it, too. Nothing in it is
//! precious: whatever is wrong with it, it is thrown away and fetched again.

use super::{open, run::Run};
use crate::{SourceError, digest::sha256_hex};
use gix::{ObjectId, Repository};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Each fetch leaves a pack. With this many, fetching all of it again costs less than looking into each.
const PACKS_MAX: usize = 24;

/// How many commits that were fetched before the server is told of.
const FETCHED_MAX: usize = 16;

/// Letters of a folder's name.
const NAME_LENGTH: usize = 32;

/// The cache of one repository, and the right to change it.
pub(super) struct GitCache {
    folder: PathBuf,
    was_empty: bool,
    /// Its lock lasts as long as it is open.
    _lock: File,
}

/// The file in which `ssh` keeps the keys of hosts. It is made when it is missing.
pub(super) fn known_hosts(cache: &Path, run: &Run) -> Result<PathBuf, SourceError> {
    fs::create_dir_all(cache).map_err(|it| unusable(cache, &it, run))?;
    Ok(cache.join("known_hosts"))
}

fn unusable(path: &Path, error: &io::Error, run: &Run) -> SourceError {
    SourceError::invalid(format!(
        "{}: the cache {} cannot be used: {error}",
        run.url,
        path.display()
    ))
}

/// The name of the folder for a URL, which may have credentials in it.
fn name_of(url: &str) -> String {
    let mut name = sha256_hex(url.as_bytes());
    name.truncate(NAME_LENGTH);
    name
}

/// The file that is locked by whoever uses the folder of this name. When it was changed says when that was last.
fn lock_path(cache: &Path, name: &str) -> PathBuf {
    cache.join(format!("{name}.lock"))
}

/// Opens the file of a lock, which is made when it is missing.
fn lock_file(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(false).open(path)
}

/// Notes that somebody still wants what a URL has. What was never fetched has nothing to be kept.
pub(super) fn note_use(cache: &Path, url: &str) {
    if let Ok(lock) = File::options().write(true).open(lock_path(cache, &name_of(url))) {
        // Where it fails, the objects are fetched once more than they had to be.
        let _ = lock.set_modified(SystemTime::now());
    }
}

/// Removes the folders that nobody has used for this time. One that is in use stays.
pub(super) fn forget_unused(cache: &Path, unused: Duration) -> io::Result<()> {
    let entries = match fs::read_dir(cache) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_ours = name.len() == NAME_LENGTH && name.bytes().all(|it| it.is_ascii_hexdigit());
        if !is_ours {
            continue;
        }
        // The file of the lock stays: whoever waits for it has it open.
        let lock = lock_file(&lock_path(cache, &name))?;
        let used = lock.metadata()?.modified()?;
        let is_unused = SystemTime::now().duration_since(used).is_ok_and(|it| it >= unused);
        if is_unused && lock.try_lock().is_ok() {
            remove(&cache.join(&name))?;
        }
    }
    Ok(())
}

impl GitCache {
    /// The cache for a URL, once nobody else uses it.
    pub fn lock(cache: &Path, url: &str, run: &Run) -> Result<Self, SourceError> {
        let name = name_of(url);
        let folder = cache.join(&name);
        fs::create_dir_all(cache).map_err(|it| unusable(cache, &it, run))?;
        let path = lock_path(cache, &name);
        let locked = lock_file(&path).and_then(|lock| {
            // Whoever holds it has a deadline of its own.
            lock.lock()?;
            lock.set_modified(SystemTime::now())?;
            Ok(lock)
        });
        let lock = locked.map_err(|it| unusable(&path, &it, run))?;
        run.check_time()?;
        if is_overgrown(&folder, run) {
            remove(&folder).map_err(|it| unusable(&folder, &it, run))?;
        }
        let was_empty = !folder.exists();
        Ok(Self {
            folder,
            was_empty,
            _lock: lock,
        })
    }

    /// Whether nothing of it is from an earlier fetch.
    pub fn is_fresh(&self) -> bool {
        self.was_empty
    }

    /// The same cache, empty.
    pub fn made_anew(mut self, run: &Run) -> Result<Self, SourceError> {
        remove(&self.folder).map_err(|it| unusable(&self.folder, &it, run))?;
        self.was_empty = true;
        Ok(self)
    }

    /// Opens it, and lays it out before where it is empty.
    pub fn open(&self, run: &Run) -> Result<Repository, SourceError> {
        if !self.folder.exists() {
            lay_out(&self.folder).map_err(|it| unusable(&self.folder, &it, run))?;
        }
        // Objects of one that does not open are worth nothing.
        open(&self.folder, run).map_err(|_| SourceError::corrupt(&run.url, "its cache is no repository"))
    }

    /// What was fetched before.
    pub fn fetched(&self, repository: &Repository) -> Vec<ObjectId> {
        let text = fs::read_to_string(self.folder.join("fetched")).unwrap_or_default();
        let ids = text.lines().filter_map(|it| ObjectId::from_hex(it.as_bytes()).ok());
        ids.filter(|it| repository.has_object(it)).take(FETCHED_MAX).collect()
    }

    /// Keeps in mind what was fetched.
    pub fn remember(&self, objects: &[ObjectId], run: &Run) -> Result<(), SourceError> {
        let path = self.folder.join("fetched");
        let before = fs::read_to_string(&path).unwrap_or_default();
        let new = objects.iter().map(ToString::to_string);
        let old = before.lines().map(ToOwned::to_owned);
        let lines: Vec<String> = new.chain(old).take(FETCHED_MAX).collect();
        fs::write(&path, lines.join("\n")).map_err(|it| unusable(&path, &it, run))
    }
}

fn lay_out(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder.join("objects/pack"))?;
    fs::create_dir_all(folder.join("refs/heads"))?;
    fs::write(
        folder.join("config"),
        "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
    )?;
    fs::write(folder.join("HEAD"), "ref: refs/heads/main\n")
}

fn remove(folder: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(folder) {
        Ok(it) if it.is_dir() => fs::remove_dir_all(folder),
        Ok(_) => fs::remove_file(folder),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether a cache has become larger than a new one would be.
fn is_overgrown(folder: &Path, run: &Run) -> bool {
    let Ok(entries) = fs::read_dir(folder.join("objects/pack")) else {
        return false;
    };
    let (mut packs, mut bytes) = (0, 0);
    for entry in entries.flatten() {
        bytes += entry.metadata().map_or(0, |it| it.len());
        packs += usize::from(entry.path().extension().is_some_and(|it| it == "pack"));
    }
    packs > PACKS_MAX || bytes > run.bounds.received_bytes_max().saturating_mul(2)
}
