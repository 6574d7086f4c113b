//! `drover restore`: a data directory from what `drover backup` has written.

use std::{
    fs::{DirBuilder, File},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use fleet::{
    archive::{Archive, objects_of},
    data_dir::DataDir,
};
use kube_api::backup::{self, BackupObjects};
use output::private_file;

/// Make a data directory of what `drover backup` has written
///
/// Every checksum and every object of the file is looked at before anything is written.
#[derive(Debug, Args)]
pub struct Restore {
    /// The file that `drover backup` has written
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The data directory; nobody may use it meanwhile
    #[arg(long, value_name = "DIR", default_value = ".drover")]
    data_dir: PathBuf,
    /// Replace everything that the directory holds
    #[arg(long)]
    overwrite: bool,
    /// Refuse a file that unpacks to so many bytes, which are all in memory
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 30)]
    max_bytes: u64,
    /// Only say what the file holds, and whether it is whole
    #[arg(long)]
    dry_run: bool,
}

impl Restore {
    pub fn run(self) -> Result<()> {
        let name = self.file.display();
        let file = File::open(&self.file).with_context(|| format!("could not read {name}"))?;
        let archive = Archive::unpack(file, self.max_bytes).with_context(|| format!("{name} cannot be restored"))?;
        let mut servers = Vec::new();
        for server in &archive.about.servers {
            let parsed = backup::parse(&archive.files[&objects_of(server)]);
            let parsed = parsed.with_context(|| format!("{name} cannot be restored: {server} in it is damaged"))?;
            servers.push((server.as_str(), parsed));
        }
        let told: Vec<String> = servers
            .iter()
            .map(|(server, it)| format!("{server} ({} objects)", it.objects.len()))
            .collect();
        let told = format!("{}, of {}", told.join(", "), archive.about.created);
        if self.dry_run {
            return output::say(format_args!("{name} is whole: {told}"));
        }
        let root = &self.data_dir;
        let shown = root.display();
        let data = DataDir::open(root)?;
        let before = DataDir::servers(root)?;
        if !before.is_empty() && !self.overwrite {
            bail!(
                "{shown} holds {} already; choose another directory with --data-dir, or replace everything with --overwrite",
                before.join(", ")
            );
        }
        let failed = || format!("could not restore into {shown}");
        let draft = private_dir(root, "restoring").with_context(failed)?;
        for (server, objects) in &servers {
            build(&draft.join(server), server, objects, &archive).with_context(failed)?;
        }
        // From here on only names change; what was there before is somewhere until everything has its name.
        let old = private_dir(root, "replaced").with_context(failed)?;
        for server in &before {
            std::fs::rename(root.join(server), old.join(server)).with_context(failed)?;
        }
        for (server, _) in &servers {
            let place = data.server(server);
            // A directory without objects: what is left of a node.
            if place.exists() {
                std::fs::rename(&place, old.join(server)).with_context(failed)?;
            }
            std::fs::rename(draft.join(server), place).with_context(failed)?;
        }
        if let Some(ports) = archive.files.get("ports.json") {
            private_file::write_bytes(&root.join("ports.json"), ports)?;
        }
        File::open(root).and_then(|it| it.sync_all()).with_context(failed)?;
        for dir in [draft, old] {
            std::fs::remove_dir_all(&dir).with_context(|| format!("could not remove {}", dir.display()))?;
        }
        output::say(format_args!("restored into {shown}: {told}"))
    }
}

/// A private directory that nobody else has, beside what it will replace.
fn private_dir(root: &Path, what: &str) -> std::io::Result<PathBuf> {
    let dir = root.join(format!(".{what}-{:08x}", rand::random::<u32>()));
    DirBuilder::new().mode(0o700).create(&dir)?;
    Ok(dir)
}

fn build(dir: &Path, server: &str, objects: &BackupObjects, archive: &Archive) -> Result<()> {
    let keys = dir.join("pki");
    DirBuilder::new().recursive(true).mode(0o700).create(&keys)?;
    backup::write(dir, objects)?;
    let prefix = format!("{server}/pki/");
    for (name, bytes) in &archive.files {
        if let Some(name) = name.strip_prefix(&prefix) {
            private_file::write_bytes(&keys.join(name), bytes)?;
        }
    }
    File::open(&keys)?.sync_all()?;
    Ok(())
}
