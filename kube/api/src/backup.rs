//! The objects of a server as a text, to keep somewhere else and to start from again.
//!
//! The first line is `{"objects":N,"revision":R}`, then there is a line for each object:
//! `{"resource":"deployments.apps","object":{...}}`. A running server answers `GET /backup` with it, to whom RBAC
//! allows that path, which is administrators; without a server it is read from the file.

use crate::{
    persist::OBJECTS_FILE,
    persist::{Loaded, Redb, Storage, StorageError},
};
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, iter};
use kube_store::{Object, Store, store::Record};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc};

/// Bytes after which a piece is handed on.
const PIECE_BYTES: usize = 128 * 1024;
/// How many objects of a restored file share a sync.
const GROUP_OBJECTS: usize = 1000;
/// How far a restored server's revisions begin after those of the backup. Clients have seen revisions after it, of
/// states that are gone now; with the gap theirs are too old, and they list again,
/// where they would wait for changes otherwise.
pub const REVISION_GAP: u64 = 1_000_000_000;

/// The last revision of a backup that can be restored.
const REVISION_MAX: u64 = i64::MAX as u64 - 2 * REVISION_GAP;

/// Why a text is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("its first line does not say how many objects there are and of which revision")]
    Header,
    #[error("line {line} is no object: {why}")]
    Line { line: usize, why: String },
    #[error("there are {found} objects, and {wanted} are announced")]
    Count { found: usize, wanted: usize },
}

/// What a backup holds.
#[derive(Debug)]
pub struct BackupObjects {
    pub revision: u64,
    pub objects: Vec<Object>,
}

fn header(count: usize, revision: u64) -> String {
    json!({"objects": count, "revision": revision}).to_string()
}

fn push(text: &mut Vec<u8>, resource: &str, json: &[u8]) {
    // The name of a resource needs no escapes.
    text.extend_from_slice(b"\n{\"resource\":\"");
    text.extend_from_slice(resource.as_bytes());
    text.extend_from_slice(b"\",\"object\":");
    text.extend_from_slice(json);
    text.push(b'}');
}

/// All objects of a running server as they are now. Pieces are made as they are taken.
pub fn stream(store: &Store) -> BoxStream<'static, Bytes> {
    let (objects, revision) = store.snapshot();
    let mut rest = objects.into_iter();
    let mut piece = header(rest.len(), revision).into_bytes();
    let mut ended = false;
    let pieces = std::iter::from_fn(move || {
        if ended {
            return None;
        }
        while piece.len() < PIECE_BYTES {
            match rest.next() {
                Some(object) => push(&mut piece, &object.resource, &object.json),
                None => {
                    ended = true;
                    piece.push(b'\n');
                    break;
                }
            }
        }
        Some(Bytes::from(std::mem::take(&mut piece)))
    });
    iter(pieces).boxed()
}

/// All objects in a data directory that no server uses.
///
/// # Errors
/// As the start of a server; `Locked` when one uses it after all.
pub fn read(data_dir: &Path) -> Result<Vec<u8>, StorageError> {
    let Loaded { objects, revision } = Redb::open(&data_dir.join(OBJECTS_FILE))?.load()?;
    let mut text = header(objects.len(), revision).into_bytes();
    for (resource, json) in &objects {
        push(&mut text, resource, json);
    }
    text.push(b'\n');
    Ok(text)
}

/// Whether a data directory holds objects.
pub fn has_objects(data_dir: &Path) -> bool {
    data_dir.join(OBJECTS_FILE).exists()
}

/// Reads what [`stream`] and [`read`] have written, to the last object.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &[u8]) -> Result<BackupObjects, BackupError> {
    let mut lines = text.split(|it| *it == b'\n').filter(|it| !it.is_empty());
    let first: Value = serde_json::from_slice(lines.next().unwrap_or_default()).map_err(|_| BackupError::Header)?;
    let (Some(wanted), Some(revision)) = (first["objects"].as_u64(), first["revision"].as_u64()) else {
        return Err(BackupError::Header);
    };
    // Revisions are numbers of 63 bits to clients, and they go on from here.
    if revision > REVISION_MAX {
        return Err(BackupError::Header);
    }
    let mut objects = Vec::new();
    let mut resource: Arc<str> = "".into();
    for (number, line) in lines.enumerate() {
        let bad = |why: String| BackupError::Line { line: number + 2, why };
        let (of, json) = row(line).ok_or_else(|| bad("it does not begin as one".into()))?;
        if *resource != *of {
            resource = of.into();
        }
        // A server reads little of an object when it starts, and all of it when somebody asks: that must not fail.
        serde_json::from_slice::<Value>(json).map_err(|it| bad(it.to_string()))?;
        let object = Object::decode(&resource, Bytes::copy_from_slice(json)).map_err(|it| bad(it.to_string()))?;
        if object.name.is_empty() || object.revision == 0 {
            return Err(bad("it has no name or no revision".into()));
        }
        if object.revision > revision {
            return Err(bad("it is newer than the backup".into()));
        }
        objects.push(object);
    }
    let wanted = usize::try_from(wanted).map_err(|_| BackupError::Header)?;
    if objects.len() != wanted {
        let found = objects.len();
        return Err(BackupError::Count { found, wanted });
    }
    Ok(BackupObjects { revision, objects })
}

/// The resource of a line and the bytes of its object, which are kept as they are.
fn row(line: &[u8]) -> Option<(&str, &[u8])> {
    let rest = line.strip_prefix(b"{\"resource\":\"")?.strip_suffix(b"}")?;
    let end = rest.iter().position(|it| *it == b'"')?;
    let resource = std::str::from_utf8(&rest[..end]).ok()?;
    Some((resource, rest[end..].strip_prefix(b"\",\"object\":")?))
}

/// Puts the objects into a data directory that has none. What it writes is on the disk when it returns.
///
/// # Errors
/// When the directory cannot be written to.
pub fn write(data_dir: &Path, objects: &BackupObjects) -> Result<(), StorageError> {
    let mut storage = Redb::open(&data_dir.join(OBJECTS_FILE))?;
    let revision = objects.revision + REVISION_GAP;
    let records = |objects: &[Object]| -> Vec<Record> {
        let record = |it: &Object| Record {
            revision,
            resource: it.resource.clone(),
            key: it.key().into(),
            json: Some(it.json.clone()),
        };
        objects.iter().map(record).collect()
    };
    for group in objects.objects.chunks(GROUP_OBJECTS) {
        storage.write(&records(group))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn store() -> Arc<Store> {
        fixture::store(&[
            json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"namespace": "n", "name": "a\u{7}\"b"}, "data": {"k": "dg=="}}),
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "n", "name": "p"}}),
            json!({"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "r"}}),
        ])
    }

    async fn text(store: &Store) -> Vec<u8> {
        stream(store).map(|it| it.to_vec()).concat().await
    }

    #[tokio::test]
    async fn what_was_backed_up_is_there_again_with_later_revisions() {
        let store = store();
        let text = text(&store).await;
        let parsed = parse(&text).unwrap();
        assert_eq!((parsed.objects.len(), parsed.revision), (3, store.revision()));
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &parsed).unwrap();
        assert!(has_objects(dir.path()));
        let again = parse(&read(dir.path()).unwrap()).unwrap();
        assert_eq!(again.revision, parsed.revision + REVISION_GAP);
        let sorted = |it: &BackupObjects| {
            let all = it.objects.iter();
            let mut all: Vec<_> = all
                .map(|it| (it.resource.to_string(), it.key(), it.json.clone()))
                .collect();
            all.sort();
            all
        };
        assert_eq!(sorted(&again), sorted(&parsed));
    }

    #[tokio::test]
    async fn a_text_that_was_cut_or_changed_is_no_backup() {
        let whole = text(&store()).await;
        for len in 0..whole.len() - 1 {
            assert!(parse(&whole[..len]).is_err(), "cut after {len}");
        }
        let text = String::from_utf8(whole).unwrap();
        assert!(matches!(parse(b"{}"), Err(BackupError::Header)));
        let fewer: Vec<&str> = text.lines().take(3).collect();
        let error = parse(fewer.join("\n").as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "there are 2 objects, and 3 are announced");
        let error = parse(text.replace("\"name\":\"p\"", "\"mane\":\"p\"").as_bytes()).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("is no object: it has no name or no revision"),
            "{error}"
        );
    }

    #[test]
    fn an_object_that_nobody_could_read_is_no_object() {
        let backup = |object: &[u8]| {
            let head = b"{\"objects\":1,\"revision\":9}\n{\"resource\":\"configmaps\",\"object\":{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",";
            let meta = b"\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"3\"},\"data\":";
            parse(&[head.as_slice(), meta, object, b"}}\n"].concat())
        };
        assert!(backup(b"{}").is_ok());
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for object in [b"\"\xff\"".as_slice(), b"\"\\ud800\"", b"1e999", deep.as_bytes()] {
            let error = backup(object).unwrap_err();
            assert!(matches!(error, BackupError::Line { line: 2, .. }), "{error}");
        }
    }

    #[test]
    fn revisions_that_leave_no_room_are_refused() {
        let text = format!("{{\"objects\":0,\"revision\":{}}}\n", u64::MAX);
        assert!(matches!(parse(text.as_bytes()), Err(BackupError::Header)));
        let newer = "{\"objects\":1,\"revision\":2}\n{\"resource\":\"pods\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"3\"}}}\n";
        let error = parse(newer.as_bytes()).unwrap_err();
        assert!(error.to_string().ends_with("it is newer than the backup"), "{error}");
    }
}
