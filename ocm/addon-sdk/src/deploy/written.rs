//! What the first round of a run wrote, for the second to see although the watches have not told of it yet: otherwise
//! the second would write it again, and what it writes to the add-on would be a conflict.

use std::sync::Arc;

use kube::ResourceExt;
use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, work::ManifestWork};
use ocm_reconcile::{Done, Outcome, Step};

use super::{
    plan::{Here, Root, Seen},
    works::name_of,
};

/// Whether a work was to be made and is there, although the watch has not shown it.
pub fn was_there_already(outcome: &Outcome) -> bool {
    outcome.results().any(|(_, it)| matches!(it, Ok(Done::AlreadyExists)))
}

/// What is seen, with what was written in the place of what is older.
pub fn catch_up(mut seen: Seen, outcome: &Outcome) -> Seen {
    for (step, result) in outcome.results() {
        let (Some(target), Ok(done)) = (step.target(), result) else {
            continue;
        };
        match (target.api_resource.kind.as_str(), done) {
            (ManagedClusterAddOn::KIND, Done::Object(object)) => {
                if let Ok(addon) = object.clone().try_parse() {
                    seen.root = with_addon(seen.root, addon);
                }
            }
            (ManifestWork::KIND, Done::Object(object)) => {
                if let Ok(work) = object.clone().try_parse() {
                    put(&mut seen.works, work);
                }
            }
            (ManifestWork::KIND, Done::Gone) => {
                // One of another uid was made since.
                let of = |it: &ManifestWork| matches!(step, Step::Delete { uid, .. } if *uid == it.uid());
                let name = (target.namespace.as_deref().unwrap_or_default(), &*target.name);
                seen.works.retain(|it| name_of(it) != name || !of(it));
            }
            _ => {}
        }
    }
    seen
}

fn with_addon(root: Root, written: ManagedClusterAddOn) -> Root {
    match root {
        Root::Here(here) if is_older(&*here.place.addon, &written) => {
            let mut place = here.place;
            place.addon = Arc::new(written);
            Root::Here(Box::new(Here::of(here.add_on, place, here.settled, here.epoch)))
        }
        other => other,
    }
}

fn put(works: &mut Vec<Arc<ManifestWork>>, written: ManifestWork) {
    match works.iter_mut().find(|it| name_of(it) == name_of(&written)) {
        Some(it) if is_older(&**it, &written) => *it = Arc::new(written),
        Some(_) => {}
        None => works.push(Arc::new(written)),
    }
}

fn is_older<K: ResourceExt>(seen: &K, written: &K) -> bool {
    let version = |it: &K| it.resource_version().and_then(|it| it.parse::<u64>().ok());
    version(seen) < version(written)
}
