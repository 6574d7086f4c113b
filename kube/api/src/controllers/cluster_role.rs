//! Fills the rules of ClusterRoles that aggregate others.
//!
//! root: ClusterRole with `aggregationRule`; reads: ClusterRoles that its selectors match; writes: its `rules`;
//! never: the rules of other roles.

use super::{
    controller::{ServerController, tolerate},
    queue::{Key, Queue},
};
use crate::local::Local;
use kube_store::{
    Object,
    status::Status,
    store::{Change, Event},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const ID: &str = "clusterroles.rbac.authorization.k8s.io";
const MANAGER: &str = "clusterrole-aggregation-controller";

/// See the header of this file.
pub(super) struct Aggregation {
    local: Local,
    /// Roles that aggregate, and what they select: a role that none of them selects, as those of clusters are,
    /// concerns nobody.
    roles: Mutex<BTreeMap<Box<str>, Arc<[Value]>>>,
}

impl Aggregation {
    pub fn new(local: Local) -> Self {
        Self {
            local,
            roles: Mutex::default(),
        }
    }
}

fn selectors(role: &Value) -> Vec<Value> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
    selectors.cloned().unwrap_or_default()
}

/// Whether what happened to a role can change what the role `name`, which selects by these, is made of.
fn concerns(event: &Event, name: &str, selectors: &[Value]) -> bool {
    let is_selected = |it: &Object| selectors.iter().any(|selector| selects(selector, it));
    name == &*event.object.name || is_selected(&event.object) || event.previous.as_deref().is_some_and(is_selected)
}

fn selects(selector: &Value, role: &Object) -> bool {
    matches(selector, &|key| role.label(key).map(str::to_owned))
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
impl ServerController for Aggregation {
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
            roles.insert(object.name.clone(), selectors(&object.value()).into());
        }
        for (name, _) in roles
            .iter()
            .filter(|(name, selectors)| concerns(event, name, selectors))
        {
            queue.add(Key {
                resource: object.resource.clone(),
                ..Key::cluster(ID, name)
            });
        }
    }

    fn survey(&self, queue: &Queue) {
        for object in self.local.store().list(ID, "").0.iter().filter(|it| aggregates(it)) {
            let selectors = selectors(&object.value()).into();
            self.roles.lock().insert(object.name.clone(), selectors);
            queue.add(Key::of(object));
        }
    }

    async fn reconcile(&self, key: &Key, _: &Queue) -> Result<Option<Duration>, Status> {
        let Some(object) = self.local.store().get(ID, "", &key.name).filter(|it| !it.terminating) else {
            return Ok(None);
        };
        let role = object.value();
        if !role["aggregationRule"]["clusterRoleSelectors"].is_array() {
            return Ok(None);
        }
        let all = self.local.store().list(ID, "").0;
        let mut sources = Vec::new();
        for selector in &selectors(&role) {
            // Roles come sorted by name, so that the union is the same however they were written.
            let chosen = all.iter().filter(|it| it.name != object.name);
            let chosen = chosen.filter(|it| selects(selector, it));
            sources.extend(chosen.map(|it| it.value()));
        }
        let rules = union(sources.iter());
        if role["rules"].as_array().map_or(rules.is_empty(), |it| *it == rules) {
            return Ok(None);
        }
        let wanted = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            // With its uid, so that a role that was deleted since it was read is not made again.
            "metadata": {"name": key.name.as_ref(), "uid": role["metadata"]["uid"]}, "rules": rules,
        });
        match self.local.apply(ID, "", &key.name, "", wanted, MANAGER).await {
            // Another role of this name has an event of its own.
            Err(error) if error.is_conflict() => Ok(None),
            result => tolerate(result).map(|()| None),
        }
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
    fn an_aggregated_role_ignores_roles_that_it_never_selected() {
        let resource: Arc<str> = ID.into();
        let role = |labels: Value| {
            let metadata = json!({"name": "one", "labels": labels});
            let value =
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata});
            Arc::new(Object::encode(&resource, value, 1))
        };
        let event = |previous: Option<Value>, labels: Value| Event {
            revision: 1,
            change: if previous.is_some() {
                Change::Modified
            } else {
                Change::Added
            },
            object: role(labels),
            previous: previous.map(&role),
        };
        let selectors = [json!({"matchLabels": {"to-view": "true"}})];
        let of = |event: Event| concerns(&event, "view", &selectors);
        // As a cluster's role is: a thousand of these are no reason to put `view` together a thousand times.
        assert!(!of(event(None, json!({"cluster": "cluster1"}))));
        assert!(of(event(None, json!({"to-view": "true"}))));
        assert!(of(event(Some(json!({"to-view": "true"})), json!({}))));
        assert!(concerns(&event(None, json!({})), "one", &selectors));
    }

    #[test]
    fn the_union_has_each_rule_once_in_role_order() {
        let (a, b) = (json!({"verbs": ["get"]}), json!({"verbs": ["list"]}));
        let sources = [json!({"rules": [a, b]}), json!({"rules": [b]}), json!({"rules": null})];
        assert_eq!(union(sources.iter()), [a, b]);
    }
}
