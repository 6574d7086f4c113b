//! The numbers that Drover promises, measured on the real binary and printed as JSON.
//!
//! What is promised is promised of the profile `dist`:
//! `cargo build --profile dist --package drover --package benches && target/dist/benches`. Nothing here asserts a time:
//! a reader compares what was measured with what was promised, and both with the machine's own disk
//! and loopback, probed in the same run.

mod addons;
mod api;
mod apis;
mod application;
mod bringup;
mod configuration;
mod counting;
mod drover;
mod fleet;
mod installation;
mod placement;
mod policy;
mod probe;
mod replica_set;
mod soak;
mod start;
mod statistics;
mod tunnel;
mod works;
mod writes;

use anyhow::Result;
use clap::Parser;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Measures the promised numbers and prints them as JSON.
#[derive(Parser)]
struct Arguments {
    /// The binary to measure; the one beside this program if none is named.
    #[arg(long)]
    drover: Option<PathBuf>,
    /// Small sizes and few runs, to see that everything works.
    #[arg(long)]
    quick: bool,
    /// So many clusters to choose from, and not the promised number.
    #[arg(long)]
    placement_clusters: Option<usize>,
    /// So many clusters that come, and not the promised number.
    #[arg(long)]
    bringup: Option<usize>,
    /// Clusters come to a hub on this API server alone, which is empty.
    #[arg(long, value_name = "KUBECONFIG", requires = "api_processes")]
    bringup_on: Option<PathBuf>,
    /// The processes of that API server, whose CPU time is measured.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    api_processes: Vec<u32>,
    /// So many placements that choose.
    #[arg(long)]
    placements: Option<usize>,
    /// Serves the APIs of so many clusters and measures nothing; what measures starts it.
    #[arg(long, hide = true, requires = "serve_dir")]
    serve_clusters: Option<usize>,
    /// Where the files go with which to speak to them.
    #[arg(long, hide = true)]
    serve_dir: Option<PathBuf>,
    /// Answers everything with so many bytes and measures nothing.
    #[arg(long, hide = true, requires = "serve_dir")]
    serve_bytes: Option<usize>,
    /// Measure the API of this real Kubernetes beside ours: the program that `cargo xtask kubernetes build` makes.
    #[arg(long, value_name = "PROGRAM")]
    real_kubernetes: Option<PathBuf>,
    /// Measure konnectivity's own programs beside ours: the folder with `server` and `agent`.
    #[arg(long, value_name = "FOLDER")]
    konnectivity: Option<PathBuf>,
    /// How long `soak` takes.
    #[arg(long, value_name = "MINUTES", default_value_t = 60)]
    soak_minutes: u64,
    /// Which to measure: probe, start, installation, api, writes, works, fleet, bringup, addon, addons, placement,
    /// joins (a part of placement), replicaset, tunnel, policy, application, soak. All of them but soak without a name.
    names: Vec<String>,
}

/// How much is measured.
#[derive(Clone, Copy)]
pub struct Size {
    /// Runs of which the median is taken.
    pub runs: usize,
    /// Seconds of writes that come at an even pace.
    pub paced_seconds: u64,
    /// Writes from many clients at once, and objects of one collection.
    pub writes: usize,
    /// Works measured one by one.
    pub works: usize,
    /// Works created at once.
    pub burst: usize,
    /// Agents on one hub.
    pub agents: usize,
    /// Times that an add-on with a process is put on a cluster.
    pub add_on_runs: usize,
    /// Add-ons on many clusters.
    pub add_ons: usize,
    /// The clusters they are on.
    pub add_on_clusters: usize,
    /// Clusters to choose from.
    pub placement_clusters: usize,
    /// Placements that choose.
    pub placements: usize,
    /// Labels that change one after the other.
    pub placement_changes: usize,
    /// Clusters of one placement that another joins and leaves.
    pub placement_joins: usize,
    /// So many times.
    pub placement_join_runs: usize,
    /// Clusters of one work replica set, and the milliseconds promised for them.
    pub replica_set_clusters: &'static [(usize, f64)],
    /// Clusters that come to an embedded hub.
    pub bringup: usize,
    /// So many of them at once.
    pub bringup_round: usize,
    /// Clusters that come to a hub whose API server is another process.
    pub bringup_beside: usize,
    /// Seconds over which an idle hub is watched.
    pub idle_seconds: u64,
    /// Policies on a hub.
    pub policy: policy::PolicySize,
    /// Applications on clusters.
    pub application: application::ApplicationSize,
    /// The API on its own.
    pub api: api::ApiSize,
}

#[global_allocator]
static GLOBAL: counting::Counting = counting::Counting;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    // The same provider as the product; a second one would make the first use of TLS a coin toss.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    if let (Some(count), Some(dir)) = (arguments.serve_clusters, &arguments.serve_dir) {
        return apis::serve(count, dir).await;
    }
    if let (Some(length), Some(dir)) = (arguments.serve_bytes, &arguments.serve_dir) {
        return api::serve_bytes(length, dir).await;
    }
    let mut size = if arguments.quick {
        Size {
            runs: 1,
            paced_seconds: 2,
            writes: 1000,
            works: 10,
            burst: 20,
            agents: 5,
            add_on_runs: 2,
            add_ons: 2,
            add_on_clusters: 8,
            placement_clusters: 300,
            placements: 40,
            placement_changes: 10,
            placement_joins: 300,
            placement_join_runs: 5,
            replica_set_clusters: &[(50, 3000.0)],
            bringup: 200,
            bringup_round: 100,
            bringup_beside: 50,
            idle_seconds: 3,
            policy: policy::PolicySize {
                reporting: 10,
                policies: 10,
                clusters: 10,
                configuration: configuration::ConfigurationSize {
                    policies: 20,
                    idle_seconds: 3,
                },
            },
            application: application::ApplicationSize {
                changes: 3,
                manifests: 50,
                subscriptions: 10,
                unchanged_looks: 0,
            },
            api: api::ApiSize::QUICK,
        }
    } else {
        Size {
            runs: 5,
            paced_seconds: 15,
            writes: 10_000,
            works: 200,
            burst: 200,
            agents: 100,
            add_on_runs: 20,
            add_ons: 20,
            add_on_clusters: 200,
            placement_clusters: 10_000,
            placements: 1000,
            placement_changes: 240,
            placement_joins: 1000,
            placement_join_runs: 50,
            replica_set_clusters: &[(1000, 3000.0), (5000, 15_000.0)],
            bringup: 10_000,
            bringup_round: 1000,
            bringup_beside: 1000,
            idle_seconds: 30,
            policy: policy::PolicySize {
                reporting: 100,
                policies: 500,
                clusters: 200,
                configuration: configuration::ConfigurationSize {
                    policies: 1000,
                    idle_seconds: 30,
                },
            },
            application: application::ApplicationSize {
                changes: 20,
                manifests: 1000,
                subscriptions: 200,
                unchanged_looks: 2,
            },
            api: api::ApiSize::FULL,
        }
    };
    size.placement_clusters = arguments.placement_clusters.unwrap_or(size.placement_clusters);
    size.bringup = arguments.bringup.unwrap_or(size.bringup);
    size.bringup_beside = arguments
        .bringup
        .map_or(size.bringup_beside, |it| it.min(size.bringup_beside));
    size.placements = arguments.placements.unwrap_or(size.placements);
    let other = arguments.bringup_on.map(|kubeconfig| bringup::Other {
        kubeconfig,
        processes: arguments.api_processes,
    });
    let wanted = |name: &str| arguments.names.is_empty() || arguments.names.iter().any(|it| it == name);
    let mut report = Map::new();
    if wanted("placement") {
        report.insert("placement".into(), placement::measure(size).await?);
    }
    if arguments.names.iter().any(|it| it == "joins") {
        report.insert("joins".into(), placement::joins(size).await?);
    }
    if arguments.names == ["placement"] || arguments.names == ["joins"] {
        // It needs no binary.
        println!("{}", serde_json::to_string_pretty(&Value::Object(report))?);
        return Ok(());
    }
    let binary = match &arguments.drover {
        Some(named) => named.canonicalize()?,
        None => std::env::current_exe()?.with_file_name("drover").canonicalize()?,
    };
    report.insert(
        "binaryMebibytes".into(),
        json!({
            "measured": statistics::mebibytes(std::fs::metadata(&binary)?.len()), "promised": 30,
        }),
    );
    if wanted("probe") {
        report.insert("probe".into(), probe::measure()?);
    }
    if wanted("start") {
        report.insert("start".into(), start::measure(&binary, size).await?);
    }
    if wanted("installation") {
        report.insert("installation".into(), installation::measure(&binary, size).await?);
    }
    if wanted("api") {
        report.insert(
            "api".into(),
            api::measure(&binary, arguments.real_kubernetes.as_deref(), size).await?,
        );
    }
    if wanted("writes") {
        report.insert("writes".into(), writes::measure(&binary, size).await?);
    }
    if wanted("works") {
        report.insert("works".into(), works::measure(&binary, size).await?);
    }
    if wanted("fleet") {
        report.insert("fleet".into(), fleet::measure(&binary, size).await?);
    }
    if wanted("bringup") {
        report.insert("bringup".into(), bringup::measure(&binary, size, other.as_ref()).await?);
    }
    if wanted("addon") {
        report.insert("addon".into(), addons::single(&binary, size).await?);
    }
    if wanted("addons") {
        report.insert("addons".into(), addons::fleet(&binary, size).await?);
    }
    if wanted("replicaset") {
        report.insert("replicaset".into(), replica_set::measure(&binary, size).await?);
    }
    if wanted("tunnel") {
        let measured = tunnel::measure(&binary, arguments.konnectivity.as_deref(), size).await?;
        report.insert("tunnel".into(), measured);
    }
    if wanted("policy") {
        report.insert("policy".into(), policy::measure(&binary, size).await?);
    }
    if wanted("application") {
        report.insert("application".into(), application::measure(&binary, size).await?);
    }
    if arguments.names.iter().any(|it| it == "soak") {
        report.insert("soak".into(), soak::measure(&binary, arguments.soak_minutes).await?);
    }
    println!("{}", serde_json::to_string_pretty(&Value::Object(report))?);
    Ok(())
}
