//! The handle of in-process controllers: the same verbs as the wire, on values, as `system:masters`.

use crate::{
    call::Call,
    context::ServerContext,
    identity::{AUTHENTICATED, MASTERS, User},
    options::{DeleteOptions, Propagation, WriteOptions},
    registry::{Registry, Resource},
    request::Query,
    verbs::{self, patch::PatchType},
    wake::Subscription,
};
use kube_store::{Object, Store, status::Status};
use serde_json::Value;
use std::sync::Arc;

/// Acts on one server's objects.
#[derive(Clone)]
pub struct Local {
    server: Arc<ServerContext>,
}

const USER: &str = "system:kube-controller-manager";

impl Local {
    pub(crate) fn new(server: Arc<ServerContext>) -> Self {
        Self { server }
    }

    /// The objects, to read.
    pub fn store(&self) -> &Arc<Store> {
        &self.server.store
    }

    /// What is served now.
    pub fn registry(&self) -> Arc<Registry> {
        self.server.registry.load_full()
    }

    /// Every event published from now on.
    pub fn subscribe(&self) -> Subscription {
        self.server.wake.subscribe()
    }

    fn call(&self, id: &str, namespace: &str, name: &str, subresource: &str) -> Result<Call<'_>, Status> {
        let resource: Arc<Resource> = self
            .server
            .registry
            .load()
            .by_id(id)
            .cloned()
            .ok_or_else(Status::no_such_resource)?;
        Ok(Call {
            server: &self.server,
            user: User::new(USER, &[MASTERS, AUTHENTICATED]),
            version: resource
                .spoken_version()
                .ok_or_else(Status::no_such_resource)?
                .to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            query: Query::default(),
            user_agent: "kube-controller-manager".into(),
            now: jiff::Timestamp::now(),
            warnings: Vec::new(),
            party: None,
            resource,
        })
    }

    fn options() -> WriteOptions {
        WriteOptions {
            field_manager: "kube-controller-manager".into(),
            ..WriteOptions::default()
        }
    }

    /// The newest decided state of an object.
    ///
    /// # Errors
    /// 404 when there is none.
    pub async fn get(&self, id: &str, namespace: &str, name: &str) -> Result<Value, Status> {
        Ok(self.call(id, namespace, name, "")?.newest()?.value())
    }

    /// All objects of a resource in one namespace, or (empty) in all.
    pub fn list(&self, id: &str, namespace: &str) -> (Vec<Arc<Object>>, u64) {
        self.server.store.list(id, namespace)
    }

    /// Creates an object.
    ///
    /// # Errors
    /// As POST.
    pub async fn create(&self, id: &str, namespace: &str, object: Value) -> Result<Value, Status> {
        let mut call = self.call(id, namespace, "", "")?;
        verbs::create::create(&mut call, object, &Self::options())
            .await
            .map(|it| it.into_value())
    }

    /// Replaces an object or one of its subresources.
    ///
    /// # Errors
    /// As PUT.
    pub async fn update(
        &self,
        id: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Value,
    ) -> Result<Value, Status> {
        let mut call = self.call(id, namespace, name, subresource)?;
        verbs::update::update(&mut call, object, &Self::options())
            .await
            .map(|it| it.into_value())
    }

    /// Patches an object or one of its subresources.
    ///
    /// # Errors
    /// As PATCH.
    pub async fn merge_patch(
        &self,
        id: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch: Value,
    ) -> Result<Value, Status> {
        let mut call = self.call(id, namespace, name, subresource)?;
        let body = patch.to_string();
        let written = verbs::patch::patch(&mut call, PatchType::Merge, body.as_bytes(), &Self::options()).await?;
        Ok(written.into_value())
    }

    /// Applies a configuration, taking fields from other managers.
    ///
    /// # Errors
    /// As server-side apply with `force`.
    pub async fn apply(
        &self,
        id: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Value,
        manager: &str,
    ) -> Result<Value, Status> {
        let mut call = self.call(id, namespace, name, subresource)?;
        let options = WriteOptions {
            field_manager: manager.to_owned(),
            force: true,
            ..WriteOptions::default()
        };
        verbs::apply::apply(&mut call, object, &options)
            .await
            .map(|it| it.into_value())
    }

    /// Deletes an object, if it still has this uid. `propagation` is `Background`, `Foreground` or `Orphan`.
    ///
    /// # Errors
    /// As DELETE.
    pub async fn delete(
        &self,
        id: &str,
        namespace: &str,
        name: &str,
        uid: Option<&str>,
        propagation: Option<&str>,
    ) -> Result<Value, Status> {
        let mut call = self.call(id, namespace, name, "")?;
        let propagation = propagation.map(|it| match it {
            "Foreground" => Propagation::Foreground,
            "Orphan" => Propagation::Orphan,
            _ => Propagation::Background,
        });
        let options = DeleteOptions {
            uid: uid.map(str::to_owned),
            propagation,
            ..DeleteOptions::default()
        };
        verbs::delete::delete(&mut call, &options)
            .await
            .map(|it| it.into_value())
    }
}
