//! What a program may do on an API server, as a table with reasons. The ClusterRole of its deployment is made of the
//! table, and tests run the program with these rights alone.

use k8s_openapi::api::rbac::v1::PolicyRule;

/// One line of the table: verbs on resources of one group. Lists are words with blanks between them.
#[derive(Clone, Copy, Debug)]
pub struct Right {
    /// Empty for the core group.
    pub group: &'static str,
    /// Resources, and sub-resources as `resource/sub`.
    pub resources: &'static str,
    /// Verbs.
    pub verbs: &'static str,
    /// Names of objects; empty for all.
    pub names: &'static str,
    /// What it is needed for, for the reader of the role.
    pub why: &'static str,
}

impl Right {
    /// On objects of any name.
    pub const fn new(group: &'static str, resources: &'static str, verbs: &'static str, why: &'static str) -> Self {
        Self {
            group,
            resources,
            verbs,
            names: "",
            why,
        }
    }

    /// The same on these objects alone.
    pub const fn only(self, names: &'static str) -> Self {
        Self { names, ..self }
    }

    /// As RBAC writes it.
    pub fn rule(&self) -> PolicyRule {
        let words = |it: &str| it.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        PolicyRule {
            api_groups: Some(vec![self.group.to_owned()]),
            resources: Some(words(self.resources)),
            verbs: words(self.verbs),
            resource_names: Some(words(self.names)).filter(|it| !it.is_empty()),
            non_resource_urls: None,
        }
    }
}

/// A ClusterRole as YAML, with the reasons as comments.
pub fn cluster_role(name: &str, rights: &[Right]) -> String {
    yaml("ClusterRole", &format!("  name: {name}\n"), rights)
}

/// The same of one namespace.
pub fn role(namespace: &str, name: &str, rights: &[Right]) -> String {
    yaml("Role", &format!("  name: {name}\n  namespace: {namespace}\n"), rights)
}

fn yaml(kind: &str, metadata: &str, rights: &[Right]) -> String {
    let list = |it: &str| it.split_whitespace().collect::<Vec<_>>().join(", ");
    let mut text = format!("apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n{metadata}rules:\n");
    for right in rights {
        let group = if right.group.is_empty() { "\"\"" } else { right.group };
        text += &format!(
            "# {}\n- apiGroups: [{group}]\n  resources: [{}]\n",
            right.why,
            list(right.resources)
        );
        if !right.names.is_empty() {
            text += &format!("  resourceNames: [{}]\n", list(right.names));
        }
        text += &format!("  verbs: [{}]\n", list(right.verbs));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permission_is_a_rule_with_its_reason() {
        let rights = [
            Right::new("", "pods pods/log", "get", "To look."),
            Right::new("a.b", "cs", "update", "To write one.").only("d"),
        ];
        let text = cluster_role("r", &rights);
        let rules = "rules:
# To look.
- apiGroups: [\"\"]
  resources: [pods, pods/log]
  verbs: [get]
# To write one.
- apiGroups: [a.b]
  resources: [cs]
  resourceNames: [d]
  verbs: [update]
";
        assert!(text.ends_with(rules), "{text}");
        let text = role("n", "r", &rights);
        assert!(
            text.contains("kind: Role\nmetadata:\n  name: r\n  namespace: n\nrules:\n"),
            "{text}"
        );
        assert_eq!(rights[1].rule().resource_names, Some(vec!["d".to_owned()]));
        assert_eq!(rights[0].rule().resource_names, None);
    }
}
