//! GitOpsClusters on a hub in memory: conditions in their order, and what clusters get and lose.

use std::fmt::Debug;

use addon::template::TemplateAddOn;
use addon_argocd_pull::gitops::{GitOpsSettings, controllers};
use ocm_addon_sdk::{
    AddOn, AddOnContext,
    hub::authority::Authority,
    k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Secret, Service},
    },
    kube::{
        Api, Resource, ResourceExt,
        api::{Patch, PatchParams, PostParams},
        core::{DynamicObject, NamespaceResourceScope},
    },
    ocm_api::{
        addon::v1alpha1::{AddOnDeploymentConfig, AddOnTemplate, ManagedClusterAddOn},
        cluster::{ManagedCluster, Placement, PlacementDecision},
        crds,
        gitops::GitOpsCluster,
        work::ManifestWork,
    },
    reconcile::{Caches, Clients, controller, install::install_crds},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use testkit::{site::Site, wait};
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "argocd";
const IMAGE: &str = "quay.io/open-cluster-management/argocd-pull-integration:1";

struct World {
    hub: Site,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    async fn start(image: Option<&str>) -> Self {
        let hub = Site::start().await.unwrap();
        install_crds(&hub.client(), crds::hub()).await.unwrap();
        install_crds(&hub.client(), crds::add_on("apps.open-cluster-management.io"))
            .await
            .unwrap();
        let world = Self {
            hub,
            stop: CancellationToken::new(),
        };
        for name in [NAMESPACE, "c1", "c2", "local-cluster"] {
            world.create::<Namespace>(json!({"metadata": {"name": name}})).await;
        }
        for name in ["c1", "c2", "local-cluster"] {
            let cluster = json!({"metadata": {"name": name}, "spec": {"hubAcceptsClient": true}});
            world.create::<ManagedCluster>(cluster).await;
        }
        let caches = Caches::new(world.hub.client(), world.stop.clone());
        let settings = GitOpsSettings {
            controller_image: image.map(str::to_owned),
            operator_image: image.map(|_| "mirror.example.com/argocd-operator:1".to_owned()),
        };
        controller::start_all(
            controllers(&caches, &settings),
            &Clients::hub(world.hub.client()),
            &world.stop,
        );
        world
    }

    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.hub.client(), namespace)
    }

    /// Creates an object where its namespace says.
    async fn create<K: Resource<DynamicType = ()>>(&self, mut object: Value) {
        let (api_version, kind) = (K::api_version(&()), K::kind(&()));
        object["apiVersion"] = api_version.clone().into();
        object["kind"] = kind.clone().into();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let api = self.hub.api(&api_version, &kind, &namespace).await;
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    async fn gitops(&self, add_on: Value) {
        let spec = json!({"placementRef": {"kind": "Placement", "name": "all"}, "argoCDAgentAddon": add_on});
        self.create::<GitOpsCluster>(json!({"metadata": {"name": "g", "namespace": NAMESPACE}, "spec": spec}))
            .await;
    }

    /// A Placement that has chosen these.
    async fn placement(&self, clusters: &[&str]) {
        self.create::<Placement>(json!({"metadata": {"name": "all", "namespace": NAMESPACE}, "spec": {}}))
            .await;
        let labels = json!({"cluster.open-cluster-management.io/placement": "all"});
        let decision = json!({"metadata": {"name": "all-1", "namespace": NAMESPACE, "labels": labels}});
        self.create::<PlacementDecision>(decision).await;
        self.decide(clusters).await;
    }

    async fn decide(&self, clusters: &[&str]) {
        let decisions: Vec<Value> = clusters
            .iter()
            .map(|it| json!({"clusterName": it, "reason": ""}))
            .collect();
        let patch = Patch::Merge(json!({"status": {"decisions": decisions}}));
        let api: Api<PlacementDecision> = self.api(NAMESPACE);
        api.patch_status("all-1", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// The object once one of its conditions says this.
    async fn said(&self, line: &str) -> GitOpsCluster {
        let says = |it: Option<&GitOpsCluster>| it.is_some_and(|it| lines(it).iter().any(|it| it == line));
        wait::until(&self.api(NAMESPACE), "g", line, says).await.unwrap()
    }

    async fn there<K>(&self, namespace: &str, name: &str) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned
            + Send
            + 'static,
    {
        let found = wait::until(&self.api::<K>(namespace), name, "is there", |it| it.is_some()).await;
        found.unwrap()
    }
}

fn lines(of: &GitOpsCluster) -> Vec<String> {
    let conditions = of.status.iter().flat_map(|it| &it.conditions);
    conditions
        .map(|it| format!("{} {} {}: {}", it.type_, it.status, it.reason, it.message))
        .collect()
}

fn server() -> Value {
    json!({"principalServerAddress": "p.example", "principalServerPort": "443"})
}

fn text(secret: &Secret, key: &str) -> String {
    let data = secret.data.as_ref().and_then(|it| it.get(key)).map(|it| it.0.clone());
    String::from_utf8(data.unwrap_or_default()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_follow_the_steps() {
    let world = World::start(Some(IMAGE)).await;
    world.placement(&["c1", "local-cluster", "ghost"]).await;
    world.gitops(json!({})).await;
    let missing = "ServerDiscovered False ServerNotDiscovered: Server discovery failed: there is no Service \
        argocd-agent-principal or openshift-gitops-agent-principal in namespace argocd; create it, or write \
        spec.argoCDAgentAddon.principalServerAddress and principalServerPort";
    let unknown = |name: &str| format!("{name} Unknown InProgress: Reconciliation in progress");
    let waiting = world.said(missing).await;
    let first = "RBACReady True Success: RBAC resources created successfully";
    assert_eq!(
        lines(&waiting)[..3],
        [first.to_owned(), missing.to_owned(), unknown("JWTSecretReady")]
    );
    let rest: Vec<String> = lines(&waiting)[2..].to_vec();
    let names = [
        "JWTSecretReady",
        "CACertificateReady",
        "PrincipalCertificateReady",
        "ResourceProxyCertificateReady",
        "AddOnTemplateReady",
        "PlacementTolerationConfigured",
        "PlacementEvaluated",
        "ClustersImported",
        "ManifestWorkCreated",
        "ArgoCDCRDelivered",
        "AddonConfigured",
    ];
    assert_eq!(rest, names.map(unknown));
    let service = json!({"metadata": {"name": "openshift-gitops-agent-principal", "namespace": NAMESPACE},
        "spec": {"type": "LoadBalancer", "ports": [{"name": "https", "port": 8443}]}});
    world.create::<Service>(service).await;
    let no_endpoint = "ServerDiscovered False ServerNotDiscovered: Server discovery failed: no external endpoint found \
        for service openshift-gitops-agent-principal in namespace argocd (type=LoadBalancer, no LoadBalancer ingress)";
    world.said(no_endpoint).await;
    let services: Api<Service> = world.api(NAMESPACE);
    let ingress = json!({"status": {"loadBalancer": {"ingress": [{"hostname": "p.example"}]}}});
    let name = "openshift-gitops-agent-principal";
    services
        .patch_status(name, &PatchParams::default(), &Patch::Merge(ingress))
        .await
        .unwrap();
    let done = world
        .said("AddonConfigured True Success: Addon configured for 2 clusters")
        .await;
    let expected = [
        first,
        "ServerDiscovered True Success: Server at p.example:8443",
        "JWTSecretReady True Success: JWT secret created successfully",
        "CACertificateReady True Success: CA certificate created successfully",
        "PrincipalCertificateReady True Success: Principal certificate generated successfully",
        "ResourceProxyCertificateReady True Success: Resource proxy certificate generated successfully",
        "AddOnTemplateReady True Success: AddOnTemplate created/updated successfully",
        "PlacementTolerationConfigured True Success: Placement tolerations configured successfully",
        "PlacementEvaluated True Success: Evaluated 2 managed clusters",
        "ClustersImported True Success: Imported 2 clusters to ArgoCD",
        "ManifestWorkCreated True Success: Created ManifestWorks for 1 clusters",
        "ArgoCDCRDelivered True Success: Delivered ArgoCD CR to 1 clusters",
        "AddonConfigured True Success: Addon configured for 2 clusters",
    ];
    assert_eq!(lines(&done), expected);
    let said = &done.spec.argo_cd_agent_addon;
    assert_eq!(
        (
            said.principal_server_address.as_str(),
            said.principal_server_port.as_str()
        ),
        ("p.example", "8443")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn our_hub_makes_pods_of_the_template() {
    let world = World::start(Some(IMAGE)).await;
    world.placement(&["c1"]).await;
    world.gitops(server()).await;
    let configured = "AddonConfigured True Success: Addon configured for 1 clusters";
    world.said(configured).await;
    let rendered = async || {
        let templates: Api<AddOnTemplate> = Api::all(world.hub.client());
        let template = templates.get("argocd-agent-addon-argocd-g").await.unwrap();
        let configs = world.api::<AddOnDeploymentConfig>("c1");
        let config = configs.get("argocd-agent-addon-config").await.unwrap();
        let name = "argocd-agent-addon";
        let context = AddOnContext::new("c1", name)
            .with_config(&template)
            .with_config(&config);
        TemplateAddOn::new(name).manifests(&context).unwrap()
    };
    let variable = |manifest: &Value, name: &str| {
        let all = manifest["spec"]["template"]["spec"]["containers"][0]["env"]
            .as_array()
            .unwrap();
        let found = all.iter().find(|it| it["name"] == name);
        found.map(|it| it["value"].clone()).unwrap_or_default()
    };
    // Nobody has said where: the program knows.
    let manifests = rendered().await;
    let (job, deployment) = (&manifests[0], &manifests[3]);
    for pods in [job, deployment] {
        assert_eq!(variable(pods, "ARGOCD_NAMESPACE"), "");
        assert_eq!(variable(pods, "ARGOCD_OPERATOR_NAMESPACE"), "");
    }
    assert_eq!(
        variable(deployment, "ARGOCD_OPERATOR_IMAGE"),
        "mirror.example.com/argocd-operator:1"
    );
    let all: Api<GitOpsCluster> = world.api(NAMESPACE);
    let said = json!({"spec": {"argoCDAgentAddon": {"agentNamespace": "agents", "operatorNamespace": "operators"}}});
    all.patch("g", &PatchParams::default(), &Patch::Merge(said))
        .await
        .unwrap();
    let has_variables = |it: Option<&AddOnDeploymentConfig>| {
        it.is_some_and(|it| it.spec.customized_variables.iter().all(|it| !it.value.is_empty()))
    };
    let configs = world.api::<AddOnDeploymentConfig>("c1");
    wait::until(
        &configs,
        "argocd-agent-addon-config",
        "has its variables",
        has_variables,
    )
    .await;
    let manifests = rendered().await;
    for pods in [&manifests[0], &manifests[3]] {
        assert_eq!(variable(pods, "ARGOCD_NAMESPACE"), "agents");
        assert_eq!(variable(pods, "ARGOCD_OPERATOR_NAMESPACE"), "operators");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chosen_cluster_gets_its_agent_and_loses_it() {
    let world = World::start(Some(IMAGE)).await;
    world.placement(&["c1", "local-cluster"]).await;
    world.gitops(server()).await;
    world
        .said("AddonConfigured True Success: Addon configured for 2 clusters")
        .await;
    // What is on the hub once.
    let authority: Secret = world.there(NAMESPACE, "argocd-agent-ca").await;
    let pem = text(&authority, "tls.crt");
    assert!(Authority::read(pem.as_bytes(), text(&authority, "tls.key").as_bytes()).is_ok());
    let jwt: Secret = world.there(NAMESPACE, "argocd-agent-jwt").await;
    assert!(text(&jwt, "jwt.key").starts_with("-----BEGIN PRIVATE KEY-----\n"));
    for name in ["argocd-agent-principal-tls", "argocd-agent-resource-proxy-tls"] {
        let secret: Secret = world.there(NAMESPACE, name).await;
        assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/tls"), "{name}");
    }
    let placements: Api<Placement> = world.api(NAMESPACE);
    let tolerations = serde_json::to_value(placements.get("all").await.unwrap().spec.tolerations).unwrap();
    let exists = |key: &str| json!({"key": format!("cluster.open-cluster-management.io/{key}"), "operator": "Exists"});
    assert_eq!(tolerations, json!([exists("unreachable"), exists("unavailable")]));
    let templates: Api<AddOnTemplate> = Api::all(world.hub.client());
    let template = templates.get("argocd-agent-addon-argocd-g").await.unwrap();
    assert_eq!(
        template.labels()["gitopscluster.apps.open-cluster-management.io/name"],
        "g"
    );
    let spec = serde_json::to_value(&template.spec).unwrap();
    let signer = json!([{"type": "CustomSigner", "customSigner": {
        "signerName": "open-cluster-management.io/argocd-agent-addon",
        "signingCA": {"name": "argocd-agent-ca", "namespace": NAMESPACE},
    }}]);
    assert_eq!(spec["registration"], signer);
    let manifests = spec["agentSpec"]["workload"]["manifests"].as_array().unwrap();
    let kinds: Vec<_> = manifests.iter().map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Job", "ServiceAccount", "ClusterRoleBinding", "Deployment"]);
    let container = &manifests[3]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        (&container["image"], &container["args"][0]),
        (&json!(IMAGE), &json!("--mode=addon"))
    );
    // What a cluster has.
    let secret: Secret = world.there(NAMESPACE, "cluster-c1").await;
    assert_eq!(
        (text(&secret, "name"), text(&secret, "server")),
        ("c1".to_owned(), "https://c1-control-plane".to_owned())
    );
    let config: Value = serde_json::from_str(&text(&secret, "config")).unwrap();
    assert_eq!((&config["username"], &config["password"]), (&json!("c1"), &json!("c1")));
    assert_eq!(config["tlsClientConfig"]["insecure"], false);
    let labels = json!(secret.labels());
    let expected = json!({
        "argocd.argoproj.io/secret-type": "cluster", "apps.open-cluster-management.io/cluster-name": "c1",
        "argocd-agent.argoproj-labs.io/agent-name": "c1", "placement-name": "all",
    });
    assert_eq!(labels, expected);
    let _: Secret = world.there(NAMESPACE, "argocd-cluster-client-c1").await;
    let work: ManifestWork = world.there("c1", "argocd-agent-ca-mw").await;
    assert_eq!(
        work.annotations()["apps.open-cluster-management.io/propagate-argocd-agent-ca"],
        "true"
    );
    let sent = &work.spec.workload.manifests.read()[0].0;
    assert_eq!(
        (&sent["kind"], &sent["metadata"]),
        (
            &json!("Secret"),
            &json!({"name": "argocd-agent-ca", "namespace": "argocd"})
        )
    );
    let work: ManifestWork = world.there("c1", "argocd-agent-cr-argocd-g").await;
    let labels = json!({
        "apps.open-cluster-management.io/gitopscluster": "true", "app.kubernetes.io/component": "argocd-cr",
        "app.kubernetes.io/managed-by": "argocd-pull-integration",
    });
    assert_eq!(json!(work.labels()), labels);
    let client = work.spec.workload.manifests.read()[0].0["spec"]["argoCDAgent"]["agent"]["client"].clone();
    assert_eq!(client["principalServerAddress"], "p.example");
    let _: AddOnDeploymentConfig = world.there("c1", "argocd-agent-addon-config").await;
    let add_on: ManagedClusterAddOn = world.there("c1", "argocd-agent-addon").await;
    let configs = serde_json::to_value(&add_on.spec.configs).unwrap();
    let group = "addon.open-cluster-management.io";
    let expected = json!([
        {"group": group, "resource": "addontemplates", "name": "argocd-agent-addon-argocd-g"},
        {"group": group, "resource": "addondeploymentconfigs", "namespace": "c1", "name": "argocd-agent-addon-config"},
    ]);
    assert_eq!(configs, expected);
    // The hub itself needs no works.
    let of_hub: Api<ManifestWork> = world.api("local-cluster");
    assert!(of_hub.list(&Default::default()).await.unwrap().items.is_empty());
    // Another one in its place.
    world.decide(&["c2", "local-cluster"]).await;
    world
        .said("RemovedClustersCleanedUp True Success: Cleaned up 1 removed cluster(s)")
        .await;
    wait::gone(&world.api::<ManagedClusterAddOn>("c1"), "argocd-agent-addon").await;
    wait::gone(&world.api::<ManifestWork>("c1"), "argocd-agent-ca-mw").await;
    wait::gone(&world.api::<ManifestWork>("c1"), "argocd-agent-cr-argocd-g").await;
    wait::gone(&world.api::<Secret>(NAMESPACE), "cluster-c1").await;
    let _: ManagedClusterAddOn = world.there("c2", "argocd-agent-addon").await;
    let _: Secret = world.there(NAMESPACE, "cluster-c2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_has_to_change_is_told() {
    let world = World::start(Some(IMAGE)).await;
    let mut add_on = server();
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "n"}});
    add_on["argoCDCRManifestWork"] = json!({"manifests": [config_map]});
    world.gitops(add_on).await;
    let not_found = "failed to get Placement: placements.cluster.open-cluster-management.io \"all\" not found";
    let told = world
        .said(&format!(
            "PlacementEvaluated False Failed: Failed to evaluate placement: {not_found}"
        ))
        .await;
    assert_eq!(
        lines(&told)[7],
        format!("PlacementTolerationConfigured False Failed: Failed to configure placement tolerations: {not_found}")
    );
    world.placement(&[]).await;
    world
        .said("PlacementEvaluated True NoClusters: No managed clusters selected by placement")
        .await;
    let invalid = "ArgoCDCRDelivered False Failed: Invalid ArgoCDCRManifestWork: argoCDCRManifestWork.manifests must \
        contain at least one ArgoCD CR (apiVersion: argoproj.io/v1beta1, kind: ArgoCD)";
    world.said(invalid).await;
    let all: Api<GitOpsCluster> = world.api(NAMESPACE);
    let patch = json!({"spec": {"argoCDAgentAddon": {"argoCDCRManifestWork": null}}});
    all.patch("g", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    let none = "ArgoCDCRDelivered True NoClusters: No non-local clusters to deliver ArgoCD CR to";
    let told = world.said(none).await;
    for (at, name) in [
        (9, "ClustersImported"),
        (10, "ManifestWorkCreated"),
        (12, "AddonConfigured"),
    ] {
        assert_eq!(
            lines(&told)[at],
            format!("{name} Unknown InProgress: Reconciliation in progress")
        );
    }
    let patch = json!({"spec": {"placementRef": {"kind": "PlacementRule"}}});
    all.patch("g", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    world
        .said("PlacementEvaluated False Failed: Failed to evaluate placement: invalid placement kind: PlacementRule, expected Placement")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_nobody_has_said_ends_the_run() {
    let world = World::start(None).await;
    world.placement(&["c1"]).await;
    world.gitops(server()).await;
    let failed = "AddOnTemplateReady False Failed: Failed to ensure AddOnTemplate: CONTROLLER_IMAGE environment variable \
        is not set - this must be configured in the deployment";
    let told = world.said(failed).await;
    let after = "PlacementTolerationConfigured Unknown InProgress: Reconciliation in progress";
    assert_eq!(lines(&told)[7], after);
    let add_ons: Api<ManagedClusterAddOn> = world.api("c1");
    assert!(add_ons.list(&Default::default()).await.unwrap().items.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_cluster_that_fails_keeps_nothing_from_others() {
    let world = World::start(Some(IMAGE)).await;
    // Without a namespace nothing can be created for it.
    let cluster = json!({"metadata": {"name": "c0"}, "spec": {"hubAcceptsClient": true}});
    world.create::<ManagedCluster>(cluster).await;
    world.placement(&["c0", "c1"]).await;
    world.gitops(server()).await;
    let told = world
        .said("AddonConfigured False Failed: Failed to configure addon for clusters: [c0]")
        .await;
    let expected = [
        "PlacementEvaluated True Success: Evaluated 2 managed clusters",
        "ClustersImported True Success: Imported 2 clusters to ArgoCD",
        "ManifestWorkCreated False Failed: Failed to create ManifestWorks for clusters: [c0]",
        "ArgoCDCRDelivered False Failed: Failed to deliver ArgoCD CR to clusters: [c0]",
    ];
    assert_eq!(lines(&told)[8..12], expected);
    let _: ManifestWork = world.there("c1", "argocd-agent-cr-argocd-g").await;
    let _: ManagedClusterAddOn = world.there("c1", "argocd-agent-addon").await;
    // A namespace that comes is found when the run is tried again.
    world.create::<Namespace>(json!({"metadata": {"name": "c0"}})).await;
    world
        .said("AddonConfigured True Success: Addon configured for 2 clusters")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_authority_reaches_principal_and_clusters() {
    let world = World::start(Some(IMAGE)).await;
    world.placement(&["c1"]).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "p", "image": "p"}]}});
    let deployment = json!({"metadata": {"name": "argocd-agent-principal", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    world.create::<Deployment>(deployment).await;
    world.gitops(server()).await;
    world
        .said("AddonConfigured True Success: Addon configured for 1 clusters")
        .await;
    let deployments: Api<Deployment> = world.api(NAMESPACE);
    let restarted = |it: Option<&Deployment>| {
        let template = it.and_then(|it| it.spec.template.metadata.clone());
        template.is_some_and(|it| it.annotations.is_some())
    };
    assert!(!restarted(Some(
        &deployments.get("argocd-agent-principal").await.unwrap()
    )));
    let encoded = |it: &ManifestWork| it.spec.workload.manifests.read()[0].0["data"]["ca.crt"].clone();
    let before = encoded(&world.there::<ManifestWork>("c1", "argocd-agent-ca-mw").await);
    let secrets: Api<Secret> = world.api(NAMESPACE);
    secrets.delete("argocd-agent-ca", &Default::default()).await.unwrap();
    wait::until(&deployments, "argocd-agent-principal", "restarts", restarted).await;
    let is_new = |it: Option<&ManifestWork>| it.is_some_and(|it| encoded(it) != before);
    wait::until(
        &world.api::<ManifestWork>("c1"),
        "argocd-agent-ca-mw",
        "a new authority",
        is_new,
    )
    .await;
    let bundles: Api<ConfigMap> = world.api(NAMESPACE);
    let bundle = bundles.get("argocd-agent-ca-bundle").await.unwrap();
    let text = bundle
        .data
        .unwrap_or_default()
        .remove("ca-bundle.crt")
        .unwrap_or_default();
    assert_eq!(text.matches("BEGIN CERTIFICATE").count(), 2);
}
