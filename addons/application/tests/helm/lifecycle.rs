//! Charts are installed, upgraded, repaired and taken away.

use ocm_addon_sdk::kube::{ResourceExt, api::DeleteParams};
use serde_json::json;
use testkit::wait;

use crate::ground::{NAME, TEAM, World, annotated, condition, map};

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_is_installed_and_told() {
    let world = World::start().await;
    let notes = "Revision {{ .Release.Revision }}";
    world.chart(
        "1.0.0",
        &[("a.yaml", &map("a", "{x: '{{ .Values.x }}'}")), ("NOTES.txt", notes)],
    );
    world.install(json!({"": "", "x": "1"})).await;
    let release = world.told("Deployed", "InstallSuccessful").await;
    let made = world.map("a", "x", "1").await;
    assert_eq!(made.labels()["app.kubernetes.io/managed-by"], "Helm");
    assert_eq!(made.annotations()["meta.helm.sh/release-name"], NAME);
    assert_eq!(made.annotations()["meta.helm.sh/release-namespace"], TEAM);
    assert_eq!(release.finalizers(), ["uninstall-helm-release"]);
    assert_eq!(condition(&release, "Initialized").unwrap().status, "True");
    assert_eq!(condition(&release, "Deployed").unwrap().message, "Revision 1");
    let deployed = release.status.unwrap().deployed_release.unwrap();
    assert_eq!(deployed.name, NAME);
    assert!(deployed.manifest.starts_with("---\n# Source: web/templates/a.yaml\n"));
    assert_eq!(world.revisions().await, ["1 deployed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_takes_away_what_the_chart_drops() {
    let world = World::start().await;
    let kept = annotated("kept", "{helm.sh/resource-policy: keep}", "{}");
    let templates = [
        ("a.yaml", map("a", "{x: '1', y: '1'}")),
        ("b.yaml", map("b", "{}")),
        ("k.yaml", kept),
    ];
    let templates: Vec<_> = templates.iter().map(|(name, text)| (*name, text.as_str())).collect();
    world.chart("1.0.0", &templates);
    world.install(json!({"v": 1})).await;
    world.told("Deployed", "InstallSuccessful").await;
    let others = json!({"data": {"z": "others"}});
    world.patch_map("a", others).await;
    world.chart("1.1.0", &[("a.yaml", &map("a", "{x: '2'}"))]);
    world.patch(json!({"spec": {"v": 2}})).await;
    world.told("Deployed", "UpgradeSuccessful").await;
    let data = world.map("a", "x", "2").await.data.unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["x", "z"]);
    wait::gone(&world.maps(), "b").await;
    assert!(world.maps().get_opt("kept").await.unwrap().is_some());
    assert_eq!(world.revisions().await, ["1 superseded", "2 deployed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_revisions_are_kept() {
    let world = World::start().await;
    world.chart("1.0.0", &[("a.yaml", &map("a", "{x: '{{ .Values.x }}'}"))]);
    world.install(json!({"x": "1"})).await;
    for x in 2..=12 {
        world.map("a", "x", &(x - 1).to_string()).await;
        world.patch(json!({"spec": {"x": x.to_string()}})).await;
    }
    wait::until_with(&world.releases(), NAME, "is at the last", |it| {
        let deployed = it.and_then(|it| it.status.as_ref()?.deployed_release.as_ref());
        deployed.is_some_and(|it| it.manifest.contains("x: '12'"))
    })
    .await;
    let revisions = world.revisions().await;
    assert_eq!(revisions.len(), 10, "{revisions:?}");
    assert_eq!(revisions.last().unwrap(), "12 deployed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_not_changed_is_not_read_again() {
    let world = World::start().await;
    world.chart("1.0.0", &[("a.yaml", &map("a", "{}"))]);
    world.install(json!({})).await;
    world.told("Deployed", "InstallSuccessful").await;
    let reads = world.reads();
    world.patch(json!({"metadata": {"labels": {"a": "b"}}})).await;
    // The next change of the values comes after that of the label.
    world.chart("1.0.0", &[("a.yaml", &map("a", "{x: '1'}"))]);
    world.patch(json!({"spec": {"x": 1}})).await;
    world.told("Deployed", "UpgradeSuccessful").await;
    assert_eq!(world.reads(), reads + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_has_changed_is_repaired() {
    let world = World::start().await;
    let password = map("p", "{password: '{{ randAlphaNum 10 }}'}");
    world.chart(
        "1.0.0",
        &[
            ("a.yaml", &map("a", "{x: '1'}")),
            ("b.yaml", &map("b", "{}")),
            ("p.yaml", &password),
        ],
    );
    world.install(json!({"x": "1"})).await;
    world.told("Deployed", "InstallSuccessful").await;
    let password = world.maps().get("p").await.unwrap().data;
    let changed = json!({"data": {"x": "2"}});
    world.patch_map("a", changed).await;
    world.maps().delete("b", &DeleteParams::default()).await.unwrap();
    world.run();
    world.map("a", "x", "1").await;
    wait::until_with(&world.maps(), "b", "is there again", |it| it.is_some()).await;
    // It is the same revision, although the template makes another password each time.
    assert_eq!(world.revisions().await, ["1 deployed"]);
    assert_eq!(world.maps().get("p").await.unwrap().data, password);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_goes_with_its_helm_release() {
    let world = World::start().await;
    let kept = annotated("kept", "{helm.sh/resource-policy: keep}", "{}");
    let before = annotated("before", "{helm.sh/hook: pre-delete}", "{}");
    let after = annotated("after", "{helm.sh/hook: post-delete}", "{}");
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: web}\nrules: []\n";
    world.chart(
        "1.0.0",
        &[
            ("a.yaml", &map("a", "{}")),
            ("k.yaml", &kept),
            ("b.yaml", &before),
            ("c.yaml", &after),
            ("r.yaml", role),
        ],
    );
    world.install(json!({})).await;
    world.told("Deployed", "InstallSuccessful").await;
    assert!(world.maps().get_opt("before").await.unwrap().is_none());
    world.releases().delete(NAME, &DeleteParams::default()).await.unwrap();
    wait::gone(&world.releases(), NAME).await;
    assert!(world.maps().get_opt("a").await.unwrap().is_none());
    let there = |name: &'static str| async { world.maps().get_opt(name).await.unwrap().is_some() };
    assert!(there("kept").await && there("before").await && there("after").await);
    let roles = world.site.api("rbac.authorization.k8s.io/v1", "ClusterRole", "").await;
    assert!(roles.get_opt("web").await.unwrap().is_none());
    assert!(world.revisions().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_of_a_chart_come_first() {
    let world = World::start().await;
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: \
        things.example.org}\nspec:\n  group: example.org\n  scope: Namespaced\n  names: {kind: Thing, plural: things, \
        singular: thing, listKind: ThingList}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    \
        schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n";
    let thing = "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: one}\nspec: {x: 1}\n";
    world.chart("1.0.0", &[("crds/a.yaml", definition), ("a.yaml", thing)]);
    world.install(json!({})).await;
    world.told("Deployed", "InstallSuccessful").await;
    let things = world.site.api("example.org/v1", "Thing", TEAM).await;
    assert_eq!(things.get("one").await.unwrap().data["spec"]["x"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_without_pods_run_and_others_are_told() {
    let world = World::start().await;
    let hook = annotated(
        "hook",
        "{helm.sh/hook: 'pre-install,pre-upgrade', helm.sh/hook-delete-policy: before-hook-creation}",
        "{revision: '{{ .Release.Revision }}'}",
    );
    let gone = annotated(
        "gone",
        "{helm.sh/hook: post-install, helm.sh/hook-delete-policy: hook-succeeded}",
        "{}",
    );
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate, annotations: {helm.sh/hook: pre-install}}\n";
    world.chart(
        "1.0.0",
        &[
            ("h.yaml", &hook),
            ("g.yaml", &gone),
            ("j.yaml", job),
            ("a.yaml", &map("a", "{}")),
        ],
    );
    world.install(json!({})).await;
    let release = world.told("Deployed", "InstallSuccessful").await;
    assert_eq!(
        condition(&release, "Deployed").unwrap().message,
        "Hooks that need pods were not run: Job migrate (pre-install)"
    );
    let made = world.map("hook", "revision", "1").await;
    assert!(made.annotations().get("meta.helm.sh/release-name").is_none());
    assert!(world.maps().get_opt("gone").await.unwrap().is_none());
    world.patch(json!({"spec": {"x": 1}})).await;
    world.map("hook", "revision", "2").await;
    let release = world.told("Deployed", "UpgradeSuccessful").await;
    assert_eq!(condition(&release, "Deployed").unwrap().message, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_finds_what_is_on_the_cluster() {
    let world = World::start().await;
    let text = "{{ $a := (lookup \"v1\" \"Namespace\" \"\" \"team\").metadata.name }}{{ len (lookup \"v1\" \
        \"Namespace\" \"\" \"\").items | min 1 }} {{ $a }} {{ (lookup \"v1\" \"ConfigMap\" $a \"none\").data }} {{ \
        .Capabilities.APIVersions.Has \"apps.open-cluster-management.io/v1/HelmRelease\" }}";
    world.chart("1.0.0", &[("a.yaml", &map("a", &format!("{{x: '{text}'}}")))]);
    world.install(json!({})).await;
    world.map("a", "x", "1 team  true").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_defaults_is_not_written_again() {
    let world = World::start().await;
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, annotations: null}\nspec:\n  \
        selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      \
        containers:\n      - name: web\n        image: nginx\n        ports: [{containerPort: 80}]\n        env: \
        [{name: A, value: b}]\n        resources: {}\n";
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: \
        80, targetPort: 80}]}\n";
    world.chart(
        "1.0.0",
        &[("a.yaml", &map("a", "{}")), ("d.yaml", deployment), ("s.yaml", service)],
    );
    world.install(json!({})).await;
    world.told("Deployed", "InstallSuccessful").await;
    let deployments = world.site.api("apps/v1", "Deployment", TEAM).await;
    let services = world.site.api("v1", "Service", TEAM).await;
    let versions = async || {
        let deployment = deployments.get("web").await.unwrap().metadata.generation;
        (deployment, services.get("web").await.unwrap().resource_version())
    };
    let before = versions().await;
    // Once as a repair and once as an upgrade.
    world.maps().delete("a", &DeleteParams::default()).await.unwrap();
    world.run();
    wait::until_with(&world.maps(), "a", "is there again", |it| it.is_some()).await;
    world.patch(json!({"spec": {"x": 1}})).await;
    world.told("Deployed", "UpgradeSuccessful").await;
    assert_eq!(versions().await, before);
}
