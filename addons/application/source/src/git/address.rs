//! Where a repository is. What may be in a URL is decided here: the schemes, and that no part of it can be taken for an
//! option of a program.

use crate::{
    SourceError,
    error::{shown, shown_text},
};
use std::path::PathBuf;
use url::Url;

/// Where a repository is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Address {
    Http(Url),
    Ssh(SshAddress),
    Folder(PathBuf),
}

/// A repository that is reached by SSH.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SshAddress {
    pub user: String,
    pub host: String,
    pub port: Option<u16>,
    pub path: String,
}

impl Address {
    /// Reads a URL as Git does. Folders of this machine are nobody's to name from a cluster, so they have to be
    /// allowed.
    pub fn parse(text: &str, folders_allowed: bool) -> Result<Self, SourceError> {
        let invalid = |why: &str| SourceError::invalid(format!("the Git URL {:?} {why}", shown_text(text)));
        if text.is_empty() || text.chars().any(char::is_control) {
            return Err(invalid("is empty or has characters that no URL has"));
        }
        if text.starts_with('/') {
            return folder(PathBuf::from(text), folders_allowed);
        }
        if let Some((scheme, _)) = text.split_once("://") {
            let url = Url::parse(text).map_err(|it| invalid(&format!("cannot be read: {it}")))?;
            return match scheme.to_ascii_lowercase().as_str() {
                "http" | "https" => {
                    let mut url = url;
                    url.set_query(None);
                    url.set_fragment(None);
                    Ok(Self::Http(url))
                }
                "ssh" | "git+ssh" | "ssh+git" => ssh(&url).map(Self::Ssh),
                "file" => {
                    let path = url
                        .to_file_path()
                        .map_err(|()| invalid("names no folder of this machine"))?;
                    folder(path, folders_allowed)
                }
                _ => Err(invalid("has a scheme that is not supported: use https, http or ssh")),
            };
        }
        // As `scp` has it: the colon stands before any slash.
        match text.split_once(':') {
            Some((server, path)) if !server.is_empty() && !server.contains('/') => {
                let (user, host) = server.rsplit_once('@').unwrap_or(("git", server));
                SshAddress::new(user, host, None, path).map(Self::Ssh)
            }
            _ => Err(invalid("has no scheme: use https://, http:// or ssh://")),
        }
    }

    /// The URL without credentials.
    pub fn shown(&self) -> String {
        match self {
            Self::Http(url) => shown(url),
            Self::Ssh(it) => it.shown(),
            Self::Folder(path) => path.display().to_string(),
        }
    }
}

fn folder(path: PathBuf, allowed: bool) -> Result<Address, SourceError> {
    if allowed {
        return Ok(Address::Folder(path));
    }
    let path = path.display();
    // Which of the two it is would tell whoever writes Channels what there is on this machine.
    Err(SourceError::invalid(format!(
        "{path} is a folder of this machine that is not there or not opened to Channels: use https, http or ssh"
    )))
}

fn ssh(url: &Url) -> Result<SshAddress, SourceError> {
    let decoded = |text: &str| {
        percent_encoding::percent_decode_str(text)
            .decode_utf8_lossy()
            .into_owned()
    };
    if url.password().is_some() {
        let url = shown(url);
        return Err(SourceError::invalid(format!(
            "{url} has a password, and SSH takes keys only: give a key"
        )));
    }
    let user = match url.username() {
        "" => "git".to_owned(),
        user => decoded(user),
    };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let path = decoded(url.path());
    // What begins with somebody's home is not below the root.
    let path = path.strip_prefix('/').filter(|it| it.starts_with('~')).unwrap_or(&path);
    SshAddress::new(&user, host, url.port(), path)
}

impl SshAddress {
    fn new(user: &str, host: &str, port: Option<u16>, path: &str) -> Result<Self, SourceError> {
        let is_name = |text: &str, others: &str| {
            let allowed = |it: char| it.is_ascii_alphanumeric() || others.contains(it);
            !text.is_empty() && !text.starts_with('-') && text.chars().all(allowed)
        };
        if !is_name(host, "-._:") {
            return Err(SourceError::invalid(format!("{host:?} is no name of an SSH host")));
        }
        if !is_name(user, "-._+") {
            return Err(SourceError::invalid("the user of the SSH URL is none that SSH has"));
        }
        if path.is_empty() || path.starts_with(['-', ':']) || path.chars().any(char::is_control) {
            return Err(SourceError::invalid(format!("{path:?} is no path on an SSH host")));
        }
        Ok(Self {
            user: user.to_owned(),
            host: host.to_owned(),
            port,
            path: path.to_owned(),
        })
    }

    fn shown(&self) -> String {
        let port = self.port.map(|it| format!(":{it}")).unwrap_or_default();
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        format!("ssh://{host}{port}/{}", self.path.trim_start_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address, SourceError> {
        Address::parse(text, false)
    }

    fn ssh_of(text: &str) -> (String, String, Option<u16>, String) {
        match parse(text) {
            Ok(Address::Ssh(it)) => (it.user, it.host, it.port, it.path),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn urls_are_read_as_git_reads_them() {
        let address =
            |user: &str, host: &str, port, path: &str| (user.to_owned(), host.to_owned(), port, path.to_owned());
        assert_eq!(
            ssh_of("git@github.com:a/b.git"),
            address("git", "github.com", None, "a/b.git")
        );
        assert_eq!(ssh_of("host:b"), address("git", "host", None, "b"));
        assert_eq!(
            ssh_of("ssh://me@host:2222/a/b"),
            address("me", "host", Some(2222), "/a/b")
        );
        assert_eq!(ssh_of("ssh://host/~me/b"), address("git", "host", None, "~me/b"));
        assert_eq!(ssh_of("ssh://[::1]/b"), address("git", "::1", None, "/b"));
        assert!(matches!(parse("https://github.com/a/b"), Ok(Address::Http(_))));
    }

    #[test]
    fn a_url_cannot_smuggle_options_to_ssh() {
        for text in [
            "-oProxyCommand=touch x:b",
            "ssh://-oProxyCommand=x/b",
            "ssh://-l@host/b",
            "git@-oProxyCommand=x:b",
            "git@host:-b",
            "ssh://host/\nb",
            "ssh://ho%20st/b",
            "ext::sh -c x",
        ] {
            let refused = parse(text);
            assert!(
                matches!(refused, Err(SourceError::Invalid { .. })),
                "{text}: {refused:?}"
            );
        }
    }

    #[test]
    fn folders_are_read_only_where_they_are_allowed() {
        for text in ["/srv/repository", "file:///srv/repository"] {
            assert!(
                parse(text)
                    .unwrap_err()
                    .to_string()
                    .contains("is a folder of this machine")
            );
            let allowed = Address::parse(text, true);
            assert_eq!(allowed, Ok(Address::Folder("/srv/repository".into())));
        }
    }

    #[test]
    fn credentials_in_urls_are_never_shown() {
        for text in [
            "https://user:secret@host/a?token=secret#secret",
            "ssh://user:secret@host/a",
            "ftp://user:secret@host/a",
            "https://user:sec ret@ho st/a",
        ] {
            let told = match parse(text) {
                Ok(address) => address.shown(),
                Err(error) => error.to_string(),
            };
            assert!(!told.contains("secret") && !told.contains("sec ret"), "{told}");
        }
    }
}
