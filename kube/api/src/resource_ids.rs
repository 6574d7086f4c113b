//! Ids of the built-in resources that code treats specially: the names of their tables in the store.

pub const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";
pub const CSRS: &str = "certificatesigningrequests.certificates.k8s.io";
/// Both groups of Events share one table.
pub const EVENTS: &str = "events";
pub const LEASES: &str = "leases.coordination.k8s.io";
pub const PRIORITY_CLASSES: &str = "priorityclasses.scheduling.k8s.io";
