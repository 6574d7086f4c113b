//! What an administrator takes back is gone: after a cluster was denied or deleted none of its identities has a right
//! that strangers do not have, whatever is left of its works.

use std::time::Duration;

use credential::KubeconfigSource;
use k8s_openapi::api::{core::v1::ConfigMap, events::v1::Event, rbac::v1::RoleBinding};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn, cluster::ManagedCluster, condition, conditions::managed_cluster, finalizers,
    identity, work::ManifestWork,
};
use ocm_reconcile::access::{self, Attributes, UserInfo};
use registration::{agent::AgentOptions, hub::HubOptions};
use serde_json::{Value, json};
use testkit::{site::Site, wait};
use tokio_util::sync::CancellationToken;

const JOINER: &str = "joiner";

async fn hub(cancel: &CancellationToken) -> Site {
    let site = Site::start().await.unwrap();
    let options = hub::Options {
        registration: HubOptions {
            auto_accept: true,
            auto_approved_csr_users: vec![JOINER.to_owned()],
            ..HubOptions::default()
        },
        ..hub::Options::default()
    };
    hub::start(site.client_of_hub().await, options, cancel.clone())
        .await
        .unwrap();
    site
}

fn work(finalizers: &[&str]) -> ManifestWork {
    let work = json!({
        "metadata": {"name": "w", "namespace": "cluster1", "finalizers": finalizers},
        "spec": {"workload": {"manifests": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied", "namespace": "default"}},
        ]}},
    });
    serde_json::from_value(work).unwrap()
}

/// Accepted, as far as the hub says.
async fn is(clusters: &Api<ManagedCluster>, accepted: bool) {
    let what = format!("accepted: {accepted}");
    let says = |it: Option<&ManagedCluster>| {
        let conditions = it.and_then(|it| it.status.as_ref()).map(|it| it.conditions.as_slice());
        let said = condition::find(conditions.unwrap_or_default(), managed_cluster::HUB_ACCEPTED);
        said.is_some_and(|it| (it.status == "True") == accepted)
    };
    wait::until(clusters, "cluster1", &what, says).await;
}

/// A cluster comes, and is accepted.
async fn join(clusters: &Api<ManagedCluster>) {
    let cluster = json!({"metadata": {"name": "cluster1"}, "spec": {}});
    let cluster: ManagedCluster = serde_json::from_value(cluster).unwrap();
    clusters.create(&PostParams::default(), &cluster).await.unwrap();
    is(clusters, true).await;
}

async fn patch(clusters: &Api<ManagedCluster>, patch: Value) {
    clusters
        .patch("cluster1", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

fn identities() -> Vec<UserInfo> {
    let subject = |user: String, groups: Vec<String>| UserInfo {
        user,
        groups,
        ..UserInfo::default()
    };
    vec![
        subject(
            identity::agent_user("cluster1", "a1"),
            vec![
                identity::cluster_group("cluster1"),
                identity::MANAGED_CLUSTERS_GROUP.to_owned(),
            ],
        ),
        subject("idp".to_owned(), vec![identity::cluster_external_group("cluster1")]),
        subject(
            identity::addon_user("cluster1", "greeter", "greeter"),
            vec![
                identity::addon_cluster_group("cluster1", "greeter"),
                identity::addon_group("greeter"),
            ],
        ),
        subject(identity::addon_service_account("cluster1", "greeter"), vec![]),
    ]
}

/// An add-on without a program, whose agents read the ConfigMaps of their clusters' namespaces.
const GREETER: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: greeter-agent}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get]}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: greeter}
spec:
  addonName: greeter
  agentSpec: {workload: {manifests: []}}
  registration:
  - type: KubeClient
    kubeClient:
      hubPermissions:
      - {type: CurrentCluster, currentCluster: {clusterRoleName: greeter-agent}}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata:
  name: greeter
  annotations: {addon.open-cluster-management.io/lifecycle: addon-manager}
spec:
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {name: greeter}}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: greeter, namespace: cluster1}
spec: {}
"#;

/// What these identities may do with what is the cluster's, as `verb resource`.
async fn rights(hub: &Client) -> Vec<String> {
    const ASKED: [(&str, &str, Option<&str>, &str); 9] = [
        (
            "work.open-cluster-management.io",
            "manifestworks",
            None,
            "get list watch update patch",
        ),
        (
            "work.open-cluster-management.io",
            "manifestworks",
            Some("status"),
            "update patch",
        ),
        (
            "cluster.open-cluster-management.io",
            "managedclusters",
            None,
            "get list watch update patch",
        ),
        (
            "cluster.open-cluster-management.io",
            "managedclusters",
            Some("status"),
            "update patch",
        ),
        ("coordination.k8s.io", "leases", None, "get list watch update"),
        (
            "addon.open-cluster-management.io",
            "managedclusteraddons",
            None,
            "get list watch",
        ),
        (
            "certificates.k8s.io",
            "certificatesigningrequests",
            None,
            "create get list watch",
        ),
        ("", "serviceaccounts", Some("token"), "create"),
        ("", "configmaps", None, "get"),
    ];
    let mut all = Vec::new();
    for subject in identities() {
        for (group, resource, subresource, verbs) in ASKED {
            let is_whole = ["managedclusters", "certificatesigningrequests"].contains(&resource);
            for verb in verbs.split(' ') {
                let attributes = Attributes {
                    verb: verb.to_owned(),
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    subresource: subresource.map(str::to_owned),
                    namespace: (!is_whole).then(|| "cluster1".to_owned()),
                    name: Some(
                        if resource == "serviceaccounts" {
                            "greeter-agent"
                        } else {
                            "cluster1"
                        }
                        .to_owned(),
                    ),
                };
                if access::may(hub, &subject, &attributes).await.unwrap() {
                    all.push(format!("{verb} {resource}"));
                }
            }
        }
    }
    all.sort();
    all.dedup();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_cluster_has_no_permission_for_its_existing_works() {
    let cancel = CancellationToken::new();
    let site = hub(&cancel).await;
    let client = site.client();
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    join(&clusters).await;
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), "cluster1");
    let works: Api<ManifestWork> = Api::namespaced(client.clone(), "cluster1");
    works
        .create(
            &PostParams::default(),
            &work(&[finalizers::MANIFEST_WORK, "example.com/agents-own"]),
        )
        .await
        .unwrap();
    site.apply(GREETER).await;
    let is_bound = |all: &[RoleBinding]| all.iter().any(|it| it.role_ref.name == "greeter-agent");
    wait::until_all(&bindings, "the agent of the add-on is bound", is_bound).await;
    let before = rights(&client).await;
    for right in ["list manifestworks", "get configmaps"] {
        assert!(before.iter().any(|it| it == right), "{before:?}");
    }

    patch(&clusters, json!({"spec": {"hubAcceptsClient": false}})).await;
    is(&clusters, false).await;
    wait::until_all(&bindings, "the agent of the add-on is bound no longer", |it| {
        !is_bound(it)
    })
    .await;
    // It is said when it is so.
    let look = ["get managedclusters", "list managedclusters", "watch managedclusters"];
    assert_eq!(rights(&client).await, look);
    works.get("w").await.expect("the work of a denied cluster stays");
    wait::gone(&bindings, &identity::work_role_binding("cluster1")).await;

    patch(&clusters, json!({"spec": {"hubAcceptsClient": true}})).await;
    is(&clusters, true).await;
    assert!(rights(&client).await.contains(&"list manifestworks".to_owned()));

    // Nobody is there to clean up.
    clusters.delete("cluster1", &DeleteParams::default()).await.unwrap();
    wait::gone(&clusters, "cluster1").await;
    assert_eq!(rights(&client).await, [""; 0]);
    assert!(works.list(&ListParams::default()).await.unwrap().items.is_empty());
    let events: Api<Event> = Api::namespaced(client.clone(), "cluster1");
    let said = events.list(&ListParams::default()).await.unwrap().items;
    let said: Vec<_> = said
        .iter()
        .filter(|it| it.reason.as_deref() == Some("FinalizersRemoved"))
        .filter_map(|it| it.note.as_deref())
        .collect();
    assert_eq!(
        said,
        [
            "The finalizers of 1 manifestworks of cluster cluster1, which is deleted, are removed by the hub: w. Its agent has no \
          rights on the hub any more."
        ]
    );
    cancel.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn denying_a_cluster_deletes_its_add_ons_token_accounts() {
    let cancel = CancellationToken::new();
    let site = hub(&cancel).await;
    let client = site.client();
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    join(&clusters).await;
    let add_ons: Api<ManagedClusterAddOn> = Api::namespaced(client.clone(), "cluster1");
    let add_on = json!({"metadata": {"name": "greeter", "namespace": "cluster1"}, "spec": {}});
    let add_on: ManagedClusterAddOn = serde_json::from_value(add_on).unwrap();
    add_ons.create(&PostParams::default(), &add_on).await.unwrap();
    let status = json!({"status": {
        "kubeClientDriver": "token", "registrations": [{"signerName": identity::CLIENT_SIGNER, "subject": {}}],
    }});
    add_ons
        .patch_status("greeter", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(client.clone(), "cluster1");
    wait::until(&accounts, "greeter-agent", "exists", |it| it.is_some()).await;
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), "cluster1");
    wait::until(&bindings, "greeter-token-role", "exists", |it| it.is_some()).await;
    let may = rights(&client).await;
    assert!(may.iter().any(|it| it.contains("serviceaccounts")), "{may:?}");

    patch(&clusters, json!({"spec": {"hubAcceptsClient": false}})).await;
    wait::gone(&accounts, "greeter-agent").await;
    is(&clusters, false).await;
    wait::gone(&bindings, "greeter-token-role").await;
    let look = ["get managedclusters", "list managedclusters", "watch managedclusters"];
    assert_eq!(rights(&client).await, look);
    cancel.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_of_a_deleted_cluster_removes_its_applied_objects() {
    let cancel = CancellationToken::new();
    let (site, cluster) = (hub(&cancel).await, Site::start().await.unwrap());
    let client = site.client();
    let bootstrap = site
        .kubeconfig(JOINER, &["system:bootstrappers:managedcluster"])
        .unwrap();
    let options = AgentOptions {
        cluster_name: Some("cluster1".to_owned()),
        ..AgentOptions::new(KubeconfigSource::Inline(bootstrap), cluster.client())
    };
    let mut sessions = options.sessions.subscribe();
    let agent = agent::start(options, cancel.clone()).await.unwrap();
    let session = sessions.wait_for(Option::is_some);
    tokio::time::timeout(Duration::from_secs(30), session)
        .await
        .expect("a session")
        .unwrap();
    let works: Api<ManifestWork> = Api::namespaced(client.clone(), "cluster1");
    works.create(&PostParams::default(), &work(&[])).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    wait::until(&maps, "applied", "exists", |it| it.is_some()).await;

    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    clusters.delete("cluster1", &DeleteParams::default()).await.unwrap();
    wait::gone(&clusters, "cluster1").await;
    assert_eq!(rights(&client).await, [""; 0]);
    wait::gone(&maps, "applied").await;

    // Another cluster of that name is served as any other.
    join(&clusters).await;
    works.create(&PostParams::default(), &work(&[])).await.unwrap();
    wait::until(&maps, "applied", "exists again", |it| it.is_some()).await;
    cancel.cancel();
    agent.finished().await;
}
