//! The cluster that is imported: what of the agent's manifests it has, and what is written there.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind, TypeMeta},
};
use ocm_api::operator::Klusterlet;
use ocm_reconcile::{Plan, Site, Step, Target, plan::typed};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{failure::Failure, kubeconfig};

/// How long one import may take on its cluster, from the first request to the last.
const IMPORT_MAX: Duration = Duration::from_secs(60);
/// How many objects are looked at together.
const TOGETHER: usize = 4;
/// How often a cluster is asked whether it serves a kind.
const SERVED_AGAIN: Duration = Duration::from_millis(100);
/// The step of waiting until a kind is served.
pub const AWAIT: &str = "await";

const DEFINITION: &str = "CustomResourceDefinition";

/// The cluster, and what of the agent's manifests it has.
pub struct Remote {
    /// Speaks to it, for as long as an import may take.
    pub client: Client,
    /// Its URL.
    pub server: String,
    /// The manifests, in the order in which they are written.
    pub manifests: Vec<Manifest>,
    until: Instant,
}

/// One manifest, and what the cluster has of it.
pub struct Manifest {
    target: Target,
    wanted: Value,
    current: Option<Value>,
}

impl Manifest {
    /// Of an object that the chart made.
    ///
    /// # Errors
    /// When it is no object of Kubernetes.
    pub fn of(wanted: Value, current: Option<Value>) -> Result<Self, String> {
        let types = serde_json::from_value::<TypeMeta>(wanted.clone()).ok();
        let kind = types.and_then(|it| GroupVersionKind::try_from(&it).ok());
        let kind = kind.ok_or("a manifest has no apiVersion and kind")?;
        let text = |field: &str| wanted["metadata"][field].as_str().map(str::to_owned);
        let name = text("name").ok_or_else(|| format!("a manifest of kind {} has no name", kind.kind))?;
        let target = Target {
            site: Site::Cluster,
            api_resource: ApiResource::from_gvk(&kind),
            namespace: text("namespace"),
            name,
        };
        Ok(Self {
            target,
            wanted,
            current,
        })
    }

    fn is_definition(&self) -> bool {
        self.target.api_resource.kind == DEFINITION
    }

    fn is_klusterlet(&self) -> bool {
        let resource = &self.target.api_resource;
        (resource.group.as_str(), resource.kind.as_str()) == (Klusterlet::GROUP, Klusterlet::KIND)
    }

    fn api(&self, client: &Client) -> Api<DynamicObject> {
        match &self.target.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.target.api_resource),
            None => Api::all_with(client.clone(), &self.target.api_resource),
        }
    }
}

/// Looks at the cluster that a kubeconfig leads to. `from` is how sentences name the kubeconfig.
///
/// # Errors
/// Why the kubeconfig cannot be used, or what the cluster answered.
pub async fn look(text: &str, from: &str, manifests: Vec<Value>, now: Timestamp) -> Result<Remote, Failure> {
    let until = Instant::now() + IMPORT_MAX;
    let kubeconfig = kubeconfig::read(text, from).map_err(Failure::no_kubeconfig)?;
    let made = kubeconfig::client(kubeconfig, from, now, until).await;
    let (client, server) = made.map_err(Failure::no_kubeconfig)?;
    let all = manifests.into_iter().map(|it| Manifest::of(it, None));
    let all = all.collect::<Result<Vec<_>, _>>().map_err(Failure::no_manifests)?;
    let current = stream::iter(all).map(|it| {
        let client = client.clone();
        async move {
            let current = match it.api(&client).get(&it.target.name).await {
                Ok(found) => Some(typed(&found, &it.target.api_resource)),
                // The object, or its kind.
                Err(kube::Error::Api(status)) if status.code == 404 => None,
                Err(error) => return Err(error),
            };
            Ok::<_, kube::Error>(Manifest { current, ..it })
        }
    });
    let current = current.buffered(TOGETHER).try_collect().await;
    let manifests = current.map_err(|error| Failure::not_applied(kubeconfig::explain(&server, from, &error)))?;
    Ok(Remote {
        client,
        server,
        manifests,
        until,
    })
}

impl Remote {
    /// What is written on the cluster: kinds first, and the Klusterlet when all else is there.
    ///
    /// # Errors
    /// When the cluster has the agent of another.
    pub fn plan(&self) -> Result<Plan, Failure> {
        let cluster = |it: &Value| it["spec"]["clusterName"].as_str().unwrap_or_default().to_owned();
        for it in self.manifests.iter().filter(|it| it.is_klusterlet()) {
            let (wanted, present) = (cluster(&it.wanted), it.current.as_ref().map(cluster));
            if let Some(present) = present.filter(|it| !it.is_empty() && *it != wanted) {
                return Err(Failure::not_applied(format!(
                    "{} is ManagedCluster {present} already, says its Klusterlet {}: take it off there with `drover \
                     unjoin --cluster-name {present}`, or delete this ManagedCluster",
                    self.server, it.target.name
                )));
            }
        }
        let mut plan = Plan::new();
        let (definitions, others) = self.manifests.iter().partition::<Vec<_>, _>(|it| it.is_definition());
        // What is there is its operator's: it knows which of two versions is newer.
        let missing: Vec<_> = definitions.into_iter().filter(|it| it.current.is_none()).collect();
        for it in &missing {
            plan.push(Step::Create {
                target: it.target.clone(),
                object: it.wanted.clone(),
            });
        }
        plan.stage();
        for it in &missing {
            plan.perform(AWAIT, &it.target.name);
        }
        let (klusterlets, others) = others.into_iter().partition::<Vec<_>, _>(|it| it.is_klusterlet());
        for stage in [others, klusterlets] {
            plan.stage();
            for it in stage {
                plan.keep_value(it.target.clone(), it.current.as_ref(), &it.wanted);
            }
        }
        Ok(plan)
    }

    /// Waits until the cluster serves the kind of this definition.
    ///
    /// # Errors
    /// When it does not in time.
    pub async fn served(&self, definition: &str) -> Result<(), String> {
        let found = self.manifests.iter().find(|it| it.target.name == definition);
        let resource = found.and_then(|it| defined(&it.wanted));
        let resource = resource.ok_or_else(|| format!("{definition} defines no kind"))?;
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        loop {
            match api.list(&ListParams::default().limit(1)).await {
                Err(kube::Error::Api(status)) if status.code == 404 && Instant::now() < self.until => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    return Err(format!(
                        "{} does not serve {definition}, which it has accepted",
                        self.server
                    ));
                }
                // Whoever may not list it is told what he may not when it is written.
                Ok(_) | Err(_) => return Ok(()),
            }
            sleep(SERVED_AGAIN).await;
        }
    }
}

/// The resource that a definition defines.
fn defined(definition: &Value) -> Option<ApiResource> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array()?;
    let version = versions.iter().find(|it| it["served"] == true)?["name"].as_str()?;
    let kind = GroupVersionKind::gvk(spec["group"].as_str()?, version, spec["names"]["kind"].as_str()?);
    Some(ApiResource::from_gvk_with_plural(
        &kind,
        spec["names"]["plural"].as_str()?,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition() -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": DEFINITION,
            "metadata": {"name": "klusterlets.operator.open-cluster-management.io"},
            "spec": {
                "group": "operator.open-cluster-management.io",
                "names": {"kind": "Klusterlet", "plural": "klusterlets"},
                "versions": [{"name": "v1", "served": true}],
            },
        })
    }

    fn klusterlet(cluster: &str) -> Value {
        json!({
            "apiVersion": "operator.open-cluster-management.io/v1", "kind": "Klusterlet",
            "metadata": {"name": "klusterlet"}, "spec": {"clusterName": cluster},
        })
    }

    fn deployment(replicas: u32) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "klusterlet", "namespace": "agent"}, "spec": {"replicas": replicas},
        })
    }

    fn planned(current: [Option<Value>; 3]) -> Result<String, Failure> {
        let wanted = [definition(), klusterlet("c1"), deployment(1)];
        let manifests = wanted.into_iter().zip(current);
        let never = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, _>("nobody is asked")
        });
        let remote = Remote {
            client: Client::new(never, "default"),
            server: "https://c1".to_owned(),
            manifests: manifests
                .map(|(wanted, current)| Manifest::of(wanted, current).unwrap())
                .collect(),
            until: Instant::now(),
        };
        remote.plan().map(|it| it.to_string())
    }

    #[tokio::test]
    async fn kinds_come_first_and_the_klusterlet_last() {
        let plan = planned([None, None, None]).unwrap();
        let wanted = "stage 1
cluster: create CustomResourceDefinition klusterlets.operator.open-cluster-management.io
stage 2
await klusterlets.operator.open-cluster-management.io
stage 3
cluster: create Deployment agent/klusterlet
stage 4
cluster: create Klusterlet klusterlet";
        assert_eq!(plan.trim(), wanted);
    }

    #[tokio::test]
    async fn what_is_there_is_updated_but_for_kinds() {
        let mut newer = definition();
        newer["spec"]["versions"][0]["name"] = "v9".into();
        let same = planned([Some(newer.clone()), Some(klusterlet("c1")), Some(deployment(1))]);
        assert_eq!(same.unwrap().trim(), "nothing to do");
        let other = planned([Some(newer), Some(klusterlet("")), Some(deployment(2))]).unwrap();
        let wanted =
            "stage 1\ncluster: patch Deployment agent/klusterlet\nstage 2\ncluster: patch Klusterlet klusterlet";
        assert_eq!(other.trim(), wanted);
    }

    #[tokio::test]
    async fn the_agent_of_another_cluster_is_left_alone() {
        let failure = planned([Some(definition()), Some(klusterlet("c2")), None]).unwrap_err();
        assert_eq!(failure.reason, "ImportFailed");
        assert!(
            failure.message.starts_with("https://c1 is ManagedCluster c2 already"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn a_definition_says_which_kind_is_awaited() {
        let it = defined(&definition()).unwrap();
        assert_eq!(
            (it.plural.as_str(), it.api_version.as_str()),
            ("klusterlets", "operator.open-cluster-management.io/v1")
        );
        assert!(defined(&deployment(1)).is_none());
    }
}
