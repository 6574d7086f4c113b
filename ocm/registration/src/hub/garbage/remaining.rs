//! What is left in the namespace of a cluster that goes: looking for it, deleting it, and saying so.

use kube::{
    Client, ResourceExt,
    api::{DynamicObject, PartialObjectMeta},
};
use ocm_api::{
    annotations,
    condition::{ConditionUpdate, wanted},
    conditions::managed_cluster::{self, reason},
};
use ocm_reconcile::{Outcome, Plan, Site, Step, Target, execute::sentence};

use super::{Seen, kind::GarbageKind};
use crate::{api_reader::list_metadata, hub::leftovers};

/// The first kind of which something is left, and what that is.
pub type Remaining = (GarbageKind, Vec<PartialObjectMeta<DynamicObject>>);

/// Looks for it, or says why that is not known.
pub async fn find(client: &Client, namespace: &str, kinds: &[GarbageKind]) -> Result<Option<Remaining>, String> {
    for kind in kinds {
        let listed = list_metadata(client, namespace, &kind.api_resource()).await;
        let items = listed.map_err(|error| {
            let why = sentence(&error.into());
            format!("failed to list resource {}. err:{why}", kind.resource)
        })?;
        if !items.is_empty() {
            return Ok(Some((kind.clone(), items)));
        }
    }
    Ok(None)
}

/// In which turn an object goes: 0 to 100, and 0 when it does not say or says nonsense.
fn priority(object: &PartialObjectMeta<DynamicObject>) -> u8 {
    let text = object.annotations().get(annotations::CLEANUP_PRIORITY);
    text.and_then(|it| it.parse().ok()).filter(|it| *it <= 100).unwrap_or(0)
}

/// Deletes what goes first, and lets go of what is being deleted.
pub fn delete(plan: &mut Plan, seen: &Seen, (kind, items): &Remaining) {
    let lowest = items.iter().map(priority).min().unwrap_or(0);
    for item in items
        .iter()
        .filter(|it| priority(it) == lowest && it.metadata.deletion_timestamp.is_none())
    {
        let target = Target {
            site: Site::Hub,
            api_resource: kind.api_resource(),
            namespace: Some(seen.name.clone()),
            name: item.name_any(),
        };
        plan.push(Step::Delete {
            target,
            uid: item.metadata.uid.clone(),
            propagation: None,
        });
    }
    plan.stage();
    let going = items
        .iter()
        .filter(|it| priority(it) == lowest || it.metadata.deletion_timestamp.is_some());
    let going = going.map(|it| &it.metadata);
    leftovers::release(plan, &seen.name, &kind.api_resource(), going, seen.now);
    let (count, kinds, namespace) = (items.len(), &kind.resource, &seen.name);
    plan.wait(format!("{count} {kinds} are left in namespace {namespace}"));
}

/// What the condition says of it when the plan was carried out; nothing when it `is_told` that nothing is left.
pub fn deleting(seen: &Seen, is_told: bool, outcome: &Outcome) -> Option<ConditionUpdate> {
    let (status, reason, message) = match &seen.remaining {
        _ if !outcome.succeeded() => (false, reason::DELETING_ERROR, outcome.error_text()),
        Err(why) => (false, reason::DELETING_ERROR, why.clone()),
        Ok(Some((kind, items))) => {
            let pending = items.iter().filter(|it| !it.finalizers().is_empty()).count();
            // "remaning" is upstream's spelling, and programs compare messages.
            let message = format!(
                "The resource {} is remaning, the remaining count is {}, the finalizer pending count is {pending}",
                kind.resource,
                items.len()
            );
            (false, reason::RESOURCE_REMAINING, message)
        }
        // Said once; the finalizer goes in the run that this write causes.
        Ok(None) if is_told => return None,
        Ok(None) => (
            true,
            reason::NO_RESOURCE,
            "No cleaned resource in cluster ns.".to_owned(),
        ),
    };
    Some(wanted(managed_cluster::DELETING, status, reason, message))
}
