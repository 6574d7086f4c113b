//! The two sets that are always there: `default` for clusters that name no set, `global` for all.
//!
//! Root: the two ManagedClusterSets. Writes: creates them, and reverts their selector. Never: touches one that carries
//! the annotation `cluster.open-cluster-management.io/autoupdate: "false"`, nor any field but the selector. Upstream:
//! ocm `pkg/registration/hub/managedclusterset/{default,global}_managedclusterset_controller.go`.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use ocm_api::{
    annotations,
    cluster::{ManagedClusterSelector, ManagedClusterSet, ManagedClusterSetSpec, SelectorType},
    namespaces,
};
use ocm_reconcile::{Cache, Caches, ObserveError, Plan, Reconciler, Site, Watches, async_trait, rbac::Right};

const SETS: [&str; 2] = [namespaces::DEFAULT_CLUSTER_SET, namespaces::GLOBAL_CLUSTER_SET];

/// The reconciler.
pub struct DefaultSets {
    sets: Cache<ManagedClusterSet>,
}

/// What a plan is made from.
pub struct Seen {
    /// `default` or `global`.
    pub name: String,
    /// The set as it is.
    pub set: Option<Arc<ManagedClusterSet>>,
}

impl DefaultSets {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self { sets: caches.of() }
    }
}

fn selector(name: &str) -> ManagedClusterSelector {
    if name == namespaces::GLOBAL_CLUSTER_SET {
        ManagedClusterSelector {
            selector_type: SelectorType::LabelSelector,
            label_selector: Some(LabelSelector::default()),
        }
    } else {
        ManagedClusterSelector {
            selector_type: SelectorType::ExclusiveClusterSetLabel,
            label_selector: None,
        }
    }
}

#[async_trait]
impl Reconciler for DefaultSets {
    const NAME: &'static str = "default-cluster-sets";
    const WORKERS: usize = super::WORKERS;
    const RIGHTS: &'static [Right] = &[Right::new(
        ManagedClusterSet::GROUP,
        "managedclustersets",
        "create patch",
        "`default` and `global` are made.",
    )];
    type Seen = Seen;

    /// The two sets, which are looked at once even if they never were there.
    fn watches(&self, watches: &mut Watches) {
        let ours = |name: &String| SETS.contains(&name.as_str());
        watches
            .signal("the start", |queue| SETS.into_iter().for_each(|name| queue.add(name)))
            .wakes(&self.sets, move |old, new| Some(new.or(old)?.name_any()).filter(ours));
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            name: name.to_owned(),
            set: self.sets.named(name),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let cluster_selector = selector(&seen.name);
        match seen.set.as_deref() {
            None => {
                let spec = ManagedClusterSetSpec {
                    cluster_selector,
                    ..ManagedClusterSetSpec::default()
                };
                plan.create(Site::Hub, &ManagedClusterSet::new(&seen.name, spec));
            }
            Some(set)
                if set
                    .annotations()
                    .get(annotations::AUTOUPDATE)
                    .is_some_and(|it| it == "false") =>
            {
                plan.remark("the annotation autoupdate: \"false\" leaves this set to its owner");
            }
            Some(set) if set.metadata.deletion_timestamp.is_some() => {}
            Some(set) => {
                let mut new = set.clone();
                new.spec.cluster_selector = cluster_selector;
                plan.change(Site::Hub, set, &new);
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(name: &str, set: Option<Value>, printed: &str) {
        let set = set.map(|it| Arc::new(serde_json::from_value(it).unwrap()));
        let plan = DefaultSets::plan(&Seen {
            name: name.to_owned(),
            set,
        });
        assert_eq!(format!("{plan:#}").trim(), printed);
    }

    #[test]
    fn a_missing_set_is_created() {
        check(
            "global",
            None,
            r#"hub: create ManagedClusterSet global {"spec":{"clusterSelector":{"labelSelector":{},"selectorType":"LabelSelector"}}}"#,
        );
    }

    #[test]
    fn an_edited_selector_is_reverted_unless_autoupdate_is_off() {
        let edited = json!({"metadata": {"name": "global"},
            "spec": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"a": "b"}}}}});
        check(
            "global",
            Some(edited.clone()),
            r#"hub: patch ManagedClusterSet global {"spec":{"clusterSelector":{"labelSelector":{"matchLabels":null}}}}"#,
        );
        let mut left_alone = edited;
        left_alone["metadata"]["annotations"] = json!({"cluster.open-cluster-management.io/autoupdate": "false"});
        check(
            "global",
            Some(left_alone),
            "nothing to do\nnote: the annotation autoupdate: \"false\" leaves this set to its owner",
        );
    }
}
