//! The API servers that a program speaks to: by a kubeconfig that is read again when it changes,
//! or by the pod's ServiceAccount.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use client::{bootstrap, connect};
use credential::{Connection, KubeconfigSource, Loaded};
use kube::{Client, Config};
use process::pod;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often the files are looked at. A credential is renewed when a fifth of its life is left,
/// which is minutes at the least.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How often, while they are not there at all: whoever writes them may come later.
const LOOK_FIRST: Duration = Duration::from_millis(500);

/// Where a pod finds its credentials and its namespace.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// An API server that is spoken to.
#[derive(Clone)]
pub struct Reached {
    pub client: Client,
    /// Its address, byte for byte as the kubeconfig has it.
    pub server: String,
    /// The CA that is trusted there, PEM.
    pub ca: Option<Vec<u8>>,
    /// Cancelled when the kubeconfig has come to name another server.
    pub moved: CancellationToken,
}

/// Speaks to the API server of this kubeconfig, or of the pod where it is empty.
pub async fn reach(kubeconfig: &str, stop: &CancellationToken) -> Result<Reached> {
    if kubeconfig.is_empty() {
        return match pod::lookup(ACCOUNT) {
            Some(account) => in_pod(&account).await,
            None => in_cluster(),
        };
    }
    let path = PathBuf::from(kubeconfig);
    let (loaded, connection) = load(&path).await?;
    Ok(follow(path, loaded, connection, stop))
}

/// The same for a kubeconfig that may not be there yet. `None` when told to stop.
pub async fn reach_when_there(kubeconfig: &Path, stop: &CancellationToken) -> Option<Reached> {
    let mut said = String::new();
    loop {
        match load(kubeconfig).await {
            Ok((loaded, connection)) => return Some(follow(kubeconfig.to_owned(), loaded, connection, stop)),
            Err(error) => {
                let error = format!("{error:#}");
                if said != error {
                    info!(%error, "waits for the kubeconfig");
                    said = error;
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(LOOK_FIRST) => {}
        }
    }
}

/// In a pod whose files are not where they would be in a container.
async fn in_pod(account: &Path) -> Result<Reached> {
    let variable = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
    let (host, port) = (
        variable("KUBERNETES_SERVICE_HOST")?,
        variable("KUBERNETES_SERVICE_PORT")?,
    );
    let kubeconfig = connect::of_pod(&host, &port, account);
    let loaded = credential::kubeconfig::load("of the pod's ServiceAccount", kubeconfig).await?;
    let connection = Connection::new(&loaded.config)?;
    Ok(Reached {
        client: connection.client(),
        server: loaded.server,
        ca: pem(&loaded.config),
        moved: CancellationToken::new(),
    })
}

fn in_cluster() -> Result<Reached> {
    let config = Config::incluster().context(
        "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined; \
         outside of a pod pass --kubeconfig FILE",
    )?;
    let connection = Connection::new(&config)?;
    Ok(Reached {
        client: connection.client(),
        server: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
        ca: pem(&config),
        moved: CancellationToken::new(),
    })
}

fn follow(path: PathBuf, loaded: Loaded, connection: Connection, stop: &CancellationToken) -> Reached {
    let reached = Reached {
        client: connection.client(),
        server: loaded.server.clone(),
        ca: pem(&loaded.config),
        moved: stop.child_token(),
    };
    tokio::spawn(keep_up(path, loaded, connection, reached.moved.clone()));
    reached
}

async fn load(path: &Path) -> Result<(Loaded, Connection)> {
    let loaded = KubeconfigSource::Path(path.to_owned()).read().await?;
    let connection = Connection::new(&loaded.config).with_context(|| path.display().to_string())?;
    Ok((loaded, connection))
}

/// Takes up what changes, until the server is another or the process stops.
async fn keep_up(path: PathBuf, loaded: Loaded, connection: Connection, moved: CancellationToken) {
    let server = loaded.server.clone();
    let mut files = contents(&loaded);
    loop {
        tokio::select! {
            () = moved.cancelled() => return,
            () = tokio::time::sleep(LOOK_AGAIN) => {}
        }
        // What is half written is looked at again; until then the credential in use is as good as before.
        let Ok(now) = KubeconfigSource::Path(path.clone()).read().await else {
            continue;
        };
        if now.server != server {
            info!(from = %server, to = %now.server, "the kubeconfig names another server");
            moved.cancel();
            return;
        }
        let present = contents(&now);
        if present == files {
            continue;
        }
        match connection.reload(&now.config) {
            Ok(()) => {
                files = present;
                info!(path = %path.display(), "the connection uses the renewed credential");
            }
            Err(error) => warn!(path = %path.display(), %error, "the renewed credential cannot be used"),
        }
    }
}

/// The kubeconfig and what is in the files it names. A token file is left out: the client reads
/// that itself as it is needed.
fn contents(loaded: &Loaded) -> Vec<Vec<u8>> {
    let clusters = loaded.kubeconfig.clusters.iter().filter_map(|it| it.cluster.as_ref());
    let users = loaded
        .kubeconfig
        .auth_infos
        .iter()
        .filter_map(|it| it.auth_info.as_ref());
    let named = clusters
        .filter_map(|it| it.certificate_authority.as_ref())
        .chain(users.flat_map(|it| it.client_certificate.iter().chain(&it.client_key)));
    let files = named.map(|it| std::fs::read(it).unwrap_or_default());
    std::iter::once(loaded.text.clone().into_bytes()).chain(files).collect()
}

fn pem(config: &Config) -> Option<Vec<u8>> {
    let chain = config.root_cert.as_ref()?;
    let text: String = chain.iter().map(|der| bootstrap::pem(der)).collect();
    Some(text.into_bytes())
}

/// The namespace of the pod that this process is, if it is one.
pub fn pod_namespace() -> Option<String> {
    let text = std::fs::read_to_string(pod::path(ACCOUNT).join("namespace")).ok()?;
    Some(text.trim().to_owned()).filter(|it| !it.is_empty())
}

/// A file in a directory that other processes write to, as a trimmed text; nothing when it is not there.
pub fn word_in(directory: &str, file: &str) -> Option<String> {
    let text = std::fs::read_to_string(Path::new(directory).join(file)).ok()?;
    Some(text.trim().to_owned()).filter(|it| !it.is_empty())
}

/// A namespace that can hold objects.
pub fn check_namespace(name: &str) -> Result<()> {
    client::cluster_name::check(name).map_err(|error| anyhow!("--namespace {name}: {error}"))
}
