//! What a check works with: its clients, its own namespace and API group, and what has to go when it is done.

use crate::{
    client::{Ask, Client, Reply, Watch},
    cluster::{Credential, Embedded, Target},
    sections::list::churn,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube_api::pki::certificate;
use p256::{
    ecdsa::{DerSignature, SigningKey},
    elliptic_curve::Generate,
    pkcs8::{EncodePrivateKey, LineEnding},
};
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use x509_cert::{builder::Builder, der::EncodePem, request::RequestBuilder};

/// Nothing that is waited for takes longer, even on a loaded machine. The garbage collector of a real Kubernetes looks
/// for new kinds every half minute, begins anew when another is defined meanwhile,
/// and sees owners of such a kind only then.
pub const PATIENCE: Duration = Duration::from_secs(100);

pub const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
pub const CSRS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
pub const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Held by checks that put a hub and an agent on the server: their names are the same everywhere.
pub static ONE_INSTALLATION: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Shared by all runs of one check.
#[derive(Clone)]
pub struct Cx {
    pub target: Target,
    pub admin: Client,
    number: String,
    /// Different in every run, so that runs on one cluster do not meet.
    run: String,
    garbage: Arc<Mutex<Vec<String>>>,
}

impl Cx {
    pub fn new(target: &Target, number: &str, run: &str) -> Self {
        Self {
            target: target.clone(),
            admin: Client::new(target, &target.admin, "h2"),
            number: number.replace('.', "-"),
            run: run.to_owned(),
            garbage: Arc::default(),
        }
    }

    /// Whether the server is one of this process, and not one that a kubeconfig names.
    pub fn is_embedded(&self) -> bool {
        std::env::var_os(crate::run::CLUSTER).is_none()
    }

    /// A server of the check's own, to stop and start.
    pub async fn own_server(&self) -> (Embedded, Cx) {
        let own = Embedded::start().await;
        let cx = Cx::new(&own.target, &self.number, &self.run);
        (own, cx)
    }

    /// A name for cluster-scoped objects of this check.
    pub fn name(&self, what: &str) -> String {
        format!("c{}-{}-{what}", self.number, self.run)
    }

    /// An API group of this check.
    pub fn group(&self) -> String {
        format!("c{}x{}.example.com", self.number, self.run)
    }

    /// Makes a namespace of this check, to be removed with it.
    pub async fn namespace(&self) -> String {
        self.namespace_called("ns").await
    }

    pub async fn namespace_called(&self, what: &str) -> String {
        let name = self.name(what);
        self.make("/api/v1/namespaces", json!({"metadata": {"name": name}}))
            .await;
        name
    }

    /// A namespace, and the path of a core resource in it.
    pub async fn core(&self, plural: &str) -> String {
        format!("/api/v1/namespaces/{}/{plural}", self.namespace().await)
    }

    /// The path of a core resource in another namespace of this check.
    pub async fn core_called(&self, what: &str, plural: &str) -> String {
        format!("/api/v1/namespaces/{}/{plural}", self.namespace_called(what).await)
    }

    /// Creates an object that goes when the check is done.
    pub async fn make(&self, path: &str, object: Value) -> Reply {
        let reply = self.admin.send(Ask::post(path, &object)).await.is(201);
        let path = path.split('?').next().unwrap_or(path);
        let name = reply.json["metadata"]["name"].as_str().unwrap_or_default();
        self.removes(&format!("{path}/{name}"));
        reply
    }

    /// Has an object removed when the check is done.
    pub fn removes(&self, path: &str) {
        self.garbage.lock().unwrap().push(path.to_owned());
    }

    /// Removes what the check made, and forces what holds on.
    pub async fn clean(&self) {
        let garbage: Vec<String> = std::mem::take(&mut *self.garbage.lock().unwrap());
        for path in garbage.into_iter().rev() {
            let Ok(reply) = self.admin.attempt(&Ask::delete(&path)).await else {
                return;
            };
            if !reply.json["metadata"]["finalizers"].is_null() && !path.starts_with("/api/v1/namespaces/c") {
                let free = json!({"metadata": {"finalizers": null}});
                let _ = self.admin.attempt(&Ask::patch("merge", &path, &free)).await;
            }
        }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.admin.send(Ask::get(path)).await
    }
    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.admin.send(Ask::post(path, &body)).await
    }
    pub async fn put(&self, path: &str, body: &Value) -> Reply {
        self.admin.send(Ask::put(path, body)).await
    }
    pub async fn delete(&self, path: &str) -> Reply {
        self.admin.send(Ask::delete(path)).await
    }
    pub async fn merge(&self, path: &str, body: Value) -> Reply {
        self.admin.send(Ask::patch("merge", path, &body)).await
    }
    pub async fn strategic(&self, path: &str, body: Value) -> Reply {
        self.admin.send(Ask::patch("strategic-merge", path, &body)).await
    }
    pub async fn json_patch(&self, path: &str, body: Value) -> Reply {
        self.admin.send(Ask::patch("json", path, &body)).await
    }
    /// Server-side apply.
    pub async fn apply(&self, path: &str, manager: &str, body: Value) -> Reply {
        let sign = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{sign}fieldManager={manager}");
        self.admin.send(Ask::patch("apply", path, &body)).await
    }
    pub async fn send(&self, ask: Ask) -> Reply {
        self.admin.send(ask).await
    }
    pub async fn watch(&self, path: &str) -> Watch {
        self.admin.watch(Ask::get(path)).await
    }
    /// Somebody with these credentials and nothing else.
    pub fn client(&self, credential: &Credential) -> Client {
        Client::new(&self.target, credential, "h2")
    }
    pub fn anonymous(&self) -> Client {
        self.client(&Credential::default())
    }

    /// Asks again and again until the answer passes; returns it and how long that took.
    pub async fn until(&self, path: &str, test: impl Fn(&Reply) -> bool) -> (Reply, Duration) {
        self.until_asked(&self.admin, &Ask::get(path), test).await
    }

    pub async fn until_asked(&self, client: &Client, ask: &Ask, test: impl Fn(&Reply) -> bool) -> (Reply, Duration) {
        let start = Instant::now();
        let mut turn = tokio::time::interval(Duration::from_millis(25));
        loop {
            turn.tick().await;
            let reply = client.send(ask.clone()).await;
            if test(&reply) {
                return (reply, start.elapsed());
            }
            assert!(
                start.elapsed() < PATIENCE,
                "never came to be as wanted; last came: {}",
                reply.came()
            );
        }
    }

    /// Asks until the revision that is asked for is no longer kept. A server may keep all of them for minutes.
    pub async fn until_gone_by(&self, path: &str) -> Reply {
        const LONGEST: Duration = Duration::from_secs(100);
        let asked = async {
            let mut turn = tokio::time::interval(Duration::from_millis(500));
            loop {
                turn.tick().await;
                let reply = self.get(path).await;
                if reply.code == 410 {
                    return reply;
                }
            }
        };
        tokio::time::timeout(LONGEST, asked)
            .await
            .unwrap_or_else(|_| panic!("{path} is answered {} s later still", LONGEST.as_secs()))
    }

    /// Watches from the first revision, and writes until the server has forgotten it; the error in the stream.
    pub async fn watch_too_old(&self, path: &str, accept: &str) -> (Watch, Value) {
        loop {
            churn(self, path).await;
            let ask = Ask::get(format!("{path}?watch=1&resourceVersion=1&allowWatchBookmarks=true")).accept(accept);
            let mut watch = self.admin.watch(ask).await;
            let (event, object) = watch.next().await;
            if event == "ERROR" {
                return (watch, object);
            }
        }
    }

    /// What Go clients accept for built-in kinds, if the server answers it in JSON, which we read; JSON otherwise.
    pub async fn accepted_by_go(&self) -> &'static str {
        const GO: &str = "application/vnd.kubernetes.protobuf,application/json";
        let reply = self
            .send(Ask::get("/api/v1/namespaces/default").accept(GO))
            .await
            .is(200);
        match reply.header("content-type").as_str() {
            "application/json" => GO,
            _ => "application/json",
        }
    }

    /// Whether a program can be run.
    pub fn has_program(&self, program: &str) -> bool {
        crate::run::is_installed(program)
    }

    /// kubectl as the administrator, with a home of its own, which has to live as long as it runs.
    pub fn kubectl_command(&self, home: &Path, arguments: &[&str]) -> tokio::process::Command {
        self.command("kubectl", home, arguments)
    }

    /// A program as the administrator, with a home of its own, which has to live as long as it runs.
    fn command(&self, program: &str, home: &Path, arguments: &[&str]) -> tokio::process::Command {
        let config = home.join("config");
        std::fs::write(&config, self.target.kubeconfig()).unwrap();
        let mut command = tokio::process::Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("XDG_") || name.to_string_lossy().starts_with("HELM_") {
                command.env_remove(name);
            }
        }
        command
            .args(arguments)
            .env("KUBECONFIG", &config)
            .env("HOME", home)
            .env("NO_PROXY", "*")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs a program as the administrator.
    pub async fn run(&self, program: &str, arguments: &[&str]) -> Ran {
        let home = tempfile::TempDir::new().unwrap();
        let output = self.command(program, home.path(), arguments).output().await.unwrap();
        Ran::new(program, arguments, &output)
    }

    /// Runs kubectl as the administrator.
    pub async fn kubectl(&self, arguments: &[&str], input: &str) -> Ran {
        self.kubectl_edit(arguments, input, "false").await
    }

    /// The same, with a program that it runs where somebody is to edit a file.
    pub async fn kubectl_edit(&self, arguments: &[&str], input: &str, editor: &str) -> Ran {
        use tokio::io::AsyncWriteExt;
        let home = tempfile::TempDir::new().unwrap();
        let mut child = self
            .kubectl_command(home.path(), arguments)
            .env("KUBE_EDITOR", editor)
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(input.as_bytes()).await.unwrap();
        drop(pipe);
        let output = child.wait_with_output().await.unwrap();
        Ran::new("kubectl", arguments, &output)
    }

    /// Waits until an object is gone.
    pub async fn until_gone(&self, path: &str) -> Duration {
        self.until(path, |it| it.code == 404).await.1
    }

    /// Defines a kind and waits until it is served. `spec` replaces parts of a small namespaced one with versions `v1`.
    pub async fn define(&self, plural: &str, kind: &str, spec: Value) -> Kind {
        let group = self.group();
        let crd = definition(&group, plural, kind, spec);
        let namespaced = crd["spec"]["scope"] == "Namespaced";
        let version = crd["spec"]["versions"][0]["name"].as_str().unwrap().to_owned();
        let made = self.make(CRDS, crd).await;
        let crd = format!("{CRDS}/{plural}.{group}");
        self.until(&crd, |it| is_established(&it.json)).await;
        let _ = made;
        let namespace = if namespaced {
            format!("/namespaces/{}", self.namespace_called(&format!("of-{plural}")).await)
        } else {
            String::new()
        };
        let kind = Kind {
            path: format!("/apis/{group}/{version}{namespace}/{plural}"),
            api_version: format!("{group}/{version}"),
            group,
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            crd,
        };
        // A real server may say 404 or 429 for a moment after `Established`.
        self.until(&kind.path, |it| it.code == 200).await;
        kind
    }

    /// A definition with one version whose `spec` has this schema, and a status.
    pub async fn define_simple(&self, plural: &str, kind: &str, properties: Value) -> Kind {
        self.define(plural, kind, json!({"versions": [version("v1", properties)]}))
            .await
    }

    /// Gives a user rights by RBAC objects of this check.
    pub async fn grant(&self, namespace: &str, what: &str, rules: Value, subject: Value) {
        let (prefix, role, binding) = match namespace {
            "" => (RBAC.to_owned(), "ClusterRole", "ClusterRoleBinding"),
            _ => (format!("{RBAC}/namespaces/{namespace}"), "Role", "RoleBinding"),
        };
        let name = self.name(what);
        let path = |kind: &str| format!("{prefix}/{}s", kind.to_lowercase());
        self.make(
            &path(role),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": role, "metadata": {"name": name}, "rules": rules}),
        )
        .await;
        self.make(
            &path(binding),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": binding, "metadata": {"name": name},
                "subjects": [subject],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name}}),
        )
        .await;
    }

    /// A client certificate through the API: request, approval, issue.
    pub async fn certificate(&self, user: &str, groups: &[&str]) -> Credential {
        let (request, key) = signing_request(user, groups);
        let name = self.name(&format!("csr-{}", rand::random::<u32>()));
        let csr = csr(&name, &request, "kubernetes.io/kube-apiserver-client", &["client auth"]);
        self.make(CSRS, csr.clone()).await;
        let path = format!("{CSRS}/{name}");
        self.approve(&path).await;
        let (issued, _) = self.until(&path, |it| it.at("/status/certificate").is_string()).await;
        let pem = STANDARD
            .decode(issued.at("/status/certificate").as_str().unwrap())
            .unwrap();
        Credential::pair(&String::from_utf8(pem).unwrap(), &key)
    }

    pub async fn approve(&self, csr: &str) -> Reply {
        let mut object = self.get(csr).await.is(200).json;
        object["status"]["conditions"] =
            json!([{"type": "Approved", "status": "True", "reason": "Check", "message": "for a check"}]);
        self.put(&format!("{csr}/approval"), &object).await.is(200)
    }
}

/// What a program printed.
pub struct Ran {
    pub what: String,
    pub ok: bool,
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    fn new(program: &str, arguments: &[&str], output: &std::process::Output) -> Self {
        Self {
            what: format!("{program} {}", arguments.join(" ")),
            ok: output.status.success(),
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// What it printed, without the lines of its log.
    fn came(&self) -> String {
        let lines = self.out.lines().chain(self.err.lines());
        let mut lines: Vec<&str> = lines.filter(|it| !it.starts_with(['I', 'W'])).collect();
        lines.truncate(20);
        lines.join("\n")
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.ok, "{} failed: {}", self.what, self.came());
        self
    }

    /// It ended with this code.
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert!(
            self.code == code,
            "{} ended with {}: {}",
            self.what,
            self.code,
            self.came()
        );
        self
    }

    #[track_caller]
    pub fn prints(self, part: &str) -> Self {
        assert!(
            self.out.contains(part) || self.err.contains(part),
            "{}: expected {part:?}; came: {}",
            self.what,
            self.came()
        );
        self
    }
}

/// A kind that a check defined.
pub struct Kind {
    /// The collection, in the check's namespace if it has one.
    pub path: String,
    pub api_version: String,
    pub group: String,
    pub plural: String,
    pub kind: String,
    /// The definition.
    pub crd: String,
}

impl Kind {
    pub fn object(&self, name: &str, spec: Value) -> Value {
        json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": name}, "spec": spec})
    }
    pub fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }
    /// `Kind.group`, as messages name it.
    pub fn full(&self) -> String {
        format!("{}.{}", self.kind, self.group)
    }
}

pub fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions
        .iter()
        .any(|it| it["type"] == "Established" && it["status"] == "True")
}

/// A served and stored version with a status, whose `spec` has these properties.
pub fn version(name: &str, properties: Value) -> Value {
    json!({
        "name": name, "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": properties},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}},
    })
}

/// A whole definition; `spec` adds to and replaces the parts of its `spec`.
pub fn definition(group: &str, plural: &str, kind: &str, spec: Value) -> Value {
    let mut whole = json!({
        "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
        "versions": [version("v1", json!({"a": {"type": "string"}}))],
    });
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")}, "spec": whole})
}

pub fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// A Deployment as small as it may be.
pub fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c1", "image": "img:1"}]}},
    }})
}

/// A PEM request and the PEM key that signed it.
pub fn signing_request(user: &str, groups: &[&str]) -> (String, String) {
    let key = SigningKey::generate_from_rng(&mut rand::rng());
    let subject = certificate::subject(user, groups).unwrap();
    let builder = RequestBuilder::new(subject).unwrap();
    let request = builder.build::<_, DerSignature>(&key).unwrap();
    let pem = request.to_pem(LineEnding::LF).unwrap();
    (pem, key.to_pkcs8_pem(LineEnding::LF).unwrap().to_string())
}

pub fn csr(name: &str, request: &str, signer: &str, usages: &[&str]) -> Value {
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"request": STANDARD.encode(request), "signerName": signer, "usages": usages}})
}
