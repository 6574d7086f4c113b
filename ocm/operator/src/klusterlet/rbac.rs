//! What an agent may do: who it is, its roles and their bindings, with upstream's names, so that its operator and ours
//! find each other's, and upstream's agents run under them as ours do.
//! Upstream: ocm `manifests/klusterlet/managed`, `manifests/klusterlet/management`.
//!
//! What is more than upstream's: `patch` on definitions and `delete` on webhook configurations for works, because we
//! apply, and what a work has made may always be deleted; `delete` on leases, for those that add-ons leave behind.

use ocm_reconcile::{Site, rbac::Right};
use serde_json::{Value, json};

use super::{
    names,
    settings::{AgentSettings, Place, Shape},
};
use crate::objects::WantedObject;

const RBAC: &str = "rbac.authorization.k8s.io";
const READ: &str = "get list watch";
const ALL: &str = "get list watch create update patch delete";
const KEEP: &str = "create get list update watch patch";
const OWN: &str = "get list watch create delete update patch";

/// Of registration, on the managed cluster.
const REGISTRATION: &[Right] = &[
    Right::new("", "nodes", READ, "What the cluster has room for."),
    Right::new("", "namespaces", KEEP, "Those of add-ons, and of cluster sets."),
    Right::new(
        "cluster.open-cluster-management.io",
        "clusterclaims",
        READ,
        "What the cluster says of itself.",
    ),
    Right::new(
        "about.k8s.io",
        "clusterproperties",
        READ,
        "The same in Kubernetes' words.",
    ),
];

/// Of registration for add-ons, on the managed cluster and where the pods run.
const ADD_ONS: &[Right] = &[
    Right::new("", "secrets", OWN, "Credentials of add-ons, in their namespaces."),
    Right::new(
        "coordination.k8s.io",
        "leases",
        "create get list update watch patch delete",
        "Signs of life of add-ons' agents.",
    ),
];

/// Of work, on the managed cluster.
const WORK: &[Right] = &[
    Right::new(
        "work.open-cluster-management.io",
        "appliedmanifestworks",
        ALL,
        "What it has applied,",
    ),
    Right::new(
        "work.open-cluster-management.io",
        "appliedmanifestworks/status",
        "patch update",
        "which objects,",
    ),
    Right::new(
        "work.open-cluster-management.io",
        "appliedmanifestworks/finalizers",
        "update",
        "and whose owner it is.",
    ),
    Right::new(
        "authorization.k8s.io",
        "subjectaccessreviews",
        "create",
        "Whether the executor of a work may do what it says,",
    ),
    Right::new(
        "",
        "serviceaccounts",
        "impersonate",
        "and doing it in the executor's name.",
    ),
];

/// What works contain mostly, beside what the built-in role `admin` lets write in a namespace.
const EXECUTION: &[Right] = &[
    Right::new("apiextensions.k8s.io", "customresourcedefinitions", ALL, "Kinds."),
    Right::new("", "namespaces", "create update patch delete", "Namespaces."),
    Right::new(RBAC, "clusterrolebindings rolebindings", ALL, "Bindings,"),
    Right::new(
        RBAC,
        "clusterroles roles",
        "get list watch create update patch delete escalate bind",
        "and roles with any rights: those that agents of add-ons need are not known beforehand.",
    ),
    Right::new("monitoring.coreos.com", "servicemonitors", ALL, "Metrics of add-ons."),
    Right::new(
        "oauth.openshift.io",
        "oauthclients",
        ALL,
        "Clients of OpenShift's OAuth.",
    ),
    Right::new("scheduling.k8s.io", "priorityclasses", ALL, "Priorities of pods."),
    Right::new(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations validatingwebhookconfigurations",
        ALL,
        "Webhooks.",
    ),
];

/// Of both where the pods run: leader election, events, and whose pod it is.
const OWN_NAMESPACE: &[Right] = &[
    Right::new("", "configmaps", OWN, "Leader election of old."),
    Right::new("", "pods", "get", "Whose events they are."),
    Right::new("apps", "replicasets", "get", "The same."),
    Right::new("coordination.k8s.io", "leases", KEEP, "Leader election."),
    Right::new("", "events", "create patch update", "What happened."),
    Right::new(
        "events.k8s.io",
        "events",
        "create patch update",
        "The same in today's words.",
    ),
];

/// Of registration where its Secrets are.
const OWN_SECRETS: &[Right] = &[Right::new("", "secrets", OWN, "Its credential at the hub.")];

/// Of both in `kube-system`.
const CLIENT_CA: &[Right] =
    &[Right::new("", "configmaps", READ, "Who may ask its endpoints.").only("extension-apiserver-authentication")];

/// The last parts of names of roles.
const REGISTRATION_AGENT: &str = "registration:agent";
const ADD_ON_MANAGEMENT: &str = "registration:addon-management";
const WORK_AGENT: &str = "work:agent";
const WORK_AGGREGATE: &str = "work:aggregate";

/// Makes the objects of one site.
struct Maker<'a> {
    site: Site,
    labels: &'a Value,
}

impl Maker<'_> {
    fn object(&self, kind: &str, metadata: Value, rest: Value) -> WantedObject {
        let mut manifest = rest;
        manifest["apiVersion"] = match kind {
            "ServiceAccount" => "v1".into(),
            _ => format!("{RBAC}/v1").into(),
        };
        manifest["kind"] = kind.into();
        manifest["metadata"] = metadata;
        let mut labels = self.labels.clone();
        for (key, value) in manifest["metadata"]["labels"].as_object().into_iter().flatten() {
            labels[key.as_str()] = value.clone();
        }
        manifest["metadata"]["labels"] = labels;
        WantedObject::new(self.site, manifest)
    }

    fn account(&self, namespace: &str, name: &str) -> WantedObject {
        let pull = json!({"imagePullSecrets": [{"name": ocm_api::namespaces::PULL_SECRET}]});
        self.object("ServiceAccount", json!({"name": name, "namespace": namespace}), pull)
    }

    fn cluster_role(&self, name: &str, rights: &[&[Right]]) -> WantedObject {
        self.object("ClusterRole", json!({"name": name}), rules(rights))
    }

    fn role(&self, namespace: &str, name: &str, rights: &[&[Right]]) -> WantedObject {
        let metadata = json!({"name": name, "namespace": namespace});
        self.object("Role", metadata, rules(rights))
    }

    fn cluster_binding(&self, name: &str, role: &str, subjects: &Value) -> WantedObject {
        let rest = json!({"roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}, "subjects": subjects});
        self.object("ClusterRoleBinding", json!({"name": name}), rest)
    }

    fn binding(&self, (namespace, name): (&str, &str), role: &str, subjects: &Value) -> WantedObject {
        let rest = json!({"roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role}, "subjects": subjects});
        self.object("RoleBinding", json!({"name": name, "namespace": namespace}), rest)
    }
}

fn rules(rights: &[&[Right]]) -> Value {
    let rules: Vec<_> = rights.iter().flat_map(|it| it.iter()).map(Right::rule).collect();
    json!({ "rules": rules })
}

/// Who a binding of registration is for. While Deployments of the other shape still run, theirs keep their rights.
fn subjects(settings: &AgentSettings, namespace: &str, is_moving: bool) -> Value {
    let mut names = vec![settings.registration_account()];
    if is_moving {
        names.extend(match settings.shape {
            Shape::One => Some(names::registration_account(&settings.name)),
            Shape::Two => Some(settings.work_account()),
        });
    }
    let subject = |name| json!({"kind": "ServiceAccount", "name": name, "namespace": namespace});
    names.into_iter().map(subject).collect()
}

fn work_subject(settings: &AgentSettings, namespace: &str) -> Value {
    json!([{"kind": "ServiceAccount", "name": settings.work_account(), "namespace": namespace}])
}

/// What is on the managed cluster, in upstream's order.
pub fn managed(settings: &AgentSettings, is_moving: bool) -> Vec<WantedObject> {
    let maker = Maker {
        site: Site::Cluster,
        labels: &settings.labels,
    };
    let namespace = &settings.klusterlet_namespace;
    let name = |of: &str| names::managed_role(&settings.name, of);
    let registration = subjects(settings, namespace, is_moving);
    let work = work_subject(settings, namespace);
    let mut execution = maker.cluster_role(&name("work:execution"), &[EXECUTION]);
    execution.manifest["metadata"]["labels"][names::AGGREGATED] = "true".into();
    vec![
        maker.account(namespace, &settings.registration_account()),
        maker.cluster_role(&name(REGISTRATION_AGENT), &[REGISTRATION]),
        maker.cluster_role(&name(ADD_ON_MANAGEMENT), &[ADD_ONS]),
        maker.cluster_binding(&name(REGISTRATION_AGENT), &name(REGISTRATION_AGENT), &registration),
        maker.cluster_binding(&name(ADD_ON_MANAGEMENT), &name(ADD_ON_MANAGEMENT), &registration),
        maker.account(namespace, &settings.work_account()),
        maker.cluster_role(&name(WORK_AGENT), &[WORK]),
        execution,
        maker.cluster_binding(&name(WORK_AGENT), &name(WORK_AGENT), &work),
        maker.cluster_binding(&name(WORK_AGGREGATE), &name(WORK_AGGREGATE), &work),
        maker.cluster_binding(&name("work:execution-admin"), "admin", &work),
    ]
}

/// The role that is made of everybody's additions. Its rules are the API server's to fill in, so nothing is said of
/// them once it is there.
pub fn aggregate(settings: &AgentSettings) -> WantedObject {
    let maker = Maker {
        site: Site::Cluster,
        labels: &settings.labels,
    };
    let selectors = json!([{"matchLabels": {(names::AGGREGATED): "true"}}]);
    maker.object(
        "ClusterRole",
        json!({"name": names::managed_role(&settings.name, WORK_AGGREGATE)}),
        json!({"aggregationRule": {"clusterRoleSelectors": selectors}, "rules": []}),
    )
}

/// What is where the pods run, in upstream's order.
pub fn management(settings: &AgentSettings, is_moving: bool) -> Vec<WantedObject> {
    let maker = Maker {
        site: Site::Management,
        labels: &settings.labels,
    };
    let namespace = settings.agent_namespace.as_str();
    let name = |of: &str| names::management_role(&settings.name, &format!("-{of}"));
    let (registration_agent, work_agent) = (name(REGISTRATION_AGENT), name(WORK_AGENT));
    let client_ca = names::management_role(&settings.name, ":extension-apiserver");
    let registration = subjects(settings, namespace, is_moving);
    let work = work_subject(settings, namespace);
    vec![
        maker.role(SYSTEM, &client_ca, &[CLIENT_CA]),
        maker.account(namespace, &settings.registration_account()),
        maker.role(namespace, &registration_agent, &[OWN_NAMESPACE, OWN_SECRETS]),
        maker.binding((namespace, &registration_agent), &registration_agent, &registration),
        maker.binding((SYSTEM, &registration_agent), &client_ca, &registration),
        maker.cluster_role(&name(ADD_ON_MANAGEMENT), &[ADD_ONS]),
        maker.cluster_binding(&name(ADD_ON_MANAGEMENT), &name(ADD_ON_MANAGEMENT), &registration),
        maker.account(namespace, &settings.work_account()),
        maker.role(namespace, &work_agent, &[OWN_NAMESPACE]),
        maker.binding((namespace, &work_agent), &work_agent, &work),
        maker.binding((SYSTEM, &work_agent), &client_ca, &work),
    ]
}

const SYSTEM: &str = "kube-system";

/// The account that the other shape's Deployments have and this one's do not.
pub fn surplus_accounts(settings: &AgentSettings) -> Vec<(Site, String, String)> {
    if settings.shape == Shape::Two {
        return Vec::new();
    }
    let account = names::registration_account(&settings.name);
    let mut all = vec![(Site::Management, settings.agent_namespace.clone(), account.clone())];
    if settings.place == Place::Hosting {
        all.push((Site::Cluster, settings.klusterlet_namespace.clone(), account));
    }
    all
}
