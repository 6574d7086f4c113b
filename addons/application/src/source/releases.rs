//! HelmReleases of charts. Pure.
//! Upstream: multicloud-operators-subscription pkg/utils/helmrepo.go.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::{
        apps::{ChartSource, HelmRelease, HelmReleaseRepo, PackageOverrides, Subscription, annotations},
        object::ObjectReference,
    },
};
use serde_json::{Map, Value, json};

use super::ChannelInputs;

/// A longer name is cut.
const NAME_MAX: usize = 31;

/// A chart, and where it is.
pub(super) struct ChartToRelease {
    pub source: ChartSource,
    pub name: String,
    pub version: String,
    pub digest: String,
    /// Whether the Channel's Secret is for where the chart is.
    pub takes_secret: bool,
    /// The commit, for charts of Git.
    pub commit: Option<String>,
}

/// The HelmRelease of a chart.
///
/// # Errors
/// When the values of the Subscription are none.
pub(super) fn release(
    subscription: &Subscription,
    channel: &ChannelInputs,
    chart: ChartToRelease,
) -> Result<Value, String> {
    let overrides = subscription
        .spec
        .package_overrides
        .iter()
        .find(|it| it.package_name == chart.name);
    let refers = |reference: &Option<ObjectReference>| {
        // What the Channel refers to is copied to the Subscription's namespace.
        let named = reference.as_ref().filter(|it| !it.name.is_empty());
        named.map(|it| ObjectReference {
            name: it.name.clone(),
            ..ObjectReference::default()
        })
    };
    let spec = &channel.channel.spec;
    let repo = HelmReleaseRepo {
        source: Some(chart.source),
        version: chart.version,
        digest: chart.digest,
        // As Helm, whose credentials are for the repository's own server.
        secret_ref: refers(&spec.secret_ref).filter(|_| chart.takes_secret),
        config_map_ref: refers(&spec.config_map_ref),
        insecure_skip_verify: spec.insecure_skip_verify,
        watch_namespace_scoped_resources: subscription.spec.watch_helm_namespace_scoped_resources,
        alt_source: None,
        chart_name: chart.name.clone(),
    };
    let mut release = json!({
        "apiVersion": HelmRelease::API_VERSION, "kind": HelmRelease::KIND,
        "metadata": {"name": release_name(subscription, &chart.name, overrides)},
        "repo": repo,
        "spec": values(overrides).map_err(|why| format!("spec.packageOverrides of {}: {why}", chart.name))?,
    });
    if let Some(commit) = chart.commit {
        release["metadata"]["annotations"] = json!({annotations::GIT_CURRENT_COMMIT: commit});
    }
    Ok(release)
}

fn release_name(subscription: &Subscription, chart: &str, overrides: Option<&PackageOverrides>) -> String {
    let alias = overrides
        .map(|it| it.package_alias.as_str())
        .filter(|it| !it.is_empty());
    let uid = subscription.uid().unwrap_or_default();
    let name = match alias {
        Some(alias) => alias.to_owned(),
        None => format!("{chart}-{}", uid.get(..5).unwrap_or(&uid)),
    };
    if name.chars().count() <= NAME_MAX {
        return name;
    }
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, name.as_bytes());
    let hex: String = hash.as_ref().iter().take(3).map(|it| format!("{it:02x}")).collect();
    let cut: String = name.chars().take(25).collect();
    format!("{cut}-{}", &hex[..5])
}

/// The values of a chart: those of the overrides with path `spec`, the later over the earlier; other paths name one.
fn values(overrides: Option<&PackageOverrides>) -> Result<Value, String> {
    let mut values = Map::new();
    for one in overrides.iter().flat_map(|it| &it.package_overrides) {
        let value = &one.0["value"];
        match one.0["path"].as_str().unwrap_or_default() {
            "" | "spec" | "." => {
                // All values at once may be a text with YAML; a single one that is a text stays one.
                let read = match value {
                    Value::String(text) => application_render::yaml(text).map_err(|why| format!("path spec: {why}"))?,
                    other => other.clone(),
                };
                match read {
                    Value::Object(fields) => values.extend(fields),
                    Value::Null => {}
                    _ => return Err("path spec: the value is no object with values of the chart".to_owned()),
                }
            }
            path => set(&mut values, path.trim_start_matches("spec."), value.clone()),
        }
    }
    Ok(match values.is_empty() {
        // A spec that is empty would be left out.
        true => json!({"": ""}),
        false => Value::Object(values),
    })
}

fn set(values: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(values.insert(path.to_owned(), value)),
        Some((first, rest)) => {
            let inner = values.entry(first).or_insert_with(|| json!({}));
            if !inner.is_object() {
                *inner = json!({});
            }
            if let Some(inner) = inner.as_object_mut() {
                set(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn made(overrides: Value, chart: &str) -> Value {
        made_with(overrides, chart, true).unwrap()
    }

    fn made_with(overrides: Value, chart: &str, takes_secret: bool) -> Result<Value, String> {
        let subscription = json!({
            "metadata": {"name": "a", "namespace": "n", "uid": "12345678"},
            "spec": {"channel": "c/c", "packageOverrides": overrides},
        });
        let channel = json!({
            "metadata": {"name": "c", "namespace": "c"},
            "spec": {"type": "HelmRepo", "pathname": "https://example.com", "secretRef": {"name": "s", "namespace": "c"}},
        });
        let inputs = ChannelInputs {
            channel: Arc::new(serde_json::from_value(channel).unwrap()),
            secret: None,
            config_map: None,
        };
        let chart = ChartToRelease {
            source: ChartSource::default(),
            name: chart.to_owned(),
            version: "1.0.0".to_owned(),
            digest: String::new(),
            takes_secret,
            commit: None,
        };
        release(&serde_json::from_value(subscription).unwrap(), &inputs, chart)
    }

    #[test]
    fn a_release_has_the_charts_name_or_an_alias() {
        let name = |overrides: Value, chart: &str| made(overrides, chart)["metadata"]["name"].clone();
        assert_eq!(name(json!([]), "shop"), "shop-12345");
        assert_eq!(
            name(json!([{"packageName": "shop", "packageAlias": "mine"}]), "shop"),
            "mine"
        );
        let long = name(json!([]), "a-chart-with-a-very-long-name-indeed");
        let long = long.as_str().unwrap();
        assert!(
            long.starts_with("a-chart-with-a-very-long-") && long.len() == 31,
            "{long}"
        );
    }

    #[test]
    fn values_come_from_overrides() {
        let spec = |overrides: Value| {
            let all = json!([{"packageName": "shop", "packageOverrides": overrides}]);
            made(all, "shop")["spec"].clone()
        };
        assert_eq!(spec(json!([])), json!({"": ""}));
        let text = "replicas: 2\nimage:\n  tag: x\n";
        let overrides = json!([{"path": "spec", "value": text}, {"path": "image.name", "value": "y"}]);
        assert_eq!(
            spec(overrides),
            json!({"replicas": 2, "image": {"tag": "x", "name": "y"}})
        );
    }

    #[test]
    fn values_that_are_none_are_refused() {
        let refused = |value: Value| {
            let all = json!([{"packageName": "shop", "packageOverrides": [{"path": "spec", "value": value}]}]);
            made_with(all, "shop", true).unwrap_err()
        };
        assert_eq!(
            refused(json!("- a")),
            "spec.packageOverrides of shop: path spec: the value is no object with values of the chart"
        );
        let why = "spec.packageOverrides of shop: path spec: it is no YAML: ";
        assert!(refused(json!("a: [")).starts_with(why));
    }

    #[test]
    fn a_release_refers_to_the_copied_secret() {
        assert_eq!(made(json!([]), "shop")["repo"]["secretRef"], json!({"name": "s"}));
        let elsewhere = made_with(json!([]), "shop", false).unwrap();
        assert_eq!(elsewhere["repo"]["secretRef"], Value::Null);
    }
}
