//! The operator of agents on embedded APIs, with the rights of its deployment and no others: installation, access to
//! the hub, modes, another managed cluster, removal.

mod ground;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Secret},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{Api, ResourceExt, api::DeleteParams};
use ocm_api::{operator::Klusterlet, work::AppliedManifestWork};
use operator::Layout;
use serde_json::json;
use testkit::wait;

use ground::{AGENT, Ground, condition, patch};

#[tokio::test(flavor = "multi_thread")]
async fn a_klusterlet_is_installed_joins_and_is_available() {
    let ground = Ground::start(Layout::Upstream).await;
    ground.klusterlet(json!({"clusterName": "cluster1"})).await;
    ground.says("Applied", "True", "KlusterletApplied").await;
    ground
        .says(
            "HubConnectionDegraded",
            "True",
            "BootstrapSecretMissing,HubKubeConfigSecretMissing",
        )
        .await;
    let deployments: Api<Deployment> = Api::namespaced(ground.site.client(), AGENT);
    let work = |replicas: i32| move |it: Option<&Deployment>| it.is_some_and(|it| it.spec.replicas == Some(replicas));
    wait::until(&deployments, "k-work-agent", "waits", work(0)).await;
    ground
        .says("WorkDesiredDegraded", "False", "DeploymentsFunctional")
        .await;
    ground.says("Available", "False", "NoAvailablePods").await;

    ground.bootstrap(&ground.hub_kubeconfig("admin", true)).await;
    ground
        .says(
            "HubConnectionDegraded",
            "True",
            "BootstrapSecretFunctional,HubKubeConfigSecretMissing",
        )
        .await;
    ground.credential(&ground.hub_kubeconfig("admin", true)).await;
    ground
        .says("HubConnectionDegraded", "False", "HubConnectionFunctional")
        .await;
    wait::until(&deployments, "k-work-agent", "works", work(1)).await;
    ground.make_ready(AGENT).await;
    ground.says("Available", "True", "KlusterletAvailable").await;

    let klusterlet = ground.now().await;
    let status = klusterlet.status.as_ref().unwrap();
    assert_eq!(status.observed_generation, klusterlet.metadata.generation.unwrap());
    assert_eq!((status.related_resources.len(), status.generations.len()), (24, 2));
    ground.refused_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_bad_bootstrap_secret_has_its_reason() {
    let ground = Ground::start(Layout::Compact).await;
    ground.klusterlet(json!({"clusterName": "cluster1"})).await;
    let good = ground.hub_kubeconfig("admin", true);
    let token =
        good.split_once("users:").unwrap().0.to_owned() + "users: [{name: admin, user: {token: an-expired-one}}]\n";
    let nowhere = good.replace(&format!("127.0.0.1:{}", ground.hub.address.port()), "127.0.0.1:1");
    let exec = good.split_once("users:").unwrap().0.to_owned()
        + "users: [{name: admin, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: touch}}}]\n";
    for (kubeconfig, reason) in [
        ("[1, 2".to_owned(), "BootstrapSecretError"),
        (exec, "BootstrapSecretError"),
        (nowhere, "BootstrapSecretError"),
        (token, "BootstrapSecretUnauthorized"),
        (ground.hub_kubeconfig("nobody", false), "BootstrapSecretUnauthorized"),
        (good, "BootstrapSecretFunctional"),
    ] {
        ground.bootstrap(&kubeconfig).await;
        let reason = format!("{reason},HubKubeConfigSecretMissing");
        ground.says("HubConnectionDegraded", "True", &reason).await;
    }
    ground.refused_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_told_and_changes_nothing() {
    let ground = Ground::start(Layout::Upstream).await;
    ground.klusterlet(json!({"clusterName": "cluster1"})).await;
    ground.says("Applied", "True", "KlusterletApplied").await;
    ground
        .klusterlet(json!({"clusterName": "cluster1", "deployOption": {"mode": "Nonsense"}}))
        .await;
    ground.says("Applied", "False", "KlusterletApplyFailed").await;
    let message = condition(&ground.now().await, "Applied").unwrap().message;
    assert!(message.contains("spec.deployOption.mode"), "{message}");
    let deployments: Api<Deployment> = Api::namespaced(ground.site.client(), AGENT);
    assert!(deployments.get_opt("k-registration-agent").await.unwrap().is_some());
    ground.refused_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_mode_leaves_no_gap() {
    let ground = Ground::start(Layout::Upstream).await;
    ground.klusterlet(json!({"clusterName": "cluster1"})).await;
    ground.says("Applied", "True", "KlusterletApplied").await;
    ground.make_ready(AGENT).await;
    ground
        .klusterlet(json!({"clusterName": "cluster1", "deployOption": {"mode": "Singleton"}}))
        .await;
    let deployments: Api<Deployment> = Api::namespaced(ground.site.client(), AGENT);
    wait::until(&deployments, "k-agent", "is made", |it| it.is_some()).await;
    ground
        .says("RegistrationDesiredDegraded", "True", "UnavailablePods")
        .await;
    assert!(deployments.get_opt("k-registration-agent").await.unwrap().is_some());
    ground.make_ready(AGENT).await;
    wait::gone(&deployments, "k-registration-agent").await;
    wait::gone(&deployments, "k-work-agent").await;
    ground.says("Available", "True", "KlusterletAvailable").await;
    ground.refused_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_deletes_comes_back() {
    let ground = Ground::start(Layout::Upstream).await;
    ground.klusterlet(json!({"clusterName": "cluster1"})).await;
    ground.says("Applied", "True", "KlusterletApplied").await;
    let bindings: Api<ClusterRoleBinding> = Api::all(ground.site.client());
    let name = "open-cluster-management:k-work:agent";
    let uid = bindings.get(name).await.unwrap().uid();
    bindings.delete(name, &DeleteParams::default()).await.unwrap();
    wait::until(&bindings, name, "is made anew", |it| {
        it.is_some_and(|it| it.uid() != uid)
    })
    .await;
    ground.refused_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_klusterlet_takes_everything_along_but_what_works_applied() {
    let ground = Ground::start(Layout::Upstream).await;
    ground.klusterlet(json!({"clusterName": "cluster1"})).await;
    ground.says("Applied", "True", "KlusterletApplied").await;
    ground.work(&ground.now().await.uid().unwrap()).await;
    ground.delete().await;
    let works: Api<AppliedManifestWork> = Api::all(ground.site.client());
    assert_eq!(works.get("w").await.unwrap().metadata.finalizers, None);
    let namespaces: Api<Namespace> = Api::all(ground.site.client());
    wait::gone(&namespaces, AGENT).await;
    wait::gone(&namespaces, "open-cluster-management-agent-addon").await;
    let roles: Api<ClusterRole> = Api::all(ground.site.client());
    let left = roles.list(&Default::default()).await.unwrap();
    assert!(!left.iter().any(|it| it.name_any().contains(":k-")));
    ground.refused_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_stopped_in_any_phase_finishes_later() {
    for writes in [1, 2, 3, 5, 8, 13, 21, 30] {
        let ground = Ground::start_with(Layout::Upstream, Some(writes)).await;
        ground.klusterlet(json!({"clusterName": "cluster1"})).await;
        ground
            .stopped(|it| it.is_some_and(|it| condition(it, "Applied").is_some_and(|it| it.status == "True")))
            .await;
        let ground = ground.restart(None).await;
        ground.says("Applied", "True", "KlusterletApplied").await;
        ground.work(&ground.now().await.uid().unwrap()).await;
        let ground = ground.restart(Some(writes)).await;
        let klusterlets: Api<Klusterlet> = Api::all(ground.site.client());
        klusterlets.delete("k", &DeleteParams::default()).await.unwrap();
        ground.stopped(|it| it.is_none()).await;
        let ground = ground.restart(None).await;
        wait::gone(&klusterlets, "k").await;
        let namespaces: Api<Namespace> = Api::all(ground.site.client());
        wait::gone(&namespaces, AGENT).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_for_another_cluster_has_its_own_kubeconfigs() {
    let ground = Ground::start(Layout::Upstream).await;
    let managed = ground::managed().await;
    ground
        .klusterlet(json!({"clusterName": "cluster1", "deployOption": {"mode": "Hosted"}}))
        .await;
    ground.says("ReadyToApply", "False", "KlusterletPrepareFailed").await;
    ground
        .external(&managed.kubeconfig("admin", &["system:masters"]).unwrap())
        .await;
    ground.says("ReadyToApply", "True", "KlusterletPrepared").await;
    ground.says("Applied", "True", "KlusterletApplied").await;
    let secrets: Api<Secret> = Api::namespaced(ground.site.client(), "k");
    for (name, account) in [
        ("external-managed-kubeconfig-registration", "k-registration-sa"),
        ("external-managed-kubeconfig-work", "k-work-sa"),
    ] {
        let secret = secrets.get(name).await.unwrap();
        let data = secret.data.as_ref().unwrap();
        assert_eq!(data["serviceaccount_name"].0, account.as_bytes());
        assert!(data.contains_key("token") && data.contains_key("expiration"));
    }
    let deployments: Api<Deployment> = Api::namespaced(ground.site.client(), "k");
    assert!(deployments.get_opt("k-registration-agent").await.unwrap().is_some());
    let roles: Api<ClusterRole> = Api::all(managed.client());
    let role = "open-cluster-management:k-work:execution";
    assert!(roles.get_opt(role).await.unwrap().is_some());
    let here: Api<ClusterRole> = Api::all(ground.site.client());
    assert!(here.get_opt(role).await.unwrap().is_none());
    ground.delete().await;
    assert!(roles.get_opt(role).await.unwrap().is_none());
    let namespaces: Api<Namespace> = Api::all(ground.site.client());
    wait::gone(&namespaces, "k").await;
    ground.refused_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_gone_hinders_no_removal() {
    let ground = Ground::start(Layout::Compact).await;
    let managed = ground::managed().await;
    ground
        .klusterlet(json!({"clusterName": "cluster1", "deployOption": {"mode": "SingletonHosted"}}))
        .await;
    ground
        .external(&managed.kubeconfig("admin", &["system:masters"]).unwrap())
        .await;
    ground.says("Applied", "True", "KlusterletApplied").await;
    managed.stop().await;
    let klusterlets: Api<Klusterlet> = Api::all(ground.site.client());
    klusterlets.delete("k", &DeleteParams::default()).await.unwrap();
    let since = "operator.open-cluster-management.io/managed-resources-eviction-timestamp";
    wait::until(&klusterlets, "k", "it is noted since when", |it| {
        it.is_some_and(|it| it.annotations().contains_key(since))
    })
    .await;
    patch(
        &klusterlets,
        "k",
        json!({"metadata": {"annotations": {since: "2020-01-01T00:00:00Z"}}}),
    )
    .await;
    wait::gone(&klusterlets, "k").await;
    ground.refused_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_of_add_ons_get_pull_secret_and_tls_profile() {
    let ground = Ground::start(Layout::Upstream).await;
    let labels = r#"labels: {addon.open-cluster-management.io/namespace: "true"}"#;
    let namespace = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: hello, {labels}}}}}");
    ground.site.apply(&namespace).await;
    let pull = "open-cluster-management-image-pull-credentials";
    let source = format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: {pull}, namespace: open-cluster-management}}, type: Opaque, data: {{a: YQ==}}}}"
    );
    ground.site.apply(&source).await;
    let profile = "{apiVersion: v1, kind: ConfigMap, metadata: {name: ocm-tls-profile, namespace: open-cluster-management}, data: {minTLSVersion: VersionTLS13}}";
    ground.site.apply(profile).await;
    let secrets: Api<Secret> = Api::namespaced(ground.site.client(), "hello");
    wait::until(&secrets, pull, "is copied", |it| it.is_some()).await;
    let profiles: Api<ConfigMap> = Api::namespaced(ground.site.client(), "hello");
    wait::until(&profiles, "ocm-tls-profile", "is copied", |it| it.is_some()).await;
    let here: Api<ConfigMap> = Api::namespaced(ground.site.client(), "open-cluster-management");
    here.delete("ocm-tls-profile", &DeleteParams::default()).await.unwrap();
    wait::gone(&profiles, "ocm-tls-profile").await;
    ground.refused_nothing();
}

/// What an agent has found on its cluster, other than it has to be.
const DIFFERENT: &str = "
{apiVersion: v1, kind: ServiceAccount, metadata: {name: k-work-sa, namespace: open-cluster-management-agent}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: 'open-cluster-management:k-work:agent'}, rules: []}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: 'open-cluster-management:management:k-work:agent', namespace: open-cluster-management-agent}, rules: []}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: klusterlet, namespace: open-cluster-management-agent}, spec: {podSelector: {}}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: drover-agent, namespace: open-cluster-management-agent}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: hello, labels: {addon.open-cluster-management.io/namespace: 'true'}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: open-cluster-management-image-pull-credentials, namespace: open-cluster-management}, data: {a: YQ==}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ocm-tls-profile, namespace: open-cluster-management}, data: {minTLSVersion: VersionTLS13}}
";

/// Verbs that are no requests: a role with more rights than one has oneself is asked for with them.
const SILENT: [&str; 2] = ["bind", "escalate"];

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_makes_use_of_every_right() {
    let ground = Ground::start(Layout::Upstream).await;
    ground.site.apply(DIFFERENT).await;
    let with = |mode: &str, policies: &str| {
        json!({
            "clusterName": "cluster1", "deployOption": {"mode": mode},
            "registrationConfiguration": {"featureGates": [{"feature": "NetworkPolicies", "mode": policies}]},
        })
    };
    ground.klusterlet(with("Default", "Enable")).await;
    ground.says("Applied", "True", "KlusterletApplied").await;
    ground.credential(&ground.hub_kubeconfig("admin", true)).await;
    ground
        .says("HubConnectionDegraded", "False", "HubConnectionFunctional")
        .await;
    let deployments: Api<Deployment> = Api::namespaced(ground.site.client(), AGENT);
    wait::until(&deployments, "k-work-agent", "works", |it| {
        it.is_some_and(|it| it.spec.replicas == Some(1))
    })
    .await;
    ground.make_ready(AGENT).await;
    ground.klusterlet(with("Singleton", "Disable")).await;
    wait::until(&deployments, "k-agent", "is made", |it| it.is_some()).await;
    ground.make_ready(AGENT).await;
    wait::gone(&deployments, "k-work-agent").await;
    let sources: Api<Secret> = Api::namespaced(ground.site.client(), "open-cluster-management");
    let pull = "open-cluster-management-image-pull-credentials";
    patch(&sources, pull, json!({"data": {"a": "Yg=="}})).await;
    let copies: Api<Secret> = Api::namespaced(ground.site.client(), "hello");
    let is_new = |it: Option<&Secret>| it.is_some_and(|it| it.data.as_ref().is_some_and(|it| it["a"].0 == b"b"));
    wait::until(&copies, pull, "follows", is_new).await;
    let profiles: Api<ConfigMap> = Api::namespaced(ground.site.client(), "open-cluster-management");
    patch(
        &profiles,
        "ocm-tls-profile",
        json!({"data": {"minTLSVersion": "VersionTLS12"}}),
    )
    .await;
    let copies: Api<ConfigMap> = Api::namespaced(ground.site.client(), "hello");
    let is_new = |it: Option<&ConfigMap>| {
        it.is_some_and(|it| it.data.as_ref().is_some_and(|it| it["minTLSVersion"] == "VersionTLS12"))
    };
    wait::until(&copies, "ocm-tls-profile", "follows", is_new).await;
    profiles
        .delete("ocm-tls-profile", &DeleteParams::default())
        .await
        .unwrap();
    wait::gone(&copies, "ocm-tls-profile").await;
    ground.work(&ground.now().await.uid().unwrap()).await;
    ground.delete().await;
    let namespaces: Api<Namespace> = Api::all(ground.site.client());
    wait::gone(&namespaces, AGENT).await;
    // The CRDs that were left behind are taken over again.
    ground.klusterlet(with("Default", "Disable")).await;
    ground.says("Applied", "True", "KlusterletApplied").await;
    let unused = ground.unused(&SILENT);
    assert!(unused.is_empty(), "rights that nobody needs: {unused:?}");
    ground.refused_nothing();
}
