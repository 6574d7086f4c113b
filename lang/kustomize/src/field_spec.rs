//! Which fields of which kinds a transformer changes, and the walk to them.
//! Upstream: api/types/fieldspec.go, api/filters/fieldspec, and the default configuration.

use std::sync::OnceLock;

use crate::{
    error::{KustomizeError, Result},
    identity::Gvk,
    node::YamlNode,
    resource::BuildObject,
    scalar::{Scalar, Tag},
};

const TABLE: &str = include_str!("field_specs.txt");

/// A field of the kinds that fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldSpec {
    pub gvk: Gvk,
    pub path: String,
    /// Whether it is created where it is missing.
    pub create: bool,
}

/// The fields in which objects of a kind are named.
#[derive(Clone, Debug)]
pub(crate) struct NameReference {
    pub target: Gvk,
    pub fields: Vec<FieldSpec>,
}

/// What kustomize knows without being told.
#[derive(Debug, Default)]
pub(crate) struct DefaultFields {
    pub references: Vec<NameReference>,
    pub common_labels: Vec<FieldSpec>,
    pub template_labels: Vec<FieldSpec>,
    pub common_annotations: Vec<FieldSpec>,
    pub images: Vec<FieldSpec>,
    pub namespace: Vec<FieldSpec>,
    pub replicas: Vec<FieldSpec>,
}

/// The default configuration.
pub(crate) fn defaults() -> &'static DefaultFields {
    static DEFAULTS: OnceLock<DefaultFields> = OnceLock::new();
    DEFAULTS.get_or_init(|| read(TABLE))
}

fn read(table: &str) -> DefaultFields {
    let mut fields = DefaultFields::default();
    let mut section = "";
    for line in table.lines().filter(|it| !it.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            section = name;
            if let Some(target) = name.strip_prefix("reference ") {
                fields.references.push(NameReference {
                    target: gvk(target),
                    fields: Vec::new(),
                });
            }
            continue;
        }
        let mut words = line.split(' ');
        let spec = FieldSpec {
            gvk: gvk(words.next().unwrap_or_default()),
            path: words.next().unwrap_or_default().to_owned(),
            create: words.next().is_some(),
        };
        match section {
            "commonLabels" => fields.common_labels.push(spec),
            "templateLabels" => fields.template_labels.push(spec),
            "commonAnnotations" => fields.common_annotations.push(spec),
            "images" => fields.images.push(spec),
            "namespace" => fields.namespace.push(spec),
            "replicas" => fields.replicas.push(spec),
            _ => {
                if let Some(reference) = fields.references.last_mut() {
                    reference.fields.push(spec);
                }
            }
        }
    }
    fields
}

// A group may have a slash itself, by a mistake of upstream's that makes its line fit nothing.
fn gvk(text: &str) -> Gvk {
    let mut parts = text
        .rsplitn(3, '/')
        .map(|it| if it == "*" { "" } else { it }.to_owned());
    let kind = parts.next().unwrap_or_default();
    let version = parts.next().unwrap_or_default();
    Gvk {
        group: parts.next().unwrap_or_default(),
        version,
        kind,
    }
}

/// Adds fields to others that are not among them.
pub(crate) fn merged(mut fields: Vec<FieldSpec>, more: &[FieldSpec]) -> Result<Vec<FieldSpec>> {
    for spec in more {
        match fields
            .iter()
            .find(|it| it.gvk.is_selected_by(&spec.gvk) && it.path == spec.path)
        {
            None => fields.push(spec.clone()),
            Some(old) if old.create == spec.create => {}
            Some(old) => {
                return Err(KustomizeError::wrong(format!(
                    "the field `{}` of {} is one of kustomize's own, whose `create` is {}; leave yours out",
                    old.path, spec.gvk, spec.create
                )));
            }
        }
    }
    Ok(fields)
}

/// What is created at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Created {
    Nothing,
    Scalar(Tag),
    Map,
}

/// Calls `set` with every value that a field leads to.
pub(crate) fn visit(
    resource: &mut BuildObject,
    spec: &FieldSpec,
    created: Created,
    set: &mut dyn FnMut(&mut YamlNode) -> Result<()>,
) -> Result<()> {
    let it = resource.gvk();
    if !it.is_selected_by(&spec.gvk) {
        return Ok(());
    }
    let path = split_path(&spec.path, '/');
    let created = if spec.create { created } else { Created::Nothing };
    match walk(&mut resource.node, &path, created, set) {
        Ok(()) => Ok(()),
        Err(error) => Err(KustomizeError {
            message: format!("the field `{}` of {}: {}", spec.path, resource.id(), error.message),
            ..error
        }),
    }
}

fn walk(
    node: &mut YamlNode,
    path: &[String],
    created: Created,
    set: &mut dyn FnMut(&mut YamlNode) -> Result<()>,
) -> Result<()> {
    let Some(part) = path.first() else {
        return set(node);
    };
    match node {
        it if it.is_null() => return Ok(()),
        YamlNode::List(items) => return items.iter_mut().try_for_each(|it| walk(it, path, created, set)),
        YamlNode::Map(_) => {}
        YamlNode::Scalar(_) => {
            return Err(KustomizeError::wrong(format!(
                "a map or a list with `{part}` is expected, and there is a single value"
            )));
        }
    }
    let name = part.strip_suffix("[]").unwrap_or(part).trim();
    let is_list = part.ends_with("[]");
    if name.is_empty() || name == "-" || name == "*" || name.starts_with('[') || name.parse::<i64>().is_ok() {
        return Err(KustomizeError::wrong(format!(
            "`{part}` names no field of a map; write the names of fields with slashes"
        )));
    }
    // What is there when nothing was, or null.
    let kind = match created {
        Created::Nothing => None,
        _ if is_list => None,
        Created::Scalar(tag) if path.len() == 1 => Some(YamlNode::Scalar(Scalar::tagged("", tag))),
        _ => Some(YamlNode::empty_map()),
    };
    let of_null = if is_list {
        Some(YamlNode::List(Vec::new()))
    } else {
        kind.clone()
    };
    if node.get(name).is_none() {
        match kind {
            Some(kind) => node.put(name, kind),
            None => return Ok(()),
        }
    }
    let Some(field) = node.get_mut(name) else {
        return Ok(());
    };
    if field.is_null()
        && let Some(kind) = of_null
    {
        *field = kind;
    }
    walk(field, &path[1..], created, set)
}

/// A path at its separators, except where a backslash is in front of them.
pub(crate) fn split_path(path: &str, separator: char) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let path = match path.strip_prefix(separator) {
        Some(rest) => rest,
        None => path,
    };
    for part in path.split(separator) {
        match parts.last_mut() {
            Some(last) if last.ends_with('\\') => {
                last.pop();
                last.push(separator);
                last.push_str(part);
            }
            _ => parts.push(part.to_owned()),
        }
    }
    parts
}
