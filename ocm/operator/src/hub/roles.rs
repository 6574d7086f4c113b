//! What the components of a hub may do on its API server: ServiceAccounts, ClusterRoles and bindings.
//! Upstream: ocm `manifests/cluster-manager/hub`. In its layout the rules are upstream's, so that its images work, and
//! what ours need beside.

use serde_json::{Value, json};

use super::{deployments::REGISTRATION_ACCOUNT, wanted::HubObjects};

/// One rule: groups, resources, verbs, names of objects. Lists are words with blanks between them; `core` is the group
/// without a name.
type Row = (&'static str, &'static str, &'static str, &'static str);

const CLUSTER: &str = "cluster.open-cluster-management.io";
const WORK: &str = "work.open-cluster-management.io";
const ADD_ON: &str = "addon.open-cluster-management.io";
const REGISTER: &str = "register.open-cluster-management.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const LEASES: &str = "coordination.k8s.io";
const REVIEWS: &str = "authorization.k8s.io";
const TOKENS: &str = "authentication.k8s.io";
const PROFILES: &str = "multicluster.x-k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const EVENTS: &str = "core events.k8s.io";

const REGISTRATION: &[Row] = &[
    (CERTIFICATES, "certificatesigningrequests", "create get list watch", ""),
    (
        CERTIFICATES,
        "certificatesigningrequests/status certificatesigningrequests/approval",
        "update",
        "",
    ),
    (
        "core",
        "namespaces serviceaccounts configmaps",
        "get list watch create delete update",
        "",
    ),
    (
        "core",
        "serviceaccounts/token",
        "create",
        "agent-registration-bootstrap",
    ),
    ("core", "pods", "get", ""),
    (EVENTS, "events", "create patch update", ""),
    ("apps", "replicasets", "get", ""),
    (REVIEWS, "subjectaccessreviews", "create", ""),
    (
        RBAC,
        "clusterrolebindings rolebindings",
        "get list watch create update patch delete",
        "",
    ),
    (
        RBAC,
        "clusterroles roles",
        "get list watch create update patch delete",
        "",
    ),
    (LEASES, "leases", "get list watch create delete update patch", ""),
    (CLUSTER, "managedclusters", "get list watch update patch", ""),
    (CLUSTER, "managedclusters/status", "update patch", ""),
    (
        WORK,
        "manifestworks",
        "get list watch create update delete deletecollection patch execute-as",
        "",
    ),
    (WORK, "manifestworks/status", "patch update", ""),
    (
        WORK,
        "manifestworkreplicasets",
        "get list watch update delete deletecollection patch",
        "",
    ),
    (WORK, "manifestworkreplicasets/status", "update patch", ""),
    (WORK, "manifestworkreplicasets/finalizers", "update", ""),
    (
        CERTIFICATES,
        "signers",
        "approve",
        "kubernetes.io/kube-apiserver-client",
    ),
    (
        CLUSTER,
        "managedclustersets",
        "get list watch create update patch delete",
        "",
    ),
    (CLUSTER, "managedclustersets/status", "update patch", ""),
    (CLUSTER, "managedclustersetbindings", "get list watch", ""),
    (CLUSTER, "managedclustersetbindings/status", "update patch", ""),
    (TOKENS, "tokenreviews", "create", ""),
    (REVIEWS, "subjectaccessreviews", "create", ""),
    (ADD_ON, "managedclusteraddons", "get list watch delete", ""),
    (ADD_ON, "managedclusteraddons/status", "patch update", ""),
    (REGISTER, "managedclusters/clientcertificates", "renew", ""),
    (REGISTER, "managedclusters/accept", "update", ""),
];

const IMPORTER: &[Row] = &[("cluster.x-k8s.io", "clusters", "get list watch", "")];

const CLUSTER_PROFILES: &[Row] = &[
    (
        PROFILES,
        "clusterprofiles",
        "get list watch create update patch delete",
        "",
    ),
    (PROFILES, "clusterprofiles/status", "update patch", ""),
];

const REGISTRATION_WEBHOOK: &[Row] = &[
    ("core", "configmaps", "get list watch", ""),
    ("core", "namespaces", "get", ""),
    (REVIEWS, "subjectaccessreviews", "create", ""),
    (FLOW, "prioritylevelconfigurations flowschemas", "get list watch", ""),
];

const WORK_WEBHOOK: &[Row] = &[
    ("core", "configmaps", "get list watch", ""),
    (REVIEWS, "subjectaccessreviews", "create", ""),
    (FLOW, "prioritylevelconfigurations flowschemas", "get list watch", ""),
];

const WORK_EXECUTOR: &[Row] = &[(
    WORK,
    "manifestworks",
    "execute-as",
    "system:serviceaccount::klusterlet-work-sa",
)];

const PLACEMENTS: &[Row] = &[
    ("core", "configmaps", "get list watch create delete update", ""),
    ("core", "pods", "get", ""),
    ("apps", "replicasets", "get", ""),
    (TOKENS, "tokenreviews", "create", ""),
    (REVIEWS, "subjectaccessreviews", "create", ""),
    (EVENTS, "events", "create patch update", ""),
    (LEASES, "leases", "create get list update watch patch", ""),
    (
        CLUSTER,
        "managedclusters managedclustersets managedclustersetbindings",
        "get list watch",
        "",
    ),
    (CLUSTER, "addonplacementscores", "get list watch", ""),
    (CLUSTER, "placements", "get list watch", ""),
    (
        CLUSTER,
        "placementdecisions",
        "get list watch create update patch delete",
        "",
    ),
    (
        CLUSTER,
        "placements/status placementdecisions/status",
        "update patch",
        "",
    ),
    (CLUSTER, "placements/finalizers", "update", ""),
    ("config.openshift.io", "infrastructures", "get", ""),
];

const WORKS: &[Row] = &[
    ("core", "configmaps", "get list watch", ""),
    ("core", "pods", "get", ""),
    (REVIEWS, "subjectaccessreviews", "create", ""),
    (LEASES, "leases", "create get list update watch patch", ""),
    (EVENTS, "events", "create patch update", ""),
    (
        WORK,
        "manifestworks",
        "get list watch create update delete deletecollection patch execute-as",
        "",
    ),
    (WORK, "manifestworkreplicasets", "get list watch update patch", ""),
    (WORK, "manifestworkreplicasets/status", "patch update", ""),
    (WORK, "manifestworkreplicasets/finalizers", "update", ""),
    (CLUSTER, "placements placementdecisions", "get list watch", ""),
    ("config.openshift.io", "infrastructures", "get", ""),
    ("apps", "replicasets", "get", ""),
];

/// What sets of works said before: ours keep it, upstream's do not.
const WORKS_OF_OURS: &[Row] = &[("apps", "controllerrevisions", "create delete list patch watch", "")];

const ADD_ONS: &[Row] = &[
    (
        "core",
        "configmaps events",
        "get list watch create update delete deletecollection patch",
        "",
    ),
    ("core", "pods", "get", ""),
    ("apps", "replicasets", "get", ""),
    (LEASES, "leases", "get list watch create update patch", ""),
    (REVIEWS, "subjectaccessreviews", "get create", ""),
    (
        CLUSTER,
        "managedclusters placements placementdecisions",
        "get list watch",
        "",
    ),
    (ADD_ON, "managedclusteraddons/finalizers", "update", ""),
    (ADD_ON, "clustermanagementaddons/finalizers", "update", ""),
    (ADD_ON, "clustermanagementaddons/status", "update patch", ""),
    (ADD_ON, "clustermanagementaddons", "patch get list watch", ""),
    (
        ADD_ON,
        "managedclusteraddons",
        "get list watch create update delete",
        "",
    ),
    (ADD_ON, "managedclusteraddons/status", "update patch", ""),
    (ADD_ON, "addontemplates addondeploymentconfigs", "get list watch", ""),
    (WORK, "manifestworks", "get list watch create update delete patch", ""),
    (CERTIFICATES, "certificatesigningrequests", "create get list watch", ""),
    (
        CERTIFICATES,
        "certificatesigningrequests/approval certificatesigningrequests/status",
        "update",
        "",
    ),
    (CERTIFICATES, "signers", "approve sign", ""),
    (RBAC, "rolebindings roles", "get list watch create update delete", ""),
    ("core", "serviceaccounts", "get list watch create update delete", ""),
    ("core", "serviceaccounts/token", "create", ""),
    ("core", "serviceaccounts/token", "subscribe", ""),
];

/// A part of a hub, as far as it has rights of its own: behind `open-cluster-management:<name>-`.
struct Part {
    role: &'static str,
    account: Option<&'static str>,
    rows: &'static [&'static [Row]],
    is_there: fn(&HubObjects<'_>) -> bool,
}

const PARTS: &[Part] = &[
    Part {
        role: "registration:controller",
        account: Some(REGISTRATION_ACCOUNT),
        rows: &[REGISTRATION],
        is_there: |_| true,
    },
    Part {
        role: "registration:webhook",
        account: Some("registration-webhook-sa"),
        rows: &[REGISTRATION_WEBHOOK],
        is_there: |hub| !hub.is_compact(),
    },
    Part {
        role: "work:webhook",
        account: Some("work-webhook-sa"),
        rows: &[WORK_WEBHOOK],
        is_there: |hub| !hub.is_compact(),
    },
    Part {
        role: "work-executor-admin:webhook",
        account: None,
        rows: &[WORK_EXECUTOR],
        is_there: |_| true,
    },
    Part {
        role: "placement:controller",
        account: Some("placement-controller-sa"),
        rows: &[PLACEMENTS],
        is_there: |hub| !hub.is_compact(),
    },
    Part {
        role: "addon-manager:controller",
        account: Some("addon-manager-controller-sa"),
        rows: &[ADD_ONS],
        is_there: |hub| !hub.is_compact() && hub.has_add_on_manager(),
    },
    Part {
        role: "work:controller",
        account: Some("work-controller-sa"),
        rows: &[WORKS],
        is_there: |hub| !hub.is_compact() && hub.has_work_controller(),
    },
    Part {
        role: "clusterprofile:controller",
        account: Some(REGISTRATION_ACCOUNT),
        rows: &[CLUSTER_PROFILES],
        is_there: |_| false,
    },
    Part {
        role: "grpc-server",
        account: Some("grpc-server-sa"),
        rows: &[],
        is_there: |_| false,
    },
];

/// The binding by which add-ons' works may be executed as the agent that has no executor.
const EXECUTOR_BINDING: &str = "addon-manager-work-executor:controller";
const EXECUTOR_ROLE: &str = "work-executor-admin:webhook";

/// The ServiceAccount of the conversion of add-on kinds, which has no rights.
const ADD_ON_WEBHOOK_ACCOUNT: &str = "addon-webhook-sa";

/// What is to be there, and the names of what is not, as kind and name; those with a namespace are in the hub's.
pub struct Roles {
    /// The manifests, in the order in which they are made.
    pub keep: Vec<Value>,
    /// Kind and name.
    pub remove: Vec<(&'static str, String)>,
}

/// The roles that a hub is to have.
pub fn wanted(hub: &HubObjects<'_>) -> Roles {
    let mut roles = Roles {
        keep: Vec::new(),
        remove: Vec::new(),
    };
    for part in PARTS {
        let name = role_name(hub, part.role);
        if (part.is_there)(hub) {
            roles.keep.push(cluster_role(hub, &name, rules(hub, part)));
            let account = part.account;
            roles.keep.extend(account.map(|it| binding(hub, &name, &name, it)));
            roles.keep.extend(account.map(|it| service_account(hub, it)));
        } else {
            roles.remove.push(("ClusterRole", name.clone()));
            roles.remove.extend(part.account.map(|_| ("ClusterRoleBinding", name)));
            let own = part.account.filter(|it| *it != REGISTRATION_ACCOUNT);
            roles.remove.extend(own.map(|it| ("ServiceAccount", it.to_owned())));
        }
    }
    // In one process the add-on manager is who all others are.
    let manager = match hub.is_compact() {
        true => REGISTRATION_ACCOUNT,
        false => "addon-manager-controller-sa",
    };
    let executor = role_name(hub, EXECUTOR_BINDING);
    match hub.has_add_on_manager() || hub.is_compact() {
        true => roles
            .keep
            .push(binding(hub, &executor, &role_name(hub, EXECUTOR_ROLE), manager)),
        false => roles.remove.push(("ClusterRoleBinding", executor)),
    }
    match hub.is_compact() {
        true => roles.remove.push(("ServiceAccount", ADD_ON_WEBHOOK_ACCOUNT.to_owned())),
        false => roles.keep.push(service_account(hub, ADD_ON_WEBHOOK_ACCOUNT)),
    }
    roles
}

/// The ServiceAccounts of programs, which get a kubeconfig where the hub is on another cluster.
pub fn accounts(hub: &HubObjects<'_>) -> Vec<&'static str> {
    let present = PARTS.iter().filter(|it| (it.is_there)(hub));
    present.filter_map(|it| it.account).collect()
}

fn role_name(hub: &HubObjects<'_>, role: &str) -> String {
    format!("open-cluster-management:{}-{role}", hub.name)
}

fn rules(hub: &HubObjects<'_>, part: &Part) -> Vec<Value> {
    let is_registration = part.role == "registration:controller";
    if is_registration && hub.is_compact() {
        let rights = hub.options.compact_rights.iter();
        let mut rules: Vec<Value> = rights.map(|it| json!(it.rule())).collect();
        // Who may see the metrics, and who may try placements out.
        rules.push(rule(&(TOKENS, "tokenreviews", "create", "")));
        rules.extend(hub.has_importer().then(|| importer_rules(hub)).into_iter().flatten());
        return rules;
    }
    let mut rules: Vec<Value> = part.rows.iter().copied().flatten().map(rule).collect();
    if part.role == "work:controller" && hub.facts.may_keep_revisions {
        rules.extend(WORKS_OF_OURS.iter().map(rule));
    }
    if is_registration && hub.has_importer() {
        rules.extend(importer_rules(hub));
    }
    if is_registration && hub.has_cluster_profiles() {
        rules.extend(CLUSTER_PROFILES.iter().map(rule));
    }
    rules
}

fn importer_rules(hub: &HubObjects<'_>) -> Vec<Value> {
    let mut rules: Vec<Value> = IMPORTER.iter().map(rule).collect();
    rules.push(json!({
        "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"],
        "resourceNames": [hub.options.image_pull_secret_name, "cluster-import-config"],
    }));
    rules
}

fn rule((groups, resources, verbs, names): &Row) -> Value {
    let words = |it: &str| it.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let groups = groups.split_whitespace().map(|it| if it == "core" { "" } else { it });
    let mut rule = json!({
        "apiGroups": groups.collect::<Vec<_>>(), "resources": words(resources), "verbs": words(verbs),
    });
    if !names.is_empty() {
        rule["resourceNames"] = words(names).into();
    }
    rule
}

fn cluster_role(hub: &HubObjects<'_>, name: &str, rules: Vec<Value>) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "labels": hub.labels}, "rules": rules,
    })
}

fn binding(hub: &HubObjects<'_>, name: &str, role: &str, account: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": hub.labels},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": hub.namespace}],
    })
}

fn service_account(hub: &HubObjects<'_>, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": hub.namespace, "labels": hub.labels},
    })
}
