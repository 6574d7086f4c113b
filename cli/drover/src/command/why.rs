//! `drover why KIND/NAME`: what an object waits for, one sentence for each thing.

use std::str::FromStr;

use anyhow::{Result, anyhow, bail};
use clap::{Args, error::ErrorKind};
use client::{conditions, connect::Target, flags::Global, kinds};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::{Api, api::ListParams};
use ocm_api::{
    Status,
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    work::ManifestWork,
};
use output::Data;
use serde_json::json;

use crate::why;

/// Say what an object waits for, one sentence for each thing
#[derive(Debug, Args)]
pub struct Why {
    /// managedcluster/NAME, clustermanagementaddon/NAME, managedclusteraddon/CLUSTER/NAME, manifestwork/CLUSTER/NAME,
    /// manifestworkreplicaset/NAME, managedclusterset/NAME, managedclustersetbinding/NAMESPACE/NAME, placement/NAME or csr/NAME;
    /// a space may stand for the first slash
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..=2)]
    object: Vec<String>,
    /// The namespace of a placement or a manifestworkreplicaset
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// Of a placement or a manifestworkreplicaset: only what became of this cluster
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Data>,
}

/// What was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    ManagedCluster(String),
    ClusterManagementAddOn(String),
    ManagedClusterAddOn {
        cluster: String,
        name: String,
    },
    ManifestWork {
        cluster: String,
        name: String,
    },
    ManagedClusterSet(String),
    ManagedClusterSetBinding {
        namespace: String,
        name: String,
    },
    ManifestWorkReplicaSet {
        name: String,
        /// Said with the name; `-n` otherwise.
        namespace: Option<String>,
        cluster: Option<String>,
    },
    Csr(String),
    Placement {
        name: String,
        namespace: String,
        cluster: Option<String>,
    },
}

impl FromStr for Object {
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
                "managedcluster" | "managedclusters" | "cluster" | "mcl" | "csr" | "managedclusterset"
                | "managedclustersets" | "clusterset" | "mclset" | "mclsets",
                _,
            ) => bail!("write {kind}/NAME"),
            _ => bail!(
                "{kind:?} is not known here; ask about a managedcluster, a clustermanagementaddon, a managedclusteraddon, a manifestwork, a manifestworkreplicaset, a placement, a managedclusterset, a managedclustersetbinding or a csr"
            ),
        }
    }
}

impl std::fmt::Display for Object {
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
            Self::Csr(name) => write!(f, "csr/{name}"),
            Self::Placement { name, .. } => write!(f, "placement/{name}"),
        }
    }
}

impl Why {
    pub async fn run(self, global: &Global) -> Result<()> {
        let object = match self.object.join("/").parse() {
            Ok(Object::Placement { name, .. }) => Object::Placement {
                name,
                namespace: self.namespace,
                cluster: self.cluster,
            },
            Ok(Object::ManifestWorkReplicaSet { name, namespace, .. }) => Object::ManifestWorkReplicaSet {
                name,
                namespace: namespace.or(Some(self.namespace)),
                cluster: self.cluster,
            },
            Ok(object) => object,
            Err(error) => clap::Error::raw(ErrorKind::ValueValidation, format!("{error}\n")).exit(),
        };
        explain(global, &object, self.output).await
    }
}

/// Prints what `object` waits for.
pub async fn explain(global: &Global, object: &Object, data: Option<Data>) -> Result<()> {
    let hub = Target::connect(global).await?;
    let sentences = match object {
        Object::ManagedCluster(name) => why::managed_cluster::waits_for(name, &observe_cluster(&hub, name).await?),
        Object::ClusterManagementAddOn(name) => {
            let offered = Api::<ClusterManagementAddOn>::all(hub.client.clone())
                .get_opt(name)
                .await;
            let offered = offered.map_err(|error| hub.explain(&format!("could not get add-on {name}"), &error))?;
            let offered = offered
                .ok_or_else(|| anyhow!("the hub offers no add-on {name}; `drover addon list` lists those it does"))?;
            let named = ListParams::default().fields(&format!("metadata.name={name}"));
            let installed = Api::<ManagedClusterAddOn>::all(hub.client.clone()).list(&named).await;
            let installed = installed.map_err(|error| hub.explain("could not list the add-on's clusters", &error))?;
            why::cluster_management_add_on::waits_for(&offered, &installed.items)
        }
        Object::ManagedClusterAddOn { cluster, name } => {
            why::managed_cluster_add_on::waits_for(&hub, cluster, name).await?
        }
        Object::ManifestWork { cluster, name } => {
            let works: Api<ManifestWork> = Api::namespaced(hub.client.clone(), cluster);
            let work = works.get_opt(name).await;
            let work = work.map_err(|error| hub.explain(&format!("could not get work {name}"), &error))?;
            let work = work.ok_or_else(|| anyhow!("there is no work {name} in the namespace of cluster {cluster}"))?;
            why_work(&work, cluster, &observe_cluster(&hub, cluster).await?)
        }
        Object::Placement {
            name,
            namespace,
            cluster,
        } => why::placement::sentences(&hub, namespace, name, cluster.as_deref()).await?,
        Object::ManagedClusterSet(name) => why::cluster_set::of_set(&hub, name).await?,
        Object::ManagedClusterSetBinding { namespace, name } => {
            why::cluster_set::of_binding(&hub, namespace, name).await?
        }
        Object::ManifestWorkReplicaSet {
            name,
            namespace,
            cluster,
        } => {
            let namespace = namespace.as_deref().unwrap_or("default");
            why::manifest_work_replica_set::sentences(&hub, namespace, name, cluster.as_deref()).await?
        }
        Object::Csr(name) => {
            let csrs: Api<CertificateSigningRequest> = Api::all(hub.client.clone());
            let csr = csrs.get(name).await;
            let csr = csr.map_err(|error| hub.explain(&format!("could not get CSR {name}"), &error))?;
            why::csr::waits_for(&csr)
        }
    };
    output::print(&encode(object, &sentences, data)?)
}

/// What the work waits for, and what the cluster waits for that the work needs.
fn why_work(work: &ManifestWork, cluster: &str, seen: &why::managed_cluster::Seen) -> Vec<String> {
    let available = seen.cluster.as_ref().map(|it| {
        match conditions::of(it, ocm_api::conditions::managed_cluster::AVAILABLE).map(|it| it.status) {
            Some("True") => Status::True,
            Some("False") => Status::False,
            _ => Status::Unknown,
        }
    });
    let mut sentences = work::why::sentences(work, available, seen.now);
    if available.is_some_and(|it| it != Status::True) {
        sentences.extend(why::managed_cluster::waits_for(cluster, seen));
    }
    sentences
}

/// Everything on the hub that a cluster's progress depends on.
async fn observe_cluster(hub: &Target, name: &str) -> Result<why::managed_cluster::Seen> {
    let doing = |what: &str| format!("could not get the {what} of cluster {name}");
    let cluster = hub.all(&kinds::managed_cluster()).get_opt(name).await;
    let csrs: Api<CertificateSigningRequest> = Api::all(hub.client.clone());
    let selector = format!("{}={name},!{}", kinds::CLUSTER_NAME_LABEL, kinds::ADDON_NAME_LABEL);
    let csrs = csrs.list(&ListParams::default().labels(&selector)).await;
    let lease = hub
        .namespaced(&kinds::lease(), name)
        .get_opt("managed-cluster-lease")
        .await;
    let namespace = hub.all(&kinds::namespace()).get_opt(name).await;
    Ok(why::managed_cluster::Seen {
        cluster: cluster.map_err(|error| hub.explain(&doing("state"), &error))?,
        csrs: csrs
            .map_err(|error| hub.explain(&doing("certificate requests"), &error))?
            .items,
        lease: lease.map_err(|error| hub.explain(&doing("lease"), &error))?,
        namespace: namespace.map_err(|error| hub.explain(&doing("namespace"), &error))?,
        now: Timestamp::now(),
    })
}

fn encode(object: &Object, sentences: &[String], data: Option<Data>) -> Result<String> {
    if let Some(data) = data {
        return output::encode(&json!({ "object": object.to_string(), "waitsFor": sentences }), data);
    }
    Ok(match sentences {
        [] => format!("{object} waits for nothing.\n"),
        sentences => sentences.iter().map(|it| format!("{it}\n")).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_written_as_kind_and_name() {
        let parsed = |text: &str| text.parse::<Object>().map_err(|it| it.to_string());
        assert_eq!(
            parsed("managedcluster/cluster3"),
            Ok(Object::ManagedCluster("cluster3".into()))
        );
        assert_eq!(parsed("mcl/a"), Ok(Object::ManagedCluster("a".into())));
        assert_eq!(
            parsed("work/c/w"),
            Ok(Object::ManifestWork {
                cluster: "c".into(),
                name: "w".into()
            })
        );
        assert_eq!(parsed("csr/a-b"), Ok(Object::Csr("a-b".into())));
        assert!(parsed("work/w").unwrap_err().contains("a work belongs to one cluster"));
        assert!(parsed("pod/a").unwrap_err().contains("is not known here"));
        assert!(
            parsed("managedcluster")
                .unwrap_err()
                .contains("write managedcluster/NAME")
        );
        assert!(parsed("managedcluster/").unwrap_err().contains("write KIND/NAME"));
    }

    #[test]
    fn nothing_to_wait_for_is_said_too() {
        let object = Object::ManagedCluster("a".into());
        assert_eq!(
            encode(&object, &[], None).unwrap(),
            "managedcluster/a waits for nothing.\n"
        );
        assert_eq!(
            encode(&object, &["One.".into(), "Two.".into()], None).unwrap(),
            "One.\nTwo.\n"
        );
    }
}
