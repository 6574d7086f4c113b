//! Deploys what Subscriptions take from their sources.
//!
//! Root: Subscription on the cluster. Reads: its Channel on the hub with Secret and ConfigMap, its source, the objects
//! that are to be there, its SubscriptionStatus, HelmReleases. Writes: those objects, its SubscriptionStatus, its
//! status. Never: objects of others; and nothing is deleted because a source could not be read.
//! Upstream: multicloud-operators-subscription pkg/subscriber, pkg/synchronizer/kubernetes.

mod conclusion;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret},
    kube::{Client, ResourceExt, core::ApiResource},
    ocm_api::apps::{ChannelType, HelmRelease, Subscription, SubscriptionStatus, SubscriptionUnitStatus, annotations},
    reconcile::{
        Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Step, StepId, Target, Watches,
        agreement, async_trait,
        cache::{key_of, split_key},
        caches::put_written,
        rbac::Right,
    },
};
use parking_lot::Mutex;
use serde_json::Value;

use conclusion::{concluded, is_any_overtaken, results, say};

use super::{
    channels,
    decide::{self, DeployDecision, LastDeployed},
    desired::{self, DeploymentRules, ObjectToDeploy, RefusedObject},
    due::{self, LookDue, LooksBefore},
    statuses,
};
use crate::{
    api::ServedObjects,
    source::{ChannelInputs, SourceReader},
    window::{self, WindowState},
};

/// How many objects are looked at together.
const LOOKS_AT_ONCE: usize = 16;
/// A kind whose definition is in the source is waited for in so many rounds.
const ROUNDS_MAX: u32 = 12;
/// How long the first of them waits; each next one twice as long, up to a second.
const FIRST_WAIT: Duration = Duration::from_millis(25);

/// Why a status field has two authors.
const ON_CLUSTERS: &str = "of the copies on clusters; those on the hub are the hub's";

/// Where Subscriptions are deployed.
#[derive(Clone)]
pub struct DeploySite {
    /// The name of the cluster.
    pub cluster: String,
    /// Whether there is no hub: then Subscriptions are those of users, and Channels are here.
    pub standalone: bool,
}

/// The reconciler.
pub struct SubscriptionDeployment {
    site: Arc<DeploySite>,
    /// The API server with the Channels.
    channels: Client,
    objects: ServedObjects,
    reader: Arc<dyn SourceReader>,
    subscriptions: Cache<Subscription>,
    statuses: Cache<SubscriptionStatus>,
    releases: Cache<HelmRelease>,
    memory: Mutex<HashMap<String, DeploymentMemory>>,
}

/// What this process knows of a Subscription.
#[derive(Clone, Default)]
struct DeploymentMemory {
    looks: LooksBefore,
    written: Arc<HashMap<ObjectId, LastDeployed>>,
    /// What became of the objects of the source.
    units: Arc<Vec<SubscriptionUnitStatus>>,
    /// The HelmReleases of the source.
    releases: Arc<BTreeSet<(String, String)>>,
    /// Why it is not deployed.
    failure: Option<String>,
    /// What of that is about the source, and not about an object.
    source_failure: Option<String>,
}

impl DeploymentMemory {
    /// A look at the source that brought no objects has ended so: why it failed, or that nothing is new.
    fn source_says(&mut self, failure: Option<&str>) {
        self.failure = failure.map(str::to_owned);
        self.source_failure.clone_from(&self.failure);
    }
}

/// An object: API version, kind, namespace and name.
type ObjectId = (String, String, String, String);

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// Where it is.
    pub site: Arc<DeploySite>,
    /// The Subscription; `None` when it is gone.
    pub subscription: Option<Arc<Subscription>>,
    /// Its SubscriptionStatus.
    pub status: Option<Arc<SubscriptionStatus>>,
    /// Its time window.
    pub window: WindowState,
    /// Whether it is time to look at the source.
    pub due: LookDue,
    /// What the source holds, when it was looked at.
    pub looked: SourceLook,
    /// The HelmReleases that it has deployed.
    pub releases: Vec<Arc<HelmRelease>>,
    inputs: u64,
    memory: DeploymentMemory,
}

/// What a look at a source has found.
pub enum SourceLook {
    /// Nobody looked.
    Not,
    /// There is no Channel, or it cannot be read.
    NoChannel(String),
    /// The source cannot be read.
    Failed(String),
    /// It holds what is deployed.
    Unchanged,
    /// It holds this.
    Content(Box<Deployment>),
}

/// A deployment under way.
pub struct Deployment {
    revision: String,
    rate: Option<String>,
    channel: Option<ChannelType>,
    items: Vec<DeploymentItem>,
    /// What was deployed before and is not in the source.
    stale: Vec<StaleObject>,
    /// Namespaces that are not there.
    namespaces: Vec<Value>,
    problems: Vec<String>,
    /// The Channel's Secret and ConfigMap, where charts are read with them.
    copies: Vec<CopiedObject>,
    round: u32,
}

struct CopiedObject {
    target: Target,
    object: Value,
    live: Option<Value>,
}

struct DeploymentItem {
    template: Value,
    wanted: Result<ObjectToDeploy, RefusedObject>,
    live: Option<Value>,
    /// Why it could not be looked at.
    unseen: Option<String>,
    /// What became of it in a round before.
    done: Option<Result<Option<LastDeployed>, String>>,
}

struct StaleObject {
    unit: SubscriptionUnitStatus,
    resource: Option<ApiResource>,
    live: Option<Value>,
    unseen: Option<String>,
}

impl SubscriptionDeployment {
    /// Over the caches of the cluster. `channels` is a client of the API server with the Channels.
    pub fn new(
        caches: &Caches,
        site: DeploySite,
        channels: Client,
        cluster: Client,
        reader: Arc<dyn SourceReader>,
    ) -> Self {
        Self {
            site: Arc::new(site),
            channels,
            objects: ServedObjects::new(cluster),
            reader,
            subscriptions: caches.of(),
            statuses: caches.of(),
            releases: caches.of(),
            memory: Mutex::default(),
        }
    }

    fn is_ours(site: &DeploySite, subscription: &Subscription) -> bool {
        let is_hosted = subscription.annotation(annotations::HOSTING_SUBSCRIPTION).is_some();
        subscription.is_local() && is_hosted != site.standalone
    }

    async fn look(
        &self,
        subscription: &Subscription,
        memory: &DeploymentMemory,
        anew: bool,
        stale: &Stale<'_>,
    ) -> SourceLook {
        let inputs = match channels::read(&self.channels, &self.objects.client, subscription).await {
            Ok(inputs) => inputs,
            Err(why) => return SourceLook::NoChannel(why),
        };
        let known = memory.looks.revision.as_deref().filter(|_| !anew);
        let content = match self.reader.read(subscription, &inputs, known).await {
            Ok(Some(content)) => content,
            Ok(None) => return SourceLook::Unchanged,
            Err(why) => return SourceLook::Failed(why),
        };
        let channel = &inputs.primary.channel;
        let delivering = inputs.channel_of(&content);
        let items = content.objects.into_iter().map(DeploymentItem::of).collect();
        let mut deployment = Deployment {
            revision: content.revision,
            rate: channel.annotations().get(annotations::RECONCILE_RATE).cloned(),
            channel: channel.spec.channel_type(),
            items,
            stale: Vec::new(),
            namespaces: Vec::new(),
            problems: content.problems,
            copies: Vec::new(),
            round: 0,
        };
        deployment.copies = self.copies(subscription, delivering, &deployment).await;
        self.look_at_objects(&mut deployment, subscription).await;
        deployment.stale = self.look_at_stale(&deployment, stale).await;
        // The next look asks anew, however soon it comes.
        for item in deployment.items.iter().filter(|it| it.has_no_kind()) {
            let version = item.template["apiVersion"].as_str().unwrap_or_default();
            self.objects.forget_kinds(version);
        }
        SourceLook::Content(Box::new(deployment))
    }

    /// HelmReleases read their charts with what the Channel refers to; without them nothing is copied.
    async fn copies(
        &self,
        subscription: &Subscription,
        channel: &ChannelInputs,
        deployment: &Deployment,
    ) -> Vec<CopiedObject> {
        if !deployment
            .items
            .iter()
            .any(|it| it.template["kind"] == HelmRelease::KIND)
        {
            return Vec::new();
        }
        let of = |kind: &str, object: Option<Value>| {
            let mut object = object?;
            object["apiVersion"] = "v1".into();
            object["kind"] = kind.into();
            object["metadata"] = serde_json::json!({
                "name": object["metadata"]["name"],
                "namespace": subscription.namespace(),
                "annotations": {annotations::HOSTING_SUBSCRIPTION: key_of(subscription)},
            });
            Some(object)
        };
        let secret = channel.secret.as_deref().and_then(|it| serde_json::to_value(it).ok());
        let settings = channel
            .config_map
            .as_deref()
            .and_then(|it| serde_json::to_value(it).ok());
        let mut copies = Vec::new();
        let namespace = subscription.namespace().unwrap_or_default();
        for (object, resource) in [
            (of("Secret", secret), ApiResource::erase::<Secret>(&())),
            (of("ConfigMap", settings), ApiResource::erase::<ConfigMap>(&())),
        ] {
            let Some(object) = object else { continue };
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            copies.push(CopiedObject {
                live: self.objects.get(&resource, &namespace, &name).await.ok().flatten(),
                target: Target {
                    site: Site::Cluster,
                    api_resource: resource,
                    namespace: Some(namespace.clone()),
                    name,
                },
                object,
            });
        }
        copies
    }

    /// The objects as they are on the cluster, those that are not done.
    async fn look_at_objects(&self, deployment: &mut Deployment, subscription: &Subscription) {
        let rules = DeploymentRules {
            subscription,
            cluster: &self.site.cluster,
            may_be_admin: deployment.channel != Some(ChannelType::ObjectBucket),
        };
        let items = std::mem::take(&mut deployment.items);
        let looks = items.into_iter().map(|item| self.look_at_object(item, &rules));
        deployment.items = stream::iter(looks)
            .buffered(LOOKS_AT_ONCE)
            .filter_map(async |it| it)
            .collect()
            .await;
        deployment.namespaces = self.missing_namespaces(&deployment.items).await;
    }

    async fn look_at_object(&self, mut item: DeploymentItem, rules: &DeploymentRules<'_>) -> Option<DeploymentItem> {
        if item.done.is_some() {
            return Some(item);
        }
        let text = |name: &str| item.template[name].as_str().unwrap_or_default();
        let (kind, unseen) = match self.objects.kind(text("apiVersion"), text("kind")).await {
            Ok(kind) => (kind, None),
            Err(why) => (None, Some(why)),
        };
        item.wanted = rules.wanted(&item.template, kind.as_ref())?;
        item.unseen = unseen;
        if let (Ok(wanted), None) = (&item.wanted, &item.unseen) {
            match self
                .objects
                .get(&wanted.api_resource, &wanted.namespace, &wanted.name)
                .await
            {
                Ok(live) => item.live = live,
                Err(why) => item.unseen = Some(why),
            }
        }
        Some(item)
    }

    /// The namespaces of objects that are neither there nor in the source.
    async fn missing_namespaces(&self, items: &[DeploymentItem]) -> Vec<Value> {
        let wanted = || items.iter().filter_map(|it| it.wanted.as_ref().ok());
        let brought: BTreeSet<&str> = wanted()
            .filter(|it| it.api_resource.kind == "Namespace")
            .map(|it| it.name.as_str())
            .collect();
        let mut of: BTreeMap<&str, &ObjectToDeploy> = BTreeMap::new();
        for one in wanted().filter(|it| !it.namespace.is_empty() && !brought.contains(it.namespace.as_str())) {
            of.entry(&one.namespace).or_insert(one);
        }
        // Where something is already, its namespace is, too.
        for item in items.iter().filter(|it| it.live.is_some()) {
            if let Ok(wanted) = &item.wanted {
                of.remove(wanted.namespace.as_str());
            }
        }
        let namespaces = ApiResource::erase::<Namespace>(&());
        let mut missing = Vec::new();
        for (name, wanted) in of {
            if let Ok(None) = self.objects.get(&namespaces, "", name).await {
                missing.push(desired::namespace(name, wanted));
            }
        }
        missing
    }

    async fn look_at_stale(&self, deployment: &Deployment, stale: &Stale<'_>) -> Vec<StaleObject> {
        let wanted: BTreeSet<_> = deployment.items.iter().map(DeploymentItem::id).collect();
        let units = stale.units(&wanted);
        let looks = units.into_iter().map(async |unit| {
            let kind = self.objects.kind(&unit.api_version, &unit.kind).await;
            let mut stale = StaleObject {
                resource: None,
                live: None,
                unseen: None,
                unit,
            };
            match kind {
                // A kind that is not served has no objects. One that was not served when the object was listed, or
                // whose object was refused, was listed without its namespace.
                Ok(None) => {}
                Ok(Some(kind)) if kind.namespaced && stale.unit.namespace.is_empty() => {}
                Ok(Some(kind)) => {
                    match self
                        .objects
                        .get(&kind.api_resource, &stale.unit.namespace, &stale.unit.name)
                        .await
                    {
                        Ok(live) => stale.live = live,
                        Err(why) => stale.unseen = Some(why),
                    }
                    stale.resource = Some(kind.api_resource);
                }
                Err(why) => stale.unseen = Some(why),
            }
            stale
        });
        stream::iter(looks).buffered(LOOKS_AT_ONCE).collect().await
    }
}

/// What was deployed before.
struct Stale<'a> {
    status: Option<&'a SubscriptionStatus>,
    releases: &'a [Arc<HelmRelease>],
}

impl Stale<'_> {
    fn units(&self, wanted: &BTreeSet<ObjectId>) -> Vec<SubscriptionUnitStatus> {
        let listed = self.status.iter().flat_map(|it| &it.statuses.packages).cloned();
        let releases = self.releases.iter().map(|it| SubscriptionUnitStatus {
            name: it.name_any(),
            namespace: it.namespace().unwrap_or_default(),
            api_version: HelmRelease::API_VERSION.to_owned(),
            kind: HelmRelease::KIND.to_owned(),
            ..SubscriptionUnitStatus::default()
        });
        let mut known = wanted.clone();
        listed.chain(releases).filter(|it| known.insert(id_of(it))).collect()
    }
}

fn id_of(unit: &SubscriptionUnitStatus) -> ObjectId {
    (
        unit.api_version.clone(),
        unit.kind.clone(),
        unit.namespace.clone(),
        unit.name.clone(),
    )
}

impl DeploymentItem {
    fn of(template: Value) -> Self {
        let text = |pointer: &str| {
            template
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let unseen = RefusedObject {
            api_version: text("/apiVersion"),
            kind: text("/kind"),
            namespace: String::new(),
            name: text("/metadata/name"),
            message: String::new(),
        };
        Self {
            template,
            wanted: Err(unseen),
            live: None,
            unseen: None,
            done: None,
        }
    }

    fn id(&self) -> ObjectId {
        match &self.wanted {
            Ok(it) => {
                let resource = &it.api_resource;
                (
                    resource.api_version.clone(),
                    resource.kind.clone(),
                    it.namespace.clone(),
                    it.name.clone(),
                )
            }
            Err(it) => (
                it.api_version.clone(),
                it.kind.clone(),
                it.namespace.clone(),
                it.name.clone(),
            ),
        }
    }

    /// Whether its kind is not there.
    fn has_no_kind(&self) -> bool {
        self.done.is_none()
            && self
                .wanted
                .as_ref()
                .is_err_and(|it| it.message.starts_with("no matches for kind "))
    }

    fn is_definition(&self) -> bool {
        self.template["kind"] == "CustomResourceDefinition"
    }

    /// In which stage it is written: what others need comes first.
    fn stage(&self) -> usize {
        match self.template["kind"].as_str().unwrap_or_default() {
            "CustomResourceDefinition" | "Namespace" => 0,
            "ServiceAccount" | "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding" => 1,
            HelmRelease::KIND => 3,
            _ => 2,
        }
    }
}

/// What a plan's steps are of.
struct Steps {
    /// The step of an item, or why there is none.
    items: Vec<Option<ItemStep>>,
    stale: Vec<Option<StepId>>,
}

enum ItemStep {
    Write(StepId),
    Agrees,
    Failed(String),
}

#[async_trait]
impl Reconciler for SubscriptionDeployment {
    const NAME: &'static str = "subscription-deployment";
    const WORKERS: usize = 4;
    const AT_ONCE: usize = 16;
    const STAGES_GO_ON: bool = true;
    const STATUS: &'static [StatusField] = &[
        StatusField::new(Subscription::KIND, "phase").shared(ON_CLUSTERS),
        StatusField::new(Subscription::KIND, "message").shared(ON_CLUSTERS),
        StatusField::new(Subscription::KIND, "reason").shared(ON_CLUSTERS),
        StatusField::new(Subscription::KIND, "lastUpdateTime").shared(ON_CLUSTERS),
        StatusField::new(Subscription::KIND, "appstatusReference"),
    ];
    const RIGHTS: &'static [Right] = &[Right::new(
        "*",
        "*",
        "*",
        "Subscriptions deploy whatever their sources hold; who may make Subscriptions decides the hub.",
    )];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches
            .root(&self.subscriptions)
            .wakes(&self.statuses, |old, new| match new {
                // Its own writes need no look; that it was deleted or is left over does.
                None => old.map(key_of),
                Some(_) if old.is_none() => new.map(key_of),
                Some(_) => None,
            })
            .wakes(&self.releases, |old, new| {
                let hosting = |it: &HelmRelease| it.annotations().get(annotations::HOSTING_SUBSCRIPTION).cloned();
                old.or(new).and_then(hosting)
            });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let now = Timestamp::now();
        let found = self.subscriptions.get(namespace, name);
        let subscription = found.clone().filter(|it| Self::is_ours(&self.site, it));
        let subscription = subscription.filter(|it| it.metadata.deletion_timestamp.is_none());
        let status = self.statuses.get(namespace, name);
        let hosted = |it: &Arc<HelmRelease>| {
            it.annotations()
                .get(annotations::HOSTING_SUBSCRIPTION)
                .is_some_and(|it| it == key)
        };
        let releases: Vec<_> = self.releases.list().into_iter().filter(hosted).collect();
        let mut seen = Seen {
            now,
            site: self.site.clone(),
            window: window::state(subscription.as_ref().and_then(|it| it.spec.timewindow.as_ref()), now),
            due: LookDue::Never,
            looked: SourceLook::Not,
            memory: self.memory.lock().get(key).cloned().unwrap_or_default(),
            inputs: 0,
            subscription,
            status,
            releases,
        };
        let stale = Stale {
            status: seen.status.as_deref(),
            releases: &seen.releases,
        };
        let Some(subscription) = seen.subscription.clone() else {
            // One that is for other clusters, or of another agent on this one, is not ours to clean up after.
            if found.is_none_or(|it| Self::is_ours(&self.site, &it)) {
                let mut nothing = Deployment::nothing();
                nothing.stale = self.look_at_stale(&nothing, &stale).await;
                seen.looked = SourceLook::Content(Box::new(nothing));
            }
            return Ok(seen);
        };
        seen.inputs = due::inputs(&subscription);
        seen.due = due::due(&seen.memory.looks, seen.inputs, &subscription, now);
        if let LookDue::Now { anew } = seen.due
            && seen.window.is_open
            && !subscription.is_paused()
        {
            seen.looked = self.look(&subscription, &seen.memory, anew, &stale).await;
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        if let Some(subscription) = &seen.subscription {
            if subscription.is_paused() {
                plan.remark("it is paused");
                return plan;
            }
            if let Some(changes) = seen.window.changes_at {
                let until = Duration::try_from(changes.duration_since(seen.now)).unwrap_or_default();
                // Upstream's margin: minutes are counted whole.
                plan.look_again(until + Duration::from_secs(60));
            }
            if !seen.window.is_open {
                plan.wait("its time window is closed");
                return plan;
            }
            if let LookDue::After(wait) = seen.due {
                plan.look_again(wait);
            }
        }
        let SourceLook::Content(deployment) = &seen.looked else {
            return plan;
        };
        deploy(&mut plan, seen, deployment);
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        put_written(&self.releases, outcome);
    }

    fn failure(seen: &Seen, outcome: &Outcome) -> Option<String> {
        // The pace of a Subscription says when what failed is tried again; one that is gone has none.
        (seen.subscription.is_none() && !outcome.succeeded()).then(|| outcome.error_text())
    }

    fn goes_on(seen: &Seen, outcome: &Outcome) -> bool {
        let SourceLook::Content(deployment) = &seen.looked else {
            return false;
        };
        let brings_kinds = deployment.items.iter().any(DeploymentItem::is_definition);
        let waits_for_kinds = brings_kinds && deployment.items.iter().any(DeploymentItem::has_no_kind);
        deployment.may_go_on() && (waits_for_kinds || is_any_overtaken(outcome))
    }

    async fn observe_again(&self, _: &str, mut before: Seen, outcome: &Outcome) -> Result<Seen, ObserveError> {
        let (SourceLook::Content(mut deployment), Some(subscription)) = (
            std::mem::replace(&mut before.looked, SourceLook::Not),
            before.subscription.clone(),
        ) else {
            return Ok(before);
        };
        let results = results(&deployment, outcome);
        for (item, result) in deployment.items.iter_mut().zip(results) {
            item.done = item.done.take().or(result);
        }
        let wait = FIRST_WAIT * 2_u32.pow(deployment.round.min(5));
        deployment.round += 1;
        tokio::time::sleep(wait).await;
        self.look_at_objects(&mut deployment, &subscription).await;
        before.looked = SourceLook::Content(deployment);
        Ok(before)
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(subscription) = seen.subscription.as_deref() else {
            if let (SourceLook::Content(_), Some(status), true) = (&seen.looked, &seen.status, outcome.succeeded()) {
                plan.delete(Site::Cluster, &**status);
            }
            return plan;
        };
        if subscription.is_paused() {
            return plan;
        }
        let memory = concluded(seen, outcome);
        let looks = &memory.looks;
        if looks.last.is_some()
            && let LookDue::After(wait) = due::due(looks, seen.inputs, subscription, seen.now)
        {
            plan.look_again(wait);
        }
        if looks.last.is_some() {
            say(&mut plan, seen, subscription, &memory);
        }
        let failure = memory.failure.as_deref().filter(|_| looks.last.is_some());
        if looks.last.is_some() || !seen.window.is_open {
            let told = match looks.last {
                Some(_) => statuses::told(subscription, failure, seen.window.message(), seen.now),
                None => waiting(subscription, seen),
            };
            plan.status(Site::Cluster, subscription, &told);
        }
        plan.work_out(ConcludedMemory(key_of(subscription), memory));
        plan
    }

    fn concluded(&self, outcome: &Outcome) {
        put_written(&self.statuses, outcome);
        put_written(&self.subscriptions, outcome);
        if let Some(ConcludedMemory(key, memory)) = outcome.worked_out::<ConcludedMemory>() {
            self.memory.lock().insert(key.clone(), memory.clone());
        }
        // What is gone is forgotten.
        let gone = |key: &String| {
            let (namespace, name) = split_key(key);
            self.subscriptions.get(namespace, name).is_none()
        };
        self.memory.lock().retain(|key, _| !gone(key));
    }
}

struct ConcludedMemory(String, DeploymentMemory);

/// Nothing was deployed yet, and the window is closed.
fn waiting(subscription: &Subscription, seen: &Seen) -> Subscription {
    let mut told = subscription.clone();
    seen.window
        .message()
        .clone_into(&mut told.status.get_or_insert_default().message);
    told
}

impl Deployment {
    fn nothing() -> Self {
        Self {
            revision: String::new(),
            rate: None,
            channel: None,
            items: Vec::new(),
            stale: Vec::new(),
            namespaces: Vec::new(),
            problems: Vec::new(),
            copies: Vec::new(),
            round: 0,
        }
    }

    /// Whether there may be another round.
    fn may_go_on(&self) -> bool {
        self.round < ROUNDS_MAX
    }

    /// Whether what is not in it may be deleted: not where part of it could not be read.
    fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }
}

fn deploy(plan: &mut Plan, seen: &Seen, deployment: &Deployment) {
    for namespace in &deployment.namespaces {
        let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
        plan.push(Step::Create {
            target: Target::named::<Namespace>(Site::Cluster, name),
            object: namespace.clone(),
        });
    }
    for copy in deployment.copies.iter().filter(|_| deployment.round == 0) {
        let agrees = copy
            .live
            .as_ref()
            .is_some_and(|live| agreement::agrees(live, &copy.object));
        if !agrees {
            plan.push(Step::Apply {
                target: copy.target.clone(),
                object: copy.object.clone(),
                field_manager: decide::FIELD_MANAGER.to_owned(),
                force: true,
            });
        }
    }
    let mut steps = Steps {
        items: deployment.items.iter().map(|_| None).collect(),
        stale: deployment.stale.iter().map(|_| None).collect(),
    };
    for stage in 0..=3 {
        plan.stage();
        let of_stage = |(_, item): &(usize, &DeploymentItem)| item.done.is_none() && item.stage() == stage;
        for (position, item) in deployment.items.iter().enumerate().filter(of_stage) {
            steps.items[position] = Some(decide_item(plan, seen, item));
        }
    }
    plan.stage();
    if deployment.is_whole() && deployment.round == 0 {
        for (position, stale) in deployment.stale.iter().enumerate() {
            steps.stale[position] = delete(plan, seen, stale);
        }
    }
    plan.work_out(steps);
}

fn decide_item(plan: &mut Plan, seen: &Seen, item: &DeploymentItem) -> ItemStep {
    if let Some(why) = &item.unseen {
        return ItemStep::Failed(why.clone());
    }
    let wanted = match &item.wanted {
        Ok(wanted) => wanted,
        Err(refused) => return ItemStep::Failed(refused.message.clone()),
    };
    match decide::decide(wanted, item.live.as_ref(), seen.memory.written.get(&item.id())) {
        DeployDecision::Agrees => ItemStep::Agrees,
        DeployDecision::Failed(why) => ItemStep::Failed(why),
        DeployDecision::Write(step) => ItemStep::Write(plan.push(*step)),
    }
}

/// Deletes what is ours and not to stay.
fn delete(plan: &mut Plan, seen: &Seen, stale: &StaleObject) -> Option<StepId> {
    let (live, resource) = (stale.live.as_ref()?, stale.resource.clone()?);
    let annotations = &live["metadata"]["annotations"];
    let key = match (&seen.subscription, &seen.status) {
        (Some(it), _) => key_of(&**it),
        (None, Some(it)) => key_of(&**it),
        (None, None) => annotations[annotations::HOSTING_SUBSCRIPTION].as_str()?.to_owned(),
    };
    let stays = annotations[annotations::DO_NOT_DELETE]
        .as_str()
        .is_some_and(|it| it.eq_ignore_ascii_case("true"));
    if annotations[annotations::HOSTING_SUBSCRIPTION] != key
        || stays
        || !live["metadata"]["deletionTimestamp"].is_null()
    {
        return None;
    }
    Some(plan.push(Step::Delete {
        target: Target {
            site: Site::Cluster,
            api_resource: resource,
            namespace: Some(stale.unit.namespace.clone()).filter(|it| !it.is_empty()),
            name: stale.unit.name.clone(),
        },
        uid: live["metadata"]["uid"].as_str().map(str::to_owned),
        propagation: None,
    }))
}
