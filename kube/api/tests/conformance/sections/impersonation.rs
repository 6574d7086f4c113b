//! Who somebody says to be beside what their credentials say: impersonation, and a proxy in front.

use crate::{
    check::{Check, must, should},
    client::{Ask, Client},
    cx::{Cx, WHO},
};
use serde_json::json;

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "174",
            "impersonation of users, groups, ServiceAccounts, uid and extra needs the right to each; a missing user is 400",
            impersonation,
        ),
        should(
            "175",
            "headers of a front proxy count for nobody who has no certificate of the proxies' authority",
            front_proxy,
        ),
    ]
}

fn ask() -> Ask {
    Ask::post(WHO, &json!({}))
}

async fn impersonation(c: Cx) {
    let reply = c
        .send(
            ask()
                .user("carol", &["g1", "g2"])
                .with("impersonate-uid", "u-1")
                .with("impersonate-extra-example.com%2fscopes", "view")
                .with("impersonate-extra-example.com%2fscopes", "edit"),
        )
        .await
        .is(201);
    let info = &reply["status"]["userInfo"];
    assert_eq!((&info["username"], &info["uid"]), (&json!("carol"), &json!("u-1")));
    assert_eq!(info["groups"], json!(["g1", "g2", "system:authenticated"]));
    assert_eq!(info["extra"]["example.com/scopes"], json!(["view", "edit"]));
    let reply = c
        .send(ask().user("system:serviceaccount:default:default", &[]))
        .await
        .is(201);
    assert_eq!(
        reply["status"]["userInfo"]["groups"],
        json!([
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated"
        ])
    );
    let nobody = c.send(ask().user("system:anonymous", &[])).await;
    assert!(
        nobody.code == 403 || nobody.at("/status/userInfo/groups") == &json!(["system:unauthenticated"]),
        "{}",
        nobody.came()
    );
    for (header, value) in [
        ("impersonate-group", "g"),
        ("impersonate-uid", "u"),
        ("impersonate-extra-scopes", "view"),
    ] {
        c.send(ask().with(header, value))
            .await
            .fails(400, "BadRequest")
            .mentions("without impersonating a user");
    }
    rights(&c).await;
}

/// Each part is a right of its own.
async fn rights(c: &Cx) {
    let user = c.name("alice");
    let alice = c.client(&c.certificate(&user, &[]).await);
    let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user});
    let may = |group: &str, resource: &str, name: &str| json!({"apiGroups": [group], "resources": [resource], "resourceNames": [name], "verbs": ["impersonate"]});
    let of_authentication = "authentication.k8s.io";
    alice
        .send(ask().user("carol", &[]))
        .await
        .fails(403, "Forbidden")
        .mentions(&format!("User \"{user}\" cannot impersonate"));
    c.grant("", "users", json!([may("", "users", "carol")]), subject.clone())
        .await;
    let carol = || ask().user("carol", &[]);
    c.until_asked(&alice, &carol(), |it| it.code == 201).await;

    let account = "system:serviceaccount:default:default";
    let refusals = |user: &str| {
        let cannot = format!("is forbidden: User \"{user}\" cannot impersonate resource");
        let of_core = "in API group \"\"";
        let of_users = format!("in API group \"{of_authentication}\" at the cluster scope");
        [
            (
                ask().user("carol", &["g"]),
                format!("groups \"g\" {cannot} \"groups\" {of_core} at the cluster scope"),
            ),
            (
                ask().user("carol", &["g"]).with("impersonate-uid", "u-1"),
                format!("uids.{of_authentication} \"u-1\" {cannot} \"uids\" {of_users}"),
            ),
            (
                ask().user("carol", &["g"]).with("impersonate-extra-scopes", "view"),
                format!("groups \"g\" {cannot} \"groups\" {of_core} at the cluster scope"),
            ),
            (
                ask().user("dave", &[]),
                format!("users \"dave\" {cannot} \"users\" {of_core} at the cluster scope"),
            ),
            (
                ask().user(account, &[]),
                format!(
                    "serviceaccounts \"default\" {cannot} \"serviceaccounts\" {of_core} in the namespace \"default\""
                ),
            ),
            (
                carol().with("impersonate-uid", "u-1"),
                format!("uids.{of_authentication} \"u-1\" {cannot} \"uids\" {of_users}"),
            ),
            (
                carol().with("impersonate-extra-scopes", "view"),
                format!("userextras.{of_authentication} \"view\" {cannot} \"userextras/scopes\" {of_users}"),
            ),
        ]
    };
    for (ask, message) in refusals(&user) {
        alice.send(ask).await.fails(403, "Forbidden").says(&message);
    }

    let more = json!([
        may("", "groups", "g"),
        may("", "serviceaccounts", "default"),
        may(of_authentication, "uids", "u-1"),
        may(of_authentication, "userextras/scopes", "view"),
    ]);
    c.grant("", "more", more, subject).await;
    let whole = ask()
        .user("carol", &["g"])
        .with("impersonate-uid", "u-1")
        .with("impersonate-extra-scopes", "view");
    let (came, _) = c.until_asked(&alice, &whole, |it| it.code == 201).await;
    let info = &came["status"]["userInfo"];
    assert_eq!(
        (
            &info["username"],
            &info["uid"],
            &info["groups"],
            &info["extra"]["scopes"]
        ),
        (
            &json!("carol"),
            &json!("u-1"),
            &json!(["g", "system:authenticated"]),
            &json!(["view"])
        )
    );
    alice
        .send(ask().user(account, &[]))
        .await
        .is(201)
        .has("/status/userInfo/username", account);
    // What was granted is a name each, and no other.
    for ask in [
        ask().user("dave", &[]),
        ask().user("carol", &["g", "system:masters"]),
        ask().user("system:serviceaccount:default:other", &[]),
        carol().with("impersonate-uid", "u-2"),
        carol().with("impersonate-extra-scopes", "edit"),
        carol()
            .with("impersonate-extra-scopes", "view")
            .with("impersonate-extra-scopes", "edit"),
        carol().with("impersonate-extra-other", "view"),
    ] {
        alice.send(ask).await.fails(403, "Forbidden");
    }
}

async fn front_proxy(c: Cx) {
    let as_other = |client: &Client| {
        let client = client.clone();
        async move {
            let ask = Ask::post(WHO, &json!({}))
                .with("x-remote-user", "mallory")
                .with("x-remote-group", "system:masters");
            client.send(ask).await
        }
    };
    let alice = c.client(&c.certificate("alice", &[]).await);
    assert_eq!(as_other(&alice).await.is(201).at("/status/userInfo/username"), "alice");
    let nobody = as_other(&c.anonymous()).await;
    assert!(
        nobody.code == 403 || nobody.at("/status/userInfo/username") == "system:anonymous",
        "{}",
        nobody.came()
    );
    // A client certificate with the allowed name, but of the authority for clients.
    let pretender = c.client(&c.certificate("front-proxy", &[]).await);
    let map = c
        .get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
        .await
        .is(200);
    let separate = map["data"]["requestheader-client-ca-file"] != map["data"]["client-ca-file"];
    let came = as_other(&pretender).await.is(201);
    assert!(
        !separate || came.at("/status/userInfo/username") == "front-proxy",
        "a client's certificate counts as a proxy's: {}",
        came.came()
    );
    assert!(
        separate,
        "the proxy's authority is the clients' authority, so whoever gets a certificate for `front-proxy` is anybody"
    );
}
