//! Which kinds go with a cluster, and in which order.

use kube::api::ApiResource;

/// A kind that goes with its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GarbageKind {
    /// Group and version.
    pub api_version: String,
    /// The plural.
    pub resource: String,
    /// The kind.
    pub kind: String,
}

impl GarbageKind {
    /// Add-ons first, because their agents may need works to clean up; then works.
    pub fn defaults() -> Vec<Self> {
        [
            (
                "addon.open-cluster-management.io/v1beta1",
                "managedclusteraddons",
                "ManagedClusterAddOn",
            ),
            ("work.open-cluster-management.io/v1", "manifestworks", "ManifestWork"),
        ]
        .map(|(api_version, resource, kind)| Self {
            api_version: api_version.to_owned(),
            resource: resource.to_owned(),
            kind: kind.to_owned(),
        })
        .to_vec()
    }

    /// As the API has it.
    pub fn api_resource(&self) -> ApiResource {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            plural: self.resource.clone(),
        }
    }
}
