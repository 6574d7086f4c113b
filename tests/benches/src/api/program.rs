//! Which program serves the API that is measured: ours, or a real Kubernetes of the same numbers in the same run.

use super::NAME;
use crate::drover::{Drover, kubeconfig};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

/// A program that serves the Kubernetes API.
#[derive(Clone, Copy)]
pub enum Program<'a> {
    /// `drover`.
    Embedded(&'a Path),
    /// What `cargo xtask kubernetes build` makes: kube-apiserver, etcd and kube-controller-manager in one process.
    Real(&'a Path),
}

impl Program<'_> {
    /// Starts it on what a data directory holds, and waits until it says that it is ready.
    pub fn start(self, data: &Path) -> Result<Drover> {
        let program = match self {
            Self::Embedded(binary) => return Drover::until_ready(binary, &["kube", "up", "--no-node"], data),
            Self::Real(program) => program,
        };
        let begun = Instant::now();
        let mut child = Command::new(program)
            .arg("--data-directory")
            .arg(data.join(NAME))
            .arg("--kubeconfig")
            .arg(kubeconfig(data, NAME))
            .arg("--durable")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = child.stdout.take().context("the output is piped")?;
        let mut server = Drover::from(child);
        let first = BufReader::new(output).lines().next();
        first
            .transpose()?
            .context("the real Kubernetes ended before it was ready")?;
        server.ready_after = begun.elapsed();
        Ok(server)
    }

    /// Bytes of the files that hold the objects.
    pub fn files(self, data: &Path) -> Result<u64> {
        match self {
            Self::Embedded(_) => Ok(fs::metadata(data.join(NAME).join("objects.redb"))?.len()),
            Self::Real(_) => size(&data.join(NAME).join("etcd")),
        }
    }
}

fn size(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        sum += if about.is_dir() {
            size(&entry.path())?
        } else {
            about.len()
        };
    }
    Ok(sum)
}

/// The figures that say the same of both, and where they are.
const FIGURES: [(&str, &str); 13] = [
    ("readyOnEmptyDataMilliseconds", "/readyOnEmptyDataMilliseconds/measured"),
    ("readyWithObjectsMilliseconds", "/readyWithObjectsMilliseconds/measured"),
    ("residentEmptyMebibytes", "/residentEmptyMebibytes/measured"),
    (
        "residentBeyondBytesOfAnObject",
        "/residentBeyondBytesOfAnObject/measured",
    ),
    ("fileMebibytes", "/fileMebibytes"),
    ("kibibytesPerIdleConnection", "/idleConnection/kibibytesEach/measured"),
    ("singleWriterP50Milliseconds", "/singleWriter/p50Milliseconds/measured"),
    ("createsPerSecond", "/durableCreates/perSecond/measured"),
    (
        "watchLagP99Milliseconds",
        "/watches/lagFromSendingTheWriteMilliseconds/p99",
    ),
    ("kibibytesPerWatcher", "/watches/kibibytesPerWatcher/measured"),
    ("listP50Milliseconds", "/list/p50Milliseconds"),
    ("listExtraMebibytes", "/list/extraMebibytes/measured"),
    (
        "serverSideApplyMicroseconds",
        "/serverSideApply/serverMicroseconds/measured",
    ),
];

/// Both, figure by figure, and how many times ours the real one is.
pub fn ratios(ours: &Value, real: &Value) -> Value {
    let rows = FIGURES.iter().filter_map(|(name, path)| {
        let (ours, real) = (ours.pointer(path)?.as_f64()?, real.pointer(path)?.as_f64()?);
        let times = (ours != 0.0).then(|| crate::statistics::round(real / ours));
        Some((
            (*name).to_owned(),
            json!({"embedded": ours, "real": real, "times": times}),
        ))
    });
    Value::Object(rows.collect())
}
