//! What is written another way because the right to write it the usual way is missing.
//!
//! OCM's own ClusterRoles let a controller `update` many kinds that they do not let it `patch`, because upstream's code
//! puts whole objects; and some name `events` of the core group alone. A part of ours that runs under such a role does
//! as upstream does: it reads the object, lays the patch over it and puts it back, and it sends the older kind of
//! Event. What was found out is remembered, so that not every write begins with a refusal. The usual way comes first
//! wherever it is allowed: it is one request instead of two.

use std::{collections::HashSet, sync::Arc};

use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use parking_lot::RwLock;
use serde_json::{Value, json};
use tracing::info;

use super::StepError;
use crate::{
    difference,
    plan::{Site, Target},
};

/// Whether the API server says no because this verb is not among the rights, rather than for what is written: a
/// webhook's or a quota's refusal has the same code.
pub fn is_right(code: Option<u16>, message: &str, verb: &str) -> bool {
    code == Some(403) && message.contains(&format!("cannot {verb} resource"))
}

/// Resources of a site for which the usual way is known to be refused, by group and plural.
#[derive(Clone, Default)]
pub(crate) struct Lacks {
    known: Arc<RwLock<HashSet<(Site, String, String)>>>,
}

impl Lacks {
    fn knows(&self, key: &(Site, String, String)) -> bool {
        self.known.read().contains(key)
    }

    fn learn(&self, key: (Site, String, String)) -> bool {
        self.known.write().insert(key)
    }

    /// A merge patch of an object itself, or of a whole object in its place.
    pub async fn merge_patch(
        &self,
        api: &Api<DynamicObject>,
        target: &Target,
        patch: &Value,
        manager: Option<&str>,
    ) -> Result<DynamicObject, StepError> {
        let put = |patch| put(api, &target.name, patch, manager);
        let (group, resource) = (&target.api_resource.group, &target.api_resource.plural);
        let key = (target.site, group.clone(), resource.clone());
        let mut refused_to_put = None;
        if self.knows(&key) {
            match put(patch).await {
                // Rights may have changed, or be others in this namespace.
                Err(error) if error.is_forbidden() => refused_to_put = Some(error),
                done => return done,
            }
        }
        let params = PatchParams {
            field_manager: manager.map(str::to_owned),
            ..PatchParams::default()
        };
        let refused = match api.patch(&target.name, &params, &Patch::Merge(patch)).await {
            Ok(object) => return Ok(object),
            Err(error) => StepError::from(error),
        };
        if !lacks(&refused, "patch") {
            return Err(refused);
        }
        let put = match refused_to_put {
            Some(error) => Err(error),
            None => put(patch).await,
        };
        match put {
            Ok(object) => {
                if self.learn(key) {
                    info!(%group, %resource, "there is no right to patch, so whole objects are put");
                }
                Ok(object)
            }
            // Neither is allowed: what was wanted first is the right to ask for.
            Err(error) if lacks(&error, "update") || lacks(&error, "get") => Err(refused),
            Err(error) => Err(error),
        }
    }

    /// Sends an Event of `events.k8s.io/v1`, or the same as one of the core group.
    pub async fn event(
        &self,
        site: Site,
        of: impl Fn(&str) -> Api<DynamicObject>,
        event: &Value,
    ) -> Result<(), StepError> {
        let key = (site, NEW_EVENTS.to_owned(), "events".to_owned());
        if !self.knows(&key) {
            match create(&of(NEW_EVENTS), event).await {
                Err(error) if lacks(&error, "create") => {}
                done => return done,
            }
            // The refusal is told by the second try, too, when that is refused as well.
            create(&of(""), &core_event(event)).await?;
            if self.learn(key) {
                info!("there is no right to create events of events.k8s.io, so those of the core group are sent");
            }
            return Ok(());
        }
        create(&of(""), &core_event(event)).await
    }
}

/// The group of today's Events.
const NEW_EVENTS: &str = "events.k8s.io";

fn lacks(error: &StepError, verb: &str) -> bool {
    match error {
        StepError::Kube(kube::Error::Api(status)) => is_right(Some(status.code), &status.message, verb),
        _ => false,
    }
}

/// The object as it is with the patch laid over it. A patch from a look at the object carries its resourceVersion and
/// uid, which so come to be those of what is put: whoever was faster makes a conflict, as with the patch.
async fn put(
    api: &Api<DynamicObject>,
    name: &str,
    patch: &Value,
    manager: Option<&str>,
) -> Result<DynamicObject, StepError> {
    let present = api.get(name).await?;
    let mut whole = serde_json::to_value(present).map_err(StepError::Malformed)?;
    difference::apply_merge_patch(&mut whole, patch);
    let whole: DynamicObject = serde_json::from_value(whole).map_err(StepError::Malformed)?;
    let params = PostParams {
        field_manager: manager.map(str::to_owned),
        ..PostParams::default()
    };
    Ok(api.replace(name, &params, &whole).await?)
}

async fn create(api: &Api<DynamicObject>, event: &Value) -> Result<(), StepError> {
    let event: DynamicObject = serde_json::from_value(event.clone()).map_err(StepError::Malformed)?;
    api.create(&PostParams::default(), &event).await?;
    Ok(())
}

/// An Event of `events.k8s.io/v1` in the words of the core group.
fn core_event(event: &Value) -> Value {
    let mut core = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": event["regarding"],
        "message": event["note"],
        "reportingComponent": event["reportingController"],
        "source": { "component": event["reportingController"] },
    });
    for same in [
        "metadata",
        "eventTime",
        "type",
        "reason",
        "action",
        "related",
        "reportingInstance",
    ] {
        if !event[same].is_null() {
            core[same] = event[same].clone();
        }
    }
    core
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_permission_differs_from_other_refusals() {
        let lacking = r#"namespaces "a" is forbidden: User "u" cannot patch resource "namespaces" in API group "" at the cluster scope"#;
        assert!(is_right(Some(403), lacking, "patch"));
        assert!(!is_right(Some(403), lacking, "update"));
        assert!(!is_right(Some(409), lacking, "patch"));
        let webhook = r#"admission webhook "w" denied the request: user "u" cannot update the HubAcceptsClient field"#;
        assert!(!is_right(Some(403), webhook, "update"));
    }

    #[test]
    fn an_event_converts_to_the_core_group() {
        let event = json!({
            "metadata": {"name": "a", "namespace": "n"}, "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal",
            "reason": "R", "action": "A", "note": "a sentence", "regarding": {"name": "o"}, "related": null,
            "reportingController": "c", "reportingInstance": "c",
        });
        assert_eq!(
            core_event(&event),
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a", "namespace": "n"},
                "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "R", "action": "A",
                "message": "a sentence", "involvedObject": {"name": "o"}, "source": {"component": "c"},
                "reportingComponent": "c", "reportingInstance": "c",
            })
        );
    }
}
