//! Cluster addresses of Services. Nothing routes them here; clients and charts expect them to be there and unique.

use crate::{call::Call, kinds::refuse};
use kube_store::status::{FieldError, Status};
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
    let first = if is_kubernetes { 1 } else { 10 };
    let free = (first..RANGE_SIZE - 1)
        .map(|it| Ipv4Addr::from(RANGE + it))
        .find(|it| !taken.contains(it));
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
