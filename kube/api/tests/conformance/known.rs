//! What does not conform, and why: a check that is listed has to fail, so that no line outlives its reason.

/// Number and reason, of the embedded server.
pub const EMBEDDED: &[(&str, &str)] = &[];
