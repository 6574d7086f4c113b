//! Makes the objects of the templates of Policies.
//!
//! Root: Policy on the cluster. Reads: the objects of its templates and of what they depend on, definitions of kinds.
//! Writes: those objects, the finalizer of the Policy, events that say what hinders a template, and takes back
//! `status.compliant` of an object whose controller has to say it again. Never: an object that belongs to another
//! Policy or to nobody, the spec and the status of the Policy. Upstream: `controllers/templatesync/template_sync.go`.

mod decision;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use ocm_addon_sdk::{
    kube::{
        ResourceExt,
        core::{ApiResource, DynamicObject},
    },
    ocm_api::policy::{Policy, finalizers},
    reconcile::{
        Cache, Done, ObserveError, Outcome, OwnStep, Plan, Reconciler, Site, Step, StepError, Target, Watches,
        async_trait, caches::put_written, execute, execute::sentence,
    },
};
use parking_lot::Mutex;
use serde_json::json;

use super::{
    Caching, SyncSite, counters,
    discovery::{KindOnCluster, KindsOnCluster, ServedKind},
    gatekeeper,
    objects::{Interested, ObjectsAsked, WatchedObjects, Whereabouts},
    template::{self, DependencyName, Written},
    uninstall::{LOOK_AGAIN, Uninstallation},
};

use decision::{Decided, Decision};

/// What no watch would tell of is looked at again after this time.
const AGAIN: Duration = Duration::from_secs(5);

/// The reconciler.
pub struct PolicyTemplateSync {
    policies: Cache<Policy>,
    objects: WatchedObjects,
    kinds: KindsOnCluster,
    gatekeeper: gatekeeper::Presence,
    uninstallation: Uninstallation,
    site: Arc<SyncSite>,
    memory: Mutex<BTreeMap<(String, usize), Remembered>>,
}

/// What was done about a template, as long as nothing newer has been said of it: its status may come later than the
/// next run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The newest entry of its history then.
    newest: Option<String>,
    /// The message that was told.
    told: Option<String>,
    /// Whether the controller of its object was made to say its state again.
    reset: bool,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// Where it is.
    pub site: Arc<SyncSite>,
    /// The Policy; `None` when it is gone.
    pub policy: Option<Arc<Policy>>,
    /// Whether the add-on is being uninstalled.
    pub uninstalling: bool,
    /// Its templates.
    pub templates: Vec<TemplateSeen>,
    /// The objects that have its label: their kinds, and they.
    pub labelled: Vec<(ServedKind, Arc<DynamicObject>)>,
    /// What was done about its templates.
    pub remembered: BTreeMap<usize, Remembered>,
}

/// One template, and what there is of it.
#[derive(Clone, Debug)]
pub struct TemplateSeen {
    /// As it is written.
    pub written: Written,
    /// Its kind on the cluster, if it has one.
    pub kind: Option<KindOnCluster>,
    /// The object on the cluster.
    pub existing: Option<Arc<DynamicObject>>,
    /// Why nobody can say whether there is one.
    pub unknown: Option<String>,
    /// What it depends on and is not as it has to be.
    pub unmet: Vec<DependencyName>,
    /// Whether a kind that it needs is not served: no watch tells when it is.
    pub lacks_kind: bool,
}

impl PolicyTemplateSync {
    /// Over the caches of the cluster.
    pub fn new(caching: &Caching) -> Self {
        Self {
            policies: caching.policies(),
            objects: caching.objects.clone(),
            kinds: caching.kinds.clone(),
            gatekeeper: gatekeeper::Presence::new(caching),
            uninstallation: caching.uninstallation.clone(),
            site: caching.site.clone(),
            memory: Mutex::default(),
        }
    }

    async fn template(
        &self,
        written: Written,
        by: &Interested,
        asked: &mut ObjectsAsked,
    ) -> Result<TemplateSeen, ObserveError> {
        let mut seen = TemplateSeen {
            written,
            kind: None,
            existing: None,
            unknown: None,
            unmet: Vec::new(),
            lacks_kind: false,
        };
        let Written::Object {
            kind,
            name,
            dependencies,
        } = &seen.written
        else {
            return Ok(seen);
        };
        let found = self.kinds.find(kind).await?;
        if let KindOnCluster::Served(served) = &found {
            for (dependency, wanted) in dependencies {
                let (object, is_served) = self.dependency(dependency, by, asked).await?;
                seen.lacks_kind |= !is_served;
                if !template::is_met(dependency, wanted, object.as_deref()) {
                    seen.unmet.push(dependency.clone());
                }
            }
            if decision::is_carried(&self.site, kind, served) {
                let at = Whereabouts::all(&served.resource, self.namespace(served));
                asked.insert((at.clone(), name.clone()));
                match self.objects.get(&at, name, by).await {
                    Ok(object) => seen.existing = object,
                    // The definition is newer than what the API server serves.
                    Err(error) if error.code == Some(404) => return Err(error.into()),
                    Err(error) => seen.unknown = Some(error.to_string()),
                }
            }
        }
        seen.lacks_kind |= matches!(found, KindOnCluster::Missing(_));
        seen.kind = Some(found);
        Ok(seen)
    }

    async fn dependency(
        &self,
        dependency: &DependencyName,
        by: &Interested,
        asked: &mut ObjectsAsked,
    ) -> Result<(Option<Arc<DynamicObject>>, bool), ObserveError> {
        let KindOnCluster::Served(served) = self.kinds.find(&dependency.kind).await? else {
            return Ok((None, false));
        };
        let (name, namespace) = (dependency.name.as_str(), dependency.namespace.as_str());
        if name.is_empty() || served.namespaced && namespace.is_empty() {
            return Ok((None, true));
        }
        let namespace = served.namespaced.then_some(namespace);
        let ours = namespace == Some(self.site.namespace.as_str());
        let at = match ours || dependency.kind.group == gatekeeper::TEMPLATES {
            true => Whereabouts::all(&served.resource, namespace),
            false => Whereabouts::only(&served.resource, namespace, name),
        };
        asked.insert((at.clone(), name.to_owned()));
        // What may not be looked at is not as it has to be.
        Ok((self.objects.get(&at, name, by).await.ok().flatten(), true))
    }

    fn namespace(&self, kind: &ServedKind) -> Option<&str> {
        kind.namespaced.then_some(self.site.namespace.as_str())
    }

    /// Everything that has the label of a Policy.
    async fn labelled(
        &self,
        by: &Interested,
        asked: &mut ObjectsAsked,
    ) -> Result<Vec<(ServedKind, Arc<DynamicObject>)>, ObserveError> {
        let mut kinds = self.kinds.templates();
        if self.site.gatekeeper {
            kinds.extend(self.gatekeeper_kinds(by, asked).await?);
        }
        let mut found = Vec::new();
        for kind in kinds {
            let at = Whereabouts::all(&kind.resource, self.namespace(&kind));
            asked.insert((at.clone(), String::new()));
            match self.objects.labelled(&at, by).await {
                Ok(objects) => found.extend(objects.into_iter().map(|it| (kind.clone(), it))),
                // What may not be looked at, or is not served any more, has nothing of ours.
                Err(error) if matches!(error.code, Some(403 | 404)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }

    /// ConstraintTemplates, and the kinds that they have made.
    async fn gatekeeper_kinds(
        &self,
        by: &Interested,
        asked: &mut ObjectsAsked,
    ) -> Result<Vec<ServedKind>, ObserveError> {
        let Some(templates) = self.gatekeeper.templates() else {
            return Ok(Vec::new());
        };
        let at = Whereabouts::all(&templates.resource, None);
        asked.insert((at.clone(), String::new()));
        let all = self.objects.list(&at, by).await?;
        let made = all.iter().filter(|it| it.data["status"]["created"] == true);
        let constraint = |it: &Arc<DynamicObject>| {
            let kind = it.data.pointer("/spec/crd/spec/names/kind")?.as_str()?;
            Some(ServedKind {
                resource: ApiResource {
                    api_version: format!("{}/v1beta1", gatekeeper::CONSTRAINTS),
                    group: gatekeeper::CONSTRAINTS.to_owned(),
                    version: "v1beta1".to_owned(),
                    kind: kind.to_owned(),
                    plural: kind.to_lowercase(),
                },
                namespaced: false,
                is_template: false,
                definition: None,
            })
        };
        let mut kinds: Vec<_> = made.filter_map(constraint).collect();
        kinds.push(templates);
        Ok(kinds)
    }

    fn remembered(&self, key: &str) -> BTreeMap<usize, Remembered> {
        let memory = self.memory.lock();
        let from = (key.to_owned(), 0);
        let of_key = memory.range(from..).take_while(|((it, _), _)| it == key);
        of_key.map(|((_, index), it)| (*index, it.clone())).collect()
    }

    fn forget(&self, key: &str) {
        self.memory.lock().retain(|(it, _), _| it != key);
        counters::forget(key);
    }
}

/// Whether a change of an object may change what is to be done about it, or about what depends on it.
fn matters(old: Option<&DynamicObject>, new: Option<&DynamicObject>) -> bool {
    let (Some(old), Some(new)) = (old, new) else {
        return true;
    };
    let metadata = |it: &DynamicObject| {
        let of = &it.metadata;
        (
            of.uid.clone(),
            of.labels.clone(),
            of.annotations.clone(),
            of.owner_references.clone(),
            of.deletion_timestamp.is_some(),
        )
    };
    let status = |it: &DynamicObject, field: &str| it.data["status"][field].clone();
    old.data["spec"] != new.data["spec"]
        || metadata(old) != metadata(new)
        || ["compliant", "created", "totalViolations"]
            .iter()
            .any(|it| status(old, it) != status(new, it))
}

#[async_trait]
impl Reconciler for PolicyTemplateSync {
    const NAME: &'static str = "policy-template-sync";
    const WORKERS: usize = 2;
    const AT_ONCE: usize = 4;
    const STAGES_GO_ON: bool = true;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let objects = self.objects.clone();
        let all = |policies: &Cache<Policy>| policies.list().iter().map(|it| it.name_any()).collect::<Vec<_>>();
        let (of_kind, of_gatekeeper, of_deployment) =
            (self.policies.clone(), self.policies.clone(), self.policies.clone());
        watches
            .wakes(&self.policies, |old, new| old.or(new).map(|it| it.name_any()))
            .wakes(&self.kinds.definitions, move |old, new| match (old, new) {
                (Some(old), Some(new)) if old.spec == new.spec && is_established(old) == is_established(new) => {
                    Vec::new()
                }
                _ => all(&of_kind),
            })
            .wakes(&self.gatekeeper.definition, move |old, new| match (old, new) {
                (Some(old), Some(new)) if is_established(old) == is_established(new) => Vec::new(),
                _ => all(&of_gatekeeper),
            })
            .not_awaited()
            .wakes(&self.uninstallation.deployment, move |_, _| all(&of_deployment))
            .not_awaited()
            .signal("objects of templates", move |queue| {
                objects.subscribe(Self::NAME, queue.clone(), matters);
            });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let policy = self.policies.get(&self.site.namespace, key);
        let mut seen = Seen {
            now: Timestamp::now(),
            site: self.site.clone(),
            uninstalling: self.uninstallation.is_on(),
            policy,
            templates: Vec::new(),
            labelled: Vec::new(),
            remembered: self.remembered(key),
        };
        let by = Interested {
            who: Self::NAME,
            policy: key.to_owned(),
        };
        let mut asked = BTreeSet::new();
        match seen.policy.clone() {
            None => self.forget(key),
            Some(policy) => {
                for written in template::read(&policy, &self.site.namespace) {
                    let template = self.template(written, &by, &mut asked).await?;
                    seen.templates.push(template);
                }
                seen.labelled = self.labelled(&by, &mut asked).await?;
            }
        }
        self.objects.keep_only(&by, &asked);
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(policy) = seen.policy.as_deref() else {
            return plan;
        };
        if policy.metadata.deletion_timestamp.is_some() {
            clean_up(&mut plan, seen, policy);
            return plan;
        }
        if seen.uninstalling {
            plan.wait("the add-on is being uninstalled").look_again(LOOK_AGAIN);
            return plan;
        }
        let decided = decision::decide(seen, policy);
        if let Decided::Each(decisions) = &decided {
            carry_out(&mut plan, seen, policy, decisions);
        }
        plan.work_out(decided);
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        put_written(&self.policies, outcome);
        self.objects.put_written(outcome);
        if let (Some(policy), Some(decided)) = (&seen.policy, outcome.worked_out::<Decided>()) {
            decision::count(policy, decided, outcome);
        }
    }

    /// Takes back the state of the object of a template. The kind may be any, and so the status has no declared author.
    async fn perform(&self, seen: &Seen, own: &OwnStep) -> Result<Done, StepError> {
        let index = own.what.rsplit(' ').next().and_then(|it| it.parse::<usize>().ok());
        let template = index.and_then(|it| seen.templates.get(it));
        if let Some(template) = template
            && let (Some(KindOnCluster::Served(served)), Some(object)) = (&template.kind, &template.existing)
        {
            let mut plan = Plan::new();
            let step = plan.push(Step::MergePatch {
                target: target(&served.resource, object),
                subresource: Some("status"),
                patch: json!({"status": {"compliant": null}}),
            });
            let mut outcome = execute(&self.objects.clients(), &plan).await;
            self.objects.put_written(&outcome);
            if let Some(result) = outcome.take(step) {
                result?;
            }
        }
        Ok(Done::Performed)
    }

    fn failure(_: &Seen, outcome: &Outcome) -> Option<String> {
        // What the API server refuses for what it is will be refused again, until the Policy or the kind changes.
        let refused = |step: &Step, code: Option<u16>| {
            matches!(step, Step::Create { .. } | Step::Replace { .. }) && matches!(code, Some(400 | 422))
        };
        let failures = outcome.results().filter_map(|(step, result)| {
            let error = result.as_ref().err()?;
            (!refused(step, error.code())).then(|| sentence(error))
        });
        let failures: Vec<String> = failures.collect();
        (!failures.is_empty()).then(|| failures.join("; "))
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        match (seen.policy.as_deref(), outcome.worked_out::<Decided>()) {
            (Some(policy), Some(decided)) => decision::conclude(seen, policy, decided, outcome),
            _ => Plan::new(),
        }
    }

    fn stage_done(&self, seen: &Seen, so_far: &Outcome) {
        let Some(policy) = &seen.policy else { return };
        let done = so_far.plan().names.iter().filter_map(|(name, step)| {
            let (what, index) = name.split_once('/')?;
            let is_done = matches!(
                so_far.get(*step),
                Some(Ok(Done::Object(_) | Done::AlreadyExists | Done::Performed))
            );
            Some((what, index.parse::<usize>().ok()?, *step)).filter(|_| is_done)
        });
        for (what, index, step) in done {
            let newest = decision::newest(policy, index).map(|it| it.event_name.clone());
            let mut memory = self.memory.lock();
            let entry = memory.entry((policy.name_any(), index)).or_default();
            if entry.newest != newest {
                *entry = Remembered {
                    newest,
                    ..Remembered::default()
                };
            }
            match (what, so_far.plan().get(step)) {
                (decision::TOLD, Some(Step::Create { object, .. })) => {
                    entry.told = object["message"].as_str().map(str::to_owned);
                }
                (decision::RESET, _) => entry.reset = true,
                _ => {}
            }
        }
    }

    fn concluded(&self, outcome: &Outcome) {
        self.objects.put_written(outcome);
    }
}

fn is_established(
    it: &ocm_addon_sdk::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
) -> bool {
    let conditions = it.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|it| it.type_ == "Established" && it.status == "True")
}

/// Writes what was decided about each template, and takes away what no template is for.
fn carry_out(plan: &mut Plan, seen: &Seen, policy: &Policy, decisions: &[Decision]) {
    let has_unowned = decisions.iter().any(Decision::needs_finalizer);
    if has_unowned {
        plan.add_finalizer(Site::Cluster, policy, finalizers::CLEAN_UP_CLUSTER_SCOPED);
        plan.stage();
    }
    for (index, decision) in decisions.iter().enumerate() {
        decision.write(plan, index);
    }
    for (kind, object) in &seen.labelled {
        let of = &kind.resource;
        let is_it = |it: &TemplateSeen| match &it.written {
            Written::Object { kind, name, .. } => {
                kind.group == of.group && kind.kind == of.kind && *name == object.name_any()
            }
            Written::Broken { .. } => false,
        };
        if object.metadata.deletion_timestamp.is_none() && !seen.templates.iter().any(is_it) {
            plan.push(deletion(of, object));
        }
    }
    if !has_unowned {
        plan.stage();
        plan.remove_finalizer(Site::Cluster, policy, finalizers::CLEAN_UP_CLUSTER_SCOPED);
    }
    let lacks_kind = seen.templates.iter().any(|it| it.lacks_kind);
    if lacks_kind
        || decisions
            .iter()
            .any(|it| matches!(it, Decision::Broken { again: true, .. }))
    {
        plan.look_again(AGAIN);
    }
}

/// The Policy goes: what it cannot own goes first, then the finalizer.
fn clean_up(plan: &mut Plan, seen: &Seen, policy: &Policy) {
    let unowned = seen.labelled.iter().filter(|(kind, _)| !kind.namespaced);
    let mut is_left = false;
    for (kind, object) in unowned {
        is_left = true;
        if object.metadata.deletion_timestamp.is_none() {
            plan.push(deletion(&kind.resource, object));
        }
    }
    if is_left {
        plan.wait("objects without a namespace are being deleted")
            .look_again(AGAIN);
    } else {
        plan.remove_finalizer(Site::Cluster, policy, finalizers::CLEAN_UP_CLUSTER_SCOPED);
    }
}

fn target(resource: &ApiResource, object: &DynamicObject) -> Target {
    Target {
        site: Site::Cluster,
        api_resource: resource.clone(),
        namespace: object.namespace(),
        name: object.name_any(),
    }
}

fn deletion(resource: &ApiResource, object: &DynamicObject) -> Step {
    Step::Delete {
        target: target(resource, object),
        uid: object.uid(),
        propagation: None,
    }
}
