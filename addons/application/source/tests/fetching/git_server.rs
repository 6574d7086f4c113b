//! What is fetched of a repository of a test.

use application_source::{
    SourceAccess, SourceBounds, SourceError,
    git::{GitReference, GitSource, GitTree, TreeFile, current_commit, fetch},
};
use source_servers::WebServer;
pub use source_servers::git::{Repository, is_here};

/// Fetches with the cache of the repository.
pub trait Fetching {
    async fn fetch(&self, source: &GitSource) -> Result<GitTree, SourceError>;
    async fn current(&self, source: &GitSource) -> Result<String, SourceError>;
}

impl Fetching for Repository {
    async fn fetch(&self, source: &GitSource) -> Result<GitTree, SourceError> {
        fetch(source, &self.cache(), &SourceBounds::default()).await
    }

    async fn current(&self, source: &GitSource) -> Result<String, SourceError> {
        current_commit(source, &self.cache(), &SourceBounds::default()).await
    }
}

/// A source without credentials.
pub fn source(url: &str, reference: GitReference) -> GitSource {
    GitSource {
        url: url.to_owned(),
        reference,
        clone_depth: 1,
        access: SourceAccess::default(),
        local_folders_allowed: false,
    }
}

/// The repository of [`Repository`] on its server.
pub fn served(server: &WebServer, reference: GitReference) -> GitSource {
    source(&server.url("/repository/.git"), reference)
}

/// What a file of a tree holds.
pub fn text<'a>(tree: &'a GitTree, path: &str) -> &'a str {
    match &tree.files[path] {
        TreeFile::File(bytes) => std::str::from_utf8(bytes).unwrap(),
        other => panic!("{path} is {other:?}"),
    }
}
