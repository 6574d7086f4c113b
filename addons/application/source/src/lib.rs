//! What applications are deployed from: a folder of a Git repository, a chart of a Helm repository, the objects of a
//! bucket. Each is fetched from its server and handed back as values; nothing is written but a cache of Git's objects.
//!
//! A server is a stranger. What it sends is bounded ([`SourceBounds`]), what it names is never a path that is written
//! to, and it learns no credentials but those that are meant for it: a redirect or a URL that leads to another host
//! goes there without them. Nothing is read from the environment but the proxies on the way (`HTTPS_PROXY`,
//! `NO_PROXY`): no configuration of Git, no keys of a user, no cloud's metadata.
//!
//! * [`git`]: which commit a branch or a tag names, and all files of it.
//! * [`helm`]: a repository's index, the choice of a chart's version, and its archive.
//! * [`bucket`]: the objects of an S3 bucket below a prefix.

mod access;
mod bounds;
pub mod bucket;
mod digest;
mod error;
pub mod git;
pub mod helm;
mod web;

pub use access::{SourceAccess, SourceCredentials};
pub use bounds::SourceBounds;
pub use error::SourceError;
