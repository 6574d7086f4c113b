//! The add-ons that run in this process, by name.

use std::{collections::BTreeMap, sync::Arc};

use ocm_api::addon::v1alpha1::{AddOnTemplate, ManagedClusterAddOn};
use parking_lot::RwLock;

use crate::{AddOn, ConfigKind};

/// The add-ons of this process. Cloning shares them.
#[derive(Clone, Default)]
pub struct Registry {
    entries: Arc<RwLock<BTreeMap<String, Entry>>>,
}

/// One add-on.
#[derive(Clone)]
pub struct Entry {
    /// The add-on.
    pub add_on: Arc<dyn AddOn>,
    /// Whether it is made of an AddOnTemplate: then it is there only for clusters whose configuration names one.
    pub of_template: bool,
    /// The kinds of configuration it understands.
    pub supported: Arc<[ConfigKind]>,
}

/// Why an add-on cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// It has no name.
    #[error("addon name should be set")]
    NoName,
    /// One of its name runs already.
    #[error("an agent is added for the addon already")]
    Twice,
    /// A kind of configuration names nothing.
    #[error("config type is empty, index={0}")]
    EmptyConfig(usize),
    /// A kind of configuration has no version.
    #[error("config version is required, index={0}")]
    NoVersion(usize),
    /// A kind of configuration has no resource.
    #[error("config resource is required, index={0}")]
    NoResource(usize),
    /// A kind of configuration is named twice.
    #[error("config type {0:?} is duplicated")]
    DuplicateConfig(String),
}

impl Registry {
    /// Takes an add-on in.
    pub(super) fn add(&self, add_on: Arc<dyn AddOn>, of_template: bool) -> Result<Entry, AddError> {
        let name = add_on.name().to_owned();
        if name.is_empty() {
            return Err(AddError::NoName);
        }
        let supported: Arc<[ConfigKind]> = add_on.supported_configs().into();
        check(&supported)?;
        let mut entries = self.entries.write();
        if entries.contains_key(&name) {
            return Err(AddError::Twice);
        }
        let entry = Entry {
            add_on,
            of_template,
            supported,
        };
        entries.insert(name, entry.clone());
        Ok(entry)
    }

    /// Lets an add-on go.
    pub(super) fn remove(&self, name: &str) -> Option<Entry> {
        self.entries.write().remove(name)
    }

    /// The add-on of this name.
    pub fn get(&self, name: &str) -> Option<Entry> {
        self.entries.read().get(name).cloned()
    }

    /// Whether there is one of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.entries.read().contains_key(name)
    }

    /// The names of those that an add-on of this name makes a difference to.
    pub fn companions_of(&self, name: &str) -> Vec<String> {
        let entries = self.entries.read();
        let concerned = entries.iter().filter(|(_, it)| it.add_on.companions().contains(&name));
        concerned.map(|(name, _)| name.clone()).collect()
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        self.entries.read().keys().cloned().collect()
    }
}

impl Entry {
    /// The kind of configuration of this group and resource, if it understands that.
    pub fn kind(&self, group: &str, resource: &str) -> Option<&ConfigKind> {
        self.supported.iter().find(|it| it.is(group, resource))
    }

    /// Whether it is there for this ManagedClusterAddOn. An add-on made of a template is there for those whose
    /// configuration names a template whose state the hub has settled; and for those that are being deleted,
    /// whose template may be gone.
    pub fn is_for(&self, addon: &ManagedClusterAddOn) -> bool {
        let is_leaving = addon.metadata.deletion_timestamp.is_some();
        !self.of_template
            || addon.status.iter().flat_map(|it| &it.config_references).any(|it| {
                it.group == AddOnTemplate::GROUP
                    && it.resource == AddOnTemplate::PLURAL
                    && (is_leaving || it.desired_config.as_ref().is_some_and(|it| !it.spec_hash.is_empty()))
            })
    }
}

fn check(kinds: &[ConfigKind]) -> Result<(), AddError> {
    for (index, kind) in kinds.iter().enumerate() {
        match (kind.version.is_empty(), kind.resource.is_empty()) {
            (true, true) => return Err(AddError::EmptyConfig(index)),
            (true, false) => return Err(AddError::NoVersion(index)),
            (false, true) => return Err(AddError::NoResource(index)),
            (false, false) => {}
        }
        if kinds[..index].iter().any(|it| it.is(&kind.group, &kind.resource)) {
            let name = format!("{}/{}", kind.api_version(), kind.resource);
            return Err(AddError::DuplicateConfig(name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::Value;

    use super::*;
    use crate::{AddOnContext, UserError};

    struct Named(&'static str, Vec<ConfigKind>);

    impl AddOn for Named {
        fn name(&self) -> &str {
            self.0
        }
        fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
            Ok(Vec::new())
        }
        fn supported_configs(&self) -> Vec<ConfigKind> {
            self.1.clone()
        }
    }

    fn add(registry: &Registry, name: &'static str, kinds: Vec<ConfigKind>) -> Result<(), String> {
        let added = registry.add(Arc::new(Named(name, kinds)), false);
        added.map(drop).map_err(|it| it.to_string())
    }

    #[test]
    fn an_add_on_without_a_unique_name_is_refused() {
        let registry = Registry::default();
        assert_eq!(add(&registry, "", vec![]).unwrap_err(), "addon name should be set");
        assert_eq!(add(&registry, "a", vec![]), Ok(()));
        assert_eq!(
            add(&registry, "a", vec![]).unwrap_err(),
            "an agent is added for the addon already"
        );
        registry.remove("a");
        assert_eq!(add(&registry, "a", vec![]), Ok(()));
    }

    #[test]
    fn kinds_of_configuration_are_whole_and_different() {
        let registry = Registry::default();
        let maps = ConfigKind::of::<ConfigMap>();
        let twice = add(&registry, "a", vec![maps.clone(), maps.clone()]);
        assert_eq!(twice.unwrap_err(), "config type \"v1/configmaps\" is duplicated");
        let mut nothing = maps;
        nothing.version.clear();
        assert_eq!(
            add(&registry, "a", vec![nothing.clone()]).unwrap_err(),
            "config version is required, index=0"
        );
        nothing.resource.clear();
        assert_eq!(
            add(&registry, "a", vec![nothing]).unwrap_err(),
            "config type is empty, index=0"
        );
    }

    #[test]
    fn a_template_add_on_exists_only_with_a_settled_template() {
        let registry = Registry::default();
        let entry = registry.add(Arc::new(Named("a", vec![])), true).unwrap();
        let place = AddOnContext::new("cluster1", "a");
        assert!(!entry.is_for(&place.addon));
        let mut addon = (*place.addon).clone();
        let mut reference = ocm_api::addon::v1alpha1::ConfigReference {
            group: AddOnTemplate::GROUP.to_owned(),
            resource: AddOnTemplate::PLURAL.to_owned(),
            desired_config: Some(Default::default()),
            ..Default::default()
        };
        addon.status.get_or_insert_default().config_references = vec![reference.clone()];
        assert!(!entry.is_for(&addon));
        // Somebody has to let go of one that is being deleted, though its template is gone.
        let mut leaving = addon.clone();
        leaving.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            "2026-01-01T12:00:00Z".parse().unwrap(),
        ));
        assert!(entry.is_for(&leaving));
        reference.desired_config.as_mut().unwrap().spec_hash = "1".to_owned();
        addon.status.get_or_insert_default().config_references = vec![reference];
        assert!(entry.is_for(&addon));
    }
}
