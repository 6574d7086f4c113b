//! What the catalogs say of the package of an operator: whether it is deprecated, and which channels come after its
//! own. Upstream: config-policy-controller `updateDeprecationStatus`, `updateMinorChannelUpgradeStatus`.

use serde_json::Value;

use super::{
    OperatorEvaluation,
    conditions::{self, OperatorCondition},
    name, text,
};

impl OperatorEvaluation<'_> {
    /// Looks at the package of a Subscription, with the installed version.
    pub(super) fn package(
        &mut self,
        subscription: Option<&Value>,
        version: Option<&Value>,
        package: Option<&std::sync::Arc<Value>>,
    ) {
        let known = match (self.must_not_have(), subscription, package) {
            (false, Some(subscription), Some(package)) => {
                let channel = match text(subscription, "/spec/channel") {
                    "" => text(package, "/status/defaultChannel"),
                    channel => channel,
                };
                Some((package, channel))
            }
            _ => None,
        };
        if let Some((package, channel)) = known {
            self.say(deprecation(package, channel, version), Vec::new());
        }
        let later = match known {
            Some((package, channel)) if self.spec.upgrade_approval == "Automatic" => {
                match later_channels(channels(package).map(|it| text(it, "/name")), channel) {
                    later if later.is_empty() => conditions::channel_is_latest(),
                    later => conditions::later_channels(&later),
                }
            }
            _ => conditions::channel_skipped(),
        };
        self.say(later, Vec::new());
    }
}

fn channels(package: &Value) -> impl Iterator<Item = &Value> {
    let channels = package.pointer("/status/channels").and_then(Value::as_array);
    channels.into_iter().flatten()
}

/// What is deprecated: the package, or else the channel, or else the version in it.
fn deprecation(package: &Value, channel: &str, version: Option<&Value>) -> OperatorCondition {
    let message = |of: &Value| {
        let deprecation = of.get("deprecation").filter(|it| it.is_object())?;
        Some(text(deprecation, "/message").to_owned())
    };
    if let Some(message) = message(&package["status"]) {
        return conditions::deprecated("Package", text(package, "/status/packageName"), &message);
    }
    for of_channel in channels(package).filter(|it| it["name"] == channel) {
        if let Some(message) = message(of_channel) {
            return conditions::deprecated("Channel", channel, &message);
        }
        let Some(version) = version.map(name) else { continue };
        let entries = of_channel["entries"].as_array().into_iter().flatten();
        let mut entries = entries.filter(|it| it["name"] == version);
        if let Some(message) = entries.find_map(message) {
            return conditions::deprecated("Bundle", version, &message);
        }
    }
    conditions::not_deprecated()
}

/// A channel that is named after a minor version, such as `stable-v1.2` or `4.12.x`.
#[derive(PartialEq, Eq)]
struct MinorChannel<'c> {
    prefix: &'c str,
    major: &'c str,
    minor: u64,
    suffix: &'c str,
}

fn minor_channel(name: &str) -> Option<MinorChannel<'_>> {
    let (version, suffix) = match name.strip_suffix(".x") {
        Some(version) => (version, ".x"),
        None => (name, ""),
    };
    let (rest, minor) = version.rsplit_once('.')?;
    let prefix = rest.trim_end_matches(|it: char| it.is_ascii_digit());
    let major = &rest[prefix.len()..];
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    let is_prefix = prefix.bytes().all(|it| it.is_ascii_alphabetic() || it == b'-');
    (is_number(major) && is_number(minor) && is_prefix).then_some(MinorChannel {
        prefix,
        major,
        minor: minor.parse().ok()?,
        suffix,
    })
}

/// The channels of later minor versions, in order of their names.
fn later_channels<'c>(channels: impl Iterator<Item = &'c str>, selected: &str) -> Vec<&'c str> {
    let Some(selected) = minor_channel(selected) else {
        return Vec::new();
    };
    let is_later = |it: &&str| {
        minor_channel(it).is_some_and(|it| {
            let MinorChannel {
                prefix,
                major,
                minor,
                suffix,
            } = it;
            (prefix, major, suffix) == (selected.prefix, selected.major, selected.suffix) && minor > selected.minor
        })
    };
    let mut later: Vec<&str> = channels.filter(is_later).collect();
    later.sort_unstable();
    later
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn later_channels_are_those_of_later_minor_versions() {
        let channels = [
            "stable",
            "stable-1.2",
            "stable-1.10",
            "stable-1.3",
            "stable-2.4",
            "1.9",
            "stable-1.4.x",
        ];
        let later = |selected: &str| later_channels(channels.into_iter(), selected);
        assert_eq!(later("stable-1.2"), ["stable-1.10", "stable-1.3"]);
        assert_eq!(later("1.8"), ["1.9"]);
        assert_eq!(later("stable-1.2.x"), ["stable-1.4.x"]);
        assert!(later("stable").is_empty() && later("stable-1.10").is_empty());
    }

    #[test]
    fn the_package_is_deprecated_before_the_channel_before_the_bundle() {
        let version = json!({"metadata": {"name": "p.v1"}});
        let entry = json!({"name": "p.v1", "deprecation": {"message": "old bundle"}});
        let mut package = json!({"status": {
            "packageName": "p", "deprecation": {"message": "old package"},
            "channels": [{"name": "c", "deprecation": {"message": "old channel"}, "entries": [entry]}],
        }});
        let say = |package: &Value| deprecation(package, "c", Some(&version)).message;
        assert_eq!(say(&package), "the requested p Package was deprecated. old package");
        package["status"]["deprecation"] = Value::Null;
        assert_eq!(say(&package), "the requested c Channel was deprecated. old channel");
        package["status"]["channels"][0]["deprecation"] = Value::Null;
        assert_eq!(say(&package), "the requested p.v1 Bundle was deprecated. old bundle");
        package["status"]["channels"][0]["entries"] = json!([]);
        assert_eq!(
            say(&package),
            "The requested package, channel, and bundle are all at the recommended versions"
        );
    }
}
