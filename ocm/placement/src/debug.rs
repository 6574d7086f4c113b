//! The debug page of placements: what a placement, there or only thought of, would choose, step by step.
//!
//! Upstream: ocm `pkg/placement/debugger`: paths, codes and answer are its own. We differ in three things: a
//! misconfigured placement says what is wrong with it where upstream answers with empty lists; the prioritizers come in
//! a fixed order; and a placement that is sent must say its namespace, because who may send it is decided there.

use ocm_api::cluster::Placement;
use serde_json::{Map, Value, json};

use crate::select::{Candidate, CandidateResult, ChoiceOutcome, Selection};

/// Where the page is.
pub const PREFIX: &str = "/debug/placements/";

/// The largest placement that may be sent.
const BODY_BYTES_MAX: usize = 1 << 20;

/// What is asked for.
#[derive(Debug)]
pub enum DebugRequest {
    /// A placement that is there.
    Present {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// One that is only thought of.
    Imagined(Box<Placement>),
}

impl DebugRequest {
    /// The namespace in which the user must be allowed to look, and the verb: `get` or `create` on `placements`.
    pub fn permission(&self) -> (&'static str, &str, &str) {
        match self {
            Self::Present { namespace, name } => ("get", namespace, name),
            Self::Imagined(it) => ("create", it.metadata.namespace.as_deref().unwrap_or_default(), ""),
        }
    }
}

/// Reads a request; a code and what is wrong otherwise.
pub fn read(method: &str, path: &str, body: &[u8]) -> Result<DebugRequest, (u16, String)> {
    let rest = path.strip_prefix(PREFIX).unwrap_or_default();
    match method {
        "GET" => match rest.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(DebugRequest::Present {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err((400, "invalid debug path: namespace and name required".to_owned())),
        },
        "POST" if body.len() > BODY_BYTES_MAX => Err((400, format!("the body has more than {BODY_BYTES_MAX} bytes"))),
        "POST" => {
            let placement: Placement = serde_json::from_slice(body).map_err(|error| (400, error.to_string()))?;
            match placement.metadata.namespace.as_deref() {
                None | Some("") => Err((400, "invalid placement: namespace required".to_owned())),
                Some(_) => Ok(DebugRequest::Imagined(Box::new(placement))),
            }
        }
        other => Err((405, format!("method {other} not allowed"))),
    }
}

/// The body of an error.
pub fn failure(text: &str) -> Value {
    json!({"error": text})
}

/// The body of an answer.
pub fn answer(placement: &Placement, selection: &Selection<'_>) -> Value {
    let names = |keep: fn(&Candidate<'_>) -> bool| -> Vec<&str> {
        let kept = selection.candidates.iter().filter(|it| keep(it));
        kept.filter_map(|it| it.cluster.metadata.name.as_deref()).collect()
    };
    let matching = names(|it| it.result != CandidateResult::NoPredicate);
    let fitting = names(|it| matches!(it.result, CandidateResult::Fits { .. }));
    let prioritizers = selection.ranking.prioritizers.iter().map(|(it, weight, values)| {
        let scores: Map<String, Value> = fitting
            .iter()
            .zip(values)
            .map(|(cluster, score)| ((*cluster).to_owned(), json!(score)))
            .collect();
        json!({"name": it.to_string(), "weight": weight, "scores": scores})
    });
    let mut totals: Vec<(&str, i64)> = fitting
        .iter()
        .copied()
        .zip(selection.ranking.totals.iter().copied())
        .collect();
    totals.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
    let totals: Vec<Value> = totals
        .iter()
        .map(|(cluster, score)| json!({"clusterName": cluster, "score": score}))
        .collect();
    let it = &placement.metadata;
    let mut metadata =
        json!({"name": it.name, "namespace": it.namespace, "labels": it.labels, "annotations": it.annotations});
    if let Some(fields) = metadata.as_object_mut() {
        fields.retain(|_, it| !it.is_null());
    }
    let mut answer = json!({
        "placement": {"metadata": metadata, "spec": placement.spec},
        "filteredPipelineResults": [
            {"name": "Predicate", "filteredClusters": matching},
            {"name": "Predicate,TaintToleration", "filteredClusters": fitting},
        ],
        "prioritizeResults": prioritizers.collect::<Vec<_>>(),
        "aggregatedScores": totals,
    });
    if let ChoiceOutcome::Misconfigured { plugin, message } = &selection.outcome {
        answer["error"] = json!(format!("{plugin}:{message}"));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::{
        select,
        tests::{aws, world},
    };

    #[test]
    fn requests_are_read_as_upstream_reads_them() {
        let shown = |method: &str, path: &str, body: &str| match read(method, path, body.as_bytes()) {
            Ok(it) => format!("{:?}", it.permission()),
            Err((code, text)) => format!("{code} {text}"),
        };
        assert_eq!(
            shown("GET", "/debug/placements/default/p", ""),
            r#"("get", "default", "p")"#
        );
        let missing = "400 invalid debug path: namespace and name required";
        for path in ["", "default", "default/", "/p", "default/p/x"] {
            assert_eq!(
                shown("GET", &format!("/debug/placements/{path}"), ""),
                missing,
                "{path}"
            );
        }
        assert_eq!(
            shown("PUT", "/debug/placements/default/p", ""),
            "405 method PUT not allowed"
        );
        let body = r#"{"metadata": {"name": "p", "namespace": "default"}, "spec": {}}"#;
        assert_eq!(
            shown("POST", "/debug/placements/", body),
            r#"("create", "default", "")"#
        );
        assert!(shown("POST", "/debug/placements/", "{").starts_with("400 "));
        assert!(shown("POST", "/debug/placements/", "{}").starts_with("400 "));
        assert!(shown("POST", "/debug/placements/", &" ".repeat(BODY_BYTES_MAX + 1)).starts_with("400 "));
    }

    #[test]
    fn the_answer_goes_step_by_step() {
        let mut world = world(json!({"predicates": [aws()], "numberOfClusters": 1}));
        world.has.insert("c3".to_owned());
        let selection = select(&world);
        let answer = answer(&world.placement, &selection);
        assert_eq!(
            answer["placement"]["metadata"],
            json!({"name": "p", "namespace": "default"})
        );
        assert_eq!(
            answer["filteredPipelineResults"][0],
            json!({"name": "Predicate", "filteredClusters": ["c1", "c3", "c4"]})
        );
        assert_eq!(
            answer["prioritizeResults"][1],
            json!({"name": "Steady", "weight": 1, "scores": {"c1": 0, "c3": 100, "c4": 0}})
        );
        assert_eq!(
            answer["aggregatedScores"],
            json!([{"clusterName": "c3", "score": 200}, {"clusterName": "c1", "score": 100}, {"clusterName": "c4", "score": 100}])
        );
        assert!(answer.get("error").is_none());
    }
}
