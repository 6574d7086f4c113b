//! Add-ons made of a template alone need no program: the hub runs them itself, from
//! when one is offered until the last one is gone.
//!
//! Root: the name of an add-on. Reads: its ClusterManagementAddOn, and whether it is on any cluster. Writes: nothing to
//! the API but an Event when a template is used that names another add-on; it starts and stops the managers of such
//! add-ons. Never: stops while the add-on is on a cluster, where its hooks may still have to run.
//! Upstream: ocm `pkg/addon/controllers/addontemplate`.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::addon::{
    GROUP,
    v1alpha1::{AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn},
};
use ocm_reconcile::{
    Cache, Caches, Done, ObserveError, Outcome, OwnStep, Plan, Reconciler, StepError, Watches, async_trait, rbac::Right,
};
use parking_lot::Mutex;

use super::{events, indexes::AddOns, rights};
use crate::template::{Templates, name_mismatches::NameMismatches};

/// The reconciler.
pub struct TemplateStarts {
    cluster_management_addons: Cache<ClusterManagementAddOn>,
    addons: AddOns,
    templates: Arc<dyn Templates>,
    mismatches: NameMismatches,
    running: Mutex<BTreeSet<String>>,
}

/// What a plan is made from.
pub struct Seen {
    /// The add-on's name.
    pub name: String,
    /// What the hub offers under this name.
    pub cluster_management_addon: Option<Arc<ClusterManagementAddOn>>,
    /// Where it is, by cluster.
    pub addons: Vec<Arc<ManagedClusterAddOn>>,
    /// Whether its manager runs.
    pub runs: bool,
    /// Templates that have just been found to name another add-on, and which.
    pub mismatches: Vec<(String, String)>,
    /// The time.
    pub now: Timestamp,
}

#[async_trait]
impl Reconciler for TemplateStarts {
    const NAME: &'static str = "addon-template";
    const WORKERS: usize = super::WORKERS;
    const RIGHTS: &'static [Right] = &[rights::EVENTS];
    type Seen = Seen;

    /// Offers that come, go or change what configures them; add-ons that come and go;
    /// templates that name another add-on.
    fn watches(&self, watches: &mut Watches) {
        let mismatches = self.mismatches.clone();
        watches.signal("a template that names another add-on", move |queue| {
            mismatches.subscribe(queue)
        });
        watches.wakes(&self.cluster_management_addons, |old, new| {
            let same = matches!((old, new), (Some(old), Some(new)) if old.spec.supported_configs == new.spec.supported_configs);
            new.or(old).filter(|_| !same).map(|it| it.name_any())
        });
        watches.wakes(&self.addons.cache, |old, new| match (old, new) {
            (Some(old), None) => Some(old.name_any()),
            // After a restart there may be no offer left to tell of an add-on whose hooks have still to run.
            (None, Some(new)) if uses_template(new) => Some(new.name_any()),
            _ => None,
        });
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            name: name.to_owned(),
            cluster_management_addon: self.cluster_management_addons.named(name),
            addons: self.addons.named(name),
            runs: self.running.lock().contains(name),
            mismatches: self.mismatches.news(name),
            now: Timestamp::now(),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let offer = seen.cluster_management_addon.as_deref();
        let is_installed_from_template = seen.addons.iter().any(|it| uses_template(it));
        let is_to_run =
            offer.is_some_and(is_of_template) || is_installed_from_template || seen.runs && !seen.addons.is_empty();
        if is_to_run != seen.runs {
            let verb = if is_to_run { START } else { STOP };
            plan.perform(verb, format!("manager of add-on {}", seen.name));
        }
        if let Some(offer) = offer {
            for (template, named) in &seen.mismatches {
                plan.push(events::name_mismatch(offer, template, named, seen.now));
            }
        }
        plan
    }

    async fn perform(&self, seen: &Seen, own: &OwnStep) -> Result<Done, StepError> {
        let mut running = self.running.lock();
        if own.verb == START {
            running.insert(seen.name.clone());
            self.templates.start(&seen.name);
        } else {
            running.remove(&seen.name);
            self.templates.stop(&seen.name);
        }
        Ok(Done::Performed)
    }

    fn remember(&self, seen: &Seen, _: &Outcome) {
        self.mismatches.were_told(&seen.name, &seen.mismatches);
    }
}

const START: &str = "start";
const STOP: &str = "stop";

impl TemplateStarts {
    /// Over these caches; `templates` does the running.
    pub fn new(caches: &Caches, templates: Arc<dyn Templates>) -> Self {
        Self {
            cluster_management_addons: caches.of(),
            addons: AddOns::of(caches),
            mismatches: templates.name_mismatches(),
            templates,
            running: Mutex::default(),
        }
    }
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

#[cfg(test)]
mod tests {
    use ocm_reconcile::{Clients, settle::settle};
    use serde_json::{Value, json};

    use super::*;

    fn seen(kinds: Option<&[&str]>, addons: &[Value], runs: bool) -> Seen {
        let offer = kinds.map(|kinds| {
            let kinds: Vec<_> = kinds.iter().map(|it| json!({"group": GROUP, "resource": it})).collect();
            let offer = json!({"metadata": {"name": "a"}, "spec": {"supportedConfigs": kinds}});
            Arc::new(serde_json::from_value(offer).unwrap())
        });
        let addons = addons
            .iter()
            .map(|it| Arc::new(serde_json::from_value(it.clone()).unwrap()));
        Seen {
            name: "a".to_owned(),
            cluster_management_addon: offer,
            addons: addons.collect(),
            runs,
            mismatches: Vec::new(),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn addon(configs: &[&str]) -> Value {
        let references: Vec<_> = configs
            .iter()
            .map(|it| json!({"group": GROUP, "resource": it}))
            .collect();
        json!({"metadata": {"name": "a", "namespace": "c1"}, "spec": {}, "status": {"configReferences": references}})
    }

    fn check(kinds: Option<&[&str]>, addons: &[Value], runs: bool, printed: &str) {
        let plan = TemplateStarts::plan(&seen(kinds, addons, runs)).to_string();
        assert_eq!(plan.replace("nothing to do", "").trim(), printed);
    }

    const OF_TEMPLATE: Option<&[&str]> = Some(&["addontemplates"]);
    const OF_OTHER: Option<&[&str]> = Some(&["addondeploymentconfigs"]);

    #[test]
    fn a_template_add_on_runs_until_no_cluster_uses_it() {
        let other = [addon(&["addondeploymentconfigs"])];
        check(OF_TEMPLATE, &[], false, "start manager of add-on a");
        check(OF_TEMPLATE, &other, true, "");
        check(OF_OTHER, &other, false, "");
        check(OF_OTHER, &other, true, "");
        check(None, &other, true, "");
        check(None, &[], true, "stop manager of add-on a");
        check(OF_OTHER, &[], true, "stop manager of add-on a");
    }

    #[test]
    fn a_restarted_hub_runs_installed_add_ons_without_an_offer() {
        let of_template = [addon(&["addontemplates"])];
        check(None, &of_template, false, "start manager of add-on a");
        check(None, &of_template, true, "");
    }

    #[test]
    fn a_template_mismatch_is_reported_while_the_add_on_exists() {
        let mut seen = seen(OF_OTHER, &[], false);
        seen.mismatches = vec![("t".to_owned(), "b".to_owned())];
        let told = "hub: event Warning AddOnNameMismatch in default";
        assert_eq!(TemplateStarts::plan(&seen).to_string().trim(), told);
        seen.cluster_management_addon = None;
        assert!(TemplateStarts::plan(&seen).is_empty());
    }

    #[derive(Default)]
    struct Calls(Mutex<Vec<String>>);

    impl Templates for Calls {
        fn start(&self, addon: &str) {
            self.0.lock().push(format!("start {addon}"));
        }

        fn stop(&self, addon: &str) {
            self.0.lock().push(format!("stop {addon}"));
        }
    }

    #[tokio::test]
    async fn a_manager_is_started_once_and_stopped_once() {
        let (caches, calls) = (Caches::unfed(), Arc::new(Calls::default()));
        let reconciler = TemplateStarts::new(&caches, calls.clone());
        let clients = Clients::default();
        let offer = |kinds| (*seen(kinds, &[], false).cluster_management_addon.unwrap()).clone();
        caches.of().put(offer(OF_TEMPLATE));
        let begun = settle(&reconciler, &clients, "a", 2).await.unwrap();
        assert_eq!(begun, ["start manager of add-on a\n"]);
        caches.of().put(offer(OF_OTHER));
        settle(&reconciler, &clients, "a", 2).await.unwrap();
        assert_eq!(*calls.0.lock(), ["start a", "stop a"]);
    }
}
