//! What stands in for `drover up` where the hub or the clusters are a real Kubernetes: the same fleet of separate
//! processes, as an administrator would start them, in the same folder and with the same words. Where both are, it
//! stands in for `drover kube up` as well, with a control plane and nothing else.

mod options;
mod server;

use crate::{
    keep::Kept,
    lane::{self, Lane},
};
use anyhow::{Context, Error, Result, bail};
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Secret, ServiceAccount},
};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject},
    core::GroupVersionKind,
};
use options::Options;
use server::Server;
use std::{
    env, fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    time::{Duration, Instant},
};
use tokio::{process::Command, sync::Mutex, time::sleep};
use tokio_util::sync::CancellationToken;

const HUB: &str = "hub";
/// What clusters join with.
const BOOTSTRAP_ACCOUNT: (&str, &str) = ("open-cluster-management", "agent-registration-bootstrap");
/// Kubeconfigs of clusters that are there already.
const GIVEN: &[(&str, &str)] = &[(HUB, "DROVER_TEST_HUB"), ("cluster1", "DROVER_TEST_CLUSTER")];
/// Between two looks at what a process or the API server is to bring about.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Longer than any story waits: the story says what did not come.
const PATIENCE: Duration = Duration::from_secs(600);

/// What is to be started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// A hub and its clusters.
    Fleet,
    /// A Kubernetes that knows nothing of hubs.
    Bare,
}

/// The name of a Kubernetes that belongs to no fleet.
const BARE: &str = "kube";

/// Starts the fleet and stays until SIGTERM.
///
/// # Errors
/// Something could not be started, or has ended by itself.
pub fn up(arguments: &[String]) -> Result<ExitCode> {
    stay(&["up"], arguments, What::Fleet)
}

/// Starts a Kubernetes and stays until SIGTERM.
///
/// # Errors
/// It could not be started, or has ended by itself.
pub fn kube_up(arguments: &[String]) -> Result<ExitCode> {
    stay(&["kube", "up"], arguments, What::Bare)
}

fn stay(command: &[&str], arguments: &[String], what: What) -> Result<ExitCode> {
    let begun = Instant::now();
    // What is wrong with the flags is said in the binary's words.
    let checked = std::process::Command::new(variable(lane::DROVER)?)
        .args(command)
        .args(arguments)
        .arg("--help")
        .stdout(Stdio::null())
        .status()?;
    if let Some(code @ 1..) = checked.code() {
        return Ok(ExitCode::from(u8::try_from(code)?));
    }
    let options = match Options::read(arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error:#}");
            return Ok(ExitCode::from(2));
        }
    };
    credential::connection::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match runtime.block_on(run(options, begun, what)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            eprintln!("error: {error:#}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// What every part needs to know.
struct Ground {
    lane: Lane,
    /// Our binary.
    drover: PathBuf,
    /// The control plane of a real Kubernetes.
    kubernetes: PathBuf,
    options: Options,
    /// Everything that runs, in the order in which it was started.
    running: Mutex<Vec<Kept>>,
    nodes: Mutex<Vec<kube_node::Node>>,
    stop_nodes: CancellationToken,
    begun: Instant,
    /// When we began, for what an earlier run has left behind.
    since: Timestamp,
}

fn variable(name: &str) -> Result<String> {
    env::var(name).with_context(|| format!("{name} is not set: a story starts this"))
}

async fn run(options: Options, begun: Instant, what: What) -> Result<()> {
    fs::create_dir_all(options.data.join("log"))?;
    let lock = fs::File::create(options.data.join("stand-in.lock"))?;
    if lock.try_lock().is_err() {
        bail!(
            "the data directory {} is in use by another process",
            options.data.display()
        );
    }
    let ground = Ground {
        lane: Lane::named(&variable(lane::LANE)?)?,
        drover: PathBuf::from(variable(lane::DROVER)?),
        kubernetes: PathBuf::from(variable(lane::KUBERNETES)?).join(lane::PROGRAM),
        options,
        running: Mutex::default(),
        nodes: Mutex::default(),
        stop_nodes: CancellationToken::new(),
        begun,
        since: Timestamp::now(),
    };
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
    let work = async {
        match what {
            What::Fleet => ground.start().await?,
            What::Bare => ground.start_bare().await?,
        }
        std::future::pending().await
    };
    let watch = async {
        loop {
            for it in ground.running.lock().await.iter_mut() {
                it.check()?;
            }
            sleep(LOOK_AGAIN).await;
        }
    };
    let ended: Result<()> = tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        ended = work => ended,
        ended = watch => ended,
    };
    let stopped = ground.stop().await;
    ended.and(stopped)
}

impl Ground {
    fn log(&self, name: &str) -> PathBuf {
        self.options.data.join("log").join(name)
    }

    fn kubeconfig(&self, name: &str) -> PathBuf {
        self.options.data.join(format!("{name}.kubeconfig"))
    }

    /// Starts a program of a real Kubernetes, or ours. Ours complain where we do; the others may say what they want.
    async fn run(&self, name: &str, program: &Path, arguments: &[String]) -> Result<()> {
        let mut words = vec![program.to_string_lossy().into_owned()];
        words.extend(arguments.iter().cloned());
        let is_ours = program == self.drover;
        let complaints = (!is_ours).then(|| self.log(&format!("{name}.complaints")));
        let kept = Kept::start(name, &words, &self.log(name), complaints.as_deref())?;
        self.running.lock().await.push(kept);
        Ok(())
    }

    /// What one of our commands prints.
    async fn drover(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.drover);
        let hub = self.kubeconfig(HUB);
        command
            .arg("--kubeconfig")
            .arg(hub)
            .args(arguments)
            .stdin(Stdio::null());
        let output = command.kill_on_drop(true).output().await?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("drover {}: {}", arguments.join(" "), error.trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    async fn wait_for_line(&self, log: &str, line: &str) -> Result<()> {
        let path = self.log(log);
        until(|| {
            let text = fs::read_to_string(&path).unwrap_or_default();
            text.lines().any(|it| it.contains(line))
        })
        .await
        .with_context(|| format!("{log} did not say {line:?}"))
    }

    /// Starts a control plane of its own at the port it had before, unless somebody has given us one.
    async fn real_server(&self, name: &str) -> Result<()> {
        let kubeconfig = self.kubeconfig(name);
        let given = GIVEN.iter().find(|it| it.0 == name).and_then(|it| env::var_os(it.1));
        if let Some(given) = given {
            fs::copy(&given, &kubeconfig).with_context(|| Path::new(&given).display().to_string())?;
            return Ok(());
        }
        let port = server::port_of(&kubeconfig).unwrap_or(0);
        let text = |it: &Path| it.to_string_lossy().into_owned();
        let arguments = [
            "--data-directory".to_owned(),
            text(&self.options.data.join("servers").join(name)),
            "--kubeconfig".to_owned(),
            text(&kubeconfig),
            "--port".to_owned(),
            port.to_string(),
        ];
        let log = format!("{name}-kubernetes");
        self.run(&log, &self.kubernetes, &arguments).await?;
        self.wait_for_line(&log, "kubeconfig").await
    }

    async fn start(&self) -> Result<()> {
        let names: Vec<String> = (1..=self.options.clusters).map(|it| format!("cluster{it}")).collect();
        // All control planes at once: each of them waits for itself most of the time.
        let servers = async {
            match self.lane.real_clusters {
                true => try_join_all(names.iter().map(|it| self.real_server(it)))
                    .await
                    .map(drop),
                false => Ok(()),
            }
        };
        let (hub, ()) = tokio::try_join!(self.start_hub(), servers)?;
        try_join_all(names.iter().map(|it| self.join(&hub, it))).await?;
        println!("ready in {}", self.took());
        print!("{}", self.hints(&names));
        Ok(())
    }

    async fn start_bare(&self) -> Result<()> {
        self.real_server(BARE).await?;
        let server = Server::read(&self.kubeconfig(BARE)).await?;
        self.node(&server, BARE).await?;
        let mut kubeconfig = self.kubeconfig(BARE);
        if let Some(copy) = &self.options.kubeconfig {
            fs::copy(&kubeconfig, copy).with_context(|| copy.display().to_string())?;
            kubeconfig.clone_from(copy);
        }
        println!("kube ready   {}", self.took());
        let kubeconfig = kubeconfig.display().to_string();
        println!("\nKubeconfig:\n  {kubeconfig}\n\nTry:\n  kubectl --kubeconfig {kubeconfig} get namespaces");
        Ok(())
    }

    async fn start_hub(&self) -> Result<Server> {
        let gates = self
            .options
            .gates
            .iter()
            .flat_map(|it| ["--feature-gates".to_owned(), it.clone()]);
        let gates = gates.chain((!self.options.examples).then(|| "--no-examples".to_owned()));
        let text = |it: &Path| it.to_string_lossy().into_owned();
        if !self.lane.real_hub {
            let folder = self.options.data.join("servers").join(HUB);
            let mut arguments = vec!["up".to_owned(), "--clusters".to_owned(), "0".to_owned()];
            arguments.extend(["--data-dir".to_owned(), text(&folder)]);
            arguments.extend(gates);
            self.run(HUB, &self.drover, &arguments).await?;
            self.wait_for_line(HUB, "ready in").await?;
            fs::copy(folder.join("hub.kubeconfig"), self.kubeconfig(HUB))?;
            let hub = Server::read(&self.kubeconfig(HUB)).await?;
            println!("hub ready   {}", self.took());
            return Ok(hub);
        }
        self.real_server(HUB).await?;
        let hub = Server::read(&self.kubeconfig(HUB)).await?;
        let webhooks = self.webhooks()?;
        let mut arguments = vec!["hub".to_owned(), "--kubeconfig".to_owned(), text(&self.kubeconfig(HUB))];
        arguments.extend(["--webhook-listen".to_owned(), webhooks.clone()]);
        arguments.extend(["--webhook-url".to_owned(), format!("https://{webhooks}")]);
        arguments.extend(gates);
        self.run(HUB, &self.drover, &arguments).await?;
        // The last thing that the hub puts there before its controllers work.
        let accounts: Api<ServiceAccount> = Api::namespaced(hub.client.clone(), BOOTSTRAP_ACCOUNT.0);
        while accounts.get_opt(BOOTSTRAP_ACCOUNT.1).await?.is_none() {
            sleep(LOOK_AGAIN).await;
        }
        if !self.options.gates.iter().any(|it| it == "DefaultClusterSet=false") {
            // The first that its controllers do.
            let sets = cluster_kind(&hub.client, "v1beta2", "ManagedClusterSet");
            while sets.get_opt("global").await?.is_none() || sets.get_opt("default").await?.is_none() {
                sleep(LOOK_AGAIN).await;
            }
        }
        // On what an earlier run has left nothing of this is awaited, and the API server asks the hub about the first
        // write.
        until(|| TcpStream::connect(&webhooks).is_ok()).await?;
        self.node(&hub, HUB).await?;
        println!("hub ready   {}", self.took());
        Ok(hub)
    }

    /// Where the hub answers webhooks: the same port when everything is started again, because the API server asks
    /// there before it can be told anything.
    fn webhooks(&self) -> Result<String> {
        let file = self.options.data.join("webhooks.port");
        let before = fs::read_to_string(&file).ok().and_then(|it| it.parse::<u16>().ok());
        let port = match before {
            Some(port) => port,
            None => crate::port::free().map_err(Error::msg)?,
        };
        fs::write(&file, port.to_string())?;
        Ok(format!("127.0.0.1:{port}"))
    }

    /// What `kubelet` and the scheduler are for a cluster of machines. Kubernetes has controllers for what owns pods.
    async fn node(&self, server: &Server, name: &str) -> Result<()> {
        let images = ::fleet::nodes::images_of(&self.drover, &self.options.images)?;
        let options = kube_node::Options {
            name: name.to_owned(),
            dir: self.options.data.join("servers").join(format!("{name}-node")),
            images,
            api_server: Some(server.for_pods()?),
            stop_grace: Duration::from_secs(2),
            workloads: false,
        };
        let node = kube_node::start(server.client.clone(), options, self.stop_nodes.clone()).await?;
        self.nodes.lock().await.push(node);
        Ok(())
    }

    /// A cluster, its agent and its way to the hub.
    async fn join(&self, hub: &Server, name: &str) -> Result<()> {
        let managed = managed_clusters(&hub.client);
        let known = managed
            .get_opt(name)
            .await
            .context("could not ask the hub for clusters")?;
        let is_new = known.is_none();
        let text = |it: &Path| it.to_string_lossy().into_owned();
        if self.lane.real_clusters {
            let cluster = Server::read(&self.kubeconfig(name)).await?;
            self.node(&cluster, name).await?;
            if is_new {
                forget_deleted(&cluster.client).await?;
            }
            let bootstrap = self.options.data.join(format!("{name}.bootstrap"));
            fs::write(&bootstrap, self.drover(&["get", "token", "-o", "kubeconfig"]).await?)?;
            let arguments = [
                "agent".to_owned(),
                "--kubeconfig".to_owned(),
                text(&self.kubeconfig(name)),
                "--cluster-name".to_owned(),
                name.to_owned(),
                "--bootstrap-kubeconfig".to_owned(),
                text(&bootstrap),
                "--spoke-external-server-urls".to_owned(),
                cluster.url.clone(),
            ];
            self.run(name, &self.drover, &arguments).await?;
        } else {
            let folder = self.options.data.join("servers").join(name);
            let mut arguments = vec![
                "join".to_owned(),
                "--embedded".to_owned(),
                "--cluster-name".to_owned(),
                name.to_owned(),
            ];
            arguments.extend(["--hub-kubeconfig".to_owned(), text(&self.kubeconfig(HUB))]);
            arguments.extend(["--data-dir".to_owned(), text(&folder)]);
            arguments.extend(
                self.options
                    .images
                    .iter()
                    .flat_map(|it| ["--node-image-map".to_owned(), it.clone()]),
            );
            self.run(name, &self.drover, &arguments).await?;
            // `join` says where it is when it serves.
            self.wait_for_line(name, "is ready at").await?;
            fs::copy(folder.join(format!("{name}.kubeconfig")), self.kubeconfig(name))?;
        }
        if is_new {
            self.drover(&["accept", "--wait", "--clusters", name]).await?;
        }
        println!("{name} joined   {}", self.took());
        if known.is_some_and(|it| it.data["spec"]["hubAcceptsClient"] != true) {
            // The administrator's word stands.
            println!("{name} denied   {}", self.took());
            return Ok(());
        }
        self.until_available(hub, name).await?;
        println!("{name} available   {}", self.took());
        Ok(())
    }

    /// What an earlier run has left behind does not count.
    async fn until_available(&self, hub: &Server, name: &str) -> Result<()> {
        let managed = managed_clusters(&hub.client);
        let leases: Api<Lease> = Api::namespaced(hub.client.clone(), name);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let cluster = managed.get_opt(name).await?;
            let lease = leases.get_opt(ocm_api::namespaces::CLUSTER_LEASE).await?;
            let renewed = lease
                .and_then(|it| it.spec?.renew_time)
                .is_some_and(|it| it.0 >= self.since);
            if renewed && cluster.is_some_and(|it| holds(&it, "ManagedClusterConditionAvailable")) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{name} does not become available");
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    fn took(&self) -> String {
        format!("{:.1} s", self.begun.elapsed().as_secs_f64())
    }

    fn hints(&self, names: &[String]) -> String {
        let hub = self.kubeconfig(HUB).display().to_string();
        let mut text = format!("\nKubeconfigs:\n  {hub}\n");
        for name in names {
            text += &format!("  {}\n", self.kubeconfig(name).display());
        }
        text + &format!("\nTry:\n  kubectl --kubeconfig {hub} get managedclusters\n")
    }

    /// Stops in order: pods, then what was started last first.
    async fn stop(&self) -> Result<()> {
        self.stop_nodes.cancel();
        for node in self.nodes.lock().await.drain(..) {
            node.finished().await;
        }
        let running: Vec<Kept> = self.running.lock().await.drain(..).rev().collect();
        let (servers, others): (Vec<Kept>, Vec<Kept>) =
            running.into_iter().partition(|it| it.name.ends_with("-kubernetes"));
        let mut result = Ok(());
        for kept in others {
            result = result.and(kept.stop());
        }
        // None of them waits for another.
        let servers = servers.into_iter().map(|it| tokio::task::spawn_blocking(|| it.stop()));
        for stopped in try_join_all(servers).await? {
            result = result.and(stopped);
        }
        result
    }
}

async fn until(mut holds: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        if Instant::now() > deadline {
            bail!("waited for {} s", PATIENCE.as_secs());
        }
        sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

fn managed_clusters(hub: &Client) -> Api<DynamicObject> {
    cluster_kind(hub, "v1", "ManagedCluster")
}

fn cluster_kind(hub: &Client, version: &str, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("cluster.open-cluster-management.io", version, kind);
    Api::all_with(hub.clone(), &ApiResource::from_gvk(&kind))
}

fn holds(object: &DynamicObject, condition: &str) -> bool {
    let conditions = object.data["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it["type"] == condition && it["status"] == "True")
}

/// A cluster that was deleted from the hub has a certificate that opens nothing any more; without it, it joins anew.
async fn forget_deleted(cluster: &Client) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(cluster.clone(), ocm_api::namespaces::AGENT);
    let name = ocm_api::namespaces::HUB_KUBECONFIG_SECRET;
    if secrets.get_opt(name).await?.is_some() {
        secrets.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}
