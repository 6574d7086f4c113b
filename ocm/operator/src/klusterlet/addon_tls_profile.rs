//! Gives the namespaces of add-ons the TLS profile of the cluster's administrator.
//!
//! Root: a Namespace with the label `addon.open-cluster-management.io/namespace: "true"`. Reads: the ConfigMap
//! `ocm-tls-profile` in the operator's namespace.
//! Writes: a copy of it in each of them; takes the copies away with it.
//! Never: the profile itself.
//! Upstream: ocm `pkg/operator/operators/klusterlet/controllers/addontlsconfigcontroller/controller.go`. We differ in
//! this: a profile that changes is copied at once.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{ResourceExt, api::ObjectMeta, core::PartialObjectMeta};
use ocm_reconcile::{Cache, ObserveError, Plan, Reconciler, Site, Watches, async_trait, rbac::Right};

use super::{ground::AgentOperator, names, permissions};

/// The reconciler.
pub struct AddonTlsProfile {
    operator: Arc<AgentOperator>,
    wanting: Cache<PartialObjectMeta<Namespace>>,
    copies: Cache<ConfigMap>,
}

/// What a plan is made from.
pub struct Seen {
    /// The namespace's name.
    pub namespace: String,
    /// The namespace, if it wants a copy.
    pub wanting: Option<Arc<PartialObjectMeta<Namespace>>>,
    /// The profile, if there is one.
    pub source: Option<Arc<ConfigMap>>,
    /// The ConfigMap of that name in the namespace.
    pub present: Option<Arc<ConfigMap>>,
}

impl AddonTlsProfile {
    /// Of this operator, over the namespaces that want copies.
    pub fn new(
        operator: Arc<AgentOperator>,
        wanting: Cache<PartialObjectMeta<Namespace>>,
        copies: Cache<ConfigMap>,
    ) -> Self {
        Self {
            operator,
            wanting,
            copies,
        }
    }
}

#[async_trait]
impl Reconciler for AddonTlsProfile {
    const NAME: &'static str = "addon-tls-config";
    const RIGHTS: &'static [Right] = permissions::TLS_PROFILES;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let wanting = self.wanting.clone();
        watches
            .root(&self.wanting)
            .wakes(&self.copies, |old: Option<&ConfigMap>, new| new.or(old)?.namespace())
            .wakes(&self.operator.tls_profile, move |_, _| {
                wanting.list().into_iter().map(|it| it.name_any()).collect::<Vec<_>>()
            });
    }

    async fn observe(&self, namespace: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            namespace: namespace.to_owned(),
            wanting: self.wanting.named(namespace),
            source: self.operator.tls_profile.list().into_iter().next(),
            present: self.copies.get(namespace, names::TLS_PROFILE),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let wanting = seen.wanting.as_deref();
        if wanting.is_none_or(|it| it.metadata.deletion_timestamp.is_some()) {
            return plan;
        }
        match (&seen.source, &seen.present) {
            (Some(source), _) if source.namespace().as_ref() == Some(&seen.namespace) => {}
            (Some(source), None) => {
                let copy = ConfigMap {
                    metadata: ObjectMeta {
                        name: Some(names::TLS_PROFILE.to_owned()),
                        namespace: Some(seen.namespace.clone()),
                        ..ObjectMeta::default()
                    },
                    data: source.data.clone(),
                    ..ConfigMap::default()
                };
                plan.create(Site::Cluster, &copy);
            }
            (Some(source), Some(present)) => {
                let next = ConfigMap {
                    data: source.data.clone(),
                    ..(**present).clone()
                };
                plan.change(Site::Cluster, &**present, &next);
            }
            (None, Some(present)) => {
                plan.delete(Site::Cluster, &**present);
            }
            (None, None) => {}
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn profile(namespace: &str, version: &str) -> Option<Arc<ConfigMap>> {
        let metadata = json!({"name": names::TLS_PROFILE, "namespace": namespace});
        let object = json!({"metadata": metadata, "data": {"minTLSVersion": version}});
        Some(Arc::new(serde_json::from_value(object).unwrap()))
    }

    #[test]
    fn a_labelled_namespace_has_the_profile_as_it_is() {
        let planned = |source, present| {
            let wanting = serde_json::from_value(json!({"metadata": {"name": "hello"}})).unwrap();
            let plan = AddonTlsProfile::plan(&Seen {
                namespace: "hello".to_owned(),
                wanting: Some(Arc::new(wanting)),
                source,
                present,
            });
            plan.to_string().trim().to_owned()
        };
        let of = |version| profile("open-cluster-management", version);
        let there = |version| profile("hello", version);
        assert_eq!(
            planned(of("a"), None),
            "cluster: create ConfigMap hello/ocm-tls-profile"
        );
        assert_eq!(planned(of("a"), there("a")), "nothing to do");
        assert_eq!(
            planned(of("b"), there("a")),
            "cluster: patch ConfigMap hello/ocm-tls-profile"
        );
        assert_eq!(
            planned(None, there("a")),
            "cluster: delete ConfigMap hello/ocm-tls-profile"
        );
        assert_eq!(planned(there("a"), there("a")), "nothing to do");
    }
}
