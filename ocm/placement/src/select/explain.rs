//! Why a placement chose what it chose, cluster by cluster, in sentences.

use ocm_api::cluster::ManagedCluster;

use super::{
    Candidate, CandidateResult, ChoiceOutcome, Selection, SelectionInput,
    cel::Engine,
    evaluator_of, has_expressions,
    predicates::{ExpressionEvaluator, Predicates, Unmet},
};

/// What became of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The cluster.
    pub cluster: String,
    /// Whether it is chosen.
    pub chosen: bool,
    /// The sum of its scores, if it got that far.
    pub score: Option<i64>,
    /// A sentence without subject: `is chosen: ...`.
    pub because: String,
}

/// What the choice as a whole came to, sentence by sentence.
pub fn placement(world: &SelectionInput, selection: &Selection<'_>) -> Vec<String> {
    let it = &world.placement.metadata;
    let (namespace, name) = (
        it.namespace.as_deref().unwrap_or_default(),
        it.name.as_deref().unwrap_or_default(),
    );
    let scope = &selection.scope;
    let names = |all: &std::collections::BTreeSet<String>| {
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        all.join(", ")
    };
    let mut sentences = Vec::new();
    if let ChoiceOutcome::Misconfigured { plugin, message } = &selection.outcome {
        let plugin = if plugin.is_empty() {
            String::new()
        } else {
            format!("{plugin}: ")
        };
        sentences.push(format!(
            "Placement {name} makes no sense and decides nothing until it is changed: {plugin}{message}."
        ));
        return sentences;
    }
    if scope.bound.is_empty() {
        sentences.push(format!(
            "No ManagedClusterSet is bound to namespace {namespace}: `drover clusterset bind SET -n {namespace}` binds one."
        ));
    } else if scope.eligible.is_empty() {
        sentences.push(format!(
            "Bound to namespace {namespace} are the sets {}, and the placement wants only {}.",
            names(&scope.bound),
            world.placement.spec.cluster_sets.join(", ")
        ));
    } else {
        sentences.push(format!(
            "{} clusters are in the sets {}; {} fit, {} are chosen.",
            selection.candidates.len(),
            names(&scope.eligible),
            selection.ranking.totals.len(),
            selection.chosen
        ));
    }
    if !scope.missing.is_empty() {
        sentences.push(format!(
            "The sets {} or their bindings have just gone missing; their clusters are kept for now.",
            names(&scope.missing)
        ));
    }
    if !selection.held_scores.is_empty() {
        sentences.push(format!(
            "The scores {} have just gone missing; their last values count for now.",
            selection.held_scores.join(", ")
        ));
    }
    if let Some(failing) = &selection.failing {
        sentences.push(format!("Its expressions {failing}."));
    }
    if selection.unscheduled > 0 {
        sentences.push(format!(
            "{} more clusters are wanted than there are.",
            selection.unscheduled
        ));
    }
    if let ChoiceOutcome::Warning { message, .. } = &selection.outcome {
        sentences.push(format!("{message}: they count as 0."));
    }
    sentences
}

/// What became of every cluster of the hub, by name.
pub fn clusters(world: &SelectionInput, selection: &Selection<'_>) -> Vec<Explained> {
    let engine = has_expressions(&world.placement).then(|| Engine::new(world.scores.clone()));
    let mut asked = evaluator_of(engine.as_ref());
    let predicates = Predicates::of(&world.placement, || {
        engine.as_ref().expect("there is one when there are expressions")
    });
    let predicates = predicates.ok();
    let mut candidates = selection.candidates.iter().peekable();
    world
        .clusters
        .iter()
        .map(|cluster| {
            let candidate = candidates.next_if(|it| std::ptr::eq(it.cluster, &**cluster));
            one(world, selection, predicates.as_ref(), &mut *asked, cluster, candidate)
        })
        .collect()
}

fn one(
    world: &SelectionInput,
    selection: &Selection<'_>,
    predicates: Option<&Predicates>,
    asked: &mut dyn ExpressionEvaluator,
    cluster: &ManagedCluster,
    candidate: Option<&Candidate<'_>>,
) -> Explained {
    let name = cluster.metadata.name.clone().unwrap_or_default();
    let mut explained = Explained {
        cluster: name,
        chosen: false,
        score: None,
        because: String::new(),
    };
    let Some(candidate) = candidate else {
        explained.because = if cluster.metadata.deletion_timestamp.is_some() {
            "is being deleted".to_owned()
        } else {
            "is in none of the sets that the placement may choose from".to_owned()
        };
        return explained;
    };
    explained.because = match (&selection.outcome, candidate.result) {
        (ChoiceOutcome::Misconfigured { .. }, _) => "is not looked at while the placement makes no sense".to_owned(),
        (_, CandidateResult::NoPredicate) => {
            let unmet = predicates
                .map(|it| it.unmet(&world.placement, cluster, asked))
                .unwrap_or_default();
            unmet_text(&unmet)
        }
        (_, CandidateResult::Tainted { taint }) => {
            let taint = &cluster.spec.taints[taint];
            let value = if taint.value.is_empty() {
                String::new()
            } else {
                format!("={}", taint.value)
            };
            format!(
                "has the taint {}{value}:{:?}, which is not tolerated",
                taint.key, taint.effect
            )
        }
        (_, CandidateResult::Fits { place, chosen }) => {
            let total = selection.ranking.totals[place];
            explained.chosen = chosen;
            explained.score = Some(total);
            let scores: Vec<String> = selection
                .ranking
                .prioritizers
                .iter()
                .map(|(it, weight, values)| match weight {
                    1 => format!("{it} {}", values[place]),
                    weight => format!("{it} {} times {weight}", values[place]),
                })
                .collect();
            let scores = if scores.is_empty() {
                "no prioritizer".to_owned()
            } else {
                scores.join(", ")
            };
            if chosen {
                format!("is chosen with score {total} ({scores})")
            } else {
                let before = selection.ranking.totals.iter().enumerate();
                let before = before
                    .filter(|(other, it)| **it > total || **it == total && *other < place)
                    .count();
                format!("fits with score {total} ({scores}), but {before} clusters come before it")
            }
        }
    };
    if candidate.held {
        explained.because.push_str("; its set has just gone missing");
    }
    explained
}

fn unmet_text(unmet: &[Unmet]) -> String {
    let texts: Vec<String> = unmet
        .iter()
        .map(|it| match it {
            Unmet::Label(it) => format!("its labels do not satisfy {it}"),
            Unmet::Claim(it) => format!("its claims do not satisfy {it}"),
            Unmet::Expression { text, error: None } => format!("{text} is false"),
            Unmet::Expression {
                text,
                error: Some(error),
            } => format!("{text} fails: {error}"),
        })
        .collect();
    match texts.as_slice() {
        [] => "matches no predicate".to_owned(),
        [one] => format!("does not match: {one}"),
        many => format!("matches none of the predicates: {}", many.join("; ")),
    }
}
