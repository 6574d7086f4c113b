//! What a ClusterPermission says about its ManifestWork: plain functions.
//! Upstream: cluster-permission `controllers/clusterpermission_status_controller.go`.

use jiff::Timestamp;
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::{
        Condition,
        condition::{self, wanted},
        rbac::{
            ClusterPermission, ClusterPermissionResource, ClusterPermissionStatus, NamespacePermissionResource,
            PermissionResources,
            conditions::{self, reason},
        },
        work::{ManifestCondition, ManifestWork},
    },
};

/// Condition types of a ManifestWork and of each of its manifests.
const WORK_APPLIED: &str = "Applied";
const WORK_AVAILABLE: &str = "Available";

/// Puts what became of the work into the status.
pub fn report(
    status: &mut ClusterPermissionStatus,
    permission: &ClusterPermission,
    work: &ManifestWork,
    now: Timestamp,
) {
    let hint = format!(
        "Run the following command to check the ManifestWork status:\nkubectl -n {} get ManifestWork {} -o yaml",
        work.namespace().unwrap_or_default(),
        work.name_any(),
    );
    let of_work = work.status.as_ref();
    let applied = of_work.and_then(|it| condition::find(&it.conditions, WORK_APPLIED));
    let update = match applied {
        Some(applied) => {
            let mut update = wanted(
                conditions::APPLIED_WORK,
                false,
                &applied.reason,
                format!("{}\n{hint}", applied.message),
            );
            update.status = condition::status(std::slice::from_ref(applied), WORK_APPLIED).unwrap_or(update.status);
            update
        }
        None => wanted(
            conditions::APPLIED_WORK,
            false,
            reason::NOT_COMPLETE,
            format!("Apply RBAC manifestWork not complete\n{hint}"),
        ),
    };
    condition::set(&mut status.conditions, update, now);
    let manifests = of_work
        .map(|it| it.resource_status.manifests.as_slice())
        .unwrap_or_default();
    validate(status, permission, manifests, applied.is_some(), now);
    let before = status.resource_status.take().unwrap_or_default();
    status.resource_status = (!manifests.is_empty()).then(|| resources(&before, manifests, now));
}

/// Which of the roles that were only to be looked at are missing.
fn validate(
    status: &mut ClusterPermissionStatus,
    permission: &ClusterPermission,
    manifests: &[ManifestCondition],
    is_told: bool,
    now: Timestamp,
) {
    if permission.spec.validate != Some(true) {
        for of_validate in [conditions::ROLES_EXIST, conditions::CLUSTER_ROLES_EXIST] {
            condition::remove(&mut status.conditions, of_validate);
        }
        return;
    }
    if !is_told {
        return;
    }
    let missing = |kind: &str| -> Vec<String> {
        let all = manifests.iter().filter(|it| it.resource_meta.kind == kind);
        let all = all.filter(|it| !condition::is_true(&it.conditions, WORK_AVAILABLE));
        all.map(|it| match it.resource_meta.namespace.as_str() {
            "" => it.resource_meta.name.clone(),
            namespace => format!("{namespace}/{}", it.resource_meta.name),
        })
        .collect()
    };
    let roles = missing("Role").join(", ");
    let update = if roles.is_empty() {
        let message = "All referenced roles were found";
        wanted(conditions::ROLES_EXIST, true, reason::ALL_ROLES, message)
    } else {
        let message = format!("The following roles were not found: {roles}");
        wanted(conditions::ROLES_EXIST, false, reason::ROLES_MISSING, message)
    };
    condition::set(&mut status.conditions, update, now);
    let roles = missing("ClusterRole").join(", ");
    let update = if roles.is_empty() {
        let message = "All referenced cluster roles were found";
        wanted(
            conditions::CLUSTER_ROLES_EXIST,
            true,
            reason::ALL_CLUSTER_ROLES,
            message,
        )
    } else {
        let message = format!("The following cluster roles were not found: {roles}");
        wanted(
            conditions::CLUSTER_ROLES_EXIST,
            false,
            reason::CLUSTER_ROLES_MISSING,
            message,
        )
    };
    condition::set(&mut status.conditions, update, now);
}

/// Each role and binding, in the order of the manifests.
fn resources(before: &PermissionResources, manifests: &[ManifestCondition], now: Timestamp) -> PermissionResources {
    let mut all = PermissionResources::default();
    for manifest in manifests {
        let meta = &manifest.resource_meta;
        let of_cluster = |known: &[ClusterPermissionResource]| {
            let known = known.iter().find(|it| it.name == meta.name);
            ClusterPermissionResource {
                name: meta.name.clone(),
                condition: vec![applied(manifest, known.and_then(|it| it.condition.first()), now)],
            }
        };
        let of_namespace = |known: &[NamespacePermissionResource]| {
            let is_it = |it: &&NamespacePermissionResource| it.name == meta.name && it.namespace == meta.namespace;
            let known = known.iter().find(is_it);
            NamespacePermissionResource {
                name: meta.name.clone(),
                namespace: meta.namespace.clone(),
                condition: vec![applied(manifest, known.and_then(|it| it.condition.first()), now)],
            }
        };
        match meta.kind.as_str() {
            "ClusterRole" => all.cluster_roles.push(of_cluster(&before.cluster_roles)),
            "ClusterRoleBinding" => all
                .cluster_role_bindings
                .push(of_cluster(&before.cluster_role_bindings)),
            "Role" => all.roles.push(of_namespace(&before.roles)),
            "RoleBinding" => all.role_bindings.push(of_namespace(&before.role_bindings)),
            _ => {}
        }
    }
    all
}

fn applied(manifest: &ManifestCondition, before: Option<&Condition>, now: Timestamp) -> Condition {
    let known = condition::find(&manifest.conditions, WORK_APPLIED);
    let is_applied = known.is_some_and(|it| it.status == "True");
    let (reason, message) = match known {
        Some(_) if is_applied => (reason::APPLIED, "Apply manifest complete".to_owned()),
        Some(known) => (reason::NOT_APPLIED, known.message.clone()),
        None => (reason::UNKNOWN, "Failed to get the manifest condition".to_owned()),
    };
    let mut made = wanted(conditions::APPLIED, is_applied, reason, message).since(now);
    // What was not said before is of now, and stays so.
    let since = known.or_else(|| before.filter(|it| it.reason == made.reason));
    if let Some(since) = since {
        made.last_transition_time = since.last_transition_time.clone();
    }
    made
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(permission: Value, work: Value) -> Value {
        let permission: ClusterPermission = serde_json::from_value(permission).unwrap();
        let work: ManifestWork = serde_json::from_value(work).unwrap();
        let mut status = permission.status.clone().unwrap_or_default();
        report(&mut status, &permission, &work, "2026-01-01T00:00:00Z".parse().unwrap());
        serde_json::to_value(status).unwrap()
    }

    fn work(status: Value) -> Value {
        json!({"metadata": {"name": "p-abcde", "namespace": "c1"}, "spec": {}, "status": status})
    }

    fn said(status: &Value) -> Vec<String> {
        let conditions = status["conditions"].as_array().unwrap();
        let line = |it: &Value| format!("{} {} {}: {}", it["type"], it["status"], it["reason"], it["message"]);
        conditions.iter().map(|it| line(it).replace('"', "")).collect()
    }

    const HINT: &str =
        "Run the following command to check the ManifestWork status:\\nkubectl -n c1 get ManifestWork p-abcde -o yaml";

    #[test]
    fn a_work_that_is_not_applied_is_told() {
        let permission = json!({"metadata": {"name": "p"}, "spec": {}});
        assert_eq!(
            said(&status(permission.clone(), work(json!({})))),
            [format!(
                "AppliedRBACManifestWork False ApplyRBACManifestWorkNotComplete: Apply RBAC manifestWork not complete\\n{HINT}"
            )]
        );
        let applied = json!({"conditions": [{"type": "Applied", "status": "True", "reason": "AppliedManifestWorkComplete",
            "message": "Apply manifest work complete", "lastTransitionTime": "2025-01-01T00:00:00Z"}]});
        assert_eq!(
            said(&status(permission, work(applied))),
            [format!(
                "AppliedRBACManifestWork True AppliedManifestWorkComplete: Apply manifest work complete\\n{HINT}"
            )]
        );
    }

    #[test]
    fn missing_roles_are_named() {
        let permission = json!({"metadata": {"name": "p"}, "spec": {"validate": true}});
        let manifest = |kind: &str, namespace: &str, name: &str, available: &str| {
            json!({"resourceMeta": {"kind": kind, "namespace": namespace, "name": name}, "conditions": [
                {"type": "Available", "status": available, "reason": "r", "message": "", "lastTransitionTime": "2025-01-01T00:00:00Z"},
                {"type": "Applied", "status": available, "reason": "r", "message": "not there", "lastTransitionTime": "2025-01-01T00:00:00Z"},
            ]})
        };
        let mut of_work = json!({
            "conditions": [{"type": "Applied", "status": "False", "reason": "r", "message": "m", "lastTransitionTime": "2025-01-01T00:00:00Z"}],
            "resourceStatus": {"manifests": [
                manifest("ClusterRole", "", "a", "False"), manifest("Role", "n", "b", "False"),
                manifest("ClusterRole", "", "c", "True"), {"resourceMeta": {"kind": "ClusterRole", "name": "d"}, "conditions": []},
            ]},
        });
        let told = status(permission.clone(), work(of_work.clone()));
        assert_eq!(
            said(&told)[1..],
            [
                "ValidateRolesExist False RolesNotFound: The following roles were not found: n/b",
                "ValidateClusterRolesExist False ClusterRolesNotFound: The following cluster roles were not found: a, d",
            ]
        );
        let resources = &told["resourceStatus"];
        assert_eq!(
            resources["clusterRoles"][0]["condition"][0]["reason"],
            "FailedApplyManifest"
        );
        assert_eq!(resources["clusterRoles"][0]["condition"][0]["message"], "not there");
        assert_eq!(
            resources["clusterRoles"][1]["condition"][0]["reason"],
            "AppliedManifestComplete"
        );
        assert_eq!(
            resources["clusterRoles"][2]["condition"][0]["reason"],
            "FailedGetManifestCondition"
        );
        assert_eq!(resources["roles"][0]["namespace"], "n");
        of_work["resourceStatus"]["manifests"] = json!([manifest("ClusterRole", "", "a", "True")]);
        assert_eq!(
            said(&status(permission, work(of_work)))[1..],
            [
                "ValidateRolesExist True AllRolesFound: All referenced roles were found",
                "ValidateClusterRolesExist True AllClusterRolesFound: All referenced cluster roles were found",
            ]
        );
    }
}
