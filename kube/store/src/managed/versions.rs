//! Field ownership across versions of a kind whose structures differ.

use super::{Comparison, Ctx, FieldSet, entry::ManagerEntry, merge::prune, typed::At, update::differences};
use crate::schema::Schema;
use serde_json::Value;
use std::{fmt::Debug, sync::Arc};

/// The versions of a kind.
pub trait Versions: Debug {
    /// The schema of a served version, named `group/version`.
    fn schema(&self, api_version: &str) -> Option<Arc<Schema>>;

    /// Turns an object into a version.
    fn convert(&self, object: &mut Value, api_version: &str);
}

/// What differs between two objects, in the fields of each version that a manager speaks.
pub(crate) struct Differences {
    own: Comparison,
    others: Vec<(String, Comparison)>,
}

impl Differences {
    /// Compares in the version of the request, and in those of the entries.
    pub(crate) fn find(entries: &[ManagerEntry<'_>], old: &Value, new: &Value, ctx: &Ctx<'_>) -> Self {
        let own = differences(old, new, ctx);
        let mut others: Vec<(String, Comparison)> = Vec::new();
        if let Some(versions) = ctx.versions
            && !own.is_same()
        {
            for entry in entries.iter().filter(|it| it.api_version != ctx.api_version) {
                if others.iter().any(|(it, _)| *it == entry.api_version) {
                    continue;
                }
                let Some(schema) = versions.schema(&entry.api_version) else {
                    continue;
                };
                let ctx = Ctx {
                    schema: &schema,
                    ..*ctx
                };
                let (old, new) = (
                    converted(old, &entry.api_version, versions),
                    converted(new, &entry.api_version, versions),
                );
                others.push((entry.api_version.clone(), differences(&old, &new, &ctx)));
            }
        }
        Self { own, others }
    }

    /// What differs in the version of the request.
    pub(crate) fn own(&self) -> &Comparison {
        &self.own
    }

    /// What differs in a version; that of the request where the structures are the same.
    pub(crate) fn of(&self, api_version: &str) -> &Comparison {
        let other = self.others.iter().find(|(it, _)| it == api_version);
        other.map_or(&self.own, |(_, it)| it)
    }

    /// Takes what differs from every entry but the one at `except`; says whether any lost something.
    pub(crate) fn take_away(&self, entries: &mut [ManagerEntry<'_>], except: Option<usize>) -> bool {
        let mut lost = false;
        for (at, it) in entries.iter_mut().enumerate() {
            if Some(at) == except {
                continue;
            }
            let found = self.of(&it.api_version);
            for paths in [&found.changed, &found.removed] {
                if !paths.is_empty() && it.set().intersects(paths) {
                    let rest = it.set().difference(paths);
                    lost |= it.replace_set(rest).is_some();
                }
            }
        }
        lost
    }
}

fn converted(object: &Value, api_version: &str, versions: &dyn Versions) -> Value {
    let mut object = object.clone();
    // An object that does not exist has no version.
    if object.get("apiVersion").is_some() {
        versions.convert(&mut object, api_version);
    }
    object
}

fn owned(entries: &[ManagerEntry<'_>], wanted: impl Fn(&ManagerEntry<'_>) -> bool) -> FieldSet {
    let wanted = entries.iter().filter(|it| wanted(it));
    wanted.fold(FieldSet::default(), |owned, it| owned.union(it.set()))
}

/// Takes out of `merged` what is in `last`, the fields that the manager owned in version `last_version`,
/// and that nobody owns now.
pub(crate) fn prune_owned(
    merged: &mut Value,
    entries: &[ManagerEntry<'_>],
    (last, last_version): (&FieldSet, &str),
    ctx: &Ctx<'_>,
) {
    let keeps_empty = !ctx.built_in;
    let mixed = last_version != ctx.api_version || entries.iter().any(|it| it.api_version != ctx.api_version);
    let Some((versions, last_schema)) = ctx
        .versions
        .filter(|_| mixed)
        .and_then(|it| Some((it, it.schema(last_version)?)))
    else {
        let owned = owned(entries, |_| true);
        prune(merged, At::Root(ctx.schema), last, &owned, keeps_empty);
        return;
    };
    let mut pruned = converted(merged, last_version, versions);
    let still = owned(entries, |it| it.api_version == last_version);
    prune(&mut pruned, At::Root(&last_schema), last, &still, keeps_empty);
    // What a manager of another version owns comes back, in that version's fields.
    let mut seen = vec![last_version];
    for entry in entries {
        if seen.contains(&entry.api_version.as_str()) {
            continue;
        }
        seen.push(&entry.api_version);
        let Some(schema) = versions.schema(&entry.api_version) else {
            continue;
        };
        let mut before = converted(merged, &entry.api_version, versions);
        let after = converted(&pruned, &entry.api_version, versions);
        let gone = super::compare(&before, &after, &schema, ctx.built_in, &[]).removed;
        let theirs = owned(entries, |it| it.api_version == entry.api_version);
        if gone.intersects(&theirs) {
            prune(&mut before, At::Root(&schema), &gone, &theirs, keeps_empty);
            pruned = before;
            versions.convert(&mut pruned, last_version);
        }
    }
    versions.convert(&mut pruned, ctx.api_version);
    *merged = pruned;
}
