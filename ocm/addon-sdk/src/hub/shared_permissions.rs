//! Takes back what the agents of all clusters were given together, when no cluster asks for it any more.
//!
//! Root: the name of an add-on. Reads: what each of its clusters asks for; the RBAC objects that its clusters share.
//! Writes: deletes those objects.
//! Never: one that it has not made, whatever its name; any while it is not known of every cluster what that asks for.
//! Upstream leaves them for ever; ours used to stay until the ClusterManagementAddOn, their owner, was deleted.

use std::{collections::BTreeMap, sync::Arc};

use kube::Resource;
use ocm_reconcile::{ObserveError, Plan, Reconciler, Site, Watches, async_trait, rbac::Right};

use super::{
    Context, WORKERS,
    claims::{Claim, Name},
    rbac_objects::{RbacCaches, SharedByClusters, SharedObjects},
    rights,
};

/// The reconciler.
pub struct SharedPermissions {
    context: Context,
    rbac: RbacCaches,
    shared: SharedByClusters,
}

/// What a plan is made from.
#[derive(Default)]
pub struct Seen {
    /// Whether this process has or had the add-on: what was made for another is none of its business.
    pub is_ours: bool,
    /// What the clusters share.
    pub objects: SharedObjects,
    /// What each cluster that has the add-on asks for.
    pub claims: BTreeMap<String, Claim>,
}

impl SharedPermissions {
    /// Over this context.
    pub fn new(context: &Context) -> Self {
        let rbac = RbacCaches::of(&context.caches);
        Self {
            shared: SharedByClusters::over(&rbac, &context.addons),
            rbac,
            context: context.clone(),
        }
    }
}

#[async_trait]
impl Reconciler for SharedPermissions {
    const NAME: &'static str = "addon-shared-permissions";
    const WORKERS: usize = WORKERS;
    const RIGHTS: &'static [Right] = rights::SHARED_PERMISSIONS;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let (rbac, claims) = (&self.rbac, self.context.claims.clone());
        watches.signal("what clusters ask for", move |queue| claims.subscribe(queue));
        watches.reads(&self.context.addons);
        watches.reads(&rbac.roles).if_allowed(&rbac.roles);
        watches.reads(&rbac.role_bindings).if_allowed(&rbac.role_bindings);
        watches.reads(&rbac.cluster_roles).if_allowed(&rbac.cluster_roles);
        watches
            .reads(&rbac.cluster_role_bindings)
            .if_allowed(&rbac.cluster_role_bindings);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let is_ours = self.context.registry.contains(name) || self.context.claims.is_retired(name);
        let objects = self.shared.of(name);
        // Hardly any add-on has some, and then nobody need be asked.
        if objects.is_empty() {
            return Ok(Seen::default());
        }
        let mut known = self.context.claims.of(name);
        let claims = self.shared.clusters_with(name).into_iter().map(|cluster| {
            let claim = known.remove(&cluster).unwrap_or(Claim::Unknown);
            (cluster, claim)
        });
        Ok(Seen {
            is_ours,
            objects,
            claims: claims.collect(),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        if !seen.is_ours || seen.objects.is_empty() {
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
    use k8s_openapi::api::rbac::v1::RoleBinding;
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
            is_ours: true,
            objects: SharedObjects {
                role_bindings: vec![binding("a"), binding("b")],
                roles: vec![Arc::new(
                    serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "settings"}})).unwrap(),
                )],
                ..SharedObjects::default()
            },
            claims: claims
                .iter()
                .map(|(it, names)| ((*it).to_owned(), claim(names)))
                .collect(),
        };
        SharedPermissions::plan(&seen).to_string()
    }

    #[test]
    fn shared_permissions_are_removed_when_no_cluster_needs_them() {
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
    fn while_one_cluster_is_unknown_everything_stays() {
        assert_eq!(
            planned(&[("c1", Some(&[])), ("c2", None)]),
            "nothing to do\nwaits: it is not known what c2 asks for\n"
        );
    }
}
