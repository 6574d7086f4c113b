//! When a HelmRelease is looked at. Pure.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use jiff::Timestamp;
use ocm_addon_sdk::{
    ocm_api::apps::{HelmRelease, annotations::GIT_CURRENT_COMMIT},
    values::settings::parse_bool,
};

/// A release that is as it should be is looked at again after this time: for a chart that has changed where it is, and
/// for objects that somebody has changed. Shorter, and a chart of thousands of objects is read all the time.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(15 * 60);
/// What failed is tried again after this time, and after twice as much each further time, up to [`LOOK_AGAIN`].
/// Upstream tries every minute for ever, which writes two revisions each time.
pub(super) const TRY_AGAIN: Duration = Duration::from_secs(60);
/// An operation that was begun so long ago was given up by whoever began it.
pub(super) const PENDING_MAX: Duration = Duration::from_secs(5 * 60);

/// The annotation that has objects replaced rather than patched.
const FORCE: &str = "helm.sdk.operatorframework.io/upgrade-force";

/// What is known of the looks before.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ReleaseLooks {
    /// What the HelmRelease was then: see [`inputs`].
    pub inputs: u64,
    /// When the last was; `None` when there was none.
    pub last: Option<Timestamp>,
    /// How many have failed since the last that did not.
    pub failures: u32,
}

impl ReleaseLooks {
    /// How long it takes until the next look; `None` when it is time.
    pub fn wait(&self, inputs: u64, now: Timestamp) -> Option<Duration> {
        let last = self.last.filter(|_| self.inputs == inputs)?;
        let since = Duration::try_from(now.duration_since(last)).unwrap_or_default();
        self.interval().checked_sub(since).filter(|it| !it.is_zero())
    }

    /// Between the last look and the next.
    pub fn interval(&self) -> Duration {
        match self.failures {
            0 => LOOK_AGAIN,
            many => (TRY_AGAIN * 2_u32.pow((many - 1).min(4))).min(LOOK_AGAIN),
        }
    }
}

/// A number for everything of a HelmRelease that has it looked at again at once. Within one process only.
pub(super) fn inputs(release: &HelmRelease) -> u64 {
    let mut hasher = DefaultHasher::new();
    let metadata = &release.metadata;
    metadata.uid.hash(&mut hasher);
    metadata.deletion_timestamp.is_some().hash(&mut hasher);
    is_forced(release).hash(&mut hasher);
    // A chart of Git changes with its commit.
    let annotations = metadata.annotations.as_ref();
    annotations.and_then(|it| it.get(GIT_CURRENT_COMMIT)).hash(&mut hasher);
    serde_json::to_string(&release.repo)
        .unwrap_or_default()
        .hash(&mut hasher);
    release.spec.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Whether objects are replaced rather than patched.
pub(super) fn is_forced(release: &HelmRelease) -> bool {
    let annotations = release.metadata.annotations.as_ref();
    let said = annotations.and_then(|it| it.get(FORCE));
    said.and_then(|it| parse_bool(it)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    #[test]
    fn failures_are_tried_again_more_and_more_rarely() {
        let minutes = |failures| {
            let looks = ReleaseLooks {
                failures,
                ..ReleaseLooks::default()
            };
            looks.interval().as_secs() / 60
        };
        assert_eq!([0, 1, 2, 3, 4, 5, 50].map(minutes), [15, 1, 2, 4, 8, 15, 15]);
    }

    #[test]
    fn what_has_not_changed_waits() {
        let looks = ReleaseLooks {
            inputs: 1,
            last: Some(at("2026-01-01T00:00:00Z")),
            failures: 0,
        };
        let wait = |inputs, now| looks.wait(inputs, at(now)).map(|it| it.as_secs());
        assert_eq!(wait(1, "2026-01-01T00:05:00Z"), Some(600));
        assert_eq!(wait(1, "2026-01-01T00:15:00Z"), None);
        assert_eq!(wait(2, "2026-01-01T00:05:00Z"), None);
        assert_eq!(ReleaseLooks::default().wait(0, at("2026-01-01T00:05:00Z")), None);
    }

    #[test]
    fn a_status_is_no_input() {
        let release = |value| serde_json::from_value::<HelmRelease>(value).unwrap();
        let plain = json!({"metadata": {"name": "a"}, "repo": {"chartName": "c"}, "spec": {"x": 1}});
        let mut with_status = plain.clone();
        with_status["status"] = json!({"conditions": []});
        with_status["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(inputs(&release(plain.clone())), inputs(&release(with_status)));
        let mut forced = plain.clone();
        forced["metadata"]["annotations"] = json!({FORCE: "true"});
        assert!(is_forced(&release(forced.clone())));
        assert_ne!(inputs(&release(plain)), inputs(&release(forced)));
    }
}
