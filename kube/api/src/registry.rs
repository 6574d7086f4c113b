//! What the server serves: one `Resource` per plural, built in or made from a CustomResourceDefinition.
//!
//! The registry is data. Verbs, discovery, OpenAPI, tables and controllers read it; none of them knows a kind by name
//! unless Kubernetes itself treats that kind specially.

use crate::{
    builtin::{self, Row, Subresource, Traits},
    conversion::{Converter, autoscaler::Autoscalers},
    group_version::{api_version, split_api_version, version_priority},
    table::{CustomColumns, Printer},
};
use kube_store::schema::Schema;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::{Arc, OnceLock},
};

/// Paths of a custom resource's scale subresource, without the leading dot.
#[derive(Clone, Debug, Default)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: String,
}

/// One version of a resource.
#[derive(Debug)]
pub struct ApiVersion {
    pub name: String,
    pub served: bool,
    pub storage: bool,
    pub status: bool,
    pub scale: Option<ScalePaths>,
    /// How its objects become rows of a table.
    pub printer: Printer,
    /// Text of the `Warning` header of a deprecated version.
    pub deprecation: Option<String>,
    /// Paths of `selectableFields`, as `spec.x`.
    pub selectable: Vec<String>,
    /// `openAPIV3Schema` of a custom resource, until it is needed as a tree.
    raw_schema: Value,
    schema: OnceLock<Option<Arc<Schema>>>,
}

/// One resource that is served, in all its versions.
#[derive(Debug)]
pub struct Resource {
    /// `plural[.group]`, the name of its table in the store.
    pub id: Arc<str>,
    pub group: String,
    /// In order of preference.
    pub versions: Vec<ApiVersion>,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub traits: Traits,
    /// The CustomResourceDefinition that defines it; `None` for a built-in resource.
    pub crd: Option<Crd>,
    /// Of a built-in resource: subresources beyond `status` and `scale`.
    pub subresources: &'static [Subresource],
    /// Who converts a built-in resource that is served in more than one version.
    builtin_converter: Option<Converter>,
}

/// What a custom resource keeps of its definition.
#[derive(Clone, Debug)]
pub struct Crd {
    /// Being deleted: creates are refused.
    pub terminating: bool,
    /// `spec.conversion`, `None` strategy or a webhook.
    pub conversion: Value,
    /// The plug-in that converts its objects; it goes before what `conversion` says.
    pub converter: Option<Converter>,
    /// Revision of the definition as it is.
    pub since: u64,
    /// Whether the definition has all the names that it asks for.
    pub has_its_names: bool,
    /// What stands for all of the definition that decides how objects are served.
    /// Two states of a definition with the same serve the same.
    pub shape: u64,
}

/// The verbs of an ordinary resource, in discovery's order.
pub const ALL_VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
/// The order in which discovery lists the verbs of a custom resource.
pub const CRD_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

impl Resource {
    pub fn is_builtin(&self) -> bool {
        self.crd.is_none()
    }

    /// Who converts its objects.
    pub fn converter(&self) -> Option<&Converter> {
        match &self.crd {
            Some(crd) => crd.converter.as_ref(),
            None => self.builtin_converter.as_ref(),
        }
    }

    /// When an object of this revision has to be read anew: the revision of the definition, which is newer. It may be
    /// in another version, without defaults that came later, and with fields that are known no more.
    pub fn reread_since(&self, revision: u64) -> Option<u64> {
        let crd = self.crd.as_ref()?;
        (revision < crd.since).then_some(crd.since)
    }

    /// A subresource beyond `status` and `scale`.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|it| it.name == name)
    }

    /// A served version by name.
    pub fn version(&self, name: &str) -> Option<&ApiVersion> {
        self.versions.iter().find(|it| it.name == name && it.served)
    }

    /// The version in which objects are stored.
    pub fn storage_version(&self) -> &str {
        self.versions.iter().find(|it| it.storage).map_or("v1", |it| &it.name)
    }

    /// The version in which the server itself speaks of its objects: the one they are stored in, or, if that is not
    /// served, another. `None` when none is.
    pub fn spoken_version(&self) -> Option<&str> {
        let served = || self.versions.iter().filter(|it| it.served);
        let found = served().find(|it| it.storage).or_else(|| served().next());
        found.map(|it| it.name.as_str())
    }

    /// `group/version`, or the version alone for the core group.
    pub fn api_version(&self, version: &str) -> String {
        api_version(&self.group, version)
    }

    /// The schema of a version; `None` when the kind has none (nothing is pruned then).
    pub fn schema(&self, version: &str) -> Option<Arc<Schema>> {
        let it = self.versions.iter().find(|it| it.name == version)?;
        it.schema
            .get_or_init(|| {
                if self.is_builtin() {
                    crate::builtin_schemas::schema(&self.group, version, &self.kind)
                } else if it.raw_schema.is_null() {
                    None
                } else {
                    // The definition was checked when it was created; a tree that cannot be made prunes nothing.
                    Schema::from_openapi(&it.raw_schema).ok().map(Arc::new)
                }
            })
            .clone()
    }

    /// `openAPIV3Schema` of a version of a custom resource.
    pub fn raw_schema(&self, version: &str) -> &Value {
        self.versions
            .iter()
            .find(|it| it.name == version)
            .map_or(&Value::Null, |it| &it.raw_schema)
    }

    /// The verbs that discovery names.
    pub fn verbs(&self) -> Vec<&'static str> {
        if self.traits.review {
            return vec!["create"];
        }
        let all = if self.is_builtin() { ALL_VERBS } else { CRD_VERBS };
        all.into_iter()
            .filter(|it| !(self.traits.no_delete_collection && *it == "deletecollection"))
            .collect()
    }

    /// Makes the resource of a CustomResourceDefinition that was accepted.
    pub fn from_crd(crd: &Value) -> Option<Self> {
        let spec = &crd["spec"];
        let names = &crd["status"]["acceptedNames"];
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| -> Vec<String> {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            items.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect()
        };
        let group = text(spec, "group");
        let plural = text(names, "plural");
        if plural.is_empty() || !is_established(crd) {
            return None;
        }
        let mut versions: Vec<ApiVersion> = Vec::new();
        for version in spec["versions"].as_array()? {
            let scale = version["subresources"]["scale"].as_object().map(|_| {
                let scale = &version["subresources"]["scale"];
                let path = |key: &str| text(scale, key).trim_start_matches('.').to_owned();
                ScalePaths {
                    spec_replicas: path("specReplicasPath"),
                    status_replicas: path("statusReplicasPath"),
                    label_selector: path("labelSelectorPath"),
                }
            });
            let name = text(version, "name");
            let deprecation = (version["deprecated"] == true).then(|| {
                let given = text(version, "deprecationWarning");
                if given.is_empty() {
                    format!("{group}/{name} {} is deprecated", text(names, "kind"))
                } else {
                    given
                }
            });
            let selectable = version["selectableFields"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            versions.push(ApiVersion {
                served: version["served"] == true,
                storage: version["storage"] == true,
                status: version["subresources"]["status"].is_object(),
                scale,
                printer: Printer::Custom(CustomColumns::compile(&version["additionalPrinterColumns"])),
                deprecation,
                selectable: selectable
                    .iter()
                    .map(|it| text(it, "jsonPath").trim_start_matches('.').to_owned())
                    .collect(),
                raw_schema: version["schema"]["openAPIV3Schema"].clone(),
                schema: OnceLock::new(),
                name,
            });
        }
        versions.sort_by_key(|it| std::cmp::Reverse(version_priority(&it.name)));
        let traits = Traits {
            status: versions.iter().any(|it| it.status),
            scale: versions.iter().any(|it| it.scale.is_some()),
            generation: true,
            version_required: true,
            ..builtin::PLAIN
        };
        Some(Self {
            id: format!("{plural}.{group}").into(),
            versions,
            singular: text(names, "singular"),
            kind: text(names, "kind"),
            list_kind: text(names, "listKind"),
            short_names: list(&names["shortNames"]),
            categories: list(&names["categories"]),
            namespaced: spec["scope"] == "Namespaced",
            traits,
            crd: Some(Crd {
                terminating: crd["metadata"]["deletionTimestamp"].is_string(),
                conversion: spec["conversion"].clone(),
                converter: None,
                since: 0,
                has_its_names: has_its_names(crd),
                shape: shape_of([spec, names]),
            }),
            subresources: &[],
            builtin_converter: None,
            group,
            plural,
        })
    }

    /// Makes a built-in resource from its row.
    pub fn built_in(
        row: &Row,
        printer: Printer,
        subresources: &'static [Subresource],
        others: &[&str],
        deprecation: Option<&str>,
    ) -> Self {
        let version = |name: &str| ApiVersion {
            name: name.into(),
            served: true,
            storage: name == row.version,
            status: row.traits.status,
            scale: None,
            printer: printer.clone(),
            deprecation: deprecation.map(str::to_owned),
            selectable: Vec::new(),
            raw_schema: Value::Null,
            schema: OnceLock::new(),
        };
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let plugin = || Converter::Plugin(Arc::new(Autoscalers));
        Self {
            id: row.id().into(),
            group: row.group.into(),
            versions: std::iter::once(&row.version)
                .chain(others)
                .map(|it| version(it))
                .collect(),
            plural: row.plural.into(),
            singular: row.singular(),
            kind: row.kind.into(),
            list_kind: format!("{}List", row.kind),
            short_names: words(row.short_names),
            categories: words(row.categories),
            namespaced: row.namespaced,
            traits: row.traits,
            crd: None,
            subresources,
            builtin_converter: (!others.is_empty()).then(plugin),
        }
    }
}

/// Whether a default is somewhere in there; a property of that name counts too, which costs a little and harms nothing.
/// A number for values, the same as long as they are.
fn shape_of(values: [&Value; 2]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    values.iter().for_each(|it| it.to_string().hash(&mut hasher));
    hasher.finish()
}

/// Holds a definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Whether the names of a definition are accepted. One that waits for names of others is looked at again when those go.
pub fn has_its_names(value: &Value) -> bool {
    is_true(value, "NamesAccepted")
}

/// Whether a definition serves.
pub fn is_established(value: &Value) -> bool {
    is_true(value, "Established")
}

fn is_true(definition: &Value, condition: &str) -> bool {
    let mut conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|it| it["type"] == condition && it["status"] == "True")
}

/// All served resources. Cloned and swapped when a CustomResourceDefinition changes.
#[derive(Clone, Debug)]
pub struct Registry {
    /// By group in order of preference, then by plural.
    groups: Vec<(String, BTreeMap<String, Arc<Resource>>)>,
    /// Grows with every change; names the state for caches and ETags.
    pub generation: u64,
}

impl Registry {
    /// These resources, in order of preference of their groups.
    pub fn new(resources: impl IntoIterator<Item = Resource>) -> Self {
        let mut registry = Self {
            groups: Vec::new(),
            generation: 1,
        };
        for resource in resources {
            registry.insert(Arc::new(resource));
        }
        registry
    }

    /// Adds a resource or takes the place of its namesake.
    pub fn insert(&mut self, resource: Arc<Resource>) {
        self.generation += 1;
        let at = match self.groups.iter().position(|(group, _)| *group == resource.group) {
            Some(at) => at,
            None => {
                self.groups.push((resource.group.clone(), BTreeMap::new()));
                self.groups.len() - 1
            }
        };
        self.groups[at].1.insert(resource.plural.clone(), resource);
    }

    /// Takes a resource out; a group without resources goes too.
    pub fn remove(&mut self, group: &str, plural: &str) {
        self.generation += 1;
        if let Some(at) = self.groups.iter().position(|(it, _)| it == group) {
            self.groups[at].1.remove(plural);
            if self.groups[at].1.is_empty() {
                self.groups.remove(at);
            }
        }
    }

    /// The resource of a request path; `None` when the version is not served either.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let resource = self.group(group)?.get(plural)?;
        resource.version(version).map(|_| resource)
    }

    /// Resources of one group by plural.
    pub fn group(&self, group: &str) -> Option<&BTreeMap<String, Arc<Resource>>> {
        self.groups.iter().find(|(it, _)| it == group).map(|(_, it)| it)
    }

    /// Groups of which something is served, in order of preference; the core group is the empty name.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, Arc<Resource>>)> {
        let is_served = |it: &BTreeMap<String, Arc<Resource>>| it.values().any(|it| it.spoken_version().is_some());
        let served = self.groups.iter().filter(move |(_, it)| is_served(it));
        served.map(|(name, it)| (name.as_str(), it))
    }

    /// All resources.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.iter().flat_map(|(_, it)| it.values())
    }

    /// The resource with this id (`plural[.group]`).
    pub fn by_id(&self, id: &str) -> Option<&Arc<Resource>> {
        let (plural, group) = id.split_once('.').unwrap_or((id, ""));
        self.group(group)?.get(plural)
    }

    /// The resource of a kind, as owner references and manifests name it.
    pub fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = split_api_version(api_version);
        self.group(group)?
            .values()
            .find(|it| it.kind == kind && it.version(version).is_some())
    }

    /// Versions served in a group, best first.
    pub fn versions(&self, group: &str) -> Vec<String> {
        let mut versions: Vec<String> = Vec::new();
        for resource in self.group(group).into_iter().flat_map(BTreeMap::values) {
            for version in resource.versions.iter().filter(|it| it.served) {
                if !versions.contains(&version.name) {
                    versions.push(version.name.clone());
                }
            }
        }
        versions.sort_by_key(|it| std::cmp::Reverse(version_priority(it)));
        versions
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_built_in_registry_finds_by_path_id_and_kind() {
        let registry = crate::kinds::registry();
        assert_eq!(registry.find("apps", "v1", "deployments").unwrap().kind, "Deployment");
        assert_eq!(&*registry.by_kind("v1", "ConfigMap").unwrap().id, "configmaps");
        assert_eq!(registry.by_id("leases.coordination.k8s.io").unwrap().kind, "Lease");
        assert!(registry.find("apps", "v2", "deployments").is_none());
    }
}
