//! Roles and bindings of the store, indexed by subject.
//!
//! The index follows the store's log: a request that finds the store unchanged since the last look costs one read of
//! the revision, and a changed role costs that role.

use super::{
    lost::Lost,
    rule::{Rule, rules_of},
};
use crate::identity::{AccessDecision, Attributes, MASTERS, User};
use kube_store::{
    object::{Object, key},
    store::{Change, Store},
};
use parking_lot::RwLock;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

pub(super) const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
pub(super) const ROLES: &str = "roles.rbac.authorization.k8s.io";
pub(super) const CLUSTER_ROLE_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";
pub(super) const ROLE_BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";

/// Who a binding names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum BindingSubject {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

impl BindingSubject {
    fn read(value: &serde_json::Value, binding_namespace: &str) -> Option<Self> {
        let name = value["name"].as_str()?.to_owned();
        match value["kind"].as_str()? {
            "User" => Some(Self::User(name)),
            "Group" => Some(Self::Group(name)),
            "ServiceAccount" => {
                let namespace = value["namespace"]
                    .as_str()
                    .filter(|it| !it.is_empty())
                    .unwrap_or(binding_namespace);
                (!namespace.is_empty()).then(|| Self::ServiceAccount {
                    namespace: namespace.to_owned(),
                    name,
                })
            }
            _ => None,
        }
    }

    /// The key in the index: of users, or of groups.
    pub(super) fn username(&self) -> Result<String, String> {
        match self {
            Self::User(name) => Ok(name.clone()),
            Self::ServiceAccount { namespace, name } => Ok(format!("system:serviceaccount:{namespace}:{name}")),
            Self::Group(name) => Err(name.clone()),
        }
    }

    fn applies_to(&self, user: &User) -> bool {
        match self.username() {
            Ok(name) => name == user.username,
            Err(group) => user.is_in(&group),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::User(name) => format!("User {name:?}"),
            Self::Group(name) => format!("Group {name:?}"),
            Self::ServiceAccount { namespace, name } => format!("ServiceAccount {:?}", format!("{name}/{namespace}")),
        }
    }
}

#[derive(Debug)]
pub(super) struct Binding {
    namespace: Box<str>,
    name: Box<str>,
    role_is_cluster: bool,
    role_name: String,
    /// Key of the role in `Index::roles`.
    pub(super) role_key: String,
    pub(super) subjects: Vec<BindingSubject>,
}

impl Binding {
    pub(super) fn read(object: &Object) -> Self {
        let value = object.value();
        let role = &value["roleRef"];
        let role_is_cluster = object.namespace.is_empty() || role["kind"] == "ClusterRole";
        let role_name = role["name"].as_str().unwrap_or_default().to_owned();
        let subjects = value["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            role_is_cluster,
            role_key: key(if role_is_cluster { "" } else { &object.namespace }, &role_name),
            role_name,
            subjects: subjects
                .iter()
                .filter_map(|it| BindingSubject::read(it, &object.namespace))
                .collect(),
        }
    }

    fn reason(&self, user: &User) -> String {
        let (kind, name) = match &*self.namespace {
            "" => ("ClusterRoleBinding", self.name.to_string()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.name)),
        };
        let role_kind = if self.role_is_cluster { "ClusterRole" } else { "Role" };
        let subject = self
            .subjects
            .iter()
            .find(|it| it.applies_to(user))
            .map(BindingSubject::text)
            .unwrap_or_default();
        format!(
            "RBAC: allowed by {kind} {name:?} of {role_kind} {:?} to {subject}",
            self.role_name
        )
    }
}

/// Bindings of one subject: by namespace (empty for cluster-wide ones), then by name.
type Held = HashMap<Box<str>, BTreeMap<Box<str>, Arc<Binding>>>;

#[derive(Default)]
struct Index {
    /// Rules by namespace (empty for ClusterRoles) and name.
    roles: HashMap<String, Arc<[Rule]>>,
    bindings: HashMap<String, Arc<Binding>>,
    users: HashMap<String, Held>,
    groups: HashMap<String, Held>,
}

impl Index {
    fn held(&mut self, subject: &BindingSubject) -> &mut Held {
        match subject.username() {
            Ok(user) => self.users.entry(user).or_default(),
            Err(group) => self.groups.entry(group).or_default(),
        }
    }

    /// Takes a binding from one subject. It looks at this subject alone: there may be as many as clusters.
    fn let_go(&mut self, subject: &BindingSubject, binding: &Binding) {
        let (holders, name) = match subject.username() {
            Ok(user) => (&mut self.users, user),
            Err(group) => (&mut self.groups, group),
        };
        let Some(held) = holders.get_mut(&name) else { return };
        if let Some(names) = held.get_mut(&binding.namespace) {
            names.remove(&binding.name);
            if names.is_empty() {
                held.remove(&binding.namespace);
            }
        }
        if held.is_empty() {
            holders.remove(&name);
        }
    }

    fn apply(&mut self, object: &Object, is_deleted: bool) {
        let key = object.key();
        let is_role = matches!(&*object.resource, ROLES | CLUSTER_ROLES);
        if is_role {
            if is_deleted {
                self.roles.remove(&key);
            } else {
                self.roles.insert(key, rules_of(&object.value()).into());
            }
            return;
        }
        if let Some(old) = self.bindings.remove(&key) {
            old.subjects.iter().for_each(|it| self.let_go(it, &old));
        }
        if !is_deleted {
            let binding = Arc::new(Binding::read(object));
            for subject in &binding.subjects {
                let names = self.held(subject).entry(binding.namespace.clone()).or_default();
                names.insert(binding.name.clone(), binding.clone());
            }
            self.bindings.insert(key, binding);
        }
    }

    /// The bindings that name `user`, cluster-wide ones first, each kind by name.
    fn bindings_of(&self, user: &User, namespace: &str) -> Vec<&Arc<Binding>> {
        let holders = || {
            let groups = user.groups.iter().filter_map(|it| self.groups.get(it));
            self.users.get(&user.username).into_iter().chain(groups)
        };
        let mut found = Vec::new();
        let scopes: &[&str] = if namespace.is_empty() { &[""] } else { &["", namespace] };
        for scope in scopes {
            let start = found.len();
            found.extend(holders().filter_map(|it| it.get(*scope)).flat_map(BTreeMap::values));
            found[start..].sort_by(|a, b| a.name.cmp(&b.name));
        }
        found.dedup_by(|a, b| Arc::ptr_eq(a, b));
        found
    }
}

/// The authorizer.
pub struct Rbac {
    store: Arc<Store>,
    index: RwLock<Index>,
    /// The store's revision that the index shows.
    seen: AtomicU64,
}

impl Rbac {
    /// An authorizer of the roles and bindings in `store`.
    pub fn new(store: Arc<Store>) -> Self {
        let rbac = Self {
            store,
            index: RwLock::default(),
            seen: AtomicU64::new(0),
        };
        rbac.rebuild(&mut rbac.index.write());
        rbac
    }

    fn rebuild(&self, index: &mut Index) {
        *index = Index::default();
        let mut seen = u64::MAX;
        for resource in [CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS] {
            let (objects, revision) = self.store.list(resource, "");
            objects.iter().for_each(|it| index.apply(it, false));
            seen = seen.min(revision);
        }
        self.seen.store(seen, Ordering::Release);
    }

    fn refresh(&self) {
        let revision = self.store.revision();
        if self.seen.load(Ordering::Acquire) >= revision {
            return;
        }
        let mut index = self.index.write();
        let seen = self.seen.load(Ordering::Acquire);
        for resource in [CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS] {
            match self.store.events(resource, seen, usize::MAX) {
                // An event later than `revision` is applied twice, which changes nothing.
                Ok(events) => events
                    .iter()
                    .for_each(|it| index.apply(&it.object, it.change == Change::Deleted)),
                Err(_) => return self.rebuild(&mut index),
            }
        }
        self.seen.fetch_max(revision, Ordering::AcqRel);
    }

    /// Whether a role or cluster role allows what is asked.
    pub fn authorize(&self, user: &User, asked: &Attributes) -> AccessDecision {
        if user.is_in(MASTERS) {
            return AccessDecision::Allow(String::new());
        }
        self.refresh();
        let index = self.index.read();
        for binding in index.bindings_of(user, &asked.namespace) {
            let rules = index.roles.get(&binding.role_key);
            if rules.is_some_and(|it| it.iter().any(|rule| rule.allows(asked))) {
                return AccessDecision::Allow(binding.reason(user));
            }
        }
        AccessDecision::NoOpinion
    }

    /// Whether `authorize` allows it.
    pub fn allows(&self, user: &User, asked: &Attributes) -> bool {
        matches!(self.authorize(user, asked), AccessDecision::Allow(_))
    }

    /// Adds those whom bindings give one of the roles that allow less.
    pub fn add_holders(&self, lost: &mut Lost) {
        if lost.roles.is_empty() {
            return;
        }
        self.refresh();
        let index = self.index.read();
        let roles = std::mem::take(&mut lost.roles);
        for binding in index.bindings.values().filter(|it| roles.contains(&it.role_key)) {
            binding.subjects.iter().for_each(|it| lost.add(it.username()));
        }
    }

    /// All rules that `user` holds in `namespace`, in the order of their bindings.
    pub fn rules_for(&self, user: &User, namespace: &str) -> Vec<Rule> {
        self.refresh();
        let index = self.index.read();
        let bindings = index.bindings_of(user, namespace).into_iter();
        bindings
            .filter_map(|it| index.roles.get(&it.role_key))
            .flat_map(|it| it.iter().cloned())
            .collect()
    }

    /// The newest rules of a role, seen by a writer; an empty namespace means a ClusterRole.
    pub(super) fn role_rules(&self, namespace: &str, name: &str) -> Option<Vec<Rule>> {
        let resource = if namespace.is_empty() { CLUSTER_ROLES } else { ROLES };
        self.store
            .newest(resource, namespace, name)
            .map(|it| rules_of(&it.value()))
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
