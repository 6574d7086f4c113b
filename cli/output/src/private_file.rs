//! Files that only their owner may read.

use std::{
    ffi::OsString,
    fs::OpenOptions,
    io::{ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use anyhow::{Context, Result};

/// Writes a file that only its owner may read, whole or not at all.
pub fn write(path: &Path, text: &str) -> Result<()> {
    write_bytes(path, text.as_bytes())
}

/// As [`write`], of what need not be text. It is on the disk before it has its name.
pub fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    replace(path, bytes).with_context(|| format!("could not write {}", path.display()))
}

/// The same, with what the system says.
pub fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    // Others may write into the directory, and whoever knew the name could have put a link there that leads elsewhere.
    let mut draft = OsString::from(".");
    draft.push(name);
    draft.push(format!(".{:08x}.new", rand::random::<u32>()));
    let draft = path.with_file_name(draft);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_data())
        .and_then(|()| std::fs::rename(&draft, path));
    // Nobody would find it under this name again.
    written.inspect_err(|_| drop(std::fs::remove_file(&draft)))
}
