//! Which of a work's `manifestConfigs` speak about one object, and what they say together.
//! Upstream: ocm pkg/work/helper, `FindManifestConfiguration`.

use ocm_api::work::{ConditionRule, FeedbackRule, ManifestConfigOption, UpdateStrategy, UpdateStrategyType};

use super::manifest::ObjectKey;

/// What a work says about one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub strategy: UpdateStrategy,
    pub feedback: Vec<FeedbackRule>,
    pub conditions: Vec<ConditionRule>,
}

impl Config {
    /// The way to update the object.
    pub fn update(&self) -> UpdateStrategyType {
        self.strategy.r#type
    }
}

/// Joins the entries that match: of each part the first entry that has it counts.
pub fn find(configs: &[ManifestConfigOption], key: &ObjectKey) -> Config {
    let mut config = Config::default();
    let mut strategy = None;
    for entry in configs {
        let id = &entry.resource_identifier;
        let same_kind = id.group == key.group && id.resource == key.resource;
        if !same_kind || !glob(&id.name, &key.name) || !glob(&id.namespace, &key.namespace) {
            continue;
        }
        if config.conditions.is_empty() {
            config.conditions = entry.condition_rules.clone();
        }
        if config.feedback.is_empty() {
            config.feedback = entry.feedback_rules.clone();
        }
        if strategy.is_none() {
            strategy = entry.update_strategy.clone();
        }
    }
    config.strategy = strategy.unwrap_or_default();
    config
}

/// Whether the text matches a pattern in which `*` stands for any text and everything else for itself.
fn glob(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use ocm_api::work::{FeedbackRuleType, ResourceIdentifier};

    use super::*;

    fn entry(name: &str, namespace: &str) -> ManifestConfigOption {
        ManifestConfigOption {
            resource_identifier: ResourceIdentifier {
                group: "apps".into(),
                resource: "deployments".into(),
                name: name.into(),
                namespace: namespace.into(),
            },
            ..Default::default()
        }
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            group: "apps".into(),
            version: "v1".into(),
            resource: "deployments".into(),
            namespace: "default".into(),
            name: name.into(),
        }
    }

    #[test]
    fn a_star_stands_for_any_text() {
        let table = [
            ("*", "web", true),
            ("web", "web", true),
            ("web", "web1", false),
            ("we*", "web", true),
            ("*b", "web", true),
            ("w*b", "web", true),
            ("w*b*", "web", true),
            ("w*bb", "wb", false),
            ("w.b", "web", false),
            ("", "", true),
            ("", "web", false),
            ("*", "", true),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn the_first_entry_that_says_something_counts() {
        let strategy = |it| {
            Some(UpdateStrategy {
                r#type: it,
                server_side_apply: None,
            })
        };
        let feedback = FeedbackRule {
            r#type: FeedbackRuleType::WellKnownStatus,
            json_paths: vec![],
        };
        let configs = [
            entry("other", "default"),
            ManifestConfigOption {
                update_strategy: strategy(UpdateStrategyType::CreateOnly),
                ..entry("*", "default")
            },
            ManifestConfigOption {
                feedback_rules: vec![feedback.clone()],
                update_strategy: strategy(UpdateStrategyType::ReadOnly),
                ..entry("web", "*")
            },
        ];
        let config = find(&configs, &key("web"));
        assert_eq!(
            (config.update(), config.feedback),
            (UpdateStrategyType::CreateOnly, vec![feedback])
        );
        assert_eq!(
            find(
                &configs,
                &ObjectKey {
                    group: String::new(),
                    ..key("web")
                }
            ),
            Config::default()
        );
    }
}
