//! Helm charts: read, given values, rendered and cut into documents, as Helm 3 does without a cluster.

mod chart;
mod dependencies;
mod documents;
pub(crate) mod functions;
mod ignore;
mod load;
mod objects;
mod render;
mod schema;
mod toml;
mod values;

pub use chart::{Chart, Dependency, File, Maintainer, Metadata};
pub use documents::{Document, Hook, install_order};
pub use load::ChartError;
pub use objects::{Capabilities, KubeVersion};
pub use render::{ObjectLookup, Release, RenderError, RenderOptions, Rendered};
pub use values::merge_values;
