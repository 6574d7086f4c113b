//! `drover backup`: everything in a data directory to one file.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use client::connect::ApiServer;
use fleet::{
    archive::{Archive, objects_of},
    data_dir::DataDir,
};
use http::Request;
use kube_api::persist::StorageError;
use output::private_file;

/// Write everything in a data directory to a file, while it is in use or not
///
/// Objects of a running API server are asked of it, with the administrator's kubeconfig that lies in the directory.
/// The file holds private keys and Secrets: only you can read it.
#[derive(Debug, Args)]
pub struct Backup {
    /// The file to write, a tar.gz
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The data directory of `up`, `kube up` or `join --embedded`
    #[arg(long, value_name = "DIR", default_value = ".drover")]
    data_dir: PathBuf,
    /// Replace FILE if it is there
    #[arg(long)]
    overwrite: bool,
}

impl Backup {
    pub async fn run(self) -> Result<()> {
        let (root, file) = (&self.data_dir, self.file.display());
        if self.file.exists() && !self.overwrite {
            bail!("{file} is there already; choose another name, or replace it with --overwrite");
        }
        if !DataDir::is_one(root)? {
            bail!(
                "{} is not a data directory of drover; name one with --data-dir",
                root.display()
            );
        }
        let servers = DataDir::servers(root)?;
        if servers.is_empty() {
            bail!("{} holds no objects: there is nothing to back up", root.display());
        }
        let mut files = BTreeMap::new();
        let mut told = Vec::new();
        for server in &servers {
            let text = objects(root, server).await?;
            let parsed = kube_api::backup::parse(&text);
            let parsed = parsed.with_context(|| format!("what {server} holds cannot be read back"))?;
            told.push(format!("{server} ({} objects)", parsed.objects.len()));
            files.insert(objects_of(server), text);
            keys(root, server, &mut files)?;
        }
        if let Ok(ports) = std::fs::read(root.join("ports.json")) {
            files.insert("ports.json".into(), ports);
        }
        let packed = Archive::new(servers, jiff::Timestamp::now(), files).pack();
        let packed = packed.context("could not pack the backup")?;
        private_file::write_bytes(&self.file, &packed)?;
        output::say(format_args!(
            "{file}: {}, {} KiB",
            told.join(", "),
            packed.len().div_ceil(1024)
        ))
    }
}

/// The objects of one server: from its file, and if somebody uses that, from whom uses it.
async fn objects(root: &Path, server: &str) -> Result<Vec<u8>> {
    match kube_api::backup::read(&root.join(server)) {
        Ok(text) => return Ok(text),
        Err(StorageError::Locked(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let kubeconfig = root.join(format!("{server}.kubeconfig"));
    let from = kubeconfig.display().to_string();
    let target = ApiServer::of(client::connect::read(&kubeconfig)?, &from).await?;
    let request = Request::get("/backup").body(Vec::new())?;
    let answered = target.client.request_text(request).await;
    let text = answered.map_err(|error| target.explain(&format!("could not back up {server}"), &error))?;
    Ok(text.into_bytes())
}

/// The keys of one server: without its CA nobody who knew it would know it again.
fn keys(root: &Path, server: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    let dir = root.join(server).join("pki");
    let entries = std::fs::read_dir(&dir).with_context(|| format!("could not read {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        // One that is being written right now, and has its name in a moment.
        if name.is_empty() || name.starts_with('.') || name.ends_with(".new") || !path.is_file() {
            continue;
        }
        let bytes = std::fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
        files.insert(format!("{server}/pki/{name}"), bytes);
    }
    Ok(())
}
