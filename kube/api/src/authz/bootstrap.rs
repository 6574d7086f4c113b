//! The roles and bindings that every Kubernetes API server has from its first start, as data.

use serde_json::{Value, json};

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";

fn words(text: &str) -> Vec<&str> {
    // `core` stands for the group whose name is empty.
    text.split_whitespace()
        .map(|it| if it == "core" { "" } else { it })
        .collect()
}

fn rule(verbs: &str, groups: &str, resources: &str) -> Value {
    json!({"verbs": words(verbs), "apiGroups": words(groups), "resources": words(resources)})
}

fn named(verbs: &str, group: &str, resources: &str, names: &str) -> Value {
    let mut rule = rule(verbs, group, resources);
    rule["resourceNames"] = words(names).into();
    rule
}

fn urls(paths: &str) -> Value {
    json!({"verbs": ["get"], "nonResourceURLs": words(paths)})
}

fn metadata(name: &str, namespace: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    });
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    metadata
}

const API: &str = "rbac.authorization.k8s.io/v1";

fn cluster_role(name: &str, rules: Vec<Value>) -> Value {
    json!({"apiVersion": API, "kind": "ClusterRole", "metadata": metadata(name, ""), "rules": rules})
}

fn labelled(mut role: Value, into: &str) -> Value {
    role["metadata"]["labels"][format!("rbac.authorization.k8s.io/aggregate-to-{into}")] = "true".into();
    role
}

/// A role that gathers the rules of all roles labelled for it. It starts with what they hold now, so that it is
/// right before the aggregation controller first runs.
fn aggregate(name: &str, rules: Vec<Value>) -> Value {
    let mut role = cluster_role(name, rules);
    let label = format!("rbac.authorization.k8s.io/aggregate-to-{name}");
    role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
    role
}

fn binding(name: &str, role: &str, subjects: &[(&str, &str)]) -> Value {
    let subjects: Vec<Value> = subjects
        .iter()
        .map(|(kind, name)| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}))
        .collect();
    json!({
        "apiVersion": API, "kind": "ClusterRoleBinding", "metadata": metadata(name, ""), "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
    })
}

const HEALTH: &str = "/healthz /livez /readyz /version /version/";

fn view() -> Vec<Value> {
    vec![
        rule(
            READ,
            "core",
            "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers \
             replicationcontrollers/scale serviceaccounts services services/status",
        ),
        rule(
            READ,
            "core",
            "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status \
             resourcequotas resourcequotas/status",
        ),
        rule(READ, "core", "namespaces"),
        rule(READ, "core events.k8s.io", "events"),
        rule(READ, "discovery.k8s.io", "endpointslices"),
        rule(
            READ,
            "apps",
            "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status \
             replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
        ),
        rule(
            READ,
            "autoscaling",
            "horizontalpodautoscalers horizontalpodautoscalers/status",
        ),
        rule(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
        rule(
            READ,
            "extensions",
            "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status \
             networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale",
        ),
        rule(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
        rule(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
        rule(
            READ,
            "resource.k8s.io",
            "resourceclaims resourceclaims/status resourceclaimtemplates",
        ),
    ]
}

fn edit() -> Vec<Value> {
    vec![
        rule(
            READ,
            "core",
            "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy",
        ),
        rule("impersonate", "core", "serviceaccounts"),
        rule(WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
        rule("create", "core", "pods/eviction"),
        rule(
            WRITE,
            "core",
            "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets \
             serviceaccounts services services/proxy",
        ),
        rule(WRITE, "core events.k8s.io", "events"),
        rule("create", "core", "serviceaccounts/token"),
        rule(
            WRITE,
            "apps",
            "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets \
             statefulsets/scale",
        ),
        rule(WRITE, "autoscaling", "horizontalpodautoscalers"),
        rule(WRITE, "batch", "cronjobs jobs"),
        rule(
            WRITE,
            "extensions",
            "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets \
             replicasets/scale replicationcontrollers/scale",
        ),
        rule(WRITE, "policy", "poddisruptionbudgets"),
        rule(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
        rule(
            "create delete deletecollection get list patch update watch",
            "coordination.k8s.io",
            "leases",
        ),
        rule(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
    ]
}

fn admin() -> Vec<Value> {
    vec![
        rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
        rule(
            "create delete deletecollection get list patch update watch",
            "rbac.authorization.k8s.io",
            "rolebindings roles",
        ),
    ]
}

fn cluster_roles() -> Vec<Value> {
    let joined = |parts: &[Vec<Value>]| parts.concat();
    let approver = |name: &str, signer: &str| {
        let name = format!("system:certificates.k8s.io:{name}");
        cluster_role(&name, vec![named("approve", "certificates.k8s.io", "signers", signer)])
    };
    let client = |subresource: &str| {
        let name = format!("system:certificates.k8s.io:certificatesigningrequests:{subresource}");
        let resource = format!("certificatesigningrequests/{subresource}");
        cluster_role(&name, vec![rule("create", "certificates.k8s.io", &resource)])
    };
    let everything = vec![rule("*", "*", "*"), json!({"verbs": ["*"], "nonResourceURLs": ["*"]})];
    vec![
        cluster_role("cluster-admin", everything),
        cluster_role(
            "system:discovery",
            vec![urls(
                "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/",
            )],
        ),
        cluster_role("system:public-info-viewer", vec![urls(HEALTH)]),
        cluster_role(
            "system:monitoring",
            vec![
                urls("/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz /flagz"),
                rule("get", "core", "nodes/metrics"),
            ],
        ),
        cluster_role(
            "system:basic-user",
            vec![
                rule(
                    "create",
                    "authorization.k8s.io",
                    "selfsubjectaccessreviews selfsubjectrulesreviews",
                ),
                rule("create", "authentication.k8s.io", "selfsubjectreviews"),
            ],
        ),
        cluster_role(
            "system:service-account-issuer-discovery",
            vec![urls(
                "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
            )],
        ),
        cluster_role(
            "system:auth-delegator",
            vec![
                rule("create", "authentication.k8s.io", "tokenreviews"),
                rule("create", "authorization.k8s.io", "subjectaccessreviews"),
            ],
        ),
        cluster_role(
            "system:node-bootstrapper",
            vec![rule(
                "create get list watch",
                "certificates.k8s.io",
                "certificatesigningrequests",
            )],
        ),
        client("nodeclient"),
        client("selfnodeclient"),
        approver("kube-apiserver-client-approver", "kubernetes.io/kube-apiserver-client"),
        approver(
            "kube-apiserver-client-kubelet-approver",
            "kubernetes.io/kube-apiserver-client-kubelet",
        ),
        approver("kubelet-serving-approver", "kubernetes.io/kubelet-serving"),
        approver("legacy-unknown-approver", "kubernetes.io/legacy-unknown"),
        cluster_role(
            "system:kube-controller-manager",
            vec![
                rule("create patch update", "core events.k8s.io", "events"),
                rule("create", "coordination.k8s.io", "leases"),
                named("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
                rule("create", "core", "secrets serviceaccounts"),
                rule("delete", "core", "secrets"),
                rule("get", "core", "configmaps namespaces secrets serviceaccounts"),
                rule("update", "core", "secrets serviceaccounts"),
                rule("create", "authentication.k8s.io", "tokenreviews"),
                rule("create", "authorization.k8s.io", "subjectaccessreviews"),
                rule("list watch", "*", "*"),
                rule("create", "core", "serviceaccounts/token"),
            ],
        ),
        aggregate("admin", joined(&[admin(), edit(), view()])),
        labelled(aggregate("edit", joined(&[edit(), view()])), "admin"),
        labelled(aggregate("view", view()), "edit"),
        labelled(cluster_role("system:aggregate-to-admin", admin()), "admin"),
        labelled(cluster_role("system:aggregate-to-edit", edit()), "edit"),
        labelled(cluster_role("system:aggregate-to-view", view()), "view"),
    ]
}

fn cluster_role_bindings() -> Vec<Value> {
    const AUTHENTICATED: (&str, &str) = ("Group", "system:authenticated");
    vec![
        binding("cluster-admin", "cluster-admin", &[("Group", "system:masters")]),
        binding("system:discovery", "system:discovery", &[AUTHENTICATED]),
        binding("system:basic-user", "system:basic-user", &[AUTHENTICATED]),
        binding(
            "system:public-info-viewer",
            "system:public-info-viewer",
            &[AUTHENTICATED, ("Group", "system:unauthenticated")],
        ),
        binding(
            "system:monitoring",
            "system:monitoring",
            &[("Group", "system:monitoring")],
        ),
        binding(
            "system:service-account-issuer-discovery",
            "system:service-account-issuer-discovery",
            &[("Group", "system:serviceaccounts")],
        ),
        binding(
            "system:kube-controller-manager",
            "system:kube-controller-manager",
            &[("User", "system:kube-controller-manager")],
        ),
    ]
}

/// Every bootstrap ClusterRole, ClusterRoleBinding, Role and RoleBinding, in the order to create them. At start, those
/// that exist get the rules and subjects that they lack, unless their `autoupdate` annotation says `false`.
pub fn policy() -> Vec<Value> {
    let reader = "extension-apiserver-authentication-reader";
    let group = "rbac.authorization.k8s.io";
    let mut all = cluster_roles();
    all.extend(cluster_role_bindings());
    all.push(json!({
        "apiVersion": API, "kind": "Role", "metadata": metadata(reader, "kube-system"),
        "rules": [named(READ, "core", "configmaps", "extension-apiserver-authentication")],
    }));
    all.push(json!({
        "apiVersion": API, "kind": "RoleBinding",
        "metadata": metadata("system::extension-apiserver-authentication-reader", "kube-system"),
        "subjects": [
            {"apiGroup": group, "kind": "User", "name": "system:kube-controller-manager"},
            {"apiGroup": group, "kind": "User", "name": "system:kube-scheduler"},
        ],
        "roleRef": {"apiGroup": group, "kind": "Role", "name": reader},
    }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::rule::{missing, rules_of};

    fn find(name: &str) -> Value {
        cluster_roles()
            .into_iter()
            .find(|it| it["metadata"]["name"] == name)
            .expect(name)
    }

    #[test]
    fn view_reads_no_secrets_and_no_roles() {
        for rule in rules_of(&find("view")) {
            assert!(
                !rule.resources.iter().any(|it| it == "secrets" || it == "*"),
                "{rule:?}"
            );
            assert!(
                !rule
                    .api_groups
                    .iter()
                    .any(|it| it == "rbac.authorization.k8s.io" || it == "*"),
                "{rule:?}"
            );
        }
    }

    #[test]
    fn admin_holds_edit_and_edit_holds_view() {
        let [admin, edit, view] = ["admin", "edit", "view"].map(|it| rules_of(&find(it)));
        assert_eq!(missing(&admin, &edit), []);
        assert_eq!(missing(&edit, &view), []);
    }

    #[test]
    fn every_binding_names_a_role_that_exists() {
        let all = policy();
        let named = |kind: &str, name: &str| {
            all.iter()
                .any(|it| it["kind"] == kind && it["metadata"]["name"] == name)
        };
        for it in all.iter().filter(|it| it.get("roleRef").is_some()) {
            let role = &it["roleRef"];
            assert!(
                named(role["kind"].as_str().unwrap(), role["name"].as_str().unwrap()),
                "{it}"
            );
        }
    }
}
