//! ManagedClusters, ManagedClusterSets, ManagedClusterSetBindings and ClusterProfiles: joining, accepting, heartbeats, claims, the
//! conversation between a hub and the clusters it manages.
//!
//! ```text
//! hub                                                               agent
//! ManagedCluster             <-- creates it, says how it is ------- joining, state, client_configs
//!                            --> accepts it, gives it its rights:   lifecycle, availability, clock, taints, garbage, imports
//!   Namespace, RBAC objects  <-- lifecycle, cluster_roles
//!   CertificateSigningRequest <-- asks ---------------------------- enrolment --> Secret on the cluster
//!                            --> approves: approval
//!   Lease                    <-- renews --------------------------- lease
//!                            --> reads: availability, clock
//! ManagedClusterSet          <-> default_sets makes two, cluster_sets counts
//! ManagedClusterSetBinding   <-- set_bindings says whether it holds
//! ClusterProfile             <-- cluster_profiles, of clusters whose sets are bound
//! ManagedCluster's managedNamespaces <-- managed_namespaces --> state --> Namespaces on the cluster
//! ```
//!
//! [`hub`] is the half that runs beside the API of the hub, [`agent`] the half that runs for each managed cluster;
//! [`admission`] are the rules that everyone meets who writes to the hub, as plain functions.

pub mod admission;
pub mod agent;
pub mod hub;

mod api_reader;
mod status;
