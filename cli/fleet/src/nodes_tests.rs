//! Into pods as Rust's client reaches them: over TCP and TLS, with both versions of its protocol.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    api::{AttachParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::embedded::Settings;

/// A cluster with a node, its administrator over TCP, and a pod that sleeps.
async fn cluster(dir: &Path, stop: &CancellationToken) -> (Embedded, Node, Api<Pod>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = Embedded::start("one", None, listener, Settings::default())
        .await
        .unwrap();
    let images = images(&["sh=*".to_owned()], &[]).unwrap();
    let node = start(&cluster, dir.to_owned(), images, stop.clone()).await.unwrap();
    let file = dir.join("kubeconfig");
    cluster
        .keep_admin_kubeconfig(
            vec![file.clone()],
            kube_api::clock::Turned::at(jiff::Timestamp::now()).clock(),
        )
        .unwrap();
    let kubeconfig = Kubeconfig::read_from(file).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "main", "image": "sh", "command": ["sleep", "1000"]}]},
    }));
    pods.create(&PostParams::default(), &pod.unwrap()).await.unwrap();
    testkit::wait::until(&pods, "a", "running", |it| {
        it.and_then(|it| it.status.as_ref()?.phase.as_deref()) == Some("Running")
    })
    .await;
    (cluster, node, pods)
}

#[tokio::test]
async fn a_rust_client_runs_commands_and_forwards_ports() {
    let dir = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let (cluster, node, pods) = cluster(dir.path(), &stop).await;
    let params = AttachParams::default().stdin(true).stderr(false);
    let mut process = pods.exec("a", ["sh", "-c", "cat; exit 3"], &params).await.unwrap();
    let mut stdin = process.stdin().unwrap();
    stdin.write_all(b"typed").await.unwrap();
    stdin.shutdown().await.unwrap();
    drop(stdin);
    let mut heard = String::new();
    let end = process.take_status().unwrap();
    process.stdout().unwrap().read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "typed");
    assert_eq!(end.await.unwrap().reason.as_deref(), Some("NonZeroExitCode"));

    let pod = pods.get("a").await.unwrap();
    let address = pod.status.unwrap().pod_ip.unwrap();
    let listener = TcpListener::bind((address.as_str(), 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut forwarder = pods.portforward("a", &[port]).await.unwrap();
    let mut stream = forwarder.take_stream(port).unwrap();
    stream.write_all(b"ping").await.unwrap();
    let (mut other, _) = listener.accept().await.unwrap();
    let mut said = [0; 4];
    other.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"ping");
    other.write_all(b"pong").await.unwrap();
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"pong");
    stop.cancel();
    node.finished().await;
    cluster.stop().await;
}
