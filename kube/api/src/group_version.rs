//! `group/version`: how it is written, and which version goes first.

/// `group/version`, or the version alone for the core group.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// Splits `group/version`; a core version has an empty group.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Kubernetes' order of versions: GA before beta before alpha, higher numbers first. Greater is better.
pub fn version_priority(version: &str) -> (u8, u32, u32) {
    fn parse(version: &str) -> Option<(u8, u32, u32)> {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse().ok()?;
        match &rest[digits..] {
            "" => Some((3, major, 0)),
            it if it.starts_with("beta") => Some((2, major, it[4..].parse().ok()?)),
            it if it.starts_with("alpha") => Some((1, major, it[5..].parse().ok()?)),
            _ => None,
        }
    }
    parse(version).unwrap_or((0, 0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_as_kubernetes_sorts_them() {
        let mut versions = ["v1alpha1", "v1", "v2beta2", "v10", "v1beta1", "x"];
        versions.sort_by_key(|it| std::cmp::Reverse(version_priority(it)));
        assert_eq!(versions, ["v10", "v1", "v2beta2", "v1beta1", "v1alpha1", "x"]);
    }
}
