//! The plan of an agent that is put in place, changed or moved.

use std::time::Duration;

use kube::ResourceExt;
use ocm_api::operator::{GenerationStatus, Klusterlet};
use ocm_reconcile::{Outcome, Plan, Site, Target};

use super::{
    former,
    klusterlets::Seen,
    look, names,
    scene::Scene,
    settings::{AgentSettings, Place},
    tokens::{self, Fate, Issued},
    wanted::{self, reason},
};
use crate::{
    OCM_VERSION, crds,
    objects::{self, Current, Stage},
};

/// How long a namespace of another cluster is given before it is looked at again.
const NAMESPACE_AGAIN: Duration = Duration::from_secs(5);

/// What the conclusion asks after.
pub struct Prospect {
    /// The Deployments that are kept.
    pub deployments: Vec<Stage>,
    /// Why not everything is in place although nothing failed.
    pub waits: Option<String>,
}

/// Of a Klusterlet whose managed cluster cannot be written to: the namespace is made for the Secret that leads there.
pub fn prepare(klusterlet: &Klusterlet, settings: &AgentSettings, current: &Current) -> Plan {
    let mut plan = Plan::new();
    finalizers(&mut plan, klusterlet, &[names::FINALIZER]);
    let stage = Stage {
        keep: wanted::hosting_namespace(settings).into_iter().collect(),
        ..Stage::new(reason::FAILED)
    };
    plan.then(objects::plan(&[stage], current, &[]));
    plan
}

/// Everything in order; what runs in place of what is to be goes last.
pub fn plan(klusterlet: &Klusterlet, scene: &Scene, seen: &Seen) -> Plan {
    let Scene { settings, current, .. } = scene;
    let mut plan = Plan::new();
    let mut prospect = Prospect {
        deployments: Vec::new(),
        waits: None,
    };
    let list: &[&str] = match settings.place {
        Place::Managed => &[names::FINALIZER],
        Place::Hosting => &[names::FINALIZER, names::HOSTED_FINALIZER],
    };
    finalizers(&mut plan, klusterlet, list);
    if let Some(target) = look::leaving_namespace(settings, current) {
        let why = format!("{target} is being deleted: the agent is installed when it is gone");
        plan.wait(why.clone());
        if settings.place == Place::Hosting {
            plan.look_again(NAMESPACE_AGAIN);
        }
        prospect.waits = Some(why);
    } else {
        let definitions = wanted::definitions(settings);
        crds::keep(&mut plan, reason::CRD_FAILED, &definitions, current, OCM_VERSION);
        let stages = wanted::stages(settings, scene.pull_secret.as_ref(), current);
        plan.then(objects::plan(&stages, current, &[]));
        take_along(&mut plan, scene);
        if kubeconfigs(&mut plan, scene, seen) {
            run(&mut plan, klusterlet, scene, &mut prospect);
        }
    }
    plan.work_out(prospect);
    plan
}

fn finalizers(plan: &mut Plan, klusterlet: &Klusterlet, list: &[&str]) {
    let mut new = klusterlet.clone();
    for finalizer in list {
        if !new.finalizers().iter().any(|it| it == finalizer) {
            new.finalizers_mut().push((*finalizer).to_owned());
        }
    }
    if let Some(step) = plan.change(Site::Management, klusterlet, &new) {
        plan.name(reason::FAILED, step);
    }
}

/// What a namespace that is left has, and the next one has not: with it the cluster stays who it is.
fn take_along(plan: &mut Plan, scene: &Scene) {
    let Scene { settings, current, .. } = scene;
    plan.stage();
    for former in &scene.former_namespaces {
        for (from, to) in wanted::taken_along(settings, former) {
            if let (Some(found), None) = (current.get(&from), current.get(&to)) {
                let copy = wanted::secret(&to, &found["metadata"]["labels"], &found["data"], &found["type"]);
                objects::keep(plan, reason::FAILED, &copy, current, &[]);
            }
        }
    }
}

/// The kubeconfigs of another managed cluster. Whether all of them are there, so that pods can be started.
fn kubeconfigs(plan: &mut Plan, scene: &Scene, seen: &Seen) -> bool {
    let Scene {
        settings,
        current,
        issued,
        ..
    } = scene;
    let Some(external) = &scene.external else {
        return true;
    };
    plan.stage();
    let mut asked = false;
    for (secret, name) in settings.derived_secrets() {
        let account = tokens::account(settings, &name);
        if let Some(issued) = issued.iter().find(|it| it.secret == secret) {
            let object = tokens::renewed(settings, issued, &name, &external.cluster, current);
            objects::keep(plan, reason::FAILED, &object, current, &[]);
            continue;
        }
        let present = current.get(&wanted::derived_target(settings, secret));
        match tokens::fate(present, current.get(&account), &external.cluster, seen.now) {
            Fate::Good(None) => {}
            Fate::Good(Some(then)) => {
                plan.look_again(tokens::until(then, seen.now));
            }
            Fate::Renew(why) => {
                plan.remark(format!("asks for a token for Secret {secret}: {why}"));
                let step = tokens::ask(plan, account);
                plan.name(reason::FAILED, step).name(secret, step);
                asked = true;
            }
        }
    }
    !asked
}

/// The tokens that a round was given.
pub fn issued(outcome: &Outcome) -> Vec<Issued> {
    let given = names::DERIVED.iter().filter_map(|secret| {
        let answer = outcome.object_of(secret)?;
        tokens::issued(secret, &serde_json::to_value(answer).ok()?)
    });
    given.collect()
}

/// The Deployments, and what goes when they are in place.
fn run(plan: &mut Plan, klusterlet: &Klusterlet, scene: &Scene, prospect: &mut Prospect) {
    let Scene {
        settings, current, hub, ..
    } = scene;
    let deployments = wanted::deployments(settings, klusterlet, hub);
    if deployments.len() < settings.deployments().len() {
        let why = "the work agent waits for the cluster's name: the registration agent makes it up and writes it to the key \
                   cluster-name of Secret hub-kubeconfig-secret, unless spec.clusterName says it";
        plan.wait(why);
        prospect.waits = Some(why.to_owned());
    }
    let is_in_place = wanted::is_in_place(settings, &deployments, current);
    let stage = Stage {
        keep: deployments,
        ..Stage::new(reason::FAILED)
    };
    prospect.deployments = vec![stage];
    plan.then(objects::plan(&prospect.deployments, current, generations(klusterlet)));
    let leaves = leaving(scene);
    if leaves.is_empty() && !former::is_there(settings, current) {
        return;
    }
    if !is_in_place {
        plan.wait("what ran before goes when the Deployments of today are ready");
        return;
    }
    plan.stage();
    for target in &leaves {
        objects::remove(plan, reason::FAILED, target, current);
    }
    if former::is_there(settings, current) {
        former::remove(plan, settings, current, scene.has_other_former_agents);
    }
}

/// Deployments of the other shape with who they were, and namespaces that were left.
fn leaving(scene: &Scene) -> Vec<Target> {
    let Scene { settings, current, .. } = scene;
    let namespaces = scene.former_namespaces.iter();
    let namespaces = namespaces.map(|it| objects::target(Site::Cluster, "Namespace", None, it));
    let all = wanted::surplus(settings).into_iter().chain(namespaces);
    all.filter(|it| current.get(it).is_some()).collect()
}

/// The generations that were seen after the last writes.
pub fn generations(klusterlet: &Klusterlet) -> &[GenerationStatus] {
    klusterlet.status.as_ref().map_or(&[], |it| it.generations.as_slice())
}
