//! The kinds that a dry run knows: a built-in set, that of a file, or that of a live cluster.
//! Upstream: config-policy-controller `pkg/mappings`.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, Result};
use ocm_addon_sdk::kube::Client;
use policy_template::{kubernetes_yaml_of, read_kubernetes_yaml};
use serde::{Deserialize, Serialize};

use crate::cluster::ServedKind;

/// A kind, as a mappings file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiMapping {
    /// Its group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// Its name.
    #[serde(default)]
    pub kind: String,
    /// Its name in commands, for one object.
    #[serde(default)]
    pub singular: String,
    /// Its name in paths.
    #[serde(default)]
    pub plural: String,
    /// `namespace` or `root`.
    #[serde(default)]
    pub scope: String,
    /// What can be done with its objects; empty for [`ALL_VERBS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
}

/// What nearly every kind is served with.
const ALL_VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

const IN_NAMESPACES: &str = "namespace";
const IN_NONE: &str = "root";

/// Kinds of Kubernetes in the groups and versions before the colon. Plurals are the usual ones, if none is given. A
/// star stands for kinds in namespaces; what can be done to a kind other than everything stands in brackets.
const BUILT_IN: &str = "
v1: Binding*(create) ComponentStatus/componentstatuses(get,list) ConfigMap* Endpoints*/endpoints Event* LimitRange*
v1: Namespace(create,delete,get,list,patch,update,watch) Node PersistentVolumeClaim* PersistentVolume Pod* PodTemplate*
v1: ReplicationController* ResourceQuota* Secret* ServiceAccount* Service*
admissionregistration.k8s.io/v1: MutatingWebhookConfiguration ValidatingWebhookConfiguration
apiextensions.k8s.io/v1: CustomResourceDefinition
apiregistration.k8s.io/v1: APIService
apps/v1: ControllerRevision* DaemonSet* Deployment* ReplicaSet* StatefulSet*
authentication.k8s.io/v1: SelfSubjectReview(create) TokenReview(create)
authorization.k8s.io/v1: LocalSubjectAccessReview*(create) SelfSubjectAccessReview(create)
authorization.k8s.io/v1: SelfSubjectRulesReview(create) SubjectAccessReview(create)
autoscaling/v1: HorizontalPodAutoscaler*
autoscaling/v2: HorizontalPodAutoscaler*
batch/v1: CronJob* Job*
certificates.k8s.io/v1: CertificateSigningRequest
coordination.k8s.io/v1: Lease*
discovery.k8s.io/v1: EndpointSlice*
events.k8s.io/v1: Event*
flowcontrol.apiserver.k8s.io/v1: FlowSchema PriorityLevelConfiguration
flowcontrol.apiserver.k8s.io/v1beta3: FlowSchema PriorityLevelConfiguration
networking.k8s.io/v1: IngressClass/ingressclasses Ingress*/ingresses NetworkPolicy*/networkpolicies
node.k8s.io/v1: RuntimeClass/runtimeclasses
policy/v1: PodDisruptionBudget*
rbac.authorization.k8s.io/v1: ClusterRoleBinding ClusterRole RoleBinding* Role*
scheduling.k8s.io/v1: PriorityClass/priorityclasses
storage.k8s.io/v1: CSIDriver CSINode CSIStorageCapacity*/csistoragecapacities StorageClass/storageclasses VolumeAttachment
";

/// Kinds that are always there.
const POLICIES: &str = "
policy.open-cluster-management.io/v1: Policy*/policies ConfigurationPolicy*/configurationpolicies
";

/// Kinds by apiVersion and kind.
#[derive(Debug, Default)]
pub struct KnownKinds(BTreeMap<(String, String), Arc<ServedKind>>);

impl KnownKinds {
    /// The built-in set, and policies.
    pub fn built_in() -> Self {
        Self::of(table(BUILT_IN).collect())
    }

    /// Those of a mappings file, and policies.
    ///
    /// # Errors
    /// When the text is no list of mappings.
    pub fn read(text: &str) -> Result<Self, String> {
        let document = read_kubernetes_yaml(text).map_err(|why| format!("error converting YAML to JSON: {why}"))?;
        let mappings: Option<Vec<ApiMapping>> = serde_json::from_value(document)
            .map_err(|why| format!("error unmarshaling JSON: while decoding JSON: {why}"))?;
        Ok(Self::of(mappings.unwrap_or_default()))
    }

    fn of(mappings: Vec<ApiMapping>) -> Self {
        let mut known = BTreeMap::new();
        for mapping in mappings.into_iter().chain(table(POLICIES)) {
            let kind = mapping.served();
            // The first one of a name is found.
            known
                .entry((kind.api_version(), kind.kind.clone()))
                .or_insert_with(|| Arc::new(kind));
        }
        Self(known)
    }

    /// The kind of this name.
    pub fn find(&self, api_version: &str, kind: &str) -> Option<Arc<ServedKind>> {
        self.0.get(&(api_version.to_owned(), kind.to_owned())).cloned()
    }
}

impl ApiMapping {
    fn served(self) -> ServedKind {
        let watchable = self.verbs.is_empty() || self.verbs.iter().any(|it| it == "watch");
        ServedKind {
            namespaced: self.scope == IN_NAMESPACES,
            group: self.group,
            version: self.version,
            kind: self.kind,
            plural: self.plural,
            watchable,
        }
    }
}

fn table(text: &str) -> impl Iterator<Item = ApiMapping> + '_ {
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    lines.flat_map(|(api_version, kinds)| kinds.split(' ').map(move |kind| row(api_version, kind)))
}

fn row(api_version: &str, text: &str) -> ApiMapping {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let (name, verbs) = text.split_once('(').unwrap_or((text, ""));
    let (name, plural) = name.split_once('/').unwrap_or((name, ""));
    let kind = name.trim_end_matches('*');
    let singular = kind.to_lowercase();
    let verbs = verbs.trim_end_matches(')').split(',').filter(|it| !it.is_empty());
    ApiMapping {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: match plural {
            "" => format!("{singular}s"),
            plural => plural.to_owned(),
        },
        singular,
        scope: if name.ends_with('*') { IN_NAMESPACES } else { IN_NONE }.to_owned(),
        verbs: verbs.map(str::to_owned).collect(),
    }
}

/// The mappings file of a live cluster. Groups that do not answer are left out.
///
/// # Errors
/// When the cluster does not say which groups it has.
pub async fn generate(client: &Client) -> Result<String> {
    let core = client.list_core_api_versions().await?;
    let groups = client.list_api_groups().await?;
    let mut lists = Vec::new();
    for version in core.versions {
        let listed = client.list_core_api_resources(&version).await;
        lists.extend(listed.ok().map(|it| (String::new(), version, it)));
    }
    for group in groups.groups {
        for version in group.versions {
            let listed = client.list_api_group_resources(&version.group_version).await;
            lists.extend(listed.ok().map(|it| (group.name.clone(), version.version, it)));
        }
    }
    let mut mappings = Vec::new();
    for (group, version, list) in lists {
        // Those with a slash are parts of others.
        for resource in list.resources.into_iter().filter(|it| !it.name.contains('/')) {
            let mut verbs = resource.verbs;
            verbs.sort();
            if verbs == ALL_VERBS {
                verbs.clear();
            }
            mappings.push(ApiMapping {
                group: group.clone(),
                version: version.clone(),
                kind: resource.kind,
                singular: resource.singular_name,
                plural: resource.name,
                scope: if resource.namespaced { IN_NAMESPACES } else { IN_NONE }.to_owned(),
                verbs,
            });
        }
    }
    mappings.sort_by_key(|it| format!("{}/{} {}", it.group, it.version, it.plural));
    let document = serde_json::to_value(mappings).context("could not write the mappings")?;
    Ok(kubernetes_yaml_of(&document))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_kubernetes_are_known() {
        let known = KnownKinds::built_in();
        let of = |api_version: &str, kind: &str| {
            known
                .find(api_version, kind)
                .map(|it| (it.plural.clone(), it.namespaced, it.watchable))
        };
        assert_eq!(of("v1", "Namespace"), Some(("namespaces".to_owned(), false, true)));
        assert_eq!(
            of("networking.k8s.io/v1", "Ingress"),
            Some(("ingresses".to_owned(), true, true))
        );
        assert_eq!(
            of("v1", "ComponentStatus"),
            Some(("componentstatuses".to_owned(), false, false))
        );
        assert_eq!(
            of("policy.open-cluster-management.io/v1", "Policy"),
            Some(("policies".to_owned(), true, true))
        );
        assert_eq!(of("apps/v1beta1", "Deployment"), None);
        assert_eq!(known.0.len(), 61);
    }

    #[test]
    fn a_mappings_file_replaces_the_built_in_kinds() {
        let text = "- {group: a.example, version: v2, kind: Thing, singular: thing, plural: things, scope: namespace}\n\
                    - {group: '', version: v1, kind: Box, plural: boxen, scope: root, verbs: [get]}\n";
        let known = KnownKinds::read(text).unwrap();
        assert!(known.find("a.example/v2", "Thing").unwrap().namespaced);
        assert!(!known.find("v1", "Box").unwrap().watchable);
        assert_eq!(known.find("v1", "Pod"), None);
        assert!(known.find("policy.open-cluster-management.io/v1", "Policy").is_some());
        assert!(KnownKinds::read("{").unwrap_err().starts_with("error converting"));
    }
}
