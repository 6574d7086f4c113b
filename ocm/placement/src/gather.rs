//! The world of one placement, listed through a client: for who asks once and watches nothing.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{Api, Client, Resource, api::ListParams};
use ocm_api::cluster::{
    AddOnPlacementScore, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement, PlacementDecision,
};
use ocm_reconcile::{Cache, Note, Reconciler, cache::key_of};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    debug::{self, DebugRequest},
    hub::{
        desired::unscheduled,
        load::{Load, all_clusters, belongs_to},
        memory::{ChoiceInput, placements_of},
        schedule::{Scheduling, Seen},
    },
    select::{Scores, SelectionInput, select},
};

/// What is on a hub for one placement.
pub struct Gathered {
    /// Everything that its choice depends on.
    pub world: SelectionInput,
    /// The decisions that are or could be its own.
    decisions: Vec<Arc<PlacementDecision>>,
}

impl Gathered {
    /// The notes of what the hub's reconciler would plan now: why it does not do more.
    pub fn notes(&self) -> Vec<Note> {
        let placement = self.world.placement.clone();
        let input = unscheduled(&placement).is_none();
        let seen = Seen {
            key: key_of(&*placement),
            input: input.then(|| ChoiceInput::Everything(Box::new(self.world.clone()))),
            placement: Some(placement),
            decisions: self.decisions.clone(),
        };
        Scheduling::plan(&seen).notes
    }
}

/// Everything on a hub that the choice of this placement depends on, and what has come of it.
pub async fn gather(hub: &Client, placement: Placement) -> kube::Result<Gathered> {
    let namespace = placement.metadata.namespace.clone().unwrap_or_default();
    let name = placement.metadata.name.clone().unwrap_or_default();
    let bindings: Vec<Arc<ManagedClusterSetBinding>> = all(Api::namespaced(hub.clone(), &namespace)).await?;
    let sets: Vec<Arc<ManagedClusterSet>> = all(Api::all(hub.clone())).await?;
    let clusters: Vec<Arc<ManagedCluster>> = all(Api::all(hub.clone())).await?;
    let decisions: Vec<Arc<PlacementDecision>> = all(Api::all(hub.clone())).await?;
    let scores: Vec<Arc<AddOnPlacementScore>> = all(Api::all(hub.clone())).await?;
    let key = key_of(&placement);
    let may_be_own = |it: &PlacementDecision| placements_of(it).iter().any(|(placement, _)| *placement == key);
    let may_be_own: Vec<_> = decisions.iter().filter(|it| may_be_own(it)).cloned().collect();
    let own: Vec<_> = may_be_own.iter().filter(|it| belongs_to(it, &name)).cloned().collect();
    let load = Load::over(&Cache::holding(decisions.iter().map(|it| (**it).clone())));
    let (load, load_max) = load.besides(&own, &clusters);
    let world = SelectionInput {
        now: Timestamp::now(),
        placement: Arc::new(placement),
        bindings,
        lost_bindings: Vec::new(),
        sets,
        has: all_clusters(&own),
        load,
        load_max,
        clusters,
        scores: Arc::new(Scores::of_all(scores)),
    };
    Ok(Gathered {
        world,
        decisions: may_be_own,
    })
}

/// What the placement asked for would choose; a code and a body.
pub async fn simulate(client: &Client, asked: DebugRequest) -> kube::Result<(u16, Value)> {
    let placement = match asked {
        DebugRequest::Imagined(it) => *it,
        DebugRequest::Present { namespace, name } => {
            let placements: Api<Placement> = Api::namespaced(client.clone(), &namespace);
            match placements.get_opt(&name).await? {
                Some(it) => it,
                None => return Ok((404, debug::failure(&format!("placement '{name}' not found")))),
            }
        }
    };
    let world = gather(client, placement).await?.world;
    Ok((200, debug::answer(&world.placement, &select(&world))))
}

async fn all<K>(api: Api<K>) -> kube::Result<Vec<Arc<K>>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut all = api.list(&ListParams::default()).await?.items;
    all.sort_by_key(|it| (it.meta().namespace.clone(), it.meta().name.clone()));
    Ok(all.into_iter().map(Arc::new).collect())
}
