//! What Kubernetes does otherwise for one kind than for any: a strategy, as its registry calls it.

use super::validation::fields::FieldRules;
use crate::{builtin::Subresource, call::Call, object_meta::ResetFields};
use kube_store::status::{FieldError, Status};
use serde_json::{Map, Value};

pub use crate::table::Columns;

/// The peculiarities of a built-in kind. What a kind does not say, it does as any other.
pub trait Strategy: Sync {
    /// What `kubectl get` prints of it.
    fn columns(&self) -> Columns {
        Columns::PLAIN
    }

    /// Subresources beyond `status` and `scale`.
    fn subresources(&self) -> &'static [Subresource] {
        &[]
    }

    /// Versions that are served besides the one that is stored.
    fn other_versions(&self) -> &'static [&'static str] {
        &[]
    }

    /// What is said of a version that is on its way out.
    fn deprecation(&self) -> Option<&'static str> {
        None
    }

    /// Fields that field selectors may name beside name and namespace.
    fn selectable_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Fills in defaults. The object is decoded; doing it again changes nothing.
    fn default(&self, _object: &mut Map<String, Value>) {}

    /// Rules of single fields.
    fn fields(&self) -> FieldRules {
        &[]
    }

    /// Errors besides those of metadata and of single fields. `new` is decoded and defaulted;
    /// `old` is the stored object of an update.
    fn validate(&self, _new: &Value, _old: Option<&Value>, _errors: &mut Vec<FieldError>) {}

    /// What its writer is warned of. `new` is right; `old` is the stored object of an update.
    fn warnings(&self, _new: &Value, _old: Option<&Value>, _warnings: &mut Vec<String>) {}

    /// Content of a new object that the server owns.
    ///
    /// # Errors
    /// What the kind refuses.
    fn prepare_for_create(&self, _call: &mut Call<'_>, _value: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    /// Content of a changed object that the server owns.
    ///
    /// # Errors
    /// What the kind refuses.
    fn prepare_for_update(&self, _call: &mut Call<'_>, _old: &Value, _new: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    /// What a client may not do to an object that is right in itself.
    ///
    /// # Errors
    /// 403 that says why.
    fn check_allowed(&self, _call: &Call<'_>, _old: Option<&Value>, _new: &Value) -> Result<(), Status> {
        Ok(())
    }

    /// Whether a write may take what only one may have: addresses of Services, names of definitions.
    /// Others wait until it is decided.
    fn allocates(&self) -> bool {
        false
    }

    /// Whether what a write takes shows to others only when it is published: names are looked for in the registry,
    /// which is brought up to date then.
    fn is_taken_when_published(&self) -> bool {
        false
    }

    /// Allocates for a new object after everything else was checked.
    ///
    /// # Errors
    /// 422 when what is asked for is taken or nothing is left.
    fn begin_create(&self, _call: &mut Call<'_>, _value: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    /// Whose the status is that `begin_create` gives.
    fn status_manager(&self) -> Option<&'static str> {
        None
    }

    /// Allocates for a changed object after everything else was checked.
    ///
    /// # Errors
    /// 422 when something that it was given before has been given to another one meanwhile.
    fn begin_update(&self, _call: &Call<'_>, _old: &Value, _new: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    /// Content that goes by the generation of a changed object.
    fn finish_update(&self, _call: &Call<'_>, _new: &mut Value) {}

    /// Members that a real API server adds to a new object after it has noted who owns what, so that they are nobody's.
    fn added_late(&self) -> &'static [&'static str] {
        &[]
    }

    /// Fields that a write to a subresource (to the object itself where it is empty) neither changes nor owns,
    /// if they are others than of any kind.
    fn reset_fields(&self, _subresource: &str) -> Option<ResetFields> {
        None
    }

    /// Metadata that a controller may note beside the status.
    fn status_metadata(&self) -> &'static [&'static str] {
        &[
            "labels",
            "annotations",
            "finalizers",
            "ownerReferences",
            "managedFields",
        ]
    }

    /// Whether who makes it may say its status.
    fn is_made_with_status(&self) -> bool {
        false
    }

    /// Whether it has a generation from the beginning, if it has any.
    fn is_made_with_generation(&self) -> bool {
        true
    }

    /// Whether its generation never grows.
    fn has_one_generation(&self) -> bool {
        false
    }

    /// The part of metadata whose change makes another generation.
    fn generation_metadata(&self) -> Option<&'static str> {
        None
    }

    /// Some objects are never deleted.
    ///
    /// # Errors
    /// 403 for those of the system.
    fn check_delete(&self, _call: &Call<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Whether an object without finalizers may be removed now.
    fn may_vanish(&self, _call: &Call<'_>, _value: &Value) -> bool {
        true
    }

    /// The seconds that deleting an object gives it to end by itself.
    fn grace_seconds(&self, _call: &Call<'_>, _value: &Value, _asked: Option<i64>) -> i64 {
        0
    }

    /// Shows in the object that it is going away.
    fn mark_terminating(&self, _call: &Call<'_>, _value: &mut Value) {}
}
