//! The releases of Open Cluster Management by the version that a user types, and the images of each.
//! Upstream: clusteradm `pkg/version/version.go`, whose table this is.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The release that is installed where none is named.
pub const DEFAULT: &str = "1.3.1";

/// Versions, the tag of Open Cluster Management's images, and that of the policy add-on's.
const BUNDLES: [(&str, &str, &str); 8] = [
    ("latest", "latest", "latest"),
    ("1.1.0", "v1.1.0", "v0.16.0"),
    ("1.1.1", "v1.1.1", "v0.17.0"),
    ("1.1.3", "v1.1.3", "v0.17.0"),
    ("1.2.0", "v1.2.0", "v0.18.0"),
    ("1.2.1", "v1.2.1", "v0.18.0"),
    ("1.3.0", "v1.3.0", "v0.18.0"),
    (DEFAULT, "v1.3.1", "v0.18.0"),
];

/// What belongs to one release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// The tag of Open Cluster Management's images.
    pub ocm: String,
    /// The version of the policy add-on.
    pub policy_addon: String,
}

/// The release of a version as it is typed (`1.3.1`, `v1.3.1`, `latest`, `default`); a JSON file may override its
/// parts.
///
/// # Errors
/// When there is no such release, or the file is none of overrides.
pub fn bundle(version: &str, overrides: Option<&Path>) -> Result<Bundle> {
    let bare = version.strip_prefix('v').unwrap_or(version);
    let bare = if bare == "default" { DEFAULT } else { bare };
    let Some((_, ocm, policy_addon)) = BUNDLES.into_iter().find(|it| it.0 == bare) else {
        bail!("couldn't find the requested version bundle: {bare}");
    };
    let mut bundle = Bundle {
        ocm: ocm.to_owned(),
        policy_addon: policy_addon.to_owned(),
    };
    if let Some(path) = overrides {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("failed to read version bundle file: {}", path.display()))?;
        let read: Value =
            serde_json::from_str(&text).with_context(|| format!("{} is no version bundle in JSON", path.display()))?;
        let fields = read.as_object();
        let fields = fields.with_context(|| format!("{} is no version bundle: it is no object", path.display()))?;
        for (name, field) in [("ocm", &mut bundle.ocm), ("policy_addon", &mut bundle.policy_addon)] {
            match fields.get(name) {
                None | Some(Value::Null) => {}
                Some(Value::String(tag)) => *field = tag.clone(),
                Some(_) => bail!("{name} in {} is no text: write the tag of an image", path.display()),
            }
        }
    }
    Ok(bundle)
}

/// The versions that may be named.
pub fn versions() -> impl Iterator<Item = &'static str> {
    BUNDLES.into_iter().map(|it| it.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_with_and_without_its_letter() {
        for version in ["1.3.1", "v1.3.1", "default"] {
            assert_eq!(bundle(version, None).unwrap().ocm, "v1.3.1", "{version}");
        }
        assert_eq!(bundle("latest", None).unwrap().ocm, "latest");
        assert_eq!(
            bundle("v9.9.9", None).unwrap_err().to_string(),
            "couldn't find the requested version bundle: 9.9.9"
        );
    }

    #[test]
    fn a_file_overrides_parts_of_a_release() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.json");
        std::fs::write(&path, r#"{"ocm": "mine", "other": 1}"#).unwrap();
        let made = bundle("1.2.0", Some(&path)).unwrap();
        assert_eq!((made.ocm.as_str(), made.policy_addon.as_str()), ("mine", "v0.18.0"));
        std::fs::write(&path, r#"{"ocm": 1}"#).unwrap();
        assert!(
            bundle("1.2.0", Some(&path))
                .unwrap_err()
                .to_string()
                .starts_with("ocm in ")
        );
        std::fs::write(&path, "[]").unwrap();
        assert!(bundle("1.2.0", Some(&path)).is_err());
    }
}
