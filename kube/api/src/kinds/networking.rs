//! Kinds of `networking.k8s.io`, on which nothing here acts.

use super::{
    defaults::entry,
    strategy::{Columns, Strategy},
    validation::published,
};
use crate::{
    default_class::{self, class_title},
    table::cells,
};
use jiff::Timestamp;
use kube_store::status::FieldError;
use serde_json::{Map, Value};

/// Ingress.
pub struct Ingresses;

impl Strategy for Ingresses {
    fn columns(&self) -> Columns {
        Columns::new("Name|Class|Hosts|Address|Ports|Age", ingress_row)
    }

    fn default(&self, object: &mut Map<String, Value>) {
        entry(entry(object, "status"), "loadBalancer");
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }
}

/// IngressClass.
pub struct IngressClasses;

impl Strategy for IngressClasses {
    fn columns(&self) -> Columns {
        Columns::new("Name|Controller|Parameters|Age", class_row)
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }
}

/// NetworkPolicy.
pub struct NetworkPolicies;

impl Strategy for NetworkPolicies {
    fn columns(&self) -> Columns {
        Columns::new("Name|Pod-Selector|Age", |it, now| {
            vec![
                cells::name(it),
                cells::selector(cells::at(it, &["spec", "podSelector"])).into(),
                cells::age(it, now),
            ]
        })
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }
}

fn ingress_row(it: &Value, now: Timestamp) -> Vec<Value> {
    let annotation = cells::at(it, &["metadata", "annotations", "kubernetes.io/ingress.class"])
        .as_str()
        .unwrap_or_default();
    let class = cells::or(
        cells::or(cells::text(it, &["spec", "ingressClassName"]), annotation),
        cells::NONE,
    )
    .to_owned();
    let hosts = cells::list(it, &["spec", "rules"])
        .iter()
        .map(|it| cells::text(it, &["host"]))
        .filter(|it| !it.is_empty())
        .map(str::to_owned);
    let points = cells::list(it, &["status", "loadBalancer", "ingress"]).iter();
    let addresses: Vec<&str> = points
        .map(|it| cells::or(cells::text(it, &["ip"]), cells::text(it, &["hostname"])))
        .collect();
    let ports = if cells::count(it, &["spec", "tls"]) > 0 {
        "80, 443"
    } else {
        "80"
    };
    vec![
        cells::name(it),
        class.into(),
        cells::at_most_three(hosts.collect(), "*").into(),
        addresses.join(",").into(),
        ports.into(),
        cells::age(it, now),
    ]
}

fn class_row(it: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = match cells::at(it, &["spec", "parameters"]) {
        Value::Null => cells::NONE.to_owned(),
        to => {
            let group = cells::text(to, &["apiGroup"]);
            let dot = if group.is_empty() { "" } else { "." };
            format!(
                "{}{dot}{group}/{}",
                cells::text(to, &["kind"]),
                cells::text(to, &["name"])
            )
        }
    };
    vec![
        class_title(it, default_class::OF_INGRESSES),
        cells::text(it, &["spec", "controller"]).into(),
        parameters.into(),
        cells::age(it, now),
    ]
}
