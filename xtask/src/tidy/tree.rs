//! What is built into the binary besides our own: no second TLS or crypto library, no YAML crate that is no longer
//! kept, and no feature that changes what JSON means.

use std::path::Path;

use crate::cargo;

/// Crates that must not be in the normal tree.
const BANNED: &[&str] = &["ring", "openssl-sys", "native-tls", "serde_yaml"];

/// Features that must be off: the first makes numbers strings in a hidden map, the second makes equal objects hash
/// differently, which breaks the hashes we share with Go.
const BANNED_SERDE_JSON: &[&str] = &["arbitrary_precision", "preserve_order"];

pub fn findings(root: &Path) -> anyhow::Result<Vec<String>> {
    let tree = cargo::output(
        root,
        &[
            "tree",
            "--workspace",
            // Not offline: on a new machine only what xtask itself is built of has been fetched so far.
            "--locked",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}|{f}",
        ],
    )?;
    let mut found: Vec<String> = tree.lines().flat_map(judge).collect();
    found.sort();
    found.dedup();
    Ok(found)
}

/// One line of the tree: `name v1.2.3|feature,feature`, with an asterisk at the end where it has come before.
fn judge(line: &str) -> Vec<String> {
    let line = line.trim_end_matches(" (*)");
    let (package, features) = line.split_once('|').unwrap_or((line, ""));
    let name = package.split(' ').next().unwrap_or_default();
    let mut found = vec![];
    if BANNED.contains(&name) {
        found.push(format!("{package}: banned from the normal tree (cargo tree -i {name})"));
    }
    if name == "serde_json" {
        let bad = features.split(',').filter(|it| BANNED_SERDE_JSON.contains(it));
        found.extend(bad.map(|it| format!("serde_json: feature {it} is on (cargo tree -e features -i serde_json)")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_crates_and_features_are_found() {
        assert_eq!(judge("ring v0.17.0|default").len(), 1);
        assert_eq!(judge("serde_json v1.0.0|default,preserve_order,std").len(), 1);
        assert_eq!(judge("serde_json v1.0.0|preserve_order (*)").len(), 1);
        assert!(judge("serde_json v1.0.0|default,std").is_empty());
    }
}
