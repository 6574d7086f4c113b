//! Who somebody is: certificates and tokens; and what admission refuses to everybody.

use crate::{
    check::{Check, later, must},
    client::{Ask, Client, Reply},
    cluster::Credential,
    cx::{Cx, PATIENCE, WHO, config_map},
    sections::openapi::claims,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "166",
            "a terminating namespace refuses new content; the system's namespaces cannot be deleted",
            namespaces,
        ),
        later(
            "167",
            "ResourceQuota, LimitRange and PodSecurity are stored and read back; that they are not enforced shows in a quota's empty status",
            quota,
        ),
        must(
            "168",
            "a certificate's CN is the user and its O the groups; without a CN it is 401",
            certificates,
        )
        .embedded_too("a certificate without a name from the authority itself"),
        must(
            "169",
            "TokenRequest: claims, an hour by default, audiences, lower limit, missing account",
            token_request,
        ),
        must(
            "170",
            "ServiceAccount tokens name the account and its groups, and end with what they are bound to",
            account_tokens,
        ),
        must(
            "171",
            "a Secret of a ServiceAccount gets a token within a second; without the account it goes",
            token_secret,
        ),
        must(
            "172",
            "a bootstrap token is a user with groups; a wrong one is 401, an expired one goes",
            bootstrap_token,
        ),
        must(
            "173",
            "TokenReview of valid and invalid tokens and audiences",
            token_review,
        ),
    ]
}

async fn namespaces(c: Cx) {
    let name = c.namespace().await;
    let path = format!("/api/v1/namespaces/{name}");
    let mut object = config_map("hold", json!({}));
    object["metadata"]["finalizers"] = json!(["ex.io/hold"]);
    c.make(&format!("{path}/configmaps"), object).await;
    c.delete(&path).await.is(200);
    let late = c
        .post(&format!("{path}/configmaps"), config_map("late", json!({})))
        .await
        .fails(403, "Forbidden");
    let late = late.says(&format!(
        "configmaps \"late\" is forbidden: unable to create new content in namespace {name} because it is being terminated"
    ));
    assert_eq!(
        late.at("/details/causes/0"),
        &json!({"reason": "NamespaceTerminating", "message": format!("namespace {name} is being terminated"), "field": "metadata.namespace"})
    );
    c.merge(
        &format!("{path}/configmaps/hold"),
        json!({"metadata": {"finalizers": null}}),
    )
    .await
    .is(200);
    c.until_gone(&path).await;
    for name in ["default", "kube-system", "kube-public"] {
        c.delete(&format!("/api/v1/namespaces/{name}"))
            .await
            .fails(403, "Forbidden")
            .says(&format!(
                "namespaces \"{name}\" is forbidden: this namespace may not be deleted"
            ));
    }
}

async fn quota(c: Cx) {
    let namespace = c.namespace().await;
    let core = format!("/api/v1/namespaces/{namespace}");
    let made = c
        .make(
            &format!("{core}/resourcequotas"),
            json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "0"}}}),
        )
        .await;
    assert_eq!(made["spec"]["hard"]["configmaps"], "0");
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}});
    c.make(&format!("{core}/limitranges"), range).await;
    let since = Instant::now();
    let mut turn = tokio::time::interval(Duration::from_millis(250));
    for number in 0.. {
        turn.tick().await;
        let name = format!("a{number}");
        let reply = c
            .post(&format!("{core}/configmaps"), config_map(&name, json!({})))
            .await;
        if reply.code == 403 {
            reply.mentions("exceeded quota: q");
            return;
        }
        reply.is(201);
        let quota = c.get(&format!("{core}/resourcequotas/q")).await.is(200);
        if quota["status"]["hard"].is_null() {
            return;
        }
        // Who says that the quota is watched holds to it, a moment later.
        assert!(
            since.elapsed() < PATIENCE,
            "a watched quota is not held to: {}",
            quota.came()
        );
    }
}

async fn whoami(client: &Client) -> Value {
    client.send(Ask::post(WHO, &json!({}))).await.is(201).json["status"]["userInfo"].clone()
}

async fn certificates(c: Cx) {
    let credential = c.certificate("alice", &["devs", "ops"]).await;
    let info = whoami(&c.client(&credential)).await;
    let mut groups: Vec<&str> = info["groups"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    // In the order of the certificate, which is its maker's business.
    groups.sort_unstable();
    assert_eq!(
        (&info["username"], groups),
        (&json!("alice"), vec!["devs", "ops", "system:authenticated"])
    );
    let id = info["extra"]["authentication.kubernetes.io/credential-id"][0]
        .as_str()
        .unwrap_or_default();
    assert!(id.starts_with("X509SHA256=") && id.len() == 11 + 64, "{id}");
    let (request, key) = crate::cx::signing_request("", &["devs"]);
    let name = c.name("nameless");
    c.make(
        crate::cx::CSRS,
        crate::cx::csr(&name, &request, "kubernetes.io/kube-apiserver-client", &["client auth"]),
    )
    .await;
    let path = format!("{}/{name}", crate::cx::CSRS);
    c.approve(&path).await;
    let (issued, _) = c
        .until(&path, |it| {
            it.at("/status").to_string().contains("certificate") || it.at("/status").to_string().contains("Failed")
        })
        .await;
    // A signer may refuse it.
    if let Some(pem) = issued.at("/status/certificate").as_str() {
        let pem = String::from_utf8(STANDARD.decode(pem).unwrap()).unwrap();
        c.client(&Credential::pair(&pem, &key))
            .send(Ask::get("/version"))
            .await
            .fails(401, "Unauthorized");
    }
    if c.is_embedded() {
        let (own, c) = c.own_server().await;
        for (user, code) in [("", 401), ("somebody", 200)] {
            let pair = own
                .server
                .pki()
                .issue_client_certificate(user, &["system:masters"], 3600, jiff::Timestamp::now())
                .unwrap();
            let client = c.client(&Credential::pair(&pair.certificate_pem, &pair.key_pem));
            client.send(Ask::get("/api/v1/namespaces")).await.is(code);
        }
        own.stop().await;
    }
}

async fn account(c: &Cx) -> (String, String, String) {
    let namespace = c.namespace().await;
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let uid = c.make(&path, json!({"metadata": {"name": "sa"}})).await.uid();
    (namespace, format!("{path}/sa"), uid)
}

async fn request_token(c: &Cx, path: &str, spec: Value) -> Reply {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    c.post(&format!("{path}/token"), body).await
}

fn token_of(reply: &Reply) -> String {
    reply["status"]["token"]
        .as_str()
        .unwrap_or_else(|| panic!("no token: {}", reply.came()))
        .to_owned()
}

async fn token_request(c: Cx) {
    let (namespace, path, uid) = account(&c).await;
    let reply = request_token(&c, &path, json!({}))
        .await
        .is(201)
        .has("/kind", "TokenRequest")
        .has("/spec/expirationSeconds", 3600);
    assert!(reply["status"]["expirationTimestamp"].is_string());
    let (header, body) = claims(&token_of(&reply));
    assert!(header["kid"].is_string());
    assert_eq!(body["sub"], format!("system:serviceaccount:{namespace}:sa"));
    assert_eq!(body["kubernetes.io"]["namespace"], namespace.as_str());
    assert_eq!(
        body["kubernetes.io"]["serviceaccount"],
        json!({"name": "sa", "uid": uid})
    );
    assert_eq!(body["aud"], reply["spec"]["audiences"]);
    assert!(body["jti"].is_string());
    let time = |key: &str| body[key].as_i64().unwrap_or_else(|| panic!("no {key}"));
    assert_eq!(time("exp") - time("iat"), 3600);
    assert_eq!(time("nbf"), time("iat"));
    let other = request_token(&c, &path, json!({"audiences": ["elsewhere"], "expirationSeconds": 600}))
        .await
        .is(201);
    let (_, body) = claims(&token_of(&other));
    assert_eq!(body["aud"], json!(["elsewhere"]));
    request_token(&c, &path, json!({"expirationSeconds": 10}))
        .await
        .fails(422, "Invalid")
        .mentions("spec.expirationSeconds: Invalid value: 10: may not specify a duration less than 10 minutes");
    request_token(&c, &path, json!({"expirationSeconds": (1_i64 << 32) + 1}))
        .await
        .fails(422, "Invalid")
        .mentions(
            "spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
        );
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let secret = c.make(&secrets, json!({"metadata": {"name": "bound"}})).await.uid();
    let to = |uid: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "bound", "uid": uid}});
    let bound = request_token(&c, &path, to(&secret)).await.is(201);
    assert_eq!(
        claims(&token_of(&bound)).1["kubernetes.io"]["secret"],
        json!({"name": "bound", "uid": secret})
    );
    request_token(&c, &path, to("1234"))
        .await
        .fails(409, "Conflict")
        .mentions("the UID in the bound object reference (1234) does not match the UID in record.");
    bound_to_pods_and_nodes(&c, &namespace, &path).await;
    request_token(
        &c,
        &format!("/api/v1/namespaces/{namespace}/serviceaccounts/missing"),
        json!({}),
    )
    .await
    .fails(404, "NotFound");
    let bound = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "none"}});
    request_token(&c, &path, bound).await.fails(404, "NotFound");
    let bound = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "none"}});
    request_token(&c, &path, bound)
        .await
        .fails(400, "BadRequest")
        .mentions("cannot bind token to object of type /v1, Kind=ConfigMap");
}

/// A token that is bound to a pod says on which node that is; one may be bound to a node alone.
async fn bound_to_pods_and_nodes(c: &Cx, namespace: &str, account: &str) {
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    c.until(
        &format!("/api/v1/namespaces/{namespace}/serviceaccounts/default"),
        |it| it.code == 200,
    )
    .await;
    let name = c.name("node");
    let node = c.make("/api/v1/nodes", json!({"metadata": {"name": name}})).await.uid();
    let mut uids = Vec::new();
    for (pod, account, node) in [
        ("waits", "sa", ""),
        ("runs", "sa", name.as_str()),
        ("others", "default", ""),
    ] {
        let mut spec = json!({"serviceAccountName": account, "schedulerName": "nobody", "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i"}]});
        if !node.is_empty() {
            spec["nodeName"] = node.into();
        }
        uids.push(
            c.make(&pods, json!({"metadata": {"name": pod}, "spec": spec}))
                .await
                .uid(),
        );
    }
    let to = |kind: &str, name: &str, uid: &str| {
        let mut reference = json!({"apiVersion": "v1", "kind": kind, "name": name});
        if !uid.is_empty() {
            reference["uid"] = uid.into();
        }
        json!({"boundObjectRef": reference})
    };
    for (kind, bound, uid, wanted) in [
        (
            "Pod",
            "waits",
            uids[0].as_str(),
            json!({"pod": {"name": "waits", "uid": uids[0]}}),
        ),
        ("Pod", "waits", "", json!({"pod": {"name": "waits", "uid": uids[0]}})),
        (
            "Pod",
            "runs",
            "",
            json!({"pod": {"name": "runs", "uid": uids[1]}, "node": {"name": name, "uid": node}}),
        ),
        ("Node", &name, &node, json!({"node": {"name": name, "uid": node}})),
        ("Node", &name, "", json!({"node": {"name": name, "uid": node}})),
    ] {
        let issued = request_token(c, account, to(kind, bound, uid)).await.is(201);
        let (_, claims) = claims(&token_of(&issued));
        for key in ["pod", "node", "secret"] {
            assert_eq!(claims["kubernetes.io"][key], wanted[key], "{kind} {bound}: {claims}");
        }
        let client = c.client(&Credential::token(&token_of(&issued)));
        let extra = whoami(&client).await["extra"].clone();
        for key in ["pod", "node"] {
            for part in ["name", "uid"] {
                let extra = &extra[format!("authentication.kubernetes.io/{key}-{part}")][0];
                assert_eq!(extra, &wanted[key][part], "{kind} {bound}: {key}-{part}");
            }
        }
    }
    for (kind, bound) in [("Pod", "waits"), ("Node", name.as_str())] {
        request_token(c, account, to(kind, bound, "1234"))
            .await
            .fails(409, "Conflict")
            .says(&format!(
                "Operation cannot be fulfilled on {kind} \"{bound}\": the UID in the bound object reference (1234) does not \
                 match the UID in record. The object might have been deleted and then recreated"
            ));
        request_token(c, account, to(kind, "none", ""))
            .await
            .fails(404, "NotFound");
    }
    request_token(c, account, to("Pod", "others", ""))
        .await
        .fails(400, "BadRequest")
        .says("cannot bind token for serviceaccount \"sa\" to pod running with different serviceaccount name.");
    // What it is bound to goes, and the token with it.
    let issued = request_token(c, account, to("Pod", "waits", "")).await.is(201);
    let client = c.client(&Credential::token(&token_of(&issued)));
    client.send(Ask::get("/version")).await.is(200);
    c.delete(&format!("{pods}/waits")).await.is(200);
    c.until_asked(&client, &Ask::get("/version"), |it| it.code == 401).await;
}

async fn account_tokens(c: Cx) {
    let (namespace, path, uid) = account(&c).await;
    let token = token_of(&request_token(&c, &path, json!({})).await.is(201));
    let client = c.client(&Credential::token(&token));
    let info = whoami(&client).await;
    assert_eq!(
        (&info["username"], &info["uid"]),
        (&json!(format!("system:serviceaccount:{namespace}:sa")), &json!(uid))
    );
    assert_eq!(
        info["groups"],
        json!([
            "system:serviceaccounts",
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated"
        ])
    );
    let (_, body) = claims(&token);
    assert_eq!(
        info["extra"]["authentication.kubernetes.io/credential-id"],
        json!([format!("JTI={}", body["jti"].as_str().unwrap())])
    );
    let elsewhere = token_of(
        &request_token(&c, &path, json!({"audiences": ["elsewhere"]}))
            .await
            .is(201),
    );
    c.client(&Credential::token(&elsewhere))
        .send(Ask::get("/version"))
        .await
        .fails(401, "Unauthorized");
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let secret = c.make(&secrets, json!({"metadata": {"name": "bound"}})).await.uid();
    let reference = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "bound", "uid": secret}});
    let bound = token_of(&request_token(&c, &path, reference).await.is(201));
    let bound = c.client(&Credential::token(&bound));
    bound.send(Ask::get("/version")).await.is(200);
    c.delete(&format!("{secrets}/bound")).await.is(200);
    let (_, took) = c.until_asked(&bound, &Ask::get("/version"), |it| it.code == 401).await;
    // Who is known is remembered for ten seconds by a real server.
    assert!(took.as_secs() < 12, "a token outlived what it is bound to by {took:?}");
    client.send(Ask::get("/version")).await.is(200);
    c.delete(&path).await.is(200);
    let (_, took) = c.until_asked(&client, &Ask::get("/version"), |it| it.code == 401).await;
    assert!(took.as_secs() < 12, "a token outlived its account by {took:?}");
}

async fn token_secret(c: Cx) {
    let (namespace, path, uid) = account(&c).await;
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let secret = |name: &str, account: &str| json!({"metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}}, "type": "kubernetes.io/service-account-token"});
    c.make(&secrets, secret("token", "sa")).await;
    let (filled, took) = c
        .until(&format!("{secrets}/token"), |it| it.at("/data/token").is_string())
        .await;
    assert!(took.as_secs() < 5, "the token came after {took:?}");
    assert!(filled["data"]["ca.crt"].is_string() && filled["data"]["namespace"] == STANDARD.encode(&namespace));
    assert_eq!(
        filled["metadata"]["annotations"]["kubernetes.io/service-account.uid"],
        uid.as_str()
    );
    let token = String::from_utf8(STANDARD.decode(filled["data"]["token"].as_str().unwrap()).unwrap()).unwrap();
    let client = c.client(&Credential::token(&token));
    assert_eq!(
        whoami(&client).await["username"],
        format!("system:serviceaccount:{namespace}:sa")
    );
    c.make(&secrets, secret("orphan", "nobody")).await;
    c.until_gone(&format!("{secrets}/orphan")).await;
    let mut bare = secret("bare", "sa");
    bare["metadata"]["annotations"] = json!({});
    c.post(&secrets, bare)
        .await
        .fails(422, "Invalid")
        .mentions("metadata.annotations[kubernetes.io/service-account.name]: Required value");
    c.delete(&path).await.is(200);
    c.until_gone(&format!("{secrets}/token")).await;
    c.until_asked(&client, &Ask::get("/version"), |it| it.code == 401).await;
}

async fn bootstrap_token(c: Cx) {
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    let random = |length: usize| -> String {
        (0..length)
            .map(|_| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[rand::random::<u32>() as usize % 36]))
            .collect()
    };
    let make = async |expiration: Option<&str>| {
        let (id, secret) = (random(6), random(16));
        let mut data = json!({"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:zoo,system:bootstrappers:abc"});
        if let Some(time) = expiration {
            data["expiration"] = time.into();
        }
        let object = json!({"metadata": {"name": format!("bootstrap-token-{id}")}, "type": "bootstrap.kubernetes.io/token", "stringData": data});
        c.make(secrets, object).await;
        (id, secret)
    };
    let (id, secret) = make(None).await;
    let info = whoami(&c.client(&Credential::token(&format!("{id}.{secret}")))).await;
    assert_eq!(info["username"], format!("system:bootstrap:{id}"));
    assert_eq!(
        info["groups"],
        json!([
            "system:bootstrappers",
            "system:bootstrappers:abc",
            "system:bootstrappers:zoo",
            "system:authenticated"
        ])
    );
    let wrong = c.client(&Credential::token(&format!("{id}.{}", random(16))));
    wrong.send(Ask::get("/version")).await.fails(401, "Unauthorized");
    // Each of these alone makes it no token for signing in; as it was, it is one again.
    let path = format!("{secrets}/bootstrap-token-{id}");
    let good = Ask::get("/version").token(&format!("{id}.{secret}"));
    let nobody = c.anonymous();
    for (key, value, whole) in [
        ("usage-bootstrap-authentication", "false", Some("true")),
        ("usage-bootstrap-authentication", "", Some("true")),
        ("auth-extra-groups", "system:masters", None),
        ("auth-extra-groups", "system:bootstrappers:Big", None),
        ("token-id", "000000", Some(id.as_str())),
    ] {
        c.merge(&path, json!({"stringData": {key: value}})).await.is(200);
        c.until_asked(&nobody, &good, |it| it.code == 401).await;
        let back = match whole {
            Some(value) => json!({"stringData": {key: value}}),
            None => json!({"data": {key: null}}),
        };
        c.merge(&path, back).await.is(200);
        c.until_asked(&nobody, &good, |it| it.code == 200).await;
    }
    // One that is going counts no more.
    c.merge(&path, json!({"metadata": {"finalizers": ["ex.io/hold"]}}))
        .await
        .is(200);
    c.delete(&path).await.is(200);
    c.until_asked(&nobody, &good, |it| it.code == 401).await;
    c.get(&path).await.is(200);
    c.merge(&path, json!({"metadata": {"finalizers": null}})).await.is(200);
    c.until_gone(&path).await;
    nobody.send(good).await.fails(401, "Unauthorized");
    let soon = (jiff::Timestamp::now() + jiff::SignedDuration::from_secs(2))
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let (id, secret) = make(Some(&soon)).await;
    c.until_gone(&format!("{secrets}/bootstrap-token-{id}")).await;
    c.client(&Credential::token(&format!("{id}.{secret}")))
        .send(Ask::get("/version"))
        .await
        .fails(401, "Unauthorized");
}

async fn token_review(c: Cx) {
    let (namespace, path, _) = account(&c).await;
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = async |spec: Value| {
        c.post(
            reviews,
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}),
        )
        .await
    };
    let issued = request_token(&c, &path, json!({})).await.is(201);
    let token = token_of(&issued);
    let valid = review(json!({"token": token}))
        .await
        .is(201)
        .has("/status/authenticated", true);
    assert_eq!(
        valid.at("/status/user/username"),
        &json!(format!("system:serviceaccount:{namespace}:sa"))
    );
    assert_eq!(valid.at("/status/audiences"), &issued["spec"]["audiences"]);
    let invalid = review(json!({"token": "no.such.token"}))
        .await
        .is(201)
        .has("/status/user", json!({}))
        .lacks("/status/audiences");
    assert!(
        invalid.at("/status/authenticated") != &json!(true),
        "{}",
        invalid.came()
    );
    assert!(
        invalid
            .at("/status/error")
            .as_str()
            .unwrap_or_default()
            .contains("invalid bearer token"),
        "{}",
        invalid.came()
    );
    // The token of a Secret is one as well.
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let secret = json!({"metadata": {"name": "of-sa", "annotations": {"kubernetes.io/service-account.name": "sa"}},
        "type": "kubernetes.io/service-account-token"});
    c.make(&secrets, secret).await;
    let (filled, _) = c
        .until(&format!("{secrets}/of-sa"), |it| it.at("/data/token").is_string())
        .await;
    let token = STANDARD.decode(filled["data"]["token"].as_str().unwrap()).unwrap();
    // A server that reads Secrets from a cache may know it a moment later: "Token does not match server's copy".
    let asked = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": String::from_utf8(token).unwrap()},
    });
    let is_known = |it: &Reply| it.at("/status/authenticated") == &json!(true);
    let (legacy, _) = c.until_asked(&c.admin, &Ask::post(reviews, &asked), is_known).await;
    let legacy = legacy.is(201).lacks("/status/error");
    assert_eq!(legacy.at("/status/user/uid"), valid.at("/status/user/uid"));
    assert_eq!(legacy.at("/status/user/groups"), valid.at("/status/user/groups"));
    assert_eq!(legacy.at("/status/audiences"), valid.at("/status/audiences"));
    let other = token_of(&request_token(&c, &path, json!({"audiences": ["a", "b"]})).await.is(201));
    let matched = review(json!({"token": other, "audiences": ["b", "c"]}))
        .await
        .is(201)
        .has("/status/authenticated", true);
    assert_eq!(matched.at("/status/audiences"), &json!(["b"]));
    let mismatched = review(json!({"token": other, "audiences": ["c"]})).await.is(201);
    assert!(
        mismatched.at("/status/authenticated") != &json!(true),
        "{}",
        mismatched.came()
    );
    review(json!({}))
        .await
        .fails(400, "BadRequest")
        .mentions("token is required for TokenReview in authentication");
}
