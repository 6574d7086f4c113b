use super::*;
use crate::{
    authz::{bootstrap, escalation, forbidden, rule},
    fixture,
    identity::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED},
};
use serde_json::{Value, json};

fn role(kind: &str, namespace: &str, name: &str, rules: Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {"name": name, "namespace": namespace}, "rules": rules})
}

fn bind(kind: &str, namespace: &str, name: &str, role: (&str, &str), subject: Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "subjects": [subject], "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1}})
}

fn alice() -> User {
    User::new("alice", &["devs", "g2", AUTHENTICATED])
}

/// `verb [group/]resource[/subresource][:name][@namespace]`, or `verb /path`. A group ends with a dot-name and `!`.
fn ask(text: &str) -> Attributes {
    let (verb, what) = text.split_once(' ').unwrap();
    if what.starts_with('/') {
        return Attributes {
            verb: verb.into(),
            path: what.into(),
            ..Attributes::default()
        };
    }
    let (what, namespace) = what.split_once('@').unwrap_or((what, ""));
    let (what, name) = what.split_once(':').unwrap_or((what, ""));
    let (group, what) = what.split_once('!').unwrap_or(("", what));
    let (resource, subresource) = what.split_once('/').unwrap_or((what, ""));
    Attributes {
        verb: verb.into(),
        is_resource: true,
        group: group.into(),
        version: "v1".into(),
        resource: resource.into(),
        subresource: subresource.into(),
        namespace: namespace.into(),
        name: name.into(),
        path: String::new(),
    }
}

#[test]
fn the_matrix_of_verbs_groups_resources_names_and_paths() {
    let cases: Vec<(Value, String, bool)> = serde_json::from_str(include_str!("rules.json")).expect("cases");
    for (rule, question, wanted) in cases {
        let store = fixture::store(&[
            role("ClusterRole", "", "r", json!([rule])),
            bind(
                "ClusterRoleBinding",
                "",
                "b",
                ("ClusterRole", "r"),
                json!({"kind": "User", "name": "alice"}),
            ),
        ]);
        assert_eq!(
            Rbac::new(store).allows(&alice(), &ask(&question)),
            wanted,
            "{rule} {question}"
        );
    }
}

#[test]
fn bindings_reach_users_groups_and_service_accounts_in_their_namespace() {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let account = crate::authn::service_account_user("n", "robot");
    let table = [
        (json!({"kind": "User", "name": "alice"}), alice(), true),
        (json!({"kind": "User", "name": "devs"}), alice(), false),
        (json!({"kind": "Group", "name": "devs"}), alice(), true),
        (json!({"kind": "Group", "name": "alice"}), alice(), false),
        (
            json!({"kind": "ServiceAccount", "name": "robot", "namespace": "n"}),
            account.clone(),
            true,
        ),
        (
            json!({"kind": "ServiceAccount", "name": "robot"}),
            account.clone(),
            true,
        ),
        (
            json!({"kind": "ServiceAccount", "name": "robot", "namespace": "m"}),
            account,
            false,
        ),
    ];
    for (subject, user, wanted) in table {
        let store = fixture::store(&[
            role("Role", "n", "r", rules.clone()),
            bind("RoleBinding", "n", "b", ("Role", "r"), subject.clone()),
        ]);
        let rbac = Rbac::new(store);
        assert_eq!(rbac.allows(&user, &ask("get pods:x@n")), wanted, "{subject}");
        assert!(!rbac.allows(&user, &ask("get pods:x@m")), "{subject}");
        assert!(!rbac.allows(&user, &ask("get pods:x")), "{subject}");
    }
}

#[test]
fn a_change_counts_from_the_next_question_on() {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let binding = bind(
        "RoleBinding",
        "n",
        "b",
        ("ClusterRole", "r"),
        json!({"kind": "Group", "name": "devs"}),
    );
    let store = fixture::store(std::slice::from_ref(&binding));
    let rbac = Rbac::new(store.clone());
    let allows = || rbac.allows(&alice(), &ask("get pods:x@n"));
    assert!(!allows());
    fixture::put(&store, role("ClusterRole", "", "r", rules.clone()));
    assert!(allows());
    fixture::remove(&store, "RoleBinding", "n", "b");
    assert!(!allows());
    fixture::put(&store, binding);
    assert!(allows());
    fixture::put(&store, role("ClusterRole", "", "r", json!([])));
    assert!(!allows());
}

#[test]
fn the_reason_names_binding_role_and_subject() {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let store = fixture::store(&[
        role("ClusterRole", "", "r", rules.clone()),
        role("Role", "n", "local", rules),
        bind(
            "ClusterRoleBinding",
            "",
            "b",
            ("ClusterRole", "r"),
            json!({"kind": "User", "name": "alice"}),
        ),
        bind(
            "RoleBinding",
            "n",
            "c",
            ("Role", "local"),
            json!({"kind": "ServiceAccount", "name": "robot"}),
        ),
    ]);
    let rbac = Rbac::new(store);
    let reason = |user: &User| match rbac.authorize(user, &ask("get pods:x@n")) {
        AccessDecision::Allow(reason) => reason,
        AccessDecision::NoOpinion => "no".into(),
    };
    assert_eq!(
        reason(&alice()),
        r#"RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "alice""#
    );
    assert_eq!(
        reason(&crate::authn::service_account_user("n", "robot")),
        r#"RBAC: allowed by RoleBinding "c/n" of Role "local" to ServiceAccount "robot/n""#
    );
    assert_eq!(reason(&User::new("root", &[MASTERS])), "");
}

#[test]
fn a_refusal_says_who_cannot_do_what_and_where() {
    let text = |question: &str| forbidden(&alice(), &ask(question)).message;
    assert_eq!(
        text("get pods:x@default"),
        r#"pods "x" is forbidden: User "alice" cannot get resource "pods" in API group "" in the namespace "default""#
    );
    assert_eq!(
        text("list pods"),
        r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the cluster scope"#
    );
    assert_eq!(
        text("update apps!deployments/status:foo@n"),
        r#"deployments.apps "foo" is forbidden: User "alice" cannot update resource "deployments/status" in API group "apps" in the namespace "n""#
    );
    assert_eq!(text("get /foo"), r#"forbidden: User "alice" cannot get path "/foo""#);
}

#[test]
fn granting_missing_permissions_is_refused_rule_by_rule() {
    let store = fixture::store(&[
        role(
            "ClusterRole",
            "",
            "has",
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}]),
        ),
        bind(
            "ClusterRoleBinding",
            "",
            "b",
            ("ClusterRole", "has"),
            json!({"kind": "User", "name": "alice"}),
        ),
    ]);
    let rbac = Rbac::new(store);
    let wanted = role(
        "Role",
        "default",
        "rb",
        json!([
            {"verbs": ["get", "delete"], "apiGroups": [""], "resources": ["secrets"]},
            {"verbs": ["get", "delete"], "apiGroups": [""], "resources": ["configmaps"]},
            {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]},
        ]),
    );
    let refused = escalation::check_role(&rbac, &alice(), "default", "rb", &wanted, None).unwrap_err();
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message,
        "roles.rbac.authorization.k8s.io \"rb\" is forbidden: user \"alice\" (groups=[\"devs\" \"g2\" \
         \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"delete\"]}\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"delete\"]}\n\
         {APIGroups:[\"apps\"], Resources:[\"*\"], Verbs:[\"*\"]}"
    );
    let held = role(
        "Role",
        "n",
        "rb",
        json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}]),
    );
    assert_eq!(escalation::check_role(&rbac, &alice(), "n", "rb", &held, None), Ok(()));
    assert_eq!(
        escalation::check_role(&rbac, &User::new("root", &[MASTERS]), "n", "rb", &wanted, None),
        Ok(())
    );
    let mut owned = wanted.clone();
    owned["metadata"]["ownerReferences"] = json!([{"uid": "u"}]);
    assert_eq!(
        escalation::check_role(&rbac, &alice(), "n", "rb", &owned, Some(&wanted)),
        Ok(())
    );
}

#[test]
fn escalate_and_bind_allow_granting_more_than_one_holds() {
    let any = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let store = fixture::store(&[
        role("ClusterRole", "", "strong", any.clone()),
        role(
            "ClusterRole",
            "",
            "may",
            json!([{"verbs": ["escalate"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]},
                {"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["strong"]}]),
        ),
        bind(
            "ClusterRoleBinding",
            "",
            "b",
            ("ClusterRole", "may"),
            json!({"kind": "User", "name": "alice"}),
        ),
    ]);
    let rbac = Rbac::new(store);
    let (alice, bob) = (alice(), User::new("bob", &[AUTHENTICATED]));
    let strong = role("Role", "n", "r", any.clone());
    assert_eq!(escalation::check_role(&rbac, &alice, "n", "r", &strong, None), Ok(()));
    assert!(escalation::check_role(&rbac, &bob, "n", "r", &strong, None).is_err());
    let cluster_wide = role("ClusterRole", "", "r", any);
    assert!(escalation::check_role(&rbac, &alice, "", "r", &cluster_wide, None).is_err());
    let binding = |name: &str| {
        bind(
            "RoleBinding",
            "n",
            "x",
            ("ClusterRole", name),
            json!({"kind": "User", "name": "c"}),
        )
    };
    assert_eq!(
        escalation::check_binding(&rbac, &alice, "n", "x", &binding("strong"), None),
        Ok(())
    );
    assert_eq!(
        escalation::check_binding(&rbac, &bob, "n", "x", &binding("strong"), None)
            .unwrap_err()
            .code,
        403
    );
    let missing = escalation::check_binding(&rbac, &bob, "n", "x", &binding("nope"), None).unwrap_err();
    assert_eq!(
        missing.message,
        r#"rolebindings.rbac.authorization.k8s.io "nope" not found"#
    );
}

#[test]
fn an_aggregation_rule_requires_all_permissions() {
    let rbac = Rbac::new(fixture::store(&[]));
    let mut wanted = role("ClusterRole", "", "r", json!([]));
    wanted["aggregationRule"] = json!({"clusterRoleSelectors": []});
    let refused = escalation::check_role(&rbac, &alice(), "", "r", &wanted, None).unwrap_err();
    assert!(
        refused
            .message
            .ends_with("must have cluster-admin privileges to use the aggregationRule")
    );
}

#[test]
fn by_default_anybody_reads_the_version_and_users_use_discovery() {
    let rbac = Rbac::new(fixture::store(&bootstrap::policy()));
    let anonymous = User::new(ANONYMOUS, &[UNAUTHENTICATED]);
    let table = [
        (&anonymous, "get /version", true),
        (&anonymous, "get /apis", false),
        (&anonymous, "get namespaces:x@x", false),
        (&alice(), "get /apis/apps/v1", true),
        (&alice(), "create authorization.k8s.io!selfsubjectaccessreviews", true),
        (&alice(), "list namespaces", false),
    ];
    for (user, question, wanted) in table {
        assert_eq!(
            rbac.allows(user, &ask(question)),
            wanted,
            "{} {question}",
            user.username
        );
    }
}

/// A small linear congruential generator: the same sequence in every run.
fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

#[test]
fn an_incrementally_updated_rbac_index_equals_a_fresh_one() {
    for seed in 0..8 {
        let mut number = numbers(seed);
        let store = fixture::store(&[]);
        let rbac = Rbac::new(store.clone());
        for _ in 0..120 {
            let (namespace, name) = (["", "n", "m"][number(3) as usize], ["a", "b"][number(2) as usize]);
            let is_role = number(2) == 0;
            let kind = match (is_role, namespace) {
                (true, "") => "ClusterRole",
                (true, _) => "Role",
                (false, "") => "ClusterRoleBinding",
                (false, _) => "RoleBinding",
            };
            let exists = |kind: &str| {
                let id = format!("{}s.rbac.authorization.k8s.io", kind.to_lowercase());
                store.get(&id, namespace, name).is_some()
            };
            if exists(kind) && number(3) == 0 {
                fixture::remove(&store, kind, namespace, name);
            } else if is_role {
                let verb = ["get", "list", "*"][number(3) as usize];
                let rules = json!([{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]);
                fixture::put(&store, role(kind, namespace, name, rules));
            } else {
                let role_kind = if namespace.is_empty() || number(2) == 0 {
                    "ClusterRole"
                } else {
                    "Role"
                };
                let role_name = ["a", "b"][number(2) as usize];
                let subject = match number(3) {
                    0 => json!({"kind": "User", "name": "alice"}),
                    1 => json!({"kind": "Group", "name": "devs"}),
                    _ => json!({"kind": "User", "name": "bob"}),
                };
                fixture::put(&store, bind(kind, namespace, name, (role_kind, role_name), subject));
            }
            let fresh = Rbac::new(store.clone());
            for question in ["get pods:x@n", "list pods@m", "get pods:x"] {
                let asked = ask(question);
                assert_eq!(
                    rbac.authorize(&alice(), &asked),
                    fresh.authorize(&alice(), &asked),
                    "seed {seed}: {question}"
                );
            }
        }
    }
}

#[test]
fn rules_too_large_to_expand_are_compared_as_a_whole() {
    let many = |prefix: &str| (0..2000).map(|it| format!("{prefix}{it}")).collect::<Vec<_>>();
    let huge = Rule {
        verbs: many("v"),
        api_groups: many("g"),
        resources: many("r"),
        resource_names: many("n"),
        ..Rule::default()
    };
    let everything = Rule {
        verbs: vec!["*".into()],
        api_groups: vec!["*".into()],
        resources: vec!["*".into()],
        ..Rule::default()
    };
    assert_eq!(
        rule::missing(&[], std::slice::from_ref(&huge)),
        std::slice::from_ref(&huge)
    );
    assert!(rule::missing(&[everything], &[huge]).is_empty());
}
