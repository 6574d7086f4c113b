//! The hub's part of application-manager: kinds, rights, webhooks and the program, with the names that clusteradm gave
//! them until it dropped the add-on. The manifests are those of `addons/application/deploy`. The program is this
//! binary: upstream's are four, archived, and ask for all rights there are.

use anyhow::{Result, bail};
use fleet::bundled::{self, Bundled};
use installation::images::{ImageFlags, Images};
use ocm_api::apps;
use serde_json::{Value, json};

use super::manifests::read;

/// In the order in which they are installed.
const MANIFESTS: [&str; 5] = [
    include_str!("../../../../../addons/application/deploy/rights.yaml"),
    include_str!("../../../../../addons/application/deploy/administrators.yaml"),
    include_str!("../../../../../addons/application/deploy/clustermanagementaddon.yaml"),
    include_str!("../../../../../addons/application/deploy/webhooks.yaml"),
    include_str!("../../../../../addons/application/deploy/controller.yaml"),
];
/// The image that the manifests name, which the flag of the agents' image names, too.
const IMAGE: &str = "quay.io/open-cluster-management/multicloud-operators-subscription:latest";
const AGENT_IMAGE: &str = "--agent-image=";
/// What the program makes, and no manifest has: the Secret of its webhooks, and the Lease of its leader.
const OWN_CERTIFICATE: &str = "application-manager-webhook-own-cert";
const LEASE: &str = "multicloud-operators-hub-subscription-leader.open-cluster-management.io";

/// The definitions of the kinds. They stay when the rest goes.
pub fn kinds() -> Vec<Value> {
    bundled::find(apps::ADD_ON)
        .map(Bundled::definitions)
        .unwrap_or_default()
}

/// The image that flags name.
///
/// # Errors
/// When they name upstream's.
pub fn image(flags: &ImageFlags) -> Result<String> {
    // clusteradm always names a release.
    let flags = match flags.bundle_version.as_deref() {
        Some("default") => &ImageFlags {
            bundle_version: None,
            ..flags.clone()
        },
        _ => flags,
    };
    match flags.images()? {
        Images::Drover(Some(image)) => Ok(image),
        Images::Drover(None) => Ok(format!("drover:{}", env!("CARGO_PKG_VERSION"))),
        Images::Upstream { .. } => bail!(
            "application-manager is this binary, whose image --image names: leave out --image-registry, \
             --bundle-version and --bundle-version-overrides"
        ),
    }
}

/// Everything else, in a namespace, with this image.
///
/// # Errors
/// When a manifest cannot be read.
pub fn objects(namespace: &str, image: &str) -> Result<Vec<Value>> {
    read(MANIFESTS, namespace, &|text| match text.strip_prefix(AGENT_IMAGE) {
        Some(IMAGE) => Some(format!("{AGENT_IMAGE}{image}")),
        _ => (text == IMAGE).then(|| image.to_owned()),
    })
}

/// Everything that [`objects`] and the program may have left in a namespace, to take it away.
///
/// # Errors
/// When a manifest cannot be read.
pub fn leftovers(namespace: &str) -> Result<Vec<Value>> {
    // What is first goes last, when nobody makes it anew.
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": OWN_CERTIFICATE, "namespace": namespace}}),
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": "kube-system"},
        }),
    ];
    all.extend(read(MANIFESTS, namespace, &|_| None)?);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(image: Option<&str>, version: Option<&str>) -> ImageFlags {
        ImageFlags {
            image: image.map(str::to_owned),
            bundle_version: version.map(str::to_owned),
            ..ImageFlags::default()
        }
    }

    #[test]
    fn the_image_is_this_binary() {
        assert_eq!(image(&flags(Some("a/b:1"), None)).unwrap(), "a/b:1");
        let own = format!("drover:{}", env!("CARGO_PKG_VERSION"));
        for version in [None, Some("default")] {
            assert_eq!(image(&flags(None, version)).unwrap(), own);
        }
        let error = image(&flags(None, Some("1.3.1"))).unwrap_err().to_string();
        assert!(error.contains("leave out --image-registry"), "{error}");
    }

    #[test]
    fn objects_are_in_the_namespace_with_the_image() {
        let all = objects("ns", "registry/drover:1").unwrap();
        assert_eq!(all.len(), 16);
        let deployment = all.iter().find(|it| it["kind"] == "Deployment").unwrap();
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "registry/drover:1");
        assert_eq!(container["args"][1], "--agent-image=registry/drover:1");
        let text = Value::Array(all).to_string();
        assert!(
            !text.contains(":latest") && !text.contains("\"open-cluster-management\""),
            "{text}"
        );
    }

    #[test]
    fn a_hub_has_six_kinds_of_applications() {
        assert_eq!(kinds().len(), 6);
    }

    #[test]
    fn what_the_program_has_made_goes_with_it() {
        let all = leftovers("ns").unwrap();
        assert_eq!(all.len(), 18);
        assert_eq!(all[0]["metadata"]["namespace"], "ns");
    }
}
