//! Who knows the way to a cluster: the Cluster of Cluster API that it is, or a Secret that somebody has put into its
//! namespace; and what he says.

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::ResourceExt;
use ocm_api::{annotations, cluster::ManagedCluster, condition, conditions::managed_cluster::IMPORT_SUCCEEDED};
use ocm_reconcile::cache::split_key;

use super::{
    cluster_api::PROVISIONED,
    failure::{Failure, Retry},
};

/// The Secret in a cluster's namespace with its kubeconfig, for clusters that Cluster API knows nothing of. Other
/// importers have it under the same name.
pub const SECRET: &str = "auto-import-secret";
/// The key of the kubeconfig in it.
const SECRET_KEY: &str = "kubeconfig";
/// On it: `"true"` has it deleted when the cluster was imported. Ours.
pub const DELETE_AFTER_IMPORT: &str = "open-cluster-management.io/delete-after-import";
/// The key of the kubeconfig in a Secret of Cluster API.
pub const CLUSTER_API_KEY: &str = "value";
/// The label of the Secrets of Cluster API.
pub const CLUSTER_API_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// What the name of a Cluster's kubeconfig Secret ends with.
const KUBECONFIG: &str = "-kubeconfig";

/// An object that was looked for: that it is not there is an answer, and so is why it could not be asked for.
pub type Looked<K> = Result<Option<K>, String>;

/// Who knows the way to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// The Secret [`SECRET`].
    Secret,
    /// A Cluster of Cluster API.
    ClusterApi {
        /// Its namespace and name.
        key: (String, String),
        /// Its phase.
        phase: String,
        /// Another ManagedCluster that is this Cluster, too, and was so before.
        rival: Option<String>,
    },
}

/// Who knows the way to a cluster, and the Secret with the kubeconfig.
#[derive(Clone, Debug)]
pub struct ImportSource {
    /// Who.
    pub provider: Provider,
    /// The Secret.
    pub secret: Looked<Secret>,
}

/// Whether nobody has imported a cluster, and somebody may.
pub fn waits(cluster: &ManagedCluster) -> bool {
    let conditions = cluster.status.as_ref().map_or(&[][..], |it| &it.conditions);
    cluster.metadata.deletion_timestamp.is_none() && !condition::is_true(conditions, IMPORT_SUCCEEDED)
}

/// The namespace and name of the Cluster of Cluster API that a cluster would be; `None` when its annotation names none.
pub fn owner(cluster: &ManagedCluster) -> Option<(String, String)> {
    let Some(named) = cluster.annotations().get(annotations::CAPI_CLUSTER) else {
        return Some((cluster.name_any(), cluster.name_any()));
    };
    let (namespace, name) = split_key(named);
    let is_one = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
    is_one.then(|| (namespace.to_owned(), name.to_owned()))
}

/// Of several clusters that are one Cluster, the one that is older is.
pub fn is_before(one: &ManagedCluster, other: &ManagedCluster) -> bool {
    let age = |it: &ManagedCluster| (it.metadata.creation_timestamp.as_ref().map(|it| it.0), it.name_any());
    age(one) < age(other)
}

impl Provider {
    /// The namespace and name of the Secret with the kubeconfig of this cluster.
    pub fn secret(&self, cluster: &str) -> (String, String) {
        match self {
            Provider::Secret => (cluster.to_owned(), SECRET.to_owned()),
            Provider::ClusterApi { key, .. } => (key.0.clone(), kubeconfig_secret(&key.1)),
        }
    }

    fn key(&self) -> &'static str {
        match self {
            Provider::Secret => SECRET_KEY,
            Provider::ClusterApi { .. } => CLUSTER_API_KEY,
        }
    }
}

/// The name of the Secret with the kubeconfig of a Cluster of Cluster API.
pub fn kubeconfig_secret(cluster: &str) -> String {
    format!("{cluster}{KUBECONFIG}")
}

/// The name of the Cluster whose kubeconfig a Secret of this name would hold.
pub fn cluster_of_secret(name: &str) -> Option<&str> {
    name.strip_suffix(KUBECONFIG)
}

impl ImportSource {
    /// How sentences name the Secret.
    pub fn name(&self, cluster: &str) -> String {
        let (namespace, name) = self.provider.secret(cluster);
        format!("Secret {namespace}/{name}")
    }

    /// The kubeconfig, as text.
    ///
    /// # Errors
    /// Why there is none.
    pub fn kubeconfig(&self, cluster: &str) -> Result<String, Failure> {
        if let Provider::ClusterApi { key, phase, rival } = &self.provider {
            if let Some(rival) = rival {
                let (namespace, name) = key;
                return Err(Failure::no_kubeconfig(format!(
                    "the Cluster {namespace}/{name} of Cluster API is ManagedCluster {rival}: correct annotation {} of \
                     one of them",
                    annotations::CAPI_CLUSTER
                )));
            }
            if phase != PROVISIONED {
                return Err(Failure::not_provisioned());
            }
        }
        let from = self.name(cluster);
        let key = self.provider.key();
        let secret = match &self.secret {
            Ok(Some(secret)) => secret,
            Ok(None) => {
                return Err(Failure {
                    retry: Retry::InAMinute,
                    ..Failure::no_kubeconfig(format!("{from} is not there"))
                });
            }
            Err(why) => return Err(Failure::no_kubeconfig(format!("{from} cannot be read: {why}"))),
        };
        let data = secret.data.as_ref().and_then(|it| it.get(key));
        let Some(ByteString(data)) = data else {
            return Err(Failure::no_kubeconfig(format!(
                "{from} has no key {key}, which holds a kubeconfig"
            )));
        };
        let text = std::str::from_utf8(data);
        let text = text.map_err(|_| Failure::no_kubeconfig(format!("{from} holds no text in {key}")))?;
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(metadata: Value) -> ManagedCluster {
        serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap()
    }

    #[test]
    fn the_annotation_or_the_name_says_which_cluster_it_is() {
        let of = |annotation: &str| {
            let it = cluster(json!({"name": "c1", "annotations": {annotations::CAPI_CLUSTER: annotation}}));
            owner(&it).map(|(namespace, name)| format!("{namespace} {name}"))
        };
        assert_eq!(of("capi/one").as_deref(), Some("capi one"));
        for wrong in ["one", "/one", "capi/", "a/b/c", ""] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(
            owner(&cluster(json!({"name": "c1"}))),
            Some(("c1".to_owned(), "c1".to_owned()))
        );
        assert_eq!(cluster_of_secret(&kubeconfig_secret("one")), Some("one"));
    }

    #[test]
    fn a_deleted_or_imported_cluster_does_not_wait() {
        assert!(waits(&cluster(json!({"name": "c1"}))));
        assert!(!waits(&cluster(
            json!({"name": "c1", "deletionTimestamp": "2026-01-01T00:00:00Z"})
        )));
        let mut imported = cluster(json!({"name": "c1"}));
        let done = condition::wanted(IMPORT_SUCCEEDED, true, "ImportSucceed", "");
        imported.status.get_or_insert_default().conditions = vec![done.since(jiff::Timestamp::UNIX_EPOCH)];
        assert!(!waits(&imported));
    }

    #[test]
    fn of_two_names_for_a_cluster_the_older_counts() {
        let of = |name: &str, second: u32| {
            cluster(json!({"name": name, "creationTimestamp": format!("2026-01-01T00:00:0{second}Z")}))
        };
        assert!(is_before(&of("b", 1), &of("a", 2)) && !is_before(&of("a", 2), &of("b", 1)));
        assert!(is_before(&of("a", 1), &of("b", 1)));
    }
}
