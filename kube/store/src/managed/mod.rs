//! Who owns which field: `metadata.managedFields` and server-side apply.
//!
//! Facts from Kubernetes `apimachinery/pkg/util/managedfields` and `sigs.k8s.io/structured-merge-diff`; the code is a
//! single walk per question over JSON values instead of a typed layer. An entry speaks of the fields of its own
//! version: where versions differ in more than their name ([`Versions`]), objects are compared in each version
//! that has entries.

mod apply;
mod compare;
mod entry;
mod merge;
pub(crate) mod meta;
mod mistyped;
mod path;
mod set;
#[cfg(test)]
mod tests;
mod typed;
mod update;
mod versions;
mod zero;

pub use apply::{apply, not_read, scale_config};
pub use compare::{Comparison, compare};
pub use path::PathElement;
pub use set::FieldSet;
pub use typed::field_set;
pub use update::{no_op, update};
pub use versions::Versions;

use crate::schema::Schema;
use jiff::Timestamp;

/// Who writes, and what the walk needs to know of the kind.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// Field manager: the `fieldManager` parameter, or what comes before the first `/` of the user agent.
    pub manager: &'a str,
    /// `group/version` of the request, or `version` for the core group. For `/scale` that of the parent.
    pub api_version: &'a str,
    /// `status`, `scale`, ...; empty for the object itself.
    pub subresource: &'a str,
    /// Schema of the kind at that version.
    pub schema: &'a Schema,
    /// The time new entries get.
    pub now: Timestamp,
    /// Paths that this endpoint resets and nobody owns through it: `&[&["status"]]` for most kinds.
    pub reset_fields: &'a [&'a [&'a str]],
    /// A kind that Kubernetes decodes into Go structs, as opposed to a custom resource.
    pub built_in: bool,
    /// All served `apiVersion`s of the kind; entries of any other are dropped. Empty when unknown.
    pub served: &'a [&'a str],
    /// The kind's other versions; `None` when all have the same structure.
    pub versions: Option<&'a dyn Versions>,
}

impl<'a> Ctx<'a> {
    /// Root fields that this endpoint resets as a whole.
    fn skipped(&self) -> Vec<&'a str> {
        self.reset_fields
            .iter()
            .filter(|path| path.len() == 1)
            .map(|path| path[0])
            .collect()
    }

    /// Resets that name something below a root field.
    fn nested_resets(&self) -> FieldSet {
        let nested = self.reset_fields.iter().filter(|path| path.len() > 1);
        nested.fold(FieldSet::default(), |set, path| {
            set.union(&FieldSet::of_fields(path.iter().copied()))
        })
    }

    fn time(&self) -> String {
        self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}
