//! Watches of those who may no longer.

use crate::client::{CONFIGMAPS, Client, World, config_map, group, lines, metric, size, text};
use http::{Method, Response};
use hyper::body::Incoming;
use kube_api::{Options, local::Local};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const ROLES: &str = "roles.rbac.authorization.k8s.io";
const ROLE_BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";

/// The right to read ConfigMaps in `default`, by a Role and a RoleBinding of this name.
async fn grant(local: &Local, name: &str, subject: Value) {
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
    let role = json!({"metadata": {"name": name}, "rules": rules});
    local.create(ROLES, "default", role).await.unwrap();
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
    let binding = json!({"metadata": {"name": name}, "roleRef": role_ref, "subjects": [subject]});
    local.create(ROLE_BINDINGS, "default", binding).await.unwrap();
}

fn user(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
}

async fn watch(client: &Client) -> Response<Incoming> {
    let response = client.get(&format!("{CONFIGMAPS}?watch=1")).await;
    assert_eq!(response.status(), 200);
    response
}

/// Waits for the end of a watch, which comes by itself: nobody asks for one here.
async fn ends(how: &str, watch: Response<Incoming>) {
    let began = Instant::now();
    let ended = tokio::time::timeout(Duration::from_secs(20), lines(watch)).await;
    let events = ended.unwrap_or_else(|_| panic!("{how}: the watch goes on"));
    println!("{how}: the watch ended after {:?}", began.elapsed());
    assert!(events.iter().all(|it| it["type"] == "ADDED"), "{how}: {events:?}");
}

#[tokio::test]
async fn a_watch_ends_when_its_permission_is_revoked() {
    let world = World::start(Options::default()).await;
    let local = world.server.local();
    let delete = |resource: &'static str, name: &'static str| {
        let local = local.clone();
        async move { local.delete(resource, "default", name, None, None).await.unwrap() }
    };
    let patch = |resource: &'static str, name: &'static str, patch: Value| {
        let local = local.clone();
        async move {
            let patched = local.merge_patch(resource, "default", name, "", patch).await;
            patched.unwrap()
        }
    };
    for (name, subject) in [
        ("binding-deleted", user("binding-deleted")),
        ("role-deleted", group("readers")),
        ("rules-changed", user("rules-changed")),
        ("subject-removed", group("readers")),
    ] {
        grant(&local, name, subject).await;
        let client = world.client_in(name, &["readers"]).await;
        let watched = watch(&client).await;
        let changed = match name {
            "binding-deleted" => delete(ROLE_BINDINGS, name).await,
            "role-deleted" => delete(ROLES, name).await,
            "rules-changed" => patch(ROLES, name, json!({"rules": []})).await,
            _ => patch(ROLE_BINDINGS, name, json!({"subjects": [user("somebody-else")]})).await,
        };
        assert!(changed.is_object());
        ends(name, watched).await;
        assert_eq!(client.get(&format!("{CONFIGMAPS}?watch=1")).await.status(), 403);
    }
    world.stop().await;
}

/// A ServiceAccount of `default` and a token for it.
async fn account(client: &Client, name: &str, spec: Value) -> String {
    let path = "/api/v1/namespaces/default/serviceaccounts";
    let made = json!({"metadata": {"name": name}});
    let made = client.ask(Method::POST, path, Some(made)).await;
    assert!(matches!(made.status().as_u16(), 201 | 409));
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let made = client
        .ask(Method::POST, &format!("{path}/{name}/token"), Some(asked))
        .await;
    let made: Value = serde_json::from_str(&text(made).await).unwrap();
    made["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_watch_ends_with_its_service_account_or_bound_object() {
    let world = World::start(Options::default()).await;
    let local = world.server.local();
    let admin = world.client("admin").await;
    let subject = json!({"kind": "ServiceAccount", "name": "reader", "namespace": "default"});
    grant(&local, "reader", subject).await;
    let secret = json!({"metadata": {"name": "bound"}, "data": {}});
    local.create("secrets", "default", secret).await.unwrap();
    let bound_to = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "bound"}});
    for (resource, name, spec) in [("secrets", "bound", bound_to), ("serviceaccounts", "reader", json!({}))] {
        let token = account(&admin, "reader", spec).await;
        let client = world.client_with(&token).await;
        let watched = watch(&client).await;
        local.delete(resource, "default", name, None, None).await.unwrap();
        ends(name, watched).await;
        assert_eq!(client.get(&format!("{CONFIGMAPS}?watch=1")).await.status(), 401);
    }
    world.stop().await;
}

#[tokio::test]
async fn an_impersonated_watch_ends_when_impersonation_is_revoked() {
    let world = World::start(Options::default()).await;
    let local = world.server.local();
    grant(&local, "reader", user("reader")).await;
    world.allow("impersonator", user("impersonator"), &["users"]).await;
    let mut client = world.client_in("impersonator", &[]).await;
    client.impersonated = Some("reader".into());
    let watched = watch(&client).await;
    let bindings = "clusterrolebindings.rbac.authorization.k8s.io";
    local.delete(bindings, "", "impersonator", None, None).await.unwrap();
    ends("impersonation", watched).await;
    world.stop().await;
}

#[tokio::test]
async fn permission_changes_of_others_do_not_affect_a_watch() {
    let world = World::start(Options::default()).await;
    let local = world.server.local();
    let admin = world.client("admin").await;
    grant(&local, "reader", user("reader")).await;
    let client = world.client_in("reader", &[]).await;
    let first = watch(&client).await;
    let mut others = Vec::new();
    for _ in 0..20 {
        others.push(watch(&client).await);
    }
    let asked = "apiserver_watch_authorizations_total";
    let before = metric(&admin, asked).await;
    for number in 0..50 {
        let name = format!("other{number}");
        grant(&local, &name, user(&name)).await;
        local.delete(ROLE_BINDINGS, "default", &name, None, None).await.unwrap();
        local.delete(ROLES, "default", &name, None, None).await.unwrap();
    }
    assert_eq!(metric(&admin, asked).await, before);
    // More than before is less for nobody.
    let more = json!({"rules": [{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}]});
    local.merge_patch(ROLES, "default", "reader", "", more).await.unwrap();
    assert_eq!(metric(&admin, asked).await, before);
    // Another way to the same right remains.
    grant(&local, "second", user("reader")).await;
    local
        .delete(ROLE_BINDINGS, "default", "reader", None, None)
        .await
        .unwrap();
    while metric(&admin, asked).await < before + 21 {
        tokio::task::yield_now().await;
    }
    assert_eq!(admin.create("last").await, 201);
    local
        .delete(ROLE_BINDINGS, "default", "second", None, None)
        .await
        .unwrap();
    let seen = lines(first).await;
    assert_eq!(
        seen.last().unwrap()["object"]["metadata"]["name"],
        config_map("last")["metadata"]["name"]
    );
    for other in others {
        ends("others", other).await;
    }
    world.stop().await;
}

#[tokio::test]
async fn watch_permissions_are_rechecked_at_a_limited_rate() {
    let (watches, changes) = (size("ATTACK_WATCHES", 60), size("ATTACK_CHANGES", 200));
    let world = World::start(Options::default()).await;
    let local = world.server.local();
    let admin = world.client("admin").await;
    grant(&local, "stays", group("readers")).await;
    let mut open = Vec::new();
    for number in 0..watches.div_ceil(500) {
        let client = world.client_in(&format!("reader{number}"), &["readers"]).await;
        for _ in 0..500.min(watches - open.len()) {
            let watched = watch(&client).await;
            open.push((client.clone(), watched));
        }
    }
    let asked = "apiserver_watch_authorizations_total";
    let before = metric(&admin, asked).await;
    let began = Instant::now();
    for number in 0..changes {
        let name = format!("goes{number}");
        grant(&local, &name, group("readers")).await;
        local.delete(ROLE_BINDINGS, "default", &name, None, None).await.unwrap();
    }
    let took = began.elapsed();
    // The last look is over when the end of the right that is left has ended everything.
    let local_delete = local.delete(ROLE_BINDINGS, "default", "stays", None, None);
    local_delete.await.unwrap();
    let began = Instant::now();
    for (_, watched) in open {
        ends("burst", watched).await;
    }
    let looks = u64::try_from((took + began.elapsed()).as_millis() / 20).unwrap() + 2;
    let times = (metric(&admin, asked).await - before).div_ceil(watches as u64);
    println!("{watches} watches, {changes} changes in {took:?}: each was asked about {times} times");
    assert!(times <= looks, "{times} times, and there was time for {looks} looks");
    world.stop().await;
}
