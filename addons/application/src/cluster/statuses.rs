//! What is said of a Subscription on its cluster. Pure.
//! Upstream: multicloud-operators-subscription pkg/synchronizer/kubernetes/sync_appsubstatus.go.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::apimachinery::pkg::apis::meta::v1::Time,
    kube::{ResourceExt, api::ObjectMeta},
    ocm_api::apps::{
        HelmRelease, Subscription, SubscriptionPhase, SubscriptionStatus, SubscriptionStatuses, SubscriptionSyncStatus,
        SubscriptionUnitStatus, labels,
    },
};

use super::{
    desired::{ObjectToDeploy, RefusedObject},
    helm::{IRRECONCILABLE, RELEASE_FAILED},
};
use crate::report::hosting_label;

/// The phase of an object, or of all of them.
pub const DEPLOYED: &str = "Deployed";
/// The same.
pub const FAILED: &str = "Failed";
/// As many characters of errors does a status hold.
const REASON_MAX: usize = 2000;

/// An object and what became of it; no message when it is deployed.
pub fn unit(wanted: &ObjectToDeploy, failure: Option<String>) -> SubscriptionUnitStatus {
    SubscriptionUnitStatus {
        name: wanted.name.clone(),
        api_version: wanted.api_resource.api_version.clone(),
        kind: wanted.api_resource.kind.clone(),
        namespace: wanted.namespace.clone(),
        phase: if failure.is_some() { FAILED } else { DEPLOYED }.to_owned(),
        message: failure.unwrap_or_default(),
        last_update_time: None,
    }
}

/// An object that is not deployed.
pub fn refused_unit(refused: &RefusedObject) -> SubscriptionUnitStatus {
    SubscriptionUnitStatus {
        name: refused.name.clone(),
        api_version: refused.api_version.clone(),
        kind: refused.kind.clone(),
        namespace: refused.namespace.clone(),
        phase: FAILED.to_owned(),
        message: refused.message.clone(),
        last_update_time: None,
    }
}

/// Why a HelmRelease is not what it is meant to be.
pub fn failure_of_release(release: &HelmRelease) -> Option<&str> {
    let condition = |kind: &str| {
        let all = release.status.iter().flat_map(|it| &it.conditions);
        all.into_iter().find(|it| it.r#type == kind && it.status == "True")
    };
    let failed = [IRRECONCILABLE, RELEASE_FAILED].iter().find_map(|it| condition(it));
    failed.map(|it| it.message.as_str())
}

/// Whether a chart has been installed at some time.
pub(super) fn has_deployed(release: &HelmRelease) -> bool {
    release.status.as_ref().is_some_and(|it| it.deployed_release.is_some())
}

/// The objects of a chart, as the HelmRelease says them.
pub fn units_of_release(release: &HelmRelease) -> Vec<SubscriptionUnitStatus> {
    let manifest = release.status.as_ref().and_then(|it| it.deployed_release.as_ref());
    let text = manifest.map(|it| it.manifest.as_str()).unwrap_or_default();
    let (phase, message) = match failure_of_release(release) {
        Some(why) => (FAILED, why.to_owned()),
        None => (DEPLOYED, String::new()),
    };
    crate::source::objects_of_manifest(text)
        .into_iter()
        .map(|object| {
            let said = |pointer: &str| {
                object
                    .pointer(pointer)
                    .and_then(|it| it.as_str())
                    .unwrap_or_default()
                    .to_owned()
            };
            SubscriptionUnitStatus {
                name: said("/metadata/name"),
                api_version: said("/apiVersion"),
                kind: said("/kind"),
                namespace: said("/metadata/namespace"),
                phase: phase.to_owned(),
                message: message.clone(),
                last_update_time: None,
            }
        })
        .collect()
}

/// The SubscriptionStatus of a Subscription: what is wrong with its source, and these objects, in their order.
pub fn status_of(
    subscription: &Subscription,
    cluster: &str,
    before: Option<&SubscriptionStatus>,
    (source_failure, mut packages): (Option<&str>, Vec<SubscriptionUnitStatus>),
    now: Timestamp,
) -> SubscriptionStatus {
    let before = before.map(|it| &it.statuses);
    let same_object = |a: &SubscriptionUnitStatus, b: &SubscriptionUnitStatus| {
        (&a.name, &a.namespace, &a.kind, &a.api_version) == (&b.name, &b.namespace, &b.kind, &b.api_version)
    };
    let known: BTreeMap<_, _> = before
        .iter()
        .flat_map(|it| &it.packages)
        .map(|it| ((&it.kind, &it.namespace, &it.name), it))
        .collect();
    for one in &mut packages {
        let old = known.get(&(&one.kind, &one.namespace, &one.name));
        let old = old.filter(|old| same_object(old, one) && old.phase == one.phase && old.message == one.message);
        one.last_update_time = old.and_then(|it| it.last_update_time.clone()).or(Some(Time(now)));
    }
    let failed = packages.iter().filter(|it| it.phase != DEPLOYED);
    let failed = failed.map(|it| it.message.as_str());
    let failures: Vec<&str> = source_failure.into_iter().chain(failed).collect();
    let mut whole = SubscriptionSyncStatus {
        phase: if failures.is_empty() { DEPLOYED } else { FAILED }.to_owned(),
        message: cut(&failures.join(", ")),
        last_update_time: None,
    };
    let old = before.and_then(|it| it.subscription.as_ref());
    let old = old.filter(|it| it.phase == whole.phase && it.message == whole.message);
    whole.last_update_time = old.and_then(|it| it.last_update_time.clone()).or(Some(Time(now)));
    let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
    let label = hosting_label(&namespace, &name);
    SubscriptionStatus {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace),
            labels: Some(BTreeMap::from([
                (labels::CLUSTER.to_owned(), cluster.to_owned()),
                (labels::HOSTING_SUBSCRIPTION.to_owned(), label),
            ])),
            ..ObjectMeta::default()
        },
        statuses: SubscriptionStatuses {
            packages,
            subscription: Some(whole),
        },
    }
}

/// The Subscription with its status: deployed, or why it is not.
pub fn told(subscription: &Subscription, failure: Option<&str>, window: &str, now: Timestamp) -> Subscription {
    let mut told = subscription.clone();
    let status = told.status.get_or_insert_default();
    let phase = match failure {
        None => SubscriptionPhase::Subscribed,
        Some(_) => SubscriptionPhase::Failed,
    };
    phase.as_str().clone_into(&mut status.phase);
    status.reason = cut(failure.unwrap_or_default());
    window.clone_into(&mut status.message);
    status.appstatus_reference = format!(
        "kubectl get appsubstatus -n {} {}",
        subscription.namespace().unwrap_or_default(),
        subscription.name_any()
    );
    if told.status != subscription.status {
        told.status.get_or_insert_default().last_update_time = Some(Time(now));
    }
    told
}

fn cut(text: &str) -> String {
    text.chars().take(REASON_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subscription() -> Subscription {
        serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"channel": "c/c"}}))
            .unwrap()
    }

    fn one(name: &str, message: &str) -> SubscriptionUnitStatus {
        SubscriptionUnitStatus {
            name: name.to_owned(),
            kind: "ConfigMap".to_owned(),
            phase: if message.is_empty() { DEPLOYED } else { FAILED }.to_owned(),
            message: message.to_owned(),
            ..SubscriptionUnitStatus::default()
        }
    }

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    #[test]
    fn a_status_says_the_failures_of_its_objects() {
        let packages = vec![one("a", "no"), one("b", ""), one("c", "never")];
        let now = at("2026-01-01T00:00:00Z");
        let status = status_of(&subscription(), "c1", None, (None, packages.clone()), now);
        let whole = status.statuses.subscription.unwrap();
        assert_eq!((whole.phase.as_str(), whole.message.as_str()), ("Failed", "no, never"));
        let status = status_of(&subscription(), "c1", None, (Some("a.yaml: no YAML"), packages), now);
        let whole = status.statuses.subscription.unwrap();
        assert_eq!(whole.message, "a.yaml: no YAML, no, never");
        let status = status_of(&subscription(), "c1", None, (Some("away"), vec![one("b", "")]), now);
        let whole = status.statuses.subscription.unwrap();
        assert_eq!((whole.phase.as_str(), whole.message.as_str()), ("Failed", "away"));
        assert_eq!(status.metadata.labels.unwrap()[labels::HOSTING_SUBSCRIPTION], "n.a");
    }

    #[test]
    fn a_release_that_failed_says_why() {
        let release = |conditions: serde_json::Value| -> HelmRelease {
            let object = json!({"metadata": {"name": "r"}, "status": {"conditions": conditions}});
            serde_json::from_value(object).unwrap()
        };
        let failed = json!([{"type": "Initialized", "status": "True"},
            {"type": "ReleaseFailed", "status": "True", "message": "say v"}]);
        assert_eq!(failure_of_release(&release(failed)), Some("say v"));
        let mended = json!([{"type": "ReleaseFailed", "status": "False", "message": "say v"}]);
        assert_eq!(failure_of_release(&release(mended)), None);
    }

    #[test]
    fn a_time_stays_while_nothing_changes() {
        let first = at("2026-01-01T00:00:00Z");
        let before = status_of(
            &subscription(),
            "c1",
            None,
            (None, vec![one("a", ""), one("b", "")]),
            first,
        );
        let packages = vec![one("a", ""), one("b", "no")];
        let later = status_of(
            &subscription(),
            "c1",
            Some(&before),
            (None, packages),
            at("2026-01-02T00:00:00Z"),
        );
        let times: Vec<_> = later
            .statuses
            .packages
            .iter()
            .filter_map(|it| it.last_update_time.as_ref())
            .collect();
        assert_eq!((times[0].0, times[1].0), (first, at("2026-01-02T00:00:00Z")));
        let same = status_of(
            &subscription(),
            "c1",
            Some(&before),
            (None, vec![one("a", ""), one("b", "")]),
            at("2026-01-03T00:00:00Z"),
        );
        assert_eq!(same, before);
    }

    #[test]
    fn a_long_reason_is_cut() {
        let told = told(
            &subscription(),
            Some(&"ä".repeat(3000)),
            "Active",
            at("2026-01-01T00:00:00Z"),
        );
        let status = told.status.clone().unwrap();
        assert_eq!(status.reason.chars().count(), 2000);
        assert_eq!(status.appstatus_reference, "kubectl get appsubstatus -n n a");
        let again = super::told(&told, Some(&"ä".repeat(3000)), "Active", at("2026-01-02T00:00:00Z"));
        assert_eq!(again, told);
    }
}
