//! The add-on application-manager: Channels and Subscriptions. Clusters take applications from Git, from Helm
//! repositories and from buckets, and keep them as they are there.
//!
//! The hub's half ([`hub`]) brings Subscriptions to the clusters that their placements choose and tells how they fare;
//! the cluster's half ([`cluster`]) reads the source and deploys it. What both need to read a source is in [`source`],
//! and when a Subscription may change in [`window`].
//!
//! Names, annotations and texts are those of upstream's multicloud-operators-subscription and -channel.

pub mod addon;
mod api;
pub mod cluster;
pub mod hub;
mod program;
mod report;
pub mod source;
pub mod window;

pub use program::{ApplicationWebhookServer, ApplicationWebhooks, PROGRAMS, run};

/// The name of the add-on.
pub const NAME: &str = ocm_addon_sdk::ocm_api::apps::ADD_ON;
