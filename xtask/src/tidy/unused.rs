//! Dependencies that nothing uses: each costs every build of its crate, and a reader who looks for what it is for.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use super::Source;

/// Dependencies that the sources of their crate do not name, and why they are there.
const NAMED_ELSEWHERE: &[(&str, &str, &str)] = &[
    (
        "kube-api",
        "k8s-pb",
        "its description of Kubernetes' messages is read by build/protobuf.rs as a file",
    ),
    (
        "testkit",
        "flate2",
        "the targets of tests/fuzz, which tests/strangers includes",
    ),
    (
        "testkit",
        "hyper",
        "the targets of tests/fuzz, which tests/strangers includes",
    ),
    (
        "testkit",
        "hyper-util",
        "the targets of tests/fuzz, which tests/strangers includes",
    ),
    (
        "testkit",
        "safe-cel",
        "the targets of tests/fuzz, which tests/strangers includes",
    ),
    (
        "testkit",
        "tar",
        "the targets of tests/fuzz, which tests/strangers includes",
    ),
];

pub fn findings(root: &Path, metadata: &Value, sources: &[Source]) -> anyhow::Result<Vec<String>> {
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata lists packages")?;
    let mut found = vec![];
    let mut depended_on = BTreeSet::new();
    for package in packages {
        let name = package["name"].as_str().context("a package has a name")?;
        let folder = folder(root, package)?;
        let texts: Vec<&str> = sources
            .iter()
            .filter(|it| it.path.starts_with(&folder))
            .map(|it| it.text.as_str())
            .collect();
        let dependencies = package["dependencies"]
            .as_array()
            .context("a package lists its dependencies")?;
        for dependency in dependencies {
            let crate_name = dependency["name"].as_str().context("a dependency has a name")?;
            depended_on.insert(crate_name);
            let excepted = NAMED_ELSEWHERE
                .iter()
                .any(|(user, used, _)| (*user, *used) == (name, crate_name));
            let called = dependency["rename"].as_str().unwrap_or(crate_name);
            if texts.iter().any(|it| names(it, called)) == excepted {
                found.push(match excepted {
                    false => format!("{folder}Cargo.toml: {crate_name} is used by no source file"),
                    true => {
                        format!("{crate_name} of {name} is used: take it from the table in xtask/src/tidy/unused.rs")
                    }
                });
            }
        }
    }
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).context("could not read Cargo.toml")?;
    found.extend(
        shared(&manifest)
            .filter(|it| !depended_on.contains(it))
            .map(|it| format!("Cargo.toml: no member depends on {it}")),
    );
    Ok(found)
}

/// Where a package lies from the root, with a slash at the end.
fn folder(root: &Path, package: &Value) -> anyhow::Result<String> {
    let manifest = package["manifest_path"].as_str().context("a package has a manifest")?;
    let folder = Path::new(manifest)
        .parent()
        .and_then(|it| it.strip_prefix(root).ok())
        .with_context(|| format!("{manifest} lies outside of the workspace"))?;
    Ok(format!("{}/", folder.display()))
}

/// Whether a text uses a crate: `name::`, `use name;` or `use name as other;`, where nothing stands before it that
/// would make it a part of another path.
fn names(text: &str, crate_name: &str) -> bool {
    let name = crate_name.replace('-', "_");
    // By hand: some hundred names are looked for in all sources.
    text.match_indices(&name).any(|(at, _)| {
        let before = text[..at].strip_suffix("::").filter(|it| !it.ends_with(is_of_name));
        let before = before.unwrap_or(&text[..at]);
        let behind = &text[at + name.len()..];
        !before.ends_with(|it: char| is_of_name(it) || it == ':' || it == '.')
            && (behind.starts_with("::") || behind.starts_with(';') || behind.starts_with(" as "))
    })
}

fn is_of_name(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

/// The names under `[workspace.dependencies]`.
fn shared(manifest: &str) -> impl Iterator<Item = &str> {
    manifest
        .lines()
        .skip_while(|it| *it != "[workspace.dependencies]")
        .skip(1)
        .take_while(|it| !it.starts_with('['))
        .filter_map(|it| it.split_once(" = "))
        .map(|(name, _)| name)
        .filter(|it| !it.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_used_where_a_path_begins_with_it() {
        assert!(names("use json_patch::Patch;", "json-patch"));
        assert!(names("fn f() -> ::url::Url {}", "url"));
        assert!(names("extern crate libc as c;", "libc"));
        assert!(names("#[tokio::test]", "tokio"));
        assert!(!names("let url = crate::url::read(url);", "url"));
        assert!(!names("use k8s_openapi::jiff::Timestamp;", "jiff"));
        assert!(!names("use my_url::Url;", "url"));
    }

    #[test]
    fn shared_dependencies_end_with_their_table() {
        let manifest = "[workspace.dependencies]\nbytes = \"1\"\n# dev\nproptest = { version = \"1\" }\n\n[profile.dev]\ndebug = 1\n";
        assert_eq!(shared(manifest).collect::<Vec<_>>(), ["bytes", "proptest"]);
    }
}
