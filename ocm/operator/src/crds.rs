//! CustomResourceDefinitions by version: what a newer operator has written is left as it is, and what is taken away
//! goes in order.
//! Upstream: ocm `pkg/operator/operators/crdmanager/manager.go`.

use std::cmp::Ordering;

use base64::{Engine, prelude::BASE64_STANDARD};
use ocm_reconcile::{Plan, Site, Step, Target, difference::contains};
use serde_json::{Value, json};

use crate::objects::{self, Current, WantedObject};

/// The annotation that says which release wrote a CRD last.
pub const VERSION: &str = "operator.open-cluster-management.io/version";

const KIND: &str = "CustomResourceDefinition";

/// Who converts objects of a CRD that serves several versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The namespace of the Service.
    pub namespace: String,
    /// The Service.
    pub service: String,
    /// Its port.
    pub port: i32,
    /// The certificates to trust there, PEM.
    pub authorities: String,
}

impl Conversion {
    fn stanza(&self) -> Value {
        json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1", "v1beta1"],
            "clientConfig": {
                "caBundle": BASE64_STANDARD.encode(&self.authorities),
                "service": {"namespace": self.namespace, "name": self.service, "path": "/convert", "port": self.port},
            },
        }})
    }
}

/// A CRD as it is to be in place: with labels, and with who converts its objects.
pub fn object(site: Site, mut crd: Value, labels: &Value, conversion: Option<&Conversion>) -> WantedObject {
    for (key, value) in labels.as_object().into_iter().flatten() {
        crd["metadata"]["labels"][key.as_str()] = value.clone();
    }
    if let Some(conversion) = conversion {
        crd["spec"]["conversion"] = conversion.stanza();
    }
    crd["apiVersion"] = "apiextensions.k8s.io/v1".into();
    crd["kind"] = KIND.into();
    WantedObject::new(site, crd)
}

/// The target of a CRD.
pub fn target(site: Site, name: &str) -> Target {
    objects::target(site, KIND, None, name)
}

/// Keeps CRDs in place, as a stage of their own. Returns the names of those that are left as they are, with the newer
/// version that wrote them.
pub fn keep(
    plan: &mut Plan,
    reason: &str,
    crds: &[WantedObject],
    current: &Current,
    version: &str,
) -> Vec<(String, String)> {
    let mut newer = Vec::new();
    plan.stage();
    for WantedObject { target, manifest } in crds {
        let mut desired = manifest.clone();
        desired["metadata"]["annotations"][VERSION] = version.into();
        let step = match current.get(target) {
            None => plan.keep_value(target.clone(), None, &desired),
            Some(found) if objects::is_going(found) => {
                plan.wait(format!("{target} is being deleted; it is made again when it is gone"));
                None
            }
            Some(found) => match change(found, &desired, version) {
                Change::Nothing => None,
                Change::Whole => Some(plan.push(replacement(target, found, desired))),
                Change::Newer(theirs) => {
                    plan.remark(format!(
                        "{target} is of version {theirs}, which is newer than {version}, and is left as it is"
                    ));
                    newer.push((target.name.clone(), theirs));
                    trust(found, &desired).map(|patch| {
                        plan.push(Step::MergePatch {
                            target: target.clone(),
                            subresource: None,
                            patch,
                        })
                    })
                }
            },
        };
        if let Some(step) = step {
            plan.name(reason, step);
        }
    }
    newer
}

enum Change {
    Nothing,
    Whole,
    Newer(String),
}

fn change(found: &Value, desired: &Value, version: &str) -> Change {
    let theirs = found["metadata"]["annotations"][VERSION].as_str().unwrap_or_default();
    if theirs.is_empty() {
        return Change::Whole;
    }
    match compare(theirs, version) {
        Some(Ordering::Less) => Change::Whole,
        Some(Ordering::Equal) if says_the_same(found, desired) => Change::Nothing,
        Some(Ordering::Equal) => Change::Whole,
        // What cannot be read may be newer.
        Some(Ordering::Greater) | None => Change::Newer(theirs.to_owned()),
    }
}

/// Whether nothing is missing, and whether nothing is there that a former schema had.
fn says_the_same(found: &Value, desired: &Value) -> bool {
    let unconverted = json!({"strategy": "None"});
    let conversion = desired["spec"].get("conversion").unwrap_or(&unconverted);
    contains(&found["metadata"]["labels"], &desired["metadata"]["labels"])
        && contains(&found["spec"], &desired["spec"])
        && contains(&desired["spec"]["versions"], &found["spec"]["versions"])
        && (found["spec"].get("conversion").is_none() || contains(&found["spec"]["conversion"], conversion))
}

/// The CRD whole, but for what others have written beside its specification.
fn replacement(target: &Target, found: &Value, mut desired: Value) -> Step {
    let mut metadata = found["metadata"].clone();
    for field in ["managedFields", "creationTimestamp", "generation"] {
        metadata.as_object_mut().map(|it| it.remove(field));
    }
    for (key, value) in desired["metadata"]["annotations"].as_object().into_iter().flatten() {
        metadata["annotations"][key.as_str()] = value.clone();
    }
    metadata["labels"] = desired["metadata"]["labels"].clone();
    desired["metadata"] = metadata;
    // A replacement of the main resource does not touch it.
    desired["status"] = found["status"].clone();
    Step::Replace {
        target: target.clone(),
        subresource: None,
        object: desired,
    }
}

/// The patch by which an API server trusts the certificates of today, in a CRD that is otherwise left as it is and that
/// is converted by the same Service.
fn trust(found: &Value, desired: &Value) -> Option<Value> {
    let of = |it: &Value| it["spec"]["conversion"]["webhook"]["clientConfig"].clone();
    let (found_config, config) = (of(found), of(desired));
    let name = |it: &Value| [it["service"]["namespace"].clone(), it["service"]["name"].clone()];
    let is_same = config["caBundle"].is_string() && name(&found_config) == name(&config);
    (is_same && found_config["caBundle"] != config["caBundle"]).then(|| {
        json!({
            "metadata": {"uid": found["metadata"]["uid"], "resourceVersion": found["metadata"]["resourceVersion"]},
            "spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": config["caBundle"]}}}},
        })
    })
}

/// The order of two releases, by their numbers; `None` when one has none.
fn compare(one: &str, other: &str) -> Option<Ordering> {
    let numbers = |text: &str| -> Option<Vec<u64>> {
        let text = text.trim().trim_start_matches('v');
        let end = text
            .find(|it: char| it != '.' && !it.is_ascii_digit())
            .unwrap_or(text.len());
        let numbers = text[..end].trim_end_matches('.').split('.');
        let mut numbers = numbers.map(|it| it.parse().ok()).collect::<Option<Vec<u64>>>()?;
        while numbers.last() == Some(&0) {
            numbers.pop();
        }
        Some(numbers)
    };
    Some(numbers(one)?.cmp(&numbers(other)?))
}

/// Takes CRDs away in order: each of `first` when the one before is gone, because whoever cleans up after its objects
/// still needs the others; then all of `rest`. Returns the names of those that are still there.
pub fn clean(plan: &mut Plan, reason: &str, first: &[Target], rest: &[Target], current: &Current) -> Vec<String> {
    plan.stage();
    let next = first.iter().find(|it| current.get(it).is_some());
    let going: Vec<&Target> = match next {
        Some(next) => vec![next],
        None => rest.iter().filter(|it| current.get(it).is_some()).collect(),
    };
    for target in &going {
        objects::remove(plan, reason, target, current);
    }
    let remaining: Vec<String> = going.into_iter().map(|it| it.name.clone()).collect();
    if !remaining.is_empty() {
        plan.wait(format!("there are still CRDs: {}", remaining.join(", ")));
    }
    remaining
}

/// Leaves CRDs where they are, for whoever comes next: they no longer say that this release has written them.
pub fn release(plan: &mut Plan, reason: &str, crds: &[Target], current: &Current, version: &str) {
    plan.stage();
    for target in crds {
        let Some(found) = current.get(target) else { continue };
        let theirs = found["metadata"]["annotations"][VERSION].as_str().unwrap_or_default();
        if compare(theirs, version) != Some(Ordering::Equal) {
            continue;
        }
        let step = plan.push(Step::MergePatch {
            target: target.clone(),
            subresource: None,
            patch: json!({"metadata": {
                "uid": found["metadata"]["uid"], "resourceVersion": found["metadata"]["resourceVersion"],
                "annotations": {(VERSION): null},
            }}),
        });
        plan.name(reason, step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(max: u32, conversion: Option<&Conversion>) -> WantedObject {
        let crd = json!({"metadata": {"name": "as.b.c"}, "spec": {"group": "b.c", "versions": [{"name": "v1", "schema": {"max": max}}]}});
        object(Site::Hub, crd, &json!({}), conversion)
    }

    fn conversion(authorities: &str) -> Conversion {
        Conversion {
            namespace: "hub".to_owned(),
            service: "webhook".to_owned(),
            port: 9443,
            authorities: authorities.to_owned(),
        }
    }

    fn found(mut object: WantedObject, version: Option<&str>) -> Current {
        object.manifest["metadata"]["uid"] = "u".into();
        object.manifest["metadata"]["resourceVersion"] = "7".into();
        object.manifest["spec"]["names"] = json!({"kind": "A"});
        if let Some(version) = version {
            object.manifest["metadata"]["annotations"][VERSION] = version.into();
        }
        Current::holding([object])
    }

    fn printed(wanted: WantedObject, current: &Current) -> String {
        let mut plan = Plan::new();
        keep(&mut plan, "CRDApplyFailed", &[wanted], current, "1.3.1");
        plan.to_string().trim().to_owned()
    }

    const REPLACED: &str = "hub: replace CustomResourceDefinition as.b.c";

    #[test]
    fn a_crd_is_never_downgraded() {
        for newer in ["1.3.2", "v1.10.0", "2.0.0-rc.1", "tomorrow"] {
            let page = printed(crd(1, None), &found(crd(2, None), Some(newer)));
            assert!(page.starts_with("nothing to do") && page.contains(newer), "{page}");
        }
    }

    #[test]
    fn a_crd_of_an_older_or_unnamed_version_is_replaced() {
        for older in [None, Some("1.3.0"), Some("v1.2"), Some("0.16.0-alpha")] {
            assert_eq!(printed(crd(1, None), &found(crd(1, None), older)), REPLACED);
        }
        assert_eq!(
            printed(crd(1, None), &Current::default()),
            "hub: create CustomResourceDefinition as.b.c"
        );
    }

    #[test]
    fn a_crd_of_our_version_is_compared() {
        assert_eq!(
            printed(crd(1, None), &found(crd(1, None), Some("v1.3.1"))),
            "nothing to do"
        );
        assert_eq!(printed(crd(1, None), &found(crd(2, None), Some("1.3.1"))), REPLACED);
        let mut more = crd(1, None);
        more.manifest["spec"]["versions"][0]["schema"]["former"] = "field".into();
        assert_eq!(printed(crd(1, None), &found(more, Some("1.3.1"))), REPLACED);
        let converted = crd(1, Some(&conversion("a")));
        assert_eq!(printed(crd(1, None), &found(converted, Some("1.3.1"))), REPLACED);
    }

    #[test]
    fn a_newer_crd_still_learns_whom_to_trust() {
        let (before, now) = (crd(2, Some(&conversion("a"))), crd(1, Some(&conversion("b"))));
        let page = printed(now.clone(), &found(before.clone(), Some("9.0.0")));
        assert!(page.starts_with("hub: patch CustomResourceDefinition as.b.c"), "{page}");
        let page = printed(now, &found(crd(2, None), Some("9.0.0")));
        assert!(page.starts_with("nothing to do"), "{page}");
    }

    #[test]
    fn crds_go_one_after_the_other_and_then_together() {
        let named = |names: &[&str]| -> Vec<Target> { names.iter().map(|it| target(Site::Hub, it)).collect() };
        let there = |names: &[&str]| {
            let all = names.iter().map(|it| {
                object(
                    Site::Hub,
                    json!({"metadata": {"name": it}, "spec": {}}),
                    &json!({}),
                    None,
                )
            });
            Current::holding(all)
        };
        let (first, rest) = (named(&["a", "b"]), named(&["a", "b", "c", "d"]));
        let of = |current: &Current| {
            let mut plan = Plan::new();
            let remaining = clean(&mut plan, "", &first, &rest, current);
            (plan.len(), remaining.join(" "))
        };
        assert_eq!(of(&there(&["a", "b", "c", "d"])), (1, "a".to_owned()));
        assert_eq!(of(&there(&["b", "c", "d"])), (1, "b".to_owned()));
        assert_eq!(of(&there(&["c", "d"])), (2, "c d".to_owned()));
        assert_eq!(of(&Current::default()), (0, String::new()));
    }

    #[test]
    fn crds_that_stay_no_longer_name_our_version() {
        let of = |version: &str| {
            let mut plan = Plan::new();
            release(
                &mut plan,
                "",
                &[target(Site::Hub, "as.b.c")],
                &found(crd(1, None), Some(version)),
                "1.3.1",
            );
            plan.len()
        };
        assert_eq!((of("1.3.1"), of("1.3.0"), of("2.0.0")), (1, 0, 0));
    }
}
