//! Fills the rules of ClusterRoles that aggregate others.
//!
//! root: ClusterRole with `aggregationRule`; reads: ClusterRoles that its selectors match; writes: its `rules`; never: the
//! rules of other roles.

use super::{
    Controller,
    queue::{Key, Queue},
    tolerate,
};
use crate::local::Local;
use kube_store::{
    Object,
    status::Status,
    store::{Change, Event},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

const ID: &str = "clusterroles.rbac.authorization.k8s.io";
const MANAGER: &str = "clusterrole-aggregation-controller";

/// See the header of this file.
pub(super) struct Aggregation {
    local: Local,
    /// Roles that aggregate: any change of a role may concern them.
    roles: Mutex<BTreeSet<Box<str>>>,
}

impl Aggregation {
    pub fn new(local: Local) -> Self {
        Self {
            local,
            roles: Mutex::default(),
        }
    }
}

fn aggregates(object: &Object) -> bool {
    let needle = b"\"aggregationRule\":{";
    object.json.windows(needle.len()).any(|it| it == needle)
}

/// Whether a label selector matches.
fn matches(selector: &Value, label: &dyn Fn(&str) -> Option<String>) -> bool {
    let pairs = selector["matchLabels"].as_object().into_iter().flatten();
    if !pairs
        .into_iter()
        .all(|(key, value)| label(key).as_deref() == value.as_str())
    {
        return false;
    }
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    expressions.all(|it| {
        let value = label(it["key"].as_str().unwrap_or_default());
        let listed = |value: &String| {
            it["values"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one == value.as_str()))
        };
        match it["operator"].as_str().unwrap_or_default() {
            "In" => value.as_ref().is_some_and(listed),
            "NotIn" => !value.as_ref().is_some_and(listed),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    })
}

/// The rules of all `sources`, each once, in order.
fn union<'a>(sources: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    for rule in sources.filter_map(|it| it["rules"].as_array()).flatten() {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
    rules
}

#[async_trait::async_trait]
impl Controller for Aggregation {
    fn name(&self) -> &'static str {
        "cluster-role-aggregation"
    }

    fn notice(&self, event: &Event, queue: &Queue) {
        let object = &event.object;
        if object.resource.as_ref() != ID {
            return;
        }
        let mut roles = self.roles.lock();
        if event.change == Change::Deleted || !aggregates(object) {
            roles.remove(&object.name);
        } else {
            roles.insert(object.name.clone());
        }
        roles.iter().for_each(|it| {
            queue.add(Key {
                resource: object.resource.clone(),
                ..Key::cluster(ID, it)
            })
        });
    }

    fn survey(&self, queue: &Queue) {
        for object in self.local.store().list(ID, "").0.iter().filter(|it| aggregates(it)) {
            self.roles.lock().insert(object.name.clone());
            queue.add(Key::of(object));
        }
    }

    async fn reconcile(&self, key: &Key, _: &Queue) -> Result<Option<Duration>, Status> {
        let Some(object) = self.local.store().get(ID, "", &key.name).filter(|it| !it.terminating) else {
            return Ok(None);
        };
        let role = object.value();
        let Some(selectors) = role["aggregationRule"]["clusterRoleSelectors"].as_array() else {
            return Ok(None);
        };
        let all = self.local.store().list(ID, "").0;
        let mut sources = Vec::new();
        for selector in selectors {
            // Roles come sorted by name, so that the union is the same however they were written.
            let chosen = all.iter().filter(|it| it.name != object.name);
            let chosen = chosen.filter(|it| matches(selector, &|key| it.label(key).map(str::to_owned)));
            sources.extend(chosen.map(|it| it.value()));
        }
        let rules = union(sources.iter());
        if role["rules"].as_array().map_or(rules.is_empty(), |it| *it == rules) {
            return Ok(None);
        }
        let wanted = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": key.name.as_ref()}, "rules": rules,
        });
        tolerate(self.local.apply(ID, "", &key.name, "", wanted, MANAGER).await)?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_matches_by_labels_and_expressions() {
        let label = |key: &str| (key == "a").then(|| "1".to_owned());
        assert!(matches(&json!({"matchLabels": {"a": "1"}}), &label));
        assert!(!matches(&json!({"matchLabels": {"a": "1", "b": "1"}}), &label));
        let one = |operator: &str, key: &str| json!({"matchExpressions": [{"key": key, "operator": operator, "values": ["1"]}]});
        assert!(matches(&one("In", "a"), &label) && !matches(&one("In", "b"), &label));
        assert!(matches(&one("NotIn", "b"), &label) && !matches(&one("NotIn", "a"), &label));
        assert!(matches(&one("Exists", "a"), &label) && matches(&one("DoesNotExist", "b"), &label));
    }

    #[test]
    fn the_union_holds_each_rule_once_in_the_order_of_the_roles() {
        let (a, b) = (json!({"verbs": ["get"]}), json!({"verbs": ["list"]}));
        let sources = [json!({"rules": [a, b]}), json!({"rules": [b]}), json!({"rules": null})];
        assert_eq!(union(sources.iter()), [a, b]);
    }
}
