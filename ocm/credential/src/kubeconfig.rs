//! Reading a kubeconfig, and saying in one sentence what is wrong and what to do about it.

use std::{error::Error as _, path::PathBuf, time::Duration};

use jiff::Timestamp;
use kube::{
    Config,
    config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use rustls::CertificateError;
use tokio::sync::watch;

use crate::{certificate::Chain, confined};

/// How often a kubeconfig file is compared with what was read of it.
const FILE_AGAIN: Duration = Duration::from_secs(5);

/// Where a kubeconfig comes from.
#[derive(Clone, Debug)]
pub enum KubeconfigSource {
    /// A file; it is read anew each time.
    Path(PathBuf),
    /// The text itself.
    Inline(String),
    /// What somebody else reads, such as a Secret, who says so when it becomes another.
    Followed {
        /// How to name it in a sentence.
        name: String,
        /// The text as it is now.
        text: watch::Receiver<String>,
    },
}

/// A kubeconfig that can be used.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// How to name it in a sentence.
    pub path: String,
    /// What was read, to notice a change; empty when it was not read from a source.
    pub text: String,
    /// What to connect with.
    pub config: Config,
    /// The file as it was, with paths made absolute.
    pub kubeconfig: Kubeconfig,
    /// The name the current context gives to the cluster.
    pub cluster_name: String,
    /// The server as written.
    pub server: String,
}

/// What is wrong: one sentence that names the thing and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigProblem {
    /// No such file.
    #[error("kubeconfig {0} does not exist: check the path, or write the file first")]
    Missing(String),
    /// The file cannot be read.
    #[error("kubeconfig {path} cannot be read ({why}): check its permissions")]
    Unreadable {
        /// Which one.
        path: String,
        /// Why not.
        why: String,
    },
    /// It is no kubeconfig.
    #[error(
        "kubeconfig {path} is malformed ({why}): it must be a YAML document of kind Config with clusters, users and contexts"
    )]
    Malformed {
        /// Which one.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The current context leads nowhere.
    #[error("kubeconfig {path} has no usable current context ({why}): set current-context to one of its contexts")]
    NoContext {
        /// Which one.
        path: String,
        /// What is missing.
        why: String,
    },
    /// A file that it names is missing or bad.
    #[error("kubeconfig {path} names material that cannot be loaded ({why}): embed it as data or correct the path")]
    BadMaterial {
        /// Which one.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// This process may not use it.
    #[error("kubeconfig {path} is not used ({why}): embed credentials as data")]
    NotAllowed {
        /// Which one.
        path: String,
        /// Why not.
        why: String,
    },
    /// Its client certificate is over.
    #[error("the client certificate in kubeconfig {path} expired at {at}: get a new kubeconfig from the hub")]
    Expired {
        /// Which one.
        path: String,
        /// When.
        at: Timestamp,
    },
    /// Its client certificate is not valid yet.
    #[error("the client certificate in kubeconfig {path} is valid only from {at}: set this machine's clock")]
    NotYetValid {
        /// Which one.
        path: String,
        /// When it will be.
        at: Timestamp,
    },
    /// Nobody answers there.
    #[error(
        "{server} does not answer ({why}): check that the server runs and that the address in the kubeconfig is right"
    )]
    PointsNowhere {
        /// Where.
        server: String,
        /// What the network said.
        why: String,
    },
    /// The server's certificate was signed by somebody else.
    #[error(
        "the certificate of {server} was signed by an unknown authority: put the server's CA into certificate-authority-data of the kubeconfig"
    )]
    UnknownAuthority {
        /// Where.
        server: String,
    },
    /// The server's certificate is for another name.
    #[error(
        "the certificate of {server} is for another name: use an address that the certificate lists, or set tls-server-name"
    )]
    WrongServerName {
        /// Where.
        server: String,
    },
    /// The server's certificate is over, or our clock is ahead.
    #[error("the certificate of {server} has expired: renew it, or set this machine's clock if {server} is right")]
    ServerExpired {
        /// Where.
        server: String,
    },
    /// The server's certificate is not valid yet: our clock is behind.
    #[error("the certificate of {server} is not valid yet: set this machine's clock, it is behind")]
    ClockBehind {
        /// Where.
        server: String,
    },
    /// TLS failed for another reason.
    #[error("no TLS connection to {server} ({why}): check that the address is that of a Kubernetes API server")]
    Tls {
        /// Where.
        server: String,
        /// Why.
        why: String,
    },
    /// 401.
    #[error("{server} does not accept the credential of the kubeconfig: get a new kubeconfig from the hub")]
    Unauthorized {
        /// Where.
        server: String,
    },
    /// 403.
    #[error("{server} forbids it ({why}): ask the hub's administrator for the right")]
    Forbidden {
        /// Where.
        server: String,
        /// What.
        why: String,
    },
    /// Any other answer.
    #[error("{server} answered: {why}")]
    Other {
        /// Where.
        server: String,
        /// What it said.
        why: String,
    },
}

impl KubeconfigSource {
    /// How to name it in a sentence.
    pub fn name(&self) -> String {
        match self {
            KubeconfigSource::Path(path) => path.display().to_string(),
            KubeconfigSource::Inline(_) => "(given inline)".to_owned(),
            KubeconfigSource::Followed { name, .. } => name.clone(),
        }
    }

    /// Reads and checks it.
    pub async fn load(&self, now: Timestamp) -> Result<Loaded, KubeconfigProblem> {
        let loaded = self.read().await?;
        loaded.check(now)?;
        Ok(loaded)
    }

    /// Ends when it is another one than was read before. What cannot be read is no change: it may be half written.
    pub async fn changed(&self, before: &Loaded) {
        let is_another = async || self.read().await.is_ok_and(|now| now.text != before.text);
        match self {
            KubeconfigSource::Inline(_) => std::future::pending().await,
            KubeconfigSource::Path(_) => loop {
                tokio::time::sleep(FILE_AGAIN).await;
                if is_another().await {
                    return;
                }
            },
            KubeconfigSource::Followed { text, .. } => {
                let mut text = text.clone();
                text.mark_changed();
                while text.changed().await.is_ok() {
                    if is_another().await {
                        return;
                    }
                }
                // Nobody follows it any more.
                std::future::pending().await
            }
        }
    }

    /// Reads it, whether or not its certificate is still valid.
    pub async fn read(&self) -> Result<Loaded, KubeconfigProblem> {
        let path = self.name();
        let (text, kubeconfig) = match self {
            KubeconfigSource::Path(file) => {
                confined::check_file(file).map_err(|why| KubeconfigProblem::NotAllowed {
                    path: path.clone(),
                    why,
                })?;
                // Read by ourselves first, because the parser's errors do not tell "missing" from "unreadable".
                let text = match tokio::fs::read_to_string(file).await {
                    Ok(text) => text,
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                        return Err(KubeconfigProblem::Missing(path));
                    }
                    Err(error) => {
                        return Err(KubeconfigProblem::Unreadable {
                            path,
                            why: error.to_string(),
                        });
                    }
                };
                (text, Kubeconfig::read_from(file))
            }
            KubeconfigSource::Inline(text) => (text.clone(), Kubeconfig::from_yaml(text)),
            KubeconfigSource::Followed { text, .. } => {
                let text = text.borrow().clone();
                let kubeconfig = Kubeconfig::from_yaml(&text);
                (text, kubeconfig)
            }
        };
        let kubeconfig = kubeconfig.map_err(|error| problem(&path, error))?;
        Ok(Loaded {
            text,
            ..load(&path, kubeconfig).await?
        })
    }
}

impl Loaded {
    /// Whether its client certificate, if it has one, is valid now.
    pub fn check(&self, now: Timestamp) -> Result<(), KubeconfigProblem> {
        let (_, _, user) = current(&self.kubeconfig).expect("a loaded kubeconfig has a current context");
        user.map_or(Ok(()), |user| check_client_certificate(&self.path, &user, now))
    }
}

/// Checks a kubeconfig that was read before. `path` is only for sentences.
pub async fn load(path: &str, kubeconfig: Kubeconfig) -> Result<Loaded, KubeconfigProblem> {
    let path = path.to_owned();
    if kubeconfig.clusters.is_empty() && kubeconfig.contexts.is_empty() {
        return Err(KubeconfigProblem::Malformed {
            path,
            why: "it has no clusters and no contexts".to_owned(),
        });
    }
    confined::check(&kubeconfig).map_err(|why| KubeconfigProblem::NotAllowed {
        path: path.clone(),
        why,
    })?;
    let (cluster_name, cluster, _) = current(&kubeconfig).map_err(|why| KubeconfigProblem::NoContext {
        path: path.clone(),
        why,
    })?;
    let server = cluster
        .server
        .clone()
        .filter(|it| !it.is_empty())
        .ok_or_else(|| KubeconfigProblem::Malformed {
            path: path.clone(),
            why: format!("cluster {cluster_name} has no server"),
        })?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig.clone(), &KubeConfigOptions::default())
        .await
        .map_err(|error| problem(&path, error))?;
    // What the environment says of proxies is meant for other programs.
    config.proxy_url = match cluster.proxy_url.as_deref().filter(|it| !it.is_empty()) {
        None => None,
        Some(url) => Some(url.parse().map_err(|_| KubeconfigProblem::Malformed {
            path: path.clone(),
            why: format!("proxy-url {url:?} is no URL"),
        })?),
    };
    if config.cluster_url.host().is_none() {
        return Err(KubeconfigProblem::Malformed {
            path,
            why: format!("server {server:?} is no URL"),
        });
    }
    Ok(Loaded {
        path,
        text: String::new(),
        config,
        kubeconfig,
        cluster_name,
        server,
    })
}

/// The cluster's name, the cluster and the user of the current context.
pub fn current(kubeconfig: &Kubeconfig) -> Result<(String, Cluster, Option<AuthInfo>), String> {
    let name = kubeconfig
        .current_context
        .clone()
        .filter(|it| !it.is_empty())
        .ok_or("current-context is not set")?;
    let context = kubeconfig
        .contexts
        .iter()
        .find(|it| it.name == name)
        .and_then(|it| it.context.clone())
        .ok_or(format!("there is no context {name:?}"))?;
    let cluster = kubeconfig
        .clusters
        .iter()
        .find(|it| it.name == context.cluster)
        .and_then(|it| it.cluster.clone())
        .ok_or(format!("there is no cluster {:?}", context.cluster))?;
    let user = context
        .user
        .and_then(|user| kubeconfig.auth_infos.iter().find(|it| it.name == user))
        .and_then(|it| it.auth_info.clone());
    Ok((context.cluster, cluster, user))
}

fn check_client_certificate(path: &str, user: &AuthInfo, now: Timestamp) -> Result<(), KubeconfigProblem> {
    let bad = |why: String| KubeconfigProblem::BadMaterial {
        path: path.to_owned(),
        why,
    };
    let pem = match (&user.client_certificate_data, &user.client_certificate) {
        (Some(data), _) => base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data)
            .map_err(|error| bad(format!("client-certificate-data is no base64: {error}")))?,
        (None, Some(file)) => {
            std::fs::read(file).map_err(|error| bad(format!("client-certificate {file}: {error}")))?
        }
        (None, None) => return Ok(()),
    };
    let chain = Chain::parse(&pem).map_err(|error| bad(format!("client certificate: {error}")))?;
    if chain.is_expired(now) {
        return Err(KubeconfigProblem::Expired {
            path: path.to_owned(),
            at: chain.not_after,
        });
    }
    if now < chain.not_before {
        return Err(KubeconfigProblem::NotYetValid {
            path: path.to_owned(),
            at: chain.not_before,
        });
    }
    Ok(())
}

fn problem(path: &str, error: KubeconfigError) -> KubeconfigProblem {
    let path = path.to_owned();
    let why = chain_text(&error);
    match error {
        KubeconfigError::ReadConfig(..) => KubeconfigProblem::Unreadable { path, why },
        KubeconfigError::CurrentContextNotSet
        | KubeconfigError::LoadContext(_)
        | KubeconfigError::LoadClusterOfContext(_) => KubeconfigProblem::NoContext { path, why },
        KubeconfigError::LoadCertificateAuthority(_)
        | KubeconfigError::LoadClientCertificate(_)
        | KubeconfigError::LoadClientKey(_)
        | KubeconfigError::ParseCertificates(_) => KubeconfigProblem::BadMaterial { path, why },
        _ => KubeconfigProblem::Malformed { path, why },
    }
}

/// What a failed request says about the kubeconfig it was made with.
pub fn explain(server: &str, error: &kube::Error) -> KubeconfigProblem {
    let server = server.to_owned();
    if let kube::Error::Api(status) = error {
        return match status.code {
            401 => KubeconfigProblem::Unauthorized { server },
            403 => KubeconfigProblem::Forbidden {
                server,
                why: status.message.clone(),
            },
            _ => KubeconfigProblem::Other {
                server,
                why: status.message.clone(),
            },
        };
    }
    if let Some(tls) = tls_error(error) {
        return match tls {
            rustls::Error::InvalidCertificate(certificate) => match certificate {
                // A bad signature is that of a CA which only has the same name, such as that of a hub built anew.
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    KubeconfigProblem::UnknownAuthority { server }
                }
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    KubeconfigProblem::ServerExpired { server }
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    KubeconfigProblem::ClockBehind { server }
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    KubeconfigProblem::WrongServerName { server }
                }
                other => KubeconfigProblem::Tls {
                    server,
                    why: other.to_string(),
                },
            },
            other => KubeconfigProblem::Tls {
                server,
                why: other.to_string(),
            },
        };
    }
    match error {
        kube::Error::Service(_) | kube::Error::HyperError(_) => KubeconfigProblem::PointsNowhere {
            server,
            why: last_text(error),
        },
        _ => KubeconfigProblem::Other {
            server,
            why: chain_text(error),
        },
    }
}

/// The TLS failure behind an error, if there is one.
pub fn tls_error(error: &kube::Error) -> Option<&rustls::Error> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Some(tls);
        }
        // An io::Error hides the error it was made from: its source() is that error's source.
        if let Some(inner) = error.downcast_ref::<std::io::Error>().and_then(|it| it.get_ref()) {
            if let Some(tls) = inner.downcast_ref::<rustls::Error>() {
                return Some(tls);
            }
            next = Some(inner);
            continue;
        }
        next = error.source();
    }
    None
}

fn last_text(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

fn chain_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = error.source();
    }
    text.lines().next().unwrap_or_default().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sentence(text: &str) -> String {
        let source = KubeconfigSource::Inline(text.to_owned());
        source
            .load(Timestamp::UNIX_EPOCH)
            .await
            .expect_err("a bad kubeconfig")
            .to_string()
    }

    #[tokio::test]
    async fn a_missing_file_is_named() {
        let source = KubeconfigSource::Path("/nowhere/hub.kubeconfig".into());
        let problem = source.load(Timestamp::UNIX_EPOCH).await.expect_err("missing");
        assert_eq!(
            problem.to_string(),
            "kubeconfig /nowhere/hub.kubeconfig does not exist: check the path, or write the file first"
        );
    }

    #[tokio::test]
    async fn what_is_no_kubeconfig_is_called_malformed() {
        assert!(
            sentence("[1, 2")
                .await
                .starts_with("kubeconfig (given inline) is malformed (")
        );
        assert!(
            sentence("kind: Config")
                .await
                .contains("it has no clusters and no contexts")
        );
    }

    #[tokio::test]
    async fn a_context_that_leads_nowhere_is_named() {
        let text = "current-context: b\ncontexts: [{name: a, context: {cluster: c, user: u}}]\nclusters: []\n";
        assert!(sentence(text).await.contains("there is no context \"b\""));
    }
}
