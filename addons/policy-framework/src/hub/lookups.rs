//! What hub templates look up: each query is a watch, and a change wakes the replicas that it matters to.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use ocm_addon_sdk::{
    kube::{
        self, Api, Client, ResourceExt,
        api::ListParams,
        core::{ApiResource, DynamicObject},
    },
    ocm_api::selector_text,
    reconcile::{discovery, dynamic::WatchRefused, segment::encoded},
};
use parking_lot::Mutex;
use policy_template::{Answers, KindReply, LookupError, Query, Reply};
use serde_json::Value;

use crate::cluster::objects::{ANY, Interested, ObjectsAsked, WatchedObjects, Whereabouts};

/// After this time it is asked again whether a kind has come.
const KINDS_KEPT: Duration = Duration::from_secs(10);

/// A kind as the hub serves it.
#[derive(Clone, Debug)]
struct HubKind {
    resource: ApiResource,
    namespaced: bool,
}

type KindsOfVersion = Arc<HashMap<String, HubKind>>;

/// Look-ups with the rights of one identity. Cloning shares them.
#[derive(Clone)]
pub struct Lookups {
    client: Client,
    /// What is watched.
    pub objects: WatchedObjects,
    kinds: Arc<Mutex<HashMap<String, (Instant, KindsOfVersion)>>>,
}

impl Lookups {
    /// With the rights of this client.
    pub fn new(client: Client, objects: WatchedObjects) -> Self {
        Self {
            client,
            objects,
            kinds: Arc::default(),
        }
    }

    /// Finds out what was asked, for a replica; `asked` collects what it is interested in.
    pub async fn find(&self, answers: &mut Answers, query: &Query, by: &Interested, asked: &mut ObjectsAsked) {
        let named = (query.api_version.clone(), query.kind.clone());
        let kind = match self.kind(&query.api_version, &query.kind).await {
            Ok(Some(kind)) => kind,
            Ok(None) => {
                answers.kinds.insert(named, KindReply::Missing);
                return;
            }
            Err(error) => {
                answers.kinds.insert(named, KindReply::Failed(failed(&error, query)));
                return;
            }
        };
        let plural = kind.resource.plural.clone();
        answers.kinds.insert(
            named,
            KindReply::Known {
                plural,
                namespaced: kind.namespaced,
            },
        );
        let namespace = Some(query.namespace.as_str()).filter(|it| kind.namespaced && !it.is_empty());
        let reply = self.reply(query, &kind, namespace, by, asked).await;
        answers.replies.insert(query.clone(), reply);
    }

    async fn reply(
        &self,
        query: &Query,
        kind: &HubKind,
        namespace: Option<&str>,
        by: &Interested,
        asked: &mut ObjectsAsked,
    ) -> Reply {
        if query.name.is_empty() {
            let selector = match selector_text::read(&query.selector) {
                Ok(selector) => selector,
                Err(error) => return Reply::Failed(LookupError::Final(error)),
            };
            let at = Whereabouts::all(&kind.resource, namespace);
            asked.insert((at.clone(), ANY.to_owned()));
            return match self.objects.list_watched(&at, by).await {
                Ok(mut found) => {
                    found.retain(|it| selector.matches(|key| it.labels().get(key).map(String::as_str)));
                    found.sort_by_key(|it| (it.metadata.namespace.clone(), it.metadata.name.clone()));
                    Reply::List(found.iter().map(|it| Arc::new(whole(it))).collect())
                }
                Err(error) => Reply::Failed(self.why(query, kind, namespace, error).await),
            };
        }
        // One object alone: rights may be for its name.
        let at = Whereabouts::only(&kind.resource, namespace, &query.name);
        asked.insert((at.clone(), query.name.clone()));
        match self.objects.get(&at, &query.name, by).await {
            Ok(found) => Reply::Object(found.map(|it| Arc::new(whole(&it)))),
            Err(error) => Reply::Failed(self.why(query, kind, namespace, error).await),
        }
    }

    /// Asks once more without a watch, for the server's own words.
    async fn why(&self, query: &Query, kind: &HubKind, namespace: Option<&str>, error: WatchRefused) -> LookupError {
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), &encoded(namespace), &kind.resource),
            None => Api::all_with(self.client.clone(), &kind.resource),
        };
        let its = match query.name.as_str() {
            "" => ListParams::default(),
            name => ListParams::default().fields(&format!("metadata.name={name}")),
        };
        match api.list_metadata(&its.limit(1)).await {
            Err(error) => failed(&error, query),
            // It was a matter of moments.
            Ok(_) => LookupError::Passing(error.to_string()),
        }
    }

    async fn kind(&self, api_version: &str, kind: &str) -> Result<Option<HubKind>, kube::Error> {
        let known = self.kinds.lock().get(api_version).cloned();
        if let Some((at, kinds)) = known
            && (kinds.contains_key(kind) || at.elapsed() < KINDS_KEPT)
        {
            return Ok(kinds.get(kind).cloned());
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let listed = discovery::resources(&self.client, api_version).await?;
        let of_kind = listed.into_iter().map(|it| {
            let resource = ApiResource {
                api_version: api_version.to_owned(),
                group: group.to_owned(),
                version: version.to_owned(),
                kind: it.kind.clone(),
                plural: it.name,
            };
            (
                it.kind,
                HubKind {
                    resource,
                    namespaced: it.namespaced,
                },
            )
        });
        let kinds: KindsOfVersion = Arc::new(of_kind.collect());
        let found = kinds.get(kind).cloned();
        self.kinds
            .lock()
            .insert(api_version.to_owned(), (Instant::now(), kinds));
        Ok(found)
    }
}

/// The object with its apiVersion and kind, without what nobody looks up.
fn whole(object: &DynamicObject) -> Value {
    let mut object = object.clone();
    object.metadata.managed_fields = None;
    serde_json::to_value(object).unwrap_or_default()
}

/// An error of the hub's API server, in the words of upstream.
fn failed(error: &kube::Error, query: &Query) -> LookupError {
    let kube::Error::Api(status) = error else {
        return LookupError::Passing(error.to_string());
    };
    match status.code {
        401 | 403 => {
            let (group, version) = query
                .api_version
                .split_once('/')
                .unwrap_or(("", query.api_version.as_str()));
            let group_version = if group.is_empty() {
                version.to_owned()
            } else {
                format!("{group}/{version}")
            };
            LookupError::Final(format!(
                "{}: ensure the client has the list and watch permissions for the query: GroupVersion={group_version}, \
                 Kind={}, Namespace={}, Name={}",
                status.message, query.kind, query.namespace, query.name
            ))
        }
        429 | 500.. => LookupError::Passing(status.message.clone()),
        _ => LookupError::Final(status.message.clone()),
    }
}
