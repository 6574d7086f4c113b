//! What templates ask of a cluster.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;

/// What a template asks a cluster for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Query {
    /// As in the object: `v1`, `apps/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty for cluster-scoped kinds and for lists of all namespaces.
    pub namespace: String,
    /// The name; empty asks for a list.
    pub name: String,
    /// A label selector in its text form, of lists; empty selects everything. It is as the template wrote it, and who
    /// answers refuses one that cannot be read.
    pub selector: String,
}

/// What a source says of a [`Query`].
#[derive(Clone, Debug)]
pub enum Reply {
    /// The object of that name, or that there is none.
    Object(Option<Arc<Value>>),
    /// The objects of a list.
    List(Vec<Arc<Value>>),
    /// It cannot be said.
    Failed(LookupError),
    /// Not known yet: the run ends with [`crate::Resolution::Needs`].
    Unknown,
}

/// What a source says of a kind.
#[derive(Clone, Debug)]
pub enum KindReply {
    /// The API server serves it.
    Known {
        /// Its name in paths, such as `configmaps`: messages about missing objects say it.
        plural: String,
        /// Whether its objects live in namespaces.
        namespaced: bool,
    },
    /// The API server does not serve it.
    Missing,
    /// It cannot be said.
    Failed(LookupError),
    /// Not known yet: the query for which it was asked becomes part of [`crate::Resolution::Needs`].
    Unknown,
}

/// Why a look-up has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// Trying again may help: the API server was not ready, or refused for now.
    #[error("{0}")]
    Passing(String),
    /// The kind cannot be watched: who renders only on changes cannot use it.
    #[error("{0}")]
    Unwatchable(String),
    /// It stays so until something changes.
    #[error("{0}")]
    Final(String),
}

/// What templates look things up in. It is asked again and again during a run, and should be quick.
pub trait Source {
    /// What is known of a kind.
    fn kind(&self, api_version: &str, kind: &str) -> KindReply;
    /// What is known of an object or a list.
    fn answer(&self, query: &Query) -> Reply;
}

/// A source that is told what it knows: who renders puts in what was asked, and renders again.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// By apiVersion and kind.
    pub kinds: HashMap<(String, String), KindReply>,
    /// By what was asked.
    pub replies: HashMap<Query, Reply>,
}

impl Source for Answers {
    fn kind(&self, api_version: &str, kind: &str) -> KindReply {
        let known = self.kinds.get(&(api_version.to_owned(), kind.to_owned()));
        known.cloned().unwrap_or(KindReply::Unknown)
    }

    fn answer(&self, query: &Query) -> Reply {
        self.replies.get(query).cloned().unwrap_or(Reply::Unknown)
    }
}
