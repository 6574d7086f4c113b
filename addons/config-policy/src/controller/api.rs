//! A live cluster, as a policy sees it: what it reads comes from watches while it waits for changes, and from the API
//! server while it waits for a time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ocm_addon_sdk::{
    kube::{
        self, Api, Client,
        api::{DeleteParams, ListParams, PostParams, PropagationPolicy},
        core::{ApiResource, DynamicObject, Request},
    },
    ocm_api::selector::Selector,
    reconcile::{
        DynamicWatches, async_trait,
        dynamic::{Inquiry, WatchRefused},
        execute::strictly,
        segment::encoded,
    },
};
use serde_json::Value;

use super::{kinds::Kinds, memory::PolicyMemory};
use crate::cluster::{Cluster, ClusterError, Judged, ServedKind, selected_in_order};

/// A cluster for one run of one policy.
pub struct LiveCluster<'a> {
    /// Its API server.
    pub client: Client,
    /// What it serves.
    pub kinds: &'a Kinds,
    /// Its watches.
    pub watches: &'a DynamicWatches,
    /// What the run asks the watches for.
    pub inquiry: &'a Inquiry,
    /// Whether the policy waits for changes.
    pub watching: bool,
    /// What is known of the policy from its runs before.
    pub memory: &'a PolicyMemory,
    /// How much was written.
    pub writes: AtomicUsize,
}

impl LiveCluster<'_> {
    /// How much was written until now.
    pub fn written(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }

    fn api(&self, of: &ServedKind, namespace: &str) -> Api<DynamicObject> {
        let resource = resource(of);
        match of.namespaced && !namespace.is_empty() {
            true => Api::namespaced_with(self.client.clone(), &encoded(namespace), &resource),
            false => Api::all_with(self.client.clone(), &resource),
        }
    }

    fn is_watched(&self, of: &ServedKind) -> Result<bool, ClusterError> {
        if self.watching && !of.watchable {
            return Err(ClusterError {
                code: 405,
                reason: "MethodNotAllowed".to_owned(),
                message: format!(
                    "{}/{}, Kind={} cannot be watched: watch not supported on this resource",
                    of.group, of.version, of.kind
                ),
                ..ClusterError::default()
            });
        }
        Ok(self.watching)
    }

    fn wrote(&self, of: &ServedKind, object: &DynamicObject) -> Value {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.watches.put(&resource(of), object);
        whole(of, object)
    }
}

fn resource(of: &ServedKind) -> ApiResource {
    ApiResource {
        api_version: of.api_version(),
        group: of.group.clone(),
        version: of.version.clone(),
        kind: of.kind.clone(),
        plural: of.plural.clone(),
    }
}

/// The object with its apiVersion and kind: items of lists have none.
fn whole(of: &ServedKind, object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if value.get("kind").is_none() {
        value["apiVersion"] = of.api_version().into();
        value["kind"] = of.kind.as_str().into();
    }
    value
}

fn shared(of: &ServedKind, object: &DynamicObject) -> Arc<Value> {
    Arc::new(whole(of, object))
}

fn body(object: &Value) -> Result<Vec<u8>, ClusterError> {
    serde_json::to_vec(object).map_err(|why| ClusterError {
        code: 400,
        reason: "BadRequest".to_owned(),
        message: format!("the object cannot be written: {why}"),
        ..ClusterError::default()
    })
}

#[async_trait]
impl Cluster for LiveCluster<'_> {
    async fn served(&self, api_version: &str, kind: &str) -> Result<Option<Arc<ServedKind>>, ClusterError> {
        self.kinds.served(api_version, kind).await
    }

    async fn get(&self, of: &ServedKind, namespace: &str, name: &str) -> Result<Option<Arc<Value>>, ClusterError> {
        if !self.is_watched(of)? {
            return self.get_now(of, namespace, name).await;
        }
        let namespace = of.namespaced.then_some(namespace);
        let found = self.inquiry.get(&resource(of), namespace, name).await;
        Ok(found.map_err(refused)?.map(|it| shared(of, &it)))
    }

    async fn get_now(&self, of: &ServedKind, namespace: &str, name: &str) -> Result<Option<Arc<Value>>, ClusterError> {
        let found = self.api(of, namespace).get_opt(&encoded(name)).await;
        Ok(found.map_err(cluster_error)?.map(|it| shared(of, &it)))
    }

    async fn list(
        &self,
        of: &ServedKind,
        namespace: &str,
        selector: Option<&Selector>,
    ) -> Result<Vec<Arc<Value>>, ClusterError> {
        let found: Vec<Arc<Value>> = if self.is_watched(of)? {
            let namespace = Some(namespace).filter(|it| of.namespaced && !it.is_empty());
            let found = self.inquiry.list(&resource(of), namespace).await.map_err(refused)?;
            found.iter().map(|it| shared(of, it)).collect()
        } else {
            let found = self.api(of, namespace).list(&ListParams::default()).await;
            let found = found.map_err(cluster_error)?.items;
            found.iter().map(|it| shared(of, it)).collect()
        };
        Ok(selected_in_order(found, selector))
    }

    async fn create(&self, of: &ServedKind, object: &Value) -> Result<Value, ClusterError> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let url = self.api(of, namespace).resource_url().to_owned();
        let request = Request::new(url).create(&PostParams::default(), body(object)?);
        let created = strictly(&self.client, request).await.map_err(cluster_error)?;
        Ok(self.wrote(of, &created))
    }

    async fn update(&self, of: &ServedKind, object: &Value, try_only: bool) -> Result<Value, ClusterError> {
        let of_object = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let url = self.api(of, of_object("namespace")).resource_url().to_owned();
        let params = PostParams {
            dry_run: try_only,
            ..PostParams::default()
        };
        let request = Request::new(url).replace(&encoded(of_object("name")), &params, body(object)?);
        let updated = strictly(&self.client, request).await.map_err(cluster_error)?;
        Ok(match try_only {
            true => whole(of, &updated),
            false => self.wrote(of, &updated),
        })
    }

    async fn update_status(&self, of: &ServedKind, object: &Value) -> Result<Value, ClusterError> {
        let of_object = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let url = self.api(of, of_object("namespace")).resource_url().to_owned();
        let name = encoded(of_object("name"));
        let request = Request::new(url).replace_subresource("status", &name, &PostParams::default(), body(object)?);
        let updated = strictly(&self.client, request).await.map_err(cluster_error)?;
        Ok(self.wrote(of, &updated))
    }

    async fn delete(&self, of: &ServedKind, namespace: &str, name: &str) -> Result<(), ClusterError> {
        let how = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let deleted = self.api(of, namespace).delete(&encoded(name), &how).await;
        deleted.map_err(cluster_error)?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn judged(&self, object: &str, resource_version: &str) -> Option<Judged> {
        self.memory.judged(object, resource_version)
    }

    fn keep_judged(&self, object: &str, resource_version: &str, judged: Judged) {
        self.memory.keep(object, resource_version, judged);
    }
}

fn refused(error: WatchRefused) -> ClusterError {
    ClusterError {
        code: error.code.unwrap_or_default(),
        message: error.to_string(),
        ..ClusterError::default()
    }
}

/// What the API server says, or what stands between.
pub fn cluster_error(error: kube::Error) -> ClusterError {
    match error {
        kube::Error::Api(status) => {
            let details = status.details.as_ref();
            ClusterError {
                code: status.code,
                reason: status.reason.clone(),
                message: status.message.clone(),
                about: details.map(|it| it.kind.clone()).unwrap_or_default(),
                causes: details
                    .map(|it| it.causes.iter().map(|it| it.reason.clone()).collect())
                    .unwrap_or_default(),
            }
        }
        error => ClusterError {
            message: error.to_string(),
            ..ClusterError::default()
        },
    }
}
