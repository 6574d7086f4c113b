//! The names by which objects refer to each other, after objects have got other names.
//! Upstream: api/filters/nameref and api/internal/accumulator/namereferencetransformer.go.

use std::collections::{HashMap, HashSet};

use crate::{
    error::{KustomizeError, Result},
    field_spec::{Created, FieldSpec, defaults, visit},
    identity::{Gvk, ObjectId},
    node::YamlNode,
    resource::{PREFIXES, Resources, SUFFIXES},
    scalar::{Scalar, Style},
};

/// What may be referred to.
struct Candidate {
    id: ObjectId,
    previous: Vec<ObjectId>,
    original_namespace: String,
    prefixes: Vec<String>,
    suffixes: Vec<String>,
}

struct Candidates {
    all: Vec<Candidate>,
    /// By former names. What never had another name needs no correction.
    by_name: HashMap<String, Vec<usize>>,
}

/// Corrects the references of all objects.
pub(crate) fn fix(resources: &mut Resources) -> Result<()> {
    let mut candidates = Candidates {
        all: Vec::new(),
        by_name: HashMap::new(),
    };
    for (at, resource) in resources.list.iter().enumerate() {
        let (id, previous) = (resource.id(), resource.previous_ids()?);
        let original = previous.first().unwrap_or(&id);
        let names: HashSet<_> = previous.iter().map(|it| it.name.clone()).collect();
        for name in names {
            candidates.by_name.entry(name).or_default().push(at);
        }
        candidates.all.push(Candidate {
            original_namespace: original.effective_namespace().to_owned(),
            prefixes: resource.list_annotation(PREFIXES),
            suffixes: resource.list_annotation(SUFFIXES),
            previous,
            id,
        });
    }
    for at in 0..resources.list.len() {
        let resource = &mut resources.list[at];
        let original = resource.original_id()?;
        let referrer = Referrer {
            candidates: &candidates,
            it: &candidates.all[at],
            subject_namespaces: subject_namespaces(&resource.node, &candidates.all[at].id)?,
            role: role(&resource.node),
        };
        for reference in &defaults().references {
            for spec in &reference.fields {
                if !original.gvk.is_selected_by(&spec.gvk) {
                    continue;
                }
                let everywhere = FieldSpec {
                    gvk: Gvk::default(),
                    ..spec.clone()
                };
                visit(resource, &everywhere, Created::Nothing, &mut |node| {
                    referrer.set(node, &reference.target, &spec.path)
                })?;
            }
        }
    }
    Ok(())
}

/// The namespaces of the service accounts that a RoleBinding names.
fn subject_namespaces(node: &YamlNode, id: &ObjectId) -> Result<HashSet<String>> {
    let mut found = HashSet::new();
    if id.gvk.kind != "RoleBinding" {
        return Ok(found);
    }
    let Some(YamlNode::List(subjects)) = node.get("subjects") else {
        return Ok(found);
    };
    for subject in subjects {
        if !matches!(subject, YamlNode::Map(_)) {
            return Err(KustomizeError::wrong(format!(
                "{id}: a subject is a map, and there is {}",
                subject.what()
            )));
        }
        let Some(namespace) = subject.get("namespace") else {
            continue;
        };
        if subject.get("kind").is_none_or(|it| it.text() != "ServiceAccount") {
            continue;
        }
        match namespace.to_json()? {
            serde_json::Value::String(text) => found.insert(text),
            _ => {
                return Err(KustomizeError::wrong(format!(
                    "{id}: the namespace of a subject is no string; set it, or leave it out"
                )));
            }
        };
    }
    Ok(found)
}

/// The kind that a binding's `roleRef` names.
fn role(node: &YamlNode) -> Option<Gvk> {
    let reference = node.get("roleRef")?;
    Some(Gvk {
        group: reference.get("apiGroup")?.text().to_owned(),
        version: String::new(),
        kind: reference.get("kind")?.text().to_owned(),
    })
}

struct Referrer<'a> {
    candidates: &'a Candidates,
    it: &'a Candidate,
    subject_namespaces: HashSet<String>,
    role: Option<Gvk>,
}

impl Referrer<'_> {
    fn set(&self, node: &mut YamlNode, target: &Gvk, path: &str) -> Result<()> {
        match node {
            it if it.is_null() => Ok(()),
            YamlNode::Scalar(_) => self.set_name(node, target, path),
            YamlNode::Map(_) => self.set_name_and_namespace(node, target, path),
            YamlNode::List(items) => items.iter_mut().try_for_each(|item| match item {
                it if it.is_null() => Ok(()),
                YamlNode::Scalar(_) => self.set_name(item, target, path),
                YamlNode::Map(_) => self.set_name_and_namespace(item, target, path),
                YamlNode::List(_) => Err(KustomizeError::wrong(
                    "a name or a map with a name is expected, and there is a list",
                )),
            }),
        }
    }

    fn set_name(&self, node: &mut YamlNode, target: &Gvk, path: &str) -> Result<()> {
        let same = |a: &ObjectId, b: &ObjectId| a.name == b.name;
        match self.referred(node.text(), None, target, path, same)? {
            Some(it) if it.name != node.text() => node.overwrite(Scalar::untagged(it.name.clone(), Style::Plain)),
            _ => Ok(()),
        }
    }

    fn set_name_and_namespace(&self, node: &mut YamlNode, target: &Gvk, path: &str) -> Result<()> {
        let Some(name) = node.get("name") else {
            return Err(KustomizeError::wrong("a map with the field `name` is expected"));
        };
        let name = name.text().to_owned();
        let namespace = node.get("namespace").map(|it| it.text().to_owned());
        let same = |a: &ObjectId, b: &ObjectId| a.name == b.name && a.namespace == b.namespace;
        let Some(it) = self.referred(&name, namespace.as_deref(), target, path, same)? else {
            return Ok(());
        };
        if it.namespace.is_empty() {
            if it.name != name {
                node.set_field("name", Scalar::untagged(it.name.clone(), Style::Plain))?;
            }
            return Ok(());
        }
        node.set_field("name", Scalar::untagged(it.name.clone(), Style::Plain))?;
        node.set_field("namespace", Scalar::untagged(it.namespace.clone(), Style::Plain))
    }

    /// The object that is referred to, if it is one of those that are built.
    fn referred(
        &self,
        name: &str,
        namespace: Option<&str>,
        target: &Gvk,
        path: &str,
        same: impl Fn(&ObjectId, &ObjectId) -> bool,
    ) -> Result<Option<&ObjectId>> {
        let Some(named) = self.candidates.by_name.get(name) else {
            return Ok(None);
        };
        let reachable = |it: &&Candidate| self.reaches(it);
        let mut found: Vec<&Candidate> = named
            .iter()
            .map(|at| &self.candidates.all[*at])
            .filter(reachable)
            .collect();
        if let Some(namespace) = namespace {
            // The namespace is the former one if anything was in it, and else the present one.
            let all = || self.candidates.all.iter().filter(reachable);
            let was_in = |it: &Candidate| it.original_namespace == namespace;
            let is_in = |it: &Candidate| it.id.effective_namespace() == namespace;
            if namespace == crate::identity::NO_NAMESPACE {
                found.clear();
            } else if all().any(was_in) {
                found.retain(|it| was_in(it));
            } else {
                found.retain(|it| is_in(it));
            }
        }
        let had_kind = |it: &Candidate, gvk: &Gvk| it.previous.iter().any(|id| id.gvk.is_selected_by(gvk));
        found.retain(|it| had_kind(it, target));
        if path.ends_with("roleRef/name")
            && let Some(role) = &self.role
        {
            found.retain(|it| had_kind(it, role));
        }
        if !self.it.id.cluster_scoped {
            found.retain(|it| {
                it.id.cluster_scoped || it.id.gvk.kind == "ServiceAccount" || self.it.id.same_namespace(&it.id)
            });
        }
        if found.len() > 1 {
            found.retain(|it| self.same_affixes(it, true));
            if found.len() > 1 {
                found.retain(|it| self.same_affixes(it, false));
            }
        }
        match found.as_slice() {
            [] => Ok(None),
            [first, rest @ ..] if rest.iter().all(|it| same(&first.id, &it.id)) => Ok(Some(&first.id)),
            several => {
                let ids: Vec<_> = several.iter().map(|it| it.id.to_string()).collect();
                Err(KustomizeError::wrong(format!(
                    "`{name}` may be one of several: {}; give them different names",
                    ids.join(", ")
                )))
            }
        }
    }

    fn reaches(&self, other: &Candidate) -> bool {
        self.it.id.cluster_scoped
            || other.id.cluster_scoped
            || other.id.same_namespace(&self.it.id)
            || self.subject_namespaces.contains(&other.id.namespace)
    }

    /// Whether both have got the same prefixes and suffixes last. With `lenient`, none fit all.
    fn same_affixes(&self, other: &Candidate, lenient: bool) -> bool {
        let same = |a: &[String], b: &[String]| {
            if a.is_empty() || b.is_empty() {
                return lenient || a.len() == b.len();
            }
            a.iter().rev().zip(b.iter().rev()).all(|(a, b)| a == b)
        };
        same(&self.it.prefixes, &other.prefixes) && same(&self.it.suffixes, &other.suffixes)
    }
}
