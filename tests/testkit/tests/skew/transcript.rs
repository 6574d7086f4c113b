//! What was said, without what is another each time: one line of JSON per request.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    session::{ADMIN, JOINER},
    wire::Exchange,
};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The agent, before it has a credential of its own.
    Joiner,
    Agent,
    /// The agent of the add-on.
    AddOn,
    Hub,
    User,
}

impl By {
    fn of(user: &str) -> Self {
        match user {
            JOINER => Self::Joiner,
            ADMIN => Self::User,
            it if it.contains(":addon:") => Self::AddOn,
            it if it.starts_with("system:open-cluster-management:") => Self::Agent,
            _ => Self::Hub,
        }
    }

    /// Whether it is on the cluster's side of the wire.
    pub fn is_of_cluster(self) -> bool {
        self <= Self::AddOn
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The place among the lines of both sides. Of a line without one it is only known that it can come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<usize>,
    pub by: By,
    /// The HTTP method, or WATCH.
    pub verb: String,
    pub path: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub query: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content_type: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub body: Value,
    pub code: u16,
}

impl Line {
    pub fn is_read(&self) -> bool {
        matches!(self.verb.as_str(), "GET" | "WATCH")
    }

    /// What a hub has to be able to answer.
    fn need(&self) -> String {
        let by = format!("{:?}", self.by).to_lowercase();
        let words = [&by, &self.verb, &self.path, &self.query, &self.content_type];
        let words: Vec<_> = words.iter().map(|it| it.as_str()).filter(|it| !it.is_empty()).collect();
        words.join(" ")
    }

    // A refusal is no answer; that something is missing, or there already, is one.
    fn was_answered(&self) -> bool {
        self.code < 400 || matches!(self.code, 404 | 409)
    }
}

/// Parameters of a question that do not change what the server must be able to do.
const COMMON: [&str; 8] = [
    "watch",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
    "timeout",
    "limit",
    "continue",
    "allowWatchBookmarks",
];

/// The lines of a session.
pub fn lines(exchanges: &[Exchange]) -> Vec<Line> {
    let mut names = BTreeMap::new();
    for it in exchanges {
        if let Some(prefix) = it.body["metadata"]["generateName"].as_str().filter(|_| it.code < 300) {
            names.insert(it.name.clone(), format!("<{prefix}>"));
        }
    }
    let mut lines: Vec<Line> = Vec::new();
    for (at, it) in exchanges.iter().enumerate() {
        let by = By::of(&it.user);
        let mut body = it.body.clone();
        strip(&mut body);
        replace(&mut body, &|text| constant(text, &names));
        let query = url_pairs(&it.query);
        let is_watch = query.iter().any(|(key, value)| key == "watch" && value != "false");
        let kept = query.iter().filter(|(key, _)| !COMMON.contains(&key.as_str()));
        // The name of the test's own program.
        let kept = kept.filter(|(key, value)| key != "fieldManager" || !value.starts_with("skew"));
        let kept: Vec<_> = kept
            .map(|(key, value)| format!("{key}={}", constant(value, &names)))
            .collect();
        let line = Line {
            at: Some(at),
            by,
            verb: if is_watch {
                "WATCH".to_owned()
            } else {
                it.method.clone()
            },
            path: constant(&it.path, &names),
            query: kept.join("&"),
            content_type: it.content_type.clone(),
            body,
            code: it.code,
        };
        // Of the hub it counts what it has done. Said again is said once.
        let counts = by.is_of_cluster() || (!line.is_read() && line.code < 300);
        let same = |other: &Line| {
            Line {
                at: line.at,
                ..other.clone()
            } == line
        };
        if counts && line.code > 0 && !lines.iter().any(same) {
            lines.push(line);
        }
    }
    lines
}

fn url_pairs(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|it| !it.is_empty());
    let pair = |it: &str| {
        let (key, value) = it.split_once('=').unwrap_or((it, ""));
        (
            key.to_owned(),
            value.replace("%3D", "=").replace("%2F", "/").replace("%2C", ","),
        )
    };
    pairs.map(pair).collect()
}

// What belongs to one incarnation of an object, and what only readers of a definition want.
fn strip(body: &mut Value) {
    if body["kind"] == "CustomResourceDefinition" {
        without_descriptions(body);
    }
    if let Some(body) = body.as_object_mut() {
        body.remove("preconditions");
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
                metadata.remove(field);
            }
        }
    }
}

fn without_descriptions(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| key != "description" || !value.is_string());
            map.values_mut().for_each(without_descriptions);
        }
        Value::Array(list) => list.iter_mut().for_each(without_descriptions),
        _ => {}
    }
}

/// Replaces every text in a document.
pub fn replace(value: &mut Value, by: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = by(text),
        Value::Array(list) => list.iter_mut().for_each(|it| replace(it, by)),
        Value::Object(map) => map.values_mut().for_each(|it| replace(it, by)),
        _ => {}
    }
}

fn constant(text: &str, names: &BTreeMap<String, String>) -> String {
    static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        [
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "<microtime>"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>"),
            (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC", "<date>"),
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
            (r"\.[0-9a-f]{16}\b", ".<random>"),
            (r"127\.0\.0\.1:\d+", "<hub>"),
            (r"[A-Za-z0-9+/]{120,}=*", "<bytes>"),
            (r"\b[0-9a-f]{64}\b", "<hash>"),
        ]
        .map(|(pattern, word)| (Regex::new(pattern).unwrap(), word))
        .into()
    });
    let mut text = text.to_owned();
    for (name, word) in names {
        text = text.replace(name, word);
    }
    for (pattern, word) in PATTERNS.iter() {
        text = pattern.replace_all(&text, *word).into_owned();
    }
    text
}

/// What `today` needs of a hub, and what it tells it, that a recorded session did not.
pub fn news(recorded: &[Line], today: &[Line]) -> Vec<String> {
    let needs = |lines: &[Line]| {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in lines.iter().filter(|it| it.by.is_of_cluster() && it.was_answered()) {
            fields(&line.body, "", all.entry(line.need()).or_default());
        }
        all
    };
    let recorded = needs(recorded);
    let mut news = Vec::new();
    for (need, fields) in needs(today) {
        match recorded.get(&need) {
            None => news.push(format!("+ {need}")),
            Some(known) => news.extend(fields.difference(known).map(|field| format!("+ {need}: {field}"))),
        }
    }
    news
}

fn fields(value: &Value, path: &str, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                fields(value, &format!("{path}.{key}"), all);
            }
        }
        Value::Array(list) => list.iter().for_each(|it| fields(it, &format!("{path}[]"), all)),
        Value::Null => {}
        _ => {
            all.insert(path.trim_start_matches('.').to_owned());
        }
    }
}

/// The recorded versions: a folder each.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/wire")
}

/// The sessions of all recorded versions, their lines in order.
pub fn recorded() -> Vec<(String, Vec<Line>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let entry = entry.unwrap();
        let mut lines: Vec<Line> = Vec::new();
        for file in FILES {
            let path = entry.path().join(file.0);
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            lines.extend(text.lines().map(|it| serde_json::from_str(it).unwrap()));
        }
        lines.sort_by_key(|it| it.at.unwrap_or(usize::MAX));
        all.push((entry.file_name().to_string_lossy().into_owned(), lines));
    }
    assert!(!all.is_empty(), "nothing is recorded: WIRE_WRITE=1 does");
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

const FILES: [(&str, bool); 2] = [("agent.jsonl", true), ("hub.jsonl", false)];

/// Writes the first session as it went, and of the others what can come as well.
pub fn write(sessions: &[Vec<Line>]) {
    let folder = folder().join(env!("CARGO_PKG_VERSION"));
    fs::create_dir_all(&folder).unwrap();
    let mut all = sessions[0].clone();
    for line in sessions[1..].iter().flatten().filter(|it| it.by.is_of_cluster()) {
        if !news(&all, std::slice::from_ref(line)).is_empty() {
            all.push(Line {
                at: None,
                ..line.clone()
            });
        }
    }
    for (file, of_cluster) in FILES {
        let lines = all.iter().filter(|it| it.by.is_of_cluster() == of_cluster);
        let text: String = lines.map(|it| serde_json::to_string(it).unwrap() + "\n").collect();
        fs::write(folder.join(file), text).unwrap();
    }
}
