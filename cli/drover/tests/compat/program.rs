//! A program of upstream's that runs, and what it is asked.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
};

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, Config, api::PostParams};
use testkit::{World, wait};

/// A program that runs.
pub struct Running {
    pub child: Child,
    lines: mpsc::Receiver<String>,
}

impl Running {
    pub fn start(words: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(words)
            .env("NO_COLOR", "1")
            .env_remove("DROVER_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let stderr = child.stderr.take().expect("it was asked for");
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for a line of the log that holds this.
    pub fn says(&self, what: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(wait::PATIENCE) {
                Ok(line) if line.contains(what) => return line,
                Ok(line) => seen.push(line),
                Err(_) => panic!("{what:?} was not said, but:\n{}", seen.join("\n")),
            }
        }
    }

    /// Where it serves what the line with these words names.
    pub fn address(&self, what: &str) -> String {
        let line = self.says(what);
        let (_, rest) = line.split_once("address=").expect("the line names an address");
        rest.split_whitespace().next().unwrap_or_default().to_owned()
    }

    /// SIGTERM, and the exit code.
    pub fn stops(&mut self) -> Option<i32> {
        let told = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        assert!(told.expect("there is a kill").success());
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already ended is what we want.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A hub on which nothing runs, and the kubeconfig of its administrator.
pub struct Bare {
    pub world: World,
    pub folder: tempfile::TempDir,
    pub kubeconfig: String,
}

impl Bare {
    pub async fn new() -> Self {
        let world = World::new(0).await;
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("kubeconfig");
        let text = world.hub.kubeconfig("admin", &["system:masters"]).unwrap();
        std::fs::write(&path, text).unwrap();
        Self {
            world,
            folder,
            kubeconfig: path.display().to_string(),
        }
    }

    pub fn client(&self) -> Client {
        self.world.hub.client()
    }

    pub fn run(&self, words: &[&str]) -> Running {
        let own = [
            "--kubeconfig",
            &self.kubeconfig,
            "--listen=127.0.0.1:0",
            "--namespace=default",
        ];
        Running::start(&[words, &own].concat())
    }
}

pub fn output(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(words)
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .expect("the binary runs")
}

/// Asks a program that serves with a certificate of its own making.
pub async fn get(address: &str, path: &str, token: Option<&str>) -> (u16, String) {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = token.map(|it| it.to_owned().into());
    let client = Client::try_from(config).unwrap();
    let request = http::Request::get(path).body(kube::client::Body::empty()).unwrap();
    let answer = client.send(request).await.unwrap();
    let code = answer.status().as_u16();
    let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap();
    (code, String::from_utf8_lossy(&body.to_bytes()).into_owned())
}

/// A token of a ServiceAccount.
pub async fn token(bare: &Bare, account: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(bare.client(), "default");
    let request = TokenRequest {
        spec: Some(TokenRequestSpec::default()),
        ..TokenRequest::default()
    };
    let made = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await;
    made.unwrap().status.unwrap().token.unwrap()
}
