//! The Node object and its heartbeat.

use crate::{
    pod::{address, fields::Capacity},
    times,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Namespace, Node, NodeCondition},
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Where Kubernetes keeps the heartbeats of nodes, how long one counts and how often it is renewed.
const LEASES: &str = "kube-node-lease";
const LEASE_SECONDS: i32 = 40;
const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(1);

/// How many pods fit, as a kubelet's default.
const PODS_MAX: u32 = 110;

/// What this host has.
pub fn capacity() -> Capacity {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().find_map(|it| it.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|it| it.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Capacity {
        cores: cores as u64,
        memory_bytes: kilobytes.unwrap_or_default() * 1024,
    }
}

fn line(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn system() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    }
}

fn labels(name: &str) -> Value {
    json!({
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": system(),
        "kubernetes.io/arch": architecture(),
    })
}

fn status(name: &str, capacity: Capacity, before: &[NodeCondition], now: Timestamp) -> Value {
    let amounts = json!({
        "cpu": capacity.cores.to_string(),
        "memory": format!("{}Ki", capacity.memory_bytes / 1024),
        "pods": PODS_MAX.to_string(),
    });
    let now = times::seconds(now);
    let condition = |kind: &str, holds: &str, reason: &str, message: &str| {
        let old = before.iter().find(|it| it.type_ == kind && it.status == holds);
        let since = old
            .and_then(|it| it.last_transition_time.clone())
            .unwrap_or_else(|| now.clone());
        json!({"type": kind, "status": holds, "reason": reason, "message": message,
               "lastHeartbeatTime": now, "lastTransitionTime": since})
    };
    let release = line("/etc/os-release");
    let system_name = release.lines().find_map(|it| it.strip_prefix("PRETTY_NAME="));
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    json!({
        "capacity": amounts,
        "allocatable": amounts,
        "addresses": [{"type": "InternalIP", "address": address::HOST}, {"type": "Hostname", "address": name}],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "nodeInfo": {
            "machineID": line("/etc/machine-id"),
            "systemUUID": "",
            "bootID": line("/proc/sys/kernel/random/boot_id"),
            "kernelVersion": line("/proc/sys/kernel/osrelease"),
            "osImage": system_name.unwrap_or(system()).trim_matches('"'),
            "containerRuntimeVersion": format!("process://{}", env!("CARGO_PKG_VERSION")),
            "kubeletVersion": version,
            "kubeProxyVersion": "",
            "operatingSystem": system(),
            "architecture": architecture(),
        },
    })
}

/// Makes the Node, and renews its heartbeat until the end.
pub async fn keep(client: Client, name: String, capacity: Capacity, cancel: CancellationToken) {
    let beat = async {
        while let Err(error) = register(&client, &name, capacity).await {
            tracing::debug!(%error, "could not register the node, will retry");
            tokio::time::sleep(RETRY).await;
        }
        let mut known = None;
        loop {
            let pause = match renew(&client, &name, &mut known).await {
                Ok(()) => RENEW,
                Err(error) => {
                    tracing::debug!(%error, "could not renew the node's lease, will retry");
                    RETRY
                }
            };
            tokio::time::sleep(pause).await;
        }
    };
    tokio::select! {
        () = cancel.cancelled() => {}
        () = beat => {}
    }
}

async fn register(client: &Client, name: &str, capacity: Capacity) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let labels = labels(name);
    let found = match nodes.get_opt(name).await? {
        Some(found) => {
            let patch = json!({"metadata": {"labels": labels}});
            nodes
                .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
                .await?;
            found
        }
        None => {
            let node =
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}});
            let node = serde_json::from_value(node).map_err(kube::Error::SerdeError)?;
            nodes.create(&PostParams::default(), &node).await?
        }
    };
    let before = found.status.and_then(|it| it.conditions).unwrap_or_default();
    let patch = json!({"status": status(name, capacity, &before, Timestamp::now())});
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    Ok(())
}

async fn renew(client: &Client, name: &str, known: &mut Option<Lease>) -> Result<(), kube::Error> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASES);
    let now = MicroTime(Timestamp::now());
    if known.is_some() {
        let patch = json!({"spec": {"renewTime": now}});
        match leases.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => return Ok(()),
            // It is made anew below.
            Err(kube::Error::Api(status)) if status.code == 404 => *known = None,
            Err(error) => return Err(error),
        }
    }
    let nodes: Api<Node> = Api::all(client.clone());
    let uid = nodes.get(name).await?.metadata.uid;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": LEASES, "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid},
        ]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now},
    });
    let apply = PatchParams::apply("kubelet").force();
    let applied = leases.patch(name, &apply, &Patch::Apply(&lease)).await;
    let made = match applied {
        // A server that does not have the namespace gets it.
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASES}});
            let namespace: Namespace = serde_json::from_value(namespace).map_err(kube::Error::SerdeError)?;
            match Api::all(client.clone())
                .create(&PostParams::default(), &namespace)
                .await
            {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                other => drop(other?),
            }
            leases.patch(name, &apply, &Patch::Apply(&lease)).await?
        }
        other => other?,
    };
    *known = Some(made);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let capacity = Capacity {
            cores: 2,
            memory_bytes: 4096,
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = status("n", capacity, &[], at(1));
        let conditions: Vec<NodeCondition> = serde_json::from_value(first["conditions"].clone()).unwrap();
        let then = status("n", capacity, &conditions, at(2));
        assert_eq!(then["conditions"][3]["lastTransitionTime"], "1970-01-01T00:00:01Z");
        assert_eq!(then["conditions"][3]["lastHeartbeatTime"], "1970-01-01T00:00:02Z");
        assert_eq!(then["capacity"], json!({"cpu": "2", "memory": "4Ki", "pods": "110"}));
    }
}
