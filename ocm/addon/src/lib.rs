//! Add-ons as the product knows them: ManagedClusterAddOn, ClusterManagementAddOn and AddOnTemplate, and on the cluster
//! the leases and Secrets of add-ons' agents.
//!
//! [`agent`] is the half that runs on each cluster, [`hub`] the half that runs beside the API of the hub, and
//! [`template`] makes an add-on of an AddOnTemplate. What any other add-on does is not here: its author says that with
//! the SDK, and the SDK's manager runs it. [`why`] says in sentences what an add-on waits for.
//!
//! # The conversation about one add-on on one cluster
//!
//! It is all in one object, the ManagedClusterAddOn (below: "the add-on") in the cluster's namespace on the hub. Four
//! speak: the hub's controllers for add-ons ([`hub`]), the add-on's manager (`ocm_addon_sdk::hub` and `::deploy`, or a
//! Go program), the cluster's agent ([`agent`]), and the add-on's own agent, which only renews its lease. Conditions
//! are in quotes; what is before the arrow wrote it, what is behind the arrow waits for it.
//!
//! ```text
//! hub                     add-on's manager          cluster's agent           add-on's agent
//! |                       |                         |                         |
//! | CREATED               |                         |                         |
//! | install: the add-on where placements say (or a user, by hand)             |
//! | owner: ownerReferences|                         |                         |
//! | annotation: what the cluster's annotations say  |                         |
//! |                       |                         |                         |
//! | CONFIGURED            |                         |                         |
//! | progression: on the ClusterManagementAddOn, which configurations are default and each placement's
//! |                       | their specHash there    |                         |
//! | configuration: when it is its turn, configReferences (desiredConfig) and "Configured" True;
//! |   False while it has to wait                    |                         |
//! |                       | specHash of what the add-on's spec names, lastObservedGeneration
//! |                       |                         |                         |
//! | ENROLLED              |                         |                         |
//! |                       | supportedConfigs, namespace, healthCheck          |
//! |                       | roles for the agent: "RegistrationApplied"        |
//! |                       | registrations (signer, subject) --> kubeClientDriver
//! |                       |                         |                         |
//! |                       | with a certificate:     |                         |
//! |                       |                         | CertificateSigningRequest
//! |                       | approves it; signs it, where the signer is its own|
//! |                       |                         | Secret: "ClusterCertificateRotated" --> uses it
//! |                       |                         |                         |
//! |                       | with a token:           |                         |
//! |                       |                         | subject: the ServiceAccount
//! | token_infrastructure: ServiceAccount, Role, RoleBinding;                  |
//! |   "TokenInfrastructureReady" with the UID of the account --> TokenRequest |
//! |                       |                         | Secret: "TokenRefreshed" --> uses it
//! |                       |                         |                         |
//! | DEPLOYED              |                         |                         |
//! |                       | after "RegistrationApplied" (and "Configured" True, if it asks for that):
//! |                       | ManifestWorks --(the work agent applies them)--> starts
//! |                       | "ManifestApplied"; hosted also "HostingClusterValidity", "HostingManifestApplied"
//! | progressing: "Progressing", False until these are there, then True until the works have the desired
//! |   configuration and are applied and available, then False, and lastAppliedConfig
//! | configuration: the next clusters' turn; on the ClusterManagementAddOn "Progressing" of each placement
//! |                       |                         |                         |
//! | AVAILABLE             |                         |                         |
//! |                       | "Available", where it judges by the works (health mode Customized)
//! |                       |                         | "Available", by the lease (mode Lease) <-- renews it
//! | availability: "Available" Unknown while nobody hears of the cluster: then nobody else says it
//! | feature: label feature.open-cluster-management.io/addon-NAME of the ManagedCluster
//! |                       |                         |                         |
//! | DELETED               |                         |                         |
//! | install: deletes it where no placement chooses the cluster any more       |
//! |                       | holds it by finalizers, runs its hooks ("HookManifestCompleted"), removes what is hosted
//! |                       |                         | keeps the Secrets until the add-on is gone; then they
//! |                       |                         |   go, and a lease that was left behind
//! ```
//!
//! `configuration` and `progressing` leave an add-on alone whose ClusterManagementAddOn says that its own manager looks
//! after it ([`hub::is_managed`]), and so do `install`, `owner` and `annotation`.

pub mod agent;
pub mod hub;
pub mod template;
pub mod why;
