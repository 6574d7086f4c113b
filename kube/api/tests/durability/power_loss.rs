//! The power goes at a random write or sync, and of what was not synced some sectors are on the disk and some are not.
//! What was acknowledged is there afterwards, and a group of writes is there as a whole or not at all.

use crate::disk::Disk;
use kube_api::persist::{Redb, Storage};
use kube_store::store::Record;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::collections::BTreeMap;

/// Key and text of every object, and the last revision.
type State = (BTreeMap<String, String>, u64);

/// How often the power goes. CI asks for more.
fn losses() -> u64 {
    let asked = std::env::var("POWER_LOSSES").ok();
    asked.map_or(150, |it| it.parse().expect("POWER_LOSSES is a number"))
}

fn group(dice: &mut StdRng, state: &State) -> (Vec<Record>, State) {
    let (mut objects, mut revision) = state.clone();
    let mut records = Vec::new();
    for _ in 0..dice.random_range(1..20) {
        revision += 1;
        let key = format!("o{}", dice.random_range(0..40));
        let text = (dice.random_range(0..4) > 0).then(|| {
            let padding = "x".repeat(dice.random_range(0..6000));
            format!("{{\"key\":\"{key}\",\"r\":{revision},\"p\":\"{padding}\"}}")
        });
        match &text {
            Some(text) => objects.insert(key.clone(), text.clone()),
            None => objects.remove(&key),
        };
        records.push(Record {
            revision,
            resource: "things".into(),
            key: format!("n\0{key}").into(),
            json: text.map(Into::into),
        });
    }
    (records, (objects, revision))
}

fn load(disk: &Disk) -> (Redb, State) {
    let disk = disk.clone();
    let mut storage = Redb::with_backend("the disk", move || Ok(disk.clone()), Box::new(())).unwrap();
    let loaded = storage.load().unwrap();
    let objects = loaded.objects.into_iter().map(|(_, json)| {
        let text = String::from_utf8(json.to_vec()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        (value["key"].as_str().unwrap().to_owned(), text)
    });
    (storage, (objects.collect(), loaded.revision))
}

#[test]
fn acknowledged_writes_survive_power_loss_and_groups_are_atomic() {
    for seed in 0..losses() {
        let mut dice = StdRng::seed_from_u64(seed);
        // A file that was created in peace: how it comes into being is another test's matter.
        let disk = Disk::default();
        drop(load(&disk));
        let mut disk = Disk::holding(disk.after_power_loss(&mut dice));
        let mut known: State = State::default();
        for life in 0..3 {
            let (mut storage, found) = load(&disk);
            assert_eq!(found, known, "seed {seed}, life {life}");
            disk.lose_power_after(dice.random_range(0..60));
            let unsure = loop {
                let (records, after) = group(&mut dice, &known);
                match storage.write(&records) {
                    Ok(()) => known = after,
                    Err(_) => break after,
                }
            };
            drop(storage);
            disk = Disk::holding(disk.after_power_loss(&mut dice));
            // The engine may lose power once more while it repairs the file.
            if dice.random() {
                disk.lose_power_after(dice.random_range(0..10));
                let again = disk.clone();
                drop(Redb::with_backend("the disk", move || Ok(again.clone()), Box::new(())));
                disk = Disk::holding(disk.after_power_loss(&mut dice));
            }
            let (storage, found) = load(&disk);
            drop(storage);
            assert!(
                found == known || found == unsure,
                "seed {seed}, life {life}: revision {} was acknowledged, revision {} was not, and found was revision {}",
                known.1,
                unsure.1,
                found.1
            );
            known = found;
        }
    }
}
