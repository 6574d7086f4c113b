//! What is said of a HelmRelease: its conditions. Pure.
//! Upstream: multicloud-operators-subscription pkg/apis/apps/helmrelease/v1, `SetCondition`.

use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::apimachinery::pkg::apis::meta::v1::Time,
    ocm_api::apps::{DeployedRelease, HelmRelease, HelmReleaseCondition, HelmReleaseStatus},
};

/// The chart was read.
pub const INITIALIZED: &str = "Initialized";
/// It is installed.
pub const DEPLOYED: &str = "Deployed";
/// What was tried last has failed.
pub const RELEASE_FAILED: &str = "ReleaseFailed";
/// It cannot be tried.
pub const IRRECONCILABLE: &str = "Irreconcilable";

/// As many bytes of a message are kept. Notes of a chart may be long.
const MESSAGE_BYTES_MAX: usize = 32 << 10;
/// A larger manifest is left out of the status, so that the object can be written at all.
const MANIFEST_BYTES_MAX: usize = 1 << 20;

/// Why there is a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// The first revision is there.
    InstallSuccessful,
    /// A later one is.
    UpgradeSuccessful,
    /// It is gone.
    UninstallSuccessful,
    /// The first revision could not be deployed.
    InstallError,
    /// A later one could not.
    UpgradeError,
    /// It cannot be tried, or what somebody has changed cannot be repaired.
    ReconcileError,
    /// It cannot be taken away.
    UninstallError,
}

impl ReleaseReason {
    fn as_str(self) -> &'static str {
        match self {
            ReleaseReason::InstallSuccessful => "InstallSuccessful",
            ReleaseReason::UpgradeSuccessful => "UpgradeSuccessful",
            ReleaseReason::UninstallSuccessful => "UninstallSuccessful",
            ReleaseReason::InstallError => "InstallError",
            ReleaseReason::UpgradeError => "UpgradeError",
            ReleaseReason::ReconcileError => "ReconcileError",
            ReleaseReason::UninstallError => "UninstallError",
        }
    }
}

/// What has come of a look.
#[derive(Clone, Debug, PartialEq)]
pub enum ReleaseVerdict {
    /// It is installed as it should be.
    Deployed {
        /// How it came to be.
        reason: ReleaseReason,
        /// What the chart says about it.
        message: String,
        /// What is installed.
        release: DeployedRelease,
    },
    /// What was tried has failed.
    Failed {
        /// What was tried.
        reason: ReleaseReason,
        /// Why.
        message: String,
    },
    /// It could not be tried.
    Irreconcilable {
        /// Why.
        message: String,
    },
    /// It is gone.
    Uninstalled,
}

/// The HelmRelease with its status.
pub fn told(release: &HelmRelease, verdict: &ReleaseVerdict, now: Timestamp) -> HelmRelease {
    let mut told = release.clone();
    let status = told.status.get_or_insert_default();
    match verdict {
        ReleaseVerdict::Deployed {
            reason,
            message,
            release,
        } => {
            clear(status, &[IRRECONCILABLE, RELEASE_FAILED]);
            set(status, (INITIALIZED, "True"), None, "", now);
            set(status, (DEPLOYED, "True"), Some(*reason), message, now);
            let mut release = release.clone();
            if release.manifest.len() > MANIFEST_BYTES_MAX {
                release.manifest = String::new();
            }
            status.deployed_release = Some(release);
        }
        ReleaseVerdict::Failed { reason, message } => {
            clear(status, &[IRRECONCILABLE]);
            if *reason != ReleaseReason::UninstallError {
                set(status, (INITIALIZED, "True"), None, "", now);
            }
            set(status, (RELEASE_FAILED, "True"), Some(*reason), message, now);
        }
        ReleaseVerdict::Irreconcilable { message } => {
            let reason = Some(ReleaseReason::ReconcileError);
            set(status, (IRRECONCILABLE, "True"), reason, message, now);
        }
        ReleaseVerdict::Uninstalled => {
            clear(status, &[IRRECONCILABLE, RELEASE_FAILED]);
            let reason = Some(ReleaseReason::UninstallSuccessful);
            set(status, (DEPLOYED, "False"), reason, "", now);
        }
    }
    told
}

fn clear(status: &mut HelmReleaseStatus, kinds: &[&str]) {
    status.conditions.retain(|it| !kinds.contains(&it.r#type.as_str()));
}

fn set(
    status: &mut HelmReleaseStatus,
    (kind, value): (&str, &str),
    reason: Option<ReleaseReason>,
    message: &str,
    now: Timestamp,
) {
    let mut end = message.len().min(MESSAGE_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    let mut condition = HelmReleaseCondition {
        r#type: kind.to_owned(),
        status: value.to_owned(),
        reason: reason.map_or("", ReleaseReason::as_str).to_owned(),
        message: message[..end].to_owned(),
        last_transition_time: Some(Time(now)),
    };
    match status.conditions.iter_mut().find(|it| it.r#type == kind) {
        Some(old) => {
            if old.status == value && old.last_transition_time.is_some() {
                condition.last_transition_time = old.last_transition_time.take();
            }
            *old = condition;
        }
        None => status.conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    fn lines(release: &HelmRelease) -> Vec<String> {
        let conditions = &release.status.as_ref().unwrap().conditions;
        conditions
            .iter()
            .map(|it| {
                format!("{}={} {} {}", it.r#type, it.status, it.reason, it.message)
                    .trim_end()
                    .to_owned()
            })
            .collect()
    }

    #[test]
    fn conditions_follow_what_has_come_of_it() {
        let first = at("2026-01-01T00:00:00Z");
        let release: HelmRelease = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {}})).unwrap();
        let unreadable = ReleaseVerdict::Irreconcilable {
            message: "no".to_owned(),
        };
        let release = told(&release, &unreadable, first);
        assert_eq!(lines(&release), ["Irreconcilable=True ReconcileError no"]);
        let failed = ReleaseVerdict::Failed {
            reason: ReleaseReason::InstallError,
            message: "never".to_owned(),
        };
        let release = told(&release, &failed, first);
        assert_eq!(
            lines(&release),
            ["Initialized=True", "ReleaseFailed=True InstallError never"]
        );
        let deployed = ReleaseVerdict::Deployed {
            reason: ReleaseReason::InstallSuccessful,
            message: "ä".repeat(MESSAGE_BYTES_MAX),
            release: DeployedRelease {
                name: "a".to_owned(),
                manifest: "x".repeat(MANIFEST_BYTES_MAX + 1),
            },
        };
        let release = told(&release, &deployed, at("2026-01-02T00:00:00Z"));
        let status = release.status.as_ref().unwrap();
        assert_eq!(status.conditions.len(), 2);
        assert_eq!(status.conditions[1].message.len(), MESSAGE_BYTES_MAX);
        assert_eq!(status.conditions[0].last_transition_time, Some(Time(first)));
        assert_eq!(status.deployed_release.as_ref().unwrap().manifest, "");
        // Said again it is the same.
        assert_eq!(
            told(&release, &deployed, at("2026-01-03T00:00:00Z")).status,
            release.status
        );
        let gone = told(&release, &ReleaseVerdict::Uninstalled, first);
        assert_eq!(lines(&gone), ["Initialized=True", "Deployed=False UninstallSuccessful"]);
    }
}
