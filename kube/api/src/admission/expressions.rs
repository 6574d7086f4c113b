//! CEL on a write: the conditions of webhooks, and what policies say.

use super::attributes::AdmissionAttributes;
use crate::authz::Rbac;
use safe_cel::{
    Budget, CompileError, Context, Error, Expression, IdedExpr, Library, Tree, Value as Cel, from_json,
    language::common::ast::{Expr, LiteralValue, operators},
};
use serde_json::Value;
use std::sync::{Arc, LazyLock};

use super::authorizer;

/// What conditions of webhooks may name.
pub const CONDITION_VARIABLES: &[&str] = &["object", "oldObject", "request", "authorizer"];
/// What all conditions of one webhook may cost on one write, as Kubernetes has it.
const CONDITIONS_COST_MAX: u64 = 2_500_000;

/// Kubernetes' functions, and those of `authorizer`.
pub fn library() -> &'static Library {
    static LIBRARY: LazyLock<Library> = LazyLock::new(|| Library::extended(authorizer::add_functions));
    &LIBRARY
}

/// One of `matchConditions`.
#[derive(Debug)]
pub struct MatchCondition {
    text: String,
    expression: Result<Expression, CompileError>,
}

/// Whether conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    Yes,
    No,
    /// None is false, and one has no answer.
    Unknown(String),
}

impl MatchCondition {
    /// Reads `matchConditions`, which may name these variables.
    pub fn read_all(conditions: &Value, variables: &[&str]) -> Vec<Self> {
        let items = conditions.as_array().into_iter().flatten();
        let texts = items.map(|it| it["expression"].as_str().unwrap_or_default().to_owned());
        texts
            .map(|text| Self {
                expression: library().compile(&text, variables),
                text,
            })
            .collect()
    }

    /// Whether all of them hold. One that is false decides; what has no answer counts when none is.
    pub fn all_hold(conditions: &[Self], context: &Context<'_>) -> Holds {
        let mut budget = Budget::new(CONDITIONS_COST_MAX, CONDITIONS_COST_MAX);
        let mut unknown = None;
        for it in conditions {
            let answer = match &it.expression {
                Ok(expression) => expression.evaluate(context, &mut budget).map_err(|it| it.to_string()),
                Err(error) => Err(error.to_string()),
            };
            let why = match answer {
                Ok(Cel::Bool(true)) => continue,
                Ok(Cel::Bool(false)) => return Holds::No,
                Ok(other) => format!("expected bool, got {}", other.type_of()),
                Err(why) => why,
            };
            unknown.get_or_insert(format!("expression '{}' resulted in error: {why}", it.text));
        }
        unknown.map_or(Holds::Yes, Holds::Unknown)
    }
}

/// A context with what every expression on a write may name.
pub fn context(
    write: &AdmissionAttributes<'_>,
    version: &str,
    old: Option<&Value>,
    object: Option<&Value>,
    rbac: &Arc<Rbac>,
) -> Context<'static> {
    let cel = |it: Option<&Value>| it.map_or(Cel::Null, from_json);
    let mut context = library().scope();
    context.add_variable_from_value("object", cel(object));
    context.add_variable_from_value("oldObject", cel(old));
    context.add_variable_from_value("request", from_json(&write.request("", version)));
    context.add_variable_from_value("authorizer", authorizer::value(rbac, write));
    context
}

/// The type of an expression, as far as it is plain to see.
pub fn kind(tree: &Tree) -> Option<&'static str> {
    tree.look(|it| match &it.expr {
        Expr::Literal(it) => Some(match it {
            LiteralValue::Boolean(_) => "bool",
            LiteralValue::Bytes(_) => "bytes",
            LiteralValue::Double(_) => "double",
            LiteralValue::Int(_) => "int",
            LiteralValue::Null => "null_type",
            LiteralValue::String(_) => "string",
            LiteralValue::UInt(_) => "uint",
        }),
        Expr::List(_) => Some("list(dyn)"),
        Expr::Map(_) => Some("map(dyn, dyn)"),
        Expr::Select(it) if it.test => Some("bool"),
        _ if is_untyped(it) => Some("dyn"),
        Expr::Call(it) => match it.func_name.as_str() {
            operators::EQUALS
            | operators::NOT_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
            | operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
            | operators::IN => Some("bool"),
            "size" => Some("int"),
            "string" => Some("string"),
            _ => None,
        },
        _ => None,
    })
}

/// Whether it is a part of an object, which has no type here: what it is to give has to be said, as in `string(...)`.
fn is_untyped(it: &IdedExpr) -> bool {
    match &it.expr {
        Expr::Ident(name) => matches!(name.as_str(), "object" | "oldObject" | "params"),
        Expr::Select(it) => is_untyped(&it.operand),
        Expr::Call(it) => it.func_name == operators::INDEX && it.args.first().is_some_and(is_untyped),
        _ => false,
    }
}

/// An error as policies tell it.
pub fn said(expression: &str, error: &Error) -> String {
    format!("expression '{expression}' resulted in error: {error}")
}
