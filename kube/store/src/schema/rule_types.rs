//! A small type check of CEL rules: members that a schema does not have, names that nothing declares, and the type of
//! the whole. What it cannot tell it lets pass; the rule then fails when it runs.

use super::{Schema, Type, rules};
use safe_cel::{
    CompileError, IdedExpr, for_each_child,
    language::common::ast::{Expr, LiteralValue},
};

/// What an expression evaluates to, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Bool,
    Text,
    Other,
    Unknown,
}

#[derive(Clone, Copy)]
enum Kind<'a> {
    Node(&'a Schema),
    Found(Found),
}

/// The type of an expression over a schema, or the compile error in the words of kube-apiserver.
pub(super) fn check(source: &str, expression: &IdedExpr, schema: &Schema) -> Result<Found, String> {
    let mut checker = Checker {
        source,
        schema,
        names: Vec::new(),
    };
    let kind = checker.kind(expression)?;
    Ok(match kind {
        Kind::Found(found) => found,
        Kind::Node(node) => match node.ty {
            _ if node.int_or_string => Found::Unknown,
            Type::Boolean => Found::Bool,
            Type::String
                if node
                    .format
                    .as_deref()
                    .is_none_or(|it| !["date-time", "date", "duration", "byte"].contains(&it)) =>
            {
                Found::Text
            }
            Type::Any => Found::Unknown,
            _ => Found::Other,
        },
    })
}

fn is_number(kind: &Kind<'_>) -> bool {
    match kind {
        Kind::Found(found) => *found == Found::Other,
        Kind::Node(node) => !node.int_or_string && matches!(node.ty, Type::Integer | Type::Number),
    }
}

struct Checker<'a> {
    source: &'a str,
    schema: &'a Schema,
    /// Variables of the loops around, innermost last.
    names: Vec<String>,
}

impl<'a> Checker<'a> {
    /// A compile error at the first place where `needle` stands in the source.
    fn error(&self, needle: &str, text: &str) -> String {
        CompileError::at(self.source, needle, text).to_string()
    }

    fn kind(&mut self, expression: &IdedExpr) -> Result<Kind<'a>, String> {
        let unknown = Kind::Found(Found::Unknown);
        match &expression.expr {
            Expr::Ident(name) if self.names.contains(name) || name.starts_with('@') || name.starts_with("__") => {
                Ok(unknown)
            }
            Expr::Ident(name) if name == "self" => Ok(Kind::Node(self.schema)),
            Expr::Ident(name) if name == "oldSelf" => Ok(unknown),
            Expr::Ident(name) => {
                // Namespaces and type names of the standard library.
                const KNOWN: [&str; 19] = [
                    "optional",
                    "math",
                    "sets",
                    "base64",
                    "strings",
                    "lists",
                    "format",
                    "int",
                    "uint",
                    "double",
                    "string",
                    "bool",
                    "bytes",
                    "list",
                    "map",
                    "null_type",
                    "type",
                    "google",
                    "jsonpatch",
                ];
                if KNOWN.contains(&name.as_str()) {
                    return Ok(unknown);
                }
                Err(self.error(name, &format!("undeclared reference to '{name}' (in container '')")))
            }
            Expr::Literal(literal) => Ok(Kind::Found(match literal {
                LiteralValue::Boolean(_) => Found::Bool,
                LiteralValue::String(_) => Found::Text,
                LiteralValue::Null => Found::Unknown,
                _ => Found::Other,
            })),
            Expr::Select(select) => {
                let operand = self.kind(&select.operand)?;
                let found = self.select(operand, &select.field)?;
                Ok(if select.test { Kind::Found(Found::Bool) } else { found })
            }
            Expr::Call(call) => {
                let mut kinds = Vec::new();
                if let Some(target) = &call.target {
                    self.kind(target)?;
                }
                for argument in &call.args {
                    kinds.push(self.kind(argument)?);
                }
                Ok(match (call.func_name.as_str(), call.target.is_some()) {
                    (
                        "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" | "_&&_" | "_||_" | "!_" | "@in" | "_in_",
                        false,
                    ) => Kind::Found(Found::Bool),
                    ("startsWith" | "endsWith" | "contains" | "matches" | "hasValue", true)
                    | ("matches" | "bool", false) => Kind::Found(Found::Bool),
                    ("size" | "int" | "double" | "uint" | "timestamp" | "duration", _) => Kind::Found(Found::Other),
                    ("string", false) => Kind::Found(Found::Text),
                    ("format" | "lowerAscii" | "upperAscii" | "trim" | "join" | "replace" | "substring", true) => {
                        Kind::Found(Found::Text)
                    }
                    ("_+_", false) => match kinds.first() {
                        Some(Kind::Found(Found::Text)) => Kind::Found(Found::Text),
                        // A sum with a number in it is a number.
                        _ if kinds.iter().any(is_number) => Kind::Found(Found::Other),
                        _ => unknown,
                    },
                    ("_-_" | "_*_" | "_/_" | "_%_" | "-_", false) => Kind::Found(Found::Other),
                    _ => unknown,
                })
            }
            Expr::Comprehension(it) => {
                self.kind(&it.iter_range)?;
                self.kind(&it.accu_init)?;
                let before = self.names.len();
                self.names.push(it.iter_var.clone());
                self.names.extend(it.iter_var2.clone());
                self.names.push(it.accu_var.clone());
                for part in [&it.loop_cond, &it.loop_step, &it.result] {
                    self.kind(part)?;
                }
                self.names.truncate(before);
                Ok(unknown)
            }
            Expr::List(_) | Expr::Map(_) | Expr::Struct(_) => {
                let mut result = Ok(Kind::Found(Found::Other));
                for_each_child(expression, &mut |child| {
                    if result.is_ok()
                        && let Err(error) = self.kind(child)
                    {
                        result = Err(error);
                    }
                });
                result
            }
            Expr::Unspecified => Ok(unknown),
        }
    }

    fn select(&self, operand: Kind<'a>, field: &str) -> Result<Kind<'a>, String> {
        let unknown = Ok(Kind::Found(Found::Unknown));
        let no_members = |name: &str| {
            Err(self.error(
                &format!(".{field}"),
                &format!("type '{name}' does not support field selection"),
            ))
        };
        let node = match operand {
            Kind::Node(node) => node,
            Kind::Found(Found::Bool) => return no_members("bool"),
            Kind::Found(Found::Text) => return no_members("string"),
            Kind::Found(_) => return unknown,
        };
        match node.ty {
            _ if node.int_or_string || node.opaque => unknown,
            Type::String => match node.format.as_deref() {
                Some("date-time" | "date" | "duration" | "byte") => unknown,
                _ => no_members("string"),
            },
            Type::Integer => no_members("int"),
            Type::Number => no_members("double"),
            Type::Boolean => no_members("bool"),
            Type::Array => no_members("list"),
            Type::Any => unknown,
            Type::Object => {
                if let Some((_, child)) = node.properties.iter().find(|(name, _)| rules::escape(name) == field) {
                    return Ok(Kind::Node(child));
                }
                if let Some(values) = &node.additional {
                    return Ok(Kind::Node(values));
                }
                let implied = ["apiVersion", "kind", "metadata"].contains(&field);
                if implied || node.preserve_unknown {
                    return unknown;
                }
                Err(self.error(&format!(".{field}"), &format!("undefined field '{field}'")))
            }
        }
    }
}
