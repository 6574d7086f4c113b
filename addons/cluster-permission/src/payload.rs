//! What a ManifestWork is made of for a ClusterPermission: a plain function on what the hub has.
//! Upstream: cluster-permission `controllers/clusterpermission_controller.go`, `generateManifestWorkPayload`.

use std::collections::{BTreeMap, BTreeSet};

use ocm_addon_sdk::{
    k8s_openapi::{
        api::{
            core::v1::Namespace,
            rbac::v1::{PolicyRule, RoleRef, Subject},
        },
        apimachinery::pkg::apis::meta::v1::LabelSelector,
    },
    kube::ResourceExt,
    ocm_api::{
        RawObject,
        addon::v1alpha1::ManagedClusterAddOn,
        authentication::{self, ManagedServiceAccount},
        rbac::{ClusterPermission, ClusterPermissionSpec, PermissionClusterRoleBinding, PermissionRoleBinding},
        selector::Selector,
        work::{ManifestConfigOption, ManifestWorkSpec, ResourceIdentifier, UpdateStrategy, UpdateStrategyType},
    },
};
use serde_json::{Value, json};

/// Where the add-on managed-serviceaccount is.
const MANAGED_SERVICE_ACCOUNT_ADD_ON: &str = "managed-serviceaccount";
const RBAC: &str = "rbac.authorization.k8s.io";

/// What of the hub a payload depends on.
#[derive(Default)]
pub struct Surroundings {
    /// All Namespaces of the hub, by name, with their labels; those being deleted too.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// The names of the ManagedServiceAccounts of the cluster.
    pub service_accounts: BTreeSet<String>,
    /// Where the add-on managed-serviceaccount has its ServiceAccounts on the cluster; `None` when it is not there.
    pub service_account_namespace: Option<String>,
}

impl Surroundings {
    /// Takes the labels of a Namespace.
    pub fn add_namespace(&mut self, namespace: &Namespace) {
        self.namespaces.insert(namespace.name_any(), namespace.labels().clone());
    }
}

/// Where an add-on runs on its cluster: what the agent says, else what was asked for.
pub fn install_namespace(add_on: &ManagedClusterAddOn) -> String {
    let said = add_on.status.as_ref().map(|it| it.namespace.as_str());
    let said = said.filter(|it| !it.is_empty());
    said.unwrap_or(&add_on.spec.install_namespace).to_owned()
}

/// Whether some subject is a ManagedServiceAccount.
pub fn names_service_accounts(spec: &ClusterPermissionSpec) -> bool {
    let of_cluster = spec.cluster_role_bindings.iter().chain(&spec.cluster_role_binding);
    let of_cluster = of_cluster.flat_map(|it| it.subjects.iter().chain(&it.subject));
    let of_namespaces = spec.role_bindings.iter();
    let of_namespaces = of_namespaces.flat_map(|it| it.subjects.iter().chain(&it.subject));
    of_cluster.chain(of_namespaces).any(is_service_account)
}

/// Whether some namespaces are chosen by their labels.
pub fn selects_namespaces(spec: &ClusterPermissionSpec) -> bool {
    spec.roles.iter().any(|it| it.namespace_selector.is_some())
        || spec.role_bindings.iter().any(|it| it.namespace_selector.is_some())
}

fn is_service_account(subject: &Subject) -> bool {
    subject.api_group.as_deref() == Some(authentication::GROUP) && subject.kind == ManagedServiceAccount::KIND
}

/// The spec of the ManifestWork.
///
/// # Errors
/// What is wrong with the ClusterPermission, or what it refers to and is not there: the text of the condition.
pub fn build(permission: &ClusterPermission, around: &Surroundings) -> Result<ManifestWorkSpec, String> {
    let made = Payload {
        name: permission.name_any(),
        spec: &permission.spec,
        around,
        manifests: Vec::new(),
    };
    made.build()
}

struct Payload<'a> {
    name: String,
    spec: &'a ClusterPermissionSpec,
    around: &'a Surroundings,
    manifests: Vec<Value>,
}

impl Payload<'_> {
    fn build(mut self) -> Result<ManifestWorkSpec, String> {
        if let Some(role) = &self.spec.cluster_role {
            let metadata = json!({"name": self.name});
            self.push("ClusterRole", metadata, json!({"rules": role.rules}));
        }
        self.cluster_role_bindings()?;
        self.roles()?;
        self.role_bindings()?;
        self.check_names()?;
        let configs = if self.spec.validate == Some(true) {
            self.validated()
        } else {
            Vec::new()
        };
        let mut work = ManifestWorkSpec::default();
        let manifests: Vec<RawObject> = self.manifests.into_iter().map(RawObject).collect();
        work.workload.manifests = manifests.into();
        work.manifest_configs = configs;
        Ok(work)
    }

    fn push(&mut self, kind: &str, metadata: Value, rest: Value) {
        let mut manifest = json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata});
        if let (Value::Object(all), Value::Object(rest)) = (&mut manifest, rest) {
            all.extend(rest);
        }
        self.manifests.push(manifest);
    }

    /// The singular one counts only where there is no other.
    fn bindings(&self) -> Vec<&PermissionClusterRoleBinding> {
        if self.spec.cluster_role_bindings.is_empty() {
            self.spec.cluster_role_binding.iter().collect()
        } else {
            self.spec.cluster_role_bindings.iter().collect()
        }
    }

    fn cluster_role_ref(&self, binding: &PermissionClusterRoleBinding) -> RoleRef {
        binding.role_ref.clone().unwrap_or_else(|| RoleRef {
            api_group: Some(RBAC.to_owned()),
            kind: "ClusterRole".to_owned(),
            name: self.name.clone(),
        })
    }

    fn cluster_role_bindings(&mut self) -> Result<(), String> {
        let bindings: Vec<_> = self.bindings().into_iter().cloned().collect();
        for binding in bindings {
            let name = or(&binding.name, &self.name);
            let subjects = self.subjects(&binding.subjects, binding.subject.as_ref())?;
            let rest = json!({"roleRef": self.cluster_role_ref(&binding), "subjects": subjects});
            self.push("ClusterRoleBinding", json!({"name": name}), rest);
        }
        Ok(())
    }

    fn roles(&mut self) -> Result<(), String> {
        for role in &self.spec.roles {
            for namespace in self.namespaces("Role", &role.namespace, role.namespace_selector.as_ref())? {
                let rules: &[PolicyRule] = &role.rules;
                let metadata = json!({"name": self.name, "namespace": namespace});
                self.push("Role", metadata, json!({"rules": rules}));
            }
        }
        Ok(())
    }

    fn role_bindings(&mut self) -> Result<(), String> {
        for binding in &self.spec.role_bindings {
            let selector = binding.namespace_selector.as_ref();
            let namespaces = self.namespaces("RoleBinding", &binding.namespace, selector)?;
            let (name, role) = self.role_of(binding)?;
            let subjects = self.subjects(&binding.subjects, binding.subject.as_ref())?;
            for namespace in namespaces {
                let metadata = json!({"name": name, "namespace": namespace});
                self.push("RoleBinding", metadata, json!({"roleRef": role, "subjects": subjects}));
            }
        }
        Ok(())
    }

    /// The name of a RoleBinding and its role. Where namespaces are selected, both are the object's.
    fn role_of(&self, binding: &PermissionRoleBinding) -> Result<(String, RoleRef), String> {
        let asked = &binding.role_ref;
        let own = RoleRef {
            api_group: Some(RBAC.to_owned()),
            kind: asked.kind.clone(),
            name: self.name.clone(),
        };
        if binding.namespace_selector.is_some() {
            return Ok((self.name.clone(), own));
        }
        let of = &binding.namespace;
        let role = match (asked.api_group.is_empty(), asked.name.is_empty()) {
            (true, true) => own,
            (true, false) => {
                return Err(format!(
                    "the RoleBinding for Namespace {of} missing APIGroup for the RoleRef"
                ));
            }
            (false, true) => {
                return Err(format!(
                    "the RoleBinding for Namespace {of} missing Name for the RoleRef"
                ));
            }
            (false, false) => RoleRef {
                api_group: Some(asked.api_group.clone()),
                kind: asked.kind.clone(),
                name: asked.name.clone(),
            },
        };
        Ok((or(&binding.name, &self.name), role))
    }

    fn namespaces(&self, kind: &str, namespace: &str, selector: Option<&LabelSelector>) -> Result<Vec<String>, String> {
        let selector = match (namespace.is_empty(), selector) {
            (true, None) => {
                return Err(format!(
                    "both {kind} Namespace and NamespaceSelector cannot be nil and empty"
                ));
            }
            (false, Some(_)) => {
                return Err(format!(
                    "both {kind} Namespace and NamespaceSelector cannot populated at the same time"
                ));
            }
            (false, None) => return Ok(vec![namespace.to_owned()]),
            (true, Some(selector)) => {
                Selector::of(selector).map_err(|why| format!("{kind} namespaceSelector: {why}"))?
            }
        };
        let all = self.around.namespaces.iter();
        let chosen = all.filter(|(_, labels)| selector.matches(|key| labels.get(key).map(String::as_str)));
        Ok(chosen.map(|(name, _)| name.clone()).collect())
    }

    fn subjects(&self, several: &[Subject], one: Option<&Subject>) -> Result<Vec<Subject>, String> {
        let one = one.filter(|_| several.is_empty());
        several.iter().chain(one).map(|it| self.subject(it)).collect()
    }

    /// A ManagedServiceAccount stands for the ServiceAccount that its add-on's agent has made.
    fn subject(&self, subject: &Subject) -> Result<Subject, String> {
        if !is_service_account(subject) {
            return Ok(subject.clone());
        }
        let name = &subject.name;
        if !self.around.service_accounts.contains(name) {
            return Err(not_found(ManagedServiceAccount::PLURAL, authentication::GROUP, name));
        }
        let Some(namespace) = &self.around.service_account_namespace else {
            let (plural, group) = (ManagedClusterAddOn::PLURAL, ManagedClusterAddOn::GROUP);
            return Err(not_found(plural, group, MANAGED_SERVICE_ACCOUNT_ADD_ON));
        };
        Ok(Subject {
            api_group: None,
            kind: "ServiceAccount".to_owned(),
            name: name.clone(),
            namespace: Some(namespace.clone()),
        })
    }

    /// Two different objects of one name would take turns.
    fn check_names(&mut self) -> Result<(), String> {
        let mut seen: BTreeMap<(String, String, String), Value> = BTreeMap::new();
        let mut kept = Vec::with_capacity(self.manifests.len());
        for manifest in std::mem::take(&mut self.manifests) {
            let text = |at: &str| {
                manifest
                    .pointer(at)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let key = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
            match seen.get(&key) {
                Some(same) if *same == manifest => {}
                Some(_) => {
                    let (kind, namespace, name) = key;
                    let place = if namespace.is_empty() {
                        String::new()
                    } else {
                        format!(" in Namespace {namespace}")
                    };
                    return Err(format!(
                        "two different {kind}s{place} would be named {name}; give one another name"
                    ));
                }
                None => {
                    seen.insert(key, manifest.clone());
                    kept.push(manifest);
                }
            }
        }
        self.manifests = kept;
        Ok(())
    }

    /// Adds the roles that bindings refer to and that are made by others, as objects to be looked at only.
    fn validated(&mut self) -> Vec<ManifestConfigOption> {
        let mut wanted: Vec<(&str, String, String)> = Vec::new();
        let mut want = |kind: &'static str, namespace: &str, name: &str| {
            let role = (kind, namespace.to_owned(), name.to_owned());
            if !wanted.contains(&role) {
                wanted.push(role);
            }
        };
        for binding in self.bindings() {
            let role = self.cluster_role_ref(binding);
            want("ClusterRole", "", &role.name);
        }
        for binding in &self.spec.role_bindings {
            let Ok((_, role)) = self.role_of(binding) else {
                continue;
            };
            if role.kind == "ClusterRole" {
                want("ClusterRole", "", &role.name);
            } else if role.kind == "Role" && !binding.namespace.is_empty() {
                want("Role", &binding.namespace, &role.name);
            }
        }
        let made = |kind: &str, namespace: &str, name: &str| {
            self.manifests.iter().any(|it| {
                it["kind"] == kind
                    && it["metadata"]["name"] == name
                    && it["metadata"]["namespace"].as_str().unwrap_or_default() == namespace
            })
        };
        wanted.retain(|(kind, namespace, name)| !made(kind, namespace, name));
        let mut configs = Vec::new();
        for (kind, namespace, name) in wanted {
            let mut metadata = json!({"name": name});
            if !namespace.is_empty() {
                metadata["namespace"] = namespace.clone().into();
            }
            self.push(kind, metadata, json!({}));
            configs.push(ManifestConfigOption {
                resource_identifier: ResourceIdentifier {
                    group: RBAC.to_owned(),
                    resource: if kind == "Role" { "roles" } else { "clusterroles" }.to_owned(),
                    name,
                    namespace,
                },
                update_strategy: Some(UpdateStrategy {
                    r#type: UpdateStrategyType::ReadOnly,
                    server_side_apply: None,
                }),
                ..ManifestConfigOption::default()
            });
        }
        configs
    }
}

fn or(name: &str, otherwise: &str) -> String {
    if name.is_empty() { otherwise } else { name }.to_owned()
}

/// As an API server says it.
fn not_found(plural: &str, group: &str, name: &str) -> String {
    format!("{plural}.{group} \"{name}\" not found")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(spec: Value) -> ClusterPermission {
        let text = json!({"metadata": {"name": "p", "namespace": "c1", "uid": "abcdefgh"}, "spec": spec});
        serde_json::from_value(text).unwrap()
    }

    fn built(spec: Value, around: &Surroundings) -> Result<Vec<Value>, String> {
        let work = build(&permission(spec), around)?;
        Ok(work.workload.manifests.read().iter().map(|it| it.0.clone()).collect())
    }

    fn around() -> Surroundings {
        let labels = |it: &str| BTreeMap::from([("team".to_owned(), it.to_owned())]);
        Surroundings {
            namespaces: [
                ("a".to_owned(), labels("x")),
                ("b".to_owned(), labels("x")),
                ("c".to_owned(), labels("y")),
            ]
            .into(),
            service_accounts: ["ci".to_owned()].into(),
            service_account_namespace: Some("msa".to_owned()),
        }
    }

    fn user() -> Value {
        json!({"kind": "User", "apiGroup": RBAC, "name": "jo"})
    }

    #[test]
    fn a_managed_service_account_becomes_its_service_account() {
        let subject = json!({"kind": "ManagedServiceAccount", "apiGroup": authentication::GROUP, "name": "ci"});
        let role = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"});
        let spec = json!({"clusterRoleBinding": {"roleRef": role, "subject": subject}});
        let manifests = built(spec.clone(), &around()).unwrap();
        let account = json!({"kind": "ServiceAccount", "name": "ci", "namespace": "msa"});
        assert_eq!(
            manifests,
            [json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "p"},
                "roleRef": role, "subjects": [account],
            })]
        );
        let mut no_account = around();
        no_account.service_accounts.clear();
        let error = built(spec.clone(), &no_account).unwrap_err();
        assert_eq!(
            error,
            r#"managedserviceaccounts.authentication.open-cluster-management.io "ci" not found"#
        );
        let mut no_add_on = around();
        no_add_on.service_account_namespace = None;
        let error = built(spec, &no_add_on).unwrap_err();
        assert_eq!(
            error,
            r#"managedclusteraddons.addon.open-cluster-management.io "managed-serviceaccount" not found"#
        );
    }

    #[test]
    fn roles_and_bindings_come_in_upstreams_order() {
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
        let spec = json!({
            "clusterRole": {"rules": rules},
            "clusterRoleBinding": {"subject": user(), "name": "ignored"},
            "clusterRoleBindings": [{"subject": user(), "subjects": [{"kind": "Group", "name": "g"}]}],
            "roles": [{"namespaceSelector": {"matchLabels": {"team": "x"}}, "rules": rules}],
            "roleBindings": [
                {"namespace": "d", "name": "n", "subject": user(), "roleRef": {"kind": "ClusterRole", "apiGroup": RBAC, "name": "view"}},
                {"namespaceSelector": {"matchLabels": {"team": "y"}}, "name": "n", "subject": user(), "roleRef": {"kind": "Role", "name": "z"}},
                {"namespaceSelector": {"matchLabels": {"team": "none"}}, "subject": user(), "roleRef": {"kind": "Role"}},
            ],
        });
        let manifests = built(spec, &around()).unwrap();
        let named: Vec<String> = manifests
            .iter()
            .map(|it| {
                let meta = &it["metadata"];
                let role = it["roleRef"]["name"].as_str().unwrap_or("-");
                format!("{} {}/{} {role}", it["kind"], meta["namespace"], meta["name"]).replace('"', "")
            })
            .collect();
        assert_eq!(
            named,
            [
                "ClusterRole null/p -",
                "ClusterRoleBinding null/p p",
                "Role a/p -",
                "Role b/p -",
                "RoleBinding d/n view",
                "RoleBinding c/p p",
            ]
        );
        assert_eq!(manifests[1]["subjects"], json!([{"kind": "Group", "name": "g"}]));
    }

    #[test]
    fn what_cannot_be_built_has_upstreams_text() {
        let error = |spec: Value| built(spec, &around()).unwrap_err();
        let role = |role: Value| error(json!({"roles": [role]}));
        assert_eq!(
            role(json!({"rules": []})),
            "both Role Namespace and NamespaceSelector cannot be nil and empty"
        );
        assert_eq!(
            role(json!({"rules": [], "namespace": "a", "namespaceSelector": {}})),
            "both Role Namespace and NamespaceSelector cannot populated at the same time"
        );
        let binding = |mut it: Value| {
            it["subject"] = user();
            error(json!({"roleBindings": [it]}))
        };
        assert_eq!(
            binding(json!({"roleRef": {"kind": "Role"}})),
            "both RoleBinding Namespace and NamespaceSelector cannot be nil and empty"
        );
        assert_eq!(
            binding(json!({"namespace": "a", "roleRef": {"kind": "Role", "name": "x"}})),
            "the RoleBinding for Namespace a missing APIGroup for the RoleRef"
        );
        assert_eq!(
            binding(json!({"namespace": "a", "roleRef": {"kind": "Role", "apiGroup": RBAC}})),
            "the RoleBinding for Namespace a missing Name for the RoleRef"
        );
    }

    #[test]
    fn two_objects_of_one_name_are_refused() {
        let other = json!({"kind": "User", "name": "al"});
        let spec = json!({"clusterRoleBindings": [{"subject": user()}, {"subject": other}]});
        assert_eq!(
            built(spec, &around()).unwrap_err(),
            "two different ClusterRoleBindings would be named p; give one another name"
        );
        let twice = json!({"clusterRoleBindings": [{"subject": user()}, {"subject": user()}]});
        assert_eq!(built(twice, &around()).unwrap().len(), 1);
    }

    #[test]
    fn only_roles_of_others_are_looked_at() {
        let spec = json!({
            "validate": true,
            "clusterRole": {"rules": []},
            "clusterRoleBindings": [
                {"name": "own", "subject": user()},
                {"name": "view", "subject": user(), "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}},
            ],
            "roleBindings": [
                {"namespace": "a", "subject": user(), "roleRef": {"kind": "Role", "apiGroup": RBAC, "name": "r"}},
                {"namespace": "b", "subject": user(), "roleRef": {"kind": "ClusterRole", "apiGroup": RBAC, "name": "view"}},
            ],
        });
        let work = build(&permission(spec), &around()).unwrap();
        let read = work.workload.manifests.read();
        let last: Vec<_> = read[read.len() - 2..].iter().map(|it| it.0.clone()).collect();
        assert_eq!(
            last,
            [
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "view"}}),
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "namespace": "a"}}),
            ]
        );
        let configs: Vec<_> = work
            .manifest_configs
            .iter()
            .map(|it| {
                let id = &it.resource_identifier;
                assert_eq!(
                    it.update_strategy.as_ref().unwrap().r#type,
                    UpdateStrategyType::ReadOnly
                );
                format!("{}.{} {}/{}", id.resource, id.group, id.namespace, id.name)
            })
            .collect();
        assert_eq!(
            configs,
            [
                "clusterroles.rbac.authorization.k8s.io /view",
                "roles.rbac.authorization.k8s.io a/r"
            ]
        );
    }
}
