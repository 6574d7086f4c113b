//! How an evaluation has ended, for who runs it: whether and when it is tried again.

use std::time::Duration;

use crate::evaluate::{EvaluationFailure, Remedy};

/// After this time a policy is looked at again whose kind is not there.
const KIND_AGAIN: Duration = Duration::from_secs(10);
/// After this time a policy is looked at again that is older than what was written.
pub const STALE_AGAIN: Duration = Duration::from_secs(1);

/// How an evaluation has ended.
#[derive(Debug, Default)]
pub struct EvaluationEnd {
    /// When the policy is evaluated again, if nothing wakes it.
    pub again: Option<Duration>,
    /// Why it is tried again soon.
    pub failure: Option<String>,
    /// Whether it waits for a kind that is not there.
    pub waits_for_kind: bool,
}

impl EvaluationEnd {
    /// Of what an evaluation returned. `again`: when the policy is due, as far as nothing else has to come first.
    pub fn of(outcome: Result<(), EvaluationFailure>, again: Option<Duration>) -> Self {
        match outcome.map_err(|it| (it.remedy, it.message)) {
            Ok(()) | Err((Remedy::Spec, _)) => Self {
                again,
                ..Self::default()
            },
            Err((Remedy::Kind, _)) => Self {
                again: Some(KIND_AGAIN),
                waits_for_kind: true,
                ..Self::default()
            },
            Err((Remedy::Again, message)) => Self {
                failure: Some(message),
                ..Self::default()
            },
        }
    }
}
