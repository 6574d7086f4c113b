//! The commands of a real helm, as somebody types them: with the charts of a hub and an agent, and with one that has
//! definitions and hooks.

use crate::{
    check::{Check, must},
    cx::{CRDS, Cx, ONE_INSTALLATION, Ran, is_established},
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "201",
            "helm installs, upgrades, rolls back, lists and uninstalls the charts of hub and agent, and one with definitions and hooks",
            charts,
        )
        .with_program("helm"),
    ]
}

async fn charts(c: Cx) {
    let _only = ONE_INSTALLATION.lock().await;
    tokio::join!(definitions_and_hooks(&c), hub(&c), agent(&c));
}

/// helm in a namespace.
struct Shell<'a> {
    c: &'a Cx,
    namespace: String,
}

impl Shell<'_> {
    async fn run(&self, line: &str) -> Ran {
        let mut arguments = vec!["--namespace", self.namespace.as_str()];
        arguments.extend(line.split(' '));
        self.c.run("helm", &arguments).await
    }

    async fn json(&self, line: &str) -> Value {
        let ran = self.run(&format!("{line} --output json")).await.ok();
        serde_json::from_str(&ran.out).unwrap_or_else(|it| panic!("{}: {it}: {}", ran.what, ran.out))
    }

    /// The releases of the namespace: name, revision and status.
    async fn releases(&self) -> Vec<(String, String, String)> {
        let all = self.json("list --all").await;
        let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
        let all = all.as_array().expect("a list").iter();
        all.map(|it| (text(it, "name"), text(it, "revision"), text(it, "status")))
            .collect()
    }
}

fn release(name: &str, revision: &str, status: &str) -> (String, String, String) {
    (name.to_owned(), revision.to_owned(), status.to_owned())
}

const SETTINGS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {mark: {{ .Values.mark | quote }}}}
data:
  colour: {{ .Values.colour | quote }}
  known: {{ .Capabilities.APIVersions.Has \"apps/v1/Deployment\" | quote }}
  namespace: {{ (lookup \"v1\" \"Namespace\" \"\" .Release.Namespace).metadata.name | quote }}
";

const HOOK: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: hook
  annotations:
    helm.sh/hook: pre-install,pre-upgrade,pre-rollback
    helm.sh/hook-delete-policy: before-hook-creation
data: {revision: {{ .Release.Revision | quote }}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: passing
  annotations: {helm.sh/hook: post-install, helm.sh/hook-delete-policy: hook-succeeded}
";

/// A chart with a definition, an object of it, a ConfigMap and two hooks.
fn write_chart(folder: &Path, group: &str) {
    let write = |path: &str, text: &str| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("Chart.yaml", "{apiVersion: v2, name: lamps, version: 0.1.0}");
    write("values.yaml", "{colour: red, mark: none}");
    let definition = crate::cx::definition(group, "lamps", "Lamp", json!({}));
    write("crds/lamps.yaml", &definition.to_string());
    write("templates/settings.yaml", SETTINGS);
    write("templates/hook.yaml", HOOK);
    let lamp = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Lamp", "metadata": {"name": "one"},
        "spec": {"a": "{{ .Values.colour }}"},
    });
    write("templates/lamp.yaml", &lamp.to_string());
}

async fn definitions_and_hooks(c: &Cx) {
    let folder = tempfile::TempDir::new().unwrap();
    let (chart, group) = (folder.path().to_str().unwrap(), c.group());
    write_chart(folder.path(), &group);
    let shell = Shell {
        c,
        namespace: c.namespace_called("lamps").await,
    };
    let namespace = &shell.namespace;
    let (maps, lamp) = (
        format!("/api/v1/namespaces/{namespace}/configmaps"),
        format!("/apis/{group}/v1/namespaces/{namespace}/lamps/one"),
    );
    let (settings, hook) = (format!("{maps}/settings"), format!("{maps}/hook"));
    let crd = format!("{CRDS}/lamps.{group}");
    c.removes(&crd);
    let made = shell.json(&format!("install lamp {chart} --wait")).await;
    assert_eq!(
        (&made["info"]["status"], &made["version"]),
        (&json!("deployed"), &json!(1))
    );
    assert!(is_established(&c.get(&crd).await.is(200).json));
    c.get(&lamp).await.is(200).has("/spec/a", "red");
    let labels = json!({"app.kubernetes.io/managed-by": "Helm", "mark": "none"});
    c.get(&settings)
        .await
        .is(200)
        .has(
            "/data",
            json!({"colour": "red", "known": "true", "namespace": namespace}),
        )
        .has("/metadata/labels", labels);
    c.get(&hook).await.is(200).has("/data/revision", "1");
    c.get(&format!("{maps}/passing")).await.is(404);
    c.get(&format!(
        "/api/v1/namespaces/{namespace}/secrets/sh.helm.release.v1.lamp.v1"
    ))
    .await
    .is(200)
    .has("/type", "helm.sh/release.v1");
    assert_eq!(shell.releases().await, [release("lamp", "1", "deployed")]);
    shell
        .run(&format!("install lamp {chart}"))
        .await
        .ends(1)
        .prints("cannot re-use a name that is still in use");
    // What somebody else added stays, what somebody else changed does not.
    c.merge(&settings, json!({"data": {"colour": "grey", "mine": "yes"}}))
        .await
        .is(200);
    shell
        .run(&format!("upgrade lamp {chart} --set colour=blue --dry-run=server"))
        .await
        .ok()
        .prints("colour: \"blue\"");
    c.get(&settings).await.has("/data/colour", "grey");
    shell
        .run(&format!("upgrade --install lamp {chart} --set colour=blue"))
        .await
        .ok()
        .prints("REVISION: 2");
    c.get(&settings)
        .await
        .has("/data/colour", "blue")
        .has("/data/mine", "yes");
    c.get(&lamp).await.has("/spec/a", "blue").has("/metadata/generation", 2);
    c.get(&hook).await.has("/data/revision", "2");
    // The server refuses the value of a label, and says why.
    shell
        .run(&format!("upgrade lamp {chart} --set mark=a/b"))
        .await
        .ends(1)
        .prints("metadata.labels: Invalid value: \"a/b\"");
    assert_eq!(shell.releases().await, [release("lamp", "3", "failed")]);
    shell.run("rollback lamp 1").await.ok().prints("Rollback was a success");
    c.get(&settings)
        .await
        .has("/data/colour", "red")
        .has("/data/mine", "yes");
    c.get(&lamp).await.has("/spec/a", "red");
    let history = shell.json("history lamp").await;
    let statuses: Vec<_> = history.as_array().unwrap().iter().map(|it| &it["status"]).collect();
    assert_eq!(statuses, ["superseded", "superseded", "failed", "deployed"]);
    shell
        .run("get values lamp --revision 2")
        .await
        .ok()
        .prints("colour: blue");
    shell.run("get manifest lamp").await.ok().prints("colour: \"red\"");
    shell.run("status lamp").await.ok().prints("STATUS: deployed");
    shell
        .run("uninstall lamp --wait")
        .await
        .ok()
        .prints("release \"lamp\" uninstalled");
    c.get(&settings).await.is(404);
    c.get(&lamp).await.is(404);
    assert_eq!(shell.releases().await, []);
    // Of hooks and definitions helm takes none away.
    c.get(&hook).await.is(200);
    c.get(&crd).await.is(200);
}

fn chart_of(program: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/charts")
        .join(program);
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// The paths of what a manifest has outside of namespaces.
fn cluster_wide(manifest: &str) -> Vec<String> {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    let objects = manifest.split("\n---\n").filter_map(|text| {
        let of = |key: &str| {
            let lines = text.lines().filter_map(|it| it.strip_prefix(key));
            lines.map(|it| it.trim().trim_matches('"').to_owned()).next()
        };
        let name = of("  name:")?;
        let collection = match of("kind:")?.as_str() {
            "ClusterRole" => format!("{RBAC}/clusterroles"),
            "ClusterRoleBinding" => format!("{RBAC}/clusterrolebindings"),
            "Namespace" => "/api/v1/namespaces".to_owned(),
            _ => return None,
        };
        Some(format!("{collection}/{name}"))
    });
    objects.collect()
}

/// A chart of ours through its life: no pod of it is waited for.
async fn life(c: &Cx, program: &str, deployment: &str, values: &str) {
    let shell = Shell {
        c,
        namespace: c.namespace_called(program).await,
    };
    let chart = chart_of(program);
    let log = |it: &crate::client::Reply| it.at("/spec/template/spec/containers/0").to_string();
    shell
        .run(&format!("install ours {chart} {values}"))
        .await
        .ok()
        .prints("STATUS: deployed");
    let first = c.get(deployment).await.is(200);
    // They are ours from here on: whatever ends the check, they go with it.
    let made = shell.run("get manifest ours").await.ok();
    for path in cluster_wide(&made.out) {
        c.removes(&path);
    }
    shell
        .run(&format!("upgrade ours {chart} {values} --set log=debug"))
        .await
        .ok()
        .prints("REVISION: 2");
    let second = c.get(deployment).await.is(200).has("/metadata/generation", 2);
    assert!(
        !log(&first).contains("debug") && log(&second).contains("debug"),
        "{}",
        second.came()
    );
    shell.run("rollback ours").await.ok();
    let third = c.get(deployment).await.is(200).has("/metadata/generation", 3);
    assert_eq!(log(&third), log(&first));
    assert_eq!(shell.releases().await, [release("ours", "3", "deployed")]);
    shell.run("uninstall ours").await.ok();
    assert_eq!(shell.releases().await, []);
    let left = cluster_wide(&made.out);
    assert!(left.len() > 2, "{}", made.out);
    for path in left.iter().filter(|it| it.contains("clusterrole")) {
        c.get(path).await.is(404);
    }
    let namespace = deployment
        .split("/deployments/")
        .next()
        .unwrap()
        .rsplit('/')
        .next()
        .unwrap();
    c.until_gone(&format!("/api/v1/namespaces/{namespace}")).await;
}

async fn hub(c: &Cx) {
    let deployment = "/apis/apps/v1/namespaces/open-cluster-management-hub/deployments/drover-hub";
    life(c, "drover-hub", deployment, "--set replicas=0").await;
}

async fn agent(c: &Cx) {
    let deployment = "/apis/apps/v1/namespaces/open-cluster-management-agent/deployments/drover-agent";
    life(c, "drover-agent", deployment, "--set bootstrapKubeconfig=none").await;
}
