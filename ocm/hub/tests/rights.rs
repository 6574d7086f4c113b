//! The role of a hub's deployment grants what the controllers say that they need.

use std::collections::BTreeSet;

use hub::{Component, Options, controllers::controllers};
use ocm_reconcile::{Caches, Controller, rbac::Right};

/// Group, resource and verb.
type Grant = (String, String, String);

fn grants(right: &Right) -> Vec<Grant> {
    let words = |it: &str| it.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut all = Vec::new();
    for resource in words(right.resources) {
        for verb in words(right.verbs) {
            all.push((right.group.to_owned(), resource.clone(), verb));
        }
    }
    all
}

fn needs(controller: &Controller) -> Vec<Grant> {
    let kinds = controller.watches.iter().filter(|it| !it.plural.is_empty());
    let watched =
        kinds.flat_map(|it| ["list", "watch"].map(|verb| (it.group.clone(), it.plural.clone(), verb.to_owned())));
    watched.chain(controller.rights.iter().flat_map(grants)).collect()
}

#[test]
fn the_role_grants_what_the_controllers_need() {
    let granted: BTreeSet<Grant> = hub::rbac::RIGHTS.iter().flat_map(grants).collect();
    let mut options = Options::default();
    options.registration.cluster_profiles = true;
    options.importer = Some(operator::importer::Options::default());
    let caches = Caches::unfed();
    let parts = Component::ALL.map(|it| controllers(&caches, it, &options));
    let add_ons = ocm_addon_sdk::hub::controllers(&caches, Default::default());
    for controllers in parts.iter().chain([&add_ons]) {
        assert!(!controllers.is_empty());
        for controller in controllers {
            let missing: Vec<_> = needs(controller)
                .into_iter()
                .filter(|it| !granted.contains(it))
                .collect();
            assert!(missing.is_empty(), "{} needs {missing:?}", controller.name);
        }
    }
}
