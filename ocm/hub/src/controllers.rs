//! The one list of what runs on a hub, and of which part it belongs to.
//!
//! Upstream runs each part as a program of its own, and so may we: the parts meet only through the API. What they share
//! in one process is a watch per kind, and nothing else.

use std::{sync::Arc, time::Duration};

use addon::template::InManager;
use kube::Client;
use ocm_addon_sdk::{
    deploy::AddOnWorks,
    hub::{self as sdk, Manager},
};
use ocm_reconcile::{Caches, Clients, Controller, Queue, Running, controller::start_all};
use operator::importer::Importer;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::Options;

/// How long to wait before the hub is asked again who it is.
const RETRY: Duration = Duration::from_secs(1);

/// A part of a hub that can be a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// Clusters and their sets, and what they and their add-ons say of each other (upstream:
    /// `registration controller`).
    Registration,
    /// Works on the hub's side (upstream: `work manager`).
    Work,
    /// Placements (upstream: `placement controller`).
    Placement,
    /// Add-ons, and those made of templates (upstream: `addon manager`).
    AddOns,
}

impl Component {
    /// All of a hub.
    pub const ALL: [Self; 4] = [Self::Registration, Self::Work, Self::Placement, Self::AddOns];
}

/// The caches of a hub: one watch per kind, whoever reads it. Each starts when the first controller asks for it.
pub fn caches(client: Client, cancel: CancellationToken) -> Caches {
    Caches::new(client, cancel).shaped(work::hub::replica_set::sharing::shape())
}

/// The controllers of a part. Add-ons have more, which come and go with the add-ons that run in the process: those of
/// [`ocm_addon_sdk::hub::Manager`].
pub fn controllers(caches: &Caches, component: Component, options: &Options) -> Vec<Controller> {
    match component {
        Component::Registration => {
            let mut controllers = registration::hub::controllers(caches, options.registration.clone());
            controllers.extend(addon::hub::of_clusters(caches));
            if let Some(importer) = &options.importer {
                controllers.push(Controller::new(Importer::new(caches, importer.clone())));
            }
            controllers
        }
        Component::Work => work::hub::controllers(caches, options.works),
        Component::Placement => placement::hub::controllers(caches),
        Component::AddOns => addon::hub::controllers(caches),
    }
}

/// Starts what belongs to a part: each controller when the watches that it reads have arrived.
/// They end with the caches.
pub fn start(client: &Client, caches: &Caches, component: Component, options: &Options) -> Vec<Running> {
    let clients = Clients::hub(client.clone());
    let mut running = start_all(controllers(caches, component, options), &clients, caches.cancel_token());
    if component == Component::AddOns {
        running.push(add_ons(client.clone(), caches.clone(), options.clone()));
    }
    running
}

/// The manager of the add-ons of this process, and what adds those that are made of templates to it, as one: the
/// manager asks the hub first who it is, and nobody else waits for the answer.
fn add_ons(client: Client, caches: Caches, options: Options) -> Running {
    let queue = Queue::awaiting();
    let begun = queue.clone();
    let finished = tokio::spawn(async move {
        let Some(manager) = manager(&client, &caches, &options).await else {
            return begun.begin();
        };
        let templates = Arc::new(InManager::new(manager.clone()));
        let templates = addon::hub::of_templates(&caches, templates);
        let templates = templates.start(Clients::hub(client), caches.cancel_token().clone());
        manager.begun().await;
        templates.queue.begun().await;
        begun.begin();
        manager.finished().await;
        // It can only have panicked, which was told.
        let _ = templates.finished.await;
    });
    Running { queue, finished }
}

/// What runs the add-ons of this process: those that were handed in, and later those that are made of templates. `None`
/// when the hub stops before it has said who it is.
async fn manager(client: &Client, caches: &Caches, options: &Options) -> Option<Manager> {
    let cancel = caches.cancel_token();
    // The process has all works anyway.
    AddOnWorks::among_all(caches);
    let of_sdk = match &options.authorities {
        Some(namespace) => sdk::Options::in_namespace(namespace),
        None => sdk::Options::default(),
    };
    let manager = loop {
        let started = Manager::start(client.clone(), caches, of_sdk.clone(), cancel.clone());
        match cancel.run_until_cancelled(started).await? {
            Ok(manager) => break manager,
            Err(error) => warn!(%error, "add-ons cannot run yet, will retry"),
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = cancel.cancelled() => return None,
        }
    };
    for add_on in &options.addons {
        let name = add_on.name().to_owned();
        if let Err(error) = manager.add(add_on.clone()) {
            warn!(%name, %error, "the add-on does not run");
        }
    }
    Some(manager)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use ocm_reconcile::StatusField;

    use super::*;

    fn all() -> Vec<Controller> {
        let caches = Caches::unfed();
        let options = Options {
            importer: Some(operator::importer::Options::default()),
            ..Options::default()
        };
        let parts = Component::ALL
            .into_iter()
            .flat_map(|it| controllers(&caches, it, &options));
        parts
            .chain(sdk::controllers(&caches, sdk::Options::default()))
            .collect()
    }

    #[tokio::test]
    async fn every_controller_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = all().iter().map(|it| it.name).collect();
        assert_eq!(names.len(), all().len());
    }

    #[tokio::test]
    async fn a_status_field_has_one_author_or_says_why_not() {
        let mut authors: BTreeMap<String, Vec<(&str, StatusField)>> = BTreeMap::new();
        let controllers = all();
        for controller in &controllers {
            for field in controller.status {
                authors
                    .entry(field.to_string())
                    .or_default()
                    .push((controller.name, *field));
            }
        }
        assert!(authors.len() > 10, "{authors:?}");
        for (field, authors) in authors {
            let explained = authors.iter().all(|(_, it)| !it.shared.is_empty());
            assert!(authors.len() == 1 || explained, "{field} is written by {authors:?}");
        }
    }
}
