use std::{collections::BTreeSet, time::Duration};

use jiff::ToSpan;
use kube::ResourceExt;
use ocm_api::annotations::{ROLL_BACK, ROLLOUT_PAUSED};
use ocm_api::work::ManifestWorkSpec;
use ocm_reconcile::{Clients, Step, execute};
use serde_json::json;

use super::super::{fingerprint::Fingerprint, model::Model, names, rounds::EarlierRounds, writes::ROUND};
use super::*;

#[test]
fn every_selected_cluster_gets_its_work_and_nothing_remains() {
    let mut it = Model::new(json!([{"name": "p"}]), "1");
    it.choose("p", &["c1", "c2"]);
    let name = names::work_name(&it.set);
    assert_eq!(
        it.pass(),
        format!("hub: create ManifestWork c1/{name}\nhub: create ManifestWork c2/{name}")
    );
    assert_eq!(it.show(), "c1=1 c2=1");
    assert_eq!(it.pass(), "nothing to do");
    it.is_well("c1").is_well("c2");
    assert_eq!(it.plan().to_string(), "nothing to do\n");
}

#[test]
fn without_the_finalizer_nothing_is_made() {
    let mut it = Model::new(json!([{"name": "p"}]), "1");
    it.choose("p", &["c1"]);
    it.set.metadata.finalizers = None;
    assert_eq!(it.pass(), "hub: patch ManifestWorkReplicaSet default/web");
    assert_eq!(it.set.finalizers(), [finalizers::MANIFEST_WORK_REPLICA_SET]);
    it.pass();
    assert_eq!(it.show(), "c1=1");
}

#[test]
fn a_name_that_is_no_label_makes_no_work() {
    let mut it = Model::new(json!([{"name": "p"}]), "1");
    it.choose("p", &["c1"]);
    it.set.metadata.name = Some("a".repeat(60));
    let plan = it.plan();
    assert!(plan.is_empty());
    assert!(plan.to_string().contains("is not a valid label value"), "{plan}");
}

#[test]
fn a_change_respects_the_maximum_concurrency_of_the_strategy() {
    let mut it = Model::progressive(1);
    it.choose("p", &["c1", "c2", "c3"]).pass();
    assert_eq!(it.show(), "c1=1");
    for (cluster, shown) in [("c1", "c1=1 c2=1"), ("c2", "c1=1 c2=1 c3=1"), ("c3", "c1=1 c2=1 c3=1")] {
        it.is_well(cluster).pass();
        assert_eq!(it.show(), shown);
    }
    it.change("2").pass();
    assert_eq!(it.show(), "c1=2 c2=1 c3=1");
    // The agent has not said anything of the new generation yet.
    assert!(it.pass().contains("2 clusters wait for their turn"), "{}", it.plan());
    assert_eq!(it.show(), "c1=2 c2=1 c3=1");
    it.is_ill("c1").pass();
    assert_eq!(it.show(), "c1=2 c2=1 c3=1");
    it.is_well("c1").pass();
    assert_eq!(it.show(), "c1=2 c2=2 c3=1");
}

#[test]
fn a_silent_cluster_times_out_and_counts_as_failed() {
    let strategy = json!({"type": "Progressive", "progressive": {
        "maxConcurrency": 1, "progressDeadline": "10m", "maxFailures": 1
    }});
    let mut it = Model::new(json!([{"name": "p", "rolloutStrategy": strategy}]), "1");
    it.choose("p", &["c1", "c2", "c3"]).pass();
    assert_eq!(it.plan().again.map(|it| it.as_secs()), Some(600));
    // Its apply fails all the time: it counts since it was written.
    let written = it.now;
    it.report("c1", &[("Applied", "False")]);
    it.now = written + 11.minutes();
    let late = it.seen();
    let member = &late.members[0];
    assert_eq!(member.existing.status, placement::rollout::RolloutState::Progressing);
    let mut seen = it.seen();
    seen.members[0].existing.since = Some(written);
    let text = ReplicaSetWorks::plan(&seen).to_string();
    assert!(text.contains("create ManifestWork c2"), "{text}");
}

#[test]
fn a_cluster_that_leaves_loses_its_work() {
    let mut it = Model::new(json!([{"name": "p"}]), "1");
    it.choose("p", &["c1", "c2"]).pass();
    it.choose("p", &["c2"]).pass();
    assert_eq!(it.show(), "c2=1");
}

#[test]
fn nothing_is_removed_while_decisions_are_missing() {
    let mut it = Model::new(json!([{"name": "p"}]), "1");
    it.choose("p", &["c1", "c2"]).pass();
    let mut seen = it.seen();
    seen.placements[0].decisions.clear();
    assert_eq!(
        ReplicaSetWorks::plan(&seen).to_string(),
        "nothing to do\nwaits: decisions of placement p are missing; nothing is removed\n"
    );
}

#[test]
fn works_of_a_missing_placement_stay_and_block_nothing() {
    let mut it = Model::new(json!([{"name": "gone"}, {"name": "p"}]), "1");
    it.choose("gone", &["c1"]).choose("p", &["c2"]).pass();
    it.placements.remove("gone");
    it.change("2");
    it.choose("p", &["c2", "c3"]);
    let text = it.pass();
    assert!(text.contains("refuses: there is no placement gone"), "{text}");
    assert_eq!(it.show(), "c1=1 c2=2 c3=2");
    // A reference that is taken back is another matter.
    it.set.spec.placement_refs.remove(0);
    it.pass();
    assert_eq!(it.show(), "c2=2 c3=2");
}

#[test]
fn an_invalid_strategy_stops_only_its_own_placement() {
    let strategy = json!({"type": "Progressive", "progressive": {"minSuccessTime": "soon"}});
    let mut it = Model::new(json!([{"name": "q", "rolloutStrategy": strategy}, {"name": "p"}]), "1");
    it.choose("q", &["c1"]).choose("p", &["c2"]);
    let text = it.pass();
    assert!(text.contains("refuses: placement q:"), "{text}");
    assert_eq!(it.show(), "c2=1");
}

#[test]
fn two_placements_that_choose_the_same_cluster_share_its_work() {
    let mut it = Model::new(json!([{"name": "p"}, {"name": "q"}]), "1");
    it.choose("p", &["c1", "c2"]).choose("q", &["c2", "c3"]);
    it.pass();
    assert_eq!(it.show(), "c1=1 c2=1 c3=1");
    for _ in 0..5 {
        assert_eq!(it.pass(), "nothing to do");
    }
    let label = |it: &Model, cluster: &str| {
        let works = it.works.iter().find(|((of, _), _)| of == cluster);
        works.unwrap().1["metadata"]["labels"]["work.open-cluster-management.io/placementname"].clone()
    };
    assert_eq!(label(&it, "c2"), "p");
    // It leaves one of them: the work stays and belongs to the other.
    it.choose("p", &["c1"]);
    let text = it.pass();
    assert!(
        text.starts_with("hub: patch ManifestWork c2/") && text.lines().count() == 1,
        "{text}"
    );
    assert_eq!((it.show().as_str(), label(&it, "c2")), ("c1=1 c2=1 c3=1", json!("q")));
}

#[test]
fn works_that_upstream_made_are_kept_and_spare_ones_go() {
    let mut it = Model::new(json!([{"name": "p"}]), "1");
    it.choose("p", &["c1"]).pass();
    let ((_, name), work) = it.works.pop_first().unwrap();
    for generated in ["webabcde", "webfghij"] {
        let mut work = work.clone();
        work["metadata"]["name"] = json!(generated);
        work["metadata"]["uid"] = json!(generated);
        it.works.insert(("c1".into(), generated.into()), work);
    }
    assert_eq!(it.pass(), "hub: delete ManifestWork c1/webfghij");
    it.change("2").pass();
    assert_eq!(it.show(), "c1=2");
    assert!(!it.works.contains_key(&("c1".into(), name)));
}

#[test]
fn a_foreign_work_is_left_unchanged_and_reported() {
    let mut it = Model::progressive(1);
    it.choose("p", &["c1", "c2"]);
    let mut seen = it.seen();
    seen.strangers.insert("c1".into());
    let text = ReplicaSetWorks::plan(&seen).to_string();
    let name = names::work_name(&it.set);
    assert!(
        text.contains(&format!("create ManifestWork c2/{name}"))
            && !text.contains("create ManifestWork c1")
            && text.contains(&format!("refuses: somebody else's work {name} is on c1")),
        "{text}"
    );
}

#[test]
fn a_manually_edited_work_is_restored() {
    let mut it = Model::new(json!([{"name": "p"}]), "1");
    it.choose("p", &["c1"]).pass();
    for work in it.works.values_mut() {
        work["spec"]["workload"]["manifests"][0]["data"]["v"] = json!("edited");
        work["spec"]["deleteOption"] = json!({"propagationPolicy": "Orphan", "ttlSecondsAfterFinished": 5});
    }
    it.pass();
    let work = it.works.values().next().unwrap();
    assert_eq!(it.show(), "c1=1");
    assert_eq!(work["spec"].get("deleteOption"), None);
    assert_eq!(it.pass(), "nothing to do");
}

#[test]
fn a_pause_holds_the_rollout_but_still_removes_clusters() {
    let mut it = Model::progressive(1);
    it.choose("p", &["c1", "c2", "c3"]);
    for cluster in ["c1", "c2", "c3"] {
        it.pass();
        it.is_well(cluster);
    }
    it.change("2").pass();
    it.annotate(ROLLOUT_PAUSED, Some("true")).is_well("c1");
    let text = it.pass();
    assert!(text.contains("2 clusters wait, as"), "{text}");
    assert_eq!(it.show(), "c1=2 c2=1 c3=1");
    it.choose("p", &["c1", "c2", "c4"]).pass();
    assert_eq!(it.show(), "c1=2 c2=1");
    it.annotate(ROLLOUT_PAUSED, Some("false")).pass();
    assert_eq!(it.show(), "c1=2 c2=2");
}

#[test]
fn rolling_back_returns_every_work_to_the_template_before() {
    let mut it = Model::progressive(1);
    it.choose("p", &["c1", "c2"]);
    for cluster in ["c1", "c2"] {
        it.pass();
        it.is_well(cluster);
    }
    it.change("2").pass();
    it.is_ill("c1").annotate(ROLL_BACK, Some("true")).pass();
    assert_eq!(it.show(), "c1=1 c2=1");
    it.is_well("c1");
    assert!(it.plan().is_empty(), "{}", it.plan());
    it.change("3").annotate(ROLL_BACK, None).pass();
    assert_eq!(it.show(), "c1=3 c2=1");
}

#[test]
fn without_revision_permission_everything_except_rollback_works() {
    let mut it = Model::new(json!([{"name": "p"}]), "1");
    it.choose("p", &["c1", "c2"]);
    let unkept = |it: &Model| {
        let mut seen = it.seen();
        seen.revisions = None;
        ReplicaSetWorks::plan(&seen)
    };
    let name = names::work_name(&it.set);
    assert_eq!(
        unkept(&it).to_string(),
        format!("hub: create ManifestWork c1/{name}\nhub: create ManifestWork c2/{name}\n")
    );
    // Works that are as the template was before stay so: the template that was to be left does not come back over them.
    it.pass();
    it.change("2").annotate(ROLL_BACK, Some("true"));
    assert!(unkept(&it).is_empty(), "{}", unkept(&it));
}

#[test]
fn the_cascade_policy_decides_when_a_set_is_removed() {
    for (policy, after) in [
        (
            "Background",
            "hub: delete ManifestWork c1/N\nstage 2\nhub: patch ManifestWorkReplicaSet default/web",
        ),
        (
            "Foreground",
            "hub: delete ManifestWork c1/N\nwaits: 1 works are not gone yet",
        ),
    ] {
        let mut it = Model::new(json!([{"name": "p"}]), "1");
        it.choose("p", &["c1"]).pass();
        it.linger = true;
        it.set.spec.cascade_deletion_policy = serde_json::from_value(json!(policy)).unwrap();
        it.set.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T12:00:00Z")).unwrap();
        let text = it.pass().replace(&names::work_name(&it.set), "N");
        let text = text.strip_prefix("stage 1\n").unwrap_or(&text);
        assert_eq!(text, after, "{policy}");
        if policy == "Foreground" {
            assert_eq!(it.pass(), "nothing to do\nwaits: 1 works are not gone yet");
            it.works.clear();
            it.pass();
        }
        assert!(it.set.finalizers().is_empty());
    }
}

#[test]
fn a_returning_cluster_waits_until_its_old_work_is_gone() {
    let mut it = Model::new(json!([{"name": "p"}]), "1");
    it.choose("p", &["c1"]).pass();
    it.linger = true;
    it.choose("p", &[]).pass();
    it.choose("p", &["c1"]);
    assert_eq!(it.pass(), "nothing to do\nwaits: the work before on c1 is not gone yet");
    it.works.clear();
    it.pass();
    assert_eq!(it.show(), "c1=1");
}

#[test]
fn a_thousand_clusters_are_many_small_plans() {
    let mut it = Model::new(json!([{"name": "p"}]), "1");
    let clusters: Vec<String> = (0..1000).map(|it| format!("c{it:04}")).collect();
    let clusters: Vec<&str> = clusters.iter().map(String::as_str).collect();
    it.choose("p", &clusters);
    for _ in 0..4 {
        let plan = it.plan();
        assert!(plan.len() <= ROUND + 1);
        it.pass();
    }
    assert_eq!(it.works.len(), 1000);
    assert_eq!(it.plan().to_string(), "nothing to do\n");
    // A cluster that just failed is not in the way of the others.
    let mut seen = Model::new(json!([{"name": "p"}]), "1")
        .choose("p", &["c1", "c2"])
        .seen();
    seen.earlier.failed.insert("c1".into());
    let text = ReplicaSetWorks::plan(&seen).to_string();
    assert!(
        !text.contains("ManifestWork c1/") && text.contains("ManifestWork c2/"),
        "{text}"
    );
}

#[tokio::test]
async fn a_round_that_writes_nothing_is_the_last() {
    let mut it = Model::new(json!([{"name": "p"}]), "1");
    let clusters: Vec<String> = (0..ROUND + 40).map(|it| format!("c{it:04}")).collect();
    let clusters: Vec<&str> = clusters.iter().map(String::as_str).collect();
    it.choose("p", &clusters).pass();
    let plan = it.plan();
    assert_eq!(plan.again, None);
    it.pass();
    // They say what is wanted, though in other words: a change of them would change nothing.
    let mut seen = it.seen();
    for member in &mut seen.members {
        member.spec = Fingerprint::of(&ManifestWorkSpec::default());
    }
    let plan = ReplicaSetWorks::plan(&seen);
    assert_eq!((plan.len(), plan.again), (0, None));
    // A plan that wants to be looked at again at once is one of several only when it has written something.
    let goes_on = async |plan: &Plan| ReplicaSetWorks::goes_on(&it.seen(), &execute(&Clients::default(), plan).await);
    let mut plan = Plan::new();
    plan.look_again(Duration::ZERO);
    assert!(!goes_on(&plan).await);
    plan.delete(Site::Hub, &it.set);
    assert!(goes_on(&plan).await);
}

#[tokio::test]
async fn failures_of_rounds_are_counted_and_the_first_is_told() {
    let mut it = Model::new(json!([{"name": "p"}]), "1");
    it.choose("p", &["c1", "c2"]);
    // Without a client every write fails.
    let outcome = execute(&Clients::default(), &it.plan()).await;
    let failed = outcome.results().count();
    let rounds = EarlierRounds::default().and(&outcome);
    let first = rounds.failure.clone().unwrap().0;
    assert!(first.ends_with("no client for the hub"), "{first}");
    assert_eq!(rounds.failure, Some((first.clone(), failed)));
    assert_eq!(rounds.failure_with(&outcome), Some((first, 2 * failed)));
    assert!(rounds.failed.contains("c1") && rounds.failed.contains("c2"));
    assert_eq!(rounds.conclude(&outcome), Plan::new());
}

/// Pseudo-random numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % sides
    }
}

/// Clusters come and go, templates change, works succeed, fail and are edited, somebody pauses and goes back; whatever
/// happens, no more clusters are told than may be under way, and when everything calms down all is as it was wanted.
#[test]
fn no_sequence_of_events_starts_too_many_or_ends_wrong() {
    for seed in 0..80 {
        let mut dice = Dice(seed);
        let at_once = dice.roll(3) + 1;
        let failures = [json!(0), json!("50%"), json!("100%")][dice.roll(3) as usize].clone();
        let strategy = json!({"type": "Progressive", "progressive": {
            "maxConcurrency": at_once, "maxFailures": failures
        }});
        let mut it = Model::new(json!([{"name": "p", "rolloutStrategy": strategy}]), "0");
        it.linger = dice.roll(2) == 0;
        let mut chosen: BTreeSet<String> = BTreeSet::new();
        for step in 0..60 {
            let cluster = format!("c{}", dice.roll(8));
            match dice.roll(10) {
                0 | 1 => {
                    chosen.insert(cluster);
                }
                2 => {
                    chosen.remove(&cluster);
                }
                3 => {
                    it.change(&step.to_string());
                }
                4 => {
                    it.is_ill(&cluster);
                }
                5 => {
                    // Its agent lets go of what was deleted.
                    it.works
                        .retain(|(of, _), work| *of != cluster || work["metadata"]["deletionTimestamp"].is_null());
                }
                6 => match dice.roll(4) {
                    0 => {
                        it.annotate(ROLLOUT_PAUSED, Some("true"));
                    }
                    1 => {
                        it.annotate(ROLL_BACK, Some("true"));
                    }
                    2 => {
                        it.annotate(ROLL_BACK, None);
                    }
                    _ => {
                        it.annotate(ROLLOUT_PAUSED, None);
                    }
                },
                _ => {
                    it.is_well(&cluster);
                }
            }
            let names: Vec<&str> = chosen.iter().map(String::as_str).collect();
            it.choose("p", &names);
            check(&it, at_once as usize, seed);
            it.pass();
        }
        it.annotate(ROLLOUT_PAUSED, None).annotate(ROLL_BACK, None);
        let wanted = it.set.spec.manifest_work_template.workload.manifests.read()[0].0["data"]["v"].clone();
        for _ in 0..40 {
            it.works
                .retain(|_, work| work["metadata"]["deletionTimestamp"].is_null());
            for cluster in 0..8 {
                it.is_well(&format!("c{cluster}"));
            }
            check(&it, at_once as usize, seed);
            if it.pass() == "nothing to do" {
                break;
            }
        }
        let expected: Vec<String> = chosen
            .iter()
            .map(|it| format!("{it}={}", wanted.as_str().unwrap()))
            .collect();
        assert_eq!(it.show(), expected.join(" "), "seed {seed}");
        assert!(it.plan().is_empty(), "seed {seed}: {}", it.plan());
    }
}

/// What the plan starts has room beside what is under way, as an independent look at the works sees it.
fn check(it: &Model, at_once: usize, seed: u64) {
    let seen = it.seen();
    let desired = DesiredState::of(&it.set, &seen);
    let wanted = desired.fingerprint();
    let chosen: Vec<&str> = seen.placements[0]
        .decisions
        .iter()
        .flat_map(|it| it.status.iter().flat_map(|it| &it.decisions))
        .map(|it| it.cluster_name.as_str())
        .collect();
    let under_way = seen
        .members
        .iter()
        .filter(|it| {
            !it.is_leaving()
                && it.spec == wanted
                && chosen.contains(&it.cluster())
                && it.existing.status != placement::rollout::RolloutState::Succeeded
        })
        .count();
    let plan = it.plan();
    let starts = plan
        .stages
        .iter()
        .flatten()
        .filter(|step| match step {
            Step::Create { target, .. } => target.api_resource.kind == "ManifestWork",
            Step::MergePatch { target, patch, .. } => {
                target.api_resource.kind == "ManifestWork" && patch.get("spec").is_some()
            }
            _ => false,
        })
        .count();
    let at_once = at_once.min(chosen.len().max(1));
    assert!(
        starts == 0 || under_way + starts <= at_once.max(under_way),
        "seed {seed}: {under_way} under way, {starts} start, {at_once} may: {plan}"
    );
    assert!(
        starts == 0 || it.set.annotations().get(ROLLOUT_PAUSED).is_none_or(|it| it != "true"),
        "seed {seed}: {plan}"
    );
}
