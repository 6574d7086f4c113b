//! Cluster addresses of Services. Nothing routes them here; clients and charts expect them to be there and unique.

use super::validation::text;
use crate::call::Call;
use kube_store::status::{FieldError, Status};
use rand::RngExt;
use serde_json::{Value, json};
use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet},
    net::Ipv4Addr,
};

/// First address of the range 10.0.0.0/16; 10.0.0.1 belongs to the Service `kubernetes`.
const RANGE: u32 = 0x0a00_0000;
const RANGE_SIZE: u32 = 1 << 16;

/// Whether a load balancer asks nodes if they have pods of the Service.
pub fn health_checked(service: &Value) -> bool {
    text(service, "/spec/type") == "LoadBalancer" && text(service, "/spec/externalTrafficPolicy") == "Local"
}

/// Gives a Service its address and its numbers on the nodes, or keeps those it has. The caller holds
/// `ServerContext::allocating` until what is given is decided.
///
/// # Errors
/// 422 when the address that is asked for is taken, outside the range, or another one than before.
pub fn allocate(call: &Call<'_>, value: &mut Value, old: Option<&Value>) -> Result<(), Status> {
    if let Some(old) = old {
        drop_of_other_type(value, old);
        // Where its load balancer was, nobody is told any more.
        let balanced = value["spec"]["type"] == "LoadBalancer";
        if call.subresource.is_empty() && !balanced && !value["status"]["loadBalancer"].is_null() {
            value["status"]["loadBalancer"] = json!({});
        }
    }
    allocate_address(call, value, old)?;
    let mut taken = TakenPorts {
        call,
        others: OnceCell::new(),
        own: HashSet::new(),
    };
    allocate_node_ports(call, value, old, &mut taken)?;
    allocate_health_port(call, value, old, &mut taken)
}

/// Takes out of a Service whose type has changed what only the type before had a use for,
/// unless the client has changed that.
fn drop_of_other_type(value: &mut Value, old: &Value) {
    let is = |value: &Value, types: &[&str]| types.contains(&value["spec"]["type"].as_str().unwrap_or("ClusterIP"));
    let mut gone: Vec<&str> = Vec::new();
    let mut lost = |types: &[&str], fields: &[&'static str]| {
        if is(old, types) && !is(value, types) {
            gone.extend(fields);
        }
    };
    lost(
        &["ClusterIP", "NodePort", "LoadBalancer"],
        &[
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "internalTrafficPolicy",
        ],
    );
    lost(
        &["NodePort", "LoadBalancer"],
        &["externalTrafficPolicy", "healthCheckNodePort"],
    );
    lost(
        &["LoadBalancer"],
        &["allocateLoadBalancerNodePorts", "loadBalancerClass"],
    );
    let (spec, before) = (value["spec"].as_object_mut(), old["spec"].as_object());
    let (Some(spec), Some(before)) = (spec, before) else {
        return;
    };
    spec.retain(|key, it| !gone.contains(&key.as_str()) || before.get(key) != Some(it));
}

/// Ports that a node would open for Services that ask for them.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;

fn ports(value: &Value) -> &[Value] {
    value["spec"]["ports"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The number of a port on the nodes.
fn node_port(port: &Value) -> Option<i64> {
    port["nodePort"].as_i64().filter(|it| *it != 0)
}

/// Unlike an index, this leaves no null where there are none.
fn ports_mut(value: &mut Value) -> impl Iterator<Item = &mut Value> {
    value
        .pointer_mut("/spec/ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

/// Whether each port of a Service is given a number on the nodes.
fn has_node_ports(value: &Value) -> bool {
    match value["spec"]["type"].as_str() {
        Some("NodePort") => true,
        Some("LoadBalancer") => value["spec"]["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

/// The numbers on the nodes that cannot be given.
struct TakenPorts<'c, 's> {
    call: &'c Call<'s>,
    /// Those of other Services. All of them are read for it, so only when a number is to be given.
    others: OnceCell<HashSet<i64>>,
    /// Those that this Service has been given.
    own: HashSet<i64>,
}

impl TakenPorts<'_, '_> {
    fn contains(&self, number: i64) -> bool {
        self.own.contains(&number) || self.others.get_or_init(|| self.read()).contains(&number)
    }

    fn read(&self) -> HashSet<i64> {
        let call = self.call;
        let objects = call.server.store.list_newest("services");
        let others = objects
            .iter()
            .filter(|it| *it.namespace != *call.namespace || *it.name != *call.name);
        let mut taken = HashSet::new();
        for other in others {
            let value = other.value();
            taken.extend(ports(&value).iter().filter_map(|it| it["nodePort"].as_i64()));
            taken.extend(value["spec"]["healthCheckNodePort"].as_i64());
        }
        taken
    }
}

/// A number on the nodes that nobody has, anywhere in their range.
fn free_port(taken: &TakenPorts<'_, '_>) -> Option<i64> {
    let (low, count) = (NODE_PORTS.start(), NODE_PORTS.end() - NODE_PORTS.start() + 1);
    let start = rand::rng().random_range(0..count);
    (0..count)
        .map(|it| low + (it + start) % count)
        .find(|it| !taken.contains(*it))
}

fn none_free(call: &Call<'_>, field: &str) -> Status {
    call.refuse(FieldError::forbidden(field, "no port of 30000-32767 is free"))
}

/// Why a number that is asked for is not given.
fn refused_port(number: i64, taken: &TakenPorts<'_, '_>) -> Option<&'static str> {
    if !NODE_PORTS.contains(&number) {
        Some("provided port is not in the valid range. The range of valid ports is 30000-32767")
    } else if taken.contains(number) {
        Some("provided port is already allocated")
    } else {
        None
    }
}

/// Gives a Service whose load balancer asks nodes for its pods the number where they answer, or keeps the one it has.
fn allocate_health_port(
    call: &Call<'_>,
    value: &mut Value,
    old: Option<&Value>,
    taken: &mut TakenPorts<'_, '_>,
) -> Result<(), Status> {
    let number = |value: &Value| value["spec"]["healthCheckNodePort"].as_i64().filter(|it| *it != 0);
    let before = old.filter(|it| health_checked(it)).and_then(number);
    if !health_checked(value) {
        // What was allocated goes with its use; another number is refused elsewhere.
        if before.is_some()
            && before == number(value)
            && let Some(spec) = value["spec"].as_object_mut()
        {
            spec.remove("healthCheckNodePort");
        }
        return Ok(());
    }
    let given = match (number(value), before) {
        // That it may not change is said elsewhere.
        (Some(_), Some(_)) => return Ok(()),
        (None, Some(before)) => before,
        (Some(asked), None) => {
            if let Some(why) = refused_port(asked, taken) {
                let text = format!("failed to allocate requested HealthCheck NodePort {asked}: {why}");
                return Err(Status::new(
                    500,
                    "InternalError",
                    format!("Internal error occurred: {text}"),
                ));
            }
            asked
        }
        (None, None) => free_port(taken).ok_or_else(|| none_free(call, "spec.healthCheckNodePort"))?,
    };
    taken.own.insert(given);
    value["spec"]["healthCheckNodePort"] = given.into();
    Ok(())
}

/// Gives each port of a NodePort or LoadBalancer Service its number on the nodes, or keeps the one it has.
fn allocate_node_ports(
    call: &Call<'_>,
    value: &mut Value,
    old: Option<&Value>,
    taken: &mut TakenPorts<'_, '_>,
) -> Result<(), Status> {
    let before: Vec<Value> = old.map(|it| ports(it).to_vec()).unwrap_or_default();
    if !has_node_ports(value) {
        // What was allocated for the type before goes with it; a port that the client sets is refused elsewhere. A load
        // balancer that wants no more of them keeps those it has.
        let is_outside = |it: &Value| matches!(it["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer"));
        let had = old.is_some_and(is_outside) && !is_outside(value);
        for port in ports_mut(value) {
            if had
                && before.iter().any(|it| it["nodePort"] == port["nodePort"])
                && let Some(port) = port.as_object_mut()
            {
                port.remove("nodePort");
            }
        }
        return Ok(());
    }
    // Both protocols of a port have the same number on the nodes, whoever asks for it.
    let mut shared: HashMap<i64, i64> = ports(value)
        .iter()
        .filter_map(|it| Some((it["port"].as_i64()?, node_port(it)?)))
        .collect();
    let said: HashSet<i64> = ports(value).iter().filter_map(node_port).collect();
    let mut allocated = HashSet::new();
    for (at, port) in ports_mut(value).enumerate() {
        let field = format!("spec.ports[{at}].nodePort");
        let same = |it: &&Value| it["name"] == port["name"];
        let kept = before
            .iter()
            .find(same)
            .and_then(node_port)
            .filter(|it| !said.contains(it));
        let both = port["port"].as_i64().and_then(|it| shared.get(&it).copied());
        let number = match node_port(port).or(kept).or(both) {
            Some(number) if allocated.contains(&number) || before.iter().any(|it| it["nodePort"] == number) => number,
            Some(number) => match refused_port(number, taken) {
                Some(why) => return Err(call.refuse(FieldError::invalid(field, &number.into(), why))),
                None => number,
            },
            None => free_port(taken).ok_or_else(|| none_free(call, &field))?,
        };
        taken.own.insert(number);
        allocated.insert(number);
        if let Some(of) = port["port"].as_i64() {
            shared.entry(of).or_insert(number);
        }
        port["nodePort"] = number.into();
    }
    Ok(())
}

fn allocate_address(call: &Call<'_>, value: &mut Value, old: Option<&Value>) -> Result<(), Status> {
    let kind = value["spec"]["type"].as_str().unwrap_or("ClusterIP");
    if kind == "ExternalName" {
        return Ok(());
    }
    let asked = value["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
    let before = old
        .and_then(|it| it["spec"]["clusterIP"].as_str())
        .unwrap_or_default()
        .to_owned();
    if let Some(old) = old.filter(|_| !before.is_empty()) {
        // Whoever changes one of the two means both; that they may not change is said elsewhere.
        let many = &value["spec"]["clusterIPs"];
        let unsaid = many.as_array().is_none_or(Vec::is_empty);
        if asked.is_empty() {
            value["spec"]["clusterIP"] = before.into();
            if unsaid {
                value["spec"]["clusterIPs"] = old["spec"]["clusterIPs"].clone();
            }
        } else if asked != before && (unsaid || *many == old["spec"]["clusterIPs"]) {
            value["spec"]["clusterIPs"] = json!([asked]);
        } else if unsaid {
            value["spec"]["clusterIPs"] = old["spec"]["clusterIPs"].clone();
        }
        return Ok(());
    }
    if asked == "None" {
        set(value, "None");
        return Ok(());
    }
    let objects = call.server.store.list_newest("services");
    let taken: HashSet<Ipv4Addr> = objects
        .iter()
        .filter_map(|it| it.value()["spec"]["clusterIP"].as_str()?.parse().ok())
        .collect();
    if !asked.is_empty() {
        // What is no address of this family is refused elsewhere.
        let Ok(address) = asked.parse::<Ipv4Addr>() else {
            return Ok(());
        };
        let why = if u32::from(address) & !(RANGE_SIZE - 1) != RANGE {
            format!("the provided IP ({asked}) is not in the valid range. The range of valid IPs is 10.0.0.0/16")
        } else if taken.contains(&address) {
            "provided IP is already allocated".to_owned()
        } else {
            String::new()
        };
        if !why.is_empty() {
            let detail = format!("failed to allocate IP {asked}: {why}");
            let error = FieldError::invalid("spec.clusterIPs", &json!([asked]), detail);
            return Err(call.refuse(error));
        }
        set(value, &asked);
        return Ok(());
    }
    let is_kubernetes = call.namespace == "default" && call.name == "kubernetes";
    let (first, count) = (10, RANGE_SIZE - 11);
    // Anywhere in the range, so that two that are made in one moment do not meet.
    let start = rand::rng().random_range(0..count);
    let free = if is_kubernetes {
        Some(Ipv4Addr::from(RANGE + 1)).filter(|it| !taken.contains(it))
    } else {
        (0..count)
            .map(|it| Ipv4Addr::from(RANGE + first + (it + start) % count))
            .find(|it| !taken.contains(it))
    };
    match free {
        Some(address) => {
            set(value, &address.to_string());
            Ok(())
        }
        None => Err(call.refuse(FieldError::forbidden(
            "spec.clusterIP",
            "the range 10.0.0.0/16 has no free address",
        ))),
    }
}

fn set(value: &mut Value, address: &str) {
    value["spec"]["clusterIP"] = address.into();
    value["spec"]["clusterIPs"] = json!([address]);
}
