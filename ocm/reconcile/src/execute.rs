//! Carries out a plan. The only place that calls write verbs, and it makes no choices.

pub mod permission_fallback;
mod spoken;

use std::sync::Arc;

use futures::{StreamExt, future::BoxFuture};
use kube::{
    Api, Client, Resource,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams, Preconditions,
        PropagationPolicy,
    },
    core::Request,
};
use rand::RngExt;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::{debug, warn};

use crate::{
    plan::{EventKind, EventStep, OwnStep, Plan, Propagation, Site, Step, StepId, Target},
    segment::{encoded, encoded_api_version},
};

use permission_fallback::Lacks;
use spoken::Spoken;

/// One client per site.
#[derive(Clone, Default)]
pub struct Clients {
    hub: Option<Client>,
    cluster: Option<Client>,
    management: Option<Client>,
    /// What they may not do, as far as was found out. Clones share it.
    lacks: Lacks,
    /// The Events that they have sent.
    spoken: Spoken,
    /// The field manager of what is written to the managed cluster and not applied.
    manager: Option<&'static str>,
    /// Whether the managed cluster refuses fields that it does not know.
    strict: bool,
}

impl Clients {
    /// For reconcilers that only ever write to the hub.
    pub fn hub(client: Client) -> Self {
        Self {
            hub: Some(client),
            ..Self::default()
        }
    }

    /// For reconcilers that only ever write to the managed cluster.
    pub fn cluster(client: Client) -> Self {
        Self {
            cluster: Some(client),
            ..Self::default()
        }
    }

    /// For reconcilers that write to both.
    pub fn both(hub: Client, cluster: Client) -> Self {
        Self {
            hub: Some(hub),
            cluster: Some(cluster),
            ..Self::default()
        }
    }

    /// For reconcilers that only ever write to the cluster that they run on.
    pub fn management(client: Client) -> Self {
        Self {
            management: Some(client),
            ..Self::default()
        }
    }

    /// The same, with a hub as well.
    pub fn and_hub(self, client: Client) -> Self {
        Self {
            hub: Some(client),
            ..self
        }
    }

    /// The same, with the cluster that the operator runs on as well.
    pub fn and_management(self, client: Client) -> Self {
        Self {
            management: Some(client),
            ..self
        }
    }

    /// The same, with a managed cluster as well.
    pub fn and_cluster(self, client: Client) -> Self {
        Self {
            cluster: Some(client),
            ..self
        }
    }

    /// On the managed cluster as this field manager, rather than as the one that the API server makes
    /// of the User-Agent.
    pub fn writing_as(self, manager: &'static str) -> Self {
        Self {
            manager: Some(manager),
            ..self
        }
    }

    /// On the managed cluster objects are created and replaced with strict validation: one with a field that its kind
    /// does not have is refused, rather than kept without that field.
    pub fn validating_strictly(self) -> Self {
        Self { strict: true, ..self }
    }

    async fn strictly(
        &self,
        target: &Target,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<DynamicObject, kube::Error> {
        match self.at(target.site) {
            Ok(client) => strictly(client, request).await,
            Err(error) => Err(kube::Error::Service(error.into())),
        }
    }

    fn is_strict(&self, site: Site) -> bool {
        self.strict && site == Site::Cluster
    }

    fn manager_at(&self, site: Site) -> Option<&'static str> {
        self.manager.filter(|_| site == Site::Cluster)
    }

    fn post_params(&self, site: Site) -> PostParams {
        PostParams {
            field_manager: self.manager_at(site).map(str::to_owned),
            ..PostParams::default()
        }
    }

    fn patch_params(&self, site: Site) -> PatchParams {
        PatchParams {
            field_manager: self.manager_at(site).map(str::to_owned),
            ..PatchParams::default()
        }
    }

    fn at(&self, site: Site) -> Result<&Client, StepError> {
        match site {
            Site::Hub => self.hub.as_ref(),
            Site::Cluster => self.cluster.as_ref(),
            Site::Management => self.management.as_ref(),
        }
        .ok_or(StepError::NoClient(site))
    }
}

/// What a step did.
#[derive(Clone, Debug)]
pub enum Done {
    /// The object as the server has it now.
    Object(Box<DynamicObject>),
    /// It was to be created and is there already.
    AlreadyExists,
    /// It was to be deleted and is gone.
    Gone,
    /// The event was sent, or could not be sent, which is no failure.
    Told,
    /// The reconciler has carried out a step of its own.
    Performed,
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The API server, or the way to it, said no.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// The object is not one that Kubernetes could take.
    #[error("the object is no Kubernetes object: {0}")]
    Malformed(#[source] serde_json::Error),
    /// The plan has a step of the reconciler's own, and nobody carries it out.
    #[error("nobody carries out {0:?}: Reconciler::perform does not know the verb")]
    NobodyPerforms(&'static str),
    /// A step of the reconciler's own failed.
    #[error("{0}")]
    Own(String),
    /// The reconciler was given no client for this site.
    #[error("no client for the {0}")]
    NoClient(Site),
}

impl StepError {
    /// The HTTP status the API server answered with, if it answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            StepError::Kube(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    /// Somebody else was faster: look again.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// The API server does not let us.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }
}

/// What became of each step.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Results by stage and step. Stages that were not reached are missing.
    pub stages: Vec<Vec<Result<Done, StepError>>>,
    /// How many steps were not tried because an earlier stage failed.
    pub skipped: usize,
    plan: Arc<Plan>,
    written: Vec<(Target, StepId)>,
}

impl Outcome {
    /// The plan that was carried out.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The result of the step of this name ([`Plan::name`]); `None` when there was none, or it was not tried.
    pub fn named(&self, name: &str) -> Option<&Result<Done, StepError>> {
        self.get(self.plan.named(name)?)
    }

    /// Takes out the result of one step, for who passes its failure on.
    pub fn take(&mut self, id: StepId) -> Option<Result<Done, StepError>> {
        let result = self.stages.get_mut(id.stage)?.get_mut(id.step)?;
        Some(std::mem::replace(result, Ok(Done::Performed)))
    }

    /// The object that the step of this name left behind.
    pub fn object_of(&self, name: &str) -> Option<&DynamicObject> {
        self.object(self.plan.named(name)?)
    }

    /// Every step that was tried, and its result.
    pub fn results(&self) -> impl Iterator<Item = (&Step, &Result<Done, StepError>)> {
        let stages = self.plan.stages.iter().zip(&self.stages);
        stages.flat_map(|(steps, results)| steps.iter().zip(results))
    }

    /// As [`results`](Self::results), of the last stage that was tried.
    pub fn results_of_last_stage(&self) -> impl Iterator<Item = (&Step, &Result<Done, StepError>)> {
        let last = self.plan.stages.iter().zip(&self.stages).next_back();
        last.into_iter().flat_map(|(steps, results)| steps.iter().zip(results))
    }

    /// What the plan has worked out ([`Plan::work_out`]).
    pub fn worked_out<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.plan.worked_out()
    }

    /// The result of one step; `None` when it was not tried.
    pub fn get(&self, id: StepId) -> Option<&Result<Done, StepError>> {
        self.stages.get(id.stage)?.get(id.step)
    }

    /// The object one step left behind.
    pub fn object(&self, id: StepId) -> Option<&DynamicObject> {
        match self.get(id)? {
            Ok(Done::Object(object)) => Some(object),
            _ => None,
        }
    }

    /// One object as the last step that wrote it left it. A conclusion patches this rather than what was observed,
    /// whose resourceVersion the plan has moved on.
    pub fn latest<K>(&self, site: Site, namespace: Option<&str>, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let api_resource = ApiResource::erase::<K>(&());
        let found = self.written.iter().rev().find(|(target, _)| {
            target.site == site
                && target.api_resource == api_resource
                && target.namespace.as_deref() == namespace
                && target.name == name
        })?;
        self.object(found.1)?.clone().try_parse().ok()
    }

    /// Whether every step was tried and succeeded.
    pub fn succeeded(&self) -> bool {
        self.skipped == 0 && self.errors().next().is_none()
    }

    /// All failures, with the steps they belong to.
    pub fn errors(&self) -> impl Iterator<Item = (StepId, &StepError)> {
        self.stages.iter().enumerate().flat_map(|(stage, results)| {
            results
                .iter()
                .enumerate()
                .filter_map(move |(step, result)| Some((StepId { stage, step }, result.as_ref().err()?)))
        })
    }

    /// The failures as one sentence each, joined; empty when there is none.
    pub fn error_text(&self) -> String {
        self.errors()
            .map(|(_, error)| sentence(error))
            .collect::<Vec<_>>()
            .join("; ")
    }
}

/// What an error says to a person: the message of the API server alone where there is one.
pub fn sentence(error: &StepError) -> String {
    match error {
        StepError::Kube(kube::Error::Api(status)) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

/// Tries every step of a stage even if one fails, and starts the next stage only when the last one succeeded.
pub async fn execute(clients: &Clients, plan: &Plan) -> Outcome {
    let manner = Manner {
        at_once: 1,
        stages_go_on: false,
        perform: &|own| Box::pin(nobody(own)),
        stage_done: &|_| {},
    };
    execute_with(clients, Arc::new(plan.clone()), &manner).await
}

/// What a reconciler's own steps are carried out by.
pub(crate) type Perform<'a> = dyn Fn(OwnStep) -> BoxFuture<'a, Result<Done, StepError>> + Send + Sync + 'a;

async fn nobody(own: OwnStep) -> Result<Done, StepError> {
    Err(StepError::NobodyPerforms(own.verb))
}

/// How a reconciler has its plans carried out.
pub(crate) struct Manner<'a> {
    /// Up to so many steps of a stage are under way together.
    pub at_once: usize,
    /// Whether a write that failed keeps nothing from later stages; a step of the reconciler's own always does.
    pub stages_go_on: bool,
    /// Carries out what is no write.
    pub perform: &'a Perform<'a>,
    /// Called after each stage that was tried, with what has come of the plan so far.
    pub stage_done: &'a (dyn Fn(&Outcome) + Send + Sync),
}

/// As [`execute`], in the manner of a reconciler.
pub(crate) async fn execute_with(clients: &Clients, plan: Arc<Plan>, manner: &Manner<'_>) -> Outcome {
    let mut outcome = Outcome {
        plan: plan.clone(),
        ..Outcome::default()
    };
    let mut stopped = false;
    for (number, stage) in plan.stages.iter().enumerate() {
        if stopped {
            outcome.skipped += stage.len();
            continue;
        }
        let results = side_by_side(clients, stage, manner.at_once, manner.perform).await;
        for (position, (step, result)) in stage.iter().zip(&results).enumerate() {
            match result {
                Ok(Done::Object(_)) => {
                    debug!(%step, "step done");
                    let id = StepId {
                        stage: number,
                        step: position,
                    };
                    outcome.written.extend(step.target().map(|it| (it.clone(), id)));
                }
                Ok(_) => debug!(%step, "step done"),
                Err(error) => {
                    stopped |= !manner.stages_go_on || matches!(step, Step::Own(_));
                    debug!(%step, %error, "step failed");
                }
            }
        }
        outcome.stages.push(results);
        (manner.stage_done)(&outcome);
    }
    outcome
}

/// Tries steps that do not depend on each other side by side, a bounded number at a time.
/// The results come in the order of the steps.
async fn side_by_side(
    clients: &Clients,
    steps: &[Step],
    at_once: usize,
    perform: &Perform<'_>,
) -> Vec<Result<Done, StepError>> {
    let trials: Vec<_> = steps.iter().map(|step| attempt(clients, step, perform)).collect();
    futures::stream::iter(trials).buffered(at_once.max(1)).collect().await
}

async fn attempt(clients: &Clients, step: &Step, perform: &Perform<'_>) -> Result<Done, StepError> {
    match step {
        Step::Event(event) => return tell(clients, event).await,
        Step::Own(own) => return perform(own.clone()).await,
        _ => {}
    }
    let target = &in_url(step.target().expect("every other step has a target"));
    let api = api(clients, target)?;
    match step {
        Step::Create { object, .. } => match create(clients, &api, target, object).await? {
            Ok(object) => Ok(Done::Object(Box::new(object))),
            Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" => {
                Ok(Done::AlreadyExists)
            }
            Err(error) => Err(error.into()),
        },
        Step::Replace {
            object, subresource, ..
        } => {
            let object = dynamic(object)?;
            let replaced = match subresource {
                Some(subresource) => {
                    api.replace_subresource(subresource, &target.name, &clients.post_params(target.site), &object)
                        .await?
                }
                None if clients.is_strict(target.site) => {
                    let body = serde_json::to_vec(&object).map_err(StepError::Malformed)?;
                    let request = Request::new(api.resource_url());
                    let request = request.replace(&target.name, &clients.post_params(target.site), body);
                    clients.strictly(target, request).await?
                }
                None => {
                    api.replace(&target.name, &clients.post_params(target.site), &object)
                        .await?
                }
            };
            Ok(Done::Object(Box::new(replaced)))
        }
        Step::Apply {
            object,
            field_manager,
            force,
            ..
        } => {
            let mut params = PatchParams::apply(field_manager);
            params.force = *force;
            Ok(Done::Object(Box::new(
                api.patch(&target.name, &params, &Patch::Apply(object)).await?,
            )))
        }
        Step::MergePatch {
            subresource: Some(subresource),
            patch,
            ..
        } => {
            let (params, patch) = (clients.patch_params(target.site), Patch::Merge(patch));
            let patched = api
                .patch_subresource(subresource, &target.name, &params, &patch)
                .await?;
            Ok(Done::Object(Box::new(patched)))
        }
        Step::MergePatch { patch, .. } => {
            let patched = clients
                .lacks
                .merge_patch(&api, target, patch, clients.manager_at(target.site))
                .await?;
            Ok(Done::Object(Box::new(patched)))
        }
        Step::Delete { uid, propagation, .. } => {
            let params = DeleteParams {
                preconditions: uid.clone().map(|uid| Preconditions {
                    uid: Some(uid),
                    resource_version: None,
                }),
                propagation_policy: propagation.map(|it| match it {
                    Propagation::Orphan => PropagationPolicy::Orphan,
                    Propagation::Background => PropagationPolicy::Background,
                    Propagation::Foreground => PropagationPolicy::Foreground,
                }),
                ..DeleteParams::default()
            };
            match api.delete(&target.name, &params).await {
                Ok(answer) => Ok(answer
                    .left()
                    .map_or(Done::Gone, |object| Done::Object(Box::new(object)))),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Done::Gone),
                Err(error) => Err(error.into()),
            }
        }
        Step::CreateSubresource {
            subresource, object, ..
        } => {
            let params = clients.post_params(target.site);
            let created = api
                .create_subresource(subresource, &target.name, &params, object)
                .await?;
            Ok(Done::Object(Box::new(created)))
        }
        Step::Event(_) | Step::Own(_) => unreachable!("they were handled above"),
    }
}

/// Creates or replaces an object with strict validation, which the client's own calls do not offer: `request` is that
/// of [`kube::core::Request::create`] or `replace`.
///
/// # Errors
/// What the API server says.
pub async fn strictly<T: DeserializeOwned>(
    client: &Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<T, kube::Error> {
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    let uri = request.uri().to_string();
    let uri = format!("{}&fieldValidation=Strict", uri.trim_end_matches('&'));
    *request.uri_mut() = uri
        .parse()
        .map_err(|error: http::uri::InvalidUri| kube::Error::HttpError(error.into()))?;
    client.request(request).await
}

async fn create(
    clients: &Clients,
    api: &Api<DynamicObject>,
    target: &Target,
    object: &Value,
) -> Result<Result<DynamicObject, kube::Error>, StepError> {
    let params = clients.post_params(target.site);
    if !clients.is_strict(target.site) {
        return Ok(api.create(&params, &dynamic(object)?).await);
    }
    let body = serde_json::to_vec(object).map_err(StepError::Malformed)?;
    let request = Request::new(api.resource_url()).create(&params, body);
    Ok(clients.strictly(target, request).await)
}

async fn tell(clients: &Clients, step: &EventStep) -> Result<Done, StepError> {
    let client = clients.at(step.site)?;
    if !clients.spoken.allows(step) {
        debug!(reason = %step.reason, note = %step.note, "one of too many events about the object");
        return Ok(Done::Told);
    }
    let of = |group: &str| {
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", "Event"), "events");
        Api::namespaced_with(client.clone(), &encoded(&step.namespace), &resource)
    };
    // The name must be new each time; upstream uses the time in nanoseconds, which two writers can share.
    let name = step.regarding.get("name").and_then(Value::as_str).unwrap_or("event");
    let suffix: u64 = rand::rng().random();
    let event = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": { "name": format!("{name}.{suffix:016x}"), "namespace": step.namespace },
        "eventTime": micro(step.at),
        "type": match step.kind { EventKind::Normal => "Normal", EventKind::Warning => "Warning" },
        "reason": step.reason,
        "action": step.action,
        "note": step.note,
        "regarding": step.regarding,
        "related": step.related,
        "reportingController": step.reporting_controller,
        "reportingInstance": step.reporting_controller,
    });
    if let Err(error) = clients.lacks.event(step.site, of, &event).await {
        warn!(reason = %step.reason, %error, "event not sent");
    }
    Ok(Done::Told)
}

fn micro(at: jiff::Timestamp) -> String {
    format!("{at:.6}")
}

/// The target, its texts as a URL has them: names come from whoever wrote a spec.
fn in_url(target: &Target) -> Target {
    let resource = &target.api_resource;
    Target {
        site: target.site,
        api_resource: ApiResource {
            api_version: encoded_api_version(&resource.api_version).into_owned(),
            plural: encoded(&resource.plural).into_owned(),
            ..resource.clone()
        },
        namespace: target.namespace.as_deref().map(|it| encoded(it).into_owned()),
        name: encoded(&target.name).into_owned(),
    }
}

fn api(clients: &Clients, target: &Target) -> Result<Api<DynamicObject>, StepError> {
    let client = clients.at(target.site)?.clone();
    Ok(match &target.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &target.api_resource),
        None => Api::all_with(client, &target.api_resource),
    })
}

fn dynamic(object: &Value) -> Result<DynamicObject, StepError> {
    serde_json::from_value(object.clone()).map_err(StepError::Malformed)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;

    use super::*;

    /// What was carried out of a write that fails, a step of the reconciler's own that may fail, and one more; and how
    /// many steps had been tried after each stage.
    async fn carried_out(stages_go_on: bool, own_fails: bool) -> (Vec<&'static str>, Vec<usize>) {
        let mut plan = Plan::new();
        plan.push(Step::Delete {
            target: Target::named::<Namespace>(Site::Hub, "a"),
            uid: None,
            propagation: None,
        });
        plan.stage().perform("first", "a");
        plan.stage().perform("second", "a");
        let (verbs, tried) = (parking_lot::Mutex::new(vec![]), parking_lot::Mutex::new(vec![]));
        let perform = |own: OwnStep| -> BoxFuture<'_, Result<Done, StepError>> {
            verbs.lock().push(own.verb);
            Box::pin(async move {
                match own_fails {
                    true => Err(StepError::Own("no".to_owned())),
                    false => Ok(Done::Performed),
                }
            })
        };
        let manner = Manner {
            at_once: 1,
            stages_go_on,
            perform: &perform,
            stage_done: &|so_far| {
                assert_eq!(so_far.results_of_last_stage().count(), 1);
                tried.lock().push(so_far.results().count());
            },
        };
        // Without a client every write fails.
        let outcome = execute_with(&Clients::default(), Arc::new(plan), &manner).await;
        assert_eq!(outcome.results().count() + outcome.skipped, 3);
        (verbs.into_inner(), tried.into_inner())
    }

    #[tokio::test]
    async fn a_failed_write_keeps_nothing_from_stages_that_go_on() {
        assert_eq!(carried_out(false, false).await, (vec![], vec![1]));
        assert_eq!(carried_out(true, false).await, (vec!["first", "second"], vec![1, 2, 3]));
    }

    #[tokio::test]
    async fn a_failed_own_step_stops_every_plan() {
        assert_eq!(carried_out(true, true).await, (vec!["first"], vec![1, 2]));
    }
}
