//! GET on a collection with `watch`: a stream of events.
//!
//! A watch begins as a cursor into its resource's log, and once it is up to date it is handed the events that can
//! concern it (`wake`). When it reads more slowly than they come it is a cursor again, and when the log has passed its
//! cursor it ends with 410, so a slow reader costs nothing and misses nothing silently.

use crate::{
    buffers::Account,
    call::Call,
    context::ServerContext,
    convert,
    rates::too_many,
    registry::Resource,
    respond::Shape,
    selection::Selection,
    shape,
    table::IncludeObject,
    verbs::list,
    wake::{WatchRegistration, WatchScope},
};
use bytes::Bytes;
use futures::{
    future::BoxFuture,
    stream::{BoxStream, StreamExt, unfold},
};
use kube_store::{
    object::Object,
    status::{FieldError, Status},
    store::{Change, Event},
};
use rand::RngExt;
use serde_json::{Value, json};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Events read at once; more follow in the next turn.
const BATCH_EVENTS: usize = 256;
/// Bytes after which a chunk is handed to the connection: at first, and at most. Who reads is given larger ones; for
/// who does not, little was made in vain.
const CHUNK_BYTES_FIRST: usize = 16 * 1024;
const CHUNK_BYTES: usize = 128 * 1024;
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// No watch is meant to be longer, and a clock has an end.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// What asks a webhook.
type Work = BoxFuture<'static, Result<(), Status>>;

struct Watch {
    server: Arc<ServerContext>,
    resource: Arc<Resource>,
    version: String,
    namespace: String,
    selection: Selection,
    shape: Shape,
    /// What the rows carry, if the shape is a table.
    include: IncludeObject,
    /// Events up to here were delivered or did not match.
    cursor: u64,
    registration: WatchRegistration,
    /// Whether what comes next is in the log, and not handed over.
    reading_log: bool,
    /// Objects that exist at the start, still to be sent.
    initial: VecDeque<Arc<Object>>,
    /// Revision of the bookmark that ends the initial events.
    initial_bookmark: Option<u64>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    /// Events after this are not sent: the definition of the resource is another one then.
    end: u64,
    /// Whether a Table was sent: the columns go with the first one only.
    columns_sent: bool,
    ended: bool,
    chunk_bytes: usize,
    /// What waits until it is read.
    account: Account,
}

/// How far a watch of a custom resource still goes when its definition has changed.
enum Last {
    /// The definition serves as it did when the watch began.
    None,
    /// Up to the change.
    Before(u64),
    /// The definition is gone: all that there is.
    All,
}

/// How many of the events that were there are in a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pushed {
    All,
    /// As many as a chunk takes.
    Part,
}

/// Starts a watch. It does not know when the server stops, nor when whoever watches may no longer (`standing`).
///
/// # Errors
/// 400, 422 and 500 for bad options; everything later is an event in the stream.
pub fn watch(call: &Call<'_>, shape: Shape) -> Result<BoxStream<'static, Bytes>, Status> {
    let selection = Selection::read(call)?;
    let include = shape::include(call)?;
    let query = &call.query;
    let bookmarks = query.flag("allowWatchBookmarks");
    let version = query.get("resourceVersion").unwrap_or_default();
    let initial_events = check_options(call)?;
    let seconds = match query.text("timeoutSeconds") {
        Some(text) => text
            .parse::<u64>()
            .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))?,
        None => 0,
    };
    // Watches without a time of their own end at different moments, so that their clients do not return all at once.
    let seconds = if seconds == 0 {
        rand::rng().random_range(1800..3600)
    } else {
        seconds
    };
    let scope = WatchScope::of(
        call.resource.namespaced,
        call.store_namespace(),
        selection.fields.metadata_name(),
        &selection.labels,
    );
    let account = open(call)?;
    // Before anything is read, so that nothing falls between.
    let registration = call.server.wake.watch(call.id(), scope);
    let (from_start, start) = match version {
        // Nothing of what was before is wanted.
        "" | "0" if initial_events == Some(false) => (false, call.server.store.revision()),
        "" | "0" => (true, 0),
        text => {
            let revision = text
                .parse::<u64>()
                .map_err(|_| Status::new(500, "", list::no_number(text)))?;
            (initial_events == Some(true), revision)
        }
    };
    let mut initial = VecDeque::new();
    let mut cursor = start;
    let mut initial_bookmark = None;
    if from_start {
        let (objects, revision) = call.server.store.list(call.id(), call.store_namespace());
        initial = objects.into_iter().filter(|it| selection.matches(it)).collect();
        cursor = revision;
        // Without a revision and with bookmarks allowed, a real API server ends the initial events in the same way.
        initial_bookmark = (bookmarks && (initial_events == Some(true) || version.is_empty())).then_some(revision);
    }
    let now = Instant::now();
    let state = Watch {
        server: call.server.clone(),
        resource: call.resource.clone(),
        version: call.version.clone(),
        namespace: call.store_namespace().to_owned(),
        selection,
        shape,
        include,
        cursor,
        registration,
        reading_log: true,
        initial,
        initial_bookmark,
        bookmarks,
        next_bookmark: now + BOOKMARK_INTERVAL,
        deadline: now + Duration::from_secs(seconds).min(LONGEST),
        end: u64::MAX,
        columns_sent: false,
        ended: false,
        chunk_bytes: CHUNK_BYTES_FIRST,
        account,
    };
    Ok(unfold(
        state,
        |mut state| async move { state.piece().await.map(|it| (it, state)) },
    )
    .boxed())
}

/// One watch more of whoever asks.
///
/// # Errors
/// 429 when its identity has as many as it may.
fn open(call: &Call<'_>) -> Result<Account, Status> {
    let server = call.server;
    server.buffers.open(call.party.clone()).ok_or_else(|| {
        let most = call.party.as_ref().map_or(0, |it| server.buffers.watches_max(it));
        let of = call.party.as_ref().map_or("", |it| &it.identity);
        let message = format!("the limit of open watches of {of:?} is reached: {most}; try again when some have ended");
        if let Some(party) = &call.party {
            server.reports.tell(party, "Watches", &message);
        }
        too_many(message, 5)
    })
}

/// Checks the options of WatchList; whether initial events are wanted, if that is said.
fn check_options(call: &Call<'_>) -> Result<Option<bool>, Status> {
    let query = &call.query;
    let matching = query.get("resourceVersionMatch").unwrap_or_default();
    let initial = query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
    let mut errors = Vec::new();
    if query.text("continue").is_some() {
        errors.push(FieldError::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    match (initial, matching) {
        (Some(_), "NotOlderThan") | (None, "") => {}
        (Some(_), _) => {
            errors.push(FieldError::forbidden(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        (None, _) => errors.push(FieldError::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )),
    }
    if errors.is_empty() {
        Ok(initial)
    } else {
        Err(Status::invalid("ListOptions", "meta.k8s.io", "", &errors))
    }
}

impl Watch {
    /// The next chunk, if there is room for what waits to be read. The one before is on its way when this is asked for.
    async fn piece(&mut self) -> Option<Bytes> {
        self.account.hold(self.waiting());
        let chunk = self.next().await?;
        self.chunk_bytes = (self.chunk_bytes * 2).min(CHUNK_BYTES);
        if self.account.hold(chunk.len() + self.waiting()) {
            return Some(chunk);
        }
        self.ended = true;
        if let Some(party) = self.account.party() {
            let message = format!(
                "{:?} does not read its watches; one of {} has ended, because too much waits for them",
                party.client, self.resource.id
            );
            self.server.reports.tell(party, "WatchBytes", &message);
        }
        None
    }

    /// Bytes of the list of what is still to be sent; the objects themselves are everybody's.
    fn waiting(&self) -> usize {
        self.initial.len() * size_of::<Arc<Object>>()
    }

    /// The next chunk of events; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        let mut chunk = Vec::new();
        loop {
            if self.ended {
                return None;
            }
            // However much happens: a watch that is never idle ends, too. What was not told yet is told
            // to the next one.
            if self.initial.is_empty() && self.initial_bookmark.is_none() && Instant::now() >= self.deadline {
                self.ended = true;
                if self.bookmarks && matches!(self.last(), Last::None) {
                    self.push_bookmark(&mut chunk, self.cursor, false);
                }
                return Some(chunk.into()).filter(|it: &Bytes| !it.is_empty());
            }
            self.prepare_initial(&mut chunk).await;
            while let Some(object) = self.initial.pop_front() {
                self.push(&mut chunk, Change::Added, &object, object.revision);
                if chunk.len() > self.chunk_bytes {
                    return Some(chunk.into());
                }
            }
            if let Some(revision) = self.initial_bookmark.take() {
                self.push_bookmark(&mut chunk, revision, true);
            }
            let last = self.last();
            if let Last::Before(revision) = last {
                self.end = revision;
            }
            if self.reading_log {
                self.read_log(&mut chunk).await;
            } else {
                self.take_events(&mut chunk).await;
            }
            if self.reading_log && !self.ended && chunk.len() <= self.chunk_bytes {
                continue;
            }
            if !self.reading_log && !matches!(last, Last::None) {
                // Who watches lists again, as with a real API server, and sees the objects as they are now.
                self.ended = true;
            }
            if !chunk.is_empty() {
                let now = Instant::now();
                if self.bookmarks && !self.ended && !self.reading_log && now >= self.next_bookmark {
                    self.next_bookmark = now + BOOKMARK_INTERVAL;
                    self.push_bookmark(&mut chunk, self.cursor, false);
                }
                return Some(chunk.into());
            }
            let bookmark = if self.bookmarks {
                self.next_bookmark
            } else {
                self.deadline
            };
            tokio::select! {
                () = self.registration.come() => {}
                () = tokio::time::sleep_until(bookmark.min(self.deadline)) => {
                    let now = Instant::now();
                    if now >= self.deadline {
                        self.ended = true;
                    }
                    // Of another definition nothing is told any more, not even how far it has come.
                    if self.bookmarks && matches!(self.last(), Last::None) {
                        self.next_bookmark = now + BOOKMARK_INTERVAL;
                        // Also moves the cursor past what did not concern this watch.
                        self.take_events(&mut chunk).await;
                        self.push_bookmark(&mut chunk, self.cursor, false);
                        return Some(chunk.into());
                    }
                }
            }
        }
    }

    fn last(&self) -> Last {
        let Some(began) = &self.resource.crd else {
            return Last::None;
        };
        let registry = self.server.registry.load();
        match registry.by_id(&self.resource.id).and_then(|it| it.crd.as_ref()) {
            Some(now) if now.shape == began.shape => Last::None,
            Some(now) => Last::Before(now.since),
            None => Last::All,
        }
    }

    /// Reads a piece of the log. Its end is where the handing over begins: what was published since is in the mailbox.
    async fn read_log(&mut self, chunk: &mut Vec<u8>) {
        match self.server.store.events(&self.resource.id, self.cursor, BATCH_EVENTS) {
            Ok(events) => {
                let is_end = events.len() < BATCH_EVENTS;
                let work = self.preparation(&events);
                let pushed = self.push_events(chunk, events, work).await;
                self.reading_log = !is_end || pushed == Pushed::Part;
            }
            Err(compacted) => {
                let status = Status::expired(format!(
                    "too old resource version: {} ({})",
                    self.cursor, compacted.oldest
                ));
                self.fail(chunk, &status);
            }
        }
    }

    /// The last that a watch says.
    fn fail(&mut self, chunk: &mut Vec<u8>, status: &Status) {
        push_line(chunk, "ERROR", status.body().to_string().as_bytes());
        self.ended = true;
    }

    async fn prepare_initial(&mut self, chunk: &mut Vec<u8>) {
        let Some(work) = convert::preparation(&self.resource, &self.version, &self.initial) else {
            return;
        };
        if let Err(status) = work.await {
            self.initial.clear();
            self.initial_bookmark = None;
            self.fail(chunk, &status);
        }
    }

    /// Sends events, as far as their objects can be had in this version.
    async fn push_events(
        &mut self,
        chunk: &mut Vec<u8>,
        events: impl IntoIterator<Item = Arc<Event>>,
        work: Option<Work>,
    ) -> Pushed {
        let failed = match work {
            Some(work) => work.await.err(),
            None => None,
        };
        for event in events {
            if event.revision <= self.cursor || event.revision > self.end {
                // The log gave it already, or it is another watch's.
                continue;
            }
            if let Some(status) = &failed
                && self.preparation([&event]).is_some()
            {
                self.fail(chunk, status);
                return Pushed::All;
            }
            self.cursor = event.revision;
            self.push_event(chunk, &event);
            if self.reading_log && chunk.len() > CHUNK_BYTES {
                // The rest is read again from the log, where it takes nobody's room.
                return Pushed::Part;
            }
        }
        Pushed::All
    }

    fn preparation<'e>(&self, events: impl IntoIterator<Item = &'e Arc<Event>>) -> Option<Work> {
        let objects = events
            .into_iter()
            .flat_map(|it| [Some(&it.object), it.previous.as_ref()]);
        let wanted = objects.flatten().filter(|it| self.wants(it));
        convert::preparation(&self.resource, &self.version, wanted)
    }

    async fn take_events(&mut self, chunk: &mut Vec<u8>) {
        let taken = self.registration.take();
        let work = self.preparation(&taken.events);
        self.push_events(chunk, taken.events, work).await;
        match taken.lost_from {
            Some(lost) => {
                self.cursor = self.cursor.max(lost - 1);
                self.reading_log = true;
            }
            None => self.cursor = self.cursor.max(taken.told),
        }
    }

    fn wants(&self, object: &Object) -> bool {
        (self.namespace.is_empty() || *object.namespace == *self.namespace) && self.selection.matches(object)
    }

    /// An object that starts to match is added, one that stops to match is deleted with its last matching state.
    fn push_event(&mut self, chunk: &mut Vec<u8>, event: &Event) {
        let before = event.previous.as_ref().filter(|it| self.wants(it));
        match event.change {
            Change::Deleted => {
                if before.is_some() || self.wants(&event.object) {
                    self.push(chunk, Change::Deleted, &event.object, event.revision);
                }
            }
            Change::Added | Change::Modified => match (before.cloned(), self.wants(&event.object)) {
                (Some(_), true) => self.push(chunk, Change::Modified, &event.object, event.revision),
                (None, true) => self.push(chunk, Change::Added, &event.object, event.revision),
                (Some(before), false) => self.push(chunk, Change::Deleted, &before, event.revision),
                (None, false) => {}
            },
        }
    }

    fn push(&mut self, chunk: &mut Vec<u8>, change: Change, object: &Object, revision: u64) {
        let kind = match change {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => "DELETED",
        };
        if self.shape == Shape::Object && object.revision == revision {
            let bytes = convert::ready_or_stored(&self.resource, &self.version, object);
            push_line(chunk, kind, &bytes);
            return;
        }
        let mut value = convert::ready_value(&self.resource, &self.version, object);
        value["metadata"]["resourceVersion"] = revision.to_string().into();
        let shaped = shape::event(
            &self.resource,
            &self.version,
            &self.shape,
            self.include,
            value,
            !self.columns_sent,
        );
        self.columns_sent = true;
        push_line(chunk, kind, shaped.to_string().as_bytes());
    }

    fn push_bookmark(&mut self, chunk: &mut Vec<u8>, revision: u64, initial: bool) {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let api_version = self.resource.api_version(&self.version);
        let value: Value = json!({"kind": self.resource.kind, "apiVersion": api_version, "metadata": metadata});
        let shaped = shape::event(
            &self.resource,
            &self.version,
            &self.shape,
            self.include,
            value,
            !self.columns_sent,
        );
        self.columns_sent = true;
        push_line(chunk, "BOOKMARK", shaped.to_string().as_bytes());
    }
}

fn push_line(chunk: &mut Vec<u8>, kind: &str, object: &[u8]) {
    chunk.extend_from_slice(b"{\"type\":\"");
    chunk.extend_from_slice(kind.as_bytes());
    chunk.extend_from_slice(b"\",\"object\":");
    chunk.extend_from_slice(object);
    chunk.extend_from_slice(b"}\n");
}
