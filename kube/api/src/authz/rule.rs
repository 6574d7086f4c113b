//! One rule of a role: what it allows, what it covers, and how it is printed.

use crate::identity::Attributes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeSet, fmt::Write};

/// A `PolicyRule` of rbac.authorization.k8s.io/v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rule {
    #[serde(deserialize_with = "null_is_empty")]
    pub verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub api_groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub resource_names: Vec<String>,
    #[serde(
        rename = "nonResourceURLs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The rules of a Role or ClusterRole; a rule that cannot be read allows nothing.
pub fn rules_of(role: &Value) -> Vec<Rule> {
    let rules = role["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    rules.iter().filter_map(|it| Rule::deserialize(it).ok()).collect()
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|it| it == "*" || it == wanted)
}

fn url_matches(pattern: &str, path: &str) -> bool {
    pattern == "*" || pattern == path || pattern.strip_suffix('*').is_some_and(|it| path.starts_with(it))
}

impl Rule {
    /// Whether the rule allows what is asked.
    pub fn allows(&self, asked: &Attributes) -> bool {
        if !has(&self.verbs, &asked.verb) {
            return false;
        }
        if !asked.is_resource {
            return self.non_resource_urls.iter().any(|it| url_matches(it, &asked.path));
        }
        has(&self.api_groups, &asked.group)
            && self
                .resources
                .iter()
                .any(|it| resource_matches(it, &asked.resource, &asked.subresource))
            && (self.resource_names.is_empty() || self.resource_names.contains(&asked.name))
    }

    /// Whether this rule allows all of `other`.
    fn covers(&self, other: &Rule) -> bool {
        let resource_covered = |it: &String| {
            has(&self.resources, it)
                || it
                    .split_once('/')
                    .is_some_and(|(_, sub)| self.resources.iter().any(|held| held.strip_prefix("*/") == Some(sub)))
        };
        let url_covered = |it: &String| self.non_resource_urls.iter().any(|held| url_matches(held, it));
        other.verbs.iter().all(|it| has(&self.verbs, it))
            && other.api_groups.iter().all(|it| has(&self.api_groups, it))
            && other.resources.iter().all(resource_covered)
            && other.non_resource_urls.iter().all(url_covered)
            && (self.resource_names.is_empty()
                || (!other.resource_names.is_empty()
                    && other.resource_names.iter().all(|it| self.resource_names.contains(it))))
    }

    /// How many rules [`Self::broken_down`] gives.
    fn parts(&self) -> usize {
        let resources = [&self.api_groups, &self.resources, &self.verbs]
            .iter()
            .fold(self.resource_names.len().max(1), |product, it| {
                product.saturating_mul(it.len())
            });
        resources.saturating_add(self.non_resource_urls.len().saturating_mul(self.verbs.len()))
    }

    /// The smallest rules that together say the same.
    fn broken_down(&self) -> Vec<Rule> {
        let one = |it: &String| vec![it.clone()];
        let mut all = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let rule = Rule {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        ..Rule::default()
                    };
                    if self.resource_names.is_empty() {
                        all.push(rule);
                    } else {
                        all.extend(self.resource_names.iter().map(|it| Rule {
                            resource_names: one(it),
                            ..rule.clone()
                        }));
                    }
                }
            }
        }
        for url in &self.non_resource_urls {
            all.extend(self.verbs.iter().map(|it| Rule {
                verbs: one(it),
                non_resource_urls: one(url),
                ..Rule::default()
            }));
        }
        all
    }

    /// `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list"]}`.
    pub fn text(&self) -> String {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let parts = parts.iter().filter(|(_, list)| !list.is_empty());
        let parts: Vec<String> = parts.map(|(name, list)| format!("{name}:{}", quoted(list))).collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// Rules multiply: 200 groups of 200 resources with 200 verbs fit into one short request.
const PARTS_MAX: usize = 10_000;

/// `["a" "b"]`, as Go prints a list of strings.
pub fn quoted(list: &[String]) -> String {
    let mut text = "[".to_owned();
    for (index, it) in list.iter().enumerate() {
        let space = if index == 0 { "" } else { " " };
        write!(text, "{space}{it:?}").expect("a String takes any text");
    }
    text + "]"
}

fn resource_matches(held: &str, resource: &str, subresource: &str) -> bool {
    match held.split_once('/') {
        None => held == "*" || (subresource.is_empty() && held == resource),
        Some((main, sub)) => !subresource.is_empty() && sub == subresource && (main == "*" || main == resource),
    }
}

/// The parts of `wanted` that no rule of `held` covers. A rule that is too large to be looked at part by part is
/// missing as a whole, unless one rule covers all of it.
pub fn missing(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let is_covered = |wanted: &Rule| held.iter().any(|it| it.covers(wanted));
    let mut missing = Vec::new();
    let mut left = PARTS_MAX;
    for rule in wanted.iter().filter(|it| !is_covered(it)) {
        match left.checked_sub(rule.parts()) {
            Some(rest) => {
                left = rest;
                missing.extend(rule.broken_down().into_iter().filter(|it| !is_covered(it)));
            }
            None => missing.push(rule.clone()),
        }
    }
    missing
}

/// One line per group, resource and name, with all its verbs; sorted.
pub fn compact_text(rules: &[Rule]) -> Vec<String> {
    let mut compact: Vec<Rule> = Vec::new();
    for rule in rules {
        let same = |it: &&mut Rule| {
            rule.non_resource_urls.is_empty()
                && it.api_groups == rule.api_groups
                && it.resources == rule.resources
                && it.resource_names == rule.resource_names
                && it.non_resource_urls.is_empty()
        };
        match compact.iter_mut().find(same) {
            Some(known) => {
                for verb in &rule.verbs {
                    if !known.verbs.contains(verb) {
                        known.verbs.push(verb.clone());
                    }
                }
            }
            None => compact.push(rule.clone()),
        }
    }
    let lines: BTreeSet<String> = compact.iter().map(Rule::text).collect();
    lines.into_iter().collect()
}
