//! The agents, each as a program: what its flags mean.

use std::{path::PathBuf, sync::Arc, time::Duration};

use agent::{AgentId, Ended, Parts, Works};
use anyhow::{Result, anyhow, bail};
use client::cluster_name;
use credential::KubeconfigSource;
use ocm_api::{addon::KubeClientDriver, namespaces};
use process::code_pages;
use registration::agent::AgentOptions;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use work::agent::{WorkAgentOptions, feedback::RawJson, hub_hash};

use super::{
    api::{self, Reached},
    drivers, hub_choice, hub_files,
    read::FlagValues,
    rounds::{self, ControllerProgram, Round, RoundContext},
    settings,
};

/// The shortest certificate lifetime that may be asked for.
const CERTIFICATE_SECONDS_MIN: i64 = 3600;

/// How long to wait before the hubs are asked again, when none lets us in.
const CHOOSE_AGAIN: Duration = Duration::from_secs(5);

/// `registration agent`, and with `carries_out_works` `registration-operator agent`.
pub async fn registration(values: FlagValues, component: &'static str, carries_out_works: bool) -> Result<()> {
    check_registration(&values)?;
    let works = match carries_out_works {
        true => Some(works(&values)?),
        false => None,
    };
    let parts = Parts {
        works,
        addons: values.gate("AddonManagement"),
    };
    let values = Arc::new(values);
    let of_round = values.clone();
    let round: Round = Arc::new(move |ground: RoundContext| {
        let (values, parts) = (of_round.clone(), parts.clone());
        Box::pin(async move { register(&values, parts, ground).await })
    });
    run(&values, component, round).await
}

/// `work agent`.
pub async fn work(values: FlagValues) -> Result<()> {
    works(&values)?;
    let values = Arc::new(values);
    let of_round = values.clone();
    let round: Round = Arc::new(move |ground: RoundContext| {
        let values = of_round.clone();
        Box::pin(async move { carry_out(&values, ground).await })
    });
    run(&values, "work-agent", round).await
}

async fn run(values: &FlagValues, component: &'static str, round: Round) -> Result<()> {
    let program = ControllerProgram {
        component,
        namespace: namespaces::AGENT,
        page: None,
        round,
    };
    rounds::run(values, program).await
}

fn cluster_name(values: &FlagValues) -> Option<String> {
    let typed = values.some("spoke-cluster-name").or(values.some("cluster-name"));
    typed
        .map(str::to_owned)
        .or_else(|| api::word_in(values.text("hub-kubeconfig-dir"), "cluster-name"))
}

/// What the agent is called on the hub. With works, `--agent-id` is first of all the id of what they have applied: an
/// agent that has a credential keeps the name in it, for which an administrator has let it in, when it comes from being
/// two programs to being one. Upstream has it ask anew.
fn agent_name(values: &FlagValues, directory: &str, carries_out_works: bool) -> Option<String> {
    let said = values.some("agent-id").map(str::to_owned);
    let had = api::word_in(directory, "agent-name");
    match carries_out_works {
        true => had.or(said),
        false => said.or(had),
    }
}

fn check_registration(values: &FlagValues) -> Result<()> {
    // Anything else means csr, as with upstream.
    let other = values
        .some("registration-auth")
        .filter(|it| ["grpc", "awsirsa"].contains(it));
    drivers::check("registration-auth", other, "csr")?;
    if values.gate("MultipleHubs") {
        if values.list("bootstrap-kubeconfigs").len() < 2 {
            bail!("with MultipleHubs at least 2 --bootstrap-kubeconfigs are required");
        }
        if values.number("hub-connection-timeout-seconds") < 1 {
            bail!("--hub-connection-timeout-seconds must be at least 1");
        }
    } else if values.some("bootstrap-kubeconfig").is_none() {
        bail!("bootstrap-kubeconfig is required");
    }
    if let Some(name) = values.some("spoke-cluster-name").or(values.some("cluster-name")) {
        cluster_name::check(name)?;
    }
    let seconds = values.number("client-cert-expiration-seconds");
    if seconds != 0 && seconds < CERTIFICATE_SECONDS_MIN {
        bail!("client certificate expiration seconds must greater or qual to {CERTIFICATE_SECONDS_MIN}");
    }
    if values.duration("cluster-healthcheck-period").is_zero() {
        bail!("cluster healthcheck period must greater than zero");
    }
    if let Some(url) = values
        .list("spoke-external-server-urls")
        .iter()
        .find(|it| !it.starts_with("https://"))
    {
        bail!("{url:?} is invalid in --spoke-external-server-urls: a cluster is reached by https");
    }
    driver(values)?;
    settings::intervals()?;
    settings::addon_lease_seconds()?;
    Ok(())
}

fn driver(values: &FlagValues) -> Result<Option<KubeClientDriver>> {
    match values.text("addon-kubeclient-registration-auth") {
        // Left to the add-ons, which mostly say csr.
        "" => Ok(None),
        "csr" if !values.is_given("addon-kubeclient-registration-auth") => Ok(None),
        "csr" => Ok(Some(KubeClientDriver::Csr)),
        "token" => Ok(Some(KubeClientDriver::Token)),
        other => Err(anyhow!(
            "unsupported --addon-kubeclient-registration-auth {other:?}: there are csr and token"
        )),
    }
}

/// The cluster to manage, and whether it is another than the agent's own.
async fn managed(values: &FlagValues, ground: &RoundContext) -> Result<(Reached, bool)> {
    match values.some("spoke-kubeconfig") {
        None => Ok((ground.home.clone(), false)),
        Some(path) => {
            let reached = api::reach(path, &ground.stop).await?;
            let client = ground.guard.over(reached.client.clone());
            Ok((Reached { client, ..reached }, true))
        }
    }
}

/// The kubeconfig to join with: that of one hub, or of the first of several that lets us in. `None` when told to stop.
async fn bootstrap(values: &FlagValues, stop: &CancellationToken) -> Option<PathBuf> {
    if !values.gate("MultipleHubs") {
        return Some(values.text("bootstrap-kubeconfig").into());
    }
    let present = PathBuf::from(values.text("hub-kubeconfig-dir")).join("kubeconfig");
    let present = KubeconfigSource::Path(present).read().await.ok().map(|it| it.server);
    loop {
        let files = values.list("bootstrap-kubeconfigs");
        match hub_choice::choose(&files, present.as_deref(), cluster_name(values).as_deref()).await {
            Ok(chosen) => return Some(chosen),
            Err(error) => warn!(%error, "will retry"),
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(CHOOSE_AGAIN) => {}
        }
    }
}

async fn register(values: &FlagValues, parts: Parts, ground: RoundContext) -> Result<()> {
    let (cluster, is_hosted) = managed(values, &ground).await?;
    let directory = values.text("hub-kubeconfig-dir");
    let component_namespace = api::pod_namespace().unwrap_or_else(|| namespaces::AGENT.to_owned());
    let management = &ground.home.client;
    let secret = values.text("hub-kubeconfig-secret");
    // Before a hub is chosen: the one that the cluster is joined to goes first.
    let written = hub_files::restore(management.clone(), &component_namespace, secret, directory.as_ref()).await?;
    let Some(bootstrap) = bootstrap(values, &ground.stop).await else {
        return Ok(());
    };
    let bootstrap = KubeconfigSource::Path(bootstrap);
    let external_server_urls = values.list("spoke-external-server-urls");
    let options = AgentOptions {
        is_hosted,
        management: management.clone(),
        cluster_name: cluster_name(values),
        agent_id: agent_name(values, directory, parts.works.is_some()),
        component_namespace: component_namespace.clone(),
        hub_kubeconfig_secret: secret.to_owned(),
        external_ca_bundle: cluster.ca.clone().filter(|_| !external_server_urls.is_empty()),
        external_server_urls,
        cluster_annotations: values.pairs("cluster-annotations"),
        client_cert_expiration_seconds: Some(values.number("client-cert-expiration-seconds"))
            .filter(|it| *it > 0)
            .and_then(|it| i32::try_from(it).ok()),
        healthcheck_period: values.duration("cluster-healthcheck-period"),
        custom_claims_max: usize::try_from(values.number("max-custom-cluster-claims")).unwrap_or_default(),
        reserved_claim_suffixes: values.list("reserved-cluster-claim-suffixes"),
        addon_driver: driver(values)?,
        addon_token_seconds: Some(values.number("addon-token-expiration-seconds"))
            .filter(|_| values.is_given("addon-token-expiration-seconds")),
        addon_lease_grace: settings::addon_lease_seconds()?.map(|it| Duration::from_secs(it.saturating_mul(5))),
        tells_claims: values.gate("ClusterClaim"),
        tells_properties: values.gate("ClusterProperty"),
        intervals: settings::intervals()?,
        guard: ground.guard.clone(),
        ..AgentOptions::new(bootstrap, cluster.client)
    };
    let stop = ground.stop.child_token();
    let files = hub_files::keep(
        options.management.clone(),
        &component_namespace,
        secret,
        PathBuf::from(directory),
        written,
        stop.clone(),
    );
    let mut sessions = options.sessions.subscribe();
    let (of_hub, has_others) = (options.sessions.subscribe(), values.gate("MultipleHubs"));
    let patience =
        Duration::from_secs(u64::try_from(values.number("hub-connection-timeout-seconds")).unwrap_or_default());
    let hub = options.bootstrap.clone();
    let turns = async {
        match has_others {
            true => hub_choice::lost(hub, of_hub, patience).await,
            false => std::future::pending().await,
        }
    };
    let mut agent = agent::start_parts(options, parts, stop.clone());
    let settle = async {
        if sessions.wait_for(Option::is_some).await.is_ok() {
            code_pages::give_back_when_settled().await;
        }
        std::future::pending().await
    };
    let ended = tokio::select! {
        ended = agent.ended() => ended,
        never = settle => never,
        () = files => Ended::Stopped,
        // The next round begins with a choice.
        () = turns => Ended::Stopped,
        // Everything that was prepared speaks to the old server.
        () = cluster.moved.cancelled() => Ended::Stopped,
    };
    stop.cancel();
    agent.finished().await;
    match ended {
        Ended::Stopped => Ok(()),
        error => Err(error.into()),
    }
}

fn works(values: &FlagValues) -> Result<Works> {
    drivers::check("workload-source-driver", values.some("workload-source-driver"), "kube")?;
    let workers = values.number("workload-agent-workers");
    if workers < 1 {
        bail!("workload-agent-workers must be >= 1, got {workers}");
    }
    let longest = usize::try_from(values.number("max-json-raw-length")).unwrap_or_default();
    Ok(Works {
        // Upstream's two halves share what registration has come to be called; a work agent alone goes by its hub.
        agent_id: match values.some("agent-id") {
            Some(id) => AgentId::Given(id.to_owned()),
            None => AgentId::OfRegistration,
        },
        eviction_grace: values.duration("appliedmanifestwork-eviction-grace-period"),
        raw_feedback: match values.gate("RawFeedbackJsonString") {
            true => RawJson::UpTo(longest),
            false => RawJson::Refused,
        },
        workers: usize::try_from(workers)
            .ok()
            .filter(|_| values.is_given("workload-agent-workers")),
    })
}

/// The kubeconfig that works come from: by the flag that was typed, the most exact first.
fn source(values: &FlagValues) -> PathBuf {
    if values.is_given("workload-source-config") {
        return values.text("workload-source-config").into();
    }
    if let Some(path) = values.some("hub-kubeconfig") {
        return path.into();
    }
    match values.is_given("hub-kubeconfig-dir") {
        true => PathBuf::from(values.text("hub-kubeconfig-dir")).join("kubeconfig"),
        false => values.text("workload-source-config").into(),
    }
}

async fn carry_out(values: &FlagValues, ground: RoundContext) -> Result<()> {
    let (cluster, _) = managed(values, &ground).await?;
    let works = works(values)?;
    if cluster_name(values).is_none() {
        info!("no --spoke-cluster-name, waits for the name to come with the hub's kubeconfig");
    }
    let mut settling = tokio::spawn(async {});
    while !ground.stop.is_cancelled() {
        let Some(hub) = api::reach_when_there(&source(values), &ground.stop).await else {
            return Ok(());
        };
        // The name may come with the credential.
        let Some(name) = cluster_name(values) else {
            bail!("cluster name is empty: pass --spoke-cluster-name NAME");
        };
        cluster_name::check(&name)?;
        let session = ground.stop.child_token();
        let hash = hub_hash(&hub.server);
        let client = ground.guard.over(hub.client);
        let mut options = WorkAgentOptions {
            agent_id: values.text("agent-id").to_owned(),
            eviction_grace: works.eviction_grace,
            raw_feedback: works.raw_feedback,
            ..WorkAgentOptions::new(client, cluster.client.clone(), &name, &hash)
        };
        options.workers = works.workers.unwrap_or(options.workers);
        // Whoever started last gives back for all.
        settling.abort();
        settling = tokio::spawn(code_pages::give_back_when_settled());
        let running = work::agent::run(options, session.clone());
        tokio::pin!(running);
        tokio::select! {
            () = &mut running => {}
            // Another server is another hub: its works have other names, and the old ones are no longer ours
            // to carry out.
            () = hub.moved.cancelled() => {
                session.cancel();
                running.await;
            }
        }
        if cluster.moved.is_cancelled() {
            return Ok(());
        }
    }
    Ok(())
}
