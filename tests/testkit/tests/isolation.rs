//! What an agent may do on the hub: every verb on every kind, in its own namespace and in that
//! of a cluster whose name begins like its own.

use std::{collections::BTreeSet, time::Duration};

use credential::csr;
use kube::{Api, Client, discovery::Discovery};
use ocm_api::{cluster::ManagedCluster, condition, conditions::managed_cluster};
use ocm_reconcile::{
    Cache,
    access::{self, Attributes, UserInfo},
};
use registration::hub::HubOptions;
use serde_json::json;
use testkit::site::Site;
use tokio_util::sync::CancellationToken;

const VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

/// Every kind the hub serves, as group, plural (or plural/sub-resource), and whether it has a namespace.
async fn kinds(hub: &Client) -> BTreeSet<(String, String, bool)> {
    let discovery = Discovery::new(hub.clone()).run().await.unwrap();
    let mut kinds = BTreeSet::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let namespaced = capabilities.scope == kube::discovery::Scope::Namespaced;
            kinds.insert((resource.group.clone(), resource.plural.clone(), namespaced));
            for sub in ["status", "scale", "approval", "token"] {
                kinds.insert((resource.group.clone(), format!("{}/{sub}", resource.plural), namespaced));
            }
        }
    }
    kinds
}

/// What the agent may do to objects of this namespace, and to cluster-scoped objects of this name.
async fn allowed(hub: &Client, agent: &UserInfo, cluster: &str) -> Vec<String> {
    let mut allowed = Vec::new();
    for (group, resource, namespaced) in kinds(hub).await {
        let (plural, sub) = resource
            .split_once('/')
            .map_or((resource.as_str(), None), |(a, b)| (a, Some(b)));
        let mut verbs = Vec::new();
        for verb in VERBS {
            let attributes = Attributes {
                verb: verb.to_owned(),
                group: group.clone(),
                resource: plural.to_owned(),
                subresource: sub.map(str::to_owned),
                namespace: namespaced.then(|| cluster.to_owned()),
                name: Some(cluster.to_owned()),
            };
            if access::may(hub, agent, &attributes).await.unwrap() {
                verbs.push(verb);
            }
        }
        if !verbs.is_empty() {
            let group = if group.is_empty() {
                String::new()
            } else {
                format!(".{group}")
            };
            allowed.push(format!("{resource}{group}: {}", verbs.join(" ")));
        }
    }
    allowed
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reads_and_writes_only_its_own_namespace() {
    let hub = Site::start().await.unwrap();
    let cancel = CancellationToken::new();
    let registration = HubOptions {
        auto_accept: true,
        ..HubOptions::default()
    };
    let options = hub::Options {
        registration,
        ..hub::Options::default()
    };
    hub::start(hub.client_of_hub().await, options, cancel.clone())
        .await
        .unwrap();
    let client = hub.client();
    let clusters = Cache::<ManagedCluster>::start(Api::all(client.clone()), cancel.clone());
    for name in ["cluster1", "cluster10"] {
        let cluster: ManagedCluster = serde_json::from_value(json!({"metadata": {"name": name}, "spec": {}})).unwrap();
        Api::all(client.clone())
            .create(&Default::default(), &cluster)
            .await
            .unwrap();
        let accepted = clusters.until(|it| {
            let cluster = it.named(name)?;
            condition::is_true(&cluster.status.as_ref()?.conditions, managed_cluster::HUB_ACCEPTED).then_some(())
        });
        tokio::time::timeout(Duration::from_secs(30), accepted)
            .await
            .expect(name);
    }
    let subject = csr::CertificateSubject::agent("cluster1", "a1b2c");
    let mut groups = subject.organizations;
    groups.push("system:authenticated".to_owned());
    let agent = UserInfo {
        user: subject.common_name,
        groups,
        ..UserInfo::default()
    };

    // What everybody may do who is anybody at all, such as asking about their own rights.
    let stranger = UserInfo {
        user: "stranger".to_owned(),
        groups: vec!["system:authenticated".to_owned()],
        ..UserInfo::default()
    };
    let common: BTreeSet<_> = allowed(&client, &stranger, "cluster1").await.into_iter().collect();
    let beyond = |all: Vec<String>| all.into_iter().filter(|it| !common.contains(it)).collect::<Vec<_>>();

    let everywhere = ["certificatesigningrequests.certificates.k8s.io: get list watch create"];
    assert_eq!(beyond(allowed(&client, &agent, "cluster10").await), everywhere);
    let mut own = vec![
        "events: create update patch",
        "managedclusteraddons.addon.open-cluster-management.io: get list watch",
        "managedclusteraddons/status.addon.open-cluster-management.io: update patch",
        "certificatesigningrequests.certificates.k8s.io: get list watch create",
        "managedclusters.cluster.open-cluster-management.io: get list watch update",
        "managedclusters/status.cluster.open-cluster-management.io: update patch",
        "leases.coordination.k8s.io: get list watch update",
        "events.events.k8s.io: create update patch",
        "manifestworks.work.open-cluster-management.io: get list watch update patch",
        "manifestworks/status.work.open-cluster-management.io: update patch",
    ];
    let mut found = beyond(allowed(&client, &agent, "cluster1").await);
    own.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, own);
    cancel.cancel();
}
