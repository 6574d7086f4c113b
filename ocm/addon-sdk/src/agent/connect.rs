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
use k8s_openapi::ByteString;
use kube::{
    Client, Config,
    client::Body,
    config::{self, KubeConfigOptions, Kubeconfig},
};
use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};
use tracing::{info, warn};

use super::proxy;

/// How often the files are looked at. A credential is renewed when a fifth of its life is left,
/// which is minutes at the least.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How often, while the kubeconfig is not there at all: the agent may be started before the Secret is written.
const LOOK_FIRST: Duration = Duration::from_millis(200);

/// Which kubeconfigs are used.
#[derive(Clone, Debug)]
pub(crate) enum Trust {
    /// Any: whoever names one may do all that this process may.
    Any,
    /// Those in this directory that name no file outside of it and no program.
    Inside(PathBuf),
}

impl Trust {
    fn read(&self, path: &Path) -> Result<Kubeconfig> {
        let unreadable = || format!("kubeconfig {} cannot be read", path.display());
        let Self::Inside(dir) = self else {
            return Kubeconfig::read_from(path).with_context(unreadable);
        };
        check_inside(dir, path)?;
        let kubeconfig = Kubeconfig::read_from(path).with_context(unreadable)?;
        for user in kubeconfig.auth_infos.iter().filter_map(|it| it.auth_info.as_ref()) {
            if user.exec.is_some() || user.auth_provider.is_some() {
                bail!(
                    "kubeconfig {} names a program to run, which is not done here",
                    path.display()
                );
            }
            for file in user
                .token_file
                .iter()
                .chain(&user.client_certificate)
                .chain(&user.client_key)
            {
                check_inside(dir, Path::new(file))?;
            }
        }
        for cluster in kubeconfig.clusters.iter().filter_map(|it| it.cluster.as_ref()) {
            if let Some(file) = &cluster.certificate_authority {
                check_inside(dir, Path::new(file))?;
            }
        }
        Ok(kubeconfig)
    }
}

/// Links are followed: what counts is where the file is.
fn check_inside(dir: &Path, file: &Path) -> Result<()> {
    let whole = |path: &Path| std::fs::canonicalize(path).with_context(|| format!("{} cannot be read", path.display()));
    if !whole(file)?.starts_with(whole(dir)?) {
        bail!("{} is not one of the files in {}", file.display(), dir.display());
    }
    Ok(())
}

/// A client for the cluster the agent runs on: by this kubeconfig, by that of `$KUBECONFIG`, or by its ServiceAccount.
pub(crate) async fn home(kubeconfig: Option<&Path>, trust: &Trust) -> Result<Client> {
    let named = std::env::var_os("KUBECONFIG")
        .filter(|it| !it.is_empty())
        .map(PathBuf::from);
    let Some(path) = kubeconfig.map(Path::to_path_buf).or(named) else {
        // The account that a process of this host finds would be the host's.
        if matches!(trust, Trust::Inside(_)) {
            bail!("there is no $KUBECONFIG");
        }
        let config = Config::incluster().context("there is no $KUBECONFIG, and no ServiceAccount of a pod either")?;
        return proxy::straight(&config).context("the ServiceAccount of the pod cannot be used");
    };
    client(trust.read(&path)?)
        .await
        .context("the kubeconfig of the cluster cannot be used")
}

/// The configuration of [`home`], without its proxy.
pub(crate) async fn config(kubeconfig: Option<&Path>, trust: &Trust) -> Result<Config> {
    let named = std::env::var_os("KUBECONFIG")
        .filter(|it| !it.is_empty())
        .map(PathBuf::from);
    match kubeconfig.map(Path::to_path_buf).or(named) {
        Some(path) => Config::from_custom_kubeconfig(trust.read(&path)?, &KubeConfigOptions::default())
            .await
            .context("the kubeconfig of the cluster cannot be used"),
        None if matches!(trust, Trust::Inside(_)) => bail!("there is no $KUBECONFIG"),
        None => Config::incluster().context("there is no $KUBECONFIG, and no ServiceAccount of a pod either"),
    }
}

/// The certificates that the server of [`home`] is trusted by, as PEM.
pub(crate) fn ca(kubeconfig: Option<&Path>, trust: &Trust) -> Result<Vec<u8>> {
    const IN_CLUSTER: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
    let named = std::env::var_os("KUBECONFIG")
        .filter(|it| !it.is_empty())
        .map(PathBuf::from);
    let Some(path) = kubeconfig.map(Path::to_path_buf).or(named) else {
        if matches!(trust, Trust::Inside(_)) {
            bail!("there is no $KUBECONFIG");
        }
        return std::fs::read(IN_CLUSTER).with_context(|| format!("{IN_CLUSTER} cannot be read"));
    };
    let kubeconfig = trust.read(&path)?;
    let Some(cluster) = current_cluster(&kubeconfig) else {
        return Ok(Vec::new());
    };
    match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        (Some(data), _) => serde_json::from_value::<ByteString>(data.as_str().into())
            .map(|it| it.0)
            .context("certificate-authority-data of the kubeconfig is not base64"),
        (None, Some(file)) => std::fs::read(file).with_context(|| format!("{file} cannot be read")),
        (None, None) => Ok(Vec::new()),
    }
}

async fn client(kubeconfig: Kubeconfig) -> Result<Client> {
    let proxy = proxy_url(&kubeconfig);
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    proxy::client(config?, proxy.as_deref())
}

/// The proxy that a kubeconfig names for the server of its current context.
fn proxy_url(kubeconfig: &Kubeconfig) -> Option<String> {
    current_cluster(kubeconfig)?.proxy_url.clone()
}

fn current_cluster(kubeconfig: &Kubeconfig) -> Option<&config::Cluster> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig
        .contexts
        .iter()
        .find(|it| it.name == *current)?
        .context
        .as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|it| it.name == context.cluster)?;
    cluster.cluster.as_ref()
}

/// A client for the hub that follows the kubeconfig and the files it names. Waits until there is one.
pub async fn hub_client(path: &Path, stop: &CancellationToken) -> Result<Client> {
    hub_client_trusting(path, &Trust::Any, stop).await
}

pub(crate) async fn hub_client_trusting(path: &Path, trust: &Trust, stop: &CancellationToken) -> Result<Client> {
    let mut told = false;
    let (mut files, client) = loop {
        let failure = match read(path, trust) {
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
    let (current, path, trust, stop) = (follow.current.clone(), path.to_path_buf(), trust.clone(), stop.clone());
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
            // Half written files are looked at again; until then the credential in use is as good as before.
            let Ok((now, kubeconfig)) = read(&path, &trust) else {
                continue;
            };
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

// What is in the kubeconfig and in the files it names. A token file is left out:
// the client reads that itself as it is needed.
fn read(path: &Path, trust: &Trust) -> Result<(Vec<Vec<u8>>, Kubeconfig)> {
    let bytes = |path: &Path| std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()));
    let kubeconfig = trust.read(path)?;
    let mut files = vec![bytes(path)?];
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
    fn a_renewed_certificate_is_noticed_with_an_unchanged_kubeconfig() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, KUBECONFIG).unwrap();
        let read = |path: &Path| read(path, &Trust::Any);
        assert!(read(&path).is_err(), "without its certificate it cannot be used");
        std::fs::write(folder.path().join("tls.crt"), "one").unwrap();
        std::fs::write(folder.path().join("tls.key"), "key").unwrap();
        let (before, _) = read(&path).unwrap();
        assert_eq!(read(&path).unwrap().0, before);
        std::fs::write(folder.path().join("tls.crt"), "two").unwrap();
        assert_ne!(read(&path).unwrap().0, before);
    }

    #[test]
    fn a_confined_program_refuses_kubeconfigs_that_leave_its_directory() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("pod");
        std::fs::create_dir(&dir).unwrap();
        let inside = Trust::Inside(dir.clone());
        let read = |text: &str| {
            std::fs::write(dir.join("kubeconfig"), text).unwrap();
            inside
                .read(&dir.join("kubeconfig"))
                .map(drop)
                .map_err(|it| it.to_string())
        };
        let user = |user: &str| KUBECONFIG.replace("{client-certificate: tls.crt, client-key: tls.key}", user);
        for file in [dir.join("tls.crt"), dir.join("tls.key"), folder.path().join("token")] {
            std::fs::write(file, "x").unwrap();
        }
        assert_eq!(read(KUBECONFIG), Ok(()));
        assert_eq!(read(&user("{token: x}")), Ok(()));
        let program = read(&user(
            "{exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh}}",
        ));
        assert!(program.unwrap_err().contains("names a program to run"));
        let provider = read(&user("{auth-provider: {name: gcp, config: {cmd-path: /bin/sh}}}"));
        assert!(provider.unwrap_err().contains("names a program to run"));
        for field in ["tokenFile", "client-certificate", "client-key"] {
            let outside = read(&user(&format!("{{{field}: ../token}}")));
            assert!(outside.unwrap_err().contains("is not one of the files in"), "{field}");
        }
        let authority = KUBECONFIG.replace("1'}", "1', certificate-authority: ../token}");
        assert!(read(&authority).unwrap_err().contains("is not one of the files in"));
        std::os::unix::fs::symlink("../token", dir.join("link")).unwrap();
        assert!(
            read(&user("{tokenFile: link}"))
                .unwrap_err()
                .contains("is not one of the files in")
        );
        std::fs::write(folder.path().join("kubeconfig"), KUBECONFIG).unwrap();
        assert!(inside.read(&folder.path().join("kubeconfig")).is_err());
        assert!(Trust::Any.read(&folder.path().join("kubeconfig")).is_ok());
    }
}
