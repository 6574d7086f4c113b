//! Patches, and the objects that they are for.
//! Upstream: api/internal/builtins/Patch*Transformer.go, and `ApplySmPatch` of api/resmap and api/resource.

use crate::{
    build::Loader,
    error::{KustomizeError, Result},
    json_patch::JsonPatch,
    kustomization::{Kustomization, PatchRule},
    limits::Cost,
    merge_patch,
    node::{YamlNode, with_floats},
    resource::{ALLOW_KIND_CHANGE, ALLOW_NAME_CHANGE, BuildObject, ENABLED, Resources, read_resources},
    selector::ObjectSelector,
};

/// The patches of a kustomization file, read.
pub(crate) struct Patches {
    /// Of `patchesStrategicMerge`.
    merge: Vec<BuildObject>,
    /// Of `patches`, each with its field.
    any: Vec<(String, AnyPatch)>,
    /// Of `patchesJson6902`, each with its field.
    json: Vec<(String, ObjectSelector, JsonPatch)>,
}

enum AnyPatch {
    Merge(Vec<BuildObject>, Option<ObjectSelector>),
    Json(JsonPatch, Option<ObjectSelector>),
}

impl Patches {
    pub(crate) fn load(kustomization: &Kustomization, loader: &Loader) -> Result<Patches> {
        let mut merge = Vec::new();
        for (at, entry) in kustomization.patches_strategic_merge.iter().enumerate() {
            let field = format!("patchesStrategicMerge[{at}]");
            merge.extend(merge_patches(entry, loader).map_err(|it| it.in_field(&field))?);
        }
        if merge.is_empty() && !kustomization.patches_strategic_merge.is_empty() {
            return Err(KustomizeError::wrong("the patches are empty").in_field("patchesStrategicMerge"));
        }
        let mut any = Vec::new();
        for (at, rule) in kustomization.patches.iter().enumerate() {
            let field = format!("patches[{at}]");
            let patch = any_patch(rule, loader).map_err(|it| it.in_field(&field))?;
            any.extend(patch.map(|it| (field, it)));
        }
        let mut json = Vec::new();
        for (at, rule) in kustomization.patches_json_6902.iter().enumerate() {
            let field = format!("patchesJson6902[{at}]");
            let (selector, patch) = json_patch(rule, loader).map_err(|it| it.in_field(&field))?;
            json.push((field, selector, patch));
        }
        Ok(Patches { merge, any, json })
    }

    /// Applies those of `patchesStrategicMerge`, then those of `patches`.
    pub(crate) fn apply_merge_and_any(&self, resources: &mut Resources, cost: &Cost) -> Result<()> {
        for patch in &self.merge {
            cost.steps(resources.list.len() + 1)?;
            apply_merge(resources, patch).map_err(|it| it.in_field("patchesStrategicMerge"))?;
        }
        resources.drop_empty();
        for (field, patch) in &self.any {
            cost.steps(resources.list.len() + 1)?;
            apply_any(patch, resources, cost).map_err(|it| it.in_field(field))?;
            resources.drop_empty();
        }
        Ok(())
    }

    /// Applies those of `patchesJson6902`.
    pub(crate) fn apply_json(&self, resources: &mut Resources, cost: &Cost) -> Result<()> {
        for (field, selector, patch) in &self.json {
            cost.steps(resources.list.len() + 1)?;
            for at in selected(resources, selector).map_err(|it| it.in_field(field))? {
                apply_json(&mut resources.list[at], patch).map_err(|it| it.in_field(field))?;
            }
            resources.drop_empty();
        }
        Ok(())
    }
}

// An entry is the patch itself, or the path of its file.
fn merge_patches(entry: &str, loader: &Loader) -> Result<Vec<BuildObject>> {
    match read_resources(entry.as_bytes()) {
        Ok(patches) => Ok(patches),
        Err(error) if entry.contains('\n') => Err(error),
        Err(_) => read_resources(loader.load(entry)?).map_err(|it| it.in_file(entry)),
    }
}

fn any_patch(rule: &PatchRule, loader: &Loader) -> Result<Option<AnyPatch>> {
    let inline = rule.patch.trim();
    let text = match (inline, rule.path.as_str()) {
        ("", "") => return Err(KustomizeError::wrong("it has neither `patch` nor `path`; set one")),
        (_, path) if !inline.is_empty() && !path.is_empty() => {
            return Err(KustomizeError::wrong("it has both `patch` and `path`; keep one"));
        }
        ("", path) => {
            let content = loader.load(path)?;
            std::str::from_utf8(content).map_err(|_| KustomizeError::wrong("the patch is not UTF-8").in_file(path))?
        }
        (inline, _) => inline,
    };
    let (merge, json) = (read_resources(text.as_bytes()), JsonPatch::parse(text));
    match (merge, json) {
        (Err(merge), Err(json)) => Err(KustomizeError {
            message: format!(
                "it is neither a strategic merge patch ({}) nor a JSON patch ({})",
                merge.message, json.message
            ),
            ..merge
        }
        .in_file(&rule.path)),
        (Ok(patches), _) if patches.is_empty() => Ok(None),
        (Ok(mut patches), _) => {
            for patch in &mut patches {
                if rule.allow_name_change {
                    patch.enable(ALLOW_NAME_CHANGE)?;
                }
                if rule.allow_kind_change {
                    patch.enable(ALLOW_KIND_CHANGE)?;
                }
            }
            if rule.target.is_some() && patches.len() > 1 {
                return Err(KustomizeError::wrong(
                    "it has a `target` and more than one patch; make an entry of each patch",
                ));
            }
            Ok(Some(AnyPatch::Merge(patches, rule.target.clone())))
        }
        (Err(_), Ok(patch)) => Ok(Some(AnyPatch::Json(patch, rule.target.clone()))),
    }
}

fn json_patch(rule: &PatchRule, loader: &Loader) -> Result<(ObjectSelector, JsonPatch)> {
    let selector = rule.target.clone().unwrap_or_default();
    if selector.name.is_empty() {
        return Err(KustomizeError::wrong("it has no `target` with a `name`"));
    }
    let text = match (rule.patch.as_str(), rule.path.as_str()) {
        ("", "") => return Err(KustomizeError::wrong("it has neither `patch` nor `path`; set one")),
        (patch, "") => patch,
        ("", path) => std::str::from_utf8(loader.load(path)?)
            .map_err(|_| KustomizeError::wrong("the patch is not UTF-8").in_file(path))?,
        _ => return Err(KustomizeError::wrong("it has both `patch` and `path`; keep one")),
    };
    let patch = JsonPatch::parse(text).map_err(|it| it.in_file(&rule.path))?;
    if patch.is_empty() {
        return Err(KustomizeError::wrong("the patch is empty").in_file(&rule.path));
    }
    Ok((selector, patch))
}

fn selected(resources: &Resources, selector: &ObjectSelector) -> Result<Vec<usize>> {
    let compiled = selector.compile()?;
    let mut found = Vec::new();
    for (at, resource) in resources.list.iter().enumerate() {
        if compiled.fits(resource)? {
            found.push(at);
        }
    }
    Ok(found)
}

fn apply_any(patch: &AnyPatch, resources: &mut Resources, cost: &Cost) -> Result<()> {
    match patch {
        AnyPatch::Merge(patches, Some(selector)) => {
            let Some(patch) = patches.first() else {
                return Ok(());
            };
            let targets = selected(resources, selector)?;
            apply_to_all(resources, &targets, patch)
        }
        AnyPatch::Merge(patches, None) => {
            for patch in patches {
                cost.steps(resources.list.len() + 1)?;
                let at = resources.the_one(&patch.original_id()?)?;
                merge_into(&mut resources.list[at], patch)?;
            }
            Ok(())
        }
        AnyPatch::Json(_, None) => Err(KustomizeError::wrong("a JSON patch needs a `target`")),
        AnyPatch::Json(patch, Some(selector)) => {
            for at in selected(resources, selector)? {
                resources.list[at].store_previous_id();
                apply_json(&mut resources.list[at], patch)?;
            }
            Ok(())
        }
    }
}

fn apply_merge(resources: &mut Resources, patch: &BuildObject) -> Result<()> {
    let at = resources.the_one(&patch.original_id()?)?;
    apply_to_all(resources, &[at], patch)
}

fn apply_to_all(resources: &mut Resources, targets: &[usize], patch: &BuildObject) -> Result<()> {
    for at in targets {
        let target = &mut resources.list[*at];
        let mut copy = patch.clone();
        // Labels and annotations become strings by that, as upstream's do.
        copy.copy_metadata_of(patch)?;
        copy.set_api_version(&target.gvk().api_version())?;
        copy.set_kind(patch.kind())?;
        merge_into(target, &copy)?;
    }
    resources.drop_empty();
    let all = std::mem::take(&mut resources.list);
    resources.append(all)
}

fn merge_into(target: &mut BuildObject, patch: &BuildObject) -> Result<()> {
    let (name, namespace, kind) = (
        target.name().to_owned(),
        target.namespace().to_owned(),
        target.kind().to_owned(),
    );
    let names_change = patch.has_annotation(ALLOW_NAME_CHANGE, ENABLED);
    let kinds_change = patch.has_annotation(ALLOW_KIND_CHANGE, ENABLED);
    let id = target.id();
    if names_change || kinds_change {
        target.store_previous_id();
    }
    let old = std::mem::replace(&mut target.node, YamlNode::empty_map());
    let merged = merge_patch::apply(old, patch.node.clone()).map_err(|error| KustomizeError {
        message: format!("{id}: {}", error.message),
        ..error
    })?;
    match merged {
        Some(node) if !node.is_empty() => target.node = node,
        _ => return Ok(()),
    }
    if !kinds_change {
        target.set_kind(&kind)?;
    }
    if !names_change {
        target.set_name(&name)?;
    }
    target.node.settle_shared();
    target.set_namespace(&namespace)
}

fn apply_json(target: &mut BuildObject, patch: &JsonPatch) -> Result<()> {
    let explain = |error: KustomizeError, id: &dyn std::fmt::Display| KustomizeError {
        message: format!("{id}: {}", error.message),
        ..error
    };
    let id = target.id();
    let internal = target.internal_annotations();
    let patched = target
        .node
        .to_json()
        .and_then(|it| patch.apply(it))
        .map_err(|it| explain(it, &id))?;
    if !patched.is_object() {
        return Err(explain(KustomizeError::wrong("the JSON patch makes no map of it"), &id));
    }
    target.node = YamlNode::of_json(&with_floats(patched));
    let mut annotations = target.annotations();
    annotations.extend(internal);
    target.set_annotations(&annotations)?;
    target.node.check_size()
}
