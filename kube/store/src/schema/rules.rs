//! `x-kubernetes-validations`: CEL rules of custom resources.
//!
//! Programs are compiled on first use and kept in the schema. All rules on one object share a budget, as in Kubernetes.

use super::{Rule, Schema, Type, validate};
use crate::status::FieldError;
use safe_cel::{
    Budget, CompileError, Context, Error, Expression, IdedExpr, Library, Tree, for_each_child,
    language::{
        self as cel,
        common::ast::Expr,
        objects::{Key, Map, OptionalValue},
    },
};
use serde_json::Value;
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, LazyLock, OnceLock},
};
use validate::{OldItems, Path, Told};

/// The compiled rules of one schema node.
#[derive(Clone, Default)]
pub struct Programs(OnceLock<Arc<Vec<Compiled>>>);

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Programs")
    }
}

struct Compiled {
    program: Result<Expression, CompileError>,
    message: Option<Expression>,
    /// The rule compares with the old object.
    transition: bool,
}

impl Programs {
    fn get(&self, rules: &[Rule]) -> &[Compiled] {
        self.0
            .get_or_init(|| Arc::new(rules.iter().map(Compiled::new).collect()))
    }
}

/// Reads a rule; the error is kube-apiserver's.
pub fn read(expression: &str) -> Result<Tree, CompileError> {
    Library::kubernetes().read(expression, &["self", "oldSelf"])
}

impl Compiled {
    fn new(rule: &Rule) -> Self {
        let tree = read(&rule.rule);
        let message = Some(&rule.message_expression)
            .filter(|it| !it.is_empty())
            .and_then(|it| read(it).ok())
            .map(Tree::compile);
        Self {
            message,
            transition: tree.as_ref().is_ok_and(|it| it.mentions("oldSelf")),
            program: tree.map(Tree::compile),
        }
    }
}

/// How deep the loops of an expression nest.
pub(super) fn nested_loops(expression: &IdedExpr) -> usize {
    let mut depth = 0;
    for_each_child(expression, &mut |child| depth = depth.max(nested_loops(child)));
    depth + usize::from(matches!(expression.expr, Expr::Comprehension(_)))
}

/// Errors of all rules of a schema on an object. `old` is the stored object of an update.
pub fn evaluate(new: &Value, old: Option<&Value>, schema: &Schema) -> Vec<FieldError> {
    let mut run = Run {
        errors: Vec::new(),
        budget: Budget::of_object(),
        told: Told::default(),
    };
    run.node(new, old, schema, &Path::ROOT, true);
    run.errors
}

struct Run {
    errors: Vec<FieldError>,
    budget: Budget,
    told: Told,
}

impl Run {
    fn node(&mut self, new: &Value, old: Option<&Value>, schema: &Schema, path: &Path<'_>, root: bool) {
        if !schema.rules_below || self.budget.is_spent() || new.is_null() || self.told.is_enough(&self.errors) {
            return;
        }
        if !schema.rules.is_empty() {
            self.rules(new, old, schema, path, root);
        }
        match new {
            Value::Object(map) => {
                for (key, value) in map {
                    let old = old.and_then(|it| it.get(key));
                    if let Some(child) = schema.properties.get(key) {
                        self.node(value, old, child, &path.field(key), false);
                    } else if let Some(child) = &schema.additional {
                        self.node(value, old, child, &path.key(key), false);
                    }
                }
            }
            Value::Array(items) => {
                let Some(child) = &schema.items else { return };
                let old = OldItems::new(old, schema);
                for (at, item) in items.iter().enumerate() {
                    self.node(item, old.of(item), child, &path.index(at), false);
                }
            }
            _ => {}
        }
    }

    fn rules(&mut self, new: &Value, old: Option<&Value>, schema: &Schema, path: &Path<'_>, root: bool) {
        // Rules without `oldSelf` are not looked at again when nothing changed; those with it always are.
        let unchanged = old == Some(new);
        let programs = schema.programs.get(&schema.rules);
        let due = |it: &Compiled, rule: &Rule| match (it.transition, old) {
            (false, _) => !unchanged,
            (true, None) => rule.optional_old_self,
            (true, Some(_)) => true,
        };
        if !programs.iter().zip(&schema.rules).any(|(it, rule)| due(it, rule)) {
            return;
        }
        let mut context = Library::kubernetes().scope();
        context.add_variable_from_value("self", to_cel(new, schema, root));
        let old_value = old.map(|it| to_cel(it, schema, root));
        for (compiled, rule) in programs.iter().zip(&schema.rules) {
            if !due(compiled, rule) {
                continue;
            }
            let mut context = context.new_inner_scope();
            if rule.optional_old_self {
                let optional = old_value.clone().map_or_else(OptionalValue::none, OptionalValue::of);
                context.add_variable_from_value("oldSelf", cel::Value::Opaque(Arc::new(optional)));
            } else if let Some(old) = &old_value {
                context.add_variable_from_value("oldSelf", old.clone());
            }
            match judge(compiled, rule, &context, new, path, &mut self.budget) {
                Judgement::Fine => {}
                Judgement::Broken(error) => self.errors.push(error),
                Judgement::TooExpensive => {
                    self.errors.push(FieldError::invalid(
                        path.bracketed(),
                        &Value::Null,
                        "validation failed due to running out of cost budget, no further validation rules will be run",
                    ));
                    self.budget = Budget::new(0, 0);
                    return;
                }
            }
        }
    }
}

/// What a rule says of a value.
enum Judgement {
    Fine,
    Broken(FieldError),
    TooExpensive,
}

fn judge(
    compiled: &Compiled,
    rule: &Rule,
    context: &Context<'_>,
    value: &Value,
    path: &Path<'_>,
    budget: &mut Budget,
) -> Judgement {
    let fallback = || {
        if rule.message.is_empty() {
            format!("failed rule: {}", rule.rule.trim())
        } else {
            rule.message.trim().to_owned()
        }
    };
    let own = path.bracketed();
    let program = match &compiled.program {
        Ok(program) => program,
        Err(error) => return Judgement::Broken(invalid(&own, value, &format!("rule compile error: {error}"))),
    };
    Judgement::Broken(match program.evaluate(context, budget) {
        Ok(cel::Value::Bool(true)) => return Judgement::Fine,
        Ok(cel::Value::Bool(false)) => {
            let message = compiled
                .message
                .as_ref()
                .and_then(|it| text_of(it, context, budget))
                .unwrap_or_else(fallback);
            let field = match (rule.field_path.as_str(), own.as_str()) {
                ("", _) => own,
                (more, validate::NO_FIELD) => more.trim_start_matches('.').to_owned(),
                (more, own) => format!("{own}{more}"),
            };
            match rule.reason.as_str() {
                "FieldValueForbidden" => FieldError::forbidden(field, message),
                "FieldValueRequired" => FieldError::required(field, &message),
                "FieldValueDuplicate" => FieldError::duplicate(field, value),
                _ => invalid(&field, value, &message),
            }
        }
        Ok(_) => invalid(&own, value, "cel expression must evaluate to a bool"),
        Err(Error::Cost) => return Judgement::TooExpensive,
        Err(error) => invalid(&own, value, &format!("{error} evaluating rule: {}", fallback())),
    })
}

fn text_of(program: &Expression, context: &Context<'_>, budget: &mut Budget) -> Option<String> {
    match program.evaluate(context, budget) {
        Ok(cel::Value::String(text)) => {
            let text = text.trim();
            (!text.is_empty() && !text.contains('\n') && text.len() <= 5 * 1024).then(|| text.to_owned())
        }
        _ => None,
    }
}

/// Scalars are printed; objects and lists would hide the message.
fn invalid(field: &str, value: &Value, message: &str) -> FieldError {
    if value.is_object() || value.is_array() {
        return FieldError {
            reason: "FieldValueInvalid",
            field: field.to_owned(),
            detail: format!("Invalid value: {message}"),
        };
    }
    FieldError::invalid(field, value, message)
}

/// A property name as rules spell it.
pub fn escape(name: &str) -> String {
    if safe_cel::RESERVED_WORDS.contains(&name) {
        return format!("__{name}__");
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return name.to_owned();
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

/// A value as rules see it: typed by the schema, without what the schema does not name.
fn to_cel(value: &Value, schema: &Schema, root: bool) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(it) => cel::Value::Bool(*it),
        Value::Number(number) => match (schema.ty, number.as_i64()) {
            (Type::Number, _) | (_, None) => cel::Value::Float(number.as_f64().unwrap_or_default()),
            (_, Some(it)) => cel::Value::Int(it),
        },
        Value::String(text) => typed_text(text, schema),
        Value::Array(items) => {
            let plain = Schema::default();
            let child = schema.items.as_deref().unwrap_or(&plain);
            cel::Value::List(Arc::new(items.iter().map(|it| to_cel(it, child, false)).collect()))
        }
        Value::Object(map) => {
            let mut out: HashMap<Key, cel::Value> = HashMap::new();
            for (key, value) in map {
                if let Some(child) = schema.properties.get(key) {
                    out.insert(Key::from(escape(key)), to_cel(value, child, false));
                } else if let Some(child) = &schema.additional {
                    out.insert(Key::from(key.clone()), to_cel(value, child, false));
                }
            }
            if root || schema.embedded_resource {
                for key in ["apiVersion", "kind"] {
                    if let Some(Value::String(text)) = map.get(key) {
                        out.insert(Key::from(key), cel::Value::String(Arc::new(text.clone())));
                    }
                }
                let meta = map.get("metadata").and_then(Value::as_object);
                let names = ["name", "generateName"].into_iter().filter_map(|key| {
                    let text = meta?.get(key)?.as_str()?;
                    Some((Key::from(key), cel::Value::String(Arc::new(text.to_owned()))))
                });
                out.insert(
                    Key::from("metadata"),
                    cel::Value::Map(Map {
                        map: Arc::new(names.collect()),
                    }),
                );
            }
            cel::Value::Map(Map { map: Arc::new(out) })
        }
    }
}

fn typed_text(text: &str, schema: &Schema) -> cel::Value {
    // The engine's own conversions spare us a second time library.
    static TIMESTAMP: LazyLock<Expression> = LazyLock::new(|| conversion("timestamp(text)"));
    static DURATION: LazyLock<Expression> = LazyLock::new(|| conversion("duration(text)"));
    let plain = || cel::Value::String(Arc::new(text.to_owned()));
    let convert = |program: &Expression, text: String| {
        let mut context = Library::kubernetes().scope();
        context.add_variable_from_value("text", text);
        program
            .evaluate(&context, &mut Budget::of_object())
            .unwrap_or_else(|_| plain())
    };
    match schema.format.as_deref() {
        Some("date-time") => convert(&TIMESTAMP, text.to_owned()),
        Some("date") => convert(&TIMESTAMP, format!("{text}T00:00:00Z")),
        Some("duration") => convert(&DURATION, text.to_owned()),
        Some("byte") => match base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text) {
            Ok(bytes) => cel::Value::Bytes(Arc::new(bytes)),
            Err(_) => plain(),
        },
        _ => plain(),
    }
}

fn conversion(text: &str) -> Expression {
    Library::kubernetes()
        .compile(text, &["text"])
        .expect("the expression is a constant")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: Value, new: Value, old: Option<Value>) -> Vec<String> {
        let schema = Schema::from_openapi(&schema).expect("parses");
        let errors = evaluate(&new, old.as_ref(), &schema);
        errors.iter().map(|it| format!("{}: {}", it.field, it.detail)).collect()
    }

    fn spec(rules: Value) -> Value {
        json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "x-kubernetes-validations": rules,
            "properties": {
                "a": {"type": "integer"}, "b": {"type": "integer"},
                "my-name": {"type": "string"},
                "l": {"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'no'"}]}},
                "at": {"type": "string", "format": "date-time"},
            },
        }}})
    }

    #[test]
    fn rules_speak_at_their_field() {
        let table = [
            (
                json!([{"rule": "self.a <= self.b", "message": "a must be <= b"}]),
                json!({"a": 2, "b": 1}),
                "spec: Invalid value: a must be <= b",
            ),
            (
                json!([{"rule": "self.a <= self.b"}]),
                json!({"a": 2, "b": 1}),
                "spec: Invalid value: failed rule: self.a <= self.b",
            ),
            (
                json!([{"rule": "self.a <= self.b", "messageExpression": "'a is ' + string(self.a)", "fieldPath": ".a"}]),
                json!({"a": 2, "b": 1}),
                "spec.a: Invalid value: a is 2",
            ),
            (
                json!([{"rule": "has(self.a)", "reason": "FieldValueRequired", "fieldPath": ".a", "message": "m"}]),
                json!({}),
                "spec.a: Required value: m",
            ),
            (
                json!([{"rule": "false", "reason": "FieldValueForbidden", "message": "m"}]),
                json!({}),
                "spec: Forbidden: m",
            ),
            (
                json!([]),
                json!({"l": ["yes", "no"]}),
                r#"spec.l[1]: Invalid value: "no": failed rule: self != 'no'"#,
            ),
            (
                json!([{"rule": "self.my__dash__name == 'x'"}]),
                json!({"my-name": "y"}),
                "spec: Invalid value: failed rule: self.my__dash__name == 'x'",
            ),
            (
                json!([{"rule": "self.at < timestamp('2026-01-01T00:00:00Z')"}]),
                json!({"at": "2026-02-01T00:00:00Z"}),
                "spec: Invalid value: failed rule: self.at < timestamp('2026-01-01T00:00:00Z')",
            ),
        ];
        for (rules, value, want) in table {
            assert_eq!(
                check(spec(rules.clone()), json!({"spec": value}), None),
                [want],
                "{rules}"
            );
        }
    }

    #[test]
    fn transition_rules_need_an_old_value() {
        let rules = spec(json!([{"rule": "self.a >= oldSelf.a", "message": "a may not shrink"}]));
        let new = json!({"spec": {"a": 1}});
        assert_eq!(check(rules.clone(), new.clone(), None), Vec::<String>::new());
        assert_eq!(
            check(rules, new, Some(json!({"spec": {"a": 2}}))),
            ["spec: Invalid value: a may not shrink"]
        );
    }

    #[test]
    fn an_optional_old_self_is_checked_on_create_too() {
        let rules = spec(
            json!([{"rule": "oldSelf.hasValue() || self.a == 1", "optionalOldSelf": true, "message": "starts at 1"}]),
        );
        assert_eq!(
            check(rules.clone(), json!({"spec": {"a": 2}}), None),
            ["spec: Invalid value: starts at 1"]
        );
        assert_eq!(
            check(rules, json!({"spec": {"a": 2}}), Some(json!({"spec": {"a": 5}}))),
            Vec::<String>::new()
        );
    }

    #[test]
    fn an_unchanged_object_is_not_judged_again() {
        let rules = spec(json!([{"rule": "self.a == 1"}]));
        let value = json!({"spec": {"a": 2}});
        assert_eq!(check(rules, value.clone(), Some(value)), Vec::<String>::new());
    }

    #[test]
    fn a_rule_that_would_take_too_long_does_not_run() {
        let schema = json!({"type": "object", "properties": {"l": {
            "type": "array",
            "items": {"type": "integer"},
            "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, self.all(z, x + y + z >= 0)))"}],
        }}});
        let items: Vec<i64> = (0..300).collect();
        let found = check(schema, json!({"l": items}), None);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("running out of cost budget"), "{found:?}");
    }

    #[test]
    fn a_rule_that_the_engine_cannot_take_is_an_error() {
        let deep = format!("{}1{} == 1", "[".repeat(3000), "]".repeat(3000));
        for (rule, said) in [
            ("Thing{a: 1} == self", "undeclared reference to 'Thing'"),
            (deep.as_str(), "nests deeper than"),
            ("self.a.matches('(')", "no such overload"),
            ("self.b / (self.a - 2) > 0", "division by zero"),
        ] {
            let found = check(spec(json!([{"rule": rule}])), json!({"spec": {"a": 2, "b": 1}}), None);
            assert!(found.len() == 1 && found[0].contains(said), "{rule}: {found:?}");
        }
    }
}
