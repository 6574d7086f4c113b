//! ManagedClusters, ManagedClusterSets, ManagedClusterSetBindings and ClusterProfiles: joining, accepting, heartbeats,
//! claims, the conversation between a hub and the clusters it manages.
//!
//! ```text
//!                            hub                                        agent of the managed cluster
//! ManagedCluster             lifecycle accepts; availability, clock,    joining creates it; state says how the cluster is,
//!                            taints judge; garbage                      client_configs how it is reached
//! Namespace, RBAC objects    lifecycle and cluster_roles write
//! CertificateSigningRequest  approval approves                          enrolment asks, and keeps what comes in a Secret
//! Lease                      availability makes it; it and clock read   lease renews
//! managedNamespaces          managed_namespaces says which              state makes them on the cluster
//! ManagedClusterSet          default_sets makes two; cluster_sets counts
//! ManagedClusterSetBinding   set_bindings says whether it holds
//! ClusterProfile             cluster_profiles, of clusters whose sets are bound
//! ```
//!
//! [`hub`] is the half that runs beside the API of the hub, [`agent`] the half that runs for each managed cluster;
//! [`admission`] are the rules that everyone meets who writes to the hub, as plain functions.

pub mod admission;
pub mod agent;
pub mod hub;

mod api_reader;
mod status;
