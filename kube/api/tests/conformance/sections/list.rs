//! LIST: envelopes, selectors, pages and revisions.

use crate::{
    check::{Check, must, should},
    client::{Ask, Reply},
    cx::{Cx, config_map},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "107",
            "the envelope of a list; items of built-in kinds lack a kind, those of custom resources have it",
            envelope,
        ),
        must(
            "108",
            "label selectors match as Kubernetes matches, and errors say what is wrong",
            labels,
        ),
        must(
            "110",
            "pages show each object once at one revision while others write",
            pages,
        ),
        must("111", "an expired page token is 410 with a token that goes on", expired),
        must(
            "112",
            "resourceVersion 0 is answered; one of the future is 504",
            versions,
        ),
        should(
            "113",
            "an exact revision is answered as it was; what cannot be is 410 or 422",
            exact,
        ),
        must(
            "114",
            "a watch from a list's revision misses and repeats nothing while four write",
            no_gap,
        ),
        must(
            "115",
            "a list in a namespace that does not exist is empty",
            no_namespace,
        ),
        should(
            "116",
            "a list of all namespaces is ordered by namespace and name",
            order,
        ),
    ]
}

async fn envelope(c: Cx) {
    let path = c.core("secrets").await;
    let empty = c
        .get(&path)
        .await
        .is(200)
        .has("/kind", "SecretList")
        .has("/apiVersion", "v1")
        .has("/items", json!([]));
    assert!(empty.revision() > 0);
    c.make(&path, json!({"metadata": {"name": "a"}})).await;
    c.get(&path)
        .await
        .is(200)
        .has("/items/0/metadata/name", "a")
        .lacks("/items/0/kind")
        .lacks("/items/0/apiVersion");
    let kind = c.define_simple("things", "Thing", json!({})).await;
    c.get(&kind.path).await.is(200).has("/items", json!([]));
    c.make(&kind.path, kind.object("a", json!({}))).await;
    c.get(&kind.path)
        .await
        .is(200)
        .has("/kind", "ThingList")
        .has("/metadata/continue", "")
        .has("/items/0/kind", "Thing")
        .has("/items/0/apiVersion", kind.api_version.clone());
}

/// As a value of a query.
pub fn encode(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

async fn labels(c: Cx) {
    let path = c.core("configmaps").await;
    for (name, labels) in [
        ("a", json!({"set": "1", "k": "v", "n": "5", "ex.io/k": "1"})),
        ("b", json!({"set": "1", "k": "w"})),
        ("c", json!({"set": "1", "k": ""})),
        ("d", json!({"set": "1", "n": "x"})),
    ] {
        let mut object = config_map(name, json!({}));
        object["metadata"]["labels"] = labels;
        c.make(&path, object).await;
    }
    for (selector, wanted) in [
        ("k=v", "a"),
        ("k==v", "a"),
        ("k!=v", "b c d"),
        ("k in (v,w)", "a b"),
        ("k in (v, w),n", "a"),
        ("k notin (v,w)", "c d"),
        ("k", "a b c"),
        ("!k", "d"),
        ("n>4", "a"),
        ("n<6", "a"),
        ("n>5", ""),
        ("k=", "c"),
        ("k in ()", "c"),
        ("k=v,n=5", "a"),
        ("n<5", ""),
        ("n>4,n<6", "a"),
        ("n notin (5),!k", "d"),
        ("k in (v,w),k notin (w)", "a"),
        ("ex.io/k=1", "a"),
        ("ex.io/k", "a"),
        ("!ex.io/k", "b c d"),
    ] {
        let query = encode(&format!("set=1,{selector}"));
        let reply = c.get(&format!("{path}?labelSelector={query}")).await.is(200);
        assert_eq!(reply.names().join(" "), wanted, "{selector}");
    }
    let long = "v".repeat(64);
    for (selector, message) in [
        (format!("k={long}").as_str(), "must be no more than 63 bytes"),
        (&format!("k in ({long})"), "values[0][k]: Invalid value: "),
        (
            "n>-4",
            "values[0][n]: Invalid value: \"-4\": a valid label must be an empty string or consist of",
        ),
        (
            "n>5.5",
            "values[0]: Invalid value: \"5.5\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "ex.io/k/z=1",
            "Invalid value: \"ex.io/k/z\": a valid label key must consist of",
        ),
        (
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("n>x", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("k=a b", ""),
        ("k in (a", ""),
        ("=v", ""),
        ("Bad/Key/x=v", ""),
    ] {
        let reply = c.get(&format!("{path}?labelSelector={}", encode(selector))).await;
        reply.fails(400, "BadRequest").mentions(message);
    }
}

async fn fill(c: &Cx, path: &str, names: impl Iterator<Item = String>) {
    for name in names {
        c.make(path, config_map(&name, json!({"k": "v"}))).await;
    }
}

fn token(reply: &Reply) -> String {
    reply.at("/metadata/continue").as_str().unwrap_or_default().to_owned()
}

async fn pages(c: Cx) {
    let path = c.core("configmaps").await;
    c.until(&format!("{path}/kube-root-ca.crt"), |it| it.code == 200).await;
    fill(&c, &path, (0..30).map(|it| format!("m{it:02}"))).await;
    let first = c.get(&format!("{path}?limit=7")).await.is(200);
    assert_eq!(first.names().len(), 7);
    assert_eq!(first.at("/metadata/remainingItemCount"), &json!(24));
    let mut names = first.names();
    let mut next = token(&first);
    let mut turn = 0;
    while !next.is_empty() {
        c.post(&path, config_map(&format!("a-new{turn}"), json!({})))
            .await
            .is(201);
        c.post(&path, config_map(&format!("z-new{turn}"), json!({})))
            .await
            .is(201);
        c.delete(&format!("{path}/m{:02}", 29 - turn)).await.is(200);
        c.merge(&format!("{path}/m{:02}", 20 - turn), json!({"data": {"k": "w"}}))
            .await
            .is(200);
        let page = c.get(&format!("{path}?limit=7&continue={next}")).await.is(200);
        assert_eq!(
            page.revision(),
            first.revision(),
            "every page shows the first one's revision"
        );
        for item in page["items"].as_array().unwrap() {
            assert!(item["data"]["k"] != "w", "a page shows what came later");
        }
        names.extend(page.names());
        next = token(&page);
        turn += 1;
    }
    let wanted: Vec<String> = ["kube-root-ca.crt".to_owned()]
        .into_iter()
        .chain((0..30).map(|it| format!("m{it:02}")))
        .collect();
    assert_eq!(names, wanted);
    c.get(&format!("{path}?limit=abc"))
        .await
        .fails(400, "BadRequest")
        .mentions("strconv.ParseInt: parsing \"abc\": invalid syntax");
    c.get(&format!("{path}?limit=1&continue=bad!token"))
        .await
        .fails(400, "BadRequest")
        .mentions("continue key is not valid");
    let page = c.get(&format!("{path}?limit=1")).await.is(200);
    c.get(&format!("{path}?limit=1&resourceVersion=5&continue={}", token(&page)))
        .await
        .fails(400, "BadRequest")
        .mentions("specifying resource version is not allowed when using continue");
    let selected = c.get(&format!("{path}?limit=1&labelSelector=!none")).await.is(200);
    selected.lacks("/metadata/remainingItemCount");
    heavy(&c, &path).await;
}

/// A token outlives a lot of writes: clients take minutes to walk a large list.
async fn heavy(c: &Cx, path: &str) {
    let first = c.get(&format!("{path}?limit=5")).await.is(200);
    churn(c, path).await;
    let page = c
        .get(&format!("{path}?limit=500&continue={}", token(&first)))
        .await
        .is(200);
    assert_eq!(page.revision(), first.revision());
}

/// Enough writes that a short memory has forgotten what was before.
pub async fn churn(c: &Cx, path: &str) {
    let name = format!("churn-{}", rand::random::<u32>());
    c.make(path, config_map(&name, json!({}))).await;
    let text = "x".repeat(50_000);
    for turn in 0..80 {
        c.merge(
            &format!("{path}/{name}"),
            json!({"data": {"k": format!("{turn}{text}")}}),
        )
        .await
        .is(200);
    }
}

/// A token as if it came from the beginning of time.
fn forge(token: &str) -> String {
    let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).expect("base64url");
    let mut value: Value = serde_json::from_slice(&bytes).expect("JSON");
    value["rv"] = 1.into();
    URL_SAFE_NO_PAD.encode(value.to_string())
}

async fn expired(c: Cx) {
    let path = c.core("configmaps").await;
    c.until(&format!("{path}/kube-root-ca.crt"), |it| it.code == 200).await;
    fill(&c, &path, (0..6).map(|it| format!("m{it}"))).await;
    let first = c.get(&format!("{path}?limit=3")).await.is(200);
    churn(&c, &path).await;
    let old = forge(&token(&first));
    let old = format!("{path}?limit=3&continue={old}");
    c.until_gone_by(&old).await;
    let gone = c.get(&old).await.fails(410, "Expired").mentions(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
         the continue parameter, or use the continue token in this response",
    );
    let next = token(&gone);
    assert!(!next.is_empty(), "{}", gone.came());
    let rest = c.get(&format!("{path}?limit=100&continue={next}")).await.is(200);
    assert!(
        rest.names().contains(&"m5".to_owned()) && !rest.names().contains(&"m0".to_owned()),
        "{:?}",
        rest.names()
    );
    assert!(rest.revision() > first.revision());
}

async fn versions(c: Cx) {
    let path = c.core("configmaps").await;
    let made = c.make(&path, config_map("a", json!({}))).await;
    let list = c
        .get(&format!("{path}?resourceVersion={}", made.revision()))
        .await
        .is(200);
    assert!(list.names().contains(&"a".to_owned()) && list.revision() >= made.revision());
    // Any revision will do, and that one is there now.
    let any = c.get(&format!("{path}?resourceVersion=0")).await.is(200);
    assert!(any.names().contains(&"a".to_owned()), "{}", any.came());
    c.get(&format!("{path}/a?resourceVersion=0")).await.is(200);
    let future = list.revision() + 100_000_000;
    let refused = c
        .get(&format!("{path}?resourceVersion={future}"))
        .await
        .fails(504, "Timeout");
    let refused = refused.mentions(&format!("Too large resource version: {future}, current: "));
    assert_eq!(refused.at("/details/causes/0/reason"), "ResourceVersionTooLarge");
    assert_eq!(refused.at("/details/retryAfterSeconds"), 1);
    assert_eq!(refused.header("retry-after"), "1");
    c.get(&format!("{path}/a?resourceVersion={future}"))
        .await
        .fails(504, "Timeout");
    c.get(&format!("{path}?resourceVersion=abc"))
        .await
        .fails(400, "BadRequest")
        .mentions("invalid resource version");
}

async fn exact(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({"k": "1"}))).await;
    let then = c.get(&path).await.is(200).revision();
    c.merge(&format!("{path}/a"), json!({"data": {"k": "2"}})).await.is(200);
    c.make(&path, config_map("b", json!({}))).await;
    let list = c
        .get(&format!("{path}?resourceVersion={then}&resourceVersionMatch=Exact"))
        .await
        .is(200);
    assert_eq!(list.revision(), then);
    assert!(!list.names().contains(&"b".to_owned()));
    let a = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["metadata"]["name"] == "a")
        .unwrap();
    assert_eq!(a["data"]["k"], "1");
    let newer = c
        .get(&format!(
            "{path}?resourceVersion={then}&resourceVersionMatch=NotOlderThan"
        ))
        .await
        .is(200);
    assert!(newer.names().contains(&"b".to_owned()));
    churn(&c, &path).await;
    let first = format!("{path}?resourceVersion=1&resourceVersionMatch=Exact");
    c.until_gone_by(&first).await.fails(410, "Expired");
    let future = newer.revision() + 100_000_000;
    for how in ["Exact", "NotOlderThan", "Exact&limit=1"] {
        c.get(&format!("{path}?resourceVersion={future}&resourceVersionMatch={how}"))
            .await
            .fails(504, "Timeout")
            .mentions(&format!("Too large resource version: {future}, current: "));
    }
    // A page goes on where its list was, and says no revision beside it.
    let page = c.get(&format!("{path}?limit=1")).await.is(200);
    let next = format!(
        "{path}?limit=1&continue={}",
        encode(page["metadata"]["continue"].as_str().unwrap())
    );
    c.get(&format!("{next}&resourceVersion=5"))
        .await
        .fails(400, "BadRequest")
        .says("specifying resource version is not allowed when using continue");
    for how in ["Exact", "NotOlderThan"] {
        c.get(&format!("{next}&resourceVersion=5&resourceVersionMatch={how}"))
            .await
            .fails(422, "Invalid")
            .mentions("resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided");
    }
    c.get(&format!("{next}&resourceVersion=0")).await.is(200);
    for (query, message) in [
        (
            "resourceVersionMatch=Exact",
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        (
            "resourceVersion=5&resourceVersionMatch=Bad",
            "resourceVersionMatch: Unsupported value: \"Bad\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
        ),
        (
            "sendInitialEvents=true",
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
    ] {
        c.get(&format!("{path}?{query}"))
            .await
            .fails(422, "Invalid")
            .mentions("ListOptions.meta.k8s.io \"\" is invalid: ")
            .mentions(message);
    }
}

async fn no_gap(c: Cx) {
    let path = c.core("configmaps").await;
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (c, path) = (c.clone(), path.clone());
            tokio::spawn(async move {
                for turn in 0..40 {
                    let name = format!("w{writer}-{}", turn % 7);
                    match turn % 3 {
                        0 => drop(c.post(&path, config_map(&name, json!({"t": turn.to_string()}))).await),
                        1 => drop(
                            c.merge(&format!("{path}/{name}"), json!({"data": {"t": turn.to_string()}}))
                                .await,
                        ),
                        _ => drop(c.delete(&format!("{path}/w{writer}-{}", (turn + 3) % 7)).await),
                    }
                }
            })
        })
        .collect();
    let version = |it: &Value| {
        it["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let list = c.get(&path).await.is(200);
    let mut state: BTreeMap<String, u64> = BTreeMap::new();
    for item in list["items"].as_array().unwrap() {
        state.insert(item["metadata"]["name"].as_str().unwrap().to_owned(), version(item));
    }
    let mut watch = c
        .watch(&format!("{path}?watch=1&resourceVersion={}", list.revision()))
        .await;
    for writer in writers {
        writer.await.expect("the writer ends");
    }
    c.make(&path, config_map("last", json!({}))).await;
    let mut seen = BTreeSet::new();
    let mut before = list.revision();
    loop {
        let (kind, object) = watch.next().await;
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let revision = version(&object);
        assert!(
            revision > before && seen.insert(revision),
            "{kind} {name} at {revision} after {before}"
        );
        before = revision;
        match kind.as_str() {
            "ADDED" => assert!(state.insert(name.clone(), revision).is_none(), "{name} was added twice"),
            "MODIFIED" => assert!(
                state.insert(name.clone(), revision).is_some(),
                "{name} was changed and never added"
            ),
            "DELETED" => assert!(state.remove(&name).is_some(), "{name} went and never came"),
            other => panic!("{other}: {object}"),
        }
        if name == "last" {
            break;
        }
    }
    let now = c.get(&path).await.is(200);
    let wanted: BTreeMap<String, u64> = now["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["metadata"]["name"].as_str().unwrap().to_owned(), version(it)))
        .collect();
    assert_eq!(state, wanted, "the list and what follows have to be what there is");
}

async fn no_namespace(c: Cx) {
    for path in [
        "/api/v1/namespaces/there-is-none/configmaps",
        "/apis/apps/v1/namespaces/there-is-none/deployments",
    ] {
        let reply = c.get(path).await.is(200).has("/items", json!([]));
        assert!(reply.revision() > 0);
    }
    let kind = c.define_simple("things", "Thing", json!({})).await;
    let elsewhere = format!("/apis/{}/v1/namespaces/there-is-none/things", kind.group);
    let reply = c.get(&elsewhere).await.is(200).has("/items", json!([]));
    assert!(reply.revision() > 0);
}

async fn order(c: Cx) {
    for what in ["b", "a"] {
        let namespace = c.namespace_called(what).await;
        for name in ["z", "m"] {
            let mut object = config_map(name, json!({}));
            object["metadata"]["labels"] = json!({"order": c.name("x")});
            c.make(&format!("/api/v1/namespaces/{namespace}/configmaps"), object)
                .await;
        }
    }
    let reply = c
        .send(Ask::get(format!(
            "/api/v1/configmaps?labelSelector=order%3D{}",
            c.name("x")
        )))
        .await
        .is(200);
    let keys: Vec<(String, String)> = reply["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let text = |key: &str| it["metadata"][key].as_str().unwrap().to_owned();
            (text("namespace"), text("name"))
        })
        .collect();
    assert_eq!(keys.len(), 4);
    assert!(keys.is_sorted(), "{keys:?}");
}
