//! The file that objects are kept in.
//!
//! It is read as a whole when it is opened, and every page's checksum is looked at: what a crash left half written is
//! cut off by the engine, and what something else has damaged is refused. A disk that is full fails a group of writes
//! and nothing more: the engine trusts nothing that it holds after an error, so the file is opened anew for the next
//! group. Beside it lies a file that holds nothing but room. It is given up when there is no other, so that deletions
//! go and a start does, and made again when there is room again.

use super::{Loaded, Storage};
use bytes::Bytes;
use kube_store::store::Record;
use rand::Rng;
use redb::{Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// What went wrong with the disk.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error("{path} cannot be opened: {source}")]
    Open { path: String, source: Box<redb::Error> },
    #[error("another process uses {0}; stop it first, or name another data directory")]
    Locked(String),
    #[error("{0} is damaged; restore it from a backup, or move it away to start from nothing")]
    Damaged(String),
    #[error("the disk is full: make room on it, and writes go on by themselves")]
    Full,
    #[error("the disk failed and is not written to any more: {0}; look after the disk, then start again")]
    Failed(String),
}

/// Pages kept in memory: reads are served from the store, so the engine needs only what a write touches.
const CACHE_BYTES: usize = 2 << 20;
/// How soon after the last time a file that ran out of room is tried again. Each time it is read as a whole.
const RETRY_AFTER: Duration = Duration::from_millis(200);

const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// Opens the file; called again after a failure.
type Open = Box<dyn Fn(&mut Builder) -> Result<Database, DatabaseError> + Send>;

/// What the file is good for.
enum State {
    Open(Database),
    /// It ran out of room at that time.
    Full(Instant),
    /// Something that room does not heal.
    Broken(String),
}

/// How much room is put aside: what the largest group needs that is written while there is no other, twice.
const RESERVE_BYTES: u64 = 4 << 20;

/// How much more room there has to be before that is put aside again: a disk that has room
/// for the reserve alone is full.
const SPARE_BYTES: u64 = 1 << 20;

/// Room that is put aside on the disk of a file.
pub trait Reserve: Send {
    /// Takes the room, unless it is held already.
    ///
    /// # Errors
    /// When there is none, or none beside it.
    fn hold(&mut self) -> io::Result<()>;
    /// Gives it up; says whether there was any.
    fn give_up(&mut self) -> bool;
}

/// Nothing is put aside.
impl Reserve for () {
    fn hold(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn give_up(&mut self) -> bool {
        false
    }
}

/// Room that is held by a file of this name.
struct ReserveFile(PathBuf);

impl Reserve for ReserveFile {
    fn hold(&mut self) -> io::Result<()> {
        if std::fs::metadata(&self.0).is_ok_and(|it| it.len() == RESERVE_BYTES) {
            return Ok(());
        }
        let fill = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&self.0)?;
            // A disk that packs what it keeps has no room for zeros put aside.
            let mut piece = vec![0; 64 << 10];
            for _ in 0..(RESERVE_BYTES + SPARE_BYTES) / piece.len() as u64 {
                rand::rng().fill_bytes(&mut piece);
                file.write_all(&piece)?;
            }
            file.set_len(RESERVE_BYTES)
        };
        let filled = fill();
        if filled.is_err() {
            self.give_up();
        }
        filled
    }

    fn give_up(&mut self) -> bool {
        std::fs::remove_file(&self.0).is_ok()
    }
}

/// One redb file.
pub struct Redb {
    shown: String,
    open: Open,
    state: State,
    reserve: Box<dyn Reserve>,
}

impl Redb {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// `Locked` when another process has it, `Damaged` when it is no database or not what was written, `Full` when
    /// there is no room to create or repair it, `Open` for anything else.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let shown = path.display().to_string();
        let failed = |source: io::Error| of_storage(&shown, source.into());
        match std::fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => create(path).map_err(failed)?,
            // The file comes into being whole: somebody has emptied it.
            Ok(it) if it.len() == 0 => return Err(StorageError::Damaged(shown)),
            _ => {}
        }
        let reserve = ReserveFile(path.with_extension("reserve"));
        let path = path.to_owned();
        Self::over(&shown, move |builder| builder.open(&path), Box::new(reserve))
    }

    /// Opens a file that somebody else provides, and calls it `shown`. For tests,
    /// whose disks fail when they are told to.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_backend<B: StorageBackend>(
        shown: &str,
        make: impl Fn() -> io::Result<B> + Send + 'static,
        reserve: Box<dyn Reserve>,
    ) -> Result<Self, StorageError> {
        Self::over(shown, move |builder| builder.create_with_backend(make()?), reserve)
    }

    fn over(
        shown: &str,
        open: impl Fn(&mut Builder) -> Result<Database, DatabaseError> + Send + 'static,
        reserve: Box<dyn Reserve>,
    ) -> Result<Self, StorageError> {
        let mut it = Self {
            shown: shown.to_owned(),
            open: Box::new(open),
            state: State::Full(Instant::now()),
            reserve,
        };
        let opened = match it.opened() {
            Err(StorageError::Full) if it.reserve.give_up() => it.opened(),
            opened => opened,
        };
        it.state = State::Open(opened?);
        Ok(it)
    }

    fn opened(&self) -> Result<Database, StorageError> {
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
        // The engine promises errors rather than panics for a damaged file; a panic is one all the same.
        match catch_unwind(AssertUnwindSafe(|| (self.open)(&mut builder))) {
            Ok(Ok(database)) => Ok(database),
            Ok(Err(error)) => Err(of_storage(&self.shown, error.into())),
            Err(_) => Err(StorageError::Damaged(self.shown.clone())),
        }
    }

    /// The open file; opens it again if it ran out of room a while ago.
    fn database(&mut self) -> Result<&Database, StorageError> {
        match &self.state {
            State::Open(_) => {}
            State::Full(since) => {
                // With what was put aside, which is put aside again when there is room beside it: that there is a
                // reserve says nothing of the disk.
                let is_soon = since.elapsed() < RETRY_AFTER;
                if !self.reserve.give_up() && is_soon {
                    return Err(StorageError::Full);
                }
                let opened = self.opened();
                self.settle(opened.as_ref().err());
                self.state = State::Open(opened?);
            }
            State::Broken(why) => return Err(StorageError::Failed(why.clone())),
        }
        match &self.state {
            State::Open(database) => Ok(database),
            State::Full(_) | State::Broken(_) => Err(StorageError::Full),
        }
    }

    /// Closes the file after a failure, for a while or for good.
    fn settle(&mut self, error: Option<&StorageError>) {
        match error {
            None => {}
            Some(StorageError::Full) => self.state = State::Full(Instant::now()),
            // What a sync could not bring to the disk may be forgotten by the system although it shows it, so nothing
            // that is read after such an error proves anything.
            Some(StorageError::Failed(why)) => self.state = State::Broken(why.clone()),
            Some(error) => self.state = State::Broken(error.to_string()),
        }
    }
}

/// Creates the file whole or not at all: one that was begun under its own name could not be told from a damaged one.
fn create(path: &Path) -> io::Result<()> {
    let draft = PathBuf::from(format!("{}.{}.new", path.display(), rand::random::<u32>()));
    let made = || {
        // The objects hold Secrets: whatever the directory's mode, only the owner reads the file.
        OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)?;
        let database = Builder::new().create(&draft).map_err(io::Error::other)?;
        drop(database);
        match std::fs::hard_link(&draft, path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let dir = path.parent().filter(|it| !it.as_os_str().is_empty());
        File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
    };
    let made = made();
    let _ = std::fs::remove_file(&draft);
    made
}

fn is_full(error: &io::Error) -> bool {
    use ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// What an error of opening or reading means.
fn of_storage(shown: &str, error: redb::Error) -> StorageError {
    match error {
        redb::Error::DatabaseAlreadyOpen => StorageError::Locked(shown.to_owned()),
        redb::Error::Corrupted(_) | redb::Error::UpgradeRequired(_) => StorageError::Damaged(shown.to_owned()),
        redb::Error::Io(it) if is_full(&it) => StorageError::Full,
        // It ends too early, or is something else.
        redb::Error::Io(it) if matches!(it.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) => {
            StorageError::Damaged(shown.to_owned())
        }
        source => StorageError::Open {
            path: shown.to_owned(),
            source: Box::new(source),
        },
    }
}

/// What an error of writing means.
fn of_write(error: redb::Error) -> StorageError {
    match error {
        redb::Error::Io(it) if is_full(&it) => StorageError::Full,
        error => StorageError::Failed(error.to_string()),
    }
}

fn read(database: &Database) -> Result<Loaded, redb::Error> {
    let transaction = database.begin_read()?;
    let mut loaded = Loaded::default();
    match transaction.open_table(OBJECTS) {
        Ok(table) => {
            for row in table.iter()? {
                let (key, value) = row?;
                let resource = key.value().split('\0').next().unwrap_or_default().to_owned();
                loaded.objects.push((resource, Bytes::copy_from_slice(value.value())));
            }
        }
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(loaded),
        Err(error) => return Err(error.into()),
    }
    let meta = transaction.open_table(META)?;
    loaded.revision = meta.get("revision")?.map_or(0, |it| it.value());
    Ok(loaded)
}

fn write(database: &Database, records: &[Record]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        for record in records {
            let key = format!("{}\0{}", record.resource, record.key);
            match &record.json {
                Some(json) => objects.insert(key.as_str(), json.as_ref())?,
                None => objects.remove(key.as_str())?,
            };
        }
        if let Some(last) = records.last() {
            let mut meta = transaction.open_table(META)?;
            meta.insert("revision", last.revision)?;
        }
    }
    transaction.commit()?;
    Ok(())
}

impl Storage for Redb {
    fn load(&mut self) -> Result<Loaded, StorageError> {
        let shown = self.shown.clone();
        let database = self.database()?;
        match catch_unwind(AssertUnwindSafe(|| read(database))) {
            Ok(read) => read.map_err(|error| of_storage(&shown, error)),
            Err(_) => Err(StorageError::Damaged(shown)),
        }
    }

    fn write(&mut self, records: &[Record]) -> Result<(), StorageError> {
        let written = write(self.database()?, records).map_err(of_write);
        self.settle(written.as_ref().err());
        written
    }

    fn reserve(&mut self) -> Result<(), StorageError> {
        self.database()?;
        self.reserve.hold().map_err(|error| of_write(error.into()))
    }
}
