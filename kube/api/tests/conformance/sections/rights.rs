//! What somebody may do: RBAC, its words, aggregation and reviews.

use crate::{
    check::{Check, must},
    client::{Ask, Reply},
    cx::{Cx, RBAC},
};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "176",
            "RBAC: verbs, stars, subresources, names, paths, and where a binding holds",
            rbac,
        ),
        must("177", "the words of a 403", forbidden),
        must("179", "aggregated ClusterRoles follow within a second", aggregation),
        must("180", "access reviews answer and refuse as Kubernetes'", reviews),
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
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"], "verbs": ["get", "list", "create"]},
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
        (
            Ask::post(format!("{core}/secrets"), &json!({"metadata": {"name": "one"}})),
            false,
        ),
        (Ask::get(format!("{core}/pods/x")), true),
        (Ask::get(format!("{core}/pods/x/log")), false),
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
    bindings(&c, &namespace).await;
    rules_one_by_one(&c).await;
}

/// What one rule allows: `verb [group/]resource[/subresource][:name]`, or `verb /path`.
fn matrix() -> Vec<(Value, &'static [(&'static str, bool)])> {
    let rule = |verbs: &[&str], group: &str, resources: &[&str]| json!({"verbs": verbs, "apiGroups": [group], "resources": resources});
    let mut named = rule(
        &["get", "list", "watch", "create", "delete", "deletecollection"],
        "",
        &["secrets"],
    );
    named["resourceNames"] = json!(["a"]);
    vec![
        (
            rule(&["get"], "", &["pods"]),
            &[
                ("get core/pods:x", true),
                ("list core/pods", false),
                ("get core/pods/log:x", false),
                ("get apps/pods:x", false),
            ],
        ),
        (
            rule(&["get"], "", &["pods/log"]),
            &[
                ("get core/pods/log:x", true),
                ("get core/pods:x", false),
                ("get core/pods/status:x", false),
            ],
        ),
        (
            rule(&["get"], "", &["*"]),
            &[
                ("get core/pods:x", true),
                ("get core/pods/log:x", true),
                ("get apps/deployments:x", false),
                ("get core/nodes:x", true),
            ],
        ),
        (
            rule(&["*"], "apps", &["deployments"]),
            &[
                ("deletecollection apps/deployments", true),
                ("unheard-of apps/deployments:x", true),
                ("get apps/deployments/status:x", false),
            ],
        ),
        (
            rule(&["get"], "*", &["things"]),
            &[
                ("get core/things:x", true),
                ("get ex.io/things:x", true),
                ("get ex.io/others:x", false),
                ("list ex.io/things", false),
            ],
        ),
        (
            rule(&["*"], "*", &["*"]),
            &[
                ("patch apps/deployments/status:x", true),
                ("get /metrics", false),
                ("impersonate core/users:root", true),
            ],
        ),
        (
            rule(&["update"], "apps", &["*/scale"]),
            &[
                ("update apps/deployments/scale:x", true),
                ("update apps/deployments:x", false),
                ("update core/replicationcontrollers/scale:x", false),
            ],
        ),
        (
            rule(&["delete"], "", &["pods"]),
            &[("delete core/pods:x", true), ("deletecollection core/pods", false)],
        ),
        (
            rule(&["deletecollection"], "", &["pods"]),
            &[("deletecollection core/pods", true), ("delete core/pods:x", false)],
        ),
        (
            named,
            &[
                ("get core/secrets:a", true),
                ("get core/secrets:b", false),
                ("get core/secrets", false),
                ("list core/secrets", false),
                ("list core/secrets:a", true),
                ("watch core/secrets:a", true),
                ("create core/secrets", false),
                ("deletecollection core/secrets", false),
                ("delete core/secrets:a", true),
            ],
        ),
        (
            json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/logs/*"]}),
            &[
                ("get /healthz", true),
                ("get /healthz/ping", false),
                ("get /logs/a/b", true),
                ("get /logs", false),
                ("post /healthz", false),
                ("get core/pods:x", false),
            ],
        ),
        (
            json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
            &[
                ("get /healthz", true),
                ("post /any/thing", true),
                ("get core/pods:x", false),
            ],
        ),
    ]
}

/// As a SubjectAccessReview asks it.
fn attributes(asked: &str) -> Value {
    let (verb, what) = asked.split_once(' ').unwrap();
    if what.starts_with('/') {
        return json!({"nonResourceAttributes": {"verb": verb, "path": what}});
    }
    let (what, name) = what.split_once(':').unwrap_or((what, ""));
    let mut parts = what.split('/');
    let mut part = || parts.next().unwrap_or_default();
    let group = part().replace("core", "");
    json!({"resourceAttributes": {"verb": verb, "group": group, "resource": part(), "subresource": part(), "name": name}})
}

/// Whether a user may, in a namespace or, with none, in the whole cluster.
async fn review(c: &Cx, user: &str, asked: &str, namespace: &str) -> Reply {
    let mut spec = attributes(asked);
    if !namespace.is_empty() {
        spec["resourceAttributes"]["namespace"] = namespace.into();
    }
    spec["user"] = user.into();
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    c.post(path, json!({"spec": spec})).await.is(201)
}

async fn rules_one_by_one(c: &Cx) {
    let subject = |user: &str| json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user});
    let matrix = matrix();
    let mut last = String::new();
    for (index, (rule, _)) in matrix.iter().enumerate() {
        last = c.name(&format!("rule{index}"));
        c.grant("", &format!("rule{index}"), json!([rule]), subject(&last))
            .await;
    }
    // Who knows the last one knows those before.
    let known = json!({"spec": {"user": last, "nonResourceAttributes": {"verb": "get", "path": "/healthz"}}});
    let ask = Ask::post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &known);
    c.until_asked(&c.admin, &ask, |it| it.at("/status/allowed") == &json!(true))
        .await;
    let mut wrong = Vec::new();
    for (index, (rule, asks)) in matrix.iter().enumerate() {
        for (asked, wanted) in *asks {
            let came = review(c, &c.name(&format!("rule{index}")), asked, "").await;
            if came.at("/status/allowed") != &json!(wanted) {
                wrong.push(format!("{rule}: {asked} should be {wanted}, came {}", came.came()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Where a binding holds, and for whom.
async fn bindings(c: &Cx, namespace: &str) {
    let role = c.name("shared");
    let rules = json!([{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get"]}, {"nonResourceURLs": ["/shared"], "verbs": ["get"]}]);
    c.make(
        &format!("{RBAC}/clusterroles"),
        json!({"metadata": {"name": role}, "rules": rules}),
    )
    .await;
    let (user, group) = (c.name("bound"), c.name("group"));
    let subjects = json!([
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user},
        {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group},
        {"kind": "ServiceAccount", "name": "robot"},
        {"kind": "ServiceAccount", "name": "robot", "namespace": "elsewhere"},
    ]);
    c.make(
        &format!("{RBAC}/namespaces/{namespace}/rolebindings"),
        json!({"metadata": {"name": "shared"}, "subjects": subjects,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}}),
    )
    .await;
    let known = Ask::get(format!("/api/v1/namespaces/{namespace}/pods/x")).user(&user, &[]);
    c.until_asked(&c.admin, &known, |it| it.code == 404).await;
    // A ClusterRole that is bound in a namespace holds there, and for nothing that is in none.
    for (asked, namespace, wanted) in [
        ("get core/pods:x", namespace, true),
        ("get core/pods:x", "default", false),
        ("get core/pods:x", "", false),
        ("get core/nodes:x", "", false),
    ] {
        let came = review(c, &user, asked, namespace).await;
        assert_eq!(
            came.at("/status/allowed"),
            &json!(wanted),
            "{asked} in {namespace:?}: {}",
            came.came()
        );
    }
    assert!(!may(c, Ask::get("/shared"), &user).await);
    let pod = || Ask::get(format!("/api/v1/namespaces/{namespace}/pods/x"));
    // An account without a namespace is one of the binding's.
    for (user, groups, code) in [
        (format!("system:serviceaccount:{namespace}:robot"), &[][..], 404),
        ("system:serviceaccount:elsewhere:robot".to_owned(), &[], 404),
        ("system:serviceaccount:default:robot".to_owned(), &[], 403),
        (format!("system:serviceaccount:{namespace}:other"), &[], 403),
        ("robot".to_owned(), &[], 403),
        ("anybody".to_owned(), &[group.as_str()], 404),
        (group.clone(), &[], 403),
    ] {
        let came = c.send(pod().user(&user, groups)).await;
        assert_eq!(came.code, code, "{user} in {groups:?}: {}", came.came());
    }
    // In the whole cluster there is no such namespace.
    let nowhere = json!({"metadata": {"name": c.name("nowhere")}, "subjects": [{"kind": "ServiceAccount", "name": "robot"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}});
    c.post(&format!("{RBAC}/clusterrolebindings"), nowhere)
        .await
        .fails(422, "Invalid")
        .mentions("subjects[0].namespace: Required value");
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

/// Selectors that a review is about.
async fn misasked_selectors(c: &Cx, resource: &Value) {
    let requirement = |key: &str, operator: &str, values: &[&str]| json!({"requirements": [{"key": key, "operator": operator, "values": values}]});
    let mut both = requirement("a", "In", &["b"]);
    both["rawSelector"] = "a=b".into();
    for (selector, said) in [
        (
            json!({}),
            "requirements: Required value: when spec.resourceAttributes.KIND is specified, requirements or rawSelector is required",
        ),
        (
            both,
            "rawSelector: Invalid value: \"a=b\": may not specified at the same time as requirements",
        ),
        (
            requirement("a", "In", &[]),
            "requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            requirement("a", "Exists", &["x"]),
            "requirements[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        (requirement("", "In", &["b"]), "requirements[0].key: "),
        (json!({"rawSelector": "a=b"}), ""),
        (requirement("a", "In", &["b"]), ""),
        // Of a newer client.
        (requirement("a", "Unheard", &["b"]), ""),
    ] {
        for kind in ["fieldSelector", "labelSelector"] {
            for path in ["subjectaccessreviews", "selfsubjectaccessreviews"] {
                let mut attributes = resource.clone();
                attributes[kind] = selector.clone();
                let mut spec = json!({"resourceAttributes": attributes});
                if path == "subjectaccessreviews" {
                    spec["user"] = "x".into();
                }
                let path = format!("/apis/authorization.k8s.io/v1/{path}");
                let reply = c.post(&path, json!({"spec": spec})).await;
                if said.is_empty() {
                    reply.is(201);
                } else {
                    let said = format!("spec.resourceAttributes.{kind}.{}", said.replace("KIND", kind));
                    reply.fails(422, "Invalid").mentions(&said);
                }
            }
        }
    }
}

/// What a review may not ask, and what is said of it.
async fn misasked_reviews(c: &Cx, namespace: &str) {
    let group = "/apis/authorization.k8s.io/v1";
    let local = format!("{group}/namespaces/{namespace}/localsubjectaccessreviews");
    let resource = json!({"verb": "get", "resource": "pods", "namespace": namespace});
    let path = json!({"verb": "get", "path": "/x"});
    let neither = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    let both = "cannot be specified in combination with resourceAttributes";
    for (of, spec, wrong) in [
        ("self", json!({}), vec![("spec.resourceAttributes", neither)]),
        (
            "self",
            json!({"resourceAttributes": resource, "nonResourceAttributes": path}),
            vec![("spec.nonResourceAttributes", both)],
        ),
        (
            "",
            json!({"user": "x", "resourceAttributes": resource, "nonResourceAttributes": path}),
            vec![("spec.nonResourceAttributes", both)],
        ),
        (
            "",
            json!({"resourceAttributes": resource}),
            vec![("spec.user", "at least one of user or group must be specified")],
        ),
        (
            "local",
            json!({"user": "x"}),
            vec![("spec.resourceAttributes", neither)],
        ),
        (
            "local",
            json!({"resourceAttributes": resource}),
            vec![("spec.user", "at least one of user or group must be specified")],
        ),
        (
            "local",
            json!({"user": "x", "nonResourceAttributes": path}),
            vec![("spec.nonResourceAttributes", "disallowed on this kind of request")],
        ),
        (
            "local",
            json!({"user": "x", "resourceAttributes": resource, "nonResourceAttributes": path}),
            vec![
                ("spec.nonResourceAttributes", both),
                ("spec.nonResourceAttributes", "disallowed on this kind of request"),
            ],
        ),
    ] {
        let path = match of {
            "local" => local.clone(),
            of => format!("{group}/{of}subjectaccessreviews"),
        };
        let refused = c.post(&path, json!({"spec": spec})).await.fails(422, "Invalid");
        let causes = refused.at("/details/causes").as_array().cloned().unwrap_or_default();
        let came: Vec<(&str, &str)> = causes
            .iter()
            .map(|it| (it["field"].as_str().unwrap(), it["message"].as_str().unwrap()))
            .collect();
        let is_so = came.len() == wrong.len()
            && came
                .iter()
                .zip(&wrong)
                .all(|(came, wanted)| came.0 == wanted.0 && came.1.ends_with(wanted.1));
        assert!(is_so, "expected {wrong:?}; came: {}", refused.came());
    }
    misasked_selectors(c, &resource).await;
    let elsewhere =
        json!({"metadata": {"namespace": "default"}, "spec": {"user": "x", "resourceAttributes": resource}});
    c.post(&local, elsewhere)
        .await
        .fails(400, "BadRequest")
        .says("the namespace of the provided object does not match the namespace sent on the request");
}

/// Whoever asks about an account says its groups: a name alone is in none.
async fn accounts_groups(c: &Cx, namespace: &str) {
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]);
    let group = format!("system:serviceaccounts:{namespace}");
    let subject = json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group});
    c.grant(namespace, "accounts", rules, subject).await;
    let spec = |groups: Value| {
        json!({"spec": {"user": format!("system:serviceaccount:{namespace}:any"), "groups": groups,
            "resourceAttributes": {"namespace": namespace, "verb": "list", "resource": "secrets"}}})
    };
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let ask = Ask::post(path, &spec(json!([group])));
    c.until_asked(&c.admin, &ask, |it| it.at("/status/allowed") == &json!(true))
        .await;
    for groups in [json!([]), json!(["system:serviceaccounts"])] {
        c.post(path, spec(groups)).await.is(201).has("/status/allowed", false);
    }
}

async fn reviews(c: Cx) {
    misspelt_reviews(&c).await;
    let namespace = c.namespace().await;
    misasked_reviews(&c, &namespace).await;
    accounts_groups(&c, &namespace).await;
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
    c.post(&local, json!({"spec": {"user": user, "resourceAttributes": elsewhere}}))
        .await
        .fails(422, "Invalid")
        .mentions("spec.resourceAttributes.namespace: Invalid value: \"default\": must match metadata.namespace");
    for (path, said) in [
        (&local, "metadata: Invalid value: "),
        (&format!("{group}/subjectaccessreviews"), ": must be empty"),
        (&format!("{group}/selfsubjectaccessreviews"), ": must be empty"),
    ] {
        let labelled = json!({
            "metadata": {"labels": {"a": "b"}}, "spec": {"user": user, "resourceAttributes": attributes},
        });
        c.post(path, labelled).await.fails(422, "Invalid").mentions(said);
    }
    let rules = Ask::post(
        format!("{group}/selfsubjectrulesreviews"),
        &json!({"spec": {"namespace": namespace}}),
    );
    let reply = c
        .send(rules.user(&user, &[]))
        .await
        .is(201)
        .has("/status/incomplete", false);
    let rules = |kind: &str| {
        reply
            .at(&format!("/status/{kind}"))
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let reviews = json!({"verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]});
    let own = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]});
    // Those of the whole cluster come first.
    let of_resources = rules("resourceRules");
    assert!(
        of_resources.contains(&reviews) && of_resources.last() == Some(&own),
        "{}",
        reply.came()
    );
    let health =
        json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]});
    assert!(rules("nonResourceRules").contains(&health), "{}", reply.came());
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
