//! Splitting the choice: into decision groups, and the groups into PlacementDecisions.
//! Upstream: ocm `pkg/placement/controllers/scheduling/scheduling_controller.go`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use ocm_api::cluster::{GroupStrategy, ManagedCluster};

use super::{choice::Group, claim, selector::Selector};

/// The most clusters one PlacementDecision holds.
pub const DECISIONS_MAX: usize = 100;

/// A group of chosen clusters. Its index is its place among the groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecidedGroup<'a> {
    /// Its name; empty for the groups of all clusters that no named group has.
    pub name: &'a str,
    /// Its clusters, by name.
    pub clusters: Vec<&'a str>,
}

/// One PlacementDecision as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredDecision {
    /// Its name.
    pub name: String,
    /// Its group's name.
    pub group: String,
    /// Its group's index.
    pub index: usize,
    /// Its clusters, by name.
    pub clusters: Vec<String>,
}

/// Splits `chosen`, which comes by name, into groups. What is wrong with the strategy otherwise.
pub fn split<'a>(strategy: &'a GroupStrategy, chosen: &[&'a ManagedCluster]) -> Result<Vec<DecidedGroup<'a>>, String> {
    let length = length(strategy.clusters_per_decision_group.as_ref(), chosen.len())?;
    let mut rest = chosen.to_vec();
    let mut groups = Vec::new();
    for wanted in &strategy.decision_groups {
        let labels = Selector::of(&wanted.group_cluster_selector.label_selector)?;
        let claims = Selector::of_expressions(&wanted.group_cluster_selector.claim_selector.match_expressions)?;
        let (matching, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|cluster| {
            labels.matches(|key| cluster.labels().get(key).map(String::as_str))
                && claims.matches(|key| claim(cluster, key))
        });
        rest = others;
        cut(&wanted.group_name, &matching, length, &mut groups);
    }
    cut("", &rest, length, &mut groups);
    if groups.is_empty() {
        groups.push(DecidedGroup::default());
    }
    Ok(groups)
}

fn cut<'a>(name: &'a str, clusters: &[&'a ManagedCluster], length: usize, groups: &mut Vec<DecidedGroup<'a>>) {
    groups.extend(clusters.chunks(length.max(1)).map(|clusters| {
        DecidedGroup {
            name,
            clusters: clusters
                .iter()
                .map(|it| it.metadata.name.as_deref().unwrap_or_default())
                .collect(),
        }
    }));
}

/// How many clusters a group has at most.
fn length(wanted: Option<&IntOrString>, total: usize) -> Result<usize, String> {
    let number = match wanted {
        None => return Ok(total),
        Some(IntOrString::Int(number)) => f64::from(*number),
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|it| it.parse::<f64>().ok());
            let percent = percent.filter(|it| it.is_finite());
            let percent = percent.ok_or_else(|| format!("{text} invalid type: string is not a percentage"))?;
            // In upstream's order of operations, so that the rounding is upstream's too.
            (percent / 100.0 * total as f64).ceil()
        }
    };
    if number <= 0.0 || number > total as f64 {
        return Ok(total);
    }
    Ok(number as usize)
}

/// The PlacementDecisions that hold these groups.
pub fn decisions(placement: &str, groups: &[Group]) -> Vec<DesiredDecision> {
    let mut decisions = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let mut push = |clusters: &[String]| {
            let name = format!("{placement}-decision-{}", decisions.len() + 1);
            decisions.push(DesiredDecision {
                name,
                group: group.name.clone(),
                index,
                clusters: clusters.to_vec(),
            });
        };
        match group.clusters.as_slice() {
            [] => push(&[]),
            clusters => clusters.chunks(DECISIONS_MAX).for_each(push),
        }
    }
    decisions
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, canary: bool) -> ManagedCluster {
        let labels = if canary { json!({"canary": "yes"}) } else { json!({}) };
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": {},
            "status": {"clusterClaims": [{"name": "region", "value": name}]}}))
        .unwrap()
    }

    fn show(strategy: serde_json::Value, clusters: &[ManagedCluster]) -> Result<Vec<String>, String> {
        let strategy: GroupStrategy = serde_json::from_value(strategy).unwrap();
        let clusters: Vec<_> = clusters.iter().collect();
        let groups = split(&strategy, &clusters)?;
        Ok(groups
            .iter()
            .map(|it| format!("{}:{}", it.name, it.clusters.join(",")))
            .collect())
    }

    #[test]
    fn named_groups_come_first_and_groups_have_limited_size() {
        let clusters: Vec<_> = ["a", "b", "c", "d", "e"]
            .iter()
            .map(|it| cluster(it, *it == "b" || *it == "e"))
            .collect();
        let canary = json!([{"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "yes"}}}}]);
        let by_claim = json!([{"groupName": "late", "groupClusterSelector": {"claimSelector": {"matchExpressions": [
            {"key": "region", "operator": "In", "values": ["c", "d"]}]}}}]);
        assert_eq!(show(json!({}), &clusters), Ok(vec![":a,b,c,d,e".into()]));
        assert_eq!(
            show(json!({"decisionGroups": canary}), &clusters),
            Ok(vec!["canary:b,e".into(), ":a,c,d".into()])
        );
        assert_eq!(
            show(
                json!({"decisionGroups": canary, "clustersPerDecisionGroup": "40%"}),
                &clusters
            ),
            Ok(vec!["canary:b,e".into(), ":a,c".into(), ":d".into()])
        );
        assert_eq!(
            show(
                json!({"decisionGroups": by_claim, "clustersPerDecisionGroup": 1}),
                &clusters
            ),
            Ok(["late:c", "late:d", ":a", ":b", ":e"].map(str::to_owned).to_vec())
        );
        assert_eq!(
            show(json!({"clustersPerDecisionGroup": -1}), &clusters).unwrap().len(),
            1
        );
        assert_eq!(show(json!({"decisionGroups": canary}), &[]), Ok(vec![":".into()]));
        assert_eq!(
            show(json!({"clustersPerDecisionGroup": "3"}), &clusters),
            Err("3 invalid type: string is not a percentage".into())
        );
    }

    #[test]
    fn a_hundred_clusters_fill_a_decision() {
        let names: Vec<String> = (0..250).map(|it| format!("c{it:03}")).collect();
        let group = |name: &str, clusters: &[String]| Group {
            name: name.to_owned(),
            clusters: clusters.to_vec(),
        };
        let groups = [group("canary", &names[..1]), group("", &names[1..])];
        let shown: Vec<_> = decisions("p", &groups)
            .iter()
            .map(|it| (it.name.clone(), it.index, it.clusters.len()))
            .collect();
        let expected = [
            ("p-decision-1", 0, 1),
            ("p-decision-2", 1, 100),
            ("p-decision-3", 1, 100),
            ("p-decision-4", 1, 49),
        ];
        assert_eq!(
            shown,
            expected.map(|(name, index, count)| (name.to_owned(), index, count))
        );
        assert_eq!(decisions("p", &[Group::default()])[0].clusters.len(), 0);
    }
}
