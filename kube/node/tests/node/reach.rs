//! What is run beside containers, joined to them, and connected with their ports.

use crate::world::{World, phase, until_dead};
use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube_node::{PodReach, ProcessRequest, ReachError};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn running(world: &World, name: &str, container: Value) {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]},
    }))
    .unwrap();
    world.pods().create(&PostParams::default(), &pod).await.unwrap();
    world.until_pod(name, "running", |it| phase(it) == "Running").await;
}

fn sleeper() -> Value {
    json!({
        "name": "main", "image": "sh", "command": ["sleep", "1000"],
        "env": [{"name": "COLOR", "value": "red"}], "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    })
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|it| (*it).to_owned()).collect()
}

async fn text(stream: Option<BoxStream<'static, bytes::Bytes>>) -> String {
    let pieces: Vec<u8> = stream.unwrap().map(|it| it.to_vec()).concat().await;
    String::from_utf8(pieces).unwrap()
}

#[tokio::test]
async fn exec_has_the_environment_and_volumes_of_its_container() {
    let world = World::new().await;
    running(&world, "a", sleeper()).await;
    let request = ProcessRequest {
        stdin: true,
        ..ProcessRequest::default()
    };
    let script = words(&[
        "sh",
        "-c",
        "cat > /data/file; echo $COLOR; cat /data/file; echo no >&2; exit 3",
    ]);
    let start = world.node.reach().exec("default", "a", &request, &script).unwrap();
    let mut process = start.await.unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(b"typed\n").await.unwrap();
    drop(stdin);
    let (out, err, code) = tokio::join!(text(process.stdout), text(process.stderr), process.end);
    assert_eq!((out.as_str(), err.as_str(), code), ("red\ntyped\n", "no\n", Ok(3)));
    world.stop().await;
}

#[tokio::test]
async fn exec_with_a_terminal_has_one_of_the_asked_size() {
    let world = World::new().await;
    running(&world, "a", sleeper()).await;
    let request = ProcessRequest {
        stdin: true,
        tty: true,
        ..ProcessRequest::default()
    };
    let script = words(&["sh", "-c", "read go; stty size; tty > /dev/null && echo terminal"]);
    let start = world.node.reach().exec("default", "a", &request, &script).unwrap();
    let mut process = start.await.unwrap();
    process.resize.as_ref().unwrap()(90, 30);
    process.stdin.as_mut().unwrap().write_all(b"go\n").await.unwrap();
    let (out, code) = tokio::join!(text(process.stdout), process.end);
    assert_eq!((out.as_str(), code), ("go\r\n30 90\r\nterminal\r\n", Ok(0)));
    world.stop().await;
}

#[tokio::test]
async fn exec_ends_with_its_client_and_with_its_container() {
    let world = World::new().await;
    running(&world, "a", sleeper()).await;
    let reach = world.node.reach().clone();
    let begin = async || {
        let script = words(&["sh", "-c", "echo $$; exec sleep 1000"]);
        let start = reach.exec("default", "a", &ProcessRequest::default(), &script).unwrap();
        let mut process = start.await.unwrap();
        let pid = process.stdout.as_mut().unwrap().next().await.unwrap();
        (process, String::from_utf8(pid.to_vec()).unwrap().trim().to_owned())
    };
    let (process, pid) = begin().await;
    drop(process);
    until_dead(&pid).await;
    let (process, pid) = begin().await;
    world.pods().delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(process.end.await, Ok(137));
    until_dead(&pid).await;
    world.stop().await;
}

#[tokio::test]
async fn exec_into_a_confined_image_is_no_shell() {
    let world = World::new().await;
    running(
        &world,
        "a",
        json!({"name": "main", "image": "sh", "command": ["sleep", "1000"]}),
    )
    .await;
    let reach = world.node.reach();
    let own = json!({"name": "main", "image": "confined", "command": ["hello"]});
    running(&world, "own", own).await;
    let refused = |all: &[&str]| {
        reach
            .exec("default", "own", &ProcessRequest::default(), &words(all))
            .err()
    };
    for all in [&["sh", "-c", "id"][..], &["/bin/sh"], &["env", "hello"]] {
        let Some(ReachError::Refused(text)) = refused(all) else {
            panic!("{all:?} was not refused");
        };
        let wanted = format!(
            "the image of container \"main\" stands for hello only, and exec asks for {:?}",
            all[0]
        );
        assert_eq!(text, wanted);
    }
    let start = reach.exec(
        "default",
        "own",
        &ProcessRequest::default(),
        &words(&["/bin/hello", "you"]),
    );
    let mut process = start.unwrap().await.unwrap();
    let first = process.stdout.as_mut().unwrap().next().await.unwrap();
    assert!(first.starts_with(b"/bin/hello you"), "{first:?}");
    world.stop().await;
}

#[tokio::test]
async fn attach_shows_output_and_types_into_the_container() {
    let world = World::new().await;
    let container = json!({
        "name": "main", "image": "sh", "stdin": true, "stdinOnce": true,
        "command": ["sh", "-c", "while read line; do echo said $line; done; exec sleep 1000"],
    });
    running(&world, "a", container).await;
    let request = ProcessRequest {
        stdin: true,
        ..ProcessRequest::default()
    };
    let start = world.node.reach().attach("default", "a", &request).unwrap();
    let mut process = start.await.unwrap();
    process.stdin.as_mut().unwrap().write_all(b"hello\n").await.unwrap();
    let first = process.stdout.as_mut().unwrap().next().await.unwrap();
    assert_eq!(first, "said hello\n");
    world.pods().delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(process.end.await, Ok(0));
    assert_eq!(text(process.stdout).await, "");
    world.stop().await;
}

#[tokio::test]
async fn a_port_of_a_running_pod_is_reached_at_its_address() {
    let world = World::new().await;
    running(&world, "a", sleeper()).await;
    let address = world.node.reach().address("default", "a").unwrap();
    let listener = tokio::net::TcpListener::bind((address, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut stream = PodReach::connect(address, port).await.unwrap();
    let (mut other, _) = listener.accept().await.unwrap();
    other.write_all(b"hello").await.unwrap();
    drop((other, listener));
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "hello");
    let error = PodReach::connect(address, port).await.unwrap_err();
    assert!(
        error.to_string().starts_with(&format!("dial tcp {address}:{port}: ")),
        "{error}"
    );
    world.pods().delete("a", &DeleteParams::default()).await.unwrap();
    testkit::wait::until(&world.pods(), "a", "gone", |it| it.is_none()).await;
    world.node.reach().address("default", "a").unwrap_err();
    let none = world
        .node
        .reach()
        .exec("default", "a", &ProcessRequest::default(), &words(&["sh"]));
    assert_eq!(none.err(), Some(ReachError::NoPod("a".into())));
    world.stop().await;
}
