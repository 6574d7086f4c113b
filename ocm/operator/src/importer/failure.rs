//! Why a cluster is not imported, and when it is worth another try.

use std::time::Duration;

/// No kubeconfig, and no error either.
const KUBECONFIG_NOT_FOUND: &str = "KubeConfigNotFound";
const KUBECONFIG_GET_FAILED: &str = "KubeConfigGetFailed";
const CONFIG_RENDERER_FAILED: &str = "ConfigRendererFailed";
const IMPORT_FAILED: &str = "ImportFailed";

/// The first delay after a failure, which doubles with each.
const DELAY_MIN: Duration = Duration::from_secs(5);
/// The longest one: many clusters that are away must leave room for those that are there.
const DELAY_MAX: Duration = Duration::from_secs(5 * 60);

/// Why a cluster is not imported: a reason of the condition, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Upstream's word.
    pub reason: &'static str,
    /// What is wrong, and what to do about it.
    pub message: String,
    /// When to try again.
    pub retry: Retry,
}

/// When to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// When a watch tells of a change.
    OnChange,
    /// In a minute, too: somebody may not let us watch.
    InAMinute,
    /// After a delay that grows with every failure, too.
    Growing,
}

impl Failure {
    /// The cluster is not made yet. Upstream's sentence.
    pub fn not_provisioned() -> Self {
        Self {
            reason: KUBECONFIG_NOT_FOUND,
            message: "Secret for kubeconfig is not found.".to_owned(),
            retry: Retry::OnChange,
        }
    }

    /// There is no kubeconfig that could be used.
    pub fn no_kubeconfig(message: String) -> Self {
        Self::of(KUBECONFIG_GET_FAILED, message)
    }

    /// The agent's manifests cannot be made.
    pub fn no_manifests(message: String) -> Self {
        Self::of(CONFIG_RENDERER_FAILED, message)
    }

    /// The cluster does not take them.
    pub fn not_applied(message: String) -> Self {
        Self::of(IMPORT_FAILED, message)
    }

    fn of(reason: &'static str, message: String) -> Self {
        Self {
            reason,
            message,
            retry: Retry::Growing,
        }
    }

    /// How long to wait at most after so many failures of the same before.
    pub fn delay(&self, failures: u32) -> Option<Duration> {
        match self.retry {
            Retry::OnChange => None,
            Retry::InAMinute => Some(Duration::from_secs(60)),
            Retry::Growing => Some(DELAY_MIN.saturating_mul(1 << failures.min(16)).min(DELAY_MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_five_minutes() {
        let failure = Failure::not_applied("no".to_owned());
        let seconds = [0, 1, 2, 30, u32::MAX].map(|it| failure.delay(it).unwrap().as_secs());
        assert_eq!(seconds, [5, 10, 20, 300, 300]);
        assert_eq!(Failure::not_provisioned().delay(0), None);
    }
}
