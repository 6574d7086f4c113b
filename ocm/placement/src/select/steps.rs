//! The steps of a decision in words, read off the code that takes them: the guide's picture is drawn of this.

use jiff::Timestamp;
use ocm_api::cluster::{PrioritizerPolicy, Taint, TaintEffect};

use super::{
    groups::DECISIONS_MAX,
    prioritize::{Prioritizer, weights},
    scope::{HOLD, HOLD_BINDING},
    taint::{Tolerated, tolerates},
};

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionStep {
    /// What it works on or makes.
    pub title: &'static str,
    /// What it looks at, line by line.
    pub lines: Vec<String>,
    /// What becomes of a cluster that goes no further.
    pub otherwise: Option<&'static str>,
}

/// The kinds of selectors in a predicate, as the API has them.
pub const SELECTORS: [(&str, &str); 3] = [
    ("labelSelector", "labels of the cluster"),
    ("claimSelector", "what the cluster says of itself"),
    ("celSelector", "expressions, managedCluster.scores(NAME) included"),
];

/// All steps, in order.
pub fn steps() -> Vec<SelectionStep> {
    vec![
        SelectionStep {
            title: "Clusters",
            lines: vec![
                "of the sets that are bound to the namespace, or of spec.clusterSets among them".to_owned(),
                format!(
                    "a set that has just gone missing counts for {} s more, a binding for {} s",
                    HOLD.as_secs(),
                    HOLD_BINDING.as_secs()
                ),
            ],
            otherwise: Some("is being deleted"),
        },
        SelectionStep {
            title: "Predicates",
            lines: std::iter::once("one of them holds, and of that one all of".to_owned())
                .chain(SELECTORS.map(|(name, what)| format!("{name}: {what}")))
                .collect(),
            otherwise: Some("matches no predicate"),
        },
        SelectionStep {
            title: "Tolerations",
            lines: [
                TaintEffect::NoSelect,
                TaintEffect::NoSelectIfNew,
                TaintEffect::PreferNoSelect,
            ]
            .into_iter()
            .map(|it| format!("{it:?} {}", effect(it)))
            .chain(["a toleration ends tolerationSeconds after the taint came".to_owned()])
            .collect(),
            otherwise: Some("has a taint that is not tolerated"),
        },
        SelectionStep {
            title: "Scores",
            lines: scores(),
            otherwise: None,
        },
        SelectionStep {
            title: "Choice",
            lines: vec![
                "the numberOfClusters with the highest sums, all when it is not said".to_owned(),
                "of equals the first by name".to_owned(),
            ],
            otherwise: Some("comes after them"),
        },
        SelectionStep {
            title: "Groups",
            lines: vec![
                "decisionGroups in their order, then all others".to_owned(),
                "each cut to clustersPerDecisionGroup".to_owned(),
            ],
            otherwise: None,
        },
        SelectionStep {
            title: "PlacementDecisions",
            lines: vec![format!(
                "NAME-decision-1, -2, ... with at most {DECISIONS_MAX} clusters of one group each, by name"
            )],
            otherwise: None,
        },
    ]
}

/// What an effect does where nothing tolerates it.
fn effect(effect: TaintEffect) -> &'static str {
    let taints = [Taint {
        key: "any".to_owned(),
        value: String::new(),
        effect,
        time_added: None,
    }];
    let passes = |has: bool| matches!(tolerates(&taints, &[], has, Timestamp::UNIX_EPOCH), Tolerated::Until(_));
    match (passes(false), passes(true)) {
        (false, false) => "keeps away whoever does not tolerate it",
        (false, true) => "keeps away whoever is not there yet and does not tolerate it",
        _ => "is accepted and keeps nobody away",
    }
}

fn scores() -> Vec<String> {
    let policy = PrioritizerPolicy::default();
    let by_default = weights(&policy).unwrap_or_default();
    let what = |it: Prioritizer<'_>| match it {
        Prioritizer::Balance => "whom other placements use less",
        Prioritizer::Steady => "who is chosen already",
        Prioritizer::AllocatableCpu => "who has more CPU to give",
        Prioritizer::AllocatableMemory => "who has more memory to give",
        Prioritizer::AddOn(_) => "what an add-on says, until it expires",
    };
    let mut lines = vec!["the sum of weight, -10 to 10, times score, -100 to 100".to_owned()];
    for it in Prioritizer::BUILT_IN {
        let weight = by_default
            .iter()
            .find(|(other, _)| *other == it)
            .map(|(_, weight)| weight);
        let weight = weight
            .map(|it| format!(", weight {it} if not said"))
            .unwrap_or_default();
        lines.push(format!("{it}: {}{weight}", what(it)));
    }
    lines.push(format!(
        "AddOn/RESOURCE/SCORE: {}",
        what(Prioritizer::AddOn(&ocm_api::cluster::AddOnScore::default()))
    ));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_selector_of_the_api_is_a_step() {
        let schema = ocm_api::crds::build();
        let text = schema
            .iter()
            .map(|(_, crd)| crd)
            .find(|it| it["spec"]["names"]["kind"] == "Placement")
            .unwrap();
        let spec = &text["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let selector =
            &spec["properties"]["predicates"]["items"]["properties"]["requiredClusterSelector"]["properties"];
        let mut names: Vec<&str> = selector.as_object().unwrap().keys().map(String::as_str).collect();
        let mut ours = SELECTORS.map(|(name, _)| name);
        names.sort_unstable();
        ours.sort_unstable();
        assert_eq!(names, ours);
    }

    #[test]
    fn the_steps_say_what_the_code_does() {
        let steps = steps();
        assert_eq!(
            steps[2].lines[1],
            "NoSelectIfNew keeps away whoever is not there yet and does not tolerate it"
        );
        assert_eq!(steps[3].lines[2], "Steady: who is chosen already, weight 1 if not said");
        assert!(steps[6].lines[0].contains("at most 100 clusters"));
    }
}
