//! The commands of a real kubectl, one after the other, as somebody types them.

use crate::{
    check::{Check, must},
    cx::{CSRS, Cx, Ran, csr, signing_request},
};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "200",
            "kubectl creates, applies, compares, watches, edits, patches, scales, rolls out, waits, deletes, and asks for rights and tokens",
            commands,
        )
        .with_program("kubectl"),
    ]
}

/// kubectl in the check's namespace.
struct Shell {
    c: Cx,
    namespace: String,
}

impl Shell {
    async fn run(&self, line: &str) -> Ran {
        self.feed(line, "").await
    }

    async fn feed(&self, line: &str, input: &str) -> Ran {
        self.edit(line, input, "false").await
    }

    async fn edit(&self, line: &str, input: &str, editor: &str) -> Ran {
        let mut arguments = vec!["-n", self.namespace.as_str()];
        arguments.extend(line.split(' '));
        self.c.kubectl_edit(&arguments, input, editor).await
    }
}

const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c1, image: 'img:1'}]}
";

async fn commands(c: Cx) {
    let namespace = c.namespace().await;
    let shell = Shell { c, namespace };
    objects(&shell).await;
    differences(&shell).await;
    watching(&shell).await;
    workload(&shell).await;
    rights(&shell).await;
    certificates(&shell).await;
    cluster(&shell).await;
}

async fn objects(it: &Shell) {
    it.run("create configmap fruit --from-literal=a=apple")
        .await
        .ok()
        .prints("configmap/fruit created");
    it.run("create configmap fruit --from-literal=a=apple")
        .await
        .ends(1)
        .prints("configmaps \"fruit\" already exists");
    it.run("get configmap missing")
        .await
        .ends(1)
        .prints("Error from server (NotFound): configmaps \"missing\" not found");
    it.run("create secret generic s --from-literal=k=v")
        .await
        .ok()
        .prints("secret/s created");
    it.run("get configmaps,secrets -o name")
        .await
        .ok()
        .prints("configmap/fruit\n")
        .prints("secret/s\n");
    it.run("label configmap fruit tier=x")
        .await
        .ok()
        .prints("configmap/fruit labeled");
    it.run("label configmap fruit tier=y")
        .await
        .ends(1)
        .prints("'tier' already has a value (x), and --overwrite is false");
    it.run("annotate configmap fruit note=x")
        .await
        .ok()
        .prints("configmap/fruit annotated");
    it.run("get configmaps -l tier=x -o jsonpath={.items[*].metadata.annotations.note}")
        .await
        .ok()
        .prints("x");
    it.run("patch configmap fruit --type=merge -p {\"data\":{\"b\":\"banana\"}}")
        .await
        .ok()
        .prints("configmap/fruit patched");
    it.run("patch configmap fruit -p {\"data\":{\"b\":\"banana\"}}")
        .await
        .ok()
        .prints("configmap/fruit patched (no change)");
    it.edit("edit configmap fruit", "", "sed -i s/banana/blueberry/")
        .await
        .ok()
        .prints("configmap/fruit edited");
    it.run("get configmap fruit -o jsonpath={.data.b}")
        .await
        .ok()
        .prints("blueberry");
    it.edit("edit configmap fruit", "", "sed -n /nothing/p")
        .await
        .ok()
        .prints("Edit cancelled, no changes made.");
    it.run("describe configmap fruit")
        .await
        .ok()
        .prints("blueberry")
        .prints("tier=x");
    it.run("wait --for=jsonpath={.data.b}=blueberry configmap/fruit --timeout=60s")
        .await
        .ok()
        .prints("configmap/fruit condition met");
    let read = it.run("get configmap fruit -o yaml").await.ok();
    it.feed("replace -f -", &read.out.replace("blueberry", "cherry"))
        .await
        .ok()
        .prints("configmap/fruit replaced");
    it.feed("replace -f -", &read.out)
        .await
        .ends(1)
        .prints("Error from server (Conflict)");
    it.run("delete secret s --wait=true")
        .await
        .ok()
        .prints("secret \"s\" deleted");
    it.run("wait --for=delete secret/s --timeout=60s").await.ok();
    it.run("delete secret s").await.ends(1);
    it.run("delete secret s --ignore-not-found").await.ok();
}

async fn differences(it: &Shell) {
    if !it.c.has_program("diff") {
        return;
    }
    it.feed("diff -f -", WEB).await.ends(1).prints("+  name: web");
    it.run("get deployment web").await.ends(1);
    it.feed("apply -f -", WEB)
        .await
        .ok()
        .prints("deployment.apps/web created");
    let same = it.feed("diff -f -", WEB).await.ok();
    assert!(same.out.is_empty(), "{}", same.out);
    let other = WEB.replace("img:1", "img:2");
    for line in ["diff -f -", "diff --server-side -f -"] {
        it.feed(line, &other)
            .await
            .ends(1)
            .prints("-      - image: img:1")
            .prints("+      - image: img:2");
    }
    // Asking changes nothing.
    it.run("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}")
        .await
        .ok()
        .prints("img:1");
    it.feed("apply --server-side --force-conflicts -f -", WEB)
        .await
        .ok()
        .prints("deployment.apps/web serverside-applied");
    it.feed("apply --server-side --field-manager=other -f -", &other)
        .await
        .ends(1)
        .prints("conflict");
    it.feed("apply --dry-run=server -f -", &other)
        .await
        .ok()
        .prints("deployment.apps/web configured (server dry run)");
}

/// It prints what is there, then what happens, until it is ended.
async fn watching(it: &Shell) {
    let home = tempfile::TempDir::new().unwrap();
    let format = "jsonpath={.data.a}{\"\\n\"}";
    // A watch of one name loses what comes between its first line and its start, which is kubectl's doing;
    // a list's does not.
    let only = "metadata.name=fruit";
    let mut arguments = vec!["-n", &it.namespace, "get", "configmaps", "--field-selector", only];
    arguments.extend(["-w", "-o", format]);
    let mut child = it.c.kubectl_command(home.path(), &arguments).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await;
        line.expect("a line in time").unwrap().expect("a line")
    };
    assert_eq!(next().await, "apple");
    for fruit in ["avocado", "apricot"] {
        let path = format!("/api/v1/namespaces/{}/configmaps/fruit", it.namespace);
        it.c.merge(&path, json!({"data": {"a": fruit}})).await.is(200);
        assert_eq!(next().await, fruit);
    }
    child.kill().await.unwrap();
    let printed = it
        .run("get configmaps -w --output-watch-events --request-timeout=2s")
        .await;
    assert!(
        printed.out.contains("ADDED") && printed.out.contains("fruit"),
        "{}",
        printed.out
    );
}

async fn workload(it: &Shell) {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/web", it.namespace);
    it.run("get deployment web -o wide").await.ok().prints("img:1");
    it.run("set image deployment/web c1=img:3")
        .await
        .ok()
        .prints("deployment.apps/web image updated");
    it.run("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}")
        .await
        .ok()
        .prints("img:3");
    it.run("set env deployment/web COLOR=red")
        .await
        .ok()
        .prints("deployment.apps/web env updated");
    it.run("rollout restart deployment/web")
        .await
        .ok()
        .prints("deployment.apps/web restarted");
    if it.c.is_embedded() {
        // There is no controller of Deployments; what it would write of one without pods.
        let generation = it.c.get(&path).await.is(200)["metadata"]["generation"].clone();
        let status = json!({"status": {"observedGeneration": generation,
            "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}]}});
        it.c.merge(&format!("{path}/status"), status).await.is(200);
    }
    it.run("rollout status deployment/web --timeout=90s")
        .await
        .ok()
        .prints("deployment \"web\" successfully rolled out");
    it.run("wait --for=condition=Available deployment/web --timeout=90s")
        .await
        .ok()
        .prints("deployment.apps/web condition met");
    it.run("scale deployment web --replicas=2 --current-replicas=5")
        .await
        .ends(1)
        .prints("Expected replicas to be 5, was 0");
    it.run("scale deployment web --replicas=2")
        .await
        .ok()
        .prints("deployment.apps/web scaled");
    it.c.get(&path).await.is(200).has("/spec/replicas", 2);
    it.run("describe deployment web").await.ok().prints("COLOR:");
    it.run("expose deployment web --port=80")
        .await
        .ok()
        .prints("service/web exposed");
    it.run("get all")
        .await
        .ok()
        .prints("deployment.apps/web")
        .prints("service/web");
    it.feed("delete -f -", WEB)
        .await
        .ok()
        .prints("deployment.apps \"web\" deleted");
    it.run("delete service web").await.ok();
}

async fn rights(it: &Shell) {
    let account = format!("system:serviceaccount:{}:robot", it.namespace);
    it.run("create serviceaccount robot")
        .await
        .ok()
        .prints("serviceaccount/robot created");
    let token = it.run("create token robot --duration=10m").await.ok();
    assert_eq!(token.out.trim().split('.').count(), 3, "{}", token.out);
    it.run("auth can-i delete pods").await.ok().prints("yes");
    it.run(&format!("auth can-i get pods --as={account}"))
        .await
        .ends(1)
        .prints("no");
    it.run("create role reader --verb=get,list --resource=pods,deployments.apps/scale")
        .await
        .ok()
        .prints("role.rbac.authorization.k8s.io/reader created");
    it.run(&format!(
        "create rolebinding reader --role=reader --serviceaccount={}:robot",
        it.namespace
    ))
    .await
    .ok()
    .prints("rolebinding.rbac.authorization.k8s.io/reader created");
    let reads = format!("/api/v1/namespaces/{}/pods", it.namespace);
    let ask = crate::client::Ask::get(reads).user(&account, &[]);
    it.c.until_asked(&it.c.admin, &ask, |it| it.code == 200).await;
    it.run(&format!("auth can-i get pods --as={account}"))
        .await
        .ok()
        .prints("yes");
    it.run(&format!("auth can-i --list --as={account}"))
        .await
        .ok()
        .prints("deployments.apps/scale")
        .prints("[get list]");
    it.run(&format!("auth whoami --as={account}"))
        .await
        .ok()
        .prints(&account)
        .prints("system:serviceaccounts");
    it.run(&format!("get secrets --as={account}"))
        .await
        .ends(1)
        .prints(&format!(
            "Error from server (Forbidden): secrets is forbidden: User \"{account}\" cannot list resource \"secrets\""
        ));
}

async fn certificates(it: &Shell) {
    let c = &it.c;
    let (request, _) = signing_request("bob", &[]);
    let (name, denied) = (c.name("csr"), c.name("denied"));
    for name in [&name, &denied] {
        let object = csr(name, &request, "kubernetes.io/kube-apiserver-client", &["client auth"]);
        c.make(CSRS, object).await;
    }
    it.run(&format!("certificate approve {name}"))
        .await
        .ok()
        .prints(&format!(
            "certificatesigningrequest.certificates.k8s.io/{name} approved"
        ));
    it.run(&format!("certificate deny {denied}"))
        .await
        .ok()
        .prints(&format!(
            "certificatesigningrequest.certificates.k8s.io/{denied} denied"
        ));
    c.until(&format!("{CSRS}/{name}"), |it| it.at("/status/certificate").is_string())
        .await;
    it.run(&format!("get csr {name} {denied}"))
        .await
        .ok()
        .prints("Approved,Issued")
        .prints("Denied");
}

async fn cluster(it: &Shell) {
    let address = format!("https://{}:{}", it.c.target.host, it.c.target.port);
    it.run("cluster-info")
        .await
        .ok()
        .prints("Kubernetes control plane")
        .prints(&address);
    it.run("version").await.ok().prints("Server Version: v1.");
    it.run("api-versions")
        .await
        .ok()
        .prints("apps/v1\n")
        .prints("rbac.authorization.k8s.io/v1\n");
    it.run("api-resources --api-group=apps -o name")
        .await
        .ok()
        .prints("deployments.apps\n");
    it.run("explain deployment.spec.replicas")
        .await
        .ok()
        .prints("FIELD: replicas <integer>");
    it.run("get --raw /readyz").await.ok().prints("ok");
    it.run("get namespaces -o wide").await.ok().prints("kube-system");
    let name = it.c.name("made");
    it.run(&format!("create namespace {name}"))
        .await
        .ok()
        .prints(&format!("namespace/{name} created"));
    it.run(&format!("delete namespace {name} --timeout=90s"))
        .await
        .ok()
        .prints(&format!("namespace \"{name}\" deleted"));
    it.c.get(&format!("/api/v1/namespaces/{name}")).await.is(404);
}
