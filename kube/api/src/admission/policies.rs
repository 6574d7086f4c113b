//! Asks the ValidatingAdmissionPolicies in force about a write: what must be true of it, as expressions.

use super::{
    expressions::{self, Holds, MatchCondition},
    failure_policy::FailurePolicy,
    policy::{Formula, Policy, PolicyBinding, Validation},
    webhooks::WebhookRequest,
};
use crate::{convert, group_version::split_api_version, registry::Resource};
use kube_store::{selector::LabelSelector, status::Status};
use safe_cel::{
    Budget, Context, Error, Value as Cel, from_json,
    language::objects::{Key, Map},
};
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// What a policy has against a write.
struct Objection {
    message: String,
    reason: &'static str,
}

/// Asks the policies in force about a write.
///
/// # Errors
/// The status of the first that denies it.
pub async fn validate(
    passage: &WebhookRequest<'_>,
    object: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let mut denied = Ok(());
    for policy in passage.hooks.policies.values() {
        let write = passage.write;
        let Some(version) = policy.constraints.version(write) else {
            continue;
        };
        let store = &passage.server.store;
        if !policy.constraints.selects(write, store, passage.old, object) {
            continue;
        }
        for binding in passage.hooks.bindings.values().filter(|it| it.policy == policy.name) {
            let within = &binding.constraints;
            let is_bound = (within.has_no_rules() || within.version(write).is_some())
                && within.selects(write, store, passage.old, object);
            if !is_bound {
                continue;
            }
            for it in judge(passage, policy, binding, version, object).await? {
                let by = format!(
                    "ValidatingAdmissionPolicy '{}' with binding '{}'",
                    policy.name, binding.name
                );
                if binding.warn {
                    warnings.push(format!("Validation failed for {by}: {}", it.message));
                }
                if binding.deny && denied.is_ok() {
                    denied = Err(denial(
                        passage,
                        &format!("{by} denied request: {}", it.message),
                        it.reason,
                    ));
                }
            }
        }
    }
    denied
}

fn denial(passage: &WebhookRequest<'_>, message: &str, reason: &'static str) -> Status {
    let mut status = passage.write.forbidden(message);
    status.reason = reason;
    status.code = match reason {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    if let Some(details) = &mut status.details {
        details["causes"] = json!([{"message": message}]);
    }
    status
}

/// What a policy under one binding has against a write.
async fn judge(
    passage: &WebhookRequest<'_>,
    policy: &Policy,
    binding: &PolicyBinding,
    version: &str,
    object: Option<&Value>,
) -> Result<Vec<Objection>, Status> {
    let failed = |message: String| match policy.failure {
        FailurePolicy::Ignore => Vec::new(),
        FailurePolicy::Fail => vec![Objection {
            message,
            reason: "Invalid",
        }],
    };
    let params = match params(passage, policy, binding).await {
        Ok(params) => params,
        Err(why) => return Ok(failed(format!("failed to configure binding: {why}"))),
    };
    let (old, object) = (
        passage.in_version(version, passage.old).await?,
        passage.in_version(version, object).await?,
    );
    let rbac = &passage.server.rbac;
    let mut context = expressions::context(passage.write, version, old.as_deref(), object.as_deref(), rbac);
    // Conditions may name it, and a real API server has it empty there.
    context.add_variable_from_value("namespaceObject", from_json(&json!({})));
    let namespace = namespace(passage);
    let mut objections = Vec::new();
    let mut budget = Budget::of_object();
    for param in params {
        let mut context = context.new_inner_scope();
        context.add_variable_from_value("params", from_json(&param));
        match MatchCondition::all_hold(&policy.conditions, &context) {
            Holds::Yes => {}
            Holds::No => continue,
            Holds::Unknown(why) => {
                objections.extend(failed(why));
                continue;
            }
        }
        context.add_variable_from_value("namespaceObject", namespace.clone());
        let mut evaluation = Evaluation {
            policy,
            context,
            variables: HashMap::new(),
        };
        for validation in &policy.validations {
            match evaluation.evaluate(&validation.formula, &mut budget) {
                Ok(Cel::Bool(true)) => {}
                Ok(Cel::Bool(false)) => objections.push(Objection {
                    message: evaluation.message(validation, &mut budget),
                    reason: validation.reason,
                }),
                Ok(_) => objections.extend(failed("expression must evaluate to bool".to_owned())),
                Err(why) => objections.extend(failed(why)),
            }
        }
    }
    Ok(objections)
}

fn namespace(passage: &WebhookRequest<'_>) -> Cel {
    let write = passage.write;
    if write.namespace.is_empty() || !write.resource.namespaced {
        return Cel::Null;
    }
    match passage.server.store.newest("namespaces", "", write.namespace) {
        Some(namespace) => from_json(&namespace.value()),
        None => Cel::Null,
    }
}

/// One policy on one object with one parameter.
struct Evaluation<'a> {
    policy: &'a Policy,
    context: Context<'a>,
    /// What its variables are, as far as something used them.
    variables: HashMap<&'a str, Result<Cel, String>>,
}

impl<'a> Evaluation<'a> {
    fn evaluate(&mut self, formula: &'a Formula, budget: &mut Budget) -> Result<Cel, String> {
        self.find(&formula.uses, budget);
        self.evaluate_known(formula, budget)
    }

    /// As [`Self::evaluate`], when the variables that are used are known.
    fn evaluate_known(&mut self, formula: &'a Formula, budget: &mut Budget) -> Result<Cel, String> {
        let expression = formula.expression.as_ref().map_err(Clone::clone)?;
        let mut context = self.context.new_inner_scope();
        if !formula.uses.is_empty() {
            let known = formula
                .uses
                .iter()
                .filter_map(|name| match self.variables.get(name.as_str()) {
                    Some(Ok(value)) => Some((Key::from(name.as_str()), value.clone())),
                    _ => None,
                });
            let map = Arc::new(known.collect());
            context.add_variable_from_value("variables", Cel::Map(Map { map }));
        }
        expression.evaluate(&context, budget).map_err(|error| {
            let failed = formula
                .uses
                .iter()
                .find_map(|name| match (self.variables.get(name.as_str()), &error) {
                    (Some(Err(why)), Error::Failed(said)) if said.ends_with(&format!(": {name}")) => Some((name, why)),
                    _ => None,
                });
            match failed {
                Some((name, why)) => format!(
                    "expression '{}' resulted in error: composited variable {name:?} fails to evaluate: {why}",
                    formula.text
                ),
                None => expressions::said(&formula.text, &error),
            }
        })
    }

    /// Evaluates the variables that are used and not known, and those that these use. A variable sees only those before
    /// it, so that one look from the last to the first finds all, however long the chain is.
    fn find(&mut self, uses: &'a [String], budget: &mut Budget) {
        let policy = self.policy;
        let mut used: HashSet<&str> = uses.iter().map(String::as_str).collect();
        if used.is_empty() {
            return;
        }
        let mut needed = Vec::new();
        for (name, formula) in policy.variables.iter().rev() {
            if used.contains(name.as_str()) && !self.variables.contains_key(name.as_str()) {
                used.extend(formula.uses.iter().map(String::as_str));
                needed.push((name, formula));
            }
        }
        for (name, formula) in needed.into_iter().rev() {
            let value = self.evaluate_known(formula, budget);
            self.variables.insert(name, value);
        }
    }

    fn message(&mut self, validation: &'a Validation, budget: &mut Budget) -> String {
        let from_expression = validation.message_expression.as_ref().and_then(|formula| {
            let value = self.evaluate(formula, budget).ok()?;
            let Cel::String(text) = value else { return None };
            let text = text.trim();
            (!text.is_empty() && !text.contains('\n') && text.len() <= 5 * 1024).then(|| text.to_owned())
        });
        match from_expression {
            Some(text) => text,
            None if validation.message.is_empty() => format!("failed expression: {}", validation.formula.text),
            None => validation.message.clone(),
        }
    }
}

/// The parameters of a policy under a binding: `null` where there is none to be.
async fn params(passage: &WebhookRequest<'_>, policy: &Policy, binding: &PolicyBinding) -> Result<Vec<Value>, String> {
    let Some((api_version, kind)) = &policy.params else {
        return Ok(vec![Value::Null]);
    };
    let reference = &binding.param;
    if reference.is_null() {
        return Ok(vec![Value::Null]);
    }
    let resource = passage.server.registry.load().by_kind(api_version, kind).cloned();
    let Some(resource) = resource else {
        return Err(format!(
            "failed to find resource referenced by paramKind: '{api_version}, Kind={kind}'"
        ));
    };
    let namespace = match reference["namespace"].as_str().filter(|it| !it.is_empty()) {
        Some(_) if !resource.namespaced => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        Some(namespace) => namespace,
        None if resource.namespaced && passage.write.namespace.is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned(),
            );
        }
        None if resource.namespaced => passage.write.namespace,
        None => "",
    };
    let found = found(passage, &resource, api_version, reference, namespace).await?;
    if found.is_empty() && reference["parameterNotFoundAction"] != "Allow" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found)
}

async fn found(
    passage: &WebhookRequest<'_>,
    resource: &Arc<Resource>,
    api_version: &str,
    reference: &Value,
    namespace: &str,
) -> Result<Vec<Value>, String> {
    let store = &passage.server.store;
    let version = split_api_version(api_version).1;
    let objects = match reference["name"].as_str().filter(|it| !it.is_empty()) {
        Some(name) => store.newest(&resource.id, namespace, name).into_iter().collect(),
        None => {
            let selector =
                LabelSelector::from_json(&reference["selector"]).unwrap_or_else(|_| LabelSelector::nothing());
            let (mut objects, _) = store.list(&resource.id, namespace);
            objects.retain(|it| selector.matches(&**it));
            objects
        }
    };
    let prepared = convert::prepare(resource, version, &objects).await;
    prepared.map_err(|it| it.message)?;
    let values = objects.iter().map(|it| convert::ready_value(resource, version, it));
    Ok(values.collect())
}
