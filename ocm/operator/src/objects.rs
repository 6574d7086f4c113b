//! The objects that an operator keeps in place: what is to be there, what is there, and the plan that makes the one of
//! the other.
//!
//! ```text
//! Stage { reason, keep: [Object], remove: [Target] } --look--> Current --plan--> Plan --execute--> Outcome
//!                                                                                    generations, failure <--+
//! ```
//!
//! Upstream: ocm `pkg/operator/helpers/helpers.go`, `ApplyDirectly`, `ApplyDeployment`, `GenerateRelatedResource`.
//! Deployments are written whole when somebody else has changed them, or when they are to be otherwise; of all other
//! objects the difference alone is.

use std::collections::{HashMap, HashSet};

use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use ocm_api::{
    annotations,
    operator::{GenerationStatus, RelatedResourceMeta},
};
use ocm_reconcile::{Clients, Outcome, Plan, Site, Step, Target, difference::contains, execute::sentence, plan::typed};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// How many objects are read at a time: a remote API server answers each in a round trip.
const PARALLEL: usize = 8;

/// The kinds that operators make: API version, kind, plural.
const KINDS: &[(&str, &str, &str)] = &[
    ("v1", "Namespace", "namespaces"),
    ("v1", "ServiceAccount", "serviceaccounts"),
    ("v1", "Secret", "secrets"),
    ("v1", "ConfigMap", "configmaps"),
    ("v1", "Service", "services"),
    ("v1", "Endpoints", "endpoints"),
    ("apps/v1", "Deployment", "deployments"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles"),
    (
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
    ),
    ("rbac.authorization.k8s.io/v1", "Role", "roles"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
    ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
    (
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    ),
    (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ),
];

/// One object that is to be in place, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedObject {
    /// Where.
    pub target: Target,
    /// The manifest, with API version and kind.
    pub manifest: Value,
}

impl WantedObject {
    /// Of a manifest of one of the kinds that operators make.
    pub fn new(site: Site, manifest: Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &manifest["metadata"];
        let target = target(
            site,
            &text(&manifest["kind"]),
            metadata["namespace"].as_str(),
            &text(&metadata["name"]),
        );
        Self { target, manifest }
    }
}

/// The target of one of the kinds that operators make.
pub fn target(site: Site, kind: &str, namespace: Option<&str>, name: &str) -> Target {
    let found = KINDS.iter().find(|it| it.1 == kind);
    let (api_version, kind, plural) = found.expect("the table has every kind that an operator makes");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Target {
        site,
        api_resource: ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: (*api_version).to_owned(),
            kind: (*kind).to_owned(),
            plural: (*plural).to_owned(),
        },
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}

/// Objects that are written together: what comes in a later stage is tried only if all of these succeeded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stage {
    /// What a condition gives as its reason when one of them cannot be written, such as `HubResourceApplyFailed`.
    pub reason: &'static str,
    /// What is to be there.
    pub keep: Vec<WantedObject>,
    /// What is not to be there.
    pub remove: Vec<Target>,
}

impl Stage {
    /// Of nothing yet.
    pub fn new(reason: &'static str) -> Self {
        Self {
            reason,
            ..Self::default()
        }
    }

    /// Everything that has to be read before it can be planned.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.keep.iter().map(|it| &it.target).chain(&self.remove)
    }
}

/// The APIs that an operator writes to. In the Default modes all of them are the same.
#[derive(Clone, Default)]
pub struct Apis {
    /// Of the hub.
    pub hub: Option<Client>,
    /// Of the managed cluster.
    pub cluster: Option<Client>,
    /// Of the cluster that the operator runs on.
    pub management: Option<Client>,
}

impl Apis {
    /// The client of one of them.
    pub fn at(&self, site: Site) -> Option<&Client> {
        match site {
            Site::Hub => self.hub.as_ref(),
            Site::Cluster => self.cluster.as_ref(),
            Site::Management => self.management.as_ref(),
        }
    }

    /// What plans are carried out with.
    pub fn clients(&self) -> Clients {
        let mut clients = Clients::default();
        if let Some(hub) = &self.hub {
            clients = clients.and_hub(hub.clone());
        }
        if let Some(cluster) = &self.cluster {
            clients = clients.and_cluster(cluster.clone());
        }
        match &self.management {
            Some(management) => clients.and_management(management.clone()),
            None => clients,
        }
    }
}

/// Why the objects that are there could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// There is no way to the API.
    #[error("no client for the {0}")]
    NoClient(Site),
    /// The API server did not answer, or not with the object.
    #[error("could not read {target} of the {}", target.site)]
    Read {
        /// What was asked for.
        target: Box<Target>,
        /// Why it failed.
        source: kube::Error,
    },
}

/// The objects that are there, of those that were asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Current(HashMap<Target, Value>);

impl Current {
    /// Of these manifests: for tests, and of what caches hold.
    pub fn holding(objects: impl IntoIterator<Item = WantedObject>) -> Self {
        Self(objects.into_iter().map(|it| (it.target, it.manifest)).collect())
    }

    /// The object as it is; `None` when it is not there.
    pub fn get(&self, target: &Target) -> Option<&Value> {
        self.0.get(target)
    }

    /// Takes the objects of another in.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// Reads objects, several at a time. What the operator may not read counts as not there: roles of upstream's charts
/// have not every kind that some release makes, or that is to be taken away. Where it is to be kept, its creation says
/// what is missing.
///
/// # Errors
/// When one cannot be read; that it is not there is no error.
pub async fn look(apis: &Apis, targets: impl IntoIterator<Item = Target>) -> Result<Current, LookError> {
    let distinct: HashSet<Target> = targets.into_iter().collect();
    let found = stream::iter(distinct.into_iter().map(|target| read(apis, target)))
        .buffer_unordered(PARALLEL)
        .try_collect::<Vec<_>>()
        .await?;
    Ok(Current(found.into_iter().flatten().collect()))
}

async fn read(apis: &Apis, target: Target) -> Result<Option<(Target, Value)>, LookError> {
    let client = apis.at(target.site).ok_or(LookError::NoClient(target.site))?;
    let api: Api<DynamicObject> = match &target.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &target.api_resource),
        None => Api::all_with(client.clone(), &target.api_resource),
    };
    match api.get_opt(&target.name).await {
        Ok(found) => {
            let found = found.map(|it| typed(&it, &target.api_resource));
            Ok(found.map(|it| (target, it)))
        }
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(None),
        Err(source) => Err(LookError::Read {
            target: Box::new(target),
            source,
        }),
    }
}

/// What is to be done so that these stages are in place, in order. Steps carry the reason of their stage as their name,
/// which [`failure`] reads; `generations` are those that were seen after the last write ([`generations`]).
pub fn plan(stages: &[Stage], current: &Current, generations: &[GenerationStatus]) -> Plan {
    let mut plan = Plan::new();
    for stage in stages {
        plan.stage();
        for object in &stage.keep {
            keep(&mut plan, stage.reason, object, current, generations);
        }
        for target in &stage.remove {
            remove(&mut plan, stage.reason, target, current);
        }
    }
    plan
}

/// Keeps one object in place.
pub fn keep(plan: &mut Plan, reason: &str, object: &WantedObject, current: &Current, generations: &[GenerationStatus]) {
    let WantedObject { target, manifest } = object;
    let found = current.get(target);
    let step = match (target.api_resource.kind.as_str(), found) {
        ("Deployment", found) => keep_deployment(plan, target, found, manifest, last(generations, target)),
        (kind, Some(found)) if is_another(kind, found, manifest) => Some(plan.push(deletion(target, found))),
        ("Namespace", Some(found)) if is_going(found) => {
            plan.wait(format!("{target} is being deleted; it is made again when it is gone"));
            None
        }
        ("Secret" | "ConfigMap", Some(found)) => {
            plan.keep_value(target.clone(), Some(found), &with_nothing_else(found, manifest))
        }
        (_, found) => plan.keep_value(target.clone(), found, manifest),
    };
    if let Some(step) = step {
        plan.name(reason, step);
    }
}

/// Deletes one object if it is there.
pub fn remove(plan: &mut Plan, reason: &str, target: &Target, current: &Current) {
    let Some(found) = current.get(target).filter(|it| !is_going(it)) else {
        return;
    };
    let step = plan.push(deletion(target, found));
    plan.name(reason, step);
}

fn deletion(target: &Target, found: &Value) -> Step {
    Step::Delete {
        target: target.clone(),
        uid: found["metadata"]["uid"].as_str().map(str::to_owned),
        propagation: None,
    }
}

/// Whether somebody has asked for its deletion.
pub fn is_going(found: &Value) -> bool {
    found["metadata"]["deletionTimestamp"].is_string()
}

/// Whether it cannot be changed into what it is to be, but only made anew: the next run does, which the deletion wakes.
fn is_another(kind: &str, found: &Value, desired: &Value) -> bool {
    match kind {
        "ClusterRoleBinding" | "RoleBinding" => !contains(&found["roleRef"], &desired["roleRef"]),
        "Secret" => {
            let of = |it: &Value| it["type"].as_str().unwrap_or("Opaque").to_owned();
            of(found) != of(desired)
        }
        "Service" => {
            let of = |it: &Value| it["spec"]["type"].as_str().unwrap_or("ClusterIP").to_owned();
            of(found) != of(desired) && (of(found) == "ExternalName" || of(desired) == "ExternalName")
        }
        _ => false,
    }
}

/// The data of a Secret or a ConfigMap as it is to be, and that it has no other.
fn with_nothing_else(found: &Value, desired: &Value) -> Value {
    let mut desired = desired.clone();
    for key in found["data"].as_object().into_iter().flatten().map(|it| it.0.as_str()) {
        if desired["data"].get(key).is_none() {
            desired["data"][key] = Value::Null;
        }
    }
    desired
}

/// Writes a Deployment whole, when it is to be otherwise than it was last written, and when its generation says that
/// somebody has written it since: also what they have added goes.
fn keep_deployment(
    plan: &mut Plan,
    target: &Target,
    found: Option<&Value>,
    desired: &Value,
    last: Option<i64>,
) -> Option<ocm_reconcile::StepId> {
    let mut desired = desired.clone();
    let hash = spec_hash(&desired["spec"]);
    desired["metadata"]["annotations"][annotations::TYPED_SPEC_HASH] = hash.into();
    let Some(found) = found else {
        return plan.keep_value(target.clone(), None, &desired);
    };
    if !contains(&found["spec"]["selector"], &desired["spec"]["selector"]) {
        return (!is_going(found)).then(|| plan.push(deletion(target, found)));
    }
    let says_the_same = ["labels", "annotations"]
        .iter()
        .all(|it| contains(&found["metadata"][it], &desired["metadata"][it]));
    if says_the_same && last.is_some() && found["metadata"]["generation"].as_i64() == last {
        return None;
    }
    let mut metadata = found["metadata"].clone();
    for field in ["managedFields", "creationTimestamp", "generation"] {
        metadata.as_object_mut().map(|it| it.remove(field));
    }
    for field in ["labels", "annotations"] {
        for (key, value) in desired["metadata"][field].as_object().into_iter().flatten() {
            metadata[field][key.as_str()] = value.clone();
        }
    }
    desired["metadata"] = metadata;
    Some(plan.push(Step::Replace {
        target: target.clone(),
        subresource: None,
        object: desired,
    }))
}

/// Whether a Deployment says that it was last written as it is to be.
pub fn is_as_wanted(found: &Value, desired: &Value) -> bool {
    found["metadata"]["annotations"][annotations::TYPED_SPEC_HASH] == spec_hash(&desired["spec"])
}

/// What stands in the annotation by which it is seen that a Deployment is to be otherwise.
fn spec_hash(spec: &Value) -> String {
    let digest = Sha256::digest(spec.to_string());
    digest.iter().map(|it| format!("{it:02x}")).collect()
}

fn last(generations: &[GenerationStatus], target: &Target) -> Option<i64> {
    generations
        .iter()
        .find(|it| is_of(it, target))
        .map(|it| it.last_generation)
}

fn is_of(generation: &GenerationStatus, target: &Target) -> bool {
    let resource = &target.api_resource;
    generation.group == resource.group
        && generation.version == resource.version
        && generation.resource == resource.plural
        && generation.namespace == target.namespace.as_deref().unwrap_or_default()
        && generation.name == target.name
}

/// `status.generations` after a plan: of each Deployment that is kept, the generation that it had after the last write.
pub fn generations(stages: &[Stage], current: &Current, outcome: &Outcome) -> Vec<GenerationStatus> {
    let deployments = stages.iter().flat_map(|it| &it.keep).map(|it| &it.target);
    let deployments = deployments.filter(|it| it.api_resource.kind == "Deployment");
    deployments
        .filter_map(|target| {
            let last_generation = now(target, current, outcome)?["metadata"]["generation"].as_i64()?;
            let RelatedResourceMeta {
                group,
                version,
                resource,
                namespace,
                name,
            } = meta(target);
            Some(GenerationStatus {
                group,
                version,
                resource,
                namespace,
                name,
                last_generation,
            })
        })
        .collect()
}

/// An object as a plan has left it: as it was written, or else as it was found.
pub fn now(target: &Target, current: &Current, outcome: &Outcome) -> Option<Value> {
    let written = outcome.results().filter(|(step, _)| step.target() == Some(target));
    let written = written.filter_map(|(_, result)| match result {
        Ok(ocm_reconcile::Done::Object(object)) => Some(typed(&**object, &target.api_resource)),
        _ => None,
    });
    written.last().or_else(|| current.get(target).cloned())
}

/// `status.relatedResources`: everything that is kept, in the order in which it is made.
pub fn related<'a>(targets: impl IntoIterator<Item = &'a Target>) -> Vec<RelatedResourceMeta> {
    let mut related = Vec::new();
    for target in targets {
        let meta = meta(target);
        if !related.contains(&meta) {
            related.push(meta);
        }
    }
    related
}

/// An object as `status.relatedResources` names it.
pub fn meta(target: &Target) -> RelatedResourceMeta {
    let resource = &target.api_resource;
    RelatedResourceMeta {
        group: resource.group.clone(),
        version: resource.version.clone(),
        resource: resource.plural.clone(),
        namespace: target.namespace.clone().unwrap_or_default(),
        name: target.name.clone(),
    }
}

/// The reason of the first stage of which something failed, and what failed of it, in a sentence.
pub fn failure(outcome: &Outcome) -> Option<(String, String)> {
    let failed = || {
        outcome.plan().names.iter().filter_map(|(reason, id)| {
            let error = outcome.get(*id)?.as_ref().err()?;
            let target = outcome.plan().get(*id)?.target()?;
            Some((reason, format!("{target}: {}", sentence(error))))
        })
    };
    let reason = failed().next()?.0.clone();
    let all: Vec<String> = failed().filter(|it| *it.0 == reason).map(|it| it.1).collect();
    Some((reason, all.join("; ")))
}

/// The labels of what is made for an object of an operator: those of the object itself if they are synced, but for
/// those that Open Cluster Management gives a meaning, and whose it is.
pub fn labels<'a>(
    of_object: impl IntoIterator<Item = (&'a String, &'a String)>,
    are_synced: bool,
    whose: (&str, &str),
) -> Value {
    let mut labels = json!({});
    for (key, value) in of_object.into_iter().filter(|_| are_synced) {
        if is_free(key) {
            labels[key.as_str()] = value.as_str().into();
        }
    }
    labels[whose.0] = whose.1.into();
    labels
}

/// Whether a label means nothing to Open Cluster Management.
pub fn is_free(key: &str) -> bool {
    key != "app" && !key.starts_with("open-cluster-management.io")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(name: &str, image: &str) -> WantedObject {
        let manifest = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "ns", "labels": {"app": name}},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}},
        });
        WantedObject::new(Site::Management, manifest)
    }

    fn stage(keep: Vec<WantedObject>) -> [Stage; 1] {
        [Stage {
            keep,
            ..Stage::new("ApplyFailed")
        }]
    }

    /// As the server has it after it was written as wanted.
    fn written(object: &WantedObject, generation: i64) -> WantedObject {
        let mut plan = Plan::new();
        keep(&mut plan, "", object, &Current::default(), &[]);
        let Some(Step::Create { object: manifest, .. }) = plan.stages[0].first() else {
            panic!("{plan}")
        };
        let mut manifest = manifest.clone();
        for (field, value) in [
            ("uid", json!("u")),
            ("resourceVersion", json!("7")),
            ("generation", json!(generation)),
        ] {
            manifest["metadata"][field] = value;
        }
        WantedObject {
            manifest,
            ..object.clone()
        }
    }

    fn seen(object: &WantedObject, last_generation: i64) -> Vec<GenerationStatus> {
        let at = written(object, last_generation);
        generations(
            &stage(vec![object.clone()]),
            &Current::holding([at]),
            &Outcome::default(),
        )
    }

    fn printed(wanted: &WantedObject, found: WantedObject, generations: &[GenerationStatus]) -> String {
        let plan = plan(&stage(vec![wanted.clone()]), &Current::holding([found]), generations);
        plan.to_string().trim().to_owned()
    }

    #[test]
    fn a_deployment_as_last_written_is_left_alone() {
        let wanted = deployment("a", "i:1");
        assert_eq!(
            printed(&wanted, written(&wanted, 3), &seen(&wanted, 3)),
            "nothing to do"
        );
    }

    #[test]
    fn a_deployment_that_somebody_edited_is_put_back() {
        let wanted = deployment("a", "i:1");
        let mut edited = written(&wanted, 4);
        edited.manifest["spec"]["template"]["spec"]["hostNetwork"] = true.into();
        edited.manifest["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "2".into();
        let plan = plan(
            &stage(vec![wanted.clone()]),
            &Current::holding([edited]),
            &seen(&wanted, 3),
        );
        let Some(Step::Replace { object, .. }) = plan.stages[0].first() else {
            panic!("{plan}")
        };
        assert_eq!(object["spec"], wanted.manifest["spec"]);
        assert_eq!(object["metadata"]["resourceVersion"], "7");
        assert_eq!(
            object["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
            "2"
        );
    }

    #[test]
    fn a_deployment_with_another_image_is_replaced() {
        let (old, new) = (deployment("a", "i:1"), deployment("a", "i:2"));
        let printed = printed(&new, written(&old, 3), &seen(&old, 3));
        assert_eq!(printed, "management: replace Deployment ns/a");
    }

    #[test]
    fn a_deployment_that_nobody_recorded_is_written_once() {
        let wanted = deployment("a", "i:1");
        let printed = printed(&wanted, written(&wanted, 3), &[]);
        assert_eq!(printed, "management: replace Deployment ns/a");
    }

    #[test]
    fn a_binding_with_another_role_is_made_anew() {
        let binding = |role: &str| {
            WantedObject::new(
                Site::Hub,
                json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}, "subjects": [],
                }),
            )
        };
        assert_eq!(
            printed(&binding("x"), binding("y"), &[]),
            "hub: delete ClusterRoleBinding b"
        );
        assert_eq!(printed(&binding("x"), binding("x"), &[]), "nothing to do");
    }

    #[test]
    fn surplus_objects_go_and_missing_ones_are_made() {
        let (gone, kept) = (deployment("gone", "i:1"), deployment("kept", "i:1"));
        let stages = [Stage {
            remove: vec![gone.target.clone(), deployment("never", "i:1").target],
            ..stage(vec![kept.clone()]).into_iter().next().unwrap()
        }];
        let plan = plan(&stages, &Current::holding([written(&gone, 1)]), &[]);
        assert_eq!(
            plan.to_string(),
            "management: create Deployment ns/kept
management: delete Deployment ns/gone
"
        );
        let related = related(stages[0].keep.iter().map(|it| &it.target));
        assert_eq!((related.len(), related[0].resource.as_str()), (1, "deployments"));
    }

    #[test]
    fn labels_with_a_meaning_are_not_synced() {
        let of = std::collections::BTreeMap::from(
            [("app", "x"), ("team", "a"), ("open-cluster-management.io/x", "y")]
                .map(|(a, b)| (a.to_owned(), b.to_owned())),
        );
        assert_eq!(labels(&of, true, ("by", "me")), json!({"team": "a", "by": "me"}));
        assert_eq!(labels(&of, false, ("by", "me")), json!({"by": "me"}));
    }
}
