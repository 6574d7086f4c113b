//! Worlds for tests: hubs and clusters on embedded APIs, in memory, on loopback; objects from text;
//! waiting for a state.
//!
//! ```no_run
//! # async fn example() {
//! use testkit::{World, wait};
//! let world = World::new(2).await;
//! world.hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: cluster1}}").await;
//! let namespaces = kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(world.hub.client());
//! wait::until(&namespaces, "cluster1", "exists", |it| it.is_some()).await;
//! # }
//! ```

mod addon_versions;
pub mod asked;
pub mod cluster_request;
pub mod ground;
pub mod kinds;
pub mod manifests;
pub mod objects;
pub mod site;
pub mod wait;
pub mod world;

pub use asked::{Ask, Asked};
pub use ground::Ground;
pub use site::Site;
pub use world::World;
