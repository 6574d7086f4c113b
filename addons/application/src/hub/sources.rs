//! What Subscriptions' sources hold, as the hub has read them last, and when it reads them again.
//!
//! Secrets and ConfigMaps are asked for when a source is read, and never kept.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::ConfigMap,
    kube::{Client, ResourceExt},
    ocm_api::{
        apps::{Channel, ChannelType, Subscription, annotations},
        object::ObjectReference,
    },
    reconcile::{Queue, discovery::DiscoveredKinds},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::source::{ChannelInputs, SourceContent, SourceInputs, SourceReader};

/// Annotations of a Subscription that say what is read.
const SELECTING: [&str; 9] = [
    annotations::GIT_PATH,
    annotations::GIT_BRANCH,
    annotations::GITHUB_PATH,
    annotations::GITHUB_BRANCH,
    annotations::GIT_DESIRED_COMMIT,
    annotations::GIT_TAG,
    annotations::BUCKET_PATH,
    annotations::MANUAL_REFRESH_TIME,
    annotations::WEBHOOK_EVENT_COUNT,
];

/// How soon a source that could not be read is read again at first; each time the delay is doubled.
const RETRY_MIN: Duration = Duration::from_secs(5);

/// Reading that takes longer is given up: others wait for their turn.
const READ_MAX: Duration = Duration::from_secs(300);

/// What a source holds, as far as the hub needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceSummary {
    /// The commit, or what else tells one state from the next.
    pub revision: String,
    /// The objects.
    pub objects: Vec<SourceObject>,
    /// AnsibleJobs that run before them.
    pub pre_hooks: Vec<Value>,
    /// AnsibleJobs that run after them.
    pub post_hooks: Vec<Value>,
}

/// An object of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceObject {
    /// Its name, as the source has it.
    pub reference: ObjectReference,
    /// Whether its kind has no namespaces.
    pub is_cluster_scoped: bool,
}

/// What became of reading a source.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceState {
    /// It is not read.
    Skipped,
    /// It is read.
    Read(Arc<SourceSummary>),
    /// It cannot be read, and why.
    Unreadable(String),
}

/// What was read of one Subscription's source.
struct Held {
    fingerprint: String,
    summary: Option<Arc<SourceSummary>>,
    failure: Option<(String, u32)>,
    next: Option<Instant>,
}

struct Inner {
    reader: Arc<dyn SourceReader>,
    client: Option<Client>,
    kinds: Option<DiscoveredKinds>,
    held: Mutex<HashMap<String, Held>>,
    told: OnceLock<Queue>,
}

/// The sources that were read. Cloning shares them.
#[derive(Clone)]
pub struct SubscriptionSources {
    inner: Arc<Inner>,
}

/// How often a source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRate {
    /// After it was read; `None` for never again.
    pub interval: Option<Duration>,
    /// The longest time after it could not be read.
    pub retry_max: Duration,
}

impl SubscriptionSources {
    /// None is read yet. The client is that of the hub.
    pub fn new(reader: Arc<dyn SourceReader>, client: Option<Client>) -> Self {
        let inner = Inner {
            reader,
            kinds: client.clone().map(DiscoveredKinds::new),
            client,
            held: Mutex::default(),
            told: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Whose keys are added when their source has changed. The first one stays.
    pub fn tell(&self, queue: &Queue) {
        let _ = self.inner.told.set(queue.clone());
    }

    /// What the source of a Subscription held when it was last read without a failure.
    pub fn last(&self, key: &str) -> Option<Arc<SourceSummary>> {
        self.inner.held.lock().get(key)?.summary.clone()
    }

    /// Forgets the source of a Subscription.
    pub fn forget(&self, key: &str) {
        self.inner.held.lock().remove(key);
    }

    /// The source of a Subscription, which is read if it is time, and when it is time again.
    pub async fn look(
        &self,
        key: &str,
        subscription: &Subscription,
        channels: (&Arc<Channel>, Option<&Arc<Channel>>),
        filter: Option<&Arc<ConfigMap>>,
    ) -> (SourceState, Option<Duration>) {
        let fingerprint = fingerprint(subscription, channels, filter.map(|it| &**it));
        let rate = rate(subscription, channels.0);
        let now = Instant::now();
        let before = {
            let held = self.inner.held.lock();
            let held = held.get(key).filter(|it| it.fingerprint == fingerprint);
            if let Some(held) = held
                && held.next.is_none_or(|it| now < it)
            {
                return (state(held), held.next.map(|it| it - now));
            }
            held.map(|it| (it.summary.clone(), it.failure.as_ref().map_or(0, |(_, count)| *count)))
        };
        let (known, failures) = before.unwrap_or_default();
        let reading = self.read(subscription, channels, filter, known.as_ref());
        let read = tokio::time::timeout(READ_MAX, reading).await.unwrap_or_else(|_| {
            let seconds = READ_MAX.as_secs();
            Err(format!("the source could not be read within {seconds} seconds"))
        });
        let held = match read {
            Ok(summary) => Held {
                fingerprint,
                summary: Some(summary),
                failure: None,
                next: rate.interval.map(|it| Instant::now() + it),
            },
            Err(text) => {
                let delay = RETRY_MIN.saturating_mul(1 << failures.min(10)).min(rate.retry_max);
                Held {
                    fingerprint,
                    summary: known,
                    failure: Some((text, failures + 1)),
                    next: Some(Instant::now() + delay),
                }
            }
        };
        let result = (
            state(&held),
            held.next.map(|it| it.saturating_duration_since(Instant::now())),
        );
        self.inner.held.lock().insert(key.to_owned(), held);
        if let Some(queue) = self.inner.told.get() {
            queue.add(key);
        }
        result
    }

    async fn read(
        &self,
        subscription: &Subscription,
        (primary, secondary): (&Arc<Channel>, Option<&Arc<Channel>>),
        filter: Option<&Arc<ConfigMap>>,
        known: Option<&Arc<SourceSummary>>,
    ) -> Result<Arc<SourceSummary>, String> {
        let inputs = SourceInputs {
            primary: self.inputs(primary).await?,
            secondary: match secondary {
                Some(it) => Some(self.inputs(it).await?),
                None => None,
            },
            filter: filter.cloned(),
        };
        let revision = known.map(|it| it.revision.as_str()).filter(|it| !it.is_empty());
        let Some(content) = self.inner.reader.read(subscription, &inputs, revision).await? else {
            return Ok(known.cloned().unwrap_or_default());
        };
        // Nothing that could be read is not the same as nothing.
        if content.objects.is_empty() && !content.problems.is_empty() {
            return Err(content.problems.join(", "));
        }
        Ok(Arc::new(self.summary(content).await))
    }

    async fn inputs(&self, channel: &Arc<Channel>) -> Result<ChannelInputs, String> {
        match &self.inner.client {
            Some(client) => ChannelInputs::read(client, channel.clone()).await,
            None => Ok(ChannelInputs {
                channel: channel.clone(),
                secret: None,
                config_map: None,
            }),
        }
    }

    async fn summary(&self, content: SourceContent) -> SourceSummary {
        let of_source = cluster_scoped(&content.objects);
        let (mut seen, mut objects) = (BTreeSet::new(), Vec::new());
        for object in &content.objects {
            let text = |at: &str| {
                object
                    .pointer(at)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let reference = ObjectReference {
                api_version: text("/apiVersion"),
                kind: text("/kind"),
                namespace: text("/metadata/namespace"),
                name: text("/metadata/name"),
                ..ObjectReference::default()
            };
            let it = &reference;
            if !seen.insert((
                it.api_version.clone(),
                it.kind.clone(),
                it.namespace.clone(),
                it.name.clone(),
            )) {
                continue;
            }
            let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
            let mut is_cluster_scoped = of_source.contains(&(group.to_owned(), reference.kind.clone()));
            // Where nobody knows the kind it counts as namespaced, as upstream.
            if let Some(kinds) = self.inner.kinds.as_ref().filter(|_| !is_cluster_scoped) {
                let found = kinds.find(&reference.api_version, &reference.kind).await;
                is_cluster_scoped = found.is_ok_and(|it| it.is_some_and(|it| !it.namespaced));
            }
            objects.push(SourceObject {
                reference,
                is_cluster_scoped,
            });
        }
        SourceSummary {
            revision: content.revision,
            objects,
            pre_hooks: content.pre_hooks,
            post_hooks: content.post_hooks,
        }
    }
}

/// Group and kind of what a source itself defines to be without namespaces.
fn cluster_scoped(objects: &[Value]) -> BTreeSet<(String, String)> {
    let definitions = objects.iter().filter(|it| it["kind"] == "CustomResourceDefinition");
    let scoped = definitions.filter(|it| it["spec"]["scope"] == "Cluster");
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    scoped
        .map(|it| (text(&it["spec"]["group"]), text(&it["spec"]["names"]["kind"])))
        .collect()
}

fn state(held: &Held) -> SourceState {
    match (&held.failure, &held.summary) {
        (Some((text, _)), _) => SourceState::Unreadable(text.clone()),
        (None, Some(summary)) => SourceState::Read(summary.clone()),
        (None, None) => SourceState::Skipped,
    }
}

/// Everything that says what is read. A change of it makes the hub read at once.
fn fingerprint(
    subscription: &Subscription,
    (primary, secondary): (&Arc<Channel>, Option<&Arc<Channel>>),
    filter: Option<&ConfigMap>,
) -> String {
    let spec = &subscription.spec;
    let selecting: Vec<_> = SELECTING.iter().map(|it| subscription.annotation(it)).collect();
    json!([
        spec.channel,
        primary.spec,
        spec.secondary_channel,
        secondary.map(|it| &it.spec),
        spec.name,
        spec.package_filter,
        spec.package_overrides,
        selecting,
        filter.map(|it| &it.data),
    ])
    .to_string()
}

/// How often the source of a Subscription is read. Only the Channel says how often; a Subscription can turn it off.
pub fn rate(subscription: &Subscription, channel: &Channel) -> ReadRate {
    let minutes = |it: u64| Duration::from_secs(it * 60);
    let of_channel = channel.annotations().get(annotations::RECONCILE_RATE);
    let of_channel = of_channel.map(|it| it.to_ascii_lowercase()).unwrap_or_default();
    let is_off = subscription.annotation(annotations::RECONCILE_RATE);
    let rate = match is_off.filter(|it| it.eq_ignore_ascii_case("off")) {
        Some(_) => "off",
        None => of_channel.as_str(),
    };
    let medium = match channel.spec.channel_type() {
        Some(ChannelType::HelmRepo | ChannelType::ObjectBucket) => minutes(15),
        _ => minutes(3),
    };
    let (interval, retry_max) = match rate {
        "off" => (None, Duration::from_secs(90)),
        "low" => (Some(minutes(60)), minutes(3)),
        "high" => (Some(minutes(2)), minutes(1)),
        _ => (Some(medium), Duration::from_secs(90)),
    };
    ReadRate { interval, retry_max }
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
