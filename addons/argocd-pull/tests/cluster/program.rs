//! The program, with its command line.

use std::{ffi::OsString, process::ExitCode};

use addon_argocd_pull::run;
use ocm_addon_sdk::{
    k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap},
    program::Place,
};
use testkit::wait;

use crate::world::{DEPLOYMENT, MARKER, OPERATOR, World};

/// Runs it beside the test, which it may outlive: it ends by a signal.
fn begin(words: Vec<OsString>) -> tokio::task::JoinHandle<ExitCode> {
    let (told, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // Nobody may be there to hear of it.
        let _ = told.send(run("manager", words, &Place::default()));
    });
    tokio::spawn(async move { end.await.unwrap() })
}

#[tokio::test(flavor = "multi_thread")]
async fn its_modes_install_the_operator_and_take_it_away() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let kubeconfig = world.cluster.kubeconfig("somebody", &["system:masters"]).unwrap();
    std::fs::write(&file, kubeconfig).unwrap();
    let words = |mode: &str| {
        let mut words: Vec<OsString> = vec![format!("--mode={mode}").into(), "--kubeconfig".into()];
        words.push(file.clone().into());
        words
    };
    let mut addon = words("addon");
    addon.push("--sync-interval=3600".into());
    let running = begin(addon);
    let deployments = world.api::<Deployment>(OPERATOR);
    let there = wait::until(&deployments, DEPLOYMENT, "is there", |it| it.is_some())
        .await
        .unwrap();
    let image = there.spec.template.spec.unwrap_or_default().containers.remove(0).image;
    assert_eq!(image.as_deref(), Some("quay.io/argoprojlabs/argocd-operator:v0.18.0"));
    assert_eq!(begin(words("cleanup")).await.unwrap(), ExitCode::SUCCESS);
    wait::gone(&deployments, DEPLOYMENT).await;
    assert!(
        world
            .api::<ConfigMap>(OPERATOR)
            .get_opt(MARKER)
            .await
            .unwrap()
            .is_some()
    );
    assert!(!running.is_finished());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_fails_where_it_cannot_take_the_operator_away() {
    let world = World::start().await;
    world.namespace(OPERATOR).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    std::fs::write(&file, world.cluster.kubeconfig("nobody", &[]).unwrap()).unwrap();
    let words = vec!["--mode=cleanup".into(), "--kubeconfig".into(), file.clone().into()];
    assert_eq!(begin(words).await.unwrap(), ExitCode::FAILURE);
    let words = vec!["--mode=other".into(), "--kubeconfig".into(), file.into()];
    assert_eq!(begin(words).await.unwrap(), ExitCode::FAILURE);
}
