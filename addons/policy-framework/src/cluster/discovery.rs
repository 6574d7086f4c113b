//! Which resource a kind is, and whether Policies may carry it.
//!
//! The definitions with the label `policy.open-cluster-management.io/policy-type: template` are watched, so that such a
//! kind is known without asking; every other kind is asked for each time. Upstream: `controllers/utils/utils.go`,
//! `GVRFromGVK`, which asks each time for every kind.

use std::sync::Arc;

use ocm_addon_sdk::{
    k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube::{self, Client, core::ApiResource},
    ocm_api::policy,
    reconcile::{Cache, Caches, segment::encoded},
};

use super::gatekeeper;

/// Group, version and kind of an object, as the object says them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindName {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

impl KindName {
    /// Of `apiVersion` and `kind`.
    pub fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// `group/version`, or the version alone.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

impl std::fmt::Display for KindName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// What a kind is on the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum KindOnCluster {
    /// It is served.
    Served(ServedKind),
    /// It is not; the sentence of upstream that says so.
    Missing(String),
}

/// A kind that is served.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedKind {
    /// The resource.
    pub resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether its definition has the label of kinds that Policies carry.
    pub is_template: bool,
    /// Its definition, where that is watched.
    pub definition: Option<Arc<CustomResourceDefinition>>,
}

/// What kinds there are on the cluster.
#[derive(Clone)]
pub struct KindsOnCluster {
    client: Client,
    /// The definitions of kinds that Policies carry.
    pub definitions: Cache<CustomResourceDefinition>,
}

/// The definitions of the kinds that Policies carry, by their label.
pub fn template_definitions(caches: &Caches) -> Cache<CustomResourceDefinition> {
    caches.labelled(&format!("{}=template", policy::labels::POLICY_TYPE))
}

impl KindsOnCluster {
    /// Of the cluster behind this client.
    pub fn new(client: Client, caches: &Caches) -> Self {
        let definitions = template_definitions(caches);
        Self { client, definitions }
    }

    /// What a kind is.
    ///
    /// # Errors
    /// When the API server does not say.
    pub async fn find(&self, name: &KindName) -> Result<KindOnCluster, kube::Error> {
        let of_kind =
            |it: &&Arc<CustomResourceDefinition>| it.spec.group == name.group && it.spec.names.kind == name.kind;
        if let Some(definition) = self.definitions.list().iter().find(of_kind)
            && let Some(served) = served(definition, Some(&name.version))
        {
            return Ok(KindOnCluster::Served(served));
        }
        let asked = match name.group.as_str() {
            "" => self.client.list_core_api_resources(&encoded(&name.version)).await,
            group => {
                let version = format!("{}/{}", encoded(group), encoded(&name.version));
                self.client.list_api_group_resources(&version).await
            }
        };
        let list = match asked {
            Ok(list) => list,
            Err(kube::Error::Api(status)) if status.code == 404 => {
                return Ok(KindOnCluster::Missing(format!("{NOT_FOUND}: {name}")));
            }
            Err(error) => return Err(error),
        };
        let found = list
            .resources
            .into_iter()
            .find(|it| it.kind == name.kind && !it.name.contains('/'));
        let Some(found) = found else {
            let text = format!("{NOT_FOUND}: no matching kind was found: {name}");
            return Ok(KindOnCluster::Missing(text));
        };
        Ok(KindOnCluster::Served(ServedKind {
            resource: ApiResource {
                api_version: name.api_version(),
                group: name.group.clone(),
                version: name.version.clone(),
                kind: name.kind.clone(),
                plural: found.name,
            },
            namespaced: found.namespaced,
            is_template: false,
            definition: None,
        }))
    }

    /// All kinds that Policies carry, each in its first version.
    pub fn templates(&self) -> Vec<ServedKind> {
        let all = self.definitions.list();
        all.iter().filter_map(|it| served(it, None)).collect()
    }
}

const NOT_FOUND: &str = "the resource version was not found";

/// The kind of a definition in this version, or in its first served one.
fn served(definition: &Arc<CustomResourceDefinition>, version: Option<&str>) -> Option<ServedKind> {
    let spec = &definition.spec;
    let mut versions = spec.versions.iter().filter(|it| it.served);
    let version = versions.find(|it| version.is_none_or(|wanted| it.name == wanted))?;
    Some(ServedKind {
        resource: ApiResource {
            api_version: format!("{}/{}", spec.group, version.name),
            group: spec.group.clone(),
            version: version.name.clone(),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
        },
        namespaced: spec.scope == "Namespaced",
        is_template: true,
        definition: Some(definition.clone()),
    })
}

/// Whether a kind is Gatekeeper's, and which of the two.
pub fn of_gatekeeper(name: &KindName) -> Option<gatekeeper::GatekeeperKind> {
    match (name.group.as_str(), name.kind.as_str()) {
        (gatekeeper::TEMPLATES, gatekeeper::TEMPLATE_KIND) => Some(gatekeeper::GatekeeperKind::Template),
        (gatekeeper::CONSTRAINTS, _) => Some(gatekeeper::GatekeeperKind::Constraint),
        _ => None,
    }
}
