//! Random worlds that change at random: what was remembered chooses what a choice from scratch chooses.
//! `PLACEMENT_CHANGES=100000 cargo test -p placement` asks for more of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    memo::{ChoiceContext, Memo, SharedFleet},
    model_tests::{self, Dice},
    tests::object,
    *,
};

/// The world as JSON, and the same as the hub keeps it.
struct Both {
    world: Value,
    shared: SharedFleet,
    memo: Memo,
}

fn clusters(world: &Value) -> &Vec<Value> {
    world["clusters"].as_array().unwrap()
}

fn name(value: &Value) -> String {
    value["metadata"]["name"].as_str().unwrap().to_owned()
}

impl Both {
    fn new(dice: &mut Dice) -> Self {
        let world = model_tests::world(dice.roll(1 << 40));
        let shared = SharedFleet::default();
        let mut fleet = shared.fleet.write();
        clusters(&world).iter().for_each(|it| fleet.put(object(it.clone())));
        for it in world["scores"].as_array().unwrap() {
            fleet.put_score(object(it.clone()));
        }
        drop(fleet);
        let memo = Memo::new(model_tests::typed(&world).placement);
        Self { world, shared, memo }
    }

    fn change(&mut self, dice: &mut Dice) {
        let mut fleet = self.shared.fleet.write();
        match dice.roll(10) {
            // A cluster comes or changes.
            0..=3 => {
                let cluster = format!("c{}", dice.roll(9));
                let made = model_tests::cluster(dice, &cluster);
                fleet.put(object(made.clone()));
                let mut all: BTreeMap<String, Value> =
                    clusters(&self.world).iter().map(|it| (name(it), it.clone())).collect();
                all.insert(cluster, made);
                self.world["clusters"] = all.into_values().collect();
            }
            4 => {
                let gone = format!("c{}", dice.roll(9));
                fleet.remove(&gone);
                self.world["clusters"]
                    .as_array_mut()
                    .unwrap()
                    .retain(|it| name(it) != gone);
            }
            5 | 6 => {
                let (cluster, score) = (format!("c{}", dice.roll(9)), dice.pick(&["load", "cost"]));
                let all = self.world["scores"].as_array_mut().unwrap();
                all.retain(|it| it["metadata"]["namespace"] != cluster.as_str() || it["metadata"]["name"] != score);
                let made = json!({"metadata": {"name": score, "namespace": cluster},
                    "status": {"scores": [{"name": "cpu", "value": dice.roll(201) as i64 - 100}]}});
                if dice.one_in(3) {
                    fleet.remove_score(&object::<ocm_api::cluster::AddOnPlacementScore>(made));
                } else {
                    all.push(made.clone());
                    fleet.put_score(object(made));
                }
            }
            7 => self.world["spec"] = model_tests::spec(dice),
            8 => {
                let other = model_tests::world(dice.roll(1 << 40));
                let part = dice.pick(&["sets", "bindings"]);
                self.world[part] = other[part].clone();
            }
            _ => {
                let names: Vec<String> = clusters(&self.world).iter().map(name).collect();
                self.world["has"] = names.into_iter().filter(|_| dice.one_in(2)).collect();
            }
        }
        let load: Vec<u64> = clusters(&self.world).iter().map(|_| dice.roll(4)).collect();
        self.world["loadMax"] = json!(load.iter().copied().max().unwrap_or(0).max(dice.roll(4)));
        self.world["load"] = json!(load);
        self.world["now"] = json!(dice.roll(70) as i64 - 5);
    }

    /// As the hub looks at it.
    fn choose(&mut self, world: &SelectionInput) -> Choice {
        let exists = |name: &str| world.sets.iter().any(|it| it.name_any() == name);
        let bindings = world.bindings.iter().map(|it| &**it);
        let scope = EligibleSets::of(&world.placement, bindings, [], exists, world.now);
        let eligible = world.sets.iter().filter(|it| scope.eligible.contains(&it.name_any()));
        self.memo
            .look(&world.placement, eligible.cloned().collect(), &self.shared);
        let mut fleet = self.shared.fleet.write();
        for (cluster, load) in world.clusters.iter().zip(&world.load) {
            // Those of the placement itself are counted, too.
            let own = u32::from(world.has.contains(&cluster.name_any()));
            fleet.set_load(&cluster.name_any(), load + own);
        }
        let context = ChoiceContext {
            now: world.now,
            scope,
            own: &world.has.iter().map(|it| (it.as_str(), 1)).collect(),
            load_max: world.load_max,
        };
        self.memo.choose(&fleet, context)
    }
}

#[test]
fn what_was_remembered_chooses_what_a_choice_from_scratch_chooses() {
    let changes: u64 = std::env::var("PLACEMENT_CHANGES").map_or(4000, |it| it.parse().unwrap());
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut both = Both::new(&mut dice);
    let mut chosen = 0;
    for number in 0..changes {
        if number % 20 == 0 {
            both = Both::new(&mut dice);
        } else {
            // Sometimes several things change before anybody looks.
            (0..=dice.roll(3)).for_each(|_| both.change(&mut dice));
        }
        let world = model_tests::typed(&both.world);
        let scratch = Choice::of(&select(&world));
        let remembered = both.choose(&world);
        assert_eq!(remembered, scratch, "change {number}: {:#}", both.world);
        chosen += usize::from(scratch.chosen > 0);
    }
    assert!(chosen as u64 > changes / 4, "{chosen} of {changes} chose something");
}
