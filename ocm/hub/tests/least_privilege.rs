//! What a cluster's agent may do on the hub: every verb on every resource is tried, in its own namespace, in another
//! cluster's, in the hub's, and at cluster scope. What is not in the list below is refused.

use futures::{StreamExt, stream};
use http::{Method, Request};
use kube::{Api, Client, api::PostParams};
use ocm_api::cluster::ManagedCluster;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use testkit::{Site, wait};
use tokio_util::sync::CancellationToken;

const CLUSTERS: [&str; 2] = ["cluster1", "cluster2"];
/// Names that rules mention, and one that none does.
const NAMES: [&str; 4] = ["cluster1", "cluster2", "managed-cluster-lease", "anything"];
const NAMESPACES: [&str; 4] = ["cluster1", "cluster2", "default", "open-cluster-management-hub"];

/// Resource, scope, verb, names.
const ALLOWED: &str = "
certificatesigningrequests.certificates.k8s.io create on the collection
certificatesigningrequests.certificates.k8s.io get on anything cluster1 cluster2 managed-cluster-lease
certificatesigningrequests.certificates.k8s.io list on the collection
certificatesigningrequests.certificates.k8s.io watch on the collection
events in cluster1 create on the collection
events in cluster1 patch on anything cluster1 cluster2 managed-cluster-lease
events in cluster1 update on anything cluster1 cluster2 managed-cluster-lease
events.events.k8s.io in cluster1 create on the collection
events.events.k8s.io in cluster1 patch on anything cluster1 cluster2 managed-cluster-lease
events.events.k8s.io in cluster1 update on anything cluster1 cluster2 managed-cluster-lease
leases.coordination.k8s.io in cluster1 get on anything cluster1 cluster2 managed-cluster-lease
leases.coordination.k8s.io in cluster1 list on the collection
leases.coordination.k8s.io in cluster1 update on anything cluster1 cluster2 managed-cluster-lease
leases.coordination.k8s.io in cluster1 watch on the collection
managedclusteraddons.addon.open-cluster-management.io in cluster1 get on anything cluster1 cluster2 managed-cluster-lease
managedclusteraddons.addon.open-cluster-management.io in cluster1 list on the collection
managedclusteraddons.addon.open-cluster-management.io in cluster1 watch on the collection
managedclusteraddons/status.addon.open-cluster-management.io in cluster1 patch on anything cluster1 cluster2 managed-cluster-lease
managedclusteraddons/status.addon.open-cluster-management.io in cluster1 update on anything cluster1 cluster2 managed-cluster-lease
managedclusters.cluster.open-cluster-management.io get on cluster1
managedclusters.cluster.open-cluster-management.io update on cluster1
managedclusters/status.cluster.open-cluster-management.io patch on cluster1
managedclusters/status.cluster.open-cluster-management.io update on cluster1
manifestworks.work.open-cluster-management.io in cluster1 get on anything cluster1 cluster2 managed-cluster-lease
manifestworks.work.open-cluster-management.io in cluster1 list on the collection
manifestworks.work.open-cluster-management.io in cluster1 patch on anything cluster1 cluster2 managed-cluster-lease
manifestworks.work.open-cluster-management.io in cluster1 update on anything cluster1 cluster2 managed-cluster-lease
manifestworks.work.open-cluster-management.io in cluster1 watch on the collection
manifestworks/status.work.open-cluster-management.io in cluster1 patch on anything cluster1 cluster2 managed-cluster-lease
manifestworks/status.work.open-cluster-management.io in cluster1 update on anything cluster1 cluster2 managed-cluster-lease
selfsubjectaccessreviews.authorization.k8s.io create on the collection
selfsubjectreviews.authentication.k8s.io create on the collection
selfsubjectrulesreviews.authorization.k8s.io create on the collection
";

/// One thing that is tried.
struct Attempt {
    /// Resource, scope and verb, as the list above writes them.
    what: String,
    /// Empty for the collection.
    name: &'static str,
    method: Method,
    path: String,
}

#[tokio::test]
async fn an_agent_reaches_its_own_namespace_and_nothing_else() {
    let site = Site::start().await.unwrap();
    let stop = CancellationToken::new();
    let admin = site.client();
    hub::start(admin.clone(), hub::Options::default(), stop.child_token())
        .await
        .unwrap();
    let clusters: Api<ManagedCluster> = Api::all(admin.clone());
    for name in CLUSTERS {
        let cluster = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": name}, "spec": {"hubAcceptsClient": true},
        });
        clusters
            .create(&PostParams::default(), &serde_json::from_value(cluster).unwrap())
            .await
            .unwrap();
        wait::until(&clusters, name, "accepted", |it| {
            it.is_some_and(|it| testkit::objects::is_true(it, "HubAcceptedManagedCluster"))
        })
        .await;
    }
    let groups = [
        "system:open-cluster-management:cluster1",
        "system:open-cluster-management:managed-clusters",
    ];
    let agent = site.client_as("system:open-cluster-management:cluster1:agent", &groups);
    let attempts = attempts(&admin).await;
    assert!(attempts.len() > 4000, "only {} things to try", attempts.len());
    let allowed: Vec<(String, &str)> = stream::iter(attempts)
        .map(|it| try_it(agent.clone(), it))
        .buffer_unordered(8)
        .filter_map(|it| async { it })
        .collect()
        .await;
    // A set, because the versions of a resource are one line.
    let mut seen: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (what, name) in allowed {
        seen.entry(what).or_default().insert(name);
    }
    let lines = seen.into_iter().map(|(what, names)| {
        let names: Vec<&str> = names.into_iter().collect();
        let names = if names == [""] {
            "the collection".to_owned()
        } else {
            names.join(" ")
        };
        format!("{what} on {names}")
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    assert_eq!(text, ALLOWED.trim(), "\nall that is allowed:\n{text}");
    stop.cancel();
    site.stop().await;
}

/// Whether the attempt got past authorization.
async fn try_it(client: Client, attempt: Attempt) -> Option<(String, &'static str)> {
    let request = Request::builder()
        .method(attempt.method.clone())
        .uri(&attempt.path)
        .header(
            "content-type",
            if attempt.method == Method::PATCH {
                "application/merge-patch+json"
            } else {
                "application/json"
            },
        )
        .body(kube::client::Body::from(b"{}".to_vec()))
        .unwrap();
    let status = client.send(request).await.unwrap().status();
    assert!(status.as_u16() != 401, "{} is not even authenticated", attempt.path);
    (status.as_u16() != 403).then_some((attempt.what, attempt.name))
}

/// Every verb of every resource that discovery names, at every scope.
async fn attempts(client: &Client) -> Vec<Attempt> {
    let mut all = Vec::new();
    for root in ["/api/v1".to_owned()].into_iter().chain(group_versions(client).await) {
        let list: Value = client
            .request(Request::get(&root).body(Vec::new()).unwrap())
            .await
            .unwrap();
        let group = root
            .strip_prefix("/apis/")
            .and_then(|it| it.split('/').next())
            .unwrap_or_default()
            .to_owned();
        for resource in list["resources"].as_array().unwrap() {
            let full = resource["name"].as_str().unwrap();
            let (plural, sub) = full.split_once('/').unwrap_or((full, ""));
            let shown = if group.is_empty() {
                full.to_owned()
            } else {
                format!("{full}.{group}")
            };
            let namespaced = resource["namespaced"] == true;
            let mut scopes: Vec<(String, String)> = Vec::new();
            if namespaced {
                scopes.extend(
                    NAMESPACES
                        .iter()
                        .map(|it| (format!("{root}/namespaces/{it}"), format!(" in {it}"))),
                );
            }
            scopes.push((root.clone(), String::new()));
            for verb in resource["verbs"].as_array().unwrap().iter().filter_map(Value::as_str) {
                for (base, scope) in &scopes {
                    push(&mut all, (&shown, plural, sub), (base, scope), verb, namespaced);
                }
            }
        }
    }
    all
}

fn push(
    all: &mut Vec<Attempt>,
    (shown, plural, sub): (&str, &str, &str),
    (base, scope): (&str, &str),
    verb: &str,
    namespaced: bool,
) {
    let method = match verb {
        "create" => Method::POST,
        "update" => Method::PUT,
        "patch" => Method::PATCH,
        "delete" | "deletecollection" => Method::DELETE,
        _ => Method::GET,
    };
    let on_collection = sub.is_empty() && matches!(verb, "create" | "list" | "watch" | "deletecollection");
    let across = namespaced && scope.is_empty();
    // Across all namespaces there are lists and watches only.
    if across && !matches!(verb, "list" | "watch") {
        return;
    }
    let names: &[&'static str] = if on_collection { &[""] } else { &NAMES };
    for name in names.iter().copied() {
        let mut path = format!("{base}/{plural}");
        for part in [name, sub].into_iter().filter(|it| !it.is_empty()) {
            path.push('/');
            path.push_str(part);
        }
        if verb == "watch" {
            path.push_str("?watch=true&timeoutSeconds=1");
        }
        all.push(Attempt {
            what: format!("{shown}{scope} {verb}"),
            name,
            method: method.clone(),
            path,
        });
    }
}

async fn group_versions(client: &Client) -> Vec<String> {
    let groups: Value = client
        .request(Request::get("/apis").body(Vec::new()).unwrap())
        .await
        .unwrap();
    let versions = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|it| it["versions"].as_array().unwrap());
    versions
        .map(|it| format!("/apis/{}", it["groupVersion"].as_str().unwrap()))
        .collect()
}
