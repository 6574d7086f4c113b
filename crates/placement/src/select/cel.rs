//! CEL selectors: expressions on a ManagedCluster that all have to be true.
//!
//! Upstream: sdk-go `pkg/cel`, ocm `pkg/placement/helpers/cel`. Variable `managedCluster`; functions
//! `managedCluster.scores("NAME")` and `"JSON".parseJSON()` beside those of Kubernetes.
//! Our engine has no cost counter and no checker, so both are added here: what an expression names must exist, every round
//! of a macro and the size of everything it makes is paid from a budget with upstream's limits, and what the engine cannot
//! do is refused before it is tried.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use kube_cel::{
    KubeCelExt,
    cel::{
        Context, ExecutionError, FunctionContext, IdedExpr, Program, Value as Cel,
        common::ast::{CallExpr, EntryExpr, Expr, operators},
        extractors::This,
    },
};
use ocm_api::cluster::AddOnPlacementScore;
use serde_json::Value;

use super::{
    Scores,
    sections::{Reads, name_of},
};

/// Upstream's limit for one expression on one cluster.
const EXPRESSION_COST_MAX: u64 = 1_000_000;
/// Upstream's limit for all expressions of one predicate on one cluster.
const PREDICATE_COST_MAX: u64 = 10_000_000;
/// Enough for any selector a person writes.
const LENGTH_MAX: usize = 16 * 1024;
/// How many operators, dots and brackets an expression may have: parser and engine go as deep as there are.
const OPERATORS_MAX: usize = 400;
/// Deep enough for all of them, in a build without optimizations too. Only what is used of it becomes memory.
const STACK_BYTES: usize = 64 << 20;

const VARIABLE: &str = "managedCluster";
const TICK: &str = "@tick";
const SIZED: &str = "@sized";
const SHORT: &str = "@short";
/// What multiplies its arguments' sizes takes only short ones: it would be paid for after it was made.
const MULTIPLIERS: &[&str] = &["replace", "join", "format"];
const SHORT_MAX: u64 = 2000;
/// Functions of our engine that upstream's does not have, and that make much out of nothing.
const REFUSED: &[&str] = &["lists.range"];

/// An expression that may be evaluated.
#[derive(Clone, Debug)]
pub struct Expression {
    expression: Arc<IdedExpr>,
    /// As it was written.
    pub text: Arc<str>,
    /// Whether it asks for scores.
    pub uses_scores: bool,
    /// What it reads of the cluster.
    pub reads: Reads,
}

/// Where an engine finds scores: by cluster and name.
pub type FindScores = Arc<dyn Fn(&str, &str) -> Option<Arc<AddOnPlacementScore>> + Send + Sync>;

/// Does something with expressions where the stack is deep enough for any that [`Engine::compile`] takes.
pub fn deeply<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("cel".to_owned())
            .stack_size(STACK_BYTES);
        let thread = thread
            .spawn_scoped(scope, work)
            .expect("a thread starts as long as the process has memory");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// What evaluates expressions, with the scores that it may ask for.
pub struct Engine {
    root: Context<'static>,
    spent: Arc<AtomicU64>,
}

impl Engine {
    /// An engine that answers `scores()` from these.
    pub fn new(scores: Arc<Scores>) -> Self {
        Self::finding(Arc::new(move |cluster, name| scores.of(cluster, name).cloned()))
    }

    /// An engine that looks for scores where they are told to be.
    pub fn finding(scores: FindScores) -> Self {
        let spent = Arc::new(AtomicU64::new(0));
        let mut root = Context::default().with_all();
        root.add_function("parseJSON", parse_json);
        root.add_function(
            "scores",
            move |ftx: &FunctionContext, This(this): This<Cel>, name: Arc<String>| {
                read_scores(ftx, &this, &scores, &name)
            },
        );
        let purse = spent.clone();
        root.add_function(TICK, move |ftx: &FunctionContext| {
            pay(ftx, &purse, 1)?;
            argument(ftx)
        });
        let purse = spent.clone();
        root.add_function(SIZED, move |ftx: &FunctionContext| {
            let value = argument(ftx)?;
            pay(ftx, &purse, size(&value))?;
            Ok(value)
        });
        root.add_function(SHORT, |ftx: &FunctionContext| {
            let value = argument(ftx)?;
            if size(&value) > SHORT_MAX {
                return Err(ftx.error("operation cancelled: the value is too long for this"));
            }
            Ok(value)
        });
        Self { root, spent }
    }

    /// Reads an expression.
    pub fn compile(&self, text: &str) -> Result<Expression, String> {
        if text.len() > LENGTH_MAX {
            return Err(format!(
                "compilation failed: the expression is longer than {LENGTH_MAX} bytes"
            ));
        }
        let operators = text.bytes().filter(|it| b".+-*/%<>=!&|?:,([{".contains(it)).count();
        if operators > OPERATORS_MAX {
            return Err(format!(
                "compilation failed: the expression has more than {OPERATORS_MAX} operators"
            ));
        }
        let program = Program::compile(text).map_err(|error| format!("compilation failed: {error}"))?;
        let mut expression = program.expression().clone();
        let mut found = Found::default();
        let mut scope = vec![VARIABLE.to_owned()];
        self.check(&expression, &mut scope, &mut found)
            .map_err(|error| format!("compilation failed: {error}"))?;
        charge(&mut expression, None);
        Ok(Expression {
            expression: Arc::new(expression),
            text: text.into(),
            uses_scores: found.uses_scores,
            reads: found.reads,
        })
    }

    /// Whether all expressions are true of a cluster. What fails, or is no bool, is not true; it says why.
    pub fn all_true(&self, expressions: &[Expression], mut cluster: impl FnMut(&Reads) -> Cel) -> Result<bool, String> {
        let mut total = 0;
        for it in expressions {
            let mut context = self.root.new_inner_scope();
            context.add_variable_from_value(VARIABLE, cluster(&it.reads));
            self.spent.store(0, Ordering::Relaxed);
            let result = context.resolve(&it.expression);
            total += self.spent.load(Ordering::Relaxed);
            if total > PREDICATE_COST_MAX {
                return Err("the predicate costs too much".to_owned());
            }
            match result {
                Ok(Cel::Bool(true)) => {}
                Ok(Cel::Bool(false)) => return Ok(false),
                Ok(other) => return Err(format!("expected bool result, got {}", other.type_of())),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(true)
    }

    /// Everything that is named exists, and nothing is asked that the engine cannot do.
    fn check(&self, it: &IdedExpr, scope: &mut Vec<String>, found: &mut Found) -> Result<(), String> {
        match &it.expr {
            Expr::Unspecified => return Err("the expression is empty".to_owned()),
            Expr::Struct(it) => return Err(format!("there is no type {:?} to make", it.type_name)),
            Expr::Literal(_) => {}
            Expr::Ident(name) => {
                if !scope.contains(name) {
                    return Err(undeclared(name));
                }
                if name == VARIABLE {
                    found.reads = Reads::Whole;
                }
            }
            Expr::Select(select) => match part(it) {
                Some((section, field)) => found.reads.add(section, field),
                None => self.check(&select.operand, scope, found)?,
            },
            Expr::List(it) => it.elements.iter().try_for_each(|it| self.check(it, scope, found))?,
            Expr::Map(it) => {
                for entry in &it.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err("a map has keys".to_owned());
                    };
                    self.check(&entry.key, scope, found)?;
                    self.check(&entry.value, scope, found)?;
                }
            }
            Expr::Comprehension(it) => {
                self.check(&it.iter_range, scope, found)?;
                self.check(&it.accu_init, scope, found)?;
                let outside = scope.len();
                scope.push(it.accu_var.clone());
                scope.push(it.iter_var.clone());
                scope.extend(it.iter_var2.clone());
                for part in [&it.loop_cond, &it.loop_step, &it.result] {
                    self.check(part, scope, found)?;
                }
                scope.truncate(outside);
            }
            Expr::Call(call) => {
                found.uses_scores |= call.func_name == "scores";
                let mut name = call.func_name.clone();
                match call.target.as_deref() {
                    Some(IdedExpr {
                        expr: Expr::Ident(prefix),
                        ..
                    }) if !scope.contains(prefix) => {
                        name = format!("{prefix}.{name}");
                        if !self.has_function(&name) {
                            return Err(undeclared(prefix));
                        }
                    }
                    // What else would it need to know than whose scores they are?
                    Some(target) if call.func_name == "scores" && is_variable(target) => {
                        found.reads.add("metadata", "name");
                    }
                    Some(target) => self.check(target, scope, found)?,
                    None => {}
                }
                if !self.has_function(&name) {
                    return Err(undeclared(&name));
                }
                call.args.iter().try_for_each(|it| self.check(it, scope, found))?;
            }
        }
        Ok(())
    }

    /// Whether the function is there: the engine looks for it before it looks at the arguments.
    fn has_function(&self, name: &str) -> bool {
        if !name.starts_with(|it: char| it.is_ascii_alphabetic()) {
            return true;
        }
        if REFUSED.contains(&name) {
            return false;
        }
        let call = call(name, Vec::new());
        !matches!(self.root.resolve(&call), Err(ExecutionError::UndeclaredReference(missing)) if *missing == name)
    }
}

/// What was found while an expression was checked.
#[derive(Default)]
struct Found {
    uses_scores: bool,
    reads: Reads,
}

fn is_variable(it: &IdedExpr) -> bool {
    matches!(&it.expr, Expr::Ident(name) if name == VARIABLE)
}

/// `managedCluster.section` or `managedCluster.section.field`.
fn part(it: &IdedExpr) -> Option<(&str, &str)> {
    let Expr::Select(outer) = &it.expr else { return None };
    if is_variable(&outer.operand) {
        return Some((&outer.field, ""));
    }
    match &outer.operand.expr {
        Expr::Select(inner) if is_variable(&inner.operand) && !inner.test => Some((&inner.field, &outer.field)),
        _ => None,
    }
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    IdedExpr {
        id: 0,
        expr: Expr::Call(CallExpr {
            func_name: name.to_owned(),
            target: None,
            args,
        }),
    }
}

fn wrap(name: &str, it: &mut IdedExpr) {
    *it = call(name, vec![std::mem::take(it)]);
}

/// Lets every round of a macro, and everything that is made, pay. `accumulator` is the variable of the macro around it:
/// appending to it has been paid for with the round.
fn charge(it: &mut IdedExpr, accumulator: Option<&str>) {
    let makes = match &mut it.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => false,
        Expr::Select(it) => {
            charge(&mut it.operand, accumulator);
            false
        }
        Expr::List(it) => {
            it.elements.iter_mut().for_each(|it| charge(it, accumulator));
            it.elements.len() > 1
        }
        Expr::Map(it) => {
            for entry in &mut it.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    charge(&mut entry.key, accumulator);
                    charge(&mut entry.value, accumulator);
                }
            }
            true
        }
        Expr::Comprehension(it) => {
            let inner = it.accu_var.clone();
            charge(&mut it.iter_range, accumulator);
            charge(&mut it.accu_init, accumulator);
            for part in [&mut it.loop_cond, &mut it.loop_step, &mut it.result] {
                charge(part, Some(&inner));
            }
            wrap(TICK, &mut it.loop_cond);
            false
        }
        Expr::Call(call) => {
            if let Some(target) = &mut call.target {
                charge(target, accumulator);
            }
            let appends = call.func_name == operators::ADD
                && matches!(call.args.first().map(|it| &it.expr), Some(Expr::Ident(name)) if Some(name.as_str()) == accumulator);
            call.args.iter_mut().for_each(|it| charge(it, accumulator));
            if MULTIPLIERS.contains(&call.func_name.as_str()) {
                let target = call.target.as_deref_mut();
                target.into_iter().chain(&mut call.args).for_each(|it| wrap(SHORT, it));
            }
            let is_function = call.func_name.starts_with(|it: char| it.is_ascii_alphabetic());
            is_function || call.func_name == operators::ADD && !appends
        }
    };
    if makes {
        wrap(SIZED, it);
    }
}

fn argument(ftx: &FunctionContext) -> Result<Cel, ExecutionError> {
    let expression = ftx
        .args
        .first()
        .ok_or_else(ExecutionError::missing_argument_or_target)?;
    ftx.ptx.resolve(expression)
}

fn pay(ftx: &FunctionContext, spent: &AtomicU64, cost: u64) -> Result<(), ExecutionError> {
    let total = spent.fetch_add(cost, Ordering::Relaxed).saturating_add(cost);
    if total > EXPRESSION_COST_MAX {
        return Err(ftx.error("operation cancelled: actual cost limit exceeded"));
    }
    Ok(())
}

fn size(value: &Cel) -> u64 {
    match value {
        Cel::List(items) => 1 + items.iter().map(size).sum::<u64>(),
        Cel::Map(it) => 1 + it.map.values().map(size).sum::<u64>(),
        Cel::String(text) => 1 + text.len() as u64 / 10,
        Cel::Bytes(bytes) => 1 + bytes.len() as u64 / 10,
        _ => 1,
    }
}

fn parse_json(ftx: &FunctionContext, This(text): This<Arc<String>>) -> Result<Cel, ExecutionError> {
    let value: Value = serde_json::from_str(&text).map_err(|error| ftx.error(error))?;
    Ok(from_json(&value))
}

/// `managedCluster.scores(name)`: a list of `{name, value}` from the cluster's namespace.
fn read_scores(ftx: &FunctionContext, cluster: &Cel, scores: &FindScores, name: &str) -> Result<Cel, ExecutionError> {
    let Some(cluster) = name_of(cluster) else {
        return Err(ftx.error("scores are of a managedCluster"));
    };
    let Some(found) = scores(&cluster, name) else {
        return Err(ftx.error(format!("addonplacementscores {cluster}/{name} not found")));
    };
    let items = found.status.iter().flat_map(|it| &it.scores).map(|it| {
        let fields: HashMap<String, Cel> = HashMap::from([
            ("name".to_owned(), Cel::String(Arc::new(it.name.clone()))),
            ("value".to_owned(), Cel::Int(i64::from(it.value))),
        ]);
        Cel::Map(fields.into())
    });
    Ok(Cel::List(Arc::new(items.collect())))
}

/// JSON as CEL. Whole numbers become `int`, so that an expression can compare them with literals.
pub fn from_json(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(it) => Cel::Bool(*it),
        Value::Number(it) => match (it.as_i64(), it.as_u64()) {
            (Some(it), _) => Cel::Int(it),
            (None, Some(it)) => Cel::UInt(it),
            (None, None) => Cel::Float(it.as_f64().unwrap_or_default()),
        },
        Value::String(it) => Cel::String(Arc::new(it.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(from_json).collect())),
        Value::Object(fields) => {
            let fields: HashMap<String, Cel> = fields
                .iter()
                .map(|(key, value)| (key.clone(), from_json(value)))
                .collect();
            Cel::Map(fields.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn engine() -> Engine {
        let score = serde_json::from_value(json!({
            "metadata": {"namespace": "c1", "name": "load"},
            "status": {"scores": [{"name": "cpu", "value": 66}]},
        }))
        .unwrap();
        Engine::new(Arc::new(Scores::of_all([Arc::new(score)])))
    }

    fn ask(text: &str) -> Result<bool, String> {
        deeply(|| ask_here(text))
    }

    fn ask_here(text: &str) -> Result<bool, String> {
        let engine = engine();
        let cluster = from_json(&json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": "c1", "labels": {"env": "prod"}, "annotations": {"sizes": "{\"nodes\": 3}"}},
            "status": {"version": {"kubernetes": "v1.30.1"}, "allocatable": {"cpu": "8"},
                "clusterClaims": [{"name": "region", "value": "eu"}]},
        }));
        let expression = engine.compile(text)?;
        engine.all_true(&[expression], |_| cluster.clone())
    }

    #[test]
    fn what_people_ask_of_clusters_is_answered() {
        for (text, answer) in [
            ("managedCluster.metadata.labels['env'] == 'prod'", true),
            ("managedCluster.metadata.labels.exists(it, it == 'env')", true),
            ("managedCluster.status.version.kubernetes == 'v1.30.0'", false),
            ("managedCluster.status.version.kubernetes.startsWith('v1.3')", true),
            (
                "semver(managedCluster.status.version.kubernetes, true).isGreaterThan(semver('1.29.0'))",
                true,
            ),
            (
                "managedCluster.status.clusterClaims.exists(c, c.name == 'region' && c.value in ['eu', 'us'])",
                true,
            ),
            (
                "managedCluster.scores('load').filter(it, it.name == 'cpu').all(it, it.value > 50)",
                true,
            ),
            (
                "managedCluster.metadata.annotations['sizes'].parseJSON().nodes > 2",
                true,
            ),
            (
                "quantity(managedCluster.status.allocatable.cpu).isGreaterThan(quantity('4'))",
                true,
            ),
            ("has(managedCluster.spec)", false),
        ] {
            assert_eq!(ask(text), Ok(answer), "{text}");
        }
    }

    #[test]
    fn what_fails_or_is_no_bool_is_not_true_and_says_why() {
        for (text, error) in [
            (
                "managedCluster.scores('none').size() == 0",
                "addonplacementscores c1/none not found",
            ),
            ("managedCluster.metadata.name", "expected bool result, got string"),
            ("managedCluster.metadata.labels.zone == 'a'", "No such key"),
            ("'{'.parseJSON().a == 1", "parseJSON"),
        ] {
            let said = ask(text).unwrap_err();
            assert!(said.contains(error) && !said.contains("compilation"), "{text}: {said}");
        }
    }

    #[test]
    fn what_names_nothing_or_cannot_be_done_is_refused_before_it_is_tried() {
        for (text, error) in [
            ("managedCluster.", "compilation failed: "),
            ("cluster.metadata.name == 'a'", "undeclared reference to 'cluster'"),
            ("frobnicate(managedCluster)", "undeclared reference to 'frobnicate'"),
            ("maths.greatest(1, 2) == 2", "undeclared reference to 'maths'"),
            ("[1].exists(x, y == 1)", "undeclared reference to 'y'"),
            ("Cluster{name: 'a'} == 1", "compilation failed: "),
            ("lists.range(1000000000).size() > 0", "undeclared reference to 'lists'"),
        ] {
            let said = ask(text).unwrap_err();
            assert!(said.contains(error), "{text}: {said}");
        }
        assert_eq!(ask("math.greatest(1, 2) == 2"), Ok(true));
        assert!(ask(&"1".repeat(LENGTH_MAX + 1)).unwrap_err().contains("longer than"));
    }

    #[test]
    fn an_expression_knows_what_it_reads() {
        let reads = |text: &str| match engine().compile(text).unwrap().reads {
            Reads::Whole => "everything".to_owned(),
            Reads::Parts(parts) => parts
                .iter()
                .map(|(section, field)| format!("{section}.{field} "))
                .collect(),
        };
        for (text, parts) in [
            ("managedCluster.metadata.labels['env'] == 'prod'", "metadata.labels "),
            ("managedCluster.metadata['labels'].env == 'prod'", "metadata. "),
            ("managedCluster.scores('load').size() > 0", "metadata.name "),
            (
                "has(managedCluster.status.version) && managedCluster.kind == 'A'",
                "kind. status.version ",
            ),
            ("[managedCluster].exists(it, it.kind == 'A')", "everything"),
            ("managedCluster == {}", "everything"),
            ("1 == 1", ""),
        ] {
            assert_eq!(reads(text), parts, "{text}");
        }
    }

    #[test]
    fn a_long_chain_does_not_exhaust_the_stack() {
        let chain = |length: usize| format!("1{} > 1", "+1".repeat(length));
        assert!(ask(&chain(7000)).unwrap_err().contains("more than 400 operators"));
        assert_eq!(ask(&chain(399)), Ok(true));
        for (open, close) in [
            ("(", ")"),
            ("[", "]"),
            ("!", ""),
            ("- ", ""),
            ("{1:", "}"),
            ("size([", "])"),
        ] {
            let count = (OPERATORS_MAX - 1) / 2;
            // Whatever it says, it comes back.
            let _ = ask(&format!("{}1{} == 1", open.repeat(count), close.repeat(count)));
        }
    }

    #[test]
    fn an_expression_that_explodes_is_stopped() {
        let mut nested = "true".to_owned();
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            nested = format!("[1,2,3,4,5,6,7,8,9].all({name}, {nested})");
        }
        let mut doubled = "[[1,1]]".to_owned();
        let mut text = "['aaaaaaaaaaaaaaaa']".to_owned();
        for _ in 0..40 {
            doubled.push_str(".map(x, [x, x])");
            text.push_str(".map(x, x + x)");
        }
        for bomb in [nested, format!("{doubled}.size() > 0"), format!("{text}.size() > 0")] {
            let said = ask(&bomb).unwrap_err();
            assert!(said.contains("cost limit exceeded"), "{said}");
        }
        let mut long = "'aaaaaaaaaa'".to_owned();
        for _ in 0..13 {
            long = format!("[{long}].map(x, x + x)[0]");
        }
        let said = ask(&format!("[{long}].map(x, x.replace('a', x)).size() > 0")).unwrap_err();
        assert!(said.contains("too long for this"), "{said}");
    }
}
