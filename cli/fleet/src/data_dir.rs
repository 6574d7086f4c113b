//! The directory `drover up` keeps everything in: who owns it, which format it has, and what lies where.

use std::{
    fs::{DirBuilder, File, OpenOptions, Permissions},
    io::{ErrorKind, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use output::private_file;

/// The layout that this binary writes. A binary reads layouts up to its own number and refuses newer ones, because it
/// would misread them and lose what it does not know.
const FORMAT: u32 = 1;

/// A data directory that this process owns until the value is dropped.
#[derive(Debug)]
pub struct DataDir {
    root: PathBuf,
    /// What this process has made and will not leave behind while nothing is kept in it.
    _made: Made,
    /// Holds the lock; the kernel lets go of it however the process ends.
    _lock: File,
    /// Removes the directory in the end, where it was only meant for this run.
    _temporary: Option<Temporary>,
}

#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Directories that were not there before, the outermost first.
#[derive(Debug)]
struct Made(Vec<PathBuf>);

impl Made {
    fn for_root(root: &Path) -> Self {
        let missing = root
            .ancestors()
            .filter(|it| !it.as_os_str().is_empty())
            .take_while(|it| !it.exists());
        let mut missing: Vec<_> = missing.map(Path::to_owned).collect();
        missing.reverse();
        Self(missing)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let Some(root) = self.0.last() else { return };
        let own = ["format", "lock"];
        let is_empty = std::fs::read_dir(root)
            .is_ok_and(|entries| entries.flatten().all(|it| own.iter().any(|own| it.file_name() == *own)));
        if !is_empty {
            return;
        }
        for name in own {
            let _ = std::fs::remove_file(root.join(name));
        }
        // Only what is empty can be removed this way: what somebody else has put there meanwhile stays.
        for path in self.0.iter().rev() {
            let _ = std::fs::remove_dir(path);
        }
    }
}

impl DataDir {
    /// Whether `root` is a data directory that this binary can read.
    pub fn is_one(root: &Path) -> Result<bool> {
        check_format(root)?;
        Ok(root.join("format").exists())
    }

    /// Takes the directory `root`, making it if it is not there.
    pub fn open(root: &Path) -> Result<Self> {
        let name = root.display();
        check_format(root)?;
        let made = Made::for_root(&std::path::absolute(root)?);
        let created = DirBuilder::new().recursive(true).mode(0o700).create(root);
        created.with_context(|| format!("could not create the data directory {name}"))?;
        let root = root
            .canonicalize()
            .with_context(|| format!("could not find the data directory {name}"))?;
        let is_ours = root.join("format").exists() || root.join("lock").exists();
        if !is_ours && std::fs::read_dir(&root)?.next().is_some() {
            bail!("{name} is not a data directory of drover and not empty; choose another one with --data-dir");
        }
        let lock = lock(&root)?;
        keep_format(&root)?;
        // A directory that a person made beforehand may be open to others; it holds private keys.
        std::fs::set_permissions(&root, Permissions::from_mode(0o700))
            .with_context(|| format!("could not make the data directory {name} private"))?;
        Ok(Self {
            root,
            _made: made,
            _lock: lock,
            _temporary: None,
        })
    }

    /// A directory for this run only.
    pub fn temporary() -> Result<Self> {
        let root = std::env::temp_dir().join(format!("drover-{:08x}", rand::random::<u32>()));
        let temporary = Temporary(root.clone());
        let mut opened = Self::open(&root)?;
        opened._temporary = Some(temporary);
        Ok(opened)
    }

    /// The names of the API servers that keep objects in the directory `root`.
    pub fn servers(root: &Path) -> Result<Vec<String>> {
        let entries = std::fs::read_dir(root).with_context(|| format!("could not read {}", root.display()))?;
        let mut names: Vec<String> = entries
            .flatten()
            .filter(|it| kube_api::backup::has_objects(&it.path()))
            .filter_map(|it| it.file_name().into_string().ok())
            .filter(|it| !it.starts_with('.'))
            .collect();
        names.sort();
        Ok(names)
    }

    /// Where the objects of one API server are kept.
    pub fn server(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The kubeconfig of one API server's administrator.
    pub fn kubeconfig(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}.kubeconfig"))
    }

    /// The port each API server had last time.
    pub fn ports(&self) -> std::collections::BTreeMap<String, u16> {
        // Ports are a convenience: an unreadable file costs a new port, no more.
        std::fs::read(self.root.join("ports.json"))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    /// Remembers the port of each API server.
    pub fn remember_ports(&self, ports: &std::collections::BTreeMap<String, u16>) -> Result<()> {
        // Nothing to write is nothing that a full disk can refuse.
        if self.ports() == *ports {
            return Ok(());
        }
        private_file::write(&self.root.join("ports.json"), &serde_json::to_string(ports)?)
    }
}

fn lock(root: &Path) -> Result<File> {
    let path = root.join("lock");
    let name = root.display();
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("the data directory {name} belongs to another user; choose another one with --data-dir")
        }
        Err(error) => return Err(error).with_context(|| format!("could not lock the data directory {name}")),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            let owner = match owner.trim() {
                "" => "another process".to_owned(),
                pid => format!("process {pid}"),
            };
            bail!("the data directory {name} is in use by {owner}; stop it, or choose another one with --data-dir");
        }
        Err(std::fs::TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("could not lock the data directory {name}"));
        }
    }
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    written.with_context(|| format!("could not write to the data directory {name}"))?;
    Ok(file)
}

/// Writes the format into a directory that has none.
fn keep_format(root: &Path) -> Result<()> {
    let path = root.join("format");
    if path.exists() {
        return check_format(root);
    }
    private_file::write(&path, &format!("{FORMAT}\n"))
}

/// Refuses what another version has written, before anything is touched.
fn check_format(root: &Path) -> Result<()> {
    let path = root.join("format");
    let name = root.display();
    match std::fs::read_to_string(&path) {
        Ok(text) => match text.trim().parse::<u32>() {
            Ok(found) if found > FORMAT => bail!(
                "the data directory {name} has format {found}, written by a newer drover; this one knows format {FORMAT}: \
                 use the newer binary, or another directory with --data-dir"
            ),
            Ok(_) => Ok(()),
            Err(_) => bail!("{} is damaged: it should hold the format's number", path.display()),
        },
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("could not read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(root: &Path) -> String {
        DataDir::open(root).unwrap_err().to_string()
    }

    #[test]
    fn a_data_directory_is_private_and_reopens_after_closing() {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("a/b");
        let directory = DataDir::open(&root).unwrap();
        assert_eq!(std::fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
        directory.remember_ports(&[("hub".to_owned(), 7)].into()).unwrap();
        let kubeconfig = directory.kubeconfig("hub");
        private_file::write(&kubeconfig, "a").unwrap();
        private_file::write(&kubeconfig, "b").unwrap();
        assert_eq!(
            std::fs::metadata(&kubeconfig).unwrap().permissions().mode() & 0o777,
            0o600
        );
        drop(directory);
        assert_eq!(DataDir::open(&root).unwrap().ports()["hub"], 7);
    }

    #[test]
    fn a_link_where_the_draft_was_expected_leads_nowhere() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        std::fs::write(path("victim"), "mine").unwrap();
        for guess in ["hub.tgz.new", ".hub.tgz.new"] {
            std::os::unix::fs::symlink(path("victim"), path(guess)).unwrap();
        }
        private_file::write(&path("hub.tgz"), "secret").unwrap();
        assert_eq!(std::fs::read_to_string(path("hub.tgz")).unwrap(), "secret");
        assert_eq!(std::fs::read_to_string(path("victim")).unwrap(), "mine");
        let mode = std::fs::metadata(path("hub.tgz")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // What could not get its name is not left behind.
        std::fs::create_dir_all(path("taken/x")).unwrap();
        assert!(private_file::write(&path("taken"), "secret").is_err());
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 5);
    }

    #[test]
    fn a_directory_of_another_process_is_refused_with_its_pid() {
        let parent = tempfile::tempdir().unwrap();
        let _owner = DataDir::open(parent.path()).unwrap();
        let error = refusal(parent.path());
        assert!(
            error.contains(&format!("is in use by process {};", std::process::id())),
            "{error}"
        );
    }

    #[test]
    fn a_newer_data_directory_is_refused_and_left_unchanged() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::write(parent.path().join("format"), "2\n").unwrap();
        assert!(refusal(parent.path()).contains("has format 2, written by a newer drover; this one knows format 1"));
        assert_eq!(std::fs::read_to_string(parent.path().join("format")).unwrap(), "2\n");
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
        std::fs::write(parent.path().join("format"), "x").unwrap();
        assert!(refusal(parent.path()).contains("is damaged"));
    }

    #[test]
    fn an_unused_data_directory_is_removed_again() {
        let parent = tempfile::tempdir().unwrap();
        drop(DataDir::open(&parent.path().join("a/b")).unwrap());
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
        // One that was there before stays.
        std::fs::create_dir(parent.path().join("a")).unwrap();
        drop(DataDir::open(&parent.path().join("a")).unwrap());
        assert!(parent.path().join("a").exists());
    }

    #[test]
    fn a_foreign_directory_is_not_written_to() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::write(parent.path().join("thesis.txt"), "").unwrap();
        assert!(refusal(parent.path()).contains("is not a data directory of drover and not empty"));
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_temporary_directory_is_gone_in_the_end() {
        let directory = DataDir::temporary().unwrap();
        let root = directory.root.clone();
        assert!(root.exists());
        drop(directory);
        assert!(!root.exists());
    }
}
