//! Writing an add-on for Open Cluster Management: ManagedClusterAddOns (an add-on on one cluster),
//! ClusterManagementAddOns (an add-on that a hub offers), the ManifestWorks that bring it to its clusters, and the
//! certificate requests, Roles and bindings of its agents.
//!
//! ```text
//!            your AddOn: manifests, registrations, hub_permissions, health
//!                 ^ asked with an AddOnContext, answers with data
//! hub             |
//!   hub::Manager -+- addon-deploy ----------> ManifestWorks; ManagedClusterAddOn: finalizers, conditions
//!                 +- addon-registration ----> Roles, bindings; ManagedClusterAddOn status: registrations, ...
//!                 +- addon-shared-permissions > deletes Roles, bindings that no cluster asks for any more
//!                 +- addon-config ----------> ManagedClusterAddOn status.configReferences: hashes
//!                 +- management-addon-config > ClusterManagementAddOn status: hashes
//!                 +- addon-csr-approval ----> CertificateSigningRequest: approved
//!                 +- addon-csr-signing -----> CertificateSigningRequest: certificate
//! cluster
//!   your AddOnProgram `agent` --------------> its Lease, and what it is for
//! ```
//!
//! An add-on is a value that implements [`AddOn`]: functions that take what there is to know about one cluster, a
//! [`AddOnContext`], and return data. What runs on the cluster, what its agent may do on the hub, how its health is
//! known: each is an answer, not an action. The SDK does all the IO: it registers agents, delivers the manifests,
//! approves and signs certificates, judges health and cleans up.
//!
//! ```
//! use ocm_addon_sdk::{AddOn, Health, Permission, AddOnContext, UserError, Registration};
//! use serde_json::{Value, json};
//!
//! /// Runs one Deployment on every cluster, whose agent may read ConfigMaps in the cluster's namespace on the hub.
//! struct Greeter;
//!
//! impl AddOn for Greeter {
//!     fn name(&self) -> &str {
//!         "greeter"
//!     }
//!
//!     fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
//!         let labels = json!({"app": "greeter"});
//!         Ok(vec![json!({
//!             "apiVersion": "apps/v1", "kind": "Deployment",
//!             "metadata": {"name": "greeter-agent", "namespace": place.install_namespace},
//!             "spec": {
//!                 "selector": {"matchLabels": labels},
//!                 "template": {
//!                     "metadata": {"labels": labels},
//!                     "spec": {"containers": [{
//!                         "name": "agent", "image": "example.com/greeter:1",
//!                         "args": [format!("--cluster={}", place.cluster_name())],
//!                         "volumeMounts": [{"name": "hub", "mountPath": "/var/run/hub"}],
//!                     }],
//!                     "volumes": [{"name": "hub", "secret": {"secretName": place.hub_kubeconfig_secret()}}]},
//!                 },
//!             },
//!         })])
//!     }
//!
//!     fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
//!         Ok(vec![Registration::kube_client()])
//!     }
//!
//!     fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
//!         let rule = Permission::rule("", &["configmaps"], &["get", "list", "watch"]);
//!         Ok(vec![Permission::role("open-cluster-management:greeter:agent", vec![rule])])
//!     }
//!
//!     fn health(&self, _: &AddOnContext) -> Health {
//!         Health::Deployments
//!     }
//! }
//!
//! // No cluster, no server: an add-on is tested by calling it.
//! let place = AddOnContext::new("cluster1", "greeter");
//! assert_eq!(Greeter.manifests(&place).unwrap()[0]["metadata"]["namespace"], "open-cluster-management-agent-addon");
//! ```
//!
//! The types of OCM, of Kubernetes and of the client come with it, as [`ocm_api`], [`k8s_openapi`] and [`kube`]:
//!
//! ```
//! use ocm_addon_sdk::{ConfigKind, k8s_openapi::api::core::v1::ConfigMap, ocm_api::addon::v1alpha1::AddOnDeploymentConfig};
//!
//! let supported = [ConfigKind::of::<AddOnDeploymentConfig>(), ConfigKind::of::<ConfigMap>()];
//! assert_eq!(supported[1].resource, "configmaps");
//! ```

#![warn(missing_docs)]

pub mod add_on;
pub mod add_on_context;
pub mod agent;
pub mod deploy;
pub mod health;
pub mod hub;
pub mod manifests;
pub mod permission;
pub mod program;
pub mod registration;
pub mod spec_hash;
pub mod values;
mod warning;

pub use add_on::{AddOn, UserError};
pub use add_on_context::{AddOnContext, Config, ConfigKind, Hosting, HubInfo, Mode};
pub use agent::{AddOnAgent, AddOnProgram};
pub use health::{Health, Probe, ProbeResult};
pub use permission::{Grant, Holder, Permission, Scope};
pub use registration::{AgentSubject, Proof, Registration, Signing};
pub use values::Values;

// What this crate's functions take and return comes from these: an add-on that uses them through here has the right
// versions, and needs no dependency for them.
pub use {k8s_openapi, kube, ocm_api};

/// Durations as Go reads them, which fields of Kubernetes' kinds hold.
pub use kube_primitives::duration;

/// Regular expressions of Go, which fields of add-ons' kinds hold.
pub use go_regex;

/// Quantities as Kubernetes reads them.
pub use kube_primitives::quantity;

/// The machine of all reconcilers, for an add-on with kinds of its own: observe, plan, execute, conclude.
pub use ocm_reconcile as reconcile;

// The guide's program is compiled with the tests of this crate, so that a stranger who follows it does not meet an
// error.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/write-an-add-on.md")]
struct Guide;
