//! What `drover backup` writes: a tar.gz of the objects and keys of every API server in a data directory.
//!
//! `backup.json` says what it is, `SERVER/objects.jsonl` and `SERVER/pki/FILE` are what is kept, `ports.json` which ports the
//! servers had, and `SHA256SUMS`, the last file, has the sum of each of the others, as `sha256sum` writes them.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::Read,
    path::{Component, Path},
};

use anyhow::{Context, Result, bail, ensure};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The layout that this binary writes, and the newest that it reads.
const FORMAT: u32 = 1;
const ABOUT: &str = "backup.json";
const SUMS: &str = "SHA256SUMS";
/// The most that one file may unpack to: what is larger was not written by us, and would only fill the memory.
const FILE_BYTES_MAX: u64 = 16 << 30;

/// What an archive says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub format: u32,
    /// The version of the binary that made it.
    pub drover: String,
    pub created: String,
    pub servers: Vec<String>,
}

/// The files of an archive by their paths.
#[derive(Debug)]
pub struct Archive {
    pub about: About,
    pub files: BTreeMap<String, Vec<u8>>,
}

fn sum(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl Archive {
    /// An archive of these files.
    pub fn new(servers: Vec<String>, created: jiff::Timestamp, files: BTreeMap<String, Vec<u8>>) -> Self {
        let about = About {
            format: FORMAT,
            drover: env!("CARGO_PKG_VERSION").to_owned(),
            created: created.to_string(),
            servers,
        };
        Self { about, files }
    }

    /// The archive as bytes.
    pub fn pack(&self) -> Result<Vec<u8>> {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut put = |name: &str, bytes: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o600);
            tar.append_data(&mut header, name, bytes)
        };
        let about = serde_json::to_vec_pretty(&self.about)?;
        let mut sums = format!("{}  {ABOUT}\n", sum(&about));
        put(ABOUT, &about)?;
        for (name, bytes) in &self.files {
            sums.push_str(&format!("{}  {name}\n", sum(bytes)));
            put(name, bytes)?;
        }
        put(SUMS, sums.as_bytes())?;
        Ok(tar.into_inner()?.finish()?)
    }

    /// Reads an archive and looks at every sum.
    pub fn unpack(packed: impl Read) -> Result<Self> {
        const DAMAGED: &str = "it is damaged, or was not written by `drover backup`";
        let mut files = BTreeMap::new();
        let mut tar = tar::Archive::new(GzDecoder::new(packed));
        let mut last = String::new();
        for entry in tar.entries().context(DAMAGED)? {
            let entry = entry.context(DAMAGED)?;
            let path = entry.path().context(DAMAGED)?.into_owned();
            let inside = path.components().all(|it| matches!(it, Component::Normal(_)));
            let name = path
                .to_str()
                .filter(|_| inside && entry.header().entry_type().is_file());
            last = name.context(DAMAGED)?.to_owned();
            let mut bytes = Vec::new();
            entry.take(FILE_BYTES_MAX).read_to_end(&mut bytes).context(DAMAGED)?;
            files.insert(last.clone(), bytes);
        }
        // What follows the last file is only read for the checksum of gzip at its end: so a cut is found wherever it is.
        std::io::copy(&mut tar.into_inner().take(FILE_BYTES_MAX), &mut std::io::sink()).context("it ends too early")?;
        let sums = files
            .remove(SUMS)
            .filter(|_| last == SUMS)
            .context("it ends too early")?;
        let sums = String::from_utf8(sums).context(DAMAGED)?;
        let mut known = BTreeMap::new();
        for line in sums.lines() {
            let (sum, name) = line.split_once("  ").context(DAMAGED)?;
            known.insert(name, sum);
        }
        ensure!(
            known.len() == files.len() && files.keys().all(|it| known.contains_key(it.as_str())),
            DAMAGED
        );
        for (name, bytes) in &files {
            ensure!(
                known[name.as_str()] == sum(bytes),
                "{name} in it was changed: its checksum is another"
            );
        }
        let about = files.remove(ABOUT).context(DAMAGED)?;
        let format: u64 = serde_json::from_slice::<serde_json::Value>(&about).context(DAMAGED)?["format"]
            .as_u64()
            .context(DAMAGED)?;
        if format > u64::from(FORMAT) {
            bail!(
                "it has format {format}, written by a newer drover; this one knows format {FORMAT}: use the newer binary"
            );
        }
        let about: About = serde_json::from_slice(&about).context(DAMAGED)?;
        for server in &about.servers {
            let plain = Path::new(server).components().count() == 1 && !server.starts_with('.');
            ensure!(plain && files.contains_key(&objects_of(server)), DAMAGED);
        }
        Ok(Self { about, files })
    }
}

/// Where the objects of a server are.
pub fn objects_of(server: &str) -> String {
    format!("{server}/objects.jsonl")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive() -> Archive {
        let text = "{\"objects\":0,\"revision\":1}\n".repeat(50).into_bytes();
        let files = [("hub/objects.jsonl", text), ("hub/pki/ca.key", b"secret".to_vec())];
        let files = files
            .into_iter()
            .map(|(name, bytes)| (name.to_owned(), bytes))
            .collect();
        Archive::new(vec!["hub".into()], jiff::Timestamp::UNIX_EPOCH, files)
    }

    #[test]
    fn what_was_packed_is_unpacked() {
        let wanted = archive();
        let found = Archive::unpack(wanted.pack().unwrap().as_slice()).unwrap();
        assert_eq!((found.about, found.files), (wanted.about, wanted.files));
    }

    #[test]
    fn an_archive_that_was_cut_or_changed_is_refused() {
        let packed = archive().pack().unwrap();
        for len in 0..packed.len() {
            assert!(Archive::unpack(&packed[..len]).is_err(), "cut after {len}");
        }
        for at in 10..packed.len() {
            let mut changed = packed.clone();
            changed[at] ^= 0x10;
            // The same bytes may be packed in more than one way; what is read must be what was written.
            if let Ok(found) = Archive::unpack(changed.as_slice()) {
                assert_eq!(found.files, archive().files, "changed at {at}");
            }
        }
    }

    #[test]
    fn an_archive_of_a_newer_version_is_refused_with_its_number() {
        let mut newer = archive();
        newer.about.format = 2;
        let error = Archive::unpack(newer.pack().unwrap().as_slice()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("it has format 2, written by a newer drover"),
            "{error}"
        );
    }

    #[test]
    fn an_archive_writes_nowhere_else() {
        for name in ["../hub/objects.jsonl", "/etc/objects.jsonl"] {
            let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
            let mut header = tar::Header::new_gnu();
            // Past the library's own check.
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(1);
            header.set_cksum();
            tar.append(&header, &b"x"[..]).unwrap();
            let packed = tar.into_inner().unwrap().finish().unwrap();
            assert!(Archive::unpack(packed.as_slice()).is_err(), "{name}");
        }
    }
}
