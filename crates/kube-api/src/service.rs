//! Cluster addresses of Services. Nothing routes them here; clients and charts expect them to be there and unique.

use crate::{call::Call, kinds::refuse};
use kube_store::status::{FieldError, Status};
use rand::RngExt;
use serde_json::{Value, json};
use std::{collections::HashSet, net::Ipv4Addr};

/// First address of the range 10.0.0.0/16; 10.0.0.1 belongs to the Service `kubernetes`.
const RANGE: u32 = 0x0a00_0000;
const RANGE_SIZE: u32 = 1 << 16;

/// Gives a Service its address, or keeps the one it has.
///
/// # Errors
/// 422 when the address that is asked for is taken, outside the range, or another one than before.
pub fn allocate(call: &Call<'_>, value: &mut Value, old: Option<&Value>) -> Result<(), Status> {
    if let Some(old) = old {
        drop_of_other_type(value, old);
    }
    allocate_address(call, value, old)?;
    allocate_node_ports(call, value, old)
}

/// Takes out of a Service whose type has changed what only the type before had a use for, unless the client has changed that.
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

/// Unlike an index, this leaves no null where there are none.
fn ports_mut(value: &mut Value) -> impl Iterator<Item = &mut Value> {
    value
        .pointer_mut("/spec/ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

/// Gives each port of a NodePort or LoadBalancer Service its number on the nodes, or keeps the one it has.
fn allocate_node_ports(call: &Call<'_>, value: &mut Value, old: Option<&Value>) -> Result<(), Status> {
    let wants = |value: &Value| match value["spec"]["type"].as_str() {
        Some("NodePort") => true,
        Some("LoadBalancer") => value["spec"]["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    };
    let before: Vec<Value> = old.map(|it| ports(it).to_vec()).unwrap_or_default();
    if !wants(value) {
        // What was allocated for the type before goes with it; a port that the client sets is refused elsewhere.
        let had = old.is_some_and(wants);
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
    let (objects, _) = call.server.store.list("services", "");
    let mut taken: HashSet<i64> = objects
        .iter()
        .filter(|it| *it.namespace != *call.namespace || *it.name != *call.name)
        .flat_map(|it| {
            ports(&it.value())
                .iter()
                .filter_map(|it| it["nodePort"].as_i64())
                .collect::<Vec<_>>()
        })
        .collect();
    let count = NODE_PORTS.end() - NODE_PORTS.start() + 1;
    let spread = rand::rng().random_range(0..count);
    for (at, port) in ports_mut(value).enumerate() {
        let field = format!("spec.ports[{at}].nodePort");
        let asked = port["nodePort"].as_i64().filter(|it| *it != 0);
        let same = |it: &&Value| it["port"] == port["port"] && it["protocol"] == port["protocol"];
        let kept = before.iter().find(same).and_then(|it| it["nodePort"].as_i64());
        let number = match asked.or(kept) {
            Some(number) if before.iter().any(|it| it["nodePort"] == number) => number,
            Some(number) if !NODE_PORTS.contains(&number) => {
                let detail = "provided port is not in the valid range. The range of valid ports is 30000-32767";
                return Err(refuse(call, FieldError::invalid(field, &number.into(), detail)));
            }
            Some(number) if taken.contains(&number) => {
                let detail = "provided port is already allocated";
                return Err(refuse(call, FieldError::invalid(field, &number.into(), detail)));
            }
            Some(number) => number,
            None => {
                let low = NODE_PORTS.start();
                let free = (0..count)
                    .map(|it| low + (it + spread) % count)
                    .find(|it| !taken.contains(it));
                free.ok_or_else(|| refuse(call, FieldError::forbidden(field, "no port of 30000-32767 is free")))?
            }
        };
        taken.insert(number);
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
    if !before.is_empty() {
        if asked.is_empty() || asked == before {
            set(value, &before);
            return Ok(());
        }
        let error = FieldError::invalid("spec.clusterIPs[0]", &json!([asked]), "may not change once set");
        return Err(refuse(call, error));
    }
    if asked == "None" {
        set(value, "None");
        return Ok(());
    }
    let (objects, _) = call.server.store.list("services", "");
    let taken: HashSet<Ipv4Addr> = objects
        .iter()
        .filter_map(|it| it.value()["spec"]["clusterIP"].as_str()?.parse().ok())
        .collect();
    if !asked.is_empty() {
        let Ok(address) = asked.parse::<Ipv4Addr>() else {
            let error = FieldError::invalid(
                "spec.clusterIPs[0]",
                &asked.as_str().into(),
                "must be a valid IP address",
            );
            return Err(refuse(call, error));
        };
        if taken.contains(&address) {
            let detail = format!("failed to allocate IP {asked}: provided IP is already allocated");
            return Err(refuse(
                call,
                FieldError::invalid("spec.clusterIPs", &json!([asked]), detail),
            ));
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
        None => Err(refuse(
            call,
            FieldError::forbidden("spec.clusterIP", "the range 10.0.0.0/16 has no free address"),
        )),
    }
}

fn set(value: &mut Value, address: &str) {
    value["spec"]["clusterIP"] = address.into();
    value["spec"]["clusterIPs"] = json!([address]);
}
