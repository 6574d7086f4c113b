//! The agent's certificate.

use addon_argocd_pull::cluster::certificate::{AGENT, COPY, DIGEST, RESTARTED_AT, SOURCE};
use ocm_addon_sdk::{
    k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret},
    kube::ResourceExt,
};
use serde_json::{Value, json};
use testkit::wait;

use crate::world::{ARGO_CD, World, settings};

fn text(secret: &Secret, key: &str) -> Option<String> {
    let value = secret.data.as_ref()?.get(key)?;
    String::from_utf8(value.0.clone()).ok()
}

fn annotation(it: &Deployment, name: &str) -> Option<String> {
    let metadata = it.spec.template.metadata.as_ref()?;
    metadata.annotations.as_ref()?.get(name).cloned()
}

/// What the operator makes of an ArgoCD.
fn agent() -> Value {
    let labels = json!({"a": "b"});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "agent"}]}});
    json!({
        "metadata": {"name": AGENT, "namespace": ARGO_CD},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_gets_the_certificate_and_starts_anew() {
    let world = World::start().await;
    world.run(&settings());
    world.sign("1").await;
    let copies = world.api::<Secret>(ARGO_CD);
    let copy = wait::until(&copies, COPY, "is there", |it| it.is_some()).await.unwrap();
    assert_eq!(copy.type_.as_deref(), Some("kubernetes.io/tls"));
    assert_eq!(
        json!(copy.labels()),
        json!({"app.kubernetes.io/managed-by": "argocd-agent-addon"})
    );
    assert_eq!(text(&copy, "tls.crt").as_deref(), Some("certificate 1"));
    assert_eq!(text(&copy, "tls.key").as_deref(), Some("key 1"));
    assert_eq!(copy.data.map(|it| it.len()), Some(2));
    // One that comes later learns which certificate it has started with.
    let agents = world.api::<Deployment>(ARGO_CD);
    world.create(&agents, agent()).await;
    let has_digest = |it: Option<&Deployment>| it.is_some_and(|it| annotation(it, DIGEST).is_some());
    let first = wait::until(&agents, AGENT, "has a digest", has_digest).await.unwrap();
    let at = annotation(&first, RESTARTED_AT).unwrap();
    assert!(at.len() == 20 && at.ends_with('Z'), "{at}");
    world.sign("2").await;
    let before = annotation(&first, DIGEST);
    let is_new = |it: Option<&Deployment>| it.is_some_and(|it| annotation(it, DIGEST) != before);
    wait::until(&agents, AGENT, "has another digest", is_new).await;
    let copy = copies.get(COPY).await.unwrap();
    assert_eq!(text(&copy, "tls.crt").as_deref(), Some("certificate 2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_the_certificate_is_left_running() {
    let world = World::start().await;
    world.namespace(ARGO_CD).await;
    world.sign("1").await;
    world.create(&world.api::<Deployment>(ARGO_CD), agent()).await;
    let written = world.certifies(&settings()).await;
    let expected = [
        format!("create Secret {ARGO_CD}/{COPY}"),
        format!("patch Deployment {ARGO_CD}/{AGENT}"),
    ];
    assert!(expected.iter().all(|it| written.contains(it)), "{written}");
    assert_eq!(world.certifies(&settings()).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_was_changed_is_put_right() {
    let world = World::start().await;
    world.namespace(ARGO_CD).await;
    let copies = world.api::<Secret>(ARGO_CD);
    let theirs = json!({
        "metadata": {"name": COPY, "namespace": ARGO_CD, "labels": {"x": "y"}},
        "type": "Opaque", "stringData": {"tls.crt": "theirs", "more": "of it"},
    });
    world.create(&copies, theirs).await;
    world.sign("1").await;
    world.certifies(&settings()).await;
    let copy = copies.get(COPY).await.unwrap();
    assert_eq!(text(&copy, "tls.crt").as_deref(), Some("certificate 1"));
    assert_eq!((text(&copy, "more"), copy.labels().len()), (None, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_whole_certificate_nothing_is_written() {
    let world = World::start().await;
    world.namespace(ARGO_CD).await;
    assert_eq!(world.certifies(&settings()).await, "");
    let source = world.sign("1").await;
    let secrets = world.api::<Secret>(&source.namespace().unwrap());
    world.patch(&secrets, SOURCE, json!({"data": {"tls.key": null}})).await;
    assert_eq!(world.certifies(&settings()).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_certificate_waits_for_the_namespace() {
    let world = World::start().await;
    world.sign("1").await;
    assert_eq!(world.certifies(&settings()).await, "");
}
