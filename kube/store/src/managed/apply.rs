//! Server-side apply: merge, prune by ownership, conflicts.

use super::{
    Ctx, FieldSet,
    compare::compare,
    entry::{self, ManagerEntry, Operation},
    merge::merge_maps,
    typed::{At, field_set, validate},
    update::{attribute, managed_fields, write_managed_fields},
    versions::{Differences, prune_owned},
};
use crate::status::Status;
use serde_json::{Map, Value, json};

/// The manager name under which existing content is recorded when an untracked object is first applied to.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The one manager whose applies take over from client-side apply.
const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const ANNOTATION_BYTES_MAX: usize = 256 * 1024;

/// Applies `config` for the manager and gives the resulting object, with its `managedFields`.
///
/// `live` is `None` when the apply creates the object. When nothing changes the result is `live` itself, so that
/// [`no_op`](super::no_op) holds and the resource version can stay. Decoding and defaulting the result is the caller's,
/// and so is resetting, in an object that is made, what makers may not say (`ctx.reset_fields` goes by updates: the
/// `spec` of a CertificateSigningRequest stays as it was made, but it is made with one).
pub fn apply(live: Option<&Value>, config: &Value, ctx: &Ctx<'_>, force: bool) -> Result<Value, Status> {
    if managed_fields(config).is_some_and(|it| !it.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    let errors = validate(config, At::Root(ctx.schema));
    if !errors.is_empty() {
        return Err(not_typed(config, &errors));
    }
    let stripped = without_resets(config, ctx.reset_fields);
    let effective = stripped.as_ref().unwrap_or(config);
    let stored = live.and_then(managed_fields);
    let mut entries = entry::stored(stored);
    if let Some(live) = live
        && entries.is_empty()
    {
        attribute(&mut entries, &Value::Object(Map::new()), live, ctx, BEFORE_FIRST_APPLY);
    }
    let attempt = Attempt {
        live,
        config: effective,
        whole: config,
        ctx,
    };
    let takes_over = ctx.manager == KUBECTL && !force;
    let kept = if takes_over { Some(entries.clone()) } else { None };
    let mut result = match (attempt.run(entries, force), kept) {
        (Ok(result), _) => result,
        (Err(conflicts), Some(entries)) => {
            let allowed = live.map(|live| client_side_applied(live, ctx)).unwrap_or_default();
            let rest = conflicts.without(&allowed);
            if !rest.is_empty() {
                return Err(rest.status());
            }
            attempt.run(entries, true).map_err(|it| it.status())?
        }
        (Err(conflicts), None) => return Err(conflicts.status()),
    };
    if ctx.manager == KUBECTL {
        renew_last_applied(&mut result, config);
    }
    Ok(result)
}

struct Attempt<'a> {
    live: Option<&'a Value>,
    /// Without what is reset.
    config: &'a Value,
    whole: &'a Value,
    ctx: &'a Ctx<'a>,
}

impl Attempt<'_> {
    fn run(&self, mut entries: Vec<ManagerEntry<'_>>, force: bool) -> Result<Value, Conflicts> {
        let ctx = self.ctx;
        let manager = if ctx.manager.is_empty() { "unknown" } else { ctx.manager };
        let set = field_set(self.config, ctx.schema);
        let Some(live) = self.live else {
            let mut result = Value::Object(Map::new());
            if let (Value::Object(result), Some(config)) = (&mut result, self.whole.as_object()) {
                merge_root(result, config, ctx);
            }
            let mut own = ManagerEntry::new(manager, Operation::Apply, ctx.api_version, ctx.subresource, set);
            own.set_time(&ctx.time());
            let entries = if own.is_empty() { Vec::new() } else { vec![own] };
            write_managed_fields(&mut result, entry::encode(entries));
            return Ok(result);
        };
        let is_own = |it: &ManagerEntry<'_>| it.is(manager, Operation::Apply, ctx.api_version, ctx.subresource);
        let own = match entries.iter().position(is_own) {
            Some(own) => own,
            None => {
                entries.push(ManagerEntry::new(
                    manager,
                    Operation::Apply,
                    ctx.api_version,
                    ctx.subresource,
                    FieldSet::default(),
                ));
                entries.len() - 1
            }
        };
        let last_version = entries[own].api_version.clone();
        let mut owners_changed = last_version != ctx.api_version;
        entries[own].api_version = ctx.api_version.to_owned();
        let last = entries[own].replace_set(set);
        owners_changed |= last.is_some();

        let mut merged = without_managed_fields(live);
        if let (Value::Object(merged), Some(config)) = (&mut merged, self.config.as_object()) {
            merge_root(merged, config, ctx);
        }
        if let Some(last) = last
            && !last.difference(entries[own].set()).is_empty()
        {
            prune_owned(&mut merged, &entries, (&last, &last_version), ctx);
        }

        let found = Differences::find(&entries, live, &merged, ctx);
        let content_changed = !found.own().is_same();
        if content_changed {
            let is_served =
                |it: &ManagerEntry<'_>| ctx.served.is_empty() || ctx.served.contains(&it.api_version.as_str());
            if !force {
                let conflicts = Conflicts::find(&entries, own, &found, is_served);
                if !conflicts.is_empty() {
                    return Err(conflicts);
                }
            }
            owners_changed |= found.take_away(&mut entries, Some(own));
            entries[own].set_time(&ctx.time());
            let mut at = 0;
            entries.retain(|it| {
                at += 1;
                at - 1 == own || is_served(it)
            });
        }
        entries.retain(|it| !it.is_empty());
        entry::cap(&mut entries);
        match (content_changed, owners_changed) {
            (false, false) => Ok(live.clone()),
            // The order of keyed lists is no change worth a write, so the live content stays as it is.
            (false, true) => {
                let mut result = without_managed_fields(live);
                write_managed_fields(&mut result, entry::encode(entries));
                Ok(result)
            }
            (true, _) => {
                write_managed_fields(&mut merged, entry::encode(entries));
                Ok(merged)
            }
        }
    }
}

fn merge_root(target: &mut Map<String, Value>, config: &Map<String, Value>, ctx: &Ctx<'_>) {
    merge_maps(target, config, At::Root(ctx.schema));
    // A new `metadata` is copied whole, so what the server sets is taken out here.
    if let Some(metadata) = target.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, value| {
            !(value.is_null() && matches!(key.as_str(), "creationTimestamp" | "managedFields" | "selfLink"))
        });
    }
}

/// A copy of the object; its entries, often half of its size, are not copied only to be replaced.
fn without_managed_fields(object: &Value) -> Value {
    let Some(object) = object.as_object() else {
        return object.clone();
    };
    let copy = object.iter().map(|(key, value)| match (key.as_str(), value) {
        ("metadata", Value::Object(metadata)) => {
            let metadata = metadata.iter().filter(|(key, _)| *key != "managedFields");
            (
                key.clone(),
                Value::Object(metadata.map(|(key, value)| (key.clone(), value.clone())).collect()),
            )
        }
        _ => (key.clone(), value.clone()),
    });
    Value::Object(copy.collect())
}

/// The configuration without what this endpoint resets; `None` if it has none of that.
fn without_resets(config: &Value, resets: &[&[&str]]) -> Option<Value> {
    let has = |path: &[&str]| path.iter().try_fold(config, |it, key| it.get(key)).is_some();
    if !resets.iter().any(|path| has(path)) {
        return None;
    }
    let mut config = config.clone();
    for path in resets {
        let Some((last, parents)) = path.split_last() else {
            continue;
        };
        let parent = parents.iter().try_fold(&mut config, |it, key| it.get_mut(key));
        if let Some(parent) = parent.and_then(Value::as_object_mut) {
            parent.remove(*last);
        }
    }
    Some(config)
}

/// What is applied, and the version and kind it is of.
fn subject(config: &Value) -> (String, String) {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = |name: &str| text(config.get("metadata").and_then(|it| it.get(name)));
    let version = text(config.get("apiVersion"));
    let kind = text(config.get("kind"));
    let of = if version.contains('/') {
        format!("{version}, Kind={kind}")
    } else {
        format!("/{version}, Kind={kind}")
    };
    (format!("({}/{}; {of})", metadata("namespace"), metadata("name")), of)
}

fn not_typed(config: &Value, errors: &[String]) -> Status {
    let error = match errors {
        [error] => error.clone(),
        errors => format!(
            "errors:\n{}",
            errors.iter().map(|it| format!("  {it}")).collect::<Vec<_>>().join("\n")
        ),
    };
    let (subject, _) = subject(config);
    Status::new(
        500,
        "",
        format!("failed to create typed patch object {subject}: {error}"),
    )
}

/// The status of an applied configuration whose fields have the types of the schema, and whose values cannot be read.
pub fn not_read(config: &Value, error: &str) -> Status {
    let (subject, of) = subject(config);
    let message = format!(
        "failed to convert new object {subject} to proper version: unable to convert unstructured object to {of}: {error}"
    );
    Status::new(500, "", message)
}

/// Fields of others that an apply would change: per manager, its title and the paths.
struct Conflicts(Vec<(String, FieldSet)>);

impl Conflicts {
    fn find(
        entries: &[ManagerEntry<'_>],
        own: usize,
        found: &Differences,
        is_served: impl Fn(&ManagerEntry<'_>) -> bool,
    ) -> Self {
        let others = entries
            .iter()
            .enumerate()
            .filter(|(at, it)| *at != own && is_served(it));
        let mut conflicts: Vec<_> = others
            .map(|(_, it)| (it, it.set().intersection(&found.of(&it.api_version).changed)))
            .filter(|(_, set)| !set.is_empty())
            .collect();
        conflicts.sort_by(|(left, _), (right, _)| {
            let order = |it: &ManagerEntry<'_>| (it.operation, it.api_version.clone(), it.subresource.clone());
            left.manager
                .cmp(&right.manager)
                .then_with(|| order(left).cmp(&order(right)))
        });
        Self(conflicts.into_iter().map(|(entry, set)| (entry.title(), set)).collect())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn without(&self, allowed: &FieldSet) -> Self {
        let rest = self
            .0
            .iter()
            .map(|(title, set)| (title.clone(), set.difference(allowed)));
        Self(rest.filter(|(_, set)| !set.is_empty()).collect())
    }

    fn status(&self) -> Status {
        let paths: Vec<(&str, Vec<String>)> = self
            .0
            .iter()
            .map(|(title, set)| (title.as_str(), set.paths()))
            .collect();
        let count: usize = paths.iter().map(|(_, paths)| paths.len()).sum();
        let causes: Vec<Value> = paths
            .iter()
            .flat_map(|(title, paths)| {
                paths.iter().map(move |path| json!({"reason": "FieldManagerConflict", "message": format!("conflict with {title}"), "field": path}))
            })
            .collect();
        let message = match paths.as_slice() {
            [(title, paths)] if count == 1 => {
                format!("Apply failed with 1 conflict: conflict with {title}: {}", paths[0])
            }
            paths => {
                let mut lines = Vec::new();
                for (title, paths) in paths {
                    lines.push(format!("conflicts with {title}:"));
                    lines.extend(paths.iter().map(|path| format!("- {path}")));
                }
                format!("Apply failed with {count} conflicts: {}", lines.join("\n"))
            }
        };
        Status {
            details: Some(Box::new(json!({"causes": causes}))),
            ..Status::new(409, "Conflict", message)
        }
    }
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(name)?.as_str()
}

/// The fields whose live value is still what kubectl last applied from the client side.
fn client_side_applied(live: &Value, ctx: &Ctx<'_>) -> FieldSet {
    let last: Option<Value> = annotation(live, LAST_APPLIED).and_then(|text| serde_json::from_str(text).ok());
    let Some(last) = last.filter(Value::is_object) else {
        return FieldSet::default();
    };
    let found = compare(&last, live, ctx.schema, ctx.built_in, &[]);
    field_set(&last, ctx.schema)
        .difference(&found.changed)
        .difference(&found.removed)
}

/// Keeps the client-side annotation in step, so that a later `kubectl apply` without `--server-side` starts from here.
fn renew_last_applied(result: &mut Value, config: &Value) {
    if annotation(result, LAST_APPLIED).is_none_or(str::is_empty) {
        return;
    }
    let mut applied = config.clone();
    if let Some(annotations) = applied
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(LAST_APPLIED);
    }
    let Some(annotations) = result
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    annotations.insert(LAST_APPLIED.to_owned(), format!("{applied}\n").into());
    let bytes: usize = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if bytes > ANNOTATION_BYTES_MAX {
        annotations.remove(LAST_APPLIED);
    }
}

/// What applying a `Scale` means for its parent: a configuration of the parent that sets nothing but the replicas.
///
/// The caller applies it with the subresource `scale` and the parent's `apiVersion`. `path` is the parent's replicas
/// path, such as `.spec.replicas`.
pub fn scale_config(parent: &Value, scale: &Value, path: &str) -> Value {
    let mut config = json!({"metadata": {}});
    for key in ["apiVersion", "kind"] {
        config[key] = parent[key].clone();
    }
    for key in ["name", "namespace", "resourceVersion", "uid"] {
        let from = if matches!(key, "resourceVersion" | "uid") {
            scale
        } else {
            parent
        };
        if let Some(value) = from.get("metadata").and_then(|it| it.get(key)) {
            config["metadata"][key] = value.clone();
        }
    }
    if let Some(replicas) = scale.get("spec").and_then(|it| it.get("replicas")) {
        let target = path
            .trim_start_matches('.')
            .split('.')
            .fold(&mut config, |it, key| &mut it[key]);
        *target = replicas.clone();
    }
    config
}
