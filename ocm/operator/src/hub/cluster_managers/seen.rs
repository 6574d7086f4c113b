//! What a plan is made from, and what is to become of a ClusterManager.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use ocm_api::operator::ClusterManager;

use super::super::{
    Options,
    hosted::{self, Token, Way},
    install::{self, HubSources, Install},
    wanted::{self, Facts, HubObjects},
};
use crate::objects::{Apis, Current};

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// What the operator was told.
    pub options: Arc<Options>,
    /// The ClusterManager; `None` when it is gone.
    pub manager: Option<Arc<ClusterManager>>,
    /// An older ClusterManager that has the same namespace.
    pub elder: Option<String>,
    /// What is known beside.
    pub facts: Facts,
    /// Why nothing is made of it, although the ClusterManager says nothing wrong: a reason and a sentence.
    pub obstacle: Option<(&'static str, String)>,
    /// The hub on another cluster, if it is on one and answers.
    pub way: Option<Way>,
    /// What is copied.
    pub sources: HubSources,
    /// The pods of hubs.
    pub pods: Vec<Arc<Pod>>,
    /// What is there.
    pub current: Current,
    /// The objects that keep the next CRD from going, in words.
    pub holders: Vec<String>,
    /// Tokens that were given in this run.
    pub tokens: BTreeMap<String, Token>,
    /// Where it is written to.
    pub apis: Apis,
}

/// What is to become of a ClusterManager.
pub(super) enum Course {
    /// It is not there.
    Nothing,
    /// Nothing is done, for a reason and with a sentence.
    Refused(&'static str, String),
    /// Its hub is taken away.
    Removal,
    /// Its hub is kept.
    Kept,
}

impl Seen {
    pub(super) fn course(&self) -> Course {
        let Some(manager) = &self.manager else {
            return Course::Nothing;
        };
        if manager.metadata.deletion_timestamp.is_some() {
            return Course::Removal;
        }
        if let Some(elder) = &self.elder {
            let namespace = wanted::namespace(manager);
            let message = format!(
                "ClusterManager {elder} is older and has the namespace {namespace}: delete one of the two, or set \
                 spec.deployOption.mode of this one to Hosted"
            );
            return Course::Refused("NamespaceTaken", message);
        }
        let refusal = wanted::refusal(&HubObjects::of(manager, &self.options, &self.facts));
        match refusal.or_else(|| self.obstacle.clone()) {
            Some((reason, message)) => Course::Refused(reason, message),
            None => Course::Kept,
        }
    }

    /// What the hub is made of, and the ServiceAccounts of which a token has to be asked for first.
    pub(super) fn install(&self, hub: &HubObjects<'_>) -> (Install, Vec<&'static str>) {
        let (kubeconfigs, missing) = match &self.way {
            Some(way) => hosted::kubeconfigs(hub, way, &self.current, &self.tokens, self.now),
            None => (Vec::new(), Vec::new()),
        };
        (
            install::install(hub, &self.sources, kubeconfigs, &self.current),
            missing,
        )
    }
}
