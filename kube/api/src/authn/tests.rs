use super::*;
use crate::{
    authn::impersonation::impersonate,
    fixture,
    identity::{AccessDecision, Attributes},
    reviews, tokens,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

struct World {
    store: Arc<Store>,
    pki: Arc<Pki>,
    authenticator: Authenticator,
    now: Timestamp,
}

fn world(objects: &[Value]) -> World {
    let now = Timestamp::now();
    let pki = Arc::new(Pki::open(None, &[], now).unwrap());
    let store = fixture::store(objects);
    let authenticator = Authenticator::new(store.clone(), pki.clone()).unwrap();
    World {
        store,
        pki,
        authenticator,
        now,
    }
}

fn account(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "n", "uid": uid}})
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

impl World {
    fn ask(&self, token: &str, now: Timestamp) -> Result<User, Status> {
        self.authenticator
            .authenticate(&headers(&[("authorization", &format!("Bearer {token}"))]), None, now)
    }

    fn token(&self, spec: Value) -> String {
        let reply = self.request_token(spec).unwrap();
        reply["status"]["token"].as_str().unwrap().to_owned()
    }

    fn request_token(&self, spec: Value) -> Result<Value, Status> {
        let rbac = crate::authz::Rbac::new(self.store.clone());
        let deps = reviews::Deps {
            store: &self.store,
            pki: &self.pki,
            authenticator: &self.authenticator,
            rbac: &rbac,
            now: self.now,
        };
        let user = User::default();
        reviews::create(
            deps,
            &user,
            "serviceaccounts/token",
            "n",
            "robot",
            json!({"spec": spec}),
        )
    }

    fn peer(&self, name: &str, groups: &[&str]) -> PeerCertificate {
        peer(&self.pki, name, groups, self.now)
    }
}

fn peer(pki: &Pki, name: &str, groups: &[&str], now: Timestamp) -> PeerCertificate {
    let pair = pki.issue_client_certificate(name, groups, 3600, now).unwrap();
    PeerCertificate::new(&[CertificateDer::from_pem_slice(pair.certificate_pem.as_bytes()).unwrap()]).unwrap()
}

#[test]
fn a_certificate_counts_while_it_is_valid() {
    let it = world(&[]);
    let peer = it.peer("alice", &["devs"]);
    let at = |now| {
        it.authenticator
            .authenticate(&HeaderMap::new(), Some(&peer), now)
            .map_err(|it| it.code)
    };
    let user = at(it.now).unwrap();
    assert_eq!((user.username.as_str(), user.groups.len()), ("alice", 2));
    assert!(user.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="));
    // The second look comes from the cache, which must not outlive the certificate.
    assert_eq!(at(it.now + SignedDuration::from_secs(3700)), Err(401));
    assert_eq!(at(it.now - SignedDuration::from_mins(10)), Err(401));
    assert!(at(it.now).is_ok());
}

#[test]
fn a_certificate_without_a_name_or_for_servers_is_nobody() {
    let it = world(&[]);
    let at = |peer: &PeerCertificate| it.authenticator.authenticate(&HeaderMap::new(), Some(peer), it.now);
    assert_eq!(at(&it.peer("", &["devs"])), Err(Status::unauthorized()));
    let serving = PeerCertificate::new(&it.pki.serving().chain).unwrap();
    assert_eq!(at(&serving), Err(Status::unauthorized()));
}

#[test]
fn a_valid_token_is_accepted_beside_an_untrusted_certificate() {
    let it = world(&[account("u")]);
    let stranger = peer(&Pki::open(None, &[], it.now).unwrap(), "alice", &[], it.now);
    let bearer = headers(&[("authorization", &format!("Bearer {}", it.token(json!({}))))]);
    let user = it.authenticator.authenticate(&bearer, Some(&stranger), it.now).unwrap();
    assert_eq!(user.username, "system:serviceaccount:n:robot");
}

#[test]
fn a_service_account_token_is_valid_until_its_dependencies_end() {
    let it = world(&[account("u1")]);
    let token = it.token(json!({}));
    let user = it.ask(&token, it.now).unwrap();
    assert_eq!(user.username, "system:serviceaccount:n:robot");
    assert_eq!(user.uid, "u1");
    assert_eq!(
        user.groups,
        ["system:serviceaccounts", "system:serviceaccounts:n", AUTHENTICATED]
    );
    assert!(user.extra[CREDENTIAL_ID][0].starts_with("JTI="));
    assert!(it.ask(&token, it.now + SignedDuration::from_secs(3601)).is_err());
    fixture::put(&it.store, account("u2"));
    assert!(it.ask(&token, it.now).is_err(), "another account of the same name");
    fixture::put(&it.store, account("u1"));
    assert!(it.ask(&token, it.now).is_ok());
    fixture::remove(&it.store, "ServiceAccount", "n", "robot");
    assert!(it.ask(&token, it.now).is_err(), "the account is gone");
}

#[test]
fn a_token_of_another_audience_or_server_is_refused() {
    let it = world(&[account("u")]);
    assert!(it.ask(&it.token(json!({"audiences": ["vault"]})), it.now).is_err());
    assert!(it.ask(&world(&[account("u")]).token(json!({})), it.now).is_err());
    let vault = it.token(json!({"audiences": ["vault"]}));
    assert!(
        it.authenticator
            .authenticate_token(&vault, &["vault".into()], it.now)
            .is_some()
    );
}

#[test]
fn a_token_bound_to_an_object_ends_with_it() {
    let pod = |name: &str, account: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n", "uid": format!("{name}u")},
            "spec": {"serviceAccountName": account, "nodeName": "m"}})
    };
    let it = world(&[account("u"), pod("p", "robot"), pod("q", "other")]);
    let bound = |name: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name}});
    let token = it.token(bound("p"));
    let user = it.ask(&token, it.now).unwrap();
    assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["p"]);
    assert_eq!(user.extra["authentication.kubernetes.io/pod-uid"], ["pu"]);
    assert_eq!(user.extra["authentication.kubernetes.io/node-name"], ["m"]);
    assert!(!user.extra.contains_key("authentication.kubernetes.io/node-uid"));
    let refused = it.request_token(bound("q")).unwrap_err();
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (
            400,
            "cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name."
        )
    );
    fixture::remove(&it.store, "Pod", "n", "p");
    assert!(it.ask(&token, it.now).is_err());
}

#[test]
fn a_legacy_token_is_valid_while_its_secret_contains_it() {
    let it = world(&[account("u")]);
    let token = it
        .pki
        .token_key()
        .unwrap()
        .sign(&tokens::legacy_claims("n", "robot", "u", "robot-token"));
    assert!(it.ask(&token, it.now).is_err());
    let secret = |token: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {"name": "robot-token", "namespace": "n"}, "data": {"token": STANDARD.encode(token)}})
    };
    fixture::put(&it.store, secret(&token));
    assert_eq!(
        it.ask(&token, it.now).unwrap().username,
        "system:serviceaccount:n:robot"
    );
    fixture::put(&it.store, secret("another"));
    assert!(it.ask(&token, it.now).is_err());
}

#[test]
fn a_bootstrap_token_is_its_secrets_user_and_groups() {
    let secret = |change: &[(&str, &str)]| {
        let mut data = serde_json::Map::new();
        let all = [
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
            (
                "auth-extra-groups",
                "system:bootstrappers:managedcluster,system:bootstrappers:a",
            ),
        ];
        for (key, value) in all.iter().chain(change) {
            data.insert((*key).into(), STANDARD.encode(value).into());
        }
        json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token", "data": data,
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"}})
    };
    let it = world(&[secret(&[])]);
    let good = "abcdef.0123456789abcdef";
    let user = it.ask(good, it.now).unwrap();
    assert_eq!(user.username, "system:bootstrap:abcdef");
    assert_eq!(
        user.groups,
        [
            "system:bootstrappers",
            "system:bootstrappers:a",
            "system:bootstrappers:managedcluster",
            AUTHENTICATED
        ]
    );
    assert!(it.ask("abcdef.0123456789abcdee", it.now).is_err());
    for change in [
        ("expiration", "2020-01-01T00:00:00Z"),
        ("expiration", "soon"),
        ("usage-bootstrap-authentication", "false"),
        ("auth-extra-groups", "system:masters"),
        ("token-id", "fedcba"),
    ] {
        fixture::put(&it.store, secret(&[change]));
        assert!(it.ask(good, it.now).is_err(), "{change:?}");
    }
    fixture::put(&it.store, secret(&[("expiration", "2999-01-01T00:00:00Z")]));
    assert!(it.ask(good, it.now).is_ok());
}

#[test]
fn only_a_known_proxy_may_name_the_user() {
    let mut it = world(&[]);
    let proxies = Pki::open(None, &[], it.now).unwrap();
    it.authenticator = it
        .authenticator
        .with_front_proxy(&TrustedProxies::from_pem(proxies.ca_pem(), vec!["front-proxy".into()]).unwrap())
        .unwrap();
    let headers = headers(&[
        ("x-remote-user", "alice"),
        ("x-remote-group", "a"),
        ("x-remote-group", "b"),
        ("x-remote-extra-acme.com%2fteam", "t"),
    ]);
    let ask = |peer: &PeerCertificate| it.authenticator.authenticate(&headers, Some(peer), it.now);
    let user = ask(&peer(&proxies, "front-proxy", &[], it.now)).unwrap();
    assert_eq!((user.username.as_str(), user.groups.len()), ("alice", 3));
    assert_eq!(user.extra["acme.com/team"], ["t"]);
    assert!(ask(&peer(&proxies, "other-proxy", &[], it.now)).is_err());
    assert_eq!(ask(&it.peer("front-proxy", &[])).unwrap().username, "front-proxy");
    // A name that is not ASCII is the name of somebody, and one that cannot be read nobody's: never the proxy's own.
    let mut named = http::HeaderMap::new();
    let ask = |headers: &http::HeaderMap| {
        let proxy = peer(&proxies, "front-proxy", &[], it.now);
        it.authenticator.authenticate(headers, Some(&proxy), it.now)
    };
    let value = |bytes: &[u8]| http::HeaderValue::from_bytes(bytes).unwrap();
    named.insert("x-remote-user", value("jürgen".as_bytes()));
    assert_eq!(ask(&named).unwrap().username, "jürgen");
    named.insert("x-remote-user", value(b"j\xffrgen"));
    assert_eq!(ask(&named).unwrap_err().code, 401);
}

fn act_as(pairs: &[(&'static str, &str)], may: &[&str]) -> Result<User, Status> {
    let alice = User::new("alice", &[AUTHENTICATED]);
    let authorize = |_: &User, asked: &Attributes| {
        let what = format!("{}/{}/{}", asked.resource, asked.subresource, asked.name);
        let is_allowed = asked.verb == "impersonate" && may.contains(&what.as_str());
        if is_allowed {
            AccessDecision::Allow(String::new())
        } else {
            AccessDecision::NoOpinion
        }
    };
    impersonate(alice, &headers(pairs), authorize)
}

#[test]
fn impersonation_requires_permission_for_each_part() {
    assert_eq!(act_as(&[], &[]).unwrap().username, "alice");
    assert_eq!(act_as(&[("impersonate-group", "g")], &[]).unwrap_err().code, 400);
    let refused = act_as(&[("impersonate-user", "carol")], &[]).unwrap_err();
    assert_eq!(
        refused.message,
        r#"users "carol" is forbidden: User "alice" cannot impersonate resource "users" in API group "" at the cluster scope"#
    );
    let carol = [
        ("impersonate-user", "carol"),
        ("impersonate-group", "g"),
        ("impersonate-extra-a%2Fb", "v"),
    ];
    let user = act_as(&carol, &["users//carol", "groups//g", "userextras/a/b/v"]).unwrap();
    assert_eq!(
        (user.username.as_str(), &user.groups[..]),
        ("carol", &["g".to_owned(), AUTHENTICATED.to_owned()][..])
    );
    assert_eq!(user.extra["a/b"], ["v"]);
    assert_eq!(
        act_as(&carol, &["users//carol", "userextras/a/b/v"]).unwrap_err().code,
        403
    );
    assert_eq!(act_as(&carol, &["users//carol", "groups//g"]).unwrap_err().code, 403);
}

#[test]
fn a_name_that_is_not_ascii_is_not_left_out() {
    let alice = || User::new("alice", &[AUTHENTICATED]);
    let allow = |_: &User, _: &Attributes| AccessDecision::Allow(String::new());
    let mut headers = HeaderMap::new();
    headers.insert("impersonate-user", HeaderValue::from_bytes("Zoë".as_bytes()).unwrap());
    assert_eq!(impersonate(alice(), &headers, allow).unwrap().username, "Zoë");
    headers.insert("impersonate-user", HeaderValue::from_bytes(b"Zo\xeb").unwrap());
    assert_eq!(impersonate(alice(), &headers, allow).unwrap_err().code, 400);
}

#[test]
fn impersonated_service_accounts_have_their_groups_and_anonymous_has_none() {
    let robot = [("impersonate-user", "system:serviceaccount:n:robot")];
    let user = act_as(&robot, &["serviceaccounts//robot"]).unwrap();
    assert_eq!(
        user.groups,
        ["system:serviceaccounts", "system:serviceaccounts:n", AUTHENTICATED]
    );
    assert_eq!(
        act_as(&robot, &["users//system:serviceaccount:n:robot"])
            .unwrap_err()
            .code,
        403
    );
    let user = act_as(&[("impersonate-user", ANONYMOUS)], &["users//system:anonymous"]).unwrap();
    assert_eq!(user.groups, [UNAUTHENTICATED]);
}

#[test]
fn a_cache_drops_entries_that_nobody_uses() {
    let cache = CredentialCache::default();
    let begun = Timestamp::now();
    let later = |turns: i32| begun + CACHE_TURN * turns;
    cache.put([1; 32], "asked for", begun);
    cache.put([2; 32], "left alone", begun);
    for turn in 1..5 {
        assert_eq!(cache.get(&[1; 32], later(turn)), Some("asked for"), "turn {turn}");
    }
    assert_eq!(cache.get(&[2; 32], later(5)), None);
    let within = later(5) + CACHE_TURN / 2;
    assert_eq!(cache.get(&[1; 32], within), Some("asked for"));
    assert_eq!(cache.get(&[1; 32], later(6)), Some("asked for"));
    assert_eq!(cache.get(&[3; 32], later(7)), None);
    assert_eq!(cache.get(&[1; 32], later(8)), None);
}

#[test]
fn a_cache_holds_so_many_entries_and_not_more() {
    let cache = CredentialCache::default();
    let now = Timestamp::now();
    let key = |number: usize| {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        key
    };
    let many = CACHE_ENTRIES_MAX * 5;
    for number in 0..many {
        cache.put(key(number), number, now);
    }
    let kept = |halves: &Halves<usize>| halves.recent.len() + halves.before.len();
    let kept = kept(&cache.0.lock());
    assert!(kept <= 2 * CACHE_ENTRIES_MAX, "{kept}");
    // The newest are there.
    for number in many - CACHE_ENTRIES_MAX..many {
        assert_eq!(cache.get(&key(number), now), Some(number));
    }
}

#[test]
fn a_bearer_token_that_is_not_text_is_refused() {
    let it = world(&[]);
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_bytes(b"Bearer \xfftoken").unwrap());
    let refused = it.authenticator.authenticate(&headers, None, it.now).unwrap_err();
    assert_eq!(refused.code, 401);
    headers.insert("authorization", HeaderValue::from_str("Bearer t\u{f6}ken").unwrap());
    let refused = it.authenticator.authenticate(&headers, None, it.now).unwrap_err();
    assert_eq!(refused.code, 401);
}
