//! One program for both halves of an add-on: `controller` on the hub, `agent` on each cluster,
//! `cleanup` before it goes.

use std::{ffi::OsString, future::Future, path::PathBuf, pin::Pin, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Args, FromArgMatches};
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;
use tracing_subscriber::EnvFilter;

use super::{
    AddOnAgent, AgentFlags, Controller,
    connect::{self, Trust},
    lease,
};
use crate::AddOn;

/// How long what runs may take to end after it was told to.
const GRACE: Duration = Duration::from_secs(10);

type Job = Box<dyn Fn(AddOnAgent) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send + Sync>;
type HubJob = Box<dyn Fn(Controller) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send + Sync>;
type Check = Arc<dyn Fn(AddOnAgent) -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync>;

/// An add-on as a program, with the sub-commands `controller`, `agent` and, if there is one, `cleanup`.
///
/// ```no_run
/// use ocm_addon_sdk::{AddOn, AddOnContext, UserError, agent::AddOnProgram};
/// # struct Greeter;
/// # impl AddOn for Greeter {
/// #     fn name(&self) -> &str { "greeter" }
/// #     fn manifests(&self, _: &AddOnContext) -> Result<Vec<serde_json::Value>, UserError> { Ok(vec![]) }
/// # }
///
/// fn main() -> std::process::ExitCode {
///     let greet = async |agent: ocm_addon_sdk::agent::AddOnAgent| {
///         println!("hello from {}", agent.cluster);
///         agent.stop.cancelled().await;
///         Ok(())
///     };
///     AddOnProgram::new(Greeter).agent(greet).main()
/// }
/// ```
pub struct AddOnProgram {
    add_on: Arc<dyn AddOn>,
    controller: Option<HubJob>,
    agent: Option<Job>,
    cleanup: Option<Job>,
    healthy: Check,
    trust: Trust,
}

/// What `controller` is told.
#[derive(Clone, Debug, Args)]
struct ControllerFlags {
    /// The kubeconfig of the hub [default: $KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl AddOnProgram {
    /// A program with the sub-command `controller` only.
    pub fn new(add_on: impl AddOn) -> Self {
        Self {
            add_on: Arc::new(add_on),
            controller: None,
            agent: None,
            cleanup: None,
            healthy: Arc::new(|_| Box::pin(async { true })),
            trust: Trust::Any,
        }
    }

    /// With a function that the sub-command `controller` runs beside looking after the add-on, until it ends or is told
    /// to stop: see [`Controller`]. It does not run where the add-on runs in the process
    /// of somebody else ([`add_on`](Self::add_on)).
    pub fn controller<F>(mut self, controller: impl Fn(Controller) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        self.controller = Some(Box::new(move |it| Box::pin(controller(it))));
        self
    }

    /// With the sub-command `agent`, which runs `agent` until it ends or is told to stop,
    /// and renews the lease meanwhile.
    pub fn agent<F>(mut self, agent: impl Fn(AddOnAgent) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        self.agent = Some(Box::new(move |it| Box::pin(agent(it))));
        self
    }

    /// With the sub-command `cleanup`, which runs `cleanup` once: what a Job runs before the add-on goes.
    pub fn cleanup<F>(mut self, cleanup: impl Fn(AddOnAgent) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        self.cleanup = Some(Box::new(move |it| Box::pin(cleanup(it))));
        self
    }

    /// The lease is renewed only while `healthy` says so.
    pub fn healthy<F>(mut self, healthy: impl Fn(AddOnAgent) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = bool> + Send + 'static,
    {
        self.healthy = Arc::new(move |it| Box::pin(healthy(it)));
        self
    }

    /// For whoever runs the program with arguments and variables that a stranger has chosen: it uses no kubeconfig that
    /// lies outside of `dir`, names a file outside of it, or names a program to run, and it does not go without one.
    pub fn confined(mut self, dir: impl Into<PathBuf>) -> Self {
        self.trust = Trust::Inside(dir.into());
        self
    }

    /// The add-on's name.
    pub fn name(&self) -> &str {
        self.add_on.name()
    }

    /// The add-on, for whoever runs its controller beside others in one process.
    pub fn add_on(&self) -> Arc<dyn AddOn> {
        self.add_on.clone()
    }

    /// Runs with the arguments of the process.
    pub fn main(self) -> ExitCode {
        self.run(std::env::args_os())
    }

    /// Runs with these arguments, the first of which is the program's name.
    pub fn run(self, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
        let command = self.command();
        let matches = command.try_get_matches_from(arguments);
        let matches = match matches {
            Ok(matches) => matches,
            Err(error) => {
                // There is nobody to tell when even this cannot be written.
                let _ = error.print();
                return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
            }
        };
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
        // Somebody who embeds the program may have chosen a way of logging already.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(false)
            .try_init();
        // One thread: an agent waits nearly all of its time, and each thread more would cost memory on every cluster.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let done = runtime
            .context("no runtime")
            .and_then(|runtime| runtime.block_on(self.serve(&matches)));
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!("{error:#}");
                ExitCode::FAILURE
            }
        }
    }

    /// Is the add-on's agent in this process, until it ends or `agent.stop` is cancelled: for tests.
    ///
    /// # Errors
    /// Those of the agent's function, and when there is none.
    pub async fn be(self, agent: AddOnAgent) -> Result<()> {
        let job = self.agent.context("this add-on has no agent")?;
        serve_agent(agent, &job, &self.healthy).await
    }

    /// Is the add-on's controller in this process, until `stop`: for tests.
    ///
    /// # Errors
    /// Those of the controller's function, and when the hub cannot be asked who it is.
    pub async fn control(self, hub: Client, stop: CancellationToken) -> Result<()> {
        let add_on = self.add_on.name().to_owned();
        let manager = crate::hub::start(hub.clone(), vec![self.add_on], stop.clone()).await?;
        let finished = manager.finished();
        tokio::pin!(finished);
        let Some(job) = self.controller else {
            finished.await;
            return Ok(());
        };
        let work = job(Controller {
            add_on,
            client: hub,
            manager: manager.clone(),
            stop: stop.clone(),
        });
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => {
                // Without what it was to do, the rest would go on with what it did last.
                if done.is_err() {
                    stop.cancel();
                }
                finished.await;
                done
            }
            () = &mut finished => tokio::time::timeout(GRACE, &mut work).await.unwrap_or(Ok(())),
        }
    }

    fn command(&self) -> clap::Command {
        // What the flags say of themselves would take the place of what the sub-command does.
        let sub = |name: &'static str, flags: fn(clap::Command) -> clap::Command, about: &'static str| {
            flags(clap::Command::new(name)).about(about)
        };
        let mut command = clap::Command::new("add-on")
            .bin_name(self.add_on.name().to_owned())
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(sub(
                "controller",
                ControllerFlags::augment_args,
                "Look after the add-on on the hub: deliver it, let its agents in, judge their health",
            ));
        let flags = AgentFlags::augment_args;
        if self.agent.is_some() {
            command = command.subcommand(sub("agent", flags, "Be the add-on's agent on a cluster"));
        }
        if self.cleanup.is_some() {
            command = command.subcommand(sub("cleanup", flags, "Clean up on a cluster before the add-on goes"));
        }
        command
    }

    async fn serve(self, matches: &clap::ArgMatches) -> Result<()> {
        let stop = CancellationToken::new();
        stop_on_signals(stop.clone())?;
        let name = self.add_on.name().to_owned();
        if let Some(("controller", flags)) = matches.subcommand() {
            let flags = ControllerFlags::from_arg_matches(flags)?;
            let hub = connect::home(flags.kubeconfig.as_deref(), &self.trust).await?;
            return self.control(hub, stop).await;
        }
        match (matches.subcommand(), self.agent, self.cleanup) {
            (Some(("agent", flags)), Some(job), _) => {
                let flags = AgentFlags::from_arg_matches(flags)?;
                let agent = match AddOnAgent::connect_trusting(&name, &flags, &self.trust, &stop).await {
                    Ok(agent) => agent,
                    // Told to stop while it waited: that is how agents end that never got their credential.
                    Err(_) if stop.is_cancelled() => return Ok(()),
                    Err(error) => return Err(error),
                };
                serve_agent(agent, &job, &self.healthy).await
            }
            (Some(("cleanup", flags)), _, Some(job)) => {
                let flags = AgentFlags::from_arg_matches(flags)?;
                let agent = AddOnAgent::connect_trusting(&name, &flags, &self.trust, &stop).await?;
                tokio::select! {
                    done = job(agent) => done,
                    () = stop.cancelled() => bail!("told to stop before it was done"),
                }
            }
            _ => bail!("there is no such sub-command"),
        }
    }
}

async fn serve_agent(agent: AddOnAgent, job: &Job, healthy: &Check) -> Result<()> {
    info!(add_on = %agent.add_on, cluster = %agent.cluster, namespace = %agent.namespace, "agent started");
    let beats = lease::renew(&agent, || healthy(agent.clone()));
    let work = job(agent.clone());
    tokio::pin!(work, beats);
    let done = tokio::select! {
        done = &mut work => done,
        () = &mut beats => {
            // The lease ends only with the agent, which may finish what it is doing.
            tokio::time::timeout(GRACE, &mut work).await.unwrap_or(Ok(()))
        }
    };
    info!("agent stopped");
    done
}

pub(crate) fn stop_on_signals(stop: CancellationToken) -> Result<()> {
    let failed = "could not listen for signals";
    let mut terminate = signal(SignalKind::terminate()).context(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).context(failed)?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    });
    Ok(())
}
