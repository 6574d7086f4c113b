//! From a client of the hub to the API server of a cluster: user-server, tunnel, agent and service-proxy in one
//! process.

use std::{
    collections::BTreeMap,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use addon_cluster_proxy::{
    allow_list::AllowList,
    forward::{self, AnyIo},
    service_proxy::{ClusterApi, ServiceProxy, callers::Callers},
    service_proxy_host,
    user_server::{self, Serving, Tunnel, UserServer},
};
use futures::TryStreamExt;
use konnectivity::{
    TunnelAgent, TunnelServer, agent, peer,
    server::{Limits, Port, TlsConfig},
};
use kube_api::pki::serving_pair;
use ocm_addon_sdk::{
    k8s_openapi::{
        ByteString,
        api::{
            authentication::v1::{SelfSubjectReview, TokenRequest, TokenRequestSpec},
            core::v1::{ConfigMap, ServiceAccount},
        },
    },
    kube::{
        Api, Client, Config, ResourceExt,
        api::{ObjectMeta, PostParams},
        config::AuthInfo,
        runtime::watcher,
    },
};
use parking_lot::RwLock;
use rustls::{ClientConfig, ServerConfig, pki_types::ServerName};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};
use testkit::site::Site;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

#[path = "../../../kube/konnectivity/tests/certificates/mod.rs"]
mod certificates;
use certificates::Authority;

const CLUSTER: &str = "cluster1";

/// A server's certificate, and what trusts it.
struct Shown {
    server: Arc<ServerConfig>,
    pem: String,
}

fn shown(names: &[&str]) -> Shown {
    let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
    let pair = serving_pair(&names, jiff::Timestamp::now(), 3600).unwrap();
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pair.pair.certificate_pem.as_bytes())
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_slice(pair.pair.key_pem.as_bytes()).unwrap();
    let server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    Shown {
        server: Arc::new(server),
        pem: pair.authority_pem,
    }
}

fn trusting(pem: &str) -> Arc<ClientConfig> {
    let roots = forward::roots(pem.as_bytes()).unwrap();
    Arc::new(
        ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth(),
    )
}

struct World {
    hub: Site,
    cluster: Site,
    tunnel: TunnelServer,
    agent: CancellationToken,
    allowed: Arc<RwLock<AllowList>>,
    user_server: u16,
    user_server_ca: String,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    async fn start() -> Self {
        let (hub, cluster) = (Site::start().await.unwrap(), Site::start().await.unwrap());
        let stop = CancellationToken::new();
        let authority = Authority::new();
        let tunnel = TunnelServer::new("one", 1, Limits::default());
        let agents = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let agents_port = agents.local_addr().unwrap().port();
        let config = authority.server();
        let tls: TlsConfig = Arc::new(move || config.clone());
        let (serving, of_tunnel) = (tunnel.clone(), stop.clone());
        tokio::spawn(async move {
            let admit = peer::only("open-cluster-management:cluster-proxy:proxy-agent");
            serving.serve(Port::Agents, agents, tls, admit, of_tunnel).await;
        });
        let proxy = service_proxy(&hub, &cluster, &stop).await;
        let agent = start_agent(&authority, agents_port, proxy.0, &stop);
        let allowed: Arc<RwLock<AllowList>> = Arc::default();
        let of_server = tunnel.clone();
        let dial: Tunnel = Arc::new(move |address| {
            let server = of_server.clone();
            Box::pin(async move { Ok(Box::new(server.dial(&address).await?) as Box<dyn AnyIo>) })
        });
        let trusted = trusting(&proxy.1);
        let users = UserServer::new(dial, Arc::new(move || trusted.clone()), allowed.clone());
        let own = shown(&["127.0.0.1"]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let user_server = listener.local_addr().unwrap().port();
        let config = own.server.clone();
        let tls: Serving = Arc::new(move || config.clone());
        let of_users = stop.clone();
        tokio::spawn(async move { users.serve(listener, tls, of_users.clone(), of_users).await });
        until(|| tunnel.agents() == 1).await;
        Self {
            hub,
            cluster,
            tunnel,
            agent,
            allowed,
            user_server,
            user_server_ca: own.pem,
            stop,
        }
    }

    /// A client that reaches a cluster by the user-server.
    fn through(&self, cluster: &str, token: &str) -> Client {
        let url = format!("https://127.0.0.1:{}/{cluster}", self.user_server);
        let mut config = Config::new(url.parse().unwrap());
        let roots = CertificateDer::pem_slice_iter(self.user_server_ca.as_bytes());
        config.root_cert = Some(roots.map(|it| it.unwrap().to_vec()).collect());
        config.auth_info = AuthInfo {
            token: Some(token.to_owned().into()),
            ..AuthInfo::default()
        };
        Client::try_from(config).unwrap()
    }

    /// What a request gets, as `status body`.
    async fn raw(&self, request: &str) -> String {
        let stream = TcpStream::connect(("127.0.0.1", self.user_server)).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connector = TlsConnector::from(trusting(&self.user_server_ca));
        let mut stream = connector.connect(name, stream).await.unwrap();
        let request = request.replace('\n', "\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        format!("{} {}", head.split(' ').nth(1).unwrap_or_default(), body.trim())
    }

    async fn get(&self, path: &str, headers: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\nHost: x\nConnection: close\n{headers}\n");
        self.raw(&request).await
    }

    fn allow(&self, text: &str) {
        let data = BTreeMap::from([("list".to_owned(), text.to_owned())]);
        *self.allowed.write() = AllowList::read(&data).unwrap();
    }
}

fn start_agent(authority: &Authority, server: u16, proxy: u16, stop: &CancellationToken) -> CancellationToken {
    let config = authority.client("open-cluster-management:cluster-proxy:proxy-agent");
    let agent = TunnelAgent::new(agent::Options {
        id: CLUSTER.to_owned(),
        identifiers: format!("host={}", service_proxy_host(CLUSTER)),
        server: Arc::new(move || {
            let config = config.clone();
            Box::pin(async move {
                let stream = TcpStream::connect(("127.0.0.1", server)).await?;
                let name = ServerName::try_from("localhost").unwrap();
                let stream = TlsConnector::from(config).connect(name, stream).await?;
                Ok(Box::new(stream) as Box<dyn agent::Io>)
            })
        }),
        target: Arc::new(move |address| {
            assert_eq!(address, format!("{}:7443", service_proxy_host(CLUSTER)));
            agent::tcp(format!("127.0.0.1:{proxy}"))
        }),
        connections: 10_000,
    });
    let own = stop.child_token();
    let of_run = own.clone();
    tokio::spawn(async move { agent.run(of_run, Duration::from_millis(100)).await });
    own
}

/// Its port, and what trusts it.
async fn service_proxy(hub: &Site, cluster: &Site, stop: &CancellationToken) -> (u16, String) {
    let own = account(cluster, "proxy").await;
    grant(cluster, "proxy", "system:serviceaccount:default:proxy", "cluster-admin").await;
    let server = ClusterApi {
        address: cluster.address.to_string(),
        name: "127.0.0.1".to_owned(),
        tls: trusting(cluster.server.pki().ca_pem()),
        token: Arc::new(move || io::Result::Ok(own.clone())),
    };
    let callers = Callers::new(cluster.client(), Some(hub.client()), Duration::from_secs(10));
    let proxy = ServiceProxy::new(server, trusting(cluster.server.pki().ca_pem()), callers);
    let shown = shown(&[&service_proxy_host(CLUSTER)]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (config, stop) = (shown.server.clone(), stop.clone());
    let tls: Serving = Arc::new(move || config.clone());
    tokio::spawn(async move {
        user_server::serve(listener, tls, stop.clone(), stop, Arc::new(proxy)).await;
    });
    (port, shown.pem)
}

/// A ServiceAccount, and a token of it.
async fn account(site: &Site, name: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(site.client(), "default");
    let mut account = ServiceAccount::default();
    account.metadata.name = Some(name.to_owned());
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(3600),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await
        .unwrap();
    answer.status.unwrap().token.unwrap()
}

async fn grant(site: &Site, name: &str, user: &str, role: &str) {
    let text = format!(
        "{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {{name: {name}}}, \
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {role}}}, \
         subjects: [{{kind: User, apiGroup: rbac.authorization.k8s.io, name: '{user}'}}]}}"
    );
    site.apply(&text).await;
}

async fn until(holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it did not come about");
        tokio::task::yield_now().await;
    }
}

async fn whoami(client: Client) -> Value {
    let api: Api<SelfSubjectReview> = Api::all(client);
    let review = api.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    serde_json::to_value(review.unwrap().status.unwrap().user_info.unwrap()).unwrap()
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_the_cluster_passes_unchanged() {
    let world = World::start().await;
    let token = account(&world.cluster, "ci").await;
    let name = "system:serviceaccount:default:ci";
    let client = world.through(CLUSTER, &token);
    assert_eq!(whoami(client.clone()).await["username"], name);
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    assert!(maps.list(&Default::default()).await.is_err());
    grant(&world.cluster, "ci", name, "cluster-admin").await;
    let direct: Api<ConfigMap> = Api::namespaced(world.cluster.client(), "default");
    direct
        .create(&PostParams::default(), &config_map("made-directly"))
        .await
        .unwrap();
    let listed = maps.list(&Default::default()).await.unwrap();
    assert!(listed.iter().any(|it| it.name_any() == "made-directly"));
    // And a watch tells what comes.
    let events = watcher::watcher(maps.clone(), watcher::Config::default());
    let mut events = std::pin::pin!(events);
    while !matches!(events.try_next().await.unwrap(), Some(watcher::Event::InitDone)) {}
    let mut big = config_map("later");
    big.binary_data = Some([("b".to_owned(), ByteString(vec![7; 300_000]))].into());
    direct.create(&PostParams::default(), &big).await.unwrap();
    loop {
        let event = tokio::time::timeout(Duration::from_secs(20), events.try_next()).await;
        if let Some(watcher::Event::Apply(map)) = event.unwrap().unwrap()
            && map.name_any() == "later"
        {
            assert_eq!(map.binary_data.unwrap()["b"].0.len(), 300_000);
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_the_hub_is_impersonated() {
    let world = World::start().await;
    let token = account(&world.hub, "admin").await;
    let client = world.through(CLUSTER, &token);
    let who = whoami(client.clone()).await;
    let name = "cluster:hub:system:serviceaccount:default:admin";
    assert_eq!(who["username"], name);
    assert!(
        who["groups"]
            .as_array()
            .unwrap()
            .contains(&json!("system:serviceaccounts"))
    );
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    assert!(maps.list(&Default::default()).await.is_err());
    grant(&world.cluster, "hub-admin", name, "cluster-admin").await;
    maps.list(&Default::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_and_missing_tokens_are_refused() {
    let world = World::start().await;
    let refused = "401 authentication failed: token is neither valid for managed cluster nor hub cluster";
    assert_eq!(world.get("/cluster1/version", "").await, refused);
    assert_eq!(
        world.get("/cluster1/version", "Authorization: Bearer x.y.z\n").await,
        refused
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_impersonates_does_so_with_his_own_rights() {
    let world = World::start().await;
    let token = account(&world.cluster, "ci").await;
    let headers = format!("Authorization: Bearer {token}\nImpersonate-User: jo\n");
    let denied = world.get("/cluster1/api/v1/namespaces", &headers).await;
    assert!(
        denied.starts_with("403") && denied.contains("cannot impersonate"),
        "{denied}"
    );
    // A token of the hub is not exchanged for one of the proxy then.
    let of_hub = account(&world.hub, "ci").await;
    let headers =
        format!("Authorization: Bearer {of_hub}\nImpersonate-User: system:admin\nImpersonate-Group: system:masters\n");
    let denied = world.get("/cluster1/api/v1/namespaces", &headers).await;
    assert!(denied.starts_with("401"), "{denied}");
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_headers_and_paths_have_no_effect() {
    let world = World::start().await;
    let token = account(&world.cluster, "ci").await;
    grant(
        &world.cluster,
        "ci",
        "system:serviceaccount:default:ci",
        "cluster-admin",
    )
    .await;
    let forged = format!(
        "Authorization: Bearer {token}\nCluster-Proxy-Namespace: kube-system\nCluster-Proxy-Service: secret\n\
         Cluster-Proxy-Proto: http\nCluster-Proxy-Port: 80\n"
    );
    let answer = world.get("/cluster1/version", &forged).await;
    assert!(answer.starts_with("200") && answer.contains("gitVersion"), "{answer}");
    for path in [
        "/cluster1/../cluster2/api",
        "/cluster1/%2e%2e/x",
        "//version",
        "/cluster1",
    ] {
        let answer = world.get(path, &forged).await;
        assert!(
            answer.starts_with("400 requestURL format not correct"),
            "{path}: {answer}"
        );
    }
    let unknown = world.get("/cluster2/version", &forged).await;
    assert!(
        unknown.starts_with("502 ") && unknown.ends_with("No agent available"),
        "{unknown}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_denied_until_it_is_listed() {
    let world = World::start().await;
    let path = "/cluster1/api/v1/namespaces/ns/services/http:web:8080/proxy-service/x";
    let denied = "403 service ns/web is not in the exposed services allowlist";
    assert_eq!(world.get(path, "").await, denied);
    world.allow("- {namespace: ns, service: web, port: 8080, protocol: http}");
    // Its name resolves on the cluster, and not here: it was let through.
    let answer = world.get(path, "").await;
    assert!(answer.starts_with("502 proxy to the target failed"), "{answer}");
    let other = path.replace("8080", "9090");
    assert_eq!(world.get(&other, "").await, denied);
    world.allow("");
    assert_eq!(world.get(path, "").await, denied);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_goes_fails_open_requests_at_once() {
    let world = World::start().await;
    let token = account(&world.cluster, "ci").await;
    grant(
        &world.cluster,
        "ci",
        "system:serviceaccount:default:ci",
        "cluster-admin",
    )
    .await;
    let mut watches = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let maps: Api<ConfigMap> = Api::namespaced(world.through(CLUSTER, &token), "default");
        let params = ocm_addon_sdk::kube::api::WatchParams::default();
        let events = maps.watch(&params, "0").await.unwrap();
        watches.spawn(async move {
            let events = events.map_err(|_| ());
            let _ = events.try_for_each(|_| async { Ok(()) }).await;
        });
    }
    until(|| world.tunnel.connections() >= 50).await;
    world.agent.cancel();
    let all = async { while watches.join_next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(20), all).await.unwrap();
    let headers = format!("Authorization: Bearer {token}\n");
    let answer = world.get("/cluster1/version", &headers).await;
    assert!(
        answer.starts_with("502 ") && answer.ends_with("No agent available"),
        "{answer}"
    );
    until(|| world.tunnel.connections() == 0).await;
}
