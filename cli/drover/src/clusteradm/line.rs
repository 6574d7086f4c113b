//! What was typed, as the commands ask for it.

use std::{io::IsTerminal, path::PathBuf, time::Duration};

use anyhow::{Result, bail};
use client::{
    connect::ApiServer,
    flags::{Global, WAIT_SECONDS_MAX},
};
use clusteradm::print::{Format, Paint};
use cobra::{FlagValues, Parsed};

/// A command line that was read.
pub struct Line<'a> {
    /// As the program was called.
    pub called: &'a str,
    pub flags: FlagValues,
    pub words: Vec<String>,
    pub global: Global,
}

impl<'a> Line<'a> {
    pub fn new(called: &'a str, parsed: Parsed) -> Self {
        let Parsed { values, words, .. } = parsed;
        let global = Global {
            kubeconfig: values.some("kubeconfig").map(PathBuf::from),
            context: values.some("context").map(str::to_owned),
            log: std::env::var("DROVER_LOG").ok().filter(|it| !it.is_empty()),
        };
        Self {
            called,
            flags: values,
            words,
            global,
        }
    }

    /// klog's levels in our words.
    pub fn log_filter(&self) -> &'static str {
        match self.flags.number("v") {
            ..=0 => "off",
            1..=3 => "info,kube_client=off,kube_runtime=off,rustls_platform_verifier=off",
            _ => "debug,h2=info,hyper=info,rustls=info",
        }
    }

    pub fn is_dry_run(&self) -> bool {
        self.flags.is_on("dry-run")
    }

    /// A text that says something.
    pub fn text(&self, name: &str) -> Option<String> {
        self.flags.some(name).map(str::to_owned)
    }

    /// A file that was named.
    pub fn file(&self, name: &str) -> Option<PathBuf> {
        self.flags.some(name).map(PathBuf::from)
    }

    /// How long to wait.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.seconds())
    }

    /// The same, in seconds.
    pub fn seconds(&self) -> u64 {
        let seconds = u64::try_from(self.flags.number("timeout")).unwrap_or_default();
        seconds.min(WAIT_SECONDS_MAX)
    }

    /// The clusters of `--cluster` and `--clusters`, each once.
    ///
    /// # Errors
    /// When one of them has no name.
    pub fn clusters(&self) -> Result<Vec<String>> {
        let mut clusters = self.flags.list("clusters");
        if clusters.iter().any(String::is_empty) {
            bail!("--clusters cannot be set as an empty value");
        }
        clusters.extend(self.text("cluster"));
        clusters.sort();
        clusters.dedup();
        Ok(clusters)
    }

    /// The same, where there must be one.
    ///
    /// # Errors
    /// When there is none.
    pub fn some_clusters(&self) -> Result<Vec<String>> {
        let clusters = self.clusters()?;
        if clusters.is_empty() {
            bail!("either --cluster or --clusters needs to be set");
        }
        Ok(clusters)
    }

    /// The one argument.
    ///
    /// # Errors
    /// When there is none, or there are more, in upstream's words.
    pub fn word(&self, missing: &'static str, several: &'static str) -> Result<String> {
        match self.words.as_slice() {
            [] => bail!(missing),
            [one] => Ok(one.clone()),
            _ => bail!(several),
        }
    }

    /// How objects are printed.
    ///
    /// # Errors
    /// When there is no such format.
    pub fn format(&self) -> Result<Format> {
        Format::parse(self.flags.text("output"))
    }

    /// The hub of the kubeconfig.
    ///
    /// # Errors
    /// When it cannot be asked, or is none.
    pub async fn hub(&self) -> Result<ApiServer> {
        let hub = ApiServer::connect(&self.global).await?;
        if !serves(&hub, "cluster.open-cluster-management.io/v1", "managedclusters").await? {
            bail!("hub oriented command should not running against non-hub cluster");
        }
        Ok(hub)
    }

    /// The managed cluster of the kubeconfig.
    ///
    /// # Errors
    /// When it cannot be asked, or is none.
    pub async fn managed_cluster(&self) -> Result<ApiServer> {
        let cluster = ApiServer::connect(&self.global).await?;
        if !serves(&cluster, "cluster.open-cluster-management.io/v1alpha1", "clusterclaims").await? {
            bail!("managed cluster oriented command should not running against non-managed cluster");
        }
        Ok(cluster)
    }
}

async fn serves(cluster: &ApiServer, group: &str, plural: &str) -> Result<bool> {
    match cluster.client.list_api_group_resources(group).await {
        Ok(list) => Ok(list.resources.iter().any(|it| it.name == plural)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(cluster.explain(&format!("could not ask for the kinds of {group}"), &error)),
    }
}

/// What is wrong is red on a terminal, unless its user wants no colors.
pub fn paint() -> Paint {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty())
        || std::env::var("TERM").is_ok_and(|it| it == "dumb")
        || !std::io::stdout().is_terminal();
    if is_plain { Paint::Plain } else { Paint::Colors }
}

#[cfg(test)]
mod tests {
    use cobra::Find;

    use super::*;

    fn line(text: &str) -> Line<'static> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        match clusteradm::PROGRAM.find(&words) {
            Find::Run(_, parsed) => Line::new("clusteradm", parsed),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn clusters_are_those_of_both_flags_each_once() {
        let it = line("get works -c b --clusters c,a --clusters=b");
        assert_eq!(it.some_clusters().unwrap(), ["a", "b", "c"]);
        let says = |text: &str| line(text).some_clusters().unwrap_err().to_string();
        assert_eq!(says("get works"), "either --cluster or --clusters needs to be set");
        assert_eq!(
            says("get works --clusters a,"),
            "--clusters cannot be set as an empty value"
        );
    }

    #[test]
    fn global_flags_are_read_wherever_they_stand() {
        let it = line("--kubeconfig a --timeout=5 get clusters --context b --dry-run");
        assert_eq!(it.global.kubeconfig, Some("a".into()));
        assert_eq!((it.global.context.as_deref(), it.seconds()), (Some("b"), 5));
        assert!(it.is_dry_run());
        assert_eq!(line("get clusters").seconds(), 300);
        assert_eq!(line("--timeout=-1 get clusters").seconds(), 0);
    }
}
