//! From a kubeconfig to a client, and from a failed request to one sentence that names the thing and the fix.

use std::{
    error::Error as StdError,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use credential::{confined, connection};
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
    core::{ApiResource, DynamicObject},
};
use serde_json::json;

use crate::{bootstrap, flags::Global};

/// Where `drover up` leaves the hub's kubeconfig when it is not told otherwise.
const LOCAL_HUB: &str = ".drover/hub.kubeconfig";

/// An API server to speak to, and where its address came from.
#[derive(Clone)]
pub struct ApiServer {
    /// Speaks to it.
    pub client: Client,
    /// The server's URL.
    pub server: String,
    /// The kubeconfig that named it, for sentences.
    pub from: String,
    /// The CA, in PEM, that the kubeconfig trusts; none where the machine's own are trusted.
    pub ca: Option<String>,
    /// How it is spoken to; `None` for a client that somebody else has made.
    pub config: Option<Config>,
}

impl ApiServer {
    /// Speaks to the API server that the global flags, the environment or the usual files name.
    pub async fn connect(global: &Global) -> Result<Self> {
        let (kubeconfig, from) = locate(global)?;
        Self::from_kubeconfig(kubeconfig, global.context.clone(), from).await
    }

    /// Speaks to the API server of a kubeconfig's current context; `from` is how sentences name it.
    pub async fn of(kubeconfig: Kubeconfig, from: &str) -> Result<Self> {
        Self::from_kubeconfig(kubeconfig, None, from.to_owned()).await
    }

    async fn from_kubeconfig(kubeconfig: Kubeconfig, context: Option<String>, from: String) -> Result<Self> {
        let config = config(kubeconfig, context, &from).await?;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let ca = config
            .root_cert
            .as_ref()
            .map(|it| it.iter().map(|der| bootstrap::pem(der)).collect());
        let client = connection::client(&config).with_context(|| format!("could not use the credentials in {from}"))?;
        Ok(Self {
            client,
            server,
            from,
            ca,
            config: Some(config),
        })
    }

    /// A client whose connections may be upgraded, as port-forward needs: it speaks HTTP/1.1.
    ///
    /// # Errors
    /// When the credentials cannot be used.
    pub fn upgrading_client(&self) -> Result<Client> {
        let config = self
            .config
            .clone()
            .context("nobody has said how the API server is spoken to")?;
        let client = Client::try_from(config);
        client.with_context(|| format!("could not use the credentials in {}", self.from))
    }

    /// Whether the address is the one that a pod is told, which nobody else can reach.
    pub fn is_of_pod(&self) -> bool {
        self.from == OF_POD
    }

    /// The objects of a cluster-scoped kind, or of a namespaced kind in all namespaces.
    pub fn all(&self, kind: &ApiResource) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), kind)
    }

    /// The objects of a namespaced kind in one namespace.
    pub fn namespaced(&self, kind: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, kind)
    }

    /// What a failed request means to the person who typed the command; `doing` reads "could not …".
    pub fn explain(&self, doing: &str, error: &kube::Error) -> anyhow::Error {
        anyhow!("{doing}: {}", Cause::of(error).sentence(&self.server, &self.from))
    }
}

/// The configuration for one context of a kubeconfig.
async fn config(kubeconfig: Kubeconfig, context: Option<String>, from: &str) -> Result<Config> {
    // Before anything is made of it: a kubeconfig may name a program, which is run to get a credential.
    confined::check(&kubeconfig).map_err(|why| anyhow!("{from} is not used: {why}"))?;
    let known: Vec<String> = kubeconfig.contexts.iter().map(|it| it.name.clone()).collect();
    let mut checked = kubeconfig.clone();
    let options = KubeConfigOptions {
        context: context.clone(),
        ..KubeConfigOptions::default()
    };
    let mut config = match Config::from_custom_kubeconfig(kubeconfig, &options).await {
        Ok(config) => config,
        Err(KubeconfigError::LoadContext(name)) => {
            bail!("{from} has no context named {name:?}; it has {}", list(&known))
        }
        Err(KubeconfigError::CurrentContextNotSet) => {
            bail!(
                "{from} names no current context; choose one with --context, it has {}",
                list(&known)
            )
        }
        Err(error) => return Err(anyhow!(error).context(format!("{from} is not a usable kubeconfig"))),
    };
    // What the server would only call "unauthorized" can be said in full before it is asked.
    if context.is_some() {
        checked.current_context = context;
    }
    let loaded = credential::kubeconfig::load(from, checked).await?;
    loaded.check(jiff::Timestamp::now())?;
    config.connect_timeout = Some(Duration::from_secs(5));
    // The kubeconfig's proxy, and not the one that the environment has for other programs.
    config.proxy_url = loaded.config.proxy_url;
    Ok(config)
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

/// Finds the kubeconfig: the flag, `$KUBECONFIG`, the home directory's, that of the pod that this is, and last the one
/// that `drover up` leaves in the working directory. It comes last so that a stray `.drover` never wins over a
/// kubeconfig the user has set up.
fn locate(global: &Global) -> Result<(Kubeconfig, String)> {
    if let Some(path) = &global.kubeconfig {
        return Ok((read(path)?, path.display().to_string()));
    }
    if let Some(value) = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()) {
        let from = format!("{} (from $KUBECONFIG)", value.to_string_lossy());
        let mut merged = Kubeconfig::default();
        for path in std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()) {
            merged = merged
                .merge(read(&path)?)
                .map_err(|error| anyhow!(error).context(from.clone()))?;
        }
        return Ok((merged, from));
    }
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
    if let Some(path) = home.filter(|it| it.exists()) {
        return Ok((read(&path)?, path.display().to_string()));
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
    if let (Some(host), Some(port)) = (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"))
        && Path::new(SERVICE_ACCOUNT).join("token").exists()
    {
        return Ok((of_pod(&host, &port, Path::new(SERVICE_ACCOUNT)), OF_POD.to_owned()));
    }
    let local = Path::new(LOCAL_HUB);
    if local.exists() {
        return Ok((read(local)?, LOCAL_HUB.to_owned()));
    }
    bail!(
        "no kubeconfig found: pass --kubeconfig FILE, set KUBECONFIG, \
         or run `drover up` in this directory, which leaves one in {LOCAL_HUB}"
    )
}

/// Where Kubernetes puts what a pod speaks to the API with.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How sentences name what a pod has in place of a kubeconfig.
const OF_POD: &str = "the pod's ServiceAccount";

/// The kubeconfig that a pod has in pieces, in this directory. The token is named and not read: Kubernetes renews it.
pub fn of_pod(host: &str, port: &str, account: &Path) -> Kubeconfig {
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let pod = json!({
        "clusters": [{"name": "pod", "cluster": {
            "server": format!("https://{host}:{port}"), "certificate-authority": account.join("ca.crt"),
        }}],
        "users": [{"name": "pod", "user": {"tokenFile": account.join("token")}}],
        "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
        "current-context": "pod",
    });
    serde_json::from_value(pod).expect("the literal above is a kubeconfig")
}

/// Reads one kubeconfig file.
pub fn read(path: &Path) -> Result<Kubeconfig> {
    let name = path.display();
    confined::check_file(path).map_err(|why| anyhow!("{name} is not used: {why}"))?;
    match Kubeconfig::read_from(path) {
        Ok(kubeconfig) if kubeconfig.clusters.is_empty() && kubeconfig.contexts.is_empty() => {
            bail!("{name} is not a kubeconfig: it names no cluster and no context")
        }
        Ok(kubeconfig) => Ok(kubeconfig),
        Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("there is no kubeconfig at {name}: check the path given with --kubeconfig or KUBECONFIG")
        }
        Err(KubeconfigError::ReadConfig(error, _)) => bail!("could not read the kubeconfig {name}: {error}"),
        Err(KubeconfigError::Parse(error)) => {
            // The parser's own text shows a snippet over several lines, and a kubeconfig's lines are secrets.
            let place = error
                .location()
                .map(|at| format!(" at line {}, column {}", at.line(), at.column()));
            bail!(
                "{name} is not a kubeconfig: it could not be parsed as YAML{}",
                place.unwrap_or_default()
            )
        }
        Err(error) => Err(anyhow!(error).context(format!("{name} is not a usable kubeconfig"))),
    }
}

/// Why a request failed, as far as a user can act on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Nobody listens at the address.
    Refused,
    /// Nobody answered in time.
    TimedOut,
    /// The server's name has no address.
    UnknownHost,
    /// The server's certificate is signed by an authority that the kubeconfig does not name.
    UnknownAuthority,
    /// The server's certificate is not valid now: an old certificate, or a clock that is off.
    ServerCertificateTime(&'static str),
    /// The server's certificate is for another name.
    ServerCertificateName,
    /// The server refused our certificate during the handshake.
    ClientCertificate(String),
    /// 401.
    Unauthorized,
    /// 403, with the server's message.
    Forbidden(String),
    /// 404 for the kind itself, not for an object of it.
    NoSuchKind,
    /// Anything else the API server said, or the innermost error.
    Other(String),
}

impl Cause {
    /// Reads the cause out of the error and everything below it.
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                401 => Self::Unauthorized,
                403 => Self::Forbidden(status.message.clone()),
                404 if status.details.as_ref().is_none_or(|it| it.name.is_empty()) => Self::NoSuchKind,
                _ => Self::Other(status.message.clone()),
            },
            error => Self::of_transport(error),
        }
    }

    fn of_transport(error: &(dyn StdError + 'static)) -> Self {
        let mut innermost = error.to_string();
        let mut next = Some(error);
        while let Some(error) = next {
            innermost = error.to_string();
            if let Some(tls) = error.downcast_ref::<rustls::Error>() {
                return Self::of_tls(tls);
            }
            if let Some(io) = error.downcast_ref::<std::io::Error>() {
                match io.kind() {
                    std::io::ErrorKind::ConnectionRefused => return Self::Refused,
                    std::io::ErrorKind::TimedOut => return Self::TimedOut,
                    _ => {}
                }
                // An io::Error's `source` skips the error it wraps, which is where rustls puts its own.
                if let Some(inner) = io.get_ref() {
                    next = Some(inner);
                    continue;
                }
            }
            next = error.source();
        }
        // The resolver's error has no type of its own.
        if innermost.contains("failed to lookup address") || innermost.contains("Name or service not known") {
            return Self::UnknownHost;
        }
        if innermost.contains("timed out") || innermost.contains("deadline has elapsed") {
            return Self::TimedOut;
        }
        Self::Other(innermost)
    }

    fn of_tls(error: &rustls::Error) -> Self {
        use rustls::{AlertDescription as Alert, CertificateError as Fault};
        match error {
            rustls::Error::InvalidCertificate(fault) => match fault {
                Fault::UnknownIssuer | Fault::BadSignature => Self::UnknownAuthority,
                Fault::Expired | Fault::ExpiredContext { .. } => Self::ServerCertificateTime("has expired"),
                Fault::NotValidYet | Fault::NotValidYetContext { .. } => {
                    Self::ServerCertificateTime("is not valid yet")
                }
                Fault::NotValidForName | Fault::NotValidForNameContext { .. } => Self::ServerCertificateName,
                other => Self::Other(format!("its certificate was not accepted: {other}")),
            },
            rustls::Error::AlertReceived(alert) => match alert {
                Alert::CertificateExpired => Self::ClientCertificate("has expired".into()),
                Alert::UnknownCA | Alert::BadCertificate | Alert::CertificateUnknown | Alert::DecryptError => {
                    Self::ClientCertificate("is not signed by an authority the server knows".into())
                }
                other => Self::ClientCertificate(format!("was refused ({other:?})")),
            },
            other => Self::Other(other.to_string()),
        }
    }

    /// The cause and what to do about it, as the second half of a sentence.
    pub fn sentence(&self, server: &str, from: &str) -> String {
        match self {
            Self::Refused => format!(
                "nothing listens at {server}, the server that {from} names; start it, or choose another kubeconfig with --kubeconfig"
            ),
            Self::TimedOut => {
                format!("{server}, the server that {from} names, does not answer; check the address and the network")
            }
            Self::UnknownHost => {
                format!(
                    "the name in {server}, the server that {from} names, has no address; correct it, or check the DNS"
                )
            }
            Self::UnknownAuthority => format!(
                "the certificate of {server} is not signed by the authority that {from} trusts; \
                 was the server set up anew? Fetch a new kubeconfig from it"
            ),
            Self::ServerCertificateTime(fault) => format!(
                "the certificate of {server} {fault}; renew it, or correct the clock of this machine, which says {}",
                jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC")
            ),
            Self::ServerCertificateName => {
                format!("the certificate of {server} is for another name; use a name or address that it lists")
            }
            Self::ClientCertificate(fault) => {
                format!("the client certificate in {from} {fault}; fetch a new kubeconfig for {server}")
            }
            Self::Unauthorized => format!(
                "{server} does not accept the credentials in {from}: they have expired or were made for another server; \
                 fetch a new kubeconfig"
            ),
            Self::Forbidden(message) => format!("{message} (with the credentials in {from})"),
            Self::NoSuchKind => format!(
                "{server} does not serve this kind; is {from} a hub's kubeconfig? A hub is one that `drover up` or `drover hub` runs on"
            ),
            Self::Other(message) if message.is_empty() => format!("{server} gave no reason"),
            Self::Other(message) => message.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_pod_connects_to_its_api_server_with_its_token() {
        let pod = of_pod("fd00::1", "6443", Path::new(SERVICE_ACCOUNT));
        let server = pod.clusters[0].cluster.as_ref().and_then(|it| it.server.clone());
        assert_eq!(server.as_deref(), Some("https://[fd00::1]:6443"));
        let user = pod.auth_infos[0]
            .auth_info
            .as_ref()
            .and_then(|it| it.token_file.clone());
        assert_eq!(user, Some(format!("{SERVICE_ACCOUNT}/token")));
    }

    #[test]
    fn a_refused_connection_names_the_server_and_the_file() {
        let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let cause = Cause::of(&kube::Error::Service(Box::new(error)));
        assert_eq!(cause, Cause::Refused);
        let sentence = cause.sentence("https://127.0.0.1:1", "a.kubeconfig");
        assert!(
            sentence.contains("https://127.0.0.1:1") && sentence.contains("a.kubeconfig"),
            "{sentence}"
        );
    }

    #[test]
    fn a_tls_error_is_found_inside_an_io_error() {
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let error = kube::Error::Service(Box::new(std::io::Error::other(tls)));
        assert_eq!(Cause::of(&error), Cause::UnknownAuthority);
        let tls = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateExpired);
        let error = kube::Error::Service(Box::new(std::io::Error::other(tls)));
        assert_eq!(Cause::of(&error), Cause::ClientCertificate("has expired".into()));
    }

    #[test]
    fn a_missing_kind_differs_from_a_missing_object() {
        let missing = |name: &str| {
            let details = serde_json::json!({"name": name, "group": "g", "kind": "k"});
            let status =
                serde_json::json!({"code": 404, "message": "not found", "reason": "NotFound", "details": details});
            kube::Error::Api(Box::new(serde_json::from_value::<Status>(status).unwrap()))
        };
        assert_eq!(Cause::of(&missing("")), Cause::NoSuchKind);
        assert_eq!(Cause::of(&missing("cluster1")), Cause::Other("not found".into()));
    }

    #[test]
    fn a_kubeconfig_that_is_missing_or_malformed_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        assert!(
            read(&missing)
                .unwrap_err()
                .to_string()
                .starts_with("there is no kubeconfig at ")
        );
        let malformed = directory.path().join("malformed");
        std::fs::write(&malformed, "clusters: [\n token: secret").unwrap();
        let error = read(&malformed).unwrap_err().to_string();
        assert!(
            error.contains("malformed is not a kubeconfig: it could not be parsed as YAML"),
            "{error}"
        );
        assert!(!error.contains("secret"), "a kubeconfig's text is never shown: {error}");
        let empty = directory.path().join("empty");
        std::fs::write(&empty, "").unwrap();
        assert!(
            read(&empty)
                .unwrap_err()
                .to_string()
                .ends_with("it names no cluster and no context")
        );
    }
}
