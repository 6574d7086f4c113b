//! A real server of SSH, where there is one. What `ssh` is called with is looked at in `src/git/ssh_tests.rs`.

use crate::git_server::{Fetching, Repository, is_here, source, text};
use application_source::{
    SourceCredentials, SourceError,
    git::{GitReference, GitSource},
};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// An `sshd` that lets in whoever has a key, until its test ends.
struct Sshd {
    folder: TempDir,
    child: Child,
    port: u16,
    user: String,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|it| it.join(name)).find(|it| it.is_file())
}

fn new_key(path: &Path, phrase: &str) {
    let _ = fs::remove_file(path);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", phrase, "-f"])
        .arg(path)
        .status();
    assert!(made.unwrap().success());
}

impl Sshd {
    /// `None` where there is none, or where it lets nobody in: it wants users and folders that not every machine has.
    fn start() -> Option<Self> {
        let Some(sshd) = program("sshd") else {
            println!("skipped: sshd is not installed");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        new_key(&folder.path().join("host"), "");
        new_key(&folder.path().join("key"), "the phrase");
        new_key(&folder.path().join("plain"), "");
        new_key(&folder.path().join("other"), "");
        let keys = ["key.pub", "plain.pub"].map(|it| fs::read_to_string(folder.path().join(it)).unwrap());
        fs::write(folder.path().join("authorized"), keys.concat()).unwrap();
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let user = Command::new("id").arg("-un").output().unwrap().stdout;
        let user = String::from_utf8(user).unwrap().trim().to_owned();
        let here = folder.path().display();
        let configuration = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {here}/host\nAuthorizedKeysFile {here}/authorized\n\
             StrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\nAcceptEnv GIT_PROTOCOL\n\
             PermitRootLogin yes\n"
        );
        fs::write(folder.path().join("configuration"), configuration).unwrap();
        let child = Command::new(sshd)
            .args(["-D", "-e", "-f"])
            .arg(folder.path().join("configuration"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut sshd = Self {
            folder,
            child,
            port,
            user,
        };
        let mut said = BufReader::new(sshd.child.stderr.take().unwrap());
        let mut last = String::new();
        loop {
            let mut line = String::new();
            if said.read_line(&mut line).unwrap_or(0) == 0 {
                println!("skipped: sshd does not run here: {}", last.trim());
                return None;
            }
            if line.contains("Server listening on") {
                break;
            }
            last = line;
        }
        std::thread::spawn(move || said.lines().map_while(Result::ok).for_each(drop));
        let asked = Command::new("ssh")
            .args(["-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"])
            .args(["-o", "UserKnownHostsFile=/dev/null", "-o", "IdentitiesOnly=yes", "-i"])
            .arg(sshd.folder.path().join("plain"))
            .args(["-p", &port.to_string(), "-l", &sshd.user, "127.0.0.1", "true"])
            .output();
        match asked {
            Ok(it) if it.status.success() => Some(sshd),
            Ok(it) => {
                let reason = String::from_utf8_lossy(&it.stderr).replace('\n', "; ");
                println!("skipped: sshd lets nobody in here: {reason}");
                None
            }
            Err(error) => {
                println!("skipped: ssh is not installed: {error}");
                None
            }
        }
    }

    fn source(&self, repository: &Repository, key: &str, phrase: Option<&str>) -> GitSource {
        let path = repository.path();
        let url = format!("ssh://{}@127.0.0.1:{}{}", self.user, self.port, path.display());
        let mut source = source(&url, GitReference::Head);
        source.access.credentials = SourceCredentials::SshKey {
            key: fs::read_to_string(self.folder.path().join(key)).unwrap().into(),
            passphrase: phrase.map(Into::into),
        };
        source
    }
}

#[tokio::test]
async fn a_real_sshd_takes_keys_and_keeps_its_own() {
    let Some(mut sshd) = Sshd::start().filter(|_| is_here()) else {
        return;
    };
    let repository = Repository::with_commit();
    for (key, phrase) in [("plain", None), ("key", Some("the phrase"))] {
        let source = sshd.source(&repository, key, phrase);
        assert_eq!(repository.current(&source).await.unwrap(), repository.head());
        let tree = repository.fetch(&source).await.unwrap();
        assert_eq!(text(&tree, "a.yaml"), "a: 1\n");
        let next = repository.commit("b.yaml", key);
        assert_eq!(repository.fetch(&source).await.unwrap().commit, next);
    }
    for (key, phrase) in [
        ("other", None),
        ("key", Some("another")),
        ("key", None),
        ("key.pub", None),
    ] {
        let refused = repository
            .current(&sshd.source(&repository, key, phrase))
            .await
            .unwrap_err();
        assert!(matches!(refused, SourceError::LoginNeeded { .. }), "{key}: {refused:?}");
    }
    let mut elsewhere = sshd.source(&repository, "plain", None);
    elsewhere.url += "/nothing";
    let missing = repository.current(&elsewhere).await.unwrap_err();
    assert!(matches!(missing, SourceError::NotFound { .. }), "{missing:?}");
    // Whoever answers with another key is somebody else.
    new_key(&sshd.folder.path().join("other-host"), "");
    let known = format!("[127.0.0.1]:{}", sshd.port);
    let other = fs::read_to_string(sshd.folder.path().join("other-host.pub")).unwrap();
    fs::write(repository.cache().join("known_hosts"), format!("{known} {other}")).unwrap();
    let mut source = sshd.source(&repository, "plain", None);
    let refused = repository.current(&source).await.unwrap_err();
    assert!(matches!(refused, SourceError::Unreachable { .. }), "{refused:?}");
    assert!(
        refused.to_string().contains("the host shows another key than before"),
        "{refused}"
    );
    source.access.insecure_skip_verify = true;
    assert!(repository.current(&source).await.is_ok());
    sshd.child.kill().unwrap();
    sshd.child.wait().unwrap();
    let away = repository.current(&source).await.unwrap_err();
    assert!(matches!(away, SourceError::Unreachable { .. }), "{away:?}");
}
