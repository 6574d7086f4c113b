//! What is in the binary, as CycloneDX 1.5 in JSON: every crate with its version, license and checksum,
//! and who brought it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cargo;

/// The SBOM of `drover` for a target.
pub fn of_drover(root: &Path, target: &str) -> Result<String> {
    let metadata: Value = serde_json::from_str(&cargo::output(
        root,
        &[
            "metadata",
            "--locked",
            "--format-version",
            "1",
            "--filter-platform",
            target,
        ],
    )?)?;
    // Metadata counts crates of features that are off; the tree does not.
    let tree = cargo::output(
        root,
        &[
            "tree",
            "--locked",
            "--package",
            "drover",
            "--edges",
            "normal",
            "--target",
            target,
            "--prefix",
            "none",
            "--format",
            "{p}",
        ],
    )?;
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).context("could not read Cargo.lock")?;
    let sbom = sbom(&metadata, &built(&tree), &checksums(&lock), "drover")?;
    Ok(serde_json::to_string_pretty(&sbom)? + "\n")
}

type Crate = (String, String);

/// Names and versions of what cargo tree lists as `name v1.2.3 (more)`.
fn built(tree: &str) -> BTreeSet<Crate> {
    tree.lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
        })
        .collect()
}

/// The SHA-256 of each crate as the registry has it.
fn checksums(lock: &str) -> BTreeMap<Crate, String> {
    let value = |package: &str, key: &str| {
        let quoted = package
            .lines()
            .find_map(|it| it.strip_prefix(key)?.strip_prefix(" = \""));
        quoted.map(|it| it.trim_end_matches('"').to_owned())
    };
    lock.split("[[package]]")
        .filter_map(|it| Some(((value(it, "name")?, value(it, "version")?), value(it, "checksum")?)))
        .collect()
}

fn sbom(
    metadata: &Value,
    built: &BTreeSet<Crate>,
    checksums: &BTreeMap<Crate, String>,
    program: &str,
) -> Result<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // By the ids of cargo, because names are there in several versions.
    let mut names: BTreeMap<String, Crate> = BTreeMap::new();
    let mut components = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        let own = (text(&package["name"]), text(&package["version"]));
        if !built.contains(&own) {
            continue;
        }
        let mut component = json!({
            "type": if own.0 == program { "application" } else { "library" },
            "bom-ref": reference(&own),
            "name": own.0,
            "version": own.1,
            "purl": reference(&own),
        });
        if let Some(license) = package["license"].as_str() {
            // Old manifests write a slash where SPDX has OR.
            let expression = license.replace(" / ", " OR ").replace('/', " OR ");
            component["licenses"] = json!([{"expression": expression}]);
        }
        if let Some(sum) = checksums.get(&own) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
        }
        names.insert(text(&package["id"]), own.clone());
        components.insert(own, component);
    }
    let mut dependencies = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let Some(own) = names.get(&text(&node["id"])) else {
            continue;
        };
        let on: BTreeSet<String> = list(&node["deps"])
            .iter()
            .filter(|it| list(&it["dep_kinds"]).iter().any(|it| it["kind"].is_null()))
            .filter_map(|it| names.get(&text(&it["pkg"])))
            .map(reference)
            .collect();
        dependencies.insert(own.clone(), json!({"ref": reference(own), "dependsOn": on}));
    }
    let main = components.keys().find(|(name, _)| name == program).cloned();
    let main = main.with_context(|| format!("cargo metadata lists {program}"))?;
    let application = components.remove(&main);
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": application},
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies.into_values().collect::<Vec<_>>(),
    }))
}

/// A package URL, which also names the component within the document.
fn reference((name, version): &Crate) -> String {
    format!("pkg:cargo/{name}@{version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_listed_with_its_licence_and_checksum() {
        let metadata = json!({
            "packages": [
                {"id": "p", "name": "drover", "version": "0.1.0", "license": "Apache-2.0"},
                {"id": "q", "name": "libc", "version": "0.2.1", "license": "MIT/Apache-2.0"},
                {"id": "r", "name": "ring", "version": "0.17.0", "license": "ISC"},
            ],
            "resolve": {"nodes": [
                {"id": "p", "deps": [{"pkg": "q", "dep_kinds": [{"kind": null}]}, {"pkg": "r", "dep_kinds": [{"kind": null}]}]},
                {"id": "q", "deps": []},
            ]},
        });
        let tree = built("drover v0.1.0 (/source/cli/drover)\nlibc v0.2.1\n");
        let sums = checksums("version = 4\n\n[[package]]\nname = \"libc\"\nversion = \"0.2.1\"\nchecksum = \"ab\"\n");
        assert_eq!(
            sbom(&metadata, &tree, &sums, "drover").unwrap(),
            json!({
                "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
                "metadata": {"component": {
                    "type": "application", "bom-ref": "pkg:cargo/drover@0.1.0", "name": "drover", "version": "0.1.0",
                    "purl": "pkg:cargo/drover@0.1.0", "licenses": [{"expression": "Apache-2.0"}],
                }},
                "components": [{
                    "type": "library", "bom-ref": "pkg:cargo/libc@0.2.1", "name": "libc", "version": "0.2.1",
                    "purl": "pkg:cargo/libc@0.2.1", "licenses": [{"expression": "MIT OR Apache-2.0"}],
                    "hashes": [{"alg": "SHA-256", "content": "ab"}],
                }],
                "dependencies": [
                    {"ref": "pkg:cargo/drover@0.1.0", "dependsOn": ["pkg:cargo/libc@0.2.1"]},
                    {"ref": "pkg:cargo/libc@0.2.1", "dependsOn": []},
                ],
            })
        );
    }
}
