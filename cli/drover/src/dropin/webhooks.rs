//! The webhook servers: the rules of the embedded API, for a Kubernetes that is not ours.
//! Upstream: ocm `pkg/{registration,work,addon}/webhook`, whose paths, words and ports these are.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use ::registration::admission::{self as of_clusters, World, fields::Writer};
use ::work::hub::admission as of_works;
use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use ocm_api::addon::conversion;
use ocm_reconcile::access::{self, Attributes, Subject};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    api,
    certificate_files::CertificateFiles,
    read::Values,
    sent::Read,
    serving::{self, Answer, Asked, Pages, Tls},
};
use crate::{admission, process};

pub const MUTATE_CLUSTER: &str = "/mutate-cluster-open-cluster-management-io-v1-managedcluster";
pub const VALIDATE_CLUSTER: &str = "/validate-cluster-open-cluster-management-io-v1-managedcluster";
pub const VALIDATE_SET_BINDING: &str = "/validate-cluster-open-cluster-management-io-v1beta2-managedclustersetbinding";
/// Upstream has none of these; the path follows the others'.
pub const VALIDATE_ADD_ON: &str = "/validate-addon-open-cluster-management-io-v1beta1-managedclusteraddon";
pub const VALIDATE_WORK: &str = "/validate-work-open-cluster-management-io-v1-manifestwork";
pub const VALIDATE_REPLICA_SET: &str = "/validate-work-open-cluster-management-io-v1alpha1-manifestworkreplicaset";
pub const CONVERT: &str = "/convert";

/// Everything that a hub with these options answers, at one address.
pub fn of_hub(client: &Client, options: &hub::Options) -> Arc<dyn Pages> {
    let reviews = |rules: Rules| Reviews {
        hub: client.clone(),
        rules,
    };
    Arc::new(Together {
        clusters: reviews(Rules::Clusters {
            default_sets: options.registration.default_sets,
        }),
        works: reviews(Rules::Works(options.works.rules())),
    })
}

/// A prober that takes longer to ask is none.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);
/// A rule that asks more than this asks in circles.
const QUESTIONS_MAX: usize = 16;

/// `registration webhook-server`.
pub async fn registration(values: Values) -> Result<()> {
    let default_sets = values.gate("DefaultClusterSet");
    serve(&values, |hub| Reviews {
        hub,
        rules: Rules::Clusters { default_sets },
    })
    .await
}

/// `work webhook-server`.
pub async fn work(values: Values) -> Result<()> {
    let rules = of_works::Rules {
        manifests_bytes_max: usize::try_from(values.number("manifestLimit")).unwrap_or_default(),
        nil_executor_is_checked: values.gate("NilExecutorValidating"),
        replica_sets_are_taken: values.gate("ManifestWorkReplicaSet"),
    };
    serve(&values, |hub| Reviews {
        hub,
        rules: Rules::Works(rules),
    })
    .await
}

/// `addon webhook-server`. It asks the hub nothing.
pub async fn add_ons(values: Values) -> Result<()> {
    let stop = CancellationToken::new();
    process::stop_on_signals(stop.clone())?;
    listen(&values, Arc::new(Conversions), stop).await
}

async fn serve(values: &Values, reviews: impl FnOnce(Client) -> Reviews) -> Result<()> {
    let stop = CancellationToken::new();
    process::stop_on_signals(stop.clone())?;
    let hub = api::reach(values.text("kubeconfig"), &stop).await?;
    listen(values, Arc::new(reviews(hub.client)), stop).await
}

/// Serves reviews over TLS, and health and metrics beside them, until `stop`.
async fn listen(values: &Values, pages: Arc<dyn Pages>, stop: CancellationToken) -> Result<()> {
    process::raise_open_files();
    let rules = Tls::read(values.text("tls-min-version"), values.text("tls-cipher-suites"))?;
    let directory = match values.some("certdir") {
        Some(directory) => PathBuf::from(directory),
        None => std::env::temp_dir().join("k8s-webhook-server/serving-certs"),
    };
    let host: IpAddr = values
        .text("bind-address")
        .parse()
        .with_context(|| format!("--bind-address {}", values.text("bind-address")))?;
    let bind = async |flag: &str| -> Result<Option<TcpListener>> {
        let port = u16::try_from(values.number(flag)).with_context(|| format!("--{flag} {}", values.text(flag)))?;
        // Only the port of the reviews may be any that is free.
        if port == 0 && flag != "port" {
            return Ok(None);
        }
        let address = SocketAddr::new(host, port);
        let listener = TcpListener::bind(address).await;
        Ok(Some(
            listener.with_context(|| format!("could not listen on {address}"))?,
        ))
    };
    let files = CertificateFiles::in_directory(&directory);
    let tls = Arc::new(ArcSwap::from(files.read(&rules)?));
    let Some(listener) = bind("port").await? else {
        return Ok(());
    };
    if let Some(probes) = bind("health-probe-port").await? {
        tokio::spawn(answer_plainly(probes, |path| {
            ["/healthz", "/readyz", "/livez"]
                .iter()
                .any(|it| path.trim_end_matches('/').starts_with(it))
                .then(|| Answer::text(200, "ok"))
        }));
    }
    if let Some(metrics) = bind("metrics-port").await? {
        tokio::spawn(answer_plainly(metrics, |path| {
            (path == "/metrics").then(serving::all_metrics)
        }));
    }
    tokio::spawn(files.follow(rules, tls.clone(), stop.clone()));
    info!(address = %listener.local_addr()?, "answers reviews");
    serving::serve(listener, tls, pages, stop).await;
    Ok(())
}

/// Answers plain HTTP, one short request for each connection.
async fn answer_plainly(listener: TcpListener, answer: fn(&str) -> Option<Answer>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let answered = async {
                let mut request = Vec::new();
                // The first line is all that matters, in however many pieces it comes.
                while !request.contains(&b'\n') && request.len() < 4096 {
                    if stream.read_buf(&mut request).await? == 0 {
                        return Ok(());
                    }
                }
                let line = String::from_utf8_lossy(&request).into_owned();
                let path = line.split_whitespace().nth(1).unwrap_or("/");
                let path = path.split('?').next().unwrap_or_default();
                let answer = answer(path).unwrap_or_else(|| Answer::text(404, "404 page not found\n"));
                let head = format!(
                    "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    answer.code,
                    if answer.code == 200 { "OK" } else { "Not Found" },
                    answer.content_type,
                    answer.body.len(),
                );
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(answer.body.as_bytes()).await?;
                stream.shutdown().await
            };
            // Whoever asks and does not listen to the answer is not worth a word.
            let _: Result<std::io::Result<()>, _> = tokio::time::timeout(PROBE_DEADLINE, answered).await;
        });
    }
}

/// Reads a review that was posted. It takes room as long as the second part is held.
async fn review(asked: Asked, kind: &str) -> Result<(Value, Read), Answer> {
    if asked.method != "POST" {
        let text = format!("a review of kind {kind} is sent with POST");
        return Err(Answer::status(405, "MethodNotAllowed", &text));
    }
    let read = asked.body.read().await?;
    let review = serde_json::from_slice(&read.bytes);
    let review =
        review.map_err(|error| Answer::status(400, "BadRequest", &format!("the body is no {kind}: {error}")))?;
    Ok((review, read))
}

fn not_found() -> Answer {
    Answer::status(404, "NotFound", "the server could not find the requested resource")
}

/// Converts add-on objects.
struct Conversions;

#[async_trait]
impl Pages for Conversions {
    async fn answer(&self, asked: Asked) -> Answer {
        if asked.path != CONVERT {
            return not_found();
        }
        match review(asked, "ConversionReview").await {
            Ok((review, _read)) => Answer::json(200, &conversion::review(&review)),
            Err(answer) => answer,
        }
    }
}

/// Judges and converts.
struct Together {
    clusters: Reviews,
    works: Reviews,
}

#[async_trait]
impl Pages for Together {
    async fn answer(&self, asked: Asked) -> Answer {
        match asked.path.as_str() {
            CONVERT => Conversions.answer(asked).await,
            VALIDATE_WORK | VALIDATE_REPLICA_SET => self.works.answer(asked).await,
            _ => self.clusters.answer(asked).await,
        }
    }
}

/// Judges writes.
struct Reviews {
    hub: Client,
    rules: Rules,
}

enum Rules {
    Clusters { default_sets: bool },
    Works(of_works::Rules),
}

/// Why a write is not let in.
struct Denial {
    code: u16,
    message: String,
}

impl From<of_clusters::Denial> for Denial {
    fn from(it: of_clusters::Denial) -> Self {
        Self {
            code: it.code,
            message: it.message,
        }
    }
}

impl From<of_works::Denial> for Denial {
    fn from(it: of_works::Denial) -> Self {
        Self {
            code: it.code,
            message: it.message,
        }
    }
}

#[async_trait]
impl Pages for Reviews {
    async fn answer(&self, asked: Asked) -> Answer {
        let is_ours = match &self.rules {
            Rules::Clusters { .. } => {
                let ours = [MUTATE_CLUSTER, VALIDATE_CLUSTER, VALIDATE_SET_BINDING, VALIDATE_ADD_ON];
                ours.contains(&asked.path.as_str())
            }
            // Upstream serves this one with the gate on only; a configuration that names it wants an answer all the same.
            Rules::Works(_) => [VALIDATE_WORK, VALIDATE_REPLICA_SET].contains(&asked.path.as_str()),
        };
        if !is_ours {
            return not_found();
        }
        let path = asked.path.clone();
        let (review, _read) = match review(asked, "AdmissionReview").await {
            Ok(review) => review,
            Err(answer) => return answer,
        };
        let request = &review["request"];
        let response = match self.judge(&path, request).await {
            Ok(None) => json!({"uid": request["uid"], "allowed": true}),
            Ok(Some(patch)) => json!({
                "uid": request["uid"], "allowed": true,
                "patchType": "JSONPatch", "patch": BASE64_STANDARD.encode(patch.to_string()),
            }),
            Err(denial) => json!({
                "uid": request["uid"], "allowed": false,
                "status": {
                    "metadata": {}, "status": "Failure", "code": denial.code, "message": denial.message,
                    "reason": match denial.code { 400 => "BadRequest", 403 => "Forbidden", _ => "InternalError" },
                },
            }),
        };
        let answer = json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response});
        Answer::json(200, &answer)
    }
}

impl Reviews {
    /// Judges one write; a patch where the rules fill something in.
    async fn judge(&self, path: &str, request: &Value) -> Result<Option<Value>, Denial> {
        let is_update = match request["operation"].as_str() {
            Some("CREATE") => false,
            Some("UPDATE") => true,
            _ => return Ok(None),
        };
        let subresource = request["subResource"].as_str().unwrap_or_default();
        if !subresource.is_empty() && (path, subresource) != (VALIDATE_CLUSTER, "status") {
            return Ok(None);
        }
        let (object, old) = (&request["object"], Some(&request["oldObject"]).filter(|_| is_update));
        let subject = subject(&request["userInfo"]);
        let user = subject.user.as_str();
        let by = Writer {
            user,
            groups: &subject.groups,
        };
        match (&self.rules, path) {
            (Rules::Clusters { default_sets }, MUTATE_CLUSTER) => {
                let mut filled = object.clone();
                admission::fill_cluster(&mut filled, old, *default_sets)?;
                Ok(patch(object, &filled))
            }
            (Rules::Clusters { .. }, path) => {
                self.ask(&subject, |world| match path {
                    VALIDATE_CLUSTER if subresource == "status" => admission::validate_cluster_status(by, object, old),
                    VALIDATE_CLUSTER => admission::validate_cluster(by, object, old, world),
                    VALIDATE_ADD_ON => admission::validate_add_on(by, object, old, world),
                    _ => admission::validate_set_binding(user, object, old, world),
                })
                .await?;
                Ok(None)
            }
            (Rules::Works(rules), path) => {
                let operation = if is_update {
                    of_works::Operation::Update
                } else {
                    of_works::Operation::Create
                };
                let check = if path == VALIDATE_WORK {
                    of_works::check_finalizers(user, &subject.groups, object, old)?;
                    of_works::check
                } else {
                    of_works::check_replica_set
                };
                if let Some(question) = check(rules, user, operation, object, old)?
                    && !may(&self.hub, &subject, &question.attributes).await?
                {
                    return Err(question.denial.into());
                }
                Ok(None)
            }
        }
    }

    /// Asks the rules, which cannot wait for an answer: what they want to know is looked up, and they are asked again.
    async fn ask(
        &self,
        subject: &Subject,
        rules: impl Fn(&Known) -> Result<(), of_clusters::Denial>,
    ) -> Result<(), Denial> {
        let mut known = Known::default();
        for _ in 0..QUESTIONS_MAX {
            let said = rules(&known);
            let Some(question) = known.open.lock().take() else {
                return Ok(said?);
            };
            match question {
                Question::May(attributes) => {
                    let answer = access::may(&self.hub, subject, &attributes).await;
                    known.rights.insert(attributes, answer.map_err(|it| it.to_string()));
                }
                Question::Terminating(namespace) => {
                    let found = Api::<Namespace>::all(self.hub.clone()).get_opt(&namespace).await;
                    let answer = found.map(|it| {
                        let phase = it.and_then(|it| it.status?.phase);
                        phase.as_deref() == Some("Terminating")
                    });
                    known.terminating.insert(namespace, answer.map_err(|it| it.to_string()));
                }
            }
        }
        Err(Denial {
            code: 500,
            message: "the rules have too many questions".to_owned(),
        })
    }
}

/// Whether somebody may do what a work wants. Upstream calls the request bad when that cannot be found out.
async fn may(hub: &Client, subject: &Subject, attributes: &Attributes) -> Result<bool, Denial> {
    access::may(hub, subject, attributes).await.map_err(|error| Denial {
        code: 400,
        message: error.to_string(),
    })
}

/// What is known of the hub so far, and what a rule wanted to know beyond that.
#[derive(Default)]
struct Known {
    rights: BTreeMap<Attributes, Result<bool, String>>,
    terminating: BTreeMap<String, Result<bool, String>>,
    open: Mutex<Option<Question>>,
}

enum Question {
    May(Attributes),
    Terminating(String),
}

impl Known {
    fn wonder<T>(&self, question: Question) -> Result<T, String> {
        self.open.lock().get_or_insert(question);
        Err("it is being asked".to_owned())
    }
}

impl World for Known {
    fn may(&self, attributes: &Attributes) -> Result<bool, String> {
        match self.rights.get(attributes) {
            Some(may) => may.clone(),
            None => self.wonder(Question::May(attributes.clone())),
        }
    }

    fn is_terminating(&self, namespace: &str) -> Result<bool, String> {
        match self.terminating.get(namespace) {
            Some(it) => it.clone(),
            None => self.wonder(Question::Terminating(namespace.to_owned())),
        }
    }
}

fn subject(user: &Value) -> Subject {
    let texts = |it: &Value| -> Vec<String> {
        let all = it.as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = user["extra"].as_object().into_iter().flatten();
    Subject {
        user: user["username"].as_str().unwrap_or_default().to_owned(),
        uid: user["uid"].as_str().filter(|it| !it.is_empty()).map(str::to_owned),
        groups: texts(&user["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
    }
}

/// The difference in what the rules may fill in.
fn patch(before: &Value, after: &Value) -> Option<Value> {
    let differs = |pointer: &&str| before.pointer(pointer) != after.pointer(pointer);
    let filled = ["/metadata/labels", "/spec/taints", "/spec/leaseDurationSeconds"];
    let steps = filled.into_iter().filter(differs);
    // Where there was something, "add" takes its place.
    let steps: Vec<Value> = steps
        .map(|pointer| json!({"op": "add", "path": pointer, "value": after.pointer(pointer)}))
        .collect();
    (!steps.is_empty()).then(|| json!(steps))
}

#[cfg(test)]
#[path = "webhooks_tests.rs"]
mod tests;
