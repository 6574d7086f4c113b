//! Which images an installation runs, and so in which layout: this binary for everything, in one Deployment for a hub
//! and one for an agent, or upstream's images by name, in upstream's Deployments.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use operator::Layout;
use serde_json::{Value, json};

use crate::bundle::bundle;

/// Where upstream's images are.
pub const REGISTRY: &str = "quay.io/open-cluster-management";

/// The images of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Images {
    /// One image, which is this binary, for everything; none is the one of this version.
    Drover(Option<String>),
    /// Upstream's images.
    Upstream {
        /// The registry and the path in it, without a slash at the end.
        registry: String,
        /// Their tag.
        tag: String,
    },
}

impl Default for Images {
    fn default() -> Self {
        Self::Drover(None)
    }
}

impl Images {
    /// What the Deployments are like that run these images.
    pub fn layout(&self) -> Layout {
        match self {
            Self::Drover(_) => Layout::Compact,
            Self::Upstream { .. } => Layout::Upstream,
        }
    }

    /// The value `layout` of the charts.
    pub fn layout_value(&self) -> &'static str {
        match self.layout() {
            Layout::Compact => "compact",
            Layout::Upstream => "upstream",
        }
    }

    /// The values `images` of a chart whose components are these (`registration`, `work`, ...).
    pub fn values(&self, components: &[&str]) -> Value {
        match self {
            Self::Drover(None) => json!({}),
            Self::Drover(Some(image)) => {
                let overrides = components
                    .iter()
                    .map(|it| (format!("{it}Image"), Value::from(image.as_str())));
                json!({"overrides": Value::Object(overrides.collect())})
            }
            Self::Upstream { registry, tag } => json!({"registry": registry, "tag": tag}),
        }
    }
}

/// The flags that say which images.
#[derive(Clone, Debug, Default, Args)]
pub struct ImageFlags {
    /// The image of this binary, which runs everything [default: drover and the version of this binary]
    #[arg(
        long,
        value_name = "IMAGE",
        conflicts_with_all = ["image_registry", "bundle_version", "bundle_version_overrides"],
        help_heading = "Images"
    )]
    pub image: Option<String>,
    /// Use upstream's images, of this registry, in upstream's Deployments [with --bundle-version:
    /// quay.io/open-cluster-management]
    #[arg(long, value_name = "REGISTRY", help_heading = "Images")]
    pub image_registry: Option<String>,
    /// Use upstream's images, of this release: 1.1.0 to 1.3.1, latest, or default [with --image-registry: default]
    #[arg(long, value_name = "VERSION", value_parser = version, help_heading = "Images")]
    pub bundle_version: Option<String>,
    /// A JSON file that overrides parts of the release of --bundle-version
    #[arg(long, value_name = "FILE", help_heading = "Images")]
    pub bundle_version_overrides: Option<PathBuf>,
}

fn version(text: &str) -> Result<String, String> {
    match bundle(text, None) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => {
            let known: Vec<&str> = crate::bundle::versions().collect();
            Err(format!("{error}; there are {} and default", known.join(", ")))
        }
    }
}

impl ImageFlags {
    /// Whether one of them was given.
    pub fn is_given(&self) -> bool {
        self.image.is_some() || self.names_upstream()
    }

    fn names_upstream(&self) -> bool {
        self.image_registry.is_some() || self.bundle_version.is_some() || self.bundle_version_overrides.is_some()
    }

    /// The images that they name.
    ///
    /// # Errors
    /// When a name is none of an image, or a file is none of overrides.
    pub fn images(&self) -> Result<Images> {
        if let Some(image) = &self.image {
            return Ok(Images::Drover(Some(checked(image)?.to_owned())));
        }
        if !self.names_upstream() {
            return Ok(Images::default());
        }
        let version = self.bundle_version.as_deref().unwrap_or("default");
        let registry = self.image_registry.as_deref().unwrap_or(REGISTRY);
        if registry.ends_with('/') {
            bail!("--image-registry {registry} ends with a slash: leave it out");
        }
        let Ok(registry) = checked(registry) else {
            bail!("--image-registry {registry:?} is not the name of a registry: write HOST/PATH");
        };
        Ok(Images::Upstream {
            registry: registry.to_owned(),
            tag: bundle(version, self.bundle_version_overrides.as_deref())?.ocm,
        })
    }
}

/// A mistyped name of an image would only be found by the nodes.
pub(crate) fn checked(name: &str) -> Result<&str> {
    let odd = |it: char| !it.is_ascii_alphanumeric() && !"./:@_-".contains(it);
    if name.is_empty() || name.contains(odd) || name.ends_with(':') {
        bail!("{name:?} is not the name of an image");
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_upstreams_images_bring_upstreams_layout() {
        let images = |flags: ImageFlags| flags.images().unwrap();
        assert_eq!(images(ImageFlags::default()).layout(), Layout::Compact);
        let made = images(ImageFlags {
            bundle_version: Some("1.2.1".into()),
            ..ImageFlags::default()
        });
        assert_eq!(made.layout(), Layout::Upstream);
        assert_eq!(made.values(&[]), json!({"registry": REGISTRY, "tag": "v1.2.1"}));
        let made = images(ImageFlags {
            image_registry: Some("local:5000/ocm".into()),
            ..ImageFlags::default()
        });
        assert_eq!(made.values(&[]), json!({"registry": "local:5000/ocm", "tag": "v1.3.1"}));
    }

    #[test]
    fn one_image_stands_for_all_components() {
        let values = Images::Drover(Some("a/b:1".into())).values(&["work", "operator"]);
        assert_eq!(
            values,
            json!({"overrides": {"operatorImage": "a/b:1", "workImage": "a/b:1"}})
        );
    }

    #[test]
    fn a_mistyped_image_is_refused_by_its_flag() {
        let of = |image: Option<&str>, registry: Option<&str>| {
            let flags = ImageFlags {
                image: image.map(str::to_owned),
                image_registry: registry.map(str::to_owned),
                ..ImageFlags::default()
            };
            flags.images().unwrap_err().to_string()
        };
        assert_eq!(of(Some("a b"), None), r#""a b" is not the name of an image"#);
        assert!(of(None, Some("a/")).contains("ends with a slash"));
        assert!(of(None, Some("a b")).starts_with("--image-registry"));
    }
}
