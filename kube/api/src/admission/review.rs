//! One exchange with a webhook: `AdmissionReview` out and back.

use super::{attributes::AdmissionAttributes, configuration::AdmissionWebhook, failure_policy::FailurePolicy};
use crate::context::ServerContext;
use base64::{Engine, engine::general_purpose::STANDARD};
use kube_store::status::Status;
use serde_json::{Value, json};

/// The JSON patch of a mutating webhook that allows something.
pub type Patch = Option<Vec<u8>>;

/// Whether a webhook may change the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Mutating,
    Validating,
}

/// The objects of a write in the version that a webhook wants.
pub struct ReviewedObjects<'a> {
    pub object: Option<&'a Value>,
    pub old: Option<&'a Value>,
}

/// Why a webhook did not allow something.
enum Refusal {
    Denied(Status),
    /// It could not be asked, or made no sense.
    Failed(String),
}

/// Asks a webhook: its warnings, which are the client's whatever it says, and its answer. One that could not be asked
/// allows, if its policy is to go on then, and otherwise is a 500.
pub async fn ask(
    server: &ServerContext,
    webhook: &AdmissionWebhook,
    role: Role,
    write: &AdmissionAttributes<'_>,
    version: &str,
    objects: ReviewedObjects<'_>,
) -> (Vec<String>, Result<Patch, Status>) {
    if write.is_dry_run() && !webhook.allows_dry_run {
        let text = format!("admission webhook {:?} does not support dry run", webhook.name);
        return (Vec::new(), Err(Status::bad_request(text)));
    }
    let mut warnings = Vec::new();
    let answer = match exchange(server, webhook, role, write, version, objects, &mut warnings).await {
        Ok(patch) => Ok(patch),
        Err(Refusal::Denied(status)) => Err(status),
        Err(Refusal::Failed(why)) => match webhook.failure {
            FailurePolicy::Ignore => {
                tracing::warn!(webhook = %webhook.name, %why, "a webhook could not be asked, and its policy is to go on");
                Ok(None)
            }
            FailurePolicy::Fail => Err(failed(&webhook.name, &why)),
        },
    };
    (warnings, answer)
}

/// The 500 of a webhook that could not be asked.
fn failed(name: &str, why: &str) -> Status {
    internal(&format!("failed calling webhook {name:?}: {why}"))
}

/// 500 with its cause, as admission answers it.
pub fn internal(text: &str) -> Status {
    Status {
        details: Some(Box::new(json!({"causes": [{"message": text}]}))),
        ..Status::internal(text)
    }
}

async fn exchange(
    server: &ServerContext,
    webhook: &AdmissionWebhook,
    role: Role,
    write: &AdmissionAttributes<'_>,
    version: &str,
    objects: ReviewedObjects<'_>,
    warnings: &mut Vec<String>,
) -> Result<Patch, Refusal> {
    let target = webhook.target.as_ref().map_err(|it| Refusal::Failed(it.clone()))?;
    let uid = uuid::Uuid::new_v4().to_string();
    let api_version = webhook.review_version.text();
    let mut request = write.request(&uid, version);
    request["object"] = objects.object.cloned().unwrap_or_default();
    request["oldObject"] = objects.old.cloned().unwrap_or_default();
    let review = json!({"kind": "AdmissionReview", "apiVersion": api_version, "request": request});
    let body = serde_json::to_vec(&review).expect("a JSON value serializes");
    drop(review);
    let answer = server.caller.post(target, body.into(), webhook.timeout).await;
    let answer = answer.map_err(|it| Refusal::Failed(format!("failed to call webhook: {it}")))?;
    for (asked, other) in [("v1", "v1beta1"), ("v1beta1", "v1")] {
        if api_version == format!("admission.k8s.io/{asked}")
            && answer["apiVersion"] == format!("admission.k8s.io/{other}")
        {
            let why = format!("converting ({other}.AdmissionReview) to ({asked}.AdmissionReview): unknown conversion");
            return Err(Refusal::Failed(format!("failed to call webhook: {why}")));
        }
    }
    let invalid = |why: String| Refusal::Failed(format!("received invalid webhook response: {why}"));
    check(&answer, webhook, role, &uid).map_err(invalid)?;
    let response = &answer["response"];
    let said = response["warnings"].as_array().into_iter().flatten();
    warnings.extend(said.filter_map(|it| it.as_str().map(str::to_owned)));
    if response["allowed"] != true {
        return Err(Refusal::Denied(denied(&webhook.name, &response["status"])));
    }
    let Some(text) = response["patch"].as_str().filter(|it| !it.is_empty()) else {
        return Ok(None);
    };
    if let Some(other) = response["patchType"].as_str().filter(|it| *it != "JSONPatch") {
        return Err(Refusal::Failed(format!("unsupported patch type {other:?}")));
    }
    let patch = STANDARD.decode(text);
    let patch =
        patch.map_err(|it| Refusal::Failed(format!("received invalid webhook response: illegal base64 data: {it}")))?;
    Ok(Some(patch))
}

/// Whether the answer answers the question.
fn check(answer: &Value, webhook: &AdmissionWebhook, role: Role, uid: &str) -> Result<(), String> {
    use super::configuration::ReviewVersion;
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let response = &answer["response"];
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    if webhook.review_version == ReviewVersion::V1beta1 {
        return Ok(());
    }
    let shown = text(&response["uid"]);
    if shown != uid {
        return Err(format!("expected response.uid={uid:?}, got {shown:?}"));
    }
    let (api_version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
    if (api_version.as_str(), kind.as_str()) != ("admission.k8s.io/v1", "AdmissionReview") {
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {}, Kind={kind}",
            if api_version.is_empty() { "/" } else { &api_version }
        ));
    }
    let has_patch = response["patch"].as_str().is_some_and(|it| !it.is_empty());
    let has_type = response["patchType"].is_string();
    match (role, has_patch, has_type) {
        (Role::Validating, true, _) => Err("validating webhook may not return response.patch".to_owned()),
        (Role::Validating, _, true) => Err("validating webhook may not return response.patchType".to_owned()),
        (Role::Mutating, true, false) => Err("webhook returned response.patch but not response.patchType".to_owned()),
        (Role::Mutating, false, true) => Err("webhook returned response.patchType but not response.patch".to_owned()),
        _ => Ok(()),
    }
}

/// The status of a denial: the webhook's own, with who says it.
fn denied(name: &str, status: &Value) -> Status {
    let by = format!("admission webhook {name:?} denied the request");
    let text = |key: &str| status[key].as_str().filter(|it| !it.is_empty());
    let message = match (text("message"), text("reason")) {
        (Some(text), _) | (None, Some(text)) => format!("{by}: {text}"),
        (None, None) => format!("{by} without explanation"),
    };
    let code = status["code"].as_u64().and_then(|it| u16::try_from(it).ok());
    Status {
        details: status["details"].as_object().map(|it| Box::new(it.clone().into())),
        ..Status::new(
            code.filter(|it| (400..600).contains(it)).unwrap_or(400),
            known_reason(text("reason").unwrap_or_default()),
            message,
        )
    }
}

/// A reason as ours are kept: for ever. So there is room for so many that we do not know, and the rest say none.
fn known_reason(reason: &str) -> &'static str {
    const KNOWN: &[&str] = &[
        "",
        "Unauthorized",
        "Forbidden",
        "NotFound",
        "AlreadyExists",
        "Conflict",
        "Gone",
        "Invalid",
        "ServerTimeout",
        "StoreReadError",
        "Timeout",
        "TooManyRequests",
        "BadRequest",
        "MethodNotAllowed",
        "NotAcceptable",
        "RequestEntityTooLarge",
        "UnsupportedMediaType",
        "InternalError",
        "Expired",
        "ServiceUnavailable",
    ];
    const OTHERS_MAX: usize = 256;
    const LENGTH_MAX: usize = 128;
    static OTHERS: parking_lot::Mutex<Vec<&'static str>> = parking_lot::Mutex::new(Vec::new());
    if let Some(it) = KNOWN.iter().find(|it| **it == reason) {
        return it;
    }
    let mut others = OTHERS.lock();
    if let Some(it) = others.iter().find(|it| **it == reason) {
        return it;
    }
    if others.len() >= OTHERS_MAX || reason.len() > LENGTH_MAX {
        return "";
    }
    let kept: &'static str = Box::leak(reason.to_owned().into_boxed_str());
    others.push(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_says_who_and_with_what_the_webhook_says() {
        let table = [
            (json!(null), "400|| without explanation"),
            (json!({"message": "no way"}), "400||: no way"),
            (json!({"code": 200, "status": "Success", "message": "no"}), "400||: no"),
            (
                json!({"code": 403, "reason": "Forbidden", "message": "no"}),
                "403|Forbidden|: no",
            ),
            (json!({"code": 422, "reason": "Invalid"}), "422|Invalid|: Invalid"),
            (
                json!({"code": 418, "reason": "Teapot", "message": "short"}),
                "418|Teapot|: short",
            ),
        ];
        for (status, wanted) in table {
            let it = denied("a.b.c", &status);
            let message = it
                .message
                .strip_prefix("admission webhook \"a.b.c\" denied the request")
                .unwrap();
            assert_eq!(format!("{}|{}|{message}", it.code, it.reason), wanted);
        }
    }
}
