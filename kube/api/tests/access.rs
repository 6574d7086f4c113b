//! Who may do what, through the whole server: sockets, TLS, credentials, RBAC and Kubernetes' own controllers.
//!
//! Numbers in comments are those of the conformance list that the server is built to.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use kube_api::{
    Options, Server,
    authn::TrustedProxies,
    pki::{KeyPair, Pki, certificate},
    tls,
};
use p256::{
    ecdsa::{DerSignature, SigningKey},
    elliptic_curve::Generate,
    pkcs8::{EncodePrivateKey, LineEnding},
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use x509_cert::{builder::Builder, der::EncodePem, request::RequestBuilder};

/// Nothing that is waited for takes longer, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

struct World {
    server: Server,
    port: u16,
    listening: JoinHandle<()>,
}

/// How a client shows who it is.
#[derive(Clone, Default)]
struct As {
    pair: Option<KeyPair>,
    headers: Vec<(&'static str, String)>,
}

impl As {
    fn token(token: &str) -> Self {
        Self {
            pair: None,
            headers: vec![("authorization", format!("Bearer {token}"))],
        }
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

impl World {
    async fn start(data_dir: Option<&Path>) -> Self {
        Self::start_behind(data_dir, None).await
    }

    /// A server that believes these proxies.
    async fn start_behind(data_dir: Option<&Path>, front_proxy: Option<TrustedProxies>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let options = Options {
            data_dir: data_dir.map(Path::to_owned),
            address: Some(address),
            front_proxy,
            ..Options::default()
        };
        let server = Server::open(options).await.unwrap();
        let listening = server.listen(listener).unwrap();
        Self {
            server,
            port: address.port(),
            listening,
        }
    }

    async fn stop(self) {
        self.server.stop(Some(self.listening)).await;
    }

    fn user(&self, name: &str, groups: &[&str]) -> As {
        let pair = self
            .server
            .pki()
            .issue_client_certificate(name, groups, 3600, jiff::Timestamp::now())
            .unwrap();
        As {
            pair: Some(pair),
            headers: Vec::new(),
        }
    }

    fn admin(&self) -> As {
        self.user("admin", &["system:masters"])
    }

    /// One request on a connection of its own.
    async fn ask(&self, who: &As, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let mut roots = RootCertStore::empty();
        roots.add(self.server.pki().authority().der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(tls::provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match &who.pair {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let certificate = CertificateDer::from_pem_slice(pair.certificate_pem.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector
            .connect(ServerName::try_from("localhost").unwrap(), stream)
            .await
            .unwrap();
        let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(&method).uri(path).header("host", "localhost");
        let content = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        request = request.header("content-type", content);
        for (name, value) in &who.headers {
            request = request.header(*name, value);
        }
        let body = Bytes::from(body.map(Value::to_string).unwrap_or_default());
        let response = send.send_request(request.body(Full::new(body)).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (
            code,
            serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into()),
        )
    }

    async fn get(&self, who: &As, path: &str) -> (u16, Value) {
        self.ask(who, Method::GET, path, None).await
    }

    async fn post(&self, who: &As, path: &str, body: Value) -> (u16, Value) {
        self.ask(who, Method::POST, path, Some(&body)).await
    }

    /// Creates as administrator.
    async fn make(&self, path: &str, body: Value) -> Value {
        let (code, reply) = self.post(&self.admin(), path, body).await;
        assert_eq!(code, 201, "{path}: {reply}");
        reply
    }

    /// Waits until what the administrator reads at `path` passes `test`; every change in the store is a reason to look.
    async fn until(&self, path: &str, test: impl Fn(u16, &Value) -> bool) -> Value {
        let mut changes = self.server.local().subscribe();
        let admin = self.admin();
        let look = async {
            loop {
                let (code, value) = self.get(&admin, path).await;
                if test(code, &value) {
                    return value;
                }
                changes.next().await;
            }
        };
        tokio::time::timeout(PATIENCE, look)
            .await
            .unwrap_or_else(|_| panic!("{path} never came to be as wanted"))
    }

    async fn grant(&self, namespace: &str, name: &str, rules: Value, subject: Value) {
        let (prefix, role, binding) = match namespace {
            "" => (RBAC.to_owned(), "ClusterRole", "ClusterRoleBinding"),
            _ => (format!("{RBAC}/namespaces/{namespace}"), "Role", "RoleBinding"),
        };
        let path = |kind: &str| format!("{prefix}/{}s", kind.to_lowercase());
        let object = |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
        let mut it = object(role);
        it["rules"] = rules;
        self.make(&path(role), it).await;
        let mut it = object(binding);
        it["subjects"] = json!([subject]);
        it["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name});
        self.make(&path(binding), it).await;
    }
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CSRS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn rule(groups: &str, resources: &str, verbs: &str) -> Value {
    let words = |it: &str| it.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    json!([{"apiGroups": [groups], "resources": words(resources), "verbs": words(verbs)}])
}

fn group(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name})
}

fn user(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
}

fn message(reply: &Value) -> &str {
    reply["message"].as_str().unwrap_or_default()
}

async fn namespace(world: &World, name: &str) {
    world
        .make(
            "/api/v1/namespaces",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        )
        .await;
}

// 2, 4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anonymous_users_read_only_the_version() {
    let world = World::start(None).await;
    let nobody = As::default();
    assert_eq!(world.get(&nobody, "/version").await.0, 200);
    let (code, reply) = world.get(&nobody, "/api/v1/namespaces").await;
    assert_eq!(code, 403);
    assert_eq!(
        message(&reply),
        r#"namespaces is forbidden: User "system:anonymous" cannot list resource "namespaces" in API group "" at the cluster scope"#
    );
    assert_eq!(world.get(&As::token("nonsense"), "/healthz").await.0, 401);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_every_url_does_not_allow_taking_a_backup() {
    let world = World::start(None).await;
    let pages = json!([{"nonResourceURLs": ["*"], "verbs": ["get"]}]);
    world.grant("", "monitoring", pages, user("monitor")).await;
    let monitor = world.user("monitor", &[]);
    assert_eq!(world.get(&monitor, "/metrics").await.0, 200);
    let (code, reply) = world.get(&monitor, "/backup").await;
    assert_eq!(code, 403, "{reply}");
    assert_eq!(world.get(&world.admin(), "/backup").await.0, 200);
    world.stop().await;
}

// 172, 183, 184, 185
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_a_bootstrap_token_obtains_its_own_identity() {
    let world = World::start(None).await;
    let encode = |it: &str| STANDARD.encode(it);
    let data = json!({"token-id": encode("abcdef"), "token-secret": encode("0123456789abcdef"),
        "usage-bootstrap-authentication": encode("true"), "auth-extra-groups": encode("system:bootstrappers:fleet")});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token", "data": data,
        "metadata": {"name": "bootstrap-token-abcdef"}});
    world.make("/api/v1/namespaces/kube-system/secrets", secret).await;
    let rules = rule(
        "certificates.k8s.io",
        "certificatesigningrequests",
        "create get list watch",
    );
    world
        .grant("", "bootstrap", rules, group("system:bootstrappers:fleet"))
        .await;

    let key = SigningKey::generate_from_rng(&mut rand::rng());
    let groups = [
        "system:open-cluster-management:cluster1",
        "system:open-cluster-management:managed-clusters",
    ];
    let subject = certificate::subject("system:open-cluster-management:cluster1:agent1", &groups).unwrap();
    let request = RequestBuilder::new(subject)
        .unwrap()
        .build::<_, DerSignature>(&key)
        .unwrap();
    let csr = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "cluster1-x"},
        "spec": {"request": STANDARD.encode(request.to_pem(LineEnding::LF).unwrap()), "username": "forged",
            "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth", "digital signature"]}});
    let joining = As::token("abcdef.0123456789abcdef");
    let (code, mut csr) = world.post(&joining, CSRS, csr).await;
    assert_eq!(code, 201, "{csr}");
    assert_eq!(csr["spec"]["username"], "system:bootstrap:abcdef");

    csr["status"] = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]});
    let approval = format!("{CSRS}/cluster1-x/approval");
    assert_eq!(world.ask(&joining, Method::PUT, &approval, Some(&csr)).await.0, 403);
    let approver = world.user("approver", &[]);
    let rules = rule("certificates.k8s.io", "certificatesigningrequests/approval", "update");
    world.grant("", "approve", rules, user("approver")).await;
    let (code, reply) = world.ask(&approver, Method::PUT, &approval, Some(&csr)).await;
    assert_eq!(code, 403);
    assert!(
        message(&reply).ends_with(
            "user not permitted to approve requests with signerName \"kubernetes.io/kube-apiserver-client\""
        )
    );
    let rules = rule("certificates.k8s.io", "signers", "approve");
    world.grant("", "sign", rules, user("approver")).await;
    let (code, reply) = world.ask(&approver, Method::PUT, &approval, Some(&csr)).await;
    assert_eq!(code, 200, "{reply}");

    let signed = world
        .until(&format!("{CSRS}/cluster1-x"), |_, it| {
            it["status"]["certificate"].is_string()
        })
        .await;
    let certificate_pem = STANDARD
        .decode(signed["status"]["certificate"].as_str().unwrap())
        .unwrap();
    let pair = KeyPair {
        certificate_pem: String::from_utf8(certificate_pem).unwrap(),
        key_pem: key.to_pkcs8_pem(LineEnding::LF).unwrap().to_string(),
    };
    let agent = As {
        pair: Some(pair),
        headers: Vec::new(),
    };
    let (code, review) = world.post(&agent, WHO, json!({})).await;
    assert_eq!(code, 201, "{review}");
    let info = &review["status"]["userInfo"];
    assert_eq!(info["username"], "system:open-cluster-management:cluster1:agent1");
    assert_eq!(info["groups"], json!([groups[0], groups[1], "system:authenticated"]));
    world.stop().await;
}

// 176, 177
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_reaches_its_namespace_but_not_a_similar_one() {
    let world = World::start(None).await;
    for name in ["cluster1", "cluster10"] {
        namespace(&world, name).await;
        let rules = rule(
            "",
            "configmaps secrets",
            "get list watch create update patch delete deletecollection",
        );
        world
            .grant(
                name,
                "agent",
                rules,
                group(&format!("system:open-cluster-management:{name}")),
            )
            .await;
    }
    let agent = world.user("agent", &["system:open-cluster-management:cluster1"]);
    let object = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}});
    for (kind, resource) in [("ConfigMap", "configmaps"), ("Secret", "secrets")] {
        let object = object(kind);
        for (namespace, own) in [("cluster1", true), ("cluster10", false)] {
            let all = format!("/api/v1/namespaces/{namespace}/{resource}");
            let one = format!("{all}/x");
            let table = [
                (Method::POST, &all, Some(&object), 201),
                (Method::GET, &one, None, 200),
                (Method::GET, &all, None, 200),
                (Method::PUT, &one, Some(&object), 200),
                (Method::PATCH, &one, Some(&object), 200),
                (Method::DELETE, &one, None, 200),
                (Method::DELETE, &all, None, 200),
            ];
            for (method, path, body, wanted) in table {
                let (code, reply) = world.ask(&agent, method.clone(), path, body).await;
                assert_eq!(code, if own { wanted } else { 403 }, "{method} {path}: {reply}");
            }
        }
        assert_eq!(world.get(&agent, &format!("/api/v1/{resource}")).await.0, 403);
    }
    let (_, reply) = world.get(&agent, "/api/v1/namespaces/cluster10/secrets/x").await;
    assert_eq!(
        message(&reply),
        r#"secrets "x" is forbidden: User "agent" cannot get resource "secrets" in API group "" in the namespace "cluster10""#
    );
    world.stop().await;
}

// 170, 171
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_accounts_tokens_end_with_it() {
    let world = World::start(None).await;
    namespace(&world, "n").await;
    let accounts = "/api/v1/namespaces/n/serviceaccounts";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    world.make(accounts, account).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "robot-token", "annotations": {"kubernetes.io/service-account.name": "robot"}}});
    world.make("/api/v1/namespaces/n/secrets", secret).await;
    let path = "/api/v1/namespaces/n/secrets/robot-token";
    let filled = world.until(path, |_, it| it["data"]["token"].is_string()).await;
    let legacy = STANDARD.decode(filled["data"]["token"].as_str().unwrap()).unwrap();
    let legacy = As::token(std::str::from_utf8(&legacy).unwrap());
    let request = world
        .make(&format!("{accounts}/robot/token"), json!({"spec": {}}))
        .await;
    let bound = As::token(request["status"]["token"].as_str().unwrap());
    for who in [&legacy, &bound] {
        let (code, review) = world.post(who, WHO, json!({})).await;
        assert_eq!(code, 201, "{review}");
        assert_eq!(
            review["status"]["userInfo"]["username"],
            "system:serviceaccount:n:robot"
        );
    }
    world
        .ask(&world.admin(), Method::DELETE, &format!("{accounts}/robot"), None)
        .await;
    for who in [&legacy, &bound] {
        assert_eq!(world.post(who, WHO, json!({})).await.0, 401);
    }
    world.until(path, |code, _| code == 404).await;
    world.stop().await;
}

// 174
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn impersonating_a_user_requires_permission() {
    let world = World::start(None).await;
    let as_carol = |it: As| it.with("impersonate-user", "carol").with("impersonate-group", "devs");
    let (_, review) = world.post(&as_carol(world.admin()), WHO, json!({})).await;
    let info = &review["status"]["userInfo"];
    assert_eq!(
        (&info["username"], &info["groups"]),
        (&json!("carol"), &json!(["devs", "system:authenticated"]))
    );
    let alice = world.user("alice", &[]);
    let (code, reply) = world.post(&as_carol(alice.clone()), WHO, json!({})).await;
    assert_eq!(code, 403);
    assert_eq!(
        message(&reply),
        r#"users "carol" is forbidden: User "alice" cannot impersonate resource "users" in API group "" at the cluster scope"#
    );
    assert_eq!(
        world
            .post(&alice.with("impersonate-group", "devs"), WHO, json!({}))
            .await
            .0,
        400
    );
    world.stop().await;
}

// 178
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_grants_more_than_they_hold() {
    let world = World::start(None).await;
    namespace(&world, "n").await;
    let rules = rule(
        "rbac.authorization.k8s.io",
        "roles rolebindings",
        "create update patch get",
    );
    world.grant("n", "role-maker", rules, user("alice")).await;
    let alice = world.user("alice", &[]);
    let roles = format!("{RBAC}/namespaces/n/roles");
    let role = |rules: Value| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": rules});
    let (code, reply) = world.post(&alice, &roles, role(rule("", "secrets", "get"))).await;
    assert_eq!(code, 403);
    assert_eq!(
        message(&reply),
        "roles.rbac.authorization.k8s.io \"r\" is forbidden: user \"alice\" (groups=[\"system:authenticated\"]) is \
         attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], \
         Verbs:[\"get\"]}"
    );
    let held = rule("rbac.authorization.k8s.io", "roles", "get");
    assert_eq!(world.post(&alice, &roles, role(held)).await.0, 201);
    let widen = json!({"rules": rule("", "secrets", "get")});
    let (code, reply) = world
        .ask(&alice, Method::PATCH, &format!("{roles}/r"), Some(&widen))
        .await;
    assert_eq!(code, 403, "{reply}");
    let bind = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"},
        "subjects": [user("alice")],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}});
    assert_eq!(
        world
            .post(&alice, &format!("{RBAC}/namespaces/n/rolebindings"), bind)
            .await
            .0,
        403
    );
    world.stop().await;
}

// 179
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permissions_in_one_namespace_do_not_apply_in_another() {
    let world = World::start(None).await;
    for name in ["a", "b"] {
        namespace(&world, name).await;
    }
    world.grant("a", "all", rule("*", "*", "*"), user("tenant")).await;
    let tenant = world.user("tenant", &[]);
    assert_eq!(world.get(&tenant, "/api/v1/namespaces/a").await.0, 200);
    assert_eq!(world.get(&tenant, "/api/v1/namespaces/b").await.0, 403);
    for path in [
        "namespaces/b",
        "namespaces",
        "namespaces?watch=1",
        "namespaces/b/status",
    ] {
        let path = format!("/api/v1/namespaces/a/{path}");
        assert_eq!(world.get(&tenant, &path).await.0, 404, "{path}");
    }
    let path = "/api/v1/namespaces/a/namespaces/b";
    assert_eq!(world.ask(&tenant, Method::DELETE, path, None).await.0, 404);
    let made = json!({"metadata": {"name": "c"}});
    assert_eq!(
        world.post(&tenant, "/api/v1/namespaces/a/namespaces", made).await.0,
        404
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_labelled_role_becomes_part_of_view() {
    let world = World::start(None).await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "more", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": rule("example.com", "widgets", "get")});
    world.make(&format!("{RBAC}/clusterroles"), role).await;
    let holds = |role: &Value| {
        role["rules"]
            .as_array()
            .is_some_and(|it| it.iter().any(|it| it["apiGroups"] == json!(["example.com"])))
    };
    for name in ["view", "edit", "admin"] {
        world
            .until(&format!("{RBAC}/clusterroles/{name}"), |_, it| holds(it))
            .await;
    }
    world.stop().await;
}

/// As `helm uninstall` deletes them: the role that is selected, and at once the one that selects it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregated_role_that_was_deleted_is_not_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(Some(dir.path())).await;
    let admin = world.admin();
    let names: Vec<(String, String)> = (0..40)
        .map(|it| (format!("part-{it}"), format!("whole-{it}")))
        .collect();
    for (part, whole) in &names {
        let label = json!({"part-of": whole});
        world
            .make(
                &format!("{RBAC}/clusterroles"),
                json!({"metadata": {"name": whole},
                    "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": label}]}, "rules": []}),
            )
            .await;
        world
            .make(
                &format!("{RBAC}/clusterroles"),
                json!({"metadata": {"name": part, "labels": label}, "rules": rule("example.com", "widgets", "get")}),
            )
            .await;
        let path = format!("{RBAC}/clusterroles/{whole}");
        let whole = world.until(&path, |_, it| it["rules"][0].is_object()).await;
        // What names the role is no field that the controller owns.
        let owned = whole["metadata"]["managedFields"].to_string();
        assert!(!owned.contains("f:uid"), "{owned}");
    }
    let delete = |name: &str| {
        let path = format!("{RBAC}/clusterroles/{name}");
        let (world, admin) = (&world, &admin);
        async move { assert_eq!(world.ask(admin, Method::DELETE, &path, None).await.0, 200) }
    };
    // All at once, so that deletions and what the controller writes meet in one commit.
    let deletions = names.iter().map(|(part, whole)| async {
        delete(part).await;
        delete(whole).await;
    });
    futures::future::join_all(deletions).await;
    // The controller takes one after the other: what it was asked before this is done is behind it.
    let last = json!({"metadata": {"name": "last", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": rule("example.com", "widgets", "get")});
    world.make(&format!("{RBAC}/clusterroles"), last).await;
    let path = format!("{RBAC}/clusterroles/view");
    world.until(&path, |_, it| it.to_string().contains("example.com")).await;
    for (_, whole) in &names {
        let path = format!("{RBAC}/clusterroles/{whole}");
        assert_eq!(world.get(&admin, &path).await.0, 404, "{whole}");
    }
    world.stop().await;
}

// 181, 198
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_restart_credentials_work_and_bootstrap_roles_are_restored() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(Some(dir.path())).await;
    namespace(&world, "n").await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    world.make("/api/v1/namespaces/n/serviceaccounts", account).await;
    let request = world
        .make("/api/v1/namespaces/n/serviceaccounts/robot/token", json!({"spec": {}}))
        .await;
    let robot = As::token(request["status"]["token"].as_str().unwrap());
    let admin = world.admin();
    let role = format!("{RBAC}/clusterroles/system:discovery");
    assert_eq!(world.ask(&admin, Method::DELETE, &role, None).await.0, 200);
    assert_eq!(world.get(&robot, "/apis").await.0, 403);
    world.stop().await;
    let world = World::start(Some(dir.path())).await;
    assert_eq!(world.post(&robot, WHO, json!({})).await.0, 201);
    assert_eq!(world.get(&admin, &role).await.0, 200);
    assert_eq!(world.get(&robot, "/apis").await.0, 200);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_owner_reads_what_the_server_keeps() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    World::start(Some(dir.path())).await.stop().await;
    let mut kept = vec![dir.path().to_owned()];
    let mut files = 0;
    while let Some(path) = kept.pop() {
        if path.is_dir() {
            kept.extend(std::fs::read_dir(path).unwrap().map(|it| it.unwrap().path()));
        } else {
            files += 1;
            assert_eq!(
                path.metadata().unwrap().permissions().mode() & 0o077,
                0,
                "{}",
                path.display()
            );
        }
    }
    assert!(files >= 3, "objects, authority and serving certificate");
}

/// 175.
#[tokio::test]
async fn a_trusted_proxy_names_the_user_and_is_published() {
    let now = jiff::Timestamp::now();
    let proxies = Pki::open(None, &[], now).unwrap();
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
    let trusted = TrustedProxies::from_pem(proxies.ca_pem(), names(&["front-proxy-client", "other"])).unwrap();
    let says = |pair: KeyPair| {
        let who = As {
            pair: Some(pair),
            ..As::default()
        };
        who.with("x-remote-user", "alice").with("x-remote-group", "readers")
    };
    let proxy = |name: &str| {
        says(
            proxies
                .issue_client_certificate(name, &["system:masters"], 3600, now)
                .unwrap(),
        )
    };
    let published = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let data = tempfile::tempdir().unwrap();

    let world = World::start_behind(Some(data.path()), Some(trusted)).await;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let (code, reply) = world.post(&proxy("other"), WHO, review.clone()).await;
    assert_eq!(code, 201, "{reply}");
    let user = &reply["status"]["userInfo"];
    assert_eq!(
        (&user["username"], &user["groups"]),
        (&json!("alice"), &json!(["readers", "system:authenticated"]))
    );
    assert_eq!(
        world.get(&proxy("other"), "/api/v1/secrets").await.0,
        403,
        "alice is no administrator"
    );
    // Nobody else is believed: not another name of the same authority, nor the name itself of the clients' authority.
    assert_eq!(world.get(&proxy("somebody"), "/api").await.0, 401);
    let (_, reply) = world
        .post(&says(world.user("other", &[]).pair.unwrap()), WHO, review.clone())
        .await;
    assert_eq!(reply["status"]["userInfo"]["username"], "other");
    let (_, told) = world.get(&world.admin(), published).await;
    assert_eq!(told["data"]["requestheader-client-ca-file"], proxies.ca_pem());
    assert_eq!(
        told["data"]["requestheader-allowed-names"],
        r#"["front-proxy-client","other"]"#
    );
    world.stop().await;

    // No longer trusted, it is nobody, here and for who reads the ConfigMap.
    let world = World::start(Some(data.path())).await;
    assert_eq!(world.get(&proxy("other"), "/api").await.0, 401);
    let (_, told) = world.get(&world.admin(), published).await;
    let nobodys = told["data"]["requestheader-client-ca-file"].clone();
    assert!(nobodys.is_string() && nobodys != proxies.ca_pem(), "{nobodys}");
    world.stop().await;
    let world = World::start(Some(data.path())).await;
    let (_, again) = world.get(&world.admin(), published).await;
    assert_eq!(again["data"], told["data"], "nobody's authority stays");
    world.stop().await;
}

#[test]
fn what_cannot_be_an_authority_of_proxies_is_refused() {
    for text in [
        "",
        "text",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        assert!(TrustedProxies::from_pem(text, Vec::new()).is_err(), "{text}");
    }
}
