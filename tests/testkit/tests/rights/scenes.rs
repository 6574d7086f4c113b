//! What hub and agent do, scene by scene. Each ends with a state that they have brought about.

use k8s_openapi::api::{
    apps::v1::ControllerRevision,
    batch::v1::Job,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace, Secret},
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn,
    cluster::{ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, PlacementDecision, SelectorType},
    condition, identity, labels,
    multicluster::ClusterProfile,
    namespaces,
    work::{ManifestWork, ManifestWorkReplicaSet},
};
use serde_json::{Value, json};
use testkit::{Ask, Site, wait};

use crate::{
    ground::{ACCEPTED, HOME, OVERTAKEN, World, heard, service_accounts},
    rich,
};

const CLUSTER: &str = "cluster.open-cluster-management.io";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// A cluster that nobody has accepted yet.
pub async fn a_cluster_is_made(world: &World) {
    let cluster = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": "cluster1"}, "spec": {"leaseDurationSeconds": 60},
    });
    world.hub.apply(&cluster.to_string()).await;
}

/// Its status says that it is well.
pub async fn a_cluster_is_heard_of(world: &World) {
    let clusters: Api<ManagedCluster> = Api::all(world.hub.client());
    let well = json!({"status": {"conditions": [{
        "type": "ManagedClusterConditionAvailable", "status": "True", "reason": "ManagedClusterAvailable",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    clusters
        .patch_status("cluster1", &PatchParams::default(), &Patch::Merge(well))
        .await
        .unwrap();
}

/// It was there before the webhooks, and its agent asks with the certificate that it has for another.
pub async fn a_cluster_joins(world: &World) {
    heard(&world.of_hub, &Ask::new(CLUSTER, "managedclusters", "watch"), false).await;
    world.set_webhooks(false);
    a_cluster_is_made(world).await;
    world.set_webhooks(true);
    world.cluster_is(ACCEPTED).await;
    let user = identity::agent_user("cluster1", "abcde");
    let groups = [
        identity::cluster_group("cluster1"),
        identity::MANAGED_CLUSTERS_GROUP.to_owned(),
    ];
    let groups: Vec<_> = groups.iter().map(String::as_str).collect();
    // The rights of its agents come a moment after it was accepted.
    let bindings: Api<ClusterRoleBinding> = Api::all(world.hub.client());
    let binding = identity::cluster_role("cluster1");
    wait::until(&bindings, &binding, "exists", |it| it.is_some()).await;
    world.request(&user, &groups).await;
    let review = Ask::new("authorization.k8s.io", "subjectaccessreviews", "create");
    heard(&world.of_hub, &review, false).await;
}

const SETS: &str = "
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: prod}
spec: {managedNamespaces: [{name: team}]}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: prod, namespace: default}
spec: {clusterSet: prod}
";

pub async fn sets_are_kept_and_profiles_shown(world: &World) {
    world.hub.apply(SETS).await;
    let label = json!({"metadata": {"labels": {(labels::CLUSTER_SET): "prod"}}});
    let of_clusters = "cluster.open-cluster-management.io/v1";
    world.patch(of_clusters, "ManagedCluster", "", "cluster1", label).await;

    let namespaces: Api<Namespace> = Api::all(world.cluster.client());
    wait::until(&namespaces, "team", "is made on the cluster", |it| it.is_some()).await;

    let profiles: Api<ClusterProfile> = Api::namespaced(world.hub.client(), "default");
    let told = |it: Option<&ClusterProfile>| it.is_some_and(|it| it.status.is_some());
    wait::until(&profiles, "cluster1", "says how its cluster is", told).await;
    let unlabelled = json!({"metadata": {"labels": {(labels::PROFILE_CLUSTER_SET): null}}});
    let of_profiles = "multicluster.x-k8s.io/v1alpha1";
    world
        .patch(of_profiles, "ClusterProfile", "default", "cluster1", unlabelled)
        .await;
    let labelled =
        |it: Option<&ClusterProfile>| it.is_some_and(|it| it.labels().contains_key(labels::PROFILE_CLUSTER_SET));
    wait::until(&profiles, "cluster1", "has its labels back", labelled).await;

    let other = json!({"spec": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}});
    let of_sets = "cluster.open-cluster-management.io/v1beta2";
    world.patch(of_sets, "ManagedClusterSet", "", "default", other).await;
    let sets: Api<ManagedClusterSet> = Api::all(world.hub.client());
    let repaired = |it: Option<&ManagedClusterSet>| {
        it.is_some_and(|it| it.spec.cluster_selector.selector_type == SelectorType::ExclusiveClusterSetLabel)
    };
    wait::until(&sets, "default", "is as it was", repaired).await;
}

const PLACEMENT: &str = "
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: chosen, namespace: default}
spec: {clusterSets: [prod]}
";
/// A page that nobody needs.
const SPARE: &str = "
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: PlacementDecision
metadata:
  name: chosen-decision-9
  namespace: default
  labels: {cluster.open-cluster-management.io/placement: chosen}
";

pub async fn placements_choose(world: &World) {
    world.hub.apply(PLACEMENT).await;
    let decisions: Api<PlacementDecision> = Api::namespaced(world.hub.client(), "default");
    let chosen = |it: Option<&PlacementDecision>| {
        let status = it.and_then(|it| it.status.as_ref());
        status.is_some_and(|it| it.decisions.iter().any(|it| it.cluster_name == "cluster1"))
    };
    wait::until(&decisions, "chosen-decision-1", "names the cluster", chosen).await;
    let other = json!({"metadata": {"labels": {(labels::DECISION_GROUP_INDEX): "7"}}});
    let of_decisions = "cluster.open-cluster-management.io/v1beta1";
    world
        .patch(of_decisions, "PlacementDecision", "default", "chosen-decision-1", other)
        .await;
    let repaired =
        |it: Option<&PlacementDecision>| it.is_some_and(|it| it.labels()[labels::DECISION_GROUP_INDEX] == "0");
    wait::until(&decisions, "chosen-decision-1", "is as it was", repaired).await;
    world.hub.apply(SPARE).await;
    wait::gone(&decisions, "chosen-decision-9").await;
}

/// A work of cluster1 with one ConfigMap, and a Role that lets read it; an executor is responsible for both.
pub fn work(name: &str) -> String {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    let role = json!({
        "apiVersion": RBAC, "kind": "Role", "metadata": {"name": name, "namespace": "default"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get"]}],
    });
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": name, "namespace": "cluster1"},
        "spec": {
            "workload": {"manifests": [map, role]},
            "executor": {"subject": {
                "type": "ServiceAccount", "serviceAccount": {"namespace": "default", "name": "executor"},
            }},
        },
    });
    work.to_string()
}

const EXECUTOR: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: executor, namespace: default}
rules:
- {apiGroups: [''], resources: [configmaps], verbs: ['*']}
- {apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [get, create, update, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: executor, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: executor}
subjects: [{kind: ServiceAccount, name: executor, namespace: default}]
";

fn replica_set(greeting: &str) -> Value {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "motd", "namespace": "default"},
        "data": {"greeting": greeting},
    });
    json!({
        "apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": "motd", "namespace": "default"},
        "spec": {"placementRefs": [{"name": "chosen"}], "manifestWorkTemplate": {"workload": {"manifests": [map]}}},
    })
}

/// The executor of [`work`] has its rights.
pub async fn an_executor_may(world: &World) {
    world.cluster.apply(EXECUTOR).await;
}

pub async fn works_spread(world: &World) {
    // One whose trace is there already.
    an_executor_may(world).await;
    world.hub.apply(&work(OVERTAKEN)).await;
    let maps: Api<ConfigMap> = Api::namespaced(world.cluster.client(), "default");
    wait::until(&maps, OVERTAKEN, "is applied", |it| it.is_some()).await;
    let roles: Api<Role> = Api::namespaced(world.cluster.client(), "default");
    wait::until(&roles, OVERTAKEN, "is applied", |it| it.is_some()).await;
    let works: Api<ManifestWork> = Api::namespaced(world.hub.client(), "cluster1");
    works.delete(OVERTAKEN, &DeleteParams::default()).await.unwrap();
    wait::gone(&works, OVERTAKEN).await;
    wait::gone(&maps, OVERTAKEN).await;

    // A third template makes the first one forgotten, and the second one's return is written down.
    for greeting in ["one", "two", "three", "two"] {
        world.hub.apply(&replica_set(greeting).to_string()).await;
        let says = |it: Option<&ConfigMap>| {
            let data = it.and_then(|it| it.data.as_ref());
            data.is_some_and(|it| it.get("greeting").is_some_and(|it| it == greeting))
        };
        wait::until(&maps, "motd", greeting, says).await;
    }
    let revisions: Api<ControllerRevision> = Api::namespaced(world.hub.client(), "default");
    wait::until_all(&revisions, "two templates are remembered", |all| all.len() == 2).await;
    let sets: Api<ManifestWorkReplicaSet> = Api::namespaced(world.hub.client(), "default");
    sets.delete("motd", &DeleteParams::default()).await.unwrap();
    wait::gone(&sets, "motd").await;
    wait::gone(&maps, "motd").await;
}

const TEMPLATE: &str = r#"
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: plain-v1}
spec:
  addonName: templated
  agentSpec:
    workload:
      manifests:
      - {apiVersion: v1, kind: ConfigMap, metadata: {name: templated, namespace: open-cluster-management-agent-addon}}
  registration:
  - type: KubeClient
    kubeClient: {hubPermissions: [{type: CurrentCluster, currentCluster: {clusterRoleName: cm-admin}}]}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: templated}
spec:
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {name: plain-v1}}
  installStrategy:
    type: Placements
    placements: [{name: chosen, namespace: default}]
"#;

/// Of an add-on that is gone.
const LEFT: &str = "
apiVersion: v1
kind: ServiceAccount
metadata:
  name: rich-agent
  namespace: cluster1
  labels:
    addon.open-cluster-management.io/token-infrastructure: 'true'
    addon.open-cluster-management.io/name: rich
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: rich-token-role
  namespace: cluster1
  labels:
    addon.open-cluster-management.io/token-infrastructure: 'true'
    addon.open-cluster-management.io/name: rich
";

/// Waits until a condition of an add-on of cluster1 is true.
async fn add_on_is(world: &World, name: &str, kind: &str) {
    let addons: Api<ManagedClusterAddOn> = Api::namespaced(world.hub.client(), "cluster1");
    let says = |it: Option<&ManagedClusterAddOn>| {
        let status = it.and_then(|it| it.status.as_ref());
        status.is_some_and(|it| condition::is_true(&it.conditions, kind))
    };
    wait::until(&addons, name, kind, says).await;
}

pub async fn add_ons_come_and_go(world: &World) {
    let (hub, cluster) = (&world.hub, &world.cluster);
    hub.apply(rich::OTHERS).await;
    // One that a placement brings.
    hub.apply(TEMPLATE).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), HOME);
    wait::until(&maps, "templated", "is deployed", |it| it.is_some()).await;

    // One with everything. An agent of an earlier version has left its Secret, which lacks our labels.
    let left = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "rich-hub-kubeconfig", "namespace": HOME}, "stringData": {"cluster-name": "cluster1"},
    });
    cluster.apply(&left.to_string()).await;
    hub.apply(rich::OFFER).await;
    hub.apply(rich::ADD_ON).await;
    // The authority comes late, and is waited for.
    heard(&world.of_hub, &Ask::new("", "secrets", "watch"), false).await;
    let authorities: Api<Secret> = Api::namespaced(hub.client(), namespaces::HUB);
    authorities
        .create(&PostParams::default(), &rich::authority())
        .await
        .unwrap();
    for kind in ["ClusterCertificateRotated", "TokenRefreshed", "RegistrationApplied"] {
        add_on_is(world, "rich", kind).await;
    }
    wait::until(&maps, "rich", "is deployed", |it| it.is_some()).await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "rich", "namespace": HOME},
        "spec": {"leaseDurationSeconds": 60, "renewTime": format!("{:.6}", jiff::Timestamp::now())},
    });
    cluster.apply(&lease.to_string()).await;
    add_on_is(world, "rich", "Available").await;
    what_was_made_for_an_add_on_is_repaired(world).await;

    // The first goes with its place, the other with its hook.
    let nowhere = json!({"spec": {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"no": "where"}}}}]}});
    let of_placements = "cluster.open-cluster-management.io/v1beta1";
    world
        .patch(of_placements, "Placement", "default", "chosen", nowhere)
        .await;
    let addons: Api<ManagedClusterAddOn> = Api::namespaced(hub.client(), "cluster1");
    wait::gone(&addons, "templated").await;
    addons.delete("rich", &DeleteParams::default()).await.unwrap();
    let jobs: Api<Job> = Api::namespaced(cluster.client(), HOME);
    wait::until(&jobs, "rich-goes", "exists", |it| it.is_some()).await;
    let done = json!({"status": {"conditions": [{
        "type": "Complete", "status": "True", "lastProbeTime": null, "lastTransitionTime": null,
    }]}});
    jobs.patch_status("rich-goes", &PatchParams::default(), &Patch::Merge(done))
        .await
        .unwrap();
    wait::gone(&addons, "rich").await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), HOME);
    wait::gone(&secrets, "rich-hub-kubeconfig").await;
    let leases: Api<Lease> = Api::namespaced(cluster.client(), HOME);
    wait::gone(&leases, "rich").await;
    // What it had on the hub goes with it, and what somebody puts back goes, too.
    let roles: Api<Role> = Api::namespaced(hub.client(), "cluster1");
    wait::gone(&service_accounts(world), "rich-agent").await;
    wait::gone(&roles, "rich-token-role").await;
    hub.apply(LEFT).await;
    wait::gone(&service_accounts(world), "rich-agent").await;
    wait::gone(&roles, "rich-token-role").await;
}

async fn what_was_made_for_an_add_on_is_repaired(world: &World) {
    let client = || world.hub.client();
    let (nothing, nobody) = (json!({"rules": []}), json!({"subjects": []}));
    world.patch(RBAC, "Role", "cluster1", "rich-own", nothing.clone()).await;
    let roles: Api<Role> = Api::namespaced(client(), "cluster1");
    let has_rules = |it: Option<&Role>| it.is_some_and(|it| it.rules.iter().flatten().count() > 0);
    wait::until(&roles, "rich-own", "has its rules back", has_rules).await;
    world.patch(RBAC, "ClusterRole", "", "rich-everywhere", nothing).await;
    let roles: Api<ClusterRole> = Api::all(client());
    let has_rules = |it: Option<&ClusterRole>| it.is_some_and(|it| it.rules.iter().flatten().count() > 0);
    wait::until(&roles, "rich-everywhere", "has its rules back", has_rules).await;

    world
        .patch(RBAC, "RoleBinding", "cluster1", "rich-own", nobody.clone())
        .await;
    let bindings: Api<RoleBinding> = Api::namespaced(client(), "cluster1");
    let has_subjects = |it: Option<&RoleBinding>| it.is_some_and(|it| it.subjects.iter().flatten().count() > 0);
    wait::until(&bindings, "rich-own", "has its subjects back", has_subjects).await;
    let of_cluster = identity::cluster_role("cluster1");
    world.patch(RBAC, "ClusterRoleBinding", "", &of_cluster, nobody).await;
    let bindings: Api<ClusterRoleBinding> = Api::all(client());
    let has_subjects = |it: Option<&ClusterRoleBinding>| it.is_some_and(|it| it.subjects.iter().flatten().count() > 0);
    wait::until(&bindings, &of_cluster, "has its subjects back", has_subjects).await;

    let nobodys = json!({"metadata": {"ownerReferences": null}});
    world
        .patch("v1", "ServiceAccount", "cluster1", "rich-agent", nobodys)
        .await;
    wait::until(&service_accounts(world), "rich-agent", "has its owner back", |it| {
        it.is_some_and(|it| !it.owner_references().is_empty())
    })
    .await;

    let (of_works, unlabelled) = (
        "work.open-cluster-management.io/v1",
        json!({"metadata": {"labels": {(labels::ADDON_NAME): null}}}),
    );
    let name = "addon-rich-deploy-0";
    world
        .patch(of_works, "ManifestWork", "cluster1", name, unlabelled)
        .await;
    let works: Api<ManifestWork> = Api::namespaced(client(), "cluster1");
    let labelled = |it: Option<&ManifestWork>| it.is_some_and(|it| it.labels().contains_key(labels::ADDON_NAME));
    wait::until(&works, name, "has its label back", labelled).await;
}

/// Cluster API's kind, as far as anybody looks at it.
const CLUSTER_API: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusters.cluster.x-k8s.io}
spec:
  group: cluster.x-k8s.io
  scope: Namespaced
  names: {kind: Cluster, plural: clusters, singular: cluster, listKind: ClusterList}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

/// Cluster API comes, and a cluster gets an agent by a kubeconfig that is used once.
pub async fn clusters_are_imported(world: &World) {
    world.hub.apply(CLUSTER_API).await;
    heard(&world.of_hub, &Ask::new("cluster.x-k8s.io", "clusters", "watch"), false).await;
    let other = Site::start().await.unwrap();
    let kubeconfig = other.kubeconfig("admin", &["system:masters"]).unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"kubeconfig": kubeconfig},
        "metadata": {
            "name": "auto-import-secret", "namespace": "imported",
            "annotations": {"open-cluster-management.io/delete-after-import": "true"},
        },
    });
    let cluster = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": "imported"}, "spec": {},
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "imported"}});
    for object in [namespace, secret, cluster] {
        world.hub.apply(&object.to_string()).await;
    }
    let secrets: Api<Secret> = Api::namespaced(world.hub.client(), "imported");
    wait::gone(&secrets, "auto-import-secret").await;
    let clusters: Api<ManagedCluster> = Api::all(world.hub.client());
    clusters.delete("imported", &DeleteParams::default()).await.unwrap();
    wait::gone(&clusters, "imported").await;
}

/// With what is left in its namespace.
pub async fn clusters_leave(world: &World) {
    world.hub.apply(&work("left")).await;
    let maps: Api<ConfigMap> = Api::namespaced(world.cluster.client(), "default");
    wait::until(&maps, "left", "is applied", |it| it.is_some()).await;
    let bindings: Api<ManagedClusterSetBinding> = Api::namespaced(world.hub.client(), "default");
    bindings.delete("prod", &DeleteParams::default()).await.unwrap();
    let profiles: Api<ClusterProfile> = Api::namespaced(world.hub.client(), "default");
    wait::gone(&profiles, "cluster1").await;
    let clusters: Api<ManagedCluster> = Api::all(world.hub.client());
    clusters.delete("cluster1", &DeleteParams::default()).await.unwrap();
    wait::gone(&clusters, "cluster1").await;
    wait::gone(&maps, "left").await;
    let roles: Api<ClusterRole> = Api::all(world.hub.client());
    wait::gone(&roles, identity::REGISTRATION_CLUSTER_ROLE).await;
}
