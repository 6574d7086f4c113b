//! Installs the operator of Argo CD on a cluster and keeps it as it is meant to be.
//!
//! Root: none; there is one operator. Reads: the ConfigMap that pauses it. Writes: the definitions of Argo CD's kinds
//! where there are none, the namespaces, and the objects of the operator. Never: what is annotated as to be skipped; a
//! definition that is there; what is not among the objects.
//! Upstream: argocd-pull-integration `internal/addon/addon_install.go`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ocm_addon_sdk::{
    k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube::{
        Client, ResourceExt,
        core::{DynamicObject, PartialObjectMeta},
    },
    reconcile::{
        Cache, Caches, Done, DynamicWatches, ObserveError, Outcome, Plan, Reconciler, Site, Step, Target, Watches,
        async_trait, dynamic::Inquiry, plan::typed, rbac::Right,
    },
};

use super::{
    ArgoOperatorSettings, KEY, is_skipped, kinds,
    operator::{self, ArgoOperatorObject},
    pause::{self, PauseMarker},
};

/// The reconciler.
pub struct OperatorInstallation {
    pause: PauseMarker,
    definitions: Cache<PartialObjectMeta<CustomResourceDefinition>>,
    watches: DynamicWatches,
    namespaces: Vec<ArgoOperatorObject>,
    objects: Vec<ArgoOperatorObject>,
    interval: Duration,
}

/// An object as it is to be, and as it is.
pub struct SeenObject {
    /// As it is to be.
    pub wanted: ArgoOperatorObject,
    /// As it is; `None` when it is not there.
    pub present: Option<Arc<DynamicObject>>,
}

/// What a plan is made from.
pub struct Seen {
    /// Whether nothing is to be done.
    pub is_paused: bool,
    /// The names of the definitions that are there.
    pub definitions: BTreeSet<String>,
    /// The namespaces.
    pub namespaces: Vec<SeenObject>,
    /// The objects of the operator.
    pub objects: Vec<SeenObject>,
    /// When to look again.
    pub interval: Duration,
}

impl OperatorInstallation {
    /// On the cluster of this client and these caches.
    pub fn new(client: &Client, caches: &Caches, settings: &ArgoOperatorSettings) -> Self {
        Self {
            pause: PauseMarker::new(client, caches, &settings.namespaces.operator),
            definitions: caches.of(),
            watches: DynamicWatches::new(client.clone(), caches.cancel_token().clone()),
            namespaces: operator::namespaces(&settings.namespaces),
            objects: operator::objects(settings),
            interval: settings.sync_interval,
        }
    }
}

async fn seen(inquiry: &Inquiry, all: &[ArgoOperatorObject]) -> Result<Vec<SeenObject>, ObserveError> {
    let mut seen = Vec::new();
    for wanted in all {
        let Target {
            api_resource,
            namespace,
            name,
            ..
        } = &wanted.target;
        seen.push(SeenObject {
            present: inquiry.get(api_resource, namespace.as_deref(), name).await?,
            wanted: wanted.clone(),
        });
    }
    Ok(seen)
}

#[async_trait]
impl Reconciler for OperatorInstallation {
    const NAME: &'static str = "argocd-operator-installation";
    const RIGHTS: &'static [Right] = &[
        Right::new("", "configmaps", "get", "Whether it is paused."),
        Right::new(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "create",
            "Argo CD's kinds, where nobody has brought them.",
        ),
        Right::new(
            "",
            "namespaces serviceaccounts",
            "get list watch create patch",
            "The operator and Argo CD live there.",
        ),
        Right::new("apps", "deployments", "get list watch create patch", "The operator."),
        Right::new(
            "rbac.authorization.k8s.io",
            "roles rolebindings clusterroles clusterrolebindings",
            "get list watch create patch bind escalate",
            "What the operator may do.",
        ),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        self.pause.wake(watches);
        let names: BTreeSet<String> = kinds::definitions().iter().filter_map(kinds::name_of).collect();
        watches.wakes(&self.definitions, move |old, new| {
            // Only whether one is there makes a difference.
            let changed = old.xor(new).filter(|it| names.contains(&it.name_any()));
            changed.map(|_| KEY.to_owned())
        });
        let of_objects = self.watches.clone();
        watches.signal("the objects of the operator", move |queue| {
            of_objects.wake(queue);
            queue.add(KEY);
        });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let inquiry = self.watches.inquiry(key);
        let namespaces = seen(&inquiry, &self.namespaces).await?;
        let objects = seen(&inquiry, &self.objects).await?;
        inquiry.finish();
        Ok(Seen {
            definitions: self.definitions.list().iter().map(|it| it.name_any()).collect(),
            namespaces,
            objects,
            interval: self.interval,
            is_paused: self.pause.is_on().await?,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        plan.look_again(seen.interval);
        if seen.is_paused {
            pause::remark(&mut plan);
            return plan;
        }
        for definition in kinds::definitions() {
            let name = kinds::name_of(&definition).filter(|it| !seen.definitions.contains(it));
            if let Some(name) = name {
                plan.push(Step::Create {
                    target: Target::named::<CustomResourceDefinition>(Site::Cluster, &name),
                    object: definition,
                });
            }
        }
        for all in [&seen.namespaces, &seen.objects] {
            plan.stage();
            all.iter().for_each(|it| keep(&mut plan, it));
        }
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        for (step, result) in outcome.results() {
            if let (Some(target), Ok(Done::Object(object))) = (step.target(), result) {
                self.watches.put(&target.api_resource, object);
            }
        }
    }
}

/// Creates an object, or brings what it is to say into the one that is there.
fn keep(plan: &mut Plan, it: &SeenObject) {
    let ArgoOperatorObject { target, object } = &it.wanted;
    let present = it.present.as_deref();
    if present.is_some_and(|it| is_skipped(it.annotations())) {
        plan.remark(format!("{target} is annotated as to be skipped"));
        return;
    }
    let present = present.map(|it| typed(it, &target.api_resource));
    plan.keep_value(target.clone(), present.as_ref(), object);
}
