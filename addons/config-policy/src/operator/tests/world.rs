//! A cluster in memory with the kinds of OLM, and who hears of evaluations.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use ocm_addon_sdk::{
    ocm_api::{policy::operator_policy::OperatorPolicy, selector::Selector},
    reconcile::async_trait,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::super::{
    CATALOG_SOURCE, CSV, DEFINITION, DEPLOYMENT, INSTALL_PLAN, NAMESPACE, OPERATOR_GROUP, OperatorKind,
    OperatorRecorder, OperatorSettings, PACKAGE_MANIFEST, SUBSCRIPTION, evaluate_operator, name, namespace,
    status::{condition, message},
};
use crate::{
    cluster::{Cluster, ClusterError, ServedKind},
    evaluate::EvaluationFailure,
};

pub const KINDS: [&OperatorKind; 9] = [
    &NAMESPACE,
    &OPERATOR_GROUP,
    &SUBSCRIPTION,
    &INSTALL_PLAN,
    &CSV,
    &DEFINITION,
    &DEPLOYMENT,
    &CATALOG_SOURCE,
    &PACKAGE_MANIFEST,
];

type Place = (String, String, String);

/// A cluster, who is told, and the settings.
pub struct World {
    objects: Mutex<BTreeMap<Place, Value>>,
    absent_kinds: Mutex<BTreeSet<&'static str>>,
    counter: AtomicU64,
    /// Whether changes of objects are forbidden.
    pub forbids: Mutex<bool>,
    /// Why events cannot be written, if they cannot.
    pub deaf: Mutex<Option<String>>,
    /// What was told.
    pub told: Mutex<Vec<String>>,
    /// How often a status was written.
    pub written: Mutex<usize>,
    pub settings: OperatorSettings,
}

impl Default for World {
    /// A cluster with a catalog, and a namespace `ops`.
    fn default() -> Self {
        let world = Self {
            objects: Mutex::default(),
            absent_kinds: Mutex::default(),
            counter: AtomicU64::new(1),
            forbids: Mutex::new(false),
            deaf: Mutex::default(),
            told: Mutex::default(),
            written: Mutex::default(),
            settings: OperatorSettings {
                default_namespace: String::new(),
                history_max: 10,
                denied_functions: Vec::new(),
            },
        };
        world.put(&NAMESPACE, json!({"metadata": {"name": "ops"}}));
        let catalog = json!({
            "metadata": {"name": "catalog", "namespace": "olm"},
            "status": {"connectionState": {"lastObservedState": "READY"}},
        });
        world.put(&CATALOG_SOURCE, catalog);
        world
    }
}

impl World {
    /// Puts an object there, as somebody else would.
    pub fn put(&self, kind: &OperatorKind, mut object: Value) {
        object["apiVersion"] = kind.api_version.into();
        object["kind"] = kind.kind.into();
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = format!("uid-{count}").into();
        }
        object["metadata"]["resourceVersion"] = count.to_string().into();
        self.objects.lock().insert(place(kind.kind, &object), object);
    }

    /// Changes an object, as somebody else would.
    pub fn change(&self, kind: &OperatorKind, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(kind, name).expect("it is there");
        change(&mut object);
        self.put(kind, object);
    }

    /// An object of namespace `ops`, or of none.
    pub fn get(&self, kind: &OperatorKind, name: &str) -> Option<Value> {
        let namespace = if is_namespaced(kind.kind) { "ops" } else { "" };
        let place = (kind.kind.to_owned(), namespace.to_owned(), name.to_owned());
        self.objects.lock().get(&place).cloned()
    }

    /// The names of the objects of a kind.
    pub fn names(&self, kind: &OperatorKind) -> Vec<String> {
        let objects = self.objects.lock();
        let of_kind = objects.keys().filter(|it| it.0 == kind.kind);
        of_kind.map(|it| it.2.clone()).collect()
    }

    /// The cluster does not know a kind.
    pub fn forget_kind(&self, kind: &'static OperatorKind) {
        self.absent_kinds.lock().insert(kind.kind);
    }

    pub async fn evaluate(&self, policy: &mut OperatorPolicy) -> Result<Option<Duration>, EvaluationFailure> {
        self.evaluate_among(policy, &[]).await
    }

    pub async fn evaluate_among(
        &self,
        policy: &mut OperatorPolicy,
        others: &[&OperatorPolicy],
    ) -> Result<Option<Duration>, EvaluationFailure> {
        let others: Vec<_> = others.iter().map(|it| Arc::new((*it).clone())).collect();
        evaluate_operator(policy, self, self, &self.settings, &others).await
    }

    /// What was told since it was asked last.
    pub fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock())
    }

    /// OLM has resolved the Subscription: it wants to install a version, and needs an approval for that.
    pub fn offer(&self, subscription: &str, installed: &str, current: &str, plan: &str, versions: &[&str]) {
        self.change(&SUBSCRIPTION, subscription, |it| {
            it["status"]["installedCSV"] = installed.into();
            it["status"]["currentCSV"] = current.into();
        });
        let generation = self.counter.load(Ordering::Relaxed);
        let plan = json!({
            "metadata": {"name": plan, "namespace": "ops"},
            "spec": {"approved": false, "clusterServiceVersionNames": versions, "generation": generation},
            "status": {"phase": "RequiresApproval"},
        });
        self.put(&INSTALL_PLAN, plan);
    }

    /// OLM has installed a version.
    pub fn install(&self, subscription: &str, version: &str, plan: &str) {
        self.change(&SUBSCRIPTION, subscription, |it| {
            it["status"]["installedCSV"] = version.into();
            it["status"]["currentCSV"] = version.into();
        });
        self.change(&INSTALL_PLAN, plan, |it| it["status"]["phase"] = "Complete".into());
        let label = format!("operators.coreos.com/{subscription}.ops");
        let version = json!({
            "metadata": {"name": version, "namespace": "ops", "labels": {&label: ""}},
            "spec": {"install": {"spec": {"deployments": [{"name": subscription}]}}},
            "status": {
                "phase": "Succeeded", "reason": "InstallSucceeded",
                "message": "install strategy completed with no errors",
            },
        });
        self.put(&CSV, version);
        self.put(
            &DEPLOYMENT,
            json!({"metadata": {"name": subscription, "namespace": "ops"}}),
        );
        let definition = json!({"metadata": {"name": format!("{subscription}s.example.com"), "labels": {&label: ""}}});
        self.put(&DEFINITION, definition);
    }

    pub fn is_approved(&self, plan: &str) -> bool {
        self.get(&INSTALL_PLAN, plan)
            .is_some_and(|it| it["spec"]["approved"] == true)
    }

    fn write(&self, of: &ServedKind, object: &Value, try_only: bool) -> Result<Value, ClusterError> {
        if *self.forbids.lock() {
            return Err(error(403, "Forbidden", "it may not be changed"));
        }
        let place = place(&of.kind, object);
        let mut objects = self.objects.lock();
        let Some(existing) = objects.get(&place) else {
            return Err(error(404, "NotFound", "it is not there"));
        };
        if existing["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
            return Err(error(409, "Conflict", "it has changed"));
        }
        let mut object = object.clone();
        if !try_only && object != *existing {
            let count = self.counter.fetch_add(1, Ordering::Relaxed);
            object["metadata"]["resourceVersion"] = count.to_string().into();
            objects.insert(place, object.clone());
        }
        Ok(object)
    }
}

fn is_namespaced(kind: &str) -> bool {
    ![NAMESPACE.kind, DEFINITION.kind].contains(&kind)
}

fn place(kind: &str, object: &Value) -> Place {
    (kind.to_owned(), namespace(object).to_owned(), name(object).to_owned())
}

fn error(code: u16, reason: &str, message: &str) -> ClusterError {
    ClusterError {
        code,
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..ClusterError::default()
    }
}

#[async_trait]
impl Cluster for World {
    async fn served(&self, api_version: &str, kind: &str) -> Result<Option<Arc<ServedKind>>, ClusterError> {
        let known = KINDS.iter().any(|it| (it.api_version, it.kind) == (api_version, kind));
        if !known || self.absent_kinds.lock().contains(kind) {
            return Ok(None);
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Ok(Some(Arc::new(ServedKind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
            namespaced: is_namespaced(kind),
            watchable: true,
        })))
    }

    async fn get(&self, of: &ServedKind, namespace: &str, name: &str) -> Result<Option<Arc<Value>>, ClusterError> {
        let place = (of.kind.clone(), namespace.to_owned(), name.to_owned());
        Ok(self.objects.lock().get(&place).cloned().map(Arc::new))
    }

    async fn get_now(&self, of: &ServedKind, namespace: &str, name: &str) -> Result<Option<Arc<Value>>, ClusterError> {
        Cluster::get(self, of, namespace, name).await
    }

    async fn list(
        &self,
        of: &ServedKind,
        namespace: &str,
        selector: Option<&Selector>,
    ) -> Result<Vec<Arc<Value>>, ClusterError> {
        let objects = self.objects.lock();
        let there = objects
            .iter()
            .filter(|((kind, at, _), _)| *kind == of.kind && at == namespace);
        let selected = there.filter(|(_, object)| {
            selector.is_none_or(|it| it.matches(|key| object["metadata"]["labels"][key].as_str()))
        });
        Ok(selected.map(|(_, object)| Arc::new(object.clone())).collect())
    }

    async fn create(&self, of: &ServedKind, object: &Value) -> Result<Value, ClusterError> {
        let mut object = object.clone();
        let namespace_kind = NAMESPACE.kind.to_owned();
        let its_namespace = (namespace_kind, String::new(), namespace(&object).to_owned());
        if of.namespaced && !self.objects.lock().contains_key(&its_namespace) {
            let mut missing = error(404, "NotFound", "namespaces not found");
            missing.about = "namespaces".to_owned();
            return Err(missing);
        }
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        if name(&object).is_empty() {
            let generated = object["metadata"]["generateName"].as_str().unwrap_or_default();
            object["metadata"]["name"] = format!("{generated}abcde").into();
        }
        object["metadata"]["uid"] = format!("uid-{count}").into();
        object["metadata"]["resourceVersion"] = count.to_string().into();
        self.objects.lock().insert(place(&of.kind, &object), object.clone());
        Ok(object)
    }

    async fn update(&self, of: &ServedKind, object: &Value, try_only: bool) -> Result<Value, ClusterError> {
        self.write(of, object, try_only)
    }

    async fn update_status(&self, of: &ServedKind, object: &Value) -> Result<Value, ClusterError> {
        self.write(of, object, false)
    }

    async fn delete(&self, of: &ServedKind, namespace: &str, name: &str) -> Result<(), ClusterError> {
        let place = (of.kind.clone(), namespace.to_owned(), name.to_owned());
        let mut objects = self.objects.lock();
        match objects.get_mut(&place) {
            None => return Err(error(404, "NotFound", "it is not there")),
            Some(object) if object["metadata"].get("finalizers").is_some() => {
                object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            Some(_) => drop(objects.remove(&place)),
        }
        Ok(())
    }
}

#[async_trait]
impl OperatorRecorder for World {
    async fn tell(&self, _: &OperatorPolicy, message: &str, _: Timestamp) -> Result<(), String> {
        if let Some(why) = &*self.deaf.lock() {
            return Err(why.clone());
        }
        self.told.lock().push(message.to_owned());
        Ok(())
    }

    async fn write(&self, _: &mut OperatorPolicy) -> Result<(), String> {
        *self.written.lock() += 1;
        Ok(())
    }
}

/// A policy `quay` of namespace `managed` that enforces package `quay` in namespace `ops`, with some of its spec
/// otherwise.
pub fn policy(otherwise: Value) -> OperatorPolicy {
    policy_over("quay", otherwise)
}

/// The same for another package.
pub fn policy_over(package: &str, otherwise: Value) -> OperatorPolicy {
    let mut spec = json!({
        "remediationAction": "enforce",
        "complianceType": "musthave",
        "upgradeApproval": "None",
        "subscription": {
            "name": package, "namespace": "ops", "channel": "stable", "source": "catalog", "sourceNamespace": "olm",
        },
    });
    for (key, value) in otherwise.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let document = json!({
        "apiVersion": "policy.open-cluster-management.io/v1beta1",
        "kind": "OperatorPolicy",
        "metadata": {"name": package, "namespace": "managed", "generation": 1, "uid": format!("policy-{package}")},
        "spec": spec,
    });
    serde_json::from_value(document).expect("a policy")
}

/// Changes the spec of a policy.
pub fn edit(policy: &mut OperatorPolicy, field: &str, value: Value) {
    let mut document = serde_json::to_value(&*policy).expect("a policy");
    document["spec"][field] = value;
    let generation = policy.metadata.generation.unwrap_or_default() + 1;
    document["metadata"]["generation"] = generation.into();
    *policy = serde_json::from_value(document).expect("a policy");
}

/// Status, reason and message of a condition.
pub fn said(policy: &OperatorPolicy, r#type: &str) -> (String, String, String) {
    let condition = condition(policy, r#type).unwrap_or_else(|| panic!("{type} is in the status"));
    let Ok(it) = serde_json::to_value(condition) else {
        unreachable!("conditions are JSON")
    };
    let of = |field: &str| it[field].as_str().unwrap_or_default().to_owned();
    (of("status"), of("reason"), of("message"))
}

/// The message of a condition.
pub fn words(policy: &OperatorPolicy, r#type: &str) -> String {
    said(policy, r#type).2
}

/// What the policy says of itself.
pub fn summary(policy: &OperatorPolicy) -> String {
    message(policy)
}

/// The related objects of a kind: name, compliance and reason.
pub fn related(policy: &OperatorPolicy, kind: &OperatorKind) -> Vec<(String, String, String)> {
    let related = policy.status.iter().flat_map(|it| &it.related_objects);
    let of_kind = related.filter(|it| it.object.kind == kind.kind);
    of_kind
        .map(|it| (it.object.metadata.name.clone(), it.compliant.clone(), it.reason.clone()))
        .collect()
}
