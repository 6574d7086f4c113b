//! Each of our parts in the place of upstream's, alone, and with the rights that upstream's has there: what it cannot
//! do in the usual way it does in another, and what it cannot do at all hinders nothing else.
//! Whoever swaps an image in upstream's Deployments leaves their ServiceAccounts as they are.

mod roles;

use std::collections::BTreeSet;

use agent::{Agent, Parts};
use credential::KubeconfigSource;
use hub::Component;
use k8s_openapi::{
    api::{
        core::v1::{ConfigMap, Event, Namespace},
        rbac::v1::{Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn,
    cluster::{ManagedCluster, PlacementDecision},
    labels, namespaces,
    work::{ManifestWork, ManifestWorkReplicaSet},
};
use ocm_reconcile::{Clients, Plan, install, rbac::Right};
use registration::{agent::AgentOptions, hub::HubOptions};
use serde_json::{Value, json};
use testkit::{Ask, Asked, Site, World, objects, site, wait};
use tokio_util::sync::{CancellationToken, DropGuard};

const ADDON: &str = "addon.open-cluster-management.io";

/// One of our parts, listened to. It ends with this.
struct Part {
    asked: Asked,
    client: Client,
    stop: CancellationToken,
    _stopped: DropGuard,
}

impl Part {
    /// Of a ServiceAccount with these rights.
    async fn on(site: &Site, (namespace, account): (&str, &str), rights: &[Right]) -> Self {
        let user = site
            .user_with((namespace, account), account, &site::rules(rights))
            .await;
        let (asked, stop) = (Asked::default(), CancellationToken::new());
        Self {
            client: asked.over(Client::new(site.server.service(user), "default")),
            asked,
            _stopped: stop.clone().drop_guard(),
            stop,
        }
    }

    /// A part of a hub, which runs.
    async fn of_hub(site: &Site, component: Component, account: &str, rights: &[Right]) -> Self {
        let part = Self::on(site, (namespaces::HUB, account), rights).await;
        let (client, stop) = (part.client.clone(), part.stop.clone());
        tokio::spawn(async move { hub::run_component(client, component, &hub::Options::default(), stop).await });
        part
    }

    /// What was refused, as `verb resource`.
    fn refused(&self) -> BTreeSet<String> {
        let refused = self.asked.heard().refused;
        refused.keys().map(ToString::to_string).collect()
    }

    /// Nothing but this was refused.
    fn lacks_only(&self, expected: &[&str]) {
        let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(self.refused(), expected);
    }
}

async fn patch<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.unwrap_or_else(|error| panic!("{name}: {error}"));
}

async fn say<K>(api: &Api<K>, name: &str, status: Value)
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let patch = Patch::Merge(json!({ "status": status }));
    let said = api.patch_status(name, &PatchParams::default(), &patch).await;
    said.unwrap_or_else(|error| panic!("{name}: {error}"));
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn has(object: Option<&impl serde::Serialize>, condition: &str) -> bool {
    object.is_some_and(|it| objects::conditions(it).iter().any(|it| it == condition))
}

const JOINING: &str = "
# It was made beforehand, as for a pull secret.
{apiVersion: v1, kind: Namespace, metadata: {name: cluster1, labels: {team: a}}}
---
{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: cluster1}, spec: {hubAcceptsClient: true}}
---
{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: ManagedClusterAddOn, metadata: {name: hello, namespace: cluster1}, spec: {}}
";

#[tokio::test(flavor = "multi_thread")]
async fn registration_accepts_a_cluster_and_maintains_add_on_status() {
    let world = World::new(0).await;
    world.hub.apply(JOINING).await;
    let account = "registration-controller-sa";
    let part = Part::of_hub(&world.hub, Component::Registration, account, roles::REGISTRATION).await;
    let clusters: Api<ManagedCluster> = Api::all(world.hub.client());
    wait::until(&clusters, "cluster1", "accepted", |it| {
        it.is_some_and(|it| objects::is_true(it, "HubAcceptedManagedCluster"))
    })
    .await;
    let namespaces: Api<Namespace> = Api::all(world.hub.client());
    let namespace = namespaces.get("cluster1").await.unwrap();
    assert_eq!(namespace.labels()[labels::CLUSTER_NAME], "cluster1");
    assert_eq!(
        namespace.labels()["team"],
        "a",
        "a whole object was put, with what others have written"
    );

    // Nobody but this part runs, so nobody else writes these.
    let addons: Api<ManagedClusterAddOn> = Api::namespaced(world.hub.client(), "cluster1");
    let well = condition("Available", "True", "WorkApplied");
    say(&addons, "hello", json!({ "conditions": [well] })).await;
    let known = condition("ManagedClusterConditionAvailable", "True", "ManagedClusterAvailable");
    say(&clusters, "cluster1", json!({ "conditions": [known] })).await;
    let label = |value: &'static str| {
        move |it: Option<&ManagedCluster>| {
            let label = format!("{}hello", labels::FEATURE_ADDON_PREFIX);
            it.is_some_and(|it| it.labels().get(&label).is_some_and(|it| it == value))
        }
    };
    wait::until(&clusters, "cluster1", "its add-on is available", label("available")).await;
    let silent = condition(
        "ManagedClusterConditionAvailable",
        "Unknown",
        "ManagedClusterLeaseUpdateStopped",
    );
    say(&clusters, "cluster1", json!({ "conditions": [silent] })).await;
    wait::until(&addons, "hello", "nobody knows", |it| {
        has(it, "Available=Unknown(ManagedClusterLeaseUpdateStopped)")
    })
    .await;
    wait::until(&clusters, "cluster1", "nor there", label("unreachable")).await;
    part.lacks_only(&["patch namespaces"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_without_add_on_kinds_still_accepts_clusters() {
    let site = Site::start().await.unwrap();
    let mut kinds = ocm_api::crds::hub();
    kinds.retain(|it| {
        let of_add_ons = it["spec"]["group"] == ADDON;
        !of_add_ons
    });
    install::install_crds(&site.client(), kinds).await.unwrap();
    let cluster = "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: cluster1}, spec: {hubAcceptsClient: true}}";
    site.apply(cluster).await;
    let account = "registration-controller-sa";
    let _part = Part::of_hub(&site, Component::Registration, account, roles::REGISTRATION).await;
    let clusters: Api<ManagedCluster> = Api::all(site.client());
    wait::until(&clusters, "cluster1", "accepted", |it| {
        it.is_some_and(|it| objects::is_true(it, "HubAcceptedManagedCluster"))
    })
    .await;
}

const PLACED: &str = "
{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSet, metadata: {name: default}, spec: {}}
---
{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSetBinding, metadata: {name: default, namespace: default}, spec: {clusterSet: default}}
---
{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: cluster1, labels: {cluster.open-cluster-management.io/clusterset: default}}, spec: {}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: cluster1}}
---
{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: all, namespace: default}, spec: {}}
---
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {name: motd, namespace: default}
spec:
  placementRefs: [{name: all}]
  manifestWorkTemplate:
    workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}]}
";

#[tokio::test(flavor = "multi_thread")]
async fn placements_and_replica_sets_work_without_controller_revisions() {
    let world = World::new(0).await;
    world.hub.apply(PLACED).await;
    let placing = Part::of_hub(
        &world.hub,
        Component::Placement,
        "placement-controller-sa",
        roles::PLACEMENTS,
    )
    .await;
    let decisions: Api<PlacementDecision> = Api::namespaced(world.hub.client(), "default");
    wait::until(&decisions, "all-decision-1", "is there", |it| it.is_some()).await;
    let working = Part::of_hub(&world.hub, Component::Work, "work-controller-sa", roles::WORKS).await;
    let works: Api<ManifestWork> = Api::namespaced(world.hub.client(), "cluster1");
    wait::until_all(&works, "a work of the set", |it| it.len() == 1).await;
    let sets: Api<ManifestWorkReplicaSet> = Api::namespaced(world.hub.client(), "default");
    let other = json!({"metadata": {"annotations": {"work.open-cluster-management.io/roll-back": "true"}}});
    patch(&sets, "motd", other).await;
    wait::until(&sets, "motd", "says what is missing", |it| {
        let status = it.and_then(|it| it.status.as_ref());
        status.is_some_and(|it| {
            let mut all = it.conditions.iter();
            all.any(|it| it.message.contains("no right to keep ControllerRevisions"))
        })
    })
    .await;
    sets.delete("motd", &DeleteParams::default()).await.unwrap();
    wait::gone(&sets, "motd").await;
    working.lacks_only(&["list controllerrevisions of apps"]);
    placing.lacks_only(&[]);
}

/// An add-on with a hook, that somebody enables by hand, and one that was there for a placement that is gone.
const OFFERED: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: cluster1}}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: cluster1}
spec: {hubAcceptsClient: true}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: hello-1}
spec:
  addonName: hello
  agentSpec:
    workload:
      manifests:
      - {apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: default}}
      - apiVersion: batch/v1
        kind: Job
        metadata:
          name: hello-goes
          namespace: default
          annotations: {addon.open-cluster-management.io/addon-pre-delete: ""}
        spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}
  registration: [{type: KubeClient, kubeClient: {}}]
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: hello}
spec:
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {name: hello-1}}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: lost}
spec: {installStrategy: {type: Placements, placements: [{name: nowhere, namespace: default}]}}
---
{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: ManagedClusterAddOn, metadata: {name: hello, namespace: cluster1}, spec: {}}
---
{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: ManagedClusterAddOn, metadata: {name: lost, namespace: cluster1}, spec: {}}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_manual_add_on_gets_owner_registration_hook_and_token() {
    let world = World::new(0).await;
    world.hub.apply(OFFERED).await;
    let account = "addon-manager-controller-sa";
    let part = Part::of_hub(&world.hub, Component::AddOns, account, roles::ADD_ONS).await;
    let addons: Api<ManagedClusterAddOn> = Api::namespaced(world.hub.client(), "cluster1");
    wait::until(&addons, "hello", "has its owner and waits for its hook", |it| {
        it.is_some_and(|it| it.owner_references().iter().any(|it| it.name == "hello") && !it.finalizers().is_empty())
    })
    .await;
    wait::until(&addons, "hello", "is registered", |it| {
        it.is_some_and(|it| objects::is_true(it, "RegistrationApplied"))
    })
    .await;
    let works: Api<ManifestWork> = Api::namespaced(world.hub.client(), "cluster1");
    wait::until_all(&works, "it is deployed", |it| !it.is_empty()).await;

    // What its agent needs that comes with a token is repaired by whole objects, too.
    say(&addons, "hello", json!({"kubeClientDriver": "token"})).await;
    let bindings: Api<RoleBinding> = Api::namespaced(world.hub.client(), "cluster1");
    let roles: Api<Role> = Api::namespaced(world.hub.client(), "cluster1");
    wait::until(&addons, "hello", "has its account", |it| {
        it.is_some_and(|it| objects::is_true(it, "TokenInfrastructureReady"))
    })
    .await;
    patch(&roles, "hello-token-role", json!({"rules": []})).await;
    wait::until(&roles, "hello-token-role", "has its rules back", |it| {
        it.is_some_and(|it| it.rules.as_ref().is_some_and(|it| !it.is_empty()))
    })
    .await;
    patch(&bindings, "hello-token-role", json!({"subjects": []})).await;
    wait::until(&bindings, "hello-token-role", "has its subjects back", |it| {
        it.is_some_and(|it| it.subjects.as_ref().is_some_and(|it| !it.is_empty()))
    })
    .await;

    let events: Api<Event> = Api::namespaced(world.hub.client(), "default");
    let told = |all: &[Event]| {
        let about = |it: &Event| it.involved_object.name.as_deref() == Some("lost") && it.message.is_some();
        all.iter().any(about)
    };
    wait::until_all(&events, "a missing placement is told", told).await;
    part.lacks_only(&[
        "create events of events.k8s.io",
        "get namespaces",
        "list clusterrolebindings of rbac.authorization.k8s.io",
        "list clusterroles of rbac.authorization.k8s.io",
        "patch managedclusteraddons of addon.open-cluster-management.io",
        "patch rolebindings of rbac.authorization.k8s.io",
        "patch roles of rbac.authorization.k8s.io",
    ]);
}

/// A work with the definition of a kind; works that say the same share it.
fn work(name: &str, column: &str) -> String {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "toys.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "toys", "singular": "toy", "kind": "Toy"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
                "additionalPrinterColumns": [{"name": column, "type": "string", "jsonPath": ".spec.a"}],
            }],
        },
    });
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": name, "namespace": "cluster1"},
        "spec": {"workload": {"manifests": [
            definition,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}},
        ]}},
    });
    work.to_string()
}

/// The agent of cluster1 for works, with upstream's rights.
async fn work_agent(world: &World) -> Part {
    world
        .hub
        .apply("{apiVersion: v1, kind: Namespace, metadata: {name: cluster1}}")
        .await;
    let part = Part::on(
        &world.clusters[0],
        (namespaces::AGENT, "klusterlet-work-sa"),
        roles::WORK_AGENT,
    )
    .await;
    let hash = ::work::agent::hub_hash("https://hub");
    let options = ::work::agent::WorkAgentOptions::new(world.hub.client(), part.client.clone(), "cluster1", &hash);
    tokio::spawn(::work::agent::run(options, part.stop.clone()));
    part
}

#[tokio::test(flavor = "multi_thread")]
async fn a_work_with_a_definition_is_applied_shared_and_removed() {
    let world = World::new(1).await;
    let cluster = &world.clusters[0];
    let part = work_agent(&world).await;
    let works: Api<ManifestWork> = Api::namespaced(world.hub.client(), "cluster1");
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let applied = async |name: &str| {
        wait::until(&works, name, "applied", |it| {
            it.is_some_and(|it| objects::is_true(it, "Applied"))
        })
        .await
    };
    let shows = |column: &'static str| {
        move |it: Option<&CustomResourceDefinition>| {
            let versions = it.map(|it| it.spec.versions.as_slice()).unwrap_or_default();
            let mut columns = versions
                .iter()
                .flat_map(|it| it.additional_printer_columns.iter().flatten());
            columns.any(|it| it.name == column)
        }
    };
    world.hub.apply(&work("one", "First")).await;
    applied("one").await;
    world.hub.apply(&work("one", "Second")).await;
    wait::until(&definitions, "toys.example.com", "is changed", shows("Second")).await;
    // Drift is repaired in the same way.
    let drift = json!({"spec": {"versions": [{
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
    }]}});
    patch(&definitions, "toys.example.com", drift).await;
    wait::until(&definitions, "toys.example.com", "is as it was", shows("Second")).await;

    world.hub.apply(&work("two", "Second")).await;
    applied("two").await;
    let owners = |count: usize| {
        move |it: Option<&CustomResourceDefinition>| it.is_some_and(|it| it.owner_references().len() == count)
    };
    wait::until(&definitions, "toys.example.com", "is both's", owners(2)).await;
    works.delete("one", &DeleteParams::default()).await.unwrap();
    wait::gone(&works, "one").await;
    wait::until(&definitions, "toys.example.com", "is the other's", owners(1)).await;
    works.delete("two", &DeleteParams::default()).await.unwrap();
    wait::gone(&works, "two").await;
    wait::gone(&definitions, "toys.example.com").await;
    part.lacks_only(&["patch customresourcedefinitions of apiextensions.k8s.io"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_patch_or_create_is_named_in_the_status() {
    let world = World::new(1).await;
    let _part = work_agent(&world).await;
    let mut applying: Value = serde_json::from_str(&work("applying", "First")).unwrap();
    applying["spec"]["manifestConfigs"] = json!([{
        "resourceIdentifier": {
            "group": "apiextensions.k8s.io", "resource": "customresourcedefinitions", "name": "toys.example.com",
        },
        "updateStrategy": {"type": "ServerSideApply"},
    }]);
    world.hub.apply(&applying.to_string()).await;
    let secret = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "neither", "namespace": "cluster1"},
        "spec": {"workload": {"manifests": [
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"}},
        ]}},
    });
    world.hub.apply(&secret.to_string()).await;
    let works: Api<ManifestWork> = Api::namespaced(world.hub.client(), "cluster1");
    let says = |what: &'static str| {
        move |it: Option<&ManifestWork>| {
            let manifests = it
                .and_then(|it| it.status.as_ref())
                .map(|it| &it.resource_status.manifests);
            let mut conditions = manifests.into_iter().flatten().flat_map(|it| &it.conditions);
            conditions.any(|it| it.type_ == "Applied" && it.status == "False" && it.message.contains(what))
        }
    };
    let patch = "cannot patch resource \"customresourcedefinitions\"";
    wait::until(&works, "applying", patch, says(patch)).await;
    let create = "cannot create resource \"secrets\"";
    wait::until(&works, "neither", create, says(create)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_falls_back_to_update_with_the_seen_version() {
    let site = Site::start().await.unwrap();
    let admin: Api<ConfigMap> = Api::namespaced(site.client(), "default");
    let map = |value: &str| -> ConfigMap {
        let map = json!({"metadata": {"name": "a", "namespace": "default"}, "data": {"k": value, "other": "kept"}});
        serde_json::from_value(map).unwrap()
    };
    let seen = admin.create(&Default::default(), &map("one")).await.unwrap();
    let rights = |verbs| [Right::new("", "configmaps", verbs, "")];
    let part = Part::on(&site, ("default", "putter"), &rights("get update")).await;
    let clients = Clients::hub(part.client.clone());
    let change = |from: &ConfigMap, value: &str| {
        let mut to = from.clone();
        to.data.get_or_insert_default().insert("k".to_owned(), value.to_owned());
        to.data.get_or_insert_default().remove("other");
        let mut plan = Plan::new();
        plan.change(ocm_reconcile::Site::Hub, from, &to);
        plan
    };
    assert!(
        ocm_reconcile::execute(&clients, &change(&seen, "two"))
            .await
            .succeeded()
    );
    let now = admin.get("a").await.unwrap();
    assert_eq!(json!(now.data), json!({"k": "two"}), "what was taken away is gone");
    // From a look that is out of date: somebody else was faster, as with a patch, and nothing is overwritten.
    let stale = ocm_reconcile::execute(&clients, &change(&seen, "three")).await;
    assert!(
        stale.errors().any(|(_, error)| error.is_conflict()),
        "{}",
        stale.error_text()
    );
    assert_eq!(admin.get("a").await.unwrap().data, now.data);
    // Of another of the same name.
    admin.delete("a", &DeleteParams::default()).await.unwrap();
    admin.create(&Default::default(), &map("new")).await.unwrap();
    let other = ocm_reconcile::execute(&clients, &change(&now, "three")).await;
    assert!(
        other.errors().any(|(_, error)| error.is_conflict()),
        "{}",
        other.error_text()
    );
    part.lacks_only(&["patch configmaps"]);

    // Who may look and not write is told of the right that was wanted first.
    let reader = Part::on(&site, ("default", "reader"), &rights("get")).await;
    let now = admin.get("a").await.unwrap();
    let refused = ocm_reconcile::execute(&Clients::hub(reader.client.clone()), &change(&now, "three")).await;
    assert!(
        refused.error_text().contains("cannot patch resource"),
        "{}",
        refused.error_text()
    );
    // Rights that come later are made use of, also by who has learned to do without.
    site.user_with(("default", "putter"), "putter", &site::rules(&rights("get patch")))
        .await;
    assert!(
        ocm_reconcile::execute(&clients, &change(&now, "three"))
            .await
            .succeeded()
    );
}

/// An agent of cluster1 with the rights of upstream's registration agent.
async fn registered(hub: &Site, cluster: &Site) -> (Part, Agent) {
    let account = (namespaces::AGENT, "klusterlet-registration-sa");
    let part = Part::on(cluster, account, roles::REGISTRATION_AGENT).await;
    let at_home = json!({"name": account.1, "namespace": account.0});
    let group = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": at_home, "rules": site::rules(roles::AGENTS_AT_HOME),
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": at_home,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": account.1},
        "subjects": [{"kind": "ServiceAccount", "name": account.1, "namespace": account.0}],
    });
    let home = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {}}}}}", account.0);
    cluster.apply(&format!("{home}\n---\n{role}\n---\n{binding}")).await;
    let bootstrap = hub
        .kubeconfig("joiner", &["system:bootstrappers:managedcluster"])
        .unwrap();
    let options = AgentOptions {
        cluster_name: Some("cluster1".to_owned()),
        ..AgentOptions::new(KubeconfigSource::Inline(bootstrap), part.client.clone())
    };
    let parts = Parts {
        works: None,
        ..Parts::default()
    };
    let agent = agent::start_parts(options, parts, part.stop.clone());
    (part, agent)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_joins_and_a_moved_add_ons_lease_stays() {
    let world = World::new(1).await;
    let (hub, cluster) = (&world.hub, &world.clusters[0]);
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    let registration = HubOptions {
        auto_accept: true,
        auto_approved_csr_users: vec!["joiner".to_owned()],
        ..HubOptions::default()
    };
    let options = hub::Options {
        registration,
        ..hub::Options::default()
    };
    hub::start(hub.client(), options, stop).await.unwrap();
    let (part, agent) = registered(hub, cluster).await;
    let clusters: Api<ManagedCluster> = Api::all(hub.client());
    wait::until(&clusters, "cluster1", "available", |it| {
        it.is_some_and(|it| objects::is_true(it, "ManagedClusterConditionAvailable"))
    })
    .await;

    let lease = |namespace: &str, at: jiff::Timestamp| {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "hello", "namespace": namespace},
            "spec": {"leaseDurationSeconds": 60, "renewTime": format!("{at:.6}")},
        });
        let home = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        format!("{home}\n---\n{lease}")
    };
    let addons: Api<ManagedClusterAddOn> = Api::namespaced(hub.client(), "cluster1");
    let add_on = json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
        "metadata": {"name": "hello", "namespace": "cluster1"}, "spec": {"installNamespace": "before"},
    });
    cluster.apply(&lease("before", jiff::Timestamp::now())).await;
    hub.apply(&add_on.to_string()).await;
    let mode = json!({"namespace": "before", "healthCheck": {"mode": "Lease"}});
    say(&addons, "hello", mode).await;
    wait::until(&addons, "hello", "available", |it| {
        it.is_some_and(|it| objects::is_true(it, "Available"))
    })
    .await;
    // It moves; the lease in its new home is old.
    let long_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
    cluster.apply(&lease("after", long_ago)).await;
    say(&addons, "hello", json!({"namespace": "after"})).await;
    wait::until(&addons, "hello", "not available", |it| {
        has(it, "Available=False(ManagedClusterAddOnLeaseUpdateStopped)")
    })
    .await;
    let deletion = Ask::new("coordination.k8s.io", "leases", "delete");
    let mut changes = part.asked.changes();
    let heard = changes.wait_for(|it| it.refused.contains_key(&deletion));
    tokio::time::timeout(wait::PATIENCE, heard)
        .await
        .expect("the old lease is to be deleted")
        .unwrap();
    part.lacks_only(&["delete leases of coordination.k8s.io"]);
    part.stop.cancel();
    agent.finished().await;
}
