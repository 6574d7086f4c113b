//! A Kubernetes API as a state machine: objects, revisions, watch, patches, server-side apply and schemas.
//!
//! Synchronous, without IO: no sockets, no files, no clock of its own. It knows metadata, schemas and patches, and no
//! kind of Open Cluster Management.

pub mod jsonpath;
pub mod managed;
pub mod object;
pub mod patch;
pub mod schema;
pub mod selector;
pub mod status;
pub mod store;

pub use object::Object;
pub use store::Store;
