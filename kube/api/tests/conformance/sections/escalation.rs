//! Nobody hands out rights that they do not hold.

use crate::{
    check::{Check, must},
    client::Ask,
    cx::{Cx, RBAC},
};
use serde_json::json;

pub fn checks() -> Vec<Check> {
    vec![must(
        "178",
        "nobody grants what they do not hold, unless they may escalate or bind; only who holds all may aggregate",
        escalation,
    )]
}

async fn escalation(c: Cx) {
    let namespace = c.namespace().await;
    let user = c.name("user");
    let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user});
    let roles = format!("{RBAC}/namespaces/{namespace}/roles");
    let bindings = format!("{RBAC}/namespaces/{namespace}/rolebindings");
    let writes = |verbs: &[&str]| json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": verbs}]);
    c.grant(
        &namespace,
        "w",
        writes(&["create", "update", "patch", "get"]),
        subject.clone(),
    )
    .await;
    c.until_asked(&c.admin, &Ask::get(format!("{roles}/x")).user(&user, &[]), |it| {
        it.code == 404
    })
    .await;
    let role = |name: &str| json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "delete"]}]});
    c.send(Ask::post(&roles, &role("r")).user(&user, &["devs"]))
        .await
        .fails(403, "Forbidden")
        .says(&format!(
            "roles.rbac.authorization.k8s.io \"r\" is forbidden: user \"{user}\" (groups=[\"devs\" \"system:authenticated\"]) is attempting \
             to grant RBAC permissions not currently held:\n{{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"delete\"]}}"
        ));
    let empty = json!({"metadata": {"name": "own"}, "rules": [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["get"]}]});
    c.send(Ask::post(&roles, &empty).user(&user, &[])).await.is(201);
    c.make(&roles, role("given")).await;
    let binding = |name: &str, role: &str| {
        json!({"metadata": {"name": name}, "subjects": [{"kind": "User", "name": "x"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}})
    };
    c.send(Ask::post(&bindings, &binding("b", "given")).user(&user, &[]))
        .await
        .fails(403, "Forbidden")
        .mentions("is attempting to grant RBAC permissions not currently held");
    c.send(Ask::post(&bindings, &binding("b", "missing")).user(&user, &[]))
        .await
        .fails(404, "NotFound")
        .says("rolebindings.rbac.authorization.k8s.io \"missing\" not found");
    several(&c, &roles, &user).await;
    changed(&c, &roles, &bindings, &user).await;
    c.grant(&namespace, "e", writes(&["escalate", "bind"]), subject).await;
    c.until_asked(&c.admin, &Ask::post(&roles, &role("r")).user(&user, &[]), |it| {
        it.code == 201
    })
    .await;
    c.send(Ask::post(&bindings, &binding("b", "given")).user(&user, &[]))
        .await
        .is(201);
    one_role(&c, &namespace).await;
    whole_cluster(&c).await;
}

/// What is missing is told a line per group and resource, in order.
async fn several(c: &Cx, roles: &str, user: &str) {
    let rules = json!([
        {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["delete"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["one"], "verbs": ["get"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["get", "delete"]},
    ]);
    c.send(Ask::post(roles, &json!({"metadata": {"name": "several"}, "rules": rules})).user(user, &["devs", "g2"]))
        .await
        .fails(403, "Forbidden")
        .says(&format!(
            "roles.rbac.authorization.k8s.io \"several\" is forbidden: user \"{user}\" (groups=[\"devs\" \"g2\" \
             \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
             {{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"delete\"]}}\n\
             {{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"one\"], Verbs:[\"get\"]}}\n\
             {{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"delete\" \"get\"]}}\n\
             {{APIGroups:[\"apps\"], Resources:[\"*\"], Verbs:[\"*\"]}}\n\
             {{APIGroups:[\"rbac.authorization.k8s.io\"], Resources:[\"roles\"], Verbs:[\"delete\"]}}"
        ));
}

/// A change grants as much as a new object does; what grants nothing is free.
async fn changed(c: &Cx, roles: &str, bindings: &str, user: &str) {
    let secrets = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]});
    let own = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["get"]});
    let refused = "is attempting to grant RBAC permissions not currently held:\n\
                   {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"list\"]}";
    let made = c
        .make(roles, json!({"metadata": {"name": "changed"}, "rules": [own]}))
        .await;
    let path = format!("{roles}/changed");
    let mut more = made.json.clone();
    more["rules"] = json!([own, secrets]);
    for ask in [
        Ask::put(&path, &more),
        Ask::patch("merge", &path, &json!({"rules": [own, secrets]})),
        Ask::patch(
            "json",
            &path,
            &json!([{"op": "add", "path": "/rules/-", "value": secrets}]),
        ),
        Ask::patch("apply", format!("{path}?fieldManager=m&force=true"), &{
            let mut applied = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"});
            applied["metadata"] = json!({"name": "changed"});
            applied["rules"] = json!([own, secrets]);
            applied
        }),
    ] {
        c.send(ask.user(user, &[]))
            .await
            .fails(403, "Forbidden")
            .mentions(refused);
    }
    c.get(&path).await.is(200).has("/rules", json!([own]));
    let path = format!("{roles}/larger");
    c.make(roles, json!({"metadata": {"name": "larger"}, "rules": [own, secrets]}))
        .await;
    let label = json!({"metadata": {"labels": {"l": "1"}}});
    c.send(Ask::patch("merge", &path, &label).user(user, &[]))
        .await
        .fails(403, "Forbidden")
        .mentions(refused);
    // The garbage collector has to write these.
    c.send(Ask::patch("merge", &path, &json!({"metadata": {"finalizers": ["ex.io/f"]}})).user(user, &[]))
        .await
        .is(200);
    c.merge(&path, json!({"metadata": {"finalizers": null}})).await.is(200);
    // Whom a binding names is a grant too.
    let binding = json!({"metadata": {"name": "larger"}, "subjects": [{"kind": "User", "name": "x"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "larger"}});
    c.make(bindings, binding).await;
    let mallory = json!({"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
    c.send(Ask::patch("merge", format!("{bindings}/larger"), &mallory).user(user, &[]))
        .await
        .fails(403, "Forbidden")
        .mentions(refused);
}

/// The right to bind can be one on a single role.
async fn one_role(c: &Cx, namespace: &str) {
    let user = c.name("binder");
    let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user});
    let bindings = format!("{RBAC}/namespaces/{namespace}/rolebindings");
    let group = "rbac.authorization.k8s.io";
    for name in ["one", "other"] {
        let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
        c.make(
            &format!("{RBAC}/namespaces/{namespace}/roles"),
            json!({"metadata": {"name": name}, "rules": rules}),
        )
        .await;
    }
    let rules = json!([{"apiGroups": [group], "resources": ["rolebindings"], "verbs": ["create"]},
        {"apiGroups": [group], "resources": ["roles"], "resourceNames": ["one"], "verbs": ["bind"]}]);
    c.grant(namespace, "binder", rules, subject).await;
    let bind = |kind: &str, role: &str| {
        let binding = json!({"metadata": {"name": format!("bound-{role}")}, "subjects": [{"kind": "User", "name": "x"}],
            "roleRef": {"apiGroup": group, "kind": kind, "name": role}});
        Ask::post(&bindings, &binding).user(&user, &[])
    };
    c.until_asked(&c.admin, &bind("Role", "one"), |it| it.code == 201).await;
    let mentioned = "is attempting to grant RBAC permissions not currently held";
    c.send(bind("Role", "other"))
        .await
        .fails(403, "Forbidden")
        .mentions(mentioned);
    c.send(bind("ClusterRole", "cluster-admin"))
        .await
        .fails(403, "Forbidden")
        .mentions(mentioned);
}

/// The same without a namespace, and what would gather any rule later.
async fn whole_cluster(c: &Cx) {
    let user = c.name("cluster");
    let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user});
    let (roles, bindings) = (format!("{RBAC}/clusterroles"), format!("{RBAC}/clusterrolebindings"));
    let writes = |verbs: &[&str]| json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "clusterrolebindings"], "verbs": verbs}]);
    c.grant(
        "",
        "cluster",
        writes(&["create", "update", "patch", "get"]),
        subject.clone(),
    )
    .await;
    let missing = format!("{roles}/{}", c.name("missing"));
    c.until_asked(&c.admin, &Ask::get(missing).user(&user, &[]), |it| it.code == 404)
        .await;
    let held = format!(
        "is forbidden: user \"{user}\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not \
         currently held:\n"
    );
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}, {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    let name = c.name("more");
    let role = json!({"metadata": {"name": name}, "rules": rules});
    c.send(Ask::post(&roles, &role).user(&user, &[]))
        .await
        .fails(403, "Forbidden")
        .says(&format!(
            "clusterroles.rbac.authorization.k8s.io \"{name}\" {held}\
             {{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}}\n\
             {{NonResourceURLs:[\"/metrics\"], Verbs:[\"get\"]}}"
        ));
    let binding = |role: &str| {
        json!({"metadata": {"name": name}, "subjects": [{"kind": "User", "name": user}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
    };
    c.send(Ask::post(&bindings, &binding("cluster-admin")).user(&user, &[]))
        .await
        .fails(403, "Forbidden")
        .says(&format!(
            "clusterrolebindings.rbac.authorization.k8s.io \"{name}\" {held}\
             {{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}}\n{{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}}"
        ));
    c.send(Ask::post(&bindings, &binding("there-is-none")).user(&user, &[]))
        .await
        .fails(404, "NotFound");

    let aggregate = |name: &str| {
        json!({"metadata": {"name": name}, "rules": [],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"there-is-none": name}}]}})
    };
    let refused = |name: &str| {
        format!(
            "clusterroles.rbac.authorization.k8s.io \"{name}\" is forbidden: must have cluster-admin privileges to use the \
             aggregationRule"
        )
    };
    let name = c.name("aggregate");
    c.send(Ask::post(&roles, &aggregate(&name)).user(&user, &[]))
        .await
        .fails(403, "Forbidden")
        .says(&refused(&name));
    c.make(&roles, aggregate(&name)).await;
    let gone = json!({"aggregationRule": null});
    c.send(Ask::patch("merge", format!("{roles}/{name}"), &gone).user(&user, &[]))
        .await
        .fails(403, "Forbidden")
        .says(&refused(&name));
    let plain = c.name("plain");
    c.make(&roles, json!({"metadata": {"name": plain}, "rules": []})).await;
    let gathers = json!({"aggregationRule": aggregate(&plain)["aggregationRule"]});
    c.send(Ask::patch("merge", format!("{roles}/{plain}"), &gathers).user(&user, &[]))
        .await
        .fails(403, "Forbidden")
        .says(&refused(&plain));
    let all =
        json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]);
    c.grant("", "all", all, subject).await;
    let ask = Ask::patch("merge", format!("{roles}/{plain}"), &gathers).user(&user, &[]);
    c.until_asked(&c.admin, &ask, |it| it.code == 200).await;
}
