//! What add-ons say of clusters.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::cluster::AddOnPlacementScore;

/// AddOnPlacementScores by cluster.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    by_cluster: HashMap<String, Vec<Kept>>,
    /// How many of them are held.
    held: usize,
}

/// One object.
#[derive(Clone, Debug)]
struct Kept {
    score: Arc<AddOnPlacementScore>,
    /// It is gone, and counts until then.
    held: Option<Timestamp>,
}

impl Scores {
    /// These scores.
    pub fn of_all(scores: impl IntoIterator<Item = Arc<AddOnPlacementScore>>) -> Self {
        let mut all = Self::default();
        scores.into_iter().for_each(|it| all.put(it));
        all
    }

    /// One cluster's score object of this name.
    pub fn of(&self, cluster: &str, name: &str) -> Option<&Arc<AddOnPlacementScore>> {
        let scores = self.by_cluster.get(cluster)?;
        let found = scores.iter().find(|it| it.score.metadata.name.as_deref() == Some(name));
        found.map(|it| &it.score)
    }

    /// Puts one in, in the place of what was there of its name.
    pub fn put(&mut self, score: Arc<AddOnPlacementScore>) {
        self.remove(&score);
        let of_cluster = self.by_cluster.entry(score.namespace().unwrap_or_default());
        of_cluster.or_default().push(Kept { score, held: None });
    }

    /// Puts in one that has just gone missing and counts until then; one that is there counts instead of it.
    pub fn hold(&mut self, score: Arc<AddOnPlacementScore>, until: Timestamp) {
        let cluster = score.namespace().unwrap_or_default();
        if self.of(&cluster, &score.name_any()).is_some() {
            return;
        }
        self.held += 1;
        let held = Some(until);
        self.by_cluster.entry(cluster).or_default().push(Kept { score, held });
    }

    /// Takes one out.
    pub fn remove(&mut self, score: &AddOnPlacementScore) {
        let cluster = score.metadata.namespace.as_deref().unwrap_or_default();
        let Some(of_cluster) = self.by_cluster.get_mut(cluster) else {
            return;
        };
        let held = &mut self.held;
        of_cluster.retain(|it| {
            let stays = it.score.metadata.name != score.metadata.name;
            *held -= usize::from(!stays && it.held.is_some());
            stays
        });
        if of_cluster.is_empty() {
            self.by_cluster.remove(cluster);
        }
    }

    /// Those that are held, by cluster and name, each with its end.
    pub fn held(&self) -> Vec<(&str, &str, Timestamp)> {
        if self.held == 0 {
            return Vec::new();
        }
        let mut held: Vec<_> = self
            .by_cluster
            .iter()
            .flat_map(|(cluster, scores)| {
                scores.iter().filter_map(|it| {
                    Some((
                        cluster.as_str(),
                        it.score.metadata.name.as_deref().unwrap_or_default(),
                        it.held?,
                    ))
                })
            })
            .collect();
        held.sort_unstable();
        held
    }
}
