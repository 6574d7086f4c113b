//! The embedded Kubernetes API: the store with a face.
//!
//! HTTP, TLS, authentication, authorization, admission, persistence, discovery, and the few controllers that Kubernetes
//! itself supplies. It knows no kind of Open Cluster Management: others can use it as a small Kubernetes of their own.

pub mod admission;
pub mod authn;
pub mod authz;
pub mod backup;
mod body;
mod bounds;
mod buffers;
mod builtin;
pub mod builtin_schemas;
mod call;
mod callout;
pub mod clock;
mod content;
mod context;
pub mod controllers;
pub mod conversion;
mod convert;
mod crd;
mod credentials;
pub mod csr;
mod default_class;
mod definition;
mod discovery;
mod dispatch;
mod eviction;
mod fair;
mod ground;
mod group_version;
pub mod identity;
pub mod in_process;
mod intake;
mod kept;
pub mod kinds;
mod limit_events;
pub mod limits;
pub mod listen;
pub mod local;
mod object_meta;
pub mod openapi;
mod options;
mod ownership;
pub mod pages;
pub mod party;
pub mod persist;
mod pipeline;
pub mod pki;
pub mod pod_logs;
mod pod_resources;
pub mod pod_streams;
pub mod protobuf;
pub mod rates;
pub mod registry;
mod reports;
mod request;
mod resource_ids;
pub mod respond;
pub mod reviews;
mod scale;
mod selection;
pub mod server;
mod shape;
mod snapshots;
mod standing;
pub mod table;
pub mod tls;
pub mod tokens;
mod verbs;
mod wake;

#[cfg(test)]
mod fixture;

pub use body::parse_yaml;
pub use server::{OpenError, Options, Server};
pub use wake::Subscription;
