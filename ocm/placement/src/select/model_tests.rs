//! Random worlds, chosen from by us and by a slow model that reads JSON and follows upstream's behaviour sentence by
//! sentence. `PLACEMENT_WORLDS=100000 cargo test -p placement --lib select` asks for more of them,
//! as the checks before a change do.

use serde_json::{Value, json};

use super::{tests::object, *};

const NOON: i64 = 1_767_268_800;

/// A small generator of numbers, so that a world is its seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    pub(super) fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    pub(super) fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.roll(texts.len() as u64) as usize]
    }
}

pub(super) fn time(seconds: i64) -> String {
    Timestamp::from_second(NOON + seconds).unwrap().to_string()
}

/// A world as JSON: everything the choice may depend on.
pub(super) fn world(seed: u64) -> Value {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let clusters: Vec<Value> = (0..dice.roll(9))
        .map(|it| cluster(&mut dice, &format!("c{it}")))
        .collect();
    let names: Vec<String> = clusters
        .iter()
        .map(|it| it["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    let sets = [
        json!({"metadata": {"name": "s0"}, "spec": {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}}),
        json!({"metadata": {"name": "s1"}, "spec": {}}),
        json!({"metadata": {"name": "s2"}, "spec": {"clusterSelector": {"selectorType": "LabelSelector",
            "labelSelector": {"matchLabels": {"env": "prod"}}}}}),
        json!({"metadata": {"name": "s3"}, "spec": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}}),
        json!({"metadata": {"name": "s4"}, "spec": {"clusterSelector": {"selectorType": "LabelSelector"}}}),
    ];
    let sets: Vec<_> = sets.into_iter().filter(|_| !dice.one_in(4)).collect();
    let bindings: Vec<_> = (0..6)
        .map(|it| format!("s{it}"))
        .filter(|_| dice.one_in(2))
        .map(|it| json!({"metadata": {"name": it, "namespace": "default"}, "spec": {"clusterSet": it}}))
        .collect();
    let has: Vec<_> = names.iter().filter(|_| dice.one_in(3)).collect();
    let load: Vec<_> = names
        .iter()
        .map(|_| if dice.one_in(2) { 0 } else { dice.roll(7) })
        .collect();
    let load_max = load.iter().copied().max().unwrap_or(0).max(dice.roll(4));
    let mut scores = Vec::new();
    for cluster in &names {
        for name in ["load", "cost"] {
            if dice.one_in(2) {
                let mut status = json!({"scores": [{"name": "cpu", "value": dice.roll(201) as i64 - 100}]});
                if dice.one_in(2) {
                    status["validUntil"] = json!(time(dice.roll(3) as i64 - 1));
                }
                scores.push(json!({"metadata": {"name": name, "namespace": cluster}, "status": status}));
            }
        }
    }
    json!({"clusters": clusters, "sets": sets, "bindings": bindings, "has": has, "load": load, "loadMax": load_max,
        "scores": scores, "spec": spec(&mut dice)})
}

pub(super) fn cluster(dice: &mut Dice, name: &str) -> Value {
    let mut labels = json!({});
    if !dice.one_in(4) {
        labels["env"] = json!(dice.pick(&["prod", "dev"]));
    }
    if !dice.one_in(4) {
        labels["cluster.open-cluster-management.io/clusterset"] = json!(dice.pick(&["s0", "s1", "s2"]));
    }
    let mut cluster = json!({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}});
    if dice.one_in(10) {
        cluster["metadata"]["deletionTimestamp"] = json!(time(0));
    }
    let taints: Vec<_> = (0..dice.roll(6).saturating_sub(3))
        .map(|_| {
            let effect = dice.pick(&["NoSelect", "NoSelect", "NoSelectIfNew", "PreferNoSelect"]);
            json!({"key": dice.pick(&["gpu", "old"]), "value": dice.pick(&["", "x"]), "effect": effect,
                "timeAdded": time(-(dice.roll(60) as i64))})
        })
        .collect();
    cluster["spec"]["taints"] = json!(taints);
    if !dice.one_in(4) {
        cluster["status"]["clusterClaims"] = json!([{"name": "region", "value": dice.pick(&["eu", "us"])}]);
    }
    for resource in ["cpu", "memory"] {
        if !dice.one_in(4) {
            let amount = format!("{}{}", dice.roll(9), dice.pick(&["", "00m", "Ki", "k"]));
            cluster["status"]["allocatable"][resource] = json!(amount);
            if !dice.one_in(8) {
                cluster["status"]["capacity"][resource] = json!("9");
            }
        }
    }
    cluster
}

fn expressions(dice: &mut Dice, key: &str) -> Value {
    let values = if key == "env" { ["prod", "dev"] } else { ["eu", "us"] };
    let all: Vec<_> = (0..dice.roll(3))
        .map(|_| match dice.roll(24) {
            0 => json!({"key": key, "operator": "In"}),
            1..=8 => json!({"key": key, "operator": "In", "values": [dice.pick(&values)]}),
            9..=16 => json!({"key": key, "operator": "NotIn", "values": [dice.pick(&values)]}),
            17..=20 => json!({"key": key, "operator": "Exists"}),
            _ => json!({"key": key, "operator": "DoesNotExist"}),
        })
        .collect();
    json!({"matchExpressions": all})
}

pub(super) fn spec(dice: &mut Dice) -> Value {
    let mut spec = json!({});
    if dice.one_in(3) {
        spec["clusterSets"] = json!([dice.pick(&["s0", "s1", "s2"]), dice.pick(&["s3", "s4", "s5", "none"])]);
    }
    if dice.one_in(2) {
        spec["numberOfClusters"] = json!(dice.roll(6) as i64 - i64::from(dice.one_in(12)) * 7);
    }
    let predicates: Vec<_> = (0..dice.roll(4).saturating_sub(1))
        .map(|_| {
            let mut wanted =
                json!({"labelSelector": expressions(dice, "env"), "claimSelector": expressions(dice, "region")});
            if dice.one_in(6) {
                let text = dice.pick(&[
                    "managedCluster.metadata.name in ['c1', 'c3', 'c5']",
                    "managedCluster.metadata.labels.env == 'prod'",
                    "managedCluster.scores('load').exists(it, it.value > 0)",
                    "managedCluster.status.clusterClaims.all(it, it.value == 'eu')",
                    "'{\"least\": 1}'.parseJSON().least <= managedCluster.spec.taints.size()",
                    "nothing == 1",
                ]);
                wanted["celSelector"] = json!({"celExpressions": [text]});
            }
            json!({"requiredClusterSelector": wanted})
        })
        .collect();
    spec["predicates"] = json!(predicates);
    let tolerations: Vec<_> = (0..dice.roll(4).saturating_sub(1))
        .map(|_| {
            let mut it = json!({});
            if !dice.one_in(8) {
                it["key"] = json!(dice.pick(&["gpu", "old"]));
            }
            if !dice.one_in(4) {
                it["operator"] = json!(dice.pick(&["Exists", "Exists", "Equal"]));
            }
            if dice.one_in(4) {
                it["value"] = json!("x");
            }
            if dice.one_in(4) {
                it["effect"] = json!(dice.pick(&["NoSelect", "NoSelectIfNew"]));
            }
            if dice.one_in(3) {
                it["tolerationSeconds"] = json!(dice.roll(60));
            }
            it
        })
        .collect();
    spec["tolerations"] = json!(tolerations);
    if dice.one_in(2) {
        let configurations: Vec<_> = (0..dice.roll(4))
            .map(|_| {
                let weight = dice.roll(21) as i64 - 10;
                let names = ["Balance", "Steady", "ResourceAllocatableCPU", "ResourceAllocatableMemory"];
                match dice.roll(12) {
                    0 => json!({"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Spread"}, "weight": weight}),
                    1 => json!({"scoreCoordinate": {"type": "AddOn"}, "weight": weight}),
                    2..=5 => json!({"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": dice.pick(&["load", "cost"]),
                        "scoreName": dice.pick(&["cpu", "other"])}}, "weight": weight}),
                    _ => json!({"scoreCoordinate": {"type": "BuiltIn", "builtIn": dice.pick(&names)}, "weight": weight}),
                }
            })
            .collect();
        let mode = if dice.one_in(16) {
            "Odd"
        } else {
            dice.pick(&["", "Additive", "Exact"])
        };
        spec["prioritizerPolicy"] = json!({"mode": mode, "configurations": configurations});
    }
    if dice.one_in(2) {
        let groups: Vec<_> = (0..dice.roll(3))
            .map(|it| {
                json!({"groupName": format!("group{it}"), "groupClusterSelector": {
                    "labelSelector": expressions(dice, "env"), "claimSelector": expressions(dice, "region")}})
            })
            .collect();
        let size = match dice.roll(4) {
            0 => json!(dice.roll(5)),
            1 => json!(format!("{}%", dice.roll(120))),
            2 if dice.one_in(6) => json!("few"),
            _ => Value::Null,
        };
        spec["decisionStrategy"] =
            json!({"groupStrategy": {"decisionGroups": groups, "clustersPerDecisionGroup": size}});
    }
    spec
}

pub(super) fn typed(world: &Value) -> SelectionInput {
    fn all<K: serde::de::DeserializeOwned>(values: &Value) -> Vec<Arc<K>> {
        values.as_array().unwrap().iter().map(|it| object(it.clone())).collect()
    }
    SelectionInput {
        now: Timestamp::from_second(NOON + world["now"].as_i64().unwrap_or(0)).unwrap(),
        placement: object(json!({"metadata": {"name": "p", "namespace": "default"}, "spec": world["spec"]})),
        bindings: all(&world["bindings"]),
        lost_bindings: Vec::new(),
        sets: all(&world["sets"]),
        clusters: all(&world["clusters"]),
        has: serde_json::from_value(world["has"].clone()).unwrap(),
        load: serde_json::from_value(world["load"].clone()).unwrap(),
        load_max: serde_json::from_value(world["loadMax"].clone()).unwrap(),
        scores: Arc::new(Scores::of_all(all(&world["scores"]))),
    }
}

// --- The slow model -------------------------------------------------------------------------------------------------

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn name(value: &Value) -> &str {
    value["metadata"]["name"].as_str().unwrap()
}

fn seconds(value: &Value) -> i64 {
    value.as_str().unwrap().parse::<Timestamp>().unwrap().as_second()
}

/// Upstream's selector, on the few requirements that the worlds have.
fn selects(selector: &Value, value: impl Fn(&str) -> Option<String>) -> Result<bool, ()> {
    let mut all = true;
    for it in list(&selector["matchExpressions"]) {
        let present = value(it["key"].as_str().unwrap());
        let listed = list(&it["values"])
            .iter()
            .any(|it| it.as_str().map(str::to_owned) == present);
        all &= match it["operator"].as_str().unwrap() {
            "In" | "NotIn" if list(&it["values"]).is_empty() => return Err(()),
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => present.is_some(),
            _ => present.is_none(),
        };
    }
    for (key, wanted) in selector["matchLabels"].as_object().into_iter().flatten() {
        all &= value(key).as_deref() == wanted.as_str();
    }
    Ok(all)
}

fn label_of<'v>(cluster: &'v Value) -> impl Fn(&str) -> Option<String> + 'v {
    |key| cluster["metadata"]["labels"][key].as_str().map(str::to_owned)
}

fn claim_of<'v>(cluster: &'v Value) -> impl Fn(&str) -> Option<String> + 'v {
    |key| {
        let claim = list(&cluster["status"]["clusterClaims"])
            .iter()
            .find(|it| it["name"] == key)?;
        claim["value"].as_str().map(str::to_owned)
    }
}

fn in_set(set: &Value, cluster: &Value) -> bool {
    let selector = &set["spec"]["clusterSelector"];
    match selector["selectorType"].as_str() {
        Some("LabelSelector") if selector["labelSelector"].is_null() => false,
        Some("LabelSelector") => selects(&selector["labelSelector"], label_of(cluster)) == Ok(true),
        _ => label_of(cluster)("cluster.open-cluster-management.io/clusterset").as_deref() == Some(name(set)),
    }
}

/// What cannot be asked, because the cluster has no such thing, does not hold.
fn expression_holds(world: &Value, text: &str, cluster: &Value) -> Result<bool, ()> {
    match text {
        "managedCluster.scores('load').exists(it, it.value > 0)" => Ok(list(&world["scores"]).iter().any(|it| {
            it["metadata"]["namespace"] == name(cluster)
                && name(it) == "load"
                && list(&it["status"]["scores"])
                    .iter()
                    .any(|it| it["value"].as_i64() > Some(0))
        })),
        "managedCluster.status.clusterClaims.all(it, it.value == 'eu')" => {
            let claims = list(&cluster["status"]["clusterClaims"]);
            Ok(!claims.is_empty() && claims.iter().all(|it| it["value"] == "eu"))
        }
        "'{\"least\": 1}'.parseJSON().least <= managedCluster.spec.taints.size()" => {
            Ok(!list(&cluster["spec"]["taints"]).is_empty())
        }
        "nothing == 1" => Err(()),
        "managedCluster.metadata.labels.env == 'prod'" => Ok(label_of(cluster)("env").as_deref() == Some("prod")),
        _ => Ok(["c1", "c3", "c5"].contains(&name(cluster))),
    }
}

fn amount(text: &str) -> f64 {
    for (suffix, factor) in [("Ki", 1024.0), ("00m", 0.1), ("k", 1000.0)] {
        if let Some(number) = text.strip_suffix(suffix) {
            return number.parse::<f64>().unwrap() * factor;
        }
    }
    text.parse().unwrap()
}

fn points(world: &Value, cluster: &Value, fitting: &[&Value], coordinate: &Value) -> Result<f64, ()> {
    let position = list(&world["clusters"]).iter().position(|it| it == cluster).unwrap();
    let allocatable = |resource: &str| {
        let of = |it: &Value| {
            it["status"]["capacity"][resource].as_str()?;
            it["status"]["allocatable"][resource].as_str().map(amount)
        };
        let all: Vec<f64> = fitting.iter().filter_map(|it| of(it)).collect();
        let (min, max) = (
            all.iter().copied().fold(f64::MAX, f64::min),
            all.iter().copied().fold(f64::MIN, f64::max),
        );
        match of(cluster) {
            None => 0.0,
            Some(_) if min == max => 100.0,
            Some(it) => (((it - min) / (max - min) - 0.5) * 2.0 * 100.0).trunc(),
        }
    };
    if coordinate["type"] == "AddOn" {
        let wanted = &coordinate["addOn"];
        if wanted.is_null() {
            return Err(());
        }
        let found = list(&world["scores"]).iter().find(|it| {
            it["metadata"]["namespace"] == name(cluster) && name(it) == wanted["resourceName"].as_str().unwrap()
        });
        let Some(found) = found else { return Ok(0.0) };
        if !found["status"]["validUntil"].is_null() && NOON > seconds(&found["status"]["validUntil"]) {
            return Ok(0.0);
        }
        let score = list(&found["status"]["scores"])
            .iter()
            .find(|it| it["name"] == wanted["scoreName"]);
        return Ok(score.map_or(0.0, |it| it["value"].as_f64().unwrap()));
    }
    Ok(match coordinate["builtIn"].as_str().unwrap() {
        "Steady" => 100.0 * f64::from(u8::from(list(&world["has"]).iter().any(|it| it == name(cluster)))),
        "Balance" => match world["load"][position].as_f64().unwrap() {
            0.0 => 100.0,
            count => 2.0 * (100.0 * (0.5 - count / world["loadMax"].as_f64().unwrap())).trunc(),
        },
        "ResourceAllocatableCPU" => allocatable("cpu"),
        "ResourceAllocatableMemory" => allocatable("memory"),
        _ => return Err(()),
    })
}

fn tolerated(world: &Value, cluster: &Value) -> bool {
    let has = list(&world["has"]).iter().any(|it| it == name(cluster));
    list(&cluster["spec"]["taints"]).iter().all(|taint| {
        taint["effect"] == "PreferNoSelect"
            || taint["effect"] == "NoSelectIfNew" && has
            || list(&world["spec"]["tolerations"]).iter().any(|it| {
                let effect = it["effect"].is_null() || it["effect"] == taint["effect"];
                let key = it["key"].is_null() || it["key"] == taint["key"];
                let value = it["operator"] == "Exists" || it["value"].as_str().unwrap_or("") == taint["value"];
                let added = seconds(&taint["timeAdded"]);
                let lasts =
                    it["tolerationSeconds"].is_null() || NOON < added + it["tolerationSeconds"].as_i64().unwrap();
                effect && key && value && lasts
            })
    })
}

/// When a toleration of one of these clusters ends, or a score of one of them.
fn next_event(world: &Value, fitting: &[&Value], weights: &[(Value, i64)]) -> Option<i64> {
    let has = |cluster: &Value| list(&world["has"]).iter().any(|it| it == name(cluster));
    let mut ends = Vec::new();
    for cluster in fitting {
        for taint in list(&cluster["spec"]["taints"]) {
            let effect = taint["effect"].as_str().unwrap();
            if effect == "PreferNoSelect" || effect == "NoSelectIfNew" && has(cluster) {
                continue;
            }
            let only = |toleration: &Value| {
                let mut other = world.clone();
                other["spec"]["tolerations"] = json!([toleration]);
                let mut alone = (*cluster).clone();
                alone["spec"]["taints"] = json!([taint]);
                tolerated(&other, &alone)
            };
            let matching: Vec<&Value> = list(&world["spec"]["tolerations"])
                .iter()
                .filter(|it| only(it))
                .collect();
            // One without an end outlasts all others.
            if matching.iter().all(|it| !it["tolerationSeconds"].is_null()) {
                let added = seconds(&taint["timeAdded"]);
                ends.extend(
                    matching
                        .iter()
                        .map(|it| (added + it["tolerationSeconds"].as_i64().unwrap()) * 1000)
                        .max(),
                );
            }
        }
        for (coordinate, _) in weights.iter().filter(|(it, _)| it["type"] == "AddOn") {
            let found = list(&world["scores"]).iter().find(|it| {
                it["metadata"]["namespace"] == name(cluster)
                    && it["metadata"]["name"] == coordinate["addOn"]["resourceName"]
            });
            let until = found.map(|it| &it["status"]["validUntil"]).filter(|it| !it.is_null());
            ends.extend(until.map(seconds).filter(|it| *it >= NOON).map(|it| it * 1000 + 1));
        }
    }
    ends.into_iter().min()
}

/// What a placement comes to.
#[derive(Debug, PartialEq)]
struct Came {
    groups: Vec<(String, Vec<String>)>,
    reason: String,
    unscheduled: usize,
    /// In milliseconds.
    next_event: Option<i64>,
}

/// What it comes to, or `Err` when the placement makes no sense.
fn model(world: &Value) -> Result<Came, ()> {
    let spec = &world["spec"];
    if spec["numberOfClusters"].as_i64().is_some_and(|it| it < 0) {
        return Err(());
    }
    let bound = |set: &&Value| list(&world["bindings"]).iter().any(|it| name(it) == name(set));
    let wanted = |set: &&Value| {
        list(&spec["clusterSets"]).is_empty() || list(&spec["clusterSets"]).iter().any(|it| it == name(set))
    };
    let sets: Vec<&Value> = list(&world["sets"]).iter().filter(bound).filter(wanted).collect();
    let available: Vec<&Value> = list(&world["clusters"])
        .iter()
        .filter(|it| it["metadata"]["deletionTimestamp"].is_null() && sets.iter().any(|set| in_set(set, it)))
        .collect();

    let any_available = !available.is_empty();

    // Whatever cannot be read is refused, whether there are clusters or not: a cluster that is like no other asks.
    let nobody = json!({"metadata": {"name": "", "labels": {}}});
    let matches = |predicate: &Value, cluster: &Value| -> Result<bool, ()> {
        let it = &predicate["requiredClusterSelector"];
        let mut all =
            selects(&it["labelSelector"], label_of(cluster))? & selects(&it["claimSelector"], claim_of(cluster))?;
        for text in list(&it["celSelector"]["celExpressions"]) {
            all &= expression_holds(world, text.as_str().unwrap(), cluster)?;
        }
        Ok(all)
    };
    let predicates = list(&spec["predicates"]);
    for it in predicates {
        matches(it, &nobody)?;
    }
    let matching: Vec<&Value> = available
        .into_iter()
        .filter(|cluster| predicates.is_empty() || predicates.iter().any(|it| matches(it, cluster) == Ok(true)))
        .collect();
    for it in list(&spec["tolerations"]) {
        let exists = it["operator"] == "Exists";
        if !matching.is_empty() && (it["key"].is_null() && !exists || exists && !it["value"].is_null()) {
            return Err(());
        }
    }
    let fitting: Vec<&Value> = matching.into_iter().filter(|it| tolerated(world, it)).collect();

    let policy = &spec["prioritizerPolicy"];
    let mut weights: Vec<(Value, i64)> = match policy["mode"].as_str().unwrap_or("") {
        "" | "Additive" => ["Balance", "Steady"]
            .map(|it| (json!({"type": "BuiltIn", "builtIn": it}), 1))
            .into(),
        "Exact" => vec![],
        _ => return Err(()),
    };
    for it in list(&policy["configurations"]) {
        let coordinate = it["scoreCoordinate"].clone();
        if coordinate["type"] == "BuiltIn" {
            weights.retain(|(other, _)| *other != coordinate);
        }
        weights.push((coordinate, it["weight"].as_i64().unwrap()));
    }
    weights.retain(|(_, weight)| *weight != 0);
    let some = json!({"metadata": {"name": "c0"}});
    let probe = json!({"clusters": [some], "load": [0], "loadMax": 0, "has": [], "scores": []});
    for (coordinate, _) in &weights {
        points(&probe, &some, &[], coordinate)?;
    }
    let mut ranked: Vec<(f64, &str, &Value)> = fitting
        .iter()
        .map(|cluster| {
            let sum: f64 = weights
                .iter()
                .map(|(coordinate, weight)| *weight as f64 * points(world, cluster, &fitting, coordinate).unwrap())
                .sum();
            (-sum, name(cluster), *cluster)
        })
        .collect();
    ranked.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(other.1)));
    ranked.truncate(spec["numberOfClusters"].as_u64().map_or(usize::MAX, |it| it as usize));
    let mut rest: Vec<&Value> = ranked.iter().map(|it| it.2).collect();
    let unscheduled = spec["numberOfClusters"]
        .as_u64()
        .map_or(0, |it| it as usize - rest.len());
    let is_bound = list(&world["sets"]).iter().any(|it| bound(&it));
    let reason = match (is_bound, sets.len(), any_available, rest.len(), unscheduled) {
        (false, ..) => "NoManagedClusterSetBindings",
        (_, 0, ..) => "NoIntersection",
        (_, _, false, ..) => "AllManagedClusterSetsEmpty",
        (_, _, _, 0, _) => "NoManagedClusterMatched",
        (.., 0) => "AllDecisionsScheduled",
        _ => "NotAllDecisionsScheduled",
    };
    let next_event = next_event(world, &fitting, &weights);
    rest.sort_by_key(|it| name(it));

    let strategy = &spec["decisionStrategy"]["groupStrategy"];
    let total = rest.len();
    let length = match &strategy["clustersPerDecisionGroup"] {
        Value::Number(it) => it.as_i64().unwrap(),
        Value::String(it) => {
            let percent: f64 = it.strip_suffix('%').ok_or(())?.parse().map_err(|_| ())?;
            (percent / 100.0 * total as f64).ceil() as i64
        }
        _ => 0,
    };
    let length = if length <= 0 || length > total as i64 {
        total
    } else {
        length as usize
    };
    let mut groups = vec![];
    let mut cut = |group: &str, mut clusters: Vec<&Value>| {
        while !clusters.is_empty() {
            let part: Vec<_> = clusters.drain(..length.min(clusters.len())).collect();
            groups.push((group.to_owned(), part.iter().map(|it| name(it).to_owned()).collect()));
        }
    };
    for it in list(&strategy["decisionGroups"]) {
        let selector = &it["groupClusterSelector"];
        let belongs = |cluster: &Value| -> Result<bool, ()> {
            Ok(selects(&selector["labelSelector"], label_of(cluster))?
                & selects(&selector["claimSelector"], claim_of(cluster))?)
        };
        belongs(&nobody)?;
        let (in_it, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|it| belongs(it) == Ok(true));
        rest = others;
        cut(it["groupName"].as_str().unwrap(), in_it);
    }
    cut("", rest);
    if groups.is_empty() {
        groups.push((String::new(), vec![]));
    }
    Ok(Came {
        groups,
        reason: reason.to_owned(),
        unscheduled,
        next_event,
    })
}

/// What we make of it.
fn ours(world: &SelectionInput) -> Result<Came, ()> {
    let selection = select(world);
    // Explaining is for people who ask at any time.
    explain::clusters(world, &selection);
    let choice = Choice::of(&selection);
    if matches!(choice.outcome, ChoiceOutcome::Misconfigured { .. }) {
        return Err(());
    }
    Ok(Came {
        reason: conditions(&world.placement, &choice, false)[0].reason.clone(),
        groups: choice.groups.into_iter().map(|it| (it.name, it.clusters)).collect(),
        unscheduled: choice.unscheduled,
        next_event: choice.recheck_at.map(Timestamp::as_millisecond),
    })
}

/// How many of these worlds were refused, and of how many nothing was chosen.
fn compare(seeds: impl Iterator<Item = u64>) -> (u64, u64) {
    let (mut refused, mut empty) = (0, 0);
    for seed in seeds {
        let world = world(seed);
        let (ours, theirs) = (ours(&typed(&world)), model(&world));
        assert_eq!(ours, theirs, "world {seed}: {world:#}");
        refused += u64::from(theirs.is_err());
        empty += u64::from(theirs.is_ok_and(|it| it.groups[0].1.is_empty()));
    }
    (refused, empty)
}

#[test]
fn selection_matches_the_slow_model_in_every_random_world() {
    let worlds: u64 = std::env::var("PLACEMENT_WORLDS").map_or(5000, |it| it.parse().unwrap());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (refused, empty) = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|it| scope.spawn(move || compare((it as u64..worlds).step_by(threads))))
            .collect();
        let counts = running.into_iter().map(|it| it.join().unwrap());
        counts.fold((0, 0), |all, it| (all.0 + it.0, all.1 + it.1))
    });
    // The worlds are worth looking at: most choose something.
    assert!(
        refused < worlds / 3 && empty < worlds / 2,
        "{refused} refused, {empty} empty of {worlds}"
    );
}
