//! What `drover backup` writes: a tar.gz of the objects and keys of every API server in a data directory.
//!
//! `backup.json` says what it is, `SERVER/objects.jsonl` and `SERVER/pki/FILE` are what is kept, `ports.json` which
//! ports the servers had, and `SHA256SUMS`, the last file, has the sum of each of the others,
//! as `sha256sum` writes them.

use std::{collections::BTreeMap, fmt::Write as _, io::Read, path::Path};

use anyhow::{Context, Result, bail, ensure};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The layout that this binary writes, and the newest that it reads.
const FORMAT: u32 = 1;
const ABOUT: &str = "backup.json";
const SUMS: &str = "SHA256SUMS";
const PORTS: &str = "ports.json";

/// What an archive says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The layout.
    pub format: u32,
    /// The version of the binary that made it.
    pub drover: String,
    /// When it was made.
    pub created: String,
    /// The API servers that are in it.
    pub servers: Vec<String>,
}

/// The files of an archive by their paths.
#[derive(Debug)]
pub struct Archive {
    /// What it says of itself.
    pub about: About,
    /// The files.
    pub files: BTreeMap<String, Vec<u8>>,
}

const DAMAGED: &str = "it is damaged, or was not written by `drover backup`";

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

    /// Reads an archive that unpacks to less than `bytes_max`, and looks at every sum. All of it is in memory then, and
    /// a small file may say that it is a large one.
    pub fn unpack(packed: impl Read, bytes_max: u64) -> Result<Self> {
        let mut tar = tar::Archive::new(GzDecoder::new(packed).take(bytes_max));
        let read = read_files(&mut tar);
        let mut rest = tar.into_inner();
        // What follows the last file is only read for the checksum of gzip at its end:
        // so a cut is found wherever it is.
        let end = read.and_then(|it| {
            std::io::copy(&mut rest, &mut std::io::sink()).context("it ends too early")?;
            Ok(it)
        });
        // Where nothing may be read any more, every end looks like one that comes too early.
        ensure!(
            rest.limit() > 0,
            "it unpacks to {bytes_max} bytes or more, which would all be in memory; if you know whose it is, allow more with \
             --max-bytes"
        );
        let (mut files, last) = end?;
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
        let about: About = serde_json::from_slice(&about).context(DAMAGED)?;
        for server in &about.servers {
            let plain = Path::new(server).components().count() == 1 && !server.starts_with('.');
            ensure!(plain && files.contains_key(&objects_of(server)), DAMAGED);
        }
        Ok(Self { about, files })
    }
}

/// The files by their paths, and which was the last.
fn read_files(tar: &mut tar::Archive<impl Read>) -> Result<(BTreeMap<String, Vec<u8>>, String)> {
    let mut files = BTreeMap::new();
    let mut last = String::new();
    for entry in tar.entries().context(DAMAGED)? {
        let mut entry = entry.context(DAMAGED)?;
        let path = entry.path().context(DAMAGED)?.into_owned();
        let name = path.to_str().filter(|it| is_ours(it) && !files.contains_key(*it));
        let name = name.filter(|_| entry.header().entry_type().is_file());
        last = name.context(DAMAGED)?.to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).context(DAMAGED)?;
        // It comes first, because a newer archive may hold files that this binary does not know.
        if last == ABOUT {
            check_format(&bytes)?;
        }
        files.insert(last.clone(), bytes);
    }
    Ok((files, last))
}

/// Whether this is the path of a file that a backup holds. Everything else would be read for nothing.
fn is_ours(path: &str) -> bool {
    let is_plain = |it: &str| !it.is_empty() && !it.starts_with('.');
    match path.split('/').collect::<Vec<_>>().as_slice() {
        [ABOUT | SUMS | PORTS] => true,
        [server, "objects.jsonl"] => is_plain(server),
        [server, "pki", file] => is_plain(server) && is_plain(file),
        _ => false,
    }
}

fn check_format(about: &[u8]) -> Result<()> {
    let about: serde_json::Value = serde_json::from_slice(about).context(DAMAGED)?;
    let format = about["format"].as_u64().context(DAMAGED)?;
    if format > u64::from(FORMAT) {
        bail!(
            "it has format {format}, written by a newer drover; this one knows format {FORMAT}: use the newer binary"
        );
    }
    Ok(())
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

    fn unpack(packed: &[u8]) -> Result<Archive> {
        Archive::unpack(packed, 1 << 30)
    }

    /// A file of these entries, whatever they are called.
    fn tar_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, bytes) in entries {
            let mut header = tar::Header::new_gnu();
            // Past the library's own check.
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(bytes.len() as u64);
            header.set_cksum();
            tar.append(&header, *bytes).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn unpacking_stops_when_an_archive_exceeds_its_size_limit() {
        let zeros = vec![0; 4 << 20];
        // One file that is large, and many that are large together.
        let one = tar_of(&[("hub/objects.jsonl", &zeros)]);
        let names: Vec<String> = (0..64).map(|it| format!("hub/pki/{it}")).collect();
        let many: Vec<_> = names.iter().map(|it| (it.as_str(), &zeros[..1 << 16])).collect();
        let many = tar_of(&many);
        for packed in [one, many] {
            assert!(packed.len() < 1 << 16);
            let error = Archive::unpack(packed.as_slice(), 1 << 20).unwrap_err().to_string();
            assert!(error.starts_with("it unpacks to 1048576 bytes or more"), "{error}");
        }
        assert!(Archive::unpack(archive().pack().unwrap().as_slice(), 1 << 20).is_ok());
    }

    #[test]
    fn a_file_that_no_backup_holds_is_not_read() {
        for name in [
            "x",
            "hub",
            "hub/objects.jsonl/x",
            "hub/x",
            ".hub/objects.jsonl",
            "hub/pki/.x",
        ] {
            assert!(!is_ours(name), "{name}");
            let error = unpack(&tar_of(&[(name, b"x")])).unwrap_err();
            assert_eq!(error.to_string(), DAMAGED, "{name}");
        }
        let twice = tar_of(&[("ports.json", b"{}"), ("ports.json", b"{}")]);
        assert_eq!(unpack(&twice).unwrap_err().to_string(), DAMAGED);
    }

    #[test]
    fn what_was_packed_is_unpacked() {
        let wanted = archive();
        let found = unpack(&wanted.pack().unwrap()).unwrap();
        assert_eq!((found.about, found.files), (wanted.about, wanted.files));
    }

    #[test]
    fn an_archive_that_was_cut_or_changed_is_refused() {
        let packed = archive().pack().unwrap();
        for len in 0..packed.len() {
            assert!(unpack(&packed[..len]).is_err(), "cut after {len}");
        }
        for at in 10..packed.len() {
            let mut changed = packed.clone();
            changed[at] ^= 0x10;
            // The same bytes may be packed in more than one way; what is read must be what was written.
            if let Ok(found) = unpack(&changed) {
                assert_eq!(found.files, archive().files, "changed at {at}");
            }
        }
    }

    #[test]
    fn a_newer_archive_format_is_refused_with_its_number() {
        let mut newer = archive();
        newer.about.format = 2;
        let error = unpack(&newer.pack().unwrap()).unwrap_err();
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
            let packed = tar_of(&[(name, b"x")]);
            assert!(unpack(&packed).is_err(), "{name}");
        }
    }
}
