//! Prioritizers: which of the clusters that fit are preferred. Each gives every cluster a score from -100 to 100.
//! Upstream: ocm `pkg/placement/plugins/{balance,steady,resource,addon}`,
//! `pkg/placement/controllers/scheduling/schedule.go`.

use std::fmt;

use jiff::Timestamp;
use kube_primitives::quantity::Quantity;
use ocm_api::cluster::{AddOnScore, ManagedCluster, PrioritizerPolicy, ScoreCoordinateType};

use super::Scores;

/// The best score a prioritizer gives.
const BEST: i64 = 100;

/// Where a score comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prioritizer<'a> {
    /// Clusters that other placements use less.
    Balance,
    /// Clusters that the placement has already.
    Steady,
    /// Clusters with more CPU to give.
    AllocatableCpu,
    /// Clusters with more memory to give.
    AllocatableMemory,
    /// What an add-on says of the cluster.
    AddOn(&'a AddOnScore),
}

impl<'a> Prioritizer<'a> {
    /// Those that need no add-on.
    pub const BUILT_IN: [Self; 4] = [
        Self::Balance,
        Self::Steady,
        Self::AllocatableCpu,
        Self::AllocatableMemory,
    ];

    fn built_in(name: &str) -> Option<Self> {
        Self::BUILT_IN.into_iter().find(|it| it.name() == Some(name))
    }

    /// What a placement calls it; the scores of add-ons have coordinates instead.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Balance => "Balance",
            Self::Steady => "Steady",
            Self::AllocatableCpu => "ResourceAllocatableCPU",
            Self::AllocatableMemory => "ResourceAllocatableMemory",
            Self::AddOn(_) => return None,
        })
    }
}

impl fmt::Display for Prioritizer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddOn(it) => write!(f, "AddOn/{}/{}", it.resource_name, it.score_name),
            other => f.write_str(other.name().unwrap_or_default()),
        }
    }
}

/// The prioritizers that count, with their weights; those without weight are left out. What is wrong with the policy
/// otherwise.
pub fn weights(policy: &PrioritizerPolicy) -> Result<Vec<(Prioritizer<'_>, i64)>, String> {
    let mut built_in: Vec<(&str, i64)> = match policy.mode.as_str() {
        "" | "Additive" => vec![("Balance", 1), ("Steady", 1)],
        "Exact" => Vec::new(),
        other => return Err(format!("incorrect prioritizer policy mode: {other}")),
    };
    let mut of_add_ons = Vec::new();
    for it in &policy.configurations {
        let weight = i64::from(it.weight);
        let coordinate = &it.score_coordinate;
        match coordinate.r#type {
            ScoreCoordinateType::BuiltIn => match built_in.iter_mut().find(|(name, _)| *name == coordinate.built_in) {
                Some(entry) => entry.1 = weight,
                None => built_in.push((&coordinate.built_in, weight)),
            },
            // Two entries for one score both count, as upstream has it.
            ScoreCoordinateType::AddOn => of_add_ons.push((coordinate.add_on.as_ref(), weight)),
        }
    }
    let mut weights = Vec::new();
    for (name, weight) in built_in.into_iter().filter(|(_, weight)| *weight != 0) {
        let found = Prioritizer::built_in(name).ok_or_else(|| format!("incorrect builtin prioritizer: {name}"))?;
        weights.push((found, weight));
    }
    for (score, weight) in of_add_ons.into_iter().filter(|(_, weight)| *weight != 0) {
        let score = score.ok_or("addOn should not be empty")?;
        weights.push((Prioritizer::AddOn(score), weight));
    }
    Ok(weights)
}

/// What a cluster has to give of CPU and of memory, if it says so.
pub type Amounts = [Option<f64>; 2];

/// Reads the amounts.
pub fn amounts(cluster: &ManagedCluster) -> Amounts {
    ["cpu", "memory"].map(|resource| {
        let status = cluster.status.as_ref()?;
        // Upstream reads both, and takes one missing as both missing.
        number(&status.capacity.get(resource)?.0)?;
        number(&status.allocatable.get(resource)?.0)
    })
}

fn number(quantity: &str) -> Option<f64> {
    let number = quantity.parse::<Quantity>().ok()?.approximate();
    Some(number).filter(|it| it.is_finite())
}

/// What an add-on says of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// The score; 0 when it says something else only.
    pub value: i64,
    /// The last moment in which it counts.
    pub valid_until: Option<Timestamp>,
}

/// Reads what an add-on says.
pub fn said(scores: &Scores, cluster: &str, wanted: &AddOnScore) -> Option<Said> {
    let status = scores.of(cluster, &wanted.resource_name)?.status.as_ref()?;
    let found = status.scores.iter().find(|it| it.name == wanted.score_name);
    Some(Said {
        value: found.map_or(0, |it| i64::from(it.value)),
        valid_until: status.valid_until.as_ref().map(|it| it.0),
    })
}

/// What the prioritizers look at, column by column: a row is a cluster.
pub struct Field<'a> {
    /// Which of them the placement has already.
    pub has: Vec<bool>,
    /// How often other placements use each of them.
    pub load: Vec<u32>,
    /// The highest load of any cluster of the hub.
    pub load_max: u32,
    /// What each of them has to give; empty when nobody asks.
    pub amounts: Vec<Amounts>,
    /// What add-ons say of one of them.
    pub says: &'a dyn Fn(&AddOnScore, usize) -> Option<Said>,
    /// What one of them is called.
    pub name: &'a dyn Fn(usize) -> &'a str,
    /// The time.
    pub now: Timestamp,
}

/// The scores one prioritizer gives, cluster by cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// One for each cluster.
    pub values: Vec<i64>,
    /// `namespace/name` of add-on scores that are too old to count.
    pub expired: Vec<String>,
    /// When the next one becomes too old.
    pub until: Option<Timestamp>,
}

/// Scores the clusters.
pub fn score(prioritizer: Prioritizer<'_>, field: &Field<'_>) -> Given {
    let plain = |values| Given {
        values,
        ..Given::default()
    };
    match prioritizer {
        Prioritizer::Steady => plain(field.has.iter().map(|has| if *has { BEST } else { 0 }).collect()),
        Prioritizer::Balance => plain(field.load.iter().map(|load| balance(*load, field.load_max)).collect()),
        Prioritizer::AllocatableCpu => plain(allocatable(field, 0)),
        Prioritizer::AllocatableMemory => plain(allocatable(field, 1)),
        Prioritizer::AddOn(wanted) => add_on(field, wanted),
    }
}

/// From 100 for a cluster that nobody else uses to -100 for the one that is used most. Only even numbers come out.
fn balance(load: u32, load_max: u32) -> i64 {
    if load == 0 || load_max == 0 {
        return BEST;
    }
    let usage = f64::from(load) / f64::from(load_max);
    2 * (BEST as f64 * (0.5 - usage)) as i64
}

/// From -100 for the cluster with the least to give to 100 for the one with the most.
/// A cluster that does not say gets nothing.
fn allocatable(field: &Field<'_>, resource: usize) -> Vec<i64> {
    let amounts: Vec<Option<f64>> = field.amounts.iter().map(|it| it[resource]).collect();
    let (min, max) = amounts
        .iter()
        .flatten()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), it| {
            (min.min(*it), max.max(*it))
        });
    let score = |amount: &Option<f64>| match amount {
        None => 0,
        Some(_) if max == min => BEST,
        Some(it) => (((it - min) / (max - min) - 0.5) * 2.0 * BEST as f64) as i64,
    };
    amounts.iter().map(score).collect()
}

fn add_on(field: &Field<'_>, wanted: &AddOnScore) -> Given {
    let mut given = Given::default();
    for place in 0..field.has.len() {
        let said = (field.says)(wanted, place);
        let valid_until = said.and_then(|it| it.valid_until);
        if valid_until.is_some_and(|it| field.now > it) {
            let name = (field.name)(place);
            given.expired.push(format!("{name}/{}", wanted.resource_name));
            given.values.push(0);
            continue;
        }
        given.values.push(said.map_or(0, |it| it.value));
        given.until = [given.until, valid_until].into_iter().flatten().min();
    }
    given
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(value: serde_json::Value) -> PrioritizerPolicy {
        serde_json::from_value(value).unwrap()
    }

    fn shown(value: serde_json::Value) -> Result<String, String> {
        let policy = policy(value);
        let weights = weights(&policy)?;
        Ok(weights.iter().map(|(it, weight)| format!("{it}*{weight} ")).collect())
    }

    #[test]
    fn balance_is_even_and_truncated() {
        let balances: Vec<_> = (0..=3).map(|it| balance(it, 3)).collect();
        assert_eq!(balances, [100, 32, -32, -100]);
        assert_eq!(balance(0, 0), 100);
    }

    #[test]
    fn weights_are_added_to_the_defaults_or_stand_alone() {
        let built_in = |name: &str, weight: i32| json!({"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight});
        let add_on = |weight: i32| json!({"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "load", "scoreName": "cpu"}}, "weight": weight});
        assert_eq!(shown(json!({})), Ok("Balance*1 Steady*1 ".into()));
        assert_eq!(
            shown(
                json!({"mode": "Additive", "configurations": [built_in("Steady", 3), add_on(-2), built_in("Balance", 0)]})
            ),
            Ok("Steady*3 AddOn/load/cpu*-2 ".into())
        );
        assert_eq!(
            shown(
                json!({"mode": "Exact", "configurations": [built_in("ResourceAllocatableCPU", 1), add_on(1), add_on(1)]})
            ),
            Ok("ResourceAllocatableCPU*1 AddOn/load/cpu*1 AddOn/load/cpu*1 ".into())
        );
        assert_eq!(
            shown(json!({"mode": "Some"})),
            Err("incorrect prioritizer policy mode: Some".into())
        );
        assert_eq!(
            shown(json!({"configurations": [built_in("Spread", 1)]})),
            Err("incorrect builtin prioritizer: Spread".into())
        );
        assert_eq!(
            shown(json!({"configurations": [built_in("Spread", 0)]})),
            Ok("Balance*1 Steady*1 ".into())
        );
        assert_eq!(
            shown(json!({"configurations": [{"scoreCoordinate": {"type": "AddOn"}, "weight": 1}]})),
            Err("addOn should not be empty".into())
        );
    }
}
