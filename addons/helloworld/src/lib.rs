//! The tutorial: an add-on whose agent copies the ConfigMaps of its cluster's namespace on the hub to the cluster.
//! `docs/guide/write-an-add-on.md` walks through it.

mod manifests;

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::ResourceExt;
use ocm_addon_sdk::{AddOn, Agent, ConfigKind, Permission, Place, Program, Refusal, Registration, values::config};
use ocm_api::addon::v1alpha1::{AddOnDeploymentConfig, ManagedClusterAddOn};
use serde_json::Value;

/// On every copy, so that the copies are told from everything else in the namespace.
const COPY: &str = "synced-from-hub";
/// Kubernetes keeps one of this name in every namespace, each cluster its own.
const NOT_OURS: &str = "kube-root-ca.crt";

/// The hub's half: what it is, as answers about one cluster.
pub struct HelloWorld;

impl AddOn for HelloWorld {
    fn name(&self) -> &str {
        "helloworld"
    }

    fn manifests(&self, place: &Place) -> Result<Vec<Value>, Refusal> {
        manifests::of(place)
    }

    fn registrations(&self, _: &Place) -> Result<Vec<Registration>, Refusal> {
        Ok(vec![Registration::kube_client()])
    }

    fn hub_permissions(&self, _: &Place) -> Result<Vec<Permission>, Refusal> {
        let read = ["get", "list", "watch"];
        let rules = vec![
            Permission::rule("", &["configmaps"], &read),
            Permission::rule("addon.open-cluster-management.io", &["managedclusteraddons"], &read),
        ];
        Ok(vec![Permission::role(
            "open-cluster-management:helloworld:agent",
            rules,
        )])
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<AddOnDeploymentConfig>()]
    }

    fn install_namespace(&self, place: &Place) -> Option<String> {
        config::install_namespace(place).ok().flatten()
    }
}

/// The cluster's half: copies what is there, and again whenever something changes.
async fn copy(agent: Agent) -> ocm_addon_sdk::agent::Result<()> {
    let originals = agent.watch(agent.hub_objects::<ConfigMap>()?);
    let copies = agent.watch_labelled(agent.objects::<ConfigMap>(), COPY);
    let add_ons = agent.watch(agent.hub_objects::<ManagedClusterAddOn>()?);
    let leaving = || {
        add_ons
            .get(&agent.cluster, &agent.add_on)
            .is_some_and(|it| it.metadata.deletion_timestamp.is_some())
    };
    agent
        .whenever(&[&originals, &copies, &add_ons], async || {
            if leaving() {
                return Ok(());
            }
            for original in originals.list().iter().filter(|it| it.name_any() != NOT_OURS) {
                let before = copies.get(&agent.namespace, &original.name_any());
                let mut copy = before.as_deref().cloned().unwrap_or_else(|| blank(&agent, original));
                copy.data = original.data.clone();
                copy.binary_data = original.binary_data.clone();
                agent.save(before.as_deref(), &copy).await?;
            }
            for copy in copies
                .list()
                .iter()
                .filter(|it| originals.get(&agent.cluster, &it.name_any()).is_none())
            {
                agent.delete(&**copy).await?;
            }
            Ok(())
        })
        .await
}

fn blank(agent: &Agent, original: &ConfigMap) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: original.metadata.name.clone(),
            namespace: Some(agent.namespace.clone()),
            labels: Some([(COPY.to_owned(), String::new())].into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

/// Both halves as one program.
pub fn program() -> Program {
    Program::new(HelloWorld).agent(copy)
}
