//! What the containers of a pod ask for, or get, together. Facts from Kubernetes' component-helpers,
//! `AggregateContainerRequests`: those of a pod run at once, those before them one after the other beside the ones that stay.

use kube_store::schema::quantity;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Amounts by the names of resources.
pub type Amounts = BTreeMap<String, String>;

/// Whether a resource may be said of a pod as a whole.
pub fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_page(name)
}

/// Whether a resource is memory in pages of another size.
pub fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// The amounts of one kind, `requests` or `limits`, in what says both.
pub fn amounts(resources: &Value, kind: &str) -> Amounts {
    let given = resources[kind].as_object().into_iter().flatten();
    given
        .filter_map(|(name, it)| Some((name.clone(), it.as_str()?.to_owned())))
        .collect()
}

/// The amounts of one kind that all containers of a pod's spec need together.
pub fn of_containers(spec: &Map<String, Value>, kind: &str) -> Amounts {
    let list = |key: &str| spec.get(key).and_then(Value::as_array).into_iter().flatten();
    let mut total = Amounts::new();
    for container in list("containers") {
        add(&mut total, &amounts(&container["resources"], kind));
    }
    // Of those that start before the others, some stay.
    let (mut staying, mut most) = (Amounts::new(), Amounts::new());
    for container in list("initContainers") {
        let own = amounts(&container["resources"], kind);
        if container["restartPolicy"] == "Always" {
            add(&mut total, &own);
            add(&mut staying, &own);
            raise(&mut most, &staying);
        } else {
            let mut beside = own;
            add(&mut beside, &staying);
            raise(&mut most, &beside);
        }
    }
    raise(&mut total, &most);
    total
}

/// Adds amounts to others.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = match total.get(name) {
            None => Some(amount.clone()),
            Some(before) => quantity::sum(before, amount),
        };
        if let Some(sum) = sum {
            total.insert(name.clone(), sum);
        }
    }
}

/// Raises amounts to others that are higher.
fn raise(total: &mut Amounts, to: &Amounts) {
    for (name, amount) in to {
        let higher = total
            .get(name)
            .is_none_or(|it| quantity::milli(it) < quantity::milli(amount));
        if higher {
            total.insert(name.clone(), amount.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn containers_before_the_others_count_one_by_one() {
        let asks = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let spec = json!({
            "containers": [{"resources": asks("500m")}, {"resources": asks("1")}, {}],
            "initContainers": [
                {"resources": asks("1")},
                {"resources": asks("100m"), "restartPolicy": "Always"},
                {"resources": asks("2")},
            ],
        });
        let found = of_containers(spec.as_object().expect("an object"), "requests");
        assert_eq!(found, Amounts::from([("cpu".to_owned(), "2100m".to_owned())]));
    }
}
