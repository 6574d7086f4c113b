//! WATCH: events and their order, selectors, bookmarks, initial lists, and how streams end.

use crate::{
    check::{Check, must, should},
    client::{Ask, Client, Watch},
    cx::{Cx, PATIENCE, config_map, version},
    run::timed,
};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "117",
            "events come in the order of revisions, a line each, at once",
            events,
        ),
        must("118", "without a resourceVersion what exists is ADDED first", initial),
        must(
            "119",
            "what starts or stops to match a selector is ADDED or DELETED with the last matching state",
            transitions,
        ),
        must("120", "one object is watched by metadata.name", one_object),
        must(
            "121",
            "a resourceVersion that is too old is an ERROR of 410 in the stream, which ends",
            too_old,
        ),
        must(
            "122",
            "WatchList: what exists, a marked bookmark, then what happens",
            watch_list,
        ),
        must(
            "123",
            "what an informer asks with WatchList, and without it, is answered as it needs (real informers: tests/conformance/go-clients)",
            informer,
        ),
        must(
            "124",
            "bookmarks come when they are allowed and never otherwise",
            bookmarks,
        ),
        must(
            "125",
            "timeoutSeconds ends the stream cleanly, while somebody writes all the time too",
            timeout,
        ),
        should("126", "options that cannot be are 422, YAML is 406", bad_options),
        must("127", "the old path with /watch/ is the same as ?watch=true", legacy),
        should("128", "a watch of tables has columns in its first event only", tables),
        must(
            "129",
            "1000 idle watches take little memory; who reads slowly holds nobody up and loses nothing unsaid",
            many,
        )
        .embedded("memory is measured"),
        must(
            "130",
            "after a restart a watch goes on from its revision or is told that it cannot",
            restart,
        )
        .embedded("a server is restarted"),
        must(
            "131",
            "a custom resource is watched in each of its versions",
            each_version,
        ),
    ]
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default()
        .parse()
        .unwrap_or_default()
}

async fn events(c: Cx) {
    let path = c.core("secrets").await;
    let start = c.get(&path).await.revision();
    let mut watch = c.watch(&format!("{path}?watch=1&resourceVersion={start}")).await;
    assert!(
        watch.headers["content-type"]
            .to_str()
            .unwrap()
            .starts_with("application/json")
    );
    let mut slowest = Duration::ZERO;
    let mut last = start;
    let mut expect = async |watch: &mut Watch, kind: &str, value: &str| {
        let (event, took) = timed(watch.next()).await;
        slowest = slowest.max(took);
        assert_eq!(
            (event.0.as_str(), &event.1["kind"], &event.1["metadata"]["labels"]["l"]),
            (kind, &json!("Secret"), &json!(value))
        );
        assert!(revision(&event.1) > last, "revisions grow");
        last = revision(&event.1);
    };
    for turn in 0..5 {
        let name = format!("s{turn}");
        c.post(&path, json!({"metadata": {"name": name, "labels": {"l": "1"}}}))
            .await
            .is(201);
        expect(&mut watch, "ADDED", "1").await;
        c.merge(&format!("{path}/{name}"), json!({"metadata": {"labels": {"l": "2"}}}))
            .await
            .is(200);
        expect(&mut watch, "MODIFIED", "2").await;
        c.delete(&format!("{path}/{name}")).await.is(200);
        expect(&mut watch, "DELETED", "2").await;
    }
    // Fifty milliseconds on an idle machine; this one may be busy with other checks.
    assert!(
        slowest < Duration::from_millis(500),
        "an event came {slowest:?} after its write was answered"
    );
}

async fn initial(c: Cx) {
    let path = c.core("secrets").await;
    for name in ["b", "a"] {
        c.make(&path, json!({"metadata": {"name": name}})).await;
    }
    for query in ["watch=1", "watch=true&resourceVersion=0", "watch="] {
        let mut watch = c.watch(&format!("{path}?{query}")).await;
        let mut first = vec![watch.brief().await, watch.brief().await];
        first.sort();
        assert_eq!(
            first,
            [
                ("ADDED".to_owned(), "a".to_owned()),
                ("ADDED".to_owned(), "b".to_owned())
            ]
        );
        c.make(&path, json!({"metadata": {"name": "c"}})).await;
        assert_eq!(watch.brief().await, ("ADDED".into(), "c".into()));
        c.delete(&format!("{path}/c")).await.is(200);
    }
}

async fn transitions(c: Cx) {
    let path = c.core("configmaps").await;
    let mut object = config_map("a", json!({"k": "1"}));
    object["metadata"]["labels"] = json!({"l": "no"});
    let made = c.make(&path, object).await;
    let mut watch = c
        .watch(&format!(
            "{path}?watch=1&labelSelector=l%3Dyes&resourceVersion={}",
            made.revision()
        ))
        .await;
    let path = format!("{path}/a");
    c.merge(&path, json!({"data": {"k": "2"}})).await.is(200);
    let starts = c
        .merge(&path, json!({"metadata": {"labels": {"l": "yes"}}}))
        .await
        .is(200);
    let (kind, object) = watch.next().await;
    assert_eq!((kind.as_str(), revision(&object)), ("ADDED", starts.revision()));
    c.merge(&path, json!({"data": {"k": "3"}})).await.is(200);
    assert_eq!(watch.next().await.0, "MODIFIED");
    let stops = c
        .merge(&path, json!({"metadata": {"labels": {"l": "no"}}, "data": {"k": "4"}}))
        .await
        .is(200);
    let (kind, object) = watch.next().await;
    assert_eq!(kind, "DELETED");
    assert_eq!(
        (&object["metadata"]["labels"]["l"], &object["data"]["k"]),
        (&json!("yes"), &json!("3")),
        "the last matching state"
    );
    assert_eq!(revision(&object), stops.revision(), "with the new revision");
    c.merge(&path, json!({"data": {"k": "5"}})).await.is(200);
    c.merge(&path, json!({"metadata": {"labels": {"l": "yes"}}}))
        .await
        .is(200);
    assert_eq!(watch.next().await.0, "ADDED");
    c.delete(&path).await.is(200);
    assert_eq!(watch.next().await.0, "DELETED");
}

async fn one_object(c: Cx) {
    let path = c.core("configmaps").await;
    let start = c.get(&path).await.revision();
    let mut watch = c
        .watch(&format!(
            "{path}?watch=1&resourceVersion={start}&fieldSelector=metadata.name%3Db"
        ))
        .await;
    for name in ["a", "b", "c"] {
        c.make(&path, config_map(name, json!({}))).await;
    }
    assert_eq!(watch.brief().await, ("ADDED".into(), "b".into()));
    c.delete(&format!("{path}/a")).await.is(200);
    c.delete(&format!("{path}/b")).await.is(200);
    assert_eq!(watch.brief().await, ("DELETED".into(), "b".into()));
}

async fn too_old(c: Cx) {
    let path = c.core("configmaps").await;
    let (mut watch, status) = c.watch_too_old(&path, "application/json").await;
    assert_eq!(
        (&status["kind"], &status["status"], &status["reason"], &status["code"]),
        (&json!("Status"), &json!("Failure"), &json!("Expired"), &json!(410))
    );
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with("too old resource version: 1 (") || message.contains("too old"),
        "{message}"
    );
    assert!(watch.event().await.is_none(), "the stream ends");
}

const WATCH_LIST: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

/// Reads until the bookmark that ends what existed; returns the names before it.
async fn until_marked(watch: &mut Watch, kind: &str, api_version: &str) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let (event, object) = watch.next().await;
        assert_eq!(
            (&object["kind"], &object["apiVersion"]),
            (&json!(kind), &json!(api_version)),
            "{event} {object}"
        );
        if event == "BOOKMARK" {
            if object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true" {
                assert!(revision(&object) > 0, "{object}");
                names.sort();
                return names;
            }
            continue;
        }
        assert_eq!(event, "ADDED");
        names.push(object["metadata"]["name"].as_str().unwrap().to_owned());
    }
}

async fn watch_list(c: Cx) {
    let path = c.core("secrets").await;
    let mut watch = c.watch(&format!("{path}?{WATCH_LIST}")).await;
    assert!(until_marked(&mut watch, "Secret", "v1").await.is_empty());
    c.make(&path, json!({"metadata": {"name": "a"}})).await;
    assert_eq!(watch.brief().await, ("ADDED".into(), "a".into()));
    let mut watch = c.watch(&format!("{path}?{WATCH_LIST}&resourceVersion=0")).await;
    assert_eq!(until_marked(&mut watch, "Secret", "v1").await, ["a"]);
    c.merge(&format!("{path}/a"), json!({"metadata": {"labels": {"l": "1"}}}))
        .await
        .is(200);
    assert_eq!(watch.brief().await, ("MODIFIED".into(), "a".into()));
    let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let mut watch = c
        .admin
        .watch(Ask::get(format!("{path}?{WATCH_LIST}")).accept(partial))
        .await;
    assert_eq!(
        until_marked(&mut watch, "PartialObjectMetadata", "meta.k8s.io/v1").await,
        ["a"]
    );
    let kind = c.define_simple("things", "Thing", json!({})).await;
    let mut watch = c.watch(&format!("{}?{WATCH_LIST}", kind.path)).await;
    assert!(until_marked(&mut watch, "Thing", &kind.api_version).await.is_empty());
    c.make(&kind.path, kind.object("a", json!({}))).await;
    assert_eq!(watch.brief().await, ("ADDED".into(), "a".into()));
}

/// What client-go's reflector does, in both ways.
async fn informer(c: Cx) {
    let path = c.core("secrets").await;
    for objects in [0, 3] {
        for number in 0..objects {
            c.make(&path, json!({"metadata": {"name": format!("s{number}")}})).await;
        }
        let accept = c.accepted_by_go().await;
        let ask = Ask::get(format!("{path}?{WATCH_LIST}&timeout=6m40s&timeoutSeconds=400")).accept(accept);
        let mut watch = c.admin.watch(ask).await;
        assert_eq!(until_marked(&mut watch, "Secret", "v1").await.len(), objects);
        // Without WatchList: a list from the cache, then a watch from its revision.
        let list = c
            .send(Ask::get(format!("{path}?limit=500&resourceVersion=0")).accept(accept))
            .await
            .is(200);
        assert_eq!(list.names().len(), objects);
        let ask = Ask::get(format!(
            "{path}?allowWatchBookmarks=true&watch=true&resourceVersion={}",
            list.revision()
        ));
        let mut watch = c.admin.watch(ask.accept(accept)).await;
        c.make(&path, json!({"metadata": {"name": "new"}})).await;
        assert_eq!(watch.brief().await, ("ADDED".into(), "new".into()));
        c.delete(&format!("{path}/new")).await.is(200);
    }
}

async fn bookmarks(c: Cx) {
    let path = c.core("secrets").await;
    let start = c.get(&path).await.revision();
    let long = format!("{path}?watch=1&resourceVersion={start}&timeoutSeconds=600&allowWatchBookmarks=true");
    let mut long = c.watch(&long).await;
    let query = format!("watch=1&resourceVersion={start}&timeoutSeconds=5");
    let mut with = c.watch(&format!("{path}?{query}&allowWatchBookmarks=true")).await;
    let mut without = c.watch(&format!("{path}?{query}")).await;
    let mut kinds = Vec::new();
    while let Some(event) = with.event().await {
        assert_eq!(event["type"], "BOOKMARK", "{event}");
        let metadata = &event["object"]["metadata"];
        assert!(
            metadata["name"].is_null() && revision(&event["object"]) >= start,
            "{event}"
        );
        assert_eq!(
            (&event["object"]["kind"], &event["object"]["apiVersion"]),
            (&json!("Secret"), &json!("v1"))
        );
        kinds.push(event);
    }
    assert!(!kinds.is_empty(), "a bookmark comes before the stream ends");
    assert!(without.event().await.is_none(), "no bookmark was allowed");
    // On a stream that goes on one comes every minute, and no other end is near.
    let minute = Duration::from_secs(60);
    let (event, took) = timed(tokio::time::timeout(minute * 2, long.event())).await;
    let event = event.expect("a bookmark comes every minute").expect("it goes on");
    assert_eq!(event["type"], "BOOKMARK", "{event}");
    assert!(took < minute + Duration::from_secs(10), "it came after {took:?}");
}

async fn timeout(c: Cx) {
    let path = c.core("secrets").await;
    let start = c.get(&path).await.revision();
    let begun = Instant::now();
    let mut watch = c
        .watch(&format!("{path}?watch=1&resourceVersion={start}&timeoutSeconds=2"))
        .await;
    assert!(watch.event().await.is_none());
    let took = begun.elapsed();
    assert!(
        took > Duration::from_millis(1800) && took < Duration::from_secs(6),
        "{took:?}"
    );
    // Somebody writes all the time, and the stream ends nevertheless.
    c.make(&path, json!({"metadata": {"name": "busy"}})).await;
    let writer = Client::new(&c.target, &c.target.admin, "h2");
    let at = format!("{path}/busy");
    let writing = tokio::spawn(async move {
        for turn in 0u64.. {
            let label = json!({"metadata": {"labels": {"turn": turn.to_string()}}});
            writer.send(Ask::patch("merge", &at, &label)).await.is(200);
        }
    });
    let begun = Instant::now();
    let mut watch = c.watch(&format!("{path}?watch=1&timeoutSeconds=2")).await;
    let mut events = 0;
    while watch.event().await.is_some() {
        events += 1;
        let took = begun.elapsed();
        assert!(
            took < Duration::from_secs(6),
            "after {took:?} {events} events came, and no end"
        );
    }
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(1800), "it ended after {took:?}");
    assert!(!writing.is_finished(), "the writer ended first");
    assert!(events > 2, "{events} events are no steady stream");
    writing.abort();
}

async fn bad_options(c: Cx) {
    let path = c.core("secrets").await;
    for (query, message) in [
        (
            "sendInitialEvents=true",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "resourceVersionMatch=NotOlderThan&resourceVersion=1",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
            "resourceVersionMatch",
        ),
        (
            "continue=abc",
            "resourceVersionMatch is forbidden when continue is provided",
        ),
    ] {
        c.get(&format!("{path}?watch=1&{query}"))
            .await
            .fails(422, "Invalid")
            .mentions(message);
    }
    // The Status comes in JSON or in what was asked for.
    let refused = c
        .send(Ask::get(format!("{path}?watch=1")).accept("application/yaml"))
        .await
        .is(406);
    assert!(
        refused.text().contains("application/json;stream=watch"),
        "{}",
        refused.came()
    );
    c.get(&format!("{path}?watch=1&resourceVersion=abc"))
        .await
        .fails(500, "")
        .says("resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax");
}

async fn legacy(c: Cx) {
    let path = c.core("secrets").await;
    c.make(&path, json!({"metadata": {"name": "a"}})).await;
    c.make(&path, json!({"metadata": {"name": "b"}})).await;
    let old = path.replace("/api/v1/", "/api/v1/watch/");
    let mut watch = c.watch(&old).await;
    let mut names = vec![watch.brief().await.1, watch.brief().await.1];
    names.sort();
    assert_eq!(names, ["a", "b"]);
    let mut watch = c.watch(&format!("{old}/b")).await;
    assert_eq!(watch.brief().await, ("ADDED".into(), "b".into()));
    c.merge(&format!("{path}/a"), json!({"metadata": {"labels": {"l": "1"}}}))
        .await
        .is(200);
    c.merge(&format!("{path}/b"), json!({"metadata": {"labels": {"l": "1"}}}))
        .await
        .is(200);
    assert_eq!(watch.brief().await, ("MODIFIED".into(), "b".into()));
    c.get(&format!("{path}/a?watch=1")).await.is(200).has("/kind", "Secret");
}

async fn tables(c: Cx) {
    let path = c.core("secrets").await;
    c.make(&path, json!({"metadata": {"name": "a"}})).await;
    let ask = Ask::get(format!("{path}?watch=1")).accept("application/json;as=Table;v=v1;g=meta.k8s.io");
    let mut watch = c.admin.watch(ask).await;
    let (kind, table) = watch.next().await;
    assert_eq!(
        (kind.as_str(), &table["kind"], &table["rows"][0]["cells"][0]),
        ("ADDED", &json!("Table"), &json!("a"))
    );
    assert!(table["columnDefinitions"].is_array(), "{table}");
    c.make(&path, json!({"metadata": {"name": "b"}})).await;
    let (_, table) = watch.next().await;
    assert_eq!(table["rows"][0]["cells"][0], "b");
    assert!(table["columnDefinitions"].is_null(), "{table}");
    // A bookmark is a table with a row of nothing, an error is none.
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let all = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = c.admin.watch(Ask::get(format!("{path}?{all}")).accept(TABLE)).await;
    let (bookmark, revision) = loop {
        let (kind, table) = watch.next().await;
        assert_eq!(table["kind"], "Table", "{kind}");
        if kind == "BOOKMARK" {
            break (table["rows"].clone(), table["metadata"]["resourceVersion"].clone());
        }
    };
    assert!(revision.is_string(), "{bookmark}");
    let object = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": revision, "annotations": {"k8s.io/initial-events-end": "true"}}});
    assert_eq!(bookmark, json!([{"cells": ["", "", 0, "<unknown>"], "object": object}]));
    let (_, error) = c.watch_too_old(&c.core_called("old", "configmaps").await, TABLE).await;
    assert_eq!(
        (&error["kind"], &error["code"], &error["reason"]),
        (&json!("Status"), &json!(410), &json!("Expired"))
    );
    // Also in a watch the client says how much of the object it wants.
    for (include, kind) in [
        ("None", json!(null)),
        ("Object", json!("Secret")),
        ("Metadata", json!("PartialObjectMetadata")),
    ] {
        let ask = Ask::get(format!("{path}?watch=1&includeObject={include}")).accept(TABLE);
        let (_, table) = c.admin.watch(ask).await.next().await;
        assert_eq!(table["rows"][0]["object"]["kind"], kind, "{include}: {table}");
    }
    let ask = Ask::get(format!("{path}?watch=1&includeObject=Bad")).accept(TABLE);
    c.send(ask).await.fails(400, "BadRequest");
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ')
        .nth(1)
        .and_then(|it| it.parse::<u64>().ok())
        .unwrap_or_default()
        * 4096
}

async fn many(c: Cx) {
    let path = c.core("configmaps").await;
    let before = resident_bytes();
    let start = c.get(&path).await.revision();
    let mut watches = Vec::new();
    for _ in 0..10 {
        let client = Client::new(&c.target, &c.target.admin, "h2");
        for _ in 0..100 {
            watches.push(
                client
                    .watch(Ask::get(format!(
                        "/api/v1/namespaces/nowhere/secrets?watch=1&resourceVersion={start}"
                    )))
                    .await,
            );
        }
    }
    // Both ends are in this process.
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 150 << 20, "1000 watches took {} MiB", grown >> 20);
    drop(watches);

    // Others write much meanwhile, and what was before them is soon forgotten.
    let start = c.get(&path).await.revision();
    let url = format!("{path}?watch=1&resourceVersion={start}&fieldSelector=metadata.name%3Dbig");
    let mut slow = slow_reader(&c, &url).await;
    let mut quick = c.watch(&url).await;
    c.make(&path, config_map("big", json!({}))).await;
    assert_eq!(quick.brief().await.0, "ADDED");
    let text = "x".repeat(100_000);
    // More than the sockets, what waits for one watch, and the log hold.
    const TURNS: usize = 500;
    for turn in 0..TURNS {
        c.merge(&format!("{path}/big"), json!({"data": {"t": format!("{turn} {text}")}}))
            .await
            .is(200);
        let (event, took) = timed(quick.next()).await;
        let value = event.1["data"]["t"].as_str().unwrap();
        assert!(value.starts_with(&format!("{turn} ")), "the quick one misses nothing");
        assert!(
            took < Duration::from_secs(5),
            "the slow one holds the quick one up for {took:?}"
        );
    }
    // Now it reads: what there was, in order, and then the truth that something is lost.
    let mut came = Vec::new();
    let whole = tokio::time::timeout(PATIENCE, slow.read_to_end(&mut came)).await;
    whole.expect("the stream ends").unwrap();
    let came = String::from_utf8_lossy(&came);
    let turns: Vec<&str> = came
        .split("\"t\":\"")
        .skip(1)
        .filter_map(|it| it.split_once(' '))
        .map(|it| it.0)
        .collect();
    for (at, turn) in turns.iter().enumerate() {
        assert_eq!(*turn, at.to_string(), "it was given {turns:?}");
    }
    let end = &came[came.len().saturating_sub(400)..];
    assert!(
        turns.len() < TURNS && end.contains("\"type\":\"ERROR\"") && end.contains("\"code\":410"),
        "after {} changes it was told {end:?}",
        turns.len()
    );
}

/// The answer to a GET whose reader takes little before it reads on purpose.
async fn slow_reader(c: &Cx, path: &str) -> TlsStream<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(512 << 10).unwrap();
    let address = format!("{}:{}", c.target.host, c.target.port);
    let stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let config = c.target.tls(c.target.admin.pair.as_ref(), &["http/1.1"]);
    let name = ServerName::try_from(c.target.host.clone()).unwrap();
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
    stream
}

async fn restart(c: Cx) {
    let (own, c) = c.own_server().await;
    let path = "/api/v1/namespaces/default/configmaps";
    c.post(path, config_map("a", json!({}))).await.is(201);
    let before = c.post(path, config_map("b", json!({}))).await.is(201).revision();
    c.post(path, config_map("c", json!({}))).await.is(201);
    let own = own.restart().await;
    let c = Cx::new(&own.target, "130", "again");
    let latest = c.get(path).await.is(200).revision();
    assert!(latest >= before, "revisions go on");
    let mut watch = c
        .watch(&format!("{path}?watch=1&resourceVersion={before}&timeoutSeconds=5"))
        .await;
    let (kind, object) = watch.next().await;
    match kind.as_str() {
        "ERROR" => assert_eq!((&object["code"], &object["reason"]), (&json!(410), &json!("Expired"))),
        _ => assert_eq!((kind.as_str(), &object["metadata"]["name"]), ("ADDED", &json!("c"))),
    }
    drop(watch);
    own.stop().await;
}

async fn each_version(c: Cx) {
    let properties = || json!({"a": {"type": "string"}});
    let mut old = version("v1", properties());
    old["storage"] = false.into();
    let kind = c
        .define(
            "things",
            "Thing",
            json!({"versions": [old, version("v2", properties())]}),
        )
        .await;
    let other = kind.path.replace("/v1/", "/v2/");
    c.until(&other, |it| it.code == 200).await;
    let start = c.get(&kind.path).await.revision();
    let mut one = c.watch(&format!("{}?watch=1&resourceVersion={start}", kind.path)).await;
    let mut two = c.watch(&format!("{other}?watch=1&resourceVersion={start}")).await;
    c.make(&kind.path, kind.object("a", json!({"a": "b"}))).await;
    for (watch, version) in [(&mut one, "v1"), (&mut two, "v2")] {
        let (event, object) = watch.next().await;
        assert_eq!((event.as_str(), &object["spec"]["a"]), ("ADDED", &json!("b")));
        assert_eq!(object["apiVersion"], format!("{}/{version}", kind.group));
    }
}
