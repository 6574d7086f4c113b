//! Repositories, and Git's own server for them: `git http-backend`, as any web server runs it.

use crate::web::{ServerAnswer, ServerRequest, WebServer, answer};
use http::header::HeaderName;
use rustls::ServerConfig;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

/// Whether Git is here. Tests that need it say that they are skipped where it is not.
pub fn is_here() -> bool {
    let here = Command::new("git")
        .arg("http-backend")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !here {
        println!("skipped: git is not installed");
    }
    here
}

/// A repository with a working tree, `repository` in a folder of its own, and room for a cache beside it.
pub struct Repository {
    folder: TempDir,
}

impl Repository {
    /// One without a commit.
    pub fn empty() -> Self {
        Self::of_format("sha1")
    }

    pub fn of_format(format: &str) -> Self {
        let repository = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::create_dir(repository.path()).unwrap();
        repository.git(&["init", "--quiet", "-b", "main", &format!("--object-format={format}")]);
        repository
    }

    /// One with a commit, which has a file `a.yaml`.
    pub fn with_commit() -> Self {
        let repository = Self::empty();
        repository.commit("a.yaml", "a: 1\n");
        repository
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("repository")
    }

    pub fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        self.git_with(arguments, b"")
    }

    pub fn git_with(&self, arguments: &[&str], input: &[u8]) -> String {
        let mut command = plain("git", self.folder.path());
        command.arg("-C").arg(self.path());
        command.args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.com",
            "-c",
            "tag.gpgSign=false",
        ]);
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input).unwrap();
        let done = child.wait_with_output().unwrap();
        assert!(
            done.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Writes a file and commits everything. Returns the commit's id.
    pub fn commit(&self, path: &str, text: &str) -> String {
        self.write(path, text);
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", "a change"]);
        self.head()
    }

    pub fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    /// Git's server for it.
    pub async fn serve(&self) -> WebServer {
        self.serve_with(None, Some).await
    }

    /// The same, where a function may answer before Git does.
    pub async fn serve_guarded(
        &self,
        guard: impl Fn(&ServerRequest) -> Option<ServerAnswer> + Send + Sync + 'static,
    ) -> WebServer {
        let root = self.folder.path().to_owned();
        WebServer::start(move |asked| {
            let (answer, root) = (guard(&asked), root.clone());
            async move {
                match answer {
                    Some(answer) => answer,
                    None => http_backend(&root, asked).await,
                }
            }
        })
        .await
    }

    /// The same over TLS, and where a function may change what is asked.
    pub async fn serve_with(
        &self,
        tls: Option<ServerConfig>,
        change: impl Fn(ServerRequest) -> Option<ServerRequest> + Send + Sync + 'static,
    ) -> WebServer {
        let root = self.folder.path().to_owned();
        WebServer::start_with(tls, move |asked| {
            let (asked, root) = (change(asked), root.clone());
            async move {
                match asked {
                    Some(asked) => http_backend(&root, asked).await,
                    None => answer(401, ""),
                }
            }
        })
        .await
    }
}

/// A program without anybody's configuration.
fn plain(program: &str, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_DATE", "2024-01-01T00:00:00Z")
        .env("GIT_COMMITTER_DATE", "2024-01-01T00:00:00Z");
    command
}

async fn http_backend(root: &Path, asked: ServerRequest) -> ServerAnswer {
    let mut command = tokio::process::Command::from(plain("git", root));
    let header = |name: &str| {
        asked
            .headers
            .get(name)
            .map(|it| it.to_str().unwrap().to_owned())
            .unwrap_or_default()
    };
    let mut child = command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", asked.method.as_str())
        .env("PATH_INFO", &asked.path)
        .env("QUERY_STRING", &asked.query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", asked.body.len().to_string())
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let body = asked.body.clone();
    tokio::spawn(async move {
        let _ = stdin.write_all(&body).await;
    });
    let output = child.wait_with_output().await.unwrap().stdout;
    let end = output.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(output[..end].to_vec()).unwrap();
    let mut answer = answer(200, output[end + 4..].to_vec());
    for line in head.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        if name == "Status" {
            *answer.status_mut() = value[..3].parse().unwrap();
        } else {
            let name: HeaderName = name.parse().unwrap();
            answer.headers_mut().insert(name, value.parse().unwrap());
        }
    }
    answer
}
