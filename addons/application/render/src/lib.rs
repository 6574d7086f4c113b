//! What a folder of a source deploys: the objects of its files, of kustomize and of Helm charts.
//!
//! A Subscription names a folder of a Git repository; this makes of the tree what is applied, in the order in which
//! it is. It knows no cluster, no clock and no file system.
//!
//! * [`SourceTree`]: the files, as values.
//! * [`render`]: a folder of it as objects and charts; [`hooks`]: the jobs before and after.
//! * [`release`]: a chart as a release of Helm's.
//!
//! The tree is somebody else's: no link is followed, nothing is read outside of it, and files, depth and objects are
//! bounded (`limits`). One file that cannot be read is told, and the others go on.

mod ignore_rules;
mod kustomization;
mod limits;
mod manifest;
pub mod release;
mod rendering;
mod tree;

/// Charts, for whom the house lets know no template language.
pub use gotemplate::helm;
pub use kustomization::KustomizeOverride;
/// One document of YAML as JSON, as all files of a source are read.
pub use manifest::yaml;
pub use rendering::{
    ChartFolder, FileRemark, RenderedObject, Rendering, RenderingError, TreeHooks, TreeRequest, hooks, render,
};
pub use tree::{SourceTree, TreeError};
