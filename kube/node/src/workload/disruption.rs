//! PodDisruptionBudgets: what the eviction of a pod asks is worked out and written.
//!
//! root: PodDisruptionBudget; reads: the pods that it selects, what controls them, and the scale of controllers that we
//! do not know; writes: its status; never: a pod, or the note of an eviction that is under way.
//! Upstream: kubernetes pkg/controller/disruption, `disruption.go`. We differ in two things: when a controller wants
//! another number of pods, its budgets are looked at, where upstream waits for a pod to change;
//! and an event is told once, not with every look.

use super::{Again, Error, Workloads, budget, pods};
use crate::events::EventType;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet, StatefulSet},
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api,
    api::{DynamicObject, PostParams},
    core::{GroupVersion, GroupVersionKind},
    discovery,
};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// As upstream's controller names itself in events.
const COMPONENT: &str = "controllermanager";

/// How many pods the controllers of some pods want, and which pods have none.
#[derive(Default)]
struct Wanted {
    sum: i32,
    unmanaged: bool,
}

/// A controller by its uid, and how many pods it wants.
type Controller = (String, i32);

/// What is odd about the pods of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remark {
    None,
    NoPods,
    Unmanaged,
}

/// What was told last of each budget, by namespace and name, with the uid that it had.
pub type Remarks = Mutex<HashMap<(String, String), (Option<String>, Remark)>>;

/// Why it is not known how many pods a budget is to have.
enum Unknown {
    /// It stays so until something changes.
    Settled(String),
    /// The API server did not say; it may when it is asked again.
    Unasked(Error),
}

/// How many pods a Deployment wants.
pub fn of_deployment(it: &Deployment) -> i32 {
    it.spec.replicas.unwrap_or(1)
}

/// How many pods a ReplicaSet wants.
pub fn of_replica_set(it: &ReplicaSet) -> i32 {
    it.spec.replicas.unwrap_or(1)
}

/// How many pods a StatefulSet wants.
pub fn of_stateful_set(it: &StatefulSet) -> i32 {
    it.spec.replicas.unwrap_or(1)
}

impl Workloads {
    pub(super) async fn budget(&self, budget: &Arc<PodDisruptionBudget>) -> Result<Again, Error> {
        let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
        let spec = budget.spec.clone().unwrap_or_default();
        let all = self.pods.list_in(namespace);
        let pods: Vec<Arc<Pod>> = all.into_iter().filter(|it| budget::selects(&spec, it)).collect();
        let wanted = match budget::expects(&spec) {
            budget::Expects::Controllers => self.wanted(namespace, &pods).await,
            budget::Expects::Pods => Ok(Wanted {
                sum: i32::try_from(pods.len()).unwrap_or(i32::MAX),
                ..Wanted::default()
            }),
            budget::Expects::Nothing => Ok(Wanted::default()),
        };
        let now = Timestamp::now();
        let standing = wanted.and_then(|wanted| {
            let found = budget::standing(budget, &pods, wanted.sum, now);
            let found = found.map_err(|it| Unknown::Settled(it.to_owned()))?;
            Ok((found, wanted.unmanaged))
        });
        let (standing, unmanaged) = match standing {
            Ok(it) => it,
            Err(Unknown::Settled(why)) => return self.write_failure(budget, &why, now).await.map(|()| None),
            Err(Unknown::Unasked(error)) => {
                self.write_failure(budget, &pods::said(&error), now).await?;
                return Err(error);
            }
        };
        let written = self.write_budget(budget, &standing.status).await?;
        let remark = match (pods.is_empty(), unmanaged) {
            (true, _) => Remark::NoPods,
            (false, true) => Remark::Unmanaged,
            (false, false) => Remark::None,
        };
        self.remark(budget, remark);
        // Who is overdue is no more in what was written, so that this is told once.
        let overdue = standing.overdue.iter().filter(|_| written);
        for pod in overdue {
            // Upstream says the namespace twice where the name belongs.
            let name = budget.metadata.name.as_deref().unwrap_or_default();
            let text = format!("Pod was expected by PDB {namespace}/{name} to be deleted but it wasn't");
            self.tell(&**pod, COMPONENT, EventType::Warning, "NotDeleted", text);
        }
        Ok(standing.next)
    }

    /// Tells what is odd about the pods of a budget, when it was not the last that was told. It shows in no status.
    fn remark(&self, budget: &Arc<PodDisruptionBudget>, remark: Remark) {
        let meta = &budget.metadata;
        let key = (
            meta.namespace.clone().unwrap_or_default(),
            meta.name.clone().unwrap_or_default(),
        );
        let new = (meta.uid.clone(), remark);
        let old = self.remarks.lock().insert(key, new.clone());
        if old.as_ref() == Some(&new) {
            return;
        }
        match remark {
            Remark::None => {}
            Remark::NoPods => {
                let text = "No matching pods found";
                self.tell(&**budget, COMPONENT, EventType::Normal, "NoPods", text);
            }
            Remark::Unmanaged => {
                let selector = budget.spec.as_ref().and_then(|it| it.selector.as_ref());
                let selector = selector.map_or_else(|| "nil".to_owned(), budget::in_go);
                let text = format!(
                    "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a \
                     result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. \
                     To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
                );
                self.tell(&**budget, COMPONENT, EventType::Warning, "UnmanagedPods", text);
            }
        }
    }

    /// Forgets a budget that is gone.
    pub(super) fn budget_gone(&self, namespace: &str, name: &str) {
        self.remarks.lock().remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Says that a budget cannot be worked out, so that none of its pods is evicted by what it said before.
    async fn write_failure(&self, budget: &Arc<PodDisruptionBudget>, why: &str, now: Timestamp) -> Result<(), Error> {
        if self.write_budget(budget, &budget::failed(budget, why, now)).await? {
            let meta = &budget.metadata;
            tracing::warn!(
                namespace = meta.namespace,
                budget = meta.name,
                why,
                "a disruption budget cannot be worked out, and its pods cannot be evicted; \
                 a number as .spec.minAvailable needs no controllers that scale"
            );
            let text = format!("Failed to calculate the number of expected pods: {why}");
            self.tell(
                &**budget,
                COMPONENT,
                EventType::Warning,
                "CalculateExpectedPodCountFailed",
                text,
            );
        }
        Ok(())
    }

    /// Writes the status of a budget if it says something else, and tells whether it did. It has to be the state that
    /// was looked at: an eviction that the status does not count would be allowed twice. A conflict is an error, so
    /// that the newer state is looked at.
    async fn write_budget(
        &self,
        budget: &Arc<PodDisruptionBudget>,
        status: &PodDisruptionBudgetStatus,
    ) -> Result<bool, Error> {
        if budget::says(budget, status) {
            return Ok(false);
        }
        let mut changed = PodDisruptionBudget::clone(budget);
        changed.status = Some(status.clone());
        let meta = &budget.metadata;
        let api = self.api::<PodDisruptionBudget>(meta.namespace.as_deref());
        let name = meta.name.as_deref().unwrap_or_default();
        match api.replace_status(name, &PostParams::default(), &changed).await {
            Ok(written) => {
                self.budgets.put(written);
                Ok(true)
            }
            Err(Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => {
                if !matches!(&error, Error::Api(status) if status.code == 409) {
                    tracing::warn!(
                        namespace = meta.namespace, budget = name, %error,
                        "could not write the status of a disruption budget, will try again; until then evictions go by \
                         the old one; the user of the node has to be allowed to update poddisruptionbudgets/status"
                    );
                }
                Err(error)
            }
        }
    }

    /// How many pods the controllers of these pods want, each counted once.
    async fn wanted(&self, namespace: &str, pods: &[Arc<Pod>]) -> Result<Wanted, Unknown> {
        let mut asked = HashSet::new();
        let mut controllers = HashMap::new();
        let mut unmanaged = false;
        for pod in pods {
            let Some(owner) = pods::controller(&pod.metadata) else {
                unmanaged = true;
                continue;
            };
            if !asked.insert(&owner.uid) {
                continue;
            }
            let known = self.known(namespace, owner);
            let found = match known {
                Some(it) => Some(it),
                None => self.scale(namespace, owner).await?,
            };
            let (uid, count) = found.ok_or_else(|| {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                Unknown::Settled(format!("found no controllers for pod {name:?}"))
            })?;
            controllers.insert(uid, count);
        }
        let sum = controllers.values().fold(0_i32, |sum, it| sum.saturating_add(*it));
        Ok(Wanted { sum, unmanaged })
    }

    /// The controller behind an owner of pods, among those that we watch: of a ReplicaSet its Deployment,
    /// if it has one.
    fn known(&self, namespace: &str, owner: &OwnerReference) -> Option<Controller> {
        let (group, name) = (group(owner), &*owner.name);
        let uid = Some(&owner.uid);
        match (group, &*owner.kind) {
            ("apps" | "extensions", "ReplicaSet") => {
                let set = self.replica_sets.get(namespace, name);
                let set = set.filter(|it| it.metadata.uid.as_ref() == uid)?;
                let above = pods::controller(&set.metadata)
                    .filter(|it| it.kind == "Deployment" && matches!(self::group(it), "apps" | "extensions"));
                let deployment = above.and_then(|above| {
                    let found = self.deployments.get(namespace, &above.name);
                    found.filter(|it| it.metadata.uid.as_ref() == Some(&above.uid))
                });
                Some(match deployment {
                    Some(it) => (it.metadata.uid.clone()?, of_deployment(&it)),
                    None => (owner.uid.clone(), of_replica_set(&set)),
                })
            }
            ("apps", "StatefulSet") => {
                let set = self.stateful_sets.get(namespace, name);
                let set = set.filter(|it| it.metadata.uid.as_ref() == uid)?;
                Some((owner.uid.clone(), of_stateful_set(&set)))
            }
            _ => None,
        }
    }

    /// What the API server says that an owner of any kind wants; nothing if that owner is gone.
    async fn scale(&self, namespace: &str, owner: &OwnerReference) -> Result<Option<Controller>, Unknown> {
        let no_kind = || {
            let (kind, version) = (&owner.kind, &owner.api_version);
            Unknown::Settled(format!("no matches for kind {kind:?} in version {version:?}"))
        };
        let version: GroupVersion = owner.api_version.parse().map_err(|_| no_kind())?;
        let kind = GroupVersionKind::gvk(&version.group, &version.version, &owner.kind);
        let (resource, abilities) = match discovery::pinned_kind(&self.client, &kind).await {
            Ok(it) => it,
            Err(Error::Discovery(_)) => return Err(no_kind()),
            Err(Error::Api(status)) if status.code == 404 => return Err(no_kind()),
            Err(error) => return Err(Unknown::Unasked(error)),
        };
        if !abilities.subresources.iter().any(|(it, _)| it.plural == "scale") {
            let dot = if resource.group.is_empty() { "" } else { "." };
            let (plural, group) = (&resource.plural, &resource.group);
            let why = format!("{plural}{dot}{group} does not implement the scale subresource");
            return Err(Unknown::Settled(why));
        }
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        match api.get_scale(&owner.name).await {
            Ok(scale) if scale.metadata.uid.as_ref() == Some(&owner.uid) => {
                let count = scale.spec.and_then(|it| it.replicas).unwrap_or_default();
                Ok(Some((owner.uid.clone(), count)))
            }
            Ok(_) => Ok(None),
            Err(Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(Unknown::Unasked(error)),
        }
    }
}

fn group(owner: &OwnerReference) -> &str {
    owner.api_version.split_once('/').map_or("", |(group, _)| group)
}
