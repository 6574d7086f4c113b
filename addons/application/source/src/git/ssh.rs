//! Git's protocol over the `ssh` of this machine.
//!
//! `ssh` reads no configuration, asks no agent and offers no key but the one that it is given. The key and its
//! passphrase are files that only we can read and that go with the connection; nothing secret is on a command line or
//! in the environment, which others can list. A host's key is kept the first time, and has to be the same from then on.

use super::{address::SshAddress, run::Run};
use crate::{SourceAccess, SourceCredentials, SourceError};
use gix_transport::{
    Protocol,
    client::git::{ConnectMode, blocking_io::Connection},
};
use secrecy::ExposeSecret;
use std::{
    ffi::{OsStr, OsString},
    fs::{OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
    process::Stdio,
    sync::Arc,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};

/// What `ssh` may say about a failure.
const COMPLAINT_BYTES_MAX: u64 = 8 << 10;

/// A conversation with a server by SSH. `ssh` ends with it.
pub(super) struct SshSession {
    pub connection: Connection<FromSsh, ToSsh>,
    complaints: Option<ChildStderr>,
    child: Child,
    _secrets: TempDir,
}

/// Runs `ssh`, which connects.
pub(super) fn connect(
    address: &SshAddress,
    access: &SourceAccess,
    known_hosts: &Path,
    program: &OsStr,
    run: &Arc<Run>,
) -> Result<SshSession, SourceError> {
    let unusable = |it: io::Error| SourceError::invalid(format!("{}: the key cannot be handed to ssh: {it}", run.url));
    let ours = Permissions::from_mode(0o700);
    let secrets = tempfile::Builder::new().permissions(ours).tempdir().map_err(unusable)?;
    let (key, asks) = hand_over(&access.credentials, secrets.path(), &run.url, unusable)?;
    let mut command = Command::new(program);
    command
        .args(arguments(
            address,
            key.as_deref(),
            asks,
            access.insecure_skip_verify,
            known_hosts,
        ))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LC_ALL", "C")
        .env("GIT_PROTOCOL", "version=2")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if asks {
        command
            .env("SSH_ASKPASS", secrets.path().join("answer"))
            .env("SSH_ASKPASS_REQUIRE", "force");
    }
    // What makes a child needs the runtime to be known.
    let spawned = run.wait(async {
        command
            .spawn()
            .map_err(|it| SourceError::unreachable(&run.url, format!("ssh cannot be run here: {it}")))
    });
    let mut child = spawned.map_err(|it| lost(run, &it))?;
    let (Some(stdin), Some(stdout), complaints) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
        return Err(SourceError::unreachable(&run.url, "ssh has no pipes"));
    };
    Ok(SshSession {
        connection: Connection::new(
            FromSsh {
                run: run.clone(),
                stdout,
            },
            ToSsh {
                run: run.clone(),
                stdin,
            },
            Protocol::V2,
            address.path.as_str(),
            None::<(String, Option<u16>)>,
            ConnectMode::Process,
            false,
        ),
        complaints,
        child,
        _secrets: secrets,
    })
}

fn lost(run: &Run, error: &io::Error) -> SourceError {
    run.failure()
        .unwrap_or_else(|| SourceError::unreachable(&run.url, error))
}

/// Writes the key, and what answers when `ssh` asks for its passphrase. Returns where the key is, and whether there is
/// a passphrase.
fn hand_over(
    credentials: &SourceCredentials,
    folder: &Path,
    url: &str,
    unusable: impl Fn(io::Error) -> SourceError,
) -> Result<(Option<OsString>, bool), SourceError> {
    let (key, passphrase) = match credentials {
        SourceCredentials::None => return Ok((None, false)),
        SourceCredentials::SshKey { key, passphrase } => (key, passphrase),
        _ => {
            let reason = format!("{url} is reached by SSH, and the credentials are none of it: give a key of SSH");
            return Err(SourceError::invalid(reason));
        }
    };
    let write = |name: &str, text: &str| -> io::Result<()> {
        let mut file = OpenOptions::new();
        let mut file = file.write(true).create_new(true).mode(0o600).open(folder.join(name))?;
        file.write_all(text.as_bytes())
    };
    // `ssh` wants the line breaks of Unix, and one at the end.
    let text = key.expose_secret().replace("\r\n", "\n");
    let text = zeroizing(format!("{}\n", text.trim()));
    write("key", text.expose_secret()).map_err(&unusable)?;
    if let Some(passphrase) = passphrase {
        write("passphrase", passphrase.expose_secret()).map_err(&unusable)?;
        write("answer", "#!/bin/sh\nexec cat \"${0%/*}/passphrase\"\n").map_err(&unusable)?;
        let executable = Permissions::from_mode(0o700);
        std::fs::set_permissions(folder.join("answer"), executable).map_err(&unusable)?;
    }
    Ok((Some(folder.join("key").into_os_string()), passphrase.is_some()))
}

fn zeroizing(text: String) -> secrecy::SecretString {
    text.into()
}

/// What `ssh` is called with.
fn arguments(
    address: &SshAddress,
    key: Option<&OsStr>,
    asks: bool,
    insecure: bool,
    known_hosts: &Path,
) -> Vec<OsString> {
    let mut all: Vec<OsString> = ["-F", "none", "-T", "-a", "-x"].map(Into::into).into();
    let mut option = |name: &str, value: &OsStr| {
        let mut text = OsString::from(format!("{name}="));
        text.push(value);
        all.extend([OsString::from("-o"), text]);
    };
    // What may ask for a passphrase is no batch; nothing else is left that could ask.
    option("BatchMode", if asks { "no" } else { "yes" }.as_ref());
    option("NumberOfPasswordPrompts", "1".as_ref());
    option("PreferredAuthentications", "publickey".as_ref());
    option("PasswordAuthentication", "no".as_ref());
    option("KbdInteractiveAuthentication", "no".as_ref());
    option("IdentitiesOnly", "yes".as_ref());
    option("IdentityAgent", "none".as_ref());
    option("IdentityFile", &key.map_or("none".into(), quoted));
    option(
        "StrictHostKeyChecking",
        if insecure { "no" } else { "accept-new" }.as_ref(),
    );
    let known_hosts = if insecure {
        "/dev/null".into()
    } else {
        quoted(known_hosts.as_os_str())
    };
    option("UserKnownHostsFile", &known_hosts);
    option("UpdateHostKeys", "no".as_ref());
    option("ConnectTimeout", "15".as_ref());
    option("PermitLocalCommand", "no".as_ref());
    option("ClearAllForwardings", "yes".as_ref());
    option("SendEnv", "GIT_PROTOCOL".as_ref());
    if let Some(port) = address.port {
        all.extend(["-p".into(), port.to_string().into()]);
    }
    // A shell of the other side reads the last one.
    let path = address.path.replace('\'', "'\\''");
    all.extend([
        "-l".into(),
        address.user.as_str().into(),
        "--".into(),
        address.host.as_str().into(),
        format!("git-upload-pack '{path}'").into(),
    ]);
    all
}

/// A path as a value of an option, which would end at a space and takes `%` for more than that.
fn quoted(path: &OsStr) -> OsString {
    // Our own folders have names that are text; of another one `ssh` says that it is not there.
    let path = path
        .to_string_lossy()
        .replace('%', "%%")
        .replace('\\', "\\\\")
        .replace('"', "\\\"");
    format!("\"{path}\"").into()
}

impl SshSession {
    /// What a failure means, seeing what `ssh` says.
    pub fn explained(&mut self, error: SourceError, run: &Run) -> SourceError {
        if !matches!(error, SourceError::Corrupt { .. }) {
            return error;
        }
        let Some(complaints) = self.complaints.take() else {
            return error;
        };
        let child = &mut self.child;
        let said = run.wait(async {
            let _ = child.start_kill();
            let mut said = Vec::new();
            let _ = complaints.take(COMPLAINT_BYTES_MAX).read_to_end(&mut said).await;
            Ok(said)
        });
        let said = said.unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        understood(&said, &run.url).unwrap_or(error)
    }
}

/// What the words of `ssh` and of the Git at its other end mean.
fn understood(said: &str, url: &str) -> Option<SourceError> {
    // A warning that a host was added says nothing about the failure.
    let lines = said
        .lines()
        .map(str::trim)
        .filter(|it| !it.is_empty() && !it.starts_with("Warning:"));
    let reason = lines.collect::<Vec<_>>().join("; ");
    let reason: String = reason.chars().filter(|it| !it.is_control()).take(500).collect();
    if reason.is_empty() {
        return None;
    }
    let says = |any: &[&str]| any.iter().any(|it| reason.contains(it));
    Some(
        if says(&[
            "Permission denied",
            "Load key",
            "invalid format",
            "incorrect passphrase",
        ]) {
            SourceError::login_needed(url, format!("give a key of SSH that may read it: {reason}"))
        } else if says(&["REMOTE HOST IDENTIFICATION HAS CHANGED", "Host key verification failed"]) {
            let advice = "the host shows another key than before; when that is right, remove it from known_hosts in the \
                      cache";
            SourceError::unreachable(url, format!("{advice}: {reason}"))
        } else if says(&["does not appear to be a git repository", "not found", "does not exist"]) {
            SourceError::not_found(url, format!("the repository ({reason})"))
        } else {
            SourceError::unreachable(url, reason)
        },
    )
}

/// What the server says.
pub(super) struct FromSsh {
    run: Arc<Run>,
    stdout: ChildStdout,
}

impl Read for FromSsh {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let url = &self.run.url;
        let reading = async {
            let read = self.stdout.read(buffer).await;
            read.map_err(|it| SourceError::unreachable(url, it))
        };
        let bytes = self.run.wait(reading)?;
        self.run.count(bytes)?;
        Ok(bytes)
    }
}

/// What the server is told.
pub(super) struct ToSsh {
    run: Arc<Run>,
    stdin: ChildStdin,
}

impl Write for ToSsh {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // When `ssh` has ended, what it says is the better reason, so this one is not kept.
        self.run.wait(async { Ok(self.stdin.write(bytes).await) })?
    }

    fn flush(&mut self) -> io::Result<()> {
        self.run.wait(async { Ok(self.stdin.flush().await) })?
    }
}
