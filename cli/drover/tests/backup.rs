//! `drover backup` and `drover restore` on a server that runs and on one that does not.

use std::{
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;

fn drover(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
    command.current_dir(dir).env_remove("KUBECONFIG").args(arguments);
    command.output().unwrap()
}

fn said(output: &Output) -> (bool, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

/// `drover kube up`, stopped when it is dropped.
struct Running(Child, String);

impl Running {
    fn start(dir: &Path, data: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
            .current_dir(dir)
            .args(["kube", "up", "--no-node", "-o", "json", "--data-dir", data])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if line["ready"] == true {
                let kubeconfig = line["servers"]["kube"]["kubeconfig"].as_str().unwrap().to_owned();
                return Self(child, kubeconfig);
            }
        }
        panic!("kube up ended: {}", child.wait().unwrap());
    }

    async fn client(&self) -> kube::Client {
        use kube::config::{Config, KubeConfigOptions, Kubeconfig};
        let file = Kubeconfig::read_from(&self.1).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(file, &options).await.unwrap();
        kube::Client::try_from(config).unwrap()
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

type Secrets = kube::Api<k8s_openapi::api::core::v1::Secret>;

async fn write(client: &kube::Client, name: &str) {
    let secret = serde_json::from_value(serde_json::json!({"metadata": {"name": name}, "stringData": {"a": name}}));
    let secrets: Secrets = kube::Api::default_namespaced(client.clone());
    secrets
        .create(&kube::api::PostParams::default(), &secret.unwrap())
        .await
        .unwrap();
}

async fn names(client: &kube::Client) -> Vec<String> {
    let secrets: Secrets = kube::Api::default_namespaced(client.clone());
    let list = secrets.list(&kube::api::ListParams::default()).await.unwrap();
    list.items.into_iter().map(|it| it.metadata.name.unwrap()).collect()
}

#[tokio::test]
async fn a_backup_restores_whether_the_server_was_running_or_not() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let running = Running::start(dir, "data");
    let client = running.client().await;
    write(&client, "one").await;
    let (done, text) = said(&drover(dir, &["backup", "running.tgz", "--data-dir", "data"]));
    assert!(done && text.starts_with("running.tgz: kube ("), "{text}");
    let mode = std::fs::metadata(dir.join("running.tgz")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    write(&client, "two").await;
    // A directory in use is not restored into.
    let (done, text) = said(&drover(
        dir,
        &["restore", "running.tgz", "--data-dir", "data", "--overwrite"],
    ));
    assert!(!done && text.contains("is in use by process"), "{text}");
    running.kill();
    let (done, text) = said(&drover(dir, &["backup", "stopped.tgz", "--data-dir", "data"]));
    assert!(done, "{text}");

    // Nothing is replaced unasked.
    let (done, text) = said(&drover(dir, &["backup", "stopped.tgz", "--data-dir", "data"]));
    assert!(!done && text.contains("is there already"), "{text}");
    let (done, text) = said(&drover(dir, &["restore", "running.tgz", "--data-dir", "data"]));
    assert!(!done && text.contains("data holds kube already"), "{text}");
    let (done, text) = said(&drover(
        dir,
        &["restore", "running.tgz", "--data-dir", "data", "--dry-run"],
    ));
    assert!(done && text.contains("running.tgz is whole: kube ("), "{text}");

    let (done, text) = said(&drover(
        dir,
        &["restore", "running.tgz", "--dry-run", "--max-bytes", "10000"],
    ));
    assert!(!done && text.contains("allow more with --max-bytes"), "{text}");

    // A damaged file changes nothing.
    let mut bytes = std::fs::read(dir.join("running.tgz")).unwrap();
    let half = bytes.len() / 2;
    bytes[half] ^= 1;
    std::fs::write(dir.join("bad.tgz"), &bytes).unwrap();
    let (done, text) = said(&drover(
        dir,
        &["restore", "bad.tgz", "--data-dir", "data", "--overwrite"],
    ));
    assert!(!done && text.contains("bad.tgz cannot be restored"), "{text}");

    // Back to before the second, in place; the kubeconfig of before is still good.
    let (done, text) = said(&drover(
        dir,
        &["restore", "running.tgz", "--data-dir", "data", "--overwrite"],
    ));
    assert!(done, "{text}");
    let running = Running::start(dir, "data");
    assert_eq!(names(&client).await, ["one"]);
    write(&client, "three").await;
    running.kill();

    // And to somewhere else, with both.
    let (done, text) = said(&drover(dir, &["restore", "stopped.tgz", "--data-dir", "elsewhere"]));
    assert!(done, "{text}");
    let running = Running::start(dir, "elsewhere");
    assert_eq!(names(&running.client().await).await, ["one", "two"]);
    running.kill();
    let left: Vec<_> = std::fs::read_dir(dir.join("elsewhere"))
        .unwrap()
        .flatten()
        .map(|it| it.file_name())
        .collect();
    assert!(left.iter().all(|it| !it.to_string_lossy().starts_with('.')), "{left:?}");
}
