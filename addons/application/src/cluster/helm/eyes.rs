//! Looks at a cluster for its releases: what is stored of them, and how their objects are. It writes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use application_render::{
    helm::{Capabilities, Chart, KubeVersion, ObjectLookup},
    release::{
        ObjectKey, PreparedRelease, ReleaseHook, ReleaseInputs, ReleaseRevision, StoredRelease, hook_objects, prepare,
    },
};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::{NamespaceResourceScope, api::core::v1::Secret},
    kube::{self, Api, Client, Resource, ResourceExt, api::ListParams},
    ocm_api::{
        apps::{HelmRelease, HelmReleaseRepo},
        object::ObjectReference,
    },
    reconcile::{discovery, segment::encoded},
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{
    chart::{ChartPlace, ChartReader, places},
    operation::{HookObject, ReleaseObject},
};
use crate::api::{ServedObjects, chain, message};

/// How many objects are looked at together.
const LOOKS_AT_ONCE: usize = 16;
/// How long it is known what a cluster can do.
const CAPABILITIES_FOR: Duration = Duration::from_secs(10 * 60);
/// How often a chart is rendered again because it has looked something up that was not known.
const RENDERINGS_MAX: usize = 16;
/// How much a chart may look up.
const LOOKUPS_MAX: usize = 500;

/// What looks.
pub(super) struct Eyes {
    pub objects: ServedObjects,
    charts: Arc<dyn ChartReader>,
    capabilities: Mutex<Option<(Instant, Capabilities)>>,
}

/// A revision that is stored, and when that was.
pub(super) struct RevisionSeen {
    pub revision: ReleaseRevision,
    pub written: Option<Timestamp>,
}

/// What a revision is made of.
#[derive(Clone)]
pub(super) struct ReleaseDraft {
    pub chart: Arc<Chart>,
    pub values: Map<String, Value>,
    pub name: String,
    pub namespace: String,
    pub revision: i64,
    pub is_upgrade: bool,
    /// The time of the templates.
    pub at: Timestamp,
}

/// API version, kind, namespace and name, as a template looks an object up.
type Lookup = (String, String, String, String);

impl Eyes {
    pub fn new(cluster: Client, charts: Arc<dyn ChartReader>) -> Self {
        Self {
            objects: ServedObjects::new(cluster),
            charts,
            capabilities: Mutex::default(),
        }
    }

    /// The revisions of a release that are stored, the first one first.
    pub async fn history(&self, namespace: &str, name: &str) -> Result<Vec<RevisionSeen>, String> {
        let secrets: Api<Secret> = Api::namespaced(self.objects.client.clone(), &encoded(namespace));
        let listed = secrets
            .list_metadata(&ListParams::default().labels(&format!("owner=helm,name={name}")))
            .await
            .map_err(|it| message(&it))?;
        let mut found: Vec<_> = listed
            .items
            .iter()
            .filter_map(|it| {
                let labels = it.metadata.labels.as_ref()?;
                let revision = ReleaseRevision::of_labels(labels)?;
                let seconds = |key: &str| labels.get(key)?.parse().ok();
                let labelled = seconds("modifiedAt").or_else(|| seconds("createdAt"));
                Some(RevisionSeen {
                    written: labelled
                        .and_then(|it| Timestamp::from_second(it).ok())
                        .or_else(|| it.metadata.creation_timestamp.as_ref().map(|it| it.0)),
                    revision,
                })
            })
            .collect();
        found.sort_by(|a, b| a.revision.cmp(&b.revision));
        Ok(found)
    }

    /// A revision that is stored.
    pub async fn revision(&self, namespace: &str, revision: &ReleaseRevision) -> Result<StoredRelease, String> {
        let secrets: Api<Secret> = Api::namespaced(self.objects.client.clone(), &encoded(namespace));
        let secret = secrets.get(&encoded(&revision.secret_name())).await;
        let secret = secret.map_err(|it| message(&it))?;
        let secret = serde_json::to_value(secret).map_err(|it| it.to_string())?;
        let read = tokio::task::spawn_blocking(move || StoredRelease::from_secret(&secret)).await;
        let release = read.map_err(|it| it.to_string())?.map_err(|it| it.to_string())?;
        if release.namespace != namespace {
            return Err(format!(
                "Secret {}: the release in it is of another namespace",
                revision.secret_name()
            ));
        }
        Ok(release)
    }

    /// The chart of a HelmRelease.
    pub async fn chart(&self, release: &HelmRelease) -> Result<Chart, String> {
        let mut told = "the HelmRelease names no source of its chart".to_owned();
        let namespace = release.namespace().unwrap_or_default();
        for (number, place) in places(&release.repo).into_iter().enumerate() {
            let read = async {
                let place = ChartPlace {
                    secret: self.referred(&namespace, place.secret).await?,
                    config_map: self.referred(&namespace, place.config_map).await?,
                    source: place.source,
                    insecure_skip_verify: place.insecure_skip_verify,
                    ..place_of(&release.repo)
                };
                self.charts.read(&place).await
            };
            match read.await {
                Ok(content) => {
                    let chart = tokio::task::spawn_blocking(|| content.chart()).await;
                    return chart.map_err(|it| it.to_string())?.map_err(|it| chain(&it));
                }
                Err(why) if number == 0 => told = why,
                Err(why) => told = format!("{told}; and from the other source: {why}"),
            }
        }
        Err(told)
    }

    async fn referred<K>(&self, namespace: &str, named: Option<&ObjectReference>) -> Result<Option<Arc<K>>, String>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let Some(named) = named.filter(|it| !it.name.is_empty()) else {
            return Ok(None);
        };
        let namespace = match named.namespace.as_str() {
            "" => namespace,
            own => own,
        };
        let api: Api<K> = Api::namespaced(self.objects.client.clone(), &encoded(namespace));
        let found = api.get(&encoded(&named.name)).await;
        found.map(|it| Some(Arc::new(it))).map_err(|it| message(&it))
    }

    /// What the cluster can do.
    pub async fn capabilities(&self) -> Result<Capabilities, String> {
        if let Some((at, known)) = &*self.capabilities.lock()
            && at.elapsed() < CAPABILITIES_FOR
        {
            return Ok(known.clone());
        }
        let asked = async {
            let version = self.objects.client.apiserver_version().await?;
            let mut versions = self.objects.client.list_core_api_versions().await?.versions;
            for group in self.objects.client.list_api_groups().await?.groups {
                versions.extend(group.versions.into_iter().map(|it| it.group_version));
            }
            let asks = versions.into_iter().map(async |version| {
                // A version that does not answer is one of an API that is away; Helm goes on, too.
                let resources = discovery::resources(&self.objects.client, &version)
                    .await
                    .unwrap_or_default();
                let kinds = resources.into_iter().map(|it| format!("{version}/{}", it.kind));
                let kinds: Vec<String> = kinds.collect();
                std::iter::once(version).chain(kinds).collect::<Vec<String>>()
            });
            let asked: Vec<_> = stream::iter(asks).buffered(LOOKS_AT_ONCE).collect().await;
            Ok::<_, kube::Error>(Capabilities {
                kube_version: KubeVersion {
                    version: version.git_version,
                    major: version.major,
                    minor: version.minor,
                },
                api_versions: asked.into_iter().flatten().collect(),
                ..Capabilities::default()
            })
        };
        let found = asked.await.map_err(|it| message(&it))?;
        *self.capabilities.lock() = Some((Instant::now(), found.clone()));
        Ok(found)
    }

    /// The cluster can do more than before.
    pub fn forget_capabilities(&self) {
        *self.capabilities.lock() = None;
    }

    /// Renders a chart. What its templates look up is read between two renderings, so that rendering waits for nobody.
    pub async fn prepared(&self, draft: &ReleaseDraft) -> Result<PreparedRelease, String> {
        let capabilities = self.capabilities().await?;
        let mut answers: BTreeMap<Lookup, Result<Value, String>> = BTreeMap::new();
        for _ in 0..RENDERINGS_MAX {
            let (result, asked) = render(draft.clone(), capabilities.clone(), answers.clone()).await?;
            if asked.is_empty() {
                return result;
            }
            if answers.len() + asked.len() > LOOKUPS_MAX {
                return Err(format!("the chart looks up more than {LOOKUPS_MAX} objects"));
            }
            let looks = asked.into_iter().map(async |it| {
                let found = self.look_up(&it).await;
                (it, found)
            });
            let looked: Vec<_> = stream::iter(looks).buffered(LOOKS_AT_ONCE).collect().await;
            answers.extend(looked);
        }
        Err("the chart looks up one object because of another too often".to_owned())
    }

    async fn look_up(&self, (version, kind, namespace, name): &Lookup) -> Result<Value, String> {
        let Some(kind) = self.objects.kind(version, kind).await? else {
            return Err(format!(
                "unable to get apiresource from unstructured: {version}, Kind={kind}"
            ));
        };
        let namespace = if kind.namespaced { namespace.as_str() } else { "" };
        if !name.is_empty() {
            let found = self.objects.get(&kind.api_resource, namespace, name).await?;
            return Ok(found.unwrap_or_else(|| json!({})));
        }
        let api = self.objects.of(&kind.api_resource, namespace);
        let listed = api.list(&ListParams::default()).await.map_err(|it| message(&it))?;
        let items: Vec<Value> = listed
            .items
            .iter()
            .filter_map(|it| serde_json::to_value(it).ok())
            .collect();
        Ok(json!({"apiVersion": version, "kind": format!("{}List", kind.api_resource.kind), "items": items}))
    }

    /// Objects of a release as they are. `before` are those of the revision before.
    pub async fn objects(&self, wanted: Vec<Value>, before: &[Value], namespace: &str) -> Vec<ReleaseObject> {
        let before: BTreeMap<_, _> = before.iter().map(|it| (ObjectKey::of(it, namespace), it)).collect();
        let looks = wanted.into_iter().map(|object| {
            let before = before.get(&ObjectKey::of(&object, namespace)).copied().cloned();
            self.object(object, before, namespace)
        });
        stream::iter(looks).buffered(LOOKS_AT_ONCE).collect().await
    }

    /// The same objects as they are now.
    pub async fn again(&self, objects: Vec<ReleaseObject>, namespace: &str) -> Vec<ReleaseObject> {
        let looks = objects
            .into_iter()
            .map(|it| self.object(it.wanted, it.before, namespace));
        stream::iter(looks).buffered(LOOKS_AT_ONCE).collect().await
    }

    async fn object(&self, wanted: Value, before: Option<Value>, namespace: &str) -> ReleaseObject {
        let mut object = ReleaseObject {
            wanted,
            before,
            ..ReleaseObject::default()
        };
        without_nulls(&mut object.wanted);
        let text = |name: &str| object.wanted[name].as_str().unwrap_or_default();
        match self.objects.kind(text("apiVersion"), text("kind")).await {
            Ok(kind) => object.kind = kind,
            Err(why) => object.unseen = Some(why),
        }
        let Some(kind) = &object.kind else { return object };
        if let Some(metadata) = object.wanted["metadata"].as_object_mut() {
            if !kind.namespaced {
                metadata.remove("namespace");
            } else if metadata
                .get("namespace")
                .and_then(Value::as_str)
                .is_none_or(str::is_empty)
            {
                metadata.insert("namespace".to_owned(), json!(namespace));
            }
        }
        let Some(target) = object.target() else { return object };
        let namespace = target.namespace.as_deref().unwrap_or_default();
        match self.objects.get(&target.api_resource, namespace, &target.name).await {
            Ok(live) => object.live = live,
            Err(why) => object.unseen = Some(why),
        }
        object
    }

    /// The hooks of a release. How their objects are is nobody's concern: they are made anew.
    pub async fn hooks(&self, hooks: &[ReleaseHook], namespace: &str) -> Vec<HookObject> {
        let mut found = Vec::new();
        for hook in hooks.iter().filter(|it| !it.needs_pods()) {
            for object in hook_objects(hook).unwrap_or_default() {
                let mut object = self.object(object, None, namespace).await;
                object.live = None;
                found.push(HookObject {
                    hook: hook.clone(),
                    object,
                });
            }
        }
        found
    }
}

fn place_of(repo: &HelmReleaseRepo) -> ChartPlace {
    ChartPlace {
        source: repo.source.clone().unwrap_or_default(),
        chart_name: repo.chart_name.clone(),
        version: repo.version.clone(),
        digest: repo.digest.clone(),
        secret: None,
        config_map: None,
        insecure_skip_verify: repo.insecure_skip_verify,
    }
}

/// One rendering, and what it has looked up and nobody knew.
async fn render(
    draft: ReleaseDraft,
    capabilities: Capabilities,
    answers: BTreeMap<Lookup, Result<Value, String>>,
) -> Result<(Result<PreparedRelease, String>, BTreeSet<Lookup>), String> {
    let rendered = tokio::task::spawn_blocking(move || {
        let asked: Arc<Mutex<BTreeSet<Lookup>>> = Arc::default();
        let asking = asked.clone();
        let lookup: ObjectLookup = Arc::new(move |version, kind, namespace, name| {
            let key = [version, kind, namespace, name].map(str::to_owned);
            let key: Lookup = key.into();
            match answers.get(&key) {
                Some(known) => known.clone(),
                None => {
                    let mut asking = asking.lock();
                    if asking.len() <= LOOKUPS_MAX {
                        asking.insert(key);
                    }
                    Ok(json!({}))
                }
            }
        });
        let at = draft.at;
        let prepared = prepare(&ReleaseInputs {
            chart: &draft.chart,
            values: &draft.values,
            name: &draft.name,
            namespace: &draft.namespace,
            revision: draft.revision,
            is_upgrade: draft.is_upgrade,
            capabilities: &capabilities,
            lookup: Some(lookup),
            clock: Some(Arc::new(move || at)),
            random: None,
        });
        let asked = std::mem::take(&mut *asked.lock());
        (prepared.map_err(|it| chain(&it)), asked)
    });
    rendered.await.map_err(|it| it.to_string())
}

// A server that applies takes a null for a value; in a chart it says that there is none.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, it| !it.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}
