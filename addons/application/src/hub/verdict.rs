//! What is to be done with a Subscription. Pure.

use std::{collections::BTreeMap, sync::Arc};

use ocm_addon_sdk::ocm_api::apps::{Channel, ChannelType, Subscription, SubscriptionPhase, annotations};

use super::{
    clusters::{self, Choice},
    hooks::{self, HookInputs, HookJob, HookType},
    propagation::Seen,
    sources::{SourceState, SourceSummary},
};

/// What is to be done with a Subscription.
pub(super) enum Verdict {
    /// It is not there, or will not be any more.
    Gone,
    /// It is deployed where it is.
    Local,
    /// It cannot go to clusters.
    Refused(String),
    /// Jobs before it have not ended.
    Waits(Vec<HookJob>),
    /// It goes to clusters.
    Goes(Goes),
}

/// A Subscription that goes to clusters.
pub(super) struct Goes {
    /// `None` where its source is not read.
    pub summary: Option<Arc<SourceSummary>>,
    /// The clusters, and whether each is the hub itself.
    pub clusters: BTreeMap<String, bool>,
    /// The jobs before it.
    pub before: Vec<HookJob>,
    /// The jobs after it, if it is time for them.
    pub after: Vec<HookJob>,
}

/// Whether a Subscription says clusters, and does not say that it stays here.
pub fn is_for_clusters(subscription: &Subscription) -> bool {
    clusters::choice(subscription) != Choice::Nothing && !subscription.is_local()
}

/// Whether the hub does not read a Subscription's source.
pub fn skips_validation(subscription: &Subscription) -> bool {
    subscription.annotation(annotations::SKIP_HUB_VALIDATION) == Some("true")
}

/// What is wrong with the Channels of a Subscription.
pub(super) fn channel_problem(subscription: &Subscription, seen: &Seen) -> Option<String> {
    let missing = |key: &str| {
        let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
        Some(format!("channels.apps.open-cluster-management.io {name:?} not found"))
    };
    let spec = &subscription.spec;
    let Some(primary) = &seen.channel else {
        return missing(&spec.channel);
    };
    if spec.secondary_channel.is_empty() {
        return None;
    }
    let Some(secondary) = &seen.secondary else {
        return missing(&spec.secondary_channel);
    };
    let (one, other) = (&primary.spec.r#type, &secondary.spec.r#type);
    (one != other).then(|| {
        format!(
            "the type of primary and secondary channels is different. primary channel type: {one}, secondary channel \
             type: {other}"
        )
    })
}

/// Whether a Channel is a Git repository.
pub(super) fn is_git(channel: Option<&Arc<Channel>>) -> bool {
    channel.is_some_and(|it| it.spec.channel_type() == Some(ChannelType::Git))
}

/// What is to be done.
pub(super) fn verdict(seen: &Seen) -> Verdict {
    let Some(subscription) = seen
        .subscription
        .as_deref()
        .filter(|it| it.metadata.deletion_timestamp.is_none())
    else {
        return Verdict::Gone;
    };
    if subscription.spec.placement.is_none() {
        return Verdict::Refused("Placement must be specified".to_owned());
    }
    match (
        clusters::choice(subscription) == Choice::Nothing,
        subscription.is_local(),
    ) {
        (true, _) => return Verdict::Local,
        (false, true) => {
            let both = "local placement and remote placement cannot be used together";
            return Verdict::Refused(both.to_owned());
        }
        (false, false) => {}
    }
    if let Some(problem) = channel_problem(subscription, seen) {
        return Verdict::Refused(problem);
    }
    let summary = match &seen.source {
        SourceState::Unreadable(why) if is_git(seen.channel.as_ref()) => {
            let told = "failed to initialize Git connection, err: ";
            let why = why.strip_prefix(told).unwrap_or(why);
            return Verdict::Refused(format!("{told}{why}"));
        }
        SourceState::Unreadable(why) => return Verdict::Refused(why.clone()),
        SourceState::Read(summary) => Some(summary.clone()),
        SourceState::Skipped => None,
    };
    let clusters = match &seen.clusters {
        Ok(clusters) => clusters.clone(),
        Err(why) => return Verdict::Refused(why.clone()),
    };
    let mut goes = Goes {
        before: Vec::new(),
        after: Vec::new(),
        clusters,
        summary,
    };
    if let Some(summary) = &goes.summary {
        let present = match &seen.jobs {
            Ok(present) => present,
            Err(why) => return Verdict::Refused(format!("failed to register hooks, err: {why}")),
        };
        let inputs = HookInputs {
            commit: summary.revision.clone(),
            choice_version: seen.choice_version.clone(),
            clusters: goes.clusters.keys().cloned().collect(),
        };
        let made = |kind, templates| {
            let jobs = hooks::jobs(subscription, kind, templates, present, &inputs);
            jobs.map_err(|why| format!("failed to register hooks, err: {why}"))
        };
        match made(HookType::Pre, &summary.pre_hooks) {
            Ok(jobs) => goes.before = jobs,
            Err(why) => return Verdict::Refused(why),
        }
        if goes.before.iter().any(|it| !it.is_successful) {
            return Verdict::Waits(goes.before);
        }
        if !goes.clusters.is_empty() && is_deployed(seen, goes.clusters.len()) {
            match made(HookType::Post, &summary.post_hooks) {
                Ok(jobs) => goes.after = jobs,
                Err(why) => return Verdict::Refused(why),
            }
        }
    }
    Verdict::Goes(goes)
}

/// Whether all clusters have said that they have deployed it.
fn is_deployed(seen: &Seen, clusters: usize) -> bool {
    let is_propagated = |it: &Subscription| {
        let phase = it.status.as_ref().map(|it| it.phase.as_str());
        phase == Some(SubscriptionPhase::Propagated.as_str())
    };
    let summary = seen.report.as_deref().map(|it| &it.summary);
    let agrees = summary.is_some_and(|it| it.clusters == clusters.to_string() && it.deployed == it.clusters);
    agrees && seen.subscription.as_deref().is_some_and(is_propagated)
}
