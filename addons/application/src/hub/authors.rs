//! Which clusters the author of a PlacementRule may look at. Pure.
//! Upstream: multicloud-operators-subscription pkg/placementrule/controller/placementrule/placement.go and
//! pkg/placementrule/utils/auth.go.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine, prelude::BASE64_STANDARD};
use ocm_addon_sdk::{
    k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Subject},
    ocm_api::{apps::annotations, cluster::ManagedCluster},
};

/// Users, without what stands before the last colon, who may look at everything.
const ADMINISTRATORS: [&str; 3] = [
    "admin",
    "multicluster-observability-operator",
    "openshift-gitops-argocd-application-controller",
];
/// Groups of such users.
const ADMINISTRATORS_GROUPS: [&str; 2] = ["masters", "cluster-admins"];

/// Who has written a PlacementRule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleAuthor {
    user: String,
    groups: Vec<String>,
}

/// Clusters that somebody may look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VisibleClusters {
    /// Every one.
    All,
    /// These.
    Named(BTreeSet<String>),
}

impl RuleAuthor {
    /// The author, if annotations name one.
    pub fn of(all: &BTreeMap<String, String>) -> Option<Self> {
        let decoded = |name: &str| {
            let bytes = BASE64_STANDARD.decode(all.get(name)?).ok()?;
            String::from_utf8(bytes).ok()
        };
        all.get(annotations::USER_IDENTITY)?;
        let groups = decoded(annotations::USER_GROUP).unwrap_or_default();
        Some(Self {
            user: decoded(annotations::USER_IDENTITY).unwrap_or_default(),
            groups: groups.split(',').map(str::to_owned).collect(),
        })
    }

    /// Whether it is somebody who may look at everything.
    pub fn is_administrators(&self) -> bool {
        let last = |it: &str| it.rsplit(':').next().unwrap_or_default().to_owned();
        ADMINISTRATORS.contains(&last(&self.user).as_str())
            || self
                .groups
                .iter()
                .any(|it| ADMINISTRATORS_GROUPS.contains(&last(it).as_str()))
    }

    /// The ClusterRoles that are bound to it.
    pub fn roles<'a>(&self, bindings: &'a [ClusterRoleBinding]) -> BTreeSet<&'a str> {
        let is_its = |it: &&ClusterRoleBinding| {
            let mut subjects = it.subjects.iter().flatten();
            it.role_ref.kind == "ClusterRole" && subjects.any(|it| self.is(it))
        };
        let bound = bindings.iter().filter(is_its);
        bound.map(|it| it.role_ref.name.as_str()).collect()
    }

    fn is(&self, subject: &Subject) -> bool {
        match subject.kind.as_str() {
            "User" => !self.user.is_empty() && subject.name == self.user,
            "Group" => !subject.name.is_empty() && self.groups.contains(&subject.name),
            "ServiceAccount" => {
                let namespace = subject.namespace.as_deref().unwrap_or_default();
                self.user == format!("system:serviceaccount:{namespace}:{}", subject.name)
            }
            _ => false,
        }
    }
}

/// The clusters that these roles together let somebody look at.
pub fn visible(roles: &[ClusterRole]) -> VisibleClusters {
    let mut named = BTreeSet::new();
    for rule in roles.iter().flat_map(|it| it.rules.iter().flatten()) {
        let has = |list: &[String], one: &str| list.iter().any(|it| it == one || it == "*");
        let is_it = has(rule.api_groups.as_deref().unwrap_or_default(), ManagedCluster::GROUP)
            && has(rule.resources.as_deref().unwrap_or_default(), ManagedCluster::PLURAL)
            && has(&rule.verbs, "get");
        match rule.resource_names.as_deref().unwrap_or_default() {
            _ if !is_it => {}
            [] => return VisibleClusters::All,
            names => named.extend(names.iter().cloned()),
        }
    }
    VisibleClusters::Named(named)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn author(user: &str, groups: &str) -> RuleAuthor {
        let all = [
            (annotations::USER_IDENTITY.to_owned(), BASE64_STANDARD.encode(user)),
            (annotations::USER_GROUP.to_owned(), BASE64_STANDARD.encode(groups)),
        ];
        RuleAuthor::of(&all.into()).unwrap()
    }

    #[test]
    fn an_author_has_the_roles_that_bindings_name() {
        let bindings: Vec<ClusterRoleBinding> = [
            json!({"roleRef": {"kind": "ClusterRole", "name": "a"}, "subjects": [{"kind": "User", "name": "bob"}]}),
            json!({"roleRef": {"kind": "ClusterRole", "name": "b"}, "subjects": [{"kind": "Group", "name": "dev"}]}),
            json!({"roleRef": {"kind": "ClusterRole", "name": "c"}, "subjects": [{"kind": "User", "name": "eve"}]}),
        ]
        .into_iter()
        .map(|it| serde_json::from_value(it).unwrap())
        .collect();
        assert_eq!(author("bob", "ops,dev").roles(&bindings), ["a", "b"].into());
        assert!(author("", "").roles(&bindings).is_empty());
        assert!(author("kube:admin", "").is_administrators() && author("x", "a,system:masters").is_administrators());
        assert!(!author("bob", "dev").is_administrators());
        assert_eq!(RuleAuthor::of(&BTreeMap::new()), None);
    }

    #[test]
    fn roles_name_the_clusters_that_may_be_looked_at() {
        let role = |verbs: &[&str], names: &[&str]| -> ClusterRole {
            serde_json::from_value(json!({"rules": [{
                "apiGroups": ["cluster.open-cluster-management.io"], "resources": ["managedclusters"],
                "verbs": verbs, "resourceNames": names,
            }]}))
            .unwrap()
        };
        let some = [
            role(&["get", "list"], &["c1"]),
            role(&["*"], &["c2"]),
            role(&["list"], &["c3"]),
        ];
        let named = VisibleClusters::Named(["c1".to_owned(), "c2".to_owned()].into());
        assert_eq!(visible(&some), named);
        assert_eq!(
            visible(&[role(&["get"], &["c1"]), role(&["get"], &[])]),
            VisibleClusters::All
        );
        assert_eq!(visible(&[]), VisibleClusters::Named(BTreeSet::new()));
    }
}
