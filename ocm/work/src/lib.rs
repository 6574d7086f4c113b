//! Manifests to clusters, status back: the two halves of the conversation about ManifestWorks.

pub mod agent;
pub mod hub;
pub mod why;
