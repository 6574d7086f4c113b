//! Add-ons from end to end: a hub that runs the example's controller, a cluster whose agent has joined over TLS, and
//! the add-on's agent as a task of the test, let in by nothing but the Secret that it finds on its cluster.

use std::time::Instant;

use agent::Agent;
use credential::KubeconfigSource;
use k8s_openapi::api::{
    apps::v1::Deployment,
    batch::v1::Job,
    certificates::v1::CertificateSigningRequest,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Secret},
    rbac::v1::RoleBinding,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use ocm_addon_sdk::{AddOnProgram, agent::hub_client};
use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, condition, work::ManifestWork};
use registration::{agent::AgentOptions, hub::HubOptions};
use serde_json::json;
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
    agents: Vec<Agent>,
    cancel: CancellationToken,
}

impl World {
    /// A hub that runs this add-on, and cluster1, which has joined it.
    async fn start(program: &AddOnProgram) -> Self {
        let mut world = Self::hub(program).await;
        world.join("cluster1", world.cluster.client(), None).await;
        world
    }

    /// A hub that runs this add-on, and a cluster that has not joined yet.
    async fn hub(program: &AddOnProgram) -> Self {
        let (hub, cluster) = (Site::start().await.unwrap(), Site::start().await.unwrap());
        let cancel = CancellationToken::new();
        let options = hub::Options {
            registration: HubOptions {
                auto_accept: true,
                auto_approved_csr_users: vec![JOINER.to_owned()],
                ..HubOptions::default()
            },
            addons: vec![program.add_on()],
            ..hub::Options::default()
        };
        hub::start(hub.client_of_hub().await, options, cancel.clone())
            .await
            .unwrap();
        Self {
            hub,
            cluster,
            agents: Vec::new(),
            cancel,
        }
    }

    /// Joins a cluster, with its agent's own objects on `management` if that is another one. The token stops its agent.
    async fn join(&mut self, name: &str, cluster: Client, management: Option<Client>) -> CancellationToken {
        let bootstrap = self
            .hub
            .kubeconfig(JOINER, &["system:bootstrappers:managedcluster"])
            .unwrap();
        let mut options = AgentOptions {
            cluster_name: Some(name.to_owned()),
            is_hosted: management.is_some(),
            ..AgentOptions::new(KubeconfigSource::Inline(bootstrap), cluster)
        };
        if let Some(management) = management {
            options.management = management;
            options.component_namespace = format!("{name}-agent");
        }
        let mut sessions = options.sessions.subscribe();
        let stop = self.cancel.child_token();
        self.agents.push(agent::start(options, stop.clone()).await.unwrap());
        let session = sessions.wait_for(Option::is_some);
        tokio::time::timeout(wait::PATIENCE, session)
            .await
            .expect("a session")
            .unwrap();
        stop
    }

    fn addons(&self) -> Api<ManagedClusterAddOn> {
        Api::namespaced(self.hub.client(), "cluster1")
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.cluster.client(), "default")
    }

    async fn until(&self, addon: &str, condition: &str, status: &str) -> ManagedClusterAddOn {
        let says = |it: Option<&ManagedClusterAddOn>| {
            let conditions = it.and_then(|it| it.status.as_ref()).map(|it| &it.conditions);
            conditions
                .and_then(|it| condition::find(it, condition))
                .is_some_and(|it| it.status == status)
        };
        let what = format!("{condition} is {status}");
        wait::until(&self.addons(), addon, &what, says).await.unwrap()
    }

    /// What a kubelet does for a pod: puts the Secret into files and starts the agent beside them.
    async fn run_agent(&self, program: AddOnProgram, home: &Site, namespace: &str) -> Running {
        let add_on = program.name().to_owned();
        let secrets: Api<Secret> = Api::namespaced(home.client(), namespace);
        let secret = format!("{add_on}-hub-kubeconfig");
        let secret = wait::until(&secrets, &secret, "exists", |it| it.is_some()).await;
        let folder = tempfile::tempdir().unwrap();
        for (key, value) in secret.iter().flat_map(|it| &it.data).flatten() {
            std::fs::write(folder.path().join(key), &value.0).unwrap();
        }
        let stop = self.cancel.child_token();
        let hub = hub_client(&folder.path().join("kubeconfig"), &stop).await.unwrap();
        let agent = ocm_addon_sdk::AddOnAgent {
            add_on,
            cluster: "cluster1".to_owned(),
            namespace: namespace.to_owned(),
            hub: Some(hub),
            managed: self.cluster.client(),
            home: home.client(),
            stop: stop.clone(),
        };
        Running {
            stop,
            finished: tokio::spawn(program.be(agent)),
            folder,
        }
    }

    async fn stop(self) {
        self.cancel.cancel();
        for agent in self.agents {
            agent.finished().await;
        }
    }
}

struct Running {
    stop: CancellationToken,
    finished: JoinHandle<ocm_addon_sdk::agent::Result<()>>,
    folder: tempfile::TempDir,
}

#[tokio::test(flavor = "multi_thread")]
async fn the_walk_through_of_the_founding_documents() {
    let world = World::start(&addon_helloworld::program()).await;
    world.hub.apply(HELLO_WORLD).await;
    let begun = Instant::now();

    let program = addon_helloworld::program();
    let running = world.run_agent(program, &world.cluster, "default").await;
    let addon = world.until("helloworld", "Available", "True").await;
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

#[tokio::test(flavor = "multi_thread")]
async fn an_add_on_removed_offline_is_revoked_then_cleaned_up() {
    let mut world = World::hub(&addon_helloworld::program()).await;
    let cluster = world.cluster.client();
    let away = world.join("cluster1", cluster.clone(), None).await;
    world.hub.apply(HELLO_WORLD).await;
    let running = world
        .run_agent(addon_helloworld::program(), &world.cluster, "default")
        .await;
    world.until("helloworld", "Available", "True").await;
    let deployments: Api<Deployment> = Api::namespaced(cluster.clone(), "default");
    wait::until(&deployments, "helloworld-agent", "exists", |it| it.is_some()).await;
    let kubeconfig = running.folder.path().join("kubeconfig");
    let agents = hub_client(&kubeconfig, &world.cancel).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(agents, "cluster1");
    maps.list(&ListParams::default()).await.unwrap();

    away.cancel();
    world.agents.pop().unwrap().finished().await;
    running.stop.cancel();
    running.finished.await.unwrap().unwrap();
    world
        .addons()
        .delete("helloworld", &DeleteParams::default())
        .await
        .unwrap();
    wait::gone(&world.addons(), "helloworld").await;
    let bindings: Api<RoleBinding> = Api::namespaced(world.hub.client(), "cluster1");
    wait::gone(&bindings, "open-cluster-management:helloworld:agent").await;
    let refused = maps.list(&ListParams::default()).await.unwrap_err().to_string();
    assert!(refused.contains("cannot list"), "{refused}");

    let secrets: Api<Secret> = Api::namespaced(cluster.clone(), "default");
    let leases: Api<Lease> = Api::namespaced(cluster.clone(), "default");
    assert!(secrets.get_opt("helloworld-hub-kubeconfig").await.unwrap().is_some());
    assert!(leases.get_opt("helloworld").await.unwrap().is_some());
    world.join("cluster1", cluster, None).await;
    wait::gone(&secrets, "helloworld-hub-kubeconfig").await;
    wait::gone(&leases, "helloworld").await;
    wait::gone(&deployments, "helloworld-agent").await;
    world.stop().await;
}

const HOSTED: &str = "
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: helloworldhosted}
spec: {addOnMeta: {displayName: helloworldhosted}}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata:
  name: helloworldhosted
  namespace: cluster1
  annotations: {addon.open-cluster-management.io/hosting-cluster-name: host}
spec: {installNamespace: hosted-here}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_hosted_agent_runs_elsewhere_and_serves_the_managed_cluster() {
    let program = addon_helloworldhosted::program();
    let mut world = World::hub(&program).await;
    let host = Site::start().await.unwrap();
    world.join("host", host.client(), None).await;
    world
        .join("cluster1", world.cluster.client(), Some(host.client()))
        .await;
    world.hub.apply(HOSTED).await;

    let running = world.run_agent(program, &host, "hosted-here").await;
    let addon = world.until("helloworldhosted", "Available", "True").await;
    let conditions = objects::conditions(&addon);
    let valid = "HostingClusterValidity=True(HostingClusterValid)";
    assert!(conditions.iter().any(|it| it == valid), "{conditions:#?}");
    let leases = |site: &Site| Api::<Lease>::namespaced(site.client(), "hosted-here");
    leases(&host).get("helloworldhosted").await.unwrap();
    assert!(
        leases(&world.cluster)
            .get_opt("helloworldhosted")
            .await
            .unwrap()
            .is_none()
    );
    let deployments: Api<Deployment> = Api::namespaced(host.client(), "hosted-here");
    wait::until(&deployments, "helloworldhosted-agent", "exists", |it| it.is_some()).await;

    world
        .hub
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: cluster1}, data: {key: value}}")
        .await;
    let copies: Api<ConfigMap> = Api::namespaced(world.cluster.client(), "hosted-here");
    wait::until(&copies, "a", "is copied", |it| it.is_some()).await;

    // It goes only when its hook has run on the hosting cluster.
    world
        .addons()
        .delete("helloworldhosted", &DeleteParams::default())
        .await
        .unwrap();
    complete(
        &Api::namespaced(host.client(), "hosted-here"),
        "helloworldhosted-cleanup-configmap",
    )
    .await;
    wait::gone(&world.addons(), "helloworldhosted").await;
    wait::gone(&deployments, "helloworldhosted-agent").await;
    running.stop.cancel();
    running.finished.await.unwrap().unwrap();
    world.stop().await;
}

/// As the founding documents print it.
const HELM: &str = "
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: helloworldhelm}
spec:
  addOnMeta: {displayName: helloworldhelm, description: helloworldhelm is an example addon created by helm chart}
  installStrategy: {type: Manual}
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs}
  - {group: '', resource: configmaps}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: helloworldhelm, namespace: cluster1}
spec: {installNamespace: open-cluster-management-agent-addon}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_add_on_cleans_up_before_it_is_deleted() {
    let program = addon_helloworldhelm::program();
    let world = World::start(&program).await;
    world.hub.apply(HELM).await;
    let home = "open-cluster-management-agent-addon";
    let running = world.run_agent(program, &world.cluster, home).await;
    world.until("helloworldhelm", "Available", "True").await;
    // Registering does not wait for delivering, and here the agent did not, either.
    let hook = "addon.open-cluster-management.io/addon-pre-delete";
    let held = |it: Option<&ManagedClusterAddOn>| {
        let supported = |it: &ManagedClusterAddOn| it.status.as_ref().map_or(0, |it| it.supported_configs.len());
        it.is_some_and(|it| it.finalizers() == [hook] && supported(it) == 2)
    };
    wait::until(
        &world.addons(),
        "helloworldhelm",
        "has finalizer and configurations",
        held,
    )
    .await;
    let deployments: Api<Deployment> = Api::namespaced(world.cluster.client(), home);
    wait::until(&deployments, "helloworldhelm-agent", "exists", |it| it.is_some()).await;

    world
        .addons()
        .delete("helloworldhelm", &DeleteParams::default())
        .await
        .unwrap();
    complete(
        &Api::namespaced(world.cluster.client(), home),
        "helloworldhelm-cleanup-configmap",
    )
    .await;
    wait::gone(&world.addons(), "helloworldhelm").await;
    running.stop.cancel();
    running.finished.await.unwrap().unwrap();
    wait::gone(&deployments, "helloworldhelm-agent").await;
    world.stop().await;
}

/// Says that a Job has done its work: nothing runs Jobs in these worlds.
async fn complete(jobs: &Api<Job>, name: &str) {
    wait::until(jobs, name, "exists", |it| it.is_some()).await;
    let done = json!({"status": {"conditions": [{
        "type": "Complete", "status": "True", "lastProbeTime": null, "lastTransitionTime": null,
    }]}});
    jobs.patch_status(name, &PatchParams::default(), &Patch::Merge(done))
        .await
        .unwrap();
}
