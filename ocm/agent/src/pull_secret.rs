//! Gives the namespaces of add-ons the credential that images are pulled with.
//!
//! Root: a Namespace of the managed cluster with the label `addon.open-cluster-management.io/namespace: "true"`. Reads:
//! the Secret `open-cluster-management-image-pull-credentials` in the agent's namespace. Writes: a copy of it in each
//! of them, and takes it away with the label or with the Secret. Never: a Secret of that name
//! that somebody else has made.

mod copy;
mod start;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{ResourceExt, runtime::watcher};
use ocm_api::{labels, namespaces::PULL_SECRET};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Plan, Reconciler, Site, Watches, async_trait, cache::Watching, rbac::Right,
};

use self::copy::{copy_of, is_ours};
pub use self::start::{Options, run};

/// The reconciler.
pub struct PullSecret {
    sources: Cache<Secret>,
    wanting: Cache<Namespace>,
    copies: Cache<Secret>,
    // The namespace that the Secret itself is in, where that is on the same cluster.
    home: Option<String>,
}

/// What a plan is made from.
pub struct Seen {
    /// The namespace's name.
    pub namespace: String,
    /// Whether it is the one that the Secret itself is in.
    pub is_home: bool,
    /// The namespace, if it wants a copy.
    pub wanting: Option<Arc<Namespace>>,
    /// The Secret, if there is one to copy.
    pub source: Option<Arc<Secret>>,
    /// The Secret of that name in the namespace.
    pub present: Option<Arc<Secret>>,
}

/// The Secret to copy.
fn sources(management: &Caches, options: &Options) -> Cache<Secret> {
    management.in_namespace(&options.component_namespace, named())
}

fn named() -> Watching {
    Watching {
        selection: watcher::Config::default().fields(&format!("metadata.name={PULL_SECRET}")),
        ..Watching::default()
    }
}

impl PullSecret {
    /// Over the caches of the cluster that holds the agent's own objects, and of the managed cluster.
    pub fn new(management: &Caches, cluster: &Caches, options: &Options) -> Self {
        Self {
            sources: sources(management, options),
            wanting: cluster.labelled(&format!("{}=true", labels::ADDON_WANTS_COPIES)),
            copies: cluster.watching(named()),
            home: (!options.is_hosted).then(|| options.component_namespace.clone()),
        }
    }
}

#[async_trait]
impl Reconciler for PullSecret {
    const NAME: &'static str = "pull-secret";
    /// Few namespaces have add-ons.
    const WORKERS: usize = 2;
    const RIGHTS: &'static [Right] = &[Right::new(
        "",
        "secrets",
        "create delete patch",
        "Copies of the pull secret.",
    )];
    type Seen = Seen;

    /// A copy whose namespace is not in the cache is taken for left behind, so nothing is decided before the lists are
    /// whole.
    fn watches(&self, watches: &mut Watches) {
        let (wanting, copies) = (self.wanting.clone(), self.copies.clone());
        watches
            .root(&self.wanting)
            .wakes(&self.copies, |old, new| new.or(old)?.namespace())
            .wakes(&self.sources, move |_, _| {
                let wanting = wanting.list().into_iter().map(|it| it.name_any());
                let having = copies.list().into_iter().filter_map(|it| it.namespace());
                wanting.chain(having).collect::<Vec<_>>()
            });
    }

    async fn observe(&self, namespace: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            is_home: self.home.as_deref() == Some(namespace),
            namespace: namespace.to_owned(),
            wanting: self.wanting.named(namespace),
            source: self.sources.list().into_iter().next(),
            present: self.copies.get(namespace, PULL_SECRET),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        if seen.is_home {
            return plan;
        }
        let present = seen.present.as_deref();
        if present.is_some_and(|it| !is_ours(it)) {
            plan.remark("somebody else has made the pull secret here");
            return plan;
        }
        let wanting = seen.wanting.as_ref();
        // Nothing can be made in a namespace that is being deleted.
        let wanting = wanting.filter(|it| it.metadata.deletion_timestamp.is_none());
        match (wanting, &seen.source) {
            (Some(_), Some(source)) => {
                let copy = copy_of(source, &seen.namespace);
                match present.filter(|it| it.type_ != copy.type_) {
                    // A type cannot be changed; the copy is made anew when this one is gone.
                    Some(other) => {
                        plan.delete(Site::Cluster, other);
                    }
                    None => copy::keep(&mut plan, present, &copy),
                }
            }
            _ => {
                if let Some(present) = present {
                    plan.delete(Site::Cluster, present);
                }
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TYPE: &str = "kubernetes.io/dockerconfigjson";

    fn secret(object: Value) -> Arc<Secret> {
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn source(data: &str) -> Option<Arc<Secret>> {
        let metadata = json!({"name": PULL_SECRET, "namespace": "open-cluster-management-agent"});
        Some(secret(
            json!({"metadata": metadata, "type": TYPE, "data": {".dockerconfigjson": data}}),
        ))
    }

    fn namespace() -> Option<Arc<Namespace>> {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some("hello".to_owned());
        Some(Arc::new(namespace))
    }

    fn planned(wanting: Option<Arc<Namespace>>, source: Option<Arc<Secret>>, present: Option<Arc<Secret>>) -> String {
        let seen = Seen {
            namespace: "hello".to_owned(),
            is_home: false,
            wanting,
            source,
            present,
        };
        let home = Seen { is_home: true, ..seen };
        assert!(PullSecret::plan(&home).is_empty());
        PullSecret::plan(&Seen { is_home: false, ..home }).to_string()
    }

    fn copy(data: &str) -> Option<Arc<Secret>> {
        source(data).map(|it| Arc::new(copy_of(&it, "hello")))
    }

    const NAMED: &str = "hello/open-cluster-management-image-pull-credentials";

    #[test]
    fn a_namespace_that_requests_the_pull_secret_gets_a_copy() {
        assert_eq!(
            planned(namespace(), source("e30="), None),
            format!("cluster: create Secret {NAMED}\n")
        );
        assert_eq!(planned(namespace(), source("e30="), copy("e30=")), "nothing to do\n");
        assert_eq!(
            planned(namespace(), source("e30="), copy("e319")),
            format!("cluster: patch Secret {NAMED}\n")
        );
    }

    #[test]
    fn a_copy_goes_with_the_label_and_with_the_secret() {
        let deleted = format!("cluster: delete Secret {NAMED}\n");
        assert_eq!(planned(None, source("e30="), copy("e30=")), deleted);
        assert_eq!(planned(namespace(), None, copy("e30=")), deleted);
        assert_eq!(planned(None, source("e30="), None), "nothing to do\n");
        let mut leaving = (*namespace().unwrap()).clone();
        leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(
            planned(Some(Arc::new(leaving)), source("e30="), None),
            "nothing to do\n"
        );
    }

    #[test]
    fn a_copy_of_another_type_is_recreated() {
        let mut other = (*copy("e30=").unwrap()).clone();
        other.type_ = Some("Opaque".to_owned());
        assert_eq!(
            planned(namespace(), source("e30="), Some(Arc::new(other))),
            format!("cluster: delete Secret {NAMED}\n")
        );
    }

    #[test]
    fn what_somebody_else_has_made_is_left_alone() {
        let strangers = secret(json!({"metadata": {"name": PULL_SECRET, "namespace": "hello"}}));
        for wanting in [namespace(), None] {
            assert_eq!(
                planned(wanting, source("e30="), Some(strangers.clone())),
                "nothing to do\nnote: somebody else has made the pull secret here\n"
            );
        }
    }
}
