//! `failurePolicy` of webhooks and policies.

use serde_json::Value;

/// What happens when a webhook cannot be asked, or an expression fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    Fail,
    Ignore,
}

impl FailurePolicy {
    /// Reads a `failurePolicy`.
    pub fn read(value: &Value) -> Self {
        if value["failurePolicy"] == "Ignore" {
            Self::Ignore
        } else {
            Self::Fail
        }
    }
}
