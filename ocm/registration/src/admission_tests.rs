use serde_json::{Value, json};

use super::*;

/// A context in which the requester may do what is listed, as `verb resource/subresource name`.
struct Fixture {
    rights: &'static [&'static str],
    terminating: bool,
}

impl AdmissionContext for Fixture {
    fn may(&self, it: &Attributes) -> Result<bool, String> {
        let asked = format!(
            "{} {}/{} {}",
            it.verb,
            it.resource,
            it.subresource.as_deref().unwrap_or_default(),
            it.name.as_deref().unwrap_or_default()
        );
        Ok(self.rights.contains(&asked.as_str()))
    }
    fn is_terminating(&self, _: &str) -> Result<bool, String> {
        Ok(self.terminating)
    }
}

const NOBODY: Fixture = Fixture {
    rights: &[],
    terminating: false,
};
const ADMIN: Fixture = Fixture {
    rights: &[
        "update managedclusters/accept cluster1",
        "create managedclustersets/join default",
        "create managedclustersets/join blue",
        "create managedclustersets/bind blue",
    ],
    terminating: false,
};

fn cluster(value: Value) -> ManagedCluster {
    serde_json::from_value(value).unwrap()
}

fn bare() -> ManagedCluster {
    cluster(json!({"metadata": {"name": "cluster1"}, "spec": {}}))
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn message(result: Result<impl std::fmt::Debug, Denial>) -> String {
    let denial = result.expect_err("a denial");
    format!("{} {}", denial.code, denial.message)
}

#[test]
fn a_new_taint_gets_its_time_from_the_hub() {
    let sent = cluster(json!({"metadata": {"name": "cluster1"},
        "spec": {"taints": [{"key": "a", "effect": "NoSelect", "timeAdded": "1999-01-01T00:00:00Z"}]}}));
    let made = mutate_managed_cluster(&sent, WriteOperation::Create, true, now()).unwrap();
    assert_eq!(made.spec.taints[0].time_added, Some(Time(now())));
    assert_eq!(
        made.labels()["cluster.open-cluster-management.io/clusterset"],
        "default"
    );
}

#[test]
fn nobody_may_set_the_time_of_a_taint_on_update() {
    let old = cluster(json!({"metadata": {"name": "cluster1"},
        "spec": {"taints": [{"key": "a", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}]}}));
    let same = mutate_managed_cluster(&old, WriteOperation::Update(&old), true, now()).unwrap();
    assert_eq!(same.spec.taints, old.spec.taints);
    let mut moved = old.clone();
    moved.spec.taints[0].time_added = None;
    assert_eq!(
        message(mutate_managed_cluster(
            &moved,
            WriteOperation::Update(&old),
            true,
            now()
        )),
        "400 It is not allowed to set TimeAdded of Taint \"a\"."
    );
    let mut changed = old.clone();
    changed.spec.taints[0].value = "v".to_owned();
    changed.spec.taints[0].time_added = None;
    let made = mutate_managed_cluster(&changed, WriteOperation::Update(&old), true, now()).unwrap();
    assert_eq!(made.spec.taints[0].time_added, Some(Time(now())));
}

#[test]
fn accepting_a_cluster_requires_permission() {
    let mut accepted = bare();
    accepted.spec.hub_accepts_client = true;
    assert_eq!(
        message(validate_managed_cluster(
            "eve",
            &accepted,
            WriteOperation::Update(&bare()),
            &NOBODY
        )),
        "403 managedclusters/accept.cluster.open-cluster-management.io \"cluster1\" is forbidden: user \"eve\" cannot update the \
         HubAcceptsClient field"
    );
    assert_eq!(
        validate_managed_cluster("admin", &accepted, WriteOperation::Update(&bare()), &ADMIN),
        Ok(())
    );
    assert_eq!(
        validate_managed_cluster("eve", &bare(), WriteOperation::Update(&accepted), &NOBODY),
        Ok(())
    );
    let terminating = Fixture {
        rights: ADMIN.rights,
        terminating: true,
    };
    assert_eq!(
        message(validate_managed_cluster(
            "admin",
            &accepted,
            WriteOperation::Create,
            &terminating
        )),
        "403 managedclusters/accept.cluster.open-cluster-management.io \"cluster1\" is forbidden: cluster namespace \"cluster1\" is \
         terminating"
    );
}

#[test]
fn permission_to_accept_cluster1_does_not_accept_cluster10() {
    let cluster10 = cluster(json!({"metadata": {"name": "cluster10"}, "spec": {"hubAcceptsClient": true}}));
    assert!(
        message(validate_managed_cluster(
            "admin",
            &cluster10,
            WriteOperation::Create,
            &ADMIN
        ))
        .starts_with("403 ")
    );
}

#[test]
fn moving_between_sets_requires_permission_for_both() {
    let labelled = |set: &str| {
        cluster(
            json!({"metadata": {"name": "cluster1", "labels": {"cluster.open-cluster-management.io/clusterset": set}}}),
        )
    };
    let (default, blue, red) = (labelled("default"), labelled("blue"), labelled("red"));
    assert_eq!(
        validate_managed_cluster("admin", &blue, WriteOperation::Update(&default), &ADMIN),
        Ok(())
    );
    assert_eq!(
        message(validate_managed_cluster(
            "admin",
            &blue,
            WriteOperation::Update(&red),
            &ADMIN
        )),
        "403 managedclustersets/join.cluster.open-cluster-management.io \"red\" is forbidden: user \"admin\" cannot add/remove a \
         ManagedCluster to/from ManagedClusterSet \"red\""
    );
}

#[test]
fn client_urls_must_be_https_and_names_dns_labels() {
    let http = cluster(json!({"metadata": {"name": "cluster1"},
        "spec": {"managedClusterClientConfigs": [{"url": "http://here"}]}}));
    assert_eq!(
        message(validate_managed_cluster("u", &http, WriteOperation::Create, &ADMIN)),
        "400 url \"http://here\" is invalid in client configs"
    );
    for name in ["Cluster1", "a.b", "-a", "a-", "", &"a".repeat(64), "managed-clusters"] {
        assert!(check_name(name).is_err(), "{name}");
    }
    assert_eq!(check_name("cluster-1"), Ok(()));
}

#[test]
fn existing_clusters_with_invalid_names_can_be_updated_and_deleted() {
    let of = |value: Value| {
        let mut whole = json!({"metadata": {"name": "edge.example"}, "spec": {}});
        for (key, value) in value.as_object().unwrap() {
            whole[key] = value.clone();
        }
        cluster(whole)
    };
    let check = |new: &ManagedCluster, operation| validate_managed_cluster("admin", new, operation, &ADMIN);
    let wrong = "400 metadata.name format is not correct: \"edge.example\" is not a valid namespace name, use at most 63 lower \
                 case letters, digits and '-', and begin and end with a letter or digit";
    let old = of(json!({}));
    assert_eq!(message(check(&old, WriteOperation::Create)), wrong);
    assert_eq!(check(&old, WriteOperation::Update(&old)), Ok(()));
    // It cannot become what needs a namespace.
    let accepted = of(json!({"spec": {"hubAcceptsClient": true}}));
    assert_eq!(message(check(&accepted, WriteOperation::Update(&old))), wrong);
    // As upstream has it for all.
    let reached = of(json!({"spec": {"managedClusterClientConfigs": [{"url": "https://edge.example"}]}}));
    assert_eq!(message(check(&reached, WriteOperation::Update(&old))), wrong);
    let leaving = of(json!({
        "metadata": {"name": "edge.example", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"managedClusterClientConfigs": [{"url": "https://edge.example"}]},
    }));
    assert_eq!(check(&leaving, WriteOperation::Update(&reached)), Ok(()));
}

#[test]
fn a_binding_has_its_sets_name_and_requires_bind_permission() {
    let binding = |name: &str| -> ManagedClusterSetBinding {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"clusterSet": "blue"}}))
            .unwrap()
    };
    assert!(message(validate_set_binding("u", &binding("b"), WriteOperation::Create, &ADMIN)).starts_with("400 "));
    assert_eq!(
        validate_set_binding("u", &binding("blue"), WriteOperation::Create, &ADMIN),
        Ok(())
    );
    assert_eq!(
        message(validate_set_binding(
            "u",
            &binding("blue"),
            WriteOperation::Create,
            &NOBODY
        )),
        "403 managedclustersets/bind.apps \"blue\" is forbidden: user \"u\" is not allowed to bind cluster set \"blue\""
    );
    assert_eq!(
        validate_set_binding("u", &binding("blue"), WriteOperation::Update(&binding("blue")), &NOBODY),
        Ok(())
    );
}
