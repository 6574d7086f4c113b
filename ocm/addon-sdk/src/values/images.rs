//! Where images come from: the registries of an AddOnDeploymentConfig, or of the cluster.

use ocm_api::{
    addon::{AddOnDeploymentConfigSpec, ImageMirror},
    annotations,
    cluster::ManagedCluster,
};
use serde::Deserialize;

use super::{Values, at};
use crate::{AddOnContext, UserError};

/// An image after the registries; the last one that concerns it counts.
///
/// A registry concerns an image that starts with its source: whole, or up to a `/`, a `:` or an `@`. Upstream takes any
/// beginning, so that `quay.io/ocm` also replaces part of `quay.io/ocm-extra/x`. A registry without a source concerns
/// every image, of which only what comes after the last `/` stays.
///
/// ```
/// use ocm_addon_sdk::values::images;
/// use ocm_api::addon::ImageMirror;
///
/// let mirror = ImageMirror { source: "quay.io/ocm".into(), mirror: "registry.local/mirror/".into() };
/// assert_eq!(images::overridden(&[mirror.clone()], "quay.io/ocm/work:v1"), "registry.local/mirror/work:v1");
/// assert_eq!(images::overridden(&[mirror], "quay.io/ocm-extra/work:v1"), "quay.io/ocm-extra/work:v1");
/// ```
pub fn overridden(registries: &[ImageMirror], image: &str) -> String {
    let mut changed = registries.iter().filter_map(|it| replace(it, image));
    changed.next_back().unwrap_or_else(|| image.to_owned())
}

/// The image after one registry; `None` when that does not change it.
fn replace(registry: &ImageMirror, image: &str) -> Option<String> {
    let (source, mirror) = (
        registry.source.trim_end_matches('/'),
        registry.mirror.trim_end_matches('/'),
    );
    let replaced = if source.is_empty() {
        let name = image.rsplit('/').next().unwrap_or(image);
        if mirror.is_empty() {
            name.to_owned()
        } else {
            format!("{mirror}/{name}")
        }
    } else {
        let rest = image.strip_prefix(source)?;
        if !(rest.is_empty() || rest.starts_with(['/', ':', '@'])) {
            return None;
        }
        let rest = if mirror.is_empty() {
            rest.trim_start_matches('/')
        } else {
            rest
        };
        format!("{mirror}{rest}")
    };
    (replaced != image).then_some(replaced)
}

/// The registries in the annotation `open-cluster-management.io/image-registries` of a cluster; none without it.
///
/// # Errors
/// When the annotation is not the JSON that it should be.
pub fn of_cluster(cluster: &ManagedCluster) -> Result<Vec<ImageMirror>, UserError> {
    #[derive(Deserialize)]
    struct Registries {
        #[serde(default)]
        registries: Option<Vec<ImageMirror>>,
    }
    let annotations = cluster.metadata.annotations.as_ref();
    let Some(text) = annotations
        .and_then(|it| it.get(annotations::IMAGE_REGISTRIES))
        .filter(|it| !it.is_empty())
    else {
        return Ok(Vec::new());
    };
    let registries: Registries = serde_json::from_str(text).map_err(|error| {
        let key = annotations::IMAGE_REGISTRIES;
        UserError::new(format!("annotation {key} of the cluster cannot be read: {error}"))
    })?;
    Ok(registries.registries.unwrap_or_default())
}

/// The registries of a configuration; those of the cluster where it names none.
///
/// # Errors
/// As [`of_cluster`].
pub fn registries(config: &AddOnDeploymentConfigSpec, cluster: &ManagedCluster) -> Result<Vec<ImageMirror>, UserError> {
    if config.registries.is_empty() {
        of_cluster(cluster)
    } else {
        Ok(config.registries.clone())
    }
}

/// An image at a path of names with dots between them, after the registries of the cluster's AddOnDeploymentConfig;
/// where those do not change it, after those of the cluster.
///
/// # Errors
/// When the configuration or the cluster's annotation cannot be read.
pub fn value(place: &AddOnContext, path: &str, image: &str) -> Result<Values, UserError> {
    let config = super::config::of(place)?;
    let configured = overridden(&config.registries, image);
    let image = if configured == image {
        overridden(&of_cluster(&place.cluster)?, image)
    } else {
        configured
    };
    Ok(at(path, image))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ocm_api::addon::v1alpha1::AddOnDeploymentConfig;

    use super::*;

    fn mirror(source: &str, mirror: &str) -> ImageMirror {
        ImageMirror {
            source: source.to_owned(),
            mirror: mirror.to_owned(),
        }
    }

    #[test]
    fn registries_replace_the_beginning_of_an_image() {
        let table = [
            (vec![mirror("quay.io/ocm", "m.io/x")], "quay.io/ocm/a:1", "m.io/x/a:1"),
            (vec![mirror("quay.io/ocm/", "m.io/x/")], "quay.io/ocm/a:1", "m.io/x/a:1"),
            (vec![mirror("quay.io/ocm/a", "m.io/b")], "quay.io/ocm/a:1", "m.io/b:1"),
            (
                vec![mirror("quay.io/ocm/a", "m.io/b")],
                "quay.io/ocm/a@sha256:0",
                "m.io/b@sha256:0",
            ),
            (
                vec![mirror("quay.io/ocm/a:1", "m.io/b:2")],
                "quay.io/ocm/a:1",
                "m.io/b:2",
            ),
            (vec![mirror("", "m.io/x")], "quay.io/ocm/a:1", "m.io/x/a:1"),
            (vec![mirror("", "")], "quay.io/ocm/a:1", "a:1"),
            (vec![mirror("quay.io", "")], "quay.io/ocm/a:1", "ocm/a:1"),
            (vec![mirror("quay.io/ocm", "m.io/x")], "docker.io/a", "docker.io/a"),
            (vec![], "docker.io/a", "docker.io/a"),
        ];
        for (registries, image, wanted) in table {
            assert_eq!(overridden(&registries, image), wanted, "{registries:?}");
        }
    }

    #[test]
    fn a_registry_whose_name_only_starts_alike_concerns_no_image() {
        let registries = [mirror("quay.io/ocm", "m.io/x")];
        assert_eq!(
            overridden(&registries, "quay.io/ocm-extra/a:1"),
            "quay.io/ocm-extra/a:1"
        );
    }

    #[test]
    fn the_last_registry_that_changes_the_original_image_counts() {
        let registries = [
            mirror("quay.io/ocm", "m.io/first"),
            mirror("quay.io", "m.io/last"),
            mirror("m.io", "no.io"),
        ];
        assert_eq!(overridden(&registries, "quay.io/ocm/a:1"), "m.io/last/ocm/a:1");
    }

    #[test]
    fn configured_registries_take_precedence_over_cluster_registries() {
        let mut config = AddOnDeploymentConfig::new("c", Default::default());
        config.spec.registries = vec![mirror("quay.io", "config.io")];
        let mut place = AddOnContext::new("cluster1", "a").with_config(&config);
        let annotation =
            r#"{"registries":[{"source":"quay.io","mirror":"cluster.io"},{"source":"docker.io","mirror":"d.io"}]}"#;
        let cluster = Arc::make_mut(&mut place.cluster);
        cluster.metadata.annotations = Some([(annotations::IMAGE_REGISTRIES.to_owned(), annotation.to_owned())].into());
        let found = |image: &str| value(&place, "Image", image).unwrap()["Image"].clone();
        assert_eq!(found("quay.io/a"), "config.io/a");
        assert_eq!(found("docker.io/a"), "d.io/a");
        assert_eq!(
            registries(&config.spec, &place.cluster).unwrap(),
            config.spec.registries
        );
        assert_eq!(registries(&Default::default(), &place.cluster).unwrap().len(), 2);
    }

    #[test]
    fn an_annotation_that_cannot_be_read_is_refused() {
        let mut cluster = ManagedCluster::new("c", Default::default());
        cluster.metadata.annotations = Some([(annotations::IMAGE_REGISTRIES.to_owned(), "{".to_owned())].into());
        let refused = of_cluster(&cluster).unwrap_err();
        let start = "annotation open-cluster-management.io/image-registries of the cluster cannot be read: ";
        assert!(refused.message().starts_with(start), "{refused}");
    }
}
