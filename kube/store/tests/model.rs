//! The store against a model that is too simple to be wrong, with a journal that fails and a process that ends, as dice
//! will. Watches follow by the log, at their own pace. Each seed is a whole history; a failure names its seed.

use kube_store::{
    Object, Store,
    store::{Change, Expect, Journal, Record, Refused},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::json;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

const RESOURCES: [&str; 2] = ["configmaps", "things.example.com"];
const SEEDS: u64 = 300;
const STEPS: usize = 400;

struct Discard;

impl Journal for Discard {
    fn append(&self, _: Record) {}
}

/// Namespace and name.
type Key = (String, String);
/// The revision and text of each object.
type State = BTreeMap<Key, (u64, u64)>;

#[derive(Clone)]
struct Write {
    revision: u64,
    resource: usize,
    key: Key,
    /// The new text, or nothing.
    text: Option<u64>,
}

/// What must be true.
#[derive(Default)]
struct Model {
    published: [State; 2],
    pending: VecDeque<Write>,
    /// Every published write since the start, in order.
    log: Vec<Write>,
    origin: u64,
    decided: u64,
    seen: u64,
}

impl Model {
    fn newest(&self, resource: usize, key: &Key) -> Option<(u64, u64)> {
        let pending = self
            .pending
            .iter()
            .rev()
            .find(|it| it.resource == resource && it.key == *key);
        match pending {
            Some(it) => it.text.map(|text| (it.revision, text)),
            None => self.published[resource].get(key).copied(),
        }
    }

    fn apply(state: &mut State, write: &Write) {
        match write.text {
            Some(text) => state.insert(write.key.clone(), (write.revision, text)),
            None => state.remove(&write.key),
        };
    }

    /// The objects as they were.
    fn at(&self, resource: usize, revision: u64, start: &State) -> State {
        let mut state = start.clone();
        let until = self
            .log
            .iter()
            .filter(|it| it.resource == resource && it.revision <= revision);
        until.for_each(|it| Self::apply(&mut state, it));
        state
    }
}

/// Somebody who lists once and then follows the log.
#[derive(Default)]
struct Watch {
    resource: usize,
    cursor: u64,
    state: State,
}

fn object(resource: usize, key: &Key, text: u64, revision: u64) -> Object {
    let value = json!({
        "kind": "Thing", "apiVersion": "v1",
        "metadata": {"namespace": key.0, "name": key.1}, "text": text,
    });
    Object::encode(&RESOURCES[resource].into(), value, revision)
}

fn text(object: &Object) -> u64 {
    object.value()["text"].as_u64().unwrap()
}

fn state(objects: &[Arc<Object>]) -> State {
    let all = objects.iter().map(|it| {
        let key = (it.namespace.to_string(), it.name.to_string());
        (key, (it.revision, text(it)))
    });
    all.collect()
}

fn key(dice: &mut StdRng) -> Key {
    (
        format!("n{}", dice.random_range(0..3)),
        format!("o{}", dice.random_range(0..6)),
    )
}

struct World {
    dice: StdRng,
    store: Store,
    model: Model,
    /// What the store began with.
    start: [State; 2],
    watches: Vec<Watch>,
    next_text: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let model = Model {
            origin: 1,
            decided: 1,
            seen: 1,
            ..Model::default()
        };
        let watches = (0..4).map(|number| Watch {
            resource: number % 2,
            cursor: 1,
            ..Watch::default()
        });
        Self {
            dice: StdRng::seed_from_u64(seed),
            store: Store::new([], 0, Arc::new(Discard)),
            model,
            start: Default::default(),
            watches: watches.collect(),
            next_text: 0,
        }
    }

    fn write(&mut self) {
        let (dice, model) = (&mut self.dice, &mut self.model);
        let resource = dice.random_range(0..2);
        let key = key(dice);
        let before = model.newest(resource, &key);
        let expect = match (dice.random_range(0..6), before) {
            (0, _) => Expect::Absent,
            (1, _) => Expect::Revision(dice.random_range(0..=model.decided)),
            (_, None) => Expect::Absent,
            (_, Some((revision, _))) => Expect::Revision(revision),
        };
        self.next_text += 1;
        let next = (dice.random_range(0..4) > 0).then_some(self.next_text);
        let wanted = match (expect, before, next) {
            (Expect::Absent, Some(_), _) => Err(Refused::Exists),
            (Expect::Revision(_), None, _) | (Expect::Absent, None, None) => Err(Refused::Missing),
            (Expect::Revision(it), Some((revision, _)), _) if it != revision => Err(Refused::Changed),
            _ => Ok(model.decided + 1),
        };
        let done = self
            .store
            .commit(&RESOURCES[resource].into(), &key.0, &key.1, expect, |revision| {
                next.map(|text| object(resource, &key, text, revision))
            });
        assert_eq!(done.map(|it| it.0), wanted);
        if let Ok(revision) = wanted {
            model.decided = revision;
            model.pending.push_back(Write {
                revision,
                resource,
                key,
                text: next,
            });
        }
    }

    /// The journal has kept a group.
    fn publish(&mut self) {
        let model = &mut self.model;
        let count = self.dice.random_range(0..=model.pending.len());
        let Some(last) = count.checked_sub(1).map(|it| model.pending[it].revision) else {
            return;
        };
        let events = self.store.publish(last);
        let group: Vec<Write> = model.pending.drain(..count).collect();
        assert_eq!(events.len(), group.len());
        for (event, write) in events.iter().zip(&group) {
            let before = model.published[write.resource].get(&write.key).copied();
            let change = match (before, write.text) {
                (None, _) => Change::Added,
                (Some(_), Some(_)) => Change::Modified,
                (Some(_), None) => Change::Deleted,
            };
            assert_eq!((event.revision, event.change), (write.revision, change));
            assert_eq!(event.object.revision, write.revision);
            assert_eq!(event.previous.as_deref().map(|it| (it.revision, text(it))), before);
            Model::apply(&mut model.published[write.resource], write);
        }
        model.log.extend(group);
        model.seen = last;
    }

    /// The journal could not keep what was decided.
    fn abort(&mut self) {
        assert_eq!(self.store.abort(), self.model.decided);
        self.model.pending.clear();
    }

    /// The process ends, and what was published is all there is.
    fn restart(&mut self) {
        let model = &mut self.model;
        let mut objects = Vec::new();
        for (resource, all) in model.published.iter().enumerate() {
            objects.extend(
                all.iter()
                    .map(|(key, (revision, text))| object(resource, key, *text, *revision)),
            );
        }
        self.store = Store::new(objects, model.seen, Arc::new(Discard));
        model.pending.clear();
        model.log.clear();
        (model.origin, model.decided) = (model.seen, model.seen);
        self.start = model.published.clone();
    }

    fn look(&mut self) {
        let (dice, model, store) = (&mut self.dice, &self.model, &self.store);
        let resource = dice.random_range(0..2);
        let name = RESOURCES[resource];
        let key = key(dice);
        let shown = |it: Option<Arc<Object>>| it.map(|it| (it.revision, text(&it)));
        assert_eq!(
            shown(store.get(name, &key.0, &key.1)),
            model.published[resource].get(&key).copied()
        );
        assert_eq!(shown(store.newest(name, &key.0, &key.1)), model.newest(resource, &key));
        assert_eq!(store.count(name), model.published[resource].len());
        let (objects, revision) = store.list(name, "");
        assert_eq!(
            (state(&objects), revision),
            (model.published[resource].clone(), model.seen)
        );
        let within = |all: &State| -> State {
            let all = all.iter().filter(|(it, _)| it.0 == key.0);
            all.map(|(key, state)| (key.clone(), *state)).collect()
        };
        assert_eq!(state(&store.list(name, &key.0).0), within(&model.published[resource]));
        let (everything, revision) = store.snapshot();
        assert_eq!(
            (everything.len(), revision),
            (model.published.iter().map(State::len).sum(), model.seen)
        );
        let then = dice.random_range(model.origin.saturating_sub(3)..=model.seen);
        match store.list_at(name, "", then) {
            Ok(objects) => {
                // A resource that nobody has ever written to has no history, and nothing in it at any time.
                let known = then >= model.origin || model.published[resource].is_empty();
                assert!(known, "{then} is before {}", model.origin);
                if then >= model.origin {
                    assert_eq!(state(&objects), model.at(resource, then, &self.start[resource]));
                }
            }
            Err(compacted) => assert!(then < compacted.oldest && compacted.oldest == model.origin),
        }
    }

    /// A watch reads a piece of the log, or lists again if it is too late.
    fn follow(&mut self, which: usize, limit: usize) {
        let watch = &mut self.watches[which];
        let name = RESOURCES[watch.resource];
        match self.store.events(name, watch.cursor, limit) {
            Err(_) => {
                assert!(watch.cursor < self.model.origin, "it was not late");
                let (objects, revision) = self.store.list(name, "");
                (watch.state, watch.cursor) = (state(&objects), revision);
            }
            Ok(events) => {
                let model = self.model.log.iter();
                let wanted = model.filter(|it| it.resource == watch.resource && it.revision > watch.cursor);
                let wanted: Vec<u64> = wanted.map(|it| it.revision).take(limit).collect();
                assert_eq!(events.iter().map(|it| it.revision).collect::<Vec<_>>(), wanted);
                for event in events {
                    let write = Write {
                        revision: event.revision,
                        resource: watch.resource,
                        key: (event.object.namespace.to_string(), event.object.name.to_string()),
                        text: (event.change != Change::Deleted).then(|| text(&event.object)),
                    };
                    Model::apply(&mut watch.state, &write);
                    watch.cursor = event.revision;
                }
            }
        }
    }
}

#[test]
fn the_store_and_its_watches_match_a_simple_model() {
    for seed in 0..SEEDS {
        let history = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                match world.dice.random_range(0..100) {
                    0..55 => world.write(),
                    55..75 => world.publish(),
                    75..78 => world.abort(),
                    78 => world.restart(),
                    79..88 => world.look(),
                    _ => {
                        let (which, limit) = (world.dice.random_range(0..4), world.dice.random_range(1..10));
                        world.follow(which, limit);
                    }
                }
            }
            // In the end everybody has caught up, and sees the same.
            for which in 0..world.watches.len() {
                for _ in 0..STEPS {
                    world.follow(which, 50);
                }
                let watch = &world.watches[which];
                assert_eq!(watch.state, world.model.published[watch.resource], "watch {which}");
            }
        });
        assert!(history.is_ok(), "seed {seed}");
    }
}
