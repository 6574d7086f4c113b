use application_render::release::ReleaseInfo;
use ocm_addon_sdk::kube::core::{ApiResource, GroupVersionKind};

use super::*;

fn owner() -> HelmRelease {
    let owner = json!({"metadata": {
        "name": "web", "namespace": "team", "uid": "u", "finalizers": [UNINSTALL_HELM_RELEASE],
    }, "spec": {}});
    serde_json::from_value(owner).unwrap()
}

fn object(kind: &str, name: &str, live: bool) -> ReleaseObject {
    let gvk = GroupVersionKind::gvk("", "v1", kind);
    let wanted = json!({
        "apiVersion": "v1", "kind": kind,
        "metadata": {"name": name, "namespace": "team", "annotations": {"meta.helm.sh/release-name": "web"}},
        "data": {"x": "1"},
    });
    ReleaseObject {
        kind: Some(DiscoveredKind {
            api_resource: ApiResource::from_gvk(&gvk),
            namespaced: true,
        }),
        live: live.then(|| wanted.clone()),
        before: None,
        unseen: None,
        wanted,
    }
}

fn hook(kind: &str, name: &str, moment: &str, policies: &[&str]) -> HookObject {
    HookObject {
        hook: ReleaseHook {
            name: name.to_owned(),
            kind: kind.to_owned(),
            events: vec![moment.to_owned()],
            delete_policies: policies.iter().map(|it| (*it).to_owned()).collect(),
            ..ReleaseHook::default()
        },
        object: object(kind, name, false),
    }
}

fn revision(version: i64, status: ReleaseStatus) -> StoredRelease {
    StoredRelease {
        name: "web".to_owned(),
        namespace: "team".to_owned(),
        version,
        info: ReleaseInfo {
            status,
            ..ReleaseInfo::default()
        },
        ..StoredRelease::default()
    }
}

fn operation(kind: OperationKind) -> ReleaseOperation {
    ReleaseOperation {
        kind,
        release: revision(2, ReleaseStatus::PendingUpgrade),
        definitions: Vec::new(),
        objects: vec![
            object("Secret", "a", false),
            object("ConfigMap", "b", true),
            object("ConfigMap", "c", false),
        ],
        removed: vec![object("ConfigMap", "old", true)],
        hooks: vec![
            hook("ConfigMap", "before", "pre-upgrade", &[]),
            hook("ConfigMap", "after", "post-upgrade", &["hook-succeeded"]),
            hook("Job", "job", "pre-upgrade", &[]),
        ],
        history: vec![ReleaseRevision {
            version: 1,
            release: "web".to_owned(),
            status: ReleaseStatus::Deployed,
        }],
        deployed: Some(revision(1, ReleaseStatus::Deployed)),
        broken: None,
        problem: None,
        failure: None,
        force: false,
        round: 0,
        stored: true,
    }
}

fn printed(operation: &ReleaseOperation) -> String {
    let mut made = Plan::new();
    plan(&mut made, &owner(), operation, Timestamp::UNIX_EPOCH);
    made.to_string().trim().to_owned()
}

#[test]
fn a_revision_is_stored_before_anything_is_done() {
    let mut operation = operation(OperationKind::Upgrade);
    operation.stored = false;
    assert_eq!(
        printed(&operation),
        "cluster: create Secret team/sh.helm.release.v1.web.v2"
    );
}

#[test]
fn an_upgrade_goes_kind_by_kind_between_its_hooks() {
    assert_eq!(
        printed(&operation(OperationKind::Upgrade)),
        "stage 1
cluster: delete ConfigMap team/before background
stage 2
cluster: apply ConfigMap team/before as helm, force
stage 3
cluster: apply Secret team/a as helm, force
stage 4
cluster: apply ConfigMap team/c as helm, force
stage 5
cluster: delete ConfigMap team/old background
stage 6
cluster: apply ConfigMap team/after as helm, force
stage 7
cluster: delete ConfigMap team/after background
stage 8
cluster: replace Secret team/sh.helm.release.v1.web.v2
cluster: replace Secret team/sh.helm.release.v1.web.v1"
    );
}

#[test]
fn what_agrees_is_not_repaired() {
    let mut operation = operation(OperationKind::Repair);
    operation.objects.retain(|it| it.live.is_some());
    assert_eq!(printed(&operation), "nothing to do");
}

#[test]
fn objects_of_helms_lose_what_the_chart_drops() {
    let mut operation = operation(OperationKind::Repair);
    operation.objects.truncate(2);
    operation.objects.remove(0);
    let one = &mut operation.objects[0];
    let mut before = one.wanted.clone();
    before["data"]["y"] = json!("1");
    one.live = Some(before.clone());
    one.before = Some(before);
    assert_eq!(
        printed(&operation),
        "stage 1
cluster: patch ConfigMap team/b
stage 2
cluster: apply ConfigMap team/b as helm, force"
    );
}

#[test]
fn force_replaces_what_has_changed() {
    let mut operation = operation(OperationKind::Upgrade);
    operation.hooks.clear();
    operation.removed.clear();
    operation.force = true;
    operation.objects[1].wanted["data"]["x"] = json!("2");
    let printed = printed(&operation);
    assert!(printed.contains("replace ConfigMap team/b"), "{printed}");
    assert!(printed.contains("apply ConfigMap team/c"), "{printed}");
}

#[test]
fn what_stays_or_is_of_another_release_does_not_go() {
    let mut operation = operation(OperationKind::Uninstall);
    operation.hooks.clear();
    let of = |name: &str, annotations: Value| {
        let mut object = object("ConfigMap", name, true);
        object.live.as_mut().unwrap()["metadata"]["annotations"] = annotations;
        object
    };
    operation.objects = vec![
        of("a", json!({"helm.sh/resource-policy": "keep"})),
        of("b", json!({"meta.helm.sh/release-name": "other"})),
        of("c", json!({"meta.helm.sh/release-namespace": "other"})),
        of("d", json!({})),
        object("ConfigMap", "gone", false),
    ];
    let printed = printed(&operation);
    assert_eq!(
        printed,
        "stage 1
cluster: replace Secret team/sh.helm.release.v1.web.v2
stage 2
cluster: delete ConfigMap team/d background"
    );
    assert_eq!(operation.going().count(), 1);
}

#[test]
fn a_problem_is_a_plan_that_only_records() {
    let mut operation = operation(OperationKind::Upgrade);
    operation.problem = Some("no".to_owned());
    operation.broken = Some(revision(1, ReleaseStatus::Failed));
    assert_eq!(
        printed(&operation),
        "cluster: replace Secret team/sh.helm.release.v1.web.v1\nrefuses: no"
    );
}
