//! Bringing an add-on's manifests to its clusters, and saying how far they are and how the add-on is.
//!
//! The pure parts are one file each: [`manifest`] (what a manifest is), [`split`] (which work it goes into),
//! [`options`] (what a work says besides), [`works`] (the works as they should be), [`hooks`] (what runs before the
//! add-on goes), [`availability`] (how it is), [`rendering`] (what the author wants). [`plan`] and [`conclude`] put
//! them together, [`reconciler`] looks at the world for them.

pub mod availability;
pub mod conclude;
pub mod hooks;
pub mod index;
pub mod manifest;
pub mod memory;
pub mod names;
pub mod options;
pub mod plan;
pub mod reconciler;
pub mod rendering;
pub mod split;
pub mod works;
pub mod written;

pub use index::AddOnWorks;
pub use options::{config_annotation, config_hashes};
pub use reconciler::Deploy;
