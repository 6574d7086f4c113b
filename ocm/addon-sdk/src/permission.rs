//! What an add-on's agent, and others on its behalf, may do on the hub, as data.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::PolicyRule;

/// One permission: some rules, bound to the subjects of the agent's registration as a client of the hub, or to others.
///
/// ```
/// use ocm_addon_sdk::Permission;
///
/// // A Role of its own in the cluster's namespace on the hub.
/// let rules = vec![Permission::rule("", &["configmaps"], &["get", "list", "watch"])];
/// let own = Permission::role("open-cluster-management:greeter:agent", rules);
/// // A ClusterRole that somebody else keeps, in one namespace for the agents of all clusters.
/// let shared = Permission::existing_cluster_role("view").in_namespace("shared-settings");
/// assert_eq!((own.binding_name(), shared.binding_name()), ("open-cluster-management:greeter:agent", "view"));
/// // People who may look at each cluster's namespace where the add-on is.
/// let operators = Permission::existing_cluster_role("view").for_group("operators");
/// assert_eq!(operators.holders, [ocm_addon_sdk::Holder::Group("operators".to_owned())]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Permission {
    /// Which rules.
    pub grant: Grant,
    /// Where they hold.
    pub scope: Scope,
    /// Whom they are given to; when there is none, the add-on's agent.
    pub holders: Vec<Holder>,
    /// The name of the binding; that of the role when `None`.
    pub binding: Option<String>,
    /// Labels for the objects besides those of the SDK.
    pub labels: BTreeMap<String, String>,
}

/// Rules of an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Grant {
    /// These, in a role of this name that the SDK keeps: a Role in a namespace, a ClusterRole for the whole hub.
    Rules {
        /// The role's name.
        name: String,
        /// What it allows.
        rules: Vec<PolicyRule>,
    },
    /// Those of a Role that somebody else keeps.
    Role(String),
    /// Those of a ClusterRole that somebody else keeps.
    ClusterRole(String),
}

/// Somebody on the hub whom an add-on gives rights to, besides its agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A user of this name.
    User(String),
    /// Everybody in this group.
    Group(String),
    /// A ServiceAccount.
    ServiceAccount {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// Where rules hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the cluster's namespace on the hub. The objects belong to the ManagedClusterAddOn and go with it.
    Cluster,
    /// In one namespace, for the agents of all clusters.
    Namespace(String),
    /// On the whole hub, for the agents of all clusters.
    Hub,
}

impl Permission {
    /// Rules of its own in the cluster's namespace, as a Role of this name.
    pub fn role(name: impl Into<String>, rules: Vec<PolicyRule>) -> Self {
        Self::of(Grant::Rules {
            name: name.into(),
            rules,
        })
    }

    /// Rules to keep a Lease of this name, as an agent does that renews it on the hub.
    pub fn lease(name: impl Into<String>) -> Vec<PolicyRule> {
        let group = "coordination.k8s.io";
        let kept = PolicyRule {
            resource_names: Some(vec![name.into()]),
            ..Self::rule(group, &["leases"], &["get", "list", "patch", "update", "watch"])
        };
        vec![kept, Self::rule(group, &["leases"], &["create"])]
    }

    /// The rules of a Role that is in the cluster's namespace already.
    pub fn existing_role(name: impl Into<String>) -> Self {
        Self::of(Grant::Role(name.into()))
    }

    /// The rules of a ClusterRole that exists already, in the cluster's namespace.
    pub fn existing_cluster_role(name: impl Into<String>) -> Self {
        Self::of(Grant::ClusterRole(name.into()))
    }

    fn of(grant: Grant) -> Self {
        Self {
            grant,
            scope: Scope::Cluster,
            holders: Vec::new(),
            binding: None,
            labels: BTreeMap::new(),
        }
    }

    /// The same in one namespace, for the agents of all clusters.
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.scope = Scope::Namespace(namespace.into());
        self
    }

    /// The same on the whole hub, for the agents of all clusters.
    pub fn on_the_whole_hub(mut self) -> Self {
        self.scope = Scope::Hub;
        self
    }

    /// The same for this user instead of the add-on's agent, and for whomever else it is for already.
    /// It needs no registration.
    ///
    /// Outside of the cluster's namespace all clusters share one binding: name the same holders for each, or
    /// [bind](Self::bound_as) it under a name of each.
    pub fn for_user(self, name: impl Into<String>) -> Self {
        self.held_by(Holder::User(name.into()))
    }

    /// The same for everybody in this group instead of the add-on's agent, as [`for_user`](Self::for_user).
    pub fn for_group(self, name: impl Into<String>) -> Self {
        self.held_by(Holder::Group(name.into()))
    }

    /// The same for this ServiceAccount instead of the add-on's agent, as [`for_user`](Self::for_user).
    pub fn for_service_account(self, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        self.held_by(Holder::ServiceAccount {
            namespace: namespace.into(),
            name: name.into(),
        })
    }

    fn held_by(mut self, holder: Holder) -> Self {
        self.holders.push(holder);
        self
    }

    /// Whether it is for the add-on's agent.
    pub fn is_for_agent(&self) -> bool {
        self.holders.is_empty()
    }

    /// The same with a binding of this name.
    pub fn bound_as(mut self, name: impl Into<String>) -> Self {
        self.binding = Some(name.into());
        self
    }

    /// The same with a label on its objects.
    pub fn labelled(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// The name of the role.
    pub fn role_name(&self) -> &str {
        match &self.grant {
            Grant::Rules { name, .. } | Grant::Role(name) | Grant::ClusterRole(name) => name,
        }
    }

    /// The name of the binding.
    pub fn binding_name(&self) -> &str {
        self.binding.as_deref().unwrap_or_else(|| self.role_name())
    }

    /// One rule: these verbs on these resources of one API group.
    pub fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
        let owned = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(owned(resources)),
            verbs: owned(verbs),
            ..PolicyRule::default()
        }
    }
}
