//! A live cluster that is only read. Updates are tried on the server, which keeps nothing of them; all other writes are
//! not even sent.
//! Upstream: config-policy-controller `setupClusterClients`.

use std::sync::Arc;

use ocm_addon_sdk::{
    kube::{
        self, Client,
        api::{GetParams, ListParams, PostParams},
        core::Request,
    },
    ocm_api::selector::Selector,
    reconcile::{async_trait, execute::strictly},
};
use serde_json::Value;

use crate::{
    cluster::{Cluster, ClusterError, ServedKind, selected_in_order},
    controller::{Kinds, cluster_error},
};

/// A live cluster.
pub struct LiveCluster {
    client: Client,
    kinds: Kinds,
}

impl LiveCluster {
    /// The cluster of a client.
    pub fn new(client: Client) -> Self {
        Self {
            kinds: Kinds::new(client.clone()),
            client,
        }
    }
}

fn path(of: &ServedKind, namespace: &str) -> String {
    let root = if of.group.is_empty() { "/api" } else { "/apis" };
    let namespace = match namespace {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    format!("{root}/{}{namespace}/{}", of.api_version(), of.plural)
}

fn no_request(error: impl std::fmt::Display) -> ClusterError {
    ClusterError {
        message: error.to_string(),
        ..ClusterError::default()
    }
}

#[async_trait]
impl Cluster for LiveCluster {
    async fn served(&self, api_version: &str, kind: &str) -> Result<Option<Arc<ServedKind>>, ClusterError> {
        self.kinds.served(api_version, kind).await
    }

    async fn get(&self, of: &ServedKind, namespace: &str, name: &str) -> Result<Option<Arc<Value>>, ClusterError> {
        let request = Request::new(path(of, namespace)).get(name, &GetParams::default());
        match self.client.request::<Value>(request.map_err(no_request)?).await {
            Ok(object) => Ok(Some(Arc::new(object))),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(cluster_error(error)),
        }
    }

    async fn get_now(&self, of: &ServedKind, namespace: &str, name: &str) -> Result<Option<Arc<Value>>, ClusterError> {
        self.get(of, namespace, name).await
    }

    async fn list(
        &self,
        of: &ServedKind,
        namespace: &str,
        selector: Option<&Selector>,
    ) -> Result<Vec<Arc<Value>>, ClusterError> {
        let request = Request::new(path(of, namespace)).list(&ListParams::default());
        let listed = self.client.request::<Value>(request.map_err(no_request)?).await;
        let mut listed = listed.map_err(cluster_error)?;
        let items = listed["items"].as_array_mut().into_iter().flat_map(std::mem::take);
        let objects = items.map(|mut object| {
            // Items of a list do not say what they are.
            object["apiVersion"] = of.api_version().into();
            object["kind"] = of.kind.clone().into();
            Arc::new(object)
        });
        Ok(selected_in_order(objects.collect(), selector))
    }

    async fn create(&self, _: &ServedKind, object: &Value) -> Result<Value, ClusterError> {
        Ok(object.clone())
    }

    async fn update(&self, of: &ServedKind, object: &Value, try_only: bool) -> Result<Value, ClusterError> {
        if !try_only {
            return Ok(object.clone());
        }
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let parameters = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let body = serde_json::to_vec(object).map_err(no_request)?;
        let request = Request::new(path(of, text("namespace"))).replace(text("name"), &parameters, body);
        match strictly(&self.client, request).await {
            Ok(updated) => Ok(updated),
            // Whoever may only read sees what the policy asks for, without the defaults that a server adds.
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(object.clone()),
            Err(error) => Err(cluster_error(error)),
        }
    }

    async fn delete(&self, _: &ServedKind, _: &str, _: &str) -> Result<(), ClusterError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_paths_by_group_and_namespace() {
        let kind = |group: &str| ServedKind {
            group: group.to_owned(),
            version: "v1".to_owned(),
            kind: "Thing".to_owned(),
            plural: "things".to_owned(),
            namespaced: true,
            watchable: true,
        };
        assert_eq!(path(&kind(""), ""), "/api/v1/things");
        assert_eq!(path(&kind("a.b"), "n"), "/apis/a.b/v1/namespaces/n/things");
    }
}
