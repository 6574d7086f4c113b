//! A plan: what to do, in which order, why nothing is done, and when to look again. A value without side effects.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Resource, ResourceExt, core::ApiResource};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::difference;

/// Ordered stages of steps, notes, and the time to look again.
///
/// Steps of one stage are all tried, in order, even if one fails; the next stage starts only
/// when the last one succeeded, unless a reconciler's
/// [`STAGES_GO_ON`](crate::Reconciler::STAGES_GO_ON).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The stages, each a list of steps.
    pub stages: Vec<Vec<Step>>,
    /// Why something is not done, or not done yet.
    pub notes: Vec<Note>,
    /// Look again after this time even if nothing happens.
    pub again: Option<Duration>,
    /// Steps that the conclusion asks after, by the name that [`Plan::name`] gave them.
    pub names: Vec<(String, StepId)>,
    worked_out: WorkedOut,
}

/// What [`Plan::work_out`] was given. It is no part of what the plan does, so all are equal.
#[derive(Clone, Default)]
struct WorkedOut(Option<Arc<dyn Any + Send + Sync>>);

impl PartialEq for WorkedOut {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for WorkedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "something" } else { "nothing" })
    }
}

/// Which API a step speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Site {
    /// The hub.
    Hub,
    /// The managed cluster.
    Cluster,
    /// The cluster that pods run on, where hub or agent are put on another: what the operator runs on.
    Management,
}

/// One object at one site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Where it lives.
    pub site: Site,
    /// Its group, version, kind and plural.
    pub api_resource: ApiResource,
    /// Its namespace; `None` when its kind has none.
    pub namespace: Option<String>,
    /// Its name; empty when the server is to generate one.
    pub name: String,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Create it; that it exists already is a result, not a failure.
    Create {
        /// What to create.
        target: Target,
        /// The whole object.
        object: Value,
    },
    /// Put a whole object, guarded by the resourceVersion it carries.
    Replace {
        /// What to replace.
        target: Target,
        /// A sub-resource such as `approval`.
        subresource: Option<&'static str>,
        /// The whole object.
        object: Value,
    },
    /// Server-side apply.
    Apply {
        /// What to apply to.
        target: Target,
        /// The fields to own.
        object: Value,
        /// Under which name.
        field_manager: String,
        /// Whether to take fields from other managers.
        force: bool,
    },
    /// A JSON merge patch.
    MergePatch {
        /// What to patch.
        target: Target,
        /// A sub-resource such as `status`.
        subresource: Option<&'static str>,
        /// The patch.
        patch: Value,
    },
    /// Delete it; that it is gone already is a result, not a failure.
    Delete {
        /// What to delete.
        target: Target,
        /// Only this incarnation.
        uid: Option<String>,
        /// What happens to its dependents.
        propagation: Option<Propagation>,
    },
    /// Create a sub-resource of an object, such as `token` of a ServiceAccount; the answer is the result.
    CreateSubresource {
        /// Of what.
        target: Target,
        /// Which one.
        subresource: &'static str,
        /// What to send.
        object: Value,
    },
    /// Something else than a write to an API server, such as starting a manager or making a key: carried out by
    /// [`Reconciler::perform`](crate::Reconciler::perform).
    Own(OwnStep),
    /// Tell the user something. Failing to tell fails nothing.
    Event(EventStep),
}

/// A step that only its reconciler can carry out.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnStep {
    /// The verb, such as `start`.
    pub verb: &'static str,
    /// On what, such as `manager of add-on helloworld`. It is printed, so that it holds no secret.
    pub what: String,
}

/// What deletion does to dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Leave them.
    Orphan,
    /// Delete them afterwards.
    Background,
    /// Delete them first.
    Foreground,
}

/// An `events.k8s.io/v1` Event to send.
#[derive(Clone, Debug, PartialEq)]
pub struct EventStep {
    /// Where to send it.
    pub site: Site,
    /// The namespace the event is filed in.
    pub namespace: String,
    /// What it is about: apiVersion, kind, namespace, name, uid as an ObjectReference.
    pub regarding: Value,
    /// What else it is about, as an ObjectReference.
    pub related: Option<Value>,
    /// `Normal` or `Warning`.
    pub kind: EventKind,
    /// A CamelCase reason.
    pub reason: String,
    /// What was done.
    pub action: String,
    /// A sentence.
    pub note: String,
    /// Who says so.
    pub reporting_controller: String,
    /// When.
    pub at: Timestamp,
}

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// For information.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Why a plan does not do more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Something else must happen first; a watch will tell.
    Wait(String),
    /// The user must change something; no retry will help.
    Refuse(String),
    /// Worth knowing, hinders nothing.
    Remark(String),
}

/// Names one step of one plan, to find its result in the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepId {
    /// The stage.
    pub stage: usize,
    /// The position within it.
    pub step: usize,
}

impl Target {
    /// The target of a typed object, from its own metadata.
    pub fn of<K>(site: Site, object: &K) -> Self
    where
        K: Resource<DynamicType = ()>,
    {
        Self {
            site,
            api_resource: ApiResource::erase::<K>(&()),
            namespace: object.meta().namespace.clone(),
            name: object.meta().name.clone().unwrap_or_default(),
        }
    }

    /// A typed, cluster-scoped target by name.
    pub fn named<K>(site: Site, name: &str) -> Self
    where
        K: Resource<DynamicType = ()>,
    {
        Self {
            site,
            api_resource: ApiResource::erase::<K>(&()),
            namespace: None,
            name: name.to_owned(),
        }
    }

    /// A typed, namespaced target by namespace and name.
    pub fn namespaced<K>(site: Site, namespace: &str, name: &str) -> Self
    where
        K: Resource<DynamicType = ()>,
    {
        Self {
            namespace: Some(namespace.to_owned()),
            ..Self::named::<K>(site, name)
        }
    }
}

impl Step {
    /// The site it writes to.
    pub fn site(&self) -> Site {
        match self {
            Step::Event(event) => event.site,
            other => other.target().map(|it| it.site).unwrap_or(Site::Hub),
        }
    }

    /// The object it writes; events and the reconciler's own steps have none.
    pub fn target(&self) -> Option<&Target> {
        match self {
            Step::Create { target, .. }
            | Step::Replace { target, .. }
            | Step::Apply { target, .. }
            | Step::MergePatch { target, .. }
            | Step::CreateSubresource { target, .. }
            | Step::Delete { target, .. } => Some(target),
            Step::Event(_) | Step::Own(_) => None,
        }
    }
}

impl Plan {
    /// An empty page.
    pub fn new() -> Self {
        Self::default()
    }

    /// A plan that only says why it does nothing.
    pub fn only(note: Note) -> Self {
        Self {
            notes: vec![note],
            ..Self::default()
        }
    }

    /// Whether it writes nothing. Notes and timers are no writes.
    pub fn is_empty(&self) -> bool {
        self.stages.iter().all(Vec::is_empty)
    }

    /// How many steps it has.
    pub fn len(&self) -> usize {
        self.stages.iter().map(Vec::len).sum()
    }

    /// Begins a new stage: what is pushed from here on happens only if everything before succeeded.
    pub fn stage(&mut self) -> &mut Self {
        if self.stages.last().is_some_and(|stage| !stage.is_empty()) {
            self.stages.push(Vec::new());
        }
        self
    }

    /// Adds a step to the current stage.
    pub fn push(&mut self, step: Step) -> StepId {
        if self.stages.is_empty() {
            self.stages.push(Vec::new());
        }
        let stage = self.stages.len() - 1;
        self.stages[stage].push(step);
        StepId {
            stage,
            step: self.stages[stage].len() - 1,
        }
    }

    /// Gives a step a name, by which its result is found: [`Outcome::named`](crate::Outcome::named).
    pub fn name(&mut self, name: impl Into<String>, step: StepId) -> &mut Self {
        self.names.push((name.into(), step));
        self
    }

    /// The step of this name.
    pub fn named(&self, name: &str) -> Option<StepId> {
        self.names.iter().find(|(it, _)| it == name).map(|(_, step)| *step)
    }

    /// The step at this place.
    pub fn get(&self, id: StepId) -> Option<&Step> {
        self.stages.get(id.stage)?.get(id.step)
    }

    /// Keeps what this plan has worked out, so that its conclusion and the reconciler's memory need not work it out
    /// again.
    pub fn work_out<T: Send + Sync + 'static>(&mut self, result: T) -> &mut Self {
        self.worked_out = WorkedOut(Some(Arc::new(result)));
        self
    }

    /// What [`work_out`](Self::work_out) was given, where that was a `T`.
    pub fn worked_out<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.worked_out.0.as_deref()?.downcast_ref()
    }

    /// Something that only the reconciler itself can do.
    pub fn perform(&mut self, verb: &'static str, what: impl Into<String>) -> StepId {
        self.push(Step::Own(OwnStep {
            verb,
            what: what.into(),
        }))
    }

    /// Something else must happen first.
    pub fn wait(&mut self, why: impl Into<String>) -> &mut Self {
        self.notes.push(Note::Wait(why.into()));
        self
    }

    /// The user must change something.
    pub fn refuse(&mut self, why: impl Into<String>) -> &mut Self {
        self.notes.push(Note::Refuse(why.into()));
        self
    }

    /// Worth knowing.
    pub fn remark(&mut self, what: impl Into<String>) -> &mut Self {
        self.notes.push(Note::Remark(what.into()));
        self
    }

    /// Look again after `delay` at the latest; the shortest of several wins.
    pub fn look_again(&mut self, delay: Duration) -> &mut Self {
        self.again = Some(self.again.map_or(delay, |before| before.min(delay)));
        self
    }

    /// Appends another plan behind this one, as further stages.
    pub fn then(&mut self, other: Plan) -> &mut Self {
        if !other.is_empty() {
            self.stages.retain(|stage| !stage.is_empty());
            // Only a last stage can be empty, so that the places within either plan stay as they are.
            let before = self.stages.len();
            let moved = other.names.into_iter().map(|(name, id)| {
                let stage = before + id.stage;
                (name, StepId { stage, ..id })
            });
            self.names.extend(moved);
            self.stages
                .extend(other.stages.into_iter().filter(|stage| !stage.is_empty()));
        }
        self.notes.extend(other.notes);
        if let Some(delay) = other.again {
            self.look_again(delay);
        }
        self
    }

    /// Creates a typed object.
    pub fn create<K>(&mut self, site: Site, object: &K) -> StepId
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let target = Target::of(site, object);
        let object = typed(object, &target.api_resource);
        self.push(Step::Create { target, object })
    }

    /// Keeps `current` saying everything `desired` says: creates it when absent, adds nothing when it agrees, and
    /// otherwise patches only the difference. Labels and annotations are merged; owner references and finalizers are
    /// added, never removed; `status` is not looked at.
    pub fn keep<K>(&mut self, site: Site, current: Option<&K>, desired: &K) -> Option<StepId>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let target = Target::of(site, desired);
        let current = current.map(|it| typed(it, &target.api_resource));
        let desired = typed(desired, &target.api_resource);
        self.keep_value(target, current.as_ref(), &desired)
    }

    /// [`keep`](Self::keep) for objects whose kind is known only at run time.
    pub fn keep_value(&mut self, target: Target, current: Option<&Value>, desired: &Value) -> Option<StepId> {
        let Some(current) = current else {
            return Some(self.push(Step::Create {
                target,
                object: desired.clone(),
            }));
        };
        let mut patch = keeping_patch(current, desired)?;
        guard(&mut patch, current);
        Some(self.push(Step::MergePatch {
            target,
            subresource: None,
            patch,
        }))
    }

    /// Patches an object from `old` to `new`, both whole; nothing when they agree.
    /// The patch carries uid and resourceVersion.
    pub fn change<K>(&mut self, site: Site, old: &K, new: &K) -> Option<StepId>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let target = Target::of(site, old);
        let old = typed(old, &target.api_resource);
        let mut new = typed(new, &target.api_resource);
        // Status is a page of its own: a patch of the main resource would drop it silently.
        match old.get("status") {
            Some(status) => new["status"] = status.clone(),
            None => {
                new.as_object_mut().map(|it| it.remove("status"));
            }
        }
        let mut patch = difference::merge_patch(&old, &new)?;
        guard(&mut patch, &old);
        Some(self.push(Step::MergePatch {
            target,
            subresource: None,
            patch,
        }))
    }

    /// Patches the status of an object from `old` to `new`; nothing when they agree.
    pub fn status<K>(&mut self, site: Site, old: &K, new: &K) -> Option<StepId>
    where
        K: Resource<DynamicType = ()> + Serialize + PartialEq,
    {
        // Most runs change nothing, and comparing is far cheaper than writing both out.
        if old == new {
            return None;
        }
        let target = Target::of(site, old);
        let old = typed(old, &target.api_resource);
        let new = typed(new, &target.api_resource);
        self.status_value(target, &old, new.get("status").unwrap_or(&Value::Null))
    }

    /// [`status`](Self::status) for objects whose kind is known only at run time; `status` is the new one, whole.
    pub fn status_value(&mut self, target: Target, old: &Value, status: &Value) -> Option<StepId> {
        let empty = Value::Object(Map::new());
        let before = old.get("status").filter(|it| !it.is_null()).unwrap_or(&empty);
        let after = if status.is_null() { &empty } else { status };
        let change = difference::merge_patch(before, after)?;
        let mut patch = json!({ "status": change });
        guard(&mut patch, old);
        Some(self.push(Step::MergePatch {
            target,
            subresource: Some("status"),
            patch,
        }))
    }

    /// Adds a finalizer when it is missing. The patch carries the whole list.
    pub fn add_finalizer<K>(&mut self, site: Site, object: &K, finalizer: &str) -> Option<StepId>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        if object.finalizers().iter().any(|it| it == finalizer) {
            return None;
        }
        let mut finalizers = object.finalizers().to_vec();
        finalizers.push(finalizer.to_owned());
        Some(self.set_finalizers(site, object, &finalizers))
    }

    /// Removes a finalizer when it is there. The patch carries the whole list.
    pub fn remove_finalizer<K>(&mut self, site: Site, object: &K, finalizer: &str) -> Option<StepId>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        if !object.finalizers().iter().any(|it| it == finalizer) {
            return None;
        }
        let finalizers: Vec<_> = object
            .finalizers()
            .iter()
            .filter(|it| *it != finalizer)
            .cloned()
            .collect();
        Some(self.set_finalizers(site, object, &finalizers))
    }

    fn set_finalizers<K>(&mut self, site: Site, object: &K, finalizers: &[String]) -> StepId
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let target = Target::of(site, object);
        let mut patch = json!({ "metadata": { "finalizers": finalizers } });
        guard(&mut patch, &json!({ "metadata": object.meta() }));
        self.push(Step::MergePatch {
            target,
            subresource: None,
            patch,
        })
    }

    /// Deletes exactly this incarnation of an object; nothing when it is being deleted already.
    pub fn delete<K>(&mut self, site: Site, object: &K) -> Option<StepId>
    where
        K: Resource<DynamicType = ()>,
    {
        if object.meta().deletion_timestamp.is_some() {
            return None;
        }
        let target = Target::of(site, object);
        Some(self.push(Step::Delete {
            target,
            uid: object.meta().uid.clone(),
            propagation: None,
        }))
    }
}

/// The object as JSON with its apiVersion and kind, which typed structs leave out.
pub fn typed<K: Serialize>(object: &K, api_resource: &ApiResource) -> Value {
    let mut value = serde_json::to_value(object).expect("a Kubernetes object serializes: its keys are strings");
    if let Some(map) = value.as_object_mut() {
        map.entry("apiVersion")
            .or_insert_with(|| Value::String(api_resource.api_version.clone()));
        map.entry("kind")
            .or_insert_with(|| Value::String(api_resource.kind.clone()));
    }
    value
}

// Upstream's patcher sends uid and resourceVersion with every patch, so that a stale cache gives a 409 and a fresh look
// instead of a list overwritten with an older one.
fn guard(patch: &mut Value, current: &Value) {
    let metadata = &current["metadata"];
    for field in ["uid", "resourceVersion"] {
        if let Some(value) = metadata.get(field).filter(|it| it.is_string()) {
            patch["metadata"][field] = value.clone();
        }
    }
}

fn keeping_patch(current: &Value, desired: &Value) -> Option<Value> {
    let mut patch = Map::new();
    let mut metadata = Map::new();
    for field in ["labels", "annotations"] {
        let absent = Value::Object(Map::new());
        let wanted = desired["metadata"].get(field).unwrap_or(&absent);
        if let Some(change) = difference::patch_to_contain(current["metadata"].get(field).unwrap_or(&absent), wanted) {
            metadata.insert(field.to_owned(), change);
        }
    }
    for (field, same) in [("finalizers", None), ("ownerReferences", Some("uid"))] {
        if let Some(list) = union(&current["metadata"][field], &desired["metadata"][field], same) {
            metadata.insert(field.to_owned(), list);
        }
    }
    if !metadata.is_empty() {
        patch.insert("metadata".to_owned(), Value::Object(metadata));
    }
    for (field, wanted) in desired.as_object().into_iter().flatten() {
        if matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "status") {
            continue;
        }
        if let Some(change) = difference::patch_to_contain(&current[field], wanted) {
            patch.insert(field.clone(), change);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

// The whole list with what is missing added, or None when nothing is.
fn union(current: &Value, desired: &Value, same_by: Option<&str>) -> Option<Value> {
    let mut all = current.as_array().cloned().unwrap_or_default();
    let before = all.len();
    let mut changed = false;
    for wanted in desired.as_array().into_iter().flatten() {
        let identity = |it: &Value| same_by.map_or_else(|| it.clone(), |field| it[field].clone());
        match all.iter_mut().find(|it| identity(it) == identity(wanted)) {
            Some(present) if difference::contains(present, wanted) => {}
            Some(present) => {
                *present = wanted.clone();
                changed = true;
            }
            None => all.push(wanted.clone()),
        }
    }
    (changed || all.len() != before).then_some(Value::Array(all))
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Site::Hub => "hub",
            Site::Cluster => "cluster",
            Site::Management => "management",
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() {
            "(generated)"
        } else {
            &self.name
        };
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{name}", self.api_resource.kind),
            None => write!(f, "{} {name}", self.api_resource.kind),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Wait(why) => write!(f, "waits: {why}"),
            Note::Refuse(why) => write!(f, "refuses: {why}"),
            Note::Remark(what) => write!(f, "note: {what}"),
        }
    }
}

/// `{}` is one line that names the step; `{:#}` adds what is written, with the data of Secrets left out.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = f.alternate();
        match self {
            Step::Create { target, object } => {
                write!(f, "{}: create {target}", target.site)?;
                body(f, whole, target, object)
            }
            Step::Replace {
                target,
                subresource,
                object,
            } => {
                write!(f, "{}: replace {target}{}", target.site, Sub(*subresource))?;
                body(f, whole, target, object)
            }
            Step::Apply {
                target,
                object,
                field_manager,
                force,
            } => {
                let force = if *force { ", force" } else { "" };
                write!(f, "{}: apply {target} as {field_manager}{force}", target.site)?;
                body(f, whole, target, object)
            }
            Step::MergePatch {
                target,
                subresource,
                patch,
            } => {
                write!(f, "{}: patch {target}{}", target.site, Sub(*subresource))?;
                body(f, whole, target, patch)
            }
            Step::Delete {
                target,
                uid,
                propagation,
            } => {
                write!(f, "{}: delete {target}", target.site)?;
                if let Some(uid) = uid.as_ref().filter(|_| whole) {
                    write!(f, " uid {uid}")?;
                }
                match propagation {
                    Some(propagation) => write!(f, " {}", format!("{propagation:?}").to_lowercase()),
                    None => Ok(()),
                }
            }
            Step::CreateSubresource {
                target,
                subresource,
                object,
            } => {
                write!(f, "{}: create {subresource} of {target}", target.site)?;
                body(f, whole, target, object)
            }
            Step::Own(own) => write!(f, "{} {}", own.verb, own.what),
            Step::Event(event) => {
                write!(
                    f,
                    "{}: event {:?} {} in {}",
                    event.site, event.kind, event.reason, event.namespace
                )?;
                if whole { write!(f, " {:?}", event.note) } else { Ok(()) }
            }
        }
    }
}

struct Sub(Option<&'static str>);

impl fmt::Display for Sub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, " {name}"),
            None => Ok(()),
        }
    }
}

fn body(f: &mut fmt::Formatter<'_>, whole: bool, target: &Target, object: &Value) -> fmt::Result {
    if !whole {
        return Ok(());
    }
    let mut shown = object.clone();
    if let Some(map) = shown.as_object_mut() {
        map.remove("apiVersion");
        map.remove("kind");
        if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["name", "namespace", "uid", "resourceVersion"] {
                metadata.remove(field);
            }
            if metadata.is_empty() {
                map.remove("metadata");
            }
        }
        if target.api_resource.kind == "Secret" {
            for field in ["data", "stringData"] {
                if let Some(data) = map.get_mut(field).and_then(Value::as_object_mut) {
                    data.values_mut().for_each(|it| *it = Value::String("...".to_owned()));
                }
            }
        }
    }
    write!(f, " {shown}")
}

/// `{}` names the steps, `{:#}` prints them whole. An empty page prints as `nothing to do`.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stages: Vec<_> = self.stages.iter().filter(|stage| !stage.is_empty()).collect();
        if stages.is_empty() {
            writeln!(f, "nothing to do")?;
        }
        for (number, stage) in stages.iter().enumerate() {
            if stages.len() > 1 {
                writeln!(f, "stage {}", number + 1)?;
            }
            for step in stage.iter() {
                if f.alternate() {
                    writeln!(f, "{step:#}")?;
                } else {
                    writeln!(f, "{step}")?;
                }
            }
        }
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        match self.again {
            Some(delay) => writeln!(f, "again in {delay:?}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
