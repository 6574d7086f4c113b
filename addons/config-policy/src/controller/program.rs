//! The program of upstream's image: `config-policy-controller controller`, with its flags, and `trigger-uninstall`.
//! Upstream: `main.go`.

use std::{ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Result, bail};
use clap::Parser;
use ocm_addon_sdk::{
    AddOnAgent,
    agent::renew,
    kube::Client,
    ocm_api::policy::OCM_POLICY_NAMESPACE,
    program::{self, LeaderElection, LoggingFlags, PageAddresses, Pages, Place},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{PolicyClients, PolicySite, control, uninstall};
use crate::{
    NAME,
    addon::standalone_templating,
    evaluate::{EvaluationSettings, TerminatingNamespaces},
    operator::OperatorSettings,
};

/// The names of the programs in the image.
pub const PROGRAMS: &[&str] = &["config-policy-controller"];

const DEPLOYMENT: &str = "config-policy-controller";
const NAMESPACE: &str = "open-cluster-management-agent-addon";
const LEASE: &str = "config-policy-controller.open-cluster-management.io";

/// Evaluates the policies of a cluster
#[derive(Debug, Parser)]
#[command(name = "config-policy-controller controller", disable_version_flag = true)]
struct Flags {
    /// After a burst of evaluations a policy waits so many seconds for the next one
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    evaluation_backoff: u32,
    /// Whether the add-on's Lease is renewed
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    enable_lease: bool,
    /// The name of the cluster
    #[arg(long, value_name = "NAME", default_value = "acm-managed-cluster")]
    cluster_name: String,
    /// The kubeconfig of the hub, for the Lease
    #[arg(long, value_name = "FILE", default_value = "/var/run/klusterlet/kubeconfig")]
    hub_kubeconfig_path: PathBuf,
    /// The kubeconfig of the cluster that policies are about [default: the one where they are]
    #[arg(long, value_name = "FILE")]
    target_kubeconfig_path: Option<PathBuf>,
    /// The kubeconfig of the cluster where policies are [default: $KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Whether one of several processes is elected to do the work
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = true,
          action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// Where /healthz and /readyz are served; 0 turns them off
    #[arg(long, value_name = "HOST:PORT", default_value = ":8081")]
    health_probe_bind_address: String,
    /// Where metrics are served; 0 turns them off
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:8383")]
    metrics_bind_address: String,
    /// Whether metrics of policies are served
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = true,
          action = clap::ArgAction::Set)]
    enable_metrics: bool,
    /// Metrics are to be served with TLS only, which this program cannot: it serves none
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    secure_metrics: bool,
    /// Accepted: all values of an object are decrypted together
    #[arg(long, value_name = "N", default_value_t = 5)]
    decryption_concurrency: u8,
    /// How many policies are evaluated at a time
    #[arg(long, value_name = "N", default_value_t = 2)]
    evaluation_concurrency: u16,
    /// Whether OperatorPolicies are evaluated
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    enable_operator_policy: bool,
    /// The namespace of operators whose policy names none
    #[arg(long, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    operator_policy_default_namespace: String,
    /// How many messages of an OperatorPolicy are remembered
    #[arg(long, value_name = "N", default_value_t = 10)]
    operator_policy_status_history_length: u16,
    /// Whether policies of namespace open-cluster-management-policies are evaluated, too
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = true,
          action = clap::ArgAction::Set)]
    enable_ocm_policy_namespace: bool,
    /// The kubeconfig of the hub for hub templates that the cluster fills in itself
    #[arg(long, value_name = "FILE")]
    standalone_hub_templates_kubeconfig_path: Option<PathBuf>,
    /// Whether namespaces that are being deleted are selected where a policy leaves it open: IfMatch or Drop
    #[arg(long, value_name = "HOW", default_value = "IfMatch")]
    default_terminating_namespace_inclusion: String,
    /// Template functions whose use is an error
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    template_function_denylist: Vec<String>,
    /// Accepted: the API server says how fast it can be asked
    #[arg(long, value_name = "N", default_value_t = 30.0)]
    client_max_qps: f32,
    /// Accepted, as --client-max-qps
    #[arg(long, value_name = "N", default_value_t = 45)]
    client_burst: u16,
    /// Accepted: nothing is served with TLS
    #[arg(long, value_name = "VERSION")]
    tls_min_version: Option<String>,
    /// Accepted: nothing is served with TLS
    #[arg(long, value_name = "SUITES")]
    tls_cipher_suites: Option<String>,
    #[command(flatten)]
    logging: LoggingFlags,
}

/// Prepares the removal of the controller: policies are let go
#[derive(Debug, Parser)]
#[command(name = "config-policy-controller trigger-uninstall", disable_version_flag = true)]
struct TriggerFlags {
    /// The Deployment of the controller
    #[arg(long, value_name = "NAME", default_value = DEPLOYMENT)]
    deployment_name: String,
    /// Its namespace
    #[arg(long, value_name = "NAMESPACE", default_value = NAMESPACE)]
    deployment_namespace: String,
    /// The namespace of the policies
    #[arg(long, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    policy_namespace: String,
    /// One more namespace of policies
    #[arg(long, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    additional_namespace: String,
    /// After this time it gives up; at least 30
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout_seconds: u32,
    /// The kubeconfig of the cluster [default: $KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    logging: LoggingFlags,
}

/// Runs the program with its arguments, without its name, until it ends or is told to stop.
pub fn run(program: &str, arguments: Vec<OsString>, place: &Place) -> ExitCode {
    let command = arguments
        .first()
        .and_then(|it| it.to_str())
        .unwrap_or_default()
        .to_owned();
    let words = std::iter::once(OsString::from(format!("{program} {command}"))).chain(arguments.into_iter().skip(1));
    match command.as_str() {
        "controller" => match program::parsed(Flags::try_parse_from(words)) {
            Ok(flags) => program::run(async |stop| serve(flags, place, stop).await),
            Err(code) => code,
        },
        "trigger-uninstall" => match program::parsed(TriggerFlags::try_parse_from(words)) {
            Ok(flags) => program::run(async |_| trigger(flags, place).await),
            Err(code) => code,
        },
        _ => {
            eprintln!("expected 'controller' or 'trigger-uninstall' subcommands");
            ExitCode::FAILURE
        }
    }
}

async fn trigger(flags: TriggerFlags, place: &Place) -> Result<()> {
    let named = [
        &flags.deployment_name,
        &flags.deployment_namespace,
        &flags.policy_namespace,
    ];
    if named.iter().any(|it| it.is_empty()) {
        bail!("--deployment-name, --deployment-namespace, --policy-namespace must all have values");
    }
    if flags.timeout_seconds < 30 {
        bail!("--timeout-seconds must be set to at least 30 seconds");
    }
    let client = place.client(flags.kubeconfig.as_deref()).await?;
    let namespaces = [flags.policy_namespace, flags.additional_namespace];
    let it = uninstall::UninstallTrigger {
        deployment: flags.deployment_name,
        deployment_namespace: flags.deployment_namespace,
        policy_namespaces: namespaces.into_iter().filter(|it| !it.is_empty()).collect(),
        timeout: Duration::from_secs(flags.timeout_seconds.into()),
    };
    uninstall::trigger(&client, &it).await
}

/// The namespaces of policies, of `$WATCH_NAMESPACE` and the flags; empty for all.
fn watched_namespaces(said: Option<String>, flags: &Flags) -> Result<Vec<String>> {
    let Some(said) = said else {
        bail!("WATCH_NAMESPACE must be set")
    };
    let said = said.trim().to_owned();
    if said.contains(',') {
        bail!("WATCH_NAMESPACE names one namespace, or none for all; it is {said:?}");
    }
    let mut namespaces: Vec<String> = Some(said).into_iter().filter(|it| !it.is_empty()).collect();
    let also = flags.enable_ocm_policy_namespace && flags.target_kubeconfig_path.is_none();
    if also && !namespaces.is_empty() && namespaces[0] != OCM_POLICY_NAMESPACE {
        namespaces.push(OCM_POLICY_NAMESPACE.to_owned());
    }
    Ok(namespaces)
}

fn settings(flags: &Flags) -> Result<EvaluationSettings> {
    Ok(EvaluationSettings {
        denied_functions: flags.template_function_denylist.clone(),
        full_diffs: false,
        terminating_namespaces: match flags.default_terminating_namespace_inclusion.as_str() {
            "IfMatch" => TerminatingNamespaces::IfMatch,
            "Drop" => TerminatingNamespaces::Never,
            other => bail!(
                "--default-terminating-namespace-inclusion: unknown option for default terminating namespace inclusion: \
                 {other:?}; it is IfMatch or Drop"
            ),
        },
    })
}

/// Of OperatorPolicies; `None` where they are not evaluated.
fn operator_settings(flags: &Flags) -> Option<OperatorSettings> {
    flags.enable_operator_policy.then(|| OperatorSettings {
        default_namespace: flags.operator_policy_default_namespace.clone(),
        history_max: flags.operator_policy_status_history_length.into(),
        denied_functions: flags.template_function_denylist.clone(),
    })
}

async fn serve(flags: Flags, place: &Place, stop: CancellationToken) -> Result<()> {
    let said = |name: &str| std::env::var(name).ok();
    let namespaces = watched_namespaces(said("WATCH_NAMESPACE"), &flags)?;
    let settings = settings(&flags)?;
    let pages = PageAddresses {
        metrics: if flags.enable_metrics {
            &flags.metrics_bind_address
        } else {
            "0"
        },
        secure_metrics: flags.secure_metrics,
        probes: &flags.health_probe_bind_address,
    };
    let probes = Pages::new().healthy(|| Ok(())).ready(|| Ok(()));
    pages.serve(probes, &stop).await?;
    let home = place.client(flags.kubeconfig.as_deref()).await?;
    let target = match flags.target_kubeconfig_path.as_deref() {
        Some(path) => place.client(Some(path)).await?,
        None => home.clone(),
    };
    let hub = match flags.standalone_hub_templates_kubeconfig_path.as_deref() {
        Some(path) => Some(place.hub_client(path, &stop).await),
        None => None,
    };
    let hub = match hub.transpose() {
        Ok(hub) => hub,
        // Told to stop while it waited for its credential.
        Err(_) if stop.is_cancelled() => return Ok(()),
        Err(error) => return Err(error),
    };
    let own_namespace = place.namespace();
    let site = PolicySite {
        namespaces,
        cluster: flags.cluster_name.clone(),
        own_namespace: own_namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned()),
        deployment: said("DEPLOYMENT_NAME")
            .filter(|it| !it.is_empty())
            .unwrap_or_else(|| DEPLOYMENT.to_owned()),
        instance: said("HOSTNAME").unwrap_or_default(),
        back_off: Duration::from_secs(flags.evaluation_backoff.max(1).into()),
    };
    info!(namespaces = ?site.namespaces, "evaluates policies");
    let beats = lease(&flags, place, &site, (&home, &target), &stop);
    let operators = operator_settings(&flags);
    let workers = usize::from(flags.evaluation_concurrency.max(1));
    let work = move |home: Client, end: CancellationToken| {
        let clients = PolicyClients {
            home,
            target: target.clone(),
            hub: hub.clone(),
        };
        let (site, settings, operators) = (site.clone(), settings.clone(), operators.clone());
        async move {
            control(&clients, site, settings, operators, workers, &end).await;
        }
    };
    let elected_in = own_namespace.filter(|_| flags.leader_elect);
    let election = elected_in.map(|it| LeaderElection::new(it, LEASE));
    let (led, ()) = tokio::join!(program::lead_if(home, election, work, stop), beats);
    led
}

/// Renews the Lease of the add-on, and that of the add-on whose kubeconfig of the hub it uses, where that is asked for.
/// The hub's kubeconfig may come late, and policies do not wait for it.
fn lease(
    flags: &Flags,
    place: &Place,
    site: &PolicySite,
    (home, target): (&Client, &Client),
    stop: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let has_lease = flags.enable_lease && place.namespace().is_some();
    let (kubeconfig, place) = (place.file(&flags.hub_kubeconfig_path), place.clone());
    let mut agent = AddOnAgent {
        add_on: NAME.to_owned(),
        cluster: flags.cluster_name.clone(),
        namespace: site.own_namespace.clone(),
        hub: None,
        managed: target.clone(),
        home: home.clone(),
        stop: stop.clone(),
    };
    // The add-on whose kubeconfig it uses runs nothing itself.
    let has_guest = flags.standalone_hub_templates_kubeconfig_path.is_some();
    async move {
        if !has_lease {
            return;
        }
        agent.hub = place.hub_client(&kubeconfig, &agent.stop).await.ok();
        let guest = AddOnAgent {
            add_on: standalone_templating::NAME.to_owned(),
            ..agent.clone()
        };
        let of_guest = async {
            if has_guest {
                renew(&guest, async || true).await;
            }
        };
        tokio::join!(renew(&agent, async || true), of_guest);
    }
}

#[cfg(test)]
mod tests {
    use ocm_addon_sdk::{AddOn, AddOnContext};
    use testkit::manifests::of_kind;

    use super::*;
    use crate::addon::ConfigPolicy;

    fn flags(words: &[&str]) -> Flags {
        Flags::try_parse_from(std::iter::once("x").chain(words.iter().copied())).unwrap()
    }

    #[test]
    fn command_lines_of_upstreams_manifests_are_read() {
        let flags = flags(&[
            "--enable-lease=true",
            "--cluster-name=c1",
            "--log-level=-1",
            "--v=-2",
            "--log-encoder=console",
            "--evaluation-concurrency=2",
            "--evaluation-backoff=10",
            "--client-max-qps=30",
            "--client-burst=45",
            "--leader-elect=false",
            "--enable-operator-policy=true",
            "--operator-policy-default-namespace=operators",
            "--target-kubeconfig-path=/var/run/managed-kubeconfig/kubeconfig",
            "--standalone-hub-templates-kubeconfig-path=/var/run/klusterlet/kubeconfig",
            "--secure-metrics=true",
            "--tls-min-version=VersionTLS12",
            "--template-function-denylist=fail,getHostByName",
        ]);
        assert!(flags.enable_lease && !flags.leader_elect && flags.enable_operator_policy);
        assert_eq!(flags.template_function_denylist, ["fail", "getHostByName"]);
        let operators = operator_settings(&flags).unwrap();
        assert_eq!(
            (operators.default_namespace.as_str(), operators.history_max),
            ("operators", 10)
        );
        assert!(operator_settings(&self::flags(&[])).is_none());
    }

    #[test]
    fn what_the_pods_of_the_chart_are_given_is_read() {
        let all = ConfigPolicy::default()
            .manifests(&AddOnContext::new("c1", NAME))
            .unwrap();
        let words = |kind: &str, at: &str| -> Vec<String> {
            let args = of_kind(&all, kind).pointer(at).unwrap();
            serde_json::from_value(args.clone()).unwrap()
        };
        // The sub-command stands for the name of the program.
        let controller = words("Deployment", "/spec/template/spec/containers/0/args");
        Flags::try_parse_from(controller).unwrap();
        let trigger = words("Pod", "/spec/containers/0/args");
        let trigger = TriggerFlags::try_parse_from(trigger).unwrap();
        assert_eq!(trigger.policy_namespace, "c1");
        assert_eq!(trigger.additional_namespace, OCM_POLICY_NAMESPACE);
    }

    #[test]
    fn the_namespace_for_a_cluster_alone_is_watched_too() {
        let watched = |said: Option<&str>, words: &[&str]| watched_namespaces(said.map(str::to_owned), &flags(words));
        assert_eq!(watched(Some("c1"), &[]).unwrap(), ["c1", OCM_POLICY_NAMESPACE]);
        assert_eq!(
            watched(Some("c1"), &["--enable-ocm-policy-namespace=false"]).unwrap(),
            ["c1"]
        );
        assert_eq!(watched(Some("c1"), &["--target-kubeconfig-path=x"]).unwrap(), ["c1"]);
        assert!(watched(Some(""), &[]).unwrap().is_empty());
        assert!(watched(Some("a,b"), &[]).is_err());
        assert_eq!(
            watched(None, &[]).unwrap_err().to_string(),
            "WATCH_NAMESPACE must be set"
        );
    }
}
