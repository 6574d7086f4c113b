//! Deleting what is in a cluster's namespace when the cluster is deleted.
//!
//! Root: ManagedCluster. Reads: the listed kinds in its namespace, when it has to go. Writes: deletes them, lowest
//! `cleanup-priority` first, kind after kind; the finalizers in them that the cluster's agent would remove; the finalizer
//! `resource-cleanup`; condition `Deleting`.
//! Never: the namespace, its Secrets or its lease.
//! Upstream: ocm `pkg/registration/hub/gc/controller.go`, which waits for the agent. Here the agent has no rights any more.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, ListParams, PartialObjectMeta},
    core::DynamicObject,
};
use ocm_api::{
    annotations,
    cluster::ManagedCluster,
    condition::{self, wanted},
    conditions::managed_cluster::{self, reason},
    finalizers,
};
use ocm_reconcile::{
    Note, ObserveError, Outcome, Plan, Reconciler, Site, Step, Target, async_trait, execute::sentence,
};

use super::{Caches, HubOptions, first, leftovers};
use crate::status;

/// How long to wait before looking whether something is gone. Upstream waits 5 s.
const AGAIN: Duration = Duration::from_secs(1);

/// A kind that goes with its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GarbageKind {
    /// Group and version.
    pub api_version: String,
    /// The plural.
    pub resource: String,
    /// The kind.
    pub kind: String,
}

impl GarbageKind {
    /// Add-ons first, because their agents may need works to clean up; then works.
    pub fn defaults() -> Vec<Self> {
        [
            (
                "addon.open-cluster-management.io/v1beta1",
                "managedclusteraddons",
                "ManagedClusterAddOn",
            ),
            ("work.open-cluster-management.io/v1", "manifestworks", "ManifestWork"),
        ]
        .map(|(api_version, resource, kind)| Self {
            api_version: api_version.to_owned(),
            resource: resource.to_owned(),
            kind: kind.to_owned(),
        })
        .to_vec()
    }

    fn api_resource(&self) -> ApiResource {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            plural: self.resource.clone(),
        }
    }
}

/// The reconciler.
pub struct Garbage {
    client: Client,
    caches: Caches,
    kinds: Vec<GarbageKind>,
    options: Arc<HubOptions>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The cluster's name.
    pub name: String,
    /// The cluster; `None` when it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// Whether the cluster is given its finalizers in a moment, with everything else.
    pub is_to_come: bool,
    /// The first kind of which something is left, and what that is; looked at only when the cluster has to go.
    /// Or why that is not known.
    pub left: Result<Option<Left>, String>,
}

/// Something is left of a kind.
pub type Left = (GarbageKind, Vec<PartialObjectMeta<DynamicObject>>);

impl Garbage {
    /// Over these caches.
    pub fn new(client: Client, caches: &Caches, kinds: Vec<GarbageKind>, options: Arc<HubOptions>) -> Self {
        Self {
            client,
            caches: caches.clone(),
            kinds,
            options,
        }
    }
}

/// In which turn an object goes: 0 to 100, and 0 when it does not say or says nonsense.
fn priority(object: &PartialObjectMeta<DynamicObject>) -> u8 {
    let text = object.annotations().get(annotations::CLEANUP_PRIORITY);
    text.and_then(|it| it.parse().ok()).filter(|it| *it <= 100).unwrap_or(0)
}

#[async_trait]
impl Reconciler for Garbage {
    const NAME: &'static str = "resource-cleanup";
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let cluster = self.caches.clusters.named(name);
        let mut left = Ok(None);
        if cluster
            .as_deref()
            .is_none_or(|it| it.metadata.deletion_timestamp.is_some())
        {
            for kind in &self.kinds {
                let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), name, &kind.api_resource());
                let items = match api.list_metadata(&ListParams::default()).await {
                    Ok(list) => list.items,
                    // A hub without the kind has none of it.
                    Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
                    Err(error) => {
                        let why = sentence(&error.into());
                        left = Err(format!("failed to list resource {}. err:{why}", kind.resource));
                        break;
                    }
                };
                if !items.is_empty() {
                    left = Ok(Some((kind.clone(), items)));
                    break;
                }
            }
        }
        Ok(Seen {
            now: Timestamp::now(),
            name: name.to_owned(),
            is_to_come: cluster
                .as_deref()
                .is_some_and(|it| first::is_to_come(it, &self.options)),
            cluster,
            left,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        if let Some(cluster) = seen
            .cluster
            .as_deref()
            .filter(|it| it.metadata.deletion_timestamp.is_none())
        {
            if !seen.is_to_come {
                plan.add_finalizer(Site::Hub, cluster, finalizers::CLUSTER_RESOURCE_CLEANUP);
            }
            return plan;
        }
        let left = match &seen.left {
            Ok(left) => left,
            Err(why) => {
                plan.wait(why).look_again(AGAIN);
                return plan;
            }
        };
        if let Some((kind, items)) = left {
            let lowest = items.iter().map(priority).min().unwrap_or(0);
            for item in items
                .iter()
                .filter(|it| priority(it) == lowest && it.metadata.deletion_timestamp.is_none())
            {
                let target = Target {
                    site: Site::Hub,
                    api_resource: kind.api_resource(),
                    namespace: Some(seen.name.clone()),
                    name: item.name_any(),
                };
                plan.push(Step::Delete {
                    target,
                    uid: item.metadata.uid.clone(),
                    propagation: None,
                });
            }
            plan.stage();
            let going = items
                .iter()
                .filter(|it| priority(it) == lowest || it.metadata.deletion_timestamp.is_some());
            leftovers::release(
                &mut plan,
                &seen.name,
                &kind.api_resource(),
                going.map(|it| &it.metadata),
                seen.now,
            );
            plan.notes.push(Note::Wait(format!(
                "{} {} are left in namespace {}",
                items.len(),
                kind.resource,
                seen.name
            )));
            plan.look_again(AGAIN);
        } else if let Some(cluster) = seen.cluster.as_deref()
            && condition::is_true(status::conditions(cluster), managed_cluster::DELETING)
        {
            plan.remove_finalizer(Site::Hub, cluster, finalizers::CLUSTER_RESOURCE_CLEANUP);
        }
        plan
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(cluster) = seen.cluster.as_deref() else {
            return plan;
        };
        let held = cluster
            .finalizers()
            .iter()
            .any(|it| it == finalizers::CLUSTER_RESOURCE_CLEANUP);
        if cluster.metadata.deletion_timestamp.is_none() || !held {
            return plan;
        }
        let verdict = match &seen.left {
            _ if !outcome.succeeded() => wanted(
                managed_cluster::DELETING,
                false,
                reason::DELETING_ERROR,
                outcome.error_text(),
            ),
            Err(why) => wanted(managed_cluster::DELETING, false, reason::DELETING_ERROR, why.clone()),
            Ok(Some((kind, items))) => {
                let pending = items.iter().filter(|it| !it.finalizers().is_empty()).count();
                // "remaning" is upstream's spelling, and programs compare messages.
                let message = format!(
                    "The resource {} is remaning, the remaining count is {}, the finalizer pending count is {pending}",
                    kind.resource,
                    items.len()
                );
                wanted(managed_cluster::DELETING, false, reason::RESOURCE_REMAINING, message)
            }
            // Said once; the finalizer goes in the run that this write causes.
            Ok(None) if !condition::is_true(status::conditions(cluster), managed_cluster::DELETING) => wanted(
                managed_cluster::DELETING,
                true,
                reason::NO_RESOURCE,
                "No cleaned resource in cluster ns.",
            ),
            Ok(None) => return plan,
        };
        plan.status(Site::Hub, cluster, &status::saying(cluster, verdict, seen.now));
        plan
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_that_fails_is_told_and_nothing_goes_before_it_is_known_what_is_left() {
        let cluster = json!({
            "metadata": {
                "name": "cluster1", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": [finalizers::CLUSTER_RESOURCE_CLEANUP]
            },
            "spec": {},
            "status": {"conditions": [{
                "type": managed_cluster::DELETING, "status": "True", "reason": reason::NO_RESOURCE, "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"
            }]}
        });
        let seen = Seen {
            now: "2026-01-02T03:04:05Z".parse().unwrap(),
            name: "cluster1".to_owned(),
            cluster: Some(Arc::new(serde_json::from_value(cluster).unwrap())),
            is_to_come: false,
            left: Err("failed to list resource manifestworks. err:no".to_owned()),
        };
        assert_eq!(
            Garbage::plan(&seen).to_string(),
            "nothing to do\nwaits: failed to list resource manifestworks. err:no\nagain in 1s\n"
        );
        let said = format!("{:#}", Garbage::conclude(&seen, &Outcome::default()));
        assert!(
            said.contains("\"reason\":\"DeletingError\",\"status\":\"False\"")
                && said.contains("manifestworks. err:no"),
            "{said}"
        );
    }

    #[test]
    fn the_hub_lets_go_of_the_works_of_a_cluster_that_is_deleted_whatever_its_agent_has_put_there() {
        let mut cluster = json!({
            "metadata": {
                "name": "cluster1", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": [finalizers::CLUSTER_RESOURCE_CLEANUP]
            },
            "spec": {},
        });
        let object = |finalizers: serde_json::Value| {
            let it = json!({"metadata": {"name": "w", "namespace": "cluster1", "uid": "u", "finalizers": finalizers}});
            serde_json::from_value(it).unwrap()
        };
        let [add_ons, works] = <[GarbageKind; 2]>::try_from(GarbageKind::defaults()).unwrap();
        let planned = |cluster: Option<&serde_json::Value>, kind: &GarbageKind, object| {
            let seen = Seen {
                now: "2026-01-02T03:04:05Z".parse().unwrap(),
                name: "cluster1".to_owned(),
                cluster: cluster.map(|it| Arc::new(serde_json::from_value(it.clone()).unwrap())),
                is_to_come: false,
                left: Ok(Some((kind.clone(), vec![object]))),
            };
            format!("{:#}", Garbage::plan(&seen))
        };
        let held = || object(json!([finalizers::MANIFEST_WORK, "example.com/mine"]));
        let expected = r#"patch ManifestWork cluster1/w {"metadata":{"finalizers":[]}}"#;
        let plan = planned(Some(&cluster), &works, held());
        assert!(
            plan.contains("delete ManifestWork cluster1/w") && plan.contains(expected),
            "{plan}"
        );
        assert!(plan.contains("FinalizersRemoved"), "{plan}");
        assert!(planned(None, &works, held()).contains(expected));
        // What is cleaned up elsewhere is somebody else's, whose rights stand.
        let hosted = object(json!([
            finalizers::ADDON_PRE_DELETE,
            finalizers::ADDON_HOSTING_MANIFESTS
        ]));
        let plan = planned(Some(&cluster), &add_ons, hosted);
        let staying = format!(
            r#"{{"metadata":{{"finalizers":["{}"]}}}}"#,
            finalizers::ADDON_HOSTING_MANIFESTS
        );
        assert!(plan.contains(&staying), "{plan}");
        // A cluster that is denied keeps its works.
        cluster["metadata"]["deletionTimestamp"] = serde_json::Value::Null;
        assert!(!planned(Some(&cluster), &works, held()).contains("ManifestWork"));
    }
}
