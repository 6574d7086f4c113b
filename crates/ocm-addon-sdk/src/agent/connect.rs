//! Clients of an agent: for the cluster it runs on, and for a hub whose kubeconfig is renewed beside it while it runs.

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use http::{Request, Response};
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};
use tracing::{info, warn};

use super::proxy;

/// How often the files are looked at. A credential is renewed when a fifth of its life is left, which is minutes at the least.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How often, while the kubeconfig is not there at all: the agent may be started before the Secret is written.
const LOOK_FIRST: Duration = Duration::from_millis(200);

/// A client for the cluster the agent runs on: by this kubeconfig, by that of `$KUBECONFIG`, or by its ServiceAccount.
pub(super) async fn home(kubeconfig: Option<&Path>) -> Result<Client> {
    let named = std::env::var_os("KUBECONFIG")
        .filter(|it| !it.is_empty())
        .map(PathBuf::from);
    let Some(path) = kubeconfig.map(Path::to_path_buf).or(named) else {
        let config = Config::incluster().context("there is no $KUBECONFIG, and no ServiceAccount of a pod either")?;
        return Client::try_from(config).context("the ServiceAccount of the pod cannot be used");
    };
    let kubeconfig = Kubeconfig::read_from(&path);
    let kubeconfig = kubeconfig.with_context(|| format!("kubeconfig {} cannot be read", path.display()))?;
    client(kubeconfig)
        .await
        .context("the kubeconfig of the cluster cannot be used")
}

async fn client(kubeconfig: Kubeconfig) -> Result<Client> {
    let proxy = proxy_url(&kubeconfig);
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    proxy::client(config?, proxy.as_deref())
}

/// The proxy that a kubeconfig names for the server of its current context.
fn proxy_url(kubeconfig: &Kubeconfig) -> Option<String> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig
        .contexts
        .iter()
        .find(|it| it.name == *current)?
        .context
        .as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|it| it.name == context.cluster)?;
    cluster.cluster.as_ref()?.proxy_url.clone()
}

/// A client for the hub that follows the kubeconfig and the files it names. Waits until there is one.
pub async fn hub_client(path: &Path, stop: &CancellationToken) -> Result<Client> {
    let mut told = false;
    let (mut files, client) = loop {
        let failure = match read(path) {
            Ok((files, kubeconfig)) => match connect(kubeconfig).await {
                Ok(client) => break (files, client),
                Err(error) => error,
            },
            Err(error) => error,
        };
        if !told {
            info!(path = %path.display(), error = format!("{failure:#}"), "waits for the hub's kubeconfig");
            told = true;
        }
        tokio::select! {
            () = stop.cancelled() => bail!("told to stop before there was a kubeconfig for the hub"),
            () = tokio::time::sleep(LOOK_FIRST) => {}
        }
    };
    let namespace = client.default_namespace().to_owned();
    let follow = Follow {
        current: Arc::new(RwLock::new(client)),
    };
    let (current, path, stop) = (follow.current.clone(), path.to_path_buf(), stop.clone());
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
            // Half written files are looked at again; until then the credential in use is as good as before.
            let Ok((now, kubeconfig)) = read(&path) else { continue };
            if now == files {
                continue;
            }
            match connect(kubeconfig).await {
                Ok(client) => {
                    *current.write() = client;
                    files = now;
                    info!("the connection to the hub uses the renewed credential");
                }
                Err(error) => warn!(error = format!("{error:#}"), "the renewed credential cannot be used"),
            }
        }
    });
    Ok(Client::new(follow, namespace))
}

async fn connect(kubeconfig: Kubeconfig) -> Result<Client> {
    client(kubeconfig)
        .await
        .context("the kubeconfig of the hub cannot be used")
}

// What is in the kubeconfig and in the files it names. A token file is left out: the client reads that itself as it is needed.
fn read(path: &Path) -> Result<(Vec<Vec<u8>>, Kubeconfig)> {
    let bytes = |path: &Path| std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()));
    let mut files = vec![bytes(path)?];
    let kubeconfig = Kubeconfig::read_from(path)?;
    let clusters = kubeconfig.clusters.iter().filter_map(|it| it.cluster.as_ref());
    let users = kubeconfig.auth_infos.iter().filter_map(|it| it.auth_info.as_ref());
    let named = clusters
        .filter_map(|it| it.certificate_authority.as_ref())
        .chain(users.flat_map(|it| it.client_certificate.iter().chain(&it.client_key)));
    for file in named {
        files.push(bytes(Path::new(file))?);
    }
    Ok((files, kubeconfig))
}

/// What the client holds: it asks for the present one with each request.
struct Follow {
    current: Arc<RwLock<Client>>,
}

impl Service<Request<Body>> for Follow {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.current.read().clone();
        Box::pin(async move { Ok(client.send(request).await?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters: [{name: hub, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: c, context: {cluster: hub, user: u}}]
current-context: c
users: [{name: u, user: {client-certificate: tls.crt, client-key: tls.key}}]
";

    #[test]
    fn the_proxy_is_that_of_the_current_context() {
        let text = KUBECONFIG.replace(
            "{server: 'https://127.0.0.1:1'}",
            "{server: 'https://hub:1', proxy-url: 'http://proxy:1'}",
        );
        let read = |text: &str| Kubeconfig::from_yaml(text).unwrap();
        assert_eq!(proxy_url(&read(&text)).as_deref(), Some("http://proxy:1"));
        assert_eq!(proxy_url(&read(KUBECONFIG)), None);
    }

    #[test]
    fn a_renewed_certificate_is_seen_though_the_kubeconfig_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, KUBECONFIG).unwrap();
        assert!(read(&path).is_err(), "without its certificate it cannot be used");
        std::fs::write(folder.path().join("tls.crt"), "one").unwrap();
        std::fs::write(folder.path().join("tls.key"), "key").unwrap();
        let (before, _) = read(&path).unwrap();
        assert_eq!(read(&path).unwrap().0, before);
        std::fs::write(folder.path().join("tls.crt"), "two").unwrap();
        assert_ne!(read(&path).unwrap().0, before);
    }
}
