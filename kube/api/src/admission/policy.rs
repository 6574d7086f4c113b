//! ValidatingAdmissionPolicy and its bindings: what must be true of a write, as expressions.

use super::{
    configuration::Failure,
    expressions::{self, Condition, Holds},
    rules::Constraints,
    webhooks::WebhookRequest,
};
use crate::{convert, registry::Resource};
use kube_store::{selector::LabelSelector, status::Status};
use safe_cel::{
    Budget, Context, Error, Expression, IdedExpr, Tree, Value as Cel, for_each_child, from_json,
    language::{
        common::ast::Expr,
        objects::{Key, Map},
    },
};
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// What the expressions of a policy may name.
pub const VARIABLES: &[&str] = &[
    "object",
    "oldObject",
    "request",
    "authorizer",
    "params",
    "namespaceObject",
    "variables",
];

/// What the conditions of a policy may name: they are asked before its variables are looked at.
pub const CONDITION_VARIABLES: &[&str] = &[
    "object",
    "oldObject",
    "request",
    "authorizer",
    "params",
    "namespaceObject",
];

/// What the messages of a policy may name: they tell nothing of who may do what.
pub const MESSAGE_VARIABLES: &[&str] = &[
    "object",
    "oldObject",
    "request",
    "params",
    "namespaceObject",
    "variables",
];

/// An expression and the variables of the policy that it uses, by name.
#[derive(Debug)]
struct Formula {
    text: String,
    expression: Result<Expression, String>,
    uses: Vec<String>,
}

impl Formula {
    fn read(text: &Value) -> Self {
        let text = text.as_str().unwrap_or_default().trim().to_owned();
        let tree = expressions::library().read(&text, VARIABLES);
        let mut uses = Vec::new();
        if let Ok(tree) = &tree {
            tree.look(|it| variables_of(it, &mut uses));
        }
        Self {
            expression: tree.map(Tree::compile).map_err(|it| it.to_string()),
            text,
            uses,
        }
    }

    fn read_some(text: &Value) -> Option<Self> {
        text.as_str().filter(|it| !it.is_empty()).map(|_| Self::read(text))
    }
}

/// The names after `variables.`.
pub fn variables_of(it: &IdedExpr, found: &mut Vec<String>) {
    if let Expr::Select(select) = &it.expr
        && matches!(&select.operand.expr, Expr::Ident(name) if name == "variables")
        && !found.contains(&select.field)
    {
        found.push(select.field.clone());
    }
    for_each_child(it, &mut |it| variables_of(it, found));
}

#[derive(Debug)]
struct Validation {
    formula: Formula,
    message: String,
    message_expression: Option<Formula>,
    reason: &'static str,
}

/// A ValidatingAdmissionPolicy, compiled.
#[derive(Debug)]
pub struct Policy {
    name: String,
    pub constraints: Constraints,
    conditions: Vec<Condition>,
    /// In order: one may use those before it.
    variables: Vec<(String, Formula)>,
    validations: Vec<Validation>,
    failure: Failure,
    /// apiVersion and kind.
    params: Option<(String, String)>,
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl Policy {
    /// Reads a policy that was accepted.
    pub fn read(policy: &Value) -> Self {
        let spec = &policy["spec"];
        let reason = |it: &Value| match it["reason"].as_str() {
            Some("Forbidden") => "Forbidden",
            Some("RequestEntityTooLarge") => "RequestEntityTooLarge",
            _ => "Invalid",
        };
        Self {
            name: text(&policy["metadata"], "name"),
            constraints: Constraints::of_policy(&spec["matchConstraints"]),
            conditions: Condition::read_all(&spec["matchConditions"], CONDITION_VARIABLES),
            variables: items(&spec["variables"])
                .map(|it| (text(it, "name"), Formula::read(&it["expression"])))
                .collect(),
            validations: items(&spec["validations"])
                .map(|it| Validation {
                    formula: Formula::read(&it["expression"]),
                    message: text(it, "message").trim().to_owned(),
                    message_expression: Formula::read_some(&it["messageExpression"]),
                    reason: reason(it),
                })
                .collect(),
            failure: Failure::read(spec),
            params: spec["paramKind"]
                .as_object()
                .map(|_| (text(&spec["paramKind"], "apiVersion"), text(&spec["paramKind"], "kind"))),
        }
    }
}

/// A ValidatingAdmissionPolicyBinding.
#[derive(Debug)]
pub struct Binding {
    name: String,
    policy: String,
    constraints: Constraints,
    deny: bool,
    warn: bool,
    param: Value,
}

impl Binding {
    /// Reads a binding that was accepted.
    pub fn read(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let acts = |wanted: &str| items(&spec["validationActions"]).any(|it| it == wanted);
        Self {
            name: text(&binding["metadata"], "name"),
            policy: text(spec, "policyName"),
            constraints: Constraints::of_policy(&spec["matchResources"]),
            deny: acts("Deny"),
            warn: acts("Warn"),
            param: spec["paramRef"].clone(),
        }
    }
}

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
    binding: &Binding,
    version: &str,
    object: Option<&Value>,
) -> Result<Vec<Objection>, Status> {
    let failed = |message: String| match policy.failure {
        Failure::Ignore => Vec::new(),
        Failure::Fail => vec![Objection {
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
        match Condition::all_hold(&policy.conditions, &context) {
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

    /// Evaluates the variables that are used and not known, and those that these use. A variable sees only those before it, so
    /// that one look from the last to the first finds all, however long the chain is.
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
async fn params(passage: &WebhookRequest<'_>, policy: &Policy, binding: &Binding) -> Result<Vec<Value>, String> {
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
    let version = crate::registry::split_api_version(api_version).1;
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
