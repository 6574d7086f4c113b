//! A node without containers: it makes a Kubernetes API *run* things.
//!
//! It registers a Node, takes the pods that fit it, and runs their containers as processes of this host, by a map from
//! images to commands: volumes as files, environment, ServiceAccount tokens, probes, restarts, logs, statuses as a
//! kubelet writes them. Beside it run the workload controllers that a small API server lacks: Deployment, ReplicaSet,
//! DaemonSet, StatefulSet and Job, and PodDisruptionBudget for the evictions of their pods.
//!
//! It speaks through a `kube::Client` only and knows no kind of Open Cluster Management. It isolates nothing:
//! `securityContext`, resource limits and network namespaces are accepted and not enforced.

mod events;
mod images;
mod logs;
mod node;
mod pod;
mod process;
mod reach;
mod references;
mod register;
mod schedule;
mod services;
mod terminal;
mod times;
#[cfg(target_os = "linux")]
mod view;
mod workload;

pub use images::{Command, ImageMap, MapError, Refusal, Then};
pub use logs::{LogError, LogOptions, Logs};
pub use node::{ApiServer, Node, Options, StartError, start};
pub use reach::{PodReach, ProcessRequest, ReachError, ReachStart, ReachedProcess};
