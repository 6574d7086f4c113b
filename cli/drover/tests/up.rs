//! `drover up` as it is typed: what it tells, what is there then, how it stops and what it finds when it starts again.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::wait::await_condition,
};
use serde_json::Value;

/// A running `drover up`; killed when dropped.
struct Up {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    /// What the last line said.
    ready: Value,
}

impl Up {
    /// Starts it and waits for its last line. Returns the steps as `subject state`, too.
    fn start(home: &Path, arguments: &[&str]) -> (Self, Vec<String>) {
        let mut child = drover(home)
            .args(["up", "-o", "json"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut steps = Vec::new();
        let ready = loop {
            let line = lines.next().expect("up ends only after its last line").expect("text");
            let line: Value = serde_json::from_str(&line).expect("each line is JSON");
            if line["ready"] == true {
                break line;
            }
            assert!(line["milliseconds"].is_number(), "a step says how long it took: {line}");
            steps.push(format!(
                "{} {}",
                line["subject"].as_str().unwrap_or(""),
                line["step"].as_str().unwrap_or("")
            ));
        };
        (Self { child, lines, ready }, steps)
    }

    fn kubeconfig(&self, server: &str) -> PathBuf {
        self.ready["servers"][server]["kubeconfig"]
            .as_str()
            .expect("a path")
            .into()
    }

    fn url(&self, server: &str) -> String {
        self.ready["servers"][server]["url"].as_str().expect("a URL").to_owned()
    }

    /// Sends a signal and waits for the end; returns the exit code.
    fn end(mut self, signal: &str) -> Option<i32> {
        let sent = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(sent.success());
        let code = self.child.wait().expect("it ends").code();
        assert!(self.lines.next().is_none(), "nothing is said after the last line");
        code
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn drover(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
    command
        .current_dir(home)
        .env_clear()
        .env("HOME", home)
        .stderr(Stdio::inherit());
    command
}

fn run(home: &Path, arguments: &[&str]) -> Output {
    drover(home)
        .args(arguments)
        .stderr(Stdio::piped())
        .output()
        .expect("the binary runs")
}

fn printed(home: &Path, arguments: &[&str]) -> String {
    let output = run(home, arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("usable");
    Client::try_from(config).expect("a client")
}

fn works(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("work.open-cluster-management.io", "v1", "ManifestWork");
    Api::namespaced_with(client, "cluster1", &ApiResource::from_gvk(&kind))
}

fn config_maps(client: Client) -> Api<DynamicObject> {
    Api::namespaced_with(
        client,
        "default",
        &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap")),
    )
}

fn is(kind: &'static str) -> impl Fn(Option<&DynamicObject>) -> bool {
    move |it| {
        let conditions = it.and_then(|it| it.data["status"]["conditions"].as_array());
        conditions
            .into_iter()
            .flatten()
            .any(|it| it["type"] == kind && it["status"] == "True")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn up_brings_works_to_clusters_and_finds_everything_again() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let home = home.path();
    let (up, steps) = Up::start(home, &["--clusters", "1"]);
    assert_eq!(
        steps,
        [
            "hub ready",
            "cluster1 joined",
            "cluster1 accepted",
            "cluster1 available"
        ]
    );
    assert_eq!(
        up.kubeconfig("hub"),
        home.canonicalize().expect("a path").join(".drover/hub.kubeconfig")
    );

    // With nothing else to go by, the commands find the hub of the working directory.
    let table = printed(home, &["get", "clusters"]);
    let row: Vec<&str> = table.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(row[..4], ["cluster1", "true", "True", "default"], "{table}");
    assert_eq!(
        printed(home, &["why", "managedcluster/cluster1"]),
        "managedcluster/cluster1 waits for nothing.\n"
    );

    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hello, namespace: default}\ndata: {a: b}\n";
    std::fs::write(home.join("hello.yaml"), manifest).expect("written");
    let create = ["create", "work", "hello", "-f", "hello.yaml", "--clusters", "cluster1"];
    assert_eq!(printed(home, &create), "create work hello in cluster cluster1\n");
    await_condition(works(client(&up.kubeconfig("hub")).await), "hello", is("Available"))
        .await
        .expect("available");
    let made = config_maps(client(&up.kubeconfig("cluster1")).await)
        .get("hello")
        .await
        .expect("it is on the cluster");
    assert_eq!(
        printed(home, &["get", "works", "hello", "--cluster", "cluster1"])
            .lines()
            .last()
            .expect("a line"),
        "ConfigMap   default     hello   True      True"
    );
    let again = run(home, &create);
    assert_eq!(
        (again.status.code(), String::from_utf8_lossy(&again.stderr).as_ref()),
        (
            Some(1),
            "error: work hello in cluster cluster1 already exists; add --overwrite to replace its manifests\n"
        )
    );

    // A second process is kept out of the directory.
    let second = run(home, &["up"]);
    assert_eq!(second.status.code(), Some(1));
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        told.contains(&format!("is in use by process {}; stop it", up.child.id())),
        "{told}"
    );

    // Killed without a word, it comes back with the same addresses and the same objects.
    let urls: BTreeMap<_, _> = ["hub", "cluster1"].map(|it| (it, up.url(it))).into();
    assert_eq!(up.end("-KILL"), None);
    let (up, _) = Up::start(home, &["--clusters", "1"]);
    assert_eq!(urls, ["hub", "cluster1"].map(|it| (it, up.url(it))).into());
    let kept = config_maps(client(&up.kubeconfig("cluster1")).await)
        .get("hello")
        .await
        .expect("it is still there");
    assert_eq!(kept.metadata.uid, made.metadata.uid);
    assert_eq!(
        kept.metadata.resource_version, made.metadata.resource_version,
        "nothing is applied twice"
    );

    assert_eq!(
        printed(home, &["delete", "work", "hello", "--clusters", "cluster1"]),
        "work hello in cluster cluster1 is deleted\n"
    );
    let gone = config_maps(client(&up.kubeconfig("cluster1")).await)
        .get_opt("hello")
        .await
        .expect("an answer");
    assert!(gone.is_none_or(|it| it.metadata.deletion_timestamp.is_some()));
    assert_eq!(up.end("-TERM"), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_cluster_joins_and_waits_for_acceptance() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let home = home.path();
    let (up, steps) = Up::start(home, &["--clusters", "0"]);
    assert_eq!(steps, ["hub ready"]);
    let token = printed(home, &["get", "token", "-o", "json"]);
    let token: Value = serde_json::from_str(&token).expect("JSON");
    let text = |field: &str| token[field].as_str().expect("a text").to_owned();
    let (hub_token, server, hash) = (text("hub-token"), text("hub-apiserver"), text("hub-ca-hash"));

    let join = |hash: &str| {
        let mut command = drover(home);
        command.args([
            "join",
            "--embedded",
            "--cluster-name",
            "cluster3",
            "--hub-token",
            &hub_token,
        ]);
        command.args(["--hub-apiserver", &server, "--hub-ca-hash", hash]);
        command
    };
    let wrong = format!("sha256:{}", "0".repeat(64));
    let refused = join(&wrong).stderr(Stdio::piped()).output().expect("the binary runs");
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("has another CA"),
        "the hub's CA is checked"
    );
    assert!(!home.join(".drover-cluster3").exists(), "nothing was begun");

    let mut joined = join(&hash).stdout(Stdio::piped()).spawn().expect("the binary runs");
    let mut lines = BufReader::new(joined.stdout.take().expect("piped"))
        .lines()
        .map(|it| it.expect("text"));
    assert!(
        lines.any(|it| it.starts_with("awaiting acceptance: ")),
        "it waits for the hub's administrator"
    );
    let why = printed(home, &["why", "managedcluster/cluster3"]);
    assert!(
        why.starts_with("Cluster cluster3 waits for a hub administrator to accept it"),
        "{why}"
    );
    let accepted = printed(home, &["accept", "--clusters", "cluster3", "--wait"]);
    assert!(
        accepted.contains("set hubAcceptsClient to true for managed cluster cluster3\n"),
        "{accepted}"
    );
    assert!(
        lines.any(|it| it.starts_with("The cluster has joined")),
        "it has joined"
    );
    joined.kill().expect("killed");
    joined.wait().expect("ended");
    assert_eq!(up.end("-INT"), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_nodes_there_is_nothing_that_runs_pods() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (up, steps) = Up::start(home.path(), &["--clusters", "1", "--ephemeral", "--no-node"]);
    assert_eq!(steps.last().map(String::as_str), Some("cluster1 available"));
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Node"));
    for server in ["hub", "cluster1"] {
        let nodes: Api<DynamicObject> = Api::all_with(client(&up.kubeconfig(server)).await, &kind);
        let nodes = nodes.list(&Default::default()).await.expect("an answer");
        assert!(nodes.items.is_empty(), "{server} has a node");
    }
    assert_eq!(up.end("-TERM"), Some(0));
}

#[test]
fn on_a_terminal_every_step_keeps_its_own_line() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let binary = env!("CARGO_BIN_EXE_drover");
    // `script` gives it a terminal, and passes on what is typed there. It starts a shell, which must not stay between:
    // Ctrl-C would end the shell as well, and with it the exit status.
    let mut child = Command::new("script")
        .args([
            "-qec",
            &format!("exec {binary} up --ephemeral --clusters 1"),
            "/dev/null",
        ])
        .current_dir(home.path())
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script runs");
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.as_mut().expect("piped")).lines() {
        lines.push(line.expect("text"));
        if lines
            .last()
            .is_some_and(|it| it.contains("Ctrl-C stops it, and everything is forgotten."))
        {
            break;
        }
    }
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"\x03").expect("typed");
    assert!(child.wait().expect("ended").success());
    for step in [
        "hub ready",
        "cluster1 joined",
        "cluster1 accepted",
        "cluster1 available",
    ] {
        let ends = |line: &&String| {
            line.rsplit('✓')
                .next()
                .is_some_and(|it| it.trim_start().starts_with(step))
        };
        assert_eq!(lines.iter().filter(ends).count(), 1, "{step}: {lines:#?}");
    }
    let ready = lines.iter().position(|it| it.contains("ready in ")).expect("ready");
    let after = &lines[ready + 1..];
    assert!(
        after.iter().all(|it| !it.contains("\u{1b}[")),
        "nothing is taken away again: {after:#?}"
    );
    assert!(after.iter().any(|it| it.trim_end() == "Kubeconfigs:"), "{after:#?}");
}
