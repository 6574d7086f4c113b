//! Gives the namespaces of add-ons the credential that images are pulled with.
//!
//! Root: a Namespace with the label `addon.open-cluster-management.io/namespace: "true"`. Reads: the Secret
//! `open-cluster-management-image-pull-credentials` in the operator's namespace.
//! Writes: a copy of it in each of them; takes its own copies away with the Secret.
//! Never: a copy whose namespace is no longer labelled.
//! Upstream: ocm `pkg/operator/operators/klusterlet/controllers/addonsecretcontroller/controller.go`. We differ in
//! these: a Secret that changes is copied at once; one that somebody else made is not deleted.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{ResourceExt, api::ObjectMeta, core::PartialObjectMeta};
use ocm_api::namespaces::PULL_SECRET;
use ocm_reconcile::{
    Cache, ObserveError, Plan, Reconciler, Site, Watches, async_trait, install::MANAGED_BY, rbac::Right,
};

use super::{ground::AgentOperator, permissions};

/// What [`MANAGED_BY`] says on copies. The agent has copies of its own, and leaves these alone.
const MANAGER: &str = "klusterlet";

/// The reconciler.
pub struct AddonPullSecret {
    operator: Arc<AgentOperator>,
    wanting: Cache<PartialObjectMeta<Namespace>>,
    copies: Cache<Secret>,
}

/// What a plan is made from.
pub struct Seen {
    /// The namespace's name.
    pub namespace: String,
    /// The namespace, if it wants a copy.
    pub wanting: Option<Arc<PartialObjectMeta<Namespace>>>,
    /// The Secret, if there is one to copy.
    pub source: Option<Arc<Secret>>,
    /// The Secret of that name in the namespace.
    pub present: Option<Arc<Secret>>,
}

impl AddonPullSecret {
    /// Of this operator, over the namespaces that want copies.
    pub fn new(
        operator: Arc<AgentOperator>,
        wanting: Cache<PartialObjectMeta<Namespace>>,
        copies: Cache<Secret>,
    ) -> Self {
        Self {
            operator,
            wanting,
            copies,
        }
    }
}

#[async_trait]
impl Reconciler for AddonPullSecret {
    const NAME: &'static str = "addon-pull-image-secret";
    const RIGHTS: &'static [Right] = permissions::PULL_SECRETS;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let wanting = self.wanting.clone();
        watches
            .root(&self.wanting)
            .wakes(&self.copies, |old: Option<&Secret>, new| new.or(old)?.namespace())
            .wakes(&self.operator.pull_secret, move |_, _| {
                wanting.list().into_iter().map(|it| it.name_any()).collect::<Vec<_>>()
            });
    }

    async fn observe(&self, namespace: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            namespace: namespace.to_owned(),
            wanting: self.wanting.named(namespace),
            source: self.operator.pull_secret.list().into_iter().next(),
            present: self.copies.get(namespace, PULL_SECRET),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let wanting = seen.wanting.as_deref();
        // Nothing can be made in a namespace that is being deleted.
        if wanting.is_none_or(|it| it.metadata.deletion_timestamp.is_some()) {
            return plan;
        }
        match (&seen.source, &seen.present) {
            (Some(source), _) if source.namespace().as_ref() == Some(&seen.namespace) => {}
            (Some(source), None) => {
                plan.create(Site::Cluster, &copy_of(source, &seen.namespace));
            }
            // A type cannot be changed; the copy is made anew when this one is gone.
            (Some(source), Some(present)) if present.type_ != source.type_ => {
                plan.delete(Site::Cluster, &**present);
            }
            (Some(source), Some(present)) => {
                let next = Secret {
                    data: source.data.clone(),
                    ..(**present).clone()
                };
                plan.change(Site::Cluster, &**present, &next);
            }
            (None, Some(present)) if present.labels().get(MANAGED_BY).is_some_and(|it| it == MANAGER) => {
                plan.delete(Site::Cluster, &**present);
            }
            (None, _) => {}
        }
        plan
    }
}

fn copy_of(source: &Secret, namespace: &str) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(PULL_SECRET.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(MANAGED_BY.to_owned(), MANAGER.to_owned())])),
            ..ObjectMeta::default()
        },
        data: source.data.clone(),
        type_: source.type_.clone(),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn secret(namespace: &str, more: Value) -> Arc<Secret> {
        let mut object =
            json!({"metadata": {"name": PULL_SECRET, "namespace": namespace}, "type": "t", "data": {"a": "YQ=="}});
        ocm_reconcile::difference::apply_merge_patch(&mut object, &more);
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn planned(source: Option<Arc<Secret>>, present: Option<Arc<Secret>>) -> String {
        let wanting = serde_json::from_value(json!({"metadata": {"name": "hello"}})).unwrap();
        let plan = AddonPullSecret::plan(&Seen {
            namespace: "hello".to_owned(),
            wanting: Some(Arc::new(wanting)),
            source,
            present,
        });
        plan.to_string().trim().replace(&format!("hello/{PULL_SECRET}"), "it")
    }

    #[test]
    fn a_labelled_namespace_gets_a_copy_and_follows_it() {
        let source = || Some(secret("open-cluster-management", json!({})));
        assert_eq!(planned(source(), None), "cluster: create Secret it");
        assert_eq!(planned(source(), Some(secret("hello", json!({})))), "nothing to do");
        let older = secret("hello", json!({"data": {"a": "Yg==", "gone": "Yg=="}}));
        assert_eq!(planned(source(), Some(older)), "cluster: patch Secret it");
        assert_eq!(
            planned(source(), Some(secret("hello", json!({"type": "u"})))),
            "cluster: delete Secret it"
        );
        assert_eq!(planned(Some(secret("hello", json!({}))), None), "nothing to do");
    }

    #[test]
    fn only_our_copies_go_with_the_source() {
        let ours = secret("hello", json!({"metadata": {"labels": {MANAGED_BY: MANAGER}}}));
        assert_eq!(planned(None, Some(ours)), "cluster: delete Secret it");
        assert_eq!(planned(None, Some(secret("hello", json!({})))), "nothing to do");
        assert_eq!(planned(None, None), "nothing to do");
    }
}
