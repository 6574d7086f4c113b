//! Releases of Helm charts, as Helm 3 keeps and changes them.
//!
//! ```text
//! Chart, values --prepare--> PreparedRelease --> objects, hooks     what is applied
//!                                  |
//!                                  +-----> StoredRelease --secret--> Secret sh.helm.release.v1.NAME.vN
//! ```
//!
//! Whoever applies a release does it on the server's side, with a field manager of its own and with force: a field
//! that a new revision no longer has goes, one that others have set stays, and the chart's own win. Helm gets there by
//! a patch of three versions; [`dropped_fields`] is what is left of that for releases that Helm itself has made.
//!
//! `helm list`, `status`, `get`, `history`, `rollback` and `uninstall` take what is written here for their own.

mod changes;
mod prepare;
mod revisions;
mod stored;

pub use changes::{ObjectKey, dropped_fields, is_kept, owned_by_other, removed_objects, uninstall_order};
pub use prepare::{PrepareError, PreparedRelease, ReleaseInputs, hook_objects, manifest_objects, prepare};
pub use revisions::{HISTORY_MAX, ReleaseRevision, superfluous_revisions};
pub use stored::{HookRun, ReleaseHook, ReleaseInfo, ReleaseStatus, StoreError, StoredRelease, hooks_of_event};
