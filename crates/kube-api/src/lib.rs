//! kube-api
pub mod identity;
