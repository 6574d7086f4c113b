//! What the webhook servers answer: the rules of the embedded API, for a Kubernetes that is not ours.
//! Upstream: ocm `pkg/{registration,work,addon}/webhook`, whose paths, words and ports these are.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use ocm_api::addon::conversion;
use ocm_reconcile::access::{self, Attributes, UserInfo};
use parking_lot::Mutex;
use process::{
    sent::Read,
    serving::{PageRequest, PageResponse, Pages},
};
use registration::admission::{self as of_clusters, AdmissionContext, fields::Writer};
use serde_json::{Value, json};
use work::hub::admission as of_works;

use crate::admission;

/// Fills in what the hub decides about a cluster.
pub(crate) const MUTATE_CLUSTER: &str = "/mutate-cluster-open-cluster-management-io-v1-managedcluster";
/// Judges who writes clusters.
pub(crate) const VALIDATE_CLUSTER: &str = "/validate-cluster-open-cluster-management-io-v1-managedcluster";
/// Judges who binds a set.
pub(crate) const VALIDATE_SET_BINDING: &str =
    "/validate-cluster-open-cluster-management-io-v1beta2-managedclustersetbinding";
/// Judges who puts an add-on where. Upstream has none of these; the path follows the others'.
pub(crate) const VALIDATE_ADD_ON: &str = "/validate-addon-open-cluster-management-io-v1beta1-managedclusteraddon";
/// Judges who writes works.
pub(crate) const VALIDATE_WORK: &str = "/validate-work-open-cluster-management-io-v1-manifestwork";
/// Judges who writes ManifestWorkReplicaSets.
pub(crate) const VALIDATE_REPLICA_SET: &str =
    "/validate-work-open-cluster-management-io-v1alpha1-manifestworkreplicaset";
/// Converts add-on objects.
pub(crate) const CONVERT: &str = "/convert";

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

/// What `registration webhook-server` answers: who may write clusters and the bindings of sets.
pub fn of_clusters(hub: Client, default_sets: bool) -> Arc<dyn Pages> {
    let rules = Rules::Clusters { default_sets };
    Arc::new(Reviews { hub, rules })
}

/// What `work webhook-server` answers: who may write works.
pub fn of_works(hub: Client, rules: of_works::AdmissionOptions) -> Arc<dyn Pages> {
    let rules = Rules::Works(rules);
    Arc::new(Reviews { hub, rules })
}

/// What `addon webhook-server` answers: add-on objects in their other version. It asks the hub nothing.
pub fn conversions() -> Arc<dyn Pages> {
    Arc::new(Conversions)
}

/// A rule that asks more than this asks in circles.
const QUESTIONS_MAX: usize = 16;

/// Reads a review that was posted. It takes room as long as the second part is held.
pub(crate) async fn review(asked: PageRequest, kind: &str) -> Result<(Value, Read), PageResponse> {
    if asked.method != "POST" {
        let text = format!("a review of kind {kind} is sent with POST");
        return Err(PageResponse::status(405, "MethodNotAllowed", &text));
    }
    let read = asked.body.read().await?;
    let review = serde_json::from_slice(&read.bytes);
    let review =
        review.map_err(|error| PageResponse::status(400, "BadRequest", &format!("the body is no {kind}: {error}")))?;
    Ok((review, read))
}

pub(crate) fn not_found() -> PageResponse {
    PageResponse::status(404, "NotFound", "the server could not find the requested resource")
}

/// Converts add-on objects.
struct Conversions;

#[async_trait]
impl Pages for Conversions {
    async fn answer(&self, asked: PageRequest) -> PageResponse {
        if asked.path != CONVERT {
            return not_found();
        }
        match review(asked, "ConversionReview").await {
            Ok((review, _read)) => PageResponse::json(200, &conversion::review(&review)),
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
    async fn answer(&self, asked: PageRequest) -> PageResponse {
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
    Works(of_works::AdmissionOptions),
}

/// Why a write is not let in.
pub(crate) struct Refusal {
    pub code: u16,
    pub message: String,
}

impl From<of_clusters::Denial> for Refusal {
    fn from(it: of_clusters::Denial) -> Self {
        Self {
            code: it.code,
            message: it.message,
        }
    }
}

impl From<of_works::Denial> for Refusal {
    fn from(it: of_works::Denial) -> Self {
        Self {
            code: it.code,
            message: it.message,
        }
    }
}

#[async_trait]
impl Pages for Reviews {
    async fn answer(&self, asked: PageRequest) -> PageResponse {
        let is_ours = match &self.rules {
            Rules::Clusters { .. } => {
                let ours = [MUTATE_CLUSTER, VALIDATE_CLUSTER, VALIDATE_SET_BINDING, VALIDATE_ADD_ON];
                ours.contains(&asked.path.as_str())
            }
            // Upstream serves this one with the gate on only; a configuration that names it wants an answer all the
            // same.
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
        told(&review, self.judge(&path, &review["request"]).await)
    }
}

/// The answer to a review.
pub(crate) fn told(review: &Value, judged: Result<Option<Value>, Refusal>) -> PageResponse {
    let request = &review["request"];
    let response = match judged {
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
    PageResponse::json(200, &answer)
}

impl Reviews {
    /// Judges one write; a patch where the rules fill something in.
    async fn judge(&self, path: &str, request: &Value) -> Result<Option<Value>, Refusal> {
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
                    of_works::WorkOperation::Update
                } else {
                    of_works::WorkOperation::Create
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
        subject: &UserInfo,
        rules: impl Fn(&Known) -> Result<(), of_clusters::Denial>,
    ) -> Result<(), Refusal> {
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
        Err(Refusal {
            code: 500,
            message: "the rules have too many questions".to_owned(),
        })
    }
}

/// Whether somebody may do what a work wants. Upstream calls the request bad when that cannot be found out.
async fn may(hub: &Client, subject: &UserInfo, attributes: &Attributes) -> Result<bool, Refusal> {
    access::may(hub, subject, attributes).await.map_err(|error| Refusal {
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

impl AdmissionContext for Known {
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

fn subject(user: &Value) -> UserInfo {
    let texts = |it: &Value| -> Vec<String> {
        let all = it.as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = user["extra"].as_object().into_iter().flatten();
    UserInfo {
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
#[path = "reviews_tests.rs"]
mod tests;
