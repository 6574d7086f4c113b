//! Where an add-on is asked about: one cluster, and everything there is to know about the add-on there.

use std::sync::Arc;

use kube::{Resource, api::DynamicObject, core::TypeMeta};
use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, annotations, cluster::ManagedCluster, namespaces};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use crate::{UserError, spec_hash};

/// One cluster and what there is to know about the add-on there. Plain data.
///
/// ```
/// use ocm_addon_sdk::{AddOnContext, k8s_openapi::api::core::v1::ConfigMap};
///
/// let mut greeting = ConfigMap::default();
/// greeting.metadata.name = Some("greeting".to_owned());
/// greeting.data = Some([("text".to_owned(), "hello".to_owned())].into());
/// let place = AddOnContext::new("cluster1", "greeter").with_config(&greeting);
/// assert_eq!(place.config::<ConfigMap>().unwrap(), Some(greeting));
/// ```
#[derive(Clone, Debug)]
pub struct AddOnContext {
    /// The cluster.
    pub cluster: Arc<ManagedCluster>,
    /// The add-on on this cluster.
    pub addon: Arc<ManagedClusterAddOn>,
    /// The configurations for this cluster, in the order of the add-on's `status.configReferences`.
    pub configs: Vec<Config>,
    /// The namespace on the cluster.
    pub install_namespace: String,
    /// Where its agent runs.
    pub mode: Mode,
    /// The hub.
    pub hub: Arc<HubInfo>,
    /// The names of those of its [companions](crate::AddOn::companions) that are on the cluster, too.
    pub companions: Vec<String>,
}

/// Where an add-on's agent runs.
#[derive(Clone, Debug, Default)]
pub enum Mode {
    /// On the cluster it manages.
    #[default]
    Default,
    /// On another one.
    Hosted(Hosting),
}

/// The cluster that an add-on's agent runs on instead of the one it manages.
#[derive(Clone, Debug)]
pub struct Hosting {
    /// Its name.
    pub name: String,
    /// The cluster, when the hub knows it.
    pub cluster: Option<Arc<ManagedCluster>>,
}

/// What there is to know about the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubInfo {
    /// Something that no other hub has and that stays: the uid of its namespace `kube-system`;
    /// empty for a program that may not read it.
    pub id: String,
    /// The namespace of its components.
    pub namespace: String,
}

/// A kind of configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConfigKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version to read it in.
    pub version: String,
    /// The plural name of its resource.
    pub resource: String,
    /// The kind's name as in `kind`.
    pub kind: String,
}

impl ConfigKind {
    /// The kind of a type.
    ///
    /// ```
    /// use ocm_addon_sdk::ConfigKind;
    /// use ocm_api::addon::v1alpha1::AddOnDeploymentConfig;
    ///
    /// assert_eq!(ConfigKind::of::<AddOnDeploymentConfig>().resource, "addondeploymentconfigs");
    /// ```
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        Self {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            resource: K::plural(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
        }
    }

    /// Whether it is the kind of this group and resource, in whatever version.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.group == group && self.resource == resource
    }

    /// Group and version as in `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// One configuration for the add-on on this cluster.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its kind.
    pub kind: ConfigKind,
    /// Its namespace; empty when it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The hash of the state that is meant for this cluster; empty when the hub has not said yet.
    pub spec_hash: String,
    /// The object: in the state that is meant for this cluster if the hub still knows that, else as it is now;
    /// `None` when there is none.
    pub object: Option<Arc<DynamicObject>>,
    /// The hash of that.
    pub object_hash: String,
}

impl Config {
    /// Whether the object is in the state that is meant for this cluster: `false` while a change of it is rolled out to
    /// other clusters first, and nobody knows any more what it was before.
    pub fn is_current(&self) -> bool {
        !self.spec_hash.is_empty() && self.spec_hash == self.object_hash
    }

    /// Why nothing may be made of it here although it could be read; nothing when it may.
    pub fn hindrance(&self) -> Option<String> {
        if self.object.is_none() || self.is_current() {
            // One that does not exist is the author's to refuse.
            None
        } else if self.spec_hash.is_empty() {
            Some(format!(
                "the hub has not settled yet which state of {self} is meant for this cluster"
            ))
        } else {
            Some(format!(
                "{self} has changed, and the change has not come to this cluster yet"
            ))
        }
    }

    /// The object as what it is.
    ///
    /// # Errors
    /// When it does not exist or cannot be read as that.
    pub fn read<K: DeserializeOwned>(&self) -> Result<K, UserError> {
        let Some(object) = &self.object else {
            return Err(UserError::new(format!("{self} does not exist")));
        };
        let mut object = (**object).clone();
        // A list leaves them out of its items.
        object.types = Some(TypeMeta {
            api_version: self.kind.api_version(),
            kind: self.kind.kind.clone(),
        });
        let value = serde_json::to_value(&object)?;
        serde_json::from_value(value).map_err(|error| UserError::new(format!("{self} cannot be read: {error}")))
    }
}

impl std::fmt::Display for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.kind.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl AddOnContext {
    /// A place with nothing special about it, for tests of an add-on.
    pub fn new(cluster: &str, addon: &str) -> Self {
        let mut of = ManagedClusterAddOn::new(addon, Default::default());
        of.metadata.namespace = Some(cluster.to_owned());
        Self {
            cluster: Arc::new(ManagedCluster::new(cluster, Default::default())),
            addon: Arc::new(of),
            configs: Vec::new(),
            install_namespace: namespaces::AGENT_ADDON.to_owned(),
            mode: Mode::Default,
            hub: Arc::new(HubInfo {
                id: "hub".to_owned(),
                namespace: namespaces::HUB.to_owned(),
            }),
            companions: Vec::new(),
        }
    }

    /// The same with one more configuration, for tests of an add-on.
    ///
    /// # Panics
    /// When the object is no Kubernetes object.
    pub fn with_config<K: Resource<DynamicType = ()> + Serialize>(mut self, object: &K) -> Self {
        let value = serde_json::to_value(object).expect("a Kubernetes object serializes: its keys are strings");
        let object_hash = spec_hash::of(&value);
        self.configs.push(Config {
            kind: ConfigKind::of::<K>(),
            namespace: object.meta().namespace.clone().unwrap_or_default(),
            name: object.meta().name.clone().unwrap_or_default(),
            spec_hash: object_hash.clone(),
            object: Some(Arc::new(
                serde_json::from_value(value).expect("a Kubernetes object has metadata"),
            )),
            object_hash,
        });
        self
    }

    /// The name of the cluster, and of its namespace on the hub.
    pub fn cluster_name(&self) -> &str {
        self.cluster.metadata.name.as_deref().unwrap_or_default()
    }

    /// The name of the add-on.
    pub fn addon_name(&self) -> &str {
        self.addon.metadata.name.as_deref().unwrap_or_default()
    }

    /// The first configuration of this kind, if there is one for this cluster.
    ///
    /// # Errors
    /// When it is said to be there and does not exist, cannot be read, or is of a state that nobody has settled yet.
    pub fn config<K>(&self) -> Result<Option<K>, UserError>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let kind = ConfigKind::of::<K>();
        let found = self.configs.iter().find(|it| it.kind.is(&kind.group, &kind.resource));
        match found {
            Some(found) if found.spec_hash.is_empty() && found.object.is_some() => Err(UserError::new(format!(
                "the hub has not settled the state of {found} yet"
            ))),
            Some(found) => found.read().map(Some),
            None => Ok(None),
        }
    }

    /// The configuration whose state on the hub is not the one that is meant for this cluster, if there is one: a
    /// change of it has not come to this cluster yet.
    pub fn ahead(&self) -> Option<&Config> {
        self.configs.iter().find(|it| !it.is_current())
    }

    /// The configuration that is there in another state than the one that is meant for this cluster, if there is one:
    /// the hub has not settled yet which is meant, or a change of it has not come here and nobody knows any more what
    /// it was before. Until then everything here stays as it is, because there is nothing to make it anew from.
    pub fn held(&self) -> Option<&Config> {
        self.configs.iter().find(|it| it.object.is_some() && !it.is_current())
    }

    /// Whether another add-on is on the cluster, too. Only a [companion](crate::AddOn::companions) is known of.
    pub fn is_with(&self, addon: &str) -> bool {
        self.companions.iter().any(|it| it == addon)
    }

    /// The cluster that the agent runs on: the hosting one where there is one.
    pub fn agent_cluster_name(&self) -> &str {
        match &self.mode {
            Mode::Default => self.cluster_name(),
            Mode::Hosted(hosting) => &hosting.name,
        }
    }

    /// The Secret with the agent's kubeconfig for the hub.
    pub fn hub_kubeconfig_secret(&self) -> String {
        format!("{}-hub-kubeconfig", self.addon_name())
    }

    /// The Secret with a kubeconfig for the managed cluster, which the administrator of a hosted agent makes.
    pub fn managed_kubeconfig_secret(&self) -> String {
        format!("{}-managed-kubeconfig", self.addon_name())
    }

    /// The agent's part of the default identity. It follows from the add-on and the hub, so that a restart asks for no
    /// new certificates. Upstream's managers draw a random one each time they start.
    pub fn agent_name(&self) -> String {
        agent_name(self.addon_name(), &self.hub.id)
    }
}

/// What the annotation of a ManagedClusterAddOn says about where its agent runs,
/// with the hosting cluster as `find` knows it.
pub fn mode(addon: &ManagedClusterAddOn, find: impl FnOnce(&str) -> Option<Arc<ManagedCluster>>) -> Mode {
    let annotations = addon.metadata.annotations.as_ref();
    match annotations.and_then(|it| it.get(annotations::ADDON_HOSTING_CLUSTER)) {
        Some(name) => Mode::Hosted(Hosting {
            name: name.clone(),
            cluster: find(name),
        }),
        None => Mode::Default,
    }
}

fn agent_name(addon: &str, hub: &str) -> String {
    // The letters of Kubernetes' generated names: no vowels, so that no words come out.
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let digest = Sha256::digest(format!("{addon}/{hub}"));
    let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
    digest.iter().take(5).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use ocm_api::addon::{CustomizedVariable, v1alpha1::AddOnDeploymentConfig};

    use super::*;

    #[test]
    fn the_agent_name_is_stable_and_differs_between_hubs() {
        assert_eq!(agent_name("helloworld", "a"), agent_name("helloworld", "a"));
        assert_ne!(agent_name("helloworld", "a"), agent_name("helloworld", "b"));
        assert_ne!(agent_name("helloworld", "a"), agent_name("other", "a"));
        assert_eq!(agent_name("helloworld", "a").len(), 5);
    }

    #[test]
    fn a_configuration_is_read_as_what_it_is() {
        let mut config = AddOnDeploymentConfig::new("global", Default::default());
        config.metadata.namespace = Some("default".to_owned());
        config.spec.customized_variables.push(CustomizedVariable {
            name: "COLOR".to_owned(),
            value: "red".to_owned(),
        });
        let place = AddOnContext::new("cluster1", "helloworld").with_config(&config);
        assert_eq!(
            place.config::<AddOnDeploymentConfig>().unwrap().unwrap().spec,
            config.spec
        );
        assert!(place.ahead().is_none());
    }

    #[test]
    fn a_missing_or_unsettled_configuration_is_refused_by_name() {
        let config = AddOnDeploymentConfig::new("global", Default::default());
        let mut place = AddOnContext::new("cluster1", "helloworld").with_config(&config);
        place.configs[0].object = None;
        let why = place.config::<AddOnDeploymentConfig>().unwrap_err();
        assert_eq!(why.message(), "AddOnDeploymentConfig global does not exist");
        place = AddOnContext::new("cluster1", "helloworld").with_config(&config);
        place.configs[0].spec_hash.clear();
        assert!(place.held().is_some());
        let why = place.config::<AddOnDeploymentConfig>().unwrap_err();
        assert_eq!(
            why.message(),
            "the hub has not settled the state of AddOnDeploymentConfig global yet"
        );
    }
}
