//! A disk in memory that can lose its power and run out of room.

use kube_api::persist::Reserve;
use parking_lot::Mutex;
use rand::{RngExt, rngs::StdRng};
use redb::StorageBackend;
use std::{collections::BTreeSet, io, sync::Arc};

/// What a real disk writes whole or not at all.
const SECTOR: usize = 512;
/// What a filesystem gives room for when it is first written.
const BLOCK: usize = 4096;

enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Length(usize),
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Length(len) => image.resize(*len, 0),
            Self::Write { at, bytes } => {
                if image.len() < at + bytes.len() {
                    image.resize(at + bytes.len(), 0);
                }
                image[*at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
    }
}

#[derive(Default)]
struct Inner {
    /// What a sync has brought to the disk.
    durable: Vec<u8>,
    /// What a reader sees.
    current: Vec<u8>,
    /// What lies between the two.
    unsynced: Vec<Change>,
    /// The blocks that were written.
    blocks: BTreeSet<usize>,
    /// Bytes for which there is room.
    room: Option<usize>,
    /// Whether some of them are put aside.
    is_reserved: bool,
    /// Writes and syncs until the power goes.
    steps_left: Option<usize>,
}

/// How much is put aside, and how much more there has to be room for.
const RESERVE: usize = 1 << 20;
const SPARE: usize = 1 << 18;

impl Inner {
    fn room(&self) -> Option<usize> {
        let reserved = if self.is_reserved { RESERVE } else { 0 };
        self.room.map(|it| it.saturating_sub(reserved))
    }
}

/// The disk; clones are the same disk.
#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<Inner>>);

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Disk")
    }
}

impl Disk {
    /// A disk that already holds something.
    pub fn holding(image: Vec<u8>) -> Self {
        let disk = Self::default();
        disk.0.lock().current = image.clone();
        disk.0.lock().durable = image;
        disk
    }

    /// Takes the power away after so many writes and syncs.
    pub fn lose_power_after(&self, steps: usize) {
        self.0.lock().steps_left = Some(steps);
    }

    /// How much there is room for, from now on.
    pub fn set_room(&self, bytes: Option<usize>) {
        self.0.lock().room = bytes;
    }

    /// How much there has to be room for, with what is put aside.
    pub fn needed(&self) -> usize {
        self.used() + RESERVE + SPARE
    }

    /// How much is used.
    pub fn used(&self) -> usize {
        self.0.lock().blocks.len() * BLOCK
    }

    /// What is on the disk after the power went: what was synced, and of the rest whatever dice say, sector by sector.
    pub fn after_power_loss(&self, dice: &mut StdRng) -> Vec<u8> {
        let inner = self.0.lock();
        let mut image = inner.durable.clone();
        for change in &inner.unsynced {
            match (dice.random_range(0..3), change) {
                (0, _) => {}
                (1, Change::Write { at, bytes }) => {
                    for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                        if dice.random() {
                            let at = at + number * SECTOR;
                            let bytes = sector.to_vec();
                            Change::Write { at, bytes }.apply(&mut image);
                        }
                    }
                }
                _ => change.apply(&mut image),
            }
        }
        image
    }

    fn step(inner: &mut Inner) -> io::Result<()> {
        match &mut inner.steps_left {
            Some(0) => return Err(io::Error::other("the power is gone")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }

    fn change(&self, change: Change) -> io::Result<()> {
        let mut inner = self.0.lock();
        Self::step(&mut inner)?;
        let end = match &change {
            Change::Length(len) => *len,
            Change::Write { at, bytes } => at + bytes.len(),
        };
        // As a filesystem, which lets a file be long and finds out when it is to be filled.
        match &change {
            Change::Length(_) => inner.blocks.retain(|it| it * BLOCK < end),
            Change::Write { at, .. } => {
                let new = (at / BLOCK..end.div_ceil(BLOCK)).filter(|it| !inner.blocks.contains(it));
                let new: Vec<_> = new.collect();
                let room = inner.room();
                if !new.is_empty() && room.is_some_and(|room| (inner.blocks.len() + new.len()) * BLOCK > room) {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                inner.blocks.extend(new);
            }
        }
        change.apply(&mut inner.current);
        inner.unsynced.push(change);
        Ok(())
    }
}

impl Reserve for Disk {
    fn hold(&mut self) -> io::Result<()> {
        let mut inner = self.0.lock();
        let used = inner.blocks.len() * BLOCK;
        if !inner.is_reserved && inner.room.is_some_and(|room| used + RESERVE + SPARE > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        inner.is_reserved = true;
        Ok(())
    }

    fn give_up(&mut self) -> bool {
        std::mem::take(&mut self.0.lock().is_reserved)
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inner = self.0.lock();
        let at = offset as usize;
        let bytes = inner.current.get(at..at + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::Length(len as usize))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut inner = self.0.lock();
        Self::step(&mut inner)?;
        inner.durable = inner.current.clone();
        inner.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Change::Write {
            at: offset as usize,
            bytes: data.to_vec(),
        })
    }
}
