//! TLS, HTTP, who is let in without a name, health, and paths that lead nowhere.

use crate::{
    check::{Check, must, should},
    client::{Ask, Client},
    cluster::Credential,
    cx::{Cx, config_map},
    run::timed,
};
use kube_api::pki::Pki;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "1",
            "ALPN h2 gives HTTP/2, http/1.1 alone gives HTTP/1.1, both serve /version",
            alpn,
        ),
        must(
            "2",
            "without a certificate the handshake succeeds; /version is public, a list is 403 for system:anonymous",
            no_certificate,
        ),
        must(
            "3",
            "a certificate of an unknown authority ends in 401, not in a TLS alert",
            strange_certificate,
        ),
        must("4", "an invalid bearer token is 401, on /healthz too", bad_token),
        must(
            "5",
            "more streams than the connection may have wait and do not break it",
            many_streams,
        ),
        should(
            "6",
            "an HTTP/2 PING is answered within a second while 50 watches stream",
            ping,
        ),
        must("7", "/version has major, minor and a semver gitVersion", version),
        must(
            "8",
            "/livez, /readyz and /healthz answer ok to anybody; verbose and exclude work",
            health,
        ),
        should(
            "9",
            "a server that is told to stop says 500 on /readyz before its listener closes, and ends its watches cleanly",
            shutdown,
        )
        .embedded("a server is stopped"),
        must("26", "unknown resources and groups are 404", unknown),
        must("27", "methods that a path does not take are 405", methods),
        should("28", "a trailing slash changes nothing", slash),
    ]
}

async fn alpn(c: Cx) {
    for (offered, got) in [(&["h2", "http/1.1"][..], "h2"), (&["http/1.1"][..], "http/1.1")] {
        let stream = c.admin.connect(offered).await;
        assert_eq!(
            stream.get_ref().1.alpn_protocol(),
            Some(got.as_bytes()),
            "offered {offered:?}"
        );
    }
    for protocol in ["h2", "http/1.1"] {
        let client = Client::new(&c.target, &c.target.admin, protocol);
        client.send(Ask::get("/version")).await.is(200).has("/major", "1");
    }
}

async fn no_certificate(c: Cx) {
    let nobody = c.anonymous();
    nobody.send(Ask::get("/version")).await.is(200);
    nobody
        .send(Ask::get("/api/v1/namespaces"))
        .await
        .fails(403, "Forbidden")
        .says("namespaces is forbidden: User \"system:anonymous\" cannot list resource \"namespaces\" in API group \"\" at the cluster scope");
}

async fn strange_certificate(c: Cx) {
    let now = jiff::Timestamp::now();
    let strange = Pki::open(None, &[], now).unwrap();
    let pair = strange
        .issue_client_certificate("admin", &["system:masters"], 3600, now)
        .unwrap();
    let client = c.client(&Credential::pair(&pair.certificate_pem, &pair.key_pem));
    for path in ["/api/v1/namespaces", "/version", "/healthz"] {
        client
            .send(Ask::get(path))
            .await
            .fails(401, "Unauthorized")
            .says("Unauthorized");
    }
}

async fn bad_token(c: Cx) {
    let client = c.anonymous();
    for path in ["/healthz", "/version", "/api/v1/namespaces"] {
        let reply = client.send(Ask::get(path).token("no.such.token")).await;
        reply.fails(401, "Unauthorized").says("Unauthorized").lacks("/details");
    }
}

/// As many streams as a connection may have, and one more, opened by hand: a client of a library would wait.
async fn one_stream_too_many(c: &Cx) {
    const CONCURRENT_STREAMS: u16 = 3;
    const PROTOCOL_ERROR: u32 = 1;
    const REFUSED_STREAM: u32 = 7;
    let path = c.core_called("full", "secrets").await;
    let mut stream = c.admin.connect(&["h2"]).await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    stream.write_all(&bytes).await.unwrap();
    let settings = loop {
        let (kind, flags, _, payload) = read_frame(&mut stream).await;
        if kind == 4 && flags == 0 {
            break payload;
        }
    };
    let limit = settings.chunks_exact(6).find_map(|it| {
        let id = u16::from_be_bytes([it[0], it[1]]);
        (id == CONCURRENT_STREAMS).then(|| u32::from_be_bytes([it[2], it[3], it[4], it[5]]))
    });
    let limit = limit.expect("a server says how many streams a connection may have");
    assert!((100..=1000).contains(&limit), "{limit} streams");
    let mut bytes = frame(4, 1, 0, &[]);
    for number in 0..=limit {
        bytes.extend(frame(1, 5, 1 + 2 * number, &get(c, &format!("{path}?watch=1"))));
    }
    let (mut read, mut write) = tokio::io::split(stream);
    let writing = tokio::spawn(async move {
        write.write_all(&bytes).await.unwrap();
        write
    });
    let answered = async {
        let (mut heads, mut refused) = (0, Vec::new());
        while heads + (refused.len() as u32) < limit + 1 {
            match read_frame(&mut read).await {
                (1, ..) => heads += 1,
                (3, _, id, code) => refused.push((id, u32::from_be_bytes(code.try_into().unwrap()))),
                (7, ..) => panic!("the connection goes away"),
                _ => {}
            }
        }
        refused
    };
    let refused = tokio::time::timeout(Duration::from_secs(60), answered).await;
    let refused = refused.expect("every stream is answered or refused");
    assert!(
        matches!(refused.as_slice(), [(id, REFUSED_STREAM | PROTOCOL_ERROR)] if *id == 1 + 2 * limit),
        "of {limit} streams and one more were refused: {refused:?}"
    );
    // The connection lives on.
    let mut write = writing.await.unwrap();
    write.write_all(&frame(6, 0, 0, b"12345678")).await.unwrap();
    let answered = async {
        loop {
            if let (6, 1, _, payload) = read_frame(&mut read).await {
                return payload;
            }
        }
    };
    let payload = tokio::time::timeout(Duration::from_secs(10), answered).await;
    assert_eq!(payload.expect("the PING is answered"), b"12345678");
}

/// The header block of a GET as the administrator.
fn get(c: &Cx, path: &str) -> Vec<u8> {
    let mut headers = Vec::new();
    headers.extend(literal(":method", "GET"));
    headers.extend(literal(":scheme", "https"));
    headers.extend(literal(":authority", &format!("{}:{}", c.target.host, c.target.port)));
    headers.extend(literal(":path", path));
    if let Some(token) = &c.target.admin.token {
        headers.extend(literal("authorization", &format!("Bearer {token}")));
    }
    headers
}

async fn many_streams(c: Cx) {
    one_stream_too_many(&c).await;
    let path = c.core("configmaps").await;
    let client = Client::new(&c.target, &c.target.admin, "h2");
    client.send(Ask::get("/version")).await.is(200);
    let mut watches = tokio::task::JoinSet::new();
    for _ in 0..130 {
        let (client, path) = (client.clone(), format!("{path}?watch=1"));
        watches.spawn(async move { client.watch(Ask::get(path)).await });
    }
    // Those that wait for a place get it when others end, whichever they are.
    let mut ended = 0;
    while let Some(watch) = watches.join_next().await {
        drop(watch.unwrap());
        ended += 1;
    }
    assert_eq!(ended, 130);
    client.send(Ask::get("/version")).await.is(200);
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A header that no table knows.
fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        // Lengths from 127 on take a second byte, and a third when that overflows.
        let mut rest = text.len();
        if rest < 127 {
            bytes.push(rest as u8);
        } else {
            bytes.push(127);
            rest -= 127;
            while rest >= 128 {
                bytes.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            bytes.push(rest as u8);
        }
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// Frames by hand: what other clients send on the same connection is not in the way.
async fn ping(c: Cx) {
    let path = c.core("configmaps").await;
    let mut stream = c.admin.connect(&["h2"]).await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    for number in 0..50u32 {
        bytes.extend(frame(1, 5, 1 + 2 * number, &get(&c, &format!("{path}?watch=1"))));
    }
    stream.write_all(&bytes).await.unwrap();
    let ready = async {
        let mut heads = 0;
        while heads < 50 {
            let (kind, ..) = read_frame(&mut stream).await;
            heads += u32::from(kind == 1);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ready)
        .await
        .expect("50 watches start");
    for number in 0..3 {
        c.make(&path, config_map(&format!("m{number}"), json!({"a": "b"})))
            .await;
    }
    let answered = async {
        stream.write_all(&frame(6, 0, 0, b"12345678")).await.unwrap();
        loop {
            let (kind, flags, _, payload) = read_frame(&mut stream).await;
            if kind == 6 && flags == 1 {
                return payload;
            }
        }
    };
    let (payload, took) = timed(tokio::time::timeout(Duration::from_secs(10), answered)).await;
    assert_eq!(payload.expect("the PING is answered"), b"12345678");
    assert!(took < Duration::from_secs(1), "the PING was answered after {took:?}");
}

/// Type, flags, stream and content.
async fn read_frame(stream: &mut (impl AsyncReadExt + Unpin)) -> (u8, u8, u32, Vec<u8>) {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    stream.read_exact(&mut payload).await.unwrap();
    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    (head[3], head[4], id, payload)
}

async fn version(c: Cx) {
    let reply = c.anonymous().send(Ask::get("/version")).await.is(200);
    for key in ["major", "minor"] {
        assert!(
            reply[key].as_str().is_some_and(|it| !it.is_empty()),
            "no {key}: {}",
            reply.came()
        );
    }
    let git = reply["gitVersion"].as_str().unwrap_or_default();
    let numbers: Vec<&str> = git
        .strip_prefix('v')
        .unwrap_or_default()
        .split(['+', '-'])
        .next()
        .unwrap()
        .split('.')
        .collect();
    assert!(
        numbers.len() == 3 && numbers.iter().all(|it| it.parse::<u32>().is_ok()),
        "{git:?} is no vX.Y.Z"
    );
    assert!(
        !git.contains('-'),
        "{git:?} has a pre-release part, which fails Helm's constraints"
    );
}

async fn health(c: Cx) {
    let nobody = c.anonymous();
    for which in ["livez", "readyz", "healthz"] {
        let reply = nobody.send(Ask::get(format!("/{which}"))).await.is(200);
        assert_eq!(reply.text(), "ok", "{which}");
        let verbose = nobody.send(Ask::get(format!("/{which}?verbose"))).await.is(200).text();
        assert!(
            verbose.contains("[+]ping ok\n") && verbose.contains(&format!("{which} check passed")),
            "{verbose}"
        );
        let reply = nobody
            .send(Ask::get(format!("/{which}?exclude=etcd&exclude=unheard-of")))
            .await
            .is(200);
        assert_eq!(reply.text(), "ok", "{which}");
        let verbose = nobody
            .send(Ask::get(format!("/{which}?verbose&exclude=etcd")))
            .await
            .is(200)
            .text();
        assert!(verbose.contains("[+]etcd excluded: ok"), "{verbose}");
    }
    // Strangers may `get` it, and HEAD is another verb.
    nobody.send(Ask::new("HEAD", "/livez")).await.is(403);
    c.send(Ask::new("HEAD", "/livez")).await.is(200);
    nobody.send(Ask::get("/livez/ping")).await.is(403);
    c.get("/livez/ping").await.is(200);
    c.get("/healthz/").await.is(404);
}

async fn shutdown(c: Cx) {
    let (own, c) = c.own_server().await;
    let mut watch = c.watch("/api/v1/configmaps?watch=1&resourceVersion=1000000").await;
    let asking = tokio::spawn(async move {
        let mut codes = Vec::new();
        // A connection each, until there are none any more.
        loop {
            let client = Client::new(&c.target, &c.target.admin, "http/1.1");
            let asked = tokio::spawn(async move { client.attempt(&Ask::get("/readyz?verbose")).await });
            match asked.await {
                Ok(Ok(reply)) => {
                    if reply.code == 500 {
                        let text = reply.text();
                        assert!(
                            text.contains("[-]shutdown failed: reason withheld\n")
                                && text.contains("[+]ping ok\n")
                                && text.ends_with("readyz check failed\n"),
                            "{text}"
                        );
                    }
                    codes.push(reply.code);
                }
                _ => return codes,
            }
        }
    });
    own.stop().await;
    assert!(watch.event().await.is_none(), "the watch should end without an event");
    let codes = asking.await.unwrap();
    assert!(
        codes.contains(&500),
        "/readyz never said 500 while the server stopped: {codes:?}"
    );
}

async fn unknown(c: Cx) {
    c.get("/api/v1/foos")
        .await
        .fails(404, "NotFound")
        .says("the server could not find the requested resource");
    c.get("/apis/apps/v1/namespaces/default/foos/x")
        .await
        .fails(404, "NotFound");
    c.get("/apis/apps/v1/namespaces/default/deployments/x/foo")
        .await
        .fails(404, "NotFound");
    for path in ["/apis/apps/v7/deployments", "/apis/apps/v7", "/api/v2"] {
        c.get(path)
            .await
            .fails(404, "NotFound")
            .says("the server could not find the requested resource");
    }
    for path in ["/apis/nope/v1/x", "/apis/nope", "/nope"] {
        let reply = c.get(path).await.is(404);
        assert_eq!(
            (reply.header("content-type").as_str(), reply.text().as_str()),
            ("text/plain; charset=utf-8", "404 page not found\n"),
            "{path}"
        );
    }
}

async fn methods(c: Cx) {
    let refused = "the server does not allow this method on the requested resource";
    let body = json!({"metadata": {"name": "x"}});
    for (method, path) in [
        ("PUT", "/api/v1/namespaces"),
        ("POST", "/api/v1/namespaces/default"),
        ("PATCH", "/api/v1/namespaces"),
        ("DELETE", "/api/v1/namespaces"),
        ("POST", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/configmaps"),
        ("OPTIONS", "/api/v1/namespaces"),
        ("TRACE", "/api/v1/namespaces"),
    ] {
        let reply = c.send(Ask::new(method, path).json(&body)).await;
        reply.fails(405, "MethodNotAllowed").says(refused);
    }
    c.send(Ask::new("HEAD", "/api/v1/namespaces")).await.is(405);
    c.send(Ask::new("POST", "/version").json(&body)).await.is(405);
    // Paths of custom resources are found before their methods are.
    let kind = c.define_simple("things", "Thing", json!({})).await;
    let everywhere = format!("/apis/{}/v1/things", kind.group);
    for (method, path) in [
        ("POST", everywhere.clone()),
        ("DELETE", everywhere.clone()),
        ("PUT", everywhere.clone()),
        ("GET", format!("{everywhere}/x")),
    ] {
        let reply = c.send(Ask::new(method, path).json(&body)).await.is(404);
        assert_eq!(reply.text(), "404 page not found\n", "{method}");
    }
    for method in ["PUT", "PATCH"] {
        let ask = Ask::new(method, &kind.path).bytes("application/merge-patch+json", body.to_string());
        let ask = if method == "PUT" { ask.json(&body) } else { ask };
        c.send(ask).await.fails(400, "BadRequest").says("name must be provided");
    }
}

async fn slash(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({}))).await;
    c.get(&format!("{path}/")).await.is(200).has("/kind", "ConfigMapList");
    c.get(&format!("{path}/a/")).await.is(200).has("/metadata/name", "a");
    for path in ["/api/", "/apis/", "/apis/apps/", "/apis/apps/v1/", "/version/"] {
        // Beside this check others define groups: what is compared was the same before and after.
        let (mut before, mut with) = (Value::Null, Value::Null);
        let mut without = c.get(path.trim_end_matches('/')).await.is(200).json;
        while before != without {
            before = without;
            with = c.get(path).await.is(200).json;
            without = c.get(path.trim_end_matches('/')).await.is(200).json;
        }
        assert_eq!(with, without, "{path}");
    }
}
