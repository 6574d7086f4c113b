//! The server that is killed, and its load. It writes one line for everything that somebody was told.

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, BodyStream, Full};
use kube_api::{
    Options, Server,
    identity::{MASTERS, User},
    persist::{Redb, Storage},
    respond::Body,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use redb::{StorageBackend, backends::FileBackend};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{self, Write},
    ops::Bound,
    path::Path,
    sync::atomic::{AtomicI64, Ordering},
};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 4;
const KEYS_PER_WRITER: usize = 5;

/// One line to the parent, in one piece.
fn say(line: std::fmt::Arguments<'_>) {
    let line = format!("{line}\n");
    // The parent may be gone; then nobody is left to tell.
    let _ = io::stdout().lock().write_all(line.as_bytes());
}

/// A file that stops the process's writing for good at one operation, in the middle of it.
#[derive(Debug)]
struct Pausing {
    file: FileBackend,
    left: AtomicI64,
}

impl Pausing {
    /// Whether this is the operation.
    fn is_last(&self) -> bool {
        self.left.fetch_sub(1, Ordering::SeqCst) == 0
    }

    fn pause(&self) {
        say(format_args!("K"));
        loop {
            std::thread::park();
        }
    }
}

impl StorageBackend for Pausing {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.is_last() {
            self.pause();
        }
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        if self.is_last() {
            self.pause();
        }
        self.file.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.is_last() {
            self.file.write(offset, &data[..data.len() / 2])?;
            self.pause();
        }
        self.file.write(offset, data)
    }
    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, redb::BackendError> {
        self.file.try_lock_range(start, end)
    }
}

fn storage(dir: &Path, pause_at: i64) -> Box<dyn Storage> {
    let path = dir.join("objects.redb");
    if !path.exists() {
        return Box::new(Redb::open(&path).unwrap());
    }
    let make = move || {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path)?;
        Ok(Pausing {
            file: FileBackend::new(file).map_err(io::Error::other)?,
            left: AtomicI64::new(pause_at),
        })
    };
    Box::new(Redb::with_backend("objects.redb", make, Box::new(())).unwrap())
}

/// `DIR SEED PAUSE_AT RESUME`: where the data is, what dice to throw, at which operation to pause (or never, -1), and
/// the revision from which an old watch goes on (or 0).
pub fn run(arguments: &[String]) {
    let number = |at: usize| arguments[at].parse::<i64>().expect("a number");
    let (seed, pause_at, resume) = (number(1) as u64, number(2), number(3) as u64);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .expect("a runtime")
        .block_on(serve(Path::new(&arguments[0]), seed, pause_at, resume));
}

async fn serve(dir: &Path, seed: u64, pause_at: i64, resume: u64) {
    std::fs::create_dir_all(dir).unwrap();
    let storage = (pause_at >= 0).then(|| storage(dir, pause_at));
    let options = Options {
        data_dir: Some(dir.to_owned()),
        storage,
        ..Options::default()
    };
    let server = Server::open(options).await.unwrap();
    let start = server.store().revision();
    let list = value(ask(&server, Method::GET, CONFIGMAPS, None).await).await;
    let mut found = BTreeMap::new();
    for item in list["items"].as_array().unwrap() {
        let (key, revision, text) = told(item);
        if key.starts_with("root") || key == "kube-root-ca.crt" {
            continue;
        }
        say(format_args!("O {key} {revision} {text}"));
        found.insert(key.to_owned(), (revision.to_owned(), text.to_owned()));
    }
    say(format_args!("R {start}"));
    let watches = [
        ("all", start, ""),
        ("old", resume, ""),
        ("some", start, "&labelSelector=load%3Dyes"),
    ];
    for (name, from, more) in watches {
        if from > 0 {
            let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={from}{more}");
            let response = ask(&server, Method::GET, &path, None).await;
            say(format_args!("W {name} {from}"));
            tokio::spawn(look_on(name, response));
        }
    }
    let mut dice = StdRng::seed_from_u64(seed);
    let writers = (0..WRITERS).map(|number| {
        let own = found.iter().filter(|(key, _)| key.starts_with(&format!("w{number}-")));
        let own = own
            .map(|(key, (revision, _))| (key.clone(), revision.clone()))
            .collect();
        write(&server, number, StdRng::seed_from_u64(dice.random()), own)
    });
    futures::future::join_all(writers).await;
}

async fn ask(server: &Server, method: Method, path: &str, body: Option<Value>) -> Response<Body> {
    let body = body.map_or_else(Bytes::new, |it| it.to_string().into());
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Full::new(body))
        .unwrap();
    server.answer(request, User::new("admin", &[MASTERS])).await
}

async fn value(response: Response<Body>) -> Value {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

/// Name, revision and text of an object.
fn told(object: &Value) -> (&str, &str, &str) {
    (
        object["metadata"]["name"].as_str().unwrap_or("-"),
        object["metadata"]["resourceVersion"].as_str().unwrap_or("0"),
        object["data"]["text"].as_str().unwrap_or("-"),
    )
}

async fn look_on(name: &str, response: Response<Body>) {
    let mut chunks = BodyStream::new(response.into_body());
    let mut rest = Vec::new();
    while let Some(Ok(frame)) = chunks.next().await {
        rest.extend_from_slice(&frame.into_data().unwrap_or_default());
        while let Some(end) = rest.iter().position(|it| *it == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).unwrap();
            let kind = event["type"].as_str().unwrap();
            if kind == "ERROR" {
                say(format_args!("G {name} {}", event["object"]["code"]));
                continue;
            }
            let (key, revision, text) = told(&event["object"]);
            say(format_args!("E {name} {kind} {key} {revision} {text}"));
        }
    }
}

fn config_map(key: &str, text: &str, padding: usize, revision: Option<&str>) -> Value {
    let mut metadata = json!({"name": key, "labels": {"load": "yes"}});
    if let Some(revision) = revision {
        metadata["resourceVersion"] = revision.into();
    }
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
        "data": {"text": text, "padding": "x".repeat(padding)},
    })
}

/// Writes for ever. `own` are the keys that only this writer touches, with their revisions.
async fn write(server: &Server, number: usize, mut dice: StdRng, mut own: BTreeMap<String, String>) {
    let life = dice.random::<u32>();
    for turn in 0_u64.. {
        let text = format!("{life:08x}.{number}.{turn}");
        if dice.random_range(0..4) == 0 {
            count(server, number).await;
            continue;
        }
        let key = format!("w{number}-{}", dice.random_range(0..KEYS_PER_WRITER));
        let padding = dice.random_range(0..3000);
        let path = format!("{CONFIGMAPS}/{key}");
        let (response, deletes) = match own.get(&key) {
            None => {
                say(format_args!("S {number} {key} {text}"));
                let body = config_map(&key, &text, padding, None);
                (ask(server, Method::POST, CONFIGMAPS, Some(body)).await, false)
            }
            Some(_) if dice.random_range(0..4) == 0 => {
                say(format_args!("S {number} {key} -"));
                (ask(server, Method::DELETE, &path, None).await, true)
            }
            Some(revision) => {
                say(format_args!("S {number} {key} {text}"));
                let body = config_map(
                    &key,
                    &text,
                    padding,
                    Some(revision).filter(|_| dice.random()).map(|it| &**it),
                );
                (ask(server, Method::PUT, &path, Some(body)).await, false)
            }
        };
        let code = response.status().as_u16();
        let answer = value(response).await;
        if code >= 300 {
            say(format_args!("X {number} {key} {code} {}", answer["message"]));
            continue;
        }
        if deletes {
            // The answer to a deletion is the last state; its revision is told by watches.
            say(format_args!("A {number} {key} 0"));
            own.remove(&key);
        } else {
            let revision = told(&answer).1.to_owned();
            say(format_args!("A {number} {key} {revision}"));
            own.insert(key, revision);
        }
    }
}

/// Adds one to what all writers count together, unless another is faster.
async fn count(server: &Server, number: usize) {
    let path = format!("{CONFIGMAPS}/counter");
    let response = ask(server, Method::GET, &path, None).await;
    let (method, at, revision, next) = if response.status() == 404 {
        (Method::POST, CONFIGMAPS, None, 1)
    } else {
        let before = value(response).await;
        let (_, revision, text) = told(&before);
        let next = text.parse::<u64>().unwrap() + 1;
        (Method::PUT, path.as_str(), Some(revision.to_owned()), next)
    };
    say(format_args!("S {number} counter {next}"));
    let body = config_map("counter", &next.to_string(), 0, revision.as_deref());
    let response = ask(server, method, at, Some(body)).await;
    let code = response.status().as_u16();
    let answer = value(response).await;
    if code == 409 {
        say(format_args!("C {number} counter"));
    } else if code >= 300 {
        say(format_args!("X {number} counter {code} {}", answer["message"]));
    } else {
        say(format_args!("A {number} counter {}", told(&answer).1));
    }
}
