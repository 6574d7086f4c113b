//! Namespaces that the cluster's sets want on it.
//! Upstream: ocm `pkg/registration/spoke/managedcluster/namespace_reconcile.go`.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta},
    runtime::watcher,
};
use ocm_api::{cluster::ManagedCluster, labels};
use ocm_reconcile::{Cache, Plan, Site, cache::Watching, execute::sentence, segment::encoded};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

/// The label that marks a namespace as wanted by this hub: a hash of its address, cut to what a label can hold.
pub(super) fn label(server: &str) -> String {
    let hash: String = Sha256::digest(server.as_bytes())
        .iter()
        .map(|it| format!("{it:02x}"))
        .collect();
    format!("{}{}", labels::MANAGED_NAMESPACE_PREFIX, &hash[..63])
}

/// The names of all namespaces the hub wants.
pub(super) fn wanted(cluster: &ManagedCluster) -> Vec<String> {
    let listed = cluster
        .status
        .iter()
        .flat_map(|it| &it.managed_namespaces)
        .map(|it| it.name.clone());
    let mut names: Vec<_> = listed.collect();
    names.sort();
    names.dedup();
    names
}

/// The namespaces on the cluster that matter to a plan.
#[derive(Debug, Default)]
pub(super) struct Present {
    /// Those that are wanted or carry the label.
    pub found: BTreeMap<String, Arc<Namespace>>,
    /// Wanted ones that could not be read, and why.
    pub unread: BTreeMap<String, String>,
    /// Why it is not known which carry the label.
    pub unlisted: Option<String>,
}

/// Looks for them, one by one where it has to.
pub(super) async fn present(client: &Client, label: &str, wanted: &[String]) -> Present {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut all = Present::default();
    match api.list(&ListParams::default().labels(label)).await {
        Ok(labelled) => all
            .found
            .extend(labelled.items.into_iter().map(|it| (it.name_any(), Arc::new(it)))),
        Err(error) => all.unlisted = Some(sentence(&error.into())),
    }
    for name in wanted {
        if all.found.contains_key(name) {
            continue;
        }
        match api.get_opt(&encoded(name)).await {
            Ok(found) => all.found.extend(found.map(|it| (name.clone(), Arc::new(it)))),
            Err(error) => {
                all.unread.insert(name.clone(), sentence(&error.into()));
            }
        }
    }
    all
}

/// Watches those that carry the label for this cache, so that one that is deleted or changed
/// by another hand is put right at once.
pub(super) fn feed(cache: &Cache<Namespace>, client: &Client, label: &str, stop: &CancellationToken) {
    let watching = Watching {
        selection: watcher::Config::default().labels(label),
        ..Watching::default()
    };
    let feeding = cache.clone().feed(Api::all(client.clone()), watching, stop.clone());
    tokio::spawn(feeding.instrument(info_span!("watch", kind = "Namespace")));
}

/// Whether another hand has changed it. What appears is mostly our own doing.
pub(super) fn is_tampering(old: Option<&Namespace>, new: Option<&Namespace>) -> bool {
    old.is_some_and(|old| new.is_none_or(|new| old.labels() != new.labels()))
}

/// Creates and labels what is wanted, and marks what is no longer: namespaces are never deleted.
pub(super) fn plan(plan: &mut Plan, cluster: &ManagedCluster, label: &str, present: &Present) {
    if let Some(why) = &present.unlisted {
        plan.wait(format!("it is not known which namespaces were managed before: {why}"));
    }
    let wanted = if cluster.metadata.deletion_timestamp.is_some() {
        Vec::new()
    } else {
        wanted(cluster)
    };
    for name in wanted.iter().filter(|it| !present.unread.contains_key(*it)) {
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            labels: Some([(label.to_owned(), "true".to_owned())].into()),
            ..ObjectMeta::default()
        };
        let desired = Namespace {
            metadata,
            ..Namespace::default()
        };
        plan.keep(Site::Cluster, present.found.get(name).map(|it| &**it), &desired);
    }
    for (_, namespace) in present.found.iter().filter(|(name, _)| !wanted.contains(name)) {
        if namespace.labels().get(label).is_some_and(|it| it == "true") {
            let mut released = (**namespace).clone();
            released.labels_mut().insert(label.to_owned(), "false".to_owned());
            plan.change(Site::Cluster, &**namespace, &released);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_deleting_or_unlabelling_a_namespace_causes_a_reconcile() {
        let namespace = |labels| -> Namespace {
            serde_json::from_value(json!({"metadata": {"name": "team", "labels": labels}})).unwrap()
        };
        let (ours, changed) = (namespace(json!({"ours": "true"})), namespace(json!({"ours": "x"})));
        assert!(is_tampering(Some(&ours), None));
        assert!(is_tampering(Some(&ours), Some(&changed)));
        assert!(!is_tampering(Some(&ours), Some(&ours)));
        assert!(!is_tampering(None, Some(&ours)));
    }
}
