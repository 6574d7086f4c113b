//! The decision groups of a placement, read from its PlacementDecisions.

use kube::ResourceExt;
use ocm_api::{cluster::PlacementDecision, labels};

/// One decision group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group<'a> {
    /// Its name; empty for the groups of all clusters that no named group has.
    pub name: &'a str,
    /// Its place in the order of groups.
    pub index: i32,
    /// Its clusters.
    pub clusters: Vec<&'a str>,
}

/// A decision whose group cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "PlacementDecision {decision}: label {} is {index:?}, which is no number",
    labels::DECISION_GROUP_INDEX
)]
pub struct BadGroup {
    /// The decision's name.
    pub decision: String,
    /// Its label.
    pub index: String,
}

/// The groups of one placement's decisions, in their order. A decision without a readable index is an error, as
/// upstream has it: nobody could tell when its clusters' turn is.
pub fn groups<'a>(decisions: impl IntoIterator<Item = &'a PlacementDecision>) -> Result<Vec<Group<'a>>, BadGroup> {
    let mut parts = Vec::new();
    for decision in decisions {
        let label = |key| decision.labels().get(key).map(String::as_str).unwrap_or_default();
        let text = label(labels::DECISION_GROUP_INDEX);
        let index: i32 = text.parse().map_err(|_| BadGroup {
            decision: decision.name_any(),
            index: text.to_owned(),
        })?;
        parts.push((index, label(labels::DECISION_GROUP_NAME), decision));
    }
    parts.sort_by_key(|(index, name, _)| (*index, *name));
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (index, name, decision) in parts {
        let same = groups.last().is_some_and(|it| it.index == index && it.name == name);
        if !same {
            groups.push(Group {
                name,
                index,
                clusters: Vec::new(),
            });
        }
        let clusters = decision.status.iter().flat_map(|it| &it.decisions);
        if let Some(group) = groups.last_mut() {
            group
                .clusters
                .extend(clusters.map(|it| it.cluster_name.as_str()).filter(|it| !it.is_empty()));
        }
    }
    Ok(groups)
}
