//! `drover kube up`: one Kubernetes API in this process, until Ctrl-C.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use fleet::{
    data_dir::DataDir,
    embedded::{Embedded, Settings},
    nodes,
    ports::Ports,
};
use kube_api::{authn::TrustedProxies, clock::Clock};
use output::progress::StepProgress;
use serde_json::{Map, json};
use tokio_util::sync::CancellationToken;

use crate::command::up::Lines;

/// The name of the server: of its directory, its kubeconfig, its context and its node.
const NAME: &str = "kube";

/// Start a Kubernetes API in this process, with nothing of Open Cluster Management in it, and stay until Ctrl-C
#[derive(Debug, Args)]
pub struct Up {
    /// Where to keep everything [default: .drover-kube, or a temporary directory with --ephemeral]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Keep everything in memory, and forget it in the end
    #[arg(long)]
    ephemeral: bool,
    /// The port [default: a free one, the same every time]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Also write the administrator's kubeconfig to FILE
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    /// Run COMMAND for containers of IMAGE: it replaces the image's entrypoint, or comes before the container's whole
    /// command when its last word is *
    #[arg(long, value_name = "IMAGE=COMMAND", value_parser = nodes::parse_mapping)]
    node_image_map: Vec<String>,
    /// Start no node: pods stay Pending, and Deployments make none
    #[arg(long, conflicts_with = "node_image_map")]
    no_node: bool,
    /// How long Events are kept after they were last written [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = fleet::embedded::event_ttl)]
    event_ttl: Option<Duration>,
    /// Believe proxies in front about who asks, in X-Remote-User, X-Remote-Group and X-Remote-Extra-..., when they show
    /// a certificate of an authority in FILE
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,
    /// The names of such certificates that are believed [default: every name]
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "requestheader_client_ca_file"
    )]
    requestheader_allowed_names: Vec<String>,
    /// Tell the steps to a program, one JSON object per line
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Lines>,
}

impl Up {
    /// The proxies that are believed.
    fn front_proxy(&self) -> Result<Option<TrustedProxies>> {
        let Some(file) = &self.requestheader_client_ca_file else {
            return Ok(None);
        };
        let shown = file.display();
        let pem = fs::read_to_string(file)
            .with_context(|| format!("--requestheader-client-ca-file: could not read {shown}"))?;
        let names = self.requestheader_allowed_names.clone();
        let trusted = TrustedProxies::from_pem(&pem, names);
        let trusted = trusted.map_err(|it| anyhow!("--requestheader-client-ca-file: {shown}: {it}"))?;
        Ok(Some(trusted))
    }

    pub async fn run(self, begun: Instant) -> Result<()> {
        process::raise_open_files();
        let front_proxy = self.front_proxy()?;
        let stop = CancellationToken::new();
        process::stop_on_signals(stop.clone())?;
        let progress = StepProgress::new(self.output == Some(Lines::Json), begun);
        let place = self.data_dir.clone();
        let data = match place.or((!self.ephemeral).then(|| PathBuf::from(".drover-kube"))) {
            Some(path) => DataDir::open(&path)?,
            None => DataDir::temporary()?,
        };
        let step = progress.start("starting Kubernetes");
        let ports = Ports {
            first: self.port,
            before: data.ports(),
        };
        let listener = ports.take(NAME, 0).await?;
        data.remember_ports(&[(NAME.to_owned(), listener.local_addr()?.port())].into())?;
        let kept = (!self.ephemeral).then(|| data.server(NAME));
        let settings = Settings {
            event_ttl: self.event_ttl,
            front_proxy,
            ..Settings::default()
        };
        let server = Embedded::start(NAME, kept, listener, settings).await?;
        let mut files = vec![data.kubeconfig(NAME)];
        files.extend(self.write_kubeconfig.clone());
        let file = files.last().cloned().unwrap_or_default();
        server.keep_admin_kubeconfig(files, Clock::default())?;
        let images = (!self.no_node).then(|| nodes::images(&self.node_image_map, &[]));
        let dir = data.server(NAME).join("node");
        let node = nodes::start_some(&server, dir, images.transpose()?, stop.child_token()).await?;
        step.done(NAME, "ready")?;
        let described = json!({ "url": server.url(), "kubeconfig": file });
        progress.ready(&Map::from_iter([("servers".to_owned(), json!({ NAME: described }))]))?;
        let here = std::env::current_dir().ok();
        let shorter = here.and_then(|here| file.strip_prefix(here).ok());
        let shown = shorter.unwrap_or(&file).display();
        let end = if self.ephemeral {
            "everything is forgotten"
        } else {
            "started again it finds everything as it was"
        };
        progress.remark(&format!(
            "\nKubeconfig:\n  {shown}\n\nTry:\n  kubectl --kubeconfig {shown} get namespaces\n\nCtrl-C stops it; {end}.\n"
        ))?;
        stop.cancelled().await;
        let step = progress.start("stopping");
        if let Some(node) = node {
            node.finished().await;
        }
        server.stop().await;
        drop(step);
        Ok(())
    }
}
