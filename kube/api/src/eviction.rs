//! Evictions: a pod is deleted if the disruption budget over it, as its status says, allows one less. Upstream:
//! pkg/registry/core/pod/storage/eviction.go. Nobody here works budgets' statuses out; whoever does writes them.

use crate::{
    call::Call,
    identity::{MASTERS, User},
    object_meta,
    options::{DeleteOptions, WriteOptions},
    request::Query,
    verbs::{delete, update},
};
use kube_store::{Object, selector::LabelSelector, status::Status};
use serde_json::{Value, json};
use std::sync::Arc;

const BUDGETS: &str = "poddisruptionbudgets.policy";
/// As a real API server names itself.
const USER: &str = "system:apiserver";
const MANAGER: &str = "kube-apiserver";
/// Evictions that a budget's controller has not noticed yet: with more of them nobody knows what is left of the pods.
const UNNOTICED_MAX: usize = 2000;

/// How a pod may go.
enum Leave {
    /// It disrupts nothing, or its budget has been told.
    Freely,
    /// Only as it was looked at: once it is healthy, its budget counts.
    AsSeen,
}

/// Deletes the pod of the call.
///
/// # Errors
/// 404, 409 when a precondition fails, 429 when its budget does not allow it, 500 when it has several.
pub async fn evict(call: &mut Call<'_>, asked: &DeleteOptions) -> Result<(), Status> {
    loop {
        let pod = call.newest()?;
        let value = pod.value();
        let (leave, budget) = match phase(&value) {
            _ if pod.terminating => (Leave::Freely, None),
            "Succeeded" | "Failed" => (Leave::Freely, None),
            "Pending" => (Leave::AsSeen, None),
            _ => match budget_of(call, &pod)? {
                None => (Leave::Freely, None),
                Some(budget) => (ask(call, &value, budget.clone(), asked.dry_run).await?, Some(budget)),
            },
        };
        let mut options = asked.clone();
        let guarded = options.resource_version.is_some();
        if matches!(leave, Leave::AsSeen) && !guarded {
            options.resource_version = Some(pod.revision.to_string());
        }
        match (remove(call, &mut options).await, budget) {
            (Err(it), budget) if it.code == 409 && matches!(leave, Leave::AsSeen) && !guarded => {
                // It changed meanwhile. Is it still the one that was asked for?
                delete::check_preconditions(call, &*call.newest()?, asked)?;
                if let Some(budget) = budget {
                    return Err(not_looked_at(&budget.name));
                }
            }
            (result, _) => return result,
        }
    }
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

/// The one budget that selects a pod.
fn budget_of(call: &Call<'_>, pod: &Object) -> Result<Option<Arc<Object>>, Status> {
    let value = pod.value();
    let labels = &value["metadata"]["labels"];
    let (all, _) = call.server.store.list(BUDGETS, &call.namespace);
    let mut selecting = all
        .into_iter()
        .filter(|it| LabelSelector::from_json(&it.value()["spec"]["selector"]).is_ok_and(|it| it.matches(labels)));
    let first = selecting.next();
    if selecting.next().is_some() {
        let message =
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Status::new(500, "", message));
    }
    Ok(first)
}

/// Asks a budget for one pod, and notes in it that the pod goes.
async fn ask(call: &Call<'_>, pod: &Value, mut budget: Arc<Object>, dry_run: bool) -> Result<Leave, Status> {
    let conditions = pod["status"]["conditions"].as_array();
    let is_ready = conditions
        .into_iter()
        .flatten()
        .any(|it| it["type"] == "Ready" && it["status"] == "True");
    if !is_ready {
        let value = budget.value();
        let count = |key: &str| value["status"][key].as_i64().unwrap_or_default();
        let is_kept = count("currentHealthy") >= count("desiredHealthy") && count("desiredHealthy") > 0;
        if value["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || is_kept {
            return Ok(Leave::AsSeen);
        }
    }
    loop {
        let after = with_one_less(&budget, &call.name, call.now)?;
        if dry_run {
            return Ok(Leave::Freely);
        }
        match note(call, &budget.name, after).await {
            // Somebody else wrote it meanwhile: what it says now counts.
            Err(status) if status.code == 409 => {
                let newest = call.server.store.newest(BUDGETS, &call.namespace, &budget.name);
                budget = newest.ok_or(status)?;
            }
            other => return other.map(|()| Leave::Freely),
        }
    }
}

/// The budget after one more pod has gone, if it allows that.
fn with_one_less(budget: &Object, pod: &str, now: jiff::Timestamp) -> Result<Value, Status> {
    let mut value = budget.value();
    let name = &*budget.name;
    let generation = value["metadata"]["generation"].as_i64().unwrap_or_default();
    let status = &value["status"];
    let count = |key: &str| status[key].as_i64().unwrap_or_default();
    if count("observedGeneration") < generation {
        return Err(not_looked_at(name));
    }
    let forbidden = |why: &str| Err(Status::forbidden("poddisruptionbudget", "policy", name, why));
    let allowed = count("disruptionsAllowed");
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if status["disruptedPods"]
        .as_object()
        .is_some_and(|it| it.len() > UNNOTICED_MAX)
    {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        return Err(refusal(&why_none(name, status), None));
    }
    let at = object_meta::seconds(now);
    let observed = status["observedGeneration"].clone();
    let status = &mut value["status"];
    status["disruptionsAllowed"] = (allowed - 1).into();
    status["disruptedPods"][pod] = at.clone().into();
    if allowed == 1 {
        set_condition(
            status,
            json!({"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
                "observedGeneration": observed}),
            at,
        );
    }
    Ok(value)
}

/// Which of its reasons a budget has for allowing nothing.
fn why_none(name: &str, status: &Value) -> String {
    let count = |key: &str| status[key].as_i64().unwrap_or_default();
    let (wanted, healthy) = (count("desiredHealthy"), count("currentHealthy"));
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    let said = conditions
        .find(|it| it["type"] == "DisruptionAllowed")
        .filter(|it| it["status"] == "False")
        .map(|it| (text(it, "reason"), text(it, "message")))
        .filter(|it| !it.1.is_empty());
    let holds = format!("The disruption budget {name} does not allow evicting pods currently");
    match said {
        // Where that failed, the counts are not to be trusted.
        Some((reason, message)) if reason == "SyncFailed" => {
            format!("{holds} because it failed sync: {message}")
        }
        _ if healthy <= wanted => {
            format!("The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => format!("{holds} ({reason}): {message}"),
        None => holds,
    }
}

fn not_looked_at(budget: &str) -> Status {
    let why = format!("The disruption budget {budget} is still being processed by the server.");
    refusal(&why, Some(10))
}

fn refusal(why: &str, retry_after_seconds: Option<u32>) -> Status {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": why}]});
    if let Some(seconds) = retry_after_seconds {
        details["retryAfterSeconds"] = seconds.into();
    }
    Status {
        details: Some(Box::new(details)),
        retry_after_seconds,
        ..Status::new(429, "TooManyRequests", message)
    }
}

/// Writes a budget's status as the server itself.
async fn note(call: &Call<'_>, name: &str, budget: Value) -> Result<(), Status> {
    let registry = call.server.registry.load();
    let resource = registry.by_id(BUDGETS).cloned().ok_or_else(Status::no_such_resource)?;
    let mut own = Call {
        server: call.server,
        user: User::new(USER, &[MASTERS]),
        version: resource
            .spoken_version()
            .ok_or_else(Status::no_such_resource)?
            .to_owned(),
        namespace: call.namespace.clone(),
        name: name.to_owned(),
        subresource: "status".to_owned(),
        query: Query::default(),
        user_agent: MANAGER.to_owned(),
        now: call.now,
        warnings: Vec::new(),
        party: None,
        resource,
    };
    let options = WriteOptions {
        field_manager: MANAGER.to_owned(),
        ..WriteOptions::default()
    };
    Box::pin(update::update(&mut own, budget, &options)).await.map(|_| ())
}

/// Says in the pod why it goes, and deletes it. Admission has been asked about the eviction,
/// and is not about the deletion.
async fn remove(call: &mut Call<'_>, options: &mut DeleteOptions) -> Result<(), Status> {
    if !options.dry_run {
        loop {
            let pod = call.newest()?;
            delete::check_preconditions(call, &pod, options)?;
            let mut value = pod.value();
            let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting"});
            set_condition(&mut value["status"], condition, object_meta::seconds(call.now));
            if value == pod.value() {
                break;
            }
            if let Some((revision, _)) = delete::commit(call, &pod, Some(value))? {
                call.server.durable(revision).await?;
                if options.resource_version.is_some() {
                    options.resource_version = Some(revision.to_string());
                }
                break;
            }
        }
    }
    delete::delete_unasked(call, options).await.map(|_| ())
}

/// Puts a condition into a status; the time is that of its last change of mind.
fn set_condition(status: &mut Value, mut condition: Value, now: String) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(all) = status["conditions"].as_array_mut() else {
        return;
    };
    condition["lastTransitionTime"] = now.into();
    match all.iter_mut().find(|it| it["type"] == condition["type"]) {
        Some(old) => {
            if old["status"] == condition["status"] {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => all.push(condition),
    }
}
