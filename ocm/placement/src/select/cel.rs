//! CEL selectors: expressions on a ManagedCluster that all have to be true.
//!
//! Upstream: sdk-go `pkg/cel`, ocm `pkg/placement/helpers/cel`. Variable `managedCluster`; functions
//! `managedCluster.scores("NAME")` and `"JSON".parseJSON()` beside those of Kubernetes. What an expression may cost is
//! upstream's; `safe_cel` counts.

use std::{collections::HashMap, sync::Arc};

use ocm_api::cluster::AddOnPlacementScore;
pub use safe_cel::from_json;
use safe_cel::{
    Budget, Error, IdedExpr, Library, Value as Cel,
    language::{
        ExecutionError, FunctionContext,
        common::ast::{CallExpr, Expr},
        extractors::This,
    },
};
use serde_json::Value;

use super::{
    Scores,
    sections::{Reads, name_of},
};

/// Upstream's limit for one expression on one cluster.
const EXPRESSION_COST_MAX: u64 = 1_000_000;
/// Upstream's limit for all expressions of one predicate on one cluster.
const PREDICATE_COST_MAX: u64 = 10_000_000;

const VARIABLE: &str = "managedCluster";

/// An expression that may be evaluated.
#[derive(Clone, Debug)]
pub struct Expression {
    compiled: safe_cel::Expression,
    /// As it was written.
    pub text: Arc<str>,
    /// Whether it asks for scores.
    pub uses_scores: bool,
    /// What it reads of the cluster.
    pub reads: Reads,
}

/// Where an engine finds scores: by cluster and name.
pub type FindScores = Arc<dyn Fn(&str, &str) -> Option<Arc<AddOnPlacementScore>> + Send + Sync>;

/// What evaluates expressions, with the scores that it may ask for.
pub struct Engine {
    library: Library,
}

impl Engine {
    /// An engine that answers `scores()` from these.
    pub fn new(scores: Arc<Scores>) -> Self {
        Self::finding(Arc::new(move |cluster, name| scores.of(cluster, name).cloned()))
    }

    /// An engine that looks for scores where they are told to be.
    pub fn finding(scores: FindScores) -> Self {
        let library = Library::extended(|root| {
            root.add_function("parseJSON", parse_json);
            root.add_function(
                "scores",
                move |ftx: &FunctionContext, This(this): This<Cel>, name: Arc<String>| {
                    read_scores(ftx, &this, &scores, &name)
                },
            );
        });
        Self { library }
    }

    /// Reads an expression.
    pub fn compile(&self, text: &str) -> Result<Expression, String> {
        let tree = self.library.read(text, &[VARIABLE]).map_err(|it| it.to_string())?;
        let mut found = Found::default();
        tree.look(|it| found.look_at(it));
        let compiled = tree.compile();
        Ok(Expression {
            text: compiled.shared_text().clone(),
            compiled,
            uses_scores: found.uses_scores,
            reads: found.reads,
        })
    }

    /// Whether all expressions are true of a cluster. What fails, or is no bool, is not true; it says why.
    pub fn all_true(&self, expressions: &[Expression], mut cluster: impl FnMut(&Reads) -> Cel) -> Result<bool, String> {
        let mut budget = Budget::new(EXPRESSION_COST_MAX, PREDICATE_COST_MAX);
        for it in expressions {
            let mut context = self.library.scope();
            context.add_variable_from_value(VARIABLE, cluster(&it.reads));
            match it.compiled.evaluate(&context, &mut budget) {
                Ok(Cel::Bool(true)) => {}
                Ok(Cel::Bool(false)) => return Ok(false),
                Ok(other) => return Err(format!("expected bool result, got {}", other.type_of())),
                Err(Error::Cost) if budget.is_spent() => return Err("the predicate costs too much".to_owned()),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(true)
    }
}

/// What an expression looks at.
#[derive(Default)]
struct Found {
    uses_scores: bool,
    reads: Reads,
}

impl Found {
    fn look_at(&mut self, it: &IdedExpr) {
        match &it.expr {
            Expr::Ident(name) if name == VARIABLE => self.reads = Reads::Whole,
            Expr::Select(_) => match part(it) {
                Some((section, field)) => self.reads.add(section, field),
                None => safe_cel::for_each_child(it, &mut |it| self.look_at(it)),
            },
            Expr::Call(CallExpr {
                func_name,
                target,
                args,
            }) if func_name == "scores" => {
                self.uses_scores = true;
                match target.as_deref() {
                    // What else would it need to know than whose scores they are?
                    Some(target) if is_variable(target) => self.reads.add("metadata", "name"),
                    target => target.into_iter().for_each(|it| self.look_at(it)),
                }
                args.iter().for_each(|it| self.look_at(it));
            }
            _ => safe_cel::for_each_child(it, &mut |it| self.look_at(it)),
        }
    }
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
    fn common_cluster_expressions_are_evaluated() {
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
    fn failing_and_non_boolean_expressions_are_false_with_a_reason() {
        for (text, error) in [
            (
                "managedCluster.scores('none').size() == 0",
                "addonplacementscores c1/none not found",
            ),
            ("managedCluster.metadata.name", "expected bool result, got string"),
            ("managedCluster.metadata.labels.zone == 'a'", "no such key"),
            ("'{'.parseJSON().a == 1", "parseJSON"),
        ] {
            let said = ask(text).unwrap_err();
            assert!(said.contains(error) && !said.contains("compilation"), "{text}: {said}");
        }
    }

    #[test]
    fn expressions_with_unknown_names_or_impossible_operations_are_refused() {
        for (text, error) in [
            ("managedCluster.", "compilation failed: "),
            ("cluster.metadata.name == 'a'", "undeclared reference to 'cluster'"),
            ("frobnicate(managedCluster)", "undeclared reference to 'frobnicate'"),
            ("maths.greatest(1, 2) == 2", "undeclared reference to 'maths'"),
            ("[1].exists(x, y == 1)", "undeclared reference to 'y'"),
            ("Cluster{name: 'a'} == 1", "compilation failed: "),
            ("lists.range(1000000000).size() > 0", "cost limit exceeded"),
        ] {
            let said = ask(text).unwrap_err();
            assert!(said.contains(error), "{text}: {said}");
        }
        assert_eq!(ask("math.greatest(1, 2) == 2"), Ok(true));
        assert!(ask(&"1".repeat(20_000)).unwrap_err().contains("longer than"));
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
    fn expressions_too_deep_or_too_costly_are_stopped() {
        let said = ask(&format!("1{} > 1", "+1".repeat(7000))).unwrap_err();
        assert!(said.contains("nests deeper than"), "{said}");
        assert_eq!(ask(&format!("1{} > 1", "+1".repeat(150))), Ok(true));
        let mut nested = "true".to_owned();
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            nested = format!("[1,2,3,4,5,6,7,8,9].all({name}, {nested})");
        }
        let said = ask(&nested).unwrap_err();
        assert!(said.contains("cost limit exceeded"), "{said}");
    }
}
