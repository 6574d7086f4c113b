//! Add-ons from end to end: a hub that runs the example's controller, a cluster whose agent has joined over TLS, and the
//! add-on's agent as a task of the test, let in by nothing but the Secret that it finds on its cluster.

use std::{sync::Arc, time::Instant};

use agent::Agent;
use credential::KubeconfigSource;
use k8s_openapi::api::{
    apps::v1::Deployment,
    certificates::v1::CertificateSigningRequest,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Secret},
    rbac::v1::RoleBinding,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use ocm_addon_sdk::{Program, agent::hub_client};
use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, condition, work::ManifestWork};
use registration::{agent::AgentOptions, hub::HubOptions};
use testkit::{objects, site::Site, wait};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const JOINER: &str = "joiner";

/// As the founding documents print them.
const HELLO_WORLD: &str = "
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: helloworld}
spec: {addOnMeta: {displayName: helloworld}}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: helloworld, namespace: cluster1}
spec: {installNamespace: default}
";

struct World {
    hub: Site,
    cluster: Site,
    agent: Agent,
    cancel: CancellationToken,
}

impl World {
    async fn start() -> Self {
        let (hub, cluster) = (Site::start().await.unwrap(), Site::start().await.unwrap());
        let cancel = CancellationToken::new();
        let options = hub::Options {
            registration: HubOptions {
                auto_accept: true,
                auto_approved_csr_users: vec![JOINER.to_owned()],
                ..HubOptions::default()
            },
            addons: vec![addon_helloworld::program().add_on()],
        };
        hub::start(hub.client(), options, cancel.clone()).await.unwrap();
        let bootstrap = hub
            .kubeconfig(JOINER, &["system:bootstrappers:managedcluster"])
            .unwrap();
        let options = AgentOptions {
            cluster_name: Some("cluster1".to_owned()),
            ..AgentOptions::new(KubeconfigSource::Inline(bootstrap), cluster.client())
        };
        let mut sessions = options.sessions.subscribe();
        let agent = agent::start(options, cancel.child_token()).await.unwrap();
        let session = sessions.wait_for(Option::is_some);
        tokio::time::timeout(wait::PATIENCE, session)
            .await
            .expect("a session")
            .unwrap();
        Self {
            hub,
            cluster,
            agent,
            cancel,
        }
    }

    fn addons(&self) -> Api<ManagedClusterAddOn> {
        Api::namespaced(self.hub.client(), "cluster1")
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.cluster.client(), "default")
    }

    async fn until(&self, condition: &str, status: &str) -> ManagedClusterAddOn {
        let says = |it: Option<&ManagedClusterAddOn>| {
            let conditions = it.and_then(|it| it.status.as_ref()).map(|it| &it.conditions);
            conditions
                .and_then(|it| condition::find(it, condition))
                .is_some_and(|it| it.status == status)
        };
        let what = format!("{condition} is {status}");
        wait::until(&self.addons(), "helloworld", &what, says).await.unwrap()
    }

    /// What a kubelet does for a pod: puts the Secret into files and starts the agent beside them.
    async fn run_agent(&self, program: Program) -> Running {
        let secrets: Api<Secret> = Api::namespaced(self.cluster.client(), "default");
        let secret = wait::until(&secrets, "helloworld-hub-kubeconfig", "exists", |it| it.is_some()).await;
        let folder = tempfile::tempdir().unwrap();
        for (key, value) in secret.iter().flat_map(|it| &it.data).flatten() {
            std::fs::write(folder.path().join(key), &value.0).unwrap();
        }
        let stop = self.cancel.child_token();
        let hub = hub_client(&folder.path().join("kubeconfig"), &stop).await.unwrap();
        let agent = ocm_addon_sdk::Agent {
            add_on: "helloworld".to_owned(),
            cluster: "cluster1".to_owned(),
            namespace: "default".to_owned(),
            hub: Some(hub),
            managed: self.cluster.client(),
            home: self.cluster.client(),
            stop: stop.clone(),
        };
        Running {
            stop,
            finished: tokio::spawn(program.be(agent)),
            _folder: Arc::new(folder),
        }
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.agent.finished().await;
    }
}

struct Running {
    stop: CancellationToken,
    finished: JoinHandle<ocm_addon_sdk::agent::Result<()>>,
    _folder: Arc<tempfile::TempDir>,
}

#[tokio::test(flavor = "multi_thread")]
async fn the_walk_through_of_the_founding_documents() {
    let world = World::start().await;
    world.hub.apply(HELLO_WORLD).await;
    let begun = Instant::now();

    let running = world.run_agent(addon_helloworld::program()).await;
    let addon = world.until("Available", "True").await;
    println!("available after {:?}", begun.elapsed());
    let conditions = objects::conditions(&addon);
    for wanted in [
        "Available=True(ManagedClusterAddOnLeaseUpdated)",
        "ClusterCertificateRotated=True(ClientCertificateUpdated)",
        "RegistrationApplied=True(SetPermissionApplied)",
    ] {
        assert!(conditions.iter().any(|it| it == wanted), "{wanted}: {conditions:#?}");
    }
    let status = addon.status.clone().unwrap();
    let registration = &status.registrations[0];
    assert_eq!(registration.signer_name, "kubernetes.io/kube-apiserver-client");
    let group = "system:open-cluster-management:cluster:cluster1:addon:helloworld";
    assert!(registration.subject.user.starts_with(&format!("{group}:agent:")));
    assert!(registration.subject.groups.iter().any(|it| it == group));
    assert_eq!(status.namespace, "default");

    let works: Api<ManifestWork> = Api::namespaced(world.hub.client(), "cluster1");
    works.get("addon-helloworld-deploy-0").await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(world.cluster.client(), "default");
    wait::until(&deployments, "helloworld-agent", "exists", |it| it.is_some()).await;
    let requests: Api<CertificateSigningRequest> = Api::all(world.hub.client());
    let requests = requests.list(&ListParams::default()).await.unwrap().items;
    let of_addon: Vec<_> = requests
        .iter()
        .filter(|it| it.name_any().starts_with("addon-"))
        .collect();
    assert_eq!(of_addon.len(), 1, "one request is enough");
    assert!(of_addon[0].name_any().starts_with("addon-cluster1-helloworld-"));

    // A ConfigMap on the hub appears on the cluster; changed, it follows; removed, it goes.
    let map = |value: &str| {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: helloworld, namespace: cluster1}}, data: {{{value}}}}}"
        )
    };
    world.hub.apply(&map("value: helloworld")).await;
    let has = |key: &'static str| {
        move |it: Option<&ConfigMap>| {
            let data = it.and_then(|it| it.data.as_ref());
            data.is_some_and(|it| it.len() == 1 && it.contains_key(key))
        }
    };
    let copy = wait::until(&world.maps(), "helloworld", "is copied", has("value"))
        .await
        .unwrap();
    assert_eq!(copy.labels()["synced-from-hub"], "");
    world.hub.apply(&map("other: helloworld")).await;
    wait::until(&world.maps(), "helloworld", "follows", has("other")).await;
    let originals: Api<ConfigMap> = Api::namespaced(world.hub.client(), "cluster1");
    originals.delete("helloworld", &DeleteParams::default()).await.unwrap();
    wait::gone(&world.maps(), "helloworld").await;

    // Deleting the add-on removes everything it has brought.
    world
        .addons()
        .delete("helloworld", &DeleteParams::default())
        .await
        .unwrap();
    wait::gone(&world.addons(), "helloworld").await;
    running.stop.cancel();
    running.finished.await.unwrap().unwrap();
    wait::gone(&works, "addon-helloworld-deploy-0").await;
    wait::gone(&deployments, "helloworld-agent").await;
    let secrets: Api<Secret> = Api::namespaced(world.cluster.client(), "default");
    wait::gone(&secrets, "helloworld-hub-kubeconfig").await;
    let leases: Api<Lease> = Api::namespaced(world.cluster.client(), "default");
    wait::gone(&leases, "helloworld").await;
    let bindings: Api<RoleBinding> = Api::namespaced(world.hub.client(), "cluster1");
    wait::gone(&bindings, "open-cluster-management:helloworld:agent").await;
    world.stop().await;
}
