//! CertificateSigningRequests and the Secrets with what came of them: getting and keeping the right to speak to a hub.
//!
//! ```text
//! kubeconfig of the user --kubeconfig--> Loaded --connection--> hub
//!                                                                |
//! Secret <--hub_secret-- enrol (decides) <--> csr (asks) --CertificateSigningRequest
//! ```
//!
//! [`kubeconfig`] reads what the user gave and says in one sentence what is wrong with it; [`connection`] turns it into
//! one HTTP/2 connection whose certificate can change; [`csr`], [`enrol`] and [`hub_secret`] obtain a client
//! certificate of our own, keep it in a Secret and decide when to renew it.

mod buffer_release;
pub mod certificate;
pub mod confined;
pub mod connection;
pub mod csr;
mod dial;
pub mod enrol;
pub mod hub_secret;
pub mod kubeconfig;

pub use connection::Connection;
pub use kubeconfig::{KubeconfigProblem, KubeconfigSource, Loaded};
