//! Hub templates that a cluster fills in itself, where the add-on governance-standalone-hub-templating is: it may look
//! things up on the hub. What was filled in last is kept in a Secret, for when the hub is away.
//! Upstream: config-policy-controller `controllers/hubtemplates.go`.

use std::{collections::BTreeMap, sync::atomic::AtomicUsize};

use ocm_addon_sdk::{
    k8s_openapi::{
        ByteString,
        api::core::v1::Secret,
        apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
    },
    kube::{
        Api, Client, Resource, ResourceExt,
        api::{DeleteParams, PostParams},
    },
    reconcile::{DynamicWatches, Queue},
};
use policy_template::{Answers, Delimiters, Input, TemplateContext, TemplateSettings, has_template};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{PolicyClients, api::LiveCluster, kinds::Kinds, memory::PolicyMemory};
use crate::{
    cluster::Cluster,
    evaluate::{templates::resolve, templates_disabled},
};

/// What became of the hub templates of a policy.
#[derive(Default)]
pub enum HubFilled<K> {
    /// It has none, or they are somebody else's.
    #[default]
    Nothing,
    /// The policy with them filled in.
    Policy(Box<K>),
    /// Why they could not be filled in.
    Failed(String),
}

/// What fills in hub templates. Cloning shares it.
#[derive(Clone)]
pub struct HubTemplates {
    home: Client,
    hub: Option<OnHub>,
    cluster: String,
    denied: Vec<String>,
}

#[derive(Clone)]
struct OnHub {
    client: Client,
    kinds: Kinds,
    watches: DynamicWatches,
}

/// Why templates could not be filled in.
struct Unfilled {
    why: String,
    hub_is_away: bool,
}

impl HubTemplates {
    /// With what the hub's client may look up; without one none are filled in.
    pub fn new(clients: &PolicyClients, cluster: &str, denied: Vec<String>, stop: &CancellationToken) -> Self {
        let hub = clients.hub.clone().map(|client| OnHub {
            kinds: Kinds::new(client.clone()),
            watches: DynamicWatches::new(client.clone(), stop.clone()),
            client,
        });
        Self {
            home: clients.home.clone(),
            hub,
            cluster: cluster.to_owned(),
            denied,
        }
    }

    /// Wakes the keys of policies when what they have looked up on the hub changes.
    pub fn wake(&self, queue: &Queue) {
        if let Some(hub) = &self.hub {
            hub.watches.wake(queue);
        }
    }

    /// Nobody asks for this policy any more.
    pub fn forget(&self, key: &str) {
        if let Some(hub) = &self.hub {
            hub.watches.forget(key);
        }
    }

    /// Fills in the hub templates of a policy. Where there is no hub, they stay, and the evaluation says so.
    pub async fn fill<K>(&self, key: &str, policy: &K) -> HubFilled<K>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        let Some(hub) = &self.hub else {
            return HubFilled::Nothing;
        };
        let mut whole = serde_json::to_value(policy).unwrap_or_default();
        let spec = whole["spec"].clone();
        if templates_disabled(policy) || !has_template(&spec.to_string(), Delimiters::Hub, false) {
            hub.watches.forget(key);
            return HubFilled::Nothing;
        }
        // Without the status and most metadata: this is also what is kept.
        let document = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {
                "name": policy.meta().name, "namespace": policy.meta().namespace,
                "generation": policy.meta().generation, "uid": policy.meta().uid,
            },
            "spec": spec,
        });
        let kept = self.kept(policy).await;
        let spec = match self.filled(hub, key, &document).await {
            Ok(filled) => {
                if let Err(why) = self.keep(policy, kept, &filled).await {
                    return HubFilled::Failed(why);
                }
                filled["spec"].clone()
            }
            Err(Unfilled { why, hub_is_away }) => match kept {
                Ok(Some(kept)) if hub_is_away => {
                    let kept = document_of(&kept);
                    match kept["metadata"]["generation"].as_i64() == policy.meta().generation {
                        true => kept["spec"].clone(),
                        false => return HubFilled::Failed(why),
                    }
                }
                Ok(Some(kept)) => {
                    // What it was is no answer to what it is now.
                    let secrets = self.secrets(policy);
                    let _ = secrets.delete(&kept.name_any(), &DeleteParams::default()).await;
                    return HubFilled::Failed(why);
                }
                Ok(None) | Err(_) => return HubFilled::Failed(why),
            },
        };
        whole["spec"] = spec;
        match serde_json::from_value(whole) {
            Ok(policy) => HubFilled::Policy(Box::new(policy)),
            Err(why) => HubFilled::Failed(format!(
                "the spec with its hub templates filled in cannot be read: {why}"
            )),
        }
    }

    async fn filled(&self, hub: &OnHub, key: &str, document: &Value) -> Result<Value, Unfilled> {
        let inquiry = hub.watches.inquiry(key);
        let memory = PolicyMemory::default();
        let cluster = LiveCluster {
            client: hub.client.clone(),
            kinds: &hub.kinds,
            watches: &hub.watches,
            inquiry: &inquiry,
            watching: true,
            memory: &memory,
            writes: AtomicUsize::new(0),
        };
        let labels = match document.to_string().contains(".ManagedClusterLabels") {
            true => self.labels(&cluster).await,
            false => Ok(BTreeMap::new()),
        };
        let outcome = match labels {
            Ok(labels) => {
                let settings = TemplateSettings {
                    denied: self.denied.clone(),
                    ..TemplateSettings::standalone_hub()
                };
                let context = TemplateContext::standalone_hub(&self.cluster, labels);
                let mut answers = Answers::default();
                let input = Input::Json(document);
                let resolved = resolve(&cluster, &mut answers, &settings, input, &context).await;
                resolved.map(|it| it.value).map_err(|it| it.error.message)
            }
            Err(why) => Err(why),
        };
        inquiry.finish();
        match outcome {
            Ok(value) => Ok(value),
            Err(why) => Err(Unfilled {
                why,
                hub_is_away: hub.client.apiserver_version().await.is_err(),
            }),
        }
    }

    async fn labels(&self, cluster: &LiveCluster<'_>) -> Result<BTreeMap<String, String>, String> {
        let kind = cluster
            .served("cluster.open-cluster-management.io/v1", "ManagedCluster")
            .await;
        let kind = kind.map_err(|it| it.message)?.ok_or("the hub has no ManagedClusters")?;
        let found = cluster.get(&kind, "", &self.cluster).await.map_err(|it| it.message)?;
        let found = found.ok_or_else(|| format!("the hub has no ManagedCluster {}", self.cluster))?;
        Ok(serde_json::from_value(found["metadata"]["labels"].clone()).unwrap_or_default())
    }

    fn secrets(&self, policy: &impl Resource<DynamicType = ()>) -> Api<Secret> {
        Api::namespaced(self.home.clone(), &policy.namespace().unwrap_or_default())
    }

    async fn kept(&self, policy: &impl Resource<DynamicType = ()>) -> Result<Option<Secret>, String> {
        let secrets = self.secrets(policy);
        secrets.get_opt(&secret_name(policy)).await.map_err(|it| it.to_string())
    }

    async fn keep<K: Resource<DynamicType = ()>>(
        &self,
        policy: &K,
        kept: Result<Option<Secret>, String>,
        filled: &Value,
    ) -> Result<(), String> {
        let kept = kept?;
        if kept.as_ref().is_some_and(|it| document_of(it) == *filled) {
            return Ok(());
        }
        let data = [(DOCUMENT.to_owned(), ByteString(filled.to_string().into_bytes()))].into();
        let params = PostParams::default();
        let secrets = self.secrets(policy);
        let outcome = match kept {
            Some(mut kept) => {
                kept.data = Some(data);
                secrets.replace(&kept.name_any(), &params, &kept).await
            }
            None => {
                let secret = Secret {
                    metadata: ObjectMeta {
                        name: Some(secret_name(policy)),
                        namespace: policy.namespace(),
                        owner_references: Some(vec![OwnerReference {
                            api_version: K::api_version(&()).into_owned(),
                            kind: K::kind(&()).into_owned(),
                            name: policy.name_any(),
                            uid: policy.uid().unwrap_or_default(),
                            ..OwnerReference::default()
                        }]),
                        ..ObjectMeta::default()
                    },
                    data: Some(data),
                    ..Secret::default()
                };
                secrets.create(&params, &secret).await
            }
        };
        let kept = outcome.map(drop);
        kept.map_err(|why| format!("could not keep what the hub templates were filled in with: {why}"))
    }
}

const DOCUMENT: &str = "policy.json";

fn secret_name(policy: &impl Resource<DynamicType = ()>) -> String {
    format!("{}-last-resolved", policy.uid().unwrap_or_default())
}

fn document_of(kept: &Secret) -> Value {
    let data = kept.data.as_ref().and_then(|it| it.get(DOCUMENT));
    data.and_then(|it| serde_json::from_slice(&it.0).ok())
        .unwrap_or_default()
}
