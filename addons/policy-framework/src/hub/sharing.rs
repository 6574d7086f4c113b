//! Replicas hold their templates once in memory, however many clusters have the same.

use std::collections::HashSet;

use ocm_addon_sdk::ocm_api::policy::{Policy, PolicyTemplates};
use parking_lot::Mutex;

/// So many lists more than last time are kept before it is looked which of them nobody has any more. A smaller number
/// costs time where each cluster has a list of its own, a greater one memory after many changes.
const LOOK_AFTER: usize = 256;

/// The lists that there are.
#[derive(Default)]
struct Known {
    lists: HashSet<PolicyTemplates>,
    /// So many were left last time.
    left: usize,
}

/// For [`Caches::shaped`](ocm_addon_sdk::reconcile::Caches::shaped).
pub fn shape() -> impl Fn(Option<&Policy>, &mut Policy) + Send + Sync + 'static {
    let known = Mutex::new(Known::default());
    move |present, policy| share(&known, present, policy)
}

fn share(known: &Mutex<Known>, present: Option<&Policy>, policy: &mut Policy) {
    let templates = &mut policy.spec.policy_templates;
    // Most changes of a replica are of its status.
    if let Some(present) = present.map(|it| &it.spec.policy_templates)
        && present == templates
    {
        templates.clone_from(present);
        return;
    }
    let mut known = known.lock();
    if let Some(same) = known.lists.get(templates) {
        templates.clone_from(same);
        return;
    }
    if known.lists.len() > known.left * 2 + LOOK_AFTER {
        known.lists.retain(|it| it.holders() > 1);
        known.left = known.lists.len();
    }
    known.lists.insert(templates.clone());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(cluster: &str, template: &str) -> Policy {
        serde_json::from_value(json!({
            "metadata": {"name": "ns.p", "namespace": cluster},
            "spec": {"disabled": false, "policy-templates": [{"objectDefinition": {"kind": template}}]},
        }))
        .unwrap()
    }

    #[test]
    fn replicas_with_the_same_templates_share_them() {
        let shape = shape();
        let shaped = |present: Option<&Policy>, mut policy: Policy| {
            shape(present, &mut policy);
            policy.spec.policy_templates
        };
        let one = shaped(None, policy("c1", "A"));
        assert!(shaped(None, policy("c2", "A")).is_shared_with(&one));
        let mut present = policy("c1", "A");
        present.spec.policy_templates = one.clone();
        assert!(shaped(Some(&present), policy("c1", "A")).is_shared_with(&one));
        let other = shaped(Some(&present), policy("c1", "B"));
        assert!(!other.is_shared_with(&one));
        assert_eq!(other[0].object_definition["kind"], "B");
    }

    #[test]
    fn lists_that_nobody_has_are_given_up() {
        let known = Mutex::default();
        for number in 0..LOOK_AFTER * 2 {
            share(&known, None, &mut policy("c", &number.to_string()));
        }
        assert!(known.lock().lists.len() < LOOK_AFTER * 2);
    }
}
