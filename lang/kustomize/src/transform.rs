//! The transformers of a kustomization file in kustomize's order, and the small ones themselves: labels, annotations,
//! images and replicas.
//! Upstream: api/internal/target/kusttarget_configplugin.go, api/filters/{labels,annotations,imagetag,replicacount}.

use std::collections::BTreeMap;

use regex::Regex;

use crate::{
    build::Loader,
    error::{KustomizeError, Result},
    field_spec::{Created, FieldSpec, defaults, merged, visit},
    identity::Gvk,
    kustomization::{ImageRule, Kustomization, LabelRule},
    names::{self, Affix},
    node::YamlNode,
    patches::Patches,
    replacements,
    resource::Resources,
    scalar::{Scalar, Shared, Style, Tag},
    selector::expression,
};

/// Changes the objects as the file says.
pub(crate) fn run(kustomization: &Kustomization, loader: &Loader, resources: &mut Resources) -> Result<()> {
    let all = |resources: &Resources| loader.cost.steps(resources.list.len() + 1);
    let patches = Patches::load(kustomization, loader)?;
    let label_rules = label_rules(kustomization)?;
    let replacements = replacements::load(&kustomization.replacements, loader)?;

    patches.apply_merge_and_any(resources, loader.cost)?;
    if !kustomization.namespace.is_empty() {
        all(resources)?;
        names::set_namespace(resources, &kustomization.namespace).map_err(|it| it.in_field("namespace"))?;
    }
    for (field, affix, text) in [
        ("namePrefix", Affix::Prefix, &kustomization.name_prefix),
        ("nameSuffix", Affix::Suffix, &kustomization.name_suffix),
    ] {
        if !text.is_empty() {
            all(resources)?;
            names::add_affix(resources, affix, text).map_err(|it| it.in_field(field))?;
        }
    }
    for (field, pairs, specs) in &label_rules {
        loader
            .cost
            .steps((resources.list.len() + 1).saturating_mul(pairs.len() + 1))?;
        set_texts(resources, pairs, specs).map_err(|it| it.in_field(field))?;
    }
    let annotations = &kustomization.common_annotations;
    loader
        .cost
        .steps((resources.list.len() + 1).saturating_mul(annotations.len() + 1))?;
    set_texts(resources, annotations, &defaults().common_annotations).map_err(|it| it.in_field("commonAnnotations"))?;
    patches.apply_json(resources, loader.cost)?;
    for (at, (name, count)) in kustomization.replicas.iter().enumerate() {
        all(resources)?;
        set_replicas(resources, name, *count).map_err(|it| it.in_field(&format!("replicas[{at}]")))?;
    }
    for (at, rule) in kustomization.images.iter().enumerate() {
        all(resources)?;
        set_images(resources, rule).map_err(|it| it.in_field(&format!("images[{at}]")))?;
    }
    for (field, rule) in &replacements {
        loader
            .cost
            .steps((resources.list.len() + 1).saturating_mul(rule.targets.len() + 1))?;
        replacements::apply(rule, resources).map_err(|it| it.in_field(field))?;
    }
    for resource in &resources.list {
        resource.node.check_size()?;
    }
    Ok(())
}

type LabelSpecs = (String, BTreeMap<String, String>, Vec<FieldSpec>);

fn label_rules(kustomization: &Kustomization) -> Result<Vec<LabelSpecs>> {
    let mut rules = Vec::new();
    for (at, rule) in kustomization.labels.iter().enumerate() {
        let field = format!("labels[{at}]");
        let specs = label_fields(rule).map_err(|it| it.in_field(&format!("{field}.fields")))?;
        rules.push((field, rule.pairs.clone(), specs));
    }
    let common = kustomization.common_labels.clone();
    rules.push(("commonLabels".to_owned(), common, defaults().common_labels.clone()));
    Ok(rules)
}

fn label_fields(rule: &LabelRule) -> Result<Vec<FieldSpec>> {
    let own = rule.fields.clone();
    if rule.include_selectors {
        return merged(own, &defaults().common_labels);
    }
    let with_templates = if rule.include_templates {
        merged(own, &defaults().template_labels)?
    } else {
        own
    };
    let on_objects = FieldSpec {
        gvk: Gvk::default(),
        path: "metadata/labels".to_owned(),
        create: true,
    };
    merged(with_templates, &[on_objects])
}

/// Sets labels or annotations.
fn set_texts(resources: &mut Resources, texts: &BTreeMap<String, String>, specs: &[FieldSpec]) -> Result<()> {
    for resource in &mut resources.list {
        for (key, value) in texts {
            let mut text = Scalar::string(value.clone());
            text.shared = Some(Shared::new());
            for spec in specs {
                visit(resource, spec, Created::Map, &mut |node| {
                    // All of them are written as the last one was that has been there.
                    if let Some(YamlNode::Scalar(old)) = node.get(key).filter(|it| !it.is_null()) {
                        text.style = old.style;
                    }
                    node.set_field(key, text.clone())
                })?;
            }
            resource.node.style_shared(&text);
            resource.node.settle_shared();
        }
    }
    Ok(())
}

fn set_replicas(resources: &mut Resources, name: &str, count: i64) -> Result<()> {
    let mut found = false;
    for spec in &defaults().replicas {
        for at in resources.by_any_id(|id| id.name == name && id.gvk.is_selected_by(&spec.gvk))? {
            found = true;
            visit(&mut resources.list[at], spec, Created::Scalar(Tag::Int), &mut |node| {
                node.overwrite(Scalar::tagged(count.to_string(), Tag::Int))
            })?;
        }
    }
    if found {
        return Ok(());
    }
    Err(KustomizeError::wrong(format!(
        "there is no Deployment, ReplicaSet, ReplicationController or StatefulSet `{name}`; use the name \
         without prefix and suffix"
    )))
}

fn set_images(resources: &mut Resources, rule: &ImageRule) -> Result<()> {
    // The name is part of a regular expression, as upstream has it: a dot fits everything.
    let fits = expression(&format!(
        "^{}(:[a-zA-Z0-9_.{{}}-]*)?(@sha256:[a-zA-Z0-9_.{{}}-]*)?$",
        rule.name
    ))?;
    for resource in &mut resources.list {
        if resource.kind() == "CustomResourceDefinition" {
            continue;
        }
        set_in_containers(&mut resource.node, rule, &fits).map_err(|error| KustomizeError {
            message: format!("{}: {}", resource.id(), error.message),
            ..error
        })?;
        for spec in &defaults().images {
            visit(resource, spec, Created::Nothing, &mut |node| {
                set_image(node, rule, &fits)
            })?;
        }
    }
    Ok(())
}

/// Wherever a list is called `containers` or `initContainers`, its items have images.
fn set_in_containers(node: &mut YamlNode, rule: &ImageRule, fits: &Regex) -> Result<()> {
    match node {
        YamlNode::Scalar(_) => Ok(()),
        YamlNode::List(items) => items.iter_mut().try_for_each(|it| set_in_containers(it, rule, fits)),
        YamlNode::Map(fields) => {
            for (name, value) in fields {
                set_in_containers(value, rule, fits)?;
                let YamlNode::List(items) = value else { continue };
                if !matches!(name.as_str(), "containers" | "initContainers") {
                    continue;
                }
                for item in items {
                    match item {
                        it if it.is_null() => {}
                        YamlNode::Map(_) => {
                            if let Some(image) = item.get_mut("image") {
                                set_image(image, rule, fits)?;
                            }
                        }
                        it => {
                            return Err(KustomizeError::wrong(format!(
                                "an item of `{name}` is a map with an image, and there is {}",
                                it.what()
                            )));
                        }
                    }
                }
            }
            Ok(())
        }
    }
}

fn set_image(node: &mut YamlNode, rule: &ImageRule, fits: &Regex) -> Result<()> {
    let YamlNode::Scalar(old) = node else {
        return Err(KustomizeError::wrong(format!(
            "an image is a single value, and there is {}",
            node.what()
        )));
    };
    if !fits.is_match(&old.text) {
        return Ok(());
    }
    let (name, mut tag, mut digest) = split_image(&old.text);
    let mut image = if rule.new_name.is_empty() { name } else { &rule.new_name }.to_owned();
    match (rule.new_tag.as_str(), rule.digest.as_str()) {
        ("", "") if rule.tag_suffix.is_empty() => {}
        ("", "") => {
            tag.push_str(&rule.tag_suffix);
            digest = String::new();
        }
        (new_tag, new_digest) => {
            tag = new_tag.to_owned();
            digest = new_digest.to_owned();
        }
    }
    if !tag.is_empty() {
        image.push(':');
        image.push_str(&tag);
    }
    if !digest.is_empty() {
        image.push('@');
        image.push_str(&digest);
    }
    node.overwrite(Scalar::untagged(image, Style::Plain))
}

/// Name, tag and digest. A colon in front of the first slash belongs to a port.
fn split_image(image: &str) -> (&str, String, String) {
    let from = image.find('/').filter(|at| *at > 0).unwrap_or(0);
    let (at, colon) = (image[from..].find('@'), image[from..].find(':'));
    let behind = |text: &str, mark: char| text.strip_prefix(mark).unwrap_or(text).to_owned();
    match (at.map(|it| it + from), colon.map(|it| it + from)) {
        (None, None) => (image, String::new(), String::new()),
        (Some(at), colon) if colon.is_none_or(|colon| at < colon) => {
            (&image[..at], String::new(), behind(&image[at..], '@'))
        }
        (Some(at), Some(colon)) => (
            &image[..colon],
            behind(&image[colon..at], ':'),
            behind(&image[at..], '@'),
        ),
        (_, Some(colon)) => (&image[..colon], behind(&image[colon..], ':'), String::new()),
        (Some(at), None) => (&image[..at], String::new(), behind(&image[at..], '@')),
    }
}
