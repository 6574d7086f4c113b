//! Paths inside a container become paths of the host: there is no file system of its own to mount things in.

use std::path::{Path, PathBuf};

/// Where paths of a container are on the host.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// Longest first, so that a mount inside another one wins.
    pairs: Vec<(String, PathBuf)>,
}

impl Paths {
    /// Takes the pairs in any order. The root cannot be mounted: every path would be in it.
    pub fn new(pairs: impl IntoIterator<Item = (String, PathBuf)>) -> Self {
        let trimmed = pairs
            .into_iter()
            .map(|(path, host)| (path.trim_end_matches('/').to_owned(), host));
        let mut pairs: Vec<_> = trimmed.filter(|(path, _)| path.len() > 1).collect();
        pairs.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Self { pairs }
    }

    /// The text with every path that lies in a mount replaced. A path begins where no word or path goes on, and ends at
    /// the end of a name.
    pub fn rewrite(&self, text: &str) -> String {
        let mut written = String::with_capacity(text.len());
        let mut rest = text;
        let mut before: Option<char> = None;
        while let Some(first) = rest.chars().next() {
            let begins = first == '/' && before.is_none_or(|it| !is_name(it));
            let found = begins
                .then(|| self.pairs.iter().find(|(path, _)| starts_with(rest, path)))
                .flatten();
            if let Some((path, host)) = found {
                written.push_str(&host.to_string_lossy());
                before = path.chars().next_back();
                rest = &rest[path.len()..];
            } else {
                written.push(first);
                before = Some(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        written
    }

    /// All of them, longest first.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.pairs.iter().map(|(path, host)| (path.as_str(), host.as_path()))
    }

    /// Where one path is on the host, if it lies in a mount.
    pub fn host(&self, path: &str) -> Option<PathBuf> {
        let (mount, host) = self.pairs.iter().find(|(mount, _)| starts_with(path, mount))?;
        Some(
            host.join(
                Path::new(&path[mount.len()..])
                    .strip_prefix("/")
                    .unwrap_or(Path::new("")),
            ),
        )
    }
}

fn starts_with(text: &str, path: &str) -> bool {
    text.strip_prefix(path)
        .is_some_and(|rest| rest.chars().next().is_none_or(|it| it == '/' || !is_name(it)))
}

/// What can be part of a file's name without being quoted.
fn is_name(it: char) -> bool {
    it.is_alphanumeric() || matches!(it, '_' | '-' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> Paths {
        let pair = |(path, host): (&str, &str)| (path.to_owned(), PathBuf::from(host));
        Paths::new(
            [
                ("/managed", "/h/m"),
                ("/managed/hub/", "/h/hub"),
                ("/etc/x.d", "/h/x"),
                ("/", "/h/root"),
            ]
            .map(pair),
        )
    }

    #[test]
    fn a_path_is_replaced_at_its_boundaries_longest_first() {
        let table = [
            ("/managed", "/h/m"),
            ("--kubeconfig=/managed/hub/kubeconfig", "--kubeconfig=/h/hub/kubeconfig"),
            ("/managed/hubs", "/h/m/hubs"),
            ("/managed-too /managed.yaml", "/managed-too /managed.yaml"),
            ("/etc/x.d/a:/managed/b", "/h/x/a:/h/m/b"),
            ("file:///managed/a", "file:///h/m/a"),
            ("/srv/managed", "/srv/managed"),
            ("a/managed", "a/managed"),
            ("cat '/managed/a' \"/managed\"", "cat '/h/m/a' \"/h/m\""),
            ("/", "/"),
            ("grüße /managed", "grüße /h/m"),
        ];
        for (text, want) in table {
            assert_eq!(paths().rewrite(text), want, "{text}");
        }
    }

    #[test]
    fn a_directory_is_found_on_the_host() {
        assert_eq!(paths().host("/managed/hub/a/b"), Some("/h/hub/a/b".into()));
        assert_eq!(paths().host("/managed"), Some("/h/m".into()));
        assert_eq!(paths().host("/other"), None);
    }
}
