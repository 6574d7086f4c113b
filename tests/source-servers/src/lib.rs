//! Servers that applications are deployed from, on this machine and for the length of a test: Git's own, Helm
//! repositories and buckets. Each keeps what it was asked, and what it answers is in the hands of the test.

pub mod bucket;
pub mod certificates;
pub mod charts;
pub mod git;
pub mod web;

pub use bucket::BucketServer;
pub use certificates::Signer;
pub use charts::ChartServer;
pub use git::Repository;
pub use web::{ServerAnswer, ServerRequest, WebServer};
