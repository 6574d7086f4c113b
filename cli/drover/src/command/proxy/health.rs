//! `drover proxy health`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use client::{conditions, connect::ApiServer, kinds};
use http::Request;
use kube::{Client, Config, api::ListParams, core::DynamicObject};
use rustls_pki_types::{CertificateDer, pem::PemObject};

use super::{
    NAME, NOT_INSTALLED, is_offered,
    user_server::{self, UserServerAddress},
};
use crate::command::get;

/// A cluster that has not answered by then does not.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub struct Health {
    /// Only these clusters [default: all clusters]
    #[arg(
        short,
        long,
        visible_alias = "cluster",
        value_delimiter = ',',
        value_name = "CLUSTERS"
    )]
    pub clusters: Vec<String>,
    /// The URL of the user-server [default: what ManagedProxyConfiguration cluster-proxy says]
    #[arg(long, value_name = "URL")]
    pub user_server: Option<String>,
}

impl Health {
    /// Prints the table, or that there is no such add-on.
    pub async fn show(&self, hub: &ApiServer) -> Result<()> {
        if !is_offered(hub).await? {
            return output::print(NOT_INSTALLED);
        }
        let installed = hub.all(&kinds::managed_cluster_add_on());
        let named = ListParams::default().fields(&format!("metadata.name={NAME}"));
        let installed = installed.list(&named).await;
        let installed = installed.map_err(|error| hub.explain("could not list the add-ons of the clusters", &error))?;
        let mut rows = Vec::new();
        for cluster in get::clusters::list(hub, None, None).await? {
            let name = cluster.metadata.name.unwrap_or_default();
            if !self.clusters.is_empty() && !self.clusters.contains(&name) {
                continue;
            }
            let is_its = |it: &&DynamicObject| it.metadata.namespace.as_ref() == Some(&name);
            let add_on = installed.items.iter().find(is_its);
            let available = add_on.and_then(|it| conditions::of(it, "Available"));
            rows.push(Row {
                is_installed: add_on.is_some(),
                is_available: available.is_some_and(|it| it.is_true()),
                probed: None,
                name,
            });
        }
        // A table without them is better than none.
        let users = match user_server::find(hub, self.user_server.as_deref()).await {
            Ok(users) => Some(users),
            Err(error) => {
                eprintln!("the tunnels to the clusters are not tried: {error:#}");
                None
            }
        };
        if let Some(users) = &users {
            let probes = rows.iter().map(|it| probe(users, &it.name));
            let probed = futures::future::try_join_all(probes).await?;
            for (row, probed) in rows.iter_mut().zip(probed) {
                row.probed = Some(probed);
            }
        }
        output::print(&table(&rows))
    }
}

/// One cluster of the table.
struct Row {
    name: String,
    is_installed: bool,
    is_available: bool,
    /// What it has answered, if it was asked.
    probed: Option<Probed>,
}

impl Row {
    /// Whether it is well, and how long that took to say.
    fn health(&self) -> (&'static str, String) {
        match self.probed {
            Some(Probed::Answered(after)) => ("True", format!("{after:.3?}")),
            Some(Probed::Failed) => ("False", "<none>".to_owned()),
            Some(Probed::Late) => ("Unknown", "<timeout>".to_owned()),
            None => ("Unknown", "<none>".to_owned()),
        }
    }
}

fn table(rows: &[Row]) -> String {
    let word = |it: bool| if it { "True" } else { "False" };
    let header = ["CLUSTER NAME", "INSTALLED", "AVAILABLE", "PROBED HEALTH", "LATENCY"].map(str::to_owned);
    let cells = rows.iter().map(|it| {
        let (installed, available) = (word(it.is_installed), word(it.is_available));
        let (health, latency) = it.health();
        let words = [&it.name, installed, available, health];
        let [name, installed, available, health] = words.map(str::to_owned);
        [name, installed, available, health, latency]
    });
    let lines: Vec<[String; 5]> = std::iter::once(header).chain(cells).collect();
    let width = |column: usize| lines.iter().map(|it| it[column].len()).max().unwrap_or_default() + 4;
    let mut text = String::new();
    for line in &lines {
        for (column, cell) in line[..4].iter().enumerate() {
            text.push_str(&format!("{cell:width$}", width = width(column)));
        }
        text.push_str(&line[4]);
        text.push('\n');
    }
    text
}

/// What a cluster has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probed {
    /// It did, after that long.
    Answered(Duration),
    /// The tunnel, or the cluster behind it, did not.
    Failed,
    /// Nothing came.
    Late,
}

/// Asks a cluster how it is. Who asks shows nothing, so that any word of the cluster is an answer, also that it wants
/// to know who asks.
async fn probe(users: &UserServerAddress, cluster: &str) -> Result<Probed> {
    let mut config = Config::new(format!("{}/{cluster}", users.url).parse()?);
    let certificates = CertificateDer::pem_slice_iter(users.ca.as_bytes());
    let certificates = certificates
        .map(|it| it.map(|it| it.to_vec()))
        .collect::<Result<_, _>>();
    config.root_cert = Some(certificates.context("the certificate of the user-server's authority")?);
    let client = Client::try_from(config)?;
    let since = Instant::now();
    let asking = client.request_text(Request::get("/healthz").body(Vec::new())?);
    Ok(match tokio::time::timeout(ANSWERED_WITHIN, asking).await {
        Err(_) => Probed::Late,
        Ok(Ok(_)) => Probed::Answered(since.elapsed()),
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => Probed::Answered(since.elapsed()),
        Ok(Err(_)) => Probed::Failed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_stand_in_upstreams_table() {
        let row = |name: &str, is_installed, is_available, probed| Row {
            name: name.into(),
            is_installed,
            is_available,
            probed,
        };
        let answered = Some(Probed::Answered(Duration::from_micros(1500)));
        assert_eq!(
            table(&[
                row("cluster1", true, true, answered),
                row("cluster2", false, false, None)
            ]),
            "CLUSTER NAME    INSTALLED    AVAILABLE    PROBED HEALTH    LATENCY\n\
             cluster1        True         True         True             1.500ms\n\
             cluster2        False        False        Unknown          <none>\n"
        );
    }
}
