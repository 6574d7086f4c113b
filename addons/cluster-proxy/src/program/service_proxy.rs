//! `cluster-proxy service-proxy`.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use clap::Args;
use futures::StreamExt;
use ocm_addon_sdk::{
    duration,
    kube::{Client, Config},
    program::Place,
};
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Drain, Logging, pod_namespace, required, serving, tls_profile};
use crate::{
    SERVICE_PROXY_PORT, followed,
    forward::roots,
    service_proxy::{
        ClusterApi, ServiceProxy,
        callers::Callers,
        oidc::{Oidc, OidcOptions},
    },
    trust::{self, PairFiles, ServerFiles},
};

const IN_POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// What an issuer's certificates are under.
const CA_KEY: &str = "ca.crt";

#[derive(Debug, Args)]
pub struct ServiceProxyFlags {
    /// What is shown to user-servers
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Certificates that Services are trusted by besides the cluster's
    #[arg(long, value_name = "FILE")]
    additional_service_ca: Option<PathBuf>,
    /// Whether tokens of the hub are taken
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = true,
          action = clap::ArgAction::Set)]
    enable_impersonation: bool,
    /// The kubeconfig of the hub
    #[arg(long, value_name = "FILE")]
    hub_kubeconfig: Option<PathBuf>,
    /// How long the answer about a token counts; 0 for not at all
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    token_review_cache_ttl: String,
    /// Accepted: requests to API servers are not slowed down
    #[arg(long, value_name = "NUMBER", default_value_t = 50.0)]
    kube_api_qps: f32,
    /// Accepted: requests to API servers are not slowed down
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    kube_api_burst: u32,
    /// Accepted: connections that nobody uses are kept for a minute
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    max_idle_conns: u32,
    /// Accepted: connections that nobody uses are kept for a minute
    #[arg(long, value_name = "DURATION", default_value = "1m30s")]
    idle_conn_timeout: String,
    /// Accepted: a handshake is given ten seconds
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    tls_handshake_timeout: String,
    /// Accepted: who expects 100-continue is answered by the target
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    expect_continue_timeout: String,
    #[command(flatten)]
    oidc: OidcFlags,
    #[command(flatten)]
    drain: Drain,
    #[command(flatten)]
    logging: Logging,
}

#[derive(Debug, Args)]
struct OidcFlags {
    /// The https URL of an OIDC issuer whose tokens are taken
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    oidc_issuer_url: String,
    /// The client that tokens have to be for
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    oidc_client_id: String,
    /// The claim with the user's name
    #[arg(long, value_name = "CLAIM", default_value = "sub")]
    oidc_username_claim: String,
    /// What comes before the name [default: the issuer and #, except for claim email; - for nothing]
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    oidc_username_prefix: String,
    /// The claim with the user's groups
    #[arg(long, value_name = "CLAIM", default_value = "", hide_default_value = true)]
    oidc_groups_claim: String,
    /// What comes before each group
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    oidc_groups_prefix: String,
    /// What names and groups must not begin with; empty for anything
    #[arg(long, value_name = "PREFIXES", default_value = "system:")]
    oidc_reserved_name_prefixes: String,
    /// A ConfigMap in $POD_NAMESPACE with the certificates of the issuer under ca.crt [default: those of the system]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    oidc_ca_configmap: String,
    /// Algorithms that tokens may be signed with
    #[arg(long, value_name = "ALGORITHMS", value_delimiter = ',', default_value = "RS256")]
    oidc_signing_algs: Vec<String>,
    /// A claim that tokens have to have, with its value; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = claim)]
    oidc_required_claim: Vec<(String, String)>,
}

fn claim(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=');
    let (key, value) = pair.ok_or_else(|| format!("malformed pair, expect string=string: {text}"))?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

impl OidcFlags {
    /// What is to be accepted; `None` without an issuer.
    fn options(&self) -> Result<Option<OidcOptions>, String> {
        let prefixes = &self.oidc_reserved_name_prefixes;
        let reserved = (!prefixes.is_empty()).then(|| prefixes.split(',').map(str::to_owned).collect());
        let options = OidcOptions {
            issuer: self.oidc_issuer_url.clone(),
            client_id: self.oidc_client_id.clone(),
            username_claim: self.oidc_username_claim.clone(),
            username_prefix: self.oidc_username_prefix.clone(),
            groups_claim: self.oidc_groups_claim.clone(),
            groups_prefix: self.oidc_groups_prefix.clone(),
            reserved_prefixes: reserved.unwrap_or_default(),
            algorithms: self.oidc_signing_algs.clone(),
            required_claims: self.oidc_required_claim.iter().cloned().collect::<BTreeMap<_, _>>(),
        };
        if options.issuer.is_empty() && options.client_id.is_empty() {
            return Ok(None);
        }
        options.check()?;
        Ok(Some(options))
    }
}

pub async fn run(flags: ServiceProxyFlags, place: &Place, stop: CancellationToken) -> Result<()> {
    let pair = PairFiles {
        certificate: required(flags.cert, "cert", place)?,
        key: required(flags.key, "key", place)?,
    };
    let drain = flags.drain.read()?;
    let ttl = &flags.token_review_cache_ttl;
    let ttl = duration::parse(ttl).and_then(|it| Duration::try_from(it).ok());
    let ttl = ttl.context("--token-review-cache-ttl is no duration such as 10s")?;
    let issuer = flags.oidc.options().map_err(anyhow::Error::msg)?;
    let namespace = pod_namespace()?;
    let managed = place.client(None).await?;
    let api = cluster_api(place).await?;
    let services = services(place, flags.additional_service_ca)?;
    let hub = match &flags.hub_kubeconfig {
        Some(path) if flags.enable_impersonation => match place.hub_client(path, &stop).await {
            Ok(hub) => Some(hub),
            // Told to stop while it waited for its credential.
            Err(_) if stop.is_cancelled() => return Ok(()),
            Err(error) => return Err(error),
        },
        None if flags.enable_impersonation => anyhow::bail!("hub-kubeconfig is required"),
        _ => None,
    };
    let mut callers = Callers::new(managed.clone(), hub, ttl);
    if let Some(options) = issuer {
        info!(issuer = %options.issuer, client = %options.client_id, "OIDC authentication enabled");
        let oidc = Arc::new(Oidc::new(options).map_err(anyhow::Error::msg)?);
        follow_certificates(&oidc, managed.clone(), &namespace, &flags.oidc.oidc_ca_configmap, &stop).await;
        callers = callers.with_issuer(oidc);
    }
    let tls = ServerFiles {
        pair,
        clients: None,
        profile: tls_profile(managed, &namespace, &stop).await,
        http2: false,
    };
    let tls = tls.serving().context("the certificate of the service-proxy")?;
    let proxy = ServiceProxy::new(api, services, callers);
    serving::serve(&format!(":{SERVICE_PROXY_PORT}"), tls, Arc::new(proxy), drain, stop).await
}

/// The API server that this pod belongs to.
async fn cluster_api(place: &Place) -> Result<ClusterApi> {
    let config = place.config(None).await?;
    let url = &config.cluster_url;
    let host = url.host().context("the API server has no host")?;
    let trusted = place.ca(None)?;
    let trusted = if trusted.is_empty() {
        trust::of_system()
    } else {
        roots(&trusted)?
    };
    let name = config.tls_server_name.clone();
    Ok(ClusterApi {
        address: format!("{host}:{}", url.port_u16().unwrap_or(443)),
        name: name.unwrap_or_else(|| host.trim_matches(['[', ']']).to_owned()),
        tls: trust::client(trusted),
        token: token(&config),
    })
}

/// The token of this pod, read each time it is needed.
fn token(config: &Config) -> Arc<dyn Fn() -> io::Result<String> + Send + Sync> {
    let auth = &config.auth_info;
    if let Some(file) = &auth.token_file {
        let file = PathBuf::from(file);
        return Arc::new(move || std::fs::read_to_string(&file));
    }
    match auth.token.clone() {
        Some(token) => Arc::new(move || Ok(token.expose_secret().to_owned())),
        None => Arc::new(|| std::fs::read_to_string(format!("{IN_POD}/token"))),
    }
}

/// Whom Services are trusted by: the cluster's authority, those of the system, and more.
fn services(place: &Place, additional: Option<PathBuf>) -> Result<Arc<rustls::ClientConfig>> {
    let mut all = trust::of_system();
    let of_services = PathBuf::from(format!("{IN_POD}/service-ca.crt"));
    let mut pems = vec![place.ca(None)?];
    for path in additional.into_iter().map(|it| place.file(it)).chain([of_services]) {
        match std::fs::read(&path) {
            Ok(pem) => pems.push(pem),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("{} cannot be read", path.display())),
        }
    }
    for pem in pems.iter().filter(|it| !it.is_empty()) {
        all.extend(roots(pem)?.roots);
    }
    Ok(trust::client(all))
}

/// Follows the certificates that the issuer's server is trusted by, from when this returns until `stop`.
async fn follow_certificates(oidc: &Arc<Oidc>, client: Client, namespace: &str, name: &str, stop: &CancellationToken) {
    if name.is_empty() {
        oidc.trust(Ok(None)).await;
        return;
    }
    let what = format!("OIDC CA ConfigMap {namespace}/{name}");
    let mut states = followed::states(client, namespace, name);
    let (oidc, stop) = (oidc.clone(), stop.clone());
    oidc.trust(Err(format!("{what} is not available"))).await;
    tokio::spawn(async move {
        while let Some(data) = tokio::select! { it = states.next() => it, () = stop.cancelled() => None } {
            let certificates = match &data {
                None => Err(format!("{what} is not available")),
                Some(data) => match data.get(CA_KEY) {
                    Some(pem) => Ok(Some(pem.as_bytes())),
                    None => Err(format!("{what} has no key {CA_KEY}")),
                },
            };
            if let Err(why) = &certificates {
                warn!("{why}");
            }
            oidc.trust(certificates).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        flags: OidcFlags,
    }

    fn read(words: &[&str]) -> Result<Option<OidcOptions>, String> {
        let words = std::iter::once("x").chain(words.iter().copied());
        let parsed = Words::try_parse_from(words).map_err(|it| it.to_string())?;
        parsed.flags.options()
    }

    #[test]
    fn an_issuer_needs_a_client_and_defaults_are_upstreams() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(
            read(&["--oidc-client-id=c"]).unwrap_err(),
            "--oidc-issuer-url and --oidc-client-id must be specified together"
        );
        let both = ["--oidc-issuer-url=https://i.example", "--oidc-client-id=c"];
        let options = read(&both).unwrap().unwrap();
        assert_eq!(options.username_claim, "sub");
        assert_eq!(options.reserved_prefixes, ["system:"]);
        assert_eq!(options.algorithms, ["RS256"]);
        let mut more = both.to_vec();
        more.extend([
            "--oidc-reserved-name-prefixes=",
            "--oidc-required-claim=a=b=c",
            "--oidc-username-prefix=-",
        ]);
        let options = read(&more).unwrap().unwrap();
        assert!(options.reserved_prefixes.is_empty());
        assert_eq!(options.required_claims["a"], "b=c");
        assert_eq!(options.username_prefix, "-");
    }
}
