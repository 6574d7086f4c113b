//! Our CustomResourceDefinitions.
//!
//! A running program takes them ready-made from [`hub`], [`managed_cluster`], [`operator`] and [`add_on`]; nothing is
//! derived while a user waits. [`build()`] makes them from the Rust types, and `cargo xtask codegen` writes the result
//! to `crds/` and into this crate.
//!
//! ```
//! let names: Vec<_> = ocm_api::crds::managed_cluster().iter().map(|it| it["metadata"]["name"].clone()).collect();
//! assert!(names.contains(&"appliedmanifestworks.work.open-cluster-management.io".into()));
//! ```

mod build;
mod structural;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

pub use build::{ServedOn, build};

/// What a hub serves.
pub fn hub() -> Vec<Value> {
    embedded(include_str!("hub.json"))
}

/// What a managed cluster serves.
pub fn managed_cluster() -> Vec<Value> {
    embedded(include_str!("managed_cluster.json"))
}

/// What a cluster with the operator serves.
pub fn operator() -> Vec<Value> {
    embedded(include_str!("operator.json"))
}

/// What a hub serves that has add-ons of ours with kinds of their own: those of the group are of one add-on.
pub fn add_on(group: &str) -> Vec<Value> {
    let all = embedded(include_str!("add_ons.json"));
    all.into_iter().filter(|it| it["spec"]["group"] == group).collect()
}

fn embedded(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("generated and verified by a test")
}

/// All of them, typed.
pub fn all() -> Vec<CustomResourceDefinition> {
    let add_ons = embedded(include_str!("add_ons.json"));
    let every = hub()
        .into_iter()
        .chain(managed_cluster())
        .chain(operator())
        .chain(add_ons);
    every
        .map(|it| serde_json::from_value(it).expect("generated and verified by a test"))
        .collect()
}
