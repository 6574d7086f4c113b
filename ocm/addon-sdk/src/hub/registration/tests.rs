use std::sync::Arc;

use k8s_openapi::{
    api::rbac::v1::{ClusterRoleBinding, RoleBinding},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use ocm_api::{
    addon::{
        KubeClientDriver,
        v1alpha1::{ManagedClusterAddOn, RegistrationConfig, Subject as StatusSubject},
    },
    annotations,
    cluster::ManagedCluster,
    identity,
};
use ocm_reconcile::{
    Queue,
    install::{DROVER, MANAGED_BY},
};
use serde_json::{Value, json};

use super::*;
use crate::{
    AddOn, AddOnContext, ConfigKind, Health, Permission, Proof, Registration, UserError,
    hub::{InstalledAddOn, Look},
};

const ROLE: &str = "open-cluster-management:greeter:agent";

#[derive(Clone, Default)]
struct Greeter {
    registered: bool,
    permitted: bool,
    refuses: bool,
}

impl AddOn for Greeter {
    fn name(&self) -> &str {
        "greeter"
    }
    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        Ok(Vec::new())
    }
    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        if self.refuses {
            return Err(UserError::new("the moon is full"));
        }
        Ok(self.registered.then(Registration::kube_client).into_iter().collect())
    }
    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        let rule = Permission::rule("", &["configmaps"], &["get"]);
        Ok(self
            .permitted
            .then(|| Permission::role(ROLE, vec![rule]))
            .into_iter()
            .collect())
    }
    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<k8s_openapi::api::core::v1::ConfigMap>()]
    }
}

const FULL: Greeter = Greeter {
    registered: true,
    permitted: true,
    refuses: false,
};

fn place() -> AddOnContext {
    let mut place = AddOnContext::new("cluster1", "greeter");
    let mut addon = (*place.addon).clone();
    addon.metadata.uid = Some("1".to_owned());
    addon.metadata.resource_version = Some("7".to_owned());
    addon.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "addon.open-cluster-management.io/v1beta1".to_owned(),
        kind: "ClusterManagementAddOn".to_owned(),
        name: "greeter".to_owned(),
        uid: "2".to_owned(),
        ..OwnerReference::default()
    }]);
    place.addon = Arc::new(addon);
    place
}

/// What there is of an add-on of a hub that has it: objects of the names that it asks for,
/// and others that are kept for it.
#[derive(Clone, Default)]
struct Current {
    named: NamedObjects,
    present: PresentObjects,
}

fn seen(add_on: impl AddOn, place: AddOnContext, current: Current) -> Seen {
    let mut management = ClusterManagementAddOn::new("greeter", Default::default());
    management.metadata.uid = Some("2".to_owned());
    let mut cluster = (*place.cluster).clone();
    cluster.spec.hub_accepts_client = true;
    Seen {
        now: "2026-01-01T12:00:00Z".parse().unwrap(),
        key: "cluster1/greeter".to_owned(),
        addon: Some(place.addon.clone()),
        cluster: Some(Arc::new(cluster)),
        management: Some(Arc::new(management)),
        look: Look::Here(InstalledAddOn {
            add_on: Arc::new(add_on),
            place,
        }),
        present: current.present,
        named: Some(current.named),
        decision: OnceLock::new(),
    }
}

fn condition_of(plan: &Plan) -> Value {
    let ocm_reconcile::Step::MergePatch { patch, .. } = &plan.stages[0][0] else {
        panic!("{plan}");
    };
    let mut condition = patch["status"]["conditions"][0].clone();
    condition.as_object_mut().unwrap().remove("lastTransitionTime");
    condition
}

fn concluded(seen: &Seen) -> Plan {
    Registrations::conclude(seen, &Outcome::default())
}

/// What a run leaves behind.
fn after(seen: &Seen) -> (AddOnContext, Current) {
    let objects = seen.granted().expect("nothing was granted");
    let named = NamedObjects {
        roles: objects.roles.iter().cloned().map(Arc::new).collect(),
        role_bindings: objects.role_bindings.iter().cloned().map(Arc::new).collect(),
        ..NamedObjects::default()
    };
    let present = PresentObjects {
        roles: named.roles.clone(),
        role_bindings: named.role_bindings.clone(),
        ..PresentObjects::default()
    };
    let current = Current { named, present };
    let Look::Here(installed) = &seen.look else {
        unreachable!()
    };
    let mut place = installed.place.clone();
    let mut addon = serde_json::to_value(&*place.addon).unwrap();
    let plan = concluded(seen);
    if let Some(ocm_reconcile::Step::MergePatch { patch, .. }) = plan.stages.iter().flatten().next() {
        addon["status"] = patch["status"].clone();
    }
    place.addon = Arc::new(serde_json::from_value(addon).unwrap());
    (place, current)
}

#[test]
fn one_reconcile_reports_the_registration_and_binds_its_permissions() {
    let seen = seen(FULL, place(), Current::default());
    assert_eq!(
        Registrations::plan(&seen).to_string(),
        "hub: create Role cluster1/open-cluster-management:greeter:agent\n\
         hub: create RoleBinding cluster1/open-cluster-management:greeter:agent\n"
    );
    let plan = concluded(&seen);
    let ocm_reconcile::Step::MergePatch { patch, .. } = &plan.stages[0][0] else {
        panic!("{plan}");
    };
    let status = &patch["status"];
    assert_eq!(
        status["registrations"],
        json!([{
            "signerName": "kubernetes.io/kube-apiserver-client",
            "subject": {
                "user": format!("system:open-cluster-management:cluster:cluster1:addon:greeter:agent:{}", place().agent_name()),
                "groups": [
                    "system:open-cluster-management:cluster:cluster1:addon:greeter",
                    "system:open-cluster-management:addon:greeter",
                ],
            },
        }])
    );
    assert_eq!(
        status["supportedConfigs"],
        json!([{"group": "", "resource": "configmaps"}])
    );
    assert_eq!(status["namespace"], "open-cluster-management-agent-addon");
    assert_eq!(
        condition_of(&plan),
        json!({
            "type": "RegistrationApplied", "status": "True", "reason": "SetPermissionApplied",
            "message": "Registration of the addon agent is configured",
        })
    );
}

#[test]
fn a_second_reconcile_has_nothing_to_do() {
    let (place, current) = after(&seen(FULL, place(), Current::default()));
    let seen = seen(FULL, place, current);
    assert_eq!(Registrations::plan(&seen).to_string(), "nothing to do\n");
    assert_eq!(concluded(&seen).to_string(), "nothing to do\n");
}

#[test]
fn extra_rules_and_a_wrong_role_reference_are_repaired() {
    let (place, mut current) = after(&seen(FULL, place(), Current::default()));
    let mut role = (*current.named.roles[0]).clone();
    role.rules.as_mut().unwrap()[0].verbs.push("delete".to_owned());
    current.named.roles = vec![Arc::new(role)];
    let mut binding = (*current.named.role_bindings[0]).clone();
    binding.role_ref.name = "cluster-admin".to_owned();
    current.named.role_bindings = vec![Arc::new(binding)];
    assert_eq!(
        Registrations::plan(&seen(FULL, place, current)).to_string(),
        "stage 1\n\
         hub: delete RoleBinding cluster1/open-cluster-management:greeter:agent\n\
         stage 2\n\
         hub: patch Role cluster1/open-cluster-management:greeter:agent\n\
         hub: create RoleBinding cluster1/open-cluster-management:greeter:agent\n"
    );
}

#[test]
fn a_permission_that_is_no_longer_wanted_is_taken_away() {
    let (place, current) = after(&seen(FULL, place(), Current::default()));
    let current = Current {
        named: NamedObjects::default(),
        ..current
    };
    let less = Greeter {
        permitted: false,
        ..FULL
    };
    assert_eq!(
        Registrations::plan(&seen(less, place, current)).to_string(),
        "hub: delete Role cluster1/open-cluster-management:greeter:agent\n\
         hub: delete RoleBinding cluster1/open-cluster-management:greeter:agent\n"
    );
}

#[test]
fn switching_from_token_to_certificate_deletes_stale_bindings() {
    let (place, current) = after(&seen(FULL, place(), Current::default()));
    let mut elsewhere = ClusterRoleBinding::default();
    elsewhere.metadata.name = Some("view:cluster1".to_owned());
    let mut current = current;
    current.present.cluster_role_bindings_of_agent = vec![Arc::new(elsewhere)];
    assert_eq!(
        Registrations::plan(&seen(FULL, place, current)).to_string(),
        "hub: delete ClusterRoleBinding view:cluster1\n"
    );
}

#[test]
fn an_add_on_without_registrations_reports_it() {
    let seen = seen(Greeter::default(), place(), Current::default());
    assert_eq!(Registrations::plan(&seen).to_string(), "nothing to do\n");
    assert_eq!(condition_of(&concluded(&seen))["reason"], "NilRegistration");
}

#[test]
fn a_refusal_becomes_a_condition_and_leaves_the_registrations_alone() {
    let (place, current) = after(&seen(FULL, place(), Current::default()));
    let before = place.addon.status.clone().unwrap().registrations;
    let refuses = Greeter { refuses: true, ..FULL };
    let seen = seen(refuses, place, current);
    assert_eq!(
        Registrations::plan(&seen).to_string(),
        "nothing to do\nrefuses: the moon is full\n"
    );
    let plan = concluded(&seen);
    let condition = condition_of(&plan);
    assert_eq!(condition["reason"], "SetPermissionFailed");
    assert_eq!(
        condition["message"],
        "Failed to set permission for hub agent: the moon is full"
    );
    assert_eq!(before.len(), 1);
    assert!(!plan.to_string().contains("registrations"));
}

#[test]
fn an_add_on_without_its_owner_waits() {
    type Spoil = fn(&mut OwnerReference);
    let spoils: [Spoil; 4] = [
        |it| it.name = "other".to_owned(),
        |it| it.kind = "ManagedClusterAddOn".to_owned(),
        |it| it.api_version = "example.com/v1".to_owned(),
        // One that was never there: what is given such an owner is garbage, and with it the rights of all clusters.
        |it| it.uid = "3".to_owned(),
    ];
    for spoil in spoils {
        let mut place = place();
        let addon = Arc::make_mut(&mut place.addon);
        spoil(&mut addon.metadata.owner_references.as_mut().unwrap()[0]);
        let seen = seen(FULL, place, Current::default());
        assert_eq!(
            Registrations::plan(&seen).to_string(),
            "nothing to do\nwaits: its ClusterManagementAddOn does not own it yet\n"
        );
        assert!(concluded(&seen).is_empty());
    }
}

#[tokio::test]
async fn an_add_on_is_reconciled_once_its_owner_is_seen() {
    let context = Context::holding([], [(*place().addon).clone()]);
    let (owners, queue) = (context.caches.of::<ClusterManagementAddOn>(), Queue::new());
    owners.subscribe(&queue, waking::keys_of_owned(&context));
    owners.put(ClusterManagementAddOn::new("other", Default::default()));
    assert!(queue.is_empty());
    owners.put(ClusterManagementAddOn::new("greeter", Default::default()));
    assert_eq!(queue.len(), 1);
}

/// One whose health the hub judges.
struct Judged;

impl AddOn for Judged {
    fn name(&self) -> &str {
        "judged"
    }

    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        Ok(Vec::new())
    }

    fn health(&self, _: &AddOnContext) -> Health {
        Health::Deployments
    }
}

#[test]
fn the_health_check_mode_is_reported_even_without_an_owner() {
    for owned in [true, false] {
        let mut place = place();
        let mut addon = (*place.addon).clone();
        if !owned {
            addon.metadata.owner_references = None;
        }
        place.addon = Arc::new(addon);
        let seen = seen(Judged, place, Current::default());
        let plan = concluded(&seen);
        let ocm_reconcile::Step::MergePatch { patch, .. } = &plan.stages[0][0] else {
            panic!("{plan}");
        };
        assert_eq!(patch["status"]["healthCheck"]["mode"], "Customized", "owned: {owned}");
    }
}

fn with_token(user: &str) -> AddOnContext {
    let mut place = place();
    let mut addon = (*place.addon).clone();
    let status = addon.status.get_or_insert_default();
    status.kube_client_driver = Some(KubeClientDriver::Token);
    status.registrations = vec![RegistrationConfig {
        signer_name: identity::CLIENT_SIGNER.to_owned(),
        subject: StatusSubject {
            user: user.to_owned(),
            groups: vec!["system:masters".to_owned()],
            ..StatusSubject::default()
        },
    }];
    place.addon = Arc::new(addon);
    place
}

#[test]
fn a_token_agent_is_bound_only_by_its_service_account() {
    let seen = seen(
        FULL,
        with_token("system:serviceaccount:cluster1:greeter-agent"),
        Current::default(),
    );
    let objects = seen.granted().expect("not granted");
    let subjects: Vec<_> = objects.role_bindings[0]
        .subjects
        .iter()
        .flatten()
        .map(|it| &it.name)
        .collect();
    assert_eq!(subjects, ["system:serviceaccount:cluster1:greeter-agent"]);
}

#[test]
fn a_token_agent_claiming_another_identity_waits() {
    for user in ["", "system:serviceaccount:cluster10:greeter-agent", "admin"] {
        let seen = seen(FULL, with_token(user), Current::default());
        assert_eq!(
            Registrations::plan(&seen).to_string(),
            "nothing to do\nwaits: registration subject not ready\n",
            "{user}"
        );
        assert_eq!(condition_of(&concluded(&seen))["reason"], "PermissionConfigPending");
    }
}

/// A binding in the cluster's namespace that gives somebody of this name what the add-on asks for.
fn bound(name: &str, to: &str, is_ours: bool) -> RoleBinding {
    let mut labels = json!({"open-cluster-management.io/addon-name": "greeter"});
    if is_ours {
        labels[MANAGED_BY] = json!(DROVER);
    }
    let binding = json!({
        "metadata": {"name": name, "namespace": "cluster1", "labels": labels},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ROLE},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": to}],
    });
    serde_json::from_value(binding).unwrap()
}

#[tokio::test]
async fn agents_of_a_denied_or_deleted_cluster_lose_their_permissions() {
    let cluster = |accepted: bool, deleted: Value| {
        let it = json!({
            "metadata": {"name": "cluster1", "deletionTimestamp": deleted}, "spec": {"hubAcceptsClient": accepted},
        });
        serde_json::from_value::<ManagedCluster>(it).unwrap()
    };
    let planned = async |of: Option<ManagedCluster>, addon: ManagedClusterAddOn| {
        let context = Context::holding(of, [addon]);
        context.registry.add(Arc::new(FULL), false).unwrap();
        let agents = "system:open-cluster-management:cluster:cluster1:addon:greeter";
        let rbac = RbacCaches::of(&context.caches);
        rbac.role_bindings.fill([
            bound("ours", agents, true),
            bound("found", agents, false),
            bound("peoples", "operators", true),
        ]);
        rbac.cluster_role_bindings.fill([]);
        let seen = Registrations::new(&context).observe("cluster1/greeter").await.unwrap();
        Registrations::plan(&seen).to_string()
    };
    let addon = || (*place().addon).clone();
    let gone = "hub: delete RoleBinding cluster1/found\n\
                hub: delete RoleBinding cluster1/ours\nwaits: its cluster is";
    let denied = planned(Some(cluster(false, Value::Null)), addon()).await;
    assert_eq!(denied, format!("{gone} not accepted\n"));
    let deleted = planned(Some(cluster(true, json!("2026-01-01T00:00:00Z"))), addon()).await;
    assert_eq!(deleted, format!("{gone} being deleted\n"));
    // Whatever else there is to wait for.
    let missing = planned(None, addon()).await;
    assert!(missing.contains("delete RoleBinding cluster1/ours"), "{missing}");
}

/// One that asks for rights of all kinds, for its agent and for others.
struct Several;

impl AddOn for Several {
    fn name(&self) -> &str {
        "greeter"
    }
    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        Ok(Vec::new())
    }
    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![Registration::kube_client()])
    }
    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        Ok(vec![
            Permission::role(ROLE, vec![Permission::rule("", &["configmaps"], &["get"])]),
            Permission::existing_cluster_role("view").for_group("operators"),
            Permission::existing_cluster_role("view").in_namespace("settings"),
            Permission::existing_cluster_role("edit")
                .in_namespace("settings")
                .for_service_account("tools", "editor"),
            Permission::existing_cluster_role("nodes").on_the_whole_hub(),
            Permission::existing_cluster_role("audit")
                .on_the_whole_hub()
                .for_user("auditor"),
        ])
    }
}

/// What both rounds of a run do about bindings that are there while the cluster is denied, where the role bindings may
/// be listed or not, and the cluster role bindings may not.
async fn both_rounds_for_denied(may_list: bool) -> [String; 2] {
    let denied = json!({"metadata": {"name": "cluster1"}, "spec": {"hubAcceptsClient": false}});
    let context = Context::holding(
        Some(serde_json::from_value(denied).unwrap()),
        [(*place().addon).clone()],
    );
    context.registry.add(Arc::new(Several), false).unwrap();
    let mut management = ClusterManagementAddOn::new("greeter", Default::default());
    management.metadata.uid = Some("2".to_owned());
    context.caches.of().fill([management]);
    let (rbac, registrations) = (RbacCaches::of(&context.caches), Registrations::new(&context));
    let looked = registrations.observe("cluster1/greeter").await.unwrap();
    let asked = looked.granted().unwrap().clone();
    if may_list {
        rbac.role_bindings.fill(asked.role_bindings.clone());
    }
    let first = registrations.observe("cluster1/greeter").await.unwrap();
    let planned = Registrations::plan(&first).to_string();
    assert!(Registrations::goes_on(&first, &Outcome::default()));
    // There is no API server here to ask for others by name.
    for it in asked.cluster_role_bindings {
        rbac.cluster_role_bindings.put(it);
    }
    for it in asked.role_bindings.into_iter().filter(|_| !may_list) {
        rbac.role_bindings.put(it);
    }
    let nothing_done = Outcome::default();
    let again = registrations.observe_again("cluster1/greeter", first, &nothing_done);
    let second = again.await.unwrap();
    assert!(!Registrations::goes_on(&second, &Outcome::default()));
    [planned, Registrations::plan(&second).to_string()]
}

#[tokio::test]
async fn bindings_of_a_denied_cluster_are_looked_up_by_kind() {
    let waits = "waits: its cluster is not accepted\n";
    let of_agent = format!(
        "hub: delete RoleBinding cluster1/{ROLE}\n\
         hub: delete RoleBinding settings/view:cluster1\n"
    );
    let of_hub = "hub: delete ClusterRoleBinding nodes:cluster1\n";
    assert_eq!(
        both_rounds_for_denied(true).await,
        [format!("{of_agent}{waits}"), format!("{of_hub}{waits}")]
    );
    assert_eq!(
        both_rounds_for_denied(false).await,
        [format!("nothing to do\n{waits}"), format!("{of_agent}{of_hub}{waits}")]
    );
}

#[test]
fn a_deleted_add_on_loses_bindings_outside_its_namespace() {
    let mut binding = RoleBinding::default();
    binding.metadata.name = Some("view:cluster1".to_owned());
    binding.metadata.namespace = Some("settings".to_owned());
    let mut current = Current::default();
    current.present.role_bindings_of_agent = vec![Arc::new(binding)];
    let gone = Seen {
        look: Look::Gone,
        addon: None,
        named: None,
        ..seen(FULL, place(), current)
    };
    assert_eq!(
        Registrations::plan(&gone).to_string(),
        "hub: delete RoleBinding settings/view:cluster1\n"
    );
}

/// A place whose configuration has changed while the change has not come to it.
fn held(mut place: AddOnContext) -> AddOnContext {
    let mut map = k8s_openapi::api::core::v1::ConfigMap::default();
    map.metadata.name = Some("settings".to_owned());
    place = place.with_config(&map);
    place.configs[0].spec_hash = "of the former state".to_owned();
    place
}

#[test]
fn an_agent_keeps_its_permissions_while_a_change_is_held() {
    let (place, current) = after(&seen(FULL, place(), Current::default()));
    // What the author says now is for clusters whose turn has come.
    let less = Greeter {
        permitted: false,
        registered: false,
        ..FULL
    };
    let current = Current {
        named: NamedObjects::default(),
        ..current
    };
    let seen = seen(less, held(place), current);
    assert_eq!(
        Registrations::plan(&seen).to_string(),
        "nothing to do\nwaits: ConfigMap settings has changed, and the change has not come to this cluster yet\n"
    );
    assert!(concluded(&seen).is_empty());
}

#[test]
fn a_configuration_without_a_hash_changes_nothing_yet() {
    let (place, current) = after(&seen(FULL, place(), Current::default()));
    let mut place = held(place);
    place.configs[0].spec_hash.clear();
    let seen = seen(FULL, place, current);
    assert_eq!(
        Registrations::plan(&seen).to_string(),
        "nothing to do\nwaits: the hub has not settled yet which state of ConfigMap settings is meant for this cluster\n"
    );
    assert!(concluded(&seen).is_empty());
}

#[test]
fn the_chosen_token_driver_is_annotated_for_the_agent() {
    struct Hourly;
    impl AddOn for Hourly {
        fn name(&self) -> &str {
            "greeter"
        }
        fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
            Ok(Vec::new())
        }
        fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
            let lifetime = Some(std::time::Duration::from_secs(3600));
            Ok(vec![Registration::kube_client().with(Proof::Token { lifetime })])
        }
    }
    let planned = |place: AddOnContext| {
        let seen = seen(Hourly, place, Current::default());
        format!("{:#}", Registrations::plan(&seen))
    };
    let printed = planned(place());
    assert!(
        printed.contains(r#""addon.open-cluster-management.io/kube-client-driver":"token""#),
        "{printed}"
    );
    assert!(
        printed.contains(r#""addon.open-cluster-management.io/token-expiration-seconds":"3600""#),
        "{printed}"
    );
    // What holds for all add-ons of a cluster goes before it.
    let mut of_cluster = place();
    let annotations = [
        (annotations::ADDON_KUBE_CLIENT_DRIVER, "csr"),
        (annotations::ADDON_FROM_CLUSTER, annotations::ADDON_KUBE_CLIENT_DRIVER),
        (annotations::ADDON_TOKEN_SECONDS, "3600"),
    ];
    Arc::make_mut(&mut of_cluster.addon).metadata.annotations = Some(
        annotations
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    );
    assert_eq!(planned(of_cluster), "nothing to do\n");
}

/// One whose agent has a certificate of another signer and no way to the hub.
struct Elsewhere {
    permission: Permission,
}

impl AddOn for Elsewhere {
    fn name(&self) -> &str {
        "greeter"
    }
    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        Ok(Vec::new())
    }
    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![Registration::custom_signer("example.com/greeter")])
    }
    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        Ok(vec![self.permission.clone()])
    }
}

fn elsewhere(permission: Permission) -> Seen {
    seen(Elsewhere { permission }, place(), Current::default())
}

#[test]
fn permissions_for_an_agent_without_hub_registration_are_refused() {
    let seen = elsewhere(Permission::existing_cluster_role("view"));
    assert_eq!(
        condition_of(&concluded(&seen))["message"],
        "Failed to set permission for hub agent: permission view is for the add-on's agent, which has no registration as a \
         client of the hub"
    );
}

#[test]
fn permissions_for_others_need_no_registration() {
    let seen = elsewhere(Permission::existing_cluster_role("view").for_group("operators"));
    assert_eq!(
        Registrations::plan(&seen).to_string(),
        "hub: create RoleBinding cluster1/view\n"
    );
    assert_eq!(condition_of(&concluded(&seen))["reason"], "SetPermissionApplied");
}

#[tokio::test]
async fn granted_objects_are_read_by_name_before_they_are_created() {
    let first = Seen {
        named: None,
        ..seen(FULL, place(), Current::default())
    };
    assert_eq!(Registrations::plan(&first).to_string(), "nothing to do\n");
    assert!(Registrations::goes_on(&first, &Outcome::default()));
    let context = Context::holding([], []);
    let rbac = RbacCaches::of(&context.caches);
    let (_, current) = after(&seen(FULL, place(), Current::default()));
    rbac.roles.fill(current.named.roles.iter().map(|it| (**it).clone()));
    rbac.role_bindings
        .fill(current.named.role_bindings.iter().map(|it| (**it).clone()));
    let registrations = Registrations::new(&context);
    let second = registrations
        .observe_again("cluster1/greeter", first, &Outcome::default())
        .await
        .unwrap();
    assert_eq!(second.named.as_ref().map(|it| it.role_bindings.len()), Some(1));
    assert_eq!(Registrations::plan(&second).to_string(), "nothing to do\n");
    assert!(!Registrations::goes_on(&second, &Outcome::default()));
}
