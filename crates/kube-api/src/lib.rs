//! A Kubernetes API server around `kube-store`: HTTP and TLS, authentication and authorization, admission and the few
//! controllers that Kubernetes itself supplies.

pub mod authn;
pub mod authz;
pub mod builtin_defaults;
pub mod builtin_schemas;
pub mod csr;
pub mod identity;
pub mod listen;
pub mod pki;
pub mod reviews;
pub mod tls;
pub mod tokens;

#[cfg(test)]
mod fixture;
