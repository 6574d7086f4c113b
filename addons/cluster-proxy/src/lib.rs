//! The add-on cluster-proxy: clusters are reached from the hub through a tunnel that their agents open.
//!
//! ```text
//! hub                                                             cluster (behind NAT)
//! kubectl, curl --TLS--> user-server ==TLS, in the tunnel=======> service-proxy --> kube-apiserver, Services
//!                             |                                        ^
//!                             +--> proxy-server <--mTLS-- proxy-agent -+
//! ```
//!
//! - [`user_server`] takes `https://USER-SERVER/CLUSTER/PATH` and sends it to the cluster's service-proxy;
//! - [`service_proxy`] asks who the caller is and passes the request on: tokens of the cluster unchanged, tokens of the
//!   hub by impersonation;
//! - [`hub`] keeps certificates and proxy servers, and renders what clusters get;
//! - [`run`] is the programs of upstream's image, the tunnel's server and agent among them.
//!
//! Names, paths, headers and texts are upstream's.

pub mod allow_list;
pub mod followed;
pub mod forward;
pub mod hub;
pub mod in_process;
mod program;
pub mod service_proxy;
pub mod target;
pub mod tls_profile;
pub mod trust;
pub mod user_server;

pub use program::{PROGRAMS, follow_allow_list, run};

use sha2::{Digest, Sha256};

/// The name of the add-on.
pub const NAME: &str = "cluster-proxy";

/// Where a service-proxy listens.
pub const SERVICE_PROXY_PORT: u16 = 7443;

/// Headers in which a user-server tells a service-proxy what is wanted.
pub mod headers {
    /// `http` or `https`.
    pub const PROTO: &str = "cluster-proxy-proto";
    /// The namespace of the Service.
    pub const NAMESPACE: &str = "cluster-proxy-namespace";
    /// The Service.
    pub const SERVICE: &str = "cluster-proxy-service";
    /// Its port.
    pub const PORT: &str = "cluster-proxy-port";
    /// All of them.
    pub const ALL: [&str; 4] = [PROTO, NAMESPACE, SERVICE, PORT];
}

/// The host name of a cluster's service-proxy, by which its agent is found and its certificate is checked.
pub fn service_proxy_host(cluster: &str) -> String {
    let digest = Sha256::digest(cluster.as_bytes());
    let hex: String = digest.iter().map(|it| format!("{it:02x}")).collect();
    // 56 characters of `cluster-` and the digest.
    format!("cluster-{}.open-cluster-management.proxy", &hex[..48])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_service_proxy_is_upstreams() {
        let host = service_proxy_host("cluster1");
        assert_eq!(host.split('.').next().unwrap().len(), 56);
        assert!(host.starts_with("cluster-") && host.ends_with(".open-cluster-management.proxy"));
    }
}
