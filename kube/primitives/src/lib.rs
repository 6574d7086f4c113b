//! What the crates around Kubernetes' API have in common, each rule once: how a quantity and a duration are read, what
//! a certificate request may look like, which server is trusted, and, for those who reconcile,
//! a queue of keys and a watch with a memory.
//!
//! It is at the bottom: it knows no crate of ours.

#[cfg(feature = "cache")]
pub mod cache;
#[cfg(feature = "certificates")]
pub mod certificate_request;
pub mod duration;
pub mod quantity;
#[cfg(feature = "queue")]
pub mod queue;
#[cfg(feature = "certificates")]
pub mod server_certificate;
