//! How a program that runs controllers goes: it serves health and metrics, waits until it leads, works, and begins anew
//! when what it was started with has changed, where upstream's exits and lets the kubelet start it again.

use std::{pin::Pin, sync::Arc, time::Duration};

use anyhow::{Context, Result, anyhow};
use arc_swap::ArcSwap;
use kube::Client;
use ocm_reconcile::{
    Guard,
    lead::{Election, Work},
};
use parking_lot::Mutex;
use process::{
    certificate_files::CertificateFiles,
    serving::{self, AuthorizedPage, ControllerPages, Tls},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    api::{self, Reached},
    operator_config::OperatorConfig,
    read::FlagValues,
};

/// Where upstream serves when it is not told.
const LISTEN: &str = "0.0.0.0:8443";
/// How often the files of `--terminate-on-files` are looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// What is under way when the process is told to stop may take this long.
const ENDS: Duration = Duration::from_secs(3);

/// What a program is, beside its flags.
pub struct ControllerProgram {
    /// Its name in the Lease, which is `<name>-lock`.
    pub component: &'static str,
    /// Where the Lease is when neither a flag nor the pod says.
    pub namespace: &'static str,
    /// A page it shows.
    pub page: Option<Arc<dyn AuthorizedPage>>,
    /// What it does while it leads.
    pub round: Round,
}

/// What it is given for one round.
pub struct RoundContext {
    /// The API server of `--kubeconfig`.
    pub home: Reached,
    /// Stands before all writes.
    pub guard: Guard,
    /// When to end.
    pub stop: CancellationToken,
}

/// One round: works until told to stop.
pub type Round = Arc<dyn Fn(RoundContext) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send + Sync>;

/// Runs until SIGTERM, or until a round fails.
pub async fn run(values: &FlagValues, program: ControllerProgram) -> Result<()> {
    process::raise_open_files();
    let config = OperatorConfig::read(values.some("config"))?;
    let election = Rules::of(values, &config, &program)?;
    let tls = Tls::read(
        or(values, "tls-min-version", config.tls_min_version.as_deref()),
        or(values, "tls-cipher-suites", config.tls_cipher_suites.as_deref()),
    )?;
    let stop = CancellationToken::new();
    process::stop_on_signals(stop.clone())?;
    let listen = or(values, "listen", config.listen.as_deref());
    let files = values.list("terminate-on-files");
    let mut served: Option<Arc<ArcSwap<Client>>> = None;
    loop {
        let round = stop.child_token();
        let home = api::reach(values.text("kubeconfig"), &round).await?;
        if let Some(client) = &served {
            client.store(Arc::new(home.client.clone()));
        } else {
            let client = Arc::new(ArcSwap::from_pointee(home.client.clone()));
            let site = ControllerPages {
                api: client.clone(),
                page: program.page.clone(),
                ready: None,
            };
            serve(listen, &tls, config.certificate.as_ref(), site, &stop).await?;
            served = Some(client);
        }
        let before = contents(&files);
        let moved = home.moved.clone();
        let ended = run_round(&program, &election, home, &round);
        tokio::pin!(ended);
        let reason = tokio::select! {
            ended = &mut ended => {
                ended?;
                "what it was started with is no longer there"
            }
            reason = async {
                tokio::select! {
                    () = changed(&files, &before) => "a file of --terminate-on-files has changed",
                    () = moved.cancelled() => "the kubeconfig names another server",
                }
            } => {
                // What is under way ends as it does at the end of the process.
                round.cancel();
                ended.await?;
                reason
            }
        };
        if stop.is_cancelled() {
            return Ok(());
        }
        info!(%reason, "begins anew");
    }
}

fn or<'a>(values: &'a FlagValues, flag: &str, file: Option<&'a str>) -> &'a str {
    values.some(flag).or(file).unwrap_or_default()
}

async fn run_round(program: &ControllerProgram, rules: &Rules, home: Reached, round: &CancellationToken) -> Result<()> {
    let failure = Arc::new(Mutex::new(None));
    let (work, failed, over, reached) = (program.round.clone(), failure.clone(), round.clone(), home.clone());
    let work: Work = Arc::new(move |guard: Guard, stop: CancellationToken| {
        let ground = RoundContext {
            home: Reached {
                client: guard.over(reached.client.clone()),
                ..reached.clone()
            },
            guard,
            stop: stop.clone(),
        };
        let (running, failed, over) = (work(ground), failed.clone(), over.clone());
        Box::pin(async move {
            if let Err(error) = running.await {
                *failed.lock() = Some(error);
                over.cancel();
            } else if !stop.is_cancelled() {
                over.cancel();
            }
        })
    });
    match &rules.election {
        None => {
            let mut running = tokio::spawn(work(Guard::default(), round.clone()));
            tokio::select! {
                _ = &mut running => {}
                () = async { round.cancelled().await; tokio::time::sleep(ENDS).await } => {}
            }
        }
        Some(form) => {
            let election = form.clone().at(home.client);
            election.run(work, |_| (), round.clone()).await;
        }
    }
    let error = failure.lock().take();
    error.map_or(Ok(()), Err)
}

/// How the leader is elected, if there is one.
struct Rules {
    election: Option<Form>,
}

/// An election without its API server.
#[derive(Clone)]
struct Form {
    namespace: String,
    name: String,
    identity: String,
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl Form {
    fn at(self, client: Client) -> Election {
        Election {
            client,
            namespace: self.namespace,
            name: self.name,
            identity: self.identity,
            lease_duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
            retry_period: self.retry_period,
        }
    }
}

impl Rules {
    fn of(values: &FlagValues, config: &OperatorConfig, program: &ControllerProgram) -> Result<Self> {
        if values.is_on("disable-leader-election") || config.is_alone && !values.is_given("disable-leader-election") {
            return Ok(Self { election: None });
        }
        if let Some(namespace) = values.some("namespace") {
            api::check_namespace(namespace)?;
        }
        let time = |flag: &str, file: Option<Duration>| match file {
            Some(it) if !values.is_given(flag) => it,
            _ => values.duration(flag),
        };
        let namespace = values
            .some("namespace")
            .map(str::to_owned)
            .or_else(|| config.lease_namespace.clone())
            .or_else(api::pod_namespace)
            .or_else(|| std::env::var("POD_NAMESPACE").ok().filter(|it| !it.is_empty()));
        let form = Form {
            namespace: namespace.unwrap_or_else(|| program.namespace.to_owned()),
            name: config
                .lease_name
                .clone()
                .unwrap_or_else(|| format!("{}-lock", program.component)),
            identity: process::identity(),
            lease_duration: time("leader-election-lease-duration", config.lease_duration),
            renew_deadline: time("leader-election-renew-deadline", config.renew_deadline),
            retry_period: time("leader-election-retry-period", config.retry_period),
        };
        ocm_reconcile::lead::check(form.lease_duration, form.renew_deadline, form.retry_period)
            .context("leader election")?;
        Ok(Self { election: Some(form) })
    }
}

async fn serve(
    listen: &str,
    tls: &Tls,
    certificate: Option<&(String, String)>,
    site: ControllerPages,
    stop: &CancellationToken,
) -> Result<()> {
    let address = serving::address(if listen.is_empty() { LISTEN } else { listen })?;
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        // Several programs on one machine are not kept from their work by a port that nobody asked for.
        Err(error) if listen.is_empty() => {
            warn!(%address, %error, "health and metrics are not served; choose an address with --listen");
            return Ok(());
        }
        Err(error) => return Err(anyhow!(error).context(format!("could not listen on {address}"))),
    };
    let named = certificate.map(|(certificate, key)| CertificateFiles::new(certificate, key));
    let files = named.or_else(CertificateFiles::usual);
    let current = match files {
        Some(files) => {
            let current = Arc::new(ArcSwap::from(files.read(tls)?));
            tokio::spawn(files.follow(tls.clone(), current.clone(), stop.clone()));
            current
        }
        None => tls.self_signed(stop)?,
    };
    let address = listener.local_addr().unwrap_or(address);
    info!(%address, "health and metrics");
    tokio::spawn(serving::serve(listener, current, Arc::new(site), stop.clone()));
    Ok(())
}

fn contents(files: &[String]) -> Vec<Option<Vec<u8>>> {
    files.iter().map(|it| std::fs::read(it).ok()).collect()
}

async fn changed(files: &[String], before: &[Option<Vec<u8>>]) {
    if files.is_empty() {
        return std::future::pending().await;
    }
    while contents(files) == before {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
