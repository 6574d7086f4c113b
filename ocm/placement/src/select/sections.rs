//! A cluster as expressions see it, made of those parts only that an expression reads: a whole one has thousands of
//! values, and an expression asks for one.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use ocm_api::cluster::ManagedCluster;
use safe_cel::{Value as Cel, language::objects::Key};
use serde::Serialize;
use serde_json::Value;

use super::cel::from_json;

/// What an expression reads of its variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Anything of it.
    Whole,
    /// These parts: `metadata` and `labels`, or a whole `status` with nothing behind it.
    Parts(BTreeSet<(String, String)>),
}

impl Default for Reads {
    fn default() -> Self {
        Self::Parts(BTreeSet::new())
    }
}

impl Reads {
    /// One part more.
    pub fn add(&mut self, section: &str, field: &str) {
        if let Self::Parts(parts) = self {
            parts.insert((section.to_owned(), field.to_owned()));
        }
    }
}

/// The parts of one cluster that were asked for so far.
#[derive(Default)]
pub struct Sections {
    whole: Option<Cel>,
    parts: HashMap<(String, String), Option<Cel>>,
}

impl Sections {
    /// The cluster, as far as it is read.
    pub fn value(&mut self, cluster: &ManagedCluster, reads: &Reads) -> Cel {
        let parts = match reads {
            Reads::Whole => return self.whole.get_or_insert_with(|| from_json(&whole(cluster))).clone(),
            Reads::Parts(parts) => parts,
        };
        let mut sections: HashMap<&str, HashMap<String, Cel>> = HashMap::new();
        let mut root: HashMap<String, Cel> = HashMap::new();
        for part in parts {
            let (section, field) = part;
            let value = match self.parts.get(part) {
                Some(value) => value.clone(),
                None => {
                    let value = read(cluster, section, field).map(|it| from_json(&it));
                    self.parts.insert(part.clone(), value.clone());
                    value
                }
            };
            if field.is_empty() {
                root.extend(value.map(|it| (section.clone(), it)));
            } else if has(cluster, section) {
                let fields = sections.entry(section).or_default();
                fields.extend(value.map(|it| (field.clone(), it)));
            }
        }
        for (section, fields) in sections {
            // A section that is read whole has its fields already.
            root.entry(section.to_owned())
                .or_insert_with(|| Cel::Map(fields.into()));
        }
        Cel::Map(root.into())
    }
}

fn has(cluster: &ManagedCluster, section: &str) -> bool {
    match section {
        "metadata" | "spec" => true,
        "status" => cluster.status.is_some(),
        _ => false,
    }
}

fn whole(cluster: &ManagedCluster) -> Value {
    let resource = kube::core::ApiResource::erase::<ManagedCluster>(&());
    ocm_reconcile::plan::typed(cluster, &resource)
}

fn json(it: &impl Serialize) -> Option<Value> {
    let value = serde_json::to_value(it).expect("a Kubernetes object serializes: its keys are strings");
    Some(value).filter(|it| !it.is_null())
}

/// One part. What most expressions ask for is looked up in its place; anything else in the section made whole.
fn read(cluster: &ManagedCluster, section: &str, field: &str) -> Option<Value> {
    let status = cluster.status.as_ref();
    match (section, field) {
        ("metadata", "name") => json(&cluster.metadata.name),
        ("metadata", "labels") => json(&cluster.metadata.labels),
        ("metadata", "annotations") => json(&cluster.metadata.annotations),
        ("status", "version") => json(&status?.version),
        ("status", "clusterClaims") => Some(&status?.cluster_claims).filter(|it| !it.is_empty()).and_then(json),
        ("status", "allocatable") => Some(&status?.allocatable).filter(|it| !it.is_empty()).and_then(json),
        ("status", "capacity") => Some(&status?.capacity).filter(|it| !it.is_empty()).and_then(json),
        ("metadata", "") => json(&cluster.metadata),
        ("spec", "") => json(&cluster.spec),
        ("status", "") => json(status?),
        (_, "") => whole(cluster).get_mut(section).map(Value::take),
        _ => read(cluster, section, "")?.get_mut(field).map(Value::take),
    }
}

/// A cluster's name, as expressions have it.
pub fn name_of(cluster: &Cel) -> Option<Arc<String>> {
    let field = |it: &Cel, key: &str| match it {
        Cel::Map(it) => it.get(&Key::from(key)).cloned(),
        _ => None,
    };
    match field(cluster, "metadata").and_then(|it| field(&it, "name")) {
        Some(Cel::String(name)) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_part_is_what_the_whole_has_there() {
        let full = json!({
            "metadata": {"name": "c1", "labels": {"env": "prod"}, "annotations": {"a": "b"}, "uid": "u"},
            "spec": {"hubAcceptsClient": true, "taints": [{"key": "a", "effect": "NoSelect"}]},
            "status": {"version": {"kubernetes": "v1"}, "allocatable": {"cpu": "1"}, "capacity": {"cpu": "1"},
                "clusterClaims": [{"name": "a", "value": "b"}],
                "conditions": [{"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        let mut no_status = full.clone();
        no_status.as_object_mut().unwrap().remove("status");
        let clusters = [
            full,
            no_status,
            json!({"metadata": {"name": "c1", "labels": {}}, "spec": {}, "status": {}}),
            json!({"metadata": {"name": "c1"}, "spec": {}}),
        ];
        let fields = [
            ("metadata", "name labels annotations uid finalizers"),
            ("spec", "taints hubAcceptsClient leaseDurationSeconds none"),
            ("status", "version allocatable capacity clusterClaims conditions none"),
        ];
        for it in clusters {
            let cluster: ManagedCluster = serde_json::from_value(it).unwrap();
            let all = whole(&cluster);
            for (section, names) in fields {
                for name in names.split(' ') {
                    assert_eq!(
                        read(&cluster, section, name).as_ref(),
                        all[section].get(name),
                        "{section}.{name} of {all}"
                    );
                    let mut reads = Reads::default();
                    reads.add(section, name);
                    let mut wanted = json!({});
                    if let Some(it) = all.get(section) {
                        wanted[section] = json!({});
                        wanted[section][name] = it.get(name).cloned().unwrap_or_default();
                        if it.get(name).is_none() {
                            wanted[section].as_object_mut().unwrap().remove(name);
                        }
                    }
                    assert_eq!(Sections::default().value(&cluster, &reads), from_json(&wanted));
                }
                assert_eq!(
                    read(&cluster, section, "").as_ref(),
                    all.get(section),
                    "{section} of {all}"
                );
            }
            assert_eq!(Sections::default().value(&cluster, &Reads::Whole), from_json(&all));
        }
    }
}
