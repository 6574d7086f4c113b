//! Configuration objects, read once however many clusters they are meant for.

use std::{collections::VecDeque, sync::Arc};

use kube::Resource;
use ocm_addon_sdk::{AddOnContext, ConfigKind, UserError};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

/// While a change is rolled out there are two states of a template and of each configuration; more than this many are
/// hardly in use at once.
const KEPT_MAX: usize = 16;

/// What objects of one kind say, by the hash of that.
pub struct Read<S> {
    kept: Mutex<VecDeque<(String, Arc<S>)>>,
}

impl<S> Default for Read<S> {
    fn default() -> Self {
        Self { kept: Mutex::default() }
    }
}

impl<S> Read<S> {
    /// What the object of kind `K` says that is meant for a cluster, if there is one.
    ///
    /// # Errors
    /// As [`AddOnContext::config`].
    pub fn of<K>(&self, place: &AddOnContext, spec: impl FnOnce(K) -> S) -> Result<Option<Arc<S>>, UserError>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let kind = ConfigKind::of::<K>();
        let found = place.configs.iter().find(|it| it.kind.is(&kind.group, &kind.resource));
        let Some(found) = found else {
            return Ok(None);
        };
        // What cannot be read is refused each time.
        let hash = Some(&found.object_hash).filter(|it| !it.is_empty() && !found.spec_hash.is_empty());
        if let Some(hash) = hash {
            let mut kept = self.kept.lock();
            if let Some(at) = kept.iter().position(|(it, _)| it == hash) {
                // The one used last comes first.
                kept.swap(0, at);
                return Ok(Some(kept[0].1.clone()));
            }
        }
        let read = place.config::<K>()?.map(|it| Arc::new(spec(it)));
        if let (Some(hash), Some(read)) = (hash, &read) {
            let mut kept = self.kept.lock();
            kept.truncate(KEPT_MAX - 1);
            kept.push_front((hash.clone(), read.clone()));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use ocm_api::addon::{AddOnDeploymentConfigSpec, v1alpha1::AddOnDeploymentConfig};

    use super::*;

    fn place(namespace: &str) -> AddOnContext {
        let mut config = AddOnDeploymentConfig::new("c", Default::default());
        config.spec.agent_install_namespace = namespace.to_owned();
        AddOnContext::new("cluster1", "a").with_config(&config)
    }

    #[test]
    fn an_object_is_parsed_once_per_state() {
        let read: Read<AddOnDeploymentConfigSpec> = Read::default();
        let of = |place: &AddOnContext| read.of::<AddOnDeploymentConfig>(place, |it| it.spec).unwrap().unwrap();
        let (first, second) = (of(&place("one")), of(&place("two")));
        assert_eq!(
            (
                first.agent_install_namespace.as_str(),
                second.agent_install_namespace.as_str()
            ),
            ("one", "two")
        );
        assert!(Arc::ptr_eq(&first, &of(&place("one"))));
        for other in 0..2 * KEPT_MAX {
            of(&place(&format!("n{other}")));
        }
        assert!(!Arc::ptr_eq(&first, &of(&place("one"))));
        assert_eq!(read.kept.lock().len(), KEPT_MAX);
    }

    #[test]
    fn a_missing_or_unsettled_object_is_refused_despite_the_cache() {
        let read: Read<AddOnDeploymentConfigSpec> = Read::default();
        let mut place = place("one");
        read.of::<AddOnDeploymentConfig>(&place, |it| it.spec).unwrap();
        place.configs[0].spec_hash.clear();
        assert!(read.of::<AddOnDeploymentConfig>(&place, |it| it.spec).is_err());
        place.configs[0].spec_hash = "1".to_owned();
        place.configs[0].object_hash.clear();
        place.configs[0].object = None;
        assert!(read.of::<AddOnDeploymentConfig>(&place, |it| it.spec).is_err());
    }
}
