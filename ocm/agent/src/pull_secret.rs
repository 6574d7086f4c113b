//! Gives the namespaces of add-ons the credential that images are pulled with.
//!
//! Root: a Namespace of the managed cluster, by name. Reads: the Secret `open-cluster-management-image-pull-credentials` in the
//! agent's own namespace; which namespaces have the label `addon.open-cluster-management.io/namespace: "true"`.
//! Writes: a copy of that Secret in each of them, and takes it away with the label or with the Secret.
//! Never: a Secret of that name that somebody else has made.
//! Upstream: ocm `pkg/operator/operators/klusterlet/controllers/addonsecretcontroller`. There the operator does it, from its own
//! namespace; the ConfigMap with a TLS profile that it copies as well is for programs that read one, and ours do not.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta},
    runtime::watcher,
};
use ocm_api::{labels, namespaces::PULL_SECRET};
use ocm_reconcile::{
    Cache, Clients, ObserveError, Plan, Queue, Reconciler, Site, async_trait,
    install::{DROVER, MANAGED_BY},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span, warn};

/// Few namespaces have add-ons.
const WORKERS: usize = 2;

/// Where the Secret is, and where its copies go.
pub struct Options {
    /// The managed cluster.
    pub cluster: Client,
    /// The cluster that holds the agent's own objects.
    pub management: Client,
    /// The namespace of those objects.
    pub component_namespace: String,
    /// Whether the two clusters are not the same.
    pub is_hosted: bool,
}

/// Runs until `stop`. Most clusters have no such Secret, and cost one watch that is silent.
pub async fn run(options: Options, stop: CancellationToken) {
    let span = info_span!("pull_secret");
    serve(options, stop).instrument(span).await;
}

async fn serve(options: Options, stop: CancellationToken) {
    let named = || watcher::Config::default().fields(&format!("metadata.name={PULL_SECRET}"));
    let own = Api::namespaced(options.management.clone(), &options.component_namespace);
    let sources: Cache<Secret> = Cache::start_with(own, named(), stop.clone());
    let copies: Api<Secret> = Api::all(options.cluster.clone());
    tokio::select! {
        () = stop.cancelled() => return,
        () = sources.synced() => {}
    }
    let is_needed = async {
        if sources.list().is_empty() && !has_copies(&copies).await {
            sources.until(|it| (!it.list().is_empty()).then_some(())).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => return,
        () = is_needed => {}
    }
    let wanting = watcher::Config::default().labels(&format!("{}=true", labels::ADDON_WANTS_COPIES));
    let this = PullSecret {
        sources,
        wanting: Cache::start_with(Api::all(options.cluster.clone()), wanting, stop.clone()),
        copies: Cache::start_with(copies, named(), stop.clone()),
        home: (!options.is_hosted).then_some(options.component_namespace),
    };
    // A copy whose namespace is not in the cache is taken for left behind, so nothing is decided before the lists are whole.
    tokio::select! {
        () = stop.cancelled() => return,
        () = async { tokio::join!(this.wanting.synced(), this.copies.synced()); } => {}
    }
    let queue = Queue::new();
    this.subscribe(&queue);
    let clients = Clients::cluster(options.cluster);
    let running = ocm_reconcile::spawn(this, clients, queue, WORKERS, stop);
    // It ends by the token; a panic in it was reported when it happened.
    let _ = running.finished.await;
}

/// Whether there are copies from a former run, whose Secret may have gone meanwhile.
async fn has_copies(copies: &Api<Secret>) -> bool {
    let ours = ListParams::default()
        .fields(&format!("metadata.name={PULL_SECRET}"))
        .labels(&format!("{MANAGED_BY}={DROVER}"));
    match copies.list_metadata(&ours).await {
        Ok(found) => !found.items.is_empty(),
        Err(error) => {
            warn!(%error, "could not look for copies of the pull secret that were left behind");
            false
        }
    }
}

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
    /// The namespace, if it wants a copy.
    pub wanting: Option<Arc<Namespace>>,
    /// The Secret, if there is one to copy.
    pub source: Option<Arc<Secret>>,
    /// The Secret of that name in the namespace.
    pub present: Option<Arc<Secret>>,
}

impl PullSecret {
    fn subscribe(&self, queue: &Queue) {
        self.wanting.subscribe_by_name(queue);
        self.copies.subscribe(queue, |old, new| new.or(old)?.namespace());
        let (wanting, copies) = (self.wanting.clone(), self.copies.clone());
        self.sources.subscribe(queue, move |_, _| {
            let wanting = wanting.list().into_iter().map(|it| it.name_any());
            let having = copies.list().into_iter().filter_map(|it| it.namespace());
            wanting.chain(having).collect::<Vec<_>>()
        });
    }
}

#[async_trait]
impl Reconciler for PullSecret {
    const NAME: &'static str = "pull-secret";
    type Seen = Seen;

    async fn observe(&self, namespace: &str) -> Result<Seen, ObserveError> {
        let is_home = self.home.as_deref() == Some(namespace);
        Ok(Seen {
            namespace: namespace.to_owned(),
            wanting: self.wanting.named(namespace).filter(|_| !is_home),
            source: self.sources.list().into_iter().next(),
            present: self.copies.get(namespace, PULL_SECRET).filter(|_| !is_home),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
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
                    None => keep(&mut plan, present, &copy),
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

// The data whole: a key that the source has no longer goes from the copy, too.
fn keep(plan: &mut Plan, present: Option<&Secret>, copy: &Secret) {
    match present {
        None => {
            plan.create(Site::Cluster, copy);
        }
        Some(present) => {
            let mut next = present.clone();
            next.data = copy.data.clone();
            plan.change(Site::Cluster, present, &next);
        }
    }
}

fn is_ours(secret: &Secret) -> bool {
    secret.labels().get(MANAGED_BY).is_some_and(|it| it == DROVER)
}

fn copy_of(source: &Secret, namespace: &str) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(PULL_SECRET.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(MANAGED_BY.to_owned(), DROVER.to_owned())])),
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
            wanting,
            source,
            present,
        };
        PullSecret::plan(&seen).to_string()
    }

    fn copy(data: &str) -> Option<Arc<Secret>> {
        source(data).map(|it| Arc::new(copy_of(&it, "hello")))
    }

    const NAMED: &str = "hello/open-cluster-management-image-pull-credentials";

    #[test]
    fn a_namespace_that_wants_it_has_the_pull_secret_as_it_is() {
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
    fn one_of_another_type_is_made_anew() {
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
