//! A real helm reads, changes and takes away what we have installed, and we what it has. Without the program `helm`
//! nothing is tested here; CI builds it.

use std::process::Command;

use ocm_addon_sdk::kube::api::DeleteParams;
use serde_json::{Value, json};
use testkit::wait;

use crate::ground::{NAME, TEAM, World, annotated, map};

struct Helm {
    home: tempfile::TempDir,
}

impl Helm {
    fn find(world: &World) -> Option<Self> {
        if Command::new("helm").arg("version").output().is_err() {
            println!("there is no helm");
            return None;
        }
        let home = tempfile::TempDir::new().unwrap();
        let kubeconfig = world.site.kubeconfig("admin", &["system:masters"]).unwrap();
        std::fs::write(home.path().join("kubeconfig"), kubeconfig).unwrap();
        Some(Self { home })
    }

    async fn run(&self, line: &str) -> String {
        let home = self.home.path().to_owned();
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let ran = tokio::task::spawn_blocking(move || {
            Command::new("helm")
                .args(["--namespace", TEAM])
                .args(arguments)
                .current_dir(&home)
                .env("HOME", &home)
                .env("KUBECONFIG", home.join("kubeconfig"))
                .output()
                .unwrap()
        });
        let ran = ran.await.unwrap();
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        assert!(ran.status.success(), "helm {line}: {}", text(&ran.stderr));
        text(&ran.stdout)
    }

    async fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.run(&format!("{line} --output json")).await).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_takes_our_release_for_its_own() {
    let world = World::start().await;
    let Some(helm) = Helm::find(&world) else { return };
    let hook = annotated(
        "hook",
        "{helm.sh/hook: 'pre-install,pre-rollback', helm.sh/hook-weight: '3'}",
        "{}",
    );
    let a = map("a", "{x: '{{ .Values.x }}', y: '{{ .Values.y }}'}");
    let templates = [
        ("a.yaml", a.as_str()),
        ("h.yaml", &hook),
        ("NOTES.txt", "Good."),
        ("values.yaml", "y: 1\n"),
    ];
    world.chart("1.0.0", &templates);
    world.install(json!({"x": "1"})).await;
    world.map("a", "x", "1").await;
    world.told("Deployed", "InstallSuccessful").await;
    world.chart("1.1.0", &[&templates[..], &[("b.yaml", &map("b", "{}"))]].concat());
    world.patch(json!({"spec": {"x": "2"}})).await;
    let release = world.told("Deployed", "UpgradeSuccessful").await;

    let listed = helm.json("list --all").await;
    let facts = json!({
        "name": NAME, "namespace": TEAM, "revision": "2", "status": "deployed", "chart": "web-1.1.0",
    });
    for (key, value) in facts.as_object().unwrap() {
        assert_eq!(listed[0][key], *value, "{key}");
    }
    let status = helm.json("status web").await;
    assert_eq!(status["info"]["description"], "Upgrade complete");
    assert_eq!(status["info"]["notes"], "Good.");
    assert_eq!(status["hooks"][0]["weight"], 3);
    assert_eq!(helm.json("get values web").await, json!({"x": "2"}));
    assert_eq!(helm.json("get values web --all").await, json!({"x": "2", "y": 1}));
    let manifest = release.status.unwrap().deployed_release.unwrap().manifest;
    assert_eq!(helm.run("get manifest web").await.trim(), manifest.trim());
    assert!(helm.run("get hooks web").await.contains("name: hook"));
    assert_eq!(helm.json("get metadata web").await["version"], "1.1.0");
    let history = helm.json("history web").await;
    assert_eq!(history[0]["status"], "superseded");
    assert_eq!(history[1]["description"], "Upgrade complete");

    // What helm rolls back stays so until the HelmRelease says otherwise.
    world.maps().delete("hook", &DeleteParams::default()).await.unwrap();
    helm.run("rollback web 1").await;
    world.map("a", "x", "1").await;
    wait::gone(&world.maps(), "b").await;
    wait::until_with(&world.maps(), "hook", "is there", |it| it.is_some()).await;
    assert_eq!(world.revisions().await, ["1 superseded", "2 superseded", "3 deployed"]);
    world.patch(json!({"spec": {"x": "4"}})).await;
    world.map("a", "x", "4").await;
    wait::until_with(&world.releases(), NAME, "is at the last", |it| {
        let deployed = it.and_then(|it| it.status.as_ref()?.deployed_release.as_ref());
        deployed.is_some_and(|it| it.manifest.contains("x: '4'"))
    })
    .await;
    helm.run("uninstall web").await;
    assert!(world.maps().get_opt("a").await.unwrap().is_none());
    assert!(world.revisions().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_helms_becomes_ours() {
    let world = World::prepare().await;
    let Some(helm) = Helm::find(&world) else { return };
    let chart = helm.home.path().join("web");
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    let metadata = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
    std::fs::write(chart.join("Chart.yaml"), metadata).unwrap();
    std::fs::write(chart.join("templates/a.yaml"), map("a", "{x: '1', z: '1'}")).unwrap();
    std::fs::write(chart.join("templates/b.yaml"), map("b", "{}")).unwrap();
    std::fs::write(chart.join("values.yaml"), "v: 0\n").unwrap();
    let hook = annotated(
        "hook",
        "{helm.sh/hook: 'test,pre-delete', helm.sh/hook-weight: '-2'}",
        "{}",
    );
    std::fs::write(chart.join("templates/h.yaml"), &hook).unwrap();
    std::fs::write(chart.join("templates/NOTES.txt"), "Good.").unwrap();
    helm.run("install web ./web --set v=1 --labels team=a").await;
    if let Ok(record) = std::env::var("HELM_RELEASE_RECORD") {
        let secrets = world.site.api("v1", "Secret", TEAM).await;
        let secret = secrets.get("sh.helm.release.v1.web.v1").await.unwrap();
        let mut secret = serde_json::to_value(secret).unwrap();
        secret["metadata"] = json!({"name": secret["metadata"]["name"], "labels": secret["metadata"]["labels"]});
        std::fs::write(record, serde_json::to_vec_pretty(&secret).unwrap()).unwrap();
    }

    let (a, b) = (map("a", "{x: '1', z: '1'}"), map("b", "{}"));
    let others = [
        ("h.yaml", hook.as_str()),
        ("NOTES.txt", "Good."),
        ("values.yaml", "v: 0\n"),
    ];
    world.chart("1.0.0", &[&others[..], &[("a.yaml", &a), ("b.yaml", &b)]].concat());
    world.install(json!({"v": 1})).await;
    world.run();
    world.told("Deployed", "InstallSuccessful").await;
    assert_eq!(world.revisions().await, ["1 deployed"]);
    world.chart("1.1.0", &[("a.yaml", &map("a", "{x: '2'}"))]);
    world.patch(json!({"spec": {"v": 2}})).await;
    world.told("Deployed", "UpgradeSuccessful").await;
    let data = world.map("a", "x", "2").await.data.unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["x"]);
    wait::gone(&world.maps(), "b").await;
    assert_eq!(helm.json("history web").await.as_array().unwrap().len(), 2);
    world.releases().delete(NAME, &DeleteParams::default()).await.unwrap();
    wait::gone(&world.releases(), NAME).await;
    assert_eq!(helm.json("list --all").await, json!([]));
    assert!(world.maps().get_opt("a").await.unwrap().is_none());
}
