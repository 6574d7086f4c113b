//! From the decisions there are to the decisions there should be, without any moment in which a cluster that stays
//! chosen is in none of them: whoever installs things on chosen clusters would take them away and bring them back.
//!
//! Upstream writes page after page, and a cluster that moves from one to the next (because one with an earlier name
//! joined) is in none for a while. Here a page that lets a cluster go is written after the page that takes it; where
//! two pages wait for each other, one first takes more than it keeps.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;
use ocm_api::{
    cluster::{ClusterDecision, Placement, PlacementDecision, PlacementDecisionStatus},
    labels,
};
use ocm_reconcile::{Plan, Site};

use super::load::{belongs_to, clusters};
use crate::select::groups::DesiredDecision;

/// What the plan does with the decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecisionChanges {
    /// Names of decisions that are created.
    pub created: Vec<String>,
    /// Names of decisions whose clusters change.
    pub updated: Vec<String>,
    /// Names of decisions that are deleted.
    pub deleted: Vec<String>,
    /// Names of desired decisions that somebody else has taken.
    pub foreign: Vec<String>,
}

/// Whose a decision is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Ours,
    /// Of a placement of this name that is gone.
    Gone,
    Other,
}

/// Plans the decisions of a placement. `present` are the decisions of its namespace that have its label or one
/// of the names.
pub fn decisions(
    placement: &Placement,
    desired: &[DesiredDecision],
    present: &[Arc<PlacementDecision>],
    plan: &mut Plan,
) -> DecisionChanges {
    let mut written = DecisionChanges::default();
    let by_name: BTreeMap<&str, &PlacementDecision> = present
        .iter()
        .map(|it| (it.metadata.name.as_deref().unwrap_or_default(), &**it))
        .collect();
    let mut places = Vec::new();
    for page in desired {
        let current = by_name.get(page.name.as_str()).copied();
        let current = match current.map(|it| owner(placement, it)) {
            None => None,
            Some(Owner::Ours) => current,
            Some(Owner::Gone) => {
                current.map(|it| plan.delete(Site::Hub, it));
                None
            }
            Some(Owner::Other) => {
                written.foreign.push(page.name.clone());
                continue;
            }
        };
        places.push((page, current));
    }
    plan.stage();
    for (page, current) in &places {
        if current.is_none() {
            written.created.push(page.name.clone());
        }
        let wanted = bare(placement, page);
        // What is said of the clusters is long, and another matter.
        let head = current.map(|it| PlacementDecision {
            metadata: it.metadata.clone(),
            ..PlacementDecision::default()
        });
        let agrees = |it: &PlacementDecision| {
            it.metadata.labels == wanted.metadata.labels
                && it.metadata.owner_references == wanted.metadata.owner_references
        };
        match &head {
            None => {
                plan.create(Site::Hub, &wanted);
            }
            Some(head) if agrees(head) => {}
            Some(head) => {
                plan.change(Site::Hub, head, &put_right(head, wanted));
            }
        }
    }
    written.updated = contents(placement, &places, plan);
    plan.stage();
    for it in present.iter().filter(|it| belongs_to(it, &placement.name_any())) {
        let name = it.name_any();
        let wanted = desired.iter().any(|it| it.name == name);
        if !wanted && owner(placement, it) == Owner::Ours && plan.delete(Site::Hub, &**it).is_some() {
            written.deleted.push(name);
        }
    }
    written
}

fn owner(placement: &Placement, decision: &PlacementDecision) -> Owner {
    let controller = decision
        .owner_references()
        .iter()
        .find(|it| it.controller == Some(true));
    match controller {
        // Made by hand under one of our names, or by a controller that forgot the reference: it is ours from now on.
        None => Owner::Ours,
        Some(it) if Some(&it.uid) == placement.metadata.uid.as_ref() => Owner::Ours,
        Some(it) if it.kind == Placement::KIND && it.name == placement.name_any() => Owner::Gone,
        Some(_) => Owner::Other,
    }
}

/// The decision without its clusters, which are its status.
fn bare(placement: &Placement, page: &DesiredDecision) -> PlacementDecision {
    let labels = [
        (labels::PLACEMENT, placement.name_any()),
        (labels::DECISION_GROUP_NAME, page.group.clone()),
        (labels::DECISION_GROUP_INDEX, page.index.to_string()),
    ];
    PlacementDecision {
        metadata: ObjectMeta {
            name: Some(page.name.clone()),
            namespace: placement.namespace(),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
            owner_references: Some(vec![OwnerReference {
                api_version: Placement::API_VERSION.to_owned(),
                kind: Placement::KIND.to_owned(),
                name: placement.name_any(),
                uid: placement.uid().unwrap_or_default(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
        ..PlacementDecision::default()
    }
}

/// The decision with the labels of its page and no others, by which programs select decisions,
/// and our reference among its owners.
fn put_right(head: &PlacementDecision, wanted: PlacementDecision) -> PlacementDecision {
    let mut next = head.clone();
    next.metadata.labels = wanted.metadata.labels;
    let owners = next.metadata.owner_references.get_or_insert_default();
    for ours in wanted.metadata.owner_references.into_iter().flatten() {
        match owners.iter_mut().find(|it| it.uid == ours.uid) {
            Some(present) => *present = ours,
            None => owners.push(ours),
        }
    }
    next
}

/// A page whose clusters change.
struct Change<'a> {
    page: &'a DesiredDecision,
    uid: Option<String>,
    before: BTreeSet<&'a str>,
    after: BTreeSet<&'a str>,
}

/// Plans the clusters of the pages, in an order in which none that stays is lost.
/// Returns the names of the pages that change.
///
/// A page that lets clusters go which other pages take waits for those. One cluster that joins in front moves one from
/// every page to the next, so that they would wait for each other in a row as long as there are pages, and the one that
/// joined would be written last. So some take at once what is theirs beside what they are to let go: those that take a
/// cluster which no page had, and as many others as leave nobody to wait for a page that waits itself. Whatever there
/// is to write then takes three stages.
fn contents(
    placement: &Placement,
    places: &[(&DesiredDecision, Option<&PlacementDecision>)],
    plan: &mut Plan,
) -> Vec<String> {
    let changes: Vec<Change<'_>> = places
        .iter()
        .filter(|(page, current)| !current.iter().flat_map(|it| clusters(it)).eq(&page.clusters))
        .map(|(page, current)| Change {
            page,
            uid: current.and_then(|it| it.metadata.uid.clone()),
            before: current.iter().flat_map(|it| clusters(it)).collect(),
            after: page.clusters.iter().map(String::as_str).collect(),
        })
        .collect();
    // The page that takes a cluster, and whether some page had it.
    let mut takers: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, it) in changes.iter().enumerate() {
        takers.extend(it.after.difference(&it.before).map(|cluster| (*cluster, number)));
    }
    let had: BTreeSet<&str> = changes.iter().flat_map(|it| it.before.iter().copied()).collect();
    let waits_for = |it: &Change<'_>| -> BTreeSet<usize> {
        let lost = it.before.difference(&it.after);
        lost.filter_map(|cluster| takers.get(cluster).copied()).collect()
    };
    let waits: Vec<BTreeSet<usize>> = changes.iter().map(waits_for).collect();
    let takes_new = |it: &Change<'_>| it.after.difference(&it.before).any(|cluster| !had.contains(cluster));
    let waiting = || (0..changes.len()).filter(|it| !waits[*it].is_empty());
    let mut beside: BTreeSet<usize> = waiting().filter(|it| takes_new(&changes[*it])).collect();
    for page in waiting() {
        for other in waits[page].iter().copied().filter(|it| !waits[*it].is_empty()) {
            if !beside.contains(&page) && !beside.contains(&other) {
                // Either would do; the one that more are tied to spares others.
                let ties = |of: usize| waits[of].len() + waits.iter().filter(|it| it.contains(&of)).count();
                beside.insert(if ties(page) > ties(other) { page } else { other });
            }
        }
    }
    plan.stage();
    for (number, it) in changes.iter().enumerate() {
        if beside.contains(&number) {
            status(placement, it, &it.before.union(&it.after).copied().collect(), plan);
        } else if waits[number].is_empty() {
            status(placement, it, &it.after, plan);
        }
    }
    plan.stage();
    for number in waiting().filter(|it| !beside.contains(it)) {
        status(placement, &changes[number], &changes[number].after, plan);
    }
    plan.stage();
    for number in &beside {
        status(placement, &changes[*number], &changes[*number].after, plan);
    }
    changes.iter().map(|it| it.page.name.clone()).collect()
}

fn status(placement: &Placement, change: &Change<'_>, clusters: &BTreeSet<&str>, plan: &mut Plan) {
    // Without a resourceVersion: the list is written whole, and nobody else writes it.
    let old = PlacementDecision {
        metadata: ObjectMeta {
            name: Some(change.page.name.clone()),
            namespace: placement.namespace(),
            uid: change.uid.clone(),
            ..ObjectMeta::default()
        },
        ..PlacementDecision::default()
    };
    let decision = |cluster: &&str| ClusterDecision {
        cluster_name: (*cluster).to_owned(),
        ..ClusterDecision::default()
    };
    let new = PlacementDecision {
        status: Some(PlacementDecisionStatus {
            decisions: clusters.iter().map(decision).collect(),
        }),
        ..old.clone()
    };
    plan.status(Site::Hub, &old, &new);
}

#[cfg(test)]
mod tests {
    use ocm_reconcile::Step;
    use serde_json::json;

    use super::*;

    fn placement() -> Placement {
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "default", "uid": "u1"}, "spec": {}}))
            .unwrap()
    }

    fn page(number: usize, clusters: &[String]) -> DesiredDecision {
        DesiredDecision {
            name: format!("p-decision-{number}"),
            group: String::new(),
            index: 0,
            clusters: clusters.to_vec(),
        }
    }

    fn decision(page: &DesiredDecision, owner: &str) -> Arc<PlacementDecision> {
        let decisions: Vec<_> = page
            .clusters
            .iter()
            .map(|it| json!({"clusterName": it, "reason": ""}))
            .collect();
        let mut decision = bare(&placement(), page);
        decision.metadata.owner_references.as_mut().unwrap()[0].uid = owner.to_owned();
        decision.status = serde_json::from_value(json!({"decisions": decisions})).unwrap();
        Arc::new(decision)
    }

    fn cut(clusters: &[String], length: usize) -> Vec<DesiredDecision> {
        clusters
            .chunks(length)
            .enumerate()
            .map(|(number, it)| page(number + 1, it))
            .collect()
    }

    /// Plays the plan step by step; every cluster that stays is somewhere all the time.
    fn check(before: &[DesiredDecision], after: &[DesiredDecision]) -> usize {
        let present: Vec<_> = before.iter().map(|it| decision(it, "u1")).collect();
        let mut plan = Plan::new();
        decisions(&placement(), after, &present, &mut plan);
        let mut world: BTreeMap<String, Vec<String>> =
            before.iter().map(|it| (it.name.clone(), it.clusters.clone())).collect();
        let all = |pages: &[DesiredDecision]| -> BTreeSet<String> {
            pages.iter().flat_map(|it| it.clusters.clone()).collect()
        };
        let stays: BTreeSet<String> = all(before).intersection(&all(after)).cloned().collect();
        for stage in &plan.stages {
            // Steps of a stage may come in any order; this one is as bad as any.
            for step in stage.iter().rev() {
                let name = step.target().unwrap().name.clone();
                match step {
                    Step::Create { .. } => {
                        world.insert(name, vec![]);
                    }
                    Step::MergePatch { patch, .. } => {
                        let decisions = patch["status"]["decisions"].as_array().unwrap();
                        let clusters = decisions
                            .iter()
                            .map(|it| it["clusterName"].as_str().unwrap().to_owned());
                        world.insert(name, clusters.collect());
                    }
                    Step::Delete { .. } => {
                        world.remove(&name);
                    }
                    other => panic!("{other}"),
                }
                let now: BTreeSet<String> = world.values().flatten().cloned().collect();
                assert!(stays.is_subset(&now), "lost {:?} in {plan}", stays.difference(&now));
            }
        }
        let wanted: BTreeMap<String, Vec<String>> =
            after.iter().map(|it| (it.name.clone(), it.clusters.clone())).collect();
        assert_eq!(world, wanted);
        plan.len()
    }

    fn names(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
        numbers.into_iter().map(|it| format!("c{it:03}")).collect()
    }

    #[test]
    fn a_cluster_that_moves_to_another_page_is_never_lost() {
        // One joins in front, one leaves in front, two pages swap what they have.
        assert_eq!(check(&cut(&names(1..=30), 10), &cut(&names(0..=30), 10)), 7);
        assert_eq!(check(&cut(&names(0..=30), 10), &cut(&names(1..=30), 10)), 5);
        let (one, two) = (names(0..5), names(5..10));
        assert_eq!(
            check(&[page(1, &one), page(2, &two)], &[page(1, &two), page(2, &one)]),
            3
        );
    }

    #[test]
    fn a_new_cluster_is_written_first_then_pages_in_stages() {
        let (before, after) = (cut(&names(1..=300), 10), cut(&names(0..=300), 10));
        let present: Vec<_> = before.iter().map(|it| decision(it, "u1")).collect();
        let mut plan = Plan::new();
        decisions(&placement(), &after, &present, &mut plan);
        plan.stages.retain(|it| !it.is_empty());
        // One page is new and made first.
        let stages: Vec<usize> = plan.stages.iter().map(Vec::len).collect();
        assert_eq!(stages, [1, 16, 15, 15]);
        let has_it =
            |step: &Step| matches!(step, Step::MergePatch { patch, .. } if patch.to_string().contains("\"c000\""));
        assert!(plan.stages[1].iter().any(has_it), "{plan:#}");
    }

    #[test]
    fn no_order_of_pages_loses_a_cluster() {
        let mut seed = 7u64;
        let mut roll = |sides: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % sides
        };
        for _ in 0..2000 {
            let mut side = || {
                let mut dealt = vec![Vec::new(); roll(5) as usize + 1];
                for cluster in names(0..12) {
                    let pages = dealt.len() as u64;
                    if roll(4) > 0 {
                        dealt[roll(pages) as usize].push(cluster);
                    }
                }
                let pages = dealt.iter().enumerate();
                pages.map(|(number, it)| page(number + 1, it)).collect::<Vec<_>>()
            };
            let (before, after) = (side(), side());
            check(&before, &after);
        }
    }

    #[test]
    fn correct_and_foreign_decisions_are_left_unchanged() {
        let one = page(1, &names(0..3));
        let shown = |owner: &str, kind: &str| {
            let mut present = decision(&one, owner);
            Arc::make_mut(&mut present).metadata.owner_references.as_mut().unwrap()[0].kind = kind.to_owned();
            let mut plan = Plan::new();
            let written = decisions(&placement(), std::slice::from_ref(&one), &[present], &mut plan);
            (plan.len(), written.foreign.len())
        };
        assert_eq!(shown("u1", "Placement"), (0, 0));
        // Of a placement of this name that is gone: it goes and comes anew.
        assert_eq!(shown("u0", "Placement"), (3, 0));
        assert_eq!(shown("u0", "Thing"), (0, 1));
    }

    #[test]
    fn labels_of_another_hand_go_and_owners_stay() {
        let one = page(1, &names(0..3));
        let mut present = decision(&one, "u1");
        let metadata = &mut Arc::make_mut(&mut present).metadata;
        let labels = metadata.labels.get_or_insert_default();
        labels.insert("theirs".to_owned(), "x".to_owned());
        labels.remove(labels::DECISION_GROUP_INDEX);
        let mut plan = Plan::new();
        decisions(&placement(), std::slice::from_ref(&one), &[present.clone()], &mut plan);
        let [Step::MergePatch { patch, .. }] = plan.stages[0].as_slice() else {
            panic!("{plan}")
        };
        assert_eq!(
            patch["metadata"]["labels"],
            json!({"theirs": null, labels::DECISION_GROUP_INDEX: "0"})
        );
        let metadata = &mut Arc::make_mut(&mut present).metadata;
        metadata.labels = bare(&placement(), &one).metadata.labels;
        let owners = metadata.owner_references.get_or_insert_default();
        owners.push(OwnerReference {
            uid: "u2".to_owned(),
            controller: None,
            ..owners[0].clone()
        });
        let mut plan = Plan::new();
        decisions(&placement(), std::slice::from_ref(&one), &[present], &mut plan);
        assert!(plan.is_empty(), "{plan}");
    }
}
