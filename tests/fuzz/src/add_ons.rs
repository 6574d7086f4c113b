//! AddOnTemplates, the configuration they are filled with, and the annotations of a ManagedClusterAddOn.

use addon::template::TemplateAddOn;
use ocm_addon_sdk::{AddOn, AddOnContext, deploy::manifest, spec_hash, values};
use ocm_api::addon::v1alpha1::{AddOnDeploymentConfig, AddOnTemplate};
use serde_json::{Value, json};
use std::sync::Arc;

/// The spec of an AddOnTemplate, that of an AddOnDeploymentConfig and annotations, one on each line.
pub fn add_ons(data: &[u8]) {
    let mut lines = data.splitn(3, |it| *it == b'\n');
    let mut next = || serde_json::from_slice::<Value>(lines.next().unwrap_or_default()).unwrap_or_default();
    let (template, config, annotations) = (next(), next(), next());
    let hashed = json!({"spec": template});
    assert_eq!(spec_hash::of(&hashed), spec_hash::of(&hashed.clone()));
    let mut place = AddOnContext::new("cluster1", "hello");
    if let Ok(it) = serde_json::from_value::<AddOnTemplate>(json!({"metadata": {"name": "t"}, "spec": template})) {
        place = place.with_config(&it);
    }
    let meta = json!({"name": "c", "namespace": "default"});
    if let Ok(it) = serde_json::from_value::<AddOnDeploymentConfig>(json!({"metadata": meta, "spec": config})) {
        place = place.with_config(&it);
    }
    if let Ok(it) = serde_json::from_value(annotations) {
        Arc::make_mut(&mut place.addon).metadata.annotations = it;
        Arc::make_mut(&mut place.cluster).metadata.annotations = place.addon.metadata.annotations.clone();
    }
    let addon = TemplateAddOn::new("hello");
    if let Ok(manifests) = addon.manifests(&place) {
        assert!(manifests.iter().all(Value::is_object));
        for it in &manifests {
            let _ = manifest::location(it);
        }
    }
    let _ = (addon.registrations(&place), addon.hub_permissions(&place));
    let _ = (
        addon.install_namespace(&place),
        addon.manifest_configs(&place),
        addon.hosted(&place),
    );
    let _ = (values::from_annotation(&place), values::config::values(&place, &[]));
    if let Ok(config) = values::config::of(&place) {
        let _ = values::merge([
            values::config::for_templates(&config),
            values::config::image(&config, "a.b", "quay.io/a/b:c"),
        ]);
    }
    let _ = values::images::of_cluster(&place.cluster);
}
