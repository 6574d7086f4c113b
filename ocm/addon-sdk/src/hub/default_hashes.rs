//! Says of the configurations that an add-on has by default and by placement which state of them is wanted now.
//!
//! Root: ClusterManagementAddOn. Reads: the configuration objects that it refers to.
//! Writes: the desired `specHash` in `status.defaultConfigReferences` and `status.installProgressions`.
//! Never: which configurations these are, and how far they have got.
//! Upstream: addon-framework `pkg/addonmanager/controllers/cmaconfig`.

use std::{collections::BTreeMap, sync::Arc};

use ocm_api::addon::{ConfigSpecHash, v1alpha1::ClusterManagementAddOn};
use ocm_reconcile::{Cache, ObserveError, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right};

use super::{ConfigKey, Context, Lookup, WORKERS, rights};

/// Why its fields have a second author.
const SHARED: &str = "which configurations there are is said by whoever rolls them out, and which state is wanted here";

/// The reconciler.
pub struct DefaultHashes {
    context: Context,
    management: Cache<ClusterManagementAddOn>,
}

/// What a plan is made from.
pub struct Seen {
    /// The add-on, if it is there and ours.
    pub management: Option<Arc<ClusterManagementAddOn>>,
    /// What is known of the objects that it refers to, of the kinds that it understands.
    pub found: BTreeMap<ConfigKey, Lookup>,
}

impl DefaultHashes {
    /// Over this context.
    pub fn new(context: &Context) -> Self {
        Self {
            management: context.caches.of(),
            context: context.clone(),
        }
    }
}

#[async_trait]
impl Reconciler for DefaultHashes {
    const NAME: &'static str = "management-addon-config";
    const WORKERS: usize = WORKERS;
    const STATUS: &'static [StatusField] = &[
        StatusField::new("ClusterManagementAddOn", "defaultconfigReferences").shared(SHARED),
        StatusField::new("ClusterManagementAddOn", "installProgressions").shared(SHARED),
    ];
    const RIGHTS: &'static [Right] = rights::DEFAULT_HASHES;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.management);
        self.context.configs.watches_of_management(watches);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let entry = self.context.registry.get(name);
        let management = self.management.named(name).filter(|_| entry.is_some());
        let mut found = BTreeMap::new();
        if let (Some(management), Some(entry)) = (&management, entry) {
            let mut all = (**management).clone();
            for (group, resource, desired) in references(&mut all) {
                if let Some(kind) = entry.kind(group, resource) {
                    let lookup = self.context.configs.find(kind, &desired.namespace, &desired.name);
                    found.insert(ConfigKey::of(group, resource, desired), lookup);
                }
            }
        }
        Ok(Seen { management, found })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(management) = seen.management.as_deref() else {
            return plan;
        };
        let mut new = management.clone();
        for (group, resource, desired) in references(&mut new) {
            match seen.found.get(&ConfigKey::of(group, resource, desired)) {
                Some(Lookup::Found(_, hash)) => desired.spec_hash.clone_from(hash),
                Some(Lookup::Missing) => {
                    plan.remark(format!("{resource} {} does not exist", desired.name));
                    desired.spec_hash.clear();
                }
                Some(Lookup::Unknown) => {
                    plan.wait(format!("the hub's {resource} have not been listed yet"));
                }
                None => {}
            }
        }
        plan.status(Site::Hub, management, &new);
        plan
    }
}

// Group, resource and what is wanted, of all references.
fn references(of: &mut ClusterManagementAddOn) -> Vec<(&str, &str, &mut ConfigSpecHash)> {
    let Some(status) = &mut of.status else {
        return Vec::new();
    };
    let defaults = status
        .default_config_references
        .iter_mut()
        .filter_map(|it| Some((it.group.as_str(), it.resource.as_str(), it.desired_config.as_mut()?)));
    let placements = status
        .install_progressions
        .iter_mut()
        .flat_map(|it| &mut it.config_references);
    let placements =
        placements.filter_map(|it| Some((it.group.as_str(), it.resource.as_str(), it.desired_config.as_mut()?)));
    defaults.chain(placements).collect()
}

#[cfg(test)]
mod tests {
    use ocm_api::addon::{DefaultConfigReference, InstallConfigReference, InstallProgression};
    use serde_json::json;

    use super::*;

    fn desired(name: &str) -> Option<ConfigSpecHash> {
        Some(ConfigSpecHash {
            name: name.to_owned(),
            spec_hash: "old".to_owned(),
            ..ConfigSpecHash::default()
        })
    }

    fn management() -> Arc<ClusterManagementAddOn> {
        let mut management = ClusterManagementAddOn::new("helloworld", Default::default());
        let status = management.status.get_or_insert_default();
        for name in ["there", "gone"] {
            status.default_config_references.push(DefaultConfigReference {
                resource: "configmaps".to_owned(),
                desired_config: desired(name),
                ..DefaultConfigReference::default()
            });
        }
        status.install_progressions.push(InstallProgression {
            config_references: vec![InstallConfigReference {
                resource: "configmaps".to_owned(),
                desired_config: desired("there"),
                last_applied_config: desired("there"),
                ..InstallConfigReference::default()
            }],
            ..InstallProgression::default()
        });
        Arc::new(management)
    }

    fn name(name: &str) -> ConfigKey {
        ConfigKey {
            group: String::new(),
            resource: "configmaps".to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn desired_hashes_are_the_hub_state_or_empty_if_missing() {
        let object = serde_json::from_value(json!({"metadata": {"name": "there"}})).unwrap();
        let seen = Seen {
            management: Some(management()),
            found: BTreeMap::from([
                (name("there"), Lookup::Found(Arc::new(object), "new".to_owned())),
                (name("gone"), Lookup::Missing),
            ]),
        };
        let plan = DefaultHashes::plan(&seen);
        let ocm_reconcile::Step::MergePatch { patch, .. } = &plan.stages[0][0] else {
            panic!("{plan}");
        };
        let defaults = &patch["status"]["defaultconfigReferences"];
        assert_eq!(defaults[0]["desiredConfig"]["specHash"], "new");
        assert_eq!(defaults[1]["desiredConfig"]["specHash"], "");
        let placement = &patch["status"]["installProgressions"][0]["configReferences"][0];
        assert_eq!(placement["desiredConfig"]["specHash"], "new");
        assert_eq!(placement["lastAppliedConfig"]["specHash"], "old");
    }

    #[test]
    fn unknown_configurations_are_left_unchanged() {
        let seen = Seen {
            management: Some(management()),
            found: BTreeMap::from([(name("there"), Lookup::Unknown)]),
        };
        assert!(DefaultHashes::plan(&seen).is_empty());
    }
}
