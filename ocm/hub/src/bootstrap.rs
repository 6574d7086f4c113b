//! What lets a cluster that nobody knows yet ask to join: an identity with hardly any rights.
//! Upstream: registration-operator manifests, `cluster-manager/hub`, and clusteradm's init chart. The names are theirs.
//! We differ in what everybody could do who has been handed such a token: upstream's reads the ConfigMaps of all
//! namespaces, lists and watches all clusters, and puts a new one into any set. To join takes one ConfigMap, one
//! cluster by its name, and the set `default`, which a cluster is put into that names none.

use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use ocm_api::namespaces;
use ocm_reconcile::install::{DROVER, Installed, MANAGED_BY};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The ServiceAccount, in [`namespaces::OPERATOR`], whose tokens clusters join with.
pub const SERVICE_ACCOUNT: &str = "agent-registration-bootstrap";

const CLUSTER_ROLE: &str = "open-cluster-management:bootstrap";
const ACCOUNT_BINDING: &str = "open-cluster-management:bootstrap:agent-registration";
const GROUP_BINDING: &str = "open-cluster-management:bootstrap:managedcluster";
/// The group of bootstrap tokens, the other kind of credential that clusters join with.
const GROUP: &str = "system:bootstrappers:managedcluster";

/// Where Kubernetes keeps what everybody may know.
const PUBLIC: &str = "kube-public";

fn cluster_info_reader() -> Value {
    json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"], "verbs": ["get"]})
}

/// Who comes with such a token, as an API server names it.
pub fn user() -> String {
    format!("system:serviceaccount:{}:{SERVICE_ACCOUNT}", namespaces::OPERATOR)
}

/// The objects, in the order in which they need each other.
pub fn objects() -> Vec<Installed> {
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": CLUSTER_ROLE});
    let account = json!({"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": namespaces::OPERATOR});
    let group = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUP});
    vec![
        installed::<Namespace>(json!({"metadata": {"name": namespaces::OPERATOR}})),
        installed::<Namespace>(json!({"metadata": {"name": namespaces::HUB}})),
        installed::<ServiceAccount>(json!({"metadata": {"name": SERVICE_ACCOUNT, "namespace": namespaces::OPERATOR}})),
        installed::<ClusterRole>(json!({
            "metadata": {"name": CLUSTER_ROLE},
            "rules": [
                {
                    "apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"],
                    "verbs": ["create", "get", "list", "watch"],
                },
                {
                    "apiGroups": ["cluster.open-cluster-management.io"], "resources": ["managedclusters"],
                    "verbs": ["get", "create"],
                },
                {
                    "apiGroups": ["cluster.open-cluster-management.io"], "resources": ["managedclustersets/join"],
                    "resourceNames": [namespaces::DEFAULT_CLUSTER_SET], "verbs": ["create"],
                },
            ],
        })),
        installed::<ClusterRoleBinding>(json!({
            "metadata": {"name": ACCOUNT_BINDING},
            "roleRef": role_ref,
            "subjects": [account],
        })),
        installed::<ClusterRoleBinding>(json!({
            "metadata": {"name": GROUP_BINDING},
            "roleRef": role_ref,
            "subjects": [group],
        })),
        installed::<Role>(json!({
            "metadata": {"name": CLUSTER_ROLE, "namespace": PUBLIC},
            "rules": [cluster_info_reader()],
        })),
        installed::<RoleBinding>(json!({
            "metadata": {"name": CLUSTER_ROLE, "namespace": PUBLIC},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": CLUSTER_ROLE},
            "subjects": [account, group],
        })),
    ]
}

/// Lets strangers ask where the hub is and what its CA is, as kubeadm does: `kube-public/cluster-info`. It is public
/// knowledge, and it lets a joining cluster check the hub before it sends its token. `kubeconfig` has no user. The
/// objects say that they are ours, to be renewed and taken away: on most Kubernetes somebody else has put some
/// of these names there.
pub fn cluster_info(kubeconfig: &str) -> Vec<Installed> {
    let namespace = PUBLIC;
    let name = "open-cluster-management:cluster-info";
    let labels = json!({(MANAGED_BY): DROVER});
    vec![
        installed::<ConfigMap>(json!({
            "metadata": {"name": "cluster-info", "namespace": namespace, "labels": labels},
            "data": {"kubeconfig": kubeconfig},
        })),
        installed::<Role>(json!({
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "rules": [cluster_info_reader()],
        })),
        installed::<RoleBinding>(json!({
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}],
        })),
    ]
}

fn installed<K>(value: Value) -> Installed
where
    K: kube::Resource<DynamicType = ()> + serde::Serialize + DeserializeOwned,
{
    Installed::of(&serde_json::from_value::<K>(value).expect("the literals of this file are objects of their kinds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_literals_of_this_file_are_objects_of_their_kinds() {
        assert_eq!((objects().len(), cluster_info("").len()), (8, 3));
    }
}
