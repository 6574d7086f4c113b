//! The add-on managed-serviceaccount: a ManagedServiceAccount on the hub becomes a ServiceAccount on its cluster, whose
//! token is kept in a Secret on the hub.
//!
//! ```text
//! hub, namespace of the cluster                               cluster, namespace of the agent
//!   ManagedServiceAccount ------------- msa agent ----------> ServiceAccount
//!   Secret {token, ca.crt}  <------ (agent::accounts) <------ its token (TokenRequest), its TokenReview
//!        |
//!        +--- hub::profile_secrets --> Secret beside a ClusterProfile --> cp-creds, an exec plugin of kubectl
//! ```
//!
//! The token may do nothing on the cluster until somebody binds the ServiceAccount, such as a ClusterPermission.
//!
//! [`AddOn`](ocm_addon_sdk::AddOn) is [`hub::ManagedServiceAccounts`]; [`run`] is the programs of upstream's image:
//! `msa manager`, `msa agent` and `cp-creds`. Names, texts and rules are upstream's. Ours differs where upstream's
//! world is not safe:
//!
//! 1. A Secret without a token, without `ca.crt`, or with certificates that the cluster has no longer gets a new token.
//! 2. A token whose end the cluster tells by a clock that differs from ours is renewed after four fifths of the life
//!    that the token itself names: a cluster that is minutes behind does not have its tokens renewed in a circle.
//! 3. A Secret of the name that is not ours is not overwritten; the condition says what to do.

#![warn(missing_docs)]

pub mod agent;
mod creds;
pub mod hub;
mod program;

pub use program::{PROGRAMS, run};

/// The name of the add-on.
pub const NAME: &str = "managed-serviceaccount";
