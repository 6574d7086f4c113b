//! kustomize, as far as users' bases, overlays, patches, generators and name prefixes go.
//!
//! A Subscription of Open Cluster Management may name a folder of a Git repository that kustomize builds; this builds
//! it, with the objects and the order of `kustomize build`. It knows neither a cluster nor a file system.
//!
//! * [`KustomizeFiles`]: the tree, as values.
//! * [`build`]: a folder of it.
//!
//! The tree is somebody else's: nothing is read outside of it and nothing is fetched, and its size, its depth and the
//! work that it asks for are bounded (`limits`). What is not built is refused by an error that names the field.

mod build;
mod error;
mod field_path;
mod field_spec;
mod generators;
mod hash;
mod identity;
mod json_patch;
mod kustomization;
mod limits;
mod merge_keys;
mod merge_patch;
mod names;
mod node;
mod order;
mod patches;
mod references;
mod replacements;
mod resource;
mod scalar;
mod selector;
mod transform;
mod tree;
mod yaml_read;

pub use build::build;
pub use error::{KustomizeError, KustomizeErrorKind};
pub use tree::KustomizeFiles;
