//! ValidatingAdmissionPolicy and its bindings, compiled; `policies` asks them.

use super::{
    expressions::{self, MatchCondition},
    failure_policy::FailurePolicy,
    rules::Constraints,
};
use safe_cel::{Expression, IdedExpr, Tree, for_each_child, language::common::ast::Expr};
use serde_json::Value;

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
pub struct Formula {
    pub(super) text: String,
    pub(super) expression: Result<Expression, String>,
    pub(super) uses: Vec<String>,
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

/// One of `validations`.
#[derive(Debug)]
pub struct Validation {
    pub(super) formula: Formula,
    pub(super) message: String,
    pub(super) message_expression: Option<Formula>,
    pub(super) reason: &'static str,
}

/// A ValidatingAdmissionPolicy, compiled.
#[derive(Debug)]
pub struct Policy {
    pub(super) name: String,
    pub constraints: Constraints,
    pub(super) conditions: Vec<MatchCondition>,
    /// In order: one may use those before it.
    pub(super) variables: Vec<(String, Formula)>,
    pub(super) validations: Vec<Validation>,
    pub(super) failure: FailurePolicy,
    /// apiVersion and kind.
    pub(super) params: Option<(String, String)>,
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
            conditions: MatchCondition::read_all(&spec["matchConditions"], CONDITION_VARIABLES),
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
            failure: FailurePolicy::read(spec),
            params: spec["paramKind"]
                .as_object()
                .map(|_| (text(&spec["paramKind"], "apiVersion"), text(&spec["paramKind"], "kind"))),
        }
    }
}

/// A ValidatingAdmissionPolicyBinding.
#[derive(Debug)]
pub struct PolicyBinding {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) constraints: Constraints,
    pub(super) deny: bool,
    pub(super) warn: bool,
    pub(super) param: Value,
}

impl PolicyBinding {
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
