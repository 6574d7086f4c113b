//! Upstream's clusteradm, as somebody types it: a hub and a cluster of it on one server. No pod runs, so what the
//! operators and the agent would do is done here, with the agent's own credential where it has one.

use crate::{
    check::{Check, must},
    client::Ask,
    cluster::Credential,
    cx::{CRDS, CSRS, Cx, ONE_INSTALLATION, RBAC, Ran, WHO, csr, signing_request},
};
use serde_json::json;
use std::path::PathBuf;

const CLUSTERS: &str = "/apis/cluster.open-cluster-management.io/v1/managedclusters";
const OPERATOR: &str = "/apis/operator.open-cluster-management.io/v1";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/open-cluster-management/deployments";
const BOOTSTRAP: &str = "/api/v1/namespaces/open-cluster-management-agent/secrets/bootstrap-hub-kubeconfig";
/// Who a cluster is until it has been accepted.
const ACCOUNT: &str = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap";

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "204",
            "clusteradm initializes a hub, joins and accepts a cluster, and removes both",
            life,
        )
        .with_program("clusteradm"),
    ]
}

async fn run(c: &Cx, line: &str) -> Ran {
    let words: Vec<&str> = line.split(' ').collect();
    c.run("clusteradm", &words).await
}

async fn life(c: Cx) {
    let _only = ONE_INSTALLATION.lock().await;
    removes_all(&c);
    run(&c, "init")
        .await
        .ok()
        .prints("The multicluster hub control plane has been initialized successfully!");
    c.get(&format!("{DEPLOYMENTS}/cluster-manager")).await.is(200);
    c.get(&format!("{OPERATOR}/clustermanagers/cluster-manager"))
        .await
        .is(200)
        .has("/spec/deployOption/mode", "Default");
    // Whoever asks again changes nothing.
    run(&c, "init").await.ok();

    // The hub's kinds, which its operator would define.
    let folder = folder();
    let apply = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "-f",
        folder.to_str().unwrap(),
    ];
    c.kubectl(&apply, "").await.ok();
    // Other checks make and remove definitions meanwhile.
    let established = ["wait", "--for=condition=Established", "-f", folder.to_str().unwrap()];
    c.kubectl(&established, "").await.ok();

    let (name, server) = (c.name("edge"), format!("https://{}:{}", c.target.host, c.target.port));
    let token = token(&c).await;
    let joined = format!("join --hub-token {token} --hub-apiserver {server} --cluster-name {name}");
    run(&c, &joined).await.ok().prints(&format!("accept --clusters {name}"));
    c.get(&format!("{OPERATOR}/klusterlets/klusterlet"))
        .await
        .is(200)
        .has("/spec/clusterName", name.as_str());
    let secret = c.get(BOOTSTRAP).await.is(200);
    assert!(secret.at("/data/kubeconfig").is_string(), "{}", secret.came());

    // The agent asks with what it was given, and may do just that.
    let agent = c.client(&Credential::token(&token));
    let who = agent.send(Ask::post(WHO, &json!({}))).await.is(201);
    who.has("/status/userInfo/username", ACCOUNT);
    let cluster = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": name}, "spec": {"hubAcceptsClient": false},
    });
    agent.send(Ask::post(CLUSTERS, &cluster)).await.is(201);
    c.removes(&format!("{CLUSTERS}/{name}"));
    let user = format!("system:open-cluster-management:{name}");
    let (request, _) = signing_request(
        &format!("{user}:one"),
        &[&user, "system:open-cluster-management:managed-clusters"],
    );
    let mut request = csr(
        &c.name("csr"),
        &request,
        "kubernetes.io/kube-apiserver-client",
        &["digital signature", "key encipherment", "client auth"],
    );
    request["metadata"]["labels"] = json!({"open-cluster-management.io/cluster-name": name});
    agent.send(Ask::post(CSRS, &request)).await.is(201);
    let request = format!("{CSRS}/{}", c.name("csr"));
    c.removes(&request);
    agent.send(Ask::get("/api/v1/namespaces")).await.is(403);

    run(&c, &format!("accept --clusters {name}"))
        .await
        .ok()
        .prints(&format!("Your managed cluster {name} has joined the Hub successfully."));
    c.get(&format!("{CLUSTERS}/{name}"))
        .await
        .is(200)
        .has("/spec/hubAcceptsClient", true);
    c.until(&request, |it| it.at("/status/certificate").is_string()).await;
    run(&c, "get clusters").await.ok().prints(&name);

    run(&c, &format!("unjoin --cluster-name {name}")).await.ok();
    c.until_gone(&format!("{OPERATOR}/klusterlets/klusterlet")).await;
    c.get(&format!("{DEPLOYMENTS}/klusterlet")).await.is(404);
    c.delete(&format!("{CLUSTERS}/{name}")).await.is(200);
    run(&c, "clean").await.ok();
    c.until_gone(&format!("{OPERATOR}/clustermanagers/cluster-manager"))
        .await;
    c.get(&format!("{DEPLOYMENTS}/cluster-manager")).await.is(404);
}

/// The token of the line that `get token` prints.
async fn token(c: &Cx) -> String {
    let ran = run(c, "get token").await.ok();
    let line = ran.out.lines().find_map(|it| it.strip_prefix("token="));
    line.unwrap_or_else(|| panic!("no token in {}", ran.out))
        .trim()
        .to_owned()
}

/// The folder of our definitions.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../crds")
}

/// The names of our definitions: their files are called `GROUP_PLURAL.yaml`.
fn kinds() -> Vec<String> {
    let files = folder().read_dir().unwrap().map(|it| it.unwrap().file_name());
    let name = |file: std::ffi::OsString| {
        let file = file.into_string().ok()?;
        let (group, plural) = file.strip_suffix(".yaml")?.split_once('_')?;
        Some(format!("{plural}.{group}"))
    };
    files.filter_map(name).collect()
}

/// What clusteradm and this check make goes with it, however it ends.
fn removes_all(c: &Cx) {
    for name in kinds() {
        c.removes(&format!("{CRDS}/{name}"));
    }
    for name in ["open-cluster-management", "open-cluster-management-agent"] {
        c.removes(&format!("/api/v1/namespaces/{name}"));
    }
    c.removes("/api/v1/namespaces/kube-public/configmaps/cluster-info");
    for role in ["cluster-manager", "klusterlet", "open-cluster-management:bootstrap"] {
        c.removes(&format!("{RBAC}/clusterroles/{role}"));
    }
    for binding in [
        "cluster-manager",
        "klusterlet",
        "open-cluster-management:bootstrap:agent-registration",
    ] {
        c.removes(&format!("{RBAC}/clusterrolebindings/{binding}"));
    }
    for (kind, name) in [("clustermanagers", "cluster-manager"), ("klusterlets", "klusterlet")] {
        c.removes(&format!("{OPERATOR}/{kind}/{name}"));
    }
}
