//! What somebody may do: RBAC, its words, escalation, aggregation, reviews, and what every cluster has.

use crate::{
    check::{Check, must},
    client::Ask,
    cx::{Cx, RBAC},
};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![
        must("176", "RBAC: verbs, stars, subresources, names and paths", rbac),
        must("177", "the words of a 403", forbidden),
        must(
            "178",
            "nobody grants what they do not hold, unless they may escalate or bind",
            escalation,
        ),
        must("179", "aggregated ClusterRoles follow within a second", aggregation),
        must("180", "access reviews answer and refuse as Kubernetes'", reviews),
        must(
            "181",
            "the roles and bindings that every cluster has exist, and come back at a start",
            bootstrap_roles,
        ),
        must("182", "extension-apiserver-authentication has its six keys", delegation),
    ]
}

async fn may(c: &Cx, ask: Ask, user: &str) -> bool {
    let reply = c.send(ask.user(user, &[])).await;
    if reply.code == 403 {
        return false;
    }
    assert!(matches!(reply.code, 200..=299 | 404 | 409), "{}", reply.came());
    true
}

async fn rbac(c: Cx) {
    let namespace = c.namespace().await;
    let user = c.name("user");
    let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user});
    let core = format!("/api/v1/namespaces/{namespace}");
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]},
        {"apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["get"]},
        {"apiGroups": ["batch"], "resources": ["*"], "verbs": ["get"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update", "patch"]},
    ]);
    c.grant(&namespace, "r", rules, subject.clone()).await;
    c.until_asked(
        &c.admin,
        &Ask::get(format!("{core}/configmaps")).user(&user, &[]),
        |it| it.code == 200,
    )
    .await;
    let apps = format!("/apis/apps/v1/namespaces/{namespace}");
    for (ask, allowed) in [
        (Ask::get(format!("{core}/configmaps")), true),
        (Ask::get(format!("{core}/configmaps/x")), true),
        (Ask::get(format!("{core}/configmaps?watch=1&timeoutSeconds=1")), false),
        (Ask::delete(format!("{core}/configmaps/x")), false),
        (Ask::delete(format!("{core}/configmaps")), false),
        (Ask::get("/api/v1/namespaces/default/configmaps"), false),
        (Ask::get("/api/v1/configmaps"), false),
        (Ask::get(format!("{core}/secrets/one")), true),
        (Ask::get(format!("{core}/secrets/two")), false),
        (Ask::get(format!("{core}/secrets")), false),
        (
            Ask::get(format!("{core}/secrets?fieldSelector=metadata.name%3Done")),
            true,
        ),
        (
            Ask::get(format!("{core}/secrets?fieldSelector=metadata.name%3Dtwo")),
            false,
        ),
        (Ask::delete(format!("{apps}/deployments/x")), true),
        (Ask::get(format!("{apps}/deployments/x/status")), false),
        (Ask::get(format!("{apps}/deployments/x/scale")), true),
        (Ask::get(format!("{apps}/statefulsets/x/scale")), true),
        (Ask::get(format!("{apps}/statefulsets/x")), false),
        (
            Ask::get(format!("/apis/batch/v1/namespaces/{namespace}/jobs/x/status")),
            true,
        ),
    ] {
        let what = ask.what();
        assert_eq!(may(&c, ask, &user).await, allowed, "{what}");
    }
    // Who makes an object by writing to where it is not has to be allowed to create it.
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/one");
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "one"}});
    let applied = format!("{path}?fieldManager=somebody");
    for ask in [
        Ask::patch("application/apply-patch+yaml", &applied, &lease),
        Ask::put(&path, &lease),
    ] {
        let reply = c.send(ask.user(&user, &[])).await.fails(403, "Forbidden");
        reply.mentions("cannot create resource \"leases\" in API group \"coordination.k8s.io\" in the namespace");
    }
    let paths = json!([{"nonResourceURLs": ["/metrics", "/logs/*"], "verbs": ["get"]}]);
    assert!(!may(&c, Ask::get("/metrics"), &user).await);
    c.grant("", "paths", paths, subject).await;
    c.until_asked(&c.admin, &Ask::get("/metrics").user(&user, &[]), |it| it.code == 200)
        .await;
    assert!(may(&c, Ask::get("/logs/there-is-none"), &user).await);
    assert!(!may(&c, Ask::get("/metrics/slis"), &user).await);
    c.post(
        &format!("{RBAC}/clusterrolebindings"),
        json!({"metadata": {"name": c.name("bad")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Foo", "name": "x"}}),
    )
    .await
    .fails(422, "Invalid")
    .mentions("roleRef.kind: Unsupported value: \"Foo\"");
    c.post(
        &format!("{RBAC}/clusterroles"),
        json!({"metadata": {"name": c.name("bad")}, "rules": [{"apiGroups": [""], "resources": ["pods"]}]}),
    )
    .await
    .fails(422, "Invalid")
    .mentions("rules[0].verbs: Required value: verbs must contain at least one value");
}

async fn forbidden(c: Cx) {
    for (ask, message) in [
        (
            Ask::get("/api/v1/namespaces/default/pods/x"),
            "pods \"x\" is forbidden: User \"alice\" cannot get resource \"pods\" in API group \"\" in the namespace \"default\"",
        ),
        (
            Ask::get("/api/v1/pods"),
            "pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" at the cluster scope",
        ),
        (
            Ask::get("/apis/apps/v1/namespaces/default/deployments/foo/status"),
            "deployments.apps \"foo\" is forbidden: User \"alice\" cannot get resource \"deployments/status\" in API group \"apps\" in the namespace \"default\"",
        ),
        (
            Ask::get("/api/v1/nodes/n"),
            "nodes \"n\" is forbidden: User \"alice\" cannot get resource \"nodes\" in API group \"\" at the cluster scope",
        ),
        (
            Ask::get("/api/v1/namespaces/default/configmaps?watch=1"),
            "configmaps is forbidden: User \"alice\" cannot watch resource \"configmaps\" in API group \"\" in the namespace \"default\"",
        ),
        (
            Ask::get("/metrics"),
            "forbidden: User \"alice\" cannot get path \"/metrics\"",
        ),
    ] {
        c.send(ask.user("alice", &[]))
            .await
            .fails(403, "Forbidden")
            .says(message);
    }
    let ask = Ask::get("/api/v1/namespaces/default/pods/x").user("alice", &[]);
    c.send(ask).await.has("/details/kind", "pods").has("/details/name", "x");
}

async fn escalation(c: Cx) {
    let namespace = c.namespace().await;
    let user = c.name("user");
    let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user});
    let roles = format!("{RBAC}/namespaces/{namespace}/roles");
    let bindings = format!("{RBAC}/namespaces/{namespace}/rolebindings");
    let writes = |verbs: &[&str]| json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": verbs}]);
    c.grant(&namespace, "w", writes(&["create", "update", "get"]), subject.clone())
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
        .fails(404, "NotFound");
    c.grant(&namespace, "e", writes(&["escalate", "bind"]), subject).await;
    c.until_asked(&c.admin, &Ask::post(&roles, &role("r")).user(&user, &[]), |it| {
        it.code == 201
    })
    .await;
    c.send(Ask::post(&bindings, &binding("b", "given")).user(&user, &[]))
        .await
        .is(201);
}

async fn aggregation(c: Cx) {
    let label = json!({format!("{}/agg", c.group()): "true"});
    let roles = format!("{RBAC}/clusterroles");
    let whole = c.name("whole");
    c.make(&roles, json!({"metadata": {"name": whole}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": label}]}, "rules": []})).await;
    let rule = json!({"apiGroups": ["ex.io"], "resources": ["things"], "verbs": ["get"]});
    c.make(
        &roles,
        json!({"metadata": {"name": c.name("part"), "labels": label}, "rules": [rule]}),
    )
    .await;
    let (reply, took) = c
        .until(&format!("{roles}/{whole}"), |it| it["rules"] == json!([rule]))
        .await;
    assert!(took.as_secs() < 5, "after {took:?}");
    let fields = reply["metadata"]["managedFields"].to_string();
    assert!(fields.contains("clusterrole-aggregation-controller"), "{fields}");
    c.delete(&format!("{roles}/{}", c.name("part"))).await.is(200);
    c.until(&format!("{roles}/{whole}"), |it| {
        it["rules"].as_array().is_none_or(Vec::is_empty)
    })
    .await;
    let name = c.name("ocm");
    let ocm = json!({"apiGroups": [format!("{name}.open-cluster-management.io")], "resources": ["managedclusters"], "verbs": ["get"]});
    c.make(&roles, json!({"metadata": {"name": name, "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}, "rules": [ocm]})).await;
    for role in ["view", "edit", "admin"] {
        c.until(&format!("{roles}/{role}"), |it| {
            it["rules"].as_array().is_some_and(|it| it.contains(&ocm))
        })
        .await;
    }
    let view = c.get(&format!("{roles}/view")).await.is(200);
    let secrets = view["rules"]
        .as_array()
        .unwrap()
        .iter()
        .any(|it| it["resources"].to_string().contains("\"secrets\""));
    assert!(!secrets, "view does not show secrets");
}

/// A question that is misspelt is not answered as if it had been another one.
async fn misspelt_reviews(c: &Cx) {
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let spec = |more: Value| {
        let mut spec = json!({"user": "root", "nonResourceAttributes": {"path": "/x", "verb": "get"}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
    };
    c.post(path, spec(json!({"group": ["system:masters"]})))
        .await
        .is(201)
        .has("/status/allowed", false)
        .warns("unknown field \"spec.group\"")
        .lacks("/spec/group");
    c.post(
        &format!("{path}?fieldValidation=Strict"),
        spec(json!({"group": ["system:masters"]})),
    )
    .await
    .fails(400, "BadRequest")
    .mentions("strict decoding error: unknown field \"spec.group\"");
    c.post(path, spec(json!({"groups": "system:masters"})))
        .await
        .fails(400, "BadRequest")
        .mentions("SubjectAccessReview in version \"v1\" cannot be handled as a SubjectAccessReview");
    c.post(
        path,
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {}}),
    )
    .await
    .fails(400, "BadRequest");
    let token = format!(
        "/api/v1/namespaces/{}/serviceaccounts/default/token",
        c.namespace_called("tokens").await
    );
    c.post(&token, json!({"spec": {"audiences": "a"}}))
        .await
        .fails(400, "BadRequest")
        .mentions("TokenRequest in version \"v1\" cannot be handled as a TokenRequest");
}

async fn reviews(c: Cx) {
    misspelt_reviews(&c).await;
    let namespace = c.namespace().await;
    let user = c.name("user");
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    c.grant(
        &namespace,
        "r",
        rules,
        json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}),
    )
    .await;
    let group = "/apis/authorization.k8s.io/v1";
    let attributes = json!({"namespace": namespace, "verb": "get", "resource": "configmaps", "name": "x"});
    let subject = json!({"spec": {"user": user, "resourceAttributes": attributes}});
    let ask = Ask::post(format!("{group}/subjectaccessreviews"), &subject);
    let (allowed, _) = c
        .until_asked(&c.admin, &ask, |it| it.at("/status/allowed") == &json!(true))
        .await;
    let name = c.name("r");
    assert_eq!(
        allowed.at("/status/reason"),
        &json!(format!(
            "RBAC: allowed by RoleBinding \"{name}/{namespace}\" of Role \"{name}\" to User \"{user}\""
        ))
    );
    let mut denied = subject.clone();
    denied["spec"]["resourceAttributes"]["verb"] = "delete".into();
    c.post(&format!("{group}/subjectaccessreviews"), denied)
        .await
        .is(201)
        .has("/status/allowed", false);
    let masters = json!({"spec": {"user": "root", "groups": ["system:masters"], "nonResourceAttributes": {"path": "/x", "verb": "get"}}});
    c.post(&format!("{group}/subjectaccessreviews"), masters)
        .await
        .is(201)
        .has("/status/allowed", true);
    let own = Ask::post(
        format!("{group}/selfsubjectaccessreviews"),
        &json!({"spec": {"resourceAttributes": attributes}}),
    );
    c.send(own.user(&user, &[])).await.is(201).has("/status/allowed", true);
    let local = format!("{group}/namespaces/{namespace}/localsubjectaccessreviews");
    c.post(
        &local,
        json!({"metadata": {"namespace": namespace}, "spec": {"user": user, "resourceAttributes": attributes}}),
    )
    .await
    .is(201)
    .has("/status/allowed", true);
    let mut elsewhere = attributes.clone();
    elsewhere["namespace"] = "default".into();
    let reply = c
        .post(&local, json!({"spec": {"user": user, "resourceAttributes": elsewhere}}))
        .await;
    assert!(matches!(reply.code, 400 | 422), "{}", reply.came());
    let rules = Ask::post(
        format!("{group}/selfsubjectrulesreviews"),
        &json!({"spec": {"namespace": namespace}}),
    );
    let reply = c
        .send(rules.user(&user, &[]))
        .await
        .is(201)
        .has("/status/incomplete", false);
    assert!(
        reply.at("/status/resourceRules").to_string().contains("configmaps"),
        "{}",
        reply.came()
    );
    c.post(&format!("{group}/selfsubjectrulesreviews"), json!({"spec": {}}))
        .await
        .fails(400, "BadRequest")
        .mentions("no namespace on request");
    c.post(
        &format!("{group}/subjectaccessreviews"),
        json!({"spec": {"user": user}}),
    )
    .await
    .fails(422, "Invalid")
    .mentions("exactly one of nonResourceAttributes or resourceAttributes must be specified");
    c.post(
        &format!("{group}/subjectaccessreviews"),
        json!({"spec": {"resourceAttributes": attributes}}),
    )
    .await
    .fails(422, "Invalid");
}

const BOOTSTRAP: &[&str] = &[
    "admin",
    "cluster-admin",
    "edit",
    "view",
    "system:aggregate-to-admin",
    "system:aggregate-to-edit",
    "system:aggregate-to-view",
    "system:auth-delegator",
    "system:basic-user",
    "system:discovery",
    "system:public-info-viewer",
    "system:service-account-issuer-discovery",
];

async fn bootstrap_roles(c: Cx) {
    for role in BOOTSTRAP {
        let reply = c
            .get(&format!("{RBAC}/clusterroles/{}", role.replace(':', "%3A")))
            .await
            .is(200);
        assert_eq!(
            reply["metadata"]["labels"]["kubernetes.io/bootstrapping"], "rbac-defaults",
            "{role}"
        );
        assert_eq!(
            reply["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"], "true",
            "{role}"
        );
    }
    for role in ["view", "edit", "admin"] {
        let reply = c.get(&format!("{RBAC}/clusterroles/{role}")).await.is(200);
        let rules = reply["rules"].as_array().expect("rules");
        let reads = |it: &serde_json::Value| {
            let has = |list: &str, word: &str| it[list].as_array().is_some_and(|it| it.contains(&json!(word)));
            has("apiGroups", "events.k8s.io") && has("resources", "events") && has("verbs", "list")
        };
        assert!(rules.iter().any(reads), "{role} does not list events of both groups");
    }
    for (binding, group) in [
        ("cluster-admin", "system:masters"),
        ("system:discovery", "system:authenticated"),
        ("system:basic-user", "system:authenticated"),
        ("system:public-info-viewer", "system:unauthenticated"),
    ] {
        let reply = c.get(&format!("{RBAC}/clusterrolebindings/{binding}")).await.is(200);
        assert!(
            reply["subjects"].to_string().contains(&format!("\"{group}\"")),
            "{}",
            reply.came()
        );
    }
    c.get(&format!(
        "{RBAC}/namespaces/kube-system/roles/extension-apiserver-authentication-reader"
    ))
    .await
    .is(200);
    c.get(&format!(
        "{RBAC}/namespaces/kube-system/rolebindings/system::extension-apiserver-authentication-reader"
    ))
    .await;
    if std::env::var_os("DROVER_TEST_CLUSTER").is_some() {
        return;
    }
    let (own, c) = c.own_server().await;
    c.delete(&format!("{RBAC}/clusterroles/system:discovery")).await.is(200);
    c.delete(&format!("{RBAC}/clusterrolebindings/system:discovery"))
        .await
        .is(200);
    let own = own.restart().await;
    let c = Cx::new(&own.target, "181", "again");
    c.get(&format!("{RBAC}/clusterroles/system:discovery")).await.is(200);
    c.get(&format!("{RBAC}/clusterrolebindings/system:discovery"))
        .await
        .is(200);
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
