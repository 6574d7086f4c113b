//! What a program of an add-on needs besides what it does, where [`AddOnProgram`](crate::AddOnProgram) does not fit
//! because the program has sub-commands and flags of its own: a runtime that ends at a signal, clients that honour
//! where the program runs, addresses to listen on, pages for probes, and leader election.
//!
//! ```no_run
//! use ocm_addon_sdk::program::{self, Place};
//!
//! fn main() -> std::process::ExitCode {
//!     program::run(async |stop| {
//!         let client = Place::default().client(None).await?;
//!         println!("{}", client.default_namespace());
//!         stop.cancelled().await;
//!         Ok(())
//!     })
//! }
//! ```

mod election;
mod logging;
mod pages;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use kube::Client;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

pub use election::{LeaderElection, lead, lead_if};
pub use logging::LoggingFlags;
pub use pages::{Check, PageAddresses, Pages};

use crate::agent::{connect, program::stop_on_signals, proxy};

/// Where Kubernetes tells a container its namespace.
pub const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Where a program runs, which says what it may read.
#[derive(Clone, Debug, Default)]
pub struct Place {
    pod: Option<PathBuf>,
    opened: Vec<PathBuf>,
}

impl Place {
    /// In a pod of an embedded node that runs this program with arguments and variables that a stranger has chosen: it
    /// uses no kubeconfig that lies outside of `dir` or names a file outside of it, and never the account of the host.
    pub fn pod(dir: impl Into<PathBuf>) -> Self {
        Self {
            pod: Some(dir.into()),
            opened: Vec::new(),
        }
    }

    /// The same place, with folders of the host that whoever runs the node has opened to the program. A stranger who
    /// chooses arguments opens none.
    pub fn opening(self, folders: Vec<PathBuf>) -> Self {
        Self {
            opened: folders,
            ..self
        }
    }

    /// The folders of the host that are open to the program although it runs in a pod.
    pub fn opened_folders(&self) -> &[PathBuf] {
        &self.opened
    }

    fn trust(&self) -> connect::Trust {
        match &self.pod {
            Some(dir) => connect::Trust::Inside(dir.clone()),
            None => connect::Trust::Any,
        }
    }

    /// A client by this kubeconfig, by that of `$KUBECONFIG`, or by the ServiceAccount of the pod.
    ///
    /// # Errors
    /// When there is none, or it cannot be used.
    pub async fn client(&self, kubeconfig: Option<&Path>) -> Result<Client> {
        connect::home(kubeconfig, &self.trust()).await
    }

    /// Where the API server of [`client`](Self::client) is, whom it trusts and as whom it is spoken to.
    ///
    /// # Errors
    /// As [`client`](Self::client).
    pub async fn config(&self, kubeconfig: Option<&Path>) -> Result<kube::Config> {
        connect::config(kubeconfig, &self.trust()).await
    }

    /// The certificates that the API server of [`client`](Self::client) is trusted by, as PEM; empty where it is
    /// trusted by those of the system.
    ///
    /// # Errors
    /// When the kubeconfig, or a file that it names, cannot be read.
    pub fn ca(&self, kubeconfig: Option<&Path>) -> Result<Vec<u8>> {
        connect::ca(kubeconfig, &self.trust())
    }

    /// Where a file of the container is. On an embedded node the paths of a container are elsewhere, and
    /// `$POD_PATHS` says where each mount is.
    pub fn file(&self, path: impl Into<PathBuf>) -> PathBuf {
        let path = path.into();
        match std::env::var("POD_PATHS") {
            Ok(table) => on_host(&table, &path).unwrap_or(path),
            Err(_) => path,
        }
    }

    /// The namespace of the pod; `None` when it runs in none.
    pub fn namespace(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.file(POD_NAMESPACE)).ok()?;
        Some(text.trim().to_owned()).filter(|it| !it.is_empty())
    }

    /// A client for the hub that follows the kubeconfig and the files it names. Waits until there is one.
    ///
    /// # Errors
    /// When it cannot be used, and when `stop` comes first.
    pub async fn hub_client(&self, kubeconfig: &Path, stop: &CancellationToken) -> Result<Client> {
        connect::hub_client_trusting(kubeconfig, &self.trust(), stop).await
    }
}

/// Runs `work` on a runtime of one thread until it ends; its token is cancelled by SIGTERM and SIGINT. What is logged
/// goes to stderr, `$RUST_LOG` says how much.
pub fn run<F>(work: impl FnOnce(CancellationToken) -> F) -> ExitCode
where
    F: Future<Output = Result<()>>,
{
    // One thread: such programs wait nearly all of their time, and each thread more would cost memory.
    on(tokio::runtime::Builder::new_current_thread(), work)
}

/// [`run`] with a thread for each core: for a program through which much data goes.
pub fn run_threaded<F>(work: impl FnOnce(CancellationToken) -> F) -> ExitCode
where
    F: Future<Output = Result<()>>,
{
    on(tokio::runtime::Builder::new_multi_thread(), work)
}

fn on<F>(mut runtime: tokio::runtime::Builder, work: impl FnOnce(CancellationToken) -> F) -> ExitCode
where
    F: Future<Output = Result<()>>,
{
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // Somebody who embeds the program may have chosen a way of logging already.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .try_init();
    let done = runtime.enable_all().build().context("no runtime").and_then(|runtime| {
        runtime.block_on(async {
            let stop = CancellationToken::new();
            stop_on_signals(stop.clone())?;
            work(stop).await
        })
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What clap made of a command line, or the exit code after it has told the user what is wrong.
///
/// # Errors
/// The exit code: 0 after help, else 2.
pub fn parsed<T>(result: Result<T, clap::Error>) -> Result<T, ExitCode> {
    result.map_err(|error| {
        // There is nobody to tell when even this cannot be written.
        let _ = error.print();
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
}

/// Arguments as Go's `flag` package reads them: a flag may have one dash or two, and what follows a lone `--` is left
/// as it is.
pub fn with_two_dashes(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut flags = true;
    let two = |it: OsString| match it.to_str() {
        Some("--") => {
            flags = false;
            it
        }
        Some(text) if flags && text.len() > 2 && text.starts_with('-') && !text.starts_with("--") => {
            format!("-{text}").into()
        }
        _ => it,
    };
    arguments.into_iter().map(two).collect()
}

/// Reads `HOST:PORT` as an address to listen on. An empty host is every address. That one, and the name localhost, are
/// on an embedded node the pod's own: such nodes have no network for each pod, and say its address in `$POD_ADDRESS`.
///
/// # Errors
/// When it is none.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let whole = if text.starts_with(':') {
        format!("0.0.0.0{text}")
    } else {
        text.replacen("localhost:", "127.0.0.1:", 1)
    };
    let mut address: SocketAddr = whole
        .parse()
        .map_err(|_| format!("{text:?} is no address to listen on; write HOST:PORT"))?;
    // Whoever writes a number means that number.
    if text.starts_with("localhost:") {
        address.set_ip(pod_address().unwrap_or(address.ip()));
    } else {
        address.set_ip(of_pod(address.ip(), std::env::var("POD_ADDRESS").ok().as_deref()));
    }
    Ok(address)
}

/// Opens a connection to a server, through the proxy that `$HTTPS_PROXY` and `$NO_PROXY` say, as Go's programs do.
/// `tls` is for a proxy that itself is spoken to by TLS.
///
/// # Errors
/// When the server or the proxy cannot be reached.
pub async fn dial(host: &str, port: u16, tls: &rustls::ClientConfig) -> Result<Box<dyn Io>> {
    proxy::dial(host, port, tls).await
}

/// Anything that bytes go through.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// The address of the pod on an embedded node, where pods have no network of their own.
pub fn pod_address() -> Option<IpAddr> {
    std::env::var("POD_ADDRESS").ok()?.parse().ok()
}

/// The path behind the longest mount that it lies in; `/` stands for all that is no mount.
fn on_host(table: &str, path: &Path) -> Option<PathBuf> {
    let mounts: BTreeMap<PathBuf, PathBuf> = serde_json::from_str(table).ok()?;
    // In arguments the node has put the one in the place of the other already.
    if mounts.values().any(|host| path.starts_with(host)) {
        return None;
    }
    let inside = mounts.iter().filter_map(|(mount, host)| {
        let rest = path.strip_prefix(mount).ok()?;
        Some((mount.components().count(), host.join(rest)))
    });
    inside.max_by_key(|(depth, _)| *depth).map(|(_, it)| it)
}

fn of_pod(ip: IpAddr, own: Option<&str>) -> IpAddr {
    let own = own.and_then(|it| it.parse().ok());
    own.filter(|_| ip.is_unspecified()).unwrap_or(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_the_address_of_the_pod() {
        let any: IpAddr = "0.0.0.0".parse().unwrap();
        let own: IpAddr = "127.1.2.3".parse().unwrap();
        assert_eq!(of_pod(any, Some("127.1.2.3")), own);
        assert_eq!(of_pod(any, None), any);
        assert_eq!(of_pod(own, Some("127.9.9.9")), own);
        assert_eq!(address("localhost:80").unwrap(), "127.0.0.1:80".parse().unwrap());
        assert!(address("80").unwrap_err().contains("HOST:PORT"));
    }

    #[test]
    fn a_path_of_a_container_is_found_on_its_node() {
        let table = r#"{"/": "/pod/root", "/etc/tls": "/pod/volumes/a", "/etc/tls/more": "/pod/volumes/b"}"#;
        let of = |path: &str| on_host(table, Path::new(path)).unwrap();
        assert_eq!(of("/etc/tls/tls.crt"), Path::new("/pod/volumes/a/tls.crt"));
        assert_eq!(of("/etc/tls/more/x"), Path::new("/pod/volumes/b/x"));
        assert_eq!(of("/etc/x"), Path::new("/pod/root/etc/x"));
        assert_eq!(on_host(table, Path::new("/pod/volumes/a/tls.crt")), None);
        assert_eq!(on_host("x", Path::new("/a")), None);
    }

    #[test]
    fn flags_of_go_have_one_dash_or_two() {
        let words = ["-a=b", "--c", "-v", "d", "--", "-e=f"].map(OsString::from);
        assert_eq!(with_two_dashes(words), ["--a=b", "--c", "-v", "d", "--", "-e=f"]);
    }
}
