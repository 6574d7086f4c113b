//! Runs the checks: which, where, several at a time, and what is said of them.

use crate::{
    check::{self, Check},
    cluster::{self, Embedded},
    cx::Cx,
    known, report, sections,
};
use futures::stream::{self, StreamExt};
use std::{
    collections::HashMap,
    io::Write,
    panic,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{LazyLock, Mutex},
    time::{Duration, Instant},
};

/// Checks that run at once.
const AT_ONCE: usize = 6;
/// A check that has not ended by then has failed.
const DEADLINE: Duration = Duration::from_secs(240);

/// Names the file that the lines of `.ci/run`'s table go into.
const SUMMARY: &str = "LANES_SUMMARY";

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

/// What a check's task said when it panicked, with its place.
static SAID: LazyLock<Mutex<HashMap<tokio::task::Id, String>>> = LazyLock::new(Mutex::default);

fn listen_to_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let text = match (
            info.payload().downcast_ref::<&str>(),
            info.payload().downcast_ref::<String>(),
        ) {
            (Some(text), _) => (*text).to_owned(),
            (_, Some(text)) => text.clone(),
            _ => "it panicked".to_owned(),
        };
        match (tokio::task::try_id(), info.location()) {
            (Some(id), Some(at)) => {
                let file = Path::new(at.file()).file_name().unwrap_or_default().to_string_lossy();
                let text = format!("{text}\n      ({file}:{})", at.line());
                SAID.lock().unwrap().insert(id, text);
            }
            _ => usual(info),
        }
    }));
}

/// Whether a program can be found.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|it| it.join(program).is_file())
}

async fn run_one(check: &Check, cx: Cx) -> Outcome {
    if let (Some(why), true) = (check.embedded_only, std::env::var_os(CLUSTER).is_some()) {
        return Outcome::Skipped(format!("needs the embedded server: {why}"));
    }
    if let Some(program) = check.program.filter(|it| !is_installed(it)) {
        return Outcome::Skipped(format!("needs {program}"));
    }
    let host = cx.target.host.as_str();
    if check.is_called_back && !matches!(host, "127.0.0.1" | "localhost" | "::1") {
        return Outcome::Skipped(format!(
            "has webhooks on this machine's loopback address, and the server is at {host}"
        ));
    }
    let task = tokio::spawn(tokio::time::timeout(DEADLINE, check.run(cx.clone())));
    let id = task.id();
    let outcome = match task.await {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(_)) => Outcome::Failed(format!("it did not end within {} s", DEADLINE.as_secs())),
        Err(_) => Outcome::Failed(SAID.lock().unwrap().remove(&id).unwrap_or_default()),
    };
    cx.clean().await;
    outcome
}

/// Names the kubeconfig of the server that is asked instead of an embedded one.
pub const CLUSTER: &str = "DROVER_TEST_CLUSTER";
const WRITE: &str = "DROVER_WRITE_CONFORMANCE";

/// Whether this run writes down what came, where others compare.
pub fn writes() -> bool {
    std::env::var_os(WRITE).is_some()
}

struct Arguments {
    words: Vec<String>,
    list: bool,
}

/// The arguments of a test program, as far as they concern this one.
fn arguments() -> Arguments {
    let mut words = Vec::new();
    let mut list = false;
    let mut all = std::env::args().skip(1);
    while let Some(argument) = all.next() {
        match argument.as_str() {
            "--list" => list = true,
            "--test-threads" | "--skip" | "--format" | "--color" => drop(all.next()),
            it if it.starts_with('-') => {}
            word => words.push(word.to_owned()),
        }
    }
    Arguments { words, list }
}

fn is_chosen(check: &Check, words: &[String]) -> bool {
    words.is_empty()
        || words.iter().any(|it| {
            let number = it.chars().all(|it| it.is_ascii_digit() || it == '.');
            if number {
                check.number == it
            } else {
                check.says.contains(it.as_str())
            }
        })
}

pub fn main() -> ExitCode {
    let Arguments { words, list } = arguments();
    let mut all = sections::all();
    all.sort_by(|one, other| check::compare(one.number, other.number));
    if list {
        all.iter().for_each(|it| println!("{} {}: test", it.number, it.says));
        return ExitCode::SUCCESS;
    }
    let mut wrong = report::check_list(&all);
    let chosen: Vec<&Check> = all.iter().filter(|it| is_chosen(it, &words)).collect();
    if !chosen.is_empty() {
        listen_to_panics();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let (results, took) = runtime.block_on(timed(run_all(&chosen)));
        wrong.extend(say(&chosen, &results, !words.is_empty()));
        summarise(&words, &results, took);
        if words.is_empty() && writes() {
            report::write(&all, &results, std::env::var_os(CLUSTER).is_some());
        }
    }
    if words.is_empty() {
        wrong.extend(report::check_page(&all));
    }
    if wrong.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("\n{}", wrong.join("\n"));
    ExitCode::FAILURE
}

async fn run_all(chosen: &[&Check]) -> Vec<Outcome> {
    let (target, embedded) = match std::env::var_os(CLUSTER) {
        Some(path) => (cluster::read_kubeconfig(&PathBuf::from(path)), None),
        None => {
            let embedded = Embedded::start().await;
            (embedded.target.clone(), Some(embedded))
        }
    };
    let run = format!("{:04x}", rand::random::<u16>());
    // As they end: one that takes its time holds nobody up.
    let mut results: Vec<(usize, Outcome)> = stream::iter(chosen.iter().enumerate())
        .map(|(at, check)| {
            let cx = Cx::new(&target, check.number, &run);
            async move { (at, run_one(check, cx).await) }
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    results.sort_by_key(|it| it.0);
    if let Some(embedded) = embedded {
        embedded.stop().await;
    }
    results.into_iter().map(|it| it.1).collect()
}

/// Prints what happened and returns what is wrong with it.
fn say(chosen: &[&Check], results: &[Outcome], verbose: bool) -> Vec<String> {
    let embedded = std::env::var_os(CLUSTER).is_none();
    let mut wrong = Vec::new();
    let mut counts = [0; 4];
    for (check, outcome) in chosen.iter().zip(results) {
        let known = known::EMBEDDED.iter().find(|it| embedded && it.0 == check.number);
        let (at, word) = match (outcome, known) {
            (Outcome::Passed, None) => (0, "ok".to_owned()),
            (Outcome::Passed, Some(_)) => {
                wrong.push(format!("{} passes: take it out of the known gaps", check.number));
                (1, "ok, and listed as a known gap".to_owned())
            }
            (Outcome::Failed(_), Some((_, why))) => (2, format!("known gap: {why}")),
            (Outcome::Failed(_), None) => (1, "FAILED".to_owned()),
            (Outcome::Skipped(why), _) => (3, format!("skipped: {why}")),
        };
        counts[at] += 1;
        if verbose || at > 0 {
            println!("{:>6} {:6} {} ... {word}", check.number, check.level.word(), check.says);
        }
        if let (Outcome::Failed(why), true) = (outcome, at == 1 || verbose) {
            println!("      {why}");
            if at == 1 {
                wrong.push(format!("{} failed", check.number));
            }
        }
    }
    let [passed, failed, gaps, skipped] = counts;
    println!("conformance: {passed} passed, {failed} failed, {gaps} known gaps, {skipped} skipped");
    wrong
}

/// Adds a line to the table that `.ci/run` prints at its end, in the form in which the stories do.
fn summarise(words: &[String], results: &[Outcome], took: Duration) {
    let Some(file) = std::env::var_os(SUMMARY) else { return };
    let count = |wanted: fn(&Outcome) -> bool| results.iter().filter(|it| wanted(it)).count();
    let lane = match std::env::var_os(CLUSTER) {
        Some(_) => "real",
        None => "embedded",
    };
    let part = words.iter().map(|it| format!(", {it}")).collect::<String>();
    let line = format!(
        "API conformance: {lane}{part}\t{}\t{}\t{}\t{}\t",
        count(|it| matches!(it, Outcome::Passed)),
        count(|it| matches!(it, Outcome::Failed(_))),
        count(|it| matches!(it, Outcome::Skipped(_))),
        took.as_secs_f64().round()
    );
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
    opened.and_then(|mut it| writeln!(it, "{line}")).expect(SUMMARY);
}

/// How long something took.
pub async fn timed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let value = future.await;
    (value, start.elapsed())
}
