use serde_json::{Value, json};

use super::*;

fn work(available: Option<(&str, &str)>, reported: Value) -> ManifestWork {
    let conditions: Vec<_> = available
        .into_iter()
        .map(|(status, message)| {
            json!({
                "type": "Available", "status": status, "reason": "R", "message": message,
                "lastTransitionTime": "2026-01-01T12:00:00Z"
            })
        })
        .collect();
    serde_json::from_value(json!({
        "metadata": {"name": "addon-a-deploy-0"},
        "status": {"conditions": conditions, "resourceStatus": {"manifests": reported}}
    }))
    .unwrap()
}

fn reported(resource: &str, name: &str, values: &[(&str, i64)]) -> Value {
    let values: Vec<_> = values
        .iter()
        .map(|(name, value)| json!({"name": name, "fieldValue": {"type": "Integer", "integer": value}}))
        .collect();
    json!({
        "resourceMeta": {"group": "apps", "resource": resource, "name": name, "namespace": "n"},
        "statusFeedback": {"values": values}
    })
}

fn said(health: &Health, probes: &[Probe], works: &[ManifestWork]) -> String {
    said_when(health, probes, works, Some(Status::True), true)
}

fn said_when(
    health: &Health,
    probes: &[Probe],
    works: &[ManifestWork],
    cluster: Option<Status>,
    manifests_reported: bool,
) -> String {
    let works: Vec<_> = works.iter().collect();
    let status = judge(&Case {
        addon: "a",
        health,
        probes,
        works: &works,
        manifests_reported,
        cluster,
        judge: &|results| match results
            .iter()
            .filter_map(|it| it.integer("AvailableReplicas"))
            .sum::<i64>()
        {
            1 => Ok(()),
            other => Err(format!("{other} replicas")),
        },
    });
    match status {
        Ok(it) => format!("{} {} {}", it.status, it.reason, it.message),
        Err(why) => why.to_owned(),
    }
}

fn fine(reports: Value) -> [ManifestWork; 1] {
    [work(Some(("True", "")), reports)]
}

#[test]
fn what_is_not_ours_to_judge_is_not_judged() {
    for (health, why) in [
        (Health::Lease, "the agent judges its health by its lease"),
        (Health::None, "nobody judges its health"),
    ] {
        assert_eq!(said(&health, &[], &fine(json!([]))), why);
    }
    let silent = "nothing is known of the cluster at present";
    for health in [Health::Work(vec![]), Health::Deployments] {
        assert_eq!(
            said_when(&health, &[], &fine(json!([])), Some(Status::Unknown), true),
            silent
        );
    }
    let early = said_when(&Health::Deployments, &[], &fine(json!([])), None, false);
    assert_eq!(early, "its manifests are not applied yet");
}

#[test]
fn the_works_come_before_what_they_report() {
    let all = Health::Deployments;
    let health = Health::Work(vec![]);
    assert_eq!(
        said(&health, &[], &[]),
        "True WorkApplied Addon manifestWork is applied"
    );
    assert_eq!(
        said(&all, &[], &[]),
        "Unknown WorkNotFound Addon manifestWork is not found"
    );
    assert_eq!(
        said(&all, &[], &[work(None, json!([]))]),
        "Unknown WorkNotApplied Addon manifestWork is not applied yet"
    );
    assert_eq!(
        said(
            &all,
            &[],
            &[work(Some(("False", "1 of 2 resources are not available")), json!([]))]
        ),
        "False WorkNotApplied 1 of 2 resources are not available"
    );
    assert_eq!(
        said(&all, &[], &fine(json!([]))),
        "True ProbeAvailable a add-on is available."
    );
    assert_eq!(
        said(&all, &[Probe::deployment("n", "d")], &fine(json!([]))),
        "Unknown NoProbeResult Probe results are not returned"
    );
}

#[test]
fn one_ready_replica_suffices_for_deployments_but_not_daemon_sets() {
    let deployment = |ready, desired| reported("deployments", "d", &[("ReadyReplicas", ready), ("Replicas", desired)]);
    let look = |report: Value| {
        said(
            &Health::Workloads,
            &[Probe::deployment("n", "d")],
            &fine(json!([report])),
        )
    };
    assert_eq!(look(deployment(1, 3)), "True ProbeAvailable a add-on is available.");
    assert_eq!(look(deployment(0, 0)), "True ProbeAvailable a add-on is available.");
    assert_eq!(
        look(deployment(0, 3)),
        "False ProbeUnavailable Probe addon unavailable with err desiredNumberReplicas is 3 but readyReplica is 0 for \
         deployments n/d"
    );
    assert_eq!(
        look(reported("deployments", "d", &[("Replicas", 1)])),
        "False ProbeUnavailable Probe addon unavailable with err readyReplica is not probed"
    );
    assert_eq!(
        look(reported("deployments", "d", &[("ReadyReplicas", 1)])),
        "False ProbeUnavailable Probe addon unavailable with err desiredNumberReplicas is not probed"
    );
    let daemon = |ready, desired| {
        let values = [("NumberReady", ready), ("DesiredNumberScheduled", desired)];
        let probe = [Probe::well_known("apps", "daemonsets", "n", "s")];
        said(
            &Health::Workloads,
            &probe,
            &fine(json!([reported("daemonsets", "s", &values)])),
        )
    };
    assert_eq!(daemon(3, 3), "True ProbeAvailable a add-on is available.");
    assert_eq!(
        daemon(2, 3),
        "False ProbeUnavailable Probe addon unavailable with err desiredNumberReplicas is 3 but readyReplica is 2 for \
         daemonsets n/s"
    );
}

#[test]
fn a_ready_probe_does_not_hide_an_unreported_one() {
    let probes = [Probe::deployment("n", "d"), Probe::deployment("n", "never-came-up")];
    let report = reported("deployments", "d", &[("ReadyReplicas", 1), ("Replicas", 1)]);
    assert_eq!(
        said(&Health::Deployments, &probes, &fine(json!([report]))),
        "False ProbeUnavailable Probe addon unavailable with err readyReplica is not probed"
    );
}

#[test]
fn the_add_on_judges_probe_results_of_any_work() {
    let works = [
        work(
            Some(("True", "")),
            json!([reported("deployments", "agent-1", &[("AvailableReplicas", 1)])]),
        ),
        work(
            Some(("True", "")),
            json!([reported("deployments", "other", &[("AvailableReplicas", 5)])]),
        ),
    ];
    let probes = vec![Probe::deployment("*", "agent-*")];
    assert_eq!(
        said(&Health::Work(probes.clone()), &probes, &works),
        "True ProbeAvailable a add-on is available."
    );
    let probes = vec![Probe::deployment("n", "other")];
    assert_eq!(
        said(&Health::Work(probes.clone()), &probes, &works),
        "False ProbeUnavailable Probe addon unavailable with err 5 replicas"
    );
}

#[test]
fn a_star_stands_for_any_text() {
    for (pattern, text, expected) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("*", "", true),
        ("*", "anything", true),
        ("a*", "abc", true),
        ("a*", "ba", false),
        ("*-agent", "x-agent", true),
        ("*-agent", "x-agent-1", false),
        ("a*b*c", "a1b2c", true),
        ("a*b*c", "a1c2b", false),
        ("a*a", "a", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}
