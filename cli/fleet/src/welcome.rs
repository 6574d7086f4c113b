//! Says yes, on the hub's side, to the clusters that `drover up` starts itself: the second half of the double opt-in,
//! which an administrator does with `drover accept` for all others.
//!
//! Root: ManagedCluster, of this process. Reads: CertificateSigningRequests. Writes: `spec.hubAcceptsClient` once;
//! approvals. Never: anything about other clusters, or about a cluster that an administrator has denied since.

use std::sync::Arc;

use client::csr::{self, Stage};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use ocm_api::{cluster::ManagedCluster, condition, conditions::managed_cluster as conditions};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Plan, Reconciler, Site, Step, Target, Watches, async_trait, rbac::Right,
};
use registration::hub::of_clusters;

/// The user that the agent of one of our clusters bootstraps as. Only this process can be it: it has the hub's CA sign
/// the certificate, and keeps it in memory. So a second agent that comes with an ordinary token
/// and the same cluster's name is not waved through.
pub fn bootstrap_user(cluster: &str) -> String {
    format!("system:bootstrap:drover-up:{cluster}")
}

/// The group that gives the user above its rights.
pub const BOOTSTRAP_GROUP: &str = "system:bootstrappers:managedcluster";

const CERTIFICATES: &str = "certificates.k8s.io";

/// Welcomes the clusters of this process.
pub struct Welcome {
    clusters: Cache<ManagedCluster>,
    csrs: Cache<CertificateSigningRequest>,
    ours: Vec<String>,
}

/// One of our clusters as the hub has it.
#[derive(Debug)]
pub struct Seen {
    name: String,
    is_ours: bool,
    cluster: Option<Arc<ManagedCluster>>,
    csrs: Vec<Arc<CertificateSigningRequest>>,
}

impl Welcome {
    /// Over the caches of the hub, for these clusters.
    pub fn new(caches: &Caches, ours: Vec<String>) -> Self {
        Self {
            clusters: caches.of(),
            csrs: of_clusters::requests(caches),
            ours,
        }
    }
}

#[async_trait]
impl Reconciler for Welcome {
    const NAME: &'static str = "welcome";
    const RIGHTS: &'static [Right] = &[
        Right::new(ManagedCluster::GROUP, "managedclusters", "patch", "To accept clusters,"),
        Right::new(
            CERTIFICATES,
            "certificatesigningrequests/approval",
            "patch",
            "and their agents.",
        ),
        Right::new(CERTIFICATES, "signers", "approve", "The same."),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.clusters).wakes(&self.csrs, |_, new| {
            new.and_then(csr::labelled_cluster).map(str::to_owned)
        });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let csrs = self.csrs.list().into_iter();
        Ok(Seen {
            name: key.to_owned(),
            is_ours: self.ours.iter().any(|it| it == key),
            cluster: self.clusters.named(key),
            csrs: csrs.filter(|it| csr::labelled_cluster(it) == Some(key)).collect(),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(cluster) = seen.cluster.as_deref().filter(|_| seen.is_ours) else {
            plan.wait(format!(
                "cluster {} has not asked to join, or is not one of ours",
                seen.name
            ));
            return plan;
        };
        let conditions = cluster.status.as_ref().map_or(&[][..], |it| &it.conditions);
        let is_new = condition::find(conditions, conditions::HUB_ACCEPTED).is_none();
        match (cluster.spec.hub_accepts_client, is_new) {
            (true, _) => {}
            (false, true) => {
                let mut accepted = cluster.clone();
                accepted.spec.hub_accepts_client = true;
                plan.change(Site::Hub, cluster, &accepted);
                plan.stage();
            }
            (false, false) => {
                plan.refuse(format!("cluster {} was denied by an administrator", seen.name));
                return plan;
            }
        }
        let trusted = bootstrap_user(&seen.name);
        for csr in &seen.csrs {
            let from_us = csr.spec.username.as_deref() == Some(&trusted);
            if from_us && csr::stage(csr) == Stage::Pending && csr::fault(csr, &seen.name, &[]).is_none() {
                plan.push(Step::MergePatch {
                    target: Target::of(Site::Hub, &**csr),
                    subresource: Some("approval"),
                    patch: csr::approval(csr, "DroverUp", "This CSR was approved by drover up."),
                });
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(accepts: bool, conditions: &serde_json::Value) -> Seen {
        let cluster = json!({
            "metadata": {"name": "cluster1", "uid": "u", "resourceVersion": "1"},
            "spec": {"hubAcceptsClient": accepts}, "status": {"conditions": conditions},
        });
        Seen {
            name: "cluster1".into(),
            is_ours: true,
            cluster: Some(Arc::new(serde_json::from_value(cluster).unwrap())),
            csrs: vec![Arc::new(testkit::cluster_request::of_agent(
                "cluster1",
                &bootstrap_user("cluster1"),
            ))],
        }
    }

    #[test]
    fn a_new_cluster_is_accepted_and_then_its_request_approved() {
        let page = Welcome::plan(&seen(false, &json!([])));
        assert_eq!(page.stages.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1], "{page}");
        let page = Welcome::plan(&seen(true, &json!([])));
        assert_eq!(page.len(), 1, "{page}");
    }

    #[test]
    fn a_cluster_that_an_administrator_denied_is_left_denied() {
        let denied = json!([{
            "type": "HubAcceptedManagedCluster", "status": "False", "reason": "HubClusterAdminDenied", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        assert!(Welcome::plan(&seen(false, &denied)).is_empty());
    }

    #[test]
    fn a_second_agent_with_the_same_name_is_not_approved() {
        let mut seen = seen(true, &json!([]));
        Arc::make_mut(&mut seen.csrs[0]).spec.username =
            Some("system:serviceaccount:open-cluster-management:agent-registration-bootstrap".into());
        assert!(Welcome::plan(&seen).is_empty());
    }

    #[test]
    fn clusters_of_others_are_ignored() {
        let seen = Seen {
            is_ours: false,
            ..seen(false, &json!([]))
        };
        assert!(Welcome::plan(&seen).is_empty());
    }
}
