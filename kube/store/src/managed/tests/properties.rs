//! What must hold of server-side apply whatever is applied.

use super::{kinds, *};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A configuration of the custom resource, drawn from few names so that managers meet.
fn config() -> impl Strategy<Value = Value> {
    let name = || prop_oneof![Just("a"), Just("b"), Just("c")];
    let value = || prop_oneof![Just("1"), Just("2")];
    let keyed = prop::collection::btree_map((name(), prop_oneof![Just("TCP"), Just("UDP")]), value(), 0..4);
    let set = prop::collection::btree_set(name(), 0..4);
    let map = prop::collection::btree_map(name(), value(), 0..4);
    let free = prop::collection::btree_map(name(), prop::collection::btree_map(name(), value(), 0..3), 0..3);
    let atomic = prop::option::of(prop::collection::vec(value(), 0..3));
    (keyed, set, map, free, atomic, prop::option::of(value())).prop_map(|(keyed, set, map, free, atomic, text)| {
        let keyed: Vec<Value> = keyed
            .into_iter()
            .map(|((k, p), v)| json!({"k": k, "p": p, "v": v}))
            .collect();
        let mut spec = json!({"mp": keyed, "st": set, "m": map, "free": free});
        if let Some(atomic) = atomic {
            spec["at"] = json!(atomic);
        }
        if let Some(text) = text {
            spec["d"] = json!(text);
        }
        json!({"apiVersion": "ex.io/v1", "kind": "Kind", "metadata": {"name": "a"}, "spec": spec})
    })
}

fn apply_as(manager: &str, live: Option<&Value>, config: &Value, force: bool) -> Result<Value, crate::status::Status> {
    thread_local!(static SCHEMA: Schema = kinds::custom());
    SCHEMA.with(|schema| apply(live, config, &ctx(manager, schema, "ex.io/v1", false), force))
}

fn fields(config: &Value) -> FieldSet {
    field_set(config, &kinds::custom())
}

proptest! {
    #[test]
    fn what_is_written_is_recognized_unread(first in config(), second in config()) {
        let (first, second) = (fields(&first), fields(&second));
        prop_assert!(first.is_written_as(&first.to_json()));
        prop_assert_eq!(first.is_written_as(&second.to_json()), first == second);
    }

    #[test]
    fn applying_the_same_configuration_again_changes_nothing(first in config(), second in config()) {
        let live = apply_as("m1", None, &first, false).unwrap();
        let live = apply_as("m2", Some(&live), &second, true).unwrap();
        prop_assert_eq!(&apply_as("m2", Some(&live), &second, false).unwrap(), &live);
    }

    #[test]
    fn after_an_apply_the_manager_owns_exactly_its_configuration(first in config(), second in config()) {
        let live = apply_as("m", None, &first, false).unwrap();
        let live = apply_as("m", Some(&live), &second, false).unwrap();
        let expected = fields(&second);
        let found = live["metadata"]["managedFields"].get(0).map(|it| FieldSet::from_json(&it["fieldsV1"]).unwrap());
        prop_assert_eq!(found.unwrap_or_default(), expected);
    }

    #[test]
    fn a_sole_owner_gets_exactly_what_it_applies(first in config(), second in config()) {
        let live = apply_as("m", None, &first, false).unwrap();
        let live = apply_as("m", Some(&live), &second, false).unwrap();
        let fresh = apply_as("m", None, &second, false).unwrap();
        let schema = kinds::custom();
        let left = compare(&without_empty(&live), &without_empty(&fresh), &schema, false, &[]);
        prop_assert!(left.is_same(), "{} | {}", left.changed, left.removed);
    }

    #[test]
    fn managers_of_disjoint_fields_never_conflict(all in config(), split in prop::collection::vec(any::<bool>(), 12)) {
        let (one, two) = divide(&all, &split);
        let live = apply_as("m1", None, &one, false).unwrap();
        let live = apply_as("m2", Some(&live), &two, false).unwrap();
        let left = compare(&without_empty(&live), &without_empty(&all), &kinds::custom(), false, &[]);
        prop_assert!(left.is_same(), "{} | {}", left.changed, left.removed);
        // And each can go again without touching the other's.
        let bare = json!({"apiVersion": "ex.io/v1", "kind": "Kind", "metadata": {"name": "a"}});
        let live = apply_as("m1", Some(&live), &bare, false).unwrap();
        let left = compare(&without_empty(&live), &without_empty(&two), &kinds::custom(), false, &[]);
        prop_assert!(left.is_same(), "{} | {}", left.changed, left.removed);
    }

    #[test]
    fn an_update_leaves_no_ownership_of_absent_fields(first in config(), second in config()) {
        let schema = kinds::custom();
        let live = apply_as("m", None, &first, false).unwrap();
        let mut new = second.clone();
        update(Some(&live), &mut new, &ctx("u", &schema, "ex.io/v1", false));
        let mut there = BTreeSet::new();
        compare(&json!({}), &second, &schema, false, &[]).changed.for_each(&mut |path| {
            there.insert(path.iter().map(ToString::to_string).collect::<String>());
        });
        for entry in new["metadata"]["managedFields"].as_array().into_iter().flatten() {
            for path in FieldSet::from_json(&entry["fieldsV1"]).unwrap().paths() {
                prop_assert!(there.contains(&path), "{} owns {path}", entry["manager"]);
            }
        }
    }

    #[test]
    fn fields_v1_survives_being_written_and_read(config in config()) {
        let set = fields(&config);
        prop_assert_eq!(&FieldSet::from_json(&set.to_json()).unwrap(), &set);
        let text: Value = serde_json::from_str(&set.to_string()).unwrap();
        prop_assert_eq!(text, set.to_json());
    }

    #[test]
    fn set_operations_agree_with_sets_of_paths(left in config(), right in config()) {
        let (left, right) = (fields(&left), fields(&right));
        let paths = |set: &FieldSet| set.paths().into_iter().collect::<BTreeSet<_>>();
        let (a, b) = (paths(&left), paths(&right));
        prop_assert_eq!(paths(&left.union(&right)), a.union(&b).cloned().collect::<BTreeSet<_>>());
        prop_assert_eq!(paths(&left.intersection(&right)), a.intersection(&b).cloned().collect::<BTreeSet<_>>());
        prop_assert_eq!(paths(&left.difference(&right)), a.difference(&b).cloned().collect::<BTreeSet<_>>());
        prop_assert_eq!(left.intersects(&right), !a.is_disjoint(&b));
    }
}

/// Shares the fields of a configuration among two managers, as `split` says.
fn divide(all: &Value, split: &[bool]) -> (Value, Value) {
    let (mut one, mut two) = (all.clone(), all.clone());
    let mut turn = split.iter().cycle();
    let mut first = || *turn.next().unwrap();
    for key in ["d", "at"] {
        let loser = if first() { &mut two } else { &mut one };
        loser["spec"].as_object_mut().unwrap().remove(key);
    }
    for key in ["mp", "st"] {
        let sides: Vec<bool> = all["spec"][key].as_array().unwrap().iter().map(|_| first()).collect();
        for (side, object) in [(true, &mut one), (false, &mut two)] {
            let mut kept = sides.iter();
            object["spec"][key]
                .as_array_mut()
                .unwrap()
                .retain(|_| *kept.next().unwrap() == side);
        }
    }
    for key in ["m", "free"] {
        let sides: BTreeMap<String, bool> = all["spec"][key]
            .as_object()
            .unwrap()
            .keys()
            .map(|key| (key.clone(), first()))
            .collect();
        for (side, object) in [(true, &mut one), (false, &mut two)] {
            object["spec"][key]
                .as_object_mut()
                .unwrap()
                .retain(|key, _| sides[key] == side);
            if object["spec"][key].as_object().unwrap().is_empty() {
                object["spec"].as_object_mut().unwrap().remove(key);
            }
        }
    }
    (one, two)
}

/// Empty containers aside: whether one is kept depends on who named it first.
fn without_empty(object: &Value) -> Value {
    fn clean(value: &Value) -> Option<Value> {
        match value {
            Value::Object(map) => {
                let map: serde_json::Map<_, _> = map
                    .iter()
                    .filter_map(|(key, value)| clean(value).map(|it| (key.clone(), it)))
                    .collect();
                (!map.is_empty()).then_some(Value::Object(map))
            }
            Value::Null => None,
            Value::Array(items) if items.is_empty() => None,
            other => Some(other.clone()),
        }
    }
    clean(&json!({"spec": object["spec"]})).unwrap_or_else(|| json!({}))
}
