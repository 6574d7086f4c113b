use serde_json::json;

use super::*;

/// A context in which the writer may do what is listed, as `verb resource namespace/name`.
struct Rights(&'static [&'static str]);

impl AdmissionContext for Rights {
    fn may(&self, it: &Attributes) -> Result<bool, String> {
        let place = [it.namespace.as_deref(), it.name.as_deref()]
            .map(Option::unwrap_or_default)
            .join("/");
        Ok(self
            .0
            .contains(&format!("{} {} {place}", it.verb, it.resource).as_str()))
    }
    fn is_terminating(&self, _: &str) -> Result<bool, String> {
        Ok(false)
    }
}

const NOTHING: Rights = Rights(&[]);
const ALL: Rights = Rights(&[
    "update managedclusters /cluster1",
    "update managedclusteraddons cluster1/",
    "create manifestworks cluster2/",
]);

fn agent(groups: &[String]) -> Writer<'_> {
    Writer {
        user: "system:open-cluster-management:cluster1:a1",
        groups,
    }
}

fn groups() -> Vec<String> {
    vec![
        identity::cluster_group("cluster1"),
        identity::MANAGED_CLUSTERS_GROUP.to_owned(),
    ]
}

fn person() -> Writer<'static> {
    Writer {
        user: "jane",
        groups: &[],
    }
}

fn cluster() -> Value {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {
            "name": "cluster1", "uid": "u", "resourceVersion": "7", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"cluster.open-cluster-management.io/clusterset": "default"},
            "annotations": {"registration.open-cluster-management.io/served-by": "a1"},
            "finalizers": ["cluster.open-cluster-management.io/api-resource-cleanup"],
        },
        "spec": {"hubAcceptsClient": true, "leaseDurationSeconds": 60},
        "status": {
            "conditions": [{"type": "HubAcceptedManagedCluster", "status": "True"}],
            "managedNamespaces": [{"name": "n", "clusterSet": "s"}],
        },
    })
}

/// The fields that a schema lists, with a value for each that is none that an object of these tests has.
fn fields(schema: &Value) -> Vec<(String, Value)> {
    let properties = schema["properties"].as_object().expect("an object has properties");
    let other = |it: &Value| match it["type"].as_str() {
        Some("boolean") => json!(false),
        Some("integer" | "number") => json!(7),
        Some("array") => json!([{"name": "other", "type": "Other"}]),
        Some("object") => json!({"other": "other"}),
        _ => json!("other"),
    };
    properties.iter().map(|(key, it)| (key.clone(), other(it))).collect()
}

fn schema() -> Value {
    let all = ocm_api::crds::hub();
    let found = all.into_iter().find(|it| it["metadata"]["name"] == CLUSTERS);
    found.expect("the kind is there")["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take()
}

#[test]
fn an_agent_changes_only_fields_listed_as_its_own() {
    let (old, groups) = (cluster(), groups());
    let may = |new: &Value| check_cluster(agent(&groups), new, Some(&old), &ALL).is_ok();
    let schema = schema();
    let mut spec = fields(&schema["properties"]["spec"]);
    spec.push(("fieldOfAnotherRelease".to_owned(), json!("x")));
    assert!(spec.len() > 4, "{spec:?}");
    for (field, value) in spec {
        let mut new = old.clone();
        new["spec"][&field] = value;
        assert_eq!(may(&new), AGENTS_SPEC.contains(&field.as_str()), "spec.{field}");
    }
    let mut lists = ["finalizers", "ownerReferences"]
        .map(|it| (it, json!([{"name": "other"}])))
        .to_vec();
    lists.push(("fieldOfAnotherRelease", json!("x")));
    for (field, value) in lists {
        let mut new = old.clone();
        new["metadata"][field] = value;
        assert!(!may(&new), "metadata.{field}");
    }
    for field in ["finalizers", "labels", "annotations"] {
        let mut new = old.clone();
        new["metadata"][field].take();
        assert!(!may(&new), "metadata.{field} is taken away");
    }
    for (key, allowed) in [
        ("agent.open-cluster-management.io/arn", true),
        ("agent.open-cluster-management.io.example.com/x", false),
        ("addon.open-cluster-management.io/hosting-cluster-name", false),
        ("addon.open-cluster-management.io/values", false),
        ("registration.open-cluster-management.io/served-by", false),
        ("open-cluster-management.io/automatically-accepted-on", false),
        ("open-cluster-management.io/image-registries", false),
        ("registration.open-cluster-management.io/skip-clock-sync-check", false),
        ("other", false),
    ] {
        for value in ["cluster2", ""] {
            let mut new = old.clone();
            new["metadata"]["annotations"][key] = json!(value);
            assert_eq!(may(&new), allowed, "annotation {key}: {value:?}");
            let mut new = old.clone();
            new["metadata"]["labels"][key] = json!(value);
            assert!(!may(&new), "label {key}: {value:?}");
        }
    }
    let mut new = old.clone();
    new["other"] = json!(1);
    assert!(!may(&new));
}

#[test]
fn an_agent_reports_only_status_listed_as_its_own() {
    let (old, groups) = (cluster(), groups());
    let may = |new: &Value| check_status(agent(&groups), new, &old).is_ok();
    let schema = schema();
    let mut status = fields(&schema["properties"]["status"]);
    status.push(("fieldOfAnotherRelease".to_owned(), json!("x")));
    assert!(status.len() > 6, "{status:?}");
    for (field, value) in status {
        let mut new = old.clone();
        new["status"][&field] = value;
        assert_eq!(may(&new), AGENTS_STATUS.contains(&field.as_str()), "status.{field}");
    }
    for kind in [
        managed_cluster::HUB_ACCEPTED,
        managed_cluster::HUB_DENIED,
        managed_cluster::JOINED,
        managed_cluster::AVAILABLE,
        managed_cluster::CLOCK_SYNCED,
        managed_cluster::DELETING,
        managed_cluster::CERTIFICATE_ROTATED,
        managed_cluster::IMPORT_SUCCEEDED,
        "Other",
    ] {
        let mut new = old.clone();
        let conditions = new["status"]["conditions"].as_array_mut().unwrap();
        conditions.retain(|it| it["type"] != kind);
        conditions.insert(0, json!({"type": kind, "status": "False"}));
        assert_eq!(may(&new), AGENTS_CONDITIONS.contains(&kind), "{kind}");
    }
    let mut forgotten = old.clone();
    forgotten["status"]["conditions"] = json!([]);
    assert!(!may(&forgotten));
    let mut reported = old.clone();
    reported["status"]["managedNamespaces"][0]["conditions"] = json!([{"type": "NamespaceAvailable"}]);
    assert!(may(&reported));
    reported["status"]["managedNamespaces"][0]["name"] = json!("other");
    assert!(!may(&reported));
}

#[test]
fn a_refusal_names_the_field() {
    let (old, groups) = (cluster(), groups());
    let mut new = old.clone();
    new["spec"]["taints"] = json!([{"key": "k", "effect": "NoSelect"}]);
    assert_eq!(
        check_cluster(agent(&groups), &new, Some(&old), &ALL).unwrap_err(),
        Denial {
            code: 403,
            message: "managedclusters.cluster.open-cluster-management.io \"cluster1\" is forbidden: user \
                      \"system:open-cluster-management:cluster1:a1\" is an agent and cannot change spec.taints: agents change \
                      spec.managedClusterClientConfigs, annotations of agent.open-cluster-management.io/ and what they report in \
                      the status"
                .to_owned()
        }
    );
}

#[test]
fn a_resend_by_an_upstream_agent_counts_as_unchanged() {
    let (old, groups) = (cluster(), groups());
    // A typed client in Go drops what is empty, adds what it does not leave out, and knows no managed fields.
    let mut sent = old.clone();
    sent["metadata"]["creationTimestamp"] = Value::Null;
    sent["spec"]["taints"] = Value::Null;
    sent["spec"]["managedClusterClientConfigs"] = json!([{"url": "https://here", "caBundle": "eA=="}]);
    sent["status"]["version"] = json!({});
    assert_eq!(check_cluster(agent(&groups), &sent, Some(&old), &NOTHING), Ok(()));
    let mut status = old.clone();
    status["status"]["version"] = json!({"kubernetes": "v1.34.1"});
    assert_eq!(check_status(agent(&groups), &status, &old), Ok(()));
    // Others write what they may write at all.
    let mut tainted = old.clone();
    tainted["spec"]["taints"] = json!([{"key": "k", "effect": "NoSelect"}]);
    tainted["status"]["conditions"] = json!([]);
    assert_eq!(check_cluster(person(), &tainted, Some(&old), &NOTHING), Ok(()));
    assert_eq!(check_status(person(), &tainted, &old), Ok(()));
}

#[test]
fn the_agents_of_add_ons_are_agents() {
    let old = cluster();
    let mut new = old.clone();
    new["metadata"]["labels"]["a"] = json!("b");
    let groups = vec![identity::addon_cluster_group("cluster1", "greeter")];
    let of_add_on = [
        Writer {
            user: "x",
            groups: &groups,
        },
        Writer {
            user: "system:serviceaccount:cluster1:greeter-agent",
            groups: &[],
        },
    ];
    for by in of_add_on {
        assert!(check_cluster(by, &new, Some(&old), &ALL).is_err(), "{by:?}");
        let mut status = old.clone();
        status["status"]["conditions"][0]["status"] = json!("False");
        assert!(check_status(by, &status, &old).is_err(), "{by:?}");
    }
}

#[test]
fn creating_a_cluster_allows_only_fields_that_agents_set() {
    let create = |part: Value, context: &Rights| {
        let mut new = json!({"metadata": {"name": "cluster1"}, "spec": {}});
        for (key, value) in part.as_object().unwrap() {
            new[key] = value.clone();
            new["metadata"]["name"] = json!("cluster1");
        }
        check_cluster(person(), &new, None, context).is_ok()
    };
    let upstreams = json!({
        "metadata": {"annotations": {"agent.open-cluster-management.io/arn": "x"},
            "labels": {"cluster.open-cluster-management.io/clusterset": "default"}},
        "spec": {"hubAcceptsClient": false, "leaseDurationSeconds": 60, "managedClusterClientConfigs": [{"url": "https://x"}]},
    });
    assert!(create(upstreams, &NOTHING));
    for more in [
        json!({"metadata": {"labels": {"env": "prod"}}}),
        json!({"metadata": {"annotations": {"addon.open-cluster-management.io/values": "{}"}}}),
        json!({"metadata": {"finalizers": ["example.com/mine"]}}),
        json!({"spec": {"taints": [{"key": "k", "effect": "NoSelect"}]}}),
    ] {
        assert!(!create(more.clone(), &NOTHING), "{more}");
        assert!(create(more.clone(), &ALL), "{more}");
    }
    // The right to write clusters does not reach into their add-ons.
    let inherited = json!({"metadata": {"annotations": {"addon.open-cluster-management.io/values": "{}"}}});
    assert!(!create(inherited, &Rights(&["update managedclusters /cluster1"])));
}

#[test]
fn setting_the_hosting_cluster_requires_a_permission_there() {
    let hosted = |host: &str| {
        json!({"metadata": {"name": "greeter", "namespace": "cluster1",
            "annotations": {"addon.open-cluster-management.io/hosting-cluster-name": host}}})
    };
    let bare = json!({"metadata": {"name": "greeter", "namespace": "cluster1"}});
    let refused = check_add_on(person(), &hosted("cluster2"), Some(&bare), &NOTHING).unwrap_err();
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (
            403,
            "managedclusteraddons.addon.open-cluster-management.io \"greeter\" is forbidden: user \"jane\" cannot set \
             metadata.annotations[addon.open-cluster-management.io/hosting-cluster-name] to \"cluster2\": that takes the right \
             to create manifestworks in namespace \"cluster2\""
        )
    );
    assert!(check_add_on(person(), &hosted("cluster2"), None, &NOTHING).is_err());
    assert_eq!(check_add_on(person(), &hosted("cluster2"), None, &ALL), Ok(()));
    assert!(check_add_on(person(), &hosted("cluster3"), Some(&hosted("cluster2")), &ALL).is_err());
    // What is so already takes nothing, and neither does coming home.
    let same = check_add_on(person(), &hosted("cluster2"), Some(&hosted("cluster2")), &NOTHING);
    assert_eq!(same, Ok(()));
    assert_eq!(
        check_add_on(person(), &bare, Some(&hosted("cluster2")), &NOTHING),
        Ok(())
    );
    // A cluster's annotation becomes that of its add-ons.
    let (old, mut new) = (cluster(), cluster());
    new["metadata"]["annotations"][annotations::ADDON_HOSTING_CLUSTER] = json!("cluster2");
    let rights = Rights(&["update managedclusteraddons cluster1/"]);
    assert!(check_cluster(person(), &new, Some(&old), &rights).is_err());
    assert_eq!(check_cluster(person(), &new, Some(&old), &ALL), Ok(()));
}
