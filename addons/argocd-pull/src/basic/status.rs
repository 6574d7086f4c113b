//! Writes what clusters say of Applications into the Applications on the hub.
//!
//! Root: ManifestWork with the label of a pulled Application. Reads: the Application that its annotations name. Writes:
//! the Application's `status`, which is no sub-resource. Never: the work.
//! Upstream: argocd-pull-integration `internal/controller/application_status_controller.go`.

use std::sync::Arc;

use jiff::Timestamp;
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::work::ManifestWork,
    reconcile::{
        Caches, ObserveError, Outcome, Plan, Reconciler, Site, Step, Target, Watches, async_trait, cache::split_key,
        caches::put_written, rbac::Right,
    },
    values::settings::parse_bool,
};
use serde_json::{Value, json};

use super::{Pulled, hub_application};
use crate::{application::PulledApplication, words};

const HEALTHY: &str = "Healthy";
const PROGRESSING: &str = "Progressing";

/// The reconciler.
pub struct ApplicationStatusReturn {
    pulled: Pulled,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The work, if it is one of an Application.
    pub work: Option<Arc<ManifestWork>>,
    /// The Application.
    pub application: Option<Arc<PulledApplication>>,
}

impl ApplicationStatusReturn {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            pulled: Pulled::of(caches),
        }
    }
}

#[async_trait]
impl Reconciler for ApplicationStatusReturn {
    const NAME: &'static str = "argocd-application-status";
    const WORKERS: usize = 4;
    const RIGHTS: &'static [Right] = &[Right::new(
        PulledApplication::GROUP,
        "applications",
        "patch",
        "What has become of an Application on its cluster.",
    )];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.pulled.works).reads(&self.pulled.applications);
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let work = self.pulled.works.get(namespace, name);
        let is_pulled = |it: &Arc<ManifestWork>| {
            it.labels()
                .get(words::PULL)
                .is_some_and(|it| parse_bool(it) == Some(true))
        };
        let work = work.filter(is_pulled);
        let application = work.as_deref().and_then(hub_application);
        let application = application.and_then(|key| {
            let (namespace, name) = split_key(&key);
            self.pulled.applications.get(namespace, name)
        });
        Ok(Seen {
            now: Timestamp::now(),
            work,
            application,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let (Some(work), Some(application)) = (seen.work.as_deref(), seen.application.as_deref()) else {
            return plan;
        };
        if work.metadata.deletion_timestamp.is_some() {
            return plan;
        }
        let Some(said) = ClusterStatus::of(work) else {
            plan.wait("the cluster has not said both health and sync");
            return plan;
        };
        let present = application.fields.get("status").unwrap_or(&Value::Null);
        if said.is_in(present) {
            return plan;
        }
        if said.health == HEALTHY {
            // An ApplicationSet that rolls out in steps wants to see that something is going on.
            let status = json!({"health": {"status": PROGRESSING}});
            patch(&mut plan, application, status);
            plan.stage();
        }
        patch(&mut plan, application, said.status(seen.now));
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        put_written(&self.pulled.applications, outcome);
    }
}

fn patch(plan: &mut Plan, application: &PulledApplication, status: Value) {
    // Without the version: these fields are of the cluster, whoever has written what else meanwhile.
    plan.push(Step::MergePatch {
        target: Target::of(Site::Hub, application),
        subresource: None,
        patch: json!({"metadata": {"uid": application.metadata.uid}, "status": status}),
    });
}

/// What a cluster says of an Application.
struct ClusterStatus {
    health: String,
    sync: String,
    /// Empty where it is not said.
    started_at: String,
    phase: String,
    revision: String,
}

impl ClusterStatus {
    /// What the first manifest of a work says, if it says enough.
    fn of(work: &ManifestWork) -> Option<Self> {
        let first = work.status.as_ref()?.resource_status.manifests.first()?;
        let value = |name: &str| {
            let values = &first.status_feedback.values;
            let found = values.iter().find(|it| it.name == name);
            found.and_then(|it| it.field_value.string.clone()).unwrap_or_default()
        };
        let said = Self {
            health: value("healthStatus"),
            sync: value("syncStatus"),
            started_at: value("operationStateStartedAt"),
            phase: value("operationStatePhase"),
            revision: value("syncRevision"),
        };
        (!said.health.is_empty() && !said.sync.is_empty()).then_some(said)
    }

    /// Whether a status says the same. When an operation began makes no difference where the cluster does not say it.
    fn is_in(&self, status: &Value) -> bool {
        let says = |at: &str, text: &str| status.pointer(at).and_then(Value::as_str) == Some(text);
        let since = match self.started_at.as_str() {
            "" => status
                .pointer("/operationState/startedAt")
                .is_some_and(Value::is_string),
            at => says("/operationState/startedAt", at),
        };
        since
            && says("/health/status", &self.health)
            && says("/sync/status", &self.sync)
            && says("/sync/revision", &self.revision)
            && says("/operationState/phase", &self.phase)
    }

    fn status(&self, now: Timestamp) -> Value {
        let started_at = match self.started_at.as_str() {
            "" => format!("{now:.0}"),
            at => at.to_owned(),
        };
        json!({
            "health": {"status": self.health},
            "sync": {"status": self.sync, "revision": self.revision},
            "operationState": {"phase": self.phase, "startedAt": started_at, "operation": {}},
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(values: Value, status: Value) -> String {
        let (annotations, labels) = (
            json!({words::HUB_NAMESPACE: "argocd", words::HUB_NAME: "a"}),
            json!({words::PULL: "T"}),
        );
        let values: Vec<Value> = values
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| json!({"name": name, "fieldValue": {"type": "String", "string": value}}))
            .collect();
        let manifest = json!({"resourceMeta": {}, "statusFeedback": {"values": values}, "conditions": []});
        let work = json!({
            "metadata": {"name": "a-u", "namespace": "c1", "labels": labels, "annotations": annotations},
            "spec": {}, "status": {"resourceStatus": {"manifests": [manifest]}},
        });
        let application = json!({"metadata": {"name": "a", "namespace": "argocd", "uid": "u"}, "status": status});
        let plan = ApplicationStatusReturn::plan(&Seen {
            now: "2026-01-01T12:00:00.75Z".parse().unwrap(),
            work: Some(Arc::new(serde_json::from_value(work).unwrap())),
            application: Some(Arc::new(serde_json::from_value(application).unwrap())),
        });
        format!("{plan:#}").trim().to_owned()
    }

    #[test]
    fn a_healthy_application_progresses_first() {
        let values = json!({
            "healthStatus": "Healthy", "syncStatus": "Synced", "operationStateStartedAt": "2025-01-01T00:00:00Z",
            "operationStatePhase": "Succeeded", "syncRevision": "abc",
        });
        let expected = r#"stage 1
hub: patch Application argocd/a {"status":{"health":{"status":"Progressing"}}}
stage 2
hub: patch Application argocd/a {"status":{"health":{"status":"Healthy"},"operationState":{"operation":{},"phase":"Succeeded","startedAt":"2025-01-01T00:00:00Z"},"sync":{"revision":"abc","status":"Synced"}}}"#;
        assert_eq!(printed(values.clone(), json!({})), expected);
        let same = json!({
            "health": {"status": "Healthy"}, "sync": {"status": "Synced", "revision": "abc"}, "more": 1,
            "operationState": {"phase": "Succeeded", "startedAt": "2025-01-01T00:00:00Z"},
        });
        assert_eq!(printed(values, same), "nothing to do");
    }

    #[test]
    fn what_is_not_said_has_defaults() {
        let values = json!({"healthStatus": "Degraded", "syncStatus": "OutOfSync"});
        let expected = r#"hub: patch Application argocd/a {"status":{"health":{"status":"Degraded"},"operationState":{"operation":{},"phase":"","startedAt":"2026-01-01T12:00:00Z"},"sync":{"revision":"","status":"OutOfSync"}}}"#;
        assert_eq!(printed(values.clone(), json!(null)), expected);
        let told = json!({
            "health": {"status": "Degraded"}, "sync": {"status": "OutOfSync", "revision": ""},
            "operationState": {"phase": "", "startedAt": "2020-01-01T00:00:00Z"},
        });
        assert_eq!(printed(values, told), "nothing to do");
    }

    #[test]
    fn health_without_sync_says_nothing() {
        let waits = "nothing to do\nwaits: the cluster has not said both health and sync";
        assert_eq!(printed(json!({"healthStatus": "Healthy"}), json!({})), waits);
        assert_eq!(
            printed(json!({"healthStatus": "Healthy", "syncStatus": ""}), json!({})),
            waits
        );
    }
}
