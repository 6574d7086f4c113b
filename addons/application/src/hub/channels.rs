//! Lets the agents of clusters read Channels and what they refer to.
//!
//! Root: Channel. Reads: ManagedClusters, the Secrets and ConfigMaps that say they serve Channels, those that the
//! Channel refers to. Writes: a Role and a RoleBinding with the Channel's name, labels and an annotation of those
//! Secrets and ConfigMaps, the pathname of Channels of type Namespace. Never: what Secrets and ConfigMaps hold.
//! Upstream: multicloud-operators-channel pkg/controller/channel. Ours differs in these: it looks when something has
//! changed and not each minute; what a Channel does not refer to any more forgets it at once; and where there are very
//! many clusters one group, which all agents are in, is bound in their place.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ocm_addon_sdk::{
    k8s_openapi::{
        api::{
            core::v1::{ConfigMap, Secret},
            rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
        },
        apimachinery::pkg::apis::meta::v1::OwnerReference,
    },
    kube::{self, Api, Client, Resource, ResourceExt, api::ObjectMeta},
    ocm_api::{
        apps::{ADD_ON, Channel, ChannelType, annotations, labels},
        cluster::ManagedCluster,
        identity,
        object::ObjectReference,
    },
    reconcile::{
        Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, Step, Target, Watches, async_trait,
        cache::{key_of, split_key},
        caches::put_written,
        rbac::Right,
        segment::encoded,
    },
};
use serde_json::{Value, json};

/// For more clusters than these a binding names the group of all agents: with two subjects for each it would become too
/// large for an API server, and be written anew for each cluster that comes.
const CLUSTERS_MAX: usize = 500;
/// The API group of Roles.
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// How soon it is looked again for what a Channel refers to and is not there.
const MISSING_AGAIN: Duration = Duration::from_secs(60);

/// The reconciler.
pub struct ChannelAccess {
    channels: Cache<Channel>,
    clusters: Cache<ManagedCluster>,
    roles: Cache<Role>,
    bindings: Cache<RoleBinding>,
    secrets: Cache<Secret>,
    config_maps: Cache<ConfigMap>,
    client: Option<Client>,
    own_namespace: Option<String>,
}

/// A Secret or ConfigMap that a Channel refers to, or did.
#[derive(Clone, Debug)]
pub struct ServingObject {
    /// Which one.
    pub target: Target,
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Whether the Channel refers to it.
    pub is_referenced: bool,
}

/// What a plan is made from.
pub struct Seen {
    /// The Channel, `NAMESPACE/NAME`.
    pub key: String,
    /// The Channel; `None` when it is gone.
    pub channel: Option<Arc<Channel>>,
    /// Whether its namespace is that of the hub's own components.
    pub is_own_namespace: bool,
    /// The names of the clusters.
    pub clusters: BTreeSet<String>,
    /// The Role of its name.
    pub role: Option<Arc<Role>>,
    /// The RoleBinding of its name.
    pub binding: Option<Arc<RoleBinding>>,
    /// The Secrets and ConfigMaps.
    pub serving: Vec<ServingObject>,
    /// Whether it refers to one that is not there.
    pub is_missing_some: bool,
}

impl ChannelAccess {
    /// Over these caches. Channels in `own_namespace` are read by nobody else.
    pub fn new(caches: &Caches, own_namespace: Option<String>) -> Self {
        Self {
            channels: caches.of(),
            clusters: caches.of(),
            roles: caches.of(),
            bindings: caches.of(),
            secrets: caches.labelled(&format!("{}=true", labels::SERVING_CHANNEL)),
            config_maps: caches.labelled(&format!("{}=true", labels::SERVING_CHANNEL)),
            client: caches.client().cloned(),
            own_namespace,
        }
    }

    /// What serves the Channel of kind `K`, and whether what it refers to is missing.
    async fn serving<K>(
        &self,
        key: &str,
        reference: Option<(String, String)>,
        labelled: &Cache<K>,
    ) -> Result<(Vec<ServingObject>, bool), kube::Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        let object = |metadata: &ObjectMeta, is_referenced: bool| {
            let (namespace, name) = (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone());
            ServingObject {
                target: Target::namespaced::<K>(Site::Hub, &namespace, &name.unwrap_or_default()),
                metadata: metadata.clone(),
                is_referenced,
            }
        };
        let mut all = Vec::new();
        for it in labelled.list() {
            let place = (it.namespace().unwrap_or_default(), it.name_any());
            let is_referenced = reference.as_ref() == Some(&place);
            if is_referenced || served(it.meta()).any(|it| it == key) {
                all.push(object(it.meta(), is_referenced));
            }
        }
        let Some((namespace, name)) = reference.filter(|_| !all.iter().any(|it| it.is_referenced)) else {
            return Ok((all, false));
        };
        let Some(client) = &self.client else {
            return Ok((all, true));
        };
        let api: Api<K> = Api::namespaced(client.clone(), &encoded(&namespace));
        let found = api.get_metadata_opt(&encoded(&name)).await?;
        all.extend(found.iter().map(|it| object(&it.metadata, true)));
        Ok((all, found.is_none()))
    }
}

#[async_trait]
impl Reconciler for ChannelAccess {
    const NAME: &'static str = "channel-access";
    const RIGHTS: &'static [Right] = &[
        Right::new(
            Channel::GROUP,
            "channels",
            "patch",
            "The pathname of a Channel of type Namespace is its namespace.",
        ),
        Right::new(
            Channel::GROUP,
            "channels/finalizers",
            "update",
            "Roles and bindings go with their Channel.",
        ),
        Right::new(
            Channel::GROUP,
            "channels",
            "get list watch",
            "Whoever grants rights has them.",
        ),
        Right::new(
            RBAC_GROUP,
            "roles rolebindings",
            "create patch delete",
            "Agents of clusters may read Channels.",
        ),
        Right::new(
            "",
            "secrets configmaps",
            "get list watch patch",
            "Agents may read what Channels refer to; a backup takes it along.",
        ),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let (by_cluster, by_role, by_binding) = (self.channels.clone(), self.channels.clone(), self.channels.clone());
        let (by_secret, by_config_map) = (self.channels.clone(), self.channels.clone());
        watches
            .root(&self.channels)
            .wakes(&self.clusters, move |old, new| {
                if old.is_some() == new.is_some() {
                    return Vec::new();
                }
                by_cluster.list().iter().map(|it| key_of(&**it)).collect()
            })
            .wakes(&self.roles, move |old, new| {
                let either = new.or(old).map(key_of);
                either.filter(|it| is_there(&by_role, it))
            })
            .wakes(&self.bindings, move |old, new| {
                let either = new.or(old).map(key_of);
                either.filter(|it| is_there(&by_binding, it))
            })
            .wakes(&self.secrets, move |old, new| {
                let refers = |it: &Channel| reference(it, it.spec.secret_ref.as_ref());
                concerned(&by_secret, old.map(Resource::meta), new.map(Resource::meta), refers)
            })
            .wakes(&self.config_maps, move |old, new| {
                let refers = |it: &Channel| reference(it, it.spec.config_map_ref.as_ref());
                concerned(&by_config_map, old.map(Resource::meta), new.map(Resource::meta), refers)
            });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let channel = self.channels.get(namespace, name);
        let staying = channel.as_deref().filter(|it| it.metadata.deletion_timestamp.is_none());
        let secret = staying.and_then(|it| reference(it, it.spec.secret_ref.as_ref()));
        let config_map = staying.and_then(|it| reference(it, it.spec.config_map_ref.as_ref()));
        let (mut serving, secret_missing) = self.serving(key, secret, &self.secrets).await?;
        let (config_maps, config_map_missing) = self.serving(key, config_map, &self.config_maps).await?;
        serving.extend(config_maps);
        Ok(Seen {
            key: key.to_owned(),
            is_own_namespace: self.own_namespace.as_deref() == Some(namespace),
            clusters: self.clusters.list().iter().map(|it| it.name_any()).collect(),
            role: self.roles.get(namespace, name),
            binding: self.bindings.get(namespace, name),
            serving,
            is_missing_some: secret_missing || config_map_missing,
            channel,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        for object in &seen.serving {
            if let Some(patch) = serving_patch(object, &seen.key) {
                plan.push(Step::MergePatch {
                    target: object.target.clone(),
                    subresource: None,
                    patch,
                });
            }
        }
        if seen.is_missing_some {
            plan.wait("what it refers to is not there");
            plan.look_again(MISSING_AGAIN);
        }
        let channel = seen
            .channel
            .as_deref()
            .filter(|it| it.metadata.deletion_timestamp.is_none());
        let Some(channel) = channel else {
            return plan;
        };
        if channel.spec.channel_type() == Some(ChannelType::Namespace) {
            let mut new = channel.clone();
            new.spec.pathname = channel.namespace().unwrap_or_default();
            plan.change(Site::Hub, channel, &new);
        }
        let owner = channel.controller_owner_ref(&()).map(|it| OwnerReference {
            block_owner_deletion: Some(true),
            ..it
        });
        let metadata = ObjectMeta {
            name: channel.metadata.name.clone(),
            namespace: channel.metadata.namespace.clone(),
            owner_references: owner.map(|it| vec![it]),
            ..ObjectMeta::default()
        };
        let is_its = |it: &ObjectMeta| {
            let owners = it.owner_references.iter().flatten();
            owners
                .into_iter()
                .any(|it| Some(&it.uid) == channel.metadata.uid.as_ref())
        };
        if seen.is_own_namespace {
            // What is in the namespace of the hub's components is nothing for clusters.
            if let Some(role) = seen.role.as_deref().filter(|it| is_its(&it.metadata)) {
                plan.delete(Site::Hub, role);
            }
            if let Some(binding) = seen.binding.as_deref().filter(|it| is_its(&it.metadata)) {
                plan.delete(Site::Hub, binding);
            }
            return plan;
        }
        let role = Role {
            metadata: metadata.clone(),
            rules: Some(rules()),
        };
        match seen.role.as_deref() {
            None => {
                plan.create(Site::Hub, &role);
            }
            Some(present) => {
                let mut new = present.clone();
                new.rules = role.rules;
                plan.change(Site::Hub, present, &new);
            }
        }
        let binding = RoleBinding {
            metadata,
            role_ref: RoleRef {
                api_group: Some(RBAC_GROUP.to_owned()),
                kind: "Role".to_owned(),
                name: channel.name_any(),
            },
            subjects: Some(subjects(&seen.clusters)),
        };
        match seen.binding.as_deref() {
            None => {
                plan.create(Site::Hub, &binding);
            }
            Some(present) if present.role_ref != binding.role_ref => {
                plan.refuse("a RoleBinding of its name is for another role");
            }
            Some(present) => {
                let mut new = present.clone();
                new.subjects = binding.subjects;
                plan.change(Site::Hub, present, &new);
            }
        }
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        put_written(&self.roles, outcome);
        put_written(&self.bindings, outcome);
        put_written(&self.channels, outcome);
    }
}

fn is_there(channels: &Cache<Channel>, key: &str) -> bool {
    let (namespace, name) = split_key(key);
    channels.get(namespace, name).is_some()
}

/// Namespace and name of what a Channel refers to.
fn reference(channel: &Channel, reference: Option<&ObjectReference>) -> Option<(String, String)> {
    let reference = reference.filter(|it| !it.name.is_empty())?;
    let namespace = match reference.namespace.as_str() {
        "" => channel.namespace().unwrap_or_default(),
        other => other.to_owned(),
    };
    Some((namespace, reference.name.clone()))
}

/// The Channels that an object says it serves.
fn served(metadata: &ObjectMeta) -> impl Iterator<Item = &str> {
    let list = metadata
        .annotations
        .iter()
        .filter_map(|it| it.get(annotations::SERVING_CHANNEL));
    list.flat_map(|it| it.split(','))
        .map(str::trim)
        .filter(|it| !it.is_empty())
}

/// The Channels that a change of an object concerns.
fn concerned(
    channels: &Cache<Channel>,
    old: Option<&ObjectMeta>,
    new: Option<&ObjectMeta>,
    refers: impl Fn(&Channel) -> Option<(String, String)>,
) -> Vec<String> {
    let said = |it: &ObjectMeta| (it.labels.clone(), it.annotations.clone());
    let Some(either) = new.or(old).filter(|_| old.map(said) != new.map(said)) else {
        return Vec::new();
    };
    let place = (
        either.namespace.clone().unwrap_or_default(),
        either.name.clone().unwrap_or_default(),
    );
    let referring = channels
        .list()
        .into_iter()
        .filter(|it| refers(it).as_ref() == Some(&place));
    let mut keys: Vec<String> = referring.map(|it| key_of(&*it)).collect();
    // Those that it says it serves, and that may be gone.
    keys.extend(served(either).map(str::to_owned));
    keys
}

/// What is to change of an object; nothing when it says what it is to say.
fn serving_patch(object: &ServingObject, channel: &str) -> Option<Value> {
    let mut all: BTreeSet<&str> = served(&object.metadata).collect();
    let before = all.len();
    let mut metadata = json!({});
    if object.is_referenced {
        all.insert(channel);
        let own = object.metadata.labels.as_ref();
        let label = |name: &str| own.and_then(|it| it.get(name));
        if label(labels::SERVING_CHANNEL).is_none_or(|it| it != "true") {
            metadata["labels"][labels::SERVING_CHANNEL] = "true".into();
        }
        if label(labels::BACKUP).is_none() {
            metadata["labels"][labels::BACKUP] = "app".into();
        }
    } else {
        all.remove(channel);
    }
    if all.len() != before {
        let list: Vec<_> = all.into_iter().collect();
        let list = Some(list.join(",")).filter(|it| !it.is_empty());
        metadata["annotations"][annotations::SERVING_CHANNEL] = json!(list);
    }
    if metadata.as_object().is_none_or(serde_json::Map::is_empty) {
        return None;
    }
    metadata["uid"] = json!(object.metadata.uid);
    metadata["resourceVersion"] = json!(object.metadata.resource_version);
    Some(json!({ "metadata": metadata }))
}

fn rules() -> Vec<PolicyRule> {
    let rule = |group: &str, resources: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources.iter().map(|it| (*it).to_owned()).collect()),
        verbs: ["get", "list", "watch"].map(str::to_owned).into(),
        ..PolicyRule::default()
    };
    vec![
        rule(Channel::GROUP, &["channels"]),
        rule("", &["secrets", "configmaps"]),
    ]
}

fn subjects(clusters: &BTreeSet<String>) -> Vec<Subject> {
    let subject = |kind: &str, name: String| Subject {
        api_group: Some(RBAC_GROUP.to_owned()),
        kind: kind.to_owned(),
        name,
        namespace: None,
    };
    if clusters.len() > CLUSTERS_MAX {
        return vec![subject("Group", identity::addon_group(ADD_ON))];
    }
    let of_cluster = |it: &String| {
        [
            subject("User", identity::addon_user(it, ADD_ON, ADD_ON)),
            subject("Group", identity::addon_cluster_group(it, ADD_ON)),
        ]
    };
    clusters.iter().flat_map(of_cluster).collect()
}

#[cfg(test)]
#[path = "channels_tests.rs"]
mod tests;
