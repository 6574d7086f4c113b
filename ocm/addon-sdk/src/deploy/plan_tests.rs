use futures::FutureExt;
use ocm_api::cluster::ManagedCluster;
use ocm_reconcile::{Clients, Done, Outcome, Reconciler, Step, execute};
use serde_json::json;

use super::*;
use crate::{
    UserError,
    deploy::{conclude::conclude, reconciler::Deploy, written::catch_up},
};

const NOW: &str = "2026-01-01T12:00:00Z";

/// An add-on that wants what it is told.
struct Told {
    manifests: Result<Vec<Value>, UserError>,
    health: Health,
    waits: bool,
}

impl AddOn for Told {
    fn name(&self) -> &str {
        "a"
    }
    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        self.manifests.clone()
    }
    fn health(&self, _: &AddOnContext) -> Health {
        self.health.clone()
    }
    fn hosted(&self, _: &AddOnContext) -> bool {
        true
    }
    fn waits_for_configuration(&self) -> bool {
        self.waits
    }
}

/// A world of one add-on, as text in and pages out.
struct Scene {
    addon: Value,
    cluster: Value,
    /// What the hub knows of a cluster named `hosting`; used when the add-on is annotated.
    hosting: Option<Value>,
    works: Vec<Value>,
    manifests: Result<Vec<Value>, UserError>,
    rendered: Option<Rendered>,
    health: Health,
    waits: bool,
    now: Timestamp,
}

impl Scene {
    fn new(manifests: &[Value]) -> Self {
        Self {
            addon: json!({
                "metadata": {"name": "a", "namespace": "cluster1", "uid": "u", "resourceVersion": "1"},
                "spec": {},
                "status": {"conditions": [said("RegistrationApplied", "True", "SetPermissionApplied", "")]}
            }),
            cluster: json!({"metadata": {"name": "cluster1"}}),
            hosting: None,
            works: Vec::new(),
            manifests: Ok(manifests.to_vec()),
            rendered: None,
            health: Health::Lease,
            waits: false,
            now: NOW.parse().unwrap(),
        }
    }

    fn hosted(manifests: &[Value]) -> Self {
        let mut scene = Self::new(manifests);
        scene.addon["metadata"]["annotations"] =
            json!({"addon.open-cluster-management.io/hosting-cluster-name": "hosting"});
        scene.hosting = Some(json!({"metadata": {"name": "hosting"}}));
        scene
    }

    fn held_by(mut self, finalizers: &[&str]) -> Self {
        let all: Vec<_> = finalizers
            .iter()
            .map(|it| format!("addon.open-cluster-management.io/{it}"))
            .collect();
        self.addon["metadata"]["finalizers"] = json!(all);
        self
    }

    fn deleted(mut self) -> Self {
        self.addon["metadata"]["deletionTimestamp"] = NOW.into();
        self
    }

    fn saying(mut self, condition: Value) -> Self {
        self.addon["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(condition);
        self
    }

    /// The works that the add-on wants, as if they were there, with this status.
    fn with_wanted(mut self, status: &Value) -> Self {
        let seen = self.seen();
        let Root::Here(here) = &seen.root else {
            panic!("the add-on is there")
        };
        let Rendered::Works(works) = here.rendered(&seen.works) else {
            panic!("the add-on answers")
        };
        for it in works {
            let mut work = serde_json::to_value(&it.work).unwrap();
            work["metadata"]["uid"] = "w".into();
            work["metadata"]["generation"] = 1.into();
            work["status"] = status.clone();
            self.works.push(work);
        }
        self
    }

    fn seen(&self) -> Seen {
        let addon: ManagedClusterAddOn = serde_json::from_value(self.addon.clone()).unwrap();
        let hosting: Option<ManagedCluster> = self.hosting.clone().map(|it| serde_json::from_value(it).unwrap());
        let works: Vec<Arc<ManifestWork>> = self
            .works
            .iter()
            .map(|it| Arc::new(serde_json::from_value(it.clone()).unwrap()))
            .collect();
        let place = AddOnContext {
            cluster: Arc::new(serde_json::from_value(self.cluster.clone()).unwrap()),
            mode: crate::add_on_context::mode(&addon, |_| hosting.map(Arc::new)),
            addon: Arc::new(addon),
            ..AddOnContext::new("cluster1", "a")
        };
        let add_on = Told {
            manifests: self.manifests.clone(),
            health: self.health.clone(),
            waits: self.waits,
        };
        let here = Here::of(Arc::new(add_on), place, None, Epoch::default());
        if let Some(rendered) = &self.rendered {
            here.rendered.set(rendered.clone()).unwrap();
        }
        Seen {
            now: self.now,
            key: "cluster1/a".to_owned(),
            root: Root::Here(Box::new(here)),
            works,
            is_second_look: false,
        }
    }

    fn plan(&self) -> String {
        plan(&self.seen()).to_string()
    }

    /// The plan with what it writes.
    fn whole_plan(&self) -> String {
        format!("{:#}", plan(&self.seen()))
    }

    /// What is said when everything was tried and nothing was written: conditions as `Type=Status(Reason): message`.
    fn told(&self) -> String {
        told(&self.seen())
    }
}

fn told(seen: &Seen) -> String {
    let page = conclude(seen, &Outcome::default());
    let Some(Step::MergePatch { patch, .. }) = page.stages.iter().flatten().next() else {
        return page.to_string();
    };
    let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    let lines: Vec<_> = patch["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|it| it["type"] != "RegistrationApplied")
        .map(|it| {
            let (r#type, status, reason) = (text(it, "type"), text(it, "status"), text(it, "reason"));
            format!("{}={status}({reason}): {}", r#type, text(it, "message"))
        })
        .collect();
    lines.join("\n")
}

fn said(r#type: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": r#type, "status": status, "reason": reason, "message": message, "lastTransitionTime": NOW})
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}})
}

fn job(name: &str) -> Value {
    let marks = json!({"addon.open-cluster-management.io/addon-pre-delete": ""});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "n", "annotations": marks}})
}

fn there(mut manifest: Value) -> Value {
    manifest["metadata"]["annotations"]["addon.open-cluster-management.io/hosted-manifest-location"] = "hosting".into();
    manifest
}

fn applied() -> Value {
    json!({"conditions": [
        {"type": "Applied", "status": "True", "reason": "R", "message": "", "observedGeneration": 1, "lastTransitionTime": NOW},
        {"type": "Available", "status": "True", "reason": "R", "message": "", "observedGeneration": 1, "lastTransitionTime": NOW},
    ]})
}

fn complete(jobs: &[&str]) -> Value {
    let mut status = applied();
    let reports: Vec<_> = jobs
        .iter()
        .map(|name| {
            json!({
                "resourceMeta": {"group": "batch", "kind": "Job", "name": name, "namespace": "n"},
                "statusFeedback": {"values": [
                    {"name": "JobComplete", "fieldValue": {"type": "String", "string": "True"}}
                ]}
            })
        })
        .collect();
    status["resourceStatus"] = json!({"manifests": reports});
    status
}

#[test]
fn nothing_is_deployed_before_the_registration_is_settled() {
    let mut scene = Scene::new(&[config_map("x")]);
    scene.addon["status"] = json!({});
    assert_eq!(
        scene.plan(),
        "nothing to do\nwaits: its registration is not settled yet (condition RegistrationApplied)\n"
    );
    assert_eq!(scene.told(), "nothing to do\n");
    scene.addon["status"]["conditions"] = json!([said("RegistrationApplied", "False", "SetPermissionFailed", "")]);
    assert_eq!(scene.plan(), "hub: create ManifestWork cluster1/addon-a-deploy-0\n");
}

#[test]
fn an_add_on_is_not_deployed_before_its_configuration_settles() {
    let mut scene = Scene::new(&[config_map("x")]);
    scene.waits = true;
    let waits = "nothing to do\nwaits: its configuration is not settled yet (condition Configured)\n";
    assert_eq!(scene.plan(), waits);
    let scene = scene.saying(said("Configured", "True", "ConfigurationsConfigured", ""));
    assert_eq!(scene.plan(), "hub: create ManifestWork cluster1/addon-a-deploy-0\n");
}

#[test]
fn matching_works_need_no_change_and_are_reported() {
    let scene = Scene::new(&[config_map("x")]).with_wanted(&applied());
    assert_eq!(scene.plan(), "nothing to do\n");
    assert_eq!(
        scene.told(),
        "ManifestApplied=True(AddonManifestApplied): manifests of addon are applied successfully"
    );
}

#[test]
fn a_manifest_that_changed_is_changed_in_its_work() {
    let mut scene = Scene::new(&[config_map("x")]).with_wanted(&applied());
    let mut changed = config_map("x");
    changed["data"] = json!({"k": "v"});
    scene.manifests = Ok(vec![changed]);
    assert_eq!(scene.plan(), "hub: patch ManifestWork cluster1/addon-a-deploy-0\n");
}

#[test]
fn without_manifests_the_works_are_deleted_and_nothing_is_applied() {
    let mut scene = Scene::new(&[config_map("x")]).with_wanted(&applied());
    scene.manifests = Ok(Vec::new());
    assert_eq!(scene.plan(), "hub: delete ManifestWork cluster1/addon-a-deploy-0\n");
    scene.works.clear();
    assert_eq!(scene.plan(), "nothing to do\n");
    assert_eq!(
        scene.told(),
        "ManifestApplied=True(AddonManifestApplied): no manifest need to apply"
    );
}

#[test]
fn one_work_that_is_not_applied_decides_over_all() {
    let big = |name: &str| {
        let mut it = config_map(name);
        it["data"] = json!({"k": "x".repeat(300_000)});
        it
    };
    let mut scene = Scene::new(&[big("x"), big("y")]).with_wanted(&applied());
    assert_eq!(scene.works.len(), 2);
    scene.works[0]["status"]["conditions"][0]["status"] = "False".into();
    assert_eq!(
        scene.told(),
        "ManifestApplied=False(AddonManifestAppliedFailed): failed to apply the manifests of addon"
    );
    // What the agent said of an older generation is worth nothing, and takes back what was said of a failure.
    scene.works[0]["metadata"]["generation"] = 2.into();
    let mut scene = scene.saying(said("ManifestApplied", "False", "AddonManifestAppliedFailed", ""));
    assert_eq!(scene.told(), "");
    scene.addon["status"]["conditions"][1]["status"] = "True".into();
    assert_eq!(
        scene.told(),
        "nothing to do\nnote: the agent judges its health by its lease\n"
    );
}

#[test]
fn an_add_on_error_is_reported_and_the_works_stay() {
    let mut scene = Scene::new(&[config_map("x")]).with_wanted(&applied());
    scene.manifests = Err(UserError::new("AddOnDeploymentConfig n/global does not exist"));
    let why = "failed to get manifest from agent interface: AddOnDeploymentConfig n/global does not exist";
    assert_eq!(scene.plan(), format!("nothing to do\nrefuses: {why}\n"));
    assert_eq!(
        scene.told(),
        format!("ManifestApplied=False(ManifestWorkApplyFailed): {why}")
    );
    scene.manifests = Ok(vec![json!({"kind": "ConfigMap"})]);
    assert_eq!(
        scene.told(),
        "ManifestApplied=False(ManifestWorkApplyFailed): failed to build manifestwork: manifest 0 has no apiVersion or no kind"
    );
}

#[test]
fn works_stay_unchanged_while_a_change_is_rolled_out_elsewhere() {
    let mut scene = Scene::new(&[config_map("x")]).with_wanted(&applied());
    scene.rendered = Some(Rendered::Held("the change has not come to this cluster yet".to_owned()));
    assert_eq!(
        scene.plan(),
        "nothing to do\nwaits: the change has not come to this cluster yet\n"
    );
    assert_eq!(
        scene.told(),
        "ManifestApplied=True(AddonManifestApplied): manifests of addon are applied successfully"
    );
}

#[test]
fn finalizers_are_added_first_and_deprecated_ones_removed() {
    let mut scene = Scene::hosted(&[config_map("x"), job("j"), there(config_map("y")), there(job("k"))]);
    scene.addon["metadata"]["finalizers"] = json!(["theirs", "cluster.open-cluster-management.io/addon-pre-delete"]);
    assert_eq!(
        scene.plan(),
        "stage 1\n\
         hub: patch ManagedClusterAddOn cluster1/a\n\
         stage 2\n\
         hub: create ManifestWork cluster1/addon-a-deploy-0\n\
         hub: create ManifestWork hosting/addon-a-deploy-hosting-cluster1-0\n"
    );
    let first = scene.whole_plan();
    let finalizers = "\"finalizers\":[\"theirs\",\"addon.open-cluster-management.io/addon-pre-delete\",\
                      \"addon.open-cluster-management.io/hosting-addon-pre-delete\",\
                      \"addon.open-cluster-management.io/hosting-manifests-cleanup\"]";
    assert!(first.contains(finalizers), "{first}");
}

#[test]
fn a_hook_that_the_author_took_back_holds_nothing() {
    let scene = Scene::new(&[config_map("x")])
        .held_by(&["addon-pre-delete"])
        .with_wanted(&applied());
    assert_eq!(scene.plan(), "hub: patch ManagedClusterAddOn cluster1/a\n");
    assert!(scene.whole_plan().contains("\"finalizers\":null"));
}

#[test]
fn an_add_on_without_hooks_is_released_at_once() {
    let scene = Scene::new(&[config_map("x")]).deleted().with_wanted_before_deletion();
    assert_eq!(scene.plan(), "nothing to do\n");
    let scene = scene.held_by(&["hosting-manifests-cleanup"]);
    assert_eq!(scene.plan(), "hub: patch ManagedClusterAddOn cluster1/a\n");
    assert_eq!(scene.told(), "nothing to do\n");
}

impl Scene {
    fn with_wanted_before_deletion(mut self) -> Self {
        let at = self.addon["metadata"]["deletionTimestamp"].take();
        let mut scene = self.with_wanted(&applied());
        scene.addon["metadata"]["deletionTimestamp"] = at;
        scene
            .works
            .retain(|it| !it["metadata"]["name"].as_str().unwrap().contains("pre-delete"));
        scene
    }
}

#[test]
fn hooks_run_and_are_reported_before_the_add_on_goes() {
    let manifests = [config_map("x"), job("j")];
    let scene = Scene::new(&manifests)
        .held_by(&["addon-pre-delete"])
        .deleted()
        .with_wanted_before_deletion();
    assert_eq!(
        scene.plan(),
        "hub: create ManifestWork cluster1/addon-a-pre-delete\n\
         waits: hooks of work addon-a-pre-delete are not complete: Job n/j\n"
    );
    let not_yet = "HookManifestCompleted=False(HookManifestIsNotCompleted): hook manifestWork addon-a-pre-delete is not completed.";
    assert!(scene.told().contains(not_yet), "{}", scene.told());

    let scene = Scene::new(&manifests)
        .held_by(&["addon-pre-delete"])
        .deleted()
        .with_wanted(&complete(&["j"]));
    assert_eq!(scene.plan(), "nothing to do\n");
    let done =
        "HookManifestCompleted=True(HookManifestIsCompleted): hook manifestWork addon-a-pre-delete is completed.";
    assert!(scene.told().contains(done), "{}", scene.told());

    let scene = scene.saying(said("HookManifestCompleted", "True", "HookManifestIsCompleted", ""));
    assert_eq!(scene.plan(), "hub: patch ManagedClusterAddOn cluster1/a\n");
    assert_eq!(scene.told(), "nothing to do\n");
}

#[test]
fn an_unrenderable_hook_is_judged_by_its_existing_work() {
    let mut scene = Scene::new(&[job("j")])
        .held_by(&["addon-pre-delete"])
        .deleted()
        .with_wanted(&complete(&["j"]));
    scene.manifests = Err(UserError::new("its configuration is gone"));
    assert!(scene.told().contains("HookManifestCompleted=True"), "{}", scene.told());
    scene.works.clear();
    assert!(
        scene
            .plan()
            .contains("waits: the hooks of addon-a-pre-delete are not known")
    );
    assert!(scene.told().contains("HookManifestCompleted=False"), "{}", scene.told());
    let told = "hook manifestWork addon-a-pre-delete is not completed. What is to run is not known: failed to get manifest from \
                agent interface: its configuration is gone.";
    assert!(scene.told().contains(told), "{}", scene.told());
}

#[test]
fn a_hook_past_its_deadline_is_skipped_with_an_event() {
    let mut hook = job("j");
    hook["metadata"]["annotations"]["addon.open-cluster-management.io/addon-pre-delete-deadline"] = "5m".into();
    let mut scene = Scene::new(&[hook])
        .held_by(&["addon-pre-delete"])
        .deleted()
        .with_wanted(&applied());
    scene.now += jiff::SignedDuration::from_mins(1);
    assert_eq!(
        scene.plan(),
        "nothing to do\nwaits: hooks of work addon-a-pre-delete are not complete: Job n/j\nagain in 240s\n"
    );
    scene.now += jiff::SignedDuration::from_mins(4);
    let cut_short = "HookManifestCompleted=False(HookManifestDeadlinePassed): hook manifestWork addon-a-pre-delete is not \
                     completed within its deadline of 300s.";
    assert!(scene.told().contains(cut_short), "{}", scene.told());
    let scene = scene.saying(said("HookManifestCompleted", "False", "HookManifestDeadlinePassed", ""));
    assert_eq!(
        scene.plan(),
        "stage 1\n\
         hub: event Warning HookManifestDeadlinePassed in cluster1\n\
         stage 2\n\
         hub: patch ManagedClusterAddOn cluster1/a\n"
    );
}

#[test]
fn hosted_manifests_have_their_own_condition_and_health() {
    let mut scene = Scene::hosted(&[config_map("x"), there(config_map("y"))])
        .held_by(&["hosting-manifests-cleanup"])
        .with_wanted(&applied());
    scene.health = Health::Deployments;
    assert_eq!(scene.plan(), "nothing to do\n");
    assert_eq!(
        scene.told(),
        "ManifestApplied=True(AddonManifestApplied): manifests of addon are applied successfully\n\
         HostingManifestApplied=True(AddonManifestApplied): manifests of addon are applied successfully\n\
         HostingClusterValidity=True(HostingClusterValid): hosting cluster hosting is a managed cluster of the hub\n\
         Available=True(ProbeAvailable): a add-on is available."
    );
    // The hosting works do not count for the managed side, nor the other way round.
    scene.works[1]["status"] = json!({});
    let told = scene.told();
    assert!(told.contains("ManifestApplied=True"), "{told}");
    assert!(!told.contains("HostingManifestApplied"), "{told}");
    assert!(told.contains("Available=Unknown(WorkNotApplied)"), "{told}");
}

#[test]
fn an_unknown_or_deleted_hosting_cluster_loses_its_works() {
    let hosted = || {
        Scene::hosted(&[config_map("x"), there(config_map("y"))])
            .held_by(&["hosting-manifests-cleanup"])
            .with_wanted(&applied())
    };
    let cleaned = "stage 1\n\
                   hub: delete ManifestWork hosting/addon-a-deploy-hosting-cluster1-0\n\
                   stage 2\n\
                   hub: patch ManagedClusterAddOn cluster1/a\n";
    let mut gone = hosted();
    gone.hosting = None;
    assert_eq!(gone.plan(), cleaned);
    let invalid = "HostingClusterValidity=False(HostingClusterInvalid): hosting cluster hosting is not a managed cluster of the hub";
    assert!(gone.told().contains(invalid), "{}", gone.told());
    let mut leaving = hosted();
    leaving.hosting = Some(json!({"metadata": {"name": "hosting", "deletionTimestamp": NOW}}));
    assert_eq!(leaving.plan(), cleaned);
    assert!(leaving.told().contains("HostingClusterValidity=True"));
    let mut home = hosted();
    home.addon["metadata"]["annotations"] = json!({});
    home.hosting = None;
    // Everything goes to the managed cluster now.
    assert_eq!(
        home.plan(),
        "stage 1\n\
         hub: patch ManifestWork cluster1/addon-a-deploy-0\n\
         stage 2\n\
         hub: delete ManifestWork hosting/addon-a-deploy-hosting-cluster1-0\n\
         stage 3\n\
         hub: patch ManagedClusterAddOn cluster1/a\n"
    );
}

#[test]
fn works_move_from_the_old_hosting_cluster_to_the_new() {
    let mut scene = Scene::hosted(&[there(config_map("y"))])
        .held_by(&["hosting-manifests-cleanup"])
        .with_wanted(&applied());
    scene.addon["metadata"]["annotations"] = json!({"addon.open-cluster-management.io/hosting-cluster-name": "other"});
    scene.hosting = Some(json!({"metadata": {"name": "other"}}));
    assert_eq!(
        scene.plan(),
        "stage 1\n\
         hub: create ManifestWork other/addon-a-deploy-hosting-cluster1-0\n\
         stage 2\n\
         hub: delete ManifestWork hosting/addon-a-deploy-hosting-cluster1-0\n"
    );
}

#[test]
fn deleting_a_hosted_add_on_runs_hooks_and_deletes_works() {
    let manifests = [there(config_map("y")), there(job("k"))];
    let scene = Scene::hosted(&manifests)
        .held_by(&["hosting-addon-pre-delete", "hosting-manifests-cleanup"])
        .deleted()
        .with_wanted(&complete(&["k"]))
        .saying(said("HookManifestCompleted", "True", "HookManifestIsCompleted", ""));
    assert_eq!(
        scene.plan(),
        "stage 1\n\
         hub: delete ManifestWork hosting/addon-a-deploy-hosting-cluster1-0\n\
         hub: delete ManifestWork hosting/addon-a-pre-delete-hosting-cluster1\n\
         stage 2\n\
         hub: patch ManagedClusterAddOn cluster1/a\n"
    );
    // Nobody could run the hook any more.
    let mut scene = scene;
    scene.addon["status"] = json!({});
    scene.hosting = None;
    assert!(
        scene.plan().ends_with("hub: patch ManagedClusterAddOn cluster1/a\n"),
        "{}",
        scene.plan()
    );
}

#[test]
fn a_stale_hook_of_a_former_life_is_removed() {
    let mut hooked = Scene::new(&[config_map("x"), job("j")])
        .held_by(&["addon-pre-delete"])
        .with_wanted(&complete(&["j"]));
    assert_eq!(hooked.works.len(), 2);
    assert_eq!(hooked.plan(), "hub: delete ManifestWork cluster1/addon-a-pre-delete\n");
    hooked.works.remove(1);
    assert_eq!(hooked.plan(), "nothing to do\n");
}

#[test]
fn a_deleted_cluster_gets_no_new_works_except_hooks() {
    let leaving = json!({"metadata": {"name": "cluster1", "deletionTimestamp": NOW}});
    let mut scene = Scene::new(&[config_map("x"), job("j")]);
    scene.cluster = leaving.clone();
    assert_eq!(scene.plan(), "nothing to do\nwaits: its cluster is being deleted\n");
    let mut scene = scene.held_by(&["addon-pre-delete"]).deleted();
    scene.cluster = leaving;
    assert!(
        scene
            .plan()
            .contains("hub: create ManifestWork cluster1/addon-a-pre-delete\n")
    );
}

#[test]
fn leftovers_of_a_deleted_add_on_or_cluster_are_removed() {
    let scene = Scene::hosted(&[config_map("x"), there(config_map("y"))])
        .held_by(&["addon-pre-delete", "hosting-manifests-cleanup"])
        .with_wanted(&applied());
    let mut seen = scene.seen();
    seen.root = Root::Gone;
    let hosting = "hub: delete ManifestWork hosting/addon-a-deploy-hosting-cluster1-0\n";
    assert_eq!(plan(&seen).to_string(), hosting);
    let addon = |scene: &Scene| Arc::new(serde_json::from_value(scene.addon.clone()).unwrap());
    seen.root = Root::ClusterGone(addon(&scene));
    assert_eq!(
        plan(&seen).to_string(),
        "nothing to do\nwaits: there is no such cluster\n"
    );
    seen.root = Root::ClusterGone(addon(&scene.deleted()));
    assert_eq!(
        plan(&seen).to_string(),
        format!("stage 1\n{hosting}stage 2\nhub: patch ManagedClusterAddOn cluster1/a\n")
    );
}

#[test]
fn health_is_reported_together_with_the_other_conditions() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}, "spec": {"replicas": 1}
    });
    let mut scene = Scene::new(&[deployment]);
    scene.health = Health::Deployments;
    let mut status = applied();
    let value = |name: &str| json!({"name": name, "fieldValue": {"type": "Integer", "integer": 1}});
    status["resourceStatus"] = json!({"manifests": [{
        "resourceMeta": {"group": "apps", "kind": "Deployment", "resource": "deployments", "name": "d", "namespace": "n"},
        "statusFeedback": {"values": [value("ReadyReplicas"), value("Replicas")]}
    }]});
    let mut scene = scene.with_wanted(&status);
    let told = "ManifestApplied=True(AddonManifestApplied): manifests of addon are applied successfully\n\
                Available=True(ProbeAvailable): a add-on is available.";
    assert_eq!(scene.told(), told);
    // The same without rendering anew.
    scene.rendered = Some(Rendered::Settled);
    assert_eq!(scene.told(), told);
}

#[test]
fn a_never_hosted_add_on_reports_no_hosted_manifests() {
    let scene = Scene::hosted(&[config_map("x")]);
    let mut seen = scene.seen();
    // As it is looked at when its author does not support hosting: the annotation is there, the mode is not.
    if let Root::Here(here) = &mut seen.root {
        here.place.mode = Mode::Default;
    }
    assert_eq!(
        told(&seen),
        "HostingManifestApplied=True(AddonManifestApplied): no manifest need to apply: the add-on does not run hosted, and all \
         of it goes to the managed cluster"
    );
}

#[test]
fn a_second_look_sees_what_the_first_round_wrote() {
    let scene = Scene::hosted(&[config_map("here"), there(config_map("there"))]);
    let first = plan(&scene.seen());
    assert_eq!(
        first.to_string(),
        "stage 1\n\
         hub: patch ManagedClusterAddOn cluster1/a\n\
         stage 2\n\
         hub: create ManifestWork cluster1/addon-a-deploy-0\n\
         hub: create ManifestWork hosting/addon-a-deploy-hosting-cluster1-0\n"
    );
    let mut outcome = execute(&Clients::default(), &first).now_or_never().unwrap();
    let mut written = scene.addon.clone();
    written["metadata"]["resourceVersion"] = json!("2");
    written["metadata"]["finalizers"] = json!([finalizers::ADDON_HOSTING_MANIFESTS]);
    let Step::Create { object: made, .. } = &first.stages[1][0] else {
        panic!("{first}")
    };
    let done = |object: &Value| Ok(Done::Object(serde_json::from_value(object.clone()).unwrap()));
    outcome.stages = vec![vec![done(&written)], vec![done(made), Ok(Done::AlreadyExists)]];
    assert!(Deploy::goes_on(&scene.seen(), &outcome));
    let mut again = catch_up(scene.seen(), &outcome);
    again.is_second_look = true;
    // The one that is there already has to be looked for.
    assert_eq!(
        plan(&again).to_string(),
        "hub: create ManifestWork hosting/addon-a-deploy-hosting-cluster1-0\n"
    );
    assert!(!Deploy::goes_on(&again, &outcome));
    assert!(Deploy::conclude(&again, &outcome).again.is_some());
    // What the watch has brought meanwhile is newer than what was written.
    let mut newer = Scene::hosted(&[config_map("here")]).held_by(&["other"]);
    newer.addon["metadata"]["resourceVersion"] = json!("10");
    let Root::Here(here) = catch_up(newer.seen(), &outcome).root else {
        unreachable!()
    };
    assert_eq!(
        here.place.addon.finalizers(),
        ["addon.open-cluster-management.io/other"]
    );
}
