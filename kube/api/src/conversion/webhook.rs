//! `spec.conversion` with a webhook: `ConversionReview` out and back.

use crate::callout::{Caller, WebhookTarget};
use kube_store::status::Status;
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};

const TIMEOUT: Duration = Duration::from_secs(30);
/// How many objects go in one request. Each is 3 MiB at most, and mostly a thousandth of that.
pub const BATCH: usize = 200;

/// The webhook of one definition.
pub struct Webhook {
    caller: Arc<Caller>,
    target: Result<WebhookTarget, String>,
    /// `apiextensions.k8s.io/v1` or `v1beta1`.
    review_version: &'static str,
    kind: String,
    /// Of the definition: what another one of it made is not what this one makes.
    generation: i64,
}

impl Webhook {
    /// Reads a definition; `None` when it names no webhook.
    pub fn read(crd: &Value, caller: &Arc<Caller>) -> Option<Self> {
        let conversion = &crd["spec"]["conversion"];
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let webhook = &conversion["webhook"];
        let versions = webhook["conversionReviewVersions"].as_array().into_iter().flatten();
        let known = versions.filter_map(|it| match it.as_str() {
            Some("v1") => Some("apiextensions.k8s.io/v1"),
            Some("v1beta1") => Some("apiextensions.k8s.io/v1beta1"),
            _ => None,
        });
        Some(Self {
            caller: caller.clone(),
            target: WebhookTarget::read(&webhook["clientConfig"]),
            review_version: known.into_iter().next().unwrap_or("apiextensions.k8s.io/v1"),
            kind: crd["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned(),
            generation: crd["metadata"]["generation"].as_i64().unwrap_or_default(),
        })
    }

    /// The name under which an object keeps what was made of it.
    pub fn view(&self, version: &str) -> String {
        format!("{version}@{}", self.generation)
    }

    /// Turns objects into `api_version`, in their order.
    ///
    /// # Errors
    /// 500 in the words of Kubernetes.
    pub async fn convert(&self, objects: Vec<Value>, api_version: &str) -> Result<Vec<Value>, Status> {
        let from = objects
            .first()
            .and_then(|it| it["apiVersion"].as_str())
            .unwrap_or_default();
        let failed = format!("conversion webhook for {from}, Kind={}", self.kind);
        let converted = self.exchange(&objects, api_version).await;
        let converted = converted.map_err(|why| Status::new(500, "", format!("{failed} failed: {why}")))?;
        if converted.len() != objects.len() {
            let (got, wanted) = (converted.len(), objects.len());
            let text = format!("{failed} returned {got} objects, expected {wanted}");
            return Err(Status::new(500, "", text));
        }
        let pairs = objects.into_iter().zip(converted).enumerate();
        pairs
            .map(|(at, (before, after))| {
                accept(before, after, api_version).map_err(|why| {
                    let text = format!("{failed} returned invalid converted object at index {at}: {why}");
                    Status::new(500, "", text)
                })
            })
            .collect()
    }

    async fn exchange(&self, objects: &[Value], api_version: &str) -> Result<Vec<Value>, String> {
        let target = self.target.as_ref().map_err(Clone::clone)?;
        let uid = uuid::Uuid::new_v4().to_string();
        let review = json!({
            "kind": "ConversionReview", "apiVersion": self.review_version,
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
            "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
        });
        let body = serde_json::to_vec(&review).expect("a JSON value serializes");
        drop(review);
        let mut answer = self.caller.post(target, body.into(), TIMEOUT).await?;
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
        if (version.as_str(), kind.as_str()) != (self.review_version, "ConversionReview") {
            return Err(format!(
                "expected webhook response of {}, Kind=ConversionReview, got {version}, Kind={kind}",
                self.review_version
            ));
        }
        let response = &mut answer["response"];
        if !response.is_object() {
            return Err("no response provided".to_owned());
        }
        if response["uid"] != uid.as_str() {
            return Err(format!(
                "expected response.uid={uid:?}, got {:?}",
                text(&response["uid"])
            ));
        }
        let result = &response["result"];
        if result["status"] != "Success" {
            let message = text(&result["message"]);
            return Err(if message.is_empty() {
                format!(
                    "response.result.status was '{}', not 'Success'",
                    text(&result["status"])
                )
            } else {
                message
            });
        }
        match response["convertedObjects"].take() {
            Value::Array(objects) => Ok(objects),
            _ => Ok(Vec::new()),
        }
    }
}

/// What a webhook made, with the metadata that there was: it may change labels and annotations only.
fn accept(before: Value, mut after: Value, api_version: &str) -> Result<Value, String> {
    let text = |value: &Value, pointer: &str| {
        let text = value.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let shown = text(&after, "/apiVersion");
    if shown != api_version {
        return Err(format!(
            "invalid groupVersion (expected {api_version}, received {shown})"
        ));
    }
    if !after["metadata"].is_object() {
        return Err("invalid metadata of type nil in converted object".to_owned());
    }
    for (pointer, name) in [
        ("/kind", "kind"),
        ("/metadata/name", "name"),
        ("/metadata/namespace", "namespace"),
        ("/metadata/uid", "UID"),
    ] {
        let (was, is) = (text(&before, pointer), text(&after, pointer));
        if was != is {
            return Err(format!("must have the same {name}: {was} != {is}"));
        }
    }
    let mut metadata = match &before["metadata"] {
        Value::Object(map) => map.clone(),
        _ => Map::new(),
    };
    for key in ["labels", "annotations"] {
        match after["metadata"][key].take() {
            Value::Object(map) if map.values().all(Value::is_string) => {
                metadata.insert(key.to_owned(), map.into());
            }
            Value::Null => {
                metadata.remove(key);
            }
            _ => return Err(format!("invalid metadata.{key}: it is no map of strings")),
        }
    }
    after["metadata"] = metadata.into();
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_metadata_only_labels_and_annotations_are_taken() {
        let before = json!({
            "apiVersion": "a/v1", "kind": "K",
            "metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}, "finalizers": ["f"], "generation": 3},
        });
        let after = json!({
            "apiVersion": "a/v2", "kind": "K",
            "metadata": {"name": "n", "uid": "u", "annotations": {"c": "d"}, "finalizers": [], "generation": 9, "ownerReferences": []},
            "spec": {"x": 1},
        });
        let it = accept(before.clone(), after.clone(), "a/v2").unwrap();
        let metadata =
            json!({"name": "n", "uid": "u", "annotations": {"c": "d"}, "finalizers": ["f"], "generation": 3});
        assert_eq!((&it["metadata"], &it["spec"]["x"]), (&metadata, &json!(1)));
        for (pointer, value, said) in [
            ("/metadata/uid", json!("other"), "must have the same UID: u != other"),
            ("/metadata/name", json!("m"), "must have the same name: n != m"),
            ("/kind", json!("L"), "must have the same kind: K != L"),
            (
                "/apiVersion",
                json!("a/v3"),
                "invalid groupVersion (expected a/v2, received a/v3)",
            ),
            ("/metadata/annotations", json!({"c": 1}), "invalid metadata.annotations"),
        ] {
            let mut wrong = after.clone();
            *wrong.pointer_mut(pointer).unwrap() = value;
            assert!(
                accept(before.clone(), wrong, "a/v2").unwrap_err().starts_with(said),
                "{pointer}"
            );
        }
    }
}
