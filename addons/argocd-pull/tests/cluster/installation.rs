//! Mode addon installs the operator and keeps it.

use addon_argocd_pull::cluster::{
    ArgoNamespaces, ArgoOperatorSettings, SKIP, installation::OperatorInstallation, kinds,
};
use ocm_addon_sdk::{
    k8s_openapi::{
        api::{
            apps::v1::Deployment,
            core::v1::{ConfigMap, Namespace, ServiceAccount},
            rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
        },
        apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    },
    kube::{ResourceExt, api::ListParams},
    reconcile::{Caches, Reconciler, install::install_crds},
};
use serde_json::json;
use testkit::wait;

use crate::world::{ARGO_CD, DEPLOYMENT, KEY, OPERATOR, World, settings};

fn image(it: &Deployment) -> Option<String> {
    let pod = it.spec.template.spec.as_ref()?;
    pod.containers.first()?.image.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_comes_with_its_kinds_namespaces_and_roles() {
    let world = World::start().await;
    world.run(&settings());
    let deployments = world.api::<Deployment>(OPERATOR);
    let deployment = wait::until(&deployments, DEPLOYMENT, "is there", |it| it.is_some())
        .await
        .unwrap();
    assert_eq!(image(&deployment).as_deref(), Some("example.com/operator:1"));
    let pod = deployment.spec.template.spec.unwrap_or_default();
    assert_eq!(pod.service_account_name.as_deref(), Some(DEPLOYMENT));
    let labelled = ListParams::default().labels("app.kubernetes.io/managed-by=argocd-agent-addon");
    let definitions = world.all::<CustomResourceDefinition>().list(&labelled).await.unwrap();
    assert_eq!(definitions.items.len(), 8);
    let (argo_cds, _) = world.cluster.resource("argoproj.io/v1beta1", "ArgoCD").await;
    assert_eq!(argo_cds.plural, "argocds");
    for name in [OPERATOR, ARGO_CD] {
        let namespace = world.all::<Namespace>().get(name).await.unwrap();
        let expected = json!({
            "addon.open-cluster-management.io/namespace": "true",
            "apps.open-cluster-management.io/argocd-addon": "true",
            "app.kubernetes.io/managed-by": "argocd-agent-addon",
            "kubernetes.io/metadata.name": name,
        });
        assert_eq!(json!(namespace.labels()), expected);
    }
    let accounts = world.api::<ServiceAccount>(OPERATOR).list(&labelled).await.unwrap();
    assert_eq!(accounts.items.len(), 1);
    assert_eq!(
        world.api::<Role>(OPERATOR).list(&labelled).await.unwrap().items.len(),
        1
    );
    assert_eq!(
        world
            .api::<RoleBinding>(OPERATOR)
            .list(&labelled)
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    assert_eq!(world.all::<ClusterRole>().list(&labelled).await.unwrap().items.len(), 2);
    let bindings = world.all::<ClusterRoleBinding>().list(&labelled).await.unwrap().items;
    assert_eq!(bindings.len(), 1);
    let subject = bindings[0].subjects.iter().flatten().next().unwrap();
    assert_eq!(
        (subject.name.as_str(), subject.namespace.as_deref()),
        (DEPLOYMENT, Some(OPERATOR))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_installed_is_not_written_again() {
    let world = World::start().await;
    let first = world.installs(&settings()).await;
    assert_eq!(first.matches("create CustomResourceDefinition").count(), 8, "{first}");
    assert_eq!(first.matches("create Namespace").count(), 2, "{first}");
    assert_eq!(world.installs(&settings()).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_looked_at_after_the_interval() {
    let world = World::start().await;
    let caches = Caches::new(world.client(), world.stop.clone());
    let installation = OperatorInstallation::new(&world.client(), &caches, &settings());
    caches.synced().await;
    let seen = installation.observe(KEY).await.unwrap();
    assert_eq!(OperatorInstallation::plan(&seen).again, Some(settings().sync_interval));
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_and_image_are_those_that_are_said() {
    let world = World::start().await;
    let elsewhere = ArgoOperatorSettings {
        namespaces: ArgoNamespaces {
            operator: "gitops".to_owned(),
            argo_cd: "gitops".to_owned(),
        },
        operator_image: "mirror.example.com/operator:2".to_owned(),
        ..settings()
    };
    let written = world.installs(&elsewhere).await;
    assert_eq!(written.matches("create Namespace").count(), 1, "{written}");
    let deployment = world.api::<Deployment>("gitops").get(DEPLOYMENT).await.unwrap();
    assert_eq!(image(&deployment).as_deref(), Some("mirror.example.com/operator:2"));
    assert!(world.all::<Namespace>().get_opt(OPERATOR).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_that_are_there_stay_as_they_are() {
    let world = World::start().await;
    let mut theirs = kinds::definitions().remove(4);
    theirs["metadata"]["labels"] = json!({"team": "gitops"});
    theirs["spec"]["versions"].as_array_mut().unwrap().remove(0);
    install_crds(&world.client(), vec![theirs]).await.unwrap();
    let definitions = world.all::<CustomResourceDefinition>();
    let before = definitions.get("argocds.argoproj.io").await.unwrap();
    let written = world.installs(&settings()).await;
    assert_eq!(
        written.matches("create CustomResourceDefinition").count(),
        7,
        "{written}"
    );
    assert_eq!(definitions.get("argocds.argoproj.io").await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_changed_or_deleted_comes_back() {
    let world = World::start().await;
    world.installs(&settings()).await;
    world.run(&settings());
    let deployments = world.api::<Deployment>(OPERATOR);
    let container = json!({"name": "manager", "image": "example.com/other"});
    let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    world.patch(&deployments, DEPLOYMENT, patch).await;
    let is_back = |it: Option<&Deployment>| it.and_then(image).as_deref() == Some("example.com/operator:1");
    wait::until(&deployments, DEPLOYMENT, "has its image", is_back).await;
    let accounts = world.api::<ServiceAccount>(OPERATOR);
    let before = accounts.get(DEPLOYMENT).await.unwrap().uid();
    world.delete(&accounts, DEPLOYMENT).await;
    let is_new = |it: Option<&ServiceAccount>| it.is_some_and(|it| it.uid() != before);
    wait::until(&accounts, DEPLOYMENT, "is there again", is_new).await;
    let namespaces = world.all::<Namespace>();
    let label = "apps.open-cluster-management.io/argocd-addon";
    world
        .patch(&namespaces, ARGO_CD, json!({"metadata": {"labels": {label: null}}}))
        .await;
    let is_labelled = |it: Option<&Namespace>| it.is_some_and(|it| it.labels().contains_key(label));
    wait::until(&namespaces, ARGO_CD, "has its label", is_labelled).await;
    let definitions = world.all::<CustomResourceDefinition>();
    let before = definitions.get("argocdexports.argoproj.io").await.unwrap().uid();
    world.delete(&definitions, "argocdexports.argoproj.io").await;
    let is_new = |it: Option<&CustomResourceDefinition>| it.is_some_and(|it| it.uid() != before);
    wait::until(&definitions, "argocdexports.argoproj.io", "is there again", is_new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_annotated_as_skipped_is_left_alone() {
    let world = World::start().await;
    let skipped = json!({SKIP: "true"});
    for name in [OPERATOR, ARGO_CD] {
        world.namespace(name).await;
    }
    let namespaces = world.all::<Namespace>();
    world
        .patch(&namespaces, ARGO_CD, json!({"metadata": {"annotations": skipped}}))
        .await;
    let labels = json!({"a": "b"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "mine"}]}});
    let theirs = json!({
        "metadata": {"name": DEPLOYMENT, "namespace": OPERATOR, "annotations": skipped},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    });
    let deployments = world.api::<Deployment>(OPERATOR);
    world.create(&deployments, theirs).await;
    // Any other value means nothing.
    let role = json!({"metadata": {"name": "argocd-operator-manager-role", "annotations": {SKIP: "false"}}});
    world.create(&world.all::<ClusterRole>(), role).await;
    let written = world.installs(&settings()).await;
    assert!(written.contains("patch Namespace argocd-operator-system"), "{written}");
    assert!(
        written.contains("patch ClusterRole argocd-operator-manager-role"),
        "{written}"
    );
    for skipped in ["Namespace argocd", "Deployment"] {
        let mut steps = written.lines().filter(|it| it.starts_with("cluster: "));
        assert!(
            !steps.any(|it| it.ends_with(skipped) || it.contains(&format!(" {skipped} "))),
            "{written}"
        );
    }
    assert_eq!(deployments.get(DEPLOYMENT).await.unwrap().labels().len(), 0);
    assert!(
        !namespaces
            .get(ARGO_CD)
            .await
            .unwrap()
            .labels()
            .contains_key("app.kubernetes.io/managed-by")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_done_while_the_marker_says_paused() {
    let world = World::start().await;
    world.namespace(OPERATOR).await;
    world.pause().await;
    world.sign("1").await;
    assert_eq!(world.installs(&settings()).await, "");
    assert_eq!(world.certifies(&settings()).await, "");
    world.run(&settings());
    let markers = world.api::<ConfigMap>(OPERATOR);
    world
        .patch(&markers, crate::world::MARKER, json!({"data": {"paused": "false"}}))
        .await;
    wait::until(&world.api::<Deployment>(OPERATOR), DEPLOYMENT, "is there", |it| {
        it.is_some()
    })
    .await;
}
