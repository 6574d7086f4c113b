//! What the importer looks at on the hub, and whom a change of it wakes.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{NamespaceResourceScope, api::core::v1::Secret};
use kube::{Api, Client, Resource, api::PartialObjectMeta, runtime::watcher};
use ocm_api::cluster::ManagedCluster;
use ocm_reconcile::{
    Cache, Caches, Index, Outcome, Watches,
    cache::{Watching, key_of},
    caches::Watchable,
    segment::encoded,
};

use super::{
    cluster_api::{ClusterApiCluster, Clusters},
    failure::Failure,
    options::{Options, Renderer},
    plan::{Decision, ImportRound, Seen},
    remote::{self, Remote},
    source::{self, CLUSTER_API_LABEL, ImportSource, Looked, Provider, SECRET},
    values::{self, CONFIG, Materials},
};
use crate::charts;

/// Only that a Secret is there, and which version of it: what is in it is read when it is needed.
type SecretMetadata = PartialObjectMeta<Secret>;

const PUBLIC: &str = "kube-public";

/// What the importer looks at on the hub.
pub struct Lookup {
    client: Option<Client>,
    clusters: Cache<ManagedCluster>,
    /// ManagedClusters by the Cluster of Cluster API that they are.
    by_owner: Index<ManagedCluster>,
    cluster_api: Clusters,
    /// The kubeconfigs of Cluster API, among others of its Secrets.
    kubeconfigs: Cache<SecretMetadata>,
    /// The kubeconfigs of other clusters.
    secrets: Cache<SecretMetadata>,
    /// Values for the klusterlet chart.
    configs: Cache<SecretMetadata>,
}

/// What the result of an import depends on, as far as it is watched: while it is the same, so is probably the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    provider: Option<Provider>,
    kubeconfig: Option<String>,
    config: Option<String>,
}

impl Lookup {
    /// Over these caches.
    pub fn over(caches: &Caches) -> Self {
        let clusters = caches.of();
        Self {
            client: caches.client().cloned(),
            by_owner: Index::over(&clusters, |it| {
                source::owner(it).map(|(namespace, name)| format!("{namespace}/{name}"))
            }),
            clusters,
            cluster_api: Clusters::of(caches),
            kubeconfigs: caches.watching(quietly(watcher::Config::default().labels(CLUSTER_API_LABEL))),
            secrets: caches.watching(quietly(named(SECRET))),
            configs: caches.watching(quietly(named(CONFIG))),
        }
    }

    /// The hub.
    pub fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// Whoever may not look at Secrets or at Cluster API works without being woken by them.
    pub fn watches(&self, watches: &mut Watches) {
        let (by_owner, by_secret) = (self.by_owner.clone(), self.by_owner.clone());
        let of_cluster = move |old: Option<&ClusterApiCluster>, new: Option<&ClusterApiCluster>| {
            let is_news = old.map(ClusterApiCluster::phase) != new.map(ClusterApiCluster::phase);
            let key = new.filter(|_| is_news).map(key_of);
            key.map(|it| names(&by_owner, &it)).unwrap_or_default()
        };
        let of_kubeconfig = move |_: Option<&SecretMetadata>, new: Option<&SecretMetadata>| {
            let meta = new.map(|it| &it.metadata);
            let key = meta.and_then(|it| {
                let cluster = source::cluster_of_secret(it.name.as_deref()?)?;
                Some(format!("{}/{cluster}", it.namespace.as_deref()?))
            });
            key.map(|it| names(&by_secret, &it)).unwrap_or_default()
        };
        watches.root(&self.clusters);
        watches.wakes(&self.cluster_api.all, of_cluster).not_awaited();
        watches.reads(&self.cluster_api.definition).not_awaited();
        watches.wakes(&self.kubeconfigs, of_kubeconfig).not_awaited();
        watches.wakes(&self.secrets, namespace).not_awaited();
        watches.wakes(&self.configs, namespace).not_awaited();
    }

    /// The cluster, if it waits for an import.
    pub fn waiting(&self, name: &str) -> Option<Arc<ManagedCluster>> {
        self.clusters.named(name).filter(|it| source::waits(it))
    }

    /// Who knows the way to a cluster. What somebody has put there for this cluster counts more than what is made for
    /// any.
    pub async fn source(&self, cluster: &ManagedCluster) -> Option<ImportSource> {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let provider = match self.secrets.get(name, SECRET) {
            Some(_) => Provider::Secret,
            None => self.owner(cluster)?,
        };
        let (namespace, secret) = provider.secret(name);
        let secret = self.get(&namespace, &secret).await;
        Some(ImportSource { provider, secret })
    }

    fn owner(&self, cluster: &ManagedCluster) -> Option<Provider> {
        let key = source::owner(cluster)?;
        let found = self.cluster_api.all.get(&key.0, &key.1)?;
        let others = self.by_owner.objects(&format!("{}/{}", key.0, key.1)).into_iter();
        let mut others = others.filter(|it| it.metadata.deletion_timestamp.is_none());
        let rival = others.find(|it| source::is_before(it, cluster));
        Some(Provider::ClusterApi {
            phase: found.phase().to_owned(),
            rival: rival.and_then(|it| it.metadata.name.clone()),
            key,
        })
    }

    /// What the result of an import depends on.
    pub fn inputs(&self, cluster: &str, source: Option<&ImportSource>) -> Inputs {
        let secret = source.and_then(|it| it.secret.as_ref().ok()?.as_ref());
        let config = self.configs.get(cluster, CONFIG);
        Inputs {
            provider: source.map(|it| it.provider.clone()),
            kubeconfig: secret.and_then(|it| it.metadata.resource_version.clone()),
            config: config.and_then(|it| it.metadata.resource_version.clone()),
        }
    }

    /// Looks at what the next round needs.
    pub async fn again(&self, before: Seen, outcome: &Outcome) -> Seen {
        let round = match (&before.round, before.decide()) {
            (ImportRound::Materials(materials), Decision::Go(kubeconfig)) => {
                let token = outcome.object_of(values::TOKEN);
                let token = token
                    .and_then(|it| it.data["status"]["token"].as_str())
                    .unwrap_or_default();
                ImportRound::Cluster(Box::new(cluster(&before, &kubeconfig, materials, token).await))
            }
            _ => ImportRound::Materials(Box::new(self.materials(&before.name, &before.options).await)),
        };
        // What is said last should be said of the cluster as it is then.
        let cluster = self.waiting(&before.name);
        let round = if cluster.is_some() { round } else { ImportRound::First };
        Seen {
            now: Timestamp::now(),
            cluster,
            round,
            ..before
        }
    }

    /// What the values of the chart are made from; what no renderer asks for is not looked at.
    async fn materials(&self, cluster: &str, options: &Options) -> Materials {
        let mut materials = Materials {
            config: Ok(None),
            cluster_info: Ok(None),
            root_ca: Ok(None),
            pull_secret: Ok(None),
        };
        if options.renderers.iter().any(|it| it.reads_secret()) {
            materials.config = self.get(cluster, CONFIG).await;
        }
        if options.renderers.contains(&Renderer::Auto) {
            let (namespace, name) = &options.pull_secret;
            materials.cluster_info = self.get(PUBLIC, "cluster-info").await;
            materials.root_ca = self.get(PUBLIC, "kube-root-ca.crt").await;
            materials.pull_secret = self.get(namespace, name).await;
        }
        materials
    }

    async fn get<K>(&self, namespace: &str, name: &str) -> Looked<K>
    where
        K: Watchable + Resource<Scope = NamespaceResourceScope>,
    {
        let client = self.client.clone().ok_or("there is no API server behind the caches")?;
        let found = Api::<K>::namespaced(client, &encoded(namespace))
            .get_opt(&encoded(name))
            .await;
        found.map_err(|error| match error {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        })
    }
}

/// Looks at the cluster, when it is known what is to be there.
async fn cluster(before: &Seen, kubeconfig: &str, materials: &Materials, token: &str) -> Result<Remote, Failure> {
    let values = values::values(&before.options, &before.name, materials, token).map_err(Failure::no_manifests)?;
    let manifests = charts::klusterlet(ocm_api::namespaces::AGENT, values);
    let manifests = manifests.map_err(|error| Failure::no_manifests(format!("{error:#}")))?;
    let from = before
        .source
        .as_ref()
        .map(|it| it.name(&before.name))
        .unwrap_or_default();
    remote::look(kubeconfig, &from, manifests, Timestamp::now()).await
}

fn names(index: &Index<ManagedCluster>, key: &str) -> Vec<String> {
    index.names(key).into_iter().map(|(_, name)| name).collect()
}

fn namespace(old: Option<&SecretMetadata>, new: Option<&SecretMetadata>) -> Option<String> {
    old.or(new)?.metadata.namespace.clone()
}

fn named(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}

/// A watch that upstream's role does not allow.
fn quietly(selection: watcher::Config) -> Watching {
    Watching {
        selection,
        forbidden_at_first: true,
        ..Watching::default()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Inputs that are others than the default.
    pub(in super::super) fn other() -> Inputs {
        Inputs {
            kubeconfig: Some("8".to_owned()),
            ..Inputs::default()
        }
    }

    fn cluster(name: &str, annotations: Value, second: u32) -> ManagedCluster {
        let created = format!("2026-01-01T00:00:0{second}Z");
        let metadata = json!({"name": name, "annotations": annotations, "creationTimestamp": created});
        serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap()
    }

    fn of_cluster_api(namespace: &str, name: &str, phase: &str) -> ClusterApiCluster {
        let metadata = json!({"namespace": namespace, "name": name});
        serde_json::from_value(json!({"metadata": metadata, "status": {"phase": phase}})).unwrap()
    }

    fn providers(clusters: &[ManagedCluster]) -> Vec<Option<Provider>> {
        let caches = Caches::unfed();
        caches.of::<ManagedCluster>().fill(clusters.to_vec());
        let lookup = Lookup::over(&caches);
        let known = [
            of_cluster_api("c1", "c1", "Provisioned"),
            of_cluster_api("capi", "one", "Pending"),
        ];
        lookup.cluster_api.all.fill(known);
        clusters.iter().map(|it| lookup.owner(it)).collect()
    }

    fn known(key: (&str, &str), phase: &str, rival: Option<&str>) -> Option<Provider> {
        Some(Provider::ClusterApi {
            key: (key.0.to_owned(), key.1.to_owned()),
            phase: phase.to_owned(),
            rival: rival.map(str::to_owned),
        })
    }

    #[test]
    fn clusters_are_found_by_name_or_annotation() {
        let annotated = |key: &str| json!({"cluster.x-k8s.io/cluster": key});
        let found = providers(&[
            cluster("c1", json!({}), 0),
            cluster("c2", annotated("capi/one"), 0),
            cluster("c3", json!({}), 0),
            cluster("c4", annotated("capi/one"), 1),
            cluster("c5", annotated("one"), 1),
        ]);
        let wanted = [
            known(("c1", "c1"), "Provisioned", None),
            known(("capi", "one"), "Pending", None),
            None,
            known(("capi", "one"), "Pending", Some("c2")),
            None,
        ];
        assert_eq!(found, wanted);
    }

    #[tokio::test]
    async fn a_secret_for_this_cluster_counts_more() {
        let caches = Caches::unfed();
        let lookup = Lookup::over(&caches);
        lookup.cluster_api.all.fill([of_cluster_api("c1", "c1", "Provisioned")]);
        let c1 = cluster("c1", json!({}), 0);
        let secret = json!({"metadata": {"namespace": "c1", "name": SECRET, "resourceVersion": "3"}});
        assert_ne!(lookup.source(&c1).await.unwrap().provider, Provider::Secret);
        lookup.secrets.fill([serde_json::from_value(secret).unwrap()]);
        assert_eq!(lookup.source(&c1).await.unwrap().provider, Provider::Secret);
    }
}
