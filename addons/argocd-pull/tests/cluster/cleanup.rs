//! Mode cleanup takes the operator away.

use std::time::Duration;

use addon_argocd_pull::cluster::cleanup::{OperatorCleanup, clean_up};
use ocm_addon_sdk::{
    k8s_openapi::{
        api::{
            apps::v1::Deployment,
            core::v1::{ConfigMap, Namespace, Secret, Service},
            rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role},
        },
        apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    },
    kube::{
        Api, Client, ResourceExt,
        api::ListParams,
        core::DynamicObject,
        runtime::{conditions::is_crd_established, wait::await_condition},
    },
};
use serde_json::{Value, json};
use testkit::wait;

use crate::world::{ARGO_CD, DEPLOYMENT, MARKER, OPERATOR, World, settings};

const LABEL: &str = "app.kubernetes.io/managed-by=argocd-agent-addon";

fn cleanup() -> OperatorCleanup {
    OperatorCleanup::new(settings().namespaces, Duration::ZERO)
}

fn labelled(namespace: &str, name: &str) -> Value {
    let labels = json!({"app.kubernetes.io/managed-by": "argocd-agent-addon"});
    json!({"metadata": {"name": name, "namespace": namespace, "labels": labels}})
}

impl World {
    /// With the operator installed, and an ArgoCD with these finalizers.
    async fn with_argo_cd(finalizers: Value) -> (Self, Api<DynamicObject>) {
        let world = Self::start().await;
        world.installs(&settings()).await;
        let served = await_condition(
            world.all::<CustomResourceDefinition>(),
            "argocds.argoproj.io",
            is_crd_established(),
        );
        served.await.unwrap();
        let api = world.cluster.api("argoproj.io/v1beta1", "ArgoCD", ARGO_CD).await;
        let argo_cd = json!({
            "apiVersion": "argoproj.io/v1beta1", "kind": "ArgoCD",
            "metadata": {"name": "argocd", "namespace": ARGO_CD, "finalizers": finalizers},
        });
        world.create(&api, argo_cd).await;
        (world, api)
    }

    /// How many labelled objects are left.
    async fn left(&self) -> usize {
        let params = ListParams::default().labels(LABEL);
        let mut left = self
            .api::<Deployment>(OPERATOR)
            .list(&params)
            .await
            .unwrap()
            .items
            .len();
        left += self.api::<Role>(OPERATOR).list(&params).await.unwrap().items.len();
        left += self.api::<Service>(OPERATOR).list(&params).await.unwrap().items.len();
        left += self.api::<ConfigMap>(OPERATOR).list(&params).await.unwrap().items.len();
        left += self.all::<ClusterRole>().list(&params).await.unwrap().items.len();
        left + self
            .all::<ClusterRoleBinding>()
            .list(&params)
            .await
            .unwrap()
            .items
            .len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_goes_and_does_not_come_back() {
    let (world, argo_cds) = World::with_argo_cd(json!([])).await;
    world.sign("1").await;
    world.run(&settings());
    let secrets = world.api::<Secret>(ARGO_CD);
    let copy = addon_argocd_pull::cluster::certificate::COPY;
    wait::until(&secrets, copy, "is there", |it| it.is_some()).await;
    // What is not labelled is not ours.
    let config_maps = world.api::<ConfigMap>(OPERATOR);
    let theirs = json!({"metadata": {"name": "theirs", "namespace": OPERATOR}});
    world.create(&config_maps, theirs).await;
    world.create(&config_maps, labelled(OPERATOR, "ours")).await;
    let mut service = labelled(OPERATOR, "ours");
    service["spec"] = json!({"ports": [{"port": 80}]});
    world.create(&world.api::<Service>(OPERATOR), service).await;
    clean_up(&world.client(), &cleanup()).await.unwrap();
    assert!(argo_cds.get_opt("argocd").await.unwrap().is_none());
    assert_eq!(world.left().await, 0);
    let marker = config_maps.get(MARKER).await.unwrap();
    let data = marker.data.unwrap_or_default();
    assert_eq!((data["paused"].as_str(), data["reason"].as_str()), ("true", "cleanup"));
    assert!(data["timestamp"].ends_with('Z'));
    assert_eq!(marker.metadata.labels.unwrap_or_default()["app"], "argocd-agent-addon");
    // Namespaces, definitions, and what is not the operator stay.
    assert!(config_maps.get_opt("theirs").await.unwrap().is_some());
    assert!(secrets.get_opt(copy).await.unwrap().is_some());
    assert!(world.all::<Namespace>().get_opt(ARGO_CD).await.unwrap().is_some());
    let definitions = world
        .all::<CustomResourceDefinition>()
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(definitions.items.len(), 8);
    // Mode addon runs all the time, and a new one has nothing to do, either.
    assert_eq!(world.installs(&settings()).await, "");
    assert_eq!(world.left().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_stays_until_the_argo_cd_is_gone() {
    let (world, argo_cds) = World::with_argo_cd(json!(["argoproj.io/finalizer"])).await;
    let client = world.client();
    let running = tokio::spawn(async move { clean_up(&client, &cleanup()).await });
    let is_leaving = |it: Option<&DynamicObject>| it.is_some_and(|it| it.metadata.deletion_timestamp.is_some());
    wait::until_with(&argo_cds, "argocd", "is being deleted", is_leaving).await;
    assert!(
        world
            .api::<Deployment>(OPERATOR)
            .get_opt(DEPLOYMENT)
            .await
            .unwrap()
            .is_some()
    );
    world
        .patch(&argo_cds, "argocd", json!({"metadata": {"finalizers": null}}))
        .await;
    running.await.unwrap().unwrap();
    assert_eq!(world.left().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_argo_cd_that_stays_is_waited_for_in_vain() {
    let (world, argo_cds) = World::with_argo_cd(json!(["argoproj.io/finalizer"])).await;
    let impatient = OperatorCleanup {
        argo_cd_max: Duration::from_millis(50),
        ..cleanup()
    };
    clean_up(&world.client(), &impatient).await.unwrap();
    assert_eq!(world.left().await, 0);
    // A verification says so.
    let verifying = OperatorCleanup {
        verified_for: Duration::from_millis(20),
        verified_every: Duration::from_millis(10),
        ..impatient
    };
    let error = clean_up(&world.client(), &verifying).await.unwrap_err().to_string();
    assert_eq!(error, "still there: ArgoCD argocd/argocd; see who creates it");
    assert!(argo_cds.get_opt("argocd").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_back_is_deleted_again() {
    let world = World::start().await;
    world.installs(&settings()).await;
    let deployments = world.api::<Deployment>(OPERATOR);
    let again = deployments.get(DEPLOYMENT).await.unwrap();
    let client = world.client();
    let verifying = OperatorCleanup {
        verified_for: Duration::from_secs(3600),
        verified_every: Duration::from_millis(20),
        ..cleanup()
    };
    let running = tokio::spawn(async move { clean_up(&client, &verifying).await });
    wait::gone(&deployments, DEPLOYMENT).await;
    let spec = json!(again.spec);
    let again =
        json!({"metadata": {"name": DEPLOYMENT, "namespace": OPERATOR, "labels": again.labels()}, "spec": spec});
    let created = world.create(&deployments, again).await;
    let is_other = |it: Option<&Deployment>| it.is_none_or(|it| it.uid() != created.uid());
    wait::until(&deployments, DEPLOYMENT, "is gone again", is_other).await;
    assert!(!running.is_finished());
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_cannot_be_deleted_is_told_at_the_end() {
    let (world, argo_cds) = World::with_argo_cd(json!([])).await;
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources.iter().map(|it| (*it).to_owned()).collect()),
        verbs: verbs.iter().map(|it| (*it).to_owned()).collect(),
        ..PolicyRule::default()
    };
    let rbac = "rbac.authorization.k8s.io";
    let mut rules = vec![
        rule("argoproj.io", &["argocds"], &["get", "list", "watch", "delete"]),
        rule(
            "",
            &["services", "serviceaccounts", "configmaps"],
            &["get", "list", "delete"],
        ),
        rule(
            rbac,
            &["roles", "rolebindings", "clusterrolebindings"],
            &["get", "list", "delete"],
        ),
        rule(rbac, &["clusterroles"], &["list"]),
    ];
    let limited = |user| Client::new(world.cluster.server.service(user), "default");
    // Neither paused, nor all deleted: two failures, and the rest is done.
    let user = world.cluster.user_with((ARGO_CD, "limited"), "limited", &rules).await;
    let error = clean_up(&limited(user), &cleanup()).await.unwrap_err().to_string();
    for part in [
        "could not write ConfigMap argocd-operator-system/argocd-agent-addon-pause",
        "cannot create resource \"configmaps\"",
        "could not delete all of the operator: could not list deployments",
        "cannot delete resource \"clusterroles\"",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    // Each is said once, in a sentence.
    assert!(!error.contains("ApiError"), "{error}");
    assert!(argo_cds.get_opt("argocd").await.unwrap().is_none());
    let params = ListParams::default().labels(LABEL);
    assert_eq!(
        world
            .all::<ClusterRoleBinding>()
            .list(&params)
            .await
            .unwrap()
            .items
            .len(),
        0
    );
    assert_eq!(world.all::<ClusterRole>().list(&params).await.unwrap().items.len(), 2);
    // Where even the ArgoCD cannot be deleted the operator stays.
    rules.remove(0);
    let user = world.cluster.user_with((ARGO_CD, "other"), "other", &rules).await;
    let error = clean_up(&limited(user), &cleanup()).await.unwrap_err().to_string();
    assert!(
        error.contains("the operator stays: could not look for the ArgoCD"),
        "{error}"
    );
    assert!(
        world
            .api::<Deployment>(OPERATOR)
            .get_opt(DEPLOYMENT)
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_the_operator_is_clean() {
    let world = World::start().await;
    clean_up(&world.client(), &cleanup()).await.unwrap();
    assert!(world.all::<Namespace>().get_opt(OPERATOR).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_marker_that_says_nothing_is_made_to_pause() {
    let world = World::start().await;
    world.namespace(OPERATOR).await;
    let config_maps = world.api::<ConfigMap>(OPERATOR);
    let marker = json!({"metadata": {"name": MARKER, "namespace": OPERATOR}, "data": {"paused": "false"}});
    world.create(&config_maps, marker).await;
    clean_up(&world.client(), &cleanup()).await.unwrap();
    let data = config_maps.get(MARKER).await.unwrap().data.unwrap_or_default();
    assert_eq!((data["paused"].as_str(), data["reason"].as_str()), ("true", "cleanup"));
    // An administrator's is left as it is.
    let reason = json!({"data": {"reason": "holidays"}});
    world.patch(&config_maps, MARKER, reason).await;
    clean_up(&world.client(), &cleanup()).await.unwrap();
    let data = config_maps.get(MARKER).await.unwrap().data.unwrap_or_default();
    assert_eq!(data["reason"], "holidays");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_marker_goes_with_the_add_on() {
    let world = World::start().await;
    world.namespace(OPERATOR).await;
    let bindings = world.all::<ClusterRoleBinding>();
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
    let of_add_on = json!({"metadata": {"name": "argocd-agent-addon"}, "roleRef": role});
    world.create(&bindings, of_add_on).await;
    clean_up(&world.client(), &cleanup()).await.unwrap();
    let config_maps = world.api::<ConfigMap>(OPERATOR);
    assert!(config_maps.get_opt(MARKER).await.unwrap().is_some());
    // The hub takes the add-on away.
    world.delete(&bindings, "argocd-agent-addon").await;
    wait::gone(&config_maps, MARKER).await;
}
