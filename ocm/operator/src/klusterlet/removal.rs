//! The plan by which an agent is taken away. It is made anew of what is left, so that an operator that was stopped in
//! any phase goes on from there.

use std::time::Duration;

use credential::kubeconfig::{KubeconfigProblem, explain};
use jiff::{SignedDuration, Timestamp};
use kube::{Api, Client, ResourceExt, api::ListParams};
use ocm_api::{
    finalizers,
    namespaces::{AGENT_ADDON, HUB_KUBECONFIG_SECRET},
    operator::Klusterlet,
    work::AppliedManifestWork,
};
use ocm_reconcile::{Plan, Propagation, Site, Step, Target};

use super::{
    former, names, network, rbac,
    remains::{Leaving, Managed, ManagedSeen},
    said,
    settings::{AgentSettings, Place, Shape},
    wanted,
};
use crate::{
    OCM_VERSION, crds,
    objects::{self, Current, LookError},
};

/// After so long without an answer a managed cluster is given up.
const GIVE_UP: SignedDuration = SignedDuration::from_mins(5);
/// How often it is looked for meanwhile.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// How long pods are given to end before what they could put back is taken away.
const PODS_END: SignedDuration = SignedDuration::from_secs(20);

/// In plans, steps have a reason as their name; a clean-up has only one.
const REASON: &str = "KlusterletCleanupFailed";

/// Everything that was made for either shape, of a Klusterlet that may have changed since.
fn both_shapes(settings: &AgentSettings) -> [AgentSettings; 2] {
    [Shape::Two, Shape::One].map(|shape| AgentSettings {
        shape,
        ..settings.clone()
    })
}

fn deployments(settings: &AgentSettings) -> Vec<Target> {
    let names = settings.deployments().into_iter().chain(settings.surplus());
    names.map(|it| wanted::deployment_target(settings, &it)).collect()
}

fn secrets(settings: &AgentSettings) -> Vec<Target> {
    let derived = names::DERIVED.iter().filter(|_| settings.place == Place::Hosting);
    let all = derived.copied().chain([HUB_KUBECONFIG_SECRET]);
    all.map(|it| wanted::derived_target(settings, it)).collect()
}

fn rbac_here(settings: &AgentSettings) -> Vec<Target> {
    let mut all: Vec<Target> = Vec::new();
    for settings in both_shapes(settings) {
        let made = rbac::management(&settings, false).into_iter().map(|it| it.target);
        all.extend(made.filter(|it| !all.contains(it)).collect::<Vec<_>>());
    }
    all.extend(network::targets(settings));
    all.push(former::outliving(settings));
    all
}

/// What goes of the roles and bindings here: of what others may have made too, only what was made for this Klusterlet.
fn rbac_here_to_remove(settings: &AgentSettings, current: &Current) -> Vec<Target> {
    let shared = former::outliving(settings);
    let is_ours = |it: &Target| current.get(it).is_some_and(|it| wanted::is_made_for(settings, it));
    let all = rbac_here(settings).into_iter();
    all.filter(|it| *it != shared || is_ours(it)).collect()
}

fn rbac_managed(settings: &AgentSettings) -> Vec<Target> {
    let mut all = vec![rbac::aggregate(settings).target];
    for settings in both_shapes(settings) {
        let made = rbac::managed(&settings, false).into_iter().map(|it| it.target);
        all.extend(made.filter(|it| !all.contains(it)).collect::<Vec<_>>());
    }
    all
}

fn namespace(site: Site, name: &str) -> Target {
    objects::target(site, "Namespace", None, name)
}

fn hosting_namespace(settings: &AgentSettings) -> Option<Target> {
    (settings.place == Place::Hosting).then(|| namespace(Site::Management, &settings.agent_namespace))
}

fn definitions(settings: &AgentSettings) -> Vec<Target> {
    let all = AgentSettings {
        has_properties: true,
        ..settings.clone()
    };
    wanted::definitions(&all).into_iter().map(|it| it.target).collect()
}

/// The namespaces on the managed cluster that go: the agent's, and that of add-ons if no other agent is there.
fn managed_namespaces(settings: &AgentSettings, namespaces: &[(String, String)]) -> Vec<Target> {
    let is_own = |(name, whose): &&(String, String)| *name == settings.klusterlet_namespace || *whose == settings.name;
    let mut own: Vec<&str> = namespaces.iter().filter(is_own).map(|it| it.0.as_str()).collect();
    if !own.contains(&settings.klusterlet_namespace.as_str()) {
        own.push(&settings.klusterlet_namespace);
    }
    if settings.has_addon_namespace && namespaces.iter().all(|it| is_own(&it)) {
        own.push(AGENT_ADDON);
    }
    let is_operators = |it: &&str| settings.place == Place::Managed && *it == settings.operator_namespace;
    own.retain(|it| !is_operators(it));
    own.into_iter().map(|it| namespace(Site::Cluster, it)).collect()
}

/// What has to be looked at here.
pub fn targets_here(settings: &AgentSettings) -> Vec<Target> {
    let mut all = deployments(settings);
    all.extend(secrets(settings));
    all.extend(rbac_here(settings));
    all.extend(hosting_namespace(settings));
    all
}

/// What has to be looked at on the managed cluster.
pub fn targets_managed(settings: &AgentSettings, namespaces: &[(String, String)]) -> Vec<Target> {
    let mut all = definitions(settings);
    all.extend(rbac_managed(settings));
    all.extend(managed_namespaces(settings, namespaces));
    all
}

/// The records of an agent of what works have applied; none where their kind is not served.
///
/// # Errors
/// When they cannot be listed.
pub async fn works(client: &Client, agent_id: &str) -> Result<Vec<AppliedManifestWork>, LookError> {
    let api: Api<AppliedManifestWork> = Api::all(client.clone());
    match api.list(&ListParams::default()).await {
        Ok(all) => Ok(all
            .items
            .into_iter()
            .filter(|it| it.spec.agent_id == agent_id)
            .collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(source) => Err(read_error(
            Target::named::<AppliedManifestWork>(Site::Cluster, "AppliedManifestWorks"),
            source,
        )),
    }
}

/// That the namespaces of agents could not be listed.
pub fn namespaces_error(source: kube::Error) -> LookError {
    read_error(namespace(Site::Cluster, "Namespaces"), source)
}

fn read_error(target: Target, source: kube::Error) -> LookError {
    LookError::Read {
        target: Box::new(target),
        source,
    }
}

/// Why a managed cluster is not there, if that is why it could not be read: nobody answers, or somebody else does.
pub fn unreachable(error: &LookError, server: &str) -> Option<String> {
    let LookError::Read { source, .. } = error else {
        return None;
    };
    let problem = explain(server, source);
    let is_gone = matches!(
        problem,
        KubeconfigProblem::PointsNowhere { .. }
            | KubeconfigProblem::UnknownAuthority { .. }
            | KubeconfigProblem::WrongServerName { .. }
            | KubeconfigProblem::Tls { .. }
    );
    is_gone.then(|| problem.to_string())
}

/// What to do next.
pub fn plan(leaving: &Leaving, now: Timestamp) -> Plan {
    let mut plan = Plan::new();
    let Leaving {
        klusterlet,
        settings,
        current,
        managed,
    } = leaving;
    let since = klusterlet.annotations().get(names::EVICTION_TIMESTAMP);
    let since = since.and_then(|it| it.parse::<Timestamp>().ok());
    if let (Managed::Seen(_), Some(_)) = (managed, klusterlet.annotations().get(names::EVICTION_TIMESTAMP)) {
        // It answers again; the next time it does not, it has all of the time again.
        note_eviction(&mut plan, klusterlet, None);
        return plan;
    }
    if let Managed::Unreachable(why) = managed {
        let Some(since) = since else {
            stop_pods(&mut plan, settings, current, now);
            note_eviction(&mut plan, klusterlet, Some(now));
            let note = format!(
                "the managed cluster cannot be reached: {why}; if it is not back in {} minutes, what is there is left behind",
                GIVE_UP.as_mins()
            );
            // Once, when it is written since when.
            plan.stage()
                .push(said::warning(klusterlet, "ManagedClusterUnreachable", note, now));
            plan.look_again(LOOK_AGAIN);
            return plan;
        };
        let left = GIVE_UP - now.duration_since(since);
        if left.is_positive() {
            stop_pods(&mut plan, settings, current, now);
            plan.wait(format!(
                "the managed cluster cannot be reached: {why}; it is given up in {left:#}"
            ));
            plan.look_again(LOOK_AGAIN.min(Duration::try_from(left).unwrap_or(LOOK_AGAIN)));
            return plan;
        }
    }
    if let Some(again) = stop_pods(&mut plan, settings, current, now) {
        plan.wait("the agent's pods end first: they would put back what is taken away");
        plan.look_again(again);
        return plan;
    }
    if let Managed::Seen(managed) = managed {
        leave_managed(&mut plan, settings, managed);
    }
    for targets in [
        secrets(settings),
        rbac_here_to_remove(settings, current),
        hosting_namespace(settings).into_iter().collect(),
    ] {
        plan.stage();
        targets
            .iter()
            .for_each(|it| objects::remove(&mut plan, REASON, it, current));
    }
    plan.stage();
    let mut free = (**klusterlet).clone();
    free.finalizers_mut()
        .retain(|it| it != names::FINALIZER && it != names::HOSTED_FINALIZER);
    plan.change(Site::Management, &**klusterlet, &free);
    plan
}

/// Deletes the Deployments, their pods first. After how long to look again, while pods may still be ending.
fn stop_pods(plan: &mut Plan, settings: &AgentSettings, current: &Current, now: Timestamp) -> Option<Duration> {
    let mut again = None;
    for target in deployments(settings) {
        let Some(found) = current.get(&target) else { continue };
        if !objects::is_going(found) {
            plan.push(Step::Delete {
                uid: found["metadata"]["uid"].as_str().map(str::to_owned),
                propagation: Some(Propagation::Foreground),
                target,
            });
            again = Some(Duration::from_secs(2));
            continue;
        }
        let deleted = found["metadata"]["deletionTimestamp"].as_str().unwrap_or_default();
        let until = deleted.parse::<Timestamp>().map(|it| it + PODS_END).ok();
        let left = until.map(|it| it.duration_since(now));
        if let Some(left) = left.filter(SignedDuration::is_positive) {
            again = Some(Duration::try_from(left).unwrap_or_default().min(Duration::from_secs(2)));
        }
    }
    again
}

fn note_eviction(plan: &mut Plan, klusterlet: &Klusterlet, since: Option<Timestamp>) {
    let mut new = klusterlet.clone();
    match since {
        Some(since) => {
            let text = since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            new.annotations_mut().insert(names::EVICTION_TIMESTAMP.to_owned(), text);
        }
        None => {
            new.annotations_mut().remove(names::EVICTION_TIMESTAMP);
        }
    }
    plan.change(Site::Management, klusterlet, &new);
}

/// What goes on the managed cluster. What works have applied stays, and so do the records of it, which nobody keeps any
/// longer.
fn leave_managed(plan: &mut Plan, settings: &AgentSettings, managed: &ManagedSeen) {
    plan.stage();
    for work in &managed.works {
        plan.remove_finalizer(Site::Cluster, work, finalizers::APPLIED_MANIFEST_WORK);
    }
    let crds = definitions(settings);
    crds::release(plan, REASON, &crds, &managed.current, OCM_VERSION);
    for targets in [
        rbac_managed(settings),
        managed_namespaces(settings, &managed.namespaces),
    ] {
        plan.stage();
        targets
            .iter()
            .for_each(|it| objects::remove(plan, REASON, it, &managed.current));
    }
}
