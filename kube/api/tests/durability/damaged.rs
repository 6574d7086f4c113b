//! A file that somebody else has written to is refused, or it is as it was: never something in between.

use kube_api::persist::{Redb, Storage, StorageError};
use kube_store::store::Record;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::path::Path;

type Content = (Vec<(String, Vec<u8>)>, u64);

fn content(path: &Path) -> Result<Content, StorageError> {
    let loaded = Redb::open(path)?.load()?;
    let objects = loaded
        .objects
        .into_iter()
        .map(|(resource, json)| (resource, json.to_vec()));
    Ok((objects.collect(), loaded.revision))
}

/// A file with a history.
fn fill(path: &Path) {
    let mut storage = Redb::open(path).unwrap();
    for round in 0..6_u64 {
        let records: Vec<Record> = (1..=30)
            .map(|number| Record {
                revision: round * 30 + number,
                resource: "configmaps".into(),
                key: format!("n\0o{}", (number * 7 + round) % 50).into(),
                json: (number % 5 > 0).then(|| format!("{{\"a\":\"{}\"}}", "v".repeat(number as usize * 90)).into()),
            })
            .collect();
        storage.write(&records).unwrap();
    }
}

fn refused(path: &Path, what: &str) {
    let error = content(path).unwrap_err();
    assert!(matches!(error, StorageError::Damaged(_)), "{what}: {error:?}");
    let text = error.to_string();
    assert!(
        text.contains("is damaged; restore it from a backup, or move it away to start from nothing"),
        "{what}: {text}"
    );
}

#[test]
fn a_damaged_file_is_refused_or_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.redb");
    fill(&path);
    let whole = std::fs::read(&path).unwrap();
    let wanted = content(&path).unwrap();
    assert_eq!(wanted.1, 180);
    let mut refusals = 0;
    for seed in 0..150 {
        let mut dice = StdRng::seed_from_u64(seed);
        let mut bytes = whole.clone();
        match seed % 3 {
            0 => {
                // Where something is; most of a fresh file is air.
                let at = loop {
                    let at = dice.random_range(0..bytes.len());
                    if bytes[at] != 0 {
                        break at;
                    }
                };
                bytes[at] ^= 1 << dice.random_range(0..8);
            }
            1 => bytes.truncate(dice.random_range(1..bytes.len())),
            _ => {
                let page = dice.random_range(0..bytes.len() / 4096) * 4096;
                bytes[page..page + 4096].fill(dice.random());
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        match content(&path) {
            Ok(found) => assert_eq!(found, wanted, "seed {seed}"),
            Err(StorageError::Damaged(_)) => refusals += 1,
            Err(error) => panic!("seed {seed}: {error:?}"),
        }
    }
    assert!(refusals > 50, "only {refusals} were noticed");
}

#[test]
fn what_is_no_data_file_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.redb");
    fill(&path);
    let whole = std::fs::read(&path).unwrap();
    for (what, bytes) in [
        ("emptied", &b""[..]),
        ("a note", b"remember the milk"),
        ("zeros", &[0; 8192]),
        ("its first page only", &whole[..4096]),
    ] {
        std::fs::write(&path, bytes).unwrap();
        refused(&path, what);
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{what} was changed");
    }
}

#[test]
fn a_start_killed_while_creating_the_file_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.redb");
    // What it leaves behind.
    std::fs::write(dir.path().join("objects.redb.7.new"), [0; 100]).unwrap();
    assert_eq!(content(&path).unwrap(), (vec![], 0));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_in_use_is_locked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.redb");
    let _owner = Redb::open(&path).unwrap();
    let error = content(&path).unwrap_err();
    assert!(matches!(error, StorageError::Locked(_)), "{error:?}");
}
