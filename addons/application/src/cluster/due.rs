//! When a Subscription looks at its source. Pure.
//! Upstream: multicloud-operators-subscription pkg/utils `GetReconcileInterval`, pkg/subscriber/git.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ocm_addon_sdk::ocm_api::apps::{ChannelType, Subscription, annotations, labels};

/// Without a Channel there is nothing to look at; it is asked for again after this time.
pub const CHANNEL_AGAIN: Duration = Duration::from_secs(5 * 60);
/// With rate medium, the source is deployed again although it has not changed in every so many-th look.
const LOOKS_PER_DEPLOYMENT: u32 = 6;

/// How often a source is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReconcileRate {
    /// Only when the Subscription changes.
    Off,
    /// Every hour.
    Low,
    /// Every three minutes; Helm repositories and buckets every fifteen.
    #[default]
    Medium,
    /// Every two minutes.
    High,
}

impl ReconcileRate {
    /// The rate of a Subscription: its Channel's, unless it says `off` itself. `channel` is what the Channel says.
    pub fn of(subscription: &Subscription, channel: Option<&str>) -> Self {
        let off = |it: &str| it.eq_ignore_ascii_case("off");
        if subscription.annotation(annotations::RECONCILE_RATE).is_some_and(off) {
            return Self::Off;
        }
        let label = subscription
            .metadata
            .labels
            .as_ref()
            .and_then(|it| it.get(labels::RECONCILE_RATE));
        match channel
            .or(label.map(String::as_str))
            .unwrap_or_default()
            .to_ascii_lowercase()
            .as_str()
        {
            "off" => Self::Off,
            "low" => Self::Low,
            "high" => Self::High,
            _ => Self::Medium,
        }
    }

    /// Between two looks; `None` for never.
    fn interval(self, of: Option<ChannelType>) -> Option<Duration> {
        let minutes = match (self, of) {
            (Self::Off, _) => return None,
            (Self::Low, _) => 60,
            (Self::High, _) => 2,
            (Self::Medium, Some(ChannelType::HelmRepo | ChannelType::ObjectBucket)) => 15,
            (Self::Medium, _) => 3,
        };
        Some(Duration::from_secs(minutes * 60))
    }

    /// How soon after a failure it is tried again, and how often.
    fn retries(self) -> (Duration, u32) {
        match self {
            Self::Low => (Duration::from_secs(180), 3),
            Self::Medium | Self::Off => (Duration::from_secs(90), 1),
            Self::High => (Duration::from_secs(60), 1),
        }
    }
}

/// What is known of the looks before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LooksBefore {
    /// What the Subscription was then: see [`inputs`].
    pub inputs: u64,
    /// When the last was.
    pub last: Option<Timestamp>,
    /// How many have failed since the last that did not.
    pub failures: u32,
    /// What the source held when all of it was deployed.
    pub revision: Option<String>,
    /// How many found nothing new since then.
    pub unchanged: u32,
    /// The rate of the Channel.
    pub rate: Option<String>,
    /// What the Channel is.
    pub channel: Option<ChannelType>,
    /// Whether there was none.
    pub channel_missing: bool,
}

/// Whether it is time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookDue {
    /// Now.
    Now {
        /// Whether the source is deployed although it has not changed.
        anew: bool,
    },
    /// After this time.
    After(Duration),
    /// When the Subscription changes.
    Never,
}

/// A number for everything of a Subscription that has it deployed again at once. Within one process only.
pub fn inputs(subscription: &Subscription) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(&subscription.spec)
        .unwrap_or_default()
        .hash(&mut hasher);
    let metadata = &subscription.metadata;
    metadata.uid.hash(&mut hasher);
    metadata.labels.hash(&mut hasher);
    let told = |key: &str| key == annotations::GIT_CURRENT_COMMIT || key.starts_with("kubectl.kubernetes.io/");
    let all = metadata.annotations.iter().flatten().filter(|(key, _)| !told(key));
    all.for_each(|it| it.hash(&mut hasher));
    hasher.finish()
}

/// Decides. `inputs` is that of the Subscription now.
pub fn due(before: &LooksBefore, inputs: u64, subscription: &Subscription, now: Timestamp) -> LookDue {
    let Some(last) = before.last.filter(|_| before.inputs == inputs) else {
        return LookDue::Now { anew: true };
    };
    let rate = ReconcileRate::of(subscription, before.rate.as_deref());
    let (retry, retries) = rate.retries();
    let wait = if before.channel_missing {
        Some(CHANNEL_AGAIN)
    } else if (1..=retries).contains(&before.failures) {
        Some(retry)
    } else {
        rate.interval(before.channel)
    };
    let Some(wait) = wait else { return LookDue::Never };
    let passed = now.duration_since(last);
    let left = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX) - passed;
    match Duration::try_from(left) {
        Ok(left) if !left.is_zero() => LookDue::After(left),
        _ => LookDue::Now {
            anew: rate != ReconcileRate::Medium || before.failures > 0 || before.unchanged + 1 >= LOOKS_PER_DEPLOYMENT,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subscription() -> Subscription {
        serde_json::from_value(
            json!({"metadata": {"name": "a", "namespace": "n", "annotations": {"x": "1"}},
            "spec": {"channel": "c/c"}}),
        )
        .unwrap()
    }

    fn after(seconds: i64, before: &LooksBefore) -> LookDue {
        let subscription = subscription();
        let last = before.last.unwrap_or(Timestamp::UNIX_EPOCH);
        due(
            before,
            inputs(&subscription),
            &subscription,
            last + SignedDuration::from_secs(seconds),
        )
    }

    fn looked() -> LooksBefore {
        LooksBefore {
            inputs: inputs(&subscription()),
            last: Some("2026-01-01T00:00:00Z".parse().unwrap()),
            ..LooksBefore::default()
        }
    }

    fn minutes(minutes: u64) -> LookDue {
        LookDue::After(Duration::from_secs(minutes * 60))
    }

    #[test]
    fn a_subscription_that_changed_is_due_at_once() {
        assert_eq!(after(0, &LooksBefore::default()), LookDue::Now { anew: true });
        let changed = LooksBefore { inputs: 1, ..looked() };
        assert_eq!(after(0, &changed), LookDue::Now { anew: true });
        let mut refreshed = subscription();
        let annotations = refreshed.metadata.annotations.get_or_insert_default();
        annotations.insert(annotations::GIT_CURRENT_COMMIT.to_owned(), "abc".to_owned());
        assert_eq!(inputs(&refreshed), inputs(&subscription()));
        let annotations = refreshed.metadata.annotations.get_or_insert_default();
        annotations.insert(annotations::MANUAL_REFRESH_TIME.to_owned(), "now".to_owned());
        assert_ne!(inputs(&refreshed), inputs(&subscription()));
    }

    #[test]
    fn each_rate_has_its_interval() {
        let at = |rate: &str, channel| {
            let before = LooksBefore {
                rate: Some(rate.to_owned()),
                channel,
                ..looked()
            };
            after(0, &before)
        };
        assert_eq!(at("off", None), LookDue::Never);
        assert_eq!(at("Low", None), minutes(60));
        assert_eq!(at("", Some(ChannelType::Git)), minutes(3));
        assert_eq!(at("medium", Some(ChannelType::HelmRepo)), minutes(15));
        assert_eq!(at("high", Some(ChannelType::ObjectBucket)), minutes(2));
        let mut own = subscription();
        own.metadata.annotations = serde_json::from_value(json!({annotations::RECONCILE_RATE: "off"})).unwrap();
        assert_eq!(ReconcileRate::of(&own, Some("high")), ReconcileRate::Off);
    }

    #[test]
    fn a_failure_is_retried_sooner_and_then_no_more() {
        let failed = |failures| LooksBefore { failures, ..looked() };
        assert_eq!(after(0, &failed(1)), LookDue::After(Duration::from_secs(90)));
        assert_eq!(after(0, &failed(2)), minutes(3));
        let missing = LooksBefore {
            channel_missing: true,
            ..failed(1)
        };
        assert_eq!(after(0, &missing), minutes(5));
    }

    #[test]
    fn every_sixth_look_deploys_what_has_not_changed() {
        let unchanged = |unchanged| LooksBefore { unchanged, ..looked() };
        assert_eq!(after(180, &unchanged(4)), LookDue::Now { anew: false });
        assert_eq!(after(180, &unchanged(5)), LookDue::Now { anew: true });
    }
}
