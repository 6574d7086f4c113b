//! Add-ons made of a template alone need no program: the hub runs them itself, from when one is offered until the last one
//! is gone.
//!
//! Root: the name of an add-on. Reads: its ClusterManagementAddOn, and whether it is on any cluster. Writes: nothing to the API but
//! an Event when a template is used that names another add-on; it starts and stops what runs add-ons.
//! Never: stops while the add-on is on a cluster, where its hooks may still have to run.
//! Upstream: ocm `pkg/addon/controllers/addontemplate`.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::addon::{
    GROUP,
    v1alpha1::{AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn},
};
use ocm_reconcile::{
    EventKind, EventStep, ObserveError, Outcome, Plan, Queue, Reconciler, Site, Step, async_trait, cache::split_key,
};
use parking_lot::Mutex;
use serde_json::json;

use super::Caches;
use crate::template::strangers::Strangers;

/// What runs the add-ons that are made of a template. Both are called once per change, and both are quick.
pub trait Templates: Send + Sync + 'static {
    /// Runs the add-on of this name from now on, on all clusters that have it.
    fn start(&self, addon: &str);

    /// Runs it no longer.
    fn stop(&self, addon: &str);

    /// The templates that are used for an add-on other than the one that they name.
    fn strangers(&self) -> Strangers {
        Strangers::default()
    }
}

/// The reconciler.
pub struct TemplateStarts {
    caches: Caches,
    templates: Arc<dyn Templates>,
    strangers: Strangers,
    running: Mutex<BTreeSet<String>>,
}

/// What a plan is made from.
pub struct Seen {
    /// The add-on's name.
    pub name: String,
    /// What the hub offers under this name.
    pub cluster_management_addon: Option<Arc<ClusterManagementAddOn>>,
    /// Whether it is on any cluster.
    pub is_installed: bool,
    /// Whether it is on any cluster as a template says it.
    pub is_installed_from_template: bool,
    /// Whether it runs.
    pub runs: bool,
    /// Templates that have just been found to name another add-on, and which.
    pub strangers: Vec<(String, String)>,
    /// The time.
    pub now: Timestamp,
}

impl TemplateStarts {
    /// Over these caches; `templates` does the running.
    pub fn new(caches: &Caches, templates: Arc<dyn Templates>) -> Self {
        Self {
            caches: caches.clone(),
            strangers: templates.strangers(),
            templates,
            running: Mutex::default(),
        }
    }
}

/// Offers that come, go or change what configures them; add-ons that come and go; templates that name another add-on.
pub fn subscribe(caches: &Caches, strangers: &Strangers, queue: &Queue) {
    strangers.subscribe(queue);
    caches.cluster_management_addons.subscribe(queue, |old, new| {
        let same =
            matches!((old, new), (Some(old), Some(new)) if old.spec.supported_configs == new.spec.supported_configs);
        new.or(old).filter(|_| !same).map(|it| it.name_any())
    });
    caches.addons.subscribe(queue, |old, new| match (old, new) {
        (Some(old), None) => Some(old.name_any()),
        // After a restart there may be no offer left to tell of an add-on whose hooks have still to run.
        (None, Some(new)) if uses_template(new) => Some(new.name_any()),
        _ => None,
    });
}

/// Whether an add-on is made of a template.
pub fn is_of_template(addon: &ClusterManagementAddOn) -> bool {
    let mut kinds = addon.spec.supported_configs.iter();
    kinds.any(|it| it.group == GROUP && it.resource == AddOnTemplate::PLURAL)
}

/// Whether a template says what an add-on is on a cluster.
fn uses_template(addon: &ManagedClusterAddOn) -> bool {
    let mut configs = addon.status.iter().flat_map(|it| &it.config_references);
    configs.any(|it| it.group == GROUP && it.resource == AddOnTemplate::PLURAL)
}

/// Whether the add-on is to run, given what was seen.
fn is_to_run(seen: &Seen) -> bool {
    let offered = seen.cluster_management_addon.as_deref().is_some_and(is_of_template);
    offered || seen.is_installed_from_template || seen.runs && seen.is_installed
}

fn mismatch(offer: &ClusterManagementAddOn, template: &str, named: &str, now: Timestamp) -> EventStep {
    EventStep {
        site: Site::Hub,
        // Where Kubernetes files events about what has no namespace.
        namespace: "default".to_owned(),
        regarding: json!({
            "apiVersion": ClusterManagementAddOn::API_VERSION,
            "kind": ClusterManagementAddOn::KIND,
            "name": offer.metadata.name,
            "uid": offer.metadata.uid,
        }),
        related: Some(json!({
            "apiVersion": AddOnTemplate::API_VERSION,
            "kind": AddOnTemplate::KIND,
            "name": template,
        })),
        kind: EventKind::Warning,
        reason: "AddOnNameMismatch".to_owned(),
        action: "Render".to_owned(),
        note: format!(
            "The AddOnTemplate {template} has addonName {named:?} and is used for add-on {}; write the add-on's name into it, or \
             another template into the add-on's configuration.",
            offer.name_any()
        ),
        reporting_controller: "addon-manager".to_owned(),
        at: now,
    }
}

#[async_trait]
impl Reconciler for TemplateStarts {
    const NAME: &'static str = "addon-template";
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let keys = self.caches.addon_keys(name);
        let from_template = |key: &String| {
            let (cluster, name) = split_key(key);
            self.caches
                .addons
                .get(cluster, name)
                .is_some_and(|it| uses_template(&it))
        };
        Ok(Seen {
            name: name.to_owned(),
            cluster_management_addon: self.caches.cluster_management_addons.named(name),
            is_installed: !keys.is_empty(),
            is_installed_from_template: keys.iter().any(from_template),
            runs: self.running.lock().contains(name),
            strangers: self.strangers.take(name),
            now: Timestamp::now(),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        match (seen.runs, is_to_run(seen)) {
            (false, true) => plan.remark("starts to run"),
            (true, false) => plan.remark("runs no longer"),
            _ => &mut plan,
        };
        if let Some(offer) = seen.cluster_management_addon.as_deref() {
            for (template, named) in &seen.strangers {
                plan.push(Step::Event(mismatch(offer, template, named, seen.now)));
            }
        }
        plan
    }

    fn remember(&self, seen: &Seen, _: &Outcome) {
        let wanted = is_to_run(seen);
        if wanted == seen.runs {
            return;
        }
        if wanted {
            self.running.lock().insert(seen.name.clone());
            self.templates.start(&seen.name);
        } else {
            self.running.lock().remove(&seen.name);
            self.templates.stop(&seen.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(kinds: Option<&[&str]>, is_installed: bool, runs: bool, printed: &str) {
        check_from(kinds, is_installed, false, runs, printed);
    }

    fn check_from(kinds: Option<&[&str]>, is_installed: bool, from_template: bool, runs: bool, printed: &str) {
        let offer = kinds.map(|kinds| {
            let kinds: Vec<_> = kinds.iter().map(|it| json!({"group": GROUP, "resource": it})).collect();
            let offer = json!({"metadata": {"name": "a"}, "spec": {"supportedConfigs": kinds}});
            Arc::new(serde_json::from_value(offer).unwrap())
        });
        let seen = Seen {
            name: "a".to_owned(),
            cluster_management_addon: offer,
            is_installed,
            is_installed_from_template: from_template,
            runs,
            strangers: Vec::new(),
            now: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(
            TemplateStarts::plan(&seen)
                .to_string()
                .replace("nothing to do", "")
                .trim(),
            printed
        );
    }

    #[test]
    fn a_template_add_on_runs_from_its_offer_until_the_last_cluster_is_rid_of_it() {
        let of_template: &[&str] = &["addontemplates"];
        let of_other: &[&str] = &["addondeploymentconfigs"];
        check(Some(of_template), false, false, "note: starts to run");
        check(Some(of_template), true, true, "");
        check(Some(of_other), true, false, "");
        check(Some(of_other), true, true, "");
        check(None, true, true, "");
        check(None, false, true, "note: runs no longer");
        check(Some(of_other), false, true, "note: runs no longer");
    }

    #[test]
    fn a_restarted_hub_runs_what_is_still_installed_though_nobody_offers_it() {
        check_from(None, true, true, false, "note: starts to run");
        check_from(None, true, true, true, "");
    }
}
