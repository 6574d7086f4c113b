//! An object on its way through the transformers. What kustomize remembers of it, its former names above all, are
//! annotations, as patches may see them: they are taken away at the end.
//! Upstream: api/resource and api/resmap.

use std::collections::{BTreeMap, HashSet};

use crate::{
    error::{KustomizeError, Result},
    identity::{Gvk, ObjectId},
    limits,
    node::YamlNode,
    scalar::{Scalar, Style},
    yaml_read,
};

pub(crate) const PREVIOUS_KINDS: &str = "internal.config.kubernetes.io/previousKinds";
pub(crate) const PREVIOUS_NAMES: &str = "internal.config.kubernetes.io/previousNames";
pub(crate) const PREVIOUS_NAMESPACES: &str = "internal.config.kubernetes.io/previousNamespaces";
pub(crate) const PREFIXES: &str = "internal.config.kubernetes.io/prefixes";
pub(crate) const SUFFIXES: &str = "internal.config.kubernetes.io/suffixes";
pub(crate) const ALLOW_NAME_CHANGE: &str = "internal.config.kubernetes.io/allowNameChange";
pub(crate) const ALLOW_KIND_CHANGE: &str = "internal.config.kubernetes.io/allowKindChange";
pub(crate) const GENERATOR_BEHAVIOR: &str = "internal.config.kubernetes.io/generatorBehavior";
pub(crate) const NEEDS_HASH_SUFFIX: &str = "internal.config.kubernetes.io/needsHashSuffix";
/// The annotation of objects that are for tools only and are never applied.
pub(crate) const LOCAL_CONFIG: &str = "config.kubernetes.io/local-config";
/// What annotations that others keep begin with, as far as a JSON patch must not lose them.
const INTERNAL: &str = "internal.config.kubernetes.io/";
const LEGACY: &[&str] = &[
    "config.kubernetes.io/path",
    "config.kubernetes.io/index",
    "config.k8s.io/id",
];
/// The value of an annotation that is a switch.
pub(crate) const ENABLED: &str = "enabled";

/// The annotations that are taken away at the end.
const BUILD_ANNOTATIONS: &[&str] = &[
    PREVIOUS_KINDS,
    PREVIOUS_NAMES,
    PREFIXES,
    SUFFIXES,
    PREVIOUS_NAMESPACES,
    ALLOW_NAME_CHANGE,
    ALLOW_KIND_CHANGE,
    "internal.config.kubernetes.io/refBy",
    GENERATOR_BEHAVIOR,
    NEEDS_HASH_SUFFIX,
    "internal.config.kubernetes.io/path",
    "internal.config.kubernetes.io/index",
    "internal.config.kubernetes.io/seqindent",
    "internal.config.kubernetes.io/id",
    "internal.config.kubernetes.io/annotations-migration-resource-id",
    "config.kubernetes.io/path",
    "config.kubernetes.io/index",
    "config.k8s.io/id",
    "internal.config.kubernetes.io/helm-generated",
];
/// Where kustomize says where an object is from, when it is asked to.
const ORIGINS: &[&str] = &[
    "config.kubernetes.io/origin",
    "alpha.config.kubernetes.io/transformations",
];

pub(crate) type Texts = BTreeMap<String, String>;

/// An object. One that a patch has deleted is an empty map until it is dropped.
#[derive(Clone, Debug)]
pub(crate) struct BuildObject {
    pub node: YamlNode,
}

impl BuildObject {
    pub(crate) fn name(&self) -> &str {
        self.metadata_text("name")
    }

    pub(crate) fn namespace(&self) -> &str {
        self.metadata_text("namespace")
    }

    fn metadata_text(&self, field: &str) -> &str {
        let value = self.node.get("metadata").and_then(|it| it.get(field));
        value.filter(|it| !it.is_empty()).map_or("", YamlNode::text)
    }

    pub(crate) fn kind(&self) -> &str {
        self.node.get("kind").map_or("", YamlNode::text)
    }

    pub(crate) fn gvk(&self) -> Gvk {
        Gvk::new(self.node.get("apiVersion").map_or("", YamlNode::text), self.kind())
    }

    pub(crate) fn id(&self) -> ObjectId {
        let gvk = self.gvk();
        ObjectId {
            cluster_scoped: gvk.is_cluster_scoped(),
            gvk,
            name: self.name().to_owned(),
            namespace: self.namespace().to_owned(),
        }
    }

    /// Its former identities, the first one first.
    pub(crate) fn previous_ids(&self) -> Result<Vec<ObjectId>> {
        let annotation = |name: &str| {
            self.metadata_map("annotations")
                .and_then(|it| it.get(name))
                .map(YamlNode::text)
        };
        let Some(names) = annotation(PREVIOUS_NAMES) else {
            return Ok(Vec::new());
        };
        let parts = |name: &str| {
            annotation(name)
                .unwrap_or("")
                .split(',')
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let names: Vec<_> = names.split(',').collect();
        let (namespaces, kinds) = (parts(PREVIOUS_NAMESPACES), parts(PREVIOUS_KINDS));
        if names.len() != namespaces.len() || names.len() != kinds.len() {
            return Err(KustomizeError::wrong(format!(
                "{}: the annotations {PREVIOUS_NAMES}, {PREVIOUS_NAMESPACES} and {PREVIOUS_KINDS} are \
                 kustomize's own; take them \
                 out of the file",
                self.id()
            )));
        }
        let gvk = self.gvk();
        let ids = names
            .into_iter()
            .zip(namespaces)
            .zip(kinds)
            .map(|((name, namespace), kind)| ObjectId {
                gvk: Gvk { kind, ..gvk.clone() },
                name: name.to_owned(),
                namespace,
                cluster_scoped: false,
            });
        Ok(ids.collect())
    }

    pub(crate) fn original_id(&self) -> Result<ObjectId> {
        Ok(self.previous_ids()?.into_iter().next().unwrap_or_else(|| self.id()))
    }

    /// Its former identities and the present one.
    pub(crate) fn all_ids(&self) -> Result<Vec<ObjectId>> {
        let mut ids = self.previous_ids()?;
        ids.push(self.id());
        Ok(ids)
    }

    pub(crate) fn store_previous_id(&mut self) {
        let id = self.id();
        self.append(PREVIOUS_NAMES, &id.name);
        self.append(PREVIOUS_NAMESPACES, id.effective_namespace());
        self.append(PREVIOUS_KINDS, &id.gvk.kind);
    }

    /// Adds to an annotation that is a list.
    pub(crate) fn append(&mut self, annotation: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        let mut annotations = self.annotations();
        match annotations.get_mut(annotation) {
            Some(old) => {
                old.push(',');
                old.push_str(value);
            }
            None => {
                annotations.insert(annotation.to_owned(), value.to_owned());
            }
        }
        let value = annotations.remove(annotation).unwrap_or_default();
        self.put_metadata("annotations", annotation, value);
    }

    pub(crate) fn list_annotation(&self, annotation: &str) -> Vec<String> {
        let value = self.metadata_map("annotations").and_then(|it| it.get(annotation));
        value.map_or_else(Vec::new, |it| it.text().split(',').map(str::to_owned).collect())
    }

    fn put_metadata(&mut self, field: &str, key: &str, value: String) {
        let Some(metadata) = self.metadata() else { return };
        if !matches!(metadata.get(field), Some(YamlNode::Map(_))) {
            metadata.put(field, YamlNode::empty_map());
        }
        if let Some(map) = metadata.get_mut(field) {
            map.put(key, YamlNode::string(value));
        }
    }

    // Every object is a map, so there always is one.
    fn metadata(&mut self) -> Option<&mut YamlNode> {
        if !matches!(self.node.get("metadata"), Some(YamlNode::Map(_))) {
            self.node.put("metadata", YamlNode::empty_map());
        }
        self.node.get_mut("metadata")
    }

    fn metadata_map(&self, field: &str) -> Option<&YamlNode> {
        self.node.get("metadata")?.get(field)
    }

    pub(crate) fn annotations(&self) -> Texts {
        self.metadata_map("annotations")
            .map(YamlNode::texts)
            .unwrap_or_default()
    }

    pub(crate) fn labels(&self) -> Texts {
        self.metadata_map("labels").map(YamlNode::texts).unwrap_or_default()
    }

    pub(crate) fn set_annotations(&mut self, texts: &Texts) -> Result<()> {
        self.set_metadata_map("annotations", texts)
    }

    pub(crate) fn set_labels(&mut self, texts: &Texts) -> Result<()> {
        self.set_metadata_map("labels", texts)
    }

    fn set_metadata_map(&mut self, field: &str, texts: &Texts) -> Result<()> {
        let Some(metadata) = self.metadata() else {
            return Ok(());
        };
        metadata.remove(field);
        if !texts.is_empty() {
            metadata.put(field, YamlNode::of_texts(texts)?);
        }
        Ok(())
    }

    pub(crate) fn has_annotation(&self, name: &str, value: &str) -> bool {
        self.metadata_map("annotations")
            .and_then(|it| it.get(name))
            .is_some_and(|it| it.text() == value)
    }

    pub(crate) fn enable(&mut self, annotation: &str) -> Result<()> {
        let mut annotations = self.annotations();
        annotations.insert(annotation.to_owned(), ENABLED.to_owned());
        self.set_annotations(&annotations)
    }

    pub(crate) fn set_name(&mut self, name: &str) -> Result<()> {
        self.set_metadata_text("name", name)
    }

    pub(crate) fn set_namespace(&mut self, namespace: &str) -> Result<()> {
        if namespace.is_empty() {
            if let Some(it) = self.node.get_mut("metadata") {
                it.remove("namespace");
            }
            return Ok(());
        }
        self.set_metadata_text("namespace", namespace)
    }

    fn set_metadata_text(&mut self, field: &str, text: &str) -> Result<()> {
        match self.metadata() {
            Some(metadata) => metadata.set_field(field, Scalar::untagged(text, Style::Plain)),
            None => Ok(()),
        }
    }

    pub(crate) fn set_kind(&mut self, kind: &str) -> Result<()> {
        self.node.set_field("kind", Scalar::untagged(kind, Style::Plain))
    }

    pub(crate) fn set_api_version(&mut self, version: &str) -> Result<()> {
        self.node
            .set_field("apiVersion", Scalar::untagged(version, Style::Plain))
    }

    /// Takes over labels, annotations, name and namespace of another; what both have stays as it is here.
    pub(crate) fn copy_metadata_of(&mut self, other: &BuildObject) -> Result<()> {
        let mut labels = other.labels();
        labels.extend(self.labels());
        self.set_labels(&labels)?;
        let (own, others) = (self.annotations(), other.annotations());
        let mut merged = others.clone();
        merged.extend(own.clone());
        for name in BUILD_ANNOTATIONS {
            match others.get(*name) {
                Some(value) => merged.insert((*name).to_owned(), value.clone()),
                None => merged.remove(*name),
            };
        }
        if !own.contains_key(NEEDS_HASH_SUFFIX) {
            merged.remove(NEEDS_HASH_SUFFIX);
        }
        self.set_annotations(&merged)?;
        self.set_name(other.name())?;
        self.set_namespace(other.namespace())
    }

    /// The annotations that a JSON patch must not lose.
    pub(crate) fn internal_annotations(&self) -> Texts {
        let mut annotations = self.annotations();
        annotations.retain(|name, _| name.starts_with(INTERNAL) || LEGACY.contains(&&**name));
        annotations
    }

    /// What is left for whoever applies it.
    pub(crate) fn remove_build_annotations(&mut self) -> Result<()> {
        let mut annotations = self.annotations();
        annotations.retain(|name, _| !BUILD_ANNOTATIONS.contains(&&**name) && !ORIGINS.contains(&&**name));
        self.set_annotations(&annotations)
    }

    /// An error when it is no object of Kubernetes: one has a kind and a name.
    pub(crate) fn check(&self) -> Result<()> {
        let has = |field: &str| {
            self.node
                .get(field)
                .is_some_and(|it| !it.is_empty() && !it.text().is_empty())
        };
        if !has("kind") {
            return Err(KustomizeError::wrong("an object has no `kind`"));
        }
        if self.kind().ends_with("List") || !self.name().is_empty() {
            return Ok(());
        }
        Err(KustomizeError::wrong(format!(
            "an object of kind {} has no `metadata.name`",
            self.kind()
        )))
    }
}

/// The objects of a file, those of lists behind all others.
pub(crate) fn read_resources(content: &[u8]) -> Result<Vec<BuildObject>> {
    let mut waiting: std::collections::VecDeque<YamlNode> = kept(yaml_read::documents(content)?)?.into();
    let mut found = Vec::new();
    while let Some(node) = waiting.pop_front() {
        let resource = BuildObject { node };
        let items = match resource.node.get("items") {
            Some(items) if resource.kind().ends_with("List") => items,
            _ => {
                found.push(resource);
                continue;
            }
        };
        match items {
            YamlNode::List(items) => {
                for item in items {
                    let text = item.to_json()?.to_string();
                    waiting.extend(kept(yaml_read::documents(text.as_bytes())?)?);
                }
            }
            other if other.is_null() => {}
            other => {
                return Err(KustomizeError::wrong(format!(
                    "`items` of a {} is a list, and there is {}",
                    resource.kind(),
                    other.what()
                )));
            }
        }
        if waiting.len() + found.len() > limits::RESOURCES_MAX {
            return Err(too_many());
        }
    }
    Ok(found)
}

fn kept(nodes: Vec<YamlNode>) -> Result<Vec<YamlNode>> {
    let mut kept = Vec::new();
    for node in nodes {
        if node.is_empty() {
            continue;
        }
        if !matches!(node, YamlNode::Map(_)) {
            return Err(KustomizeError::wrong(format!(
                "an object is a map with a kind and a name, and there is {}",
                node.what()
            )));
        }
        let resource = BuildObject { node };
        resource.check()?;
        kept.push(resource.node);
    }
    Ok(kept)
}

fn too_many() -> KustomizeError {
    KustomizeError::too_large(format!("at most {} objects are built", limits::RESOURCES_MAX))
}

/// The objects of a build in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resources {
    pub list: Vec<BuildObject>,
}

impl Resources {
    /// Adds objects that are not there yet.
    pub(crate) fn append(&mut self, more: Vec<BuildObject>) -> Result<()> {
        let mut known: HashSet<_> = self.list.iter().map(|it| it.id().key()).collect();
        for resource in more {
            let id = resource.id();
            if !known.insert(id.key()) {
                return Err(KustomizeError::wrong(format!(
                    "{id} is there twice; list it once, or patch it instead of writing it again"
                )));
            }
            self.list.push(resource);
        }
        if self.list.len() > limits::RESOURCES_MAX {
            return Err(too_many());
        }
        Ok(())
    }

    /// Drops what patches have deleted.
    pub(crate) fn drop_empty(&mut self) {
        self.list.retain(|it| !it.node.is_empty());
    }

    /// Where the objects are that have, or had, an identity that fits.
    pub(crate) fn by_any_id(&self, fits: impl Fn(&ObjectId) -> bool) -> Result<Vec<usize>> {
        let mut found = Vec::new();
        for (at, resource) in self.list.iter().enumerate() {
            if !resource.node.is_empty() && resource.all_ids()?.iter().any(&fits) {
                found.push(at);
            }
        }
        Ok(found)
    }

    /// The one object that has, or had, this identity.
    pub(crate) fn the_one(&self, id: &ObjectId) -> Result<usize> {
        match self.by_any_id(|it| it.same(id))?.as_slice() {
            [one] => Ok(*one),
            [] => Err(KustomizeError::wrong(format!(
                "there is no {id} to patch; compare apiVersion, kind, name and namespace with the object's"
            ))),
            _ => Err(KustomizeError::wrong(format!(
                "more than one object is or was {id}; give the patch a `target` that selects one"
            ))),
        }
    }
}
