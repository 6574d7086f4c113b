//! What is refused, with the words that say where it is and what to do: whatever leads out of the tree, what is not
//! built, and what is too large.

use kustomize::{KustomizeError, KustomizeErrorKind, KustomizeFiles, build};

const CONFIG_MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";

fn tree(files: &[(&str, &str)]) -> KustomizeFiles {
    let mut tree = KustomizeFiles::new();
    for (path, content) in files {
        tree.insert(path, *content).unwrap();
    }
    tree
}

fn refused(files: &[(&str, &str)], folder: &str) -> KustomizeError {
    build(&tree(files), folder).unwrap_err()
}

fn of_one(kustomization: &str) -> KustomizeError {
    refused(&[("kustomization.yaml", kustomization), ("a.yaml", CONFIG_MAP)], "")
}

#[test]
fn entries_that_lead_out_of_the_tree_are_refused() {
    for entry in ["../../elsewhere", "/etc/passwd", "base/../../../x"] {
        for field in ["resources", "components"] {
            let error = refused(&[("app/kustomization.yaml", &format!("{field}: [{entry}]"))], "app");
            assert_eq!(error.kind, KustomizeErrorKind::Refused, "{error}");
            let place = (error.file.as_str(), error.field.as_str());
            assert_eq!(
                place,
                ("app/kustomization.yaml", format!("{field}[0]").as_str()),
                "{error}"
            );
            assert!(error.message.contains(entry), "{error}");
        }
    }
    let error = of_one("configMapGenerator: [{name: a, files: [../secret]}]");
    assert_eq!(error.field, "configMapGenerator[0]");
    assert_eq!(
        build(&KustomizeFiles::new(), "..").unwrap_err().kind,
        KustomizeErrorKind::Refused
    );
}

#[test]
fn files_beside_the_folder_are_refused() {
    let files = [
        ("app/kustomization.yaml", "patches: [{path: ../p.yaml}]"),
        ("p.yaml", CONFIG_MAP),
    ];
    let error = refused(&files, "app");
    assert_eq!(
        error.to_string(),
        "app/kustomization.yaml: patches[0]: `../p.yaml` is outside of the folder of the kustomization file, which may read only \
         files in it or below"
    );
}

#[test]
fn symbolic_links_are_not_followed() {
    let mut files = tree(&[
        ("kustomization.yaml", "resources: [link.yaml]"),
        ("b/kustomization.yaml", "resources: [x/y]"),
    ]);
    files.insert_link("link.yaml").unwrap();
    files.insert_link("b/x").unwrap();
    for (folder, link) in [("", "link.yaml"), ("b", "b/x")] {
        let error = build(&files, folder).unwrap_err();
        assert_eq!(
            (error.kind, error.file.as_str()),
            (KustomizeErrorKind::Refused, link),
            "{error}"
        );
    }
}

#[test]
fn paths_of_a_tree_are_plain() {
    let mut files = KustomizeFiles::new();
    for path in ["/a", "a//b", "../a", "a/./b", "", "a/"] {
        assert!(files.insert(path, "").is_err(), "{path}");
    }
    files.insert("a/b", "").unwrap();
    for path in ["a/b", "a", "a/b/c"] {
        assert!(files.insert(path, "").is_err(), "{path}");
    }
}

#[test]
fn remote_entries_are_refused_by_name() {
    for entry in [
        "https://github.com/org/repo//path?ref=v1",
        "git@github.com:org/repo",
        "github.com/org/repo",
        "https://example.com/a.yaml",
        "ssh://host/x.git",
    ] {
        let error = of_one(&format!("resources: [a.yaml, '{entry}']"));
        assert_eq!(error.kind, KustomizeErrorKind::Refused, "{error}");
        assert_eq!(error.field, "resources[1]");
        assert!(
            error.message.contains(entry) && error.message.contains("nothing is fetched"),
            "{error}"
        );
    }
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    for (field, value) in [
        ("crds", "[a.yaml]"),
        ("openapi", "{path: a.json}"),
        ("configurations", "[a.yaml]"),
        ("helmCharts", "[{name: a}]"),
        ("helmGlobals", "{chartHome: x}"),
        ("helmChartInflationGenerator", "[{chartName: a}]"),
        ("generators", "[a.yaml]"),
        ("transformers", "[a.yaml]"),
        ("validators", "[a.yaml]"),
        ("vars", "[{name: A}]"),
        ("buildMetadata", "[originAnnotations]"),
    ] {
        let error = of_one(&format!("resources: [a.yaml]\n{field}: {value}"));
        assert_eq!(
            (error.kind, error.field.as_str()),
            (KustomizeErrorKind::Refused, field),
            "{error}"
        );
        assert!(build(&tree(&[("kustomization.yaml", &format!("namespace: x\n{field}:"))]), "").is_ok());
    }
}

#[test]
fn yaml_inside_of_a_text_is_not_changed() {
    let source = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {c: \"a: b\\n\"}}";
    let kustomization =
        "resources: [a.yaml]\nreplacements: [{sourceValue: x, targets: [{select: {name: a}, fieldPaths: [data.c.a]}]}]";
    let error = refused(&[("kustomization.yaml", kustomization), ("a.yaml", source)], "");
    assert_eq!(
        (error.kind, error.field.as_str()),
        (KustomizeErrorKind::Refused, "replacements[0]"),
        "{error}"
    );
}

#[test]
fn a_circle_of_bases_is_named() {
    let files = [
        ("a/kustomization.yaml", "resources: [../b]"),
        ("b/kustomization.yaml", "resources: [../c]"),
        ("c/kustomization.yaml", "components: [../b]"),
    ];
    let error = refused(&files, "a");
    assert!(error.message.contains("b -> c -> b"), "{error}");
    assert_eq!(
        (error.file.as_str(), error.field.as_str()),
        ("c/kustomization.yaml", "components[0]")
    );
}

#[test]
fn errors_name_file_and_field() {
    for (kustomization, expected) in [
        (
            "resources: [a.yaml]\nimages: [{name: a}, {name: b, newtag: 1}]",
            "kustomization.yaml: images[1].newTag: a string is expected; put quotes around it",
        ),
        (
            "resources: [a.yaml, b.yaml]",
            "kustomization.yaml: resources[1]: there is no file `b.yaml`",
        ),
        (
            "resources: [a.yaml]\npatches: [{patch: '[{\"op\": \"remove\", \"path\": \"/data\"}]', target: {kind: ConfigMap}}]",
            "kustomization.yaml: patches[0]: ConfigMap a of v1: `remove` of `/data` in the JSON patch: it is not there",
        ),
        (
            "resources: [a.yaml]\ncommonLabels: {a: true}",
            "kustomization.yaml: commonLabels.a: a string is expected; put quotes around it",
        ),
    ] {
        let error = of_one(kustomization);
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.kind, KustomizeErrorKind::Wrong);
    }
    let files = [
        ("kustomization.yaml", "resources: [b]"),
        ("b/kustomization.yaml", "resources: [a.yaml]"),
        ("b/a.yaml", "a: ["),
    ];
    assert_eq!(refused(&files, "").file, "b/a.yaml");
}

#[test]
fn bases_may_be_nested_only_so_deep() {
    let mut files = KustomizeFiles::new();
    for at in 0..40 {
        let content = if at == 39 {
            "namespace: x".to_owned()
        } else {
            format!("resources: [../f{}]", at + 1)
        };
        files.insert(&format!("f{at}/kustomization.yaml"), content).unwrap();
    }
    assert_eq!(build(&files, "f0").unwrap_err().kind, KustomizeErrorKind::TooLarge);
    assert_eq!(build(&files, "f20").unwrap(), Vec::<serde_json::Value>::new());
}

#[test]
fn bases_may_be_read_only_so_often() {
    let mut files = KustomizeFiles::new();
    for at in 0..20 {
        let content = if at == 19 {
            "namespace: x".to_owned()
        } else {
            format!("resources: [../f{0}, ../f{0}]", at + 1)
        };
        files.insert(&format!("f{at}/kustomization.yaml"), content).unwrap();
    }
    assert_eq!(build(&files, "f0").unwrap_err().kind, KustomizeErrorKind::TooLarge);
}

#[test]
fn aliases_may_repeat_only_so_much() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for at in 1..10 {
        let alias = format!("*a{}", at - 1);
        text += &format!("a{at}: &a{at} [{}]\n", [alias.as_str(); 10].join(", "));
    }
    let text = format!("{text}apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\n");
    let error = refused(&[("kustomization.yaml", "resources: [a.yaml]"), ("a.yaml", &text)], "");
    assert_eq!(
        (error.kind, error.file.as_str()),
        (KustomizeErrorKind::TooLarge, "a.yaml"),
        "{error}"
    );
}

#[test]
fn values_may_be_nested_only_so_deep() {
    let deep = format!(
        "{{apiVersion: v1, kind: A, metadata: {{name: a}}, x: {}{}}}",
        "[".repeat(5000),
        "]".repeat(5000)
    );
    let error = refused(&[("kustomization.yaml", "resources: [a.yaml]"), ("a.yaml", &deep)], "");
    assert!(
        matches!(error.kind, KustomizeErrorKind::TooLarge | KustomizeErrorKind::Wrong),
        "{error}"
    );
    // An object that is copied into itself grows with each copy.
    let copy = "- {source: {kind: A, fieldPath: x}, targets: [{select: {kind: A}, fieldPaths: [x.y], options: {create: true}}]}\n";
    let kustomization = format!("resources: [a.yaml]\nreplacements:\n{}", copy.repeat(400));
    let small = "{apiVersion: v1, kind: A, metadata: {name: a}, x: {z: 1}}";
    let error = refused(&[("kustomization.yaml", &kustomization), ("a.yaml", small)], "");
    assert_eq!(error.kind, KustomizeErrorKind::TooLarge, "{error}");
}

#[test]
fn deep_objects_are_patched_on_a_small_stack() {
    let deep = |inner: &str| {
        let (open, close) = ("{d: ".repeat(190), "}".repeat(190));
        format!("{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: a}}, x: {open}{inner}{close}}}")
    };
    let kustomization =
        "resources: [a.yaml]\npatches: [{path: p.yaml}]\nimages: [{name: a, newTag: b}]\ncommonLabels: {a: b}";
    let (object, patch) = (deep("{a: 1}"), deep("{b: 2}"));
    let files = tree(&[
        ("kustomization.yaml", kustomization),
        ("a.yaml", &object),
        ("p.yaml", &patch),
    ]);
    let built = std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(move || build(&files, ""))
        .unwrap();
    assert_eq!(built.join().unwrap().unwrap().len(), 1);
}

#[test]
fn json_patches_may_copy_only_so_much() {
    let operation = r#"{"op": "copy", "from": "/x", "path": "/x/-"}"#;
    let kustomization = format!(
        "resources: [a.yaml]\npatches: [{{target: {{kind: A}}, patch: '[{}]'}}]",
        [operation; 300].join(",")
    );
    let object = "{apiVersion: v1, kind: A, metadata: {name: a}, x: [1, 2]}";
    let error = refused(&[("kustomization.yaml", &kustomization), ("a.yaml", object)], "");
    assert_eq!(error.kind, KustomizeErrorKind::TooLarge, "{error}");
}

#[test]
fn objects_may_be_only_so_many() {
    let one = |at: usize| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a{at}}}\n");
    let many = |count| (0..count).map(one).collect::<Vec<_>>().join("---\n");
    let kustomization = "namePrefix: p-\nnamespace: x\ncommonLabels: {a: b}\nresources: [a.yaml]";
    let built = |count| {
        build(
            &tree(&[("kustomization.yaml", kustomization), ("a.yaml", &many(count))]),
            "",
        )
    };
    assert_eq!(built(2000).unwrap().len(), 2000);
    assert_eq!(built(5001).unwrap_err().kind, KustomizeErrorKind::TooLarge);
}
