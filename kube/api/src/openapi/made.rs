//! Documents that were made, by hash: kept for the next client while they fit.

use bytes::Bytes;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::LazyLock};

/// Bytes of documents kept. A fleet of small servers in one process must not pay for a document each; kubectl keeps
/// what it read on its own disk, so that a document that has to be made again is rare.
const BYTES_MAX: usize = 4 << 20;

static MADE: LazyLock<Mutex<HashMap<String, Bytes>>> = LazyLock::new(Mutex::default);

/// The document named `hash`, made if it is not there.
pub(super) fn once(hash: &str, make: impl FnOnce() -> Bytes) -> Bytes {
    if let Some(body) = MADE.lock().get(hash) {
        return body.clone();
    }
    // Outside the lock: a large document must not hold up the others. Two made at once are the same.
    let body = make();
    let mut made = MADE.lock();
    if made.values().map(Bytes::len).sum::<usize>() + body.len() > BYTES_MAX {
        made.clear();
    }
    if body.len() <= BYTES_MAX {
        made.insert(hash.to_owned(), body.clone());
    }
    body
}
