//! Values for manifests: what charts and templates are filled in with.
//!
//! Values come from several places and are laid over each other with [`merge`], later ones over earlier ones: the
//! add-on's own defaults, the AddOnDeploymentConfig of the cluster ([`config`]), the annotation of the
//! ManagedClusterAddOn ([`from_annotation`]), and last what is a fact ([`built_in`]).
//!
//! ```
//! use ocm_addon_sdk::{AddOnContext, values};
//! use serde_json::json;
//!
//! let defaults = values::of(&json!({"image": {"name": "greeter", "tag": "1"}, "replicas": 1})).unwrap();
//! let edited = values::of(&json!({"image": {"tag": "2"}})).unwrap();
//! let merged = values::merge([defaults, edited]);
//! assert_eq!(json!(merged), json!({"image": {"name": "greeter", "tag": "2"}, "replicas": 1}));
//! ```

pub mod built_in;
pub mod config;
pub mod distribution;
pub mod images;
pub mod resources;
pub mod settings;

use ocm_api::{annotations, cluster::ManagedCluster};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{AddOnContext, UserError};

/// Values by name.
pub type Values = Map<String, Value>;

/// The values that a struct or a map serializes to.
///
/// # Errors
/// When it serializes to something other than a map.
pub fn of(it: &impl Serialize) -> Result<Values, UserError> {
    match serde_json::to_value(it)? {
        Value::Object(values) => Ok(values),
        Value::Null => Ok(Values::new()),
        other => Err(UserError::new(format!("values are a map of names, not {other}"))),
    }
}

/// Lays values over each other, later ones over earlier ones. Maps are merged at every depth; everything else, lists
/// included, is replaced.
pub fn merge(layers: impl IntoIterator<Item = Values>) -> Values {
    let mut merged = Values::new();
    for layer in layers {
        merge_into(&mut merged, layer);
    }
    merged
}

fn merge_into(below: &mut Values, above: Values) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge_into(below, above),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

/// One value at a path of names with dots between them.
///
/// ```
/// use ocm_addon_sdk::values;
///
/// let values = values::at("global.imageOverrides.greeter", "example.com/greeter:1");
/// assert_eq!(values["global"]["imageOverrides"]["greeter"], "example.com/greeter:1");
/// ```
pub fn at(path: &str, value: impl Into<Value>) -> Values {
    let mut names: Vec<&str> = path.split('.').collect();
    let last = names.pop().unwrap_or_default();
    let mut values = Values::from_iter([(last.to_owned(), value.into())]);
    for name in names.into_iter().rev() {
        values = Values::from_iter([(name.to_owned(), Value::Object(values))]);
    }
    values
}

/// The values in the annotation `addon.open-cluster-management.io/values` of the ManagedClusterAddOn; none without it.
///
/// # Errors
/// When the annotation is no JSON map.
pub fn from_annotation(place: &AddOnContext) -> Result<Values, UserError> {
    let annotations = place.addon.metadata.annotations.as_ref();
    let Some(text) = annotations
        .and_then(|it| it.get(annotations::ADDON_VALUES))
        .filter(|it| !it.trim().is_empty())
    else {
        return Ok(Values::new());
    };
    let values: Option<Values> = serde_json::from_str(text).map_err(|error| {
        UserError::new(format!(
            "annotation {} is no JSON map: {error}",
            annotations::ADDON_VALUES
        ))
    })?;
    Ok(values.unwrap_or_default())
}

/// Whether values, and the charts that they fill in, may be others than before because of the cluster: it has other
/// image registries, or another version of Kubernetes.
///
/// ```
/// use ocm_addon_sdk::values;
/// use ocm_api::cluster::ManagedCluster;
///
/// let before = ManagedCluster::new("cluster1", Default::default());
/// let mut after = before.clone();
/// assert!(!values::differ(&before, &after));
/// after.status.get_or_insert_default().version.kubernetes = "v1.34.1".to_owned();
/// assert!(values::differ(&before, &after));
/// ```
pub fn differ(before: &ManagedCluster, after: &ManagedCluster) -> bool {
    fn registries(cluster: &ManagedCluster) -> Option<&String> {
        let annotations = cluster.metadata.annotations.as_ref();
        annotations.and_then(|it| it.get(annotations::IMAGE_REGISTRIES))
    }
    fn version(cluster: &ManagedCluster) -> Option<&str> {
        cluster.status.as_ref().map(|it| it.version.kubernetes.as_str())
    }
    registries(before) != registries(after) || version(before) != version(after)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn maps_merge_at_every_depth_and_lists_do_not() {
        let below = of(&json!({"a": {"b": {"c": 1, "d": 2}, "list": [1, 2]}, "e": {"f": 1}})).unwrap();
        let above = of(&json!({"a": {"b": {"c": 3}, "list": [4]}, "e": "text", "g": null})).unwrap();
        let merged = json!(merge([below, above]));
        assert_eq!(
            merged,
            json!({"a": {"b": {"c": 3, "d": 2}, "list": [4]}, "e": "text", "g": null})
        );
    }

    #[test]
    fn the_annotation_holds_values_or_is_refused() {
        let mut place = AddOnContext::new("cluster1", "a");
        let mut annotate = |text: &str| {
            let addon = Arc::make_mut(&mut place.addon);
            let annotation = (annotations::ADDON_VALUES.to_owned(), text.to_owned());
            addon.metadata.annotations = Some([annotation].into());
            from_annotation(&place)
        };
        assert_eq!(json!(annotate(r#"{"a": {"b": 1}}"#).unwrap()), json!({"a": {"b": 1}}));
        assert_eq!(annotate("").unwrap(), Values::new());
        assert_eq!(annotate("null").unwrap(), Values::new());
        let refused = annotate("[1]").unwrap_err();
        let start = "annotation addon.open-cluster-management.io/values is no JSON map: ";
        assert!(refused.message().starts_with(start), "{refused}");
    }
}
