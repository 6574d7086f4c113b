//! The hub's part of the policy framework: kinds, rights, the propagator and the add-on controller, with the names that
//! clusteradm gives them. The manifests are those of `addons/policy-framework/deploy`.

use anyhow::Result;
use fleet::bundled::{self, Bundled};
use installation::images::{Images, REGISTRY};
use serde_json::{Value, json};

use super::manifests::read;

/// In the order in which they are installed.
const MANIFESTS: [&str; 6] = [
    include_str!("../../../../../addons/policy-framework/deploy/rights.yaml"),
    UPSTREAM,
    include_str!("../../../../../addons/policy-framework/deploy/clustermanagementaddons.yaml"),
    CERTIFICATES,
    WEBHOOKS,
    include_str!("../../../../../addons/policy-framework/deploy/controllers.yaml"),
];
/// What upstream's programs may do beyond ours.
const UPSTREAM: &str = include_str!("../../../../../addons/policy-framework/deploy/upstream.yaml");
/// Upstream delivers no controller of CertificatePolicies.
const CERTIFICATES: &str = include_str!("../../../../../addons/policy-framework/deploy/certificates.yaml");
const WEBHOOKS: &str = include_str!("../../../../../addons/policy-framework/deploy/webhooks.yaml");
/// The Secret that the propagators keep for their webhooks; no manifest has it.
const OWN_CERTIFICATE: &str = "propagator-webhook-own-cert";
/// The add-ons that it delivers.
pub const ADD_ONS: [&str; 4] = [
    "governance-policy-framework",
    "config-policy-controller",
    "cert-policy-controller",
    "governance-standalone-hub-templating",
];

/// The definitions of the kinds. They stay when the rest goes.
pub fn kinds() -> Vec<Value> {
    bundled::find(ADD_ONS[0]).map(Bundled::definitions).unwrap_or_default()
}

/// Everything else, in a namespace, with these images. `tag` is that of upstream's images of the policy add-on.
///
/// # Errors
/// When a manifest cannot be read.
pub fn objects(namespace: &str, images: &Images, tag: &str) -> Result<Vec<Value>> {
    // Upstream's program does not start without a certificate, which clusteradm does not give it; and the hub of
    // `drover up` refuses in its own process what the webhooks would.
    let ours = match images {
        Images::Drover(ours) => ours.as_ref(),
        Images::Upstream { .. } => None,
    };
    let of_others: &[&str] = match ours {
        Some(_) => &[UPSTREAM],
        None => &[WEBHOOKS, CERTIFICATES],
    };
    let wanted = MANIFESTS.into_iter().filter(|it| !of_others.contains(it));
    let mut objects = read(wanted, namespace, &|text| image(text, images, tag))?;
    for container in objects
        .iter_mut()
        .filter_map(|it| it.pointer_mut("/spec/template/spec/containers/0"))
    {
        let (list, one) = match (container["name"].as_str(), ours) {
            (Some("governance-policy-propagator"), None) => ("args", "--enable-webhooks=false".into()),
            (Some("manager"), Some(image)) => ("env", json!({"name": "CERT_POLICY_CONTROLLER_IMAGE", "value": image})),
            _ => continue,
        };
        if let Some(list) = container[list].as_array_mut() {
            list.push(one);
        }
    }
    Ok(objects)
}

/// Everything that [`objects`] and the programs may have left in a namespace, to take it away.
///
/// # Errors
/// When a manifest cannot be read.
pub fn leftovers(namespace: &str) -> Result<Vec<Value>> {
    let mut objects = read(MANIFESTS, namespace, &|_| None)?;
    let metadata = json!({"name": OWN_CERTIFICATE, "namespace": namespace});
    // What is first goes last, when nobody makes it anew.
    objects.insert(0, json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}));
    Ok(objects)
}

/// The image in the place of this one; `None` where the text names none.
fn image(text: &str, images: &Images, tag: &str) -> Option<String> {
    let name = text
        .strip_prefix(REGISTRY)?
        .strip_prefix('/')?
        .strip_suffix(":latest")?;
    Some(match images {
        Images::Drover(Some(image)) => image.clone(),
        Images::Drover(None) => format!("{REGISTRY}/{name}:{tag}"),
        Images::Upstream { registry, .. } => format!("{registry}/{name}:{tag}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_in_the_namespace_with_their_images() {
        let drover = Images::Drover(Some("registry/drover:1".to_owned()));
        let all = objects("ns", &drover, "v0.18.0").unwrap();
        assert_eq!(all.len(), 18);
        let text = Value::Array(all).to_string();
        assert!(!text.contains("--enable-webhooks"), "{text}");
        assert!(
            !text.contains(":latest") && !text.contains("\"open-cluster-management\""),
            "{text}"
        );
        assert_eq!(text.matches("\"registry/drover:1\"").count(), 5);
        let upstream = Images::Upstream {
            registry: "mirror".to_owned(),
            tag: "v1.3.1".to_owned(),
        };
        let all = objects("ns", &upstream, "v0.18.0").unwrap();
        assert_eq!(all.len(), 19);
        let text = Value::Array(all).to_string();
        assert_eq!(text.matches("--enable-webhooks=false").count(), 1, "{text}");
        assert!(
            text.contains("\"mirror/governance-policy-propagator:v0.18.0\""),
            "{text}"
        );
    }

    #[test]
    fn what_the_programs_have_made_goes_with_them() {
        let all = leftovers("ns").unwrap();
        assert_eq!(all.len(), 23);
        let secret = all.iter().find(|it| it["kind"] == "Secret").unwrap();
        assert_eq!(secret["metadata"]["namespace"], "ns");
    }

    #[test]
    fn a_hub_has_four_kinds_of_policies() {
        assert_eq!(kinds().len(), 4);
    }
}
