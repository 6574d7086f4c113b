//! The CustomResourceDefinitions of `crds/`, which are as large as people write them, must be accepted as they are.

use kube_store::schema::{Schema, structural};
use serde_json::{Value, json};
use std::path::Path;

fn crds() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|it| it == "yaml") {
            let text = std::fs::read_to_string(&path).expect("readable");
            let crd: Value = serde_saphyr::from_str(&text).expect("YAML");
            found.push((path.file_name().expect("a file").to_string_lossy().into_owned(), crd));
        }
    }
    assert!(!found.is_empty());
    found
}

#[test]
fn every_definition_parses_and_is_structural() {
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
    let manifest_works = |it: &(String, Value)| it.0.ends_with("_manifestworks.yaml");
    let (_, crd) = crds().into_iter().find(manifest_works).expect("in the folder");
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
