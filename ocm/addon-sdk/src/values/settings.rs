//! What people set about one agent at a time: in annotations of its ManagedClusterAddOn, and in variables of its
//! AddOnDeploymentConfig, as values of the add-on's chart.
//! Upstream: governance-policy-addon-controller `pkg/addon/common.go`, whose names and values these are.
//!
//! What cannot be read is left as it was, and the log says so: an add-on that runs does not stop for it.
//!
//! Ours differs in one thing: numbers are not cut to eight bits, so a concurrency of 12 gives a burst of 265.
//!
//! ```
//! use ocm_addon_sdk::{AddOnContext, values::{self, settings::{self, Setting}}};
//! use serde_json::json;
//!
//! const COLOR: Setting = Setting {
//!     variable: "color",
//!     annotation: Some("greeter-color"),
//!     read: |text| Some(values::at("greeting.color", text)),
//! };
//! let config = json!({"customizedVariables": [
//!     {"name": "color", "value": "red"}, {"name": "logLevel", "value": "3"}, {"name": "clientQPS", "value": "many"},
//! ]});
//! let config = serde_json::from_value(config).unwrap();
//! let values = settings::of_variables(&config, &[COLOR]);
//! assert_eq!(json!(values), json!({"greeting": {"color": "red"}, "logLevel": 3, "pkgLogLevel": 1}));
//! ```

use std::collections::BTreeMap;

use ocm_api::addon::AddOnDeploymentConfigSpec;
use tracing::warn;

use super::{Values, at, merge};
use crate::{AddOnContext, UserError};

/// One thing that can be set.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The variable of an AddOnDeploymentConfig.
    pub variable: &'static str,
    /// The annotation of a ManagedClusterAddOn, where there is one.
    pub annotation: Option<&'static str>,
    /// The values that a text stands for; `None` when it cannot be read.
    pub read: fn(&str) -> Option<Values>,
}

/// What can be set of every controller: `logLevel` with `pkgLogLevel`, `logEncoder`, `evaluationConcurrency`,
/// `clientQPS`, `clientBurst` (which follows from the concurrency when only that is set), `prometheus.enabled`,
/// `tlsMinVersion` and `tlsCipherSuites`.
pub const CONTROLLER: &[Setting] = &[
    Setting {
        variable: "logLevel",
        annotation: Some("log-level"),
        // The packages below say less.
        read: |text| log_level(text).map(|it| merge([at("logLevel", it), at("pkgLogLevel", it - 2)])),
    },
    Setting {
        variable: "logEncoder",
        annotation: None,
        read: |text| (!text.is_empty()).then(|| at("logEncoder", text)),
    },
    Setting {
        variable: "evaluationConcurrency",
        annotation: Some("policy-evaluation-concurrency"),
        read: |text| number(text).map(|it| at("evaluationConcurrency", it)),
    },
    Setting {
        variable: "clientQPS",
        annotation: Some("client-qps"),
        read: |text| number(text).map(|it| at("clientQPS", it)),
    },
    Setting {
        variable: "clientBurst",
        annotation: Some("client-burst"),
        read: |text| number(text).map(|it| at("clientBurst", it)),
    },
    Setting {
        variable: "prometheusEnabled",
        annotation: Some("prometheus-metrics-enabled"),
        read: |text| parse_bool(text).map(|it| at("prometheus.enabled", it)),
    },
    Setting {
        variable: "tlsMinVersion",
        annotation: None,
        read: |text| {
            let known = ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"];
            known.contains(&text).then(|| at("tlsMinVersion", text))
        },
    },
    Setting {
        variable: "tlsCipherSuites",
        annotation: None,
        read: |text| text.split(',').all(is_suite).then(|| at("tlsCipherSuites", text)),
    },
];

/// Annotation of a ManagedClusterAddOn: `true` keeps everything on the cluster as it is.
pub const PAUSE: &str = "policy-addon-pause";

/// Refuses to make manifests while [`PAUSE`] says so.
///
/// # Errors
/// When everything on the cluster is to stay as it is.
pub fn unless_paused(place: &AddOnContext) -> Result<(), UserError> {
    let annotations = place.addon.metadata.annotations.as_ref();
    match annotations.and_then(|it| it.get(PAUSE)).is_some_and(|it| it == "true") {
        true => Err(UserError::new(
            "the Policy Addon controller is paused due to the policy-addon-pause annotation",
        )),
        false => Ok(()),
    }
}

/// What the annotations of the ManagedClusterAddOn say of [`CONTROLLER`] and of `more`.
pub fn of_annotations(place: &AddOnContext, more: &[Setting]) -> Values {
    let none = BTreeMap::new();
    let annotations = place.addon.metadata.annotations.as_ref().unwrap_or(&none);
    let all = CONTROLLER.iter().chain(more);
    let said = all.filter_map(|it| Some((it, annotations.get(it.annotation?)?.as_str())));
    read(said, place.cluster_name())
}

/// What the variables of an AddOnDeploymentConfig say of [`CONTROLLER`] and of `more`.
pub fn of_variables(config: &AddOnDeploymentConfigSpec, more: &[Setting]) -> Values {
    let of = "an AddOnDeploymentConfig";
    let said = config.customized_variables.iter().filter_map(|variable| {
        let mut all = CONTROLLER.iter().chain(more);
        let setting = all.find(|it| it.variable == variable.name);
        if setting.is_none() {
            warn!(name = variable.name, of, "unknown customized variable");
        }
        Some((setting?, variable.value.as_str()))
    });
    read(said, of)
}

fn read<'a>(said: impl Iterator<Item = (&'a Setting, &'a str)>, of: &str) -> Values {
    let mut layers = Vec::new();
    for (setting, text) in said {
        match (setting.read)(text) {
            Some(values) => layers.push(values),
            None => warn!(
                name = setting.variable,
                value = text,
                of,
                "setting cannot be read, and is left as it was"
            ),
        }
    }
    let mut all = merge(layers);
    let concurrency = all.get("evaluationConcurrency").and_then(|it| it.as_u64());
    if let Some(concurrency) = concurrency
        && !all.contains_key("clientBurst")
    {
        all.extend(at("clientBurst", concurrency * 22 + 1));
    }
    all
}

fn log_level(text: &str) -> Option<i64> {
    match text {
        "error" => Some(-1),
        _ => text.parse().ok().filter(|it| (-1..=127).contains(it)),
    }
}

/// From 1 to what upstream's programs take.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|it| (1..=255).contains(it))
}

fn is_suite(text: &str) -> bool {
    let letters = |it: char| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_';
    text.trim().starts_with("TLS_") && text.trim().chars().all(letters)
}

/// A truth value as Go's `strconv.ParseBool` reads it.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of_variable(name: &str, value: &str) -> Value {
        let config = json!({"customizedVariables": [{"name": name, "value": value}]});
        let config = serde_json::from_value(config).unwrap();
        json!(of_variables(&config, &[]))
    }

    #[test]
    fn a_setting_that_cannot_be_read_is_left_out() {
        for (name, good, bad) in [
            ("logLevel", "error", "-2"),
            ("logEncoder", "json", ""),
            ("evaluationConcurrency", "12", "0"),
            ("clientQPS", "1", "256"),
            ("clientBurst", "255", "x"),
            ("prometheusEnabled", "T", "yes"),
            ("tlsMinVersion", "VersionTLS13", "1.3"),
            ("tlsCipherSuites", "TLS_AES_128_GCM_SHA256, TLS_A", "TLS_A,nonsense"),
        ] {
            assert_ne!(of_variable(name, good), json!({}), "{name}");
            assert_eq!(of_variable(name, bad), json!({}), "{name}");
        }
        assert_eq!(of_variable("unknown", "x"), json!({}));
    }

    #[test]
    fn the_burst_follows_the_concurrency_unless_it_is_set() {
        let concurrency = of_variable("evaluationConcurrency", "12");
        assert_eq!(concurrency, json!({"evaluationConcurrency": 12, "clientBurst": 265}));
        let mut place = AddOnContext::new("c1", "a");
        let said = [("client-burst", "7"), ("policy-evaluation-concurrency", "3")];
        let said = said.map(|(name, value)| (name.to_owned(), value.to_owned()));
        std::sync::Arc::make_mut(&mut place.addon).metadata.annotations = Some(said.into());
        let values = json!(of_annotations(&place, &[]));
        assert_eq!(values, json!({"evaluationConcurrency": 3, "clientBurst": 7}));
    }
}
