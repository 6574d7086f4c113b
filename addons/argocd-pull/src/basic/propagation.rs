//! Wraps Applications into ManifestWorks.
//!
//! Root: Application. Reads: its ManagedCluster. Writes: its ManifestWork, and takes `operation` and Argo CD's
//! finalizer off the Application. Never: an Application that no cluster pulls.
//! Upstream: argocd-pull-integration `internal/controller/application_controller.go`.

use std::sync::Arc;

use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::{cluster::ManagedCluster, work::ManifestWork},
    reconcile::{
        Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, Step, Target, Watches, async_trait,
        cache::{key_of, split_key},
        caches::put_written,
        rbac::Right,
    },
};
use serde_json::{Value, json};

use super::{Pulled, payload};
use crate::{application::PulledApplication, words};

/// The reconciler.
pub struct ApplicationPropagation {
    pulled: Pulled,
    clusters: Cache<ManagedCluster>,
}

/// What a plan is made from.
#[derive(Default)]
pub struct Seen {
    /// The object; `None` when it is gone.
    pub application: Option<Arc<PulledApplication>>,
    /// Its work.
    pub work: Option<Arc<ManifestWork>>,
    /// Its cluster.
    pub cluster: Option<Arc<ManagedCluster>>,
}

impl ApplicationPropagation {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            pulled: Pulled::of(caches),
            clusters: caches.of(),
        }
    }
}

#[async_trait]
impl Reconciler for ApplicationPropagation {
    const NAME: &'static str = "argocd-application";
    const WORKERS: usize = 4;
    const RIGHTS: &'static [Right] = &[
        Right::new(
            ManifestWork::GROUP,
            "manifestworks",
            "create patch delete",
            "Applications go to clusters as ManifestWorks.",
        ),
        Right::new(
            PulledApplication::GROUP,
            "applications",
            "patch",
            "An operation is taken off, and the finalizer of one that goes.",
        ),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let all = self.pulled.applications.clone();
        watches
            .root(&self.pulled.applications)
            .wakes(&self.pulled.works, |old, new| {
                old.into_iter()
                    .chain(new)
                    .filter_map(super::hub_application)
                    .collect::<Vec<_>>()
            })
            .wakes(&self.clusters, move |old, new| {
                let is_leaving = |it: &ManagedCluster| it.metadata.deletion_timestamp.is_some();
                if old.map(is_leaving) == new.map(is_leaving) {
                    return Vec::new();
                }
                let name = old.or(new).map(|it| it.name_any());
                let all = all.list();
                let of_cluster = all.iter().filter(|it| it.cluster() == name.as_deref());
                of_cluster.map(|it| key_of(&**it)).collect()
            });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let Some(application) = self.pulled.applications.get(namespace, name) else {
            return Ok(Seen::default());
        };
        let cluster = application.cluster();
        Ok(Seen {
            work: cluster.and_then(|it| self.pulled.works.get(it, &application.work_name())),
            cluster: cluster.and_then(|it| self.clusters.named(it)),
            application: Some(application.clone()),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(application) = seen.application.as_deref() else {
            return plan;
        };
        let Some(cluster) = application.cluster() else {
            plan.remark("no cluster pulls it");
            return plan;
        };
        if application.metadata.deletion_timestamp.is_some() {
            leave(&mut plan, application, seen.work.as_deref());
            return plan;
        }
        match seen.cluster.as_deref() {
            None => {
                plan.wait(format!("there is no ManagedCluster {cluster}"));
                return plan;
            }
            // Its works are being deleted, and a new one would hold it.
            Some(it) if it.metadata.deletion_timestamp.is_some() => {
                plan.wait(format!("ManagedCluster {cluster} is being deleted"));
                return plan;
            }
            Some(_) => {}
        }
        match seen.work.as_deref() {
            Some(present) if present.metadata.deletion_timestamp.is_some() => {
                plan.wait("its ManifestWork is being deleted");
                return plan;
            }
            Some(present) => plan.change(Site::Hub, present, &payload::work(application, cluster, Some(present))),
            None => Some(plan.create(Site::Hub, &payload::work(application, cluster, None))),
        };
        if application.fields.contains_key("operation") {
            // The work has it now, and would have it again with every change.
            plan.stage();
            patch(&mut plan, application, json!({ "operation": null }));
        }
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        put_written(&self.pulled.works, outcome);
        put_written(&self.pulled.applications, outcome);
    }
}

/// The finalizer holds the Application until its work is deleted.
fn leave(plan: &mut Plan, application: &PulledApplication, work: Option<&ManifestWork>) {
    let finalizers = application.finalizers();
    let others: Vec<_> = finalizers
        .iter()
        .filter(|it| *it != words::RESOURCES_FINALIZER)
        .collect();
    if others.len() == finalizers.len() {
        plan.remark("its ManifestWork goes when it is gone");
        return;
    }
    if let Some(work) = work {
        plan.delete(Site::Hub, work);
    }
    plan.stage();
    patch(plan, application, json!({"metadata": {"finalizers": others}}));
}

/// A patch of what was seen, and of nothing later.
fn patch(plan: &mut Plan, application: &PulledApplication, mut patch: Value) {
    patch["metadata"]["uid"] = json!(application.metadata.uid);
    patch["metadata"]["resourceVersion"] = json!(application.metadata.resource_version);
    plan.push(Step::MergePatch {
        target: Target::of(Site::Hub, application),
        subresource: None,
        patch,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(metadata: Value, fields: Value) -> Seen {
        let mut object = json!({"metadata": {
            "name": "a", "namespace": "argocd", "uid": "12345678", "resourceVersion": "3",
            "labels": {words::PULL: "true"}, "annotations": {words::CLUSTER: "c1"},
        }});
        for (key, value) in metadata.as_object().unwrap() {
            object["metadata"][key] = value.clone();
        }
        for (key, value) in fields.as_object().unwrap() {
            object[key] = value.clone();
        }
        Seen {
            application: Some(Arc::new(serde_json::from_value(object).unwrap())),
            work: None,
            cluster: Some(Arc::new(ManagedCluster::new("c1", Default::default()))),
        }
    }

    fn printed(seen: &Seen) -> String {
        format!("{}", ApplicationPropagation::plan(seen)).trim().to_owned()
    }

    fn with_work(mut seen: Seen) -> Seen {
        let application = seen.application.as_deref().unwrap();
        seen.work = Some(Arc::new(payload::work(application, "c1", None)));
        seen
    }

    #[test]
    fn nothing_is_created_without_a_cluster() {
        let mut no_cluster = seen(json!({}), json!({"spec": {}}));
        no_cluster.cluster = None;
        let text = printed(&no_cluster);
        assert_eq!(text, "nothing to do\nwaits: there is no ManagedCluster c1");
        let unlabelled = printed(&seen(json!({"labels": {}}), json!({})));
        assert_eq!(unlabelled, "nothing to do\nnote: no cluster pulls it");
    }

    #[test]
    fn an_operation_is_removed_after_it_was_sent() {
        let fields = json!({"operation": {"sync": {}}});
        let text = format!("{:#}", ApplicationPropagation::plan(&seen(json!({}), fields)));
        let (work, rest) = text.split_once("stage 2\n").unwrap();
        assert!(work.contains(r#""operation":{"sync":{}}"#), "{work}");
        assert_eq!(rest.trim(), r#"hub: patch Application argocd/a {"operation":null}"#);
        let kept = with_work(seen(json!({}), json!({})));
        assert_eq!(printed(&kept), "nothing to do");
    }

    #[test]
    fn a_finalizer_goes_after_the_work() {
        let metadata = json!({
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": [words::RESOURCES_FINALIZER, "other", words::RESOURCES_FINALIZER],
        });
        let deleted = with_work(seen(metadata.clone(), json!({})));
        let text = format!("{:#}", ApplicationPropagation::plan(&deleted));
        let expected = "stage 1\nhub: delete ManifestWork c1/a-12345\n\
            stage 2\nhub: patch Application argocd/a {\"metadata\":{\"finalizers\":[\"other\"]}}";
        assert_eq!(text.trim(), expected);
        let gone = printed(&seen(metadata, json!({})));
        assert_eq!(gone, "hub: patch Application argocd/a");
        let metadata = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["other"]});
        let held = printed(&with_work(seen(metadata, json!({}))));
        assert_eq!(held, "nothing to do\nnote: its ManifestWork goes when it is gone");
    }
}
