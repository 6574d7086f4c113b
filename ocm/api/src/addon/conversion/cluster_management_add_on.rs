//! ClusterManagementAddOn in its other version.
//!
//! A kind of configuration without a default has no place in `v1beta1`, so it becomes a default of a reserved name,
//! which controllers leave alone. `spec.addOnConfiguration` exists in `v1alpha1` only.

use serde_json::{Map, Value};

use super::Version;
use super::kept::{PreservedFields, entries, map, rename};
use crate::addon::v1beta1::NO_DEFAULT_CONFIG;

const CONFIGURATION: &str = "spec.addOnConfiguration";
/// The list of both versions, which is called `supportedConfigs` in one and `defaultConfigs` in the other.
const CONFIGS: &str = "spec.configs";

pub(super) fn convert(object: &mut Value, target: Version) {
    match target {
        Version::V1Beta1 => to_v1beta1(object),
        Version::V1Alpha1 => to_v1alpha1(object),
    }
}

fn to_v1beta1(object: &mut Value) {
    let mut theirs = PreservedFields::take(object, Version::V1Beta1);
    let mut ours = PreservedFields::default();
    if let Some(spec) = part(object, "spec") {
        if let Some(configuration) = spec.remove("addOnConfiguration") {
            ours.keep(CONFIGURATION, configuration);
        }
        if let Some(mut configs) = spec.remove("supportedConfigs") {
            let kept = (&mut theirs, &mut ours);
            entries(&mut configs, CONFIGS, kept, default_config, supported_config);
            spec.insert("defaultConfigs".into(), configs);
        }
    }
    if let Some(status) = part(object, "status") {
        rename(status, "defaultconfigReferences", "defaultConfigReferences");
    }
    ours.put(object, Version::V1Alpha1);
}

fn to_v1alpha1(object: &mut Value) {
    let mut theirs = PreservedFields::take(object, Version::V1Alpha1);
    let mut ours = PreservedFields::default();
    if let Some(spec) = part(object, "spec") {
        if let Some(configuration) = theirs.get(CONFIGURATION) {
            spec.insert("addOnConfiguration".into(), configuration);
        }
        if let Some(mut configs) = spec.remove("defaultConfigs") {
            let kept = (&mut theirs, &mut ours);
            entries(&mut configs, CONFIGS, kept, supported_config, default_config);
            spec.insert("supportedConfigs".into(), configs);
        }
    }
    if let Some(status) = part(object, "status") {
        rename(status, "defaultConfigReferences", "defaultconfigReferences");
    }
    ours.put(object, Version::V1Beta1);
}

fn part<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Map<String, Value>> {
    object.get_mut(name).and_then(Value::as_object_mut)
}

/// An entry of `supportedConfigs` as `v1beta1` says it.
fn default_config(supported: &Value) -> Value {
    let default = supported.get("defaultConfig").filter(|it| it.is_object());
    let name = default.map_or(Some(NO_DEFAULT_CONFIG.into()), |it| it.get("name").cloned());
    map([
        ("group", supported.get("group").cloned()),
        ("resource", supported.get("resource").cloned()),
        ("namespace", default.and_then(|it| it.get("namespace")).cloned()),
        ("name", name),
    ])
}

/// An entry of `defaultConfigs` as `v1alpha1` says it.
fn supported_config(config: &Value) -> Value {
    let named = config.get("name").is_none_or(|it| it != NO_DEFAULT_CONFIG);
    let default = map([
        ("namespace", config.get("namespace").cloned()),
        ("name", config.get("name").cloned()),
    ]);
    map([
        ("group", config.get("group").cloned()),
        ("resource", config.get("resource").cloned()),
        ("defaultConfig", named.then_some(default)),
    ])
}
