//! How the health of an add-on is known, as data.

use ocm_api::addon::HealthCheckMode;
use ocm_api::work::{FeedbackRule, FeedbackRuleType, FieldValue, JsonPath, ResourceIdentifier, StatusFeedbackResult};

/// How the health of an add-on is known.
///
/// ```
/// use ocm_addon_sdk::{Health, Probe};
///
/// // One Deployment counts, and the mood that a ConfigMap says beside it; `AddOn::judge` is given what is found.
/// let mood = Probe::well_known("", "configmaps", "default", "mood").reading("mood", ".data.mood");
/// let health = Health::Work(vec![Probe::deployment("default", "greeter"), mood]);
/// assert_ne!(health, Health::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// Its agent renews a Lease on the cluster.
    #[default]
    Lease,
    /// It is not: nobody of the SDK writes the condition `Available`.
    None,
    /// From what these probes find on the cluster, as [`AddOn::judge`](crate::AddOn::judge) sees it; without probes, an
    /// add-on whose manifests are applied is healthy.
    Work(Vec<Probe>),
    /// All its Deployments have a replica that is ready.
    Deployments,
    /// All its Deployments have a replica that is ready, and all its DaemonSets a pod on every node they want.
    Workloads,
}

impl Health {
    /// Who judges, as the agent of the cluster reads it in `status.healthCheck.mode`: the agent itself, or the hub.
    pub fn mode(&self) -> HealthCheckMode {
        match self {
            Self::Lease => HealthCheckMode::Lease,
            Self::None | Self::Work(_) | Self::Deployments | Self::Workloads => HealthCheckMode::Customized,
        }
    }
}

/// Something to look at on the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Which object; name and namespace may hold `*`.
    pub resource: ResourceIdentifier,
    /// What of its state.
    pub rules: Vec<FeedbackRule>,
}

impl Probe {
    /// What is known to matter of a kind (replicas of a Deployment, conditions of a Job, the phase of a Pod),
    /// of one object.
    pub fn well_known(group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        Self {
            resource: ResourceIdentifier {
                group: group.to_owned(),
                resource: resource.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
            rules: vec![FeedbackRule {
                r#type: FeedbackRuleType::WellKnownStatus,
                json_paths: Vec::new(),
            }],
        }
    }

    /// The replicas of a Deployment.
    pub fn deployment(namespace: &str, name: &str) -> Self {
        Self::well_known("apps", "deployments", namespace, name)
    }

    /// The same, and a field named by a path such as `.status.phase`, reported as `value`.
    pub fn reading(mut self, value: &str, path: &str) -> Self {
        let json_path = JsonPath {
            name: value.to_owned(),
            version: String::new(),
            path: path.to_owned(),
        };
        let paths = self
            .rules
            .iter_mut()
            .find(|it| it.r#type == FeedbackRuleType::JSONPaths);
        match paths {
            Some(rule) => rule.json_paths.push(json_path),
            None => self.rules.push(FeedbackRule {
                r#type: FeedbackRuleType::JSONPaths,
                json_paths: vec![json_path],
            }),
        }
        self
    }
}

/// What a probe found on the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeResult {
    /// The object, with its own name and namespace.
    pub resource: ResourceIdentifier,
    /// What was reported of it.
    pub feedback: StatusFeedbackResult,
}

impl ProbeResult {
    /// The value that was reported under this name.
    pub fn value(&self, name: &str) -> Option<&FieldValue> {
        let value = self.feedback.values.iter().find(|it| it.name == name)?;
        Some(&value.field_value)
    }

    /// The whole number that was reported under this name.
    pub fn integer(&self, name: &str) -> Option<i64> {
        self.value(name)?.integer
    }

    /// The text that was reported under this name.
    pub fn string(&self, name: &str) -> Option<&str> {
        self.value(name)?.string.as_deref()
    }
}
