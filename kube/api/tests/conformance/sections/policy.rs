//! What every cluster has without anybody making it: roles, bindings, and what servers that trust this one read.

use crate::{
    check::{Check, must},
    cx::{Cx, RBAC},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "181",
            "the roles and bindings that every cluster has exist with their rules; at a start those come back that are missing",
            bootstrap_roles,
        ).embedded_too("a start that brings back what is missing"),
        must("182", "extension-apiserver-authentication has its six keys", delegation),
    ]
}

/// Name, and rules: `verbs @ groups @ resources [@ names]` or `verbs @ paths`, with `core`
/// for the group without a name.
type Row = (&'static str, &'static [&'static str]);

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";

/// The whole of what these roles allow.
const ROLES: &[Row] = &[
    (
        "system:monitoring",
        &[
            "get @ /metrics /metrics/slis /livez /readyz /healthz /livez/* /readyz/* /healthz/* /statusz /flagz",
            "get @ core @ nodes/metrics",
        ],
    ),
    ("cluster-admin", &["* @ * @ *", "* @ *"]),
    (
        "system:discovery",
        &["get @ /api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"],
    ),
    (
        "system:public-info-viewer",
        &["get @ /healthz /livez /readyz /version /version/"],
    ),
    (
        "system:basic-user",
        &[
            "create @ authorization.k8s.io @ selfsubjectaccessreviews selfsubjectrulesreviews",
            "create @ authentication.k8s.io @ selfsubjectreviews",
        ],
    ),
    (
        "system:service-account-issuer-discovery",
        &[
            "get @ /.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
        ],
    ),
    (
        "system:auth-delegator",
        &[
            "create @ authentication.k8s.io @ tokenreviews",
            "create @ authorization.k8s.io @ subjectaccessreviews",
        ],
    ),
    (
        "system:node-bootstrapper",
        &["create get list watch @ certificates.k8s.io @ certificatesigningrequests"],
    ),
    (
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        &["create @ certificates.k8s.io @ certificatesigningrequests/nodeclient"],
    ),
    (
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        &["create @ certificates.k8s.io @ certificatesigningrequests/selfnodeclient"],
    ),
    (
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        &["approve @ certificates.k8s.io @ signers @ kubernetes.io/kube-apiserver-client"],
    ),
    (
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        &["approve @ certificates.k8s.io @ signers @ kubernetes.io/kube-apiserver-client-kubelet"],
    ),
    (
        "system:certificates.k8s.io:kubelet-serving-approver",
        &["approve @ certificates.k8s.io @ signers @ kubernetes.io/kubelet-serving"],
    ),
    (
        "system:certificates.k8s.io:legacy-unknown-approver",
        &["approve @ certificates.k8s.io @ signers @ kubernetes.io/legacy-unknown"],
    ),
    (
        "system:kube-controller-manager",
        &[
            "create patch update @ core events.k8s.io @ events",
            "create @ coordination.k8s.io @ leases",
            "get update @ coordination.k8s.io @ leases @ kube-controller-manager",
            "create @ core @ secrets serviceaccounts serviceaccounts/token",
            "delete @ core @ secrets",
            "get @ core @ configmaps namespaces secrets serviceaccounts",
            "update @ core @ secrets serviceaccounts",
            "create @ authentication.k8s.io @ tokenreviews",
            "create @ authorization.k8s.io @ subjectaccessreviews",
            "list watch @ * @ *",
        ],
    ),
    (
        "system:aggregate-to-admin",
        &[
            "create @ authorization.k8s.io @ localsubjectaccessreviews",
            "READ WRITE @ rbac.authorization.k8s.io @ rolebindings roles",
        ],
    ),
    (
        "system:aggregate-to-edit",
        &[
            "READ @ core @ pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy",
            "impersonate @ core @ serviceaccounts",
            "create @ core @ pods/eviction serviceaccounts/token",
            "WRITE @ core @ pods pods/attach pods/exec pods/portforward pods/proxy configmaps persistentvolumeclaims \
             replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy",
            "WRITE @ core events.k8s.io @ events",
            "WRITE @ apps @ daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale \
             statefulsets statefulsets/scale",
            "WRITE @ autoscaling @ horizontalpodautoscalers",
            "WRITE @ batch @ cronjobs jobs",
            "WRITE @ extensions @ daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies \
             replicasets replicasets/scale replicationcontrollers/scale",
            "WRITE @ policy @ poddisruptionbudgets",
            "WRITE @ networking.k8s.io @ ingresses networkpolicies",
            "READ WRITE @ coordination.k8s.io @ leases",
            "WRITE @ resource.k8s.io @ resourceclaims resourceclaimtemplates",
        ],
    ),
    (
        "system:aggregate-to-view",
        &[
            "READ @ core @ configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods pods/log pods/status \
             replicationcontrollers replicationcontrollers/scale replicationcontrollers/status serviceaccounts services \
             services/status bindings limitranges namespaces namespaces/status resourcequotas resourcequotas/status",
            "READ @ core events.k8s.io @ events",
            "READ @ discovery.k8s.io @ endpointslices",
            "READ @ apps @ controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status \
             replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
            "READ @ autoscaling @ horizontalpodautoscalers horizontalpodautoscalers/status",
            "READ @ batch @ cronjobs cronjobs/status jobs jobs/status",
            "READ @ extensions @ daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses \
             ingresses/status networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale",
            "READ @ policy @ poddisruptionbudgets poddisruptionbudgets/status",
            "READ @ networking.k8s.io @ ingresses ingresses/status networkpolicies",
            "READ @ resource.k8s.io @ resourceclaims resourceclaims/status resourceclaimtemplates",
        ],
    ),
];

/// Which role gathers what; each holds all that the one before it holds.
const AGGREGATED: &[&str] = &["view", "edit", "admin"];

/// Bindings: name, kind and name of each subject.
const BINDINGS: &[(&str, &[(&str, &str)])] = &[
    ("cluster-admin", &[("Group", "system:masters")]),
    ("system:discovery", &[("Group", "system:authenticated")]),
    ("system:basic-user", &[("Group", "system:authenticated")]),
    (
        "system:public-info-viewer",
        &[("Group", "system:authenticated"), ("Group", "system:unauthenticated")],
    ),
    ("system:monitoring", &[("Group", "system:monitoring")]),
    (
        "system:service-account-issuer-discovery",
        &[("Group", "system:serviceaccounts")],
    ),
    (
        "system:kube-controller-manager",
        &[("User", "system:kube-controller-manager")],
    ),
];

/// The single rights of rules: how they are put together does not matter.
fn rights(rules: &Value) -> BTreeSet<String> {
    let list = |rule: &Value, key: &str| -> Vec<String> {
        let items = rule[key].as_array().cloned().unwrap_or_default();
        items
            .iter()
            .map(|it| it.as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let mut all = BTreeSet::new();
    for rule in rules.as_array().cloned().unwrap_or_default() {
        let mut names = list(&rule, "resourceNames");
        if names.is_empty() {
            names.push(String::new());
        }
        for verb in list(&rule, "verbs") {
            all.extend(list(&rule, "nonResourceURLs").iter().map(|it| format!("{verb} {it}")));
            for group in list(&rule, "apiGroups") {
                for resource in list(&rule, "resources") {
                    all.extend(names.iter().map(|it| format!("{verb} {group}!{resource}:{it}")));
                }
            }
        }
    }
    all
}

/// The rules of a row, as objects have them.
fn rules(row: &[&str]) -> Value {
    let words = |text: &str| -> Vec<String> {
        let text = text.replace("READ", READ).replace("WRITE", WRITE);
        let words = text.split_whitespace();
        words.map(|it| if it == "core" { "" } else { it }.to_owned()).collect()
    };
    row.iter()
        .map(|rule| match rule.split('@').map(words).collect::<Vec<_>>().as_slice() {
            [verbs, paths] => json!({"verbs": verbs, "nonResourceURLs": paths}),
            [verbs, groups, resources] => json!({"verbs": verbs, "apiGroups": groups, "resources": resources}),
            [verbs, groups, resources, names] => {
                json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names})
            }
            other => panic!("no rule: {other:?}"),
        })
        .collect()
}

fn is_of_bootstrap(object: &Value) -> bool {
    let metadata = &object["metadata"];
    metadata["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
        && metadata["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] == "true"
}

fn said(rights: &BTreeSet<String>) -> String {
    rights.iter().take(8).cloned().collect::<Vec<_>>().join(", ")
}

async fn bootstrap_roles(c: Cx) {
    let mut wrong = Vec::new();
    let read = async |path: String| c.get(&format!("{RBAC}/{path}")).await.is(200).json;
    for (name, row) in ROLES {
        let role = read(format!("clusterroles/{}", name.replace(':', "%3A"))).await;
        let (wanted, came) = (rights(&rules(row)), rights(&role["rules"]));
        let missing: BTreeSet<String> = wanted.difference(&came).cloned().collect();
        let more: BTreeSet<String> = came.difference(&wanted).cloned().collect();
        if !is_of_bootstrap(&role) {
            wrong.push(format!("{name}: {}", role["metadata"]));
        }
        if !missing.is_empty() || !more.is_empty() {
            wrong.push(format!(
                "{name}: lacks [{}], has also [{}]",
                said(&missing),
                said(&more)
            ));
        }
    }
    let mut held = BTreeSet::new();
    for name in AGGREGATED {
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{name}");
        let part = ROLES.iter().find(|it| it.0 == format!("system:aggregate-to-{name}"));
        held.extend(rights(&rules(part.expect("a row").1)));
        let part = read(format!("clusterroles/system:aggregate-to-{name}")).await;
        assert_eq!(part["metadata"]["labels"][&label], "true");
        let role = read(format!("clusterroles/{name}")).await;
        assert!(is_of_bootstrap(&role), "{role}");
        assert_eq!(
            role["aggregationRule"],
            json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]})
        );
        let came = rights(&role["rules"]);
        let missing: BTreeSet<String> = held.difference(&came).cloned().collect();
        if !missing.is_empty() {
            wrong.push(format!("{name}: lacks [{}]", said(&missing)));
        }
        // Other checks have rules of theirs gathered in meanwhile, and none of these.
        for (secret, first) in [("!secrets:", "edit"), ("rbac.authorization.k8s.io!roles:", "admin")] {
            let expected = held.iter().any(|it| it.contains(secret));
            let shown = came.iter().any(|it| it.contains(secret));
            if expected != shown {
                wrong.push(format!("{name}: {secret} is {shown}; {first} is the first to have it"));
            }
        }
    }
    for (name, subjects) in BINDINGS {
        let binding = read(format!("clusterrolebindings/{name}")).await;
        let wanted: Value = subjects
            .iter()
            .map(|(kind, name)| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}))
            .collect();
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        if !is_of_bootstrap(&binding) || binding["subjects"] != wanted || binding["roleRef"] != role {
            wrong.push(format!("{name}: {binding}"));
        }
    }
    let system = "namespaces/kube-system";
    let reader = "extension-apiserver-authentication-reader";
    let role = read(format!("{system}/roles/{reader}")).await;
    let wanted = ["READ @ core @ configmaps @ extension-apiserver-authentication"];
    assert!(is_of_bootstrap(&role), "{role}");
    assert_eq!(rights(&role["rules"]), rights(&rules(&wanted)));
    let binding = read(format!("{system}/rolebindings/system::{reader}")).await;
    assert!(is_of_bootstrap(&binding), "{binding}");
    assert_eq!(
        binding["roleRef"],
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": reader})
    );
    let manager =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-controller-manager"});
    assert!(binding["subjects"].as_array().unwrap().contains(&manager), "{binding}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if c.is_embedded() {
        come_back(&c).await;
    }
}

/// A start brings back what is missing and keeps what was added.
async fn come_back(c: &Cx) {
    let (own, c) = c.own_server().await;
    let gone = [
        "clusterroles/system:discovery",
        "clusterroles/view",
        "clusterrolebindings/system:discovery",
        "clusterrolebindings/cluster-admin",
        "namespaces/kube-system/roles/extension-apiserver-authentication-reader",
        "namespaces/kube-system/rolebindings/system::extension-apiserver-authentication-reader",
    ];
    let mut before = Vec::new();
    for path in gone {
        before.push(c.get(&format!("{RBAC}/{path}")).await.is(200));
        c.delete(&format!("{RBAC}/{path}")).await.is(200);
    }
    let own_rule = json!({"apiGroups": ["ex.io"], "resources": ["things"], "verbs": ["get"]});
    let changed = format!("{RBAC}/clusterroles/system:basic-user");
    c.merge(&changed, json!({"rules": [own_rule]})).await.is(200);
    let held = format!("{RBAC}/clusterroles/system:auth-delegator");
    let not_updated =
        json!({"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}, "rules": []});
    c.merge(&held, not_updated).await.is(200);
    let own = own.restart().await;
    let c = Cx::new(&own.target, "181", "again");
    for (path, before) in gone.iter().zip(before) {
        let after = c.get(&format!("{RBAC}/{path}")).await.is(200);
        for key in ["rules", "subjects", "roleRef", "aggregationRule"] {
            assert_eq!(after[key], before[key], "{path}");
        }
    }
    let rules = c.get(&changed).await.is(200)["rules"].clone();
    assert!(rules.as_array().unwrap().contains(&own_rule), "{rules}");
    assert!(
        rights(&rules).contains("create authentication.k8s.io!selfsubjectreviews:"),
        "{rules}"
    );
    let rules = c.get(&held).await.is(200)["rules"].clone();
    assert!(rights(&rules).is_empty(), "{rules}");
    own.stop().await;
}

async fn delegation(c: Cx) {
    let map = c
        .get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
        .await
        .is(200);
    for key in [
        "client-ca-file",
        "requestheader-client-ca-file",
        "requestheader-allowed-names",
        "requestheader-username-headers",
        "requestheader-group-headers",
        "requestheader-extra-headers-prefix",
    ] {
        assert!(
            map["data"][key].as_str().is_some_and(|it| !it.is_empty()),
            "no {key}: {}",
            map.came()
        );
    }
    assert!(
        map["data"]["client-ca-file"]
            .as_str()
            .unwrap()
            .contains("BEGIN CERTIFICATE")
    );
    assert_eq!(map["data"]["requestheader-username-headers"], "[\"X-Remote-User\"]");
}
