//! The ManifestWork that an Application becomes: a plain function.
//! Upstream: argocd-pull-integration `internal/controller/helper.go`.

use std::collections::BTreeMap;

use ocm_addon_sdk::{
    kube::{ResourceExt, core::ObjectMeta},
    ocm_api::{
        RawObject, condition, conditions,
        work::{
            FeedbackRule, FeedbackRuleType, IgnoreField, IgnoreFieldsCondition, JsonPath, ManifestConfigOption,
            ManifestWork, ManifestWorkSpec, ResourceIdentifier, ServerSideApplyConfig, UpdateStrategy,
            UpdateStrategyType,
        },
    },
};
use serde_json::{Map, Value, json};

use crate::{application::PulledApplication, words};

/// What is read back from the cluster, in this order.
pub const FEEDBACK: [(&str, &str); 5] = [
    ("healthStatus", ".status.health.status"),
    ("syncStatus", ".status.sync.status"),
    ("operationStateStartedAt", ".status.operationState.startedAt"),
    ("operationStatePhase", ".status.operationState.phase"),
    ("syncRevision", ".status.sync.revision"),
];

/// The namespace of an Application on its cluster where nothing says another.
const NAMESPACE: &str = "argocd";
/// The API server that a cluster knows as itself.
const IN_CLUSTER: &str = "https://kubernetes.default.svc";
/// What an Application says to us, and not to its cluster.
const OURS: [&str; 5] = [
    words::CLUSTER,
    words::CLUSTER_NAMESPACE,
    words::SKIP_RECONCILE,
    words::DESTINATION_NAME,
    words::DESTINATION_SERVER,
];

/// The ManifestWork for an Application that this cluster pulls. `present` is the one that is there: what else its
/// metadata says is kept.
pub fn work(application: &PulledApplication, cluster: &str, present: Option<&ManifestWork>) -> ManifestWork {
    let mut labels = BTreeMap::from([(words::PULL.to_owned(), "true".to_owned())]);
    let mut annotations = BTreeMap::from([
        (
            words::HUB_NAMESPACE.to_owned(),
            application.namespace().unwrap_or_default(),
        ),
        (words::HUB_NAME.to_owned(), application.name_any()),
    ]);
    mark_set(application, &mut labels, &mut annotations);
    let mut work = match present {
        Some(present) => present.clone(),
        None => ManifestWork {
            metadata: ObjectMeta {
                name: Some(application.work_name()),
                namespace: Some(cluster.to_owned()),
                ..ObjectMeta::default()
            },
            ..ManifestWork::default()
        },
    };
    work.metadata.labels = Some(labels);
    work.metadata.annotations = Some(annotations);
    let mut object = on_cluster(application);
    if object.get("operation").is_none()
        && let Some(operation) = present.and_then(|it| still_told(it, &object))
    {
        object["operation"] = operation;
    }
    work.spec = ManifestWorkSpec::default();
    work.spec.workload.manifests = vec![RawObject(object)].into();
    work.spec.manifest_configs = vec![config(application)];
    work
}

/// The operation that the work has and the Application has no more. It stays until the cluster has been told, and then
/// until something else changes: without it, a work agent that is slower than we are would never hear of it. Argo CD
/// takes it away on the cluster, and the rule `OnSpokeChange` leaves it so.
fn still_told(present: &ManifestWork, next: &Value) -> Option<Value> {
    let manifests = present.spec.workload.manifests.read();
    let mut told = manifests.first()?.0.clone();
    let operation = told.as_object_mut()?.remove("operation")?;
    let status = present.status.as_ref();
    let applied = status.and_then(|it| condition::find(&it.conditions, conditions::manifest_work::APPLIED));
    let heard = applied.is_some_and(|it| it.status == "True" && it.observed_generation == present.metadata.generation);
    (!heard || told == *next).then_some(operation)
}

/// The Application as its cluster is to have it.
pub fn on_cluster(application: &PulledApplication) -> Value {
    let mut labels = application.labels().clone();
    labels.remove(words::PULL);
    let mut annotations = application.annotations().clone();
    annotations.retain(|key, _| !OURS.contains(&key.as_str()));
    mark_set(application, &mut labels, &mut annotations);
    let mut metadata = json!({"name": application.name_any(), "namespace": namespace_on_cluster(application)});
    if !labels.is_empty() {
        metadata["labels"] = json!(labels);
    }
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    if !application.finalizers().is_empty() {
        metadata["finalizers"] = json!(application.finalizers());
    }
    let mut object = json!({
        "apiVersion": PulledApplication::API_VERSION, "kind": PulledApplication::KIND, "metadata": metadata,
    });
    if let Some(operation) = application.fields.get("operation").filter(|it| it.is_object()) {
        object["operation"] = operation.clone();
    }
    if let Some(spec) = application.fields.get("spec") {
        let mut spec = spec.clone();
        if let Some(Value::Object(destination)) = spec.get_mut("destination") {
            redirect(application, destination);
        }
        object["spec"] = spec;
    }
    object
}

fn mark_set(
    application: &PulledApplication,
    labels: &mut BTreeMap<String, String>,
    annotations: &mut BTreeMap<String, String>,
) {
    if let Some(set) = application.application_set() {
        labels.insert(words::APPLICATION_SET.to_owned(), "true".to_owned());
        annotations.insert(words::HOSTING_APPLICATION_SET.to_owned(), set);
    }
}

/// On the hub the destination is the cluster; there it is what the annotations say, or the cluster itself.
fn redirect(application: &PulledApplication, destination: &mut Map<String, Value>) {
    let said = |key: &str| application.annotations().get(key).cloned();
    let (name, server) = match (said(words::DESTINATION_NAME), said(words::DESTINATION_SERVER)) {
        (None, None) => (String::new(), IN_CLUSTER.to_owned()),
        // An empty one that is there counts, too.
        (name, server) => (name.unwrap_or_default(), server.unwrap_or_default()),
    };
    destination.insert("name".to_owned(), name.into());
    destination.insert("server".to_owned(), server.into());
}

fn namespace_on_cluster(application: &PulledApplication) -> String {
    let said = application.annotations().get(words::CLUSTER_NAMESPACE).cloned();
    let said = said.filter(|it| !it.is_empty()).or_else(|| application.namespace());
    said.filter(|it| !it.is_empty()).unwrap_or_else(|| NAMESPACE.to_owned())
}

fn config(application: &PulledApplication) -> ManifestConfigOption {
    let rule = |(name, path): (&str, &str)| FeedbackRule {
        r#type: FeedbackRuleType::JSONPaths,
        json_paths: vec![JsonPath {
            name: name.to_owned(),
            path: path.to_owned(),
            ..JsonPath::default()
        }],
    };
    // An operation is for Argo CD on the cluster to carry out and to take away.
    let operation = IgnoreField {
        condition: IgnoreFieldsCondition::OnSpokeChange,
        json_paths: vec![".operation".to_owned()],
        ..IgnoreField::default()
    };
    ManifestConfigOption {
        resource_identifier: ResourceIdentifier {
            group: PulledApplication::GROUP.to_owned(),
            resource: PulledApplication::PLURAL.to_owned(),
            name: application.name_any(),
            namespace: namespace_on_cluster(application),
        },
        feedback_rules: FEEDBACK.into_iter().map(rule).collect(),
        update_strategy: Some(UpdateStrategy {
            r#type: UpdateStrategyType::ServerSideApply,
            server_side_apply: Some(ServerSideApplyConfig {
                force: true,
                ignore_fields: vec![operation],
                ..ServerSideApplyConfig::default()
            }),
        }),
        ..ManifestConfigOption::default()
    }
}

#[cfg(test)]
#[path = "payload_tests.rs"]
mod tests;
