//! The templates that a ManifestWorkReplicaSet had: the one its works have now, and the one before, to go back to.
//!
//! They are kept as Kubernetes keeps those of a DaemonSet: ControllerRevisions that belong to the set, numbered in the
//! order in which the works were told. What is told again gets the next number, so that "the template before" is always
//! the newest one that differs from what the set says, also after having gone back.

use std::{
    borrow::Cow,
    sync::{Arc, Once},
};

use k8s_openapi::{
    api::apps::v1::ControllerRevision,
    apimachinery::pkg::{
        apis::meta::v1::{ObjectMeta, OwnerReference},
        runtime::RawExtension,
    },
};
use kube::{ResourceExt, runtime::watcher};
use ocm_api::{
    annotations, labels,
    work::{ManifestWorkReplicaSet, ManifestWorkSpec},
};
use ocm_reconcile::{Cache, Caches, Plan, Site, cache::Watching};
use tracing::warn;

use super::{fingerprint::Fingerprint, names};

/// How many templates are kept.
const KEPT: usize = 2;

/// The templates that sets had. Upstream's role for this part knows nothing of them; all but going back works without.
pub fn watch(caches: &Caches) -> Cache<ControllerRevision> {
    caches.watching(Watching {
        selection: watcher::Config::default().labels(labels::MANIFEST_WORK_REPLICA_SET),
        forbidden_at_first: true,
        ..Watching::default()
    })
}

/// Says once that nobody may look at them.
pub fn tell_that_none_are_kept() {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        warn!(
            "there is no right to list ControllerRevisions, so the templates that sets had are not kept and roll-back \
             is held up; list, watch, create, patch and delete are wanted"
        );
    });
}

/// What the works of a set shall say.
#[derive(Clone, Debug)]
pub struct Template<'s> {
    /// What they shall say.
    pub spec: Cow<'s, ManifestWorkSpec>,
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// Which of the set's templates it is.
    pub is: TemplateInUse,
}

/// Which of the set's templates the works have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateInUse {
    /// What the set says.
    Present,
    /// What it said before, as an annotation wants it.
    Before(i64),
    /// What the set says, although an annotation wants what it said before: nobody knows that.
    Unknown,
    /// The same, because the hub has no right to keep what sets said before.
    Unkept,
}

/// What the works of a set shall say. There are no revisions at all where the hub may not look at them.
pub fn template<'s>(set: &'s ManifestWorkReplicaSet, revisions: Option<&[Arc<ControllerRevision>]>) -> Template<'s> {
    let spec = &set.spec.manifest_work_template;
    let mut template = Template {
        spec: Cow::Borrowed(spec),
        fingerprint: Fingerprint::of(spec),
        is: TemplateInUse::Present,
    };
    if !names::says(set, annotations::ROLL_BACK) {
        return template;
    }
    let Some(revisions) = revisions else {
        template.is = TemplateInUse::Unkept;
        return template;
    };
    template.is = TemplateInUse::Unknown;
    let present = name(set, template.fingerprint);
    for before in of(set, revisions).into_iter().filter(|it| it.name_any() != present) {
        if let Ok(spec) = serde_json::from_value::<ManifestWorkSpec>(before.data.0.clone()) {
            template.fingerprint = Fingerprint::of(&spec);
            template.spec = Cow::Owned(spec);
            template.is = TemplateInUse::Before(number(before));
            break;
        }
    }
    template
}

/// Writes down that the works are told this, and forgets what was long before.
pub fn record(
    plan: &mut Plan,
    set: &ManifestWorkReplicaSet,
    template: &Template<'_>,
    revisions: &[Arc<ControllerRevision>],
) {
    let known = of(set, revisions);
    let name = name(set, template.fingerprint);
    let newest = known.first().map_or(0, |it| number(it));
    if known.first().is_some_and(|it| it.name_any() == name) {
        known.iter().skip(KEPT).for_each(|it| {
            plan.delete(Site::Hub, *it);
        });
        return;
    }
    match known.iter().find(|it| it.name_any() == name) {
        Some(again) => {
            let mut numbered = (**again).clone();
            numbered.revision = Some(newest + 1);
            plan.change(Site::Hub, *again, &numbered);
        }
        None => {
            plan.create(Site::Hub, &revision(set, template, name.clone(), newest + 1));
        }
    }
    for old in known.iter().filter(|it| it.name_any() != name).skip(KEPT - 1) {
        plan.delete(Site::Hub, *old);
    }
}

/// Those that are of this set and no other, the newest first.
pub fn of<'r>(set: &ManifestWorkReplicaSet, revisions: &'r [Arc<ControllerRevision>]) -> Vec<&'r ControllerRevision> {
    let mut own: Vec<&ControllerRevision> = revisions
        .iter()
        .map(|it| &**it)
        .filter(|it| it.metadata.deletion_timestamp.is_none())
        .filter(|it| {
            let mut owners = it.owner_references().iter();
            owners.any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
        })
        .collect();
    own.sort_by_key(|it| std::cmp::Reverse(number(it)));
    own
}

fn number(revision: &ControllerRevision) -> i64 {
    revision.revision.unwrap_or_default()
}

fn name(set: &ManifestWorkReplicaSet, fingerprint: Fingerprint) -> String {
    format!("{}-{fingerprint}", set.name_any())
}

fn revision(set: &ManifestWorkReplicaSet, template: &Template<'_>, name: String, number: i64) -> ControllerRevision {
    let spec = serde_json::to_value(&template.spec).expect("a spec serializes: its keys are strings");
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: set.namespace(),
            labels: Some([(labels::MANIFEST_WORK_REPLICA_SET.to_owned(), names::label_value(set))].into()),
            owner_references: Some(vec![OwnerReference {
                api_version: ManifestWorkReplicaSet::API_VERSION.to_owned(),
                kind: ManifestWorkReplicaSet::KIND.to_owned(),
                name: set.name_any(),
                uid: set.uid().unwrap_or_default(),
                controller: Some(true),
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        },
        data: RawExtension(spec),
        revision: Some(number),
    }
}

#[cfg(test)]
mod tests {
    use ocm_reconcile::Step;
    use serde_json::json;

    use super::*;

    fn set(data: &str, roll_back: bool) -> ManifestWorkReplicaSet {
        let annotations = roll_back.then(|| json!({annotations::ROLL_BACK: "true"}));
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u", "annotations": annotations},
            "spec": {"manifestWorkTemplate": {"workload": {"manifests": [
                {"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": data}}
            ]}}}
        }))
        .unwrap()
    }

    /// Plays what a pass over the set writes down; returns what the works say.
    fn pass(set: &ManifestWorkReplicaSet, revisions: &mut Vec<Arc<ControllerRevision>>) -> String {
        let template = template(set, Some(revisions));
        let mut plan = Plan::new();
        record(&mut plan, set, &template, revisions);
        for step in plan.stages.into_iter().flatten() {
            match step {
                Step::Create { object, .. } => revisions.push(Arc::new(serde_json::from_value(object).unwrap())),
                Step::MergePatch { target, patch, .. } => {
                    let it = revisions.iter_mut().find(|it| it.name_any() == target.name).unwrap();
                    Arc::make_mut(it).revision = patch["revision"].as_i64();
                }
                Step::Delete { target, .. } => revisions.retain(|it| it.name_any() != target.name),
                other => panic!("{other}"),
            }
        }
        let manifest = &template.spec.workload.manifests.read()[0].0;
        format!("{} {:?}", manifest["data"]["k"].as_str().unwrap(), template.is)
    }

    #[test]
    fn the_template_before_is_the_newest_that_differs() {
        let mut revisions = Vec::new();
        assert_eq!(pass(&set("1", true), &mut revisions), "1 Unknown");
        assert_eq!(pass(&set("1", false), &mut revisions), "1 Present");
        assert_eq!(pass(&set("2", false), &mut revisions), "2 Present");
        assert_eq!(pass(&set("2", true), &mut revisions), "1 Before(1)");
        assert_eq!(pass(&set("2", true), &mut revisions), "1 Before(3)");
        // A third template while the annotation is still there: not the second, which was left.
        assert_eq!(pass(&set("3", true), &mut revisions), "1 Before(3)");
        assert_eq!(pass(&set("3", false), &mut revisions), "3 Present");
        assert_eq!(pass(&set("3", true), &mut revisions), "1 Before(3)");
        assert_eq!(revisions.len(), 2);
        // Forward again.
        assert_eq!(pass(&set("2", false), &mut revisions), "2 Present");
        assert_eq!(pass(&set("2", true), &mut revisions), "1 Before(5)");
    }
}
