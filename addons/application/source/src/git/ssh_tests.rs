//! What `ssh` is called with, and what becomes of what it says. The programs here stand in for it: one writes down how
//! it was called and runs Git's server here, others fail as `ssh` does. A real `sshd` is asked in
//! `tests/fetching/ssh.rs`, where there is one.

use super::{Work, cache::known_hosts};
use crate::{SourceAccess, SourceBounds, SourceCredentials, SourceError, git::*};
use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// A folder with a repository `re po/a`, and what was written down.
struct Ground {
    folder: TempDir,
}

impl Ground {
    /// `None` where Git is not here.
    fn new() -> Option<Self> {
        let ground = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let path = ground.path("re po/a");
        fs::create_dir_all(&path).unwrap();
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            command
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("HOME", ground.folder.path())
                .arg("-C")
                .arg(&path);
            command
                .args(["-c", "user.name=a", "-c", "user.email=a@example.com"])
                .args(arguments);
            command.stdout(Stdio::null()).status().map(|it| assert!(it.success()))
        };
        if git(&["init", "--quiet", "-b", "main"]).is_err() {
            println!("skipped: git is not installed");
            return None;
        }
        fs::write(path.join("a.yaml"), "a: 1\n").unwrap();
        git(&["add", "--all"]).unwrap();
        git(&["commit", "--quiet", "-m", "a change"]).unwrap();
        Some(ground)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn written(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|it| panic!("{name}: {it}"))
    }

    /// Fetches, with a script as `ssh`.
    async fn fetch(&self, script: &str, access: SourceAccess) -> Result<GitTree, SourceError> {
        self.fetch_within(script, access, SourceBounds::default()).await
    }

    async fn fetch_within(
        &self,
        script: &str,
        access: SourceAccess,
        bounds: SourceBounds,
    ) -> Result<GitTree, SourceError> {
        let ssh = self.path("ssh");
        let root = self.folder.path().display();
        // A child writes it: while a process has it open for writing, nobody can run it, and ours starts others.
        let mut child = Command::new("sh");
        child
            .args(["-c", "cat > \"$0\" && chmod 700 \"$0\""])
            .arg(&ssh)
            .stdin(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let text = format!("#!/bin/sh\ncd '{root}'\n{script}\n");
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        let source = GitSource {
            url: format!("me@git.example.com:{root}/re po/a"),
            reference: GitReference::Branch("main".to_owned()),
            clone_depth: 1,
            access,
            local_folders_allowed: false,
        };
        let mut work = Work::new(&source, &self.path("cache")).unwrap();
        work.ssh = ssh.into_os_string();
        Run::with(work.address.shown(), &bounds, move |run| work.fetch("", &run)).await
    }
}

/// Runs what the other side would run, as its shell does.
const SERVES: &str = r#"for last; do :; done; GIT_CONFIG_NOSYSTEM=1 HOME="$PWD" exec sh -c "$last""#;

fn with_key(passphrase: Option<&str>) -> SourceAccess {
    SourceAccess {
        credentials: SourceCredentials::SshKey {
            key: "the hidden key\r\nof two lines".into(),
            passphrase: passphrase.map(Into::into),
        },
        ..SourceAccess::default()
    }
}

#[tokio::test]
async fn a_repository_is_fetched_by_ssh() {
    let Some(ground) = Ground::new() else { return };
    let tree = ground.fetch(SERVES, SourceAccess::default()).await.unwrap();
    assert_eq!(tree.files["a.yaml"], TreeFile::File((*b"a: 1\n").into()));
    let again = ground.fetch(SERVES, SourceAccess::default()).await.unwrap();
    assert_eq!(again, tree);
}

#[tokio::test]
async fn ssh_gets_the_key_in_a_file_that_goes() {
    let Some(ground) = Ground::new() else { return };
    let script = r#"
        printf '%s\n' "$@" > arguments
        env > environment
        for it; do case "$it" in IdentityFile=*) key=$(echo "$it" | sed 's/^IdentityFile="//; s/"$//');; esac; done
        cat "$key" > key
        stat -c %a "$key" "${key%/*}" > modes
        echo "$key" > where
        "$SSH_ASKPASS" "Enter passphrase" > passphrase"#;
    let tree = ground
        .fetch(&format!("{script}\n{SERVES}"), with_key(Some("the hidden phrase")))
        .await;
    assert!(tree.is_ok(), "{tree:?}");
    assert_eq!(ground.written("key"), "the hidden key\nof two lines\n");
    assert_eq!(ground.written("passphrase"), "the hidden phrase");
    assert_eq!(ground.written("modes"), "600\n700\n");
    let key = PathBuf::from(ground.written("where").trim());
    assert!(!key.exists() && !key.parent().unwrap().exists());
    let (arguments, environment) = (ground.written("arguments"), ground.written("environment"));
    assert!(
        !arguments.contains("hidden") && !environment.contains("hidden"),
        "{arguments}{environment}"
    );
    for line in ["GIT_PROTOCOL=version=2", "SSH_ASKPASS_REQUIRE=force", "LC_ALL=C"] {
        assert!(environment.lines().any(|it| it == line), "{environment}");
    }
    assert!(
        !environment.contains("SSH_AUTH_SOCK") && !environment.contains("CARGO"),
        "{environment}"
    );
    let lines: Vec<&str> = arguments.lines().collect();
    assert_eq!(lines[..2], ["-F", "none"]);
    for option in [
        "BatchMode=no",
        "IdentitiesOnly=yes",
        "IdentityAgent=none",
        "PasswordAuthentication=no",
        "StrictHostKeyChecking=accept-new",
    ] {
        assert!(lines.contains(&option), "{arguments}");
    }
    let known = format!("UserKnownHostsFile=\"{}\"", ground.path("cache/known_hosts").display());
    assert!(lines.contains(&known.as_str()), "{arguments}");
    let root = ground.folder.path().display();
    let command = format!("git-upload-pack '{root}/re po/a'");
    assert_eq!(
        lines[lines.len() - 5..],
        ["-l", "me", "--", "git.example.com", &command]
    );
}

#[tokio::test]
async fn host_keys_are_not_asked_when_nothing_is_checked() {
    let Some(ground) = Ground::new() else { return };
    let access = SourceAccess {
        insecure_skip_verify: true,
        ..SourceAccess::default()
    };
    let script = format!("printf '%s\\n' \"$@\" > arguments\n{SERVES}");
    assert!(ground.fetch(&script, access).await.is_ok());
    let arguments = ground.written("arguments");
    for option in [
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "IdentityFile=none",
        "BatchMode=yes",
    ] {
        assert!(arguments.lines().any(|it| it == option), "{arguments}");
    }
}

#[tokio::test]
async fn what_ssh_says_becomes_the_reason() {
    let Some(ground) = Ground::new() else { return };
    type IsKind = fn(&SourceError) -> bool;
    let cases: [(&str, IsKind); 6] = [
        ("me@git.example.com: Permission denied (publickey).", |it| {
            matches!(it, SourceError::LoginNeeded { .. })
        }),
        ("Host key verification failed.", |it| {
            matches!(it, SourceError::Unreachable { .. })
        }),
        ("ssh: Could not resolve hostname git.example.com", |it| {
            matches!(it, SourceError::Unreachable { .. })
        }),
        ("ssh: connect to host a port 22: Connection refused", |it| {
            matches!(it, SourceError::Unreachable { .. })
        }),
        ("fatal: '/a' does not appear to be a git repository", |it| {
            matches!(it, SourceError::NotFound { .. })
        }),
        ("ERROR: Repository not found.", |it| {
            matches!(it, SourceError::NotFound { .. })
        }),
    ];
    for (said, is_kind) in cases {
        let script = format!("echo \"Warning: Permanently added 'a'.\" >&2; echo \"{said}\" >&2; exit 255");
        let failed = ground.fetch(&script, SourceAccess::default()).await.unwrap_err();
        assert!(is_kind(&failed), "{said}: {failed:?}");
        assert!(failed.to_string().contains(said.trim_end_matches('.')), "{failed}");
        assert!(!failed.to_string().contains("Permanently"), "{failed}");
    }
    let failed = ground.fetch("exit 255", SourceAccess::default()).await.unwrap_err();
    assert!(matches!(failed, SourceError::Corrupt { .. }), "{failed:?}");
}

#[tokio::test]
async fn an_ssh_that_says_nothing_is_given_up() {
    let Some(ground) = Ground::new() else { return };
    let bounds = SourceBounds {
        time_max: std::time::Duration::from_millis(300),
        ..SourceBounds::default()
    };
    let failed = ground
        .fetch_within("echo $$ > pid; exec cat", SourceAccess::default(), bounds)
        .await;
    assert!(matches!(failed, Err(SourceError::TimedOut { .. })), "{failed:?}");
}

#[tokio::test]
async fn a_login_of_http_is_none_of_ssh() {
    let Some(ground) = Ground::new() else { return };
    let access = SourceAccess {
        credentials: SourceCredentials::Basic {
            user: "me".to_owned(),
            password: "hidden".into(),
        },
        ..SourceAccess::default()
    };
    let refused = ground.fetch(SERVES, access).await.unwrap_err();
    assert!(refused.to_string().ends_with("give a key of SSH"), "{refused}");
}

/// The options have to be such as the `ssh` of this machine knows: it reads them all before it connects.
#[tokio::test]
async fn the_ssh_of_this_machine_knows_the_options() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    if Command::new("ssh").arg("-V").stderr(Stdio::null()).status().is_err() {
        println!("skipped: ssh is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = GitSource {
        url: format!("ssh://me@localhost:{port}/a"),
        reference: GitReference::Head,
        clone_depth: 1,
        access: with_key(Some("phrase")),
        local_folders_allowed: false,
    };
    let failed = current_commit(&source, &folder.path().join("a cache"), &SourceBounds::default())
        .await
        .unwrap_err();
    assert!(matches!(failed, SourceError::Unreachable { .. }), "{failed:?}");
    assert!(failed.to_string().contains("Connection refused"), "{failed}");
}

#[tokio::test]
async fn known_hosts_are_kept_in_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("new/cache");
    let path = cache.clone();
    let kept = Run::with("a".to_owned(), &SourceBounds::default(), move |run| {
        known_hosts(&path, &run)
    })
    .await;
    assert_eq!(kept.unwrap(), cache.join("known_hosts"));
    assert!(cache.is_dir());
}
