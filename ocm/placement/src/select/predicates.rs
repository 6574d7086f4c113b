//! The predicates of a placement, read once and asked of many clusters.
//! Upstream: ocm `pkg/placement/plugins/predicate`.

use kube::ResourceExt;
use ocm_api::cluster::{ManagedCluster, Placement};

use super::{
    cel::{Engine, Expression},
    sections::Sections,
    selector::Selector,
};

/// The value of a cluster's claim. The last of several with one name counts.
pub(crate) fn claim<'c>(cluster: &'c ManagedCluster, name: &str) -> Option<&'c str> {
    let claims = &cluster.status.as_ref()?.cluster_claims;
    claims
        .iter()
        .rev()
        .find(|it| it.name == name)
        .map(|it| it.value.as_str())
}

fn label<'c>(cluster: &'c ManagedCluster, key: &str) -> Option<&'c str> {
    cluster.labels().get(key).map(String::as_str)
}

/// The predicates of a placement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Predicates {
    all: Vec<Predicate>,
}

/// One predicate, read.
#[derive(Clone, Debug)]
struct Predicate {
    labels: Selector,
    claims: Selector,
    expressions: Vec<Expression>,
}

/// What the predicates make of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// One of them holds.
    Matches,
    /// None holds.
    Differs,
    /// None holds, and one could not be asked: this is the first error.
    Fails(String),
}

/// Why a predicate does not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unmet {
    Label(String),
    Claim(String),
    Expression { text: String, error: Option<String> },
}

/// Who evaluates the expressions of predicates.
pub(crate) trait ExpressionEvaluator {
    /// Whether all expressions are true of the cluster.
    fn all_true(&mut self, expressions: &[Expression], cluster: &ManagedCluster) -> Result<bool, String>;
}

/// An engine, and the cluster as expressions see it, made when the first one asks.
pub(crate) struct Fresh<'e> {
    engine: &'e Engine,
    seen: Option<(*const ManagedCluster, Sections)>,
}

impl<'e> Fresh<'e> {
    pub(crate) fn new(engine: &'e Engine) -> Self {
        Self { engine, seen: None }
    }
}

impl ExpressionEvaluator for Fresh<'_> {
    fn all_true(&mut self, expressions: &[Expression], cluster: &ManagedCluster) -> Result<bool, String> {
        let of_it = self.seen.as_ref().is_some_and(|(it, _)| std::ptr::eq(*it, cluster));
        if !of_it {
            self.seen = Some((cluster, Sections::default()));
        }
        let (_, seen) = self.seen.as_mut().expect("it was just put there");
        self.engine.all_true(expressions, |reads| seen.value(cluster, reads))
    }
}

/// For placements without expressions.
pub(crate) struct NoEvaluator;

impl ExpressionEvaluator for NoEvaluator {
    fn all_true(&mut self, _: &[Expression], _: &ManagedCluster) -> Result<bool, String> {
        Err("there is nobody to ask".to_owned())
    }
}

impl Predicates {
    /// Reads them. The engine is asked for when there is an expression.
    pub(crate) fn of<'e>(placement: &Placement, mut engine: impl FnMut() -> &'e Engine) -> Result<Self, String> {
        let predicates = &placement.spec.predicates;
        let mut all = Vec::with_capacity(predicates.len());
        for it in predicates {
            let wanted = &it.required_cluster_selector;
            let labels = Selector::of(&wanted.label_selector)?;
            let claims = Selector::of_expressions(&wanted.claim_selector.match_expressions)?;
            let texts = &wanted.cel_selector.cel_expressions;
            let expressions = texts.iter().map(|it| engine().compile(it)).collect::<Result<_, _>>()?;
            all.push(Predicate {
                labels,
                claims,
                expressions,
            });
        }
        Ok(Self { all })
    }

    /// Reads what they ask of labels and claims; nothing when that makes no sense.
    pub(crate) fn selectors(placement: &Placement) -> Option<Self> {
        let predicates = placement.spec.predicates.iter().map(|it| {
            let wanted = &it.required_cluster_selector;
            Ok(Predicate {
                labels: Selector::of(&wanted.label_selector)?,
                claims: Selector::of_expressions(&wanted.claim_selector.match_expressions)?,
                expressions: Vec::new(),
            })
        });
        let all: Result<_, String> = predicates.collect();
        all.ok().map(|all| Self { all })
    }

    /// Without predicates every cluster matches.
    pub(crate) fn judge(&self, cluster: &ManagedCluster, asked: &mut dyn ExpressionEvaluator) -> Judgement {
        let mut error = None;
        for it in &self.all {
            if !it.selects(cluster) {
                continue;
            }
            if it.expressions.is_empty() {
                return Judgement::Matches;
            }
            match asked.all_true(&it.expressions, cluster) {
                Ok(true) => return Judgement::Matches,
                Ok(false) => {}
                Err(it) => error = error.or(Some(it)),
            }
        }
        match error {
            _ if self.all.is_empty() => Judgement::Matches,
            None => Judgement::Differs,
            Some(error) => Judgement::Fails(error),
        }
    }

    /// For each of them the labels that must have one of the values; a predicate without such a label may match
    /// anything.
    pub(crate) fn listed(&self) -> impl Iterator<Item = Vec<(&str, &[String])>> {
        self.all.iter().map(|it| it.labels.listed().collect())
    }

    /// Whether the labels and claims of one of them hold, whatever its expressions say.
    pub(crate) fn may_match(&self, cluster: &ManagedCluster) -> bool {
        self.all.is_empty() || self.all.iter().any(|it| it.selects(cluster))
    }

    /// Why each predicate does not match, in their order; empty when one does.
    pub(crate) fn unmet(
        &self,
        placement: &Placement,
        cluster: &ManagedCluster,
        asked: &mut dyn ExpressionEvaluator,
    ) -> Vec<Unmet> {
        if self.judge(cluster, asked) == Judgement::Matches {
            return Vec::new();
        }
        let texts = placement
            .spec
            .predicates
            .iter()
            .map(|it| &it.required_cluster_selector.cel_selector);
        self.all
            .iter()
            .zip(texts)
            .filter_map(|(it, texts)| {
                if let Some(unmet) = it.labels.unmet(|key| label(cluster, key)) {
                    return Some(Unmet::Label(unmet.to_string()));
                }
                if let Some(unmet) = it.claims.unmet(|key| claim(cluster, key)) {
                    return Some(Unmet::Claim(unmet.to_string()));
                }
                it.expressions
                    .iter()
                    .zip(&texts.cel_expressions)
                    .find_map(|(it, text)| {
                        let answer = asked.all_true(std::slice::from_ref(it), cluster);
                        (answer != Ok(true)).then(|| Unmet::Expression {
                            text: text.clone(),
                            error: answer.err(),
                        })
                    })
            })
            .collect()
    }
}

impl Predicate {
    fn selects(&self, cluster: &ManagedCluster) -> bool {
        self.labels.matches(|key| label(cluster, key)) && self.claims.matches(|key| claim(cluster, key))
    }
}
