//! Takes back what the agents of all clusters were given together, when no cluster asks for it any more.
//!
//! Root: the name of an add-on. Reads: what each of its clusters asks for; the RBAC objects that its clusters share.
//! Writes: deletes those objects.
//! Never: one that it has not made, whatever its name; any while it is not known of every cluster what that asks for.
//! Upstream leaves them for ever; ours used to stay until the ClusterManagementAddOn, their owner, was deleted.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::Resource;
use ocm_reconcile::{ObserveError, Plan, Reconciler, Site, async_trait};

use super::{
    Context,
    claims::{Claim, Name},
    kept::Shared,
};

/// The reconciler.
pub struct SharedPermissions {
    context: Context,
    shared: Shared,
}

/// What a plan is made from.
#[derive(Default)]
pub struct Seen {
    /// What the clusters share.
    pub objects: Kept,
    /// What each cluster that has the add-on asks for.
    pub claims: BTreeMap<String, Claim>,
}

/// RBAC objects that clusters share.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Kept {
    pub roles: Vec<Arc<Role>>,
    pub role_bindings: Vec<Arc<RoleBinding>>,
    pub cluster_roles: Vec<Arc<ClusterRole>>,
    pub cluster_role_bindings: Vec<Arc<ClusterRoleBinding>>,
}

impl Kept {
    fn is_empty(&self) -> bool {
        self.roles.is_empty()
            && self.role_bindings.is_empty()
            && self.cluster_roles.is_empty()
            && self.cluster_role_bindings.is_empty()
    }
}

impl SharedPermissions {
    /// Over this context.
    pub fn new(context: &Context) -> Self {
        Self {
            shared: Shared::over(&context.caches),
            context: context.clone(),
        }
    }
}

#[async_trait]
impl Reconciler for SharedPermissions {
    const NAME: &'static str = "addon-shared-permissions";
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        // What was made for an add-on that is none of this process is none of its business.
        if !self.context.registry.contains(name) && !self.context.claims.is_retired(name) {
            return Ok(Seen::default());
        }
        let objects = self.shared.of(name);
        // Hardly any add-on has some.
        if objects.is_empty() {
            return Ok(Seen::default());
        }
        let mut known = self.context.claims.of(name);
        let claims = self.shared.clusters_with(name).into_iter().map(|cluster| {
            let claim = known.remove(&cluster).unwrap_or(Claim::Unknown);
            (cluster, claim)
        });
        Ok(Seen {
            objects,
            claims: claims.collect(),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        if seen.objects.is_empty() {
            return plan;
        }
        if let Some((cluster, _)) = seen.claims.iter().find(|(_, it)| **it == Claim::Unknown) {
            plan.wait(format!("it is not known what {cluster} asks for"));
            return plan;
        }
        // The rights first, then what they consist of.
        delete(&mut plan, seen, &seen.objects.role_bindings);
        delete(&mut plan, seen, &seen.objects.cluster_role_bindings);
        plan.stage();
        delete(&mut plan, seen, &seen.objects.roles);
        delete(&mut plan, seen, &seen.objects.cluster_roles);
        plan
    }
}

fn delete<K: Resource<DynamicType = ()>>(plan: &mut Plan, seen: &Seen, objects: &[Arc<K>]) {
    for object in objects {
        let name = Name::of(&**object);
        let asks = |it: &Claim| matches!(it, Claim::Known(names) if names.contains(&name));
        if !seen.claims.values().any(asks) {
            plan.delete(Site::Hub, &**object);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn binding(name: &str) -> Arc<RoleBinding> {
        let it = json!({"metadata": {"name": name, "namespace": "settings"}, "roleRef": {"apiGroup": "", "kind": "", "name": ""}});
        Arc::new(serde_json::from_value(it).unwrap())
    }

    fn planned(claims: &[(&str, Option<&[&str]>)]) -> String {
        let claim = |names: &Option<&[&str]>| match names {
            None => Claim::Unknown,
            Some(names) => Claim::Known(Arc::new(names.iter().map(|it| Name::of(&*binding(it))).collect())),
        };
        let seen = Seen {
            objects: Kept {
                role_bindings: vec![binding("a"), binding("b")],
                roles: vec![Arc::new(
                    serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "settings"}})).unwrap(),
                )],
                ..Kept::default()
            },
            claims: claims
                .iter()
                .map(|(it, names)| ((*it).to_owned(), claim(names)))
                .collect(),
        };
        SharedPermissions::plan(&seen).to_string()
    }

    #[test]
    fn what_no_cluster_asks_for_is_taken_back_and_what_one_asks_for_stays() {
        assert_eq!(
            planned(&[("c1", Some(&["a"])), ("c2", Some(&[]))]),
            "stage 1\nhub: delete RoleBinding settings/b\nstage 2\nhub: delete Role settings/a\n"
        );
    }

    #[test]
    fn without_any_cluster_nothing_is_shared() {
        assert!(
            planned(&[])
                .starts_with("stage 1\nhub: delete RoleBinding settings/a\nhub: delete RoleBinding settings/b\n")
        );
    }

    #[test]
    fn while_one_cluster_cannot_be_asked_everything_stays() {
        assert_eq!(
            planned(&[("c1", Some(&[])), ("c2", None)]),
            "nothing to do\nwaits: it is not known what c2 asks for\n"
        );
    }
}
