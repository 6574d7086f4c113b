//! Namespaces, name prefixes and name suffixes.
//! Upstream: api/internal/builtins/{Namespace,Prefix,Suffix}Transformer.go and api/filters/namespace.

use std::collections::HashMap;

use crate::{
    error::{KustomizeError, Result},
    field_spec::{Created, FieldSpec, defaults, visit},
    identity::Gvk,
    node::YamlNode,
    resource::{BuildObject, PREFIXES, Resources, SUFFIXES},
    scalar::{Scalar, Style, Tag},
};

/// Moves all objects into a namespace.
pub(crate) fn set_namespace(resources: &mut Resources, namespace: &str) -> Result<()> {
    let mut count: HashMap<_, usize> = HashMap::new();
    for resource in &resources.list {
        *count.entry(resource.id().key()).or_default() += 1;
    }
    for resource in &mut resources.list {
        if let Some(it) = count.get_mut(&resource.id().key()) {
            *it -= 1;
        }
        resource.store_previous_id();
        move_to(resource, namespace)?;
        let same = count.entry(resource.id().key()).or_default();
        *same += 1;
        if *same > 1 {
            return Err(KustomizeError::wrong(format!(
                "{} is there twice once everything is in the namespace {namespace}; rename one of them",
                resource.id()
            )));
        }
    }
    Ok(())
}

fn move_to(resource: &mut BuildObject, namespace: &str) -> Result<()> {
    let gvk = resource.gvk();
    let mut set = |node: &mut YamlNode| node.overwrite(Scalar::string(namespace));
    if !gvk.is_cluster_scoped() {
        let field = FieldSpec {
            gvk: Gvk::default(),
            path: "metadata/namespace".to_owned(),
            create: true,
        };
        visit(resource, &field, Created::Scalar(Tag::Str), &mut set)?;
    }
    if matches!(gvk.kind.as_str(), "RoleBinding" | "ClusterRoleBinding") {
        let id = resource.id();
        match resource.node.get_mut("subjects") {
            Some(YamlNode::List(subjects)) => {
                for subject in subjects {
                    set_subject(subject, namespace)?;
                }
            }
            Some(it) if !it.is_null() => {
                return Err(KustomizeError::wrong(format!(
                    "`subjects` of {} is {}, and no list",
                    id,
                    it.what()
                )));
            }
            _ => {}
        }
    }
    let is_core = resource.node.get("apiVersion").is_some_and(|it| it.text() == "v1");
    for spec in &defaults().namespace {
        // Only Kubernetes' own Namespace is named so.
        if is_core || spec.path != "metadata/name" {
            visit(resource, spec, Created::Scalar(Tag::Str), &mut set)?;
        }
    }
    Ok(())
}

// Only the default service account is in the namespace of whoever names it; references to others are corrected later.
fn set_subject(subject: &mut YamlNode, namespace: &str) -> Result<()> {
    let is_default = match subject {
        it if it.is_null() => return Ok(()),
        YamlNode::Map(_) => match subject.get("name") {
            Some(YamlNode::Scalar(name)) => !name.is_null() && name.text == "default",
            Some(it) => return Err(KustomizeError::wrong(format!("the name of a subject is {}", it.what()))),
            None => false,
        },
        it => {
            return Err(KustomizeError::wrong(format!(
                "a subject is a map, and there is {}",
                it.what()
            )));
        }
    };
    if is_default {
        subject.set_field("namespace", Scalar::string(namespace))?;
    }
    Ok(())
}

/// Which end of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Affix {
    Prefix,
    Suffix,
}

/// Adds to the names of all objects whose names are their owner's to choose.
pub(crate) fn add_affix(resources: &mut Resources, affix: Affix, text: &str) -> Result<()> {
    let field = FieldSpec {
        gvk: Gvk::default(),
        path: "metadata/name".to_owned(),
        create: false,
    };
    for resource in &mut resources.list {
        let gvk = resource.original_id()?.gvk;
        let is_fixed = match gvk.kind.as_str() {
            "CustomResourceDefinition" | "Namespace" => true,
            "APIService" => gvk.group == "apiregistration.k8s.io",
            _ => false,
        };
        if is_fixed {
            continue;
        }
        resource.append(if affix == Affix::Prefix { PREFIXES } else { SUFFIXES }, text);
        resource.store_previous_id();
        visit(resource, &field, Created::Nothing, &mut |node| {
            let name = match affix {
                Affix::Prefix => format!("{text}{}", node.text()),
                Affix::Suffix => format!("{}{text}", node.text()),
            };
            node.overwrite(Scalar::untagged(name, Style::Plain))
        })?;
    }
    Ok(())
}
