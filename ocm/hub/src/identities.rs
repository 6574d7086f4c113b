//! Who speaks to a hub, and what each of them may do there, read out of the roles: for the page about security, which
//! shows it, and for the test that asks API servers whether it is so.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::PolicyRule;
use ocm_reconcile::{access::Attributes, install::Installed};
use registration::hub::rbac as of_clusters;
use serde::Deserialize;

use crate::{bootstrap, rbac};

/// Somebody who speaks to a hub.
#[derive(Clone, Debug)]
pub struct HubIdentity {
    /// Who, as a heading.
    pub who: String,
    /// How a server tells it from others.
    pub known_by: &'static str,
    /// What it may do beyond what everybody may.
    pub granted: Vec<Granted>,
}

/// One rule, where it holds.
#[derive(Clone, Debug)]
pub struct Granted {
    /// The namespace; everywhere when there is none.
    pub namespace: Option<String>,
    /// What.
    pub rule: PolicyRule,
}

/// Those of whom the hub itself writes the roles. `cluster` is the agent's own one.
/// What the agent of an add-on may do says its add-on.
pub fn all(cluster: &str) -> Vec<HubIdentity> {
    let none = BTreeMap::new();
    let role = |accepted| everywhere(of_clusters::cluster_role(cluster, accepted, &none).rules);
    let shared = of_clusters::shared_cluster_roles(&none);
    let in_own = shared.into_iter().flat_map(|it| within(cluster, it.rules));
    vec![
        HubIdentity {
            who: "Nobody in particular".to_owned(),
            known_by: "no credential (`system:anonymous`)",
            granted: installed(bootstrap::cluster_info("")),
        },
        HubIdentity {
            who: "A cluster that joins".to_owned(),
            known_by: "the bootstrap token, or the ServiceAccount of `drover get token`",
            granted: installed(bootstrap::objects()),
        },
        HubIdentity {
            who: format!("The agent of `{cluster}` while the hub does not accept it"),
            known_by: "a certificate of the group of its cluster",
            granted: role(false),
        },
        HubIdentity {
            who: format!("The agent of `{cluster}`"),
            known_by: "a certificate of the group of its cluster",
            granted: role(true).into_iter().chain(in_own).collect(),
        },
        HubIdentity {
            who: "The hub itself".to_owned(),
            known_by: "its ServiceAccount",
            granted: everywhere(Some(rbac::RIGHTS.iter().map(|it| it.rule()).collect())),
        },
    ]
}

impl HubIdentity {
    /// Whether it may do this.
    pub fn may(&self, asked: &Attributes) -> bool {
        self.granted.iter().any(|it| it.allows(asked))
    }
}

impl Granted {
    fn allows(&self, asked: &Attributes) -> bool {
        let resource = match &asked.subresource {
            None => asked.resource.clone(),
            Some(sub) => format!("{}/{sub}", asked.resource),
        };
        let holds = |all: &[String], it: &str| all.iter().any(|one| one == "*" || one == it);
        let names = self.rule.resource_names.as_deref().unwrap_or_default();
        (self.namespace.is_none() || self.namespace == asked.namespace)
            && holds(&self.rule.verbs, &asked.verb)
            && holds(self.rule.api_groups.as_deref().unwrap_or_default(), &asked.group)
            && holds(self.rule.resources.as_deref().unwrap_or_default(), &resource)
            && (names.is_empty() || asked.name.as_ref().is_some_and(|it| names.contains(it)))
    }
}

fn everywhere(rules: Option<Vec<PolicyRule>>) -> Vec<Granted> {
    let rules = rules.into_iter().flatten();
    rules.map(|rule| Granted { namespace: None, rule }).collect()
}

fn within(namespace: &str, rules: Option<Vec<PolicyRule>>) -> Vec<Granted> {
    let rules = everywhere(rules).into_iter();
    let namespace = Some(namespace.to_owned());
    rules
        .map(|it| Granted {
            namespace: namespace.clone(),
            ..it
        })
        .collect()
}

/// The rules of all roles among these objects, which are bound to one identity.
fn installed(objects: Vec<Installed>) -> Vec<Granted> {
    let granted = objects.into_iter().flat_map(|it| {
        let object = it.into_manifest();
        let rules = object.get("rules").map(Vec::<PolicyRule>::deserialize);
        let rules = rules.transpose().expect("our own roles are roles");
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) => within(namespace, rules),
            None => everywhere(rules),
        }
    });
    granted.collect()
}

/// All of them as a piece of Markdown.
pub fn page() -> String {
    let mut page = String::new();
    for identity in all("cluster1") {
        page += &format!(
            "### {}\n\nKnown by: {}.\n\n| Where | What | Verbs |\n|---|---|---|\n",
            identity.who, identity.known_by
        );
        for granted in &identity.granted {
            page += &row(granted);
        }
        page += "\n";
    }
    page
}

fn row(granted: &Granted) -> String {
    let rule = &granted.rule;
    let place = match &granted.namespace {
        Some(namespace) => format!("namespace `{namespace}`"),
        None => "everywhere".to_owned(),
    };
    let mut things = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            let dot = if group.is_empty() { "" } else { "." };
            things.push(format!("`{resource}{dot}{group}`"));
        }
    }
    let names: Vec<_> = rule
        .resource_names
        .iter()
        .flatten()
        .map(|it| format!("`{it}`"))
        .collect();
    let only = match names.is_empty() {
        true => String::new(),
        false => format!(" named {}", names.join(", ")),
    };
    format!("| {place} | {}{only} | {} |\n", things.join(", "), rule.verbs.join(" "))
}
