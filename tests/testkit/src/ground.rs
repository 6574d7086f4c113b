//! Where a test's hub or cluster is: in memory, or the API server that somebody's kubeconfig names, `DROVER_TEST_HUB`
//! and `DROVER_TEST_CLUSTER`. A test that takes its ground from here is told on both.

use crate::{Site, kinds, site, wait};
use credential::{KubeconfigSource, connection, csr};
use k8s_openapi::{
    ByteString,
    api::{
        certificates::v1::{
            CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
            CertificateSigningRequestStatus,
        },
        core::v1::{ConfigMap, Namespace},
        rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use kube_api::pki::KeyPair;
use ocm_api::{crds, namespaces};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{collections::BTreeSet, env, fmt::Debug, fs, path::Path, sync::LazyLock};
use tokio::sync::{Mutex, MutexGuard};

/// A test that has removed OCM from an API server leaves this there: whoever finds it may do so again.
const OURS: &str = "drover-tests";
/// Namespaces that the tests leave behind.
const NAMESPACES: [&str; 7] = [
    "cluster1",
    "cluster2",
    "cluster10",
    namespaces::HUB,
    namespaces::AGENT,
    "open-cluster-management",
    "open-cluster-management-agent-addon",
];

/// One API server that a test has for itself for as long as it holds this.
pub struct Ground {
    client: Client,
    kind: Kind,
}

enum Kind {
    Embedded(Site),
    Real {
        config: Box<Config>,
        kubeconfig: Value,
        _alone: MutexGuard<'static, ()>,
    },
}

// Tests of one program run beside each other, and there is one server only.
static HUB: LazyLock<Mutex<()>> = LazyLock::new(Mutex::default);
static CLUSTER: LazyLock<Mutex<()>> = LazyLock::new(Mutex::default);

impl Ground {
    /// The hub's, which knows nothing of OCM.
    ///
    /// # Panics
    /// When there is none, or it is in use for something else.
    pub async fn hub() -> Self {
        Self::of("DROVER_TEST_HUB", &HUB).await
    }

    /// The cluster's, which knows nothing of OCM.
    ///
    /// # Panics
    /// When there is none, or it is in use for something else.
    pub async fn cluster() -> Self {
        Self::of("DROVER_TEST_CLUSTER", &CLUSTER).await
    }

    async fn of(variable: &str, alone: &'static Mutex<()>) -> Self {
        let Some(path) = env::var_os(variable) else {
            let site = Site::start().await.expect("an API server in memory starts");
            return Self {
                client: site.client(),
                kind: Kind::Embedded(site),
            };
        };
        let alone = alone.lock().await;
        let path = Path::new(&path);
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let config = read(&text).await;
        let client = connection::client(&config).expect("the kubeconfig's credential can be used");
        sweep(&client, variable).await;
        Self {
            client,
            kind: Kind::Real {
                config: Box::new(config),
                kubeconfig: serde_saphyr::from_str(&text).expect("a kubeconfig is YAML"),
                _alone: alone,
            },
        }
    }

    /// Whether it is a server of somebody else's, which may write into what we have written.
    pub fn is_real(&self) -> bool {
        matches!(self.kind, Kind::Real { .. })
    }

    /// A client that may do everything.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client with the rights of a hub that is deployed, and no others.
    ///
    /// # Panics
    /// When the server does not take the role.
    pub async fn client_of_hub(&self) -> Client {
        match &self.kind {
            Kind::Embedded(site) => site.client_of_hub().await,
            Kind::Real { config, .. } => {
                let account = (namespaces::HUB, hub::rbac::SERVICE_ACCOUNT);
                let rules = site::rules(hub::rbac::RIGHTS);
                site::grant(&self.client, account, hub::rbac::ROLE, &rules).await;
                let mut config = config.clone();
                let user = format!("system:serviceaccount:{}:{}", account.0, account.1);
                config.auth_info.impersonate = Some(user);
                let client = connection::client(&config).expect("the kubeconfig's credential can be used");
                // New rights are in force a moment after they were written.
                let clusters: Api<CustomResourceDefinition> = Api::all(client.clone());
                wait::until_all(&clusters, "the hub has its rights", |_| true).await;
                client
            }
        }
    }

    /// The API of a kind in a namespace; `namespace` means nothing for a cluster-scoped kind
    /// and is `default` when empty.
    ///
    /// # Panics
    /// When the kind is not served.
    pub async fn api(&self, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        kinds::api(&self.client, api_version, kind, namespace).await
    }

    /// Applies every object of a YAML text, in order.
    ///
    /// # Panics
    /// When the text is no YAML or the server refuses an object; says which.
    pub async fn apply(&self, text: &str) -> Vec<DynamicObject> {
        kinds::apply(&self.client, text).await
    }

    /// A kubeconfig with a client certificate for this user, who goes through TLS and RBAC like anybody else.
    ///
    /// # Panics
    /// When the server gives none.
    pub async fn kubeconfig(&self, user: &str, groups: &[&str]) -> String {
        match &self.kind {
            Kind::Embedded(site) => site.kubeconfig(user, groups).expect("the embedded API signs"),
            Kind::Real { .. } => {
                let pair = certificate(&self.client, user, groups).await;
                self.kubeconfig_with(&pair)
            }
        }
    }

    /// A kubeconfig with a certificate that is there already.
    pub fn kubeconfig_with(&self, pair: &KeyPair) -> String {
        match &self.kind {
            Kind::Embedded(site) => {
                let address = format!("https://{}", site.address);
                site.server.pki().kubeconfig(&address, "hub", "agent", pair)
            }
            Kind::Real { kubeconfig, .. } => {
                let data =
                    |pem: &str| serde_json::to_value(ByteString(pem.as_bytes().to_vec())).expect("bytes are JSON");
                let mut kubeconfig = kubeconfig.clone();
                for user in kubeconfig["users"].as_array_mut().into_iter().flatten() {
                    user["user"] = json!({
                        "client-certificate-data": data(&pair.certificate_pem),
                        "client-key-data": data(&pair.key_pem),
                    });
                }
                kubeconfig.to_string()
            }
        }
    }
}

async fn read(kubeconfig: &str) -> Config {
    let source = KubeconfigSource::Inline(kubeconfig.to_owned());
    source.read().await.expect("a kubeconfig can be read").config
}

/// Asks the server's own signer, and approves it as an administrator does.
async fn certificate(client: &Client, user: &str, groups: &[&str]) -> KeyPair {
    let subject = csr::CertificateSubject {
        common_name: user.to_owned(),
        organizations: groups.iter().map(|it| (*it).to_owned()).collect(),
        organizational_units: Vec::new(),
        dns_names: Vec::new(),
    };
    let asked = csr::new_key_and_request(&subject).expect("a key can be made");
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let request = CertificateSigningRequest {
        metadata: ObjectMeta {
            generate_name: Some(format!("{user}-")),
            ..ObjectMeta::default()
        },
        spec: CertificateSigningRequestSpec {
            request: ByteString(asked.request_pem.into_bytes()),
            signer_name: "kubernetes.io/kube-apiserver-client".to_owned(),
            usages: Some(vec!["client auth".to_owned()]),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    };
    let mut request = requests
        .create(&PostParams::default(), &request)
        .await
        .expect("the server takes a request");
    let approved = CertificateSigningRequestCondition {
        type_: "Approved".to_owned(),
        status: "True".to_owned(),
        reason: Some("Tested".to_owned()),
        ..CertificateSigningRequestCondition::default()
    };
    request.status = Some(CertificateSigningRequestStatus {
        conditions: Some(vec![approved]),
        certificate: None,
    });
    let name = request.name_any();
    requests
        .replace_subresource("approval", &name, &PostParams::default(), &request)
        .await
        .expect("an administrator may approve");
    let certificate = |it: &CertificateSigningRequest| it.status.as_ref()?.certificate.clone();
    let signed = wait::until(&requests, &name, "is signed", |it| it.and_then(certificate).is_some()).await;
    let pem = signed.as_ref().and_then(certificate).expect("it was waited for");
    KeyPair {
        certificate_pem: String::from_utf8(pem.0).expect("a certificate is PEM"),
        key_pem: asked.key_pem,
    }
}

/// Takes away what a test before this one has left, and makes sure that it was one.
async fn sweep(client: &Client, variable: &str) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let groups: BTreeSet<String> = [crds::hub(), crds::managed_cluster()]
        .concat()
        .iter()
        .map(|it| it["spec"]["group"].as_str().unwrap_or_default().to_owned())
        .collect();
    let all = definitions
        .list(&ListParams::default())
        .await
        .expect("definitions can be listed");
    let left: Vec<_> = all.into_iter().filter(|it| groups.contains(&it.spec.group)).collect();
    let marks: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-public");
    if marks.get_opt(OURS).await.expect("marks can be read").is_none() {
        assert!(
            left.is_empty(),
            "the server of {variable} knows OCM's kinds, which a test would remove: give it a fresh one"
        );
        let mark = ConfigMap {
            metadata: ObjectMeta {
                name: Some(OURS.to_owned()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        marks
            .create(&PostParams::default(), &mark)
            .await
            .expect("a mark can be left");
    }
    for definition in &left {
        let version = definition.spec.versions.iter().find(|it| it.storage);
        let version = version.map(|it| it.name.clone()).unwrap_or_default();
        let resource = ApiResource {
            api_version: format!("{}/{version}", definition.spec.group),
            group: definition.spec.group.clone(),
            version,
            kind: definition.spec.names.kind.clone(),
            plural: definition.spec.names.plural.clone(),
        };
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for object in all
            .list(&ListParams::default())
            .await
            .map(|it| it.items)
            .unwrap_or_default()
        {
            let one = match object.namespace() {
                Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
                None => all.clone(),
            };
            remove(&one, &object).await;
        }
        remove(&definitions, definition).await;
    }
    for definition in &left {
        wait::gone(&definitions, &definition.name_any()).await;
    }
    for cluster in ["cluster1", "cluster10"] {
        let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), cluster);
        remove_all(&bindings, |_| true).await;
    }
    let is_ours = |name: &str| name.starts_with("open-cluster-management");
    remove_all::<ClusterRole>(&Api::all(client.clone()), is_ours).await;
    remove_all::<ClusterRoleBinding>(&Api::all(client.clone()), is_ours).await;
    remove_all::<CertificateSigningRequest>(&Api::all(client.clone()), |_| true).await;
    remove_all::<ConfigMap>(&Api::namespaced(client.clone(), "default"), |it| {
        it != "kube-root-ca.crt"
    })
    .await;
    let spaces: Api<Namespace> = Api::all(client.clone());
    for name in NAMESPACES {
        // It may be gone already.
        spaces.delete(name, &DeleteParams::default()).await.ok();
    }
    for name in NAMESPACES {
        wait::gone(&spaces, name).await;
    }
}

async fn remove_all<K>(api: &Api<K>, is_left: impl Fn(&str) -> bool)
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    for object in api.list(&ListParams::default()).await.expect("leftovers can be listed") {
        if is_left(&object.name_any()) {
            remove(api, &object).await;
        }
    }
}

/// With nobody there who would do what a finalizer waits for.
async fn remove<K>(api: &Api<K>, object: &K)
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let name = object.name_any();
    // Of either it is no error that the object is gone.
    api.delete(&name, &DeleteParams::default()).await.ok();
    if object.meta().finalizers.as_ref().is_some_and(|it| !it.is_empty()) {
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        api.patch(&name, &PatchParams::default(), &free).await.ok();
    }
}
