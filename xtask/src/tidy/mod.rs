//! The rules of the house as checks on its text and manifests. Every finding is one line: where, and which rule.

mod edges;
mod sources;
mod tree;

use std::path::Path;

/// All that breaks a rule.
pub fn findings(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = edges::findings(root)?;
    found.extend(tree::findings(root)?);
    found.extend(sources::findings(root)?);
    Ok(found)
}

#[cfg(test)]
mod tests {
    fn none(found: Vec<String>) {
        assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
    }

    #[test]
    fn crates_use_only_what_lies_below_them() {
        none(super::edges::findings(&crate::root()).unwrap());
    }

    #[test]
    fn no_banned_crate_or_feature_is_built() {
        none(super::tree::findings(&crate::root()).unwrap());
    }

    #[test]
    fn the_sources_keep_the_rules() {
        none(super::sources::findings(&crate::root()).unwrap());
    }
}
