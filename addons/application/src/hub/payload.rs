//! What the hub writes into a Subscription, and what of it goes to clusters. Pure.
//! Upstream: multicloud-operators-subscription pkg/controller/mcmhub/propagate_manifestwork.go.

use std::collections::BTreeMap;

use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::ConfigMap,
    kube::{ResourceExt, api::ObjectMeta, core::ApiResource},
    ocm_api::{
        RawObject,
        apps::{Channel, Subscription, SubscriptionPlacement, SubscriptionSpec, annotations, labels},
        work::{DeleteOption, DeletePropagationPolicy, ManifestWork, Manifests, OrphaningRule, SelectivelyOrphan},
    },
    reconcile::plan::typed,
};
use serde_json::json;

use crate::report::hosting_label;

/// Annotations that go to clusters as they are, where they are not empty.
const COPIED: [&str; 10] = [
    annotations::WEBHOOK_EVENT_COUNT,
    annotations::BUCKET_PATH,
    annotations::CURRENT_NAMESPACE_SCOPED,
    annotations::RECONCILE_OPTION,
    annotations::GIT_DESIRED_COMMIT,
    annotations::GIT_TAG,
    annotations::GIT_CLONE_DEPTH,
    annotations::RECONCILE_RATE,
    annotations::MANUAL_REFRESH_TIME,
    annotations::CLUSTER_ADMIN,
];

/// The name of a Subscription's works.
pub fn work_name(namespace: &str, name: &str) -> String {
    format!("{namespace}-{name}")
}

/// The Subscription with what the hub writes into its metadata. Without a commit the one that is there stays.
pub fn completed(
    subscription: &Subscription,
    channel: &Channel,
    is_administrators: bool,
    commit: Option<&str>,
) -> Subscription {
    let mut new = subscription.clone();
    let own = new.metadata.labels.get_or_insert_default();
    let rate = channel.annotations().get(annotations::RECONCILE_RATE);
    if let Some(rate) = rate.filter(|it| !it.is_empty()) {
        own.insert(labels::RECONCILE_RATE.to_owned(), rate.clone());
    }
    let app = own.get(labels::APP).filter(|it| !it.is_empty()).cloned();
    let app = app.unwrap_or_else(|| subscription.name_any());
    own.insert(labels::APP.to_owned(), app.clone());
    own.insert(labels::PART_OF.to_owned(), app);
    mark(&mut new, is_administrators);
    if let Some(commit) = commit {
        let own = new.metadata.annotations.get_or_insert_default();
        own.insert(annotations::GIT_CURRENT_COMMIT.to_owned(), commit.to_owned());
    }
    new
}

/// Says of a Subscription whether it is an administrator's, whatever it said before.
pub fn mark(subscription: &mut Subscription, is_administrators: bool) {
    let own = subscription.metadata.annotations.get_or_insert_default();
    if is_administrators {
        own.insert(annotations::CLUSTER_ADMIN.to_owned(), "true".to_owned());
    } else {
        own.remove(annotations::CLUSTER_ADMIN);
    }
    if own.is_empty() {
        subscription.metadata.annotations = None;
    }
}

/// What goes to a cluster: the namespace, and the Subscription to be deployed there. `is_local` is for the cluster that
/// the hub itself is, where the Subscription has its name already.
pub fn manifests(subscription: &Subscription, filter: Option<&ConfigMap>, is_local: bool) -> Manifests {
    let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
    let hosting = format!("{namespace}/{name}");
    let spec = &subscription.spec;
    let copy = Subscription {
        metadata: ObjectMeta {
            name: Some(if is_local { format!("{name}-local") } else { name }),
            namespace: Some(namespace.clone()),
            labels: subscription.metadata.labels.clone(),
            annotations: Some(copied_annotations(subscription, &hosting, filter)),
            ..ObjectMeta::default()
        },
        spec: SubscriptionSpec {
            placement: Some(SubscriptionPlacement {
                local: Some(true),
                ..SubscriptionPlacement::default()
            }),
            ..spec.clone()
        },
        status: None,
    };
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": namespace, "annotations": {annotations::HOSTING_SUBSCRIPTION: hosting}},
    });
    let copy = typed(&copy, &ApiResource::erase::<Subscription>(&()));
    let mut all: Manifests = [namespace, copy].into_iter().map(RawObject).collect();
    // Works are held packed, and texts are compared fast.
    all.pack();
    all
}

fn copied_annotations(
    subscription: &Subscription,
    hosting: &str,
    filter: Option<&ConfigMap>,
) -> BTreeMap<String, String> {
    let value = |name: &str| subscription.annotation(name).map(str::to_owned);
    let mut all = BTreeMap::from([(annotations::HOSTING_SUBSCRIPTION.to_owned(), hosting.to_owned())]);
    for identity in [annotations::USER_IDENTITY, annotations::USER_GROUP] {
        all.insert(identity.to_owned(), value(identity).unwrap_or_default());
    }
    let copied = COPIED.iter().filter_map(|it| Some(((*it).to_owned(), value(it)?)));
    all.extend(copied);
    for (name, older, of_filter) in [
        (annotations::GIT_BRANCH, annotations::GITHUB_BRANCH, "branch"),
        (annotations::GIT_PATH, annotations::GITHUB_PATH, "path"),
    ] {
        let filtered = filter.and_then(|it| it.data.as_ref()?.get(of_filter).cloned());
        let filtered = filtered.filter(|it| !it.is_empty());
        if let Some(value) = filtered.or_else(|| value(name)).or_else(|| value(older)) {
            all.insert(name.to_owned(), value);
        }
    }
    all
}

/// The work for a cluster, as a change of what is there.
pub fn work(
    present: Option<&ManifestWork>,
    cluster: &str,
    subscription: &Subscription,
    all: &Manifests,
) -> ManifestWork {
    let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
    let mut work = present.cloned().unwrap_or_else(|| ManifestWork {
        metadata: ObjectMeta {
            name: Some(work_name(&namespace, &name)),
            namespace: Some(cluster.to_owned()),
            ..ObjectMeta::default()
        },
        ..ManifestWork::default()
    });
    let own = work.metadata.labels.get_or_insert_default();
    own.insert(
        labels::HOSTING_SUBSCRIPTION.to_owned(),
        hosting_label(&namespace, &name),
    );
    work.spec.workload.manifests = all.clone();
    work.spec.delete_option = Some(DeleteOption {
        propagation_policy: DeletePropagationPolicy::SelectivelyOrphan,
        selectively_orphans: Some(SelectivelyOrphan {
            orphaning_rules: vec![OrphaningRule {
                resource: "namespaces".to_owned(),
                name: namespace,
                ..OrphaningRule::default()
            }],
        }),
        ttl_seconds_after_finished: None,
    });
    work
}

/// Whether a work says what another says, as far as this is of ours.
pub fn agree(present: &ManifestWork, wanted: &ManifestWork) -> bool {
    let label = |it: &ManifestWork| it.labels().get(labels::HOSTING_SUBSCRIPTION).cloned();
    label(present) == label(wanted)
        && present.spec.delete_option == wanted.spec.delete_option
        && present.spec.workload == wanted.spec.workload
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn subscription(labels: Value, annotations: Value) -> Subscription {
        let metadata = json!({
            "name": "s", "namespace": "ns", "labels": labels, "annotations": annotations, "uid": "u",
            "resourceVersion": "7", "generation": 2,
        });
        let spec = json!({
            "channel": "ch/c", "secondaryChannel": "ch/d", "name": "chart",
            "placement": {"placementRef": {"kind": "Placement", "name": "p"}},
            "packageFilter": {"version": ">1"}, "overrides": [{"clusterName": "c1", "clusterOverrides": [{"path": "a", "value": 1}]}],
            "timewindow": {"windowtype": "active"}, "hooksecretref": {"name": "tower"},
            "allow": [{"apiVersion": "v1", "kinds": ["*"]}], "watchHelmNamespaceScopedResources": true,
        });
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": {"phase": "Propagated"}})).unwrap()
    }

    fn channel(annotations: Value) -> Channel {
        let metadata = json!({"name": "c", "namespace": "ch", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"type": "Git", "pathname": "https://x"}})).unwrap()
    }

    #[test]
    fn a_cluster_gets_the_namespace_and_a_local_copy() {
        let annotations = json!({
            "apps.open-cluster-management.io/github-branch": "main", "apps.open-cluster-management.io/git-path": "app",
            "apps.open-cluster-management.io/github-path": "old", "apps.open-cluster-management.io/git-current-commit": "abc",
            "apps.open-cluster-management.io/reconcile-option": "replace", "apps.open-cluster-management.io/git-tag": "",
            "mine": "1",
        });
        let all = manifests(&subscription(json!({"app": "x"}), annotations), None, false);
        let expected = json!([
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {
                "name": "ns", "annotations": {"apps.open-cluster-management.io/hosting-subscription": "ns/s"},
            }},
            {
                "apiVersion": "apps.open-cluster-management.io/v1", "kind": "Subscription",
                "metadata": {"name": "s", "namespace": "ns", "labels": {"app": "x"}, "annotations": {
                    "apps.open-cluster-management.io/hosting-subscription": "ns/s",
                    "open-cluster-management.io/user-identity": "", "open-cluster-management.io/user-group": "",
                    "apps.open-cluster-management.io/git-branch": "main",
                    "apps.open-cluster-management.io/git-path": "app",
                    "apps.open-cluster-management.io/reconcile-option": "replace",
                }},
                "spec": {
                    "channel": "ch/c", "secondaryChannel": "ch/d", "name": "chart", "placement": {"local": true},
                    "packageFilter": {"version": ">1"},
                    "overrides": [{"clusterName": "c1", "clusterOverrides": [{"path": "a", "value": 1}]}],
                    "timewindow": {"windowtype": "active"}, "hooksecretref": {"name": "tower"},
                    "allow": [{"apiVersion": "v1", "kinds": ["*"]}], "watchHelmNamespaceScopedResources": true,
                },
            },
        ]);
        assert_eq!(serde_json::to_value(&all).unwrap(), expected);
    }

    #[test]
    fn a_filter_overrides_path_and_branch() {
        let filter: ConfigMap = serde_json::from_value(json!({"data": {"path": "f", "branch": ""}})).unwrap();
        let annotations = json!({
            "apps.open-cluster-management.io/git-branch": "main", "apps.open-cluster-management.io/git-path": "app",
        });
        let all = manifests(&subscription(json!({}), annotations), Some(&filter), true);
        let copy = &all.read()[1].0;
        assert_eq!(copy["metadata"]["name"], "s-local");
        assert_eq!(
            copy["metadata"]["annotations"]["apps.open-cluster-management.io/git-path"],
            "f"
        );
        assert_eq!(
            copy["metadata"]["annotations"]["apps.open-cluster-management.io/git-branch"],
            "main"
        );
    }

    #[test]
    fn the_hub_completes_labels_and_takes_rights_away() {
        let put = subscription(json!({}), json!({annotations::CLUSTER_ADMIN: "true"}));
        let rate = json!({annotations::RECONCILE_RATE: "low"});
        let new = completed(&put, &channel(rate), false, None);
        let expected = json!({"app": "s", "app.kubernetes.io/part-of": "s", labels::RECONCILE_RATE: "low"});
        assert_eq!(json!(new.metadata.labels), expected);
        assert_eq!(new.metadata.annotations, None);
        let named = subscription(json!({"app": "x", "app.kubernetes.io/part-of": "y"}), json!({}));
        let new = completed(&named, &channel(json!({})), true, Some("abc"));
        assert_eq!(
            json!(new.metadata.labels),
            json!({"app": "x", "app.kubernetes.io/part-of": "x"})
        );
        let expected = json!({annotations::CLUSTER_ADMIN: "true", annotations::GIT_CURRENT_COMMIT: "abc"});
        assert_eq!(json!(new.metadata.annotations), expected);
    }

    #[test]
    fn a_work_leaves_the_namespace_behind() {
        let subscription = subscription(json!({}), json!({}));
        let all = manifests(&subscription, None, false);
        let new = work(None, "c1", &subscription, &all);
        assert_eq!(
            json!(new.metadata),
            json!({
                "name": "ns-s", "namespace": "c1", "labels": {labels::HOSTING_SUBSCRIPTION: "ns.s"},
            })
        );
        let expected = json!({
            "propagationPolicy": "SelectivelyOrphan",
            "selectivelyOrphans": {"orphaningRules": [{"group": "", "resource": "namespaces", "name": "ns"}]},
        });
        assert_eq!(json!(new.spec.delete_option), expected);
        assert!(agree(&new, &work(Some(&new), "c1", &subscription, &all)));
    }
}
