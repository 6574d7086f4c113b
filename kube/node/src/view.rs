//! What a container sees of the file system: that of the host, with its volumes, its credentials and its names of hosts
//! where programs look for them. It is a mount namespace, which needs no image; where the machine allows none,
//! programs find the same files by `$POD_PATHS`.
//!
//! The root is a new directory in memory. What the host has there is bound into it; a directory that lacks an entry
//! that the container needs is made anew in the same way, so that nothing is written to the host.

use std::{
    collections::BTreeMap,
    ffi::{CString, OsStr, OsString},
    fs, io,
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::{Component, Path, PathBuf},
    process::{Command, Stdio},
};

/// Where the kernel shows itself; nothing is put there.
const OF_THE_KERNEL: [&str; 2] = ["/proc", "/sys"];

/// What a process does before it becomes the container's program. Nothing is allocated there.
#[derive(Clone, Debug)]
pub struct View {
    root: CString,
    steps: Vec<ViewStep>,
    /// Lines for the maps of users and groups, where the node is not root.
    maps: Option<(CString, CString)>,
    directory: CString,
}

#[derive(Clone, Debug)]
enum ViewStep {
    Directory(CString),
    File(CString),
    Link {
        to: CString,
        at: CString,
    },
    /// `needed` is what the container asked for; the rest is of the host, and some of it cannot be bound.
    Bind {
        from: CString,
        at: CString,
        needed: bool,
    },
}

/// Entries that are missing on the host, by name.
#[derive(Default)]
struct Missing {
    entries: BTreeMap<OsString, Missing>,
    /// What is there, where the container asked for exactly this.
    from: Option<PathBuf>,
}

impl View {
    /// With these paths of the container and where they are. `root` is an empty directory for the new root, `directory`
    /// the working directory. A path that would hide one of `kept`, without which nothing runs, stays the host's: such
    /// as `/tmp`, when the node itself has its files there.
    ///
    /// # Errors
    /// When the host cannot be read.
    pub fn new(root: &Path, wanted: &[(PathBuf, PathBuf)], directory: &Path, kept: &[&Path]) -> io::Result<Self> {
        let mut steps = Vec::new();
        let (mut missing, mut present) = (Missing::default(), Vec::new());
        for (path, from) in wanted {
            let path = resolved(path);
            let is_plain = path
                .components()
                .all(|it| matches!(it, Component::RootDir | Component::Normal(_)));
            let is_of_kernel = OF_THE_KERNEL.iter().any(|it| path.starts_with(it));
            let hides = kept.iter().chain([&directory, &root]).any(|it| it.starts_with(&path));
            if !path.is_absolute() || !is_plain || is_of_kernel || hides {
                continue;
            }
            let same_kind = path.exists() && path.is_dir() == from.is_dir();
            if same_kind {
                present.push((path, from.clone()));
                continue;
            }
            let mut at = &mut missing;
            for part in path.components().skip(1) {
                at = at.entries.entry(part.as_os_str().to_owned()).or_default();
            }
            at.from = Some(from.clone());
        }
        copy(Path::new("/"), root, &missing, &mut steps)?;
        for (path, from) in present {
            steps.push(ViewStep::Bind {
                from: c(&from)?,
                at: c(&inside(root, &path))?,
                needed: true,
            });
        }
        #[expect(
            unsafe_code,
            reason = "the numbers of a process' user and group have no safe binding among our dependencies"
        )]
        // SAFETY: geteuid and getegid always succeed and touch no memory.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        let line = |it: u32| CString::new(format!("{it} {it} 1"));
        Ok(Self {
            root: c(root)?,
            steps,
            maps: (user != 0)
                .then(|| Ok::<_, io::Error>((line(user)?, line(group)?)))
                .transpose()?,
            directory: c(directory)?,
        })
    }

    /// Whether this machine allows it: a process tries, and ends.
    pub fn is_possible(dir: &Path) -> bool {
        let root = dir.join("view");
        let tried = fs::create_dir_all(&root).and_then(|()| {
            let view = Self::new(
                &root,
                &[(PathBuf::from("/drover/probe"), dir.to_owned())],
                Path::new("/"),
                &[],
            )?;
            let mut command = Command::new("/");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let enter = move || {
                view.enter()?;
                #[expect(unsafe_code, reason = "the process is to end here, before it becomes a program")]
                // SAFETY: _exit is safe between fork and exec.
                unsafe {
                    libc::_exit(0)
                }
            };
            #[expect(unsafe_code, reason = "what is tried happens between fork and exec")]
            // SAFETY: `enter` allocates nothing and takes no lock.
            unsafe {
                command.pre_exec(enter);
            }
            command.spawn()?.wait()
        });
        match tried {
            Ok(status) => status.success(),
            Err(error) => {
                tracing::debug!(%error, "this machine allows no mount namespaces");
                false
            }
        }
    }

    /// Enters it. For a process between fork and exec, which is alone in its address space.
    ///
    /// # Errors
    /// What the system says.
    #[expect(
        unsafe_code,
        reason = "system calls between fork and exec have no safe binding among our dependencies"
    )]
    pub fn enter(&self) -> io::Result<()> {
        let check = |result: libc::c_int| {
            if result == 0 {
                Ok(())
            } else {
                Err(io::Error::last_os_error())
            }
        };
        let none = std::ptr::null();
        // SAFETY: every pointer is of a string that lives as long as `self`, and the calls allocate nothing.
        unsafe {
            match &self.maps {
                None => check(libc::unshare(libc::CLONE_NEWNS))?,
                Some((users, groups)) => {
                    check(libc::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWUSER))?;
                    write(c"/proc/self/setgroups", c"deny")?;
                    write(c"/proc/self/uid_map", users)?;
                    write(c"/proc/self/gid_map", groups)?;
                }
            }
            // What is mounted here is nobody else's.
            check(libc::mount(
                none,
                c"/".as_ptr(),
                none,
                libc::MS_REC | libc::MS_PRIVATE,
                none.cast(),
            ))?;
            let root = self.root.as_ptr();
            check(libc::mount(
                c"none".as_ptr(),
                root,
                c"tmpfs".as_ptr(),
                libc::MS_NOSUID,
                c"mode=755".as_ptr().cast(),
            ))?;
            // Otherwise it would be bound into itself.
            check(libc::mount(none, root, none, libc::MS_UNBINDABLE, none.cast()))?;
            for step in &self.steps {
                match step {
                    ViewStep::Directory(path) => {
                        libc::mkdir(path.as_ptr(), 0o755);
                    }
                    ViewStep::File(path) => {
                        let file = libc::open(path.as_ptr(), libc::O_CREAT | libc::O_CLOEXEC | libc::O_WRONLY, 0o644);
                        if file >= 0 {
                            libc::close(file);
                        }
                    }
                    ViewStep::Link { to, at } => {
                        libc::symlink(to.as_ptr(), at.as_ptr());
                    }
                    ViewStep::Bind { from, at, needed } => {
                        let bound = libc::mount(
                            from.as_ptr(),
                            at.as_ptr(),
                            none,
                            libc::MS_BIND | libc::MS_REC,
                            none.cast(),
                        );
                        if *needed {
                            check(bound)?;
                        }
                    }
                }
            }
            check(libc::chroot(root))?;
            check(libc::chdir(self.directory.as_ptr()))
        }
    }
}

#[expect(unsafe_code, reason = "nothing may be allocated between fork and exec")]
unsafe fn write(path: &std::ffi::CStr, text: &std::ffi::CStr) -> io::Result<()> {
    // SAFETY: the pointers are of strings that live longer, and the calls allocate nothing.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        let text = text.to_bytes();
        let written = libc::write(file, text.as_ptr().cast(), text.len());
        let error = io::Error::last_os_error();
        libc::close(file);
        if written < 0 { Err(error) } else { Ok(()) }
    }
}

/// The path without links in those of its parts that are there.
fn resolved(path: &Path) -> PathBuf {
    for prefix in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (fs::canonicalize(prefix), path.strip_prefix(prefix)) {
            return if rest.as_os_str().is_empty() {
                real
            } else {
                real.join(rest)
            };
        }
    }
    path.to_owned()
}

/// Makes a directory of the host anew at `at`, with what is missing there.
fn copy(host: &Path, at: &Path, missing: &Missing, steps: &mut Vec<ViewStep>) -> io::Result<()> {
    let mut rest: Vec<_> = missing.entries.iter().collect();
    for entry in fs::read_dir(host)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let (from, to) = (entry.path(), at.join(&name));
        match missing.entries.get(&name) {
            Some(more) if more.from.is_none() && from.is_dir() => {
                rest.retain(|(it, _)| **it != name);
                steps.push(ViewStep::Directory(c(&to)?));
                copy(&from, &to, more, steps)?;
            }
            // Something else of the name the container has in its place.
            Some(_) => {}
            None if kind.is_symlink() => steps.push(ViewStep::Link {
                to: c(&fs::read_link(&from)?)?,
                at: c(&to)?,
            }),
            None => {
                steps.push(if kind.is_dir() {
                    ViewStep::Directory(c(&to)?)
                } else {
                    ViewStep::File(c(&to)?)
                });
                steps.push(ViewStep::Bind {
                    from: c(&from)?,
                    at: c(&to)?,
                    needed: false,
                });
            }
        }
    }
    for (name, more) in rest {
        make(&at.join(name), more, steps)?;
    }
    Ok(())
}

/// Makes what the host has nothing of.
fn make(at: &Path, missing: &Missing, steps: &mut Vec<ViewStep>) -> io::Result<()> {
    let is_file = missing.from.as_deref().is_some_and(|it| !it.is_dir());
    steps.push(if is_file {
        ViewStep::File(c(at)?)
    } else {
        ViewStep::Directory(c(at)?)
    });
    if let Some(from) = &missing.from {
        steps.push(ViewStep::Bind {
            from: c(from)?,
            at: c(at)?,
            needed: true,
        });
    }
    for (name, more) in &missing.entries {
        make(&at.join(name), more, steps)?;
    }
    Ok(())
}

fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn c(path: &(impl AsRef<OsStr> + ?Sized)) -> io::Result<CString> {
    Ok(CString::new(path.as_ref().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a shell prints in a view; `None` where the machine allows none.
    fn seen(folder: &Path, wanted: &[(PathBuf, PathBuf)], script: &str) -> Option<String> {
        if !View::is_possible(folder) {
            eprintln!("skipped: this machine allows no mount namespaces");
            return None;
        }
        let view = View::new(&folder.join("view"), wanted, folder, &[]).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        #[expect(unsafe_code, reason = "the view is entered between fork and exec")]
        // SAFETY: `enter` allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(move || view.enter());
        }
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        Some(String::from_utf8_lossy(&said).into_owned())
    }

    #[test]
    fn a_container_finds_its_files_where_it_looks() {
        let folder = tempfile::tempdir().unwrap();
        let account = folder.path().join("account");
        fs::create_dir(&account).unwrap();
        fs::write(account.join("token"), "secret").unwrap();
        fs::write(folder.path().join("hosts"), "127.9.9.9 web").unwrap();
        let wanted = [
            (
                PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount"),
                account.clone(),
            ),
            (PathBuf::from("/etc/hosts"), folder.path().join("hosts")),
            (PathBuf::from("/no/such/place"), account.clone()),
        ];
        let script = "cat /var/run/secrets/kubernetes.io/serviceaccount/token /etc/hosts /no/such/place/token; \
                      test -e /proc/self && test -c /dev/null && pwd && echo new > /no/such/place/written";
        let Some(said) = seen(folder.path(), &wanted, script) else {
            return;
        };
        let home = folder.path().canonicalize().unwrap();
        assert_eq!(said, format!("secret127.9.9.9 websecret{}\n", home.display()));
        // What is written goes to the volume, and nothing to the host.
        assert_eq!(fs::read_to_string(account.join("written")).unwrap(), "new\n");
        assert!(!Path::new("/no").exists());
        assert!(fs::read_dir(folder.path().join("view")).unwrap().next().is_none());
    }

    #[test]
    fn what_would_hide_the_node_itself_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path().parent().unwrap().to_owned();
        let wanted = [(parent, folder.path().to_owned())];
        let Some(said) = seen(folder.path(), &wanted, "echo -n here") else {
            return;
        };
        assert_eq!(said, "here");
    }

    #[test]
    fn a_path_in_an_existing_directory_hides_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tls.crt"), "one").unwrap();
        let wanted = [(PathBuf::from("/etc/no-such-folder"), folder.path().to_owned())];
        let Some(said) = seen(
            folder.path(),
            &wanted,
            "cat /etc/no-such-folder/tls.crt; test -f /etc/passwd && echo -n two",
        ) else {
            return;
        };
        assert_eq!(said, "onetwo");
    }
}
