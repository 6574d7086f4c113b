//! What to write for one manifest, by its update strategy. Pure: live object in, steps out.
//! Upstream: ocm pkg/work/spoke/apply. We differ in `Update`: there it is a PUT that resets what others set, and needs
//! a table of kinds to know what may be compared. Here it is a forced server-side apply, so that a field of another
//! hand stays, a field the manifest dropped goes, and the API server needs no table. The manager is upstream's,
//! `work-agent`, for all works; what other works ask of the same object is repeated, because it would be taken away
//! like what was dropped. `docs/decisions/0009-work-update-is-apply.md` and `0023-one-field-manager.md` tell what that
//! changes for whom.

use std::sync::Arc;

use ocm_api::{conditions, namespaces::WORK_FIELD_MANAGER, work::UpdateStrategyType};
use ocm_reconcile::{Propagation, Site, Step, Target, agreement};
use serde_json::{Map, Value, json};

use super::{
    config::Config,
    ignore,
    manifest::{Gvk, ObjectKey, Resource, metadata_mut},
    md5, ownership,
};

/// Who keeps the fields that an object cannot be without and no work asks for any more.
const KEPT_MANAGER: &str = "work-agent-kept";

/// What is known of an object on the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Live {
    /// Nobody looked yet.
    Unknown,
    Absent,
    Present(Arc<Value>),
}

impl Live {
    /// The object, if it is known to be there.
    pub fn object(&self) -> Option<&Value> {
        match self {
            Live::Present(object) => Some(object),
            _ => None,
        }
    }
}

/// What we wrote last, and what it became: the API server may write a value differently, and then only this tells that
/// nothing is left to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWrite {
    pub hash: String,
    pub resource_version: String,
}

/// How the last try in this run went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// The answer of the API server, when it said no.
    pub failure: Option<WriteFailure>,
    /// Whether it is written the plain way, whole: because the API server could not read the manifest as typed fields,
    /// or because the agent may not patch what it may create and update.
    pub plain: bool,
    /// How many writes failed.
    pub failures: u32,
}

/// An answer that was no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    pub code: Option<u16>,
    pub message: String,
}

/// Everything the steps for one manifest follow from.
pub struct ManifestToApply<'a> {
    pub manifest: &'a Value,
    pub resource: &'a Resource,
    pub key: &'a ObjectKey,
    pub config: &'a Config,
    /// Whether the object goes with the work.
    pub owned: bool,
    /// Name and uid of the AppliedManifestWork.
    pub trace: (&'a str, &'a str),
    /// The field manager that earlier releases had for this work.
    pub former: &'a str,
    /// What other works ask of the same object, where that is more than this one asks.
    pub others: &'a [Value],
    pub live: &'a Live,
    pub written: Option<&'a LastWrite>,
    pub tried: &'a Attempt,
}

/// What to do about one manifest.
#[derive(Clone, Debug, PartialEq)]
pub enum ApplyDecision {
    /// The object says what the work says.
    Agrees,
    /// One write; look again afterwards. The hash is what it will have been a write of.
    Write { step: Box<Step>, hash: String },
    /// It is made anew when the object that is there is gone.
    Wait(String),
    /// It cannot be applied, and why.
    Failed(String),
    /// The fields to ignore cannot be worked out.
    BadIgnoreFields(String),
}

/// Whether the object has to be known before it can be written. All others are written blindly: one round trip less.
pub fn must_look_first(config: &Config, gvk: &Gvk, manifest: &Value) -> bool {
    // Which of them are still wanted only the object tells.
    let has_finalizers = manifest["metadata"]["finalizers"].is_array();
    match config.update() {
        UpdateStrategyType::Update => has_finalizers || is_storage_class(gvk),
        UpdateStrategyType::CreateOnly => false,
        UpdateStrategyType::ReadOnly => true,
        UpdateStrategyType::ServerSideApply => {
            let settings = config.strategy.server_side_apply.as_ref();
            has_finalizers || settings.is_some_and(|it| !it.ignore_fields.is_empty())
        }
    }
}

/// Under which name the strategy applies.
pub fn manager(config: &Config) -> &str {
    let chosen = config
        .strategy
        .server_side_apply
        .as_ref()
        .map(|it| it.field_manager.as_str());
    match config.update() {
        UpdateStrategyType::ServerSideApply => chosen.filter(|it| !it.is_empty()).unwrap_or(WORK_FIELD_MANAGER),
        _ => WORK_FIELD_MANAGER,
    }
}

/// The field manager that earlier releases had for this work under strategy `Update`.
pub fn former_manager(hub_hash: &str, work: &str) -> String {
    let hub = hub_hash.get(..8).unwrap_or(hub_hash);
    let name = format!("{WORK_FIELD_MANAGER}/{hub}/{work}");
    // The API server takes at most 128 characters.
    if name.len() <= 128 {
        name
    } else {
        format!("{WORK_FIELD_MANAGER}/{}", md5::hex(name.as_bytes()))
    }
}

/// Where the object is, for a step.
pub fn target(key: &ObjectKey, kind: &str) -> Target {
    let ObjectKey {
        group,
        version,
        resource,
        namespace,
        name,
    } = key;
    Target {
        site: Site::Cluster,
        api_resource: kube::core::ApiResource {
            group: group.clone(),
            version: version.clone(),
            api_version: super::manifest::api_version(group, version),
            kind: kind.to_owned(),
            plural: resource.clone(),
        },
        namespace: (!namespace.is_empty()).then(|| namespace.clone()),
        name: name.clone(),
    }
}

/// Decides about one manifest.
pub fn decide(subject: &ManifestToApply<'_>) -> ApplyDecision {
    if subject.resource.namespaced && subject.key.namespace.is_empty() {
        return ApplyDecision::Failed("an empty namespace may not be set during creation".to_owned());
    }
    if let Some(failure) = subject.tried.failure.as_ref() {
        return start_over(subject, failure).unwrap_or_else(|| ApplyDecision::Failed(failure.message.clone()));
    }
    match subject.config.update() {
        UpdateStrategyType::ReadOnly => ApplyDecision::Agrees,
        UpdateStrategyType::CreateOnly => create_only(subject),
        UpdateStrategyType::ServerSideApply => server_side_apply(subject),
        UpdateStrategyType::Update => update(subject),
    }
}

fn update(subject: &ManifestToApply<'_>) -> ApplyDecision {
    let mut body = match body(subject) {
        Ok(body) => body,
        Err(why) => return ApplyDecision::Failed(why),
    };
    let is_guarded = respect_others(subject, &mut body, WORK_FIELD_MANAGER);
    let hash = hash(&body);
    if let Some(live) = subject.live.object() {
        if must_be_replaced(&subject.resource.gvk, live, &body) {
            return delete(subject, live, hash);
        }
        let written = subject.written.filter(|it| it.hash == hash);
        let unchanged = written.is_some_and(|it| is_at(live, &it.resource_version));
        // What was written the plain way carries no mark of ours; that we wrote exactly this before is as good.
        let applied = agreement::was_applied_by(live, WORK_FIELD_MANAGER)
            && !agreement::has_leftover(live, WORK_FIELD_MANAGER, &body);
        // So is what upstream's agent wrote before us: an upgrade writes into no object that a work has.
        let taken_over =
            !agreement::was_applied_by(live, WORK_FIELD_MANAGER) && agreement::was_updated_by(live, WORK_FIELD_MANAGER);
        if unchanged || (agreement::agrees(live, &body) && (applied || taken_over || written.is_some())) {
            if let Some(step) = remove_marked(subject, live).or_else(|| release_former(subject, live)) {
                return write(step, hash);
            }
            return own(subject, live, &hash);
        }
    }
    let target = target(subject.key, &subject.resource.gvk.kind);
    if subject.tried.plain {
        let step = match subject.live.object() {
            None => Step::Create { target, object: body },
            Some(live) => Step::Replace {
                target,
                subresource: None,
                object: laid_over(live, &body),
            },
        };
        return write(step, hash);
    }
    if is_guarded {
        guard(&mut body, subject.live);
    }
    write(
        Step::Apply {
            target,
            object: body,
            field_manager: WORK_FIELD_MANAGER.to_owned(),
            force: true,
        },
        hash,
    )
}

/// Makes a body that of an object which others have a part in. Whether it was made of what the object says, so that it
/// must not be written into another state of it.
fn respect_others(subject: &ManifestToApply<'_>, body: &mut Value, manager: &str) -> bool {
    let Some(live) = subject.live.object() else {
        return false;
    };
    // Finalizers are set when an object is made. One that is gone since was taken off by the controller that it is of,
    // and putting it back would be a fight with that.
    metadata_mut(body).remove("finalizers");
    let not_ours = ownership::not_of(live, subject.trace.1);
    let claims: Vec<&Value> = subject.others.iter().chain([&not_ours]).collect();
    agreement::keep(body, live, manager, &claims);
    let metadata = &body["metadata"];
    let owners = metadata["ownerReferences"].as_array().map_or(0, Vec::len);
    metadata["finalizers"].is_array() || owners > 1 || !subject.others.is_empty()
}

/// Has the API server refuse a write into another state of the object than the one that it was made of.
fn guard(body: &mut Value, live: &Live) {
    if let Some(live) = live.object() {
        metadata_mut(body).insert(
            "resourceVersion".to_owned(),
            live["metadata"]["resourceVersion"].clone(),
        );
    }
}

/// Gives up what an earlier release applied under a manager of the work's own. What `work-agent` has applied since
/// stays; what the manifest had dropped by then goes.
fn release_former(subject: &ManifestToApply<'_>, live: &Value) -> Option<Step> {
    agreement::was_applied_by(live, subject.former)
        .then(|| release(subject.key, live, subject.former, nothing_of(live)))
}

/// An apply that leaves of this manager's fields only those in `object`.
fn release(key: &ObjectKey, live: &Value, manager: &str, mut object: Value) -> Step {
    let metadata = metadata_mut(&mut object);
    for field in ["name", "namespace", "uid", "resourceVersion"] {
        if let Some(value) = live["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    Step::Apply {
        target: target(key, live["kind"].as_str().unwrap_or_default()),
        object,
        field_manager: manager.to_owned(),
        force: true,
    }
}

fn nothing_of(live: &Value) -> Value {
    json!({"apiVersion": live["apiVersion"], "kind": live["kind"]})
}

/// How a work lets go of an object that others have, too. What the API server refuses is tried in the next way: a work
/// can always be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Release {
    /// What nobody else asks for is taken back.
    #[default]
    Fields,
    /// The object would not be valid without it: it stays, under a manager of its own.
    Whole,
    /// Only the owner reference goes.
    Reference,
}

impl Release {
    /// What to try after a refusal.
    pub fn next(self) -> Self {
        match self {
            Self::Fields => Self::Whole,
            Self::Whole | Self::Reference => Self::Reference,
        }
    }
}

/// An object that a work lets go of and others have, too.
pub struct SharedObject<'a> {
    pub key: &'a ObjectKey,
    pub live: &'a Value,
    /// Name and uid of the AppliedManifestWork.
    pub trace: (&'a str, &'a str),
    /// The field managers of earlier releases and of today.
    pub managers: [&'a str; 2],
    pub others: &'a [Value],
}

/// What to write next into it. The owner reference goes together with what nobody else asks for.
pub fn let_go_of_shared(shared: &SharedObject<'_>, how: Release) -> Option<Step> {
    let SharedObject { key, live, .. } = *shared;
    let [former, manager] = shared.managers;
    let (name, uid) = shared.trace;
    if how == Release::Whole && !agreement::was_applied_by(live, KEPT_MANAGER) {
        let mut all = live.clone();
        metadata_mut(&mut all).remove("ownerReferences");
        let mut kept = nothing_of(live);
        agreement::keep(&mut kept, live, manager, &[&all]);
        return Some(release(key, live, KEPT_MANAGER, kept));
    }
    if how != Release::Reference {
        if agreement::was_applied_by(live, former) {
            return Some(release(key, live, former, nothing_of(live)));
        }
        let not_ours = ownership::not_of(live, uid);
        let claims: Vec<&Value> = shared.others.iter().chain([&not_ours]).collect();
        let mut kept = nothing_of(live);
        agreement::keep(&mut kept, live, manager, &claims);
        if agreement::has_leftover(live, manager, &kept) {
            return Some(release(key, live, manager, kept));
        }
    }
    let kind = live["kind"].as_str().unwrap_or_default();
    ownership::without_owner(live, name).map(|it| set_owners(key, kind, live, it))
}

/// What a work asks of an object, as far as it matters to another work: which fields, not how they are written.
pub fn claim(manifest: &Value, owner: Option<(&str, &str)>) -> Value {
    let mut claim = manifest.clone();
    let metadata = metadata_mut(&mut claim);
    metadata.remove("ownerReferences");
    if let Some((name, uid)) = owner {
        metadata.insert("ownerReferences".to_owned(), json!([ownership::reference(name, uid)]));
    }
    if claim["kind"] == "Secret" {
        // Where it cannot be folded it is not applied either.
        fold_string_data(&mut claim).ok();
    }
    claim
}

/// Whether an object has more of the agent's fields than this one manifest asks for: others asked for them, or it did
/// before.
pub fn has_more(live: &Value, config: &Config, trace_uid: &str, manifest: &Value) -> bool {
    let not_ours = ownership::not_of(live, trace_uid);
    let claims = [&claim(manifest, Some(("", trace_uid))), &not_ours];
    agreement::is_unclaimed(live, manager(config), &claims)
}

fn create_only(subject: &ManifestToApply<'_>) -> ApplyDecision {
    match (subject.live.object(), body(subject)) {
        (Some(live), _) => own(subject, live, ""),
        (None, Err(why)) => ApplyDecision::Failed(why),
        (None, Ok(body)) => {
            let hash = hash(&body);
            write(
                Step::Create {
                    target: target(subject.key, &subject.resource.gvk.kind),
                    object: body,
                },
                hash,
            )
        }
    }
}

fn server_side_apply(subject: &ManifestToApply<'_>) -> ApplyDecision {
    let settings = subject.config.strategy.server_side_apply.clone().unwrap_or_default();
    let manager = manager(subject.config);
    let mut manifest = addressed(subject);
    let target = target(subject.key, &subject.resource.gvk.kind);
    let apply = |object: Value, hash: String| {
        let step = Step::Apply {
            target: target.clone(),
            object,
            field_manager: manager.to_owned(),
            force: settings.force,
        };
        write(step, hash)
    };
    let live = subject.live.object();
    if !settings.ignore_fields.is_empty() {
        let ignoring = match ignore::ignoring(&manifest, &settings.ignore_fields) {
            Ok(ignoring) => ignoring,
            Err(why) => return ApplyDecision::BadIgnoreFields(why),
        };
        return match live {
            None => apply(ignoring.whole, ignoring.hash),
            Some(live) if ignore::carries(live, &ignoring.hash) => own(subject, live, &ignoring.hash),
            Some(_) => {
                let mut reduced = ignoring.reduced;
                respect_others(subject, &mut reduced, manager);
                apply(reduced, ignoring.hash)
            }
        };
    }
    respect_others(subject, &mut manifest, manager);
    let hash = hash(&json!([manager, settings.force, manifest]));
    if let Some(live) = live {
        let written = subject
            .written
            .is_some_and(|it| it.hash == hash && is_at(live, &it.resource_version));
        let agrees = agreement::agrees(live, &manifest)
            && agreement::was_applied_by(live, manager)
            && !agreement::has_leftover(live, manager, &manifest);
        if written || agrees {
            return own(subject, live, &hash);
        }
    }
    apply(manifest, hash)
}

/// Puts our owner reference on an object, or takes it off, where the write itself did not.
fn own(subject: &ManifestToApply<'_>, live: &Value, hash: &str) -> ApplyDecision {
    let (name, uid) = subject.trace;
    let references = if subject.owned {
        ownership::with_owner(live, name, uid)
    } else {
        ownership::without_owner(live, name)
    };
    match references {
        None => ApplyDecision::Agrees,
        Some(references) => write(
            set_owners(subject.key, &subject.resource.gvk.kind, live, references),
            hash.to_owned(),
        ),
    }
}

/// Writes the list of owner references, guarded because a list is always written whole.
pub fn set_owners(key: &ObjectKey, kind: &str, live: &Value, references: Vec<Value>) -> Step {
    let metadata = &live["metadata"];
    Step::MergePatch {
        target: target(key, kind),
        subresource: None,
        patch: json!({"metadata": {
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "ownerReferences": references,
        }}),
    }
}

/// Removes labels and annotations that the manifest marks with a trailing dash.
fn remove_marked(subject: &ManifestToApply<'_>, live: &Value) -> Option<Step> {
    let mut metadata = Map::new();
    for part in ["labels", "annotations"] {
        let marked = subject.manifest["metadata"][part].as_object().into_iter().flatten();
        let gone: Map<String, Value> = marked
            .filter_map(|(key, _)| key.strip_suffix('-'))
            .filter(|key| live["metadata"][part].get(key).is_some())
            .map(|key| (key.to_owned(), Value::Null))
            .collect();
        if !gone.is_empty() {
            metadata.insert(part.to_owned(), Value::Object(gone));
        }
    }
    (!metadata.is_empty()).then(|| Step::MergePatch {
        target: target(subject.key, &subject.resource.gvk.kind),
        subresource: None,
        patch: json!({"metadata": metadata}),
    })
}

/// What `Update` and `CreateOnly` write: the manifest with exactly our owner reference, and with the corrections that
/// some kinds need.
fn body(subject: &ManifestToApply<'_>) -> Result<Value, String> {
    let mut body = addressed(subject);
    let metadata = metadata_mut(&mut body);
    metadata.remove("ownerReferences");
    if subject.owned {
        let (name, uid) = subject.trace;
        metadata.insert("ownerReferences".to_owned(), json!([ownership::reference(name, uid)]));
    }
    for part in ["labels", "annotations"] {
        if let Some(entries) = metadata.get_mut(part).and_then(Value::as_object_mut) {
            entries.retain(|key, _| !key.ends_with('-'));
        }
    }
    let gvk = &subject.resource.gvk;
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Secret") => fold_string_data(&mut body)?,
        _ if is_storage_class(gvk) => keep_default_class(&mut body, subject.live.object()),
        // The API server fills in the rules of an aggregated role; ours would only fight with it.
        ("rbac.authorization.k8s.io", "ClusterRole") if !body["aggregationRule"].is_null() => {
            body.as_object_mut().map(|it| it.remove("rules"));
        }
        _ => {}
    }
    Ok(body)
}

/// The manifest where it belongs: an object of a kind without namespaces has none.
fn addressed(subject: &ManifestToApply<'_>) -> Value {
    let mut manifest = subject.manifest.clone();
    if !subject.resource.namespaced {
        metadata_mut(&mut manifest).remove("namespace");
    }
    manifest
}

/// Server-side apply insists on the schema where a plain write is forgiving: fields that this version of Kubernetes
/// does not know, or two list items under one key. A work that a Go agent can apply must not fail here.
pub fn is_untyped(message: &str) -> bool {
    [
        "failed to create typed patch object",
        "field not declared in schema",
        "duplicate entries for key",
    ]
    .iter()
    .any(|it| message.contains(it))
}

fn is_storage_class(gvk: &Gvk) -> bool {
    gvk.group == "storage.k8s.io" && gvk.kind == "StorageClass"
}

/// Which class is the default is for the cluster to say once the class is there. Its word is repeated rather than left
/// out: what an apply leaves out and had set before is removed.
fn keep_default_class(body: &mut Value, live: Option<&Value>) {
    const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
    let said = live.and_then(|it| it["metadata"]["annotations"].get(DEFAULT));
    if let (Some(said), Some(wanted)) = (said, body["metadata"]["annotations"].get_mut(DEFAULT)) {
        *wanted = said.clone();
    }
}

/// A Secret's `stringData` becomes `data` here, so that what was applied can be compared with what is there.
fn fold_string_data(body: &mut Value) -> Result<(), String> {
    let Some(fields) = body.as_object_mut() else {
        return Ok(());
    };
    let Some(Value::Object(texts)) = fields.remove("stringData") else {
        return Ok(());
    };
    let data = fields.entry("data").or_insert_with(|| json!({}));
    let Some(data) = data.as_object_mut() else {
        return Err("data of a Secret must be a map".to_owned());
    };
    for (key, text) in texts {
        let Some(text) = text.as_str() else {
            return Err(format!("stringData.{key} of a Secret must be a text"));
        };
        let encoded = Value::String(base64(text.as_bytes()));
        if data.get(&key).is_some_and(|it| *it != encoded) {
            return Err(format!(
                "Secret has both data.{key} and stringData.{key}, and they differ"
            ));
        }
        data.insert(key, encoded);
    }
    Ok(())
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .enumerate()
            .fold(0u32, |word, (at, byte)| word | u32::from(*byte) << (16 - 8 * at));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// Some fields can only be changed by making the object anew; upstream does so for these kinds.
fn must_be_replaced(gvk: &Gvk, live: &Value, body: &Value) -> bool {
    let differs =
        |field: &str| !body[field].is_null() && !live[field].is_null() && !agreement::says(&live[field], &body[field]);
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Secret") => {
            let kind = |it: &Value| match it["type"].as_str() {
                None | Some("") => "Opaque".to_owned(),
                Some(kind) => kind.to_owned(),
            };
            kind(live) != kind(body)
        }
        ("storage.k8s.io", "StorageClass") => {
            // A parameter that is no longer wanted cannot be taken away either.
            let parameters = |it: &Value| it["parameters"].as_object().cloned().unwrap_or_default();
            parameters(live) != parameters(body)
                || ["provisioner", "reclaimPolicy", "volumeBindingMode"]
                    .into_iter()
                    .any(differs)
        }
        ("storage.k8s.io", "CSIDriver") => differs("spec"),
        _ => false,
    }
}

/// After a refusal that only a new object can get around: delete it, so that the next look creates it.
fn start_over(subject: &ManifestToApply<'_>, failure: &WriteFailure) -> Option<ApplyDecision> {
    let live = subject.live.object()?;
    let gvk = &subject.resource.gvk;
    let replaceable = matches!(
        (gvk.group.as_str(), gvk.kind.as_str()),
        ("", "Secret") | ("storage.k8s.io", "StorageClass") | ("storage.k8s.io", "CSIDriver")
    );
    let immutable = failure.message.contains("field is immutable");
    (subject.config.update() == UpdateStrategyType::Update && replaceable && immutable && subject.tried.failures < 2)
        .then(|| delete(subject, live, String::new()))
}

/// Deletes an object that has to be made anew, once: its finalizers may keep it for a while.
fn delete(subject: &ManifestToApply<'_>, live: &Value, hash: String) -> ApplyDecision {
    if !live["metadata"]["deletionTimestamp"].is_null() {
        return ApplyDecision::Wait(format!(
            "{} has to be made anew and waits for its finalizers",
            subject.key
        ));
    }
    let step = Step::Delete {
        target: target(subject.key, &subject.resource.gvk.kind),
        uid: live["metadata"]["uid"].as_str().map(str::to_owned),
        propagation: Some(Propagation::Background),
    };
    write(step, hash)
}

/// The plain way: the object as it is with the manifest laid over it. Maps are merged, lists are replaced.
fn laid_over(live: &Value, body: &Value) -> Value {
    let mut next = live.clone();
    lay_over(&mut next, body);
    if let Some(owners) = body["metadata"]["ownerReferences"].as_array() {
        let mut all: Vec<Value> = live["metadata"]["ownerReferences"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        all.retain(|it| {
            !owners
                .iter()
                .any(|ours| ours["name"] == it["name"] && ours["kind"] == it["kind"])
        });
        all.extend(owners.iter().cloned());
        next["metadata"]["ownerReferences"] = Value::Array(all);
    }
    if let Some(metadata) = next["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    next
}

fn lay_over(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                match base.get_mut(key) {
                    Some(present) => lay_over(present, value),
                    None => {
                        base.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (base, over) => *base = over.clone(),
    }
}

fn write(step: Step, hash: String) -> ApplyDecision {
    ApplyDecision::Write {
        step: Box::new(step),
        hash,
    }
}

fn is_at(live: &Value, resource_version: &str) -> bool {
    live["metadata"]["resourceVersion"] == resource_version
}

/// Tells one wanted state from another; serde_json's maps are sorted, so equal values have equal texts.
fn hash(value: &Value) -> String {
    md5::hex(value.to_string().as_bytes())
}

/// Whether the work says it is done with this manifest for good.
pub fn is_complete(conditions: &[ocm_api::Condition]) -> bool {
    ocm_api::condition::is_true(conditions, conditions::manifest_work::COMPLETE)
}

#[cfg(test)]
#[path = "strategy_tests.rs"]
mod tests;
