//! One Kubernetes in memory: a client inside, TLS on loopback, and objects from text.

use crate::{addon_versions::AddOnVersions, kinds};
use anyhow::Context;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::{Api, Client, api::DynamicObject, discovery::ApiResource};
use kube_api::{
    Options, Server,
    admission::Admission,
    identity::{AUTHENTICATED, MASTERS, User},
};
use ocm_api::namespaces;
use ocm_reconcile::rbac::Right;
use serde_json::json;
use std::{net::SocketAddr, sync::Arc};
use tokio::{net::TcpListener, task::JoinHandle};

/// A table of rights as RBAC writes it.
pub fn rules(rights: &[Right]) -> Vec<PolicyRule> {
    rights.iter().map(Right::rule).collect()
}

/// A Kubernetes that forgets everything when it is dropped.
pub struct Site {
    /// The server.
    pub server: Server,
    /// Where it listens.
    pub address: SocketAddr,
    listening: JoinHandle<()>,
}

impl Site {
    /// Starts one on a free port.
    ///
    /// # Errors
    /// When it cannot listen or cannot start.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(Vec::new()).await
    }

    /// Starts one on a free port, with these plug-ins for admission.
    ///
    /// # Errors
    /// When it cannot listen or cannot start.
    pub async fn start_with(admission: Vec<Arc<dyn Admission>>) -> anyhow::Result<Self> {
        credential::connection::install_crypto_provider();
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .context("could not listen on loopback")?;
        let address = listener.local_addr()?;
        let server = Server::open(Options {
            address: Some(address),
            conversion: vec![Arc::new(AddOnVersions)],
            admission,
            ..Options::default()
        })
        .await?;
        let listening = server.listen(listener)?;
        Ok(Self {
            server,
            address,
            listening,
        })
    }

    /// A client in the same process that may do everything.
    pub fn client(&self) -> Client {
        self.client_as("admin", &[MASTERS])
    }

    /// A client in the same process that asks as somebody else.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        let groups: Vec<_> = groups.iter().copied().chain([AUTHENTICATED]).collect();
        Client::new(self.server.service(User::new(user, &groups)), "default")
    }

    /// A client with the rights of a hub that is deployed, and no others: what it does in a test it may do there.
    pub async fn client_of_hub(&self) -> Client {
        Client::new(self.server.service(self.user_of_hub().await), "default")
    }

    /// Who a deployed hub is; what it may is put there.
    ///
    /// # Panics
    /// When the server does not take the role.
    pub async fn user_of_hub(&self) -> User {
        let account = (namespaces::HUB, hub::rbac::SERVICE_ACCOUNT);
        self.user_with(account, hub::rbac::ROLE, &rules(hub::rbac::RIGHTS))
            .await
    }

    /// The ServiceAccount of this namespace and name, which has a ClusterRole of this name with these rules.
    ///
    /// # Panics
    /// When the server does not take the role.
    pub async fn user_with(&self, (namespace, account): (&str, &str), role: &str, rules: &[PolicyRule]) -> User {
        grant(&self.client(), (namespace, account), role, rules).await;
        let group = format!("system:serviceaccounts:{namespace}");
        User::new(
            &format!("system:serviceaccount:{namespace}:{account}"),
            &["system:serviceaccounts", &group, AUTHENTICATED],
        )
    }

    /// A kubeconfig with a client certificate for this user, who goes through TLS and RBAC like anybody else.
    ///
    /// # Errors
    /// When the certificate cannot be made.
    pub fn kubeconfig(&self, user: &str, groups: &[&str]) -> anyhow::Result<String> {
        let pki = self.server.pki();
        let pair = pki.issue_client_certificate(user, groups, 3600, jiff::Timestamp::now())?;
        Ok(pki.kubeconfig(&format!("https://{}", self.address), "hub", user, &pair))
    }

    /// Stops it.
    pub async fn stop(self) {
        self.server.stop(Some(self.listening)).await;
    }

    /// The resource of a kind, and whether it is namespaced.
    ///
    /// # Panics
    /// When the kind is not served.
    pub async fn resource(&self, api_version: &str, kind: &str) -> (ApiResource, bool) {
        kinds::resource(&self.client(), api_version, kind).await
    }

    /// The API of a kind in a namespace; `namespace` means nothing for a cluster-scoped kind
    /// and is `default` when empty.
    ///
    /// # Panics
    /// When the kind is not served.
    pub async fn api(&self, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        kinds::api(&self.client(), api_version, kind, namespace).await
    }

    /// Applies every object of a YAML text, in order, and returns them as the server has them.
    ///
    /// # Panics
    /// When the text is no YAML or the server refuses an object; says which.
    pub async fn apply(&self, text: &str) -> Vec<DynamicObject> {
        kinds::apply(&self.client(), text).await
    }
}

/// Gives a ServiceAccount of this namespace and name a ClusterRole of this name with these rules.
///
/// # Panics
/// When the server does not take the role.
pub async fn grant(client: &Client, (namespace, account): (&str, &str), role: &str, rules: &[PolicyRule]) {
    let (group, subject) = ("rbac.authorization.k8s.io", "ServiceAccount");
    let api_version = format!("{group}/v1");
    let rights = json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules});
    kinds::apply(client, &rights.to_string()).await;
    let binding = json!({
        "apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": role},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": subject, "name": account, "namespace": namespace}],
    });
    kinds::apply(client, &binding.to_string()).await;
}
