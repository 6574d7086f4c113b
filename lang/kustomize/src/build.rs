//! A build: the bases of a folder, its generators, its components and its transformers, in kustomize's order.
//! Upstream: api/internal/target and api/krusty.

use std::collections::HashSet;

use crate::{
    error::{KustomizeError, Result},
    generators, hash,
    kustomization::{COMPONENT, FILE_NAMES, Kustomization, read},
    limits::{BASES_DEPTH_MAX, Cost},
    order, references,
    resource::{BuildObject, LOCAL_CONFIG, NEEDS_HASH_SUFFIX, Resources, read_resources},
    transform,
    tree::{KustomizeFiles, TreeFound, is_below, is_remote, joined},
};

/// Builds a folder of the tree, and gives its objects in the order of `kustomize build`. The root is the empty path.
///
/// # Errors
/// When kustomize takes it for an error, or it needs what is not built here, or it is too large.
pub fn build(files: &KustomizeFiles, folder: &str) -> Result<Vec<serde_json::Value>> {
    let folder = joined("", folder)?;
    let builder = Builder {
        files,
        cost: Cost::default(),
    };
    let target = builder.target(&folder)?;
    let mut resources = builder.accumulate(&target, Resources::default(), &mut vec![folder.clone()])?;
    for resource in &mut resources.list {
        if resource.has_annotation(NEEDS_HASH_SUFFIX, crate::resource::ENABLED) {
            let suffix = hash::suffix(resource)?;
            resource.store_previous_id();
            let name = format!("{}-{suffix}", resource.name());
            resource.set_name(&name)?;
        }
    }
    references::fix(&mut resources)?;
    for resource in &resources.list {
        resource.check()?;
    }
    drop_local(&mut resources).map_err(|it| it.in_file(&target.file))?;
    order::sort(&mut resources.list, target.kustomization.sort.as_ref()).map_err(|it| it.in_file(&target.file))?;
    resources
        .list
        .iter_mut()
        .map(|resource| {
            let made = resource
                .remove_build_annotations()
                .and_then(|()| resource.node.to_json());
            made.map_err(|error| KustomizeError {
                message: format!("{}: {}", resource.id(), error.message),
                ..error
            })
        })
        .collect()
}

/// Drops what is for tools only; what has the same identity as something that is not stays, as it does upstream.
/// Patches may have given two objects one identity, which is an error.
fn drop_local(resources: &mut Resources) -> Result<()> {
    let is_local = |it: &BuildObject| it.annotations().get(LOCAL_CONFIG).is_some_and(|it| it != "false");
    let (local, applied): (Vec<_>, Vec<_>) = resources.list.iter().cloned().partition(is_local);
    let ids: HashSet<_> = applied.iter().map(BuildObject::id).collect();
    Resources::default().append(applied)?;
    let dropped = local.into_iter().filter(|it| !ids.contains(&it.id())).collect();
    Resources::default().append(dropped)?;
    resources.list.retain(|it| ids.contains(&it.id()));
    Ok(())
}

struct Builder<'a> {
    files: &'a KustomizeFiles,
    cost: Cost,
}

/// A folder with its kustomization file.
struct Target {
    folder: String,
    file: String,
    kustomization: Kustomization,
}

/// Reads what a kustomization file names: files in its folder and below.
pub(crate) struct Loader<'a> {
    pub(crate) files: &'a KustomizeFiles,
    pub(crate) cost: &'a Cost,
    pub(crate) folder: &'a str,
}

impl<'a> Loader<'a> {
    pub(crate) fn load(&self, entry: &str) -> Result<&'a [u8]> {
        let refused = || {
            KustomizeError::refused(format!(
                "`{entry}` is elsewhere, and nothing is fetched; put a copy of it into the tree"
            ))
        };
        let path = match joined(self.folder, entry) {
            Ok(path) => path,
            Err(_) if is_remote(entry) => return Err(refused()),
            Err(error) => return Err(error),
        };
        match self.files.find(&path)? {
            TreeFound::File(_) if !is_below(&path, self.folder) => Err(KustomizeError::refused(format!(
                "`{entry}` is outside of the folder of the kustomization file, which may read only files in it or below"
            ))),
            TreeFound::File(content) => {
                self.cost.read(content.len()).map_err(|it| it.in_file(&path))?;
                Ok(content)
            }
            TreeFound::Folder => Err(KustomizeError::wrong(format!(
                "`{entry}` is a folder, and a file is expected"
            ))),
            TreeFound::Nothing if is_remote(entry) => Err(refused()),
            TreeFound::Nothing => Err(KustomizeError::wrong(format!("there is no file `{entry}`"))),
        }
    }
}

impl Builder<'_> {
    fn target(&self, folder: &str) -> Result<Target> {
        self.cost.kustomization()?;
        let mut found = None;
        for name in FILE_NAMES {
            let path = joined(folder, name)?;
            if let TreeFound::File(content) = self.files.find(&path)? {
                if found.is_some() {
                    return Err(
                        KustomizeError::wrong("the folder has more than one kustomization file; keep one")
                            .in_file(folder),
                    );
                }
                found = Some((path, content));
            }
        }
        let Some((file, content)) = found else {
            return Err(KustomizeError::wrong(format!(
                "the folder has no kustomization file, which is called {}",
                FILE_NAMES.join(", ")
            ))
            .in_file(if folder.is_empty() { "." } else { folder }));
        };
        let kustomization = self.cost.read(content.len()).and_then(|()| read(content));
        Ok(Target {
            folder: folder.to_owned(),
            kustomization: kustomization.map_err(|it| it.in_file(&file))?,
            file,
        })
    }

    /// The objects of a folder, added to those that are there. `chain` is the folders from the root to this one.
    fn accumulate(&self, target: &Target, resources: Resources, chain: &mut Vec<String>) -> Result<Resources> {
        self.accumulated(target, resources, chain)
            .map_err(|it| it.in_file(&target.file))
    }

    fn accumulated(&self, target: &Target, mut resources: Resources, chain: &mut Vec<String>) -> Result<Resources> {
        let kustomization = &target.kustomization;
        let loader = Loader {
            files: self.files,
            cost: &self.cost,
            folder: &target.folder,
        };
        for (field, entry) in &kustomization.resources {
            let more = self
                .resource(target, &loader, entry, chain)
                .map_err(|it| it.in_field(field))?;
            resources.append(more.list).map_err(|it| it.in_field(field))?;
        }
        for (field, rules, kind) in [
            (
                "configMapGenerator",
                &kustomization.config_maps,
                generators::Generated::ConfigMap,
            ),
            ("secretGenerator", &kustomization.secrets, generators::Generated::Secret),
        ] {
            for (at, rule) in rules.iter().enumerate() {
                generators::generate(kind, rule, &loader)
                    .and_then(|it| generators::absorb(&mut resources, it))
                    .map_err(|it| it.in_field(&format!("{field}[{at}]")))?;
            }
        }
        for (at, entry) in kustomization.components.iter().enumerate() {
            let field = format!("components[{at}]");
            let (component, folder) = self.folder(target, entry, chain).map_err(|it| it.in_field(&field))?;
            if component.kustomization.kind != COMPONENT {
                return Err(KustomizeError::wrong(format!(
                    "`{entry}` is no Component; set its `kind`, or list it under `resources`"
                ))
                .in_field(&field));
            }
            chain.push(folder);
            resources = self.accumulate(&component, resources, chain)?;
            chain.pop();
        }
        transform::run(kustomization, &loader, &mut resources)?;
        Ok(resources)
    }

    /// The objects of an entry: of a file, or of a folder with a kustomization file.
    fn resource(&self, target: &Target, loader: &Loader, entry: &str, chain: &mut Vec<String>) -> Result<Resources> {
        let path = match joined(&target.folder, entry) {
            Err(_) if is_remote(entry) => String::new(),
            path => path?,
        };
        let is_folder = matches!(self.files.find(&path)?, TreeFound::Folder) && !(path.is_empty() && is_remote(entry));
        if !is_folder {
            let content = loader.load(entry)?;
            let mut found = Resources::default();
            let read = read_resources(content).and_then(|it| found.append(it));
            read.map_err(|it| it.in_file(&path))?;
            return Ok(found);
        }
        let (base, folder) = self.folder(target, entry, chain)?;
        if base.kustomization.kind == COMPONENT {
            return Err(KustomizeError::wrong(format!(
                "`{entry}` is a Component; list it under `components`"
            )));
        }
        chain.push(folder);
        let found = self.accumulate(&base, Resources::default(), chain)?;
        chain.pop();
        Ok(found)
    }

    fn folder(&self, target: &Target, entry: &str, chain: &[String]) -> Result<(Target, String)> {
        if entry.is_empty() {
            return Err(KustomizeError::wrong("the entry is empty"));
        }
        if is_remote(entry) {
            return Err(KustomizeError::refused(format!(
                "`{entry}` is elsewhere, and nothing is fetched; put a copy of it into the tree"
            )));
        }
        let folder = joined(&target.folder, entry)?;
        if !matches!(self.files.find(&folder)?, TreeFound::Folder) {
            return Err(KustomizeError::wrong(format!("there is no folder `{entry}`")));
        }
        if let Some(at) = chain.iter().position(|it| is_below(it, &folder)) {
            let shown = |it: &String| if it.is_empty() { ".".to_owned() } else { it.clone() };
            let mut circle: Vec<_> = chain[at..].iter().map(shown).collect();
            circle.push(shown(&folder));
            return Err(KustomizeError::wrong(format!(
                "the bases are in a circle: {}; a base is never a folder above",
                circle.join(" -> ")
            )));
        }
        if chain.len() >= BASES_DEPTH_MAX {
            return Err(KustomizeError::too_large(format!(
                "bases are nested deeper than {BASES_DEPTH_MAX}"
            )));
        }
        Ok((self.target(&folder)?, folder))
    }
}
