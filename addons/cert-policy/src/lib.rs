//! The add-on cert-policy-controller: certificates in the Secrets of a cluster that expire soon, last too long or are
//! for other names than they should be.
//!
//! ```text
//! home: where policies live                 target: the cluster that they are about
//!   CertificatePolicy ----- evaluate <------- Secrets, as the facts of their certificates
//!   status, Events <-----------+   ^--------- Namespaces
//! ```
//!
//! [`controller`] watches, [`evaluate`] judges and [`addon`] is what the hub delivers. Upstream:
//! cert-policy-controller, and `pkg/addon/certpolicy` of stolostron's governance-policy-addon-controller.

pub mod addon;
pub mod certificate;
pub mod controller;
pub mod evaluate;
#[cfg(test)]
#[path = "../tests/controller/made.rs"]
mod made;
pub mod namespaces;
mod pem;

/// The name of the add-on.
pub const NAME: &str = "cert-policy-controller";

/// The names of the programs in the image.
pub const PROGRAMS: &[&str] = controller::PROGRAMS;

/// Runs one of the programs with its arguments, without its name.
pub use controller::run;
