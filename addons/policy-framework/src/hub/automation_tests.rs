use super::*;

fn policy(states: &[(&str, &str)]) -> Policy {
    let states: Vec<Value> = states
        .iter()
        .map(|(on, state)| json!({"clustername": on, "clusternamespace": on, "compliant": state}))
        .collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "p", "uid": "policy"},
        "spec": {"disabled": false, "policy-templates": []},
        "status": {"status": states, "placement": [{"placementBinding": "b", "policySet": "s"}]},
    }))
    .unwrap()
}

fn automation(mode: &str, more: Value, status: Value) -> PolicyAutomation {
    let mut spec = json!({
        "policyRef": "p", "mode": mode, "automationDef": {"name": "job", "secret": "tower", "extra_vars": {"own": 1, "policy_name": "mine"}},
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "ns", "name": "My.Auto", "uid": "automation", "generation": 3, "resourceVersion": "42",
            "ownerReferences": [{"apiVersion": "x", "kind": "Policy", "name": "p", "uid": "policy"}],
        },
        "spec": spec, "status": status,
    }))
    .unwrap()
}

fn seen(automation: PolicyAutomation, policy: Policy) -> Seen {
    let replica = json!({
        "metadata": {"namespace": "c1", "name": "ns.p"}, "spec": {"disabled": false, "policy-templates": []},
        "status": {"compliant": "NonCompliant", "details": [{
            "templateMeta": {"name": "t"}, "compliant": "NonCompliant",
            "history": [{"message": "NonCompliant; violation - x", "lastTimestamp": "2026-01-01T00:00:00Z", "eventName": "e"}],
        }]},
    });
    Seen {
        now: "2026-01-01T00:01:00Z".parse().unwrap(),
        automation: Some(Arc::new(automation)),
        policy: Some(Arc::new(policy)),
        replicas: [("c1".to_owned(), Arc::new(serde_json::from_value(replica).unwrap()))].into(),
        jobs: Vec::new(),
        hub_cluster: "example.org".to_owned(),
    }
}

/// The job that is created, and the patches.
fn written_by(seen: &Seen) -> (Option<Value>, Vec<Value>) {
    let plan = Automations::plan(seen);
    let (mut job, mut patches) = (None, Vec::new());
    for step in plan.stages.into_iter().flatten() {
        match step {
            Step::Create { object, .. } => job = Some(object),
            Step::MergePatch { patch, .. } => patches.push(patch),
            other => panic!("{other:?}"),
        }
    }
    (job, patches)
}

const VIOLATED: &[(&str, &str)] = &[("c1", "NonCompliant"), ("c2", "Compliant")];

#[test]
fn once_starts_one_job_and_turns_itself_off() {
    let first = seen(automation("once", json!({}), Value::Null), policy(VIOLATED));
    let (job, patches) = written_by(&first);
    let job = job.unwrap();
    assert_eq!(job["metadata"]["generateName"], "my-auto-once-");
    assert_eq!(job["metadata"]["labels"], json!({LABEL: "My.Auto"}));
    assert_eq!(
        job["metadata"]["annotations"],
        json!({GENERATION: "3", RESOURCE_VERSION: "42"})
    );
    assert_eq!(
        job["spec"],
        json!({
            "job_template_name": "job", "tower_auth_secret": "tower", "job_ttl": 86400,
            "extra_vars": {
                "own": 1, "target_clusters": ["c1"], "policy_name": "p", "policy_namespace": "ns", "hub_cluster": "example.org",
                "policy_sets": ["s"],
                "policy_violations": {"c1": {
                    "compliant": "NonCompliant", "violation_message": "NonCompliant; violation - x",
                    "details": [{"compliant": "NonCompliant", "history": [
                        {"lastTimestamp": "2026-01-01T00:00:00Z", "message": "NonCompliant; violation - x"},
                    ]}],
                }},
            },
        })
    );
    assert_eq!(patches[0]["spec"], json!({"mode": "disabled"}));
    let mut again = first;
    again.jobs = vec![[(GENERATION.to_owned(), "3".to_owned())].into()];
    assert_eq!(written_by(&again).0, None);
}

#[test]
fn nothing_is_started_while_all_comply_or_policy_is_disabled() {
    let quiet = seen(
        automation("once", json!({}), Value::Null),
        policy(&[("c1", "Compliant")]),
    );
    assert_eq!(written_by(&quiet), (None, Vec::new()));
    let mut disabled = policy(VIOLATED);
    disabled.spec.disabled = true;
    assert_eq!(
        written_by(&seen(automation("everyEvent", json!({}), Value::Null), disabled)),
        (None, Vec::new())
    );
    assert_eq!(
        written_by(&seen(automation("disabled", json!({}), Value::Null), policy(VIOLATED))),
        (None, Vec::new())
    );
}

#[test]
fn the_policy_becomes_the_owner_first() {
    let mut orphan = automation("once", json!({}), Value::Null);
    orphan.metadata.owner_references = None;
    let (job, patches) = written_by(&seen(orphan, policy(VIOLATED)));
    assert_eq!(job, None);
    assert_eq!(patches[0]["metadata"]["ownerReferences"][0]["uid"], "policy");
}

#[test]
fn a_rerun_starts_a_job_whatever_the_state() {
    let mut asked = automation("disabled", json!({}), Value::Null);
    asked
        .annotations_mut()
        .insert(annotations::RERUN.to_owned(), "true".to_owned());
    let (job, patches) = written_by(&seen(asked, policy(&[("c1", "Compliant")])));
    let job = job.unwrap();
    assert_eq!(job["metadata"]["generateName"], "my-auto-manual-");
    assert_eq!(job["spec"]["extra_vars"]["target_clusters"], json!([]));
    assert_eq!(job["spec"]["extra_vars"]["policy_violations"], Value::Null);
    assert_eq!(
        patches[0]["metadata"]["annotations"],
        json!({ annotations::RERUN: null })
    );
}

#[test]
fn every_event_starts_a_job_for_new_clusters_only() {
    let before = json!({"clustersWithEvent": {
        "c1": {"automationStartTime": "2026-01-01T00:00:00Z", "eventTime": "2026-01-01T00:00:00Z"},
        "c2": {"automationStartTime": "2026-01-01T00:00:00Z", "eventTime": "2026-01-01T00:00:00Z"},
    }});
    let states = &[("c1", "NonCompliant"), ("c2", "Compliant"), ("c3", "NonCompliant")];
    let (job, patches) = written_by(&seen(automation("everyEvent", json!({}), before), policy(states)));
    assert_eq!(job.unwrap()["spec"]["extra_vars"]["target_clusters"], json!(["c3"]));
    let said = &patches[0]["status"]["clustersWithEvent"];
    assert_eq!(said["c2"], Value::Null);
    assert_eq!(said["c3"]["automationStartTime"], "2026-01-01T00:01:00Z");
    assert_eq!(said.get("c1"), None);
}

#[test]
fn a_cluster_that_fails_again_waits_for_the_delay() {
    let relapsed = |delay: u64| {
        let before = json!({"clustersWithEvent": {
            "c1": {"automationStartTime": "2026-01-01T00:00:00Z", "eventTime": "2026-01-01T00:00:30Z"},
        }});
        seen(
            automation("everyEvent", json!({ "delayAfterRunSeconds": delay }), before),
            policy(VIOLATED),
        )
    };
    let waiting = relapsed(100);
    assert_eq!(written_by(&waiting).0, None);
    assert_eq!(Automations::plan(&waiting).again, Some(Duration::from_secs(41)));
    assert!(written_by(&relapsed(50)).0.is_some());
}

#[test]
fn violations_are_told_up_to_the_limit() {
    let limited = json!({"automationDef": {"name": "job", "secret": "tower", "policyViolationsLimit": 1}});
    let mut many = seen(
        automation("once", limited, Value::Null),
        policy(&[("c1", "NonCompliant"), ("c2", "NonCompliant")]),
    );
    let replica = many.replicas["c1"].clone();
    many.replicas.insert("c2".to_owned(), replica);
    let told = written_by(&many).0.unwrap()["spec"]["extra_vars"]["policy_violations"].clone();
    assert_eq!(told.as_object().unwrap().len(), 1);
}
