//! `drover up`: a hub and clusters in this process, until Ctrl-C.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use output::progress::StepProgress;
use tokio_util::sync::CancellationToken;

/// Start a hub and clusters that have joined it, all in this process, and stay until Ctrl-C
#[derive(Debug, Args)]
pub struct Up {
    /// Where to keep everything [default: .drover, or a temporary directory with --ephemeral]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// How many clusters to start
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u16).range(..=CLUSTERS_MAX))]
    clusters: u16,
    /// Keep everything in memory, and forget it in the end
    #[arg(long)]
    ephemeral: bool,
    /// The hub's port; the clusters take the ones after it [default: free ones, the same every time]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Add-ons that come with drover, to put on every cluster
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    addons: Vec<String>,
    /// A folder with Git repositories that Channels may name, for application-manager; may be repeated
    #[arg(long, value_name = "FOLDER")]
    git_folder: Vec<PathBuf>,
    /// Leave the add-ons that come with drover (helloworld, helloworldhelm, helloworldhosted, managed-serviceaccount)
    /// to managers of their own, such as upstream's
    #[arg(long, conflicts_with = "addons")]
    no_examples: bool,
    /// Run COMMAND for containers of IMAGE: it replaces the image's entrypoint, or comes before the container's whole
    /// command when its last word is *
    #[arg(long, value_name = "IMAGE=COMMAND", value_parser = fleet::nodes::parse_mapping)]
    node_image_map: Vec<String>,
    /// Start no nodes: pods stay Pending, and Deployments make none, on the hub and on the clusters
    #[arg(long, conflicts_with_all = ["node_image_map", "addons"])]
    no_node: bool,
    /// Upstream's switches to turn on or off: ClusterProfile, DefaultClusterSet, ManagedClusterAutoApproval,
    /// ManifestWorkReplicaSet, ResourceCleanup
    #[arg(long, value_delimiter = ',', value_name = "NAME=BOOL", value_parser = hub::feature_gates::parse)]
    feature_gates: Vec<hub::feature_gates::Gate>,
    /// How long Events are kept after they were last written [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = fleet::embedded::event_ttl)]
    event_ttl: Option<Duration>,
    /// Tell the steps to a program, one JSON object per line
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Lines>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lines {
    Json,
}

/// More clusters than this in one process are a mistake in typing, or want more memory than their user thinks.
const CLUSTERS_MAX: i64 = 500;

impl Up {
    /// What the flags mean.
    fn wanted(&self) -> Result<fleet::FleetOptions> {
        let default = (!self.ephemeral).then(|| PathBuf::from(".drover"));
        Ok(fleet::FleetOptions {
            data_dir: self.data_dir.clone().or(default),
            ephemeral: self.ephemeral,
            clusters: self.clusters,
            port: self.port,
            add_ons: self.addons.clone(),
            git_folders: self.git_folders()?,
            examples: !self.no_examples,
            images: (!self.no_node).then(|| self.node_image_map.clone()),
            gates: self.feature_gates.clone(),
            event_ttl: self.event_ttl,
        })
    }

    /// Whole paths: add-ons run elsewhere.
    fn git_folders(&self) -> Result<Vec<PathBuf>> {
        let whole = |it: &PathBuf| {
            let found = it.canonicalize();
            found.with_context(|| format!("--git-folder {} cannot be opened", it.display()))
        };
        self.git_folder.iter().map(whole).collect()
    }

    pub async fn run(self, begun: Instant) -> Result<()> {
        let wanted = self.wanted()?;
        process::raise_open_files();
        let stop = CancellationToken::new();
        process::stop_on_signals(stop.clone())?;
        let progress = StepProgress::new(self.output == Some(Lines::Json), begun);
        let started = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            started = fleet::start(&wanted, &progress) => started,
        };
        let mut fleet = started?;
        progress.ready(&fleet.describe())?;
        progress.remark(&fleet.hints())?;
        let failure = tokio::select! {
            () = stop.cancelled() => None,
            failure = fleet.failed() => Some(failure),
        };
        let step = progress.start("stopping");
        fleet.stop().await;
        drop(step);
        match failure {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }
}
