//! `x-kubernetes-validations`: CEL rules of custom resources.
//!
//! Programs are compiled on first use and kept in the schema. kube-cel bounds no run time, so a rule whose loops would
//! visit too much of the object is refused before it runs: the work is bounded by the size of the rule times the longest
//! collection to the power of the nesting of its loops.

use super::{Rule, Schema, Type, validate};
use crate::status::FieldError;
use kube_cel::{
    KubeCelExt,
    cel::{
        self, Context, Program,
        common::ast::{EntryExpr, Expr, IdedExpr},
        objects::{Key, Map, OptionalValue},
    },
};
use serde_json::Value;
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, LazyLock, OnceLock},
};
use validate::Path;

/// How much work all rules may do on one object.
const WORK_MAX: f64 = 10_000_000.0;

/// The compiled rules of one schema node.
#[derive(Clone, Default)]
pub struct Programs(OnceLock<Arc<Vec<Compiled>>>);

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Programs")
    }
}

struct Compiled {
    program: Result<Program, String>,
    message: Option<Program>,
    /// The rule compares with the old object.
    transition: bool,
    /// Number of nodes of the expression, and how deep its loops nest.
    size: f64,
    depth: i32,
}

impl Programs {
    fn get(&self, rules: &[Rule]) -> &[Compiled] {
        self.0
            .get_or_init(|| Arc::new(rules.iter().map(Compiled::new).collect()))
    }
}

/// Compiles an expression; the error reads as in kube-apiserver.
pub fn compile(expression: &str) -> Result<Program, String> {
    Program::compile(expression).map_err(|errors| {
        let lines: Vec<String> = errors
            .errors
            .iter()
            .map(|it| {
                let (line, column) = (it.pos.0.max(1), it.pos.1.max(1));
                let source = usize::try_from(line - 1)
                    .ok()
                    .and_then(|at| expression.lines().nth(at))
                    .unwrap_or("");
                let dots = ".".repeat(usize::try_from(column - 1).unwrap_or(0));
                format!(
                    "ERROR: <input>:{line}:{column}: Syntax error: {}\n | {source}\n | {dots}^",
                    it.msg
                )
            })
            .collect();
        format!("compilation failed: {}", lines.join("\n"))
    })
}

impl Compiled {
    fn new(rule: &Rule) -> Self {
        let program = compile(&rule.rule);
        let message = Some(&rule.message_expression)
            .filter(|it| !it.is_empty())
            .and_then(|it| compile(it).ok());
        let transition = program.as_ref().is_ok_and(|it| it.references().has_variable("oldSelf"));
        let (size, depth) = program.as_ref().map_or((1.0, 0), |it| measure(it.expression()));
        Self {
            program,
            message,
            transition,
            size,
            depth,
        }
    }
}

/// Number of nodes of an expression and nesting of its loops.
pub(super) fn measure(expression: &IdedExpr) -> (f64, i32) {
    let mut size = 1.0;
    let mut depth = 0;
    let mut loops = 0;
    for_each_child(expression, &mut |child| {
        let (child_size, child_depth) = measure(child);
        size += child_size;
        depth = depth.max(child_depth);
    });
    if matches!(expression.expr, Expr::Comprehension(_)) {
        loops = 1;
    }
    (size, depth + loops)
}

/// Calls `visit` with every direct sub-expression.
pub(super) fn for_each_child(expression: &IdedExpr, visit: &mut dyn FnMut(&IdedExpr)) {
    match &expression.expr {
        Expr::Call(call) => {
            call.target.iter().for_each(|it| visit(it));
            call.args.iter().for_each(visit);
        }
        Expr::Comprehension(it) => {
            visit(&it.iter_range);
            visit(&it.accu_init);
            visit(&it.loop_cond);
            visit(&it.loop_step);
            visit(&it.result);
        }
        Expr::List(list) => list.elements.iter().for_each(visit),
        Expr::Select(select) => visit(&select.operand),
        Expr::Map(map) => map.entries.iter().for_each(|it| entry(&it.expr, visit)),
        Expr::Struct(it) => it.entries.iter().for_each(|it| entry(&it.expr, visit)),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
    }
}

fn entry(entry: &EntryExpr, visit: &mut dyn FnMut(&IdedExpr)) {
    match entry {
        EntryExpr::StructField(it) => visit(&it.value),
        EntryExpr::MapEntry(it) => {
            visit(&it.key);
            visit(&it.value);
        }
    }
}

/// The context with Kubernetes' functions, built once.
pub fn base_context() -> &'static Context<'static> {
    static BASE: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());
    &BASE
}

/// Errors of all rules of a schema on an object. `old` is the stored object of an update.
pub fn evaluate(new: &Value, old: Option<&Value>, schema: &Schema) -> Vec<FieldError> {
    let mut run = Run {
        errors: Vec::new(),
        work: 0.0,
    };
    run.node(new, old, schema, &Path::ROOT, true);
    run.errors
}

struct Run {
    errors: Vec<FieldError>,
    work: f64,
}

impl Run {
    fn node(&mut self, new: &Value, old: Option<&Value>, schema: &Schema, path: &Path<'_>, root: bool) {
        if !schema.rules_below || self.work > WORK_MAX || new.is_null() {
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
                for (at, item) in items.iter().enumerate() {
                    self.node(
                        item,
                        validate::old_item(item, old, schema),
                        child,
                        &path.index(at),
                        false,
                    );
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
        let mut context = base_context().new_inner_scope();
        context.add_variable_from_value("self", to_cel(new, schema, root));
        let old_value = old.map(|it| to_cel(it, schema, root));
        let widest = widest(new).max(old.map_or(0, widest)) as f64;
        for (compiled, rule) in programs.iter().zip(&schema.rules) {
            if !due(compiled, rule) {
                continue;
            }
            self.work += compiled.size * widest.max(1.0).powi(compiled.depth);
            if self.work > WORK_MAX {
                self.errors.push(FieldError::invalid(
                    path.bracketed(),
                    &Value::Null,
                    "validation failed due to running out of cost budget, no further validation rules will be run",
                ));
                return;
            }
            let mut context = context.new_inner_scope();
            if rule.optional_old_self {
                let optional = old_value.clone().map_or_else(OptionalValue::none, OptionalValue::of);
                context.add_variable_from_value("oldSelf", cel::Value::Opaque(Arc::new(optional)));
            } else if let Some(old) = &old_value {
                context.add_variable_from_value("oldSelf", old.clone());
            }
            if let Some(error) = judge(compiled, rule, &context, new, path) {
                self.errors.push(error);
            }
        }
    }
}

fn judge(
    compiled: &Compiled,
    rule: &Rule,
    context: &Context<'_>,
    value: &Value,
    path: &Path<'_>,
) -> Option<FieldError> {
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
        Err(error) => return Some(invalid(&own, value, &format!("rule compile error: {error}"))),
    };
    match program.execute(context) {
        Ok(cel::Value::Bool(true)) => None,
        Ok(cel::Value::Bool(false)) => {
            let message = compiled
                .message
                .as_ref()
                .and_then(|it| text_of(it, context))
                .unwrap_or_else(fallback);
            let field = match (rule.field_path.as_str(), own.as_str()) {
                ("", _) => own,
                (more, validate::NO_FIELD) => more.trim_start_matches('.').to_owned(),
                (more, own) => format!("{own}{more}"),
            };
            Some(match rule.reason.as_str() {
                "FieldValueForbidden" => FieldError::forbidden(field, message),
                "FieldValueRequired" => FieldError::required(field, &message),
                "FieldValueDuplicate" => FieldError::duplicate(field, value),
                _ => invalid(&field, value, &message),
            })
        }
        Ok(_) => Some(invalid(&own, value, "cel expression must evaluate to a bool")),
        Err(error) => Some(invalid(
            &own,
            value,
            &format!("{error} evaluating rule: {}", fallback()),
        )),
    }
}

fn text_of(program: &Program, context: &Context<'_>) -> Option<String> {
    match program.execute(context) {
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

fn widest(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len().max(items.iter().map(widest).max().unwrap_or(0)),
        Value::Object(map) => map.len().max(map.values().map(widest).max().unwrap_or(0)),
        Value::String(text) => text.len() / 16,
        _ => 0,
    }
}

/// A property name as rules spell it.
pub fn escape(name: &str) -> String {
    const RESERVED: [&str; 21] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    if RESERVED.contains(&name) {
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
    // The `cel` crate's own conversions spare us a second time library.
    static TIMESTAMP: LazyLock<Program> = LazyLock::new(|| Program::compile("timestamp(text)").expect("constant"));
    static DURATION: LazyLock<Program> = LazyLock::new(|| Program::compile("duration(text)").expect("constant"));
    let plain = || cel::Value::String(Arc::new(text.to_owned()));
    let convert = |program: &Program| {
        let mut context = base_context().new_inner_scope();
        context.add_variable_from_value("text", plain());
        program.execute(&context).unwrap_or_else(|_| plain())
    };
    match schema.format.as_deref() {
        Some("date-time") => convert(&TIMESTAMP),
        Some("date") => {
            let mut context = base_context().new_inner_scope();
            context.add_variable_from_value("text", cel::Value::String(Arc::new(format!("{text}T00:00:00Z"))));
            TIMESTAMP.execute(&context).unwrap_or_else(|_| plain())
        }
        Some("duration") => convert(&DURATION),
        Some("byte") => match base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text) {
            Ok(bytes) => cel::Value::Bytes(Arc::new(bytes)),
            Err(_) => plain(),
        },
        _ => plain(),
    }
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
        let items: Vec<i64> = (0..1000).collect();
        let found = check(schema, json!({"l": items}), None);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("running out of cost budget"), "{found:?}");
    }
}
