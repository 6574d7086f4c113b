//! kube-api
pub mod builtin_schemas;
pub mod identity;
