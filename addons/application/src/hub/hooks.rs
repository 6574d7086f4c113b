//! AnsibleJobs before and after a Subscription. Pure.
//! Upstream: multicloud-operators-subscription pkg/controller/mcmhub/ansiblejob.go and hook.go. Ours differs in one
//! thing: whether clusters or the time of a refresh have changed is read from the last job, not from memory, so that a
//! new process decides as the old one did.

use std::{collections::BTreeSet, sync::Arc};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ocm_addon_sdk::{
    kube::{
        Resource, ResourceExt,
        core::{ApiResource, DynamicObject, GroupVersionKind},
    },
    ocm_api::apps::{Subscription, annotations},
};
use serde_json::{Map, Value, json};

/// When a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookType {
    /// Before the Subscription goes to clusters.
    Pre,
    /// When all clusters have it.
    Post,
}

/// What names and inputs of jobs are made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookInputs {
    /// The commit of the source.
    pub commit: String,
    /// What tells one choice of clusters from the next; empty where no object chooses them.
    pub choice_version: String,
    /// The chosen clusters.
    pub clusters: Vec<String>,
}

/// A job of a Subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct HookJob {
    /// Its name.
    pub name: String,
    /// What is to be created; `None` when it is there.
    pub create: Option<Value>,
    /// Whether it has ended well.
    pub is_successful: bool,
}

impl HookType {
    /// As the annotation has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pre => "prehook",
            Self::Post => "posthook",
        }
    }
}

/// The kind of the jobs, which Ansible's operator brings.
pub fn ansible_job() -> ApiResource {
    let kind = GroupVersionKind::gvk("tower.ansible.com", "v1alpha1", "AnsibleJob");
    ApiResource::from_gvk_with_plural(&kind, "ansiblejobs")
}

/// The jobs that are made of `templates`, those that are there included. Without clusters there are none.
///
/// # Errors
/// When a template cannot be told its clusters.
pub fn jobs(
    subscription: &Subscription,
    kind: HookType,
    templates: &[Value],
    present: &[Arc<DynamicObject>],
    inputs: &HookInputs,
) -> Result<Vec<HookJob>, String> {
    if inputs.clusters.is_empty() {
        return Ok(Vec::new());
    }
    let named = templates.iter().filter(|it| it["metadata"]["name"].is_string());
    named.map(|it| job(subscription, kind, it, present, inputs)).collect()
}

fn job(
    subscription: &Subscription,
    kind: HookType,
    template: &Value,
    present: &[Arc<DynamicObject>],
    inputs: &HookInputs,
) -> Result<HookJob, String> {
    let namespace = subscription.namespace().unwrap_or_default();
    let base = template["metadata"]["name"].as_str().unwrap_or_default();
    let of_template = [
        (
            annotations::HOSTING_SUBSCRIPTION,
            format!("{namespace}/{}", subscription.name_any()),
        ),
        (annotations::HOOK_TYPE, kind.as_str().to_owned()),
        (annotations::HOOK_TEMPLATE, format!("{namespace}/{base}")),
    ];
    let is_its = |it: &&Arc<DynamicObject>| {
        let own = it.annotations();
        of_template.iter().all(|(key, value)| own.get(*key) == Some(value))
    };
    let all: Vec<_> = present.iter().filter(is_its).collect();
    let last = all.iter().max_by_key(|it| (it.creation_timestamp(), it.name_any()));
    let generation = subscription.metadata.generation.unwrap_or_default();
    let refresh = subscription.annotation(annotations::MANUAL_REFRESH_TIME);
    let first = match refresh {
        Some(time) => short_hash(time),
        None => inputs.commit.chars().take(HASH_LENGTH).collect(),
    };
    let mut name = format!("{base}-{generation}-{first}");
    if let Some(last) = last {
        let stays = HookJob {
            name: last.name_any(),
            create: None,
            is_successful: is_successful(last),
        };
        let is_refreshed = refresh.is_some() && stays.name != name && !all.iter().any(|it| it.name_any() == name);
        let has_moved = targets(&last.data) != inputs.clusters.iter().map(String::as_str).collect();
        if !stays.is_successful || !(is_refreshed || has_moved) {
            return Ok(stays);
        }
        if !is_refreshed && all.iter().any(|it| it.name_any() == name) {
            let choice = match inputs.choice_version.as_str() {
                "" => short_hash(&inputs.clusters.join(",")),
                version => version.to_owned(),
            };
            name = format!("{base}-{generation}-{choice}");
        }
        // The same clusters were chosen before, and the job for them is there.
        if all.iter().any(|it| it.name_any() == name) {
            return Ok(stays);
        }
    }
    for (field, value) in [
        ("spec", &template["spec"]),
        ("spec.extra_vars", &template["spec"]["extra_vars"]),
    ] {
        if !value.is_null() && !value.is_object() {
            return Err(format!("{field} of AnsibleJob {base} is no map"));
        }
    }
    let owner = subscription.owner_ref(&());
    let mut metadata = json!({
        "name": name, "namespace": namespace, "ownerReferences": owner.into_iter().collect::<Vec<_>>(),
        "annotations": template["metadata"]["annotations"],
    });
    let all = map(&mut metadata["annotations"]);
    all.extend(of_template.map(|(key, value)| (key.to_owned(), value.into())));
    if template["metadata"]["labels"].is_object() {
        metadata["labels"] = template["metadata"]["labels"].clone();
    }
    let mut object = template.clone();
    let fields = map(&mut object);
    fields.insert("metadata".to_owned(), metadata);
    fields.remove("status");
    let spec = map(fields.entry("spec").or_insert(Value::Null));
    if let Some(secret) = &subscription.spec.hooksecretref {
        spec.insert("tower_auth_secret".to_owned(), json!(secret.name));
    }
    let variables = map(spec.entry("extra_vars").or_insert(Value::Null));
    variables.insert("target_clusters".to_owned(), json!(inputs.clusters));
    Ok(HookJob {
        name,
        create: Some(object),
        is_successful: false,
    })
}

/// What is to be a map, as one: people write templates, and write anything.
fn map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made one")
}

/// So many characters of a hash are in names.
const HASH_LENGTH: usize = 6;

fn short_hash(text: &str) -> String {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    let hex = hash.as_ref().iter().map(|it| format!("{it:02x}")).collect::<String>();
    hex.chars().take(HASH_LENGTH).collect()
}

fn is_successful(job: &DynamicObject) -> bool {
    let status = job.data["status"]["ansibleJobResult"]["status"].as_str();
    status.is_some_and(|it| it.eq_ignore_ascii_case("successful"))
}

fn targets(data: &Value) -> BTreeSet<&str> {
    let all = data["spec"]["extra_vars"]["target_clusters"].as_array();
    all.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Jobs as `status.ansiblejobs` tells them.
pub fn told(namespace: &str, jobs: &[HookJob]) -> String {
    let all: Vec<_> = jobs.iter().map(|it| format!("{namespace}/{}", it.name)).collect();
    all.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(refresh: &str) -> Subscription {
        let annotations = json!({annotations::MANUAL_REFRESH_TIME: refresh});
        let metadata = json!({"name": "s", "namespace": "ns", "uid": "u", "generation": 2, "annotations": annotations});
        let spec = json!({"channel": "c/c", "hooksecretref": {"name": "tower"}});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn inputs(clusters: &[&str]) -> HookInputs {
        HookInputs {
            commit: "0123456789".to_owned(),
            choice_version: "77".to_owned(),
            clusters: clusters.iter().map(|it| (*it).to_owned()).collect(),
        }
    }

    fn template() -> Value {
        json!({
            "apiVersion": "tower.ansible.com/v1alpha1", "kind": "AnsibleJob",
            "metadata": {"name": "job", "namespace": "other"},
            "spec": {"job_template_name": "t", "extra_vars": {"a": 1}}, "status": {},
        })
    }

    fn made(subscription: &Subscription, present: &[Arc<DynamicObject>], clusters: &[&str]) -> HookJob {
        jobs(subscription, HookType::Pre, &[template()], present, &inputs(clusters))
            .unwrap()
            .remove(0)
    }

    fn there(job: HookJob, status: &str, at: &str) -> Arc<DynamicObject> {
        let mut object = job.create.unwrap();
        object["metadata"]["creationTimestamp"] = at.into();
        object["status"] = json!({"ansibleJobResult": {"status": status}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_job_is_told_its_clusters_and_its_subscription() {
        let job = made(&subscription(""), &[], &["c1", "c2"]);
        let expected = json!({
            "apiVersion": "tower.ansible.com/v1alpha1", "kind": "AnsibleJob",
            "metadata": {
                "name": "job-2-012345", "namespace": "ns",
                "annotations": {
                    annotations::HOSTING_SUBSCRIPTION: "ns/s", annotations::HOOK_TYPE: "prehook",
                    annotations::HOOK_TEMPLATE: "ns/job",
                },
                "ownerReferences": [{
                    "apiVersion": "apps.open-cluster-management.io/v1", "kind": "Subscription", "name": "s", "uid": "u",
                }],
            },
            "spec": {
                "job_template_name": "t", "tower_auth_secret": "tower",
                "extra_vars": {"a": 1, "target_clusters": ["c1", "c2"]},
            },
        });
        assert_eq!(job.create, Some(expected));
        assert!(
            jobs(&subscription(""), HookType::Pre, &[template()], &[], &inputs(&[]))
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn a_new_job_waits_for_the_last_one() {
        let none = subscription("");
        let first = there(made(&none, &[], &["c1"]), "running", "2026-01-01T00:00:00Z");
        let runs = made(&none, std::slice::from_ref(&first), &["c1", "c2"]);
        assert_eq!(
            (runs.name.as_str(), runs.create.is_none(), runs.is_successful),
            ("job-2-012345", true, false)
        );
        let first = there(made(&none, &[], &["c1"]), "Successful", "2026-01-01T00:00:00Z");
        assert!(made(&none, std::slice::from_ref(&first), &["c1"]).is_successful);
        let moved = made(&none, std::slice::from_ref(&first), &["c1", "c2"]);
        assert_eq!((moved.name.as_str(), moved.create.is_some()), ("job-2-77", true));
        let second = there(moved, "successful", "2026-01-01T00:01:00Z");
        let both = made(&none, &[first, second], &["c1", "c2"]);
        assert_eq!((both.name.as_str(), both.is_successful), ("job-2-77", true));
    }

    #[test]
    fn a_refresh_by_hand_makes_a_job() {
        let first = there(
            made(&subscription(""), &[], &["c1"]),
            "successful",
            "2026-01-01T00:00:00Z",
        );
        let refreshed = made(&subscription("noon"), std::slice::from_ref(&first), &["c1"]);
        assert_eq!(refreshed.name, format!("job-2-{}", short_hash("noon")));
        let second = there(refreshed, "successful", "2026-01-01T00:01:00Z");
        let stays = made(&subscription("noon"), &[first, second], &["c1"]);
        assert!(stays.create.is_none() && stays.is_successful);
    }

    #[test]
    fn a_template_that_cannot_be_told_clusters_is_refused() {
        let made = |template: Value| jobs(&subscription(""), HookType::Post, &[template], &[], &inputs(&["c1"]));
        let bare = made(json!({"metadata": {"name": "n", "annotations": [1], "labels": "x"}}))
            .unwrap()
            .remove(0);
        let spec = json!({"tower_auth_secret": "tower", "extra_vars": {"target_clusters": ["c1"]}});
        assert_eq!(bare.create.unwrap()["spec"], spec);
        let why = |it: &str| Err(format!("{it} of AnsibleJob n is no map"));
        assert_eq!(made(json!({"metadata": {"name": "n"}, "spec": "y"})), why("spec"));
        let text = json!({"metadata": {"name": "n"}, "spec": {"extra_vars": "a: b"}});
        assert_eq!(made(text), why("spec.extra_vars"));
    }

    #[test]
    fn a_hash_is_that_of_sha1() {
        assert_eq!(short_hash("abc"), "a9993e");
    }
}
