//! The known add-ons that come with drover: managed-serviceaccount and cluster-permission.
//!
//! Each is a crate that uses the SDK alone. Here is what the binary does with them: it is their image, called by their
//! programs' names as upstream's images are, and `drover up --addons` runs their hub's halves in its own process.

use std::{ffi::OsString, path::Path, process::ExitCode, sync::Arc};

use anyhow::{Context, Result};
use kube::Client;
use ocm_addon_sdk::{AddOn, program::Place};
use ocm_api::{authentication, crds, rbac};
use ocm_reconcile::{Caches, Clients, Controller, controller, install::install_crds};
use tokio_util::sync::CancellationToken;

/// The first word of what a node runs for the images of these add-ons; the name of the add-on, the pod's directory and
/// the container's command follow. People do not type it.
pub const IN_POD: &str = "--add-on-in-pod";

/// One of them.
pub struct Bundled {
    /// The add-on's name.
    pub name: &'static str,
    /// The image that this binary stands for, whatever the tag.
    pub image: &'static str,
    /// The names of the programs in it.
    pub programs: &'static [&'static str],
    /// The API group of its kinds.
    group: &'static str,
    run: fn(&str, Vec<OsString>, &Place) -> ExitCode,
    /// What clusters get of it, if they do.
    add_on: Option<fn() -> Arc<dyn AddOn>>,
    controllers: fn(&Caches) -> Vec<Controller>,
}

/// All of them.
pub const ALL: [Bundled; 2] = [
    Bundled {
        name: addon_managed_serviceaccount::NAME,
        image: "quay.io/open-cluster-management/managed-serviceaccount",
        programs: addon_managed_serviceaccount::PROGRAMS,
        group: authentication::GROUP,
        run: addon_managed_serviceaccount::run,
        add_on: Some(managed_service_accounts),
        controllers: |caches| addon_managed_serviceaccount::hub::controllers(caches, GATES),
    },
    Bundled {
        name: addon_cluster_permission::NAME,
        image: "quay.io/open-cluster-management/cluster-permission",
        programs: addon_cluster_permission::PROGRAMS,
        group: rbac::GROUP,
        run: addon_cluster_permission::run,
        add_on: None,
        controllers: addon_cluster_permission::controllers,
    },
];

/// `drover up` is to show what there is: both do nothing before somebody asks for it in an object.
const GATES: addon_managed_serviceaccount::hub::Gates = addon_managed_serviceaccount::hub::Gates {
    ephemeral_identity: true,
    cluster_profile: true,
};

fn managed_service_accounts() -> Arc<dyn AddOn> {
    Arc::new(addon_managed_serviceaccount::hub::ManagedServiceAccounts::default())
}

/// The one of this name.
pub fn find(name: &str) -> Option<&'static Bundled> {
    ALL.iter().find(|it| it.name == name)
}

/// What clusters get of those that they get something of.
pub fn add_ons() -> Vec<Arc<dyn AddOn>> {
    ALL.iter().filter_map(|it| it.add_on).map(|it| it()).collect()
}

impl Bundled {
    /// Whether clusters get something of it; otherwise it is on the hub alone.
    pub fn is_on_clusters(&self) -> bool {
        self.add_on.is_some()
    }

    /// Runs one of its programs; the first of the words names it, with or without a path. `None` when it is none.
    pub fn run(&self, words: &[OsString], place: &Place) -> Option<ExitCode> {
        let (first, rest) = words.split_first()?;
        let name = Path::new(first).file_name()?.to_str()?;
        let program = self.programs.iter().find(|it| **it == name)?;
        Some((self.run)(program, rest.to_vec(), place))
    }
}

/// Runs the program that these arguments ask for: by the name the binary was called by, or by the first of them, as a
/// word (`drover msa agent`) or as a path (`drover /msa agent`). `None` when they ask for none.
pub fn run(arguments: &[OsString]) -> Option<ExitCode> {
    let at = |position: usize| {
        let words = arguments.get(position..)?;
        ALL.iter().find_map(|it| it.run(words, &Place::default()))
    };
    at(0).or_else(|| at(1))
}

/// Starts the hub's halves of the add-ons that are wanted, and of those that an earlier run has left its kinds of.
///
/// # Errors
/// When a definition is not taken.
pub async fn start(hub: &Client, caches: &Caches, wanted: &[String], stop: &CancellationToken) -> Result<()> {
    for one in &ALL {
        if wanted.iter().any(|it| it == one.name) {
            let definitions = crds::add_on(one.group);
            let installed = install_crds(hub, definitions).await;
            installed.with_context(|| format!("could not install the kinds of add-on {}", one.name))?;
        } else if !is_served(hub, one.group).await {
            continue;
        }
        controller::start_all((one.controllers)(caches), &Clients::hub(hub.clone()), stop);
    }
    Ok(())
}

async fn is_served(hub: &Client, group: &str) -> bool {
    hub.list_api_groups()
        .await
        .is_ok_and(|it| it.groups.iter().any(|it| it.name == group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_has_a_link_for_each_program() {
        let recipe = include_str!("../../../deploy/Containerfile");
        let loops = recipe.split("for name in ").skip(1);
        let names = loops.filter_map(|it| Some(it.split_once(';')?.0.split_whitespace()));
        let linked: Vec<&str> = names.flatten().filter_map(|it| it.rsplit('/').next()).collect();
        for program in ALL.iter().flat_map(|it| it.programs) {
            assert!(linked.contains(program), "{program}");
        }
    }

    #[test]
    fn a_program_is_selected_by_its_add_on() {
        let add_on = find("managed-serviceaccount").unwrap();
        let words = |it: &[&str]| it.iter().map(OsString::from).collect::<Vec<_>>();
        let place = Place::pod("/pod");
        assert_eq!(add_on.run(&words(&["/cluster-permission"]), &place), None);
        assert_eq!(add_on.run(&words(&["drover", "kube", "up"]), &place), None);
        let helped = add_on.run(&words(&["/msa", "--help"]), &place);
        assert_eq!(helped, Some(ExitCode::SUCCESS));
        assert_eq!(run(&words(&["drover", "up"])), None);
    }
}
