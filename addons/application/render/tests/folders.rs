//! What folders of every kind deploy.

use application_render::{ChartFolder, KustomizeOverride, RenderingError, SourceTree, TreeRequest, hooks, render};
use serde_json::{Value, json};

fn tree(files: &[(&str, &str)]) -> SourceTree {
    let mut tree = SourceTree::new();
    for (path, content) in files {
        tree.insert(path, content.as_bytes()).unwrap();
    }
    tree
}

fn object(kind: &str, name: &str) -> String {
    format!("apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n")
}

fn request(folder: &str) -> TreeRequest<'_> {
    TreeRequest { folder, overrides: &[] }
}

/// The objects of a folder, each with its kind and its name.
fn deployed(tree: &SourceTree, request: TreeRequest<'_>) -> Vec<String> {
    let rendering = render(tree, request).unwrap();
    let name = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let shown = |it: &Value| format!("{} {}", name(&it["kind"]), name(&it["metadata"]["name"]));
    rendering.objects.iter().map(|it| shown(&it.object)).collect()
}

#[test]
fn definitions_go_first_then_roles_then_the_rest() {
    let several = format!("{}---\n{}", object("Namespace", "late"), object("Role", "late"));
    let tree = tree(&[
        ("app/a.yaml", &object("Deployment", "a")),
        ("app/b/role.yml", &object("Role", "b")),
        ("app/c.YAML", &several),
        ("app/z.yaml", &object("Namespace", "z")),
        ("app/zz.yaml", &object("CustomResourceDefinition", "zz")),
        ("app/account.yaml", &object("ServiceAccount", "account")),
        ("app/README.md", "apiVersion: v1"),
        ("other/x.yaml", &object("ConfigMap", "x")),
    ]);
    assert_eq!(
        deployed(&tree, request("./app/")),
        [
            "Namespace z",
            "CustomResourceDefinition zz",
            "ServiceAccount account",
            "Role b",
            "Deployment a",
            "Namespace late",
            "Role late",
        ]
    );
    assert!(deployed(&tree, request("")).contains(&"ConfigMap x".to_owned()));
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let mut tree = tree(&[("a/b.yaml", "")]);
    tree.insert_link("link").unwrap();
    assert_eq!(
        render(&tree, request("b")),
        Err(RenderingError::Missing("b".to_owned()))
    );
    assert_eq!(
        render(&tree, request("a/b.yaml")),
        Err(RenderingError::File("a/b.yaml".to_owned()))
    );
    assert_eq!(
        render(&tree, request("link/x")),
        Err(RenderingError::Link("link/x".to_owned()))
    );
    assert!(matches!(render(&tree, request("../a")), Err(RenderingError::Folder(_))));
    assert_eq!(
        render(&tree, request("b")).unwrap_err().to_string(),
        "the folder `b` does not exist in the source"
    );
}

#[test]
fn an_unreadable_file_is_told_and_others_go_on() {
    let tree = tree(&[
        ("a.yaml", "a: [\n"),
        ("b.yaml", &object("ConfigMap", "b")),
        ("c.yaml", "a: 1\n"),
    ]);
    let rendering = render(&tree, request("")).unwrap();
    assert_eq!(rendering.objects.len(), 1);
    assert_eq!(rendering.objects[0].path, "b.yaml");
    assert_eq!(rendering.problems.len(), 1);
    assert!(rendering.problems[0].to_string().starts_with("a.yaml: it is no YAML: "));
    assert_eq!(rendering.notes[0].to_string(), "c.yaml: it has no apiVersion and kind");
}

#[test]
fn a_link_is_told_and_not_followed() {
    let mut tree = tree(&[("app/a.yaml", &object("ConfigMap", "a"))]);
    tree.insert_link("app/b.yaml").unwrap();
    let rendering = render(&tree, request("app")).unwrap();
    assert_eq!(rendering.objects.len(), 1);
    assert_eq!(rendering.notes[0].path, "app/b.yaml");
}

#[test]
fn kubernetesignore_leaves_out_files_and_folders() {
    let tree = tree(&[
        ("app/.kubernetesignore", "/b.yaml\ntests/\nchart\n"),
        ("app/a.yaml", &object("ConfigMap", "a")),
        ("app/b.yaml", &object("ConfigMap", "b")),
        ("app/x/b.yaml", &object("ConfigMap", "xb")),
        ("app/x/tests/c.yaml", &object("ConfigMap", "c")),
        ("app/chart/Chart.yaml", "name: c\nversion: 1.0.0\n"),
    ]);
    let rendering = render(&tree, request("app")).unwrap();
    assert!(rendering.charts.is_empty());
    assert_eq!(deployed(&tree, request("app")), ["ConfigMap a", "ConfigMap xb"]);
}

#[test]
fn a_chart_is_told_and_not_looked_into() {
    let tree = tree(&[
        ("charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\n"),
        ("charts/web/templates/a.yaml", "{{ nothing }}: ["),
        ("charts/web/charts/sub/Chart.yaml", "name: sub\nversion: 1.0.0\n"),
        ("charts/web/kustomization.yaml", "resources: []\n"),
        ("charts/broken/Chart.yaml", "name: [\n"),
        ("charts/nameless/Chart.yaml", "version: 1.0.0\n"),
    ]);
    let rendering = render(&tree, request("charts")).unwrap();
    let web = |path: &str| ChartFolder {
        path: path.to_owned(),
        name: "web".to_owned(),
        version: "1.2.3".to_owned(),
    };
    assert_eq!(rendering.charts, [web("charts/web")]);
    let problems: Vec<_> = rendering.problems.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(problems, ["charts/broken/Chart.yaml", "charts/nameless/Chart.yaml"]);
    assert!(rendering.objects.is_empty());
    assert_eq!(
        render(&tree, request("charts/web")).unwrap().charts,
        [web("charts/web")]
    );
    assert_eq!(tree.files_below("charts/web").len(), 4);
}

#[test]
fn kustomize_builds_a_folder_with_bases_elsewhere() {
    let tree = tree(&[
        ("base/kustomization.yaml", "resources: [a.yaml]\n"),
        ("base/a.yaml", &object("ConfigMap", "a")),
        (
            "app/overlay/kustomization.yml",
            "namePrefix: x-\nresources: [../../base]\n",
        ),
        ("app/overlay/nested/kustomization.yaml", "resources: [nothing.yaml]\n"),
        ("app/overlay/nested/b.yaml", &object("ConfigMap", "b")),
        ("app/last.yaml", &object("Service", "last")),
    ]);
    assert_eq!(deployed(&tree, request("app")), ["Service last", "ConfigMap x-a"]);
}

#[test]
fn an_error_of_kustomize_has_upstreams_words() {
    let tree = tree(&[
        ("app/k/kustomization.yaml", "resources: [nothing.yaml]\n"),
        ("app/a.yaml", &object("ConfigMap", "a")),
    ]);
    let rendering = render(&tree, request("app")).unwrap();
    assert_eq!(rendering.objects.len(), 1);
    let told = rendering.problems[0].to_string();
    assert!(told.starts_with("failed to apply klustomization: "), "{told}");
    assert!(told.ends_with("(app/k)"), "{told}");
}

#[test]
fn an_override_replaces_fields_of_a_kustomization_file() {
    let tree = tree(&[
        ("app/one/kustomization.yaml", "namePrefix: x-\nresources: [a.yaml]\n"),
        ("app/one/a.yaml", &object("ConfigMap", "a")),
        ("app/two/kustomization.yaml", "namePrefix: x-\nresources: [b.yaml]\n"),
        ("app/two/b.yaml", &object("ConfigMap", "b")),
    ]);
    let with = |package: &str, value: Value| {
        let overrides = [KustomizeOverride {
            package: package.to_owned(),
            value,
        }];
        let request = TreeRequest {
            folder: "app",
            overrides: &overrides,
        };
        deployed(&tree, request)
    };
    let all = ["ConfigMap y-a", "ConfigMap y-b"];
    let one = ["ConfigMap x-a", "ConfigMap y-b"];
    let none = ["ConfigMap x-a", "ConfigMap x-b"];
    assert_eq!(with("kustomization", json!({"namePrefix": "y-"})), all);
    assert_eq!(with("kustomization.yaml", json!("namePrefix: y-\n")), all);
    assert_eq!(with("app/two/kustomization.yaml", json!({"namePrefix": "y-"})), one);
    assert_eq!(with("two/kustomization.yaml", json!({"namePrefix": "y-"})), none);
    assert_eq!(with("nginx", json!({"namePrefix": "y-"})), none);
    assert!(with("kustomization", json!("[1]")).is_empty());
}

#[test]
fn jobs_before_and_after_are_not_deployed() {
    let job = |name: &str| object("AnsibleJob", name);
    let tree = tree(&[
        (
            "app/prehook/a.yaml",
            &format!("{}---\n{}", job("a"), object("ConfigMap", "no")),
        ),
        ("app/posthook/b.yml", &job("b")),
        ("app/posthook/broken.yml", "a: ["),
        ("app/x/prehook/c.yaml", &job("c")),
        ("app/prehook.yaml", &object("ConfigMap", "prehook")),
    ]);
    assert_eq!(deployed(&tree, request("app")), ["ConfigMap prehook", "AnsibleJob c"]);
    let hooks = hooks(&tree, "app").unwrap();
    assert_eq!(hooks.pre.len(), 1);
    assert_eq!(hooks.pre[0].path, "app/prehook/a.yaml");
    assert_eq!(hooks.post[0].object["metadata"]["name"], "b");
    assert_eq!(hooks.problems[0].path, "app/posthook/broken.yml");
}

#[test]
fn too_many_objects_are_refused() {
    let many = object("ConfigMap", "a") + "---\n";
    let tree = tree(&[("a.yaml", &many.repeat(4000)), ("b.yaml", &many.repeat(4000))]);
    assert_eq!(render(&tree, request("")), Err(RenderingError::Objects));
}
