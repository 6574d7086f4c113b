//! What an add-on's author wants on a cluster, as works: asked where the add-on is served or has hooks to run, and not
//! again while nothing that matters has changed.

use std::sync::Arc;

use ocm_api::work::ManifestWork;

use super::{
    manifest,
    memory::{self, Fingerprints},
    plan::{AddOnPhase, Here, Host},
    works::{self, Ingredients, WantedWork},
};
use crate::Config;

/// What an add-on's author wants on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Rendered {
    /// There was no reason to ask.
    NotAsked,
    /// Nothing has changed since the works agreed.
    Settled,
    /// A configuration has changed, and the cluster's turn has not come; the works stay as they are. Upstream renders
    /// whatever it finds, so that a change reaches a cluster before its turn when anything else happens there.
    Held(String),
    /// No answer: what to tell the user.
    Refused(String),
    /// These works, hooks included.
    Works(Vec<WantedWork>),
}

/// What is wanted where these works are present.
pub(super) fn rendered(here: &Here, present: &[Arc<ManifestWork>]) -> Rendered {
    match here.phase() {
        AddOnPhase::Waits(_) | AddOnPhase::Deleting => Rendered::NotAsked,
        AddOnPhase::PreDelete(_) => render(here, present),
        AddOnPhase::Serving => {
            let now = Fingerprints {
                inputs: here.inputs,
                works: memory::shared_works(present),
            };
            match here.place.held().and_then(Config::hindrance) {
                _ if here.settled == Some(now) => Rendered::Settled,
                Some(why) => Rendered::Held(why),
                None => render(here, present),
            }
        }
    }
}

/// Asks the author what is wanted, and makes works of the answer. Pure.
fn render(here: &Here, present: &[Arc<ManifestWork>]) -> Rendered {
    let place = &here.place;
    let manifests = match here.add_on.manifests(place) {
        Ok(manifests) => manifests,
        Err(why) => return Rendered::Refused(format!("failed to get manifest from agent interface: {why}")),
    };
    let host = Host::at(place);
    match manifest::share(manifests, host != Host::None) {
        Ok(shares) => Rendered::Works(works::wanted(
            &Ingredients {
                addon: &place.addon,
                hosting: host.usable(),
                health: &here.health,
                manifest_configs: &here.add_on.manifest_configs(place),
                present,
            },
            shares,
        )),
        Err(why) => Rendered::Refused(format!("failed to build manifestwork: {why}")),
    }
}
