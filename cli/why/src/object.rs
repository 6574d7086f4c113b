//! What can be asked about, as it is typed: `KIND/NAME`.

use std::str::FromStr;

use anyhow::{Result, bail};

/// What was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectRef {
    /// A ManagedCluster.
    ManagedCluster(String),
    /// A ClusterManagementAddOn.
    ClusterManagementAddOn(String),
    /// A ClusterManager.
    ClusterManager(String),
    /// A Klusterlet.
    Klusterlet(String),
    /// A ManagedClusterAddOn.
    ManagedClusterAddOn {
        /// Its cluster.
        cluster: String,
        /// Its name.
        name: String,
    },
    /// A ManifestWork.
    ManifestWork {
        /// Its cluster.
        cluster: String,
        /// Its name.
        name: String,
    },
    /// A ManagedClusterSet.
    ManagedClusterSet(String),
    /// A ManagedClusterSetBinding.
    ManagedClusterSetBinding {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A ManifestWorkReplicaSet.
    ManifestWorkReplicaSet {
        /// Its name.
        name: String,
        /// Said with the name; `-n` otherwise.
        namespace: Option<String>,
        /// Only what became of this cluster.
        cluster: Option<String>,
    },
    /// A ManagedServiceAccount.
    ManagedServiceAccount {
        /// Its cluster.
        cluster: String,
        /// Its name.
        name: String,
    },
    /// A ClusterPermission.
    ClusterPermission {
        /// Its cluster.
        cluster: String,
        /// Its name.
        name: String,
    },
    /// A ManagedProxyConfiguration.
    ManagedProxyConfiguration(String),
    /// A Policy, or a replica of one.
    Policy {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A Subscription of the add-on application-manager.
    Subscription {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A CertificateSigningRequest.
    Csr(String),
    /// A Placement.
    Placement {
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
        /// Only what became of this cluster.
        cluster: Option<String>,
    },
}

impl FromStr for ObjectRef {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        if parts.iter().any(|it| it.is_empty()) {
            bail!("write KIND/NAME, for example managedcluster/cluster1");
        }
        let kind = parts[0].to_ascii_lowercase();
        match (kind.as_str(), &parts[1..]) {
            ("managedcluster" | "managedclusters" | "cluster" | "mcl", [name]) => {
                Ok(Self::ManagedCluster((*name).into()))
            }
            ("clustermanagementaddon" | "clustermanagementaddons" | "cma" | "cmas", [name]) => {
                Ok(Self::ClusterManagementAddOn((*name).into()))
            }
            ("clustermanager" | "clustermanagers", [name]) => Ok(Self::ClusterManager((*name).into())),
            ("klusterlet" | "klusterlets", [name]) => Ok(Self::Klusterlet((*name).into())),
            ("managedclusteraddon" | "managedclusteraddons" | "addon" | "mca" | "mcas", [cluster, name]) => {
                Ok(Self::ManagedClusterAddOn {
                    cluster: (*cluster).into(),
                    name: (*name).into(),
                })
            }
            ("managedclusteraddon" | "managedclusteraddons" | "addon" | "mca" | "mcas", _) => {
                bail!("write managedclusteraddon/CLUSTER/NAME: it is one cluster's")
            }
            ("manifestwork" | "manifestworks" | "work" | "mw", [cluster, name]) => Ok(Self::ManifestWork {
                cluster: (*cluster).into(),
                name: (*name).into(),
            }),
            ("manifestwork" | "manifestworks" | "work" | "mw", _) => {
                bail!("write manifestwork/CLUSTER/NAME: a work belongs to one cluster")
            }
            ("managedserviceaccount" | "managedserviceaccounts", [cluster, name]) => Ok(Self::ManagedServiceAccount {
                cluster: (*cluster).into(),
                name: (*name).into(),
            }),
            ("clusterpermission" | "clusterpermissions", [cluster, name]) => Ok(Self::ClusterPermission {
                cluster: (*cluster).into(),
                name: (*name).into(),
            }),
            ("managedserviceaccount" | "managedserviceaccounts" | "clusterpermission" | "clusterpermissions", _) => {
                bail!("write {kind}/CLUSTER/NAME: it is one cluster's")
            }
            ("managedproxyconfiguration" | "managedproxyconfigurations", [name]) => {
                Ok(Self::ManagedProxyConfiguration((*name).into()))
            }
            ("policy" | "policies" | "plc", [namespace, name]) => Ok(Self::Policy {
                namespace: (*namespace).into(),
                name: (*name).into(),
            }),
            ("policy" | "policies" | "plc", _) => bail!("write policy/NAMESPACE/NAME"),
            ("subscription" | "subscriptions" | "appsub" | "appsubs", [namespace, name]) => Ok(Self::Subscription {
                namespace: (*namespace).into(),
                name: (*name).into(),
            }),
            ("subscription" | "subscriptions" | "appsub" | "appsubs", _) => bail!("write subscription/NAMESPACE/NAME"),
            ("managedclusterset" | "managedclustersets" | "clusterset" | "mclset" | "mclsets", [name]) => {
                Ok(Self::ManagedClusterSet((*name).into()))
            }
            (
                "managedclustersetbinding" | "managedclustersetbindings" | "mclsetbinding" | "mclsetbindings",
                [namespace, name],
            ) => Ok(Self::ManagedClusterSetBinding {
                namespace: (*namespace).into(),
                name: (*name).into(),
            }),
            ("managedclustersetbinding" | "managedclustersetbindings" | "mclsetbinding" | "mclsetbindings", _) => {
                bail!("write managedclustersetbinding/NAMESPACE/NAME: it lets one namespace use a set")
            }
            ("manifestworkreplicaset" | "manifestworkreplicasets" | "mwrs", [name]) => {
                Ok(Self::ManifestWorkReplicaSet {
                    name: (*name).into(),
                    namespace: None,
                    cluster: None,
                })
            }
            ("manifestworkreplicaset" | "manifestworkreplicasets" | "mwrs", [namespace, name]) => {
                Ok(Self::ManifestWorkReplicaSet {
                    name: (*name).into(),
                    namespace: Some((*namespace).into()),
                    cluster: None,
                })
            }
            ("placement" | "placements", [name]) => Ok(Self::Placement {
                name: (*name).into(),
                namespace: "default".into(),
                cluster: None,
            }),
            ("placement" | "placements", _) => bail!("write placement/NAME, and its namespace with -n"),
            ("csr" | "certificatesigningrequest" | "certificatesigningrequests", [name]) => {
                Ok(Self::Csr((*name).into()))
            }
            (
                "managedcluster"
                | "managedclusters"
                | "cluster"
                | "mcl"
                | "csr"
                | "managedclusterset"
                | "managedclustersets"
                | "clusterset"
                | "mclset"
                | "mclsets"
                | "clustermanager"
                | "clustermanagers"
                | "klusterlet"
                | "klusterlets"
                | "managedproxyconfiguration"
                | "managedproxyconfigurations",
                _,
            ) => bail!("write {kind}/NAME"),
            _ => bail!(
                "{kind:?} is not known here; ask about a managedcluster, a clustermanagementaddon, a managedclusteraddon, a manifestwork, a manifestworkreplicaset, a placement, a managedclusterset, a managedclustersetbinding, a csr, a clustermanager, a klusterlet, a managedserviceaccount, a clusterpermission, a managedproxyconfiguration, a policy or a subscription"
            ),
        }
    }
}

impl std::fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ManagedCluster(name) => write!(f, "managedcluster/{name}"),
            Self::ClusterManagementAddOn(name) => write!(f, "clustermanagementaddon/{name}"),
            Self::ManagedClusterAddOn { cluster, name } => write!(f, "managedclusteraddon/{cluster}/{name}"),
            Self::ManifestWork { cluster, name } => write!(f, "manifestwork/{cluster}/{name}"),
            Self::ManagedClusterSet(name) => write!(f, "managedclusterset/{name}"),
            Self::ManagedClusterSetBinding { namespace, name } => {
                write!(f, "managedclustersetbinding/{namespace}/{name}")
            }
            Self::ManifestWorkReplicaSet { name, .. } => write!(f, "manifestworkreplicaset/{name}"),
            Self::ClusterManager(name) => write!(f, "clustermanager/{name}"),
            Self::Klusterlet(name) => write!(f, "klusterlet/{name}"),
            Self::ManagedServiceAccount { cluster, name } => write!(f, "managedserviceaccount/{cluster}/{name}"),
            Self::ClusterPermission { cluster, name } => write!(f, "clusterpermission/{cluster}/{name}"),
            Self::ManagedProxyConfiguration(name) => write!(f, "managedproxyconfiguration/{name}"),
            Self::Policy { namespace, name } => write!(f, "policy/{namespace}/{name}"),
            Self::Subscription { namespace, name } => write!(f, "subscription/{namespace}/{name}"),
            Self::Csr(name) => write!(f, "csr/{name}"),
            Self::Placement { name, .. } => write!(f, "placement/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_written_as_kind_and_name() {
        let parsed = |text: &str| text.parse::<ObjectRef>().map_err(|it| it.to_string());
        assert_eq!(
            parsed("managedcluster/cluster3"),
            Ok(ObjectRef::ManagedCluster("cluster3".into()))
        );
        assert_eq!(parsed("mcl/a"), Ok(ObjectRef::ManagedCluster("a".into())));
        assert_eq!(
            parsed("work/c/w"),
            Ok(ObjectRef::ManifestWork {
                cluster: "c".into(),
                name: "w".into()
            })
        );
        assert_eq!(parsed("csr/a-b"), Ok(ObjectRef::Csr("a-b".into())));
        assert_eq!(parsed("klusterlets/a"), Ok(ObjectRef::Klusterlet("a".into())));
        assert!(
            parsed("clustermanager")
                .unwrap_err()
                .contains("write clustermanager/NAME")
        );
        assert!(parsed("work/w").unwrap_err().contains("a work belongs to one cluster"));
        assert_eq!(
            parsed("managedproxyconfiguration/cluster-proxy"),
            Ok(ObjectRef::ManagedProxyConfiguration("cluster-proxy".into()))
        );
        assert!(
            parsed("managedserviceaccount/a")
                .unwrap_err()
                .contains("write managedserviceaccount/CLUSTER/NAME")
        );
        assert!(parsed("plc/a").unwrap_err().contains("write policy/NAMESPACE/NAME"));
        assert_eq!(parsed("policies/a/b").map(|it| it.to_string()), Ok("policy/a/b".into()));
        let subscription = Ok("subscription/a/b".to_owned());
        for kind in ["subscription", "subscriptions", "appsub"] {
            assert_eq!(parsed(&format!("{kind}/a/b")).map(|it| it.to_string()), subscription);
        }
        let error = parsed("appsub/a").unwrap_err();
        assert!(error.contains("write subscription/NAMESPACE/NAME"), "{error}");
        assert!(parsed("pod/a").unwrap_err().contains("is not known here"));
        assert!(
            parsed("managedcluster")
                .unwrap_err()
                .contains("write managedcluster/NAME")
        );
        assert!(parsed("managedcluster/").unwrap_err().contains("write KIND/NAME"));
    }
}
