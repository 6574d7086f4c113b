//! A cluster with a controller.

use std::time::Duration;

use addon_cert_policy::controller::{CertificateClients, CertificateSite, control};
use jiff::{SignedDuration, Timestamp};
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{Event, Namespace, Secret},
    kube::{
        Api, Client, ResourceExt,
        api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    },
    ocm_api::{crds, policy::certificate_policy::CertificatePolicy},
    reconcile::install::install_crds,
};
use serde_json::{Value, json};
use testkit::{site::Site, wait};
use tokio_util::sync::CancellationToken;

use crate::made::{Made, pem};

/// The namespace of policies.
pub const MANAGED: &str = "managed";
/// A namespace of certificates.
pub const APP: &str = "app";

pub const GROUP: &str = "policy.open-cluster-management.io";

pub struct World {
    pub home: Site,
    pub stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    pub async fn start() -> Self {
        let world = Self::prepare().await;
        world.run(world.home.client(), world.home.client(), NEVER);
        world
    }

    /// Without the controller.
    pub async fn prepare() -> Self {
        let home = Site::start().await.unwrap();
        let kinds = crds::add_on(GROUP).into_iter();
        let kind = kinds.filter(|it| it["spec"]["names"]["kind"] == "CertificatePolicy");
        install_crds(&home.client(), kind.collect()).await.unwrap();
        for name in [MANAGED, APP] {
            namespace(&home.client(), name).await;
        }
        Self {
            home,
            stop: CancellationToken::new(),
        }
    }

    pub fn run(&self, home: Client, target: Client, frequency: Duration) {
        let clients = CertificateClients { home, target };
        let site = CertificateSite {
            namespaces: vec![MANAGED.to_owned(), "open-cluster-management-policies".to_owned()],
            instance: "host".to_owned(),
            default_minimum: SignedDuration::ZERO,
            frequency,
        };
        let stop = self.stop.clone();
        tokio::spawn(async move { control(&clients, site, &stop).await });
    }

    pub fn policies(&self) -> Api<CertificatePolicy> {
        Api::namespaced(self.home.client(), MANAGED)
    }

    /// A policy that a Policy owns, about the Secrets of [`APP`] unless it says something else.
    pub async fn apply(&self, name: &str, spec: Value) -> CertificatePolicy {
        let mut whole = json!({"namespaceSelector": {"include": [APP]}, "severity": "low"});
        let (whole_fields, fields) = (whole.as_object_mut().unwrap(), spec.as_object().unwrap());
        whole_fields.extend(fields.clone());
        let policy: CertificatePolicy = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": MANAGED, "ownerReferences": [{
                "apiVersion": format!("{GROUP}/v1"), "kind": "Policy", "name": "ns.owner", "uid": "1-2-3",
            }]},
            "spec": whole,
        }))
        .unwrap();
        self.policies().create(&PostParams::default(), &policy).await.unwrap()
    }

    /// The policy, once its newest message is this one.
    pub async fn says(&self, name: &str, message: &str) -> CertificatePolicy {
        let says =
            |it: Option<&CertificatePolicy>| it.is_some_and(|it| messages(it).first() == Some(&message.to_owned()));
        wait::until(&self.policies(), name, message, says).await.unwrap()
    }

    /// The Events about an object of this kind, the oldest first, once there are so many of them.
    pub async fn events(&self, kind: &str, count: usize) -> Vec<Event> {
        let api: Api<Event> = Api::namespaced(self.home.client(), MANAGED);
        let of_kind = |all: &[Event]| {
            let all = all.iter().filter(|it| it.involved_object.kind.as_deref() == Some(kind));
            let mut all: Vec<_> = all.cloned().collect();
            all.sort_by_key(ResourceExt::name_any);
            all
        };
        let all = wait::until_all(&api, kind, |all| of_kind(all).len() >= count).await;
        of_kind(&all)
    }
}

/// So long a policy is left alone if nothing happens: in a test for ever.
pub const NEVER: Duration = Duration::from_secs(3600);

pub async fn namespace(client: &Client, name: &str) {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let api: Api<Namespace> = Api::all(client.clone());
    api.create(&PostParams::default(), &namespace).await.unwrap();
}

/// A certificate in PEM that began an hour ago, and ends in so many seconds.
pub fn certificate(left: i64) -> String {
    let now = Timestamp::now().as_second();
    pem(&Made {
        from: u64::try_from(now - 3600).unwrap(),
        until: u64::try_from(now + left).unwrap(),
        ca: false,
        names: &["a.example"],
    })
}

/// Puts a certificate into a Secret in a namespace, with a private key beside it.
pub async fn put(client: &Client, namespace: &str, name: &str, certificate: &str) {
    let secret: Secret = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "stringData": {"tls.crt": certificate, "tls.key": "private"},
    }))
    .unwrap();
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let applied = api
        .patch(name, &PatchParams::apply("test"), &Patch::Apply(&secret))
        .await;
    applied.unwrap();
}

pub async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

/// What the history says, the newest first.
pub fn messages(policy: &CertificatePolicy) -> Vec<String> {
    let history = policy.status.iter().flat_map(|it| &it.history);
    history.map(|it| it.message.clone()).collect()
}

/// All Events of a namespace, as text.
pub async fn everything_said(client: &Client) -> String {
    let api: Api<Event> = Api::namespaced(client.clone(), MANAGED);
    let all = api.list(&ListParams::default()).await.unwrap();
    serde_json::to_string(&all.items).unwrap()
}
