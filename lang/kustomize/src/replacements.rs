//! Values that are copied from one object into others.
//! Upstream: api/filters/replacement and api/types/replacement.go.

use crate::{
    build::Loader,
    error::{KustomizeError, Result},
    field_path::{self, at, at_mut, lookup, matches},
    hash::{go_json, go_json_indented},
    identity::ObjectId,
    kustomization::{
        FieldOptions, ReplacementEntry, ReplacementRule, ReplacementSource, ReplacementTarget, read_replacements,
    },
    node::YamlNode,
    resource::{BuildObject, Resources},
    scalar::{Scalar, Style},
    yaml_read::{EqualKeys, first_document},
};

const NAME: &str = "metadata.name";

/// The replacements of a kustomization file, with those of files of their own; each with its field.
pub(crate) fn load<'a>(entries: &'a [ReplacementEntry], loader: &Loader) -> Result<Vec<(String, LoadedRule<'a>)>> {
    let mut found = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let field = format!("replacements[{number}]");
        if entry.path.is_empty() {
            found.push((field, LoadedRule::Inline(&entry.rule)));
            continue;
        }
        if entry.rule.source.is_some() || !entry.rule.targets.is_empty() {
            return Err(KustomizeError::wrong("it has a `path` and a replacement; keep one").in_field(&field));
        }
        let content = loader
            .load(&entry.path)
            .map_err(|it| it.in_field(&format!("{field}.path")))?;
        let rules = read_replacements(content).map_err(|it| it.in_file(&entry.path))?;
        found.extend(
            rules
                .into_iter()
                .map(|it| (field.clone(), LoadedRule::OfFile(Box::new(it)))),
        );
    }
    Ok(found)
}

pub(crate) enum LoadedRule<'a> {
    Inline(&'a ReplacementRule),
    OfFile(Box<ReplacementRule>),
}

impl std::ops::Deref for LoadedRule<'_> {
    type Target = ReplacementRule;

    fn deref(&self) -> &ReplacementRule {
        match self {
            LoadedRule::Inline(rule) => rule,
            LoadedRule::OfFile(rule) => rule,
        }
    }
}

/// Copies the value of a replacement.
pub(crate) fn apply(rule: &ReplacementRule, resources: &mut Resources) -> Result<()> {
    if rule.targets.is_empty() {
        return Err(KustomizeError::wrong("it has no `targets`"));
    }
    let value = match (&rule.source, &rule.source_value) {
        (None, None) => return Err(KustomizeError::wrong("it has no `source`")),
        (Some(_), Some(_)) => {
            return Err(KustomizeError::wrong(
                "it has both `source` and `sourceValue`; keep one",
            ));
        }
        (None, Some(text)) => YamlNode::Scalar(Scalar::untagged(text.clone(), Style::Plain)),
        (Some(source), None) => source_value(source, resources).map_err(|it| it.in_field("source"))?,
    };
    for target in &rule.targets {
        set_target(target, &value, resources)?;
    }
    resources.drop_empty();
    Ok(())
}

/// The present identity and the former ones, none of which is known to be cluster-scoped.
fn ids(resource: &BuildObject) -> Result<Vec<ObjectId>> {
    let mut ids = vec![ObjectId {
        cluster_scoped: false,
        ..resource.id()
    }];
    ids.extend(resource.previous_ids()?);
    Ok(ids)
}

fn source_value(source: &ReplacementSource, resources: &Resources) -> Result<YamlNode> {
    let wanted = ObjectId {
        gvk: source.gvk.clone(),
        name: source.name.clone(),
        namespace: source.namespace.clone(),
        cluster_scoped: false,
    };
    let mut found: Option<&BuildObject> = None;
    for resource in &resources.list {
        let fits = |it: &ObjectId| {
            (wanted.name.is_empty() || wanted.name == it.name)
                && (wanted.namespace.is_empty() || wanted.same_namespace(it))
                && it.gvk.is_selected_by(&wanted.gvk)
        };
        if ids(resource)?.iter().any(fits) && found.replace(resource).is_some() {
            return Err(KustomizeError::wrong(
                "the source fits more than one object; say more about it",
            ));
        }
    }
    let Some(resource) = found else {
        return Err(KustomizeError::wrong(
            "the source fits no object; compare its kind and name with the object's",
        ));
    };
    let path = if source.field_path.is_empty() {
        NAME
    } else {
        &source.field_path
    };
    let steps = lookup(&resource.node, &field_path::split(path))?;
    let value = steps.and_then(|it| at(&resource.node, &it)).filter(|it| !it.is_empty());
    let Some(value) = value else {
        return Err(KustomizeError::wrong(format!(
            "{} has nothing at `{path}`",
            resource.id()
        )));
    };
    part(value, &source.options)
}

/// The part of the value that the options ask for.
fn part(value: &YamlNode, options: &FieldOptions) -> Result<YamlNode> {
    if options.delimiter.is_empty() {
        return Ok(value.clone());
    }
    let YamlNode::Scalar(scalar) = value else {
        return Err(KustomizeError::wrong(format!(
            "a delimiter is for a single value, and there is {}",
            value.what()
        )));
    };
    let parts: Vec<_> = scalar.text.split(&options.delimiter).collect();
    let found = usize::try_from(options.index).ok().and_then(|it| parts.get(it));
    let Some(found) = found else {
        return Err(KustomizeError::wrong(format!(
            "`{}` has no part with the index {}",
            scalar.text, options.index
        )));
    };
    Ok(YamlNode::Scalar(Scalar {
        text: (*found).to_owned(),
        ..scalar.clone()
    }))
}

fn set_target(target: &ReplacementTarget, value: &YamlNode, resources: &mut Resources) -> Result<()> {
    let Some(select) = &target.select else {
        return Err(KustomizeError::wrong("a target has no `select`"));
    };
    let selected = select.compile()?;
    let rejected: Vec<_> = target
        .reject
        .iter()
        .map(|it| Ok((it, it.compile()?)))
        .collect::<Result<_>>()?;
    let paths: Vec<_> = match target.field_paths.as_slice() {
        [] => vec![NAME],
        paths => paths.iter().map(String::as_str).collect(),
    };
    for resource in &mut resources.list {
        if !selected.fits_labels(resource) {
            continue;
        }
        let by_labels = rejected.iter().any(|(it, compiled)| {
            !(it.labels.is_empty() && it.annotations.is_empty()) && compiled.fits_labels(resource)
        });
        let ids = ids(resource)?;
        let by_id = rejected.iter().any(|(it, compiled)| {
            let fits = |id: &ObjectId| {
                compiled.fits_gvk(&id.gvk) && compiled.fits_name(&id.name) && compiled.fits_namespace(&id.namespace)
            };
            !it.names_nothing() && ids.iter().any(fits)
        });
        let is_selected = ids.iter().any(|id| {
            selected.fits_gvk(&id.gvk) && selected.fits_name(&id.name) && selected.fits_namespace(&id.namespace)
        });
        if by_labels || by_id || !is_selected {
            continue;
        }
        let id = resource.id();
        for path in &paths {
            set_path(&mut resource.node, path, value, &target.options).map_err(|error| KustomizeError {
                message: format!("`{path}` of {id}: {}", error.message),
                ..error
            })?;
        }
        resource.node.settle_shared();
        resource.node.check_size()?;
    }
    Ok(())
}

fn set_path(node: &mut YamlNode, path: &str, value: &YamlNode, options: &FieldOptions) -> Result<()> {
    let parts = field_path::split(path);
    let created = options.create.then_some(value);
    if set_inside_text(node, &parts, value, created)? {
        return Ok(());
    }
    let found = matches(node, &parts, created)?;
    if found.places.is_empty() && !found.inside_text {
        return Err(KustomizeError::wrong(
            "there is no such field; set `options.create` to create it",
        ));
    }
    for place in &found.places {
        if let Some(field) = at_mut(node, place) {
            set(field, value, options)?;
        }
    }
    Ok(())
}

fn set(field: &mut YamlNode, value: &YamlNode, options: &FieldOptions) -> Result<()> {
    let mut text = value.text().to_owned();
    if !options.delimiter.is_empty() {
        let YamlNode::Scalar(old) = &*field else {
            return Err(KustomizeError::wrong(format!(
                "a delimiter is for a single value, and there is {}",
                field.what()
            )));
        };
        let mut parts: Vec<_> = old.text.split(&options.delimiter).collect();
        let new = value.value_text();
        match usize::try_from(options.index) {
            Err(_) => parts.insert(0, new),
            Ok(at) if at >= parts.len() => parts.push(new),
            Ok(at) => parts[at] = new,
        }
        text = parts.join(&options.delimiter);
    }
    match field {
        // The type stays: a number that is set into a string is one.
        YamlNode::Scalar(old) => {
            old.text = text;
            old.touch();
        }
        other => {
            *other = value.unshared();
            if let YamlNode::Scalar(it) = other {
                it.text = text;
            }
        }
    }
    Ok(())
}

/// Sets a value inside of a text that is a document of JSON itself; whether it is one that has the field.
fn set_inside_text(
    node: &mut YamlNode,
    parts: &[String],
    value: &YamlNode,
    created: Option<&YamlNode>,
) -> Result<bool> {
    let mut inside = None;
    for length in 1..parts.len() {
        let Ok(Some(steps)) = lookup(node, &parts[..length]) else {
            continue;
        };
        if let Some(YamlNode::Scalar(scalar)) = at(node, &steps)
            && let Ok(document) = first_document(&scalar.text, EqualKeys::Refused)
        {
            inside = Some((steps, scalar.text.clone(), document, &parts[length..]));
            break;
        }
    }
    let Some((steps, text, Some(mut document), rest)) = inside else {
        return Ok(false);
    };
    let Ok(found) = matches(&mut document, rest, created) else {
        return Ok(false);
    };
    if found.places.is_empty() {
        return Ok(false);
    }
    if !text.trim_start().starts_with(['{', '[']) {
        return Err(KustomizeError::refused(
            "the field is inside of a text of YAML, which is not changed; write the text as JSON, or \
             patch it as a whole",
        ));
    }
    for place in &found.places {
        match at_mut(&mut document, place) {
            Some(YamlNode::Scalar(old)) => value.text().clone_into(&mut old.text),
            Some(other) => *other = value.unshared(),
            None => {}
        }
    }
    // What has become no JSON is left as it was, without an error.
    if let (Ok(json), Some(YamlNode::Scalar(field))) = (document.to_json(), at_mut(node, &steps)) {
        let pretty = text.contains('\n') && text.contains("  ");
        field.text = if pretty {
            go_json_indented(&json)
        } else {
            go_json(&json)
        };
    }
    Ok(true)
}
