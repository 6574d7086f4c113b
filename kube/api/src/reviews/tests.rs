use super::*;
use crate::{
    authz::bootstrap,
    fixture,
    identity::{AUTHENTICATED, MASTERS},
};
use std::sync::Arc;

struct World {
    store: Arc<Store>,
    pki: Arc<Pki>,
    authenticator: Authenticator,
    rbac: Rbac,
    now: jiff::Timestamp,
}

fn world() -> World {
    let now = jiff::Timestamp::now();
    let mut objects = bootstrap::policy();
    objects.push(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "n", "uid": "u"}}));
    objects.push(
        json!({"kind": "RoleBinding", "metadata": {"name": "b", "namespace": "n"},
        "subjects": [{"kind": "User", "name": "alice"}], "roleRef": {"kind": "ClusterRole", "name": "view"}}),
    );
    let store = fixture::store(&objects);
    let pki = Arc::new(Pki::open(None, &[], now).unwrap());
    let authenticator = Authenticator::new(store.clone(), pki.clone()).unwrap();
    World {
        rbac: Rbac::new(store.clone()),
        store,
        pki,
        authenticator,
        now,
    }
}

impl World {
    fn create(&self, resource: &str, namespace: &str, name: &str, spec: Value) -> Result<Value, Status> {
        let deps = Deps {
            store: &self.store,
            pki: &self.pki,
            authenticator: &self.authenticator,
            rbac: &self.rbac,
            now: self.now,
        };
        let alice = User::new("alice", &[AUTHENTICATED]);
        create(
            deps,
            &alice,
            resource,
            namespace,
            name,
            json!({"metadata": {}, "spec": spec}),
        )
    }
}

#[test]
fn a_token_request_returns_a_token_for_one_hour() {
    let it = world();
    let reply = it.create("serviceaccounts/token", "n", "robot", json!({})).unwrap();
    assert_eq!(reply["kind"], "TokenRequest");
    assert_eq!(
        reply["spec"],
        json!({"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": null})
    );
    assert_eq!(reply["metadata"]["uid"], "u");
    let claims = it
        .pki
        .token_key()
        .unwrap()
        .verify(reply["status"]["token"].as_str().unwrap())
        .unwrap();
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 3600);
    assert_eq!(claims["nbf"], claims["iat"]);
    assert_eq!(
        claims["kubernetes.io"]["serviceaccount"],
        json!({"name": "robot", "uid": "u"})
    );
}

#[test]
fn a_token_request_out_of_range_or_unknown_is_refused() {
    let it = world();
    let refuse = |name: &str, spec: Value| {
        let status = it.create("serviceaccounts/token", "n", name, spec).unwrap_err();
        (status.code, status.message)
    };
    let (code, text) = refuse("robot", json!({"expirationSeconds": 10}));
    assert_eq!(code, 422);
    assert!(
        text.contains("spec.expirationSeconds: Invalid value: 10: may not specify a duration less than 10 minutes"),
        "{text}"
    );
    let (code, text) = refuse("robot", json!({"expirationSeconds": 4294967297i64}));
    assert!(
        code == 422 && text.contains("may not specify a duration larger than 2^32 seconds"),
        "{text}"
    );
    assert_eq!(
        refuse("nobody", json!({})),
        (404, r#"serviceaccounts "nobody" not found"#.into())
    );
    let config_map = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}});
    assert_eq!(
        refuse("robot", config_map),
        (400, "cannot bind token to object of type /v1, Kind=ConfigMap".into())
    );
    let pod = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "x"}});
    assert_eq!(refuse("robot", pod).0, 404);
    assert!(
        it.create(
            "serviceaccounts/token",
            "n",
            "robot",
            json!({"expirationSeconds": 315_360_000})
        )
        .is_ok()
    );
}

#[test]
fn a_token_review_says_whose_token_it_is() {
    let it = world();
    let spec = json!({"audiences": ["vault", "db"]});
    let token = it.create("serviceaccounts/token", "n", "robot", spec).unwrap()["status"]["token"].clone();
    let review = |spec: Value| it.create("tokenreviews", "", "", spec).map(|it| it["status"].clone());
    let good = review(json!({"token": token, "audiences": ["vault", "other"]})).unwrap();
    assert_eq!(
        (&good["authenticated"], &good["audiences"]),
        (&json!(true), &json!(["vault"]))
    );
    assert_eq!(good["user"]["username"], "system:serviceaccount:n:robot");
    let bad = json!({"user": {}, "error": "invalid bearer token"});
    assert_eq!(review(json!({"token": token})).unwrap(), bad);
    assert_eq!(review(json!({"token": "x"})).unwrap(), bad);
    assert_eq!(
        review(json!({})).unwrap_err().message,
        "token is required for TokenReview in authentication"
    );
}

#[test]
fn access_reviews_answer_as_the_authorizer_does() {
    let it = world();
    let pods = |namespace: &str, verb: &str| json!({"verb": verb, "resource": "pods", "namespace": namespace});
    let status = |resource: &str, namespace: &str, spec: Value| {
        it.create(resource, namespace, "", spec)
            .map(|it| it["status"].clone())
            .map_err(|it| it.message)
    };
    assert_eq!(
        status(
            "selfsubjectaccessreviews",
            "",
            json!({"resourceAttributes": pods("n", "list")})
        )
        .unwrap(),
        json!({"allowed": true, "reason": r#"RBAC: allowed by RoleBinding "b/n" of ClusterRole "view" to User "alice""#})
    );
    assert_eq!(
        status(
            "selfsubjectaccessreviews",
            "",
            json!({"resourceAttributes": pods("n", "delete")})
        )
        .unwrap(),
        json!({"allowed": false})
    );
    let masters = json!({"groups": [MASTERS], "nonResourceAttributes": {"verb": "get", "path": "/x"}});
    assert_eq!(
        status("subjectaccessreviews", "", masters).unwrap(),
        json!({"allowed": true})
    );
    let local = json!({"user": "alice", "resourceAttributes": pods("n", "get")});
    assert_eq!(
        status("localsubjectaccessreviews", "n", local.clone()).unwrap()["allowed"],
        true
    );
    let text = status("localsubjectaccessreviews", "m", local).unwrap_err();
    assert!(
        text.contains("spec.resourceAttributes.namespace: Invalid value: \"n\": must match metadata.namespace"),
        "{text}"
    );
    let text = status("subjectaccessreviews", "", json!({"user": "a"})).unwrap_err();
    assert!(
        text.contains("exactly one of nonResourceAttributes or resourceAttributes must be specified"),
        "{text}"
    );
    let text = status(
        "subjectaccessreviews",
        "",
        json!({"resourceAttributes": pods("n", "get")}),
    )
    .unwrap_err();
    assert!(
        text.contains("at least one of user or group must be specified"),
        "{text}"
    );
}

#[test]
fn the_rules_of_a_user_are_listed_for_a_namespace() {
    let it = world();
    let status = it
        .create("selfsubjectrulesreviews", "", "", json!({"namespace": "n"}))
        .unwrap()["status"]
        .clone();
    let rules = status["resourceRules"].as_array().unwrap();
    assert!(
        rules.iter().any(|it| it["resources"] == json!(["namespaces"])),
        "{rules:?}"
    );
    assert!(rules.iter().any(|it| it["resources"] == json!(["selfsubjectreviews"])));
    assert!(!status["nonResourceRules"].as_array().unwrap().is_empty());
    assert_eq!(status["incomplete"], false);
    let refused = it.create("selfsubjectrulesreviews", "", "", json!({})).unwrap_err();
    assert_eq!(refused.message, "no namespace on request");
}

#[test]
fn a_self_review_says_who_one_is() {
    let reply = world().create("selfsubjectreviews", "", "", Value::Null).unwrap();
    assert_eq!(
        reply["status"]["userInfo"],
        json!({"username": "alice", "groups": [AUTHENTICATED]})
    );
    assert!(reply["metadata"]["creationTimestamp"].is_string());
}
