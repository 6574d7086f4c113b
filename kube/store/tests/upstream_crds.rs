//! The CRDs of upstream Open Cluster Management must be accepted as they are.
//! Reads `../shared/upstream-crds` beside the repository (or the folder in `DROVER_SHARED`); without it the test says so and passes.

use kube_store::schema::{Schema, structural};
use serde_json::{Value, json};
use std::{
    io::Write,
    path::{Path, PathBuf},
};

fn folder() -> Option<PathBuf> {
    let shared = match std::env::var_os("DROVER_SHARED") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    Some(shared.join("upstream-crds")).filter(|it| it.is_dir())
}

fn crds() -> Vec<(String, Value)> {
    let Some(folder) = folder() else {
        // Written past the test harness, which would swallow it: nobody should take a skip for a pass.
        let line = "skipped: no shared/upstream-crds beside the repository, and DROVER_SHARED is not set\n";
        std::io::stderr().write_all(line.as_bytes()).expect("stderr is open");
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|it| it == "yaml") {
            let text = std::fs::read_to_string(&path).expect("readable");
            let crd: Value = serde_saphyr::from_str(&text).expect("YAML");
            found.push((path.file_name().expect("a file").to_string_lossy().into_owned(), crd));
        }
    }
    found
}

#[test]
fn every_upstream_crd_parses_and_is_structural() {
    for (file, mut crd) in crds() {
        structural::default_crd(&mut crd);
        let (warnings, unknown) = structural::tidy_schemas(&mut crd);
        assert_eq!((warnings, unknown), (vec![], vec![]), "{file}");
        let errors = structural::check_crd(&crd);
        assert!(errors.is_empty(), "{file}: {errors:#?}");
        for version in crd["spec"]["versions"].as_array().expect("versions") {
            Schema::from_openapi(&version["schema"]["openAPIV3Schema"]).unwrap_or_else(|it| panic!("{file}: {it}"));
        }
    }
}

#[test]
fn a_manifest_work_keeps_its_manifests_and_gets_no_errors() {
    let Some((_, crd)) = crds().into_iter().find(|it| it.0.ends_with("manifestworks.crd.yaml")) else {
        return;
    };
    let schema = Schema::from_openapi(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).expect("parses");
    let mut work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "w", "namespace": "cluster1"},
        "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}]}},
    });
    let sent = work.clone();
    let dropped = kube_store::schema::prune::prune(&mut work, &schema, true).expect("metadata is good");
    assert_eq!(dropped, Vec::<String>::new());
    kube_store::schema::default::apply_defaults(&mut work, &schema);
    assert_eq!(work["spec"]["workload"], sent["spec"]["workload"]);
    assert_eq!(kube_store::schema::validate::validate(&work, None, &schema), vec![]);
}
