//! A hub for tests: what a plan does to it is done at once, and its clusters' agents say what the test wants.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt;
use ocm_api::{
    cluster::{Placement, PlacementDecision},
    work::{ManifestWork, ManifestWorkReplicaSet},
};
use ocm_reconcile::{Plan, Reconciler, Step};
use serde_json::{Value, json};

use super::{
    desired_state::{DesiredState, PlacementWithDecisions, Seen},
    rollout_status::RolloutStatus,
    works::ReplicaSetWorks,
    works_by_set::Member,
};

pub struct Model {
    pub now: Timestamp,
    pub set: ManifestWorkReplicaSet,
    /// Placements by name, with their clusters by decision group.
    pub placements: BTreeMap<String, Vec<Vec<String>>>,
    pub works: BTreeMap<(String, String), Value>,
    pub revisions: Vec<ControllerRevision>,
    /// Clusters whose works linger when they are deleted.
    pub linger: bool,
    serial: i64,
}

pub fn template(version: &str) -> Value {
    json!({"workload": {"manifests": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"v": version}}
    ]}})
}

impl Model {
    pub fn new(refs: Value, version: &str) -> Self {
        let set = json!({
            "metadata": {
                "name": "web", "namespace": "default", "uid": "u", "generation": 1,
                "finalizers": ["work.open-cluster-management.io/manifest-work-cleanup"]
            },
            "spec": {"placementRefs": refs, "manifestWorkTemplate": template(version)}
        });
        Self {
            now: "2026-01-01T12:00:00Z".parse().unwrap(),
            set: serde_json::from_value(set).unwrap(),
            placements: BTreeMap::new(),
            works: BTreeMap::new(),
            revisions: Vec::new(),
            linger: false,
            serial: 0,
        }
    }

    pub fn progressive(at_once: u64) -> Self {
        let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": at_once}});
        Self::new(json!([{"name": "p", "rolloutStrategy": strategy}]), "1")
    }

    pub fn choose(&mut self, placement: &str, clusters: &[&str]) -> &mut Self {
        let clusters = clusters.iter().map(|it| (*it).to_owned()).collect();
        self.placements.insert(placement.to_owned(), vec![clusters]);
        self
    }

    pub fn change(&mut self, version: &str) -> &mut Self {
        self.set.spec.manifest_work_template = serde_json::from_value(template(version)).unwrap();
        self.set.metadata.generation = self.set.metadata.generation.map(|it| it + 1);
        self
    }

    pub fn annotate(&mut self, key: &str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.set.annotations_mut().insert(key.into(), value.into()),
            None => self.set.annotations_mut().remove(key),
        };
        self
    }

    pub fn seen(&self) -> Seen {
        let references = self.set.spec.placement_refs.iter();
        Seen {
            key: "default/web".to_owned(),
            now: self.now,
            set: Some(Arc::new(self.set.clone())),
            placements: references.map(|it| self.chosen(&it.name)).collect(),
            members: self.members(),
            revisions: Some(self.revisions.iter().cloned().map(Arc::new).collect()),
            strangers: Default::default(),
            earlier: Default::default(),
        }
    }

    fn members(&self) -> Vec<Member> {
        let label = super::names::label_value(&self.set);
        let works = self.works.values();
        let works = works.map(|it| Arc::new(serde_json::from_value::<ManifestWork>(it.clone()).unwrap()));
        works
            .filter(|it| super::names::label_of(it) == Some(&label))
            .map(|it| Member::new(&it, self.now))
            .collect()
    }

    fn chosen(&self, name: &str) -> PlacementWithDecisions {
        let Some(groups) = self.placements.get(name) else {
            return PlacementWithDecisions::default();
        };
        let count: usize = groups.iter().map(Vec::len).sum();
        let listed: Vec<Value> = (0..groups.len()).map(|it| json!({"decisionGroupIndex": it})).collect();
        let placement: Placement = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default"}, "spec": {},
            "status": {"numberOfSelectedClusters": count, "decisionGroups": listed}
        }))
        .unwrap();
        let decision = |(index, clusters): (usize, &Vec<String>)| {
            let clusters: Vec<Value> = clusters
                .iter()
                .map(|it| json!({"clusterName": it, "reason": ""}))
                .collect();
            let decision = json!({
                "metadata": {
                    "name": format!("{name}-decision-{}", index + 1), "namespace": "default",
                    "labels": {
                        "cluster.open-cluster-management.io/placement": name,
                        "cluster.open-cluster-management.io/decision-group-index": index.to_string(),
                        "cluster.open-cluster-management.io/decision-group-name": ""
                    }
                },
                "status": {"decisions": clusters}
            });
            Arc::new(serde_json::from_value::<PlacementDecision>(decision).unwrap())
        };
        PlacementWithDecisions {
            placement: Some(Arc::new(placement)),
            decisions: groups.iter().enumerate().map(decision).collect(),
        }
    }

    pub fn plan(&self) -> Plan {
        ReplicaSetWorks::plan(&self.seen())
    }

    pub fn rollout(&self) -> RolloutStatus {
        let seen = self.seen();
        RolloutStatus::of(&DesiredState::of(&self.set, &seen), &seen)
    }

    /// Does what the plan says; returns the plan without what is written down for going back.
    pub fn pass(&mut self) -> String {
        let plan = self.plan();
        for step in plan.stages.iter().flatten() {
            self.play(step);
        }
        let is_told = |it: &&str| !it.contains("ControllerRevision");
        let text = plan.to_string();
        let lines: Vec<&str> = text.lines().filter(is_told).collect();
        lines.join("\n")
    }

    fn play(&mut self, step: &Step) {
        let target = step.target().unwrap();
        let name = (target.namespace.clone().unwrap_or_default(), target.name.clone());
        match (step, target.api_resource.kind.as_str()) {
            (Step::Create { object, .. }, "ManifestWork") => {
                self.serial += 1;
                let mut work = object.clone();
                work["metadata"]["uid"] = json!(format!("w{}", self.serial));
                work["metadata"]["generation"] = json!(1);
                work["metadata"]["creationTimestamp"] = json!(self.now.to_string());
                assert!(self.works.insert(name, work).is_none(), "made twice: {step}");
            }
            (Step::MergePatch { patch, .. }, "ManifestWork") => {
                let work = self.works.get_mut(&name).unwrap();
                assert_eq!(work["metadata"]["uid"], patch["metadata"]["uid"]);
                let before = work["spec"].clone();
                merge(work, patch);
                if work["spec"] != before {
                    work["metadata"]["generation"] = json!(work["metadata"]["generation"].as_i64().unwrap() + 1);
                }
            }
            (Step::Delete { .. }, "ManifestWork") if self.linger => {
                let work = self.works.get_mut(&name).unwrap();
                work["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
            }
            (Step::Delete { .. }, "ManifestWork") => {
                self.works.remove(&name).unwrap();
            }
            (Step::Create { object, .. }, "ControllerRevision") => {
                self.revisions.push(serde_json::from_value(object.clone()).unwrap());
            }
            (Step::MergePatch { patch, .. }, "ControllerRevision") => {
                let it = self
                    .revisions
                    .iter_mut()
                    .find(|it| it.name_any() == target.name)
                    .unwrap();
                it.revision = patch["revision"].as_i64();
            }
            (Step::Delete { .. }, "ControllerRevision") => self.revisions.retain(|it| it.name_any() != target.name),
            (Step::MergePatch { patch, .. }, "ManifestWorkReplicaSet") => {
                let finalizers = patch["metadata"]["finalizers"].clone();
                self.set.metadata.finalizers = serde_json::from_value(finalizers).unwrap();
            }
            (other, _) => panic!("{other}"),
        }
    }

    /// The agent of a cluster says so of all its works, at their generation.
    pub fn report(&mut self, cluster: &str, conditions: &[(&str, &str)]) -> &mut Self {
        let now = self.now.to_string();
        for ((namespace, _), work) in &mut self.works {
            if namespace == cluster {
                let generation = work["metadata"]["generation"].clone();
                let said: Vec<Value> = conditions
                    .iter()
                    .map(|(r#type, status)| {
                        json!({"type": r#type, "status": status, "reason": "R", "message": "",
                               "observedGeneration": generation, "lastTransitionTime": now})
                    })
                    .collect();
                work["status"] = json!({ "conditions": said });
            }
        }
        self
    }

    pub fn is_well(&mut self, cluster: &str) -> &mut Self {
        self.report(cluster, &[("Applied", "True"), ("Available", "True")])
    }

    pub fn is_ill(&mut self, cluster: &str) -> &mut Self {
        self.report(cluster, &[("Applied", "True"), ("Degraded", "True")])
    }

    /// `cluster=version` of every work, in order.
    pub fn show(&self) -> String {
        let works = self.works.iter();
        let shown: Vec<String> = works
            .map(|((cluster, _), work)| {
                let version = work["spec"]["workload"]["manifests"][0]["data"]["v"].as_str().unwrap();
                format!("{cluster}={version}")
            })
            .collect();
        shown.join(" ")
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let map = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            map.remove(key);
        } else {
            merge(map.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
