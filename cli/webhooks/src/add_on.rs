//! The webhooks of an add-on's program, answered as the hub's own are. What is judged, and by which configuration an
//! API server comes here, is the add-on's.
//! Upstream: controller-runtime `pkg/webhook`, whose programs want a certificate from somebody else. Here a program
//! that is given none keeps one, and tells the API server whom to trust.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use kube::Client;
use process::{
    certificate_files::CertificateFiles,
    serving::{self, PageRequest, PageResponse, Pages, Tls},
};
use rustls::ServerConfig;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    Asks, Kept, RETRY,
    certificate::{Held, Keeper, SecretPlace},
    certificate_times, follow, names_of_service, reviews,
};

pub use crate::configurations::{MUTATING, VALIDATING};

/// Judges one write.
#[async_trait]
pub trait Judge: Send + Sync {
    /// Judges the `request` of an AdmissionReview. A JSON patch fills in what is missing, where a mutating webhook
    /// asks.
    ///
    /// # Errors
    /// What whoever writes is told.
    async fn judge(&self, request: &Value) -> Result<Option<Value>, String>;
}

/// A rule that needs to know nothing but the request.
#[async_trait]
impl Judge for fn(&Value) -> Result<(), String> {
    async fn judge(&self, request: &Value) -> Result<Option<Value>, String> {
        self(request).map(|()| None)
    }
}

/// Who judges what is sent to a path.
pub type JudgeAtPath = (&'static str, Arc<dyn Judge>);

/// What is answered, and where.
pub struct AddOnWebhooks {
    /// Where to listen.
    pub address: SocketAddr,
    /// The folder of `tls.crt` and `tls.key`, which others keep.
    pub certificates: PathBuf,
    /// The certificate that is kept where the folder has none. Without it nothing is answered then.
    pub own: Option<OwnCertificate>,
    /// Who judges.
    pub judges: Vec<JudgeAtPath>,
    /// `--tls-min-version`; empty for what is usual.
    pub tls_min_version: String,
    /// `--tls-cipher-suites`; empty for all.
    pub tls_cipher_suites: String,
}

/// A certificate that the processes of the add-on keep.
pub struct OwnCertificate {
    /// The namespace of the Secret and of the Service.
    pub namespace: String,
    /// The Secret that it is in.
    pub secret: &'static str,
    /// The Service by which the API server comes.
    pub service: &'static str,
    /// The configurations that are told whom to trust: their kinds, [`VALIDATING`] or [`MUTATING`], and names.
    pub configurations: &'static [(&'static str, &'static str)],
}

impl AddOnWebhooks {
    /// Answers until `stop`, in tasks of its own; returns the address, `None` if there is no certificate. One that has
    /// to be made may come later, and whoever asks before waits.
    ///
    /// # Errors
    /// When the address is taken, a flag or a file cannot be read.
    pub async fn start(self, hub: &Client, stop: &CancellationToken) -> Result<Option<SocketAddr>> {
        let rules = Tls::read(&self.tls_min_version, &self.tls_cipher_suites)?;
        let files = CertificateFiles::in_directory(&self.certificates);
        let given = files.are_there().then(|| files.read(&rules)).transpose()?;
        if given.is_none() && self.own.is_none() {
            let folder = self.certificates.display();
            warn!(%folder, "webhooks are not answered: no tls.crt and tls.key, and no namespace to keep them in");
            return Ok(None);
        }
        let listener = TcpListener::bind(self.address).await;
        let listener = listener.with_context(|| format!("could not listen for webhooks on {}", self.address))?;
        let address = listener.local_addr()?;
        info!(%address, "answers webhooks");
        let answers = Answers {
            listener,
            pages: Arc::new(Reviewed(self.judges)),
            files,
            rules,
            stop: stop.clone(),
        };
        match (given, self.own) {
            (Some(config), _) => {
                tokio::spawn(answers.with_files(config));
            }
            (None, own) => {
                let kept = own.map(|it| it.kept(hub, &answers.rules)).transpose()?;
                tokio::spawn(async move {
                    if let Some(kept) = kept {
                        answers.with_own(kept).await;
                    }
                });
            }
        }
        Ok(Some(address))
    }
}

impl OwnCertificate {
    fn kept(self, hub: &Client, rules: &Tls) -> Result<Kept> {
        let times = certificate_times::serving_certificate()?;
        let place = SecretPlace {
            namespace: self.namespace.clone(),
            name: self.secret.to_owned(),
        };
        let names = names_of_service(&self.namespace, self.service);
        Ok(Kept {
            hub: hub.clone(),
            asks: Asks::Installed {
                configurations: self.configurations,
                namespace: self.namespace,
                service: self.service,
            },
            keeper: Keeper::new(hub.clone(), place, names, times.life, rules.clone()),
            look_again: times.look_again,
        })
    }
}

/// Whoever answers, and with what.
struct Answers {
    listener: TcpListener,
    pages: Arc<dyn Pages>,
    files: CertificateFiles,
    rules: Tls,
    stop: CancellationToken,
}

impl Answers {
    async fn with_files(self, config: Arc<ServerConfig>) {
        let tls = Arc::new(ArcSwap::from(config));
        tokio::spawn(self.files.follow(self.rules, tls.clone(), self.stop.clone()));
        serving::serve(self.listener, tls, self.pages, self.stop).await;
    }

    /// Until somebody brings files: then theirs is shown, because then the API server is told to trust that one.
    async fn with_own(self, kept: Kept) {
        let Some((held, pause)) = first(&kept, &self.stop).await else {
            return;
        };
        let tls = Arc::new(ArcSwap::from(held.config));
        let (shown, stop) = (tls.clone(), self.stop.clone());
        tokio::spawn(async move {
            let given = self.files.arrive(&self.rules);
            let config = tokio::select! {
                () = follow(kept, held.authorities, pause, shown.clone(), stop.clone()) => return,
                config = given => config,
            };
            shown.store(config);
            info!("took up the certificate that was given");
            self.files.follow(self.rules, shown, stop).await;
        });
        serving::serve(self.listener, tls, self.pages, self.stop).await;
    }
}

/// The certificate to begin with, and when to look again; `None` when `stop` comes first.
async fn first(kept: &Kept, stop: &CancellationToken) -> Option<(Held, Duration)> {
    loop {
        match kept.look().await {
            Ok(first) => return Some(first),
            Err(error) => {
                let error = format!("{error:#}");
                warn!(error, "could not make a certificate for webhooks, will retry");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(RETRY) => {}
        }
    }
}

/// The pages of judges.
struct Reviewed(Vec<JudgeAtPath>);

#[async_trait]
impl Pages for Reviewed {
    async fn answer(&self, asked: PageRequest) -> PageResponse {
        let Some((_, judge)) = self.0.iter().find(|(path, _)| *path == asked.path) else {
            return reviews::not_found();
        };
        match reviews::review(asked, "AdmissionReview").await {
            Ok((review, _read)) => {
                let judged = judge.judge(&review["request"]).await;
                let refused = |message| reviews::Refusal { code: 403, message };
                reviews::told(&review, judged.map_err(refused))
            }
            Err(answer) => answer,
        }
    }
}
