//! The APIs of many clusters, in a process of their own: what they hold and do is neither the hub's nor the agents'.

use crate::drover::Drover;
use anyhow::{Context, Result};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use kube_api::{Options, Server, identity::MASTERS};
use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};
use tokio::net::TcpListener;

/// How long the clients' certificates are good, in seconds.
const CERTIFICATE_SECONDS: i64 = 24 * 3600;
const READY: &str = "ready";

/// The process, and a client of each cluster, over TLS as an agent's is.
pub struct Apis {
    process: Drover,
    /// One each.
    pub clients: Vec<Client>,
}

impl Apis {
    /// Starts the APIs of so many clusters, in memory; the files to speak to them are put into `dir`.
    pub async fn start(count: usize, dir: &Path) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--serve-clusters", &count.to_string(), "--serve-dir"])
            .arg(dir)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("the output is piped")?;
        let process = Drover::from(child);
        let first = BufReader::new(output).lines().next();
        anyhow::ensure!(
            first.transpose()?.is_some_and(|it| it == READY),
            "the clusters' APIs ended before they were ready"
        );
        let mut clients = Vec::with_capacity(count);
        for number in 0..count {
            let file = Kubeconfig::read_from(path(dir, number))?;
            let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
            clients.push(credential::connection::client(&config)?);
        }
        Ok(Self { process, clients })
    }

    /// CPU time that they have used so far.
    pub fn cpu(&self) -> Result<Duration> {
        self.process.cpu()
    }

    /// Ends them.
    pub fn stop(self) -> Result<()> {
        drop(self.clients);
        self.process.stop()
    }
}

/// What that process does.
pub async fn serve(count: usize, dir: &Path) -> Result<()> {
    let mut servers = Vec::with_capacity(count);
    for number in 0..count {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let server = Server::open(Options {
            address: Some(address),
            ..Options::default()
        })
        .await?;
        let pki = server.pki();
        let pair = pki.issue_client_certificate("agent", &[MASTERS], CERTIFICATE_SECONDS, jiff::Timestamp::now())?;
        let kubeconfig = pki.kubeconfig(&format!("https://{address}"), "cluster", "agent", &pair);
        tokio::fs::write(path(dir, number), kubeconfig).await?;
        let listening = server.listen(listener)?;
        servers.push((server, listening));
    }
    println!("{READY}");
    let mut asked = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    asked.recv().await;
    for (server, listening) in servers {
        server.stop(Some(listening)).await;
    }
    Ok(())
}

fn path(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("cluster{number}.kubeconfig"))
}
