//! Whether a subscription administrator has written a Subscription, and what makes one. Pure.
//! Upstream: multicloud-operators-subscription pkg/utils/gitrepo.go, `IsClusterAdmin`. Ours never believes the
//! annotation that says so: a Subscription that another one has deployed has the identity of that one's author, too.

use base64::{Engine, prelude::BASE64_STANDARD};
use ocm_addon_sdk::{
    k8s_openapi::api::rbac::v1::Subject,
    ocm_api::apps::{GROUP, SUBSCRIPTION_ADMIN_BINDING, Subscription, annotations},
};
use serde_json::{Value, json};

/// Whether one of the subjects has written a Subscription.
pub fn is_administrators(subscription: &Subscription, subjects: &[Subject]) -> bool {
    let decoded = |annotation: &str| {
        let bytes = BASE64_STANDARD.decode(subscription.annotation(annotation)?).ok()?;
        String::from_utf8(bytes).ok()
    };
    let Some(user) = decoded(annotations::USER_IDENTITY).filter(|it| !it.is_empty()) else {
        return false;
    };
    let groups = decoded(annotations::USER_GROUP).unwrap_or_default();
    subjects.iter().any(|it| match it.kind.as_str() {
        "User" => it.name == user,
        "Group" => !it.name.is_empty() && groups.split(',').any(|group| group == it.name),
        "ServiceAccount" => {
            let namespace = it.namespace.as_deref().unwrap_or_default();
            !namespace.is_empty() && user == format!("system:serviceaccount:{namespace}:{}", it.name)
        }
        _ => false,
    })
}

/// The ClusterRole of subscription administrators, and its binding, which names nobody at first. Who installs the hub's
/// half applies the role, and creates the binding where there is none.
/// Upstream: multicloud-operators-subscription pkg/controller/mcmhub/mcmhub_controller.go.
pub fn role_and_binding() -> [Value; 2] {
    let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    let of_clusters = [
        "cluster.open-cluster-management.io",
        "register.open-cluster-management.io",
        "clusterview.open-cluster-management.io",
    ];
    let kinds = [
        "managedclustersets/join",
        "managedclustersets/bind",
        "managedclusters/accept",
        "managedclustersets",
        "managedclusters",
        "managedclustersetbindings",
        "placements",
        "placementdecisions",
    ];
    let rules = [
        rule(&["app.k8s.io"], &["applications"], &["*"]),
        rule(&[GROUP], &["*"], &["*"]),
        rule(&[""], &["configmaps", "secrets", "namespaces"], &["*"]),
        rule(
            &of_clusters,
            &kinds,
            &["get", "list", "watch", "create", "update", "patch"],
        ),
    ];
    let (api_version, metadata) = (
        "rbac.authorization.k8s.io/v1",
        json!({"name": SUBSCRIPTION_ADMIN_BINDING}),
    );
    [
        json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": SUBSCRIPTION_ADMIN_BINDING,
            },
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(user: &str, groups: &str) -> Subscription {
        let annotations = json!({
            annotations::USER_IDENTITY: BASE64_STANDARD.encode(user),
            annotations::USER_GROUP: BASE64_STANDARD.encode(groups),
        });
        let metadata = json!({"name": "s", "namespace": "ns", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"channel": "c/c"}})).unwrap()
    }

    fn subject(kind: &str, namespace: Option<&str>, name: &str) -> Subject {
        Subject {
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
            ..Subject::default()
        }
    }

    #[test]
    fn an_administrator_is_named_exactly() {
        let subjects = [
            subject("User", None, "alice"),
            subject("Group", None, "ops"),
            subject("Group", None, ""),
            subject("ServiceAccount", Some("ns"), "bot"),
        ];
        let is = |user: &str, groups: &str| is_administrators(&by(user, groups), &subjects);
        assert!(is("alice", "") && is("bob", "dev,ops") && is("system:serviceaccount:ns:bot", ""));
        for (user, groups) in [("alic", ""), ("bob", "dev"), ("", "ops"), ("bot", "ops2"), ("ops", "")] {
            assert!(!is(user, groups), "{user} {groups}");
        }
    }

    #[test]
    fn what_is_no_base64_is_nobody() {
        let mut subscription = by("alice", "");
        let all = subscription.metadata.annotations.get_or_insert_default();
        all.insert(annotations::USER_IDENTITY.to_owned(), "alice!".to_owned());
        assert!(!is_administrators(&subscription, &[subject("User", None, "alice!")]));
    }
}
