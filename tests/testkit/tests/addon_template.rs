//! An AddOnTemplate from end to end: hub, agent and a cluster in memory. Nobody runs pods here,
//! so the test says what a node would say of them.

use credential::KubeconfigSource;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Secret},
    rbac::v1::RoleBinding,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use kube_api::pki::certificate;
use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, condition};
use p256::{
    ecdsa::SigningKey,
    elliptic_curve::Generate,
    pkcs8::{EncodePrivateKey, LineEnding},
};
use registration::{agent::AgentOptions, hub::HubOptions};
use serde_json::json;
use testkit::{Site, wait};
use tokio_util::sync::CancellationToken;
use x509_cert::der::EncodePem;
use x509_parser::pem::parse_x509_pem;

const JOINER: &str = "joiner";
const NAMESPACE: &str = "open-cluster-management-agent-addon";

const TEMPLATE: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cm-admin}
rules: [{apiGroups: [""], resources: [configmaps], verbs: ["*"]}]
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: hello-template-v1}
spec:
  addonName: hello-template
  agentSpec:
    workload:
      manifests:
      - apiVersion: apps/v1
        kind: Deployment
        metadata: {name: hello-agent, namespace: open-cluster-management-agent-addon}
        spec:
          replicas: 1
          selector: {matchLabels: {app: hello}}
          template:
            metadata: {labels: {app: hello}}
            spec:
              containers:
              - name: agent
                image: quay.io/open-cluster-management/addon-examples:latest
                args: ["--cluster-name={{CLUSTER_NAME}}"]
                env: [{name: LOG_LEVEL, value: "{{LOG_LEVEL}}"}]
  registration:
  - type: KubeClient
    kubeClient: {hubPermissions: [{type: CurrentCluster, currentCluster: {clusterRoleName: cm-admin}}]}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: hello-template}
spec:
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {name: hello-template-v1}}
  - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs}
"#;

const ADD_ON: &str = "
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: hello-template, namespace: cluster1}
spec: {}
";

const CONFIGURED: &str = "
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnDeploymentConfig
metadata: {name: hello-config, namespace: cluster1}
spec: {customizedVariables: [{name: LOG_LEVEL, value: '4'}]}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: hello-template, namespace: cluster1}
spec:
  configs:
  - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs, name: hello-config, namespace: cluster1}
";

struct World {
    hub: Site,
    cluster: Site,
    cancel: CancellationToken,
}

impl World {
    /// A hub with a cluster `cluster1` that has joined it.
    async fn start() -> Self {
        let (hub, cluster) = (Site::start().await.unwrap(), Site::start().await.unwrap());
        let cancel = CancellationToken::new();
        let registration = HubOptions {
            auto_accept: true,
            auto_approved_csr_users: vec![JOINER.to_owned()],
            ..HubOptions::default()
        };
        let options = hub::Options {
            registration,
            ..hub::Options::default()
        };
        hub::start(hub.client_of_hub().await, options, cancel.clone())
            .await
            .unwrap();
        let groups = ["system:bootstrappers:managedcluster"];
        let bootstrap = hub.kubeconfig(JOINER, &groups).unwrap();
        let options = AgentOptions {
            cluster_name: Some("cluster1".to_owned()),
            ..AgentOptions::new(KubeconfigSource::Inline(bootstrap), cluster.client())
        };
        agent::start(options, cancel.clone()).await.unwrap();
        let namespaces: Api<Namespace> = Api::all(cluster.client());
        let mut addons = Namespace::default();
        addons.metadata.name = Some(NAMESPACE.to_owned());
        let _ = namespaces.create(&PostParams::default(), &addons).await;
        let namespaces: Api<Namespace> = Api::all(hub.client());
        wait::until(&namespaces, "cluster1", "is there", |it| it.is_some()).await;
        Self { hub, cluster, cancel }
    }

    fn addons(&self) -> Api<ManagedClusterAddOn> {
        Api::namespaced(self.hub.client(), "cluster1")
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.cluster.client(), NAMESPACE)
    }

    /// Waits until a condition of the add-on is `status/reason`.
    async fn until(&self, kind: &str, wanted: &str) -> ManagedClusterAddOn {
        let (addons, what) = (self.addons(), format!("{kind} {wanted}"));
        let found = wait::until(&addons, "hello-template", &what, |it| {
            let conditions = it.and_then(|it| it.status.as_ref()).map(|it| it.conditions.as_slice());
            let found = condition::find(conditions.unwrap_or_default(), kind);
            found.is_some_and(|it| format!("{}/{}", it.status, it.reason) == wanted)
        });
        found.await.unwrap()
    }
}

fn message(addon: &ManagedClusterAddOn, kind: &str) -> String {
    let conditions = &addon.status.as_ref().unwrap().conditions;
    condition::find(conditions, kind).unwrap().message.clone()
}

#[tokio::test]
async fn a_template_add_on_registers_deploys_becomes_healthy_and_goes() {
    let world = World::start().await;
    world.hub.apply(TEMPLATE).await;
    world.hub.apply(ADD_ON).await;

    // The template uses a variable that nothing sets.
    let refused = world.until("ManifestApplied", "False/ManifestWorkApplyFailed").await;
    let message = message(&refused, "ManifestApplied");
    assert!(
        message.contains("the template uses {{LOG_LEVEL}}, which nothing sets"),
        "{message}"
    );
    assert!(world.deployments().get_opt("hello-agent").await.unwrap().is_none());

    world.hub.apply(CONFIGURED).await;
    let deployed = wait::until(&world.deployments(), "hello-agent", "is there", |it| it.is_some()).await;
    let pods = deployed.unwrap().spec.template.spec.unwrap();
    let container = &pods.containers[0];
    assert_eq!(container.args.as_ref().unwrap(), &["--cluster-name=cluster1"]);
    let environment: Vec<_> = container
        .env
        .iter()
        .flatten()
        .map(|it| (it.name.as_str(), it.value.as_deref()))
        .collect();
    assert_eq!(
        environment,
        [
            ("LOG_LEVEL", Some("4")),
            ("HUB_KUBECONFIG", Some("/managed/hub-kubeconfig/kubeconfig")),
            ("CLUSTER_NAME", Some("cluster1")),
            ("INSTALL_NAMESPACE", Some(NAMESPACE)),
        ]
    );
    assert_eq!(
        pods.volumes.unwrap()[0].secret.as_ref().unwrap().secret_name.as_deref(),
        Some("hello-template-hub-kubeconfig")
    );

    // Its agent is let in, with the permission of the template.
    world.until("RegistrationApplied", "True/SetPermissionApplied").await;
    let secrets: Api<Secret> = Api::namespaced(world.cluster.client(), NAMESPACE);
    let has_credential = |it: Option<&Secret>| {
        it.and_then(|it| it.data.as_ref())
            .is_some_and(|it| it.contains_key("tls.crt"))
    };
    wait::until(
        &secrets,
        "hello-template-hub-kubeconfig",
        "has a credential",
        has_credential,
    )
    .await;
    let bindings: Api<RoleBinding> = Api::namespaced(world.hub.client(), "cluster1");
    let binding = bindings
        .get("open-cluster-management:hello-template:clusterrole:agent")
        .await
        .unwrap();
    assert_eq!(binding.role_ref.name, "cm-admin");
    let user = "system:open-cluster-management:cluster:cluster1:addon:hello-template:agent:hello-template-agent";
    assert!(
        binding.subjects.iter().flatten().any(|it| it.name == user),
        "{:?}",
        binding.subjects
    );
    assert_eq!(binding.labels()["open-cluster-management.io/addon-template-name"], "");

    // Its health is that of its Deployment.
    let ready = json!({"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 1}});
    let status = Patch::Merge(ready);
    world
        .deployments()
        .patch_status("hello-agent", &PatchParams::default(), &status)
        .await
        .unwrap();
    world.until("Available", "True/ProbeAvailable").await;
    world.until("Progressing", "False/Completed").await;

    // And everything goes with it.
    world
        .addons()
        .delete("hello-template", &DeleteParams::default())
        .await
        .unwrap();
    wait::gone(&world.addons(), "hello-template").await;
    wait::gone(&world.deployments(), "hello-agent").await;
    wait::gone(&secrets, "hello-template-hub-kubeconfig").await;
    wait::gone(&bindings, "open-cluster-management:hello-template:clusterrole:agent").await;
    world.cancel.cancel();
}

const SIGNED: &str = r#"
apiVersion: addon.open-cluster-management.io/v1beta1
kind: AddOnTemplate
metadata: {name: signed-v1}
spec:
  addonName: hello-template
  agentSpec: {workload: {manifests: []}}
  registration:
  - type: CustomSigner
    customSigner:
      signerName: example.com/hello
      subject: {user: "hello", groups: [greeters]}
      signingCA: {name: hello-ca}
---
apiVersion: addon.open-cluster-management.io/v1beta1
kind: ClusterManagementAddOn
metadata: {name: hello-template}
spec:
  defaultConfigs:
  - {group: addon.open-cluster-management.io, resource: addontemplates, name: signed-v1}
---
apiVersion: addon.open-cluster-management.io/v1beta1
kind: ManagedClusterAddOn
metadata: {name: hello-template, namespace: cluster1}
spec: {}
"#;

#[tokio::test]
async fn a_template_with_a_custom_signer_gets_its_certificate() {
    let world = World::start().await;
    let key = SigningKey::generate();
    let authority = certificate::authority("hello-ca", &key, jiff::Timestamp::now(), 86400).unwrap();
    let mut secret = Secret::default();
    secret.metadata.name = Some("hello-ca".to_owned());
    secret.string_data = Some(
        [
            ("tls.crt".to_owned(), authority.to_pem(LineEnding::LF).unwrap()),
            (
                "tls.key".to_owned(),
                key.to_pkcs8_pem(LineEnding::LF).unwrap().to_string(),
            ),
        ]
        .into(),
    );
    let secrets: Api<Secret> = Api::namespaced(world.hub.client(), "open-cluster-management-hub");
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    world.hub.apply(SIGNED).await;

    let secrets: Api<Secret> = Api::namespaced(world.cluster.client(), NAMESPACE);
    let name = "hello-template-example.com-hello-client-cert";
    let has_certificate = |it: Option<&Secret>| {
        it.and_then(|it| it.data.as_ref())
            .and_then(|it| it.get("tls.crt"))
            .is_some_and(|it| !it.0.is_empty())
    };
    let found = wait::until(&secrets, name, "has a certificate", has_certificate).await;
    let data = found.unwrap().data.unwrap();
    let (_, pem) = parse_x509_pem(&data["tls.crt"].0).unwrap();
    let signed = pem.parse_x509().unwrap();
    assert_eq!(signed.issuer().to_string(), "CN=hello-ca");
    let subject = signed.subject().to_string();
    assert!(
        subject.contains("CN=hello") && subject.contains("O=greeters"),
        "{subject}"
    );
    world.cancel.cancel();
}
