//! Starts the server, kills it, and compares what the next one shows with what was told.

use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

/// A server that says nothing for so long does not come up any more.
const PATIENCE: Duration = Duration::from_secs(120);
/// Lives of servers at once: they wait for disks and for each other's processors.
const LANES: u64 = 2;

fn asked(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(otherwise, |it| {
        it.parse().unwrap_or_else(|_| panic!("{name} is a number"))
    })
}

/// Kills servers, and panics when something was lost.
pub fn run() {
    let kills = asked("CRASH_KILLS", 24);
    let seed = asked("CRASH_SEED", 1);
    let begun = Instant::now();
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| std::thread::spawn(move || live_and_die(seed * 1000 + lane, kills.div_ceil(LANES))))
        .collect();
    let mut total = Told::default();
    for lane in lanes {
        match lane.join() {
            Ok(told) => total.add(&told),
            Err(_) => {
                eprintln!("repeat with CRASH_SEED={seed} CRASH_KILLS={kills}");
                std::process::exit(1);
            }
        }
    }
    assert!(
        total.writes > kills && total.events > total.writes,
        "the load was too small to prove anything: {total:?}"
    );
    println!(
        "a_killed_server_has_lost_nothing ... ok: {} kills ({} while it started, {} in the middle of a write or sync), {} \
         acknowledged writes, {} events, {} unacknowledged writes of which {} were kept, in {:.0?}",
        total.kills,
        total.starting,
        total.paused,
        total.writes,
        total.events,
        total.unsure,
        total.unsure_kept,
        begun.elapsed()
    );
}

/// What all lives together were told.
#[derive(Debug, Default)]
struct Told {
    kills: u64,
    starting: u64,
    paused: u64,
    writes: u64,
    events: u64,
    unsure: u64,
    unsure_kept: u64,
}

impl Told {
    fn add(&mut self, other: &Self) {
        self.kills += other.kills;
        self.starting += other.starting;
        self.paused += other.paused;
        self.writes += other.writes;
        self.events += other.events;
        self.unsure += other.unsure;
        self.unsure_kept += other.unsure_kept;
    }
}

/// One state of an object: its text, or nothing after a deletion.
type Text = Option<String>;

/// What must be true of the objects.
#[derive(Default)]
struct Model {
    /// The last state of each key that somebody was told, and its revision (0 if it is not known:
    /// a deletion's answer does not say).
    objects: BTreeMap<String, (u64, Text)>,
    /// What else may be: writes that were begun and not answered.
    unsure: BTreeMap<String, Vec<Text>>,
    /// Every write of which a revision is known.
    by_revision: BTreeMap<u64, (String, Text)>,
    /// Every text that has ever been seen with a revision: nothing is written twice.
    revision_of_text: BTreeMap<(String, String), u64>,
    /// The last revision that anybody was told.
    last_revision: u64,
}

impl Model {
    fn learn(&mut self, revision: u64, key: &str, text: &Text) {
        self.last_revision = self.last_revision.max(revision);
        let known = self
            .by_revision
            .entry(revision)
            .or_insert_with(|| (key.to_owned(), text.clone()));
        assert_eq!(
            (known.0.as_str(), &known.1),
            (key, text),
            "revision {revision} is two writes"
        );
        if let Some(text) = text {
            let before = *self
                .revision_of_text
                .entry((key.to_owned(), text.clone()))
                .or_insert(revision);
            assert_eq!(before, revision, "{key} = {text} was written twice");
        }
        let last = self.objects.entry(key.to_owned()).or_default();
        if revision > last.0 {
            *last = (revision, text.clone());
        }
    }
}

/// One watch of one life.
struct Watch {
    from: u64,
    last: u64,
    gone: bool,
    seen: BTreeSet<u64>,
}

/// One life of a server, as it was told.
struct Life<'a> {
    model: &'a mut Model,
    told: &'a mut Told,
    /// What the server found.
    found: BTreeMap<String, (u64, Text)>,
    /// Set when it has shown everything that it found.
    start: Option<u64>,
    /// What each writer has begun.
    begun: BTreeMap<String, (String, Text)>,
    watches: BTreeMap<String, Watch>,
    /// A deletion that was answered: key, and what was there before.
    deletions: Vec<(String, u64)>,
}

fn text(word: &str) -> Text {
    (word != "-").then(|| word.to_owned())
}

impl Life<'_> {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.splitn(6, ' ').collect();
        match words[..] {
            ["O", key, revision, state] => {
                self.found
                    .insert(key.to_owned(), (revision.parse().unwrap(), text(state)));
            }
            ["R", revision] => self.begin(revision.parse().unwrap()),
            ["W", name, from] => {
                let from = from.parse().unwrap();
                let watch = Watch {
                    from,
                    last: from,
                    gone: false,
                    seen: BTreeSet::new(),
                };
                self.watches.insert(name.to_owned(), watch);
            }
            ["G", name, code] => {
                let watch = self.watches.get_mut(name).unwrap();
                assert_eq!(code, "410", "watch {name}");
                assert!(
                    name == "old" && watch.from < self.start.unwrap() && watch.seen.is_empty(),
                    "watch {name} from {} ended, the server began with {:?}",
                    watch.from,
                    self.start
                );
                watch.gone = true;
            }
            ["E", name, kind, key, revision, state] => self.event(name, kind, key, revision.parse().unwrap(), state),
            ["S", writer, key, state] => {
                self.begun.insert(writer.to_owned(), (key.to_owned(), text(state)));
            }
            ["A", writer, key, revision] => self.answer(writer, key, revision.parse().unwrap()),
            ["C", writer, _] => {
                self.begun.remove(writer);
            }
            _ => panic!("the server said: {line}"),
        }
    }

    /// The server has shown what it found: each object as it was last told, or as a write left it
    /// that was not answered.
    fn begin(&mut self, revision: u64) {
        assert!(
            revision >= self.model.last_revision,
            "revision {revision} at the start, and {} was told before",
            self.model.last_revision
        );
        let keys: BTreeSet<String> = self.model.objects.keys().chain(self.found.keys()).cloned().collect();
        for key in keys {
            let (last, wanted) = self.model.objects.get(&key).cloned().unwrap_or_default();
            let unsure = self.model.unsure.remove(&key).unwrap_or_default();
            self.told.unsure += unsure.len() as u64;
            match self.found.get(&key) {
                Some((found, state)) if *state == wanted => {
                    assert!(
                        last == 0 || *found == last,
                        "{key} was written by {last} and is of {found}"
                    );
                }
                None if wanted.is_none() => {}
                found => {
                    let state = found.and_then(|it| it.1.clone());
                    assert!(
                        unsure.contains(&state),
                        "{key} was told to be {wanted:?} (of {last}) and is {found:?}; not answered: {unsure:?}"
                    );
                    assert!(found.is_none_or(|it| it.0 > last), "{key}: {found:?} after {last}");
                    self.told.unsure_kept += 1;
                }
            }
            match self.found.get(&key) {
                Some((found, state)) => {
                    assert!(
                        *found <= revision,
                        "{key} is of {found}, and the server began with {revision}"
                    );
                    self.model.learn(*found, &key, state);
                    self.model.objects.insert(key, (*found, state.clone()));
                }
                None => {
                    self.model.objects.insert(key, (revision, None));
                }
            }
        }
        self.model.unsure.clear();
        self.model.last_revision = self.model.last_revision.max(revision);
        self.start = Some(revision);
    }

    fn event(&mut self, name: &str, kind: &str, key: &str, revision: u64, state: &str) {
        self.told.events += 1;
        let watch = self.watches.get_mut(name).unwrap();
        assert!(!watch.gone, "watch {name} went on after its end");
        assert!(
            revision > watch.last,
            "watch {name}: {revision} came after {}",
            watch.last
        );
        watch.last = revision;
        watch.seen.insert(revision);
        let state = if kind == "DELETED" { None } else { text(state) };
        if key.starts_with('w') || key == "counter" {
            self.model.learn(revision, key, &state);
        }
    }

    fn answer(&mut self, writer: &str, key: &str, revision: u64) {
        let (begun, state) = self.begun.remove(writer).expect("what is answered was begun");
        assert_eq!(begun, key);
        self.told.writes += 1;
        if revision == 0 {
            let before = self.model.objects.get(key).map_or(0, |it| it.0);
            // An event may have told already.
            if self.model.objects.get(key).is_some_and(|it| it.1.is_some()) {
                self.model.objects.insert(key.to_owned(), (before, None));
            }
            self.deletions.push((key.to_owned(), before));
            return;
        }
        assert!(
            revision > self.start.unwrap(),
            "{key}: revision {revision} is as old as the start"
        );
        self.model.learn(revision, key, &state);
    }

    /// After the kill: every watch has seen everything up to where it came.
    fn end(mut self) {
        for (name, watch) in &self.watches {
            if watch.gone {
                continue;
            }
            let range = (
                std::ops::Bound::Excluded(watch.from),
                std::ops::Bound::Included(watch.last),
            );
            for (revision, (key, state)) in self.model.by_revision.range(range) {
                assert!(
                    watch.seen.contains(revision),
                    "watch {name} came from {} to {} and did not see {revision}: {key} = {state:?}",
                    watch.from,
                    watch.last
                );
            }
        }
        for (_, (key, state)) in std::mem::take(&mut self.begun) {
            // Events may have told how it ended.
            let known = self
                .model
                .objects
                .get(&key)
                .is_some_and(|it| it.1 == state && state.is_some());
            if !known {
                self.model.unsure.entry(key).or_default().push(state);
            }
        }
    }
}

/// Where a server is killed.
enum Moment {
    /// So long after its exec, ready or not.
    Start(Duration),
    /// So long after its first answer.
    Load(Duration),
    /// At an operation of the storage.
    Operation(i64),
}

fn live_and_die(seed: u64, kills: u64) -> Told {
    let dir = tempfile::tempdir().expect("a directory");
    let mut dice = StdRng::seed_from_u64(seed);
    let (mut model, mut told) = (Model::default(), Told::default());
    let mut opening = Duration::from_millis(300);
    for number in 0..kills {
        let moment = match dice.random_range(0..10) {
            0 => Moment::Start(opening.mul_f64(dice.random_range(0.0..1.2))),
            1..5 if number > 0 => Moment::Operation(dice.random_range(0..200)),
            _ => Moment::Load(Duration::from_micros(dice.random_range(0..80_000))),
        };
        let resume = model.last_revision;
        let mut life = Life {
            model: &mut model,
            told: &mut told,
            found: BTreeMap::new(),
            start: None,
            begun: BTreeMap::new(),
            watches: BTreeMap::new(),
            deletions: Vec::new(),
        };
        let took = one_life(dir.path(), dice.random_range(0..i64::MAX), &moment, resume, &mut life);
        opening = took.unwrap_or(opening);
        let ready = life.start.is_some();
        life.end();
        told.kills += 1;
        told.starting += u64::from(!ready);
        told.paused += u64::from(matches!(moment, Moment::Operation(_)));
    }
    // What the last one left is looked at, too.
    let resume = model.last_revision;
    let mut life = Life {
        model: &mut model,
        told: &mut told,
        found: BTreeMap::new(),
        start: None,
        begun: BTreeMap::new(),
        watches: BTreeMap::new(),
        deletions: Vec::new(),
    };
    one_life(dir.path(), 0, &Moment::Load(Duration::ZERO), resume, &mut life);
    life.end();
    told
}

/// A child that does not outlive a parent that panics.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server, hears what it says, kills it at the moment, and hears the rest. Says how long it took to start.
fn one_life(dir: &Path, seed: i64, moment: &Moment, resume: u64, life: &mut Life<'_>) -> Option<Duration> {
    let pause_at = match moment {
        Moment::Operation(at) => *at,
        _ => -1,
    };
    let numbers = [seed, pause_at, resume as i64].map(|it| it.to_string());
    let begun = Instant::now();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("child")
        .arg(dir)
        .args(numbers)
        .stdout(Stdio::piped())
        .spawn()
        .map(Server)
        .unwrap();
    let output = BufReader::new(child.0.stdout.take().unwrap());
    let (sender, lines) = channel();
    let reader = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let took = hear(&lines, moment, begun, life, &mut child.0);
    let status = child.0.wait().unwrap();
    // What it had said before it died.
    for line in &lines {
        if line != "K" {
            life.hear(&line);
        }
    }
    reader.join().unwrap();
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(status.signal(), Some(9), "the server ended by itself: {status}");
    took
}

fn hear(
    lines: &Receiver<String>,
    moment: &Moment,
    begun: Instant,
    life: &mut Life<'_>,
    child: &mut Child,
) -> Option<Duration> {
    let mut took = None;
    let mut until = match moment {
        Moment::Start(after) => begun + *after,
        _ => begun + PATIENCE,
    };
    loop {
        match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) if line == "K" => break,
            Ok(line) => {
                life.hear(&line);
                if line.starts_with("R ") {
                    took = Some(begun.elapsed());
                    match moment {
                        Moment::Load(after) => until = Instant::now() + *after,
                        Moment::Start(_) | Moment::Operation(_) => {}
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let early = matches!(moment, Moment::Start(_)) || took.is_some();
                assert!(early, "the server did not start in {PATIENCE:?}");
                break;
            }
            Err(RecvTimeoutError::Disconnected) => return took,
        }
    }
    child.kill().unwrap();
    took
}
