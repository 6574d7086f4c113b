//! Who owns which field: `metadata.managedFields` and server-side apply.

pub(crate) mod meta;
