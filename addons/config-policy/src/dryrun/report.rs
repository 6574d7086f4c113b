//! What a dry run prints: differences, compliance messages, and colors.
//! Upstream: config-policy-controller `outputDiffs`, `addColorToDiff`.

use ocm_addon_sdk::ocm_api::policy::configuration_policy::ConfigurationPolicyStatus;

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const BOLD: &str = "\x1b[1m";
const RESET: &str = "\x1b[0m";

/// Whether lines are colored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    /// By the escape sequences of terminals.
    Ansi,
    /// They are plain.
    Plain,
}

impl Colors {
    fn paint(self, text: &str, color: &str) -> String {
        match self {
            Self::Ansi => format!("{color}{text}{RESET}"),
            Self::Plain => text.to_owned(),
        }
    }

    /// Something is as it should be.
    pub fn good(self, text: &str) -> String {
        self.paint(text, GREEN)
    }

    /// Something is not.
    pub fn bad(self, text: &str) -> String {
        self.paint(text, RED)
    }

    /// Something could not be looked at.
    pub fn doubtful(self, text: &str) -> String {
        self.paint(text, YELLOW)
    }

    /// The sum of it.
    pub fn bold(self, text: &str) -> String {
        self.paint(text, BOLD)
    }
}

/// The differences of all related objects.
pub fn differences(status: &ConfigurationPolicyStatus, colors: Colors) -> String {
    let mut out = "# Diffs:\n".to_owned();
    for related in &status.related_objects {
        let object = &related.object;
        let namespace = match object.metadata.namespace.as_str() {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        let name = &object.metadata.name;
        out += &format!("{} {} {namespace}{name}:\n", object.api_version, object.kind);
        let difference = related.properties.as_ref().map_or("", |it| it.diff.as_str());
        let colored: Vec<String> = difference.split('\n').map(|line| of_line(line, colors)).collect();
        let text = colored.join("\n");
        out += text.strip_suffix('\n').unwrap_or(&text);
        out.push('\n');
    }
    out
}

fn of_line(line: &str, colors: Colors) -> String {
    let is = |sign: &str, header: &str| line.starts_with(sign) && !line.starts_with(header);
    if is("-", "---") {
        colors.bad(line)
    } else if is("+", "+++") {
        colors.good(line)
    } else {
        line.to_owned()
    }
}

/// Compliance messages, one a line.
pub fn messages(messages: &[String]) -> String {
    messages.iter().map(|it| format!("{it}\n")).collect()
}

#[cfg(test)]
mod tests {
    use ocm_addon_sdk::ocm_api::policy::configuration_policy::{RelatedObject, RelatedProperties};

    use super::*;

    fn status(diff: &str) -> ConfigurationPolicyStatus {
        let mut related = RelatedObject::default();
        related.object.api_version = "v1".to_owned();
        related.object.kind = "Pod".to_owned();
        related.object.metadata.name = "p".to_owned();
        related.object.metadata.namespace = "n".to_owned();
        related.properties = Some(RelatedProperties {
            diff: diff.to_owned(),
            ..RelatedProperties::default()
        });
        ConfigurationPolicyStatus {
            related_objects: vec![related],
            ..ConfigurationPolicyStatus::default()
        }
    }

    #[test]
    fn changed_lines_are_colored() {
        let text = differences(&status("--- a\n+++ b\n-x\n+y\n z\n"), Colors::Ansi);
        assert_eq!(
            text,
            "# Diffs:\nv1 Pod n/p:\n--- a\n+++ b\n\x1b[31m-x\x1b[0m\n\x1b[32m+y\x1b[0m\n z\n"
        );
        assert_eq!(differences(&status("-x"), Colors::Plain), "# Diffs:\nv1 Pod n/p:\n-x\n");
    }

    #[test]
    fn an_object_without_a_difference_leaves_an_empty_line() {
        assert_eq!(differences(&status(""), Colors::Ansi), "# Diffs:\nv1 Pod n/p:\n\n");
    }
}
