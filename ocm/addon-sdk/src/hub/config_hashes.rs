//! Says of the configurations of add-ons on clusters which state of them the hub has seen.
//!
//! Root: ManagedClusterAddOn. Reads: the configuration objects that it refers to.
//! Writes: of `status.configReferences` the `lastObservedGeneration`, and the desired `specHash` of those that the
//! ManagedClusterAddOn itself asks for.
//! Never: which configurations these are, and the hashes of those that come with a placement or by default:
//! they move as the rollout says.
//! Upstream: addon-framework `pkg/addonmanager/controllers/addonconfig`.

use std::sync::Arc;

use ocm_api::addon::v1alpha1::{ConfigReference, ManagedClusterAddOn};
use ocm_reconcile::{
    ObserveError, Plan, Reconciler, Site, StatusField, Watches, async_trait, cache::split_key, rbac::Right,
};

use super::{Context, Lookup, WORKERS, registry::Entry, rights};

/// The reconciler.
pub struct ConfigHashes {
    context: Context,
}

/// What a plan is made from.
pub struct Seen {
    /// The add-on on the cluster, if it is there and ours.
    pub addon: Option<Arc<ManagedClusterAddOn>>,
    /// What is known of the objects it refers to, in the order of its `status.configReferences`; `None` for kinds that
    /// the add-on does not understand.
    pub found: Vec<Option<Lookup>>,
}

impl ConfigHashes {
    /// Over this context.
    pub fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
        }
    }
}

fn look(context: &Context, entry: &Entry, reference: &ConfigReference) -> Option<Lookup> {
    let kind = entry.kind(&reference.group, &reference.resource)?;
    let desired = reference.desired_config.as_ref()?;
    Some(context.configs.find(kind, &desired.namespace, &desired.name))
}

#[async_trait]
impl Reconciler for ConfigHashes {
    const NAME: &'static str = "addon-config";
    const WORKERS: usize = WORKERS;
    const STATUS: &'static [StatusField] = &[StatusField::new("ManagedClusterAddOn", "configReferences")
        .shared("which configurations there are is said by whoever rolls them out, and in which state they are here")];
    const RIGHTS: &'static [Right] = rights::CONFIG_HASHES;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.context.addons);
        self.context.configs.watches_of_addons(watches);
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (cluster, name) = split_key(key);
        let entry = self.context.registry.get(name);
        let addon = self.context.addons.get(cluster, name).filter(|_| entry.is_some());
        let references = addon
            .iter()
            .flat_map(|it| it.status.iter())
            .flat_map(|it| &it.config_references);
        let found = references.map(|it| look(&self.context, entry.as_ref()?, it)).collect();
        Ok(Seen { addon, found })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(addon) = seen.addon.as_deref() else {
            return plan;
        };
        let mut new = addon.clone();
        let references = new.status.iter_mut().flat_map(|it| &mut it.config_references);
        for (reference, found) in references.zip(&seen.found) {
            let (object, hash) = match found {
                Some(Lookup::Found(object, hash)) => (object, hash),
                Some(Lookup::Unknown) => {
                    plan.wait(format!("the hub's {} have not been listed yet", reference.resource));
                    continue;
                }
                Some(Lookup::Missing) => {
                    let name = reference.desired_config.as_ref().map(|it| it.name.as_str());
                    let name = name.unwrap_or_default();
                    plan.remark(format!("{} {name} does not exist", reference.resource));
                    continue;
                }
                None => continue,
            };
            // Objects of built-in kinds such as ConfigMaps have none.
            reference.last_observed_generation = object.metadata.generation.unwrap_or_default();
            if is_own(addon, reference)
                && let Some(desired) = &mut reference.desired_config
            {
                desired.spec_hash.clone_from(hash);
            }
        }
        plan.status(Site::Hub, addon, &new);
        plan
    }
}

fn is_own(addon: &ManagedClusterAddOn, reference: &ConfigReference) -> bool {
    let Some(desired) = &reference.desired_config else {
        return false;
    };
    addon.spec.configs.iter().any(|it| {
        it.group == reference.group
            && it.resource == reference.resource
            && it.namespace == desired.namespace
            && it.name == desired.name
    })
}

#[cfg(test)]
mod tests {
    use ocm_api::addon::{AddOnConfig, ConfigSpecHash};
    use serde_json::json;

    use super::*;

    fn reference(name: &str) -> ConfigReference {
        ConfigReference {
            resource: "configmaps".to_owned(),
            name: name.to_owned(),
            desired_config: Some(ConfigSpecHash {
                name: name.to_owned(),
                ..ConfigSpecHash::default()
            }),
            ..ConfigReference::default()
        }
    }

    fn addon() -> Arc<ManagedClusterAddOn> {
        let mut addon = ManagedClusterAddOn::new("helloworld", Default::default());
        addon.metadata.namespace = Some("cluster1".to_owned());
        addon.spec.configs.push(AddOnConfig {
            resource: "configmaps".to_owned(),
            name: "own".to_owned(),
            ..AddOnConfig::default()
        });
        addon.status.get_or_insert_default().config_references = vec![reference("own"), reference("default")];
        Arc::new(addon)
    }

    fn found() -> Option<Lookup> {
        let object = json!({"metadata": {"name": "x", "generation": 3}, "data": {"a": "b"}});
        Some(Lookup::Found(
            Arc::new(serde_json::from_value(object).unwrap()),
            "5e".to_owned(),
        ))
    }

    #[test]
    fn only_the_clusters_own_configurations_get_a_hash() {
        let seen = Seen {
            addon: Some(addon()),
            found: vec![found(), found()],
        };
        let plan = ConfigHashes::plan(&seen);
        let ocm_reconcile::Step::MergePatch { patch, .. } = &plan.stages[0][0] else {
            panic!("{plan}");
        };
        let references = &patch["status"]["configReferences"];
        assert_eq!(references[0]["desiredConfig"]["specHash"], "5e");
        assert_eq!(references[0]["lastObservedGeneration"], 3);
        assert_eq!(references[1]["desiredConfig"]["specHash"], "");
        assert_eq!(references[1]["lastObservedGeneration"], 3);
    }

    #[test]
    fn missing_or_unknown_configurations_are_left_unchanged() {
        let seen = Seen {
            addon: Some(addon()),
            found: vec![Some(Lookup::Missing), None],
        };
        assert_eq!(
            ConfigHashes::plan(&seen).to_string(),
            "nothing to do\nnote: configmaps own does not exist\n"
        );
    }
}
