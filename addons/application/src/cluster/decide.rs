//! What to write for one object. Pure: the live object in, a step out.
//! Merging is a server-side apply, as the work agent's: what the source no longer says goes, what others have set
//! stays.
//! Upstream makes a JSON merge patch, which never takes a field away.

use ocm_addon_sdk::{
    ocm_api::apps::{HelmRelease, Subscription, annotations},
    reconcile::{Site, Step, Target, agreement},
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::desired::{ObjectToDeploy, ReconcileOption, metadata};

/// What the field managers of Subscriptions begin with.
pub const FIELD_MANAGER: &str = "application-manager";

/// The field manager of a Subscription, `NAMESPACE/NAME`. Each has its own: a Subscription may merge into an object of
/// another one, and what one manager leaves out of an apply is taken away.
pub fn field_manager(subscription: &str) -> String {
    let name = format!("{FIELD_MANAGER}/{subscription}");
    // The API server takes at most 128 characters.
    if name.len() <= 128 {
        return name;
    }
    let digest = Sha256::digest(subscription.as_bytes());
    let hex: String = digest.iter().take(16).map(|it| format!("{it:02x}")).collect();
    format!("{FIELD_MANAGER}/{hex}")
}

/// What to do about one object.
#[derive(Clone, Debug, PartialEq)]
pub enum DeployDecision {
    /// The object says what the source says.
    Agrees,
    /// One write.
    Write(Box<Step>),
    /// It is not to be written, and why.
    Failed(String),
}

/// What was written the last time, and what it became: the API server may write a value differently, and then only this
/// tells that nothing is left to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastDeployed {
    /// The object that was written.
    pub digest: u64,
    /// What the API server has called it since.
    pub resource_version: String,
}

/// Decides about one object.
pub fn decide(wanted: &ObjectToDeploy, live: Option<&Value>, written: Option<&LastDeployed>) -> DeployDecision {
    let target = target(wanted);
    let manager = wanted.object["metadata"]["annotations"][annotations::HOSTING_SUBSCRIPTION].as_str();
    let manager = field_manager(manager.unwrap_or_default());
    let Some(live) = live else {
        // Without force: of two Subscriptions that make it at the same time the second one is refused.
        return apply(target, manager, wanted.object.clone(), false);
    };
    let mut object = wanted.object.clone();
    let hosting = |it: &Value| it["metadata"]["annotations"][annotations::HOSTING_SUBSCRIPTION].clone();
    if hosting(live) != hosting(&object) {
        let (Some(option), true) = (wanted.option, wanted.is_admin) else {
            let (namespace, name) = (&wanted.namespace, &wanted.name);
            return DeployDecision::Failed(format!("Obj {namespace}/{name} exists and owned by others, backoff"));
        };
        if option == ReconcileOption::Merge {
            // It stays that of the other.
            unmark(&mut object);
        }
    }
    if let Some(last) = written
        && live["metadata"]["resourceVersion"] == last.resource_version.as_str()
        && last.digest == digest(&object)
    {
        return DeployDecision::Agrees;
    }
    if is_replaced(wanted) {
        metadata(&mut object).insert(
            "resourceVersion".to_owned(),
            live["metadata"]["resourceVersion"].clone(),
        );
        // Those are of the controllers that wait for them.
        if let Some(finalizers) = live["metadata"].get("finalizers") {
            metadata(&mut object).insert("finalizers".to_owned(), finalizers.clone());
        }
        return DeployDecision::Write(Box::new(Step::Replace {
            target,
            subresource: None,
            object,
        }));
    }
    let applied = agreement::was_applied_by(live, &manager) && !agreement::has_leftover(live, &manager, &object);
    if applied && agreement::agrees(live, &object) {
        return DeployDecision::Agrees;
    }
    apply(target, manager, object, true)
}

/// Whether an object is written whole. Some kinds have fields that the API server sets once.
fn is_replaced(wanted: &ObjectToDeploy) -> bool {
    let resource = &wanted.api_resource;
    if resource.group == HelmRelease::GROUP {
        return [HelmRelease::KIND, Subscription::KIND].contains(&resource.kind.as_str());
    }
    let is_special =
        resource.group.is_empty() && ["Service", "ServiceAccount", "Namespace"].contains(&resource.kind.as_str());
    wanted.option == Some(ReconcileOption::Replace) && !is_special
}

/// Whether a refusal of a write counts as none: a field that cannot change stays as it is.
pub fn is_swallowed(step: &Step, code: Option<u16>) -> bool {
    matches!(step, Step::Replace { .. }) && matches!(code, Some(403 | 422))
}

/// Whether a write was refused because somebody else has written the object since it was looked at, such as the
/// controller of HelmReleases its status, or another Subscription that makes the same object.
pub fn is_overtaken(step: &Step, code: Option<u16>) -> bool {
    matches!(step, Step::Replace { .. } | Step::Apply { force: false, .. }) && code == Some(409)
}

/// A number for an object, to compare it with later. Within one process only.
pub fn digest(object: &Value) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut object = object.clone();
    for field in ["resourceVersion", "finalizers"] {
        metadata(&mut object).remove(field);
    }
    let mut hasher = DefaultHasher::new();
    object.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Where an object is.
pub fn target(wanted: &ObjectToDeploy) -> Target {
    Target {
        site: Site::Cluster,
        api_resource: wanted.api_resource.clone(),
        namespace: Some(wanted.namespace.clone()).filter(|it| !it.is_empty()),
        name: wanted.name.clone(),
    }
}

fn apply(target: Target, field_manager: String, object: Value, force: bool) -> DeployDecision {
    DeployDecision::Write(Box::new(Step::Apply {
        target,
        object,
        field_manager,
        force,
    }))
}

fn unmark(object: &mut Value) {
    if let Some(all) = object["metadata"]["annotations"].as_object_mut() {
        for key in [
            annotations::HOSTING_SUBSCRIPTION,
            annotations::RECONCILE_OPTION,
            annotations::CLUSTER_ADMIN,
        ] {
            all.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use ocm_addon_sdk::kube::core::ApiResource;
    use serde_json::json;

    use super::*;

    fn wanted(kind: &str, option: Option<ReconcileOption>, is_admin: bool) -> ObjectToDeploy {
        ObjectToDeploy {
            api_resource: ApiResource {
                group: String::new(),
                version: "v1".to_owned(),
                api_version: "v1".to_owned(),
                kind: kind.to_owned(),
                plural: format!("{}s", kind.to_lowercase()),
            },
            namespace: "team".to_owned(),
            name: "a".to_owned(),
            object: json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": "team",
                "annotations": {annotations::HOSTING_SUBSCRIPTION: "team/app"}}, "data": {"x": "1"}}),
            option,
            is_admin,
        }
    }

    fn live(hosting: Option<&str>) -> Value {
        let mut live =
            json!({"metadata": {"name": "a", "resourceVersion": "5", "annotations": {}}, "data": {"x": "1"}});
        if let Some(hosting) = hosting {
            live["metadata"]["annotations"][annotations::HOSTING_SUBSCRIPTION] = hosting.into();
        }
        live
    }

    fn said(decision: &DeployDecision) -> String {
        match decision {
            DeployDecision::Agrees => "agrees".to_owned(),
            DeployDecision::Write(step) => format!("{step}"),
            DeployDecision::Failed(why) => why.clone(),
        }
    }

    #[test]
    fn what_others_own_is_left_to_them() {
        let others = [live(Some("team/other")), live(None)];
        for other in &others {
            let refused = "Obj team/a exists and owned by others, backoff";
            for (option, is_admin) in [(None, false), (None, true), (Some(ReconcileOption::Merge), false)] {
                let decided = decide(&wanted("ConfigMap", option, is_admin), Some(other), None);
                assert_eq!(said(&decided), refused);
            }
        }
    }

    #[test]
    fn an_administrator_merges_without_owning_or_owns() {
        let other = live(Some("team/other"));
        let object = |option| match decide(&wanted("ConfigMap", Some(option), true), Some(&other), None) {
            DeployDecision::Write(step) => match *step {
                Step::Apply { object, .. } | Step::Replace { object, .. } => object,
                _ => panic!("an object is written"),
            },
            _ => panic!("a write"),
        };
        let hosting = |it: &Value| it["metadata"]["annotations"][annotations::HOSTING_SUBSCRIPTION].clone();
        assert_eq!(hosting(&object(ReconcileOption::Merge)), Value::Null);
        assert_eq!(hosting(&object(ReconcileOption::MergeAndOwn)), "team/app");
        let replaced = object(ReconcileOption::Replace);
        assert_eq!(hosting(&replaced), "team/app");
        assert_eq!(replaced["metadata"]["resourceVersion"], "5");
    }

    #[test]
    fn a_service_is_never_replaced() {
        let own = live(Some("team/app"));
        let option = Some(ReconcileOption::Replace);
        let service = decide(&wanted("Service", option, false), Some(&own), None);
        assert!(said(&service).contains("apply"), "{}", said(&service));
        let map = decide(&wanted("ConfigMap", option, false), Some(&own), None);
        assert!(said(&map).contains("replace"), "{}", said(&map));
    }

    #[test]
    fn what_was_written_and_not_changed_agrees() {
        let wanted = wanted("ConfigMap", Some(ReconcileOption::Replace), false);
        let last = LastDeployed {
            digest: digest(&wanted.object),
            resource_version: "5".to_owned(),
        };
        assert_eq!(
            decide(&wanted, Some(&live(Some("team/app"))), Some(&last)),
            DeployDecision::Agrees
        );
        let older = LastDeployed {
            resource_version: "4".to_owned(),
            ..last
        };
        assert_ne!(
            decide(&wanted, Some(&live(Some("team/app"))), Some(&older)),
            DeployDecision::Agrees
        );
    }
}
